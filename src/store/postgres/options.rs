//! The options by which a store is opened.

use std::time::Duration;

#[cfg(feature = "postgres-tls")]
use super::certificates::Certificates;
use super::schema::Tables;
use crate::codec::Codec;
use crate::error::Result;
use crate::store::payloads::Encoding;
use crate::store::setters::setters;

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
    pub(super) encoding: Encoding,
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
            encoding: Encoding::default(),
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

setters! {
    PostgresOptions:

    /// Sets the codec in which new messages are written; [`Codec::Json`] unless set. Every codec is
    /// read.
    pub fn codec(codec: Codec) => encoding.codec = codec;

    /// Sets the size in bytes from which on media are kept beside their messages, each once in a
    /// conversation; 16 KiB unless set. With `usize::MAX` they all stay within.
    pub fn media_beside(bytes: usize) => encoding.media_beside = bytes;

    /// Sets the schema that the tables are in; `memory_prompt` unless set. It is created if
    /// there is none.
    pub fn schema(schema: impl Into<String>) => schema = schema.into();

    /// Sets a prefix of the names of the tables; none unless set. For a schema that holds other
    /// tables.
    pub fn prefix(prefix: impl Into<String>) => prefix = prefix.into();

    /// Sets the most connections there are at once, at least one; 10 unless set.
    pub fn max_connections(connections: usize) => connections = connections;

    /// Sets the time to wait for a connection, be it a new one or one of the pool's; 5 seconds
    /// unless set. It is part of the [timeout](Self::timeout), within which a server that refuses,
    /// since it is restarted, is asked again.
    ///
    /// A connection that was idle for 30 seconds is replaced by a new one: a firewall may have
    /// forgotten it.
    pub fn connect_timeout(timeout: Duration) => connect_timeout = timeout;

    /// Sets the time that an operation may take, with all that it waits for and all that is
    /// repeated until the server is back; 10 seconds unless set.
    ///
    /// A change that got no answer in time is
    /// [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged). One of which the server
    /// says so before is not done, and an [`ErrorKind::Storage`](crate::ErrorKind::Storage): it
    /// waited for another transaction's lock, or, since it is to evict or delete millions of
    /// messages, it takes longer than this.
    pub fn timeout(timeout: Duration) => timeout = timeout;

    /// Prepares statements once a connection, or none if this is `false`; it does unless set.
    ///
    /// Set it to `false` behind a pooler that gives each transaction another session and knows no
    /// prepared statements: pgbouncer before 1.21, or with `max_prepared_statements = 0`. There the
    /// name of a statement may be that of another program's, in another session.
    pub fn prepare(prepare: bool) => prepare = prepare;

    /// Sets the authority that signs the server's certificate, in PEM; unless set, those count that
    /// the operating system trusts. The connections are encrypted then, as with `sslmode=require`
    /// in the address.
    #[cfg(feature = "postgres-tls")]
    pub fn authority(pem: impl Into<Vec<u8>>) => certificates.authority = Some(pem.into());

    /// Sets the client's own certificate and its key, in PEM, for a server that asks for one. The
    /// connections are encrypted then.
    #[cfg(feature = "postgres-tls")]
    pub fn certificate(certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) =>
        certificates.own = Some((certificate.into(), key.into()));
}

impl PostgresOptions {
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
}
