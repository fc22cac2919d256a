//! Deleting what is inactive, a little at a time.
//!
//! What is to go is looked for in pages by key, so that each conversation is seen once, and by a reader,
//! so that nobody waits for it. The lock is held for some milliseconds, then left to others.

use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use super::connect::Connections;
use super::{Trouble, forget};
use crate::error::Result;

/// Conversations in a page, and at most in a transaction.
const AT_ONCE: u32 = 64;

/// A transaction begins no further conversation after this time.
const FOR: Duration = Duration::from_millis(5);

/// Deletes the conversations to which nothing was appended since this time; returns how many.
pub(super) fn inactive(connections: &Connections, older_than: i64) -> Result<u64> {
    let (mut after, mut purged) = (i64::MIN, 0);
    loop {
        let page: Vec<i64> = connections.read("purge_inactive", |connection| {
            let mut inactive = connection.prepare_cached(INACTIVE)?;
            let keys = inactive.query_map(params![after, older_than, AT_ONCE], |row| row.get(0))?;
            Ok(keys.collect::<rusqlite::Result<_>>()?)
        })?;
        let mut left = &page[..];
        loop {
            let began = Instant::now();
            let keys = left.to_vec();
            let (seen, gone) = connections
                .write("purge_inactive", move |connection| purge(connection, &keys, older_than))?;
            purged += gone;
            left = &left[seen..];
            rest(began);
            if left.is_empty() {
                break;
            }
        }
        match page.last() {
            Some(last) if page.len() == AT_ONCE as usize => after = *last,
            _ => return Ok(purged),
        }
    }
}

/// Deletes some of these, unless somebody appended to them meanwhile; returns how many were looked at,
/// and how many are gone.
fn purge(connection: &Connection, keys: &[i64], older_than: i64) -> Result<(usize, u64), Trouble> {
    let began = Instant::now();
    let (mut seen, mut gone) = (0, 0);
    for key in keys {
        if seen > 0 && began.elapsed() > FOR {
            break;
        }
        if connection.prepare_cached(IS_INACTIVE)?.exists([*key, older_than])? {
            forget(connection, *key)?;
            gone += 1;
        }
        seen += 1;
    }
    Ok((seen, gone))
}

/// Leaves the file to others: also to programs that look for it every tenth of a second.
fn rest(began: Instant) {
    thread::sleep(began.elapsed() / 4);
}

const INACTIVE: &str =
    "SELECT key FROM conversation WHERE key > ?1 AND active < ?2 ORDER BY key LIMIT ?3";
const IS_INACTIVE: &str = "SELECT 1 FROM conversation WHERE key = ?1 AND active < ?2";
