//! Slots and the newest append ids of a conversation.

use rusqlite::{Connection, OptionalExtension, params};

use super::failure::TxError;
use super::schema::{MOST_MESSAGES, first_key};
use super::writer::run;
use crate::error::{Error, ErrorKind};
use crate::memory::{Appended, Read};
use crate::message::Sha256;
use crate::record::{Slot, SlotVersion};
use crate::store::common::{appended, signed, slot_version, unsigned};
use crate::store::media::Found;

pub(super) const IDS: usize = 64;

/// Returns the slots that a read names.
pub(super) fn slots(connection: &Connection, key: i64, read: &Read) -> Result<Vec<Slot>, TxError> {
    let mut slots = Vec::new();
    for name in read.names() {
        let mut slot = connection.prepare_cached(SLOT)?;
        let slot = slot.query_row(params![key, name], |row| {
            Ok(Slot::new(name, slot_version(row.get(0)?), row.get_ref(1)?.as_bytes()?))
        });
        slots.extend(slot.optional()?);
    }
    Ok(slots)
}

pub(super) fn list(
    connection: &Connection,
    key: i64,
) -> rusqlite::Result<Vec<(String, SlotVersion)>> {
    let mut slots = connection.prepare_cached(SLOTS)?;
    slots.query_map([key], |row| Ok((row.get(0)?, slot_version(row.get(1)?))))?.collect()
}

pub(super) fn version(
    connection: &Connection,
    key: i64,
    name: &str,
) -> rusqlite::Result<Option<SlotVersion>> {
    let mut slot = connection.prepare_cached(VERSION)?;
    slot.query_row(params![key, name], |row| row.get(0).map(slot_version)).optional()
}

/// Returns the bytes of the media with these hashes, as far as they exist.
pub(super) fn media(
    connection: &Connection,
    key: i64,
    hashes: impl IntoIterator<Item = Sha256>,
) -> rusqlite::Result<Found> {
    let mut found = Found::new();
    for hash in hashes {
        let mut media = connection.prepare_cached(MEDIA)?;
        let bytes = media.query_row(params![key, hash.0], |row| row.get(0)).optional()?;
        found.extend(bytes.map(|bytes| (hash, bytes)));
    }
    Ok(found)
}

/// Returns the outcome of the append with this id, if it is one of the newest.
pub(super) fn known(
    connection: &Connection,
    key: i64,
    id: &str,
) -> rusqlite::Result<Option<Appended>> {
    // They are few and adjacent: an index would cost each append more than it saves.
    let first = first_key(key);
    let mut known = connection.prepare_cached(KNOWN)?;
    known
        .query_row(params![first, last_key(first), id], |row| {
            let positions = unsigned(row.get(0)?)..unsigned(row.get(1)?);
            let version: Option<i64> = row.get(2)?;
            Ok(Appended { repeated: true, ..appended(positions, version.map(slot_version)) })
        })
        .optional()
}

/// Records the outcome of an append, and forgets the oldest id.
pub(super) fn remember(
    connection: &Connection,
    key: i64,
    id: &str,
    appended: &Appended,
) -> Result<(), TxError> {
    let first = first_key(key);
    let newest: Option<i64> = connection
        .prepare_cached(NEWEST_ID)?
        .query_row([first, last_key(first)], |row| row.get(0))?;
    if newest == Some(last_key(first)) {
        let text = "sqlite: a conversation takes 2^32 ids of appends at most";
        return Err(Error::new(ErrorKind::Storage, "append", text).into());
    }
    let next = newest.map_or(first, |newest| newest.wrapping_add(1));
    let (positions, version) = (&appended.positions, appended.version);
    let version = version.map(|version| version.to_bits().cast_signed());
    let row = params![next, id, signed(positions.start), signed(positions.end), version];
    run(connection, REMEMBER, row)?;
    run(connection, FORGET_IDS, [first, next.wrapping_sub(signed(IDS))])?;
    Ok(())
}

fn last_key(first: i64) -> i64 {
    first | (MOST_MESSAGES - 1)
}

const SLOT: &str = "SELECT version, content FROM slot WHERE conversation = ?1 AND name = ?2";
const VERSION: &str = "SELECT version FROM slot WHERE conversation = ?1 AND name = ?2";
const SLOTS: &str = "SELECT name, version FROM slot WHERE conversation = ?1 ORDER BY name";
const KNOWN: &str =
    "SELECT first, past, version FROM appended WHERE key BETWEEN ?1 AND ?2 AND id = ?3 LIMIT 1";
const NEWEST_ID: &str = "SELECT max(key) FROM appended WHERE key BETWEEN ?1 AND ?2";
const REMEMBER: &str =
    "INSERT INTO appended (key, id, first, past, version) VALUES (?1, ?2, ?3, ?4, ?5)";
const FORGET_IDS: &str = "DELETE FROM appended WHERE key BETWEEN ?1 AND ?2";
const MEDIA: &str = "SELECT bytes FROM media WHERE conversation = ?1 AND hash = ?2";
