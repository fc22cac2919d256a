//! A conversation as JSON lines, and back.

use std::ops::Range;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{rows, written};
use crate::error::{Error, ErrorKind, Result};
use crate::history::Branch;
use crate::memory::{Append, Expected, MemoryId};
use crate::message::{Message, base64};
use crate::record::{Record, Slot, Snapshot, moment};

/// The form of the lines: one that is newer is refused.
const VERSION: u32 = 1;

/// What a line says.
#[derive(Serialize)]
#[serde(untagged)]
enum Line<'a> {
    Conversation {
        export: u32,
        conversation: &'a str,
        positions: &'a Range<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        system: Option<&'a Message>,
    },
    Branch {
        branch: usize,
        /// The number of the branch that it was made on, and the position where it parts.
        #[serde(skip_serializing_if = "Option::is_none")]
        parent: Option<usize>,
        own: &'a Range<u64>,
        is_current: bool,
    },
    Record {
        #[serde(skip_serializing_if = "Option::is_none")]
        branch: Option<usize>,
        #[serde(flatten)]
        record: Record<'a>,
    },
    Unreadable {
        position: u64,
        unreadable: String,
    },
    Slot {
        slot: &'a str,
        #[serde(flatten)]
        content: Content<'a>,
    },
}

/// The content of a slot: those of this crate are JSON.
#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Content<'a> {
    Json(Value),
    Text(&'a str),
    Base64(String),
}

pub(super) fn begin(id: &MemoryId, head: &Snapshot, branches: &[Branch]) -> Result<String> {
    let (system, positions) = (head.system.as_deref(), head.start..head.end);
    let first = Line::Conversation {
        export: VERSION,
        conversation: id.as_str(),
        positions: &positions,
        system,
    };
    let number = |id| branches.iter().position(|it| it.id == id);
    let branches = branches.iter().enumerate().map(|(branch, it)| Line::Branch {
        branch,
        parent: it.parent.and_then(number),
        own: &it.own,
        is_current: it.is_current,
    });
    all([first].into_iter().chain(branches))
}

pub(super) fn page(page: &Snapshot, branches: &[Branch]) -> Result<String> {
    let branch = |at| branches.iter().position(|it| it.records.iter().any(|it| it.contains(&at)));
    all(rows(page).into_iter().map(|(position, row)| match row {
        Ok(record) => Line::Record { branch: branch(position), record },
        Err(error) => Line::Unreadable { position, unreadable: error.to_string() },
    }))
}

pub(super) fn end(head: &Snapshot) -> Result<String> {
    let mut slots: Vec<&Slot> = head.slots().iter().collect();
    slots.sort_by_key(|slot| slot.name());
    all(slots.into_iter().map(|slot| Line::Slot { slot: slot.name(), content: Content::of(slot) }))
}

fn all<'a>(lines: impl IntoIterator<Item = Line<'a>>) -> Result<String> {
    let mut text = String::new();
    for line in lines {
        text += &written(&line)?;
        text.push('\n');
    }
    Ok(text)
}

impl<'a> Content<'a> {
    fn of(slot: &'a Slot) -> Self {
        let is_ours = ["prompt:", "turn:", "branch:"].iter().any(|it| slot.name().starts_with(it));
        let json = Some(slot.content()).filter(|_| is_ours);
        if let Some(json) = json.and_then(|json| serde_json::from_slice(json).ok()) {
            return Self::Json(json);
        }
        match slot.text() {
            Some(text) => Self::Text(text),
            None => Self::Base64(base64::encode(slot.content())),
        }
    }
}

/// A line that is read. What a line says besides tells people, and no memory.
#[derive(Deserialize)]
struct Read {
    export: Option<u32>,
    system: Option<Message>,
    branch: Option<usize>,
    position: Option<u64>,
    at: Option<String>,
    message: Option<Message>,
    unreadable: Option<String>,
    slot: Option<String>,
    json: Option<Value>,
    text: Option<String>,
    base64: Option<String>,
}

/// Reads a line of a conversation that was exported as [`JsonLines`](super::ExportAs::JsonLines):
/// the append of what it holds, to a memory that holds what the lines before it say and no more.
///
/// A message keeps its time and position: where the oldest ones were evicted,
/// [`ChatMemoryStore::restore`](crate::ChatMemoryStore::restore) begins the conversation there. A
/// line that tells of a branch is an append of nothing, for the slot of branches has a line too. So
/// the lines of [all branches](super::Export::all_branches) go to a plain memory, of which a prompt
/// with branches is made then. What lies between stores is moved better by
/// [`copy_to`](crate::ChatMemoryStoreExt::copy_to), which keeps the life of the conversation: of
/// one that is read in from lines, a turn that waits goes on behind all that was said.
///
/// # Errors
///
/// [`ErrorKind::Codec`] for a line that is no such line, of a later version, or of a record that
/// could not be read.
pub fn read_line(line: &str) -> Result<Append> {
    let refused = |text: String| Error::new(ErrorKind::Codec, "import", text);
    let read: Read = serde_json::from_str(line)
        .map_err(|error| refused("this is no line of an export".into()).with_source(error))?;
    match read {
        Read { export: Some(..=VERSION), system, .. } => Ok(Append::new(system)),
        Read { export: Some(later), .. } => {
            Err(refused(format!("the export is of version {later}, and this is {VERSION}")))
        }
        Read { position: Some(position), message: Some(message), at, .. } => {
            let at = at.map_or(Some(UNIX_EPOCH), |at| moment(&at));
            let at = at.ok_or_else(|| {
                refused(format!("the record at {position} has no time that can be read"))
            })?;
            Ok(Append::new([message]).with_times([at]).expecting(position))
        }
        Read { position: Some(position), unreadable: Some(_), .. } => {
            Err(refused(format!("the record at {position} could not be read when it was exported")))
        }
        Read { slot: Some(slot), json, text, base64, .. } => {
            let json = json.map(|json| json.to_string().into_bytes());
            let content = json.or_else(|| text.map(String::into_bytes));
            let content = content.or_else(|| base64::decode(&base64?));
            let content =
                content.ok_or_else(|| refused(format!("the slot {slot:?} has no content")))?;
            Ok(Append::default().set_slot(slot, content, Expected::Absent))
        }
        Read { branch: Some(_), .. } => Ok(Append::default()),
        _ => Err(refused("this is no line of an export".into())),
    }
}
