//! Tables of before: upgraded with what is in them, once, and refused where that can't be.

use std::collections::HashSet;
use std::time::{Duration, UNIX_EPOCH};

use memory_prompt::conformance::{AsyncFixture, AsyncStoreFixture};
use memory_prompt::memory::{Append, Read};

use super::*;

/// What version 1 of the tables was created with, in a schema of this name.
const VERSION_1: &str = r#"
CREATE SCHEMA "SCHEMA";
CREATE TABLE "SCHEMA"."memory_prompt" (version integer NOT NULL);
INSERT INTO "SCHEMA"."memory_prompt" VALUES (0);
CREATE TABLE "SCHEMA"."conversation" (
    key     uuid PRIMARY KEY,
    start   bigint NOT NULL,
    "end"   bigint NOT NULL,
    active  bigint NOT NULL,
    id      bytea NOT NULL
)
WITH (fillfactor = 70);
CREATE TABLE "SCHEMA"."message" (
    conversation uuid NOT NULL,
    seq          bigint NOT NULL,
    at           bigint NOT NULL,
    payload      bytea NOT NULL,
    PRIMARY KEY (conversation, seq)
);
CREATE VIEW "SCHEMA"."history" AS
SELECT c.key,
       CASE WHEN position(decode('00', 'hex') IN c.id) = 0
            THEN convert_from(c.id, 'UTF8') ELSE encode(c.id, 'escape') END AS id,
       m.seq,
       to_timestamp(m.at / 1000.0) AS at,
       CASE WHEN substr(m.payload, 1, 1) <> decode('b1', 'hex')
            THEN convert_from(m.payload, 'UTF8')::json END AS payload
FROM "SCHEMA"."conversation" AS c
JOIN "SCHEMA"."message" AS m ON m.conversation = c.key;
UPDATE "SCHEMA"."memory_prompt" SET version = 1;
"#;

/// What version 1 appended with.
const APPEND_1: &str = r#"
WITH extended AS (
    INSERT INTO "SCHEMA".conversation AS c (key, start, "end", active, id)
    VALUES (encode(substr(sha256($1), 1, 16), 'hex')::uuid, 0, cardinality($3), $2, $1)
    ON CONFLICT (key) DO UPDATE
    SET "end" = c."end" + excluded."end", active = greatest(c.active, excluded.active)
    WHERE $5 IS NULL OR c."end" = $5
    RETURNING key, "end"
), system AS (
    INSERT INTO "SCHEMA".message AS m (conversation, seq, at, payload)
    SELECT key, -1, $2, $4 FROM extended WHERE $4 IS NOT NULL
    ON CONFLICT (conversation, seq) DO UPDATE SET at = excluded.at, payload = excluded.payload
), messages AS (
    INSERT INTO "SCHEMA".message (conversation, seq, at, payload)
    SELECT key, "end" - cardinality($3) + i - 1, $2, payload
    FROM extended, unnest($3) WITH ORDINALITY AS batch (payload, i)
)
SELECT "end" FROM extended"#;

/// Tables of version 1 in a schema of their own, and somebody who appends to them as version 1 did.
struct Before {
    schema: String,
    somebody: Client,
}

impl Before {
    async fn new() -> Self {
        let schema = format!("before {}", MemoryId::random());
        let somebody = connect(&SHARED.address()).await;
        somebody
            .batch_execute(&VERSION_1.replace("\"SCHEMA\"", &format!("\"{schema}\"")))
            .await
            .unwrap();
        Self { schema, somebody }
    }

    async fn append(
        &self,
        id: &str,
        at: i64,
        batch: &[Message],
        system: Option<Message>,
        codec: Codec,
    ) -> std::result::Result<i64, tokio_postgres::Error> {
        use tokio_postgres::types::Type;
        let batch: Vec<_> = batch.iter().map(|message| codec.encode(message).unwrap()).collect();
        let system = system.map(|message| codec.encode(&message).unwrap());
        let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
            (&id.as_bytes(), Type::BYTEA),
            (&at, Type::INT8),
            (&batch, Type::BYTEA_ARRAY),
            (&system, Type::BYTEA),
            (&None::<i64>, Type::INT8),
        ];
        let append = APPEND_1.replace("\"SCHEMA\"", &format!("\"{}\"", self.schema));
        let rows = self.somebody.query_typed(&append, &parameters).await?;
        Ok(rows[0].get(0))
    }

    async fn version(&self) -> i32 {
        let version = format!("SELECT version FROM \"{}\".memory_prompt", self.schema);
        self.somebody.query_one(&version, &[]).await.unwrap().get(0)
    }
}

/// Everything that version 1 wrote is there, and all that is new can be done with it.
#[test]
#[ignore = "needs PostgreSQL"]
fn tables_of_before_are_upgraded_with_what_is_in_them() {
    block_on(async {
        let before = Before::new().await;
        let long = "🦀".repeat(1000); // more than an index can hold
        let ids = ["plain", "a\0b", "", long.as_str()];
        let then = 1_714_557_600_123;
        for (i, id) in ids.iter().enumerate() {
            let codec = if i % 2 == 0 { Codec::Json } else { Codec::Bincode };
            let batch = ["0", "1", "2"].map(Message::user);
            let system = Some(Message::system("Be brief."));
            before.append(id, then, &batch, system, codec).await.unwrap();
            before.append(id, then + 1, &[Message::ai("3")], None, codec).await.unwrap();
        }
        let evict = format!(
            "UPDATE \"{0}\".conversation SET start = 2 WHERE id = 'plain';
             DELETE FROM \"{0}\".message WHERE seq IN (0, 1) AND conversation =
             (SELECT key FROM \"{0}\".conversation WHERE id = 'plain')",
            before.schema
        );
        before.somebody.batch_execute(&evict).await.unwrap();

        let store = options(&before.schema).open(SHARED.address()).await.unwrap();
        assert_eq!(before.version().await, 2);
        let mut incarnations = HashSet::new();
        for id in ids {
            let memory = store.memory(id).unwrap();
            let snapshot = memory.read(None, usize::MAX).await.unwrap();
            let start = if id == "plain" { 2 } else { 0 };
            assert_eq!((snapshot.start, snapshot.end), (start, 4), "{id:?}");
            assert_eq!(snapshot.system.as_deref(), Some(&Message::system("Be brief.")));
            let expected: Vec<_> = (start..4).map(|i| i.to_string()).collect();
            assert_eq!(all_texts(&memory).await, expected);
            let last = snapshot.records.last().unwrap();
            assert_eq!(last.appended_at(), UNIX_EPOCH + Duration::from_millis(1_714_557_600_124));
            assert!(incarnations.insert(snapshot.incarnation.unwrap()), "each has its own");
            let info = store.info(&id.into()).await.unwrap().unwrap();
            assert_eq!((info.start, info.end), (start, 4));
            assert_eq!(info.incarnation, snapshot.incarnation);
            assert_eq!(info.active, last.appended_at());

            let turn = || {
                let turn = Append::new([Message::user("4")]).with_id("turn").expecting(4);
                turn.set_slot("a", "x", Expected::Absent).since(&snapshot)
            };
            assert_eq!(memory.append_with(&mut turn()).await.unwrap().positions, 4..5);
            assert!(memory.append_with(&mut turn()).await.unwrap().repeated);
            let read = Read::newest(1).slots(["a"]).positions([2]);
            let read = memory.read_with(&read).await.unwrap();
            assert_eq!(read.slot("a").and_then(|slot| slot.text()), Some("x"));
            assert_eq!(read.picked().len(), 1);
        }
        let mut listed = store.ids(None, 10).await.unwrap();
        listed.sort();
        let mut expected = ids.map(MemoryId::from);
        expected.sort();
        assert_eq!(listed, expected);
        assert_eq!(store.ids_with_prefix("🦀", None, 10).await.unwrap(), [long.as_str().into()]);
        for id in ids {
            assert!(store.delete(&id.into()).await.unwrap());
        }
    });
}

/// A process of before that still runs is refused, not obeyed by half: what it appended would have
/// no incarnation.
#[test]
#[ignore = "needs PostgreSQL"]
fn a_process_of_before_appends_nothing_to_upgraded_tables() {
    block_on(async {
        let before = Before::new().await;
        let hi = [Message::user("hi")];
        before.append("a", 1, &hi, None, Codec::Json).await.unwrap();
        let store = options(&before.schema).open(SHARED.address()).await.unwrap();
        for id in ["a", "b"] {
            let error = before.append(id, 1, &hi, None, Codec::Json).await.unwrap_err();
            assert!(error.as_db_error().unwrap().message().contains("incarnation"), "{error:?}");
        }
        assert_eq!(all_texts(&store.memory("a").unwrap()).await, ["hi"]);
        assert_eq!(store.ids(None, 10).await.unwrap(), ["a".into()]);
    });
}

/// Whoever opens tables of before at the same time upgrades them once, while others append.
#[test]
#[ignore = "needs PostgreSQL and pgbouncer"]
fn tables_that_several_upgrade_at_once_are_upgraded_once() {
    block_on(async {
        for _ in 0..5 {
            let before = Before::new().await;
            for id in ["a", "b"] {
                before.append(id, 1, &[Message::user("0")], None, Codec::Json).await.unwrap();
            }
            let addresses = [SHARED.address(), serializable(), address(POOLER.1)];
            let opened: Vec<_> = (0..9)
                .map(|i| {
                    let (options, address) = (options(&before.schema), addresses[i % 3].clone());
                    tokio::spawn(async move {
                        let store = options.open(address).await.unwrap();
                        let memory = store.memory("a").unwrap();
                        let seen = memory.read(None, 0).await.unwrap().incarnation;
                        (memory.add(Message::user("more")).await.unwrap(), seen)
                    })
                })
                .collect();
            // One of before that appends meanwhile is done or refused.
            let mut acknowledged = 0;
            for _ in 0..20 {
                let batch = [Message::user("old")];
                acknowledged +=
                    i64::from(before.append("b", 1, &batch, None, Codec::Json).await.is_ok());
            }
            let (mut positions, mut incarnations) = (Vec::new(), HashSet::new());
            for store in opened {
                let (position, incarnation) = store.await.unwrap();
                positions.push(position);
                incarnations.insert(incarnation.unwrap());
            }
            positions.sort_unstable();
            assert!(positions.into_iter().eq(1..10));
            assert_eq!(incarnations.len(), 1, "it was given once");
            assert_eq!(before.version().await, 2);
            let store = options(&before.schema).open(SHARED.address()).await.unwrap();
            let end = store.memory("b").unwrap().next_position().await.unwrap();
            assert_eq!(end, u64::try_from(acknowledged).unwrap() + 1);
        }
    });
}

/// Who may not upgrade is told so and by what it is done, and what it opens then is current.
#[test]
#[ignore = "needs PostgreSQL"]
fn who_may_not_upgrade_is_told_by_what_it_is_done() {
    block_on(async {
        let before = Before::new().await;
        let schema = &before.schema;
        let role = format!("r{}", MemoryId::random().as_str().replace('-', ""));
        let grant = format!(
            "CREATE ROLE {role} LOGIN;
             GRANT USAGE ON SCHEMA \"{schema}\" TO {role};
             GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA \"{schema}\" TO {role}"
        );
        before.somebody.batch_execute(&grant).await.unwrap();
        let address = format!("postgres://{role}@127.0.0.1:{}/postgres", SHARED.port);
        let error = options(schema).open(&address).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert_eq!(
            error.to_string(),
            "open: postgres: the tables are of version 1, and this role may not upgrade them \
             (`PostgresOptions::upgrade_sql` is what does): must be owner of table conversation (42501)"
        );
        assert_eq!(before.version().await, 1);
        let upgrade = options(schema).upgrade_sql(1).unwrap();
        before.somebody.batch_execute(&format!("BEGIN; {upgrade} COMMIT")).await.unwrap();
        let grant = grant.split_once("GRANT USAGE").unwrap().1;
        before.somebody.batch_execute(&format!("GRANT USAGE{grant}")).await.unwrap();
        let store = options(schema).open(&address).await.unwrap();
        store.memory("a").unwrap().add(Message::user("hi")).await.unwrap();
        assert_eq!(options(schema).upgrade_sql(2).unwrap(), "");
        assert_eq!(options(schema).upgrade_sql(3).unwrap_err().kind(), ErrorKind::Invalid);
    });
}

/// An upgrade that waits for somebody's lock gives up in time, leaves everything as it was, and
/// nobody waits behind it afterwards.
#[test]
#[ignore = "needs PostgreSQL"]
fn an_upgrade_that_waits_too_long_gives_up() {
    block_on(async {
        let mut before = Before::new().await;
        before.append("a", 1, &[Message::user("hi")], None, Codec::Json).await.unwrap();
        let schema = before.schema.clone();
        let lock = before.somebody.transaction().await.unwrap();
        lock.batch_execute(&format!("SELECT FROM \"{schema}\".conversation")).await.unwrap();
        let patience = Duration::from_secs(3);
        let error = options(&schema)
            .timeout(patience)
            .open(SHARED.address())
            .await
            .unwrap_err()
            .to_string();
        let late = "open: postgres: the tables were not upgraded within 3s: set a longer timeout";
        let lost = "open: postgres: canceling statement due to lock timeout (55P03)";
        assert!([late, lost].contains(&error.as_str()), "{error}");
        tokio::time::sleep(Duration::from_millis(200)).await;
        // Whoever waits for its lock would make everybody wait behind it.
        let other = connect(&SHARED.address()).await;
        let read = format!("SELECT FROM \"{schema}\".conversation");
        let read = other.query(&read, &[]);
        let answer = tokio::time::timeout(Duration::from_secs(10), read).await;
        assert_eq!(answer.unwrap().unwrap().len(), 1);
        lock.commit().await.unwrap();
        assert_eq!(before.version().await, 1);
        options(&schema).open(SHARED.address()).await.unwrap();
        assert_eq!(before.version().await, 2);
    });
}

/// A store whose tables another program upgraded does not write to them through a new connection.
#[test]
#[ignore = "needs PostgreSQL"]
fn the_version_is_looked_at_again_where_a_connection_is_opened() {
    block_on(async {
        let schema = format!("s{}", MemoryId::random());
        let fixture = Direct::at(SHARED.port, schema.clone()).await;
        let (store, memory) = (fixture.store(), fixture.memory("a"));
        memory.add(Message::user("before")).await.unwrap();
        let admin = connect(&SHARED.address()).await;
        let end_sessions = async || {
            let end = format!(
                "SELECT count(pg_terminate_backend(pid, 10000)) FROM pg_stat_activity
                 WHERE query LIKE '%{schema}%' AND pid <> pg_backend_pid()"
            );
            admin.batch_execute(&end).await.unwrap();
        };
        for (version, said) in [
            (3, "the tables are of version 3, and this program knows versions up to 2"),
            (1, "the tables are of version 1 now; open the store again"),
        ] {
            let set = format!("UPDATE \"{schema}\".memory_prompt SET version = {version}");
            admin.batch_execute(&set).await.unwrap();
            end_sessions().await;
            let mut batch = vec![Message::user("late")];
            for _ in 0..3 {
                let error = memory.append(&mut batch, None).await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Storage);
                assert_eq!(error.to_string(), format!("append: postgres: {said}"));
                assert_eq!(batch.len(), 1);
            }
            let error = store.ids(None, 1).await.unwrap_err();
            assert_eq!(error.to_string(), format!("ids: postgres: {said}"));
        }
        let set = format!("UPDATE \"{schema}\".memory_prompt SET version = 2");
        admin.batch_execute(&set).await.unwrap();
        memory.add(Message::user("after")).await.unwrap();
        assert_eq!(all_texts(&*memory).await, ["before", "after"]);
    });
}

/// An upgrade for which the time was up went on on the server for as long as it took, and kept
/// everybody from the tables meanwhile, though nobody would ever commit it. So did one whose future
/// was dropped.
#[test]
#[ignore = "needs PostgreSQL"]
fn an_upgrade_that_is_given_up_ends() {
    block_on(async {
        let database = format!("d{}", MemoryId::random().as_str().replace('-', ""));
        let admin = connect(&SHARED.address()).await;
        admin.batch_execute(&format!("CREATE DATABASE {database}")).await.unwrap();
        let address = format!("postgres://test@127.0.0.1:{}/{database}", SHARED.port);
        let somebody = connect(&address).await;
        somebody.batch_execute(&VERSION_1.replace("\"SCHEMA\"", "before")).await.unwrap();
        // An upgrade that takes a minute, as that of ten million conversations.
        let slow = "CREATE FUNCTION public.slow() RETURNS event_trigger LANGUAGE plpgsql
                    AS $$ BEGIN PERFORM pg_sleep(60); END $$;
                    CREATE EVENT TRIGGER slow ON ddl_command_end WHEN TAG IN ('ALTER TABLE')
                    EXECUTE FUNCTION public.slow()";
        somebody.batch_execute(slow).await.unwrap();
        let others = "SELECT count(*) FROM pg_stat_activity
                      WHERE datname = current_database() AND pid <> pg_backend_pid()";
        let options = PostgresStore::options().schema("before");
        for dropped in [false, true] {
            if dropped {
                let opening = options.clone().open(&address);
                let late = tokio::time::timeout(Duration::from_secs(3), opening).await;
                assert!(late.is_err(), "{late:?}");
            } else {
                let options = options.clone().timeout(Duration::from_secs(3));
                let error = options.open(&address).await.unwrap_err().to_string();
                assert!(error.contains("the tables were not upgraded within 3s"), "{error}");
            }
            let (began, mut left) = (Instant::now(), 1_i64);
            while left > 0 {
                assert!(began.elapsed() < Duration::from_secs(30), "dropped {dropped}: it goes on");
                tokio::time::sleep(Duration::from_millis(20)).await;
                left = somebody.query_one(others, &[]).await.unwrap().get(0);
            }
            println!("the server was done with it after {:?}", began.elapsed());
            let version = "SELECT version FROM before.memory_prompt";
            assert_eq!(somebody.query_one(version, &[]).await.unwrap().get::<_, i32>(0), 1);
        }
    });
}
