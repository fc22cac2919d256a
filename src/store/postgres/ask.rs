//! Questions: one message to the server each, and its answer.

use std::time::{Duration, SystemTime};

use deadpool_postgres::Client;
use deadpool_postgres::tokio_postgres::types::{ToSql, Type};
use deadpool_postgres::tokio_postgres::{self as driver, Row, SimpleQueryMessage};

use super::session::Session;
use super::statements::Statement;
use crate::store::both::both;

/// A connection with what is known about it, and the time that the server has.
pub(super) struct Line<'a> {
    pub(super) client: &'a Client,
    pub(super) session: &'a Session,
    /// The time in which the server is to be done, or to say that it did nothing, while somebody
    /// waits.
    patience: Duration,
    /// The end of it by the server's clock.
    until: SystemTime,
}

impl<'a> Line<'a> {
    /// Makes a line for a question whose answer is waited for so long: the server has nine tenths
    /// of it.
    pub(super) fn new(client: &'a Client, session: &'a Session, left: Duration) -> Self {
        let patience = left.mul_f64(0.9).min(LONGEST);
        Self { client, session, patience, until: session.after(patience) }
    }

    /// Returns the time that the server has for what waits for a lock, in milliseconds as its
    /// settings take them.
    fn millis(&self) -> u128 {
        self.patience.as_millis().clamp(1, i32::MAX as u128)
    }

    /// Returns the time for a whole statement: a little more, so that it says what it waited for.
    fn more_millis(&self) -> u128 {
        (self.millis() * 21 / 20).min(i32::MAX as u128)
    }

    /// Returns the end of that time by the server's clock, for a script.
    fn until(&self) -> String {
        let until = self.until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        format!("to_timestamp({})", until.as_secs_f64())
    }
}

/// The longest time to wait for an answer: dates have an end.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// One message to the server, and its answer.
pub(super) trait Question: Sync {
    type Answer;
    /// True where it changes something: to ask again does harm where nobody knows whether it was
    /// done.
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

/// A statement that changes something; the answer is its rows. Its first parameter, which is not
/// among these, is the time until which it may be done.
pub(super) struct Change<'a>(pub(super) &'a Statement, pub(super) &'a [Parameter<'a>]);

/// A statement that changes something, in one transaction with a script that locks what it depends
/// on: it begins when the lock is held. All of it is sent at once, so that no lock is held for as
/// long as a message is on its way. The answer is the statement's rows.
pub(super) struct Locked<'a>(pub(super) String, pub(super) Change<'a>);

/// Statements that change something, in one transaction; the answer is how many rows each of them
/// did.
///
/// Each statement takes its own look at the database when it begins. So where the first one had to
/// wait for another transaction's lock, the next ones see what that transaction committed. Parts of
/// one statement would not: they share the look that was taken before the wait.
pub(super) struct Script {
    /// The one that takes the locks. When it is done there must be time left, or all of it is
    /// undone.
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
        let Line { client, session, until, .. } = line;
        let Self(lock, change) = self;
        let all = change.all(until);
        // Whatever the default is, the statement is to see what was committed until then.
        let lock = format!(
            "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = {}; {lock}",
            line.millis()
        );
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
        let Self { first, then } = self;
        let (millis, more, until) = (line.millis(), line.more_millis(), line.until());
        // The wait for the lock and the rest have one time between them. Nobody reads the message
        // in the log: with it there is something to commit, even where there was nothing to do. So
        // where an earlier attempt did it, and is on no standby yet, this one waits for the
        // standby, too.
        let script = format!(
            "SET LOCAL lock_timeout = {millis}; SET LOCAL statement_timeout = {more}; {first}; \
             SELECT 1 / (clock_timestamp() < {until})::int, \
             set_config('statement_timeout', {}, true), \
             pg_logical_emit_message(true, 'memory_prompt', ''); {}",
            millis_until(&until, 1000),
            then.join("; ")
        );
        let messages = line.client.simple_query(&script).await?;
        let counts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        });
        // Without those of the settings and of the look at the clock.
        let counts = counts.enumerate().filter(|(i, _)| ![0, 1, 3].contains(i));
        Ok(counts.map(|(_, count)| count).collect())
    }
}

/// Asks for the rows of a statement. The first time on a connection the server plans it, and
/// prepares it beside that for the next times: so no round trip is needed for it.
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

/// Returns the SQL for the milliseconds until a time by the server's clock, or as many thousandths
/// of that time as this, as the text of a setting. (None would be no limit at all.)
pub(super) fn millis_until(time: &str, thousandths: u32) -> String {
    format!(
        "least(greatest(extract(epoch FROM {time} - clock_timestamp()) * {thousandths}, 1), {})::int::text",
        i32::MAX
    )
}
