//! The names of the tables, and the statements that create them.

use crate::error::{Error, Result};
use crate::memory::MemoryId;

pub(super) const CURRENT: u32 = 1;

/// The longest name that the server distinguishes; it truncates longer ones.
const MOST_NAME: usize = 63;

/// The names of all tables, quoted, and of the schema.
#[derive(Clone)]
pub(super) struct Tables {
    schema: String,
    prefix: String,
    pub(super) conversation: String,
    pub(super) message: String,
    pub(super) slot: String,
    pub(super) append: String,
    pub(super) media: String,
    history: String,
    /// The table that marks the others as ours, and holds their version.
    pub(super) version: String,
}

impl Tables {
    pub(super) fn new(schema: &str, prefix: &str) -> Result<Self> {
        let longest = schema.len().max(prefix.len() + "memory_prompt".len());
        let refuse = |text: &str| Err(Error::invalid("open", format!("postgres: {text}")));
        if schema.is_empty() {
            return refuse("a schema has a name");
        }
        if longest > MOST_NAME {
            return refuse("the names of tables and schemas are 63 bytes long at most");
        }
        if schema.contains('\0') || prefix.contains('\0') {
            return refuse("a name holds no NUL");
        }
        let table = |name| format!("{}.{}", quoted(schema), quoted(&format!("{prefix}{name}")));
        Ok(Self {
            schema: schema.to_owned(),
            prefix: prefix.to_owned(),
            conversation: table("conversation"),
            message: table("message"),
            slot: table("slot"),
            append: table(APPEND),
            media: table("media"),
            history: table("history"),
            version: table("memory_prompt"),
        })
    }

    pub(super) fn sql(&self) -> String {
        format!("CREATE SCHEMA IF NOT EXISTS {};\n{}", self.quoted_schema(), self.sql_of_tables())
    }

    pub(super) fn quoted_schema(&self) -> String {
        quoted(&self.schema)
    }

    pub(super) fn find_schema(&self) -> String {
        format!("SELECT 1 FROM pg_namespace WHERE nspname = {}", literal(&self.schema))
    }

    /// Returns the query that finds the table with the version.
    pub(super) fn find_version(&self) -> String {
        // (`to_regclass` would answer with what its session knew before it waited for a lock.)
        let [schema, prefix] = [&self.schema, &self.prefix].map(|name| literal(name));
        format!(
            "SELECT 1 FROM pg_tables
            WHERE schemaname = {schema} AND tablename = {prefix} || 'memory_prompt'"
        )
    }

    /// Returns the statements that create the tables in an existing schema.
    pub(super) fn sql_of_tables(&self) -> String {
        let Self { conversation, message, slot, append, media, history, version, .. } = self;
        format!(
            r#"CREATE TABLE {version} (version integer NOT NULL);
INSERT INTO {version} VALUES ({CURRENT});
CREATE TABLE {conversation} (
    key         uuid PRIMARY KEY, -- the first 16 bytes of the SHA-256 of the id
    start       bigint NOT NULL,
    "end"       bigint NOT NULL,
    active      bigint NOT NULL, -- not indexed: every append changes it
    id          bytea NOT NULL,
    incarnation bigint NOT NULL,
    slots       bigint NOT NULL DEFAULT 0, -- how often slots were changed
    ids         bigint NOT NULL DEFAULT 0 -- how many appends had an id
)
WITH (fillfactor = 70); -- every append writes a new version of the row, for which there is to be room
CREATE INDEX ON {conversation} (substr(id, 1, 512), key); -- no append changes what it is about
CREATE TABLE {message} (
    conversation uuid NOT NULL,
    position     bigint NOT NULL, -- the system message is at -1
    at           bigint NOT NULL,
    payload      bytea NOT NULL,
    PRIMARY KEY (conversation, position)
);
CREATE VIEW {history} AS
SELECT c.key,
       CASE WHEN position(decode('00', 'hex') IN c.id) = 0
            THEN convert_from(c.id, 'UTF8') ELSE encode(c.id, 'escape') END AS id,
       m.position,
       to_timestamp(m.at / 1000.0) AS at,
       CASE WHEN substr(m.payload, 1, 1) <> decode('b1', 'hex')
            THEN convert_from(m.payload, 'UTF8')::json END AS payload
FROM {conversation} AS c
JOIN {message} AS m ON m.conversation = c.key;
CREATE TABLE {slot} (
    conversation uuid NOT NULL REFERENCES {conversation} ON DELETE CASCADE,
    name         bytea NOT NULL,
    version      bigint NOT NULL,
    content      bytea NOT NULL,
    PRIMARY KEY (conversation, name)
);
CREATE INDEX ON {slot} (name); -- what waits in all conversations is found by it
CREATE TABLE {append} (
    conversation uuid NOT NULL REFERENCES {conversation} ON DELETE CASCADE,
    id           bytea NOT NULL,
    start        bigint NOT NULL,
    "end"        bigint NOT NULL,
    version      bigint, -- of the slots that it wrote
    number       bigint NOT NULL, -- those that are long past are forgotten
    PRIMARY KEY (conversation, id)
);
CREATE TABLE {media} (
    conversation uuid NOT NULL REFERENCES {conversation} ON DELETE CASCADE,
    hash         bytea NOT NULL, -- SHA-256
    last         bigint NOT NULL, -- the newest position that refers to it
    bytes        bytea NOT NULL,
    PRIMARY KEY (conversation, hash)
);
ALTER TABLE {media} ALTER bytes SET STORAGE EXTERNAL; -- pictures can't be compressed any further
"#
        )
    }
}

/// Returns the key of a conversation: a hash of its id, so that ids may have any length, and
/// messages are found by the id alone. (128 bits of SHA-256: two ids with the same key are not to
/// be expected.)
pub(super) fn key(id: &str) -> String {
    format!("encode(substr(sha256({id}), 1, 16), 'hex')::uuid")
}

/// Returns the same, for a statement without parameters.
pub(super) fn key_of(id: &MemoryId) -> String {
    let digit = |four_bits: u8| char::from(b"0123456789abcdef"[usize::from(four_bits)]);
    let bytes = id.as_str().bytes();
    let hex: String = bytes.flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    key(&format!("decode('{hex}', 'hex')"))
}

const APPEND: &str = "append";

/// Returns whether a table, with its prefix, is the table of append ids: no other name ends like
/// it.
pub(super) fn is_of_appends(table: &str) -> bool {
    table.ends_with(APPEND)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns a quoted literal that is correct with any `standard_conforming_strings`.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}
