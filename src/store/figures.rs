//! The figures that an operator monitors.

/// The counts of a store since it was opened, and its current connections.
///
/// Reading them costs nothing. Monitor how they change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The open connections; on Cassandra, the nodes with an open connection.
    pub connections: usize,
    /// The maximum number of connections, if there is a limit.
    pub most_connections: Option<usize>,
    /// The callers that wait for a connection, if there is a limit.
    pub waiting: usize,
    /// The operations that have begun and not ended.
    pub under_way: usize,
    /// The requests that were repeated because no answer came.
    pub retries: u64,
    /// The connections that replaced a lost one, as far as the driver reports that.
    pub reconnects: u64,
    /// The changes that were made again because another writer was first.
    pub lost_races: u64,
}
