//! Tells the model something once. A temporary message goes with the next request and is stored
//! nowhere: the date, a passage that was found for this question, a reminder.
//!
//! Run it with `cargo run --example temporary`.

use memory_prompt::compose::Placement;
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};

fn main() -> Result<(), memory_prompt::Error> {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Answer from the notes.");
    prompt.add(Message::user("When does the museum open?"))?;
    prompt.add_temporary(Message::user("Note 17: the museum opens at ten."));

    show("at the end, which is the default", &prompt.preview()?);
    prompt.configure(|composer| composer.temporaries_at(Placement::BeforeLastUser));
    show("before the last user message", &prompt.preview()?);
    prompt.configure(|composer| composer.temporaries_at(Placement::AfterSystem));
    show("after the system message", &prompt.preview()?);

    // Three previews have spent nothing. A build spends it.
    prompt.build()?;
    show("after a build", &prompt.preview()?);
    Ok(())
}

fn show(title: &str, prompt: &memory_prompt::Prompt) {
    println!("{title}:");
    for (i, message) in prompt.iter().enumerate() {
        let cache = if i < prompt.cacheable() { "cacheable" } else { "" };
        println!("  {:<7} {:<10} {}", cache, message.role(), message.text());
    }
}
