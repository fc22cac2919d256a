//! Summaries of a prompt: what is due, and how the written text is stored.

use super::{MemoryPrompt, must_keep_slots, not_built, settings};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, ChatMemory, Expected, Limits, On, Read};
use crate::message::nine;
use crate::pins;
use crate::record::{Snapshot, places};
use crate::summary::{
    Compaction, CompactionPolicy, EARLIER_SLOT, Looked, OPEN, SLOT, Summaries, Summarizer, Summary,
    look, stretch,
};

settings! {
    /// Sends the summary of the conversation, if there is one, instead of the messages that it
    /// covers. See [`summary`](crate::summary) for how it is made, and for an example.
    ///
    /// [`commit`](MemoryPrompt::commit) keeps it in the memory, so that every process sees it. A
    /// prompt without this setting sends what its window holds, and reads no more than before. So
    /// build all prompts of a conversation the same way.
    ///
    /// - **Its place** is after the system message and after pins of messages that it covers. It is
    ///   a message of the user that says what it is.
    /// - **The window** reaches back to the covered messages, up to [four
    ///   times](crate::Composer::summary_reach) its own number of messages, and never sends fewer
    ///   uncovered messages than it would by itself. If more are uncovered, the
    ///   [report](crate::Report::older) says how many; beyond that the start moves in steps. A
    ///   window [`exactly`](crate::Window::exactly) stays what it is.
    /// - **A budget** counts the summary before the history.
    /// - **Pins** are sent, covered or not, and [recall](crate::recall) finds covered messages.
    fn with_summary();

    /// Sets the most records that a window sends to reach back to what the summary covers: see
    /// [`Composer::summary_reach`](crate::Composer::summary_reach).
    fn summary_reach(records: usize);
}

impl<M: ?Sized> MemoryPrompt<M> {
    fn must_summarise(&self, limits: &Limits) -> Result<()> {
        if !self.composer.sends_summary() {
            return Err(not_built("summary", "sends no summary", "with_summary"));
        }
        must_keep_slots("summary", limits)
    }

    fn commitment(&self, limits: &Limits, due: &Compaction, text: String) -> Result<Append> {
        self.must_summarise(limits)?;
        let summary = due.written(text)?;
        let before = Summaries::of(&due.seen)?;
        // Another text is another summary, and not a retry of this one.
        let id = format!("summary:{}:{}", due.id, nine(&summary.text, 0));
        let expected = due.version.map_or(Expected::Absent, Expected::Is);
        let append =
            setting(Summaries::committed(before, summary, (limits.slot, limits.batch))?, expected);
        Ok(if limits.recognises_ids() { append.with_id(id).since(&due.seen) } else { append })
    }

    /// Returns the append that undoes the newest summary; `None` if there is none.
    fn undoing(&self, limits: &Limits, seen: &Snapshot) -> Result<Option<Append>> {
        self.must_summarise(limits)?;
        let version = seen.slot(SLOT).map(|slot| Expected::Is(slot.version()));
        let Some((summaries, version)) = Summaries::of(seen)?.zip(version) else { return Ok(None) };
        Ok(Some(setting(summaries.undone((limits.slot, limits.batch))?, version)))
    }
}

/// Returns the append that sets both slots. A process that has the current version of the first
/// slot has that of the other too.
fn setting([current, earlier]: [Vec<u8>; 2], expected: Expected) -> Append {
    let append = Append::default().set_slot(SLOT, current, expected);
    append.set_slot(EARLIER_SLOT, earlier, Expected::Any)
}

/// The read that shows the current summary.
fn newest() -> Read {
    Read::newest(1).slots([SLOT, EARLIER_SLOT, pins::SLOT])
}

macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*]) => {
        impl MemoryPrompt<$over> {
            /// Returns what is due to be summarised by this policy; `None` if nothing is.
            ///
            /// It ends where a turn begins, if one begins there; never between a call and its
            /// result; and never past the newest question or a call that still waits (for 256
            /// messages). At most four steps are due at once, or a longer part that can't be split;
            /// the rest of a longer history is due once this summary is stored. This stores nothing
            /// and locks nothing: see [`commit`](Self::commit).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`] if the prompt sends no summaries, [`ErrorKind::Unsupported`]
            /// if the memory has no slots, and every other error of [`ChatMemory::read_with`].
            pub $($async)* fn compaction(
                &self,
                policy: &CompactionPolicy,
            ) -> Result<Option<Compaction>> {
                self.must_summarise(&self.memory.limits())?;
                // It shows whether the conversation is still the same, and what was asked last.
                let seen = Read { n: OPEN, ..newest() }.references();
                let seen = self.memory.read_with(&seen)$($now)*?;
                let mut part = stretch(policy, &seen, None)?;
                while !part.is_empty() {
                    let read = Read::newest(places(part.end - part.start)).before(part.end);
                    // Another branch may be current by now.
                    let read = read.references().on(Some(On::branch(seen.incarnation)));
                    let read = self.memory.read_with(&read)$($now)*?;
                    match look(policy, seen.clone(), &read, &part)? {
                        Looked::Nothing => break,
                        Looked::Due(due) => return Ok(Some(*due)),
                        Looked::Further(n) => part = stretch(policy, &seen, Some(n))?,
                    }
                }
                Ok(None)
            }

            /// Stores a summary of what was due, if it is still due: no other was stored or undone
            /// in the meantime. Over a memory that recognises ids, storing the same summary again
            /// after a lost answer changes nothing. A text that is [too
            /// long](CompactionPolicy::text_at_most) is cut, as the summary and the
            /// [report](crate::Report::summary_cut) show.
            ///
            /// Up to 16 earlier summaries are kept next to it, as far as a slot can hold them and
            /// even if records were evicted since: for [`undo_summary`](Self::undo_summary).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::SlotConflict`] if another process was faster, [`ErrorKind::Forgotten`]
            /// if the conversation was cleared, deleted or begun again, or everything was evicted
            /// that it held when this was due, [`ErrorKind::Invalid`] for an empty text, and every
            /// other error of [`ChatMemory::append_with`]. Nothing is changed then, except that
            /// after [`ErrorKind::Unacknowledged`] this is unknown.
            pub $($async)* fn commit(
                &self,
                due: &Compaction,
                text: impl Into<String>,
            ) -> Result<()> {
                let mut append = self.commitment(&self.memory.limits(), due, text.into())?;
                self.memory.append_with(&mut append)$($now)*.map(drop)
            }

            /// Returns the current summary.
            ///
            /// # Errors
            ///
            /// As [`ChatMemory::read_with`], and [`ErrorKind::Codec`] if other code has written the
            /// slot `prompt:summary`.
            pub $($async)* fn summary(&self) -> Result<Option<Summary>> {
                if !self.memory.limits().has_slots() {
                    return Ok(None);
                }
                let seen = self.memory.read_with(&newest())$($now)*?;
                Ok(Summaries::of(&seen)?.map(|it| it.current))
            }

            /// Undoes the newest summary: the one before it, if any, is current again. Returns
            /// false if there is none.
            ///
            /// A [`commit`](Self::commit) of a summary that was requested before this fails. If the
            /// answer of this call got lost, look at the [`summary`](Self::summary) before you call
            /// it again: it undoes the one that is current then.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::SlotConflict`] if another one was stored in the meantime, and as
            /// [`commit`](Self::commit).
            pub $($async)* fn undo_summary(&self) -> Result<bool> {
                let seen = self.memory.read_with(&newest())$($now)*?;
                let append = self.undoing(&self.memory.limits(), &seen)?;
                let Some(mut append) = append else { return Ok(false) };
                self.memory.append_with(&mut append)$($now)*.map(|_| true)
            }
        }
    };
}

over!(dyn ChatMemory, [], []);
#[cfg(feature = "async")]
over!(dyn crate::memory::AsyncChatMemory, [async], [.await]);

impl MemoryPrompt<dyn ChatMemory> {
    /// Summarises what is due, if anything is; returns whether a summary was stored. If another
    /// process was faster, its summary stays.
    ///
    /// `summarizer` may take as long as it likes: nothing waits for it, and messages that come in
    /// the meantime are not covered. Call it from a separate thread if a turn should not wait. If
    /// its text is too long, it is called [once more](Compaction::again) for a shorter one; if that
    /// fails, or the second text is no shorter, the first text is cut.
    ///
    /// ```
    /// use memory_prompt::summary::{Compaction, CompactionPolicy};
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new()).with_summary();
    /// prompt.add_all((0..40).map(|i| Message::user(format!("part {i}"))))?;
    /// prompt.add_all([Message::ai("I see."), Message::user("And now?")])?;
    /// let policy = CompactionPolicy::messages(2, 20)?;
    /// let counted = |due: &Compaction| {
    ///     Ok::<_, std::io::Error>(format!("They said {} things.", due.records.len()))
    /// };
    /// assert!(prompt.compact(&policy, &counted)?);
    /// assert!(!prompt.compact(&policy, &counted)?);
    /// assert_eq!(prompt.summary()?.unwrap().text, "They said 40 things.");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Model`] if the summarizer failed, and those of [`compaction`](Self::compaction)
    /// and [`commit`](Self::commit).
    pub fn compact(
        &self,
        policy: &CompactionPolicy,
        summarizer: &(impl Summarizer + ?Sized),
    ) -> Result<bool> {
        let Some(due) = self.compaction(policy)? else { return Ok(false) };
        let mut text = summarizer.summarize(&due).map_err(failed)?;
        if let Some(again) = due.again(&text) {
            text = shorter(text, summarizer.summarize(&again));
        }
        match self.commit(&due, text) {
            Err(error) if error.kind() == ErrorKind::SlotConflict => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }
}

#[cfg(feature = "async")]
impl MemoryPrompt<dyn crate::memory::AsyncChatMemory> {
    /// Summarises what is due, if anything is; returns whether a summary was stored. If another
    /// process was faster, its summary stays. A future that is dropped changes nothing.
    ///
    /// # Errors
    ///
    /// As `compact` over a blocking memory.
    pub async fn compact<A, E>(
        &self,
        policy: &CompactionPolicy,
        summarize: impl Fn(Compaction) -> A,
    ) -> Result<bool>
    where
        A: Future<Output = Result<String, E>>,
        E: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let Some(due) = self.compaction(policy).await? else { return Ok(false) };
        let mut text = summarize(due.clone()).await.map_err(|error| failed(error.into()))?;
        if let Some(again) = due.again(&text) {
            text = shorter(text, summarize(again).await);
        }
        match self.commit(&due, text).await {
            Err(error) if error.kind() == ErrorKind::SlotConflict => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }
}

/// Returns the shortened text, or the first one if shortening failed.
fn shorter<E>(text: String, again: Result<String, E>) -> String {
    let is_shorter = |again: &String| again.chars().count() < text.chars().count();
    again.ok().filter(|it| !it.trim().is_empty() && is_shorter(it)).unwrap_or(text)
}

fn failed(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(ErrorKind::Model, "summary", "the summarizer failed").with_source(error)
}
