//! A server that speaks the providers' protocols over TCP, and does what servers do wrong.
#![allow(dead_code, unreachable_pub)] // each test binary uses its own part
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::stub_protocols::{Protocol, Request, Said, events, whole};

/// What the server does with a request.
#[derive(Clone, Debug)]
pub struct Step {
    said: Said,
    fault: Fault,
}

/// What goes wrong, or is only odd.
#[derive(Clone, Debug, Default)]
pub enum Fault {
    #[default]
    None,
    /// An error of the provider, with these headers beside it.
    Status(u16, Vec<(&'static str, String)>),
    /// The page of a proxy.
    Page(u16),
    /// Such a page that has no end.
    HugePage(u16),
    /// An error if an answer is expected.
    ErrorWith200,
    /// This body with this status.
    Body(u16, &'static str),
    /// The provider's error in the middle of a stream: behind so many events.
    ErrorEvent(usize),
    /// The connection ends when this part of the body was sent.
    Cut(f64),
    /// The same when so many bytes of it were sent.
    CutAt(usize),
    /// The body ends properly in the middle of the answer, behind an event.
    EndsEarly,
    /// It ends in place of an answer.
    CutBefore,
    /// Nothing more comes when this part of the body was sent.
    Stall(f64),
    /// With this status a comment ten times a second, for ten seconds, and nothing else.
    Drip(u16),
    /// Nothing comes at all.
    StallBefore,
    /// A reason to stop stands in each event, and nothing comes for so long behind two of them.
    ReasonInEach(Duration),
    /// Nothing comes for so long behind the head.
    LateBody(Duration),
    /// The body is no JSON in the middle.
    Garbage,
    Redirect(u16),
    /// The same, to this address.
    RedirectTo(u16, String),
    /// Another server's protocol.
    NotHttp,
    /// A body of no bytes.
    Empty,
    // From here on the answer is whole.
    /// In chunks of one to seven bytes.
    OddChunks,
    /// The head comes byte by byte, with a pause between them.
    SlowHead(Duration),
    /// The body is called what it is not.
    WrongType(&'static str),
    /// HTTP/1.0 without a length: the end of the connection is the end of the body.
    OldHttp,
    Gzip,
    ByteOrderMark,
    /// `: keep-alive` between the events, and blank lines before an answer.
    KeepAlive,
    /// No `[DONE]`, and nothing else behind the end.
    NoDone,
    /// What it cost comes behind `[DONE]`.
    UsageLast,
    /// The connection stays open behind the last event.
    HeldOpen,
    /// In one piece where a stream was asked for.
    NoStream,
    /// The connection is cut behind the last event, without the chunk that ends the body.
    CutAtEnd,
}

/// A request that came.
#[derive(Clone, Debug)]
pub struct Asked {
    pub path: String,
    pub headers: BTreeMap<String, String>,
    pub body: Value,
    pub at: Instant,
}

impl Step {
    pub fn says(text: &str) -> Self {
        Self { said: Said::Text(text.to_owned()), fault: Fault::None }
    }

    pub fn calls(calls: &[(&str, Value)]) -> Self {
        let calls = calls.iter().map(|(name, arguments)| ((*name).to_owned(), arguments.clone()));
        Self { said: Said::Calls(calls.collect()), fault: Fault::None }
    }

    pub fn but(mut self, fault: Fault) -> Self {
        self.fault = fault;
        self
    }
}

impl From<Fault> for Step {
    fn from(fault: Fault) -> Self {
        Self::says("This is what the model says.").but(fault)
    }
}

/// The server, until it is dropped.
pub struct Stub {
    pub url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    script: Mutex<VecDeque<Step>>,
    asked: Mutex<Vec<Asked>>,
    answers: AtomicUsize,
    connections: AtomicUsize,
    planned: AtomicUsize,
    is_over: AtomicBool,
}

impl Stub {
    pub fn start() -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)))
    }

    /// Starts at this address.
    pub fn at(address: SocketAddr) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared::default());
        let server = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if server.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (server, Ok(stream)) = (Arc::clone(&server), stream) else { continue };
                server.connections.fetch_add(1, Ordering::Relaxed);
                // A client that goes away is none of its business.
                thread::spawn(move || drop(server.serve(&stream)));
            }
        });
        Self { url, shared }
    }

    /// Does this with the next requests; without a word it echoes what it was asked.
    pub fn then(&self, steps: impl IntoIterator<Item = impl Into<Step>>) {
        self.shared.script.lock().unwrap().extend(steps.into_iter().map(Into::into));
    }

    /// Takes the requests that came since the last time.
    pub fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.shared.asked.lock().unwrap())
    }

    /// Waits until a request has come that was not taken yet.
    pub fn wait_until_asked(&self) {
        let since = Instant::now();
        while self.shared.asked.lock().unwrap().is_empty() {
            assert!(since.elapsed().as_secs() < 60, "nothing came");
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Forgets what it was to do.
    pub fn forget(&self) {
        self.shared.script.lock().unwrap().clear();
    }

    /// The number of bytes of the body that was sent last, or begun.
    pub fn planned(&self) -> usize {
        self.shared.planned.load(Ordering::Relaxed)
    }

    /// How many connections were opened.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for Stub {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

impl Shared {
    fn serve(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        while let Some(asked) = read(&mut reader)? {
            self.asked.lock().unwrap().push(asked.clone());
            let plan = self.plan(&asked);
            plan.send(stream, &self.is_over)?;
            if plan.closes() {
                let _ = stream.shutdown(Shutdown::Both);
                return Ok(());
            }
        }
        Ok(())
    }

    fn plan(&self, asked: &Asked) -> Plan {
        let Some((protocol, by_path, model)) = Protocol::of(&asked.path) else {
            return Plan::page(404);
        };
        let header = |name: &str| asked.headers.get(name).cloned();
        if let Some((status, why)) = protocol.refuses(header, &asked.body) {
            return Plan::json(status, &protocol.error(status, &why));
        }
        let step = self.script.lock().unwrap().pop_front();
        let step = step.unwrap_or_else(|| Step::says("Out of words."));
        // Ollama streams unless it is told not to.
        let by_body = asked.body["stream"].as_bool().unwrap_or(protocol == Protocol::Ollama);
        let request = Request {
            protocol,
            model: model.unwrap_or_else(|| asked.body["model"].as_str().unwrap_or("").to_owned()),
            stream: by_path || (by_body && protocol != Protocol::Gemini),
            body: &asked.body,
            number: self.answers.fetch_add(1, Ordering::Relaxed),
        };
        let plan = Plan::of(&request, &step);
        self.planned.store(plan.body.len(), Ordering::Relaxed);
        plan
    }
}

/// Reads a request; `None` if no more come.
fn read(reader: &mut BufReader<&TcpStream>) -> io::Result<Option<Asked>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        // One that is sent twice is seen to be.
        let known: &mut String = headers.entry(name.to_ascii_lowercase()).or_default();
        *known += if known.is_empty() { "" } else { ", " };
        *known += value;
    }
    let length = headers.get("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    Ok(Some(Asked { path, headers, body, at: Instant::now() }))
}

/// What is sent, and how.
struct Plan {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
    delivery: Delivery,
}

#[derive(Clone, Copy, PartialEq)]
enum Delivery {
    Length,
    Chunked,
    OddChunks,
    SlowHead(Duration),
    /// To the end of the connection.
    Old,
    /// So much of the body, and then the end of the connection, or nothing.
    Part(f64, bool),
    /// With a pause behind so many bytes of the body.
    Pausing(usize, Duration),
    /// Without the end.
    HeldOpen,
    /// No head either.
    Nothing(bool),
    NotHttp,
    /// For ever.
    Endless,
    /// Again and again, with a pause between.
    Drip,
}

impl Plan {
    fn new(status: u16, kind: &str, body: Vec<u8>) -> Self {
        let headers = vec![("content-type", kind.to_owned())];
        Self { status, headers, body, delivery: Delivery::Length }
    }

    fn json(status: u16, body: &Value) -> Self {
        Self::new(status, "application/json", body.to_string().into_bytes())
    }

    fn page(status: u16) -> Self {
        let page = format!("<!DOCTYPE html><html><h1>{status}</h1><p>Sorry.</p></html>\n");
        Self::new(status, "text/html; charset=utf-8", page.into_bytes())
    }

    #[allow(clippy::too_many_lines)] // an arm for each fault
    fn of(request: &Request<'_>, step: &Step) -> Self {
        let streams = request.stream && !matches!(step.fault, Fault::NoStream);
        let mut plan = if streams {
            let mut list = events(request, &step.said);
            odd(&mut list, request, &step.fault);
            let kind = match request.protocol {
                Protocol::Ollama => "application/x-ndjson",
                _ => "text/event-stream",
            };
            let delivery = match step.fault {
                Fault::ReasonInEach(pause) => {
                    Delivery::Pausing(list[..2].iter().map(String::len).sum(), pause)
                }
                _ => Delivery::Chunked,
            };
            let plan = Self::new(200, kind, list.concat().into_bytes());
            Self { delivery, ..plan }
        } else {
            Self::json(200, &whole(request, &step.said))
        };
        let delivery = |plan: Self, delivery| Self { delivery, ..plan };
        let protocol = request.protocol;
        match &step.fault {
            Fault::Status(status, more) => {
                let mut plan = Self::json(*status, &protocol.error(*status, "Not now."));
                plan.headers.extend(more.iter().cloned());
                plan
            }
            Fault::Page(status) => Self::page(*status),
            Fault::HugePage(status) => delivery(Self::page(*status), Delivery::Endless),
            Fault::Drip(status) => {
                let plan = Self::new(*status, "text/event-stream", b": keep-alive\n\n".to_vec());
                delivery(plan, Delivery::Drip)
            }
            Fault::Body(status, body) => {
                Self::new(*status, "application/json", body.as_bytes().to_vec())
            }
            Fault::ErrorWith200 => Self::json(200, &protocol.error(429, "Not now.")),
            Fault::Cut(part) => delivery(plan, Delivery::Part(*part, true)),
            Fault::CutAt(bytes) => {
                plan.body.truncate(*bytes);
                delivery(plan, Delivery::Part(1.0, true))
            }
            Fault::EndsEarly => {
                let most = plan.body.len() * 3 / 5;
                let end = plan.body[..most].iter().rposition(|byte| *byte == b'\n');
                plan.body.truncate(end.map_or(0, |at| at + 1));
                plan
            }
            Fault::Stall(part) => delivery(plan, Delivery::Part(*part, false)),
            Fault::CutBefore => delivery(plan, Delivery::Nothing(true)),
            Fault::StallBefore => delivery(plan, Delivery::Nothing(false)),
            Fault::Garbage => {
                // One brace too many, where one stands anyway.
                let middle = plan.body.len() / 2;
                let at = plan.body[middle..].iter().position(|byte| *byte == b'}');
                plan.body.insert(middle + at.unwrap_or(0), b'}');
                plan
            }
            Fault::Redirect(status) => {
                plan.status = *status;
                plan.headers.push(("location", "http://127.0.0.1:9/elsewhere".to_owned()));
                plan
            }
            Fault::RedirectTo(status, address) => {
                plan.status = *status;
                plan.headers.push(("location", address.clone()));
                plan
            }
            Fault::NotHttp => delivery(plan, Delivery::NotHttp),
            Fault::Empty => Self { body: Vec::new(), delivery: Delivery::Length, ..plan },
            Fault::OddChunks => delivery(plan, Delivery::OddChunks),
            Fault::SlowHead(pause) => delivery(plan, Delivery::SlowHead(*pause)),
            Fault::LateBody(pause) => delivery(plan, Delivery::Pausing(0, *pause)),
            Fault::WrongType(kind) => {
                (*kind).clone_into(&mut plan.headers[0].1);
                plan
            }
            Fault::OldHttp => delivery(plan, Delivery::Old),
            Fault::Gzip => {
                plan.headers.push(("content-encoding", "gzip".to_owned()));
                plan.body = gzip(&plan.body);
                plan
            }
            Fault::ByteOrderMark => {
                plan.body.splice(0..0, *b"\xEF\xBB\xBF");
                plan
            }
            Fault::KeepAlive => {
                if !streams {
                    plan.body.splice(0..0, *b"\n\n  \r\n");
                }
                plan
            }
            Fault::HeldOpen if streams => delivery(plan, Delivery::HeldOpen),
            Fault::CutAtEnd => delivery(plan, Delivery::Part(1.0, true)),
            Fault::None
            | Fault::NoDone
            | Fault::UsageLast
            | Fault::NoStream
            | Fault::ErrorEvent(_)
            | Fault::ReasonInEach(_)
            | Fault::HeldOpen => plan,
        }
    }

    fn closes(&self) -> bool {
        use Delivery::{Chunked, Length, OddChunks, SlowHead};
        !matches!(self.delivery, Length | Chunked | OddChunks | SlowHead(_))
    }

    fn send(&self, mut to: &TcpStream, is_over: &AtomicBool) -> io::Result<()> {
        let head = self.head();
        match self.delivery {
            Delivery::Nothing(ends) => hold(to, ends, is_over),
            Delivery::NotHttp => to.write_all(b"SSH-2.0-OpenSSH_9.6\r\n"),
            Delivery::Length | Delivery::Old => {
                to.write_all(&[head.as_bytes(), &self.body].concat())
            }
            Delivery::SlowHead(pause) => {
                for byte in head.bytes() {
                    to.write_all(&[byte])?;
                    thread::sleep(pause);
                }
                to.write_all(&self.body)
            }
            Delivery::Chunked => {
                to.write_all(head.as_bytes())?;
                chunks(to, &self.body, |_| 64)?;
                to.write_all(b"0\r\n\r\n")
            }
            Delivery::Pausing(at, pause) => {
                to.write_all(head.as_bytes())?;
                chunks(to, &self.body[..at], |_| 64)?;
                thread::sleep(pause);
                chunks(to, &self.body[at..], |_| 64)?;
                to.write_all(b"0\r\n\r\n")
            }
            Delivery::OddChunks => {
                to.write_all(head.as_bytes())?;
                chunks(to, &self.body, |i| i % 7 + 1)?;
                to.write_all(b"0\r\n\r\n")
            }
            Delivery::HeldOpen => {
                to.write_all(head.as_bytes())?;
                chunks(to, &self.body, |_| 64)?;
                hold(to, false, is_over)
            }
            Delivery::Part(part, ends) => {
                to.write_all(head.as_bytes())?;
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    clippy::cast_precision_loss
                )]
                let most = (self.body.len() as f64 * part) as usize;
                chunks(to, &self.body[..most], |_| 64)?;
                hold(to, ends, is_over)
            }
            Delivery::Drip => {
                to.write_all(head.as_bytes())?;
                for _ in 0..100 {
                    chunks(to, &self.body, |_| 64)?;
                    thread::sleep(Duration::from_millis(100));
                }
                to.write_all(b"0\r\n\r\n")
            }
            Delivery::Endless => {
                to.write_all(head.as_bytes())?;
                while !is_over.load(Ordering::Relaxed) {
                    chunks(to, &self.body, |_| 64)?;
                }
                Ok(())
            }
        }
    }

    fn head(&self) -> String {
        let version = if self.delivery == Delivery::Old { "1.0" } else { "1.1" };
        let mut head = format!("HTTP/{version} {} So It Is\r\n", self.status);
        for (name, value) in &self.headers {
            head.extend([name, ": ", value, "\r\n"]);
        }
        match self.delivery {
            Delivery::Old => {}
            Delivery::Length | Delivery::SlowHead(_) => {
                head.extend(["content-length: ", &self.body.len().to_string(), "\r\n"]);
            }
            _ => head += "transfer-encoding: chunked\r\n",
        }
        head + "\r\n"
    }
}

/// Changes the events of a stream as servers do.
fn odd(list: &mut Vec<String>, request: &Request<'_>, fault: &Fault) {
    match fault {
        Fault::KeepAlive if request.protocol == Protocol::Ollama => {
            for line in list {
                line.push_str("\n\n");
            }
        }
        Fault::KeepAlive => {
            for event in list {
                event.insert_str(0, ": keep-alive\n\n");
            }
        }
        Fault::ErrorEvent(at) => {
            let error = request.protocol.error(500, "Not now.");
            list.truncate(*at);
            list.push(match request.protocol {
                Protocol::Anthropic => format!("event: error\ndata: {error}\n\n"),
                Protocol::Ollama => format!("{error}\n"),
                _ => format!("data: {error}\n\n"),
            });
        }
        Fault::ReasonInEach(_) => {
            let candidate = "\"candidates\":[{\"content\"";
            let stopping = "\"candidates\":[{\"finishReason\":\"STOP\",\"content\"";
            for event in list.iter_mut().filter(|event| !event.contains("finishReason")) {
                *event = event.replace("\"finish_reason\":null", "\"finish_reason\":\"stop\"");
                *event = event.replace(candidate, stopping);
            }
        }
        Fault::NoDone => list.retain(|event| !event.contains("[DONE]")),
        Fault::UsageLast if request.protocol == Protocol::Chat => {
            let usage = json!({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12});
            list.retain(|event| !event.contains("\"choices\":[]"));
            list.push(format!("data: {}\n\n", json!({"choices": [], "usage": usage})));
        }
        _ => {}
    }
}

fn chunks(mut to: &TcpStream, body: &[u8], size: impl Fn(usize) -> usize) -> io::Result<()> {
    let (mut at, mut i) = (0, 0);
    while at < body.len() {
        let chunk = &body[at..body.len().min(at + size(i))];
        to.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
        to.write_all(chunk)?;
        to.write_all(b"\r\n")?;
        at += chunk.len();
        i += 1;
    }
    Ok(())
}

/// Ends the connection, or does nothing until the other side does.
fn hold(mut of: &TcpStream, ends: bool, is_over: &AtomicBool) -> io::Result<()> {
    if ends {
        return of.shutdown(Shutdown::Both);
    }
    of.set_read_timeout(Some(Duration::from_millis(20)))?;
    while !is_over.load(Ordering::Relaxed) {
        match of.read(&mut [0; 64]) {
            Ok(0) => return Ok(()),
            Err(error)
                if !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
            {
                return Err(error);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Packs bytes as they are: blocks of gzip that are not compressed.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let blocks: Vec<&[u8]> = bytes.chunks(100).collect();
    for (i, block) in blocks.iter().enumerate() {
        let length = u16::try_from(block.len()).unwrap();
        packed.push(u8::from(i + 1 == blocks.len()));
        packed.extend(length.to_le_bytes());
        packed.extend((!length).to_le_bytes());
        packed.extend(*block);
    }
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
        }
    }
    packed.extend((!crc).to_le_bytes());
    packed.extend(u32::try_from(bytes.len()).unwrap().to_le_bytes());
    packed
}
