//! Lets a model call tools, and loses no call when the process dies meanwhile.
//!
//! Run it with `cargo run --example tool_loop`.
//!
//! With `SqliteStore::open("chat.db")?` in the place of `InMemoryStore::new()` it is the same, and
//! what is kept here over a dropped turn is kept over a killed process.

use memory_prompt::turn::{Ask, Call, Done, Next, OnInterrupt, ToolError, Turn};
use memory_prompt::{ChatMemoryExt, InMemoryStore, MemoryPrompt, Message, Result, Tool, ToolCall};
use serde_json::json;

#[derive(serde::Deserialize)]
struct Booking {
    nights: u32,
}

/// The one tool: it books, so it must not run twice for one call.
fn tools() -> [Tool; 1] {
    [Tool::new("book_room", "Books a room.").parameters(json!({
        "type": "object",
        "properties": {"nights": {"type": "integer"}},
        "required": ["nights"],
    }))]
}

fn book_room(call: &Call) -> Result<String, ToolError> {
    let Booking { nights } = call.parse()?; // what the model wrote wrong, it is told
    Ok(format!("booked for {nights} nights, reference 7XK"))
}

/// Stands for a model: it books what it is asked for, and then says what it knows.
fn model(ask: &Ask) -> Message {
    let prompt = ask.prompt();
    let texts: Vec<String> = prompt.iter().map(|message| message.text().into_owned()).collect();
    match prompt.iter().last() {
        Some(last) if last.text().starts_with("A room") => {
            Message::ai_calls([ToolCall::new("c1", "book_room", r#"{"nights": 2}"#)])
        }
        _ => Message::ai(format!("I know this: {}.", texts.join(" | "))),
    }
}

/// Goes on with a turn until it is done.
fn finish(turn: &mut Turn, prompt: &MemoryPrompt) -> Result<Done> {
    loop {
        match turn.next(prompt)? {
            Next::Ask(ask) => turn.answer(model(&ask))?,
            Next::Call(calls) => {
                for call in calls {
                    // After `adopt` a call is handed out again: to run it would book twice.
                    if call.may_have_run() {
                        turn.outcome_unknown(call.id(), "The process died.")?;
                    } else {
                        turn.result(call.id(), book_room(&call))?;
                    }
                }
            }
            Next::Done(done) => return Ok(done),
        }
    }
}

fn main() -> Result<()> {
    let store = InMemoryStore::new();
    let prompt = |user: &str| -> Result<MemoryPrompt> {
        Ok(MemoryPrompt::new(store.memory(format!("hotel:{user}"))?))
    };

    // All goes well.
    let mut ada = prompt("ada")?;
    let mut turn = ada.turn(Message::user("A room for two nights, please.")).tools(tools());
    println!("{}\n", finish(&mut turn, &ada)?.text());

    // The process dies while the tool runs: the question is not stored, but the call is not
    // forgotten.
    let mut alan = prompt("alan")?;
    let mut turn = alan.turn(Message::user("A room for two nights, please.")).tools(tools());
    while let Next::Ask(ask) = turn.next(&alan)? {
        turn.answer(model(&ask))?;
    }
    drop(turn);
    println!("stored: {}, begun: {:?}\n", alan.memory().len()?, alan.unfinished()?[0]);

    // The next question's model knows that, and does not book again.
    let mut turn = alan.turn(Message::user("Did that work?")).tools(tools());
    println!("{}\n", finish(&mut turn, &alan)?.text());

    // Whoever finds out what became of the booking ends the turn. Nobody knows yet: a late result
    // will do.
    for unfinished in alan.unfinished()? {
        let mut turn = alan.adopt(&unfinished)?;
        turn.interrupt(OnInterrupt::Keep);
        finish(&mut turn, &alan)?;
    }
    alan.add(Message::tool("c1", "book_room", "booked for 2 nights, reference 8QP"))?;
    println!("{}", alan.build()?.report());
    Ok(())
}
