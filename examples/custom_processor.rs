//! Shortens messages by rules of your own. A processor sees each message of the history with its
//! context, and keeps, replaces or drops it. The messages in memory never change.
//!
//! Run it with `cargo run --example custom_processor`.

use std::error::Error;

use memory_prompt::message::Role;
use memory_prompt::truncate::{TruncateContext, TruncateProcessor, Verdict};
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, ToolCall, Truncate};

/// Keeps the first lines of what tools print, and leaves out jokes.
struct Secretary {
    lines: usize,
}

impl TruncateProcessor for Secretary {
    fn process(
        &self,
        message: &Message,
        context: &TruncateContext,
    ) -> Result<Verdict, Box<dyn Error + Send + Sync>> {
        if context.role == Role::Ai && message.text().starts_with("Joke:") {
            return Ok(Verdict::Drop);
        }
        if !message.is_tool() || message.texts().all(|text| text.lines().count() <= self.lines) {
            return Ok(Verdict::Keep);
        }
        // A copy of which only the texts differ: a failure stays one, and pictures stay.
        Ok(Verdict::Replace(message.map_texts(|text| self.first_lines(text))))
    }
}

impl Secretary {
    fn first_lines(&self, text: &str) -> String {
        let mut lines = text.lines();
        let mut kept: Vec<&str> = lines.by_ref().take(self.lines).collect();
        let more = lines.count();
        let rest = format!("({more} more lines)");
        kept.extend((more > 0).then_some(&*rest));
        kept.join("\n")
    }
}

fn main() -> Result<(), memory_prompt::Error> {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        // `bounded` holds whatever the processor returns to the limit, too.
        .truncate(Truncate::chars(500)?.processor(Secretary { lines: 2 }).bounded());
    let log = (1..=40).map(|i| format!("test {i} ok")).collect::<Vec<_>>().join("\n");
    prompt.add(Message::user("Run the tests."))?;
    prompt.add(Message::ai_calls([ToolCall::new("call_1", "run", "{}")]))?;
    prompt.add(Message::tool("call_1", "run", log))?;
    prompt.add(Message::ai("Joke: forty tests walk into a bar."))?;
    prompt.add(Message::ai("All forty pass."))?;

    let built = prompt.build()?;
    for message in &built {
        println!("{:<10} {:?}", message.role(), message.text());
    }
    println!("\n{}", built.report());

    // For small things a closure is enough: `None` keeps the message as it is.
    let quiet = |message: &Message| {
        let quiet = |text: &str| text.trim_end_matches('!').to_owned();
        message.is_user().then(|| message.map_texts(quiet))
    };
    prompt.configure(|composer| composer.truncate(Truncate::default().processor(quiet)));
    prompt.add(Message::user("Thanks!!!"))?;
    println!("{:?}", prompt.build()?.iter().last().map(|m| m.text().into_owned()));
    Ok(())
}
