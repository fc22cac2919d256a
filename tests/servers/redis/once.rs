//! A change is done once, however late it is asked for again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use memory_prompt::{AsyncChatMemoryExt, Message};

use super::*;
use crate::way::{Fate, way};

/// The tokens of changes: a minute was all that they were kept, whatever the timeout, and an append
/// that was asked for again after 64 seconds was stored twice.
async fn a_change_is_remembered_for_longer_than_it_is_asked_for() {
    let options = options().timeout(Duration::from_secs(600));
    let memory = options.open(&address(port())).await.unwrap().memory("a:b:c").unwrap();
    memory.add(Message::user("hi")).await.unwrap();
    let shard = memory.log_key().split_once(":log:").unwrap().0.to_owned();
    let tokens: Vec<String> = ask(port(), cmd("KEYS").arg(format!("{shard}:done:*"))).await;
    let left: u64 = ask(port(), cmd("PTTL").arg(&tokens[0])).await;
    assert!((610_000..=660_000).contains(&left), "{left}");
    // As long as anybody can say.
    let options = super::options().timeout(Duration::from_secs(1 << 33));
    let memory = options.open(&address(port())).await.unwrap().memory("a:b:c").unwrap();
    memory.add(Message::user("hi")).await.unwrap();
}

/// What the way to the server does with the next script or command, once it is told to: it holds
/// back all that comes on its connection, until it is released.
#[derive(Default)]
pub(super) struct Held {
    pub(super) told: AtomicBool,
    pub(super) holds: AtomicBool,
    pub(super) released: AtomicBool,
}

/// A way that holds back what comes on one connection, from a script on.
pub(super) fn holding_one(server: u16) -> (u16, Arc<Held>) {
    holding(server, b"EVALSHA")
}

/// A way that holds back what comes on one connection, from this word on.
pub(super) fn holding(server: u16, word: &'static [u8]) -> (u16, Arc<Held>) {
    let held = Arc::new(Held::default());
    let holds = Arc::clone(&held);
    let port = way(
        move || server,
        move |it| {
            let is_it = it.is_asked && it.bytes.windows(word.len()).any(|it| it == word);
            if is_it && holds.told.swap(false, Ordering::SeqCst) {
                holds.holds.store(true, Ordering::SeqCst);
                while !holds.released.load(Ordering::SeqCst) {
                    thread::sleep(Duration::from_millis(5));
                }
            }
            Fate::Arrives
        },
    );
    (port, held)
}

/// Many are dropped on their way, and others come behind.
async fn what_was_dropped_stands_before_what_the_same_store_did_afterwards() {
    let store: Arc<dyn AsyncChatMemoryStore> =
        Arc::new(options().open(&address(port())).await.unwrap());
    laws::what_was_dropped_is_not_done_later(Arc::clone(&store), store, 250).await;
}

crate::tests! { run:
    #[ignore = "needs redis-server"]
    a_change_is_remembered_for_longer_than_it_is_asked_for,
    what_was_dropped_stands_before_what_the_same_store_did_afterwards;
}
