//! The statements that the server is sent.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};

use super::failure::failed;
use super::options::CassandraOptions;
use super::schema::quoted;
use crate::error::Result;

macro_rules! statements {
    ($($name:ident: $how:ident $text:ident),+ $(,)?) => {
        /// Each statement, prepared once.
        pub(super) struct Statements {
            $(pub(super) $name: PreparedStatement,)+
        }

        impl Statements {
            pub(super) async fn prepare(
                session: &Session,
                options: &CassandraOptions,
            ) -> Result<Self> {
                let prepare = Prepare { session, options };
                Ok(Self { $($name: prepare.$how($text).await?,)+ })
            }
        }
    };
}

statements! {
    // Reading.
    look: idempotent LOOK,
    look_for_sure: serial LOOK,
    newest: idempotent NEWEST,
    pick: idempotent PICK,
    slots: idempotent SLOTS,
    beside: idempotent BESIDE,
    bucket: idempotent IN_BUCKET,
    ids: idempotent IDS,
    ping: local PING,
    // A change of a conversation: the first one of its batch is `set`, `set_now` or `remove`.
    set: idempotent SET,
    set_now: idempotent SET_NOW,
    remove: idempotent REMOVE,
    keep: idempotent KEEP,
    keep_now: idempotent KEEP_NOW,
    remember: idempotent REMEMBER,
    write: idempotent WRITE,
    erase: idempotent ERASE,
    forget: idempotent FORGET,
    forget_slots: idempotent FORGET_SLOTS,
    forget_all: idempotent FORGET_ALL,
    // Buckets.
    put: idempotent PUT,
    drop_bucket: idempotent DROP_BUCKET,
    drop_rows: idempotent DROP_ROWS,
}

struct Prepare<'a> {
    session: &'a Session,
    options: &'a CassandraOptions,
}

impl Prepare<'_> {
    async fn idempotent(&self, text: &str) -> Result<PreparedStatement> {
        self.prepare(text, self.options.consistency).await
    }

    /// For what a node says of itself.
    async fn local(&self, text: &str) -> Result<PreparedStatement> {
        self.prepare(text, Consistency::One).await
    }

    /// For what must be known for sure.
    async fn serial(&self, text: &str) -> Result<PreparedStatement> {
        let consistency = match self.options.serial_consistency {
            SerialConsistency::Serial => Consistency::Serial,
            SerialConsistency::LocalSerial => Consistency::LocalSerial,
        };
        self.prepare(text, consistency).await
    }

    async fn prepare(&self, text: &str, consistency: Consistency) -> Result<PreparedStatement> {
        let text = text.replace("{}", &quoted(&self.options.keyspace));
        let prepared = self.session.prepare(text).await;
        let mut prepared = prepared.map_err(|error| failed("open", error.into()))?;
        prepared.set_consistency(consistency);
        prepared.set_request_timeout(Some(self.options.timeout));
        prepared.set_is_idempotent(true);
        Ok(prepared)
    }
}

// `seq` 9223372036854775807 is `HEAD`, and what is below -64 is a slot: see `rows.rs`.
//
// `conversation` is changed under the condition on its version and in no other way: the replicas'
// own clock for such changes orders them, and must not be mixed with another one.
//
// A row of `message` is put with the earliest time there is, so that one that comes late, from
// somebody who moves what others have removed meanwhile, stays removed.
const LOOK: &str = r#"SELECT
    seq, version, log, start, "end", sealed, swept, ids, ended, active, name, stamp, attempt
    FROM {}.conversation WHERE id = ? AND seq IN ?"#;
const NEWEST: &str = r#"SELECT
    seq, version, log, start, "end", sealed, swept, ids, ended, active, system, at, payload
    FROM {}.conversation WHERE id = ? AND seq >= 0 LIMIT ?"#;
const PICK: &str = "SELECT seq, version, at, payload, name, stamp
    FROM {}.conversation WHERE id = ? AND seq IN ?";
const SLOTS: &str = "SELECT name, stamp FROM {}.conversation WHERE id = ? AND seq < -64";
const BESIDE: &str =
    "SELECT seq, at, payload FROM {}.conversation WHERE id = ? AND seq >= ? AND seq < ?";
const IN_BUCKET: &str = "SELECT seq, at, payload
    FROM {}.message WHERE log = ? AND bucket = ? AND seq >= ? AND seq < ?";
const IDS: &str = "SELECT id, token(id) AS place, active, ended
    FROM {}.conversation WHERE token(id) >= ? PER PARTITION LIMIT 1";
const PING: &str = "SELECT key FROM system.local";
const SET: &str = r#"UPDATE {}.conversation
    SET version = ?, log = ?, start = ?, "end" = ?, sealed = ?, swept = ?, ids = ?, ended = ?,
        system = ?, active = ?
    WHERE id = ? AND seq = 9223372036854775807 IF version = ?"#;
const SET_NOW: &str = r#"UPDATE {}.conversation
    SET version = ?, log = ?, start = ?, "end" = ?, sealed = ?, swept = ?, ids = ?, ended = ?,
        system = ?, active = toTimestamp(now())
    WHERE id = ? AND seq = 9223372036854775807 IF version = ?"#;
const REMOVE: &str =
    "DELETE FROM {}.conversation WHERE id = ? AND seq = 9223372036854775807 IF version = ?";
const KEEP: &str =
    "INSERT INTO {}.conversation (id, seq, payload, attempt, at) VALUES (?, ?, ?, ?, ?)";
const KEEP_NOW: &str = "INSERT INTO {}.conversation (id, seq, payload, attempt, at)
    VALUES (?, ?, ?, ?, toTimestamp(now()))";
const REMEMBER: &str = r#"INSERT INTO {}.conversation (id, seq, name, start, "end", stamp, attempt)
    VALUES (?, ?, ?, ?, ?, ?, ?)"#;
const WRITE: &str =
    "INSERT INTO {}.conversation (id, seq, name, stamp, payload) VALUES (?, ?, ?, ?, ?)";
const ERASE: &str = "DELETE FROM {}.conversation WHERE id = ? AND seq = ?";
const FORGET: &str = "DELETE FROM {}.conversation WHERE id = ? AND seq >= 0 AND seq < ?";
const FORGET_SLOTS: &str = "DELETE FROM {}.conversation WHERE id = ? AND seq < -64";
const FORGET_ALL: &str = "DELETE FROM {}.conversation WHERE id = ? AND seq < 9223372036854775807";
const PUT: &str = "INSERT INTO {}.message (log, bucket, seq, at, payload)
    VALUES (?, ?, ?, ?, ?) USING TIMESTAMP 1";
const DROP_BUCKET: &str = "DELETE FROM {}.message WHERE log = ? AND bucket = ?";
const DROP_ROWS: &str =
    "DELETE FROM {}.message WHERE log = ? AND bucket = ? AND seq >= 0 AND seq < ?";
