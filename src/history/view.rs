//! The view: one branch as a memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::change::{BranchChange, FIRST, newest_question, place_in, reaches_further, variants};
use super::document::SLOT;
use super::page::{Page, of_page};
use super::reading::{Known, PREFIX, Reading, Shared, Standing};
use super::writing::{Writing, locate, remember};
use super::{Branch, Variant, WithinGroup};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{
    Append, Appended, ChatMemory, Fork, Limits, MemoryId, On, Read, share, unsupported,
};
#[cfg(feature = "async")]
use crate::memory::{AsyncChatMemory, BoxFuture, plain_by_with, share_async};
use crate::message::Message;
use crate::pins::around;
use crate::record::{Incarnation, SlotVersion, Snapshot};
use crate::summary;

/// The current branch of a conversation, as a memory of its own.
///
/// Positions are those of the branch: they count from 0 and have no gaps, and what stands at one of
/// them is another message on another branch. Each branch is a life of the conversation by itself:
/// its snapshots have an [incarnation](Snapshot::incarnation) of their own, and what was begun on a
/// branch, a turn or a summary, is stored there, whatever is current by then.
///
/// [`MemoryPrompt::with_branches`](crate::MemoryPrompt::with_branches) puts it around the memory of
/// a prompt. By itself it is for those who show a branch without a prompt:
///
/// ```
/// use std::sync::Arc;
///
/// use memory_prompt::history::BranchView;
/// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, Message};
///
/// let memory = Arc::new(DefaultChatMemory::new());
/// let view = BranchView::new(Arc::clone(&memory));
/// view.add_all([Message::user("Where is Oslo?"), Message::ai("In Sweden.")])?;
/// assert_eq!(view.edit(1, Message::ai("In Norway."))?, 1);
///
/// let said: Vec<_> = view.messages()?.iter().map(|it| it.text().into_owned()).collect();
/// assert_eq!(said, ["Where is Oslo?", "In Norway."]);
/// assert_eq!(memory.len()?, 3); // nothing is rewritten
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// `evict` forgets what stands before the message of this position in the conversation, of all
/// branches; `clear` clears all of them.
pub struct BranchView<M: ?Sized = dyn ChatMemory> {
    memory: Arc<M>,
    shared: Mutex<Shared>,
    within: WithinGroup,
}

impl<M: ?Sized> BranchView<M> {
    fn over(memory: Arc<M>) -> Self {
        let shared = Shared { known: Arc::new(Known::nothing()), seen: None };
        Self { memory, shared: Mutex::new(shared), within: WithinGroup::default() }
    }

    /// Returns the memory that holds all branches.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }

    /// Sets what becomes of an edit in the middle of a tool group.
    #[must_use]
    pub fn within_groups(mut self, within: WithinGroup) -> Self {
        self.within = within;
        self
    }

    /// Expects that this branch is the current one, as its user saw it on a [page](Page::branch):
    /// where another tab has left it for another one, whatever is read or changed here is an
    /// [`ErrorKind::SlotConflict`], until the page is drawn anew. What is changed here is followed.
    /// `None`, of a page that names no branch, expects nothing.
    #[must_use]
    pub fn expecting(self, branch: impl Into<Option<Incarnation>>) -> Self {
        self.shared.lock().seen = branch.into();
        self
    }

    /// Returns the settings, for a view of another memory.
    pub(crate) fn anew(&self, memory: Arc<M>) -> Self {
        Self::over(memory).within_groups(self.within)
    }
}

/// The number of newest messages among which late results are looked for before the first branch.
const TAIL: usize = 256;

/// The most reads that are begun again since others have made branches meanwhile.
const TRIES: u32 = 256;

/// Refuses branches over a memory that can't keep them.
fn check(limits: &Limits) -> Result<()> {
    if !limits.has_slots() {
        return Err(unsupported("branches", "slots", "append_with"));
    }
    if !limits.recognises_ids() {
        return Err(unsupported("branches", "ids of appends", "append_with"));
    }
    Ok(())
}

/// Returns whether a memory can keep branches.
fn keeps(limits: &Limits) -> bool {
    check(limits).is_ok()
}

/// The methods over a memory of one kind: what is written once is done at once over a blocking one,
/// and awaited over an async one.
macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*]) => {
        impl BranchView<$over> {
            /// Puts a message in the place of the one at this position: on a new branch, which has
            /// what stands before it and is the current one from now on. Returns the position from
            /// which on a page is to be drawn anew: that of the message, or of the call of its
            /// [tool group](WithinGroup).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`] where there is no message at the position,
            /// [`ErrorKind::SlotConflict`] where somebody else has changed the branches meanwhile,
            /// [`ErrorKind::Unsupported`] where the memory has no slots or ids, and whatever else
            /// it returns. Nothing was changed then.
            pub $($async)* fn edit(&self, position: u64, message: impl Into<Message>) -> Result<u64> {
                self.edit_with(position, Append::new([message.into()]))$($now)*
            }

            /// Puts the messages of this append in the place of the one at this position, as
            /// [`edit`](Self::edit) does, with their times: for what was said elsewhere. Nothing
            /// else of the append is looked at.
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn edit_with(&self, position: u64, append: Append) -> Result<u64> {
                let Append { messages, times, .. } = append;
                if messages.iter().any(Message::is_system) {
                    let text = "a system message has no position";
                    return Err(Error::invalid("edit", text));
                }
                if messages.is_empty() {
                    return Err(Error::invalid("edit", "there is no message to put there"));
                }
                let append = Box::new(Append { messages, times, ..Append::default() });
                let change = BranchChange::Edit(position, append, self.within);
                let drawn = self.changed(change)$($now)*?;
                Ok(drawn.unwrap_or(position))
            }

            /// Takes the newest step back: the newest turn, or the edit, the new answer or the
            /// switch behind which no turn has begun. Returns the position from which on a page is
            /// to be drawn anew; `None` if there is nothing to take back.
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn undo(&self) -> Result<Option<u64>> {
                self.changed(BranchChange::Undo)$($now)*
            }

            /// Does again what was taken back last, unless something else was said or done since.
            /// Returns the position from which on a page is to be drawn anew; `None` if there is
            /// nothing.
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn redo(&self) -> Result<Option<u64>> {
                self.changed(BranchChange::Redo)$($now)*
            }

            /// Makes the branch of this variant the current one. Returns the position from which on
            /// a page is to be drawn anew; `None` if it is the current one.
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit), and [`ErrorKind::Invalid`] where there is no such branch.
            pub $($async)* fn switch(&self, to: impl Into<Incarnation> + Send) -> Result<Option<u64>> {
                let to = to.into();
                self.changed(BranchChange::Switch(to))$($now)*
            }

            /// Returns what was said in the place of the message at this position, in the order in
            /// which it was said; the message itself is among them. Empty where there is none.
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn variants(&self, position: u64) -> Result<Vec<Variant>> {
                let (_, at) = self.seen(&Read::newest(0))$($now)*?;
                Ok(variants(&at, position))
            }

            /// Returns the branches on which something was said, oldest first, and the current one.
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn branches(&self) -> Result<Vec<Branch>> {
                let (_, at) = self.seen(&Read::newest(0))$($now)*?;
                Ok(branches(&at))
            }

            /// Returns the newest `n` messages of the current branch before this position, or at
            /// its end: what a page shows, newest first. It is the list of which prompts are made.
            /// Media that the memory keeps beside its records come as
            /// [references](crate::message::MediaReference): a read of the
            /// [position](crate::memory::Read::positions) has their bytes.
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn page(&self, before: Option<u64>, n: usize) -> Result<Page> {
                let mut read = Read::newest(n).references();
                read.before = before;
                if !keeps(&self.memory.limits()) {
                    return of_page(&self.memory.read_with(&read)$($now)*?, None);
                }
                let read = read.slots([summary::SLOT]);
                let (seen, at) = self.seen(&read)$($now)*?;
                of_page(&seen, Some(&at))
            }

            /// Returns the branch in the making on which the newest question is answered anew, and
            /// that question.
            pub(crate) $($async)* fn regenerating(&self) -> Result<(On, Message)> {
                self.note_late()$($now)*?;
                let mut read = Read::newest(FIRST);
                loop {
                    let (seen, at) = self.seen(&read)$($now)*?;
                    if reaches_further(&mut read, &seen) {
                        continue;
                    }
                    let (last, _) = newest_question(&seen).ok_or_else(|| {
                        let text = "there is no question that could be answered anew";
                        Error::invalid("regenerate", text)
                    })?;
                    let on = fork(&at, last.position(), 1);
                    return Ok((on, last.message().clone()));
                }
            }

            /// Returns the branch in the making on which something else is asked in the place of
            /// the message at this position.
            pub(crate) $($async)* fn editing(&self, position: u64) -> Result<On> {
                self.note_late()$($now)*?;
                let read = Read::newest(0).positions(around(position)).references();
                let (seen, at) = self.seen(&read)$($now)*?;
                Ok(fork(&at, place_in(&seen, position, self.within)?, 0))
            }

            $($async)* fn changed(&self, change: BranchChange) -> Result<Option<u64>> {
                self.note_late()$($now)*?;
                let (mut read, id) = (change.read(), Incarnation::random());
                loop {
                    let (seen, at) = self.seen(&read)$($now)*?;
                    if reaches_further(&mut read, &seen) {
                        continue;
                    }
                    let Some(mut changed) = change.make(&seen, &at, id)? else { return Ok(None) };
                    match self.memory.append_with(&mut changed.append)$($now)* {
                        Ok(appended) => {
                            remember(&self.shared, &at, changed.document, appended.version);
                            return Ok(Some(changed.drawn));
                        }
                        Err(error) if matches!(error.kind(), ErrorKind::Conflict { .. }) => {}
                        Err(error) => return Err(error),
                    }
                }
            }

            /// Before the first branch is made, notes which of the newest results came late: what a
            /// branch leaves may hold that of a call which it shares.
            $($async)* fn note_late(&self) -> Result<()> {
                if self.shared.lock().known.version.is_none() {
                    let (seen, at) = self.seen(&Read::newest(TAIL).references())$($now)*?;
                    let mut known = Known::clone(&at.known);
                    let records = seen.records.iter().map(|it| (it.position(), it.message()));
                    if at.is_alone() && known.document.note_late(records) {
                        self.shared.lock().known = Arc::new(known);
                    }
                }
                Ok(())
            }

            /// Reads a branch.
            $($async)* fn seen(&self, read: &Read) -> Result<(Snapshot, Standing)> {
                check(&self.memory.limits())?;
                'anew: for _ in 0..TRIES {
                    let known = Arc::clone(&self.shared.lock().known);
                    let mut at = Standing::new(known, read.branch);
                    let first = self.memory.read_with(&at.read(read))$($now)*?;
                    if !at.is_shown_by(&first, read.branch, &self.shared)? {
                        continue;
                    }
                    if at.is_alone() {
                        return Ok((first, at)); // all is as it is
                    }
                    let mut reading = Reading::new(read, &at, &first)?;
                    while let Some(next) = reading.next() {
                        if !reading.take(&self.memory.read_with(&next)$($now)*?) {
                            continue 'anew;
                        }
                    }
                    let shown = at.with_late(reading.shown, &first);
                    return Ok((shown, at));
                }
                let text = "others make branches all the time";
                Err(Error::new(ErrorKind::Storage, "read", text))
            }

            $($async)* fn read_on(&self, read: &Read) -> Result<Snapshot> {
                if !keeps(&self.memory.limits()) {
                    return self.memory.read_with(read)$($now)*;
                }
                read.check()?;
                self.seen(read)$($now)*.map(|(snapshot, _)| snapshot)
            }

            $($async)* fn append_on(&self, append: &mut Append) -> Result<Appended> {
                let limits = self.memory.limits();
                if !keeps(&limits) {
                    return self.memory.append_with(append)$($now)*;
                }
                if append.branch.is_some_and(|on| on.fork.is_some()) {
                    self.note_late()$($now)*?; // of what came while its turn ran
                }
                let (read, mut tries) = (Writing::read(append), 0);
                loop {
                    let (seen, at) = self.seen(&read)$($now)*?;
                    let mut writing = Writing::new(append, (&seen, &at), &limits)?;
                    match self.memory.append_with(&mut writing.append)$($now)* {
                        Ok(mut appended) => {
                            if appended.repeated {
                                let (_, at) = self.seen(&read)$($now)*?;
                                locate(&mut appended, &at);
                            } else {
                                appended = writing.done(appended, append, &at, &self.shared);
                            }
                            append.messages.clear();
                            return Ok(appended);
                        }
                        Err(error) if writing.may_meet_branches(&error) => {
                            let (_, now) = self.seen(&read)$($now)*?;
                            if now.known.version == at.known.version {
                                return Err(error); // another slot was the reason
                            }
                        }
                        Err(error) => writing.failed(error, tries)?,
                    }
                    tries += 1;
                }
            }

            $($async)* fn evict_on(&self, before: u64) -> Result<u64> {
                if !keeps(&self.memory.limits()) {
                    return self.memory.evict(before)$($now)*;
                }
                let (_, at) = self.seen(&Read::newest(0))$($now)*?;
                let last = before.min(at.spans.len()).checked_sub(1);
                let Some(last) = last.and_then(|it| at.spans.to_conversation(it)) else {
                    return Ok(0);
                };
                self.memory.evict(last + 1)$($now)*
            }

            $($async)* fn slots_on(&self) -> Result<Vec<(String, SlotVersion)>> {
                let mut all = self.memory.slots()$($now)*?;
                all.retain(|(name, _)| name != SLOT && !name.starts_with(PREFIX));
                Ok(all)
            }
        }
    };
}

over!(dyn ChatMemory, [], []);
#[cfg(feature = "async")]
over!(dyn AsyncChatMemory, [async], [.await]);

/// Returns a branch in the making that shares so many messages with the one that was read.
fn fork(at: &Standing, shared: u64, keep: u64) -> On {
    let from = at.known.id(at.line);
    On { id: Incarnation::random(), fork: Some(Fork { from, at: shared, keep }) }
}

/// Returns the branches on which something was said, and the current one.
fn branches(at: &Standing) -> Vec<Branch> {
    let known = &at.known;
    let document = &known.document;
    let lines = document.lines.iter().enumerate();
    let shown = lines.filter(|(i, line)| *i == document.current || !line.is_empty());
    let branches = shown.filter_map(|(i, line)| {
        let (spans, begins) = (document.spans(i, at.end), line.begins());
        Some(Branch {
            id: known.id(i)?,
            parent: known.id(line.parent).filter(|_| i > 0),
            own: begins..spans.len(),
            records: spans.behind(begins),
            is_current: i == document.current,
        })
    });
    branches.collect()
}

impl BranchView {
    /// Returns the current branch of this conversation.
    pub fn new(memory: impl ChatMemory + 'static) -> Self {
        Self::over(share(memory))
    }
}

#[cfg(feature = "async")]
impl BranchView<dyn AsyncChatMemory> {
    /// Returns the current branch of this conversation.
    pub fn new_async(memory: impl AsyncChatMemory + 'static) -> Self {
        Self::over(share_async(memory))
    }
}

impl ChatMemory for BranchView {
    fn id(&self) -> &MemoryId {
        self.memory.id()
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut append = Append { expected, ..Append::default() };
        append.messages.clone_from(batch);
        let appended = self.append_on(&mut append)?;
        batch.clear();
        Ok(appended.positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.read_on(&Read { before, ..Read::newest(n) })
    }

    fn evict(&self, before: u64) -> Result<u64> {
        self.evict_on(before)
    }

    fn clear(&self) -> Result<()> {
        self.memory.clear()
    }

    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        self.append_on(append)
    }

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.read_on(read)
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.slots_on()
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }
}

#[cfg(feature = "async")]
impl AsyncChatMemory for BranchView<dyn AsyncChatMemory> {
    fn id(&self) -> &MemoryId {
        self.memory.id()
    }

    plain_by_with!();

    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.evict_on(before))
    }

    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        self.memory.clear()
    }

    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        Box::pin(self.append_on(append))
    }

    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        Box::pin(self.read_on(read))
    }

    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        Box::pin(self.slots_on())
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }
}

impl<M: fmt::Debug + ?Sized> fmt::Debug for BranchView<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BranchView").field("memory", &&*self.memory).finish_non_exhaustive()
    }
}
