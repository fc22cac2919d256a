//! The detail in which a picture is to be looked at, in the words of the formats.

use crate::message::{Detail, Media, Part};
use crate::provider::{Format, Row};

/// Returns Google's word for the detail of a picture; `None` if it has none.
pub(super) fn resolution(detail: &Detail) -> Option<String> {
    let known = ["low", "medium", "high", "ultra_high"].contains(&detail.as_str());
    known.then(|| format!("MEDIA_RESOLUTION_{}", detail.as_str().to_uppercase()))
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
