//! What not every provider takes: fields and blocks that one alone understands, as its answers
//! bring them, and media of few.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test file uses its own part of it

use memory_prompt::{Message, Provider, wire};
use proptest::prelude::*;
use serde_json::{Value, json};

/// The same history with up to two such episodes thrown in, wherever that is.
pub fn with_private(
    history: impl Strategy<Value = Vec<Message>>,
) -> impl Strategy<Value = Vec<Message>> {
    let thrown_in = proptest::collection::vec((any::<prop::sample::Index>(), 0..EPISODES), 0..3);
    (history, thrown_in).prop_map(|(mut history, thrown_in)| {
        for (n, (place, which)) in thrown_in.into_iter().enumerate() {
            let at = place.index(history.len() + 1);
            history.splice(at..at, episode(which, n));
        }
        history
    })
}

const EPISODES: usize = 53;

/// Each line is an episode: the messages of it with ` ; ` between, each of an answer's provider and
/// of what it says, or as it is stored. Words in capitals stand for what is in `NAMED`, and `$n`
/// for the number that tells its ids from those of others.
const TABLE: &str = r#"
anthropic end_turn [SEARCHES, FOUND, SAYS]
anthropic pause_turn [SAYS, SEARCHES] ; anthropic end_turn [FOUND, SAYS]
anthropic pause_turn [SEARCHES]
anthropic tool_use [RUNS, ROLLS] ; ROLLED ; anthropic end_turn [RAN, SAYS]
anthropic tool_use [SAYS, RUNS, ROLLS] ; ROLLED
anthropic end_turn [{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, SAYS]
anthropic end_turn [{"type": "thinking", "thinking": "hm"}, SAYS]
openai stop {"content": null, "refusal": "No."}
openai stop {"content": null, "audio": {"id": "audio_1", "transcript": "Hi."}}
groq stop {"content": "a", "channel": "final", "reasoning": "hm", "executed_tools": [{"index": 0, "type": "search"}]}
mistral stop {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]}
google_openai stop {"content": null, "tool_calls": [{"id": "own$n", "type": "function", "function": {"name": "look", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "c2ln"}}}]} ; ROLLED
openrouter stop {"content": "a", "reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}
openai_responses completed [{"type": "reasoning", "id": "rs_$n", "summary": [], "encrypted_content": "c2ln"}, {"type": "web_search_call", "id": "ws_$n", "status": "completed", "action": {"type": "search", "query": "x"}}, {"type": "message", "id": "msg_$n", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "a", "annotations": []}]}]
gemini STOP [{"executableCode": {"language": "PYTHON", "code": "1"}}, {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}, {"text": "a", "thoughtSignature": "c2ln"}]
user {"type": "image", "url": "data:image/svg+xml;base64,PHN2Zy8+"}
user {"type": "audio", "url": "data:audio/wav;base64,UklGRg=="}
user {"type": "image", "url": "http://10.0.0.7/a.png"}
user {"type": "image", "url": "data:image/svg+xml,%3Csvg/%3E"}
user {"type": "image", "url": "data:image/png;base64,/9j/wAARCAMABAAD"}
user {"type": "video", "data": "AAAA", "media_type": "video/mp4"}
user {"type": "file", "file_id": "file-1"}
user {"type": "image", "url": "gs://bucket/a.png", "media_type": "image/png"}
user {"type": "file", "file_id": "file_01abc"}
user {"type": "image", "file_id": "files/abc"}
user {"type": "image", "url": "s3://bucket/a.png", "media_type": "image/png"}
user {"type": "file", "url": "https://generativelanguage.googleapis.com/v1beta/files/abc", "media_type": "application/pdf"}
user {"type": "file", "data": "YSxi", "media_type": "text/csv", "name": "a.csv"}
user {"type": "file", "data": "0M8R4A==", "media_type": "application/msword", "name": "a.doc"}
gemini STOP [{"text": "Here."}, {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]
gemini STOP [{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}]
assistant {"type": "text", "text": "Here."}, {"type": "image", "url": "https://e.x/a.png"}
assistant {"type": "file", "data": "JVBERi0=", "media_type": "application/pdf"}
anthropic max_tokens [SAYS, SEARCHES]
contained tool_use [SAYS, RUNS, ROLLS] ; ROLLED ; contained end_turn [RAN, SAYS, SAYS]
contained tool_use [RUNS, ROLLS] ; ROLLED
anthropic end_turn [SEARCHES, {"type": "web_search_tool_result", "tool_use_id": "srv_s$n", "content": [{"type": "web_search_result", "url": "https://e.x/a", "title": "A", "encrypted_content": "c2ln", "page_age": null}]}, {"type": "text", "text": "Well:"}, {"type": "text", "text": "It is sunny.", "citations": [{"type": "web_search_result_location", "url": "https://e.x/a", "title": "A", "encrypted_index": "c2ln", "cited_text": "Sun."}]}, {"type": "text", "text": " And so "}, {"type": "text", "text": "It is sunny.", "citations": [{"type": "char_location", "cited_text": "Sun.", "document_index": 0, "document_title": "Notes", "start_char_index": 0, "end_char_index": 4}]}]
openai stop {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "text", "text": "c"}], "annotations": [{"type": "url_citation", "url_citation": {"url": "https://e.x/a", "title": "A", "start_index": 0, "end_index": 1}}]}
xai stop {"content": "Sunny [1]."} {"citations": ["https://e.x/a"], "search_results": [{"url": "https://e.x/a", "title": "A"}]}
openai_responses completed [{"type": "reasoning", "id": "rs_$n", "summary": [], "encrypted_content": "c2ln"}, CLICKS] ; ROLLED
openai_responses completed [CLICKS] ; tool {"tool_call_id": "own$n", "name": "computer", "content": [{"type": "image", "data": "iVBORw0KGgo=", "media_type": "image/png"}]}
azure tool_calls {"content": null, "tool_calls": [{"id": "own$n", "type": "", "function": {"name": "look", "arguments": "{}"}}]} ; ROLLED
openai tool_calls {"content": null, "tool_calls": [{"id": "own$n", "type": "function", "function": {"name": "look", "arguments": "{}"}}]} ; tool {"tool_call_id": "own$n", "name": "look", "content": [{"type": "image", "url": "data:image/png;base64,/9j/wAARCAMABAAD"}]}
LOOKS ; tool {"tool_call_id": "own$n", "name": "look", "is_error": true, "content": [{"type": "text", "text": "Dark."}, {"type": "image", "data": "iVBORw0KGgo=", "media_type": "image/png"}]}
LOOKS ; tool {"tool_call_id": "own$n", "name": "look", "content": [{"type": "audio", "data": "UklGRg==", "media_type": "audio/wav"}, {"type": "image", "url": "https://e.x/a.png"}, {"type": "image", "url": "gs://b/a.png"}]}
user {"type": "image", "data": "UklGRhoAAABXRUJQVlA4", "media_type": "image/webp"}
user {"type": "image", "data": "R0lGODlhAQABAAAA", "media_type": "image/gif"}
user {"type": "image", "url": "https://e.x/a.png", "detail": "ultra_high"}
user {"type": "file", "data": "eyJhIjoxfQ==", "media_type": "application/json", "name": "a.json"}
user {"type": "file", "data": "UEsDBA==", "media_type": "application/zip", "name": "a.zip"}
xai stop {"content": "", "reasoning_content": "hm"}
gemini STOP [{"text": "a"}, {"text": "b"}, {"text": "", "thoughtSignature": "c2ln"}] {"groundingMetadata": {"groundingChunks": [{"web": {"uri": "https://e.x/a"}}]}}
openai tool_calls {"content": null, "tool_calls": [{"id": "own$n", "type": "custom", "custom": {"name": "look", "input": "SELECT 1"}}]} ; ROLLED
"#;

const NAMED: [(&str, &str); 9] = [
    (
        "SEARCHES",
        r#"{"type": "server_tool_use", "id": "srv_s$n", "name": "web_search", "input": {"query": "x"}}"#,
    ),
    ("FOUND", r#"{"type": "web_search_tool_result", "tool_use_id": "srv_s$n", "content": []}"#),
    ("SAYS", r#"{"type": "text", "text": "Found."}"#),
    (
        "RUNS",
        r#"{"type": "server_tool_use", "id": "srv_p$n", "name": "code_execution", "input": {"code": "roll()"}}"#,
    ),
    (
        "RAN",
        r#"{"type": "code_execution_tool_result", "tool_use_id": "srv_p$n", "content": {"type": "code_execution_result", "stdout": "3", "stderr": "", "return_code": 0, "content": []}}"#,
    ),
    (
        "ROLLS",
        r#"{"type": "tool_use", "id": "own$n", "name": "look", "input": {}, "caller": {"type": "code_execution_20250825", "tool_id": "srv_p$n"}}"#,
    ),
    (
        "CLICKS",
        r#"{"type": "computer_call", "id": "cu_$n", "call_id": "own$n", "status": "completed", "pending_safety_checks": [], "action": {"type": "screenshot"}}"#,
    ),
    (
        "LOOKS",
        r#"openai tool_calls {"content": null, "tool_calls": [{"id": "own$n", "type": "function", "function": {"name": "look", "arguments": "{}"}}]}"#,
    ),
    ("ROLLED", r#"tool {"tool_call_id": "own$n", "name": "look", "content": "3"}"#),
];

/// One of them.
fn episode(which: usize, n: usize) -> Vec<Message> {
    let lines: Vec<_> = TABLE.trim().lines().collect();
    assert_eq!(lines.len(), EPISODES);
    let named =
        NAMED.iter().fold(lines[which].to_owned(), |it, (name, said)| it.replace(name, said));
    named.replace("$n", &n.to_string()).split(" ; ").map(message).collect()
}

fn message(line: &str) -> Message {
    let (who, said) = line.split_once(' ').unwrap();
    let stored = match who {
        "tool" => said.replacen('{', r#"{"role": "tool", "#, 1),
        "user" | "assistant" => format!(r#"{{"role": "{who}", "content": [{said}]}}"#),
        _ => return answer(who, said),
    };
    serde_json::from_str(&stored).unwrap()
}

/// The fields behind an answer's content stand beside it.
fn answer(who: &str, said: &str) -> Message {
    let (stop, said) = said.split_once(' ').unwrap();
    let mut said = serde_json::Deserializer::from_str(said).into_iter::<Value>();
    let mut content = said.next().unwrap().unwrap();
    let beside = said.next().map_or_else(|| json!({}), Result::unwrap);
    let mut name = who;
    let mut body = match who {
        "anthropic" => json!({"role": "assistant", "stop_reason": stop, "content": content}),
        // Claude's code runs in a container.
        "contained" => {
            name = "anthropic";
            json!({"role": "assistant", "stop_reason": stop, "content": content, "container":
                {"id": "container_1", "expires_at": "2026-11-26T10:00:00Z"}})
        }
        "openai_responses" => json!({"status": stop, "output": content}),
        "gemini" => {
            let mut candidate = beside.clone();
            candidate["finishReason"] = stop.into();
            candidate["content"] = json!({"role": "model", "parts": content});
            json!({"candidates": [candidate]})
        }
        _ => {
            content["role"] = "assistant".into();
            json!({"choices": [{"finish_reason": stop, "message": content}]})
        }
    };
    if who == "xai" {
        body.as_object_mut().unwrap().extend(beside.as_object().unwrap().clone());
    }
    let provider: Provider = serde_json::from_value(name.into()).unwrap();
    wire::answer(provider, body).unwrap().into()
}
