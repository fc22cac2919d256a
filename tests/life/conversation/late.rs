//! Late results of turns that are not stored where and when expected.

use std::sync::atomic::AtomicU32;

use memory_prompt::{ChatMemoryStore, InMemoryStore};

use super::*;
use crate::turn::end_all;

/// A request came twice. The second turn looked something up, which took too long, and was not to
/// book: nothing of it was stored, and then the result of the look-up was stored without its call.
#[test]
fn a_late_result_of_a_turn_that_is_not_stored_is_not_stored() {
    let (memory, prompt) = shared();
    let request = || Turn::from("Book.").with_id("request 9");
    let first = Conversation::new(prompt, Scripted::new().calls("book", json!({})).says("Booked."))
        .tool(Tool::new("book", "Books."), nothing);
    first.say(request()).unwrap();
    let (look, go) = held();
    let model = Scripted::new().calls("look", json!({})).calls("book", json!({"again": true}));
    let second = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .tool(Tool::new("look", "Looks.").repeatable(), look)
        .tool(Tool::new("book", "Books."), nothing)
        .call_timeout(Duration::from_millis(50));
    assert_eq!(second.say(request()).unwrap().ended, Ended::Adopted);
    go.send(()).unwrap();
    assert_eq!(second.finish(LONG), 0, "it has come");
    assert_eq!(memory.next_position().unwrap(), 4);
}

/// A payment took too long, the model failed, and the memory too: the result of the payment was
/// thrown away, though the turn waited in its slot and was ended later.
#[test]
fn a_late_result_outlives_the_failure_of_all() {
    for is_ended_here in [true, false] {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let model = {
            let memory = Arc::clone(&memory);
            move |ask: &Asking<'_>| -> Result<Message, ModelError> {
                if ask.prompt().iter().any(Message::is_tool) && ask.round() == 1 {
                    memory.fails.store(true, Ordering::Relaxed);
                    return Err("overloaded".into());
                }
                match ask.round() {
                    0 => Ok(called([("c1", "pay")])),
                    _ => Ok(Message::ai("I don't know.")),
                }
            }
        };
        let (conversation, go) = too_slow(MemoryPrompt::new(Arc::clone(&memory)), model);
        let error = conversation.say("Pay.").unwrap_err();
        assert_eq!(error.remains(), Some(Remains::Unfinished));
        assert_eq!(memory.next_position().unwrap(), 0);
        if is_ended_here {
            let unfinished = conversation.prompt().unfinished().unwrap().remove(0);
            let mut turn = conversation.prompt().adopt(&unfinished).unwrap();
            turn.interrupt(OnInterrupt::Keep);
            conversation.run(&mut turn, |_| {}).unwrap();
        } else {
            end_all(conversation.prompt());
        }
        go.send(()).unwrap();
        assert_eq!(conversation.finish(LONG), 0);
        let stored = memory.messages().unwrap();
        assert_eq!(stored.last().unwrap().text(), "paid", "{is_ended_here}");
    }
}

/// A payment was made in time, and then neither the turn nor its checkpoint could be stored. The
/// owner that adopted it did not know the outcome of the payment, which was never stored, though
/// the process that knew it was still alive. Results that came too late had been kept.
#[test]
fn a_result_that_could_not_be_stored_is_late() {
    for is_timed in [false, true] {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let wrong = Arc::clone(&memory);
        let pay = move |_: serde_json::Value| {
            wrong.fails.store(true, Ordering::Relaxed); // the checkpoint of the result
            wrong.is_unreadable.store(true, Ordering::Relaxed); // whether that was written
            Ok("paid")
        };
        let model = Scripted::new().says(called([("c1", "pay"), ("c2", "look")])).says("Hello.");
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let mut conversation = Conversation::new(prompt, model)
            .tool(Tool::new("pay", "Pays."), pay)
            .tool(Tool::new("look", "Looks.").repeatable(), nothing);
        if is_timed {
            conversation = conversation.call_timeout(LONG);
        }
        let error = conversation.say("Pay.").unwrap_err();
        assert_eq!(error.remains(), Some(Remains::Unfinished));
        assert_eq!(conversation.finish(LONG), 2, "they wait for their turn");
        end_all(conversation.prompt());
        assert_eq!(conversation.finish(LONG), 0);
        let sent = conversation.prompt().preview().unwrap();
        assert_eq!((sent[2].text(), sent[3].text()), ("paid".into(), "nothing".into()));
    }
}

/// When a payment ended, the memory could not be read for a moment, and the result was thrown away.
#[test]
fn a_late_result_outlives_a_read_that_fails() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let model = {
        let memory = Arc::clone(&memory);
        move |ask: &Asking<'_>| -> Result<Message, ModelError> {
            if ask.round() == 0 {
                return Ok(called([("c1", "pay")]));
            }
            memory.is_unreadable.store(true, Ordering::Relaxed); // the next thing is an append
            Ok(Message::ai("I don't know."))
        }
    };
    let (conversation, go) = too_slow(MemoryPrompt::new(Arc::clone(&memory)), model);
    conversation.say("Pay.").unwrap();
    go.send(()).unwrap();
    until(|| !memory.is_unreadable.load(Ordering::Relaxed));
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(memory.messages().unwrap().last().unwrap().text(), "paid");
}

/// A turn was pending approval while a payment of it took too long. Others ended it, and the result
/// of the payment waited in the process forever. If the turn was forgotten, it waited too.
#[test]
fn a_late_result_of_a_parked_turn_that_others_ended_is_stored() {
    for is_cleared in [false, true] {
        for is_asked_again in [false, true] {
            let (memory, prompt) = shared();
            let (conversation, go) = parked(prompt);
            if is_cleared {
                memory.clear().unwrap();
            } else {
                end_all(conversation.prompt());
            }
            if is_asked_again {
                conversation.say("Hi.").unwrap();
            }
            go.send(()).unwrap();
            assert_eq!(conversation.finish(LONG), 0, "it waits for nobody");
            let has_come = texts(&memory).iter().any(|it| it == "paid");
            assert_eq!(has_come, !is_cleared);
        }
    }
}

/// A payment took too long, and the conversation was begun again. The same question paid again,
/// also too slowly, and then the first payment ended: its result was stored as that of the second
/// one.
#[test]
fn a_late_result_does_not_go_into_what_was_begun_anew() {
    for is_deleted in [false, true] {
        let store = InMemoryStore::new();
        let memory = store.memory("ann").unwrap();
        memory.add(Message::user("Hello.")).unwrap(); // it has begun
        let call = || called([("call_0", "pay")]);
        let model = Scripted::new().says(call()).says("Well.").says(call()).says("Well.");
        let prompt = MemoryPrompt::new(store.memory("ann").unwrap());
        let (conversation, go) = too_slow(prompt, model);
        let request = || Turn::from("Pay.").with_id("request 1");
        conversation.say(request()).unwrap();
        if is_deleted {
            store.delete(&"ann".into()).unwrap();
        } else {
            memory.clear().unwrap();
        }
        conversation.say(request()).unwrap();
        let paid = || {
            let stored = memory.messages().unwrap();
            stored.iter().filter(|it| it.text() == "paid").count()
        };
        go.send(()).unwrap(); // the first one
        until(|| conversation.finish(Duration::ZERO) == 1);
        assert_eq!(paid(), 0);
        go.send(()).unwrap();
        assert_eq!((conversation.finish(LONG), paid()), (0, 1));
    }
}

/// The conversation got another memory while a turn of the first one was pending approval. That
/// turn was looked for in the other memory, where it is not.
#[test]
fn a_late_result_stays_with_the_memory_of_its_turn() {
    let (memory, prompt) = shared();
    let (mut conversation, go) = parked(prompt);
    let (other, _) = shared();
    conversation.prompt_mut().set_memory(Arc::clone(&other));
    conversation.say("Hi.").unwrap();
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 1, "it waits for the turn");
    end_all(&MemoryPrompt::new(Arc::clone(&memory)));
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(texts(&memory).last().unwrap(), "paid");
    assert_eq!(other.next_position().unwrap(), 2);
}

/// A model failed while a tool was late, and the turn went on with another model, in a conversation
/// of its own. The first conversation waited for the turn to be run there again, and the result was
/// never stored.
#[test]
fn a_late_result_of_a_turn_that_another_conversation_ends_is_stored() {
    let (memory, prompt) = shared();
    let model = Scripted::new().says(called([("c1", "build")])).fails("busy");
    let (build, go) = held();
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("build", "Builds.").repeatable(), build)
        .call_timeout(Duration::from_millis(20));
    let mut turn = Turn::from("Build.");
    conversation.run(&mut turn, |_| {}).unwrap_err();
    let prompt = MemoryPrompt::new(Arc::clone(&memory));
    let other = Conversation::new(prompt, Scripted::new().says("Well."));
    assert_eq!(other.run(&mut turn, |_| {}).unwrap().text(), "Well.");
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(texts(&memory).last().unwrap(), "paid");
}

/// A search took too long. Its turn failed with the memory and was run again, and this time the
/// search had a result at once. The result of the first one was stored as a second result of one
/// call.
#[test]
fn a_late_result_of_a_call_that_was_run_again_is_not_stored() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let (look, go) = held();
    let times = AtomicU32::new(0);
    let model = Scripted::new().says(called([("c1", "look"), ("c2", "book")])).says("Well.");
    let wrong = Arc::clone(&memory);
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .parallel()
        .tool(Tool::new("look", "Looks.").repeatable(), move |it| {
            if times.fetch_add(1, Ordering::Relaxed) == 0 { look(it) } else { Ok("seen") }
        })
        .tool(Tool::new("book", "Books."), move |_: serde_json::Value| {
            wrong.fails.store(true, Ordering::Relaxed);
            wrong.is_unreadable.store(true, Ordering::Relaxed);
            Ok("booked")
        })
        .call_timeout(Duration::from_secs(1)); // longer than it takes to book
    let error = conversation.say("Look and book.").unwrap_err();
    assert_eq!(error.remains(), Some(Remains::Unfinished));
    let unfinished = conversation.prompt().unfinished().unwrap().remove(0);
    let mut turn = conversation.prompt().adopt(&unfinished).unwrap();
    let done = conversation.run(&mut turn, |_| {}).unwrap();
    assert!(done.messages.iter().any(|it| it.text() == "seen"));
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    let stored = memory.messages().unwrap();
    assert!(stored.iter().all(|it| it.text() != "paid"), "it was seen");
    assert_eq!(stored.last().unwrap().text(), "booked", "nobody else knew");
}

/// A late result was larger than the memory takes. It was refused silently.
#[test]
fn a_late_result_that_is_too_large_is_told() {
    let memory = Odd::new(DefaultChatMemory::new().limits().with_message(1_000));
    let (pay, go) = held();
    let model = Scripted::new().calls("pay", json!({})).says("I don't know.");
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .tool(Tool::new("pay", "Pays."), move |it| pay(it).map(|paid| paid.repeat(1_000)))
        .call_timeout(Duration::from_millis(5));
    conversation.say("Pay.").unwrap();
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    let stored = memory.messages().unwrap();
    let last = stored.last().unwrap().text();
    assert!(last.starts_with("The result can't be stored: a message has"), "{last}");
}

/// A process asked what was left while a turn, in another thread, had the result of a slow payment
/// and still waited for its model. The answer was that nothing was left, and the process ended.
#[test]
fn a_late_result_of_a_turn_that_still_runs_is_counted() {
    let (memory, prompt) = shared();
    let ((asked, is_asked), (answer, answers)) = (channel(), channel());
    let answers = Mutex::new(answers);
    let model = move |ask: &Asking<'_>| -> Result<Message, ModelError> {
        if ask.round() == 0 {
            return Ok(called([("c1", "pay")]));
        }
        asked.send(())?;
        Ok(Message::ai(answers.lock().unwrap().recv()?))
    };
    let (conversation, go) = too_slow(prompt, model);
    thread::scope(|scope| {
        scope.spawn(|| conversation.say("Pay.").unwrap());
        is_asked.recv().unwrap();
        go.send(()).unwrap();
        let left = conversation.finish(LONG);
        answer.send("I don't know.").unwrap();
        assert_eq!(left, 1, "it has come, and its turn is not stored");
    });
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(texts(&memory).last().unwrap(), "paid");
}

/// Payments of 258 turns took too long, and the turns were kept and never run again. Two results
/// were thrown away, and `finish` counted those that were left.
#[test]
fn late_results_that_are_thrown_away_are_counted() {
    let model = |ask: &Asking<'_>| -> Result<Message, ModelError> {
        if ask.round() > 0 {
            return Err("overloaded".into());
        }
        Ok(called([("c1", "pay")]))
    };
    let (conversation, go) = too_slow(MemoryPrompt::new(Odd::new(Limits::default())), model);
    let conversation = conversation.call_timeout(Duration::from_millis(1));
    for n in 1..=258 {
        assert!(conversation.run(&mut Turn::from("Pay."), |_| {}).is_err());
        go.send(()).unwrap();
        let lost = usize::from(n > 256);
        assert_eq!(conversation.finish(LONG), 256.min(n) + lost, "each is told once");
    }
    assert_eq!(conversation.finish(LONG), 256);
}

/// The memory panicked when the result of a slow payment came, on the thread of the tool. That tool
/// was then waited for until the time was up, and took up the slot of another tool forever. The
/// result was lost too, though the memory worked again later.
#[test]
fn a_memory_that_panics_is_not_waited_for() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let model = Scripted::new().calls("pay", json!({})).says("I don't know.").says("Hello.");
    let (conversation, go) = too_slow(MemoryPrompt::new(Arc::clone(&memory)), model);
    conversation.say("Pay.").unwrap();
    memory.panics.store(true, Ordering::Relaxed);
    let since = Instant::now();
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    assert!(since.elapsed() < LONG / 2);
    let paid = memory.messages().unwrap().iter().filter(|it| it.text() == "paid").count();
    assert_eq!(paid, 1);
    assert_eq!(conversation.say("Hi.").unwrap().text(), "Hello.");
}

/// A turn that its owner keeps, and that is in no slot, was begun before the conversation was
/// cleared: its late result waited forever for the owner to run it again.
#[test]
fn a_late_result_of_a_turn_whose_conversation_is_gone_is_let_go() {
    let memory = Odd::new(DefaultChatMemory::new().limits().with_slot(500));
    let model = Scripted::new().calls("clear", json!({})).calls("pay", json!({})).says("Paid.");
    let (conversation, go) = too_slow(MemoryPrompt::new(Arc::clone(&memory)), model);
    let cleared = Arc::clone(&memory);
    let clear = Tool::new("clear", "Clears.").repeatable();
    let conversation =
        conversation.call_timeout(Duration::from_millis(50)).tool(clear, move |()| {
            cleared.clear()?;
            Ok("cleared")
        });
    memory.append(&mut vec![Message::user("Hello.")], None).unwrap();
    let mut turn = Turn::from("x".repeat(500));
    let error = conversation.run(&mut turn, |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Forgotten);
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    assert!(memory.messages().unwrap().is_empty());
}

/// The same turn, without a late result, is run twice more, the last time while the memory fails:
/// the result of its look-up was kept once for each run, and waited forever for the next run.
#[test]
fn nothing_waits_for_another_run_of_a_turn_whose_conversation_is_gone() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let cleared = Arc::clone(&memory);
    let model = Scripted::new().calls("look", json!({})).says("Seen.");
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model).tool(
        Tool::new("look", "Looks.").repeatable(),
        move |()| {
            cleared.clear()?;
            Ok("seen")
        },
    );
    memory.append(&mut vec![Message::user("Hello.")], None).unwrap();
    let mut turn = Turn::from("Look.");
    for is_failing in [false, false, true] {
        memory.fails.store(is_failing, Ordering::Relaxed);
        let error = conversation.run(&mut turn, |_| {}).unwrap_err();
        assert_eq!(error.kind() == ErrorKind::Forgotten, !is_failing);
    }
    assert_eq!(conversation.finish(LONG), 0);
    assert!(memory.messages().unwrap().is_empty());
}

/// While a payment took hours, each later turn read everything that was said since, with its
/// pictures.
#[test]
fn a_tool_that_runs_on_costs_other_turns_nothing() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let model = |ask: &Asking<'_>| -> Result<Message, ModelError> {
        let is_pay = ask.round() == 0 && ask.prompt().iter().last().unwrap().text() == "Pay.";
        Ok(if is_pay { called([("c1", "pay")]) } else { Message::ai("Hello.") })
    };
    let (conversation, go) = too_slow(MemoryPrompt::new(Arc::clone(&memory)), model);
    let cost = || {
        let before = memory.operations();
        conversation.say("Hello?").unwrap();
        memory.operations() - before
    };
    let alone = cost();
    conversation.say("Pay.").unwrap();
    assert_eq!(cost(), alone);
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(memory.messages().unwrap().last().unwrap().text(), "paid");
}
