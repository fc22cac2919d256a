//! Recovery: what an owner reads to find out whether the turn is still its own.
//!
//! An append whose answer gets lost, a slot that was written by somebody else, an id that was used
//! before: each leaves the owner in doubt, and it looks before it does anything else.
//!
//! | it knows that | it looks at | and finds |
//! |---|---|---|
//! | a checkpoint was to be written | the slot | a checkpoint, or none |
//! | the first checkpoint is not there, or is gone | what was stored since the turn began | that somebody may have run its calls, or that there never was one |
//! | the slot was written to or removed | the slot | a checkpoint that it can go on from, one of others, or that the turn was ended |
//! | the turn was stored, perhaps by itself | those records | that it is done, or that others have ended it |
//! | others have ended the turn | what was stored since it began | the results that are lacking there: they are appended |

use std::ops::Range;

use super::call_search::{CallSearch, WantedCall};
use super::document::{Document, own_id};
use super::machine::forgotten_error;
use super::owner::outcome_unknown;
use super::unfinished::Unfinished;
use super::{Ended, Step, Turn, adopted_error};
use crate::error::Result;
use crate::memory::{Append, Appended, Expected, Read, check_name};
use crate::message::{Message, ToolCall};
use crate::record::{Snapshot, places};

/// The hold that an owner has on its turn, as far as it knows: the rows of the table above.
pub(super) enum Hold {
    Own,
    /// A checkpoint was to be written.
    Unsure,
    /// The first checkpoint is not there.
    Unwritten(CallSearch),
    /// The first checkpoint was there, of a turn that is to be forgotten, and is gone.
    Gone(CallSearch),
    /// The slot was written to or removed.
    Lost,
    /// The turn was stored, perhaps by this owner.
    Stored(Range<u64>),
    /// Others have ended the turn. The search is made of so many of its messages.
    Ended(CallSearch, usize),
}

impl Turn {
    /// Returns true where the owner has to look before it goes on.
    pub(super) fn is_in_doubt(&self) -> bool {
        !matches!(self.hold, Hold::Own)
    }

    pub(super) fn is_ended_by_others(&self) -> bool {
        matches!(self.hold, Hold::Ended(..))
    }

    /// Looks once more what is stored of a turn that others have ended.
    pub(super) fn look_anew(&mut self) {
        self.hold = self.ended();
    }

    /// Says what is to be read, or what is left to be done of a turn that others have ended.
    pub(super) fn look(&mut self) -> Step {
        // A result may have come since.
        if matches!(self.hold, Hold::Ended(_, of) if of != self.document.messages.len()) {
            self.hold = self.ended();
        }
        let read = match &self.hold {
            Hold::Own | Hold::Unsure | Hold::Lost => {
                let read = Read::newest(0);
                let slot = self.document.slot.as_str();
                Some(if self.limits.has_slots() { read.slots([slot]) } else { read })
            }
            Hold::Unwritten(search) | Hold::Gone(search) | Hold::Ended(search, _) => search.next(),
            Hold::Stored(at) => Some(Read::newest(places(at.end - at.start)).before(at.end)),
        };
        read.map_or_else(|| self.append_what_is_lacking(), Step::Read)
    }

    /// Takes what was read.
    pub(super) fn looked(&mut self, snapshot: &Snapshot) -> Result<()> {
        if self.document.seen.is_some_and(|seen| !seen.goes_on_in(snapshot)) {
            return Err(forgotten_error());
        }
        match &mut self.hold {
            Hold::Own => Ok(()),
            Hold::Unsure | Hold::Lost => self.looked_at_slot(snapshot),
            Hold::Unwritten(search) | Hold::Gone(search) => {
                search.take(snapshot);
                self.settle_first_checkpoint()
            }
            Hold::Stored(at) => {
                let at = at.clone();
                self.compare(snapshot, &at);
                Ok(())
            }
            Hold::Ended(search, _) => {
                search.take(snapshot);
                self.must_be_stored()
            }
        }
    }

    fn looked_at_slot(&mut self, snapshot: &Snapshot) -> Result<()> {
        let checkpoint = snapshot.slot(&self.document.slot).map(|slot| Unfinished::of(slot).ok());
        if let Some(checkpoint) = checkpoint {
            // Of a turn that is to be forgotten only its own checkpoint is removed.
            let may_go_on = |it: &Unfinished| !self.document.forgets && self.goes_on_from(it);
            let own =
                checkpoint.filter(|checkpoint| self.wrote_it(checkpoint) || may_go_on(checkpoint));
            self.take_up(&own.ok_or_else(adopted_error)?);
        } else if self.document.kept.is_none() && matches!(self.hold, Hold::Unsure) {
            self.hold = Hold::Unwritten(self.newest_call(snapshot));
            return self.settle_first_checkpoint();
        } else if self.document.kept.is_none() && self.document.forgets {
            self.hold = Hold::Gone(self.newest_call(snapshot));
            return self.settle_first_checkpoint();
        } else {
            // Its slot was there, so somebody has ended it; or it was this owner.
            let tried = self.stored.as_ref().filter(|_| self.tries > 1);
            self.hold = match tried {
                Some(stored) => Hold::Stored(stored.positions.clone()),
                None => self.ended(),
            };
        }
        Ok(())
    }

    /// Returns a search for the newest call of the turn. Where nothing was stored since it began
    /// there is nothing to be found.
    fn newest_call(&self, snapshot: &Snapshot) -> CallSearch {
        let newest = self.document.messages.iter().rev().flat_map(Message::tool_calls).next();
        let wanted = newest.filter(|_| snapshot.end > self.began_at()).map(WantedCall::call);
        CallSearch::new(wanted.into_iter().collect(), self.began_at())
    }

    /// The turn is this owner's, and nothing is under way.
    fn go_on(&mut self) {
        (self.document.is_saving, self.hold) = (false, Hold::Own);
    }

    /// Returns true where this owner wrote the checkpoint.
    fn wrote_it(&self, checkpoint: &Unfinished) -> bool {
        checkpoint.document.owner == self.document.owner
    }

    /// Returns false where another owner of the same turn has gone another way with it.
    fn goes_on_from(&self, checkpoint: &Unfinished) -> bool {
        checkpoint.document.id == self.document.id
            && self.document.messages.starts_with(&checkpoint.document.messages)
    }

    /// Goes on with the checkpoint that the slot holds.
    fn take_up(&mut self, checkpoint: &Unfinished) {
        if !self.wrote_it(checkpoint) {
            self.document.note_handed_out();
            self.document.note_handed_out_may_have_run();
            self.doubt_what_was_handed_out(&checkpoint.document);
        }
        if self.stored.is_some() && self.document.kept == Some(checkpoint.version) {
            // Another turn of this id was stored, when this one's was no longer known.
            self.document.id = own_id();
            (self.stored, self.tries) = (None, 0);
        }
        self.document.kept = Some(checkpoint.version);
        self.document.kept_messages = checkpoint.document.messages.len();
        self.document.is_stale = checkpoint.document.unapproved != self.document.unapproved;
        self.go_on();
    }

    /// Notes that the owner who wrote this may have run what it was handed, though here it waits
    /// for approval or was closed as not run.
    fn doubt_what_was_handed_out(&mut self, written: &Document) {
        let mut handed_out = written.waiting();
        handed_out.retain(|(place, _)| written.is_handed_out(*place));
        self.document.note_may_have_run(handed_out.iter().map(|(place, _)| *place));
        let closed: Vec<_> =
            self.document.not_run.range(written.messages.len()..).copied().collect();
        for at in closed {
            let Some(message) = self.document.messages.get_mut(at) else { continue };
            let answers = |result| handed_out.iter().position(|(_, it)| it.is_answered_by(result));
            if let Some(place) = message.as_tool().and_then(answers) {
                let (place, call) = handed_out.remove(place);
                *message = outcome_unknown(call, &written.call_tag(place), "");
                self.document.not_run.remove(&at);
            }
        }
    }

    /// The first checkpoint is not there: it was never written, or whoever adopted the turn has
    /// ended it. Where its newest call is stored that may be so, and its calls may have run.
    fn settle_first_checkpoint(&mut self) -> Result<()> {
        let (Hold::Unwritten(search) | Hold::Gone(search)) = &self.hold else { return Ok(()) };
        if search.next().is_some() {
            return Ok(());
        }
        let (is_found, has_gaps) = (search.has_found(), search.has_gaps());
        if self.document.forgets {
            let was_there = matches!(self.hold, Hold::Gone(_));
            if is_found {
                self.done = Some(self.stored_outcome(Ended::Adopted));
            } else if has_gaps || was_there {
                // Nobody knows what others have made of it. The next step looks again.
                self.hold = if was_there { Hold::Lost } else { Hold::Unsure };
                return Err(forgotten_error());
            }
            return Ok(()); // else the next step makes sure of it
        }
        if is_found || has_gaps {
            self.document.note_handed_out();
            let waiting: Vec<_> = self.waiting().map(|(place, _)| place).collect();
            self.document.note_may_have_run(waiting);
        }
        self.go_on();
        Ok(())
    }

    /// The append that takes the id of the first checkpoint, of a turn that is to be forgotten: one
    /// that is still on its way comes to nothing then, and one that was there is known by it.
    fn without_first_checkpoint(&self) -> Append {
        let slot = self.document.slot.as_str();
        let append = Append::default().with_id(self.append_id());
        self.on_what_was_seen(append.remove_slot(slot, Expected::Absent))
    }

    /// Takes the outcome of that append. Returns false where it was another one.
    pub(super) fn was_unwritten(&mut self, appended: &Appended) -> bool {
        let is_it = matches!(self.hold, Hold::Unwritten(_));
        if is_it && appended.repeated {
            self.slot_conflict();
        } else if is_it {
            self.go_on();
        }
        is_it
    }

    /// Takes it that the whole turn was stored before, under its id.
    pub(super) fn was_stored(&mut self, appended: &Appended) {
        self.stored = Some(appended.clone());
        if self.document.kept.is_some() {
            self.slot_conflict(); // the slot tells whether it was this turn
        } else if self.tries > 1 {
            self.hold = Hold::Stored(appended.positions.clone());
        } else {
            self.hold = self.ended();
        }
    }

    /// Compares the turn with what is stored under its id.
    fn compare(&mut self, snapshot: &Snapshot, at: &Range<u64>) {
        let records = snapshot.records.iter().filter(|it| at.contains(&it.seq()));
        let stored: Vec<_> = records.map(|it| it.message()).collect();
        // What is evicted can't be compared, and has no calls that could lack a result.
        let is_own = snapshot.start > at.start || stored.into_iter().eq(&self.document.messages);
        self.hold = self.ended();
        if is_own {
            let ended = self.document.ended.unwrap_or(Ended::Interrupted);
            self.done = Some(self.stored_outcome(ended));
        }
    }

    /// Others have ended the turn: what this owner found out since may be lacking.
    fn ended(&self) -> Hold {
        let mut wanted: Vec<_> = self.written_call().map(WantedCall::call).into_iter().collect();
        let unwritten = self.document.unwritten_results().into_iter();
        wanted.extend(unwritten.map(|(tag, call, result)| {
            WantedCall::result(call, tag, result, self.document.is_repeatable(call))
        }));
        Hold::Ended(CallSearch::new(wanted, self.began_at()), self.document.messages.len())
    }

    /// Returns the newest call that its slot showed: whoever has ended the turn has stored it.
    fn written_call(&self) -> Option<&ToolCall> {
        let Document { messages, kept, kept_messages, .. } = &self.document;
        let written = messages.get(..*kept_messages).filter(|_| kept.is_some());
        written.unwrap_or_default().iter().rev().flat_map(Message::tool_calls).next()
    }

    /// Refuses to go on where others have ended the turn, and nothing of it is there any more.
    fn must_be_stored(&mut self) -> Result<()> {
        let Hold::Ended(search, _) = &self.hold else { return Ok(()) };
        let is_written = self.stored.is_none() && self.written_call().is_some();
        if search.next().is_none() && is_written && !search.has_found() {
            self.hold = self.ended(); // the next step looks again
            return Err(forgotten_error());
        }
        Ok(())
    }

    /// Appends what is lacking of a turn that others have ended.
    fn append_what_is_lacking(&self) -> Step {
        let Hold::Ended(search, _) = &self.hold else {
            return Step::Append(self.without_first_checkpoint());
        };
        let Document { slot, owner, messages, .. } = &self.document;
        let (lacking, tag) = search.lacking(messages);
        if lacking.is_empty() {
            return Step::Done(self.stored_outcome(Ended::Adopted));
        }
        // Else of this owner, and of what it knows now: another one may know something else.
        let own = || format!("{slot}:{owner}:{}", messages.len());
        let id = tag.and_then(late_id).unwrap_or_else(own);
        let append = Append::new(lacking).with_id(id);
        let knows = self.limits.recognises_ids();
        Step::Append(if knows { search.on_what_was_seen(append) } else { append })
    }

    /// Takes it that what was lacking is appended. Returns true where something else still is.
    pub(super) fn appended_what_is_lacking(&mut self) -> bool {
        let Hold::Ended(search, of) = &mut self.hold else { return false };
        let messages = &self.document.messages;
        if *of == messages.len() {
            let (appended, _) = search.lacking(messages);
            search.look_at(appended.iter());
        }
        *of != messages.len() || !search.lacking(messages).0.is_empty()
    }

    /// The outcome of a turn that is stored, as far as anybody knows, but not by an append of this
    /// owner.
    fn stored_outcome(&self, ended: Ended) -> super::Done {
        let mut done = self.outcome(ended);
        if let Some(stored) = &self.stored {
            (done.positions, done.recognised) = (stored.positions.clone(), stored.recognised);
        }
        done
    }
}

/// Returns the id under which whoever has it appends a late result of the repeatable call with this
/// tag, unless it is longer than ids may be.
pub(super) fn late_id(tag: &str) -> Option<String> {
    let id = format!("late:{tag}");
    check_name("append", "the id of an append", &id).is_ok().then_some(id)
}
