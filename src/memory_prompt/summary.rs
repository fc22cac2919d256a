//! Summaries of a prompt: what is due, and how a text is stored that somebody wrote.

use super::{MemoryPrompt, must_keep_slots, not_built};
use crate::compose::Composer;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{Append, ChatMemory, Expected, Limits, Read};
use crate::message::nine;
use crate::pins;
use crate::record::{Snapshot, places};
use crate::summary::{
    Compaction, CompactionPolicy, EARLIER_SLOT, Looked, OPEN, SLOT, Summaries, Summarizer, Summary,
    look, stretch,
};

impl<M: ?Sized> MemoryPrompt<M> {
    /// Sends the summary of the conversation, where there is one, and none of the messages that it
    /// covers. See [`summary`](crate::summary) for how it comes about, and for an example.
    ///
    /// [`commit`](MemoryPrompt::commit) keeps it in the memory, so that every process sees it. A
    /// prompt that is built without this sends what its window holds, and reads no more than it
    /// ever did. So build all prompts of a conversation the same way.
    ///
    /// - **Its place** is behind the system message and behind pins of what it covers; it is a
    ///   message of the user that says what it is.
    /// - **The window** reaches back to what is covered, however few messages it would send by
    ///   itself, up to [four times](crate::Composer::summary_reach) as many, and never sends less
    ///   of what is not covered than it would by itself. Where more is not covered the
    ///   [report](crate::Report::older) says how much; beyond that the start moves in steps. A
    ///   window [`exactly`](crate::Window::exactly) stays what it is.
    /// - **A budget** counts the summary before the history.
    /// - **Pins** are sent, covered or not, and [recall](crate::recall) finds what is covered.
    #[must_use]
    pub fn with_summary(self) -> Self {
        self.with(Composer::with_summary)
    }

    /// Sets the most records that a window sends to reach back to what the summary covers: see
    /// [`Composer::summary_reach`].
    #[must_use]
    pub fn summary_reach(self, records: usize) -> Self {
        self.with(|composer| composer.summary_reach(records))
    }

    fn must_summarise(&self, limits: &Limits) -> Result<()> {
        if !self.composer.sends_summary() {
            return Err(not_built("summary", "sends no summary", "with_summary"));
        }
        must_keep_slots("summary", limits)
    }

    /// Returns the append that stores a summary.
    fn commitment(&self, limits: &Limits, due: &Compaction, text: String) -> Result<Append> {
        self.must_summarise(limits)?;
        let summary = due.written(text)?;
        let before = Summaries::of(&due.seen)?;
        // Another text is another summary, not this one once more.
        let id = format!("summary:{}:{}", due.id, nine(&summary.text, 0));
        let expected = due.version.map_or(Expected::Absent, Expected::Is);
        let append = setting(Summaries::committed(before, summary, limits.slot)?, expected);
        if limits.recognises_ids() {
            return Ok(append.with_id(id).since(&due.seen));
        }
        Ok(append)
    }

    /// Returns the append that takes the newest summary back; `None` if there is none.
    fn undoing(&self, limits: &Limits, seen: &Snapshot) -> Result<Option<Append>> {
        self.must_summarise(limits)?;
        let version = seen.slot(SLOT).map(|slot| Expected::Is(slot.version()));
        let (Some(summaries), Some(version)) = (Summaries::of(seen)?, version) else {
            return Ok(None);
        };
        Ok(Some(setting(summaries.undone(limits.slot)?, version)))
    }
}

/// Returns the append that sets both slots. Who has the slot of the newest summary has the other
/// too.
fn setting([current, earlier]: [Vec<u8>; 2], expected: Expected) -> Append {
    let append = Append::default().set_slot(SLOT, current, expected);
    append.set_slot(EARLIER_SLOT, earlier, Expected::Any)
}

/// The read that shows which summary there is.
fn newest() -> Read {
    Read::newest(1).slots([SLOT, EARLIER_SLOT, pins::SLOT])
}

macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*]) => {
        impl MemoryPrompt<$over> {
            /// Returns what is due to be summarised by this policy; `None` if nothing is.
            ///
            /// It ends where a turn begins, if one does there, never between a call and its result,
            /// never past the newest question or a call that still waits (256 messages long). What
            /// is due is at most four steps, or what can't be parted though it is longer; of a
            /// longer history the rest is due once that is stored. Nothing is stored by this, and
            /// nobody is kept from anything: see [`commit`](Self::commit).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`] where the prompt sends no summaries,
            /// [`ErrorKind::Unsupported`] where the memory has no slots, and whatever else
            /// [`ChatMemory::read_with`] returns.
            pub $($async)* fn compaction(
                &self,
                policy: &CompactionPolicy,
            ) -> Result<Option<Compaction>> {
                self.must_summarise(&self.memory.limits())?;
                // It tells whether it is still the same conversation, and what was asked last.
                let seen = self.memory.read_with(&Read { n: OPEN, ..newest() })$($now)*?;
                let mut part = stretch(policy, &seen, None)?;
                while !part.is_empty() {
                    let read = Read::newest(places(part.end - part.start)).before(part.end);
                    let read = self.memory.read_with(&read)$($now)*?;
                    match look(policy, seen.clone(), &read, &part)? {
                        Looked::Nothing => break,
                        Looked::Due(due) => return Ok(Some(*due)),
                        Looked::Further(n) => part = stretch(policy, &seen, Some(n))?,
                    }
                }
                Ok(None)
            }

            /// Stores a summary of what was due, if it is still due: no other was stored or taken
            /// back meanwhile. To store the same one again after a lost answer changes nothing. A
            /// text that is [too long](CompactionPolicy::text_at_most) is cut at the end of a line,
            /// of which the summary and the [report](crate::Report::summary_cut) tell.
            ///
            /// The summaries before it are kept beside it, up to 16 of them as far as a slot holds,
            /// whatever was evicted since: for [`undo_summary`](Self::undo_summary).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::SlotConflict`] if somebody else was faster, [`ErrorKind::Forgotten`]
            /// where the conversation was cleared, deleted or begun again, or all was evicted that
            /// it held when this was due, [`ErrorKind::Invalid`] for a text that is empty, and
            /// whatever else [`ChatMemory::append_with`] returns. Nothing was changed then.
            pub $($async)* fn commit(
                &self,
                due: &Compaction,
                text: impl Into<String>,
            ) -> Result<()> {
                let mut append = self.commitment(&self.memory.limits(), due, text.into())?;
                self.memory.append_with(&mut append)$($now)*.map(drop)
            }

            /// Returns the summary that holds.
            ///
            /// # Errors
            ///
            /// As [`ChatMemory::read_with`], and [`ErrorKind::Codec`] if somebody else has written
            /// the slot `prompt:summary`.
            pub $($async)* fn summary(&self) -> Result<Option<Summary>> {
                if !self.memory.limits().has_slots() {
                    return Ok(None);
                }
                let seen = self.memory.read_with(&newest())$($now)*?;
                Ok(Summaries::of(&seen)?.map(|it| it.current))
            }

            /// Takes the newest summary back: the one before it holds again, or none. Returns false
            /// if there is none.
            ///
            /// Whoever was asked for a summary before this finds that something has changed. After
            /// an answer that got lost, look at the [`summary`](Self::summary) before you call it
            /// again: it takes back what holds by then.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::SlotConflict`] where another one was stored meanwhile, and as
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
over!(dyn AsyncChatMemory, [async], [.await]);

impl MemoryPrompt<dyn ChatMemory> {
    /// Summarises what is due, if anything is; returns whether a summary was stored. Where somebody
    /// else was faster, theirs holds.
    ///
    /// `summarizer` may take as long as it likes: nothing waits for it, and messages that come
    /// meanwhile are not covered. Call it from a thread where a turn should not wait. Where its
    /// text is too long it is asked [once more](Compaction::again) for a shorter one; should that
    /// fail, the text that is there is cut.
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
    /// [`ErrorKind::Model`] where the summarizer failed, and those of
    /// [`compaction`](Self::compaction) and [`commit`](Self::commit).
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
impl MemoryPrompt<dyn AsyncChatMemory> {
    /// Summarises what is due, if anything is; returns whether a summary was stored. Where somebody
    /// else was faster, theirs holds. A future that is dropped changes nothing.
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

/// Returns the text that was written once more, or where that came to nothing the one before.
fn shorter<E>(text: String, again: Result<String, E>) -> String {
    again.ok().filter(|again| !again.trim().is_empty()).unwrap_or(text)
}

/// Returns the error of a summarizer that failed.
fn failed(error: Box<dyn std::error::Error + Send + Sync>) -> Error {
    Error::new(ErrorKind::Model, "summary", "the summarizer failed").with_source(error)
}
