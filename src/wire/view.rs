//! [`View`]: messages as a format writes them, and what all formats share.

use std::fmt;

use serde::ser::{Error as _, Serialize, Serializer};

use super::borrowed::{BorrowedValue, Object};
use super::common::{At, Sequence};
use super::losses::{ARGUMENTS, Loss, Losses, Weight};
use super::terms::{Sent, Terms};
use crate::error::Result;
use crate::message::{Message, Reasoning};
use crate::prompt::Prompt;
use crate::provider::Provider;

/// A view of messages that serialises as the list in a format's request.
///
/// Each module has one, under the name of its list, such as
/// [`openai::Messages`](super::openai::Messages), with the options of that format in addition to
/// those here. A view borrows: nothing is copied before it is serialised, which fails only if a
/// message has a [reference](crate::message::MediaReference) instead of media. A placeholder
/// replaces what the format can't express; [`strict`](Self::strict) refuses it instead.
#[derive(Clone, Debug)]
pub struct View<'a, F> {
    pub(super) messages: Sequence<'a>,
    pub(super) terms: Terms,
    pub(super) cache: Option<Cache>,
    /// True if the request has marks of the application's own outside its messages.
    pub(super) has_marks: bool,
    pub(super) options: F,
}

/// The number of blocks at which Anthropic looks to find a cached prefix: one with a mark, and
/// those before it.
const LOOK_BACK: usize = 20;

/// How long a provider keeps the cached prefix.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cache {
    /// The provider's default: five minutes at Anthropic.
    Short,
    Hour,
}

/// A format in which messages are written, with its own options.
pub trait MessageFormat: Copy + Default + fmt::Debug {
    /// The provider that the format is named after.
    const NAMESAKE: Provider;
    /// The operation that errors name.
    const OPERATION: &'static str;
    /// True if the messages are stored, not sent to a provider.
    const STORED: bool = false;

    /// Returns the messages in this format, and notes each loss.
    fn messages<'s>(view: &View<'_, Self>, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>>;

    /// Returns the name of this reasoning in errors, if a strict view refuses to lose it.
    fn refuses(_reasoning: &Reasoning) -> Option<&'static str> {
        None
    }
}

/// A format of a provider, not of a store.
pub trait ForProvider: MessageFormat {}

/// A format whose blocks can carry a cache mark.
pub trait Marks: ForProvider {}

impl<'a, F: MessageFormat> View<'a, F> {
    /// Returns a view of messages that are not in a prompt, for example of an imported history.
    ///
    /// ```
    /// use memory_prompt::Message;
    /// use memory_prompt::wire::{gemini, openai};
    ///
    /// let messages = [Message::user("hi"), Message::ai("Hello.")];
    /// assert_eq!(
    ///     serde_json::to_string(&openai::Messages::of(&messages))?,
    ///     r#"[{"role":"user","content":"hi"},{"role":"assistant","content":"Hello."}]"#,
    /// );
    /// let json = serde_json::to_value(gemini::Contents::of(&messages))?;
    /// assert_eq!(json[1], serde_json::json!({"role": "model", "parts": [{"text": "Hello."}]}));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn of(messages: impl IntoIterator<Item = &'a Message>) -> Self {
        Self::new(Sequence::of(messages), &Terms::of(F::NAMESAKE))
    }

    pub(super) fn of_prompt(prompt: &'a Prompt) -> Self {
        Self::new(Sequence::of_prompt(prompt), &Terms::for_prompt(prompt, F::NAMESAKE))
    }

    fn new(messages: Sequence<'a>, terms: &Terms) -> Self {
        Self { messages, terms: *terms, cache: None, has_marks: false, options: F::default() }
    }

    /// Returns the view if it can express all of its messages.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if something would be left out or
    /// replaced by a placeholder; the error names the message and the part. Losses that the
    /// module's documentation calls silent are not errors.
    ///
    /// ```
    /// use memory_prompt::Message;
    /// use memory_prompt::message::{Media, Part};
    /// use memory_prompt::wire::anthropic::Messages;
    ///
    /// let film = Message::user([Part::Video(Media::url("https://e.x/a.mp4"))]);
    /// let error = Messages::of([&film]).strict().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "write anthropic messages: messages[0].content[0]: video is not supported by this format"
    /// );
    /// ```
    pub fn strict(self) -> Result<Self> {
        self.check(Weight::Reasoning).map(|()| self)
    }

    /// Refuses a loss of at least this weight.
    pub(super) fn check(&self, least: Weight) -> Result<()> {
        let Some(Loss { message, part, what }) = self.noted().first(least) else { return Ok(()) };
        let is_answer = self.messages.iter().nth(message).is_some_and(|it| it.as_ai().is_some());
        let at = At::top(F::OPERATION).key("messages").index(message);
        let list = at.key(if is_answer { "parts" } else { "content" });
        let at = part.map_or(at, |part| list.index(part));
        Err(match what {
            ARGUMENTS => at.unsupported("the arguments are not a JSON object"),
            what => {
                let row = &self.terms.row;
                let is_named = !F::STORED && row.name() != F::NAMESAKE.row().name();
                let by = if is_named { row.name() } else { "this format" };
                at.unsupported(format_args!("{what} is not supported by {by}"))
            }
        })
    }

    /// Returns everything that would be left out or replaced, in the order of the messages: all
    /// that [`strict`](Self::strict) refuses, and also the names of users and reasoning that is not
    /// sent to this provider.
    ///
    /// ```
    /// use memory_prompt::message::{Media, Part, UserMessage};
    /// use memory_prompt::wire::ollama::Messages;
    ///
    /// let film = [Part::text("Look:"), Part::Video(Media::url("https://e.x/a.mp4"))];
    /// let message = UserMessage::new(film).with_name("Klaus").into();
    /// let losses = Messages::of([&message]).losses();
    /// let told: Vec<_> = losses.iter().map(ToString::to_string).collect();
    /// assert_eq!(told, ["message 0, part 1: video", "message 0: the name of the user"]);
    /// ```
    pub fn losses(&self) -> Vec<Loss> {
        self.noted().into_list()
    }

    fn noted(&self) -> Losses {
        let losses = Losses::default();
        F::messages(self, &self.sent(&losses));
        losses
    }

    /// Returns the messages as they are sent under the terms of this view.
    pub(super) fn sent<'s>(&'s self, losses: &'s Losses) -> Vec<Sent<'s>> {
        if F::STORED {
            let whole = |(i, message)| Sent::whole(i, message, losses);
            return self.messages.iter().enumerate().map(whole).collect();
        }
        self.terms.sent(&self.messages, F::refuses, losses)
    }
}

impl<F: MessageFormat> Serialize for View<'_, F> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.messages.must_hold_media().map_err(S::Error::custom)?;
        F::messages(self, &self.sent(&Losses::default())).serialize(serializer)
    }
}

impl<F: ForProvider> View<'_, F> {
    /// Writes for this provider: with its options, and with those private fields that it takes
    /// back. The view of a prompt that was composed for a provider of this format does this by
    /// itself.
    #[must_use]
    pub fn for_provider(mut self, provider: Provider) -> Self {
        self.terms.row = provider.row();
        self
    }

    /// Writes all private fields, whichever provider gave them: for an archive, or for a server
    /// that forwards the messages.
    #[must_use]
    pub fn verbatim(mut self) -> Self {
        self.terms.verbatim = true;
        self
    }

    /// Writes the name of a user in front of the text, for formats and servers without a field for
    /// it: `Klaus: What is the weather?`
    #[must_use]
    pub fn names_in_text(mut self) -> Self {
        self.terms.names_in_text = true;
        self
    }
}

impl<F: Marks> View<'_, F> {
    /// Puts the provider's cache mark on the last block before the
    /// [cacheable boundary](Prompt::cacheable); without a prompt, on the last block of all.
    ///
    /// - In OpenAI's formats this is a `prompt_cache_breakpoint`. Blocks of content can have it,
    ///   but not calls, and in Responses not the model's own messages: it is on the last message
    ///   before the boundary with such a block. For OpenRouter and `LiteLLM` it is Anthropic's
    ///   `cache_control`, on a text.
    /// - In Anthropic's format it is `cache_control`. `thinking` blocks can't be marked, so it is
    ///   before them.
    /// - Anthropic looks 20 blocks back from a `cache_control`, so there is a second one: on the
    ///   newest question before the newest answer, which the next turn finds, or, if the newest
    ///   answer and its results are 20 blocks or more, on the last block before them, where the
    ///   request before this one ended. A request may have four marks; an application sets its own
    ///   with a `cache_control` under `anthropic` in the `extra` of a part, and there is only one
    ///   of this crate's in the messages then.
    #[must_use]
    pub fn cache_prefix(mut self) -> Self {
        self.cache = Some(Cache::Short);
        self
    }

    /// Marks the last cacheable message that can have a mark, if one is wanted. `written` has the
    /// place of each message.
    pub(super) fn mark<T>(
        &self,
        written: &mut [(usize, T)],
        mark: impl FnMut(&mut T, Cache) -> bool,
    ) {
        self.mark_before(self.messages.cacheable, written, mark);
    }

    /// The same for formats in which the API looks 20 blocks back from a mark. The newest question
    /// before the newest answer is marked too, unless the application has marks of its own: the
    /// next turn repeats all up to there, and may repeat no more. If the mark of the request before
    /// this one, just before the newest answer, is too far back, that place is marked instead.
    pub(super) fn mark_twice<T>(
        &self,
        written: &mut [(usize, T)],
        is_answer: impl Fn(&T) -> bool,
        has_marks: impl Fn(&T) -> bool,
        blocks: impl Fn(&T) -> usize,
        mut mark: impl FnMut(&mut T, Cache) -> bool,
    ) {
        if self.cache.is_none() {
            return;
        }
        let cacheable = self.messages.cacheable;
        let newest = written.iter().rfind(|(i, it)| *i < cacheable && is_answer(it));
        let answer = newest.map(|(i, _)| *i);
        let has_marks = self.has_marks || written.iter().any(|(_, it)| has_marks(it));
        self.mark(written, &mut mark);
        if let Some(answer) = answer.filter(|_| !has_marks) {
            let behind = written.iter().filter(|(i, _)| (answer..cacheable).contains(i));
            let behind: usize = behind.map(|(_, it)| blocks(it)).sum();
            let question = self.messages.turn(answer).min(self.messages.passing);
            self.mark_before(if behind < LOOK_BACK { question } else { answer }, written, mark);
        }
    }

    /// Marks the last message before this place that can have a mark.
    fn mark_before<T>(
        &self,
        place: usize,
        written: &mut [(usize, T)],
        mut mark: impl FnMut(&mut T, Cache) -> bool,
    ) {
        let Some(cache) = self.cache else { return };
        let mut before = written.iter_mut().rev().filter(|(i, _)| *i < place);
        before.any(|(_, value)| mark(value, cache));
    }
}

impl Cache {
    pub(super) fn control<'a>(self) -> Object<'a> {
        let ttl = matches!(self, Self::Hour).then_some("1h");
        Object::of([("type", "ephemeral".into()), ("ttl", ttl.into())])
    }
}
