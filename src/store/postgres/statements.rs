//! All statements that the server is ever sent.

use std::collections::HashMap;

use super::append::Shape;
use super::ask::Script;
use super::read::ReadShape;
use super::schema::Tables;
use crate::memory::MemoryId;

/// The number of conversations that are deleted at once.
pub(super) const AT_ONCE: usize = 256;

/// Returns the key that a conversation is found by: a hash of its id, so that ids may be of any
/// length, and so that the messages are found by the id alone. (128 bits of SHA-256: nobody has
/// found two ids with the same key, and nobody will.)
pub(super) fn key(id: &str) -> String {
    format!("encode(substr(sha256({id}), 1, 16), 'hex')::uuid")
}

/// Returns the same for a script, which has no parameters.
pub(super) fn key_of(id: &MemoryId) -> String {
    let digit = |four_bits: u8| char::from(b"0123456789abcdef"[usize::from(four_bits)]);
    let bytes = id.as_str().bytes();
    let hex: String = bytes.flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    key(&format!("decode('{hex}', 'hex')"))
}

/// A statement with parameters.
pub(super) struct Statement {
    pub(super) text: String,
    /// Its number among those that a connection prepares. None where the values of its parameters
    /// are needed to plan it well, or where it is seldom asked.
    pub(super) number: Option<usize>,
}

/// All statements of a store, with the names of its tables in them.
pub(super) struct Statements {
    tables: Tables,
    appends: HashMap<Shape, Statement>,
    reads: HashMap<ReadShape, Statement>,
    pub(super) state: Statement,
    pub(super) state_of_id: Statement,
    pub(super) slots: Statement,
    pub(super) info: Statement,
    pub(super) ids: Statement,
    pub(super) restore: Statement,
    pub(super) inactive: Statement,
    pub(super) ping: Statement,
}

impl Statements {
    pub(super) fn new(tables: &Tables) -> Self {
        let Tables { conversation, slot, version, .. } = tables;
        let key = key("$1");
        let mut numbers = 0..;
        let mut often = |text| Statement { text, number: numbers.next() };
        let seldom = |text| Statement { text, number: None };
        Self {
            appends: Shape::all().map(|it| (it, often(it.statement(tables)))).collect(),
            reads: ReadShape::all().map(|it| (it, often(it.statement(tables)))).collect(),
            state: often(state(tables, false)),
            state_of_id: often(state(tables, true)),
            slots: often(format!(
                "SELECT name, version FROM {slot} WHERE conversation = {key} ORDER BY name"
            )),
            info: often(format!(
                r#"SELECT start, "end", active, incarnation FROM {conversation} WHERE key = {key}"#
            )),
            // In the order of the index, which knows the first bytes alone: the rest is compared.
            ids: seldom(format!(
                "SELECT id FROM {conversation}
                WHERE ($1 IS NULL OR (substr(id, 1, 512), key) > (substr($1, 1, 512), {key}))
                AND substr(id, 1, 512) >= substr($2, 1, 512)
                AND ($3 IS NULL OR substr(id, 1, 512) < $3)
                AND substr(id, 1, length($2)) = $2
                ORDER BY substr(id, 1, 512), key LIMIT $4"
            )),
            restore: seldom(restore(tables)),
            inactive: seldom(format!(
                "SELECT key::text FROM {conversation}
                WHERE ($1 IS NULL OR key > $1::uuid) AND active < $2
                ORDER BY key LIMIT {AT_ONCE}"
            )),
            ping: seldom(format!("SELECT version FROM {version}")),
            tables: tables.clone(),
        }
    }

    pub(super) fn append(&self, shape: Shape) -> &Statement {
        &self.appends[&shape]
    }

    pub(super) fn read(&self, shape: ReadShape) -> &Statement {
        &self.reads[&shape]
    }

    /// Returns a script that keeps others from changing a conversation, where there is one.
    pub(super) fn lock(&self, key: &str) -> String {
        let Tables { conversation, .. } = &self.tables;
        format!("SELECT FROM {conversation} WHERE key = {key} FOR NO KEY UPDATE")
    }

    // Each of these is a script: its first statement locks the conversations, and the next one sees
    // what was committed until then, and can tell whether they are there.

    pub(super) fn evict(&self, key: &str, before: i64) -> Script {
        let Tables { conversation, message, .. } = &self.tables;
        Script {
            first: format!(
                r#"UPDATE {conversation} SET start = least({before}, "end")
                WHERE key = {key} AND start < least({before}, "end")"#
            ),
            then: vec![format!(
                "DELETE FROM {message} WHERE conversation = {key} AND seq >= 0
                AND seq < (SELECT start FROM {conversation} WHERE key = {key})"
            )],
        }
    }

    pub(super) fn clear(&self, key: &str) -> Script {
        let Tables { conversation, message, slot, .. } = &self.tables;
        Script {
            first: format!(
                r#"UPDATE {conversation} SET start = "end", slots = slots + 1 WHERE key = {key}"#
            ),
            then: vec![
                format!(
                    "DELETE FROM {message} WHERE conversation = {key}
                    AND seq < (SELECT start FROM {conversation} WHERE key = {key})"
                ),
                format!("DELETE FROM {slot} WHERE conversation = {key}"),
            ],
        }
    }

    // In the next two, slots and ids go with their conversation.

    pub(super) fn delete(&self, keys: &[String]) -> Script {
        let Tables { conversation, .. } = &self.tables;
        let keys = keys.join(", ");
        Script {
            first: format!("DELETE FROM {conversation} WHERE key IN ({keys})"),
            then: vec![self.forget_messages(&format!("IN ({keys})"))],
        }
    }

    pub(super) fn purge(&self, keys: &str, older_than: i64) -> Script {
        let Tables { conversation, .. } = &self.tables;
        Script {
            first: format!(
                "DELETE FROM {conversation} WHERE key IN (
                    SELECT key FROM {conversation} WHERE key = ANY ('{{{keys}}}'::uuid[])
                    AND active < {older_than} FOR UPDATE SKIP LOCKED
                )"
            ),
            then: vec![self.forget_messages(&format!("= ANY ('{{{keys}}}'::uuid[])"))],
        }
    }

    /// Returns the statement that deletes the messages of those of these conversations that are
    /// gone.
    fn forget_messages(&self, of_these: &str) -> String {
        let Tables { conversation, message, .. } = &self.tables;
        format!(
            "DELETE FROM {message} AS m WHERE m.conversation {of_these}
            AND NOT EXISTS (SELECT FROM {conversation} AS c WHERE c.key = m.conversation)"
        )
    }
}

fn restore(tables: &Tables) -> String {
    let Tables { conversation, .. } = tables;
    let key = key("$2");
    format!(
        r#"WITH begun AS (
            INSERT INTO {conversation} (key, start, "end", active, id, incarnation)
            VALUES ({key}, $3, $3, $4, $2, $5) ON CONFLICT (key) DO NOTHING RETURNING 1
        )
        SELECT 1 / {IN_TIME} FROM begun"#
    )
}

/// Returns the query for the state of a conversation on which an append depends.
///
/// Where it has an id that is known, this is its answer. Then it writes, though it changes nothing,
/// and so waits for what the append waited for: where that was a standby, and was given up, the
/// append is on the primary alone until then.
fn state(tables: &Tables, of_id: bool) -> String {
    let Tables { conversation, slot, append, .. } = tables;
    // A change has the time until which it may be done before its own parameters.
    let [id, names, own] = if of_id { ["$2", "$3", "$4"] } else { ["$1", "$2", ""] };
    let key = key(id);
    let (known, from) = if of_id {
        let known = format!(
            r#"WITH known AS (
                UPDATE {append} SET number = number WHERE conversation = {key} AND id = {own}
                RETURNING start, "end", version
            ) "#
        );
        let from = r#" UNION ALL SELECT 'known', start, "end", version, NULL FROM known"#;
        (known, from)
    } else {
        (String::new(), "")
    };
    format!(
        r#"{known}SELECT 'conversation', start, "end", incarnation, NULL::bytea FROM {conversation} WHERE key = {key}
        UNION ALL
        SELECT 'slot', 0, 0, version, name FROM {slot} WHERE conversation = {key} AND name = ANY ({names}){from}"#
    )
}

/// The SQL for 1 where there is time left, by the first parameter of each change. To divide by it
/// undoes what came late.
pub(super) const IN_TIME: &str = "(clock_timestamp() < $1)::int";
