//! Changes of slots, and the names that slots may have.

use std::fmt;

use super::Limits;
use crate::error::{Error, ErrorKind, Result};
use crate::record::SlotVersion;

/// The name under which the system message would lie: it is written by a `System` message alone.
const SYSTEM: &str = "system";

/// The most bytes of a slot's name, and of the id of an append.
pub(crate) const MOST_NAME: usize = 256;

/// A slot that is written or removed by an [`Append`](super::Append).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SlotChange {
    /// The name of the slot.
    pub name: String,
    /// The content that is written; `None` removes the slot.
    pub content: Option<Vec<u8>>,
    /// The state that the slot must be in before.
    pub expected: Expected,
}

/// The state of a slot on which a change of it depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any: the change is made whatever is there.
    Any,
    /// There is no slot of this name.
    Absent,
    /// The slot is of this version.
    Is(SlotVersion),
}

impl SlotChange {
    pub(super) fn check(&self) -> Result<()> {
        check_slot("append", &self.name)
    }

    /// Compares what is expected with the version that is there.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::SlotConflict`] where they differ.
    pub fn holds(&self, actual: Option<SlotVersion>) -> Result<()> {
        let holds = match self.expected {
            Expected::Any => true,
            Expected::Absent => actual.is_none(),
            Expected::Is(version) => actual == Some(version),
        };
        holds.then_some(()).ok_or_else(|| self.conflict())
    }

    /// Returns the error that says that something else is there than what was expected.
    pub fn conflict(&self) -> Error {
        let text = match self.expected {
            Expected::Absent => format!("there is a slot {:?} already", self.name),
            _ => format!("the slot {:?} is not of the expected version", self.name),
        };
        Error::new(ErrorKind::SlotConflict, "append", text)
    }
}

impl fmt::Debug for SlotChange {
    /// Says how much is written, not what: logs are no place for conversations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotChange")
            .field("name", &self.name)
            .field("bytes", &self.content.as_ref().map(Vec::len))
            .field("expected", &self.expected)
            .finish()
    }
}

/// Refuses a name that no slot can have.
pub(super) fn check_slot(operation: &'static str, name: &str) -> Result<()> {
    if name == SYSTEM {
        let text = "the slot \"system\" is that of the system message, which has its own way";
        return Err(Error::invalid(operation, text));
    }
    check_name(operation, "the name of a slot", name)
}

/// Refuses names that no backend should have to keep: empty ones, long ones, and control
/// characters.
pub(crate) fn check_name(operation: &'static str, what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.len() > MOST_NAME || name.contains(char::is_control) {
        let text = format!("{what} has 1 to {MOST_NAME} bytes and no control characters");
        return Err(Error::invalid(operation, text));
    }
    Ok(())
}

/// Refuses a slot that is larger than a memory keeps.
pub(super) fn largest(name: &str, bytes: usize, limits: &Limits) -> Result<()> {
    // Where there are no slots at all, that is said elsewhere.
    if limits.slot > 0 && bytes > limits.slot {
        let most = limits.slot;
        let text = format!("the slot {name:?} has {bytes} bytes, and may have {most}");
        return Err(Error::invalid("append", text));
    }
    Ok(())
}
