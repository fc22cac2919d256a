//! The rows, one a provider.

use super::Provider;
use super::name::Name;
use super::private::PrivateField::{
    Audio, CacheControl, ExtraContent, Prefix, PromptCacheBreakpoint, ProviderSpecificFields,
    ReasoningDetails, Thinking, ThinkingBlocks,
};
use super::private::PrivateFields;
use super::row::{
    Blank, Ends, Files, Format, Ids, Images, InUrl, MaxTokens, Opens, ReasoningField, Row,
    ToolNames,
};

const fn named(name: &'static str, row: Row) -> Row {
    Row { name: Name::known(name), ..row }
}

/// Chat Completions as every server understands it that speaks it at all. A system message that
/// stands later than first is refused by many a model's template ("System message must be at the
/// beginning"), so a row says that it is taken only where the provider does.
pub(super) const COMPATIBLE: Row = Row {
    name: Name::known("openai_compatible"),
    model: None,
    format: Format::OpenAi,
    opens: Opens::WithAny,
    ends: Ends::Freely,
    blank: Blank::Never,
    alternates: false,
    ends_in_reasoning: true,
    ids: Ids::DistinctInMessage,
    joins_calls: false,
    parallel_calls: true,
    system: true,
    late_system: false,
    parses_arguments: false,
    names: true,
    refusals: false,
    images: Images::Common,
    addresses: true,
    detail: true,
    audio: true,
    files: Files::Data,
    media_in_results: true,
    signed_reasoning: false,
    signed_calls: false,
    tool_names: ToolNames::AtMost64,
    any_root: true,
    developer: false,
    reasoning: None,
    flat_text: false,
    calls_alone: false,
    forced_calls: true,
    max_tokens: MaxTokens::MaxTokens,
    asks_for_usage: true,
    ends_in_done: false,
    in_url: InUrl::Nothing,
    cache_marks: false,
    compacts: false,
    private: PrivateFields::NONE,
};

/// "Expected a string with maximum length 40" for the id of a call, by many public reports, of
/// Azure too.
pub(super) const OPENAI: Row = Row {
    late_system: true,
    ids: Ids::AtMost40,
    refusals: true,
    // "Expected a base64-encoded data URL with an application/pdf MIME type"
    files: Files::Pdf,
    // "schema must have type 'object' and not have 'oneOf'/'anyOf'/.. at the top level"
    any_root: false,
    max_tokens: MaxTokens::MaxCompletionTokens,
    cache_marks: true,
    private: PrivateFields::NONE.with(Audio).with(PromptCacheBreakpoint).from(Provider::Azure),
    ..named("openai", COMPATIBLE)
};

pub(super) const AZURE: Row = Row {
    private: PrivateFields::NONE.with(Audio).with(PromptCacheBreakpoint).from(Provider::OpenAi),
    ..named("azure", OPENAI)
};

/// "Expected a string with maximum length 64" for the id of a call.
pub(super) const RESPONSES: Row = Row {
    format: Format::Responses,
    opens: Opens::WithMessage,
    late_system: true,
    ends_in_reasoning: false,
    ids: Ids::DistinctAtMost64,
    names: false,
    any_root: false,
    // "You can drop items that came before the most recent compaction item."
    compacts: true,
    private: PrivateFields::ALL,
    ..named("openai_responses", COMPATIBLE)
};

pub(super) const ANTHROPIC: Row = Row {
    format: Format::Anthropic,
    opens: Opens::WithUser,
    // "This model does not support assistant message prefill": from Claude 4.6 on.
    ends: Ends::WithoutAnswer,
    blank: Blank::White,
    alternates: false, // neighbours of one side are joined by the provider
    ends_in_reasoning: false,
    ids: Ids::Distinct,
    joins_calls: true,
    parses_arguments: true,
    names: false,
    signed_reasoning: true,
    // "input_schema does not support oneOf, allOf, or anyOf at the top level"
    any_root: false,
    // "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    tool_names: ToolNames::AtMost128,
    // What stands before a `compaction` block is ignored, whether or not it is sent.
    compacts: true,
    images: Images::Any,
    detail: false,
    private: PrivateFields::ALL.from(Provider::ClaudeOnBedrock).from(Provider::ClaudeOnVertex),
    ..named("anthropic", COMPATIBLE)
};

/// Its Converse API takes names of at most 64 characters.
pub(super) const CLAUDE_ON_BEDROCK: Row = Row {
    tool_names: ToolNames::AtMost64,
    // InvokeModel: "`anthropic_version` .. must be bedrock-2023-05-31"
    in_url: InUrl::ModelAndStream,
    private: PrivateFields::ALL.from(Provider::Anthropic).from(Provider::ClaudeOnVertex),
    ..named("claude_on_bedrock", ANTHROPIC)
};

pub(super) const CLAUDE_ON_VERTEX: Row = Row {
    // "`model` is not passed in the request body .. `anthropic_version` is .. vertex-2023-10-16"
    in_url: InUrl::Model,
    private: PrivateFields::ALL.from(Provider::Anthropic).from(Provider::ClaudeOnBedrock),
    ..named("claude_on_vertex", ANTHROPIC)
};

/// A call must follow a user's entry. Answers in a row become one entry, and a later answer may add
/// a call to the first one: so a user message is put before an answer that comes first, whether or
/// not it calls.
///
/// "Function call is missing a `thought_signature`": from Gemini 3 on. "Invalid function name. Must
/// start with a letter or an underscore.": by many public reports.
pub(super) const GEMINI: Row = Row {
    format: Format::Gemini,
    opens: Opens::WithUser,
    blank: Blank::Empty,
    ids: Ids::Any,
    joins_calls: true,
    parses_arguments: true,
    names: false,
    signed_calls: true,
    tool_names: ToolNames::Dotted,
    images: Images::Any,
    detail: false, // from Gemini 3 on it is taken, of a model that is named
    private: PrivateFields::ALL.from(Provider::Vertex),
    ..named("gemini", COMPATIBLE)
};

pub(super) const VERTEX: Row =
    Row { private: PrivateFields::ALL.from(Provider::Gemini), ..named("vertex", GEMINI) };

/// Google's own server for OpenAI's format: the models are Gemini's, and what it refuses is what
/// they do. "`GenerateContentRequest.contents`: contents is not specified" where there is a system
/// message alone; "Function call is missing a `thought_signature`": it is in `extra_content` here.
pub(super) const GOOGLE_OPENAI: Row = Row {
    opens: Opens::WithUser,
    blank: Blank::Empty,
    parses_arguments: true,
    files: Files::Never, // "Invalid content part type: file"
    signed_calls: true,
    tool_names: ToolNames::Letter,
    private: PrivateFields::NONE.with(ExtraContent),
    ..named("google_openai", COMPATIBLE)
};

/// `mistral-common` checks each request: another field is refused with 422, `name` for one.
pub(super) const MISTRAL: Row = Row {
    opens: Opens::WithUser,
    ends: Ends::WithoutAnswer,
    blank: Blank::Empty,
    alternates: true,
    ids: Ids::Nine,
    names: false,
    files: Files::Document,
    asks_for_usage: false,
    private: PrivateFields::NONE.with(Thinking).with(Prefix),
    ..named("mistral", COMPATIBLE)
};

pub(super) const STRICT_TEMPLATE: Row = Row {
    parses_arguments: true,
    files: Files::Never, // as vLLM and llama.cpp
    asks_for_usage: true,
    private: PrivateFields::NONE,
    ..named("strict_template", MISTRAL)
};

/// 400 where an answer with calls comes back without its `reasoning_content`. "unknown variant
/// `image_url`, expected `text`". By public reports of the reasoner: "The system message .. must be
/// put on the beginning of the message sequence", "The first message (except the system message)
/// .. must be a user message", "The last message .. must be a user message, or an assistant message
/// with prefix mode on".
pub(super) const DEEPSEEK: Row = Row {
    opens: Opens::WithUser,
    ends: Ends::WithoutAnswer,
    images: Images::Never,
    audio: false,
    files: Files::Never,
    reasoning: Some(ReasoningField::ReasoningContent),
    forced_calls: false,
    private: PrivateFields::NONE.with(Prefix),
    ..named("deepseek", COMPATIBLE)
};

/// "for 'role:assistant' the following must be satisfied: property 'reasoning' is unsupported", and
/// so for each property that is not in the reference, its own `channel` among them. Of media it has
/// a place for images.
pub(super) const GROQ: Row = Row { audio: false, files: Files::Never, ..named("groq", COMPATIBLE) };

pub(super) const OPENROUTER: Row = Row {
    reasoning: Some(ReasoningField::Reasoning),
    files: Files::Address,
    cache_marks: true,
    private: PrivateFields::NONE.with(CacheControl).with(ReasoningDetails),
    ..named("openrouter", COMPATIBLE)
};

/// Its guide to chat: messages of any role may stand in any order.
pub(super) const XAI: Row = Row { late_system: true, ..named("xai", COMPATIBLE) };

pub(super) const LITELLM: Row = Row {
    reasoning: Some(ReasoningField::ReasoningContent),
    cache_marks: true,
    images: Images::Any,
    private: PrivateFields::NONE
        .with(CacheControl)
        .with(ProviderSpecificFields)
        .with(ThinkingBlocks),
    ..named("litellm", COMPATIBLE)
};

/// It renders templates of its own, which refuse no order. It has no field for a choice of tools.
pub(super) const OLLAMA: Row = Row {
    format: Format::Ollama,
    opens: Opens::Freely,
    late_system: true,
    ids: Ids::Any,
    parses_arguments: true,
    names: false,
    tool_names: ToolNames::Any,
    images: Images::Any,
    detail: false,
    forced_calls: false,
    private: PrivateFields::ALL,
    ..named("ollama", COMPATIBLE)
};

/// It reads the arguments of earlier calls again, for the template (400 from 0.24 to 0.25.1).
/// Templates decide on the order: those of Qwen from 3.5 on refuse a system message that is not the
/// first ("System message must be at the beginning", 400 here and 500 of llama.cpp), and a prompt
/// that holds no user message ("No user query found in messages").
pub(super) const VLLM: Row = Row {
    opens: Opens::WithUser,
    parses_arguments: true,
    reasoning: Some(ReasoningField::Reasoning),
    tool_names: ToolNames::Any,
    images: Images::Any,
    files: Files::Never, // "Unknown part type: file"; llama.cpp: "unsupported content[].type"
    private: PrivateFields::ALL,
    ..named("vllm", COMPATIBLE)
};

/// It reads the arguments of earlier calls again, and answers 500; the templates are those of
/// [`VLLM`].
pub(super) const LLAMA_CPP: Row =
    Row { reasoning: Some(ReasoningField::ReasoningContent), ..named("llama_cpp", VLLM) };
