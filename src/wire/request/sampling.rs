//! Sampling options, which two formats want in an object of their own.

use std::borrow::Cow;

use serde_json::Value;

use crate::message::Attributes;
use crate::provider::Format;

/// The names of options for most providers, and for Gemini.
const NAMES: [(&str, &str); 4] =
    [("temperature", "temperature"), ("top_p", "topP"), ("top_k", "topK"), ("seed", "seed")];

/// Moves sampling options of the application into the object where the format has them. If an
/// option is already there, both stay, and the provider reports the duplicate.
pub(super) fn placed(extra: &Attributes, format: Format) -> Cow<'_, Attributes> {
    let home = match format {
        Format::Gemini => "generationConfig",
        Format::Ollama => "options",
        Format::OpenAi | Format::Responses | Format::Anthropic => return Cow::Borrowed(extra),
    };
    if !NAMES.iter().any(|(name, _)| extra.contains_key(*name)) {
        return Cow::Borrowed(extra);
    }
    let mut moved = extra.clone();
    let mut inner = match moved.remove(home) {
        None => Attributes::new(),
        Some(Value::Object(inner)) => inner,
        // Not an object, which is reported elsewhere.
        Some(_) => return Cow::Borrowed(extra),
    };
    for (name, gemini) in NAMES {
        let there = if format == Format::Gemini { gemini } else { name };
        if !inner.contains_key(there)
            && let Some(value) = moved.remove(name)
        {
            inner.insert(there.to_owned(), value);
        }
    }
    moved.insert(home.to_owned(), Value::Object(inner));
    Cow::Owned(moved)
}
