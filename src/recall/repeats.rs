//! A question that was asked before: its copies count once, and what was answered to them in the
//! same words is quoted once.

use std::collections::HashSet;

use super::endings::Endings;
use super::excerpt::words_in;
use super::index::RecallIndex;
use super::segment::Doc;
use super::words::{Word, each_word};
use crate::message::Message;
use crate::record::{Record, Records};

/// The earlier copies of a question, of which the newest counts like any other message.
///
/// A copy has the words of the question in their order, whatever their case and endings are. One
/// with another word may be what is sought.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    words: Vec<Word>,
    /// The positions of all copies but the newest, ascending.
    earlier: Vec<u64>,
    newest: Option<u64>,
    answers: HashSet<Vec<Word>>,
}

impl Repeats {
    pub(super) fn of(query: &str, endings: &Endings) -> Self {
        let mut words = Vec::new();
        if query.len() <= MOST_BYTES {
            each_word(query, endings, |word, _| words.push(word));
        }
        Self { words, ..Self::default() }
    }

    /// Returns the newest messages that have all words of the question and no other: they may be
    /// copies.
    pub(super) fn candidates(&self, index: &RecallIndex, asks: Option<Doc>) -> Vec<Doc> {
        let mut words = self.words.clone();
        words.sort_unstable();
        words.dedup();
        let Some((one, rest)) = words.split_first() else { return Vec::new() };
        let first = index.first();
        let is_as_long = |doc: Doc| usize::from(index.length(doc)) == self.words.len();
        let having = |word| index.having(word, first).map(|(doc, _)| doc);
        let alike = having(*one).filter(|doc| Some(*doc) != asks && is_as_long(*doc));
        let mut alike: Vec<Doc> = alike.collect();
        for word in rest {
            if alike.is_empty() {
                break;
            }
            let have: HashSet<Doc> = having(*word).filter(|doc| is_as_long(*doc)).collect();
            alike.retain(|doc| have.contains(doc));
        }
        alike.split_off(alike.len().saturating_sub(MOST_COPIES))
    }

    /// Learns which of these positions hold copies.
    pub(super) fn learn(&mut self, maybe: &[u64], records: &Records, endings: &Endings) {
        let is_copy = |record: &Record<'_>| {
            record.message().is_user() && words(record.message(), endings) == self.words
        };
        let mut copies: Vec<u64> = maybe.to_vec();
        copies.retain(|seq| records.find(*seq).is_some_and(|record| is_copy(&record)));
        copies.sort_unstable();
        self.newest = copies.pop();
        self.earlier = copies;
    }

    /// Returns the positions of the copies that do not count.
    pub(super) fn earlier(&self) -> &[u64] {
        &self.earlier
    }

    /// Returns whether the message at this position says nothing that is not quoted or asked.
    pub(super) fn says_again(&mut self, seq: u64, records: &Records, endings: &Endings) -> bool {
        if self.earlier.is_empty() {
            return false;
        }
        if self.earlier.binary_search(&seq).is_ok() {
            return true;
        }
        let answers = seq.checked_sub(1).is_some_and(|before| self.asks(before));
        let Some(record) = records.find(seq).filter(|_| answers) else { return false };
        let words = words(record.message(), endings);
        // Of two without a word nobody knows that they say the same.
        !words.is_empty() && !self.answers.insert(words)
    }

    fn asks(&self, seq: u64) -> bool {
        self.newest == Some(seq) || self.earlier.binary_search(&seq).is_ok()
    }
}

fn words(message: &Message, endings: &Endings) -> Vec<Word> {
    let mut words = Vec::new();
    words_in(message, endings, |word| words.push(word));
    words
}

/// The most bytes of a question whose copies are looked for: another is a page that was pasted.
const MOST_BYTES: usize = 2 << 10;
/// The most copies that are looked at, the newest.
const MOST_COPIES: usize = 64;
