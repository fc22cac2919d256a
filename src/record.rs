//! Records: messages as a memory holds them, in cells that are shared and never copied.
//!
//! A memory that returns its newest ten messages must not touch ten reference counts, and a prompt
//! that is kept must not block the next append. So messages live in write-once cells, up to 64 in
//! one allocation: a reader holds the allocation and the range that was filled when it read, and a
//! writer fills the next cell.

mod cursor;
mod day;
mod extra;
mod quoted;
mod run;
mod shown;
pub(crate) mod slot;
mod stamp;

use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fmt, mem};

use crate::error::{Error, Result};
use crate::message::{Message, SystemMessage};
pub(crate) use cursor::Cursor;
pub(crate) use day::{civil, heading};
pub(crate) use extra::{Extra, Replaced};
pub(crate) use quoted::{
    escape, speaker, write_marked, write_media, write_name, write_quoted, write_speaker,
};
pub(crate) use run::{Cell, Cells, MAX_BYTES, Run};
pub(crate) use shown::{moment, rfc3339};
pub use slot::Slot;
pub use stamp::{Incarnation, SlotVersion};

/// One message as a memory holds it: with its position and its time.
///
/// The position counts from the beginning of the conversation and is never used again.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    position: u64,
    cell: &'a Cell,
    run: &'a Run,
}

/// Records in the order of their positions: a consistent view that costs almost nothing to hold.
///
/// Positions ascend. They have no gaps, unless the memory can't read one of its rows or the records
/// were picked by position.
#[derive(Clone, Default)]
pub struct Records {
    runs: Vec<Run>,
    len: usize,
}

/// A conversation as a memory shows it to a reader: its system message, its newest records, where
/// it begins and ends, and the slots and single records that were asked for.
///
/// A memory of your own makes one with [`Snapshot::new`], and sets the fields that it has.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct Snapshot {
    /// The system message, which has a slot of its own and no position.
    pub system: Option<Arc<Message>>,
    /// The newest records that were asked for, oldest first.
    pub records: Records,
    /// The position of the oldest record that the memory still holds, or `end` if it holds none.
    pub start: u64,
    /// The position that the next record will have.
    pub end: u64,
    /// The rows among those asked for that the memory holds but can't read. They do not hide the
    /// others.
    pub unreadable: Vec<Unreadable>,
    /// The life of the conversation: it changes after a clear, and after a delete and a new
    /// beginning. `None` if the memory does not know it, or if there is no conversation.
    pub incarnation: Option<Incarnation>,
    pub(crate) extra: Option<Box<Extra>>,
}

/// A row that a memory holds but can't read.
#[derive(Clone)]
pub struct Unreadable {
    /// Its position.
    pub position: u64,
    /// The reason why it can't be read.
    pub error: Arc<Error>,
}

impl<'a> Record<'a> {
    /// Returns the position since the conversation began.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the message.
    pub fn message(&self) -> &'a Message {
        &self.cell.message
    }

    /// Returns the time when the message was appended, to the millisecond.
    pub fn appended_at(&self) -> SystemTime {
        time_of(self.millis())
    }

    /// Returns the time of append in milliseconds since 1970.
    pub(crate) fn millis(&self) -> u64 {
        self.cell.at
    }

    /// Returns whether this is the record of that identity: the same one, not an equal one.
    pub(crate) fn is(&self, identity: &RecordIdentity) -> bool {
        let (cells, place) = self.location();
        identity.place == place && std::ptr::addr_eq(identity.cells.as_ptr(), Arc::as_ptr(cells))
    }

    /// Returns the identity of this record, which keeps nothing in memory.
    pub(crate) fn identity(self) -> RecordIdentity {
        let (cells, place) = self.location();
        RecordIdentity { cells: Arc::downgrade(cells), place }
    }

    /// Returns its cells, and its place in them.
    fn location(&self) -> (&'a Cells, usize) {
        (&self.run.cells, self.run.from + places(self.position - self.run.position))
    }
}

/// The identity of a record: a weak reference to its allocation, and its place there. While it is
/// held the address is not used again, even if the messages are gone.
pub(crate) struct RecordIdentity {
    cells: Weak<[OnceLock<Cell>]>,
    place: usize,
}

impl Records {
    /// Replaces the messages for which `change` returns one.
    pub(crate) fn change(&mut self, change: impl Fn(&Message) -> Option<Message>) {
        if self.messages().any(|message| change(message).is_some()) {
            let rows = self.iter().map(|record| {
                let message = record.message();
                let changed = change(message).unwrap_or_else(|| message.clone());
                (record.position(), record.appended_at(), changed)
            });
            *self = Self::from_rows(rows.collect::<Vec<_>>());
        }
    }

    /// Returns records from rows `(position, time of append, message)`, in ascending order of
    /// positions.
    ///
    /// A memory of your own returns its records like this. Rows that are not in ascending order are
    /// sorted.
    ///
    /// ```
    /// use std::time::UNIX_EPOCH;
    /// use memory_prompt::Message;
    /// use memory_prompt::record::Records;
    ///
    /// let rows = [(7, UNIX_EPOCH, Message::user("hi")), (8, UNIX_EPOCH, Message::ai("hello"))];
    /// let records = Records::from_rows(rows);
    /// assert_eq!(records.len(), 2);
    /// assert_eq!(records.iter().map(|r| r.position()).collect::<Vec<_>>(), [7, 8]);
    /// ```
    pub fn from_rows(rows: impl IntoIterator<Item = (u64, SystemTime, Message)>) -> Self {
        let mut rows: Vec<_> = rows.into_iter().collect();
        rows.sort_by_key(|row| row.0);
        let mut records = Self::default();
        let mut rows = rows.into_iter();
        while !rows.as_slice().is_empty() {
            let n = fit_together(rows.as_slice());
            let positions: Vec<u64> = rows.as_slice().iter().take(n).map(|row| row.0).collect();
            let cells: Cells = rows
                .by_ref()
                .take(n)
                .map(|(_, at, message)| OnceLock::from(Cell { at: millis(at), message }))
                .collect();
            for (from, position) in positions.into_iter().enumerate() {
                match records.runs.last_mut() {
                    Some(run) if from > 0 && position - run.position == run.len as u64 => {
                        run.len += 1;
                        run.end += 1;
                        records.len += 1;
                    }
                    _ => records.push(Run::new(Arc::clone(&cells), position, from, 1)),
                }
            }
        }
        records
    }

    pub(crate) const fn none() -> Self {
        Self { runs: Vec::new(), len: 0 }
    }

    /// Adds records that come after all others.
    pub(crate) fn push(&mut self, run: Run) {
        self.len += run.len;
        self.runs.push(Run { end: self.len, ..run });
    }

    /// Adds other records, which come after all of these.
    pub(crate) fn extend(&mut self, records: Self) {
        records.runs.into_iter().for_each(|run| self.push(run));
    }

    /// Splits the records in two: those before this position, and those from it on.
    pub(crate) fn split(self, position: u64) -> (Self, Self) {
        let (mut before, mut behind) = (Self::default(), Self::default());
        for run in self.runs {
            let i = places(position.saturating_sub(run.position));
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

    /// Returns the same records at other positions: the one at `from` moves to `to`.
    pub(crate) fn moved(mut self, from: u64, to: u64) -> Self {
        for run in &mut self.runs {
            run.position = run.position - from + to;
        }
        self
    }

    /// Returns the number of records.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the records, oldest first; `.rev()` returns the newest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Record<'_>> + Clone {
        self.runs.iter().flat_map(Run::iter)
    }

    /// Returns whether each message from the `skip`th record on is `wanted`.
    #[inline]
    pub(crate) fn all_from(&self, skip: usize, mut wanted: impl FnMut(&Message) -> bool) -> bool {
        let mut cursor = self.cursor(skip);
        cursor.pass(&mut wanted);
        cursor.peek().is_none()
    }

    /// Returns the places of the records of each run.
    pub(crate) fn runs(&self) -> impl Iterator<Item = Range<usize>> {
        self.runs.iter().map(|run| run.end - run.len..run.end)
    }

    /// Drops these [runs](Self::runs), in their order.
    pub(crate) fn forget(&mut self, gone: &[Range<usize>]) {
        let mut gone = gone.iter().peekable();
        for run in mem::take(self).runs {
            if gone.next_if(|places| places.end == run.end).is_none() {
                self.push(run);
            }
        }
    }

    /// Returns the run of the `place`th record, and its place there.
    #[inline]
    fn run_of(&self, place: usize) -> Option<(&Run, usize)> {
        let run = self.runs.get(self.number_of_run(place))?;
        Some((run, place + run.len - run.end))
    }

    /// Returns the number of the run of the `place`th record; the number of runs if it is after the
    /// last one.
    #[inline]
    fn number_of_run(&self, place: usize) -> usize {
        self.runs.partition_point(|run| run.end <= place)
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<Record<'_>> {
        let (run, i) = self.run_of(i)?;
        run.record(i)
    }

    pub(crate) fn find(&self, position: u64) -> Option<Record<'_>> {
        self.place(position).map(|(_, record)| record)
    }

    /// Returns the record at this position, and its place among these.
    pub(crate) fn place(&self, position: u64) -> Option<(usize, Record<'_>)> {
        let number = self
            .runs
            .partition_point(|run| run.position.saturating_add(run.len as u64) <= position);
        let run = self.runs.get(number)?;
        let i = places(position.checked_sub(run.position)?);
        Some((run.end - run.len + i, run.record(i)?))
    }

    /// Returns the messages, oldest first.
    pub fn messages(&self) -> impl DoubleEndedIterator<Item = &Message> + Clone {
        self.iter().map(|record| record.message())
    }

    /// Returns the oldest record.
    pub fn first(&self) -> Option<Record<'_>> {
        self.runs.first()?.record(0)
    }

    /// Returns the newest record.
    pub fn last(&self) -> Option<Record<'_>> {
        self.iter().next_back()
    }
}

impl Snapshot {
    /// Returns a snapshot of a conversation with these positions, and with these of its records.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory):
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::time::UNIX_EPOCH;
    /// use memory_prompt::Message;
    /// use memory_prompt::record::{Records, Snapshot};
    ///
    /// let records = Records::from_rows([(7, UNIX_EPOCH, Message::user("hi"))]);
    /// let system = Some(Arc::new(Message::system("Be brief.")));
    /// let snapshot = Snapshot::new(3..8, records).with_system(system);
    /// assert_eq!((snapshot.start, snapshot.end), (3, 8));
    /// ```
    pub fn new(positions: Range<u64>, records: Records) -> Self {
        Self { records, start: positions.start, end: positions.end, ..Self::default() }
    }

    /// Returns the snapshot with this system message.
    #[must_use]
    pub fn with_system(mut self, system: Option<Arc<Message>>) -> Self {
        self.system = system;
        self
    }

    /// Returns a conversation of these messages, from position 0 on: for composing without a
    /// memory.
    ///
    /// The `System` messages at its beginning become the system message. If there are several, they
    /// are joined as paragraphs of one text, and the first keeps its name and attributes. A later
    /// one is a record in its place.
    ///
    /// ```
    /// use memory_prompt::Message;
    /// use memory_prompt::record::Snapshot;
    ///
    /// let list = ["You are terse.", "You speak French."].map(Message::system);
    /// let snapshot = Snapshot::from_messages(list.into_iter().chain([Message::user("hi")]));
    /// let system = snapshot.system.as_ref().map(|message| message.text().into_owned());
    /// assert_eq!(system.as_deref(), Some("You are terse.\n\nYou speak French."));
    /// assert_eq!(snapshot.records.len(), 1);
    /// ```
    pub fn from_messages(messages: impl IntoIterator<Item = Message>) -> Self {
        let mut system: Option<SystemMessage> = None;
        let mut rows = Vec::new();
        for message in messages {
            match message {
                Message::System(next) if rows.is_empty() => system = Some(next.behind(system)),
                message => rows.push((rows.len() as u64, UNIX_EPOCH, message)),
            }
        }
        let end = rows.len() as u64;
        let system = system.map(|system| Arc::new(Message::System(system)));
        Self { system, ..Self::new(0..end, Records::from_rows(rows)) }
    }

    /// Refuses impossible positions: those that do not ascend, or that are after the end.
    pub(crate) fn check(&self) -> Result<()> {
        let ascend = |records: &Records| {
            let mut runs = records.runs.iter();
            let end = runs.try_fold(0, |end, run| {
                (end <= run.position).then(|| run.position.checked_add(run.len as u64)).flatten()
            });
            end.is_some_and(|end| end <= self.end)
        };
        let mut unreadable = self.unreadable.iter().chain(self.picked_unreadable());
        if self.start <= self.end
            && ascend(&self.records)
            && ascend(self.picked())
            && unreadable.all(|row| row.position < self.end)
        {
            return Ok(());
        }
        let what = "has a position behind its end, twice, or out of order";
        Err(Error::invalid("read", format!("a snapshot that ends at {} {what}", self.end)))
    }

    /// Returns the position of the record at this place; for a place after the last record, the
    /// position that the next one will have.
    #[inline]
    pub(crate) fn position(&self, place: usize) -> u64 {
        let run = self.records.run_of(place);
        run.map_or(self.end, |(run, i)| run.position + i as u64)
    }

    /// Returns the position of the oldest of these records; the end if there is none.
    #[inline]
    pub(crate) fn oldest(&self) -> u64 {
        self.records.runs.first().map_or(self.end, |run| run.position)
    }

    /// Returns the position of the oldest row that was read, readable or not; `None` if no row was.
    pub(crate) fn oldest_row_read(&self) -> Option<u64> {
        let readable = self.records.first().map(|record| record.position());
        let unreadable = self.unreadable.iter().map(|row| row.position).min();
        readable.into_iter().chain(unreadable).min()
    }

    /// Returns the number of rows that were read, unreadable ones included.
    #[inline]
    pub(crate) fn rows(&self) -> usize {
        self.records.len() + self.unreadable.len()
    }

    /// Returns the position of the oldest row that was read, readable or not; the end if no row
    /// was.
    #[inline]
    pub(crate) fn oldest_row(&self) -> u64 {
        self.oldest_row_read().unwrap_or(self.end)
    }

    /// Returns whether the memory holds nothing older than what was read.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.oldest_row() <= self.start
    }
}

/// Returns how many of the first rows go into one allocation.
fn fit_together(rows: &[(u64, SystemTime, Message)]) -> usize {
    let mut bytes = 0_usize;
    let fits = rows.iter().take_while(|(_, _, message)| {
        bytes = bytes.saturating_add(run::cell_bytes(message));
        bytes <= MAX_BYTES
    });
    fits.count().max(1)
}

/// Returns a difference of positions as a number of records; the largest one if it does not fit.
pub(crate) fn places(positions: u64) -> usize {
    usize::try_from(positions).unwrap_or(usize::MAX)
}

/// Returns the milliseconds since 1970; a time before that counts as 1970.
pub(crate) fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs().saturating_mul(1000).saturating_add(u64::from(since.subsec_millis()))
}

/// Returns the time this many milliseconds after 1970; 1970 itself, which means unknown, if the
/// system can't represent it.
pub(crate) fn time_of(millis: u64) -> SystemTime {
    UNIX_EPOCH.checked_add(Duration::from_millis(millis)).unwrap_or(UNIX_EPOCH)
}

impl PartialEq for Records {
    /// Returns whether equal messages stand at equal positions; their cells may differ.
    fn eq(&self, other: &Self) -> bool {
        let mut both = self.iter().zip(other.iter());
        self.len() == other.len()
            && both.all(|(a, b)| a.position == b.position && a.message() == b.message())
    }
}

// Debug output goes to logs, which are no place for conversations: positions, roles and numbers
// only.

impl fmt::Debug for Record<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message();
        write!(f, "{} {} ({} bytes)", self.position, message.role(), message.text_bytes())
    }
}

impl fmt::Debug for Records {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Snapshot");
        shown
            .field("positions", &(self.start..self.end))
            .field("system_bytes", &self.system.as_deref().map(Message::text_bytes))
            .field("records", &self.records)
            .field("unreadable", &self.unreadable)
            .field("incarnation", &self.incarnation);
        if self.extra.is_some() {
            shown
                .field("slots", &self.slots())
                .field("picked", self.picked())
                .field("picked_unreadable", &self.picked_unreadable());
        }
        shown.finish()
    }
}

impl fmt::Debug for Unreadable {
    /// Shows only the kind of the error: its text may quote the row.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({:?})", self.position, self.error.kind())
    }
}
