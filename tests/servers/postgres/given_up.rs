//! Questions that are given up, and what they keep on the server.

use super::*;

/// How many connections there are under this name.
async fn connections(watching: &Client, name: &str) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    watching.query_one(count, &[&name]).await.unwrap().get(0)
}

/// While somebody held a lock, each append that was given up kept its connection on the server and
/// got a new one: `max_connections(5)` led to 300, and to "too many clients" for everybody.
#[test]
#[ignore = "needs PostgreSQL"]
fn what_is_given_up_keeps_no_connections_beyond_the_most() {
    let rows = |schema: &str| format!("SELECT FROM \"{schema}\".conversation FOR UPDATE");
    keeps_no_connections_beyond_the_most(rows, true);
}

/// A new connection looks first which tables there are. One that was given up meanwhile, since
/// somebody held them all, was closed and left to go on: 205 of them where 5 were allowed.
#[test]
#[ignore = "needs PostgreSQL"]
fn a_connection_that_is_given_up_while_it_is_new_is_none_beyond_the_most() {
    let tables = |schema: &str| {
        let [version, all] =
            ["memory_prompt", "conversation"].map(|it| format!("\"{schema}\".{it}"));
        format!("LOCK TABLE {version}, {all} IN ACCESS EXCLUSIVE MODE")
    };
    keeps_no_connections_beyond_the_most(tables, false);
}

fn keeps_no_connections_beyond_the_most(lock_by: fn(&str) -> String, can_be_read: bool) {
    block_on(async {
        let schema = format!("s{}", MemoryId::random());
        let name = format!("given up {schema}");
        let address = format!("{}?application_name={}", SHARED.address(), name.replace(' ', "%20"));
        let options = options(&schema).max_connections(5);
        let store = options.open(&address).await.unwrap();
        let memory = store.memory("a").unwrap();
        memory.add(Message::user("before")).await.unwrap();

        let mut somebody = connect(&SHARED.address()).await;
        let lock = somebody.transaction().await.unwrap();
        lock.batch_execute(&lock_by(&schema)).await.unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let watcher = tokio::spawn({
            let (stop, name) = (Arc::clone(&stop), name.clone());
            async move {
                let watching = connect(&SHARED.address()).await;
                let mut most = 0;
                while !stop.load(Ordering::Relaxed) {
                    most = most.max(connections(&watching, &name).await);
                }
                most
            }
        });
        let callers: Vec<_> = (0..20)
            .map(|_| {
                let memory = memory.clone();
                tokio::spawn(async move {
                    for _ in 0..10 {
                        // By the caller's own clock.
                        let append = memory.add(Message::user("given up"));
                        let late = tokio::time::timeout(Duration::from_millis(100), append).await;
                        assert!(late.is_err(), "{late:?}");
                    }
                })
            })
            .collect();
        for caller in callers {
            caller.await.unwrap();
        }
        if can_be_read {
            assert_eq!(all_texts(&memory).await, ["before"], "there is a connection for this");
        }
        stop.store(true, Ordering::Relaxed);
        let most = watcher.await.unwrap();
        println!("200 appends given up: {most} connections at most");
        assert!((1..=5).contains(&most), "{most}");
        tokio::time::sleep(Duration::from_millis(500)).await;
        lock.rollback().await.unwrap();
        // Nobody goes on with what was cancelled.
        memory.add(Message::user("after")).await.unwrap();
        assert_eq!(all_texts(&memory).await, ["before", "after"]);
    });
}

/// What the server is done with in a moment is given up without a trace: its connection is used
/// again.
#[test]
#[ignore = "needs PostgreSQL"]
fn a_connection_of_what_is_given_up_is_used_again() {
    block_on(async {
        let schema = format!("s{}", MemoryId::random());
        let name = format!("used again {schema}");
        let address = format!("{}?application_name={}", SHARED.address(), name.replace(' ', "%20"));
        let store = options(&schema).max_connections(1).open(&address).await.unwrap();
        let memory = store.memory("a").unwrap();
        memory.add(Message::user("before")).await.unwrap();
        let watching = connect(&SHARED.address()).await;
        let sessions = "SELECT pid FROM pg_stat_activity WHERE application_name = $1";
        let (mut last, mut fewest) = (0, i32::MAX);
        // On a machine that is busy with others a moment may be too short; a connection that is
        // never used again is so each time.
        for _ in 0..5 {
            let (mut new, mut given_up) = (0, 0);
            while given_up < 20 {
                {
                    // It is asked, and nobody waits for the answer, unless that is there already.
                    let mut read = memory.read(None, 10);
                    let waits = std::future::poll_fn(|context| {
                        std::task::Poll::Ready(read.as_mut().poll(context).is_pending())
                    });
                    given_up += i32::from(waits.await);
                }
                memory.read(None, 10).await.unwrap();
                let session: i32 = watching.query_one(sessions, &[&name]).await.unwrap().get(0);
                new += i32::from(session != last);
                last = session;
            }
            fewest = fewest.min(new);
        }
        assert!(fewest < 4, "{fewest} connections for 20 reads that were given up");
    });
}

/// A store that was opened where no runtime is used to panic.
#[test]
fn a_store_is_opened_on_a_runtime() {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut opened = Box::pin(PostgresStore::open("postgres://test@127.0.0.1:1/postgres"));
    let std::task::Poll::Ready(opened) = opened.as_mut().poll(&mut context) else {
        panic!("it waits for a runtime")
    };
    let error = opened.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(
        error.to_string(),
        "open: postgres: a store is opened on a tokio runtime, with timers and I/O enabled"
    );
}

/// How long each of many changes is waited for, until it is dropped: from not at all to until it is
/// done on a machine that does nothing else.
fn patience(round: u64) -> Duration {
    Duration::from_micros(round * 37 % 1500)
}

const ROUNDS: u64 = 1500;

/// Of 1,500 appends that were dropped, 18 stood behind one that was begun after them and
/// acknowledged.
async fn dropped_appends_come_before_what_is_acknowledged_later(address: String) {
    let store = options(&new_schema()).open(address).await.unwrap();
    let memory = store.memory("a").unwrap();
    let mut kept = Vec::new();
    for round in 0..ROUNDS {
        let append = memory.add(Message::user(format!("{round} dropped")));
        drop(tokio::time::timeout(patience(round), append).await);
        kept.push(memory.add(Message::user(format!("{round} kept"))).await.unwrap());
    }
    let there = memory.all().await.unwrap();
    let mut dropped = 0;
    for record in there.iter() {
        let text = record.message().text().into_owned();
        let (round, kind) = text.split_once(' ').unwrap();
        let round: usize = round.parse().unwrap();
        if kind == "dropped" {
            dropped += 1;
            assert!(
                record.seq() < kept[round],
                "{text} is at {} behind {}",
                record.seq(),
                kept[round]
            );
        } else {
            assert_eq!(record.seq(), kept[round]);
        }
    }
    assert_eq!(there.len() as u64, ROUNDS + dropped);
    println!("of {ROUNDS} appends with little time {dropped} were done, none late");
    assert!(dropped > 0, "none was begun");
}

#[test]
#[ignore = "needs PostgreSQL"]
fn dropped_appends_are_not_done_late() {
    block_on(dropped_appends_come_before_what_is_acknowledged_later(SHARED.address()));
}

#[test]
#[ignore = "needs PostgreSQL and pgbouncer"]
fn dropped_appends_are_not_done_late_behind_a_pooler() {
    block_on(dropped_appends_come_before_what_is_acknowledged_later(address(POOLER.1)));
}

/// A `clear` that was dropped wiped a turn that was acknowledged after it.
#[test]
#[ignore = "needs PostgreSQL"]
fn dropped_clears_wipe_nothing_that_is_acknowledged_later() {
    block_on(async {
        let store = options(&new_schema()).open(SHARED.address()).await.unwrap();
        let memory = store.memory("a").unwrap();
        let mut wiped = 0;
        for round in 0..ROUNDS {
            let before = memory.add(Message::user("before")).await.unwrap();
            match round % 3 {
                0 => drop(tokio::time::timeout(patience(round), memory.clear()).await),
                1 => drop(tokio::time::timeout(patience(round), memory.evict(u64::MAX)).await),
                _ => {
                    let id = "a".into();
                    drop(tokio::time::timeout(patience(round), store.delete(&id)).await);
                }
            }
            let kept = memory.add(Message::user("kept")).await.unwrap();
            wiped += u64::from(
                kept != before + 1 || memory.read(None, 2).await.unwrap().records.len() < 2,
            );
            tokio::time::sleep(Duration::from_micros(500)).await;
            let there = memory.read(None, 1).await.unwrap();
            assert_eq!((there.records.len(), there.end), (1, kept + 1), "round {round}");
        }
        println!("{wiped} of {ROUNDS} were done, none late");
        assert!(wiped > 0, "none was begun");
    });
}

/// A server that stood still found what was asked of it when it went on, and did it, however long
/// ago that was given up.
#[test]
#[ignore = "needs PostgreSQL"]
fn what_a_server_finds_when_it_goes_on_is_too_late() {
    let postgres = Postgres::start("postgres-late");
    block_on(async {
        let time = Duration::from_secs(2);
        let options = PostgresStore::options().connect_timeout(time).timeout(time);
        let store = options.open(postgres.address()).await.unwrap();
        let memory = store.memory("a").unwrap();
        memory.add(Message::user("before")).await.unwrap();
        for round in 0..4 {
            tokio::task::block_in_place(|| postgres.server.freeze());
            let error = match round {
                0 => memory.append(&mut vec![Message::user("late")], None).await.unwrap_err(),
                1 => {
                    let mut append = Append::new([Message::user("late")]).with_id("late");
                    memory.append_with(&mut append).await.unwrap_err()
                }
                2 => memory.clear().await.unwrap_err(),
                _ => store.delete(&"a".into()).await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::Unacknowledged, "{error}");
            // Until nobody knows of it any more.
            tokio::time::sleep(2 * time).await;
            tokio::task::block_in_place(|| postgres.server.thaw());
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(all_texts(&memory).await, ["before"], "round {round}");
        }
        memory.add(Message::user("after")).await.unwrap();
        assert_eq!(all_texts(&memory).await, ["before", "after"]);
    });
}
