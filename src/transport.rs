//! A model behind HTTP, for every provider that needs no more than a key.
//!
//! [`Transport`] is a [`Model`], and in async code an [`AsyncModel`]: together with a memory, it is
//! all that a chat needs.
//!
//! ```no_run
//! use memory_prompt::{Conversation, MemoryPrompt, Provider, Transport};
//! # #[cfg(feature = "sqlite")]
//! # fn main() -> memory_prompt::Result<()> {
//! use memory_prompt::SqliteStore;
//!
//! let model = Transport::from_env(Provider::Anthropic, "claude-sonnet-5")?; // ANTHROPIC_API_KEY
//! let memory = SqliteStore::open("chat.db")?.memory("ada")?;
//! let conversation = Conversation::new(MemoryPrompt::new(memory), model);
//! println!("{}", conversation.say("Hello!")?.text());
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! # Where requests go
//!
//! [`Transport::from_env`] takes address and key from the variables that the providers' own clients
//! use; [`new`](Transport::new) reads none of them.
//!
//! | provider | key | address | default |
//! |---|---|---|---|
//! | `OpenAi`, `OpenAiResponses` | `OPENAI_API_KEY` | `OPENAI_BASE_URL`, `OPENAI_API_BASE` | `https://api.openai.com/v1` |
//! | `OpenAiCompatible`, `StrictTemplate` | the same, if there is one | the same | |
//! | `Azure` | `AZURE_OPENAI_API_KEY` | `AZURE_OPENAI_ENDPOINT` | |
//! | `Anthropic` | `ANTHROPIC_API_KEY` | `ANTHROPIC_BASE_URL` | `https://api.anthropic.com` |
//! | `Gemini` | `GOOGLE_API_KEY`, `GEMINI_API_KEY` | `GOOGLE_GEMINI_BASE_URL` | `https://generativelanguage.googleapis.com` |
//! | `GoogleOpenAi` | the same | | `https://generativelanguage.googleapis.com/v1beta/openai` |
//! | `Mistral` | `MISTRAL_API_KEY` | | `https://api.mistral.ai/v1` |
//! | `DeepSeek` | `DEEPSEEK_API_KEY` | | `https://api.deepseek.com` |
//! | `Groq` | `GROQ_API_KEY` | `GROQ_BASE_URL` | `https://api.groq.com/openai/v1` |
//! | `OpenRouter` | `OPENROUTER_API_KEY` | | `https://openrouter.ai/api/v1` |
//! | `Xai` | `XAI_API_KEY` | | `https://api.x.ai/v1` |
//! | `LiteLlm` | `LITELLM_PROXY_API_KEY`, if there is one | `LITELLM_PROXY_API_BASE` | `http://localhost:4000/v1` |
//! | `Ollama` | `OLLAMA_API_KEY`, if there is one | `OLLAMA_HOST` | `http://localhost:11434` |
//! | `Vllm` | `VLLM_API_KEY`, if there is one | | `http://localhost:8000/v1` |
//! | `LlamaCpp` | `LLAMA_API_KEY`, if there is one | | `http://localhost:8080/v1` |
//! | a [custom](Provider::custom) row | | | |
//!
//! An address may end with or without `/v1` (Ollama's has none) and a slash, or be the whole path.
//! Bedrock and Vertex need a log-in, and so another client.
//!
//! # Retries
//!
//! A request is retried if it was answered with 408, 409, 425, 429 or 5xx, or with an error of that
//! kind in a body of status 200, or if it was never sent: up to [two times](Transport::retries),
//! after an exponential backoff, or after the time that the server asks for in `retry-after`, or
//! Google in an error with such a status. A request that may have been answered is
//! [not](Transport::repeat_unanswered) retried: if the connection breaks or the time is up after it
//! was sent, or a server reports a timeout (504, 520, 524, `timeout_error`, `DEADLINE_EXCEEDED`).
//! Nor is one whose answer was already partly shown.
//!
//! # Errors
//!
//! | kind | cause |
//! |---|---|
//! | [`Refused`](ErrorKind::Refused) | the server answered with an error, or a redirect; with its status and code |
//! | [`Unanswered`](ErrorKind::Unanswered) | it could not be reached, or no head of a response came; or [your client](Transport::over) followed a redirect |
//! | [`Unfinished`](ErrorKind::Unfinished) | the answer broke off, stopped coming, or never began after its head |
//! | [`Codec`](ErrorKind::Codec) | the response is not an answer: not JSON, or a web page |
//! | [`Invalid`](ErrorKind::Invalid) | the request can't be written, or the prompt is for another provider |
//!
//! No error contains a key or the text of a message. If a server asks to wait longer than
//! [allowed](Transport::longest_wait), the source of the error is a [`RetryAfter`].
//!
//! Nor do the logs, with one exception: at the level `trace`, and under the target `ureq_proto`,
//! ureq logs every byte in hexadecimal. Keep that target at `debug`.
//!
//! Unless a [total time](Transport::total_timeout) is set, an answer may take any time as long as
//! data keep arriving.
//!
//! An answer that is [stopped](crate::conversation::Stopper) ends at once. Its connection ends at
//! once too with reqwest; with ureq it ends when the next bytes arrive, or when its time is up.
//!
//! # Two clients
//!
//! With the feature `ureq` it is a [`Model`] for blocking code; with `reqwest` an [`AsyncModel`]
//! for async code on tokio, over its own client or [yours](Transport::over). Both send the same
//! requests, with the same retries, and read responses in the same way. Dropping the future ends
//! the request.
//!
//! TLS is rustls with ring, which is not installed as the process's default. With this feature,
//! your own reqwest, if it was built without TLS, has TLS too, but no cryptography provider:
//! `Client::new` panics unless its feature `rustls` is on, or
//! `rustls::crypto::ring::default_provider()` was installed before.
//!
//! [`AsyncModel`]: crate::conversation::AsyncModel
//! [`Model`]: crate::conversation::Model

mod address;
mod again;
#[cfg(feature = "reqwest")]
mod asynchronous;
#[cfg(feature = "ureq")]
mod blocking;
mod exchange;
mod reading;

use std::env;
use std::error::Error as StdError;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
/// The client for async code.
#[cfg(feature = "reqwest")]
pub use reqwest as driver;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use crate::conversation::Asking;
use crate::error::{Error, ErrorKind, Result};
use crate::provider::{Format, KeyHeader, Provider, Server};
use crate::wire;

const OPERATION: &str = "ask";

/// Servers close connections that were idle for two seconds (gunicorn) or five (uvicorn, node), and
/// a request that is sent at that moment is lost.
const IDLE: Duration = Duration::from_millis(1_500);

/// A model behind HTTP: see the [module](self).
///
/// Clones share the connections.
#[derive(Clone)]
pub struct Transport {
    provider: Provider,
    server: Option<Server>,
    model: String,
    base: Option<String>,
    key: Option<HeaderValue>,
    headers: HeaderMap,
    connect: Duration,
    first_byte: Duration,
    stall: Duration,
    total: Option<Duration>,
    retries: u32,
    longest_wait: Duration,
    repeats_unanswered: bool,
    keeps_broken: bool,
    stream: bool,
    proxy: Option<String>,
    trusted: Vec<CertificateDer<'static>>,
    shape: Option<Arc<ShapeRequest>>,
    clients: Arc<Clients>,
    /// The application's client.
    #[cfg(feature = "reqwest")]
    own: Option<reqwest::Client>,
}

/// The clients, each made on first use.
#[derive(Default)]
struct Clients {
    #[cfg(feature = "ureq")]
    ureq: OnceLock<ureq::Agent>,
    #[cfg(feature = "reqwest")]
    reqwest: OnceLock<reqwest::Client>,
}

#[derive(Clone)]
struct Request {
    url: String,
    headers: HeaderMap,
    body: Arc<[u8]>,
}

/// A function of the application that changes each request before it is sent.
type ShapeRequest = dyn for<'a> Fn(wire::Request<'a>) -> wire::Request<'a> + Send + Sync;

/// The time that a server asks to wait, if it is longer than [allowed](Transport::longest_wait):
/// the [source](StdError::source) of the error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryAfter(pub Duration);

impl fmt::Display for RetryAfter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the server asks to wait {:?}", self.0)
    }
}

impl StdError for RetryAfter {}

impl Transport {
    /// Uses this model of this provider, without a key, at the provider's own address unless
    /// [set](Self::base_url). No environment variables are read, except for proxies.
    pub fn new(provider: Provider, model: impl Into<String>) -> Self {
        Self {
            provider,
            server: provider.server(),
            model: model.into(),
            base: None,
            key: None,
            headers: HeaderMap::new(),
            connect: Duration::from_secs(10),
            first_byte: Duration::from_secs(300),
            stall: Duration::from_secs(300),
            total: None,
            retries: 2,
            longest_wait: Duration::from_secs(60),
            repeats_unanswered: false,
            keeps_broken: false,
            stream: true,
            proxy: None,
            trusted: Vec::new(),
            shape: None,
            clients: Arc::default(),
            #[cfg(feature = "reqwest")]
            own: None,
        }
    }

    /// Uses this model of this provider, with the key and the address from the environment, under
    /// the [provider's usual names](self#where-requests-go).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] names the variables if there is no key and the provider needs one, if
    /// there is no address, or if one is malformed. [`ErrorKind::Unsupported`] if the provider
    /// needs a log-in.
    pub fn from_env(provider: Provider, model: impl Into<String>) -> Result<Self> {
        let found = |names: &[&str]| {
            let values = names.iter().filter_map(|name| env::var(name).ok());
            values.map(|value| value.trim().to_owned()).find(|value| !value.is_empty())
        };
        let mut transport = Self::new(provider, model);
        let server = transport.server()?;
        let (key, base) = (found(server.keys), found(server.bases));
        if key.is_none() && base.is_none() && server.needs_key {
            return Err(missing("key", provider, server.keys));
        }
        if base.is_none() && server.base.is_none() {
            return Err(missing("address", provider, server.bases));
        }
        if let Some(key) = key {
            transport = transport.key(&key)?;
        }
        match base {
            Some(base) => transport.base_url(&base),
            None => Ok(transport),
        }
    }

    /// Sets the key.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it can't be in a header.
    pub fn key(mut self, key: &str) -> Result<Self> {
        let named = self.server.map_or(KeyHeader::Bearer, |server| server.key);
        let text = match named {
            KeyHeader::Bearer => format!("Bearer {}", key.trim()),
            KeyHeader::Named(_) => key.trim().to_owned(),
        };
        let mut value = HeaderValue::from_str(&text)
            .map_err(|_| Error::invalid("transport", "the key can't stand in a header"))?;
        value.set_sensitive(true);
        self.key = Some(value);
        Ok(self)
    }

    /// Sets the address, for example of a gateway or your own server.
    ///
    /// ```
    /// use memory_prompt::{Provider, Transport};
    ///
    /// for address in ["http://localhost:8080", "http://localhost:8080/v1/"] {
    ///     let model = Transport::new(Provider::OpenAiCompatible, "m").base_url(address)?;
    ///     assert_eq!(model.url()?, "http://localhost:8080/v1/chat/completions");
    /// }
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it is not an address, or contains a password.
    pub fn base_url(mut self, address: &str) -> Result<Self> {
        self.base = Some(address::checked(address, self.provider.format())?);
        Ok(self.changed())
    }

    /// Returns the address to which requests are sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if none was set and the provider has no default;
    /// [`ErrorKind::Unsupported`] if the provider needs a log-in.
    pub fn url(&self) -> Result<String> {
        let server = self.server()?;
        let base = self.base.as_deref().or(server.base).ok_or_else(|| {
            let text = format!("{} has no address of its own: set `base_url`", self.provider);
            Error::invalid("transport", text)
        })?;
        let format = self.provider.format();
        let is_events = self.stream && format == Format::Gemini;
        let path = format.path(&self.model, self.stream);
        Ok(address::join(base, &server, &path, is_events))
    }

    /// Adds a header, instead of one with the same name that would be sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it is not a valid header.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self> {
        let invalid = || Error::invalid("transport", "header: a name or value that is none");
        let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| invalid())?;
        let mut value = HeaderValue::from_str(value).map_err(|_| invalid())?;
        value.set_sensitive(true);
        self.headers.insert(name, value);
        Ok(self)
    }

    /// Changes each request: its limit of tokens, the choice of tools, cache marks, fields of the
    /// provider.
    ///
    /// ```
    /// use memory_prompt::{Provider, Transport};
    ///
    /// let model = Transport::new(Provider::Anthropic, "claude-sonnet-5")
    ///     .shape(|it| it.max_tokens(2_000).cache_prefix().extra("temperature", 0.2));
    /// ```
    ///
    /// Without this, Anthropic's models get a limit of 4,096 tokens, which all of them support,
    /// since a limit is required.
    #[must_use]
    pub fn shape(
        mut self,
        shape: impl for<'a> Fn(wire::Request<'a>) -> wire::Request<'a> + Send + Sync + 'static,
    ) -> Self {
        self.shape = Some(Arc::new(shape));
        self
    }

    /// Asks for answers without streaming, for servers that can't stream.
    #[must_use]
    pub fn no_stream(mut self) -> Self {
        self.stream = false;
        self
    }

    /// Sets how long connecting may take. The default is 10 seconds.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect = timeout;
        self.changed()
    }

    /// Sets how long the head of a response may take after the request was sent, and how long the
    /// first byte of the answer may take after the head. The default is 5 minutes each, since a
    /// model that thinks, or does not stream, takes its time.
    #[must_use]
    pub fn first_byte_timeout(mut self, timeout: Duration) -> Self {
        self.first_byte = timeout;
        self.changed()
    }

    /// Sets how long an answer may pause before it is given up. The default is 5 minutes, since
    /// Ollama, Gemini and some gateways send the arguments of a call only when they are complete. A
    /// comment that shows that the server is still working counts as data, so an answer may take
    /// longer than any time except the [total](Self::total_timeout). In an answer that is one
    /// document, a pause is a minute at most.
    #[must_use]
    pub fn stall_timeout(mut self, timeout: Duration) -> Self {
        self.stall = timeout;
        self.changed()
    }

    /// Sets how long an answer may take in total, including [retries](self#retries). There is no
    /// such limit by default. No retry is made if its pause would end later. An answer that was not
    /// complete by then is [`Unfinished`](ErrorKind::Unfinished), and [kept](Self::keep_broken)
    /// like any other; a request without a response is [`Unanswered`](ErrorKind::Unanswered).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use memory_prompt::{Provider, Transport};
    ///
    /// let model = Transport::new(Provider::OpenAi, "gpt-5-mini")
    ///     .total_timeout(Duration::from_secs(600));
    /// ```
    #[must_use]
    pub fn total_timeout(mut self, timeout: Duration) -> Self {
        self.total = Some(timeout);
        self
    }

    /// Sets how often a request is [retried](self#retries). The default is twice.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.retries = retries;
        self
    }

    /// Sets the longest time that a server may ask to wait. The default is a minute. If it asks for
    /// more, its error is returned at once.
    #[must_use]
    pub fn longest_wait(mut self, wait: Duration) -> Self {
        self.longest_wait = wait;
        self
    }

    /// Also retries a request that may have been answered, as long as nothing of the answer was
    /// shown: it may be billed twice.
    #[must_use]
    pub fn repeat_unanswered(mut self) -> Self {
        self.repeats_unanswered = true;
        self
    }

    /// Treats an answer that breaks off, or whose provider fails in the middle of it, as
    /// interrupted: its text is [stored and marked](crate::Turn::answer), and the turn ends.
    /// Without this, the turn fails, and nothing is stored.
    #[must_use]
    pub fn keep_broken(mut self) -> Self {
        self.keeps_broken = true;
        self
    }

    /// Uses this proxy, instead of the one in the environment (`HTTPS_PROXY` and the like).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it is not the address of a proxy.
    pub fn proxy(mut self, address: &str) -> Result<Self> {
        let invalid = || Error::invalid("transport", "proxy: what is no address");
        #[cfg(feature = "ureq")]
        ureq::Proxy::new(address).map_err(|_| invalid())?;
        #[cfg(feature = "reqwest")]
        reqwest::Proxy::all(address).map_err(|_| invalid())?;
        self.proxy = Some(address.to_owned());
        Ok(self.changed())
    }

    /// Trusts servers whose certificate was signed by one of these (PEM), in addition to those that
    /// the system trusts.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] if it contains no certificate.
    pub fn trust(mut self, pem: &[u8]) -> Result<Self> {
        let trusted: Vec<_> = CertificateDer::pem_slice_iter(pem).flatten().collect();
        if trusted.is_empty() {
            return Err(Error::invalid("transport", "trust: no certificate"));
        }
        self.trusted.extend(trusted);
        Ok(self.changed())
    }

    /// Drops the clients, so that connections are made with the new settings.
    fn changed(mut self) -> Self {
        self.clients = Arc::default();
        self
    }

    fn server(&self) -> Result<Server> {
        self.server.ok_or_else(|| {
            let text = format!("{} needs a log-in: bring a client of its own", self.provider);
            Error::new(ErrorKind::Unsupported, "transport", text)
        })
    }

    /// Returns the trusted root certificates.
    fn roots(&self) -> Vec<CertificateDer<'static>> {
        let is_plain = self.url().is_ok_and(|url| url.starts_with("http://"));
        let mut roots = self.trusted.clone();
        if !is_plain || self.proxy.is_some() {
            roots.extend(rustls_native_certs::load_native_certs().certs); // takes some milliseconds
        }
        roots
    }

    fn request(&self, ask: &Asking<'_>) -> Result<Request> {
        let (url, headers) = (self.url()?, self.headers(&self.server()?));
        Ok(Request { url, headers, body: Arc::from(self.body(ask)?) })
    }

    fn headers(&self, server: &Server) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let agent = concat!("memory-prompt/", env!("CARGO_PKG_VERSION"));
        headers.insert("user-agent", HeaderValue::from_static(agent));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        if self.stream {
            headers.insert("accept", HeaderValue::from_static("text/event-stream, */*"));
            // With compression, events may be held back until more arrive.
            headers.insert("accept-encoding", HeaderValue::from_static("identity"));
        }
        if self.provider.format() == Format::Anthropic {
            headers.insert("anthropic-version", HeaderValue::from_static("2023-06-01"));
        }
        if let Some(key) = &self.key {
            let name = match server.key {
                KeyHeader::Bearer => "authorization",
                KeyHeader::Named(name) => name,
            };
            headers.insert(name, key.clone());
        }
        // Not `extend`, which would send both.
        for (name, value) in &self.headers {
            headers.insert(name, value.clone());
        }
        headers
    }

    fn body(&self, ask: &Asking<'_>) -> Result<Vec<u8>> {
        let asked = ask.prompt().report().provider;
        let is_same = |asked: Provider| {
            asked.row().name() == self.provider.row().name()
                && asked.format() == self.provider.format()
        };
        if !asked.is_some_and(is_same) {
            let asked = asked.map_or_else(|| "no provider".to_owned(), |it| it.to_string());
            let text =
                format!("the prompt is for {asked}, and this transport for {}", self.provider);
            return Err(Error::invalid(OPERATION, text));
        }
        let mut request = wire::Request::new(ask.prompt()).model(&self.model).stream(self.stream);
        if !ask.tools().is_empty() {
            request = request.tools(ask.tools());
        }
        if self.provider.format() == Format::Anthropic {
            request = request.max_tokens(4_096);
        }
        if let Some(shape) = &self.shape {
            request = shape(request);
        }
        serde_json::to_vec(&request)
            .map_err(|error| Error::invalid(OPERATION, error.to_string()).with_source(error))
    }
}

/// Returns a time that the HTTP clients accept: at most a century.
fn limit(time: Duration) -> Duration {
    time.min(Duration::from_secs(100 * 365 * 86_400))
}

fn missing(what: &str, provider: Provider, names: &[&str]) -> Error {
    let text = match names {
        [] => format!("no {what} for {provider}"),
        names => format!("no {what} for {provider}: set {}", names.join(" or ")),
    };
    Error::invalid("transport", text)
}

impl fmt::Debug for Transport {
    /// Shows the address. For keys and headers it shows only whether they are set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.base.as_deref().map(|base| base.split('?').next().unwrap_or_default());
        f.debug_struct("Transport")
            .field("provider", &self.provider.row().name())
            .field("model", &self.model)
            .field("base", &base)
            .field("has_key", &self.key.is_some())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("stream", &self.stream)
            .field("retries", &self.retries)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::Transport;
    use crate::provider::Provider;

    /// Ollama sends the arguments of a call minutes after the first event, and healthy answers were
    /// given up.
    #[test]
    fn an_answer_may_pause_for_as_long_as_it_may_take_to_begin() {
        let model = Transport::new(Provider::Ollama, "m");
        assert!(model.stall >= model.first_byte);
    }
}
