//! The commands of a read, as a transaction and as a script.

use std::ops::Range;

use redis::{Pipeline, pipe};

use super::keys::Keys;
use crate::memory::{MemoryId, Read};

pub(super) struct Wanted<'a> {
    /// The keys of the state, the log, the slots and their versions.
    pub(super) keys: [String; 4],
    newest: String,
    count: usize,
    pub(super) names: Vec<&'a str>,
    stretches: Vec<Range<u64>>,
}

impl<'a> Wanted<'a> {
    /// Wants the newest `count` entries before a position, and the slots and single records of
    /// `read`, if given.
    pub(super) fn of(
        keys: &Keys,
        id: &MemoryId,
        before: Option<u64>,
        count: usize,
        read: Option<&'a Read>,
    ) -> Self {
        let newest = match before.map(|before| before.checked_sub(1)) {
            None => "+".to_owned(),
            Some(Some(position)) => entry(position),
            // No entry has the id `0-0`, which comes before all of them.
            Some(None) => "0-0".to_owned(),
        };
        let [state, log, slots, versions, ..] = keys.conversation(id);
        let keys = [state, log, slots, versions];
        let names = read.into_iter().flat_map(Read::names).collect();
        let stretches = read.map_or_else(Vec::new, |read| read.stretches(0..u64::MAX));
        Self { keys, newest, count, names, stretches }
    }

    pub(super) fn transaction(&self) -> Pipeline {
        let [state, log, slots, versions] = &self.keys;
        let mut all = pipe();
        all.atomic();
        all.cmd("HMGET").arg(state).arg(&["start", "end", "system", "incarnation"]);
        all.cmd("XREVRANGE").arg(log).arg(&self.newest).arg("-").arg("COUNT").arg(self.count);
        if !self.names.is_empty() {
            all.cmd("HMGET").arg(slots).arg(&self.names);
            all.cmd("HMGET").arg(versions).arg(&self.names);
        }
        for stretch in &self.stretches {
            all.cmd("XRANGE").arg(log).arg(entry(stretch.start)).arg(entry(stretch.end - 1));
        }
        all
    }

    /// Returns the arguments for the script that does the same.
    pub(super) fn args(&self) -> Vec<String> {
        let mut args =
            vec![self.newest.clone(), self.count.to_string(), self.names.len().to_string()];
        args.extend(self.names.iter().map(ToString::to_string));
        args.extend(self.stretches.iter().flat_map(|it| [entry(it.start), entry(it.end - 1)]));
        args
    }
}

fn entry(position: u64) -> String {
    format!("{position}-1")
}
