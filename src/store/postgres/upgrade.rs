//! The version of the tables: creating and upgrading them, and refusing those of something else.

use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::{
    self as driver, GenericClient, IsolationLevel, SimpleQueryMessage, SimpleQueryRow,
};
use tokio::time::timeout;

use super::connect::Connections;
use super::failure::{Verdict, describe, fail};
use super::schema::{CURRENT, Tables};
use super::session::{Clock, Said};
use crate::error::{Error, ErrorKind, Result};

/// Creates the tables, or brings them up to date; one process does, the others wait for it. Where
/// they are current, it only looks.
pub(super) async fn prepare(connections: &Connections, tables: &Tables) -> Result<()> {
    // What is given up on this connection is cancelled, so that a transaction which nobody will
    // commit keeps nobody from the tables.
    let mut lease = connections.lease();
    let (client, _) = lease.hold(connections.connection("open").await?, true);
    let patience = connections.timeout();
    let mut found = CURRENT;
    let work = async {
        found = look(&***client, tables).await?;
        if found == CURRENT {
            return Ok(());
        }
        // Each statement is to see what others committed before it, whatever the default is.
        let level = IsolationLevel::ReadCommitted;
        let transaction = client.build_transaction().isolation_level(level).start().await?;
        // The limit holds until the end of the transaction: who waits for a table keeps all others
        // from it meanwhile.
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
        let text = if (1..CURRENT).contains(&found) {
            format!("the tables were not upgraded within {patience:?}: set a longer timeout")
        } else {
            format!("no answer within {patience:?}")
        };
        return Err(Error::new(ErrorKind::Storage, "open", format!("postgres: {text}")));
    };
    lease.done();
    done.map_err(|trouble: Trouble| trouble.of("open", found, tables))
}

/// Looks whether the tables are still those that the store was opened with, and what the server
/// says about itself beside that. An error of the driver says that the connection was lost.
pub(super) async fn check(
    client: &Client,
    operation: &'static str,
    tables: &Tables,
) -> Result<Result<Said, driver::Error>> {
    let question = format!(
        "SELECT version, pg_backend_pid(), (extract(epoch FROM clock_timestamp()) * 1000000)::bigint
        FROM {}",
        tables.version
    );
    let trouble = match first_row(&***client, &question).await {
        Ok(row) => match row.as_ref().and_then(|row| number(row, 0)) {
            Some(CURRENT) => return Ok(Ok(said(row.as_ref()))),
            Some(version) if version < CURRENT => Trouble::Past(version),
            Some(version) => Trouble::Future(version),
            None => Trouble::Foreign,
        },
        Err(error) if matches!(Verdict::of(&error), Verdict::Unknown) => return Ok(Err(error)),
        Err(error) => Trouble::Driver(error),
    };
    Err(trouble.of(operation, CURRENT, tables))
}

/// Takes what the server says about itself. A clock that can't be read is taken for one that is
/// right.
fn said(row: Option<&SimpleQueryRow>) -> Said {
    let micros = row.and_then(|row| number(row, 2)).map(Duration::from_micros);
    let there = micros.map_or_else(SystemTime::now, |micros| SystemTime::UNIX_EPOCH + micros);
    let backend = row.and_then(|row| number(row, 1));
    Said { backend, clock: Clock { there, here: Instant::now() } }
}

/// Returns the version of the tables, 0 where there are none.
async fn look(client: &impl GenericClient, tables: &Tables) -> Result<u32, Trouble> {
    if first_row(client, &tables.find_version()).await?.is_none() {
        return Ok(0);
    }
    let version = first_row(client, &format!("SELECT version FROM {}", tables.version)).await?;
    match version.as_ref().and_then(|row| number(row, 0)) {
        Some(version @ 1..=CURRENT) => Ok(version),
        Some(version) => Err(Trouble::Future(version)),
        None => Err(Trouble::Foreign),
    }
}

/// Creates the schema where there is none: a user may be allowed to create tables and no schema.
async fn create_schema(client: &impl GenericClient, tables: &Tables) -> Result<(), Trouble> {
    if first_row(client, &tables.find_schema()).await?.is_none() {
        client.batch_execute(&format!("CREATE SCHEMA {}", tables.quoted_schema())).await?;
    }
    Ok(())
}

async fn first_row(
    client: &impl GenericClient,
    sql: &str,
) -> Result<Option<SimpleQueryRow>, driver::Error> {
    let messages = client.simple_query(sql).await?;
    Ok(messages.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }))
}

/// Returns a column, if it holds a number.
fn number<T: FromStr>(row: &SimpleQueryRow, column: usize) -> Option<T> {
    row.get(column)?.parse().ok()
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
    /// Returns the error of an operation that found tables of this version.
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
            Self::Driver(error) => fail(operation, error),
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
