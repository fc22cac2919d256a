//! Private fields: which of them a provider takes back, and from whose answers.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::Provider;

/// The private fields that a provider takes back, and the other providers from whose answers it
/// takes them.
///
/// A conversation may outlive its first model, and one provider's field is a 400 at another. So a
/// private field is sent back to the provider that sent it and to its family, if its row lists the
/// field; a field that no row lists is never sent.
///
/// ```
/// use memory_prompt::Provider;
/// use memory_prompt::provider::{PrivateField, PrivateFields, Row};
///
/// // A gateway that takes its own `trace` back, and Anthropic's thinking if it came from there.
/// let mut row = Row::like(Provider::Anthropic, "our-gateway")?;
/// row.private = PrivateFields::ALL.from(Provider::Anthropic);
///
/// // A proxy that validates each field, and takes two of them.
/// let mut row = Row::like(Provider::OpenAiCompatible, "our-proxy")?;
/// row.private =
///     PrivateFields::NONE.with(PrivateField::Prefix).with(PrivateField::CacheControl);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrivateFields {
    all: bool,
    /// The listed [`PrivateField`]s, by bit.
    listed: u16,
    /// The other providers, by their bit in [`Provider::NAMED`].
    from: u32,
}

/// A private field that a row may list. For a server with other fields, use [`PrivateFields::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrivateField {
    /// `audio`, of OpenAI: the id of the model's speech, which is valid for an hour ("Assistant
    /// audio .. not found."). No provider lists it: what was said is sent as a text. For a model
    /// that is to hear its own voice, in a conversation that ends within the hour, use a row
    /// [like](super::Row::like) OpenAI's that lists it.
    Audio,
    /// `cache_control`, of OpenRouter, `LiteLLM` and Qwen, after Anthropic's.
    CacheControl,
    /// `custom`, of OpenAI: the type of a call with free text. Without it, the call is a
    /// function's.
    Custom,
    /// `extra_content`: Google's thought signatures in OpenAI's format.
    ExtraContent,
    /// `prefix`, of Mistral and `DeepSeek`: the model continues this answer.
    Prefix,
    /// `prompt_cache_breakpoint`, of OpenAI.
    PromptCacheBreakpoint,
    /// `provider_specific_fields`, of `LiteLLM`.
    ProviderSpecificFields,
    /// `reasoning_details`, of OpenRouter.
    ReasoningDetails,
    /// `thinking`, of Mistral: reasoning within the content.
    Thinking,
    /// `thinking_blocks`, of `LiteLLM`: Claude's signed thoughts.
    ThinkingBlocks,
}

/// The fields that a row may list, by their names on the wire.
const LISTED: [(&str, PrivateField); 10] = [
    ("audio", PrivateField::Audio),
    ("cache_control", PrivateField::CacheControl),
    ("custom", PrivateField::Custom),
    ("extra_content", PrivateField::ExtraContent),
    ("prefix", PrivateField::Prefix),
    ("prompt_cache_breakpoint", PrivateField::PromptCacheBreakpoint),
    ("provider_specific_fields", PrivateField::ProviderSpecificFields),
    ("reasoning_details", PrivateField::ReasoningDetails),
    ("thinking", PrivateField::Thinking),
    ("thinking_blocks", PrivateField::ThinkingBlocks),
];

impl PrivateFields {
    /// No field.
    pub const NONE: Self = Self { all: false, listed: 0, from: 0 };

    /// All fields, under any name.
    pub const ALL: Self = Self { all: true, listed: 0, from: 0 };

    /// Returns the same fields and one more.
    #[must_use]
    pub const fn with(mut self, field: PrivateField) -> Self {
        self.listed |= 1 << field as u16;
        self
    }

    /// Returns the same fields, taken from this provider's answers too.
    ///
    /// The provider must have a variant of its own. [`Provider::Custom`] changes nothing, and
    /// neither does the result of [`Provider::model`]: name the provider without its model. (The
    /// answers of a provider's models are that provider's.)
    #[must_use]
    pub const fn from(mut self, provider: Provider) -> Self {
        if let Some(index) = provider.index() {
            self.from |= 1 << index;
        }
        self
    }

    pub(crate) fn takes(self, name: &str) -> bool {
        self.all || field(name).is_some_and(|field| self.lists(field))
    }

    pub(crate) const fn takes_all(self) -> bool {
        self.all
    }

    /// Returns whether fields from answers of the provider with this name are taken.
    pub(super) fn takes_from(self, origin: &str) -> bool {
        let index = Provider::of_name(origin).and_then(Provider::index);
        index.is_some_and(|index| self.from & (1 << index) != 0)
    }

    fn lists(self, field: PrivateField) -> bool {
        self.listed & (1 << field as u16) != 0
    }
}

fn field(name: &str) -> Option<PrivateField> {
    LISTED.iter().find(|(listed, _)| *listed == name).map(|(_, field)| *field)
}

impl Serialize for PrivateFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed = LISTED.iter().filter(|(_, field)| self.lists(*field));
        let listed = listed.map(|(name, _)| (*name).to_owned()).collect();
        let from = Provider::NAMED.iter().filter(|named| self.takes_from(named.row().name()));
        Written { all: self.all, listed, from: from.copied().collect() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PrivateFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { all, listed, from } = Written::deserialize(deserializer)?;
        let mut fields = Self { all, ..Self::NONE };
        for name in &listed {
            let field = field(name).ok_or_else(|| {
                let known = LISTED.map(|(name, _)| name).join("`, `");
                de::Error::custom(format_args!("private fields: expected `{known}`"))
            })?;
            fields = fields.with(field);
        }
        Ok(from.into_iter().fold(fields, Self::from))
    }
}

/// The serialised form of private fields, by their names.
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(default, rename = "PrivateFields", deny_unknown_fields)]
struct Written {
    all: bool,
    listed: Vec<String>,
    from: Vec<Provider>,
}
