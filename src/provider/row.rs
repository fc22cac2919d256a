//! A provider as data.

use serde::{Deserialize, Serialize};

use super::Provider;
use super::media::MediaLimits;
use super::name::{ModelName, Name};
use super::private::PrivateFields;
use crate::error::Result;

/// A provider as data: its format, what it refuses, and what it wants to get.
///
/// Begin with the row of a similar provider, change the differences, and use it with
/// [`Provider::custom`]. As JSON, it is an object with the names of these fields. All fields except
/// `name` and `format` may be missing; their default is that of [`Provider::OpenAiCompatible`].
///
/// ```
/// use memory_prompt::Provider;
/// use memory_prompt::provider::{Ends, Row};
///
/// let mut row = Row::like(Provider::OpenAiCompatible, "our-gateway")?;
/// row.ends = Ends::WithoutAnswer;
/// row.audio = false;
/// let gateway = Provider::custom(row);
/// assert_eq!(gateway.to_string(), "our-gateway");
///
/// let settings = serde_json::to_string(&gateway)?;
/// assert_eq!(serde_json::from_str::<Provider>(&settings)?, gateway);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule by itself")]
#[non_exhaustive]
pub struct Row {
    pub(super) name: Name,
    /// The model, if one was [named](Provider::model).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model: Option<ModelName>,
    /// The format of its requests and answers.
    pub format: Format,
    /// How a prompt must begin.
    #[serde(default)]
    pub opens: Opens,
    /// How a prompt must end.
    #[serde(default)]
    pub ends: Ends,
    /// Which texts count as blank and are refused.
    #[serde(default)]
    pub blank: Blank,
    /// True if user and model must alternate: no two neighbours of one side, and no user message
    /// after a tool result.
    #[serde(default)]
    pub alternates: bool,
    /// True if an answer may end in reasoning, without a text or call after it.
    #[serde(default = "yes")]
    pub ends_in_reasoning: bool,
    /// The form of call ids.
    #[serde(default)]
    pub ids: Ids,
    /// True if neighbouring answers with calls count as one answer with all their calls.
    #[serde(default)]
    pub joins_calls: bool,
    /// True if an answer may have several calls. If false, each call is sent with its result as an
    /// answer of its own.
    #[serde(default = "yes")]
    pub parallel_calls: bool,
    /// True if there are system messages. If false, the text of the system message is put in front
    /// of the first user message.
    #[serde(default = "yes")]
    pub system: bool,
    /// True if a system message may be among the other messages: OpenAI, Azure, xAI and Ollama
    /// document this. For all others it is false, also for a server that runs the model's own chat
    /// template: many of those answer 400 ("System message must be at the beginning"). For a model
    /// whose template takes it, use a row of your own.
    ///
    /// It is false for Anthropic. Claude Opus 4.8, and most later models, take late system
    /// messages, but each must be directly after a user message or tool results, before an answer
    /// or at the end, and not next to another one. An application that appends them only there sets
    /// this in a row [like](Self::like) Anthropic's. (Amazon Bedrock documents it for Opus 4.8;
    /// older models answer 400, and according to public notes of the client's users, Sonnet 5 does
    /// not take them either.) It is not the default for such models because the composer does not
    /// guarantee these places: it moves no system message, and a window, a pin or a late result may
    /// separate one from the message that it follows.
    ///
    /// If [`system`](Self::system) is false, this has no effect.
    ///
    /// ```
    /// use memory_prompt::provider::Row;
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::anthropic;
    /// use memory_prompt::{Composer, Message, Provider};
    /// use serde_json::json;
    ///
    /// let mut row = Row::like(Provider::Anthropic.model("claude-opus-4-8"), "claude-4-8")?;
    /// row.late_system = true;
    /// row.private = row.private.from(Provider::Anthropic); // the answers of the same server
    /// let history = Snapshot::from_messages([
    ///     Message::user("hi"),
    ///     Message::system("Answer in French."),
    ///     Message::ai("Bonjour."),
    ///     Message::user("And now?"),
    /// ]);
    /// let composer = Composer::new().system("Be brief.").for_provider(Provider::custom(row));
    /// let prompt = composer.compose_all(&history, &[])?;
    /// assert_eq!(json!(anthropic::system(&prompt)), "Be brief.");
    /// let late = &json!(anthropic::messages(&prompt))[1];
    /// assert_eq!(late, &json!({"role": "system", "content": "Answer in French."}));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[serde(default)]
    pub late_system: bool,
    /// True if the server parses the arguments of earlier calls, and fails on those that are not a
    /// JSON object because the model was cut off within them.
    #[serde(default = "yes")]
    pub parses_arguments: bool,
    /// True if a message may carry the speaker's name.
    #[serde(default = "yes")]
    pub names: bool,
    /// True if a refusal of the model may be a block of its own in an answer. If false, it is a
    /// text like others.
    #[serde(default)]
    pub refusals: bool,
    /// The images that it takes; `None`, in JSON `null`, if the models read only text.
    #[serde(default = "common_images")]
    pub images: Option<Images>,
    /// True if the models look at media at any public address.
    #[serde(default = "yes")]
    pub addresses: bool,
    /// True if a picture may say in which detail it is to be looked at.
    #[serde(default = "yes")]
    pub detail: bool,
    /// True if a user may send audio.
    #[serde(default = "yes")]
    pub audio: bool,
    /// The shape of files.
    #[serde(default)]
    pub files: Files,
    /// The pictures and documents that one request takes: older ones give way, see
    /// [`Provider`](Provider#pictures-and-documents).
    #[serde(default)]
    pub media: MediaLimits,
    /// True if media from a tool are sent in its result, as far as the format takes them there.
    /// Otherwise they are sent after it: Google's models before Gemini 3 refuse all media in a
    /// result.
    #[serde(default = "yes")]
    pub media_in_results: bool,
    /// True if reasoning without a signature is refused.
    #[serde(default)]
    pub signed_reasoning: bool,
    /// True if signed reasoning is refused once anything before it has changed: by a window, a
    /// temporary, a summary or another system message. The reasoning of answers before the running
    /// turn is then left out, so that it is never refused because of changes between turns. Claude
    /// Fable and Mythos from 5.1, and Opus, Sonnet and Haiku from 5.5 on do so, if the model is
    /// named.
    #[serde(default)]
    pub binds_thoughts: bool,
    /// True if the first call of an answer is refused without a signature: calls of another model
    /// are marked with the signature that the reference names for them. In OpenAI's format it is in
    /// `extra_content`, as in Google's server.
    #[serde(default)]
    pub signed_calls: bool,
    /// True if the first text or picture of an answer, and each further picture, is refused without
    /// a signature, in Gemini's format: those that came without one are marked in the same way.
    /// Gemini's models that make pictures do so from 3 on, if the model is named.
    #[serde(default)]
    pub signed_parts: bool,
    /// Which names a tool may have.
    #[serde(default)]
    pub tool_names: ToolNames,
    /// True if the schema of a tool's parameters may be a choice at its root: `oneOf`, `anyOf`,
    /// `allOf`.
    #[serde(default = "yes")]
    pub any_root: bool,
    /// True if the system message is called `developer`.
    #[serde(default)]
    pub developer: bool,
    /// The field in which a server of OpenAI's format takes reasoning back; `None` if it takes
    /// none.
    #[serde(default)]
    pub reasoning: Option<ReasoningField>,
    /// True if content is always a string, never a list of texts.
    #[serde(default)]
    pub flat_text: bool,
    /// True if an answer with calls must not have text.
    #[serde(default)]
    pub calls_alone: bool,
    /// True if a request may demand a call. If false, a [choice](crate::wire::ToolChoice::Required)
    /// that demands one is an error: DeepSeek's models refuse it while they think, which they do
    /// unless a request turns it off, and so do Claude Fable and Mythos from 5.1, Opus and Sonnet
    /// from 5.5 on, if the model is named.
    #[serde(default = "yes")]
    pub forced_calls: bool,
    /// The name of the limit of answer tokens on a server of OpenAI's format. Each other format has
    /// only one name for it.
    #[serde(default)]
    pub max_tokens: MaxTokens,
    /// True if a stream of OpenAI's format reports its usage only on request. If false, it always
    /// does, or refuses the request.
    #[serde(default = "yes")]
    pub asks_for_usage: bool,
    /// True if a stream of OpenAI's format may end in `[DONE]` without a reason why the answer
    /// stops.
    #[serde(default)]
    pub ends_in_done: bool,
    /// Which parts of a request are in its URL instead of its body. In Gemini's format, the model
    /// and the stream always are.
    #[serde(default)]
    pub in_url: InUrl,
    /// True if a server of one of OpenAI's formats takes cache marks: `cache_control` in chat if
    /// [`private`](Self::private) lists it and no `prompt_cache_breakpoint`, else that. If false,
    /// several texts of an answer or a result in chat without other fields are joined into one
    /// string, since many servers take no list there.
    #[serde(default)]
    pub cache_marks: bool,
    /// True if the server compacts a long conversation by itself. An item (a block) of type
    /// `compaction` in an answer of it or its family then replaces everything before it, which is
    /// not sent to it. If false, such an item is like any other.
    #[serde(default)]
    pub compacts: bool,
    /// The private fields that it takes back.
    #[serde(default)]
    pub private: PrivateFields,
}

impl Row {
    /// Returns another provider's row under a new name, to be changed.
    ///
    /// It is then another provider. Private content of the old one's answers, such as signed
    /// reasoning, is sent to it only if [`private`](Self::private) takes it
    /// [from](PrivateFields::from) the old one; file ids of the old one are not sent. Rules for
    /// addresses that only Vertex AI has depend on its name.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the name is not 1 to 31 letters,
    /// digits, `_`, `-` and `.`.
    pub fn like(provider: Provider, name: &str) -> Result<Self> {
        Ok(Self { name: Name::of(name)?, ..provider.row() })
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Returns the name of the model, if one was [named](Provider::model).
    pub fn model(&self) -> Option<&str> {
        self.model.as_ref().map(Name::as_str)
    }

    /// Returns whether a system message may come after others.
    pub(crate) fn takes_late_system(&self) -> bool {
        self.system && self.late_system
    }

    /// Returns whether private fields are taken from answers of the provider with this name. `None`
    /// is an answer that an older version stored without its origin: it may be any provider's, and
    /// is taken.
    pub(crate) fn takes_from(&self, origin: Option<&str>) -> bool {
        origin.is_none_or(|origin| origin == self.name() || self.private.takes_from(origin))
    }
}

#[expect(clippy::unnecessary_wraps, reason = "serde asks so")]
fn common_images() -> Option<Images> {
    Some(Images::COMMON)
}

fn yes() -> bool {
    true
}

/// The format of a provider's requests and answers: a module of [`wire`](crate::wire).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Format {
    /// OpenAI Chat Completions: [`wire::openai`](crate::wire::openai).
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Responses: [`wire::responses`](crate::wire::responses).
    Responses,
    /// Anthropic's Messages: [`wire::anthropic`](crate::wire::anthropic).
    Anthropic,
    /// Google's `generateContent`: [`wire::gemini`](crate::wire::gemini).
    Gemini,
    /// Ollama's `/api/chat`: [`wire::ollama`](crate::wire::ollama).
    Ollama,
}

/// How a prompt must begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Opens {
    /// With any message; a prompt may also be empty.
    Freely,
    /// With any message, and there must be one: a system message alone is enough.
    #[default]
    WithAny,
    /// With any message except the system message.
    WithMessage,
    /// With a user message, after the system message.
    WithUser,
}

/// How a prompt must end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ends {
    /// In any way.
    #[default]
    Freely,
    /// In any way; if in an answer, which the model continues, without white space at its end.
    Trimmed,
    /// With a message of the user or a tool: an answer is refused instead of continued.
    WithoutAnswer,
}

/// The texts that count as blank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Blank {
    /// None: any text is taken.
    #[default]
    Never,
    /// The empty text.
    Empty,
    /// White space too.
    White,
}

impl Blank {
    pub(crate) fn is(self, text: &str) -> bool {
        match self {
            Self::Never => false,
            Self::Empty => text.is_empty(),
            Self::White => text.trim().is_empty(),
        }
    }
}

/// The form of call ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ids {
    /// Any id.
    Any,
    /// Any id, and in Gemini's format none is written: a result answers by its name and its place.
    /// In other formats this is [`Any`](Self::Any).
    #[doc(alias = "None")]
    Unwritten,
    /// Not empty, and distinct within one message.
    #[default]
    DistinctInMessage,
    /// The same, and at most 40 characters.
    AtMost40,
    /// Not empty, and distinct in the whole prompt.
    Distinct,
    /// The same, and at most 64 characters.
    DistinctAtMost64,
    /// Nine letters or digits, and distinct within one message.
    Nine,
}

/// Which parts of a request are in its URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InUrl {
    /// Nothing: everything is in the body.
    #[default]
    Nothing,
    /// The model, as on Vertex AI for Claude: the body names Vertex's version of the API.
    Model,
    /// The model and whether it streams, as on Amazon Bedrock for Claude: the body names Bedrock's
    /// version of the API.
    ModelAndStream,
}

impl InUrl {
    /// Returns the version of Anthropic's API for the body.
    pub(crate) fn anthropic_version(self) -> Option<&'static str> {
        match self {
            Self::Nothing => None,
            Self::Model => Some("vertex-2023-10-16"),
            Self::ModelAndStream => Some("bedrock-2023-05-31"),
        }
    }
}

/// Which names a tool may have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolNames {
    /// Any name.
    Any,
    /// 1 to 64 letters, digits, `_` and `-`.
    #[default]
    AtMost64,
    /// 1 to 128 letters, digits, `_` and `-`.
    AtMost128,
    /// 1 to 64 letters, digits, `_`, `-`, `.` and `:`; the first is a letter or `_`.
    Dotted,
    /// Names that both [`AtMost64`](Self::AtMost64) and [`Dotted`](Self::Dotted) allow.
    Letter,
}

impl ToolNames {
    /// Returns whether a tool may have this name.
    ///
    /// ```
    /// use memory_prompt::provider::ToolNames;
    ///
    /// assert!(ToolNames::Dotted.allow("mail.send") && !ToolNames::AtMost64.allow("mail.send"));
    /// ```
    pub fn allow(self, name: &str) -> bool {
        let most = match self {
            Self::Any => return true,
            Self::AtMost128 => 128,
            Self::AtMost64 | Self::Dotted | Self::Letter => 64,
        };
        let begins = |b: &u8| b.is_ascii_alphabetic() || *b == b'_';
        let wants_letter = matches!(self, Self::Dotted | Self::Letter);
        (1..=most).contains(&name.len())
            && name.bytes().all(|b| self.takes(b))
            && (!wants_letter || name.as_bytes().first().is_some_and(begins))
    }

    /// Returns whether this byte may occur in a name, after the first byte.
    pub(crate) fn takes(self, b: u8) -> bool {
        let is_dotted = self == Self::Dotted && matches!(b, b'.' | b':');
        b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-') || is_dotted
    }
}

/// The images that a server takes as data, from users and tools, in addition to PNG and JPEG. Only
/// the server looks at an image at an address. The format may still have no place for a kind:
/// Anthropic's has none for HEIC, Gemini's none for GIF.
///
/// As JSON, kinds that are not named are not taken: `{"webp": true}` is PNG, JPEG and WebP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each kind of image is a fact of its own")]
pub struct Images {
    /// GIF.
    pub gif: bool,
    /// WebP.
    pub webp: bool,
    /// HEIC and HEIF.
    pub heic: bool,
    /// All others that the format has a place for.
    pub others: bool,
}

impl Images {
    /// PNG and JPEG alone.
    #[doc(alias = "PNG_AND_JPEG")]
    pub const LEAST: Self = Self { gif: false, webp: false, heic: false, others: false };
    /// These, GIF and WebP, which are all that most servers take.
    pub const COMMON: Self = Self { gif: true, webp: true, ..Self::LEAST };
    /// Any that the format has a place for.
    pub const ANY: Self = Self { heic: true, others: true, ..Self::COMMON };

    /// Returns whether data of this media type are taken. Those of an unknown kind may be.
    pub(crate) fn takes(self, media_type: &str) -> bool {
        match media_type {
            "image/png" | "image/jpeg" | "image/jpg" => true,
            "image/gif" => self.gif,
            "image/webp" => self.webp,
            "image/heic" | "image/heif" => self.heic,
            other => self.others || !other.starts_with("image/"),
        }
    }
}

/// Returns whether this is the media type of an image that nearly all servers take.
pub(crate) fn is_common_image(media_type: &str) -> bool {
    media_type.starts_with("image/") && Images::COMMON.takes(media_type)
}

/// The form of files in OpenAI's format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// As data, or by the id that the provider gave.
    #[default]
    Data,
    /// The same, but only PDFs are taken as data: a text file is sent as text.
    Pdf,
    /// As data, by id, or by address instead of the data.
    Address,
    /// As Mistral takes them: `document_url`, or a bare `file_id`; audio as its data or address
    /// alone.
    Document,
    /// Not at all: a file that is a text is sent as one.
    Never,
}

/// The name of the limit of answer tokens on a server of OpenAI's format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MaxTokens {
    /// `max_tokens`: nearly all servers.
    #[default]
    MaxTokens,
    /// `max_completion_tokens`: OpenAI, whose reasoning models refuse the older name.
    MaxCompletionTokens,
}

impl MaxTokens {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::MaxTokens => "max_tokens",
            Self::MaxCompletionTokens => "max_completion_tokens",
        }
    }
}

/// The name of the model's reasoning on a server of OpenAI's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasoningField {
    /// `reasoning_content`: many servers.
    ReasoningContent,
    /// The same in each answer, empty if it has none: DeepSeek.
    ReasoningContentAlways,
    /// `reasoning`: vLLM, OpenRouter and others.
    Reasoning,
}
