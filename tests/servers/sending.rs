//! What prompts send beside the window, on every network backend: pins and recall, and nothing that
//! was forgotten.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use memory_prompt::memory::MemoryId;
use memory_prompt::report::Origin;
use memory_prompt::summary::{Compaction, CompactionPolicy};
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryStore, MemoryPrompt, Message, Recall, ToolCall,
};

type AsyncPrompt = MemoryPrompt<dyn AsyncChatMemory>;

fn chatter(n: usize) -> impl Iterator<Item = Message> {
    (0..n).map(|i| Message::ai(format!("Nothing of note happened on day {i}.")))
}

/// The positions of records that are sent, in order.
async fn sent(prompt: &AsyncPrompt) -> Vec<u64> {
    let built = prompt.preview().await.unwrap();
    let origins = built.with_origins().map(|(origin, _)| origin);
    let position =
        |origin| if let Origin::History(position) = origin { Some(position) } else { None };
    origins.filter_map(position).collect()
}

/// Waits for both, which go on at once.
async fn both<A, B>(a: impl Future<Output = A>, b: impl Future<Output = B>) -> (A, B) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none() {
            first = ready(a.as_mut().poll(context));
        }
        if second.is_none() {
            second = ready(b.as_mut().poll(context));
        }
        if first.is_none() || second.is_none() {
            return Poll::Pending;
        }
        Poll::Ready((first.take().unwrap(), second.take().unwrap()))
    })
    .await
}

fn ready<T>(poll: Poll<T>) -> Option<T> {
    if let Poll::Ready(value) = poll { Some(value) } else { None }
}

/// All of it, as two processes see it.
pub(crate) async fn pins_and_recall_obey_what_is_forgotten(
    store: Arc<dyn AsyncChatMemoryStore>,
    other: Arc<dyn AsyncChatMemoryStore>,
) {
    a_summary_is_stored_once_and_taken_back(&*store, &*other).await;
    pins_are_seen_by_all_and_forgotten_with_the_rest(&*store, &*other).await;
    what_was_forgotten_is_never_recalled(&*store).await;
}

/// A pin of one process is sent by another one, and goes when it is evicted, cleared or deleted.
async fn pins_are_seen_by_all_and_forgotten_with_the_rest(
    store: &dyn AsyncChatMemoryStore,
    other: &dyn AsyncChatMemoryStore,
) {
    for ends in ["evicted", "cleared", "deleted"] {
        let id = MemoryId::from(format!("pins:{ends}"));
        let over = |store: &dyn AsyncChatMemoryStore| {
            MemoryPrompt::new_async(store.memory(id.clone()).unwrap()).max_messages(2).with_pins()
        };
        let (here, there) = (over(store), over(other));
        let call = Message::ai_calls([ToolCall::new("c", "look", "{}")]);
        here.add_all([call, Message::tool("c", "look", "seen")]).await.unwrap();
        here.add_all(chatter(30)).await.unwrap();
        assert_eq!(sent(&there).await, [30, 31]);
        assert_eq!(here.pin(1).await.unwrap(), [0, 1]);
        let (five, nine) = both(here.pin(5), there.pin(9)).await;
        assert_eq!((five.unwrap(), nine.unwrap()), (vec![5], vec![9]));
        for prompt in [&here, &there, &there] {
            assert_eq!(sent(prompt).await, [0, 1, 5, 9, 30, 31]);
        }
        assert!(there.unpin(9).await.unwrap());
        match ends {
            "evicted" => {
                here.memory().evict(1).await.unwrap();
                assert_eq!(sent(&there).await, [5, 30, 31]);
            }
            "cleared" => {
                here.memory().clear().await.unwrap();
                there.add_all(chatter(3)).await.unwrap();
                assert_eq!(sent(&there).await, [33, 34]);
            }
            _ => {
                store.delete(&id).await.unwrap();
                there.add_all(chatter(20)).await.unwrap();
                assert_eq!(sent(&there).await, [18, 19]);
                assert!(here.pins().await.unwrap().is_empty());
            }
        }
    }
}

/// A summary of one process is sent by another one and stored once; the one before comes back.
async fn a_summary_is_stored_once_and_taken_back(
    store: &dyn AsyncChatMemoryStore,
    other: &dyn AsyncChatMemoryStore,
) {
    let over = |store: &dyn AsyncChatMemoryStore| {
        let memory = store.memory(MemoryId::from("summaries")).unwrap();
        MemoryPrompt::new_async(memory).max_messages(2).with_summary()
    };
    let (here, there) = (over(store), over(other));
    let policy = CompactionPolicy::messages(4, 6).unwrap();
    for round in 1..=2 {
        for i in 0..5 {
            let talk = [Message::user(format!("question {i}")), Message::ai("answer")];
            here.add_all(talk).await.unwrap();
        }
        let wrote = |due: Compaction| async move {
            Ok::<_, std::io::Error>(format!("Round {round} up to {}.", due.covers))
        };
        let (here_is, there_is) =
            both(here.compact(&policy, wrote), there.compact(&policy, wrote)).await;
        let stored = [here_is.unwrap(), there_is.unwrap()];
        assert!(stored.contains(&true), "{stored:?}");
        for prompt in [&here, &there] {
            assert_eq!(prompt.summary().await.unwrap().unwrap().covers, [6, 16][round - 1]);
        }
    }
    assert!(there.undo_summary().await.unwrap());
    assert_eq!(here.summary().await.unwrap().unwrap().text, "Round 1 up to 6.");
    assert_eq!(here.preview().await.unwrap().report().summary, Some(6));
    assert!(here.undo_summary().await.unwrap());
    assert!(there.summary().await.unwrap().is_none());
}

/// What was evicted, cleared or deleted is recalled by no prompt, though its index knows the words.
async fn what_was_forgotten_is_never_recalled(store: &dyn AsyncChatMemoryStore) {
    let recall = Recall::words().least_score(0.0);
    let question = || Message::user("What is the password?");
    for ends in ["evicted", "cleared", "deleted"] {
        let id = MemoryId::from(format!("recall:{ends}"));
        let memory = store.memory(id.clone()).unwrap();
        let prompt = MemoryPrompt::new_async(memory).max_messages(1).recall(recall.clone());
        prompt.add(Message::user("The password is swordfish.")).await.unwrap();
        prompt.add_all(chatter(40)).await.unwrap();
        prompt.add(question()).await.unwrap();
        assert!(tells(&prompt).await, "{ends}");
        match ends {
            "evicted" => drop(prompt.memory().evict(1).await.unwrap()),
            "cleared" => prompt.memory().clear().await.unwrap(),
            _ => {
                store.delete(&id).await.unwrap();
                prompt.add_all(chatter(60)).await.unwrap();
            }
        }
        prompt.add(question()).await.unwrap();
        assert!(!tells(&prompt).await, "{ends}");
    }
}

async fn tells(prompt: &AsyncPrompt) -> bool {
    let built = prompt.preview().await.unwrap();
    built.iter().any(|message| message.text().contains("swordfish"))
}
