//! Truncation: shortened copies of messages that are too long.

mod settings;

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Role, ToolMessage};
use crate::text::{Cut, Keep, Place, Unit};

/// A truncation: how messages that are too long are shortened.
///
/// The limit applies to the text of one message as a whole: texts of several parts share it. Only
/// text of user, ai and tool messages is cut; tool calls, ids, media and reasoning are never
/// edited. A cut falls between two characters as a reader sees them (extended grapheme clusters).
/// Text never becomes empty, or white space alone: if its end that is kept is that, the
/// [marker](Self::marker) is sent in its place, or else `…`.
///
/// ```
/// use memory_prompt::text::Keep;
/// use memory_prompt::{Message, Truncate};
///
/// let head = Truncate::chars(5)?;
/// assert_eq!(head.shorten(&Message::user("Hello, world")), Some(Message::user("Hello")));
/// assert_eq!(head.shorten(&Message::user("ok")), None); // it fits, so nothing is copied
///
/// let ends = Truncate::chars(9)?.keep(Keep::Ends).marker(" … ");
/// assert_eq!(ends.shorten(&Message::user("Hello, world")), Some(Message::user("Hel … rld")));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// A [processor](Self::processor) decides itself what is sent of a message. It is code: serialising
/// a `Truncate` with a processor is an error.
#[derive(Clone)]
pub struct Truncate {
    cut: Cut,
    processor: Option<Arc<dyn TruncateProcessor>>,
    bounded: bool,
    spares_question: bool,
}

/// Decides what is sent of a message of the history.
///
/// A closure `Fn(&Message) -> Option<Message>` is one: it returns the replacement, or `None` to
/// keep the message as it is.
///
/// # Contract
///
/// The same message in the same place must always get the same verdict. A processor does not see
/// how far a message is from the end, so that a message that was cut yesterday is cut the same way
/// tomorrow; it must not read a clock either. A replacement keeps the role and the ids of tool
/// calls; otherwise the build fails. [`Message::map_texts`] keeps everything except the texts. Once
/// stored, media that the memory keeps beside its records come as
/// [`Source::Reference`](crate::message::Source::Reference), without their bytes.
///
/// ```
/// use memory_prompt::truncate::{TruncateContext, TruncateProcessor, Verdict};
/// use memory_prompt::{Message, Truncate};
///
/// /// Keeps only the first lines of the results of noisy tools.
/// struct FirstLines(usize);
///
/// impl TruncateProcessor for FirstLines {
///     fn process(
///         &self,
///         message: &Message,
///         _: &TruncateContext,
///     ) -> Result<Verdict, Box<dyn std::error::Error + Send + Sync>> {
///         if !message.is_tool() {
///             return Ok(Verdict::Keep);
///         }
///         let first = |text: &str| text.lines().take(self.0).collect::<Vec<_>>().join("\n");
///         Ok(Verdict::Replace(message.map_texts(first)))
///     }
/// }
///
/// let truncate = Truncate::default().processor(FirstLines(3));
/// let shout = |message: &Message| Some(message.map_texts(str::to_uppercase));
/// let shout = Truncate::default().processor(shout);
/// ```
pub trait TruncateProcessor: Send + Sync {
    /// Decides what is sent of `message`.
    ///
    /// # Errors
    ///
    /// An error fails the build; nothing is lost, and temporaries are kept for the next one.
    fn process(
        &self,
        message: &Message,
        context: &TruncateContext,
    ) -> Result<Verdict, Box<dyn StdError + Send + Sync>>;
}

/// The decision of a [`TruncateProcessor`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// The message is sent as it is.
    Keep,
    /// This message is sent in its place.
    Replace(Message),
    /// The message is left out, together with its tool group.
    Drop,
}

/// What a [`TruncateProcessor`] gets in addition to the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TruncateContext {
    /// The configured limit.
    pub limit: usize,
    /// The unit that the limit counts.
    pub unit: Unit,
    /// The role of the message.
    pub role: Role,
    /// Its position since the conversation began.
    pub position: u64,
}

impl Truncate {
    /// Cuts to at most `limit` characters as a reader sees them (extended grapheme clusters, UAX
    /// #29).
    ///
    /// A cluster of more than 32 scalar values counts as several: one for each 32 that it holds or
    /// begins.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a limit of 0.
    pub fn chars(limit: usize) -> Result<Self> {
        Self::new(limit, Unit::Graphemes)
    }

    /// Cuts to at most `limit` of `unit`. With every unit a cut falls between two characters.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for a limit of 0.
    pub fn new(limit: usize, unit: Unit) -> Result<Self> {
        let limit = NonZeroUsize::new(limit)
            .ok_or_else(|| Error::invalid("truncate", "a limit of 0 would leave no text"))?;
        Ok(Self::of(Cut::new(limit, unit)))
    }

    const fn of(cut: Cut) -> Self {
        Self { cut, processor: None, bounded: false, spares_question: false }
    }

    /// Keeps this end of the text; the default is [`Keep::Head`].
    #[must_use]
    pub fn keep(mut self, keep: Keep) -> Self {
        self.cut = self.cut.keep(keep);
        self
    }

    /// Replaces the text that is left out by a marker, for example `… [{left_out} characters left
    /// out] …`. It counts within the limit.
    #[must_use]
    pub fn marker(mut self, marker: impl Into<String>) -> Self {
        self.cut = self.cut.marker(marker);
        self
    }

    /// Passes each message to `processor`, which decides instead of the cut.
    #[must_use]
    pub fn processor(mut self, processor: impl TruncateProcessor + 'static) -> Self {
        self.processor = Some(Arc::new(processor));
        self
    }

    /// Enforces the limit on the replacements of the processor, too.
    #[must_use]
    pub fn bounded(mut self) -> Self {
        self.bounded = true;
        self
    }

    /// Leaves the newest question whole: the user messages with which the newest turn begins are
    /// not shortened, so that an instruction at the end of a pasted page is not lost. A processor
    /// still gets them.
    ///
    /// Once the next turn begins, the question is shortened like any other message, and the
    /// prompt's cached prefix breaks there:
    /// [`Break::Truncation`](crate::report::Break::Truncation). If a [budget](crate::Budget) can't
    /// be met otherwise, the question is shortened even so: first to the limit, and below the limit
    /// only if that is still too long. With [`Keep::Ends`] in addition, the instruction at its end
    /// is kept even then; if a cache matters more, use that alone.
    ///
    /// ```
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Truncate};
    ///
    /// let page = "word ".repeat(1000) + "Translate this.";
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
    ///     .truncate(Truncate::chars(800)?.sparing_question());
    /// prompt.add(Message::user(page))?;
    /// assert!(prompt.build()?[0].text().ends_with("Translate this."));
    /// prompt.add(Message::ai("mot mot mot"))?;
    /// prompt.add(Message::user("Thanks!"))?;
    /// assert_eq!(prompt.build()?[0].text().len(), 800);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn sparing_question(mut self) -> Self {
        self.spares_question = true;
        self
    }

    /// Returns a shortened copy of `message`, or `None` if it fits. The processor does not run.
    pub fn shorten(&self, message: &Message) -> Option<Message> {
        self.cut(message).map(|(copy, _)| copy)
    }

    /// Returns a shortened copy of `message`, and the place of the cut, or `None` if it fits.
    fn cut(&self, message: &Message) -> Option<(Message, Cutting)> {
        let texts: Vec<&str> = message.texts().collect();
        let plan = self.cut.plan(&texts)?;
        let mut places = 0..;
        let left = |text: &str| plan.piece(places.next()?, text).map(Cow::into_owned);
        let copy = message.with_texts(left)?;
        Some((copy, Cutting { head: plan.head, marker: plan.marker.len() }))
    }

    /// Returns the limit.
    pub fn limit(&self) -> usize {
        self.cut.limit().get()
    }

    /// Returns the next shorter truncation. At first the question is no longer spared; then each
    /// one has half the limit of the one before, which applies to replacements of a processor too.
    /// `None` at a limit of 1.
    pub(crate) fn shorter(&self) -> Option<Self> {
        if self.spares_question {
            return Some(Self { spares_question: false, ..self.clone() });
        }
        let limit = NonZeroUsize::new(self.limit() / 2)?;
        let cut = self.cut.clone().limited(limit);
        Some(Self { cut, bounded: true, ..self.clone() })
    }

    pub(crate) fn spares_question(&self) -> bool {
        self.spares_question
    }

    pub(crate) fn has_processor(&self) -> bool {
        self.processor.is_some()
    }

    /// Returns whether a message of any text is kept, since it has no more bytes than the limit has
    /// units.
    pub(crate) fn surely_keeps(&self, message: &Message) -> bool {
        self.processor.is_none()
            && match message {
                Message::Ai(m) => m.bytes() <= self.limit(),
                other => other.content().is_none_or(|it| it.bytes() <= self.limit()),
            }
    }

    /// Decides whether the record at `position` is kept, replaced or dropped, and returns the place
    /// of a cut. A message that is to stay `whole` is not cut, but a processor decides on it.
    pub(crate) fn judge(
        &self,
        message: &Message,
        position: u64,
        whole: bool,
    ) -> Result<(Verdict, Option<Cutting>)> {
        let cut = || match self.cut(message).filter(|_| !whole) {
            None => (Verdict::Keep, None),
            Some((copy, cutting)) => (Verdict::Replace(copy), Some(cutting)),
        };
        let Some(processor) = &self.processor else { return Ok(cut()) };
        let (role, unit) = (message.role(), self.cut.unit());
        let context = TruncateContext { limit: self.limit(), unit, role, position };
        let error = |what: &str| {
            let text = format!("the processor {what} message {position} ({role})");
            Error::new(ErrorKind::Truncate, "truncate", text)
        };
        let verdict = processor.process(message, &context);
        match verdict.map_err(|source| error("failed on").with_source(source))? {
            Verdict::Replace(new) if !same_shape(message, &new) => {
                Err(error("changed the role or the call ids of"))
            }
            Verdict::Replace(new) if self.bounded && !whole => {
                Ok((Verdict::Replace(self.shorten(&new).unwrap_or(new)), None))
            }
            Verdict::Keep if self.bounded => Ok(cut()),
            verdict => Ok((verdict, None)),
        }
    }
}

/// The place after which text of a message was left out, and the bytes of the marker there.
#[derive(Clone, Copy)]
pub(crate) struct Cutting {
    pub(crate) head: Place,
    pub(crate) marker: usize,
}

/// Returns whether `new` may replace `old`: it has the same role, calls and answered call.
fn same_shape(old: &Message, new: &Message) -> bool {
    old.role() == new.role()
        && old.as_tool().map(ToolMessage::call_id) == new.as_tool().map(ToolMessage::call_id)
        && old.tool_calls().map(|call| &call.id).eq(new.tool_calls().map(|call| &call.id))
}

impl Default for Truncate {
    /// Keeps the first 1000 characters.
    fn default() -> Self {
        const LIMIT: NonZeroUsize = NonZeroUsize::MIN.saturating_add(999);
        Self::of(Cut::new(LIMIT, Unit::Graphemes))
    }
}

impl<F> TruncateProcessor for F
where
    F: Fn(&Message) -> Option<Message> + Send + Sync,
{
    fn process(
        &self,
        message: &Message,
        _: &TruncateContext,
    ) -> Result<Verdict, Box<dyn StdError + Send + Sync>> {
        Ok(self(message).map_or(Verdict::Keep, Verdict::Replace))
    }
}

impl fmt::Debug for Truncate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Truncate")
            .field("cut", &self.cut)
            .field("processor", &self.processor.is_some())
            .field("bounded", &self.bounded)
            .field("spares_question", &self.spares_question)
            .finish()
    }
}
