//! The index: which message of a conversation has which words.

use std::collections::BTreeMap;
use std::fmt;
use std::mem;
use std::sync::Arc;

use super::endings::Endings;
use super::segment::{Doc, Postings, Segment, Unsealed};
use super::words::{Word, each_word, fnv};
use crate::message::Message;
use crate::record::{Incarnation, Record, Records};

/// The words of one conversation by position: what [`Recall`](super::Recall) searches.
///
/// It holds numbers that stand for words, and no text: what is recalled is read from the memory, so
/// what the memory has forgotten is never sent. It grows by what is new.
#[derive(Clone, Default)]
pub struct RecallIndex {
    /// The rules by which its words were made.
    pub(super) rules: u64,
    pub(super) incarnation: Option<Incarnation>,
    /// Positions before this one are forgotten.
    pub(super) start: u64,
    /// The position that is to be indexed next.
    pub(super) end: u64,
    /// The text of the last record by a hash, to tell whether the conversation is still the same.
    pub(super) last: u64,
    /// Of each message its position and the number of its words.
    pub(super) docs: Vec<(u32, u16)>,
    /// The number of the first of these messages: those before it are forgotten for good.
    pub(super) gone: Doc,
    /// The position from which those of messages count.
    pub(super) base: u64,
    /// Shared, so that a copy of the index costs little.
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) unsealed: Unsealed,
    pub(super) unsealed_from: Doc,
}

/// The number of newest messages of which a segment is made.
const SEAL: u32 = 512;
/// The bytes of newest messages, for those that are very long.
const SEAL_BYTES: usize = 4 << 20;

impl RecallIndex {
    pub(super) fn new(rules: u64, incarnation: Option<Incarnation>, start: u64) -> Self {
        Self { rules, incarnation, start, end: start, base: start, ..Self::default() }
    }

    /// Returns the position of the first record that is not indexed.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns about the bytes that it takes in memory.
    pub fn bytes(&self) -> usize {
        let segments: usize = self.segments.iter().map(|it| it.bytes()).sum();
        size_of::<Self>()
            + self.docs.len() * size_of::<(u32, u16)>()
            + segments
            + self.unsealed.bytes()
    }

    /// Adds the next record.
    pub(super) fn add(&mut self, record: &Record<'_>, endings: &Endings, with_tools: bool) {
        self.last = hash_of(record.message());
        self.end = record.seq().saturating_add(1);
        let Ok(position) = u32::try_from(record.seq().saturating_sub(self.base)) else { return };
        if !is_searched(record.message(), with_tools) {
            return;
        }
        let mut words = BTreeMap::<Word, u32>::new();
        let mut total = 0_u16;
        each_part(record.message(), |part| {
            if total == u16::MAX {
                return;
            }
            each_word(part, endings, |word, _| {
                *words.entry(word).or_default() += 1;
                total = total.saturating_add(1);
            });
        });
        if total == 0 {
            return;
        }
        let doc = self.docs();
        self.docs.push((position, total));
        for (word, times) in words {
            self.unsealed.push(self.unsealed_from, word, doc, times);
        }
        if self.docs() - self.unsealed_from >= SEAL || self.unsealed.bytes() >= SEAL_BYTES {
            self.seal();
        }
    }

    /// Makes a segment of the newest messages, and one of neighbours as long as the older is not
    /// much larger: each message is copied as often as its segment doubles.
    pub(super) fn seal(&mut self) {
        let end = self.docs();
        if end == self.unsealed_from {
            return;
        }
        let mut newest = mem::take(&mut self.unsealed).seal(self.unsealed_from, end);
        self.unsealed_from = end;
        while let Some(before) = self.segments.pop_if(|it| it.goes_with(&newest)) {
            newest = before.joined(&newest);
        }
        self.segments.push(Arc::new(newest));
    }

    /// Returns whether these records show another message in the place of the last that is known:
    /// then another conversation took the place of the one before.
    pub(super) fn is_refuted_by(&self, records: &Records) -> bool {
        let last = self.end.checked_sub(1).filter(|_| self.last != 0);
        let last = last.and_then(|last| records.find(last));
        last.is_some_and(|record| hash_of(record.message()) != self.last)
    }

    /// Forgets what is before this position.
    pub(super) fn forget_before(&mut self, start: u64) {
        if start > self.end {
            (self.end, self.last) = (start, 0);
        }
        self.start = self.start.max(start);
        let first = self.first();
        self.segments.retain(|segment| segment.end > first);
        let kept = self.segments.first().map_or(self.unsealed_from, |segment| segment.first);
        self.docs.drain(..(kept - self.gone) as usize);
        self.gone = kept;
    }

    /// Returns the first message that is not forgotten.
    pub(super) fn first(&self) -> Doc {
        let start = self.start.saturating_sub(self.base);
        let forgotten = self.docs.partition_point(|(position, _)| u64::from(*position) < start);
        self.gone.saturating_add(doc_of(forgotten))
    }

    /// Returns the number behind that of the newest message.
    pub(super) fn docs(&self) -> Doc {
        self.gone.saturating_add(doc_of(self.docs.len()))
    }

    fn doc(&self, doc: Doc) -> (u32, u16) {
        let place = doc.checked_sub(self.gone).map(|place| place as usize);
        place.and_then(|place| self.docs.get(place).copied()).unwrap_or_default()
    }

    pub(super) fn position(&self, doc: Doc) -> u64 {
        self.base.saturating_add(self.doc(doc).0.into())
    }

    /// Returns the number of words of a message.
    pub(super) fn length(&self, doc: Doc) -> u16 {
        self.doc(doc).1
    }

    /// Returns the message at this position.
    pub(super) fn doc_at(&self, position: u64) -> Option<Doc> {
        let position = u32::try_from(position.checked_sub(self.base)?).ok()?;
        let found = self.docs.binary_search_by_key(&position, |(position, _)| *position);
        found.ok().map(|place| self.gone.saturating_add(doc_of(place)))
    }

    /// Returns the messages from `first` on that have this word, in order, with how often.
    pub(super) fn having(&self, word: Word, first: Doc) -> impl Iterator<Item = (Doc, u32)> {
        let docs = self.docs();
        let segments = self.segments.iter().map(move |it| (it.list(word), it.first));
        let unsealed = (self.unsealed.list(word), self.unsealed_from);
        segments
            .chain([unsealed])
            .flat_map(|(list, from)| Postings::new(list, from))
            .filter(move |(doc, _)| (first..docs).contains(doc))
    }
}

impl fmt::Debug for RecallIndex {
    /// Says how much it knows, not what.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecallIndex")
            .field("positions", &(self.start..self.end))
            .field("messages", &self.docs.len())
            .field("bytes", &self.bytes())
            .finish_non_exhaustive()
    }
}

fn doc_of(index: usize) -> Doc {
    Doc::try_from(index).unwrap_or(Doc::MAX)
}

/// Returns whether a message can be recalled: it is neither an instruction nor the application's
/// own.
pub(super) fn is_searched(message: &Message, with_tools: bool) -> bool {
    match message {
        Message::User(_) | Message::Ai(_) => true,
        Message::Tool(_) => with_tools,
        _ => false,
    }
}

/// Hands out what is searched of a message: its speaker's name, and its texts.
pub(super) fn each_part(message: &Message, mut found: impl FnMut(&str)) {
    speaker(message).into_iter().for_each(&mut found);
    message.texts().for_each(found);
}

/// Returns the name of whoever speaks.
pub(super) fn speaker(message: &Message) -> Option<&str> {
    match message {
        Message::User(user) => user.name(),
        Message::Ai(ai) => ai.name(),
        Message::Tool(tool) => Some(tool.tool_name()),
        _ => None,
    }
}

/// Returns a hash of what a message says; the same in every process of this version.
fn hash_of(message: &Message) -> u64 {
    fnv(message.role().as_str().bytes().chain(message.texts().flat_map(str::bytes)))
}
