//! The names of the keys, and how they are spread over the slots of a Redis Cluster.

use std::ops::RangeInclusive;

use crate::memory::MemoryId;
use crate::store::common::fnv;

/// The shards over which conversations are spread, each with its own list of ids. So everything
/// that a change touches, including the list, is in one slot and changes in one step.
pub(super) const SHARDS: RangeInclusive<u8> = 0..=u8::MAX;

/// The shard is in braces, with no `{` before it, so that Redis takes it as the hash tag even if
/// the id contains braces. The id comes last and unchanged, so different ids have different keys.
#[derive(Clone)]
pub(super) struct Keys {
    prefix: String,
}

impl Keys {
    /// Returns `None` if the prefix would hide the hash tags.
    pub(super) fn new(prefix: &str) -> Option<Self> {
        (!prefix.contains(['{', '}'])).then(|| Self { prefix: prefix.to_owned() })
    }

    pub(super) fn version(&self) -> String {
        format!("{}:version", self.prefix)
    }

    /// Returns the key of one part of a conversation.
    pub(super) fn of(&self, id: &MemoryId, what: &str) -> String {
        self.of_shard(shard(id), &format!("{what}:{id}"))
    }

    /// Returns the keys of all parts of a conversation: its state, its log, its slots, their
    /// versions, the list of append ids with their outcomes, the bytes of its media, and a sorted
    /// set of these by the newest position that refers to them.
    pub(super) fn conversation(&self, id: &MemoryId) -> [String; 7] {
        let place = self.of_shard(shard(id), "");
        let key = |what| [place.as_str(), what, ":", id.as_str()].concat();
        ["state", "log", "slots", "versions", "known", "media", "shown"].map(key)
    }

    /// Returns the keys of a change: a token, all parts of the conversation, and the lists that
    /// contain it.
    pub(super) fn change(&self, id: &MemoryId) -> Vec<String> {
        let shard = shard(id);
        let mut keys = vec![self.token(shard)];
        keys.extend(self.conversation(id));
        keys.extend([self.ids(shard), self.expiring(shard)]);
        keys
    }

    /// Returns the key of the sorted set of a shard's ids, in byte order.
    pub(super) fn ids(&self, shard: u8) -> String {
        self.of_shard(shard, "ids")
    }

    /// Returns the key of the sorted set of a shard's expiring ids, by their expiry.
    pub(super) fn expiring(&self, shard: u8) -> String {
        self.of_shard(shard, "expiring")
    }

    pub(super) fn token(&self, shard: u8) -> String {
        self.of_shard(shard, &format!("done:{}", MemoryId::random()))
    }

    fn of_shard(&self, shard: u8, rest: &str) -> String {
        format!("{}:{{{shard:02x}}}:{rest}", self.prefix)
    }
}

/// Returns the shard of an id: the highest byte of its 64-bit FNV-1a hash after the final mix of
/// `MurmurHash3`. This is part of the layout.
///
/// In FNV-1a alone, the last characters do not affect the highest byte, and ids mostly differ in
/// their last characters.
pub(super) fn shard(id: &MemoryId) -> u8 {
    let mut hash = fnv(id.as_str());
    for factor in [0xff51_afd7_ed55_8ccd, 0xc4ce_b9fe_1a85_ec53] {
        hash = (hash ^ hash >> 33).wrapping_mul(factor);
    }
    (hash ^ hash >> 33).to_be_bytes()[0]
}

#[cfg(test)]
mod tests {
    use super::{Keys, SHARDS, fnv, shard};
    use crate::memory::MemoryId;

    #[test]
    fn the_shard_of_an_id_never_changes() {
        // Known values of FNV-1a and of the final mix of MurmurHash3.
        let hashes = ["", "a", "foobar"].map(fnv);
        assert_eq!(hashes, [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
        let shards = ["", "a", "foobar", "support:u1001:c2002"].map(|id| shard(&id.into()));
        assert_eq!(shards, [0xef, 0x82, 0x2c, 0x5e]);
    }

    /// The shard used to be the highest byte of FNV-1a alone, on which the last characters have no
    /// influence: the nine conversations of a user were all on one of 256 shards, the thousand from
    /// `conv-1000` on 10, and listing those took 38,120 commands instead of 1,256.
    #[test]
    fn ids_of_any_shape_are_spread_over_the_shards() {
        type Shape = fn(u64) -> String;
        let shapes: [(&str, Shape); 14] = [
            ("conversations of a user", |i| format!("support:u1001:c{i}")),
            ("one of each user", |i| format!("support:u{i}:c1")),
            ("users with a number", |i| format!("support:u{i}:c{i}")),
            ("counted", |i| format!("conv-{}", i + 1000)),
            ("padded", |i| format!("{i:010}")),
            ("bare", |i| i.to_string()),
            ("hexadecimal", |i| format!("session/{i:x}")),
            ("counted in front", |i| format!("{i}@example.org")),
            ("in the middle", |i| format!("tenant-7/{i}/main")),
            ("dates", |i| format!("2026-{:02}-{:02}#{}", i / 28 % 12 + 1, i % 28 + 1, i / 336)),
            ("letters", |i| format!("team {}{}", letter(i / 26), letter(i))),
            ("uuids that count", |i| format!("0190a5e4-7c3b-7000-8000-{i:012x}")),
            ("phone numbers", |i| format!("+49170{:07}", i * 7919 % 10_000_000)),
            ("times", |i| (1_714_557_600_000 + i * 60_000).to_string()),
        ];
        for (what, shape) in shapes {
            // The ids of a user, a page, and all; there are only this many pairs of letters.
            let most = if what == "letters" { 676 } else { 25_600 };
            for n in [9, 100, 676, 1_000, most] {
                let mut counts = [0_u32; 256];
                for i in 1..=n.min(most) {
                    counts[usize::from(shard(&MemoryId::from(shape(i))))] += 1;
                }
                let used =
                    u32::try_from(counts.iter().filter(|count| **count > 0).count()).unwrap();
                let n = u32::try_from(n.min(most)).unwrap();
                let random = 256.0 * (1.0 - (255.0_f64 / 256.0).powi(n.cast_signed()));
                // At least nine tenths of the shards that random choice would use, and none much
                // fuller.
                assert!(f64::from(used) >= 0.9 * random - 1.0, "{n} {what}: {used} shards");
                let mean = f64::from(n) / 256.0;
                let most = f64::from(counts.into_iter().max().unwrap());
                assert!(most <= mean + 5.0 * mean.sqrt() + 2.0, "{n} {what}: {most} on a shard");
            }
        }
        assert_eq!(SHARDS.count(), 256);
    }

    fn letter(i: u64) -> char {
        char::from(b'a' + u8::try_from(i % 26).unwrap())
    }

    #[test]
    fn the_hash_tag_is_the_shard_whatever_the_id() {
        let keys = Keys::new("chat").unwrap();
        for id in ["", "{", "}", "{}", "{a}b", "}{", "a\0b"] {
            let id = MemoryId::from(id);
            let (log, shard) = (keys.of(&id, "log"), format!("{:02x}", shard(&id)));
            // As the cluster specification finds the hash tag.
            let begin = log.find('{').unwrap() + 1;
            let end = begin + log[begin..].find('}').unwrap();
            assert_eq!(log[begin..end], shard);
        }
        assert!(Keys::new("a{b").is_none() && Keys::new("a}b").is_none());
    }
}
