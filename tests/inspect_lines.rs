//! Prompts as lines for a terminal.
#![cfg(feature = "inspect")]
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

#[path = "common/conversations.rs"]
mod conversations;

use std::sync::Arc;

use conversations::{conversation, temporaries};
use memory_prompt::record::Snapshot;
use memory_prompt::{Composer, Message, Prompt, ToolCall, Window};
use proptest::prelude::*;

fn prompt(
    messages: impl IntoIterator<Item = Message>,
    temporaries: impl IntoIterator<Item = Message>,
) -> Prompt {
    let snapshot = Snapshot::from_messages(messages);
    let temporaries: Vec<_> = temporaries.into_iter().map(Arc::new).collect();
    Composer::new().window(Window::all()).compose_all(&snapshot, &temporaries).unwrap()
}

/// Returns the text without what sets a style.
fn without_styles(text: &str) -> String {
    let mut pieces = text.split("\x1b[");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain.push_str(piece.split_once('m').unwrap().1);
    }
    plain
}

fn is_harmless(c: char) -> bool {
    c == '\n' || !(c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

#[test]
fn each_message_stands_with_its_calls_and_results() {
    let call = ToolCall::new("c1", "book", r#"{"room": "Harbour"}"#);
    let history = [
        Message::user("Book it.\nPlease."),
        Message::ai_calls([call]),
        Message::tool("c1", "book", "Booked. ".repeat(40)),
    ];
    let shown = prompt(history, [Message::user("(It is Friday.)")]).lines().to_string();
    let booked = format!("{}Book … (320 bytes)", "Booked. ".repeat(12));
    let lines: Vec<_> = shown.lines().map(str::trim).collect();
    assert!(lines.contains(&"Book it. Please."), "{shown}");
    assert!(lines.contains(&r#"calls book {"room": "Harbour"}"#), "{shown}");
    assert!(lines.contains(&booked.as_str()), "{shown}");
    assert!(lines.contains(&"(It is Friday.)"), "{shown}");
}

/// A history may hold what a tool read from a log: escape sequences that move the cursor, set the
/// title, or write from right to left.
#[test]
fn texts_do_nothing_to_a_terminal() {
    let nasty = "\x1b]0;title\x07\x1b[2J\u{9b}31m\r\u{202e}abc\u{2066}\x7f";
    let call = ToolCall::new("c\x1b[1m", nasty, nasty);
    let history =
        [Message::user(nasty), Message::ai_calls([call]), Message::tool("c\x1b[1m", nasty, nasty)];
    let prompt = prompt(history, [Message::system(nasty)]);
    let plain = prompt.lines().to_string();
    assert!(plain.chars().all(is_harmless), "{plain:?}");
    assert!(plain.contains("␛]0;title␇"), "{plain:?}");
}

proptest! {
    #[test]
    fn colours_are_all_that_differs(
        history in conversation(12),
        added in temporaries(),
        nasty in any::<String>(),
    ) {
        let history = history.into_iter().chain([Message::user(nasty)]);
        let prompt = prompt(history, added);
        let plain = prompt.lines().to_string();
        prop_assert!(plain.chars().all(is_harmless), "{:?}", plain);
        let coloured = prompt.lines().colors(true).to_string();
        prop_assert_eq!(without_styles(&coloured), plain);
        prop_assert_ne!(coloured.matches("\x1b[").count(), 0);
    }
}
