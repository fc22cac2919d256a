//! PostgreSQL beside the same rows written and read by prepared statements by hand. It needs a
//! server, whose address is `MEMORY_PROMPT_POSTGRES`.

use std::cell::Cell;
use std::env;

use memory_prompt::codec::{self, Codec};
use memory_prompt::store::postgres::driver::tokio_postgres::NoTls;
use memory_prompt::store::postgres::driver::{Manager, Pool};
use memory_prompt::{AsyncChatMemory, PostgresStore};

use crate::callers::{TURNS, on_all, runtime};
use crate::harness::{Claims, Pace};
use crate::messages::message;

const CONNECTIONS: usize = 10;
const CLAIM: &str = "PostgreSQL: 64 callers / bare prepared statements, turns a second";

const TABLE: &str = "DROP TABLE IF EXISTS memory_prompt_by_hand;
    DROP SCHEMA IF EXISTS memory_prompt_claims CASCADE;
    CREATE TABLE memory_prompt_by_hand (conversation text, position bigint, at bigint, payload bytea,
    PRIMARY KEY (conversation, position))";
const INSERT: &str = "INSERT INTO memory_prompt_by_hand
    SELECT $1, $2 + i - 1, $3, payload FROM unnest($4::bytea[]) WITH ORDINALITY AS batch (payload, i)";
const SELECT: &str = "SELECT payload FROM memory_prompt_by_hand WHERE conversation = $1
    ORDER BY position DESC LIMIT 10";

/// Each of 64 callers appends two messages and reads the last ten, eight times, over ten
/// connections.
pub(crate) fn many_callers_cost_little(claims: &mut Claims) {
    let Ok(address) = env::var("MEMORY_PROMPT_POSTGRES") else {
        claims.leave_out(CLAIM, "MEMORY_PROMPT_POSTGRES names no server");
        return;
    };
    let runtime = runtime();
    let manager = Manager::new(address.parse().unwrap(), NoTls);
    let pool = Pool::builder(manager).max_size(CONNECTIONS).build().unwrap();
    let store = runtime.block_on(async {
        pool.get().await.unwrap().batch_execute(TABLE).await.unwrap();
        let options = PostgresStore::options().max_connections(CONNECTIONS);
        options.schema("memory_prompt_claims").open(&address).await.unwrap()
    });
    let id = |i: usize| format!("caller {i}");
    let first = Cell::new(0);
    let pace = Pace { runs: 15, nanos: 0 }; // a run is long enough
    let found = claims.compare(
        pace,
        ["PostgreSQL: 64 callers, 8 turns each", "bare prepared statements"],
        || {
            on_all(&runtime, |i| {
                let memory = store.memory(id(i)).unwrap();
                async move {
                    for turn in 0..TURNS {
                        let mut turn = vec![message(turn), message(turn + 1)];
                        memory.append(&mut turn, None).await.unwrap();
                        assert!(memory.read(None, 10).await.unwrap().records.len() >= 2);
                    }
                }
            });
        },
        || {
            let first = first.replace(first.get() + 2 * TURNS);
            on_all(&runtime, |i| {
                let (pool, id) = (pool.clone(), id(i));
                async move {
                    for position in (0..TURNS).map(|turn| first + 2 * turn) {
                        by_hand(&pool, &id, position).await;
                    }
                }
            });
        },
    );
    runtime.block_on(async {
        let drop = "DROP TABLE memory_prompt_by_hand; DROP SCHEMA memory_prompt_claims CASCADE";
        pool.get().await.unwrap().batch_execute(drop).await.unwrap();
    });
    claims.at_least(CLAIM, 1.0 / found.ratio, 0.6);
}

async fn by_hand(pool: &Pool, id: &str, position: u64) {
    let payloads =
        [message(position), message(position + 1)].map(|it| Codec::Json.encode(&it).unwrap());
    let position = i64::try_from(position).unwrap();
    let client = pool.get().await.unwrap();
    let insert = client.prepare_cached(INSERT).await.unwrap();
    let at = 1_700_000_000_000_i64;
    client.execute(&insert, &[&id, &position, &at, &payloads.as_slice()]).await.unwrap();
    drop(client);
    let client = pool.get().await.unwrap();
    let select = client.prepare_cached(SELECT).await.unwrap();
    let rows = client.query(&select, &[&id]).await.unwrap();
    let messages: Vec<_> = rows.iter().map(|row| codec::decode(row.get(0)).unwrap()).collect();
    assert!(messages.len() >= 2);
}
