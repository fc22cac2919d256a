//! Reading: one statement, which sees one moment, and one more for media beside records.

use std::collections::BTreeSet;

use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::Type;

use super::ask::{Parameter, Query, value};
use super::connect::Connections;
use super::schema::{Tables, key};
use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryId, Read};
use crate::message::Sha256;
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};
use crate::store::common::{signed, slot_version, system, unsigned};
use crate::store::media::Found;
use crate::store::read_rows::ReadRows;
use crate::store::retry::Retry;

pub(super) async fn read(
    connections: &Connections,
    id: &MemoryId,
    read: &Read,
) -> Result<Snapshot> {
    read.check()?;
    let names: Vec<&[u8]> = read.slots.iter().map(String::as_bytes).collect();
    // A position beyond the database's numbers has no record.
    let positions: Vec<i64> =
        read.positions.iter().filter_map(|it| (*it).try_into().ok()).collect();
    let parameters: [Parameter<'_>; 5] = [
        (&id.as_str().as_bytes(), Type::BYTEA),
        (&read.before.map_or(i64::MAX, signed), Type::INT8),
        (&signed(read.n), Type::INT8),
        (&names, Type::BYTEA_ARRAY),
        (&positions, Type::INT8_ARRAY),
    ];
    let newest = newest(&connections.tables);
    let query = if read.is_plain() {
        Query::often(newest, &parameters[..3])
    } else {
        Query::often(format!("{newest} {}", extras(&connections.tables)), &parameters)
    };
    let (mut time, mut found, mut tries) = (connections.time(), Found::new(), 0);
    loop {
        let answer = answer(&connections.ask_within(&mut time, "read", &query).await?)?;
        let lacking = answer.lacking(read, &found);
        found.extend(find_media(connections, &mut time, id, lacking).await?);
        if let Some(snapshot) = answer.settled(read, &found, &mut tries) {
            return Ok(snapshot);
        }
    }
}

/// Returns the bytes of the media with these hashes, as far as they exist.
async fn find_media(
    connections: &Connections,
    time: &mut Retry,
    id: &MemoryId,
    hashes: BTreeSet<Sha256>,
) -> Result<Found> {
    if hashes.is_empty() {
        return Ok(Found::new());
    }
    let (media, key) = (&connections.tables.media, key("$1"));
    let sql =
        format!("SELECT hash, bytes FROM {media} WHERE conversation = {key} AND hash = ANY ($2)");
    let hashes: Vec<&[u8]> = hashes.iter().map(|it| &it.0[..]).collect();
    let parameters: [Parameter<'_>; 2] =
        [(&id.as_str().as_bytes(), Type::BYTEA), (&hashes, Type::BYTEA_ARRAY)];
    let rows = connections.ask_within(time, "read", &Query::often(sql, &parameters)).await?;
    let found = |row: &Row| {
        let hash = value::<&[u8]>(row, 0)?.try_into().map_err(|_| foreign())?;
        Ok((Sha256(hash), value(row, 1)?))
    };
    rows.iter().map(found).collect()
}

fn newest(tables: &Tables) -> String {
    let Tables { conversation, message, .. } = tables;
    let key = key("$1");
    format!(
        r#"SELECT 'conversation', start, "end", int8send(incarnation) FROM {conversation} WHERE key = {key}
        UNION ALL
        SELECT 'system', 0, 0, payload FROM {message} WHERE conversation = {key} AND position = -1
        UNION ALL
        (SELECT 'message', position, at, payload FROM {message}
        WHERE conversation = {key} AND position >= 0 AND position < $2 ORDER BY position DESC LIMIT $3)"#
    )
}

/// Returns the additional part of the statement for slots and single records.
fn extras(tables: &Tables) -> String {
    let Tables { message, slot, .. } = tables;
    let key = key("$1");
    format!(
        "UNION ALL
        SELECT 'slot', version, length(name), name || content FROM {slot}
        WHERE conversation = {key} AND name = ANY ($4)
        UNION ALL
        SELECT 'picked', position, at, payload FROM {message}
        WHERE conversation = {key} AND position >= 0 AND position = ANY ($5)"
    )
}

fn answer(rows: &[Row]) -> Result<ReadRows> {
    let mut answer = ReadRows::default();
    for row in rows {
        let (a, b) = (value::<i64>(row, 1)?, value::<i64>(row, 2)?);
        let payload: &[u8] = value(row, 3)?;
        match value::<&str>(row, 0)? {
            "conversation" => {
                (answer.snapshot.start, answer.snapshot.end) = (unsigned(a), unsigned(b));
                let bits = payload.try_into().map(u64::from_be_bytes).map_err(|_| foreign())?;
                answer.snapshot.incarnation = Some(Incarnation::from_bits(bits));
            }
            "system" => {
                answer.snapshot.system = system("postgres", Some(codec::decode(payload)))?;
            }
            "slot" => {
                let name = usize::try_from(b).ok().and_then(|name| payload.split_at_checked(name));
                let (name, content) = name.ok_or_else(foreign)?;
                let name = str::from_utf8(name).map_err(|_| foreign())?;
                answer.slots.push(Slot::new(name, slot_version(a), content));
            }
            "picked" => answer.picked.push_signed(a, b, codec::decode(payload)),
            _ => answer.newest.push_signed(a, b, codec::decode(payload)),
        }
    }
    Ok(answer)
}

pub(super) fn foreign() -> Error {
    let text = "postgres: a row is not as this crate writes it: another program did";
    Error::new(ErrorKind::Storage, "read", text)
}

pub(super) async fn slots(
    connections: &Connections,
    id: &MemoryId,
) -> Result<Vec<(String, SlotVersion)>> {
    let (slot, key) = (&connections.tables.slot, key("$1"));
    let sql = format!("SELECT name, version FROM {slot} WHERE conversation = {key} ORDER BY name");
    let parameters: [Parameter<'_>; 1] = [(&id.as_str().as_bytes(), Type::BYTEA)];
    let rows = connections.ask("slots", &Query::often(sql, &parameters)).await?;
    let slot = |row: &Row| {
        let name = str::from_utf8(value(row, 0)?).map_err(|_| foreign())?;
        Ok((name.to_owned(), slot_version(value(row, 1)?)))
    };
    rows.iter().map(slot).collect()
}
