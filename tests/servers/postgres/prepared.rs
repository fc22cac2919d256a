//! Prepared statements: where there are some, and where there may be none.

use memory_prompt::memory::Read;

use super::*;

/// Returns what is prepared in the session that answers, by the names that it has there.
async fn prepared(client: &Client) -> Vec<String> {
    let names = "SELECT name FROM pg_prepared_statements ORDER BY name";
    let rows = client.simple_query(names).await.unwrap();
    let name = |row: &tokio_postgres::SimpleQueryMessage| match row {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    rows.iter().filter_map(name).collect()
}

/// Turns and reads of 16 callers, with all kinds of appends among them.
async fn converse(store: &PostgresStore, turns: u64) {
    let callers = begin(16, |caller| {
        let memory = store.memory(format!("caller {caller}")).unwrap();
        async move {
            for turn in 0..turns {
                let message = Message::user(format!("{turn}"));
                let append = Append::new([message]);
                let mut append = match turn % 3 {
                    0 => append,
                    1 => append.with_id(format!("turn {turn}")),
                    _ => append.set_slot("a", "x", Expected::Any),
                };
                let done = memory.append_with(&mut append).await.unwrap();
                assert_eq!(done.positions, turn..turn + 1);
                assert_eq!(memory.read(None, 1).await.unwrap().end, turn + 1);
                let read = Read::newest(1).slots(["a"]).positions([0]);
                assert_eq!(memory.read_with(&read).await.unwrap().picked().len(), 1);
            }
        }
    });
    end(callers).await;
}

/// Every statement was planned again for each time it was asked, which takes a server more than to
/// do it.
async fn statements_are_prepared_once_a_connection() {
    let manager = Manager::new(SHARED.address().parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(1).build().unwrap();
    let schema = new_schema();
    let store = options(&schema).over(pool.clone()).await.unwrap();
    assert_eq!(prepared(&pool.get().await.unwrap()).await.len(), 0);
    let memory = store.memory("a").unwrap();
    for _ in 0..5 {
        memory.add(Message::user("hi")).await.unwrap();
        memory.read(None, 10).await.unwrap();
    }
    assert_eq!(prepared(&pool.get().await.unwrap()).await.len(), 2);
    converse(&store, 9).await;
    let all = prepared(&pool.get().await.unwrap()).await.len();
    assert_eq!(all, 3, "appends, and two kinds of reads");
    // A pool of the caller's may do what it likes with its sessions.
    pool.get().await.unwrap().batch_execute("DEALLOCATE ALL").await.unwrap();
    memory.add(Message::user("after")).await.unwrap();
    memory.read(None, 10).await.unwrap();
    assert_eq!(all_texts(&memory).await, ["hi", "hi", "hi", "hi", "hi", "after"]);
}

async fn nothing_is_prepared_where_that_is_not_wanted() {
    let manager = Manager::new(SHARED.address().parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(1).build().unwrap();
    let store = options(&new_schema()).prepare(false).over(pool.clone()).await.unwrap();
    converse(&store, 4).await;
    assert_eq!(prepared(&pool.get().await.unwrap()).await.len(), 0);
}

/// Returns the names of what is prepared in the three sessions behind a pooler, after two stores
/// used it.
async fn behind(port: u16, prepare: bool) -> Vec<String> {
    for _ in 0..2 {
        let options = options(&new_schema()).prepare(prepare);
        let store = options.open(address(port)).await.unwrap();
        converse(&store, 9).await;
    }
    let mut watching = Vec::new();
    for _ in 0..3 {
        watching.push(connect(&address(port)).await);
    }
    let mut names = Vec::new();
    // All three are open at once, so each has a session of its own.
    for client in &watching {
        client.batch_execute("BEGIN").await.unwrap();
    }
    for client in &watching {
        names.extend(prepared(client).await);
        client.batch_execute("COMMIT").await.unwrap();
    }
    names
}

/// Behind a pooler that knows no prepared statements another session answers each time: a name
/// means nothing there, or a statement of another store. With `prepare(false)` none is left behind.
#[test]
#[ignore = "needs PostgreSQL and pgbouncer"]
fn nothing_is_prepared_behind_a_pooler_that_can_not() {
    let program = Path::new(PGBOUNCER);
    let off = (pgbouncer_version(program) >= KNOWS).then_some(0);
    let (_pooler, port) = pooler_with(program, "pgbouncer-without", SHARED.port, off);
    block_on(async { assert_eq!(behind(port, false).await, [""; 0]) });
}

/// A newer pgbouncer than Debian's, which knows prepared statements unless they are switched off,
/// may be named in the environment.
async fn statements_are_prepared_behind_a_pooler_that_can() {
    let named = std::env::var_os("MEMORY_PROMPT_PGBOUNCER");
    let program = named.map_or_else(|| PGBOUNCER.into(), PathBuf::from);
    if pgbouncer_version(&program) < KNOWS {
        println!("not tested: {} is older than 1.21", program.display());
        return;
    }
    let (_with, port) = pooler_with(&program, "pgbouncer-with", SHARED.port, Some(200));
    let found = behind(port, true).await;
    assert!(found.len() >= 2 * 3, "{found:?}");
    assert!(found.iter().all(|name| name.starts_with("PGBOUNCER_")), "{found:?}");
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    statements_are_prepared_once_a_connection,
    nothing_is_prepared_where_that_is_not_wanted;
    #[ignore = "needs PostgreSQL and pgbouncer"]
    statements_are_prepared_behind_a_pooler_that_can;
}
