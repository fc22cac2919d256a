//! A provider's own compaction covers what was before it, for that provider: the items as the
//! providers' references show them.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;

use crate::counted::counted;
use memory_prompt::compose::{Composition, Placement};
use memory_prompt::memory::Read;
use memory_prompt::provider::{PrivateFields, Row};
use memory_prompt::record::{Records, Snapshot};
use memory_prompt::report::{Adaptation, Break};
use memory_prompt::token::Estimate;
use memory_prompt::truncate::TruncateContext;
use memory_prompt::turn::{Next, ToolError};
use memory_prompt::wire::{Answer, Request, Stop, anthropic, responses};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, Composer, DefaultChatMemory, ErrorKind, MemoryPrompt, Message,
    Prompt, Provider, Recall, Result, Tool, ToolCall, Truncate, Window,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::breaks;
use crate::conversations::{broken_groups, late_results, life};
use crate::notation::{conversation, message};
use crate::processors::Drops;
use crate::said::{notes, policy, talk};
use crate::sent::{accounted, sent, texts, window};
use crate::setups::{Drawn, remembering};

/// An answer of OpenAI's with `context_management`, whose item is between others.
fn by_openai(text: &str) -> Message {
    let body = json!({"id": "resp_1", "object": "response", "status": "completed", "output": [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAreason"},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAcompacted"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
         "content": [{"type": "output_text", "text": text, "annotations": []}]}]});
    responses::answer(body).unwrap().given_by(Provider::OpenAiResponses).message.into()
}

/// An answer of Claude's with a `compact_20260112` edit: the block comes first.
fn by_claude(text: &str) -> Message {
    by_claude_of(&json!("They talked about tea."), text)
}

fn by_claude_of(content: &Value, text: &str) -> Message {
    claude(content, &json!({"type": "text", "text": text})).message.into()
}

/// An answer of Claude's that holds a compaction, and this.
fn claude(compaction: &Value, block: &Value) -> Answer {
    let stop = if block["type"] == "tool_use" { "tool_use" } else { "end_turn" };
    let content = json!([{"type": "compaction", "content": compaction}, block]);
    let body = json!({"role": "assistant", "stop_reason": stop, "content": content});
    anthropic::answer(body).unwrap().given_by(Provider::Anthropic)
}

fn claude_that_calls(id: &str) -> Answer {
    let call = json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
    claude(&json!("They talked about tea."), &call)
}

/// Ten questions, each answered, and one that is answered with a compaction, at 21.
fn compacted(answer: Message) -> Arc<DefaultChatMemory> {
    let memory = remembering(talk(10));
    memory.add_all([Message::user("and now?"), answer, Message::user("go on")]).unwrap();
    memory
}

fn over(memory: &Arc<DefaultChatMemory>, provider: Provider) -> MemoryPrompt {
    MemoryPrompt::new(Arc::clone(memory)).window(Window::all()).for_provider(provider)
}

#[test]
fn what_is_before_the_newest_item_is_not_sent_to_the_provider_that_gave_it() {
    let memory = compacted(by_openai("Now tea."));
    let built = over(&memory, Provider::OpenAiResponses).system("Be brief.").build().unwrap();
    let report = built.report();
    assert_eq!((sent(&built), report.compaction, report.covered), (vec![21, 22], Some(21), 21));
    assert_eq!((accounted(&built), report.older, report.is_untouched()), (None, 0, false));
    assert!(report.to_string().contains("compacted  21: the provider's own, in place of 21"));
    let body = json!(Request::new(&built).model("gpt-5.6"));
    let types: Vec<_> = body["input"].as_array().unwrap().iter().map(|it| &it["type"]).collect();
    assert_eq!(types, ["reasoning", "compaction", "message", "message"]);
    assert_eq!(body["input"][1]["encrypted_content"], "gAAAcompacted");

    let memory = compacted(by_claude("Now tea."));
    for provider in [Provider::Anthropic, Provider::ClaudeOnBedrock, Provider::ClaudeOnVertex] {
        let built = over(&memory, provider).build().unwrap();
        assert_eq!((sent(&built), built.report().covered), (vec![21, 22], 21), "{provider}");
        let body = json!(Request::new(&built).max_tokens(100));
        assert_eq!(body["messages"][0]["role"], "user"); // nobody's, in front
        assert_eq!(body["messages"][1]["content"][0]["type"], "compaction");
        assert_eq!(body["messages"][2]["content"], "go on");
    }
}

#[test]
fn any_other_provider_is_sent_the_history_and_not_the_item() {
    let memory = compacted(by_claude("Now tea."));
    memory.add_all([by_openai("Now coffee."), Message::user("and now?")]).unwrap();
    let all: Vec<u64> = (0..25).collect();
    let row = Row::like(Provider::OpenAiResponses, "xai-responses").unwrap();
    let (xai, openai) = (Provider::custom(row), Provider::OpenAiResponses);
    for provider in [xai, Provider::OpenAi, Provider::Gemini, Provider::Xai, Provider::Mistral] {
        let built = over(&memory, provider).build().unwrap();
        assert_eq!((sent(&built), built.report().compaction), (all.clone(), None), "{provider}");
        let body = json!(Request::new(&built)).to_string();
        assert!(!body.contains("compact"), "{body}");
        assert!(body.contains("Now tea.") && body.contains("Now coffee."), "{body}");
    }
    // Each of the two has its own, and is sent the other's answer in words.
    let built = over(&memory, openai).build().unwrap();
    assert_eq!((sent(&built), built.report().covered), (vec![23, 24], 23));
    let built = over(&memory, Provider::Anthropic).build().unwrap();
    assert_eq!((sent(&built), built.report().covered), (vec![21, 22, 23, 24], 21));
    assert_eq!(texts(&built)[3], "Now coffee.");
    let body = json!(Request::new(&built).max_tokens(100));
    assert!(!body.to_string().contains("gAAA"), "{body}");
    // A prompt for no provider in particular holds all.
    let none = MemoryPrompt::new(Arc::clone(&memory)).window(Window::all()).build().unwrap();
    assert_eq!((sent(&none), none.report().compaction), (all.clone(), None));
    // A row that is told so sends the item like others, behind the whole history.
    let mut row = Row::like(Provider::Anthropic, "anthropic").unwrap();
    row.compacts = false;
    let built = over(&memory, Provider::custom(row)).build().unwrap();
    assert_eq!((sent(&built), built.report().compaction), (all, None));
    let body = json!(Request::new(&built).max_tokens(100));
    assert!(body.to_string().contains("They talked about tea."), "{body}");
}

/// A gateway that is sent no private fields was sent neither the item nor what it stood for.
#[test]
fn one_that_is_not_sent_back_stands_for_nothing() {
    let mut row = Row::like(Provider::OpenAiResponses, "openai_responses").unwrap();
    row.private = PrivateFields::NONE;
    let memory = compacted(by_openai("Now tea."));
    let built = over(&memory, Provider::custom(row)).build().unwrap();
    assert_eq!((built.report().sent, built.report().compaction), (23, None));
}

#[test]
fn one_that_failed_stands_for_nothing() {
    for content in [Value::Null, json!("")] {
        let memory = compacted(by_claude_of(&content, "Now tea."));
        let built = over(&memory, Provider::Anthropic).build().unwrap();
        assert_eq!((built.report().sent, built.report().compaction), (23, None));
    }
}

#[test]
fn an_answer_of_nothing_else_stands_for_what_was_before() {
    // Claude stops behind the block where it is asked to, and Responses may.
    let block = json!({"type": "message", "role": "assistant", "stop_reason": "compaction",
        "content": [{"type": "compaction", "content": "They talked about tea."}]});
    let answer: Answer = anthropic::answer(block).unwrap();
    assert_eq!(answer.stop, Stop::Paused);
    let memory = compacted(answer.message.into());
    let built = over(&memory, Provider::Anthropic).build().unwrap();
    assert_eq!((sent(&built), built.report().covered), (vec![21, 22], 21));
    let other = over(&memory, Provider::OpenAi).build().unwrap();
    assert_eq!((sent(&other).len(), accounted(&other)), (22, None), "{}", other.report());
}

/// An item in a window is one however the window is bounded; one before it is as old as the rest.
#[test]
fn windows_and_budgets_begin_at_it() {
    let memory = compacted(by_openai("Now tea."));
    memory.add_all(talk(2)).unwrap();
    let provider = Provider::OpenAiResponses;
    let prompt = |window| over(&memory, provider).window(window).build().unwrap();
    for window in [Window::last(8), Window::turns(4), Window::stepped(8, 4).unwrap()] {
        let built = prompt(window);
        assert_eq!(sent(&built), (21..27).collect::<Vec<_>>(), "{window}");
        assert_eq!((built.report().older, built.report().covered), (0, 21), "{window}");
    }
    let built = prompt(Window::last(3));
    assert_eq!((sent(&built), built.report().older), (vec![24, 25, 26], 24));
    for budget in 20..3_000 {
        let built = over(&memory, provider).max_tokens(budget, Estimate).build().unwrap();
        let (report, sent) = (built.report(), sent(&built));
        let first = sent[0];
        assert!(first >= 21, "{budget}: {report}");
        assert_eq!(report.compaction.is_some(), first == 21, "{budget}: {report}");
        assert_eq!((report.covered > 0, report.over_budget > 0), (first == 21, first > 21));
    }
}

#[test]
fn what_is_sent_of_before_it_stands_behind_it() {
    let memory = remembering(talk(10));
    memory.add_all(conversation("u:Book_a_flight. call:c1/book")).unwrap();
    memory.add(by_claude("I am waiting.")).unwrap(); // at 22
    memory.add_all(conversation("call:c2/pay t:c2/pay=paid t:c1/book=booked")).unwrap(); // late
    for placement in [Placement::End, Placement::AfterSystem, Placement::BeforeLastUser] {
        let mut prompt = over(&memory, Provider::Anthropic)
            .with_pins()
            .temporaries_at(placement)
            .recall(Recall::words().characters(500));
        prompt.pin(4).unwrap();
        prompt.add_temporary(Message::user("It is noon."));
        let built = prompt.build().unwrap();
        let report = built.report();
        // The pin, the question of the turn that runs, and the call whose result came late.
        assert_eq!(sent(&built), [22, 4, 20, 21, 25, 23, 24], "{report}");
        assert_eq!((report.covered, accounted(&built)), (19, None), "{report}");
        assert_eq!((&*report.question, &*report.pinned_before), (&[20][..], &[4][..]));
        let noon = built.iter().position(|message| message.text() == "It is noon.");
        assert!(noon.unwrap() > 1, "{report}"); // the opening, and the compaction
    }
}

#[test]
fn temporaries_part_no_call_of_it_from_its_results() {
    let memory = remembering(talk(3));
    memory.add_all([Message::user("look"), claude_that_calls("t1").message.into()]).unwrap();
    for placement in [Placement::End, Placement::AfterSystem, Placement::BeforeLastUser] {
        let mut prompt =
            over(&memory, Provider::Anthropic).window(Window::turns(3)).temporaries_at(placement);
        prompt.add_temporary(message("t:t1=rain"));
        prompt.add_temporary(Message::user("It is noon."));
        let built = prompt.build().unwrap();
        let body = json!(Request::new(&built).max_tokens(100));
        let messages = body["messages"].as_array().unwrap();
        let at = messages.iter().position(|it| it["content"][0]["type"] == "compaction").unwrap();
        assert_eq!(messages[at + 1]["content"][0]["type"], "tool_result", "{body}");
        assert!(built.report().repaired.is_empty());
    }
}

#[test]
fn a_summary_and_a_compaction_cover_one_history() {
    let memory = compacted(by_claude("Now tea."));
    let mut prompt = over(&memory, Provider::Anthropic).with_summary().window(Window::last(10));
    assert!(prompt.compact(&policy(4, 4), &notes).unwrap());
    let built = prompt.build().unwrap();
    let report = built.report();
    assert_eq!((report.summary, report.compaction), (Some(16), Some(21)), "{report}");
    assert_eq!((report.covered, sent(&built), accounted(&built)), (21, vec![21, 22], None));
    assert!(texts(&built)[2].contains("Notes up to 16."), "{:?}", texts(&built)); // where it is read
    memory.add_all(talk(6)).unwrap();
    assert!(prompt.compact(&policy(4, 4), &notes).unwrap());
    let built = prompt.build().unwrap(); // the summary covers the compaction
    assert_eq!((built.report().summary, built.report().compaction), (Some(31), None));
    assert_eq!(accounted(&built), None);
}

#[test]
fn a_turn_goes_on_behind_the_compaction_of_its_answers() {
    let memory = compacted(Message::ai("Not yet."));
    let mut prompt = over(&memory, Provider::Anthropic);
    let mut turn = prompt.turn(Message::user("Write it.")).tools([Tool::new("look", "Looks.")]); // 23
    let Next::Ask(first) = turn.next(&prompt).unwrap() else { unreachable!() };
    assert_eq!(first.prompt().report().sent, 24);
    turn.answer(claude_that_calls("t1")).unwrap();
    assert!(matches!(turn.next(&prompt).unwrap(), Next::Call(_)));
    turn.result("t1", Ok::<_, ToolError>("rain")).unwrap();
    let Next::Ask(second) = turn.next(&prompt).unwrap() else { unreachable!() };
    let report = second.prompt().report();
    assert_eq!(sent(second.prompt()), [24, 25, 22, 23], "{report}");
    assert_eq!(report.compaction, Some(24), "{report}");
    let broken_by = second.prompt().shared_prefix(first.prompt()).broken_by;
    assert!(matches!(broken_by, Some(Break::Window { .. } | Break::Question(_))), "{broken_by:?}");
    turn.answer(Message::ai("Written.")).unwrap();
    assert!(matches!(turn.next(&prompt).unwrap(), Next::Done(_)));
    prompt.add(Message::user("Thanks.")).unwrap();
    assert_eq!(sent(&prompt.build().unwrap()), [24, 25, 26, 27]);
}

/// A pinned answer that held an older item would be the last one, behind the newest: what Claude
/// ignores is what stands before the last.
#[test]
fn a_pinned_one_covers_nothing() {
    let memory = compacted(by_claude("Now tea."));
    memory.add_all(talk(3)).unwrap();
    let mut prompt = over(&memory, Provider::Anthropic).window(Window::last(4)).with_pins();
    prompt.pin(21).unwrap();
    prompt.pin(3).unwrap();
    for newer in [None, Some(by_claude("Now coffee."))] {
        let is_newer = newer.is_some();
        memory.add_all(newer).unwrap();
        let built = prompt.build().unwrap();
        let report = built.report();
        assert_eq!(report.compaction, is_newer.then_some(29), "{report}");
        let adapted = report.adapted.iter().find(|it| it.position == Some(21)).unwrap();
        assert_eq!((adapted.how, accounted(&built)), (Adaptation::Compaction, None));
        assert!(texts(&built).iter().any(|text| text == "Now tea."));
        let body = json!(Request::new(&built).max_tokens(100)).to_string();
        assert_eq!(body.matches("They talked").count(), usize::from(is_newer), "{body}");
    }
}

#[test]
fn one_that_a_processor_drops_stands_for_nothing() {
    let memory = compacted(by_claude("Now tea."));
    let drops = Drops(|message: &Message, _: &TruncateContext| message.text() == "Now tea.");
    let truncate = Truncate::chars(1_000).unwrap().processor(drops);
    let built = over(&memory, Provider::Anthropic).truncate(truncate).build().unwrap();
    let report = built.report();
    assert_eq!((report.compaction, report.covered, report.older), (None, 0, 21), "{report}");
    assert_eq!(accounted(&built), None);
}

/// The same answers, which call a tool too.
fn that_calls(answer: Message, id: &str) -> Message {
    let Message::Ai(answer) = answer else { return answer };
    answer.with_tool_call(ToolCall::new(id, "look", "{}")).into()
}

/// What is put into a history: an answer, and how many messages later the result of its call comes.
#[derive(Clone, Debug)]
struct Put {
    answer: Message,
    calls: Option<usize>,
}

/// A history in which some answers are compactions, of either provider, and some of these call a
/// tool, whose result comes at once, late or never.
fn history() -> impl Strategy<Value = Vec<Message>> {
    let answer = prop_oneof![Just(by_claude("Now tea.")), Just(by_openai("Now coffee."))];
    let calls = proptest::option::of(0usize..8);
    let put = (answer, calls).prop_map(|(answer, calls)| Put { answer, calls });
    let puts = proptest::collection::vec(proptest::option::weighted(0.2, put), 0..30);
    let parts = (prop_oneof![life(24), late_results(24)], puts);
    parts.prop_map(|(history, mut puts)| {
        puts.resize(history.len(), None);
        let (mut said, mut results) = (Vec::new(), Vec::new());
        for (i, (message, put)) in history.into_iter().zip(puts).enumerate() {
            said.push(message);
            match put {
                Some(Put { answer, calls: Some(later) }) => {
                    let id = format!("k{i}");
                    said.push(that_calls(answer, &id));
                    results.push((i + later, Message::tool(id, "look", "seen")));
                }
                Some(Put { answer, .. }) => said.push(answer),
                None => {}
            }
            let due = results.extract_if(.., |(at, _)| *at <= i);
            said.extend(due.map(|(_, result)| result));
        }
        said
    })
}

/// The same conversation as a memory without a slot for the system message holds it.
fn beginning_with_a_system_record(mut all: Snapshot) -> Snapshot {
    let system = Message::system("Be brief.");
    let rows = all.records.iter().map(|it| {
        let message = if it.position() == 0 { &system } else { it.message() };
        (it.position(), it.appended_at(), message.clone())
    });
    all.records = Records::from_rows(rows.collect::<Vec<_>>());
    all
}

fn composed(memory: &DefaultChatMemory, composer: &Composer, mut n: usize) -> Result<Prompt> {
    loop {
        let read = Read::newest(n).slots(composer.slots());
        let seen = memory.read_with(&read)?;
        let read = read.positions(composer.positions(&seen)?);
        match composer.compose(memory.read_with(&read)?, &[Arc::new(Message::user("And now?"))])? {
            Composition::Ready(prompt) => return Ok(prompt),
            Composition::ReadMore(more) => n = more,
        }
    }
}

counted! {
    #![cases(256)]

    /// Every record is sent, pinned, covered or reported; nothing stands before the item that
    /// covers, and all others are sent no item.
    #[test]
    fn it_covers_for_its_provider_and_for_nobody_else(
        history in history(),
        window in window(),
        budget in proptest::option::of(200usize..3_000),
        picks in proptest::collection::vec(0u64..40, 0..3),
        summed in any::<bool>(),
    ) {
        let memory = remembering(history.clone());
        let prompt = MemoryPrompt::new(Arc::clone(&memory)).with_pins().with_summary();
        for pick in picks {
            let _ = prompt.pin(pick); // some are not there, or can't be pinned
        }
        if summed {
            prompt.compact(&policy(8, 4), &notes).unwrap();
        }
        let pins = prompt.pins().unwrap();
        for provider in [Provider::Anthropic, Provider::OpenAiResponses, Provider::OpenAi] {
            let composer = Composer::new().window(window).for_provider(provider)
                .with_pins().with_summary()
                .with_some(budget, |it, budget| it.max_tokens(budget, Estimate));
            let built = match composed(&memory, &composer, composer.first_read()) {
                Err(error) if matches!(error.kind(), ErrorKind::Budget { .. }) => continue,
                built => built.unwrap(),
            };
            let (sent, report) = (sent(&built), built.report());
            prop_assert_eq!(accounted(&built), None, "{}", report);
            prop_assert!(broken_groups(built.iter()).is_empty(), "{}", report);
            for pin in &pins {
                let left_out = report.left_out.iter().any(|it| it.position == *pin);
                let is_joined = report.adapted.iter().any(|it| it.position == Some(*pin));
                prop_assert!(sent.contains(pin) || is_joined || left_out, "{}: {}", pin, report);
            }
            if let Some(item) = report.compaction {
                // Between calls that wait at the end and their results nothing can be put.
                let behind = usize::try_from(item).unwrap() + 1;
                let waits = report.repaired.iter().any(|it| it.position == Some(item))
                    && history[behind..].iter().all(|it| it.is_tool() || it.is_private());
                prop_assert!(waits || sent.first() == Some(&item), "{}", report);
                prop_assert_eq!((report.older, report.over_budget), (0, 0), "{}", report);
            }
            let body = json!(Request::new(&built).max_tokens(100)).to_string();
            let items = [("They talked about tea.", Provider::Anthropic),
                ("gAAAcompacted", Provider::OpenAiResponses)];
            for (item, of) in items {
                let most = usize::from(of == provider);
                prop_assert!(body.matches(item).count() <= most, "{}: {}", report, body);
            }
            breaks::accounted(&built)?;
            let all = memory.read_with(&Read::newest(usize::MAX).slots(composer.slots())).unwrap();
            let all = beginning_with_a_system_record(all);
            if let Some(built) = composer.compose_all(&all, &[]).ok().filter(|_| !pins.contains(&0)) {
                breaks::accounted(&built)?;
            }
            // However much was read.
            let anew = composed(&memory, &composer, usize::MAX).unwrap();
            prop_assert!(anew.iter().eq(built.iter()), "{} {}", report, anew.report());
        }
    }
}
