//! A search as a state machine: it says what it wants to read, and at last what was found.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of messages, of which there are fewer than 2^32, and scores, which are not \
              negative"
)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::excerpt::{day, line, words_in, write};
use super::index::{RecallIndex, hash_of, is_searched};
use super::score::{Question, Scores, score};
use super::segment::Doc;
use super::words::{Word, each_word};
use super::{Recall, Size};
use crate::composed::Recalled;
use crate::error::Result;
use crate::memory::{MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, Record, Records, Snapshot, places};
use crate::token::{Estimate, TokenCounter};

/// The facts of a prompt that recall needs.
pub(crate) struct Asked {
    pub(crate) id: MemoryId,
    /// The positions that the memory holds.
    pub(crate) held: Range<u64>,
    pub(crate) incarnation: Option<Incarnation>,
    /// The newest records, as far as they were read.
    pub(crate) newest: Records,
    /// The question where no query was given, and what was said right before.
    pub(crate) question: String,
    pub(crate) before: String,
    /// The position of the question, where it is a record.
    pub(crate) asks: Option<u64>,
    /// The positions that are sent, or must not be.
    pub(crate) not_these: HashSet<u64>,
    /// The tokens that the prompt has left; none where it has no budget.
    pub(crate) left: Option<usize>,
    pub(crate) counter: Option<Arc<dyn TokenCounter>>,
}

/// A temporary message of excerpts, and what is in it.
pub(crate) struct Found {
    pub(crate) message: Message,
    pub(crate) recalled: Vec<Recalled>,
}

/// The next wish of a search.
pub(crate) enum Wants {
    Read(Read),
    Done(Option<Found>),
}

/// A search for what fits a question.
pub(crate) struct Search<'a> {
    recall: &'a Recall,
    asked: Asked,
    index: Arc<Mutex<RecallIndex>>,
    question: Question,
    stage: Stage,
}

enum Stage {
    /// The index lacks what is new.
    Grow,
    /// The page before this position was asked for.
    Page(u64),
    /// The best hits were asked for, to learn of what they speak.
    Learn(Vec<u64>),
    Rank,
    /// What is to be recalled was asked for.
    Quote(Vec<Hit>),
    Done(Option<Found>),
}

/// A message that may be recalled.
#[derive(Clone, Copy, Debug)]
struct Hit {
    seq: u64,
    /// The score that decides which give way.
    rank: f32,
    score: f32,
}

/// The records of a page that is indexed.
const PAGE: u64 = 512;

impl<'a> Search<'a> {
    pub(crate) fn new(recall: &'a Recall, asked: Asked) -> Self {
        let index = recall.index_of(&asked.id);
        let mut question = Question::default();
        let query = recall.query.as_deref().unwrap_or(&asked.question);
        each_word(query, &recall.endings, |word, _| question.ask(word, 1.0));
        if recall.query.is_none() {
            let goes_on = question.words().count() < FEW;
            let before = if goes_on { asked.before.as_str() } else { "" };
            each_word(before, &recall.endings, |word, _| question.ask(word, CONTEXT));
        }
        Self { recall, asked, index, question, stage: Stage::Grow }
    }

    /// Says what is to be read next, or what was found.
    pub(crate) fn next(&mut self) -> Result<Wants> {
        loop {
            match &mut self.stage {
                Stage::Grow => match self.grow() {
                    Some(read) => return Ok(Wants::Read(read)),
                    None => self.learn(),
                },
                Stage::Learn(positions) => {
                    return Ok(Wants::Read(Read::newest(0).positions(positions.clone())));
                }
                Stage::Rank => self.rank()?,
                Stage::Quote(hits) => {
                    let mut positions = BTreeSet::new();
                    let around = if self.recall.tools { GROUP } else { 0 };
                    for hit in hits {
                        positions.extend(hit.seq.saturating_sub(around)..=hit.seq + around);
                    }
                    return Ok(Wants::Read(Read::newest(0).positions(positions)));
                }
                Stage::Page(before) => {
                    let before = *before;
                    let n = places(before - self.index.lock().end.min(before)) + 1;
                    return Ok(Wants::Read(Read::newest(n).before(before)));
                }
                Stage::Done(found) => return Ok(Wants::Done(found.take())),
            }
        }
    }

    /// Takes what was read.
    pub(crate) fn read(&mut self, snapshot: &Snapshot) -> Result<()> {
        match std::mem::replace(&mut self.stage, Stage::Grow) {
            Stage::Page(before) => self.index_page(before, snapshot),
            Stage::Learn(_) => {
                self.expand(snapshot.picked());
                self.stage = Stage::Rank;
            }
            Stage::Quote(hits) => {
                let found = self.quote(&hits, snapshot)?;
                self.stage = Stage::Done(found);
            }
            other => self.stage = other,
        }
        Ok(())
    }

    /// Brings the index to what the memory holds; returns what is to be read for that.
    fn grow(&mut self) -> Option<Read> {
        let asked = &self.asked;
        let mut index = self.index.lock();
        let last = index.end.checked_sub(1).filter(|_| index.last != 0);
        let last = last.and_then(|last| asked.newest.find(last));
        let is_other = index.rules != self.recall.rules()
            || (index.incarnation.is_some() && asked.incarnation != index.incarnation)
            // Another prompt may have seen more of the same conversation.
            || (index.end > asked.held.end && asked.incarnation.is_none())
            || index.start > asked.held.start
            || last.is_some_and(|record| hash_of(record.message()) != index.last);
        if is_other {
            *index = RecallIndex::new(self.recall.rules(), asked.incarnation, asked.held.start);
        }
        index.incarnation = index.incarnation.or(asked.incarnation);
        index.forget_before(asked.held.start);
        // What the prompt has read needs no other read.
        let known = asked.newest.iter().find(|record| record.seq() >= index.end);
        if known.is_some_and(|record| record.seq() == index.end) {
            self.recall.add(&mut index, asked.newest.iter(), asked.held.end);
        }
        if index.end >= asked.held.end {
            let bytes = index.bytes();
            drop(index);
            self.recall.keep_within(&self.asked.id, bytes);
            return None;
        }
        let before = asked.held.end.min(index.end.saturating_add(PAGE));
        let n = places(before - index.end) + 1;
        drop(index);
        self.stage = Stage::Page(before);
        Some(Read::newest(n).before(before))
    }

    fn index_page(&mut self, before: u64, page: &Snapshot) {
        let mut index = self.index.lock();
        let last = index.end.checked_sub(1).filter(|_| index.last != 0);
        let last = last.and_then(|last| page.records.find(last));
        if last.is_some_and(|record| hash_of(record.message()) != index.last) {
            // Another conversation that took the place of the one before.
            *index = RecallIndex::new(
                self.recall.rules(),
                self.asked.incarnation,
                self.asked.held.start,
            );
            return;
        }
        self.recall.add(&mut index, page.records.iter(), before);
        // Rows that can't be read are passed over.
        if index.end < before {
            (index.end, index.last) = (before, 0);
        }
    }

    /// Asks for the best hits, to learn other words for what they speak of.
    fn learn(&mut self) {
        self.stage = Stage::Rank;
        if self.recall.learned == 0 || self.question.is_empty() {
            return;
        }
        let index = self.index.lock();
        let scores = score(&index, &self.question, self.recall.weights, self.asked.asks);
        let best = self.best(&index, &scores, LEARNED_FROM);
        drop(index);
        if !best.is_empty() {
            self.stage = Stage::Learn(best.iter().map(|hit| hit.seq).collect());
        }
    }

    /// Asks for the rarest words of the best hits too.
    fn expand(&mut self, records: &Records) {
        let index = self.index.lock();
        let first = index.first();
        let mut words = BTreeSet::<Word>::new();
        for record in records.iter() {
            words_in(record.message(), &self.recall.endings, |word| {
                if !self.question.has(word) && words.len() < MOST_LEARNED {
                    words.insert(word);
                }
            });
        }
        let rare = words.into_iter().map(|word| (index.having(word, first).count(), word));
        // A word of one message alone leads to no other.
        let mut rare: Vec<_> = rare.filter(|(having, _)| *having > 1).collect();
        rare.sort_unstable();
        for (_, word) in rare.into_iter().take(self.recall.learned) {
            self.question.ask(word, LEARNED_WEIGHT);
        }
    }

    /// Returns the best hits that may be sent.
    fn best(&self, index: &RecallIndex, scores: &Scores, most: usize) -> Vec<Hit> {
        let mut best: Vec<(f32, Doc)> = Vec::new();
        for (place, score) in scores.scores.iter().enumerate() {
            let doc = scores.first + place as Doc;
            if *score >= self.recall.least && *score > 0.0 && self.may_be_sent(index, doc) {
                best.push((*score, doc));
            }
        }
        let order = |a: &(f32, Doc), b: &(f32, Doc)| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1));
        if best.len() > most {
            best.select_nth_unstable_by(most, order);
            best.truncate(most);
        }
        best.sort_unstable_by(order);
        let hit = |(score, doc)| Hit { seq: index.position(doc), rank: score, score };
        best.into_iter().map(hit).collect()
    }

    fn may_be_sent(&self, index: &RecallIndex, doc: Doc) -> bool {
        let position = index.position(doc);
        self.asked.held.contains(&position) && !self.asked.not_these.contains(&position)
    }

    /// Decides what to quote: the best hits, and what stands around them.
    fn rank(&mut self) -> Result<()> {
        let most = self.most_hits();
        let index = self.index.lock();
        let scores = score(&index, &self.question, self.recall.weights, self.asked.asks);
        let mut hits: BTreeMap<u64, Hit> = BTreeMap::new();
        let mut put = |hit: Hit| {
            let known = hits.entry(hit.seq).or_insert(hit);
            known.rank = known.rank.max(hit.rank);
        };
        let mut best = self.best(&index, &scores, most);
        self.add_candidates(&mut best, most)?;
        let (first, end) = (index.first(), index.docs());
        for hit in best {
            put(hit);
            let Some(doc) = index.doc_at(hit.seq) else { continue };
            for away in 1..=self.recall.neighbours {
                let around = [doc.checked_sub(away), doc.checked_add(away)];
                for (near, part) in around.into_iter().zip(NEIGHBOURS) {
                    let Some(near) = near else { continue };
                    if (first..end).contains(&near) && self.may_be_sent(&index, near) {
                        let seq = index.position(near);
                        put(Hit {
                            seq,
                            rank: hit.rank * part / away as f32,
                            score: scores.of(near),
                        });
                    }
                }
            }
        }
        drop(index);
        let mut hits: Vec<_> = hits.into_values().collect();
        hits.sort_unstable_by(|a, b| b.rank.total_cmp(&a.rank).then(b.seq.cmp(&a.seq)));
        hits.truncate(most);
        self.stage = if hits.is_empty() { Stage::Done(None) } else { Stage::Quote(hits) };
        Ok(())
    }

    /// Adds what the application's own search offers.
    fn add_candidates(&self, best: &mut Vec<Hit>, most: usize) -> Result<()> {
        let Some(candidates) = &self.recall.candidates else { return Ok(()) };
        let query = self.recall.query.as_deref().unwrap_or(&self.asked.question);
        let top = best.first().map_or_else(|| self.recall.least.max(1.0), |hit| hit.score);
        for offered in candidates.candidates(&self.asked.id, query, most)?.into_iter().take(most) {
            let seq = offered.seq;
            if !self.asked.held.contains(&seq) || self.asked.not_these.contains(&seq) {
                continue;
            }
            let more =
                top * if offered.fit.is_finite() { offered.fit.clamp(0.0, 1.0) } else { 0.0 };
            match best.iter_mut().find(|hit| hit.seq == seq) {
                Some(hit) => (hit.rank, hit.score) = (hit.rank + more, hit.score + more),
                None => best.push(Hit { seq, rank: more, score: more }),
            }
        }
        Ok(())
    }

    /// Returns the most messages that can fit.
    fn most_hits(&self) -> usize {
        let lines = match self.recall.size {
            Size::Tokens(tokens) => tokens.min(self.asked.left.unwrap_or(usize::MAX)) / 8,
            Size::Characters(characters) => characters / 24,
        };
        lines.clamp(4, 256)
    }

    /// Writes as many of the hits as fit.
    fn quote(&self, hits: &[Hit], snapshot: &Snapshot) -> Result<Option<Found>> {
        if self.asked.incarnation.is_some() && snapshot.incarnation != self.asked.incarnation {
            return Ok(None); // it was deleted just now
        }
        let records = snapshot.picked();
        let mut room = Space::new(self.recall.size, &self.asked)?;
        let mut lines = BTreeMap::new();
        let mut taken: Vec<Vec<u64>> = Vec::new();
        let mut recalled = BTreeMap::new();
        for pass in 0..2 {
            for hit in hits {
                if lines.contains_key(&hit.seq) {
                    continue;
                }
                let unit = self.unit(hit.seq, records).into_iter().map(|it| self.line(&it));
                let unit: Vec<_> = unit.collect();
                if unit.is_empty() || !room.take(&unit)? {
                    continue;
                }
                taken.push(unit.iter().map(|line| line.seq).collect());
                for Line { seq, day, text, whole } in unit {
                    let score = if seq == hit.seq { hit.score } else { 0.0 };
                    lines.insert(seq, (day, text));
                    recalled.insert(seq, Recalled { seq, score: thousandths(score), whole });
                }
            }
            if pass == 0 {
                // Together they may be less than one by one, and leave room for another.
                room.weigh(&write(&lines))?;
            }
        }
        // Together they may be a little more than one by one.
        loop {
            if lines.is_empty() {
                return Ok(None);
            }
            let message = Message::user(write(&lines));
            if room.fits(&message)? {
                let recalled = recalled.into_values().collect();
                return Ok(Some(Found { message, recalled }));
            }
            for seq in taken.pop().unwrap_or_default() {
                lines.remove(&seq);
                recalled.remove(&seq);
            }
        }
    }

    fn line(&self, record: &Record<'_>) -> Line {
        let Recall { endings, passage, tools, .. } = self.recall;
        let (text, whole) = line(record, &self.question, endings, *passage, *tools);
        Line { seq: record.seq(), day: day(record), text, whole }
    }

    /// Returns the records that are quoted together with the one at this position: a tool group,
    /// or it alone; none where a group is not whole.
    fn unit<'r>(&self, seq: u64, records: &'r Records) -> Vec<Record<'r>> {
        let quoted = |record: &Record<'_>| {
            is_searched(record.message(), self.recall.tools)
                && !self.asked.not_these.contains(&record.seq())
        };
        let Some(record) = records.find(seq).filter(quoted) else { return Vec::new() };
        let is_part = record.message().is_tool() || record.message().has_tool_calls();
        if !self.recall.tools || !is_part {
            let has_text = record.message().texts().any(|text| !text.trim().is_empty());
            return if has_text { vec![record] } else { Vec::new() };
        }
        let before = (0..=GROUP).map_while(|away| records.find(seq.checked_sub(away)?));
        let mut calls = before.skip_while(|record| record.message().is_tool());
        let Some(call) = calls.next().filter(|it| it.message().has_tool_calls()) else {
            return Vec::new();
        };
        let behind = (1..=GROUP).map_while(|away| records.find(call.seq().checked_add(away)?));
        let mut group = vec![call];
        group.extend(behind.take_while(|record| record.message().is_tool()));
        let answers = |id| {
            let results = group.iter().filter_map(|record| record.message().as_tool());
            results.filter(|tool| tool.call_id() == id).count() == 1
        };
        let is_whole = call.message().tool_calls().all(|call| answers(&call.id))
            && group.len() == call.message().tool_calls().count() + 1
            && group.iter().all(quoted);
        if is_whole { group } else { Vec::new() }
    }
}

/// The line of a message.
struct Line {
    seq: u64,
    day: Option<u64>,
    text: String,
    /// True where all of its text is there.
    whole: bool,
}

/// The room that is left for excerpts.
struct Space {
    tokens: usize,
    characters: usize,
    counter: Arc<dyn TokenCounter>,
    used: (usize, usize),
    days: BTreeSet<u64>,
}

impl Space {
    fn new(size: Size, asked: &Asked) -> Result<Self> {
        let counter = asked.counter.clone().unwrap_or_else(|| Arc::new(Estimate));
        let left = asked.left.unwrap_or(usize::MAX);
        let (tokens, characters) = match size {
            Size::Tokens(tokens) => (tokens.min(left), usize::MAX),
            Size::Characters(characters) => (left, characters),
        };
        let head = super::excerpt::HEAD;
        let mut space = Self { tokens, characters, counter, used: (0, 0), days: BTreeSet::new() };
        space.used = (space.tokens_of(head)? + space.counter.overhead().message, head.len());
        Ok(space)
    }

    fn tokens_of(&self, text: &str) -> Result<usize> {
        if self.tokens == usize::MAX { Ok(0) } else { self.counter.count_text(text) }
    }

    /// Takes the lines of a unit, where there is room for all of them.
    fn take(&mut self, unit: &[Line]) -> Result<bool> {
        let (mut tokens, mut characters) = self.used;
        let mut days = Vec::new();
        for Line { day, text: line, .. } in unit {
            if let Some(day) = day.filter(|day| !self.days.contains(day) && !days.contains(day)) {
                tokens = tokens.saturating_add(self.tokens_of("2000-12-30")? + 1);
                characters += 11;
                days.push(day);
            }
            tokens = tokens.saturating_add(self.tokens_of(line)?.saturating_add(1));
            characters += line.chars().count() + 1;
        }
        let fits = tokens <= self.tokens && characters <= self.characters;
        if fits {
            self.used = (tokens, characters);
            self.days.extend(days);
        }
        Ok(fits)
    }

    /// Counts what is taken as a whole.
    fn weigh(&mut self, text: &str) -> Result<()> {
        let tokens = self.tokens_of(text)?.saturating_add(self.counter.overhead().message);
        self.used = (tokens, text.chars().count());
        Ok(())
    }

    fn fits(&self, message: &Message) -> Result<bool> {
        Ok((self.tokens == usize::MAX || self.counter.count(message)? <= self.tokens)
            && message.text().chars().count() <= self.characters)
    }
}

fn thousandths(score: f32) -> u32 {
    (score * 1000.0) as u32
}

/// The records around a hit among which its tool group is looked for.
const GROUP: u64 = 8;
/// The number of best hits whose words are asked for too, and the weight of these.
const LEARNED_FROM: usize = 5;
const LEARNED_WEIGHT: f32 = 0.15;
/// The most words among which the rarest are looked for.
const MOST_LEARNED: usize = 1024;
/// The part of a hit's score by which the messages before and behind it stand in line: an answer
/// more often tells what is sought than a question.
const NEIGHBOURS: [f32; 2] = [0.6, 0.9];
/// A question of fewer words is taken to go on with what was said before.
const FEW: usize = 4;
const CONTEXT: f32 = 0.3;
