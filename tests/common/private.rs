//! What not every provider takes: fields and blocks that one alone understands, as its answers
//! bring them, and media of few.

#![allow(dead_code, unreachable_pub, clippy::unwrap_used)] // each test file uses its own part of it

use memory_prompt::message::{AiMessage, Media, Part};
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

const EPISODES: usize = 36;

/// One of them; `n` tells its ids from those of others.
fn episode(which: usize, n: usize) -> Vec<Message> {
    let (search, program, own) = (format!("srv_s{n}"), format!("srv_p{n}"), format!("own{n}"));
    let says = json!({"type": "text", "text": "Found."});
    let searches = json!({"type": "server_tool_use", "id": search, "name": "web_search",
        "input": {"query": "x"}});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": search, "content": []});
    let runs = json!({"type": "server_tool_use", "id": program, "name": "code_execution",
        "input": {"code": "roll()"}});
    let ran = json!({"type": "code_execution_tool_result", "tool_use_id": program, "content":
        {"type": "code_execution_result", "stdout": "3", "stderr": "", "return_code": 0, "content": []}});
    let rolls = json!({"type": "tool_use", "id": own, "name": "look", "input": {},
        "caller": {"type": "code_execution_20250825", "tool_id": program}});
    let rolled = Message::tool(own.as_str(), "look", "3");
    match which {
        0 => vec![claude("end_turn", &json!([searches, found, says]))],
        1 => vec![
            claude("pause_turn", &json!([says, searches])),
            claude("end_turn", &json!([found, says])),
        ],
        2 => vec![claude("pause_turn", &json!([searches]))],
        3 => vec![
            claude("tool_use", &json!([runs, rolls])),
            rolled,
            claude("end_turn", &json!([ran, says])),
        ],
        4 => vec![claude("tool_use", &json!([says, runs, rolls])), rolled],
        5 => vec![claude(
            "end_turn",
            &json!([{"type": "thinking", "thinking": "hm", "signature": "c2ln"}, says]),
        )],
        6 => vec![claude("end_turn", &json!([{"type": "thinking", "thinking": "hm"}, says]))],
        7 => vec![chat(Provider::OpenAi, json!({"content": null, "refusal": "No."}))],
        8 => vec![chat(
            Provider::OpenAi,
            json!({"content": null, "audio": {"id": "audio_1", "transcript": "Hi."}}),
        )],
        9 => vec![chat(
            Provider::Groq,
            json!({"content": "a", "channel": "final", "reasoning": "hm",
                "executed_tools": [{"index": 0, "type": "search"}]}),
        )],
        10 => vec![chat(
            Provider::Mistral,
            json!({"content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                {"type": "text", "text": "a"},
            ]}),
        )],
        11 => vec![
            chat(
                Provider::GoogleOpenAi,
                json!({"content": null, "tool_calls": [{"id": own, "type": "function",
                    "function": {"name": "look", "arguments": "{}"},
                    "extra_content": {"google": {"thought_signature": "c2ln"}}}]}),
            ),
            rolled,
        ],
        12 => vec![chat(
            Provider::OpenRouter,
            json!({"content": "a", "reasoning": "hm",
                "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}),
        )],
        13 => vec![read(
            Provider::OpenAiResponses,
            json!({"status": "completed", "output": [
                {"type": "reasoning", "id": format!("rs_{n}"), "summary": [], "encrypted_content": "c2ln"},
                {"type": "web_search_call", "id": format!("ws_{n}"), "status": "completed",
                    "action": {"type": "search", "query": "x"}},
                {"type": "message", "id": format!("msg_{n}"), "role": "assistant", "status": "completed",
                    "content": [{"type": "output_text", "text": "a", "annotations": []}]},
            ]}),
        )],
        14 => vec![gemini(&json!([
            {"executableCode": {"language": "PYTHON", "code": "1"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
            {"text": "a", "thoughtSignature": "c2ln"},
        ]))],
        15..25 => vec![Message::user([media(which)])],
        25..29 => vec![made(which)],
        29 => vec![claude("max_tokens", &json!([says, searches]))],
        30 => vec![
            contained("tool_use", &json!([says, runs, rolls])),
            rolled,
            contained("end_turn", &json!([ran, says, says])),
        ],
        31 => vec![contained("tool_use", &json!([runs, rolls])), rolled],
        _ => vec![cited(which, &search)],
    }
}

/// What says where it has it from, in many texts.
fn cited(which: usize, search: &str) -> Message {
    let page = json!({"url": "https://e.x/a", "title": "A"});
    let text = |text: &str| json!({"type": "text", "text": text});
    match which {
        32 => {
            let found = json!({"type": "web_search_result", "url": page["url"], "title": "A",
                "encrypted_content": "c2ln", "page_age": null});
            let cites = |kind: Value| {
                let mut said = text("It is sunny.");
                said["citations"] = json!([kind]);
                said
            };
            let of_page = json!({"type": "web_search_result_location", "url": page["url"],
                "title": "A", "encrypted_index": "c2ln", "cited_text": "Sun."});
            let of_document = json!({"type": "char_location", "cited_text": "Sun.",
                "document_index": 0, "document_title": "Notes", "start_char_index": 0,
                "end_char_index": 4});
            claude(
                "end_turn",
                &json!([
                    {"type": "server_tool_use", "id": search, "name": "web_search", "input": {"query": "x"}},
                    {"type": "web_search_tool_result", "tool_use_id": search, "content": [found]},
                    text("Well:"), cites(of_page), text(" And so "), cites(of_document),
                ]),
            )
        }
        33 => chat(
            Provider::OpenAi,
            json!({"content": [text("a"), text("b"), text("c")], "annotations":
                [{"type": "url_citation", "url_citation":
                    {"url": page["url"], "title": "A", "start_index": 0, "end_index": 1}}]}),
        ),
        34 => {
            let message = json!({"role": "assistant", "content": "Sunny [1]."});
            read(
                Provider::Xai,
                json!({"choices": [{"finish_reason": "stop", "message": message}],
                    "citations": [page["url"]], "search_results": [page]}),
            )
        }
        _ => read(
            Provider::Gemini,
            json!({"candidates": [{"finishReason": "STOP",
                "groundingMetadata": {"groundingChunks": [{"web": {"uri": page["url"]}}]},
                "content": {"role": "model", "parts": [
                    {"text": "a"}, {"text": "b"}, {"text": "", "thoughtSignature": "c2ln"}]}}]}),
        ),
    }
}

/// An answer of Claude's whose code runs in a container.
fn contained(stop: &str, content: &Value) -> Message {
    let container = json!({"id": "container_1", "expires_at": "2026-11-26T10:00:00Z"});
    let body = json!({"role": "assistant", "stop_reason": stop, "content": content,
        "container": container});
    read(Provider::Anthropic, body)
}

/// Media of few, and what only one provider can look at.
fn media(which: usize) -> Part {
    match which {
        15 => Part::Image(Media::url("data:image/svg+xml;base64,PHN2Zy8+")),
        16 => Part::Audio(Media::url("data:audio/wav;base64,UklGRg==")),
        17 => Part::File(Media::file_id("file-1")),
        18 => Part::Image(Media::url("gs://bucket/a.png").with_media_type("image/png")),
        19 => Part::File(Media::file_id("file_01abc")),
        20 => Part::Image(Media::file_id("files/abc")),
        21 => Part::Image(Media::url("s3://bucket/a.png").with_media_type("image/png")),
        22 => Part::File(
            Media::url("https://generativelanguage.googleapis.com/v1beta/files/abc")
                .with_media_type("application/pdf"),
        ),
        23 => Part::File(Media::base64("text/csv", "YSxi").with_name("a.csv")),
        _ => Part::File(Media::base64("application/msword", "0M8R4A==").with_name("a.doc")),
    }
}

/// What models made.
fn made(which: usize) -> Message {
    match which {
        25 => gemini(&json!([
            {"text": "Here."},
            {"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}},
        ])),
        26 => gemini(&json!([{"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="}}])),
        27 => AiMessage::from_parts([
            Part::text("Here."),
            Part::Image(Media::url("https://e.x/a.png")),
        ])
        .into(),
        _ => {
            AiMessage::from_parts([Part::File(Media::base64("application/pdf", "JVBERi0="))]).into()
        }
    }
}

fn claude(stop: &str, content: &Value) -> Message {
    let body = json!({"role": "assistant", "stop_reason": stop, "content": content});
    read(Provider::Anthropic, body)
}

fn chat(provider: Provider, mut message: Value) -> Message {
    message["role"] = "assistant".into();
    read(provider, json!({"choices": [{"finish_reason": "stop", "message": message}]}))
}

fn gemini(parts: &Value) -> Message {
    let content = json!({"role": "model", "parts": parts});
    read(Provider::Gemini, json!({"candidates": [{"finishReason": "STOP", "content": content}]}))
}

fn read(provider: Provider, body: Value) -> Message {
    wire::answer(provider, body).unwrap().into()
}
