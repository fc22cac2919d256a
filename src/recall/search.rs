//! A search as a state machine: it asks for the reads that it needs, and ends with an outcome.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use super::dates;
use super::excerpt::line;
use super::found::{Asked, Found, Hit, Line, Outcome, Unit};
use super::index::{Index, is_searched};
use super::question::{Question, ends};
use super::quotes::Quotes;
use super::rank::rank;
use super::score::thousandths;
use super::{Candidate, Recall};
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{On, Read};
use crate::message::{Message, ToolMessage};
use crate::prompt::{NothingRecalled, Recalled};
use crate::record::{Record, Records, Snapshot, places};

pub(crate) struct Search<'a> {
    recall: &'a Recall,
    asked: Asked,
    index: Arc<Mutex<Index>>,
    question: Question,
    /// The application's own hits.
    offered: BTreeMap<u64, f32>,
    stage: Stage,
    found: Option<Found>,
    outcome: Outcome,
    on: Option<On>,
}

enum Stage {
    Offer,
    /// The index may lack what is new.
    Grow,
    Page(Range<u64>),
    Quote(Vec<Hit>, Quotes),
    Done,
}

const PAGE: u64 = 512;

impl<'a> Search<'a> {
    pub(crate) fn new(recall: &'a Recall, mut asked: Asked) -> Self {
        // Days count from when the question was asked: now, if it is not stored yet.
        let stored = asked.question_at.and_then(|position| asked.newest.find(position));
        let now = || Some(SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs() / 86_400);
        let today = stored.map_or_else(now, |record| record.day());
        if let Some(query) = &recall.query {
            (asked.question, asked.goes_on, asked.question_at) = (query.clone(), false, None);
        }
        let mut question = Question::new(&asked.question, &recall.endings);
        asked.goes_on &= question.words.len() < FEW;
        question.is_remark = asked.goes_on && !asked.question.contains(['?', '？', '؟']);
        let days = |today| dates::asked(ends(&asked.question), today);
        question.days = today.map_or_else(Vec::new, days);
        let index = recall.indexes.lock().of(&asked.id);
        let (offered, outcome) = (BTreeMap::new(), Outcome::default());
        let stage = Stage::Offer;
        Self { recall, asked, index, question, offered, stage, found: None, outcome, on: None }
    }

    /// Searches this branch, if the memory has several.
    pub(crate) fn on(self, on: Option<On>) -> Self {
        Self { on, ..self }
    }

    pub(crate) fn outcome(self) -> Outcome {
        self.outcome
    }

    /// Returns the next read; `None` once the search is done.
    fn next(&mut self) -> Result<Option<Read>> {
        loop {
            match &mut self.stage {
                Stage::Offer => self.offer()?,
                Stage::Grow => self.grow()?,
                Stage::Page(Range { start, end }) => {
                    // One more record, to check that the conversation is still the same.
                    return Ok(Some(Read::newest(places(*end - *start) + 1).before(*end)));
                }
                Stage::Quote(hits, _) => {
                    let mut positions = BTreeSet::new();
                    let around = if self.recall.tool_results { GROUP } else { 0 };
                    for Hit { position, .. } in hits.iter().take(CHUNK) {
                        let first = position.saturating_sub(around);
                        positions.extend(first..=position.saturating_add(around));
                    }
                    return Ok(Some(Read::newest(0).positions(positions)));
                }
                Stage::Done => return Ok(None),
            }
        }
    }

    pub(crate) fn run(
        &mut self,
        mut read: impl FnMut(&Read) -> Result<Snapshot>,
    ) -> Result<Option<Found>> {
        while let Some(wanted) = self.next()? {
            self.read(&read(&wanted.references().on(self.on))?)?;
        }
        Ok(self.found.take())
    }

    #[cfg(feature = "async")]
    pub(crate) async fn run_async(
        &mut self,
        memory: &(impl AsyncChatMemory + ?Sized),
    ) -> Result<Option<Found>> {
        while let Some(wanted) = self.next()? {
            self.read(&memory.read_with(&wanted.references().on(self.on)).await?)?;
        }
        Ok(self.found.take())
    }

    fn read(&mut self, snapshot: &Snapshot) -> Result<()> {
        if self.asked.incarnation.is_some() && snapshot.incarnation != self.asked.incarnation {
            self.nothing(NothingRecalled::NothingFits); // it was deleted, or shows another branch
            return Ok(());
        }
        match mem::replace(&mut self.stage, Stage::Grow) {
            Stage::Page(page) => self.index_page(&page, snapshot),
            Stage::Quote(hits, quotes) => self.quote(hits, quotes, snapshot)?,
            other => self.stage = other,
        }
        Ok(())
    }

    fn nothing(&mut self, why: NothingRecalled) {
        (self.outcome.nothing, self.stage) = (Some(why), Stage::Done);
    }

    /// Brings the index up to date and ranks it, or asks for the next page.
    fn grow(&mut self) -> Result<()> {
        let (asked, shared) = (&self.asked, Arc::clone(&self.index));
        let mut index = shared.lock();
        let is_other = match index.incarnation {
            Some(_) => asked.incarnation != index.incarnation,
            // An index of more than this memory holds may come from the same conversation, if
            // another prompt has read further, or from one that was begun again. Without an
            // incarnation it is unknown which, so the index is built again.
            None => index.end > asked.held.end || index.start > asked.held.start,
        };
        if is_other || index.is_refuted_by(&asked.newest) {
            *index = Index::default();
        }
        index.incarnation = index.incarnation.or(asked.incarnation);
        index.forget_before(asked.held.start);
        // What the prompt has already read is not read again.
        let known = asked.newest.iter().find(|record| record.position() >= index.end);
        if known.is_some_and(|record| record.position() == index.end) {
            self.add(&mut index, &asked.newest, asked.held.end);
        }
        self.recall.indexes.lock().note(&asked.id, &shared, index.bytes());
        let (from, end) = (index.end, asked.held.end);
        if from < end {
            self.stage = Stage::Page(from..end.min(from.saturating_add(PAGE)));
            return Ok(());
        }
        self.rank(&index)
    }

    /// Adds the records before this position that the index lacks.
    fn add(&self, index: &mut Index, records: &Records, before: u64) {
        for record in records.iter() {
            if (index.end..before).contains(&record.position()) {
                index.add(&record, &self.recall.endings, self.recall.tool_results);
            }
        }
    }

    fn index_page(&mut self, asked: &Range<u64>, page: &Snapshot) {
        // What the prompt has read earlier may be from another conversation by now.
        let is_first = !mem::take(&mut self.asked.newest).is_empty();
        let shared = Arc::clone(&self.index);
        let mut index = shared.lock();
        if index.end != asked.start {
            // Another search has changed it in the meantime, and a page in the wrong place would
            // leave a hole: this search builds an index of its own.
            self.index = Arc::default();
        } else if index.is_refuted_by(&page.records) {
            *index = Index::default();
            if !is_first {
                self.nothing(NothingRecalled::NothingFits); // each read gives another text
            }
        } else {
            self.add(&mut index, &page.records, asked.end);
            // Rows that can't be read are passed over.
            if index.end < asked.end {
                (index.end, index.last) = (asked.end, 0);
            }
        }
    }

    fn rank(&mut self, index: &Index) -> Result<()> {
        let quotes = Quotes::new(self.recall, &self.asked)?;
        let most = quotes.most_lines();
        if self.asked.goes_on && !self.question.is_remark {
            self.question.go_on(index, self.asked.question_at);
        }
        let hits = rank(self.recall, &self.asked, index, &mut self.question, &self.offered, most);
        if hits.is_empty() {
            self.nothing(NothingRecalled::NothingFits);
        } else {
            self.stage = Stage::Quote(hits, quotes);
        }
        Ok(())
    }

    /// Takes the application's own hits, each message once. If that search fails, the hits by words
    /// are sent without them. It may use the index, or wait: others may change the index meanwhile.
    fn offer(&mut self) -> Result<()> {
        self.stage = Stage::Grow;
        let Some(candidates) = &self.recall.candidates else {
            if self.question.text.is_empty() {
                self.nothing(NothingRecalled::NoQuestion);
            }
            return Ok(());
        };
        let most = Quotes::new(self.recall, &self.asked)?.most_lines();
        // Messages that are sent anyway are not quoted, so that many more are asked for.
        let n = most.saturating_add(self.asked.excluded.len());
        let found = candidates.candidates(&self.asked.id, &self.asked.question, n);
        let found = found.unwrap_or_else(|error| {
            self.outcome.failed = Some(error.to_string());
            Vec::new()
        });
        for Candidate { position, fit } in found {
            if fit.is_finite() && fit > 0.0 && fit >= self.recall.least_fit {
                let known = self.offered.entry(position).or_default();
                *known = known.max(fit.min(1.0));
            }
        }
        Ok(())
    }

    /// Quotes the best hits, and asks for more while there is room.
    fn quote(&mut self, mut hits: Vec<Hit>, mut quotes: Quotes, snapshot: &Snapshot) -> Result<()> {
        let rest = hits.split_off(hits.len().min(CHUNK));
        for hit in &hits {
            if !quotes.has(hit.position) {
                let unit = self.unit(*hit, snapshot.picked(), &quotes)?;
                quotes.offer(unit)?;
            }
        }
        if !rest.is_empty() && !quotes.is_full() {
            self.stage = Stage::Quote(rest, quotes);
            return Ok(());
        }
        let is_empty = quotes.is_empty(); // it was forgotten just now, or is half a tool group
        (self.found, self.stage) = (quotes.finish()?, Stage::Done);
        if self.found.is_none() {
            let fits_not = is_empty.then_some(NothingRecalled::NothingFits);
            self.outcome.nothing = fits_not.or(Some(NothingRecalled::NoRoom));
        }
        Ok(())
    }

    fn unit(&self, hit: Hit, records: &Records, quotes: &Quotes) -> Result<Unit> {
        let group = self.group(hit.position, records);
        let with_calls = group.len() > 1;
        let line = |record: &Record<'_>| {
            let position = record.position();
            let text = record.message().texts().collect::<Vec<_>>().join("\n");
            let size = quotes.size_of(&text)?;
            let endings = &self.recall.endings;
            let (text, whole) = line(record, &text, &self.question, endings, size, with_calls);
            let score = if position == hit.position { thousandths(hit.score) } else { 0 };
            Ok(Line { day: record.day(), text, recalled: Recalled { position, score, whole } })
        };
        group.iter().map(line).collect()
    }

    /// Returns the records that are quoted together with this one: its tool group, or it alone;
    /// none if it is a result of an incomplete group.
    fn group<'r>(&self, position: u64, records: &'r Records) -> Vec<Record<'r>> {
        let group = self.recall.tool_results.then(|| self.tool_group(position, records)).flatten();
        group.unwrap_or_else(|| {
            let record = records.find(position).filter(|it| self.is_quoted(it));
            let has_text = |message: &Message| message.texts().any(|text| !text.trim().is_empty());
            let record = record.filter(|it| !it.message().is_tool() && has_text(it.message()));
            record.into_iter().collect()
        })
    }

    fn is_quoted(&self, record: &Record<'_>) -> bool {
        is_searched(record.message(), self.recall.tool_results)
            && !self.asked.excluded.contains(&record.position())
    }

    /// Returns the tool group around this position, if it is complete.
    fn tool_group<'r>(&self, position: u64, records: &'r Records) -> Option<Vec<Record<'r>>> {
        let mut before = (0..=GROUP).map_while(|away| records.find(position.checked_sub(away)?));
        let call = before.find(|record| !record.message().is_tool())?;
        let behind = (1..=GROUP).map_while(|away| records.find(call.position().checked_add(away)?));
        let results: Vec<_> = behind.take_while(|record| record.message().is_tool()).collect();
        let mut calls: Vec<_> = call.message().tool_calls().map(|call| &*call.id).collect();
        let answered = results.iter().filter_map(|record| record.message().as_tool());
        let mut answered: Vec<_> = answered.map(ToolMessage::call_id).collect();
        calls.sort_unstable();
        answered.sort_unstable();
        let group: Vec<_> = [call].into_iter().chain(results).collect();
        let is_whole = !calls.is_empty() && calls == answered;
        (is_whole && group.iter().all(|record| self.is_quoted(record))).then_some(group)
    }
}

/// How far from a hit its tool group is looked for, in records.
pub(crate) const GROUP: u64 = 16;
/// The number of hits that are read at once.
const CHUNK: usize = 64;
/// A question of fewer words is taken to continue what was said before.
const FEW: usize = 4;
