//! Many conversations at once, and many turns at once on one.

use memory_prompt::turn::OnConflict;
use memory_prompt::{InMemoryStore, MessageWindowChatMemory};

use super::*;
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

/// Six turns at once, in a window of four messages: answers that were paid for were `Forgotten`,
/// since everything that their turns had seen was evicted meanwhile, as if it had been cleared.
#[test]
fn an_eviction_is_no_clear() {
    for (is_cleared, calls) in [(false, false), (false, true), (true, false), (true, true)] {
        let window = MessageWindowChatMemory::new(DefaultChatMemory::new(), 4).unwrap();
        let prompt = MemoryPrompt::new(Arc::new(window));
        prompt.add_all((0..4).map(|n| Message::user(n.to_string()))).unwrap();
        let mut turns: Vec<_> = (0..6).map(|n| Turn::from(format!("question {n}"))).collect();
        for turn in &mut turns {
            let Next::Ask(_) = turn.next(&prompt).unwrap() else { panic!() };
            if calls {
                let call = ToolCall::new("c1", "book", "{}");
                turn.answer(Message::ai_calls([call])).unwrap();
                let Next::Call(_) = turn.next(&prompt).unwrap() else { panic!() };
                turn.result("c1", Ok("booked")).unwrap();
                let Next::Ask(_) = turn.next(&prompt).unwrap() else { panic!() };
            }
            turn.answer("paid for").unwrap();
        }
        if is_cleared {
            prompt.memory().clear().unwrap();
        }
        for turn in &mut turns {
            let next = turn.next(&prompt);
            if is_cleared {
                assert_eq!(next.unwrap_err().kind(), ErrorKind::Forgotten);
            } else {
                let Next::Done(done) = next.unwrap() else { panic!() };
                assert_eq!(done.text(), "paid for");
            }
        }
        // Who wants no conflict has one.
        let mut turn = Turn::from("And now?").on_conflict(OnConflict::Fail);
        turn.next(&prompt).unwrap();
        turn.answer("Yes.").unwrap();
        prompt.add_all((0..9).map(|n| Message::user(n.to_string()))).unwrap();
        let conflict = turn.next(&prompt).unwrap_err();
        assert!(matches!(conflict.kind(), ErrorKind::Conflict { .. }), "{conflict}");
    }
    let window = MessageWindowChatMemory::new(DefaultChatMemory::new(), 4).unwrap();
    let conversation = conversation(Arc::new(window));
    thread::scope(|scope| {
        for n in 0..6 {
            let conversation = &conversation;
            scope.spawn(move || {
                for turn in 0..20 {
                    let done = conversation.say(format!("{n} asks {turn}")).unwrap();
                    assert!(!done.text().is_empty());
                }
            });
        }
    });
}

/// The same in the asynchronous form.
#[cfg(feature = "async")]
#[test]
fn an_eviction_is_no_clear_for_async_turns() {
    use crate::conversation::faults::{Slow, polled};

    for is_cleared in [false, true] {
        let window = MessageWindowChatMemory::new(DefaultChatMemory::new(), 4).unwrap();
        let memory = Arc::new(window);
        let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
        memory.add_all((0..4).map(|n| Message::user(n.to_string()))).unwrap();
        let mut turn = Turn::from("And now?");
        let Next::Ask(_) = polled(turn.next_async(&prompt), 100).unwrap().unwrap() else {
            panic!()
        };
        turn.answer("paid for").unwrap();
        memory.add_all((0..9).map(|n| Message::user(n.to_string()))).unwrap();
        if is_cleared {
            memory.clear().unwrap();
        }
        let next = polled(turn.next_async(&prompt), 100).unwrap();
        if is_cleared {
            assert_eq!(next.unwrap_err().kind(), ErrorKind::Forgotten);
        } else {
            assert!(matches!(next.unwrap(), Next::Done(_)));
        }
    }
}
