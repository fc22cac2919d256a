//! Changes of slots, and the names that slots may have.

use std::fmt;

use crate::error::{Error, ErrorKind, Result};
use crate::record::SlotVersion;

/// The reserved name: only a `System` message writes that slot.
const SYSTEM: &str = "system";

/// The most bytes of a slot's name, and of the id of an append.
pub(crate) const MOST_NAME: usize = 256;

/// A slot that an [`Append`](super::Append) writes or removes.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotChange {
    /// The name of the slot.
    pub name: String,
    /// The content to write; `None` removes the slot.
    pub content: Option<Vec<u8>>,
    /// The state that the slot must have before the change.
    pub expected: Expected,
}

/// The state of a slot that a change requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any: the change is always made.
    Any,
    /// There is no slot of this name.
    Absent,
    /// The slot has this version.
    Is(SlotVersion),
}

impl SlotChange {
    /// Compares the expectation with the version that the slot has.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SlotConflict`] if they differ.
    pub fn holds(&self, actual: Option<SlotVersion>) -> Result<()> {
        let holds = match self.expected {
            Expected::Any => true,
            Expected::Absent => actual.is_none(),
            Expected::Is(version) => actual == Some(version),
        };
        holds.then_some(()).ok_or_else(|| self.conflict())
    }

    /// Returns the error for a slot that is not as expected.
    pub fn conflict(&self) -> Error {
        let text = match self.expected {
            Expected::Absent => format!("there is a slot {:?} already", self.name),
            _ => format!("the slot {:?} is not of the expected version", self.name),
        };
        Error::new(ErrorKind::SlotConflict, "append", text)
    }
}

impl fmt::Debug for SlotChange {
    /// Shows how much is written, not what: conversations do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotChange")
            .field("name", &self.name)
            .field("bytes", &self.content.as_ref().map(Vec::len))
            .field("expected", &self.expected)
            .finish()
    }
}

pub(super) fn check_slot(operation: &'static str, name: &str) -> Result<()> {
    if name == SYSTEM {
        let text = "the slot \"system\" is that of the system message, which has its own way";
        return Err(Error::invalid(operation, text));
    }
    check_name(operation, "the name of a slot", name)
}

/// Refuses empty names, long names and control characters, so that no backend has to store them.
pub(crate) fn check_name(operation: &'static str, what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MOST_NAME || name.contains(char::is_control) {
        let text = format!("{what} has 1 to {MOST_NAME} bytes and no control characters");
        return Err(Error::invalid(operation, text));
    }
    Ok(())
}
