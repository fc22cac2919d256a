//! A server that answers one request with the same JSON, whatever it was asked.

use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::TcpListener;
use std::thread;

/// Its address; the thread ends with the body of the request.
pub fn stub(answer: &'static str) -> Result<(String, thread::JoinHandle<Result<String>>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let url = format!("http://{}", listener.local_addr()?);
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept()?;
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        while reader.read_line(&mut line)? > 2 {
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap_or(0);
            }
            line.clear();
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
        let length = answer.len();
        write!(reader.get_mut(), "{head}\r\ncontent-length: {length}\r\n\r\n{answer}")?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    });
    Ok((url, server))
}
