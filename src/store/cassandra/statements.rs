//! The statements that are sent to the server.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};

use super::failure::failed;
use super::options::CassandraOptions;
use crate::error::Result;

macro_rules! statements {
    ($($name:ident: $text:expr),+ $(,)?) => {
        pub(super) struct Statements {
            $(pub(super) $name: PreparedStatement,)+
        }

        impl Statements {
            async fn all(session: &Session, options: &CassandraOptions) -> Result<Self> {
                Ok(Self { $($name: prepare(session, options, $text).await?,)+ })
            }
        }
    };
}

impl Statements {
    pub(super) async fn prepare(session: &Session, options: &CassandraOptions) -> Result<Self> {
        let mut statements = Self::all(session, options).await?;
        statements.look_serial.set_consistency(match options.serial_consistency {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        });
        statements.ping.set_consistency(Consistency::One); // the node's local information
        Ok(statements)
    }
}

/// Prepares a statement that may be repeated if its answer is lost.
async fn prepare(
    session: &Session,
    options: &CassandraOptions,
    text: &str,
) -> Result<PreparedStatement> {
    let prepared = session.prepare(in_keyspace(text, &options.keyspace)).await;
    let mut prepared = prepared.map_err(|error| failed("open", error.into()))?;
    prepared.set_consistency(options.consistency);
    prepared.set_request_timeout(Some(options.timeout));
    prepared.set_is_idempotent(true);
    Ok(prepared)
}

/// Inserts the keyspace, in quotes since some names are CQL keywords.
pub(super) fn in_keyspace(text: &str, keyspace: &str) -> String {
    text.replace("{}", &format!("\"{keyspace}\""))
}

// In these texts `{}` is the keyspace. `position` 9223372036854775807 is `HEAD`, and positions
// below -64 are slots: see `rows.rs`.
//
// `conversation` is changed only by conditional statements: these are ordered by Paxos timestamps,
// which must not be mixed with other timestamps.
//
// Rows of `message` are written with the lowest timestamp. If a late writer copies messages that
// others have already removed, they stay removed.

/// Reads rows of a conversation, from the highest `position` down.
const LOOK: &str = r#"SELECT
    position, version, log, incarnation, start, "end", sealed, swept, ids, ended, active,
    name, stamp, attempt
    FROM {}.conversation WHERE id = ? AND position IN ?"#;

statements! {
    // Reads.
    look: LOOK,
    look_serial: LOOK,
    newest: r#"SELECT
        position, version, log, incarnation, start, "end", sealed, swept, ids, ended, active,
        system, at, payload
        FROM {}.conversation WHERE id = ? AND position >= 0 LIMIT ?"#,
    pick: "SELECT position, version, at, payload, name, stamp
        FROM {}.conversation WHERE id = ? AND position IN ?",
    slots: "SELECT name, stamp FROM {}.conversation WHERE id = ? AND position < -64",
    beside: "SELECT position, at, payload FROM {}.conversation WHERE id = ? AND position >= ? AND position < ?",
    bucket: "SELECT position, at, payload
        FROM {}.message WHERE log = ? AND bucket = ? AND position >= ? AND position < ?",
    ids: "SELECT id, token(id) AS place, active, ended
        FROM {}.conversation WHERE token(id) >= ? PER PARTITION LIMIT 1",
    ping: "SELECT key FROM system.local",
    // Changes of a conversation: the first statement of a batch is `set`, `set_now` or `remove`.
    set: r#"UPDATE {}.conversation
        SET version = ?, log = ?, start = ?, "end" = ?, sealed = ?, swept = ?, ids = ?, ended = ?,
            incarnation = ?, system = ?, active = ?
        WHERE id = ? AND position = 9223372036854775807 IF version = ?"#,
    set_now: r#"UPDATE {}.conversation
        SET version = ?, log = ?, start = ?, "end" = ?, sealed = ?, swept = ?, ids = ?, ended = ?,
            incarnation = ?, system = ?, active = toTimestamp(now())
        WHERE id = ? AND position = 9223372036854775807 IF version = ?"#,
    remove: "DELETE FROM {}.conversation WHERE id = ? AND position = 9223372036854775807 IF version = ?",
    keep: "INSERT INTO {}.conversation (id, position, payload, attempt, at) VALUES (?, ?, ?, ?, ?)",
    keep_now: "INSERT INTO {}.conversation (id, position, payload, attempt, at)
        VALUES (?, ?, ?, ?, toTimestamp(now()))",
    remember: r#"INSERT INTO {}.conversation (id, position, name, start, "end", stamp, attempt)
        VALUES (?, ?, ?, ?, ?, ?, ?)"#,
    write: "INSERT INTO {}.conversation (id, position, name, stamp, payload) VALUES (?, ?, ?, ?, ?)",
    erase: "DELETE FROM {}.conversation WHERE id = ? AND position = ?",
    forget: "DELETE FROM {}.conversation WHERE id = ? AND position >= 0 AND position < ?",
    forget_slots: "DELETE FROM {}.conversation WHERE id = ? AND position < -64",
    forget_all: "DELETE FROM {}.conversation WHERE id = ? AND position < 9223372036854775807",
    // Buckets.
    put: "INSERT INTO {}.message (log, bucket, position, at, payload)
        VALUES (?, ?, ?, ?, ?) USING TIMESTAMP 1",
    drop_bucket: "DELETE FROM {}.message WHERE log = ? AND bucket = ?",
    drop_rows: "DELETE FROM {}.message WHERE log = ? AND bucket = ? AND position >= 0 AND position < ?",
}
