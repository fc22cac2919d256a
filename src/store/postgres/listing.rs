//! Work on many conversations: listing, telling, deleting, restoring.

use std::time::{Duration, Instant, SystemTime};

use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::Type;

use super::ask::{Change, Parameter, Read};
use super::failure::took_too_long;
use super::statements::{AT_ONCE, key_of};
use super::{Shared, value};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryId;
use crate::record::{Incarnation, millis, time_of};
use crate::store::common::{signed, unsigned};
use crate::store::{Info, check_prefix, exists};

/// The number of bytes of an id that the index knows.
const INDEXED: usize = 512;

pub(super) async fn ids(
    shared: &Shared,
    prefix: &str,
    after: Option<&MemoryId>,
    n: usize,
) -> Result<Vec<MemoryId>> {
    let after = after.map(|after| after.as_str().as_bytes());
    let parameters: [Parameter<'_>; 4] = [
        (&after, Type::BYTEA),
        (&prefix.as_bytes(), Type::BYTEA),
        (&behind(prefix), Type::BYTEA),
        (&signed(n), Type::INT8),
    ];
    let rows =
        shared.connections.ask("ids", &[], Read(&shared.statements.ids, &parameters)).await?;
    rows.iter().map(id).collect()
}

/// Returns the least text of bytes that stands behind all that begin with this prefix, as far as
/// the index knows them; none where nothing does.
fn behind(prefix: &str) -> Option<Vec<u8>> {
    let mut bytes = prefix.as_bytes().to_vec();
    bytes.truncate(INDEXED);
    while let Some(last) = bytes.last_mut() {
        if *last < u8::MAX {
            *last += 1;
            return Some(bytes);
        }
        bytes.pop();
    }
    None
}

fn id(row: &Row) -> Result<MemoryId> {
    str::from_utf8(value(row, 0)?).map(MemoryId::from).map_err(|error| {
        let text = "postgres: an id is not UTF-8: somebody else wrote it";
        Error::new(ErrorKind::Storage, "ids", text).with_source(error)
    })
}

pub(super) async fn info(shared: &Shared, id: &MemoryId) -> Result<Option<Info>> {
    let parameters: [Parameter<'_>; 1] = [(&id.as_str().as_bytes(), Type::BYTEA)];
    let rows =
        shared.connections.ask("info", &[], Read(&shared.statements.info, &parameters)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let number = |column| value::<i64>(row, column);
    let positions = unsigned(number(0)?)..unsigned(number(1)?);
    let incarnation = Incarnation::from_bits(number(3)?.cast_unsigned());
    let info = Info::new(positions, time_of(unsigned(number(2)?)));
    Ok(Some(info.with_incarnation(incarnation)))
}

/// Deletes these conversations; returns how many there were.
pub(super) async fn delete(
    shared: &Shared,
    operation: &'static str,
    ids: &[&MemoryId],
) -> Result<u64> {
    let keys: Vec<String> = ids.iter().map(|id| key_of(id)).collect();
    let script = shared.statements.delete(&keys);
    let counts = shared.connections.ask(operation, ids, script).await?;
    Ok(counts.first().copied().unwrap_or(0))
}

pub(super) async fn delete_prefix(shared: &Shared, prefix: &str) -> Result<u64> {
    check_prefix(prefix)?;
    let (mut parts, mut after) = (Parts::new(shared), None);
    loop {
        let page = ids(shared, prefix, after.as_ref(), AT_ONCE).await?;
        if page.is_empty() {
            return parts.done();
        }
        let all: Vec<&MemoryId> = page.iter().collect();
        let mut rest = &all[..];
        while let Some(part) = parts.next(rest) {
            let done = delete(shared, "delete_prefix", part).await;
            rest = &rest[parts.over(part.len(), done)?..];
        }
        after = page.into_iter().last();
    }
}

pub(super) async fn purge_inactive(shared: &Shared, older_than: SystemTime) -> Result<u64> {
    let Shared { connections, statements, .. } = shared;
    let operation = "purge_inactive";
    let older_than = signed(millis(older_than));
    let mut parts = Parts::new(shared);
    let mut last: Option<String> = None;
    loop {
        let parameters: [Parameter<'_>; 2] = [(&last, Type::TEXT), (&older_than, Type::INT8)];
        let rows = connections.ask(operation, &[], Read(&statements.inactive, &parameters)).await?;
        let keys: Vec<&str> = rows.iter().map(|row| value(row, 0)).collect::<Result<_>>()?;
        let Some(newest) = keys.last() else { return parts.done() };
        let mut rest = &keys[..];
        while let Some(part) = parts.next(rest) {
            // It may be done late: it looks again which of them are inactive.
            let script = statements.purge(&part.join(","), older_than);
            let counts = connections.ask(operation, &[], script).await;
            let done = counts.map(|counts| counts.first().copied().unwrap_or(0));
            rest = &rest[parts.over(part.len(), done)?..];
        }
        last = Some((*newest).to_owned());
    }
}

/// A way through many conversations, some at once: as many as the server can delete in time, since
/// they may be of any length.
struct Parts {
    at_once: usize,
    /// The time for each part, and when the last one began.
    time: Duration,
    began: Instant,
    deleted: u64,
    /// The error of one that takes too long alone. It keeps nobody from the others.
    too_long: Option<Error>,
}

impl Parts {
    fn new(shared: &Shared) -> Self {
        let time = shared.connections.timeout();
        Self { at_once: AT_ONCE, time, began: Instant::now(), deleted: 0, too_long: None }
    }

    /// Returns the next ones of these.
    fn next<'a, T>(&mut self, rest: &'a [T]) -> Option<&'a [T]> {
        self.began = Instant::now();
        (!rest.is_empty()).then(|| &rest[..self.at_once.min(rest.len())])
    }

    /// Takes what became of so many; returns how many of them are over.
    fn over(&mut self, part: usize, done: Result<u64>) -> Result<usize> {
        match done {
            Ok(deleted) => {
                self.deleted += deleted;
                if self.began.elapsed() < self.time / 4 {
                    self.at_once = (self.at_once * 2).min(AT_ONCE);
                }
                Ok(part)
            }
            Err(error) if took_too_long(&error) && part > 1 => {
                self.at_once = part / 2;
                Ok(0)
            }
            Err(error) if took_too_long(&error) => {
                self.too_long.get_or_insert(error);
                Ok(part)
            }
            Err(error) => Err(error),
        }
    }

    fn done(self) -> Result<u64> {
        self.too_long.map_or(Ok(self.deleted), Err)
    }
}

pub(super) async fn restore(
    shared: &Shared,
    id: &MemoryId,
    start: u64,
    incarnation: Option<Incarnation>,
) -> Result<()> {
    let Ok(start) = i64::try_from(start) else {
        let text = format!("postgres: there is no position {start}");
        return Err(Error::invalid("restore", text));
    };
    let incarnation = incarnation.unwrap_or_else(Incarnation::random);
    let parameters: [Parameter<'_>; 4] = [
        (&id.as_str().as_bytes(), Type::BYTEA),
        (&start, Type::INT8),
        (&signed(millis(SystemTime::now())), Type::INT8),
        (&incarnation.to_bits().cast_signed(), Type::INT8),
    ];
    let change = Change(&shared.statements.restore, &parameters);
    let rows = shared.connections.ask("restore", &[id], change).await?;
    if rows.is_empty() {
        return Err(exists("postgres", id));
    }
    Ok(())
}
