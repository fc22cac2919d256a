//! What is in the tables, and what is read from them.

use std::sync::Arc;
use std::time::SystemTime;

use memory_prompt::store::cassandra::scylla::client::session::Session;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, CassandraStore, Codec, ErrorKind,
    Message,
};

use super::{Keyspace, NODE, session, wait};

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

    async fn count(&self, table: &str) -> i64 {
        let select = format!("SELECT count(*) FROM {}.{table}", self.keyspace.0);
        let rows = self.session.query_unpaged(select, ()).await.unwrap().into_rows_result();
        rows.unwrap().single_row::<(i64,)>().unwrap().0
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
#[test]
#[ignore = "needs Apache Cassandra"]
fn a_long_conversation_is_a_list() {
    wait(async {
        let place = place().await;
        let memory = place.store.memory("long").unwrap();
        let mut dice = Dice(7);
        let (mut start, mut end) = (0, 0);
        for step in 0..120 {
            match dice.roll(10) {
                0..4 => {
                    // Some batches are so large that they are put aside first.
                    let count =
                        if dice.roll(6) == 0 { 1000 + dice.roll(900) } else { dice.roll(400) };
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
            let found = read.records.iter().map(|r| (r.seq(), r.message().text().into_owned()));
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
        for table in ["conversation", "message", "garbage"] {
            assert_eq!(place.count(table).await, 0, "{table}");
        }
    });
}

/// Two conversations may lie at the same place in the ring: the hash is not a secret one, and whoever
/// wants to can find such ids.
#[test]
#[ignore = "needs Apache Cassandra"]
fn ids_with_one_token_are_listed_once_each() {
    let ids = [
        "support:u1001:c2002,32 bytes lon",
        "same:806jgo1x68kw3e!%0'A\u{1a}~ \u{12}\n&L`",
        "same:s45g6idvq17\u{f}\u{6}\u{1e}mo0m0k\t\n#@\u{c},Q",
    ];
    wait(async {
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
        let tomorrow = SystemTime::now() + std::time::Duration::from_hours(24);
        assert_eq!(place.store.purge_inactive(tomorrow).await.unwrap(), 5);
    });
}

#[test]
#[ignore = "needs Apache Cassandra"]
fn an_id_may_be_as_long_as_a_key() {
    wait(async {
        let place = place().await;
        let longest = "x".repeat(65_534);
        place.store.memory(longest.as_str()).unwrap().add(Message::user("hi")).await.unwrap();
        assert_eq!(place.store.ids(None, 2).await.unwrap(), [longest.as_str().into()]);
        let error = place.store.memory(format!("{longest}x")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(
            error.to_string(),
            "memory: cassandra: an id of 65535 bytes; 65534 are the most"
        );
    });
}

#[test]
#[ignore = "needs Apache Cassandra"]
fn any_codec_is_read_whatever_is_configured() {
    wait(async {
        let place = place().await;
        let compact = CassandraStore::options().codec(Codec::Bincode).keyspace(&place.keyspace.0);
        let compact = compact.over(Arc::clone(&place.session)).await.unwrap();
        let (json, bincode) =
            (place.store.memory("both").unwrap(), compact.memory("both").unwrap());
        json.add(Message::system("Be brief.")).await.unwrap();
        json.add_all(numbers(0, 2)).await.unwrap();
        bincode.add_all(numbers(2, 2)).await.unwrap();
        for memory in [json, bincode] {
            let all = memory.all().await.unwrap();
            assert!(all.messages().eq(&numbers(0, 4)));
            assert_eq!(
                memory.system().await.unwrap().as_deref(),
                Some(&Message::system("Be brief."))
            );
        }
    });
}

/// A row that somebody else has removed is missed, wherever it lay.
#[test]
#[ignore = "needs Apache Cassandra"]
fn a_row_that_is_gone_is_reported_and_hides_no_other() {
    wait(async {
        let place = place().await;
        let memory = place.store.memory("holes").unwrap();
        memory.add_all(numbers(0, 1000)).await.unwrap();
        memory.add_all(numbers(1000, 1000)).await.unwrap();
        let mut logs = place
            .session
            .query_unpaged(
                format!("SELECT log, bucket FROM {}.message LIMIT 1", place.keyspace.0),
                (),
            )
            .await
            .unwrap()
            .into_rows_result()
            .unwrap();
        let (log, _) = logs.single_row::<(uuid::Uuid, i64)>().unwrap();
        logs = place
            .session
            .query_unpaged(
                format!(
                    "SELECT log FROM {}.conversation WHERE id = 'holes' LIMIT 1",
                    place.keyspace.0
                ),
                (),
            )
            .await
            .unwrap()
            .into_rows_result()
            .unwrap();
        assert_eq!(logs.single_row::<(uuid::Uuid,)>().unwrap().0, log);
        place
            .run(&format!(
                "DELETE FROM {{}}.message WHERE log = {log} AND bucket = 1 AND seq = 700"
            ))
            .await;
        place.run("DELETE FROM {}.conversation WHERE id = 'holes' AND seq = 1999 IF EXISTS").await;
        let read = memory.read(None, usize::MAX).await.unwrap();
        assert_eq!(read.records.len(), 1998);
        assert_eq!(read.unreadable.iter().map(|row| row.seq).collect::<Vec<_>>(), [700, 1999]);
        assert_eq!(
            read.unreadable[0].error.to_string(),
            "read: cassandra: the row is gone, and nobody has evicted it"
        );
    });
}

/// What somebody left behind who died is removed by a purge, an hour later; what is in use is not.
#[test]
#[ignore = "needs Apache Cassandra"]
fn a_purge_removes_what_the_dead_have_left() {
    wait(async {
        let place = place().await;
        let memory = place.store.memory("alive").unwrap();
        memory.add_all(numbers(0, 1000)).await.unwrap();
        memory.add_all(numbers(1000, 1000)).await.unwrap();
        let sealed = place.count("message").await;
        assert!(sealed >= 1000);
        // A large batch that was put aside and never appended, a conversation that was deleted, and an
        // eviction that did not happen after all.
        for (note, id, log, noted) in [
            (
                "00000000-0000-4000-8000-000000000001",
                "dead",
                "00000000-0000-4000-8000-00000000000a",
                1000,
            ),
            (
                "00000000-0000-4000-8000-000000000002",
                "alive",
                "00000000-0000-4000-8000-00000000000b",
                1000,
            ),
        ] {
            place
                .run(&format!(
                    "INSERT INTO {{}}.garbage (note, id, log, first, past, noted)
                VALUES ({note}, '{id}', {log}, 0, 3, {noted})"
                ))
                .await;
            for bucket in 0..3 {
                place
                    .run(&format!(
                        "INSERT INTO {{}}.message (log, bucket, seq, at, payload)
                    VALUES ({log}, {bucket}, {}, 0, 0x00) USING TIMESTAMP 1",
                        bucket * 500
                    ))
                    .await;
            }
        }
        let own = "SELECT log FROM {}.conversation WHERE id = 'alive' LIMIT 1";
        let own =
            place.session.query_unpaged(own.replace("{}", &place.keyspace.0), ()).await.unwrap();
        let own = own.into_rows_result().unwrap().single_row::<(uuid::Uuid,)>().unwrap().0;
        place
            .run(&format!(
                "INSERT INTO {{}}.garbage (note, id, log, first, past, noted)
            VALUES (00000000-0000-4000-8000-000000000003, 'alive', {own}, 0, 2, 1000)"
            ))
            .await;
        place
            .run(&format!(
                "INSERT INTO {{}}.garbage (note, id, log, first, past, noted)
            VALUES (00000000-0000-4000-8000-000000000004, 'alive', {own}, 0, 2, {})",
                SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis()
            ))
            .await;

        assert_eq!(place.store.purge_inactive(SystemTime::UNIX_EPOCH).await.unwrap(), 0);
        assert_eq!(place.count("garbage").await, 1, "what is young may be somebody's work");
        assert_eq!(place.count("message").await, sealed);
        assert_eq!(memory.all().await.unwrap().len(), 2000);
        place.run("TRUNCATE {}.garbage").await;
    });
}

#[test]
#[ignore = "needs Apache Cassandra"]
fn a_keyspace_of_a_later_version_is_refused_and_left_alone() {
    wait(async {
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
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert_eq!(
            error.to_string(),
            "open: cassandra: the keyspace later is of version 2, and this program knows versions up to 1"
        );
        let tables = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = 'later'";
        let tables = session.query_unpaged(tables, ()).await.unwrap().into_rows_result().unwrap();
        assert_eq!(tables.single_row::<(String,)>().unwrap().0, "layout");
    });
}

#[test]
#[ignore = "needs Apache Cassandra"]
fn a_new_keyspace_may_be_opened_by_many_at_once() {
    wait(async {
        let opened: Vec<_> = (0..4)
            .map(|_| {
                let options = CassandraStore::options().keyspace("Many");
                tokio::spawn(options.open(NODE.address.as_str()))
            })
            .collect();
        for (i, store) in (0..).zip(opened) {
            let memory = store.await.unwrap().unwrap().memory("one").unwrap();
            assert_eq!(memory.add(Message::user("hi")).await.unwrap(), i);
        }
    });
}

#[test]
#[ignore = "needs Apache Cassandra"]
fn a_message_that_the_server_refuses_changes_nothing() {
    wait(async {
        let place = place().await;
        let memory = place.store.memory("large").unwrap();
        memory.add_all(numbers(0, 1)).await.unwrap();
        let large = vec![Message::user("x".repeat(20 << 20)), Message::user("small")];
        let mut batch = large.clone();
        let error = memory.append(&mut batch, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(
            error.to_string().starts_with("append: cassandra: Request is too big: "),
            "{error}"
        );
        assert!(batch == large, "the batch stays with the caller");
        assert_eq!(memory.end().await.unwrap(), 1);
        assert_eq!((place.count("message").await, place.count("garbage").await), (0, 0));
        let mut system = vec![Message::system("x".repeat(5 << 20))];
        let error = memory.append(&mut system, None).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().ends_with("4194304 are the most"), "{error}");
        memory.add_all(numbers(1, 1)).await.unwrap();
        assert!(memory.all().await.unwrap().messages().eq(&numbers(0, 2)));
    });
}
