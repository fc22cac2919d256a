//! The connections of a store: the caller's, or its own.

use std::sync::Arc;

use futures_util::future::try_join_all;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, Pipeline, RedisFuture, RedisResult, Value};

/// A connection that many operations share. The driver reconnects it when it breaks.
#[derive(Clone)]
pub(super) enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

/// The first connection is for all operations; further ones, if any, are for changes that wait for
/// replicas.
pub(super) type Connections = Arc<[Connection]>;

/// The address and the settings of the store's own connections.
pub(super) enum Source {
    One(Client, Box<ConnectionManagerConfig>),
    Cluster(ClusterClient),
}

pub(super) enum Connector {
    /// The caller's connection, which can't be replaced.
    External(Connections),
    /// The store's own connections. They are replaced if the driver would keep dead ones: a frozen
    /// server, or one that became a replica, does not close its connections, and a cluster's client
    /// may wait forever while slots move (seen with 1.8.1).
    Managed { source: Box<Source>, count: usize, current: tokio::sync::Mutex<Option<Connections>> },
}

impl Source {
    async fn connect(&self) -> RedisResult<Connection> {
        match self {
            Self::One(client, config) => {
                let config = ConnectionManagerConfig::clone(config);
                let connection = ConnectionManager::new_with_config(client.clone(), config);
                connection.await.map(Connection::One)
            }
            Self::Cluster(client) => client.get_async_connection().await.map(Connection::Cluster),
        }
    }
}

impl Connector {
    pub(super) fn managed(source: Source, count: usize) -> Self {
        Self::Managed { source: Box::new(source), count, current: tokio::sync::Mutex::default() }
    }

    /// Returns the connections, after making them if there are none.
    pub(super) async fn connections(&self) -> RedisResult<Connections> {
        match self {
            Self::External(connections) => Ok(Arc::clone(connections)),
            Self::Managed { source, count, current } => {
                let mut current = current.lock().await;
                if let Some(connections) = &*current {
                    return Ok(Arc::clone(connections));
                }
                let made = try_join_all((0..*count).map(|_| source.connect())).await?;
                Ok(Arc::clone(current.insert(made.into())))
            }
        }
    }

    /// Drops these connections, so that the next operation connects to the address again.
    /// Operations that still wait for an answer on them may get it.
    pub(super) async fn discard(&self, connections: &Connections) {
        if let Self::Managed { current, .. } = self {
            let mut current = current.lock().await;
            current.take_if(|current| Arc::ptr_eq(current, connections));
        }
    }

    pub(super) fn is_managed(&self) -> bool {
        matches!(self, Self::Managed { .. })
    }

    pub(super) fn is_cluster(&self) -> bool {
        match self {
            Self::External(connections) => matches!(connections[0], Connection::Cluster(_)),
            Self::Managed { source, .. } => matches!(**source, Source::Cluster(_)),
        }
    }

    /// Returns the number of connections, including lost ones, which only the driver knows.
    pub(super) fn count(&self) -> usize {
        match self {
            Self::External(connections) => connections.len(),
            Self::Managed { count, .. } => *count,
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
