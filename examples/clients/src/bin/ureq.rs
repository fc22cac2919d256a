//! A tool loop by plain HTTP, with a server that speaks OpenAI's Chat Completions. Written for
//! ureq 3.5.

use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
use memory_prompt_clients::Stub;
use serde_json::json;

const CALLS: &str = r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": null, "tool_calls": [
    {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}]}}]}"#;
const SAYS: &str =
    r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Sunny, 21 °C."}}]}"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stub = Stub::start([CALLS, SAYS])?;
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    prompt.add(Message::user("What is the weather in Oslo?"))?;
    loop {
        prompt.add_temporary(Message::user("Today is Friday."));
        let built = prompt.build()?;
        let body = json!({"model": "m", "messages": wire::openai::messages(&built)}).to_string();
        let answer = ureq::post(format!("{}/v1/chat/completions", stub.url))
            .header("content-type", "application/json")
            .send(&body)?
            .body_mut()
            .read_to_string()?;
        println!("sent: {body}\ncame back: {answer}");
        let asked = stub.asked();
        assert_eq!(asked.path, "/v1/chat/completions");
        assert_eq!(asked.body.to_string(), body);

        let answer = wire::openai::answer(&answer)?.message;
        prompt.add(answer.clone())?;
        if !answer.has_tool_calls() {
            break;
        }
        for call in answer.tool_calls() {
            prompt.add(Message::tool(&*call.id, &*call.name, "sunny, 21 °C"))?;
        }
    }
    println!("remembered:");
    let built = prompt.build()?;
    for message in &built {
        println!("  {}", serde_json::to_string(message)?);
    }
    assert_eq!(built.to_messages()[4], Message::ai("Sunny, 21 °C."));
    Ok(())
}
