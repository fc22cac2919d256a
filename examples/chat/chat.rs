//! A chat in the terminal that remembers. `cargo run -p chat -- chat.db` needs no network and no
//! key: a toy in the place of a model answers from what it is sent, and calls a calculator and a
//! clock. Ctrl-C stops an answer; what was said is kept, or with `-- chat.db forget` nothing of it.
//! Ctrl-D ends the chat. With a key in the environment (`OPENAI_API_KEY` and its like) it talks to
//! that server; `MODEL` names another model.

mod server;
mod toy;

use std::error::Error;
use std::io::{self, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use memory_prompt::conversation::Conversation;
use memory_prompt::turn::{Ended, OnInterrupt, ToolError};
use memory_prompt::wire::Event;
use memory_prompt::{ChatMemoryExt, MemoryPrompt, SqliteStore, Tool};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::json;

const HELP: &str = "/prompt /report /memory /window N /switch FILE /forget";

#[derive(serde::Deserialize)]
struct Sum {
    expression: String,
}

fn calculate(Sum { expression }: Sum) -> Result<String, ToolError> {
    let value = toy::value(&expression).filter(|it| it.is_finite());
    Ok(value.ok_or("that can't be calculated")?.to_string())
}

fn clock(_: serde_json::Value) -> Result<String, ToolError> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    Ok(format!("{:02}:{:02} UTC", seconds / 3600 % 24, seconds / 60 % 60))
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
        ("", _) => {}
        _ => match chat.stream(line, show)? {
            done if done.ended != Ended::Interrupted => {}
            done if done.messages.is_empty() => print!(" (stopped, and forgotten)"),
            _ => print!(" (stopped)"),
        },
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "chat.db".to_owned());
    let keep =
        if arguments.any(|it| it == "forget") { OnInterrupt::Forget } else { OnInterrupt::Keep };
    let memory = SqliteStore::open(&file)?.memory("chat")?;
    let prompt = MemoryPrompt::new(memory).system("You are a terse assistant.");
    let sum = json!({"type": "object", "required": ["expression"],
        "properties": {"expression": {"type": "string", "description": "as 3*4+1"}}});
    let mut chat = server::conversation(prompt, toy::model)
        .on_interrupt(keep)
        .tool(Tool::new("calculator", "Calculates.").parameters(sum).repeatable(), calculate)
        .tool(Tool::new("clock", "Tells the time.").repeatable(), clock);
    let (mut lines, history) = (DefaultEditor::new()?, format!("{file}.history"));
    let stopper = chat.stopper();
    ctrlc::set_handler(move || stopper.stop())?; // behind the editor, which takes Ctrl-C while it edits
    let _ = lines.load_history(&history); // there is none yet the first time
    println!("{HELP}, kept in {}", std::fs::canonicalize(&file)?.display());
    loop {
        let line = match lines.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                println!("{error}"); // that line is no text, the next one may be
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(lines.save_history(&history)?),
            Err(error) => return Err(error.into()),
        };
        lines.add_history_entry(&line)?;
        if let Err(error) = answer(&mut chat, line.trim()) {
            print!("{error}"); // nothing of it is stored: ask again
        }
        println!();
    }
}
