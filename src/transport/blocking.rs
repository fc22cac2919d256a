//! The exchange over ureq. Each request has its own thread, so that its caller can be stopped at
//! any time, and can measure how long nothing has arrived.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Proxy, SendBody, Timeout};

use super::again::Failed;
use super::exchange::{BODY_TIME, Came, Exchange, Head, Want};
use super::{IDLE, Request, Transport, limit};
use crate::conversation::{Asking, Model, ModelError};
use crate::provider::Provider;
use crate::turn::Reply;

/// How often to check whether the answer is still wanted.
const LOOK: Duration = Duration::from_millis(50);

const NO_CONNECTION: &str = "no connection came about in time";
const INSECURE: &str = "no secure connection came about";

impl Model for Transport {
    fn ask(&self, ask: &Asking<'_>) -> Result<Reply, ModelError> {
        let request = self.request(ask)?;
        let (_quiet, nothing) = sync_channel(0);
        let mut running = None;
        let mut exchange = Exchange::new(self, ask, Instant::now());
        let mut want = exchange.begin();
        loop {
            let came = match want {
                Want::Send(until) => {
                    let running = running.insert(Running::begin(self.agent(), request.clone()));
                    running.head(self.connect, until, ask)
                }
                Want::Read(until) => {
                    wait(running.as_ref().map_or(&nothing, |it| &it.pieces), until, ask)
                }
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
            let mut config = Agent::config_builder()
                .http_status_as_error(false)
                // A redirect would send the key and the messages to another server.
                .max_redirects(0)
                .max_redirects_will_error(false)
                // No timeout for resolving the host name, which would cost another thread per
                // request: the caller gives up by itself.
                .timeout_connect(Some(limit(self.connect)))
                .timeout_per_write(Some(limit(self.stall.min(BODY_TIME))))
                .timeout_recv_response(Some(limit(self.first_byte)))
                // The caller gives up earlier; this ends abandoned requests.
                .timeout_per_read(Some(limit(self.first_byte.saturating_add(self.stall))))
                .max_idle_age(IDLE);
            let roots = self.roots();
            let roots = roots.iter().map(|it| Certificate::from_der(it.as_ref()).to_owned());
            let roots: Vec<_> = roots.collect();
            let roots = if roots.is_empty() { RootCerts::WebPki } else { RootCerts::from(roots) };
            config = config.tls_config(TlsConfig::builder().root_certs(roots).build());
            if let Some(proxy) = self.proxy.as_deref().and_then(|it| Proxy::new(it).ok()) {
                config = config.proxy(Some(proxy));
            }
            config.build().new_agent()
        });
        agent.clone()
    }
}

/// A request on its thread.
struct Running {
    pieces: Receiver<Came>,
    /// Whether there was a connection in time: set by the first of the two threads that knows.
    begun: Arc<OnceLock<bool>>,
}

impl Running {
    fn begin(agent: Agent, request: Request) -> Self {
        // Bounded, so that a fast server waits for a slow reader.
        let (to, pieces) = sync_channel(16);
        let begun = Arc::default();
        let run = {
            let (to, begun) = (to.clone(), Arc::clone(&begun));
            move || run(&agent, &request, &begun, &to)
        };
        if let Err(error) = thread::Builder::new().name("transport".to_owned()).spawn(run) {
            let broken = Failed::unanswered("no thread for the request", false).for_good();
            let _ = to.try_send(Came::Broken(broken.because(error))); // into an empty channel
        }
        Self { pieces, begun }
    }

    /// Waits for a connection and then for the head of the response.
    fn head(&self, connect: Duration, until: Option<Instant>, ask: &Asking<'_>) -> Came {
        let connected =
            Instant::now().checked_add(connect).filter(|it| until.is_none_or(|until| *it < until));
        match wait(&self.pieces, connected.or(until), ask) {
            Came::Nothing if !*self.begun.get_or_init(|| false) => {
                Came::Broken(Failed::unanswered(NO_CONNECTION, false))
            }
            Came::Nothing if connected.is_some() => wait(&self.pieces, until, ask),
            came => came,
        }
    }
}

impl Drop for Running {
    /// The caller has given up: what was not sent is not sent.
    fn drop(&mut self) {
        self.begun.get_or_init(|| false);
    }
}

fn run(agent: &Agent, request: &Request, begun: &OnceLock<bool>, to: &SyncSender<Came>) {
    let mut sending = agent.post(&request.url);
    if let Some(headers) = sending.headers_mut() {
        headers.clone_from(&request.headers);
    }
    let sending = sending.header("content-length", request.body.len());
    let sent = sending.send(SendBody::from_reader(&mut Body { left: &request.body, begun }));
    // Without its body, a request can't be answered.
    let begun = begun.get() == Some(&true);
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
            return; // the caller is gone, and the connection closes
        }
    }
}

/// Waits for the next piece until then.
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

/// The body of a request, which notes when it is read: then there is a connection.
struct Body<'a> {
    left: &'a [u8],
    begun: &'a OnceLock<bool>,
}

impl Read for Body<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if *self.begun.get_or_init(|| true) {
            return self.left.read(buffer);
        }
        Err(io::Error::other("nobody waits for it any more"))
    }
}

/// Converts an error of the client, without anything that it may quote: an address, a header.
fn broken(error: ureq::Error, sent: bool) -> Failed {
    use ureq::Error as Why;
    let of = |what| Failed::unanswered(what, sent);
    match error {
        Why::Io(error) => {
            // TLS does not trust the server, or did not find TLS there.
            let is_insecure = error.kind() == io::ErrorKind::InvalidData;
            let broken = match (sent, is_insecure) {
                (true, false) => of("the connection broke"),
                (true, true) => of("the connection broke").for_good(),
                (false, false) => of("the server can't be reached"),
                (false, true) => of(INSECURE).for_good(),
            };
            let is_plain = error.get_ref().is_none_or(|inner| !inner.is::<Why>());
            if is_plain { broken.because(error) } else { broken }
        }
        Why::Timeout(Timeout::Connect) => of(NO_CONNECTION),
        Why::Timeout(_) => of("no answer began in time"),
        Why::HostNotFound => of("the host was not found"),
        Why::ConnectionFailed => of("the server can't be reached"),
        Why::ConnectProxyFailed(_) => of("the proxy lets nothing through"),
        Why::Rustls(error) => of(INSECURE).for_good().because(error),
        Why::Tls(_) => of(INSECURE).for_good(),
        Why::BadUri(_) | Why::Http(_) => of("the address is none").for_good(),
        _ if sent => of("what came is no HTTP").for_good(),
        _ => of("the request can't be sent").for_good(),
    }
}
