//! The options by which a store is opened.

use std::sync::Arc;
use std::time::Duration;

use super::ask::Read;
use super::connect::{self, Connections};
#[cfg(feature = "postgres-tls")]
use super::rustls::Certificates;
use super::schema::{self, Tables};
use super::statements::Statements;
use super::tls::Security;
use super::{PostgresStore, Shared, upgrade};
use crate::codec::Codec;
use crate::error::{Error, Result};

/// Options by which a [`PostgresStore`] is opened.
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

    /// Sets the schema that the tables are in; `memory_prompt` unless set. It is created where
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
    /// A connection that idled for 10 seconds is asked first whether it is still there, for a
    /// quarter of this. Where one is not, all that idled then are replaced.
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
    /// waited for somebody else's lock, or, since it is to evict or delete millions of messages, it
    /// takes longer than this.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Prepares statements where that can be done, or none if this is `false`; it does unless set.
    ///
    /// A store finds out by itself where a pooler can't. This is for what is between and neither
    /// gives statements names of its own nor tells that the session may change.
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
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) where the schema or the prefix can't be
    /// (part of) a name.
    pub fn sql(&self) -> Result<String> {
        Ok(Tables::new(&self.schema, &self.prefix)?.sql())
    }

    /// Returns the statements that bring tables of this version up to date, for the same. They
    /// belong into one transaction; there are none for tables that are.
    ///
    /// # Errors
    ///
    /// As [`sql`](Self::sql), and for a version that there never was.
    pub fn upgrade_sql(&self, version: u32) -> Result<String> {
        let tables = Tables::new(&self.schema, &self.prefix)?;
        match version {
            1..schema::CURRENT => Ok(tables.sql_since(version)),
            schema::CURRENT => Ok(String::new()),
            _ => Err(Error::invalid("open", format!("postgres: there is no version {version}"))),
        }
    }

    /// Opens the store in the database at this address, whose tables are created where there are
    /// none.
    ///
    /// An address is a URL (`postgres://user:password@host:5432/database`) or in libpq's form
    /// (`host=… user=…`); [`Config`](deadpool_postgres::tokio_postgres::Config) lists what may be
    /// in it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) where the address, the schema or the
    /// prefix make no sense, or where there is no tokio runtime, and
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage) where the server can't be reached or
    /// refuses, or where the tables are those of something else, of a later version, or can't be
    /// upgraded. They are then as they were.
    pub async fn open(self, address: impl AsRef<str> + Send) -> Result<PostgresStore> {
        let tables = Tables::new(&self.schema, &self.prefix)?;
        let config = connect::config(address.as_ref())?;
        let place = connect::place(&config);
        let connections = Connections::to(config, tables.clone(), &self)?;
        self.store(connections, &tables, place).await
    }

    /// Opens the store in the database that this pool is connected to.
    ///
    /// The pool decides then how many connections there are, and looks itself whether one is still
    /// there before it is used.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub async fn over(self, pool: deadpool_postgres::Pool) -> Result<PostgresStore> {
        let tables = Tables::new(&self.schema, &self.prefix)?;
        let connections = Connections::over(pool, Security::Plain, tables.clone(), &self)?;
        self.store(connections, &tables, "a pool of the caller's".to_owned()).await
    }

    async fn store(
        self,
        connections: Connections,
        tables: &Tables,
        place: String,
    ) -> Result<PostgresStore> {
        upgrade::prepare(&connections, tables).await?;
        let statements = Statements::new(tables);
        // A first question, so that the first caller need not find out about the connection.
        connections.ask("open", &[], Read(&statements.ping, &[])).await?;
        let shared = Shared { connections, statements, codec: self.codec, place };
        Ok(PostgresStore { shared: Arc::new(shared) })
    }
}
