//! Records: messages as a memory holds them, in blocks that are shared and never copied.
//!
//! A memory that hands out its newest ten messages must not touch ten reference counts, and a prompt
//! that is kept must not keep the next append waiting. So messages live in blocks of write-once
//! slots: a reader holds the block and the range that was filled when it looked, a writer fills the
//! next slot beside it.

mod few;

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::Error;
use crate::message::Message;
pub(crate) use few::Few;

/// One message as a memory holds it: what was said, where it stands, and when it came.
///
/// The position, `seq`, counts from the beginning of the conversation and is never used again.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    seq: u64,
    entry: &'a Entry,
    block: &'a Block,
    index: usize,
}

/// Records in the order of their positions: a consistent view that costs next to nothing to hold.
///
/// Positions ascend. They have no gaps unless the memory can't read one of its rows.
#[derive(Clone, Default)]
pub struct Records {
    runs: Few<Run>,
}

/// A walk over records: one by one, or in stretches that share a block.
pub(crate) struct Cursor<'a> {
    runs: std::slice::Iter<'a, Run>,
    run: Option<&'a Run>,
    /// How far into the run.
    within: usize,
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

/// A message with its time of append in milliseconds since 1970.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) at: u64,
    pub(crate) message: Message,
}

/// Write-once slots, filled from the front.
pub(crate) type Block = Arc<[OnceLock<Entry>]>;

/// Records that stand side by side in one block.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) block: Block,
    /// The position of the first.
    pub(crate) seq: u64,
    /// The slot of the first.
    pub(crate) from: usize,
    pub(crate) len: usize,
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

    /// Whether it is the first of these records: the same one, not an equal one.
    pub(crate) fn is(&self, run: &Run) -> bool {
        Arc::ptr_eq(self.block, &run.block) && self.index == run.from && self.seq == run.seq
    }

    /// This record as a run of one, which holds its block.
    pub(crate) fn to_run(self) -> Run {
        Run { block: Arc::clone(self.block), seq: self.seq, from: self.index, len: 1 }
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
            let i = usize::try_from(seq.saturating_sub(run.seq)).unwrap_or(usize::MAX);
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
    pub fn len(&self) -> usize {
        self.runs.iter().map(|run| run.len).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The records, oldest first; `.rev()` gives the newest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + Clone {
        self.runs.iter().flat_map(Run::iter)
    }

    /// A walk from the `skip`th record on.
    pub(crate) fn cursor(&self, skip: usize) -> Cursor<'_> {
        let mut cursor = Cursor { run: self.runs.first(), runs: self.runs.rest(), within: 0 };
        cursor.advance(skip);
        cursor
    }

    /// The messages, oldest first.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.iter().map(|record| record.message())
    }

    /// The oldest of them.
    pub fn first(&self) -> Option<Record<'_>> {
        self.runs.first()?.record(0)
    }

    /// The newest of them.
    pub fn last(&self) -> Option<Record<'_>> {
        self.iter().next_back()
    }
}

impl<'a> Cursor<'a> {
    /// The next record, which stays the next.
    pub(crate) fn peek(&self) -> Option<Record<'a>> {
        self.run?.record(self.within)
    }

    /// The next record, if there is one and `wanted` says so.
    pub(crate) fn next_if(&mut self, wanted: impl FnOnce(&Message) -> bool) -> Option<Record<'a>> {
        let record = self.peek().filter(|record| wanted(record.message()))?;
        self.advance(1);
        Some(record)
    }

    /// The next records as far as they share a block and are `wanted`; `None` where the next is not.
    pub(crate) fn stretch(&mut self, mut wanted: impl FnMut(&Message) -> bool) -> Option<Run> {
        let run = self.run?;
        let slots = run.slots().get(self.within..)?;
        let unwanted = |slot: &OnceLock<Entry>| slot.get().is_none_or(|e| !wanted(&e.message));
        let len = slots.iter().position(unwanted).unwrap_or(slots.len());
        if len == 0 {
            return None;
        }
        let seq = run.seq + self.within as u64;
        let stretch = Run { block: Arc::clone(&run.block), seq, from: run.from + self.within, len };
        self.advance(len);
        Some(stretch)
    }

    fn advance(&mut self, mut n: usize) {
        while let Some(run) = self.run {
            if n < run.len - self.within {
                self.within += n;
                return;
            }
            n -= run.len - self.within;
            self.run = self.runs.next();
            self.within = 0;
        }
    }
}

impl Run {
    fn slots(&self) -> &[OnceLock<Entry>] {
        self.block.get(self.from..self.from + self.len).unwrap_or_default()
    }

    /// The `i`th record. A run covers filled slots only, so it is there for every `i` below `len`.
    fn record(&self, i: usize) -> Option<Record<'_>> {
        let entry = self.slots().get(i)?.get()?;
        let (seq, index) = (self.seq + i as u64, self.from + i);
        Some(Record { seq, entry, block: &self.block, index })
    }

    /// Whether `next` comes directly after this run, in position and in the block.
    pub(crate) fn is_continued_by(&self, next: &Self) -> bool {
        Arc::ptr_eq(&self.block, &next.block)
            && self.from + self.len == next.from
            && self.seq + self.len as u64 == next.seq
    }

    /// The index of the last message of the user.
    pub(crate) fn last_user(&self) -> Option<usize> {
        self.slots().iter().rposition(|slot| slot.get().is_some_and(|e| e.message.is_user()))
    }

    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + Clone {
        (0..self.len).filter_map(|i| self.record(i))
    }

    /// The `i`th message of the run.
    pub(crate) fn message(&self, i: usize) -> Option<&Message> {
        Some(&self.slots().get(i)?.get()?.message)
    }

    /// Parts the run in two before its `i`th record.
    pub(crate) fn split(self, i: usize) -> (Self, Self) {
        let i = i.min(self.len);
        let rest = Self {
            block: Arc::clone(&self.block),
            seq: self.seq + i as u64,
            from: self.from + i,
            len: self.len - i,
        };
        (Self { len: i, ..self }, rest)
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
    pub(crate) fn oldest(&self) -> u64 {
        self.records.runs.first().map_or(self.end, |run| run.seq)
    }

    /// The position of the oldest row that was read, whether or not it could be made sense of; none
    /// where no row was.
    pub(crate) fn covered(&self) -> Option<u64> {
        let readable = self.records.first().map(|record| record.seq());
        let unreadable = self.unreadable.iter().map(|row| row.seq).min();
        readable.into_iter().chain(unreadable).min()
    }

    /// How many rows were read, those included that made no sense.
    pub(crate) fn rows(&self) -> usize {
        self.records.len() + self.unreadable.len()
    }

    /// Whether nothing older than these records is in the memory.
    pub(crate) fn is_complete(&self) -> bool {
        self.oldest() <= self.start
    }
}

/// Milliseconds since 1970; a time before that counts as 1970.
pub(crate) fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
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
