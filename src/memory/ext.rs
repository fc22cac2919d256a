//! The methods that every memory has in addition to those that it implements.

use std::ops::Range;
use std::sync::Arc;

use super::append::written;
use super::{Append, ChatMemory, Expected, Read};
use crate::error::Result;
use crate::message::{Message, with_one_system};
use crate::record::{Records, Slot, SlotVersion, Snapshot};

/// Convenience methods for users of a [`ChatMemory`]. It is implemented for every memory; do not
/// implement it yourself.
pub trait ChatMemoryExt: ChatMemory {
    /// Appends one message; returns its position (for a `System` message, where the next one goes).
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append`]. The message is then lost: append a batch if it must survive.
    fn add(&self, message: impl Into<Message>) -> Result<u64> {
        self.append(&mut vec![message.into()], None).map(|range| range.start)
    }

    /// Appends messages in one batch; returns their positions.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append`].
    fn add_all(&self, messages: impl IntoIterator<Item = Message>) -> Result<Range<u64>> {
        self.append(&mut messages.into_iter().collect(), None)
    }

    /// Appends a history that was written elsewhere; returns the positions of its records.
    ///
    /// It does what [`add_all`](Self::add_all) does, except for system messages: a memory has only
    /// one, so those of the history are joined in their order. `add_all` keeps the last of them.
    ///
    /// ```
    /// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, wire};
    ///
    /// let log = r#"[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"},
    ///               {"role": "system", "content": "It is Friday."}]"#;
    /// let memory = DefaultChatMemory::new();
    /// assert_eq!(memory.import(wire::openai::history(log)?)?, 0..1);
    /// assert_eq!(memory.system()?.ok_or("none")?.text(), "Be brief.\n\nIt is Friday.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append`].
    fn import(&self, history: impl IntoIterator<Item = Message>) -> Result<Range<u64>> {
        self.append(&mut with_one_system(history), None)
    }

    /// Returns the newest `n` records.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`].
    fn latest(&self, n: usize) -> Result<Records> {
        self.read(None, n).map(|snapshot| snapshot.records)
    }

    /// Returns every record.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`].
    fn all(&self) -> Result<Records> {
        self.latest(usize::MAX)
    }

    /// Returns a copy of every message, oldest first. [`all`](Self::all) copies nothing, and also
    /// has positions and times.
    ///
    /// ```
    /// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, Message};
    ///
    /// let memory = DefaultChatMemory::new();
    /// memory.add_all([Message::user("hi"), Message::ai("Hello!")])?;
    /// assert_eq!(memory.messages()?, [Message::user("hi"), Message::ai("Hello!")]);
    /// assert_eq!(memory.len()?, 2);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`].
    fn messages(&self) -> Result<Vec<Message>> {
        self.all().map(|records| copies(&records))
    }

    /// Returns the number of records that are kept, those that can't be read included. The system
    /// message is not among them.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`].
    #[doc(alias = "count")]
    fn len(&self) -> Result<u64> {
        self.read(None, 0).map(|snapshot| kept(&snapshot))
    }

    /// Returns whether no record is kept.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`].
    fn is_empty(&self) -> Result<bool> {
        self.len().map(|len| len == 0)
    }

    /// Returns the system message, if there is one.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`].
    fn system(&self) -> Result<Option<Arc<Message>>> {
        self.read(None, 0).map(|snapshot| snapshot.system)
    }

    /// Returns the position that the next record will have. It also counts records that were
    /// evicted; [`len`](Self::len) returns the number of those that are kept.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read`].
    #[doc(alias = "end")]
    fn next_position(&self) -> Result<u64> {
        self.read(None, 0).map(|snapshot| snapshot.end)
    }

    /// Returns the slot of this name, if there is one.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read_with`].
    fn slot(&self, name: impl Into<String>) -> Result<Option<Slot>> {
        let snapshot = self.read_with(&Read::newest(0).slots([name]))?;
        Ok(snapshot.slots().first().cloned())
    }

    /// Writes a slot, whose name is one that [`Append::set_slot`] allows; returns its version.
    ///
    /// ```
    /// use memory_prompt::memory::Expected;
    /// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, ErrorKind};
    ///
    /// let memory = DefaultChatMemory::new();
    /// let version = memory.set_slot("summary", "They want to cancel.", Expected::Absent)?;
    /// memory.set_slot("summary", "They have cancelled.", Expected::Is(version))?;
    ///
    /// let late = memory.set_slot("summary", "They asked.", Expected::Is(version));
    /// assert_eq!(late.unwrap_err().kind(), ErrorKind::SlotConflict);
    /// assert_eq!(memory.slot("summary")?.unwrap().text(), Some("They have cancelled."));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append_with`].
    fn set_slot(
        &self,
        name: impl Into<String>,
        content: impl Into<Vec<u8>>,
        expected: Expected,
    ) -> Result<SlotVersion> {
        written(&self.append_with(&mut Append::default().set_slot(name, content, expected))?)
    }

    /// Removes a slot, if there is one.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::append_with`].
    fn remove_slot(&self, name: impl Into<String>, expected: Expected) -> Result<()> {
        self.append_with(&mut Append::default().remove_slot(name, expected)).map(drop)
    }

    /// Returns the history in pages of `size` records, from the newest page to the oldest.
    ///
    /// Pages go by position: records that are appended in the meantime are neither repeated nor do
    /// they hide others, and a row that can't be read only makes its page shorter. A size of 0
    /// counts as 1.
    fn pages(&self, size: usize) -> Pages<'_, Self> {
        Pages { memory: self, next: NextPage::of(size) }
    }
}

impl<M: ChatMemory + ?Sized> ChatMemoryExt for M {}

pub(super) fn copies(records: &Records) -> Vec<Message> {
    records.iter().map(|record| record.message().clone()).collect()
}

pub(super) fn kept(snapshot: &Snapshot) -> u64 {
    snapshot.end.saturating_sub(snapshot.start)
}

/// The pages of [`ChatMemoryExt::pages`].
#[derive(Debug)]
pub struct Pages<'a, M: ?Sized> {
    memory: &'a M,
    next: NextPage,
}

impl<M: ChatMemory + ?Sized> Iterator for Pages<'_, M> {
    type Item = Result<Records>;

    fn next(&mut self) -> Option<Self::Item> {
        let (before, size) = self.next.begin()?;
        self.next.read(self.memory.read(before, size)).transpose()
    }
}

/// The page to read next, blocking or not. An error ends the pages.
#[derive(Debug)]
pub(super) struct NextPage {
    size: usize,
    before: Option<u64>,
    done: bool,
}

impl NextPage {
    pub(super) fn of(size: usize) -> Self {
        Self { size: size.max(1), before: None, done: false }
    }

    /// Returns what to read: this many records before a position. `None` after the last page.
    pub(super) fn begin(&mut self) -> Option<(Option<u64>, usize)> {
        let was_done = std::mem::replace(&mut self.done, true);
        (!was_done).then_some((self.before, self.size))
    }

    /// Returns the page that was read, if there is one.
    pub(super) fn read(&mut self, read: Result<Snapshot>) -> Result<Option<Records>> {
        let snapshot = read?;
        let Some(oldest) = snapshot.oldest_row_read() else { return Ok(None) };
        self.before = Some(oldest);
        self.done = oldest <= snapshot.start;
        Ok(Some(snapshot.records))
    }
}
