//! The view: one branch as a memory.

use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::document::{Document, SLOT};
use super::page::{Page, of_page};
use super::reading::{SeenBranch, is_own, system_of};
use super::spans::FAR;
use super::writing::{Change, FIRST, Writing, locate, newest_question, place_in, reaches_further};
use super::{Branch, Variant, WithinGroup};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{
    Append, Appended, ChatMemory, Fork, LentBatch, Limits, MemoryId, On, Read, share, unsupported,
};
#[cfg(feature = "async")]
use crate::memory::{AsyncChatMemory, BoxFuture, append_and_read_by_the_larger_forms, share_async};
use crate::message::{Message, Part};
use crate::pins::around;
use crate::record::{Incarnation, Replaced, Slot, SlotVersion, Snapshot, Unreadable};
use crate::summary;

/// The current branch of a conversation, as a memory of its own.
///
/// Positions are those of the branch: they count from 0 and have no gaps, and the same position is
/// another message on another branch. Each branch is a life of the conversation by itself: its
/// snapshots have an [incarnation](Snapshot::incarnation) of their own. A turn or a summary that
/// was begun on a branch is stored there, whichever branch is current by then.
///
/// [`MemoryPrompt::with_branches`](crate::MemoryPrompt::with_branches) puts it around the memory of
/// a prompt. Use it directly to show a branch without a prompt:
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
/// `evict` forgets the messages before this position, and whatever any branch has said before the
/// last of them; `clear` clears all branches. The slot `prompt:branches` and those whose names
/// begin with `branch:` belong to the view: it does not list them, and an append that writes one is
/// [`ErrorKind::Invalid`]. Put a memory that evicts inside a view and not around it, since a view
/// that is inside another memory can't make branches.
#[derive(Debug)]
pub struct BranchView<M: ?Sized = dyn ChatMemory> {
    memory: Arc<M>,
    /// The branches as of the last read: the next read assumes them, and checks whether they still
    /// hold.
    known: Mutex<Arc<Document>>,
    /// The branch that its user sees, if it is known.
    expected: Mutex<Option<Incarnation>>,
    within: WithinGroup,
}

impl<M: ?Sized> BranchView<M> {
    /// Returns the memory that holds all branches.
    pub fn memory(&self) -> &Arc<M> {
        &self.memory
    }

    /// Sets the rule for an edit in the middle of a tool group.
    #[must_use]
    pub fn within_groups(mut self, within: WithinGroup) -> Self {
        self.within = within;
        self
    }

    /// Expects that this branch is the current one, as its user saw it on a [page](Page::branch).
    /// If another tab has switched to another one, every read or change here fails with an
    /// [`ErrorKind::SlotConflict`], until the page is redrawn. Changes made here are followed. An
    /// edit or a regeneration whose request comes again conflicts with its own success: look for
    /// its [stored turn](crate::MemoryPrompt::stored_turn) first, over a view that expects nothing.
    /// `None`, from a page that names no branch, expects nothing.
    #[must_use]
    pub fn expecting(self, branch: impl Into<Option<Incarnation>>) -> Self {
        *self.expected.lock() = branch.into();
        self
    }

    /// Returns the state of the branch from the first read; `None` if the branches differ from
    /// those that are known, so that it must be read again.
    fn seen_branch(
        &self,
        known: &SeenBranch,
        asked: Option<On>,
        first: &Snapshot,
    ) -> Result<Option<SeenBranch>> {
        let mut document = Arc::clone(&known.document);
        let version = (first.slot(SLOT).map(Slot::version), first.incarnation);
        if version != (document.stored, document.incarnation) {
            document = Arc::new(Document::of(first)?);
            *self.known.lock() = Arc::clone(&document);
        }
        let mut at = SeenBranch::new(document, asked, first.end);
        let read = |it: &SeenBranch| (it.document.stored, it.line, it.fork.is_some());
        if read(known) != read(&at) {
            return Ok(None);
        }
        let expected = self.expected.lock().filter(|_| asked.is_none());
        if expected.is_some_and(|it| at.id() != Some(it)) {
            let text = "the conversation is on another branch than the one that was seen";
            return Err(Error::new(ErrorKind::SlotConflict, "branches", text));
        }
        at.system = first.slot(&system_of(at.line)).cloned();
        at.start = first.start;
        Ok(Some(at))
    }

    /// Remembers the branches after this change, and returns the append with its positions on the
    /// branch.
    fn changed_by(&self, writing: Writing, mut appended: Appended, at: &SeenBranch) -> Appended {
        if let Some(mut document) = writing.document {
            document.stored = appended.version;
            let mut expected = self.expected.lock();
            if expected.is_some() && *expected == at.document.id(at.document.current) {
                *expected = document.id(document.current);
            }
            drop(expected);
            *self.known.lock() = Arc::new(document);
        }
        appended.positions = writing.positions;
        appended
    }
}

/// The number of newest messages that are searched for late results before the first branch is
/// made.
const TAIL: usize = 256;

/// How often a read or a change is retried because another writer was faster.
const TRIES: u32 = 4096;

/// Refuses branches over a memory that can't keep them.
fn check(limits: &Limits) -> Result<()> {
    if limits.has_slots() && limits.recognises_ids() {
        return Ok(());
    }
    Err(unsupported("branches", "slots and ids of appends", "append_with"))
}

fn others_change_all_the_time() -> Error {
    Error::new(ErrorKind::Storage, "branches", "others make and change branches all the time")
}

/// Returns a branch to be made that shares this many messages with the one that was read, and what
/// it replaces.
fn fork(at: &SeenBranch, shared: u64, keep: u64) -> (On, Replaced) {
    let from = at.document.id(at.line);
    let branches = at.document.sharing(at.line, shared, at.end);
    let on = On { id: Some(Incarnation::random()), fork: Some(Fork { from, at: shared, keep }) };
    (on, Replaced { at: shared, branches })
}

/// The methods over a memory of one kind. Their code is written once: done at once over a blocking
/// memory, and awaited over an async one.
macro_rules! over {
    ($memory:ident, $new:ident, $share:ident, [$($async:tt)*], [$($now:tt)*]) => {
        impl BranchView<dyn $memory> {
            /// Returns the current branch of this conversation. If this is a view already, the
            /// result is another view of the same memory, with its own settings.
            pub fn $new(memory: impl $memory + 'static) -> Self {
                Self::over($share(memory))
            }

            /// Returns a view of all branches of a memory, including those that a view leaves out.
            fn over(memory: Arc<dyn $memory>) -> Self {
                let memory = memory.all_branches().unwrap_or(memory);
                let known = Mutex::new(Arc::new(Document::unbranched()));
                Self { memory, known, expected: Mutex::default(), within: WithinGroup::default() }
            }

            pub(crate) fn over_another(&self, memory: Arc<dyn $memory>) -> Self {
                Self::over(memory).within_groups(self.within)
            }

            /// Replaces the message at this position, on a new branch that has the messages before
            /// it and becomes the current one. Returns the position from which to redraw a page:
            /// that of the message, or of the call of its [tool group](WithinGroup).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`] if there is no message at the position;
            /// [`ErrorKind::SlotConflict`] if someone else has changed the branches meanwhile;
            /// [`ErrorKind::Unsupported`] if the memory has no slots or ids; and any error of the
            /// memory. Nothing is changed then, except that after an [`ErrorKind::Unacknowledged`]
            /// this is unknown: the next [`page`](Self::page) shows it.
            pub $($async)* fn edit(&self, position: u64, message: impl Into<Message>) -> Result<u64> {
                self.edit_with(position, Append::new([message.into()]))$($now)*
            }

            /// Replaces the message at this position by those of this append, with their times, as
            /// [`edit`](Self::edit) does: for messages that were said elsewhere. The rest of the
            /// append is ignored.
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
                let append = Append { messages, times, ..Append::default() };
                let change = Change::Edit(position, &append, self.within);
                Ok(self.write(&change)$($now)*?.positions.start)
            }

            /// Undoes the newest step: the newest turn; or the edit, the new answer or the switch
            /// after which no turn has begun. Returns the position from which to redraw a page;
            /// `None` if there is nothing to undo.
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn undo(&self) -> Result<Option<u64>> {
                self.change(&Change::Undo)$($now)*
            }

            /// Redoes what was undone last, unless something else was said or done since. Returns
            /// the position from which to redraw a page; `None` if there is nothing to redo.
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn redo(&self) -> Result<Option<u64>> {
                self.change(&Change::Redo)$($now)*
            }

            /// Makes the branch of this variant the current one. Returns the position from which to
            /// redraw a page; `None` if it is the current one already.
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit), and [`ErrorKind::Invalid`] if there is no such branch.
            pub $($async)* fn switch(&self, to: impl Into<Incarnation> + Send) -> Result<Option<u64>> {
                let to = to.into();
                self.change(&Change::Switch(to))$($now)*
            }

            /// Returns the variants of the message at this position, in the order in which they
            /// were said, including the message itself. Empty if there is no message. What the
            /// memory has evicted is left out.
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn variants(&self, position: u64) -> Result<Vec<Variant>> {
                check(&self.memory.limits())?;
                let (_, at) = self.seen(&Read::newest(0))$($now)*?;
                Ok(at.document.variants(at.start..at.end)(position))
            }

            /// Returns the branches on which something was said, oldest first, and the current one.
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn branches(&self) -> Result<Vec<Branch>> {
                check(&self.memory.limits())?;
                let (_, at) = self.seen(&Read::newest(0))$($now)*?;
                Ok(at.document.branches(at.end))
            }

            /// Returns the newest `n` messages of the current branch before this position, or at
            /// its end, newest first: what a page shows. It is the same list that prompts are made
            /// of. Media that the memory keeps beside its records come as
            /// [references](crate::message::MediaReference): a read of the
            /// [position](crate::memory::Read::positions) has their bytes.
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn page(&self, before: Option<u64>, n: usize) -> Result<Page> {
                let summary = self.memory.limits().has_slots().then_some(summary::SLOT);
                let read = Read::newest(n).references().slots(summary);
                let (seen, at) = self.seen(&Read { before, ..read })$($now)*?;
                of_page(&seen, &at)
            }

            /// Returns the branch to be made on which the newest question is regenerated, and that
            /// question.
            pub(crate) $($async)* fn regenerating(&self) -> Result<((On, Replaced), Message)> {
                check(&self.memory.limits())?;
                let mut read = Read::newest(FIRST).references();
                loop {
                    let (seen, at) = self.seen(&read)$($now)*?;
                    if reaches_further(&mut read, &seen) {
                        continue;
                    }
                    let (last, _) = newest_question(&seen).ok_or_else(|| {
                        let text = "there is no question to answer again";
                        Error::invalid("regenerate", text)
                    })?;
                    let (position, mut question) = (last.position(), last.message().clone());
                    if question.has_references() {
                        // With its media, and those of no other message.
                        let on = Some(On::branch(at.id()));
                        let whole = Read::newest(0).positions([position]).on(on);
                        let (whole, _) = self.seen(&whole)$($now)*?;
                        let whole = whole.picked().find(position);
                        question = whole.map_or(question, |it| it.message().clone());
                    }
                    return Ok((fork(&at, position, 1), question));
                }
            }

            /// Returns this text as a question that replaces the message at this position, with its
            /// pictures and files.
            pub(crate) $($async)* fn reworded(&self, position: u64, text: String) -> Result<Message> {
                let (seen, _) = self.seen(&Read::newest(0).positions([position]))$($now)*?;
                if let Some(Unreadable { error, .. }) = seen.picked_unreadable().first() {
                    let text = format!("the message at position {position} can't be read");
                    return Err(Error::new(error.kind(), "edit", text).with_source(Arc::clone(error)));
                }
                let asked = seen.picked().find(position).filter(|it| it.message().is_user());
                let parts = asked.iter().flat_map(|it| it.message().content_parts());
                let media = parts.filter(|(_, part)| part.as_media().is_some());
                let mut parts: Vec<_> = media.map(|(_, part)| part.clone()).collect();
                if parts.is_empty() {
                    return Ok(Message::user(text));
                }
                parts.push(Part::text(text));
                Ok(Message::user(parts))
            }

            /// Returns the branch to be made on which this question replaces the message at this
            /// position.
            pub(crate) $($async)* fn editing(&self, position: u64) -> Result<(On, Replaced)> {
                check(&self.memory.limits())?;
                let read = Read::newest(0).positions(around(position)).references();
                let (seen, at) = self.seen(&read)$($now)*?;
                Ok(fork(&at, place_in(&seen, position, self.within)?, 0))
            }

            $($async)* fn change(&self, change: &Change<'_>) -> Result<Option<u64>> {
                let appended = self.write(change)$($now)*?;
                Ok(appended.version.map(|_| appended.positions.start)) // of the slot of branches
            }

            /// Makes a change, and retries if another writer was faster. Any change but an append
            /// fails with `SlotConflict` if the branches themselves have changed.
            $($async)* fn write(&self, change: &Change<'_>) -> Result<Appended> {
                check(&self.memory.limits())?;
                let (mut read, id, mut met) = (change.read(), Incarnation::random(), None);
                for _ in 0..TRIES {
                    let (seen, mut at) = self.seen(&read)$($now)*?;
                    if reaches_further(&mut read, &seen) {
                        continue;
                    }
                    let branches = matches!(change, Change::Edit(..) | Change::Undo);
                    if branches && at.is_alone() && !self.note_late(&mut at)$($now)*? {
                        continue;
                    }
                    let Some(mut writing) = change.make((&seen, &at), id)? else {
                        return Ok(Appended::new(0..0));
                    };
                    let error = match self.memory.append_with(&mut writing.append)$($now)* {
                        Ok(mut appended) if appended.repeated => {
                            let (_, at) = self.seen(&read)$($now)*?;
                            locate(&mut appended, read.branch, &at);
                            return Ok(appended);
                        }
                        Ok(appended) => return Ok(self.changed_by(writing, appended, &at)),
                        Err(error) => error,
                    };
                    let version = writing.document.map(|_| at.document.stored);
                    match (error.kind(), change) {
                        (ErrorKind::Conflict { .. }, _) => writing.refused.map_or(Ok(()), Err)?,
                        (ErrorKind::SlotConflict, Change::Append(_)) if met != version => {
                            met = version; // met again, another slot is the reason
                        }
                        _ => return Err(error),
                    }
                }
                Err(others_change_all_the_time())
            }

            /// Before the first branch is made, notes the late results among the newest messages: a
            /// result that only the old branch holds may answer a call that both share. Returns
            /// false if others have appended or cleared since `at` was read.
            $($async)* fn note_late(&self, at: &mut SeenBranch) -> Result<bool> {
                let tail = self.memory.read_with(&Read::newest(TAIL).references())$($now)*?;
                let records = tail.records.iter().map(|it| (it.position(), it.message()));
                Arc::make_mut(&mut at.document).note_late(records);
                Ok((tail.end, tail.incarnation) == (at.end, at.document.incarnation))
            }

            /// Reads a branch; if the memory can't keep branches, everything that it holds.
            $($async)* fn seen(&self, read: &Read) -> Result<(Snapshot, SeenBranch)> {
                if check(&self.memory.limits()).is_err() {
                    let all = self.memory.read_with(read)$($now)*?;
                    let at = SeenBranch::new(Arc::new(Document::unbranched()), None, all.end);
                    return Ok((all, at));
                }
                'again: for _ in 0..TRIES {
                    let known = Arc::clone(&self.known.lock());
                    let known = SeenBranch::new(known, read.branch, FAR);
                    let first = self.memory.read_with(&known.first_read(read))$($now)*?;
                    let Some(mut at) = self.seen_branch(&known, read.branch, &first)? else { continue };
                    if at.is_alone() {
                        return Ok((first, at)); // all is as it is
                    }
                    let mut late = first.picked().clone();
                    if at.document.stored.is_none() {
                        if !self.note_late(&mut at)$($now)*? {
                            continue;
                        }
                        let next = Read::newest(0).positions(at.late().map(|(_, at)| at));
                        let next = Read { references: read.references, ..next };
                        let is_shown = read.n > 0 || !read.positions.is_empty();
                        if is_shown && !next.positions.is_empty() {
                            late = self.memory.read_with(&next)$($now)*?.picked().clone();
                        }
                    }
                    let mut parts = Vec::new();
                    for (span, next) in at.reads(read, first.start) {
                        let part = if parts.is_empty() {
                            first.clone()
                        } else {
                            self.memory.read_with(&next)$($now)*?
                        };
                        if part.incarnation != first.incarnation {
                            continue 'again;
                        }
                        parts.push((span, part));
                    }
                    return Ok((at.shown(read, &first, &parts, &late)?, at));
                }
                Err(others_change_all_the_time())
            }

            $($async)* fn append_on(&self, append: &mut Append) -> Result<Appended> {
                let limits = self.memory.limits();
                if check(&limits).is_err() {
                    return self.memory.append_with(append)$($now)*;
                }
                append.check(&limits)?;
                if let Some(own) = append.slots.iter().find(|slot| is_own(&slot.name)) {
                    let text = format!("only the view of branches writes the slot {:?}", own.name);
                    return Err(Error::invalid("append", text));
                }
                let mut appended = self.write(&Change::Append(append))$($now)*?;
                append.messages.clear();
                if append.slots.is_empty() && !appended.repeated {
                    appended.version = None; // of the slot of branches
                }
                Ok(appended)
            }

            $($async)* fn evict_on(&self, before: u64) -> Result<u64> {
                let (_, at) = self.seen(&Read::newest(0))$($now)*?;
                let last = before.min(at.spans.len()).checked_sub(1);
                let Some(last) = last.and_then(|it| at.spans.to_conversation(it)) else {
                    return Ok(0);
                };
                self.memory.evict(last + 1)$($now)*
            }

            $($async)* fn slots_on(&self) -> Result<Vec<(String, SlotVersion)>> {
                let mut all = self.memory.slots()$($now)*?;
                all.retain(|(name, _)| !is_own(name));
                Ok(all)
            }
        }
    };
}

over!(ChatMemory, new, share, [], []);
#[cfg(feature = "async")]
over!(AsyncChatMemory, new_async, share_async, [async], [.await]);

impl ChatMemory for BranchView {
    fn id(&self) -> &MemoryId {
        self.memory.id()
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut lent = LentBatch::new(batch, expected);
        Ok(self.append_on(&mut lent.append)?.positions)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.read_with(&Read { before, ..Read::newest(n) })
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
        self.seen(read).map(|(shown, _)| shown)
    }

    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.slots_on()
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn all_branches(&self) -> Option<Arc<dyn ChatMemory>> {
        Some(Arc::clone(&self.memory))
    }
}

#[cfg(feature = "async")]
impl AsyncChatMemory for BranchView<dyn AsyncChatMemory> {
    fn id(&self) -> &MemoryId {
        self.memory.id()
    }

    append_and_read_by_the_larger_forms!();

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
        Box::pin(async move { self.seen(read).await.map(|(shown, _)| shown) })
    }

    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        Box::pin(self.slots_on())
    }

    fn limits(&self) -> Limits {
        self.memory.limits()
    }

    fn all_branches(&self) -> Option<Arc<dyn AsyncChatMemory>> {
        Some(Arc::clone(&self.memory))
    }
}
