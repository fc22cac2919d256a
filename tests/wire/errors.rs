//! What is wrong with a document or a stream is said with the place of it, in each format.

use memory_prompt::wire::{anthropic, gemini, langchain4j, ollama, openai, responses};
use memory_prompt::{Error, ErrorKind, Message, ToolCall};

/// Each row of `table` is what comes and, behind `=>`, what is said of it when it is read as the
/// line above the rows says: a `history`, an `answer` or a `stream`.
fn assert_said(format: &str, table: &str, read: impl Fn(&str, &str) -> Vec<Error>) {
    let mut kind = "";
    for row in table.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let Some((document, expected)) = row.split_once("=> ") else {
            kind = row;
            continue;
        };
        let errors = read(kind, document.trim());
        let is_codec = errors.iter().all(|error| error.kind() == ErrorKind::Codec);
        assert!(is_codec || kind != "history", "{format}: {row}");
        let said: Vec<_> = errors.iter().map(ToString::to_string).collect();
        let expected = expected.split(" & ").map(|error| format!("read {format} {kind}: {error}"));
        assert_eq!(said, expected.collect::<Vec<_>>(), "{row}");
    }
}

/// The events of a stream stand in one row with `&` between them; one that is refused at no event
/// is refused at its end.
macro_rules! says_where {
    ($format:ident, $table:expr) => {
        assert_said(stringify!($format), $table, |kind, document| match kind {
            "history" => vec![$format::history(document).expect_err(document)],
            "answer" => vec![$format::answer(document).expect_err(document)],
            _ => {
                let mut stream = $format::Stream::new();
                let errors = document.split('&').filter_map(|it| stream.push(it.trim()).err());
                let errors: Vec<_> = errors.collect();
                let last = stream.finish().expect_err(document);
                if errors.is_empty() { vec![last] } else { errors }
            }
        })
    };
}

#[test]
fn openai_says_where() {
    let table = r#"
        history
        [ => not valid JSON at line 1 column 1
        7 => expected an object, found a number
        {} => messages: missing
        {"messages": {}} => messages: expected an array, found an object
        ["hi"] => messages[0]: expected an object, found a string
        [{"content": "hi"}] => messages[0].role: missing
        [{"role": 1}] => messages[0].role: expected a string, found a number
        [{"role": "user"}] => messages[0].content: missing
        [{"role": "user", "content": [{}]}] => messages[0].content[0].type: missing
        [{"role": "user", "content": [{"type": "image_url", "image_url": {}}]}] => messages[0].content[0].image_url.url: missing
        [{"role": "user", "content": [{"type": "file", "file": {}}]}] => messages[0].content[0].file: expected either `file_id` or `file_data`
        [{"role": "assistant", "tool_calls": [{"id": "c", "function": {}}]}] => messages[0].tool_calls[0].function.name: missing
        [{"role": "assistant", "tool_calls": [{"function": {"name": "t", "arguments": 7}}]}] => messages[0].tool_calls[0].function.arguments: expected a string, found a number
        [{"role": "system", "content": [{"type": "image_url"}]}] => messages[0].content[0].type: expected `text`
        [{"role": "tool", "content": ""}] => messages[0].tool_call_id: missing
        answer
        {} => choices: missing
        {"choices": {}} => choices: expected an array, found an object
        {"choices": []} => choices: expected exactly one choice
        {"choices": [{}, {}]} => choices: expected exactly one choice
        {"choices": [{}]} => choices[0].message: missing
        {"role": "user", "content": "x"} => role: expected `assistant`
        {"error": {"message": "slow down", "code": 429}} => error: the provider answered an error (429)
        stream
        { => not valid JSON at line 1 column 1
        {"error": {"message": "overloaded"}} => error: the provider answered an error
        {"choices": [{"index": 1, "delta": {}}]} => choices[0].index: expected one choice, numbered 0
        {"choices": [{"delta": {"tool_calls": [{"index": -1}]}}]} => choices[0].delta.tool_calls[0].index: expected an index, found a number
        data: {"choices": [{"delta": {"content": "Hel"}}]} &  & {"choices": [{"delta": {"content": 7}}]} => choices[0].delta.content: expected a string, found a number
        {"choices": [{"delta": {"content": "Hel"}}]} => it broke off before the answer was complete
    "#;
    says_where!(openai, table);
}

#[test]
fn responses_says_where() {
    let table = r#"
        history
        { => not valid JSON at line 1 column 1
        7 => expected an object, found a number
        {} => input: missing
        {"input": 7} => input: expected an array, found a number
        [7] => input[0]: expected an object, found a number
        [{"content": "hi"}] => input[0].role: missing
        [{"role": "tool", "content": "hi"}] => input[0].role: not a role of this format
        [{"role": "user"}] => input[0].content: missing
        [{"role": "user", "content": [{}]}] => input[0].content[0].type: missing
        [{"role": "user", "content": [{"type": "input_image"}]}] => input[0].content[0]: expected either `image_url` or `file_id`
        [{"role": "user", "content": [{"type": "input_file"}]}] => input[0].content[0]: expected one of `file_url`, `file_id` and `file_data`
        [{"role": "assistant", "content": [{"type": "output_text"}]}] => input[0].content[0].text: missing
        [{"type": "function_call", "name": "t"}] => input[0].call_id: missing
        [{"type": "function_call_output", "call_id": "c", "output": 7}] => input[0].output: expected a string or an array, found a number
        answer
        {} => output: missing
        {"error": {"code": "server_error", "message": "sorry"}, "output": []} => error: the provider answered an error (`server_error`)
        {"output": [{}]} => output[0].type: missing
        {"output": [{"type": "function_call_output", "output": "x"}]} => output[0].call_id: missing
        stream
        {"type": "error", "message": "overloaded", "code": null} => the provider answered an error
        {"type": "response.failed", "response": {"error": {"message": "sorry"}}} => response.error: the provider answered an error
        {"type": "response.output_item.done", "output_index": "x", "item": {}} => output_index: expected an index, found a string
        {"type": "response.output_text.delta", "delta": "Hel"} & {"type": "response.of_the_future", "delta": 7} => it broke off before the answer was complete
    "#;
    says_where!(responses, table);
}

#[test]
fn anthropic_says_where() {
    // The first stream panicked.
    let table = r#"
        history
        { => not valid JSON at line 1 column 1
        3 => expected an object, found a number
        {} => messages: missing
        {"messages":{}} => messages: expected an array, found an object
        {"messages":[1]} => messages[0]: expected an object, found a number
        [{"content":"x"}] => messages[0].role: missing
        [{"role":"tool","content":"x"}] => messages[0].role: unknown role
        [{"role":"user"}] => messages[0].content: missing
        [{"role":"user","content":3}] => messages[0].content: expected a string or an array, found a number
        [{"role":"user","content":[{"type":"text","text":"a"},{"text":"a"}]}] => messages[0].content[1].type: missing
        [{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":[{"type":"text"}]}]}] => messages[0].content[0].content[0].text: missing
        [{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","is_error":1}]}] => messages[0].content[0].is_error: expected a boolean, found a number
        [{"role":"user","content":[{"type":"image","source":{"type":"base64","data":"x"}}]}] => messages[0].content[0].source.media_type: missing
        [{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"b","input":"{}"}]}] => messages[0].content[0].input: expected an object, found a string
        {"system":[{"type":"image"}],"messages":[]} => system[0].type: expected `text`
        {"system":[{"type":"text","text":"a","when":1}],"messages":[]} => system[0]: a field that is not known
        answer
        {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}} => error: the provider answered an error (`overloaded_error`)
        {"role":"user","content":"x"} => role: expected `assistant`
        {"content":[{"type":"thinking"}]} => content[0].thinking: missing
        stream
        {"type":"message_start","message":false} => message: expected an object, found a boolean
        {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}} => `content_block_start` came before `message_start`
        START & START => a second `message_start`
        START & TOOL & TOOL => index: block 0 was opened before
        START & {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}} => index: block 0 was never opened
        {} => type: missing
        START & {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}} => error: the provider answered an error (`overloaded_error`)
        START & TOOL & {"type":"content_block_delta","index":0,"delta":{"type":"text_delta"}} => delta.text: missing
        START => it broke off before the answer was complete
    "#;
    let start = r#"{"type":"message_start","message":{}}"#;
    let tool = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"t","input":{}}}"#;
    says_where!(anthropic, &table.replace("START", start).replace("TOOL", tool));
}

#[test]
fn gemini_says_where() {
    let table = r#"
        history
        { => not valid JSON at line 1 column 1
        3 => expected an object, found a number
        {} => contents: missing
        {"contents":{}} => contents: expected an array, found an object
        [1] => contents[0]: expected an object, found a number
        [{"role":"system","parts":[]}] => contents[0].role: unknown role
        [{"role":"user","parts":[{"text":3}]}] => contents[0].parts[0].text: expected a string, found a number
        [{"role":"model","parts":[{"text":"x"},{"functionCall":{"args":{}}}]}] => contents[0].parts[1].functionCall.name: missing
        [{"role":"model","parts":[{"functionCall":{"name":"t","args":"{}"}}]}] => contents[0].parts[0].functionCall.args: expected an object, found a string
        [{"role":"model","parts":[{"functionCall":{"name":"t","partialArgs":[{}]}}]}] => contents[0].parts[0].functionCall.partialArgs: arguments come in pieces in a stream alone
        [{"role":"model","parts":[{"text":"x","thought":"yes"}]}] => contents[0].parts[0].thought: expected a boolean, found a string
        [{"parts":[{"functionResponse":{"name":"t","response":"x"}}]}] => contents[0].parts[0].functionResponse.response: expected an object, found a string
        [{"parts":[{"inlineData":{"mimeType":"image/png"}}]}] => contents[0].parts[0].inlineData.data: missing
        {"systemInstruction":{"parts":[{"inlineData":{}}]},"contents":[]} => systemInstruction.parts[0].text: missing
        answer
        {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}} => error: the provider answered an error (`UNAVAILABLE`, 503)
        {} => candidates: missing
        {"promptFeedback":{"blockReason":"SAFETY"}} => promptFeedback: nothing was answered (`SAFETY`)
        {"candidates":[{"content":{}},{"content":{}}]} => candidates[1]: a second candidate: choose one
        {"role":"user","parts":[]} => role: expected `model`
        {"candidates":[{"content":{"parts":[{"text":1}]}}]} => candidates[0].content.parts[0].text: expected a string, found a number
        stream
        {"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}} => error: the provider answered an error (`UNAVAILABLE`, 503)
        {"promptFeedback":{"blockReason":"SAFETY"}} => promptFeedback: nothing was answered (`SAFETY`)
        {"candidates":[{"content":{}},{"content":{}}]} => candidates[1]: a second candidate: choose one
        {"candidates":[{"content":{"parts":[{"text":1}]}}]} => candidates[0].content.parts[0].text: expected a string, found a number
        {"candidates":[{"content":{"parts":[{"text":"a"}]}}]} => it broke off before the answer was complete
    "#;
    says_where!(gemini, table);
}

#[test]
fn ollama_says_where() {
    let table = r#"
        history
        => not valid JSON at line 1 column 0
        7 => expected an object, found a number
        {} => messages: missing
        {"messages": 7} => messages: expected an array, found a number
        [7] => messages[0]: expected an object, found a number
        [{"content": "hi"}] => messages[0].role: missing
        [{"role": "user", "content": []}] => messages[0].content: expected a string, found an array
        [{"role": "user", "images": [7]}] => messages[0].images[0]: expected a string, found a number
        [{"role": "assistant", "tool_calls": [{}]}] => messages[0].tool_calls[0].function: missing
        [{"role": "assistant", "tool_calls": [{"function": {"name": "t", "arguments": []}}]}] => messages[0].tool_calls[0].function.arguments: expected an object, found an array
        answer
        {} => message: missing
        {"error": "model not found"} => error: the provider answered an error
        {"message": {"role": "user"}} => message.role: expected `assistant`
        stream
        {"error": "overloaded"} & {"message": 7} => error: the provider answered an error & message: expected an object, found a number
        {"message": {"content": "Hel"}} &  => it broke off before the answer was complete
    "#;
    says_where!(ollama, table);
}

#[test]
fn langchain4j_says_where() {
    let table = r#"
        history
        { => not valid JSON at line 1 column 1
        3 => expected an object, found a number
        {} => type: missing
        [{"type":"USER","contents":[]},{"type":"MOOD"}] => messages[1].type: not a type of LangChain4j's
        [{"type":"SYSTEM"}] => messages[0].text: missing
        [{"type":"USER"}] => messages[0].contents: missing
        [{"type":"USER","contents":{}}] => messages[0].contents: expected an array, found an object
        [{"type":"USER","contents":[],"text":"x"}] => messages[0].text: beside `contents`
        [{"type":"USER","contents":[{"text":"x"}]}] => messages[0].contents[0].type: missing
        [{"type":"USER","contents":[{"type":"TEXT","text":"x"},{"type":"IMAGE","image":{"url":3}}]}] => messages[0].contents[1].image.url: expected a string, found a number
        [{"type":"USER","contents":[{"type":"PDF","pdfFile":{}}]}] => messages[0].contents[0].pdfFile: neither `url` nor `base64Data`
        [{"type":"AI","toolExecutionRequests":[{"name":"t"},{"id":"x"}]}] => messages[0].toolExecutionRequests[1].name: missing
        [{"type":"AI","toolExecutionRequests":[{"name":"t","arguments":{}}]}] => messages[0].toolExecutionRequests[0].arguments: expected a string, found an object
        [{"type":"AI","attributes":[]}] => messages[0].attributes: expected an object, found an array
        [{"type":"TOOL_EXECUTION_RESULT","text":"x","isError":"no"}] => messages[0].isError: expected a boolean, found a string
    "#;
    assert_said("langchain4j", table, |_, document| {
        vec![langchain4j::history(document).expect_err(document)]
    });
}

/// An index that no list could hold costs nothing.
#[test]
fn a_far_index_is_one_place() {
    let mut stream = openai::Stream::new();
    for event in [
        r#"{"choices": [{"delta": {"tool_calls": [{"index": 18446744073709551615, "id": "c", "function": {"name": "t"}}]}}]}"#,
        r#"{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}"#,
        "data: [DONE]",
    ] {
        stream.push(event).unwrap();
    }
    let message = Message::from(stream.finish().unwrap());
    assert_eq!(message, Message::ai_calls([ToolCall::new("c", "t", "")]));

    let mut stream = responses::Stream::new();
    for event in [
        r#"{"type": "response.output_item.done", "output_index": 18446744073709551615, "item": {"role": "assistant", "content": "x"}}"#,
        // Another item there, and one without an index: both have a place behind it.
        r#"{"type": "response.output_item.done", "output_index": 18446744073709551615, "item": {"type": "reasoning", "id": "r", "encrypted_content": "g"}}"#,
        r#"{"type": "response.output_item.done", "item": {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}}"#,
        r#"{"type": "response.completed", "response": {}}"#,
        "[DONE]",
    ] {
        stream.push(event).unwrap();
    }
    let message = stream.finish().unwrap().message;
    assert_eq!((&*message.text(), message.reasoning().count()), ("x", 1));
    assert_eq!(message.tool_calls().count(), 1);
}

/// The model was cut off in the middle of its arguments: what there is, is kept.
#[test]
fn half_of_the_arguments_are_kept() {
    let mut stream = anthropic::Stream::new();
    for event in [
        r#"{"type":"message_start","message":{}}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"t","input":{}}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"a\": [1,"}}"#,
        r#"{"type":"message_stop"}"#,
        r#"data: {"type": "ping"}"#,
    ] {
        stream.push(event).unwrap();
    }
    let message = stream.finish().unwrap().message;
    assert_eq!(message.tool_calls().next().unwrap().arguments, r#"{"a": [1,"#);
}
