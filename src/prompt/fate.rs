//! The fate of a record: whether and how a prompt sends it, or why it does not.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::{Adaptation, Prompt, Reason};
use crate::text::Grouped;

/// The fate of a record in a prompt. Its [word](Self::word) names it; its text adds the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Fate {
    /// It is sent unchanged, or with changes that the provider demands.
    Sent,
    /// It came late, and is sent after its call, which is at this position.
    Moved(u64),
    /// It is sent shortened or replaced: the bytes of its text before and after.
    Cut(usize, usize),
    /// It is sent with a placeholder: the bytes of its text before and after.
    Cleared(usize, usize),
    /// It is pinned, and sent before the window.
    Pinned,
    /// It is the question of a turn in the window, and sent before the window.
    Question,
    /// It is not sent, but a temporary message quotes it.
    Quoted,
    /// A summary or a compaction replaces it, and everything else before this position.
    Covered(u64),
    /// It is older than what is sent.
    BeforeWindow(Setting),
    /// It belongs to what is sent, but is left out.
    LeftOut(Reason),
    /// The memory has it, but can't read it.
    Unreadable,
    /// It is the application's own record, which is never sent to a provider.
    Private,
    /// The memory does not hold this position.
    NotHeld,
}

/// The setting that decides where the history of a prompt begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Setting {
    /// The [window](crate::Window).
    Window,
    /// The token [budget](crate::Budget).
    Budget,
    /// The [reach](crate::Composer::summary_reach) of the window back to a summary.
    Reach,
}

impl Prompt {
    /// Returns the fate of the record at a position.
    ///
    /// ```
    /// use memory_prompt::report::{Fate, Setting};
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Truncate};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
    ///     .max_messages(2)
    ///     .truncate(Truncate::chars(20)?);
    /// prompt.add_all(["Hello.", "Where is Oslo?", &"Please. ".repeat(9)].map(Message::user))?;
    /// let built = prompt.build()?;
    /// assert_eq!(built.fate(0), Fate::BeforeWindow(Setting::Window));
    /// assert_eq!(built.fate(1), Fate::Sent);
    /// assert_eq!(built.fate(2).word(), "cut");
    /// assert_eq!(built.fate(2).to_string(), "cut: from 72 to 20 bytes");
    /// assert_eq!(built.fate(3), Fate::NotHeld);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn fate(&self, position: u64) -> Fate {
        let report = self.report();
        let is = |positions: &[u64]| positions.contains(&position);
        if !report.held.contains(&position) {
            Fate::NotHeld
        } else if let Some(it) = report.cleared.iter().find(|it| it.position == position) {
            Fate::Cleared(it.from, it.to)
        } else if let Some(it) = report.truncated.iter().find(|it| it.position == position) {
            Fate::Cut(it.from, it.to)
        } else if is(&report.pinned_before) {
            Fate::Pinned
        } else if is(&report.question) {
            Fate::Question
        } else if let Some(it) = report.moved.iter().find(|it| it.position == position) {
            Fate::Moved(it.call)
        } else if self.sends(position) {
            Fate::Sent
        } else if report.recalled.iter().any(|it| it.position == position) {
            Fate::Quoted
        } else if let Some(it) = report.left_out.iter().find(|it| it.position == position) {
            Fate::LeftOut(it.why)
        } else if is(&report.unreadable) {
            Fate::Unreadable
        } else if position >= report.window {
            Fate::Private
        } else {
            self.fate_before_window(position)
        }
    }

    /// Returns the fate of a record before the window that is not sent by itself.
    fn fate_before_window(&self, position: u64) -> Fate {
        let report = self.report();
        match report.covers().filter(|covers| position < *covers) {
            Some(covers) => Fate::Covered(covers),
            None if report.over_budget > 0 => Fate::BeforeWindow(Setting::Budget),
            None if self.draft.by_reach => Fate::BeforeWindow(Setting::Reach),
            None => Fate::BeforeWindow(Setting::Window),
        }
    }

    pub(super) fn sent_positions(&self) -> impl Iterator<Item = u64> {
        let sent = self.with_origins().filter_map(|(origin, _)| origin.position());
        sent.chain(self.joined_positions()).chain(self.draft.system_record)
    }

    pub(crate) fn joined_positions(&self) -> impl Iterator<Item = u64> {
        let joined = self.report().adapted.iter().filter(|it| it.how == Adaptation::Joined);
        joined.filter_map(|it| it.position)
    }

    pub(super) fn sends(&self, position: u64) -> bool {
        self.sent_positions().any(|at| at == position)
    }

    /// Returns the ranges before the window that have no record that is sent or named by itself.
    pub(crate) fn before_window(&self) -> Vec<(Range<u64>, Fate)> {
        let report = self.report();
        let left_out = report.left_out.iter().map(|it| it.position);
        let quoted = report.recalled.iter().map(|it| it.position);
        let mut named: Vec<u64> = self.sent_positions().chain(left_out).chain(quoted).collect();
        named.retain(|position| *position < report.window);
        named.push(report.window);
        named.sort_unstable();
        let covers = report.covers().unwrap_or(0);
        let (mut stretches, mut from) = (Vec::new(), report.held.start);
        for position in named {
            let middle = covers.clamp(from, position.max(from));
            for stretch in [from..middle, middle..position] {
                if !stretch.is_empty() {
                    let fate = self.fate_before_window(stretch.start);
                    stretches.push((stretch, fate));
                }
            }
            from = position.saturating_add(1).max(from);
        }
        stretches
    }
}

impl Fate {
    /// Returns the name of the fate, in one to three words.
    pub fn word(self) -> &'static str {
        match self {
            Self::Sent => "sent",
            Self::Moved(_) => "moved",
            Self::Cut(..) => "cut",
            Self::Cleared(..) => "cleared",
            Self::Pinned => "pinned",
            Self::Question => "question",
            Self::Quoted => "quoted",
            Self::Covered(_) => "covered",
            Self::BeforeWindow(_) => "before the window",
            Self::LeftOut(_) => "left out",
            Self::Unreadable => "unreadable",
            Self::Private => "private",
            Self::NotHeld => "not held",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.word())?;
        match self {
            Self::Sent => f.write_str("in its place"),
            Self::Moved(call) => write!(f, "a late result, sent behind its call in {call}"),
            Self::Cut(from, to) | Self::Cleared(from, to) => {
                write!(f, "from {} to {} bytes", Grouped(from), Grouped(to))
            }
            Self::Pinned => f.write_str("sent before the window"),
            Self::Question => f.write_str("that of its turn, sent before the window"),
            Self::Quoted => f.write_str("fits the question, and is not sent otherwise"),
            Self::Covered(before) => write!(f, "by what stands for all before {before}"),
            Self::BeforeWindow(Setting::Window) => f.write_str("by the window's own size"),
            Self::BeforeWindow(Setting::Budget) => f.write_str("by the token budget"),
            Self::BeforeWindow(Setting::Reach) => f.write_str("by the reach of the summary"),
            Self::LeftOut(why) => why.fmt(f),
            Self::Unreadable => f.write_str("the memory can't read it"),
            Self::Private => f.write_str("of the application, which no provider is sent"),
            Self::NotHeld => f.write_str("the memory has no such position"),
        }
    }
}
