//! Walking over records, from one run into the next.

use std::sync::OnceLock;

use super::{Cell, Record, Records, Run};
use crate::message::Message;

/// A walk over records.
#[derive(Clone)]
pub(crate) struct Cursor<'a> {
    /// The run of the next record, and the cells from it on: none only at the end.
    run: Option<&'a Run>,
    cells: &'a [OnceLock<Cell>],
    runs: &'a [Run],
    next_run: usize,
    /// The place of the next among all records.
    at: usize,
}

impl Records {
    /// Returns a walk from the `skip`th record on.
    #[inline]
    pub(crate) fn cursor(&self, skip: usize) -> Cursor<'_> {
        let number = self.number_of_run(skip);
        let (runs, run) = (&self.runs[..], self.runs.get(number));
        let at = run.map_or(self.len, |run| run.end - run.len);
        let cells = run.map_or(&[][..], Run::filled);
        let mut cursor = Cursor { run, cells, runs, next_run: number + 1, at };
        cursor.advance(skip - at);
        cursor
    }
}

impl<'a> Cursor<'a> {
    /// Returns the place of the next record among all of them.
    #[inline]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Returns the next record without passing it.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Record<'a>> {
        let (run, cells) = (self.run?, self.cells);
        let cell = cells.first()?.get()?;
        Some(Record { position: run.position + (run.len - cells.len()) as u64, cell, run })
    }

    /// Passes the next records as far as they are wanted.
    #[inline]
    pub(crate) fn pass(&mut self, mut wanted: impl FnMut(&Message) -> bool) {
        while self.run.is_some() {
            let cells = self.cells;
            let mut passed = 0;
            while let Some(cell) = cells.get(passed).and_then(OnceLock::get)
                && wanted(&cell.message)
            {
                passed += 1;
            }
            self.advance(passed);
            if passed < cells.len() {
                return;
            }
        }
    }

    /// Passes `n` records.
    pub(crate) fn advance(&mut self, n: usize) {
        let mut left = n;
        while self.run.is_some() {
            if let Some(cells) = self.cells.get(left..).filter(|cells| !cells.is_empty()) {
                self.cells = cells;
                self.at += left;
                return;
            }
            left -= self.cells.len();
            self.at += self.cells.len();
            self.run = self.runs.get(self.next_run);
            self.next_run += 1;
            self.cells = self.run.map_or(&[], Run::filled);
        }
    }
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        let record = self.peek()?;
        // Mostly there is another one in the same run.
        match self.cells {
            [_, cells @ ..] if !cells.is_empty() => {
                self.cells = cells;
                self.at += 1;
            }
            _ => self.advance(1),
        }
        Some(record)
    }
}
