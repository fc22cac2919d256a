//! Reads a conversation, all of one moment.

use std::ops::Range;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row};

use super::extras;
use super::failure::TxError;
use super::schema::first_key;
use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, Snapshot, time_of};
use crate::store::common::{self, Rows, signed, unsigned};
use crate::store::read_rows::ReadRows;
use crate::store::{Info, media};

/// The row of a conversation, without its system message.
pub(super) struct Found {
    pub(super) key: i64,
    pub(super) start: i64,
    pub(super) end: i64,
    active: i64,
    incarnation: i64,
}

impl Found {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            key: row.get(0)?,
            start: row.get(1)?,
            end: row.get(2)?,
            active: row.get(3)?,
            incarnation: row.get(4)?,
        })
    }

    pub(super) fn positions(&self) -> Range<u64> {
        unsigned(self.start)..unsigned(self.end)
    }

    pub(super) fn incarnation(&self) -> Incarnation {
        Incarnation::from_bits(self.incarnation.cast_unsigned())
    }

    pub(super) fn info(&self) -> Info {
        let info = Info::new(self.positions(), time_of(unsigned(self.active)));
        info.with_incarnation(self.incarnation())
    }
}

pub(super) fn find(connection: &Connection, id: &MemoryId) -> rusqlite::Result<Option<Found>> {
    let mut conversation = connection.prepare_cached(CONVERSATION)?;
    conversation.query_row([id.as_str()], Found::from_row).optional()
}

pub(super) fn snapshot(
    connection: &Connection,
    id: &MemoryId,
    read: &Read,
) -> Result<Snapshot, TxError> {
    let mut conversation = connection.prepare_cached(CONVERSATION)?;
    let mut rows = conversation.query([id.as_str()])?;
    let Some(row) = rows.next()? else {
        return Ok(Snapshot::default());
    };
    let found = Found::from_row(row)?;
    let system = row.get_ref(5)?;
    let system = (system != ValueRef::Null).then(|| decode(system));
    let snapshot = Snapshot {
        system: common::system("sqlite", system)?,
        start: unsigned(found.start),
        end: unsigned(found.end),
        incarnation: Some(found.incarnation()),
        ..Snapshot::default()
    };
    let mut answer = ReadRows { snapshot, ..ReadRows::default() };
    let before = read.before.map_or(found.end, signed).min(found.end);
    if read.n > 0 && before > found.start {
        add_rows(&mut answer.newest, connection, &found, found.start..before, read.n)?;
    }
    for stretch in read.stretches(found.positions()) {
        let stretch = signed(stretch.start)..signed(stretch.end);
        add_rows(&mut answer.picked, connection, &found, stretch, usize::MAX)?;
    }
    answer.slots = extras::slots(connection, found.key, read)?;
    let media = extras::media(connection, found.key, answer.lacking(read, &media::Found::new()))?;
    Ok(answer.into_snapshot(read, &media))
}

/// Adds the newest `n` rows of these positions.
fn add_rows(
    rows: &mut Rows,
    connection: &Connection,
    of: &Found,
    positions: Range<i64>,
    n: usize,
) -> rusqlite::Result<()> {
    let first = first_key(of.key);
    let mut newest = connection.prepare_cached(NEWEST)?;
    let mut found = newest.query([
        first.wrapping_add(positions.start),
        first.wrapping_add(positions.end),
        signed(n),
    ])?;
    while let Some(row) = found.next()? {
        let position = row.get::<_, i64>(0)?.wrapping_sub(first);
        rows.push_signed(position, row.get(1)?, decode(row.get_ref(2)?));
    }
    Ok(())
}

fn decode(payload: ValueRef<'_>) -> Result<Message> {
    match payload {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => codec::decode(bytes),
        _ => {
            let text = "sqlite: the payload is neither text nor blob";
            Err(Error::new(ErrorKind::Codec, "read", text))
        }
    }
}

const CONVERSATION: &str =
    r#"SELECT key, start, "end", active, incarnation, system FROM conversation WHERE id = ?1"#;
const NEWEST: &str =
    "SELECT key, at, payload FROM message WHERE key >= ?1 AND key < ?2 ORDER BY key DESC LIMIT ?3";
