//! Serves many users: one store, a memory a conversation, and nothing shared but the store.
//!
//! Run it with `cargo run --example per_user`.
//!
//! Put `SqliteStore::open("chat.db")?` in the place of `InMemoryStore::new()` and the rest stays as
//! it is: a memory costs nothing until something is appended to it, so make one for each request.

use std::time::{Duration, SystemTime};

use memory_prompt::memory::MemoryId;
use memory_prompt::turn::{Done, Next};
use memory_prompt::{ChatMemoryExt, ChatMemoryStore, InMemoryStore, MemoryPrompt, Message, Result};

/// One request of one user: what a web handler would do.
fn handle(store: &dyn ChatMemoryStore, user: &str, text: &str) -> Result<Done> {
    // The id names domain, user and conversation. Whose it is must be known from elsewhere, for
    // example from the session: an id is a name and not a permission.
    let memory = store.memory(format!("support:{user}:main").into())?;
    let mut prompt = MemoryPrompt::new(memory).system("You are a terse assistant.").max_messages(6);
    // Question and answer are stored at once, when both are there: a model that fails leaves no
    // question behind, another tab of the same user comes before or after and never between, and a
    // conversation that was deleted meanwhile gets nothing.
    let mut turn = prompt.turn(Message::user(text));
    loop {
        match turn.next(&prompt)? {
            // Here the model would be asked.
            Next::Ask(_) => turn.answer(Message::ai(format!("You said {text:?}.")))?,
            // A model without tools calls none; `examples/tool_loop.rs` shows one that does.
            Next::Call(calls) => {
                for call in calls {
                    turn.error(call.id(), "There are no tools here.")?;
                }
            }
            Next::Done(done) => return Ok(done),
        }
    }
}

fn main() -> Result<()> {
    let store = InMemoryStore::new();

    std::thread::scope(|scope| {
        for user in ["u1001", "u1002", "u1003"] {
            let store = &store;
            scope.spawn(move || {
                for i in 1..=5 {
                    if let Err(error) = handle(store, user, &format!("Question {i} of {user}")) {
                        eprintln!("{user}: {error}");
                    }
                }
            });
        }
    });

    // Every conversation there is, a page at a time.
    let mut after: Option<MemoryId> = None;
    loop {
        let page = store.ids(after.as_ref(), 2)?;
        for id in &page {
            println!("{id} holds {} messages", store.memory(id.as_str())?.len()?);
        }
        match page.last() {
            Some(last) => after = Some(last.clone()),
            None => break,
        }
    }

    // A user who leaves takes everything along; what nobody uses goes by itself.
    assert!(store.delete(&"support:u1002:main".into())?);
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    let purged = store.purge_inactive(SystemTime::now() - month)?;
    println!("{} conversations are left, {purged} were inactive", store.ids(None, 100)?.len());
    Ok(())
}
