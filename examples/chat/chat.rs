//! How do I build a chat that remembers? `cargo run --example chat --features sqlite -- chat.db` needs no
//! network and no key: a small model answers from what it is sent, and calls a calculator and a clock.

use std::error::Error;
use std::io::{self, BufRead, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::turn::{Reply, Tool, ToolError};
use memory_prompt::wire::Event;
use memory_prompt::{ChatMemoryExt, MemoryPrompt, Message, Prompt, SqliteStore, ToolCall};
use serde_json::json;

const HELP: &str = "/prompt /report /memory /window N /switch FILE /forget";

#[derive(serde::Deserialize)]
struct Sum {
    a: f64,
    operator: String,
    b: f64,
}

fn calculate(Sum { a, operator, b }: Sum) -> Result<String, ToolError> {
    match operator.as_str() {
        "+" => Ok((a + b).to_string()),
        "-" => Ok((a - b).to_string()),
        "*" => Ok((a * b).to_string()),
        "/" if b != 0.0 => Ok((a / b).to_string()),
        _ => Err(ToolError::new("that can't be calculated")),
    }
}

fn clock(_: serde_json::Value) -> Result<String, ToolError> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(format!("{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60))
}

/// Stands for a model: it knows nothing but the messages of the prompt.
fn toy(prompt: &Prompt) -> Reply {
    let Some(last) = prompt.iter().last() else { return "Hello.".into() };
    if let Some(result) = last.as_tool() {
        return format!("The {} says {}.", result.tool_name(), result.content().text()).into();
    }
    let text = last.text();
    let words: Vec<&str> = text.split_whitespace().collect();
    let call = |tool: &str, arguments: serde_json::Value| {
        Message::ai_calls([ToolCall::new(
            format!("c{}", prompt.len()),
            tool,
            arguments.to_string(),
        )])
    };
    let number = |i: usize| words.get(i)?.trim_end_matches('?').parse::<f64>().ok();
    let operator = words.iter().position(|it| ["+", "-", "*", "/"].contains(it)).filter(|i| *i > 0);
    if let Some(i) = operator
        && let (Some(a), Some(b)) = (number(i - 1), number(i + 1))
    {
        return call("calculator", json!({"a": a, "operator": words[i], "b": b})).into();
    }
    if words.iter().any(|word| word.starts_with("time")) {
        return call("clock", json!({})).into();
    }
    if text.contains("my name?") {
        let name = |it: &Message| Some(format!("You are {}", it.text().split_once("I am ")?.1));
        let known = prompt.iter().filter(|it| it.is_user()).filter_map(name).last();
        return known.unwrap_or_else(|| "I was not told.".to_owned()).into();
    }
    format!("I was sent {} messages, the last one of {} words.", prompt.len(), words.len()).into()
}

fn model(ask: &Asking<'_>) -> Result<Reply, ModelError> {
    let reply = toy(ask.prompt());
    for piece in reply.message.text().split_inclusive(' ') {
        ask.tell(Event::Text(piece.to_owned()))?;
    }
    Ok(reply)
}

fn show(event: Event) {
    if let Event::Text(piece) = event {
        print!("{piece}");
        let _ = io::stdout().flush();
    }
}

fn answer(chat: &mut Conversation, line: &str) -> Result<(), Box<dyn Error>> {
    match line.split_once(' ').unwrap_or((line, "")) {
        ("/prompt", _) => {
            for message in &chat.prompt().preview()? {
                println!("{:?}: {}", message.role(), message.text());
            }
        }
        ("/report", _) => println!("{}", chat.prompt().preview()?.report()),
        ("/memory", _) => {
            for it in chat.prompt().memory().all()?.iter() {
                println!("{} {:?}: {}", it.seq(), it.message().role(), it.message().text());
            }
        }
        ("/window", n) => {
            let n = n.parse()?;
            chat.prompt_mut().configure(|it| it.max_messages(n));
        }
        ("/switch", file) => {
            drop(chat.prompt_mut().set_memory(SqliteStore::open(file)?.memory("chat")?));
        }
        ("/forget", _) => chat.prompt().memory().clear()?,
        (command, _) if command.starts_with('/') => println!("{HELP}"),
        _ => drop(chat.stream(line, show)?),
    }
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let file = std::env::args().nth(1).unwrap_or_else(|| "chat.db".to_owned());
    let memory = SqliteStore::open(file)?.memory("chat")?;
    let prompt = MemoryPrompt::new(memory).system("You are a terse assistant.");
    let sum = json!({"type": "object", "required": ["a", "operator", "b"],
        "properties": {"a": {"type": "number"}, "operator": {"enum": ["+", "-", "*", "/"]}, "b": {"type": "number"}}});
    let mut chat = Conversation::new(prompt, model)
        .tool(Tool::new("calculator", "Calculates.").parameters(sum).repeatable(), calculate)
        .tool(Tool::new("clock", "Tells the time.").repeatable(), clock);
    println!("{HELP}");
    for line in io::stdin().lock().lines() {
        let line = line?;
        if let Err(error) = answer(&mut chat, line.trim()) {
            println!("{error}"); // nothing of it is stored: ask again
        }
        println!();
    }
    Ok(())
}
