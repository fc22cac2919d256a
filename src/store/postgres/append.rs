//! Appending: one statement, whatever goes with the messages.
//!
//! A statement sees what was committed before it began, and may then wait for the row of its
//! conversation while others change it. What is said of that row itself is looked at anew when the
//! wait is over, in its newest version. What lies in other rows is not; so:
//!
//! - The id of an append is a row that there can be once. Where another append under it was
//!   committed meanwhile, the server undoes the statement, and it is asked again.
//! - The row of the conversation counts the changes of its slots. Where that number is not the one
//!   that the statement saw, it does nothing, and it is asked again; then when the row is locked,
//!   so that nobody who is faster can keep it waiting.

use std::time::SystemTime;

use deadpool_postgres::tokio_postgres::types::Type;

use super::ask::{Change, Locked, Parameter, Read, millis_until};
use super::schema::Tables;
use super::statements::{IN_TIME, Statement, key, key_of};
use super::{LIMITS, PostgresMemory, Shared, check_size, value};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, Expected};
use crate::record::{Incarnation, SlotVersion, millis};
use crate::store::common::{
    Payloads, appended, check_expected, signed, slot_version, times_of_records, unsigned,
};

/// The most times that an append is tried again. With the row locked it is done or refused, unless
/// there is none.
const PATIENCE: u32 = 100;

/// The number of ids of appends that a conversation recognises.
pub(super) const IDS: usize = 64;

// The parameters of an append. One that is plain has those up to the incarnation. (The first one,
// which all changes have, says until when it may be done.)
const UNTIL: &str = "$1";
const CONVERSATION: &str = "$2";
const NOW: &str = "$3";
const PAYLOADS: &str = "$4";
const SYSTEM: &str = "$5";
/// The expected end.
const EXPECTED: &str = "$6";
/// The incarnation of a conversation that it begins.
const INCARNATION: &str = "$7";
const TIMES: &str = "$8";
const ACTIVE: &str = "$9";
/// The incarnation that was seen, and the position of the newest record then.
const SEEN: &str = "$10";
const NEWEST: &str = "$11";
const ID: &str = "$12";
/// The slots that are changed: their names, contents, and new version.
const NAMES: &str = "$13";
const CONTENTS: &str = "$14";
const VERSION: &str = "$15";
/// The slots that are expected to be so: their names and versions.
const CHECKED: &str = "$16";
const VERSIONS: &str = "$17";

/// The parts of an append besides messages. Its statement mentions those alone that it has.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[expect(clippy::struct_excessive_bools, reason = "each part is there or not, whatever the others")]
pub(super) struct Shape {
    /// It begins a conversation where there is none, or else does nothing then.
    begins: bool,
    /// It has times, or expects what was seen.
    more: bool,
    id: bool,
    slots: bool,
}

impl Shape {
    /// Returns the shape of an append of messages and nothing else.
    pub(super) fn plain(begins: bool) -> Self {
        Self { begins, more: false, id: false, slots: false }
    }

    /// Returns each shape.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let shape = |bits: u8| Self {
            begins: bits & 1 > 0,
            more: bits & 2 > 0,
            id: bits & 4 > 0,
            slots: bits & 8 > 0,
        };
        (0..16).map(shape)
    }

    fn of(append: &Append) -> Self {
        Self {
            // What is expected to be there already must not be created.
            begins: append.creates() && append.check_on_nothing().is_ok(),
            more: !append.times.is_empty() || append.active.is_some() || append.since.is_some(),
            id: append.id.is_some(),
            slots: !append.slots.is_empty(),
        }
    }

    fn is_plain(self) -> bool {
        !(self.more || self.id || self.slots)
    }

    /// Returns the statement, whose answer is where the conversation ends now, or nothing.
    pub(super) fn statement(self, tables: &Tables) -> String {
        let Tables { message, .. } = tables;
        let extended = self.extended(tables);
        let (payloads, at) = if self.more {
            (format!("{PAYLOADS}, {TIMES}"), "batch.at")
        } else {
            (PAYLOADS.to_owned(), NOW)
        };
        let columns = if self.more { "payload, at, i" } else { "payload, i" };
        let slots = if self.slots { changed_slots(tables) } else { String::new() };
        let id = if self.id { noted_id(tables) } else { String::new() };
        format!(
            r#"WITH extended AS ({extended} RETURNING key, "end", ids), system AS (
                INSERT INTO {message} AS m (conversation, seq, at, payload)
                SELECT key, -1, {NOW}, {SYSTEM} FROM extended WHERE {SYSTEM} IS NOT NULL
                ON CONFLICT (conversation, seq) DO UPDATE
                SET at = excluded.at, payload = excluded.payload
            ), messages AS (
                INSERT INTO {message} (conversation, seq, at, payload)
                SELECT key, "end" - cardinality({PAYLOADS}) + i - 1, {at}, payload
                FROM extended, unnest({payloads}) WITH ORDINALITY AS batch ({columns})
            ){slots}{id}
            SELECT "end" / {IN_TIME} FROM extended"#
        )
    }

    /// Returns the part of the statement that settles the positions. Where others append meanwhile,
    /// it waits for the row and goes on from its newest version.
    fn extended(self, tables: &Tables) -> String {
        let Tables { conversation, .. } = tables;
        let key = key(CONVERSATION);
        let (slots, ids) = (i32::from(self.slots), i32::from(self.id));
        let active = format!("greatest(c.active, {NOW})");
        let active = if self.more { format!("coalesce({ACTIVE}, {active})") } else { active };
        let changes = format!(
            r#"SET "end" = c."end" + cardinality({PAYLOADS}), active = {active},
            slots = c.slots + {slots}, ids = c.ids + {ids}"#
        );
        let newest = self.newest(tables);
        let before = self.before(tables);
        if !self.begins {
            return format!(
                "UPDATE {conversation} AS c {changes} WHERE key = {key} AND {newest} AND {before}"
            );
        }
        let active = if self.more { format!("coalesce({ACTIVE}, {NOW})") } else { NOW.to_owned() };
        format!(
            r#"INSERT INTO {conversation} AS c (key, start, "end", active, id, incarnation, slots, ids)
            SELECT {key}, 0, cardinality({PAYLOADS}), {active}, {CONVERSATION}, {INCARNATION}, {slots}, {ids} WHERE {before}
            ON CONFLICT (key) DO UPDATE {changes} WHERE {newest}"#
        )
    }

    /// Returns the conditions on the newest version of the row.
    fn newest(self, tables: &Tables) -> String {
        let mut all = vec![format!(r#"({EXPECTED} IS NULL OR c."end" = {EXPECTED})"#)];
        if self.more {
            all.push(format!("({SEEN} IS NULL OR c.incarnation = {SEEN})"));
            all.push(format!(
                r#"({NEWEST} IS NULL OR {NEWEST} >= c.start AND {NEWEST} < c."end")"#
            ));
        }
        if self.slots {
            let Tables { conversation, .. } = tables;
            all.push(format!(
                "(c.incarnation, c.slots) =
                (SELECT incarnation, slots FROM {conversation} WHERE key = {})",
                key(CONVERSATION)
            ));
        }
        all.join(" AND ")
    }

    /// Returns the conditions on other rows, as they were when the statement began; beside that it
    /// sets how long the statement may wait for a lock.
    fn before(self, tables: &Tables) -> String {
        let Tables { slot, append, .. } = tables;
        let key = key(CONVERSATION);
        // It waits for as long as there is time, so that the server says that it did nothing while
        // somebody still waits.
        let lock_timeout = millis_until(UNTIL, 900);
        // The setting holds until the end of the transaction, which is that of the statement.
        let mut all =
            vec![format!("(SELECT set_config('lock_timeout', {lock_timeout}, true)) IS NOT NULL")];
        if self.id {
            all.push(format!(
                "NOT EXISTS (SELECT FROM {append} WHERE conversation = {key} AND id = {ID})"
            ));
        }
        if self.slots {
            // A slot of no version is one that is not there.
            all.push(format!(
                "NOT EXISTS (SELECT FROM unnest({CHECKED}, {VERSIONS}) AS expected (name, version)
                LEFT JOIN {slot} AS s ON s.conversation = {key} AND s.name = expected.name
                WHERE s.version IS DISTINCT FROM expected.version)"
            ));
        }
        all.join(" AND ")
    }
}

fn changed_slots(tables: &Tables) -> String {
    let Tables { slot, .. } = tables;
    let key = key(CONVERSATION);
    format!(
        ", written AS (
            INSERT INTO {slot} AS s (conversation, name, version, content)
            SELECT key, name, {VERSION}, content FROM extended, unnest({NAMES}, {CONTENTS}) AS change (name, content)
            WHERE content IS NOT NULL
            ON CONFLICT (conversation, name) DO UPDATE
            SET version = excluded.version, content = excluded.content
        ), removed AS (
            DELETE FROM {slot} AS s USING extended, unnest({NAMES}, {CONTENTS}) AS change (name, content)
            WHERE s.conversation = {key} AND s.name = change.name AND change.content IS NULL
        )"
    )
}

fn noted_id(tables: &Tables) -> String {
    let Tables { append, .. } = tables;
    let key = key(CONVERSATION);
    format!(
        r#", noted AS (
            INSERT INTO {append} (conversation, id, start, "end", version, number)
            SELECT key, {ID}, "end" - cardinality({PAYLOADS}), "end", {VERSION}, ids FROM extended
        ), forgotten AS (
            DELETE FROM {append} AS a USING extended
            WHERE a.conversation = {key} AND a.number <= extended.ids - {IDS}
        )"#
    )
}

/// Appends with all that goes with it.
pub(super) async fn append_with(memory: &PostgresMemory, append: &mut Append) -> Result<Appended> {
    append.check(&LIMITS)?;
    let shape = Shape::of(append);
    if shape.is_plain() {
        let positions = memory.append_messages(&mut append.messages, append.expected).await?;
        return Ok(appended(positions, None));
    }
    let statement = memory.shared.statements.append(shape);
    let payloads = Payloads::of("postgres", memory.shared.codec, &append.messages)?;
    check_size(&payloads, &append.slots)?;
    let mut again = 0;
    let done = loop {
        let tried = if append.is_empty() {
            None
        } else {
            tried(memory, append, statement, &payloads, again > 0).await?
        };
        let done = match tried {
            Some(done) => Some(done),
            None => State::of(memory, append).await?.answer(append)?,
        };
        if let Some(done) = done {
            break done;
        }
        again += 1;
        memory.shared.connections.watch.lost_race("append");
        if again > PATIENCE {
            let text = "postgres: the conversation came and went all the while";
            return Err(Error::new(ErrorKind::Storage, "append", text));
        }
    };
    append.messages.clear();
    Ok(done)
}

/// Tries to append; returns nothing where something is not as expected, or was changed meanwhile.
async fn tried(
    memory: &PostgresMemory,
    append: &Append,
    statement: &Statement,
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
    let parameters: [Parameter<'_>; 16] = [
        (&memory.id.as_str().as_bytes(), Type::BYTEA),
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
    ];
    let change = Change(statement, &parameters);
    let Shared { connections, statements, .. } = &*memory.shared;
    let rows = if locked {
        let lock = statements.lock(&key_of(&memory.id));
        connections.ask("append", &[&memory.id], Locked(lock, change)).await?
    } else {
        connections.ask("append", &[&memory.id], change).await?
    };
    let Some(row) = rows.first() else { return Ok(None) };
    let end = unsigned(value(row, 0)?);
    Ok(Some(appended(end.saturating_sub(times.len() as u64)..end, version)))
}

/// The state of a conversation on which an append depends.
#[derive(Default)]
struct State {
    known: Option<Appended>,
    /// Both are 0 where there is no conversation.
    positions: std::ops::Range<u64>,
    incarnation: Option<Incarnation>,
    slots: Vec<(Vec<u8>, SlotVersion)>,
}

impl State {
    async fn of(memory: &PostgresMemory, append: &Append) -> Result<Self> {
        let shared = &memory.shared;
        let names: Vec<&[u8]> = append.slots.iter().map(|change| change.name.as_bytes()).collect();
        let parameters: [Parameter<'_>; 3] = [
            (&memory.id.as_str().as_bytes(), Type::BYTEA),
            (&names, Type::BYTEA_ARRAY),
            (&append.id.as_deref().map(str::as_bytes), Type::BYTEA),
        ];
        let Shared { connections, statements, .. } = &**shared;
        let rows = if append.id.is_some() {
            let change = Change(&statements.state_of_id, &parameters);
            connections.ask("append", &[&memory.id], change).await?
        } else {
            let read = Read(&statements.state, &parameters[..2]);
            connections.ask("append", &[], read).await?
        };
        let mut state = Self::default();
        for row in &rows {
            let positions = unsigned(value(row, 1)?)..unsigned(value(row, 2)?);
            let stamp: Option<i64> = value(row, 3)?;
            match (value::<&str>(row, 0)?, stamp) {
                ("known", version) => {
                    let mut known = appended(positions, version.map(slot_version));
                    known.repeated = true;
                    state.known = Some(known);
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

    /// Answers an append without changing anything: with nothing where it could be done.
    fn answer(self, append: &Append) -> Result<Option<Appended>> {
        if self.known.is_some() {
            return Ok(self.known);
        }
        check_expected("postgres", append, self.incarnation, &self.positions)?;
        for change in &append.slots {
            let found = self.slots.iter().find(|slot| slot.0 == change.name.as_bytes());
            change.holds(found.map(|slot| slot.1))?;
        }
        let begins = append.creates() || self.incarnation.is_some();
        let end = self.positions.end;
        Ok((append.is_empty() || !begins).then(|| appended(end..end, None)))
    }
}
