//! Turns that were begun and have not ended, as their slots show them.

use std::fmt;

use serde::Deserialize;

use super::Turn;
use super::document::{Document, MadeCall, PREFIX, VERSION, own_id};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Slot, SlotVersion, Snapshot};

/// A turn that was written down before a tool ran and has not ended. It may still run.
#[derive(Clone)]
pub struct Unfinished {
    pub(super) document: Document,
    pub(super) version: SlotVersion,
}

/// A call of an unfinished turn, of a tool that is not repeatable or that needs approval.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedCall {
    /// The id of the call. Models count anew in each answer: a call of another turn may have the
    /// same.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments that the model handed to the tool.
    pub arguments: String,
    /// True where it waits for somebody's approval, and has not run.
    pub needs_approval: bool,
    /// The result, where the turn has written that down. What
    /// [stands in](crate::message::ToolMessage::stand_in) for it is none: of a call that took too
    /// long nobody knows yet what came of it.
    pub result: Option<String>,
}

impl fmt::Debug for Unfinished {
    /// Says which turn it is and what it has begun, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished")
            .field("id", &self.id())
            .field("version", &self.version)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl Unfinished {
    /// Returns the turn in this slot, or why this version can't read it.
    pub(super) fn of(slot: &Slot) -> Result<Self, Unread> {
        match serde_json::from_slice::<Document>(slot.content()) {
            Ok(document) => Ok(Self { document, version: slot.version() }),
            Err(_) => Err(Unread::of(slot)),
        }
    }

    /// Returns the id of the turn.
    pub fn id(&self) -> &str {
        &self.document.id
    }

    /// Returns what was said in it so far, the question first.
    pub fn messages(&self) -> &[Message] {
        &self.document.messages
    }

    /// Returns the calls that were begun of tools that are not repeatable, and those that wait for
    /// approval.
    pub fn calls(&self) -> Vec<UnfinishedCall> {
        let Document { unapproved, .. } = &self.document;
        let newest = self.document.newest_calls();
        let calls = self.document.calls().into_iter().filter_map(|made| {
            let MadeCall { at, place, call, result } = made;
            let needs_approval =
                Some(at) == newest && result.is_none() && unapproved.contains(&place);
            if self.document.is_repeatable(call) && !needs_approval {
                return None;
            }
            let result = result.map(|(_, it)| it).filter(|it| !it.is_stand_in());
            Some(UnfinishedCall {
                call_id: call.id.clone(),
                tool: call.name.clone(),
                arguments: call.arguments.clone(),
                needs_approval,
                result: result.map(|it| it.content().text().into_owned()),
            })
        });
        calls.collect()
    }

    /// The turn in the hands of a new owner, under an id of its own.
    pub(super) fn adopted(&self) -> Turn {
        let mut document = self.document.clone();
        document.kept_messages = document.messages.len();
        document.note_handed_out_may_have_run();
        document.kept = Some(self.version);
        (document.id, document.owner, document.ended) = (own_id(), own_id(), None);
        Turn::of(document)
    }
}

/// Returns the turns in the slots of this snapshot.
///
/// # Errors
///
/// That of the first one that can't be read.
pub(super) fn unfinished_in(snapshot: &Snapshot) -> Result<Vec<Unfinished>> {
    turns_in(snapshot).map(|it| it.map_err(|unread| unread.error())).collect()
}

/// Returns the turns in the slots of this snapshot, or why one can't be read.
fn turns_in(snapshot: &Snapshot) -> impl Iterator<Item = Result<Unfinished, Unread>> {
    snapshot.slots().iter().filter(|it| it.name().starts_with(PREFIX)).map(Unfinished::of)
}

/// A slot of a turn that this version can't read.
pub(super) struct Unread {
    slot: String,
    /// The version that it says, where it does.
    version: Option<u32>,
}

impl Unread {
    fn of(slot: &Slot) -> Self {
        #[derive(Deserialize)]
        struct Versioned {
            turn: u32,
        }
        let read = serde_json::from_slice::<Versioned>(slot.content());
        Self { slot: slot.name().to_owned(), version: read.ok().map(|it| it.turn) }
    }

    /// Returns the version, where it is later than what this one reads.
    fn later(&self) -> Option<u32> {
        self.version.filter(|version| *version > VERSION)
    }

    fn line(&self) -> String {
        let which =
            if self.later().is_some() { "of a later version" } else { "that can't be read" };
        format!("- a turn {which} has begun something whose outcome is not known")
    }

    /// The error of whoever asks for the turns.
    pub(super) fn error(&self) -> Error {
        let Self { slot, .. } = self;
        let text = match self.later() {
            Some(later) => format!(
                "the slot {slot:?} holds a turn of version {later}, and this is version {VERSION}"
            ),
            None => format!("the slot {slot:?} holds a turn that can't be read"),
        };
        Error::new(ErrorKind::Unsupported, "unfinished", text)
    }
}

/// The note to the model about what the turns of this snapshot have begun; `None` where that is
/// nothing.
pub(super) fn note_about(snapshot: &Snapshot) -> Option<Message> {
    let lines_of = |turn: Result<Unfinished, Unread>| match turn {
        Ok(turn) => turn.calls().iter().map(UnfinishedCall::line).collect(),
        Err(unread) => vec![unread.line()],
    };
    let lines: Vec<String> = turns_in(snapshot).flat_map(lines_of).collect();
    if lines.is_empty() {
        return None;
    }
    let lines = lines.join("\n");
    let text = format!(
        "(Begun earlier in this conversation, by a turn that has not ended. Don't do it again.)\n{lines}"
    );
    Some(Message::user(text))
}

impl fmt::Debug for UnfinishedCall {
    /// Names the call, not what it was about.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfinishedCall")
            .field("call_id", &self.call_id)
            .field("tool", &self.tool)
            .field("needs_approval", &self.needs_approval)
            .field("has_result", &self.result.is_some())
            .finish_non_exhaustive()
    }
}

impl UnfinishedCall {
    fn line(&self) -> String {
        let Self { tool, arguments, needs_approval, result, .. } = self;
        let (tool, arguments) = (one_line(tool), one_line(arguments));
        match result {
            None if *needs_approval => {
                format!("- {tool} {arguments}: has not run, it waits for somebody's approval")
            }
            None => format!("- {tool} {arguments}: its outcome is not known yet"),
            Some(result) => {
                format!("- {tool} {arguments}: done, with the result {:?}", short(result))
            }
        }
    }
}

/// The text on one line, and not too much of it.
fn one_line(text: &str) -> String {
    short(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn short(text: &str) -> String {
    let mut kept: String = text.chars().take(MOST).collect();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}

/// The most characters of arguments or a result that are told.
const MOST: usize = 500;
