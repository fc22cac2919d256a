//! Questions: one message to the server, and what is made of its answer.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::SystemTime;

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::types::{ToSql, Type};
use deadpool_postgres::tokio_postgres::{self as driver, Row, SimpleQueryMessage};

use super::session::Session;
use super::statements::Statement;

/// A connection with what is known about it, and the time by the server's clock after which nobody waits
/// for the answer.
pub(super) struct Line<'a> {
    pub(super) client: &'a Client,
    pub(super) session: &'a Session,
    pub(super) until: SystemTime,
}

/// One message to the server, and what is made of its answer.
pub(super) trait Question: Sync {
    type Answer;
    /// It changes something: to ask again does harm where nobody knows if it was done.
    const CHANGES: bool;
    fn ask(
        &self,
        line: &Line<'_>,
    ) -> impl Future<Output = Result<Self::Answer, driver::Error>> + Send;
}

/// A parameter of a statement with its type, so that the server need not be asked for it.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement that reads; the answer is its rows.
pub(super) struct Read<'a>(pub(super) &'a Statement, pub(super) &'a [Parameter<'a>]);

/// A statement that changes something; the answer is its rows. Its first parameter, which is not among
/// these, is the time until which it may be done.
pub(super) struct Change<'a>(pub(super) &'a Statement, pub(super) &'a [Parameter<'a>]);

/// A statement that changes something, in one transaction with a script that locks what it depends on:
/// it begins when the lock is held. All of it is sent at once, so that no lock is held for as long as a
/// message is on its way. The answer is the statement's rows.
pub(super) struct Locked<'a>(pub(super) String, pub(super) Change<'a>);

/// Statements that change something, in one transaction; the answer is how many rows each of them did.
///
/// Each sees what was committed before it began, which a part of a statement does not: so what one
/// waited for, the next one sees.
pub(super) struct Script {
    /// The time that each of them may wait for a lock, in milliseconds.
    pub(super) patience: u128,
    /// The one that takes the locks. When it is done there must be time left, or all of it is undone.
    pub(super) first: String,
    pub(super) then: Vec<String>,
}

impl Question for Read<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = false;
    async fn ask(&self, line: &Line<'_>) -> Result<Vec<Row>, driver::Error> {
        rows(line, self.0, self.1).await
    }
}

impl Question for Change<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = true;
    async fn ask(&self, line: &Line<'_>) -> Result<Vec<Row>, driver::Error> {
        rows(line, self.0, &self.all(&line.until)).await
    }
}

impl<'a> Change<'a> {
    fn all(&self, until: &'a SystemTime) -> Vec<Parameter<'a>> {
        let until: Parameter<'_> = (until, Type::TIMESTAMPTZ);
        std::iter::once(until).chain(self.1.iter().cloned()).collect()
    }
}

impl Question for Locked<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = true;
    async fn ask(&self, line: &Line<'_>) -> Result<Vec<Row>, driver::Error> {
        let Line { client, session, until } = line;
        let Self(lock, change) = self;
        let all = change.all(until);
        // Whatever the default is, the statement is to see what was committed until then.
        let lock = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {lock}");
        let locked = both(client.batch_execute(&lock), async {
            // To prepare it here could fail, and undo what it did.
            match session.prepared(change.0) {
                Some(prepared) => client.query(&prepared, &values(&all)).await,
                None => client.query_typed(&change.0.text, &all).await,
            }
        });
        let ((begun, rows), ended) = both(locked, client.batch_execute("COMMIT")).await;
        begun?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }
}

impl Question for Script {
    type Answer = Vec<u64>;
    const CHANGES: bool = true;
    async fn ask(&self, line: &Line<'_>) -> Result<Vec<u64>, driver::Error> {
        let Self { patience, first, then } = self;
        let late = line.until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let script = format!(
            "SET LOCAL lock_timeout = {patience}; {first}; \
             SELECT 1 / (clock_timestamp() < to_timestamp({}))::int; {}",
            late.as_secs_f64(),
            then.join("; ")
        );
        let messages = line.client.simple_query(&script).await?;
        let counts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        });
        // Neither the setting nor the look at the clock.
        let counts = counts.enumerate().filter(|(i, _)| ![0, 2].contains(i));
        Ok(counts.map(|(_, count)| count).collect())
    }
}

/// Asks for the rows of a statement. The first time on a connection the server plans it, and prepares it
/// beside that for the next times: so no round trip is needed for it.
async fn rows(
    line: &Line<'_>,
    statement: &Statement,
    parameters: &[Parameter<'_>],
) -> Result<Vec<Row>, driver::Error> {
    let Line { client, session, .. } = line;
    if let Some(prepared) = session.prepared(statement) {
        return client.query(&prepared, &values(parameters)).await;
    }
    let rows = client.query_typed(&statement.text, parameters);
    if !session.prepares(statement) {
        return rows.await;
    }
    let types: Vec<Type> = parameters.iter().map(|(_, kind)| kind.clone()).collect();
    let (rows, prepared) = both(rows, client.prepare_typed(&statement.text, &types)).await;
    if let Ok(prepared) = prepared {
        session.keep(statement, prepared);
    }
    rows
}

fn values<'a>(parameters: &[Parameter<'a>]) -> Vec<&'a (dyn ToSql + Sync)> {
    parameters.iter().map(|(value, _)| *value).collect()
}

/// Waits for both, and lets the first begin first.
pub(super) async fn both<A, B>(
    one: impl Future<Output = A>,
    other: impl Future<Output = B>,
) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(done) = one.as_mut().poll(context)
        {
            first = Some(done);
        }
        if second.is_none()
            && let Poll::Ready(done) = other.as_mut().poll(context)
        {
            second = Some(done);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            left => {
                (first, second) = left;
                Poll::Pending
            }
        }
    })
    .await
}
