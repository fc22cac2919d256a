//! Listing conversations, describing and restoring one.

use std::time::SystemTime;

use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::Type;

use super::ask::{LockedQuery, Parameter, Query, value};
use super::connect::Connections;
use super::read::foreign;
use super::schema::{Tables, key};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryId;
use crate::record::{Incarnation, Slot, millis, time_of};
use crate::store::common::{behind, signed, slot_version, unsigned};
use crate::store::{Info, exists};

/// How many bytes of an id the index contains.
const INDEXED: usize = 512;

pub(super) async fn ids(
    connections: &Connections,
    prefix: &str,
    after: Option<&MemoryId>,
    n: usize,
) -> Result<Vec<MemoryId>> {
    let Tables { conversation, .. } = &connections.tables;
    let key = key("$1");
    // In the order of the index, which has only the first bytes; the rest is compared.
    let sql = format!(
        "SELECT id FROM {conversation}
        WHERE ($1 IS NULL OR (substr(id, 1, {INDEXED}), key) > (substr($1, 1, {INDEXED}), {key}))
        AND substr(id, 1, {INDEXED}) >= substr($2, 1, {INDEXED})
        AND substr(id, 1, {INDEXED}) < $3
        AND substr(id, 1, length($2)) = $2
        ORDER BY substr(id, 1, {INDEXED}), key LIMIT $4"
    );
    let after = after.map(|after| after.as_str().as_bytes());
    let parameters: [Parameter<'_>; 4] = [
        (&after, Type::BYTEA),
        (&prefix.as_bytes(), Type::BYTEA),
        (&behind(prefix), Type::BYTEA),
        (&signed(n), Type::INT8),
    ];
    let rows = connections.ask("ids", &Query::seldom(sql, &parameters)).await?;
    rows.iter().map(id_of).collect()
}

/// Returns the next `n` slots of conversations with this prefix whose names begin with `names`.
pub(super) async fn slots(
    connections: &Connections,
    prefix: &str,
    names: &str,
    after: Option<(&MemoryId, &str)>,
    n: usize,
) -> Result<Vec<(MemoryId, Slot)>> {
    let Tables { conversation, slot, .. } = &connections.tables;
    let key = key("$5");
    let id = format!("substr(c.id, 1, {INDEXED})");
    let sql = format!(
        "SELECT c.id, s.name, s.version, s.content
        FROM {conversation} AS c JOIN {slot} AS s ON s.conversation = c.key
        WHERE {id} >= substr($1, 1, {INDEXED}) AND {id} < $2
        AND substr(c.id, 1, length($1)) = $1 AND s.name >= $3 AND s.name < $4
        AND ($5 IS NULL OR ({id}, c.key, s.name) > (substr($5, 1, {INDEXED}), {key}, $6))
        ORDER BY {id}, c.key, s.name LIMIT $7"
    );
    let after_id = after.map(|(id, _)| id.as_str().as_bytes());
    let after_name = after.map(|(_, name)| name.as_bytes());
    let parameters: [Parameter<'_>; 7] = [
        (&prefix.as_bytes(), Type::BYTEA),
        (&behind(prefix), Type::BYTEA),
        (&names.as_bytes(), Type::BYTEA),
        (&behind(names), Type::BYTEA),
        (&after_id, Type::BYTEA),
        (&after_name, Type::BYTEA),
        (&signed(n), Type::INT8),
    ];
    let rows = connections.ask("slots", &Query::seldom(sql, &parameters)).await?;
    let slot = |row: &Row| {
        let name = str::from_utf8(value(row, 1)?).map_err(|_| foreign())?;
        let version = slot_version(value(row, 2)?);
        Ok((id_of(row)?, Slot::new(name, version, value::<&[u8]>(row, 3)?)))
    };
    rows.iter().map(slot).collect()
}

fn id_of(row: &Row) -> Result<MemoryId> {
    str::from_utf8(value(row, 0)?).map(MemoryId::from).map_err(|error| {
        let text = "postgres: an id is not UTF-8: another program wrote it";
        Error::new(ErrorKind::Storage, "ids", text).with_source(error)
    })
}

pub(super) async fn info(connections: &Connections, id: &MemoryId) -> Result<Option<Info>> {
    let Tables { conversation, .. } = &connections.tables;
    let key = key("$1");
    let sql = format!(
        r#"SELECT start, "end", active, incarnation FROM {conversation} WHERE key = {key}"#
    );
    let parameters: [Parameter<'_>; 1] = [(&id.as_str().as_bytes(), Type::BYTEA)];
    let rows = connections.ask("info", &Query::often(sql, &parameters)).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let number = |column| value::<i64>(row, column);
    let positions = unsigned(number(0)?)..unsigned(number(1)?);
    let incarnation = Incarnation::from_bits(number(3)?.cast_unsigned());
    let info = Info::new(positions, time_of(unsigned(number(2)?)));
    Ok(Some(info.with_incarnation(incarnation)))
}

pub(super) async fn restore(
    connections: &Connections,
    id: &MemoryId,
    start: u64,
    incarnation: Option<Incarnation>,
) -> Result<()> {
    let Ok(start) = i64::try_from(start) else {
        let text = format!("postgres: there is no position {start}");
        return Err(Error::invalid("restore", text));
    };
    let Tables { conversation, .. } = &connections.tables;
    let key = key("$1");
    let sql = format!(
        r#"INSERT INTO {conversation} (key, start, "end", active, id, incarnation)
        VALUES ({key}, $2, $2, $3, $1, $4) ON CONFLICT (key) DO NOTHING RETURNING 1"#
    );
    let incarnation = incarnation.unwrap_or_else(Incarnation::random);
    let parameters: [Parameter<'_>; 4] = [
        (&id.as_str().as_bytes(), Type::BYTEA),
        (&start, Type::INT8),
        (&signed(millis(SystemTime::now())), Type::INT8),
        (&incarnation.to_bits().cast_signed(), Type::INT8),
    ];
    let restore = LockedQuery { lock: None, query: Query::seldom(sql, &parameters) };
    if connections.ask("restore", &restore).await?.is_empty() {
        return Err(exists("postgres", id));
    }
    Ok(())
}
