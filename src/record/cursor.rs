//! Walking over records, from one block into the next.

use super::{Few, Record, Records, Run, Slot};
use crate::message::Message;

/// A walk over records.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    /// The run of the next record, and the slots from it on: none only at the end.
    run: Option<&'a Run>,
    slots: &'a [Slot],
    runs: &'a Few<Run>,
    next_run: usize,
    /// The place of the next among all records.
    at: usize,
}

impl Records {
    /// A walk from the `skip`th record on.
    #[inline]
    pub(crate) fn cursor(&self, skip: usize) -> Cursor<'_> {
        let (runs, run) = (&self.runs, self.runs.get(0));
        let slots = run.map_or(&[][..], Run::slots);
        let mut cursor = Cursor { run, slots, runs, next_run: 1, at: 0 };
        if skip > 0 {
            cursor.advance(skip);
        }
        cursor
    }
}

impl<'a> Cursor<'a> {
    /// The place of the next record among all of them.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next record, which stays the next.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Record<'a>> {
        let (run, slots) = (self.run?, self.slots);
        let entry = slots.first()?.get()?;
        Some(Record { seq: run.seq + (run.len - slots.len()) as u64, entry, run })
    }

    /// The next record, if there is one and `wanted` says so.
    #[inline]
    pub(crate) fn next_if(&mut self, wanted: impl FnOnce(&Message) -> bool) -> Option<Record<'a>> {
        let record = self.peek().filter(|record| wanted(record.message()))?;
        self.advance(1);
        Some(record)
    }

    /// Passes the next records as far as they are wanted.
    #[inline]
    pub(crate) fn pass(&mut self, mut wanted: impl FnMut(&Message) -> bool) {
        let mut unwanted = |slot: &Slot| slot.get().is_none_or(|entry| !wanted(&entry.message));
        while self.run.is_some() {
            let slots = self.slots;
            let passed = slots.iter().position(&mut unwanted);
            self.advance(passed.unwrap_or(slots.len()));
            if passed.is_some() {
                return;
            }
        }
    }

    /// Passes the next records, at most so many, as far as they share a block: they lie in these slots.
    pub(crate) fn stretch(&mut self, most: usize) -> &'a [Slot] {
        let slots = self.slots;
        let slots = slots.get(..most).unwrap_or(slots);
        self.advance(slots.len());
        slots
    }

    /// Passes so many records.
    pub(crate) fn advance(&mut self, n: usize) {
        let mut left = n;
        while self.run.is_some() {
            if let Some(slots) = self.slots.get(left..).filter(|slots| !slots.is_empty()) {
                self.slots = slots;
                self.at += left;
                return;
            }
            left -= self.slots.len();
            self.at += self.slots.len();
            self.run = self.runs.get(self.next_run);
            self.next_run += 1;
            self.slots = self.run.map_or(&[], Run::slots);
        }
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        self.next_if(|_| true)
    }
}
