//! Opening a store: the connection to a cluster, and the store over it.

use std::sync::Arc;

use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;

use super::ask::Client;
use super::options::CassandraOptions;
use super::queue::Queues;
use super::rows::IDS;
use super::{CassandraStore, Shared, failure, schema};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Limits;
use crate::record::places;
use crate::store::common::in_runtime;
use crate::store::payloads::Encoding;

impl CassandraOptions {
    /// Opens the store at these addresses, `host:port` separated by commas.
    ///
    /// # Errors
    ///
    /// Same as [`CassandraStore::open`], and [`ErrorKind::Invalid`] if an option is invalid.
    pub async fn open(self, addresses: impl AsRef<str>) -> Result<CassandraStore> {
        let addresses = addresses.as_ref();
        self.check()?;
        in_runtime("cassandra", "open")?;
        let nodes: Vec<&str> =
            addresses.split(',').map(str::trim).filter(|node| !node.is_empty()).collect();
        if nodes.is_empty() {
            return Err(Error::invalid("open", "cassandra: there is no address to connect to"));
        }
        if addresses.contains('@') {
            let text = "cassandra: an address holds no user and no password; `user` sets them";
            return Err(Error::invalid("open", text));
        }
        let session = connect(&self, addresses, &nodes).await?;
        let place = format!("{addresses}/{}", self.keyspace);
        store(self, Arc::new(session), place).await
    }

    /// Opens the store over a session of your own, with everything that [`SessionBuilder`] can do:
    /// TLS, a preferred data centre, compression.
    ///
    /// Of its execution profile, the load balancing is used; its retry and speculation policies are
    /// used only for requests that may be repeated.
    ///
    /// # Errors
    ///
    /// Same as [`open`](Self::open).
    pub async fn over(self, session: Arc<Session>) -> Result<CassandraStore> {
        self.check()?;
        in_runtime("cassandra", "open")?;
        let place = format!("a session of the caller's/{}", self.keyspace);
        store(self, session, place).await
    }
}

async fn connect(options: &CassandraOptions, addresses: &str, nodes: &[&str]) -> Result<Session> {
    let time = options.connect_timeout;
    let mut builder = SessionBuilder::new().known_nodes(nodes).connection_timeout(time);
    if let Some(name) = &options.user {
        builder = builder.user(name, &options.password.0);
    }
    let session = tokio::time::timeout(time, builder.build()).await.map_err(|_| {
        let text = format!("cassandra: no answer from {addresses} within {time:?}");
        Error::new(ErrorKind::Storage, "open", text)
    })?;
    session.map_err(|error| failure::unreachable(addresses, error))
}

async fn store(
    options: CassandraOptions,
    session: Arc<Session>,
    place: String,
) -> Result<CassandraStore> {
    schema::prepare(&session, &options).await?;
    let client = tokio::time::timeout(options.timeout, Client::new(session, &options));
    let client = client.await.map_err(|_| {
        let text = format!("cassandra: no answer within {:?}", options.timeout);
        Error::new(ErrorKind::Storage, "open", text)
    })??;
    let most = options.largest_batch;
    let limits = Limits::default().with_message(most).with_batch(most).with_slot(most);
    let shared = Shared {
        client,
        queues: Queues::default(),
        encoding: Encoding { codec: options.codec, media_beside: usize::MAX },
        limits: limits.with_ids(places(IDS.unsigned_abs())),
        place,
    };
    Ok(CassandraStore { shared: Arc::new(shared) })
}
