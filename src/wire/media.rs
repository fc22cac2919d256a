//! The media that a provider can take, whatever its format has a place for.

use super::common::{inline, placeholder};
use crate::message::{Content, Media, Message, Part, Source};
use crate::provider::{Files, Format, Images, Row, origin_of};

/// Returns whether this provider can't take a part of what a user sent or a tool gave: media of a
/// kind that its models don't read, or that lie where it can't look.
pub(super) fn is_refused(part: &Part, message: &Message, row: &Row) -> bool {
    let Some(media) = part.as_media() else { return false };
    let is_taken = match part {
        Part::Image(_) => takes_image(media, row),
        Part::Audio(_) => row.audio,
        Part::File(_) => row.files != Files::Never,
        _ => true,
    };
    let is_found = match &media.source {
        // Read from another provider's history, where it means something else or nothing.
        Source::FileId(_) => origin_of(message).is_none_or(|origin| shares_files(origin, row)),
        // The name of a bucket is not told to who can't look into it.
        Source::Url(url) => row.format == Format::Gemini || !url.starts_with("gs://"),
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

/// Returns whether a provider knows the ids of files that this one gave.
fn shares_files(origin: &str, row: &Row) -> bool {
    const OPENAI: [&str; 2] = ["openai", "openai_responses"];
    origin == row.name() || (OPENAI.contains(&origin) && OPENAI.contains(&row.name()))
}

/// Returns the message with a text in place of each part that the provider can't take; `None` where
/// it takes all.
pub(super) fn without_refused(message: &Message, row: &Row) -> Option<Message> {
    let content = match message {
        Message::User(user) => user.content(),
        Message::Tool(tool) => tool.content(),
        _ => return None,
    };
    let refused = |part: &Part| is_refused(part, message, row);
    if !content.parts().iter().any(refused) {
        return None;
    }
    let sent =
        |part: &Part| if refused(part) { Part::text(placeholder(part)) } else { part.clone() };
    let parts = Content::Parts(content.parts().iter().map(sent).collect());
    let mut copy = message.clone();
    match &mut copy {
        Message::User(user) => user.content = parts,
        Message::Tool(tool) => tool.content = parts,
        _ => {}
    }
    Some(copy)
}
