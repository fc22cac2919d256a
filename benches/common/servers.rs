//! Stores on a server that is there: the environment gives its address.

use std::env;

use memory_prompt::{AsyncChatMemoryStore, Blocking, PostgresStore, Result};

use super::Opened;

#[cfg(feature = "postgres")]
pub(super) fn postgres() -> Opened {
    open("MEMORY_PROMPT_POSTGRES", PostgresStore::open)
}

fn open<S, F>(variable: &str, open: impl FnOnce(String) -> F) -> Opened
where
    S: AsyncChatMemoryStore + 'static,
    F: Future<Output = Result<S>> + Send,
{
    let address = env::var(variable).map_err(|_| format!("{variable} names no server"))?;
    let store = Blocking::connect(open(address)).map_err(|error| error.to_string())?;
    Ok(Box::new(store))
}
