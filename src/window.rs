//! Which records are sent: index arithmetic, and nothing else.

mod groups;

pub use groups::ToolGroups;
pub(crate) use groups::{OpenCalls, whole_groups};

use crate::error::{Error, Result};
use crate::record::{Record, Snapshot};

/// Which records of the history are sent.
///
/// | window | sends | for |
/// |---|---|---|
/// | [`last(n)`](Self::last) | the last `n` messages | short conversations; the default, with 10 |
/// | [`turns(n)`](Self::turns) | the last `n` turns, each from its user message on | agents with tool loops |
/// | [`all()`](Self::all) | everything | conversations with an end |
/// | [`stepped(low, step)`](Self::stepped) | at least the last `low`, and up to `step - 1` more | long conversations with a provider that caches prompts |
/// | [`stepped_for(low, prices)`](Self::stepped_for) | the same, with the cheapest step | the same, by the provider's prices |
///
/// The system message and temporaries are not counted. A window is then moved so that it does not
/// open in the middle of a tool group: see [`ToolGroups`].
///
/// ```
/// use memory_prompt::Window;
///
/// let window = Window::last(20).starting_with_user().anchored();
/// assert_eq!(window.to_string(), "the last 20 messages, starting with the user, anchored");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Window {
    kind: Kind,
    starting_with_user: bool,
    anchored: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
enum Kind {
    Last(usize),
    Turns(usize),
    All,
    Stepped { low: usize, step: usize },
}

/// What a provider asks for a token of the prompt, in any unit: only the ratio counts.
///
/// ```
/// use memory_prompt::{Prices, Window};
///
/// let tenth = Prices { write: 1.0, read: 0.1 };
/// assert_eq!(Window::stepped_for(40, tenth)?, Window::stepped(40, 38)?);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// A token that is not in the cache, and is written to it.
    pub write: f64,
    /// A token that is read from the cache.
    pub read: f64,
}

/// Where a window begins among the records of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Opening {
    /// The index of the first record that is sent.
    pub(crate) start: usize,
    /// How many tool results before it the window covers, but may not open on.
    pub(crate) parted: usize,
    /// The index of the user message that is sent before it, though the window has passed it.
    pub(crate) anchor: Option<usize>,
}

/// An answer, or how many of the newest records it takes to give one.
pub(crate) enum Reach<T> {
    Found(T),
    ReadMore(usize),
}

impl Window {
    /// The last `n` messages; none with `n = 0`.
    pub const fn last(n: usize) -> Self {
        Self::of(Kind::Last(n))
    }

    /// The last `n` turns. A turn is a user message and all that follows it up to the next one.
    ///
    /// What stands before the first user message belongs to no turn; in a history without any user
    /// message there is no turn to count, and all of it is sent.
    pub const fn turns(n: usize) -> Self {
        Self::of(Kind::Turns(n))
    }

    /// Everything.
    pub const fn all() -> Self {
        Self::of(Kind::All)
    }

    /// At least the last `low` messages, and up to `step - 1` more: the start of the window moves
    /// only once every `step` messages.
    ///
    /// In between prompts only grow at their end, so the provider's prompt cache serves all that was
    /// sent before. The start is `floor((end - low) / step) * step` in positions: a pure function of
    /// where the conversation stands, the same in every process. Where it falls into a tool group,
    /// the whole group is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) where `low` or `step` is 0.
    pub fn stepped(low: usize, step: usize) -> Result<Self> {
        if low == 0 {
            return Err(Error::invalid("window", "a low mark of 0 would leave no messages"));
        }
        if step == 0 {
            return Err(Error::invalid("window", "a step of 0 would never move"));
        }
        Ok(Self::of(Kind::Stepped { low, step }))
    }

    /// A [`stepped`](Self::stepped) window with the step that costs least at these prices:
    /// `2 * sqrt(low * (write - read) / read)` messages, and at least 1.
    ///
    /// A longer step pays for more messages at the price of reading, a shorter one pays for the
    /// whole window at the price of writing more often.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) where `low` is 0, or a price is not a
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
        Self { kind, starting_with_user: false, anchored: false }
    }

    /// The same window, with its start moved forward to a user message.
    ///
    /// Where no user message is left in the window, as in a long tool loop, the current turn's user
    /// message is sent before it, as [`anchored`](Self::anchored) does.
    #[must_use]
    pub const fn starting_with_user(self) -> Self {
        Self { starting_with_user: true, ..self }
    }

    /// The same window, with the current turn's user message kept when a long tool loop has pushed
    /// it out: the model does not forget the question while it works on it.
    ///
    /// The message is sent before the window and is not counted.
    #[must_use]
    pub const fn anchored(self) -> Self {
        Self { anchored: true, ..self }
    }

    /// How many of the newest records to read at first.
    pub(crate) const fn first_read(&self) -> usize {
        match self.kind {
            Kind::Last(n) => n,
            // A guess: a question, a tool call, its result and an answer.
            Kind::Turns(n) => n.saturating_mul(4),
            Kind::All => usize::MAX,
            Kind::Stepped { low, step } => low.saturating_add(step - 1),
        }
    }

    /// How many records this window sends, where it is nothing but the newest.
    pub(crate) const fn newest(&self) -> Option<usize> {
        match self.kind {
            Kind::Last(n) if !self.starting_with_user && !self.anchored => Some(n),
            _ => None,
        }
    }

    /// Where this window opens in `snapshot`, before tool groups are looked at.
    pub(crate) fn opening(&self, snapshot: &Snapshot) -> Reach<Opening> {
        let have = snapshot.records.len();
        let complete = snapshot.is_complete();
        let start = match self.kind {
            Kind::Last(n) if have >= n || complete => have.saturating_sub(n),
            Kind::Last(n) => return Reach::ReadMore(n),
            Kind::Turns(0) => have,
            Kind::Turns(n) => match nth_last_user(snapshot, n) {
                Some(start) => start,
                None if complete => first_user(snapshot, 0).unwrap_or(0),
                None => return Reach::ReadMore(more(have)),
            },
            Kind::All if complete => 0,
            Kind::All => return Reach::ReadMore(usize::MAX),
            Kind::Stepped { low, step } => {
                let (low, step) = (low as u64, step as u64);
                let position = snapshot.end.saturating_sub(low) / step * step;
                if snapshot.oldest() > position && !complete {
                    return Reach::ReadMore(more(have));
                }
                snapshot.records.iter().take_while(|r| r.seq() < position).count()
            }
        };
        if start == have && self.sends_nothing() {
            return Reach::Found(Opening { start, parted: 0, anchor: None });
        }
        let user = if self.starting_with_user { first_user(snapshot, start) } else { None };
        let start = user.unwrap_or(start);
        if user.is_some() || !(self.anchored || self.starting_with_user) {
            return Reach::Found(Opening { start, parted: 0, anchor: None });
        }
        match nth_last_user(snapshot, 1) {
            Some(last) => {
                Reach::Found(Opening { start, parted: 0, anchor: (last < start).then_some(last) })
            }
            None if complete => Reach::Found(Opening { start, parted: 0, anchor: None }),
            None => Reach::ReadMore(more(have)),
        }
    }

    /// Whether the start stays in its place while the conversation grows. Such a start moves back to
    /// the call of a tool group: forward would be forward for one prompt and back for the next.
    pub(crate) const fn is_stable(&self) -> bool {
        matches!(self.kind, Kind::Stepped { .. } | Kind::All)
    }

    /// Whether the start of this window depends on where the user said something.
    pub(crate) const fn opens_on_user(&self) -> bool {
        self.starting_with_user || matches!(self.kind, Kind::Turns(_))
    }

    /// Whether this window sends no history at all, not even a question.
    pub(crate) const fn sends_nothing(&self) -> bool {
        matches!(self.kind, Kind::Last(0) | Kind::Turns(0))
    }
}

impl Default for Window {
    /// The last 10 messages.
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
        if self.anchored {
            f.write_str(", anchored")?;
        }
        Ok(())
    }
}

/// The next read when `have` records were not enough: doubling keeps the sum of all reads linear.
pub(crate) fn more(have: usize) -> usize {
    have.saturating_mul(2).max(16)
}

fn is_user(record: &Record<'_>) -> bool {
    record.message().is_user()
}

/// The index of the `n`th user message from the end, counted from 1.
fn nth_last_user(snapshot: &Snapshot, n: usize) -> Option<usize> {
    let mut back = snapshot.records.iter().rev().enumerate().filter(|(_, r)| is_user(r));
    let (from_end, _) = back.nth(n.checked_sub(1)?)?;
    Some(snapshot.records.len() - 1 - from_end)
}

/// The index of the first user message at `start` or after it.
fn first_user(snapshot: &Snapshot, start: usize) -> Option<usize> {
    let found = snapshot.records.iter().skip(start).position(|r| is_user(&r))?;
    Some(start + found)
}
