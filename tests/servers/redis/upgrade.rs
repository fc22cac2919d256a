//! Data of version 1 of the layout, written here as that version wrote them, and what becomes of
//! them.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use memory_prompt::codec::Codec;
use memory_prompt::memory::{Append, Expected, MemoryId};
use memory_prompt::store::RedisOptions;
use memory_prompt::store::redis::driver::aio::ConnectionLike;
use memory_prompt::store::redis::driver::cluster::ClusterClient;
use memory_prompt::store::redis::driver::{FromRedisValue, cmd};
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, ErrorKind, Message, RedisStore,
    Result,
};

use super::cluster::HEALTHY;
use super::once::holding_one;
use super::{address, ask, connect, options, port, run, server};

/// The highest byte of FNV-1a: on which shard an id was.
fn old_shard(id: &str) -> u64 {
    let hash = id.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash >> 56
}

fn old_key(prefix: &str, id: &str, what: &str) -> String {
    format!("{prefix}:{{{:02x}}}:{what}", old_shard(id))
}

/// A conversation of version 1.
struct Old {
    id: String,
    start: u64,
    end: u64,
    system: bool,
    /// When it expires, in milliseconds since 1970.
    expires: Option<u64>,
}

const ACTIVE: u64 = 1_714_557_600_000; // May 2024

/// Conversations of all kinds, under ids that stay on their shard and ids that move.
fn old() -> Vec<Old> {
    let mut ids: Vec<String> = (0..300).map(|i| format!("support:u{i}:c{i}")).collect();
    ids.extend((1..10).map(|i| format!("support:u1001:c{i}")));
    ids.extend((1000..1100).map(|i| format!("conv-{i}")));
    ids.extend(["", "{a}b", "}{", "a b", "日本", "a\0b", "ids", "log:x"].map(str::to_owned));
    let far = SystemTime::now().duration_since(UNIX_EPOCH).unwrap() + Duration::from_secs(3600);
    let far = u64::try_from(far.as_millis()).unwrap();
    let old = |(i, id): (u64, String)| {
        let end = i % 6;
        // Some are cleared or evicted, and some have nothing but a system message.
        let start = if i.is_multiple_of(4) { end.min(i % 5) } else { 0 };
        let expires = i.is_multiple_of(3).then_some(far + i);
        Old { id, start, end, system: i.is_multiple_of(2) || end == 0, expires }
    };
    (0..).zip(ids).map(old).collect()
}

async fn send<T: FromRedisValue>(on: &mut impl ConnectionLike, words: &[&str]) -> T {
    let mut command = cmd(words[0]);
    command.arg(&words[1..]).query_async(on).await.unwrap()
}

/// Writes what version 1 wrote.
async fn write(on: &mut impl ConnectionLike, prefix: &str, old: &[Old]) {
    let _: () = send(on, &["SET", &format!("{prefix}:version"), "1"]).await;
    for (i, it) in old.iter().enumerate() {
        let [state, log] =
            ["state", "log"].map(|what| old_key(prefix, &it.id, &format!("{what}:{}", it.id)));
        let _: u64 = send(on, &["ZADD", &old_key(prefix, &it.id, "ids"), "0", &it.id]).await;
        for seq in it.start..it.end {
            let text = format!("{i} {seq}");
            let payload = Codec::Json.encode(&Message::user(text)).unwrap();
            let payload = String::from_utf8(payload).unwrap();
            let (entry, at) = (format!("{seq}-1"), (ACTIVE + seq).to_string());
            let words = ["XADD", &log, &entry, "at", &at, "payload", &payload];
            let _: String = send(on, &words).await;
        }
        let (start, end) = (it.start.to_string(), it.end.to_string());
        let (born, active) = ((ACTIVE * 1000 + 7).to_string(), (ACTIVE + it.end).to_string());
        let mut words = vec!["HSET", &state, "start", &start, "born", &born, "end", &end];
        words.extend(["active", active.as_str()]);
        let system = Codec::Json.encode(&Message::system(format!("Be {i}."))).unwrap();
        let system = String::from_utf8(system).unwrap();
        if it.system {
            words.extend(["system", system.as_str()]);
        }
        let _: u64 = send(on, &words).await;
        if let Some(expires) = it.expires.map(|expires| expires.to_string()) {
            for key in [&state, &log] {
                let _: u64 = send(on, &["PEXPIREAT", key, &expires]).await;
            }
            let list = old_key(prefix, &it.id, "expiring");
            let _: u64 = send(on, &["ZADD", &list, &expires, &it.id]).await;
        }
    }
}

/// Everything is where it was, and goes on.
async fn holds(on: &mut impl ConnectionLike, store: &RedisStore, prefix: &str, old: &[Old]) {
    let mut ids: Vec<&str> = old.iter().map(|it| it.id.as_str()).collect();
    ids.sort_unstable();
    let listed = store.ids(None, 1000).await.unwrap();
    assert_eq!(listed.iter().map(MemoryId::as_str).collect::<Vec<_>>(), ids);
    let mut moved = 0;
    for (i, it) in old.iter().enumerate() {
        let memory = store.memory(it.id.as_str()).unwrap();
        let snapshot = memory.read(None, 100).await.unwrap();
        assert_eq!((snapshot.start, snapshot.end), (it.start, it.end), "{:?}", it.id);
        assert!(snapshot.unreadable.is_empty() && snapshot.incarnation.is_some());
        let texts = snapshot.records.messages().map(|message| message.text().into_owned());
        assert!(texts.eq((it.start..it.end).map(|seq| format!("{i} {seq}"))), "{:?}", it.id);
        let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
        let times = snapshot.records.iter().map(|record| record.appended_at());
        assert!(times.eq((it.start..it.end).map(|seq| at(ACTIVE + seq))));
        let system = snapshot.system.as_deref().map(|message| message.text().into_owned());
        assert_eq!(system, it.system.then(|| format!("Be {i}.")));
        let info = store.info(&it.id.as_str().into()).await.unwrap().unwrap();
        assert_eq!((info.end, info.active), (it.end, at(ACTIVE + it.end)));
        assert_eq!(info.incarnation, snapshot.incarnation);

        let (new, was) = (memory.log_key(), old_key(prefix, &it.id, &format!("log:{}", it.id)));
        let states = [&new, &was].map(|log| log.replacen("}:log:", "}:state:", 1));
        let expires: i64 = send(on, &["PEXPIRETIME", &states[0]]).await;
        assert_eq!(u64::try_from(expires).ok(), it.expires);
        if new != was {
            moved += 1;
            for key in [&was, &states[1]] {
                let there: u64 = send(on, &["EXISTS", key]).await;
                assert_eq!(there, 0, "{key}");
            }
        }
        let mut turn = Append::new([Message::user("on")]).with_id("turn").expecting(it.end);
        turn = turn.set_slot("a", "x", Expected::Absent);
        let clone = turn.clone();
        assert_eq!(memory.append_with(&mut turn).await.unwrap().positions.start, it.end);
        assert!(memory.append_with(&mut clone.clone()).await.unwrap().repeated);
    }
    assert!(moved > 200 && moved < old.len(), "{moved} have moved");
    let mut lists = [0; 2];
    for shard in 0..256 {
        for (list, count) in ["ids", "expiring"].into_iter().zip(&mut lists) {
            *count +=
                send::<usize>(on, &["ZCARD", &format!("{prefix}:{{{shard:02x}}}:{list}")]).await;
        }
    }
    assert_eq!(lists, [old.len(), 0], "the last append was through a store without a TTL");
}

async fn becomes(
    on: &mut impl ConnectionLike,
    open: impl AsyncFn(RedisOptions) -> Result<RedisStore>,
) {
    let prefix = format!("upgrade-{}", MemoryId::random());
    let options = RedisStore::options().prefix(prefix.as_str());
    let old = old();
    write(on, &prefix, &old).await;
    let refused = async || {
        let error = open(options.clone()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        let expected = "open: redis: the data are of version 1: set `RedisOptions::upgrade` to open \
                        them, once no older program uses them";
        assert_eq!(error.to_string(), expected);
    };
    refused().await;
    // Broken off once at any moment, and begun again by two at once.
    let began = Instant::now();
    let part = Duration::from_millis(40);
    if tokio::time::timeout(part, open(options.clone().upgrade())).await.is_err() {
        refused().await;
        println!("broken off after {:?}", began.elapsed());
    }
    let began = Instant::now();
    let two = (open(options.clone().upgrade()), open(options.clone().upgrade()));
    let (one, two) = tokio::join!(two.0, two.1);
    println!("{} conversations upgraded in {:?}", old.len(), began.elapsed());
    two.unwrap();
    holds(on, &one.unwrap(), &prefix, &old).await;
    open(options).await.unwrap();
}

#[test]
#[ignore = "needs redis-server"]
fn data_of_version_1_are_upgraded_where_that_is_wanted() {
    run(async {
        let address = address(port());
        becomes(&mut connect(port()).await, async |options| options.open(&address).await).await;
    });
}

#[test]
#[ignore = "needs redis-server"]
fn data_of_version_1_are_upgraded_on_a_cluster() {
    run(async {
        let addresses = tokio::task::block_in_place(|| HEALTHY.addresses());
        let client = ClusterClient::new(addresses.clone()).unwrap();
        let mut on = client.get_async_connection().await.unwrap();
        becomes(&mut on, async |options| options.open_cluster(&addresses).await).await;
    });
}

/// Nobody looked at the version but who opened a store: whoever waited for a server to come back,
/// while a later program changed the layout, wrote what the later one can't read.
#[test]
#[ignore = "needs redis-server"]
fn the_version_is_looked_at_again_after_a_connection_was_lost() {
    run(async {
        let (server, port) =
            server("redis-later", &["--appendonly", "yes", "--appendfsync", "always"]);
        let store = options().timeout(Duration::from_secs(20)).open(&address(port)).await.unwrap();
        let memory = store.memory("a:b:c").unwrap();
        memory.add(Message::user("0")).await.unwrap();
        let log = memory.log_key();
        let version = format!("{}:version", log.split_once(":{").unwrap().0);
        let again = || {
            tokio::task::block_in_place(|| {
                server.kill();
                server.restart();
            });
        };
        again();
        memory.add(Message::user("1")).await.unwrap(); // it is the same version still
        again();
        let _: String = ask(port, cmd("SET").arg(&version).arg(3)).await;
        for _ in 0..2 {
            // An append that met the broken connection would not be known to be undone.
            assert_eq!(memory.read(None, 1).await.unwrap_err().kind(), ErrorKind::Storage);
            let mut batch = vec![Message::user("2")];
            let error = memory.append(&mut batch, None).await.unwrap_err();
            assert_eq!((error.kind(), batch.len()), (ErrorKind::Storage, 1));
            let expected =
                "append: redis: the data are of version 3, and this program knows versions up to 2";
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(ask::<u64>(port, cmd("XLEN").arg(&log)).await, 2);
        let _: String = ask(port, cmd("SET").arg(&version).arg(2)).await;
        assert_eq!(memory.add(Message::user("2")).await.unwrap(), 2);
        // A server that came back with nothing is a new one.
        let _: String = ask(port, &cmd("FLUSHALL")).await;
        again();
        assert_eq!(memory.add(Message::user("0")).await.unwrap(), 0);
        assert_eq!(ask::<u64>(port, cmd("GET").arg(&version)).await, 2);
    });
}

/// Of two who upgraded at once one read a conversation at its old place, and put it to its new one
/// when the other had done all and somebody had deleted it: it was back.
#[test]
#[ignore = "needs redis-server"]
fn what_was_deleted_does_not_arrive_again() {
    run(async {
        let prefix = format!("upgrade-{}", MemoryId::random());
        let options = RedisStore::options().prefix(prefix.as_str()).upgrade();
        let id = "support:u1001:c1";
        let old = Old { id: id.to_owned(), start: 0, end: 3, system: true, expires: None };
        write(&mut connect(port()).await, &prefix, &[old]).await;
        let (way, held) = holding_one(port());
        held.told.store(true, Ordering::SeqCst);
        let late = options.clone();
        let late = tokio::spawn(async move { late.open(&address(way)).await });
        let began = Instant::now();
        while !held.holds.load(Ordering::SeqCst) {
            assert!(began.elapsed() < Duration::from_secs(60), "nothing was on its way");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let store = options.open(&address(port())).await.unwrap();
        let memory = store.memory(id).unwrap();
        assert_eq!(memory.all().await.unwrap().len(), 3);
        assert!(store.delete(&id.into()).await.unwrap());
        held.released.store(true, Ordering::SeqCst);
        late.await.unwrap().unwrap();
        assert_eq!(store.info(&id.into()).await.unwrap(), None, "it is back");
        assert_eq!(store.ids(None, 10).await.unwrap(), []);
        memory.add(Message::user("anew")).await.unwrap();
        assert_eq!(memory.all().await.unwrap().len(), 1);
    });
}

/// A program of the first version that was not ended begins a conversation anew in its old place
/// when it has moved. For as long as it was known that the conversation had arrived, whoever went
/// on with the upgrade took the new one for the old one, and removed it.
#[test]
#[ignore = "needs redis-server"]
fn what_an_older_program_begins_anew_is_not_forgotten() {
    run(async {
        let prefix = format!("upgrade-{}", MemoryId::random());
        let options = RedisStore::options().prefix(prefix.as_str()).upgrade();
        let (id, other) = ("support:u1001:c1", "support:u1001:c2");
        let old =
            |id: &str, end| Old { id: id.to_owned(), start: 0, end, system: true, expires: None };
        let mut on = connect(port()).await;
        write(&mut on, &prefix, &[old(id, 3), old(other, 3)]).await;
        let store = options.clone().open(&address(port())).await.unwrap();
        assert!(store.delete(&other.into()).await.unwrap());

        // Both are begun anew, and the upgrade is gone on with, as if it had been broken off.
        write(&mut on, &prefix, &[old(id, 2), old(other, 2)]).await;
        for id in [id, other] {
            let state = old_key(&prefix, id, &format!("state:{id}"));
            let born = (ACTIVE * 1000 + 8).to_string();
            let _: u64 = send(&mut on, &["HSET", &state, "born", &born]).await;
        }
        let error = options.clone().open(&address(port())).await.unwrap_err();
        let log = old_key(&prefix, id, &format!("log:{id}"));
        let expected = format!(
            "open: redis: an older program is still running: it has begun {log} anew, which has \
             moved before; end it, and delete one of the two"
        );
        assert_eq!((error.kind(), error.to_string()), (ErrorKind::Storage, expected));
        let both = [log.clone(), store.memory(id).unwrap().log_key()];
        for (log, there) in both.iter().zip([2, 3]) {
            assert_eq!(send::<u64>(&mut on, &["XLEN", log]).await, there, "{log}");
        }
        let state = log.replacen("}:log:", "}:state:", 1);
        let _: u64 = send(&mut on, &["DEL", &log, &state]).await;
        let store = options.open(&address(port())).await.unwrap();
        assert_eq!(store.memory(id).unwrap().all().await.unwrap().len(), 3);
        // What was deleted and begun anew is that one.
        assert_eq!(store.memory(other).unwrap().all().await.unwrap().len(), 2);
        let arrived = store.memory(other).unwrap().log_key();
        let arrived = arrived.replacen(&format!("log:{other}"), "arrived", 1);
        let left: i64 = send(&mut on, &["PTTL", &arrived]).await;
        assert!((3_500_000..=3_600_000).contains(&left), "{left}");
    });
}
