//! The clients as models of a `Conversation`: a tool is called, and the answer is stored.

use async_openai::config::OpenAIConfig;
use genai::adapter::AdapterKind;
use genai::resolver::{AuthData, Endpoint};
use genai::{ModelIden, ServiceTarget};
use memory_prompt::adapt::ToAsync;
use memory_prompt::conversation::AsyncModel;
use memory_prompt::{Conversation, DefaultChatMemory, MemoryPrompt, Provider, Tool};
use memory_prompt_clients::Stub;
use memory_prompt_clients::genai::Genai;
use serde_json::{Value, json};

#[path = "../src/closure.rs"]
mod closure;

const CALLS: &str = r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
    "role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
    "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}]}}]}"#;
const SAYS: &str = r#"{"choices": [{"index": 0, "finish_reason": "stop",
    "message": {"role": "assistant", "content": "Sunny, 21 °C."}}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}}"#;
const CLAUDE_CALLS: &str = r#"{"id": "msg_1", "type": "message", "role": "assistant", "model": "m",
    "stop_reason": "tool_use", "content": [{"type": "tool_use", "id": "call_1", "name": "weather",
    "input": {"city": "Oslo"}}], "usage": {"input_tokens": 9, "output_tokens": 3}}"#;
const CLAUDE_SAYS: &str = r#"{"id": "msg_2", "type": "message", "role": "assistant", "model": "m",
    "stop_reason": "end_turn", "content": [{"type": "text", "text": "Sunny, 21 °C."}],
    "usage": {"input_tokens": 9, "output_tokens": 3}}"#;

async fn talk(model: impl AsyncModel + 'static, provider: Provider, stub: &Stub) -> [Value; 2] {
    let prompt = MemoryPrompt::new_async(ToAsync::new(DefaultChatMemory::new()));
    let prompt = prompt.system("Be brief.").for_provider(provider);
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let weather = Tool::new("weather", "The weather of a city.").parameters(schema);
    let chat = Conversation::new_async(prompt, model)
        .tool(weather, |it: Value| Ok(format!("sunny in {}", it["city"])));
    let done = chat.say("What is the weather in Oslo?").await.unwrap();
    assert_eq!((done.text().as_str(), done.positions), ("Sunny, 21 °C.", 0..4));
    [stub.asked().body, stub.asked().body]
}

#[tokio::test]
async fn a_closure_over_async_openai_is_a_model() {
    let readme = include_str!("../../../README.md");
    assert!(readme.contains(include_str!("../src/closure.rs")), "the README shows another closure");
    let stub = Stub::start([CALLS, SAYS]).unwrap();
    let config = OpenAIConfig::new().with_api_base(format!("{}/v1", stub.url)).with_api_key("none");
    let model = closure::model(async_openai::Client::with_config(config));
    let [first, second] = talk(model, Provider::OpenAi, &stub).await;
    assert_eq!(first["tools"][0]["function"]["name"], "weather");
    assert_eq!(second["messages"][3]["content"], "sunny in \"Oslo\"");
}

#[tokio::test]
async fn genai_is_a_model_of_two_providers() {
    for (provider, adapter, answers) in [
        (Provider::OpenAi, AdapterKind::OpenAI, [CALLS, SAYS]),
        (Provider::Anthropic, AdapterKind::Anthropic, [CLAUDE_CALLS, CLAUDE_SAYS]),
    ] {
        let stub = Stub::start(answers).unwrap();
        let target = ServiceTarget {
            endpoint: Endpoint::from_owned(format!("{}/v1/", stub.url)),
            auth: AuthData::from_single("none"),
            model: ModelIden::new(adapter, "m"),
        };
        let model = Genai::new(genai::Client::new().unwrap(), target, provider);
        let [first, second] = talk(model, provider, &stub).await;
        assert!(first["tools"].to_string().contains("\"weather\""), "{first}");
        assert!(second["messages"].to_string().contains("sunny in"), "{second}");
    }
}
