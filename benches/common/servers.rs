//! Stores on a server that is there: the environment gives its address.

use std::env;

#[cfg(feature = "cassandra")]
use memory_prompt::CassandraStore;
#[cfg(feature = "postgres")]
use memory_prompt::PostgresStore;
#[cfg(feature = "redis")]
use memory_prompt::adapt::ToBlocking;
use memory_prompt::{AsyncChatMemoryStore, RedisStore, Result};

use super::Opened;

#[cfg(feature = "postgres")]
pub(super) fn postgres() -> Opened {
    open("MEMORY_PROMPT_POSTGRES", PostgresStore::open)
}

#[cfg(feature = "redis")]
pub(super) fn redis() -> Opened {
    open("MEMORY_PROMPT_REDIS", async |address: String| RedisStore::open(&address).await)
}

#[cfg(feature = "cassandra")]
pub(super) fn cassandra() -> Opened {
    open("MEMORY_PROMPT_CASSANDRA", CassandraStore::open)
}

fn open<S, F>(variable: &str, open: impl FnOnce(String) -> F) -> Opened
where
    S: AsyncChatMemoryStore + 'static,
    F: Future<Output = Result<S>> + Send,
{
    let address = env::var(variable).map_err(|_| format!("{variable} names no server"))?;
    let store = ToBlocking::connect(open(address)).map_err(|error| error.to_string())?;
    Ok(Box::new(store))
}
