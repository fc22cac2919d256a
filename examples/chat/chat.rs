//! A chat in the terminal that remembers. `cargo run -p chat -- chat.db` needs no network and no
//! key: a toy in the place of a model answers from what it is sent, and calls a calculator and a
//! clock. Ctrl-C stops an answer; what was said is kept, or with `-- chat.db forget` nothing of it.
//! Ctrl-D ends the chat; `chat.db.history` keeps the lines, unless it forgets. With a key
//! in the environment (`OPENAI_API_KEY` and its like) a server answers; `MODEL` names its model.

mod server;
mod tools;
mod toy;

use std::error::Error;
use std::io::{self, Write};

use memory_prompt::conversation::Conversation;
use memory_prompt::turn::{Ended, OnInterrupt, Turn};
use memory_prompt::wire::Event;
use memory_prompt::{ChatMemoryExt, MemoryPrompt, SqliteStore, Tool};
use rustyline::DefaultEditor;
use rustyline::error::ReadlineError;
use serde_json::json;

const HELP: &str = "/edit POSITION QUESTION, /regenerate, /undo, /branches [NUMBER], /memory, \
    /prompt, /report, /window N, /switch FILE, /forget";

fn show(event: Event) {
    if let Event::Text(piece) | Event::Refusal(piece) = event {
        print!("{}", piece.replace(|it: char| it.is_control() && !"\n\t".contains(it), ""));
        let _ = io::stdout().flush();
    }
}

fn say(chat: &Conversation, turn: Turn) -> Result<(), Box<dyn Error>> {
    match chat.stream(turn, show)? {
        done if done.ended != Ended::Interrupted => {}
        done if done.messages.is_empty() => print!(" (stopped, and forgotten)"),
        _ => print!(" (stopped)"),
    }
    Ok(())
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
                println!("{} {:?}: {}", it.position(), it.message().role(), it.message().text());
            }
        }
        ("/edit", what) => {
            let (position, question) = what.split_once(' ').ok_or(HELP)?;
            say(chat, chat.prompt().edit_turn(position.parse()?, question)?)?;
        }
        ("/regenerate", _) => say(chat, chat.prompt().regenerate()?)?,
        ("/undo", _) => match chat.undo()? {
            Some(position) => println!("taken back from {position} on"),
            None => println!("there is nothing to take back"),
        },
        ("/branches", number) => {
            let branches = chat.branches()?;
            if let Some(to) = number.parse().ok().and_then(|it: usize| branches.get(it)) {
                chat.switch(to)?;
            }
            for (i, it) in chat.branches()?.iter().enumerate() {
                println!("{i}: {:?}{}", it.own, if it.is_current { ", current" } else { "" });
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
        _ => say(chat, line.into())?,
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().unwrap_or_else(|| "chat.db".to_owned());
    let forgets = arguments.any(|it| it == "forget");
    let keep = if forgets { OnInterrupt::Forget } else { OnInterrupt::Keep };
    let memory = SqliteStore::open(&file)?.memory("chat")?;
    let prompt = MemoryPrompt::new(memory).system("You are a terse assistant.").with_branches();
    let sum = json!({"type": "object", "required": ["expression"],
        "properties": {"expression": {"type": "string", "description": "as 3*4+1"}}});
    let mut chat = server::conversation(prompt, toy::model)
        .on_interrupt(keep)
        .tool(Tool::new("calculator", "Calculates.").parameters(sum).repeatable(), tools::calculate)
        .tool(Tool::new("clock", "Tells the time.").repeatable(), tools::clock);
    let (mut lines, history) = (DefaultEditor::new()?, format!("{file}.history"));
    let stopper = chat.stopper();
    ctrlc::set_handler(move || stopper.stop())?; // behind the editor, which takes Ctrl-C while it edits
    let _ = lines.load_history(&history); // there is none yet the first time
    let place = std::fs::canonicalize(&file)?;
    println!("Hello. Type a question, or {HELP}. It is kept in {}", place.display());
    loop {
        let line = match lines.readline("> ") {
            Ok(line) => line,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::InvalidData => {
                println!("{error}"); // that line is no text, the next one may be
                continue;
            }
            Err(ReadlineError::Eof) if forgets => return Ok(()),
            Err(ReadlineError::Eof) => return Ok(lines.save_history(&history)?),
            Err(error) => return Err(error.into()),
        };
        lines.add_history_entry(&line)?;
        if let Err(error) = answer(&mut chat, line.trim()) {
            print!("{error}"); // nothing of it is stored: ask again
        } else if line.trim().split(' ').next() == Some("/forget") {
            lines.clear_history()?;
            std::fs::write(&history, "")?;
        }
        println!();
    }
}
