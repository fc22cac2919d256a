//! Answers many users with one prompt. The memory is swapped at run time: configuration and
//! temporaries stay, the conversations stay apart, and the old memory is handed back.
//!
//! Run it with `cargo run --example swap_memory`.

use std::collections::HashMap;
use std::sync::Arc;

use memory_prompt::{ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message};

fn main() -> Result<(), memory_prompt::Error> {
    let mut conversations: HashMap<&str, Arc<dyn ChatMemory>> = HashMap::new();
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("You are a receptionist.");

    for (user, text) in [("ada", "A room, please."), ("alan", "Is there tea?"), ("ada", "For two.")]
    {
        let memory = conversations
            .entry(user)
            .or_insert_with(|| Arc::new(DefaultChatMemory::with_id(format!("hotel:{user}:1"))));
        prompt.set_memory(Arc::clone(memory));
        prompt.add(Message::user(text))?;
        let built = prompt.build()?;
        let texts: Vec<_> = built.iter().map(|m| m.text()).collect();
        println!("{:<14} {texts:?}", prompt.memory().id().to_string());
        prompt.add(Message::ai("Certainly."))?;
    }

    let old = prompt.set_memory(DefaultChatMemory::with_id("hotel:grace:1"));
    println!(
        "{:<14} holds {} messages and was handed back",
        old.id().to_string(),
        old.all()?.len()
    );
    Ok(())
}
