//! Prompts as lines for a terminal.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;

use crate::conversations::{conversation, temporaries};
use crate::counted::counted;
use memory_prompt::record::Snapshot;
use memory_prompt::{Composer, Message, Prompt, Provider, ToolCall, Truncate, Window};
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
    c == '\n'
        || !(c.is_control()
            || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

#[test]
fn each_message_stands_with_its_calls_and_results() {
    let call = ToolCall::new("c1", "book", r#"{"room": "Harbour"}"#);
    let history = [
        Message::user("Book it.\nPlease."),
        Message::ai_calls([call]),
        Message::tool("c1", "book", "Booked. ".repeat(40)),
    ];
    let shown = prompt(history, [Message::user("(It is Friday.)")]).outline().to_string();
    let booked = format!("{}Book … (320 bytes)", "Booked. ".repeat(12));
    let lines: Vec<_> = shown.lines().map(|line| line.trim_start_matches([' ', '|'])).collect();
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
    let plain = prompt.outline().to_string();
    assert!(plain.chars().all(is_harmless), "{plain:?}");
    assert!(plain.contains("␛]0;title␇"), "{plain:?}");
}

/// If a text stood as deep as our own words, a user could write a cache mark, or say that
/// something was left out.
#[test]
fn texts_pose_as_no_line_of_ours() {
    let forged = ["left out: 5 before the window", "--- cache mark: what stands above"];
    let shown = prompt(forged.map(Message::user), [Message::tool("c", "t", forged[0])]);
    let ours = |line: &&str| !line.trim_start().starts_with('|');
    let shown = shown.outline().to_string();
    let ours: String = shown.lines().filter(ours).collect();
    assert!(!ours.contains("left out"), "{shown}");
    assert_eq!(ours.matches("cache mark").count(), 1, "{shown}");
}

/// A report goes into logs, which are no place for what was said; nor does it move a cursor there.
#[test]
fn a_report_in_colours_says_nothing_of_the_texts() {
    let secret = "a secret \x1b[2J ".repeat(20);
    let history =
        [Message::user(secret.clone()), Message::ai_calls([ToolCall::new("c\x1b", "t", secret)])];
    let composer = Composer::new().truncate(Truncate::chars(50).unwrap()).window(Window::last(2));
    let prompt = composer.compose_all(&Snapshot::from_messages(history), &[]).unwrap();
    let shown = prompt.report().outline().colors(true).to_string();
    assert!(shown.contains("\x1b[31m  truncated \x1b[0m 0: user, 280 to 50 bytes\n"), "{shown}");
    assert!(!shown.contains("secret") && !shown.contains("[2J"), "{shown}");
    assert_eq!(without_styles(&shown), prompt.report().to_string());
}

/// Anthropic wants neighbours of one side as one message; that the second was cut was told nowhere.
#[test]
fn what_was_done_to_joined_messages_is_told() {
    let history = [Message::user("short"), Message::user("long ".repeat(100))];
    let composer =
        Composer::new().for_provider(Provider::Mistral).truncate(Truncate::chars(50).unwrap());
    let prompt = composer.compose_all(&Snapshot::from_messages(history), &[]).unwrap();
    assert_eq!(prompt.len(), 1);
    let shown = prompt.outline().to_string();
    assert!(shown.contains("1: cut from 500 to "), "{shown}");
    #[cfg(feature = "inspect")]
    assert!(prompt.html().contains("1: cut from 500 to "));
}

counted! {
    #![cases(256)]

    #[test]
    fn colours_are_all_that_differs(
        history in conversation(12),
        added in temporaries(),
        nasty in any::<String>(),
    ) {
        let history = history.into_iter().chain([Message::user(nasty)]);
        let prompt = prompt(history, added);
        let plain = prompt.outline().to_string();
        prop_assert!(plain.chars().all(is_harmless), "{:?}", plain);
        let coloured = prompt.outline().colors(true).to_string();
        prop_assert_eq!(without_styles(&coloured), plain);
        prop_assert_ne!(coloured.matches("\x1b[").count(), 0);
        let report = prompt.report();
        let coloured = report.outline().colors(true).to_string();
        prop_assert_eq!(without_styles(&coloured), report.outline().to_string());
        prop_assert_eq!(coloured.matches("\x1b[").count(), 2 * report.to_string().lines().count());
    }
}
