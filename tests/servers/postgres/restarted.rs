//! A server that is restarted while it is used.

use super::*;

/// While a server was restarted, each caller got an error at once, and the next one, and the next:
/// 2,726 of them. Now those who wait for a connection wait until it is back.
async fn a_restart_is_waited_for() {
    let postgres = Postgres::start("postgres-waited-for");
    let options = PostgresStore::options().timeout(Duration::from_secs(60));
    let store = options.open(postgres.address()).await.unwrap();
    let (stop, unknown) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let callers = begin(8, |i| {
        let memory = store.memory(format!("caller {i}")).unwrap();
        append_all_the_while(memory, true, Arc::clone(&stop), Arc::clone(&unknown))
    });
    let restarts = 3;
    for _ in 0..restarts {
        tokio::time::sleep(Duration::from_millis(500)).await;
        tokio::task::block_in_place(|| {
            postgres.server.kill();
            thread::sleep(Duration::from_millis(700));
            postgres.server.restart();
        });
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    let all: usize = end(callers).await.iter().sum();
    let unknown = unknown.load(Ordering::Relaxed);
    println!("{restarts} restarts, 8 callers: {all} appends acknowledged, {unknown} unknown");
    assert!(all > 8 && unknown <= 8 * restarts, "{all} {unknown}");
}

/// A server that does not come back is an error when the time is up, of something not done.
async fn a_server_that_is_gone_is_an_error_when_the_time_is_up() {
    let postgres = Postgres::start("postgres-gone");
    let time = Duration::from_secs(5);
    let store = PostgresStore::options().timeout(time).open(postgres.address()).await.unwrap();
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    tokio::task::block_in_place(|| postgres.server.kill());
    // Until the client has seen that: what is sent before may be done.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let began = Instant::now();
    let mut batch = vec![Message::user("lost")];
    let error = memory.append(&mut batch, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("Connection refused"), "{error}");
    assert_eq!(texts(&batch), ["lost"]);
    let took = began.elapsed();
    assert!(took > time / 2 && took < 3 * time, "{took:?}");
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    a_restart_is_waited_for,
    a_server_that_is_gone_is_an_error_when_the_time_is_up;
}
