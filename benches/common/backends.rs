//! The stores to measure.

#[cfg(all(feature = "tokio", any(feature = "cassandra", feature = "postgres", feature = "redis")))]
mod servers;

use std::fmt;

#[cfg(feature = "sqlite")]
use memory_prompt::SqliteStore;
use memory_prompt::{ChatMemoryStore, InMemoryStore};

use crate::folder::Folder;

/// A store to measure.
pub(crate) struct Backend {
    pub(crate) name: &'static str,
    /// Opens it. What is kept in files is kept in this folder, and what is kept on a server is
    /// measured where the environment gives its address. Or says why it is left out.
    pub(crate) open: fn(&Folder) -> Opened,
}

pub(crate) type Opened = Result<Box<dyn ChatMemoryStore>, String>;

/// Each with its defaults.
pub(crate) const BACKENDS: &[Backend] = &[
    Backend { name: "in memory", open: |_| Ok(Box::new(InMemoryStore::new())) },
    Backend { name: "SQLite", open: sqlite },
    #[cfg(all(feature = "tokio", feature = "postgres"))]
    Backend { name: "PostgreSQL", open: |_| servers::postgres() },
    #[cfg(all(feature = "tokio", feature = "redis"))]
    Backend { name: "Redis", open: |_| servers::redis() },
    #[cfg(all(feature = "tokio", feature = "cassandra"))]
    Backend { name: "Cassandra", open: |_| servers::cassandra() },
];

#[cfg(feature = "sqlite")]
fn sqlite(folder: &Folder) -> Opened {
    let store = SqliteStore::open(folder.file("chat.db")).map_err(|error| error.to_string())?;
    Ok(Box::new(store))
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Folder) -> Opened {
    Err("it needs the feature sqlite".to_owned())
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
