//! Writes a page that shows the prompts of a conversation as the model sees them, and says where
//! the page is.
//!
//! Run it with `cargo run --example inspect --features inspect [page.html]`.

use memory_prompt::inspect::Inspector;
use memory_prompt::text::Keep;
use memory_prompt::token::Estimate;
use memory_prompt::{Budget, DefaultChatMemory, MemoryPrompt, Message, ToolCall, Truncate};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .system("You book rooms. Be brief.")
        .max_messages(6)
        .max_tokens(Budget::new(600), Estimate)
        .truncate(Truncate::chars(240)?.keep(Keep::Ends).marker(" … [{left_out} left out] … "));
    let mut inspector = Inspector::new();
    let mut ask = |prompt: &mut MemoryPrompt, answer: Message| -> memory_prompt::Result<u64> {
        inspector.push(&prompt.build()?, None);
        prompt.add(answer)
    };

    prompt.add(Message::user("Find me a room in Oslo, please."))?;
    let search = ToolCall::new("c1", "search", r#"{"city":"Oslo"}"#);
    ask(&mut prompt, Message::ai_calls([search]))?;
    let rooms = "Harbour, four beds, breakfast, 140 EUR. ".repeat(30);
    prompt.add(Message::tool("c1", "search", format!("Thirty rooms: {rooms}")))?;
    ask(&mut prompt, Message::ai("There are thirty. The Harbour has four beds."))?;

    prompt.add(Message::user("Then book the Harbour for us four 👩‍👩‍👧‍👦."))?;
    ask(&mut prompt, Message::ai_calls([ToolCall::new("c2", "book", r#"{"room":"Harbour"}"#)]))?;
    prompt.add(Message::user("Are you still there?"))?;
    ask(&mut prompt, Message::ai("Yes, the booking takes a moment."))?;

    prompt.add(Message::tool("c2", "book", "Booked, reference 7XK."))?;
    prompt.add(Message::user("What is my reference?"))?;
    prompt.add_temporary(Message::user("(Today is Friday.)"));
    ask(&mut prompt, Message::ai("7XK."))?;

    let path = std::env::args().nth(1).unwrap_or_else(|| "target/prompts.html".to_owned());
    if let Some(folder) = std::path::Path::new(&path).parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(&path, inspector.html())?;
    println!(
        "The last prompt, as the terminal shows it:\n\n{}",
        prompt.build()?.outline().for_stdout()
    );
    println!("All of them are on the page {path}.");
    Ok(())
}
