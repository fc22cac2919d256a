//! The options by which a store is opened.

use std::time::Duration;

#[cfg(feature = "postgres-tls")]
use super::certificates::Certificates;
use super::schema::Tables;
use crate::codec::Codec;
use crate::error::Result;
use crate::store::payloads::Encoding;
use crate::store::setters::setters;

/// The options with which a [`PostgresStore`](super::PostgresStore) is opened.
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

    /// Sets the codec of new messages; the default is [`Codec::Json`]. Messages in every codec are
    /// read.
    pub fn codec(codec: Codec) => encoding.codec = codec;

    /// Sets the size in bytes from which on media are kept beside their messages, each once in
    /// a conversation; the default is 16 KiB. With `usize::MAX` all media stay in their messages.
    pub fn media_beside(bytes: usize) => encoding.media_beside = bytes;

    /// Sets the schema of the tables; the default is `memory_prompt`. It is created if it is
    /// missing.
    pub fn schema(schema: impl Into<String>) => schema = schema.into();

    /// Sets a prefix for the names of the tables; the default is none. Use it in a schema with
    /// other tables.
    pub fn prefix(prefix: impl Into<String>) => prefix = prefix.into();

    /// Sets the maximum number of connections, at least one; the default is 10.
    pub fn max_connections(connections: usize) => connections = connections;

    /// Sets how long to wait for a connection, new or from the pool; the default is 5 seconds. This
    /// is part of the [timeout](Self::timeout), within which the store retries a server that
    /// refuses because it is restarting.
    ///
    /// A connection that was idle for 30 seconds is replaced, since a firewall may have forgotten
    /// it.
    pub fn connect_timeout(timeout: Duration) => connect_timeout = timeout;

    /// Sets how long an operation may take, including all waits and retries while the server is
    /// away; the default is 10 seconds.
    ///
    /// A change without an answer in time is
    /// [`ErrorKind::Unacknowledged`](crate::ErrorKind::Unacknowledged). If the server reports in
    /// time that it gave up, the change is not made, and the error is
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage): it waited for another transaction's lock,
    /// or takes longer than this because it evicts or deletes millions of messages.
    pub fn timeout(timeout: Duration) => timeout = timeout;

    /// Sets whether each connection prepares statements; the default is `true`.
    ///
    /// Set this to `false` behind a pooler that gives each transaction another session and does not
    /// support prepared statements: pgbouncer before 1.21, or with `max_prepared_statements = 0`.
    /// There, the name of a statement may belong to another program's statement in another session.
    pub fn prepare(prepare: bool) => prepare = prepare;

    /// Sets the authority that signs the server's certificate, in PEM. By default, the authorities
    /// trusted by the operating system are used. With this, connections are encrypted, as with
    /// `sslmode=require` in the address.
    #[cfg(feature = "postgres-tls")]
    pub fn authority(pem: impl Into<Vec<u8>>) => certificates.authority = Some(pem.into());

    /// Sets the client's own certificate and its key, in PEM, for a server that asks for one. With
    /// this, connections are encrypted.
    #[cfg(feature = "postgres-tls")]
    pub fn certificate(certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) =>
        certificates.own = Some((certificate.into(), key.into()));
}

impl PostgresOptions {
    /// Returns the statements that create the tables, for a migration tool, or for an account with
    /// the right to create them.
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
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if the schema or the prefix can't be (part
    /// of) a name.
    pub fn sql(&self) -> Result<String> {
        Ok(Tables::new(&self.schema, &self.prefix)?.sql())
    }
}
