//! The state of a turn: what it does, how certain it is that it is written, and what may happen to
//! its calls. This is the part of a turn that is serialised, in a slot of its memory or by its
//! owner.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::SystemTime;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Ended, OnConflict, OnNoCheckpoint};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MOST_NAME, On, Since, check_name};
use crate::message::{AiMessage, Message, ToolCall, ToolMessage};
use crate::record::{Incarnation, Replaced, SlotVersion, Snapshot};
use crate::wire::{Stop, Usage};

/// The version of the format. A newer one is refused.
pub(super) const VERSION: u32 = 1;

/// The prefix of the slots of turns.
pub(super) const PREFIX: &str = "turn:";

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Doing {
    #[default]
    Asking,
    /// The model must continue its newest answer, which is not complete: the provider paused.
    Paused,
    /// The newest answer calls tools: one state for each call, in their order. At least one has no
    /// result.
    Calling(Vec<CallState>),
    /// The turn has ended, and is to be stored.
    Ending(Ended),
    /// Nothing of it is to be stored, and its slot is to be removed. It keeps its messages until
    /// then: the owner needs them to find out what another owner has done with the turn.
    Forgetting,
    /// The turn has ended, and everything is stored.
    Done { ended: Ended, positions: Range<u64> },
}

/// The state of one call of the newest answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CallState {
    /// It is to be handed out.
    New,
    /// It waits for approval.
    Unapproved,
    /// It was approved, and not handed out since.
    Approved,
    /// It was handed to this owner.
    HandedOut,
    /// This owner runs it.
    Begun,
    /// It was handed to an earlier owner.
    MayHaveRun,
    /// It has a result, or was closed without one.
    Answered,
}

impl CallState {
    /// Returns true if an owner may have run it.
    pub(super) fn is_handed_out(self) -> bool {
        matches!(self, Self::HandedOut | Self::Begun | Self::MayHaveRun)
    }

    pub(super) fn is_unapproved(self) -> bool {
        self == Self::Unapproved
    }
}

/// How certain it is that the turn is written to its slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Written {
    /// It was never written there.
    #[default]
    Not,
    /// A write was sent, and its outcome is unknown. Before it, the slot held this.
    InDoubt(Option<Held>),
    Held(Held),
    /// The slot may have changed: another owner, or a person who decides, may have written or
    /// removed it. It is read before anything else; `Held` is what it held before.
    Lost(Option<Held>),
}

/// What the slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) version: SlotVersion,
    /// The number of messages in the slot.
    pub(super) messages: usize,
    /// True if something has happened that the slot does not show.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_outdated: bool,
}

/// The serialised part of a turn.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct State {
    #[serde(rename = "turn", deserialize_with = "version")]
    version: u32,
    /// The id of the turn, which all its owners share.
    pub(super) id: String,
    /// The life of the turn, which all its owners share. A later turn of the same id has another
    /// one, and so has each copy of a turn that has not begun.
    pub(super) life: String,
    /// The number of this turn among those of its id: each continues after the one before.
    pub(super) part: u32,
    /// The owner that wrote this. It shows whose checkpoint a slot holds.
    pub(super) owner: String,
    pub(super) adoptions: u32,
    /// The time when it was written to its slot, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    pub(super) doing: Doing,
    pub(super) written: Written,
    /// Everything that was said so far, the question first.
    pub(super) messages: Vec<Message>,
    /// The messages that wait until the model can read them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) steers: Vec<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) temporaries: Vec<Message>,
    /// The notes about other turns, each with the number of messages before it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) notes: Vec<(usize, Message)>,
    /// The excerpts that were recalled for the question. They are next to the temporaries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recalled: Option<Message>,
    /// The number of messages before the temporaries when these were first sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) before_temporaries: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen: Option<Seen>,
    /// The new branch that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) on: Option<On>,
    /// What it replaces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) replaced: Option<Replaced>,
    /// The position of its question, if it continues after stored messages of its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) asked_at: Option<u64>,
    pub(super) rounds: u32,
    pub(super) most_rounds: u32,
    pub(super) on_conflict: OnConflict,
    pub(super) on_no_checkpoint: OnNoCheckpoint,
    /// The tools that may be run again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) repeatable: BTreeSet<String>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) needs_approval: BTreeSet<String>,
    #[serde(default)]
    pub(super) usage: Usage,
    /// True if the application gave it an id: requests of this id may have come before. A copy is
    /// a request only if the turn had not begun.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_request: bool,
    /// True if it regenerates the answer to the newest question, whichever that is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_anew: bool,
    /// The number of appends of the whole turn that may have been made.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(super) commits: u32,
    /// The most bytes of a message and of a batch that its memory takes, if that has limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) bounds: Option<(usize, usize)>,
}

pub(super) struct MadeCall<'a> {
    /// The place of the message that made it, and its own place among the calls of that message.
    pub(super) at: usize,
    pub(super) place: usize,
    pub(super) call: &'a ToolCall,
    /// The result, if it has one, and its place among the messages.
    pub(super) result: Option<(usize, &'a ToolMessage)>,
}

/// Returns the calls in these messages of one turn, each with its result. No two of them have the
/// same id. A late result replaces the stand-in.
pub(super) fn calls_among<'a>(
    messages: impl IntoIterator<Item = &'a Message>,
) -> Vec<MadeCall<'a>> {
    let mut calls = Vec::<MadeCall<'_>>::new();
    for (at, message) in messages.into_iter().enumerate() {
        let made = message.tool_calls().enumerate();
        calls.extend(made.map(|(place, call)| MadeCall { at, place, call, result: None }));
        let Some(result) = message.as_tool() else { continue };
        if let Some(made) = calls.iter_mut().find(|it| it.call.id == result.call_id())
            && made
                .result
                .is_none_or(|(_, it)| it.is_stand_in() && it.call_tag() == result.call_tag())
        {
            made.result = Some((at, result));
        }
    }
    calls
}

impl State {
    /// Returns the branch on which it was begun, if that is known.
    pub(super) fn on(&self) -> Option<On> {
        self.on.or_else(|| Some(self.seen?.on()))
    }

    pub(super) fn new(question: Message) -> Self {
        Self {
            version: VERSION,
            id: random_id(),
            life: random_id(),
            part: 1,
            owner: random_id(),
            messages: vec![question],
            most_rounds: 25,
            ..Self::default()
        }
    }

    /// Takes the approval of a person.
    pub(super) fn approve(&mut self, place: usize) {
        self.set_call(place, CallState::Approved);
        self.outdate();
    }

    /// Returns the answer to a call that a person refuses, for this reason.
    pub(super) fn refusal(&self, place: usize, call: &ToolCall, why: &str) -> ToolMessage {
        not_run(error_result(call, why)).stand_in().with_call_tag(&self.call_tag(place))
    }

    /// Closes a call for this reason: it was not run and never will be.
    pub(super) fn not_run(&mut self, place: usize, call: &ToolCall, why: &str) {
        self.close(place, not_run(error_result(call, why)));
    }

    /// Takes the result that the owner gives. A call that waits for a person can only fail.
    pub(super) fn result(&mut self, place: usize, result: ToolMessage) -> Result<()> {
        let result = match self.call_state(place) {
            CallState::Unapproved if !result.is_error() => {
                return Err(Error::invalid("turn", "the call is not approved yet"));
            }
            CallState::Unapproved => not_run(result),
            // The first owner that ran it may know better.
            CallState::MayHaveRun if !self.repeatable.contains(result.tool_name()) => {
                result.stand_in().with_call_tag(&self.call_tag(place))
            }
            _ => result,
        };
        self.close(place, result);
        Ok(())
    }

    pub(super) fn hand_out(&mut self) {
        use CallState::{Approved, HandedOut, New};
        self.each(|it| if matches!(it, New | Approved) { HandedOut } else { it });
    }

    /// Passes the turn to another owner.
    pub(super) fn hand_over(&mut self) {
        if matches!(self.written, Written::InDoubt(_)) {
            self.hand_out();
        }
        self.each(|it| if it.is_handed_out() { CallState::MayHaveRun } else { it });
        self.owner = random_id();
        self.is_request &= self.has_not_begun();
    }

    pub(super) fn has_not_begun(&self) -> bool {
        self.seen.is_none() && self.written == Written::Not
    }

    /// Notes that something has happened that the slot does not show.
    pub(super) fn outdate(&mut self) {
        if let Written::Held(held) = &mut self.written {
            held.is_outdated = true;
        }
    }

    pub(super) fn answered(&mut self, answer: AiMessage, usage: Usage, stop: Option<Stop>) {
        let calls = vec![CallState::New; answer.tool_calls().count()];
        if self.doing == Doing::Paused {
            self.messages.pop(); // the answer continues it
        }
        self.messages.push(Message::Ai(answer));
        self.usage += usage;
        self.outdate();
        self.doing = match stop {
            _ if !calls.is_empty() => Doing::Calling(calls),
            Some(Stop::Paused) => Doing::Paused,
            _ => Doing::Asking,
        };
        self.require_approval_of(self.needs_approval.clone());
        if stop == Some(Stop::Broken) {
            self.end(Ended::Interrupted, "Not run: the answer broke off.");
        } else if self.doing != Doing::Asking {
            if self.rounds >= self.most_rounds {
                let most = self.most_rounds;
                let why = format!("Not run: the limit of rounds of calls in a turn is {most}.");
                return self.end(Ended::Rounds, &why);
            }
            self.rounds += 1;
        } else if self.steers.is_empty() {
            self.doing = Doing::Ending(Ended::Answered);
        }
    }

    /// Requires approval only for calls of these tools. Those that have not begun wait for it, and
    /// so do those that would be run again and needed none before.
    pub(super) fn require_approval_of(&mut self, tools: BTreeSet<String>) {
        let before = std::mem::replace(&mut self.needs_approval, tools);
        let begins = |place: usize, call: &ToolCall| match self.call_state(place) {
            CallState::New => true,
            CallState::MayHaveRun => self.is_repeatable(call) && !before.contains(&call.name),
            _ => false,
        };
        let waits = |(place, call): &(usize, &ToolCall)| {
            self.needs_approval.contains(&call.name) && begins(*place, call)
        };
        let waiting: Vec<_> = self.open().into_iter().filter(waits).map(|(at, _)| at).collect();
        for place in waiting {
            self.set_call(place, CallState::Unapproved);
            self.outdate();
        }
    }

    /// Ends the turn, to be stored. Calls that were not handed out are not run, for this reason.
    pub(super) fn end(&mut self, ended: Ended, why: &str) {
        if self.doing == Doing::Paused
            && let Some(Message::Ai(half)) = self.messages.last_mut()
        {
            *half = half.clone().broken();
        }
        self.close_all(|_| true, why);
        self.messages.append(&mut self.steers);
        self.doing = Doing::Ending(ended);
    }

    /// Closes the calls in these states. The outcome of those that were handed out is unknown; the
    /// others are not run, for this reason.
    pub(super) fn close_all(&mut self, which: impl Fn(CallState) -> bool, why: &str) {
        for (place, call) in self.open_calls() {
            let state = self.call_state(place);
            if state.is_handed_out() && which(state) {
                self.close(place, outcome_unknown(&call, &self.call_tag(place), ""));
            } else if which(state) {
                self.not_run(place, &call, why);
            }
        }
    }

    /// Stages a result; after the last one the model is to be asked.
    pub(super) fn close(&mut self, place: usize, result: ToolMessage) {
        self.messages.push(Message::Tool(result));
        self.set_call(place, CallState::Answered);
        self.outdate();
        if self.open().is_empty() {
            self.doing = Doing::Asking;
        }
    }

    pub(super) fn set_call(&mut self, place: usize, state: CallState) {
        if let Doing::Calling(calls) = &mut self.doing
            && let Some(call) = calls.get_mut(place)
        {
            *call = state;
        }
    }

    fn each(&mut self, state: impl Fn(CallState) -> CallState) {
        if let Doing::Calling(calls) = &mut self.doing {
            for call in calls {
                *call = state(*call);
            }
        }
    }

    pub(super) fn call_state(&self, place: usize) -> CallState {
        match &self.doing {
            Doing::Calling(calls) => calls.get(place).copied().unwrap_or(CallState::Answered),
            _ => CallState::Answered,
        }
    }

    /// Returns the calls without results, with their places among the newest calls.
    pub(super) fn open(&self) -> Vec<(usize, &ToolCall)> {
        self.open_in(|it| it != CallState::Answered)
    }

    /// Returns the newest calls in these states, with their places.
    pub(super) fn open_in(&self, which: impl Fn(CallState) -> bool) -> Vec<(usize, &ToolCall)> {
        let newest = self.newest_calls().and_then(|at| self.messages.get(at));
        let calls = newest.into_iter().flat_map(Message::tool_calls).enumerate();
        calls.filter(|(place, _)| which(self.call_state(*place))).collect()
    }

    pub(super) fn open_calls(&self) -> Vec<(usize, ToolCall)> {
        self.open().into_iter().map(|(place, call)| (place, call.clone())).collect()
    }

    /// Notes, if the turn only waits for people, that others may have decided since: then the slot
    /// is read before anything else.
    pub(super) fn doubt_decisions(&mut self) {
        let waiting = self.open_in(CallState::is_unapproved);
        if let Written::Held(held) = self.written
            && !waiting.is_empty()
            && waiting == self.open()
        {
            self.written = Written::Lost(Some(held));
        }
    }

    /// Returns true if only storing it remains.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.doing, Doing::Ending(_) | Doing::Forgetting | Doing::Done { .. })
    }

    /// Returns what the slot holds, or what it held before the owner was in doubt.
    pub(super) fn held(&self) -> Option<&Held> {
        match &self.written {
            Written::Not => None,
            Written::Held(held) => Some(held),
            Written::InDoubt(held) | Written::Lost(held) => held.as_ref(),
        }
    }

    pub(super) fn slot(&self) -> String {
        slot_of(&self.id)
    }

    /// Refuses an id under which the turn could not be stored, before the turn begins.
    pub(super) fn check_id(&self) -> Result<()> {
        let (id, longest) = (&self.id, append_id(&self.id, MOST_PARTS, true));
        let is_good = !id.is_empty() && check_name("turn", "", &longest).is_ok();
        if self.seen.is_some() || is_good {
            return Ok(());
        }
        let most = MOST_NAME.saturating_sub(longest.len().saturating_sub(id.len()));
        let text = format!("the id of a turn has 1 to {most} bytes and no control characters");
        Err(Error::invalid("turn", text))
    }

    /// Returns the id of the first append of the turn (a checkpoint, or the whole turn), or the id
    /// of the append of the whole turn after a checkpoint.
    pub(super) fn append_id(&self, behind_checkpoint: bool) -> String {
        append_id(&self.id, self.part, behind_checkpoint)
    }

    pub(super) fn newest_calls(&self) -> Option<usize> {
        self.messages.iter().rposition(Message::has_tool_calls)
    }

    pub(super) fn call_tag(&self, place: usize) -> String {
        self.call_tag_at(self.newest_calls().unwrap_or_default(), place)
    }

    /// Returns the tag of a call of the message at this place of the turn. All owners compute the
    /// same tag.
    pub(super) fn call_tag_at(&self, message: usize, place: usize) -> String {
        format!("{}:{message}.{place}", self.append_id(false))
    }

    /// Returns whether a tool that is not repeatable may have run.
    pub(super) fn may_have_acted(&self) -> bool {
        let mut results = self.messages.iter().skip(1).filter_map(Message::as_tool);
        let has_run =
            |it: &ToolMessage| !was_not_run(it) && !self.repeatable.contains(it.tool_name());
        let handed_out = self.open_in(CallState::is_handed_out);
        results.any(has_run) || handed_out.into_iter().any(|(_, call)| !self.is_repeatable(call))
    }

    pub(super) fn is_repeatable(&self, call: &ToolCall) -> bool {
        self.repeatable.contains(&call.name)
    }

    /// Returns true if the slot holds the newest calls. It may not hold all that happened to them.
    pub(super) fn calls_are_checkpointed(&self) -> bool {
        let known = self.held().zip(self.newest_calls());
        known.is_some_and(|(held, newest)| newest < held.messages)
    }

    /// Returns true if the slot shows all that has happened.
    pub(super) fn is_written(&self) -> bool {
        self.held().is_some_and(|held| !held.is_outdated)
    }

    /// Returns the content of its slot. Its reader can only know that the calls were handed out.
    pub(super) fn checkpoint(&self) -> Result<Vec<u8>> {
        let mut written = Self { written: Written::Not, bounds: None, ..self.clone() };
        written.hand_out();
        serde_json::to_vec(&written).map_err(|error| {
            Error::new(ErrorKind::Codec, "turn", "it can't be written").with_source(error)
        })
    }

    /// Returns how many bytes a checkpoint grows if another owner adopts it and closes the open
    /// calls, each with a short reason. Part of that room is already used if the slot holds the
    /// calls.
    pub(super) fn growth(&self) -> usize {
        let reason = if self.calls_are_checkpointed() { REASON / 4 } else { REASON };
        let closing = |(place, call): (usize, &ToolCall)| {
            let closing = Message::Tool(outcome_unknown(call, &self.call_tag(place), ""));
            Codec::Json.encode(&closing).map_or(0, |it| it.len()) + reason
        };
        ADOPTION + self.open().into_iter().map(closing).sum::<usize>()
    }

    pub(super) fn note_time(&mut self, now: SystemTime) {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.since = u64::try_from(since.as_millis()).ok();
    }
}

/// The most bytes by which an adoption makes a checkpoint longer: its time, and a digit.
const ADOPTION: usize = 64;

/// The bytes for the reason of a refusal, or for the note that a process died.
const REASON: usize = 256;

/// The most turns of one id: with more, the id of an append could be too long.
const MOST_PARTS: u32 = 9_999;

pub(super) fn slot_of(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Returns the id of an append of a turn: its first append, or the whole turn after a checkpoint.
pub(super) fn append_id(id: &str, part: u32, behind_checkpoint: bool) -> String {
    let part = if part > 1 { part.to_string() } else { String::new() };
    format!("turn{part}{}:{id}", if behind_checkpoint { "+" } else { "" })
}

pub(super) fn random_id() -> String {
    Incarnation::random().to_string() // 64 random bits
}

fn error_result(call: &ToolCall, text: &str) -> ToolMessage {
    ToolMessage::new(&call.id, &call.name, text).with_error(true)
}

/// Returns the result, marked as that of a call that was not run.
fn not_run(result: ToolMessage) -> ToolMessage {
    result.with_error(true).with_attribute(NOT_RUN_MARK, true)
}

pub(super) fn was_not_run(result: &ToolMessage) -> bool {
    result.attributes().contains_key(NOT_RUN_MARK)
}

/// Returns whether a tool gave this result, as far as its owner knows.
pub(super) fn is_from_tool(result: &ToolMessage) -> bool {
    !(was_not_run(result) || result.is_stand_in() && result.is_error())
}

/// The attribute of a result that no tool gave: its call was refused, or closed without being run.
const NOT_RUN_MARK: &str = "turn:not_run";

/// Returns the stand-in for the result of a call whose outcome is unknown.
pub(super) fn outcome_unknown(call: &ToolCall, tag: &str, why: &str) -> ToolMessage {
    let why = why.trim_end();
    let stop = match why.chars().last() {
        None => "",
        Some('.' | '!' | '?' | '…' | ':' | ';' | '。' | '！' | '？') => " ",
        Some(_) => ". ",
    };
    error_result(call, &format!("{why}{stop}{OUTCOME_UNKNOWN}")).stand_in().with_call_tag(tag)
}

const OUTCOME_UNKNOWN: &str =
    "The outcome of this call is not known: it may have been done, and may still be under way.";

/// The text for the model about a call that was stopped before it ran.
pub(crate) const NOT_RUN: &str = "Not run: the turn was interrupted.";

/// The conversation as the first prompt of the turn saw it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) end: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<Incarnation>,
}

impl Seen {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { end, incarnation, .. } = *snapshot;
        Self { end, incarnation }
    }

    /// Returns the branch that was seen: the first one if there was no conversation yet.
    pub(super) fn on(&self) -> On {
        On::branch(self.incarnation)
    }

    /// Returns whether this snapshot can be of the conversation that was seen.
    pub(super) fn goes_on_in(&self, snapshot: &Snapshot) -> bool {
        // There may have been none yet, or the memory does not report it.
        let is_same = self.incarnation.is_none() || self.incarnation == snapshot.incarnation;
        is_same && snapshot.end >= self.end
    }

    /// Returns the condition of an append that this conversation still exists, even if everything
    /// that was seen is evicted.
    pub(super) fn since(self) -> Since {
        Since { incarnation: self.incarnation, newest: None }
    }
}

fn version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        VERSION => Ok(VERSION),
        other => {
            let text = format!("a turn of version {other}, and this is version {VERSION}");
            Err(D::Error::custom(text))
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
