//! Reads the stream of an answer.

use std::mem::replace;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::OPERATION;
use super::again::{Failed, stopped, unfinished};
use crate::conversation::Asking;
use crate::error::{Error, ErrorKind};
use crate::provider::{Format, Provider};
use crate::wire::{Answer, Event, Frames, Stream};

/// The maximum size of an answer: room for some pictures.
pub(super) const LIMIT: usize = 64 << 20;
/// How long to wait for the usage after the end of an answer.
const USAGE: Duration = Duration::from_secs(2);
/// How long to wait after the end of a stream, which some servers never close.
const CLOSE: Duration = Duration::from_millis(250);

/// A stream that is being read.
pub(super) struct Reading {
    frames: Frames,
    stream: Stream,
    /// How many more bytes are allowed.
    left: usize,
    has_told: bool,
    /// True if a stop reason came first, or was followed by more: such reasons are not the end.
    ends_early: bool,
    format: Format,
    /// Set when the answer has ended: until then more may follow.
    pub(super) closing: Option<Instant>,
}

impl Reading {
    pub(super) fn new(provider: Provider) -> Self {
        Self {
            frames: Frames::of(provider),
            stream: Stream::of(provider),
            left: LIMIT,
            has_told: false,
            ends_early: false,
            format: provider.format(),
            closing: None,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stream.has_ended()
    }

    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        ask: &Asking<'_>,
        now: Instant,
    ) -> Result<(), Failed> {
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(too_long)?;
        let mut frames = replace(&mut self.frames, Frames::sse());
        for data in frames.push(bytes) {
            let data = data?;
            let (had_told, had_ended) = (self.has_told, self.has_ended());
            let says = self.tell(&data, ask)?;
            if !self.has_ended() {
                continue;
            }
            // Some servers write a reason into each chunk; none of these is the end.
            self.ends_early |= if had_ended { says } else { !says && !had_told };
            if had_ended && says {
                self.closing = None;
            }
            let most = match data.trim() {
                "[DONE]" => CLOSE,
                last if is_last(self.format, last) => Duration::ZERO,
                // Google closes its streams.
                _ if self.ends_early || self.format == Format::Gemini => continue,
                _ => USAGE,
            };
            self.closing = self.closing.into_iter().chain(now.checked_add(most)).min();
        }
        self.frames = frames;
        Ok(())
    }

    /// Takes the rest after the last line end.
    pub(super) fn end(&mut self, ask: &Asking<'_>) -> Result<(), Failed> {
        let last = replace(&mut self.frames, Frames::sse()).finish()?;
        last.map_or(Ok(()), |data| self.tell(&data, ask).map(drop))
    }

    /// Shows a piece; returns whether it contains more than a stop reason.
    fn tell(&mut self, data: &str, ask: &Asking<'_>) -> Result<bool, Failed> {
        let events = self.stream.push(data)?;
        let says = events.iter().any(|event| !matches!(event, Event::Done(_)));
        self.has_told |= !events.is_empty();
        events.into_iter().try_for_each(|event| ask.tell(event)).map_err(|_| stopped())?;
        Ok(says)
    }

    /// Returns the answer, or why it failed.
    pub(super) fn outcome(
        self,
        failed: Option<Failed>,
        keeps_broken: bool,
    ) -> Result<Answer, Failed> {
        let Self { stream, has_told, .. } = self;
        // If the beginning of an answer was shown, the request is not retried.
        let ended = |failed: Failed| if has_told { failed.for_good() } else { failed };
        // The body of an incomplete answer may end without an error.
        let failed = failed
            .or_else(|| stream.failure().map(Failed::from))
            .or_else(|| (!stream.has_ended()).then(|| unfinished("the answer broke off").into()));
        let Some(failed) = failed else {
            return stream.finish().map_err(|error| ended(error.into()));
        };
        let kind = failed.error.kind();
        let is_broken = matches!(kind, ErrorKind::Unfinished | ErrorKind::Refused { .. });
        if keeps_broken && has_told && is_broken {
            let broken = stream.broken();
            // Reasoning alone is not kept.
            if !broken.message.text().is_empty() || broken.message.has_tool_calls() {
                return Ok(broken);
            }
        }
        Err(ended(failed))
    }
}

pub(super) fn too_long() -> Error {
    Error::new(ErrorKind::Codec, OPERATION, format!("an answer of more than {LIMIT} bytes"))
}

/// Returns whether nothing follows this event of an answer that has ended.
fn is_last(format: Format, data: &str) -> bool {
    let is = |kinds: &[&str]| {
        let event = serde_json::from_str::<Value>(data).unwrap_or_default();
        event["type"].as_str().is_some_and(|kind| kinds.contains(&kind))
    };
    match format {
        Format::Anthropic => is(&["message_stop"]),
        Format::Responses => is(&["response.completed", "response.incomplete"]),
        Format::Ollama => true,
        _ => false,
    }
}
