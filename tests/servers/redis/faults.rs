//! Servers that are silent, full, read-only, of somebody else, or gone.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::time::Instant;

use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::*;
use crate::laws::failed;
use crate::way::{Fate, way};

async fn refused(options: RedisOptions, address: &str) -> (ErrorKind, String) {
    let error = options.open(address).await.unwrap_err();
    let debug = format!("{error:?}");
    assert!(!debug.contains("hunter2"), "{debug}");
    (error.kind(), error.to_string())
}

#[test]
fn an_address_that_makes_no_sense_says_what_is_wrong() {
    run(async {
        for (address, what) in [
            ("", "Redis URL did not parse"),
            ("localhost", "Redis URL did not parse"),
            ("http://:hunter2@localhost", "Redis URL did not parse"),
            ("redis://:hunter2@localhost/none", "Invalid database number"),
        ] {
            let (kind, text) = refused(options(), address).await;
            assert_eq!(kind, ErrorKind::Invalid, "{text}");
            let expected = format!("open: redis: the address can't be used: {what}");
            assert!(text.starts_with(&expected), "{text}");
        }
        let text = options().open_cluster(&[""; 0]).await.unwrap_err().to_string();
        assert!(text.starts_with("open: redis: the address can't be used: "), "{text}");
        let (kind, text) = refused(RedisStore::options().prefix("a{b"), "redis://localhost").await;
        assert_eq!(kind, ErrorKind::Invalid);
        let expected =
            "open: redis: the prefix holds a brace, and would hide the hash tags of the keys";
        assert_eq!(text, expected);
        let (kind, text) = refused(options().ttl(Duration::ZERO), "redis://localhost").await;
        assert_eq!(kind, ErrorKind::Invalid);
        assert_eq!(text, "open: redis: a ttl below a millisecond would keep nothing");
    });
}

#[test]
fn where_nobody_listens_there_is_no_connection() {
    run(async {
        let place = format!("127.0.0.1:{}", free_port());
        let (kind, text) = refused(options(), &format!("redis://u:hunter2@{place}")).await;
        assert_eq!(kind, ErrorKind::Storage);
        assert!(text.starts_with(&format!("open: redis: no connection to {place}: ")), "{text}");
        assert!(text.contains("refused"), "{text}");

        let cluster = options().open_cluster(&[format!("redis://u:hunter2@{place}")]).await;
        let text = cluster.unwrap_err().to_string();
        assert!(text.starts_with("open: redis: "), "{text}");
    });
}

#[test]
fn a_server_that_never_answers_is_an_error_in_time() {
    run(async {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = silent.local_addr().unwrap();
        let options = options().connect_timeout(Duration::from_millis(300));
        let mut fewest = Duration::MAX;
        // A busy machine may stand still once.
        for _ in 0..3 {
            let began = Instant::now();
            let (kind, text) = refused(options.clone(), &format!("redis://{place}")).await;
            assert_eq!(kind, ErrorKind::Storage);
            assert!(text.starts_with("open: redis: "), "{text}");
            assert!(text.contains(&place.to_string()), "{text}");
            let cluster = options.clone().open_cluster(&[format!("redis://{place}")]).await;
            assert_eq!(cluster.unwrap_err().kind(), ErrorKind::Storage);
            fewest = fewest.min(began.elapsed());
        }
        assert!(fewest < Duration::from_secs(3), "{fewest:?}");
    });
}

async fn a_server_that_falls_silent_is_an_error_in_time() {
    let (server, port) = server("redis-frozen", &[]);
    let options = options().timeout(Duration::from_secs(3));
    let memory = options.open(&address(port)).await.unwrap().memory("frozen").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    server.freeze();
    let began = Instant::now();
    let mut batch = vec![Message::user("meanwhile")];
    let error = memory.append(&mut batch, Some(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unacknowledged);
    assert_eq!(error.to_string(), "append: redis: outcome unknown: no answer within 3s");
    assert_eq!(batch.len(), 1, "the batch stays with the caller");
    let error = memory.read(None, 10).await.unwrap_err();
    failed(&error, "read: redis: no answer within 3s");
    assert!(began.elapsed() < Duration::from_secs(18), "{:?}", began.elapsed());
    server.thaw();
    // Whether it was done, the position tells, and it goes on either way.
    let mut patience = 100;
    while let Err(error) = memory.append(&mut batch, Some(1)).await {
        if let ErrorKind::Conflict { actual, .. } = error.kind() {
            assert_eq!(actual, 2);
            break;
        }
        patience -= 1;
        assert!(patience > 0, "{error}");
    }
    let texts: Vec<_> =
        memory.all().await.unwrap().messages().map(|m| m.text().into_owned()).collect();
    assert_eq!(texts, ["before", "meanwhile"]);
}

/// A way to the server that breaks, once it is told to, after what was asked for has been done and
/// before the answer has come.
pub(super) fn breaking(server: u16) -> (u16, Arc<AtomicBool>) {
    let breaks = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&breaks);
    let is_told = move || told.swap(false, Ordering::SeqCst);
    (way(move || server, move |it| Fate::breaks_if(!it.is_asked && is_told())), breaks)
}

async fn a_change_whose_answer_gets_lost_is_done_once() {
    let (port, breaks) = breaking(port());
    let store = options().open(&address(port)).await.unwrap();
    let memory = store.memory("lost").unwrap();
    for i in 0..20 {
        breaks.store(true, Ordering::SeqCst);
        let mut batch = vec![Message::user(i.to_string()), Message::ai(i.to_string())];
        let positions = memory.append(&mut batch, Some(i * 2)).await.unwrap();
        assert_eq!(positions, i * 2..i * 2 + 2);
        assert!(!breaks.load(Ordering::SeqCst), "an answer was lost");
    }
    assert_eq!(memory.all().await.unwrap().len(), 40);
    breaks.store(true, Ordering::SeqCst);
    assert_eq!(memory.evict(10).await.unwrap(), 10);
    breaks.store(true, Ordering::SeqCst);
    assert_eq!(memory.read(None, 50).await.unwrap().records.len(), 30);
    breaks.store(true, Ordering::SeqCst);
    memory.clear().await.unwrap();
    breaks.store(true, Ordering::SeqCst);
    assert!(store.delete(&"lost".into()).await.unwrap());
    assert!(!breaks.load(Ordering::SeqCst));
}

async fn a_server_that_goes_away_for_a_while_is_a_pause_and_one_that_stays_away_an_error() {
    let (server, port) = server("redis-away", &["--appendonly", "yes", "--appendfsync", "always"]);
    let address = address(port);
    let open = |time| options().prefix("away").timeout(time).open(&address);
    let patient = open(Duration::from_secs(30)).await.unwrap().memory("a:b:c").unwrap();
    let hasty = open(Duration::from_secs(2)).await.unwrap().memory("a:b:c").unwrap();
    patient.add(Message::user("before")).await.unwrap();
    tokio::task::block_in_place(|| server.kill());
    let error = hasty.read(None, 1).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    let expected = format!("read: redis: no connection to 127.0.0.1:{port}: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
    let waiting = tokio::spawn(async move {
        patient.add(Message::user("after")).await.unwrap();
        patient.all().await.unwrap().len()
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    tokio::task::block_in_place(|| server.restart());
    assert_eq!(waiting.await.unwrap(), 2);
}

async fn a_full_memory_refuses_and_loses_nothing() {
    let (_server, port) =
        server("redis-full", &["--maxmemory", "20mb", "--maxmemory-policy", "noeviction"]);
    let store = options().open(&address(port)).await.unwrap();
    let memory = store.memory("full").unwrap();
    let batch = || (0..100).map(|i| Message::user(format!("{i} {}", "x".repeat(1000))));
    let mut end = 0;
    let error = loop {
        let mut batch: Vec<_> = batch().collect();
        match memory.append(&mut batch, Some(end)).await {
            Ok(positions) => end = positions.end,
            Err(error) => {
                assert_eq!(batch.len(), 100, "the batch stays with the caller");
                break error;
            }
        }
    };
    failed(&error, "append: redis: the server's memory is full (maxmemory)");
    // There may still be room for something small.
    let error = loop {
        let small = store.memory(MemoryId::random()).unwrap();
        if let Err(error) = small.add(Message::system("x")).await {
            assert_eq!(small.read(None, 1).await.unwrap().system, None);
            break error;
        }
    };
    assert_eq!(error.to_string(), "append: redis: the server's memory is full (maxmemory)");
    let snapshot = memory.read(None, usize::MAX).await.unwrap();
    assert_eq!((snapshot.records.len() as u64, snapshot.end), (end, end));
    assert!(end > 1000, "{end}");
    // What makes room is not refused.
    assert_eq!(memory.evict(end - 100).await.unwrap(), end - 100);
    assert_eq!(memory.add_all(batch()).await.unwrap(), end..end + 100);
}

async fn a_server_that_can_not_write_refuses_and_loses_nothing() {
    // A folder where the file should be: so nobody can write it, root included.
    let (_server, port) =
        server("redis-disk", &["--save", "3600", "1000000", "--dbfilename", "taken"]);
    let folder: Vec<String> = ask(port, cmd("CONFIG").arg("GET").arg("dir")).await;
    std::fs::create_dir(std::path::Path::new(&folder[1]).join("taken")).unwrap();
    let memory = options().open(&address(port)).await.unwrap().memory("a:b:c").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    let _: String = ask(port, &cmd("BGSAVE")).await;
    let mut patience = 500;
    let error = loop {
        if let Err(error) = memory.add(Message::user("meanwhile")).await {
            break error;
        }
        patience -= 1;
        assert!(patience > 0, "the server did not notice");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    let expected =
        "append: redis: the server can't write to its disk and refuses changes (MISCONF)";
    failed(&error, expected);
    let end = memory.next_position().await.unwrap();
    assert_eq!(memory.all().await.unwrap().len() as u64, end);
}

async fn a_replica_takes_no_changes_and_a_password_is_asked_for() {
    let (_master, master) = server("redis-master", &["--requirepass", "hunter2"]);
    let replica = ["--replicaof", "127.0.0.1", &master.to_string(), "--masterauth", "hunter2"]
        .map(str::to_owned);
    let replica: Vec<&str> = replica.iter().map(String::as_str).collect();
    let (_replica, replica) = server("redis-replica", &replica);

    let wants = "open: redis: the server wants another user or password";
    let (kind, text) = refused(options(), &address(master)).await;
    assert_eq!((kind, text.as_str()), (ErrorKind::Storage, wants));
    let wrong = format!("redis://:hunter2x@127.0.0.1:{master}");
    let (kind, text) = refused(options(), &wrong).await;
    assert_eq!((kind, text.as_str()), (ErrorKind::Storage, wants));

    // A change that is to be on a replica is, once there is one.
    let right = format!("redis://:hunter2@127.0.0.1:{master}");
    let options = options();
    let waiting = options.clone().replicas(1, Duration::from_secs(20));
    let store = waiting.open(&right).await.unwrap();
    store.memory("a:b:c").unwrap().add(Message::user("my secret")).await.unwrap();
    let debug = format!("{store:?} {store:#?} {:?}", store.memory("a:b:c").unwrap());
    assert!(!debug.contains("hunter2") && !debug.contains("secret"), "{debug}");
    assert!(debug.contains(&format!("place: 127.0.0.1:{master}")), "{debug}");

    let short = options.clone().timeout(Duration::from_secs(3));
    let reader = short.open(&address(replica)).await.unwrap().memory("a:b:c").unwrap();
    assert_eq!(reader.all().await.unwrap().len(), 1);
    let error = reader.add(Message::user("hi")).await.unwrap_err();
    let expected = "append: redis: the server is a replica and takes no changes";
    failed(&error, expected);

    // Two there are not.
    let store = options.replicas(2, Duration::from_secs(5)).open(&right).await.unwrap();
    let mut batch = vec![Message::user("hi")];
    let error = store.memory("a:b:c").unwrap().append(&mut batch, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unacknowledged);
    let expected = "append: redis: it is done, but only 1 of 2 replicas have it after 5s";
    assert_eq!(error.to_string(), expected);
    assert_eq!(batch.len(), 1);
    let error = store.memory("a:b:c").unwrap().append(&mut batch, Some(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 1, actual: 2 });
}

/// A way to a server that leads to another one, for whoever comes after it is told so.
pub(super) fn moving(server: u16) -> (u16, Arc<AtomicU16>) {
    let target = Arc::new(AtomicU16::new(server));
    let told = Arc::clone(&target);
    (way(move || told.load(Ordering::SeqCst), |_| Fate::Arrives), target)
}

/// The address was given to the replica that took over, and the old master lived on as its replica:
/// connections to it did not break, so that every change was refused and every read was of long
/// ago, until a restart.
async fn a_master_that_became_a_replica_is_left_for_the_one_at_its_address() {
    let (_old, old) = server("redis-old", &["--repl-diskless-sync-delay", "0"]);
    let (_new, new) = server("redis-new", &["--replicaof", "127.0.0.1", &old.to_string()]);
    let (port, target) = moving(old);
    let options = options();
    let confirmed = options.clone().replicas(1, Duration::from_secs(10));
    let store = options.clone().open(&address(port)).await.unwrap();
    let confirming = confirmed.open(&address(port)).await.unwrap();
    let memory = |store: &RedisStore| store.memory("a:b:c").unwrap();
    memory(&confirming).add(Message::user("0")).await.unwrap();
    let _: String = ask(new, cmd("REPLICAOF").arg("NO").arg("ONE")).await;
    let _: String = ask(old, cmd("REPLICAOF").arg("127.0.0.1").arg(new)).await;
    target.store(new, Ordering::SeqCst);
    for (i, store) in (1..).zip([&store, &confirming]) {
        let positions = memory(store).append(&mut vec![Message::user("hi")], Some(i)).await;
        assert_eq!(positions.unwrap(), i..i + 1);
        let end: u64 = ask(new, cmd("XLEN").arg(memory(store).log_key())).await;
        assert_eq!(end, i + 1);
        // Reads go there too, and know what the old one can't: it is frozen in time.
        let _: String = ask(old, cmd("REPLICAOF").arg("127.0.0.1").arg(1)).await;
        let other = options.clone().open(&address(new)).await.unwrap();
        other.memory("later").unwrap().clear().await.unwrap();
        other.memory("later").unwrap().add(Message::user("hi")).await.unwrap();
        let read = store.memory("later").unwrap().next_position().await.unwrap();
        assert_eq!(read, i, "a read of long ago");
        let _: String = ask(old, cmd("REPLICAOF").arg("127.0.0.1").arg(new)).await;
    }
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    a_server_that_falls_silent_is_an_error_in_time,
    a_change_whose_answer_gets_lost_is_done_once,
    a_server_that_goes_away_for_a_while_is_a_pause_and_one_that_stays_away_an_error,
    a_full_memory_refuses_and_loses_nothing,
    a_server_that_can_not_write_refuses_and_loses_nothing,
    a_replica_takes_no_changes_and_a_password_is_asked_for,
    a_master_that_became_a_replica_is_left_for_the_one_at_its_address;
}
