//! A prompt is written as JSON in a time that nobody feels.

use std::hint::black_box;

use memory_prompt::message::AiMessage;
use memory_prompt::record::Snapshot;
use memory_prompt::wire::Request;
use memory_prompt::{Composer, Message, Prompt, Tool, ToolCall, Window, wire};

use crate::harness::{Claims, Pace, grouped};
use crate::messages::message;
use crate::samples::sample;

/// All these messages as one prompt.
fn prompt(messages: impl IntoIterator<Item = Message>) -> Prompt {
    let snapshot = Snapshot::from_messages(messages);
    Composer::new().window(Window::all()).compose_all(&snapshot, &[]).unwrap()
}

/// Short texts with calls between them: nothing hides what a message costs.
fn tools() -> impl Iterator<Item = Message> {
    (0..25).flat_map(|i| {
        let id = format!("call_{i}");
        let call = ToolCall::new(id.as_str(), "weather", r#"{"city": "Oslo", "day": 2}"#);
        [
            Message::user("What is the weather in Oslo?\nThe day after tomorrow."),
            AiMessage::from_parts([call]).into(),
            Message::tool(id, "weather", "sunny, 21 °C"),
            Message::ai("It will be \"sunny\" at 21 °C."),
        ]
    })
}

/// An encoder makes values, which borrow the texts, and then they are written.
pub(crate) fn writing_costs_at_most_three_values(claims: &mut Claims) {
    for (kind, prompt) in [("plain", prompt((0..100).map(message))), ("tools", prompt(tools()))] {
        assert_eq!(prompt.len(), 100);
        let view = || wire::openai::messages(black_box(&prompt));
        let ready = serde_json::to_value(view()).unwrap();
        let found = claims.compare(
            Pace::FINEST,
            [&format!("100 messages ({kind}): ours"), "a ready Value"],
            || serde_json::to_vec(&view()).unwrap(),
            || serde_json::to_vec(black_box(&ready)).unwrap(),
        );
        let claim = format!("100 messages ({kind}) to OpenAI's JSON / from a ready Value");
        claims.at_most(&claim, found.ratio, 3.0);
    }
}

/// A whole request, with tools beside the messages.
pub(crate) fn a_request_costs_at_most_three_values(claims: &mut Claims) {
    let parameters = serde_json::json!({"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "day": {"type": "integer", "minimum": 0, "maximum": 7}}});
    let tools = [Tool::new("weather", "The weather of a city.").parameters(parameters)];
    for (kind, prompt) in
        [("plain", prompt((0..100).map(message))), ("tools", prompt(self::tools()))]
    {
        let request = || Request::new(black_box(&prompt)).model("m").tools(&tools).max_tokens(500);
        let ready = serde_json::to_value(request()).unwrap();
        let found = claims.compare(
            Pace::FINEST,
            [&format!("a request of 100 messages ({kind}): ours"), "a ready Value"],
            || serde_json::to_vec(&request()).unwrap(),
            || serde_json::to_vec(black_box(&ready)).unwrap(),
        );
        let claim = format!("a request of 100 messages ({kind}) / from a ready Value");
        claims.at_most(&claim, found.ratio, 3.0);
    }
}

/// With what no model's answer waits for.
pub(crate) fn a_thousand_messages_take_a_millisecond(claims: &mut Claims) {
    for (kind, messages) in [
        ("plain", (0..1000).map(message).collect::<Vec<_>>()),
        ("tools", (0..10).flat_map(|_| tools()).collect()),
    ] {
        let prompt = prompt(messages);
        assert_eq!(prompt.len(), 1000);
        let view = || wire::openai::messages(black_box(&prompt));
        let ready = serde_json::to_value(view()).unwrap();
        let found = claims.compare(
            Pace::SHORT,
            [&format!("1,000 messages ({kind}): ours"), "a ready Value"],
            || serde_json::to_vec(&view()).unwrap(),
            || serde_json::to_vec(black_box(&ready)).unwrap(),
        );
        let claim = format!("ms, 1,000 messages ({kind}) to OpenAI's JSON");
        claims.at_most(&claim, found.nanos[0] / 1e6, 1.0);
    }
}

/// Into a buffer that is there, so that what is measured is the writing. Beside it the most that
/// `serde_json` can do: one text of the same length.
pub(crate) fn writing_ascii_is_fast(claims: &mut Claims) {
    for (messages, characters) in [(100, 300), (10, 20_000)] {
        let kind = format!("{messages} messages of {} ASCII characters", grouped(characters));
        let text = sample("ascii", usize::try_from(characters).unwrap());
        let prompt = prompt((0..messages).map(|_| Message::user(text.as_str())));
        let length = serde_json::to_vec(&wire::openai::messages(&prompt)).unwrap().len();
        let one = sample("ascii", length - 2);
        let mut buffers = [(); 2].map(|()| Vec::with_capacity(length));
        let [ours, bare] = &mut buffers;
        let found = claims.compare(
            Pace::FINE,
            [&format!("{kind}: ours"), "one text by serde_json"],
            || {
                ours.clear();
                serde_json::to_writer(&mut *ours, &wire::openai::messages(black_box(&prompt)))
                    .unwrap();
            },
            || {
                bare.clear();
                serde_json::to_writer(&mut *bare, black_box(one.as_str())).unwrap();
            },
        );
        assert_eq!(buffers[0].len(), buffers[1].len());
        let [ours, bare] = found.nanos.map(|nanos| length as f64 / nanos);
        println!("      {ours:.2} GB/s; the one text: {bare:.2} GB/s");
        let claim = format!("GB/s, {kind} to OpenAI's JSON");
        claims.at_least(&claim, ours, 1.0);
    }
}
