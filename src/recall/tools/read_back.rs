//! A tool that reads one message in pieces.

use serde_json::json;

use super::{number, read_arguments};
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{ChatMemory, On, Read};
use crate::message::{Message, in_words};
use crate::record::{Records, Snapshot};
use crate::text::first;
use crate::tool::Tool;

/// A tool, `read_back`, that reads one message of the conversation in pieces, by its position.
///
/// See [`tools`](super) for how to use it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadBack {
    piece: usize,
}

#[derive(Clone, Copy)]
struct Piece {
    message: u64,
    from: usize,
}

impl ReadBack {
    /// Returns the tool, with pieces of up to 4,000 characters.
    pub const fn new() -> Self {
        Self { piece: 4_000 }
    }

    /// Sets the most characters of a piece; at least one.
    #[must_use]
    pub const fn piece(self, characters: usize) -> Self {
        Self { piece: if characters == 0 { 1 } else { characters } }
    }

    /// Returns its definition, for [`MemoryPrompt::tools`](crate::MemoryPrompt::tools), a turn or a
    /// conversation.
    pub fn tool(&self) -> Tool {
        let what = "Reads a message of this conversation that is not shown here, or not in full, by \
                    its number. Of pictures and the like it only says that they are there.";
        let from = "The character to go on from, where an earlier call did not reach the end.";
        Tool::new("read_back", what).repeatable().parameters(json!({
            "type": "object",
            "properties": {
                "message": {"type": "integer", "description": "The number of the message."},
                "from": {"type": "integer", "description": from},
            },
            "required": ["message"],
        }))
    }

    /// Runs a call, also over records that are not stored yet.
    pub(crate) fn run_with_staged(
        &self,
        memory: &(impl ChatMemory + ?Sized),
        (staged, on): (&Records, Option<On>),
        arguments: &str,
    ) -> Result<String> {
        match self.wanted(staged, arguments) {
            Ok(piece) => Ok(self.found(piece, staged, &memory.read_with(&read(piece).on(on))?)),
            Err(text) => Ok(text),
        }
    }

    #[cfg(feature = "async")]
    pub(crate) async fn run_with_staged_async(
        &self,
        memory: &(impl AsyncChatMemory + ?Sized),
        (staged, on): (&Records, Option<On>),
        arguments: &str,
    ) -> Result<String> {
        match self.wanted(staged, arguments) {
            Ok(piece) => {
                Ok(self.found(piece, staged, &memory.read_with(&read(piece).on(on)).await?))
            }
            Err(text) => Ok(text),
        }
    }

    /// Returns what to read from the memory; else (as `Err`) the answer that needs no read.
    fn wanted(&self, staged: &Records, arguments: &str) -> Result<Piece, String> {
        let arguments = read_arguments(arguments);
        let message = number(&arguments["message"])
            .ok_or("arguments: `message` is the number of a message.")?;
        let from = match &arguments["from"] {
            nothing if nothing.is_null() => Some(0),
            from => number(from).and_then(|from| usize::try_from(from).ok()),
        };
        let from = from.ok_or("arguments: `from` is the number of a character.")?;
        let piece = Piece { message, from };
        staged.find(message).map_or(Ok(piece), |record| Err(self.shown(piece, record.message())))
    }

    fn found(&self, piece: Piece, staged: &Records, snapshot: &Snapshot) -> String {
        let message = piece.message;
        if let Some(record) = snapshot.picked().find(message) {
            return self.shown(piece, record.message());
        }
        let end = staged.last().map_or(snapshot.end, |record| record.position() + 1);
        let oldest_staged = staged.first().map_or(end, |record| record.position());
        let is_empty = snapshot.start >= snapshot.end;
        let first = if is_empty { oldest_staged } else { snapshot.start };
        match end.checked_sub(1).filter(|last| first <= *last) {
            None => "There is no message in this conversation.".to_owned(),
            Some(last) if (first..=last).contains(&message) => {
                format!("Message {message} can't be read.")
            }
            Some(last) => format!("There is no message {message}: there are {first} to {last}."),
        }
    }

    fn shown(&self, Piece { message: position, from }: Piece, message: &Message) -> String {
        let (Some(who), text) = (who(message), body(message)) else {
            return format!("There is nothing to read in message {position}.");
        };
        let all = text.chars().count();
        let s = if all == 1 { "" } else { "s" };
        if text.is_empty() {
            return format!("Message {position}, {who}, is empty.");
        }
        let start = text.char_indices().nth(from).map(|(at, _)| at);
        let Some(rest) = start.and_then(|start| text.get(start..)) else {
            return format!("Message {position}, {who}, has {all} character{s}.");
        };
        let piece = first(rest, self.piece);
        let next = from + piece.chars().count();
        if from == 0 && next == all {
            return format!("Message {position}, {who}, {all} character{s}:\n{piece}");
        }
        let more = if next < all { format!(", go on from {next}") } else { String::new() };
        format!("Message {position}, {who}, characters {from} to {next} of {all}{more}:\n{piece}")
    }
}

fn read(piece: Piece) -> Read {
    Read::newest(0).positions([piece.message]).references()
}

/// Returns the speaker; `None` if models are not shown the message.
fn who(message: &Message) -> Option<String> {
    match message {
        Message::User(_) => Some("user".to_owned()),
        Message::Ai(_) => Some("assistant".to_owned()),
        Message::Tool(tool) => Some(format!("result of {:?}", tool.tool_name())),
        Message::System(_) | Message::Custom(_) => None,
    }
}

/// Returns what there is to read: texts, calls, and a description of everything else.
fn body(message: &Message) -> String {
    let mut lines: Vec<String> = message.texts().map(str::to_owned).collect();
    let calls = message.tool_calls();
    lines.extend(calls.map(|call| format!("calls {:?} {}", call.name, call.arguments)));
    lines.push(in_words(0, message.content_parts().map(|(_, part)| part)));
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}
