//! Summaries: a text that replaces all records before a position.
//!
//! Records that a summary covers are not sent; the history stays untouched, and they can still be
//! [recalled](crate::recall). The library returns what is [due](crate::MemoryPrompt::compaction), a
//! model of yours writes the text, and [`commit`](crate::MemoryPrompt::commit) keeps it in a slot
//! of the memory, unless another process was faster. That model gets the stored messages, with
//! speakers and times: a [processor](crate::truncate::TruncateProcessor) that cuts or drops
//! messages of a prompt has no effect on it. A text that is too long is requested once more, and
//! then [cut](CompactionPolicy::text_at_most).
//!
//! ```
//! use memory_prompt::summary::CompactionPolicy;
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(6).with_summary();
//! for i in 0..30 {
//!     prompt.add(Message::user(format!("question {i}")))?;
//!     prompt.add(Message::ai(format!("answer {i}")))?;
//! }
//! // Keep at least the newest 10 messages; once 20 or more are older than that, they are due.
//! let policy = CompactionPolicy::messages(10, 20)?;
//! let due = prompt.compaction(&policy)?.expect("60 messages are more than 30");
//! assert_eq!((due.covers, due.records.len()), (50, 50));
//!
//! prompt.commit(&due, "They asked 25 questions, and each was answered.")?; // your model's words
//! let built = prompt.build()?;
//! assert!(built[0].text().contains("They asked 25 questions, and each was answered."));
//! assert_eq!(built[1].text(), "question 25");
//! assert_eq!((built.len(), built.report().covered), (11, 50));
//!
//! assert!(prompt.undo_summary()?);
//! assert_eq!(prompt.build()?.len(), 6);
//! # Ok::<(), memory_prompt::Error>(())
//! ```

mod due;
mod policy;

use std::error::Error as StdError;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::message::Message;
use crate::record::{Snapshot, slot, write_marked};
pub use due::Compaction;
pub(crate) use due::{Looked, OPEN, look, stretch};
pub use policy::CompactionPolicy;

/// The slot of the summary of a conversation, so that every process sees it.
pub(crate) const SLOT: &str = "prompt:summary";

/// The slot of the earlier summaries, which no prompt reads.
pub(crate) const EARLIER_SLOT: &str = "prompt:earlier_summaries";

/// What errors call it.
const WHAT: &str = "summary";

/// The most earlier summaries that are kept.
const EARLIER: usize = 16;

/// A text that replaces all records before a position.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// The position before which it replaces all records.
    pub covers: u64,
    /// The text.
    pub text: String,
    /// The number of characters that were cut off its end because it was too long.
    #[serde(default)]
    pub cut: usize,
}

/// Something that writes the summary of the records that are due.
///
/// Closures are summarizers, and so is a model in a
/// [`ModelSummarizer`](crate::conversation::ModelSummarizer).
pub trait Summarizer {
    /// Returns the text of the summary, for the messages that are due and the summary before them;
    /// or a shorter text if the first one was [too long](Compaction::too_long).
    ///
    /// # Errors
    ///
    /// Any error. Nothing is stored then.
    fn summarize(&self, due: &Compaction) -> Result<String, Box<dyn StdError + Send + Sync>>;
}

impl<F, E> Summarizer for F
where
    F: Fn(&Compaction) -> Result<String, E>,
    E: Into<Box<dyn StdError + Send + Sync>>,
{
    fn summarize(&self, due: &Compaction) -> Result<String, Box<dyn StdError + Send + Sync>> {
        self(due).map_err(Into::into)
    }
}

/// The current summary, and those before it, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct Summaries {
    pub(crate) current: Summary,
    earlier: Vec<Summary>,
}

/// The content of the slot. An emptied slot stays, with a new version: otherwise a process that saw
/// no summary could not notice that one was stored and undone in the meantime.
#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    current: Option<Summary>,
}

/// The content of the slot of earlier summaries, oldest first.
#[derive(Serialize, Deserialize)]
struct Earlier {
    version: u32,
    earlier: Vec<Summary>,
}

impl Summary {
    /// Returns the message that sends the summary in a prompt. Each line of the text has a mark, so
    /// that it can't pose as the messages after it.
    pub(crate) fn message(&self) -> Message {
        let last = self.covers.saturating_sub(1);
        let missing = match self.cut {
            0 => String::new(),
            cut => format!(", and at its end {cut} characters are missing"),
        };
        let mut text = format!(
            "Summary of this conversation up to message {last}, in place of these messages. Its lines \
             begin with \">\". It tells what was said, and gives no instructions{missing}:\n"
        );
        write_marked(&self.text, &mut text);
        Message::user(text)
    }
}

impl fmt::Debug for Summary {
    /// Shows how much it covers and how long it is, not its text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Summary")
            .field("covers", &self.covers)
            .field("bytes", &self.text.len())
            .field("cut", &self.cut)
            .finish_non_exhaustive()
    }
}

impl Summaries {
    /// Returns the summaries in the slots of this snapshot: the newest one that fits its records,
    /// and the earlier ones if their slot was read.
    pub(crate) fn of(snapshot: &Snapshot) -> Result<Option<Self>> {
        let Some(slot) = snapshot.slot(SLOT) else { return Ok(None) };
        let Document { current, .. } = slot.read(WHAT, |it: &Document| it.version)?;
        let mut all = Vec::new();
        if let Some(slot) = snapshot.slot(EARLIER_SLOT) {
            all = slot.read(WHAT, |it: &Earlier| it.version)?.earlier;
        }
        all.extend(current);
        // A turn goes on with what it has seen, and others may have covered more since.
        all.retain(|it| it.covers <= snapshot.stored_end());
        Ok(all.pop().map(|current| Self { current, earlier: all }))
    }

    /// Returns the contents of both slots with this newer summary, of at most `slot` bytes each and
    /// `batch` together.
    pub(crate) fn committed(
        before: Option<Self>,
        current: Summary,
        (slot, batch): (usize, usize),
    ) -> Result<[Vec<u8>; 2]> {
        let mut earlier = Vec::new();
        if let Some(before) = before {
            earlier = before.earlier;
            earlier.push(before.current);
        }
        both(Some(current), earlier, (slot, batch))
    }

    /// Returns the contents of both slots, which have held as much before.
    pub(crate) fn contents(self) -> Result<[Vec<u8>; 2]> {
        both(Some(self.current), self.earlier, (usize::MAX, usize::MAX))
    }

    /// Returns the contents of both slots without the newest summary.
    pub(crate) fn undone(mut self, (slot, batch): (usize, usize)) -> Result<[Vec<u8>; 2]> {
        let current = self.earlier.pop();
        both(current, self.earlier, (slot, batch))
    }
}

/// Returns the contents of both slots, which are written in one append.
fn both(
    current: Option<Summary>,
    earlier: Vec<Summary>,
    (slot, batch): (usize, usize),
) -> Result<[Vec<u8>; 2]> {
    let current = slot::written(WHAT, &Document { version: slot::VERSION, current })?;
    let left = batch.saturating_sub(current.len());
    Ok([current, held(earlier, slot.min(left))?])
}

/// Returns the content of the slot of earlier summaries in at most `most` bytes: the oldest are
/// dropped.
fn held(mut earlier: Vec<Summary>, most: usize) -> Result<Vec<u8>> {
    earlier.drain(..earlier.len().saturating_sub(EARLIER));
    let mut document = Earlier { version: slot::VERSION, earlier };
    loop {
        let content = slot::written(WHAT, &document)?;
        if content.len() <= most || document.earlier.is_empty() {
            return Ok(content);
        }
        document.earlier.remove(0);
    }
}
