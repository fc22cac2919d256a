//! What only one provider understands goes back to it alone: over answers of many servers, written
//! for every other one, judged by what each of them takes, from outside.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use crate::events::candidate;
use crate::golden::goldens;
use crate::setups::{PROVIDERS, compose, prompt_for, request};
use crate::validators;
use memory_prompt::message::{Media, Part, UserMessage};
use memory_prompt::provider::{Format, PrivateField, PrivateFields, Row};
use memory_prompt::report::{Adaptation, Reason};
use memory_prompt::window::ToolGroups;
use memory_prompt::{Composer, Message, Provider, wire};
use serde_json::{Value, json};

/// Names that no text of these answers holds: each is of one server, and a 400 or 422 at another
/// that checks what it is sent.
const PRIVATE: [(&str, &[&str]); 19] = [
    ("executed_tools", &[]),
    ("channel", &[]),
    ("token_id", &[]),
    ("created_at", &[]),
    ("extra_content", &["google_openai"]),
    ("provider_specific_fields", &["litellm"]),
    ("reasoning_details", &["openrouter"]),
    ("\"thinking\":[", &["mistral"]),
    ("unsigned thought", &["minimax"]),
    ("sig-of-claude", &["anthropic", "claude_on_bedrock", "claude_on_vertex"]),
    ("server_tool_use", &["anthropic", "claude_on_bedrock", "claude_on_vertex"]),
    ("web_search_tool_result", &["anthropic", "claude_on_bedrock", "claude_on_vertex"]),
    ("compaction", &["anthropic", "claude_on_bedrock", "claude_on_vertex"]),
    ("sig-of-gemini", &["gemini"]),
    ("executableCode", &["gemini"]),
    ("encrypted_content", &["openai_responses"]),
    ("web_search_call", &["openai_responses"]),
    ("msg_private", &["openai_responses"]),
    ("audio_1", &[]),
];

/// `MiniMax`, which speaks Anthropic's format and does not sign.
fn minimax() -> Provider {
    let mut row = Row::like(Provider::Anthropic, "minimax").unwrap();
    row.signed_reasoning = false;
    row.private = PrivateFields::ALL;
    Provider::custom(row)
}

/// Answers with whatever each server puts into them.
fn answers() -> Vec<(Provider, Value)> {
    let rows = r#"
        groq {"content": "a", "channel": "final", "reasoning": "hm", "executed_tools": [{"index": 0, "type": "search"}]}
        google_openai {"content": null, "extra_content": {"google": {}}, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": "{}"}, "extra_content": {"google": {"thought_signature": "s"}}}]}
        openai_compatible {"content": "a", "token_id": 7}
        mistral {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}, {"type": "text", "text": "a"}]}
        litellm {"content": "a", "provider_specific_fields": {"x": 1}}
        openrouter {"content": "a", "reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}
        openai {"content": null, "audio": {"id": "audio_1", "transcript": "a", "data": "AA==", "expires_at": 1}}
        openai_compatible {"content": "a", "created_at": 1}
        anthropic [{"type": "thinking", "thinking": "hm", "signature": "sig-of-claude"}, {"type": "compaction", "content": "so far"}, {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}, {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}, {"type": "text", "text": "a"}]
        minimax [{"type": "thinking", "thinking": "unsigned thought"}, {"type": "text", "text": "a"}]
        gemini [{"text": "a", "thoughtSignature": "sig-of-gemini"}, {"executableCode": {"language": "PYTHON", "code": "1"}}]
        openai_responses [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}, {"type": "web_search_call", "id": "ws_1", "status": "completed"}, {"type": "message", "id": "msg_private", "role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]}]
    "#;
    let rows = rows.lines().filter_map(|row| row.trim().split_once(' '));
    let answer = |(name, said): (&str, &str)| {
        let mut said: Value = serde_json::from_str(said).unwrap();
        let from = all().into_iter().find(|provider| provider.row().name() == name).unwrap();
        let body = match from.format() {
            Format::Anthropic => {
                json!({"role": "assistant", "stop_reason": "end_turn", "content": said})
            }
            Format::Gemini => candidate(said, "STOP"),
            Format::Responses => json!({"status": "completed", "output": said}),
            _ => {
                said["role"] = "assistant".into();
                json!({"choices": [{"finish_reason": "stop", "message": said}]})
            }
        };
        (from, body)
    };
    rows.map(answer).collect()
}

fn all() -> Vec<Provider> {
    PROVIDERS.into_iter().chain([minimax()]).collect()
}

/// The answer between two questions, as this provider is sent it.
fn written(answer: &Message, to: Provider) -> (String, memory_prompt::Prompt) {
    let mut said = vec![Message::user("q"), answer.clone()];
    said.extend(answer.tool_calls().map(|call| Message::tool(&call.id, &call.name, "r")));
    said.push(Message::user("q"));
    let prompt = prompt_for(to, &said);
    (request(to, &prompt).to_string(), prompt)
}

/// Groq's `channel` went to OpenAI, Google's signatures to Groq, an unsigned thought to
/// Claude: 400.
#[test]
fn a_private_field_goes_back_to_those_who_list_it_and_to_nobody_else() {
    let mut sent_back = 0;
    for (from, body) in answers() {
        let answer = wire::answer(from, body.to_string()).unwrap();
        assert_eq!(answer.provider, from);
        let answer = Message::from(answer);
        // It remembers that when it is stored.
        let stored = serde_json::to_string(&answer).unwrap();
        let answer: Message = serde_json::from_str(&stored).unwrap();
        for to in all() {
            let (written, _) = written(&answer, to);
            for (field, takers) in PRIVATE {
                let family = takers.contains(&from.row().name());
                let takes = takers.contains(&to.row().name()) && (from == to || family);
                let lenient = matches!(to, Provider::Vllm | Provider::LlamaCpp) && from == to;
                let is_sent = written.contains(field);
                assert!(!is_sent || takes || lenient, "{field}: {from} to {to}: {written}");
                sent_back += usize::from(is_sent);
            }
            assert!(!written.contains("not supported by this format"), "{from} to {to}: {written}");
        }
        // What a server lists comes back to it.
        let (back, _) = written(&answer, from);
        for (field, takers) in PRIVATE {
            let is_its_own = takers.contains(&from.row().name());
            let was_there = body.to_string().contains(field);
            assert_eq!(back.contains(field), was_there && is_its_own, "{field} of {from}: {back}");
        }
    }
    assert!(sent_back > 20, "{sent_back}");
}

/// A signed thought of Claude's must come back in a tool loop, else 400, wherever Claude runs by
/// then.
#[test]
fn claude_is_one_family_wherever_it_runs() {
    let body = json!({"role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "thinking", "thinking": "hm", "signature": "sig-of-claude"},
        {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]});
    let family = [Provider::Anthropic, Provider::ClaudeOnBedrock, Provider::ClaudeOnVertex];
    for from in family {
        let answer = Message::from(wire::answer(from, body.to_string()).unwrap());
        for to in family {
            assert!(written(&answer, to).0.contains("sig-of-claude"), "{from} to {to}");
        }
        assert!(!written(&answer, minimax()).0.contains("sig-of-claude"));
    }
}

/// A conversation went on at Vertex AI where Gemini's API had called a tool: "Corrupted thought
/// signature." (400), and the same the other way round, since a signature is known where it was
/// given alone.
#[test]
fn a_signature_of_gemini_goes_back_where_it_was_given_alone() {
    let call = json!({"functionCall": {"name": "look", "args": {}}, "thoughtSignature": "mine"});
    let text = json!({"text": "So", "thoughtSignature": "mine"});
    let picture = json!({"inlineData": {"mimeType": "image/png", "data": "iVBORw0KGgo="},
        "thoughtSignature": "mine"});
    let body = candidate(json!([text, picture, call]), "STOP").to_string();
    for (from, other) in
        [(Provider::Gemini, Provider::Vertex), (Provider::Vertex, Provider::Gemini)]
    {
        let answer = Message::from(wire::answer(from, body.as_str()).unwrap());
        assert_eq!(written(&answer, from).0.matches("mine").count(), 3, "{from}");
        let (written, _) = written(&answer, other);
        assert!(!written.contains("mine"), "{from} to {other}: {written}");
        let is_marked = written.contains("skip_thought_signature_validator");
        assert!(is_marked && written.contains("iVBORw0KGgo="), "{from} to {other}: {written}");
    }
}

/// A conversation with a model that speaks was taken up after lunch: "Assistant audio .. not
/// found." (`audio_not_found`, 400), and so for ever, since the id of what it had said is forgotten
/// within an hour. It went to Azure too, which has never known it.
#[test]
fn what_a_model_spoke_is_sent_as_its_words() {
    let (_, body) = answers().swap_remove(6);
    let spoken = Message::from(wire::answer(Provider::OpenAi, body.to_string()).unwrap());
    for to in [Provider::OpenAi, Provider::Azure, Provider::Groq] {
        let (_, prompt) = written(&spoken, to);
        let sent = &request(to, &prompt)["messages"][1];
        assert_eq!(*sent, json!({"role": "assistant", "content": "a"}), "{to}");
    }
    // Who wants it spoken and comes back at once asks for that.
    let mut row = Row::like(Provider::OpenAi, "own").unwrap();
    row.private = row.private.with(PrivateField::Audio).from(Provider::OpenAi);
    let (_, prompt) = written(&spoken, Provider::custom(row));
    let sent = &request(Provider::custom(row), &prompt)["messages"][1];
    assert_eq!(*sent, json!({"role": "assistant", "content": null, "audio": {"id": "audio_1"}}));
}

/// 231 of 1,807 recorded answers made the model say "[part: not supported by this format]".
#[test]
fn another_providers_part_is_left_out_and_told() {
    let (_, body) = answers().swap_remove(8);
    let answer = Message::from(wire::answer(Provider::Anthropic, body.to_string()).unwrap());
    for to in all().into_iter().filter(|to| to.format() != Format::Anthropic) {
        let (_, prompt) = written(&answer, to);
        let mut adapted = prompt.report().adapted.iter();
        let told = adapted.any(|it| it.how == Adaptation::Foreign && it.position == Some(1));
        assert!(told, "{to}: {}", prompt.report());
        assert!(prompt.iter().any(|it| it.text() == "a"), "{to}");
    }
    let searches = json!({"role": "assistant", "content": [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}]});
    let searches = Message::from(wire::answer(Provider::Anthropic, searches.to_string()).unwrap());
    let (written, prompt) = written(&searches, Provider::OpenAi);
    let mut left_out = prompt.report().left_out.iter();
    assert!(left_out.any(|it| it.position == 1 && it.why == Reason::Foreign));
    assert!(!written.contains("srvtoolu_1"));
    let strict =
        Composer::new().tool_groups(ToolGroups::FailOnRepair).for_provider(Provider::OpenAi);
    let said = [Message::user("q"), answer, Message::user("q")];
    let expected = "compose: message 1 (assistant) holds what only another provider understands: openai refuses it";
    assert_eq!(compose(&strict, &said, &[]).unwrap_err().to_string(), expected);
    // What a user said stays, as a placeholder.
    let film = Message::user([Part::Video(Media::url("u"))]);
    let (written, _) = self::written(&film, Provider::OpenAi);
    assert!(written.contains("[video: not supported by this format]"));
}

/// Every answer in the goldens, given by its own provider and written for every other.
#[test]
fn no_golden_answer_sends_what_a_typed_model_refuses() {
    let formats = [
        ("openai", Provider::OpenAiCompatible),
        ("responses", Provider::OpenAiResponses),
        ("anthropic", Provider::Anthropic),
        ("gemini", Provider::Gemini),
        ("ollama", Provider::Ollama),
    ];
    let mut seen = 0;
    for (folder, provider) in formats {
        for (name, golden) in goldens(folder) {
            if !golden["response"].is_object() {
                continue;
            }
            let from = serde_json::from_value(golden["provider"].clone()).unwrap_or(provider);
            let answer = Message::from(wire::answer(from, golden["response"].to_string()).unwrap());
            for to in [Provider::Groq, Provider::Mistral] {
                let (_, prompt) = written(&answer, to);
                let messages = &request(to, &prompt)["messages"];
                let wrong = match to {
                    Provider::Groq => validators::groq(messages),
                    _ => validators::mistral_fields(messages),
                };
                assert!(wrong.is_empty(), "{name} to {to}: {wrong:?}\n{messages:#}");
                seen += 1;
            }
        }
    }
    assert!(seen > 40, "{seen}");
}

/// What was stored before answers remembered who gave them goes to whoever lists the field.
#[test]
fn an_answer_without_an_origin_keeps_its_mark() {
    let body = r#"{"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "a"}]}"#;
    let answer = Message::from(wire::anthropic::answer(body).unwrap());
    assert!(!serde_json::to_string(&answer).unwrap().contains("wire:provider"));
    for to in [Provider::Anthropic, Provider::ClaudeOnVertex, minimax()] {
        assert!(written(&answer, to).0.contains("\"signature\":\"s\""), "{to}");
    }
}

/// Neighbours that are joined are of several providers: nothing private is left of either.
#[test]
fn joined_answers_of_two_providers_send_nothing_private() {
    let said = |provider, field: &str| {
        let body = json!({"role": "assistant", "content": field, field: true});
        Message::from(wire::answer(provider, body.to_string()).unwrap())
    };
    let list = [
        Message::user("q"),
        said(Provider::Groq, "channel"),
        said(Provider::Mistral, "prefix"),
        Message::user("q"),
    ];
    let body = request(Provider::Mistral, &prompt_for(Provider::Mistral, &list));
    assert_eq!(body["messages"][1], json!({"role": "assistant", "content": "channel\n\nprefix"}));
}

/// An answer that Mistral is to go on with was the last message for Claude too, which refuses it.
#[test]
fn a_mark_to_go_on_is_for_its_format_alone() {
    let body = json!({"role": "assistant", "content": "So", "prefix": true}).to_string();
    let answer = Message::from(wire::answer(Provider::Mistral, body).unwrap());
    let ends = |to| prompt_for(to, &[Message::user("q"), answer.clone()]).iter().last().cloned();
    assert_eq!(ends(Provider::Mistral), Some(answer.clone()));
    assert_eq!(ends(Provider::Anthropic), Some(Message::user("(continue)")));
}

/// Names are lost where the format has no place for them, unless they stand in the text.
#[test]
fn a_name_stands_in_the_text_where_that_is_asked_for() {
    let named = UserMessage::new("Tea?").with_name("Klaus");
    let list = [Message::from(named)];
    let claude = wire::anthropic::Messages::of(&list).names_in_text();
    assert_eq!(json!(claude)[0]["content"], "Klaus: Tea?");
    let gemini = wire::gemini::Contents::of(&list).names_in_text();
    assert_eq!(json!(gemini)[0]["parts"][0]["text"], "Klaus: Tea?");
    let mistral = wire::openai::Messages::of(&list).for_provider(Provider::Mistral);
    assert_eq!(json!(mistral), json!([{"role": "user", "content": "Tea?"}]));
}

/// Mistral and OpenRouter take files that OpenAI does not, and not those that it does.
#[test]
fn files_are_written_as_each_provider_takes_them() {
    let file = |media| [Message::user([Part::File(media)])];
    let to = |provider, list: &[Message]| {
        json!(wire::openai::Messages::of(list).for_provider(provider))[0]["content"][0].clone()
    };
    let there = file(Media::url("https://e.x/a.pdf"));
    let expected = json!({"type": "document_url", "document_url": "https://e.x/a.pdf"});
    assert_eq!(to(Provider::Mistral, &there), expected);
    let expected = json!({"type": "file", "file": {"file_data": "https://e.x/a.pdf"}});
    assert_eq!(to(Provider::OpenRouter, &there), expected);
    assert_eq!(to(Provider::OpenAi, &there)["type"], "text");
    let held = file(Media::file_id("f1"));
    assert_eq!(to(Provider::Mistral, &held), json!({"type": "file", "file_id": "f1"}));
    let read = wire::history(Provider::OpenRouter,
        r#"[{"role": "user", "content": [{"type": "file", "file": {"file_data": "https://e.x/a.pdf"}}]}]"#).unwrap();
    assert_eq!(read, there);
}

/// A call of a tool that takes free text, which Responses has, went to vLLM, llama.cpp and
/// templates as a call of a function whose arguments are no JSON: they answer 400 or 500.
#[test]
fn a_call_with_free_text_can_be_read_by_others() {
    use Provider::{LiteLlm, LlamaCpp, OpenAiCompatible, StrictTemplate, Vllm};
    let item = json!({"type": "custom_tool_call", "call_id": "call00001", "name": "sql",
        "input": "SELECT 1"});
    let body = json!({"status": "completed", "output": [item]}).to_string();
    let answer = wire::answer(Provider::OpenAiResponses, &body).unwrap();
    let history = [Message::user("q"), answer.into(), Message::tool("call00001", "sql", "1")];
    for provider in [Vllm, LlamaCpp, StrictTemplate, LiteLlm, OpenAiCompatible] {
        let prompt = prompt_for(provider, &history);
        let body = json!(wire::openai::messages(&prompt));
        let arguments = body[1]["tool_calls"][0]["function"]["arguments"].as_str().unwrap();
        assert_eq!(arguments, r#"{"arguments":"SELECT 1"}"#, "{provider}");
        assert!(prompt.report().adapted.iter().any(|it| it.how == Adaptation::Arguments));
    }
}

/// A person went on with Mistral where GPT-5 had called a tool that takes free text. The call went
/// there as `custom`: 422 ("Input tag 'custom' found using 'type' does not match any of the
/// expected tags"), and so at each server of this format but OpenAI's own, as long as it was sent.
#[test]
fn a_call_with_free_text_is_a_function_for_all_but_openai() {
    let call = json!({"id": "call00001", "type": "custom",
        "custom": {"name": "sql", "input": "SELECT 1"}});
    let said = json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let body = json!({"choices": [{"finish_reason": "tool_calls", "message": said}]}).to_string();
    let result = Message::tool("call00001", "sql", "1");
    let of_openai = Message::from(wire::answer(Provider::OpenAi, body.as_str()).unwrap());
    // Read with the function of the format alone, it has no origin.
    let of_nobody = Message::from(wire::openai::answer(body.as_str()).unwrap());
    for (answer, is_known) in [(of_openai, true), (of_nobody, false)] {
        let history = [Message::user("q"), answer, result.clone()];
        for to in PROVIDERS.into_iter().filter(|to| to.format() == Format::OpenAi) {
            let sent = &request(to, &prompt_for(to, &history))["messages"][1]["tool_calls"][0];
            let is_own = matches!(to, Provider::OpenAi | Provider::Azure);
            if is_own {
                assert_eq!(*sent, call, "{to}");
            } else if is_known || to.row().private != PrivateFields::ALL {
                assert_eq!(sent["type"], "function", "{to}");
                let arguments = sent["function"]["arguments"].as_str().unwrap();
                let is_parsed = to.row().parses_arguments;
                let expected = if is_parsed { r#"{"arguments":"SELECT 1"}"# } else { "SELECT 1" };
                assert_eq!(arguments, expected, "{to}");
            }
        }
    }
}

/// A text that a user attached went to OpenAI's Chat Completions as a file: "Expected a
/// base64-encoded data URL with an application/pdf MIME type, but got unsupported MIME type
/// 'text/markdown'", and so for each file that is no PDF.
#[test]
fn of_files_openai_is_sent_pdfs_and_texts() {
    let files = |provider| {
        let list = [Message::user([
            Part::File(Media::base64("text/markdown", "IyBIaQ==").with_name("a.md")),
            Part::File(Media::base64("application/pdf", "JVBERi0=").with_name("a.pdf")),
            Part::File(Media::base64("application/msword", "0M8R4A==").with_name("a.doc")),
        ])];
        let view = wire::openai::Messages::of(&list).for_provider(provider);
        let losses: Vec<_> = view.losses().iter().map(ToString::to_string).collect();
        (json!(view)[0]["content"].clone(), losses)
    };
    for provider in [Provider::OpenAi, Provider::Azure] {
        let (parts, losses) = files(provider);
        assert_eq!(parts[0], json!({"type": "text", "text": "# Hi"}), "{provider}");
        assert_eq!(parts[1]["file"]["file_data"], "data:application/pdf;base64,JVBERi0=");
        let stands = json!({"type": "text", "text": "[file: not supported by this format]"});
        assert_eq!(parts[2], stands, "{provider}");
        assert_eq!(losses, ["message 0, part 2: a file"]);
    }
    let (parts, losses) = files(Provider::OpenRouter);
    assert_eq!(parts[0]["file"]["file_data"], "data:text/markdown;base64,IyBIaQ==");
    assert!(losses.is_empty(), "{losses:?}");
}

/// The address of a file that Gemini holds went to all others as that of a picture, and `files/..`
/// and the ids of Anthropic's and OpenAI's files as ids of their own: a 400, and a name told to
/// who has no use for it.
#[test]
fn what_only_one_provider_can_look_at_is_not_shown_to_others() {
    use Provider::{
        Anthropic, ClaudeOnBedrock, ClaudeOnVertex, Gemini, OpenAi, OpenAiResponses, Vertex, Vllm,
    };
    let gemini = "https://generativelanguage.googleapis.com/v1beta/files/abc";
    let typed = |url: &str| Part::Image(Media::url(url).with_media_type("image/png"));
    let known: [(Part, &[Provider]); 10] = [
        (typed(gemini), &[Gemini]),
        (typed("gs://bucket/a.png"), &[Gemini, Vertex]),
        (typed("s3://bucket/a.png"), &[]),
        (typed("blob:https://chat.example/a"), &[]),
        (typed("file:///home/ada/a.png"), &[Vllm]),
        (typed("DATA:image/png;base64,AAAA"), &[]),
        (typed("HTTP://e.x/a.png"), &[OpenAi, OpenAiResponses, Vllm]),
        (Part::File(Media::file_id("file-abc")), &[OpenAi, OpenAiResponses]),
        (Part::File(Media::file_id("file_01abc")), &[Anthropic]),
        (Part::File(Media::file_id("files/abc")), &[Gemini]),
    ];
    let hosts = [Anthropic, ClaudeOnBedrock, ClaudeOnVertex, Gemini, Vertex];
    for (part, who) in known {
        let history = [Message::user([Part::text("see"), part.clone()])];
        for provider in [OpenAi, OpenAiResponses, Vllm].into_iter().chain(hosts) {
            let prompt = prompt_for(provider, &history);
            let losses = wire::Request::new(&prompt).losses();
            let is_lost = request(provider, &prompt).to_string().contains("not supported");
            assert_eq!(is_lost, !who.contains(&provider), "{provider}: {part:?}");
            assert_eq!(losses.len(), usize::from(is_lost), "{provider}: {losses:?}");
        }
    }
}
