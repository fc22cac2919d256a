//! Plain HTTP to a server that speaks OpenAI's Chat Completions. Written for ureq 3.5.

use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, wire};
use serde_json::json;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (url, server) = memory_prompt_clients::stub(
        r#"{"choices": [{"index": 0, "message": {"role": "assistant", "content": "Hello."}}]}"#,
    )?;
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    prompt.add(Message::user("hi"))?;
    let built = prompt.build()?;

    let body = json!({"model": "m", "messages": wire::openai::messages(&built)}).to_string();
    let answer = ureq::post(format!("{url}/v1/chat/completions"))
        .header("content-type", "application/json")
        .send(&body)?
        .body_mut()
        .read_to_string()?;
    prompt.add(wire::openai::answer(&answer)?)?;

    let asked = server.join().map_err(|_| "the stub failed")??;
    assert_eq!(asked, body);
    println!("{}", serde_json::to_string(&prompt.preview()?)?);
    Ok(())
}
