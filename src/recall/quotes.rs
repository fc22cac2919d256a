//! The excerpts of one prompt: as many lines as there is room for.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;

use super::Recall;
use super::excerpt::{Passage, write};
use super::found::{Asked, Found, Line, Unit};
use crate::error::{Error, Result};
use crate::message::Message;
use crate::text::first;
use crate::token::{Estimate, TokenCounter};

pub(super) struct Quotes {
    counter: Arc<dyn TokenCounter>,
    /// The tokens and characters that are available, and those that are used.
    room: (usize, usize),
    used: (usize, usize),
    /// The most characters of one message.
    most: usize,
    lines: BTreeMap<u64, Line>,
    taken: Vec<Vec<u64>>,
    /// The units that did not fit.
    waiting: Vec<Unit>,
    /// True if nothing was added since the last count of everything together.
    is_weighed: bool,
}

impl Quotes {
    pub(super) fn new(recall: &Recall, asked: &Asked) -> Result<Self> {
        let tokens = recall.tokens.min(asked.left.unwrap_or(usize::MAX));
        let mut quotes = Self {
            counter: asked.counter.clone().unwrap_or_else(|| Arc::new(Estimate)),
            room: (tokens, recall.characters),
            used: (0, 0),
            most: recall.passage,
            lines: BTreeMap::new(),
            taken: Vec::new(),
            waiting: Vec::new(),
            is_weighed: false,
        };
        quotes.weigh()?;
        Ok(quotes)
    }

    pub(super) fn most_lines(&self) -> usize {
        (self.room.0 / 8).min(self.room.1 / 24).clamp(4, 256)
    }

    /// Returns how much of a text is quoted: not so much that other hits have no room.
    pub(super) fn size_of(&self, text: &str) -> Result<Passage> {
        let sample = first(text, SAMPLE);
        let each = self.counter.count_text(sample)?.max(1);
        let room = (self.room.0 / each).saturating_mul(sample.chars().count()).min(self.room.1);
        let part = (room / HITS).max(LEAST);
        Ok(Passage { whole: (4 * part).min(self.most), part: part.min(self.most.div_ceil(2)) })
    }

    pub(super) fn has(&self, position: u64) -> bool {
        self.lines.contains_key(&position)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.waiting.iter().all(Unit::is_empty)
    }

    pub(super) fn is_full(&self) -> bool {
        self.used.0.saturating_add(4) > self.room.0 || self.used.1.saturating_add(8) > self.room.1
    }

    /// Quotes a unit if it fits; else keeps it waiting.
    pub(super) fn offer(&mut self, unit: Unit) -> Result<()> {
        let mut used = self.with(&unit)?;
        if !self.fits(used) && !self.is_weighed {
            // Lines counted together may need fewer tokens than one by one.
            self.weigh()?;
            used = self.with(&unit)?;
        }
        if !self.fits(used) {
            self.waiting.push(unit);
        } else if !unit.is_empty() {
            (self.used, self.is_weighed) = (used, false);
            self.taken.push(unit.iter().map(|line| line.recalled.position).collect());
            self.lines.extend(unit.into_iter().map(|line| (line.recalled.position, line)));
        }
        Ok(())
    }

    /// Returns the message with all quotes that fit; `None` if there are none.
    pub(super) fn finish(mut self) -> Result<Option<Found>> {
        for unit in mem::take(&mut self.waiting) {
            if !unit.iter().any(|line| self.has(line.recalled.position)) {
                self.offer(unit)?;
            }
        }
        self.weigh()?;
        // Lines counted together may also need slightly more than one by one.
        while !self.fits(self.used) {
            for position in self.taken.pop().unwrap_or_default() {
                self.lines.remove(&position);
            }
            if self.lines.is_empty() {
                break;
            }
            self.weigh()?;
        }
        let message = Message::user(write(&self.lines));
        let recalled: Vec<_> = self.lines.into_values().map(|line| line.recalled).collect();
        Ok((!recalled.is_empty()).then_some(Found { message, recalled }))
    }

    /// Counts everything that was taken as one text.
    fn weigh(&mut self) -> Result<()> {
        let (tokens, characters) = self.size(&write(&self.lines))?;
        let message = self.counter.overhead().message;
        (self.used, self.is_weighed) = ((tokens.saturating_add(message), characters), true);
        Ok(())
    }

    fn fits(&self, used: (usize, usize)) -> bool {
        used.0 <= self.room.0 && used.1 <= self.room.1
    }

    fn size(&self, text: &str) -> Result<(usize, usize)> {
        Ok((self.counter.count_text(text)?, text.chars().count()))
    }

    fn with(&self, unit: &[Line]) -> Result<(usize, usize)> {
        let mut used = self.used;
        let mut add = |text: &str| {
            let (tokens, characters) = self.size(text)?;
            used = (used.0.saturating_add(tokens).saturating_add(1), used.1 + characters + 1);
            Ok::<_, Error>(())
        };
        for (i, Line { day, text, .. }) in unit.iter().enumerate() {
            let is_known = self.lines.values().chain(&unit[..i]).any(|line| line.day == *day);
            if day.is_some() && !is_known {
                add("2000-12-30")?;
            }
            add(text)?;
        }
        Ok(used)
    }
}

/// The number of hits that should fit, however long they are, and the least that is quoted of each.
const HITS: usize = 8;
const LEAST: usize = 100;
/// The characters from which the tokens per character are estimated.
const SAMPLE: usize = 400;
