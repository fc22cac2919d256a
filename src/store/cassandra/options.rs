//! The settings by which a store is opened.

use std::time::Duration;

use scylla::statement::{Consistency, SerialConsistency};

use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::store::common::Hidden;
use crate::store::setters::setters;

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
#[derive(Clone, Debug)]
pub struct CassandraOptions {
    pub(super) codec: Codec,
    pub(super) keyspace: String,
    pub(super) replication: Option<String>,
    pub(super) consistency: Consistency,
    pub(super) serial_consistency: SerialConsistency,
    pub(super) timeout: Duration,
    pub(super) connect_timeout: Duration,
    pub(super) user: Option<String>,
    pub(super) password: Hidden<String>,
    pub(super) largest_batch: usize,
}

setters! {
    CassandraOptions:

    /// Sets how new messages are written; [`Codec::Json`] unless set. Every codec is read.
    pub fn codec(codec: Codec) => codec = codec;

    /// Sets the keyspace, `memory_prompt` unless set: at most 48 letters, digits and `_`.
    pub fn keyspace(keyspace: impl Into<String>) => keyspace = keyspace.into();

    /// Sets how a keyspace that is not there is replicated, in CQL, for example
    /// `{'class': 'NetworkTopologyStrategy', 'europe': 3}`.
    ///
    /// Unless set: in each data centre on as many nodes as the smallest one has, and on three at
    /// most.
    pub fn replication(replication: impl Into<String>) => replication = Some(replication.into());

    /// Sets how many replicas must have done what is asked of them; [`Consistency::Quorum`] unless
    /// set.
    ///
    /// With anything weaker, what one appends another may not read at once, and what was
    /// acknowledged can be lost with a machine. Where all who use a conversation are in one data
    /// centre, [`Consistency::LocalQuorum`] is as good and does not wait for the others.
    pub fn consistency(consistency: Consistency) => consistency = consistency;

    /// Sets which replicas agree on the order of appends; [`SerialConsistency::Serial`] unless set.
    ///
    /// [`SerialConsistency::LocalSerial`] is right where all who use a conversation are in one data
    /// centre, and loses messages where they are not.
    pub fn serial_consistency(consistency: SerialConsistency) => serial_consistency = consistency;

    /// Sets how long to wait for an answer; 10 seconds unless set.
    ///
    /// A change that gets none is sent again until it gets one, for some three times as long,
    /// before it is [`Unacknowledged`](crate::ErrorKind::Unacknowledged). What others overtake is
    /// tried again for twice as long, with pauses, and is then an error and not done.
    pub fn timeout(timeout: Duration) => timeout = timeout;

    /// Sets how long to wait for the first connection; 10 seconds unless set.
    pub fn connect_timeout(timeout: Duration) => connect_timeout = timeout;

    /// Sets how many bytes of messages and slots are appended at once; 8 MiB unless set. An append
    /// of more is an error before anything is done.
    ///
    /// What is appended at once is one request and one change of the replicas, and takes with ids
    /// and keys up to twice as much there. So with more than 8 MiB the server must take more than
    /// its defaults: `native_transport_max_frame_size` and `max_mutation_size` twice this (which is
    /// half of `commitlog_segment_size` unless set, so that four times this as a segment is
    /// enough).
    pub fn largest_batch(bytes: usize) => largest_batch = bytes;
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
            password: Hidden::default(),
            largest_batch: 8 << 20,
        }
    }

    /// Sets the name and the password to connect with.
    #[must_use]
    pub fn user(mut self, name: impl Into<String>, password: impl Into<String>) -> Self {
        (self.user, self.password) = (Some(name.into()), Hidden(password.into()));
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
