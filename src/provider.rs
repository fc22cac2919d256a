//! Providers as data: one row each.
//!
//! CONTRIBUTING.md describes how to add a provider. A server that only one application uses needs
//! none of this: see [`Provider::custom`].

mod definition;
mod hosted;
mod load;
mod media;
mod model;
mod name;
mod origin;
mod picture_tokens;
mod private;
mod row;
mod schema;
mod sent;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
mod server;
mod table;
mod tools;

use std::fmt;

use serde::de::{
    self, Deserialize, Deserializer, MapAccess, Visitor, value::MapAccessDeserializer,
};
use serde::ser::{Serialize, Serializer};

pub(crate) use definition::{Definition, as_sent};
pub(crate) use hosted::{hosted_blocks, hosted_call, hosted_caller, hosted_result, without_hosted};
pub(crate) use load::{Load, is_picture};
pub use media::MediaLimits;
pub(crate) use origin::{
    attributes, given_by, goes_back, has_fields, holds_compaction, is_emptied, is_free_text,
    is_private, may_be_private, origin, outgoing, outgoing_past, remember_origin, remember_origins,
    without_compaction, without_foreign_parts,
};
pub use private::{PrivateField, PrivateFields};
pub(crate) use row::is_common_image;
pub use row::{
    Blank, Ends, Files, Format, Ids, Images, InUrl, MaxTokens, Opens, ReasoningField, Row,
    ToolNames,
};
pub(crate) use schema::{CHOICES, over_limits};
pub(crate) use sent::{
    audio_format, google_type, has_place, is_within_result, placeholder, without_refused,
};
#[cfg(any(feature = "reqwest", feature = "ureq"))]
pub(crate) use server::{KeyHeader, Server};

/// The provider that a prompt is for: the composer then sends nothing that the provider refuses
/// with status 400.
///
/// The table is by family; the [row](Self::row) of each provider has its differences.
///
/// | | OpenAI chat | OpenAI Responses | Anthropic | Gemini | Mistral, strict templates | Ollama |
/// |---|---|---|---|---|---|---|
/// | a result without its call, a call without its result | refused | refused | refused | refused | refused | - |
/// | a prompt without any message | refused | refused, even with instructions | refused, even with a system text | as Anthropic | as Anthropic | - |
/// | a first message that is not the user's | refused by DeepSeek, vLLM, llama.cpp, Google's server | - | refused | refused where it calls a tool | refused | - |
/// | two messages of one side in a row | - | - | joined by the provider | - | refused | - |
/// | a user message right after a tool result | - | - | - | - | refused | - |
/// | blank text | refused by xAI and Google's server | - | refused, white space too | refused if there is nothing else | refused in answers | - |
/// | an answer that ends in reasoning | - | refused | refused | - | - | - |
/// | two calls with one id | refused in one message | refused | refused | - | refused in one message | - |
/// | a call id that is not nine letters or digits | - | - | - | - | refused | - |
/// | a second or late system message | taken by OpenAI, Azure, xAI; refused by many templates | - | no such role | no such role | refused | - |
/// | a call without a signature | refused by Google's server from Gemini 3 on | - | - | refused from Gemini 3 on, as the first of an answer | - | - |
/// | an answer without its reasoning | refused by DeepSeek, which takes an empty one | - | - | - | - | - |
/// | a tool's name with other characters than letters, digits, `_` and `-`, or above 64 | refused | refused | refused, above 128 | `.` and `:` are taken, a digit in front is not | refused | - |
/// | a call id that is too long | above 40 characters | above 64 characters | - | - | - | - |
/// | an answer at the end | refused by DeepSeek, llama.cpp | - | refused from Claude 4.6 on; before, white space at its end is | - | refused | - |
/// | a choice of tools that demands a call | refused by DeepSeek while it thinks | - | refused by Claude Fable 5.1, Opus 5.5 and Sonnet 5.5 | - | - | no such field |
/// | arguments that are not a JSON object | refused by vLLM, llama.cpp, `LiteLLM`, `SGLang` | - | refused | refused | refused by templates | refused |
/// | images as data that are not PNG, JPEG, GIF or WebP | refused; GIF by xAI and Google's server, WebP by xAI and llama.cpp too | refused | refused | HEIC is taken, GIF is refused | refused | refused, GIF too, and WebP by servers before August 2026 |
/// | another provider's fields | refused by servers that validate, such as Groq | refused | refused | refused | refused | - |
///
/// # What the composer does about it
///
/// A window that opens in the middle of a turn is sent with the question of that turn before it, as
/// with [`starting_with_user`](crate::Window::starting_with_user). A window that cuts nothing off
/// leaves nothing out for that: if the conversation itself begins with an answer (a greeting, an
/// agent that starts by itself), or has no user message at all, a user message
/// `(start of the conversation)` is put before it. If that would be the only message, and there is
/// no system message before it, the build is an error.
///
/// Everything else is repaired in copies, and each repair is in the [`Report`](crate::Report):
///
/// - A blank user message becomes `(empty message)`, an empty tool result `(no output)`; an answer
///   that says nothing is left out, and so are blank texts next to others.
/// - Neighbouring messages of one side become one message, their texts as paragraphs of one text,
///   media as parts; for Anthropic and Gemini, neighbouring answers with calls do, followed by all
///   results.
/// - A system message among the records stays in its place for OpenAI, Azure, xAI and Ollama, and
///   is left out for the others.
/// - An answer, `(no answer)`, is put between a tool result and a user message.
/// - Call ids that would collide, are too long or empty, or have another form than the provider's,
///   are replaced, both in the call and in its result. If only some characters are not allowed in
///   an id, the writer replaces them with `_` on the wire (`call.1` as `call_1`): the prompt keeps
///   the id, and the report does not list a repair.
/// - Names of tools that were called under another provider's rule are replaced by the allowed part
///   of the name and letters that identify the whole, the same in every prompt.
/// - A call that Gemini did not make gets the signature that Google's reference names for such
///   calls. For its models that make pictures, so do texts and pictures.
/// - If the model was cut off within arguments, they are sent as a text: `{"arguments": ".."}`.
/// - A part of an answer that only another provider understands (a search that it ran, a summary of
///   its own), or that the provider's format has no place for (a picture that a model made), is
///   left out. Media of a user message or a result, and a user's own words, become a placeholder.
/// - A user message, `(continue)`, is put after an answer at the end; if the model would continue
///   that answer, the white space at its end is left out instead. An answer that is marked as a
///   `prefix`, for Mistral and `DeepSeek`, is not changed.
/// - A blank user message is left out if it would be joined to a neighbour.
///
/// Reasoning is never edited. If a provider refuses reasoning after the last text or call of an
/// answer, that reasoning is left out.
///
/// Temporaries are never dropped, and their words never changed: a blank one is an error, and so is
/// a tool result without its call, or an answer at the end that would be refused. If neighbours
/// must be one message, a temporary may become a paragraph or part of its neighbour; its call ids
/// follow the rule too.
///
/// With [`ToolGroups::FailOnRepair`](crate::window::ToolGroups::FailOnRepair), every repair is an
/// error of kind [`Provider`](crate::ErrorKind::Provider) instead, which names the message and the
/// rule; only temporaries may still be joined to their neighbours. With
/// [`ToolGroups::Off`](crate::window::ToolGroups::Off), the caller is responsible for calls and
/// results, and the other rules hold.
///
/// If a rule depends on the model, the stricter version holds unless [`model`](Self::model) names
/// the model; it lists the exceptions.
///
/// # Pictures and documents
///
/// A provider refuses a request with too many pictures or documents, or too many bytes of them, and
/// then every later request of the conversation. So a row says [how many](Row::media) there may be,
/// and a prompt never has more. Older ones are replaced by a placeholder that names their position,
/// as with [`Clear::media`](crate::Clear::media); from an answer they are left out. The
/// [report](crate::Report::media_from) has the position from which they are sent. That position
/// moves only occasionally: each move leaves between half of the limit and all of it, so that the
/// cached beginning of a prompt lasts.
///
/// Pins and temporaries are never replaced, and what no answer has seen yet is replaced last. If
/// one picture alone is too large, it is replaced if it is older or from a tool. If it belongs to a
/// new question, is pinned or is temporary, the build is an error that names it. Only what is sent
/// counts: a film that is sent as a text does not. Nothing is scaled down. A replacement is not a
/// repair, and is no error where repairs are errors.
///
/// # Fields that only one provider understands
///
/// An answer remembers its provider ([`wire::answer`](crate::wire::answer)), and its private fields
/// are sent back only to that provider and its family: Anthropic, Bedrock and Vertex are one for
/// Claude. A row says [which fields](PrivateFields) a provider takes back. A field that no row
/// lists is never sent, unless a view is asked for all of them
/// ([`verbatim`](crate::wire::openai::Messages::verbatim)). Answers that were stored without their
/// origin are sent to providers that list their fields.
///
/// # Sources
///
/// The providers' references and clients' sources, and public reports of the errors, as of 2026;
/// for Mistral its own `mistral-common` validator and its published chat templates, which vLLM and
/// llama.cpp run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::large_enum_variant, reason = "it is `Copy`, and few are ever held")]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI Chat Completions.
    OpenAi,
    /// OpenAI Responses.
    OpenAiResponses,
    /// OpenAI Chat Completions on Azure.
    Azure,
    /// Anthropic's Messages API.
    #[doc(alias = "Claude")]
    Anthropic,
    /// Anthropic's Messages on Amazon Bedrock.
    #[doc(alias = "Bedrock")]
    ClaudeOnBedrock,
    /// Anthropic's Messages on Google's Vertex AI.
    ClaudeOnVertex,
    /// Google's Gemini API.
    #[doc(alias = "Google")]
    Gemini,
    /// Gemini on Google's Vertex AI.
    #[doc(alias = "VertexAI")]
    Vertex,
    /// Google's OpenAI-compatible server.
    GoogleOpenAi,
    /// Mistral's API.
    Mistral,
    /// `DeepSeek`'s API.
    DeepSeek,
    /// Groq's API.
    Groq,
    /// `OpenRouter`.
    OpenRouter,
    /// xAI's API.
    #[doc(alias = "Grok")]
    Xai,
    /// A `LiteLLM` proxy.
    LiteLlm,
    /// Ollama's own API, which takes nearly everything.
    Ollama,
    /// vLLM, with a chat template that takes most orders, as newer ones do, but neither a late
    /// system message nor a prompt without a user message.
    Vllm,
    /// The llama.cpp server, with such a template. A model that thinks refuses an answer at the end
    /// of a prompt.
    #[doc(alias = "llama.cpp")]
    LlamaCpp,
    /// Any other server of OpenAI's format: it gets what most of them take, and no private fields.
    /// Some refuse [files](Row::files) or [audio](Row::audio), which are sent.
    OpenAiCompatible,
    /// A server that runs the model's own chat template, such as vLLM, llama.cpp and LM Studio, if
    /// the template wants user and model to alternate and refuses everything else.
    ///
    /// | family | as it is | what to change in a [`Row`] |
    /// |---|---|---|
    /// | Mistral and Mixtral from v0.3, Ministral, Devstral, Magistral | works | |
    /// | Mistral 7B v0.1 and v0.2, Gemma 1 and 2 | no system message | [`system`](Row::system) |
    /// | Llama 2, Gemma 3 and 3n | works without tools | |
    /// | Llama 3.1 to 3.3 | one call an answer | [`parallel_calls`](Row::parallel_calls) |
    /// | Qwen, Phi, DeepSeek, Granite | need none of this | [`Vllm`](Self::Vllm) or [`LlamaCpp`](Self::LlamaCpp) |
    ///
    /// The templates of Gemma 1 to 3n, Llama 2 and Mistral's first two have no tools at all: they
    /// refuse a tool group in any order, or drop it silently.
    ///
    /// ```
    /// use memory_prompt::provider::Row;
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::{Composer, Message, Provider};
    ///
    /// let mut gemma = Row::like(Provider::StrictTemplate, "gemma-2")?;
    /// gemma.system = false;
    /// let composer = Composer::new().system("Be brief.").for_provider(Provider::custom(gemma));
    /// let prompt = composer.compose_all(&Snapshot::from_messages([Message::user("hi")]), &[])?;
    /// assert_eq!(prompt.to_messages(), [Message::user("Be brief.\n\nhi")]);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    StrictTemplate,
    /// A server of your own: see [`Provider::custom`].
    Custom(Row),
}

impl Provider {
    /// Returns the provider that this row describes: a gateway, a proxy, a server of your own.
    ///
    /// ```
    /// use memory_prompt::Provider;
    /// use memory_prompt::provider::Row;
    ///
    /// let mut row = Row::like(Provider::OpenAi, "our-gateway")?;
    /// row.late_system = false;
    /// assert_eq!(Provider::custom(row).row().name(), "our-gateway");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub const fn custom(row: Row) -> Self {
        Self::Custom(row)
    }

    /// Returns the provider with one of its models. A [request](crate::wire::Request) of a prompt
    /// that is composed for it names that model, and some rules depend on it: Claude from 4.6 on
    /// refuses an answer at the end of a prompt, and older ones continue it; from 4.8 on a prompt
    /// may begin with an answer; Gemini from 3 on refuses calls without a signature and takes the
    /// detail of a picture, and models before 2.5 can't fetch media from an address. Without a
    /// model, the stricter rules hold, except for what Gemini's later models take and older ones
    /// refuse: media at an address, and media in a tool's result.
    ///
    /// A name of more than 255 bytes is not kept: its rules hold, and a request names the model if
    /// the name is given [there](crate::wire::Request::model) too.
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::{Composer, Message, Provider};
    ///
    /// let history = Snapshot::from_messages([Message::user("A rhyme?"), Message::ai("Roses are ")]);
    /// let composed = |provider: Provider| {
    ///     Composer::new().for_provider(provider).compose_all(&history, &[])
    /// };
    /// let prompt = composed(Provider::Anthropic.model("claude-3-5-haiku-latest"))?;
    /// assert_eq!(prompt[1].text(), "Roses are"); // continued, and refused with the blank
    /// assert_eq!(composed(Provider::Anthropic)?[2], Message::user("(continue)"));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn model(self, model: &str) -> Self {
        Self::Custom(self.row().for_model(model))
    }

    pub(crate) fn named_model(&self) -> Option<&str> {
        if let Self::Custom(row) = self { row.model() } else { None }
    }

    /// Returns the provider with this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        Self::NAMED.iter().copied().find(|named| named.row().name() == name)
    }

    /// Returns the format of this provider.
    pub const fn format(self) -> Format {
        self.row().format
    }
}

/// Generates everything that iterates over the named providers from one list.
///
/// A variant that is missing from the list is a compiler error, since `row` then does not match it.
macro_rules! named {
    ($($variant:ident: $row:ident,)*) => {
        impl Provider {
            /// The providers with names. Their order is not stored anywhere: stored rows name them.
            pub(crate) const NAMED: &'static [Self] = &[$(Self::$variant),*];

            /// Returns the row that describes this provider.
            pub const fn row(self) -> Row {
                match self {
                    $(Self::$variant => table::$row,)*
                    Self::Custom(row) => row,
                }
            }

            /// Returns the place in [`NAMED`](Self::NAMED).
            const fn index(self) -> Option<u32> {
                enum Place {
                    $($variant),*
                }
                match self {
                    $(Self::$variant => Some(Place::$variant as u32),)*
                    Self::Custom(_) => None,
                }
            }
        }
    };
}

named! {
    OpenAi: OPENAI,
    OpenAiResponses: RESPONSES,
    Azure: AZURE,
    Anthropic: ANTHROPIC,
    ClaudeOnBedrock: CLAUDE_ON_BEDROCK,
    ClaudeOnVertex: CLAUDE_ON_VERTEX,
    Gemini: GEMINI,
    Vertex: VERTEX,
    GoogleOpenAi: GOOGLE_OPENAI,
    Mistral: MISTRAL,
    DeepSeek: DEEPSEEK,
    Groq: GROQ,
    OpenRouter: OPENROUTER,
    Xai: XAI,
    LiteLlm: LITELLM,
    Ollama: OLLAMA,
    Vllm: VLLM,
    LlamaCpp: LLAMA_CPP,
    OpenAiCompatible: COMPATIBLE,
    StrictTemplate: STRICT_TEMPLATE,
}

impl fmt::Display for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::StrictTemplate => f.pad("a strict chat template"),
            Self::Custom(row) => match Self::of_name(row.name()) {
                Some(named) => named.fmt(f),
                None => f.pad(row.name()),
            },
            named => f.pad(&named.row().name().replace('_', " ")),
        }
    }
}

impl Serialize for Provider {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Custom(row) => row.serialize(serializer),
            named => serializer.serialize_str(named.row().name()),
        }
    }
}

impl<'de> Deserialize<'de> for Provider {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrRow;
        impl<'de> Visitor<'de> for NameOrRow {
            type Value = Provider;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the name of a provider, or a row")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Provider, E> {
                Provider::of_name(name).ok_or_else(|| {
                    let known = Provider::NAMED.iter().map(|it| format!("`{}`", it.row().name()));
                    let known = known.collect::<Vec<_>>().join(", ");
                    E::custom(format_args!("unknown variant `{name}`, expected one of {known}"))
                })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Provider, A::Error> {
                Row::deserialize(MapAccessDeserializer::new(map)).map(Provider::Custom)
            }
        }
        deserializer.deserialize_any(NameOrRow)
    }
}
