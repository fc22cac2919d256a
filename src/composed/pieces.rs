//! Messages in order, in as few pieces as possible.

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::Origin;
use crate::message::Message;
use crate::record::{Cell, Cursor, Few, Record, Records};

/// The pieces of a prompt: stretches of the records that were read, and messages beside them.
///
/// A stretch is two numbers, whatever its length; who looks at it hands in the records.
#[derive(Clone, Default)]
pub(crate) struct Pieces {
    /// Most prompts are a system message and a stretch.
    list: Few<Piece>,
    len: usize,
}

#[derive(Clone)]
enum Piece {
    /// Records as they are, by their places.
    Records(Range<usize>),
    One(Arc<Message>, Origin),
}

/// Messages one after the other.
pub(super) enum Next<'a> {
    Cells(&'a [Cell]),
    One(&'a Message),
}

/// A walk over the messages of [`Pieces`].
#[derive(Clone)]
pub(crate) struct Walk<'a> {
    pieces: &'a Few<Piece>,
    next_piece: usize,
    records: &'a Records,
    /// The next record, and how many of the piece are left.
    cursor: Cursor<'a>,
    left: usize,
}

/// A message as [`Pieces`] hold it.
#[derive(Clone, Copy)]
pub(crate) enum Held<'a> {
    /// Among the records, in this place.
    Record(usize, Record<'a>),
    /// By itself.
    Own(&'a Arc<Message>, Origin),
}

/// One of the messages in [`Pieces`], as it can be shared by others.
#[derive(Clone)]
pub(crate) enum Item<'a> {
    Record(usize, Record<'a>),
    Own(Arc<Message>, Origin),
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends records as they are.
    #[inline]
    pub(crate) fn share(&mut self, places: Range<usize>) {
        self.len += places.len();
        match self.list.last_mut() {
            Some(Piece::Records(before)) if before.end == places.start => before.end = places.end,
            _ if places.is_empty() => {}
            _ => self.list.push(Piece::Records(places)),
        }
    }

    /// Makes room for `n` more pieces.
    pub(crate) fn reserve(&mut self, n: usize) {
        self.list.reserve(n);
    }

    pub(crate) fn push(&mut self, message: Arc<Message>, origin: Origin) {
        self.len += 1;
        self.list.push(Piece::One(message, origin));
    }

    pub(crate) fn add(&mut self, item: Item<'_>) {
        match item {
            Item::Record(place, _) => self.share(place..place + 1),
            Item::Own(message, origin) => self.push(message, origin),
        }
    }

    /// Inserts `other` before the `at`th message.
    pub(crate) fn insert(&mut self, at: usize, other: Self) {
        let mut list: Vec<_> = mem::take(&mut self.list).into_iter().collect();
        let mut before = at;
        let mut i = 0;
        while let Some(piece) = list.get(i).filter(|piece| piece.len() <= before) {
            before -= piece.len();
            i += 1;
        }
        if before > 0
            && let Some(Piece::Records(places)) = list.get_mut(i)
        {
            let middle = places.start + before;
            let head = Piece::Records(places.start..middle);
            places.start = middle;
            list.insert(i, head);
            i += 1;
        }
        list.splice(i..i, other.list);
        self.list = list.into_iter().collect();
        self.len += other.len;
    }

    /// Frees the blocks of records of which nothing is sent: those before the window, and those
    /// between it and what is sent before it.
    pub(super) fn settle(&mut self, records: &mut Records) {
        let list = &self.list;
        let shown = |block: &Range<usize>| {
            let places = list.iter().filter_map(Piece::places);
            places.into_iter().any(|it| it.start < block.end && block.start < it.end)
        };
        if records.blocks().all(|block| shown(&block)) {
            return;
        }
        let gone: Vec<Range<usize>> = records.blocks().filter(|block| !shown(block)).collect();
        records.forget(&gone);
        for piece in self.list.iter_mut() {
            if let Piece::Records(places) = piece {
                let before = gone.iter().take_while(|block| block.end <= places.start);
                let before: usize = before.map(Range::len).sum();
                *places = places.start - before..places.end - before;
            }
        }
    }

    /// Returns the messages, given the records that the stretches are of.
    #[inline]
    pub(crate) fn walk<'a>(&'a self, records: &'a Records) -> Walk<'a> {
        Walk { pieces: &self.list, next_piece: 0, records, cursor: records.cursor(0), left: 0 }
    }
}

impl<'a> Walk<'a> {
    /// Passes the next messages that lie side by side.
    #[inline]
    pub(super) fn stretch(&mut self) -> Option<Next<'a>> {
        self.stretch_of(usize::MAX)
    }

    /// The same, but no more messages than these.
    fn stretch_of(&mut self, most: usize) -> Option<Next<'a>> {
        if self.left == 0 {
            match self.pieces.get(self.next_piece)? {
                Piece::One(message, _) => {
                    self.next_piece += 1;
                    return Some(Next::One(message));
                }
                Piece::Records(places) => self.enter(places),
            }
        }
        let cells = self.cursor.stretch(self.left.min(most));
        self.left -= cells.len();
        // Never empty, as long as the stretches are of these records.
        (!cells.is_empty()).then_some(Next::Cells(cells))
    }

    /// Passes `n` messages.
    pub(super) fn advance(&mut self, mut n: usize) {
        while n > 0 {
            match self.stretch_of(n) {
                None => return,
                Some(Next::One(_)) => n -= 1,
                Some(Next::Cells(cells)) => n -= cells.len(),
            }
        }
    }

    /// Goes to the records of the next piece.
    fn enter(&mut self, places: &Range<usize>) {
        self.next_piece += 1;
        match places.start.checked_sub(self.cursor.at()) {
            Some(0) => {}
            Some(ahead) => self.cursor.advance(ahead),
            None => self.cursor = self.records.cursor(places.start),
        }
        self.left = places.len();
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Held<'a>;

    #[inline]
    fn next(&mut self) -> Option<Held<'a>> {
        if self.left == 0 {
            match self.pieces.get(self.next_piece)? {
                Piece::One(message, origin) => {
                    self.next_piece += 1;
                    return Some(Held::Own(message, *origin));
                }
                Piece::Records(places) => self.enter(places),
            }
        }
        self.left -= 1;
        let place = self.cursor.at();
        self.cursor.next().map(|record| Held::Record(place, record))
    }
}

impl<'a> Held<'a> {
    #[inline]
    pub(crate) fn message(self) -> &'a Message {
        match self {
            Self::Record(_, record) => record.message(),
            Self::Own(message, _) => message,
        }
    }

    pub(crate) fn origin(self) -> Origin {
        match self {
            Self::Record(_, record) => Origin::History(record.seq()),
            Self::Own(_, origin) => origin,
        }
    }
}

impl<'a> From<Held<'a>> for Item<'a> {
    fn from(held: Held<'a>) -> Self {
        match held {
            Held::Record(place, record) => Self::Record(place, record),
            Held::Own(message, origin) => Self::Own(Arc::clone(message), origin),
        }
    }
}

impl Item<'_> {
    pub(crate) fn message(&self) -> &Message {
        match self {
            Self::Record(_, record) => record.message(),
            Self::Own(message, _) => message,
        }
    }

    /// Returns the position of the record, where this is one or a copy of one.
    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            Self::Record(_, record) => Some(record.seq()),
            Self::Own(_, Origin::Truncated(seq) | Origin::Adapted(seq)) => Some(*seq),
            Self::Own(..) => None,
        }
    }
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Records(places) => places.len(),
            Self::One(..) => 1,
        }
    }

    fn places(&self) -> Option<&Range<usize>> {
        if let Self::Records(places) = self { Some(places) } else { None }
    }
}
