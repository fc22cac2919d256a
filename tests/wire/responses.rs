//! OpenAI Responses: the provider's examples, the laws, and what goes wrong.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs, unreachable_pub)] // a test that panics has failed

use crate::counted::counted;
use crate::events::streamed;
use crate::setups::prompt_for;
use crate::values::compose;
use crate::wire_messages;
use crate::wrong::wrong;
use memory_prompt::message::{
    AiMessage, AiPart, Content, Detail, Media, Part, Reasoning, Source, SystemMessage, TextPart,
    ToolMessage, UserMessage,
};
use memory_prompt::provider::Row;
use memory_prompt::record::Snapshot;
use memory_prompt::wire::responses::{self, ATTRIBUTE, Input};
use memory_prompt::wire::{self, Event, Request, openai};
use memory_prompt::{Clear, Composer, Message, Provider, ToolCall, Window};
use proptest::prelude::*;
use serde_json::{Value, json};

fn json_of(messages: &[Message]) -> Value {
    json!(Input::of(messages).developer())
}

#[test]
fn a_system_message_elsewhere_is_an_item() {
    let messages = [Message::user("hi"), Message::system("Be brief.")];
    let value = json!(Input::of(&messages));
    let system = json!({"type": "message", "role": "system", "content": "Be brief."});
    assert_eq!(value[1], system);
}

#[test]
fn the_cache_mark_stands_on_the_last_durable_input() {
    let mark = json!({"mode": "explicit"});
    let history = [
        Message::user("hi"),
        Message::ai_calls([ToolCall::new("c", "look", "{}")]),
        Message::tool("c", "look", "x"),
        Message::ai("x"),
    ];
    let built = compose(&history, &[Message::user("Today is Friday.")]);
    let value = json!(responses::input(&built).cache_prefix());
    let marked = json!([{"type": "input_text", "text": "x", "prompt_cache_breakpoint": mark}]);
    assert_eq!(value[2]["output"], marked);
    assert_eq!(value.to_string().matches("prompt_cache_breakpoint").count(), 1);

    let parts = [Part::Image(Media::url("u")), Part::text("")];
    let list = [Message::system("s"), Message::user(parts), Message::ai("x")];
    let value = json!(Input::of(&list).cache_prefix());
    assert_eq!(value[0]["content"][0]["prompt_cache_breakpoint"], mark);
    let read = responses::history(value.to_string()).unwrap();
    let again = serde_json::to_string(&Input::of(&read).cache_prefix()).unwrap();
    assert_eq!(again.matches("prompt_cache_breakpoint").count(), 1);

    // The system message takes it where it is an item and nothing else does.
    let value = json!(Input::of(&list[..1]).developer().cache_prefix());
    assert_eq!(value[0]["content"][0]["prompt_cache_breakpoint"], mark);
    assert_eq!(json!(Input::of(&list[..1]).cache_prefix()), json!([]));
}

#[test]
fn what_another_format_signed_is_not_sent() {
    let extra = |value: Value| value.as_object().unwrap().clone();
    let thinking = Reasoning {
        extra: extra(json!({"anthropic": {}})),
        ..Reasoning::new("hm").with_signature("sig")
    };
    let text =
        Part::Text(TextPart { text: "x".to_owned(), extra: extra(json!({"gemini": {"a": 1}})) });
    let message = AiMessage::from_parts([AiPart::from(thinking), text.into()]);
    let expected = json!([{"type": "message", "role": "assistant", "content": "x"}]);
    assert_eq!(json_of(&[message.into()]), expected);
    // Nor does Chat Completions get what this format kept.
    let mine = responses::answer(
        r#"[{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"},
            {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "x"}]},
            {"type": "web_search_call", "id": "ws_1"},
            {"type": "custom_tool_call", "call_id": "c", "name": "t", "input": "free"}]"#,
    )
    .unwrap();
    let expected = json!([{"role": "assistant", "content": "x", "tool_calls": [
        {"id": "c", "type": "function", "function": {"name": "t", "arguments": "free"}}]}]);
    assert_eq!(json!(openai::Messages::of(&[mine.into()])), expected);
}

/// The answer of a reasoning model that searched, as the provider gives it.
fn searched(sealed: bool) -> Message {
    let mut thought = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    if sealed {
        thought["encrypted_content"] = "gAAA".into();
    }
    let body = json!({"status": "completed", "output": [
        thought,
        {"type": "web_search_call", "id": "ws_1", "status": "completed"},
        {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Sunny.", "annotations": []}]}]});
    wire::answer(Provider::OpenAiResponses, body).unwrap().into()
}

/// The kinds of the items that a request for this model holds, and what it loses.
fn sent_to(model: &str, answer: Message) -> (Vec<Value>, String, Vec<String>) {
    let history = [Message::user("q"), answer, Message::user("And now?")];
    let prompt = prompt_for(Provider::OpenAiResponses, &history);
    let request = Request::new(&prompt).model(model);
    let losses = request.losses().iter().map(ToString::to_string).collect();
    let body = json!(request);
    let kinds = body["input"].as_array().unwrap().iter().map(|it| it["type"].clone());
    (kinds.collect(), body.to_string(), losses)
}

/// A person went on with `gpt-4.1` where `gpt-5-mini` had thought: "Reasoning input items can only
/// be provided to a reasoning or computer use model. Remove reasoning items from your input" (400),
/// and so for each question from there on.
#[test]
fn a_model_that_does_not_reason_is_sent_no_reasoning() {
    let lost = ["message 1, part 0: reasoning", "message 1, part 1: an item without its reasoning"];
    for model in ["gpt-4.1", "gpt-4o-mini", "openai/gpt-4o", "gpt-35-turbo", "gpt-5-chat-latest"] {
        let (kinds, body, losses) = sent_to(model, searched(true));
        assert_eq!(kinds, ["message", "message", "message"], "{model}");
        assert!(!body.contains("gAAA") && !body.contains("_1\""), "{model}: {body}");
        assert_eq!(losses, lost, "{model}");
    }
    let whole = ["message", "reasoning", "web_search_call", "message", "message"];
    for model in ["gpt-5-mini", "o3", "gpt-oss-120b", "our-deployment"] {
        let (kinds, _, losses) = sent_to(model, searched(true));
        assert_eq!((kinds, losses), (whole.map(Value::from).to_vec(), Vec::new()), "{model}");
    }
}

/// A deployment of another name gave its reasoning without encrypting it, and had searched: the
/// thought was left out, and the search behind it kept its id: "Item `ws_1` of type
/// `web_search_call` was provided without its required 'reasoning' item" (400).
#[test]
fn a_search_goes_with_the_reasoning_before_it() {
    let (kinds, body, losses) = sent_to("our-deployment", searched(false));
    assert_eq!(kinds, ["message", "message", "message"]);
    assert!(!body.contains("_1\"") && body.contains("Sunny."), "{body}");
    assert_eq!(losses[1], "message 1, part 1: an item without its reasoning");
    // Without reasoning before it, nothing asks for any.
    let alone = json!({"status": "completed", "output": [
        {"type": "web_search_call", "id": "ws_1", "status": "completed"}]});
    let alone = wire::answer(Provider::OpenAiResponses, alone).unwrap();
    let (kinds, _, losses) = sent_to("gpt-4.1", alone.into());
    assert_eq!((kinds[1].as_str(), losses.len()), (Some("web_search_call"), 0));
}

#[test]
fn data_in_an_address_is_data() {
    let url = "data:application/pdf;base64,JVBERi0=";
    let list = [Message::user([
        Part::File(Media::url(url)),
        Part::Image(Media { media_type: None, ..Media::base64("", "iVBORw0KGgo=") }),
    ])];
    let expected = json!([{"type": "input_file", "filename": "file.pdf", "file_data": url}, {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "auto"}]);
    assert_eq!(json_of(&list)[0]["content"], expected);
}

#[test]
fn what_is_not_known_is_kept() {
    let request = json!([
        {"type": "message", "role": "user", "id": "msg_0", "content": [
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
            {"type": "input_text", "text": "x", "y": 1},
            {"type": "input_image", "image_url": "u", "detail": "auto", "y": 1},
        ]},
        {"type": "message", "role": "assistant", "id": "msg_1", "content": [
            {"type": "output_image", "image_url": "u"},
            {"type": "output_text", "text": "x", "annotations": [], "y": 1},
        ]},
        {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot"}},
        {"type": "function_call_output", "call_id": "c", "output": "x", "id": "fco_1", "status": "completed"},
    ]);
    let messages = responses::history(request.to_string()).unwrap();
    assert_eq!(json_of(&messages), request);
    assert_eq!(messages[2].as_tool().unwrap().attributes()[ATTRIBUTE]["id"], "fco_1");
}

#[test]
fn results_in_an_answer_are_sent_back() {
    let output = json!([
        {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}", "status": "completed"},
        {"type": "function_call_output", "call_id": "c", "output": "x", "id": "fco_1", "status": "completed"},
        {"type": "custom_tool_call_output", "call_id": "d", "output": "y", "id": "ctco_1", "status": "completed"},
    ]);
    let answer = responses::answer(json!({"output": output}).to_string()).unwrap();
    assert_eq!(json_of(&[answer.into()]), output);
}

/// A text with a field `item` was written as that item, so that the history could not be read.
#[test]
fn a_field_has_no_name_of_ours() {
    let block = |field: &str| json!({"type": "output_text", "text": "Hi.", "annotations": [], field: {"role": "tool"}});
    let said = |blocks: Value| json!({"type": "message", "role": "assistant", "content": blocks});
    let plain = json!({"type": "output_text", "text": "Hi.", "annotations": []});
    for (field, written) in [("item", block("item")), ("block", block("block")), ("message", plain)]
    {
        let history = json!([said(json!([block(field), block(field)]))]);
        let messages = responses::history(&history).unwrap();
        assert_eq!(messages[0].text(), "Hi.Hi.");
        assert_eq!(json_of(&messages), json!([said(json!([written, written]))]));
    }

    let call = json!({"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"});
    let result =
        json!({"type": "function_call_output", "call_id": "c", "output": "1", "custom": true});
    let messages = responses::history(json!([call, result])).unwrap();
    assert_eq!(json_of(&messages)[1]["type"], "function_call_output");
}

#[test]
fn odd_histories_are_read() {
    let body = json!({"instructions": "s", "input": [
        {"role": "system", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
        {"role": "assistant", "content": "x", "phase": "commentary"},
        {"role": "assistant", "content": []},
        {"type": "function_call_output", "call_id": "nobody", "name": "t", "output": ""},
    ]});
    let messages = responses::history(body.to_string()).unwrap();
    assert_eq!(messages[0], Message::system("s\n\na\n\nb"));
    assert_eq!(messages[1].text(), "x");
    assert_eq!(messages[2].as_tool().unwrap().tool_name(), "t");
    // As the reference has it: a list for messages with an id, else a text.
    let commentary =
        json!({"type": "message", "role": "assistant", "content": "x", "phase": "commentary"});
    assert_eq!(json_of(&messages)[1], commentary);
}

/// What the format can hold without a loss.
fn lossless() -> BoxedStrategy<Vec<Message>> {
    use crate::wire_messages::*;
    let image = prop_oneof![
        Just(Media::url("https://e.x/a.png").with_detail(Detail::Auto)),
        Just(Media::base64("image/png", "AA==").with_detail(Detail::High)),
        Just(Media::file_id("file_1").with_detail(Detail::Other("original".to_owned()))),
    ];
    let file = prop_oneof![
        words().prop_map(|name| Media::base64("text/csv", "AA==").with_name(name)),
        Just(Media::url("https://e.x/a.pdf")),
        Just(Media::file_id("file_1")),
    ];
    let part = prop_oneof![
        4 => text().prop_map(Part::text),
        1 => image.prop_map(Part::Image),
        1 => file.prop_map(Part::File),
    ];
    let parts = proptest::collection::vec(part, 1..4).boxed();
    let content =
        prop_oneof![text().prop_map(Content::from), parts.prop_map(Content::from)].boxed();
    let user = content.clone().prop_map(|content| UserMessage::new(content).into());
    let signed = (words(), words()).prop_map(|(text, signature)| {
        let extra = json!({"responses": {"id": "rs_1"}});
        AiPart::from(Reasoning {
            extra: extra.as_object().unwrap().clone(),
            ..Reasoning::new(text).with_signature(signature)
        })
    });
    let said = (proptest::option::of(signed), proptest::collection::vec(words(), 0..3));
    let said = said.prop_map(|(thought, texts)| {
        let texts = texts.into_iter().map(Part::text).map(AiPart::from);
        thought.into_iter().chain(texts).collect::<Vec<_>>()
    });
    let said = said.boxed();
    let ai = said.clone().prop_map(|parts| vec![AiMessage::from_parts(parts).into()]);
    let arguments = arguments().prop_filter("empty arguments become {}", |a| !a.is_empty());
    let group = group(said, content, arguments);
    let system = text().prop_map(|text| SystemMessage::new(text).into());
    // Two answers in a row would be one.
    let step = (prop_oneof![1 => system, 3 => user], prop_oneof![ai, group]);
    let step = step.prop_map(|(first, rest): (Message, Vec<Message>)| [vec![first], rest].concat());
    proptest::collection::vec(step, 0..5).prop_map(|steps| steps.concat()).boxed()
}

counted! {
    #![cases(512)]

    #[test]
    fn nothing_is_lost_where_the_format_allows(messages in lossless()) {
        let messages = wire_messages::opened_once(&messages);
        let json = serde_json::to_string(&Input::of(&messages).developer().strict().unwrap()).unwrap();
        prop_assert_eq!(responses::history(&json).unwrap(), messages);
    }

    #[test]
    fn anything_can_be_written(messages in wire_messages::messages(), flags in any::<[bool; 2]>()) {
        let options = |mut view: Input<'_>| {
            if flags[0] { view = view.developer(); }
            if flags[1] { view = view.cache_prefix(); }
            serde_json::to_string(&view).unwrap()
        };
        let text = options(Input::of(&messages));
        let value: Value = serde_json::from_str(&text).unwrap();
        for item in value.as_array().unwrap() {
            prop_assert!(!item.as_object().unwrap().is_empty());
        }
        // Each key once: a map that is written again is as long.
        prop_assert_eq!(value.to_string().len(), text.len());
        if let Ok(once) = responses::history(&text) {
            let again = options(Input::of(&once).developer());
            if let Ok(twice) = responses::history(&again) {
                prop_assert_eq!(options(Input::of(&twice).developer()), again);
            }
        }
    }
}

/// Their outputs were passed over, and the next request was a 400: "No tool output found for …".
#[test]
fn calls_that_are_no_functions_are_answered_by_their_kind() {
    let calls = json!([
        {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {}}},
        {"type": "shell_call", "id": "sh_1", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "apply_patch_call", "id": "apc_1", "call_id": "c3",
         "operation": {"type": "delete_file", "path": "a"}},
        {"type": "computer_call", "id": "cu_1", "call_id": "c4", "action": {"type": "screenshot"}},
        {"type": "tool_search_call", "id": "ts_1", "call_id": "c5", "execution": "client",
         "arguments": {"query": "x"}},
        {"type": "mcp_approval_request", "id": "mcpr_1", "name": "book", "server_label": "s",
         "arguments": "{}"},
        {"type": "function_call", "call_id": "c7", "name": "t", "arguments": "{}",
         "caller": {"type": "program", "caller_id": "p1"}},
    ]);
    let answer = responses::answer(json!({"output": calls}).to_string()).unwrap();
    let asked: Vec<_> = answer.message.tool_calls().cloned().collect();
    let names =
        ["local_shell", "shell", "apply_patch", "computer", "tool_search", "mcp_approval", "t"];
    assert!(asked.iter().map(|call| call.name.as_str()).eq(names), "{asked:?}");
    assert_eq!(asked[0].arguments, r#"{"command":["ls"],"env":{},"type":"exec"}"#);
    let seen = [Part::Image(Media::base64("image/png", "AA=="))];
    let results = ["a b", "a b", "done"].map(Content::from).into_iter();
    let results = results.chain([seen.into(), "[]".into(), "true".into(), "x".into()]);
    let results = asked.iter().zip(results).map(|(call, result)| call.result(result));
    let list: Vec<_> = std::iter::once(answer.message.into()).chain(results).collect();
    let written = json_of(&list);
    let outputs = json!([
        {"type": "local_shell_call_output", "call_id": "c1", "output": "a b"},
        {"type": "shell_call_output", "call_id": "c2", "output": [
            {"stdout": "a b", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]},
        {"type": "apply_patch_call_output", "call_id": "c3", "status": "completed", "output": "done"},
        {"type": "computer_call_output", "call_id": "c4", "output": {
            "type": "computer_screenshot", "image_url": "data:image/png;base64,AA=="}},
        {"type": "tool_search_output", "call_id": "c5", "execution": "client",
         "status": "completed", "tools": []},
        {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": true},
        {"type": "function_call_output", "call_id": "c7", "output": "x",
         "caller": {"type": "program", "caller_id": "p1"}},
    ]);
    assert_eq!(&written.as_array().unwrap()[..7], calls.as_array().unwrap());
    assert_eq!(&written.as_array().unwrap()[7..], outputs.as_array().unwrap());
    // A history that somebody else wrote reads as the same, and is written again as it was.
    let read = responses::history(written.to_string()).unwrap();
    assert_eq!(read.iter().filter(|message| message.is_tool()).count(), 7);
    assert_eq!(json_of(&read), written);
    // Another provider is shown functions.
    let shown = json!(openai::Messages::of(&list));
    assert_eq!(shown[0]["tool_calls"][1]["function"]["name"], "shell");
    // What the provider ran by itself is no call.
    let run = json!({"output": [
        {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c", "output": []},
        {"type": "tool_search_call", "call_id": null, "execution": "server", "arguments": {}}]});
    let run = responses::answer(run.to_string()).unwrap().message;
    assert!(!run.has_tool_calls());
    assert_eq!(json_of(&[run.into()]).as_array().unwrap().len(), 3);
}

/// A screenshot was cleared, a call had no result, or the computer failed: a string stood in the
/// place of the picture, and each later request of the agent was a 400, "expected a computer call
/// output, but got a string instead".
#[test]
fn a_computers_result_without_a_picture_is_a_functions() {
    let mut history = vec![Message::user("Click.")];
    for i in 0..5 {
        let item = json!({"output": [
            {"type": "reasoning", "id": format!("rs_{i}"), "summary": [], "encrypted_content": "g"},
            {"type": "computer_call", "id": format!("cu_{i}"), "call_id": format!("c{i}"),
             "status": "completed", "action": {"type": "screenshot"}}]});
        history.push(responses::answer(item.to_string()).unwrap().into());
        let seen = Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
        history.push(Message::tool(format!("c{i}"), "computer", [seen]));
    }
    history.pop();
    history[6] = ToolMessage::new("c2", "computer", "It failed.")
        .with_attribute(ATTRIBUTE, json!({"acknowledged_safety_checks": []}))
        .into();
    let composer = Composer::new()
        .window(Window::all())
        .clear(Clear::tool_results().keep(2).step(1))
        .for_provider(Provider::OpenAiResponses);
    let prompt = composer.compose_all(&Snapshot::from_messages(history), &[]).unwrap();
    let request = Request::new(&prompt).model("computer-use-preview");
    let body = json!(request);
    let kinds = |id: &str| {
        let items = body["input"].as_array().unwrap().iter();
        let of_call = items.filter(|item| item["call_id"] == id);
        of_call.map(|item| item["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for gone in ["c0", "c2", "c4"] {
        assert_eq!(kinds(gone), ["function_call", "function_call_output"], "{body}");
    }
    assert_eq!(kinds("c3"), ["computer_call", "computer_call_output"], "{body}");
    assert_eq!(wrong(Provider::OpenAiResponses, &body), Vec::<String>::new(), "{body}");
    let text = body.to_string();
    assert!(text.contains("It failed.") && !text.contains("rs_2") && !text.contains("safety"));
    let told = |i: usize| format!("message {i}, part 1: a call of another kind");
    let losses: Vec<_> = request.losses().iter().map(ToString::to_string).collect();
    assert!(losses.contains(&told(5)) && !losses.contains(&told(7)), "{losses:?}");
}

/// A search for tools failed, and its model was told that there are none.
#[test]
fn a_search_for_tools_without_a_list_is_a_functions() {
    let call = json!({"output": [{"type": "tool_search_call", "id": "ts", "call_id": "c",
        "execution": "client", "arguments": {"query": "x"}}]});
    let call = responses::answer(call.to_string()).unwrap().message;
    let written = json_of(&[call.into(), Message::tool("c", "tool_search", "It failed.")]);
    let output = json!({"type": "function_call_output", "call_id": "c", "output": "It failed."});
    assert_eq!((&written[0]["type"], &written[1]), (&json!("function_call"), &output));
}

/// A streamed patch, shell call or search for tools was stored as a call, and none was shown: a UI
/// that follows the events waited for an answer that was there. Recorded streams of OpenAI's say
/// so.
#[test]
fn calls_of_a_kind_of_their_own_are_shown() {
    let patch = json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "c1", "status": "completed",
        "operation": {"type": "delete_file", "path": "a.txt"}});
    let function = json!({"type": "function_call", "id": "fc_1", "call_id": "c2", "name": "look",
        "arguments": "{\"x\":1}"});
    let shell = |id: &str| json!({"type": "shell_call", "id": "sh_1", "call_id": id, "action": {"commands": ["ls"]}});
    let output = json!({"type": "shell_call_output", "call_id": "theirs", "output": []});
    let items = [patch, function, shell("theirs"), output, shell("c3")];
    let done = items.iter().enumerate().map(
        |(i, item)| json!({"type": "response.output_item.done", "output_index": i, "item": item}),
    );
    let response = json!({"status": "completed", "output": items});
    let end = json!({"type": "response.completed", "response": response});
    let (shown, stream) = streamed!(responses, done.chain([end]));
    let begun = shown.iter().filter_map(|event| match event {
        Event::Call { index, id, name } => Some((*index, id.as_str(), name.as_str())),
        _ => None,
    });
    let expected = [(0, "c1", "apply_patch"), (1, "c2", "look"), (2, "c3", "shell")];
    assert_eq!(begun.collect::<Vec<_>>(), expected);
    let answer = stream.finish().unwrap();
    let stored: Vec<_> = answer.message.tool_calls().map(|call| call.id.as_str()).collect();
    assert_eq!(stored, ["c1", "c2", "c3"]);
    assert_eq!(shown.last(), Some(&Event::Done(answer.stop)));
}

/// A patch that was announced and of which the end never came was shown as a call when the response
/// ended, and the answer that was stored held none: nobody could give it a result.
#[test]
fn a_call_that_was_never_done_is_neither_shown_nor_stored() {
    let patch = json!({"type": "apply_patch_call", "id": "apc_1", "call_id": "c1",
        "operation": {"type": "delete_file", "path": "a.txt"}});
    let added = json!({"type": "response.output_item.added", "output_index": 0, "item": patch});
    let end = json!({"type": "response.completed", "response": {"status": "completed"}});
    let (shown, stream) = streamed!(responses, [added, end]);
    let answer = stream.finish().unwrap();
    assert_eq!(answer.message.tool_calls().count(), 0);
    assert_eq!(shown, [Event::Done(answer.stop)]);
}

/// A picture that the model had made could be shown to nobody, nor to another model.
#[test]
fn a_picture_that_the_model_made_is_one() {
    let item = json!({"type": "image_generation_call", "id": "ig_1", "status": "completed",
        "output_format": "webp", "revised_prompt": "A cat.", "result": "UklGRgAAAABXRUJQ"});
    let body = json!({"status": "completed", "output": [item, {"type": "message", "id": "msg_1",
        "status": "completed", "role": "assistant", "content":
            [{"type": "output_text", "text": "Here.", "annotations": []}]}]});
    let answer = responses::answer(body).unwrap().given_by(Provider::OpenAiResponses);
    let Some(AiPart::Content(Part::Image(picture))) = answer.message.parts().first() else {
        panic!("{:?}", answer.message)
    };
    assert_eq!(picture.media_type.as_deref(), Some("image/webp"));
    assert_eq!(picture.source, Source::Base64("UklGRgAAAABXRUJQ".to_owned()));
    let messages = [Message::from(answer)];
    let own = json!(Input::of(&messages).for_provider(Provider::OpenAiResponses).unstored());
    assert_eq!(own[0], item);
    assert_eq!(own[1]["content"][0]["text"], "Here.");
    // Another one of this format did not make it.
    let row = Row::like(Provider::OpenAiResponses, "twin").unwrap();
    let twin = json!(Input::of(&messages).for_provider(Provider::custom(row)));
    assert!(!twin.to_string().contains("UklGR"), "{twin}");
    let gemini = json!(wire::gemini::Contents::of(&messages));
    assert_eq!(gemini[0]["parts"][0]["inlineData"]["mimeType"], "image/webp");
    // One that failed holds none, and goes back as it came.
    let failed =
        json!({"type": "image_generation_call", "id": "ig_2", "status": "failed", "result": null});
    let answer = responses::answer(json!({"status": "completed", "output": [failed]})).unwrap();
    assert_eq!(json!(Input::of(&[Message::from(answer)]))[0], failed);
}

/// Servers of open models show all reasoning, and none of it encrypted: within a tool loop it was
/// dropped, and the model began to think again with each result.
#[test]
fn reasoning_that_is_shown_whole_goes_back_within_a_tool_loop() {
    let thought = json!({"type": "reasoning", "id": "rs_1", "summary": [],
        "content": [{"type": "reasoning_text", "text": "Look it up."}]});
    let call = json!({"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look",
        "arguments": "{}", "status": "completed"});
    let row = Row::like(Provider::OpenAiResponses, "open-models").unwrap();
    let server = Provider::custom(row);
    let body = json!({"status": "completed", "output": [thought, call]});
    let called = Message::from(wire::answer(server, body).unwrap());
    let mut history = vec![Message::user("hi"), called, Message::tool("c", "look", "sunny")];
    let sent = |history: &[Message]| json!(Input::of(history).for_provider(server).unstored());
    assert_eq!(sent(&history)[1], thought);
    assert_eq!(sent(&history)[2]["id"], "fc_1");
    history.extend([Message::ai("Sunny."), Message::user("And now?")]);
    assert_eq!(sent(&history)[1]["type"], "function_call");
    // OpenAI looks for one without content by its id, and finds nothing.
    let bare = json!({"type": "reasoning", "id": "rs_1", "summary": []});
    let body = json!({"status": "completed", "output": [bare, call]});
    let called = Message::from(wire::answer(server, body).unwrap());
    assert_eq!(sent(&[Message::user("hi"), called])[1]["type"], "function_call");
}

/// A text beside a screenshot, and a picture of a shell, vanished, and so did the reason of a
/// person who refused a call of a server's tool.
#[test]
fn what_an_output_has_no_place_for_is_told() {
    let calls = json!({"output": [
        {"type": "computer_call", "id": "cu", "call_id": "c1", "action": {"type": "screenshot"}},
        {"type": "shell_call", "id": "sh", "call_id": "c2", "action": {"commands": ["ls"]}},
        {"type": "mcp_approval_request", "id": "m1", "name": "book", "server_label": "s",
         "arguments": "{}"},
        {"type": "mcp_approval_request", "id": "m2", "name": "book", "server_label": "s",
         "arguments": "{}"}]});
    let answer = responses::answer(calls).unwrap().message;
    let seen = || Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
    let list = [
        answer.into(),
        Message::tool("c1", "computer", [Part::text("It is slow."), seen(), seen()]),
        Message::tool("c2", "shell", [Part::text("a b"), seen()]),
        Message::tool("m1", "mcp_approval", "Too expensive."),
        ToolMessage::new("m2", "mcp_approval", "Yes").with_error(true).into(),
    ];
    let view = Input::of(&list);
    let losses: Vec<_> = view.losses().iter().map(ToString::to_string).collect();
    let expected =
        ["message 1, part 0: text", "message 1, part 2: an image", "message 2, part 1: an image"];
    assert_eq!(losses, expected);
    let json = json!(view);
    let denied = json!({"type": "mcp_approval_response", "approval_request_id": "m1",
        "approve": false, "reason": "Too expensive."});
    assert_eq!(json[6], denied);
    assert_eq!(json[7]["approve"], false, "an error approves of nothing");
}
