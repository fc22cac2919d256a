//! Conversations on one line: `u:hi call:c1,c2 t:c1=text a:done`.
//!
//! | written | is |
//! |---|---|
//! | `u:hi` | the user says "hi"; `_` stands for a space |
//! | `steer:no` | the user says "no" into a running turn |
//! | `a:hello` | the model answers "hello" |
//! | `call:c1,c2/book` | the model calls the tool `look` as `c1` and the tool `book` as `c2`; `c3/` names no tool |
//! | `t:c1=text` | the result of `c1`, with the tool's name as above |
//! | `wait:c1=text` | a stand-in for it |
//! | `s:text` | a system message |
//! | `log:x` | a record of the application's own, which no provider is sent |
//!
//! A prompt is written in the same way, and besides `t:c1=?` is a placeholder for a result,
//! `(u:now)` a temporary, `note:…` the note about late results and `[u]` a message that nobody
//! said.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it
#![allow(clippy::panic)] // a test that panics has failed

use memory_prompt::message::{ToolMessage, UserMessage};
use memory_prompt::report::Origin;
use memory_prompt::{Message, Prompt, ToolCall};

/// `c1/book` is the call `c1` of the tool `book`, `c1` one of the tool `look`.
fn named(text: &str) -> (&str, &str) {
    text.split_once('/').unwrap_or((text, "look"))
}

fn result(text: &str) -> ToolMessage {
    let (call, text) = text.split_once('=').unwrap_or((text, "ok"));
    let (id, name) = named(call);
    ToolMessage::new(id, name, text.replace('_', " "))
}

/// One message.
///
/// # Panics
///
/// Where nobody could know what is meant.
pub fn message(written: &str) -> Message {
    let (kind, rest) = written.split_once(':').unwrap_or((written, ""));
    let text = || rest.replace('_', " ");
    match kind {
        "u" => Message::user(text()),
        "steer" => UserMessage::new(text()).with_attribute("turn:steered", true).into(),
        "a" => Message::ai(text()),
        "call" => Message::ai_calls(rest.split(',').map(|call| {
            let (id, name) = named(call);
            ToolCall::new(id, name, "{}")
        })),
        "t" => result(rest).into(),
        "wait" => result(rest).with_attribute("turn:stand_in", true).into(),
        "s" => Message::system(text()),
        "log" => Message::custom([("log".to_owned(), rest.into())]),
        _ => panic!("{written:?} is no message"),
    }
}

/// A conversation.
pub fn conversation(written: &str) -> Vec<Message> {
    written.split_whitespace().map(message).collect()
}

fn name(id: &str, tool: &str) -> String {
    if tool == "look" { id.to_owned() } else { format!("{id}/{tool}") }
}

/// One message in this notation.
pub fn written(message: &Message) -> String {
    let text = message.text().replace(' ', "_");
    let text = if text.len() > 60 { format!("{}…", &text[..20]) } else { text };
    match message {
        Message::System(_) => format!("s:{text}"),
        Message::User(it) if it.attributes().contains_key("turn:steered") => {
            format!("steer:{text}")
        }
        Message::User(_) => format!("u:{text}"),
        Message::Tool(it) => format!("t:{}={text}", name(it.call_id(), it.tool_name())),
        Message::Ai(ai) if ai.tool_calls().next().is_some() => {
            let calls: Vec<_> = ai.tool_calls().map(|call| name(&call.id, &call.name)).collect();
            format!("call:{}", calls.join(","))
        }
        Message::Ai(_) => format!("a:{text}"),
        other => format!("{}:", other.role()),
    }
}

/// What a prompt sends.
pub fn sent(prompt: &Prompt) -> String {
    let each = prompt.with_origins().map(|(origin, message)| match origin {
        Origin::Repair => {
            let it = message.as_tool();
            format!("t:{}=?", it.map(|it| name(it.call_id(), it.tool_name())).unwrap_or_default())
        }
        Origin::Temporary => format!("({})", written(message)),
        Origin::Added => {
            let written = written(message);
            format!("[{}]", written.split_once(':').map_or("?", |it| it.0))
        }
        Origin::Note => format!("note:{}", message.text().replace(' ', "_")),
        _ => written(message),
    });
    each.collect::<Vec<_>>().join(" ")
}
