//! The figures by which an operator sees how a store fares.

/// The counts of a store since it was opened, and its connections at this moment.
///
/// A store hands them out at no cost; what there is to watch is their change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// The connections that are open; on Cassandra the nodes that some are open to.
    pub connections: usize,
    /// The most connections that there may be, where there is a limit.
    pub most_connections: Option<usize>,
    /// The callers that wait for a connection, where they have to.
    pub waiting: usize,
    /// The operations that were begun and are not over.
    pub under_way: usize,
    /// The requests that were made once more since the answer stayed away.
    pub retries: u64,
    /// The connections that took the place of a lost one, as far as the driver tells.
    pub reconnects: u64,
    /// The changes that were made again since somebody else was first.
    pub lost_races: u64,
}
