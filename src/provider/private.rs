//! The fields that only one provider understands: which of them a provider takes back, and from
//! whose answers.

use serde::de::{self, Deserialize, Deserializer};
use serde::ser::{Serialize, SerializeStruct, Serializer};

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
/// use memory_prompt::provider::{PrivateFields, Row};
///
/// // A gateway that wants its own `trace` back, and Anthropic's thinking where it came from there.
/// let mut row = Row::like(Provider::Anthropic, "our-gateway")?;
/// row.private = PrivateFields::ALL.from(Provider::Anthropic);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PrivateFields {
    /// All of them.
    all: bool,
    /// Those of [`LISTED`], by bit.
    listed: u16,
    /// Those of [`Provider::NAMED`], by bit.
    from: u32,
}

/// The private fields that a row may list, by the name that they have on the wire.
const LISTED: [&str; 9] = [
    "audio",                    // OpenAI: what the model spoke, by id
    "cache_control",            // OpenRouter, LiteLLM and Qwen, after Anthropic
    "extra_content",            // Google's thought signatures where it speaks OpenAI's format
    "prefix",                   // Mistral, DeepSeek: the answer goes on where this one stops
    "prompt_cache_breakpoint",  // OpenAI
    "provider_specific_fields", // LiteLLM
    "reasoning_details",        // OpenRouter
    "thinking",                 // Mistral: reasoning among what is said
    "thinking_blocks",          // LiteLLM: Claude's thoughts, signed
];

impl PrivateFields {
    /// None at all.
    pub const NONE: Self = Self { all: false, listed: 0, from: 0 };

    /// Whatever it sent.
    pub const ALL: Self = Self { all: true, listed: 0, from: 0 };

    /// Returns the same fields and one more: one of `audio`, `cache_control`, `extra_content`,
    /// `prefix`, `prompt_cache_breakpoint`, `provider_specific_fields`, `reasoning_details`,
    /// `thinking` and `thinking_blocks`. Another name changes nothing: [`ALL`](Self::ALL) is for a
    /// server whose fields this version does not know.
    #[must_use]
    pub fn with(mut self, field: &str) -> Self {
        self.listed |= bit(field);
        self
    }

    /// The same for names that are written here.
    pub(super) const fn listing(listed: u16) -> Self {
        Self { all: false, listed, from: 0 }
    }

    /// Returns the same fields, taken from this provider's answers too.
    #[must_use]
    pub const fn from(mut self, provider: Provider) -> Self {
        if let Some(index) = provider.index() {
            self.from |= 1 << index;
        }
        self
    }

    /// Returns whether a field of this name is taken back.
    pub(crate) fn takes(self, field: &str) -> bool {
        self.all || self.listed & bit(field) != 0
    }

    /// Returns whether everything is taken back.
    pub(crate) const fn takes_all(self) -> bool {
        self.all
    }

    /// Returns whether fields of an answer of the provider of this name are taken.
    pub(super) fn takes_from(self, origin: &str) -> bool {
        let named = Provider::NAMED.iter().position(|provider| provider.row().name() == origin);
        named.is_some_and(|index| self.from & (1 << index) != 0)
    }
}

fn bit(field: &str) -> u16 {
    LISTED.iter().position(|listed| *listed == field).map_or(0, |index| 1 << index)
}

pub(super) const AUDIO: u16 = 1;
pub(super) const CACHE_CONTROL: u16 = 1 << 1;
pub(super) const EXTRA_CONTENT: u16 = 1 << 2;
pub(super) const PREFIX: u16 = 1 << 3;
pub(super) const BREAKPOINT: u16 = 1 << 4;
pub(super) const SPECIFIC: u16 = 1 << 5;
pub(super) const DETAILS: u16 = 1 << 6;
pub(super) const THINKING: u16 = 1 << 7;
pub(super) const THINKING_BLOCKS: u16 = 1 << 8;

impl Serialize for PrivateFields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_struct("PrivateFields", 3)?;
        map.serialize_field("all", &self.all)?;
        let listed = LISTED.iter().filter(|field| self.listed & bit(field) != 0);
        map.serialize_field("listed", &listed.collect::<Vec<_>>())?;
        let named = Provider::NAMED.iter().enumerate();
        let from = named.filter(|(index, _)| self.from & (1 << index) != 0);
        map.serialize_field("from", &from.map(|(_, provider)| provider).collect::<Vec<_>>())?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for PrivateFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            #[serde(default)]
            all: bool,
            #[serde(default)]
            listed: Vec<String>,
            #[serde(default)]
            from: Vec<Provider>,
        }
        let Written { all, listed, from } = Written::deserialize(deserializer)?;
        if listed.iter().any(|field| bit(field) == 0) {
            let known = LISTED.join("`, `");
            return Err(de::Error::custom(format_args!("private fields: expected `{known}`")));
        }
        let fields = Self { all, ..Self::NONE };
        let fields = listed.iter().fold(fields, |fields, field| fields.with(field));
        Ok(from.into_iter().fold(fields, Self::from))
    }
}
