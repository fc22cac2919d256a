//! Configurations, and what a prompt becomes on its way to a provider.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

use std::sync::Arc;

use memory_prompt::compose::Placement;
use memory_prompt::provider::{Format, Row};
use memory_prompt::record::Snapshot;
use memory_prompt::text::Keep;
use memory_prompt::token::TokenCounter;
use memory_prompt::{
    Budget, ChatMemory, ChatMemoryExt, Composer, DefaultChatMemory, MemoryPrompt, Message, Prompt,
    Provider, Result, Truncate, Window, wire,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// All of them, and servers of an application's own.
pub fn all() -> Vec<Provider> {
    let own = [gemma(), llama(), older_claude()];
    PROVIDERS.into_iter().chain(own).collect()
}

pub const PROVIDERS: [Provider; 20] = [
    Provider::OpenAi,
    Provider::OpenAiResponses,
    Provider::Azure,
    Provider::Anthropic,
    Provider::ClaudeOnBedrock,
    Provider::ClaudeOnVertex,
    Provider::Gemini,
    Provider::Vertex,
    Provider::GoogleOpenAi,
    Provider::Mistral,
    Provider::DeepSeek,
    Provider::Groq,
    Provider::OpenRouter,
    Provider::Xai,
    Provider::LiteLlm,
    Provider::Ollama,
    Provider::Vllm,
    Provider::LlamaCpp,
    Provider::OpenAiCompatible,
    Provider::StrictTemplate,
];

/// Those whose own clients in Python have models of what is sent.
pub const TYPED: [Provider; 6] = [
    Provider::OpenAi,
    Provider::OpenAiResponses,
    Provider::Anthropic,
    Provider::Gemini,
    Provider::Mistral,
    Provider::Ollama,
];

/// A template that knows no system message.
pub fn gemma() -> Provider {
    let mut row = Row::like(Provider::StrictTemplate, "gemma-2").unwrap();
    row.system = false;
    Provider::custom(row)
}

/// A template that knows one call an answer.
pub fn llama() -> Provider {
    let mut row = Row::like(Provider::LlamaCpp, "llama-3.1").unwrap();
    row.parallel_calls = false;
    Provider::custom(row)
}

/// A model that goes on where an answer stops.
pub fn older_claude() -> Provider {
    Provider::Anthropic.model("claude-3-5-haiku-20241022")
}

pub fn providers() -> impl Strategy<Value = Provider> {
    proptest::sample::select(all())
}

/// A memory that holds this.
pub fn remembering(said: impl IntoIterator<Item = Message>) -> Arc<DefaultChatMemory> {
    let memory = DefaultChatMemory::new();
    memory.add_all(said).unwrap();
    Arc::new(memory)
}

/// A prompt over a memory that holds this.
pub fn holding(said: impl IntoIterator<Item = Message>) -> MemoryPrompt {
    MemoryPrompt::new(remembering(said))
}

/// Everything that can be configured, but for what a law is about.
#[derive(Clone, Debug)]
pub struct Setup {
    pub window: Option<Window>,
    pub placement: Placement,
    pub truncate: Option<Truncate>,
    pub system: Option<String>,
    pub tokens: Option<usize>,
    pub cut_first: bool,
    pub marked: bool,
}

impl Setup {
    pub fn composer(&self) -> Composer {
        let budget = |tokens| {
            let marks = (tokens / 4 + 1, tokens / 2 + 1);
            Budget::new(tokens)
                .with_if(self.marked, |it| it.stepped(marks.0, marks.1).unwrap_or(it))
                .with_if(self.cut_first, Budget::cut_before_drop)
        };
        Composer::new()
            .temporaries_at(self.placement)
            .with_some(self.truncate.clone(), Composer::truncate)
            .with_some(self.window, Composer::window)
            .with_some(self.system.clone(), Composer::system)
            .with_some(self.tokens, |it, tokens| it.max_tokens(budget(tokens), letters))
    }
}

/// A setting that is made or not, as it is drawn.
pub trait Drawn: Sized {
    /// The same with this setting, where there is one.
    #[must_use]
    fn with_some<T>(self, drawn: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match drawn {
            Some(drawn) => set(self, drawn),
            None => self,
        }
    }

    /// The same with this setting, where it is wanted.
    #[must_use]
    fn with_if(self, wanted: bool, set: impl FnOnce(Self) -> Self) -> Self {
        if wanted { set(self) } else { self }
    }
}

impl<T> Drawn for T {}

/// A budget, in steps or not.
pub fn budget(tokens: usize, stepped: bool) -> Budget {
    Budget::new(tokens).with_if(stepped, |it| it.stepped(tokens / 4, tokens / 2).unwrap())
}

/// A token a character.
pub fn letters(text: &str) -> usize {
    text.chars().count()
}

/// What a prompt counts, counted again.
pub fn counted(prompt: &Prompt) -> usize {
    let counter: fn(&str) -> usize = letters;
    let messages = prompt.iter().map(|message| counter.count(message).unwrap());
    counter.overhead().reply + messages.sum::<usize>()
}

pub fn placements() -> impl Strategy<Value = Placement> {
    let places = [Placement::End, Placement::BeforeLastUser, Placement::AfterSystem];
    proptest::sample::select(places.to_vec())
}

pub fn truncations() -> impl Strategy<Value = Option<Truncate>> {
    let keep = proptest::sample::select(vec![Keep::Head, Keep::Tail, Keep::Ends]);
    proptest::option::of((1usize..30, keep, any::<bool>()).prop_map(|(limit, keep, marked)| {
        let truncate = Truncate::chars(limit).unwrap().keep(keep);
        truncate.with_if(marked, |it| it.marker("[…{left_out}…]"))
    }))
}

pub fn setups() -> impl Strategy<Value = Setup> {
    let kind = prop_oneof![
        4 => (0usize..12).prop_map(Window::last),
        2 => (0usize..5).prop_map(Window::turns),
        2 => Just(Window::all()),
        2 => (1usize..8, 1usize..8).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
    ];
    let window = (kind, any::<bool>(), any::<bool>()).prop_map(|(window, user, exactly)| {
        let window = window.with_if(user, Window::starting_with_user);
        window.with_if(exactly, Window::exactly)
    });
    (
        proptest::option::weighted(0.9, window),
        placements(),
        truncations(),
        proptest::option::of("[a-z]{0,5}"),
        proptest::option::weighted(0.3, 0usize..800),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(window, placement, truncate, system, tokens, cut_first, marked)| Setup {
            window,
            placement,
            truncate,
            system,
            tokens,
            cut_first,
            marked,
        })
}

/// All that a memory holds of a conversation.
pub fn held(conversation: &[Message]) -> Snapshot {
    remembering(conversation.to_vec()).read(None, usize::MAX).unwrap()
}

pub fn compose(
    composer: &Composer,
    conversation: &[Message],
    temporaries: &[Message],
) -> Result<Prompt> {
    let temporaries: Vec<_> = temporaries.iter().cloned().map(Arc::new).collect();
    composer.compose_all(&held(conversation), &temporaries)
}

/// All of a history, as a provider is sent it.
pub fn prompt_for(provider: Provider, history: &[Message]) -> Prompt {
    let composer = Composer::new().window(Window::all()).for_provider(provider);
    compose(&composer, history, &[]).unwrap()
}

/// The part of a request's body that holds the prompt.
pub fn request(provider: Provider, prompt: &Prompt) -> Value {
    match provider.format() {
        Format::OpenAi => json!({"messages": wire::openai::messages(prompt)}),
        Format::Responses => json!({
            "instructions": wire::responses::instructions(prompt),
            "input": wire::responses::input(prompt),
        }),
        Format::Anthropic => json!({
            "system": wire::anthropic::system(prompt),
            "messages": wire::anthropic::messages(prompt),
        }),
        Format::Gemini => json!({
            "systemInstruction": wire::gemini::system_instruction(prompt),
            "contents": wire::gemini::contents(prompt),
        }),
        _ => json!({"messages": wire::ollama::messages(prompt)}),
    }
}

/// The same of its first messages alone.
pub fn first_messages(provider: Provider, prompt: &Prompt, n: usize) -> Value {
    let first = || prompt.iter().take(n);
    match provider.format() {
        Format::OpenAi => {
            json!({"messages": wire::openai::Messages::of(first()).for_provider(provider)})
        }
        Format::Responses => json!({"input": wire::responses::Input::of(first())}),
        Format::Anthropic => json!({"messages": wire::anthropic::Messages::of(first())}),
        Format::Gemini => {
            json!({"contents": wire::gemini::Contents::of(first()).for_provider(provider)})
        }
        _ => json!({"messages": wire::ollama::Messages::of(first())}),
    }
}
