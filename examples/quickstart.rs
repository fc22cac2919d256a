//! What does this crate do? Composes a prompt from a conversation with a tool call, a long message
//! and a temporary one, and prints the messages as JSON beside the report.
//!
//! Run it with `cargo run --example quickstart`.

use memory_prompt::{DefaultChatMemory, Keep, MemoryPrompt, Message, ToolCall, Truncate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let truncate = Truncate::chars(60)?.keep(Keep::Ends).marker(" … [{left_out} left out] …");
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::with_id("weather:u1001:c2002"))
        .system("You are a terse assistant.")
        .max_messages(5)
        .truncate(truncate);

    prompt.add(Message::user("Hello!"))?;
    prompt.add(Message::ai("Hello. What would you like to know?"))?;
    prompt.add(Message::user("What is the weather in Oslo?"))?;
    prompt.add(Message::ai_calls([ToolCall::new("call_1", "weather", r#"{"city":"Oslo"}"#)]))?;
    let forecast =
        format!("Sunny, 21 °C. {}Wind from the west.", "Hour by hour: 21 °C. ".repeat(24));
    prompt.add(Message::tool("call_1", "weather", forecast))?;
    prompt.add(Message::ai("Sunny, 21 °C."))?;
    prompt.add(Message::user("And tomorrow?"))?;
    prompt.add_temporary(Message::user("(Today is Friday.)"));

    let built = prompt.build()?;
    for message in &built {
        println!("{}", serde_json::to_string(message)?);
    }
    println!("\n{}", built.report());
    Ok(())
}
