//! The body of a response as an answer.

use std::time::{Duration, Instant};

use super::again::{Again, Failed};
use super::http::{Came, Head, Response};
use super::{OPERATION, Transport};
use crate::conversation::Asking;
use crate::error::{Error, ErrorKind};
use crate::provider::Format;
use crate::wire::{self, Answer, Frames, Stream, refused_with};

/// The most bytes of an answer: some pictures.
const LIMIT: usize = 64 << 20;
/// The most bytes of an error: the word that is looked for stands at the front.
const ERROR_LIMIT: usize = 64 << 10;
/// So long something may still come behind the end of an answer: what it cost.
const USAGE: Duration = Duration::from_secs(2);
/// The same behind the end of a stream, which some servers never close.
const CLOSE: Duration = Duration::from_millis(250);

/// The kind of a body, by its first byte: the headers of many servers say something else.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BodyKind {
    Events,
    /// One JSON document.
    Whole,
    /// A page for people.
    Page,
}

impl Transport {
    /// Reads the response with this head.
    pub(super) fn read(
        &self,
        head: &Head,
        response: &Response<'_>,
        ask: &Asking<'_>,
    ) -> Result<Answer, Failed> {
        match head.status {
            200..300 => self.answer(response, ask),
            300..400 => {
                let text =
                    format!("the server redirects ({}): its address is another", head.status);
                Err(refused(head.status, text))
            }
            status => Err(self.error(status, head, response)),
        }
    }

    fn error(&self, status: u16, head: &Head, response: &Response<'_>) -> Failed {
        // One time for all of it: what matters stands at the front.
        let (mut body, since) = (Vec::new(), Instant::now());
        while body.len() < ERROR_LIMIT
            && let Some(left) = self.settings.stall.checked_sub(since.elapsed())
            && let Ok(Came::Bytes(bytes)) = response.next(left)
        {
            body.extend_from_slice(&bytes);
        }
        let error = refused_with(OPERATION, status, &String::from_utf8_lossy(&body));
        let again = super::again::after_response(&error, &head.headers);
        Failed::new(error, again)
    }

    fn answer(&self, response: &Response<'_>, ask: &Asking<'_>) -> Result<Answer, Failed> {
        let mut start = Vec::new();
        loop {
            match response.next(self.settings.stall)? {
                Came::Bytes(bytes) => start.extend_from_slice(&bytes),
                Came::End => return Err(unfinished("the server answered nothing").into()),
                Came::Nothing => return Err(stalled(response).into()),
            }
            match self.kind_of(&start) {
                _ if start.len() > LIMIT => return Err(too_long().into()),
                None => {}
                Some(BodyKind::Page) => {
                    let text = "the server answered a page: is its address right?";
                    return Err(Error::new(ErrorKind::Codec, OPERATION, text).into());
                }
                Some(BodyKind::Whole) => return self.whole(start, response),
                Some(BodyKind::Events) => return self.stream(start, response, ask),
            }
        }
    }

    fn kind_of(&self, start: &[u8]) -> Option<BodyKind> {
        let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start);
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace())?;
        Some(match first {
            b'<' => BodyKind::Page,
            _ if !self.settings.stream => BodyKind::Whole,
            b'{' | b'[' if self.provider.format() != Format::Ollama => BodyKind::Whole,
            0xEF if start.len() < 3 => return None, // half a byte order mark
            _ => BodyKind::Events,
        })
    }

    fn whole(&self, mut body: Vec<u8>, response: &Response<'_>) -> Result<Answer, Failed> {
        loop {
            match response.next(self.settings.stall)? {
                Came::Bytes(bytes) => body.extend_from_slice(&bytes),
                Came::End => break,
                // It may be whole, and the server too idle to say so.
                Came::Nothing if serde_json::from_slice::<serde::de::IgnoredAny>(&body).is_ok() => {
                    break;
                }
                Came::Nothing => return Err(stalled(response).into()),
            }
            if body.len() > LIMIT {
                return Err(too_long().into());
            }
        }
        let Ok(text) = String::from_utf8(body) else {
            return Err(
                Error::new(ErrorKind::Codec, OPERATION, "an answer that is not UTF-8").into()
            );
        };
        Ok(wire::answer(self.provider, text.trim_start_matches('\u{feff}'))?)
    }

    fn stream(
        &self,
        start: Vec<u8>,
        response: &Response<'_>,
        ask: &Asking<'_>,
    ) -> Result<Answer, Failed> {
        let mut reading = Reading {
            ask,
            frames: Frames::of(self.provider).with_limit(LIMIT),
            stream: Stream::of(self.provider),
            left: LIMIT,
            has_told: false,
            closing: None,
        };
        let outcome = reading.run(start, response, self.settings.stall);
        let Reading { stream, has_told, .. } = reading;
        let outcome = match outcome {
            // The body of half an answer may end as properly as any other.
            Ok(()) if !stream.has_ended() => Err(unfinished("the answer broke off").into()),
            outcome => outcome,
        };
        let mut failed = match outcome {
            Ok(()) => match stream.finish() {
                Ok(answer) => return Ok(answer),
                Err(error) => error.into(),
            },
            Err(failed)
                if self.settings.keeps_broken
                    && has_told
                    && failed.error.kind() == ErrorKind::Unfinished
                    && !ask.is_stopped() =>
            {
                return Ok(stream.broken());
            }
            Err(failed) => failed,
        };
        if has_told {
            // Somebody has seen the beginning of it.
            failed.again = Again::No;
        }
        Err(failed)
    }
}

/// A stream on its way.
struct Reading<'a, 'b> {
    ask: &'a Asking<'b>,
    frames: Frames,
    stream: Stream,
    /// So many bytes may still come.
    left: usize,
    has_told: bool,
    /// When the answer has ended: until then something may come behind it.
    closing: Option<Instant>,
}

impl Reading<'_, '_> {
    /// Reads to the end of the answer.
    fn run(
        &mut self,
        start: Vec<u8>,
        response: &Response<'_>,
        stall: Duration,
    ) -> Result<(), Failed> {
        let mut came = Came::Bytes(start);
        loop {
            let outcome = match came {
                Came::Bytes(bytes) => self.push(&bytes),
                Came::Nothing => Err(stalled(response).into()),
                Came::End => return self.end(),
            };
            // What goes wrong behind the end does not matter.
            match outcome {
                Err(_) if self.stream.has_ended() => return Ok(()),
                outcome => outcome?,
            }
            let left = self.closing.map(|at| at.saturating_duration_since(Instant::now()));
            came = match response.next(left.unwrap_or(stall)) {
                Err(_) if self.stream.has_ended() && !self.ask.is_stopped() => return Ok(()),
                came => came?,
            };
        }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), Failed> {
        self.left = self.left.checked_sub(bytes.len()).ok_or_else(too_long)?;
        for data in self.frames.push(bytes) {
            let data = data?;
            for event in self.stream.push(&data)? {
                self.has_told = true;
                self.ask.tell(event).map_err(|_| super::http::stopped())?;
            }
            if self.stream.has_ended() {
                let most = if data.trim() == "[DONE]" { CLOSE } else { USAGE };
                let at = Instant::now() + most;
                self.closing = Some(self.closing.map_or(at, |before| before.min(at)));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), Failed> {
        let frames = std::mem::replace(&mut self.frames, Frames::sse());
        let last = frames.finish();
        if self.stream.has_ended() && last.is_err() {
            return Ok(());
        }
        if let Some(data) = last? {
            for event in self.stream.push(&data)? {
                self.has_told = true;
                self.ask.tell(event).map_err(|_| super::http::stopped())?;
            }
        }
        Ok(())
    }
}

fn refused(status: u16, text: String) -> Failed {
    let kind = ErrorKind::Refused { code: None, status: Some(status), retryable: false };
    Failed::new(Error::new(kind, OPERATION, text), Again::No)
}

fn unfinished(text: &'static str) -> Error {
    Error::new(ErrorKind::Unfinished, OPERATION, text)
}

/// The error where nothing came in time.
fn stalled(response: &Response<'_>) -> Error {
    unfinished(if response.is_late() {
        "the time for the whole of it is up"
    } else {
        "the answer stopped coming"
    })
}

fn too_long() -> Error {
    Error::new(ErrorKind::Codec, OPERATION, format!("an answer of more than {LIMIT} bytes"))
}
