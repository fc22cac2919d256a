//! A conversation as JSON lines, and back.

use std::borrow::Cow;
use std::ops::Range;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{rows, written};
use crate::error::{Error, ErrorKind, Result};
use crate::history::Branch;
use crate::memory::{Append, Expected, MemoryId};
use crate::message::{Message, base64};
use crate::record::{Slot, Snapshot, moment, rfc3339};

/// The version of the lines: a newer one is refused.
const VERSION: u32 = 1;

/// What a line says. An unknown line is refused: a later version may add one that changes the
/// meaning of the conversation.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Line<'a> {
    Conversation {
        export: u32,
        #[serde(default)]
        conversation: Cow<'a, str>,
        #[serde(default)]
        positions: Range<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        system: Option<Cow<'a, Message>>,
    },
    Record {
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<usize>,
        position: u64,
        at: Option<String>,
        message: Cow<'a, Message>,
    },
    Unreadable {
        position: u64,
        unreadable: String,
    },
    Slot {
        slot: Cow<'a, str>,
        #[serde(flatten)]
        content: Option<Content>,
    },
    Branch {
        branch: usize,
        /// The number of the branch that it was made on.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<usize>,
        /// The positions of its messages, from where it leaves that branch.
        own: Range<u64>,
        is_current: bool,
    },
}

/// The content of a slot: those of this crate are JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Content {
    Json(Value),
    Text(String),
    Base64(String),
}

pub(super) fn begin(id: &MemoryId, head: &Snapshot, branches: &[Branch]) -> Result<String> {
    let first = Line::Conversation {
        export: VERSION,
        conversation: id.as_str().into(),
        positions: head.start..head.end,
        system: head.system.as_deref().map(Cow::Borrowed),
    };
    let number = |id| branches.iter().position(|it| it.id == id);
    let branches = branches.iter().enumerate().map(|(branch, it)| Line::Branch {
        branch,
        parent: it.parent.and_then(number),
        own: it.own.clone(),
        is_current: it.is_current,
    });
    all([first].into_iter().chain(branches))
}

pub(super) fn page(page: &Snapshot, branches: &[Branch]) -> Result<String> {
    let branch = |at| branches.iter().position(|it| it.records.iter().any(|it| it.contains(&at)));
    all(rows(page).into_iter().map(|(position, row)| match row {
        Ok(record) => Line::Record {
            branch: branch(position),
            position,
            at: Some(record.millis()).filter(|at| *at > 0).map(rfc3339),
            message: Cow::Borrowed(record.message()),
        },
        Err(error) => Line::Unreadable { position, unreadable: error.to_string() },
    }))
}

pub(super) fn end(head: &Snapshot) -> Result<String> {
    let mut slots: Vec<&Slot> = head.slots().iter().collect();
    slots.sort_by_key(|slot| slot.name());
    all(slots
        .into_iter()
        .map(|slot| Line::Slot { slot: slot.name().into(), content: Some(Content::of(slot)) }))
}

fn all<'a>(lines: impl IntoIterator<Item = Line<'a>>) -> Result<String> {
    let mut text = String::new();
    for line in lines {
        text += &written(&line)?;
        text.push('\n');
    }
    Ok(text)
}

impl Content {
    fn of(slot: &Slot) -> Self {
        let is_ours = ["prompt:", "turn:", "branch:"].iter().any(|it| slot.name().starts_with(it));
        let json = is_ours.then(|| serde_json::from_slice(slot.content()).ok()).flatten();
        match (json, slot.text()) {
            (Some(json), _) => Self::Json(json),
            (None, Some(text)) => Self::Text(text.to_owned()),
            (None, None) => Self::Base64(base64::encode(slot.content())),
        }
    }

    fn bytes(self) -> Option<Vec<u8>> {
        match self {
            Self::Json(json) => Some(json.to_string().into_bytes()),
            Self::Text(text) => Some(text.into_bytes()),
            Self::Base64(text) => base64::decode(&text),
        }
    }
}

/// Reads a line that was exported as [`JsonLines`](super::ExportAs::JsonLines), as an append to a
/// memory that holds exactly what the lines before it say.
///
/// A message keeps its time and position: if the oldest ones were evicted,
/// [`ChatMemoryStore::restore`](crate::ChatMemoryStore::restore) begins the conversation there. A
/// line about a branch is an append of nothing, since the slot of branches has a line too. So
/// append the lines of [all branches](super::Export::all_branches) to the memory itself, and then
/// make a prompt with branches of it. To move conversations between stores,
/// [`copy_to`](crate::ChatMemoryStoreExt::copy_to) is better: it keeps the life of the
/// conversation. After an import from lines, a turn that waits goes on after everything that was
/// said.
///
/// Import only lines that nobody could change. A slot whose name begins with `turn:` says which
/// calls of a turn a person has approved, and those run without another question: leave such
/// [slots](Append::slots) out of other lines.
///
/// # Errors
///
/// [`ErrorKind::Codec`] if it is no such line, if it is of a later version, or if its record could
/// not be read.
pub fn read_line(line: &str) -> Result<Append> {
    let refused = |text: String| Error::new(ErrorKind::Codec, "import", text);
    let line: Line<'_> = serde_json::from_str(line)
        .map_err(|error| refused("this is no line of an export".into()).with_source(error))?;
    match line {
        Line::Conversation { export: ..=VERSION, system, .. } => {
            Ok(Append::new(system.map(Cow::into_owned)))
        }
        Line::Conversation { export, .. } => {
            Err(refused(format!("the export is of version {export}, and this is {VERSION}")))
        }
        Line::Record { position, at, message, .. } => {
            let at = at.map_or(Some(UNIX_EPOCH), |at| moment(&at)).ok_or_else(|| {
                refused(format!("the record at {position} has no time that can be read"))
            })?;
            Ok(Append::new([message.into_owned()]).with_times([at]).expecting(position))
        }
        Line::Unreadable { position, .. } => {
            Err(refused(format!("the record at {position} could not be read when it was exported")))
        }
        Line::Slot { slot, content } => {
            let content = content
                .and_then(Content::bytes)
                .ok_or_else(|| refused(format!("the slot {slot:?} has no content")))?;
            Ok(Append::default().set_slot(slot, content, Expected::Absent))
        }
        Line::Branch { .. } => Ok(Append::default()),
    }
}
