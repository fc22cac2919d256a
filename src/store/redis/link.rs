//! Requests to the server, with retries if no answer comes.

use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::{Cmd, RedisError, RedisResult, ServerErrorKind, Value, cmd, pipe};
use tokio::time::timeout;

use super::connect::{Connection, Connector};
use super::failure::{Verdict, describe};
use super::wanted::Wanted;
use crate::error::{Error, ErrorKind, Result};
use crate::store::common::in_runtime;
use crate::store::observe::Watch;
use crate::store::retry::Retry;

pub(super) struct Link {
    pub(super) connector: Connector,
    /// The time limit of an operation, including all its attempts.
    pub(super) timeout: Duration,
    /// How many replicas must have a change, and how long to wait for them.
    pub(super) replicas: Option<(usize, Duration)>,
    /// The address of the server for messages to people, without a password.
    pub(super) place: String,
    /// True if a connection was lost and no answer has come since.
    pub(super) is_lost: AtomicBool,
    pub(super) watch: Watch,
}

/// The server remembers the result of a change for the timeout and this much longer, in case the
/// clock of a replica that takes over differs from the master's.
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
static READ: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("read.lua")));

enum Request<'a> {
    Command(&'a Cmd),
    Read(&'a Wanted<'a>),
    /// A script that makes a change once. Its first key is its token.
    Change {
        script: &'a Script,
        keys: &'a [String],
        args: Vec<&'a [u8]>,
    },
}

impl Link {
    /// Sends a command that changes nothing, or may be repeated.
    pub(super) async fn ask(&self, operation: &'static str, command: &Cmd) -> Result<Value> {
        self.request(operation, &Request::Command(command)).await.map(|(value, _)| value)
    }

    pub(super) async fn read(&self, wanted: &Wanted<'_>) -> Result<Value> {
        self.request("read", &Request::Read(wanted)).await.map(|(value, _)| value)
    }

    /// Makes a change exactly once, with any number of retries. Its first key is its token. Success
    /// returns a text; a number is the reason of a refusal.
    pub(super) async fn change(
        &self,
        operation: &'static str,
        script: &Script,
        keys: &[String],
        args: &[impl AsRef<[u8]>],
    ) -> Result<Value> {
        let remembered = self.timeout.saturating_add(LONGER).as_millis().min(1 << 51).to_string();
        let args = args.iter().map(AsRef::as_ref);
        let args = [remembered.as_bytes()].into_iter().chain(args).collect();
        let (value, confirmed) =
            self.request(operation, &Request::Change { script, keys, args }).await?;
        // A number means that nothing was done.
        let (Value::BulkString(_), Some((replicas, time))) = (&value, self.replicas) else {
            return Ok(value);
        };
        let unconfirmed = |why: String| {
            let text = format!("redis: it is done, but {why}");
            Error::new(ErrorKind::Unacknowledged, operation, text)
        };
        match confirmed {
            Ok(confirmed) if confirmed >= replicas => Ok(value),
            Ok(confirmed) => Err(unconfirmed(format!(
                "only {confirmed} of {replicas} replicas have it after {time:?}"
            ))),
            Err(error) => {
                let why = describe(&error, &self.place);
                Err(unconfirmed(format!("it can't wait for replicas: {why}")).with_source(error))
            }
        }
    }

    /// Sends a request until it is answered, refused, or out of time. Returns the answer, and how
    /// many replicas have it, or why that is not known.
    async fn request(
        &self,
        operation: &'static str,
        request: &Request<'_>,
    ) -> Result<(Value, RedisResult<usize>)> {
        in_runtime("redis", operation)?;
        let changes = matches!(request, Request::Change { .. });
        let mut retry = Retry::within(self.timeout);
        let (mut in_doubt, mut before) = (false, None);
        loop {
            let mut sent = None;
            let attempt = async {
                let connections = self.connector.connections().await?;
                let mut connection = connections[request.place(connections.len())].clone();
                sent = Some(connections);
                request.send(self.replicas, &mut connection).await
            };
            let attempt = timeout(self.patience(changes).min(retry.left()), attempt).await;
            let (verdict, why, source) = match attempt {
                Ok(Ok(answer)) => {
                    if self.is_lost.swap(false, Ordering::Relaxed) {
                        self.watch.reconnected(operation);
                    }
                    return Ok(answer);
                }
                Ok(Err(error)) => {
                    let verdict = Verdict::of(&error, &self.connector);
                    (verdict, describe(&error, &self.place), Some(error))
                }
                Err(_) => (Verdict::Silent, format!("no answer within {:?}", self.timeout), None),
            };
            in_doubt |= changes && sent.is_some() && verdict.leaves_doubt();
            let is_io =
                source.as_ref().is_some_and(|it| it.is_io_error() || it.is_connection_dropped());
            if is_io || verdict.leads_nowhere() {
                self.is_lost.store(true, Ordering::Relaxed);
            }
            if let (true, Some(sent)) = (verdict.leads_nowhere(), &sent) {
                let _ = timeout(retry.left(), self.connector.discard(sent)).await;
            }
            // An attempt with almost no time left gives a less useful error than the one before.
            let failure = match (before.take(), retry.left().is_zero()) {
                (Some(before), true) => before,
                _ => (why, source),
            };
            if matches!(verdict, Verdict::Refused) || !retry.pause().await {
                return Err(failed(operation, in_doubt, failure));
            }
            self.watch.retried(operation, verdict.reason());
            before = Some(failure);
        }
    }

    /// Returns the time for one attempt: half of the total, if there may be another over new
    /// connections. While it waits for replicas, a connection may be silent for that much longer.
    fn patience(&self, changes: bool) -> Duration {
        if !self.connector.is_managed() {
            return self.timeout;
        }
        let waits = self.replicas.filter(|_| changes).map_or(Duration::ZERO, |(_, time)| time);
        (self.timeout / 2).saturating_add(waits)
    }
}

impl Request<'_> {
    /// Returns the index of the connection to use, of this many.
    ///
    /// While it waits for replicas, a connection does nothing else, so changes share all
    /// connections but the first. All changes of one conversation use the same one, which keeps
    /// their order.
    fn place(&self, connections: usize) -> usize {
        let Self::Change { keys, .. } = self else { return 0 };
        // The hash tag of a key is the shard, in hex.
        let shard = keys[0].split(['{', '}']).nth(1);
        let shard = shard.and_then(|shard| usize::from_str_radix(shard, 16).ok());
        shard.unwrap_or_default().checked_rem(connections - 1).map_or(0, |place| place + 1)
    }

    async fn send(
        &self,
        replicas: Option<(usize, Duration)>,
        connection: &mut Connection,
    ) -> RedisResult<(Value, RedisResult<usize>)> {
        match self {
            Self::Command(command) => Ok((command.query_async(connection).await?, Ok(0))),
            Self::Read(wanted) => {
                // A transaction is used instead of a script, because Lua converts each entry to
                // tables and back, which takes five times as long as finding it.
                match wanted.transaction().query_async(connection).await {
                    // Either a slot of the cluster has moved or is moving, which the driver handles
                    // for a single command but not for a transaction; or the memory is full, and
                    // the server queues no commands at all, not even reads.
                    Err(error) if error.kind() == ServerErrorKind::ExecAbort.into() => {
                        let args = wanted.args();
                        let args: Vec<_> = args.iter().map(String::as_bytes).collect();
                        run(&READ, &wanted.keys, &args, None, connection).await
                    }
                    result => Ok((result?, Ok(0))),
                }
            }
            Self::Change { script, keys, args } => {
                run(script, keys, args, replicas, connection).await
            }
        }
    }
}

/// Runs a script by its hash, or with its text if the server does not know it (any more).
async fn run(
    script: &Script,
    keys: &[String],
    args: &[&[u8]],
    replicas: Option<(usize, Duration)>,
    connection: &mut Connection,
) -> RedisResult<(Value, RedisResult<usize>)> {
    let run = |name: &str, what: &str| {
        let mut command = cmd(name);
        command.arg(what).arg(keys.len()).arg(keys).arg(args);
        command
    };
    match confirmed(run("EVALSHA", &script.hash), replicas, connection).await {
        Err(error) if error.kind() == ServerErrorKind::NoScript.into() => {
            confirmed(run("EVAL", script.text), replicas, connection).await
        }
        result => result,
    }
}

/// Sends a change, and waits for replicas; returns how many have it, or why it can't wait.
async fn confirmed(
    command: Cmd,
    replicas: Option<(usize, Duration)>,
    connection: &mut Connection,
) -> RedisResult<(Value, RedisResult<usize>)> {
    let Some((replicas, time)) = replicas else {
        return Ok((command.query_async(connection).await?, Ok(0)));
    };
    // Both use one connection: WAIT waits for what was sent before it there.
    let mut both = pipe();
    both.ignore_errors().add_command(command);
    // With 0 milliseconds it would wait forever.
    let time = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
    both.cmd("WAIT").arg(replicas).arg(time);
    // A server that has become a replica refuses both, and one that becomes it the second alone.
    let (result, confirmed): (RedisResult<Value>, RedisResult<usize>) =
        both.query_async(connection).await?;
    Ok((result?, confirmed))
}

fn failed(
    operation: &'static str,
    in_doubt: bool,
    (why, source): (String, Option<RedisError>),
) -> Error {
    let (kind, doubt) = if in_doubt {
        (ErrorKind::Unacknowledged, "outcome unknown: ")
    } else {
        (ErrorKind::Storage, "")
    };
    let error = Error::new(kind, operation, format!("redis: {doubt}{why}"));
    match source {
        Some(source) => error.with_source(source),
        None => error,
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}
