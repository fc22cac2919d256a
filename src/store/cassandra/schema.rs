//! The keyspace, its tables and their version.

use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::query_result::{QueryResult, QueryRowsResult};
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;

use super::failure::{Failure, failed};
use super::options::CassandraOptions;
use super::statements::in_keyspace;
use crate::error::{Error, ErrorKind, Result};

/// How often a statement is sent again that the server has forgotten.
const TRIES: usize = 5;

/// The tables. `{}` is the keyspace, in quotes. The table with the version comes first, so that it
/// can be read as soon as any table exists.
const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS {}.layout (name text PRIMARY KEY, version int)",
    r#"CREATE TABLE IF NOT EXISTS {}.conversation (
        id text,
        position bigint,
        -- the head, at position 2^63 - 1
        version uuid,
        log uuid,
        incarnation bigint,
        start bigint,
        "end" bigint,
        sealed bigint,
        swept bigint,
        ids bigint,
        ended boolean,
        active timestamp,
        system blob,
        -- a message, at its position
        at timestamp,
        payload blob,
        attempt uuid,
        -- an id of an append, at -64 to -1, or a slot, below
        name text,
        stamp bigint,
        PRIMARY KEY (id, position)
    ) WITH CLUSTERING ORDER BY (position DESC)"#,
    "CREATE TABLE IF NOT EXISTS {}.message (
        log uuid,
        bucket bigint,
        position bigint,
        at timestamp,
        payload blob,
        PRIMARY KEY ((log, bucket), position)
    ) WITH CLUSTERING ORDER BY (position DESC)",
];

const CURRENT: i32 = 1;

/// Refuses a keyspace of another version; creates the keyspace and its tables if there are none.
pub(super) async fn prepare(session: &Session, options: &CassandraOptions) -> Result<()> {
    let schema = Schema { session, options };
    match schema.version().await? {
        CURRENT => Ok(()),
        0 => schema.create().await,
        version => {
            let text = format!(
                "cassandra: the keyspace {} is of version {version}, and this program knows versions up to {CURRENT}",
                options.keyspace
            );
            Err(Error::new(ErrorKind::Storage, "open", text))
        }
    }
}

const NAME: &str = "memory-prompt";

/// Returns the default replication: as many replicas as the smallest data centre has nodes, at most
/// three.
fn by_size(session: &Session) -> String {
    let cluster = session.get_cluster_state();
    let mut centres = std::collections::HashMap::<_, usize>::new();
    for node in cluster.get_nodes_info() {
        *centres.entry(node.datacenter.as_deref()).or_default() += 1;
    }
    let replicas = centres.into_values().min().unwrap_or(1).min(3);
    format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}")
}

struct Schema<'a> {
    session: &'a Session,
    options: &'a CassandraOptions,
}

impl Schema<'_> {
    async fn create(&self) -> Result<()> {
        // If the driver could not read the cluster's topology while connecting, it uses a made-up
        // one, and would wait in vain for schema agreement.
        self.session.refresh_metadata().await.map_err(|error| {
            let text = format!("cassandra: the cluster can't be looked at: {error}");
            Error::new(ErrorKind::Storage, "open", text).with_source(error)
        })?;
        if !self.has("keyspaces WHERE keyspace_name = ?").await? {
            let replication = self.options.replication.clone();
            let create = format!(
                "CREATE KEYSPACE IF NOT EXISTS {{}} WITH replication = {}",
                replication.unwrap_or_else(|| by_size(self.session))
            );
            self.send(&create, ()).await?;
        }
        for table in TABLES {
            self.send(table, ()).await?;
        }
        let insert = "INSERT INTO {}.layout (name, version) VALUES (?, ?)";
        self.send(insert, (NAME, CURRENT)).await.map(drop)
    }

    /// Returns the version of the tables, 0 if there are none.
    async fn version(&self) -> Result<i32> {
        if !self.has("tables WHERE keyspace_name = ? AND table_name = 'layout'").await? {
            return Ok(0);
        }
        let select = "SELECT version FROM {}.layout WHERE name = ?";
        let rows = self.query(select, (NAME,)).await?;
        match rows.maybe_first_row::<(i32,)>() {
            Ok(row) => Ok(row.map_or(0, |(version,)| version)),
            Err(error) => Err(Failure::strange(error).during("open")),
        }
    }

    async fn has(&self, what: &str) -> Result<bool> {
        let select = format!("SELECT keyspace_name FROM system_schema.{what}");
        Ok(self.query(&select, (self.options.keyspace.as_str(),)).await?.rows_num() > 0)
    }

    async fn query(&self, text: &str, values: impl SerializeRow) -> Result<QueryRowsResult> {
        let result = self.send(text, values).await?;
        result.into_rows_result().map_err(|error| Failure::strange(error).during("open"))
    }

    async fn send(&self, text: &str, values: impl SerializeRow) -> Result<QueryResult> {
        let mut statement = Statement::new(in_keyspace(text, &self.options.keyspace));
        statement.set_consistency(self.options.consistency);
        statement.set_request_timeout(Some(self.options.timeout));
        let mut result = self.session.query_unpaged(statement.clone(), &values).await;
        // While tables are made, a server may forget a statement more often than the driver allows.
        for _ in 0..TRIES {
            let Err(ExecutionError::LastAttemptError(error)) = &result else { break };
            let RequestAttemptError::DbError(DbError::Unprepared { .. }, _) = error else { break };
            result = self.session.query_unpaged(statement.clone(), &values).await;
        }
        result.map_err(|error| failed("open", error))
    }
}
