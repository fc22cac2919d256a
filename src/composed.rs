//! What a build returns: the messages, shared, beside the report.

mod prefix;
mod report;

use std::iter::FusedIterator;
use std::ops::Index;
use std::sync::Arc;
use std::{fmt, mem, slice};

use serde::ser::{Serialize, SerializeSeq, Serializer};

use crate::message::Message;
use crate::record::{Few, Record, Run};
pub use prefix::{Break, SharedPrefix};
pub use report::{
    Adapted, Details, How, LeftOut, Repaired, Report, SystemSource, Tokens, Truncated, Why,
};

/// The composed messages, in the order in which they are sent, and the [`Report`].
///
/// A prompt shares its messages with the memory, so it is cheap to keep and to clone: a request that
/// failed is sent again with the same prompt. As JSON it is the list of its messages.
///
/// ```
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
/// prompt.add(Message::user("hi"))?;
/// let built = prompt.build()?;
/// assert_eq!(built.len(), 2);
/// assert_eq!(built[1].text(), "hi");
/// assert!(built.iter().all(|message| !message.is_tool()));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct Prompt {
    /// Made in its place, and moved as a pointer from then on.
    pub(crate) content: Box<Content>,
}

/// What a [`Prompt`] holds.
#[derive(Clone, Default)]
pub(crate) struct Content {
    pub(crate) pieces: Pieces,
    pub(crate) durable: usize,
    pub(crate) report: Report,
}

/// Where a message of a prompt came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// The system message.
    System,
    /// The history: the record at this position, as it is.
    History(u64),
    /// The history: a truncated copy of the record at this position.
    Truncated(u64),
    /// The answer to a call whose result nobody recorded.
    Repair,
    /// A temporary message.
    Temporary,
    /// The history: a copy of the record at this position, changed as the provider demands.
    Adapted(u64),
    /// Several neighbours as one message, as the provider demands, with the position of the first
    /// record among them; `None` where all of them are temporary.
    Joined(Option<u64>),
    /// A message that the provider demands in this place, and that nobody said.
    Added,
}

/// Messages in order, shared in as few pieces as possible.
#[derive(Clone, Default)]
pub(crate) struct Pieces {
    list: Few<Piece>,
    len: usize,
}

#[derive(Clone)]
enum Piece {
    /// Records as they are.
    Run(Run),
    One(Arc<Message>, Origin),
}

/// A message as [`Pieces`] hold it.
#[derive(Clone, Copy)]
pub(crate) enum Held<'a> {
    /// In the memory's block.
    Record(&'a Message),
    /// By itself.
    Own(&'a Arc<Message>),
}

/// One of the messages in [`Pieces`], as it can be shared by others.
#[derive(Clone)]
pub(crate) enum Item<'a> {
    Record(Record<'a>),
    Own(Arc<Message>, Origin),
}

/// A place in [`Pieces`] to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark(usize);

impl Prompt {
    /// How many messages there are.
    pub fn len(&self) -> usize {
        self.content.pieces.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The messages, in order.
    pub fn iter(&self) -> Iter<'_> {
        let list = &self.content.pieces.list;
        Iter { piece: list.first(), pieces: list.rest(), within: 0, left: self.len() }
    }

    /// The `i`th message.
    pub fn get(&self, i: usize) -> Option<&Message> {
        self.iter().nth(i)
    }

    /// The messages, each with where it came from.
    pub fn with_origins(&self) -> impl Iterator<Item = (Origin, &Message)> {
        self.content.pieces.iter()
    }

    /// The system message, which is the first where there is one.
    pub fn system(&self) -> Option<&Message> {
        self.get(0).filter(|message| message.is_system())
    }

    /// The durable boundary: how many of the first messages will be sent again by the next prompt,
    /// in the same place and byte for byte, as long as the window does not move.
    ///
    /// Temporaries, and the results of calls of which some may still come, are not durable, nor is what
    /// stands behind them. For a [`Provider`](crate::Provider) that wants turns neither is a message at
    /// the end that a later one may be joined to. A provider's cache mark belongs here.
    pub fn durable(&self) -> usize {
        self.content.durable
    }

    /// What the build did.
    pub fn report(&self) -> &Report {
        &self.content.report
    }

    /// Copies of the messages.
    pub fn to_messages(&self) -> Vec<Message> {
        self.iter().cloned().collect()
    }
}

/// The messages of a [`Prompt`], in order.
#[derive(Clone)]
pub struct Iter<'a> {
    piece: Option<&'a Piece>,
    pieces: slice::Iter<'a, Piece>,
    /// How far into the piece.
    within: usize,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = &'a Message;

    #[inline]
    fn next(&mut self) -> Option<&'a Message> {
        loop {
            if let Some(message) = self.piece?.message(self.within) {
                self.within += 1;
                self.left -= 1;
                return Some(message);
            }
            self.within = 0;
            self.piece = self.pieces.next();
        }
    }

    fn nth(&mut self, mut n: usize) -> Option<&'a Message> {
        loop {
            let piece = self.piece?;
            let len = piece.len() - self.within;
            if n < len {
                let message = piece.message(self.within + n);
                self.within += n + 1;
                self.left -= n + 1;
                return message;
            }
            n -= len;
            self.left -= len;
            self.within = 0;
            self.piece = self.pieces.next();
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
impl FusedIterator for Iter<'_> {}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends records as they are: one reference count for each block, not for each message.
    pub(crate) fn share(&mut self, records: Run) {
        self.len += records.len;
        match self.list.last_mut() {
            Some(Piece::Run(run)) if run.is_continued_by(&records) => run.len += records.len,
            _ => self.list.push(Piece::Run(records)),
        }
    }

    pub(crate) fn push(&mut self, message: Arc<Message>, origin: Origin) {
        self.len += 1;
        self.list.push(Piece::One(message, origin));
    }

    pub(crate) fn add(&mut self, item: Item<'_>) {
        match item {
            Item::Record(record) => self.share(record.to_run()),
            Item::Own(message, origin) => self.push(message, origin),
        }
    }

    /// The messages, each to be shared by other pieces.
    pub(crate) fn items(&self) -> impl Iterator<Item = Item<'_>> {
        self.list.iter().flat_map(|piece| {
            let (run, one) = match piece {
                Piece::Run(run) => (Some(run), None),
                Piece::One(message, origin) => {
                    (None, Some(Item::Own(Arc::clone(message), *origin)))
                }
            };
            run.into_iter().flat_map(Run::iter).map(Item::Record).chain(one)
        })
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
            && let Some(Piece::Run(run)) = list.get(i)
        {
            let (head, tail) = run.clone().split(before);
            list.splice(i..=i, [Piece::Run(head), Piece::Run(tail)]);
            i += 1;
        }
        list.splice(i..i, other.list);
        self.list = list.into_iter().collect();
        self.len += other.len;
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark(self.len)
    }

    /// Takes back everything since `mark`.
    pub(crate) fn back_to(&mut self, mark: Mark) {
        while self.len > mark.0
            && let Some(piece) = self.list.last_mut()
        {
            let surplus = self.len - mark.0;
            match piece {
                Piece::Run(run) if run.len > surplus => {
                    run.len -= surplus;
                    self.len -= surplus;
                }
                _ => {
                    self.len -= piece.len();
                    self.list.pop();
                }
            }
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Origin, &Message)> {
        self.held().map(|(origin, held)| (origin, held.message()))
    }

    pub(crate) fn held(&self) -> impl Iterator<Item = (Origin, Held<'_>)> {
        self.list.iter().flat_map(|piece| {
            let (run, one) = match piece {
                Piece::Run(run) => (Some(run), None),
                Piece::One(message, origin) => (None, Some((*origin, Held::Own(message)))),
            };
            let records = run.into_iter().flat_map(Run::iter);
            records.map(|r| (Origin::History(r.seq()), Held::Record(r.message()))).chain(one)
        })
    }
}

impl Item<'_> {
    pub(crate) fn message(&self) -> &Message {
        match self {
            Self::Record(record) => record.message(),
            Self::Own(message, _) => message,
        }
    }

    /// The position of the record, where this is one or a copy of one.
    pub(crate) fn seq(&self) -> Option<u64> {
        match self {
            Self::Record(record) => Some(record.seq()),
            Self::Own(_, Origin::Truncated(seq) | Origin::Adapted(seq)) => Some(*seq),
            Self::Own(..) => None,
        }
    }
}

impl<'a> Held<'a> {
    pub(crate) fn message(self) -> &'a Message {
        match self {
            Self::Record(message) => message,
            Self::Own(message) => message,
        }
    }
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Run(run) => run.len,
            Self::One(..) => 1,
        }
    }

    fn message(&self, i: usize) -> Option<&Message> {
        match self {
            Self::Run(run) => run.message(i),
            Self::One(message, _) => (i == 0).then_some(message),
        }
    }
}

impl Index<usize> for Prompt {
    type Output = Message;

    /// The `i`th message.
    ///
    /// # Panics
    ///
    /// Where there are not so many, as a slice does; [`Prompt::get`] does not.
    #[expect(clippy::panic, reason = "the contract of Index")]
    fn index(&self, i: usize) -> &Message {
        match self.get(i) {
            Some(message) => message,
            None => panic!("message {i} of a prompt of {}", self.len()),
        }
    }
}

impl<'a> IntoIterator for &'a Prompt {
    type Item = &'a Message;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl PartialEq for Prompt {
    /// Equal messages in equal places with equal reports, whatever they share.
    fn eq(&self, other: &Self) -> bool {
        self.durable() == other.durable()
            && self.report() == other.report()
            && self.with_origins().eq(other.with_origins())
    }
}

impl Serialize for Prompt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.len()))?;
        for message in self {
            list.serialize_element(message)?;
        }
        list.end()
    }
}

impl fmt::Debug for Prompt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prompt")
            .field("messages", &self.iter())
            .field("durable", &self.durable())
            .field("report", self.report())
            .finish()
    }
}

impl fmt::Debug for Iter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clone()).finish()
    }
}
