//! Serves many users: one store, one memory for each conversation, and nothing shared but the store.
//!
//! Run it with `cargo run --example per_user`.
//!
//! With `SqliteStore::open("chat.db")?` instead of `InMemoryStore::new()` the rest stays as it is. A
//! memory costs nothing until something is appended to it, so make one for each request.

use std::time::{Duration, SystemTime};

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::memory::MemoryId;
use memory_prompt::{ChatMemoryExt, ChatMemoryStore, InMemoryStore, MemoryPrompt, Result};

/// Stands for a model: it repeats the question.
fn model(ask: &Asking<'_>) -> Result<String, ModelError> {
    let question = ask.prompt().iter().last().ok_or("there is no question")?;
    Ok(format!("You said {:?}.", question.text()))
}

/// Answers one request of one user, as a web handler would.
fn handle(store: &dyn ChatMemoryStore, user: &str, text: &str) -> Result<String> {
    // The id names domain, user and conversation. Who may read it must be known from elsewhere, for
    // example from the session: an id is a name and not a permission.
    let memory = store.memory(format!("support:{user}:main").into())?;
    let prompt = MemoryPrompt::new(memory).system("You are a terse assistant.").max_messages(6);
    // Question and answer are stored together, once both are there: a model that fails leaves no
    // question behind, another tab of the same user comes before or after and never between, and
    // nothing is stored in a conversation that was deleted meanwhile. Only the first turn of a
    // conversation, which begins it, can't tell: delete a user when the user's turns have ended.
    Ok(Conversation::new(prompt, model).say(text)?.text())
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

    // A user who leaves is deleted; conversations that nobody uses are purged.
    assert!(store.delete(&"support:u1002:main".into())?);
    let month = Duration::from_secs(30 * 24 * 60 * 60);
    let purged = store.purge_inactive(SystemTime::now() - month)?;
    println!("{} conversations are left, {purged} were inactive", store.ids(None, 100)?.len());
    Ok(())
}
