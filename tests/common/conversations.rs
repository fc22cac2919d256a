//! Nasty conversations, and checks that know nothing of how prompts are composed.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

use memory_prompt::{AiMessage, Message, Part, ToolCall};
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
    prop_oneof![Just("c0"), Just("c1"), Just("c2"), Just("")].prop_map(str::to_owned)
}

fn call() -> impl Strategy<Value = ToolCall> {
    call_id().prop_map(|id| ToolCall::new(id, "look", r#"{"x":1}"#))
}

fn content() -> impl Strategy<Value = Vec<Part>> {
    let part = prop_oneof![
        3 => text().prop_map(Part::text),
        1 => Just(Part::Image(memory_prompt::Media::url("https://e.x/a.png"))),
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
            ai = ai.with_reasoning(memory_prompt::Reasoning::new("hm").with_signature("sig"));
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
/// calls and all results behind it, or any other message alone; the unit in which the history ends is
/// whole even when it is larger than `n`.
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
