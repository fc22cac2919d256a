//! The media that a provider can take, whatever its format has a place for.

use super::common::{inline, placeholder};
use crate::message::{Detail, Media, Message, Part, Source, base64};
use crate::provider::{Files, Format, Images, Provider, Row, origin_of};

/// Returns whether this provider can't take a part of what a user sent or a tool gave: media of a
/// kind that its models don't read, or that lie where it can't look.
fn is_refused(part: &Part, message: &Message, row: &Row) -> bool {
    let Some(media) = part.as_media() else { return false };
    let is_taken = match part {
        Part::Image(_) => takes_image(media, row),
        Part::Audio(_) => row.audio,
        Part::File(_) => takes_file(media, row) || as_text(media).is_some(),
        _ => true,
    };
    let is_found = match &media.source {
        // Read from another provider's history, where it means something else or nothing.
        Source::FileId(id) => match origin_of(message) {
            Some(origin) => shares_files(origin, row),
            None => knows_id(id, row),
        },
        // The name of a bucket is not told to who can't look into it.
        Source::Url(url) => reaches(url, row),
        Source::Base64(data) => !data.is_empty(),
        Source::Reference(_) => true,
    };
    !(is_taken && is_found)
}

fn takes_image(media: &Media, row: &Row) -> bool {
    const COMMON: [&str; 5] = ["image/gif", "image/jpeg", "image/jpg", "image/png", "image/webp"];
    match row.images {
        Images::Any => true,
        Images::Never => false,
        // One of which the kind is not known may be one of these.
        Images::Common => inline(media).is_none_or(|data| {
            !data.media_type.starts_with("image/") || COMMON.contains(&data.media_type)
        }),
    }
}

/// Returns whether a provider can look where this address leads: at that of a store or a file of
/// one provider, no other can.
fn reaches(url: &str, row: &Row) -> bool {
    let is_gemini = row.format == Format::Gemini;
    if url.starts_with(GEMINI_FILES) {
        return is_gemini && row.name() != Provider::Vertex.row().name();
    }
    if !row.addresses && url.starts_with("http") && !is_youtube(url) {
        return false;
    }
    !url.starts_with("s3://") && (is_gemini || !url.starts_with("gs://"))
}

/// Returns whether a provider may have given this id: the form of some tells whose they are.
fn knows_id(id: &str, row: &Row) -> bool {
    match row.format {
        Format::Anthropic => !id.starts_with("file-") && !id.starts_with("files/"),
        Format::Gemini => !id.starts_with("file-") && !id.starts_with("file_01"),
        _ if id.starts_with("file-") => knows_openai_files(row),
        _ => !id.starts_with("file_01") && !id.starts_with("files/"),
    }
}

/// Returns whether the ids of OpenAI's files may be known: to itself, to Azure, which gives such
/// ones too, to a proxy, and to a server of the application's own, of which nobody knows.
fn knows_openai_files(row: &Row) -> bool {
    const KNOWN: [&str; 4] = ["openai", "openai_responses", "azure", "litellm"];
    let is_named = Provider::NAMED.iter().any(|named| named.row().name() == row.name());
    !is_named || KNOWN.contains(&row.name())
}

/// Returns whether Google has the film at this address itself.
fn is_youtube(url: &str) -> bool {
    let hosts = ["https://www.youtube.com/", "https://youtube.com/", "https://youtu.be/"];
    hosts.iter().any(|host| url.starts_with(host))
}

/// Returns whether Google knows the type of what is at this address by itself.
pub(super) fn is_googles(url: &str) -> bool {
    url.starts_with(GEMINI_FILES) || is_youtube(url)
}

/// Returns the media type that the name of a file tells, by its ending.
pub(super) fn type_at(url: &str) -> Option<&'static str> {
    /// Those with the name of the ending.
    const TYPES: &str = "application/json application/pdf audio/aac audio/aiff audio/flac \
        audio/ogg audio/wav image/bmp image/gif image/heic image/heif image/jpeg image/png \
        image/tiff image/webp text/css text/csv text/html text/xml video/avi video/mov video/mp4 \
        video/mpeg video/webm video/wmv";
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let (_, path) = path.split_once("://")?;
    let (_, name) = path.rsplit_once('/')?;
    let (_, ending) = name.rsplit_once('.')?;
    let ending = ending.to_ascii_lowercase();
    match ending.as_str() {
        "htm" => Some("text/html"),
        "jpg" => Some("image/jpeg"),
        "m4a" => Some("audio/mp4"),
        "md" => Some("text/markdown"),
        "mp3" => Some("audio/mpeg"),
        "mpg" => Some("video/mpeg"),
        "svg" => Some("image/svg+xml"),
        "txt" => Some("text/plain"),
        name => TYPES.split(' ').find(|it| it.split_once('/').is_some_and(|it| it.1 == name)),
    }
}

/// Returns Google's word for how closely a picture is to be looked at; `None` if it has none.
pub(super) fn resolution(detail: &Detail) -> Option<&'static str> {
    match detail.as_str() {
        "low" => Some("MEDIA_RESOLUTION_LOW"),
        "medium" => Some("MEDIA_RESOLUTION_MEDIUM"),
        "high" => Some("MEDIA_RESOLUTION_HIGH"),
        "ultra_high" => Some("MEDIA_RESOLUTION_ULTRA_HIGH"),
        _ => None,
    }
}

/// Returns whether a picture says how closely it is to be looked at, and the provider is not told.
pub(super) fn loses_detail(part: &Part, is_result: bool, row: &Row) -> bool {
    let Part::Image(Media { detail: Some(detail), .. }) = part else { return false };
    let has_word = row.format != Format::Gemini || (resolution(detail).is_some() && !is_result);
    *detail != Detail::Auto && !(row.detail && has_word)
}

/// The files that were given to Gemini, which need its key.
pub(super) const GEMINI_FILES: &str = "https://generativelanguage.googleapis.com/";

/// Returns whether a provider takes a file as one. Where not, one that is a text is sent as a text.
fn takes_file(media: &Media, row: &Row) -> bool {
    match row.files {
        Files::Never => false,
        // Of one that is not here nobody knows.
        Files::Pdf => inline(media).is_none_or(|data| data.media_type == PDF),
        _ => true,
    }
}

const PDF: &str = "application/pdf";

/// Returns the text that a file is, if it is one that says something: a PDF may be written in
/// letters alone, and says nothing so.
fn as_text(media: &Media) -> Option<String> {
    let text = base64::text(inline(media).filter(|data| data.media_type != PDF)?.data)?;
    (!text.trim().is_empty() && !text.contains('\0')).then_some(text)
}

/// Returns whether a provider knows the ids of files that this one gave.
fn shares_files(origin: &str, row: &Row) -> bool {
    const OPENAI: [&str; 2] = ["openai", "openai_responses"];
    origin == row.name() || (OPENAI.contains(&origin) && OPENAI.contains(&row.name()))
}

/// Returns the message with a text in place of each part that the provider can't take, which is
/// noted, or takes as a text; `None` if it takes all.
pub(super) fn without_refused(
    message: &Message,
    row: &Row,
    mut note: impl FnMut(usize, &Part),
) -> Option<Message> {
    let content = message.content()?;
    let mut places = 0..content.parts().len();
    let content = content.with_parts(|part| match (places.next()?, part) {
        (i, part) if is_refused(part, message, row) => {
            note(i, part);
            Some(Part::text(placeholder(part)))
        }
        (_, Part::File(media)) if !takes_file(media, row) => as_text(media).map(Part::text),
        _ => None,
    })?;
    Some(message.with_content(content))
}
