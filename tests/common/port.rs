//! Ports for servers of the tests' own.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

/// Below those that the kernel gives to whoever connects to somewhere, as it is set up unless told
/// otherwise: such a connection could take the port of a server while that is restarted, and one
/// that is tried again and again while nobody listens could even reach itself.
const FIRST: u32 = 10_000;
const COUNT: u32 = 22_000;

/// A port of the loopback that nobody has now, and that this process asks for once.
pub(crate) fn free_port() -> u16 {
    static ASKED: AtomicU32 = AtomicU32::new(0);
    // Each process begins elsewhere.
    let first = std::process::id().wrapping_mul(7_919);
    (0..COUNT)
        .map(|_| first.wrapping_add(ASKED.fetch_add(1, Ordering::Relaxed)) % COUNT + FIRST)
        .map(|port| u16::try_from(port).unwrap())
        .find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok())
        .unwrap()
}
