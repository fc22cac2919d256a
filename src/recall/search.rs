//! A search as a state machine: it says what it wants to read, and at last what was found.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "numbers of messages, of which there are fewer than 2^32, and scores, which are not \
              negative"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::Mutex;

use super::dates;
use super::excerpt::line;
use super::found::{Asked, Found, Hit, Line, Outcome, Unit};
use super::index::{Index, is_searched};
use super::quotes::Quotes;
use super::rank::rank;
use super::score::Question;
use super::{Candidate, Recall};
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{On, Read};
use crate::prompt::{NothingRecalled, Recalled};
use crate::record::{Record, Records, Snapshot, places};

/// The next wish of a search.
pub(crate) enum Wants {
    Read(Read),
    Done(Option<Found>),
}

/// A search for what fits a question.
pub(crate) struct Search<'a> {
    recall: &'a Recall,
    asked: Asked,
    index: Arc<Mutex<Index>>,
    question: Question,
    stage: Stage,
    /// The number of pages that came too late: another search had changed the index.
    late: u32,
    outcome: Outcome,
    /// The branch that is searched.
    on: Option<On>,
}

enum Stage {
    /// What was said right before a short question was asked for.
    Before,
    /// The index lacks what is new.
    Grow,
    /// The records of these positions were asked for.
    Page(Range<u64>),
    Rank,
    /// It wants the records that it is going to quote.
    Quote(Vec<Hit>, Quotes),
    Done(Option<Found>),
}

/// The records of a page that is indexed.
const PAGE: u64 = 512;

impl<'a> Search<'a> {
    pub(crate) fn new(recall: &'a Recall, asked: Asked) -> Self {
        let index = recall.index_of(&asked.id);
        let mut question = Question::default();
        let query = recall.query.as_deref().unwrap_or(&asked.question);
        question.ask_all(query, &recall.endings, 1.0);
        let mut stage = Stage::Grow;
        if recall.query.is_none() && asked.goes_on && question.len() < FEW {
            question.is_remark = !query.contains(['?', '？', '؟']);
            if !question.is_remark {
                question = Question::default();
                question.ask_all(query, &recall.endings, OWN);
                stage = Stage::Before;
            }
        }
        // Days are told from when the question was asked, which is no clock's business.
        if let Some(today) = asked.newest.last().and_then(|newest| newest.day()) {
            question.days = dates::asked(query, today);
        }
        let outcome = Outcome::default();
        Self { recall, asked, index, question, stage, late: 0, outcome, on: None }
    }

    /// Searches this branch, where the memory shows one of several.
    pub(crate) fn on(self, on: Option<On>) -> Self {
        Self { on, ..self }
    }

    /// Returns how a search ended that is done.
    pub(crate) fn outcome(self) -> Outcome {
        self.outcome
    }

    fn query(&self) -> &str {
        self.recall.query.as_deref().unwrap_or(&self.asked.question)
    }

    /// Says what is to be read next, or what was found.
    pub(crate) fn next(&mut self) -> Result<Wants> {
        loop {
            match &mut self.stage {
                Stage::Before => {
                    let end = self.asked.asks.unwrap_or(self.asked.held.end);
                    let from = end.saturating_sub(GROUP);
                    return Ok(Wants::Read(Read::newest(0).positions(from..end)));
                }
                Stage::Grow => self.grow(),
                Stage::Page(Range { start, end }) => {
                    // One more, to tell whether the conversation is still the same.
                    return Ok(Wants::Read(Read::newest(places(*end - *start) + 1).before(*end)));
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
                Wants::Read(wanted) => self.read(&read(&wanted.on(self.on))?)?,
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
                Wants::Read(wanted) => self.read(&memory.read_with(&wanted.on(self.on)).await?)?,
                Wants::Done(found) => return Ok(found),
            }
        }
    }

    /// Takes what was read.
    pub(crate) fn read(&mut self, snapshot: &Snapshot) -> Result<()> {
        match mem::replace(&mut self.stage, Stage::Grow) {
            Stage::Before => {
                let said = snapshot.picked().iter().rev();
                let said = said.filter(|record| is_searched(record.message(), false)).take(2);
                for record in said {
                    let text = record.message().text();
                    self.question.ask_all(&text, &self.recall.endings, 1.0);
                }
            }
            Stage::Page(page) => self.index_page(&page, snapshot),
            Stage::Quote(hits, quotes) => self.quote(hits, quotes, snapshot)?,
            other => self.stage = other,
        }
        Ok(())
    }

    /// Ends with nothing, and the reason for it.
    fn nothing(&mut self, why: NothingRecalled) {
        self.outcome.nothing = Some(why);
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
            // An index of more than this memory holds may be of the same conversation, read further
            // by another prompt, or of one that was begun again. Without an incarnation nothing
            // tells which, so it is made anew.
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
            self.stage = Stage::Rank;
        }
    }

    fn new_index(&self) -> Index {
        Index::new(self.recall.rules(), self.asked.incarnation, self.asked.held.start)
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

    /// Decides what to quote.
    fn rank(&mut self) -> Result<()> {
        let quotes = Quotes::new(self.recall, &self.asked)?;
        let most = quotes.most_lines();
        // Before the index is locked: a search of the application's own may look at it, or wait.
        let offered = self.offered(most);
        let index = self.index.lock();
        let question = &mut self.question;
        let hits = rank(self.recall, &self.asked, index.texts(), question, &offered, most);
        drop(index);
        if hits.is_empty() {
            self.nothing(NothingRecalled::NothingFits);
        } else {
            self.stage = Stage::Quote(hits, quotes);
        }
        Ok(())
    }

    /// Returns what the application's own search offers, each message once. Should it fail, what
    /// words find is sent without it.
    fn offered(&mut self, most: usize) -> BTreeMap<u64, f32> {
        let mut offered = BTreeMap::new();
        let Some(candidates) = &self.recall.candidates else { return offered };
        // What is sent anyway is not quoted, so as many more are asked for.
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
            Err(error) => self.outcome.failed = Some(error.to_string()),
        }
        offered
    }

    /// Quotes the best of the hits, and asks for more of them as long as there is room.
    fn quote(&mut self, mut hits: Vec<Hit>, mut quotes: Quotes, snapshot: &Snapshot) -> Result<()> {
        if self.asked.incarnation.is_some() && snapshot.incarnation != self.asked.incarnation {
            self.nothing(NothingRecalled::NothingFits); // it was deleted just now
            return Ok(());
        }
        let rest = hits.split_off(hits.len().min(CHUNK));
        for hit in &hits {
            if !quotes.has(hit.seq) {
                let unit = self.unit(*hit, snapshot.picked(), &quotes)?;
                quotes.offer(unit)?;
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
    fn unit(&self, hit: Hit, records: &Records, quotes: &Quotes) -> Result<Unit> {
        let group = self.group(hit.seq, records);
        let with_calls = group.len() > 1;
        let line = |record: &Record<'_>| {
            let seq = record.seq();
            let message = record.message();
            let text = message.texts().collect::<Vec<_>>().join("\n");
            let size = quotes.size_of(&text)?;
            let endings = &self.recall.endings;
            let (text, whole) = line(record, &text, &self.question, endings, size, with_calls);
            let score = if seq == hit.seq { hit.score } else { 0.0 };
            let score = (score * 1000.0) as u32;
            Ok(Line { day: record.day(), text, recalled: Recalled { seq, score, whole } })
        };
        group.iter().map(line).collect()
    }

    /// Returns the records that are quoted together with the one at this position: a tool group,
    /// or it alone; none if it is a result of a group that is not whole.
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

    /// Returns the calls and results around this position; none if they are not whole.
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
/// A question of fewer words is taken to go on with what was said before; its own words have this
/// weight then.
const FEW: usize = 4;
const OWN: f32 = 0.3;
