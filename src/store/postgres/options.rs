//! The options by which a store is opened.

use std::time::Duration;

use deadpool_postgres::tokio_postgres::Config;

#[cfg(feature = "postgres-tls")]
use super::certificates::Certificates;
use super::schema::Tables;
use super::tls::Security;
use crate::codec::Codec;
use crate::error::Result;

/// Options by which a [`PostgresStore`](super::PostgresStore) is opened.
///
/// ```no_run
/// use memory_prompt::PostgresStore;
/// use memory_prompt::codec::Codec;
///
/// # async fn example() -> memory_prompt::Result<()> {
/// let store = PostgresStore::options()
///     .schema("app")
///     .prefix("chat_")
///     .codec(Codec::Bincode)
///     .max_connections(20)
///     .open("postgres://app:secret@localhost/chat")
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    pub(super) codec: Codec,
    pub(super) schema: String,
    pub(super) prefix: String,
    pub(super) connections: usize,
    pub(super) connect_timeout: Duration,
    pub(super) timeout: Duration,
    pub(super) prepare: bool,
    #[cfg(feature = "postgres-tls")]
    pub(super) certificates: Certificates,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self {
            codec: Codec::Json,
            schema: "memory_prompt".to_owned(),
            prefix: String::new(),
            connections: 10,
            connect_timeout: Duration::from_secs(5),
            timeout: Duration::from_secs(10),
            prepare: true,
            #[cfg(feature = "postgres-tls")]
            certificates: Certificates::default(),
        }
    }
}

impl PostgresOptions {
    /// Sets the codec in which new messages are written; [`Codec::Json`] unless set. Every codec is
    /// read.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Sets the schema that the tables are in; `memory_prompt` unless set. It is created if
    /// there is none.
    #[must_use]
    pub fn schema(mut self, schema: impl Into<String>) -> Self {
        self.schema = schema.into();
        self
    }

    /// Sets a prefix of the names of the tables; none unless set. For a schema that holds other
    /// tables.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Sets the most connections there are at once, at least one; 10 unless set.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.connections = connections;
        self
    }

    /// Sets the time to wait for a connection, be it a new one or one of the pool's; 5 seconds
    /// unless set. It is part of the [timeout](Self::timeout), within which a server that refuses,
    /// since it is restarted, is asked again.
    ///
    /// A connection that was idle for 30 seconds is replaced by a new one: a firewall may have
    /// forgotten it.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the time that an operation may take, with all that it waits for and all that is
    /// repeated until the server is back; 10 seconds unless set.
    ///
    /// A change that got no answer in time is
    /// [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged). One of which the server
    /// says so before is not done, and an [`ErrorKind::Storage`](crate::ErrorKind::Storage): it
    /// waited for another transaction's lock, or, since it is to evict or delete millions of
    /// messages, it takes longer than this.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Prepares statements once a connection, or none if this is `false`; it does unless set.
    ///
    /// Set it to `false` behind a pooler that gives each transaction another session and knows no
    /// prepared statements: pgbouncer before 1.21, or with `max_prepared_statements = 0`. There the
    /// name of a statement may be that of another program's, in another session.
    #[must_use]
    pub fn prepare(mut self, prepare: bool) -> Self {
        self.prepare = prepare;
        self
    }

    /// Sets the authority that signs the server's certificate, in PEM; unless set, those count that
    /// the operating system trusts. The connections are encrypted then, as with `sslmode=require`
    /// in the address.
    #[cfg(feature = "postgres-tls")]
    #[must_use]
    pub fn authority(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.certificates.authority = Some(pem.into());
        self
    }

    /// Sets the client's own certificate and its key, in PEM, for a server that asks for one. The
    /// connections are encrypted then.
    #[cfg(feature = "postgres-tls")]
    #[must_use]
    pub fn certificate(mut self, certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        self.certificates.own = Some((certificate.into(), key.into()));
        self
    }

    /// Returns the statements that create the tables, for a tool that migrates, or for a role that
    /// may.
    ///
    /// ```
    /// use memory_prompt::PostgresStore;
    ///
    /// let sql = PostgresStore::options().schema("app").prefix("chat_").sql()?;
    /// assert!(sql.contains(r#"CREATE TABLE "app"."chat_message""#));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the schema or the prefix can't be
    /// (part of) a name.
    pub fn sql(&self) -> Result<String> {
        Ok(Tables::new(&self.schema, &self.prefix)?.sql())
    }

    #[cfg(feature = "postgres-tls")]
    pub(super) fn security(&self, config: Config) -> Result<(Config, Security)> {
        Security::of(config, &self.certificates)
    }

    #[cfg(not(feature = "postgres-tls"))]
    #[expect(clippy::unused_self, reason = "with the feature there are certificates")]
    pub(super) fn security(&self, config: Config) -> Result<(Config, Security)> {
        Security::of(config)
    }
}
