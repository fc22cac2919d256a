//! A streamed answer of any provider.

use super::answer::Answer;
use super::event::Event;
use super::{anthropic, gemini, ollama, openai, responses};
#[cfg(any(feature = "reqwest", feature = "ureq"))]
use crate::error::Error;
use crate::error::Result;
use crate::provider::{Format, Provider};

/// Assembles a streamed response of this provider into one answer, in the provider's format, like
/// [`answer`](fn@super::answer) reads one that is not streamed.
///
/// Together with [`Frames::of`](super::Frames::of) it fits into any loop that reads a body:
///
/// ```
/// use memory_prompt::Provider;
/// use memory_prompt::wire::{Event, Frames, Stream};
///
/// let body = [&b"data: {\"choices\":[{\"delta\":{\"content\":\"He"[..],
///     b"llo.\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"];
/// let mut frames = Frames::of(Provider::Groq);
/// let mut stream = Stream::of(Provider::Groq);
/// for bytes in body {
///     for data in frames.push(bytes) {
///         for event in stream.push(&data?)? {
///             if let Event::Text(piece) | Event::Refusal(piece) = event {
///                 print!("{piece}");
///             }
///         }
///     }
/// }
/// let answer = stream.finish()?;
/// assert_eq!((answer.provider, &*answer.message.text()), (Provider::Groq, "Hello."));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Debug)]
pub struct Stream {
    provider: Provider,
    of: OfFormat,
}

#[derive(Debug)]
enum OfFormat {
    OpenAi(Box<openai::Stream>),
    Responses(Box<responses::Stream>),
    Anthropic(Box<anthropic::Stream>),
    Gemini(Box<gemini::Stream>),
    Ollama(Box<ollama::Stream>),
}

macro_rules! with_stream {
    ($of:expr, $stream:ident => $do:expr) => {
        match $of {
            OfFormat::OpenAi($stream) => $do,
            OfFormat::Responses($stream) => $do,
            OfFormat::Anthropic($stream) => $do,
            OfFormat::Gemini($stream) => $do,
            OfFormat::Ollama($stream) => $do,
        }
    };
}

impl Stream {
    /// A stream from which nothing has arrived yet.
    pub fn of(provider: Provider) -> Self {
        let of = match provider.format() {
            Format::OpenAi if provider.row().ends_in_done => {
                OfFormat::OpenAi(Box::new(openai::Stream::new().ending_in_done()))
            }
            Format::OpenAi => OfFormat::OpenAi(Box::default()),
            Format::Responses => OfFormat::Responses(Box::default()),
            Format::Anthropic => OfFormat::Anthropic(Box::default()),
            Format::Gemini => OfFormat::Gemini(Box::default()),
            Format::Ollama => OfFormat::Ollama(Box::default()),
        };
        Self { provider, of }
    }

    /// Takes one event's data, and returns what it adds to the answer.
    ///
    /// # Errors
    ///
    /// The same as for the format's own stream.
    pub fn push(&mut self, data: &str) -> Result<Vec<Event>> {
        with_stream!(&mut self.of, stream => stream.push(data))
    }

    /// Returns whether the provider said why it stops.
    pub fn has_ended(&self) -> bool {
        with_stream!(&self.of, stream => stream.has_ended())
    }

    /// Returns the error of a provider that failed, and said so as the reason to stop.
    #[cfg(any(feature = "reqwest", feature = "ureq"))]
    pub(crate) fn failure(&self) -> Option<Error> {
        with_stream!(&self.of, stream => stream.failure())
    }

    /// The whole answer.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) if the stream broke off;
    /// otherwise those of [`answer`](fn@super::answer).
    pub fn finish(self) -> Result<Answer> {
        Ok(with_stream!(self.of, stream => stream.finish())?.given_by(self.provider))
    }

    /// Returns what can be kept of a stream that broke off or was abandoned. If the answer
    /// [`is_empty`](Answer::is_empty), nothing can be kept.
    pub fn broken(self) -> Answer {
        with_stream!(self.of, stream => stream.broken()).given_by(self.provider)
    }
}
