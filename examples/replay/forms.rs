//! The forms in which other programs write conversations down, brought into those of providers.

use memory_prompt::wire::openai;
use serde_json::{Value, json};

use super::accounts;

/// What a value of a log holds.
pub(super) enum Form {
    /// The messages of a conversation.
    List(Vec<Value>),
    /// A message, or a part of one, of the conversation of this name: it is written line by line.
    Entry(String, Value),
    /// Nothing that was said: a title, a state, a count.
    Passed,
    /// Something else.
    Unknown,
}

/// Returns what a value holds by itself; an error names a form that is not read.
pub(super) fn form(value: &Value) -> Result<Form, String> {
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let has = |key: &str| value.get(key).is_some();
    if let Some(account) = accounts::read(value) {
        // Of several branches the one that was shown last.
        let shown = serde_json::to_value(openai::Messages::of(&account?.shown()));
        return Ok(Form::List(
            shown.ok().and_then(|it| it.as_array().cloned()).unwrap_or_default(),
        ));
    }
    let spoken = ["conversations", "conversation", "items"].into_iter();
    let spoken = spoken.filter_map(|key| value[key].as_array());
    if let Some(said) = spoken.into_iter().find(|said| said.iter().any(|it| speaker(it).is_some()))
    {
        return sharegpt(said).map(Form::List);
    }
    let is_of_claude = ["sessionId", "leafUuid", "snapshot"].into_iter().any(has);
    if is_of_claude || (has("uuid") && value["message"].is_object()) {
        let message = &value["message"];
        if !message["role"].is_string() {
            return Ok(Form::Passed);
        }
        let side = if value["isSidechain"] == true { " aside" } else { "" };
        return Ok(Form::Entry(text("sessionId").to_owned() + side, message.clone()));
    }
    if value["payload"].is_object() {
        return Ok(codex(text("type"), &value["payload"]));
    }
    if has("record_type") || (has("instructions") && has("timestamp")) {
        return Ok(Form::Passed);
    }
    if has("resourceSpans") || has("traceId") || has("trace_id") {
        return Err("a trace of spans: export the requests".into());
    }
    if has("run_type") {
        return Err("a run of LangSmith: export its messages".into());
    }
    if has("custom_id") && has("response") {
        return Err("answers of a batch, without their requests".into());
    }
    if has("prompt") && has("completion") {
        return Err("pairs of a prompt and its completion, no conversation".into());
    }
    let is_item = matches!(text("type"), "function_call" | "function_call_output" | "reasoning");
    if value["role"].is_string() || is_item || langchain(value).is_some() {
        let names = ["conversation_id", "session_id", "thread_id", "chat_id"];
        let name = names.iter().find_map(|key| value.get(key)).map(Value::to_string);
        return Ok(Form::Entry(name.unwrap_or_default(), value.clone()));
    }
    Ok(Form::Unknown)
}

/// Adds an entry to those of its conversation: Claude Code writes each block of an answer by itself.
pub(super) fn add(entries: &mut Vec<Value>, entry: Value) {
    let is_same = |last: &Value| {
        entry["id"].is_string() && last["id"] == entry["id"] && last["role"] == entry["role"]
    };
    let last = entries.last_mut().filter(|last| is_same(last));
    match (last.and_then(|last| last["content"].as_array_mut()), entry["content"].as_array()) {
        (Some(blocks), Some(more)) => blocks.extend(more.iter().cloned()),
        _ => entries.push(entry),
    }
}

/// Reads a line of a rollout of Codex.
fn codex(kind: &str, payload: &Value) -> Form {
    let entry = |value: Value| Form::Entry("rollout".into(), value);
    let text = |key: &str| payload[key].as_str();
    match (kind, text("type").unwrap_or_default()) {
        ("session_meta", _) => {
            let texts = [&payload["instructions"], &payload["base_instructions"]["text"]];
            let told = texts.into_iter().find_map(Value::as_str);
            told.map_or(Form::Passed, |text| entry(json!({"role": "system", "content": text})))
        }
        (
            "response_item",
            "message"
            | "reasoning"
            | "function_call"
            | "function_call_output"
            | "custom_tool_call"
            | "custom_tool_call_output"
            | "local_shell_call"
            | "local_shell_call_output",
        ) => entry(payload.clone()),
        _ => Form::Passed,
    }
}

/// Returns who says an entry of `ShareGPT`.
pub(super) fn speaker(entry: &Value) -> Option<&str> {
    ["from", "sender"].iter().find_map(|key| entry[key].as_str())
}

fn sharegpt(said: &[Value]) -> Result<Vec<Value>, String> {
    let mut messages = Vec::new();
    for (i, entry) in said.iter().enumerate() {
        let text = ["value", "text", "content"].iter().find_map(|key| entry[key].as_str());
        let text = text.unwrap_or_default();
        messages.push(match speaker(entry).unwrap_or_default() {
            "human" | "user" => json!({"role": "user", "content": text}),
            "gpt" | "chatgpt" | "assistant" | "model" | "bing" | "bard" => {
                json!({"role": "assistant", "content": text})
            }
            "system" => json!({"role": "system", "content": text}),
            "function_call" => {
                let call: Value = serde_json::from_str(text).unwrap_or_default();
                calls(&i.to_string(), call["name"].as_str().unwrap_or("tool"), &call["arguments"])
            }
            "observation" | "tool" | "function_response" => {
                let id = i.saturating_sub(1).to_string();
                json!({"role": "tool", "tool_call_id": id, "content": text})
            }
            other => return Err(format!("an entry of ShareGPT from {other:?}")),
        });
    }
    Ok(messages)
}

/// Returns a message that calls a tool.
fn calls(id: &str, name: &str, arguments: &Value) -> Value {
    let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
    let function = json!({"name": name, "arguments": arguments});
    let call = json!({"id": id, "type": "function", "function": function});
    json!({"role": "assistant", "content": null, "tool_calls": [call]})
}

/// Returns a message of `LangChain` as one of `OpenAI`: as `messages_to_dict` or `dumps` write it, or
/// its fields alone.
pub(super) fn langchain(message: &Value) -> Option<Value> {
    let constructed = message["lc"].is_number().then(|| &message["kwargs"]);
    let fields = constructed.or_else(|| message.get("data").filter(|it| it.is_object()));
    let class = message["id"].as_array().and_then(|path| path.last()?.as_str());
    let kind = class.filter(|_| constructed.is_some()).or_else(|| message["type"].as_str())?;
    let fields = fields.unwrap_or(message);
    let content = fields.get("content")?;
    let kind = kind.trim_end_matches("Chunk").trim_end_matches("Message").to_lowercase();
    let mut written = match kind.as_str() {
        "human" => json!({"role": "user", "content": content}),
        "system" => json!({"role": "system", "content": content}),
        "ai" => json!({"role": "assistant", "content": content}),
        "tool" => {
            json!({"role": "tool", "tool_call_id": fields["tool_call_id"], "content": content})
        }
        _ => return None,
    };
    let called = fields["tool_calls"].as_array().filter(|calls| !calls.is_empty());
    if let Some(called) = called {
        let called = called.iter().map(|call| {
            let function = json!({"name": call["name"], "arguments": call["args"].to_string()});
            json!({"id": call["id"], "type": "function", "function": function})
        });
        written["tool_calls"] = called.collect();
    }
    Some(written)
}

/// Returns what a provider answered, as messages behind those of the request.
pub(super) fn answer(response: &Value) -> Vec<Value> {
    let response = response.get("body").unwrap_or(response);
    let chosen = [&response["choices"][0]["message"], &response["candidates"][0]["content"]];
    if let Some(message) = chosen.into_iter().find(|it| it.is_object()) {
        return vec![message.clone()];
    }
    if let Some(items) = response["output"].as_array() {
        return items.clone();
    }
    if response["content"].is_array() {
        return vec![json!({"role": "assistant", "content": response["content"]})];
    }
    Vec::new()
}
