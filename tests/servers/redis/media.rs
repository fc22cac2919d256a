//! Media beside their records: kept once, whole in each read, and gone with what refers to them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::SystemTime;

use memory_prompt::memory::{Append, Read};
use memory_prompt::message::{Media, Part, Source};
use memory_prompt::{AsyncChatMemoryExt, ErrorKind, Message};

use super::once::holding;
use super::*;
use crate::tasks::{begin, end};
use crate::way::{Fate, way};

/// The bytes of each picture: no text, and another one for each number.
const BYTES: u64 = 24_006;

pub(super) fn picture(number: u64) -> Message {
    let data = format!("////{:04}{}", number % 10_000, "////".repeat(8_000));
    Message::user([Part::text(number.to_string()), Part::Image(Media::base64("image/png", data))])
}

fn keys(memory: &RedisMemory) -> [String; 2] {
    ["media", "shown"].map(|it| memory.log_key().replace("}:log:", &format!("}}:{it}:")))
}

/// Returns how many media are kept, once each is what a record refers to, under the newest of
/// these, and is read with it. What comes meanwhile does not count.
async fn kept(port: u16, memory: &RedisMemory) -> usize {
    let [media, shown] = keys(memory);
    let mut scores = cmd("ZRANGE");
    scores.arg(shown).arg(0).arg(-1).arg("WITHSCORES");
    loop {
        let read = memory.read_with(&Read::newest(usize::MAX).references()).await.unwrap();
        let all: BTreeMap<Vec<u8>, Vec<u8>> = ask(port, cmd("HGETALL").arg(&media)).await;
        let scores: Vec<(Vec<u8>, u64)> = ask(port, &scores).await;
        are_whole(memory).await;
        let now = memory.read(None, 0).await.unwrap();
        if (now.incarnation, now.start, now.end) != (read.incarnation, read.start, read.end) {
            continue;
        }
        let mut referred = BTreeMap::new();
        for record in read.records.iter() {
            for it in record.message().media() {
                let Source::Reference(it) = it.source else { panic!("it is within: {record:?}") };
                assert_eq!(it.size, BYTES);
                referred.insert(it.sha256.0.to_vec(), record.position());
            }
        }
        assert!(all.keys().eq(referred.keys()), "{} are kept", all.len());
        assert!(all.values().all(|bytes| bytes.len() as u64 == BYTES));
        assert_eq!(BTreeMap::from_iter(scores), referred);
        return all.len();
    }
}

/// Reads all, and checks that each picture is there and the right one; returns how many.
async fn are_whole(memory: &RedisMemory) -> usize {
    let read = memory.read(None, usize::MAX).await.unwrap();
    assert!(read.unreadable.is_empty(), "{:?}", read.unreadable);
    assert_eq!(read.records.len() as u64, read.end - read.start);
    for message in read.records.messages() {
        assert!(*message == picture(message.text().parse().unwrap()), "another picture");
    }
    read.records.len()
}

async fn remain(memory: &RedisMemory) -> u64 {
    ask(port(), cmd("EXISTS").arg(&keys(memory))).await
}

async fn the_same_picture_is_kept_once_a_conversation() {
    let store = options().open(&address(port())).await.unwrap();
    for id in ["a", "b"] {
        let memory = store.memory(id).unwrap();
        memory.add_all([1, 2, 1].map(picture)).await.unwrap();
        memory.add(picture(1)).await.unwrap();
        let append = Append::new([picture(3), picture(1)]).with_id("once");
        memory.append_with(&mut append.clone()).await.unwrap();
        assert!(memory.append_with(&mut append.clone()).await.unwrap().repeated);
        assert_eq!(kept(port(), &memory).await, 3);
    }
    let memory = store.memory("a").unwrap();
    let read = memory.read_with(&Read::newest(1).positions([1, 4])).await.unwrap();
    assert!(read.picked().messages().eq([&picture(2), &picture(3)]));
    let log: String = ask(port(), cmd("MEMORY").arg("USAGE").arg(memory.log_key())).await;
    assert!(log.parse::<u64>().unwrap() < 5_000, "{log}");

    let within = options().media_beside(usize::MAX).open(&address(port())).await.unwrap();
    let memory = within.memory("a").unwrap();
    memory.add(picture(1)).await.unwrap();
    let read = memory.read_with(&Read::newest(1).references()).await.unwrap();
    assert!(read.records.messages().eq([&picture(1)]));
    assert_eq!(remain(&memory).await, 0);
    let debug = format!("{:?}", options().media_beside(7));
    assert!(debug.contains("media_beside: 7"), "{debug}");
}

/// Media go with the last record that refers to them, however it goes.
async fn nothing_is_left_without_its_record() {
    let options = options();
    let store = options.clone().open(&address(port())).await.unwrap();
    let memory = store.memory("a:b").unwrap();
    let fill = async || memory.add_all([1, 2, 1, 3].map(picture)).await.unwrap();
    fill().await;
    for (before, left) in [(1, 3), (2, 2), (3, 1), (4, 0)] {
        memory.evict(before).await.unwrap();
        assert_eq!(kept(port(), &memory).await, left);
    }
    assert_eq!(remain(&memory).await, 0);
    fill().await;
    memory.clear().await.unwrap();
    assert_eq!(remain(&memory).await, 0);
    fill().await;
    assert_eq!(kept(port(), &memory).await, 3);
    assert!(store.delete(memory.id()).await.unwrap());
    assert_eq!(remain(&memory).await, 0);
    fill().await;
    assert_eq!(store.delete_prefix("a:").await.unwrap(), 1);
    assert_eq!(remain(&memory).await, 0);
    fill().await;
    // Two of a shard go in one step.
    let other = (0..).map(|i| store.memory(format!("other {i}")).unwrap());
    let shard = |memory: &RedisMemory| memory.log_key().split('}').next().unwrap().to_owned();
    let other = other.into_iter().find(|other| shard(other) == shard(&memory)).unwrap();
    other.add(picture(7)).await.unwrap();
    let soon = SystemTime::now() + Duration::from_secs(60);
    assert_eq!(store.purge_inactive(soon).await.unwrap(), 2);
    assert_eq!((remain(&memory).await, remain(&other).await), (0, 0));
    // What a server that evicts keys left of another conversation is none of this one's.
    fill().await;
    let state = memory.log_key().replace("}:log:", "}:state:");
    let _: u64 = ask(port(), cmd("DEL").arg(state)).await;
    memory.add(picture(4)).await.unwrap();
    assert_eq!(kept(port(), &memory).await, 1);

    let expires = async |memory: &RedisMemory| {
        let mut all: Vec<i64> = Vec::new();
        for key in keys(memory).into_iter().chain([memory.log_key()]) {
            all.push(ask(port(), cmd("PEXPIRETIME").arg(key)).await);
        }
        assert!(all.iter().all(|it| *it == all[0]), "{all:?}");
        all[0]
    };
    assert_eq!(expires(&memory).await, -1);
    let dying = options.ttl(Duration::from_secs(3)).open(&address(port())).await.unwrap();
    dying.memory("a:b").unwrap().add(Message::user("1")).await.unwrap();
    assert!(expires(&memory).await > 0);
    memory.add(Message::user("it stays")).await.unwrap();
    assert_eq!(expires(&memory).await, -1);
    dying.memory("a:b").unwrap().add(picture(2)).await.unwrap();
    assert!(expires(&memory).await > 0);
    tokio::time::sleep(Duration::from_millis(3_100)).await;
    assert_eq!((remain(&memory).await, memory.next_position().await.unwrap()), (0, 0));
}

/// A picture is evicted behind the read of its record and before that of its bytes: the read has
/// what is there then. What is missing although nothing was evicted can't be read.
async fn media_that_are_evicted_behind_their_records_are_not_missing() {
    let (way, held) = holding(port(), b":media:");
    let options = options();
    let store = options.clone().open(&address(way)).await.unwrap();
    let memory = store.memory("a").unwrap();
    memory.add_all([1, 2, 3].map(picture)).await.unwrap();
    held.told.store(true, Ordering::SeqCst);
    let reader = memory.clone();
    let reading = tokio::spawn(async move { reader.read(None, 9).await.unwrap() });
    while !held.holds.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let other = options.open(&address(port())).await.unwrap().memory("a").unwrap();
    other.evict(1).await.unwrap();
    other.add(picture(4)).await.unwrap();
    held.released.store(true, Ordering::SeqCst);
    let read = reading.await.unwrap();
    assert!(read.unreadable.is_empty(), "{:?}", read.unreadable);
    assert_eq!((read.start, read.end), (1, 4));
    assert!(read.records.messages().eq([2, 3, 4].map(picture).each_ref()));

    let [media, shown] = keys(&memory);
    let mut second = cmd("ZRANGE");
    second.arg(shown).arg(1).arg(1);
    let second: Vec<Vec<u8>> = ask(port(), &second).await;
    let _: u64 = ask(port(), cmd("HDEL").arg(media).arg(&second)).await;
    let read = memory.read_with(&Read::newest(9).positions([1, 2])).await.unwrap();
    for unreadable in [&read.unreadable[..], read.picked_unreadable()] {
        assert_eq!(unreadable.iter().map(|it| it.position).collect::<Vec<_>>(), [2]);
        assert_eq!(unreadable[0].error.kind(), ErrorKind::Codec);
    }
    assert!(read.records.messages().eq([2, 4].map(picture).each_ref()));
}

/// One appends pictures, of which some come again and again, and evicts, clears and deletes; others
/// read.
async fn each_read_is_whole_while_pictures_come_and_go() {
    let store = options().open(&address(port())).await.unwrap();
    let memory = store.memory("a").unwrap();
    let done = Arc::new(AtomicBool::new(false));
    let readers = begin(2, |_| {
        let (memory, done) = (memory.clone(), Arc::clone(&done));
        async move {
            let mut records = 0;
            while !done.load(Ordering::Relaxed) {
                records += are_whole(&memory).await;
            }
            records
        }
    });
    for round in 0..400 {
        let added = memory.add_all([round % 3, 100 + round].map(picture)).await.unwrap();
        match round % 50 {
            49 => drop(store.delete(memory.id()).await.unwrap()),
            24 => memory.clear().await.unwrap(),
            _ => drop(memory.evict(added.end.saturating_sub(round % 5)).await.unwrap()),
        }
    }
    done.store(true, Ordering::Relaxed);
    for records in end(readers).await {
        println!("{records} records");
        assert!(records > 100, "{records} records were read");
    }
    kept(port(), &memory).await;
}

/// A way to a server on which the connection breaks behind so many pieces that came from the
/// client, once that is set.
fn cutting(server: u16) -> (u16, Arc<AtomicU64>) {
    let left = Arc::new(AtomicU64::new(0));
    let shared = Arc::clone(&left);
    let one_less = |left: u64| left.checked_sub(1);
    let step = move || shared.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
    (way(move || server, move |it| Fate::breaks_if(it.is_asked && step() == Ok(1))), left)
}

/// Clients go away in the middle of an append, and others come again with the same one.
async fn a_connection_that_breaks_within_a_picture_leaves_nothing_of_it() {
    let (way, left) = cutting(port());
    let options = options();
    let memory = options.clone().open(&address(port())).await.unwrap().memory("a").unwrap();
    for n in 1..12 {
        let end = memory.next_position().await.unwrap();
        let dying = options.clone().open(&address(way)).await.unwrap().memory("a").unwrap();
        dying.next_position().await.unwrap();
        left.store(n, Ordering::SeqCst);
        let mut batch = [picture(n), picture(1)].to_vec();
        assert_eq!(dying.append(&mut batch, Some(end)).await.unwrap(), end..end + 2);
        assert_eq!(left.load(Ordering::SeqCst), 0, "it was not cut");
        kept(port(), &memory).await;
        // This one does not come again.
        left.store(n, Ordering::SeqCst);
        let dropped = dying.add(picture(1_000 + n));
        let _ = tokio::time::timeout(Duration::from_millis(3), dropped).await;
        drop(dying);
        left.store(0, Ordering::SeqCst);
        kept(port(), &memory).await;
        memory.evict(end.saturating_sub(4)).await.unwrap();
        kept(port(), &memory).await;
    }
}

async fn write(memory: RedisMemory, stop: Arc<AtomicBool>) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        match memory.add_all([n % 3, n].map(picture)).await {
            Ok(positions) if n % 4 == 0 => {
                let _ = memory.evict(positions.start.saturating_sub(n % 7)).await;
            }
            Ok(_) => {}
            Err(error) => assert!(
                matches!(error.kind(), ErrorKind::Unacknowledged | ErrorKind::Storage),
                "{error}"
            ),
        }
    }
}

/// The server dies while some append pictures and evict them, and each of these dies too.
async fn a_server_that_is_killed_has_each_picture_with_its_record() {
    let (server, port) =
        server("redis-pictures", &["--appendonly", "yes", "--appendfsync", "always"]);
    let store = options().open(&address(port)).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let memory = |i: usize| store.memory(format!("writer {i}")).unwrap();
    let start = |i| tokio::spawn(write(memory(i), Arc::clone(&stop)));
    let mut writers: Vec<_> = (0..3).map(start).collect();
    for round in 0..8 {
        tokio::time::sleep(Duration::from_millis(200 + round * 7919 % 200)).await;
        server.die_and_return();
        for i in 0..3 {
            are_whole(&memory(i)).await;
        }
        let i = usize::try_from(round).unwrap() % 3;
        writers[i].abort();
        writers[i] = start(i);
    }
    stop.store(true, Ordering::Relaxed);
    end(writers).await;
    for i in 0..3 {
        assert!(memory(i).next_position().await.unwrap() > 20);
        let kept = kept(port, &memory(i)).await;
        println!("{kept} pictures");
    }
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    the_same_picture_is_kept_once_a_conversation,
    nothing_is_left_without_its_record,
    media_that_are_evicted_behind_their_records_are_not_missing,
    each_read_is_whole_while_pictures_come_and_go,
    a_connection_that_breaks_within_a_picture_leaves_nothing_of_it,
    a_server_that_is_killed_has_each_picture_with_its_record;
}
