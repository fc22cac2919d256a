//! Deleting many, a little at a time.
//!
//! What is to go is looked for in pages, by key or by id, so that each conversation is seen once,
//! and by a reader, so that no writer waits for it. The lock is held for some milliseconds, then
//! left to others.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::connect::Connections;
use super::failure::TxError;
use super::listing;
use super::read::find;
use super::writer::run;
use crate::error::Result;
use crate::memory::MemoryId;
use crate::store::common::signed;

/// The number of conversations in a page, and the most in a transaction.
const AT_ONCE: usize = 64;

/// The time after which a transaction begins no further conversation.
const FOR: Duration = Duration::from_millis(5);

/// Deletes the conversations to which nothing was appended since this time; returns how many.
pub(super) fn inactive(connections: &Connections, older_than: i64) -> Result<u64> {
    let next = |connection: &Connection, after: Option<&i64>| {
        let mut inactive = connection.prepare_cached(INACTIVE)?;
        let after = after.unwrap_or(&i64::MIN);
        let keys =
            inactive.query_map(params![after, older_than, signed(AT_ONCE)], |row| row.get(0))?;
        Ok(keys.collect::<rusqlite::Result<_>>()?)
    };
    // It is looked at again: there may have been an append meanwhile.
    let purge = move |connection: &Connection, key: &i64| {
        let gone = connection.prepare_cached(IS_INACTIVE)?.exists([*key, older_than])?;
        if gone {
            run(connection, DELETE, [*key])?;
        }
        Ok(gone)
    };
    all(connections, "purge_inactive", next, purge)
}

/// Deletes the conversations whose ids begin with this text; returns how many.
pub(super) fn with_prefix(connections: &Connections, prefix: &str) -> Result<u64> {
    let next = |connection: &Connection, after: Option<&MemoryId>| {
        listing::with_prefix(connection, prefix, after, AT_ONCE)
    };
    all(connections, "delete_prefix", next, delete_by_id)
}

/// Deletes each conversation of each page that comes `next`; returns how many there were.
fn all<T: Clone + Send + 'static>(
    connections: &Connections,
    operation: &'static str,
    next: impl Fn(&Connection, Option<&T>) -> Result<Vec<T>, TxError>,
    delete: impl Fn(&Connection, &T) -> Result<bool, TxError> + Clone + Send + 'static,
) -> Result<u64> {
    let (mut after, mut deleted) = (None, 0);
    loop {
        let page = connections.read(operation, |connection| next(connection, after.as_ref()))?;
        let mut left = &page[..];
        while !left.is_empty() {
            let began = Instant::now();
            let (these, delete) = (left.to_vec(), delete.clone());
            let (seen, gone) = connections
                .write(operation, move |connection| some(connection, &these, &delete))?;
            deleted += gone;
            left = &left[seen..];
            // The file is left to others, even to those that look for it every tenth of a second.
            thread::sleep(began.elapsed() / 4);
        }
        if page.len() < AT_ONCE {
            return Ok(deleted);
        }
        after = page.into_iter().last();
    }
}

/// Deletes some of these, for as long as one transaction may take; returns how many were looked at,
/// and how many are gone.
fn some<T>(
    connection: &Connection,
    these: &[T],
    delete: impl Fn(&Connection, &T) -> Result<bool, TxError>,
) -> Result<(usize, u64), TxError> {
    let began = Instant::now();
    let (mut seen, mut gone) = (0, 0);
    for it in these {
        if seen > 0 && began.elapsed() > FOR {
            break;
        }
        gone += u64::from(delete(connection, it)?);
        seen += 1;
    }
    Ok((seen, gone))
}

/// Deletes a conversation by its id; returns whether there was one.
pub(super) fn delete_by_id(connection: &Connection, id: &MemoryId) -> Result<bool, TxError> {
    let Some(found) = find(connection, id)? else { return Ok(false) };
    run(connection, DELETE, [found.key])?;
    Ok(true)
}

const INACTIVE: &str =
    "SELECT key FROM conversation WHERE key > ?1 AND active < ?2 ORDER BY key LIMIT ?3";
const IS_INACTIVE: &str = "SELECT 1 FROM conversation WHERE key = ?1 AND active < ?2";
/// A trigger deletes what belongs to it.
const DELETE: &str = "DELETE FROM conversation WHERE key = ?1";
