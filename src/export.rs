//! Export: a conversation as JSON lines, as Markdown for people, and in a provider's format.
//!
//! It answers a person's request for their data. In addition to what was said, with times, it holds
//! the system message, pins and summaries, of the current branch or of [all](Export::all_branches),
//! and what waits for a person, on any branch. [JSON lines](ExportAs::JsonLines) of all branches
//! hold everything; the other forms leave things out. It comes in pieces of a few messages each.
//!
//! ```
//! use memory_prompt::export::{ExportAs, read_line};
//! use memory_prompt::{ChatMemory, DefaultChatMemory, MemoryPrompt, Message};
//!
//! let prompt = MemoryPrompt::new(DefaultChatMemory::with_id("ada")).with_branches().with_pins();
//! prompt.add_all([Message::user("Where is Oslo?"), Message::ai("In Norway.")])?;
//! prompt.pin(0)?;
//!
//! let mut lines = Vec::new(); // or a file
//! prompt.export(ExportAs::JsonLines).write_to(&mut lines)?;
//!
//! // Each line that is read is an append, to an empty memory that keeps times and slots.
//! let other = DefaultChatMemory::with_id("ada");
//! for line in String::from_utf8_lossy(&lines).lines() {
//!     other.append_with(&mut read_line(line)?)?;
//! }
//! let other = MemoryPrompt::new(other).with_branches().with_pins();
//! assert_eq!(other.pins()?, [0]);
//!
//! let mut again = Vec::new();
//! other.export(ExportAs::JsonLines).write_to(&mut again)?;
//! assert_eq!(lines, again);
//! # Ok::<(), memory_prompt::Error>(())
//! ```

mod lines;
mod markdown;
mod request;

use std::io::Write;

use serde::Serialize;

use crate::error::{Error, ErrorKind, Result};
use crate::history::{Branch, OWN};
#[cfg(feature = "async")]
use crate::memory::{AsyncChatMemory, read_all_slots_async};
use crate::memory::{ChatMemory, MemoryId, On, Read, read_all_slots};
use crate::memory_prompt::MemoryPrompt;
use crate::provider::Provider;
use crate::record::{Record, Snapshot, places};
pub use lines::read_line;

/// The form of an [`Export`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "an export has one of them")]
pub enum ExportAs {
    /// JSON lines, one for each thing that the memory holds: the conversation with its system
    /// message, then the branches, the messages with positions and times, and the slots, which hold
    /// pins, summaries and unfinished turns. [`read_line`] reads them.
    JsonLines,
    /// Markdown for people. Whatever was said is in fences, so that nothing in it can pose as
    /// anything else. Pictures and files are counted and not shown. Earlier summaries and slots of
    /// the application are left out.
    Markdown,
    /// The format of this provider: one line with all messages and the system message that the
    /// memory holds, as they would be sent; with [all branches](Export::all_branches) one line for
    /// each.
    ///
    /// It is made like a prompt: what the provider refuses is left out. Positions, times, pins and
    /// summaries are not included. A turn that waits is at the end of its branch; one that
    /// regenerates an answer has no branch yet, and is only in the other forms. Each line is one
    /// piece, and all messages of its branch are held in memory for it. A branch has no line if
    /// nothing of it is sent.
    Request(Provider),
}

/// An export in progress: see [`MemoryPrompt::export`].
#[derive(Debug)]
#[must_use = "it writes nothing until it is asked for pieces"]
pub struct Export<'a, M: ?Sized> {
    prompt: &'a MemoryPrompt<M>,
    form: ExportAs,
    has_all: bool,
    /// The branches; none if the current one is exported alone, or before the first piece.
    branches: Vec<Branch>,
    /// The number of parts begun so far: the conversation, or one for each branch.
    begun: usize,
    part: Option<Part>,
}

/// A part in progress: a branch, or everything that a memory holds.
#[derive(Debug)]
struct Part {
    head: Snapshot,
    /// The position of the next record.
    at: u64,
}

/// The number of records read at a time: few, since each may hold pictures.
const PAGE: u64 = 8;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Returns an export of the conversation in this form: see [`export`](crate::export).
    ///
    /// The export holds what the conversation held when the first piece was read. Of a prompt [with
    /// branches](Self::with_branches) it holds the current one, or [all](Export::all_branches). In
    /// Markdown and requests each branch is as it is when its part begins.
    pub fn export(&self, form: ExportAs) -> Export<'_, M> {
        let (branches, part) = (Vec::new(), None);
        Export { prompt: self, form, has_all: false, branches, begun: 0, part }
    }
}

impl<M: ?Sized> Export<'_, M> {
    /// Exports all branches of a prompt [with branches](MemoryPrompt::with_branches), not only the
    /// current one.
    pub fn all_branches(mut self) -> Self {
        self.has_all = true;
        self
    }

    /// Returns true if all branches are in one part, as the memory holds them.
    fn is_of_memory(&self) -> bool {
        self.has_all && self.form == ExportAs::JsonLines
    }

    /// Returns the number of parts.
    fn parts(&self) -> usize {
        if self.is_of_memory() { 1 } else { self.branches.len().max(1) }
    }

    /// Returns the branch of the next part, if that is a branch.
    fn next_branch(&self) -> Option<&Branch> {
        self.branches.get(self.begun).filter(|_| !self.is_of_memory())
    }

    /// Returns the read with which the next part begins: of everything but its records; for a
    /// provider, whose line needs them all, of these too.
    fn head(&self) -> Read {
        let n = if let ExportAs::Request(_) = self.form { usize::MAX } else { 0 };
        Read::newest(n).on(self.next_branch().map(|branch| On::branch(branch.id)))
    }

    /// Begins a part with everything but its records.
    fn begin(&mut self, id: &MemoryId, head: Snapshot) -> Result<String> {
        let own = self.next_branch();
        // If the branch is gone, the current one is read instead.
        if own.is_some_and(|own| Some(own.id) != head.incarnation) {
            return Err(forgotten());
        }
        let at = own.map_or(0, |own| own.own.start).max(head.start);
        let text = match self.form {
            ExportAs::JsonLines => lines::begin(id, &head, &self.branches)?,
            ExportAs::Markdown => markdown::begin(id, &head, (&self.branches, self.begun + 1))?,
            ExportAs::Request(provider) => {
                let line = request::line(head, provider)?;
                self.begun += 1;
                return Ok(line);
            }
        };
        self.begun += 1;
        self.part = Some(Part { head, at });
        Ok(text)
    }

    /// Returns the records just read in their written form; they belong to a part that has begun.
    fn write_page(&mut self, page: &Snapshot) -> Result<String> {
        let Some(part) = &mut self.part else { return Ok(String::new()) };
        if page.incarnation != part.head.incarnation || page.start > part.at {
            return Err(forgotten());
        }
        part.at = part.page_end();
        match self.form {
            ExportAs::Markdown => markdown::page(page, &part.head),
            _ => lines::page(page, &self.branches),
        }
    }

    fn end(&mut self) -> Result<String> {
        let is_last = self.begun == self.parts();
        match (self.form, self.part.take()) {
            (ExportAs::JsonLines, Some(part)) => lines::end(&part.head),
            (ExportAs::Markdown, Some(part)) if is_last => Ok(markdown::end(&part.head)),
            _ => Ok(String::new()),
        }
    }
}

impl Part {
    /// Returns the position after the records that are read next.
    fn page_end(&self) -> u64 {
        self.at.saturating_add(PAGE).min(self.head.end)
    }

    /// Returns the next read; `None` if all are read.
    fn next(&self, form: ExportAs) -> Option<Read> {
        let end = self.page_end();
        let read = Read::newest(places(end.checked_sub(self.at)?)).before(end);
        // Markdown counts pictures, and needs none of their bytes.
        let read = if form == ExportAs::Markdown { read.references() } else { read };
        Some(read.on(Some(On::branch(self.head.incarnation)))).filter(|read| read.n > 0)
    }
}

fn forgotten() -> Error {
    let text = "the conversation was cleared or evicted meanwhile";
    Error::new(ErrorKind::Forgotten, "export", text)
}

/// Returns the rows of a page in order, each a record or the reason why it can't be read.
fn rows(page: &Snapshot) -> Vec<(u64, Result<Record<'_>, &Error>)> {
    let records = page.records.iter().map(|record| (record.position(), Ok(record)));
    let unreadable = page.unreadable.iter().map(|row| (row.position, Err(&*row.error)));
    let mut rows: Vec<_> = records.chain(unreadable).collect();
    rows.sort_by_key(|row| row.0);
    rows
}

/// Writes JSON on one line.
fn written(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| {
        Error::new(ErrorKind::Codec, "export", "it can't be written").with_source(error)
    })
}

macro_rules! over {
    ($over:ty, $read:ident, [$($async:tt)*], [$($now:tt)*]) => {
        impl Export<'_, $over> {
            /// Returns the next piece; `None` if there is no more.
            ///
            /// # Errors
            ///
            /// Those of the memory; [`ErrorKind::Forgotten`] if the conversation was cleared or
            /// evicted meanwhile; for a provider, those of a prompt. What was returned before is
            /// then only a part of the whole.
            pub $($async)* fn piece(&mut self) -> Result<Option<String>> {
                if self.begun == 0 && self.has_all && let Ok(view) = self.prompt.view() {
                    self.branches = view.branches()$($now)*?;
                }
                let memory = match self.prompt.view() {
                    Ok(view) if self.is_of_memory() => view.memory(),
                    _ => self.prompt.memory(),
                };
                while self.part.is_some() || self.begun < self.parts() {
                    let next = self.part.as_ref().map(|part| part.next(self.form));
                    let piece = match next {
                        Some(Some(read)) => self.write_page(&memory.read_with(&read)$($now)*?)?,
                        Some(None) => self.end()?,
                        None => {
                            // A branch does not list its own slots.
                            let head = $read(&**memory, self.head().slots(OWN))$($now)*?;
                            self.begin(memory.id(), head)?
                        }
                    };
                    if !piece.is_empty() {
                        return Ok(Some(piece));
                    }
                }
                Ok(None)
            }

            /// Writes all pieces to this writer, which must be `Send`: standard output is, and its
            /// lock is not.
            ///
            /// # Errors
            ///
            /// As [`piece`](Self::piece), and [`ErrorKind::Storage`] if it can't be written.
            pub $($async)* fn write_to(mut self, to: &mut (impl Write + Send)) -> Result<()> {
                while let Some(piece) = self.piece()$($now)*? {
                    to.write_all(piece.as_bytes()).map_err(|error| {
                        let text = "what was exported can't be written";
                        Error::new(ErrorKind::Storage, "export", text).with_source(error)
                    })?;
                }
                Ok(())
            }
        }
    };
}

over!(dyn ChatMemory, read_all_slots, [], []);
#[cfg(feature = "async")]
over!(dyn AsyncChatMemory, read_all_slots_async, [async], [.await]);
