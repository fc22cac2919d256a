//! Shares conversations between machines. Run it twice: it remembers.
//!
//! Run it with `cargo run --example redis --features redis,tokio`, with a server at
//! `redis://localhost` or wherever `REDIS_ADDRESS` says, and then ask the server itself:
//!
//! ```sh
//! redis-cli --scan --pattern 'memory-prompt-example:*'
//! ```

use std::time::Duration;

use memory_prompt::adapt::ToBlocking;
use memory_prompt::{ChatMemoryExt, MemoryPrompt, Message, RedisStore, Result};

fn main() -> Result<()> {
    let address = std::env::var("REDIS_ADDRESS").unwrap_or_else(|_| "redis://localhost".to_owned());
    let options = RedisStore::options()
        .prefix("memory-prompt-example")
        .ttl(Duration::from_secs(24 * 60 * 60))
        .connect_timeout(Duration::from_secs(1));
    let store = match ToBlocking::connect(options.open(&address)) {
        Ok(store) => store,
        Err(error) => {
            println!("{error}");
            println!("Start a server with `redis-server`, or say where one is in REDIS_ADDRESS.");
            return Ok(());
        }
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
    println!("\nthe server holds {} messages for a day", prompt.memory().len()?);
    Ok(())
}
