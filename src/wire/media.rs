//! The media that a provider can take, whatever its format has a place for.

use super::base64;
use super::common::{inline, placeholder};
use crate::message::{Content, Media, Message, Part, Source};
use crate::provider::{Files, Format, Images, Provider, Row, origin_of};

/// Returns whether this provider can't take a part of what a user sent or a tool gave: media of a
/// kind that its models don't read, or that lie where it can't look.
pub(super) fn is_refused(part: &Part, message: &Message, row: &Row) -> bool {
    let Some(media) = part.as_media() else { return false };
    let is_taken = match part {
        Part::Image(_) => takes_image(media, row),
        Part::Audio(_) => row.audio,
        Part::File(_) if row.files == Files::Pdf => is_pdf(media) || as_text(media).is_some(),
        Part::File(_) => row.files != Files::Never,
        _ => true,
    };
    let is_found = match &media.source {
        // Read from another provider's history, where it means something else or nothing.
        Source::FileId(id) => {
            origin_of(message).is_none_or(|origin| shares_files(origin, row)) && knows_id(id, row)
        }
        // The name of a bucket is not told to who can't look into it.
        Source::Url(url) => reaches(url, row),
        Source::Base64(_) => true,
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
/// one
/// provider, no other can.
fn reaches(url: &str, row: &Row) -> bool {
    let is_gemini = row.format == Format::Gemini;
    if url.starts_with(GEMINI_FILES) {
        return is_gemini && row.name() != Provider::Vertex.row().name();
    }
    !url.starts_with("s3://") && (is_gemini || !url.starts_with("gs://"))
}

/// Returns whether a provider may have given this id: the form of some tells whose they are.
fn knows_id(id: &str, row: &Row) -> bool {
    match row.format {
        Format::Anthropic => !id.starts_with("file-") && !id.starts_with("files/"),
        Format::Gemini => !id.starts_with("file-") && !id.starts_with("file_01"),
        _ => !id.starts_with("file_01") && !id.starts_with("files/"),
    }
}

/// The files that were given to Gemini, which need its key.
const GEMINI_FILES: &str = "https://generativelanguage.googleapis.com/";

/// Returns whether a file may be a PDF: of one that is not here nobody knows.
fn is_pdf(media: &Media) -> bool {
    inline(media).is_none_or(|data| data.media_type == "application/pdf")
}

/// Returns the text that a file is, if it is one that says something.
fn as_text(media: &Media) -> Option<String> {
    let text = base64::text(inline(media)?.data)?;
    (!text.trim().is_empty() && !text.contains('\0')).then_some(text)
}

/// Returns whether a provider knows the ids of files that this one gave.
fn shares_files(origin: &str, row: &Row) -> bool {
    const OPENAI: [&str; 2] = ["openai", "openai_responses"];
    origin == row.name() || (OPENAI.contains(&origin) && OPENAI.contains(&row.name()))
}

/// Returns the message with a text in place of each part that the provider can't take, or takes as
/// a
/// text; `None` where it takes all.
pub(super) fn without_refused(message: &Message, row: &Row) -> Option<Message> {
    let content = match message {
        Message::User(user) => user.content(),
        Message::Tool(tool) => tool.content(),
        _ => return None,
    };
    let instead = |part: &Part| match part {
        _ if is_refused(part, message, row) => Some(Part::text(placeholder(part))),
        Part::File(media) if row.files == Files::Pdf && !is_pdf(media) => {
            as_text(media).map(Part::text)
        }
        _ => None,
    };
    let new: Vec<_> = content.parts().iter().map(instead).collect();
    if new.iter().all(Option::is_none) {
        return None;
    }
    let parts = content.parts().iter().zip(new);
    let parts = parts.map(|(part, new)| new.unwrap_or_else(|| part.clone()));
    let parts = Content::Parts(parts.collect());
    let mut copy = message.clone();
    match &mut copy {
        Message::User(user) => user.content = parts,
        Message::Tool(tool) => tool.content = parts,
        _ => {}
    }
    Some(copy)
}
