//! The token budget of a prompt: what fits, from the newest message back.

mod room;
mod settings;

use std::fmt;
use std::sync::Arc;

use super::beside::Beside;
use super::cache::ComposerCache;
use super::system::System;
use super::{Case, Temporaries};
use crate::composed::{Draft, Reason};
use crate::error::{Error, ErrorKind, Result};
use crate::pins::{Pinned, PinnedGroup};
use crate::token::TokenCounter;
use crate::truncate::Truncate;
use crate::window::NotReady;
use room::TokenRoom;

/// A number of tokens that a prompt may have, and what gives way when it has more.
///
/// The budget bounds everything that is sent: tool definitions, system message, history,
/// temporaries and what the provider adds for the reply. The oldest tool groups and messages leave
/// first, and no more of them than the budget demands. The newest user message and the newest group
/// stay; where they alone are too much, the build fails with [`ErrorKind::Budget`], or cuts them
/// where truncation is on.
///
/// A tool group or message that has more than half of all the room for history, and does not fit
/// beside what is newer, is left out alone: one page that is too long does not silence everything
/// before it. The [report](crate::Report::left_out) names it.
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
    range: Option<(usize, usize)>,
    cut_first: bool,
}

/// A budget with the counter that it is counted by.
#[derive(Clone)]
pub(super) struct CountedBudget {
    pub(super) budget: Budget,
    pub(super) counter: Arc<dyn TokenCounter>,
}

impl Budget {
    /// Returns a budget of at most `tokens` for the whole prompt.
    pub const fn new(tokens: usize) -> Self {
        Self { tokens, reserve: 0, range: None, cut_first: false }
    }

    /// Returns the same budget with this many tokens kept free for the answer. Tool definitions
    /// need no reserve: [those that are known](crate::MemoryPrompt::tools) are counted.
    ///
    /// Where the range of a [`stepped`](Self::stepped) budget ends above what is then left, each
    /// build is an error.
    #[must_use]
    pub const fn reserve(self, tokens: usize) -> Self {
        Self { reserve: tokens, ..self }
    }

    /// Returns the same budget for a provider that caches prompts: the start of the history moves
    /// seldom, and then so far that the history has between `low` and `high` tokens.
    ///
    /// In between prompts only grow at their end. The start is a pure function of the history, the
    /// same in every process: of all places that leave between `low` and `high` tokens it is the
    /// one whose position can be halved most often, for that place stays the same while the
    /// conversation moves past it. On average a move covers more than half of that
    /// range; `high = 2 * low` suits a cached price of 0.1. Leave room between `high` and the
    /// budget for the system message and temporaries; where those need more, the start moves for
    /// that one build.
    ///
    /// Beside [`Clear`](crate::Clear) what is cleared counts less, and the start may move back for
    /// it. Its [step](crate::Clear::step) should be a power of two, of at least as many messages as
    /// fill `low` tokens: then the start hardly ever does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where `low` is 0, or `high` is not above it or is more than the
    /// budget without its reserve.
    pub fn stepped(self, low: usize, high: usize) -> Result<Self> {
        let stepped = Self { range: Some((low, high)), ..self };
        stepped.check()?;
        Ok(stepped)
    }

    /// Refuses a range that is out of order, or ends above the tokens that there are.
    fn check(&self) -> Result<()> {
        let most = self.available();
        match self.range {
            Some((low, high)) if low == 0 || high <= low || high > most => {
                let are = format!("and are {low} and {high}");
                let text = format!("low and high must be 0 < low < high <= {most}, {are}");
                Err(Error::invalid("budget", text))
            }
            _ => Ok(()),
        }
    }

    /// Returns the same budget, for which truncation cuts long messages shorter, down to a
    /// sixteenth of its limit, before any message is left out. The question that it otherwise
    /// [spares](crate::Truncate::sparing_question) is cut too.
    ///
    /// Without truncation this changes nothing.
    #[must_use]
    pub const fn cut_before_drop(self) -> Self {
        Self { cut_first: true, ..self }
    }

    /// Returns the tokens for the prompt itself.
    pub(super) const fn available(&self) -> usize {
        self.tokens.saturating_sub(self.reserve)
    }
}

impl From<usize> for Budget {
    fn from(tokens: usize) -> Self {
        Self::new(tokens)
    }
}

impl fmt::Debug for CountedBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.budget.fmt(f)
    }
}

impl CountedBudget {
    /// Drafts the prompt that fits.
    pub(super) fn fit(
        &self,
        case: Case<'_>,
        cache: &mut ComposerCache,
    ) -> Result<Box<Draft>, NotReady> {
        self.budget.check()?;
        let Case { composer, beside, .. } = case;
        let first = self.fit_giving_way(case, cache)?;
        cache.counts.forget_unasked();
        // The tokens of a prompt that is too large, cut as far as it was tried.
        let mut least = None;
        let mut best = match first {
            Tried::TooMuch { tokens, .. } => {
                least = Some(tokens);
                None
            }
            Tried::Fits(draft) if self.budget.cut_first && leaves_out(&draft) => Some(draft),
            Tried::Fits(draft) => return Ok(draft),
        };
        // Down to a sixteenth to make room for more of the history; down to a single character
        // where the prompt can't be sent otherwise.
        let halvings = if least.is_some() { usize::BITS } else { 4 };
        let mut shorter = composer.clone();
        let spares = composer.truncate.as_ref().is_some_and(Truncate::spares_question);
        for _ in 0..halvings + u32::from(spares) {
            let Some(truncate) = shorter.truncate.as_ref().and_then(Truncate::shorter) else {
                break;
            };
            let limit = truncate.limit();
            shorter.truncate = Some(truncate);
            // Texts that are cut shorter have other counts, which are not remembered.
            let nothing = &mut ComposerCache::default();
            match self.fit_giving_way(Case { composer: &shorter, ..case }, nothing)? {
                Tried::Fits(mut draft) => {
                    if let Some(tokens) = &mut draft.report.tokens {
                        tokens.cut_to = Some(limit);
                    }
                    let is_enough = least.is_some() || !leaves_out(&draft);
                    best = Some(draft);
                    if is_enough {
                        break;
                    }
                }
                Tried::TooMuch { tokens, .. } => least = least.map(|it| it.min(tokens)),
            }
        }
        if let Some(draft) = best {
            return Ok(draft);
        }
        let tools = composer.tools_of(case.temporaries);
        let count = |it| cache.counts.tools(it, composer.provider, &*self.counter);
        Err(self.exceeded(least.unwrap_or_default(), tools.map_or(Ok(0), count)?, beside).into())
    }

    /// Drafts the prompt of as much as fits. What is kept free for recall gives way, as far as it
    /// must, before anything that must be sent.
    fn fit_giving_way(&self, case: Case<'_>, cache: &mut ComposerCache) -> Result<Tried, NotReady> {
        let tried = self.fit_units(case, cache)?;
        let Tried::TooMuch { tokens, .. } = tried else { return Ok(tried) };
        let Some(left) = self.budget.available().checked_sub(tokens) else { return Ok(tried) };
        // With less kept free more units fit, and the prompt may be too large again: then it is
        // tried with nothing kept free.
        for still_free in [left, 0] {
            let temporaries = Temporaries { still_free, ..case.temporaries };
            let fits = self.fit_units(Case { temporaries, ..case }, cache)?;
            if matches!(fits, Tried::Fits(_)) {
                return Ok(fits);
            }
        }
        Ok(tried)
    }

    /// Drafts the prompt of as many units of the history as fit.
    fn fit_units(&self, case: Case<'_>, cache: &mut ComposerCache) -> Result<Tried, NotReady> {
        let Case { composer, snapshot, temporaries, .. } = case;
        let system = composer.system_message(snapshot, temporaries.messages);
        let mut attempt = |most| self.attempt(case, &system, cache, most);
        let (mut least, units) = match attempt(usize::MAX)? {
            Tried::TooMuch { tokens, units } => (tokens, units),
            fits @ Tried::Fits(_) => return Ok(fits),
        };
        // A note and what the provider demands count too, and are known only now. As many of the
        // oldest units are left out for them as it takes, and no more.
        let (mut fits, mut too_many) = (0, units);
        let mut best = None;
        while fits + 1 < too_many {
            let middle = if fits == 0 && too_many == units { 1 } else { fits.midpoint(too_many) };
            match attempt(middle)? {
                Tried::Fits(draft) => {
                    fits = middle;
                    best = Some(draft);
                }
                Tried::TooMuch { tokens, .. } => {
                    too_many = middle;
                    least = least.min(tokens);
                }
            }
        }
        Ok(best.map_or(Tried::TooMuch { tokens: least, units: too_many }, Tried::Fits))
    }

    /// Drafts a prompt of at most `most` units of the history, and counts all of it.
    fn attempt(
        &self,
        case: Case<'_>,
        system: &System,
        cache: &mut ComposerCache,
        most: usize,
    ) -> Result<Tried, NotReady> {
        let ComposerCache { counts, copies, .. } = cache;
        let mut room = TokenRoom::new(self, case, system, counts, most)?;
        let choice = case.choose(&mut room)?;
        let (units, budget) = (room.taken(), self.budget.available());
        let mut draft = case.take(system.clone(), choice, Some(copies))?;
        let items = draft.pieces.items(&case.snapshot.records);
        let (tokens, message_tokens) = room.tokens(items, budget)?;
        let total = tokens.total;
        draft.report.tokens = Some(tokens);
        draft.report.message_tokens = message_tokens.into();
        Ok(if total.saturating_add(case.temporaries.still_free) <= budget {
            Tried::Fits(draft)
        } else {
            Tried::TooMuch { tokens: total, units }
        })
    }

    /// Returns the error for a prompt that does not fit, whatever is left out.
    fn exceeded(&self, needed: usize, tools: usize, beside: &Beside) -> Error {
        let budget = self.budget.available();
        let pins = named(&beside.pinned);
        let of_tools = if tools == 0 { String::new() } else { format!(" ({tools} of tools)") };
        let text = format!(
            "what must be sent{pins} has {needed} tokens{of_tools}, and the budget is {budget}"
        );
        Error::new(ErrorKind::Budget { needed, budget }, "compose", text)
    }
}

/// Names what is pinned, as far as that is a few positions.
fn named(pinned: &Pinned) -> String {
    let heads = pinned.groups.iter().map(PinnedGroup::head);
    let mut names: Vec<String> = heads.take(NAMED).map(|head| head.to_string()).collect();
    match pinned.groups.len().saturating_sub(NAMED) {
        0 => {}
        more => names.push(format!("{more} more")),
    }
    if names.is_empty() {
        return String::new();
    }
    format!(", pinned messages ({}) included,", names.join(", "))
}

/// The number of pins that an error names by their positions.
const NAMED: usize = 16;

/// Returns whether the budget has left something out.
fn leaves_out(draft: &Draft) -> bool {
    let report = &draft.report;
    report.over_budget > 0 || report.left_out.iter().any(|left| left.why == Reason::OverBudget)
}

/// The outcome of a draft within a budget.
enum Tried {
    Fits(Box<Draft>),
    /// The prompt does not fit: the tokens that it has, and its units of the history.
    TooMuch {
        tokens: usize,
        units: usize,
    },
}
