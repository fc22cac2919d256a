//! A naive model of composing: the rules in their words, over plain vectors, as slow as they come.
//!
//! It shares nothing with the composer but the messages. Indices are places in the list of records,
//! private ones counted; positions are those of records. Where the rules leave something open, the
//! model says so: it allows both, or answers [`Outcome::Undetermined`].

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

use std::collections::{BTreeMap, BTreeSet};

use memory_prompt::compose::Placement;
use memory_prompt::message::{AiPart, Content, SystemMessage};
use memory_prompt::record::Snapshot;
use memory_prompt::token::TokenCounter;
use memory_prompt::window::ToolGroups;
use memory_prompt::{Message, Provider, ToolCall, Truncate};

/// What a memory holds.
#[derive(Clone, Debug)]
pub struct History {
    pub system: Option<Message>,
    pub records: Vec<(u64, Message)>,
    pub start: u64,
    pub end: u64,
}

impl From<&Snapshot> for History {
    fn from(all: &Snapshot) -> Self {
        let records = all.records.iter().map(|it| (it.position(), it.message().clone()));
        Self {
            system: all.system.as_deref().cloned(),
            records: records.collect(),
            start: all.start,
            end: all.end,
        }
    }
}

/// A window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Last(usize),
    Turns(usize),
    All,
    Stepped(usize, usize),
}

/// A token budget.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tokens {
    pub most: usize,
    pub reserve: usize,
    pub marks: Option<(usize, usize)>,
    pub cut_first: bool,
}

/// A processor of the application.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Processor {
    Drops,
    Redacts,
}

/// What it makes of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum Processed {
    Kept,
    Dropped,
    Replaced(Message),
}

impl Processor {
    pub fn process(self, message: &Message) -> Processed {
        let text = message.text();
        match (self, message) {
            (Self::Drops, _) if text.starts_with(['c', 's']) => Processed::Dropped,
            (Self::Redacts, Message::User(_)) if text.contains('b') => {
                Processed::Replaced(Message::user(text.replace('b', "#")))
            }
            _ => Processed::Kept,
        }
    }
}

/// Everything that is configured.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(clippy::struct_excessive_bools)] // settings, each by itself
pub struct Settings {
    /// None: the last 10, or with a budget everything that fits.
    pub window: Option<Kind>,
    pub exactly: bool,
    pub user_first: bool,
    pub groups: ToolGroups,
    /// The limit of truncation, in characters from the head.
    pub cut: Option<usize>,
    pub sparing: bool,
    /// What decides in place of that limit, and whether the limit holds for it, too.
    pub processor: Option<Processor>,
    pub bounded: bool,
    pub placement: Placement,
    pub provider: Option<Provider>,
    pub tokens: Option<Tokens>,
    pub system: Option<String>,
}

impl Settings {
    pub fn kind(&self) -> Kind {
        let default = if self.tokens.is_some() { Kind::All } else { Kind::Last(10) };
        self.window.unwrap_or(default)
    }

    /// Whether the rules about the question, giving way and the user first hold.
    fn kind_to_the_question(&self) -> bool {
        !self.exactly && self.groups != ToolGroups::Off
    }

    /// Whether anything is made shorter where it must be.
    fn truncates(&self) -> bool {
        self.cut.is_some() || self.processor.is_some()
    }

    fn wants_user_first(&self) -> bool {
        use Provider::{Anthropic, Gemini, Mistral, StrictTemplate};
        let provider = matches!(self.provider, Some(Anthropic | Gemini | Mistral | StrictTemplate));
        (self.user_first || provider) && self.kind_to_the_question()
    }

    fn keeps_systems(&self) -> bool {
        use Provider::{Ollama, OpenAi, OpenAiResponses};
        matches!(self.provider, Some(OpenAi | OpenAiResponses | Ollama))
    }

    fn joins_calls(&self) -> bool {
        matches!(self.provider, Some(Provider::Anthropic | Provider::Gemini))
            && self.groups != ToolGroups::Off
    }

    fn is_blank_user(&self, message: &Message) -> bool {
        let Message::User(user) = message else { return false };
        let is_blank = |text: &str| self.is_blank_text(text);
        self.blanks()
            && match user.content() {
                Content::Text(text) => is_blank(text),
                Content::Parts(parts) => {
                    parts.iter().all(|part| part.as_text().is_some_and(is_blank))
                }
            }
    }

    fn blanks(&self) -> bool {
        use Provider::{Anthropic, Gemini, Mistral, StrictTemplate};
        matches!(self.provider, Some(Anthropic | Gemini | Mistral | StrictTemplate))
    }

    fn joins_users(&self) -> bool {
        matches!(self.provider, Some(Provider::Mistral | Provider::StrictTemplate))
    }

    /// Whether this answer says nothing, and the provider refuses that.
    fn is_blank(&self, message: &Message) -> bool {
        let Message::Ai(ai) = message else { return false };
        let says = |part: &AiPart| match part {
            AiPart::ToolCall(_) => true,
            AiPart::Content(part) => part.as_media().is_some(),
            _ => false,
        };
        !ai.parts().iter().any(says) && self.is_blank_text(&ai.text())
    }

    /// Whether the provider refuses a message that says this and no more.
    fn is_blank_text(&self, text: &str) -> bool {
        match self.provider {
            Some(Provider::Anthropic) => text.trim().is_empty(),
            _ => self.blanks() && text.is_empty(),
        }
    }
}

/// Why a record in the window is not sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    Opening,
    NoCall,
    Answered,
    Replaced,
    OverBudget,
    SecondSystem,
    Blank,
    RestOfTurn,
    Dropped,
    GroupDropped,
}

/// One message of the prompt.
#[derive(Clone, Debug, PartialEq)]
pub enum Sent {
    System(Message),
    /// A record by its position, as it is sent, and whether that is a shortened copy.
    Record(u64, Message, bool),
    /// The answer to a call of the message at this position that nothing answers.
    Placeholder(u64, ToolCall),
    /// What is made up if nothing else would be said.
    Added,
    /// Any of these texts, where the rules do not say which.
    Note(Vec<String>),
    Temporary(Message),
}

/// What a build is to give.
#[derive(Clone, Debug)]
pub struct Expected {
    pub sent: Vec<Sent>,
    /// Where the history opened with a system record that became the system message.
    pub opening_system: Option<u64>,
    pub left_out: BTreeMap<u64, Reason>,
    /// How many older records are not sent.
    pub older: u64,
    pub moved: BTreeMap<u64, u64>,
    /// Results that came late and yet stand where they would stand anyway.
    pub may_be_moved: BTreeSet<u64>,
    pub question: Vec<u64>,
    pub note: Vec<u64>,
    pub search_ended: Vec<Option<u64>>,
    pub repaired: Vec<(u64, String)>,
    pub kept_systems: Vec<u64>,
    pub private: u64,
    /// Whether the budget, and not the window, decided where the history begins.
    pub over_budget: bool,
    /// Whether a build that is strict may refuse this: where the rules do not say.
    pub may_fail: bool,
    pub tokens: Option<usize>,
}

impl Expected {
    /// The positions of what is sent from the history, in order.
    pub fn positions(&self) -> Vec<u64> {
        let records = self.sent.iter().filter_map(|sent| match sent {
            Sent::Record(position, ..) => Some(*position),
            _ => None,
        });
        records.collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    ToolGroup,
    Provider,
    Budget,
}

#[derive(Clone, Debug)]
pub enum Outcome {
    Prompt(Box<Expected>),
    Fails(Vec<Failure>),
    /// The rules do not say, or not simply enough; laws must do.
    Undetermined(&'static str),
}

/// "`Message::Custom` of role "custom" without fields: no provider is ever sent them."
pub fn is_private(message: &Message) -> bool {
    matches!(message, Message::Custom(it) if it.role() == "custom" && it.fields().is_empty())
}

/// "A *beginning* is a user message that is not steered."
pub fn is_beginning(message: &Message) -> bool {
    matches!(message, Message::User(it) if it.attributes().get("turn:steered") != Some(&true.into()))
}

pub fn is_stand_in(message: &Message) -> bool {
    matches!(message, Message::Tool(it) if it.attributes().get("turn:stand_in") == Some(&true.into()))
}

/// "Names must agree if both are not empty."
fn agree(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || one == other
}

/// The answer to one call.
#[derive(Clone, Debug)]
struct Answer {
    /// The ai message, and which of its calls.
    call: (usize, usize),
    late: bool,
    /// Whose place it takes: its own, or that of the stand-in that it replaces.
    place: usize,
    /// Whether that place is directly behind the calls.
    direct: bool,
}

/// Who answers whom.
#[derive(Clone, Debug, Default)]
struct Matching {
    answers: Vec<Option<Answer>>,
    /// Why a tool message answers nothing.
    orphan: Vec<Option<Reason>>,
    /// Which result came in the place of a stand-in.
    replaced: Vec<Option<usize>>,
}

fn calls(message: &Message) -> Vec<&ToolCall> {
    message.tool_calls().collect()
}

/// "Private records part nothing; other tool messages are the run": what stands before the run of
/// tool messages that `i` is in.
fn before_the_run(messages: &[&Message], from: usize, i: usize) -> Option<usize> {
    (from..i).rev().find(|j| !messages[*j].is_tool() && !is_private(messages[*j]))
}

/// Nothing before `from` is looked at.
fn match_results(messages: &[&Message], from: usize) -> Matching {
    let n = messages.len();
    let mut matching =
        Matching { answers: vec![None; n], orphan: vec![None; n], replaced: vec![None; n] };
    let mut closed: BTreeSet<(usize, usize)> = BTreeSet::new();
    for i in from..n {
        let message = messages[i];
        // "An ai message with calls first closes every earlier unanswered call of an id that it
        // calls itself."
        for call in calls(message) {
            for (j, before) in messages.iter().enumerate().take(i).skip(from) {
                for (k, earlier) in calls(before).iter().enumerate() {
                    if earlier.id == call.id && !is_answered(&matching, (j, k)) {
                        closed.insert((j, k));
                    }
                }
            }
        }
        let Some(tool) = message.as_tool() else { continue };
        let fits =
            |call: &ToolCall| call.id == tool.call_id() && agree(&call.name, tool.tool_name());
        // "A tool message in the run directly behind an ai message with calls answers the first
        // unanswered call of that message with its id."
        if let Some(j) = before_the_run(messages, from, i) {
            let calls = calls(messages[j]);
            let mut all = calls.iter().enumerate();
            let open = all.position(|(k, call)| fits(call) && !is_answered(&matching, (j, k)));
            if let Some(k) = open {
                let answer = Answer { call: (j, k), late: false, place: i, direct: true };
                matching.answers[i] = Some(answer);
                continue;
            }
        }
        // "Any other tool message is late. If it is no stand-in itself it first replaces the
        // nearest earlier stand-in of the same id and an agreeing tool name that answers a call."
        let stand_in = (from..i).rev().find(|s| {
            let Some(other) = messages[*s].as_tool() else { return false };
            is_stand_in(messages[*s])
                && matching.answers[*s].is_some()
                && matching.replaced[*s].is_none()
                && other.call_id() == tool.call_id()
                && agree(other.tool_name(), tool.tool_name())
                && matching.answers[*s].as_ref().is_some_and(|answer| {
                    agree(&calls(messages[answer.call.0])[answer.call.1].name, tool.tool_name())
                })
        });
        if let Some(s) = stand_in.filter(|_| !is_stand_in(message)) {
            let stood = matching.answers[s].take();
            matching.replaced[s] = Some(i);
            matching.answers[i] = stood.map(|stood| Answer { late: true, ..stood });
            continue;
        }
        // "Else it answers the nearest earlier unanswered, unclosed call of its id; within one
        // message the first such."
        let nearest = (from..i).rev().find_map(|j| {
            let open = calls(messages[j]).iter().enumerate().position(|(k, call)| {
                fits(call) && !is_answered(&matching, (j, k)) && !closed.contains(&(j, k))
            });
            open.map(|k| (j, k))
        });
        if let Some(call) = nearest {
            matching.answers[i] = Some(Answer { call, late: true, place: i, direct: false });
            continue;
        }
        // "Else it is left out: `Answered` where an earlier call of that id and name is answered,
        // else `NoCall`."
        let answered = (from..i).any(|j| {
            let calls = calls(messages[j]);
            calls.iter().enumerate().any(|(k, call)| fits(call) && is_answered(&matching, (j, k)))
        });
        matching.orphan[i] = Some(if answered { Reason::Answered } else { Reason::NoCall });
    }
    matching
}

fn is_answered(matching: &Matching, call: (usize, usize)) -> bool {
    matching.answers.iter().flatten().any(|answer| answer.call == call)
}

/// A message alone, or calls with all that answers them: what is sent whole or not at all.
#[derive(Clone, Debug, PartialEq)]
struct Unit {
    /// The message alone, or the message with calls; several where they are joined.
    heads: Vec<usize>,
    results: Vec<usize>,
    /// The calls that nothing answers.
    open: Vec<(usize, usize)>,
}

impl Unit {
    fn leader(&self) -> usize {
        self.heads[0]
    }

    fn members(&self) -> impl Iterator<Item = usize> + '_ {
        self.heads.iter().chain(&self.results).copied()
    }

    fn newest(&self) -> usize {
        self.members().max().unwrap_or(0)
    }

    fn len(&self) -> usize {
        self.heads.len() + self.results.len()
    }
}

/// Where the window opens.
#[derive(Clone, Debug, Default)]
struct Opening {
    at: usize,
    /// The first record that it covers: before the run on which it would have opened.
    covers: usize,
    /// "Within B records before the place where the window opens."
    from: usize,
    /// The run of results on which it would have opened.
    parted: Vec<usize>,
    /// Where the search for enough records ended.
    ended: Option<usize>,
}

struct Model<'a> {
    history: &'a History,
    settings: &'a Settings,
    /// "B = 64 + 4 * `first_read()` records."
    bound: usize,
    messages: Vec<&'a Message>,
    matching: Matching,
    /// What the answer to a call that nothing answers costs: measured, not known.
    placeholder: &'a dyn Fn(&ToolCall) -> Message,
    counter: &'a dyn TokenCounter,
}

/// What is sent, as it is found step by step.
#[derive(Clone, Debug, Default, PartialEq)]
struct Choice {
    /// All that there is to choose from.
    all: Vec<Unit>,
    units: Vec<Unit>,
    /// Beginnings that stand in front of the window.
    front: Vec<usize>,
    /// Where the window begins, and whether something had to give way for that: for the number of
    /// messages, or for the budget.
    start: usize,
    moved: bool,
    by_budget: bool,
    /// What a budget leaves out alone.
    too_large: Vec<Unit>,
    /// The question of the newest turn, which is sent whatever gives way.
    owed: Vec<usize>,
}

/// What there is to tell of it.
#[derive(Clone, Debug, Default)]
struct Told {
    left_out: BTreeMap<usize, Reason>,
    /// Where searches ended, and where some may have.
    ended: Vec<usize>,
    may_end: Vec<usize>,
    /// Whether a budget dropped groups with calls that nothing answers.
    dropped_repairs: bool,
}

#[derive(Default)]
struct Parts {
    sent: Vec<Sent>,
    repaired: Vec<(u64, String)>,
    kept_systems: Vec<u64>,
}

/// What a build of this history gives, by the rules.
pub fn outcome(
    history: &History,
    temporaries: &[Message],
    settings: &Settings,
    first_read: usize,
    placeholder: &dyn Fn(&ToolCall) -> Message,
    counter: &dyn TokenCounter,
) -> Outcome {
    let messages: Vec<&Message> = history.records.iter().map(|(_, message)| message).collect();
    let bound = first_read.saturating_mul(4).saturating_add(64);
    let nothing = Matching {
        answers: vec![None; messages.len()],
        orphan: vec![None; messages.len()],
        replaced: vec![None; messages.len()],
    };
    let mut model =
        Model { history, settings, bound, messages, matching: nothing, placeholder, counter };
    // "A system record that opens the history (position == start), where the slot is empty and the
    // window reaches back to it." It takes no place then.
    let mut opening = model.opening();
    opening.from = opening.at.saturating_sub(bound);
    // "With Off nothing is matched or moved."
    if model.on() {
        model.matching = match_results(&model.messages, opening.from);
    }
    let whole = model.outcome(temporaries, &opening);
    // "A system record that opens the history (position == start), where the slot is empty and the
    // window reaches back to it." It takes no place then.
    let first = history
        .records
        .first()
        .filter(|(position, it)| *position == history.start && it.is_system());
    let Some((position, system)) = first else { return whole };
    let reaches = !matches!(&whole, Outcome::Prompt(expected) if expected.older > 1);
    if history.system.is_some() || settings.system.is_some() || !reaches {
        return whole;
    }
    let rest = History {
        system: Some(system.clone()),
        records: history.records[1..].to_vec(),
        start: position + 1,
        end: history.end,
    };
    match (outcome(&rest, temporaries, settings, first_read, placeholder, counter), whole) {
        (_, whole @ Outcome::Undetermined(_)) => whole,
        (Outcome::Prompt(mut expected), _) if expected.older == 0 => {
            expected.opening_system = Some(*position);
            Outcome::Prompt(expected)
        }
        (Outcome::Prompt(_), whole) => whole,
        (Outcome::Fails(kinds), Outcome::Fails(more)) => Outcome::Fails([kinds, more].concat()),
        (other, _) => other,
    }
}

impl Model<'_> {
    fn len(&self) -> usize {
        self.messages.len()
    }

    fn position(&self, i: usize) -> u64 {
        self.history.records[i].0
    }

    fn private(&self, i: usize) -> bool {
        is_private(self.messages[i])
    }

    fn calls_at(&self, i: usize) -> bool {
        self.messages[i].tool_calls().next().is_some()
    }

    fn on(&self) -> bool {
        self.settings.groups != ToolGroups::Off
    }

    /// "Beginnings in a row (no ai message between them) are one row."
    fn rows(&self) -> Vec<Vec<usize>> {
        let mut rows: Vec<Vec<usize>> = Vec::new();
        let mut parted = true;
        for (i, message) in self.messages.iter().enumerate() {
            if message.as_ai().is_some() {
                parted = true;
            } else if is_beginning(message) {
                match rows.last_mut() {
                    Some(row) if !parted => row.push(i),
                    _ => rows.push(vec![i]),
                }
                parted = false;
            }
        }
        rows
    }

    // Rule 2: where the window opens

    /// The `n`th newest record that is not private, "looked for over at most n + B records from the
    /// end; where that ends earlier the window opens there".
    fn nth_newest(&self, n: usize) -> Opening {
        let open: Vec<usize> = (0..self.len()).rev().filter(|i| !self.private(*i)).collect();
        let most = n.saturating_add(1024);
        let reach = self.len().saturating_sub(most);
        match open.get(n - 1) {
            Some(at) if *at >= reach => Self::opens(*at),
            _ if reach > 0 => Opening { ended: Some(reach), ..Self::opens(reach) },
            _ => Opening::default(),
        }
    }

    fn opens(at: usize) -> Opening {
        Opening { at, covers: at, ..Opening::default() }
    }

    fn opening(&self) -> Opening {
        match self.settings.kind() {
            Kind::Last(0) | Kind::Turns(0) => Self::opens(self.len()),
            Kind::Last(n) => self.open_on_whole_groups(self.nth_newest(n)),
            Kind::Turns(n) => Self::opens(self.open_on_turn(n)),
            Kind::All => Opening::default(),
            Kind::Stepped(low, step) => self.open_on_step(low, step),
        }
    }

    /// "Where it opens on a tool message: if only tool (and private) messages follow, the window
    /// goes back to what stands before the run if that has calls; else the run is left out
    /// (Opening) and the window opens behind it."
    ///
    /// Taken so: where only tool messages follow and what stands before has no calls, the window
    /// stays where it is, or the newest thing that happened would be sent to nobody. A history of
    /// which nothing was cut opens where it opens.
    fn open_on_whole_groups(&self, opening: Opening) -> Opening {
        let first = (opening.at..self.len()).find(|i| !self.private(*i));
        let Some(first) = first.filter(|i| self.on() && self.messages[*i].is_tool()) else {
            return opening;
        };
        if opening.at == 0 {
            return opening;
        }
        let behind =
            (first..self.len()).find(|i| !self.messages[*i].is_tool() && !self.private(*i));
        match behind {
            Some(behind) => {
                let run = (first..behind).filter(|i| self.messages[*i].is_tool());
                Opening { at: behind, parted: run.collect(), ..opening }
            }
            None => match before_the_run(&self.messages, 0, first) {
                Some(calls) if self.calls_at(calls) => {
                    Opening { at: calls, covers: calls, ..opening }
                }
                _ => opening,
            },
        }
    }

    /// "start = floor(p / step) * step, p = position of the low-th newest record that is not
    /// private. If it opens on a tool run it goes back to the call that stands directly before the
    /// run."
    fn open_on_step(&self, low: usize, step: usize) -> Opening {
        let mut opening = self.nth_newest(low);
        if self.len() == 0 {
            return opening;
        }
        let start = self.position(opening.at) / step as u64 * step as u64;
        opening.at = (0..self.len()).find(|i| self.position(*i) >= start).unwrap_or(self.len());
        let first = (opening.at..self.len()).find(|i| !self.private(*i));
        if let Some(first) = first.filter(|i| self.on() && self.messages[*i].is_tool())
            && let Some(calls) = before_the_run(&self.messages, 0, first)
            && self.calls_at(calls)
        {
            opening.at = calls.min(opening.at);
        }
        opening.covers = opening.at;
        opening.ended = opening.ended.map(|_| opening.at);
        opening
    }

    /// "Opens with the n-th newest row of beginnings (on the first of the row). Where there are
    /// fewer rows: everything. Where that row is the first of the history and at most B records
    /// stand before it, these (a greeting) belong to its turn and are sent. In a history without
    /// any beginning each ai message with its results, and each other message, is a turn of its
    /// own."
    fn open_on_turn(&self, n: usize) -> usize {
        let rows = self.rows();
        if rows.is_empty() {
            // Groups count by their newest members, as everywhere.
            let matching = match_results(&self.messages, 0);
            let newest = |i: usize| {
                let answers = matching.answers.iter().enumerate();
                let own = answers.filter(|(_, it)| it.as_ref().is_some_and(|it| it.call.0 == i));
                own.map(|(result, _)| result).max().unwrap_or(i).max(i)
            };
            let own = |i: &usize| !self.messages[*i].is_tool() && !self.private(*i);
            let mut turns: Vec<usize> = (0..self.len()).filter(own).collect();
            turns.sort_by_key(|i| newest(*i));
            return turns.iter().rev().nth(n - 1).copied().unwrap_or(0);
        }
        match rows.len().checked_sub(n) {
            None => 0,
            Some(0) if rows[0][0] <= self.bound => 0,
            Some(row) => rows[row][0],
        }
    }

    // Rule 1: groups

    /// The group of the calls in the message at `head`: "the ai message, the results that stood
    /// directly behind it in their order, then late ones in order of position, then placeholders
    /// for what nothing answered, in the order of the calls."
    fn group(&self, head: usize) -> Unit {
        let mut results: Vec<(bool, usize, usize)> = Vec::new();
        for (i, answer) in self.matching.answers.iter().enumerate() {
            if let Some(answer) = answer.as_ref().filter(|it| it.call.0 == head) {
                results.push((!answer.direct, answer.place, i));
            }
        }
        results.sort_unstable();
        let mut open = Vec::new();
        if self.on() {
            let calls = (0..self.messages[head].tool_calls().count()).map(|k| (head, k));
            open.extend(calls.filter(|it| !is_answered(&self.matching, *it)));
        }
        Unit { heads: vec![head], results: results.into_iter().map(|it| it.2).collect(), open }
    }

    /// Whether this is never sent, whatever stands around it.
    fn never_sent(&self, i: usize) -> bool {
        let message = self.messages[i];
        self.private(i)
            || (message.is_system() && !self.settings.keeps_systems())
            || self.settings.is_blank(message)
    }

    /// Whether a record is sendable.
    fn parts(&self, i: usize) -> bool {
        let orphan = self.on() && self.messages[i].is_tool() && self.matching.answers[i].is_none();
        !orphan && !self.never_sent(i)
    }

    /// "Anthropic and Gemini: neighbouring ai messages with calls (no other record between) are
    /// joined to one, all results behind."
    fn join(&self, units: Vec<Unit>) -> Vec<Unit> {
        let mut joined: Vec<Unit> = Vec::new();
        for unit in units {
            let head = unit.leader();
            match joined.last_mut() {
                Some(before)
                    if self.settings.joins_calls()
                        && self.calls_at(before.leader())
                        && self.calls_at(head)
                        && (before.heads[before.heads.len() - 1] + 1..head)
                            .all(|between| self.private(between)) =>
                {
                    before.heads.extend(unit.heads);
                    before.results.extend(unit.results);
                    before.open.extend(unit.open);
                }
                _ => joined.push(unit),
            }
        }
        joined
    }

    /// "A result in the window whose call stands before it takes the whole group along, if the call
    /// is within B records before the place where the window opens."
    fn taken_along(&self, opening: &Opening) -> BTreeSet<usize> {
        let answers = self.matching.answers.get(opening.at..).unwrap_or_default();
        let heads = answers.iter().flatten().map(|answer| answer.call.0);
        heads.filter(|head| *head < opening.at && *head >= opening.from).collect()
    }

    // Rule 2: the question, giving way, the user first

    fn half(&self) -> usize {
        match self.settings.kind() {
            Kind::Last(n) | Kind::Stepped(n, _) => (n / 2).max(1),
            Kind::Turns(_) | Kind::All => usize::MAX,
        }
    }

    fn alone(i: usize) -> Unit {
        Unit { heads: vec![i], results: Vec::new(), open: Vec::new() }
    }

    /// "The newest row of beginnings" in these places.
    fn row(&self, places: std::ops::Range<usize>) -> Vec<usize> {
        let mut row = Vec::new();
        for i in places.rev() {
            if is_beginning(self.messages[i]) {
                row.insert(0, i);
            } else if self.messages[i].as_ai().is_some() && !row.is_empty() {
                break;
            }
        }
        row
    }

    /// "Newest first, at most max(1, n/2) of it"; under a budget no more than half of the room, nor
    /// than there is room for beside the newest unit and the questions that are sent already. The
    /// question of the newest turn, beside which there is no other, is owed a place for its last
    /// message.
    fn newest_of(
        &self,
        choice: &Choice,
        row: &[usize],
        others: &[usize],
        purse: Option<&Purse<'_>>,
    ) -> Vec<usize> {
        let mut pieces = row[row.len().saturating_sub(self.half())..].to_vec();
        let Some(purse) = purse else { return pieces };
        let tokens = |i: &usize| (purse.unit)(&Self::alone(*i));
        let newest = choice.all.iter().max_by_key(|unit| unit.newest());
        let newest = newest.filter(|unit| !others.contains(&unit.leader()));
        let beside = newest.map_or(0, |unit| (purse.unit)(unit));
        let beside = beside + others.iter().map(tokens).sum::<usize>();
        let fits = |pieces: &[usize]| {
            let sum: usize = pieces.iter().map(tokens).sum();
            sum + beside <= purse.left && (pieces.len() < 2 || sum <= purse.room / 2)
        };
        let least = usize::from(others.is_empty());
        while pieces.len() > least && !fits(&pieces) {
            pieces.remove(0);
        }
        pieces
    }

    /// "GIVE WAY: if what is sent of the history is more than n, units, oldest first by the
    /// position of their newest member, are not sent, until n holds. The newest unit and the
    /// question always stay." The window begins behind the first that is refused.
    ///
    /// "BUDGET. Walk over units from the newest (by newest member). The newest unit is always
    /// taken; the question is owed its tokens before anything else. A unit that does not fit in
    /// what is left: if it is the first above half of room, it is left out alone (`OverBudget`) and
    /// the walk goes on, else the walk ends."
    fn fill(
        &self,
        choice: &mut Choice,
        opening: &Opening,
        more: &[usize],
        purse: Option<&Purse<'_>>,
    ) {
        let questions: BTreeSet<usize> = more.iter().chain(&choice.owed).copied().collect();
        let most = match self.settings.kind() {
            Kind::Last(n) if self.settings.kind_to_the_question() || !self.on() => n,
            _ => usize::MAX,
        };
        let tokens = |unit: &Unit| purse.map_or(0, |purse| (purse.unit)(unit));
        let asked = questions.iter().map(|i| tokens(&Self::alone(*i))).sum::<usize>();
        let mut left = purse.map_or(usize::MAX, |purse| purse.left.saturating_sub(asked));
        let mut order = choice.all.clone();
        order.sort_by_key(|unit| std::cmp::Reverse(unit.newest()));
        let (mut taken, mut count, mut end) = (Vec::new(), questions.len(), self.len());
        (choice.start, choice.moved, choice.by_budget) = (opening.at, false, false);
        choice.too_large.clear();
        for unit in order {
            if !questions.contains(&unit.leader()) {
                let first = taken.is_empty();
                let fits = tokens(&unit) <= left;
                let large = purse.is_some_and(|purse| tokens(&unit) > purse.room / 2);
                if !first && count.saturating_add(unit.len()) > most {
                    (choice.start, choice.moved) = (end.max(unit.newest() + 1), true);
                    break;
                } else if !first && !fits && large && choice.too_large.is_empty() {
                    end = end.min(self.opens_at(&unit));
                    choice.too_large.push(unit);
                    continue;
                } else if !first && !fits {
                    (choice.start, choice.moved) = (end.max(unit.newest() + 1), true);
                    choice.by_budget = true;
                    break;
                }
                count += unit.len();
                left = left.saturating_sub(tokens(&unit));
            }
            end = end.min(self.opens_at(&unit));
            taken.push(unit);
        }
        let start = choice.start;
        choice.too_large.retain(|unit| unit.newest() >= start);
        choice.front = questions.iter().copied().filter(|i| *i < start).collect();
        taken.retain(|unit| !choice.front.contains(&unit.leader()));
        taken.extend(choice.front.iter().map(|i| Self::alone(*i)));
        taken.sort_by_key(Unit::leader);
        choice.units = taken;
    }

    /// Where the members of a unit begin that stand side by side with its newest.
    fn opens_at(&self, unit: &Unit) -> usize {
        let newest = unit.newest();
        let direct = self.matching.answers[newest].as_ref().is_some_and(|it| !it.late);
        if direct { unit.leader() } else { newest }
    }

    /// What the window holds and takes along, and whether that has anything to do with tools.
    fn candidates(&self, opening: &Opening, told: &mut Told) -> (Vec<Unit>, bool) {
        let along = if self.on() { self.taken_along(opening) } else { BTreeSet::new() };
        let mut holds_tools = !along.is_empty() || !opening.parted.is_empty();
        let mut units: Vec<Unit> = along.into_iter().map(|head| self.group(head)).collect();
        for i in opening.at..self.len() {
            let message = self.messages[i];
            if self.private(i) {
                continue;
            }
            if self.on() && message.is_tool() {
                holds_tools = true;
                if let Some(reason) = self.matching.orphan[i] {
                    told.left_out.insert(i, reason);
                    told.may_end.push(opening.from);
                } else if self.matching.replaced[i].is_some() {
                    told.left_out.insert(i, Reason::Replaced);
                }
            } else if message.is_system() && !self.settings.keeps_systems() {
                told.left_out.insert(i, Reason::SecondSystem);
            } else if self.settings.is_blank(message) {
                told.left_out.insert(i, Reason::Blank);
            } else if self.calls_at(i) {
                holds_tools = true;
                units.push(self.group(i));
            } else {
                units.push(Self::alone(i));
            }
        }
        units.sort_by_key(Unit::leader);
        (units, holds_tools)
    }

    /// "QUESTION: the newest beginning that the window holds, and that is not too large beside what
    /// is newer, stays, and where a budget has ended the walk, its row too, as far as the window
    /// would send it without a budget. Where there is none (for last(n) only if it holds a tool
    /// message or an ai message with calls, or nothing that is sent; in a stepped window and under
    /// a budget always), the question of the newest turn is looked for in the B records before the
    /// place where the window opens. Found: the row stands in front. Not found and the history goes
    /// on before: `search_ended`."
    fn ask(
        &self,
        choice: &mut Choice,
        opening: &Opening,
        told: &mut Told,
        looks: bool,
        purse: Option<&Purse<'_>>,
    ) {
        let held = (choice.start..self.len()).rev().find(|i| is_beginning(self.messages[*i]));
        if let Some(held) = held.filter(|i| choice.too_large.iter().all(|it| it.leader() != *i)) {
            if !choice.by_budget {
                choice.owed = vec![held];
                return;
            }
        } else if !looks {
            return;
        }
        let row = self.row(opening.from..self.len());
        if !row.is_empty() {
            choice.owed = self.newest_of(choice, &row, &[], purse);
            if purse.is_some() {
                let mut by_itself = choice.clone();
                by_itself.owed.clear();
                self.fill(&mut by_itself, opening, &[], None);
                if choice.owed.last().is_some_and(|last| *last >= by_itself.start) {
                    choice.owed.retain(|i| *i >= by_itself.start);
                }
            }
            let sent: BTreeSet<usize> = choice.units.iter().map(Unit::leader).collect();
            if !choice.owed.iter().all(|i| sent.contains(i)) {
                self.fill(choice, opening, &[], purse);
            }
        } else if matches!(self.settings.kind(), Kind::Turns(_)) {
            // All of it was looked at for turns.
            told.may_end.push(opening.from);
        } else if opening.from > 0 {
            told.ended.push(opening.from);
        }
    }

    #[allow(clippy::too_many_lines)] // the rules, in their order
    fn outcome(&self, temporaries: &[Message], opening: &Opening) -> Outcome {
        let settings = self.settings;
        let mut told = Told::default();
        let ended = opening.ended.map(|at| at.min(opening.covers));
        told.ended.extend(ended.filter(|at| *at > 0));
        // "The row of the newest turn's question is not shortened."
        let spared = if settings.sparing { self.row(0..self.len()) } else { Vec::new() };
        let system = self.system(temporaries);
        let weigh = |unit: &Unit| self.unit_tokens(unit, &spared);
        let purse = match settings.tokens {
            Some(budget) => match self.purse(budget, temporaries, system.as_ref(), &weigh) {
                Ok(purse) => Some(purse),
                Err(other) => return other,
            },
            None => None,
        };
        let purse = purse.as_ref();

        let (all, holds_tools) = self.candidates(opening, &mut told);
        let mut choice = Choice { all, ..Choice::default() };
        self.fill(&mut choice, opening, &[], purse);
        let counts = matches!(settings.kind(), Kind::Last(_)) && purse.is_none();
        let nothing = matches!(settings.kind(), Kind::Last(0) | Kind::Turns(0));
        let looks = holds_tools || !counts || choice.all.is_empty();
        if settings.kind_to_the_question() && !nothing {
            self.ask(&mut choice, opening, &mut told, looks, purse);
        }
        if settings.wants_user_first() && !nothing {
            self.user_first(&mut choice, opening, &mut told, purse);
        }
        if let Some(purse) = purse
            && let Err(other) = self.in_budget(&choice, purse)
        {
            return other;
        }
        let members: BTreeSet<usize> = choice.units.iter().flat_map(Unit::members).collect();
        for unit in &choice.too_large {
            told.left_out.extend(unit.members().map(|i| (i, Reason::OverBudget)));
        }
        let kept: BTreeSet<usize> = choice.units.iter().map(Unit::leader).collect();
        let dropped = choice.all.iter().filter(|unit| !kept.contains(&unit.leader()));
        told.dropped_repairs = dropped.into_iter().any(|unit| !unit.open.is_empty());
        let is_over = choice.by_budget || !choice.too_large.is_empty();
        if purse.is_some_and(|purse| purse.cut_first) && is_over {
            return Outcome::Undetermined("cut before anything is dropped");
        }
        let covers = if choice.moved { choice.start } else { opening.covers };
        for i in covers..choice.start {
            if self.on() && self.messages[i].is_tool() {
                told.left_out.insert(i, Reason::Opening);
            }
        }
        told.left_out.retain(|i, _| !members.contains(i) && *i >= covers);
        let older = (0..covers).filter(|i| !members.contains(i)).count() as u64;
        let private = (covers..self.len()).filter(|i| self.private(*i)).count() as u64;
        self.drop_whole_units(&mut choice, &mut told);
        let members: BTreeSet<usize> = choice.units.iter().flat_map(Unit::members).collect();

        choice.units = self.join(std::mem::take(&mut choice.units));
        let mut parts = self.messages_of(&choice, &spared);
        let (moved, may_be_moved) = self.moved(&choice, &members);
        let note = self.note(&choice, &members);
        if !note.is_empty() && settings.tokens.is_some() {
            return Outcome::Undetermined("a note under a budget");
        }
        let late = !moved.is_empty() || !may_be_moved.is_empty();
        let may_fail = match self.strictly(&told, &parts, late) {
            Ok(may_fail) => may_fail,
            Err(fails) => return fails,
        };

        self.place_temporaries(&mut parts.sent, temporaries, &note);
        let blank = self.leave_out_blank_users(&mut parts.sent);
        if self.refuses_the_end(&parts.sent) {
            return Outcome::Fails(vec![Failure::Provider]);
        }
        let is_custom = |it: &Sent| matches!(it, Sent::Record(_, it, _) | Sent::Temporary(it) if matches!(it, Message::Custom(_)));
        let nothing = parts.sent.iter().all(is_custom) && system.is_none();
        if nothing && self.wants_a_message() {
            return Outcome::Fails(vec![Failure::Provider]);
        }
        if self.must_add(&parts.sent, system.is_some()) {
            if settings.tokens.is_some() {
                return Outcome::Undetermined("a message that nobody said under a budget");
            }
            parts.sent.push(Sent::Added);
        }
        if let Some(system) = system {
            parts.sent.insert(0, Sent::System(system));
        }
        let tokens = settings.tokens.map(|_| self.total(&parts.sent));
        let left_out = told.left_out.iter().map(|(i, why)| (self.position(*i), *why));
        let left_out: BTreeMap<_, _> =
            left_out.chain(blank.into_iter().map(|position| (position, Reason::Blank))).collect();
        let moved = moved.iter().map(|(i, call)| (self.position(*i), self.position(*call)));
        // Of what is left out nothing else is told.
        let question = choice.front.iter().map(|i| self.position(*i));
        let question = question.filter(|position| !left_out.contains_key(position)).collect();
        Outcome::Prompt(Box::new(Expected {
            opening_system: None,
            left_out,
            older,
            moved: moved.collect(),
            may_be_moved: may_be_moved.iter().map(|i| self.position(*i)).collect(),
            question,
            note: note.iter().map(|i| self.position(*i)).collect(),
            search_ended: self.search_ended(&told),
            repaired: parts.repaired,
            kept_systems: parts.kept_systems,
            private,
            over_budget: choice.by_budget,
            may_fail,
            tokens,
            sent: parts.sent,
        }))
    }

    /// "The message is left out, and with it the tool group that it belongs to."
    fn drop_whole_units(&self, choice: &mut Choice, told: &mut Told) {
        for unit in &choice.units {
            if unit.members().any(|i| self.drops(i)) {
                let why = |i| if self.drops(i) { Reason::Dropped } else { Reason::GroupDropped };
                told.left_out.extend(unit.members().map(|i| (i, why(i))));
            }
        }
        choice.units.retain(|unit| !unit.members().any(|i| self.drops(i)));
    }

    fn drops(&self, i: usize) -> bool {
        self.processed(i) == Processed::Dropped
    }

    fn processed(&self, i: usize) -> Processed {
        let processor = self.settings.processor;
        processor.map_or(Processed::Kept, |processor| processor.process(self.messages[i]))
    }

    /// The messages of what was chosen.
    fn messages_of(&self, choice: &Choice, spared: &[usize]) -> Parts {
        let mut parts = Parts::default();
        for unit in &choice.units {
            for i in unit.members() {
                let copy = self.shorten(i, spared);
                let cut = copy.is_some();
                let message = copy.unwrap_or_else(|| self.messages[i].clone());
                if message.is_system() {
                    parts.kept_systems.push(self.position(i));
                }
                parts.sent.push(Sent::Record(self.position(i), message, cut));
            }
            for (head, k) in &unit.open {
                let call = calls(self.messages[*head])[*k].clone();
                parts.repaired.push((self.position(*head), call.id.clone()));
                parts.sent.push(Sent::Placeholder(self.position(*head), call));
            }
        }
        parts
    }

    /// With [`ToolGroups::FailOnRepair`] each repair is an error; what only came late need not be
    /// one.
    fn strictly(&self, told: &Told, parts: &Parts, late: bool) -> Result<bool, Outcome> {
        if self.settings.groups != ToolGroups::FailOnRepair {
            return Ok(false);
        }
        let refused = |why: &Reason| matches!(why, Reason::NoCall | Reason::Answered);
        if !parts.repaired.is_empty() || told.left_out.values().any(refused) {
            return Err(Outcome::Fails(vec![Failure::ToolGroup, Failure::Provider]));
        }
        Ok(late
            || self.settings.provider.is_some()
            || told.dropped_repairs
            || self.matching.replaced.iter().any(Option::is_some))
    }

    // The numbers

    /// "The position before which nothing was looked for": each that the rules allow.
    fn search_ended(&self, told: &Told) -> Vec<Option<u64>> {
        let mut allowed = vec![told.ended.iter().min().map(|at| self.position(*at))];
        let others = told.may_end.iter().chain(&told.ended).filter(|at| **at > 0);
        allowed.extend(others.map(|at| Some(self.position(*at))));
        allowed
    }

    /// "USER FIRST, where something was left out before the first message that is sent, and that is
    /// not from the user: the row of the turn in which it stands goes in front (same bound, same
    /// half, same giving way) if there is room for it and anything of its answer is still sent
    /// behind it. Then the first message may be another one, of an older turn. Where there is no
    /// such row, that of the next turn is tried; and what was said before the first message of the
    /// user is left out (`RestOfTurn`), if a beginning is sent." A group whose late result came
    /// behind that beginning is of the later turn.
    fn user_first(
        &self,
        choice: &mut Choice,
        opening: &Opening,
        told: &mut Told,
        purse: Option<&Purse<'_>>,
    ) {
        let (mut front, mut from) = (Vec::new(), 0);
        loop {
            let first = choice.units.iter().map(Unit::leader).find(|i| *i >= from);
            let Some(first) = first.filter(|i| !self.messages[*i].is_user()) else { break };
            let covers = if choice.moved { choice.start } else { opening.covers };
            let none_before = (opening.from..covers).all(|i| self.private(i));
            let none_too_large = choice.too_large.iter().all(|unit| unit.leader() > first);
            if none_before && none_too_large && opening.from == 0 {
                return;
            }
            let next = (first + 1..self.len()).find(|i| is_beginning(self.messages[*i]));
            let next = next.unwrap_or(self.len());
            let row = self.row(opening.from.min(first)..first);
            if row.is_empty() {
                told.may_end.push(opening.from);
                from = next;
                continue;
            }
            let others = [&choice.owed[..], &front].concat();
            let row = self.newest_of(choice, &row, &others, purse);
            let Some(asked) = row.last().copied() else {
                from = next;
                continue;
            };
            let turn = asked + 1..next;
            let with_it = [&row[..], &front].concat();
            self.fill(choice, opening, &with_it, purse);
            if !choice.units.iter().any(|unit| turn.contains(&unit.leader())) {
                self.fill(choice, opening, &front, purse);
                from = next;
                continue;
            }
            choice.front.sort_unstable();
            front = with_it;
        }
        let heads = || choice.units.iter().map(Unit::leader);
        let asked = heads().find(|i| is_beginning(self.messages[*i]));
        let opens = heads().find(|i| self.messages[*i].is_user());
        let (Some(asked), Some(opens)) = (asked, opens) else { return };
        if choice.units.first().is_some_and(|unit| self.messages[unit.leader()].is_user()) {
            return;
        }
        let is_older = |unit: &Unit| unit.leader() < opens && unit.newest() < asked;
        for unit in choice.units.iter().filter(|unit| is_older(unit)) {
            told.left_out.extend(unit.members().map(|i| (i, Reason::RestOfTurn)));
        }
        choice.units.retain(|unit| !is_older(unit));
    }

    // Rule 3: the budget

    /// Where the rules do not say enough for a number.
    fn beyond_simple_budgets(&self) -> Option<&'static str> {
        let settings = self.settings;
        let tokens = settings.tokens?;
        if tokens.marks.is_some() {
            return Some("a stepped budget");
        }
        if !matches!(
            settings.provider,
            None | Some(Provider::OpenAi | Provider::OpenAiResponses | Provider::Ollama)
        ) {
            return Some("a budget for a provider that is sent what nobody said");
        }
        let named =
            self.messages.iter().flat_map(|it| it.tool_calls()).all(|it| !it.name.is_empty());
        if !named && matches!(settings.provider, Some(Provider::OpenAi | Provider::OpenAiResponses))
        {
            return Some("a budget for a provider that is sent another name of a tool");
        }
        if self.len() > self.bound {
            return Some("a budget over more than is looked through");
        }
        None
    }

    fn tokens(&self, message: &Message) -> usize {
        self.counter.count(message).unwrap_or(usize::MAX)
    }

    /// "Unit = group with late results and placeholders." What a processor leaves out has none.
    fn unit_tokens(&self, unit: &Unit, spared: &[usize]) -> usize {
        if unit.members().any(|i| self.drops(i)) {
            return 0;
        }
        let records = unit.members().map(|i| {
            let copy = self.shorten(i, spared);
            self.tokens(copy.as_ref().unwrap_or(self.messages[i]))
        });
        let open = unit
            .open
            .iter()
            .map(|(head, k)| self.tokens(&(self.placeholder)(calls(self.messages[*head])[*k])));
        records.chain(open).sum()
    }

    /// "room = min(budget - reserve, high) - reply overhead - system message without temporaries",
    /// and what is left of the budget for this prompt.
    fn purse<'p>(
        &self,
        budget: Tokens,
        temporaries: &[Message],
        system: Option<&Message>,
        unit: &'p dyn Fn(&Unit) -> usize,
    ) -> Result<Purse<'p>, Outcome> {
        if let Some(why) = self.beyond_simple_budgets() {
            return Err(Outcome::Undetermined(why));
        }
        let reply = self.counter.overhead().reply;
        let all = budget.most.saturating_sub(budget.reserve);
        let base = self.system(&[]).map_or(0, |it| self.tokens(&it));
        let others = temporaries.iter().filter(|it| !it.is_system());
        let fixed = reply
            + system.map_or(0, |it| self.tokens(it))
            + others.map(|it| self.tokens(it)).sum::<usize>();
        Ok(Purse {
            room: all.saturating_sub(reply).saturating_sub(base),
            left: all.saturating_sub(fixed),
            holds: fixed <= all,
            cuts: self.settings.truncates(),
            cut_first: budget.cut_first && self.settings.truncates(),
            unit,
        })
    }

    /// Whether what must stay fits.
    fn in_budget(&self, choice: &Choice, purse: &Purse<'_>) -> Result<(), Outcome> {
        let sum = choice.units.iter().map(|unit| (purse.unit)(unit)).sum::<usize>();
        if purse.holds && sum <= purse.left {
            return Ok(());
        }
        if purse.cuts {
            return Err(Outcome::Undetermined("what must stay is cut to fit the budget"));
        }
        let strict = self.settings.groups == ToolGroups::FailOnRepair;
        let other = strict.then_some(Failure::ToolGroup);
        let says_nothing = |unit: &Unit| matches!(self.messages[unit.leader()], Message::Custom(_));
        let nothing = choice.units.iter().all(says_nothing) || strict;
        let nothing = nothing.then_some(Failure::Provider);
        let failures = [Some(Failure::Budget), other, nothing];
        Err(Outcome::Fails(failures.into_iter().flatten().collect()))
    }

    fn total(&self, sent: &[Sent]) -> usize {
        let tokens = sent.iter().map(|sent| match sent {
            Sent::System(it) | Sent::Record(_, it, _) | Sent::Temporary(it) => self.tokens(it),
            Sent::Placeholder(_, call) => self.tokens(&(self.placeholder)(call)),
            Sent::Note(_) | Sent::Added => 0,
        });
        self.counter.overhead().reply + tokens.sum::<usize>()
    }

    // Rules 4 and 6

    /// "Own > slot > a system record that opens the history. A temporary system message appends its
    /// text behind a blank line; base keeps name and attributes; an empty one appends nothing."
    fn system(&self, temporaries: &[Message]) -> Option<Message> {
        let own = self.settings.system.as_ref().map(|text| Message::system(text.clone()));
        let base = own.or_else(|| self.history.system.clone());
        // "An empty one is none."
        let says = |it: &Message| match it {
            Message::System(it) => !it.text().is_empty() || !it.attributes().is_empty(),
            _ => false,
        };
        let base = base.filter(says);
        let more = temporaries.iter().filter(|it| it.is_system() && !it.text().is_empty());
        more.fold(base, |base, it| {
            let Some(Message::System(base)) = base else { return Some(it.clone()) };
            let text = match base.text() {
                "" => it.text().into_owned(),
                text => format!("{text}\n\n{}", it.text()),
            };
            let mut joined = SystemMessage::new(text);
            if let Some(name) = base.name() {
                joined = joined.with_name(name);
            }
            for (key, value) in base.attributes() {
                joined = joined.with_attribute(key.clone(), value.clone());
            }
            Some(joined.into())
        })
    }

    /// A shortened copy, where it is too long. "The row of the newest turn's question is not
    /// shortened", but a processor, which decides in place of the cut, sees it all the same.
    fn shorten(&self, i: usize, spared: &[usize]) -> Option<Message> {
        let cut = |message: &Message| {
            if spared.contains(&i) || message.is_system() {
                return None;
            }
            Truncate::chars(self.settings.cut?).ok()?.shorten(message)
        };
        let cuts = self.settings.processor.is_none() || self.settings.bounded;
        match self.processed(i) {
            Processed::Replaced(copy) if cuts => Some(cut(&copy).unwrap_or(copy)),
            Processed::Replaced(copy) => Some(copy),
            _ if cuts => cut(self.messages[i]),
            _ => None,
        }
    }

    // What is told

    /// "Result at position is sent behind the call at position `call` and not in its place."
    fn moved(
        &self,
        choice: &Choice,
        sent: &BTreeSet<usize>,
    ) -> (BTreeMap<usize, usize>, BTreeSet<usize>) {
        let (mut moved, mut may) = (BTreeMap::new(), BTreeSet::new());
        for unit in &choice.units {
            for (at, result) in unit.results.iter().enumerate() {
                let Some(answer) = &self.matching.answers[*result] else { continue };
                if !answer.late {
                    continue;
                }
                // In its place it stands if nothing that is sent was between it and what it is
                // behind.
                let before = match at {
                    0 => unit.heads[unit.heads.len() - 1],
                    _ => unit.results[at - 1],
                };
                let parted = (before + 1..*result).any(|i| sent.contains(&i));
                if before < *result && !parted {
                    may.insert(*result);
                } else {
                    moved.insert(*result, answer.call.0);
                }
            }
        }
        (moved, may)
    }

    /// "Where the newest sendable record is a moved result and the last message of the history as
    /// sent is then an ai message without calls, a user message stands behind the history. The
    /// newest moved results in a row are announced."
    fn note(&self, choice: &Choice, sent: &BTreeSet<usize>) -> Vec<usize> {
        let Some(last) = choice.units.last() else { return Vec::new() };
        let is_answer = |i: usize| self.messages[i].as_ai().is_some() && !self.calls_at(i);
        if !(is_answer(last.leader()) && last.results.is_empty()) {
            return Vec::new();
        }
        let mut note = Vec::new();
        for i in (0..self.len()).rev().filter(|i| self.parts(*i)) {
            let late = self.matching.answers[i].as_ref().is_some_and(|it| it.late);
            if !(late && sent.contains(&i)) {
                break;
            }
            note.push(i);
        }
        note.reverse();
        note
    }

    /// "The result of book has arrived, see above." / "The results of a, b have arrived, see
    /// above.", call id in quotes where the tool has no name.
    fn note_texts(&self, note: &[usize]) -> Vec<String> {
        let name = |i: usize, of_the_call: bool| {
            let Some(tool) = self.messages[i].as_tool() else { return String::new() };
            let call = self.matching.answers[i].as_ref().map(|answer| answer.call);
            let called = call.map(|(head, k)| calls(self.messages[head])[k].name.clone());
            let called = called.filter(|_| of_the_call).unwrap_or_default();
            match (tool.tool_name(), &*called) {
                ("", "") => format!("\"{}\"", tool.call_id()),
                ("", called) => called.to_owned(),
                (name, _) => name.to_owned(),
            }
        };
        let text = |names: Vec<String>| match &names[..] {
            [one] => format!("The result of {one} has arrived, see above."),
            _ => format!("The results of {} have arrived, see above.", names.join(", ")),
        };
        [true, false].map(|call| text(note.iter().map(|i| name(*i, call)).collect())).to_vec()
    }

    /// Behind everything; "right before the last user message; at the end where the history sends
    /// none"; or right behind the system message. The note stands "behind the history, before
    /// temporaries at the end".
    fn place_temporaries(&self, sent: &mut Vec<Sent>, temporaries: &[Message], note: &[usize]) {
        if !note.is_empty() {
            sent.push(Sent::Note(self.note_texts(note)));
        }
        let user = |it: &Sent| matches!(it, Sent::Record(_, message, _) if message.is_user());
        let at = match self.settings.placement {
            Placement::AfterSystem => 0,
            Placement::BeforeLastUser => sent.iter().rposition(user).unwrap_or(sent.len()),
            _ => sent.len(),
        };
        let others = temporaries.iter().filter(|it| !it.is_system()).cloned();
        sent.splice(at..at, others.map(Sent::Temporary));
    }

    /// "Where neighbours are joined, a user message that is blank is left out where the user says
    /// more right before it or right behind it."
    fn leave_out_blank_users(&self, sent: &mut Vec<Sent>) -> Vec<u64> {
        let turns = self.settings.joins_users();
        let message = |sent: &Sent| match sent {
            Sent::Record(_, it, _) | Sent::Temporary(it) => Some(it.clone()),
            Sent::Note(_) => Some(Message::user("a note")),
            Sent::Placeholder(..) => Some(Message::tool("", "", "a placeholder")),
            Sent::System(_) | Sent::Added => None,
        };
        let said = |sent: &Sent| message(sent).filter(|it| !matches!(it, Message::Custom(_)));
        let mut out = Vec::new();
        let mut i = 0;
        while i < sent.len() {
            let blank = match &sent[i] {
                Sent::Record(position, it, _) if self.settings.is_blank_user(it) => Some(*position),
                _ => None,
            };
            let before = sent[..i].iter().rev().find_map(said).is_some_and(|it| it.is_user());
            let behind = sent[i + 1..].iter().filter_map(said).take_while(Message::is_user);
            let behind = behind.into_iter().any(|it| !self.settings.is_blank_user(&it));
            match blank.filter(|_| turns && (before || behind)) {
                Some(position) => {
                    out.push(position);
                    sent.remove(i);
                }
                None => i += 1,
            }
        }
        out
    }

    /// "A prompt does not end in an answer": one that the caller said is refused, one of the
    /// history only if nothing may be repaired.
    fn refuses_the_end(&self, sent: &[Sent]) -> bool {
        use Provider::{Anthropic, Mistral, StrictTemplate};
        let is_custom = |it: &Message| matches!(it, Message::Custom(_));
        let last = sent.iter().rev().find(|sent| match sent {
            Sent::Record(_, it, _) | Sent::Temporary(it) => !is_custom(it),
            _ => true,
        });
        let is_answer = |it: &Message| it.as_ai().is_some() && !it.has_tool_calls();
        let refused = match last {
            Some(Sent::Temporary(it)) => is_answer(it),
            Some(Sent::Record(_, it, _)) => {
                is_answer(it) && self.settings.groups == ToolGroups::FailOnRepair
            }
            _ => false,
        };
        refused && matches!(self.settings.provider, Some(Anthropic | Mistral | StrictTemplate))
    }

    /// Whether nothing that is sent is of the user, the model or a tool, and the provider wants
    /// such a message.
    fn must_add(&self, sent: &[Sent], system: bool) -> bool {
        let is_said = |sent: &Sent| match sent {
            Sent::Record(_, it, _) | Sent::Temporary(it) => {
                !matches!(it, Message::Custom(_) | Message::System(_))
            }
            _ => true,
        };
        if sent.iter().any(is_said) {
            return false;
        }
        let system = system || sent.iter().any(is_system);
        match self.settings.provider {
            None | Some(Provider::Ollama) => false,
            Some(Provider::OpenAi) => !system,
            Some(_) => true,
        }
    }

    fn wants_a_message(&self) -> bool {
        self.settings.provider.is_some_and(|provider| provider != Provider::Ollama)
    }
}

fn is_system(sent: &Sent) -> bool {
    matches!(sent, Sent::Record(_, it, _) | Sent::Temporary(it) if it.is_system())
}

/// What a budget has for the history.
struct Purse<'a> {
    /// All that there can ever be, and what there is for this prompt.
    room: usize,
    left: usize,
    /// Whether what is not history fits.
    holds: bool,
    cuts: bool,
    cut_first: bool,
    unit: &'a dyn Fn(&Unit) -> usize,
}

/// The calls that no stored result answers, each by the position of its message and its id.
pub fn unanswered(history: &History) -> BTreeSet<(u64, String)> {
    let messages: Vec<&Message> = history.records.iter().map(|(_, message)| message).collect();
    let matching = match_results(&messages, 0);
    let mut open = BTreeSet::new();
    for (i, message) in messages.iter().enumerate() {
        for (k, call) in calls(message).iter().enumerate() {
            if !is_answered(&matching, (i, k)) {
                open.insert((history.records[i].0, call.id.clone()));
            }
        }
    }
    open
}

/// Whether the processor drops this message.
pub fn is_dropped(settings: &Settings, message: &Message) -> bool {
    settings.processor.is_some_and(|processor| processor.process(message) == Processed::Dropped)
}

/// The newest record, if nothing could be a reason to leave it out.
pub fn newest_that_must_stay(history: &History, settings: &Settings) -> Option<u64> {
    let said = history.records.iter().rev().find(|(_, message)| !is_private(message))?;
    if is_dropped(settings, &said.1) {
        return None;
    }
    let plain = match &said.1 {
        // One that is blank adds nothing to what the user says beside it.
        Message::User(_) => !settings.is_blank_user(&said.1) || !settings.joins_users(),
        Message::Ai(_) => !settings.is_blank(&said.1),
        _ => false,
    };
    plain.then_some(said.0)
}

/// The model's own tests: each rule by hand, in a few words.
mod checks {
    use super::*;
    use crate::notation::{conversation, written};

    fn words(text: &str) -> usize {
        text.split_whitespace().count()
    }

    fn placeholder(call: &ToolCall) -> Message {
        Message::tool(call.id.clone(), call.name.clone(), "no result was recorded")
    }

    fn expected(history: &str, settings: &Settings, first_read: usize) -> Outcome {
        let mut records = Vec::new();
        let mut system = None;
        for (i, message) in conversation(history).into_iter().enumerate() {
            if message.is_system() && settings.system.as_deref() == Some("slot") {
                system = Some(message);
            } else {
                records.push((i as u64, message));
            }
        }
        let end = records.len() as u64;
        let history = History { system, records, start: 0, end };
        outcome(&history, &[], settings, first_read, &placeholder, &words)
    }

    fn sends(history: &str, settings: &Settings) -> String {
        match expected(history, settings, 0) {
            Outcome::Prompt(expected) => {
                let sent = expected.sent.iter().map(|sent| match sent {
                    Sent::Record(_, it, _) | Sent::System(it) => written(it),
                    Sent::Placeholder(_, call) => format!("t:{}=?", call.id),
                    Sent::Added => "added".to_owned(),
                    Sent::Note(texts) => format!("note:{}", texts[0].replace(' ', "_")),
                    Sent::Temporary(it) => format!("({})", written(it)),
                });
                sent.collect::<Vec<_>>().join(" ")
            }
            other => format!("{other:?}"),
        }
    }

    /// Each row is a history and, behind `=>`, what is sent of it.
    fn check(settings: &Settings, table: &str) {
        for (history, expected) in table.lines().filter_map(|row| row.trim().split_once(" => ")) {
            assert_eq!(sends(history, settings), expected, "{history}");
        }
    }

    fn window(kind: Kind) -> Settings {
        Settings { window: Some(kind), ..Settings::default() }
    }

    fn last(n: usize) -> Settings {
        window(Kind::Last(n))
    }

    fn provider(provider: Provider, n: usize) -> Settings {
        Settings { provider: Some(provider), ..last(n) }
    }

    #[test]
    fn answers_go_to_their_calls() {
        let table = r#"
            u:q call:1 u:well t:1=x => u:q call:1 t:1=x u:well
            call:1 call:2 t:1=x t:2=y => call:1 t:1=x call:2 t:2=y
            call:0 t:0=x call:0 t:0=y => call:0 t:0=x call:0 t:0=y
            call:0 u:no call:0 u:so t:0=y => call:0 t:0=? u:no call:0 t:0=y u:so
            call:1/a u:so t:1/b=x => call:1/a t:1=? u:so
            call:1/a u:so t:1/=x => call:1/a t:1/=x u:so
            call:1 wait:1=soon u:so t:1=x => call:1 t:1=x u:so
            call:1 wait:1=soon t:1=x => call:1 t:1=x
            call:1 t:1=x t:1=y => call:1 t:1=x
            call:1,2 log:x t:2=x u:so t:1=y => call:1,2 t:2=x t:1=y u:so
            call:1,2,3 wait:2=soon t:3=z u:so t:1=x t:2=y => call:1,2,3 t:2=y t:3=z t:1=x u:so
            u:q call:1/book u:so a:wait t:1/book=x => u:q call:1/book t:1/book=x u:so a:wait note:The_result_of_book_has_arrived,_see_above.
            call:1/,2/b u:so a:wait t:1/=x log:x t:2/b=y => call:1/,2/b t:1/=x t:2/b=y u:so a:wait note:The_results_of_"1",_b_have_arrived,_see_above.
        "#;
        check(&window(Kind::All), table);
    }

    #[test]
    fn neighbouring_calls_are_joined_for_some() {
        let joined = Settings { provider: Some(Provider::Anthropic), ..window(Kind::All) };
        let table = "
            u:q call:1 call:2 t:1=x t:2=y => u:q call:1 call:2 t:1=x t:2=y
            u:q call:1 call:2 t:2=y => u:q call:1 call:2 t:2=y t:1=?";
        check(&joined, table);
    }

    #[test]
    fn windows_open_on_whole_groups() {
        let history = "u:q call:1,2 t:1=x t:2=y";
        assert_eq!(sends(history, &last(1)), "u:q call:1,2 t:1=x t:2=y");
        assert_eq!(sends(&format!("{history} a:done"), &last(2)), "u:q a:done");
        assert_eq!(sends(&format!("{history} a:done"), &last(4)), "u:q a:done");
        assert_eq!(sends(&format!("{history} a:done"), &last(5)), format!("{history} a:done"));
        // Records of the application's own take no place.
        assert_eq!(sends("u:one a:two log:1 log:2 u:three log:3", &last(2)), "a:two u:three");
        // A step goes back to the calls.
        assert_eq!(sends(history, &window(Kind::Stepped(1, 1))), "u:q call:1,2 t:1=x t:2=y");
        assert_eq!(sends("u:0 u:1 u:2 u:3 u:4", &window(Kind::Stepped(2, 2))), "u:2 u:3 u:4");
        assert_eq!(sends("u:0 log:1 u:2 log:3 u:4", &window(Kind::Stepped(2, 2))), "u:2 u:4");
    }

    #[test]
    fn turns_begin_with_rows() {
        let turns = |n| window(Kind::Turns(n));
        assert_eq!(sends("a:hi u:q a:x", &turns(1)), "a:hi u:q a:x");
        let history = "u:old a:x u:one u:two log:1 u:three a:y steer:no";
        assert_eq!(sends(history, &turns(1)), "u:one u:two u:three a:y steer:no");
        assert_eq!(sends("a:1 call:c t:c=x a:2", &turns(2)), "call:c t:c=x a:2");
        assert_eq!(sends("a:1 a:2", &turns(0)), "");
    }

    #[test]
    fn a_late_result_takes_its_group_along() {
        let history = "u:q call:1 u:well a:a u:and a:b t:1=x";
        let expected = "call:1 t:1=x u:and a:b note:The_result_of_look_has_arrived,_see_above.";
        assert_eq!(sends(history, &last(4)), expected);
        // The oldest give way so that n holds; the question and the newest stay.
        assert_eq!(sends(history, &last(3)), "call:1 t:1=x u:and");
        assert_eq!(sends(history, &last(1)), "call:1 t:1=x u:and");
    }

    #[test]
    fn the_question_of_the_turn_stays() {
        let loops = "u:old a:x u:one u:two call:1 t:1=a call:2 t:2=b call:3 t:3=c";
        assert_eq!(sends(loops, &last(4)), "u:one u:two call:3 t:3=c");
        assert_eq!(sends(loops, &last(2)), "u:two call:3 t:3=c");
        let exactly = Settings { exactly: true, ..last(4) };
        assert_eq!(sends(loops, &exactly), "call:2 t:2=b call:3 t:3=c");
        let stepped = window(Kind::Stepped(4, 2));
        assert_eq!(sends(loops, &stepped), "u:one u:two call:2 t:2=b call:3 t:3=c");
        // Nothing but what was said: the last n.
        assert_eq!(sends("u:q a:1 a:2 a:3", &last(2)), "a:2 a:3");
    }

    #[test]
    fn the_question_is_looked_for_so_far_and_no_further() {
        let loops = |n: usize| format!("u:q{}", " call:1 t:1=x".repeat(n));
        assert!(sends(&loops(33), &last(4)).starts_with("u:q call"));
        assert!(sends(&loops(35), &last(4)).starts_with("call"));
        let Outcome::Prompt(expected) = expected(&loops(35), &last(4), 0) else { panic!() };
        assert_eq!(expected.search_ended, [Some(71 - 4 - 64), Some(3)]);
    }

    #[test]
    fn the_user_comes_first_for_some() {
        use Provider::Anthropic;
        assert_eq!(sends("a:hi u:q a:x", &provider(Anthropic, 3)), "a:hi u:q a:x");
        assert_eq!(sends("u:q a:1 a:2 u:r", &provider(Anthropic, 3)), "u:q a:2 u:r");
        // Nothing of its answer would still be sent behind the question.
        assert_eq!(sends("u:q a:1 a:2 u:r", &provider(Anthropic, 2)), "u:r");
        assert_eq!(sends("a:0 a:1 u:q a:2", &provider(Anthropic, 3)), "u:q a:2");
        assert_eq!(sends("u:q a:1 a:2", &provider(Anthropic, 1)), "u:q a:2");
        assert_eq!(sends("u:q a:1 a:2", &Settings { user_first: true, ..last(1) }), "u:q a:2");
        let exactly = Settings { user_first: true, exactly: true, ..last(1) };
        assert_eq!(sends("u:q a:1 a:2", &exactly), "a:2");
    }

    #[test]
    fn a_budget_drops_the_oldest_and_what_can_never_fit() {
        // A message of one word is 5 tokens, the reply 3.
        let tokens = |most| Some(Tokens { most, reserve: 0, marks: None, cut_first: false });
        let budget = |n| Settings { tokens: tokens(n), ..Settings::default() };
        assert_eq!(sends("u:1 a:2 u:3 a:4", &budget(3 + 10)), "u:3 a:4");
        assert_eq!(sends("u:1 a:2 a:3 a:4", &budget(3 + 10)), "u:1 a:4");
        assert_eq!(sends("u:1 a:2 a:3 a:4", &budget(3 + 9)), "Fails([Budget])");
        let paste = format!("u:1 a:{}2 u:3 a:4", "word_".repeat(20));
        assert_eq!(sends(&paste, &budget(3 + 15)), "u:1 u:3 a:4");
        let small = "u:1 a:word_word_2 u:3 a:4";
        assert_eq!(sends(small, &budget(3 + 15)), "u:3 a:4");
    }

    #[test]
    fn system_records() {
        let openai = Settings { provider: Some(Provider::OpenAi), ..last(4) };
        assert_eq!(sends("s:be u:q s:now u:r", &openai), "s:be u:q s:now u:r");
        assert_eq!(sends("s:be u:q s:now u:r", &last(4)), "s:be u:q u:r");
        assert_eq!(sends("s:be u:q s:now u:r", &last(3)), "s:be u:q u:r");
        assert_eq!(sends("s:be u:q s:now u:r", &last(2)), "u:r");
    }
}
