//! Records: messages as a memory holds them, in blocks that are shared and never copied.
//!
//! A memory that hands out its newest ten messages must not touch ten reference counts, and a prompt
//! that is kept must not keep the next append waiting. So messages live in blocks of write-once
//! slots: a reader holds the block and the range that was filled when it looked, a writer fills the
//! next slot beside it.

mod cursor;
mod few;
mod run;

use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, mem};

use crate::error::Error;
use crate::message::Message;
pub(crate) use cursor::Cursor;
pub(crate) use few::Few;
pub(crate) use run::{Block, Entry, Run, Slot};

/// One message as a memory holds it: what was said, where it stands, and when it came.
///
/// The position, `seq`, counts from the beginning of the conversation and is never used again.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    seq: u64,
    entry: &'a Entry,
    run: &'a Run,
}

/// Records in the order of their positions: a consistent view that costs next to nothing to hold.
///
/// Positions ascend. They have no gaps unless the memory can't read one of its rows.
#[derive(Clone, Default)]
pub struct Records {
    runs: Few<Run>,
}

/// What a memory answers when it is read: its system message, its newest records, and where the
/// conversation begins and ends.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// The system message, which has a slot of its own and no position.
    pub system: Option<Arc<Message>>,
    /// The records that were asked for, oldest first.
    pub records: Records,
    /// The position of the oldest record that the memory still holds, or `end` where it holds none.
    pub start: u64,
    /// The position that the next record will have.
    pub end: u64,
    /// The rows among those that were asked for which the memory holds and can't read. They do not
    /// hide the others.
    pub unreadable: Vec<Unreadable>,
}

/// A row that a memory holds and can't read.
#[derive(Clone, Debug)]
pub struct Unreadable {
    /// Its position.
    pub seq: u64,
    /// Why it can't be read.
    pub error: Arc<Error>,
}

impl<'a> Record<'a> {
    /// The position since the conversation began.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The message.
    pub fn message(&self) -> &'a Message {
        &self.entry.message
    }

    /// When the message was appended, to the millisecond.
    pub fn appended_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.millis())
    }

    /// The time of append in milliseconds since 1970.
    pub(crate) fn millis(&self) -> u64 {
        self.entry.at
    }

    /// Whether this is the record that `run` begins with: the same one, not an equal one.
    pub(crate) fn is(&self, run: &Run) -> bool {
        run.seq == self.seq && run.record(0).is_some_and(|it| std::ptr::eq(it.entry, self.entry))
    }

    /// This record as a run of one, which holds its block.
    pub(crate) fn to_run(self) -> Run {
        let from = self.run.from + places(self.seq - self.run.seq);
        Run { block: Arc::clone(&self.run.block), seq: self.seq, from, len: 1 }
    }
}

impl Records {
    /// Records from rows `(position, time of append, message)`, in ascending order of positions.
    ///
    /// This is how a memory of your own answers a read. Rows that are not in ascending order are
    /// sorted.
    ///
    /// ```
    /// use std::time::UNIX_EPOCH;
    /// use memory_prompt::{Message, Records};
    ///
    /// let records = Records::from_rows([(7, UNIX_EPOCH, Message::user("hi")), (8, UNIX_EPOCH, Message::ai("hello"))]);
    /// assert_eq!(records.len(), 2);
    /// assert_eq!(records.iter().map(|r| r.seq()).collect::<Vec<_>>(), [7, 8]);
    /// ```
    pub fn from_rows(rows: impl IntoIterator<Item = (u64, SystemTime, Message)>) -> Self {
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|row| row.0);
        let seqs: Vec<u64> = rows.iter().map(|row| row.0).collect();
        let block: Block = rows
            .into_iter()
            .map(|(_, at, message)| OnceLock::from(Entry { at: millis(at), message }))
            .collect();
        let mut records = Self::default();
        for (from, seq) in seqs.into_iter().enumerate() {
            match records.runs.last_mut() {
                Some(run) if run.seq + run.len as u64 == seq => run.len += 1,
                _ => records.push(Run { block: Arc::clone(&block), seq, from, len: 1 }),
            }
        }
        records
    }

    /// Adds records that stand behind all others.
    pub(crate) fn push(&mut self, run: Run) {
        self.runs.push(run);
    }

    /// Parts the records in two: those before the position `seq`, and those from it on.
    pub(crate) fn split(self, seq: u64) -> (Self, Self) {
        let (mut before, mut behind) = (Self::default(), Self::default());
        for run in self.runs {
            let i = places(seq.saturating_sub(run.seq));
            let (left, right) = run.split(i);
            if left.len > 0 {
                before.push(left);
            }
            if right.len > 0 {
                behind.push(right);
            }
        }
        (before, behind)
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The records, oldest first; `.rev()` gives the newest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + Clone {
        self.runs.iter().flat_map(Run::iter)
    }

    /// Whether each message from the `skip`th record on is `wanted`.
    #[inline]
    pub(crate) fn all_from(&self, skip: usize, mut wanted: impl FnMut(&Message) -> bool) -> bool {
        let (mut skip, mut i) = (skip, 0);
        while let Some(run) = self.runs.get(i) {
            let slots = run.slots().get(skip..).unwrap_or_default();
            let mut unwanted = |slot: &Slot| !slot.get().is_some_and(|it| wanted(&it.message));
            if slots.iter().any(&mut unwanted) {
                return false;
            }
            skip = skip.saturating_sub(run.len);
            i += 1;
        }
        true
    }

    /// Lets go of the first blocks, as far as nothing of them is among the first `n` records. Returns
    /// how many records that were.
    pub(crate) fn forget(&mut self, n: usize) -> usize {
        let (mut runs, mut records) = (0, 0);
        while let Some(run) = self.runs.get(runs).filter(|run| records + run.len <= n) {
            runs += 1;
            records += run.len;
        }
        if self.runs.get(runs).is_none() {
            self.runs = Few::default();
        } else if runs > 0 {
            self.runs = mem::take(&mut self.runs).into_iter().skip(runs).collect();
        }
        records
    }

    /// The `i`th record.
    #[inline]
    pub(crate) fn get(&self, mut i: usize) -> Option<Record<'_>> {
        for run in self.runs.iter() {
            if i < run.len {
                return run.record(i);
            }
            i -= run.len;
        }
        None
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.iter().map(|record| record.message())
    }

    /// The oldest of them.
    pub fn first(&self) -> Option<Record<'_>> {
        self.runs.get(0)?.record(0)
    }

    /// The newest of them.
    pub fn last(&self) -> Option<Record<'_>> {
        self.iter().next_back()
    }
}

impl From<Run> for Records {
    fn from(run: Run) -> Self {
        Self { runs: run.into() }
    }
}

impl Snapshot {
    /// A conversation of these messages, from position 0 on: for composing without a memory.
    ///
    /// A `System` message among them becomes the system message; the last one, where there are
    /// several.
    pub fn from_messages(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut system = None;
        let mut rows = Vec::new();
        for message in messages {
            if message.is_system() {
                system = Some(Arc::new(message));
            } else {
                rows.push((rows.len() as u64, UNIX_EPOCH, message));
            }
        }
        let end = rows.len() as u64;
        Self { system, records: Records::from_rows(rows), start: 0, end, unreadable: Vec::new() }
    }

    /// The position of the oldest of these records.
    #[inline]
    pub(crate) fn oldest(&self) -> u64 {
        self.records.runs.get(0).map_or(self.end, |run| run.seq)
    }

    /// The position of the oldest row that was read, whether or not it could be made sense of; none
    /// where no row was.
    pub(crate) fn covered(&self) -> Option<u64> {
        let readable = self.records.first().map(|record| record.seq());
        let unreadable = self.unreadable.iter().map(|row| row.seq).min();
        readable.into_iter().chain(unreadable).min()
    }

    /// How many rows were read, those included that made no sense.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.records.len() + self.unreadable.len()
    }

    /// Whether nothing older than these records is in the memory.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.oldest() <= self.start
    }
}

/// A number of records in memory, from a difference of positions.
pub(crate) fn places(positions: u64) -> usize {
    usize::try_from(positions).unwrap_or(usize::MAX)
}

/// Milliseconds since 1970; a time before that counts as 1970.
pub(crate) fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().saturating_mul(1000).saturating_add(u64::from(since.subsec_millis()))
}

impl PartialEq for Records {
    /// Equal positions with equal messages, whatever blocks they lie in.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .iter()
                .zip(other.iter())
                .all(|(a, b)| a.seq == b.seq && a.message() == b.message())
    }
}

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.seq, self.message())
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
