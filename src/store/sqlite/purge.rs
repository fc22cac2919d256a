//! Deletes many conversations in small steps.
//!
//! Conversations are found in pages, by key or by id, so that each is seen once, and by a reader,
//! so that writers don't wait. The write lock is held for some conversations, then released for
//! others; one conversation is deleted in one step.

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

/// How many conversations are in a page, and at most in a transaction.
const AT_ONCE: usize = 64;

/// After this time a transaction starts no further conversation.
const FOR: Duration = Duration::from_millis(5);

pub(super) fn inactive(connections: &Connections, older_than: i64) -> Result<u64> {
    let next = |connection: &Connection, after: Option<&i64>| {
        let mut inactive = connection.prepare_cached(INACTIVE)?;
        let after = after.unwrap_or(&i64::MIN);
        let keys =
            inactive.query_map(params![after, older_than, signed(AT_ONCE)], |row| row.get(0))?;
        Ok(keys.collect::<rusqlite::Result<_>>()?)
    };
    // Checked again, since there may have been an append meanwhile.
    let purge = move |connection: &Connection, key: &i64| {
        let gone = connection.prepare_cached(IS_INACTIVE)?.exists([*key, older_than])?;
        if gone {
            run(connection, DELETE, [*key])?;
        }
        Ok(gone)
    };
    all(connections, "purge_inactive", next, purge)
}

pub(super) fn with_prefix(connections: &Connections, prefix: &str) -> Result<u64> {
    let next = |connection: &Connection, after: Option<&MemoryId>| {
        listing::with_prefix(connection, prefix, after, AT_ONCE)
    };
    all(connections, "delete_prefix", next, delete_by_id)
}

/// Deletes the conversations of each page that `next` returns; returns how many there were.
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
            // Leave time for other writers, even those that try only every tenth of a second.
            thread::sleep(began.elapsed() / 4);
        }
        if page.len() < AT_ONCE {
            return Ok(deleted);
        }
        after = page.into_iter().last();
    }
}

/// Deletes some of these, within the time for one transaction; returns how many were handled, and
/// how many deleted.
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
