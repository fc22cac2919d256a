//! The window: which records are sent, by recency. Index arithmetic only.

mod groups;
mod matches;
mod settings;
mod turns;

pub use groups::ToolGroups;
pub(crate) use groups::whole_groups;
pub(crate) use matches::{Fate, Matches};
pub(crate) use turns::last_question;

use crate::error::{Error, Result};
use crate::record::{Snapshot, places};

/// The rule for which records of the history are sent, by recency.
///
/// | window | sends | for |
/// |---|---|---|
/// | [`last(n)`](Self::last) | the last `n` messages | short conversations; the default, with 10 |
/// | [`turns(n)`](Self::turns) | the last `n` turns, each whole | short turns of several messages |
/// | [`all()`](Self::all) | everything | conversations with an end |
/// | [`stepped(low, step)`](Self::stepped) | `low` to `low + step - 1` messages | cached prompts |
/// | [`stepped_for(low, prices)`](Self::stepped_for) | the same, at the lowest price | the same |
///
/// The system message and temporaries are not counted, and neither are the application's own
/// [records](crate::message::CustomMessage::is_private), which are never sent.
///
/// # What else stays
///
/// - **Tool groups** are whole. A window that would start with results of an older call leaves them
///   out; one that ends in a group larger than itself sends all of it. A late result takes the
///   group of its call along, even if that is far before it.
/// - **The question.** In a long tool loop the window may hold calls and results and no user
///   message. The question of the newest turn is then sent before it (if the question has several
///   pieces, the newest of them, up to half of the window), and the oldest messages give way, so
///   that `last(n)` still sends `n`. Only the newest group and the question always stay. In a
///   `stepped` window nothing gives way. [`exactly`](Self::exactly) switches this off.
///
/// Both are searched among the records before the window: 64, and four times as many as it reads at
/// first. For `last(10)` these are 104, under a token budget at most 320. A window skips at most
/// 1,024 of the application's own records. If such a search ends without success, the
/// [report](crate::Report::search_ended) says so. A running [`Turn`](crate::Turn) knows the place
/// of its question, and never loses it.
///
/// ```
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, ToolCall, Window};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).window(Window::last(4));
/// prompt.add(Message::user("Which of these twenty files is the oldest?"))?;
/// for i in 0..20 {
///     let id = format!("c{i}");
///     prompt.add(Message::ai_calls([ToolCall::new(&id, "stat", "{}")]))?;
///     prompt.add(Message::tool(&id, "stat", "2024-01-01"))?;
/// }
/// let sent = prompt.build()?;
/// assert_eq!(sent[0].text(), "Which of these twenty files is the oldest?");
/// assert_eq!(sent.len(), 3); // and one group, for two would be five messages
/// assert_eq!(sent.report().question, [0]);
/// assert_eq!(Window::last(4).exactly().to_string(), "the last 4 messages, exactly");
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    kind: Kind,
    starting_with_user: bool,
    exactly: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Last(usize),
    Turns(usize),
    All,
    Stepped { low: usize, step: usize },
}

/// The prices of a provider for a token of the prompt, in any unit: only the ratio counts.
///
/// ```
/// use memory_prompt::Window;
/// use memory_prompt::window::Prices;
///
/// let tenth = Prices { write: 1.0, read: 0.1 };
/// assert_eq!(Window::stepped_for(40, tenth)?, Window::stepped(40, 38)?);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Prices {
    /// A token that is not in the cache, and is written to it.
    pub write: f64,
    /// A token that is read from the cache.
    pub read: f64,
}

/// The place where a window starts among the records of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WindowStart {
    /// The place of the first record that the window covers.
    pub(crate) window_from: usize,
    /// The place of the first record that is sent: after tool results, which can't start a window.
    pub(crate) start: usize,
    /// True if the search for records to send ended because there were too many of the
    /// application's own.
    pub(crate) ended: bool,
    /// True if the window has room for more than there is: then it also covers rows before the
    /// first record.
    pub(crate) takes_all: bool,
}

/// The reason why composing stops before there is a prompt.
pub(crate) enum NotReady {
    /// Composing needs this many of the newest records to go on.
    ReadMore(usize),
    Failed(Error),
}

impl From<Error> for NotReady {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Window {
    /// Sends the last `n` messages; none with `n = 0`.
    #[doc(alias = "messages")]
    pub const fn last(n: usize) -> Self {
        Self::of(Kind::Last(n))
    }

    /// Sends the last `n` turns, each whole.
    ///
    /// A turn is a user message and everything that follows it up to the next one. User messages in
    /// a row, with no answer between them, begin one turn together, and a
    /// [steered](crate::message::UserMessage::steered) one begins none. Messages before the first
    /// user message, such as a greeting, belong to the first turn, unless they are more than some
    /// hundred.
    ///
    /// In a history without any user message each answer with its tool results is a turn of its
    /// own, and so is any other message. To find that out, the whole history is read: use
    /// [`last`](Self::last) for an agent without user messages.
    pub const fn turns(n: usize) -> Self {
        Self::of(Kind::Turns(n))
    }

    /// Sends everything.
    pub const fn all() -> Self {
        Self::of(Kind::All)
    }

    /// Sends at least the last `low` messages, and up to `step - 1` more: the start of the window
    /// moves only once every `step` messages.
    ///
    /// In between, prompts only grow at their end, so the provider's prompt cache serves everything
    /// that was sent before. The start is `floor(p / step) * step`, where `p` is the position of
    /// the `low`th newest message: a pure function of the positions, the same in every process. If
    /// it falls into a tool group, the whole group is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `low` or `step` is 0.
    pub fn stepped(low: usize, step: usize) -> Result<Self> {
        if low == 0 {
            return Err(Error::invalid("window", "a low mark of 0 would leave no messages"));
        }
        if step == 0 {
            return Err(Error::invalid("window", "a step of 0 would never move"));
        }
        Ok(Self::of(Kind::Stepped { low, step }))
    }

    /// Returns a [`stepped`](Self::stepped) window with the step that costs least at these prices:
    /// `2 * sqrt(low * (write - read) / read)` messages, and at least 1.
    ///
    /// A longer step sends more messages at the price of reading; a shorter one sends the whole
    /// window at the price of writing more often.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) if `low` is 0, or a price is not a
    /// positive number.
    pub fn stepped_for(low: usize, prices: Prices) -> Result<Self> {
        for (name, price) in [("write", prices.write), ("read", prices.read)] {
            if !(price.is_finite() && price > 0.0) {
                let text = format!("the {name} price is {price}, which is not a positive number");
                return Err(Error::invalid("window", text));
            }
        }
        let saved = (prices.write - prices.read).max(0.0) / prices.read;
        #[expect(clippy::cast_precision_loss, reason = "a window of 2^53 messages is no window")]
        let step = 2.0 * (low as f64 * saved).sqrt();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "not negative, and `as` stops at the largest number"
        )]
        Self::stepped(low, (step.round() as usize).max(1))
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, starting_with_user: false, exactly: false }
    }

    /// Returns the same window for a model that wants the user to speak first.
    ///
    /// If the window starts in the middle of a turn, the question of that turn is sent before it;
    /// the oldest messages give way, so that `last(n)` is still `n`. If nothing of the turn would
    /// be left after its question, or if the question is too far away or too large for a budget,
    /// everything before the first question that is sent is left out. A late result that came after
    /// that question stays, and its call may then come first. With a [`Provider`](crate::Provider)
    /// that requires this, it is done even without this method.
    #[must_use]
    pub const fn starting_with_user(self) -> Self {
        Self { starting_with_user: true, ..self }
    }

    /// Returns the same window without a question put before it, so that no message gives way. Tool
    /// groups stay whole all the same.
    #[must_use]
    pub const fn exactly(self) -> Self {
        Self { exactly: true, ..self }
    }

    pub(crate) const fn first_read(&self) -> usize {
        match self.kind {
            Kind::Last(n) => n,
            // A guess: a question, a tool call, its result and an answer.
            Kind::Turns(n) => n.saturating_mul(4),
            Kind::All => usize::MAX,
            Kind::Stepped { low, step } => low.saturating_add(step - 1),
        }
    }

    /// Returns the most messages that are sent, if the window has such a limit and lets others give
    /// way.
    pub(crate) const fn most(&self) -> Option<usize> {
        match self.kind {
            Kind::Last(n) if !self.exactly => Some(n),
            _ => None,
        }
    }

    /// Returns how many messages of a question in several pieces are put before the window: up to
    /// half of it, and at least the last.
    pub(crate) const fn half(&self) -> usize {
        let n = match self.kind {
            Kind::Last(n) => n,
            Kind::Stepped { low, .. } => low,
            Kind::Turns(_) | Kind::All => usize::MAX,
        };
        if n < 2 { 1 } else { n / 2 }
    }

    /// Returns the place where this window starts in `snapshot`, without regard to tool groups. A
    /// greeting of up to `bound` records belongs to the first turn.
    pub(crate) fn start(&self, snapshot: &Snapshot, bound: usize) -> Result<WindowStart, NotReady> {
        let have = snapshot.records.len();
        match self.kind {
            Kind::All if snapshot.is_complete() => Ok(WindowStart::all()),
            Kind::All => Err(NotReady::ReadMore(usize::MAX)),
            Kind::Last(0) | Kind::Turns(0) => Ok(WindowStart::at(have)),
            Kind::Last(n) => nth_newest(snapshot, n),
            Kind::Turns(n) => turns::start(snapshot, n, bound),
            Kind::Stepped { low, step } => {
                let WindowStart { start, ended, mut takes_all, .. } = nth_newest(snapshot, low)?;
                let mark = snapshot.position(start);
                let position = mark / step as u64 * step as u64;
                if snapshot.oldest_row() > position && !snapshot.is_complete() {
                    return Err(NotReady::ReadMore(places(snapshot.end - position)));
                }
                // Back from the low mark: at most one step is between.
                let back = snapshot.records.iter().rev().skip(have - start);
                let start = start - back.take_while(|record| record.position() >= position).count();
                takes_all |= position <= snapshot.start;
                Ok(WindowStart { ended, takes_all, ..WindowStart::at(start) })
            }
        }
    }

    /// Returns whether the start stays in its place while the conversation grows. Such a start
    /// moves back to the call of a tool group: if it moved forward, it would be back again in the
    /// next prompt.
    pub(crate) const fn is_stable(&self) -> bool {
        matches!(self.kind, Kind::Stepped { .. } | Kind::All)
    }

    pub(crate) const fn is_turns(&self) -> bool {
        matches!(self.kind, Kind::Turns(_))
    }

    pub(crate) const fn wants_user_first(&self) -> bool {
        self.starting_with_user
    }

    pub(crate) const fn is_exact(&self) -> bool {
        self.exactly
    }

    /// Returns whether only this window of the history is sent: no question before it, and no
    /// further records after a summary.
    pub(crate) const fn stands_alone(&self) -> bool {
        self.exactly || matches!(self.kind, Kind::Last(0) | Kind::Turns(0))
    }
}

impl Default for Window {
    /// Sends the last 10 messages.
    fn default() -> Self {
        Self::last(10)
    }
}

impl std::fmt::Display for Window {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.kind {
            Kind::Last(n) => write!(f, "the last {n} messages")?,
            Kind::Turns(n) => write!(f, "the last {n} turns")?,
            Kind::All => f.write_str("everything")?,
            Kind::Stepped { low, step } => {
                write!(f, "at least the last {low} messages, in steps of {step}")?;
            }
        }
        if self.starting_with_user {
            f.write_str(", starting with the user")?;
        }
        if self.exactly {
            f.write_str(", exactly")?;
        }
        Ok(())
    }
}

/// Returns the size of the next read if `have` records were not enough: doubling keeps the sum of
/// all reads linear.
pub(crate) fn more(have: usize) -> usize {
    have.saturating_mul(2).max(16)
}

impl WindowStart {
    const fn at(start: usize) -> Self {
        Self { window_from: start, start, ended: false, takes_all: false }
    }

    const fn all() -> Self {
        Self { takes_all: true, ..Self::at(0) }
    }
}

/// The most records of the application that a window skips.
const PASSED: usize = 1024;

/// Returns the place of the `n`th newest record that may be sent; records of the application are
/// skipped, up to a number.
fn nth_newest(snapshot: &Snapshot, n: usize) -> Result<WindowStart, NotReady> {
    let (have, complete) = (snapshot.records.len(), snapshot.is_complete());
    let start = have.saturating_sub(n);
    if (have >= n || complete) && snapshot.records.all_from(start, |message| !message.is_private())
    {
        // The usual case.
        return Ok(WindowStart { takes_all: have < n, ..WindowStart::at(start) });
    }
    let most = n.saturating_add(PASSED);
    let (mut sent, mut start) = (0, have);
    for record in snapshot.records.iter().rev().take(most) {
        start -= 1;
        sent += usize::from(!record.message().is_private());
        if sent == n {
            return Ok(WindowStart::at(start));
        }
    }
    if have >= most {
        let ended = start > 0 || !complete;
        Ok(WindowStart { ended, takes_all: !ended, ..WindowStart::at(start) })
    } else if complete {
        Ok(WindowStart::all())
    } else {
        Err(NotReady::ReadMore(if have < n { n } else { more(have).min(most) }))
    }
}
