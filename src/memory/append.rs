//! Appends with more than messages: an id, slots, times.

use std::fmt;
use std::ops::Range;
use std::time::SystemTime;

use super::Limits;
use super::read::On;
use super::slots::{Expected, SlotChange, check_name, check_slot};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Incarnation, SlotVersion, Snapshot};

/// A batch of messages with all that can go with it, appended whole or not at all.
///
/// Pass it to [`ChatMemory::append_with`](crate::ChatMemory::append_with), which takes the messages
/// out of it. If that fails they stay, and the same `Append` can be tried again.
///
/// # Exactly once
///
/// ```
/// use memory_prompt::memory::Append;
/// use memory_prompt::{ChatMemory, ChatMemoryExt, DefaultChatMemory, Message};
///
/// let memory = DefaultChatMemory::with_id("support:u1001:c2002");
/// let update = || Append::new([Message::user("Cancel my booking.")]).with_id("update 4711");
///
/// let first = memory.append_with(&mut update())?;
/// let again = memory.append_with(&mut update())?; // the sender got no answer to the first one
/// assert!(again.repeated);
/// assert_eq!(again.positions, first.positions);
/// assert_eq!(memory.next_position()?, 1);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # With a document beside the records
///
/// ```
/// # use memory_prompt::memory::{Append, Expected, Read};
/// # use memory_prompt::{ChatMemory, DefaultChatMemory, ErrorKind, Message};
/// # let memory = DefaultChatMemory::with_id("support:u1001:c2002");
/// let mut append = Append::new([Message::ai("It is cancelled.")])
///     .set_slot("summary", "They cancelled a booking.", Expected::Absent);
/// let version = memory.append_with(&mut append)?.version;
///
/// let snapshot = memory.read_with(&Read::newest(10).slots(["summary"]))?;
/// let summary = snapshot.slot("summary").unwrap();
/// assert_eq!(summary.text(), Some("They cancelled a booking."));
/// assert_eq!(Some(summary.version()), version);
///
/// // Another writer was faster: neither the message nor the slot is written.
/// let mut late = Append::new([Message::ai("It is done.")])
///     .set_slot("summary", "They asked for something.", Expected::Absent);
/// assert_eq!(memory.append_with(&mut late).unwrap_err().kind(), ErrorKind::SlotConflict);
/// assert_eq!(late.messages.len(), 1);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # An import
///
/// Each message keeps its time. The conversation counts as active now, so that no purge removes it
/// between two batches, until [`closing`](Self::closing) sets the time of its last activity.
///
/// ```
/// # use std::time::{Duration, UNIX_EPOCH};
/// # use memory_prompt::memory::Append;
/// # use memory_prompt::{ChatMemory, ChatMemoryExt, DefaultChatMemory, Message};
/// # let memory = DefaultChatMemory::new();
/// let may_2024 = [1_714_557_600, 1_714_557_660];
/// let at = may_2024.map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds));
/// let messages = [Message::user("hi"), Message::ai("hello")];
/// let end = memory.append_with(&mut Append::new(messages).with_times(at))?.positions.end;
/// memory.append_with(&mut Append::closing(end, at[1]))?;
/// assert_eq!(memory.all()?.first().map(|record| record.appended_at()), Some(at[0]));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Append {
    /// The messages to append; a `System` message goes to its slot. Empty after the append.
    pub messages: Vec<Message>,
    /// The position at which the conversation must end.
    pub expected: Option<u64>,
    /// The id by which the append is recognised if it comes again.
    pub id: Option<String>,
    /// The slots to write and remove.
    pub slots: Vec<SlotChange>,
    /// The time of each message; if empty, the time of the append.
    pub times: Vec<SystemTime>,
    /// The part of the conversation that must still be there.
    pub since: Option<Since>,
    /// The time when the conversation was last active, instead of now.
    pub active: Option<SystemTime>,
    /// The branch that it is for, if the memory shows [one of several](crate::history); the default
    /// is the current one. Other memories ignore it.
    pub(crate) branch: Option<On>,
}

/// The part of a conversation that a caller has seen and that must still be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Since {
    /// The incarnation that the caller saw, if the memory has them.
    pub incarnation: Option<Incarnation>,
    /// The position of the newest record that was there, if there was one.
    pub newest: Option<u64>,
}

/// The outcome of an append.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Appended {
    /// The positions of the messages; those of the first append if it was `repeated`.
    pub positions: Range<u64>,
    /// The version of the slots that it wrote, if it wrote any.
    pub version: Option<SlotVersion>,
    /// True if this memory recognises ids. If it does not, the same append is appended each time
    /// that it comes.
    pub recognised: bool,
    /// True if the id had been appended before, so that nothing was changed now.
    pub repeated: bool,
    /// The branch on which it was appended before, if the memory shows one of several.
    pub(crate) branch: Option<On>,
}

impl fmt::Debug for Append {
    /// Shows how much is appended and under which conditions, not what is said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Append")
            .field("messages", &self.messages.len())
            .field("expected", &self.expected)
            .field("id", &self.id)
            .field("slots", &self.slots.len())
            .field("times", &self.times.len())
            .field("since", &self.since)
            .field("active", &self.active)
            .field("branch", &self.branch)
            .finish()
    }
}

impl Append {
    /// Returns an append of these messages.
    pub fn new(messages: impl IntoIterator<Item = Message>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }

    /// Returns the append that closes an import: the conversation, which must end at `end`, was
    /// last active at this time.
    ///
    /// It appends nothing. If others have appended messages with a position in the meantime, it
    /// fails with a conflict, and the time of their last append counts. It does not notice a system
    /// message or slots that others have written in the meantime, or a conversation that was
    /// deleted and begun again up to the same position: close an import before anyone else uses it,
    /// or add [`since`](Self::since) with the last snapshot of the import.
    ///
    /// The next purge uses this time; a time in the future protects the conversation until then.
    /// Without a closing an import is kept as long as messages of today.
    pub fn closing(end: u64, active: SystemTime) -> Self {
        Self { expected: Some(end), active: Some(active), ..Self::default() }
    }

    /// Appends only if the conversation still ends at this position.
    #[must_use]
    pub fn expecting(mut self, end: u64) -> Self {
        self.expected = Some(end);
        self
    }

    /// Gives the append an id, by which it is recognised if it comes again.
    ///
    /// An id is text of 1 to 256 bytes without control characters, and belongs to one conversation.
    /// A conversation recognises as many of them as its memory's [`Limits::ids`] says, usually 64:
    /// an id that comes again after that many others counts as new. Each [turn](crate::Turn) uses
    /// one. So an import of more batches that may be restarted also needs
    /// [`expecting`](Self::expecting), or must go on from
    /// [`next_position`](super::ChatMemoryExt::next_position).
    ///
    /// Only the id is compared: an append with other messages or slots under a known id counts as
    /// the first one, and is not stored.
    #[must_use]
    pub fn with_id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// Writes this slot too.
    ///
    /// A name is text of 1 to 256 bytes without control characters, and not `system`: that slot is
    /// written by a `System` message. Names that begin with `turn:`, `prompt:` or `branch:` are for
    /// the library. If you write another document under such a name, whatever reads it fails until
    /// you remove it: for `turn:`, each [`unfinished`](crate::MemoryPrompt::unfinished) and
    /// [`waiting`](crate::MemoryPrompt::waiting).
    #[must_use]
    pub fn set_slot(
        mut self,
        name: impl Into<String>,
        content: impl Into<Vec<u8>>,
        expected: Expected,
    ) -> Self {
        let (name, content) = (name.into(), Some(content.into()));
        self.slots.push(SlotChange { name, content, expected });
        self
    }

    /// Removes this slot too.
    #[must_use]
    pub fn remove_slot(mut self, name: impl Into<String>, expected: Expected) -> Self {
        self.slots.push(SlotChange { name: name.into(), content: None, expected });
        self
    }

    /// Gives each message its time, system messages included. Times are kept to the millisecond; a
    /// time before 1970 is kept as 1970.
    #[must_use]
    pub fn with_times(mut self, times: impl IntoIterator<Item = SystemTime>) -> Self {
        self.times = times.into_iter().collect();
        self
    }

    /// Appends only if the conversation of this snapshot still exists: it was neither deleted nor
    /// begun again, and not all of its records were forgotten.
    #[must_use]
    pub fn since(mut self, snapshot: &Snapshot) -> Self {
        let newest = snapshot.end.checked_sub(1).filter(|newest| *newest >= snapshot.start);
        self.since = Some(Since { incarnation: snapshot.incarnation, newest });
        self
    }

    /// Refuses an append that is invalid, or larger than the limits of a memory allow.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory), as the first step. Only they know how
    /// large messages are once they are written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for an invalid id or name, for a slot that is changed twice or is too
    /// large, if the number of times is not that of the messages, and if a message
    /// [has references](Message::has_references).
    pub fn check(&self, limits: &Limits) -> Result<()> {
        if let Some(id) = &self.id {
            check_name("append", "the id of an append", id)?;
        }
        for (i, change) in self.slots.iter().enumerate() {
            let name = &change.name;
            check_slot("append", name)?;
            if self.slots[..i].iter().any(|before| before.name == *name) {
                let text = format!("the slot {name:?} is changed twice in one append");
                return Err(Error::invalid("append", text));
            }
            let (bytes, most) = (change.content.as_ref().map_or(0, Vec::len), limits.slot);
            // If there are no slots at all, another error says so.
            if most > 0 && bytes > most {
                let text = format!("the slot {name:?} has {bytes} bytes, and may have {most}");
                return Err(Error::invalid("append", text));
            }
        }
        if !self.times.is_empty() && self.times.len() != self.messages.len() {
            let (times, messages) = (self.times.len(), self.messages.len());
            let text = format!("there are {times} times for {messages} messages");
            return Err(Error::invalid("append", text));
        }
        must_not_refer(&self.messages)
    }

    /// Returns whether there is nothing to do: the append then changes nothing, creates nothing and
    /// is no activity, and its id is not remembered.
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty() && self.slots.is_empty() && self.active.is_none()
    }

    /// Returns whether it begins a conversation if there is none. An append that only removes slots
    /// or only closes does so only if it has an id.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory).
    pub fn creates(&self) -> bool {
        !self.messages.is_empty() || self.writes_slots() || self.id.is_some() && !self.is_empty()
    }

    /// Returns whether a slot is written, not only removed.
    pub(crate) fn writes_slots(&self) -> bool {
        self.slots.iter().any(|change| change.content.is_some())
    }

    /// Refuses an append whose expectations can't hold if there is no conversation yet.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory).
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append_with`](crate::ChatMemory::append_with).
    pub fn check_on_nothing(&self) -> Result<()> {
        self.check_conversation("", None, &(0..0))?;
        self.slots.iter().try_for_each(|change| change.holds(None))
    }

    /// Refuses an append whose expectations, apart from those about slots, don't hold in a
    /// conversation of this incarnation with these positions. The errors begin with `front`.
    pub(crate) fn check_conversation(
        &self,
        front: &str,
        incarnation: Option<Incarnation>,
        positions: &Range<u64>,
    ) -> Result<()> {
        if let Some(expected) = self.expected.filter(|expected| *expected != positions.end) {
            return Err(conflict(front, expected, positions.end));
        }
        if self.since.is_some_and(|since| !since.holds(incarnation, positions)) {
            return Err(forgotten(front));
        }
        Ok(())
    }

    /// Refuses what a memory of five methods can't do.
    pub(super) fn must_be_plain(&self) -> Result<()> {
        self.check(&Limits::default())?;
        let what = if !self.slots.is_empty() {
            "slots"
        } else if !self.times.is_empty() || self.active.is_some() {
            "times of its messages"
        } else if self.since.is_some() {
            "incarnation"
        } else {
            return Ok(());
        };
        Err(unsupported("append", what, "append_with"))
    }
}

impl Since {
    /// Returns whether it is still there, in a conversation of this incarnation with these
    /// positions.
    pub fn holds(&self, incarnation: Option<Incarnation>, positions: &Range<u64>) -> bool {
        self.incarnation.is_none_or(|seen| incarnation == Some(seen))
            && self.newest.is_none_or(|newest| positions.contains(&newest))
    }
}

impl Appended {
    /// Returns the outcome of an append to these positions, by a memory that does not recognise
    /// ids.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory), who set the other fields.
    pub fn new(positions: Range<u64>) -> Self {
        Self { positions, version: None, recognised: false, repeated: false, branch: None }
    }
}

/// A batch as an append: what is left of it goes back, even if its future is dropped.
pub(crate) struct LentBatch<'a> {
    batch: &'a mut Vec<Message>,
    pub(crate) append: Append,
}

impl<'a> LentBatch<'a> {
    pub(crate) fn new(batch: &'a mut Vec<Message>, expected: Option<u64>) -> Self {
        let append = Append { expected, ..Append::new(std::mem::take(batch)) };
        Self { batch, append }
    }
}

impl Drop for LentBatch<'_> {
    fn drop(&mut self) {
        std::mem::swap(self.batch, &mut self.append.messages);
    }
}

/// Returns the error of an append to a conversation that ends elsewhere; its text begins with
/// `front`, which is "redis: ", or nothing.
pub(crate) fn conflict(front: &str, expected: u64, actual: u64) -> Error {
    let text = format!("{front}the conversation ends at {actual}, not at {expected}");
    Error::new(ErrorKind::Conflict { expected, actual }, "append", text)
}

/// Returns the error of an append whose caller has seen a part of the conversation that is gone;
/// its text begins with `front`.
pub(crate) fn forgotten(front: &str) -> Error {
    let text = format!("{front}the conversation was deleted, cleared or evicted since it was seen");
    Error::new(ErrorKind::Forgotten, "append", text)
}

/// Returns the error for what a memory of five methods does not do.
pub(crate) fn unsupported(operation: &'static str, what: &str, method: &str) -> Error {
    let text = format!("this memory has no {what}: implement `{method}` for that");
    Error::new(ErrorKind::Unsupported, operation, text)
}

pub(super) fn written(appended: &Appended) -> Result<SlotVersion> {
    let text = "the memory does not say of which version the slot is now";
    appended.version.ok_or_else(|| Error::new(ErrorKind::Storage, "append", text))
}

/// Refuses a message with a reference instead of media: a reference names the bytes but does not
/// prove that they are there.
pub(crate) fn must_not_refer(messages: &[Message]) -> Result<()> {
    messages.iter().position(Message::has_references).map_or(Ok(()), |i| {
        let text = format!("message {i} of the batch has a reference in the place of media");
        Err(Error::invalid("append", text))
    })
}
