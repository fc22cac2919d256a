//! The exchange over ureq. A request has a thread of its own, so that whoever waits for it can be
//! stopped at any time, and knows how long nothing has come.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Proxy, SendBody, Timeout};

use super::again::Failed;
use super::exchange::{Came, Exchange, Head, Want};
use super::{IDLE, Request, Transport, limit};
use crate::conversation::{Asking, Model, ModelError};
use crate::provider::Provider;
use crate::turn::Reply;

/// So often it is looked whether anybody still wants it.
const LOOK: Duration = Duration::from_millis(50);

impl Model for Transport {
    fn ask(&self, ask: &Asking<'_>) -> Result<Reply, ModelError> {
        let request = self.request(ask)?;
        let (_quiet, nothing) = sync_channel(0);
        let mut pieces = None;
        let mut exchange = Exchange::new(self, ask, Instant::now());
        let mut want = exchange.begin();
        loop {
            let came = match want {
                Want::Send(until) => {
                    wait(pieces.insert(send(self.agent(), request.clone())), until, ask)
                }
                Want::Read(until) => wait(pieces.as_ref().unwrap_or(&nothing), until, ask),
                Want::Pause(until) => wait(&nothing, until, ask),
                Want::Done(outcome) => return Ok((*outcome?).into()),
            };
            want = exchange.on(came, Instant::now());
        }
    }

    fn provider(&self) -> Option<Provider> {
        Some(self.provider.model(&self.model))
    }

    fn name(&self) -> Option<&str> {
        Some(&self.model)
    }
}

impl Transport {
    fn agent(&self) -> Agent {
        let agent = self.clients.ureq.get_or_init(|| {
            let settings = &self.settings;
            let mut config = Agent::config_builder()
                .http_status_as_error(false)
                // A redirect would carry the key and the messages to somebody else.
                .max_redirects(0)
                .max_redirects_will_error(false)
                .timeout_resolve(limit(settings.connect))
                .timeout_connect(limit(settings.connect))
                .timeout_per_write(limit(settings.stall))
                .timeout_recv_response(limit(settings.first_byte))
                // Whoever waits gives up earlier; this ends what nobody waits for.
                .timeout_per_read(limit(settings.first_byte.saturating_add(settings.stall)))
                .max_idle_age(IDLE);
            let roots = self.roots();
            let roots = roots.iter().map(|it| Certificate::from_der(it.as_ref()).to_owned());
            let roots: Vec<_> = roots.collect();
            let roots = if roots.is_empty() { RootCerts::WebPki } else { RootCerts::from(roots) };
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
            if let Some(proxy) = settings.proxy.as_deref().and_then(|it| Proxy::new(it).ok()) {
                config = config.proxy(Some(proxy));
            }
            config.build().new_agent()
        });
        agent.clone()
    }
}

/// Sends it, on its thread.
fn send(agent: Agent, request: Request) -> Receiver<Came> {
    // A bound, so that a fast server waits for a slow reader.
    let (to, pieces) = sync_channel(16);
    let run = {
        let to = to.clone();
        move || run(&agent, &request, &to)
    };
    if let Err(error) = thread::Builder::new().name("transport".to_owned()).spawn(run) {
        let broken =
            Failed::unanswered("no thread for the request", false).for_good().because(error);
        let _ = to.try_send(Came::Broken(broken)); // into an empty channel
    }
    pieces
}

fn run(agent: &Agent, request: &Request, to: &SyncSender<Came>) {
    let mut body = Body { bytes: &request.body, at: 0 };
    let mut sending = agent.post(&request.url);
    if let Some(headers) = sending.headers_mut() {
        headers.clone_from(&request.headers);
    }
    let sending = sending.header("content-length", request.body.len());
    let sent = sending.send(SendBody::from_reader(&mut body));
    // What was sent without its body can't be answered.
    let begun = body.at > 0;
    let response = match sent {
        Ok(response) => response,
        Err(error) => {
            let _ = to.send(Came::Broken(broken(error, begun)));
            return;
        }
    };
    let head = Head::of(response.status().as_u16(), response.headers());
    if to.send(Came::Head(head)).is_err() {
        return;
    }
    let mut reader = response.into_body().into_reader();
    let mut buffer = vec![0; 16 << 10];
    loop {
        let came = match reader.read(&mut buffer) {
            Ok(0) => Came::End,
            Ok(read) => Came::Bytes(buffer[..read].to_vec()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Came::Broken(broken(error.into(), true)),
        };
        let is_last = !matches!(came, Came::Bytes(_));
        if to.send(came).is_err() || is_last {
            return; // nobody listens any more, and the connection closes
        }
    }
}

/// Waits for what comes next, until then.
fn wait(pieces: &Receiver<Came>, until: Option<Instant>, ask: &Asking<'_>) -> Came {
    loop {
        if ask.is_stopped() {
            return Came::Stopped;
        }
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        match pieces.recv_timeout(left.map_or(LOOK, |left| left.min(LOOK))) {
            Ok(came) => return came,
            Err(RecvTimeoutError::Disconnected) => return Came::End,
            Err(RecvTimeoutError::Timeout) if until.is_some_and(|it| it <= Instant::now()) => {
                return Came::Nothing;
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
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

/// Takes an error of the client without what it may quote: an address, a header.
fn broken(error: ureq::Error, sent: bool) -> Failed {
    let of = |what| Failed::unanswered(what, sent);
    match error {
        ureq::Error::Io(error) => {
            // So TLS says that it does not trust the server, or takes it for none.
            let is_passing = error.kind() != io::ErrorKind::InvalidData;
            let broken = match (sent, is_passing) {
                (true, _) => of("the connection broke"),
                (false, true) => of("the server can't be reached"),
                (false, false) => of("no secure connection came about"),
            };
            let broken = if is_passing { broken } else { broken.for_good() };
            let is_plain = error.get_ref().is_none_or(|inner| !inner.is::<ureq::Error>());
            if is_plain { broken.because(error) } else { broken }
        }
        ureq::Error::Timeout(Timeout::Resolve | Timeout::Connect) => {
            of("no connection came about in time")
        }
        ureq::Error::Timeout(_) => of("no answer began in time"),
        ureq::Error::HostNotFound => of("the host was not found"),
        ureq::Error::ConnectionFailed => of("the server can't be reached"),
        ureq::Error::ConnectProxyFailed(_) => of("the proxy lets nothing through"),
        ureq::Error::Rustls(error) => {
            of("no secure connection came about").for_good().because(error)
        }
        ureq::Error::Tls(_) => of("no secure connection came about").for_good(),
        ureq::Error::BadUri(_) | ureq::Error::Http(_) => of("the address is none").for_good(),
        _ if sent => of("what came is no HTTP").for_good(),
        _ => of("the request can't be sent").for_good(),
    }
}
