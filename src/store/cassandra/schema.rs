//! The keyspace, its tables and their version.

use scylla::client::session::Session;
use scylla::errors::ExecutionError;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;

use super::CassandraOptions;
use super::failure::{failed, strange};
use crate::error::{Error, ErrorKind, Result};

/// What leads from each version of the tables to the next. A released step is never changed: a new
/// version is a new step. `{}` is the keyspace, in quotes.
const STEPS: [&[&str]; 1] = [&[
    r#"CREATE TABLE IF NOT EXISTS {}.conversation (
        id text,
        seq bigint,
        -- the head, at seq 2^63 - 1
        version uuid,
        log uuid,
        start bigint,
        "end" bigint,
        sealed bigint,
        large frozen<tuple<uuid, bigint, bigint>>,
        active timestamp,
        system blob,
        -- a message
        at timestamp,
        payload blob,
        attempt uuid,
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
    "CREATE TABLE IF NOT EXISTS {}.garbage (
        note uuid PRIMARY KEY,
        id text,
        log uuid,
        first bigint,
        past bigint,
        noted timestamp
    )",
]];

/// The table that holds the version comes first, so that whoever finds it can ask.
const LAYOUT: &str = "CREATE TABLE IF NOT EXISTS {}.layout (name text PRIMARY KEY, version int)";

/// What this version writes.
const CURRENT: i32 = 1;
const _: () = assert!(STEPS.len() == 1, "each step leads to a version");

/// Refuses a keyspace of a later version; creates the keyspace and its tables, or brings them up to
/// date, where that is needed, and writes nothing where it is not.
pub(super) async fn prepare(session: &Session, options: &CassandraOptions) -> Result<()> {
    let schema = Schema { session, options };
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
    // A driver that could not look at the cluster while it connected makes do with a made-up one, and
    // would wait in vain for its nodes to agree on what follows.
    session.refresh_metadata().await.map_err(|error| {
        let text = format!("cassandra: the cluster can't be looked at: {error}");
        Error::new(ErrorKind::Storage, "open", text).with_source(error)
    })?;
    if version == 0 && !schema.has("keyspaces", None).await? {
        let replication = options.replication.clone().unwrap_or_else(|| by_size(session));
        let create = format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = {replication}",
            quoted(&options.keyspace)
        );
        schema.run(&create, ()).await?;
    }
    schema.run(LAYOUT, ()).await?;
    for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        for statement in *step {
            schema.run(statement, ()).await?;
        }
    }
    schema.run("INSERT INTO {}.layout (name, version) VALUES (?, ?)", (NAME, CURRENT)).await
}

const NAME: &str = "memory-prompt";

/// As many replicas as there are nodes in the smallest data centre, and three at most.
fn by_size(session: &Session) -> String {
    let cluster = session.get_cluster_state();
    let mut centres = std::collections::HashMap::<_, usize>::new();
    for node in cluster.get_nodes_info() {
        *centres.entry(node.datacenter.as_deref()).or_default() += 1;
    }
    let replicas = centres.into_values().min().unwrap_or(1).min(3);
    format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {replicas}}}")
}

/// Some names are words of the language.
pub(super) fn quoted(keyspace: &str) -> String {
    format!("\"{keyspace}\"")
}

struct Schema<'a> {
    session: &'a Session,
    options: &'a CassandraOptions,
}

impl Schema<'_> {
    /// The version of the tables, 0 where there are none.
    async fn version(&self) -> Result<i32> {
        if !self.has("tables", Some("layout")).await? {
            return Ok(0);
        }
        let select = "SELECT version FROM {}.layout WHERE name = ?";
        let rows = self.query(select, (NAME,)).await?;
        let row = rows.maybe_first_row::<(i32,)>().map_err(|error| strange("open", error))?;
        Ok(row.map_or(0, |(version,)| version))
    }

    /// Whether this keyspace, or this table of it, is there.
    async fn has(&self, kind: &str, table: Option<&str>) -> Result<bool> {
        let keyspace = self.options.keyspace.as_str();
        let select =
            format!("SELECT keyspace_name FROM system_schema.{kind} WHERE keyspace_name = ?");
        let rows = match table {
            None => self.query(&select, (keyspace,)).await?,
            Some(table) => {
                self.query(&format!("{select} AND table_name = ?"), (keyspace, table)).await?
            }
        };
        Ok(rows.rows_num() > 0)
    }

    async fn query(
        &self,
        text: &str,
        values: impl SerializeRow,
    ) -> Result<scylla::response::query_result::QueryRowsResult> {
        let result = self.send(text, values).await.map_err(|error| failed("open", error))?;
        result.into_rows_result().map_err(|error| strange("open", error))
    }

    async fn run(&self, text: &str, values: impl SerializeRow) -> Result<()> {
        self.send(text, values).await.map(drop).map_err(|error| failed("open", error))
    }

    async fn send(
        &self,
        text: &str,
        values: impl SerializeRow,
    ) -> Result<scylla::response::query_result::QueryResult, ExecutionError> {
        let mut statement = Statement::new(text.replace("{}", &quoted(&self.options.keyspace)));
        statement.set_consistency(self.options.consistency);
        statement.set_request_timeout(Some(self.options.timeout));
        self.session.query_unpaged(statement, values).await
    }
}
