//! What each provider refuses, over the JSON that it is sent.
//!
//! Written from the providers' references and reports of their errors, and not from the encoders or
//! the composer: nothing here imports the crate. Each rule has a document that it refuses, in
//! `tests/wire/provider_rules.rs`.

#![allow(dead_code, unreachable_pub, clippy::doc_markdown)] // shared by test files; errors are quoted as they are

use std::collections::{HashMap, HashSet};

use serde_json::Value;

/// What is wrong where the condition holds.
macro_rules! tell {
    ($wrong:ident, $holds:expr, $($why:tt)+) => {
        if $holds {
            $wrong.push(std::fmt::format(format_args!($($why)+)));
        }
    };
}

/// What is wrong with a request; nothing is, in a valid one.
pub type Wrong = Vec<String>;

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// OpenAI Chat Completions: `messages`.
///
/// Reference: the API reference of `chat/completions`; "An assistant message with 'tool_calls' must
/// be followed by tool messages responding to each 'tool_call_id'"; "messages with role 'tool' must
/// be a response to a preceeding message with 'tool_calls'"; "Duplicate value for 'tool_call_id'".
pub fn openai(messages: &Value) -> Wrong {
    chat(messages, &["text", "image_url", "input_audio", "file"], &["text", "refusal"])
}

/// The same of a server that knows these blocks.
fn chat(messages: &Value, of_user: &[&str], of_assistant: &[&str]) -> Wrong {
    let mut wrong = Vec::new();
    tell!(wrong, list(messages).is_empty(), "an empty list of messages");
    // The ids that wait for their result.
    let mut waiting: HashSet<&str> = HashSet::new();
    let mut behind_calls = false;
    for (i, message) in list(messages).iter().enumerate() {
        let role = text(message, "role");
        let content = &message["content"];
        if role == "tool" {
            let id = text(message, "tool_call_id");
            let is_stray = !behind_calls || !waiting.remove(id);
            tell!(wrong, is_stray, "{i}: result {id:?} answers no call before it");
            wrong.extend(openai_content(i, content, &["text"]));
            continue;
        }
        wrong.extend(waiting.drain().map(|id| format!("{i}: call {id:?} was not answered")));
        behind_calls = false;
        match role {
            "system" | "developer" => wrong.extend(openai_content(i, content, &["text"])),
            "user" => wrong.extend(openai_content(i, content, of_user)),
            "assistant" => {
                let calls = list(&message["tool_calls"]);
                let is_empty = message.get("tool_calls").is_some() && calls.is_empty();
                tell!(wrong, is_empty, "{i}: an empty list of calls");
                if content.is_null() && calls.is_empty() && message["audio"].is_null() {
                    wrong.push(format!("{i}: neither content nor calls"));
                }
                if !content.is_null() {
                    wrong.extend(openai_content(i, content, of_assistant));
                }
                for call in calls {
                    let id = text(call, "id");
                    tell!(wrong, id.is_empty(), "{i}: a call without id");
                    tell!(wrong, !waiting.insert(id), "{i}: id {id:?} twice");
                    let kind = text(call, "type");
                    let is_known = ["function", "custom"].contains(&kind);
                    tell!(wrong, !is_known, "{i}: a call of kind {kind:?}");
                    if !call["function"]["arguments"].is_string()
                        && !call["custom"]["input"].is_string()
                    {
                        wrong.push(format!("{i}: arguments are no string"));
                    }
                    behind_calls = true;
                }
            }
            other => wrong.push(format!("{i}: role {other:?}")),
        }
    }
    wrong.extend(waiting.drain().map(|id| format!("end: call {id:?} was not answered")));
    wrong
}

/// All servers of OpenAI's format but OpenAI and Azure: "Input tag 'custom' found using 'type' does
/// not match any of the expected tags", "unknown variant `custom`, expected `function`".
pub fn functions_alone(messages: &Value) -> Wrong {
    let calls = list(messages).iter().flat_map(|message| list(&message["tool_calls"]));
    let other =
        calls.map(|call| text(call, "type")).filter(|kind| !["function", ""].contains(kind));
    other.map(|kind| format!("a call of type {kind:?}")).collect()
}

/// The blocks that a server of OpenAI's format knows, where they are fewer than OpenAI's.
///
/// Reference: `mistral-common` ("Input tag 'refusal' found using 'type' does not match any of the
/// expected tags"), Groq's client (`ChatCompletionContentPart*`), DeepSeek ("unknown variant
/// `image_url`, expected `text`"), OpenAI ("Please make sure your image has of one the following
/// formats: png, jpeg, gif, webp").
pub fn known_blocks(messages: &Value, of_user: &[&str], of_assistant: &[&str]) -> Wrong {
    let mut wrong = Vec::new();
    for (i, message) in list(messages).iter().enumerate() {
        let kinds = match text(message, "role") {
            "user" => of_user,
            "assistant" => of_assistant,
            _ => &["text"],
        };
        let content = &message["content"];
        if content.is_array() {
            wrong.extend(openai_content(i, content, kinds));
        }
        for part in list(content) {
            let url = part["image_url"]["url"].as_str().or_else(|| part["image_url"].as_str());
            if url.is_some_and(|url| url.starts_with("data:image/svg") || url.starts_with("gs:")) {
                wrong.push(format!("{i}: an image of an unknown kind"));
            }
        }
    }
    wrong
}

/// vLLM ("Unknown part type: file"), llama.cpp ("unsupported content[].type"), and Google's server
/// for OpenAI's format ("Invalid content part type: file").
pub fn no_files(messages: &Value) -> Wrong {
    let parts = list(messages).iter().flat_map(|message| list(&message["content"]));
    parts.filter(|part| part["type"] == "file").map(|_| "a file".to_owned()).collect()
}

/// What a part points at that the provider can't look at: files of another one's, by address or id,
/// and buckets. Each is a 400 ("Invalid or unsupported file uri", "Failed to download") and tells a
/// name that is nobody's business.
pub fn foreign_media(body: &Value, own: &[&str]) -> Wrong {
    const SIGNS: [&str; 6] = [
        "gs://",
        "s3://",
        "https://generativelanguage.googleapis.com/",
        "file-",
        "file_01",
        "files/",
    ];
    match body {
        Value::Array(list) => list.iter().flat_map(|it| foreign_media(it, own)).collect(),
        Value::Object(fields) => {
            let keys =
                ["url", "image_url", "file_url", "file_id", "fileUri", "file_data", "document_url"];
            let texts = keys.iter().filter_map(|key| body[*key].as_str());
            let bad = texts.filter(|text| {
                SIGNS.iter().any(|sign| text.starts_with(sign) && !own.contains(sign))
            });
            let bad: Wrong = bad.map(|text| format!("another provider's {text:?}")).collect();
            let inner = fields.values().flat_map(|it| foreign_media(it, own));
            bad.into_iter().chain(inner).collect()
        }
        _ => Wrong::new(),
    }
}

/// The addresses of media, data among them, wherever they stand in a body.
fn addresses(body: &Value) -> Vec<&str> {
    const KEYS: [&str; 6] =
        ["url", "image_url", "file_url", "fileUri", "file_data", "document_url"];
    match body {
        Value::Array(list) => list.iter().flat_map(addresses).collect(),
        Value::Object(fields) => {
            let own = KEYS.iter().filter_map(|key| body[*key].as_str());
            own.chain(fields.values().flat_map(addresses)).collect()
        }
        _ => Vec::new(),
    }
}

/// Claude: "Only HTTPS URLs are supported."; Gemini: "Unsupported file URI type".
pub fn only_tls(messages: &Value) -> Wrong {
    let plain = addresses(messages).into_iter().filter(|url| url.starts_with("http://"));
    plain.map(|url| format!("an address without TLS: {url:?}")).collect()
}

/// Claude on Bedrock and on Vertex: "URL sources are not supported".
pub fn no_addresses(messages: &Value) -> Wrong {
    let sources = |block: &Value| {
        let own = (block["source"]["type"] == "url").then(|| text(&block["source"], "url"));
        own.map(|url| format!("URL sources are not supported: {url:?}"))
    };
    let blocks = list(messages).iter().flat_map(|message| list(&message["content"]));
    let all = blocks.flat_map(|block| list(&block["content"]).iter().chain([block]));
    all.filter_map(sources).collect()
}

/// All: "The image was specified using the image/png media type, but the image appears to be a
/// image/jpeg image", and data of which nobody knows the letters.
pub fn data_of_its_type(body: &Value) -> Wrong {
    let mut wrong = Wrong::new();
    for url in addresses(body) {
        let Some(data) = url.strip_prefix("data:") else { continue };
        match data.split_once(";base64,") {
            Some((kind, data)) => wrong.extend(unlike(kind, data)),
            None => wrong.push(format!("data that is no base64: {url:?}")),
        }
    }
    let typed = [("media_type", "data"), ("mimeType", "data")];
    match body {
        Value::Array(list) => wrong.extend(list.iter().flat_map(data_of_its_type)),
        Value::Object(fields) => {
            let pairs = typed.iter().filter(|(kind, _)| fields.contains_key(*kind));
            wrong.extend(
                pairs.filter_map(|(kind, data)| unlike(text(body, kind), text(body, data))),
            );
            let inner = fields.values().filter(|it| it.is_object() || it.is_array());
            wrong.extend(inner.flat_map(data_of_its_type));
        }
        _ => {}
    }
    wrong.sort();
    wrong.dedup();
    wrong
}

/// What is wrong with the type of data that begin as a JPEG.
fn unlike(kind: &str, data: &str) -> Option<String> {
    let is_unlike = data.starts_with("/9j/") && kind != "image/jpeg";
    is_unlike.then(|| format!("a JPEG that is said to be {kind:?}"))
}

/// What Gemini's models find wrong with media: `mimeType` is required of `fileData` (Google's
/// storage and others' servers tell none; its own files and YouTube do), "Unsupported MIME type" of
/// applications' data but PDFs, models before 2.5 answer
/// "Invalid or unsupported file uri" to others' servers, and those before 3 "Per part media
/// resolution is not supported for this Model".
pub fn gemini_media(contents: &Value, fetches: bool, resolves: bool) -> Wrong {
    const OWN: [&str; 3] = [
        "https://generativelanguage.googleapis.com/",
        "https://www.youtube.com/",
        "https://youtu.be/",
    ];
    let mut wrong = Wrong::new();
    for part in list(contents).iter().flat_map(|entry| list(&entry["parts"])) {
        let file = &part["fileData"];
        let uri = text(file, "fileUri");
        let is_own = uri.starts_with("files/") || OWN.iter().any(|own| uri.starts_with(own));
        if uri.contains("://") && !is_own {
            tell!(wrong, !file["mimeType"].is_string(), "mimeType of {uri:?} is missing");
            let is_foreign = !fetches && uri.starts_with("http");
            tell!(wrong, is_foreign, "invalid or unsupported file uri {uri:?}");
        }
        let kind = text(&part["inlineData"], "mimeType");
        let is_odd = kind.starts_with("application/") && kind != "application/pdf";
        tell!(wrong, is_odd, "unsupported MIME type {kind:?}");
        let level = &part["mediaResolution"];
        let is_taken = resolves && level["level"].is_string();
        tell!(wrong, !level.is_null() && !is_taken, "per part media resolution is not supported");
    }
    wrong
}

/// Claude: "When `thinking` is enabled, a final `assistant` message must start with a thinking
/// block (preceding the lastmost set of `tool_use` and `tool_result` blocks)"; what clears thinking
/// is refused where it is off.
pub fn thinking(body: &Value) -> Wrong {
    let is_on = body["thinking"]["type"] == "enabled";
    let mut wrong = Wrong::new();
    let edits = body["context_management"]["edits"].to_string();
    let is_off = body["thinking"].is_null() && edits.contains("clear_thinking");
    tell!(wrong, is_off, "clear_thinking requires thinking");
    let gives = |message: &Value| {
        list(&message["content"]).iter().any(|block| text(block, "type") == "tool_result")
    };
    let messages = list(&body["messages"]);
    if !is_on || !messages.last().is_some_and(gives) {
        return wrong;
    }
    // The answers of the loop, from its end to the first.
    let answers = messages.rchunks(2).take_while(|pair| pair.last().is_some_and(gives));
    let first = answers.last().and_then(<[Value]>::first);
    let begins = first.map(|first| text(&first["content"][0], "type"));
    if !begins.is_some_and(|kind| ["thinking", "redacted_thinking"].contains(&kind)) {
        wrong.push(format!("expected thinking, but found {begins:?}"));
    }
    wrong
}

/// Images as data that are of other types: xAI's guide ("jpg/jpeg or png"), Ollama ("invalid image
/// type: image/webp"), the reader of llama.cpp, Google's guide (no GIF).
pub fn images(body: &Value, types: &[&str]) -> Wrong {
    const SIGNS: [(&str, &str); 4] = [
        ("iVBORw0KGgo", "image/png"),
        ("/9j/", "image/jpeg"),
        ("R0lGOD", "image/gif"),
        ("UklGR", "image/webp"),
    ];
    let told = addresses(body).into_iter().filter_map(|url| {
        let (kind, _) = url.strip_prefix("data:")?.split_once(';')?;
        kind.starts_with("image/").then_some(kind)
    });
    let bare = list(&body["messages"]).iter().flat_map(|message| list(&message["images"]));
    let shown = bare.filter_map(|data| {
        let data = data.as_str()?;
        SIGNS.iter().find(|(sign, _)| data.starts_with(sign)).map(|(_, kind)| *kind)
    });
    let other = told.chain(shown).filter(|kind| !types.contains(kind));
    other.map(|kind| format!("invalid image type: {kind}")).collect()
}

/// OpenAI: "Invalid value: 'ultra_high'. Supported values are: 'low', 'high', 'auto' ..".
pub fn details(body: &Value) -> Wrong {
    match body {
        Value::Array(list) => list.iter().flat_map(details).collect(),
        Value::Object(fields) => {
            let own = body["detail"].as_str();
            let own = own.filter(|it| !["auto", "low", "high", "original"].contains(it));
            let own = own.map(|word| format!("invalid value of detail: {word:?}"));
            own.into_iter().chain(fields.values().flat_map(details)).collect()
        }
        _ => Wrong::new(),
    }
}

/// OpenAI and Azure: "Invalid file data: 'messages[3].content[2].file.file_data'. Expected a
/// base64-encoded data URL with an application/pdf MIME type"; its guide to file inputs says the
/// same.
pub fn only_pdfs(messages: &Value) -> Wrong {
    let parts = list(messages).iter().flat_map(|message| list(&message["content"]));
    let data = parts.filter_map(|part| part["file"]["file_data"].as_str());
    let other = data.filter(|data| !data.starts_with("data:application/pdf;base64,"));
    other.map(|_| "a file that is no PDF".to_owned()).collect()
}

fn openai_content(i: usize, content: &Value, kinds: &[&str]) -> Wrong {
    if content.is_string() {
        return Vec::new();
    }
    if list(content).is_empty() {
        return vec![format!("{i}: content is neither a string nor a list with parts")];
    }
    let kinds = list(content).iter().filter(|part| !kinds.contains(&text(part, "type")));
    kinds.map(|part| format!("{i}: a part of kind {:?}", text(part, "type"))).collect()
}

/// OpenAI Responses: `input`.
///
/// Reference: the API reference of `responses`; "No tool call found for function call output", "No
/// tool output found for function call", "Duplicate 'call_id'", "Item of type 'reasoning' was
/// provided without its required following item", "Invalid value: 'input_text'. Supported values
/// are: 'output_text' and 'refusal'", "expected a computer call output, but got a string instead".
pub fn responses(input: &Value) -> Wrong {
    let mut wrong = Vec::new();
    tell!(wrong, list(input).is_empty(), "an empty input");
    let mut called: HashSet<&str> = HashSet::new();
    let mut answered: HashSet<&str> = HashSet::new();
    for (i, item) in list(input).iter().enumerate() {
        match text(item, "type") {
            "message" => {
                let assistant = text(item, "role") == "assistant";
                if !["user", "assistant", "system", "developer"].contains(&text(item, "role")) {
                    wrong.push(format!("{i}: role {:?}", text(item, "role")));
                }
                let content = &item["content"];
                tell!(wrong, !content.is_string() && list(content).is_empty(), "{i}: no content");
                for part in list(content) {
                    let kind = text(part, "type");
                    let fits = if assistant {
                        ["output_text", "refusal"].contains(&kind)
                    } else {
                        ["input_text", "input_image", "input_file"].contains(&kind)
                    };
                    tell!(wrong, !fits, "{i}: {kind:?} in the place of {}", item["role"]);
                }
            }
            "function_call" | "custom_tool_call" | "computer_call" => {
                let id = text(item, "call_id");
                tell!(wrong, id.is_empty(), "{i}: a call without id");
                tell!(wrong, !called.insert(id), "{i}: id {id:?} twice");
                if id.chars().count() > 64 {
                    wrong.push(format!("{i}: an id of {} characters", id.chars().count()));
                }
            }
            "function_call_output" | "custom_tool_call_output" | "computer_call_output" => {
                let id = text(item, "call_id");
                let is_seen = text(item, "type") != "computer_call_output"
                    || text(&item["output"], "type") == "computer_screenshot";
                tell!(wrong, !is_seen, "{i}: a computer's output without a picture");
                let is_stray = !called.contains(id) || !answered.insert(id);
                tell!(wrong, is_stray, "{i}: output {id:?} answers no call before it");
            }
            "web_search_call" => {}
            "reasoning" => {
                let next = input.get(i + 1);
                let said = next.is_some_and(|next| {
                    [
                        "function_call",
                        "custom_tool_call",
                        "computer_call",
                        "reasoning",
                        "web_search_call",
                    ]
                    .contains(&text(next, "type"))
                        || text(next, "role") == "assistant"
                });
                tell!(wrong, !said, "{i}: reasoning without the item that follows it");
            }
            other => wrong.push(format!("{i}: an item of kind {other:?}")),
        }
    }
    let open = called.difference(&answered);
    wrong.extend(open.map(|id| format!("call {id:?} has no output")));
    wrong
}

/// Anthropic's Messages: `messages`.
///
/// Reference: the API reference of `messages` and the guide to tool use; "text content blocks must
/// contain non-whitespace text", "`tool_use` ids must be unique", "`tool_use` ids were found
/// without `tool_result` blocks immediately after", "unexpected `tool_use_id` found in
/// `tool_result` blocks", "first message must use the user role", "String should match pattern
/// '^[a-zA-Z0-9_-]+$'", "The final block in an assistant message cannot be `thinking`",
/// "`web_search` tool use with id .. was found without a corresponding `web_search_tool_result`
/// block", and the same the other way round and for the `caller` of a call; "all content must be
/// type 'text' if 'is_error' is true".
pub fn anthropic(messages: &Value) -> Wrong {
    let mut wrong = Vec::new();
    let messages = list(messages);
    match messages.first() {
        None => wrong.push("at least one message is required".to_owned()),
        Some(first) if text(first, "role") != "user" => {
            wrong.push("the first message is not the user's".to_owned());
        }
        Some(_) => {}
    }
    let mut ids: HashSet<&str> = HashSet::new();
    let mut waiting: HashSet<&str> = HashSet::new();
    // The calls of tools that the provider runs itself, and those of them that have no result.
    let (mut hosted, mut open) = (HashSet::new(), HashSet::new());
    for (i, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        tell!(wrong, !["user", "assistant"].contains(&role), "{i}: role {role:?}");
        let content = &message["content"];
        if let Some(said) = content.as_str() {
            tell!(wrong, said.trim().is_empty(), "{i}: blank");
        } else if list(content).is_empty() {
            wrong.push(format!("{i}: no content"));
        }
        let blocks = list(content);
        let results = blocks.iter().take_while(|block| text(block, "type") == "tool_result");
        let results = results.count();
        let mut opened = HashSet::new();
        if role == "user" && (results < blocks.len() || content.is_string()) {
            let open = open.drain();
            wrong.extend(open.map(|id| format!("{i}: hosted call {id:?} has no result")));
        }
        for (j, block) in blocks.iter().enumerate() {
            if let Some(id) = block["caller"]["tool_id"].as_str()
                && !hosted.contains(id)
            {
                wrong.push(format!("{i}.{j}: called by {id:?}, which is not there"));
            }
            match text(block, "type") {
                "server_tool_use" | "mcp_tool_use" if role == "assistant" => {
                    hosted.insert(text(block, "id"));
                    open.insert(text(block, "id"));
                }
                kind if kind.ends_with("_tool_result") && role == "assistant" => {
                    let id = text(block, "tool_use_id");
                    open.remove(id);
                    tell!(wrong, !hosted.contains(id), "{i}.{j}: result {id:?} of no hosted call");
                }
                "text" if text(block, "text").trim().is_empty() => {
                    wrong.push(format!("{i}.{j}: blank"));
                }
                "tool_use" if role == "assistant" => {
                    let id = text(block, "id");
                    let pattern = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    tell!(wrong, id.is_empty() || !id.chars().all(pattern), "{i}.{j}: id {id:?}");
                    tell!(wrong, !ids.insert(id), "{i}.{j}: id {id:?} is not unique");
                    tell!(wrong, !block["input"].is_object(), "{i}.{j}: input is no object");
                    opened.insert(id);
                }
                "tool_result" if role == "user" => {
                    let id = text(block, "tool_use_id");
                    let is_stray = !waiting.remove(id);
                    tell!(wrong, is_stray, "{i}.{j}: result {id:?} answers no call before it");
                    tell!(wrong, j >= results, "{i}.{j}: a result behind something else");
                    for part in list(&block["content"]) {
                        if text(part, "type") == "text" && text(part, "text").trim().is_empty() {
                            wrong.push(format!("{i}.{j}: blank text in a result"));
                        }
                        let is_odd = block["is_error"] == true && text(part, "type") != "text";
                        tell!(wrong, is_odd, "{i}.{j}: an error that is no text");
                    }
                }
                "thinking" | "redacted_thinking" if role == "assistant" => {
                    tell!(wrong, j + 1 == blocks.len(), "{i}.{j}: thinking at the end");
                }
                "text" | "image" | "document" => {}
                other => wrong.push(format!("{i}.{j}: {other:?} of {role}")),
            }
        }
        wrong.extend(waiting.drain().map(|id| format!("{i}: call {id:?} was not answered")));
        waiting = opened;
    }
    wrong.extend(waiting.drain().map(|id| format!("end: call {id:?} was not answered")));
    wrong
}

/// Gemini's `contents`.
///
/// Reference: the API reference of `generateContent` and the guide to function calling; "Please
/// ensure that function call turn comes immediately after a user turn or after a function response
/// turn", "... the number of function response parts is equal to the number of function call parts
/// of the function call turn", "must include at least one parts field".
pub fn gemini(contents: &Value) -> Wrong {
    const DATA: &str = "text inlineData fileData functionCall functionResponse executableCode \
                        codeExecutionResult";
    let mut wrong = Vec::new();
    let contents = list(contents);
    tell!(wrong, contents.is_empty(), "contents are not specified");
    let parts = |entry: &Value, key: &str| -> Vec<Value> {
        let found = list(&entry["parts"]).iter().filter_map(|part| part.get(key).cloned());
        found.collect()
    };
    let is_results = |entry: &Value| !parts(entry, "functionResponse").is_empty();
    for (i, entry) in contents.iter().enumerate() {
        let role = text(entry, "role");
        tell!(wrong, !["user", "model"].contains(&role), "{i}: role {role:?}");
        tell!(wrong, list(&entry["parts"]).is_empty(), "{i}: no parts");
        for part in list(&entry["parts"]) {
            let set = DATA.split(' ').filter(|key| part.get(key).is_some()).count();
            tell!(wrong, set != 1, "{i}: a part with {set} kinds of data");
            let signed = part.get("thoughtSignature").is_some() || part.get("thought").is_some();
            let is_empty = part.get("text").is_some_and(|text| text == "") && !signed;
            tell!(wrong, is_empty, "{i}: an empty text");
        }
        let (calls, results) = (parts(entry, "functionCall"), parts(entry, "functionResponse"));
        if !calls.is_empty() {
            tell!(wrong, role != "model", "{i}: a call of the user");
            let before = i.checked_sub(1).and_then(|before| contents.get(before));
            let is_stray = before.is_none_or(|before| text(before, "role") != "user");
            tell!(wrong, is_stray, "{i}: a call that follows no user or result turn");
            let answers = contents.get(i + 1).map_or(0, |n| parts(n, "functionResponse").len());
            if answers != calls.len() {
                wrong.push(format!("{i}: {} calls and {answers} results", calls.len()));
            }
        }
        if !results.is_empty() {
            // Google's own command line tool sends media beside them.
            let is_media =
                |part: &&Value| ["inlineData", "fileData"].map(|key| part.get(key)) != [None; 2];
            let media = list(&entry["parts"]).iter().filter(is_media).count();
            let is_mixed = role != "user" || results.len() + media != list(&entry["parts"]).len();
            tell!(wrong, is_mixed, "{i}: results beside something else");
            let before = i.checked_sub(1).and_then(|before| contents.get(before));
            let mut called: HashMap<String, i32> = HashMap::new();
            for call in before.map(|before| parts(before, "functionCall")).unwrap_or_default() {
                *called.entry(text(&call, "name").to_owned()).or_default() += 1;
            }
            for result in &results {
                tell!(wrong, !result["response"].is_object(), "{i}: a response that is no object");
                *called.entry(text(result, "name").to_owned()).or_default() -= 1;
            }
            tell!(wrong, called.values().any(|left| *left != 0), "{i}: results of other calls");
        }
        let is_twice = i > 0 && is_results(entry) && is_results(&contents[i - 1]);
        tell!(wrong, is_twice, "{i}: results in two turns");
    }
    wrong
}

/// The media within results that Gemini takes: data of these types, and what lies in its storage
/// where that is reached (the guide to function calling, "Multimodal function responses").
pub fn media_in_results(contents: &Value, reaches: bool) -> Wrong {
    const TYPES: [&str; 5] =
        ["image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain"];
    let parts = list(contents).iter().flat_map(|entry| list(&entry["parts"]));
    let media = parts.flat_map(|part| list(&part["functionResponse"]["parts"]));
    let bad = media.filter(|part| {
        let (data, file) = (&part["inlineData"], &part["fileData"]);
        let is_stored = reaches && text(file, "fileUri").starts_with("gs://");
        let is_typed = |it: &Value| TYPES.contains(&text(it, "mimeType"));
        let is_taken = is_typed(data) || (is_stored && is_typed(file));
        !is_taken
    });
    bad.map(|part| format!("within a result: {part}")).collect()
}

/// Vertex: "Unknown name \"id\" at 'contents[1].parts[0].function_call': Cannot find field."
pub fn no_ids(contents: &Value) -> Wrong {
    let parts = list(contents).iter().flat_map(|entry| list(&entry["parts"]));
    let named = parts.flat_map(|part| [&part["functionCall"], &part["functionResponse"]]);
    let named = named.filter(|it| it.get("id").is_some());
    named.map(|it| format!("unknown name \"id\": {it}")).collect()
}

/// Gemini from 3 on: "Function call is missing a `thought_signature` in functionCall parts", of
/// which the first one of an entry must have one.
pub fn signed_calls(contents: &Value) -> Wrong {
    let entries = list(contents).iter().enumerate();
    let first = entries.filter_map(|(i, entry)| {
        let call = list(&entry["parts"]).iter().find(|part| part.get("functionCall").is_some())?;
        Some((i, call))
    });
    let unsigned = first.filter(|(_, call)| text(call, "thoughtSignature").is_empty());
    unsigned.map(|(i, _)| format!("{i}: a call without signature")).collect()
}

/// Google's server for OpenAI's format. Reference: its guide to thought signatures, which shows
/// them in `extra_content` of the first call of an answer; "contents is not specified" of a system
/// message alone; "function call turn comes immediately after a user turn or after a function
/// response turn".
pub fn google(messages: &Value) -> Wrong {
    let mut wrong = Vec::new();
    let said: Vec<_> =
        list(messages).iter().filter(|message| text(message, "role") != "system").collect();
    tell!(wrong, said.is_empty(), "contents is not specified");
    for (i, message) in said.iter().enumerate() {
        let Some(first) = list(&message["tool_calls"]).first() else { continue };
        let is_unsigned = text(&first["extra_content"]["google"], "thought_signature").is_empty();
        tell!(wrong, is_unsigned, "{i}: a call without signature");
        tell!(wrong, i == 0, "{i}: a call that follows no user turn");
    }
    wrong
}

/// The names of the tools that are called and answered, wherever they stand in a body.
pub fn tool_names(body: &Value) -> Vec<String> {
    const HOLDERS: [&str; 3] = ["function", "functionCall", "functionResponse"];
    const KINDS: [&str; 2] = ["tool_use", "function_call"];
    match body {
        Value::Array(list) => list.iter().flat_map(tool_names).collect(),
        Value::Object(fields) => {
            let is_own = KINDS.contains(&text(body, "type")) || text(body, "role") == "tool";
            let own = is_own.then(|| body.get("name")).flatten();
            let held = HOLDERS.iter().filter_map(|key| body[*key].get("name"));
            let all = own.into_iter().chain(held).chain(body.get("tool_name"));
            let names: Vec<_> = all.filter_map(|it| it.as_str().map(str::to_owned)).collect();
            [names, fields.values().flat_map(tool_names).collect()].concat()
        }
        _ => Vec::new(),
    }
}

/// Mistral's `messages`, and those of strict chat templates.
///
/// Reference: `mistral-common`'s request validator ("Unexpected role 'user' after role 'tool'",
/// "Not the same number of function calls and responses", "must have either content or tool_calls",
/// "must be a-z, A-Z, 0-9, with a length of 9") and Mistral's published chat template ("After the
/// optional system message, conversation roles must alternate user/assistant", where answers with
/// calls and their results are not counted).
pub fn mistral(messages: &Value) -> Wrong {
    let of_user = ["text", "image_url", "input_audio", "document_url", "file"];
    let mut wrong = chat(messages, &of_user, &["text", "thinking"]);
    wrong.extend(turns(messages));
    wrong
}

/// A strict chat template.
pub fn strict_template(messages: &Value) -> Wrong {
    let mut wrong = chat(messages, &["text", "image_url", "input_audio"], &["text"]);
    wrong.extend(turns(messages));
    wrong
}

/// What both refuse.
fn turns(messages: &Value) -> Wrong {
    let mut wrong = Wrong::new();
    let messages = list(messages);
    let rest = match messages.first() {
        Some(first) if text(first, "role") == "system" => &messages[1..],
        _ => messages,
    };
    tell!(wrong, rest.is_empty(), "no message");
    let is_other = rest.first().is_some_and(|first| text(first, "role") != "user");
    tell!(wrong, is_other, "the first message is not the user's");
    let mut user_is_next = true;
    let mut before = "";
    for (i, message) in rest.iter().enumerate() {
        let role = text(message, "role");
        let calls = list(&message["tool_calls"]);
        let allowed: &[&str] = match before {
            "" => &["user"],
            "user" => &["user", "assistant"],
            "assistant" => &["assistant", "user", "tool"],
            _ => &["assistant", "tool"],
        };
        if !allowed.contains(&role) {
            wrong.push(format!("{i}: unexpected role {role:?} after role {before:?}"));
        }
        if role == "assistant" {
            let content = &message["content"];
            let says =
                content.as_str().is_some_and(|said| !said.is_empty()) || !list(content).is_empty();
            tell!(wrong, !says && calls.is_empty(), "{i}: neither content nor calls");
        }
        if role != "tool" && calls.is_empty() {
            tell!(wrong, (role == "user") != user_is_next, "{i}: roles do not alternate");
            user_is_next = !user_is_next;
        }
        let result = (role == "tool").then(|| text(message, "tool_call_id"));
        for id in calls.iter().map(|call| text(call, "id")).chain(result) {
            let is_odd = id.len() != 9 || !id.chars().all(|c| c.is_ascii_alphanumeric());
            tell!(wrong, is_odd, "{i}: id {id:?}");
        }
        before = role;
    }
    wrong
}

/// The length of call ids in OpenAI's Chat Completions: "string too long. Expected a string with
/// maximum length 40".
pub fn openai_ids(messages: &Value) -> Wrong {
    let ids = list(messages).iter().flat_map(|message| {
        let calls = list(&message["tool_calls"]).iter().map(|call| text(call, "id"));
        calls.chain([text(message, "tool_call_id")])
    });
    let long = ids.filter(|id| id.chars().count() > 40);
    long.map(|id| format!("an id of {} characters", id.chars().count())).collect()
}

/// Claude from 4.6 on: "This model does not support assistant message prefill. The conversation
/// must end with a user message." One that rests (`pause_turn`) goes on with a hosted call, where
/// the answer is sent back as it is. llama.cpp: "Assistant response prefill is incompatible with
/// enable_thinking.".
pub fn no_prefill(messages: &Value) -> Wrong {
    let ends = list(messages).last().is_some_and(|last| text(last, "role") == "assistant");
    let blocks = || list(messages).iter().flat_map(|message| list(&message["content"]));
    let answers = |id| move |block: &Value| text(block, "tool_use_id") == id;
    let calls = blocks().filter(|block| text(block, "type") == "server_tool_use");
    let rests = calls.into_iter().any(|call| !blocks().any(answers(text(call, "id"))));
    if ends && !rests { vec!["the conversation ends in an answer".to_owned()] } else { Vec::new() }
}

/// Claude before: "final assistant content cannot end with trailing whitespace".
pub fn prefill(messages: &Value) -> Wrong {
    let Some(last) = list(messages).last().filter(|last| text(last, "role") == "assistant") else {
        return Vec::new();
    };
    let said = last["content"].as_str().or_else(|| list(&last["content"]).last()?["text"].as_str());
    let ends = said.is_some_and(|said| said.ends_with(char::is_whitespace));
    if ends { vec!["the answer at the end ends in white space".to_owned()] } else { Vec::new() }
}

/// Servers that render a chat template read the arguments of earlier calls again.
pub fn readable_arguments(messages: &Value) -> Wrong {
    let calls = list(messages).iter().flat_map(|message| list(&message["tool_calls"]));
    let unreadable = calls.filter(|call| {
        let json = text(&call["function"], "arguments");
        !serde_json::from_str::<Value>(json).is_ok_and(|arguments| arguments.is_object())
    });
    unreadable.map(|call| format!("arguments of {:?} can't be read", text(call, "id"))).collect()
}

/// The fields of `mistral-common`'s messages, where extra ones are forbidden; "Expected last role
/// User or Tool (or Assistant with prefix True) for serving but got assistant".
pub fn mistral_fields(messages: &Value) -> Wrong {
    let mut wrong = Vec::new();
    for (i, message) in list(messages).iter().enumerate() {
        let known: &[&str] = match text(message, "role") {
            "assistant" => &["role", "content", "tool_calls", "prefix"],
            "tool" => &["role", "content", "tool_call_id", "name"],
            _ => &["role", "content"],
        };
        let keys = message.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        let unknown = keys.filter(|key| !known.contains(key));
        wrong.extend(unknown.map(|key| format!("{i}: {key:?}: extra inputs are not permitted")));
        for part in list(&message["content"]) {
            tell!(wrong, part["file"].is_object(), "{i}: a file of another shape");
        }
    }
    tell!(wrong, ends_in_an_answer(messages), "the last role is assistant");
    wrong
}

/// Whether the last message is an answer with which the model is not asked to go on.
fn ends_in_an_answer(messages: &Value) -> bool {
    let last = list(messages).last();
    last.is_some_and(|last| text(last, "role") == "assistant" && last["prefix"] != true)
}

/// Groq: "for 'role:assistant' the following must be satisfied[('messages.2' : property 'reasoning'
/// is unsupported)]".
pub fn groq(messages: &Value) -> Wrong {
    let known = ["role", "content", "name", "tool_calls", "tool_call_id"];
    let keys = list(messages).iter().filter_map(Value::as_object).flatten();
    let unknown = keys.filter(|(key, _)| !known.contains(&key.as_str()));
    unknown.map(|(key, _)| format!("property {key:?} is unsupported")).collect()
}

/// Servers of which nobody says that a system message may stand later: "System message must be at
/// the beginning" (the templates of Qwen 3.5 to 3.8 on vLLM and llama.cpp; DeepSeek says the same).
pub fn late_system(messages: &Value) -> Wrong {
    let late = list(messages).iter().enumerate().skip(1);
    let late = late.filter(|(_, it)| ["system", "developer"].contains(&text(it, "role")));
    late.map(|(i, _)| format!("{i}: a system message that is not at the beginning")).collect()
}

/// The templates of Qwen from 3.5 on: "No user query found in messages."
pub fn question(messages: &Value) -> Wrong {
    let asks = list(messages).iter().any(|message| text(message, "role") == "user");
    if asks { Wrong::new() } else { vec!["no user query found".to_owned()] }
}

/// DeepSeek: "The first message (except the system message) of deepseek-reasoner must be a user
/// message", "The last message of deepseek-reasoner must be a user message, or an assistant message
/// with prefix mode on".
pub fn deepseek_order(messages: &Value) -> Wrong {
    let mut wrong = Wrong::new();
    let first = list(messages).iter().find(|message| text(message, "role") != "system");
    let is_other = first.is_none_or(|first| text(first, "role") != "user");
    tell!(wrong, is_other, "the first message is not the user's");
    tell!(wrong, ends_in_an_answer(messages), "the last message is an answer");
    wrong
}

/// DeepSeek: 400 where an answer comes back without its `reasoning_content`; from V4 on each has to
/// have one.
pub fn deepseek(messages: &Value) -> Wrong {
    let answers = list(messages).iter().filter(|message| text(message, "role") == "assistant");
    let without = answers.filter(|message| !message["reasoning_content"].is_string());
    let without = without.map(|_| "an answer without reasoning_content".to_owned()).collect();
    [without, texts_are_strings(messages)].concat()
}

/// xAI: "An empty message was provided. Every message needs at least one non-empty content
/// element."
pub fn xai(messages: &Value) -> Wrong {
    let empty = |content: &Value| content == "" || content.as_array().is_some_and(Vec::is_empty);
    let empty = list(messages).iter().filter(|message| empty(&message["content"]));
    empty.map(|_| "an empty message".to_owned()).collect()
}

/// DeepSeek, and servers of no known make: "invalid type: sequence, expected a string" at the
/// content of an answer or a result.
pub fn texts_are_strings(messages: &Value) -> Wrong {
    let mut wrong = Vec::new();
    for (i, message) in list(messages).iter().enumerate() {
        let is_list = message["content"].is_array();
        if is_list && matches!(text(message, "role"), "assistant" | "tool") {
            wrong.push(format!("{i}: a list where a string is expected"));
        }
    }
    wrong
}

/// Templates such as Gemma's: "System role not supported".
pub fn no_system(messages: &Value) -> Wrong {
    let systems = list(messages).iter().filter(|message| text(message, "role") == "system");
    systems.map(|_| "system role not supported".to_owned()).collect()
}

/// Llama 3.1's template: "This model only supports single tool-calls at once!"
pub fn one_call(messages: &Value) -> Wrong {
    let calls = list(messages).iter().filter(|message| list(&message["tool_calls"]).len() > 1);
    calls.map(|_| "several calls at once".to_owned()).collect()
}

/// Ollama's `messages`.
///
/// Reference: the API documentation of `/api/chat`: roles, content as one string, bare base64
/// images, arguments as an object. The order is up to the model's template; what answers no call
/// would still be shown to the model as if it did.
pub fn ollama(messages: &Value) -> Wrong {
    let mut wrong = Vec::new();
    let mut open = 0_usize;
    for (i, message) in list(messages).iter().enumerate() {
        let role = text(message, "role");
        if !["system", "user", "assistant", "tool"].contains(&role) {
            wrong.push(format!("{i}: role {role:?}"));
        }
        tell!(wrong, !message["content"].is_string(), "{i}: content is no string");
        if list(&message["images"])
            .iter()
            .any(|image| image.as_str().is_none_or(|data| data.contains(':')))
        {
            wrong.push(format!("{i}: an image that is not bare base64"));
        }
        if role == "tool" {
            tell!(wrong, open == 0, "{i}: a result without a call");
            open = open.saturating_sub(1);
            continue;
        }
        tell!(wrong, open > 0, "{i}: {open} calls without results");
        let calls = list(&message["tool_calls"]);
        let is_odd = calls.iter().any(|call| !call["function"]["arguments"].is_object());
        tell!(wrong, is_odd, "{i}: arguments are no object");
        open = calls.len();
    }
    tell!(wrong, open > 0, "end: {open} calls without results");
    wrong
}
