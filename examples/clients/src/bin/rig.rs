//! A tool loop through rig, whose messages are read from JSON. Written for rig-core 0.44.

use memory_prompt::message::{AiPart, Content, Part, Source};
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Prompt, wire};
use memory_prompt_clients::Stub;
use rig_core::completion::{CompletionRequest, ToolDefinition};
use rig_core::message;
use rig_core::providers::openai::OpenAIConfig;
use serde_json::{Value, json};

const CALLS: &str = r#"{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
    "tool_calls": [{"id": "call_1", "type": "function",
        "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}]}}]}"#;
const SAYS: &str = r#"{"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [
    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Sunny, 21 °C."}}]}"#;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stub = Stub::start([CALLS, SAYS])?;
    let openai = OpenAIConfig::new("none").with_base_url(format!("{}/v1", stub.url)).client();
    let model = openai.chat("m");
    let tool = json!({"name": "weather", "description": "The weather in a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}});
    let tool: ToolDefinition = serde_json::from_value(tool)?;
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    prompt.add(Message::user("What is the weather in Oslo?"))?;
    loop {
        prompt.add_temporary(Message::user("Today is Friday."));
        let messages: Vec<message::Message> = serde_json::from_value(messages(&prompt.build()?))?;
        let mut request = CompletionRequest::from(messages);
        // Without its tool rig tells a call in words.
        request.tools.push(tool.clone());
        let answer = model.call(request).await?;
        println!("came back: {}", answer.raw);

        let answer = wire::openai::answer(answer.raw.to_string())?.message;
        prompt.add(answer.clone())?;
        if !answer.has_tool_calls() {
            break;
        }
        for call in answer.tool_calls() {
            prompt.add(Message::tool(&*call.id, &*call.name, "sunny, 21 °C"))?;
        }
    }

    assert_eq!(stub.asked().path, "/v1/chat/completions");
    let asked = stub.asked();
    println!("sent: {}", asked.body);
    let expected = json!([
        {"role": "system", "content": [{"type": "text", "text": "Be brief."}]},
        {"role": "user", "content": "What is the weather in Oslo?"},
        {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function",
            "function": {"name": "weather", "arguments": r#"{"city":"Oslo"}"#}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny, 21 °C"},
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

/// A prompt as the JSON of rig's messages.
fn messages(prompt: &Prompt) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    prompt
        .iter()
        .filter_map(|message| {
            Some(match message {
                Message::System(m) => json!({"role": "system", "content": m.text()}),
                Message::User(m) => match m.content() {
                    Content::Text(said) => json!({"role": "user", "content": [text(said)]}),
                    Content::Parts(parts) => {
                        let parts: Vec<_> = parts.iter().filter_map(part).collect();
                        json!({"role": "user", "content": parts})
                    }
                },
                Message::Ai(m) => {
                    let plain = m.parts().is_empty().then(|| text(&m.text()));
                    let parts: Vec<_> =
                        plain.into_iter().chain(m.parts().iter().filter_map(said)).collect();
                    json!({"role": "assistant", "content": parts})
                }
                // To rig the user says what a tool found.
                Message::Tool(m) => json!({"role": "user", "content": [{
                    "type": "toolresult", "call": {"provider": m.call_id()}, "name": m.tool_name(),
                    "content": [text(&m.content().text())], "is_error": m.is_error(),
                }]}),
                _ => return None,
            })
        })
        .collect()
}

fn part(part: &Part) -> Option<Value> {
    match part {
        Part::Text(part) => Some(json!({"type": "text", "text": part.text})),
        Part::Image(media) => {
            let data = match &media.source {
                Source::Url(url) => json!({"type": "url", "value": url}),
                Source::Base64(data) => json!({"type": "base64", "value": data}),
                _ => return None,
            };
            let kind = media.media_type.as_deref().and_then(|kind| kind.strip_prefix("image/"));
            Some(json!({"type": "image", "data": data, "media_type": kind}))
        }
        _ => None,
    }
}

fn said(part: &AiPart) -> Option<Value> {
    match part {
        AiPart::Content(content) => self::part(content),
        AiPart::Reasoning(reasoning) => Some(json!({"type": "reasoning", "text": reasoning.text})),
        AiPart::ToolCall(call) => Some(json!({
            "type": "toolcall", "id": {"provider": call.id},
            "function": {"name": call.name, "arguments": call.arguments},
        })),
        _ => None,
    }
}
