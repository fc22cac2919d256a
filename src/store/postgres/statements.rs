//! All that is ever asked of the server.

use std::time::Duration;

use super::append::Shape;
use super::read;
use super::schema::Tables;
use crate::memory::MemoryId;

/// How many conversations are deleted at once.
pub(super) const AT_ONCE: usize = 256;

/// What a conversation is found by: a hash of its id, so that ids may be of any length, and so that the
/// messages are found by the id alone. (128 bits of SHA-256: nobody has found two ids with the same
/// key, and nobody will.)
pub(super) fn key(id: &str) -> String {
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
    pub(super) tables: Tables,
    /// How long a change may wait for a lock, in milliseconds.
    pub(super) patience: u128,
    pub(super) append: String,
    pub(super) append_behind: String,
    pub(super) read: String,
    pub(super) state: String,
    pub(super) slots: String,
    pub(super) ids: String,
    pub(super) info: String,
    pub(super) restore: String,
    pub(super) inactive: String,
}

impl Statements {
    /// The statements of a store that waits for an answer as long as this.
    pub(super) fn new(tables: &Tables, timeout: Duration) -> Self {
        // The server is to say in time that it did nothing.
        let patience = (timeout.as_millis() * 9 / 10).clamp(1, i32::MAX as u128);
        let Tables { conversation, slot, append, .. } = tables;
        let key = key("$1");
        let plain = Shape::default();
        Self {
            append: plain.statement(tables, true, patience),
            append_behind: plain.statement(tables, false, patience),
            read: read::statement(tables, false, false),
            // What an append depends on, as it is.
            state: format!(
                r#"SELECT 'conversation', start, "end", incarnation, NULL::bytea FROM {conversation} WHERE key = {key}
                UNION ALL
                SELECT 'known', start, "end", version, NULL FROM {append} WHERE conversation = {key} AND id = $2
                UNION ALL
                SELECT 'slot', 0, 0, version, name FROM {slot} WHERE conversation = {key} AND name = ANY ($3)"#
            ),
            slots: format!(
                "SELECT name, version FROM {slot} WHERE conversation = {key} ORDER BY name"
            ),
            // In the order of the index, which knows the first bytes alone: the rest is compared.
            ids: format!(
                "SELECT id FROM {conversation}
                WHERE ($1 IS NULL OR (substr(id, 1, 512), key) > (substr($1, 1, 512), {key}))
                AND substr(id, 1, 512) >= substr($2, 1, 512)
                AND ($3 IS NULL OR substr(id, 1, 512) < $3)
                AND substr(id, 1, length($2)) = $2
                ORDER BY substr(id, 1, 512), key LIMIT $4"
            ),
            info: format!(
                r#"SELECT start, "end", active, incarnation FROM {conversation} WHERE key = {key}"#
            ),
            restore: format!(
                r#"INSERT INTO {conversation} (key, start, "end", active, id, incarnation)
                VALUES ({key}, $2, $2, $3, $1, $4) ON CONFLICT (key) DO NOTHING RETURNING 1"#
            ),
            inactive: format!(
                "SELECT key::text FROM {conversation}
                WHERE ($1 IS NULL OR key > $1::uuid) AND active < $2
                ORDER BY key LIMIT {AT_ONCE}"
            ),
            tables: tables.clone(),
            patience,
        }
    }

    /// Where a script begins: it may wait for a lock, but not for ever.
    fn patiently(&self, script: &str) -> String {
        format!("SET LOCAL lock_timeout = {}; {script}", self.patience)
    }

    /// What keeps others from changing a conversation, where there is one.
    pub(super) fn lock(&self, key: &str) -> String {
        let Tables { conversation, .. } = &self.tables;
        self.patiently(&format!("SELECT FROM {conversation} WHERE key = {key} FOR NO KEY UPDATE"))
    }

    // Each of these is a script: its first statement locks the conversations, and the second one sees
    // what was committed until then, and can tell whether they are there.

    pub(super) fn evict(&self, key: &str, before: i64) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        self.patiently(&format!(
            r#"UPDATE {conversation} SET start = least({before}, "end")
            WHERE key = {key} AND start < least({before}, "end");
            DELETE FROM {message} WHERE conversation = {key} AND seq >= 0
            AND seq < (SELECT start FROM {conversation} WHERE key = {key})"#
        ))
    }

    pub(super) fn clear(&self, key: &str) -> String {
        let Tables { conversation, message, slot, .. } = &self.tables;
        self.patiently(&format!(
            r#"UPDATE {conversation} SET start = "end", slots = slots + 1 WHERE key = {key};
            DELETE FROM {message} WHERE conversation = {key}
            AND seq < (SELECT start FROM {conversation} WHERE key = {key});
            DELETE FROM {slot} WHERE conversation = {key}"#
        ))
    }

    // Slots and ids go with their conversation.

    pub(super) fn delete(&self, keys: &[String]) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        let keys = keys.join(", ");
        self.patiently(&format!(
            "DELETE FROM {conversation} WHERE key IN ({keys});
            DELETE FROM {message} AS m WHERE m.conversation IN ({keys})
            AND NOT EXISTS (SELECT FROM {conversation} AS c WHERE c.key = m.conversation)"
        ))
    }

    pub(super) fn purge(&self, keys: &str, older_than: i64) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        self.patiently(&format!(
            "DELETE FROM {conversation} WHERE key = ANY ('{{{keys}}}'::uuid[]) AND active < {older_than};
            DELETE FROM {message} AS m WHERE m.conversation = ANY ('{{{keys}}}'::uuid[])
            AND NOT EXISTS (SELECT FROM {conversation} AS c WHERE c.key = m.conversation)"
        ))
    }
}
