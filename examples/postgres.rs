//! Keeps conversations in PostgreSQL. Run it twice: it remembers.
//!
//! Run it with `cargo run --example postgres --features postgres,tokio`. It looks for a server at
//! `POSTGRES_URL`, and then ask that:
//!
//! ```sh
//! psql "$POSTGRES_URL" -c "SELECT position, payload #>> '{message,role}', payload #>> '{message,content}' \
//!     FROM memory_prompt.history ORDER BY id, position"
//! ```

use memory_prompt::adapt::ToBlocking;
use memory_prompt::{ChatMemoryExt, ErrorKind, MemoryPrompt, Message, PostgresStore, Result};

fn main() -> Result<()> {
    let address = std::env::var("POSTGRES_URL")
        .unwrap_or_else(|_| "postgres://postgres:postgres@localhost/postgres".to_owned());
    // In async code: `PostgresStore::open(address).await?`, and `MemoryPrompt::new_async`.
    let store = match ToBlocking::connect(PostgresStore::open(address)) {
        Ok(store) => store,
        Err(error) if error.kind() == ErrorKind::Storage => {
            println!("There is no PostgreSQL to talk to ({error}). Start one, for example with");
            println!("  docker run -e POSTGRES_PASSWORD=postgres -p 5432:5432 postgres");
            println!("or say in POSTGRES_URL where it is.");
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let mut prompt = MemoryPrompt::new(store.memory("support:u1001:c2002")?)
        .system("You are a friendly doorman.")
        .max_messages(4);

    let visits = prompt.memory().len()? / 2 + 1;
    // A turn is one batch: whoever reads meanwhile sees both messages or neither.
    prompt.add_all([
        Message::user("Good evening."),
        Message::ai(format!("Welcome: this is visit {visits}.")),
    ])?;

    for message in &prompt.build()? {
        println!("{:<10} {}", message.role(), message.text());
    }
    println!("\n{:?} holds {} messages", store, prompt.memory().len()?);
    Ok(())
}
