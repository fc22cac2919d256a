//! A tool loop through ollama-rs, with a prompt as the history that it keeps. Written for
//! ollama-rs 0.3.6.

use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
use memory_prompt_clients::Stub;
use memory_prompt_clients::ollama_rs::History;
use ollama_rs::Ollama;
use ollama_rs::generation::chat::ChatMessage;
use ollama_rs::generation::chat::request::ChatMessageRequest;
use serde_json::json;

const CALLS: &str = r#"{"model": "m", "created_at": "2026-01-01T00:00:00Z", "done": true, "message": {
    "role": "assistant", "content": "",
    "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Oslo"}}}]}}"#;
const SAYS: &str = r#"{"model": "m", "created_at": "2026-01-01T00:00:01Z", "done": true,
    "message": {"role": "assistant", "content": "Sunny, 21 °C."}}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stub = Stub::start([CALLS, SAYS])?;
    let ollama = Ollama::try_new(&stub.url)?;
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    let mut history = History::new(prompt);

    let mut said = ChatMessage::user("What is the weather in Oslo?".to_owned());
    loop {
        history.prompt().add_temporary(Message::user("Today is Friday."));
        let request = ChatMessageRequest::new("m".to_owned(), vec![said]);
        let answer = ollama.send_chat_messages_with_history(&mut history, request).await?;
        history.check()?;
        history.prompt().clear_temporaries();
        println!("came back: {}", serde_json::to_string(&answer.message)?);
        if answer.message.tool_calls.is_empty() {
            break;
        }
        said = ChatMessage::tool("sunny, 21 °C".to_owned());
    }

    let asked = stub.asked();
    assert_eq!(asked.path, "/api/chat");
    assert_eq!(asked.body["messages"][1]["content"], "What is the weather in Oslo?");
    let asked = stub.asked();
    println!("sent: {}", asked.body);
    let sent = asked.body["messages"].as_array().ok_or("no messages")?;
    let said: Vec<_> = sent.iter().map(|m| (m["role"].as_str(), m["content"].as_str())).collect();
    let expected = [
        ("system", "Be brief."),
        ("user", "What is the weather in Oslo?"),
        ("assistant", ""),
        ("tool", "sunny, 21 °C"),
        ("user", "Today is Friday."),
    ];
    assert_eq!(said, expected.map(|(role, content)| (Some(role), Some(content))));
    let call = json!({"function": {"name": "weather", "arguments": {"city": "Oslo"}}});
    assert_eq!(sent[2]["tool_calls"], json!([call]));
    println!("remembered:");
    let built = history.prompt().build()?;
    for message in &built {
        println!("  {}", serde_json::to_string(message)?);
    }
    assert_eq!(built.to_messages()[4], Message::ai("Sunny, 21 °C."));
    Ok(())
}
