//! The token budget of a prompt: what fits, from the newest message back.

use std::fmt;
use std::sync::Arc;

use super::Composer;
use super::cache::ComposerCache;
use super::counts::Counts;
use crate::composed::{Content, Held, Origin, Tokens};
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Record, Snapshot};
use crate::token::TokenCounter;
use crate::truncate::{Truncate, Verdict};
use crate::window::{OpenCalls, Opening, Reach, ToolGroups, more};

/// How many tokens a prompt may have, and what gives way when it has more.
///
/// The budget bounds everything that is sent: system message, history, temporaries and what the
/// provider adds for the reply. The oldest tool groups and messages leave first. The newest user
/// message and the newest group stay; where they alone are too much, the build fails with
/// [`ErrorKind::Budget`], or cuts them where truncation is on.
///
/// ```
/// use memory_prompt::{Budget, DefaultChatMemory, MemoryPrompt, Message, token::Estimate};
///
/// let budget = Budget::new(8_000).reserve(1_500).stepped(3_000, 6_000)?;
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_tokens(budget, Estimate);
/// prompt.add(Message::user("hi"))?;
/// assert_eq!(prompt.build()?.report().tokens.as_ref().map(|t| t.budget), Some(6_500));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    tokens: usize,
    reserve: usize,
    marks: Option<(usize, usize)>,
    cut_first: bool,
}

/// A budget with the counter that it is counted by.
#[derive(Clone)]
pub(super) struct Limit {
    pub(super) budget: Budget,
    pub(super) counter: Arc<dyn TokenCounter>,
}

impl Budget {
    /// At most `tokens` for the whole prompt.
    pub const fn new(tokens: usize) -> Self {
        Self { tokens, reserve: 0, marks: None, cut_first: false }
    }

    /// The same budget, with so many tokens kept free for the answer and for tool definitions.
    #[must_use]
    pub const fn reserve(self, tokens: usize) -> Self {
        Self { reserve: tokens, ..self }
    }

    /// The same budget for a provider that caches prompts: the start of the history moves seldom, and
    /// then so far that the history has between `low` and `high` tokens.
    ///
    /// In between prompts only grow at their end. The start is a pure function of the history, the
    /// same in every process: of all places that leave between `low` and `high` tokens it is the one
    /// whose position can be halved most often, for that place stays the same while the
    /// conversation moves past it. On average a move covers more than half of the room between the
    /// marks; `high = 2 * low` suits a cached price of 0.1. Leave room between `high` and the budget
    /// for the system message and temporaries; where those need more, the start moves for that one
    /// build.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where `low` is 0, or `high` is not above it or is more than the budget
    /// without its reserve.
    pub fn stepped(self, low: usize, high: usize) -> Result<Self> {
        let most = self.available();
        if low == 0 || high <= low || high > most {
            let text = format!("marks must be 0 < low < high <= {most}, and are {low} and {high}");
            return Err(Error::invalid("budget", text));
        }
        Ok(Self { marks: Some((low, high)), ..self })
    }

    /// The same budget, where truncation cuts long messages shorter, down to a sixteenth of its
    /// limit, before anything is dropped.
    ///
    /// Without truncation this changes nothing.
    #[must_use]
    pub const fn cut_before_drop(self) -> Self {
        Self { cut_first: true, ..self }
    }

    /// The tokens for the prompt itself.
    const fn available(&self) -> usize {
        self.tokens.saturating_sub(self.reserve)
    }
}

impl From<usize> for Budget {
    fn from(tokens: usize) -> Self {
        Self::new(tokens)
    }
}

/// What came of composing within a budget.
enum Fit {
    Ready(Box<Content>),
    ReadMore(usize),
    /// What must stay has so many tokens.
    TooMuch(usize),
}

impl fmt::Debug for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.budget.fmt(f)
    }
}

impl Limit {
    /// Composes the prompt that fits.
    pub(super) fn compose(
        &self,
        composer: &Composer,
        snapshot: &Snapshot,
        temporaries: &[Arc<Message>],
        cache: &mut ComposerCache,
    ) -> Result<Reach<Box<Content>>> {
        let first = self.fit(composer, snapshot, temporaries, cache)?;
        cache.counts.forget_unasked();
        let needed = match &first {
            Fit::ReadMore(n) => return Ok(Reach::ReadMore(*n)),
            Fit::TooMuch(needed) => Some(*needed),
            Fit::Ready(content) if content.report.over_budget > 0 && self.budget.cut_first => None,
            Fit::Ready(_) => return Ok(first.into()),
        };
        // A sixteenth for comfort; down to a single character where the prompt can't be sent else.
        let halvings = if needed.is_some() { usize::BITS } else { 4 };
        let mut shorter = composer.clone();
        let mut best = first;
        for _ in 0..halvings {
            let Some(truncate) = shorter.truncate.as_ref().and_then(Truncate::halved) else {
                break;
            };
            let limit = truncate.limit();
            shorter.truncate = Some(truncate);
            // Other texts have other counts.
            best = self.fit(&shorter, snapshot, temporaries, &mut ComposerCache::new())?;
            if let Fit::Ready(content) = &mut best {
                if let Some(tokens) = &mut content.report.details_mut().tokens {
                    tokens.cut_to = Some(limit);
                }
                if needed.is_some() || content.report.over_budget == 0 {
                    break;
                }
            }
        }
        match best {
            Fit::TooMuch(least) => Err(self.exceeded(needed.unwrap_or(least))),
            best => Ok(best.into()),
        }
    }

    fn fit(
        &self,
        composer: &Composer,
        snapshot: &Snapshot,
        temporaries: &[Arc<Message>],
        cache: &mut ComposerCache,
    ) -> Result<Fit> {
        let ComposerCache { counts, cuts } = cache;
        let records: Vec<Record<'_>> = snapshot.records.iter().collect();
        let walk = Walk { limit: self, composer, records: &records };
        let question = records.iter().rposition(|record| record.message().is_user());
        if question.is_none() && !snapshot.is_complete() {
            return Ok(Fit::ReadMore(more(records.len())));
        }
        let (window, unread) = match composer.opening(snapshot) {
            Reach::Found(opening) => (opening, None),
            // The window opens before what was read; or, where it opens on a user message, at the
            // first one that was read or before it. Only what is full by then is settled.
            Reach::ReadMore(n) => {
                let opens_on_user = composer.effective_window().opens_on_user();
                let first = records.iter().position(|r| opens_on_user && r.message().is_user());
                (Opening { start: first.unwrap_or(0), ..Opening::default() }, Some(n))
            }
        };
        let available = self.budget.available();
        let system = composer.system_message(snapshot, temporaries);
        let fixed = system.message.iter().chain(temporaries.iter().filter(|m| !m.is_system()));
        let mut fixed = fixed.map(|message| counts.shared(message, &*self.counter));
        let fixed = fixed.try_fold(self.counter.overhead().reply, |sum, tokens| {
            tokens.map(|tokens| sum.saturating_add(tokens))
        })?;
        let mut left = available.saturating_sub(fixed);
        loop {
            let mut start = walk.back(window.start, left, counts)?;
            if let Some(question) = question.filter(|q| start.is_some_and(|start| *q < start)) {
                let tokens = walk.record(records[question], counts)?;
                start = walk.back(window.start, left.saturating_sub(tokens), counts)?;
            }
            // Forward to a user message sends less, so it fits all the more.
            let start = start.map(|start| {
                let led = composer.opens_with_user(snapshot, start);
                let users = records.iter().skip(start).position(|r| led && r.message().is_user());
                start + users.unwrap_or(0)
            });
            let opening = match (start, unread) {
                (Some(start), _) => Opening { start, parted: 0, anchor: None },
                (None, None) => window,
                (None, Some(n)) => return Ok(Fit::ReadMore(n.min(more(records.len())))),
            };
            let anchor = question.filter(|question| *question < opening.start);
            let nothing = composer.effective_window().sends_nothing();
            let opening = Opening { anchor: anchor.filter(|_| !nothing), ..opening };
            let mut content =
                composer.assemble(snapshot, system.clone(), temporaries, opening, Some(cuts))?;
            let pieces = content.pieces.walk(&snapshot.records);
            let total = self.total(pieces, &walk, counts)?;
            if start.is_some() {
                content.report.over_budget = std::mem::take(&mut content.report.older);
            }
            let tokens = Tokens { total, budget: available, cut_to: None };
            content.report.details_mut().tokens = Some(tokens);
            if total <= available {
                return Ok(Fit::Ready(content));
            }
            // Either answers that were added in place of missing results count too, or what must
            // stay is too much by itself.
            if walk.back(window.start, 0, counts)?.is_none_or(|newest| newest <= opening.start) {
                return Ok(Fit::TooMuch(total));
            }
            left = left.saturating_sub(total - available);
        }
    }

    /// What the whole prompt counts.
    fn total<'a>(
        &self,
        pieces: impl Iterator<Item = Held<'a>>,
        walk: &Walk<'_>,
        counts: &mut Counts,
    ) -> Result<usize> {
        let mut total = self.counter.overhead().reply;
        for held in pieces {
            let count = || self.counter.count(held.message());
            let tokens = match held {
                Held::Record(_, record) => counts.record(record, count)?,
                Held::Own(message, origin) => match origin {
                    Origin::History(seq) | Origin::Truncated(seq) => {
                        walk.find(seq).map_or_else(count, |record| counts.record(record, count))?
                    }
                    Origin::Repair => {
                        let name = message.as_tool().map_or("", |tool| tool.tool_name());
                        counts.repair(name, message, &*self.counter)?
                    }
                    // Another copy in each prompt.
                    Origin::Adapted(_) | Origin::Joined(_) | Origin::Added => count()?,
                    Origin::System | Origin::Temporary => counts.shared(message, &*self.counter)?,
                },
            };
            total = total.saturating_add(tokens);
        }
        Ok(total)
    }

    /// The error where what must be sent is too much.
    fn exceeded(&self, needed: usize) -> Error {
        let budget = self.budget.available();
        let text = format!("what must be sent has {needed} tokens, and the budget is {budget}");
        Error::new(ErrorKind::Budget { needed, budget }, "compose", text)
    }
}

/// The records of a snapshot, walked from the newest back.
struct Walk<'a> {
    limit: &'a Limit,
    composer: &'a Composer,
    records: &'a [Record<'a>],
}

impl Walk<'_> {
    /// Where the history begins if it may have `available` tokens, or `None` where all of it from
    /// `floor` on fits. The newest unit always does.
    fn back(&self, floor: usize, available: usize, counts: &mut Counts) -> Result<Option<usize>> {
        let (low, high) = self.limit.budget.marks.unwrap_or((usize::MAX, usize::MAX));
        let most = available.min(high);
        let mut end = self.records.len();
        let mut sum = 0_usize;
        // The place between the marks whose position can be halved most often.
        let mut place: Option<(u32, usize)> = None;
        while end > floor {
            let (start, tokens) = self.unit(floor, end, counts)?;
            sum = sum.saturating_add(tokens);
            if sum > most && end < self.records.len() {
                return Ok(Some(place.map_or(end, |(_, start)| start)));
            }
            if sum >= low {
                let halvings = self.records[start].seq().trailing_zeros();
                if place.is_none_or(|(most, _)| halvings >= most) {
                    place = Some((halvings, start));
                }
            }
            end = start;
        }
        Ok(None)
    }

    /// The tool group or the single message that ends before `end`: where it begins, and its tokens.
    fn unit(&self, floor: usize, end: usize, counts: &mut Counts) -> Result<(usize, usize)> {
        let window = &self.records[floor..end];
        let checked = self.composer.tool_groups != ToolGroups::Off;
        let results = window.iter().rev().take_while(|r| checked && r.message().is_tool()).count();
        let Some(&head) = window.iter().rev().nth(results) else {
            return Ok((floor, 0)); // results without a call are not sent
        };
        let calls = head.message().as_ai().filter(|ai| checked && ai.has_tool_calls());
        if results > 0 && calls.is_none() {
            return Ok((end - results, 0));
        }
        let mut sum = self.record(head, counts)?;
        let mut calls = calls.map(OpenCalls::of);
        for &result in &self.records[end - results..end] {
            let id = result.message().as_tool().map_or("", |tool| tool.call_id());
            if calls.as_mut().is_some_and(|calls| calls.answer(id)) {
                sum = sum.saturating_add(self.record(result, counts)?);
            }
        }
        Ok((end - results - 1, sum))
    }

    /// The record at this position.
    fn find(&self, seq: u64) -> Option<Record<'_>> {
        let index = self.records.binary_search_by_key(&seq, Record::seq).ok()?;
        self.records.get(index).copied()
    }

    /// What a record counts as it is sent.
    fn record(&self, record: Record<'_>, counts: &mut Counts) -> Result<usize> {
        let message = record.message();
        counts.record(record, || {
            let truncate = self.composer.truncate.as_ref();
            match truncate.map(|truncate| truncate.judge(message, record.seq())).transpose()? {
                None | Some(Verdict::Keep) => self.limit.counter.count(message),
                Some(Verdict::Replace(copy)) => self.limit.counter.count(&copy),
                Some(Verdict::Drop) => Ok(0),
            }
        })
    }
}

impl From<Fit> for Reach<Box<Content>> {
    fn from(fit: Fit) -> Self {
        match fit {
            Fit::Ready(content) => Self::Found(content),
            Fit::ReadMore(n) | Fit::TooMuch(n) => Self::ReadMore(n),
        }
    }
}
