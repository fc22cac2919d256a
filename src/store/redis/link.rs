//! The way to the server: one connection or those of a cluster, and asking again when an answer
//! stays away.

use std::collections::HashMap;
use std::fmt;
use std::pin::pin;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{Either, join_all, select};
use redis::{Cmd, RedisResult, ServerErrorKind, Value, cmd, pipe};
use tokio::time::{Instant, sleep, timeout_at};

use super::connect::{Connection, Way};
use super::failure::{Verdict, describe};
use super::schema;
use super::wanted::Wanted;
use crate::error::{Error, ErrorKind, Result};
use crate::store::common::in_runtime;
use crate::store::observe::Watch;

pub(super) struct Link {
    pub(super) way: Way,
    /// The ways of changes that wait for replicas; none where those have only that of all others.
    pub(super) waiting: Vec<Way>,
    /// The longest time of an operation, with all that is repeated.
    pub(super) timeout: Duration,
    /// The number of replicas that must have a change, and the time to wait for them.
    pub(super) replicas: Option<(usize, Duration)>,
    /// The address of the server, for people. No password.
    pub(super) place: String,
    /// The key of the data's version.
    pub(super) version: String,
    /// True where a connection was lost since the version was looked at: who waits for a new one
    /// may find other data.
    pub(super) connection_lost: AtomicBool,
    /// The time of the servers' clocks, in milliseconds, and when it was that.
    pub(super) clocks: parking_lot::Mutex<HashMap<String, (u64, Instant)>>,
    pub(super) watch: Watch,
}

/// The time for which a server's clock is trusted to go as ours does.
const FRESH: Duration = Duration::from_secs(60);

/// The time for which the server remembers what a change returned, longer than anybody asks for it
/// again: by so much the clocks of a master and of the replica that takes over may differ.
const LONGER: Duration = Duration::from_secs(60);

/// A script with the hash by which a server knows it.
pub(super) struct Script {
    text: &'static str,
    hash: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        Self { text, hash: redis::Script::new(text).get_hash().to_owned() }
    }
}

macro_rules! change {
    ($file:literal) => {
        LazyLock::new(|| Script::new(concat!(include_str!("once.lua"), include_str!($file))))
    };
}

pub(super) static APPEND: LazyLock<Script> = change!("append.lua");
pub(super) static EVICT: LazyLock<Script> = change!("evict.lua");
pub(super) static CLEAR: LazyLock<Script> = change!("clear.lua");
pub(super) static FORGET: LazyLock<Script> = change!("forget.lua");
pub(super) static ARRIVE: LazyLock<Script> = change!("arrive.lua");
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("read.lua")));

impl Link {
    /// Asks for what changes nothing, or can be done twice.
    pub(super) async fn ask(&self, operation: &'static str, command: &Cmd) -> Result<Value> {
        let mut patience = self.patience(operation, false);
        loop {
            let mut connection = patience.connection().await?;
            if let Some(value) = patience.wait(command.query_async(&mut connection)).await? {
                return Ok(value);
            }
        }
    }

    /// Makes a change once, however often it must be asked for. The first of the keys is its token.
    /// What was done is returned as text; a number is why it was not.
    pub(super) async fn change(
        &self,
        operation: &'static str,
        script: &Script,
        keys: &[String],
        args: &[impl AsRef<[u8]>],
    ) -> Result<Value> {
        let remembered =
            u64::try_from(self.timeout.saturating_add(LONGER).as_millis()).unwrap_or(u64::MAX);
        let remembered = remembered.min(1 << 51).to_string();
        let mut patience = self.patience(operation, true);
        patience.way = self.way_of_a_change(&keys[0]);
        loop {
            let mut connection = patience.connection().await?;
            let Some(last) = patience.last(&keys[0], &mut connection).await? else { continue };
            let last = last.to_string();
            let token = [remembered.as_bytes(), last.as_bytes()].into_iter();
            let args: Vec<&[u8]> = token.chain(args.iter().map(AsRef::as_ref)).collect();
            let attempt = run(script, keys, &args, self.replicas, &mut connection);
            let attempt = patience.wait(attempt).await;
            let attempt = attempt.inspect_err(|_| self.forget_clocks())?;
            let Some((value, confirmed)) = attempt else {
                self.forget_clocks();
                continue;
            };
            // A number says that nothing was done.
            return match (&value, self.replicas) {
                (Value::BulkString(_), Some((replicas, time))) if confirmed < replicas => {
                    let text = format!(
                        "redis: it is done, but only {confirmed} of {replicas} replicas have it after {time:?}"
                    );
                    Err(Error::new(ErrorKind::Unacknowledged, operation, text))
                }
                _ => Ok(value),
            };
        }
    }

    /// Reads what is wanted of a conversation, all of one moment.
    pub(super) async fn read(&self, operation: &'static str, wanted: &Wanted<'_>) -> Result<Value> {
        // A transaction and not a script: Lua turns each entry into tables and back, which takes
        // five times as long as to find it.
        let transaction = wanted.transaction();
        let mut patience = self.patience(operation, false);
        loop {
            let mut connection = patience.connection().await?;
            let attempt = async {
                match transaction.query_async(&mut connection).await {
                    // The slot has moved, or is just moving. The driver finds the way for a single
                    // command and not for a transaction.
                    Err(error) if error.kind() == ServerErrorKind::ExecAbort.into() => {
                        let args = wanted.args();
                        let args: Vec<&[u8]> = args.iter().map(String::as_bytes).collect();
                        let read = run(&READ, wanted.keys(), &args, None, &mut connection);
                        read.await.map(|(value, _)| value)
                    }
                    result => result,
                }
            };
            if let Some(value) = patience.wait(attempt).await? {
                return Ok(value);
            }
        }
    }

    /// Forgets the clocks: whatever went wrong, there may be another server now, with another
    /// clock.
    fn forget_clocks(&self) {
        self.clocks.lock().clear();
    }

    /// Returns the number of connections; which of them are lost now, only the driver knows.
    pub(super) fn connections(&self) -> usize {
        1 + self.waiting.len()
    }

    /// Returns the way of a change. A connection does nothing else while it waits for replicas: so
    /// those who wait share several, and keep nobody else. Changes of one conversation share one,
    /// on which they keep their order.
    fn way_of_a_change(&self, key: &str) -> &Way {
        let shard = hash_tag(key).and_then(|shard| usize::from_str_radix(shard, 16).ok());
        let way = shard.unwrap_or_default().checked_rem(self.waiting.len());
        way.map_or(&self.way, |way| &self.waiting[way])
    }

    fn patience(&self, operation: &'static str, change: bool) -> Patience<'_> {
        Patience {
            link: self,
            way: &self.way,
            operation,
            change,
            deadline: Instant::now() + self.timeout,
            pause: Duration::from_millis(10),
            in_doubt: false,
            told: None,
            number: 0,
            number_of_all: 0,
        }
    }
}

/// Runs a script by its hash, or with its text where the server does not know it (any more).
/// Returns what it returned, and how many replicas have it by now.
async fn run(
    script: &Script,
    keys: &[String],
    args: &[&[u8]],
    replicas: Option<(usize, Duration)>,
    connection: &mut Connection,
) -> RedisResult<(Value, usize)> {
    let run = |name: &str, what: &str| {
        let mut command = cmd(name);
        command.arg(what).arg(keys.len()).arg(keys).arg(args);
        command
    };
    match send(run("EVALSHA", &script.hash), replicas, connection).await {
        Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
            send(run("EVAL", script.text), replicas, connection).await
        }
        result => result,
    }
}

async fn send(
    command: Cmd,
    replicas: Option<(usize, Duration)>,
    connection: &mut Connection,
) -> RedisResult<(Value, usize)> {
    let Some((replicas, time)) = replicas else {
        return Ok((command.query_async(connection).await?, 0));
    };
    // Both go over one connection: WAIT waits for what came before it there.
    let mut both = pipe();
    both.ignore_errors().add_command(command);
    both.cmd("WAIT").arg(replicas).arg(u64::try_from(time.as_millis()).unwrap_or(u64::MAX));
    // A server that has become a replica refuses both, and the first one says so.
    let (result, confirmed): (RedisResult<Value>, RedisResult<usize>) =
        both.query_async(connection).await?;
    Ok((result?, confirmed?))
}

/// Returns the part of a key that says where in a cluster it lies: the shard, in hex.
fn hash_tag(key: &str) -> Option<&str> {
    key.split(['{', '}']).nth(1)
}

/// The end of an attempt.
enum Outcome<T> {
    Answer(RedisResult<T>),
    /// No answer came; there may be a connection and time to ask again.
    Silence {
        again: bool,
    },
}

/// The time that an operation has left, and whether it may be done already.
struct Patience<'a> {
    link: &'a Link,
    way: &'a Way,
    operation: &'static str,
    change: bool,
    deadline: Instant,
    pause: Duration,
    in_doubt: bool,
    /// The reason why the last attempt failed, where it was answered.
    told: Option<String>,
    /// The number of the connection in use.
    number: u64,
    /// The number of the connection that all share who wait for no replica.
    number_of_all: u64,
}

impl Patience<'_> {
    /// Returns the connection for the next attempt.
    async fn connection(&mut self) -> Result<Connection> {
        in_runtime("redis", self.operation)?;
        loop {
            let mut connection;
            (connection, self.number) = self.way.connection();
            (_, self.number_of_all) = self.link.way.connection();
            if self.operation == "open" || !self.link.connection_lost.load(Ordering::Relaxed) {
                return Ok(connection);
            }
            if self.is_current(&mut connection).await? {
                if self.link.connection_lost.swap(false, Ordering::Relaxed) {
                    self.link.watch.reconnected(self.operation);
                }
                return Ok(connection);
            }
        }
    }

    /// Looks at the version of the data again; it is not known yet where it is time to ask again.
    async fn is_current(&mut self, connection: &mut Connection) -> Result<bool> {
        let key = &self.link.version;
        let Some(found) = self.look(&schema::find(key), connection).await? else {
            return Ok(false);
        };
        if found == Value::Nil {
            // The server holds nothing (any more): it came back without its data.
            self.look(&schema::mark(key), connection).await?;
            return Ok(false);
        }
        schema::check(key, &found).map(|()| true).map_err(|why| self.failed(&why))
    }

    /// Returns the last millisecond, by the clock of the server that has this key, in which
    /// somebody waits for an answer.
    ///
    /// A server that was silent does what it was asked for when it is back, however late that is.
    /// Its clock is asked for once and again when something went wrong, and taken for as slow as it
    /// can be.
    async fn last(&mut self, key: &str, connection: &mut Connection) -> Result<Option<u64>> {
        // On a cluster each master has a clock of its own; the hash tag tells whose.
        let tag = hash_tag(key).filter(|_| self.link.way.is_cluster());
        let tag = tag.unwrap_or_default();
        let known = self.link.clocks.lock().get(tag).copied();
        let (then, at) = if let Some(clock) = known.filter(|(_, at)| at.elapsed() < FRESH) {
            clock
        } else {
            let mut time = cmd("EVAL");
            time.arg("return redis.call('TIME')").arg(1).arg(key);
            let Some(time) = self.look(&time, connection).await? else { return Ok(None) };
            let (seconds, micros): (u64, u64) = super::parse(self.operation, time)?;
            let clock = (seconds.saturating_mul(1000) + micros / 1000, Instant::now());
            self.link.clocks.lock().insert(tag.to_owned(), clock);
            clock
        };
        let left = self.deadline.saturating_duration_since(at).as_millis();
        Ok(Some(then.saturating_add(u64::try_from(left).unwrap_or(u64::MAX)).min(1 << 51)))
    }

    /// Waits for the answer to something that is not the change itself.
    async fn look(&mut self, command: &Cmd, connection: &mut Connection) -> Result<Option<Value>> {
        let (change, in_doubt) = (self.change, self.in_doubt);
        self.change = change && in_doubt;
        let found = self.wait(command.query_async(connection)).await;
        (self.change, self.in_doubt) = (change, in_doubt);
        found
    }

    /// Waits for an answer; none is returned where it is time to ask again.
    async fn wait<T>(
        &mut self,
        attempt: impl Future<Output = RedisResult<T>>,
    ) -> Result<Option<T>> {
        let asked = Instant::now();
        let error = match self.outcome(attempt).await {
            Outcome::Answer(answer) => {
                self.way.heard();
                match answer {
                    Ok(value) => return Ok(Some(value)),
                    Err(error) => error,
                }
            }
            Outcome::Silence { again } => {
                self.in_doubt = true;
                self.link.connection_lost.store(true, Ordering::Relaxed);
                if !again {
                    return Err(self.silence(asked));
                }
                self.link.watch.retried(self.operation, "no answer");
                return Ok(None);
            }
        };
        let verdict = Verdict::of(&error, &self.link.way);
        if error.is_io_error() || error.is_connection_dropped() {
            self.link.connection_lost.store(true, Ordering::Relaxed);
        }
        self.in_doubt |= matches!(verdict, Verdict::InDoubt);
        if matches!(verdict, Verdict::Refused) || Instant::now() + self.pause >= self.deadline {
            return Err(self.failed(&describe(&error, &self.link.place)).with_source(error));
        }
        self.told = Some(describe(&error, &self.link.place));
        self.link.watch.retried(
            self.operation,
            match verdict {
                Verdict::NotYet => "the server is not ready",
                Verdict::NotHere => "the server has become a replica",
                _ => "the connection is lost, or the server in doubt",
            },
        );
        sleep(self.pause).await;
        if matches!(verdict, Verdict::NotHere) {
            self.look_elsewhere().await;
        }
        self.pause = (self.pause * 2).min(Duration::from_millis(200));
        Ok(None)
    }

    /// Waits for an answer; where none comes, for a connection by which to ask again.
    async fn outcome<T>(&self, attempt: impl Future<Output = RedisResult<T>>) -> Outcome<T> {
        let (asked, third) = (Instant::now(), self.link.timeout / 3);
        let over = |_| Outcome::Silence { again: false };
        if !self.way.is_made() {
            return timeout_at(self.deadline, attempt).await.map_or_else(over, Outcome::Answer);
        }
        if self.way.is_cluster() {
            // So that there is time for a new connection.
            let limit = self.deadline.min(asked + third);
            if let Ok(answer) = timeout_at(limit, attempt).await {
                return Outcome::Answer(answer);
            }
            let renewal = self.way.renew(self.number);
            let again = limit < self.deadline && timeout_at(self.deadline, renewal).await.is_ok();
            return Outcome::Silence { again };
        }
        // A connection on which a change waits for replicas is silent for a while, for those behind
        // it too.
        let waits = !std::ptr::eq(self.way, &raw const self.link.way);
        let waits = self.link.replicas.filter(|_| waits).map_or(Duration::ZERO, |(_, time)| time);
        let another = async {
            sleep((third.saturating_add(waits)).min(third * 2)).await;
            while !self.way.replace(self.number, asked, third).await {
                sleep(third / 16).await;
            }
            // The other connections lead to the same old server. If it goes on as if nothing had
            // happened, they would go on with a master of old.
            let all = self.link.waiting.iter().chain([&self.link.way]);
            join_all(all.map(|way| way.renew_silent(asked))).await;
        };
        match timeout_at(self.deadline, select(pin!(attempt), pin!(another))).await {
            Ok(Either::Left((answer, _))) => Outcome::Answer(answer),
            Ok(Either::Right(_)) => Outcome::Silence { again: true },
            Err(up) => over(up),
        }
    }

    /// Makes new connections, where the address leads now. Those who only read would never know.
    async fn look_elsewhere(&self) {
        self.link.connection_lost.store(true, Ordering::Relaxed);
        let renewal = async {
            self.way.renew(self.number).await;
            self.link.way.renew(self.number_of_all).await;
        };
        // Where it takes too long, the next attempt finds that the time is up.
        let _ = timeout_at(self.deadline, renewal).await;
    }

    /// Returns the error where nothing has come since it was asked. Who refused before, and then
    /// had next to no time to do so again, is not called silent.
    fn silence(&self, asked: Instant) -> Error {
        let is_short = asked.elapsed() < self.link.timeout / 3;
        match &self.told {
            Some(why) if is_short && !(self.change && self.in_doubt) => self.failed(why),
            _ => self.failed(&format!("no answer within {:?}", self.link.timeout)),
        }
    }

    fn failed(&self, why: &str) -> Error {
        if self.change && self.in_doubt {
            let text = format!("redis: nobody knows whether it is done: {why}");
            return Error::new(ErrorKind::Unacknowledged, self.operation, text);
        }
        Error::new(ErrorKind::Storage, self.operation, format!("redis: {why}"))
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}
