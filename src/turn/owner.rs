//! The owner's side of a turn: answers, results, approvals, and that it is to end.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::document::Document;
use super::reply::Reply;
use super::{Call, Ended, OnInterrupt, ToolError, Turn};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Limits;
use crate::message::{
    AiMessage, Content, Message, ToolCall, ToolMessage, UserMessage, is_same_tool,
};
use crate::record::Records;
use crate::wire::Stop;

impl Turn {
    /// Takes the answer of the model, and counts what it cost.
    ///
    /// Calls that share an id are told apart: from the second one on, each has an id of its own in
    /// [`messages`](Self::messages) and in what is handed out. So has a call that shares one with
    /// an earlier call of the turn, or with one whose result may come late, as far as the turn has
    /// read back.
    ///
    /// One that [rests](Stop::Paused) is sent back as it is, which counts as a round, and what
    /// comes then goes on with it: both are one message.
    ///
    /// One that [broke off](Stop::Broken) ends the turn: it is stored with the attribute
    /// `turn:broken`, and what it called is not run. Where one was [cut](Stop::Length) or
    /// [withheld](Stop::Filtered), its last call may be half and is not run either; the model is
    /// told so.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) where it is not the answer of a model; where the
    /// model was not to be asked: calls wait for their results, or the turn is over; and where it
    /// is too large for the memory. [`Model`](crate::ErrorKind::Model) where it broke off before
    /// anything was said. Nothing of it is taken then.
    pub fn answer(&mut self, answer: impl Into<Reply>) -> Result<()> {
        let Reply { message, usage, stop } = answer.into();
        let Message::Ai(mut answer) = message else {
            return Err(Error::invalid("answer", "it is not the message of a model"));
        };
        let newest = self.document.messages.last().and_then(Message::as_ai);
        let paused = newest.filter(|_| self.document.is_paused).cloned();
        if self.is_over() || newest.is_some() && paused.is_none() {
            return Err(Error::invalid("answer", "the turn did not ask"));
        }
        if self.waiting().next().is_some() {
            return Err(Error::invalid("answer", "calls wait for their results"));
        }
        let is_broken = stop == Some(Stop::Broken);
        if is_broken && answer.text().is_empty() && !answer.has_tool_calls() {
            let text = "the answer broke off before anything was said";
            return Err(Error::new(ErrorKind::Model, "answer", text));
        }
        if is_broken {
            answer = answer.with_attribute(BROKEN, true);
        }
        let (mut answer, shared_ids) = tell_apart(answer, self.awaited_ids());
        let goes_on = paused.is_some();
        answer = match paused {
            Some(paused) => paused.followed_by(answer),
            None => answer,
        };
        let before = self.document.messages.len() - usize::from(goes_on);
        if let Some(text) = self.excess_with(&answer, before) {
            return Err(Error::invalid("answer", text));
        }
        // Under a name that a provider was sent in place of the tool's own.
        let meant = |call: &ToolCall| {
            let mut tools = self.tools.iter().filter(|_| self.tool(call).is_none());
            let tool = tools.find(|tool| is_same_tool(&call.name, tool.name()))?;
            Some(ToolCall { name: tool.name().to_owned(), ..call.clone() })
        };
        answer = answer.with_calls(meant).unwrap_or(answer);
        let asked = answer.tool_calls().enumerate();
        let asked = asked.filter(|(_, call)| self.document.needs_approval(&call.name));
        self.document.unapproved = asked.map(|(i, _)| i).collect();
        self.document.may_have_run = BTreeSet::new();
        self.document.approved = BTreeSet::new();
        self.document.shared_ids = shared_ids;
        self.document.is_called = false;
        self.document.usage += usage;
        self.stop = stop;
        let calls = answer.has_tool_calls();
        if goes_on {
            self.document.messages.truncate(before);
            self.staged = Records::default(); // it was staged as far as it went
        }
        self.document.messages.push(Message::Ai(answer));
        self.document.is_paused = !calls && stop == Some(Stop::Paused);
        if is_broken {
            self.close("Not run: the answer broke off.");
            self.document.ended = Some(Ended::Interrupted);
        } else if !calls && !self.document.is_paused {
            if self.document.steers.is_empty() {
                self.document.ended = Some(Ended::Answered);
            }
        } else if self.document.rounds >= self.document.most_rounds {
            let most = self.document.most_rounds;
            self.close(&format!("Not run: a turn has at most {most} rounds of calls."));
            self.document.ended = Some(Ended::Rounds);
        } else {
            self.document.rounds += 1;
            if matches!(self.stop, Some(Stop::Length | Stop::Filtered)) {
                self.close_cut();
            }
            self.refuse_unknown();
        }
        Ok(())
    }

    /// Says that a call may run which [needs approval](super::Tool::needing_approval): the next
    /// step writes that down and hands it out once more. One that may not run gets an
    /// [error](Self::error).
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) where no call of this id waits for approval.
    pub fn approve(&mut self, call_id: &str) -> Result<()> {
        let own: Vec<_> = self.waiting().filter(|(_, call)| call.id == call_id).collect();
        let is_given =
            |(at, call): &(usize, &ToolCall)| self.document.given_id(*at, call) == call_id;
        // An id that is a call's own means no other one, also where it was approved before.
        let is_own = self.document.is_own_id(call_id);
        let given: Vec<_> = self.waiting().filter(|call| !is_own && is_given(call)).collect();
        let place = match (&own[..], &given[..]) {
            ([(place, _)], _) | ([], [(place, _)])
                if self.is_unapproved(*place) && !self.is_over() =>
            {
                *place
            }
            // In a turn of an earlier version two may share it, and nobody knows which is meant.
            _ => {
                let text = format!("no call {call_id:?} waits for approval, or more than one");
                return Err(Error::invalid("approve", text));
            }
        };
        self.document.unapproved.remove(&place);
        self.document.approved.insert(place);
        self.document.is_stale = true;
        Ok(())
    }

    /// Notes that this owner runs a call now. Until it says what came of it, the call may have run.
    pub(crate) fn begin(&mut self, call: &Call) {
        if let Ok((place, _)) = self.waiting_call(call.id())
            && !call.is_repeatable()
        {
            self.document.note_may_have_run([place]);
        }
    }

    /// Takes what came of a call.
    ///
    /// It is named by the id that was [handed out](super::Call::id). Where the model gave one id to
    /// more calls than one, that id does as well, for each of them that waits, in order: of tools
    /// that are repeatable. What came of another call may come twice, and would be taken for the
    /// result of the next one.
    ///
    /// A result that is too large for the memory becomes an error for the model that says so.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) where no call of this id waits, and where it has a
    /// result though nobody has [approved](Self::approve) of it.
    pub fn result(
        &mut self,
        call_id: &str,
        outcome: Result<impl Into<Content>, ToolError>,
    ) -> Result<()> {
        let (place, call) = self.waiting_call(call_id)?;
        if outcome.is_ok() && self.is_unapproved(place) {
            let text = format!("nobody has approved of the call {call_id:?}");
            return Err(Error::invalid("result", text));
        }
        let result = match outcome {
            Ok(content) => ToolMessage::new(&call.id, &call.name, content),
            Err(error) => {
                ToolMessage::new(&call.id, &call.name, error.into_content()).with_error(true)
            }
        };
        self.document.approved.remove(&place); // it was run without being handed out once more
        if self.is_unapproved(place) {
            self.document.not_run.insert(self.document.messages.len());
        }
        self.stage_result(place, result);
        Ok(())
    }

    /// Takes the failure of a call: [`result`](Self::result) with a [`ToolError`] of this text.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) where no call of this id waits.
    pub fn error(&mut self, call_id: &str, text: impl Into<String>) -> Result<()> {
        self.result(call_id, Err::<&str, _>(ToolError::new(text)))
    }

    /// Answers a call with this error because it was not run, and will not be.
    pub(crate) fn refuse(&mut self, call_id: &str, text: &str) -> Result<()> {
        let (_, call) = self.waiting_call(call_id)?;
        self.stage_not_run(&call, text);
        Ok(())
    }

    /// Says that nobody knows what came of a call, for this reason: it may have been done, and may
    /// still be under way. A [late result](ToolMessage::stand_in) takes the place of that.
    ///
    /// It is the answer to a call that [may have run](super::Call::may_have_run).
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) where no call of this id waits.
    pub fn unknown(&mut self, call_id: &str, why: &str) -> Result<()> {
        let (place, call) = self.waiting_call(call_id)?;
        self.document.approved.remove(&place);
        let tag = self.document.call_tag(place);
        let told = outcome_unknown(&call, &tag, why);
        let is_too_large = self.excess_of_result(&told).is_some();
        let told = if is_too_large { outcome_unknown(&call, &tag, "") } else { told };
        self.document.messages.push(told);
        Ok(())
    }

    /// Adds a message of the user to the running turn. The model is told at the next place where
    /// that is possible: with the results of the calls that run, or instead of the end.
    ///
    /// # Errors
    ///
    /// [`Invalid`](crate::ErrorKind::Invalid) where the turn is over: ask again; and where it is
    /// too large for the memory.
    pub fn steer(&mut self, content: impl Into<Content>) -> Result<()> {
        if self.is_over() {
            return Err(Error::invalid("steer", "the turn is over"));
        }
        let message = Message::User(UserMessage::new(content).steered());
        if let Some(text) = self.excess_of_result(&message) {
            return Err(Error::invalid("steer", text));
        }
        self.document.steers.push(message);
        Ok(())
    }

    /// Ends the turn: the next step stores what is kept of it.
    pub fn interrupt(&mut self, keep: OnInterrupt) {
        if self.is_over() {
            return;
        }
        let keeps = keep == OnInterrupt::Keep || self.has_happened();
        self.document.ended = Some(Ended::Interrupted);
        if !keeps {
            self.document.forgets = true;
            return;
        }
        for (place, call) in self.waiting_calls() {
            if self.document.is_handed_out(place) {
                let tag = self.document.call_tag(place);
                self.document.messages.push(outcome_unknown(&call, &tag, ""));
            } else {
                self.stage_not_run(&call, NOT_RUN);
            }
        }
        self.document.messages.append(&mut self.document.steers);
    }

    /// Returns whether a tool that is not repeatable may have run.
    pub(super) fn has_happened(&self) -> bool {
        // Under an id that was given to it, no other turn is begun where a checkpoint may be there.
        let may_be_kept = self.document.is_saving || self.document.kept.is_some();
        let is_known = may_be_kept && self.append_id() != self.document.slot;
        is_known || self.document.has_happened()
    }

    /// The call of this id that waits for its result.
    fn waiting_call(&self, call_id: &str) -> Result<(usize, ToolCall)> {
        let call = self.document.called(call_id).filter(|_| !self.is_over());
        call.map(|(i, call)| (i, call.clone())).ok_or_else(|| {
            let text = format!("no call that was handed out as {call_id:?} waits for its result");
            Error::invalid("result", text)
        })
    }

    fn waiting_calls(&self) -> Vec<(usize, ToolCall)> {
        self.waiting().map(|(i, call)| (i, call.clone())).collect()
    }

    /// The ids of earlier calls whose results may come late, and of all calls of the turn: whoever
    /// looks what is stored of it tells them apart by what they are.
    fn awaited_ids(&self) -> HashSet<String> {
        let stored = self.base.iter().flat_map(|base| base.records.iter());
        let mut ids = HashSet::new();
        let mut look_at = |message: &Message| {
            let stand_in = message.as_tool().filter(|it| it.is_stand_in());
            ids.extend(stand_in.map(|it| it.call_id().to_owned()));
        };
        stored.for_each(|record| look_at(record.message()));
        self.document.messages.iter().for_each(look_at);
        let own = self.document.messages.iter().flat_map(Message::tool_calls);
        ids.extend(own.map(|call| call.id.clone()));
        ids
    }

    /// Answers the calls of tools that there are not.
    fn refuse_unknown(&mut self) {
        if self.tools.is_empty() {
            return;
        }
        for (place, call) in self.waiting_calls() {
            if self.tool(&call).is_none() {
                self.document.not_run.insert(self.document.messages.len());
                let result = ToolMessage::new(&call.id, &call.name, no_tool(&call.name));
                self.stage_result(place, result.with_error(true));
            }
        }
    }

    /// Answers all calls that wait with this error.
    fn close(&mut self, text: &str) {
        for (_, call) in self.waiting_calls() {
            self.stage_not_run(&call, text);
        }
    }

    /// Closes a call that was not run.
    fn stage_not_run(&mut self, call: &ToolCall, text: &str) {
        self.document.not_run.insert(self.document.messages.len());
        let result = ToolMessage::new(&call.id, &call.name, text).with_error(true);
        self.document.messages.push(Message::Tool(result));
    }

    /// Answers the last call, whose arguments may be half: and empty ones look like none at all.
    fn close_cut(&mut self) {
        let mut calls = self.waiting_calls();
        let Some(last) = calls.pop() else { return };
        // What shares its id may be half of it.
        let given =
            |(place, call): &(usize, ToolCall)| self.document.given_id(*place, call).to_owned();
        let id = given(&last);
        calls.retain(|it| given(it) == id);
        for (_, call) in calls.into_iter().chain([last]) {
            self.stage_not_run(&call, "Not run: the answer was cut.");
        }
    }

    /// Stages a result, or says in its place that it is too large: also where it comes late.
    fn stage_result(&mut self, place: usize, mut result: ToolMessage) {
        if !self.has_no_limits() {
            let late = result.clone().with_call_tag(&self.document.call_tag(place));
            let both = [result.clone(), late].map(Message::Tool);
            if let Some(text) = both.iter().find_map(|it| self.excess_of_result(it)) {
                let (id, name) = (result.call_id(), result.tool_name());
                result = ToolMessage::new(id, name, too_large(&text)).with_error(true);
            }
        }
        self.document.messages.push(Message::Tool(result));
    }

    /// Says why the memory can't take this result or message of the user, the closings of the other
    /// calls that wait, and an answer.
    fn excess_of_result(&self, message: &Message) -> Option<String> {
        if self.has_no_limits() {
            return None;
        }
        let answered = message.as_tool().map(ToolMessage::call_id);
        let mut others: Vec<_> = self.waiting().collect();
        if let Some(i) = others.iter().position(|(_, call)| Some(call.id.as_str()) == answered) {
            others.remove(i);
        }
        let closing = |(place, call)| outcome_unknown(call, &self.document.call_tag(place), "");
        let closings: Vec<_> = others.into_iter().map(closing).collect();
        let Document { messages, steers, .. } = &self.document;
        let all = messages.iter().chain(steers).chain(&closings).chain([message]);
        excess(&self.limits, all, self.room_for_answer())
    }

    /// Says why the memory can't take this answer, behind so many messages, with the closings of
    /// its calls.
    fn excess_with(&self, answer: &AiMessage, behind: usize) -> Option<String> {
        if self.has_no_limits() {
            return None;
        }
        let Document { messages, steers, .. } = &self.document;
        let messages = messages.get(..behind).unwrap_or_default();
        let tag = |place| self.document.call_tag_at(behind, place);
        let calls = answer.tool_calls().enumerate();
        let closings: Vec<_> =
            calls.map(|(place, call)| outcome_unknown(call, &tag(place), "")).collect();
        let answer = Message::Ai(answer.clone());
        let all = messages.iter().chain(steers).chain(&closings).chain([&answer]);
        excess(&self.limits, all, 0)
    }

    /// Returns the bytes of a batch that are kept free for the answer.
    pub(super) fn room_for_answer(&self) -> usize {
        if self.limits.batch == usize::MAX { 0 } else { (self.limits.batch / 8).min(MOST_ROOM) }
    }

    fn has_no_limits(&self) -> bool {
        self.limits.message == usize::MAX && self.limits.batch == usize::MAX
    }
}

/// Says why a memory of these limits can't take these messages at once, with so much room beside
/// them; `None` where it can.
pub(crate) fn excess<'a>(
    limits: &Limits,
    messages: impl IntoIterator<Item = &'a Message>,
    room: usize,
) -> Option<String> {
    let Limits { message: most, batch, .. } = *limits;
    if most == usize::MAX && batch == usize::MAX {
        return None;
    }
    let size = |message| Codec::Json.encode(message).map_or(0, |bytes| bytes.len());
    let (mut largest, mut all) = (0, 0_usize);
    for bytes in messages.into_iter().map(size) {
        largest = bytes.max(largest);
        all = all.saturating_add(bytes);
    }
    if largest > most {
        return Some(format!("a message has {largest} bytes, and the memory takes {most}"));
    }
    let beside = if room == 0 { String::new() } else { format!(", {room} of them for an answer") };
    (all.saturating_add(room) > batch)
        .then(|| format!("the turn has {all} bytes, and the memory takes {batch}{beside}"))
}

/// The text for the model in the place of a result that is too large, for this reason.
pub(crate) fn too_large(why: &str) -> String {
    format!("The result is too large: {why}.")
}

/// Returns the answer with an id for each of its calls that no other one has and that is not taken,
/// and the ids that those had which were changed, by their places. By its id a call is approved of
/// and answered, and it is the model that chooses ids.
fn tell_apart(
    answer: AiMessage,
    mut taken: HashSet<String>,
) -> (AiMessage, BTreeMap<usize, String>) {
    let mut free: HashSet<String> = answer.tool_calls().map(|call| call.id.clone()).collect();
    free.retain(|id| !taken.contains(id));
    taken.extend(free.iter().cloned());
    let mut shared = BTreeMap::new();
    let mut place = 0..;
    let told_apart = answer.with_calls(|call| {
        let place = place.next()?;
        if free.remove(&call.id) {
            return None;
        }
        let base = if call.id.is_empty() { "call" } else { &call.id };
        let mut names = (2..).map(|n: u64| format!("{base}_{n}"));
        let id = names.find(|name| taken.insert(name.clone()))?;
        shared.insert(place, call.id.clone());
        Some(ToolCall { id, ..call.clone() })
    });
    (told_apart.unwrap_or(answer), shared)
}

/// The most bytes that are kept free for an answer.
const MOST_ROOM: usize = 64 * 1024;

pub(super) fn outcome_unknown(call: &ToolCall, tag: &str, why: &str) -> Message {
    let why = why.trim_end();
    let stop = match why.chars().last() {
        None => "",
        Some('.' | '!' | '?' | '…' | ':' | ';' | '。' | '！' | '？') => " ",
        Some(_) => ". ",
    };
    let text = format!("{why}{stop}{OUTCOME_UNKNOWN}");
    let result = ToolMessage::new(&call.id, &call.name, text);
    Message::Tool(result.with_error(true).stand_in().with_call_tag(tag))
}

const OUTCOME_UNKNOWN: &str =
    "The outcome of this call is not known: it may have been done, and may still be under way.";

/// The text for the model about a call that a stop came before.
pub(crate) const NOT_RUN: &str = "Not run: the turn was interrupted.";

/// The text for the model about a call of a tool that there is not.
pub(crate) fn no_tool(name: &str) -> String {
    format!("There is no tool {name:?}.")
}

/// The attribute of an answer that broke off.
const BROKEN: &str = "turn:broken";
