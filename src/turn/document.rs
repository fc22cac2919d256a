//! A turn as it is written: in a slot of its memory, or wherever its owner keeps it.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Ended, OnConflict, OnNoCheckpoint};
use crate::message::{Message, ToolCall, ToolMessage};
use crate::record::{Incarnation, Records, SlotVersion, Snapshot};
use crate::wire::Usage;

/// The version of what is written. One that is newer is refused. The first one does not say what
/// needs approval.
pub(super) const VERSION: u32 = 2;

/// All of a turn that is worth keeping.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a field of what is written")]
pub(super) struct Document {
    #[serde(rename = "turn", deserialize_with = "version")]
    version: u32,
    /// The id under which its messages are appended.
    pub(super) id: String,
    /// The slot in which it is kept.
    pub(super) slot: String,
    /// The value of the turn that wrote this: of two with one id it tells whose checkpoint a slot
    /// holds.
    #[serde(default)]
    pub(super) owner: String,
    /// The version of that slot, where it was written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) kept: Option<SlotVersion>,
    /// The number of its messages that the slot has.
    #[serde(default)]
    pub(super) kept_messages: usize,
    /// True where it was to be written there and nobody knows yet whether it was.
    #[serde(default)]
    pub(super) is_saving: bool,
    /// Everything that was said so far, the question first.
    pub(super) messages: Vec<Message>,
    /// The messages that wait for the next place where the model can be told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) steers: Vec<Message>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) temporaries: Vec<Message>,
    /// The note about other turns that stands before them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) note: Option<Message>,
    /// The excerpts that were recalled for the question, which stands behind them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) recalled: Option<Message>,
    /// The number of messages that stood before the temporaries when they were sent first.
    #[serde(default)]
    pub(super) before_temporaries: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) seen: Option<Seen>,
    pub(super) rounds: u32,
    pub(super) most_rounds: u32,
    #[serde(default)]
    pub(super) on_conflict: OnConflict,
    #[serde(default, rename = "checkpoint")] // as it was called first
    pub(super) on_no_checkpoint: OnNoCheckpoint,
    /// The tools that may be run again.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) repeatable: BTreeSet<String>,
    /// The tools that somebody has to approve of; `None` where nobody knows, as in the first
    /// version: all of them then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) needs_approval: Option<BTreeSet<String>>,
    /// True where the calls that wait were handed out.
    #[serde(default)]
    pub(super) is_called: bool,
    /// The places, among the newest calls, of those that wait for somebody's approval.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) unapproved: BTreeSet<usize>,
    /// The places of those that somebody has approved of and that were not handed out since.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) approved: BTreeSet<usize>,
    /// The places of those that were handed out to an earlier owner, or that this one has begun.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[serde(rename = "begun_before")] // as it was called first
    pub(super) may_have_run: BTreeSet<usize>,
    /// The ids that the model gave to calls which share one, by the places of those that have
    /// another here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) shared_ids: BTreeMap<usize, String>,
    /// The places, among the messages, of results that no tool gave: a call was refused, or closed
    /// without being run.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) not_run: BTreeSet<usize>,
    /// True where more is known of the calls than the slot says.
    #[serde(default)]
    pub(super) is_stale: bool,
    /// The cost of its answers so far.
    #[serde(default)]
    pub(super) usage: Usage,
    /// The way in which it ended, where it did: what is left is to append it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended: Option<Ended>,
    /// True where the newest answer is not whole: sent back, its provider goes on with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_paused: bool,
    /// True where nothing of it is to be stored. Its messages stay while its slot may be there: by
    /// them its owner finds what others have made of it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) forgets: bool,
}

/// A call that the model has made in a turn.
pub(super) struct MadeCall<'a> {
    /// The place of the message that made it, and its own among the calls of that message.
    pub(super) at: usize,
    pub(super) place: usize,
    pub(super) call: &'a ToolCall,
    /// The result, where it has one, and its place among the messages.
    pub(super) result: Option<(usize, &'a ToolMessage)>,
}

/// The conversation as the first prompt of the turn saw it.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) start: u64,
    pub(super) end: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) incarnation: Option<Incarnation>,
}

impl Seen {
    pub(super) fn of(snapshot: &Snapshot) -> Self {
        let Snapshot { start, end, incarnation, .. } = *snapshot;
        Self { start, end, incarnation }
    }

    /// Returns whether this snapshot can be of the conversation that was seen.
    pub(super) fn goes_on_in(&self, snapshot: &Snapshot) -> bool {
        let same = match (self.incarnation, snapshot.incarnation) {
            (Some(seen), now) => now == Some(seen),
            // There was none yet, or the memory does not tell.
            (None, _) => true,
        };
        same && snapshot.end >= self.end
    }

    /// As much of the snapshot as an append needs to be
    /// [made on it](crate::memory::Append::since).
    pub(super) fn snapshot(&self) -> Snapshot {
        let mut snapshot = Snapshot::new(self.start..self.end, Records::default());
        snapshot.incarnation = self.incarnation;
        snapshot
    }
}

/// Slots of turns and the ids of their appends begin so.
pub(super) const PREFIX: &str = "turn:";

impl Document {
    pub(super) fn new(question: Message) -> Self {
        let id = own_id();
        Self {
            version: VERSION,
            slot: format!("{PREFIX}{id}"),
            owner: id.clone(),
            id,
            messages: vec![question],
            most_rounds: 25,
            needs_approval: Some(BTreeSet::new()),
            ..Self::default()
        }
    }

    /// The calls of the turn, each with its result.
    pub(super) fn calls(&self) -> Vec<MadeCall<'_>> {
        let (mut calls, mut newest) = (Vec::<MadeCall<'_>>::new(), 0);
        for (at, message) in self.messages.iter().enumerate() {
            if message.has_tool_calls() {
                newest = calls.len();
            }
            let made = message.tool_calls().enumerate();
            calls.extend(made.map(|(place, call)| MadeCall { at, place, call, result: None }));
            let Some(result) = message.as_tool() else { continue };
            let mut open = calls[newest..].iter_mut().filter(|it| it.result.is_none());
            if let Some(answered) = open.find(|it| it.call.is_answered_by(result)) {
                answered.result = Some((at, result));
            }
        }
        calls
    }

    /// The place of the message with the newest calls.
    pub(super) fn newest_calls(&self) -> Option<usize> {
        self.messages.iter().rposition(Message::has_tool_calls)
    }

    /// The calls without results, with their places among the newest calls.
    pub(super) fn waiting(&self) -> Vec<(usize, &ToolCall)> {
        let newest = self.newest_calls();
        let mut calls = self.calls();
        calls.retain(|it| Some(it.at) == newest && it.result.is_none());
        calls.into_iter().map(|it| (it.place, it.call)).collect()
    }

    /// Returns the tag of the call at this place.
    pub(super) fn call_tag(&self, place: usize) -> String {
        self.call_tag_at(self.newest_calls().unwrap_or_default(), place)
    }

    /// Returns the tag of a call of the message at this place of the turn. Whoever adopts it keeps
    /// the slot, so the tag stays the same.
    pub(super) fn call_tag_at(&self, message: usize, place: usize) -> String {
        format!("{}:{message}.{place}", self.slot)
    }

    /// Returns true where the call at this place may have been run by whoever it was handed to.
    pub(super) fn is_handed_out(&self, place: usize) -> bool {
        self.is_called && !self.unapproved.contains(&place) && !self.approved.contains(&place)
    }

    /// Returns whether a tool that is not repeatable may have run.
    pub(super) fn has_happened(&self) -> bool {
        let newest = self.newest_calls();
        self.calls().iter().any(|MadeCall { at, place, call, result }| {
            let may_have_run = match result {
                Some((place, _)) => !self.not_run.contains(place),
                None => Some(*at) == newest && self.is_handed_out(*place),
            };
            may_have_run && !self.is_repeatable(call)
        })
    }

    /// Returns what tools gave that the slot does not have, with the calls and their tags.
    pub(super) fn unwritten_results(&self) -> Vec<(String, &ToolCall, &ToolMessage)> {
        let mut calls = self.calls();
        calls.sort_by_key(|it| it.result.map(|(at, _)| at)); // as they came
        let unwritten = calls.into_iter().filter_map(|made| {
            let (at, result) = made.result?;
            let is_new = at >= self.kept_messages && !self.not_run.contains(&at);
            let tag = || self.call_tag_at(made.at, made.place);
            (is_new && !result.is_stand_in()).then(|| (tag(), made.call, result))
        });
        unwritten.collect()
    }

    /// Returns the id that the model gave to the call at this place.
    pub(super) fn given_id<'a>(&'a self, place: usize, call: &'a ToolCall) -> &'a str {
        self.shared_ids.get(&place).unwrap_or(&call.id)
    }

    /// Returns whether a call of the turn has this id, whether or not it was answered.
    pub(super) fn is_own_id(&self, id: &str) -> bool {
        self.messages.iter().flat_map(Message::tool_calls).any(|call| call.id == id)
    }

    /// Returns the call that is meant by this id: its own, or one to which the model gave it. Of a
    /// tool that is not repeatable that is none where another call has that id or was given it, be
    /// it answered or not: what came of that one may come twice.
    pub(super) fn called(&self, id: &str) -> Option<(usize, &ToolCall)> {
        let waiting = self.waiting();
        let own = waiting.iter().find(|(_, call)| call.id == id);
        let is_given = |it: &&(usize, &ToolCall)| self.given_id(it.0, it.1) == id;
        let shares = || self.shared_ids.values().filter(|given| *given == id).count() > 1;
        let is_meant = |(_, call): &&(usize, &ToolCall)| {
            self.is_repeatable(call) || !self.is_own_id(id) && !shares()
        };
        let given = || waiting.iter().filter(is_given).filter(is_meant);
        let handed_out = || given().find(|(place, _)| !self.unapproved.contains(place));
        let waits = || given().next().filter(|_| !self.is_own_id(id));
        own.or_else(handed_out).or_else(waits).copied()
    }

    pub(super) fn is_repeatable(&self, call: &ToolCall) -> bool {
        self.repeatable.contains(&call.name)
    }

    /// Returns true where somebody must approve of the calls of this tool.
    pub(super) fn needs_approval(&self, tool: &str) -> bool {
        self.needs_approval.as_ref().is_none_or(|names| names.contains(tool))
    }

    /// Returns true where the slot says that the newest calls were begun. More may be known of
    /// them.
    pub(super) fn calls_are_kept(&self) -> bool {
        let newest = self.newest_calls();
        self.kept.is_some() && !self.is_stale && newest.is_some_and(|at| at < self.kept_messages)
    }

    /// Notes that an earlier owner may have run the calls that were handed out and wait.
    pub(super) fn note_handed_out_may_have_run(&mut self) {
        let mut places: Vec<usize> = self.waiting().into_iter().map(|(i, _)| i).collect();
        places.retain(|place| self.is_handed_out(*place));
        self.note_may_have_run(places);
    }

    /// Notes that somebody may have run these calls: nobody is asked for approval any more.
    pub(super) fn note_may_have_run(&mut self, places: impl IntoIterator<Item = usize>) {
        for place in places {
            self.unapproved.remove(&place);
            self.may_have_run.insert(place);
        }
    }

    /// Returns the bytes that this takes more, at most, once somebody has adopted it.
    pub(super) fn growth(&self) -> usize {
        let id = OWN_ID.saturating_sub(self.id.len());
        let kept = if self.kept.is_none() { r#""kept":"","#.len() + OWN_ID } else { 0 };
        let kept_messages = digits(self.messages.len()).saturating_sub(digits(self.kept_messages));
        let waiting = self.waiting().into_iter().map(|(place, _)| place);
        let begun: usize = waiting
            .filter(|place| !self.may_have_run.contains(place))
            .map(|place| digits(place) + ",".len())
            .sum();
        let is_first = begun > 0 && self.may_have_run.is_empty();
        let names = if is_first { r#""begun_before":[],"#.len() } else { 0 };
        id + kept + kept_messages + names + begun
    }

    /// Notes that the calls that wait are handed out, but for those that nobody has approved of.
    pub(super) fn note_handed_out(&mut self) {
        self.is_called = true;
        self.approved.clear();
    }
}

/// The length of a generated id and of a slot version, in bytes.
const OWN_ID: usize = 16;

fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

/// An id that no other turn has.
pub(super) fn own_id() -> String {
    Incarnation::random().to_string() // 64 random bits
}

/// Reads the version; what was read is written anew in this one.
fn version<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    match u32::deserialize(from)? {
        1..=VERSION => Ok(VERSION),
        other => {
            let text = format!("a turn of version {other}, and this is version {VERSION}");
            Err(D::Error::custom(text))
        }
    }
}
