//! One HTTP request on a thread of its own, so that whoever waits for it can be stopped at any
//! time, and knows how long nothing has come.

use std::error::Error as StdError;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use ureq::http::HeaderMap;
use ureq::{Agent, SendBody, Timeout};

use super::OPERATION;
use super::again::{Again, Failed};
use crate::error::{Error, ErrorKind};

/// A request as it is sent.
pub(super) struct Sending {
    pub(super) agent: Agent,
    pub(super) url: String,
    pub(super) headers: HeaderMap,
    pub(super) body: Arc<[u8]>,
    /// When nobody waits any longer.
    pub(super) until: Option<Instant>,
}

/// The beginning of a response.
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
}

enum Piece {
    Head(Head),
    Bytes(Vec<u8>),
    End,
    Failed(Broken),
}

/// A request that broke.
struct Broken {
    /// True where the server may have had it.
    sent: bool,
    what: &'static str,
    is_passing: bool,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

/// A response on its way.
pub(super) struct Response<'a> {
    pieces: Receiver<Piece>,
    is_stopped: &'a dyn Fn() -> bool,
    until: Option<Instant>,
}

/// The piece of an answer that came while somebody waited.
pub(super) enum Came {
    Bytes(Vec<u8>),
    End,
    /// Nothing, for this long.
    Nothing,
}

/// So often it is looked whether anybody still wants it.
const LOOK: Duration = Duration::from_millis(50);

impl Sending {
    /// Sends it, and waits for the head of the response.
    pub(super) fn send(
        self,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Head, Response<'_>), Failed> {
        // A bound, so that a fast server waits for a slow reader.
        let (to, pieces) = sync_channel(16);
        let until = self.until;
        let run = move || self.run(&to);
        if let Err(error) = thread::Builder::new().name("transport".to_owned()).spawn(run) {
            let kind = ErrorKind::Unanswered { sent: false };
            let error = Error::new(kind, OPERATION, "no thread for the request").with_source(error);
            return Err(Failed::new(error, Again::No));
        }
        let response = Response { pieces, is_stopped, until };
        match response.wait(None)? {
            Some(Piece::Head(head)) => Ok((head, response)),
            Some(Piece::Failed(broken)) => Err(broken.failed()),
            None => Err(Broken::of("the time for the whole of it is up", true).failed()),
            _ => Err(Broken::of("the request ended", true).failed()),
        }
    }

    fn run(self, to: &SyncSender<Piece>) {
        let mut body = Body { bytes: &self.body, at: 0 };
        let mut request = self.agent.post(&self.url);
        if let Some(headers) = request.headers_mut() {
            *headers = self.headers;
        }
        let request = request.header("content-length", self.body.len());
        let sent = request.send(SendBody::from_reader(&mut body));
        // What was sent without its body can't be answered.
        let begun = body.at > 0;
        let mut response = match sent {
            Ok(response) => response,
            Err(error) => {
                let _ = to.send(Piece::Failed(Broken::by(error, begun)));
                return;
            }
        };
        let status = response.status().as_u16();
        let head = Head { status, headers: std::mem::take(response.headers_mut()) };
        if to.send(Piece::Head(head)).is_err() {
            return;
        }
        let mut reader = response.into_body().into_reader();
        let mut buffer = vec![0; 16 << 10];
        loop {
            let piece = match reader.read(&mut buffer) {
                Ok(0) => Piece::End,
                Ok(read) => Piece::Bytes(buffer[..read].to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => Piece::Failed(Broken::by(error.into(), true)),
            };
            let is_last = !matches!(piece, Piece::Bytes(_));
            if to.send(piece).is_err() || is_last {
                return; // nobody listens any more, and the connection closes
            }
        }
    }
}

impl Response<'_> {
    /// Waits for what comes next of the body, for this long.
    pub(super) fn next(&self, most: Duration) -> Result<Came, Failed> {
        Ok(match self.wait(Some(most))? {
            None => Came::Nothing,
            Some(Piece::Bytes(bytes)) => Came::Bytes(bytes),
            Some(Piece::Head(_) | Piece::End) => Came::End,
            Some(Piece::Failed(broken)) => {
                let error = Error::new(ErrorKind::Unfinished, OPERATION, "the answer broke off");
                let error = broken.source.into_iter().fold(error, Error::with_source);
                return Err(Failed::new(error, Again::IfAllowed));
            }
        })
    }

    /// Returns whether the time for the whole of it is up.
    pub(super) fn is_late(&self) -> bool {
        self.until.is_some_and(|until| until <= Instant::now())
    }

    fn wait(&self, most: Option<Duration>) -> Result<Option<Piece>, Failed> {
        let since = Instant::now();
        loop {
            if (self.is_stopped)() {
                return Err(stopped());
            }
            if self.is_late() {
                return Ok(None);
            }
            let left = most.map_or(LOOK, |most| most.saturating_sub(since.elapsed()).min(LOOK));
            match self.pieces.recv_timeout(left) {
                Ok(piece) => return Ok(Some(piece)),
                Err(RecvTimeoutError::Disconnected) => return Ok(Some(Piece::End)),
                Err(RecvTimeoutError::Timeout) if most.is_some_and(|it| since.elapsed() >= it) => {
                    return Ok(None);
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

/// The error of a request that nobody wants any more.
pub(super) fn stopped() -> Failed {
    Failed::new(Error::new(ErrorKind::Unfinished, OPERATION, "it was stopped"), Again::No)
}

/// The body of a request, and how much of it was taken.
struct Body<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = (&self.bytes[self.at..]).read(buffer)?;
        self.at += read;
        Ok(read)
    }
}

impl Broken {
    fn of(what: &'static str, sent: bool) -> Self {
        Self { sent, what, is_passing: true, source: None }
    }

    /// Takes an error of the client without what it may quote: an address, a header.
    fn by(error: ureq::Error, sent: bool) -> Self {
        let lasting = |what| Self { is_passing: false, ..Self::of(what, sent) };
        match error {
            ureq::Error::Io(error) => {
                // So TLS says that it does not trust the server, or takes it for none.
                let is_passing = error.kind() != io::ErrorKind::InvalidData;
                let what = match (sent, is_passing) {
                    (true, _) => "the connection broke",
                    (false, true) => "the server can't be reached",
                    (false, false) => "no secure connection came about",
                };
                let is_plain = error.get_ref().is_none_or(|inner| !inner.is::<ureq::Error>());
                let source = is_plain.then(|| error.into());
                Self { is_passing, source, ..Self::of(what, sent) }
            }
            ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
                Self::of("no connection came about in time", sent)
            }
            ureq::Error::Timeout(_) => Self::of("no answer began in time", sent),
            ureq::Error::HostNotFound => Self::of("the host was not found", sent),
            ureq::Error::ConnectionFailed => Self::of("the server can't be reached", sent),
            ureq::Error::ConnectProxyFailed(_) => Self::of("the proxy lets nothing through", sent),
            ureq::Error::Rustls(error) => {
                Self { source: Some(error.into()), ..lasting("no secure connection came about") }
            }
            ureq::Error::Tls(_) => lasting("no secure connection came about"),
            ureq::Error::BadUri(_) | ureq::Error::Http(_) => lasting("the address is none"),
            _ if sent => lasting("what came is no HTTP"),
            _ => lasting("the request can't be sent"),
        }
    }

    fn failed(self) -> Failed {
        let again = match (self.is_passing, self.sent) {
            (false, _) => Again::No,
            (true, true) => Again::IfAllowed,
            (true, false) => Again::Yes,
        };
        let kind = ErrorKind::Unanswered { sent: self.sent };
        let error = Error::new(kind, OPERATION, self.what);
        Failed::new(self.source.into_iter().fold(error, Error::with_source), again)
    }
}
