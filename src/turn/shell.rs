//! The public methods of turns over a memory.

use super::decision::{self, Decision, adopt, find_part};
use super::over::{AnyMemory, at_once};
use super::unfinished::{turns, turns_in};
use super::{Done, Ended, Next, Turn, Unfinished, Waiting};
use crate::error::Result;
use crate::memory::{Appended, ChatMemory, Read};
use crate::memory_prompt::MemoryPrompt;
use crate::record::places;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Begins a turn with this question, and stores nothing. The turn takes the temporaries of the
    /// prompt, and its tools unless it has its own.
    pub fn turn(&mut self, question: impl Into<Turn>) -> Turn {
        question.into().temporaries(self.take_temporaries())
    }
}

/// The methods over a memory of one kind. Their code is written once: it completes at once over a
/// blocking memory, and is awaited over an async one.
macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*], $next:ident, |$work:ident| $run:expr) => {
        impl MemoryPrompt<$over> {
            /// Returns the turns of this conversation that were begun and have not ended, in no
            /// particular order. They may still run.
            ///
            /// # Errors
            ///
            /// Those of [`ChatMemory::slots`](crate::ChatMemory::slots); a memory without slots
            /// keeps no turns, and returns none.
            /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if a later version of this
            /// crate has written one of them, or if it can't be read: the error names the slot and
            /// the reason.
            pub $($async)* fn unfinished(&self) -> Result<Vec<Unfinished>> {
                self.listed()$($now)*?.into_iter().collect()
            }

            /// Returns the unfinished turns, and for each that can't be read the reason.
            pub(crate) $($async)* fn listed(&self) -> Result<Vec<Result<Unfinished>>> {
                if !self.memory().limits().has_slots() {
                    return Ok(Vec::new());
                }
                let $work = turns(self.memory());
                Ok(turns_in(&$run?).collect())
            }

            /// Takes a turn over from its owner, to continue or to [end](Turn::interrupt) it. Set
            /// its tools again. It continues in the conversation as it was when the turn began;
            /// what was said since comes after it. Its model does not read that, but a note lists
            /// the calls that other turns have made.
            ///
            /// A turn that still runs looks the same as one whose process died: only the program
            /// that starts the processes knows. If yours does not know, adopt the turns that wait
            /// for approval, and others only if nothing was [appended](crate::store::Info::active)
            /// to their conversation for longer than a turn may take.
            ///
            /// From now on the former owner can store only late results of it. If the reply of the
            /// memory is lost, [list](Self::unfinished) the turns again and adopt what is there.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::SlotConflict`](crate::ErrorKind::SlotConflict) if the turn has
            /// continued or ended in the meantime, or another owner was faster (possibly an earlier
            /// call of yours); and as [`ChatMemory::append_with`](crate::ChatMemory::append_with).
            pub $($async)* fn adopt(&self, unfinished: &Unfinished) -> Result<Turn> {
                let $work = adopt(self.memory(), unfinished);
                $run
            }

            /// Returns the calls of this conversation that are pending approval.
            ///
            /// # Errors
            ///
            /// As [`unfinished`](Self::unfinished).
            pub $($async)* fn waiting(&self) -> Result<Vec<Waiting>> {
                Ok(self.unfinished()$($now)*?.iter().flat_map(Unfinished::waiting).collect())
            }

            /// Returns the stored turn of this [id](Turn::id), on any branch: for a client in any
            /// process that lost the connection while the answer came. `None` if nothing of it is
            /// stored: it failed, or still runs, or so many others were stored since that the
            /// memory no longer [knows](crate::memory::Limits::ids) its id.
            ///
            /// The texts of its ai messages, concatenated, are what a conversation has
            /// [streamed](crate::Conversation::stream) of it; if a request was repeated after a
            /// failure, what it has streamed since that repetition. How it ended is not stored:
            /// `ended` is always [`Ended::Adopted`]. Messages that were evicted since are missing.
            ///
            /// ```
            /// use memory_prompt::conversation::Scripted;
            /// use memory_prompt::{Conversation, DefaultChatMemory, MemoryPrompt, Turn};
            ///
            /// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
            /// let conversation = Conversation::new(prompt, Scripted::new().says("In Norway."));
            /// let turn = Turn::from("Where is Oslo?");
            /// let id = turn.id().to_owned(); // told with the events of its answer
            /// assert!(conversation.prompt().stored_turn(&id)?.is_none());
            ///
            /// conversation.say(turn)?;
            /// let stored = conversation.prompt().stored_turn(&id)?.unwrap();
            /// assert_eq!((stored.text(), stored.positions), ("In Norway.".into(), 0..2));
            /// # Ok::<(), memory_prompt::Error>(())
            /// ```
            ///
            /// # Errors
            ///
            /// Those of the memory.
            pub $($async)* fn stored_turn(&self, id: &str) -> Result<Option<Done>> {
                let $work = stored_turn(self.memory(), id);
                $run
            }

            /// Begins a turn that regenerates the answer to the newest question. Nothing is stored
            /// until it ends, and if it ends without an answer, the former one stays current. The
            /// new answer is stored next to the former one, and is current from then on. What
            /// followed the question, tool groups included, stays on the old branch. Of the calls
            /// there, the model gets those of tools that are not
            /// [repeatable](crate::Tool::repeatable), and how their results begin.
            ///
            /// [`Turn::next`] runs it, or [`Conversation::stream`](crate::Conversation::stream).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if nothing was asked, and as
            /// [`edit`](Self::edit).
            pub $($async)* fn regenerate(&self) -> Result<Turn> {
                let (place, question) = self.view()?.regenerating()$($now)*?;
                let mut turn = Turn::from(question).in_place(place);
                turn.state.is_anew = true;
                Ok(turn)
            }

            /// Begins a turn that replaces the message at this position with another question.
            /// Nothing is stored until it ends, and if it ends without an answer, what was said
            /// before stays current. The model is informed of calls as with
            /// [`regenerate`](Self::regenerate).
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn edit_turn(
                &self,
                position: u64,
                question: impl Into<Turn>,
            ) -> Result<Turn> {
                let place = self.view()?.editing(position)$($now)*?;
                Ok(question.into().in_place(place))
            }

            /// Takes over the turn of this call together with the decision on it: both happen, or
            /// neither.
            pub(crate) $($async)* fn decide(&self, waiting: &Waiting, decision: Decision<'_>) -> Result<Turn> {
                let $work = decision::decide(self.memory(), waiting, decision);
                $run
            }
        }

        impl Turn {
            /// Does the work on the memory, and returns what the owner has to do next.
            ///
            /// If it fails, call it again: nothing is lost, and nothing is stored twice, unless
            /// more appends with ids came in between than the memory
            /// [recognises](crate::memory::Limits::ids). Over a memory that recognises none, the
            /// turn does not retry a final append that may be stored: the error stays
            /// [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged). Dropping the future
            /// is like a call that fails.
            ///
            /// # Errors
            ///
            /// Those of the memory, and those of
            /// [`Composer::compose`](crate::compose::Composer::compose);
            /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) with
            /// [`OnNoCheckpoint::Fail`](super::OnNoCheckpoint::Fail);
            /// [`ErrorKind::Forgotten`](crate::ErrorKind::Forgotten) if the conversation was begun
            /// again; [`ErrorKind::Adopted`](crate::ErrorKind::Adopted) while another owner runs
            /// the turn; [`ErrorKind::Busy`](crate::ErrorKind::Busy) if a request of its
            /// [id](Self::with_id) runs; and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if
            /// another question has that id.
            pub $($async)* fn $next(&mut self, prompt: &MemoryPrompt<$over>) -> Result<Next> {
                let $work = self.run(prompt);
                $run
            }
        }
    };
}

over!(dyn ChatMemory, [], [], next, |work| at_once(work));
#[cfg(feature = "async")]
over!(dyn crate::memory::AsyncChatMemory, [async], [.await], next_async, |work| work.await);

async fn stored_turn(memory: &impl AnyMemory, id: &str) -> Result<Option<Done>> {
    let mut parts = Vec::new();
    for part in 1.. {
        let stored = find_part(memory, (id, part), None).await?;
        if !stored.positions.is_empty() {
            parts.push(stored);
        } else if !stored.repeated {
            break; // if it was given up, it was asked again under the next part
        }
    }
    let newest = parts.into_iter().max_by_key(|it| it.positions.start);
    let Some(Appended { positions, branch, .. }) = newest else { return Ok(None) };
    let read = Read::newest(places(positions.end - positions.start)).on(branch);
    let seen = memory.look_up(&read.before(positions.end)).await?;
    let messages = seen.records.messages().cloned().collect();
    Ok(Some(Done { positions, messages, ..Turn::from("").outcome(Ended::Adopted) }))
}
