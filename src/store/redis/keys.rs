//! Which keys there are, and on which slot of a Redis Cluster they lie.

use std::ops::RangeInclusive;

use crate::memory::MemoryId;

/// Conversations are spread over so many slots, each of which has its own list of ids. So whatever belongs
/// to a change lies on one slot, the list included, and is changed in one step.
pub(super) const SHARDS: RangeInclusive<u8> = 0..=u8::MAX;

/// The names of the keys of a store.
///
/// `{` stands in front of the shard and nowhere before it, so that Redis finds its hash tag there, whatever
/// is in an id. An id comes last, as it is: different ids make different keys.
#[derive(Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    /// None where the prefix would hide the hash tags.
    pub(super) fn new(prefix: &str) -> Option<Self> {
        (!prefix.contains(['{', '}'])).then(|| Self { prefix: prefix.to_owned() })
    }

    /// Where the version of the layout is.
    pub(super) fn version(&self) -> String {
        format!("{}:version", self.prefix)
    }

    /// A hash with the fields `start`, `end`, `born`, `active` and `system`.
    pub(super) fn state(&self, id: &MemoryId) -> String {
        self.of_shard(shard(id), &format!("state:{id}"))
    }

    /// A stream with an entry a message.
    pub(super) fn log(&self, id: &MemoryId) -> String {
        self.of_shard(shard(id), &format!("log:{id}"))
    }

    /// A sorted set of the ids of a shard, in the order of their bytes.
    pub(super) fn ids(&self, shard: u8) -> String {
        self.of_shard(shard, "ids")
    }

    /// A sorted set of those that expire, by when they do.
    pub(super) fn expiring(&self, shard: u8) -> String {
        self.of_shard(shard, "expiring")
    }

    /// A key for a change that is made now, and for no other.
    pub(super) fn token(&self, shard: u8) -> String {
        self.of_shard(shard, &format!("done:{}", MemoryId::random()))
    }

    fn of_shard(&self, shard: u8, rest: &str) -> String {
        format!("{}:{{{shard:02x}}}:{rest}", self.prefix)
    }
}

/// The shard of an id: the highest byte of its FNV-1a hash of 64 bits. This is part of the layout.
pub(super) fn shard(id: &MemoryId) -> u8 {
    let hash = id.as_str().bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash.to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::{Keys, SHARDS, shard};
    use crate::memory::MemoryId;

    #[test]
    fn the_shard_of_an_id_never_changes() {
        // As any other implementation of FNV-1a says.
        let shards = ["", "a", "foobar", "support:u1001:c2002"].map(|id| shard(&id.into()));
        assert_eq!(shards, [0xcb, 0xaf, 0x85, 0xb4]);
    }

    #[test]
    fn ids_are_spread_over_the_shards() {
        let mut counts = [0; 256];
        for i in 0..256_000 {
            counts[usize::from(shard(&MemoryId::from(format!("support:u{i}:c{i}"))))] += 1;
        }
        assert!(counts.iter().all(|count| (750..1250).contains(count)), "{counts:?}");
        assert_eq!(counts.len(), SHARDS.count());
    }

    #[test]
    fn the_hash_tag_is_the_shard_whatever_the_id() {
        let keys = Keys::new("chat").unwrap();
        for id in ["", "{", "}", "{}", "{a}b", "}{", "a\0b"] {
            let id = MemoryId::from(id);
            let (log, shard) = (keys.log(&id), format!("{:02x}", shard(&id)));
            // As the cluster specification finds it.
            let begin = log.find('{').unwrap() + 1;
            let end = begin + log[begin..].find('}').unwrap();
            assert_eq!(log[begin..end], shard);
        }
        assert!(Keys::new("a{b").is_none() && Keys::new("a}b").is_none());
    }
}
