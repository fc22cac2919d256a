//! Events of streams as Anthropic and OpenAI write them, and what is shown and stored of them.

#![allow(clippy::needless_pass_by_value)] // `json!` in the place of an argument

use memory_prompt::wire::{self, Answer, Request};
use memory_prompt::{Message, Provider};
use serde_json::{Value, json};

use crate::setups::prompt_for;

/// What a stream of a format has shown, and the stream.
macro_rules! streamed {
    ($format:ident, $events:expr) => {{
        let mut stream = $format::Stream::new();
        let mut told = Vec::new();
        for event in $events {
            told.extend(stream.push(&event.to_string()).unwrap());
        }
        (told, stream)
    }};
}
pub(crate) use streamed;

/// The whole answer, of which all was shown.
macro_rules! whole {
    ($format:ident, $events:expr) => {{
        let (told, stream) = crate::events::streamed!($format, $events);
        let answer: memory_prompt::wire::Answer = stream.finish().unwrap();
        crate::shown::assert_shown(&told, &answer, stringify!($format));
        (told, answer)
    }};
}
pub(crate) use whole;

/// A stream of which these pieces have come.
pub(crate) fn begun<'a>(
    provider: Provider,
    pieces: impl IntoIterator<Item = &'a Value>,
) -> wire::Stream {
    let mut stream = wire::Stream::of(provider);
    for piece in pieces {
        stream.push(&piece.to_string()).unwrap();
    }
    stream
}

// --- Claude ----------------------------------------------------------------------------------

pub(crate) fn start(message: Value) -> Value {
    json!({"type": "message_start", "message": message})
}

pub(crate) fn block(index: u64, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

pub(crate) fn piece(index: u64, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

pub(crate) fn says(index: u64, text: &str) -> Value {
    piece(index, json!({"type": "text_delta", "text": text}))
}

pub(crate) fn stop(index: u64) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

pub(crate) fn end(word: &str) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": word}}),
        json!({"type": "message_stop"}),
    ]
}

/// The same with what it cost.
pub(crate) fn billed(word: &str, usage: Value) -> [Value; 2] {
    let [mut delta, stop] = end(word);
    delta["usage"] = usage;
    [delta, stop]
}

// --- OpenAI ----------------------------------------------------------------------------------

pub(crate) fn delta(delta: Value) -> Value {
    last(delta, Value::Null)
}

/// A piece with the reason to stop.
pub(crate) fn last(delta: Value, word: impl Into<Value>) -> Value {
    let word: Value = word.into();
    json!({"id": "chatcmpl-1", "choices": [{"index": 0, "delta": delta, "finish_reason": word}]})
}

pub(crate) fn over(word: &str) -> Value {
    last(json!({}), word)
}

pub(crate) fn calling(call: Value) -> Value {
    delta(json!({"tool_calls": [call]}))
}

// --- Gemini ----------------------------------------------------------------------------------

/// The parts of a candidate, and its reason to stop.
pub(crate) fn candidate(parts: Value, word: impl Into<Value>) -> Value {
    let word: Value = word.into();
    json!({"candidates": [{"content": {"parts": parts}, "finishReason": word}]})
}

// --- and back --------------------------------------------------------------------------------

/// The request that sends an answer back, with a result of each call.
pub(crate) fn sent(provider: Provider, answer: Answer) -> Value {
    let message = Message::from(answer);
    let results: Vec<Message> = message.tool_calls().map(|call| call.result("r")).collect();
    let next = results.is_empty().then(|| Message::user("and?"));
    let messages = [Message::user("q"), message].into_iter().chain(results).chain(next);
    let prompt = prompt_for(provider, &messages.collect::<Vec<_>>());
    json!(Request::new(&prompt).model("m").max_tokens(5))
}
