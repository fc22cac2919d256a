//! The memory that keeps everything in this process.

use std::collections::VecDeque;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use parking_lot::Mutex;

use super::{ChatMemory, MemoryId};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Block, Entry, Records, Run, Snapshot, millis, places};

/// A conversation in this process: nothing is ever forgotten unless asked for.
///
/// An append costs O(batch) and a read of the newest `n` costs O(n / 64), whatever the length of the
/// history. What a read returned stays valid and costs later appends nothing.
///
/// ```
/// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, Message};
///
/// let memory = DefaultChatMemory::with_id("support:u1001:c2002");
/// memory.add(Message::user("hi"))?;
/// memory.add(Message::ai("hello"))?;
/// assert_eq!(memory.latest(1)?.first().map(|r| r.seq()), Some(1));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
pub struct DefaultChatMemory {
    id: MemoryId,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    system: Option<Arc<Message>>,
    /// Side by side in position: each begins where the one before it ends.
    runs: VecDeque<Run>,
    end: u64,
}

impl DefaultChatMemory {
    /// An empty conversation under a new random id.
    pub fn new() -> Self {
        Self::with_id(MemoryId::random())
    }

    /// An empty conversation under this id.
    pub fn with_id(id: impl Into<MemoryId>) -> Self {
        Self { id: id.into(), state: Mutex::default() }
    }
}

impl ChatMemory for DefaultChatMemory {
    fn id(&self) -> &MemoryId {
        &self.id
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let at = millis(SystemTime::now());
        let mut state = self.state.lock();
        if let Some(expected) = expected.filter(|expected| *expected != state.end) {
            let kind = ErrorKind::Conflict { expected, actual: state.end };
            let text = format!("the conversation ends at {}, not at {expected}", state.end);
            return Err(Error::new(kind, "append", text));
        }
        let first = state.end;
        for message in batch.drain(..) {
            if message.is_system() {
                state.set_system(message);
            } else {
                state.push(Entry { at, message });
            }
        }
        Ok(first..state.end)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let state = self.state.lock();
        Ok(Snapshot {
            system: state.system.clone(),
            records: state.newest(before, n),
            start: state.start(),
            end: state.end,
            unreadable: Vec::new(),
        })
    }

    fn evict(&self, before: u64) -> Result<u64> {
        Ok(self.state.lock().evict(before))
    }

    fn clear(&self) -> Result<()> {
        let mut state = self.state.lock();
        state.system = None;
        state.runs.clear();
        Ok(())
    }
}

impl State {
    fn start(&self) -> u64 {
        self.runs.front().map_or(self.end, |run| run.seq)
    }

    fn set_system(&mut self, message: Message) {
        if self.system.as_deref() != Some(&message) {
            self.system = Some(Arc::new(message));
        }
    }

    fn push(&mut self, entry: Entry) {
        let full = self.runs.back().is_none_or(|run| run.from + run.len == run.block.len());
        if full {
            // Small conversations are the most numerous, so blocks begin small.
            let size = self.runs.back().map_or(MIN_BLOCK, |run| run.block.len() * 2).min(MAX_BLOCK);
            let block: Block = (0..size).map(|_| OnceLock::new()).collect();
            self.runs.push_back(Run { block, seq: self.end, from: 0, len: 0 });
        }
        if let Some(run) = self.runs.back_mut() {
            // The slot is empty: only this lock's holder fills slots, and each once.
            let filled = run.block[run.from + run.len].set(entry);
            debug_assert!(filled.is_ok());
            run.len += 1;
            self.end += 1;
        }
    }

    fn newest(&self, before: Option<u64>, n: usize) -> Records {
        match (before, self.runs.back()) {
            // As nearly always: they lie in the last block.
            (None, Some(last)) if n > 0 && (n <= last.len || self.runs.len() == 1) => {
                Records::from(last.newest(n))
            }
            _ => self.newest_of_blocks(before, n),
        }
    }

    /// The same from any number of blocks, before any position.
    fn newest_of_blocks(&self, before: Option<u64>, n: usize) -> Records {
        // Without a position nothing is searched: a million messages cost what a hundred do.
        let (before, last) = match before {
            Some(before) => (before, self.runs.partition_point(|run| run.seq < before)),
            None => (self.end, self.runs.len()),
        };
        // Back over as many blocks as it takes, then forward.
        let len = |run: &Run| places(before - run.seq).min(run.len);
        let (mut first, mut found) = (last, 0);
        while first > 0 && found < n {
            first -= 1;
            found += len(&self.runs[first]);
        }
        let mut skip = found.saturating_sub(n);
        let mut records = Records::default();
        for i in first..last {
            let run = &self.runs[i];
            records.push(Run {
                block: Arc::clone(&run.block),
                seq: run.seq + skip as u64,
                from: run.from + skip,
                len: len(run) - skip,
            });
            skip = 0;
        }
        records
    }

    fn evict(&mut self, before: u64) -> u64 {
        let start = self.start();
        while let Some(run) = self.runs.front_mut() {
            if run.seq >= before {
                break;
            }
            let gone = places(before - run.seq);
            if gone >= run.len {
                self.runs.pop_front();
            } else {
                run.seq = before;
                run.from += gone;
                run.len -= gone;
            }
        }
        self.start() - start
    }
}

impl Default for DefaultChatMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for DefaultChatMemory {
    /// Says how much is in it, not what: logs are no place for conversations.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.lock();
        f.debug_struct("DefaultChatMemory")
            .field("id", &self.id)
            .field("positions", &(state.start()..state.end))
            .field("system", &state.system.is_some())
            .finish()
    }
}

const MIN_BLOCK: usize = 4;
const MAX_BLOCK: usize = 64;
