//! The options of sampling, which two formats want in an object of their own.

use std::borrow::Cow;

use serde_json::Value;

use crate::message::Attributes;
use crate::provider::Format;

/// The name that an option has for most providers, and Gemini's.
const NAMES: [(&str, &str); 4] =
    [("temperature", "temperature"), ("top_p", "topP"), ("top_k", "topK"), ("seed", "seed")];

/// Returns what the application adds, with such options in the object in which the format has
/// them. One that stands there already is left to be told by the provider.
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
        // It is no object, which is an error elsewhere.
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
