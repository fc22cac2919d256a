//! Appends: what is written, and what is checked before.

use std::ops::Range;
use std::time::SystemTime;

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, ToSql, params};

use super::extras;
use super::failure::TxError;
use super::read::{Found, find};
use super::schema::{MOST_CONVERSATIONS, MOST_MESSAGES, first_key};
use super::writer::run;
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, MemoryId};
use crate::record::{Incarnation, SlotVersion, millis};
use crate::store::common::{appended, signed, times_of_records, unsigned};
use crate::store::payloads::{Encoding, Payloads};

/// An append, prepared as far as possible before the lock is taken.
pub(super) struct PreparedAppend {
    id: MemoryId,
    codec: Codec,
    payloads: Payloads,
    now: i64,
    /// The time of each payload; empty if it is the current time.
    times: Vec<i64>,
    rest: Append,
    is_empty: bool,
    creates: bool,
}

impl PreparedAppend {
    pub(super) fn new(id: &MemoryId, encoding: Encoding, append: &mut Append) -> Result<Self> {
        let payloads = Payloads::of("sqlite", encoding, &append.messages)?;
        let times = times_of_records(append).map(signed).collect();
        let (is_empty, creates) = (append.is_empty(), append.creates());
        let messages = std::mem::take(&mut append.messages);
        let rest = append.clone();
        append.messages = messages;
        let now = signed(millis(SystemTime::now()));
        let (id, codec) = (id.clone(), encoding.codec);
        Ok(Self { id, codec, payloads, now, times, rest, is_empty, creates })
    }

    /// Makes the whole append in the open transaction. If it fails, the caller undoes the
    /// transaction or its savepoint.
    pub(super) fn make(&self, connection: &Connection) -> Result<Appended, TxError> {
        let Append { id, slots, since, .. } = &self.rest;
        let is_plain = id.is_none() && slots.is_empty() && since.is_none() && self.creates;
        if !is_plain && let Some(done) = self.look(connection)? {
            return Ok(done);
        }
        let (key, positions) = self.write(connection)?;
        let mut version = None;
        for change in slots {
            if let Some(content) = &change.content {
                let version = version.get_or_insert_with(SlotVersion::random);
                let version = version.to_bits().cast_signed();
                run(connection, SET_SLOT, params![key, change.name, version, content])?;
            } else {
                run(connection, REMOVE_SLOT, params![key, change.name])?;
            }
        }
        let appended = appended(positions, version);
        if let Some(id) = id {
            extras::remember(connection, key, id, &appended)?;
        }
        Ok(appended)
    }

    /// Appends the messages; returns the key of the conversation, and their positions.
    fn write(&self, connection: &Connection) -> Result<(i64, Range<u64>), TxError> {
        let Self { id, codec, now, rest, .. } = self;
        let system = self.payloads.system.as_deref().map(|payload| Payload(*codec, payload));
        let count = signed(self.payloads.messages.len());
        let active = rest.active.map(|active| signed(millis(active)));
        let extended = connection
            .prepare_cached(EXTEND)?
            .query_row(
                params![id.as_str(), count, now, system, rest.expected.map(signed), active],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()?;
        let (key, end): (i64, i64) = if let Some(extended) = extended {
            extended
        } else {
            // Either the conversation does not exist yet, or it ends elsewhere, which is an error.
            self.look(connection)?;
            let (active, new) = (active.unwrap_or(*now), Incarnation::random());
            (begin(connection, id, 0..count, active, system, new)?, count)
        };
        if end > MOST_MESSAGES || key > MOST_CONVERSATIONS {
            return Err(too_many("append"));
        }
        let first = end - count;
        let mut insert = connection.prepare_cached(INSERT)?;
        for (i, payload) in self.payloads.messages.iter().enumerate() {
            let key = first_key(key).wrapping_add(first).wrapping_add(signed(i));
            let at = self.times.get(i).unwrap_or(now);
            insert.execute(params![key, at, Payload(*codec, payload)])?;
        }
        for (sha256, (place, bytes)) in &self.payloads.beside {
            run(connection, KEEP, params![key, sha256.0, first + signed(*place), bytes])?;
        }
        Ok((key, unsigned(first)..unsigned(end)))
    }

    /// Checks the expectations. Returns the outcome if nothing is to be changed.
    fn look(&self, connection: &Connection) -> Result<Option<Appended>, TxError> {
        let Append { id, slots, .. } = &self.rest;
        let found = find(connection, &self.id)?;
        if let (Some(found), Some(id)) = (&found, id)
            && let Some(known) = extras::known(connection, found.key, id)?
        {
            return Ok(Some(known));
        }
        let positions = found.as_ref().map_or(0..0, Found::positions);
        let incarnation = found.as_ref().map(Found::incarnation);
        self.rest.check_conversation("sqlite: ", incarnation, &positions)?;
        for change in slots {
            let key = found.as_ref().map(|found| found.key);
            let version = key.map(|key| extras::version(connection, key, &change.name));
            change.holds(version.transpose()?.flatten())?;
        }
        let nothing_to_do = self.is_empty || found.is_none() && !self.creates;
        Ok(nothing_to_do.then(|| appended(positions.end..positions.end, None)))
    }
}

/// Creates a conversation; returns its key, which may exceed the maximum by one.
pub(super) fn begin(
    connection: &Connection,
    id: &MemoryId,
    positions: Range<i64>,
    active: i64,
    system: Option<Payload<'_>>,
    incarnation: Incarnation,
) -> rusqlite::Result<i64> {
    let incarnation = incarnation.to_bits().cast_signed();
    let new = params![id.as_str(), positions.start, positions.end, active, system, incarnation];
    run(connection, CREATE, new)?;
    Ok(connection.last_insert_rowid())
}

pub(super) fn too_many(operation: &'static str) -> TxError {
    let text = "sqlite: a conversation holds 2^32 messages at most, and a file 2^31 conversations";
    Error::new(ErrorKind::Storage, operation, text).into()
}

/// A message in its codec. JSON is stored as text, so that SQLite's own functions can read it.
#[derive(Clone, Copy)]
pub(super) struct Payload<'a>(Codec, &'a [u8]);

impl ToSql for Payload<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let Self(codec, bytes) = self;
        Ok(ToSqlOutput::Borrowed(match codec {
            Codec::Json => ValueRef::Text(bytes),
            #[cfg(feature = "bincode")]
            Codec::Bincode => ValueRef::Blob(bytes),
        }))
    }
}

const CREATE: &str = r#"
    INSERT INTO conversation (id, start, "end", active, system, incarnation)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)"#;
/// Finds the conversation, checks its end, and moves the end, in one statement.
const EXTEND: &str = r#"
    UPDATE conversation
    SET "end" = "end" + ?2,
        active = coalesce(?6, max(active, ?3)),
        system = coalesce(?4, system)
    WHERE id = ?1 AND (?5 IS NULL OR "end" = ?5)
    RETURNING key, "end""#;
const INSERT: &str = "INSERT INTO message (key, at, payload) VALUES (?1, ?2, ?3)";
/// Keeps the bytes of media once, whichever message refers to them.
const KEEP: &str = "
    INSERT INTO media (conversation, hash, last, bytes) VALUES (?1, ?2, ?3, ?4)
    ON CONFLICT DO UPDATE SET last = max(last, excluded.last)";
const SET_SLOT: &str = "
    INSERT OR REPLACE INTO slot (conversation, name, version, content) VALUES (?1, ?2, ?3, ?4)";
const REMOVE_SLOT: &str = "DELETE FROM slot WHERE conversation = ?1 AND name = ?2";
