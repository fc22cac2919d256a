//! Evicting, clearing, deleting and purging. Each is a transaction: its first statement locks the
//! conversations, and the next ones see what was committed until then.

use std::time::SystemTime;

use deadpool_postgres::tokio_postgres::types::Type;

use super::ask::{Parameter, Query, Transaction, value};
use super::connect::Connections;
use super::failure::took_too_long;
use super::listing::ids;
use super::schema::{Tables, key_of};
use crate::error::{Error, Result};
use crate::memory::MemoryId;
use crate::record::{Incarnation, millis};
use crate::store::check_prefix;
use crate::store::common::signed;

/// The number of conversations that are deleted in one transaction.
const AT_ONCE: usize = 64;

/// Evicts what is before a position; returns how many messages.
pub(super) async fn evict(connections: &Connections, id: &MemoryId, before: u64) -> Result<u64> {
    let Tables { conversation, message, .. } = &connections.tables;
    let (key, before) = (key_of(id), signed(before));
    let evict = Transaction {
        first: format!(
            r#"UPDATE {conversation} SET start = least({before}, "end")
            WHERE key = {key} AND start < least({before}, "end")"#
        ),
        then: vec![format!(
            "DELETE FROM {message} WHERE conversation = {key} AND seq >= 0
            AND seq < (SELECT start FROM {conversation} WHERE key = {key})"
        )],
    };
    let counts = connections.ask("evict", &evict).await?;
    Ok(counts.last().copied().unwrap_or(0))
}

/// Removes all messages and slots: what comes then is another incarnation.
pub(super) async fn clear(connections: &Connections, id: &MemoryId) -> Result<()> {
    let Tables { conversation, message, slot, .. } = &connections.tables;
    let (key, incarnation) = (key_of(id), Incarnation::random().to_bits().cast_signed());
    let clear = Transaction {
        first: format!(
            r#"UPDATE {conversation}
            SET start = "end", slots = slots + 1, incarnation = {incarnation} WHERE key = {key}"#
        ),
        then: vec![
            format!(
                "DELETE FROM {message} WHERE conversation = {key}
                AND seq < (SELECT start FROM {conversation} WHERE key = {key})"
            ),
            format!("DELETE FROM {slot} WHERE conversation = {key}"),
        ],
    };
    connections.ask("clear", &clear).await.map(drop)
}

/// Deletes these conversations; returns how many there were.
pub(super) async fn delete(
    connections: &Connections,
    operation: &'static str,
    ids: &[MemoryId],
) -> Result<u64> {
    let Tables { conversation, .. } = &connections.tables;
    let keys = ids.iter().map(key_of).collect::<Vec<_>>().join(", ");
    let delete = Transaction {
        first: format!("DELETE FROM {conversation} WHERE key IN ({keys})"),
        then: vec![delete_messages(&connections.tables, &format!("IN ({keys})"))],
    };
    let counts = connections.ask(operation, &delete).await?;
    Ok(counts.first().copied().unwrap_or(0))
}

/// Returns the statement that deletes the messages of those of these conversations that are gone.
/// (Slots and ids go with their conversation.)
fn delete_messages(tables: &Tables, of_these: &str) -> String {
    let Tables { conversation, message, .. } = tables;
    format!(
        "DELETE FROM {message} AS m WHERE m.conversation {of_these}
        AND NOT EXISTS (SELECT FROM {conversation} AS c WHERE c.key = m.conversation)"
    )
}

pub(super) async fn delete_prefix(connections: &Connections, prefix: &str) -> Result<u64> {
    check_prefix(prefix)?;
    let (mut deleted, mut after) = (Deleted::default(), None);
    loop {
        let page = ids(connections, prefix, after.as_ref(), AT_ONCE).await?;
        if page.is_empty() {
            return deleted.all();
        }
        let mut parts = vec![&page[..]];
        while let Some(part) = parts.pop() {
            let done = delete(connections, "delete_prefix", part).await;
            parts.extend(deleted.add(part, done)?);
        }
        after = page.into_iter().last();
    }
}

pub(super) async fn purge_inactive(
    connections: &Connections,
    older_than: SystemTime,
) -> Result<u64> {
    let Tables { conversation, .. } = &connections.tables;
    let older_than = signed(millis(older_than));
    let (mut deleted, mut last) = (Deleted::default(), None::<String>);
    loop {
        let sql = format!(
            "SELECT key::text FROM {conversation}
            WHERE ($1 IS NULL OR key > $1::uuid) AND active < $2 ORDER BY key LIMIT {AT_ONCE}"
        );
        let parameters: [Parameter<'_>; 2] = [(&last, Type::TEXT), (&older_than, Type::INT8)];
        let rows = connections.ask("purge_inactive", &Query::seldom(sql, &parameters)).await?;
        let keys: Vec<&str> = rows.iter().map(|row| value(row, 0)).collect::<Result<_>>()?;
        let Some(newest) = keys.last() else { return deleted.all() };
        let mut parts = vec![&keys[..]];
        while let Some(part) = parts.pop() {
            let done = purge(connections, &part.join(","), older_than).await;
            parts.extend(deleted.add(part, done)?);
        }
        last = Some((*newest).to_owned());
    }
}

/// Deletes those of these conversations that are inactive still, and that are not locked.
async fn purge(connections: &Connections, keys: &str, older_than: i64) -> Result<u64> {
    let Tables { conversation, .. } = &connections.tables;
    let purge = Transaction {
        first: format!(
            "DELETE FROM {conversation} WHERE key IN (
                SELECT key FROM {conversation} WHERE key = ANY ('{{{keys}}}'::uuid[])
                AND active < {older_than} FOR UPDATE SKIP LOCKED
            )"
        ),
        then: vec![delete_messages(&connections.tables, &format!("= ANY ('{{{keys}}}'::uuid[])"))],
    };
    let counts = connections.ask("purge_inactive", &purge).await?;
    Ok(counts.first().copied().unwrap_or(0))
}

/// The number of conversations that were deleted. They may be of any length: if a batch takes too
/// long, each is deleted alone, and one that takes too long alone is left.
#[derive(Default)]
struct Deleted {
    count: u64,
    too_long: Option<Error>,
}

impl Deleted {
    /// Takes what became of a batch; returns what is to be tried again, one by one.
    fn add<'a, T>(
        &mut self,
        batch: &'a [T],
        done: Result<u64>,
    ) -> Result<impl Iterator<Item = &'a [T]> + use<'a, T>> {
        let mut again = &batch[..0];
        match done {
            Ok(count) => self.count += count,
            Err(error) if took_too_long(&error) && batch.len() > 1 => again = batch,
            Err(error) if took_too_long(&error) => self.too_long = Some(error),
            Err(error) => return Err(error),
        }
        Ok(again.chunks(1))
    }

    fn all(self) -> Result<u64> {
        self.too_long.map_or(Ok(self.count), Err)
    }
}
