//! A second opinion on the wire formats: what genai sends for a prompt says what the view of that
//! provider says, and what it reads in the providers' published answers is what we remember of
//! them. Written for genai 0.7.2.
//!
//! `MEMORY_PROMPT_CASES=10000` compares that many prompts.

#[allow(dead_code)] // its `main`
#[path = "../src/bin/genai.rs"]
mod example;

#[path = "../../../tests/common/conversations.rs"]
mod conversations;
#[path = "../../../tests/common/counted.rs"]
mod counted;
#[path = "../../../tests/provider/setups.rs"]
mod setups;

use std::fs;
use std::future::Future;
use std::path::Path;
use std::sync::mpsc::channel;

use conversations::{conversation, temporaries};
use counted::{Count, cases};
use genai::Client;
use genai::adapter::AdapterKind;
use genai::chat::ChatRequest;
use memory_prompt::{Message, Provider, Result, wire};
use memory_prompt_clients::Stub;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};
use setups::{compose, request, setups};

const ADAPTERS: [(Provider, AdapterKind); 5] = [
    (Provider::OpenAi, AdapterKind::OpenAI),
    (Provider::OpenAiResponses, AdapterKind::OpenAIResp),
    (Provider::Anthropic, AdapterKind::Anthropic),
    (Provider::Gemini, AdapterKind::Gemini),
    (Provider::Ollama, AdapterKind::Ollama),
];

fn wait<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.unwrap().block_on(future)
}

#[test]
fn it_sends_what_the_views_write() {
    let stub = Stub::lenient(std::iter::repeat("{}")).unwrap();
    let adapters = proptest::sample::select(ADAPTERS.to_vec());
    let strategy = (adapters, setups(), conversation(16), temporaries());
    let count = Count::of("what genai sends is what the views write", cases(256));
    let law = |(adapter, setup, conversation, temporaries): (_, setups::Setup, Vec<_>, Vec<_>)| {
        if !count.is_new() {
            return Ok(());
        }
        let (provider, adapter): (Provider, AdapterKind) = adapter;
        let composer = setup.composer().for_provider(provider);
        // A budget or a temporary may be refused.
        let Ok(prompt) = compose(&composer, &conversation, &temporaries) else { return Ok(()) };
        // Arguments that are no object are written by each in its own way.
        let readable =
            |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|it| it.is_object());
        if prompt.iter().flat_map(Message::tool_calls).any(|call| !readable(&call.arguments)) {
            return Ok(());
        }

        // Through its own JSON too.
        let theirs =
            serde_json::to_string(&memory_prompt_clients::genai::request(&prompt)).unwrap();
        let theirs: ChatRequest = serde_json::from_str(&theirs).unwrap();
        let target = example::target(adapter, &stub.url);
        // The stub's answer is none.
        let _ = wait(Client::new().unwrap().exec_chat(target, theirs, None));
        let theirs = stub.asked().body;
        let mut ours = request(provider, &prompt);
        if provider == Provider::OpenAi {
            ours = json!({"messages": wire::openai::messages(&prompt).reasoning_content()});
        }
        prop_assert_eq!(said(provider, &ours), said(provider, &theirs), "{:#}\n{:#}", ours, theirs);
        count.one();
        Ok(())
    };
    while count.goes_on() {
        let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
        let config = count.round(count.left(), config);
        TestRunner::new(config).run(&strategy, law).unwrap();
    }
    count.close();
}

/// Returns the content of a request, in order, whichever of the provider's ways to say it was taken.
fn said(provider: Provider, body: &Value) -> Vec<Value> {
    let mut said = Vec::new();
    let system = json!("system");
    match provider {
        Provider::OpenAi => {
            for message in list(&body["messages"]) {
                // DeepSeek wants the field beside calls, so that we write it there even where it is
                // empty.
                let thought = message["reasoning_content"].as_str().filter(|text| !text.is_empty());
                said.extend(thought.map(|text| json!(["thought", text])));
                add_message(message, &message["tool_call_id"], &mut said);
            }
        }
        Provider::OpenAiResponses => {
            add_content(&system, &body["instructions"], &mut said);
            list(&body["input"]).iter().for_each(|item| add_item(item, &mut said));
        }
        Provider::Anthropic => {
            add_content(&system, &body["system"], &mut said);
            let (mut side, mut begins) = (&Value::Null, said.len());
            for message in list(&body["messages"]) {
                if message["role"] != *side {
                    (side, begins) = (&message["role"], said.len());
                }
                add_content(&message["role"], &message["content"], &mut said);
                // Of neighbours that are joined it puts the thoughts first, and we leave them in
                // place.
                said[begins..].sort_by_key(|fact| fact[0] != "thought");
            }
        }
        Provider::Gemini => {
            add_content(&system, &body["systemInstruction"]["parts"], &mut said);
            for entry in list(&body["contents"]) {
                add_content(&entry["role"], &entry["parts"], &mut said);
            }
        }
        _ => {
            for message in list(&body["messages"]) {
                add_message(message, &Value::Null, &mut said);
            }
        }
    }
    plain(said)
}

fn add_message(message: &Value, answers: &Value, said: &mut Vec<Value>) {
    if message["role"] == "tool" {
        return said.push(json!(["result", answers, one_text(&message["content"])]));
    }
    said.push(json!(["message", message["role"]]));
    add_content(&message["role"], &message["content"], said);
    for call in list(&message["tool_calls"]) {
        // Ollama's calls go by their order; there it sends no ids.
        let id = if call["type"] == "function" { &call["id"] } else { &Value::Null };
        let function = &call["function"];
        said.push(json!(["call", id, function["name"], object(&function["arguments"])]));
    }
}

fn add_item(item: &Value, said: &mut Vec<Value>) {
    match item["type"].as_str() {
        Some("function_call") => {
            let arguments = object(&item["arguments"]);
            said.push(json!(["call", item["call_id"], item["name"], arguments]));
        }
        Some("function_call_output") => {
            said.push(json!(["result", item["call_id"], one_text(&item["output"])]));
        }
        // We send none without the id that it was signed for.
        Some("reasoning") => {}
        _ => {
            said.push(json!(["message", item["role"]]));
            add_content(&item["role"], &item["content"], said);
        }
    }
}

/// Adds the parts of a content: a text, or blocks of any of the providers.
fn add_content(role: &Value, content: &Value, said: &mut Vec<Value>) {
    if content.is_string() {
        return said.push(json!(["text", role, content]));
    }
    for block in list(content) {
        if let Some(call) = block.get("functionCall") {
            said.push(json!(["call", call["id"], call["name"], call["args"]]));
        } else if let Some(result) = block.get("functionResponse") {
            // Google names `output` and `error`; any other key is taken for the whole of it.
            let response =
                ["output", "error", "content"].map(|key| result["response"][key].as_str());
            let text = response.into_iter().flatten().next().unwrap();
            said.push(json!(["result", result["id"], [result["name"], text]]));
        } else if block["type"] == "tool_use" {
            said.push(json!(["call", block["id"], block["name"], block["input"]]));
        } else if block["type"] == "tool_result" {
            said.push(json!(["result", block["tool_use_id"], one_text(&block["content"])]));
        } else if block["type"] == "thinking" {
            said.push(json!(["thought", block["thinking"], block["signature"]]));
        } else if block["thought"] == true || block["type"] == "image" {
            // It sends Gemini no thoughts, and Anthropic no image that is not here.
        } else if let Some(file) = block.get("fileData").or_else(|| block.get("file_data")) {
            let uri = file.get("fileUri").or_else(|| file.get("file_uri"));
            said.push(json!(["image", uri]));
        } else if let Some(image) = block.get("image_url") {
            said.push(json!(["image", image.get("url").unwrap_or(image)]));
        } else {
            said.push(json!(["text", role, block["text"]]));
        }
    }
}

/// Texts side by side as one and without white space, since each has its own way to join them and
/// to leave out blank ones, and without what stands for what Ollama can't be sent; results side by
/// side in any order, for we sort Gemini's by their calls.
fn plain(said: Vec<Value>) -> Vec<Value> {
    let mut plain: Vec<Value> = Vec::new();
    for mut fact in said {
        if fact[0] == "text" {
            let text = fact[2].as_str().unwrap();
            let text = text.replace("[image: not supported by this format]", "");
            let text: String = text.split_whitespace().collect();
            match plain.last_mut() {
                _ if text.is_empty() => continue,
                Some(last) if last[0] == "text" && last[1] == fact[1] => {
                    last[2] = json!(last[2].as_str().unwrap().to_owned() + &text);
                    continue;
                }
                _ => fact[2] = json!(text),
            }
        }
        plain.push(fact);
    }
    for results in plain.chunk_by_mut(|a, b| a[0] == "result" && b[0] == "result") {
        results.sort_by_key(ToString::to_string);
    }
    plain
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// Arguments, or the free text of a custom tool.
fn object(arguments: &Value) -> Value {
    let parsed = arguments.as_str().and_then(|text| serde_json::from_str(text).ok());
    parsed.unwrap_or_else(|| arguments.clone())
}

fn one_text(content: &Value) -> String {
    let texts = list(content).iter().map(|block| block["text"].as_str().unwrap());
    content.as_str().map_or_else(|| texts.collect(), str::to_owned)
}

/// Published answers with what it does not know: calls of custom tools in chats, and refusals,
/// which it leaves out.
const NOT_KNOWN: [&str; 3] =
    ["openai/custom_tool.json", "openai/refusal.json", "responses/refusal.json"];

#[test]
fn it_reads_in_published_answers_what_is_remembered() {
    type Read = fn(&str) -> Result<wire::Answer>;
    let formats: [(&str, AdapterKind, Read); 5] = [
        ("openai", AdapterKind::OpenAI, |json| wire::openai::answer(json)),
        ("responses", AdapterKind::OpenAIResp, |json| wire::responses::answer(json)),
        ("anthropic", AdapterKind::Anthropic, |json| wire::anthropic::answer(json)),
        ("gemini", AdapterKind::Gemini, |json| wire::gemini::answer(json)),
        ("ollama", AdapterKind::Ollama, |json| wire::ollama::answer(json)),
    ];
    let (answers, next) = channel::<String>();
    let stub = Stub::lenient(next).unwrap();
    let goldens = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wire/golden");
    for (format, adapter, answer) in formats {
        let mut seen = 0;
        for golden in fs::read_dir(goldens.join(format)).unwrap() {
            let path = golden.unwrap().path();
            let name = format!("{format}/{}", path.file_name().unwrap().display());
            let golden: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
            if !golden["response"].is_object() || NOT_KNOWN.contains(&&*name) {
                continue;
            }
            let response = golden["response"].to_string();
            answers.send(response.clone()).unwrap();
            let target = example::target(adapter, &stub.url);
            let request = ChatRequest::from_user("hi");
            let theirs = wait(Client::new().unwrap().exec_chat(target, request, None)).unwrap();
            let ours = answer(&response).unwrap().message;

            let said = ours.texts().map(str::trim).filter(|text| !text.is_empty());
            let texts = theirs.content.texts().into_iter().map(str::trim);
            assert!(said.eq(texts.filter(|text| !text.is_empty())), "{name}: {:?}", theirs.content);
            let calls = theirs.content.tool_calls().into_iter();
            let calls: Vec<_> = calls.map(|c| (&*c.fn_name, c.fn_arguments.clone())).collect();
            let called = ours.tool_calls().map(|c| (&*c.name, object(&json!(c.arguments))));
            assert_eq!(called.collect::<Vec<_>>(), calls, "{name}");
            // Where an answer has no ids each of us makes up its own.
            let ids = theirs.content.tool_calls().into_iter().map(|call| call.call_id.clone());
            let ids: Vec<_> = ids.filter(|id| response.contains(id)).collect();
            let called = ours.tool_calls().map(|call| call.id.clone());
            let called: Vec<_> = called.filter(|id| response.contains(id)).collect();
            assert_eq!(called, ids, "{name}");
            let thought = theirs.reasoning_content.unwrap_or_default();
            let thoughts = ours.reasoning().flat_map(|reasoning| reasoning.text.split_whitespace());
            if name == "openai/mistral_thinking.json" {
                // It does not read this block as a thought.
                assert_eq!(thoughts.collect::<Vec<_>>(), ["Hm."]);
            } else {
                assert!(thoughts.eq(thought.split_whitespace()), "{name}: {thought}");
            }
            seen += 1;
        }
        assert!(seen > 0, "{format}");
    }
}
