//! What the oracles are asked about: conversations as they go wrong, composed for a provider.

use memory_prompt::message::{AiMessage, Detail, Media, Part, Reasoning, ToolMessage, UserMessage};
use memory_prompt::wire::{Request, ToolChoice};
use memory_prompt::{Message, Prompt, Provider, Tool, ToolCall};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};

use crate::conversations::{conversation, life, temporaries, text};
use crate::private::with_private;
use crate::setups::{compose, setups};

/// Media of each kind, by data, by address and by the name that a provider gave.
fn media() -> impl Strategy<Value = Part> {
    let named = |media: Media| media.with_name("a.pdf");
    let parts = vec![
        Part::Image(Media::url("https://e.x/a.png").with_detail(Detail::High)),
        Part::Image(Media::base64("image/png", "iVBORw0KGgo=")),
        Part::Image(Media::file_id("file_1")),
        Part::Audio(Media::base64("audio/wav", "UklGRgAA")),
        Part::Audio(Media::url("https://e.x/a.mp3").with_media_type("audio/mpeg")),
        Part::Video(Media::url("https://e.x/a.mp4").with_media_type("video/mp4")),
        Part::File(named(Media::base64("application/pdf", "JVBERi0="))),
        Part::File(named(Media::url("https://e.x/a.pdf").with_media_type("application/pdf"))),
        Part::File(Media::file_id("file_2")),
        Part::File(Media::base64("text/plain", "aGk=").with_name("a.txt")),
    ];
    proptest::sample::select(parts)
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![1 => text().prop_map(Part::text), 2 => media()];
    proptest::collection::vec(part, 0..4)
}

fn name() -> impl Strategy<Value = String> {
    "[A-Za-z][A-Za-z0-9_-]{0,11}"
}

/// A call that is answered with media, or by a tool that failed.
fn seen() -> impl Strategy<Value = Vec<Message>> {
    (parts(), any::<bool>(), text()).prop_map(|(parts, failed, thought)| {
        let calls = AiMessage::new("").with_reasoning(Reasoning::new(thought));
        let calls = calls.with_tool_call(ToolCall::new("seen", "look", r#"{"x":{"y":[1,null]}}"#));
        let result = ToolMessage::new("seen", "look", parts).with_error(failed);
        vec![calls.into(), result.into()]
    })
}

/// Everything that a conversation may hold: parallel calls, results that come late or never,
/// arguments that were cut off, media of each kind, and people with names.
pub(crate) fn history() -> impl Strategy<Value = Vec<Message>> {
    let step = prop_oneof![
        4 => life(5),
        2 => conversation(4),
        1 => (name(), text()).prop_map(|(name, text)| {
            vec![UserMessage::new(text).with_name(name).into()]
        }),
        1 => (name(), parts()).prop_map(|(name, parts)| {
            vec![UserMessage::new(parts).with_name(name).with_attribute("own", 1).into()]
        }),
        1 => seen(),
    ];
    proptest::collection::vec(step, 0..6).prop_map(|steps| steps.concat())
}

/// The same conversations in every run.
pub(crate) struct Generated(TestRunner);

impl Generated {
    pub(crate) fn new() -> Self {
        let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
        Self(TestRunner::new_with_rng(ProptestConfig::default(), rng))
    }

    pub(crate) fn history(&mut self) -> Vec<Message> {
        history().new_tree(&mut self.0).unwrap().current()
    }

    /// A prompt for this provider: those that a budget or a temporary makes an error are passed
    /// over.
    fn prompt(&mut self, provider: Provider) -> Prompt {
        loop {
            let drawn = (setups(), with_private(history()), temporaries());
            let (setup, history, temporaries) = drawn.new_tree(&mut self.0).unwrap().current();
            let composer = setup.composer().for_provider(provider);
            if let Ok(prompt) = compose(&composer, &history, &temporaries) {
                return prompt;
            }
        }
    }

    /// A whole request: what the oracles are asked about, as a line.
    pub(crate) fn request(&mut self, provider: Provider, number: u32) -> Value {
        let prompt = self.prompt(provider);
        let tools = tools();
        let mut request = Request::new(&prompt).model("m").max_tokens(100).stream(number % 4 == 1);
        if number.is_multiple_of(2) {
            request = request.tools(&tools);
            if number.is_multiple_of(3) && provider.row().forced_calls {
                request = request.tool_choice(ToolChoice::Required);
            }
        }
        if number.is_multiple_of(5) {
            request = request.cache_prefix();
        }
        let body = serde_json::to_string(&request).unwrap();
        let body: Value = serde_json::from_str(&body).unwrap();
        json!({"provider": provider, "body": body})
    }
}

fn tools() -> Vec<Tool> {
    let parameters = json!({
        "type": "object",
        "properties": {"x": {"type": "integer", "minimum": 1}, "what": {"type": "string"}},
        "required": ["x"],
    });
    vec![Tool::new("look", "Looks at something.").parameters(parameters)]
}
