//! What is in the server: versions, strangers, keys that expire or are evicted, scripts that are
//! forgotten.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use memory_prompt::memory::{Append, Expected};
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::media::picture;
use super::*;
use crate::laws::failed;
use crate::tasks::{begin, end};

async fn keys(pattern: &str) -> Vec<String> {
    ask(port(), cmd("KEYS").arg(pattern)).await
}

async fn data_of_a_later_version_are_refused_and_left_alone() {
    for (version, expected) in [
        ("2", "the data are of version 2, and this program knows versions up to 1"),
        ("0", "the key KEY holds something else than a version"),
        ("mine", "the key KEY holds something else than a version"),
    ] {
        let prefix = format!("version-{}", MemoryId::random());
        let key = format!("{prefix}:version");
        let _: String = ask(port(), cmd("SET").arg(&key).arg(version)).await;
        let open = RedisStore::options().prefix(prefix.as_str()).open(&address(port())).await;
        let error = open.unwrap_err();
        let expected = format!("open: redis: {}", expected.replace("KEY", &key));
        failed(&error, &expected);
        assert_eq!(keys(&format!("{prefix}*")).await, [key.as_str()]);
        let left: String = ask(port(), cmd("GET").arg(&key)).await;
        assert_eq!(left, version);
    }
}

async fn the_layout_is_what_its_documentation_says() {
    let prefix = format!("layout-{}", MemoryId::random());
    let store = RedisStore::options().prefix(prefix.as_str()).open(&address(port())).await.unwrap();
    let memory = store.memory("support:u1001:c2002").unwrap();
    memory.add_all([Message::system("Be brief."), Message::user("hi")]).await.unwrap();
    let log = format!("{prefix}:{{5e}}:log:support:u1001:c2002");
    assert_eq!(memory.log_key(), log);
    let entries: Vec<(String, Vec<String>)> =
        ask(port(), cmd("XRANGE").arg(&log).arg("-").arg("+")).await;
    let (id, fields) = &entries[0];
    assert_eq!(id, "0-1");
    assert_eq!([&*fields[0], &*fields[2]], ["at", "payload"]);
    assert_eq!(fields[3], r#"{"v":1,"message":{"role":"user","content":"hi"}}"#);
    let state = log.replace(":log:", ":state:");
    let mut state: Vec<(String, String)> = ask(port(), cmd("HGETALL").arg(state)).await;
    state.sort();
    let names: Vec<_> = state.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["active", "end", "incarnation", "start", "system"]);
    assert_eq!([&*state[0].1, &*state[1].1, &*state[3].1], [&*fields[1], "1", "0"]);
    let incarnation = memory.read(None, 0).await.unwrap().incarnation.unwrap();
    assert_eq!(state[2].1, incarnation.to_string());
    assert_eq!(state[4].1, r#"{"v":1,"message":{"role":"system","content":"Be brief."}}"#);

    let mut turn = Append::new([Message::ai("hello")]).with_id("turn 1");
    turn = turn.set_slot("summary", "They said hi.", Expected::Absent);
    let version = memory.append_with(&mut turn).await.unwrap().version.unwrap().to_string();
    let beside = |what: &str| log.replace(":log:", what);
    for (what, value) in [(":slots:", "They said hi."), (":versions:", version.as_str())] {
        let found: (String, String) = ask(port(), cmd("HGETALL").arg(beside(what))).await;
        assert_eq!(found, ("summary".to_owned(), value.to_owned()));
    }
    let known: Vec<String> = ask(port(), cmd("LRANGE").arg(beside(":known:")).arg(0).arg(-1)).await;
    assert_eq!(known, ["turn 1".to_owned(), format!("\t1 2 {version}")]);
    for i in 2..100 {
        let mut turn = Append::new([Message::ai("hello")]).with_id(format!("turn {i}"));
        memory.append_with(&mut turn).await.unwrap();
    }
    let known: u64 = ask(port(), cmd("LLEN").arg(beside(":known:"))).await;
    assert_eq!(known, 128, "64 ids, each with what it came to");

    // What is deleted leaves nothing but what goes by itself.
    assert!(store.delete(&"support:u1001:c2002".into()).await.unwrap());
    for key in keys(&format!("{prefix}:*")).await {
        let left: i64 = ask(port(), cmd("PTTL").arg(&key)).await;
        assert!(key.ends_with(":version") || (1..=70_000).contains(&left), "{key} {left}");
    }
}

/// The keys of a conversation, its state first.
fn all_keys(memory: &RedisMemory) -> [String; 7] {
    let log = memory.log_key();
    ["state", "log", "slots", "versions", "known", "media", "shown"]
        .map(|it| log.replace(":log:", &format!(":{it}:")))
}

/// Lets the time of a conversation be up.
async fn expire(memory: &RedisMemory) {
    let log = memory.log_key();
    let (shard, _) = log.split_once(":log:").unwrap();
    let keys = all_keys(memory);
    let mut left: Vec<i64> = Vec::new();
    for key in &keys {
        left.push(ask(port(), cmd("PEXPIRETIME").arg(key)).await);
    }
    assert!(left[0] > 0 && left.iter().all(|it| *it == left[0]), "{left:?}");
    for key in &keys {
        let _: u64 = ask(port(), cmd("PEXPIREAT").arg(key).arg(1)).await;
    }
    let mut list = cmd("ZADD");
    list.arg(format!("{shard}:expiring")).arg("XX").arg("CH").arg(1).arg(memory.id().as_str());
    let changed: u64 = ask(port(), &list).await;
    assert_eq!(changed, 1);
}

async fn conversations_expire_after_their_last_append() {
    let prefix = format!("ttl-{}", MemoryId::random());
    let options = RedisStore::options().prefix(prefix.as_str());
    let lasting = options.clone().open(&address(port())).await.unwrap();
    let store = options.ttl(Duration::from_secs(3600)).open(&address(port())).await.unwrap();
    // All on one shard, so that they share its lists.
    let memory = |store: &RedisStore, name: &str| {
        let mut all = (0..).map(|i| store.memory(format!("{name} {i}")).unwrap());
        all.find(|memory| memory.log_key().contains(":{07}:")).unwrap()
    };
    let shard = format!("{prefix}:{{07}}");
    let count =
        async |list: &str| ask::<u64>(port(), cmd("ZCARD").arg(format!("{shard}:{list}"))).await;
    let turn = || {
        let turn = Append::new([Message::system("hi"), picture(1)]).with_id("turn");
        turn.set_slot("a", "x", Expected::Any)
    };
    for name in ["a", "b", "c", "d"] {
        memory(&store, name).append_with(&mut turn()).await.unwrap();
    }
    // The last append decides.
    memory(&lasting, "d").add(Message::user("it stays")).await.unwrap();
    assert_eq!((count("ids").await, count("expiring").await), (4, 3));
    for key in all_keys(&memory(&store, "d")) {
        assert_eq!(ask::<i64>(port(), cmd("PEXPIRETIME").arg(key)).await, -1);
    }
    for name in ["a", "b", "c"] {
        expire(&memory(&store, name)).await;
    }
    let expired = memory(&store, "a").read(None, 10).await.unwrap();
    assert_eq!((expired.end, expired.records.len(), expired.system), (0, 0, None));
    assert!(memory(&store, "a").slots().await.unwrap().is_empty());
    assert!(store.info(memory(&store, "a").id()).await.unwrap().is_none());
    assert_eq!(store.ids(None, 10).await.unwrap(), [memory(&store, "d").id().clone()]);
    assert_eq!(count("ids").await, 4);
    // One begins again, and is not taken for what has expired.
    assert_eq!(memory(&lasting, "a").add(Message::user("anew")).await.unwrap(), 0);
    assert_eq!((count("ids").await, count("expiring").await), (4, 2));
    // Two go from the lists when one comes.
    memory(&store, "e").append_with(&mut turn()).await.unwrap();
    assert_eq!((count("ids").await, count("expiring").await), (3, 1));
    let listed = store.ids(None, 10).await.unwrap();
    assert_eq!(listed, ["a", "d", "e"].map(|name| memory(&store, name).id().clone()));
    // A purge tidies up too, and counts what it deletes.
    expire(&memory(&store, "e")).await;
    assert_eq!(store.purge_inactive(SystemTime::UNIX_EPOCH).await.unwrap(), 0);
    assert_eq!((count("ids").await, count("expiring").await), (2, 0));
}

async fn the_longest_time_to_live_is_long() {
    let store = options().ttl(Duration::MAX).open(&address(port())).await.unwrap();
    let memory = store.memory("a:b:c").unwrap();
    memory.add(Message::user("hi")).await.unwrap();
    assert_eq!(memory.next_position().await.unwrap(), 1);
}

async fn what_the_server_evicted_is_reported() {
    let memory = options().open(&address(port())).await.unwrap().memory("evicted").unwrap();
    memory.add_all((0..5).map(|i| Message::user(i.to_string()))).await.unwrap();
    let _: u64 = ask(port(), cmd("DEL").arg(memory.log_key())).await;
    memory.add(Message::user("5")).await.unwrap();
    let snapshot = memory.read(None, 4).await.unwrap();
    let missing: Vec<_> = snapshot.unreadable.iter().map(|row| row.position).collect();
    assert_eq!((missing, snapshot.records.len()), (vec![2, 3, 4], 1));
    let expected = "read: redis: the entry is gone; does the server evict keys?";
    assert_eq!(snapshot.unreadable[0].error.to_string(), expected);

    // Somebody writes an end that nobody reached: that is no list of all that is not there.
    let state = memory.log_key().replace("}:log:", "}:state:");
    let end = 1_u64 << 50;
    let _: u64 = ask(port(), cmd("HSET").arg(&state).arg("end").arg(end)).await;
    let error = memory.read(None, usize::MAX).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("the state of the conversation is damaged"), "{error}");
    assert_eq!(memory.read(None, 3).await.unwrap().unreadable.len(), 3);

    let _: u64 = ask(port(), cmd("DEL").arg(state)).await;
    assert_eq!(memory.read(None, 10).await.unwrap().end, 0);
    assert_eq!(memory.add(Message::user("anew")).await.unwrap(), 0);
    assert_eq!(memory.all().await.unwrap().len(), 1);
}

async fn keys_of_something_else_are_left_alone() {
    let memory = options().open(&address(port())).await.unwrap().memory("taken").unwrap();
    let state = memory.log_key().replace("}:log:", "}:state:");
    let _: String = ask(port(), cmd("SET").arg(&state).arg("mine")).await;
    for error in [
        memory.add(Message::user("hi")).await.unwrap_err(),
        memory.read(None, 1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert!(error.to_string().contains("WRONGTYPE"), "{error}");
    }
    let left: String = ask(port(), cmd("GET").arg(&state)).await;
    assert_eq!(left, "mine");
    let _: u64 = ask(port(), cmd("DEL").arg(&state)).await;

    let _: String =
        ask(port(), cmd("XADD").arg(memory.log_key()).arg("7-0").arg("x").arg("y")).await;
    memory.add_all([Message::user("hi")]).await.unwrap(); // a log without a state is nobody's
    let _: String =
        ask(port(), cmd("XADD").arg(memory.log_key()).arg("1-1").arg("x").arg("y")).await;
    assert_eq!(memory.add(Message::user("hi")).await.unwrap_err().kind(), ErrorKind::Storage);
    let snapshot = memory.read(None, 10).await.unwrap();
    assert_eq!((snapshot.end, snapshot.records.len()), (1, 1));
}

async fn a_connection_of_ones_own_and_a_server_that_forgot_the_scripts() {
    let store = options().over(connect(port()).await).await.unwrap();
    let debug = format!("{store:?}");
    assert_eq!(debug, "RedisStore { place: a connection of the caller's, codec: Json }");
    let memory = store.memory("a:b:c").unwrap();
    for i in 0..5 {
        let _: String = ask(port(), cmd("SCRIPT").arg("FLUSH")).await;
        assert_eq!(memory.add(Message::user("hi")).await.unwrap(), i);
    }
}

async fn a_batch_of_100_000_is_one_step() {
    let memory = options().open(&address(port())).await.unwrap().memory("large").unwrap();
    let reader = memory.clone();
    let reading = tokio::spawn(async move {
        loop {
            match reader.next_position().await.unwrap() {
                0 => {}
                end => break end,
            }
        }
    });
    let batch = (0..100_000).map(|i| Message::user(i.to_string()));
    assert_eq!(memory.add_all(batch).await.unwrap(), 0..100_000);
    assert_eq!(reading.await.unwrap(), 100_000);
    let mut seen = 100_000;
    let mut pages = memory.pages(30_000);
    while let Some(page) = pages.next().await {
        for record in page.unwrap().iter().rev() {
            seen -= 1;
            assert_eq!((record.position(), &*record.message().text()), (seen, &*seen.to_string()));
        }
    }
    assert_eq!(seen, 0);
}

/// Pages of a long read make one whole, whatever is appended, evicted, cleared and deleted
/// meanwhile.
async fn a_long_read_is_of_one_moment() {
    const ALL: u64 = 12_000;
    let store = options().open(&address(port())).await.unwrap();
    let memory = store.memory("long").unwrap();
    // The text tells of which conversation it is, and the system message where that ended.
    let batch = |life: u64, range: std::ops::Range<u64>| {
        let end = Message::system(format!("{life} {}", range.end));
        range.map(move |i| Message::user(format!("{life} {i}"))).chain([end])
    };
    memory.add_all(batch(0, 0..ALL)).await.unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers = begin(2, |_| {
        let (memory, done) = (memory.clone(), Arc::clone(&done));
        async move {
            let mut reads = 0;
            while !done.load(Ordering::Relaxed) {
                let snapshot = memory.read(None, usize::MAX).await.unwrap();
                assert!(snapshot.unreadable.is_empty());
                let Some(system) = snapshot.system else {
                    assert_eq!((snapshot.start, snapshot.records.len()), (snapshot.end, 0));
                    continue;
                };
                let system = system.text().into_owned();
                let (life, end) = system.split_once(' ').unwrap();
                assert_eq!(snapshot.end.to_string(), end);
                let texts = snapshot.records.messages().map(|m| m.text().into_owned());
                let range = snapshot.start..snapshot.end;
                assert!(texts.eq(range.map(|i| format!("{life} {i}"))));
                reads += usize::from(snapshot.records.len() > 10_000);
            }
            reads
        }
    });
    for life in 1..=4 {
        for round in 0..6 {
            let end = memory.next_position().await.unwrap();
            memory.add_all(batch(life - 1, end..end + 1)).await.unwrap();
            tokio::time::sleep(Duration::from_millis(20)).await;
            if round % 3 == 2 {
                memory.evict(round * 100).await.unwrap();
            }
        }
        if life % 2 == 0 {
            memory.clear().await.unwrap();
        }
        store.delete(memory.id()).await.unwrap();
        memory.add_all(batch(life, 0..ALL)).await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    let reads: usize = end(readers).await.iter().sum();
    assert!(reads > 0, "no read was long");
    println!("{reads} long reads");
}

/// A conversation was to be kept for ever, by a time of activity that no clock reaches. The next
/// append wrote that as a number that is none, and nothing could be told of the conversation again.
async fn what_is_kept_for_ever_can_be_told_of() {
    let store = options().open(&address(port())).await.unwrap();
    let memory = store.memory("for ever").unwrap();
    memory.add(Message::user("0")).await.unwrap();
    let never = SystemTime::UNIX_EPOCH + Duration::from_secs(i64::MAX as u64);
    memory.append_with(&mut Append::closing(1, never)).await.unwrap();
    let told = store.info(&"for ever".into()).await.unwrap().unwrap();
    memory.add(Message::user("1")).await.unwrap();
    assert_eq!(store.info(&"for ever".into()).await.unwrap().unwrap().active, told.active);
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    data_of_a_later_version_are_refused_and_left_alone,
    the_layout_is_what_its_documentation_says,
    conversations_expire_after_their_last_append,
    the_longest_time_to_live_is_long,
    what_the_server_evicted_is_reported,
    keys_of_something_else_are_left_alone,
    a_connection_of_ones_own_and_a_server_that_forgot_the_scripts,
    a_batch_of_100_000_is_one_step,
    a_long_read_is_of_one_moment,
    what_is_kept_for_ever_can_be_told_of;
}
