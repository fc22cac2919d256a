//! The tables of a store: creating them, and refusing tables of another kind or a later version.

use std::str::FromStr;

use deadpool_postgres::tokio_postgres::error::SqlState;
use deadpool_postgres::tokio_postgres::{
    self as driver, GenericClient, IsolationLevel, SimpleQueryMessage, SimpleQueryRow,
};
use tokio::time::timeout;

use super::connect::Connections;
use super::failure::fail;
use super::schema::{CURRENT, Tables};
use crate::error::{Error, ErrorKind, Result};

/// Creates the tables if there are none. One process does it, and others wait.
pub(super) async fn create(connections: &Connections) -> Result<()> {
    let (tables, patience) = (&connections.tables, connections.timeout);
    let mut lease = connections.lease("open").await?;
    let failed = |error| failed(tables, error);
    let work = async {
        let Some(client) = lease.client() else { return Ok(()) };
        if are_there(&***client, tables).await? {
            return Ok(());
        }
        // Each statement must see what others committed before it, even if the default level is
        // another one.
        let level = IsolationLevel::ReadCommitted;
        let transaction =
            client.build_transaction().isolation_level(level).start().await.map_err(failed)?;
        // The limits hold until the end of the transaction: a session that waits for a table blocks
        // all others from it.
        let lock = format!(
            "SET LOCAL lock_timeout = {0}; SET LOCAL statement_timeout = {0};
            SELECT pg_advisory_xact_lock(x'6d70726d'::int)",
            patience.as_millis().clamp(1, i32::MAX as u128)
        );
        transaction.batch_execute(&lock).await.map_err(failed)?;
        if !are_there(&*transaction, tables).await? {
            // A user may have the right to create tables, but not schemas.
            if first_row(&*transaction, tables, &tables.find_schema()).await?.is_none() {
                let schema = format!("CREATE SCHEMA {}", tables.quoted_schema());
                transaction.batch_execute(&schema).await.map_err(failed)?;
            }
            transaction.batch_execute(&tables.sql_of_tables()).await.map_err(failed)?;
        }
        transaction.commit().await.map_err(failed)
    };
    let Ok(done) = timeout(patience, work).await else {
        let text = format!("postgres: no answer within {patience:?}");
        return Err(Error::new(ErrorKind::Storage, "open", text));
    };
    lease.done();
    done
}

/// Returns whether the tables exist; refuses tables of another version.
async fn are_there(client: &impl GenericClient, tables: &Tables) -> Result<bool> {
    if first_row(client, tables, &tables.find_version()).await?.is_none() {
        return Ok(false);
    }
    let version =
        first_row(client, tables, &format!("SELECT version FROM {}", tables.version)).await?;
    match version.as_ref().and_then(|row| u32::from_str(row.get(0)?).ok()) {
        Some(CURRENT) => Ok(true),
        Some(version) => {
            let text = format!(
                "postgres: the tables are of version {version}, and this program knows versions up \
                 to {CURRENT}"
            );
            Err(Error::new(ErrorKind::Storage, "open", text))
        }
        None => Err(foreign(tables)),
    }
}

async fn first_row(
    client: &impl GenericClient,
    tables: &Tables,
    sql: &str,
) -> Result<Option<SimpleQueryRow>> {
    let messages = client.simple_query(sql).await.map_err(|error| failed(tables, error))?;
    Ok(messages.into_iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    }))
}

fn failed(tables: &Tables, error: driver::Error) -> Error {
    match error.code() {
        Some(&(SqlState::DUPLICATE_TABLE | SqlState::UNDEFINED_COLUMN)) => {
            foreign(tables).with_source(error)
        }
        _ => fail("open", error),
    }
}

fn foreign(tables: &Tables) -> Error {
    let text = format!(
        "postgres: there are other tables of the names of these in the schema {}; choose another \
         schema or prefix",
        tables.quoted_schema()
    );
    Error::new(ErrorKind::Storage, "open", text)
}
