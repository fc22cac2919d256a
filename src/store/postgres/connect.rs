//! The connections of a store: how long to wait, when to ask again, and what a lost answer means.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use deadpool_postgres::tokio_postgres::config::Host;
use deadpool_postgres::tokio_postgres::types::{ToSql, Type};
use deadpool_postgres::tokio_postgres::{self as driver, Config, NoTls, Row, SimpleQueryMessage};
use deadpool_postgres::{
    Client, ClientWrapper, Hook, HookError, Manager, Pool, PoolError, QueueMode,
};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::PostgresOptions;
use super::failure::{Verdict, describe, failed, unacknowledged};
use super::lease::Lease;
use super::schema::Tables;
use super::version;
use crate::error::{Error, ErrorKind, Result};

/// A pool, and how long to wait for what.
///
/// All that is asked is one message to the server and one answer: a statement, or a script that the
/// server runs as one transaction. So nothing of a session outlives a question, as transaction poolers
/// demand, and whatever gets lost, a change is done whole or not at all.
pub(super) struct Connections {
    pool: Pool,
    tables: Tables,
    runtime: Handle,
    connect_timeout: Duration,
    timeout: Duration,
}

/// One message to the server, and what is made of its answer.
pub(super) trait Question: Sync {
    type Answer;
    /// Whether asking again does harm where nobody knows if it was done.
    const CHANGES: bool;
    fn ask(
        &self,
        client: &Client,
    ) -> impl Future<Output = Result<Self::Answer, driver::Error>> + Send;
}

/// A parameter of a statement with its type, so that the server need not be asked for it.
pub(super) type Parameter<'a> = (&'a (dyn ToSql + Sync), Type);

/// A statement that reads; the answer is its rows.
pub(super) struct Read<'a>(pub(super) &'a str, pub(super) &'a [Parameter<'a>]);

/// A statement that changes something; the answer is its rows.
pub(super) struct Change<'a>(pub(super) &'a str, pub(super) &'a [Parameter<'a>]);

/// A statement that changes something, in one transaction with a script that locks what it depends on:
/// it begins when the lock is held. All of it is sent at once, so that no lock is held for as long as a
/// message is on its way. The answer is the statement's rows.
pub(super) struct Locked<'a>(pub(super) String, pub(super) Change<'a>);

/// Statements that change something, in one transaction; the answer is how many rows each of them did but
/// for the first, which says how long the others wait.
///
/// Each sees what was committed before it began, which a part of a statement does not: so what one
/// waited for, the next one sees.
pub(super) struct Script(pub(super) String);

impl Question for Read<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = false;
    async fn ask(&self, client: &Client) -> Result<Vec<Row>, driver::Error> {
        client.query_typed(self.0, self.1).await
    }
}

impl Question for Change<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = true;
    async fn ask(&self, client: &Client) -> Result<Vec<Row>, driver::Error> {
        client.query_typed(self.0, self.1).await
    }
}

impl Question for Locked<'_> {
    type Answer = Vec<Row>;
    const CHANGES: bool = true;
    async fn ask(&self, client: &Client) -> Result<Vec<Row>, driver::Error> {
        // Whatever the default is, the statement is to see what was committed until then.
        let lock = format!("BEGIN ISOLATION LEVEL READ COMMITTED; {}", self.0);
        let locked = both(client.batch_execute(&lock), self.1.ask(client));
        let ((begun, rows), ended) = both(locked, client.batch_execute("COMMIT")).await;
        begun?;
        let rows = rows?;
        ended?;
        Ok(rows)
    }
}

/// Waits for both, and lets the first begin first.
async fn both<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
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

impl Question for Script {
    type Answer = Vec<u64>;
    const CHANGES: bool = true;
    async fn ask(&self, client: &Client) -> Result<Vec<u64>, driver::Error> {
        let messages = client.simple_query(&self.0).await?;
        let counts = messages.iter().filter_map(|message| match message {
            SimpleQueryMessage::CommandComplete(count) => Some(*count),
            _ => None,
        });
        Ok(counts.skip(1).collect())
    }
}

/// A connection that idled for longer is asked whether it is still there: firewalls forget, and say
/// nothing.
const IDLE: Duration = Duration::from_secs(10);

impl Connections {
    /// As many connections to this address as are needed, none of them yet.
    pub(super) fn to(config: Config, tables: Tables, options: &PostgresOptions) -> Result<Self> {
        // So that there is time left for a new one.
        let patience = options.connect_timeout / 4;
        let still_there = Hook::async_fn(move |client: &mut ClientWrapper, metrics| {
            Box::pin(async move {
                if metrics.last_used() < IDLE {
                    return Ok(());
                }
                match timeout(patience, client.simple_query("")).await {
                    Ok(answer) => answer.map(|_| ()).map_err(HookError::Backend),
                    Err(_) => Err(HookError::message("it is not there any more")),
                }
            })
        });
        let pool = Pool::builder(Manager::new(config, NoTls))
            .max_size(options.connections.max(1))
            .queue_mode(QueueMode::Lifo) // the one that idled least
            .pre_recycle(still_there)
            .build()
            .map_err(|error| Error::invalid("open", format!("postgres: {error}")))?;
        Self::over(pool, tables, options)
    }

    /// The connections of this pool.
    pub(super) fn over(pool: Pool, tables: Tables, options: &PostgresOptions) -> Result<Self> {
        let (connect_timeout, timeout) = (options.connect_timeout, options.timeout);
        let runtime = Handle::try_current().map_err(|error| {
            let text =
                "postgres: a store is opened on a tokio runtime, with timers and I/O enabled";
            Error::invalid("open", text).with_source(error)
        })?;
        Ok(Self { pool, tables, runtime, connect_timeout, timeout })
    }

    pub(super) async fn ask<Q: Question>(
        &self,
        operation: &'static str,
        question: Q,
    ) -> Result<Q::Answer> {
        let began = Instant::now();
        let mut pause = Duration::from_millis(1);
        let mut lost = 0;
        loop {
            let mut lease = Lease::new(&self.runtime, self.timeout);
            let client = lease.hold(self.connection(operation).await?);
            match self.check(client, operation).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    lease.close();
                    if lost == 2 {
                        return Err(failed(operation, error));
                    }
                    lost += 1;
                    continue;
                }
                Err(error) => {
                    lease.close();
                    return Err(error);
                }
            }
            let left = self.timeout.saturating_sub(began.elapsed());
            let Ok(answer) = timeout(left, question.ask(client)).await else {
                let text = format!("the server did not answer within {:?}", self.timeout);
                return Err(if Q::CHANGES {
                    unacknowledged(operation, &text)
                } else {
                    Error::new(ErrorKind::Storage, operation, format!("postgres: {text}"))
                });
            };
            lease.done();
            let error = match answer {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            match Verdict::of(&error) {
                Verdict::InTheWay if began.elapsed() + pause < self.timeout => {
                    sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(50));
                }
                Verdict::Undone | Verdict::InTheWay => return Err(failed(operation, error)),
                Verdict::Unknown if Q::CHANGES => {
                    return Err(unacknowledged(operation, &describe(&error)).with_source(error));
                }
                // Once for a connection that was dead already, once for what kills another one.
                Verdict::Unknown if lost == 2 => return Err(failed(operation, error)),
                Verdict::Unknown => lost += 1,
            }
        }
    }

    /// Looks at the version of the tables where the connection is new: it may have waited for a server on
    /// which another program upgraded them. An error here is that of something not done; one of the
    /// driver says that the connection is no more.
    async fn check(
        &self,
        client: &Client,
        operation: &'static str,
    ) -> Result<Result<(), driver::Error>> {
        if Client::metrics(client).recycle_count > 0 {
            return Ok(Ok(()));
        }
        let looked = timeout(self.connect_timeout, version::check(client, operation, &self.tables));
        looked.await.unwrap_or_else(|_| Err(self.no_connection(operation)))
    }

    /// A connection to which nothing was sent yet.
    pub(super) async fn connection(&self, operation: &'static str) -> Result<Client> {
        let refuse = |text| Error::new(ErrorKind::Storage, operation, text);
        match timeout(self.connect_timeout, self.pool.get()).await {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(PoolError::Backend(error))) => {
                let text = format!("postgres: no connection: {}", describe(&error));
                Err(refuse(text).with_source(error))
            }
            Ok(Err(error)) => Err(refuse(format!("postgres: no connection: {error}"))),
            Err(_) => Err(self.no_connection(operation)),
        }
    }

    fn no_connection(&self, operation: &'static str) -> Error {
        let text = format!(
            "postgres: no connection within {:?}: the server does not answer, or all {} connections are \
             in use",
            self.connect_timeout,
            self.pool.status().max_size,
        );
        Error::new(ErrorKind::Storage, operation, text)
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }
}

/// Reads an address, and refuses early what the driver would refuse late or misread. No error here
/// quotes the address: there may be a password in it.
pub(super) fn config(address: &str) -> Result<Config> {
    let refuse = |text: String| Err(Error::invalid("open", format!("postgres: {text}")));
    let is_url = ["postgres://", "postgresql://"].iter().any(|start| address.starts_with(start));
    if !is_url && address.contains("://") {
        return refuse("an address begins with postgres://".to_owned());
    }
    let config: Config = match address.parse() {
        Ok(config) => config,
        Err(error) => return refuse(format!("the address can't be read: {}", describe(&error))),
    };
    let hosts = config.get_hosts();
    if hosts.is_empty() && config.get_hostaddrs().is_empty() {
        return refuse("the address names no host".to_owned());
    }
    if hosts.iter().any(|host| matches!(host, Host::Tcp(name) if name.contains('@'))) {
        return refuse("write an @ in a name or a password as %40".to_owned());
    }
    Ok(config)
}

/// Where an address leads, without its password.
pub(super) fn place(config: &Config) -> String {
    let (mut places, ports) = (Vec::new(), config.get_ports());
    for (i, host) in config.get_hosts().iter().enumerate() {
        let port = ports.get(i).or_else(|| ports.first()).unwrap_or(&5432);
        places.push(match host {
            Host::Tcp(name) => format!("{name}:{port}"),
            #[cfg(unix)]
            Host::Unix(folder) => format!("{}:{port}", folder.display()),
        });
    }
    let database = config.get_dbname().or_else(|| config.get_user()).unwrap_or_default();
    format!("{}/{database}", places.join(","))
}
