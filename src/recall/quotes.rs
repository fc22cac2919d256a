//! The excerpts of one prompt: as many lines as there is room for.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::sync::Arc;

use super::excerpt::{HEAD, Passage, write};
use super::found::{Asked, Found, Line, Unit};
use super::{Recall, Size};
use crate::error::Result;
use crate::message::Message;
use crate::text::first;
use crate::token::{Estimate, TokenCounter};

/// The quotes so far.
pub(super) struct Quotes {
    room: Space,
    /// The most characters of a message.
    most: usize,
    lines: BTreeMap<u64, Line>,
    /// The positions of each unit, the best first.
    taken: Vec<Vec<u64>>,
    /// The units for which there was no room.
    waiting: Vec<Unit>,
    /// True if the room is exact: nothing was taken since all of it was counted.
    is_weighed: bool,
}

impl Quotes {
    pub(super) fn new(recall: &Recall, asked: &Asked) -> Result<Self> {
        Ok(Self {
            room: Space::new(recall.size, asked)?,
            most: recall.passage,
            lines: BTreeMap::new(),
            taken: Vec::new(),
            waiting: Vec::new(),
            is_weighed: false,
        })
    }

    /// Returns the most messages that can fit.
    pub(super) fn most_lines(&self) -> usize {
        (self.room.tokens / 8).min(self.room.characters / 24).clamp(4, 256)
    }

    /// Returns how much of a text is quoted: so much that there is room for several hits.
    pub(super) fn size_of(&self, text: &str) -> Result<Passage> {
        let Space { tokens, characters, .. } = self.room;
        let sample = first(text, SAMPLE);
        let each = self.room.tokens_of(sample)?.max(1);
        let room = (tokens / each).saturating_mul(sample.chars().count()).min(characters);
        let part = (room / HITS).max(LEAST);
        Ok(Passage { whole: (3 * part).min(self.most), part: part.min(self.most.div_ceil(2)) })
    }

    /// Returns whether the message at this position is quoted.
    pub(super) fn has(&self, seq: u64) -> bool {
        self.lines.contains_key(&seq)
    }

    /// Returns whether nothing was offered that could be quoted.
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty() && self.waiting.is_empty()
    }

    /// Returns whether no line finds room any more.
    pub(super) fn is_full(&self) -> bool {
        let Space { tokens, characters, used, .. } = &self.room;
        tokens.saturating_sub(used.0) < 4 || characters.saturating_sub(used.1) < 8
    }

    /// Quotes a unit where there is room for it; else it waits.
    pub(super) fn offer(&mut self, unit: Unit) -> Result<()> {
        if unit.is_empty() {
            return Ok(());
        }
        if !self.room.try_reserve(&unit)? {
            // Lines that are counted together may take less than one by one: count them again.
            if !self.is_weighed {
                self.room.weigh(&write(&self.lines))?;
                self.is_weighed = true;
            }
            if !self.room.try_reserve(&unit)? {
                self.waiting.push(unit);
                return Ok(());
            }
        }
        self.is_weighed = false;
        self.taken.push(unit.iter().map(|line| line.recalled.seq).collect());
        self.lines.extend(unit.into_iter().map(|line| (line.recalled.seq, line)));
        Ok(())
    }

    /// Returns the message of all that fits; none if nothing does.
    pub(super) fn finish(mut self) -> Result<Option<Found>> {
        for unit in mem::take(&mut self.waiting) {
            if !unit.iter().any(|line| self.has(line.recalled.seq)) {
                self.offer(unit)?;
            }
        }
        // Together lines may be a little more than one by one, too.
        loop {
            if self.lines.is_empty() {
                return Ok(None);
            }
            let message = Message::user(write(&self.lines));
            if self.room.fits(&message)? {
                let recalled = self.lines.into_values().map(|line| line.recalled).collect();
                return Ok(Some(Found { message, recalled }));
            }
            for seq in self.taken.pop().unwrap_or_default() {
                self.lines.remove(&seq);
            }
        }
    }
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
        let mut space = Self { tokens, characters, counter, used: (0, 0), days: BTreeSet::new() };
        space.used = (space.tokens_of(HEAD)? + space.counter.overhead().message, HEAD.len());
        Ok(space)
    }

    fn tokens_of(&self, text: &str) -> Result<usize> {
        if self.tokens == usize::MAX { Ok(0) } else { self.counter.count_text(text) }
    }

    /// Takes the lines of a unit, where there is room for all of them.
    fn try_reserve(&mut self, unit: &[Line]) -> Result<bool> {
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

/// The hits for which there is room, however long they are, and the least that is quoted of each.
const HITS: usize = 8;
const LEAST: usize = 100;
/// The characters by which it is told how many tokens a text has.
const SAMPLE: usize = 400;
