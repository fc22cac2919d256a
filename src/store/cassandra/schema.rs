//! The keyspace, its tables and their version.

use std::sync::Arc;
use std::time::Duration;

use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use scylla::statement::prepared::PreparedStatement;

use super::ask::Client;
use super::failure::{Failure, failed};
use super::options::CassandraOptions;
use super::upgrade;
use crate::error::{Error, ErrorKind, Result};

/// The tables. `{}` is the keyspace, in quotes. The one that holds the version comes first, so that
/// whoever finds it can ask.
const TABLES: [&str; 3] = [
    "CREATE TABLE IF NOT EXISTS {}.layout (name text PRIMARY KEY, version int)",
    r#"CREATE TABLE IF NOT EXISTS {}.conversation (
        id text,
        seq bigint,
        -- the head, at seq 2^63 - 1
        version uuid,
        log uuid,
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
        PRIMARY KEY (id, seq)
    ) WITH CLUSTERING ORDER BY (seq DESC)"#,
    "CREATE TABLE IF NOT EXISTS {}.message (
        log uuid,
        bucket bigint,
        seq bigint,
        at timestamp,
        payload blob,
        PRIMARY KEY ((log, bucket), seq)
    ) WITH CLUSTERING ORDER BY (seq DESC)",
];

/// The version of the tables that is written.
const CURRENT: i32 = 2;

/// Refuses a keyspace of a later version; creates the keyspace and its tables, or brings them up to
/// date, where that is needed, and writes nothing where it is not.
pub(super) async fn prepare(session: &Arc<Session>, options: &CassandraOptions) -> Result<()> {
    let schema = Schema { session, options };
    // Two who bring the tables up to date at the same time may stumble over the steps of each
    // other. All steps can be taken again.
    let mut tries = 5;
    loop {
        let version = schema.version().await?;
        if version > CURRENT {
            let text = format!(
                "cassandra: the keyspace {} is of version {version}, and this program knows versions up to {CURRENT}",
                options.keyspace
            );
            return Err(Error::new(ErrorKind::Storage, "open", text));
        }
        if version == CURRENT {
            return Ok(());
        }
        tries -= 1;
        match schema.create(version).await {
            Err(_) if tries > 0 && version > 0 => tokio::time::sleep(PAUSE).await,
            done => return done,
        }
    }
}

/// The pause between two tries to bring the tables up to date.
const PAUSE: Duration = Duration::from_secs(1);

const NAME: &str = "memory-prompt";

/// Returns the replication where nobody has set one: as many replicas as there are nodes in the
/// smallest data centre, and three at most.
fn by_size(session: &Session) -> String {
    let cluster = session.get_cluster_state();
    let mut centres = std::collections::HashMap::<_, usize>::new();
    for node in cluster.get_nodes_info() {
        *centres.entry(node.datacenter.as_deref()).or_default() += 1;
    }
    let replicas = centres.into_values().min().unwrap_or(1).min(3);
    format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}")
}

pub(super) struct Schema<'a> {
    pub(super) session: &'a Arc<Session>,
    pub(super) options: &'a CassandraOptions,
}

impl Schema<'_> {
    /// Creates what is not there, and brings up to date what is of this version.
    async fn create(&self, version: i32) -> Result<()> {
        // A driver that could not look at the cluster while it connected makes do with a made-up
        // one, and would wait in vain for its nodes to agree on what follows.
        self.session.refresh_metadata().await.map_err(|error| {
            let text = format!("cassandra: the cluster can't be looked at: {error}");
            Error::new(ErrorKind::Storage, "open", text).with_source(error)
        })?;
        if !self.has("keyspaces", &[]).await? {
            let replication = self.options.replication.clone();
            let create = format!(
                "CREATE KEYSPACE IF NOT EXISTS {{}} WITH replication = {}",
                replication.unwrap_or_else(|| by_size(self.session))
            );
            self.run(&create, ()).await?;
        }
        for table in TABLES {
            self.run(table, ()).await?;
        }
        if version > 0 {
            upgrade::from_version_1(self).await?;
        }
        self.run("INSERT INTO {}.layout (name, version) VALUES (?, ?)", (NAME, CURRENT)).await
    }

    /// Returns the version of the tables, 0 where there are none.
    async fn version(&self) -> Result<i32> {
        if !self.has("tables", &["layout"]).await? {
            return Ok(0);
        }
        let select = "SELECT version FROM {}.layout WHERE name = ?";
        let rows = self.query(select, (NAME,)).await?;
        match rows.maybe_first_row::<(i32,)>() {
            Ok(row) => Ok(row.map_or(0, |(version,)| version)),
            Err(error) => Err(Failure::strange(error).during("open")),
        }
    }

    /// Returns whether this keyspace, this table of it, or this column of that is there.
    pub(super) async fn has(&self, kind: &str, names: &[&str]) -> Result<bool> {
        let columns = ["keyspace_name", "table_name", "column_name"];
        let names = [&[self.options.keyspace.as_str()], names].concat();
        let is: Vec<_> =
            columns.iter().zip(&names).map(|(name, _)| format!("{name} = ?")).collect();
        let select =
            format!("SELECT keyspace_name FROM system_schema.{kind} WHERE {}", is.join(" AND "));
        Ok(self.query(&select, names).await?.rows_num() > 0)
    }

    /// Calls `each` with the rows that a statement without values finds, page by page.
    pub(super) async fn each<R>(
        &self,
        text: &str,
        client: &Client,
        each: impl FnMut(R) -> bool + Send,
    ) -> Result<()>
    where
        R: for<'a> DeserializeRow<'a, 'a>,
    {
        let statement = self.prepare(text).await?;
        let done = client.each(&statement, (), each).await;
        done.map_err(|failure| failure.during("open"))
    }

    /// Prepares a statement that may be sent again where its answer gets lost. `{}` in it is the
    /// keyspace.
    pub(super) async fn prepare(&self, text: &str) -> Result<PreparedStatement> {
        let prepared = self.session.prepare(self.in_keyspace(text)).await;
        let mut prepared = prepared.map_err(|error| failed("open", error.into()))?;
        prepared.set_consistency(self.options.consistency);
        prepared.set_request_timeout(Some(self.options.timeout));
        prepared.set_is_idempotent(true);
        Ok(prepared)
    }

    pub(super) async fn query(
        &self,
        text: &str,
        values: impl SerializeRow,
    ) -> Result<scylla::response::query_result::QueryRowsResult> {
        let result = self.send(text, values).await.map_err(|error| failed("open", error))?;
        result.into_rows_result().map_err(|error| Failure::strange(error).during("open"))
    }

    pub(super) async fn run(&self, text: &str, values: impl SerializeRow) -> Result<()> {
        self.send(text, values).await.map(drop).map_err(|error| failed("open", error))
    }

    /// Puts the keyspace in its place: in quotes, since some names are words of the language.
    fn in_keyspace(&self, text: &str) -> String {
        text.replace("{}", &format!("\"{}\"", self.options.keyspace))
    }

    async fn send(
        &self,
        text: &str,
        values: impl SerializeRow,
    ) -> Result<scylla::response::query_result::QueryResult, ExecutionError> {
        let mut statement = Statement::new(self.in_keyspace(text));
        statement.set_consistency(self.options.consistency);
        statement.set_request_timeout(Some(self.options.timeout));
        self.session.query_unpaged(statement, values).await
    }
}
