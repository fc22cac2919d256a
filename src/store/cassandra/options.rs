//! The settings by which a store is opened.

use std::fmt;
use std::time::Duration;

use scylla::statement::{Consistency, SerialConsistency};

use crate::codec::Codec;
use crate::error::{Error, Result};

/// The settings by which a [`CassandraStore`](super::CassandraStore) is opened.
///
/// ```no_run
/// use memory_prompt::CassandraStore;
/// use memory_prompt::codec::Codec;
/// use memory_prompt::store::cassandra::driver::statement::{Consistency, SerialConsistency};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let store = CassandraStore::options()
///     .codec(Codec::Bincode)
///     .keyspace("chat")
///     .replication("{'class': 'NetworkTopologyStrategy', 'europe': 3}")
///     .consistency(Consistency::LocalQuorum)
///     .serial_consistency(SerialConsistency::LocalSerial)
///     .user("chat", "password")
///     .open("10.0.0.1:9042,10.0.0.2:9042")
///     .await?;
/// # Ok::<(), memory_prompt::Error>(())
/// # })?;
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct CassandraOptions {
    pub(super) codec: Codec,
    pub(super) keyspace: String,
    pub(super) replication: Option<String>,
    pub(super) consistency: Consistency,
    pub(super) serial_consistency: SerialConsistency,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) user: Option<(String, String)>,
    pub(super) largest_batch: usize,
}

impl CassandraOptions {
    pub(super) fn new() -> Self {
        Self {
            codec: Codec::Json,
            keyspace: "memory_prompt".to_owned(),
            replication: None,
            consistency: Consistency::Quorum,
            serial_consistency: SerialConsistency::Serial,
            timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(10),
            user: None,
            largest_batch: 8 << 20,
        }
    }

    /// Sets how new messages are written; [`Codec::Json`] unless set. Every codec is read.
    #[must_use]
    pub fn codec(mut self, codec: Codec) -> Self {
        self.codec = codec;
        self
    }

    /// Sets the keyspace, `memory_prompt` unless set: at most 48 letters, digits and `_`.
    #[must_use]
    pub fn keyspace(mut self, keyspace: impl Into<String>) -> Self {
        self.keyspace = keyspace.into();
        self
    }

    /// Sets how a keyspace that is not there is replicated, in CQL, for example
    /// `{'class': 'NetworkTopologyStrategy', 'europe': 3}`.
    ///
    /// Unless set: in each data centre on as many nodes as the smallest one has, and on three at
    /// most.
    #[must_use]
    pub fn replication(mut self, replication: impl Into<String>) -> Self {
        self.replication = Some(replication.into());
        self
    }

    /// Sets how many replicas must have done what is asked of them; [`Consistency::Quorum`] unless
    /// set.
    ///
    /// With anything weaker, what one appends another may not read at once, and what was
    /// acknowledged can be lost with a machine. Where all who use a conversation are in one data
    /// centre, [`Consistency::LocalQuorum`] is as good and does not wait for the others.
    #[must_use]
    pub fn consistency(mut self, consistency: Consistency) -> Self {
        self.consistency = consistency;
        self
    }

    /// Sets which replicas agree on the order of appends; [`SerialConsistency::Serial`] unless set.
    ///
    /// [`SerialConsistency::LocalSerial`] is right where all who use a conversation are in one data
    /// centre, and loses messages where they are not.
    #[must_use]
    pub fn serial_consistency(mut self, serial_consistency: SerialConsistency) -> Self {
        self.serial_consistency = serial_consistency;
        self
    }

    /// Sets how long to wait for an answer; 10 seconds unless set.
    ///
    /// A change that gets none is sent again until it gets one, for some three times as long,
    /// before it is [`Unacknowledged`](crate::ErrorKind::Unacknowledged). What others overtake is
    /// tried again for twice as long, with pauses, and is then an error and not done.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sets how long to wait for the first connection; 10 seconds unless set.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// Sets the name and the password to connect with.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        self.user = Some((name.into(), password.into()));
        self
    }

    /// Sets how many bytes of messages and slots are appended at once; 8 MiB unless set. An append
    /// of more is an error before anything is done.
    ///
    /// What is appended at once is one request and one change of the replicas, and takes with ids
    /// and keys up to twice as much there. So with more than 8 MiB the server must take more than
    /// its defaults: `native_transport_max_frame_size` and `max_mutation_size` twice this (which is
    /// half of `commitlog_segment_size` unless set, so that four times this as a segment is
    /// enough).
    #[must_use]
    pub fn largest_batch(mut self, bytes: usize) -> Self {
        self.largest_batch = bytes;
        self
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.largest_batch == 0 {
            let text = "cassandra: a largest batch of 0 bytes takes nothing";
            return Err(Error::invalid("open", text));
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if self.keyspace.chars().all(is_plain) && (1..=48).contains(&self.keyspace.len()) {
            return Ok(());
        }
        let text = format!("cassandra: {:?} can't be the name of a keyspace", self.keyspace);
        Err(Error::invalid("open", text))
    }
}

impl fmt::Debug for CassandraOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CassandraOptions")
            .field("codec", &self.codec)
            .field("keyspace", &self.keyspace)
            .field("replication", &self.replication)
            .field("consistency", &self.consistency)
            .field("serial_consistency", &self.serial_consistency)
            .field("timeout", &self.timeout)
            .field("connect_timeout", &self.connect_timeout)
            .field("user", &self.user.as_ref().map(|(name, _)| name))
            .field("largest_batch", &self.largest_batch)
            .finish()
    }
}
