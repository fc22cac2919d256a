//! The settings of a store.

use std::time::Duration;

use scylla::statement::{Consistency, SerialConsistency};

use crate::codec::Codec;
use crate::error::{Error, Result};
use crate::store::common::Hidden;
use crate::store::setters::setters;

/// The settings with which a [`CassandraStore`](super::CassandraStore) is opened.
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

    /// Sets how new messages are written; the default is [`Codec::Json`]. Messages in every codec
    /// are read.
    pub fn codec(codec: Codec) => codec = codec;

    /// Sets the keyspace: at most 48 letters, digits and `_`; the default is `memory_prompt`.
    pub fn keyspace(keyspace: impl Into<String>) => keyspace = keyspace.into();

    /// Sets the replication of a keyspace that the store creates, in CQL, for example
    /// `{'class': 'NetworkTopologyStrategy', 'europe': 3}`.
    ///
    /// By default, each data centre has as many replicas as the smallest one has nodes, and at most
    /// three.
    pub fn replication(replication: impl Into<String>) => replication = Some(replication.into());

    /// Sets how many replicas must answer a request; the default is [`Consistency::Quorum`].
    ///
    /// With anything weaker, a client may not read at once what another one has appended, and
    /// acknowledged data can be lost with a machine. If all users of a conversation are in one data
    /// centre, [`Consistency::LocalQuorum`] is as good and does not wait for the others.
    pub fn consistency(consistency: Consistency) => consistency = consistency;

    /// Sets which replicas agree on the order of appends; the default is
    /// [`SerialConsistency::Serial`].
    ///
    /// [`SerialConsistency::LocalSerial`] is right if all users of a conversation are in one data
    /// centre. Otherwise it loses messages.
    pub fn serial_consistency(consistency: SerialConsistency) => serial_consistency = consistency;

    /// Sets how long to wait for an answer; the default is 10 seconds.
    ///
    /// A change without an answer is sent again for some three times as long before it is
    /// [`Unacknowledged`](crate::ErrorKind::Unacknowledged). A change that loses against others is
    /// retried for twice as long, with pauses; then it is an error, and was not made.
    pub fn timeout(timeout: Duration) => timeout = timeout;

    /// Sets how long to wait for the first connection; the default is 10 seconds.
    pub fn connect_timeout(timeout: Duration) => connect_timeout = timeout;

    /// Sets the most bytes of messages and slots in one append; the default is 8 MiB. A larger
    /// append is an error before anything is done.
    ///
    /// An append is one request and one mutation on the replicas, and with ids and keys takes up to
    /// twice as much there. So for more than 8 MiB, raise the server's limits:
    /// `native_transport_max_frame_size` and `max_mutation_size` to twice this (the latter is half
    /// of `commitlog_segment_size` by default, so a segment of four times this is enough).
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

    /// Sets the user name and the password.
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
