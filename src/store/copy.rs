//! Copies conversations from one store to another: what is read and what is appended. `walk` does
//! it, over both kinds of stores.

use std::fmt;
use std::ops::Range;

use super::Info;
use crate::codec::Codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Expected, Limits, MemoryId};
use crate::record::{Snapshot, places};

/// How many records are read and written at once: at first, and at most.
const PAGES: (u64, u64) = (8, 32);

/// The size of records from which on fewer are read at once: those that hold pictures are many
/// times as large as those that hold texts.
const HEAVY: usize = 1 << 20;

/// The progress of a copy.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Copied {
    /// The conversation that is being copied, or the last one.
    pub id: Option<MemoryId>,
    /// The number of conversations that are copied completely.
    pub conversations: u64,
    /// The number of records copied so far, including those of the current conversation.
    pub records: u64,
}

/// A conversation on its way to another store.
pub(super) struct Transfer {
    id: MemoryId,
    /// The conversation without its records.
    pub(super) head: Snapshot,
    info: Info,
    at: u64,
    /// How many records are read next.
    page: u64,
    limits: Limits,
}

impl Transfer {
    pub(super) fn new(id: MemoryId, head: Snapshot, info: Info, limits: Limits) -> Self {
        let at = head.start;
        Self { id, head, info, at, page: PAGES.0, limits }
    }

    /// Returns the positions of the next records, and their number, if any are left.
    pub(super) fn next(&self) -> Option<(Range<u64>, usize)> {
        let past = self.at.saturating_add(self.page).min(self.head.end);
        (self.at < past).then(|| (self.at..past, places(past - self.at)))
    }

    /// Returns the appends for the records that were read at these positions.
    pub(super) fn page(&mut self, wanted: &Range<u64>, page: &Snapshot) -> Result<Vec<Append>> {
        if page.incarnation != self.head.incarnation {
            return Err(self.stopped("it was deleted and began anew"));
        }
        if let Some(row) = page.unreadable.first() {
            let text = format!("the record at {} can't be read", row.position);
            return Err(self.stopped(&text).with_source(row.error.to_string()));
        }
        let mut appends: Vec<Append> = Vec::new();
        let mut bytes = 0;
        for record in page.records.iter() {
            let message = record.message().clone();
            let more = match self.limits.batch {
                usize::MAX => 0,
                _ => Codec::Json.encode(&message)?.len(),
            };
            let fits = appends.last().is_some() && bytes + more <= self.limits.batch;
            if !fits {
                appends.push(Append::default().expecting(record.position()));
                bytes = 0;
            }
            bytes += more;
            if let Some(append) = appends.last_mut() {
                append.messages.push(message);
                append.times.push(record.appended_at());
            }
        }
        if page.records.len() != places(wanted.end - wanted.start) {
            return Err(self.stopped("records of it were evicted meanwhile"));
        }
        let bytes: usize = page.records.iter().map(|it| it.message().heap_bytes()).sum();
        self.page = if bytes > HEAVY { (self.page / 4).max(1) } else { PAGES.1.min(self.page * 2) };
        self.at = wanted.end;
        Ok(appends)
    }

    /// Refuses slots and a system message that the other store can't hold, before anything is
    /// copied.
    pub(super) fn check(&self) -> Result<()> {
        let Limits { message, batch, slot, .. } = self.limits;
        let fits = |what: fmt::Arguments<'_>, bytes: usize, most: usize| {
            if bytes <= most {
                return Ok(());
            }
            let text = format!("its {what} has {bytes} bytes; {most} are the most there");
            Err(self.stopped(&text))
        };
        for it in self.head.slots() {
            fits(format_args!("slot {:?}", it.name()), it.content().len(), slot.min(batch))?;
        }
        let bytes = self.system_bytes()?.unwrap_or(0);
        fits(format_args!("system message"), bytes, message.min(batch))
    }

    /// Returns the appends after the records: the system message and the slots, as many per append
    /// as fit. The last one sets the time of the last activity.
    pub(super) fn closing(&self) -> Result<Vec<Append>> {
        let mut last = Append::closing(self.head.end, self.info.active);
        last.messages.extend(self.head.system.as_deref().cloned());
        let mut bytes = self.system_bytes()?.unwrap_or(0);
        let mut appends = Vec::new();
        for slot in self.head.slots() {
            if bytes > 0 && bytes.saturating_add(slot.content().len()) > self.limits.batch {
                let full = std::mem::replace(&mut last, Append::default().expecting(self.head.end));
                appends.push(Append { active: None, ..full });
                (bytes, last.active) = (0, Some(self.info.active));
            }
            bytes += slot.content().len();
            last = last.set_slot(slot.name(), slot.content(), Expected::Absent);
        }
        appends.push(last);
        Ok(appends)
    }

    /// Returns the approximate size of the system message in the other store, if there is a limit.
    fn system_bytes(&self) -> Result<Option<usize>> {
        let bounded = self.limits.batch.min(self.limits.message) < usize::MAX;
        let system = self.head.system.as_deref().filter(|_| bounded);
        Ok(system.map(|system| Codec::Json.encode(system)).transpose()?.map(|it| it.len()))
    }

    fn stopped(&self, why: &str) -> Error {
        Error::new(ErrorKind::Storage, "copy_to", stopped(&self.id, why))
    }
}

fn stopped(id: &MemoryId, why: impl fmt::Display) -> String {
    format!("the conversation {id:?} can't be copied: {why}")
}

/// Returns the error of a store during a copy, with the conversation at which it stopped.
pub(super) fn stopped_at(id: &MemoryId, error: Error) -> Error {
    if error.operation() == "copy_to" {
        return error;
    }
    let text = stopped(id, &error);
    error.reworded("copy_to", text)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::SystemTime;

    use super::*;
    use crate::message::Message;
    use crate::record::{Slot, SlotVersion};

    fn transfer(slots: usize, bytes: usize, batch: usize) -> Transfer {
        let slot = |i| Slot::new(format!("slot {i}"), SlotVersion::random(), vec![b'x'; bytes]);
        let system = Some(Arc::new(Message::system("Be brief.")));
        let head = Snapshot { system, end: 7, ..Snapshot::default() };
        let limits = Limits::default().with_batch(batch).with_slot(batch).with_message(batch);
        let info = Info::new(0..7, SystemTime::UNIX_EPOCH);
        Transfer::new("a".into(), head.with_slots((0..slots).map(slot)), info, limits)
    }

    /// System message and slots used to go in one append: ten slots of 1 MiB could not be copied to
    /// a store that takes 8 MiB at once, though each was far from its limit.
    #[test]
    fn slots_go_in_as_many_appends_as_they_need() {
        for (slots, bytes, batch, expected) in
            [(10, 1 << 20, 8 << 20, 2), (10, 100, 1000, 2), (10, 1000, 1000, 11), (0, 0, 100, 1)]
        {
            let transfer = transfer(slots, bytes, batch);
            transfer.check().unwrap();
            let appends = transfer.closing().unwrap();
            assert_eq!(appends.len(), expected, "{slots} slots of {bytes} bytes");
            let size = |append: &Append| -> usize {
                let system = append.messages.iter().map(|it| Codec::Json.encode(it).unwrap().len());
                let slots = append.slots.iter().map(|it| it.content.as_ref().unwrap().len());
                system.chain(slots).sum()
            };
            assert!(appends.iter().all(|append| size(append) <= batch));
            let active: Vec<_> = appends.iter().map(|append| append.active.is_some()).collect();
            assert_eq!(active.iter().filter(|active| **active).count(), 1);
            assert!(active.last().unwrap(), "the last one says when it was active");
            assert!(appends.iter().all(|append| append.expected == Some(7)));
            assert_eq!(appends.iter().map(|append| append.messages.len()).sum::<usize>(), 1);
            let names = appends.iter().flat_map(|append| &append.slots).map(|slot| &*slot.name);
            assert!(names.eq(transfer.head.slots().iter().map(Slot::name)));
        }
    }

    /// A page held 64 records with all their pictures, twice: a store of scanned documents could
    /// not be copied with a gigabyte of memory.
    #[test]
    fn behind_pictures_fewer_are_held_at_once() {
        let mut transfer = transfer(0, 0, usize::MAX);
        transfer.head.end = 1_000;
        let mut pages = |bytes: usize| {
            let pages = (0..5).map(|_| {
                let (wanted, n) = transfer.next().unwrap();
                let said = (0..n).map(|_| Message::user("x".repeat(bytes)));
                let mut page = Snapshot::from_messages(said);
                page.incarnation = transfer.head.incarnation;
                transfer.page(&wanted, &page).unwrap();
                n
            });
            pages.collect::<Vec<_>>()
        };
        assert_eq!(pages(100), [8, 16, 32, 32, 32]);
        assert_eq!(pages(HEAVY / 4), [32, 8, 2, 4, 8]);
    }

    #[test]
    fn what_is_too_large_is_refused_before_anything_is_copied() {
        let refused = |transfer: Transfer| transfer.check().unwrap_err().to_string();
        assert_eq!(
            refused(transfer(1, 1001, 1000)),
            "copy_to: the conversation \"a\" can't be copied: its slot \"slot 0\" has 1001 bytes; 1000 are \
             the most there"
        );
        let system = refused(transfer(1, 10, 20));
        assert!(system.ends_with("bytes; 20 are the most there"), "{system}");
        assert!(system.contains("its system message has "), "{system}");
    }
}
