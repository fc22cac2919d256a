//! A line that says how much of the conversation a prompt does not show.

use serde::de::{Deserialize, Deserializer, Error as _};

use super::Composer;
use crate::message::Message;

/// A line before the window that says how many earlier messages are not shown.
///
/// Without it, a model does not know that there are more messages, and can neither ask for them nor
/// [search them](crate::recall::tools::SearchHistory). The number is rounded down to steps, so that
/// the line changes only once per step. Under a [budget](crate::Budget) the notice takes room only
/// if it is sent, and gives way before a build fails. It counts positions, including any records of
/// the application's own, but none that a summary covers. The summary and older pins are sent
/// before it, so they stay cached when it changes.
///
/// ```
/// use memory_prompt::compose::Notice;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
///
/// let text = "[About {count} earlier messages are not shown; search_history finds them.]";
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
///     .max_messages(2)
///     .notice(Notice::new().step(10).text(text));
/// prompt.add_all((0..25).map(|i| Message::user(i.to_string())))?;
/// let sent = prompt.build()?;
/// let texts: Vec<_> = sent.iter().map(|message| message.text()).collect();
/// let notice = "[About 20 earlier messages are not shown; search_history finds them.]";
/// assert_eq!(texts, [notice, "23", "24"]);
/// assert_eq!(sent.report().notice, Some(20));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Notice {
    text: String,
    step: u64,
}

impl Notice {
    /// Returns a notice in steps of 64: `[Earlier messages that are not shown: about 128.]`.
    pub fn new() -> Self {
        Self { text: TEXT.to_owned(), step: STEP }
    }

    /// Sets the text, in which `{count}` is replaced by the number of messages.
    #[must_use]
    pub fn text(mut self, text: impl Into<String>) -> Self {
        self.text = text.into();
        self
    }

    /// Sets the step to which the number is rounded down, though never to 0. A step of 0
    /// counts as 1.
    #[must_use]
    pub fn step(mut self, messages: u64) -> Self {
        self.step = messages.max(1);
        self
    }
}

impl Default for Notice {
    fn default() -> Self {
        Self::new()
    }
}

impl Composer {
    /// Adds a line that says how many earlier messages are not shown: see [`Notice`]. Off by
    /// default.
    #[must_use]
    pub fn notice(mut self, notice: Notice) -> Self {
        self.notice = Some(notice);
        self
    }

    /// Removes the notice.
    #[must_use]
    pub fn no_notice(mut self) -> Self {
        self.notice = None;
        self
    }

    /// Returns the notice for this many unshown messages, with its rounded number; `None` if all
    /// are shown.
    pub(super) fn notice_of(&self, not_shown: u64) -> Option<(u64, Message)> {
        let Notice { text, step } = self.notice.as_ref().filter(|_| not_shown > 0)?;
        let count = (not_shown / step * step).max(1);
        Some((count, Message::user(text.replace("{count}", &count.to_string()))))
    }
}

const TEXT: &str = "[Earlier messages that are not shown: about {count}.]";
const STEP: u64 = 64;

/// The serialised form of a notice: `{"step": 64, "text": "…"}`.
#[derive(serde::Deserialize)]
#[serde(
    remote = "Notice",
    deny_unknown_fields,
    default = "Notice::new",
    expecting = "a notice: an object"
)]
struct Shape {
    text: String,
    step: u64,
}

impl<'de> Deserialize<'de> for Notice {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let notice = Shape::deserialize(from)?;
        if notice.step == 0 {
            return Err(D::Error::custom("notice: `step`: a step of 0 would round to nothing"));
        }
        Ok(notice)
    }
}
