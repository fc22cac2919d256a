//! Appending: one statement, including everything that goes with the messages.
//!
//! A statement sees what was committed before it began, but may then wait for the row of its
//! conversation while others change it. After the wait, conditions on that row are checked again in
//! its newest version. Conditions on other rows are not. So:
//!
//! - The id of an append is a unique row. If another append with the same id was committed
//!   meanwhile, the server undoes the statement, and it is retried.
//! - The row of the conversation counts the changes of its slots. If that number has changed since
//!   the statement began, the statement does nothing and is retried, this time with the row locked,
//!   so that faster writers can't starve it.

use std::ops::Range;
use std::time::SystemTime;

use deadpool_postgres::tokio_postgres::types::Type;

use super::ask::{LockedQuery, Parameter, Query, value};
use super::connect::Connections;
use super::schema::{Tables, key, key_of};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Expected, Limits, MemoryId};
use crate::record::{Incarnation, SlotVersion, millis};
use crate::store::common::{appended, signed, slot_version, times_of_records, unsigned};
use crate::store::payloads::Payloads;

/// The most retries of an append. With the row locked it is done or refused, unless there is no
/// row.
const MOST_TRIES: u32 = 100;

const IDS: usize = 64;

/// The most bytes of one message to the server, with some room for the rest of it.
const MOST_BYTES: usize = 0x3fff_ffff - 0x1_0000;

/// The bytes that are sent with those of media: their hash and their place, each with its length.
const BESIDE_BYTES: usize = 32 + 8 + 2 * 4;

/// The largest slot. Slots should be far smaller than this.
const MOST_SLOT: usize = 64 << 20;

pub(super) const LIMITS: Limits =
    Limits { message: MOST_BYTES - 8, batch: MOST_BYTES, slot: MOST_SLOT, ids: IDS };

/// Appends, and takes the messages out of `append` once they are stored.
pub(super) async fn append(
    connections: &Connections,
    id: &MemoryId,
    append: &mut Append,
) -> Result<Appended> {
    append.check(&LIMITS)?;
    let payloads = Payloads::of("postgres", connections.encoding, &append.messages)?;
    check_size(&payloads, append)?;
    let mut lost_races = 0;
    let done = loop {
        let tried = if append.is_empty() {
            None
        } else {
            try_append(connections, id, append, &payloads, lost_races > 0).await?
        };
        let done = match tried {
            Some(done) => Some(done),
            None => State::of(connections, id, append).await?.answer(append)?,
        };
        if let Some(done) = done {
            break done;
        }
        lost_races += 1;
        connections.watch.lost_race("append");
        if lost_races > MOST_TRIES {
            let text = "postgres: the conversation was deleted and begun again all the while";
            return Err(Error::new(ErrorKind::Storage, "append", text));
        }
    };
    append.messages.clear();
    Ok(done)
}

/// Refuses a batch that is too large: it would end the session.
fn check_size(payloads: &Payloads, append: &Append) -> Result<()> {
    let bytes: usize = payloads.sizes(&append.slots).sum();
    let beside = payloads.beside.len() * BESIDE_BYTES;
    // A message comes with two lengths and a time, a slot with its name, which is sent twice.
    let names: usize = append.slots.iter().map(|slot| 2 * slot.name.len() + 24).sum();
    if bytes + 16 * payloads.sizes(&append.slots).count() + names + beside > MOST_BYTES {
        let text = format!("postgres: a batch holds 1 GB at most, and this one {bytes} bytes");
        return Err(Error::invalid("append", text));
    }
    Ok(())
}

/// Tries to append. Returns `None` if a condition did not hold or another transaction was faster.
async fn try_append(
    connections: &Connections,
    id: &MemoryId,
    append: &Append,
    payloads: &Payloads,
    locked: bool,
) -> Result<Option<Appended>> {
    let now = signed(millis(SystemTime::now()));
    let times = times_of_records(append).map(signed).chain(std::iter::repeat(now));
    let times: Vec<i64> = times.take(payloads.messages.len()).collect();
    let names: Vec<&[u8]> = append.slots.iter().map(|change| change.name.as_bytes()).collect();
    let contents: Vec<Option<&[u8]>> =
        append.slots.iter().map(|change| change.content.as_deref()).collect();
    let version = append.writes_slots().then(SlotVersion::random);
    let (expecting, expected): (Vec<&[u8]>, Vec<Option<i64>>) = append
        .slots
        .iter()
        .filter_map(|change| {
            let version = match change.expected {
                Expected::Any => return None,
                Expected::Absent => None,
                Expected::Is(version) => Some(version.to_bits().cast_signed()),
            };
            Some((change.name.as_bytes(), version))
        })
        .unzip();
    let since = append.since.as_ref();
    let seen = since.and_then(|since| since.incarnation).map(|it| it.to_bits().cast_signed());
    let hashes: Vec<&[u8]> = payloads.beside.keys().map(|it| &it.0[..]).collect();
    let (places, bytes): (Vec<i64>, Vec<&[u8]>) =
        payloads.beside.values().map(|(place, bytes)| (signed(*place), &bytes[..])).unzip();
    let parameters: [Parameter<'_>; 19] = [
        (&id.as_str().as_bytes(), Type::BYTEA),
        (&now, Type::INT8),
        (&payloads.messages, Type::BYTEA_ARRAY),
        (&payloads.system, Type::BYTEA),
        (&append.expected.map(signed), Type::INT8),
        (&Incarnation::random().to_bits().cast_signed(), Type::INT8),
        (&times, Type::INT8_ARRAY),
        (&append.active.map(|active| signed(millis(active))), Type::INT8),
        (&seen, Type::INT8),
        (&since.and_then(|since| since.newest).map(signed), Type::INT8),
        (&append.id.as_deref().map(str::as_bytes), Type::BYTEA),
        (&names, Type::BYTEA_ARRAY),
        (&contents, Type::BYTEA_ARRAY),
        (&version.map(|version| version.to_bits().cast_signed()), Type::INT8),
        (&expecting, Type::BYTEA_ARRAY),
        (&expected, Type::INT8_ARRAY),
        (&hashes, Type::BYTEA_ARRAY),
        (&places, Type::INT8_ARRAY),
        (&bytes, Type::BYTEA_ARRAY),
    ];
    let tables = &connections.tables;
    let lock = locked.then(|| {
        let (conversation, key) = (&tables.conversation, key_of(id));
        format!("SELECT FROM {conversation} WHERE key = {key} FOR NO KEY UPDATE")
    });
    // If the conversation is expected to exist, it must not be created.
    let begins = append.creates() && append.check_on_nothing().is_ok();
    let query = Query::often(statement(tables, begins), &parameters);
    let rows = connections.ask("append", &LockedQuery { lock, query }).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let end = unsigned(value(row, 0)?);
    Ok(Some(appended(end.saturating_sub(times.len() as u64)..end, version)))
}

// The parameters of the statement.
const CONVERSATION: &str = "$1";
const NOW: &str = "$2";
const PAYLOADS: &str = "$3";
const SYSTEM: &str = "$4";
const EXPECTED: &str = "$5";
/// The incarnation for a conversation that this append begins.
const INCARNATION: &str = "$6";
const TIMES: &str = "$7";
const ACTIVE: &str = "$8";
/// The incarnation that was seen, and the newest position at that time.
const SEEN: &str = "$9";
const NEWEST: &str = "$10";
const ID: &str = "$11";
/// The slots that are changed: their names, contents, and new version.
const NAMES: &str = "$12";
const CONTENTS: &str = "$13";
const VERSION: &str = "$14";
/// The slots with expectations: their names and versions.
const CHECKED: &str = "$15";
const VERSIONS: &str = "$16";
/// The media beside records: their hashes, the places of their messages, and their bytes.
const HASHES: &str = "$17";
const PLACES: &str = "$18";
const BYTES: &str = "$19";

/// Returns the statement. It answers with the new end of the conversation, or with nothing. With
/// `begins`, it creates the conversation if there is none; otherwise it then does nothing. The
/// bytes of media that are already there are not written again.
fn statement(tables: &Tables, begins: bool) -> String {
    let Tables { message, slot, append, media, .. } = tables;
    let (key, extended) = (key(CONVERSATION), extend(tables, begins));
    format!(
        r#"WITH extended AS ({extended} RETURNING key, "end", ids), system AS (
            INSERT INTO {message} AS m (conversation, position, at, payload)
            SELECT key, -1, {NOW}, {SYSTEM} FROM extended WHERE {SYSTEM} IS NOT NULL
            ON CONFLICT (conversation, position) DO UPDATE
            SET at = excluded.at, payload = excluded.payload
        ), messages AS (
            INSERT INTO {message} (conversation, position, at, payload)
            SELECT key, "end" - cardinality({PAYLOADS}) + i - 1, batch.at, payload
            FROM extended, unnest({PAYLOADS}, {TIMES}) WITH ORDINALITY AS batch (payload, at, i)
        ), written AS (
            INSERT INTO {slot} AS s (conversation, name, version, content)
            SELECT key, name, {VERSION}, content
            FROM extended, unnest({NAMES}, {CONTENTS}) AS change (name, content)
            WHERE content IS NOT NULL
            ON CONFLICT (conversation, name) DO UPDATE
            SET version = excluded.version, content = excluded.content
        ), removed AS (
            DELETE FROM {slot} AS s
            USING extended, unnest({NAMES}, {CONTENTS}) AS change (name, content)
            WHERE s.conversation = {key} AND s.name = change.name AND change.content IS NULL
        ), noted AS (
            INSERT INTO {append} (conversation, id, start, "end", version, number)
            SELECT key, {ID}, "end" - cardinality({PAYLOADS}), "end", {VERSION}, ids FROM extended
            WHERE {ID} IS NOT NULL
        ), forgotten AS (
            DELETE FROM {append} AS a USING extended
            WHERE {ID} IS NOT NULL AND a.conversation = {key} AND a.number <= extended.ids - {IDS}
        ), kept AS (
            INSERT INTO {media} AS m (conversation, hash, last, bytes)
            SELECT key, hash, "end" - cardinality({PAYLOADS}) + place, bytes
            FROM extended, unnest({HASHES}, {PLACES}, {BYTES}) AS beside (hash, place, bytes)
            ON CONFLICT (conversation, hash) DO UPDATE SET last = greatest(m.last, excluded.last)
        )
        SELECT "end" FROM extended"#
    )
}

/// Returns the part of the statement that settles the positions. While others append, it waits for
/// the row and continues from its newest version.
fn extend(tables: &Tables, begins: bool) -> String {
    let Tables { conversation, slot, append, .. } = tables;
    let key = key(CONVERSATION);
    let slots = format!("(cardinality({NAMES}) > 0)::int");
    let ids = format!("({ID} IS NOT NULL)::int");
    let changes = format!(
        r#"SET "end" = c."end" + cardinality({PAYLOADS}),
        active = coalesce({ACTIVE}, greatest(c.active, {NOW})),
        slots = c.slots + {slots}, ids = c.ids + {ids}"#
    );
    // Conditions on the newest version of the row.
    let newest = format!(
        r#"({EXPECTED} IS NULL OR c."end" = {EXPECTED})
        AND ({SEEN} IS NULL OR c.incarnation = {SEEN})
        AND ({NEWEST} IS NULL OR {NEWEST} >= c.start AND {NEWEST} < c."end")
        AND (cardinality({NAMES}) = 0 OR (c.incarnation, c.slots) =
            (SELECT incarnation, slots FROM {conversation} WHERE key = {key}))"#
    );
    // Conditions on other rows, as of the start of the statement. A slot without a version does not
    // exist.
    let before = format!(
        "({ID} IS NULL OR NOT EXISTS
            (SELECT FROM {append} WHERE conversation = {key} AND id = {ID}))
        AND NOT EXISTS (SELECT FROM unnest({CHECKED}, {VERSIONS}) AS expected (name, version)
            LEFT JOIN {slot} AS s ON s.conversation = {key} AND s.name = expected.name
            WHERE s.version IS DISTINCT FROM expected.version)"
    );
    if !begins {
        return format!(
            "UPDATE {conversation} AS c {changes} WHERE key = {key} AND {newest} AND {before}"
        );
    }
    format!(
        r#"INSERT INTO {conversation} AS c (key, start, "end", active, id, incarnation, slots, ids)
        SELECT {key}, 0, cardinality({PAYLOADS}), coalesce({ACTIVE}, {NOW}), {CONVERSATION},
            {INCARNATION}, {slots}, {ids} WHERE {before}
        ON CONFLICT (key) DO UPDATE {changes} WHERE {newest}"#
    )
}

/// What an append needs to know about its conversation.
#[derive(Default)]
struct State {
    known: Option<Appended>,
    /// `0..0` if there is no conversation.
    positions: Range<u64>,
    incarnation: Option<Incarnation>,
    slots: Vec<(Vec<u8>, SlotVersion)>,
}

impl State {
    async fn of(connections: &Connections, id: &MemoryId, append: &Append) -> Result<Self> {
        let names: Vec<&[u8]> = append.slots.iter().map(|change| change.name.as_bytes()).collect();
        let parameters: [Parameter<'_>; 3] = [
            (&id.as_str().as_bytes(), Type::BYTEA),
            (&names, Type::BYTEA_ARRAY),
            (&append.id.as_deref().map(str::as_bytes), Type::BYTEA),
        ];
        let tables = &connections.tables;
        let rows = if append.id.is_some() {
            let query = Query::often(state_of_id(tables), &parameters);
            connections.ask("append", &LockedQuery { lock: None, query }).await?
        } else {
            let query = Query::often(state(tables), &parameters[..2]);
            connections.ask("append", &query).await?
        };
        let mut state = Self::default();
        for row in &rows {
            let positions = unsigned(value(row, 1)?)..unsigned(value(row, 2)?);
            let stamp: Option<i64> = value(row, 3)?;
            match (value::<&str>(row, 0)?, stamp) {
                ("known", version) => {
                    let known = appended(positions, version.map(slot_version));
                    state.known = Some(Appended { repeated: true, ..known });
                }
                ("slot", Some(version)) => {
                    let name: &[u8] = value(row, 4)?;
                    state.slots.push((name.to_vec(), slot_version(version)));
                }
                (_, incarnation) => {
                    state.positions = positions;
                    let bits = incarnation.map(i64::cast_unsigned);
                    state.incarnation = bits.map(Incarnation::from_bits);
                }
            }
        }
        Ok(state)
    }

    /// Returns the outcome of an append that changes nothing; `None` if it should be made.
    fn answer(self, append: &Append) -> Result<Option<Appended>> {
        if self.known.is_some() {
            return Ok(self.known);
        }
        append.check_conversation("postgres: ", self.incarnation, &self.positions)?;
        for change in &append.slots {
            let found = self.slots.iter().find(|slot| slot.0 == change.name.as_bytes());
            change.holds(found.map(|slot| slot.1))?;
        }
        let begins = append.creates() || self.incarnation.is_some();
        let end = self.positions.end;
        Ok((append.is_empty() || !begins).then(|| appended(end..end, None)))
    }
}

fn state(tables: &Tables) -> String {
    let Tables { conversation, slot, .. } = tables;
    let key = key("$1");
    format!(
        r#"SELECT 'conversation', start, "end", incarnation, NULL::bytea FROM {conversation} WHERE key = {key}
        UNION ALL
        SELECT 'slot', 0, 0, version, name FROM {slot} WHERE conversation = {key} AND name = ANY ($2)"#
    )
}

/// Returns the same statement, which also finds the append's id.
///
/// It writes without changing anything, so it waits for the same as the first append. If that
/// waited for a standby and was abandoned, it is only on the primary until then.
fn state_of_id(tables: &Tables) -> String {
    let (state, append, key) = (state(tables), &tables.append, key("$1"));
    format!(
        r#"WITH known AS (
            UPDATE {append} SET number = number WHERE conversation = {key} AND id = $3
            RETURNING start, "end", version
        ) {state} UNION ALL SELECT 'known', start, "end", version, NULL FROM known"#
    )
}
