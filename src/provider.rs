//! Providers, and the rules of each.

mod rules;

use serde::{Deserialize, Serialize};

pub(crate) use rules::{Blank, Ids, Opens, Rules};

/// The provider that a prompt is for: the composer then sends nothing that it refuses with
/// status 400.
///
/// | | OpenAI chat | OpenAI Responses | Anthropic | Gemini | Mistral, strict templates | Ollama |
/// |---|---|---|---|---|---|---|
/// | a result without its call, a call without its result | refused | refused | refused | refused | refused | - |
/// | a prompt without any message | refused | refused, even with instructions | refused, even with a system text | as Anthropic | as Anthropic | - |
/// | a first message that is not the user's | - | - | refused | refused where it calls a tool | refused | - |
/// | two messages of one side in a row | - | - | joined by the provider | - | refused | - |
/// | a user message right behind a tool result | - | - | - | - | refused | - |
/// | blank text | - | - | refused, white space too | refused where it is all there is | refused in answers | - |
/// | an answer that ends in reasoning | - | refused | refused | - | - | - |
/// | two calls with one id | refused in one message | refused | refused | - | refused in one message | - |
/// | a call id that is not nine letters or digits | - | - | - | - | refused | - |
/// | a second or late system message | - | - | no such role | no such role | refused | - |
///
/// # What the composer does about it
///
/// A window that opens in the middle of a turn is sent with the question of that turn before it, as
/// [`starting_with_user`](crate::Window::starting_with_user) does. A window that cuts nothing off
/// leaves nothing out for that: where the conversation itself begins with an answer (a greeting, an
/// agent that nobody asked), or has no user message at all, a user message
/// `(start of the conversation)` is put before it. Where that would be all there is to send, and no
/// system message stands before it, the build is an error.
///
/// All else is repaired in copies, and each repair is in the [`Report`](crate::Report):
///
/// - A user message that is blank becomes `(empty message)`, a silent tool result `(no output)`; an
///   answer that says nothing is left out, and so are blank texts beside others.
/// - Neighbours of one side become one message, their texts as paragraphs of one text, media as
///   parts; for Anthropic and Gemini answers with calls that stand side by side do, with all
///   results behind.
/// - A system message among the records stays in its place for OpenAI and Ollama, and is left out
///   for the others.
/// - Between a tool result and a user message stands an answer, `(no answer)`.
/// - Call ids are replaced, at the call and its result alike.
///
/// Reasoning is never edited. Behind the last text or call of an answer, where it is refused, it is
/// left out.
///
/// Temporaries are never dropped, nor is a word of theirs changed: one that is blank is an error,
/// and so is a tool result that answers no call. Where neighbours must be one message, a temporary
/// may become a paragraph or part of its neighbour; its call ids follow the rule too.
///
/// With [`ToolGroups::FailOnRepair`](crate::window::ToolGroups::FailOnRepair) every repair is an
/// error of kind [`Provider`](crate::ErrorKind::Provider) instead, which names the message and the
/// rule; only temporaries may still be joined to their neighbours. With
/// [`ToolGroups::Off`](crate::window::ToolGroups::Off) calls and results are the caller's own
/// business, and the other rules hold.
///
/// How a prompt *ends* is the caller's business too: some models continue an answer at the end,
/// others refuse it.
///
/// # Sources
///
/// The providers' references and clients' sources, and public reports of the errors, as of 2026;
/// for Mistral its own `mistral-common` validator and the chat templates that it publishes, which
/// vLLM and llama.cpp run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Provider {
    /// OpenAI Chat Completions.
    #[doc(alias = "OpenAI")]
    #[serde(rename = "openai")]
    OpenAi,
    /// OpenAI Responses.
    #[doc(alias = "OpenAIResponses")]
    #[serde(rename = "openai_responses")]
    OpenAiResponses,
    /// Anthropic's Messages API.
    Anthropic,
    /// Google's Gemini API.
    Gemini,
    /// Mistral's API.
    Mistral,
    /// A server that runs the model's own chat template, as vLLM, llama.cpp and LM Studio do, where
    /// the template wants turns: those of Mistral, Gemma and Llama 2. The rules are Mistral's.
    StrictTemplate,
    /// Ollama's own API, which takes nearly everything.
    Ollama,
}

impl Provider {
    pub(crate) const fn rules(self) -> Rules {
        match self {
            Self::OpenAi => rules::OPENAI,
            Self::OpenAiResponses => rules::RESPONSES,
            Self::Anthropic => rules::ANTHROPIC,
            Self::Gemini => rules::GEMINI,
            Self::Mistral | Self::StrictTemplate => rules::MISTRAL,
            Self::Ollama => rules::OLLAMA,
        }
    }
}

impl std::fmt::Display for Provider {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::OpenAi => "openai",
            Self::OpenAiResponses => "openai responses",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
            Self::Mistral => "mistral",
            Self::StrictTemplate => "a strict chat template",
            Self::Ollama => "ollama",
        })
    }
}
