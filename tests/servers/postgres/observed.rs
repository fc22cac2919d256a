//! A store under watch: what an operator can ask it.

use super::*;

/// Nothing was to be seen of a store: neither whether its server answers, nor its connections.
async fn a_store_answers_and_counts() {
    let postgres = Postgres::start("postgres-observed");
    let options = PostgresStore::options().max_connections(3).timeout(Duration::from_secs(8));
    let store = options.open(postgres.address()).await.unwrap();
    store.ping().await.unwrap();
    let figures = store.figures();
    assert_eq!((figures.connections, figures.most_connections), (1, Some(3)));
    assert_eq!((figures.retries, figures.reconnects, figures.under_way), (0, 0, 0));

    let mut somebody = connect(&postgres.address()).await;
    store.memory("a").unwrap().add(Message::user("hi")).await.unwrap();
    let lock = somebody.transaction().await.unwrap();
    lock.batch_execute("SELECT FROM memory_prompt.conversation FOR UPDATE").await.unwrap();
    let waiting = begin(5, |_| {
        let memory = store.memory("a").unwrap();
        async move { memory.add(Message::user("waits")).await.unwrap() }
    });
    // Shorter than they wait for the lock.
    let patience = Instant::now() + Duration::from_secs(5);
    let seen = || {
        let figures = store.figures();
        (figures.connections, figures.waiting, figures.under_way)
    };
    while seen() != (3, 2, 5) && Instant::now() < patience {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(seen(), (3, 2, 5));
    lock.rollback().await.unwrap();
    end(waiting).await;
    assert_eq!(store.figures().under_way, 0);

    tokio::task::block_in_place(|| postgres.server.kill());
    assert_eq!(store.ping().await.unwrap_err().kind(), ErrorKind::Storage);
    tokio::task::block_in_place(|| postgres.server.restart());
    store.ping().await.unwrap();
    let figures = store.figures();
    assert!(figures.retries > 0 && figures.reconnects == 1, "{figures:?}");
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    a_store_answers_and_counts;
}
