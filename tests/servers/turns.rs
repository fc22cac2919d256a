//! Many conversations at once, and many turns at once on one, on a server.

use std::sync::Arc;

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::turn::ToolError;
use memory_prompt::{
    AsyncChatMemory, AsyncChatMemoryExt, AsyncChatMemoryStore, MemoryPrompt, Message, Tool,
};

use crate::booking;
use crate::tasks::{begin, end};

type Chat = Arc<Conversation<dyn AsyncChatMemory>>;

fn conversation(store: &dyn AsyncChatMemoryStore, id: &str) -> Chat {
    let model =
        |ask: Asking<'static>| async move { Ok::<_, ModelError>(booking::reply(ask.prompt())) };
    let book = |text: String| Ok::<_, ToolError>(format!("booked {text}"));
    let prompt = MemoryPrompt::new_async(store.memory(id.into()).unwrap());
    Arc::new(Conversation::new_async(prompt, model).tool(Tool::new("book", "Books."), book))
}

/// Asks so many questions, one after the other.
async fn ask(chat: Chat, who: u64, questions: u32) {
    for turn in 0..questions {
        chat.say(format!("{who} asks {turn}")).await.unwrap();
    }
}

async fn check(chat: &Chat, questions: impl Iterator<Item = String>) {
    let memory = chat.prompt().memory();
    booking::check(&memory.all().await.unwrap(), questions.collect());
    assert!(memory.slots().await.unwrap().is_empty());
}

/// 200 conversations at once, each of two turns, and then 8 times 5 turns at once on one. Each turn
/// writes itself down before its tool runs and once more with the result, so that the appends of
/// all meet.
pub(crate) async fn many_at_once(store: Arc<dyn AsyncChatMemoryStore>) {
    let chats: Vec<Chat> = (0..200).map(|i| conversation(&*store, &format!("c{i}"))).collect();
    let chat = |i: u64| Arc::clone(&chats[usize::try_from(i).unwrap()]);
    end(begin(200, |i| ask(chat(i), i, 2))).await;
    for (i, chat) in chats.iter().enumerate() {
        check(chat, (0..2).map(|turn| format!("{i} asks {turn}"))).await;
    }

    let one = conversation(&*store, "one");
    end(begin(8, |i| ask(Arc::clone(&one), i, 5))).await;
    check(&one, (0..8).flat_map(|i| (0..5).map(move |turn| format!("{i} asks {turn}")))).await;
    assert_eq!(one.say(Message::user("and now")).await.unwrap().positions, 160..164);
}
