//! Takes over a conversation that another program has stored, and goes on with it at another
//! provider.
//!
//! Run it with `cargo run --example import`.
//!
//! `wire` reads the formats of OpenAI (both), Anthropic, Gemini, Ollama and LangChain4j.

use memory_prompt::{
    ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message, Provider, Result, wire,
};

/// The `messages` of a program that spoke Chat Completions.
const LOG: &str = r#"[
    {"role": "developer", "content": "You book rooms."},
    {"role": "user", "content": "A room in Oslo, please."},
    {"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "book", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Booked, reference 7XK."},
    {"role": "system", "content": "It is Friday."},
    {"role": "assistant", "content": "It is booked."}
]"#;

fn main() -> Result<()> {
    let memory = DefaultChatMemory::new();
    // A memory has one system message: `import` joins those of the log, in their order.
    memory.import(wire::openai::history(LOG)?)?;
    println!("{} messages were imported\n", memory.len()?);

    let mut prompt = MemoryPrompt::new(memory).for_provider(Provider::Anthropic);
    prompt.add(Message::user("What is my reference?"))?;
    let built = prompt.build()?;
    for message in &built {
        let calls: Vec<&str> = message.tool_calls().map(|call| &*call.name).collect();
        println!("{:<10} {:?} {}", message.role(), message.text(), calls.join(", "));
    }
    println!("\n{}", built.report());
    Ok(())
}
