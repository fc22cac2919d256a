//! A tool loop through genai, whose second request goes to another provider. Written for
//! genai 0.7.2.

use genai::adapter::AdapterKind;
use genai::chat::ChatOptions;
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ModelIden, ServiceTarget};
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
use memory_prompt_clients::Stub;
use memory_prompt_clients::genai::request;
use serde_json::json;

const CALLS: &str = r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
    "role": "assistant", "content": null, "tool_calls": [{"id": "call_1", "type": "function",
    "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}]}}]}"#;
const SAYS: &str = r#"{"id": "msg_1", "type": "message", "role": "assistant", "model": "n",
    "stop_reason": "end_turn", "content": [{"type": "text", "text": "Sunny, 21 °C."}]}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stub = Stub::start([CALLS, SAYS])?;
    let client = Client::new()?;
    // The body as the provider wrote it holds more than genai's answer: signatures, for one.
    let options = ChatOptions::default().with_capture_raw_body(true).with_max_tokens(500);
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    prompt.add(Message::user("What is the weather in Oslo?"))?;

    let request = request(&prompt.build()?);
    let target = target(AdapterKind::OpenAI, &stub.url);
    let answer = client.exec_chat(target, request, Some(&options)).await?;
    let body = answer.captured_raw_body.ok_or("an answer without its body")?;
    prompt.add(wire::openai::answer(body.to_string())?)?;
    println!("came back: {body}");

    prompt.add(Message::tool("call_1", "weather", "sunny, 21 °C"))?;
    prompt.add_temporary(Message::user("Today is Friday."));
    let request = memory_prompt_clients::genai::request(&prompt.build()?);
    let target = self::target(AdapterKind::Anthropic, &stub.url);
    let answer = client.exec_chat(target, request, Some(&options)).await?;
    let body = answer.captured_raw_body.ok_or("an answer without its body")?;
    prompt.add(wire::anthropic::answer(body.to_string())?)?;
    println!("came back: {body}");

    let asked = stub.asked();
    assert_eq!(asked.path, "/v1/chat/completions");
    let expected = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the weather in Oslo?"},
    ]);
    assert_eq!(asked.body["messages"], expected);
    let asked = stub.asked();
    println!("sent: {}", asked.body);
    assert_eq!(asked.path, "/v1/messages");
    assert_eq!(asked.body["system"], "Be brief.");
    let expected = json!([
        {"role": "user", "content": "What is the weather in Oslo?"},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": {"city": "Oslo"}}]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": "sunny, 21 °C"}]},
        {"role": "user", "content": "Today is Friday."},
    ]);
    assert_eq!(asked.body["messages"], expected);
    println!("remembered:");
    let built = prompt.build()?;
    for message in &built {
        println!("  {}", serde_json::to_string(message)?);
    }
    assert_eq!(built.to_messages()[4], Message::ai("Sunny, 21 °C."));
    Ok(())
}

/// A model at the stub.
pub fn target(adapter: AdapterKind, url: &str) -> ServiceTarget {
    ServiceTarget {
        endpoint: Endpoint::from_owned(format!("{url}/v1/")),
        auth: AuthData::from_single("none"),
        model: ModelIden::new(adapter, "m"),
    }
}
