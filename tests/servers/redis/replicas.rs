//! Changes that wait for replicas.

use std::time::{Duration, Instant};

use memory_prompt::store::redis::driver::cmd;
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryExt, ErrorKind, Message};

use super::{address, ask, options, run, server};

/// Everybody waited on the connection on which somebody waited for replicas, reads too: with a replica that had
/// fallen silent, eight appends took eight times as long as they were to wait, and a read behind them as well.
#[test]
#[ignore = "needs redis-server"]
fn who_waits_for_replicas_keeps_nobody_else() {
    const WAIT: Duration = Duration::from_secs(2);
    run(async {
        let (_master, master) = server("redis-master", &["--repl-diskless-sync-delay", "0"]);
        let (frozen, replica) =
            server("redis-replica", &["--replicaof", "127.0.0.1", &master.to_string()]);
        let options = options().timeout(Duration::from_secs(60)).replicas(1, WAIT);
        let store = options.open(&address(master)).await.unwrap();
        let memory = |i: u64| store.memory(format!("waiting {i}")).unwrap();
        let began = Instant::now();
        // The replica may not have joined yet.
        while memory(0).add(Message::user("hi")).await.is_err() {
            assert!(began.elapsed() < Duration::from_secs(60), "the replica never joined");
        }
        frozen.freeze();
        let began = Instant::now();
        let appends: Vec<_> = (1..=8)
            .map(|i| {
                let memory = memory(i);
                tokio::spawn(async move {
                    let mut batch = vec![Message::user("hi")];
                    let error = memory.append(&mut batch, None).await.unwrap_err();
                    assert_eq!((error.kind(), batch.len()), (ErrorKind::Unacknowledged, 1));
                    let expected =
                        "append: redis: it is done, but only 0 of 1 replicas have it after 2s";
                    assert_eq!(error.to_string(), expected);
                })
            })
            .collect();
        let mut reads = 0;
        while !appends.iter().all(tokio::task::JoinHandle::is_finished) {
            let asked = Instant::now();
            memory(0).read(None, 10).await.unwrap();
            assert!(asked.elapsed() < WAIT / 2, "a read waits: {:?}", asked.elapsed());
            reads += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        for append in appends {
            append.await.unwrap();
        }
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
    });
}
