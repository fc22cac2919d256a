//! The tables, and what leads from each version of them to the next.

use crate::error::{Error, Result};

/// The version that this crate writes.
pub(super) const CURRENT: u32 = 2;

/// The longest name that the server tells from others; longer ones it cuts.
const MOST_NAME: usize = 63;

/// The names of everything; those of the tables are quoted.
#[derive(Clone)]
pub(super) struct Tables {
    schema: String,
    prefix: String,
    pub(super) conversation: String,
    pub(super) message: String,
    pub(super) slot: String,
    pub(super) append: String,
    history: String,
    /// The table that says that the others are ours, and of which version.
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
            history: table("history"),
            version: table("memory_prompt"),
        })
    }

    /// Returns the statements that create everything from nothing.
    pub(super) fn sql(&self) -> String {
        format!("CREATE SCHEMA IF NOT EXISTS {};\n{}", self.quoted_schema(), self.sql_since(0))
    }

    /// Returns the statements that lead from tables of this version to those of today, in a schema
    /// that is there.
    pub(super) fn sql_since(&self, version: u32) -> String {
        let steps = self.steps();
        let left = steps.get(version as usize..).unwrap_or_default();
        format!("{}UPDATE {} SET version = {CURRENT};\n", left.concat(), self.version)
    }

    /// Returns the name of the schema, in quotes.
    pub(super) fn quoted_schema(&self) -> String {
        quoted(&self.schema)
    }

    /// Returns the query that finds the schema.
    pub(super) fn find_schema(&self) -> String {
        format!("SELECT 1 FROM pg_namespace WHERE nspname = {}", literal(&self.schema))
    }

    /// Returns the query that finds the table which holds the version.
    pub(super) fn find_version(&self) -> String {
        // (`to_regclass` would answer from what its session knew before it waited for a lock.)
        let [schema, prefix] = [&self.schema, &self.prefix].map(|name| literal(name));
        format!(
            "SELECT 1 FROM pg_tables
            WHERE schemaname = {schema} AND tablename = {prefix} || 'memory_prompt'"
        )
    }

    /// Returns the steps from each version to the next. A released step is never changed: a new
    /// version is a new step.
    fn steps(&self) -> [String; CURRENT as usize] {
        let Self { conversation, message, slot, append, history, version, .. } = self;
        [
            format!(
                r#"CREATE TABLE {version} (version integer NOT NULL);
INSERT INTO {version} VALUES (0);
CREATE TABLE {conversation} (
    key     uuid PRIMARY KEY, -- the first 16 bytes of the SHA-256 of the id
    start   bigint NOT NULL,
    "end"   bigint NOT NULL,
    active  bigint NOT NULL, -- not indexed: every append changes it
    id      bytea NOT NULL
)
WITH (fillfactor = 70); -- every append writes a new version of the row, for which there is to be room
CREATE TABLE {message} (
    conversation uuid NOT NULL,
    seq          bigint NOT NULL, -- the system message is at -1
    at           bigint NOT NULL,
    payload      bytea NOT NULL,
    PRIMARY KEY (conversation, seq)
);
CREATE VIEW {history} AS
SELECT c.key,
       CASE WHEN position(decode('00', 'hex') IN c.id) = 0
            THEN convert_from(c.id, 'UTF8') ELSE encode(c.id, 'escape') END AS id,
       m.seq,
       to_timestamp(m.at / 1000.0) AS at,
       CASE WHEN substr(m.payload, 1, 1) <> decode('b1', 'hex')
            THEN convert_from(m.payload, 'UTF8')::json END AS payload
FROM {conversation} AS c
JOIN {message} AS m ON m.conversation = c.key;
"#
            ),
            format!(
                r#"ALTER TABLE {conversation}
    ADD COLUMN incarnation bigint NOT NULL DEFAULT -- random, for each row that is there
        ('x' || encode(substr(sha256((random()::text || clock_timestamp()::text)::bytea), 1, 8), 'hex'))::bit(64)::bigint,
    ADD COLUMN slots bigint NOT NULL DEFAULT 0, -- how often slots were changed
    ADD COLUMN ids bigint NOT NULL DEFAULT 0; -- how many appends had an id
ALTER TABLE {conversation} ALTER COLUMN incarnation DROP DEFAULT;
CREATE INDEX ON {conversation} (substr(id, 1, 512), key); -- no append changes what it is about
CREATE TABLE {slot} (
    conversation uuid NOT NULL REFERENCES {conversation} ON DELETE CASCADE,
    name         bytea NOT NULL,
    version      bigint NOT NULL,
    content      bytea NOT NULL,
    PRIMARY KEY (conversation, name)
);
CREATE TABLE {append} (
    conversation uuid NOT NULL REFERENCES {conversation} ON DELETE CASCADE,
    id           bytea NOT NULL,
    start        bigint NOT NULL,
    "end"        bigint NOT NULL,
    version      bigint, -- of the slots that it wrote
    number       bigint NOT NULL, -- those that are long past are forgotten
    PRIMARY KEY (conversation, id)
);
"#
            ),
        ]
    }
}

/// The table of the ids of appends, behind the prefix.
const APPEND: &str = "append";

/// Tells whether a table, with its prefix, is that of the ids of appends: no other one ends like
/// it.
pub(super) fn is_of_appends(table: &str) -> bool {
    table.ends_with(APPEND)
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Returns the text in quotes, so that it is this text whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}
