//! The time that an operation has: one, whatever it waits for.

use super::*;

/// Everything took its own time: to wait for a connection did not make the time shorter for which a
/// change waited for a lock. So the client gave up before the server did, and what was not done was
/// [`ErrorKind::Unacknowledged`].
async fn what_waits_twice_is_not_done_in_one_time() {
    let schema = format!("s{}", MemoryId::random());
    // The server has nine tenths of what is left of it; the last is half a second, for a machine
    // that is busy.
    let time = Duration::from_secs(7);
    let options = options(&schema).max_connections(1).timeout(time);
    let memory = options.open(SHARED.address()).await.unwrap().memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    let mut somebody = connect(&SHARED.address()).await;
    let lock = locked(&mut somebody, &schema).await;
    // The first one has the connection; the second one gets it when the first one's wait is
    // over, and the third one when the second one's is, each with two thirds of its time left.
    let waiting: Vec<_> = [0, 1, 2]
        .map(|number| {
            let memory = memory.clone();
            tokio::spawn(async move {
                tokio::time::sleep(time * 3 / 5 * number).await;
                let began = Instant::now();
                let mut batch = vec![Message::user("waits")];
                let error = match number {
                    1 => memory.clear().await.unwrap_err(),
                    _ => memory.append(&mut batch, None).await.unwrap_err(),
                };
                (error, began.elapsed())
            })
        })
        .into();
    for waiting in waiting {
        let (error, took) = waiting.await.unwrap();
        println!("{took:?}: {error}");
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
        assert!(took < time + time / 4, "{took:?}");
    }
    lock.rollback().await.unwrap();
    assert_eq!(all_texts(&memory).await, ["before"]);
}

/// To delete what takes longer than there is time for was unacknowledged; now the server says that
/// it did not do it.
async fn what_takes_too_long_is_not_done() {
    let schema = format!("s{}", MemoryId::random());
    let options = options(&schema).timeout(Duration::from_secs(15));
    let store = options.open(SHARED.address()).await.unwrap();
    let memories = ["a", "b", "c"].map(|id| store.memory(id).unwrap());
    for memory in &memories {
        memory.add(Message::user("before")).await.unwrap();
    }
    slow(&schema, "pg_sleep(60)").await;
    let [evicted, cleared, deleted] = &memories;
    let (evicted, cleared, deleted) =
        tokio::join!(evicted.evict(1), cleared.clear(), store.delete(deleted.id()));
    for error in [evicted.unwrap_err(), cleared.unwrap_err(), deleted.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
        let text = error.to_string();
        assert!(text.ends_with(": postgres: it was cancelled, or took too long"), "{text}");
    }
    for memory in &memories {
        assert_eq!(all_texts(memory).await, ["before"]);
    }
}

/// Makes the server take so long for each message that it deletes.
async fn slow(schema: &str, sleep: &str) {
    let slow = format!(
        "CREATE FUNCTION \"{schema}\".slow() RETURNS trigger LANGUAGE plpgsql
         AS $$ BEGIN PERFORM {sleep}; RETURN OLD; END $$;
         CREATE TRIGGER slow BEFORE DELETE ON \"{schema}\".message
         FOR EACH ROW EXECUTE FUNCTION \"{schema}\".slow()"
    );
    connect(&SHARED.address()).await.batch_execute(&slow).await.unwrap();
}

/// A purge deleted many conversations in one transaction, however long they were: if that took
/// longer than the timeout none was ever purged. And it waited for whoever had locked one of them.
async fn a_purge_gets_on_however_long_the_conversations_are() {
    tokio::join!(
        a_purge_gets_on_with_one_that_is_locked(),
        a_delete_of_many_gets_on(),
        one_that_takes_too_long_holds_nobody_up()
    );
}

const MANY: u64 = 64;

/// A store whose server needs longer for the messages of so many than there is time for.
async fn with_slow_deletes() -> (String, PostgresStore) {
    let schema = format!("s{}", MemoryId::random());
    let options = options(&schema).timeout(Duration::from_secs(8));
    let store = options.open(SHARED.address()).await.unwrap();
    slow(&schema, "pg_sleep(0.14)").await; // 9 seconds for all of them
    (schema, store)
}

async fn fill(store: &PostgresStore, prefix: &str) {
    for i in 0..MANY {
        let memory = store.memory(format!("{prefix}:{i}")).unwrap();
        memory.add_all([Message::user("old")]).await.unwrap();
    }
}

fn tomorrow() -> SystemTime {
    SystemTime::now() + Duration::from_secs(86_400)
}

async fn a_purge_gets_on_with_one_that_is_locked() {
    let (schema, store) = with_slow_deletes().await;
    fill(&store, "purged").await;
    let held = store.memory("held").unwrap();
    held.add(Message::user("old")).await.unwrap();
    let mut somebody = connect(&SHARED.address()).await;
    let lock = somebody.transaction().await.unwrap();
    let select =
        format!("SELECT FROM \"{schema}\".conversation WHERE id = 'held'::bytea FOR UPDATE");
    lock.batch_execute(&select).await.unwrap();
    let began = Instant::now();
    assert_eq!(store.purge_inactive(tomorrow()).await.unwrap(), MANY);
    println!(
        "{MANY} conversations that take too long at once were purged in {:?}",
        began.elapsed()
    );
    assert_eq!(store.ids(None, 100).await.unwrap(), ["held".into()]);
    lock.rollback().await.unwrap();
    assert_eq!(store.purge_inactive(tomorrow()).await.unwrap(), 1);
}

async fn a_delete_of_many_gets_on() {
    let (_, store) = with_slow_deletes().await;
    fill(&store, "deleted").await;
    assert_eq!(store.delete_prefix("deleted:").await.unwrap(), MANY);
}

/// It is told at the end.
async fn one_that_takes_too_long_holds_nobody_up() {
    let (_, store) = with_slow_deletes().await;
    let long = store.memory("long").unwrap();
    long.add_all((0..MANY).map(|i| Message::user(i.to_string()))).await.unwrap();
    fill(&store, "beside").await;
    let error = store.purge_inactive(tomorrow()).await.unwrap_err();
    assert_eq!(error.to_string(), "purge_inactive: postgres: it was cancelled, or took too long");
    assert_eq!(store.ids(None, 100).await.unwrap(), ["long".into()]);
    assert_eq!(long.all().await.unwrap().len() as u64, MANY);
}

/// An append that did not find the end that it expected asked where it was then; if somebody had
/// appended meanwhile the error said that the conversation "ends at 5, not at 5".
async fn a_conflict_is_never_with_the_end_that_was_expected() {
    let store = options(&new_schema()).open(SHARED.address()).await.unwrap();
    let (memory, mut conflicts, mut done) = (store.memory("a").unwrap(), 0, 0);
    let mut rounds = 0;
    // Until one of them had the luck to be second.
    while rounds < 400 || (done == 0 && rounds < 20_000) {
        rounds += 1;
        let end = memory.next_position().await.unwrap();
        let other = memory.clone();
        let other = tokio::spawn(async move { other.add(Message::user("first")).await });
        let mut batch = vec![Message::user("second")];
        match memory.append(&mut batch, Some(end + 1)).await {
            Ok(_) => done += 1,
            Err(error) => {
                let ErrorKind::Conflict { expected, actual } = error.kind() else {
                    panic!("{error}")
                };
                assert_ne!(expected, actual, "{error}");
                conflicts += 1;
            }
        }
        other.await.unwrap().unwrap();
    }
    println!("{done} appends done behind another one, {conflicts} before it");
    assert!(done > 0, "there was no race");
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    what_waits_twice_is_not_done_in_one_time,
    what_takes_too_long_is_not_done,
    a_purge_gets_on_however_long_the_conversations_are,
    a_conflict_is_never_with_the_end_that_was_expected;
}
