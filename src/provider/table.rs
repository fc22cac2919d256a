//! The rows, one per provider.

use super::Provider;
use super::media::MediaLimits;
use super::name::Name;
use super::private::PrivateField::{
    CacheControl, Custom, ExtraContent, Prefix, PromptCacheBreakpoint, ProviderSpecificFields,
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

/// A million bytes, as limits are documented.
const MB: u32 = 1_000_000;

/// Returns the size of a file in base64, as it is sent.
const fn sent(file: u32) -> u32 {
    file / 3 * 4
}

/// Chat Completions in the form that every compatible server understands. Many models' templates
/// refuse a late system message ("System message must be at the beginning"), so a row allows it
/// only if the provider documents it.
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
    // LiteLLM, SGLang and others parse them, and answer 400 or 500.
    parses_arguments: true,
    names: true,
    refusals: false,
    images: Some(Images::COMMON),
    addresses: true,
    detail: true,
    audio: true,
    files: Files::Data,
    media: MediaLimits::NONE,
    media_in_results: true,
    signed_reasoning: false,
    binds_thoughts: false,
    signed_calls: false,
    signed_parts: false,
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

/// "Expected a string with maximum length 40" for the id of a call, by many public reports, also of
/// Azure.
pub(super) const OPENAI: Row = Row {
    late_system: true,
    parses_arguments: false,
    ids: Ids::AtMost40,
    refusals: true,
    // "Expected a base64-encoded data URL with an application/pdf MIME type"
    files: Files::Pdf,
    // "schema must have type 'object' and not have 'oneOf'/'anyOf'/.. at the top level"
    any_root: false,
    max_tokens: MaxTokens::MaxCompletionTokens,
    cache_marks: true,
    private: PrivateFields::NONE.with(Custom).with(PromptCacheBreakpoint).from(Provider::Azure),
    // Its guide to images: "Up to 500 individual image inputs per request", "Up to 50 MB total
    // payload size per request", "Up to 20 MB per image"; to files: 50 MB of all together.
    media: MediaLimits {
        pictures: Some(500),
        picture_bytes: Some(sent(20 * MB)),
        bytes: Some(48 * MB),
        ..MediaLimits::NONE
    },
    ..named("openai", COMPATIBLE)
};

pub(super) const AZURE: Row = Row {
    private: PrivateFields::NONE.with(Custom).with(PromptCacheBreakpoint).from(Provider::OpenAi),
    // Its guide to vision: "there is a limit of 10 images per chat request"; "The image size must
    // be greater than zero and cannot exceed 20971520 bytes."
    media: MediaLimits {
        pictures: Some(10),
        picture_bytes: Some(sent(20_971_520)),
        ..OPENAI.media
    },
    ..named("azure", OPENAI)
};

/// "Expected a string with maximum length 64" for the id of a call.
pub(super) const RESPONSES: Row = Row {
    format: Format::Responses,
    opens: Opens::WithMessage,
    late_system: true,
    ends_in_reasoning: false,
    ids: Ids::DistinctAtMost64,
    parses_arguments: false,
    cache_marks: true,
    names: false,
    any_root: false,
    // "You can drop items that came before the most recent compaction item."
    compacts: true,
    private: PrivateFields::ALL,
    media: OPENAI.media,
    ..named("openai_responses", COMPATIBLE)
};

pub(super) const ANTHROPIC: Row = Row {
    format: Format::Anthropic,
    opens: Opens::WithUser,
    // "This model does not support assistant message prefill": from Claude 4.6 on.
    ends: Ends::WithoutAnswer,
    blank: Blank::White,
    ends_in_reasoning: false,
    ids: Ids::Distinct,
    joins_calls: true,
    names: false,
    signed_reasoning: true,
    // "input_schema does not support oneOf, allOf, or anyOf at the top level"
    any_root: false,
    // "String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
    tool_names: ToolNames::AtMost128,
    // What comes before a `compaction` block is ignored, whether or not it is sent.
    compacts: true,
    detail: false,
    private: PrivateFields::ALL.from(Provider::ClaudeOnBedrock).from(Provider::ClaudeOnVertex),
    // "too many images and documents: 120 + 0 > 100" (of models with a context of 200,000 tokens;
    // 600 of others, by its guide to vision); "image exceeds 5 MB maximum: .. bytes > 5242880
    // bytes", which is in base64; 32 MB for a request; 8000 pixels a side, and "image dimensions
    // exceed max allowed size for many-image requests: 2000 pixels" with more than 20.
    media: MediaLimits {
        together: Some(100),
        picture_bytes: Some(5_242_880),
        bytes: Some(30 * MB),
        side: Some(8_000),
        many: Some((20, 2_000)),
        ..MediaLimits::NONE
    },
    ..named("anthropic", COMPATIBLE)
};

/// Its Converse API takes names of at most 64 characters. "URL sources are not supported", by many
/// public reports, also of Vertex.
pub(super) const CLAUDE_ON_BEDROCK: Row = Row {
    addresses: false,
    tool_names: ToolNames::AtMost64,
    // InvokeModel: "`anthropic_version` .. must be bedrock-2023-05-31"
    in_url: InUrl::ModelAndStream,
    private: PrivateFields::ALL.from(Provider::Anthropic).from(Provider::ClaudeOnVertex),
    // Its reference of a message: "up to 20 images", "up to five documents. Each document's size
    // must be no more than 4.5 MB"; 20 MB for a request, by Anthropic's guide.
    media: MediaLimits {
        pictures: Some(20),
        documents: Some(5),
        document_bytes: Some(sent(4_500_000)),
        bytes: Some(18 * MB),
        ..ANTHROPIC.media
    },
    ..named("claude_on_bedrock", ANTHROPIC)
};

pub(super) const CLAUDE_ON_VERTEX: Row = Row {
    addresses: false,
    // "`model` is not passed in the request body .. `anthropic_version` is .. vertex-2023-10-16"
    in_url: InUrl::Model,
    private: PrivateFields::ALL.from(Provider::Anthropic).from(Provider::ClaudeOnBedrock),
    // 30 MB for a request, by Anthropic's guide.
    media: MediaLimits { bytes: Some(28 * MB), ..ANTHROPIC.media },
    ..named("claude_on_vertex", ANTHROPIC)
};

/// A call must follow a user's entry. Answers in a row become one entry, and a later answer may add
/// a call to the first one: so a user message is put before a leading answer, with or without
/// calls.
///
/// "Function call is missing a `thought_signature`": from Gemini 3 on. "Invalid function name. Must
/// start with a letter or an underscore.": by many public reports.
pub(super) const GEMINI: Row = Row {
    format: Format::Gemini,
    opens: Opens::WithUser,
    blank: Blank::Empty,
    ids: Ids::Any,
    joins_calls: true,
    names: false,
    signed_calls: true,
    tool_names: ToolNames::Dotted,
    images: Some(Images::ANY),
    detail: false, // from Gemini 3 on it is taken, of a model that is named
    private: PrivateFields::ALL,
    // Its guide to images: "a maximum of 3,600 image files per request", and 20 MB for a request
    // with everything in it; later pages say 100 MB, for some models.
    media: MediaLimits { pictures: Some(3_600), bytes: Some(18 * MB), ..MediaLimits::NONE },
    ..named("gemini", COMPATIBLE)
};

/// `Unknown name "id" at 'contents[1].parts[0].function_call': Cannot find field.`, by many public
/// reports. "Corrupted thought signature.", of one that Gemini's own API gave, and the other way
/// round: so neither is of the other's family.
pub(super) const VERTEX: Row = Row {
    ids: Ids::Unwritten,
    // Its pages of the models: 3,000 images, 900 of Gemini 3 Pro's preview; 7 MB each as data. Its
    // reference: of HTTP URLs "up to 10 image files per request".
    media: MediaLimits {
        pictures: Some(900),
        fetched_pictures: Some(10),
        picture_bytes: Some(sent(7 * MB)),
        ..GEMINI.media
    },
    ..named("vertex", GEMINI)
};

/// Google's own server for OpenAI's format: the models are Gemini's, and refuse the same.
/// "`GenerateContentRequest.contents`: contents is not specified" for a system message alone;
/// "Function call is missing a `thought_signature`": it is in `extra_content` here.
pub(super) const GOOGLE_OPENAI: Row = Row {
    opens: Opens::WithUser,
    blank: Blank::Empty,
    images: Some(Images { gif: false, heic: true, ..Images::COMMON }),
    files: Files::Never, // "Invalid content part type: file"
    signed_calls: true,
    tool_names: ToolNames::Letter,
    private: PrivateFields::NONE.with(ExtraContent),
    media: GEMINI.media,
    ..named("google_openai", COMPATIBLE)
};

/// `mistral-common` validates each request: an unknown field, such as `name`, is refused with 422.
pub(super) const MISTRAL: Row = Row {
    opens: Opens::WithUser,
    ends: Ends::WithoutAnswer,
    blank: Blank::Empty,
    alternates: true,
    ids: Ids::Nine,
    parses_arguments: false,
    names: false,
    files: Files::Document,
    asks_for_usage: false,
    private: PrivateFields::NONE.with(Thinking).with(Prefix),
    // Its guide to vision: 8 images a request, of 10 MB each.
    media: MediaLimits {
        pictures: Some(8),
        picture_bytes: Some(sent(10 * MB)),
        ..MediaLimits::NONE
    },
    ..named("mistral", COMPATIBLE)
};

pub(super) const STRICT_TEMPLATE: Row = Row {
    parses_arguments: true,
    files: Files::Never, // like vLLM and llama.cpp
    asks_for_usage: true,
    private: PrivateFields::NONE,
    media: MediaLimits::NONE,
    ..named("strict_template", MISTRAL)
};

/// "The `reasoning_content` in the thinking mode must be passed back to the API": by public reports
/// of V4 also of answers that came without it or from elsewhere, for which an empty one is taken.
/// "unknown variant `image_url`, expected `text`". By public reports of the reasoner: "The system
/// message .. must be put on the beginning of the message sequence", "The first message (except the
/// system message) .. must be a user message", "The last message .. must be a user message, or an
/// assistant message with prefix mode on".
pub(super) const DEEPSEEK: Row = Row {
    opens: Opens::WithUser,
    ends: Ends::WithoutAnswer,
    parses_arguments: false,
    images: None,
    audio: false,
    files: Files::Never,
    reasoning: Some(ReasoningField::ReasoningContentAlways),
    forced_calls: false,
    private: PrivateFields::NONE.with(Prefix),
    ..named("deepseek", COMPATIBLE)
};

/// "for 'role:assistant' the following must be satisfied: property 'reasoning' is unsupported", and
/// the same for each property that is not in the reference, its own `channel` included. Of media it
/// takes images.
pub(super) const GROQ: Row = Row {
    parses_arguments: false,
    audio: false,
    files: Files::Never,
    // Its guide to vision: five images a request, and 4 MB for one that holds some as data.
    media: MediaLimits { pictures: Some(5), bytes: Some(3_800_000), ..MediaLimits::NONE },
    ..named("groq", COMPATIBLE)
};

pub(super) const OPENROUTER: Row = Row {
    parses_arguments: false,
    reasoning: Some(ReasoningField::Reasoning),
    files: Files::Address,
    cache_marks: true,
    private: PrivateFields::NONE.with(CacheControl).with(ReasoningDetails),
    ..named("openrouter", COMPATIBLE)
};

/// Its guide to chat: messages of any role may be in any order. By public reports: "An empty
/// message was provided. Every message needs at least one non-empty content element."
pub(super) const XAI: Row = Row {
    blank: Blank::Empty,
    late_system: true,
    parses_arguments: false,
    // Its guide to images: "Maximum image size: 20MiB", "Maximum number of images: No limit",
    // "Supported image file types: jpg/jpeg or png".
    images: Some(Images::LEAST),
    media: MediaLimits { picture_bytes: Some(sent(20_971_520)), ..MediaLimits::NONE },
    ..named("xai", COMPATIBLE)
};

pub(super) const LITELLM: Row = Row {
    reasoning: Some(ReasoningField::ReasoningContent),
    cache_marks: true,
    images: Some(Images::ANY),
    private: PrivateFields::NONE
        .with(CacheControl)
        .with(ProviderSpecificFields)
        .with(ThinkingBlocks),
    ..named("litellm", COMPATIBLE)
};

/// It renders its own templates, which take any order. It has no field for a choice of tools.
/// "invalid image type: image/webp", of servers before August 2026: later ones take WebP.
pub(super) const OLLAMA: Row = Row {
    format: Format::Ollama,
    opens: Opens::Freely,
    late_system: true,
    ids: Ids::Any,
    names: false,
    tool_names: ToolNames::Any,
    images: Some(Images::LEAST),
    detail: false,
    forced_calls: false,
    private: PrivateFields::ALL,
    ..named("ollama", COMPATIBLE)
};

/// It parses the arguments of earlier calls for the template (400 from 0.24 to 0.25.1). Templates
/// decide about the order: those of Qwen from 3.5 on refuse a system message that is not the first
/// ("System message must be at the beginning", 400 here and 500 from llama.cpp), and a prompt
/// without a user message ("No user query found in messages").
pub(super) const VLLM: Row = Row {
    opens: Opens::WithUser,
    reasoning: Some(ReasoningField::Reasoning),
    tool_names: ToolNames::Any,
    files: Files::Never, // "Unknown part type: file"; llama.cpp: "unsupported content[].type"
    private: PrivateFields::ALL,
    ..named("vllm", COMPATIBLE)
};

/// It parses the arguments of earlier calls, and answers 500; the templates are those of [`VLLM`].
/// "Assistant response prefill is incompatible with `enable_thinking`.", and for any model "Cannot
/// have 2 or more assistant messages at the end of the list.". Its reader of images knows no WebP
/// and no HEIC ("Failed to load image or audio file").
pub(super) const LLAMA_CPP: Row = Row {
    ends: Ends::WithoutAnswer,
    reasoning: Some(ReasoningField::ReasoningContent),
    images: Some(Images { webp: false, ..Images::COMMON }),
    ..named("llama_cpp", VLLM)
};
