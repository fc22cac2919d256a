//! What a Redis store tells those who listen, and counts for those who ask.

use std::time::Duration;

use memory_prompt::memory::{Append, Expected};
use memory_prompt::{AsyncChatMemory, AsyncChatMemoryExt, Message};

use super::{address, options, server};
use crate::listener::Listener;

/// Retries and reconnects are told where a server dies, and no text with them.
#[test]
#[ignore = "needs redis-server"]
fn retries_reconnects_and_drops_are_told_without_text() {
    let listener = Listener::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tracing::subscriber::with_default(listener.clone(), || {
        runtime.block_on(async {
            let (server, port) = server("redis-observed", &[]);
            let store = options().open(&address(port)).await.unwrap();
            store.ping().await.unwrap();
            let memory = store.memory("id-of-somebody").unwrap();
            memory.add(Message::user("secret a")).await.unwrap();
            let figures = store.figures();
            assert_eq!((figures.connections, figures.under_way, figures.retries), (1, 0, 0));
            server.kill();
            let append = Append::new([Message::user("secret b")]).with_id("secret c");
            let mut append = append.set_slot("secret d", "secret e", Expected::Any);
            {
                let mut appending = std::pin::pin!(memory.append_with(&mut append));
                let waits = tokio::time::timeout(Duration::from_millis(300), &mut appending).await;
                assert!(waits.is_err(), "there is no server");
                assert_eq!(store.figures().under_way, 1);
                server.restart();
                appending.await.unwrap();
            }
            server.freeze();
            let dropped = memory.add(Message::user("secret f"));
            let dropped = tokio::time::timeout(Duration::from_millis(50), dropped).await;
            assert!(dropped.is_err(), "nobody answers");
            server.thaw();
            let figures = store.figures();
            assert_eq!((figures.connections, figures.under_way), (1, 0));
            assert!(figures.retries > 0 && figures.reconnects == 1, "{figures:?}");
        });
    });
    let notes = listener.notes();
    let own: Vec<_> = notes.iter().filter(|note| note.contains("memory_prompt")).collect();
    assert!(listener.count(&["WARN", "retry", "reason="]) > 0, "{own:#?}");
    assert_eq!(listener.count(&["WARN", "reconnect"]), 1, "{own:#?}");
    assert_eq!(listener.count(&["dropped", "append"]), 1, "{own:#?}");
    assert!(listener.count(&["span", "operation=\"ping\""]) == 1, "{own:#?}");
    for note in own {
        assert!(!note.contains("secret") && !note.contains("somebody"), "{note}");
    }
}
