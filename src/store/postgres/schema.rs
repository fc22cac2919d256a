//! The tables, their version, and what is done about tables that are something else.

use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::{
    self as driver, GenericClient, IsolationLevel, SimpleQueryMessage,
};
use tokio::time::timeout;

use super::connect::{Connections, failed};
use crate::error::{Error, ErrorKind, Result};

/// What this version writes.
const CURRENT: u32 = 1;

/// The longest name that the server tells from others; longer ones it cuts.
const MOST_NAME: usize = 63;

/// The names of everything; those of the tables are quoted.
#[derive(Clone)]
pub(super) struct Tables {
    schema: String,
    prefix: String,
    pub(super) conversation: String,
    pub(super) message: String,
    history: String,
    /// Says that the others are ours, and of which version.
    version: String,
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
            history: table("history"),
            version: table("memory_prompt"),
        })
    }

    /// What creates everything from nothing.
    pub(super) fn sql(&self) -> String {
        let steps: String = self.steps().concat();
        format!(
            "CREATE SCHEMA IF NOT EXISTS {};\n{steps}{}",
            quoted(&self.schema),
            self.set_version()
        )
    }

    /// What leads from each version of the tables to the next. A released step is never changed: a
    /// new version is a new step.
    fn steps(&self) -> [String; CURRENT as usize] {
        let Self { conversation, message, history, version, .. } = self;
        [format!(
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
        )]
    }

    fn set_version(&self) -> String {
        format!("UPDATE {} SET version = {CURRENT};\n", self.version)
    }
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Quoted so that it is this text whatever `standard_conforming_strings` says.
fn literal(text: &str) -> String {
    format!("E'{}'", text.replace('\\', r"\\").replace('\'', "''"))
}

/// Creates the tables, or brings them up to date; one process does, the others wait for it. Where they
/// are current, it only looks.
pub(super) async fn prepare(connections: &Connections, tables: &Tables) -> Result<()> {
    let mut client = connections.connection("open").await?;
    let work = async {
        if look(&**client, tables).await? == CURRENT {
            return Ok(());
        }
        // Each statement is to see what others committed before it, whatever the default is.
        let level = IsolationLevel::ReadCommitted;
        let transaction = client.build_transaction().isolation_level(level).start().await?;
        // Until the end of the transaction.
        transaction.batch_execute("SELECT pg_advisory_xact_lock(x'6d70726d'::int)").await?;
        let version = look(&*transaction, tables).await?;
        if version == 0 {
            create_schema(&*transaction, tables).await?;
        }
        for step in tables.steps().iter().skip(version as usize) {
            transaction.batch_execute(step).await?;
        }
        transaction.batch_execute(&tables.set_version()).await?;
        Ok(transaction.commit().await?)
    };
    let Ok(done) = timeout(connections.timeout(), work).await else {
        drop(deadpool_postgres::Client::take(client)); // its answer may come at any time
        let text = format!("postgres: no answer within {:?}", connections.timeout());
        return Err(Error::new(ErrorKind::Storage, "open", text));
    };
    done.map_err(|trouble: Trouble| trouble.of(tables))
}

/// The version of the tables, 0 where there are none.
async fn look(client: &impl GenericClient, tables: &Tables) -> Result<u32, Trouble> {
    // (`to_regclass` would answer from what its session knew before it waited for the lock.)
    let [schema, prefix] = [&tables.schema, &tables.prefix].map(|name| literal(name));
    let there = format!(
        "SELECT 1 FROM pg_tables WHERE schemaname = {schema} AND tablename = {prefix} || 'memory_prompt'"
    );
    if first_value(client, &there).await?.is_none() {
        return Ok(0);
    }
    let version = first_value(client, &format!("SELECT version FROM {}", tables.version)).await?;
    match version.and_then(|version| version.parse().ok()) {
        Some(version @ 1..=CURRENT) => Ok(version),
        Some(version) => Err(Trouble::Future(version)),
        None => Err(Trouble::Foreign),
    }
}

/// Only where there is none: a user may be allowed to create tables and no schema.
async fn create_schema(client: &impl GenericClient, tables: &Tables) -> Result<(), Trouble> {
    let schema = literal(&tables.schema);
    let there = format!("SELECT 1 FROM pg_namespace WHERE nspname = {schema}");
    if first_value(client, &there).await?.is_none() {
        client.batch_execute(&format!("CREATE SCHEMA {}", quoted(&tables.schema))).await?;
    }
    Ok(())
}

async fn first_value(
    client: &impl GenericClient,
    sql: &str,
) -> Result<Option<String>, driver::Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    }))
}

enum Trouble {
    Driver(driver::Error),
    Future(u32),
    Foreign,
}

impl From<driver::Error> for Trouble {
    fn from(error: driver::Error) -> Self {
        Self::Driver(error)
    }
}

impl Trouble {
    fn of(self, tables: &Tables) -> Error {
        let refuse = |text| Error::new(ErrorKind::Storage, "open", text);
        let foreign = format!(
            "postgres: there are other tables of the names of these in the schema {}; choose another \
             schema or prefix",
            quoted(&tables.schema)
        );
        match self {
            Self::Driver(error)
                if [Some(&SqlState::DUPLICATE_TABLE), Some(&SqlState::UNDEFINED_COLUMN)]
                    .contains(&error.code()) =>
            {
                refuse(foreign).with_source(error)
            }
            Self::Driver(error) => failed("open", error),
            Self::Foreign => refuse(foreign),
            Self::Future(version) => refuse(format!(
                "postgres: the tables are of version {version}, and this program knows versions up to \
                 {CURRENT}"
            )),
        }
    }
}
