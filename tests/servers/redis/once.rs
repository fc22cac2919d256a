//! A change is done once, however late it is asked for again.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use memory_prompt::store::redis::driver::cmd;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, ErrorKind, Message,
};

use super::{address, ask, options, port, run, server};
use crate::laws;

/// The tokens of changes: a minute was all that they were kept, whatever the timeout, and an append
/// that was asked for again after 64 seconds was stored twice.
#[test]
#[ignore = "needs redis-server"]
fn a_change_is_remembered_for_longer_than_it_is_asked_for() {
    run(async {
        let options = options().timeout(Duration::from_secs(600));
        let memory = options.open(&address(port())).await.unwrap().memory("a:b:c").unwrap();
        memory.add(Message::user("hi")).await.unwrap();
        let shard = memory.log_key().split_once(":log:").unwrap().0.to_owned();
        let tokens: Vec<String> = ask(port(), cmd("KEYS").arg(format!("{shard}:done:*"))).await;
        let left: u64 = ask(port(), cmd("PTTL").arg(&tokens[0])).await;
        assert!((610_000..=660_000).contains(&left), "{left}");
        // As long as anybody can say.
        let options = super::options().timeout(Duration::from_secs(1 << 33));
        let memory = options.open(&address(port())).await.unwrap().memory("a:b:c").unwrap();
        memory.add(Message::user("hi")).await.unwrap();
    });
}

/// What the way to the server does, once it is told to.
#[derive(Default)]
struct Way {
    told: AtomicBool,
    /// How many scripts came since.
    scripts: AtomicU32,
    cuts: AtomicBool,
    released: AtomicBool,
}

/// A way that cuts off the answer to one script, and holds back those that follow until it is told.
fn holding(server: u16) -> (u16, Arc<Way>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let way = Arc::new(Way::default());
    let shared = Arc::clone(&way);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (from, to) = (client.unwrap(), TcpStream::connect(("127.0.0.1", server)).unwrap());
            let (back, answers) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let (asks, says) = (Arc::clone(&shared), Arc::clone(&shared));
            thread::spawn(move || {
                forward(from, to, |bytes| {
                    let script = bytes.windows(7).any(|word| word == b"EVALSHA");
                    if script && asks.told.load(Ordering::SeqCst) {
                        if asks.scripts.fetch_add(1, Ordering::SeqCst) == 0 {
                            asks.cuts.store(true, Ordering::SeqCst);
                        } else {
                            while !asks.released.load(Ordering::SeqCst) {
                                thread::sleep(Duration::from_millis(5));
                            }
                        }
                    }
                    true
                });
            });
            thread::spawn(move || {
                forward(answers, back, |_| !says.cuts.swap(false, Ordering::SeqCst));
            });
        }
    });
    (port, way)
}

/// What the way to the server does with the next script, once it is told to: it holds back all that
/// comes on its connection, until it is released.
#[derive(Default)]
pub(super) struct Held {
    pub(super) told: AtomicBool,
    pub(super) holds: AtomicBool,
    pub(super) released: AtomicBool,
}

/// A way that holds back what comes on one connection.
pub(super) fn holding_one(server: u16) -> (u16, Arc<Held>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let held = Arc::new(Held::default());
    let shared = Arc::clone(&held);
    thread::spawn(move || {
        for client in listener.incoming() {
            let (from, to) = (client.unwrap(), TcpStream::connect(("127.0.0.1", server)).unwrap());
            let (back, answers) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let held = Arc::clone(&shared);
            thread::spawn(move || {
                forward(from, to, |bytes| {
                    let script = bytes.windows(7).any(|word| word == b"EVALSHA");
                    if script && held.told.swap(false, Ordering::SeqCst) {
                        held.holds.store(true, Ordering::SeqCst);
                        while !held.released.load(Ordering::SeqCst) {
                            thread::sleep(Duration::from_millis(5));
                        }
                    }
                    true
                });
            });
            thread::spawn(move || forward(answers, back, |_| true));
        }
    });
    (port, held)
}

fn forward(mut from: TcpStream, mut to: TcpStream, goes_on: impl Fn(&[u8]) -> bool) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        if !goes_on(&buffer[..n]) || to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

/// An append was done, its answer got lost, and the server was silent when it was asked for again.
/// It did what it was asked for when it was back, and by then it had forgotten that it had done so
/// before.
#[test]
#[ignore = "needs redis-server"]
fn what_is_asked_for_again_is_not_done_when_it_is_forgotten_that_it_is_done() {
    run(async {
        let (_server, own) = server("redis-late", &[]);
        let (port, way) = holding(own);
        let options = options().timeout(Duration::from_secs(3));
        let memory = options.open(&address(port)).await.unwrap().memory("a:b:c").unwrap();
        memory.add(Message::user("0")).await.unwrap(); // the server knows the script
        way.told.store(true, Ordering::SeqCst);
        let mut batch = vec![Message::user("1")];
        let error = memory.append(&mut batch, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unacknowledged, "{error}");
        let scripts = way.scripts.load(Ordering::SeqCst);
        // The append, and the same again, which is still on its way; and perhaps once more by a new
        // connection, since nothing comes back on that one.
        assert!((2..=3).contains(&scripts), "{scripts}");
        let log = memory.log_key();
        assert_eq!(ask::<u64>(own, cmd("XLEN").arg(&log)).await, 2, "it is done");
        // It is as if a minute and more had gone by.
        let tokens: Vec<String> = ask(own, cmd("KEYS").arg("*:done:*")).await;
        assert_eq!(ask::<usize>(own, cmd("DEL").arg(&tokens)).await, tokens.len());
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let before: String = ask(own, cmd("INFO").arg("commandstats")).await;
        way.released.store(true, Ordering::SeqCst);
        let calls = |info: &str| {
            let line = info.lines().find(|line| line.starts_with("cmdstat_evalsha:")).unwrap();
            line.split(&['=', ','][..]).nth(1).unwrap().parse::<u32>().unwrap()
        };
        let mut patience = 6_000;
        let all = calls(&before) + scripts - 1;
        while calls(&ask::<String>(own, cmd("INFO").arg("commandstats")).await) < all {
            patience -= 1;
            assert!(patience > 0, "what was held back never came");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(ask::<u64>(own, cmd("XLEN").arg(&log)).await, 2, "it is there once");
    });
}

/// An append and a `clear` were asked for while the server was frozen, and failed when the time was
/// up. The server did both when it was back: the turn that was acknowledged meanwhile was wiped by
/// a `clear` of minutes ago.
#[test]
#[ignore = "needs redis-server"]
fn a_change_that_timed_out_is_never_done_later() {
    run(async {
        let (server, port) = server("redis-thawed", &[]);
        let options = options();
        let short = options.clone().timeout(Duration::from_secs(2));
        let store = short.open(&address(port)).await.unwrap();
        let (memory, cleared) = (store.memory("a:b:c").unwrap(), store.memory("a:b:d").unwrap());
        for memory in [&memory, &cleared] {
            memory.add(Message::user("0")).await.unwrap();
        }
        for round in 1..=3 {
            // So that the change itself is the next thing that is sent.
            store.memory("another").unwrap().add(Message::user("hi")).await.unwrap();
            server.freeze();
            let (append, clear) = tokio::join!(memory.add(Message::user("late")), cleared.clear());
            for error in [append.unwrap_err(), clear.unwrap_err()] {
                assert_eq!(error.kind(), ErrorKind::Unacknowledged, "{error}");
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
            server.thaw();
            // By others, as soon as the server answers.
            let other = options.clone().open(&address(port)).await.unwrap();
            other.memory("a:b:c").unwrap().add(Message::user("in time")).await.unwrap();
            other.memory("a:b:d").unwrap().add(Message::user("in time")).await.unwrap();
            tokio::time::sleep(Duration::from_millis(300)).await;
            let there = other.memory("a:b:c").unwrap().all().await.unwrap();
            let late = there.messages().filter(|message| message.text() == "late").count();
            assert_eq!((late, there.len()), (0, 1 + round), "done when nobody waited for it");
            let there = other.memory("a:b:d").unwrap().all().await.unwrap();
            assert_eq!(there.len(), 1 + round, "cleared when nobody waited for it");
        }
    });
}

/// Many are dropped on their way, and others come behind.
#[test]
#[ignore = "needs redis-server"]
fn what_was_dropped_stands_before_what_the_same_store_did_afterwards() {
    run(async {
        let store: Arc<dyn AsyncChatMemoryStore> =
            Arc::new(options().open(&address(port())).await.unwrap());
        laws::what_was_dropped_is_not_done_later(Arc::clone(&store), store, 250).await;
    });
}
