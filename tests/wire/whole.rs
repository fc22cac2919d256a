//! Answers and streams that a stranger to this crate found to come out otherwise than they were.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that fails should say so
#![allow(clippy::needless_pass_by_value)] // `json!` in the place of an argument

use crate::events::{
    block, calling, candidate, delta, end, over, piece, says, start, stop, streamed, whole,
};
use crate::shown::{assert_shown, calls, text};
use memory_prompt::ErrorKind;
use memory_prompt::wire::{Answer, Event, Stop, anthropic, gemini, ollama, openai, responses};
use serde_json::{Value, json};

// --- Claude ----------------------------------------------------------------------------------

/// If a program of Claude's calls a tool, the call and the reason to stop stand in the
/// `message_start`, and nothing but `message_stop` follows: the answer came out whole and empty.
#[test]
fn what_a_message_begins_with_is_of_it() {
    let caller = json!({"type": "code_execution_20250825", "tool_id": "srvtoolu_1"});
    let call = json!({"type": "tool_use", "id": "toolu_1", "name": "roll", "input": {"sides": 6}, "caller": caller});
    let begins = start(json!({"id": "msg_1", "role": "assistant", "content": [call],
        "stop_reason": "tool_use", "usage": {"input_tokens": 0, "output_tokens": 0}}));
    // A gateway may repeat it.
    let [_, over] = end("");
    for events in [vec![&begins], vec![&begins, &begins]] {
        let (_, answer) = whole!(anthropic, events.into_iter().chain([&over]));
        assert_eq!(answer.stop, Stop::Calls);
        let list = [answer.message.into()];
        let sent = json!(anthropic::Messages::of(&list));
        assert_eq!(sent[0]["content"], json!([call]));
    }
    // What it begins with may go on in blocks of its own.
    let begins =
        start(json!({"id": "m", "content": [{"type": "text", "text": "Rolling. "}, call]}));
    let events = [begins, block(2, json!({"type": "text", "text": ""})), says(2, "Done."), stop(2)];
    let (told, answer) = whole!(anthropic, events.into_iter().chain(end("tool_use")));
    assert_eq!((&*text(&told), answer.message.parts().len()), ("Rolling. Done.", 3));
    // An empty text, or none, is nothing yet.
    for nothing in [json!(null), json!(""), json!([]), json!([{"type": "text", "text": ""}])] {
        let said = block(0, json!({"type": "text", "text": "Hi"}));
        let events = [start(json!({"content": nothing})), said, stop(0)];
        let (_, answer) = whole!(anthropic, events.into_iter().chain(end("end_turn")));
        assert_eq!(answer.message.text(), "Hi");
    }
}

/// `max_tokens` came in the middle of a search's arguments, and a long answer that had been shown
/// was an error.
#[test]
fn a_search_that_was_cut_takes_nothing_along() {
    let search = json!({"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}});
    let half = json!({"type": "input_json_delta", "partial_json": "{\"query\":\"os"});
    let said = [
        start(json!({"role": "assistant", "content": []})),
        block(0, json!({"type": "text", "text": ""})),
        says(0, "A long answer."),
        stop(0),
    ];
    let cut = [block(1, search), piece(1, half), stop(1)];
    let (_, answer) = whole!(anthropic, said.iter().chain(&cut).chain(&end("max_tokens")));
    assert_eq!(answer.stop, Stop::Length);
    // As `broken` has it.
    assert_eq!(answer.message.parts().len(), 0);
    assert_eq!(answer.message.text(), "A long answer.");
    let (_, stream) = streamed!(anthropic, said.iter().chain(&cut));
    assert_eq!(stream.broken().message, answer.message);
    // One that has a result was not cut: its arguments are an error.
    let result = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []});
    let found = [block(2, result), stop(2)];
    let (_, stream) =
        streamed!(anthropic, said.iter().chain(&cut).chain(&found).chain(&end("end_turn")));
    let error = stream.finish().unwrap_err().to_string();
    assert_eq!(error, "read anthropic stream: content[1].input: not valid JSON");
}

/// Blocks were stored by their index, and shown as they came.
#[test]
fn blocks_stand_in_the_order_in_which_they_came() {
    let open = |index| block(index, json!({"type": "text", "text": ""}));
    let events =
        [start(json!({})), open(1), says(1, "One "), stop(1), open(0), says(0, "two."), stop(0)];
    let (_, answer) = whole!(anthropic, events.into_iter().chain(end("end_turn")));
    assert_eq!(answer.message.text(), "One two.");
    // Two that speak at once are no answer that can be shown.
    let (_, mut stream) =
        streamed!(anthropic, [start(json!({})), open(0), open(1), says(1, "two")]);
    let error = stream.push(&says(0, "One ").to_string()).unwrap_err().to_string();
    assert_eq!(error, "read anthropic stream: index: block 0 goes on behind another text");
}

// --- OpenAI ----------------------------------------------------------------------------------

/// A call of a function, or a piece of one.
fn function(index: u64, id: impl Into<Option<&'static str>>, name: &str, arguments: &str) -> Value {
    let function = json!({"name": name, "arguments": arguments});
    calling(json!({"index": index, "id": id.into(), "type": "function", "function": function}))
}

fn called(answer: &Answer) -> Vec<(&str, &str, &str)> {
    let calls = answer.message.tool_calls();
    calls.map(|call| (&*call.id, &*call.name, &*call.arguments)).collect()
}

/// vLLM, until the middle of 2025, streamed the one call of a named `tool_choice` with a new id in
/// each piece: one call became as many as it had pieces, none of which could be read.
#[test]
fn a_call_with_a_new_id_in_each_piece_is_one() {
    let one = |id, arguments| function(0, id, "look", arguments);
    for [a, b, c] in [["", "{\"ci", "ty\": \"Oslo\"}"], ["{\"ci", "ty\": \"O", "slo\"}"]] {
        let pieces = [one("t-1", a), one("t-2", b), one("t-3", c), over("stop")];
        let (_, answer) = whole!(openai, pieces);
        assert_eq!(called(&answer), [("t-1", "look", "{\"city\": \"Oslo\"}")]);
    }
    // Two calls of one tool stay two: whole ones under one index, and half ones under two; and so
    // do two tools.
    for [a, b] in [
        [one("a", "{\"x\":1}"), one("b", "{\"x\":2}")],
        [one("a", "{\"x\""), function(1, "b", "look", "{\"x\"")],
        [one("a", "{\"x\""), function(0, "b", "find", "{\"x\"")],
    ] {
        let (_, answer) = whole!(openai, [a, b, over("tool_calls")]);
        let ids = answer.message.tool_calls().map(|call| call.id.as_str());
        assert_eq!(ids.collect::<Vec<_>>(), ["a", "b"]);
    }
    // A custom tool's text is never whole: its ids tell.
    let sh = json!({"name": "sh", "input": "ls"});
    let custom = |id: &str| calling(json!({"index": 0, "id": id, "type": "custom", "custom": sh}));
    let (_, answer) = whole!(openai, [custom("a"), custom("b"), over("tool_calls")]);
    assert_eq!(called(&answer).len(), 2);
}

/// A name that came in two pieces stayed its first half, or became two calls.
#[test]
fn a_name_may_come_in_pieces() {
    let named = |id, name: &str| function(0, id, name, "");
    let arguments = calling(json!({"index": 0, "function": {"arguments": "{\"x\":1}"}}));
    for id in [Some("a"), None] {
        let begun = [named(Some("a"), "lo"), named(id, "ok")];
        let pieces = [&begun[..], &[arguments.clone(), over("tool_calls")]].concat();
        let (told, answer) = whole!(openai, &pieces);
        assert_eq!(called(&answer), [("a", "look", "{\"x\":1}")]);
        assert!(matches!(told.first(), Some(Event::Call { name, .. }) if name == "look"));
        // Nothing of it can be kept before its arguments are there.
        assert_eq!(streamed!(openai, &pieces[..2]).1.broken().message.tool_calls().count(), 0);
    }
    // Many servers repeat it, with and before the arguments.
    let again = ["", "", "{\"x\"", ":1}"].map(|piece| function(0, "a", "look", piece));
    let (_, answer) = whole!(openai, again.into_iter().chain([over("stop")]));
    assert_eq!(called(&answer), [("a", "look", "{\"x\":1}")]);
    // A call without arguments is shown before the next one, and at the end.
    let bare = |index: u64| {
        calling(json!({"index": index, "id": index.to_string(), "function": {"name": "look"}}))
    };
    let (told, _) = whole!(openai, [bare(0), bare(1), over("tool_calls")]);
    assert!(matches!(told.last(), Some(Event::Done(_))), "{told:?}");
    assert_eq!(calls(&told).len(), 2);
}

/// Some servers count the name and the arguments of a call differently: its arguments became a call
/// without a name, and the whole answer was lost.
#[test]
fn arguments_under_another_index_belong_to_the_open_call() {
    let head = |index, id| function(index, id, "look", "");
    let tail = |index: u64, json| calling(json!({"index": index, "function": {"arguments": json}}));
    let (first, second) = ("{\"x\":1}", "{\"x\":2}");
    let later = [head(0, "A"), tail(0, first), head(0, "B"), tail(1, second)];
    let earlier = [head(1, "A"), tail(0, first), head(2, "B"), tail(1, second)];
    let halves = [head(2, "A"), tail(1, "{\"x\""), tail(1, ":1}"), head(3, "B"), tail(2, second)];
    let placeholder =
        [head(0, "A"), tail(0, first), function(2, "B", "look", "{}"), tail(1, second)];
    for pieces in [&later[..], &earlier, &halves, &placeholder] {
        let (_, answer) = whole!(openai, pieces.iter().cloned().chain([over("tool_calls")]));
        assert_eq!(called(&answer), [("A", "look", first), ("B", "look", second)]);
    }
}

/// Some gateways send `{}` with the name and the arguments later, or whole arguments twice: nothing
/// could read `{}{"x":1}`, and the model was asked for it again and again.
#[test]
fn arguments_that_begin_again_are_one_object() {
    let head = |index, id, json| function(index, id, "look", json);
    let tail =
        |index: u64, json: Value| calling(json!({"index": index, "function": {"arguments": json}}));
    let of = |pieces: &[Value]| {
        let (told, answer) = whole!(openai, pieces.iter().cloned().chain([over("tool_calls")]));
        let calls = answer.message.tool_calls().map(|call| call.arguments.clone());
        (told, calls.collect::<Vec<_>>())
    };
    let (one, two) = ("{\"x\":1}", "{\"x\":2}");
    let halves = [tail(0, "{\"x\"".into()), tail(0, ":1}".into())];
    for first in [head(0, "A", "{}"), head(0, "A", ""), tail(0, json!({}))] {
        let begun = [head(0, "A", ""), first];
        assert_eq!(of(&[&begun[..], &halves].concat()).1, [one]);
        assert_eq!(
            of(&[&begun[..], &[tail(0, one.into()), tail(0, one.into())]].concat()).1,
            [one]
        );
    }
    let side_by_side =
        [head(0, "A", "{}"), head(1, "B", "{}"), tail(0, one.into()), tail(1, two.into())];
    assert_eq!(of(&side_by_side).1, [one, two]);
    // Arguments that are repeated behind the next call are not of that.
    let repeated = [head(0, "A", ""), tail(0, one.into()), head(1, "B", "{}"), tail(0, one.into())];
    assert_eq!(of(&repeated).1, [one, "{}"]);
    let equal = [head(0, "A", ""), tail(0, one.into()), head(1, "B", ""), tail(0, one.into())];
    assert_eq!(of(&equal).1, [one, one]);
    // A call of a tool that takes nothing shows its `{}` at the end.
    let (told, stored) = of(&[head(0, "A", "{}"), head(1, "B", "{}")]);
    assert_eq!(stored, ["{}", "{}"]);
    assert_eq!(calls(&told).iter().map(|call| &*call.2).collect::<Vec<_>>(), ["{}", "{}"]);
}

/// Azure's filter reports in chunks with an empty id and model, which replaced those of the answer.
#[test]
fn empty_fields_replace_nothing() {
    let chunk = |id: &str, model: &str, choices: Value| json!({"id": id, "model": model, "choices": choices});
    let says = json!([{"index": 0, "delta": {"content": "Hi"}, "finish_reason": "stop"}]);
    let filtered = json!([{"index": 0, "delta": {}, "content_filter_offsets": {"end_offset": 2}}]);
    let pieces = [chunk("", "", json!([])), chunk("c-1", "gpt-5", says), chunk("", "", filtered)];
    let told = whole!(openai, pieces).1.metadata;
    assert_eq!((told.id.as_deref(), told.model.as_deref()), (Some("c-1"), Some("gpt-5")));
    assert!(told.attributes.contains_key("content_filter_offsets"));
}

/// A refusal that came before the text was stored behind it.
#[test]
fn a_refusal_stands_where_it_came() {
    let refuses = |text: &str| delta(json!({"refusal": text}));
    let says = |text: &str| delta(json!({"content": text}));
    let blank = delta(json!({"role": "assistant", "content": "", "refusal": null}));
    let listed = delta(json!({"content": [{"type": "text", "text": "Hm. "}]}));
    for pieces in [
        vec![refuses("I won't. "), says("But hi.")],
        vec![blank.clone(), refuses("I "), refuses("won't. "), says(""), says("But "), says("hi.")],
        vec![says("Hm. "), refuses("I won't. "), says("But "), says("hi. "), refuses("No.")],
        vec![listed, refuses("No. "), says("Hi.")],
        vec![says("Hm. "), refuses("No.")],
    ] {
        let (told, answer) = whole!(openai, pieces.iter().chain([&over("stop")]));
        let refusals = told.iter().filter(|event| matches!(event, Event::Refusal(_))).count();
        assert!(refusals > 0 && !answer.message.text().is_empty());
    }
}

/// A number where a text belongs emptied all that had come before, without a word.
#[test]
fn what_is_no_text_is_an_error_where_it_comes() {
    let line = |content: Value| json!({"message": {"content": content}, "done": false});
    let (_, mut stream) = streamed!(ollama, [line(json!("Hello"))]);
    let error = stream.push(&line(json!(7)).to_string()).unwrap_err().to_string();
    assert_eq!(error, "read ollama stream: message.content: expected a string, found a number");
    assert_eq!(stream.broken().message.text(), "Hello");
    let said = delta(json!({"content": [{"type": "text", "text": "Hello"}]}));
    let (_, mut stream) = streamed!(openai, [said]);
    assert!(stream.push(&delta(json!({"content": 7})).to_string()).is_err());
    assert_eq!(stream.broken().message.text(), "Hello");
}

// --- Responses -------------------------------------------------------------------------------

/// An item that was done twice was shown twice.
#[test]
fn an_item_is_done_once() {
    let message = |text: &str| json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]});
    let done = |text: &str| json!({"type": "response.output_item.done", "output_index": 0, "item": message(text)});
    let end = json!({"type": "response.completed", "response": {"status": "completed", "output": [message("Hi.")]}});
    let (told, _) = whole!(responses, [done("Hi."), done("Hi."), end]);
    assert_eq!(text(&told), "Hi.");
    let (_, mut stream) = streamed!(responses, [done("Hi.")]);
    let error = stream.push(&done("Bye.").to_string()).unwrap_err().to_string();
    assert_eq!(error, "read responses stream: item: it does not say what its pieces said");
}

// --- what is no answer -----------------------------------------------------------------------

fn refused(result: memory_prompt::Result<Answer>) -> (Option<&'static str>, bool) {
    match result.unwrap_err().kind() {
        // So that it can be compared with a literal.
        ErrorKind::Refused { code, retryable, .. } => {
            (code.map(|code| &*code.as_str().to_owned().leak()), retryable)
        }
        kind => panic!("{kind:?}"),
    }
}

/// An answer that Model Armor blocked was one, with nothing in it.
#[test]
fn what_model_armor_blocks_is_refused() {
    let blocked = json!({"candidates": [{"finishReason": "MODEL_ARMOR", "finishMessage": "Blocked"}], "usageMetadata": {"promptTokenCount": 1}});
    assert_eq!(refused(gemini::answer(blocked.clone())), (Some("MODEL_ARMOR"), false));
    let (told, stream) = streamed!(gemini, [blocked]);
    assert_eq!(told, [Event::Done(Stop::Filtered)]);
    assert_eq!(refused(stream.finish()), (Some("MODEL_ARMOR"), false));
    // What it blocked in the middle is half an answer.
    let half = candidate(json!([{"text": "Once"}]), "MODEL_ARMOR");
    let answer = gemini::answer(half).unwrap();
    assert_eq!((&*answer.message.text(), answer.stop), ("Once", Stop::Filtered));
}

/// An empty answer for a reason that nobody knows, and a body of Gemini's without a candidate, were
/// an answer, or JSON that can't be read. What the model or a limit ended is one.
#[test]
fn nothing_is_an_answer_only_where_the_model_or_a_limit_ended_it() {
    let other = json!({"candidates": [{"content": {"role": "model"}, "finishReason": "OTHER"}]});
    assert_eq!(refused(gemini::answer(other)), (Some("OTHER"), true));

    // Of the prompt, the provider told something, and nothing of an answer.
    let unsaid =
        json!({"promptFeedback": {"safetyRatings": []}, "usageMetadata": {"promptTokenCount": 1}});
    assert_eq!(refused(gemini::answer(unsaid)), (None, false));
    let unsaid = json!({"usageMetadata": {"promptTokenCount": 1}, "responseId": "r"});
    assert_eq!(refused(gemini::answer(unsaid)), (None, true));
    assert_eq!(gemini::answer(json!({})).unwrap_err().kind(), ErrorKind::Codec);

    // Claude ends some turns so, behind a result that says all; and a limit is told.
    for (word, stop) in [("end_turn", Stop::End), ("max_tokens", Stop::Length)] {
        let silent = json!({"role": "assistant", "content": [], "stop_reason": word});
        assert_eq!(anthropic::answer(silent).unwrap().stop, stop);
    }
    // A thought is something.
    let thought = json!({"choices": [{"finish_reason": "odd", "message": {"content": "", "reasoning_content": "Hm."}}]});
    assert_eq!(openai::answer(thought).unwrap().stop, Stop::Unknown);
}

/// Text behind the end was stored, and shown behind `Event::Done`.
#[test]
fn behind_the_end_comes_nothing() {
    let done = json!({"type": "response.completed", "response": {"status": "completed"}});
    let item = json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Hi"}]});
    let open = |index: u64| block(index, json!({"type": "text", "text": "Hi"}));
    let line = |text: &str, done: bool| json!({"message": {"role": "assistant", "content": text}, "done": done});
    macro_rules! behind {
        ($format:ident, $whole:expr, $end:expr, $behind:expr) => {{
            let (mut told, mut stream) = streamed!($format, $whole);
            told.extend(stream.push($end).unwrap());
            assert_eq!(stream.push(&$behind.to_string()).unwrap(), [], stringify!($format));
            let answer = stream.finish().unwrap();
            assert_shown(&told, &answer, stringify!($format));
            assert_eq!(answer.message.text(), "Hi");
        }};
    }
    let said = [delta(json!({"content": "Hi"})), over("stop")];
    behind!(openai, said, "[DONE]", delta(json!({"content": " and more"})));
    let said = [start(json!({})), open(0), stop(0)];
    behind!(anthropic, said, &end("end_turn")[1].to_string(), open(1));
    behind!(ollama, [line("Hi", true)], "", line(" and more", false));
    let said = json!({"type": "response.output_item.done", "output_index": 0, "item": item});
    let more = json!({"type": "response.output_item.done", "output_index": 1, "item": item});
    behind!(responses, [said], &done.to_string(), more);
    // A `finish_reason` is no such end: some servers write one into each chunk.
    let chunk = |text: &str| candidate(json!([{"text": text}]), "STOP");
    let (_, answer) = whole!(gemini, [chunk("Hi"), chunk(" and more")]);
    assert_eq!(answer.message.text(), "Hi and more");
}
