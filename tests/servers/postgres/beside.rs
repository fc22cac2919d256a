//! What goes with an append, on a server where others change what it waits for.

use std::collections::HashMap;

use memory_prompt::memory::{Append, Read as Wanted};

use super::*;

/// How many appends are repeated, unless the environment says.
fn cases(default: u64) -> u64 {
    let cases = std::env::var("MEMORY_PROMPT_CASES").ok().and_then(|cases| cases.parse().ok());
    cases.unwrap_or(default)
}

/// What stands between a store and a server, and cuts every `one_in`th answer off.
fn cutting(server: u16, one_in: u64) -> u16 {
    let answers = AtomicU64::new(0);
    let next = move || answers.fetch_add(1, Ordering::SeqCst) % one_in;
    way(move || server, move |it| Fate::breaks_if(!it.is_asked && next() == one_in - 1))
}

/// Appends the turns of one writer, each until it is acknowledged, and some once more; returns
/// where they are and how often nobody knew. Who is late could no longer be recognised, so nobody
/// runs far ahead.
async fn write_turns(
    memory: Arc<dyn AsyncChatMemory>,
    turns: u64,
    [mine, other]: [Arc<AtomicU64>; 2],
) -> (HashMap<u64, u64>, u64) {
    let (mut told, mut unknown) = (HashMap::new(), 0);
    for turn in 0..turns {
        mine.store(turn, Ordering::SeqCst);
        while turn > other.load(Ordering::SeqCst) + 30 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let append = || {
            let texts = (0..2).map(|k| Message::user(format!("{turn} {k}")));
            let append = Append::new(texts).with_id(format!("turn {turn}"));
            append.set_slot("last", turn.to_string(), Expected::Any)
        };
        let mut again = u64::from(turn % 7 == 0);
        let mut left = append();
        loop {
            match memory.append_with(&mut left).await {
                Ok(done) => {
                    let first = *told.entry(turn).or_insert(done.positions.start);
                    assert_eq!(done.positions, first..first + 2);
                    if again == 0 {
                        break;
                    }
                    again -= 1;
                    left = append();
                }
                Err(error) => {
                    assert_eq!(left.messages.len(), 2, "the messages stay");
                    match error.kind() {
                        ErrorKind::Unacknowledged => unknown += 1,
                        ErrorKind::Storage => tokio::time::sleep(Duration::from_millis(10)).await,
                        _ => panic!("{error}"),
                    }
                }
            }
        }
    }
    mine.store(turns, Ordering::SeqCst);
    (told, unknown)
}

/// Appends that are repeated by their ids until they are acknowledged are there once, though every
/// ninth answer is cut off and the server is killed.
///
/// `MEMORY_PROMPT_CASES` says how many.
async fn appends_that_are_repeated_by_id_are_there_once() {
    let postgres = Postgres::start("postgres-repeated");
    let turns = cases(600) / 4;
    let port = cutting(postgres.port, 9);
    let store = PostgresStore::open(postgres.address()).await.unwrap();
    let cut = loop {
        // Even this may be cut off.
        if let Ok(store) = PostgresStore::open(address(port)).await {
            break store;
        }
    };
    let id = |writer: u64| format!("writer {}", writer / 2);
    let at: Vec<Arc<AtomicU64>> = (0..4).map(|_| Arc::default()).collect();
    let writers = begin(4, |writer| {
        // Two of them repeat each other's turns.
        let memory = Arc::new(cut.memory(id(writer)).unwrap());
        let at = [writer, writer ^ 1].map(|it| Arc::clone(&at[usize::try_from(it).unwrap()]));
        write_turns(memory, turns, at)
    });
    let mut kills = 0;
    while writers.iter().any(|writer| !writer.is_finished()) {
        tokio::time::sleep(Duration::from_millis(700)).await;
        if kills < 20 {
            kills += 1;
            postgres.server.die_and_return();
        }
    }
    let mut unknown = 0;
    for (writer, (told, lost)) in (0..).zip(end(writers).await) {
        unknown += lost;
        assert_eq!(told.len() as u64, turns);
        let memory = store.memory(id(writer)).unwrap();
        let there = all_texts(&memory).await;
        assert_eq!(there.len() as u64, turns * 2, "each is there once");
        for (turn, first) in told {
            let first = usize::try_from(first).unwrap();
            assert_eq!(there[first..first + 2], [0, 1].map(|k| format!("{turn} {k}")));
        }
    }
    println!("{} appends, {kills} kills, {unknown} answers lost", turns * 4);
    assert!(unknown > 0, "nothing was lost");
}

/// No more ids are kept than are recognised, whatever is appended.
async fn ids_that_are_long_past_are_forgotten() {
    let (schema, store) = opened().await;
    let writers = begin(8, |writer| {
        let memory = store.memory("a").unwrap();
        async move {
            for turn in 0..40 {
                let append = Append::new([Message::user("hi")]);
                let mut append = append.with_id(format!("{writer} {turn}"));
                memory.append_with(&mut append).await.unwrap();
            }
        }
    });
    end(writers).await;
    let memory = store.memory("a").unwrap();
    memory.append_with(&mut Append::new([Message::user("hi")]).with_id("last")).await.unwrap();
    let admin = connect(&SHARED.address()).await;
    let count = format!("SELECT count(*), min(number), max(number) FROM \"{schema}\".append");
    let row = admin.query_one(&count, &[]).await.unwrap();
    let [count, min, max] = [0, 1, 2].map(|i| row.get::<_, i64>(i));
    assert_eq!((count, min, max), (64, 321 - 63, 321));
    // With their conversation all of it goes.
    memory.set_slot("a", "x", Expected::Any).await.unwrap();
    assert!(store.delete(&"a".into()).await.unwrap());
    for table in ["append", "slot", "message", "conversation"] {
        let count = format!("SELECT count(*) FROM \"{schema}\".{table}");
        assert_eq!(admin.query_one(&count, &[]).await.unwrap().get::<_, i64>(0), 0, "{table}");
    }
}

/// Lets both wait for the row of the conversation, and go on when both do.
async fn both_wait<A, B>(
    schema: &str,
    one: impl Future<Output = A> + Send + 'static,
    other: impl Future<Output = B> + Send + 'static,
) -> (A, B)
where
    A: Send + 'static,
    B: Send + 'static,
{
    let mut somebody = connect(&SHARED.address()).await;
    let lock = locked(&mut somebody, schema).await;
    let (one, other) = (tokio::spawn(one), tokio::spawn(other));
    let waiting = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE wait_event_type = 'Lock' AND query LIKE '%{schema}%'"
    );
    let watching = connect(&SHARED.address()).await;
    while watching.query_one(&waiting, &[]).await.unwrap().get::<_, i64>(0) < 2 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    lock.rollback().await.unwrap();
    (one.await.unwrap(), other.await.unwrap())
}

/// Two appends under one id that waited for the same row: a statement that had looked for the id
/// first would have seen neither, and appended both.
async fn an_id_that_was_committed_while_one_waited_is_recognised() {
    let (schema, store) = opened().await;
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    for round in 0..10 {
        let append = || {
            let memory = memory.clone();
            async move {
                let append = Append::new([Message::user(round.to_string())]);
                let mut append = append.with_id(format!("turn {round}"));
                memory.append_with(&mut append).await.unwrap()
            }
        };
        let (one, other) = both_wait(&schema, append(), append()).await;
        assert_ne!(one.repeated, other.repeated);
        assert_eq!(one.positions, other.positions);
    }
    assert_eq!(memory.next_position().await.unwrap(), 11);
}

/// Who removes a slot that another one wrote while both waited for the same row, and comes later,
/// removes it: a statement that saw the moment before would not see the slot, and leave it.
async fn slots_change_in_the_order_of_the_appends() {
    let (schema, store) = opened().await;
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    for round in 0..20 {
        let change = |append: Append| {
            let memory = memory.clone();
            async move {
                let mut append = append;
                let done = memory.append_with(&mut append).await.unwrap();
                done.positions.start
            }
        };
        let write = Append::new([Message::user("write")]).set_slot("a", "x", Expected::Any);
        let remove = Append::new([Message::user("remove")]).remove_slot("a", Expected::Any);
        let (written, removed) = if round % 2 == 0 {
            both_wait(&schema, change(write), change(remove)).await
        } else {
            let (removed, written) = both_wait(&schema, change(remove), change(write)).await;
            (written, removed)
        };
        let there = memory.slot("a").await.unwrap().is_some();
        assert_eq!(there, written > removed, "in round {round}");
        memory.remove_slot("a", Expected::Any).await.unwrap();
    }
}

/// A slot that is expected not to be there is written by one of two who waited for the same row.
async fn a_slot_that_was_written_while_one_waited_is_a_conflict() {
    let (schema, store) = opened().await;
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    for round in 1..10 {
        let write = |text: &'static str, expected| {
            let memory = memory.clone();
            async move { memory.set_slot("a", text, expected).await }
        };
        let (one, other) =
            both_wait(&schema, write("one", Expected::Absent), write("other", Expected::Absent))
                .await;
        let (won, lost, text) = match (one, other) {
            (Ok(won), Err(lost)) => (won, lost, "one"),
            (Err(lost), Ok(won)) => (won, lost, "other"),
            both => panic!("{both:?} in round {round}"),
        };
        assert_eq!(lost.kind(), ErrorKind::SlotConflict);
        let slot = memory.slot("a").await.unwrap().unwrap();
        assert_eq!((slot.text(), slot.version()), (Some(text), won));
        // So is one whose conversation was cleared meanwhile.
        let clearing = memory.clone();
        let clear = async move { clearing.clear().await };
        let (cleared, replaced) = both_wait(&schema, clear, write("late", Expected::Is(won))).await;
        cleared.unwrap();
        assert!(memory.slot("a").await.unwrap().is_none(), "{replaced:?}");
    }
}

/// Of two who append without a pause to one conversation, and write slots, nobody is kept waiting.
/// Whoever found the slots changed while it waited used to ask again as if nothing had been, and to
/// be late again: the other one appended more than 64 turns meanwhile, and the id of the first was
/// forgotten.
async fn nobody_who_writes_slots_is_kept_waiting() {
    let store = options(&new_schema()).open(SHARED.address()).await.unwrap();
    let mut fewest = u64::MAX;
    // A busy machine may stop one for longer; who is kept waiting is so each time.
    for _ in 0..8 {
        fewest = fewest.min(appends_of_others(&store).await);
        if fewest < 9 {
            break;
        }
    }
    // 5 or 6; 9 to 13 where the row is not locked for the second try.
    assert!(fewest < 9, "{fewest}");
}

/// Lets three append; returns how many appends of others there are during one, 99 of 100 times, for
/// the one of the three in the middle.
async fn appends_of_others(store: &PostgresStore) -> u64 {
    let count = Arc::new(AtomicU64::new(0));
    let writers = begin(3, |writer| {
        let (memory, count) = (store.memory("a").unwrap(), Arc::clone(&count));
        async move {
            let mut waits = Vec::new();
            for _ in 0..300 {
                let before = count.load(Ordering::SeqCst);
                let append = Append::new([Message::user("hi")]);
                let slot = format!("slot {writer}");
                let mut append = append.set_slot(slot, "x", Expected::Any);
                memory.append_with(&mut append).await.unwrap();
                waits.push(count.fetch_add(1, Ordering::SeqCst) - before);
            }
            waits.sort_unstable();
            waits
        }
    });
    let mut most = Vec::new();
    for waits in end(writers).await {
        println!("appends of others during one: {} at most, {} 99 of 100", waits[299], waits[296]);
        most.push(waits[296]);
    }
    most.sort_unstable();
    most[1]
}

/// Whatever goes with an append or a read, it is one question to the server.
async fn what_goes_with_an_append_costs_no_further_round_trip() {
    let between = Between::before(SHARED.port);
    let schema = new_schema();
    options(&schema).open(SHARED.address()).await.unwrap();
    let options = options(&schema).max_connections(1);
    let store = options.open(address(between.port)).await.unwrap();
    let of_all = async |number: usize| {
        let id = format!("a{number}");
        let memory = store.memory(id.as_str()).unwrap();
        let turn = || {
            let turn = Append::new(["a", "b"].map(Message::user)).with_id("one");
            let turn = turn.with_times([SystemTime::now(); 2]);
            turn.set_slot("a", "x", Expected::Any).remove_slot("b", Expected::Absent)
        };
        let all = Wanted::newest(10).slots(["a", "b"]).positions([0, 3]);
        [
            between.turns_of(memory.append_with(&mut turn())).await,
            // A repetition is found, and then looked at.
            between.turns_of(memory.append_with(&mut turn())).await,
            between.turns_of(memory.read_with(&all)).await,
            between.turns_of(memory.slots()).await,
            between.turns_of(store.info(&id.as_str().into())).await,
            between.turns_of(store.ids_with_prefix("a", None, 9)).await,
            between.turns_of(store.restore(&format!("b{number}").into(), 9, None)).await,
        ]
    };
    takes([1, 2, 1, 1, 1, 1, 1], of_all).await;
}

/// The largest slot that a memory tells of comes back as it was.
async fn the_largest_slot_is_kept() {
    let memory = options(&new_schema()).open(SHARED.address()).await.unwrap().memory("a").unwrap();
    let most = memory.limits().slot;
    let content: Vec<u8> = (0..251u8).cycle().take(most).collect();
    memory.set_slot("a", content.clone(), Expected::Any).await.unwrap();
    assert!(memory.slot("a").await.unwrap().unwrap().content() == content);
}

/// Ids are found by what they begin with in an index: of 20,000 conversations those few are looked
/// at.
async fn a_prefix_is_found_by_an_index() {
    let (schema, store) = opened().await;
    let admin = connect(&SHARED.address()).await;
    let fill = format!(
        "INSERT INTO \"{schema}\".conversation (key, start, \"end\", active, id, incarnation)
         SELECT encode(substr(sha256(id), 1, 16), 'hex')::uuid, 0, 1, 0, id, 0
         FROM (SELECT convert_to('support:u' || i || ':c' || k, 'UTF8') AS id
               FROM generate_series(1, 2000) i, generate_series(1, 10) k) AS ids"
    );
    admin.batch_execute(&fill).await.unwrap();
    let looked_at = async || {
        // Each session tells what it looked at about once a second.
        tokio::time::sleep(Duration::from_millis(2500)).await;
        let looked_at = format!(
            "SELECT (seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_user_tables
             WHERE schemaname = '{schema}' AND relname = 'conversation'"
        );
        admin.query_one(&looked_at, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = looked_at().await;
    assert_eq!(store.ids_with_prefix("support:u1234:", None, 100).await.unwrap().len(), 10);
    assert_eq!(store.ids_with_prefix("support:u1999", None, 5).await.unwrap().len(), 5);
    assert_eq!(store.ids(Some(&"support:u1500".into()), 100).await.unwrap().len(), 100);
    let cost = looked_at().await - before;
    assert!(cost < 300, "{cost} conversations were looked at");
    assert_eq!(store.delete_prefix("support:u1234:").await.unwrap(), 10);
}

/// Three calls that wait in 10,000 conversations of an owner were looked for in each of them.
async fn three_calls_that_wait_are_found_among_ten_thousand_conversations() {
    use memory_prompt::conversation::{Conversation, Scripted};
    use memory_prompt::turn::AsyncInbox;
    use memory_prompt::{MemoryPrompt, Tool};

    let schema = new_schema();
    let store = Arc::new(options(&schema).open(SHARED.address()).await.unwrap());
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..20 {
        let store = Arc::clone(&store);
        tasks.spawn(async move {
            for n in (0..10_000).filter(|n| n % 20 == task) {
                let memory = store.memory(format!("ann:{n}")).unwrap();
                let summary = "They talked. ".repeat(100);
                let append = Append::new([Message::user("Hi."), Message::ai("Hello.")]);
                let append = append.set_slot("summary", summary, Expected::Absent);
                memory.append_with(&mut { append }).await.unwrap();
                if n % 3_333 == 7 {
                    let model = Scripted::new().calls("pay", "{}");
                    let pay = Tool::new("pay", "Pays.").needing_approval();
                    let talk = Conversation::new_async(MemoryPrompt::new_async(memory), model);
                    talk.tool(pay, |()| Ok("paid")).say("Pay.").await.unwrap();
                }
            }
        });
    }
    tasks.join_all().await;
    // As autovacuum does from time to time: without it the planner knows no numbers.
    let quoted = schema.replace('"', "\"\"");
    let analyze = ["conversation", "slot"].map(|it| format!("ANALYZE \"{quoted}\".{it};"));
    connect(&SHARED.address()).await.batch_execute(&analyze.concat()).await.unwrap();
    let mut best = Duration::MAX;
    for _ in 0..50 {
        let since = Instant::now();
        let waiting = store.waiting("ann:", None, 50).await.unwrap();
        best = best.min(since.elapsed());
        assert_eq!(waiting.len(), 3);
    }
    println!("3 calls that wait in 10,000 conversations: {best:?}");
    assert!(best < Duration::from_millis(5), "{best:?}");
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    appends_that_are_repeated_by_id_are_there_once,
    ids_that_are_long_past_are_forgotten,
    an_id_that_was_committed_while_one_waited_is_recognised,
    slots_change_in_the_order_of_the_appends,
    a_slot_that_was_written_while_one_waited_is_a_conflict,
    nobody_who_writes_slots_is_kept_waiting,
    what_goes_with_an_append_costs_no_further_round_trip,
    the_largest_slot_is_kept,
    a_prefix_is_found_by_an_index,
    three_calls_that_wait_are_found_among_ten_thousand_conversations;
}
