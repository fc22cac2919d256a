//! Evicting, clearing, deleting and purging. Each is a transaction: its first statement locks the
//! conversations, and the later ones see everything committed until then.

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

/// How many conversations one transaction deletes.
const AT_ONCE: usize = 64;

pub(super) async fn evict(connections: &Connections, id: &MemoryId, before: u64) -> Result<u64> {
    let (tables, key, before) = (&connections.tables, key_of(id), signed(before));
    let conversation = &tables.conversation;
    let evict = Transaction {
        first: format!(
            r#"UPDATE {conversation} SET start = least({before}, "end")
            WHERE key = {key} AND start < least({before}, "end")"#
        ),
        then: forget(tables, &key, 0).into(),
    };
    let counts = connections.ask("evict", &evict).await?;
    Ok(counts.last().copied().unwrap_or(0))
}

/// Removes all messages and slots, and starts a new incarnation.
pub(super) async fn clear(connections: &Connections, id: &MemoryId) -> Result<()> {
    let tables = &connections.tables;
    let Tables { conversation, slot, .. } = tables;
    let (key, incarnation) = (key_of(id), Incarnation::random().to_bits().cast_signed());
    let slots = format!("DELETE FROM {slot} WHERE conversation = {key}");
    let clear = Transaction {
        first: format!(
            r#"UPDATE {conversation}
            SET start = "end", slots = slots + 1, incarnation = {incarnation} WHERE key = {key}"#
        ),
        then: forget(tables, &key, -1).into_iter().chain([slots]).collect(),
    };
    connections.ask("clear", &clear).await.map(drop)
}

/// Returns the statements that delete what is before the new beginning of the conversation: media,
/// and messages from this position on, where -1 is the system message.
fn forget(tables: &Tables, key: &str, from: i64) -> [String; 2] {
    let Tables { conversation, message, media, .. } = tables;
    let start = format!("(SELECT start FROM {conversation} WHERE key = {key})");
    let older = format!("conversation = {key} AND position >= {from} AND position < {start}");
    [
        format!("DELETE FROM {media} WHERE conversation = {key} AND last < {start}"),
        format!("DELETE FROM {message} WHERE {older}"),
    ]
}

pub(super) async fn delete_one(connections: &Connections, id: &MemoryId) -> Result<bool> {
    let one = one_of(std::slice::from_ref(id));
    Ok(delete(connections, "delete", &one, None).await? > 0)
}

fn one_of(ids: &[MemoryId]) -> String {
    format!("IN ({})", ids.iter().map(key_of).collect::<Vec<_>>().join(", "))
}

/// Deletes these conversations, or those among them that are still inactive and not locked; returns
/// how many were deleted.
async fn delete(
    connections: &Connections,
    operation: &'static str,
    these: &str,
    older_than: Option<i64>,
) -> Result<u64> {
    let Tables { conversation, message, .. } = &connections.tables;
    let some = older_than.map(|older_than| {
        format!(
            "IN (SELECT key FROM {conversation} WHERE key {these} AND active < {older_than}
            FOR UPDATE SKIP LOCKED)"
        )
    });
    let delete = Transaction {
        first: format!("DELETE FROM {conversation} WHERE key {}", some.as_deref().unwrap_or(these)),
        // Slots, ids and media are deleted with their conversation.
        then: vec![format!(
            "DELETE FROM {message} AS m WHERE m.conversation {these}
            AND NOT EXISTS (SELECT FROM {conversation} AS c WHERE c.key = m.conversation)"
        )],
    };
    let counts = connections.ask(operation, &delete).await?;
    Ok(counts.first().copied().unwrap_or(0))
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
            let done = delete(connections, "delete_prefix", &one_of(part), None).await;
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
            let these = format!("= ANY ('{{{}}}'::uuid[])", part.join(","));
            let done = delete(connections, "purge_inactive", &these, Some(older_than)).await;
            parts.extend(deleted.add(part, done)?);
        }
        last = Some((*newest).to_owned());
    }
}

/// The progress of a deletion. Conversations may be of any length: if a batch takes too long, its
/// conversations are deleted one by one, and one that takes too long alone is left.
#[derive(Default)]
struct Deleted {
    count: u64,
    too_long: Option<Error>,
}

impl Deleted {
    /// Adds the result of a batch; returns the conversations to retry one by one.
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
