//! Keeps conversations in Apache Cassandra. Run it twice: it remembers.
//!
//! Start a server, for example with `docker run --rm -p 9042:9042 cassandra:5`, and run
//! `cargo run --example cassandra --features cassandra,tokio`. The environment variable `CASSANDRA`
//! names another address. What it has written can be looked at with `cqlsh`:
//!
//! ```sql
//! SELECT position, at, blobAsText(payload) FROM memory_prompt.conversation
//! WHERE id = 'support:u1001:c2002' AND position < 9223372036854775807 LIMIT 10;
//! ```

use std::env;
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use memory_prompt::adapt::ToBlocking;
use memory_prompt::{CassandraStore, ChatMemoryExt, MemoryPrompt, Message, Result};

fn main() -> Result<()> {
    let address = env::var("CASSANDRA").unwrap_or_else(|_| "127.0.0.1:9042".to_owned());
    if !somebody_listens(&address) {
        println!("Nobody listens at {address}. A server for a try:");
        println!("    docker run --rm -p 9042:9042 cassandra:5");
        return Ok(());
    }
    let store = ToBlocking::connect(CassandraStore::open(&address))?;
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
    println!("\n{address} holds {} messages of this conversation", prompt.memory().len()?);
    Ok(())
}

/// So that nobody has to wait for a server that is not there.
fn somebody_listens(address: &str) -> bool {
    let addresses = address.to_socket_addrs().into_iter().flatten();
    addresses.into_iter().any(|at| TcpStream::connect_timeout(&at, Duration::from_secs(1)).is_ok())
}
