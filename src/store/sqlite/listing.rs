//! Ids in byte order, from the unique index.

use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, Row, params};

use super::failure::TxError;
use crate::error::Result;
use crate::memory::MemoryId;
use crate::record::Slot;
use crate::store::common::{behind, signed, slot_version};

pub(super) fn with_prefix(
    connection: &Connection,
    prefix: &str,
    after: Option<&MemoryId>,
    n: usize,
) -> Result<Vec<MemoryId>, TxError> {
    // An empty text is an id too, so "after nothing" is a separate query.
    let (sql, from) = match after {
        Some(after) if after.as_str() >= prefix => (AFTER, after.as_str()),
        _ => (FROM, prefix),
    };
    let past = behind(prefix);
    let mut ids = connection.prepare_cached(sql)?;
    let id = |row: &Row<'_>| row.get::<_, String>(0).map(MemoryId::from);
    let ids = ids.query_map(params![from, text(&past), signed(n)], id)?;
    Ok(ids.collect::<rusqlite::Result<_>>()?)
}

/// Returns the next `n` slots of conversations with this prefix whose names begin with `names`.
pub(super) fn slots(
    connection: &Connection,
    prefix: &str,
    names: &str,
    after: Option<(&MemoryId, &str)>,
    n: usize,
) -> Result<Vec<(MemoryId, Slot)>, TxError> {
    // No name is empty, so all come after this one.
    let (id, name) = after.map_or(("", ""), |(id, name)| (id.as_str(), name));
    let from = id.max(prefix);
    let (past, past_names) = (behind(prefix), behind(names));
    let mut slots = connection.prepare_cached(SLOTS)?;
    let slot = |row: &Row<'_>| {
        let (id, name) = (row.get::<_, String>(0)?, row.get::<_, String>(1)?);
        let version = slot_version(row.get(2)?);
        Ok((MemoryId::from(id), Slot::new(name, version, row.get_ref(3)?.as_bytes()?)))
    };
    let values = params![from, text(&past), names, text(&past_names), id, name, signed(n)];
    Ok(slots.query_map(values, slot)?.collect::<rusqlite::Result<_>>()?)
}

/// Returns these bytes as a text for SQLite, which compares texts of UTF-8 byte by byte and does
/// not look into them. The value after all ids is a blob, which SQLite sorts after all texts of any
/// encoding.
fn text(past: &[u8]) -> ToSqlOutput<'_> {
    let is_behind_all = past.len() == behind("").len();
    ToSqlOutput::Borrowed(if is_behind_all { ValueRef::Blob(past) } else { ValueRef::Text(past) })
}

const FROM: &str = "SELECT id FROM conversation WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT ?3";
const AFTER: &str = "SELECT id FROM conversation WHERE id > ?1 AND id < ?2 ORDER BY id LIMIT ?3";

// The index of names comes first, since few conversations have such slots; the contents come last,
// so that the sort does not carry them.
const SLOTS: &str = "
    SELECT f.id, f.name, s.version, s.content
    FROM (
        SELECT c.id AS id, s.conversation AS conversation, s.name AS name
        FROM slot AS s CROSS JOIN conversation AS c ON c.key = s.conversation
        WHERE s.name >= ?3 AND s.name < ?4 AND c.id >= ?1 AND c.id < ?2
            AND (c.id > ?5 OR s.name > ?6)
        ORDER BY c.id, s.name LIMIT ?7
    ) AS f CROSS JOIN slot AS s ON s.conversation = f.conversation AND s.name = f.name
    ORDER BY f.id, f.name";

#[cfg(test)]
mod tests {
    use super::*;

    /// Without the index, finding a prefix would cost as much as the whole table.
    #[test]
    fn ids_with_a_prefix_are_found_by_the_index() {
        let connection = Connection::open_in_memory().unwrap();
        super::super::schema::prepare(&connection).map_err(|_| "refused").unwrap();
        for sql in [FROM, AFTER] {
            let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
            let plan = plan.query_map(params!["", text(&behind("a")), 1], |row| row.get(3));
            let plan: Vec<String> = plan.unwrap().map(Result::unwrap).collect();
            let expected = "SEARCH conversation USING COVERING INDEX \
                            sqlite_autoindex_conversation_1 (id>? AND id<?)";
            assert_eq!(plan, [expected]);
        }
    }

    #[test]
    fn slots_of_many_conversations_are_found_by_the_indexes() {
        let connection = Connection::open_in_memory().unwrap();
        super::super::schema::prepare(&connection).map_err(|_| "refused").unwrap();
        let mut plan = connection.prepare(&format!("EXPLAIN QUERY PLAN {SLOTS}")).unwrap();
        let (past, past_names) = (behind("a"), behind("turn:"));
        let values = params!["a", text(&past), "turn:", text(&past_names), "", "", 1];
        let plan = plan.query_map(values, |row| row.get(3)).unwrap();
        let plan: Vec<String> = plan.map(Result::unwrap).collect();
        for step in [
            "SEARCH s USING COVERING INDEX slot_name (name>? AND name<?)",
            "SEARCH c USING INTEGER PRIMARY KEY (rowid=?)",
            "SEARCH s USING PRIMARY KEY (conversation=? AND name=?)",
        ] {
            assert!(plan.iter().any(|it| it == step), "{step}: {plan:#?}");
        }
        assert!(plan.iter().all(|it| !it.starts_with("SCAN s") && !it.starts_with("SCAN c")));
    }
}
