//! The connection to a cluster, and the store over it.

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

impl CassandraOptions {
    /// Connects to the cluster that these nodes are of.
    pub(super) async fn session(&self, addresses: &str, nodes: &[&str]) -> Result<Session> {
        let mut builder =
            SessionBuilder::new().known_nodes(nodes).connection_timeout(self.connect_timeout);
        if let Some((name, password)) = &self.user {
            builder = builder.user(name, password);
        }
        tokio::time::timeout(self.connect_timeout, builder.build())
            .await
            .map_err(|_| {
                let time = self.connect_timeout;
                let text = format!("cassandra: no answer from {addresses} within {time:?}");
                Error::new(ErrorKind::Storage, "open", text)
            })?
            .map_err(|error| failure::unreachable(addresses, error))
    }

    /// Returns the store over this session, and creates its tables where they are not there.
    pub(super) async fn connect(
        self,
        session: Arc<Session>,
        place: String,
    ) -> Result<CassandraStore> {
        schema::prepare(&session, &self).await?;
        let client = tokio::time::timeout(self.timeout, Client::new(session, &self));
        let client = client.await.map_err(|_| {
            let text = format!("cassandra: no answer within {:?}", self.timeout);
            Error::new(ErrorKind::Storage, "open", text)
        })??;
        let most = self.largest_batch;
        let limits = Limits::default().with_message(most).with_batch(most).with_slot(most);
        let shared = Shared {
            client,
            queues: Queues::default(),
            codec: self.codec,
            limits: limits.with_ids(places(IDS.unsigned_abs())),
            place,
        };
        Ok(CassandraStore { shared: Arc::new(shared) })
    }
}
