//! Messages in order, in as few pieces as possible.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;
use std::slice;
use std::sync::Arc;

use super::Origin;
use crate::message::Message;
use crate::record::{Cursor, Record, Records};

/// The pieces of a prompt: ranges of the records that were read, and single messages.
///
/// A range is two numbers, however long it is, so its readers pass in the records.
#[derive(Clone, Default)]
pub(crate) struct Pieces {
    /// Most prompts are a system message and one range.
    list: Vec<Piece>,
    len: usize,
    /// The number of messages that are records.
    shared: usize,
}

#[derive(Clone)]
enum Piece {
    /// Unchanged records, by their places.
    Records(Range<usize>),
    One(Arc<Message>, Origin),
}

/// One message of [`Pieces`]: an unchanged record with its place among the records, or another
/// message. Borrowed during iteration, shared to be kept.
#[derive(Clone, Copy)]
pub(crate) enum Item<'a, M = Arc<Message>> {
    Record(usize, Record<'a>),
    Own(M, Origin),
}

/// The messages of a [`Prompt`](super::Prompt), in order.
///
/// It only goes forward. To go backward, use [`Prompt::get`](super::Prompt::get), or collect the
/// references: `prompt.iter().collect::<Vec<_>>()`.
#[derive(Clone)]
pub struct Iter<'a> {
    pieces: slice::Iter<'a, Piece>,
    records: &'a Records,
    /// The next record, and how many of the piece are left.
    cursor: Cursor<'a>,
    in_piece: usize,
    left: usize,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn share(&mut self, places: Range<usize>) {
        self.len += places.len();
        self.shared += places.len();
        match self.list.last_mut() {
            Some(Piece::Records(before)) if before.end == places.start => before.end = places.end,
            _ if places.is_empty() => {}
            _ => self.list.push(Piece::Records(places)),
        }
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

    pub(crate) fn insert(&mut self, at: usize, other: Self) {
        let list = &mut self.list;
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
        self.len += other.len;
        self.shared += other.shared;
    }

    /// Frees the runs of records from which nothing is sent: those before the window, and those
    /// between it and messages sent before it.
    #[inline]
    pub(super) fn free_unsent(&mut self, records: &mut Records) {
        if self.shared < records.len() {
            self.free_runs(records);
        }
    }

    /// Separate from the check whether there are any, which is the fast path.
    #[inline(never)]
    fn free_runs(&mut self, records: &mut Records) {
        let mut gone: Vec<Range<usize>> = records.runs().collect();
        let mut sent = vec![false; gone.len()];
        for piece in &self.list {
            let Piece::Records(places) = piece else { continue };
            let from = gone.partition_point(|run| run.end <= places.start);
            let to = gone.partition_point(|run| run.start < places.end);
            sent[from..to].fill(true);
        }
        let mut sent = sent.into_iter();
        gone.retain(|_| !sent.next().unwrap_or_default());
        if gone.is_empty() {
            return;
        }
        records.forget(&gone);
        // How many records have gone up to the end of each run.
        let mut sums = Vec::with_capacity(gone.len());
        for run in &gone {
            sums.push(run.len() + sums.last().copied().unwrap_or(0));
        }
        for piece in &mut self.list {
            if let Piece::Records(places) = piece {
                let runs = gone.partition_point(|run| run.end <= places.start);
                let before = runs.checked_sub(1).map_or(0, |last| sums[last]);
                *places = places.start - before..places.end - before;
            }
        }
    }

    /// Returns the messages; needs the records that the ranges refer to.
    #[inline]
    pub(crate) fn iter<'a>(&'a self, records: &'a Records) -> Iter<'a> {
        let (pieces, cursor) = (self.list.iter(), records.cursor(0));
        Iter { pieces, records, cursor, in_piece: 0, left: self.len }
    }

    /// Returns the messages with their origins; needs the same records.
    pub(crate) fn items<'a>(
        &'a self,
        records: &'a Records,
    ) -> impl Iterator<Item = Item<'a, &'a Arc<Message>>> {
        let mut iter = self.iter(records);
        std::iter::from_fn(move || iter.item())
    }
}

impl<'a> Iter<'a> {
    #[inline]
    fn item(&mut self) -> Option<Item<'a, &'a Arc<Message>>> {
        self.left = self.left.checked_sub(1)?;
        // Separate from `own`, so that the path of most messages is short enough to be inlined in
        // loops.
        if self.in_piece == 0
            && let Some(own) = self.own()
        {
            return Some(own);
        }
        self.in_piece -= 1;
        let place = self.cursor.at();
        self.cursor.next().map(|record| Item::Record(place, record))
    }

    /// Called at the start of a piece. Returns and passes its message if it is not a record; else
    /// moves the cursor to the piece's first record.
    fn own(&mut self) -> Option<Item<'a, &'a Arc<Message>>> {
        let places = match self.pieces.next()? {
            Piece::One(message, origin) => return Some(Item::Own(message, *origin)),
            Piece::Records(places) => places,
        };
        self.cursor = self.records.cursor(places.start);
        self.in_piece = places.len();
        None
    }
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Message;

    #[inline]
    fn next(&mut self) -> Option<&'a Message> {
        self.item().map(Item::borrowed)
    }

    fn nth(&mut self, n: usize) -> Option<&'a Message> {
        let mut skip = n.min(self.left);
        self.left -= skip;
        while skip > 0 {
            let is_own = self.in_piece == 0 && self.own().is_some();
            let passed = if is_own { 1 } else { skip.min(self.in_piece) };
            let records = passed.min(self.in_piece);
            self.cursor.advance(records);
            self.in_piece -= records;
            skip -= passed;
        }
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}

impl fmt::Debug for Iter<'_> {
    /// Shows how many messages are left.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Iter").field("left", &self.left).finish()
    }
}

impl<'a> Item<'a, &'a Arc<Message>> {
    /// Returns the item with a shared message, which can be kept.
    pub(crate) fn shared(self) -> Item<'a> {
        match self {
            Self::Record(place, record) => Item::Record(place, record),
            Self::Own(message, origin) => Item::Own(Arc::clone(message), origin),
        }
    }

    /// Returns the message for as long as the pieces and their records live.
    #[inline]
    pub(crate) fn borrowed(self) -> &'a Message {
        match self {
            Self::Record(_, record) => record.message(),
            Self::Own(message, _) => message,
        }
    }
}

impl<M: AsRef<Message>> Item<'_, M> {
    pub(crate) fn message(&self) -> &Message {
        match self {
            Self::Record(_, record) => record.message(),
            Self::Own(message, _) => message.as_ref(),
        }
    }

    pub(crate) fn origin(&self) -> Origin {
        match self {
            Self::Record(_, record) => Origin::History(record.position()),
            Self::Own(_, origin) => *origin,
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
}
