//! Ways to a server, on which something may happen to what is sent.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A piece of what is sent.
pub(crate) struct Piece<'a> {
    pub(crate) bytes: &'a [u8],
    /// True for what a client asks, and false for what it is answered.
    pub(crate) is_asked: bool,
    /// True if the other side was the last to send something.
    pub(crate) is_turn: bool,
    /// The number of its connection, from 1.
    pub(crate) connection: u64,
}

/// What becomes of a piece.
pub(crate) enum Fate {
    Arrives,
    IsLost,
    /// It is lost, and its connection breaks.
    Breaks,
}

impl Fate {
    pub(crate) fn breaks_if(breaks: bool) -> Self {
        if breaks { Self::Breaks } else { Self::Arrives }
    }
}

/// Opens a way to the server whose port this says when a client comes; returns the port of the way.
pub(crate) fn way(
    server: impl Fn() -> u16 + Send + 'static,
    fate: impl Fn(&Piece<'_>) -> Fate + Send + Sync + 'static,
) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let fate = Arc::new(fate);
    thread::spawn(move || {
        for (connection, client) in (1..).zip(listener.incoming()) {
            let client = client.unwrap();
            // If there is no server now, the line is cut at once.
            let Ok(server) = TcpStream::connect(("127.0.0.1", server())) else { continue };
            let asks = Arc::new(AtomicBool::new(false));
            for (mut from, mut to, is_asked) in [
                (client.try_clone().unwrap(), server.try_clone().unwrap(), true),
                (server, client, false),
            ] {
                let (fate, asks) = (Arc::clone(&fate), Arc::clone(&asks));
                thread::spawn(move || {
                    let mut buffer = [0; 4096];
                    while let Ok(n @ 1..) = from.read(&mut buffer) {
                        let bytes = &buffer[..n];
                        let is_turn = asks.swap(is_asked, Ordering::SeqCst) != is_asked;
                        match fate(&Piece { bytes, is_asked, is_turn, connection }) {
                            Fate::Arrives if to.write_all(bytes).is_ok() => {}
                            Fate::IsLost => {}
                            _ => break,
                        }
                    }
                    let _ = from.shutdown(Shutdown::Both);
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    port
}
