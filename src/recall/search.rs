//! A search as a state machine: it says what it wants to read, and at last what was found.

#![expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of messages, of which there are fewer than 2^32, and scores, which are not \
              negative"
)]

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::excerpt::{day, line, words_in};
use super::index::{RecallIndex, is_searched};
use super::quotes::{Line, Quotes, Unit};
use super::repeats::Repeats;
use super::score::{Question, Scores, score};
use super::segment::Doc;
use super::words::Word;
use super::{Candidate, Recall, Size};
use crate::composed::{NothingRecalled, Recalled};
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{MemoryId, Read};
use crate::message::Message;
use crate::record::{Incarnation, Record, Records, Snapshot, places};
use crate::token::TokenCounter;

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
    repeats: Repeats,
    stage: Stage,
    /// The number of pages that came too late: another search had changed the index.
    late: u32,
    told: Told,
}

/// The words of a search about itself, when it is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// The reason why it found nothing.
    pub(crate) nothing: Option<NothingRecalled>,
    /// The error of the application's own search.
    pub(crate) failed: Option<String>,
}

enum Stage {
    /// The index lacks what is new.
    Grow,
    /// The records of these positions were asked for.
    Page(Range<u64>),
    /// The best hits were asked for, to learn of what they speak, and what may be copies of the
    /// question.
    Learn(Vec<u64>, Vec<u64>),
    Rank,
    /// It wants the records that it is going to quote.
    Quote(Vec<Hit>, Quotes),
    Done(Option<Found>),
}

/// A message that may be recalled.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hit {
    pub(super) seq: u64,
    /// The score that decides which give way.
    pub(super) rank: f32,
    pub(super) score: f32,
}

/// The records of a page that is indexed.
const PAGE: u64 = 512;

impl<'a> Search<'a> {
    pub(crate) fn new(recall: &'a Recall, asked: Asked) -> Self {
        let index = recall.index_of(&asked.id);
        let mut question = Question::default();
        let query = recall.query.as_deref().unwrap_or(&asked.question);
        question.ask_all(query, &recall.endings, 1.0);
        if recall.query.is_none() {
            let goes_on = question.words().count() < FEW;
            let before = if goes_on { asked.before.as_str() } else { "" };
            question.ask_all(before, &recall.endings, CONTEXT);
        }
        let repeats = Repeats::of(query, &recall.endings);
        let (stage, told) = (Stage::Grow, Told::default());
        Self { recall, asked, index, question, repeats, stage, late: 0, told }
    }

    /// Tells of a search that is done.
    pub(crate) fn told(self) -> Told {
        self.told
    }

    fn query(&self) -> &str {
        self.recall.query.as_deref().unwrap_or(&self.asked.question)
    }

    /// Says what is to be read next, or what was found.
    pub(crate) fn next(&mut self) -> Result<Wants> {
        loop {
            match &mut self.stage {
                Stage::Grow => self.grow(),
                Stage::Page(Range { start, end }) => {
                    // One more, to tell whether the conversation is still the same.
                    return Ok(Wants::Read(Read::newest(places(*end - *start) + 1).before(*end)));
                }
                Stage::Learn(best, alike) => {
                    let positions = best.iter().chain(alike.iter()).copied();
                    return Ok(Wants::Read(Read::newest(0).positions(positions)));
                }
                Stage::Rank => self.rank()?,
                Stage::Quote(hits, _) => {
                    let mut positions = BTreeSet::new();
                    let around = if self.recall.tools { GROUP } else { 0 };
                    for Hit { seq, .. } in hits.iter().take(CHUNK) {
                        positions.extend(seq.saturating_sub(around)..=seq.saturating_add(around));
                    }
                    return Ok(Wants::Read(Read::newest(0).positions(positions)));
                }
                Stage::Done(found) => return Ok(Wants::Done(found.take())),
            }
        }
    }

    /// Searches to the end, by these reads.
    pub(crate) fn run(
        &mut self,
        mut read: impl FnMut(&Read) -> Result<Snapshot>,
    ) -> Result<Option<Found>> {
        loop {
            match self.next()? {
                Wants::Read(wanted) => self.read(&read(&wanted)?)?,
                Wants::Done(found) => return Ok(found),
            }
        }
    }

    /// Searches to the end of what this memory holds.
    #[cfg(feature = "async")]
    pub(crate) async fn run_async(
        &mut self,
        memory: &(impl AsyncChatMemory + ?Sized),
    ) -> Result<Option<Found>> {
        loop {
            match self.next()? {
                Wants::Read(wanted) => self.read(&memory.read_with(&wanted).await?)?,
                Wants::Done(found) => return Ok(found),
            }
        }
    }

    /// Takes what was read.
    pub(crate) fn read(&mut self, snapshot: &Snapshot) -> Result<()> {
        match mem::replace(&mut self.stage, Stage::Grow) {
            Stage::Page(page) => self.index_page(&page, snapshot),
            Stage::Learn(best, alike) => {
                let records = snapshot.picked();
                self.repeats.learn(&alike, records, &self.recall.endings);
                self.expand(best.iter().filter_map(|seq| records.find(*seq)));
                self.stage = Stage::Rank;
            }
            Stage::Quote(hits, quotes) => self.quote(hits, quotes, snapshot)?,
            other => self.stage = other,
        }
        Ok(())
    }

    /// Ends with nothing, and the reason for it.
    fn nothing(&mut self, why: NothingRecalled) {
        self.told.nothing = Some(why);
        self.stage = Stage::Done(None);
    }

    /// Brings the index to what the memory holds, or asks for a page of it.
    fn grow(&mut self) {
        if self.recall.candidates.is_none() && self.query().trim().is_empty() {
            return self.nothing(NothingRecalled::NoQuestion);
        }
        let asked = &self.asked;
        let mut index = self.index.lock();
        let is_other = index.rules != self.recall.rules()
            || (index.incarnation.is_some() && asked.incarnation != index.incarnation)
            // Another prompt may have seen more of the same conversation. Where nothing tells
            // which one it is, it may as well be another that was begun anew.
            || (index.incarnation.is_none()
                && (index.end > asked.held.end || index.start > asked.held.start))
            || index.is_refuted_by(&asked.newest);
        if is_other {
            *index = self.new_index();
        }
        index.incarnation = index.incarnation.or(asked.incarnation);
        index.forget_before(asked.held.start);
        // What the prompt has read needs no other read.
        let known = asked.newest.iter().find(|record| record.seq() >= index.end);
        if known.is_some_and(|record| record.seq() == index.end) {
            self.recall.add(&mut index, asked.newest.iter(), asked.held.end);
        }
        let from = index.end;
        let bytes = index.bytes();
        drop(index);
        if from < asked.held.end {
            self.stage = Stage::Page(from..asked.held.end.min(from.saturating_add(PAGE)));
        } else {
            self.recall.keep_within(&asked.id, bytes);
            self.learn();
        }
    }

    fn new_index(&self) -> RecallIndex {
        RecallIndex::new(self.recall.rules(), self.asked.incarnation, self.asked.held.start)
    }

    fn index_page(&mut self, asked: &Range<u64>, page: &Snapshot) {
        let shared = Arc::clone(&self.index);
        let mut index = shared.lock();
        if index.end != asked.start {
            // Another search has changed it meanwhile: a page in the wrong place leaves a hole.
            self.late += 1;
            if self.late >= MOST_LATE {
                self.index = Arc::default();
            }
            return;
        }
        if index.is_refuted_by(&page.records) {
            *index = self.new_index();
            return;
        }
        self.recall.add(&mut index, page.records.iter(), asked.end);
        // Rows that can't be read are passed over.
        if index.end < asked.end {
            (index.end, index.last) = (asked.end, 0);
        }
        let bytes = index.bytes();
        drop(index);
        // Should this search fail, what it has made is counted.
        self.recall.keep_within(&self.asked.id, bytes);
    }

    /// Asks for the best hits, to learn other words for what they speak of.
    fn learn(&mut self) {
        self.stage = Stage::Rank;
        if self.question.is_empty() {
            return;
        }
        let index = self.index.lock();
        let asks = self.asked.asks.and_then(|position| index.doc_at(position));
        let alike = self.repeats.candidates(&index, asks);
        let alike: Vec<u64> = alike.into_iter().map(|doc| index.position(doc)).collect();
        let scores = score(&index, &self.question, self.recall.weights, &self.passed_over(&alike));
        let best = self.best(&index, &scores, LEARNED_FROM + alike.len());
        drop(index);
        let mut positions: Vec<u64> = best.iter().map(|hit| hit.seq).collect();
        positions.retain(|seq| !alike.contains(seq));
        positions.truncate(LEARNED_FROM);
        if !positions.is_empty() || !alike.is_empty() {
            self.stage = Stage::Learn(positions, alike);
        }
    }

    /// Asks for the rarest words of the best hits too.
    fn expand<'r>(&mut self, best: impl Iterator<Item = Record<'r>>) {
        let index = self.index.lock();
        let first = index.first();
        let mut words = BTreeSet::<Word>::new();
        for record in best {
            words_in(record.message(), &self.recall.endings, |word| {
                if !self.question.has(word) && words.len() < MOST_LEARNED {
                    words.insert(word);
                }
            });
        }
        // Those of a quarter of all messages do not count: nothing is gained by counting on.
        let enough = (index.docs() - first) as usize / 4 + 2;
        let having = |word| index.having(word, first).take(enough).count();
        let rare = words.into_iter().map(|word| (having(word), word));
        // A word of one message alone leads to no other.
        let mut rare: Vec<_> = rare.filter(|(having, _)| *having > 1).collect();
        rare.sort_unstable();
        for (_, word) in rare.into_iter().take(LEARNED) {
            self.question.ask(word, LEARNED_WEIGHT);
        }
    }

    /// Returns the positions of what would lift what stands beside it: the question, and these.
    fn passed_over(&self, copies: &[u64]) -> Vec<u64> {
        self.asked.asks.iter().chain(copies).copied().collect()
    }

    /// Returns the best hits that may be sent.
    fn best(&self, index: &RecallIndex, scores: &Scores, most: usize) -> Vec<Hit> {
        let mut best: Vec<(f32, Doc)> = Vec::new();
        for (place, score) in scores.scores.iter().enumerate() {
            let doc = scores.first + place as Doc;
            if *score >= self.recall.least && *score > 0.0 && self.may_send(index.position(doc)) {
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

    fn may_send(&self, position: u64) -> bool {
        self.asked.held.contains(&position) && !self.asked.not_these.contains(&position)
    }

    /// Decides what to quote: the best hits, and what stands around them.
    fn rank(&mut self) -> Result<()> {
        let most = self.most_hits();
        // Before the index is locked: a search of the application's own may look at it, or wait.
        let offered = self.offered(most);
        let index = self.index.lock();
        let passed_over = self.passed_over(self.repeats.earlier());
        let scores = score(&index, &self.question, self.recall.weights, &passed_over);
        let mut hits: BTreeMap<u64, Hit> = BTreeMap::new();
        let mut put = |hit: Hit| {
            let known = hits.entry(hit.seq).or_insert(hit);
            known.rank = known.rank.max(hit.rank);
        };
        let mut best = self.best(&index, &scores, most);
        self.add_offered(&mut best, offered, most);
        let (first, end) = (index.first(), index.docs());
        // What was answered to the question before stands beside nothing that counts.
        let top = best.iter().map(|hit| hit.rank).fold(0.0, f32::max) * NEIGHBOURS[1];
        for seq in self.repeats.earlier().iter().rev().take(MOST_ANSWERS).map(|seq| seq + 1) {
            if let Some(doc) = index.doc_at(seq).filter(|_| self.may_send(seq)) {
                put(Hit { seq, rank: top, score: scores.of(doc) });
            }
        }
        for hit in best {
            put(hit);
            let Some(doc) = index.doc_at(hit.seq) else { continue };
            for away in 1..=self.recall.neighbours {
                let around = [doc.checked_sub(away), doc.checked_add(away)];
                for (near, part) in around.into_iter().zip(NEIGHBOURS) {
                    let Some(near) = near else { continue };
                    if (first..end).contains(&near) && self.may_send(index.position(near)) {
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
        if hits.is_empty() {
            self.nothing(NothingRecalled::NothingFits);
        } else {
            self.stage = Stage::Quote(hits, Quotes::new(self.recall.size, &self.asked)?);
        }
        Ok(())
    }

    /// Returns what the application's own search offers, each message once. Should it fail, what
    /// words find is sent without it.
    fn offered(&mut self, most: usize) -> BTreeMap<u64, f32> {
        let mut offered = BTreeMap::new();
        let Some(candidates) = &self.recall.candidates else { return offered };
        // What is sent anyway takes no place.
        let n = most.saturating_add(self.asked.not_these.len());
        match candidates.candidates(&self.asked.id, self.query(), n) {
            Ok(found) => {
                for Candidate { seq, fit } in found {
                    if fit.is_finite() && fit > 0.0 && fit >= self.recall.least_fit {
                        let known: &mut f32 = offered.entry(seq).or_default();
                        *known = known.max(fit.min(1.0));
                    }
                }
            }
            Err(error) => self.told.failed = Some(error.to_string()),
        }
        offered
    }

    /// Adds the best of what was offered.
    fn add_offered(&self, best: &mut Vec<Hit>, offered: BTreeMap<u64, f32>, most: usize) {
        let top = best.first().map_or(1.0, |hit| hit.score);
        let offered = offered.into_iter().filter(|(seq, _)| self.may_send(*seq));
        let mut offered: Vec<(u64, f32)> = offered.collect();
        offered.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (seq, fit) in offered.into_iter().take(most) {
            let more = top * fit;
            match best.iter_mut().find(|hit| hit.seq == seq) {
                Some(hit) => (hit.rank, hit.score) = (hit.rank + more, hit.score + more),
                None => best.push(Hit { seq, rank: more, score: more }),
            }
        }
    }

    /// Returns the most messages that can fit.
    fn most_hits(&self) -> usize {
        let lines = match self.recall.size {
            Size::Tokens(tokens) => tokens.min(self.asked.left.unwrap_or(usize::MAX)) / 8,
            Size::Characters(characters) => characters / 24,
        };
        lines.clamp(4, 256)
    }

    /// Quotes the best of the hits, and asks for more of them as long as there is room.
    fn quote(&mut self, mut hits: Vec<Hit>, mut quotes: Quotes, snapshot: &Snapshot) -> Result<()> {
        if self.asked.incarnation.is_some() && snapshot.incarnation != self.asked.incarnation {
            self.nothing(NothingRecalled::NothingFits); // it was deleted just now
            return Ok(());
        }
        let rest = hits.split_off(hits.len().min(CHUNK));
        for hit in &hits {
            let (records, endings) = (snapshot.picked(), &self.recall.endings);
            if !quotes.has(hit.seq) && !self.repeats.says_again(hit.seq, records, endings) {
                quotes.offer(self.unit(*hit, snapshot.picked()))?;
            }
        }
        if !rest.is_empty() && !quotes.is_full() {
            self.stage = Stage::Quote(rest, quotes);
            return Ok(());
        }
        let why = if quotes.is_empty() {
            NothingRecalled::NothingFits // it was forgotten just now, or is half a tool group
        } else {
            NothingRecalled::NoRoom
        };
        match quotes.finish()? {
            None => self.nothing(why),
            found => self.stage = Stage::Done(found),
        }
        Ok(())
    }

    /// Returns the lines that are quoted together with the one at this position.
    fn unit(&self, hit: Hit, records: &Records) -> Unit {
        let Recall { endings, passage, .. } = self.recall;
        let group = self.group(hit.seq, records);
        let with_calls = group.len() > 1;
        let line = |record: &Record<'_>| {
            let (text, whole) = line(record, &self.question, endings, *passage, with_calls);
            let score = if record.seq() == hit.seq { hit.score } else { 0.0 };
            let seq = record.seq();
            let score = (score * 1000.0) as u32;
            let recalled = Recalled { seq, score, whole };
            Line { day: day(record), text, recalled }
        };
        group.iter().map(line).collect()
    }

    /// Returns the records that are quoted together with the one at this position: a tool group,
    /// or it alone; none where it is a result of a group that is not whole.
    fn group<'r>(&self, seq: u64, records: &'r Records) -> Vec<Record<'r>> {
        let Some(record) = records.find(seq).filter(|it| self.is_quoted(it)) else {
            return Vec::new();
        };
        let message = record.message();
        if self.recall.tools && (message.is_tool() || message.has_tool_calls()) {
            let group = self.tool_group(seq, records);
            if !group.is_empty() {
                return group;
            }
        }
        let has_text = message.texts().any(|text| !text.trim().is_empty());
        if has_text && !message.is_tool() { vec![record] } else { Vec::new() }
    }

    fn is_quoted(&self, record: &Record<'_>) -> bool {
        is_searched(record.message(), self.recall.tools)
            && !self.asked.not_these.contains(&record.seq())
    }

    /// Returns the calls and results around this position; none where they are not whole.
    fn tool_group<'r>(&self, seq: u64, records: &'r Records) -> Vec<Record<'r>> {
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
            && group.iter().all(|record| self.is_quoted(record));
        if is_whole { group } else { Vec::new() }
    }
}

/// The records around a hit among which its tool group is looked for.
pub(crate) const GROUP: u64 = 16;
/// The hits that are read at once: more are read where these leave room.
const CHUNK: usize = 64;
/// The pages that may come too late before a search makes an index for itself alone.
const MOST_LATE: u32 = 8;
/// The number of best hits whose rarest words are asked for too, how many, and their weight.
const LEARNED_FROM: usize = 5;
const LEARNED: usize = 8;
const LEARNED_WEIGHT: f32 = 0.15;
/// The most words among which the rarest are looked for.
const MOST_LEARNED: usize = 1024;
/// The part of a hit's score by which the messages before and behind it stand in line: an answer
/// more often tells what is sought than a question.
const NEIGHBOURS: [f32; 2] = [0.6, 0.9];
/// The most answers to earlier copies of the question that stand in line for that.
const MOST_ANSWERS: usize = 8;
/// A question of fewer words is taken to go on with what was said before, whose words have this
/// weight then.
const FEW: usize = 4;
const CONTEXT: f32 = 0.3;
