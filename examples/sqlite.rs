//! Keeps conversations in a file. Run it twice: it remembers.
//!
//! Run it with `cargo run --example sqlite --features sqlite`, and then ask the file itself:
//!
//! ```sh
//! sqlite3 /tmp/memory-prompt-example.db \
//!     "SELECT position, payload ->> '$.message.role', payload ->> '$.message.content' FROM history"
//! ```

use memory_prompt::{ChatMemoryExt, MemoryPrompt, Message, Result, SqliteStore};

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("memory-prompt-example.db");
    let store = SqliteStore::open(&path)?;
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
    println!("\n{} holds {} messages", path.display(), prompt.memory().len()?);
    Ok(())
}
