//! The fields that only one provider understands: those that a provider takes back, and the
//! providers from whose answers it does.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use super::Provider;

/// The private fields that a provider takes back, and the providers from whose answers it takes
/// them besides its own.
///
/// A conversation outlives the model that began it, and what one provider sent is a 400 at another.
/// So a private field goes back to the one that sent it and to its family, if its row says that it
/// is wanted; a field that no row lists goes to nobody.
///
/// ```
/// use memory_prompt::Provider;
/// use memory_prompt::provider::{PrivateField, PrivateFields, Row};
///
/// // A gateway that wants its own `trace` back, and Anthropic's thinking where it came from there.
/// let mut row = Row::like(Provider::Anthropic, "our-gateway")?;
/// row.private = PrivateFields::ALL.from(Provider::Anthropic);
///
/// // A proxy that checks each field, and takes two of them.
/// let mut row = Row::like(Provider::OpenAiCompatible, "our-proxy")?;
/// row.private =
///     PrivateFields::NONE.with(PrivateField::Prefix).with(PrivateField::CacheControl);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PrivateFields {
    /// All of them.
    all: bool,
    /// Those of [`PrivateField`], by bit.
    listed: u16,
    /// Those of [`Provider::NAMED`], by bit.
    from: u32,
}

/// A private field that a row may list. For a server whose fields are not among these there is
/// [`PrivateFields::ALL`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PrivateField {
    /// `audio`, of OpenAI: what the model spoke, by id.
    Audio,
    /// `cache_control`, of OpenRouter, `LiteLLM` and Qwen, after Anthropic.
    CacheControl,
    /// `extra_content`: Google's thought signatures where it speaks OpenAI's format.
    ExtraContent,
    /// `prefix`, of Mistral and `DeepSeek`: the answer goes on where this one stops.
    Prefix,
    /// `prompt_cache_breakpoint`, of OpenAI.
    PromptCacheBreakpoint,
    /// `provider_specific_fields`, of `LiteLLM`.
    ProviderSpecificFields,
    /// `reasoning_details`, of OpenRouter.
    ReasoningDetails,
    /// `thinking`, of Mistral: reasoning among what is said.
    Thinking,
    /// `thinking_blocks`, of `LiteLLM`: Claude's thoughts, signed.
    ThinkingBlocks,
}

/// The fields that a row may list, by the name that they have on the wire.
const LISTED: [(&str, PrivateField); 9] = [
    ("audio", PrivateField::Audio),
    ("cache_control", PrivateField::CacheControl),
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

    /// All fields, whatever they are called.
    pub const ALL: Self = Self { all: true, listed: 0, from: 0 };

    /// Returns the same fields and one more.
    #[must_use]
    pub const fn with(mut self, field: PrivateField) -> Self {
        self.listed |= 1 << field as u16;
        self
    }

    /// Returns the same fields, taken from this provider's answers too.
    ///
    /// It is one with a variant of its own. [`Provider::Custom`] changes nothing, and so does one
    /// that [`Provider::model`] returned: name the provider without its model. (The answers of a
    /// provider's models are that provider's.)
    #[must_use]
    pub const fn from(mut self, provider: Provider) -> Self {
        if let Some(index) = provider.index() {
            self.from |= 1 << index;
        }
        self
    }

    /// Returns whether a field of this name is taken back.
    pub(crate) fn takes(self, name: &str) -> bool {
        self.all || field(name).is_some_and(|field| self.lists(field))
    }

    /// Returns whether everything is taken back.
    pub(crate) const fn takes_all(self) -> bool {
        self.all
    }

    /// Returns whether fields of an answer of the provider of this name are taken.
    pub(super) fn takes_from(self, origin: &str) -> bool {
        let index = Provider::of_name(origin).and_then(Provider::index);
        index.is_some_and(|index| self.from & (1 << index) != 0)
    }

    fn lists(self, field: PrivateField) -> bool {
        self.listed & (1 << field as u16) != 0
    }
}

/// Returns the field of this name.
fn field(name: &str) -> Option<PrivateField> {
    LISTED.iter().find(|(listed, _)| *listed == name).map(|(_, field)| *field)
}

impl Serialize for PrivateFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let listed = LISTED.iter().filter(|(_, field)| self.lists(*field)).map(|(name, _)| *name);
        let from = Provider::NAMED.iter().filter(|named| self.takes_from(named.row().name()));
        Written {
            all: self.all,
            listed: listed.map(str::to_owned).collect(),
            from: from.copied().collect(),
        }
        .serialize(serializer)
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

/// Private fields as they are written in settings, by their names.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(rename = "PrivateFields", deny_unknown_fields)]
struct Written {
    #[serde(default)]
    all: bool,
    #[serde(default)]
    listed: Vec<String>,
    #[serde(default)]
    from: Vec<Provider>,
}
