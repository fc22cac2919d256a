//! Messages as lines of a text, quoted so that no part of them can pose as something else.

use std::fmt::Write as _;

use crate::message::{Message, in_words};
use crate::text::{deceives, first};

/// Returns the name of the speaker (for a result, that of its tool); `None` if there is no name.
pub(crate) fn speaker(message: &Message) -> Option<&str> {
    match message {
        Message::User(user) => user.name(),
        Message::Ai(ai) => ai.name(),
        Message::Tool(tool) => Some(tool.tool_name()).filter(|name| !name.is_empty()),
        _ => None,
    }
}

/// Writes the speaker: always with the role, since a name may imitate one.
pub(crate) fn write_speaker(message: &Message, to: &mut String) {
    to.push_str(message.role().as_str());
    if let Some(name) = speaker(message) {
        to.push(' ');
        write_name(name, to);
    }
}

/// Writes a name: as it is if it is a word, and else in quotes.
pub(crate) fn write_name(name: &str, to: &mut String) {
    let name = first(name, 64);
    if is_plain(name) {
        to.push_str(name);
    } else {
        write_quoted(name, to);
    }
}

fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_plain) && name.chars().any(char::is_alphabetic)
}

/// Writes how many pictures and the like the message has, if any, in brackets.
pub(crate) fn write_media(message: &Message, to: &mut String) {
    let media = in_words(0, message.content_parts().map(|(_, part)| part));
    if !media.is_empty() {
        let _ = write!(to, " [{media}]");
    }
}

/// Writes a text in quotes, on one line.
pub(crate) fn write_quoted(text: &str, to: &mut String) {
    to.push('"');
    escape(text, to);
    to.push('"');
}

/// Writes a text so that it stays on its line, between its quotes.
pub(crate) fn escape(text: &str, to: &mut String) {
    for character in text.chars() {
        match character {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\t' => to.push(' '),
            other => escape_hidden(other, to),
        }
    }
}

/// Writes each line of a text after a mark, so that a line without a mark can't belong to it.
pub(crate) fn write_marked(text: &str, to: &mut String) {
    for line in text.lines() {
        to.push_str("\n> ");
        line.chars().for_each(|character| escape_hidden(character, to));
    }
}

/// Writes a character; if it ends a line or hides what is shown, writes its number.
fn escape_hidden(character: char, to: &mut String) {
    match character {
        c if c.is_control() && c != '\t' || matches!(c, '\u{2028}' | '\u{2029}') || deceives(c) => {
            let _ = write!(to, "\\u{{{:x}}}", u32::from(c));
        }
        other => to.push(other),
    }
}
