//! All that is ever asked of the server.

use super::schema::Tables;
use crate::memory::MemoryId;

const PURGED_AT_ONCE: u32 = 256;

/// What a conversation is found by: a hash of its id, so that ids may be of any length, and so that the
/// messages are found by the id alone. (128 bits of SHA-256: nobody has found two ids with the same
/// key, and nobody will.)
fn key(id: &str) -> String {
    format!("encode(substr(sha256({id}), 1, 16), 'hex')::uuid")
}

/// The same for a script, which has no parameters.
pub(super) fn key_of(id: &MemoryId) -> String {
    let digit = |four_bits: u8| char::from(b"0123456789abcdef"[usize::from(four_bits)]);
    let bytes = id.as_str().bytes();
    let hex: String = bytes.flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    key(&format!("decode('{hex}', 'hex')"))
}

/// What is asked, with the names of the tables in it.
pub(super) struct Statements {
    tables: Tables,
    pub(super) append: String,
    pub(super) append_behind: String,
    pub(super) read: String,
    pub(super) ids: String,
    pub(super) inactive: String,
}

impl Statements {
    pub(super) fn new(tables: &Tables) -> Self {
        let Tables { conversation, message, .. } = tables;
        let key = key("$1");
        // Where others append meanwhile, both wait for the row and go on from its newest version. No
        // other part of the statement may read what it waited for: it would see what was before.
        let create_or_extend = format!(
            r#"INSERT INTO {conversation} AS c (key, start, "end", active, id)
            VALUES ({key}, 0, cardinality($3), $2, $1)
            ON CONFLICT (key) DO UPDATE
            SET "end" = c."end" + excluded."end", active = greatest(c.active, excluded.active)
            WHERE $5 IS NULL OR c."end" = $5"#
        );
        let extend = format!(
            r#"UPDATE {conversation} AS c
            SET "end" = c."end" + cardinality($3), active = greatest(c.active, $2)
            WHERE key = {key} AND c."end" = $5"#
        );
        let append = |extended: &str| {
            format!(
                r#"WITH extended AS ({extended} RETURNING key, "end"), system AS (
                    INSERT INTO {message} AS m (conversation, seq, at, payload)
                    SELECT key, -1, $2, $4 FROM extended WHERE $4 IS NOT NULL
                    ON CONFLICT (conversation, seq) DO UPDATE
                    SET at = excluded.at, payload = excluded.payload
                ), messages AS (
                    INSERT INTO {message} (conversation, seq, at, payload)
                    SELECT key, "end" - cardinality($3) + i - 1, $2, payload
                    FROM extended, unnest($3) WITH ORDINALITY AS batch (payload, i)
                )
                SELECT "end" FROM extended"#
            )
        };
        Self {
            append: append(&create_or_extend),
            append_behind: append(&extend),
            // One statement is one moment.
            read: format!(
                r#"SELECT 'conversation', start, "end", NULL FROM {conversation} WHERE key = {key}
                UNION ALL
                SELECT 'system', 0, 0, payload FROM {message} WHERE conversation = {key} AND seq = -1
                UNION ALL
                (SELECT 'message', seq, at, payload FROM {message}
                WHERE conversation = {key} AND seq >= 0 AND seq < $2 ORDER BY seq DESC LIMIT $3)"#
            ),
            ids: format!(
                "SELECT id FROM {conversation} WHERE $1 IS NULL OR key > {key} ORDER BY key LIMIT $2"
            ),
            inactive: format!(
                "SELECT key::text FROM {conversation}
                WHERE ($1 IS NULL OR key > $1::uuid) AND active < $2
                ORDER BY key LIMIT {PURGED_AT_ONCE}"
            ),
            tables: tables.clone(),
        }
    }

    // Each of these is a script: its first statement locks the conversations, and the second one sees
    // what was committed until then, and can tell whether they are there.

    pub(super) fn evict(&self, key: &str, before: i64) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        format!(
            r#"UPDATE {conversation} SET start = least({before}, "end")
            WHERE key = {key} AND start < least({before}, "end");
            DELETE FROM {message} WHERE conversation = {key} AND seq >= 0
            AND seq < (SELECT start FROM {conversation} WHERE key = {key})"#
        )
    }

    pub(super) fn clear(&self, key: &str) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        format!(
            r#"UPDATE {conversation} SET start = "end" WHERE key = {key};
            DELETE FROM {message} WHERE conversation = {key}
            AND seq < (SELECT start FROM {conversation} WHERE key = {key})"#
        )
    }

    pub(super) fn delete(&self, key: &str) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        format!(
            "DELETE FROM {conversation} WHERE key = {key};
            DELETE FROM {message} WHERE conversation = {key}
            AND NOT EXISTS (SELECT FROM {conversation} WHERE key = {key})"
        )
    }

    pub(super) fn purge(&self, keys: &str, older_than: i64) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        format!(
            "DELETE FROM {conversation} WHERE key = ANY ('{{{keys}}}'::uuid[]) AND active < {older_than};
            DELETE FROM {message} AS m WHERE m.conversation = ANY ('{{{keys}}}'::uuid[])
            AND NOT EXISTS (SELECT FROM {conversation} AS c WHERE c.key = m.conversation)"
        )
    }
}
