//! The stream of an answer on its way.

use std::time::{Duration, Instant};

use super::OPERATION;
use super::again::{Failed, stopped, unfinished};
use crate::conversation::Asking;
use crate::error::{Error, ErrorKind};
use crate::provider::{Format, Provider};
use crate::wire::{Answer, Frames, Stream};

/// So long something may still come behind the end of an answer: what it cost.
const USAGE: Duration = Duration::from_secs(2);
/// The same behind the end of a stream, which some servers never close.
const CLOSE: Duration = Duration::from_millis(250);

/// A stream of which more may come.
pub(super) struct Reading {
    frames: Frames,
    stream: Stream,
    /// So many bytes may still come.
    left: usize,
    has_told: bool,
    format: Format,
    /// When the answer has ended: until then something may come behind it.
    pub(super) closing: Option<Instant>,
}

impl Reading {
    pub(super) fn new(provider: Provider, limit: usize) -> Self {
        Self {
            frames: Frames::of(provider).with_limit(limit),
            stream: Stream::of(provider),
            left: limit,
            has_told: false,
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
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(|| {
            let text = "an answer of more bytes than are taken";
            Error::new(ErrorKind::Codec, OPERATION, text)
        })?;
        for data in self.frames.push(bytes) {
            let data = data?;
            tell(&mut self.stream, &data, &mut self.has_told, ask)?;
            if self.stream.has_ended() {
                let most = match data.trim() {
                    "[DONE]" => CLOSE,
                    last if is_last(self.format, last) => Duration::ZERO,
                    _ => USAGE,
                };
                self.closing = self.closing.into_iter().chain(now.checked_add(most)).min();
            }
        }
        Ok(())
    }

    /// Takes what stood behind the last line end.
    pub(super) fn end(&mut self, ask: &Asking<'_>) -> Result<(), Failed> {
        let last = std::mem::replace(&mut self.frames, Frames::sse()).finish()?;
        last.map_or(Ok(()), |data| tell(&mut self.stream, &data, &mut self.has_told, ask))
    }

    /// Returns the answer, which may have failed on the way.
    pub(super) fn outcome(
        self,
        failed: Option<Failed>,
        keeps_broken: bool,
    ) -> Result<Answer, Failed> {
        let Self { stream, has_told, .. } = self;
        // Of an answer of which somebody has seen the beginning nothing is asked again.
        let ended = |failed: Failed| if has_told { failed.for_good() } else { failed };
        // The body of half an answer may end as properly as any other.
        let failed = failed
            .or_else(|| (!stream.has_ended()).then(|| unfinished("the answer broke off").into()));
        let Some(failed) = failed else {
            return stream.finish().map_err(|error| ended(error.into()));
        };
        let kind = failed.error.kind();
        let is_broken = matches!(kind, ErrorKind::Unfinished | ErrorKind::Refused { .. });
        if keeps_broken && has_told && is_broken {
            let broken = stream.broken();
            // Of thoughts alone nothing is kept.
            if !broken.message.text().is_empty() || broken.message.has_tool_calls() {
                return Ok(broken);
            }
        }
        Err(ended(failed))
    }
}

fn tell(
    stream: &mut Stream,
    data: &str,
    has_told: &mut bool,
    ask: &Asking<'_>,
) -> Result<(), Failed> {
    for event in stream.push(data)? {
        *has_told = true;
        ask.tell(event).map_err(|_| stopped())?;
    }
    Ok(())
}

/// Returns true if nothing comes behind this event of an answer that has ended.
fn is_last(format: Format, data: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Typed<'a> {
        #[serde(borrow, rename = "type", default)]
        of: Option<&'a str>,
    }
    let typed = || serde_json::from_str::<Typed<'_>>(data).ok().and_then(|it| it.of);
    match format {
        Format::Anthropic => typed() == Some("message_stop"),
        Format::Responses => {
            matches!(typed(), Some("response.completed" | "response.incomplete"))
        }
        Format::Ollama => true,
        _ => false,
    }
}
