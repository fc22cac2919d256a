//! The report of a build, as plain data and as a few lines of text.

use std::fmt;
use std::ops::Range;

use serde::Serialize;

use super::{Fingerprint, SharedPrefix};
use crate::message::Role;
use crate::provider::Provider;
use crate::text::Grouped;

/// Everything that a build did to the history when it made the prompt.
///
/// ```
/// use memory_prompt::{ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(2);
/// prompt.add_all(["one", "two", "three"].map(Message::user))?;
/// let built = prompt.build()?;
/// assert_eq!(built.report().older, 1);
/// assert_eq!(
///     built.report().to_string(),
///     "2 messages: 2 of 3 from memory\n  left out   1 before the window\n"
/// );
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// The report accounts for every position of the memory: `stored` is the sum of `covered`, `older`,
/// `over_budget`, `sent`, `left_out`, `private` and `unreadable`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The number of messages in the prompt.
    pub messages: usize,
    /// The number of records in the memory, including a system record that begins them, but not a
    /// system message in its slot.
    pub stored: u64,
    /// The positions that the memory holds, including that system record.
    pub held: Range<u64>,
    /// The position from which the window covers all records. An older record is sent only for a
    /// reason of its own.
    pub window: u64,
    /// The number of records in the prompt, whole or truncated.
    pub sent: usize,
    /// The position before which the sent summary replaces everything.
    pub summary: Option<u64>,
    /// The number of characters cut off the end of that summary because it was too long.
    pub summary_cut: usize,
    /// The position of the answer that opens the history with the provider's own compaction, which
    /// replaces everything before it: see [`Row::compacts`](crate::provider::Row::compacts).
    pub compaction: Option<u64>,
    /// The number of records that are not sent because a summary or a compaction replaces them.
    pub covered: u64,
    /// The number of records older than the window; with a summary, those that are neither covered
    /// by it nor within the reach of the window.
    pub older: u64,
    /// The number of records left out because the token budget, not the window, decides where the
    /// history begins.
    pub over_budget: u64,
    /// The number of temporary messages in the prompt. A temporary system message is not counted,
    /// since it is joined to the system message.
    pub temporaries: usize,
    /// The source of the system message.
    pub system: SystemSource,
    /// True if another system message replaced the memory's.
    pub system_overridden: bool,
    /// True if the provider has no system messages, and the first user message begins with it.
    pub system_joined: bool,
    /// True if history is sent but the whole prompt has no user message.
    pub no_user_message: bool,
    /// The provider that the prompt is for, if one was named.
    pub provider: Option<Provider>,
    /// The tokens of the prompt, if it has a token budget.
    pub tokens: Option<Tokens>,
    /// The tokens of each message, in order, if the prompt has a token budget.
    pub message_tokens: Vec<usize>,
    /// Hashes of the tools and options of this prompt, as far as they are known: from
    /// [`MemoryPrompt::tools`](crate::MemoryPrompt::tools), or from
    /// [`Prompt::sent_as`](crate::Prompt::sent_as).
    pub fingerprint: Option<Fingerprint>,
    /// The prefix shared with the previous prompt, if that was given to
    /// [`Prompt::compared_to`](crate::Prompt::compared_to).
    pub shared_prefix: Option<SharedPrefix>,
    /// The number of the application's own records in the window, which are never sent to a
    /// provider.
    pub private: u64,
    /// The positions of user messages that are sent although they are older than the window.
    pub question: Vec<u64>,
    /// The positions of pinned records that are sent although they are older than the window.
    pub pinned_before: Vec<u64>,
    /// The pinned positions that the memory no longer holds, or can't read.
    pub lost_pins: Vec<u64>,
    /// The results that are sent after their call instead of in their own place.
    pub moved: Vec<Moved>,
    /// The positions of the results that a user note at the end of the history announces.
    pub note: Vec<u64>,
    /// The number of earlier messages that are not shown, according to the notice, if there is one.
    pub notice: Option<u64>,
    /// The position before which nothing was searched, if a question or the call of a result was
    /// not found, or if older messages were not reached because of too many records of the
    /// application. The question of a running turn is always found.
    pub search_ended: Option<u64>,
    /// The positions of system messages among the records that are sent in place.
    pub kept_systems: Vec<u64>,
    /// The roles of temporary messages that were dropped because the memory was swapped after a
    /// failed build.
    pub dropped_temporaries: Vec<Role>,
    /// The messages in the window that were left out, and why.
    pub left_out: Vec<LeftOut>,
    /// The positions in the window that the memory could not read.
    pub unreadable: Vec<u64>,
    /// The messages that truncation shortened or replaced.
    pub truncated: Vec<Truncated>,
    /// The messages with a result or media replaced by a placeholder: see [`Clear`](crate::Clear).
    pub cleared: Vec<Cleared>,
    /// The position from which pictures and documents are sent, if the provider takes no more of
    /// them: those before it are among the cleared. See
    /// [`Provider`](Provider#pictures-and-documents).
    pub media_from: Option<u64>,
    /// The calls that were answered because no result was recorded.
    pub repaired: Vec<Repaired>,
    /// The temporary tool results that answer no call, as indices among the temporaries. They are
    /// sent unchanged, since the caller added them.
    pub orphan_temporaries: Vec<usize>,
    /// The changes that were made to satisfy the provider.
    pub adapted: Vec<Adapted>,
    /// The older messages quoted in a temporary message, oldest first: see
    /// [`Recall`](crate::Recall).
    pub recalled: Vec<Recalled>,
    /// The reason why nothing is recalled, if recall is on.
    pub nothing_recalled: Option<NothingRecalled>,
    /// The error of the application's own search for recall; the prompt was built without that
    /// search.
    pub candidates_failed: Option<String>,
}

/// An older message that is quoted because it fits the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Recalled {
    /// Its position.
    pub position: u64,
    /// Its score in thousandths. A neighbour of a hit may have a low score, or 0.
    pub score: u32,
    /// True if its whole text is quoted, false if passages are.
    pub whole: bool,
}

/// The reason why nothing is recalled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NothingRecalled {
    /// The prompt has no question.
    NoQuestion,
    /// No unsent message fits the question well enough.
    NothingFits,
    /// Every hit is longer than the room that the window leaves in the budget, or than recall may
    /// send: see [`Recall::keep_free`](crate::Recall::keep_free).
    NoRoom,
    /// The excerpts would have pushed something out of the window.
    GaveWay,
}

impl fmt::Display for NothingRecalled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoQuestion => "no question",
            Self::NothingFits => "nothing fits",
            Self::NoRoom => "no room",
            Self::GaveWay => "it gave way to the window",
        })
    }
}

/// A result that is sent after its call instead of in its own place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Moved {
    /// Its position.
    pub position: u64,
    /// The position of the message with the call.
    pub call: u64,
}

/// The tokens of a prompt, compared with its budget.
///
/// `total` is the sum of `tools`, `reply` and the [`message_tokens`](Report::message_tokens).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Tokens {
    /// The tokens of the whole prompt.
    pub total: usize,
    /// The tokens of the tool definitions.
    pub tools: usize,
    /// The tokens of the beginning of the answer.
    pub reply: usize,
    /// The tokens that the prompt may have, without the reserve.
    pub budget: usize,
    /// The tokens [reserved](crate::Budget::reserve) for the answer, on top of `budget`.
    pub reserve: usize,
    /// The limit to which texts were cut so that the prompt fits, if that was needed.
    pub cut_to: Option<usize>,
}

/// The source of the system message of a prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SystemSource {
    /// There is no system message.
    #[default]
    None,
    /// It is the prompt's own.
    Prompt,
    /// It is the memory's.
    Memory,
    /// It is a temporary one, alone or appended to another.
    Temporary,
}

/// A message that belongs to what is sent, but was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeftOut {
    /// Its position.
    pub position: u64,
    /// Its role.
    pub role: Role,
    /// The reason.
    pub why: Reason,
}

/// The reason why a message was left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// A tool result at the start of the window whose call is older.
    Opening,
    /// A tool result without a call, or whose call was not found as far back as calls are searched:
    /// [`Report::search_ended`] has that position.
    NoCall,
    /// A tool result for a call that is already answered.
    Answered,
    /// A stand-in for a result that arrived later.
    Replaced,
    /// It takes more than half of the room for history, does not fit next to what is newer, and is
    /// left out alone.
    OverBudget,
    /// The rest of a turn whose question is not sent, if the user must come first: the question is
    /// too far away, or does not fit together with an answer to it.
    RestOfTurn,
    /// The truncation processor dropped it.
    Dropped,
    /// The truncation processor dropped another message of its tool group.
    GroupDropped,
    /// A system message among the records: a prompt has one, which comes first.
    SecondSystem,
    /// A message that says nothing, which the provider refuses.
    Blank,
    /// An answer that consists only of another provider's private parts, or of media that the
    /// provider does not take.
    Foreign,
    /// An answer that consists only of calls of the provider's own tools that have no result.
    Unanswered,
    /// An answer that consists only of results of the provider's own tools whose call is not sent.
    Uncalled,
    /// An answer that consists only of pictures or documents, of which the provider takes no more.
    Media,
    /// An answer that consists only of the provider's own compaction, and is pinned: another
    /// compaction, or the window, decides what replaces the messages before it.
    Compaction,
}

/// A message that was shortened, or replaced by a truncation processor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Truncated {
    /// Its position.
    pub position: u64,
    /// Its role.
    pub role: Role,
    /// The bytes of its text before.
    pub from: usize,
    /// The bytes of its text after.
    pub to: usize,
    /// The place where text was left out; `None` if a processor replaced the message, or a
    /// placeholder its text.
    pub gap: Option<Gap>,
}

/// The place in the sent message where text was left out. If the message was
/// [joined](Adaptation::Joined) to others for a provider, the place in the joined message.
///
/// ```
/// use memory_prompt::text::Keep;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Truncate};
///
/// let ends = Truncate::chars(9)?.keep(Keep::Ends).marker(" … ");
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).truncate(ends);
/// prompt.add(Message::user("Hello, world"))?;
/// let built = prompt.build()?;
/// let gap = built.report().truncated[0].gap.ok_or("not cut")?;
/// let text = built[0].text();
/// assert_eq!(&text[..gap.at], "Hel");
/// assert_eq!(&text[gap.at..gap.at + gap.marker], " … ");
/// assert_eq!(gap.left_out, "lo, wo".len());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Gap {
    /// The index of the text with the gap, among the sent [texts](crate::Message::texts).
    pub text: usize,
    /// The bytes of that text before the gap.
    pub at: usize,
    /// The bytes of the marker in the gap, which is not part of the message's text.
    pub marker: usize,
    /// The bytes of the message's texts that are left out.
    pub left_out: usize,
}

/// A message in which a tool result, or media, was replaced by a placeholder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Cleared {
    /// Its position.
    pub position: u64,
    /// Its role.
    pub role: Role,
    /// The bytes of its text before; bytes of media are not counted.
    pub from: usize,
    /// The bytes of its text after, with the placeholder.
    pub to: usize,
}

/// A tool call that was answered because no result was recorded.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Repaired {
    /// The position of the message that made the call; `None` for a temporary one.
    pub position: Option<u64>,
    /// The id of the call.
    pub call_id: String,
}

/// A message that was changed, or got another message next to it, to satisfy the provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Adapted {
    /// The position of the message; `None` for a temporary one, or if there is no message.
    pub position: Option<u64>,
    /// Its role.
    pub role: Role,
    /// The change that was made.
    pub how: Adaptation,
}

/// A change that was made so that a provider takes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Adaptation {
    /// A placeholder user message was put before it, because a prompt must begin with the user.
    Opened,
    /// A placeholder answer was put before it, because the user can't follow a tool result.
    Answered,
    /// It was joined to the message before it, because user and model must alternate.
    Joined,
    /// A placeholder replaces its blank text, or its blank parts were left out.
    Blank,
    /// The reasoning at its end was left out.
    Reasoning,
    /// The ids of its calls, or of the call that it answers, were replaced.
    CallIds,
    /// The names of the tools that it calls, or of the one that it answers for, were replaced.
    ToolNames,
    /// Its parts that only another provider understands were left out: a search, a call of a hosted
    /// tool, a picture that the model made.
    Foreign,
    /// The provider's own compaction in it was left out, because it is pinned and does not open the
    /// history.
    Compaction,
    /// Calls of the provider's own tools were left out, because they have no result and another
    /// message follows.
    Unanswered,
    /// The result of a call of the provider's own tool, or the mark of calls that it made, was left
    /// out, because that call is not sent.
    Uncalled,
    /// Arguments that are not a JSON object, because the model was cut off within them, are sent as
    /// a text in an object.
    Arguments,
    /// White space at its end was left out, because it would end the prompt.
    Trimmed,
    /// A placeholder user message was put after it, because a prompt must not end in an answer.
    Closed,
    /// Each of its calls is sent in an answer of its own, before its result.
    Split,
}

impl Report {
    /// Returns the position before which a summary or a compaction replaces everything.
    pub(super) fn covers(&self) -> Option<u64> {
        self.summary.max(self.compaction)
    }

    /// Returns whether the whole history is in the prompt, unchanged.
    pub fn is_untouched(&self) -> bool {
        self.older == 0
            && self.covered == 0
            && self.over_budget == 0
            && self.left_out.is_empty()
            && self.unreadable.is_empty()
            && self.truncated.is_empty()
            && self.cleared.is_empty()
            && self.repaired.is_empty()
            && self.adapted.is_empty()
            && self.moved.is_empty()
            && !self.system_overridden
    }

    /// Writes what was changed.
    fn fmt_changes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Truncated { position, role, from, to, .. } in &self.truncated {
            let (from, to) = (Grouped(from), Grouped(to));
            writeln!(f, "  truncated  {position}: {role}, {from} to {to} bytes")?;
        }
        for Cleared { position, role, from, to } in &self.cleared {
            let (from, to) = (Grouped(from), Grouped(to));
            writeln!(f, "  cleared    {position}: {role}, {from} to {to} bytes")?;
        }
        if let Some(position) = self.media_from {
            writeln!(f, "  media      before {position} gave way: the provider takes no more")?;
        }
        for Repaired { position, call_id } in &self.repaired {
            match position {
                Some(position) => write!(f, "  repaired   {position}: ")?,
                None => f.write_str("  repaired   a temporary: ")?,
            }
            writeln!(f, "call {call_id:?} had no result")?;
        }
        for Adapted { position, role, how } in &self.adapted {
            match position {
                Some(position) => writeln!(f, "  adapted    {position}: {role}, {how}")?,
                None => writeln!(f, "  adapted    {role}, {how}")?,
            }
        }
        for Recalled { position, score, whole } in &self.recalled {
            let passage = if *whole { "" } else { ", a passage" };
            let (ones, rest) = (score / 1000, score % 1000 / 10);
            writeln!(f, "  recalled   {position}: score {ones}.{rest:02}{passage}")?;
        }
        if let Some(why) = self.nothing_recalled {
            writeln!(f, "  recalled   nothing: {why}")?;
        }
        if let Some(error) = &self.candidates_failed {
            writeln!(f, "  also       the application's own search failed: {error}")?;
        }
        Ok(())
    }

    /// Writes what is sent next to the window.
    fn write_beside(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.pinned_before.is_empty() {
            writeln!(f, "  pinned     {}: sent before the window", Folded(&self.pinned_before))?;
        }
        if !self.lost_pins.is_empty() {
            let lost = Folded(&self.lost_pins);
            writeln!(f, "  pinned     {lost}: not held by the memory any more")?;
        }
        // The later of the two counts.
        let covered = format!("in place of {}", Grouped(self.covered));
        if let Some(position) = self.summary {
            let is_later = self.compaction.is_none_or(|compaction| compaction < position);
            let stands = if is_later { format!("{covered} ") } else { String::new() };
            writeln!(f, "  summary    {stands}before {position}")?;
            if self.summary_cut > 0 {
                let cut = Grouped(self.summary_cut);
                writeln!(f, "  also       {cut} characters of it were cut")?;
            }
        }
        if let Some(position) = self.compaction {
            let is_later = self.summary.is_none_or(|summary| summary <= position);
            let stands = if is_later { format!(", {covered}") } else { String::new() };
            writeln!(f, "  compacted  {position}: the provider's own{stands}")?;
        }
        Ok(())
    }
}

/// Shows any number of positions in one line: how many, and the first of them.
struct Folded<'a>(&'a [u64]);

impl fmt::Display for Folded<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if self.0.len() > 1 {
            write!(f, "{} messages at ", Grouped(self.0.len()))?;
        }
        for (i, position) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{position}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str(if self.0.len() > SHOWN { " …" } else { "" })
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let s = if self.messages == 1 { "" } else { "s" };
        write!(f, "{} message{s}: ", Grouped(self.messages))?;
        if self.system != SystemSource::None {
            f.write_str("system, ")?;
        }
        write!(f, "{} of {} from memory", Grouped(self.sent), Grouped(self.stored))?;
        if self.temporaries > 0 {
            write!(f, ", {} temporary", Grouped(self.temporaries))?;
        }
        if !self.repaired.is_empty() {
            write!(f, ", {} added", Grouped(self.repaired.len()))?;
        }
        if let Some(Tokens { total, budget, tools, .. }) = self.tokens {
            write!(f, ", {} of {} tokens", Grouped(total), Grouped(budget))?;
            if tools > 0 {
                write!(f, " ({} of tools)", Grouped(tools))?;
            }
        }
        if let Some(provider) = self.provider {
            write!(f, ", for {provider}")?;
        }
        writeln!(f)?;
        if let Some(limit) = self.tokens.and_then(|tokens| tokens.cut_to) {
            writeln!(f, "  budget     texts cut to {} so that it fits", Grouped(limit))?;
        }
        if self.system == SystemSource::Prompt && self.system_overridden {
            writeln!(f, "  system     the prompt's own; the memory's is not sent")?;
        }
        if self.system == SystemSource::Temporary {
            writeln!(f, "  system     with a temporary one")?;
        }
        if let Some(shared) = &self.shared_prefix {
            writeln!(f, "  cache      {shared}")?;
        }
        if self.system_joined {
            writeln!(f, "  system     in front of the first user message")?;
        }
        self.write_beside(f)?;
        for position in &self.question {
            writeln!(f, "  question   {position}: sent before the window")?;
        }
        for Moved { position, call } in &self.moved {
            writeln!(f, "  moved      {position}: a late result, sent behind its call in {call}")?;
        }
        for position in &self.kept_systems {
            writeln!(f, "  system     {position}: in its place")?;
        }
        if self.older > 0 {
            writeln!(f, "  left out   {} before the window", Grouped(self.older))?;
        }
        if self.over_budget > 0 {
            writeln!(f, "  left out   {} over the token budget", Grouped(self.over_budget))?;
        }
        for LeftOut { position, role, why } in &self.left_out {
            writeln!(f, "  left out   {position}: {role}, {why}")?;
        }
        if let Some(count) = self.notice {
            writeln!(f, "  notice     about {} are not shown", Grouped(count))?;
        }
        if self.private > 0 {
            writeln!(f, "  left out   {} of the application", Grouped(self.private))?;
        }
        for position in &self.unreadable {
            writeln!(f, "  left out   {position}: the memory can't read it")?;
        }
        self.fmt_changes(f)?;
        for index in &self.orphan_temporaries {
            writeln!(f, "  also       temporary {index} answers no call")?;
        }
        if !self.note.is_empty() {
            writeln!(f, "  note       says at the end which results have come")?;
        }
        if let Some(position) = self.search_ended {
            writeln!(f, "  also       nothing before {position} was looked at")?;
        }
        for role in &self.dropped_temporaries {
            writeln!(f, "  also       a temporary ({role}) was dropped with the memory before")?;
        }
        if self.no_user_message {
            writeln!(f, "  also       no message of the user is left")?;
        }
        Ok(())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opening => "its call is before the window",
            Self::NoCall => "no call was found that it answers",
            Self::Answered => "its call has been answered",
            Self::Replaced => "it stood in for a result that has come",
            Self::OverBudget => "too large beside what is newer",
            Self::RestOfTurn => "the rest of a turn whose question is not sent",
            Self::Dropped => "dropped by the processor",
            Self::GroupDropped => "the processor dropped a part of its tool group",
            Self::SecondSystem => "a second system message",
            Self::Blank => "it says nothing",
            Self::Foreign => "only another provider understands it",
            Self::Unanswered => "a call of the provider's own tool that has no result",
            Self::Uncalled => "a result of the provider's own tool of which the call is not sent",
            Self::Media => "nothing but media, of which the provider takes no more",
            Self::Compaction => "a compaction that does not open the history",
        })
    }
}

impl fmt::Display for Adaptation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Opened => "with a user message put before it",
            Self::Answered => "with an answer put before it",
            Self::Joined => "joined to the message before it",
            Self::Blank => "blank",
            Self::Reasoning => "without the reasoning at its end",
            Self::CallIds => "with other call ids",
            Self::ToolNames => "with other names of tools",
            Self::Foreign => "without what only another provider understands",
            Self::Unanswered => "without a call of the provider's own tool that has no result",
            Self::Uncalled => {
                "without what belongs to a call of the provider's own tool that is not sent"
            }
            Self::Compaction => "without the provider's own compaction",
            Self::Arguments => "with its arguments as a text",
            Self::Trimmed => "without the white space at its end",
            Self::Closed => "with a user message put behind it",
            Self::Split => "as an answer for each of its calls",
        })
    }
}
