//! Matching: which call each result answers.
//!
//! A result may be anywhere after its call: a tool may take so long that the user has said
//! something else before it is done. In what is sent to a provider, each result is directly after
//! its call.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;

use crate::message::{Message, ToolCall, ToolMessage, agree};
use crate::record::Records;

/// The tool groups among the records from a place on, and the fate of each result there.
#[derive(Debug, Default)]
pub(crate) struct Matches<'a> {
    /// In the order of their places, as are `calls` and `results`.
    groups: Vec<Group>,
    calls: Vec<Call<'a>>,
    results: Vec<(usize, Fate)>,
}

/// An ai message with calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group {
    /// The place of the message.
    pub(crate) head: usize,
    /// Its calls: a range of all calls.
    first_call: usize,
    end_call: usize,
    /// The place of its newest member.
    pub(crate) newest: usize,
}

#[derive(Clone, Copy, Debug)]
struct Call<'a> {
    call: &'a ToolCall,
    answer: Option<Match<'a>>,
}

/// The result that is sent for a call.
#[derive(Clone, Copy, Debug)]
struct Match<'a> {
    place: usize,
    /// The place by which it is sorted among the other results of its group: its own, or that of
    /// the stand-in that it replaces.
    rank: usize,
    stand_in: bool,
    /// The tool that the result names.
    tool: &'a str,
    tag: Option<&'a str>,
}

impl Call<'_> {
    /// Returns whether this result is the one that the answer of the call stands in for.
    ///
    /// If both have a call tag, the tags must be equal. If one has none, id and tool decide, but
    /// only if `without_tag` is true.
    fn awaits(&self, result: &ToolMessage, without_tag: bool) -> bool {
        let has_its_tag = |it: Match<'_>| match (it.tag, result.call_tag()) {
            (Some(one), Some(other)) => one == other,
            _ => without_tag,
        };
        let stands_for =
            |it: Match<'_>| it.stand_in && agree(it.tool, result.tool_name()) && has_its_tag(it);
        self.call.is_answered_by(result) && self.answer.is_some_and(stands_for)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is sent with the group of this number, and answers the call of this number.
    Sent { group: usize, call: usize, direct: bool },
    /// It is the stand-in for a result that has come.
    Replaced,
    /// Its call has another answer.
    Answered,
    /// It answers no call here.
    NoCall,
}

/// The calls of one id that a late result may still answer.
#[derive(Default)]
struct OfId<'a> {
    /// The unanswered calls of the newest message that calls with this id; its earlier calls no
    /// longer wait.
    unanswered: VecDeque<usize>,
    /// The places of stand-ins, oldest first, and the calls that they answer.
    stand_ins: Vec<(usize, usize)>,
    /// The tools whose calls were answered, and the tags of these.
    answered: Vec<(&'a str, Option<&'a str>)>,
}

/// Matches in the making, found in one pass from the oldest record to the newest.
struct Matching<'a> {
    matches: Matches<'a>,
    /// Made at the first result that is not directly after its call: most conversations have none.
    by_id: Option<HashMap<&'a str, OfId<'a>>>,
    /// The group whose results may come next, directly after it.
    current: Option<usize>,
    /// True if late results are ignored.
    directly: bool,
}

impl<'a> Matches<'a> {
    /// Matches the results among the records from the place `first` on to the calls there.
    pub(crate) fn among(records: &'a Records, first: usize) -> Self {
        Self::matched(records, first, false)
    }

    /// Matches only the results that are directly after their calls.
    pub(crate) fn directly_among(records: &'a Records) -> Self {
        Self::matched(records, 0, true)
    }

    fn matched(records: &'a Records, first: usize, directly: bool) -> Self {
        let mut matching =
            Matching { matches: Self::default(), by_id: None, current: None, directly };
        for (place, record) in (first..).zip(records.cursor(first)) {
            match record.message() {
                Message::Ai(ai) if ai.has_tool_calls() => {
                    matching.calls(place, ai.tool_calls());
                }
                Message::Tool(tool) => matching.result(place, tool),
                message if message.is_private() => {}
                _ => matching.current = None,
            }
        }
        matching.matches
    }

    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    pub(crate) fn group_at(&self, head: usize) -> Option<usize> {
        self.groups.binary_search_by_key(&head, |group| group.head).ok()
    }

    pub(crate) fn fate(&self, place: usize) -> Fate {
        let found = self.results.binary_search_by_key(&place, |result| result.0);
        found.map_or(Fate::NoCall, |i| self.results[i].1)
    }

    /// Returns the numbers of the calls that the message at this place makes, or of the one that it
    /// answers.
    pub(crate) fn calls_of(&self, place: usize) -> Option<Range<usize>> {
        if let Fate::Sent { call, .. } = self.fate(place) {
            return Some(call..call + 1);
        }
        let group = self.groups.get(self.group_at(place)?)?;
        Some(group.first_call..group.end_call)
    }

    /// Returns whether a result at or after the place `from` is not directly after its call: its
    /// call may be older than all these records.
    pub(crate) fn looks_back(&self, from: usize) -> bool {
        let behind = self.results.partition_point(|result| result.0 < from);
        let is_direct = |fate: &Fate| matches!(fate, Fate::Sent { direct: true, .. });
        self.results[behind..].iter().any(|(_, fate)| !is_direct(fate))
    }

    /// Returns whether a result at or after the place `from` belongs to no call.
    pub(crate) fn misses_a_call(&self, from: usize) -> bool {
        let behind = self.results.partition_point(|result| result.0 < from);
        self.results[behind..].iter().any(|(_, fate)| *fate == Fate::NoCall)
    }

    /// Returns the places of the results of a group, in the order in which they are sent.
    pub(crate) fn results_of(&self, group: usize) -> Vec<usize> {
        let mut results: Vec<Match<'_>> =
            self.calls(group).iter().filter_map(|c| c.answer).collect();
        results.sort_by_key(|result| result.rank);
        results.into_iter().map(|result| result.place).collect()
    }

    /// Returns the number of results of a group that are sent.
    pub(crate) fn answered(&self, group: usize) -> usize {
        self.calls(group).iter().filter(|call| call.answer.is_some()).count()
    }

    /// Returns all calls in their order, each with the place of the result that is sent for it.
    pub(crate) fn results(&self) -> impl Iterator<Item = (&'a ToolCall, Option<usize>)> {
        self.calls.iter().map(|it| (it.call, it.answer.map(|answer| answer.place)))
    }

    /// Returns the unanswered calls of a group, in the order of the message.
    pub(crate) fn unanswered(
        &self,
        group: usize,
    ) -> impl Iterator<Item = &'a ToolCall> + use<'a, '_> {
        self.calls(group).iter().filter(|call| call.answer.is_none()).map(|call| call.call)
    }

    /// Returns whether a call of a group has no result yet, or only a stand-in.
    pub(crate) fn waits(&self, group: usize) -> bool {
        self.calls(group).iter().any(|call| call.answer.is_none_or(|answer| answer.stand_in))
    }

    fn calls(&self, group: usize) -> &[Call<'a>] {
        self.groups.get(group).map_or(&[], |group| &self.calls[group.first_call..group.end_call])
    }
}

impl<'a> Matching<'a> {
    fn calls(&mut self, head: usize, calls: impl Iterator<Item = &'a ToolCall>) {
        let Matches { groups, calls: known, .. } = &mut self.matches;
        let first_call = known.len();
        known.extend(calls.map(|call| Call { call, answer: None }));
        let group = Group { head, first_call, end_call: known.len(), newest: head };
        groups.push(group);
        self.current = Some(groups.len() - 1);
        if let Some(by_id) = &mut self.by_id {
            wait(by_id, known, group);
        } else if group.end_call - first_call > MANY {
            self.index();
        }
    }

    fn result(&mut self, place: usize, tool: &'a ToolMessage) {
        let fate = match self.current.and_then(|group| self.direct(group, tool)) {
            Some(call) => self.answer(call, place, place, tool, true),
            None if self.directly => Fate::NoCall,
            None => self.late(place, tool),
        };
        self.matches.results.push((place, fate));
    }

    /// Returns the call that a result answers directly: the first unanswered one with its id and
    /// tool, of the message before the run of results.
    fn direct(&mut self, group: usize, tool: &ToolMessage) -> Option<usize> {
        let Group { first_call, end_call, .. } = self.matches.groups[group];
        let calls = &self.matches.calls;
        let waits = |i: &usize| {
            *i >= first_call && calls[*i].answer.is_none() && calls[*i].call.is_answered_by(tool)
        };
        match &mut self.by_id {
            Some(by_id) => by_id.get(tool.call_id())?.unanswered.iter().copied().find(waits),
            None => (first_call..end_call).find(waits),
        }
    }

    fn late(&mut self, place: usize, tool: &'a ToolMessage) -> Fate {
        if self.by_id.is_none() {
            self.index();
        }
        let calls = &self.matches.calls;
        let of_id = self.by_id.as_mut().and_then(|by_id| by_id.get_mut(tool.call_id()));
        let Some(of_id) = of_id else { return Fate::NoCall };
        let awaits = |without_tag: bool| {
            of_id.stand_ins.iter().rposition(|it| calls[it.1].awaits(tool, without_tag))
        };
        if !tool.is_stand_in()
            && let Some(i) = awaits(false).or_else(|| awaits(true))
        {
            let (_, call) = of_id.stand_ins.remove(i);
            if let Some(stand_in) = calls[call].answer {
                self.replace(stand_in.place);
                return self.answer(call, place, stand_in.rank, tool, false);
            }
        }
        let found =
            of_id.unanswered.iter().copied().find(|call| calls[*call].call.is_answered_by(tool));
        if let Some(call) = found {
            return self.answer(call, place, place, tool, false);
        }
        let is_it = |tag: Option<&str>| tool.call_tag().is_none() || tool.call_tag() == tag;
        let is_answered =
            of_id.answered.iter().any(|(it, tag)| agree(it, tool.tool_name()) && is_it(*tag));
        if is_answered { Fate::Answered } else { Fate::NoCall }
    }

    fn answer(
        &mut self,
        call: usize,
        place: usize,
        rank: usize,
        tool: &'a ToolMessage,
        direct: bool,
    ) -> Fate {
        let (stand_in, tool, tag) = (tool.is_stand_in(), tool.tool_name(), tool.call_tag());
        let answer = Match { place, rank, stand_in, tool, tag };
        let Matches { groups, calls, .. } = &mut self.matches;
        calls[call].answer = Some(answer);
        let group = groups.partition_point(|group| group.end_call <= call);
        groups[group].newest = place;
        if let Some(by_id) = &mut self.by_id {
            note(by_id, call, &calls[call]);
        }
        Fate::Sent { group, call, direct }
    }

    fn replace(&mut self, place: usize) {
        if let Ok(i) = self.matches.results.binary_search_by_key(&place, |result| result.0) {
            self.matches.results[i].1 = Fate::Replaced;
        }
    }

    fn index(&mut self) {
        let Matches { groups, calls, .. } = &self.matches;
        let mut by_id = HashMap::new();
        for group in groups {
            wait(&mut by_id, calls, *group);
            let numbers = group.first_call..group.end_call;
            numbers.for_each(|number| note(&mut by_id, number, &calls[number]));
        }
        self.by_id = Some(by_id);
    }
}

/// Lets the calls of a message wait for results; earlier calls of their ids no longer wait.
fn wait<'a>(by_id: &mut HashMap<&'a str, OfId<'a>>, calls: &[Call<'a>], group: Group) {
    let calls = || (group.first_call..group.end_call).map(|i| (i, calls[i].call.id.as_str()));
    for (_, id) in calls() {
        by_id.entry(id).or_default().unanswered.clear();
    }
    for (i, id) in calls() {
        by_id.entry(id).or_default().unanswered.push_back(i);
    }
}

fn note<'a>(by_id: &mut HashMap<&'a str, OfId<'a>>, number: usize, call: &Call<'a>) {
    let Some(answer) = call.answer else { return };
    let of_id = by_id.entry(call.call.id.as_str()).or_default();
    if let Some(i) = of_id.unanswered.iter().position(|call| *call == number) {
        of_id.unanswered.remove(i);
    }
    if answer.stand_in {
        let at = of_id.stand_ins.partition_point(|it| it.0 < answer.place);
        of_id.stand_ins.insert(at, (answer.place, number));
    }
    let named = (call.call.name.as_str(), answer.tag);
    if !of_id.answered.contains(&named) {
        of_id.answered.push(named);
    }
}

/// The number of calls in one message beyond which they are looked up by id.
const MANY: usize = 32;
