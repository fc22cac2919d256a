//! The token budget of a prompt: what fits, from the newest message back.

mod room;
mod settings;

use std::sync::Arc;

use super::cache::ComposerCache;
use super::counts::Counts;
use super::{Case, Composer, Temporaries};
use crate::error::{Error, ErrorKind, Result};
use crate::pins::{Pinned, PinnedGroup};
use crate::prompt::{Draft, Reason};
use crate::token::TokenCounter;
use crate::truncate::Truncate;
use crate::window::NotReady;
use room::TokenRoom;

/// A number of tokens for a prompt, with the rules for what gives way if it is exceeded.
///
/// The budget bounds everything that is sent: tool definitions, system message, history,
/// temporaries, and what the provider adds for the reply. The question of the newest turn and the
/// newest tool group or message get their room first. The rest goes to the others, newest first, so
/// that the oldest are left out first, and only as many as needed. If question and newest group
/// alone are too much, the build fails with [`ErrorKind::Budget`], which names the least budget
/// that would do; if truncation is on, they are cut instead.
///
/// The first other tool group or message that takes more than half of the room for history, and
/// does not fit next to what is newer, is left out alone, so that one very long page does not push
/// out everything before it. The [report](crate::Report::left_out) names it. With the next one the
/// history ends, since a history of such messages would leave nothing but the short ones between
/// them. If a question has several messages, the newest of them are sent before the rest of the
/// history, up to half of the room. If no tool group, message or question takes more than half of
/// the room that temporaries leave, a larger budget sends no less, unless the smaller one sends an
/// older question in several messages before its window.
///
/// The room kept free for [recall](crate::recall::Recall::keep_free) and a
/// [notice](crate::compose::Notice) give way before a build fails, but only to what must be sent.
/// If texts are cut [before](Self::cut_before_drop) anything is left out, the room for recall also
/// gives way before that, if all is sent whole then.
///
/// If the prompt is for a provider, a message counts as it is sent: without reasoning that the
/// provider does not take back, and with the text that replaces media that it does not take.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(into = "settings::Shape")]
pub struct Budget {
    tokens: usize,
    reserve: usize,
    range: Option<(usize, usize)>,
    cut_first: bool,
}

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
    /// need no reserve, since [known ones](crate::MemoryPrompt::tools) are counted.
    ///
    /// If the range of a [`stepped`](Self::stepped) budget ends above what is left then, each build
    /// is an error.
    #[must_use]
    pub const fn reserve(self, tokens: usize) -> Self {
        Self { reserve: tokens, ..self }
    }

    /// Returns the same budget for a provider that caches prompts: the start of the history moves
    /// seldom, and then so far that the history has between `low` and `high` tokens.
    ///
    /// Between two moves, prompts only grow at their end. The start is a pure function of the
    /// history, the same in every process: of all places that leave between `low` and `high`
    /// tokens, it is the first one after a multiple of the largest power of two, counted in
    /// positions, since that place stays the best for longest while the conversation grows. It does
    /// not matter at which positions messages or tool groups begin. If messages are of one size, a
    /// move covers at least half of the range, and on average more; if they become much longer for
    /// good, a few moves are shorter. A history that ends with a second very long message may have
    /// fewer than `low`. `high = 2 * low` suits a cached price of 0.1. Leave room between `high`
    /// and the budget for the system message and temporaries; if those need more, the start moves
    /// for that one build.
    ///
    /// Together with [`Clear`](crate::Clear), cleared messages count less, so the start may move
    /// back. To make that rare, set its [step](crate::Clear::step) to a power of two, of at least
    /// as many messages as fill `low` tokens.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if `low` is 0, if `high` is not above `low`, or if `high` is more
    /// than the budget without its reserve.
    pub fn stepped(self, low: usize, high: usize) -> Result<Self> {
        let stepped = Self { range: Some((low, high)), ..self };
        stepped.check()?;
        Ok(stepped)
    }

    /// Refuses a range that is out of order, or ends above the available tokens.
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
    /// sixteenth of its limit, before any message is left out, and only as short as needed. The
    /// question that truncation otherwise [spares](crate::Truncate::sparing_question) is cut too.
    ///
    /// Use it for conversations that end: once a conversation has outgrown the budget for good, all
    /// its long texts stay cut to a sixteenth, and each build tries every length on the way.
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

impl CountedBudget {
    /// Drafts the largest prompt that fits.
    pub(super) fn fit(
        &self,
        case: Case<'_>,
        cache: &mut ComposerCache,
    ) -> Result<Box<Draft>, NotReady> {
        self.budget.check()?;
        let mut least = match self.fit_cutting(case, cache)? {
            Tried::Fits(draft) => return Ok(draft),
            Tried::TooMuch(tokens) => tokens,
        };
        // The first try may not be the least: a longer prompt may need no message put in front, so
        // that a smaller budget suffices.
        let with = |tokens| {
            let budget = Budget { tokens, reserve: 0, ..self.budget };
            Self { budget, counter: Arc::clone(&self.counter) }
        };
        while let Tried::TooMuch(tokens) = with(least).fit_cutting(case, cache)? {
            least = tokens.max(least.saturating_add(1));
        }
        while least > 0
            && let Tried::Fits(_) = with(least - 1).fit_cutting(case, cache)?
        {
            least -= 1;
        }
        Err(self.exceeded(least, case, &mut cache.counts)?)
    }

    /// Drafts the prompt, with texts cut shorter only if needed.
    fn fit_cutting(&self, case: Case<'_>, cache: &mut ComposerCache) -> Result<Tried, NotReady> {
        let mut tried = self.fit_giving_way(case, cache)?;
        cache.counts.forget_unasked();
        let mut shorter = case.composer.truncate.clone();
        // To make room for more history, texts are cut down to a sixteenth; if the prompt can't be
        // sent otherwise, to a single character.
        let shortest = shorter.as_ref().map_or(0, Truncate::limit) / 16;
        let mut least = usize::MAX;
        let mut best = None;
        loop {
            match tried {
                Tried::TooMuch(tokens) => least = least.min(tokens),
                Tried::Fits(draft) => {
                    let leaves_out = self.budget.cut_first && leaves_out(&draft);
                    best = Some(draft);
                    if !leaves_out || shorter.as_ref().is_none_or(|it| it.limit() <= shortest) {
                        break;
                    }
                }
            }
            shorter = shorter.as_ref().and_then(Truncate::shorter);
            let Some(truncate) = &shorter else { break };
            let composer = Composer { truncate: shorter.clone(), ..case.composer.clone() };
            // Nothing is spared any more. Texts that are cut shorter have other counts, which are
            // not kept.
            let nothing = &mut ComposerCache::default();
            let case = Case { composer: &composer, spared: &[], ..case };
            tried = self.fit_giving_way(case, nothing)?;
            if let Tried::Fits(draft) = &mut tried
                && let Some(tokens) = &mut draft.report.tokens
            {
                tokens.cut_to = Some(truncate.limit());
            }
        }
        Ok(best.map_or(Tried::TooMuch(least), Tried::Fits))
    }

    /// Drafts as much as fits. First the room kept for recall gives way, then the notice, but only
    /// to what must be sent: older messages don't get that room.
    fn fit_giving_way(&self, case: Case<'_>, cache: &mut ComposerCache) -> Result<Tried, NotReady> {
        let mut tried = self.fit_units(case, cache, usize::MAX)?;
        let is_kept_free = case.temporaries.still_free > 0;
        let temporaries = Temporaries { still_free: 0, ..case.temporaries };
        let case = Case { temporaries, ..case };
        if is_kept_free {
            tried = tried.or(|| self.fit_units(case, cache, usize::MAX))?;
            // It gives way before texts are cut too, if nothing is left out then.
            let is_whole = |it: &Tried| matches!(it, Tried::Fits(draft) if !leaves_out(draft));
            let cuts = self.budget.cut_first && case.composer.truncate.is_some();
            if cuts && !is_whole(&tried) {
                let other = self.fit_units(case, cache, usize::MAX)?;
                tried = if is_whole(&other) { other } else { tried };
            }
        }
        if case.composer.notice.is_some() {
            let composer = case.composer.clone().no_notice();
            tried = tried.or(|| self.fit_units(Case { composer: &composer, ..case }, cache, 1))?;
        }
        Ok(tried)
    }

    /// Drafts the prompt with as many units of the history as fit, at most `most`.
    fn fit_units(
        &self,
        case: Case<'_>,
        cache: &mut ComposerCache,
        mut most: usize,
    ) -> Result<Tried, NotReady> {
        let Case { composer, snapshot, temporaries, .. } = case;
        let budget = self.budget.available();
        let mut least = usize::MAX;
        loop {
            let system = composer.system_message(snapshot, temporaries.messages);
            let mut room = TokenRoom::new(self, case, &system, &mut cache.counts, most)?;
            let choice = case.choose(&mut room)?;
            let mut draft = case.drafted(system, choice, Some(&mut cache.copies))?;
            let total = room.tokens(&mut draft)?;
            let needed = total.saturating_add(temporaries.still_free);
            let is_least = most <= 1;
            if needed <= budget || (is_least && total <= budget) {
                return Ok(Tried::Fits(draft));
            }
            least = least.min(total);
            if is_least {
                return Ok(Tried::TooMuch(least));
            }
            // Notes and messages that the provider demands count too, and are known only now. As
            // many of the oldest units are left out for them as surely have to be, and no more,
            // since with another unit in front less may be demanded. The older messages of the
            // question leave last, since they get their room first.
            let excess = needed.saturating_sub(budget);
            most = most.min(room.keeps(&draft, excess)).saturating_sub(1).max(1);
        }
    }

    fn exceeded(&self, needed: usize, case: Case<'_>, counts: &mut Counts) -> Result<NotReady> {
        let Case { composer, extras, temporaries, .. } = case;
        let count = |it| counts.tools(it, composer.provider, &*self.counter);
        let tools = composer.tools_of(temporaries).map_or(Ok(0), count)?;
        let budget = self.budget.available();
        let pins = named(&extras.pinned);
        let summary = extras.summary.as_ref();
        let summary = summary.map_or(Ok(0), |it| counts.message(&it.message, &*self.counter))?;
        let parts = [(tools, "tools"), (summary, "the summary")].into_iter();
        let parts = parts.filter(|(n, _)| *n > 0).map(|(n, whose)| format!("{n} of {whose}"));
        let parts = parts.collect::<Vec<_>>().join(", ");
        let parts = if parts.is_empty() { parts } else { format!(" ({parts})") };
        let name = if self.budget.reserve > 0 { "budget without its reserve" } else { "budget" };
        let text = format!(
            "what must be sent{pins} has {needed} tokens{parts}, and the {name} is {budget}"
        );
        Ok(Error::new(ErrorKind::Budget { needed, budget }, "compose", text).into())
    }
}

/// Names the pinned positions, up to a few.
fn named(pinned: &Pinned) -> String {
    let heads = pinned.groups.iter().map(PinnedGroup::head);
    let mut names: Vec<String> = heads.take(NAMED).map(|head| head.to_string()).collect();
    if pinned.groups.len() > NAMED {
        names.push(format!("{} more", pinned.groups.len() - NAMED));
    }
    if names.is_empty() {
        return String::new();
    }
    format!(", pinned messages ({}) included,", names.join(", "))
}

const NAMED: usize = 16;

fn leaves_out(draft: &Draft) -> bool {
    let report = &draft.report;
    report.over_budget > 0 || report.left_out.iter().any(|left| left.why == Reason::OverBudget)
}

enum Tried {
    Fits(Box<Draft>),
    /// The prompt does not fit. Holds the fewest tokens that were tried.
    TooMuch(usize),
}

impl Tried {
    fn or(self, other: impl FnOnce() -> Result<Self, NotReady>) -> Result<Self, NotReady> {
        let Self::TooMuch(least) = self else { return Ok(self) };
        Ok(match other()? {
            Self::TooMuch(tokens) => Self::TooMuch(least.min(tokens)),
            fits @ Self::Fits(_) => fits,
        })
    }
}
