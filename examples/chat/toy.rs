//! Stands for a model: it knows nothing but the messages of the prompt.

use std::thread::sleep;
use std::time::Duration;

use memory_prompt::conversation::{Asking, ModelError};
use memory_prompt::turn::Reply;
use memory_prompt::wire::Event;
use memory_prompt::{Message, Prompt, ToolCall};
use serde_json::json;

/// Answers a word at a time.
pub(crate) fn model(ask: &Asking<'_>) -> Result<Reply, ModelError> {
    let reply = answer(ask.prompt());
    for piece in reply.message.text().split_inclusive(' ') {
        ask.tell(Event::Text(piece.to_owned()))?; // an error where somebody has stopped it
        sleep(Duration::from_millis(20));
    }
    Ok(reply)
}

fn answer(prompt: &Prompt) -> Reply {
    let Some(last) = prompt.iter().last() else { return "Hello.".into() };
    if let Some(result) = last.as_tool() {
        return format!("The {} says {}.", result.tool_name(), result.content().text()).into();
    }
    let text = last.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    let call = |tool: &str, arguments: serde_json::Value| {
        Message::ai_calls([ToolCall::new(
            format!("c{}", prompt.len()),
            tool,
            arguments.to_string(),
        )])
    };
    let mut parts = text.split(|c: char| !"0123456789.+-*/ ".contains(c)).map(str::trim);
    if let Some(sum) = parts.find(|it| it.parse::<f64>().is_err() && value(it).is_some()) {
        return call("calculator", json!({"expression": sum})).into();
    }
    if words.iter().any(|word| word.starts_with("time")) {
        return call("clock", json!({})).into();
    }
    if text.contains("story") {
        return "Once upon a time there was a window. ".repeat(50).into(); // long enough for Ctrl-C
    }
    if text.contains("my name?") {
        let name = |it: &Message| Some(format!("You are {}", it.text().split_once("I am ")?.1));
        let known = prompt.iter().filter(|it| it.is_user()).filter_map(name).last();
        return known.unwrap_or_else(|| "I was not told.".to_owned()).into();
    }
    format!("I was sent {} messages, the last one of {} words.", prompt.len(), words.len()).into()
}

/// Calculates a sum of products.
pub(crate) fn value(text: &str) -> Option<f64> {
    for signs in ["+-", "*/"] {
        // A sign behind another one is that of a number.
        let is_between = |at: &(usize, char)| {
            signs.contains(at.1) && text[..at.0].trim_end().ends_with(|c: char| c.is_ascii_digit())
        };
        if let Some((at, sign)) = text.char_indices().rev().find(is_between) {
            let (a, b) = (value(&text[..at])?, value(&text[at + 1..])?);
            return Some(match sign {
                '+' => a + b,
                '-' => a - b,
                '*' => a * b,
                _ => a / b,
            });
        }
    }
    text.trim().parse().ok()
}
