//! The faults that a gateway ran into: loops of its own, with tools under names that a provider
//! refuses, over every provider.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use memory_prompt::conversation::{Conversation, Scripted};
use memory_prompt::provider::Format;
use memory_prompt::token::Estimate;
use memory_prompt::window::Window;
use memory_prompt::wire::{self, Request};
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Prompt, Provider, Tool, ToolCall};
use serde_json::{Value, json};

use crate::setups::{all, prompt_for};

fn for_provider(provider: Provider) -> MemoryPrompt {
    MemoryPrompt::new(DefaultChatMemory::new()).for_provider(provider)
}

/// The name under which a provider is sent a tool was stored in the call, and the tool's own name
/// in the result: "no call was found that it answers", and the model read "No result was recorded"
/// of a mail that was sent.
#[test]
fn a_result_in_the_name_of_the_tool_answers_the_call_of_the_name_that_was_sent() {
    for asked in all() {
        let rule = asked.row().tool_names;
        for own in ["mail.send", "mail/send", "1st:mail", "überweisen", &"x".repeat(99)] {
            let sent = rule.sent(own).into_owned();
            let call = ToolCall::new("call_1", sent.as_str(), "{}");
            let run = [Message::user("Send it."), Message::ai_calls([call])];
            let result = Message::tool("call_1", own, "sent, id 7");
            for late in [false, true] {
                let between = late.then(|| Message::user("And?"));
                let all = run.iter().cloned().chain(between).chain([result.clone()]);
                for window in [Window::last(9), Window::turns(3)] {
                    let mut prompt = for_provider(asked).window(window);
                    prompt.add_all(all.clone()).unwrap();
                    let built = prompt.build().unwrap();
                    let results = built.iter().filter(|it| it.is_tool()).map(Message::text);
                    let told: Vec<_> = results.collect();
                    assert_eq!(told, ["sent, id 7"], "{asked}, {own}: {}", built.report());
                }
            }
        }
    }
    // Another tool's result answers no call of this one, as ever.
    let mut prompt = for_provider(Provider::OpenAi);
    let call = ToolCall::new("call_1", Provider::OpenAi.row().tool_names.sent("mail.send"), "{}");
    prompt.add_all([Message::user("Send it."), Message::ai_calls([call])]).unwrap();
    prompt.add(Message::tool("call_1", "mail.read", "nothing")).unwrap();
    assert_ne!(prompt.build().unwrap()[2].text(), "nothing");
}

/// A prompt of a question and of the answer in this body, and of what comes behind it.
fn answered(by: Provider, to: Provider, body: Value, behind: Message) -> Prompt {
    let answer = wire::answer(by, body).unwrap();
    prompt_for(to, &[Message::user("hi"), answer.into(), behind])
}

fn greeting(provider: Provider) -> Prompt {
    prompt_for(provider, &[Message::user("hi")])
}

/// Reasoning of OpenAI that came without its encrypted content went back by its id, of which the
/// provider knows nothing if nothing is stored: "Item with id .. not found", in the second
/// round of every tool loop. Nor was the content ever asked for.
#[test]
fn reasoning_that_is_not_stored_goes_back_encrypted_or_not_at_all() {
    let said = |reasoning: Value, id: &str| {
        let body = json!({"status": "completed", "output": [
            reasoning,
            {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
             "content": [{"type": "output_text", "text": "Let me see.", "annotations": []}]},
            {"type": "function_call", "id": "fc_1", "call_id": id, "name": "look",
             "arguments": "{}", "status": "completed"},
        ]});
        let (by, result) = (Provider::OpenAiResponses, Message::tool(id, "look", "T-1"));
        answered(by, by, body, result)
    };
    let kinds = |body: &Value| {
        let items = body["input"].as_array().unwrap().iter();
        items.map(|it| it["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for content in [None, Some(Value::Null), Some(json!(""))] {
        let mut reasoning = json!({"type": "reasoning", "id": "rs_1", "summary": []});
        if let Some(content) = content {
            reasoning["encrypted_content"] = content;
        }
        let built = said(reasoning, "call_1");
        let request = Request::new(&built).model("gpt-5-mini");
        let body = json!(&request);
        assert_eq!(kinds(&body), ["message", "message", "function_call", "function_call_output"]);
        // Their ids would be looked up, and the reasoning before them be missed.
        assert!(!body["input"].to_string().contains(r#""id""#), "{body}");
        assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
        let told: Vec<_> = request.losses().iter().map(ToString::to_string).collect();
        assert_eq!(told, ["message 1, part 0: reasoning"]);
        // What is stored is found by its id.
        let body = json!(request.extra("store", true));
        assert_eq!(kinds(&body)[1..4], ["reasoning", "message", "function_call"]);
        assert_eq!(body["input"][3]["id"], "fc_1");
        assert_eq!(body.get("include"), None);
    }
    let whole = json!({"type": "reasoning", "id": "rs_1", "summary": [],
                       "encrypted_content": "gAAA"});
    let built = said(whole, "call_1");
    let body = json!(Request::new(&built).model("gpt-5-mini"));
    assert_eq!(kinds(&body)[1..4], ["reasoning", "message", "function_call"]);
    assert_eq!(body["input"][1]["encrypted_content"], "gAAA");
    assert_eq!([2, 3].map(|i| &body["input"][i]["id"]), ["msg_1", "fc_1"]);
}

/// Models that do not reason answer 400: "Encrypted content is not supported with this model."
#[test]
fn encrypted_reasoning_is_asked_of_models_that_reason() {
    let built = greeting(Provider::OpenAiResponses);
    let asked = json!(["reasoning.encrypted_content"]);
    let of =
        |model: &str| json!(Request::new(&built).model(model.to_owned())).get("include").cloned();
    for model in ["gpt-5", "gpt-5.4-mini", "openai/gpt-5-codex", "o1", "o3-mini", "gpt-6"] {
        assert_eq!(of(model), Some(asked.clone()), "{model}");
    }
    for model in "gpt-4o gpt-4.1-mini gpt-35-turbo gpt-5-chat-latest ours omni ".split(' ') {
        assert_eq!(of(model), None, "{model}");
    }
    let reasons = Request::new(&built).model("our-deployment").extra("reasoning", json!({}));
    assert_eq!(json!(reasons)["include"], asked);
    let request = Request::new(&built).model("o3");
    let more = json!(request.clone().extra("include", json!(["file_search_call.results"])));
    let both = json!(["reasoning.encrypted_content", "file_search_call.results"]);
    assert_eq!(more["include"], both);
    assert_eq!(json!(request.extra("include", asked.clone()))["include"], asked);
}

/// The other provider's cache is cold, and the report said that all of the prompt is shared.
#[test]
fn the_cache_is_cold_where_another_provider_is_asked() {
    use memory_prompt::report::Break;
    let mut prompt = for_provider(Provider::OpenAi).system("Be brief.");
    prompt.add(Message::user("hi")).unwrap();
    let first = prompt.build().unwrap();
    let same = prompt.build().unwrap().shared_prefix(&first);
    assert_eq!((same.messages, same.broken_by), (2, None));
    prompt.configure(|composer| composer.for_provider(Provider::OpenAi.model("gpt-5")));
    assert_eq!(prompt.build().unwrap().shared_prefix(&first).broken_by, None);
    for provider in all().into_iter().filter(|it| *it != Provider::OpenAi) {
        prompt.configure(|composer| composer.for_provider(provider));
        let built = prompt.build().unwrap().compared_to(&first);
        let shared = built.report().shared_prefix.unwrap();
        assert_eq!((shared.messages, shared.broken_by), (0, Some(Break::Provider)), "{provider}");
        assert!(built.report().to_string().contains("; another provider is asked"));
    }
}

/// Another provider's reasoning was an error of a strict request to Anthropic and Gemini, and of
/// none to others.
#[test]
fn reasoning_of_another_provider_is_no_error_of_a_strict_request() {
    let thought = json!({"choices": [{"finish_reason": "stop", "message": {"role": "assistant",
        "content": "Hello.", "reasoning_content": "A greeting."}}]});
    for provider in all() {
        let built = answered(Provider::DeepSeek, provider, thought.clone(), Message::user("So?"));
        let request = Request::new(&built).model("m").max_tokens(9);
        let is_lost = request.losses().iter().any(|it| it.what.contains("reasoning"));
        let is_sent = json!(&request).to_string().contains("A greeting.");
        assert_ne!(is_lost, is_sent, "{provider}");
        assert!(request.strict().is_ok(), "{provider}");
    }
}

/// A strict schema makes optional properties nullable and required, so the model has to say `null`;
/// and `Vec<String>` with `#[serde(default)]` can't be read from that.
#[test]
fn a_null_that_only_the_strict_mode_asked_for_is_not_there() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Ticket {
        title: String,
        #[serde(default)]
        labels: Vec<String>,
        #[serde(default = "ten")]
        days: u8,
        note: Option<String>,
    }
    fn ten() -> u8 {
        10
    }
    let schema = json!({
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "days": {"type": "integer"},
            "note": {"type": ["string", "null"]},
        },
        "required": ["title"],
    });
    let tool = || Tool::new("ticket", "Opens one.").parameters(schema.clone()).strict();
    let said = json!({"title": "t", "labels": null, "days": null, "note": null});
    let model = Scripted::new().calls("ticket", said.clone()).says("Done.");
    let prompt = for_provider(Provider::OpenAi);
    let conversation = Conversation::new(prompt, model.clone())
        .tool(tool(), |ticket: Ticket| Ok(format!("{ticket:?}")));
    conversation.say("Open one.").unwrap();
    let told = model.asked()[1][2].text().into_owned();
    assert_eq!(told, r#"Ticket { title: "t", labels: [], days: 10, note: None }"#);
    // What the model said is stored as it said it.
    let stored = model.asked()[1][1].tool_calls().next().unwrap().arguments.clone();
    assert_eq!(serde_json::from_str::<Value>(&stored).unwrap(), said);

    // A loop of one's own; in lists, in objects, by reference, in a choice.
    let read = |tool: &Tool, said: Value| -> Value {
        serde_json::from_str(&tool.arguments(&said.to_string())).unwrap()
    };
    assert_eq!(read(&tool(), said.clone()), json!({"title": "t", "note": null}));
    assert_eq!(read(&tool(), json!({"title": null})), json!({"title": null}));
    let lax = Tool::new("ticket", "Opens one.").parameters(schema.clone());
    assert_eq!(read(&lax, said), json!({"title": "t", "labels": null, "days": null, "note": null}));
    let nested = Tool::new("many", "Opens many.").strict().parameters(json!({
        "type": "object",
        "properties": {"all": {"type": "array", "items": {"$ref": "#/$defs/one"}},
                       "next": {"anyOf": [{"$ref": "#/$defs/one"}, {"type": "null"}]}},
        "$defs": {"one": {"type": "object", "properties": {"a": {"type": "string"},
                          "of": {"$ref": "#/$defs/one"}}}},
    }));
    let said = json!({"all": [{"a": null, "of": {"a": null, "of": null}}, {"a": "x", "of": null}],
                      "next": {"a": null, "of": null}});
    let expected = json!({"all": [{"of": {}}, {"a": "x"}], "next": {}});
    assert_eq!(read(&nested, said), expected);
    assert_eq!(read(&nested, json!({"all": null, "next": null})), json!({"next": null}));

    // A list that may be null, as pydantic writes it, was not looked into; and a value of any kind
    // may be null by its schema, which was taken away.
    let of_any = Tool::new("set", "Sets them.").strict().parameters(json!({
        "type": "object",
        "properties": {"value": {"description": "any"},
                       "list": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/one"}}, {"type": "null"}]}},
        "$defs": {"one": {"type": "object", "properties": {"a": {"type": "string"}}}},
    }));
    let said = json!({"value": null, "list": [{"a": null}, {"a": "x"}]});
    assert_eq!(read(&of_any, said), json!({"value": null, "list": [{}, {"a": "x"}]}));
}

/// `temperature` of a request went to the root of Gemini's and Ollama's, where it is unknown: a 400
/// of one, and passed over by the other.
#[test]
fn options_of_sampling_stand_where_the_format_has_them() {
    for provider in all() {
        let built = greeting(provider);
        let request = Request::new(&built).model("m").max_tokens(9);
        let body = json!(request.clone().extra("temperature", 0.5).extra("top_p", 0.9));
        let (home, top_p) = match provider.format() {
            Format::Gemini => (&body["generationConfig"], "topP"),
            Format::Ollama => (&body["options"], "top_p"),
            _ => (&body, "top_p"),
        };
        assert_eq!((&home["temperature"], &home[top_p]), (&json!(0.5), &json!(0.9)), "{provider}");
        assert_eq!(body.to_string().matches("temperature").count(), 1, "{provider}");
        let cold = request.clone().extra("temperature", 0.0).fingerprint();
        assert_eq!(cold, request.fingerprint(), "{provider}");
        // What stands beside it stays.
        if provider.format() == Format::Gemini {
            let inner = json!({"temperature": 0.1, "stopSequences": ["x"]});
            let request = request.extra("generationConfig", inner).extra("seed", 7);
            let body = json!(request);
            let config = json!({"maxOutputTokens": 9, "temperature": 0.1, "stopSequences": ["x"],
                                "seed": 7});
            assert_eq!(body["generationConfig"], config);
        }
    }
}

/// An error of a budget said how many tokens must be sent, and not that most of them are tools.
#[test]
fn a_budget_that_tools_exceed_says_so() {
    let tool = Tool::new("look", "Looks. ".repeat(200));
    let mut prompt = for_provider(Provider::OpenAi).max_tokens(60, Estimate).tools([tool]);
    prompt.add(Message::user("hi")).unwrap();
    let error = prompt.build().unwrap_err().to_string();
    let tools = error.split_once(" of tools)").unwrap().0.rsplit_once('(').unwrap().1;
    assert!(tools.parse::<usize>().unwrap() > 100, "{error}");
}

/// A page in HTML with status 200 was stored as an empty answer, unnoticed; and refusals were told
/// in as many ways as there are providers.
#[test]
fn nothing_and_refusals_are_told() {
    for provider in all() {
        let mut frames = wire::Frames::of(provider);
        let mut stream = wire::Stream::of(provider);
        for frame in frames.push(b"<html>502</html>").flatten() {
            stream.push(&frame).unwrap();
        }
        assert!(!stream.has_ended() && stream.broken().is_empty(), "{provider}");
    }
    let bodies = r#"
        openai => {"choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": null, "refusal": "No."}}]}
        openai_responses => {"status": "completed", "output": [{"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}]}
        anthropic => {"role": "assistant", "stop_reason": "refusal", "content": [{"type": "text", "text": "No."}]}
    "#;
    for (name, body) in bodies.lines().filter_map(|row| row.split_once(" => ")) {
        let provider: Provider = serde_json::from_value(name.trim().into()).unwrap();
        let answer = wire::answer(provider, body).unwrap();
        assert_eq!(answer.refusal().as_deref(), Some("No."), "{provider}");
        assert!(!answer.is_empty());
    }
}
