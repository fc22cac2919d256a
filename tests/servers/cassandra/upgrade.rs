//! Tables of version 1, with data in them, which the store brings up to date.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use memory_prompt::codec::Codec;
use memory_prompt::memory::{Append, Expected, Read};
use memory_prompt::record::Slot;
use memory_prompt::store::cassandra::driver::client::session::Session;
use memory_prompt::store::cassandra::driver::value::CqlTimestamp;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, CassandraStore, Message,
};
use uuid::Uuid;

use super::{NODE, session, wait};

/// As version 1 created them.
const TABLES: [&str; 4] = [
    r#"CREATE TABLE IF NOT EXISTS {}.conversation (
        id text,
        seq bigint,
        -- the head, at seq 2^63 - 1
        version uuid,
        log uuid,
        start bigint,
        "end" bigint,
        sealed bigint,
        large frozen<tuple<uuid, bigint, bigint>>,
        active timestamp,
        system blob,
        -- a message
        at timestamp,
        payload blob,
        attempt uuid,
        PRIMARY KEY (id, seq)
    ) WITH CLUSTERING ORDER BY (seq DESC)"#,
    "CREATE TABLE IF NOT EXISTS {}.message (
        log uuid,
        bucket bigint,
        seq bigint,
        at timestamp,
        payload blob,
        PRIMARY KEY ((log, bucket), seq)
    ) WITH CLUSTERING ORDER BY (seq DESC)",
    "CREATE TABLE IF NOT EXISTS {}.garbage (
        note uuid PRIMARY KEY,
        id text,
        log uuid,
        first bigint,
        past bigint,
        noted timestamp
    )",
    "CREATE TABLE IF NOT EXISTS {}.layout (name text PRIMARY KEY, version int)",
];

const HEAD: &str = r#"INSERT INTO {}.conversation
    (id, seq, version, log, start, "end", sealed, large, active, system)
    VALUES (?, 9223372036854775807, ?, ?, ?, ?, ?, ?, ?, ?) IF NOT EXISTS"#;

struct Old {
    session: Session,
    keyspace: &'static str,
}

const AT: i64 = 1_714_557_600_123;

fn payload(text: i64) -> Vec<u8> {
    Codec::Json.encode(&Message::user(text.to_string())).unwrap()
}

impl Old {
    async fn new(keyspace: &'static str) -> Self {
        let old = Self { session: session(&NODE.address).await, keyspace };
        old.run(
            "CREATE KEYSPACE {} WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
        )
        .await;
        for table in TABLES {
            old.run(table).await;
        }
        old.run("INSERT INTO {}.layout (name, version) VALUES ('memory-prompt', 1)").await;
        old
    }

    fn cql(&self, text: &str) -> String {
        text.replace("{}", self.keyspace)
    }

    async fn run(&self, text: &str) {
        self.session.query_unpaged(self.cql(text), ()).await.unwrap();
    }

    /// A conversation whose messages are their positions: those before `sealed` lie in buckets.
    async fn conversation(&self, id: &str, log: Uuid, start: i64, sealed: i64, end: i64) {
        let large = None::<(Uuid, i64, i64)>;
        let system = Codec::Json.encode(&Message::system("Be brief.")).unwrap();
        let values = (id, Uuid::new_v4(), log, start, end, sealed, large, CqlTimestamp(AT), system);
        self.session.query_unpaged(self.cql(HEAD), values).await.unwrap();
        for seq in start..sealed {
            self.put(log, seq, seq).await;
        }
        let keep = "INSERT INTO {}.conversation (id, seq, at, payload, attempt)
            VALUES (?, ?, ?, ?, ?) IF NOT EXISTS";
        let keep = self.session.prepare(self.cql(keep)).await.unwrap();
        for seq in start.max(sealed)..end {
            let attempt = Some(Uuid::new_v4()).filter(|_| seq % 2 == 0);
            let values = (id, seq, CqlTimestamp(AT), payload(seq), attempt);
            self.session.execute_unpaged(&keep, values).await.unwrap();
        }
    }

    /// A message in a bucket of a log.
    async fn put(&self, log: Uuid, seq: i64, text: i64) {
        let put = "INSERT INTO {}.message (log, bucket, seq, at, payload)
            VALUES (?, ?, ?, ?, ?) USING TIMESTAMP 1";
        let values = (log, seq / 500, seq, CqlTimestamp(AT), payload(text));
        self.session.query_unpaged(self.cql(put), values).await.unwrap();
    }

    /// A batch that was appended at `first` and lies aside.
    async fn aside(&self, id: &str, first: i64, count: i64) -> Uuid {
        let log = Uuid::new_v4();
        for seq in 0..count {
            self.put(log, seq, first + seq).await;
        }
        let set = r#"UPDATE {}.conversation SET large = ?, "end" = ?
            WHERE id = ? AND seq = 9223372036854775807 IF EXISTS"#;
        let values = ((log, first, first + count), first + count, id);
        self.session.query_unpaged(self.cql(set), values).await.unwrap();
        log
    }

    async fn note(&self, id: &str, log: Uuid, past: i64) {
        let note = "INSERT INTO {}.garbage (note, id, log, first, past, noted)
            VALUES (?, ?, ?, 0, ?, ?)";
        let values = (Uuid::new_v4(), id, log, past, CqlTimestamp(AT));
        self.session.query_unpaged(self.cql(note), values).await.unwrap();
    }

    async fn tables(&self) -> Vec<String> {
        let select = "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?";
        let rows = self.session.query_unpaged(select, (self.keyspace,)).await.unwrap();
        let rows = rows.into_rows_result().unwrap();
        rows.rows::<(String,)>().unwrap().map(|row| row.unwrap().0).collect()
    }

    async fn count(&self, table: &str, of: &str) -> i64 {
        let select = format!("SELECT count(*) FROM {}.{table} {of}", self.keyspace);
        let rows = self.session.query_unpaged(select, ()).await.unwrap().into_rows_result();
        rows.unwrap().single_row::<(i64,)>().unwrap().0
    }
}

/// Everything that was there is there, and what is new can be done with it. Two do it at once.
#[test]
#[ignore = "needs Apache Cassandra"]
fn tables_of_version_1_are_brought_up_to_date() {
    wait(async {
        let old = Old::new("version_1").await;
        let log = Uuid::new_v4();
        old.conversation("long", log, 300, 1000, 1300).await;
        old.conversation("short", Uuid::new_v4(), 0, 0, 4).await;
        old.conversation("aside", Uuid::new_v4(), 3, 0, 10).await;
        let batch = old.aside("aside", 10, 1200).await;
        // An eviction that did not happen after all, and a conversation that is no more.
        old.note("long", log, 1).await;
        let dead = Uuid::new_v4();
        old.put(dead, 7, 7).await;
        old.note("dead", dead, 1).await;
        // Somebody who still runs with version 1.
        let select = old.cql("SELECT version, large FROM {}.conversation WHERE id = ? LIMIT 1");
        let select = old.session.prepare(select).await.unwrap();
        old.session.execute_unpaged(&select, ("long",)).await.unwrap();

        let open = || {
            let options = CassandraStore::options().keyspace(old.keyspace);
            tokio::spawn(options.open(NODE.address.as_str()))
        };
        let (one, two) = (open(), open());
        let (store, _) = (one.await.unwrap().unwrap(), two.await.unwrap().unwrap());

        let refused = old.session.execute_unpaged(&select, ("long",)).await.unwrap_err();
        assert!(refused.to_string().contains("large"), "{refused}");
        assert_eq!(
            old.count("layout", "WHERE name = 'memory-prompt' AND version = 2 ALLOW FILTERING")
                .await,
            1
        );
        assert_eq!(old.tables().await, ["conversation", "layout", "message"]);
        for log in [batch, dead] {
            for bucket in 0..3 {
                let of = format!("WHERE log = {log} AND bucket = {bucket}");
                assert_eq!(old.count("message", &of).await, 0);
            }
        }
        let mut incarnations = HashSet::new();
        for (id, start, end) in [("long", 300, 1300), ("short", 0, 4), ("aside", 3, 1210)] {
            let memory = store.memory(id).unwrap();
            let info = store.info(&id.into()).await.unwrap().unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_millis(AT.unsigned_abs());
            assert_eq!((info.start, info.end, info.active), (start, end, at));
            assert!(incarnations.insert(info.incarnation.unwrap()));
            let all = memory.all().await.unwrap();
            let found = all.iter().map(|it| (it.seq(), it.message().text().into_owned()));
            assert!(found.eq((start..end).map(|seq| (seq, seq.to_string()))), "{id}");
            assert!(all.iter().all(|record| record.appended_at() == at));
            let system = memory.system().await.unwrap();
            assert_eq!(system.as_deref(), Some(&Message::system("Be brief.")));
            assert!(memory.slots().await.unwrap().is_empty());

            let turn = || {
                let turn = Append::new([Message::user(end.to_string())]).with_id("turn");
                turn.set_slot("a", "x", Expected::Absent).expecting(end)
            };
            let first = memory.append_with(&mut turn()).await.unwrap();
            assert_eq!((first.positions.clone(), first.repeated), (end..end + 1, false));
            let again = memory.append_with(&mut turn()).await.unwrap();
            assert_eq!((again.positions, again.repeated), (end..end + 1, true));
            let read = Read::newest(2).slots(["a"]).positions([start, end - 3]);
            let read = memory.read_with(&read).await.unwrap();
            assert_eq!(read.incarnation, info.incarnation);
            assert_eq!(read.slot("a").map(Slot::version), first.version);
            assert_eq!(read.picked().len(), 2);
            assert_eq!(memory.evict(end).await.unwrap(), end - start);
            assert!(store.delete(&id.into()).await.unwrap());
        }
        assert_eq!((old.count("conversation", "").await, old.count("message", "").await), (0, 0));
    });
}
