//! The exchange over reqwest, on tokio.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::pending;
use std::io;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Frame, SizeHint};
use reqwest::redirect::Policy;
use reqwest::{Client, Proxy, Response, Url};
use rustls::{ClientConfig, RootCertStore};
use tokio::time::timeout_at;

use super::again::Failed;
use super::exchange::{Came, Exchange, Head, Want};
use super::{IDLE, Request, Transport, limit};
use crate::conversation::{Asking, AsyncModel, ModelError};
use crate::error::{Error, Result};
use crate::memory::BoxFuture;
use crate::provider::Provider;
use crate::turn::Reply;

impl AsyncModel for Transport {
    fn ask(&self, ask: Asking<'static>) -> BoxFuture<'_, Result<Reply, ModelError>> {
        Box::pin(async move {
            let (request, client) = (self.request(&ask)?, self.client()?);
            let mut response = None;
            let mut exchange = Exchange::new(self, &ask, Instant::now());
            let mut want = exchange.begin();
            loop {
                let came = match want {
                    Want::Send(until) => {
                        response = None; // the previous response is done
                        match within(until, self.send(&client, &request)).await {
                            Some(Ok(sent)) => {
                                let sent = response.insert(sent);
                                Came::Head(Head::of(sent.status().as_u16(), sent.headers()))
                            }
                            Some(Err(failed)) => Came::Broken(failed),
                            None => Came::Nothing,
                        }
                    }
                    Want::Read(until) => match &mut response {
                        Some(response) => read(response, until).await,
                        None => Came::End,
                    },
                    Want::Pause(until) => within(until, pending()).await.unwrap_or(Came::Nothing),
                    Want::Done(outcome) => return Ok((*outcome?).into()),
                };
                want = exchange.on(came, Instant::now());
            }
        })
    }

    fn provider(&self) -> Option<Provider> {
        Some(self.provider.model(&self.model))
    }

    fn name(&self) -> Option<&str> {
        Some(&self.model)
    }
}

impl Transport {
    /// Uses this reqwest client in async code, with its pool, certificates, proxies and connect
    /// timeout.
    ///
    /// A redirect never carries the messages to another server, and no answer is accepted from
    /// there. But a client that follows redirects may send the key there: build it with
    /// [`Policy::none`](super::driver::redirect::Policy::none).
    ///
    /// ```
    /// use memory_prompt::transport::driver;
    /// use memory_prompt::{Provider, Transport};
    ///
    /// # fn with(client: driver::Client) {
    /// let model = Transport::new(Provider::OpenAi, "gpt-5-mini").over(client);
    /// # }
    /// ```
    #[must_use]
    pub fn over(mut self, client: Client) -> Self {
        self.own = Some(client);
        self
    }

    fn client(&self) -> Result<Client> {
        if let Some(client) = self.own.as_ref().or_else(|| self.clients.reqwest.get()) {
            return Ok(client.clone());
        }
        let invalid = || Error::invalid("transport", "no client can be made of these settings");
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(self.roots());
        let ring = Arc::new(rustls::crypto::ring::default_provider());
        let tls = ClientConfig::builder_with_provider(ring).with_safe_default_protocol_versions();
        let tls = tls.map_err(|error| invalid().with_source(error))?;
        let tls = tls.with_root_certificates(roots).with_no_client_auth();
        // A redirect would send the key and the messages to another server.
        let mut client = Client::builder().redirect(Policy::none()).pool_idle_timeout(IDLE);
        client = client.tls_backend_preconfigured(tls);
        client = client.connect_timeout(limit(self.connect));
        if let Some(proxy) = &self.proxy {
            client = client.proxy(Proxy::all(proxy).map_err(|_| invalid())?);
        }
        let client = client.build().map_err(|error| invalid().with_source(error.without_url()))?;
        Ok(self.clients.reqwest.get_or_init(|| client).clone())
    }

    /// Sends the request once, and waits for the head of the response. The timeout starts when the
    /// body is read, which is when there is a connection.
    async fn send(&self, client: &Client, request: &Request) -> Result<Response, Failed> {
        let url = request.url.parse::<Url>();
        let url = url.map_err(|_| Failed::unanswered("the address is none", false).for_good())?;
        let begun = Arc::new(OnceLock::new());
        let bytes = Bytes::from_owner(Arc::clone(&request.body));
        let body = reqwest::Body::wrap(Body { bytes, begun: Arc::clone(&begun) });
        let sending = client.post(url.clone()).headers(request.headers.clone()).body(body).send();
        let (mut sending, since) = (pin!(sending), Instant::now());
        loop {
            let from = begun.get().copied().unwrap_or_else(Instant::now);
            let until = from.checked_add(self.first_byte);
            match (within(until, &mut sending).await, begun.get()) {
                (Some(Ok(response)), _) if *response.url() != url => {
                    let what = "the server redirects: its address is another";
                    return Err(Failed::unanswered(what, true).for_good());
                }
                (Some(Ok(response)), _) => return Ok(response),
                (Some(Err(error)), begun) => return Err(broken(error, begun.is_some())),
                (None, Some(begun)) if begun.elapsed() >= self.first_byte => {
                    return Err(Failed::unanswered("no answer began in time", true));
                }
                (None, None) if since.elapsed() >= self.connect => {
                    return Err(Failed::unanswered("no connection came about in time", false));
                }
                (None, _) => {}
            }
        }
    }
}

async fn read(response: &mut Response, until: Option<Instant>) -> Came {
    match within(until, response.chunk()).await {
        Some(Ok(Some(bytes))) => Came::Bytes(bytes.into()),
        Some(Ok(None)) => Came::End,
        Some(Err(error)) => Came::Broken(broken(error, true)),
        None => Came::Nothing,
    }
}

async fn within<T>(until: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match until {
        Some(until) => timeout_at(until.into(), work).await.ok(),
        None => Some(work.await),
    }
}

/// The body of a request, which notes when it is read.
struct Body {
    bytes: Bytes,
    begun: Arc<OnceLock<Instant>>,
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.begun.get_or_init(Instant::now);
        let bytes = std::mem::take(&mut self.bytes);
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.len() as u64)
    }
}

/// Converts an error of the client, without the address.
fn broken(error: reqwest::Error, sent: bool) -> Failed {
    let error = error.without_url();
    let of = |what| Failed::unanswered(what, sent);
    let broken = match sent {
        true => of("the connection broke"),
        false if is_insecure(&error) => of("no secure connection came about").for_good(),
        false if error.is_timeout() => of("no connection came about in time"),
        false if error.is_connect() => of("the server can't be reached"),
        false => of("the request can't be sent").for_good(),
    };
    broken.because(error)
}

/// Returns whether TLS does not trust the server, or did not find TLS there.
fn is_insecure(error: &(dyn StdError + 'static)) -> bool {
    match error.downcast_ref::<io::Error>() {
        Some(io) if io.kind() == io::ErrorKind::InvalidData => true,
        Some(io) => io.get_ref().is_some_and(|inner| is_insecure(inner)),
        None => error.source().is_some_and(is_insecure),
    }
}
