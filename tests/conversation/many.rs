//! Many conversations at once, and many turns at once on one.

use std::sync::Arc;
use std::thread;

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::turn::ToolError;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, InMemoryStore, MemoryPrompt, Tool,
};

use crate::booking;

fn conversation(memory: impl ChatMemory + 'static) -> Conversation {
    let book = |text: String| Ok::<_, ToolError>(format!("booked {text}"));
    let prompt = MemoryPrompt::new(memory);
    let model = |ask: &Asking<'_>| Ok::<_, ModelError>(booking::reply(ask.prompt()));
    Conversation::new(prompt, model).tool(Tool::new("book", "Books."), book)
}

fn check(memory: &(impl ChatMemory + ?Sized), questions: Vec<String>) {
    booking::check(&memory.all().unwrap(), questions);
    assert!(memory.slots().unwrap().is_empty());
}

fn two_hundred<M: ChatMemory + 'static>(memory: impl Fn(usize) -> M) {
    let conversations: Vec<_> = (0..200).map(|i| conversation(memory(i))).collect();
    let ask = |i: usize, turn: usize| {
        conversations[i].say(format!("{i} asks {turn}")).unwrap();
    };
    // All of them are under way at once, on eight threads.
    thread::scope(|scope| {
        for worker in 0..8 {
            let ask = &ask;
            scope.spawn(move || {
                for turn in 0..2 {
                    (worker..200).step_by(8).for_each(|i| ask(i, turn));
                }
            });
        }
    });
    for i in 0..200 {
        check(&memory(i), (0..2).map(|turn| format!("{i} asks {turn}")).collect());
    }
}

fn eight(memory: impl ChatMemory + 'static) {
    let conversation = conversation(memory);
    thread::scope(|scope| {
        for i in 0..8 {
            let conversation = &conversation;
            scope.spawn(move || {
                for turn in 0..5 {
                    conversation.say(format!("{i} asks {turn}")).unwrap();
                }
            });
        }
    });
    let questions = (0..8).flat_map(|i| (0..5).map(move |turn| format!("{i} asks {turn}")));
    check(&**conversation.prompt().memory(), questions.collect());
}

#[test]
fn two_hundred_conversations_at_once_are_not_mixed() {
    let store = InMemoryStore::new();
    two_hundred(|i| store.memory(format!("c{i}")).unwrap());
}

#[test]
fn eight_turns_at_once_on_one_conversation_are_kept_whole() {
    eight(Arc::new(DefaultChatMemory::new()));
}

#[cfg(feature = "sqlite")]
#[test]
fn the_same_holds_in_sqlite() {
    let folder = crate::folder::Folder::new();
    let options = memory_prompt::SqliteStore::options();
    let options = options.durability(memory_prompt::store::Durability::Process);
    let store = options.open(folder.file("chat.db")).unwrap();
    two_hundred(|i| store.memory(format!("c{i}")).unwrap());
    eight(store.memory("one").unwrap());
}
