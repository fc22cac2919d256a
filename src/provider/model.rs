//! The rules of a provider that depend on the model.

use super::Provider;
use super::name::Name;
use super::row::{Ends, Format, Opens, Row};

impl Row {
    /// Returns the row with the rules for this model.
    pub(super) fn for_model(mut self, model: &str) -> Self {
        if version("gemini", model).is_some_and(|version| version < (3, 0)) {
            self.signed_calls = false;
            self.media_in_results = false;
        }
        if self.format == Format::Gemini
            && let Some(version) = version("gemini", model)
        {
            // "Per part media resolution is not supported for this Model."
            self.detail = version >= (3, 0);
            self.signed_parts = version >= (3, 0) && model.contains("image");
            // "Invalid or unsupported file uri", of Google's own API; a custom row sets this
            // itself.
            self.addresses &= version >= (2, 5) || self.name() != Provider::Gemini.row().name();
        }
        if self.format == Format::Anthropic
            && let Some(version) = version("claude", model)
        {
            self.ends = if version < (4, 6) { Ends::Trimmed } else { Ends::WithoutAnswer };
            if version >= (4, 8) {
                self.opens = Opens::WithMessage;
            }
            // "Invalid `signature` in `thinking` block. The block is bound to a different
            // conversation."
            self.binds_thoughts = version >= (5, 1);
            // "type "tool" and "any" are not supported for this model": Fable and Mythos from 5.1,
            // Opus and Sonnet from 5.5 on. The guide to Haiku 5.5 says nothing of the kind.
            self.forced_calls &= version < (5, 1) || model.contains("haiku");
        }
        // This model does not think.
        self.forced_calls |= self.name() == "deepseek" && model == "deepseek-chat";
        self.model = Name::of_model(model);
        self
    }
}

/// Returns the version in the name of a model of this family: `claude-opus-4-8` is (4, 8),
/// `claude-3-5-haiku` (3, 5), `claude-sonnet-5` (5, 0), `gemini-2.5-pro` (2, 5). A date is not a
/// version.
pub(super) fn version(family: &str, model: &str) -> Option<(u32, u32)> {
    let at = model.rfind(family)?;
    let words = model[at..].split(|c: char| !c.is_ascii_alphanumeric()).skip(1);
    let mut numbers = words
        .skip_while(|word| !is_version(word))
        .take_while(|word| is_version(word))
        .filter_map(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

fn is_version(word: &str) -> bool {
    word.len() <= 2 && word.bytes().all(|b| b.is_ascii_digit()) && !word.is_empty()
}
