//! The memory that keeps everything in this process.

mod extras;

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;

use self::extras::{Extras, IDS};
use super::read::with_picked;
use super::{Append, Appended, ChatMemory, LentBatch, Limits, MemoryId, Read};
use crate::error::Result;
use crate::message::Message;
use crate::record::{
    Cell, Cells, Incarnation, MAX_BYTES, Records, Run, SlotVersion, Snapshot, millis, places,
};

/// A conversation in this process. It forgets nothing unless you ask for it.
///
/// An append costs O(batch) and a read of the newest `n` costs O(n / 64), for a history of any
/// length. What a read returned stays valid and costs later appends nothing.
///
/// ```
/// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, Message};
///
/// let memory = DefaultChatMemory::with_id("support:u1001:c2002");
/// memory.add(Message::user("hi"))?;
/// memory.add(Message::ai("hello"))?;
/// assert_eq!(memory.latest(1)?.first().map(|r| r.position()), Some(1));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
pub struct DefaultChatMemory {
    id: MemoryId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    system: Option<Arc<Message>>,
    /// Contiguous in position: each begins where the one before it ends.
    runs: VecDeque<Run>,
    /// The bytes of the messages in the last cells, evicted ones included.
    bytes: usize,
    end: u64,
    extras: Extras,
}

impl DefaultChatMemory {
    /// Returns an empty conversation under a new random id.
    pub fn new() -> Self {
        Self::with_id(MemoryId::random())
    }

    /// Returns an empty conversation under this id.
    pub fn with_id(id: impl Into<MemoryId>) -> Self {
        Self { id: id.into(), state: Mutex::default() }
    }

    pub(crate) const LIMITS: Limits = Limits { slot: usize::MAX, ids: IDS, ..Limits::NONE };

    /// Returns a conversation that goes on where another one ended.
    pub(crate) fn restored(id: MemoryId, start: u64, incarnation: Incarnation) -> Self {
        let mut extras = Extras::new(incarnation);
        extras.active = millis(SystemTime::now());
        Self { id, state: Mutex::new(State { end: start, extras, ..State::default() }) }
    }

    /// Returns the time of the last append, in milliseconds since 1970.
    pub(crate) fn active(&self) -> u64 {
        self.state.lock().extras.active
    }

    /// Returns its positions, its incarnation and the time of its last activity, all as of one
    /// moment.
    pub(crate) fn state_now(&self) -> (Range<u64>, Incarnation, u64) {
        let state = self.state.lock();
        (state.start()..state.end, state.extras.incarnation, state.extras.active)
    }
}

impl ChatMemory for DefaultChatMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut lent = LentBatch::new(batch, expected);
        Ok(self.append_with(&mut lent.append)?.positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        Ok(self.state.lock().read(before, n))
    }

    fn evict(&self, before: u64) -> Result<u64> {
        Ok(self.state.lock().evict(before))
    }

    fn clear(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.system = None;
        state.runs = VecDeque::new();
        state.extras.clear();
        Ok(())
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        append.check(&self.limits())?;
        let now = millis(SystemTime::now());
        let mut state = self.state.lock();
        if let Some(known) = append.id.as_deref().and_then(|id| state.extras.known(id)) {
            append.messages.clear();
            return Ok(known);
        }
        state.extras.check(append, &(state.start()..state.end))?;
        // Nothing fails from here on.
        let first = state.end;
        let mut times = append.times.iter().map(|at| millis(*at));
        let positions =
            first..first + append.messages.iter().filter(|it| !it.is_system()).count() as u64;
        let appended = state.extras.change(append, positions, now);
        for message in append.messages.drain(..) {
            state.append_one(times.next().unwrap_or(now), message);
        }
        Ok(appended)
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        read.check()?;
        let state = self.state.lock();
        let snapshot = state.read(read.before, read.n);
        if read.is_plain() {
            return Ok(snapshot);
        }
        let snapshot = with_picked!(read, snapshot, |before, n| state.read(before, n));
        let slots = read.names().filter_map(|name| state.extras.slots.get(name));
        Ok(snapshot.with_slots(slots.cloned()))
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        let state = self.state.lock();
        let slots = state.extras.slots.values();
        Ok(slots.map(|slot| (slot.name().to_owned(), slot.version())).collect())
    }

    fn limits(&self) -> Limits {
        Self::LIMITS
    }
}

impl State {
    fn start(&self) -> u64 {
        self.runs.front().map_or(self.end, |run| run.position)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Snapshot {
        Snapshot {
            system: self.system.clone(),
            incarnation: Some(self.extras.incarnation),
            ..Snapshot::new(self.start()..self.end, self.newest(before, n))
        }
    }

    fn append_one(&mut self, at: u64, message: Message) {
        if !message.is_system() {
            self.push(Cell { at, message });
        } else if self.system.as_deref() != Some(&message) {
            self.system = Some(Arc::new(message));
        }
    }

    fn push(&mut self, cell: Cell) {
        let bytes = cell.bytes();
        let fits = self.bytes.saturating_add(bytes) <= MAX_BYTES;
        if !self.runs.back().is_some_and(|run| fits && used(run) < run.cells.len()) {
            let size = if bytes > MAX_BYTES { 1 } else { self.next_size() };
            let cells: Cells = (0..size).map(|_| OnceLock::new()).collect();
            self.runs.push_back(Run::new(cells, self.end, 0, 0));
            self.bytes = 0;
        }
        if let Some(run) = self.runs.back_mut() {
            // The cell is empty: only the holder of this lock fills cells, and each once.
            let filled = run.cells[used(run)].set(cell);
            debug_assert!(filled.is_ok());
            run.len += 1;
            self.end += 1;
            self.bytes += bytes;
        }
    }

    /// Returns the number of cells to allocate next, unless they are for one large message alone:
    /// twice as many as were used the last time. Most conversations are small, so it begins small.
    fn next_size(&self) -> usize {
        let last = self.runs.iter().rev().take(2).find(|run| run.cells.len() > 1);
        last.map_or(MIN_CELLS, |run| used(run) * 2).clamp(MIN_CELLS, MAX_CELLS)
    }

    fn newest(&self, before: Option<u64>, n: usize) -> Records {
        // Without a position nothing is searched: a million messages cost what a hundred do.
        let (before, last) = match before {
            Some(before) => (before, self.runs.partition_point(|run| run.position < before)),
            None => (self.end, self.runs.len()),
        };
        // Back over as many runs as it takes, then forward.
        let len = |run: &Run| places(before - run.position).min(run.len);
        let (mut first, mut found) = (last, 0);
        while first > 0 && found < n {
            first -= 1;
            found += len(&self.runs[first]);
        }
        let mut skip = found.saturating_sub(n);
        let mut records = Records::default();
        for run in self.runs.range(first..last) {
            records.push(run.part(skip, len(run) - skip));
            skip = 0;
        }
        records
    }

    fn evict(&mut self, before: u64) -> u64 {
        let start = self.start();
        while let Some(run) = self.runs.front_mut() {
            if run.position >= before {
                break;
            }
            let gone = places(before - run.position);
            if gone >= run.len {
                self.runs.pop_front();
            } else {
                run.position = before;
                run.from += gone;
                run.len -= gone;
            }
        }
        // The list of a history that was long and became short is memory too.
        if self.runs.len() < self.runs.capacity() / 4 {
            self.runs.shrink_to(self.runs.len() * 2);
        }
        self.start() - start
    }
}

fn used(run: &Run) -> usize {
    run.from + run.len
}

impl Default for DefaultChatMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DefaultChatMemory {
    /// Shows how much is in it, not what: conversations do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("DefaultChatMemory")
            .field("id", &self.id)
            .field("positions", &(state.start()..state.end))
            .field("system", &state.system.is_some())
            .finish()
    }
}

const MIN_CELLS: usize = 4;
const MAX_CELLS: usize = 64;
