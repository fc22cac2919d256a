//! What is written in the place of media that a provider is not sent.

use super::common::placeholder;
use crate::message::{Detail, Media, Message, Part};
use crate::provider::{Format, Row, SentAs};

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

/// Returns OpenAI's word for the same; `None` if it has none.
pub(super) fn detail(detail: &Detail) -> Option<&str> {
    Some(detail.as_str()).filter(|word| ["auto", "low", "high", "original"].contains(word))
}

/// Returns whether a picture says how closely it is to be looked at, and the provider is not told.
pub(super) fn loses_detail(part: &Part, is_result: bool, row: &Row) -> bool {
    let Part::Image(Media { detail: Some(level), .. }) = part else { return false };
    let has_word = match row.format {
        Format::Gemini => resolution(level).is_some() && !is_result,
        _ => detail(level).is_some(),
    };
    *level != Detail::Auto && !(row.detail && has_word)
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
    let content = content.with_parts(|part| {
        let i = places.next()?;
        match SentAs::of(part, message, row) {
            SentAs::Itself => None,
            SentAs::Text(text) => Some(Part::text(text)),
            SentAs::Placeholder => {
                note(i, part);
                Some(Part::text(placeholder(part)))
            }
        }
    })?;
    Some(message.with_content(content))
}
