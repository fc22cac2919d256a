//! Nasty conversations, and checks that know nothing of how prompts are composed.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

use memory_prompt::message::{AiMessage, Part};
use memory_prompt::{Message, ToolCall};
use proptest::prelude::*;

/// Texts that are empty, short, long, and hard to cut.
pub fn text() -> impl Strategy<Value = String> {
    let cluster = prop_oneof![
        4 => "[a-z ]{1,8}",
        1 => Just("\r\n".to_owned()),
        1 => Just("👩‍👩‍👧".to_owned()),
        1 => Just("🇳🇴🇳".to_owned()),
        1 => Just("e\u{301}".to_owned()),
        1 => Just("क्षि".to_owned()),
        1 => Just("漢字かな".to_owned()),
        1 => (1usize..80).prop_map(|n| format!("z{}", "\u{300}".repeat(n))),
    ];
    prop_oneof![
        1 => Just(String::new()),
        6 => proptest::collection::vec(cluster, 1..8).prop_map(|v| v.concat()),
        1 => "[a-z]{30,60}",
    ]
}

/// A few ids, so that they repeat.
fn call_id() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => proptest::sample::select(vec!["c0", "c1", "c2", ""]).prop_map(str::to_owned),
        1 => (40usize..90).prop_map(|n| "call_".to_owned() + &"l".repeat(n)),
    ]
}

fn call() -> impl Strategy<Value = ToolCall> {
    // Now and then the model was cut off.
    let arguments = prop_oneof![9 => Just(r#"{"x":1}"#), 1 => Just(r#"{"x":"#), 1 => Just("")];
    (call_id(), arguments).prop_map(|(id, arguments)| ToolCall::new(id, "look", arguments))
}

fn content() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        3 => text().prop_map(Part::text),
        1 => Just(Part::Image(memory_prompt::message::Media::url("https://e.x/a.png"))),
    ];
    proptest::collection::vec(part, 0..4)
}

fn user() -> impl Strategy<Value = Message> {
    prop_oneof![
        4 => text().prop_map(Message::user),
        1 => content().prop_map(Message::user),
    ]
}

fn result() -> impl Strategy<Value = Message> {
    (call_id(), text()).prop_map(|(id, text)| Message::tool(id, "look", text))
}

/// Calls with their results: in any order, some missing, some twice, some of nobody's.
fn group() -> impl Strategy<Value = Vec<Message>> {
    let calls = proptest::collection::vec(call(), 1..5);
    (calls, text(), any::<bool>(), text()).prop_flat_map(|(calls, said, thinks, answer)| {
        let mut ai = AiMessage::new(said);
        if thinks {
            ai = ai
                .with_reasoning(memory_prompt::message::Reasoning::new("hm").with_signature("sig"));
        }
        let ids: Vec<String> = calls.iter().map(|call| call.id.clone()).collect();
        let ai = calls.into_iter().fold(ai, AiMessage::with_tool_call);
        let results = ids.into_iter().map(move |id| Message::tool(id, "look", answer.clone()));
        let results: Vec<_> = results.collect();
        let all = Just(results.clone()).prop_shuffle();
        let some = proptest::sample::subsequence(results.clone(), 0..=results.len());
        let extra = result().prop_map(move |extra| [results.clone(), vec![extra]].concat());
        prop_oneof![4 => all, 1 => some, 1 => extra]
            .prop_map(move |results| [vec![Message::Ai(ai.clone())], results].concat())
    })
}

/// Any history, of up to `steps` turns and groups.
pub fn conversation(steps: usize) -> impl Strategy<Value = Vec<Message>> {
    let step = prop_oneof![
        4 => user().prop_map(|m| vec![m]),
        3 => text().prop_map(|t| vec![Message::ai(t)]),
        4 => group(),
        1 => result().prop_map(|m| vec![m]),
        1 => Just(vec![Message::custom([("k".to_owned(), 1.into())])]),
        1 => text().prop_map(|t| vec![Message::system(t)]),
    ];
    proptest::collection::vec(step, 0..steps).prop_map(|steps| steps.concat())
}

/// Temporary messages: some of them tool results, some of them system messages.
pub fn temporaries() -> impl Strategy<Value = Vec<Message>> {
    let one = prop_oneof![
        4 => user().prop_map(|m| vec![m]),
        1 => result().prop_map(|m| vec![m]),
        1 => group(),
        1 => text().prop_map(|t| vec![Message::ai(t)]),
    ];
    proptest::collection::vec(one, 0..3).prop_map(|steps| steps.concat())
}

/// The history without system messages, as a memory holds it.
pub fn stored(conversation: &[Message]) -> Vec<Message> {
    conversation.iter().filter(|m| !m.is_system()).cloned().collect()
}

/// What is wrong with the tool groups of a list, by the providers' rule: results stand directly
/// behind their calls, one for each call, and nowhere else. Calls and results count one by one, for
/// ids may repeat.
pub fn broken_groups<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut waiting: Vec<&str> = Vec::new();
    for (i, message) in messages.into_iter().enumerate() {
        if let Some(tool) = message.as_tool() {
            match waiting.iter().position(|id| *id == tool.call_id()) {
                Some(found) => drop(waiting.swap_remove(found)),
                None => wrong.push(format!("{i}: result {:?} without call", tool.call_id())),
            }
        } else {
            wrong.extend(waiting.drain(..).map(|id| format!("{i}: call {id:?} without result")));
            waiting.extend(message.tool_calls().map(|call| call.id.as_str()));
        }
    }
    wrong.extend(waiting.iter().map(|id| format!("end: call {id:?} without result")));
    wrong
}

/// The last `n` of a history by the rule in words: whole units, where a unit is an answer with tool
/// calls and all results behind it, or any other message alone; the unit in which the history ends
/// is whole even when it is larger than `n`.
pub fn last_whole_units(history: &[Message], n: usize) -> &[Message] {
    if n == 0 {
        return &[];
    }
    let cut = history.len().saturating_sub(n);
    let mut unit_start = 0;
    let mut starts = Vec::new();
    for (i, message) in history.iter().enumerate() {
        let in_group = i > 0 && message.is_tool() && {
            let unit: &Message = &history[unit_start];
            unit.tool_calls().next().is_some()
        };
        if !in_group {
            unit_start = i;
            starts.push(i);
        }
    }
    let first_whole = starts.iter().copied().find(|start| *start >= cut);
    match first_whole {
        Some(start) => &history[start..],
        None => &history[starts.last().copied().unwrap_or(history.len())..],
    }
}

/// What a user sees as one character, counted as the documentation says.
pub fn characters(text: &str) -> usize {
    use unicode_segmentation::UnicodeSegmentation;
    text.graphemes(true).map(|cluster| cluster.chars().count().div_ceil(32)).sum()
}

// Life: results that come when they come, records of the application's own, and everything else
// that happens between two prompts.

/// What happens next; what it stands for depends on what happened before.
#[derive(Clone, Debug)]
enum Next {
    Said(Message),
    /// An answer with so many calls, each under an id of its own.
    Calls(usize),
    /// The result of one of the calls that still wait, wherever that stands by now.
    Result(usize),
    /// "Still running", in the place of one.
    StandIn(usize),
}

/// Conversations in which each call has an id of its own, `c0`, `c1` and so on, and its result says
/// `result of c0`: at once, much later, behind a stand-in that says `c0 is running`, or never.
pub fn late_results(steps: usize) -> impl Strategy<Value = Vec<Message>> {
    let next = prop_oneof![
        4 => text().prop_map(|text| Next::Said(Message::user(text))),
        3 => "[a-z]{1,8}".prop_map(|text| Next::Said(Message::ai(text))),
        1 => "[a-z]{1,8}".prop_map(|text| Next::Said(steered(text))),
        1 => Just(Next::Said(audit())),
        5 => (1usize..4).prop_map(Next::Calls),
        7 => (0usize..8).prop_map(Next::Result),
        2 => (0usize..8).prop_map(Next::StandIn),
    ];
    proptest::collection::vec(next, 0..steps).prop_map(|steps| {
        let (mut said, mut waiting, mut calls) = (Vec::new(), Vec::<(usize, bool)>::new(), 0);
        for next in steps {
            match next {
                Next::Said(message) => said.push(message),
                Next::Calls(n) => {
                    let new = calls..calls + n;
                    let call = |i| ToolCall::new(format!("c{i}"), "look", "{}");
                    said.push(Message::ai_calls(new.clone().map(call)));
                    waiting.extend(new.map(|i| (i, false)));
                    calls += n;
                }
                Next::Result(_) | Next::StandIn(_) if waiting.is_empty() => {}
                Next::Result(pick) => {
                    let (i, _) = waiting.remove(pick % waiting.len());
                    said.push(Message::tool(format!("c{i}"), "look", format!("result of c{i}")));
                }
                Next::StandIn(pick) => {
                    let pick = pick % waiting.len();
                    let (i, stood) = &mut waiting[pick];
                    if !std::mem::replace(stood, true) {
                        said.push(stand_in(&format!("c{i}"), format!("c{i} is running")));
                    }
                }
            }
        }
        said
    })
}

/// A result that stands for one that is still to come.
pub fn stand_in(id: &str, text: String) -> Message {
    memory_prompt::message::ToolMessage::new(id, "look", text)
        .with_attribute("turn:stand_in", true)
        .into()
}

/// What the user throws in while a turn runs.
pub fn steered(text: String) -> Message {
    memory_prompt::message::UserMessage::new(text).with_attribute("turn:steered", true).into()
}

/// A record of the application's own, which no provider is sent.
pub fn audit() -> Message {
    Message::custom([("audit".to_owned(), true.into())])
}

pub fn is_audit(message: &Message) -> bool {
    *message == audit()
}

/// Any history at all, with what [`conversation`] has and all that life adds: ids that repeat,
/// results that come late, stand-ins, steered messages, and records of the application's own
/// everywhere.
pub fn life(steps: usize) -> impl Strategy<Value = Vec<Message>> {
    let step = prop_oneof![
        4 => user().prop_map(|m| vec![m]),
        3 => text().prop_map(|t| vec![Message::ai(t)]),
        4 => group(),
        3 => result().prop_map(|m| vec![m]),
        1 => (call_id(), text()).prop_map(|(id, text)| vec![stand_in(&id, text)]),
        1 => text().prop_map(|text| vec![steered(text)]),
        3 => (1usize..4).prop_map(|n| vec![audit(); n]),
        1 => (2usize..7).prop_map(rounds),
    ];
    proptest::collection::vec(step, 0..steps).prop_map(|steps| steps.concat())
}

/// So many rounds of a tool loop.
fn rounds(n: usize) -> Vec<Message> {
    let round = |i| {
        let call = ToolCall::new(format!("r{i}"), "look", "{}");
        [Message::ai_calls([call]), Message::tool(format!("r{i}"), "look", "seen")]
    };
    (0..n).flat_map(round).collect()
}

/// The same with system messages among the records, as a memory of one's own may hold them.
pub fn with_systems(steps: usize) -> impl Strategy<Value = Vec<Message>> {
    let step = prop_oneof![
        3 => life(4),
        1 => "[a-z]{1,6}".prop_map(|text| vec![Message::system(text)]),
    ];
    proptest::collection::vec(step, 0..steps).prop_map(|steps| steps.concat())
}

/// Long tool loops in which hardly a result was ever stored: prompts full of placeholders.
pub fn unanswered(calls: usize) -> impl Strategy<Value = Vec<Message>> {
    let step = prop_oneof![
        8 => call().prop_map(|call| vec![Message::ai_calls([call])]),
        1 => group(),
        1 => "[a-z]{1,8}".prop_map(|text| vec![Message::user(text)]),
    ];
    proptest::collection::vec(step, 1..calls)
        .prop_map(|steps| [vec![Message::user("go")], steps.concat()].concat())
}

/// What happens to a memory and to a prompt over it.
#[derive(Clone, Debug)]
pub enum Happens {
    Said(Vec<Message>),
    Evicted(u64),
    Cleared,
    /// Deleted, and begun again at position 0.
    BeganAnew,
    Swapped,
    Temporary(Message),
    Built,
}

/// A life of a prompt over two memories of a store.
pub fn happenings(steps: usize) -> impl Strategy<Value = Vec<Happens>> {
    let happens = prop_oneof![
        8 => life(4).prop_map(Happens::Said),
        1 => (0u64..30).prop_map(Happens::Evicted),
        1 => Just(Happens::Cleared),
        1 => Just(Happens::BeganAnew),
        2 => Just(Happens::Swapped),
        1 => "[a-z]{1,8}".prop_map(|text| Happens::Temporary(Message::user(text))),
        6 => Just(Happens::Built),
    ];
    proptest::collection::vec(happens, 0..steps)
}

/// A conversation in one line, for people: `u a(c0,c1) t(c1) x`, each with the first of its text.
pub fn brief<'a>(messages: impl IntoIterator<Item = &'a Message>) -> String {
    let one = |message: &Message| {
        let text: String = message.text().chars().take(4).filter(|c| c.is_alphanumeric()).collect();
        let ids: Vec<_> = message.tool_calls().map(|call| call.id.as_str()).collect();
        match message {
            Message::System(_) => format!("s:{text}"),
            Message::User(_) => format!("u:{text}"),
            Message::Ai(_) if ids.is_empty() => format!("a:{text}"),
            Message::Ai(_) => format!("a({}):{text}", ids.join(",")),
            Message::Tool(tool) => format!("t({}):{text}", tool.call_id()),
            _ => "x".to_owned(),
        }
    };
    messages.into_iter().map(one).collect::<Vec<_>>().join(" ")
}
