//! The detail in which a picture is to be looked at, in the words of the formats.

use crate::message::{Detail, Media, Part};
use crate::provider::{Format, Row};

/// Returns Google's word for the detail of a picture; `None` if it has none.
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

/// Returns whether a picture names a detail that is not sent to the provider.
pub(super) fn loses_detail(part: &Part, is_result: bool, row: &Row) -> bool {
    let Part::Image(Media { detail: Some(level), .. }) = part else { return false };
    let has_word = match row.format {
        Format::Gemini => resolution(level).is_some() && !is_result,
        _ => detail(level).is_some(),
    };
    *level != Detail::Auto && !(row.detail && has_word)
}
