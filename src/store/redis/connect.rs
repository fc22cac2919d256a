//! The connections of a store: the caller's, or those that are made here.

use std::sync::Arc;

use futures_util::future::try_join_all;
use redis::aio::{ConnectionLike, ConnectionManager, ConnectionManagerConfig};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::{Client, Cmd, Pipeline, RedisFuture, RedisResult, Value};

/// A connection that many operations share. The driver connects it again when it breaks.
#[derive(Clone)]
pub(super) enum Connection {
    One(ConnectionManager),
    Cluster(ClusterConnection),
}

/// The first connection is for all operations; the others, if there are any, are for changes that
/// wait for replicas.
pub(super) type Connections = Arc<[Connection]>;

/// The address and the settings of connections that are made here.
pub(super) enum Source {
    One(Client, Box<ConnectionManagerConfig>),
    Cluster(ClusterClient),
}

/// The owner of the connections.
pub(super) enum Connector {
    /// The caller's connection, which can't be replaced.
    External(Connections),
    /// Connections that are made here. They are replaced where the driver would keep them although
    /// they lead nowhere: a server that is frozen, and one that became a replica, do not break
    /// theirs, and a cluster's client may wait for ever while slots move (seen with 1.8.1).
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

    /// Returns the connections, and makes them first if there are none.
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

    /// Discards these connections, so that the next operation connects to the address again.
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

    /// Returns the number of connections; which of them are lost now, only the driver knows.
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
