//! The connections of a store: waiting for one, retries, and the errors of lost answers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use deadpool_postgres::tokio_postgres::Config;
use deadpool_postgres::tokio_postgres::config::Host;
use deadpool_postgres::{Client, Hook, HookError, Pool, PoolError, QueueMode};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::ask::{Exchange, Request};
use super::failure::{
    Verdict, describe, describe_connecting, fail, fail_unacknowledged, may_come_back,
};
use super::options::PostgresOptions;
use super::schema::Tables;
use super::tls::Security;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::BoxFuture;
use crate::store::Figures;
use crate::store::common::in_runtime;
use crate::store::observe::Watch;
use crate::store::payloads::Encoding;
use crate::store::retry::Retry;

/// A pool of connections, and the timeouts.
///
/// Each request is sent at once, as one statement or one transaction, and gets one answer. So it
/// needs no session state, as transaction poolers demand, and a change is made whole or not at all,
/// even if a connection or an answer is lost.
pub(super) struct Connections {
    pool: Pool,
    security: Security,
    /// True if a connection was lost since the last new one.
    connection_lost: AtomicBool,
    /// True while statements may be prepared.
    prepares: AtomicBool,
    pub(super) tables: Tables,
    pub(super) encoding: Encoding,
    pub(super) place: String,
    runtime: Handle,
    connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) watch: Watch,
}

/// Firewalls silently forget an idle connection, so one that was idle for longer than this is
/// replaced. (Testing it first would take as long as a new connection, or all the time there is.)
const IDLE: Duration = Duration::from_secs(30);

/// How many lost answers are retried before the request itself is blamed: one for a dead
/// connection, one for a cause that kills another.
const MOST_LOST: u32 = 2;

/// If less than this fraction of the time is left, nothing is sent: the server could not report in
/// time what it did.
const SHORT: u32 = 20;

struct NoConnection {
    error: Error,
    /// True if there may be one in a moment: the server starts, or is not there.
    may_come_back: bool,
}

/// How long an abandoned request may continue by itself.
const GRACE: Duration = Duration::from_millis(100);

/// A connection in use.
///
/// The server continues an abandoned request, and keeps its connection busy, closed or not. So such
/// a connection stays in the pool's count until the server has answered: by itself, which is usual,
/// or after a cancel request.
pub(super) struct Lease<'a> {
    client: Option<Client>,
    of: &'a Connections,
}

impl Lease<'_> {
    pub(super) fn client(&mut self) -> Option<&mut Client> {
        self.client.as_mut()
    }

    /// Returns the connection to the pool, since the answer is there.
    pub(super) fn done(mut self) {
        self.client = None;
    }

    /// Closes the connection, since no more answers follow.
    fn close(mut self) {
        self.client.take().map(Client::take);
    }
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let (patience, security) = (self.of.timeout, self.of.security.clone());
        self.of.runtime.spawn(async move {
            // Answers come in the order of the requests: after this one, all are there.
            let idle = timeout(GRACE, client.simple_query("")).await;
            if idle.is_ok_and(|answer| answer.is_ok()) {
                return;
            }
            // Then the session ends: a late cancel request must not hit another caller's request.
            let ended = async {
                security.cancel(&client.cancel_token()).await;
                client.simple_query("SELECT pg_terminate_backend(pg_backend_pid())").await
            };
            let _ = timeout(patience, ended).await;
            drop(Client::take(client));
        });
    }
}

impl Connections {
    /// Returns a pool for this address. Connections are made when needed.
    pub(super) fn to(address: &str, options: &PostgresOptions) -> Result<Self> {
        let mut config = config(address)?;
        // The driver asks one machine after the other: one that is gone leaves time for the next.
        if config.get_connect_timeout().is_none() {
            let machines = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX).max(1);
            config.connect_timeout(options.connect_timeout / machines);
        }
        let place = place(&config);
        let idle = Hook::sync_fn(|_, metrics| {
            let text = "it was idle for too long";
            if metrics.last_used() < IDLE { Ok(()) } else { Err(HookError::message(text)) }
        });
        let (config, security) = Security::of(config, options)?;
        let pool = Pool::builder(security.manager(config))
            .max_size(options.connections.max(1))
            .queue_mode(QueueMode::Lifo) // the one that idled least
            .pre_recycle(idle)
            .build()
            .map_err(|error| Error::invalid("open", format!("postgres: {error}")))?;
        Self::over(pool, security, place, options)
    }

    pub(super) fn over(
        pool: Pool,
        security: Security,
        place: String,
        options: &PostgresOptions,
    ) -> Result<Self> {
        let runtime = Handle::try_current().map_err(|error| {
            let text =
                "postgres: a store is opened on a tokio runtime, with timers and I/O enabled";
            Error::invalid("open", text).with_source(error)
        })?;
        Ok(Self {
            pool,
            security,
            connection_lost: AtomicBool::new(false),
            prepares: AtomicBool::new(options.prepare),
            tables: Tables::new(&options.schema, &options.prefix)?,
            encoding: options.encoding,
            place,
            runtime,
            connect_timeout: options.connect_timeout,
            timeout: options.timeout,
            watch: Watch::new("postgres"),
        })
    }

    /// Sends a request, and retries it if it can't have been done, or if it is a read whose answer
    /// was lost.
    pub(super) async fn ask<R: Request>(
        &self,
        operation: &'static str,
        request: &R,
    ) -> Result<R::Answer> {
        self.ask_within(&mut self.time(), operation, request).await
    }

    /// Starts the time limit of an operation with several requests.
    pub(super) fn time(&self) -> Retry {
        Retry::within(self.timeout)
    }

    /// Sends a request within the time left.
    pub(super) async fn ask_within<R: Request>(
        &self,
        retry: &mut Retry,
        operation: &'static str,
        request: &R,
    ) -> Result<R::Answer> {
        let mut lost_answers = 0;
        loop {
            let client = match self.get(operation, retry.left()).await {
                Ok(client) => client,
                Err(no) if no.may_come_back && retry.pause().await => {
                    self.connection_lost.store(true, Ordering::Relaxed);
                    self.watch.retried(operation, "no connection");
                    continue;
                }
                Err(no) => return Err(no.error),
            };
            let left = retry.left();
            if left < self.timeout / SHORT {
                return Err(self.unanswered(operation));
            }
            let is_old = Client::metrics(&client).created < retry.began;
            let prepares = self.prepares.load(Ordering::Relaxed);
            let mut lease = Lease { client: None, of: self };
            let client = lease.client.insert(client);
            let exchange = Exchange::new(client, prepares, left);
            let Ok(answer) = timeout(left, request.ask(&exchange)).await else {
                return Err(self.no_answer::<R>(operation));
            };
            let error = match answer {
                Ok(answer) => {
                    lease.done();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            let verdict = Verdict::of(&error);
            match verdict {
                Verdict::ReadOnly => lease.close(),
                _ => lease.done(),
            }
            let (again, reason) = match verdict {
                Verdict::NotPrepared => {
                    self.prepares.store(false, Ordering::Relaxed);
                    (prepares, Some("not prepared"))
                }
                // A new connection may lead to another server. If it leads to the same one, a retry
                // is useless.
                Verdict::ReadOnly => (is_old, Some("read-only")),
                Verdict::InTheWay => (retry.pause().await, None),
                Verdict::Undone => (false, None),
                Verdict::Unknown => {
                    self.connection_lost.store(true, Ordering::Relaxed);
                    if R::CHANGES {
                        let text = describe(&error);
                        return Err(fail_unacknowledged(operation, &text).with_source(error));
                    }
                    lost_answers += 1;
                    let again = lost_answers <= MOST_LOST && retry.pause().await;
                    (again, Some("connection lost"))
                }
            };
            if !again {
                return Err(fail(operation, error));
            }
            match reason {
                Some(reason) => self.watch.retried(operation, reason),
                None => self.watch.lost_race(operation),
            }
        }
    }

    /// Returns a connection for several requests in a row.
    pub(super) async fn lease(&self, operation: &'static str) -> Result<Lease<'_>> {
        let client = self.get(operation, self.timeout).await.map_err(|no| no.error)?;
        Ok(Lease { client: Some(client), of: self })
    }

    async fn get(&self, operation: &'static str, left: Duration) -> Result<Client, NoConnection> {
        let refuse = |text| Error::new(ErrorKind::Storage, operation, text);
        let (error, may_come_back) =
            match timeout(self.connect_timeout.min(left), self.pool.get()).await {
                Ok(Ok(client)) => {
                    let is_new = Client::metrics(&client).recycle_count == 0;
                    if is_new && self.connection_lost.swap(false, Ordering::Relaxed) {
                        self.watch.reconnected(operation);
                    }
                    return Ok(client);
                }
                Ok(Err(PoolError::Backend(error))) => {
                    let why = describe_connecting(&error, &self.security);
                    let may_come_back = may_come_back(&error);
                    let text = format!("postgres: no connection: {why}");
                    (refuse(text).with_source(error), may_come_back)
                }
                Ok(Err(error)) => (refuse(format!("postgres: no connection: {error}")), false),
                Err(_) => (self.unanswered(operation), false),
            };
        Err(NoConnection { error, may_come_back })
    }

    fn unanswered(&self, operation: &'static str) -> Error {
        let text = format!(
            "postgres: no connection within {:?}: the server does not answer, or all {} connections are \
             in use",
            self.connect_timeout.min(self.timeout),
            self.pool.status().max_size,
        );
        Error::new(ErrorKind::Storage, operation, text)
    }

    fn no_answer<R: Request>(&self, operation: &'static str) -> Error {
        let text = format!("the server did not answer within {:?}", self.timeout);
        if R::CHANGES {
            fail_unacknowledged(operation, &text)
        } else {
            Error::new(ErrorKind::Storage, operation, format!("postgres: {text}"))
        }
    }

    /// Runs an observed operation, and checks that there is a runtime.
    pub(super) fn watched<'a, T>(
        &'a self,
        operation: &'static str,
        work: impl Future<Output = Result<T>> + Send + 'a,
    ) -> BoxFuture<'a, Result<T>> {
        self.watch.operation(operation, async move {
            in_runtime("postgres", operation)?;
            work.await
        })
    }

    pub(super) fn figures(&self) -> Figures {
        let status = self.pool.status();
        Figures {
            connections: status.size,
            most_connections: Some(status.max_size),
            waiting: status.waiting,
            ..self.watch.figures()
        }
    }
}

/// Parses an address, and refuses early what the driver would refuse late or misread. No error here
/// quotes the address, since it may contain a password.
fn config(address: &str) -> Result<Config> {
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
    // The driver ends name and password at the first one.
    let behind = address.split_once('@').and_then(|(_, behind)| behind.split('?').next());
    if is_url && behind.is_some_and(|it| it.contains('@')) {
        return refuse("write an @ in a name or a password as %40".to_owned());
    }
    Ok(config)
}

/// Returns the address without its password.
fn place(config: &Config) -> String {
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::store::PostgresStore;

    /// A memory that was polled on another executor panicked: its time limits need a runtime.
    #[test]
    fn outside_of_a_runtime_there_is_an_error() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let options = PostgresStore::options();
        let opened = async { Connections::to("postgres://localhost/test", &options) };
        let connections = runtime.block_on(opened).unwrap();
        let mut read =
            connections.watched("read", async { connections.lease("read").await.map(Lease::done) });
        let polled = read.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        let expected = "read: postgres: the driver needs a tokio runtime";
        assert!(matches!(polled, Poll::Ready(Err(error)) if error.to_string() == expected));
    }
}
