//! What a Cassandra store tells those who listen, and counts for those who ask.

use memory_prompt::{AsyncChatMemoryExt, Message};

use super::*;
use crate::listener::Listener;

/// A lost race is told, and no text with it.
#[test]
#[ignore = "needs Apache Cassandra"]
fn lost_races_are_told_without_text() {
    let listener = Listener::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(listener.clone(), || {
        runtime.block_on(async {
            let (keyspace, store) = Keyspace::take(CassandraStore::options()).await;
            let options = CassandraStore::options().keyspace(&keyspace.0);
            let rival = options.open(&NODE.address).await.unwrap();
            store.ping().await.unwrap();
            assert_eq!(store.figures().connections, 1);
            // In one process they take turns; two stores do not know of each other.
            let memories = [&store, &rival].map(|it| it.memory("id-of-somebody").unwrap());
            let mut rounds = 0;
            while store.figures().lost_races + rival.figures().lost_races == 0 {
                let [one, other] = memories.each_ref().map(|it| it.add(Message::user("secret")));
                let (one, other) = tokio::join!(one, other);
                assert_ne!(one.unwrap(), other.unwrap());
                rounds += 1;
                assert!(rounds < 1_000, "nobody ever lost");
            }
            let end = memories[0].next_position().await.unwrap();
            assert_eq!(end, 2 * rounds);
            assert_eq!(store.figures().under_way, 0);
            memories[0].clear().await.unwrap();
        });
    });
    let lost = ["DEBUG", "lost race", "backend=\"cassandra\"", "operation=\"append\""];
    assert!(listener.count(&lost) > 0);
    let notes = listener.notes();
    for note in notes.iter().filter(|note| note.contains("memory_prompt")) {
        assert!(!note.contains("secret") && !note.contains("somebody"), "{note}");
    }
}
