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
        let Some(tool) = message.as_tool() else { return Ok(Verdict::Keep) };
        let text = tool.content().text();
        let total = text.lines().count();
        if total <= self.lines {
            return Ok(Verdict::Keep);
        }
        let mut kept: Vec<&str> = text.lines().take(self.lines).collect();
        let rest = format!("({} more lines)", total - self.lines);
        kept.push(&rest);
        Ok(Verdict::Replace(Message::tool(tool.call_id(), tool.tool_name(), kept.join("\n"))))
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
        message.is_user().then(|| Message::user(message.text().trim_end_matches('!')))
    };
    prompt.configure(|composer| composer.truncate(Truncate::default().processor(quiet)));
    prompt.add(Message::user("Thanks!!!"))?;
    println!("{:?}", prompt.build()?.iter().last().map(|m| m.text().into_owned()));
    Ok(())
}
