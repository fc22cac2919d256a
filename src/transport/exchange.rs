//! One exchange over HTTP, without I/O: what to send, how long to wait, when to retry, and how to
//! read the response.

use std::mem::replace;
use std::time::{Duration, Instant, SystemTime};

use http::HeaderMap;

use super::again::{self, Again, Failed, stopped, unfinished};
use super::reading::{LIMIT, Reading, too_long};
use super::{OPERATION, RetryAfter, Transport};
use crate::conversation::Asking;
use crate::error::{Error, ErrorKind};
use crate::provider::Format;
use crate::wire::{self, Answer, is_json, refused_with, without_mark};

/// The most bytes that are read of an error: its code is near the beginning.
const ERROR_LIMIT: usize = 64 << 10;

/// How long the body of an error may take, and how long that of a whole answer may pause. A server
/// may keep the connection open afterwards.
pub(super) const BODY_TIME: Duration = Duration::from_secs(60);

const TIME_IS_UP: &str = "the time for the whole of it is up";

/// What an exchange wants from the code that does its I/O. A deadline of `None` never passes.
pub(super) enum Want {
    /// Send the request, and wait for the head of the response until then.
    Send(Option<Instant>),
    /// Wait for more of the response until then.
    Read(Option<Instant>),
    /// Do nothing until then.
    Pause(Option<Instant>),
    Done(Result<Box<Answer>, Error>),
}

/// The outcome of the I/O.
pub(super) enum Came {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    /// Nothing until the deadline.
    Nothing,
    /// The connection broke, or the request failed.
    Broken(Failed),
    /// The answer is no longer wanted.
    #[cfg_attr(not(feature = "ureq"), expect(dead_code, reason = "a future is dropped"))]
    Stopped,
}

#[derive(Default)]
pub(super) struct Head {
    status: u16,
    /// The time that the server asks to wait.
    after: Option<Duration>,
    is_told_not_to_repeat: bool,
}

impl Head {
    pub(super) fn of(status: u16, headers: &HeaderMap) -> Self {
        Self {
            status,
            after: again::asked_to_wait(headers, SystemTime::now()),
            is_told_not_to_repeat: headers.get("x-should-retry").is_some_and(|it| it == "false"),
        }
    }
}

pub(super) struct Exchange<'a, 'b> {
    transport: &'a Transport,
    ask: &'a Asking<'b>,
    /// The deadline of the whole exchange.
    until: Option<Instant>,
    tries: u32,
    head: Head,
    state: State,
}

enum State {
    Pausing,
    Sent,
    /// The body of an error, which is read until then.
    Refused(Vec<u8>, Option<Instant>),
    /// The beginning of one JSON document, or of an unknown kind of body.
    Begun(Vec<u8>),
    Streamed(Box<Reading>),
}

/// The kind of a body, by its first byte, since the headers of many servers are wrong.
enum BodyKind {
    Events,
    Whole,
    /// A page for people.
    Page,
}

impl<'a, 'b> Exchange<'a, 'b> {
    pub(super) fn new(transport: &'a Transport, ask: &'a Asking<'b>, now: Instant) -> Self {
        let until = transport.total.and_then(|total| now.checked_add(total));
        Self { transport, ask, until, tries: 0, head: Head::default(), state: State::Pausing }
    }

    pub(super) fn begin(&mut self) -> Want {
        (self.head, self.state) = (Head::default(), State::Sent);
        Want::Send(self.until)
    }

    /// Takes the outcome of the I/O, and returns what is wanted next.
    pub(super) fn on(&mut self, came: Came, now: Instant) -> Want {
        let came = match came {
            Came::Stopped => return Want::Done(Err(stopped().error)),
            Came::Bytes(_) if self.is_late(now) => Came::Nothing,
            came => came,
        };
        match self.step(came, now) {
            Ok(Want::Read(until)) => Want::Read(until.into_iter().chain(self.until).min()),
            Ok(want) => want,
            Err(failed) => self.failed(failed, now),
        }
    }

    fn step(&mut self, came: Came, now: Instant) -> Result<Want, Failed> {
        match replace(&mut self.state, State::Sent) {
            State::Pausing => Ok(self.begin()),
            State::Sent => match came {
                Came::Head(head) => {
                    self.head = head;
                    self.headed(now)
                }
                Came::Broken(failed) => Err(failed),
                Came::Nothing => Err(Failed::unanswered(TIME_IS_UP, true)),
                _ => Err(Failed::unanswered("the request ended", true)),
            },
            // One deadline for the whole body, since its beginning matters most.
            State::Refused(mut body, until) => match came {
                Came::Bytes(bytes) if body.len() < ERROR_LIMIT => {
                    body.extend_from_slice(&bytes);
                    self.state = State::Refused(body, until);
                    Ok(Want::Read(until))
                }
                _ => Err(self.refusal(&body)),
            },
            State::Begun(mut body) => match came {
                Came::Bytes(bytes) => {
                    body.extend_from_slice(&bytes);
                    self.begun(body, now)
                }
                Came::End if self.kind_of(&body).is_some() => self.document(&body),
                Came::End => Err(unfinished("the server answered nothing").into()),
                // The body may be complete although the server keeps the connection open, or does
                // not close it well.
                Came::Nothing | Came::Broken(_) if is_json(&body) => self.document(&body),
                came => Err(self.lost(came, now)),
            },
            State::Streamed(reading) => self.streamed(reading, came, now),
        }
    }

    fn headed(&mut self, now: Instant) -> Result<Want, Failed> {
        let Transport { stall, first_byte, .. } = *self.transport;
        let mut until = now.checked_add(stall.min(BODY_TIME));
        self.state = match self.head.status {
            // Many servers send the head at once, before the model begins.
            200..300 => {
                until = now.checked_add(first_byte);
                State::Begun(Vec::new())
            }
            status @ 300..400 => {
                let kind =
                    ErrorKind::Refused { code: None, status: Some(status), retryable: false };
                let text = format!("the server redirects ({status}): its address is another");
                return Err(Failed::new(Error::new(kind, OPERATION, text), Again::No));
            }
            _ => State::Refused(Vec::new(), until),
        };
        Ok(Want::Read(until))
    }

    fn refusal(&mut self, body: &[u8]) -> Failed {
        self.head.after = self.head.after.or_else(|| again::asked_in(body));
        let error = refused_with(OPERATION, self.head.status, &String::from_utf8_lossy(body));
        let failed = Failed::from(error);
        if self.head.is_told_not_to_repeat { failed.for_good() } else { failed }
    }

    fn begun(&mut self, body: Vec<u8>, now: Instant) -> Result<Want, Failed> {
        match self.kind_of(&body) {
            _ if body.len() > LIMIT => Err(too_long().into()),
            Some(BodyKind::Page) => {
                let text = "the server answered a page: is its address right?";
                Err(Error::new(ErrorKind::Codec, OPERATION, text).into())
            }
            Some(BodyKind::Events) => {
                let reading = Box::new(Reading::new(self.transport.provider));
                self.streamed(reading, Came::Bytes(body), now)
            }
            Some(BodyKind::Whole) => {
                self.state = State::Begun(body);
                Ok(Want::Read(now.checked_add(self.transport.stall.min(BODY_TIME))))
            }
            None => {
                self.state = State::Begun(body);
                Ok(self.read(now))
            }
        }
    }

    fn kind_of(&self, start: &[u8]) -> Option<BodyKind> {
        let start = without_mark(start);
        let first = start.iter().find(|byte| !byte.is_ascii_whitespace())?;
        let Transport { stream, provider, .. } = self.transport;
        let begins_events: &[u8] = match provider.format() {
            Format::Ollama => b"{",
            _ => b":deir", // a comment, or one of the fields `data`, `event`, `id` and `retry`
        };
        Some(match first {
            b'<' => BodyKind::Page,
            0xEF if start.len() < 3 => return None, // part of a byte order mark
            first if *stream && begins_events.contains(first) => BodyKind::Events,
            _ => BodyKind::Whole,
        })
    }

    fn document(&self, body: &[u8]) -> Result<Want, Failed> {
        let text = String::from_utf8_lossy(body); // an invalid byte costs one character
        let answer = wire::answer(self.transport.provider, &*text)?;
        Ok(Want::Done(Ok(Box::new(answer))))
    }

    fn streamed(
        &mut self,
        mut reading: Box<Reading>,
        came: Came,
        now: Instant,
    ) -> Result<Want, Failed> {
        let goes_on = match came {
            Came::Bytes(bytes) => reading.push(&bytes, self.ask, now).map(|()| true),
            Came::End => reading.end(self.ask).map(|()| false),
            came => Err(self.lost(came, now)),
        };
        let goes_on = match goes_on {
            // Errors after the end do not matter.
            Err(_) if reading.has_ended() => Ok(false),
            goes_on => goes_on,
        };
        if let Ok(true) = goes_on {
            let until = reading.closing.map_or_else(|| self.read(now), |at| Want::Read(Some(at)));
            self.state = State::Streamed(reading);
            return Ok(until);
        }
        let keeps_broken = self.transport.keeps_broken && !self.ask.is_stopped();
        let answer = reading.outcome(goes_on.err(), keeps_broken)?;
        Ok(Want::Done(Ok(Box::new(answer))))
    }

    /// Waits for more of the answer, unless it stalls.
    fn read(&self, now: Instant) -> Want {
        Want::Read(now.checked_add(self.transport.stall))
    }

    /// Returns the failure of an answer that stopped arriving.
    fn lost(&self, came: Came, now: Instant) -> Failed {
        match came {
            Came::Broken(Failed { error, .. }) => {
                unfinished("the answer broke off").with_source(error).into()
            }
            _ if self.is_late(now) => unfinished(TIME_IS_UP).into(),
            _ => unfinished("the answer stopped coming").into(),
        }
    }

    fn is_late(&self, now: Instant) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Retries the request after a pause, or gives up.
    fn failed(&mut self, failed: Failed, now: Instant) -> Want {
        let settings = self.transport;
        let may = match failed.again {
            Again::Yes => true,
            Again::IfAllowed => settings.repeats_unanswered,
            Again::No => false,
        };
        let after = self.head.after;
        let pause = after.unwrap_or_else(|| again::pause(self.tries));
        let at = now.checked_add(pause);
        let is_in_time = self.until.is_none_or(|until| at.is_some_and(|at| at < until));
        let is_soon = after.is_none_or(|after| after <= settings.longest_wait);
        let is_left = self.tries < settings.retries && is_soon;
        if may && is_left && is_in_time {
            self.tries += 1;
            self.state = State::Pausing;
            return Want::Pause(at);
        }
        Want::Done(Err(match after {
            Some(after) if failed.again != Again::No => failed.error.with_source(RetryAfter(after)),
            _ => failed.error,
        }))
    }
}
