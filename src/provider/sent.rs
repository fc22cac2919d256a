//! Which media are sent to a provider, and what replaces the others. The limits of its row, the
//! counts of a budget and the writers of its format all ask this.

use super::Provider;
use super::origin::{may_say, origin_of};
use super::row::{Files, Format, Images, Row, is_common_image};
use crate::message::{Media, Message, Part, Source, base64, inline, known_type};

/// Returns a user's message or a tool's result with a text instead of each part that the provider
/// can't take, which is noted, or that it takes as a text; `None` if it takes all.
pub(crate) fn without_refused(
    message: &Message,
    row: &Row,
    mut note: impl FnMut(usize, &Part),
) -> Option<Message> {
    let content = message.content()?;
    let mut places = 0..content.parts().len();
    let content = content.with_parts(|part| {
        let i = places.next()?;
        if is_sent(part, message, row) {
            return None;
        }
        let text = text_of_file(part, row).unwrap_or_else(|| {
            note(i, part);
            placeholder(part).to_owned()
        });
        Some(Part::text(text))
    })?;
    Some(message.with_content(content))
}

/// Returns the text that replaces a part that a format can't express.
pub(crate) fn placeholder(part: &Part) -> &'static str {
    match part {
        Part::Text(_) => "[text: not supported by this format]",
        Part::Image(_) => "[image: not supported by this format]",
        Part::Audio(_) => "[audio: not supported by this format]",
        Part::Video(_) => "[video: not supported by this format]",
        Part::File(_) => "[file: not supported by this format]",
        Part::Other(_) => "[part: not supported by this format]",
    }
}

/// Returns the text of a file that is sent as text.
fn text_of_file(part: &Part, row: &Row) -> Option<String> {
    let Part::File(media) = part else { return None };
    if takes_file(media, row) { None } else { as_text(media) }
}

/// Returns whether a part is sent as itself.
pub(super) fn is_sent(part: &Part, message: &Message, row: &Row) -> bool {
    let Some(media) = part.as_media() else { return true };
    is_found(media, message, row)
        && is_taken(part, media, row)
        && has_place(part, message.is_tool(), row)
        && message.as_ai().is_none_or(|ai| may_say(ai, part, media, row))
}

/// Returns whether the provider can reach the place of the media.
fn is_found(media: &Media, message: &Message, row: &Row) -> bool {
    let has_data = || inline(media).map(|data| !data.data.is_empty());
    match &media.source {
        // Read from another provider's history, in which it means something else or nothing.
        Source::FileId(id) => match origin_of(message) {
            Some(origin) => shares_files(origin, row),
            None => !id.is_empty() && knows_id(id, row),
        },
        Source::Base64(_) => has_data().is_some_and(|has| has),
        // The name of a bucket is not sent to a provider that can't read it.
        Source::Url(url) => has_data().unwrap_or_else(|| !url.is_empty() && reaches(url, row)),
        Source::Reference(_) => true,
    }
}

/// Returns whether the provider's models read media of this kind.
fn is_taken(part: &Part, media: &Media, row: &Row) -> bool {
    match part {
        Part::Image(_) => takes_image(media, row),
        Part::Audio(_) => row.audio,
        Part::File(_) => takes_file(media, row),
        _ => true,
    }
}

/// Returns whether the format has a place for a part, in a tool message or elsewhere.
pub(crate) fn has_place(part: &Part, in_result: bool, row: &Row) -> bool {
    let Some(media) = part.as_media() else { return true };
    let is_here = || inline(media).is_some();
    let has_id = matches!(media.source, Source::FileId(_));
    match (row.format, part) {
        // A result is a text.
        (Format::OpenAi, _) if in_result => false,
        (Format::OpenAi, Part::Image(_)) => !has_id,
        (Format::OpenAi, Part::File(_)) => match row.files {
            Files::Document | Files::Address => true,
            Files::Data | Files::Pdf | Files::Never => is_here() || has_id,
        },
        (Format::OpenAi, Part::Audio(_)) => {
            (row.files == Files::Document && !has_id) || audio_format(media).is_some()
        }
        (Format::Responses, part) => matches!(part, Part::Image(_) | Part::File(_)),
        (Format::Anthropic, Part::Image(_)) => {
            inline(media).is_none_or(|data| is_common_image(data.media_type))
        }
        (Format::Anthropic, Part::File(_)) => inline(media).is_none_or(|data| {
            // A memory keeps no text beside its records: a reference, without data, is not a text.
            let is_text = data.media_type.starts_with("text/") && !data.data.is_empty();
            data.media_type == PDF || is_text && base64::text(data.data).is_some()
        }),
        (Format::Gemini, _) => has_place_at_google(media),
        (Format::Ollama, Part::Image(_)) => is_here(),
        _ => false,
    }
}

/// Returns OpenAI's name for the encoding of audio that is here, or the one that a compatible
/// server uses.
pub(crate) fn audio_format(media: &Media) -> Option<&str> {
    match inline(media)?.media_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => media.extra.get("openai")?.get("input_audio")?.get("format")?.as_str(),
    }
}

fn takes_image(media: &Media, row: &Row) -> bool {
    let takes_it = |images: Images| inline(media).is_none_or(|data| images.takes(data.media_type));
    row.images.is_some_and(takes_it)
}

/// Returns whether a provider can fetch this address. Only its owner can fetch that of a store or a
/// file of one provider. Claude and Gemini fetch no address without TLS ("Only HTTPS URLs are
/// supported.", "Unsupported file URI type").
fn reaches(url: &str, row: &Row) -> bool {
    let is_gemini = row.format == Format::Gemini;
    if url.starts_with(GEMINI_FILES) {
        return is_gemini && row.name() != VERTEX;
    }
    let scheme = url.split_once(':').map(|(scheme, _)| scheme.to_ascii_lowercase());
    match scheme.unwrap_or_default().as_str() {
        "http" | "file" if is_gemini || row.format == Format::Anthropic => false,
        "http" | "https" => row.addresses || is_youtube(url),
        "gs" => is_gemini,
        // These two fetch it by an option, and a server with a row of its own is unknown.
        "file" => is_own_or(row, &["vllm", "llama_cpp"]),
        // Data in another encoding than base64, which is not read here, and what only a browser or
        // an app can open.
        "s3" | "data" | "blob" | "content" => false,
        _ => true,
    }
}

/// Returns whether a provider may have given this id: the form of some ids shows their provider.
fn knows_id(id: &str, row: &Row) -> bool {
    let mut forms = ["file-", "file_01", "files/"].into_iter();
    let Some(form) = forms.find(|form| id.starts_with(form)) else { return true };
    let (own, hosts): (_, &[&str]) = match row.format {
        Format::Anthropic => ("file_01", &["anthropic"]),
        Format::Gemini => ("files/", &["gemini"]),
        // Azure gives such ids too.
        _ => ("file-", &["openai", "openai_responses", "azure", "litellm"]),
    };
    form == own && is_own_or(row, hosts)
}

/// Returns whether this is one of these servers, or an unknown one with a row of its own.
fn is_own_or(row: &Row, these: &[&str]) -> bool {
    Provider::of_name(row.name()).is_none() || these.contains(&row.name())
}

/// Returns whether Google has the film at this address itself.
fn is_youtube(url: &str) -> bool {
    let hosts = ["https://www.youtube.com/", "https://youtube.com/", "https://youtu.be/"];
    hosts.iter().any(|host| url.starts_with(host))
}

/// Returns whether Google finds out the type of what is at this address by itself.
fn is_googles(url: &str) -> bool {
    url.starts_with(GEMINI_FILES) || is_youtube(url)
}

/// Returns the media type by the ending of a file name.
fn type_at(url: &str) -> Option<&'static str> {
    /// Types that are named like the ending.
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

/// Returns whether Gemini's format has a place for media; it requires their type.
fn has_place_at_google(media: &Media) -> bool {
    let media_type = google_type(media);
    match &media.source {
        Source::FileId(_) => true,
        Source::Url(url) if inline(media).is_none() => {
            media_type.map_or_else(|| is_googles(url), is_read)
        }
        _ => media_type.is_some_and(is_read_as_data),
    }
}

/// Returns whether these media may be within a result of Gemini's format: some types of data, and
/// on Vertex what is in Google's storage. Others may be after it.
pub(crate) fn is_within_result(media: &Media, row: &Row) -> bool {
    const TYPES: [&str; 5] = [PDF, "image/jpeg", "image/png", "image/webp", "text/plain"];
    let is_stored = match &media.source {
        Source::Url(url) => url.starts_with("gs://") && row.name() == VERTEX,
        _ => false,
    };
    let is_held = inline(media).is_some() || is_stored;
    let is_seen = google_type(media).is_some_and(|it| TYPES.contains(&it));
    row.media_in_results && is_held && is_seen
}

/// Returns the media type for Google; `None` if it is not known.
pub(crate) fn google_type(media: &Media) -> Option<&str> {
    match (known_type(media), &media.source) {
        (Some("image/jpg"), _) => Some("image/jpeg"),
        (None, Source::Url(url)) if !is_googles(url) => type_at(url),
        (known, _) => known,
    }
}

/// Returns whether Google's API reads this type: not office documents, and some kinds of images
/// ("Unsupported MIME type").
fn is_read(media_type: &str) -> bool {
    const REFUSED: [&str; 5] =
        ["application/msword", "image/bmp", "image/gif", "image/svg+xml", "image/tiff"];
    !REFUSED.contains(&media_type) && !media_type.starts_with("application/vnd.")
}

/// Returns whether it reads data of this type: of the `application` types only PDF. By its
/// reference it reads more at an address, such as JSON.
fn is_read_as_data(media_type: &str) -> bool {
    media_type == PDF || is_read(media_type) && !media_type.starts_with("application/")
}

const VERTEX: &str = "vertex";

/// The files that were given to Gemini, which need its key.
const GEMINI_FILES: &str = "https://generativelanguage.googleapis.com/";

/// Returns whether a provider takes a file as a file. If not, a text file is sent as text.
fn takes_file(media: &Media, row: &Row) -> bool {
    match row.files {
        Files::Never => false,
        // If the data is not here, this is unknown.
        Files::Pdf => inline(media).is_none_or(|data| data.media_type == PDF),
        _ if row.format == Format::Gemini => {
            inline(media).is_none() || google_type(media).is_some_and(is_read_as_data)
        }
        _ => true,
    }
}

const PDF: &str = "application/pdf";

/// Returns the text of a file, if it is a text that says something. A PDF may be written in letters
/// alone, but is not a text.
fn as_text(media: &Media) -> Option<String> {
    let text = base64::text(inline(media).filter(|data| data.media_type != PDF)?.data)?;
    (!text.trim().is_empty() && !text.contains('\0')).then_some(text)
}

/// Returns whether a provider knows the ids of files that this one gave.
fn shares_files(origin: &str, row: &Row) -> bool {
    const OPENAI: [&str; 2] = ["openai", "openai_responses"];
    origin == row.name() || (OPENAI.contains(&origin) && OPENAI.contains(&row.name()))
}
