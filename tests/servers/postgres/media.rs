//! Media beside their records: kept once, whole in every read, and gone with what refers to them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};

use memory_prompt::memory::Read as Wanted;
use memory_prompt::message::{Media, Part, Source};
use memory_prompt::record::Snapshot;

use super::*;
use crate::again::again;

/// A picture of 30 KB, another one for each number.
fn picture(number: u64) -> Part {
    Part::Image(Media::base64("image/png", format!("{}{number:04}", "iVBO".repeat(10_000))))
}

pub(super) fn with_picture(number: u64) -> Message {
    Message::user([Part::text(number.to_string()), picture(number)])
}

/// Every record is there, with its picture; returns how many.
fn is_whole(read: &Snapshot) -> usize {
    let unreadable = read.unreadable.iter().chain(read.picked_unreadable());
    let unreadable: Vec<_> = unreadable.map(|it| it.error.to_string()).collect();
    assert!(unreadable.is_empty(), "{unreadable:?}");
    for message in read.records.messages().chain(read.picked().messages()) {
        assert!(*message == with_picture(message.text().parse().unwrap()), "{}", message.text());
    }
    read.records.len()
}

/// A schema on the shared server, and what stands in its table of media.
struct Kept {
    schema: String,
    store: PostgresStore,
    somebody: Client,
}

impl Kept {
    async fn new() -> Self {
        let (schema, store) = opened().await;
        Self { schema, store, somebody: connect(&SHARED.address()).await }
    }

    async fn sizes(&self) -> Vec<i32> {
        let sql = format!("SELECT length(bytes) FROM \"{}\".media ORDER BY 1", self.schema);
        self.somebody.query(&sql, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    }
}

async fn the_same_picture_is_kept_once_a_conversation() {
    let kept = Kept::new().await;
    for id in ["a", "b"] {
        let memory = kept.store.memory(id).unwrap();
        memory.add(Message::user([picture(1), picture(1)])).await.unwrap();
        memory.add_all([with_picture(1), with_picture(2)]).await.unwrap();
    }
    assert_eq!(kept.sizes().await, [30_003; 4]);

    // What is there already is not written again.
    let memory = kept.store.memory("large").unwrap();
    let large = || Part::Image(Media::base64("image/png", "iVBO".repeat(200_000)));
    for _ in 0..20 {
        memory.add(Message::user([large()])).await.unwrap();
    }
    let size = format!("SELECT pg_total_relation_size('\"{}\".media')", kept.schema);
    let size: i64 = kept.somebody.query_one(&size, &[]).await.unwrap().get(0);
    assert!((720_000..900_000).contains(&size), "{size}");
}

/// Media go with the last record that refers to them, however it goes.
async fn nothing_is_left_without_its_record() {
    let kept = Kept::new().await;
    let memory = kept.store.memory("a").unwrap();
    memory.add_all([1, 2, 1].map(with_picture)).await.unwrap();
    assert_eq!(memory.evict(1).await.unwrap(), 1);
    assert_eq!(kept.sizes().await.len(), 2);
    assert_eq!(memory.evict(2).await.unwrap(), 1);
    assert_eq!(kept.sizes().await.len(), 1);
    assert_eq!(is_whole(&memory.read(None, 9).await.unwrap()), 1);
    memory.clear().await.unwrap();
    assert_eq!(kept.sizes().await.len(), 0);
    for way in 0..4 {
        memory.add_all([1, 2].map(with_picture)).await.unwrap();
        assert_eq!(kept.sizes().await.len(), 2);
        let tomorrow = SystemTime::now() + Duration::from_secs(86400);
        match way {
            0 => assert!(kept.store.delete(&"a".into()).await.unwrap()),
            1 => assert_eq!(kept.store.delete_prefix("a").await.unwrap(), 1),
            2 => assert_eq!(kept.store.purge_inactive(tomorrow).await.unwrap(), 1),
            _ => assert_eq!(memory.evict(u64::MAX).await.unwrap(), 2),
        }
        assert_eq!(kept.sizes().await.len(), 0, "{way}");
    }
}

async fn a_store_may_keep_media_within_their_messages() {
    let kept = Kept::new().await;
    let options = options(&kept.schema).media_beside(usize::MAX);
    let memory = options.open(SHARED.address()).await.unwrap().memory("a").unwrap();
    memory.add(with_picture(1)).await.unwrap();
    let references = Wanted::newest(1).references();
    assert_eq!(is_whole(&memory.read_with(&references).await.unwrap()), 1);
    assert_eq!(kept.sizes().await.len(), 0);
}

#[test]
fn options_say_where_media_are_kept() {
    let options = format!("{:?}", PostgresStore::options());
    assert!(options.contains("codec: Json, media_beside: 16384"), "{options}");
}

/// Media cost a read one round trip more, and nobody else.
async fn only_a_read_of_media_is_two_round_trips() {
    let between = Between::before(SHARED.port);
    let options = options(&new_schema()).max_connections(1).media_beside(1);
    let store = options.open(address(between.port)).await.unwrap();
    let small = || Message::user([Part::Image(Media::base64("image/png", "iVBORw0K"))]);
    let of_all = async |number: usize| {
        let memory = store.memory(format!("a{number}")).unwrap();
        let references = Wanted::newest(9).references();
        let of_one = Wanted::newest(0).positions([1]);
        [
            between.turns_of(memory.add_all([small(), small()])).await,
            between.turns_of(memory.read_with(&references)).await,
            between.turns_of(memory.read(None, 9)).await,
            between.turns_of(memory.read_with(&of_one)).await,
            between.turns_of(memory.evict(1)).await,
            between.turns_of(memory.clear()).await,
        ]
    };
    takes([1, 1, 2, 2, 1, 1], of_all).await;
}

/// The bytes are read behind their records, and an eviction may come between. It comes here while
/// the second statement waits for the table.
async fn what_is_evicted_between_the_two_statements_is_read_again() {
    let mut kept = Kept::new().await;
    let memory = kept.store.memory("a").unwrap();
    memory.add_all([1, 2, 3].map(with_picture)).await.unwrap();
    let schema = kept.schema.clone();
    let lock = kept.somebody.transaction().await.unwrap();
    lock.batch_execute(&format!("LOCK TABLE \"{schema}\".media")).await.unwrap();
    let read = Wanted::newest(2).positions([0, 1]);
    let reading = tokio::spawn(async move { memory.read_with(&read).await });
    let waits = format!(
        "SELECT FROM pg_locks WHERE NOT granted AND relation = '\"{schema}\".media'::regclass"
    );
    while lock.query(&waits, &[]).await.unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let evict = format!(
        "UPDATE \"{schema}\".conversation SET start = 2;
         DELETE FROM \"{schema}\".message WHERE position < 2;
         DELETE FROM \"{schema}\".media WHERE last < 2"
    );
    lock.batch_execute(&evict).await.unwrap();
    lock.commit().await.unwrap();
    let read = reading.await.unwrap().unwrap();
    assert_eq!(is_whole(&read), 1);
    assert_eq!((read.start, read.picked().len()), (2, 0));
}

/// Pictures come, are evicted, cleared and deleted, and come again, while others read all of them.
async fn a_read_is_whole_though_media_are_evicted_meanwhile() {
    let kept = Kept::new().await;
    let stop = Arc::new(AtomicBool::new(false));
    let readers = begin(2, |_| {
        let (memory, stop) = (kept.store.memory("a").unwrap(), Arc::clone(&stop));
        async move {
            let mut found = 0;
            while !stop.load(Ordering::Relaxed) {
                let read = memory.read(None, usize::MAX).await.unwrap();
                found += is_whole(&read);
                let positions = Wanted::newest(2).positions(read.start..read.end);
                is_whole(&memory.read_with(&positions).await.unwrap());
            }
            found
        }
    });
    let memory = kept.store.memory("a").unwrap();
    for round in 0..200_u64 {
        let batch = [round, round + 1, round + 4].map(|it| with_picture(it % 6));
        let end = memory.add_all(batch).await.unwrap().end;
        match round % 50 {
            17 => memory.clear().await.unwrap(),
            34 => drop(kept.store.delete(&"a".into()).await.unwrap()),
            _ => drop(memory.evict(end.saturating_sub(1 + round % 4)).await.unwrap()),
        }
    }
    stop.store(true, Ordering::Relaxed);
    let found = end(readers).await;
    assert!(found.iter().all(|found| *found > 50), "{found:?}");
}

// ---- processes that are killed ------------------------------------------------------------------

const ROUND: &str = "MEMORY_PROMPT_PICTURES";
const SCHEMA: &str = "killed_pictures";

/// Not a test of its own: what the process does that the next test kills.
#[test]
fn painter() {
    let Ok(round) = std::env::var(ROUND) else { return };
    let (address, first) = round.rsplit_once(' ').unwrap();
    block_on(async {
        let memory = options(SCHEMA).open(address).await.unwrap().memory("a").unwrap();
        println!("begun");
        for i in first.parse::<u64>().unwrap().. {
            let end = memory.add(with_picture(i % 7)).await.unwrap() + 1;
            match i % 11 {
                10 => memory.clear().await.unwrap(),
                _ => drop(memory.evict(end.saturating_sub(i % 6)).await.unwrap()),
            }
            println!("done");
        }
    });
}

/// Each record has its media, and there are no others; each knows its newest record.
async fn is_in_order(memory: &dyn AsyncChatMemory, somebody: &Client) {
    is_whole(&memory.read(None, usize::MAX).await.unwrap());
    let read = memory.read_with(&Wanted::newest(usize::MAX).references()).await.unwrap();
    let mut newest = BTreeMap::new();
    for record in read.records.iter() {
        for media in record.message().media() {
            let Source::Reference(reference) = &media.source else { panic!("it is within") };
            newest.insert(reference.sha256.to_string(), record.position());
        }
    }
    let kept = format!("SELECT encode(hash, 'hex'), last FROM {SCHEMA}.media");
    let kept = somebody.query(&kept, &[]).await.unwrap();
    let kept = kept.iter().map(|row| (row.get(0), row.get::<_, i64>(1).cast_unsigned()));
    assert_eq!(kept.collect::<BTreeMap<String, u64>>(), newest);
}

#[test]
#[ignore = "needs PostgreSQL, and kills sixty processes"]
fn a_kill_leaves_each_record_its_media_and_no_media_without_a_record() {
    let address = format!("{}?application_name=painter", SHARED.address());
    let mut ends = BTreeSet::new();
    block_on(async {
        let somebody = connect(&SHARED.address()).await;
        let memory = options(SCHEMA).open(SHARED.address()).await.unwrap().memory("a").unwrap();
        for i in 0..60_u64 {
            let mut process = again("postgres::media::painter")
                .env(ROUND, format!("{address} {i}"))
                .spawn()
                .unwrap();
            let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
            let until = if i % 2 == 0 { "begun" } else { "done" };
            assert!(output.any(|line| line.unwrap().contains(until)), "it failed by itself");
            thread::sleep(Duration::from_micros(500 + i * 7919 % 80_000));
            process.kill().unwrap();
            assert!(process.wait().unwrap().code().is_none(), "it failed by itself");
            // The server may be about what it was sent last.
            let ends_it = "SELECT FROM pg_stat_activity WHERE application_name = 'painter'";
            while !somebody.query(ends_it, &[]).await.unwrap().is_empty() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            is_in_order(&memory, &somebody).await;
            let read = memory.read(None, 0).await.unwrap();
            ends.insert((read.start, read.end));
        }
    });
    println!("60 kills, at {} places: {ends:?}", ends.len());
    assert!(ends.len() >= 30, "{ends:?}");
}

crate::tests! { block_on:
    #[ignore = "needs PostgreSQL"]
    the_same_picture_is_kept_once_a_conversation,
    nothing_is_left_without_its_record,
    a_store_may_keep_media_within_their_messages,
    only_a_read_of_media_is_two_round_trips,
    what_is_evicted_between_the_two_statements_is_read_again,
    a_read_is_whole_though_media_are_evicted_meanwhile;
}
