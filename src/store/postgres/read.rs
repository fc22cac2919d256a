//! Reading: one statement, which is one moment.

use std::sync::Arc;

use deadpool_postgres::tokio_postgres::Row;
use deadpool_postgres::tokio_postgres::types::Type;

use super::ask::{Parameter, Query, value};
use super::connect::Connections;
use super::schema::{Tables, key};
use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryId, Read};
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};
use crate::store::common::{Rows, signed, slot_version, unreadable_system, unsigned};

/// Reads what is asked for.
pub(super) async fn read(
    connections: &Connections,
    id: &MemoryId,
    read: &Read,
) -> Result<Snapshot> {
    read.check()?;
    let names: Vec<&[u8]> = read.slots.iter().map(String::as_bytes).collect();
    // A position that is larger than the database's numbers is that of no record.
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
    let rows = connections.ask("read", &query).await?;
    let mut found = Reply::default();
    for row in &rows {
        found.add_row(row)?;
    }
    Ok(found.into(read))
}

fn newest(tables: &Tables) -> String {
    let Tables { conversation, message, .. } = tables;
    let key = key("$1");
    format!(
        r#"SELECT 'conversation', start, "end", int8send(incarnation) FROM {conversation} WHERE key = {key}
        UNION ALL
        SELECT 'system', 0, 0, payload FROM {message} WHERE conversation = {key} AND seq = -1
        UNION ALL
        (SELECT 'message', seq, at, payload FROM {message}
        WHERE conversation = {key} AND seq >= 0 AND seq < $2 ORDER BY seq DESC LIMIT $3)"#
    )
}

/// Returns what is added to the statement for slots and single records.
fn extras(tables: &Tables) -> String {
    let Tables { message, slot, .. } = tables;
    let key = key("$1");
    format!(
        "UNION ALL
        SELECT 'slot', version, length(name), name || content FROM {slot}
        WHERE conversation = {key} AND name = ANY ($4)
        UNION ALL
        SELECT 'picked', seq, at, payload FROM {message}
        WHERE conversation = {key} AND seq >= 0 AND seq = ANY ($5)"
    )
}

/// The answer to a read, as far as it was taken in.
#[derive(Default)]
struct Reply {
    snapshot: Snapshot,
    newest: Rows,
    picked: Rows,
    slots: Vec<Slot>,
}

impl Reply {
    fn add_row(&mut self, row: &Row) -> Result<()> {
        let (a, b) = (value::<i64>(row, 1)?, value::<i64>(row, 2)?);
        let payload: &[u8] = value(row, 3)?;
        match value::<&str>(row, 0)? {
            "conversation" => {
                (self.snapshot.start, self.snapshot.end) = (unsigned(a), unsigned(b));
                let bits = payload.try_into().map(u64::from_be_bytes).map_err(|_| foreign())?;
                self.snapshot.incarnation = Some(Incarnation::from_bits(bits));
            }
            "system" => {
                let message = codec::decode(payload);
                let message = message.map_err(|error| unreadable_system("postgres", error))?;
                self.snapshot.system = Some(Arc::new(message));
            }
            "slot" => {
                let name = usize::try_from(b).ok().and_then(|name| payload.split_at_checked(name));
                let (name, content) = name.ok_or_else(foreign)?;
                let name = str::from_utf8(name).map_err(|_| foreign())?;
                self.slots.push(Slot::new(name, slot_version(a), content));
            }
            "picked" => self.picked.push_signed(a, b, codec::decode(payload)),
            _ => self.newest.push_signed(a, b, codec::decode(payload)),
        }
        Ok(())
    }

    fn into(self, read: &Read) -> Snapshot {
        let mut snapshot = self.snapshot;
        (snapshot.records, snapshot.unreadable) = self.newest.into();
        if read.is_plain() {
            return snapshot;
        }
        let (picked, unreadable) = self.picked.into();
        snapshot.with_picked(picked, unreadable).with_slots(self.slots)
    }
}

pub(super) fn foreign() -> Error {
    let text = "postgres: a row is not as this crate writes it: another program did";
    Error::new(ErrorKind::Storage, "read", text)
}

/// Returns the names of all slots with their versions.
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
