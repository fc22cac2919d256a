//! What is in the tables, and what is read from them.

use std::collections::HashMap;
use std::time::SystemTime;

use memory_prompt::memory::{Append, Expected, MemoryId, Read};
use memory_prompt::store::cassandra::driver::client::SelfIdentity;
use memory_prompt::store::cassandra::driver::response::query_result::QueryRowsResult;
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::*;
use crate::laws::failed;
use crate::tasks::{begin, end};

struct Place {
    store: CassandraStore,
    session: Arc<Session>,
    keyspace: Keyspace,
}

async fn place() -> Place {
    let (keyspace, store) = Keyspace::take(CassandraStore::options()).await;
    Place { store, session: Arc::new(session(&NODE.address).await), keyspace }
}

impl Place {
    async fn run(&self, cql: &str) {
        self.session.query_unpaged(cql.replace("{}", &self.keyspace.0), ()).await.unwrap();
    }

    async fn select(&self, cql: &str) -> QueryRowsResult {
        let cql = cql.replace("{}", &self.keyspace.0);
        self.session.query_unpaged(cql, ()).await.unwrap().into_rows_result().unwrap()
    }

    async fn count(&self, table: &str) -> i64 {
        let rows = self.select(&format!("SELECT count(*) FROM {{}}.{table}")).await;
        rows.single_row::<(i64,)>().unwrap().0
    }
}

fn numbers(from: u64, count: u64) -> Vec<Message> {
    (from..from + count).map(|i| Message::user(i.to_string())).collect()
}

/// Pseudorandom numbers, the same ones each time.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// Whatever is done to a conversation that fills buckets, in whatever order: it is a list.
async fn a_long_conversation_is_a_list() {
    let place = place().await;
    let memory = place.store.memory("long").unwrap();
    let mut dice = Dice(7);
    let (mut start, mut end) = (0, 0);
    for step in 0..120 {
        match dice.roll(10) {
            0..4 => {
                // Some batches are larger than what lies beside the head for long.
                let count = if dice.roll(6) == 0 { 1000 + dice.roll(900) } else { dice.roll(400) };
                let positions = memory.append(&mut numbers(end, count), Some(end)).await;
                assert_eq!(positions.unwrap(), end..end + count);
                end += count;
            }
            4 | 5 => {
                let before = start + dice.roll(end - start + 2);
                let gone = before.min(end) - start;
                assert_eq!(memory.evict(before).await.unwrap(), gone);
                start += gone;
            }
            6 if dice.roll(4) == 0 => {
                memory.clear().await.unwrap();
                start = end;
            }
            7 if dice.roll(6) == 0 => {
                let was_there = place.store.delete(&"long".into()).await.unwrap();
                assert!(was_there || end == 0);
                (start, end) = (0, 0);
            }
            _ => {}
        }
        let before = [None, Some(dice.roll(end + 10))][usize::from(step % 2 == 0)];
        let n = if dice.roll(3) == 0 { u64::MAX } else { dice.roll(1200) };
        let read = memory.read(before, usize::try_from(n).unwrap()).await.unwrap();
        let to = before.unwrap_or(end).clamp(start, end);
        let expected = to.saturating_sub(n).max(start)..to;
        let found = read.records.iter().map(|r| (r.position(), r.message().text().into_owned()));
        assert!(
            found.eq(expected.clone().map(|i| (i, i.to_string()))),
            "step {step}: {expected:?} is not {:?}",
            read.records.len()
        );
        assert_eq!((read.start, read.end), (start, end), "step {step}");
    }
    // What nobody can read any more is not kept either.
    memory.add_all(numbers(end, 2700)).await.unwrap();
    memory.add_all(numbers(end + 2700, 10)).await.unwrap();
    assert!(place.count("message").await >= 1500);
    memory.evict(u64::MAX).await.unwrap();
    assert_eq!(place.count("message").await, 0);
    memory.add_all(numbers(end, 2700)).await.unwrap();
    assert!(place.store.delete(&"long".into()).await.unwrap());
    for table in ["conversation", "message"] {
        assert_eq!(place.count(table).await, 0, "{table}");
    }
}

/// Two conversations may lie at the same place in the ring: the hash is not a secret one, and
/// anyone who wants to can find such ids.
async fn ids_with_one_token_are_listed_once_each() {
    let ids = [
        "support:u1001:c2002,32 bytes lon",
        "same:806jgo1x68kw3e!%0'A\u{1a}~ \u{12}\n&L`",
        "same:s45g6idvq17\u{f}\u{6}\u{1e}mo0m0k\t\n#@\u{c},Q",
    ];
    let place = place().await;
    for id in ids.into_iter().chain(["another", "one more"]) {
        place.store.memory(id).unwrap().add(Message::user(id)).await.unwrap();
    }
    let tokens = "SELECT token(id) FROM {}.conversation WHERE id = ?";
    let tokens = tokens.replace("{}", &place.keyspace.0);
    let mut found = Vec::new();
    for id in ids {
        let rows = place.session.query_unpaged(tokens.as_str(), (id,)).await.unwrap();
        found.push(rows.into_rows_result().unwrap().first_row::<(i64,)>().unwrap().0);
    }
    assert!(found.iter().all(|token| *token == found[0]), "{found:?}");
    let order = place.store.ids(None, 10).await.unwrap();
    assert_eq!(order.len(), 5);
    for n in 1..5 {
        let mut listed = place.store.ids(None, n).await.unwrap();
        while let Some(last) = listed.last() {
            let page = place.store.ids(Some(last), n).await.unwrap();
            if page.is_empty() {
                break;
            }
            listed.extend(page);
        }
        assert_eq!(listed, order, "in pages of {n}");
    }
    let tomorrow = SystemTime::now() + Duration::from_secs(86400);
    assert_eq!(place.store.purge_inactive(tomorrow).await.unwrap(), 5);
}

async fn an_id_may_be_as_long_as_a_key() {
    let place = place().await;
    let longest = "x".repeat(65_534);
    place.store.memory(longest.as_str()).unwrap().add(Message::user("hi")).await.unwrap();
    assert_eq!(place.store.ids(None, 2).await.unwrap(), [longest.as_str().into()]);
    let error = place.store.memory(format!("{longest}x")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "memory: cassandra: an id of 65535 bytes; 65534 are the most");
}

async fn any_codec_is_read_whatever_is_configured() {
    let place = place().await;
    let compact = CassandraStore::options().codec(Codec::Bincode).keyspace(&place.keyspace.0);
    let compact = compact.over(Arc::clone(&place.session)).await.unwrap();
    let (json, bincode) = (place.store.memory("both").unwrap(), compact.memory("both").unwrap());
    json.add(Message::system("Be brief.")).await.unwrap();
    json.add_all(numbers(0, 2)).await.unwrap();
    bincode.add_all(numbers(2, 2)).await.unwrap();
    for memory in [json, bincode] {
        assert!(memory.all().await.unwrap().messages().eq(&numbers(0, 4)));
        assert_eq!(memory.system().await.unwrap().as_deref(), Some(&Message::system("Be brief.")));
    }
}

/// A row that somebody else has removed is missed, wherever it lay.
async fn a_row_that_is_gone_is_reported_and_hides_no_other() {
    let place = place().await;
    let memory = place.store.memory("holes").unwrap();
    memory.add_all(numbers(0, 1000)).await.unwrap();
    memory.add_all(numbers(1000, 1000)).await.unwrap();
    let logs = place.select("SELECT log, bucket FROM {}.message LIMIT 1").await;
    let (log, _) = logs.single_row::<(uuid::Uuid, i64)>().unwrap();
    let logs = place.select("SELECT log FROM {}.conversation WHERE id = 'holes' LIMIT 1").await;
    assert_eq!(logs.single_row::<(uuid::Uuid,)>().unwrap().0, log);
    let row = format!("log = {log} AND bucket = 1 AND position = 700");
    place.run(&format!("DELETE FROM {{}}.message WHERE {row}")).await;
    place.run("DELETE FROM {}.conversation WHERE id = 'holes' AND position = 1999 IF EXISTS").await;
    let read = memory.read(None, usize::MAX).await.unwrap();
    assert_eq!(read.records.len(), 1998);
    assert_eq!(read.unreadable.iter().map(|row| row.position).collect::<Vec<_>>(), [700, 1999]);
    assert_eq!(
        read.unreadable[0].error.to_string(),
        "read: cassandra: the row is gone, and nobody has evicted it"
    );
}

/// Who deletes a long conversation may die before its buckets are removed. It is no more from the
/// first step on, and whoever comes by removes the rest.
async fn a_deletion_that_was_broken_off_is_done_to_an_end() {
    let place = place().await;
    for round in 0..4 {
        let memory = place.store.memory("dead").unwrap();
        memory.add_all(numbers(0, 1800)).await.unwrap();
        memory.add(Message::system("Be brief.")).await.unwrap();
        memory.set_slot("a", "x", Expected::Any).await.unwrap();
        let before = memory.read(None, 0).await.unwrap().incarnation;
        assert!(place.count("message").await >= 1000);
        // As the first step leaves it.
        place
            .run(
                "BEGIN BATCH
                UPDATE {}.conversation SET ended = true, system = null
                    WHERE id = 'dead' AND position = 9223372036854775807 IF ended = null;
                DELETE FROM {}.conversation WHERE id = 'dead' AND position < 9223372036854775807;
                APPLY BATCH",
            )
            .await;
        let read = memory.read(None, 10).await.unwrap();
        assert_eq!((read.records.len(), read.end, read.incarnation), (0, 0, None));
        assert!(place.store.ids(None, 10).await.unwrap().is_empty());
        assert_eq!(place.store.info(&"dead".into()).await.unwrap(), None);
        assert_eq!(memory.evict(5).await.unwrap(), 0);
        memory.clear().await.unwrap();
        match round {
            0 => {
                assert_eq!(place.store.purge_inactive(SystemTime::UNIX_EPOCH).await.unwrap(), 0);
            }
            1 => assert!(!place.store.delete(&"dead".into()).await.unwrap()),
            2 => assert_eq!(memory.add(Message::user("anew")).await.unwrap(), 0),
            _ => place.store.restore(&"dead".into(), 7, None).await.unwrap(),
        }
        assert_eq!(place.count("message").await, 0, "round {round}");
        let after = memory.read(None, 1).await.unwrap();
        assert!(after.incarnation.is_none() == (round < 2) && after.incarnation != before);
        assert_eq!(place.store.delete(&"dead".into()).await.unwrap(), round >= 2);
        assert_eq!(place.count("conversation").await, 0, "round {round}");
    }
}

/// Who evicts may die before the buckets are removed: whoever evicts next, or deletes, removes
/// them.
async fn an_eviction_that_was_broken_off_is_done_to_an_end() {
    let place = place().await;
    for evict in [true, false] {
        let memory = place.store.memory("evicted").unwrap();
        memory.add_all(numbers(0, 2600)).await.unwrap();
        assert_eq!(place.count("message").await, 2000);
        place
            .run(
                "UPDATE {}.conversation SET start = 1200
                WHERE id = 'evicted' AND position = 9223372036854775807 IF EXISTS",
            )
            .await;
        assert_eq!(memory.all().await.unwrap().len(), 1400);
        assert_eq!(place.count("message").await, 2000);
        if evict {
            assert_eq!(memory.evict(1300).await.unwrap(), 100);
            assert_eq!(place.count("message").await, 700);
        }
        assert!(place.store.delete(&"evicted".into()).await.unwrap());
        assert_eq!(place.count("message").await, 0);
    }
}

/// Somebody cleared a conversation while a writer moved messages to a bucket. The writer's change
/// of the head came too late, and its copies stayed, whatever was cleared or evicted afterwards.
async fn what_is_moved_while_it_is_forgotten_is_not_kept() {
    let place = place().await;
    for (before, left) in [(None, 0), (Some(1000), 0), (Some(300), 1)] {
        let memory = place.store.memory("moved").unwrap();
        memory.add_all(numbers(0, 999)).await.unwrap();
        // One more, and the writer begins to move them.
        place
            .run(
                r#"UPDATE {}.conversation SET "end" = 1000
                WHERE id = 'moved' AND position = 9223372036854775807 IF EXISTS"#,
            )
            .await;
        let select = "SELECT CAST(log AS text) FROM {}.conversation WHERE id = 'moved' LIMIT 1";
        let (log,) = place.select(select).await.single_row::<(String,)>().unwrap();
        let copy = async || {
            for position in [0, 299, 499] {
                let row = format!(
                    "INSERT INTO {{}}.message (log, bucket, position, at, payload)
                    VALUES ({log}, 0, {position}, 0, 0x00) USING TIMESTAMP 1"
                );
                place.run(&row).await;
            }
        };
        copy().await;
        assert_eq!(place.count("message").await, 3);
        match before {
            None => memory.clear().await.unwrap(),
            Some(before) => assert_eq!(memory.evict(before).await.unwrap(), before),
        }
        assert_eq!(place.count("message").await, left, "before {before:?}");
        copy().await;
        assert_eq!(place.count("message").await, left, "before {before:?}, and later");
        assert!(place.store.delete(&"moved".into()).await.unwrap());
        assert_eq!(place.count("message").await, 0);
    }
}

/// Slots lie by a hash of their names. Of two that share a place the first one has it.
async fn a_slot_that_would_lie_where_another_one_does_is_refused() {
    let place = place().await;
    let memory = place.store.memory("slots").unwrap();
    memory.set_slot("summary", "x", Expected::Any).await.unwrap();
    // Nobody has found two such names yet.
    place
        .run(
            "UPDATE {}.conversation SET name = 'another'
            WHERE id = 'slots' AND position = -6646608006195182317 IF EXISTS",
        )
        .await;
    assert!(memory.slot("summary").await.unwrap().is_none());
    let error = memory.set_slot("summary", "y", Expected::Any).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "append: cassandra: another slot lies where \"summary\" would");
    assert_eq!(memory.slots().await.unwrap()[0].0, "another");
}

async fn a_keyspace_of_a_later_version_is_refused_and_left_alone() {
    let session = session(&NODE.address).await;
    for cql in [
        "CREATE KEYSPACE later WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        "CREATE TABLE later.layout (name text PRIMARY KEY, version int)",
        "INSERT INTO later.layout (name, version) VALUES ('memory-prompt', 2)",
    ] {
        session.query_unpaged(cql, ()).await.unwrap();
    }
    let open = CassandraStore::options().keyspace("later").open(&NODE.address).await;
    let error = open.unwrap_err();
    failed(
        &error,
        "open: cassandra: the keyspace later is of version 2, and this program knows versions up to 1",
    );
    let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'later'";
    let tables = session.query_unpaged(tables, ()).await.unwrap().into_rows_result().unwrap();
    assert_eq!(tables.single_row::<(String,)>().unwrap().0, "layout");
}

async fn a_new_keyspace_may_be_opened_by_many_at_once() {
    let options = CassandraStore::options().keyspace("Many").timeout(PATIENCE);
    let open = |_| options.clone().open(NODE.address.as_str());
    for (i, store) in (0..).zip(end(begin(4, open)).await) {
        let memory = store.unwrap().memory("one").unwrap();
        assert_eq!(memory.add(Message::user("hi")).await.unwrap(), i);
    }
}

/// The story: one machine's clock was years ahead, and its append dated those of all others, since
/// each message got the latest time of its conversation; later only the activity stayed in 2100,
/// and no purge ever came by. Now the node that takes an append dates it.
async fn a_client_with_a_wrong_clock_dates_no_message_of_others() {
    let place = place().await;
    let memory = place.store.memory("clock").unwrap();
    memory.add(Message::user("before")).await.unwrap();
    place
        .run(
            "UPDATE {}.conversation SET active = '2100-01-01'
            WHERE id = 'clock' AND position = 9223372036854775807 IF EXISTS",
        )
        .await;
    memory.add(Message::user("after")).await.unwrap();
    let soon = SystemTime::now() + Duration::from_secs(60);
    assert!(memory.all().await.unwrap().iter().all(|record| record.appended_at() < soon));
    let told = place.store.info(&"clock".into()).await.unwrap().unwrap();
    assert!(told.active < soon, "{told:?}");
    // What is evicted or moved is no activity.
    memory.evict(1).await.unwrap();
    assert_eq!(place.store.info(&"clock".into()).await.unwrap().unwrap().active, told.active);
    assert_eq!(place.store.purge_inactive(soon).await.unwrap(), 1);
}

/// No time of a client goes to the server unless somebody gave it: the statements say who reads a
/// clock.
#[test]
fn an_append_reads_no_clock_of_its_own() {
    for file in ["append", "ask", "attempts", "change", "connect", "forget", "read", "rows", "tidy"]
    {
        let path = format!("{}/src/store/cassandra/{file}.rs", env!("CARGO_MANIFEST_DIR"));
        assert!(!std::fs::read_to_string(path).unwrap().contains("SystemTime::now"), "{file}.rs");
    }
}

/// More than the server takes at once is refused before anything is done.
async fn what_is_too_large_for_one_batch_changes_nothing() {
    let place = place().await;
    let memory = place.store.memory("large").unwrap();
    memory.add_all(numbers(0, 1)).await.unwrap();
    let most = memory.limits().batch;
    assert_eq!((most, memory.limits().slot, memory.limits().message), (8 << 20, most, most));
    let text = |bytes: usize| Message::user("x".repeat(bytes));
    let half = || Append::new([text(most / 2)]);
    for (large, words) in [
        (Append::new([text(most), Message::user("small")]), "8388608 are the most"),
        (Append::new([text(most / 2), text(most / 2)]), "8388608 are the most"),
        (Append::new([Message::system("x".repeat(most))]), "8388608 are the most"),
        (half().set_slot("a", vec![0; most / 2], Expected::Any), "8388608 are the most"),
        (half().set_slot("a", vec![0; most + 1], Expected::Any), "and may have 8388608"),
        (Append::new(numbers(0, 60_000)), "60000 messages and slots at once; 55188 are the most"),
    ] {
        let mut append = large.clone();
        let error = memory.append_with(&mut append).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(words), "{error}");
        assert!(append.messages == large.messages, "the batch stays with the caller");
        if large.slots.is_empty() {
            let mut batch = large.messages.clone();
            let error = memory.append(&mut batch, None).await.unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert!(batch == large.messages);
        }
    }
    assert_eq!(memory.next_position().await.unwrap(), 1);
    // As much as it takes, it takes: of messages, and of one.
    memory.add_all(numbers(1, 55_000)).await.unwrap();
    memory.add(text(most - 1000)).await.unwrap();
    let read = memory.read(None, 3).await.unwrap();
    assert_eq!((read.records.len(), read.end), (3, 55_002));

    // Who says that the server takes more than it does, hears of it from the server.
    let more = CassandraStore::options().keyspace(&place.keyspace.0).largest_batch(64 << 20);
    let more = more.over(Arc::clone(&place.session)).await.unwrap().memory("large").unwrap();
    let mut batch = vec![text(20 << 20)];
    let error = more.append(&mut batch, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().starts_with("append: cassandra: Request is too big: "), "{error}");
    assert_eq!((batch.len(), more.next_position().await.unwrap()), (1, 55_002));
}

/// What each operation asks the server, by the server's own count: a turn is three requests, and
/// ids, slots and times come along.
async fn a_turn_is_three_requests() {
    let place = place().await;
    let name = format!("counted {}", place.keyspace.0);
    let identity = SelfIdentity::new().with_application_name(name.clone());
    let counted = SessionBuilder::new().known_node(&NODE.address).custom_identity(identity);
    let counted = Arc::new(counted.build().await.unwrap());
    let options = CassandraStore::options().keyspace(&place.keyspace.0);
    let store = options.over(counted).await.unwrap();
    let requests = || async {
        let select = "SELECT client_options, request_count FROM system_views.clients";
        let rows = place.select(select).await;
        let mut sum = 0;
        for row in rows.rows::<(Option<HashMap<String, String>>, i64)>().unwrap() {
            let (options, count) = row.unwrap();
            let is = options.is_some_and(|it| it.get("APPLICATION_NAME") == Some(&name));
            sum += if is { count } else { 0 };
        }
        assert!(sum > 0, "the server counts");
        sum
    };
    // The driver asks for itself now and then: the fewest of some tries count.
    let mut fewest = [i64::MAX; 8];
    for number in 0..3 {
        let id = MemoryId::from(format!("turns {number}"));
        let memory = store.memory(id.clone()).unwrap();
        memory.add_all(numbers(0, 2)).await.unwrap();
        let (mut before, mut found) = (requests().await, Vec::new());
        let mut count = async || {
            let now = requests().await;
            found.push(now - std::mem::replace(&mut before, now));
        };
        count().await;
        memory.read(None, 10).await.unwrap();
        count().await;
        memory.append(&mut numbers(2, 2), Some(2)).await.unwrap();
        count().await;
        let at = SystemTime::UNIX_EPOCH;
        let mut append = Append::new(numbers(4, 2)).with_id("turn").with_times([at; 2]);
        append = append.set_slot("a", "x", Expected::Absent).set_slot("b", "x", Expected::Any);
        memory.append_with(&mut append.clone()).await.unwrap();
        count().await;
        assert!(memory.append_with(&mut append).await.unwrap().repeated);
        count().await;
        let read = Read::newest(10).slots(["a", "b"]).positions([0, 3]);
        let read = memory.read_with(&read).await.unwrap();
        assert_eq!((read.slots().len(), read.picked().len(), read.records.len()), (2, 2, 6));
        count().await;
        memory.slots().await.unwrap();
        count().await;
        store.info(&id).await.unwrap();
        count().await;
        fewest = std::array::from_fn(|place| fewest[place].min(found[place]));
    }
    // Nothing, a read, an append, one with an id, slots and times, its repetition, a read of
    // slots and single records (two at the same time), the names of slots, and info.
    assert_eq!(fewest, [0, 1, 2, 2, 1, 2, 1, 1]);
}

crate::tests! { wait:
    #[ignore = "needs Apache Cassandra"]
    a_long_conversation_is_a_list,
    ids_with_one_token_are_listed_once_each,
    an_id_may_be_as_long_as_a_key,
    any_codec_is_read_whatever_is_configured,
    a_row_that_is_gone_is_reported_and_hides_no_other,
    a_deletion_that_was_broken_off_is_done_to_an_end,
    an_eviction_that_was_broken_off_is_done_to_an_end,
    what_is_moved_while_it_is_forgotten_is_not_kept,
    a_slot_that_would_lie_where_another_one_does_is_refused,
    a_keyspace_of_a_later_version_is_refused_and_left_alone,
    a_new_keyspace_may_be_opened_by_many_at_once,
    a_client_with_a_wrong_clock_dates_no_message_of_others,
    what_is_too_large_for_one_batch_changes_nothing,
    a_turn_is_three_requests;
}
