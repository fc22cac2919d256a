//! What things cost, as the server itself counts.

use memory_prompt::memory::{Append, Expected, Read};
use memory_prompt::{AsyncChatMemoryExt, Message};

use super::media::picture;
use super::*;

/// Counts by a server of its own, so that nobody else is counted.
struct Counts(ConnectionManager);

impl Counts {
    async fn get(&mut self, name: &str) -> u64 {
        let info: String = cmd("INFO").arg("stats").query_async(&mut self.0).await.unwrap();
        let value = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        value.unwrap().trim().parse().unwrap()
    }

    /// How much more it counts after this was done, the asking aside.
    async fn of(&mut self, name: &str, what: impl Future<Output = ()>) -> u64 {
        let (first, before) = (self.get(name).await, self.get(name).await);
        what.await;
        self.get(name).await - before - (before - first)
    }
}

/// A turn is two round trips: one that appends, and one that reads. So it is with an id, slots and
/// times, and with slots and single records that are read. (The fewest of some tries count: what
/// comes in pieces is read in pieces.)
async fn a_turn_is_two_round_trips() {
    const TURNS: u64 = 25;
    let (_server, port) = server("redis-cost", &[]);
    let memory = options().open(&address(port)).await.unwrap().memory("a:b:c").unwrap();
    memory.add(Message::user("the server learns the scripts")).await.unwrap();
    let mut counts = Counts(connect(port).await);
    let mut fewest = [u64::MAX; 2];
    for round in 0..4 {
        let plain = counts.of("total_reads_processed", async {
            for _ in 0..TURNS {
                memory.add_all([Message::user("hi"), Message::ai("hello")]).await.unwrap();
                memory.read(None, 10).await.unwrap();
            }
        });
        let plain = plain.await;
        let with = counts.of("total_reads_processed", async {
            for turn in 0..TURNS {
                let append = Append::new([Message::user("hi"), Message::ai("hello")]);
                let append = append.with_id(format!("{round} {turn}"));
                let append = append.remove_slot("turn", Expected::Any);
                let mut append = append.set_slot("a", "x", Expected::Any);
                memory.append_with(&mut append).await.unwrap();
                let read = Read::newest(10).slots(["a", "b"]).positions([3, 5]);
                assert_eq!(memory.read_with(&read).await.unwrap().picked().len(), 2);
            }
        });
        fewest = [fewest[0].min(plain), fewest[1].min(with.await)];
    }
    assert_eq!(fewest, [2 * TURNS; 2]);
}

/// A read transfers the slots that it names and no other, and neither does a list of them.
async fn a_slot_is_transferred_where_it_is_named() {
    const SIZE: u64 = 1 << 20;
    let (_server, port) = server("redis-slots", &[]);
    let memory = options().open(&address(port)).await.unwrap().memory("a:b:c").unwrap();
    memory.add(Message::user("hi")).await.unwrap();
    memory.set_slot("large", vec![7; 1 << 20], Expected::Any).await.unwrap();
    memory.set_slot("small", "x", Expected::Any).await.unwrap();
    let mut counts = Counts(connect(port).await);
    let few = counts.of("total_net_output_bytes", async {
        memory.read(None, 10).await.unwrap();
        memory.slot("small").await.unwrap();
        memory.slots().await.unwrap();
        memory.add(Message::user("hi")).await.unwrap();
    });
    assert!(few.await < 10_000);
    let many = counts.of("total_net_output_bytes", async {
        memory.slot("large").await.unwrap();
    });
    assert!((SIZE..SIZE + 10_000).contains(&many.await));
}

/// A read has one round trip more where it brings pictures, and none where references will do. A
/// picture that is known is not written again.
async fn pictures_are_one_command_more() {
    // It is written before the answer: by default that waits while the disk is busy with more.
    let settings = ["--appendonly", "yes", "--appendfsync", "no"];
    let (_server, port) = server("redis-pictures", &settings);
    let memory = options().open(&address(port)).await.unwrap().memory("a:b:c").unwrap();
    memory.add_all((0..20).map(picture)).await.unwrap();
    let mut counts = Counts(connect(port).await);
    let read = Read::newest(10).positions([3, 5]);
    let commands = counts.of("total_commands_processed", async {
        assert_eq!(memory.read_with(&read).await.unwrap().records.len(), 10);
    });
    let with = commands.await;
    let read = read.references();
    let commands = counts.of("total_commands_processed", async {
        assert_eq!(memory.read_with(&read).await.unwrap().records.len(), 10);
    });
    assert_eq!(with, commands.await + 1);
    let written = async || {
        let info: String = ask(port, cmd("INFO").arg("persistence")).await;
        let size = info.lines().find_map(|line| line.strip_prefix("aof_current_size:"));
        size.unwrap().trim().parse::<u64>().unwrap()
    };
    let before = written().await;
    memory.add_all((0..20).map(picture)).await.unwrap();
    assert!(written().await - before < 20_000);
    memory.add(picture(20)).await.unwrap();
    assert!(written().await - before > 24_000);
}

/// Neighbours are on different shards. They were on few, and each of the pages that a listing then
/// needed asked all shards: 38,120 commands for these.
async fn a_thousand_neighbours_are_listed_in_a_few_commands() {
    let (_server, port) = server("redis-list", &[]);
    let store = options().open(&address(port)).await.unwrap();
    for i in 1000..2000 {
        store.memory(format!("conv-{i}")).unwrap().add(Message::user("hi")).await.unwrap();
        store.memory(format!("other-{i}")).unwrap().add(Message::user("hi")).await.unwrap();
    }
    let mut counts = Counts(connect(port).await);
    let commands = counts.of("total_commands_processed", async {
        let ids = store.ids_with_prefix("conv-", None, 1000).await.unwrap();
        let ids = ids.iter().map(ToString::to_string);
        assert!(ids.eq((1000..2000).map(|i| format!("conv-{i}"))));
    });
    let commands = commands.await;
    println!("{commands} commands list a thousand of two thousand");
    assert!(commands <= 1256, "{commands}");
    let commands = counts.of("total_commands_processed", async {
        assert_eq!(store.delete_prefix("conv-1").await.unwrap(), 1000);
    });
    println!("{} commands delete them", commands.await);
    assert_eq!(store.ids(None, 3000).await.unwrap().len(), 1000);
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    a_turn_is_two_round_trips,
    a_slot_is_transferred_where_it_is_named,
    pictures_are_one_command_more,
    a_thousand_neighbours_are_listed_in_a_few_commands;
}
