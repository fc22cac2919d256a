//! The parts that the examples share: the types of clients that take no JSON, and a server that
//! gives the answers that it was handed, in turn, and hands over what it was asked.
//!
//! The server is strict: what the rules that the tests hold every prompt to (`tests/provider`)
//! refuse is answered with status 400, as the providers do.
//!
//! A client that takes JSON needs none of these types: give it a view of `memory_prompt::wire`,
//! which loses less. (async-openai does with its feature `byot`.) Copy the module that you need.

pub mod async_openai;
pub mod genai;
pub mod ollama_rs;
#[path = "../../../tests/provider/validators.rs"]
mod validators;

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

/// Returns what is wrong with a body that is sent to this path.
type Rules = fn(&str, &Value) -> Vec<String>;

/// A request that a client has sent.
#[derive(Debug)]
pub struct Request {
    pub path: String,
    pub body: Value,
}

impl Stub {
    /// Starts a server that answers each request that is right with the next of these texts, as
    /// JSON.
    pub fn start<I>(answers: I) -> Result<Self>
    where
        I: IntoIterator<Item: Into<String>> + Send + 'static,
    {
        Self::with_rules(answers, wrong)
    }

    /// Starts a server that takes any request, for laws about what a client writes of what nobody
    /// would take.
    pub fn lenient<I>(answers: I) -> Result<Self>
    where
        I: IntoIterator<Item: Into<String>> + Send + 'static,
    {
        Self::with_rules(answers, |_, _| Vec::new())
    }

    fn with_rules<I>(answers: I, wrong: Rules) -> Result<Self>
    where
        I: IntoIterator<Item: Into<String>> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let (sender, asked) = channel();
        thread::spawn(move || {
            for answer in answers {
                let answer = answer.into();
                loop {
                    match serve(&listener, wrong, &answer, &sender) {
                        Ok(wrong) if wrong.is_empty() => break,
                        Ok(wrong) => eprintln!("the stub refused a request: {}", wrong.join("; ")),
                        // On a busy machine others may knock at this port, looking for a server of
                        // theirs.
                        Err(error) => eprintln!("the stub was asked something else: {error}"),
                    }
                }
            }
        });
        Ok(Self { url, asked })
    }

    /// The next request that was answered. There is one as soon as a client has its answer; a
    /// client that never asked shall not keep anybody waiting.
    pub fn asked(&self) -> Request {
        self.asked.recv_timeout(Duration::from_secs(60)).expect("a request")
    }
}

/// Returns what is wrong with a request, by the rules of the server that is at this path.
fn wrong(path: &str, body: &Value) -> Vec<String> {
    match path.rsplit('/').next() {
        Some("completions") => validators::openai(&body["messages"]),
        Some("chat") => validators::ollama(&body["messages"]),
        Some("responses") => validators::responses(&body["input"]),
        Some("messages") => validators::anthropic(&body["messages"]),
        Some(method) if method.contains(":generateContent") => {
            validators::gemini(&body["contents"])
        }
        _ => vec![format!("nothing is at {path}")],
    }
}

/// Answers one request; returns what is wrong with it.
fn serve(
    listener: &TcpListener,
    wrong: Rules,
    answer: &str,
    asked: &Sender<Request>,
) -> Result<Vec<String>> {
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
    let body = serde_json::from_slice(&body)?;
    let wrong = wrong(&path, &body);
    let refusal = serde_json::json!({ "error": { "message": wrong.join("; ") } }).to_string();
    let (status, answer) =
        if wrong.is_empty() { ("200 OK", answer) } else { ("400 Bad Request", refusal.as_str()) };
    if wrong.is_empty() {
        // Sent first, so that it is there as soon as the client has its answer.
        let _ = asked.send(Request { path, body });
    }
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\nconnection: close");
    write!(reader.get_mut(), "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len())?;
    Ok(wrong)
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::*;

    fn ask(stub: &Stub, body: &str) -> String {
        let address = stub.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {}", body.len());
        write!(stream, "{head}\r\n\r\n{body}").unwrap();
        let mut told = String::new();
        stream.read_to_string(&mut told).unwrap();
        told
    }

    #[test]
    fn it_refuses_what_providers_refuse() {
        let stub = Stub::start(["\"well\""]).unwrap();
        let told =
            ask(&stub, r#"{"messages": [{"role": "tool", "tool_call_id": "c1", "content": "x"}]}"#);
        assert!(told.starts_with("HTTP/1.1 400") && told.contains("answers no call"), "{told}");
        let told = ask(&stub, r#"{"messages": [{"role": "user", "content": "hi"}]}"#);
        assert!(told.starts_with("HTTP/1.1 200") && told.ends_with("\"well\""), "{told}");
        assert_eq!(stub.asked().body["messages"][0]["content"], "hi");
    }
}
