//! Redis beside the same messages pushed to a list and read from it by hand. It needs a server,
//! whose address is `MEMORY_PROMPT_REDIS`.

use std::env;

use memory_prompt::codec::{self, Codec};
use memory_prompt::store::redis::RedisMemory;
use memory_prompt::store::redis::driver::aio::ConnectionManager;
use memory_prompt::store::redis::driver::{Client, cmd};
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, RedisStore};

use crate::callers::{TURNS, on_all, runtime};
use crate::harness::{Claims, Pace};
use crate::messages::message;

const CALLERS: &str = "Redis: 64 callers / bare RPUSH and LRANGE, turns a second";
const ONE: &str = "Redis: one caller / bare RPUSH and LRANGE, time of a turn";
const PREFIX: &str = "memory-prompt-claims";

/// Each of 64 callers appends two messages and reads the last ten, eight times, over one
/// connection; and one caller does alone, who waits for the way there and back.
///
/// The goal is not what a list could have: an append is a script, which looks whether it was done
/// before and whether it is late, and an entry of a stream is seven values. `store::redis` says
/// what that takes.
pub(crate) fn many_callers_cost_little(claims: &mut Claims) {
    let Ok(address) = env::var("MEMORY_PROMPT_REDIS") else {
        for claim in [CALLERS, ONE] {
            claims.leave_out(claim, "MEMORY_PROMPT_REDIS names no server");
        }
        return;
    };
    let runtime = runtime();
    let (store, by_hand) = runtime.block_on(async {
        let client = Client::open(address.as_str()).unwrap();
        let store = RedisStore::options().prefix(PREFIX).open(&address).await.unwrap();
        (store, ConnectionManager::new(client).await.unwrap())
    });
    let memory = |i: usize| store.memory(format!("caller {i}")).unwrap();
    let list = |i: usize| format!("{PREFIX}:list:{i}");
    let pace = Pace { runs: 31, nanos: 0 }; // a run is long enough
    let found = claims.compare(
        pace,
        ["Redis: 64 callers, 8 turns each", "bare RPUSH and LRANGE"],
        || on_all(&runtime, |i| turns(memory(i))),
        || on_all(&runtime, |i| turns_by_hand(by_hand.clone(), list(i))),
    );
    let one = claims.compare(
        pace,
        ["Redis: one caller, 8 turns", "bare RPUSH and LRANGE"],
        || runtime.block_on(turns(memory(0))),
        || runtime.block_on(turns_by_hand(by_hand.clone(), list(0))),
    );
    runtime.block_on(async {
        store.delete_prefix("caller ").await.unwrap();
        for i in 0..crate::callers::CALLERS {
            let mut delete = cmd("DEL");
            delete.arg(list(i)).query_async::<()>(&mut by_hand.clone()).await.unwrap();
        }
    });
    claims.at_least(CALLERS, 1.0 / found.ratio, 0.25);
    claims.at_most(ONE, one.ratio, 3.0);
}

async fn turns(memory: RedisMemory) {
    for turn in 0..TURNS {
        let mut turn = vec![message(turn), message(turn + 1)];
        memory.append(&mut turn, None).await.unwrap();
        assert!(memory.read(None, 10).await.unwrap().records.len() >= 2);
    }
}

async fn turns_by_hand(mut client: ConnectionManager, list: String) {
    for turn in 0..TURNS {
        let payloads =
            [message(turn), message(turn + 1)].map(|it| Codec::Json.encode(&it).unwrap());
        let mut push = cmd("RPUSH");
        push.arg(&list).arg(&payloads);
        push.query_async::<()>(&mut client).await.unwrap();
        let mut range = cmd("LRANGE");
        range.arg(&list).arg(-10).arg(-1);
        let newest: Vec<Vec<u8>> = range.query_async(&mut client).await.unwrap();
        let messages: Vec<_> = newest.iter().map(|it| codec::decode(it).unwrap()).collect();
        assert!(messages.len() >= 2);
    }
}
