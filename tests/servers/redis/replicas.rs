//! Changes that wait for replicas.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use memory_prompt::memory::Append;
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::faults::breaking;
use super::once::holding_one;
use super::*;
use crate::tasks::{begin, end};

/// A master with a replica, and their ports.
fn pair() -> ((Server, u16), (Server, u16)) {
    let master = server("redis-master", &["--repl-diskless-sync-delay", "0"]);
    let replica = server("redis-replica", &["--replicaof", "127.0.0.1", &master.1.to_string()]);
    (master, replica)
}

/// Appends until the replica has joined.
async fn joined(store: &RedisStore) {
    let began = Instant::now();
    let memory = store.memory("joining").unwrap();
    while memory.add(Message::user("hi")).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "the replica never joined");
    }
}

/// Changes went over the eight connections in turn, those of one conversation too, and had no
/// order: a `clear` whose future was dropped wiped what the same store was told is kept.
async fn what_was_dropped_stands_before_what_was_confirmed_afterwards() {
    let ((_master, master), _replica) = pair();
    let (way, held) = holding_one(master);
    let options = options().replicas(1, Duration::from_secs(10));
    let store = options.clone().open(&address(way)).await.unwrap();
    joined(&store).await;
    let memory = store.memory("a:b:c").unwrap();
    memory.clear().await.unwrap(); // the server knows the script
    memory.add(Message::user("0")).await.unwrap();
    held.told.store(true, Ordering::SeqCst);
    {
        let mut dropped = std::pin::pin!(memory.clear());
        let began = Instant::now();
        while !held.holds.load(Ordering::SeqCst) {
            let pause = Duration::from_millis(5);
            assert!(tokio::time::timeout(pause, &mut dropped).await.is_err(), "it is held");
            assert!(began.elapsed() < Duration::from_secs(60), "nothing was on its way");
        }
    }
    let add = tokio::spawn(async move { (memory.add(Message::user("1")).await, memory) });
    tokio::time::sleep(Duration::from_millis(200)).await;
    held.released.store(true, Ordering::SeqCst);
    let (added, memory) = add.await.unwrap();
    assert_eq!(added.unwrap(), 1);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let there = memory.all().await.unwrap();
    assert_eq!(there.messages().map(|m| m.text().into_owned()).collect::<Vec<_>>(), ["1"]);

    let store: Arc<dyn AsyncChatMemoryStore> =
        Arc::new(options.open(&address(master)).await.unwrap());
    laws::what_was_dropped_is_not_done_later(Arc::clone(&store), store, 120).await;
}

/// A script that finds its work done wrote nothing, and a server of 7.2 and later lets `WAIT` wait
/// for nothing then: an append whose answer was lost was acknowledged when it was asked for again,
/// and no replica had it.
async fn what_is_found_done_is_confirmed_like_what_is_done() {
    const WAIT: Duration = Duration::from_secs(2);
    let (master, (frozen, _)) = pair();
    let (port, breaks) = breaking(master.1);
    let store = options().replicas(1, WAIT).open(&address(port)).await.unwrap();
    joined(&store).await;
    let memory = store.memory("again").unwrap();
    let append = Append::new([Message::user("0")]).with_id("the turn");
    memory.append_with(&mut append.clone()).await.unwrap();
    frozen.freeze();
    let expected = ": redis: it is done, but only 0 of 1 replicas have it after 2s";
    let unconfirmed = |error: memory_prompt::Error| {
        assert_eq!(error.kind(), ErrorKind::Unacknowledged, "{error}");
        assert!(error.to_string().ends_with(expected), "{error}");
    };
    breaks.store(true, Ordering::SeqCst);
    unconfirmed(memory.add(Message::user("1")).await.unwrap_err());
    assert!(!breaks.load(Ordering::SeqCst), "an answer was lost");
    assert_eq!(memory.next_position().await.unwrap(), 2, "it is done, once");
    // By its id, and by what there is to do.
    for change in [append, Append::new([Message::user("2")]).with_id("another")] {
        for _ in 0..2 {
            unconfirmed(memory.append_with(&mut change.clone()).await.unwrap_err());
        }
    }
    for _ in 0..2 {
        unconfirmed(memory.evict(1).await.unwrap_err());
    }
    for _ in 0..2 {
        unconfirmed(memory.clear().await.unwrap_err());
    }
    for _ in 0..2 {
        unconfirmed(store.delete(&"again".into()).await.unwrap_err());
    }
    assert_eq!(store.info(&"again".into()).await.unwrap(), None);
    frozen.thaw();
    assert!(!store.delete(&"again".into()).await.unwrap(), "it goes on");
}

/// Everybody waited on the connection on which somebody waited for replicas, reads too: with a
/// replica that had fallen silent, eight appends took eight times as long as they were to wait, and
/// a read behind them as well.
async fn who_waits_for_replicas_keeps_nobody_else() {
    const WAIT: Duration = Duration::from_secs(5);
    let ((_master, master), (frozen, replica)) = pair();
    let options = options().timeout(Duration::from_secs(60)).replicas(1, WAIT);
    let store = options.open(&address(master)).await.unwrap();
    // One for each of the eight connections that they share.
    let mut ways = BTreeMap::new();
    for memory in (0..200).map(|i| store.memory(format!("waiting {i}")).unwrap()) {
        let key = memory.log_key();
        let shard = key.split(['{', '}']).nth(1).unwrap();
        ways.insert(u8::from_str_radix(shard, 16).unwrap() % 8, memory);
    }
    let mut ways: Vec<_> = ways.into_values().collect();
    assert_eq!(ways.len(), 8);
    ways.insert(0, store.memory("waiting").unwrap());
    let memory = |i: u64| ways[usize::try_from(i).unwrap()].clone();
    let began = Instant::now();
    // The replica may not have joined yet.
    while memory(0).add(Message::user("hi")).await.is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "the replica never joined");
    }
    frozen.freeze();
    let began = Instant::now();
    let appends = begin(8, |i| {
        let memory = memory(i + 1);
        async move {
            let mut batch = vec![Message::user("hi")];
            let error = memory.append(&mut batch, None).await.unwrap_err();
            assert_eq!((error.kind(), batch.len()), (ErrorKind::Unacknowledged, 1));
            let expected = "append: redis: it is done, but only 0 of 1 replicas have it after 5s";
            assert_eq!(error.to_string(), expected);
        }
    });
    let mut reads = 0;
    while !appends.iter().all(tokio::task::JoinHandle::is_finished) {
        let asked = Instant::now();
        memory(0).read(None, 10).await.unwrap();
        assert!(asked.elapsed() < WAIT / 2, "a read waits: {:?}", asked.elapsed());
        reads += 1;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    end(appends).await;
    let all = began.elapsed();
    println!("8 appends gave up waiting after {all:?}, {reads} reads meanwhile");
    assert!(all >= WAIT && all < WAIT * 3, "they wait for each other: {all:?}");
    for i in 1..=8 {
        assert_eq!(memory(i).next_position().await.unwrap(), 1, "it is done");
    }
    frozen.thaw();
    memory(0).add(Message::user("it goes on")).await.unwrap();
    let log = memory(0).log_key();
    let on_replica: u64 = ask(replica, cmd("XLEN").arg(log)).await;
    assert!(on_replica >= 2, "what was confirmed is there");
}

/// An account may not wait for replicas: each change was made, and said to be not made. Repeated,
/// it stood there twice.
async fn what_was_made_and_can_not_wait_is_in_doubt() {
    let (_server, port) = server("redis-wait", &[]);
    let rights = ["on", ">password", "~*", "+@all", "-wait"];
    ask::<()>(port, cmd("ACL").arg("SETUSER").arg("chat").arg(&rights)).await;
    let chat = format!("redis://chat:password@127.0.0.1:{port}");
    for (address, wait) in [(chat, Duration::from_secs(1)), (address(port), Duration::MAX)] {
        let options = options().timeout(Duration::from_secs(2)).replicas(1, wait);
        let store = options.open(&address).await.unwrap();
        let memory = store.memory(format!("{wait:?}")).unwrap();
        let error = memory.add(Message::user("hi")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unacknowledged, "{error}");
        assert_eq!(memory.next_position().await.unwrap(), 1);
    }
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    what_was_dropped_stands_before_what_was_confirmed_afterwards,
    what_is_found_done_is_confirmed_like_what_is_done,
    who_waits_for_replicas_keeps_nobody_else,
    what_was_made_and_can_not_wait_is_in_doubt;
}
