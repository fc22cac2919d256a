//! The version of the tables: creating and upgrading them, and refusing those of something else.

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::{
    self as driver, GenericClient, IsolationLevel, SimpleQueryMessage,
};
use tokio::time::timeout;

use super::connect::Connections;
use super::failure::{Verdict, describe, failed};
use super::schema::{CURRENT, Tables};
use crate::error::{Error, ErrorKind, Result};

/// Creates the tables, or brings them up to date; one process does, the others wait for it. Where they
/// are current, it only looks.
pub(super) async fn prepare(connections: &Connections, tables: &Tables) -> Result<()> {
    let mut client = connections.connection("open").await?;
    let patience = connections.timeout();
    let mut found = CURRENT;
    let work = async {
        found = look(&**client, tables).await?;
        if found == CURRENT {
            return Ok(());
        }
        // Each statement is to see what others committed before it, whatever the default is.
        let level = IsolationLevel::ReadCommitted;
        let transaction = client.build_transaction().isolation_level(level).start().await?;
        // Until the end of the transaction. Who waits for a table keeps all others from it meanwhile.
        let lock = format!(
            "SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock(x'6d70726d'::int)",
            patience.as_millis().clamp(1, i32::MAX as u128)
        );
        transaction.batch_execute(&lock).await?;
        found = look(&*transaction, tables).await?;
        if found == 0 {
            create_schema(&*transaction, tables).await?;
        }
        if found != CURRENT {
            transaction.batch_execute(&tables.sql_since(found)).await?;
        }
        Ok(transaction.commit().await?)
    };
    let Ok(done) = timeout(patience, work).await else {
        drop(Client::take(client)); // its answer may come at any time
        let text = if (1..CURRENT).contains(&found) {
            format!("the tables were not upgraded within {patience:?}: set a longer timeout")
        } else {
            format!("no answer within {patience:?}")
        };
        return Err(Error::new(ErrorKind::Storage, "open", format!("postgres: {text}")));
    };
    done.map_err(|trouble: Trouble| trouble.of("open", found, tables))
}

/// Looks whether the tables are still those that the store was opened with. An error of the driver says
/// that the connection was lost.
pub(super) async fn check(
    client: &Client,
    operation: &'static str,
    tables: &Tables,
) -> Result<Result<(), driver::Error>> {
    let trouble = match number(&***client, tables).await {
        Ok(Some(CURRENT)) => return Ok(Ok(())),
        Ok(Some(version)) if version < CURRENT => Trouble::Past(version),
        Ok(Some(version)) => Trouble::Future(version),
        Ok(None) => Trouble::Foreign,
        Err(error) if matches!(Verdict::of(&error), Verdict::Unknown) => return Ok(Err(error)),
        Err(error) => Trouble::Driver(error),
    };
    Err(trouble.of(operation, CURRENT, tables))
}

/// The version of the tables, 0 where there are none.
async fn look(client: &impl GenericClient, tables: &Tables) -> Result<u32, Trouble> {
    if first_value(client, &tables.find_version()).await?.is_none() {
        return Ok(0);
    }
    match number(client, tables).await? {
        Some(version @ 1..=CURRENT) => Ok(version),
        Some(version) => Err(Trouble::Future(version)),
        None => Err(Trouble::Foreign),
    }
}

/// What the table of the version says, if that is a number.
async fn number(
    client: &impl GenericClient,
    tables: &Tables,
) -> Result<Option<u32>, driver::Error> {
    let version = first_value(client, &format!("SELECT version FROM {}", tables.version)).await?;
    Ok(version.and_then(|version| version.parse().ok()))
}

/// Only where there is none: a user may be allowed to create tables and no schema.
async fn create_schema(client: &impl GenericClient, tables: &Tables) -> Result<(), Trouble> {
    if first_value(client, &tables.find_schema()).await?.is_none() {
        client.batch_execute(&format!("CREATE SCHEMA {}", tables.quoted_schema())).await?;
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
    Past(u32),
    Future(u32),
    Foreign,
}

impl From<driver::Error> for Trouble {
    fn from(error: driver::Error) -> Self {
        Self::Driver(error)
    }
}

impl Trouble {
    /// The error of an operation that found tables of this version.
    fn of(self, operation: &'static str, found: u32, tables: &Tables) -> Error {
        let refuse = |text| Error::new(ErrorKind::Storage, operation, text);
        let foreign = format!(
            "postgres: there are other tables of the names of these in the schema {}; choose another \
             schema or prefix",
            tables.quoted_schema()
        );
        match self {
            Self::Driver(error)
                if [Some(&SqlState::DUPLICATE_TABLE), Some(&SqlState::UNDEFINED_COLUMN)]
                    .contains(&error.code()) =>
            {
                refuse(foreign).with_source(error)
            }
            Self::Driver(error)
                if (1..CURRENT).contains(&found)
                    && error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) =>
            {
                let text = format!(
                    "postgres: the tables are of version {found}, and this role may not upgrade them \
                     (`PostgresOptions::upgrade_sql` is what does): {}",
                    describe(&error)
                );
                refuse(text).with_source(error)
            }
            Self::Driver(error) => failed(operation, error),
            Self::Foreign => refuse(foreign),
            Self::Past(version) => refuse(format!(
                "postgres: the tables are of version {version} now; open the store again"
            )),
            Self::Future(version) => refuse(format!(
                "postgres: the tables are of version {version}, and this program knows versions up to \
                 {CURRENT}"
            )),
        }
    }
}
