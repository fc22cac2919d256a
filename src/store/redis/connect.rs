//! The connections of a store: the caller's, or those that are made here and made anew.

use std::time::Duration;

use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, Pipeline, RedisFuture, RedisResult, Value};
use tokio::time::{Instant, sleep, timeout};

/// A connection that many use at once, and that comes back by itself.
#[derive(Clone)]
pub(super) enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

/// Makes connections.
#[derive(Clone)]
pub(super) enum Source {
    One(Client, Box<ConnectionManagerConfig>),
    Cluster(ClusterClient),
}

/// The way to the server.
pub(super) enum Way {
    /// This connection, which is the caller's.
    Given(Connection),
    /// The current one of those that are made here.
    Made(Box<Made>),
}

/// A connection that is replaced where it leads nowhere: the driver waits for a node that has
/// fallen silent, and may wait for ever when slots move under many requests (seen with 1.8.1); and
/// a connection to a master that became a replica does not break.
pub(super) struct Made {
    source: Source,
    /// The connection with its number. Held for a moment only: who makes a new one keeps nobody
    /// from the old one, which may be of use to those who ask another node.
    current: parking_lot::Mutex<(u64, Connection)>,
    /// The last time that something came back, whoever had asked for it.
    heard: parking_lot::Mutex<Instant>,
    /// Held by whoever makes a new one, so that many who want one make one.
    making: tokio::sync::Mutex<()>,
}

impl Source {
    pub(super) async fn connect(&self) -> RedisResult<Connection> {
        match self {
            Self::One(client, config) => {
                let config = ConnectionManagerConfig::clone(config);
                ConnectionManager::new_with_config(client.clone(), config)
                    .await
                    .map(Connection::One)
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }
}

impl Made {
    /// Puts a connection in the place of the one with this number.
    fn put(&self, number: u64, new: Connection) {
        *self.current.lock() = (number + 1, new);
        *self.heard.lock() = Instant::now();
    }
}

impl Way {
    pub(super) fn made(source: Source, connection: Connection) -> Self {
        let (current, heard) = ((0, connection).into(), Instant::now().into());
        Self::Made(Box::new(Made { source, current, heard, making: tokio::sync::Mutex::default() }))
    }

    /// Returns the current connection, and its number.
    pub(super) fn connection(&self) -> (Connection, u64) {
        match self {
            Self::Given(connection) => (connection.clone(), 0),
            Self::Made(made) => {
                let (number, connection) = &*made.current.lock();
                (connection.clone(), *number)
            }
        }
    }

    /// Makes a new connection in the place of the one with this number, unless somebody else has.
    pub(super) async fn renew(&self, number: u64) {
        let Self::Made(made) = self else { return };
        let _making = made.making.lock().await;
        if made.current.lock().0 == number
            && let Ok(new) = made.source.connect().await
        {
            made.put(number, new);
        }
    }

    /// Makes a new connection beside the one with this number, and puts it in its place if nothing
    /// is heard from there for a while longer. Returns whether there is another one now.
    ///
    /// Whoever answers at the address then is somebody else, or at any rate of more use. A server
    /// that was frozen and goes on is heard of: what it was asked for goes on in its order.
    pub(super) async fn replace(&self, number: u64, asked: Instant, within: Duration) -> bool {
        let Self::Made(made) = self else { return false };
        let _making = made.making.lock().await;
        if made.current.lock().0 != number {
            return true;
        }
        let Ok(Ok(new)) = timeout(within, made.source.connect()).await else { return false };
        sleep(within / 2).await;
        let silent = *made.heard.lock() <= asked;
        if silent {
            made.put(number, new);
        }
        silent
    }

    /// Makes a new connection if nothing is heard on this one since then.
    pub(super) async fn renew_silent(&self, since: Instant) {
        let Self::Made(made) = self else { return };
        if *made.heard.lock() <= since {
            let (_, number) = self.connection();
            self.renew(number).await;
        }
    }

    /// Takes note that something came back.
    pub(super) fn heard(&self) {
        if let Self::Made(made) = self {
            *made.heard.lock() = Instant::now();
        }
    }

    pub(super) fn is_made(&self) -> bool {
        matches!(self, Self::Made(_))
    }

    pub(super) fn is_cluster(&self) -> bool {
        match self {
            Self::Given(connection) => matches!(connection, Connection::Cluster(_)),
            Self::Made(made) => matches!(made.source, Source::Cluster(_)),
        }
    }
}

impl ConnectionLike for Connection {
    fn req_packed_command<'a>(&'a mut self, cmd: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(connection) => connection.req_packed_command(cmd),
            Self::Cluster(connection) => connection.req_packed_command(cmd),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(connection) => connection.req_packed_commands(pipeline, offset, count),
            Self::Cluster(connection) => connection.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(connection) => connection.get_db(),
            Self::Cluster(connection) => connection.get_db(),
        }
    }
}
