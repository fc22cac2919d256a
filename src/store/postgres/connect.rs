//! The connections of a store: waiting for one, asking again, and the errors of answers that got
//! lost.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use deadpool_postgres::tokio_postgres::Config;
use deadpool_postgres::tokio_postgres::config::Host;
use deadpool_postgres::{Client, ClientWrapper, Hook, HookError, Pool, PoolError, QueueMode};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use super::PostgresOptions;
use super::ask::{Line, Question};
use super::failure::{
    Verdict, describe, describe_connecting, fail, fail_unacknowledged, may_come_back,
};
use super::lease::Lease;
use super::schema::Tables;
use super::session::{Session, Sessions};
use super::settling::Settling;
use super::tls::Security;
use super::upgrade;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::MemoryId;
use crate::store::Figures;
use crate::store::observe::Watch;

/// A pool of connections, and the times to wait.
///
/// All that is asked is one message to the server and one answer: a statement, or a script that the
/// server runs as one transaction. So nothing of a session is needed beyond a question, as
/// transaction poolers demand, and whatever gets lost, a change is done whole or not at all.
pub(super) struct Connections {
    pool: Pool,
    security: Security,
    sessions: Sessions,
    /// True where a connection was lost since the last new one.
    connection_lost: AtomicBool,
    settling: Arc<Settling>,
    tables: Tables,
    runtime: Handle,
    prepare: bool,
    connect_timeout: Duration,
    timeout: Duration,
    pub(super) watch: Watch,
}

/// Firewalls forget a connection that was idle, and say nothing: one that was for longer than this
/// is asked whether it is still there.
const IDLE: Duration = Duration::from_secs(10);

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// The most answers that may get lost until it is the question's fault: once with a connection that
/// was dead already, once with what kills another one.
const MOST_LOST: u32 = 2;

/// Nothing is sent where less than this part of the whole time is left: the server could not say in
/// time what it did.
const SHORT: u32 = 20;

/// A connection that can't be had.
struct NoConnection {
    error: Error,
    /// True where there may be one in a moment: the server starts, or is not there.
    may_come_back: bool,
}

impl From<Error> for NoConnection {
    /// Makes an error after which there is nothing to wait for.
    fn from(error: Error) -> Self {
        Self { error, may_come_back: false }
    }
}

/// The time that a question has, from its beginning.
struct Time {
    began: Instant,
    whole: Duration,
    pause: Duration,
}

impl Time {
    fn new(whole: Duration) -> Self {
        Self { began: Instant::now(), whole, pause: Duration::from_millis(1) }
    }

    fn left(&self) -> Duration {
        self.whole.saturating_sub(self.began.elapsed())
    }

    /// Waits a little longer each time; returns whether there is time left for another attempt.
    async fn pause(&mut self) -> bool {
        if self.left() <= self.pause {
            return false;
        }
        sleep(self.pause).await;
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        true
    }
}

impl Connections {
    /// Returns the connections to this address, none of which is made before it is needed.
    pub(super) fn to(config: Config, tables: Tables, options: &PostgresOptions) -> Result<Self> {
        // A part of the time, so that some is left for a new one.
        let patience = options.connect_timeout / 4;
        // The last time when a connection was found to be gone.
        let found: Arc<Mutex<Option<Instant>>> = Arc::default();
        let still_there = Hook::async_fn(move |client: &mut ClientWrapper, metrics| {
            let (idle, found) = (metrics.last_used(), Arc::clone(&found));
            Box::pin(async move {
                if idle < IDLE {
                    return Ok(());
                }
                let gone = || Err(HookError::message("it is not there any more"));
                // A firewall that forgot one has likely forgotten all that idled then: none of them
                // is asked.
                if found.lock().is_some_and(|found| idle > found.elapsed()) {
                    return gone();
                }
                let Ok(answer) = timeout(patience, client.simple_query("")).await else {
                    *found.lock() = Some(Instant::now());
                    return gone();
                };
                answer.map(|_| ()).map_err(HookError::Backend)
            })
        });
        let (config, security) = Security::of(config, options)?;
        let pool = Pool::builder(security.manager(config))
            .max_size(options.connections.max(1))
            .queue_mode(QueueMode::Lifo) // the one that idled least
            .pre_recycle(still_there)
            .build()
            .map_err(|error| Error::invalid("open", format!("postgres: {error}")))?;
        Self::over(pool, security, tables, options)
    }

    /// Returns the connections of this pool.
    pub(super) fn over(
        pool: Pool,
        security: Security,
        tables: Tables,
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
            sessions: Sessions::default(),
            connection_lost: AtomicBool::new(false),
            settling: Arc::default(),
            tables,
            runtime,
            prepare: options.prepare,
            connect_timeout: options.connect_timeout,
            timeout: options.timeout,
            watch: Watch::new("postgres"),
        })
    }

    /// Returns room for a connection.
    pub(super) fn lease(&self) -> Lease<'_> {
        Lease::new(&self.runtime, &self.security, self.timeout)
    }

    /// Asks something about these conversations, which are only named where it changes them.
    pub(super) async fn ask<Q: Question>(
        &self,
        operation: &'static str,
        ids: &[&MemoryId],
        question: Q,
    ) -> Result<Q::Answer> {
        let mut time = Time::new(self.timeout);
        let mut lost_answers = 0;
        loop {
            self.settled(operation, ids, &time).await?;
            let mut lease = self.lease();
            if Q::CHANGES {
                lease.changes(&self.settling, ids);
            }
            let (client, session) = match self.line(operation, &time, &mut lease).await {
                Ok(line) => line,
                Err(no) if no.may_come_back && time.pause().await => {
                    self.connection_lost.store(true, Ordering::Relaxed);
                    self.watch.retried(operation, "no connection");
                    continue;
                }
                Err(no) => return Err(no.error),
            };
            if self.settling.is_open(ids) {
                // Somebody gave up a change while this one waited for a connection.
                lease.done();
                continue;
            }
            let left = time.left();
            if left < self.timeout / SHORT {
                lease.done();
                return Err(self.nobody_answered(operation));
            }
            let line = Line::new(client, &session, left);
            let Ok(answer) = timeout(left, question.ask(&line)).await else {
                return Err(self.no_answer::<Q>(operation));
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
                Verdict::Unknown => self.connection_lost.store(true, Ordering::Relaxed),
                Verdict::NotPrepared => session.prepare_no_more(),
                Verdict::Late => self.sessions.forget(client),
                _ => {}
            }
            let of_before = session.was_before(time.began);
            match verdict {
                Verdict::ReadOnly => lease.close(),
                _ => lease.done(),
            }
            let again = match verdict {
                Verdict::NotPrepared => true,
                // A new connection may lead to another server; where it leads to this one again,
                // trying again is in vain.
                Verdict::ReadOnly => of_before,
                Verdict::InTheWay | Verdict::Late => time.pause().await,
                Verdict::Undone => false,
                Verdict::Unknown if Q::CHANGES => {
                    let text = describe(&error);
                    return Err(fail_unacknowledged(operation, &text).with_source(error));
                }
                Verdict::Unknown => {
                    lost_answers += 1;
                    lost_answers <= MOST_LOST && time.pause().await
                }
            };
            if !again {
                return Err(fail(operation, error));
            }
            self.tell_again(operation, &verdict);
        }
    }

    fn tell_again(&self, operation: &'static str, verdict: &Verdict) {
        match verdict {
            Verdict::NotPrepared => self.watch.retried(operation, "not prepared"),
            Verdict::Late => self.watch.retried(operation, "the clock"),
            Verdict::ReadOnly => self.watch.retried(operation, "read-only"),
            Verdict::InTheWay => self.watch.lost_race(operation),
            Verdict::Undone => {}
            Verdict::Unknown => self.watch.retried(operation, "connection lost"),
        }
    }

    /// Waits until the server is done with what was given up about these conversations.
    async fn settled(&self, operation: &'static str, ids: &[&MemoryId], time: &Time) -> Result<()> {
        timeout(time.left(), self.settling.settled(ids)).await.map_err(|_| {
            let text = format!(
                "postgres: the server was not done with what was given up before within {:?}",
                self.timeout
            );
            Error::new(ErrorKind::Storage, operation, text)
        })
    }

    /// Returns a connection, and what is known about it. Where it is new, that is found out first,
    /// and the version of the tables is looked at: the connection may have waited for a server on
    /// which another program upgraded them.
    async fn line<'a>(
        &self,
        operation: &'static str,
        time: &Time,
        lease: &'a mut Lease<'_>,
    ) -> Result<(&'a Client, Arc<Session>), NoConnection> {
        let client = self.get(operation, time.left()).await?;
        let known = self.sessions.of(&client);
        let (client, new) = lease.hold(client, known.is_none());
        if let Some(session) = known {
            return Ok((client, session));
        }
        let patience = self.connect_timeout.min(time.left());
        let looked = timeout(patience, self.look(operation, client)).await;
        let session = looked.unwrap_or_else(|_| Err(self.nobody_answered(operation).into()))?;
        *new = false;
        if self.connection_lost.swap(false, Ordering::Relaxed) {
            self.watch.reconnected(operation);
        }
        let session = self.sessions.keep(client, session, self.pool.status().max_size);
        Ok((client, session))
    }

    async fn look(
        &self,
        operation: &'static str,
        client: &Client,
    ) -> Result<Session, NoConnection> {
        let said = upgrade::check(client, operation, &self.tables).await?;
        match said {
            Ok(said) => Ok(Session::of(client, &said, self.prepare).await),
            // The driver's errors say that the connection is no more.
            Err(error) => Err(NoConnection { error: fail(operation, error), may_come_back: true }),
        }
    }

    /// Returns a connection to which nothing was sent yet.
    pub(super) async fn connection(&self, operation: &'static str) -> Result<Client> {
        self.get(operation, self.timeout).await.map_err(|no| no.error)
    }

    async fn get(&self, operation: &'static str, left: Duration) -> Result<Client, NoConnection> {
        let refuse = |text| Error::new(ErrorKind::Storage, operation, text);
        let error = match timeout(self.connect_timeout.min(left), self.pool.get()).await {
            Ok(Ok(client)) => return Ok(client),
            Ok(Err(PoolError::Backend(error))) => {
                let why = describe_connecting(&error, &self.security);
                let may_come_back = may_come_back(&error);
                let text = format!("postgres: no connection: {why}");
                let error = refuse(text).with_source(error);
                return Err(NoConnection { error, may_come_back });
            }
            Ok(Err(error)) => refuse(format!("postgres: no connection: {error}")),
            Err(_) => self.nobody_answered(operation),
        };
        Err(error.into())
    }

    fn nobody_answered(&self, operation: &'static str) -> Error {
        let text = format!(
            "postgres: no connection within {:?}: the server does not answer, or all {} connections are \
             in use",
            self.connect_timeout.min(self.timeout),
            self.pool.status().max_size,
        );
        Error::new(ErrorKind::Storage, operation, text)
    }

    fn no_answer<Q: Question>(&self, operation: &'static str) -> Error {
        let text = format!("the server did not answer within {:?}", self.timeout);
        if Q::CHANGES {
            fail_unacknowledged(operation, &text)
        } else {
            Error::new(ErrorKind::Storage, operation, format!("postgres: {text}"))
        }
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
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

/// Returns the place that an address leads to, without its password.
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
