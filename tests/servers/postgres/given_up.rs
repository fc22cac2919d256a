//! Requests that are given up, and what they keep on the server.

use super::*;

/// Returns how many connections there are under this name.
async fn connections(watching: &Client, name: &str) -> i64 {
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = $1";
    watching.query_one(count, &[&name]).await.unwrap().get(0)
}

/// While somebody held a lock, each append that was given up kept its connection on the server and
/// got a new one: `max_connections(5)` led to 300, and to "too many clients" for everybody.
async fn what_is_given_up_keeps_no_connections_beyond_the_most() {
    let schema = format!("s{}", MemoryId::random());
    let name = format!("given up {schema}");
    let address = format!("{}?application_name={}", SHARED.address(), name.replace(' ', "%20"));
    let options = options(&schema).max_connections(5);
    let store = options.open(&address).await.unwrap();
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();

    let mut somebody = connect(&SHARED.address()).await;
    let lock = locked(&mut somebody, &schema).await;
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
    let callers = begin(20, |_| {
        let memory = memory.clone();
        async move {
            for _ in 0..10 {
                // By the caller's own clock.
                let append = memory.add(Message::user("given up"));
                let late = tokio::time::timeout(Duration::from_millis(100), append).await;
                assert!(late.is_err(), "{late:?}");
            }
        }
    });
    end(callers).await;
    assert_eq!(all_texts(&memory).await, ["before"], "there is a connection for this");
    stop.store(true, Ordering::Relaxed);
    let most = watcher.await.unwrap();
    println!("200 appends given up: {most} connections at most");
    assert!((1..=5).contains(&most), "{most}");
    tokio::time::sleep(Duration::from_millis(500)).await;
    lock.rollback().await.unwrap();
    // Nobody goes on with what was cancelled.
    memory.add(Message::user("after")).await.unwrap();
    assert_eq!(all_texts(&memory).await, ["before", "after"]);
}

/// What the server is done with in a moment is given up without a trace: its connection is used
/// again.
async fn a_connection_of_what_is_given_up_is_used_again() {
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

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    what_is_given_up_keeps_no_connections_beyond_the_most,
    a_connection_of_what_is_given_up_is_used_again;
}
