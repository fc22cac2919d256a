//! Models: the trait of everything that answers a prompt.

use std::error::Error as StdError;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use parking_lot::Mutex;

use super::stops::Stopper;
#[cfg(feature = "async")]
use crate::memory::BoxFuture;
use crate::message::{AiMessage, Message};
use crate::provider::Provider;
use crate::turn::{Ask, Reply};
use crate::wire::{Event, Metadata, Stop, events_of};

/// The error of a model: any error.
pub type ModelError = Box<dyn StdError + Send + Sync>;

/// Something that answers a prompt.
///
/// Closures are models, and so is [`Scripted`](super::Scripted), for tests. To share a model among
/// conversations put it in an `Arc`; a `Transport` can be cloned.
pub trait Model: Send + Sync {
    /// Answers. A model that streams [tells](Asking::tell) its events as they come.
    ///
    /// # Errors
    ///
    /// Any error. The turn is given up then.
    fn ask(&self, ask: &Asking<'_>) -> Result<Reply, ModelError>;

    /// Returns the provider that it asks, if it knows. A conversation uses it if its prompt [names
    /// none](crate::MemoryPrompt::for_provider).
    fn provider(&self) -> Option<Provider> {
        None
    }

    /// Returns the provider's name for the model, if it is known: for the [spans](super#spans) of
    /// its conversations.
    fn name(&self) -> Option<&str> {
        None
    }
}

impl<F, R> Model for F
where
    F: Fn(&Asking<'_>) -> Result<R, ModelError> + Send + Sync,
    R: Into<Reply>,
{
    fn ask(&self, ask: &Asking<'_>) -> Result<Reply, ModelError> {
        self(ask).map(Into::into)
    }
}

impl<M: Model + ?Sized> Model for Arc<M> {
    fn ask(&self, ask: &Asking<'_>) -> Result<Reply, ModelError> {
        (**self).ask(ask)
    }

    fn provider(&self) -> Option<Provider> {
        (**self).provider()
    }

    fn name(&self) -> Option<&str> {
        (**self).name()
    }
}

/// Something that answers a prompt, asynchronously.
///
/// Closures that return futures are such models, and so is [`Scripted`](super::Scripted), for
/// tests. To share a model among conversations put it in an `Arc`; a `Transport` can be cloned.
#[cfg(feature = "async")]
pub trait AsyncModel: Send + Sync {
    /// Answers. A model that streams [tells](Asking::tell) its events as they come. If the future
    /// is dropped, the turn is given up.
    ///
    /// # Errors
    ///
    /// Any error. The turn is given up then.
    fn ask(&self, ask: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>>;

    /// Returns the provider that it asks, if it knows: see [`Model::provider`].
    fn provider(&self) -> Option<Provider> {
        None
    }

    /// Returns the provider's name for the model, if it is known: see [`Model::name`].
    fn name(&self) -> Option<&str> {
        None
    }
}

#[cfg(feature = "async")]
impl<F, R, A> AsyncModel for F
where
    F: Fn(Asking<'static>) -> A + Send + Sync,
    A: Future<Output = Result<R, ModelError>> + Send + 'static,
    R: Into<Reply>,
{
    fn ask(&self, ask: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>> {
        let answer = self(ask);
        Box::pin(async move { answer.await.map(Into::into) })
    }
}

#[cfg(feature = "async")]
impl<M: AsyncModel + ?Sized> AsyncModel for Arc<M> {
    fn ask(&self, ask: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>> {
        (**self).ask(ask)
    }

    fn provider(&self) -> Option<Provider> {
        (**self).provider()
    }

    fn name(&self) -> Option<&str> {
        (**self).name()
    }
}

/// An [`Ask`] to a model, with a listener for its events.
///
/// If you script a model for tests: the newest user message need not be the question. Temporaries
/// come after it, and the note about what other turns have begun is a user message before it.
#[derive(Clone)]
pub struct Asking<'a> {
    ask: Ask,
    heard: Arc<Mutex<Heard<'a>>>,
    stops: Stopper,
    before: u64,
}

/// The text of a model so far, and the listener.
pub(super) struct Heard<'a> {
    said: String,
    has_told: bool,
    on_event: Box<dyn FnMut(Event) + Send + 'a>,
}

impl<'a> Heard<'a> {
    pub(super) fn by(on_event: impl FnMut(Event) + Send + 'a) -> Arc<Mutex<Self>> {
        let on_event = Box::new(on_event);
        Arc::new(Mutex::new(Self { said: String::new(), has_told: false, on_event }))
    }
}

impl<'a> Asking<'a> {
    pub(super) fn new(
        ask: Ask,
        heard: &Arc<Mutex<Heard<'a>>>,
        stops: &Stopper,
        before: u64,
    ) -> Self {
        let mut listener = heard.lock();
        (listener.said, listener.has_told) = (String::new(), false);
        drop(listener);
        Self { ask, heard: Arc::clone(heard), stops: stops.clone(), before }
    }

    /// Returns an ask without a listener, which is never stopped.
    pub(super) fn alone(ask: Ask) -> Self {
        Self::new(ask, &Heard::by(|_| {}), &Stopper(Arc::default()), 0)
    }

    /// Passes an event of the answer to the listener, to be shown.
    ///
    /// # Errors
    ///
    /// [`Stopped`] if the answer is no longer wanted: return it; the text so far is kept.
    pub fn tell(&self, event: Event) -> Result<(), Stopped> {
        let mut heard = self.heard.lock();
        heard.has_told = true;
        if let Event::Text(piece) | Event::Refusal(piece) = &event {
            heard.said.push_str(piece);
        }
        (heard.on_event)(event);
        drop(heard);
        if self.is_stopped() { Err(Stopped(())) } else { Ok(()) }
    }

    /// Returns true if the answer is no longer wanted.
    pub fn is_stopped(&self) -> bool {
        self.stops.count() != self.before
    }

    /// Awaits the answer of a model, unless it is stopped before.
    #[cfg(feature = "async")]
    pub(super) async fn unless_stopped(
        &self,
        answer: impl Future<Output = Result<Reply, ModelError>>,
    ) -> Result<Reply, ModelError> {
        let answer = self.stops.unless(self.before, answer).await;
        answer.unwrap_or_else(|| Err(Stopped(()).into()))
    }

    /// Returns the events that the model has not sent itself: all of them if it has sent none, and
    /// else only the metadata.
    pub(super) fn untold(&self, reply: &Reply) -> Vec<Event> {
        let metadata = Some(&reply.metadata).filter(|told| **told != Metadata::default());
        let metadata = metadata.map(|told| Event::Metadata(Box::new(told.clone())));
        if self.heard.lock().has_told {
            return Vec::from_iter(metadata);
        }
        let calls = reply.message.has_tool_calls();
        let stop = reply.stop.unwrap_or(if calls { Stop::Calls } else { Stop::End });
        let said = reply.message.as_ai().map(|said| events_of(said, stop));
        said.into_iter().flatten().chain(metadata).collect()
    }

    pub(super) fn tell_rest(&self, untold: Vec<Event>) {
        let mut heard = self.heard.lock();
        for event in untold {
            (heard.on_event)(event);
        }
    }

    /// The text before it was stopped, as an answer that broke off.
    pub(super) fn said(&self) -> Option<Reply> {
        let said = std::mem::take(&mut self.heard.lock().said);
        let mut reply = Reply::from(Message::Ai(AiMessage::new(said.as_str())));
        reply.stop = Some(Stop::Broken);
        (!said.is_empty()).then_some(reply)
    }
}

impl Deref for Asking<'_> {
    type Target = Ask;

    fn deref(&self) -> &Ask {
        &self.ask
    }
}

impl fmt::Debug for Asking<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asking").field("ask", &self.ask).finish_non_exhaustive()
    }
}

/// The error of a model that was [stopped](super::Stopper::stop).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped(());

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the answer was stopped")
    }
}

impl StdError for Stopped {}
