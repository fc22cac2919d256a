//! What the providers' servers say, each in its own format, written from their references and held
//! to by their own clients in Python (`tests/python/clients.py`).
#![allow(dead_code, unreachable_pub)] // each test binary uses its own part
#![allow(clippy::needless_pass_by_value)] // values are made where they are handed over

use serde_json::{Value, json};

/// A format, as a server speaks it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Chat,
    Responses,
    Anthropic,
    Gemini,
    Ollama,
}

/// What the model says.
#[derive(Clone, Debug)]
pub enum Said {
    Text(String),
    Calls(Vec<(String, Value)>),
}

/// A request, as far as a protocol looks at it.
pub struct Request<'a> {
    pub protocol: Protocol,
    pub model: String,
    pub stream: bool,
    pub body: &'a Value,
    /// Counts the answers, so that no two have one id.
    pub number: usize,
}

/// The key that the stub lets in.
pub const KEY: &str = "sk-stub-5f2a";

impl Protocol {
    /// Finds the protocol of a path, and whether the path itself asks for a stream.
    pub fn of(path: &str) -> Option<(Self, bool, Option<String>)> {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let found = match path {
            "/v1/chat/completions" => (Self::Chat, false, None),
            "/v1/responses" => (Self::Responses, false, None),
            "/v1/messages" => (Self::Anthropic, false, None),
            "/api/chat" => (Self::Ollama, false, None),
            _ => {
                let versions = ["/v1beta/models/", "/v1/models/"];
                let rest = versions.iter().find_map(|version| path.strip_prefix(version))?;
                let (model, verb) = rest.split_once(':')?;
                let stream = match verb {
                    "generateContent" => false,
                    "streamGenerateContent" if query.contains("alt=sse") => true,
                    _ => return None,
                };
                (Self::Gemini, stream, Some(model.to_owned()))
            }
        };
        Some(found)
    }

    /// Says why a server of this protocol would refuse the request: a status and a sentence.
    pub fn refuses(
        self,
        header: impl Fn(&str) -> Option<String>,
        body: &Value,
    ) -> Option<(u16, String)> {
        let bearer = || header("authorization")?.strip_prefix("Bearer ").map(str::to_owned);
        let key = match self {
            Self::Chat | Self::Responses => bearer(),
            // By its reference; its client sends the key as the others do from 2.11 on.
            Self::Anthropic => header("x-api-key").or_else(bearer),
            Self::Gemini => header("x-goog-api-key"),
            Self::Ollama => Some(KEY.to_owned()),
        };
        if key.as_deref() != Some(KEY) {
            return Some((401, "the key is wrong".to_owned()));
        }
        if !header("content-type").is_some_and(|it| it.starts_with("application/json")) {
            return Some((415, "no JSON".to_owned()));
        }
        let fields: &[&str] = match self {
            Self::Chat | Self::Ollama => &["model", "messages"],
            Self::Responses => &["model", "input"],
            Self::Anthropic => &["model", "messages", "max_tokens"],
            Self::Gemini => &["contents"],
        };
        if self == Self::Anthropic && header("anthropic-version").is_none() {
            return Some((400, "anthropic-version: header is required".to_owned()));
        }
        let missing = fields.iter().find(|field| body.get(field).is_none_or(Value::is_null))?;
        Some((400, format!("{missing} is required")))
    }

    /// The body of an error.
    pub fn error(self, status: u16, text: &str) -> Value {
        let word = |list: &[(u16, &'static str)], other| {
            list.iter().find(|(of, _)| *of == status).map_or(other, |(_, word)| *word)
        };
        match self {
            Self::Chat | Self::Responses => {
                let other = if status >= 500 { "server_error" } else { "invalid_request_error" };
                let code = word(
                    &[
                        (401, "invalid_api_key"),
                        (404, "model_not_found"),
                        (429, "rate_limit_exceeded"),
                    ],
                    "",
                );
                let code = if code.is_empty() { Value::Null } else { json!(code) };
                json!({"error": {"message": text, "type": other, "param": null, "code": code}})
            }
            Self::Anthropic => {
                let kinds = [
                    (401, "authentication_error"),
                    (404, "not_found_error"),
                    (429, "rate_limit_error"),
                    (529, "overloaded_error"),
                ];
                let other = if status >= 500 { "api_error" } else { "invalid_request_error" };
                let error = json!({"type": word(&kinds, other), "message": text});
                json!({"type": "error", "error": error, "request_id": "req_1"})
            }
            Self::Gemini => {
                let kinds = [
                    (401, "UNAUTHENTICATED"),
                    (404, "NOT_FOUND"),
                    (429, "RESOURCE_EXHAUSTED"),
                    (503, "UNAVAILABLE"),
                ];
                let other = if status >= 500 { "INTERNAL" } else { "INVALID_ARGUMENT" };
                json!({"error": {"code": status, "message": text, "status": word(&kinds, other)}})
            }
            Self::Ollama => json!({"error": text}),
        }
    }
}

/// The answer in one piece.
pub fn whole(request: &Request<'_>, said: &Said) -> Value {
    let (n, model) = (request.number, &request.model);
    let id = |prefix: &str, i: usize| format!("{prefix}_{n}_{i}");
    match (request.protocol, said) {
        (Protocol::Chat, said) => {
            let (message, reason) = match said {
                Said::Text(text) => (json!({"content": text}), "stop"),
                Said::Calls(calls) => {
                    let calls = calls.iter().enumerate().map(|(i, (name, arguments))| {
                        json!({"id": id("call", i), "type": "function",
                            "function": {"name": name, "arguments": arguments.to_string()}})
                    });
                    (
                        json!({"content": null, "tool_calls": calls.collect::<Vec<_>>()}),
                        "tool_calls",
                    )
                }
            };
            let mut message = message;
            message["role"] = json!("assistant");
            message["refusal"] = Value::Null;
            json!({"id": format!("chatcmpl-{n}"), "object": "chat.completion", "created": 1_700_000_000,
                "model": model, "choices": [{"index": 0, "message": message, "logprobs": null,
                "finish_reason": reason}], "usage": chat_usage()})
        }
        (Protocol::Responses, said) => {
            let output: Vec<Value> = match said {
                Said::Text(text) => vec![output_text(&id("msg", 0), text)],
                Said::Calls(calls) => calls
                    .iter()
                    .enumerate()
                    .map(|(i, (name, arguments))| {
                        function_call(&id("fc", i), &id("call", i), name, &arguments.to_string())
                    })
                    .collect(),
            };
            response(request, "completed", output)
        }
        (Protocol::Anthropic, said) => {
            let (content, reason) = match said {
                Said::Text(text) => (vec![json!({"type": "text", "text": text})], "end_turn"),
                Said::Calls(calls) => {
                    let calls = calls.iter().enumerate().map(|(i, (name, arguments))| {
                        json!({"type": "tool_use", "id": id("toolu", i), "name": name, "input": arguments})
                    });
                    (calls.collect(), "tool_use")
                }
            };
            json!({"id": format!("msg_{n}"), "type": "message", "role": "assistant", "model": model,
                "content": content, "stop_reason": reason, "stop_sequence": null,
                "usage": {"input_tokens": 9, "output_tokens": 3}})
        }
        (Protocol::Gemini, said) => {
            let parts = match said {
                Said::Text(text) => vec![json!({"text": text})],
                Said::Calls(calls) => calls.iter().map(|(name, arguments)| {
                    json!({"functionCall": {"name": name, "args": arguments}})
                }).collect(),
            };
            candidate(request, parts, true)
        }
        (Protocol::Ollama, said) => {
            let message = match said {
                Said::Text(text) => json!({"role": "assistant", "content": text}),
                Said::Calls(calls) => {
                    let calls: Vec<_> = calls.iter().map(|(name, arguments)| {
                        json!({"function": {"name": name, "arguments": arguments}})
                    }).collect();
                    json!({"role": "assistant", "content": "", "tool_calls": calls})
                }
            };
            ollama(request, message, true)
        }
    }
}

/// The answer as the events of a stream, each as it stands on the wire.
pub fn events(request: &Request<'_>, said: &Said) -> Vec<String> {
    match request.protocol {
        Protocol::Chat => chat_events(request, said),
        Protocol::Responses => responses_events(request, said),
        Protocol::Anthropic => anthropic_events(request, said),
        Protocol::Gemini => {
            let Said::Text(text) = said else { return vec![data(&whole(request, said))] };
            let pieces = pieces(text);
            let last = pieces.len() - 1;
            let chunk =
                |(i, piece)| data(&candidate(request, vec![json!({"text": piece})], i == last));
            pieces.iter().enumerate().map(chunk).collect()
        }
        Protocol::Ollama => {
            let mut lines = Vec::new();
            if let Said::Text(text) = said {
                for piece in pieces(text) {
                    let message = json!({"role": "assistant", "content": piece});
                    lines.push(ollama(request, message, false));
                }
                lines.push(ollama(request, json!({"role": "assistant", "content": ""}), true));
            } else {
                let mut calls = whole(request, said);
                calls["done"] = json!(false);
                lines.push(calls);
                lines.push(ollama(request, json!({"role": "assistant", "content": ""}), true));
            }
            lines.iter().map(|line| format!("{line}\n")).collect()
        }
    }
}

/// A text in pieces of three characters.
fn pieces(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces: Vec<String> = chars.chunks(3).map(String::from_iter).collect();
    if pieces.is_empty() { vec![String::new()] } else { pieces }
}

fn data(value: &Value) -> String {
    format!("data: {value}\n\n")
}

fn named(name: &str, value: &Value) -> String {
    format!("event: {name}\ndata: {value}\n\n")
}

fn chat_usage() -> Value {
    json!({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12})
}

fn chat_events(request: &Request<'_>, said: &Said) -> Vec<String> {
    let n = request.number;
    let chunk = |choices: Value| {
        json!({"id": format!("chatcmpl-{n}"), "object": "chat.completion.chunk",
            "created": 1_700_000_000, "model": request.model, "choices": choices})
    };
    let delta = |delta: Value, reason: Option<&str>| {
        data(&chunk(
            json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}]),
        ))
    };
    let mut events = vec![delta(json!({"role": "assistant", "content": ""}), None)];
    let reason = match said {
        Said::Text(text) => {
            events.extend(pieces(text).iter().map(|piece| delta(json!({"content": piece}), None)));
            "stop"
        }
        Said::Calls(calls) => {
            for (i, (name, arguments)) in calls.iter().enumerate() {
                let function = json!({"name": name, "arguments": ""});
                let call = json!({"index": i, "id": format!("call_{n}_{i}"), "type": "function",
                    "function": function});
                events.push(delta(json!({"tool_calls": [call]}), None));
                for piece in pieces(&arguments.to_string()) {
                    let call = json!({"index": i, "function": {"arguments": piece}});
                    events.push(delta(json!({"tool_calls": [call]}), None));
                }
            }
            "tool_calls"
        }
    };
    events.push(delta(json!({}), Some(reason)));
    if request.body["stream_options"]["include_usage"] == true {
        let mut last = chunk(json!([]));
        last["usage"] = chat_usage();
        events.push(data(&last));
    }
    events.push("data: [DONE]\n\n".to_owned());
    events
}

fn response(request: &Request<'_>, status: &str, output: Vec<Value>) -> Value {
    let usage = json!({"input_tokens": 9, "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 12});
    let is_over = status == "completed";
    json!({"id": format!("resp_{}", request.number), "object": "response", "created_at": 1_700_000_000,
        "status": status, "error": null, "incomplete_details": null, "instructions": null,
        "metadata": {}, "model": request.model, "output": output, "parallel_tool_calls": true,
        "temperature": 1.0, "tool_choice": "auto", "tools": [], "top_p": 1.0,
        "usage": if is_over { usage } else { Value::Null }})
}

fn output_text(id: &str, text: &str) -> Value {
    json!({"type": "message", "id": id, "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn function_call(id: &str, call: &str, name: &str, arguments: &str) -> Value {
    json!({"type": "function_call", "id": id, "call_id": call, "name": name, "arguments": arguments,
        "status": "completed"})
}

fn responses_events(request: &Request<'_>, said: &Said) -> Vec<String> {
    let n = request.number;
    let mut list = vec![
        json!({"type": "response.created", "response": response(request, "in_progress", vec![])}),
        json!({"type": "response.in_progress", "response": response(request, "in_progress", vec![])}),
    ];
    let mut output = Vec::new();
    match said {
        Said::Text(text) => {
            let id = format!("msg_{n}_0");
            let at = |mut value: Value| {
                value["item_id"] = json!(id);
                value["output_index"] = json!(0);
                value["content_index"] = json!(0);
                value
            };
            let mut item = output_text(&id, "");
            item["status"] = json!("in_progress");
            item["content"] = json!([]);
            list.push(
                json!({"type": "response.output_item.added", "output_index": 0, "item": item}),
            );
            let part = |text: &str| json!({"type": "output_text", "text": text, "annotations": []});
            list.push(at(json!({"type": "response.content_part.added", "part": part("")})));
            for piece in pieces(text) {
                list.push(at(
                    json!({"type": "response.output_text.delta", "delta": piece, "logprobs": []}),
                ));
            }
            list.push(at(
                json!({"type": "response.output_text.done", "text": text, "logprobs": []}),
            ));
            list.push(at(json!({"type": "response.content_part.done", "part": part(text)})));
            output.push(output_text(&id, text));
        }
        Said::Calls(calls) => {
            for (i, (name, arguments)) in calls.iter().enumerate() {
                let (id, call) = (format!("fc_{n}_{i}"), format!("call_{n}_{i}"));
                let mut begun = function_call(&id, &call, name, "");
                begun["status"] = json!("in_progress");
                list.push(
                    json!({"type": "response.output_item.added", "output_index": i, "item": begun}),
                );
                let arguments = arguments.to_string();
                for piece in pieces(&arguments) {
                    list.push(json!({"type": "response.function_call_arguments.delta",
                        "item_id": id, "output_index": i, "delta": piece}));
                }
                list.push(json!({"type": "response.function_call_arguments.done", "item_id": id,
                    "output_index": i, "name": name, "arguments": arguments}));
                output.push(function_call(&id, &call, name, &arguments));
            }
        }
    }
    for (i, item) in output.iter().enumerate() {
        list.push(json!({"type": "response.output_item.done", "output_index": i, "item": item}));
    }
    list.push(
        json!({"type": "response.completed", "response": response(request, "completed", output)}),
    );
    let numbered = list.into_iter().enumerate().map(|(i, mut event)| {
        event["sequence_number"] = json!(i);
        named(event["type"].as_str().unwrap_or_default(), &event)
    });
    numbered.collect()
}

fn anthropic_events(request: &Request<'_>, said: &Said) -> Vec<String> {
    let mut message = whole(request, said);
    let reason = message["stop_reason"].take();
    let blocks = message["content"].take();
    message["content"] = json!([]);
    message["usage"] = json!({"input_tokens": 9, "output_tokens": 1});
    let mut list =
        vec![json!({"type": "message_start", "message": message}), json!({"type": "ping"})];
    for (i, block) in blocks.as_array().into_iter().flatten().enumerate() {
        let mut begun = block.clone();
        let (field, pieces) = if let Some(text) = block["text"].as_str() {
            begun["text"] = json!("");
            ("text", pieces(text))
        } else {
            begun["input"] = json!({});
            ("partial_json", pieces(&block["input"].to_string()))
        };
        list.push(json!({"type": "content_block_start", "index": i, "content_block": begun}));
        let kind = if field == "text" { "text_delta" } else { "input_json_delta" };
        for piece in pieces {
            let delta = json!({"type": kind, field: piece});
            list.push(json!({"type": "content_block_delta", "index": i, "delta": delta}));
        }
        list.push(json!({"type": "content_block_stop", "index": i}));
    }
    list.push(
        json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
        "usage": {"output_tokens": 3}}),
    );
    list.push(json!({"type": "message_stop"}));
    list.iter().map(|event| named(event["type"].as_str().unwrap_or_default(), event)).collect()
}

fn candidate(request: &Request<'_>, parts: Vec<Value>, is_last: bool) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if is_last {
        candidate["finishReason"] = json!("STOP");
    }
    json!({"candidates": [candidate], "modelVersion": request.model,
        "responseId": format!("r{}", request.number),
        "usageMetadata": {"promptTokenCount": 9, "candidatesTokenCount": 3, "totalTokenCount": 12}})
}

fn ollama(request: &Request<'_>, message: Value, is_last: bool) -> Value {
    let mut line = json!({"model": request.model, "created_at": "2026-01-01T00:00:00.000000Z",
        "message": message, "done": is_last});
    if is_last {
        line["done_reason"] = json!("stop");
        for (field, n) in [("total_duration", 5), ("prompt_eval_count", 9), ("eval_count", 3)] {
            line[field] = json!(n);
        }
    }
    line
}
