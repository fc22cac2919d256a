//! A chat with two tools, one of which waits for a person; killed, it goes on where it was.
//! Run it with `cargo run --example approval --features sqlite`.

use std::{env::temp_dir, error::Error, io::stdin, time::Duration};

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::{MemoryPrompt, Message, SqliteStore, Tool, ToolCall};

/// Stands for a model; `Transport::from_env(Provider::Anthropic, "claude-sonnet-5")?` asks one.
fn model(ask: &Asking<'_>) -> Result<Message, ModelError> {
    Ok(match ask.prompt().iter().last().ok_or("nothing is said")?.as_tool() {
        Some(result) => Message::ai(format!("The bill: {}", result.content().text())),
        None => Message::ai_calls(["look", "pay"].map(|tool| ToolCall::new(tool, tool, "{}"))),
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let memory = SqliteStore::open(temp_dir().join("approval.db"))?.memory("ann")?;
    let chat = Conversation::new(MemoryPrompt::new(memory), model)
        .tool(Tool::new("look", "Shows the bill.").repeatable(), |()| Ok("30 EUR to Ann"))
        .tool(Tool::new("pay", "Pays the bill.").needing_approval(), |()| Ok("paid"));
    chat.recover(Duration::from_secs(600))?;
    for line in stdin().lines() {
        let done = match (line?.as_str(), chat.waiting()?.first()) {
            ("yes", Some(call)) => chat.approve(call)?,
            ("no", Some(call)) => chat.refuse(call, "The user said no.")?,
            (question, _) => chat.say(question)?,
        };
        println!("{}", done.text());
        for call in chat.waiting()? {
            println!("{} {}: yes or no?", call.tool, call.arguments);
        }
    }
    Ok(())
}
