//! What the examples share: the types of clients that take no JSON, and a server that answers in
//! turn what it was given and hands over what it was asked.
//!
//! A client that takes JSON needs none of these types: give it a view of `memory_prompt::wire`,
//! which loses less. (async-openai does with its feature `byot`.) Copy the module that you need.

pub mod async_openai;
pub mod ollama_rs;

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// A server on a free port of this machine, for as long as it has answers.
#[derive(Debug)]
pub struct Stub {
    pub url: String,
    asked: Receiver<Request>,
}

/// What a client sent.
#[derive(Debug)]
pub struct Request {
    pub path: String,
    pub body: Value,
}

impl Stub {
    /// Starts a server that answers each request with the next of these texts, as JSON.
    pub fn start<I>(answers: I) -> Result<Self>
    where
        I: IntoIterator<Item: Into<String>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (sender, asked) = channel();
        thread::spawn(move || {
            for answer in answers {
                let answer = answer.into();
                // On a busy machine others may knock at this port, looking for a server of theirs.
                while let Err(error) = serve(&listener, &answer, &sender) {
                    eprintln!("the stub was asked something else: {error}");
                }
            }
        });
        Ok(Self { url, asked })
    }

    /// The next request that was answered. There is one as soon as a client has its answer; a client
    /// that never asked shall not keep anybody waiting.
    pub fn asked(&self) -> Request {
        self.asked.recv_timeout(Duration::from_secs(60)).expect("a request")
    }
}

fn serve(listener: &TcpListener, answer: &str, asked: &Sender<Request>) -> Result<()> {
    let (stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(Duration::from_secs(20)))?;
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    line.clear();
    while reader.read_line(&mut line)? > 2 {
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    // Sent first, so that it is there as soon as the client has its answer.
    let _ = asked.send(Request { path, body: serde_json::from_slice(&body)? });
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(reader.get_mut(), "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())
}
