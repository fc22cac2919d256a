//! Ports for servers of the tests' own.

use std::net::{TcpListener, UdpSocket};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// Below those that the kernel gives to whoever connects to somewhere, as it is set up unless told
/// otherwise: such a connection could take the port of a server while that is restarted, and one
/// that is tried again and again while nobody listens could even reach itself.
const FIRST: u64 = 10_000;
const COUNT: u64 = 22_000;

/// A port of the loopback that nobody has now, and that this process asks for once.
pub(crate) fn free_port() -> u16 {
    static ASKED: AtomicU64 = AtomicU64::new(0);
    // Until its server listens, and while that is restarted, a port is this process's by a socket
    // for datagrams, which no server has.
    static TAKEN: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    // Each process begins elsewhere, also those whose numbers are near each other.
    let first = u64::from(std::process::id()) * 13_597;
    (0..COUNT)
        .map(|_| (first + ASKED.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST)
        .map(|port| u16::try_from(port).unwrap())
        .find(|port| {
            let taken = UdpSocket::bind(("127.0.0.1", *port));
            let is_free = taken.is_ok() && TcpListener::bind(("127.0.0.1", *port)).is_ok();
            TAKEN.lock().unwrap().extend(taken);
            is_free
        })
        .unwrap()
}
