//! Calls of tools that Claude's provider runs itself, sent back.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)] // a test that fails should say so

use crate::setups::compose;
use memory_prompt::report::Reason;
use memory_prompt::window::ToolGroups;
use memory_prompt::wire::{self, anthropic};
use memory_prompt::{Composer, Message, Prompt, Provider, Window};
use serde_json::{Value, json};

fn composed(provider: Provider, history: &[Message], temporaries: &[Message]) -> Prompt {
    let composer = Composer::new().window(Window::all()).for_provider(provider);
    compose(&composer, history, temporaries).unwrap()
}

fn sent(prompt: &Prompt) -> Value {
    json!(anthropic::messages(prompt))
}

/// A search of the provider's.
fn search() -> Value {
    json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"query": "x"}})
}

fn found() -> Value {
    json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []})
}

/// A program that the provider runs.
fn code(id: &str, input: &Value) -> Value {
    json!({"type": "server_tool_use", "id": id, "name": "code_execution", "input": input})
}

fn ran(id: &str, content: &Value) -> Value {
    json!({"type": "code_execution_tool_result", "tool_use_id": id, "content": content})
}

fn read(stop: &str, content: &Value) -> Message {
    let body = json!({"role": "assistant", "stop_reason": stop, "content": content});
    wire::answer(Provider::Anthropic, body).unwrap().into()
}

/// Claude rests in the middle of a search, and is to be sent what it said as it is: a "(continue)"
/// stood behind it. If the user spoke instead, or `max_tokens` ended the answer behind its call,
/// the call was sent for ever without a result, and is refused: "`web_search` tool use .. was found
/// without a corresponding `web_search_tool_result` block".
#[test]
fn a_search_without_its_result_is_continued_or_left_out() {
    let says = json!({"type": "text", "text": "Searching."});
    let (call, result) = (search(), found());
    for stop in ["pause_turn", "max_tokens"] {
        let asked = [Message::user("q"), read(stop, &json!([says, call]))];
        for model in ["claude-opus-4-8", "claude-sonnet-4-5"] {
            let provider = Provider::Anthropic.model(model);
            let prompt = composed(provider, &asked, &[]);
            assert_eq!(sent(&prompt)[1]["content"], json!([says, call]));
            assert_eq!((prompt.len(), prompt.report().adapted.len()), (2, 0));
            // It may go yet: no cache is asked to keep it.
            assert_eq!(prompt.cacheable(), 1);

            // The same, gone on with: neighbours, in which call and result meet.
            let on = read("end_turn", &json!([result, {"type": "text", "text": "Found."}]));
            let all = [&asked[..], &[on, Message::user("n")]].concat();
            let prompt = composed(provider, &all, &[]);
            assert_eq!(sent(&prompt)[1]["content"].as_array().unwrap().len(), 4);
            assert!(!prompt.report().to_string().contains("its result"), "{}", prompt.report());

            // Whatever else follows, the call is left out.
            let next = [&asked[..], &[Message::user("n")]].concat();
            let other = [&asked[..], &[Message::ai("Never mind."), Message::user("n")]].concat();
            for prompt in [
                composed(provider, &next, &[]),
                composed(provider, &other, &[]),
                composed(provider, &asked, &[Message::user("n")]),
            ] {
                assert!(!sent(&prompt).to_string().contains("web_search"), "{}", sent(&prompt));
                let told =
                    "1: assistant, without a call of the provider's own tool that has no result";
                assert!(prompt.report().to_string().contains(told), "{}", prompt.report());
            }
        }
    }
    // Of an answer that was nothing else, nothing is left.
    let alone = [Message::user("q"), read("pause_turn", &json!([call])), Message::user("n")];
    let prompt = composed(Provider::Anthropic, &alone, &[]);
    assert_eq!(sent(&prompt).to_string().matches("assistant").count(), 0);
    let mut left_out = prompt.report().left_out.iter();
    assert!(left_out.any(|it| it.position == 1 && it.why == Reason::Unanswered));
    // Only an error is allowed.
    let strict = Composer::new().tool_groups(ToolGroups::FailOnRepair).window(Window::all());
    let refused = compose(&strict.for_provider(Provider::Anthropic), &alone, &[]).unwrap_err();
    let told = "message 1 (assistant) has a call of the provider's own tool without its result";
    assert!(refused.to_string().contains(told), "{refused}");
}

/// A program of Claude's calls the application's tools: its own call has no result until all of
/// these have theirs, answers later.
#[test]
fn a_program_waits_for_its_calls() {
    let program = code("s", &json!({"code": "roll()"}));
    let caller = json!({"type": "code_execution_20250825", "tool_id": "s"});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "roll", "input": {}, "caller": caller});
    let result = ran("s", &json!({"stdout": "3"}));
    let running = [
        Message::user("Roll twice."),
        read("tool_use", &json!([program, call("a")])),
        Message::tool("a", "roll", "1"),
        read("tool_use", &json!([call("b")])),
        Message::tool("b", "roll", "2"),
    ];
    let over = read("end_turn", &json!([result, {"type": "text", "text": "3 in all."}]));
    let done = [&running[..], &[over, Message::user("n")]].concat();
    for history in [&running[..], &done] {
        let prompt = composed(Provider::Anthropic, history, &[]);
        assert_eq!(sent(&prompt)[1]["content"], json!([program, call("a")]));
    }
    // The user has broken in: nothing of the program is left, and its calls are the model's.
    let left = [&running[..], &[Message::user("Stop.")]].concat();
    let text = sent(&composed(Provider::Anthropic, &left, &[])).to_string();
    assert!(!text.contains("code_execution") && !text.contains("caller"), "{text}");
    assert_eq!(text.matches("tool_result").count(), 2);
}

/// The user had broken in before a search was over, and its result came behind that: the call was
/// sent with the user's message right behind it, which is a 400.
#[test]
fn a_result_behind_a_user_message_answers_no_call_before_it() {
    let says = json!({"type": "text", "text": "Found."});
    let (call, result) = (search(), found());
    let history = [
        Message::user("q"),
        read("pause_turn", &json!([says, call])),
        Message::user("Stop."),
        read("end_turn", &json!([result, says])),
        Message::user("n"),
    ];
    let text = sent(&composed(Provider::Anthropic, &history, &[])).to_string();
    assert!(!text.contains("web_search"), "{text}");
    assert_eq!(text.matches("Found.").count(), 2);
}

/// A window opened behind the call of a search, or of the program that calls the application's
/// tools: the result was sent without its call, and the calls with a `caller` that is not there,
/// each of which is a 400 in every prompt until the window has passed it.
#[test]
fn what_belongs_to_a_call_that_the_window_cut_off_is_left_out() {
    let says = json!({"type": "text", "text": "Found."});
    let (call, result) = (search(), found());
    let history = [
        Message::user("q"),
        read("pause_turn", &json!([call])),
        read("end_turn", &json!([result, says])),
        Message::user("n"),
    ];
    let windowed = |n: usize, history: &[Message]| {
        let window = Window::last(n).exactly();
        let composer = Composer::new().window(window).for_provider(Provider::Anthropic);
        compose(&composer, history, &[]).unwrap()
    };
    let prompt = windowed(2, &history);
    let told = "2: assistant, without what belongs to a call of the provider's own tool that is \
                not sent";
    assert!(prompt.report().to_string().contains(told), "{}", prompt.report());
    assert!(!sent(&prompt).to_string().contains("web_search"), "{}", sent(&prompt));
    assert!(sent(&prompt).to_string().contains("Found."));
    // Nothing is left of an answer that was nothing else.
    let alone = [&history[..2], &[read("end_turn", &json!([result])), Message::user("n")]].concat();
    let prompt = windowed(2, &alone);
    let mut left_out = prompt.report().left_out.iter();
    assert!(left_out.any(|it| it.position == 2 && it.why == Reason::Uncalled));
    assert!(!sent(&prompt).to_string().contains("web_search"), "{}", sent(&prompt));

    let caller = json!({"type": "code_execution_20250825", "tool_id": "p"});
    let rolls = |id: &str| json!({"type": "tool_use", "id": id, "name": "roll", "input": {}, "caller": caller});
    let program = code("p", &json!({}));
    let over = ran("p", &json!({}));
    let loops = [
        Message::user("Roll twice."),
        read("tool_use", &json!([program, rolls("a")])),
        Message::tool("a", "roll", "1"),
        read("tool_use", &json!([rolls("b")])),
        Message::tool("b", "roll", "2"),
        read("end_turn", &json!([over, says])),
        Message::user("n"),
    ];
    let text = sent(&windowed(4, &loops)).to_string();
    assert!(!text.contains("caller") && !text.contains("code_execution"), "{text}");
    assert!(text.contains("tool_use") && text.contains("Found."), "{text}");
    let whole = sent(&windowed(7, &loops)).to_string();
    assert_eq!(whole.matches("caller").count(), 2, "{whole}");
}

/// Calls of two providers in a row, of which the results came behind both, are one answer. It was
/// of several providers, so all that was private in it was dropped, the call of Claude's own tool
/// too; and the result of that, an answer later, was refused.
#[test]
fn a_call_that_is_joined_to_another_providers_keeps_its_result() {
    let program = code("p", &json!({}));
    let throws = json!({"type": "tool_use", "id": "b", "name": "roll", "input": {},
        "caller": {"type": "code_execution_20250825", "tool_id": "p"}});
    let over = ran("p", &json!({}));
    let of_gemini = json!({"candidates": [{"finishReason": "STOP", "content": {"role": "model", "parts": [
        {"functionCall": {"id": "a", "name": "roll", "args": {}}, "thoughtSignature": "sig-of-gemini"},
    ]}}]});
    let history = [
        Message::user("Roll twice."),
        wire::answer(Provider::Gemini, of_gemini).unwrap().into(),
        read("tool_use", &json!([program, throws])),
        Message::tool("a", "roll", "1"),
        Message::tool("b", "roll", "2"),
        read("end_turn", &json!([over, {"type": "text", "text": "3"}])),
        Message::user("n"),
    ];
    let body = sent(&composed(Provider::Anthropic, &history, &[]));
    let roles: Vec<_> = body.as_array().unwrap().iter().map(|it| &it["role"]).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let text = body.to_string();
    for kept in ["server_tool_use", "code_execution_tool_result", "caller"] {
        assert!(text.contains(kept), "{text}");
    }
    assert!(!text.contains("sig-of-gemini"), "{text}");
}
