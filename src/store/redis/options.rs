//! The settings of a store, and the functions that open it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::cluster::{ClusterClient, ClusterClientBuilder};
use redis::cluster_async::ClusterConnection;
use redis::io::tcp::TcpSettings;
use redis::{Client, ConnectionInfo, IntoConnectionInfo, RedisError, RedisResult};
use tokio::time::timeout;

use super::connect::{Connection, Connector, Source};
use super::failure::describe;
use super::keys::Keys;
use super::link::Link;
use super::{RedisStore, Shared};
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
#[cfg(feature = "redis-tls")]
use crate::store::common::Hidden;
use crate::store::common::in_runtime;
use crate::store::observe::Watch;
use crate::store::payloads::Encoding;
use crate::store::setters::setters;

/// The settings with which a [`RedisStore`] is opened.
///
/// ```no_run
/// use std::time::Duration;
/// use memory_prompt::RedisStore;
/// use memory_prompt::codec::Codec;
///
/// # async fn example() -> memory_prompt::Result<()> {
/// let store = RedisStore::options()
///     .codec(Codec::Bincode)
///     .ttl(Duration::from_secs(30 * 24 * 60 * 60))
///     .prefix("support")
///     .open_cluster(&["redis://one:7000", "redis://two:7000"])
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct RedisOptions {
    pub(super) encoding: Encoding,
    pub(super) prefix: String,
    pub(super) ttl: Option<Duration>,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) replicas: Option<(usize, Duration)>,
    #[cfg(feature = "redis-tls")]
    pub(super) certificates: Option<Hidden<redis::TlsCertificates>>,
}

setters! {
    RedisOptions:

    /// Sets how new messages are written; the default is [`Codec::Json`]. Messages in every codec
    /// are read.
    pub fn codec(codec: Codec) => encoding.codec = codec;

    /// Sets the size in bytes from which on [media](super#media) are kept beside their
    /// messages, each once in a conversation; the default is 16 KiB. With `usize::MAX` all media
    /// stay in their messages.
    pub fn media_beside(bytes: usize) => encoding.media_beside = bytes;

    /// Sets the beginning of every key; the default is `memory-prompt`. Stores with different
    /// prefixes are independent. The prefix may contain neither `{` nor `}`.
    pub fn prefix(prefix: impl Into<String>) => prefix = prefix.into();

    /// Sets how long after its last append a conversation expires, as if it were deleted then. By
    /// default, it never expires. Its id stays on the server until later appends or
    /// [`purge_inactive`](crate::store::AsyncChatMemoryStore::purge_inactive) remove it.
    ///
    /// The last append decides: after an append through a store without a TTL, the conversation
    /// does not expire.
    pub fn ttl(ttl: Duration) => ttl = Some(ttl);

    /// Sets how long an operation may take, including all retries while the server is away; the
    /// default is 10 seconds. If this is longer than a restart or a failover, these only cause a
    /// pause.
    ///
    /// If a server is silent for half of this time (plus the time to wait for replicas), the store
    /// asks again over a new connection, which leads to another server if one has taken over the
    /// address. If a server refuses changes because it is a replica (by now), the store asks again
    /// where the address leads, until the time is up. Over a [connection of your own](Self::over),
    /// silence is an error when the time is up, and a refusal is an error at once.
    pub fn timeout(timeout: Duration) => timeout = timeout;

    /// Sets how long connecting may take; the default is 5 seconds.
    pub fn connect_timeout(timeout: Duration) => connect_timeout = timeout;

    /// Makes each change wait until this many replicas have it (`WAIT`). If they don't have it
    /// within this time, the error is [`ErrorKind::Unacknowledged`]. By default, no change waits
    /// for replicas.
    ///
    /// A connection does nothing else while it waits, so changes share eight connections of their
    /// own, and reads don't wait. All changes of one conversation use the same connection, which
    /// keeps their order; about every eighth conversation uses it too. Over a
    /// [connection of your own](Self::over), there is only that one.
    pub fn replicas(replicas: usize, time: Duration) => replicas = Some((replicas, time));

    /// Sets the authority that signs the server's certificate, and the client's own certificate,
    /// for `rediss://`. By default, the authorities trusted by the operating system are used.
    ///
    /// If the process has not chosen a cryptography provider (`rustls::crypto::CryptoProvider`),
    /// ring is installed.
    #[cfg(feature = "redis-tls")]
    pub fn certificates(certificates: redis::TlsCertificates) =>
        certificates = Some(Hidden(certificates));
}

impl RedisOptions {
    /// Opens the store on the server at this address.
    ///
    /// # Errors
    ///
    /// Same as [`RedisStore::open`].
    pub async fn open(self, address: &str) -> Result<RedisStore> {
        let (keys, info) = (self.keys()?, Self::info(address)?);
        in_runtime("redis", "open")?;
        let place = info.addr().to_string();
        #[cfg(feature = "redis-tls")]
        let client = match &self.certificates {
            Some(Hidden(certificates)) => Client::build_with_tls(info, certificates.clone()),
            None => Client::open(info),
        };
        #[cfg(not(feature = "redis-tls"))]
        let client = Client::open(info);
        let client = client.map_err(|error| unusable(&error))?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            // This crate has its own timeouts and retries.
            .set_response_timeout(None)
            .set_number_of_retries(0);
        self.connect(Source::One(client, Box::new(config)), keys, place).await
    }

    /// Opens the store on the cluster to which one of these addresses belongs.
    ///
    /// # Errors
    ///
    /// Same as [`RedisStore::open`].
    pub async fn open_cluster(self, addresses: &[impl AsRef<str> + Sync]) -> Result<RedisStore> {
        let keys = self.keys()?;
        let infos = addresses.iter().map(|address| Self::info(address.as_ref()));
        let infos: Vec<ConnectionInfo> = infos.collect::<Result<_>>()?;
        in_runtime("redis", "open")?;
        let places: Vec<String> = infos.iter().map(|info| info.addr().to_string()).collect();
        let place = places.join(", ");
        let client = self.cluster_client(infos).map_err(|error| unusable(&error))?;
        self.connect(Source::Cluster(client), keys, place).await
    }

    /// Opens the store over a connection of your own, whose timeouts apply in addition to those set
    /// here.
    ///
    /// # Errors
    ///
    /// Same as [`RedisStore::open`].
    pub async fn over(self, connection: ConnectionManager) -> Result<RedisStore> {
        self.external(Connection::One(connection)).await
    }

    /// Opens the store over a cluster connection of your own. It must not read from replicas, which
    /// lag behind.
    ///
    /// # Errors
    ///
    /// Same as [`RedisStore::open`].
    pub async fn over_cluster(self, connection: ClusterConnection) -> Result<RedisStore> {
        self.external(Connection::Cluster(connection)).await
    }

    async fn external(self, connection: Connection) -> Result<RedisStore> {
        let keys = self.keys()?;
        let place = "a connection of the caller's".to_owned();
        self.on(Connector::External(Arc::new([connection])), keys, place).await
    }

    async fn connect(self, source: Source, keys: Keys, place: String) -> Result<RedisStore> {
        let count = if self.replicas.is_some() { 1 + WAITING } else { 1 };
        let connector = Connector::managed(source, count);
        let time = self.connect_timeout;
        let failed = |text| Error::new(ErrorKind::Storage, "open", format!("redis: {text}"));
        match timeout(time, connector.connections()).await {
            Ok(Ok(_)) => self.on(connector, keys, place).await,
            Ok(Err(error)) => Err(failed(describe(&error, &place)).with_source(error)),
            Err(_) => Err(failed(format!("{place} does not answer within {time:?}"))),
        }
    }

    async fn on(self, connector: Connector, keys: Keys, place: String) -> Result<RedisStore> {
        let link = Link {
            connector,
            timeout: self.timeout,
            replicas: self.replicas,
            place,
            is_lost: AtomicBool::new(false),
            watch: Watch::new("redis"),
        };
        // Redis adds it to the time of day, which must not overflow: limit it to a thousand
        // centuries.
        let ttl =
            self.ttl.map(|ttl| u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).min(1 << 51));
        let shared = Shared { link, keys, encoding: self.encoding, ttl };
        shared.check_version().await?;
        Ok(RedisStore { shared: Arc::new(shared) })
    }

    /// Returns the names of the keys, or an error if an option is invalid.
    fn keys(&self) -> Result<Keys> {
        if self.ttl.is_some_and(|ttl| ttl < Duration::from_millis(1)) {
            let text = "redis: a ttl below a millisecond would keep nothing";
            return Err(Error::invalid("open", text));
        }
        Keys::new(&self.prefix).ok_or_else(|| {
            let text = "redis: the prefix holds a brace, and would hide the hash tags of the keys";
            Error::invalid("open", text)
        })
    }

    fn info(address: &str) -> Result<ConnectionInfo> {
        let info = address.into_connection_info().map_err(|error| unusable(&error))?;
        #[cfg(feature = "redis-tls")]
        choose_cryptography(info.addr());
        Ok(info.set_tcp_settings(TcpSettings::default().set_nodelay(true)))
    }

    fn cluster_client(&self, infos: Vec<ConnectionInfo>) -> RedisResult<ClusterClient> {
        let builder = ClusterClientBuilder::new(infos)
            // All nodes are asked for their slots, and a silent one must not use up the time.
            .connection_timeout(self.connect_timeout / 2)
            .response_timeout(self.timeout)
            .tcp_settings(TcpSettings::default().set_nodelay(true))
            // By default the driver waits for seconds, as long as a failover takes.
            .min_retry_wait(20)
            .max_retry_wait(200);
        #[cfg(feature = "redis-tls")]
        let builder = match &self.certificates {
            Some(Hidden(certificates)) => builder.certs(certificates.clone()),
            None => builder,
        };
        builder.build()
    }
}

/// Installs a cryptography provider if there is none: rustls panics without one.
#[cfg(feature = "redis-tls")]
fn choose_cryptography(address: &redis::ConnectionAddr) {
    use rustls::crypto::{CryptoProvider, ring};
    let needed = matches!(address, redis::ConnectionAddr::TcpTls { .. });
    if needed && CryptoProvider::get_default().is_none() {
        // This fails if another thread has just installed one.
        let _ = ring::default_provider().install_default();
    }
}

/// Returns the error for an address in the driver's words, which leave out the address since it may
/// contain a password.
fn unusable(error: &RedisError) -> Error {
    Error::invalid("open", format!("redis: the address can't be used: {error}"))
}

/// How many connections wait for replicas at the same time.
const WAITING: usize = 8;

#[cfg(test)]
mod tests {
    use crate::error::Result;
    use crate::store::RedisStore;

    /// This used to panic: connections need a runtime.
    #[test]
    fn outside_of_a_runtime_there_is_an_error() {
        fn refused(open: impl Future<Output = Result<RedisStore>>) {
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let std::task::Poll::Ready(opened) = std::pin::pin!(open).poll(&mut context) else {
                unreachable!()
            };
            let error = opened.unwrap_err();
            assert_eq!(error.to_string(), "open: redis: the driver needs a tokio runtime");
        }
        refused(RedisStore::open("redis://localhost"));
        refused(RedisStore::open_cluster(&["redis://localhost"]));
    }
}
