//! What is said to the server.

use scylla::client::session::Session;
use scylla::statement::prepared::PreparedStatement;
use scylla::statement::{Consistency, SerialConsistency};

use super::CassandraOptions;
use super::failure::failed;
use super::schema::quoted;
use crate::error::Result;

/// Each statement, prepared once.
pub(super) struct Statements {
    pub(super) head: PreparedStatement,
    pub(super) head_for_sure: PreparedStatement,
    pub(super) newest: PreparedStatement,
    pub(super) beside: PreparedStatement,
    pub(super) attempt: PreparedStatement,
    pub(super) set: PreparedStatement,
    pub(super) keep: PreparedStatement,
    pub(super) forget: PreparedStatement,
    pub(super) remove: PreparedStatement,
    pub(super) bucket: PreparedStatement,
    pub(super) put: PreparedStatement,
    pub(super) drop_bucket: PreparedStatement,
    pub(super) drop_rows: PreparedStatement,
    pub(super) ids: PreparedStatement,
    pub(super) note: PreparedStatement,
    pub(super) notes: PreparedStatement,
    pub(super) unnote: PreparedStatement,
}

impl Statements {
    pub(super) async fn prepare(session: &Session, options: &CassandraOptions) -> Result<Self> {
        let prepare = Prepare { session, options };
        Ok(Self {
            head: prepare.idempotent(HEAD).await?,
            head_for_sure: prepare.serial(HEAD).await?,
            newest: prepare.idempotent(NEWEST).await?,
            beside: prepare.idempotent(BESIDE).await?,
            attempt: prepare.serial(ATTEMPT).await?,
            set: prepare.idempotent(SET).await?,
            keep: prepare.idempotent(KEEP).await?,
            forget: prepare.idempotent(FORGET).await?,
            remove: prepare.idempotent(REMOVE).await?,
            bucket: prepare.idempotent(IN_BUCKET).await?,
            put: prepare.idempotent(PUT).await?,
            drop_bucket: prepare.idempotent(DROP_BUCKET).await?,
            drop_rows: prepare.idempotent(DROP_ROWS).await?,
            ids: prepare.idempotent(IDS).await?,
            note: prepare.idempotent(NOTE).await?,
            notes: prepare.idempotent(NOTES).await?,
            unnote: prepare.idempotent(UNNOTE).await?,
        })
    }
}

struct Prepare<'a> {
    session: &'a Session,
    options: &'a CassandraOptions,
}

impl Prepare<'_> {
    async fn idempotent(&self, text: &str) -> Result<PreparedStatement> {
        self.prepare(text, self.options.consistency).await
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

// `seq` 9223372036854775807 is `HEAD_SEQ`.
//
// `conversation` is changed under the condition on its version and in no other way: the replicas' own
// clock for such changes orders them, and must not be mixed with another one.
//
// A row of `message` is put with the earliest time there is, so that one that comes late, from somebody
// who moves what others have removed meanwhile, stays removed.
const HEAD: &str = r#"SELECT version, log, start, "end", sealed, large, active
    FROM {}.conversation WHERE id = ? AND seq = 9223372036854775807"#;
const NEWEST: &str = r#"SELECT seq, version, log, start, "end", sealed, large, active, system, at, payload
    FROM {}.conversation WHERE id = ? LIMIT ?"#;
const BESIDE: &str =
    "SELECT seq, at, payload FROM {}.conversation WHERE id = ? AND seq >= ? AND seq < ?";
const ATTEMPT: &str = "SELECT attempt FROM {}.conversation WHERE id = ? AND seq = ?";
const SET: &str = r#"UPDATE {}.conversation
    SET version = ?, log = ?, start = ?, "end" = ?, sealed = ?, large = ?, active = ?, system = ?
    WHERE id = ? AND seq = 9223372036854775807 IF version = ?"#;
const KEEP: &str =
    "INSERT INTO {}.conversation (id, seq, at, payload, attempt) VALUES (?, ?, ?, ?, ?)";
const FORGET: &str = "DELETE FROM {}.conversation WHERE id = ? AND seq >= 0 AND seq < ?";
const REMOVE: &str =
    "DELETE FROM {}.conversation WHERE id = ? AND seq = 9223372036854775807 IF version = ?";
const IN_BUCKET: &str = "SELECT seq, at, payload
    FROM {}.message WHERE log = ? AND bucket = ? AND seq >= ? AND seq < ?";
const PUT: &str = "INSERT INTO {}.message (log, bucket, seq, at, payload)
    VALUES (?, ?, ?, ?, ?) USING TIMESTAMP 1";
const DROP_BUCKET: &str = "DELETE FROM {}.message WHERE log = ? AND bucket = ?";
const DROP_ROWS: &str =
    "DELETE FROM {}.message WHERE log = ? AND bucket = ? AND seq >= 0 AND seq < ?";
const IDS: &str = "SELECT id, token(id) AS place, active
    FROM {}.conversation WHERE token(id) >= ? PER PARTITION LIMIT 1";
const NOTE: &str = "INSERT INTO {}.garbage (note, id, log, first, past, noted)
    VALUES (?, ?, ?, ?, ?, ?)";
const NOTES: &str = "SELECT note, id, log, first, past, noted FROM {}.garbage";
const UNNOTE: &str = "DELETE FROM {}.garbage WHERE note = ?";
