//! A tool loop through async-openai: first with the view as it is (`byot`), then with its own
//! types. Written for async-openai 0.43.

use async_openai::Client;
use async_openai::config::OpenAIConfig;
use async_openai::types::chat::CreateChatCompletionRequest;
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
use memory_prompt_clients::{Stub, async_openai as types};
use serde::Serialize;
use serde_json::{Value, json};

const CALLS: &str = r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
    "role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
    "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}]}}]}"#;
const SAYS: &str = r#"{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Sunny, 21 °C."}}]}"#;

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: wire::openai::Messages<'a>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stub = Stub::start([CALLS, SAYS])?;
    let config = OpenAIConfig::new().with_api_base(format!("{}/v1", stub.url)).with_api_key("none");
    let openai = Client::with_config(config);
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    prompt.add(Message::user("What is the weather in Oslo?"))?;

    // The view: nothing is copied into types, and nothing is lost.
    let built = prompt.build()?;
    let request = Request { model: "m", messages: wire::openai::messages(&built) };
    let answer: Value = openai.chat().create_byot(request).await?;
    prompt.add(wire::openai::answer(answer.to_string())?)?;
    println!("came back: {answer}");

    // Its types: what they have no place for is an error.
    prompt.add(Message::tool("call_1", "weather", "sunny, 21 °C"))?;
    prompt.add_temporary(Message::user("Today is Friday."));
    let built = prompt.build()?;
    let request = CreateChatCompletionRequest {
        model: "m".to_owned(),
        messages: types::messages(&wire::openai::messages(&built))?,
        ..CreateChatCompletionRequest::default()
    };
    let answer = openai.chat().create(request).await?;
    let choice = answer.choices.first().ok_or("an answer without a choice")?;
    prompt.add(types::answer(&choice.message)?)?;
    println!("came back: {}", serde_json::to_string(&choice.message)?);

    let asked = stub.asked();
    assert_eq!(asked.path, "/v1/chat/completions");
    assert_eq!(asked.body["messages"][1]["content"], "What is the weather in Oslo?");
    let asked = stub.asked();
    println!("sent: {}", asked.body);
    let expected = json!({"model": "m", "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the weather in Oslo?"},
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "weather", "arguments": r#"{"city":"Oslo"}"#}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny, 21 °C"},
        {"role": "user", "content": "Today is Friday."},
    ]});
    assert_eq!(asked.body, expected);
    println!("remembered:");
    let built = prompt.build()?;
    for message in &built {
        println!("  {}", serde_json::to_string(message)?);
    }
    assert_eq!(built.to_messages()[4], Message::ai("Sunny, 21 °C."));
    Ok(())
}
