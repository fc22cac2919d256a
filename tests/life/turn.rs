//! Turns: what is sent in the middle of one, what is stored at its end, and what is known after a
//! crash.

mod kept;
mod late;
mod twice;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::counted::counted;
use crate::history::Changing;
use crate::odd::Odd;
use memory_prompt::compose::Placement;
use memory_prompt::memory::{Append, Limits, MemoryId};
use memory_prompt::record::Snapshot;
use memory_prompt::turn::{
    Ask, Call, Done, Ended, Next, OnConflict, OnInterrupt, OnNoCheckpoint, Reply, ToolError, Turn,
};
use memory_prompt::wire::{Stop, anthropic, ollama};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, DefaultChatMemory, ErrorKind, InMemoryStore,
    MemoryPrompt, Message, Provider, Result, Tool, ToolCall, Window,
};
use proptest::prelude::*;
use serde_json::json;

fn calls<const N: usize>(named: [(&str, &str); N]) -> Message {
    Message::ai_calls(named.map(|(id, tool)| ToolCall::new(id, tool, r#"{"n":1}"#)))
}

fn tools() -> [Tool; 2] {
    [Tool::new("book", "Books."), Tool::new("look", "Looks.").repeatable()]
}

fn ask(turn: &mut Turn, prompt: &MemoryPrompt) -> Ask {
    match turn.next(prompt).unwrap() {
        Next::Ask(ask) => ask,
        other => panic!("{other:?}"),
    }
}

fn call(turn: &mut Turn, prompt: &MemoryPrompt) -> Vec<Call> {
    match turn.next(prompt).unwrap() {
        Next::Call(calls) => calls,
        other => panic!("{other:?}"),
    }
}

fn done(turn: &mut Turn, prompt: &MemoryPrompt) -> Done {
    match turn.next(prompt).unwrap() {
        Next::Done(done) => done,
        other => panic!("{other:?}"),
    }
}

#[allow(clippy::unnecessary_wraps)] // as a tool says it
fn ok(text: &str) -> Result<&str, ToolError> {
    Ok(text)
}

/// What is stored.
pub(crate) fn texts(memory: &(impl ChatMemory + ?Sized)) -> Vec<String> {
    memory.all().unwrap().messages().map(|it| it.text().into_owned()).collect()
}

/// A prompt over a conversation that others can hold too.
fn shared() -> (Arc<DefaultChatMemory>, MemoryPrompt) {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).window(Window::all());
    (memory, prompt)
}

/// The same over a memory that goes wrong when it is told to.
fn odd() -> (Arc<Odd>, MemoryPrompt) {
    limited(DefaultChatMemory::new().limits())
}

/// The same with these limits.
fn limited(limits: Limits) -> (Arc<Odd>, MemoryPrompt) {
    let memory = Odd::new(limits);
    let prompt = MemoryPrompt::new(Arc::clone(&memory));
    (memory, prompt)
}

/// Goes on to where the answer of the memory gets lost.
fn unheard(memory: &Odd, turn: &mut Turn, prompt: &MemoryPrompt) {
    memory.loses.store(true, Ordering::Relaxed);
    assert_eq!(turn.next(prompt).unwrap_err().kind(), ErrorKind::Unacknowledged);
}

/// Asks, and the model wants to call these.
fn wants<const N: usize>(mut turn: Turn, prompt: &MemoryPrompt, named: [(&str, &str); N]) -> Turn {
    ask(&mut turn, prompt);
    turn.answer(calls(named)).unwrap();
    turn
}

/// A turn that has asked this, and whose model wants to call these.
fn calling<const N: usize>(
    prompt: &mut MemoryPrompt,
    question: &str,
    named: [(&str, &str); N],
) -> Turn {
    wants(prompt.turn(question).tools(tools()), prompt, named)
}

/// A turn that has asked, and whose model wants to book.
fn booking(prompt: &mut MemoryPrompt) -> Turn {
    calling(prompt, "Book it.", [("c1", "book")])
}

/// The same, once it has been handed the call.
fn begun(prompt: &mut MemoryPrompt) -> Turn {
    let mut turn = booking(prompt);
    call(&mut turn, prompt);
    turn
}

/// Is handed the calls that wait; of this one comes this.
fn runs(turn: &mut Turn, prompt: &MemoryPrompt, id: &str, result: &str) {
    call(turn, prompt);
    turn.result(id, ok(result)).unwrap();
}

/// Asks once more, is told this, and ends.
fn answered(turn: &mut Turn, prompt: &MemoryPrompt, text: &str) -> Done {
    ask(turn, prompt);
    turn.answer(text).unwrap();
    done(turn, prompt)
}

/// The first turn that was left over, in new hands.
fn adopted(prompt: &MemoryPrompt) -> Turn {
    prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap().tools(tools())
}

/// Others adopt what there is, and end it.
pub(crate) fn end_all(prompt: &MemoryPrompt) {
    for unfinished in prompt.unfinished().unwrap() {
        let mut turn = prompt.adopt(&unfinished).unwrap();
        turn.interrupt(OnInterrupt::Keep);
        done(&mut turn, prompt);
    }
}

/// An answer that ended for this reason.
pub(crate) fn stopped(answer: impl Into<Reply>, why: Stop) -> Reply {
    let mut reply = answer.into();
    reply.stop = Some(why);
    reply
}

/// The turn as another process has it that was handed it.
pub(crate) fn copy(turn: &Turn) -> Turn {
    serde_json::from_str(&serde_json::to_string(turn).unwrap()).unwrap()
}

/// The question stayed in memory when the model failed, and the next try asked it twice.
#[test]
fn a_turn_that_comes_to_nothing_stores_nothing() {
    let (memory, mut prompt) = shared();
    prompt.add_temporary(Message::user("Today is Friday."));
    let mut turn = prompt.turn(Message::user("hi"));
    assert_eq!(ask(&mut turn, &prompt).prompt().len(), 2);
    assert_eq!(prompt.temporaries().len(), 0);
    assert_eq!(turn.into_temporaries(), [Message::user("Today is Friday.")]);
    assert_eq!(memory.next_position().unwrap(), 0);
}

#[test]
fn a_turn_is_stored_whole_and_its_slot_is_gone() {
    let (memory, mut prompt) = shared();
    let mut turn = booking(&mut prompt);
    assert!(memory.slots().unwrap().is_empty());
    let handed_out = call(&mut turn, &prompt);
    assert_eq!(handed_out[0].name(), "book");
    assert!(handed_out[0].is_checkpointed() && !handed_out[0].may_have_run());
    assert_eq!(memory.slots().unwrap().len(), 1, "it is written down before it runs");
    assert_eq!(memory.next_position().unwrap(), 0);
    turn.result("c1", ok("ref 7XK")).unwrap();
    assert_eq!(ask(&mut turn, &prompt).round(), 1);
    turn.answer(Message::ai("Booked.")).unwrap();
    let done = done(&mut turn, &prompt);
    assert_eq!((done.positions, done.ended), (0..4, Ended::Answered));
    assert_eq!(texts(&*memory), ["Book it.", "", "ref 7XK", "Booked."]);
    assert!(memory.slots().unwrap().is_empty());
}

/// Nothing is written before the end where all that runs may run again.
#[test]
fn a_repeatable_tool_leaves_no_checkpoint() {
    let (memory, mut prompt) = shared();
    let mut turn = calling(&mut prompt, "Look.", [("c1", "look"), ("c2", "look")]);
    assert!(call(&mut turn, &prompt).iter().all(|call| !call.is_checkpointed()));
    turn.result("c2", ok("b")).unwrap();
    assert_eq!(call(&mut turn, &prompt).len(), 1, "one still waits");
    turn.result("c1", Err::<&str, _>(ToolError::new("it is dark"))).unwrap();
    assert!(turn.result("c1", ok("again")).is_err());
    ask(&mut turn, &prompt);
    assert!(memory.slots().unwrap().is_empty());
}

/// The process died while the tool ran. The next turn's model did not know, and booked again.
#[test]
fn a_crash_while_a_tool_runs_is_known_to_the_next_turn() {
    let (memory, mut prompt) = shared();
    drop(begun(&mut prompt));

    let mut next = prompt.turn(Message::user("Did it work?"));
    let sent = ask(&mut next, &prompt);
    let told = sent.prompt().iter().map(|it| it.text().into_owned()).collect::<Vec<_>>();
    assert_eq!(told[1], "Did it work?");
    assert!(told[0].contains(r#"book {"n":1}: its outcome is not known yet"#), "{told:?}");

    // Somebody finds out, and goes on with the first turn.
    let unfinished = prompt.unfinished().unwrap().remove(0);
    let others = prompt.unfinished().unwrap().remove(0);
    assert_eq!(unfinished.calls()[0].tool, "book");
    prompt.adopt(&unfinished).unwrap(); // the answer got lost
    let mut adopted = adopted(&prompt);
    assert_eq!(prompt.adopt(&others).unwrap_err().kind(), ErrorKind::SlotConflict);
    assert!(call(&mut adopted, &prompt)[0].may_have_run());
    adopted.result("c1", ok("ref 7XK")).unwrap();
    assert_eq!(answered(&mut adopted, &prompt, "Booked.").positions, 0..4);
    assert!(prompt.unfinished().unwrap().is_empty());
    assert_eq!(memory.next_position().unwrap(), 4);
}

/// What a tool has said is written down before the model is asked: after a crash it is not asked
/// again.
#[test]
fn results_are_written_down_before_the_model_is_asked() {
    let (_, mut prompt) = shared();
    let mut turn = booking(&mut prompt);
    runs(&mut turn, &prompt, "c1", "ref 7XK");
    ask(&mut turn, &prompt);
    drop(turn);
    let begun = prompt.unfinished().unwrap()[0].calls();
    assert_eq!(begun[0].result.as_deref(), Some("ref 7XK"));
    let mut next = prompt.turn(Message::user("Did it work?"));
    let sent = ask(&mut next, &prompt);
    assert!(sent.prompt()[0].text().contains(r#"book {"n":1}: its result is "ref 7XK""#));
}

/// A worker seemed dead, another one took its turn over, and then the first came back with the
/// reference.
#[test]
fn the_first_owner_of_an_adopted_turn_appends_late_results() {
    let (memory, mut prompt) = shared();
    let mut first = begun(&mut prompt);
    let mut second = adopted(&prompt);
    first.result("c1", ok("ref 7XK")).unwrap();
    assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Adopted);
    assert_eq!(memory.next_position().unwrap(), 0);

    call(&mut second, &prompt);
    second.interrupt(OnInterrupt::Keep);
    assert_eq!(done(&mut second, &prompt).ended, Ended::Interrupted);
    let before = prompt.build().unwrap();
    assert!(before[2].text().contains("not known"));

    let late = done(&mut first, &prompt);
    assert_eq!((late.positions, late.ended), (3..4, Ended::Adopted));
    let after = prompt.build().unwrap();
    assert_eq!(after[2].text(), "ref 7XK");
    assert_eq!(after.len(), 3);
}

#[test]
fn others_may_append_meanwhile() {
    let (memory, mut prompt) = shared();
    for on_conflict in [OnConflict::Behind, OnConflict::Fail] {
        memory.clear().unwrap();
        let start = memory.next_position().unwrap();
        let mut turn = prompt.turn(Message::user("q")).on_conflict(on_conflict);
        ask(&mut turn, &prompt);
        memory.add(Message::user("the other tab")).unwrap();
        turn.answer(Message::ai("a")).unwrap();
        if on_conflict == OnConflict::Fail {
            let error = turn.next(&prompt).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Conflict { .. }), "{error}");
            assert_eq!(texts(&*memory), ["the other tab"]);
            turn = turn.on_conflict(OnConflict::Behind); // what was paid for is kept
        }
        assert_eq!(done(&mut turn, &prompt).positions, start + 1..start + 3);
        assert_eq!(texts(&*memory), ["the other tab", "q", "a"]);
    }
}

/// All prompts of a turn see the conversation as it was when it began.
#[test]
fn what_others_append_is_not_in_the_prompts_of_a_running_turn() {
    let (memory, mut prompt) = shared();
    memory.add(Message::user("before")).unwrap();
    memory.add(Message::ai("yes")).unwrap();
    let mut turn = prompt.turn(Message::user("q")).tools(tools());
    let first = ask(&mut turn, &prompt).prompt().to_messages();
    memory.add(Message::user("the other tab")).unwrap();
    turn.answer(calls([("c1", "look")])).unwrap();
    runs(&mut turn, &prompt, "c1", "x");
    let second = ask(&mut turn, &prompt).prompt().to_messages();
    assert!(second.starts_with(&first));
    assert_eq!(second.len(), first.len() + 2);
}

#[test]
fn a_conversation_that_was_cleared_or_begun_anew_gets_nothing() {
    let store = InMemoryStore::new();
    let id = MemoryId::from("c");
    for written in [false, true] {
        for anew in [false, true] {
            let memory = store.memory("c").unwrap();
            memory.add_all([Message::user("a"), Message::ai("b")]).unwrap();
            let mut prompt = MemoryPrompt::new(store.memory("c").unwrap());
            let mut turn = if written {
                let mut turn = booking(&mut prompt);
                runs(&mut turn, &prompt, "c1", "x");
                turn
            } else {
                let mut turn = prompt.turn(Message::user("q"));
                ask(&mut turn, &prompt);
                turn.answer(Message::ai("a")).unwrap();
                turn
            };
            if anew {
                store.delete(&id).unwrap();
                memory.add_all(["x", "y", "z"].map(Message::user)).unwrap();
            } else {
                memory.clear().unwrap();
            }
            let before = texts(&memory);
            let error = turn.next(&prompt).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Forgotten, "{written} {anew}: {error}");
            assert_eq!(texts(&memory), before);
            assert!(turn.messages().len() >= 2, "what was said is still here");
            store.delete(&id).unwrap();
        }
    }
}

#[test]
fn an_interrupted_turn_denies_nothing() {
    // Nothing has happened.
    let (memory, mut prompt) = shared();
    let mut turn = prompt.turn(Message::user("q"));
    ask(&mut turn, &prompt);
    turn.interrupt(OnInterrupt::Forget);
    assert_eq!(done(&mut turn, &prompt).ended, Ended::Interrupted);
    assert_eq!(memory.next_position().unwrap(), 0);

    // What was said is kept, and the calls that were not handed out are closed.
    let mut turn = booking(&mut prompt);
    turn.interrupt(OnInterrupt::Keep);
    assert_eq!(done(&mut turn, &prompt).positions, 0..3);
    assert!(texts(&*memory)[2].starts_with("Not run"));

    // A tool may have run, so nothing is not enough.
    let mut turn = begun(&mut prompt);
    turn.interrupt(OnInterrupt::Forget);
    assert_eq!(done(&mut turn, &prompt).positions, 3..6);
    assert!(texts(&*memory)[5].contains("not known"));
    assert!(memory.slots().unwrap().is_empty());
    // When the result comes it takes that place.
    memory.add(Message::tool("c1", "book", "ref 7XK")).unwrap();
    let texts: Vec<_> = prompt.build().unwrap().iter().map(|it| it.text().into_owned()).collect();
    assert!(
        texts.contains(&"ref 7XK".to_owned()) && !texts.iter().any(|it| it.contains("not known"))
    );
}

#[test]
fn a_steered_turn_goes_on() {
    let (memory, mut prompt) = shared();
    let mut turn = calling(&mut prompt, "Look everywhere.", [("c1", "look")]);
    turn.steer("Not in the cellar.").unwrap();
    runs(&mut turn, &prompt, "c1", "nothing");
    let sent = ask(&mut turn, &prompt);
    assert_eq!(sent.prompt().iter().last().unwrap().text(), "Not in the cellar.");
    // The model ends too early.
    turn.steer("And the attic?").unwrap();
    turn.answer(Message::ai("Nowhere.")).unwrap();
    assert_eq!(ask(&mut turn, &prompt).prompt().iter().last().unwrap().text(), "And the attic?");
    turn.answer(Message::ai("There.")).unwrap();
    assert_eq!(done(&mut turn, &prompt).positions, 0..7);
    assert!(turn.steer("too late").is_err());
    // It is one turn.
    prompt.configure(|composer| composer.window(Window::turns(1)));
    assert_eq!(prompt.build().unwrap().len(), 7);
    assert_eq!(memory.next_position().unwrap(), 7);
}

/// The message was taken, and then each prompt of the turn was an error.
#[test]
fn a_reference_in_the_place_of_media_steers_no_turn() {
    let (_, mut prompt) = shared();
    let mut turn = calling(&mut prompt, "Look.", [("c1", "look")]);
    let image = json!({"type": "image", "reference": {"sha256": "0".repeat(64), "size": 1}});
    let message = serde_json::from_value(json!({"role": "user", "content": [image]})).unwrap();
    let Message::User(message) = message else { panic!("{message:?}") };
    let error = turn.steer(message.content().clone()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    runs(&mut turn, &prompt, "c1", "x");
    answered(&mut turn, &prompt, "done");
}

#[test]
fn a_limit_of_rounds_closes_the_turn() {
    let (memory, mut prompt) = shared();
    let mut turn = prompt.turn(Message::user("q")).tools(tools()).max_rounds(2);
    for i in 0..3 {
        ask(&mut turn, &prompt);
        turn.answer(calls([("c", "look")])).unwrap();
        if i < 2 {
            let id = call(&mut turn, &prompt)[0].id().to_owned();
            turn.result(&id, ok("x")).unwrap();
        }
    }
    assert_eq!(done(&mut turn, &prompt).ended, Ended::Rounds);
    assert_eq!(texts(&*memory)[6], "Not run: the limit of rounds of calls in a turn is 2.");
}

#[derive(Debug, serde::Deserialize)]
struct Where {
    place: String,
}

#[test]
fn a_tool_that_there_is_not_is_an_error_for_the_model() {
    let (_, mut prompt) = shared();
    let mut turn = calling(&mut prompt, "q", [("c1", "fly"), ("c2", "look")]);
    let handed_out = call(&mut turn, &prompt);
    assert_eq!(handed_out.iter().map(Call::id).collect::<Vec<_>>(), ["c2"]);
    turn.result("c2", handed_out[0].parse::<Where>().map(|it| it.place)).unwrap();
    let sent = ask(&mut turn, &prompt);
    assert_eq!(sent.prompt()[2].text(), "There is no tool \"fly\".");
    assert!(sent.prompt()[3].text().contains("missing field `place`"));
    assert!(sent.prompt()[3].as_tool().unwrap().is_error());
}

#[test]
fn a_lost_answer_stores_nothing_twice() {
    let (memory, mut prompt) = odd();
    let mut turn = booking(&mut prompt);
    for _ in 0..2 {
        unheard(&memory, &mut turn, &prompt);
        call(&mut turn, &prompt);
        if turn.messages().len() == 2 {
            turn.result("c1", ok("x")).unwrap();
            unheard(&memory, &mut turn, &prompt);
            ask(&mut turn, &prompt);
            turn.answer(calls([("c2", "book")])).unwrap();
        }
    }
    turn.result("c2", ok("y")).unwrap();
    ask(&mut turn, &prompt);
    turn.answer(Message::ai("done")).unwrap();
    unheard(&memory, &mut turn, &prompt);
    assert_eq!(done(&mut turn, &prompt).positions, 0..6);
    assert_eq!(memory.next_position().unwrap(), 6);
    assert!(memory.slots().unwrap().is_empty());
}

/// The answer to the second save got lost. The next one was taken for a repetition, and what it was
/// to write down was not: after an adoption the outcome was not known any more.
#[test]
fn a_save_of_unknown_outcome_is_settled_before_anything_else() {
    for is_over in [false, true] {
        let (memory, mut prompt) = odd();
        let mut turn = booking(&mut prompt);
        unheard(&memory, &mut turn, &prompt);
        if is_over {
            // Nothing was handed out, and the slot is there.
            turn.interrupt(OnInterrupt::Keep);
            assert_eq!(done(&mut turn, &prompt).positions, 0..3);
            assert!(prompt.unfinished().unwrap().is_empty());
            continue;
        }
        runs(&mut turn, &prompt, "c1", "one");
        unheard(&memory, &mut turn, &prompt);
        ask(&mut turn, &prompt);
        turn.answer(calls([("c2", "book")])).unwrap();
        runs(&mut turn, &prompt, "c2", "two");
        ask(&mut turn, &prompt);
        let begun = prompt.unfinished().unwrap()[0].calls();
        let results: Vec<_> = begun.iter().map(|it| it.result.as_deref()).collect();
        assert_eq!(results, [Some("one"), Some("two")]);
        turn.answer(Message::ai("done")).unwrap();
        assert_eq!(done(&mut turn, &prompt).positions, 0..6);
    }
}

/// Once what a crashed turn had seen was evicted it could not be ended, and each later model was
/// told of it.
#[test]
fn a_turn_of_which_all_was_evicted_can_be_ended() {
    let (memory, mut prompt) = shared();
    memory.add_all([Message::user("a"), Message::ai("b")]).unwrap();
    drop(begun(&mut prompt));
    memory.add_all((0..20).map(|i| Message::user(i.to_string()))).unwrap();
    memory.evict(10).unwrap();
    let mut turn = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
    turn.interrupt(OnInterrupt::Keep);
    assert_eq!(done(&mut turn, &prompt).positions, 22..25);
    assert!(prompt.unfinished().unwrap().is_empty());
}

/// A turn was written to a file while a refund ran, and went on as if it had not been handed out.
#[test]
fn a_call_that_was_handed_out_before_a_restart_may_have_run() {
    let (_, mut prompt) = shared();
    let mut turn = booking(&mut prompt);
    let before = copy(&turn);
    call(&mut turn, &prompt);
    let mut again = copy(&turn);
    assert!(call(&mut again, &prompt)[0].may_have_run());
    assert!(!before.messages().is_empty());
}

/// A queue delivered the same turn twice. The second worker paid again, and what came of that was
/// stored nowhere.
#[test]
fn a_turn_that_is_given_twice_tells_the_second_owner() {
    for (first_ends, handed_out) in [(false, false), (false, true), (true, true)] {
        let (memory, mut prompt) = shared();
        let mut turn = booking(&mut prompt);
        if handed_out {
            call(&mut turn, &prompt);
        }
        let queue = serde_json::to_string(&turn).unwrap();
        let deliver = || serde_json::from_str::<Turn>(&queue).unwrap().tools(tools());
        let mut first = deliver();
        assert_eq!(call(&mut first, &prompt)[0].may_have_run(), handed_out);
        if first_ends {
            first.result("c1", ok("one")).unwrap();
            answered(&mut first, &prompt, "paid");
        }
        let mut second = deliver();
        let waits = call(&mut second, &prompt);
        assert!(waits[0].may_have_run());
        if !first_ends {
            continue;
        }
        second.result("c1", ok("two")).unwrap();
        let ended = done(&mut second, &prompt);
        assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 4..5));
        assert_eq!(texts(&*memory)[4], "two");
    }
}

#[test]
fn what_waits_for_approval_is_written_down() {
    let (_, mut prompt) = shared();
    let look = Tool::new("look", "Looks.").repeatable().needing_approval();
    let mut turn = wants(prompt.turn("q").tools([look]), &prompt, [("c1", "look")]);
    let handed_out = call(&mut turn, &prompt);
    assert!(handed_out[0].needs_approval() && handed_out[0].is_checkpointed());
    drop(turn);
    let mut turn = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
    assert!(!call(&mut turn, &prompt)[0].may_have_run(), "it may run twice");
    turn.error("c1", "nobody approved").unwrap();
    assert_eq!(answered(&mut turn, &prompt, "sorry").positions, 0..4);
}

/// The slot of a refund that waited for approval looked like one that ran: the next model was told
/// that its outcome was not known, and whoever adopted it had to find out whether it had been paid.
#[test]
fn a_call_that_waits_for_approval_has_not_run() {
    let pay = || [Tool::new("pay", "Pays.").needing_approval(), Tool::new("book", "Books.")];
    let (memory, mut prompt) = shared();
    let turn = prompt.turn("Pay and book.").tools(pay());
    let mut turn = wants(turn, &prompt, [("c1", "pay"), ("c2", "book"), ("c1", "pay")]);
    assert_eq!(call(&mut turn, &prompt).len(), 3);
    assert_eq!(turn.result("c1", ok("paid")).unwrap_err().kind(), ErrorKind::Invalid);
    assert!(turn.approve("c2").is_err());
    drop(turn);

    let mut next = prompt.turn(Message::user("And?"));
    let note = ask(&mut next, &prompt).prompt()[0].text().into_owned();
    assert_eq!(note.matches("has not run, it waits for somebody's approval").count(), 2, "{note}");
    assert_eq!(note.matches("its outcome is not known yet").count(), 1, "{note}");

    let unfinished = prompt.unfinished().unwrap().remove(0);
    let waits: Vec<_> = unfinished.calls().iter().map(|it| it.needs_approval).collect();
    assert_eq!(waits, [true, false, true]);
    let mut turn = prompt.adopt(&unfinished).unwrap().tools(pay());
    turn.approve("c1").unwrap();
    let handed_out = call(&mut turn, &prompt);
    let told = |it: &Call| (it.needs_approval(), it.may_have_run());
    assert_eq!(
        handed_out.iter().map(told).collect::<Vec<_>>(),
        [(false, false), (false, true), (true, false)]
    );
    drop(turn);

    // It died again: that one was approved, so it may have run.
    let unfinished = prompt.unfinished().unwrap().remove(0);
    let waits: Vec<_> = unfinished.calls().iter().map(|it| it.needs_approval).collect();
    assert_eq!(waits, [false, false, true]);
    let mut turn = prompt.adopt(&unfinished).unwrap().tools(pay());
    assert!(call(&mut turn, &prompt)[0].may_have_run());
    turn.interrupt(OnInterrupt::Keep);
    done(&mut turn, &prompt);
    let stored = texts(&*memory);
    assert!(stored[2].contains("not known") && stored[3].contains("not known"), "{stored:?}");
    assert_eq!(stored[4], "Not run: the turn was interrupted.");
}

/// A webhook came twice, and both times its question was stored and answered.
#[test]
fn a_turn_of_an_id_that_was_stored_stores_nothing() {
    let (memory, mut prompt) = shared();
    let mut turn = prompt.turn(Message::user("Hi.")).with_id("update 1");
    ask(&mut turn, &prompt);
    turn.answer("Hello.").unwrap();
    // It has looked before that was stored.
    let mut again = prompt.turn(Message::user("Hi.")).with_id("update 1");
    ask(&mut again, &prompt);
    assert_eq!(done(&mut turn, &prompt).ended, Ended::Answered);

    // Nothing has happened.
    again.answer("Hello again.").unwrap();
    let again = done(&mut again, &prompt);
    assert_eq!((again.ended, again.text().as_str()), (Ended::Adopted, "Hello."));
    assert_eq!(again.positions, 0..2);
    assert_eq!(memory.next_position().unwrap(), 2);

    // Another question wants to book, and is not handed the call.
    let mut turn = booking(&mut prompt).with_id("update 1");
    assert_eq!(turn.next(&prompt).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(memory.next_position().unwrap(), 2);
    assert!(prompt.unfinished().unwrap().is_empty());
}

#[test]
fn what_answers_cost_is_summed() {
    let body = |said: &str| {
        let usage = r#""usage": {"input_tokens": 10, "output_tokens": 2}"#;
        let body = format!(r#"{{"content": [{said}], "stop_reason": "end_turn", {usage}}}"#);
        anthropic::answer(&body).unwrap()
    };
    let (_, mut prompt) = shared();
    let mut turn = prompt.turn(Message::user("q"));
    ask(&mut turn, &prompt);
    turn.answer(body(r#"{"type": "tool_use", "id": "c1", "name": "look", "input": {}}"#)).unwrap();
    turn.result("c1", ok("x")).unwrap();
    let mut turn = copy(&turn);
    ask(&mut turn, &prompt);
    turn.answer(body(r#"{"type": "text", "text": "a"}"#)).unwrap();
    let done = done(&mut turn, &prompt);
    assert_eq!((done.usage.input, done.usage.output), (Some(20), Some(4)));
    assert_eq!(done.stop, Some(Stop::End));
}

/// The answer to a broken stream was stored like a whole one, and its last call was run.
#[test]
fn an_answer_that_broke_off_ends_the_turn_and_is_marked() {
    let (memory, mut prompt) = shared();
    let mut stream = ollama::Stream::new();
    let mut turn = prompt.turn(Message::user("q"));
    ask(&mut turn, &prompt);
    // An empty answer would be stored, and sent ever after.
    let error = turn.answer(ollama::Stream::new().broken()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Model);
    assert_eq!(error.to_string(), "answer: the answer broke off before anything was said");
    stream.push(r#"{"message": {"content": "Hel"}, "done": false}"#).unwrap();
    turn.answer(stream.broken()).unwrap();
    let done = done(&mut turn, &prompt);
    assert_eq!((done.ended, done.stop), (Ended::Interrupted, Some(Stop::Broken)));
    let stored = memory.all().unwrap();
    let answer = stored.messages().last().unwrap().as_ai().unwrap();
    assert_eq!(answer.text(), "Hel");
    assert_eq!(answer.attributes().get("turn:broken"), Some(&true.into()));
}

#[test]
fn a_late_result_takes_the_place_of_an_unknown_outcome() {
    let (memory, mut prompt) = shared();
    let mut turn = begun(&mut prompt);
    turn.outcome_unknown("c1", "Timed out after 5 seconds.").unwrap();
    assert!(turn.outcome_unknown("c1", "again").is_err());
    let sent = ask(&mut turn, &prompt);
    assert!(sent.prompt()[2].text().starts_with("Timed out after 5 seconds. The outcome"));
    turn.answer("I don't know.").unwrap();
    done(&mut turn, &prompt);
    memory.add(Message::tool("c1", "book", "ref 7XK")).unwrap();
    assert_eq!(prompt.build().unwrap()[2].text(), "ref 7XK");
}

/// The model was told "the process died The outcome of this call is not known".
#[test]
fn a_reason_without_a_full_stop_gets_one() {
    let cases = [
        ("the process died", "the process died. The outcome"),
        ("It died!\n", "It died! The outcome"),
        (" ", "The outcome"),
    ];
    for (why, said) in cases {
        let (_, mut prompt) = shared();
        let mut turn = begun(&mut prompt);
        turn.outcome_unknown("c1", why).unwrap();
        let told = ask(&mut turn, &prompt).prompt()[2].text().into_owned();
        assert!(told.starts_with(said), "{told}");
    }
}

#[test]
fn temporaries_of_a_turn_come_to_those_of_the_prompt() {
    let (_, mut prompt) = shared();
    drop(begun(&mut prompt));
    prompt.add_temporary(Message::user("Today is Friday."));
    let mut turn = prompt.turn(Message::user("q")).temporaries([Message::user("It rains.")]);
    assert_eq!(ask(&mut turn, &prompt).prompt().len(), 4, "with the note about the booking");
    let back = turn.into_temporaries();
    assert_eq!(back, ["Today is Friday.", "It rains."].map(Message::user));
    let mut turn = prompt.turn(Message::system("x"));
    assert_eq!(turn.next(&prompt).unwrap_err().kind(), ErrorKind::Invalid);
}

/// The cache mark of each prompt stood before the temporaries, so each round paid for all the
/// rounds before it.
#[test]
fn the_tool_loop_behind_temporaries_and_a_note_is_cacheable() {
    for placement in [Placement::End, Placement::BeforeLastUser, Placement::AfterSystem] {
        for temporary in [Message::user("Today is Friday."), Message::system("Be brief.")] {
            let (_, mut prompt) = shared();
            prompt.configure(|it| it.temporaries_at(placement).for_provider(Provider::Anthropic));
            drop(begun(&mut prompt));
            prompt.add_temporary(temporary);
            let mut turn = calling(&mut prompt, "q", [("c1", "look")]);
            runs(&mut turn, &prompt, "c1", "x");
            let sent = ask(&mut turn, &prompt);
            assert_eq!(sent.prompt().cacheable(), sent.prompt().len());
            let body = json!(anthropic::messages(sent.prompt()).cache_prefix());
            let last = body.as_array().unwrap().last().unwrap();
            assert_eq!(last["content"][0]["type"], "tool_result");
            assert_eq!(last["content"][0]["cache_control"], json!({"type": "ephemeral"}));
            turn.answer(calls([("c2", "look")])).unwrap();
            runs(&mut turn, &prompt, "c2", "x");
            let next = ask(&mut turn, &prompt).prompt().to_messages();
            assert!(next.starts_with(&sent.prompt().to_messages()));
        }
    }
}

/// Behind a loop of more than 20 blocks, as far as Anthropic looks back, the next turn found
/// nothing of the conversation in the cache: it shares only what was before the turn's temporaries,
/// and no mark was near.
#[test]
fn a_turn_finds_what_comes_before_the_temporaries_of_the_turn_before_it() {
    for (placement, rounds, at_once) in [
        (Placement::End, 12, 1),
        (Placement::End, 3, 25), // each round is more than 20 blocks
        (Placement::BeforeLastUser, 12, 1),
    ] {
        let (_, mut prompt) = shared();
        prompt.configure(|it| it.temporaries_at(placement).for_provider(Provider::Anthropic));
        let mut sent: Vec<Vec<_>> = Vec::new();
        let mut cached: Vec<Vec<_>> = Vec::new();
        let mut check = |ask: &Ask, what: &str| {
            let body = json!(anthropic::messages(ask.prompt()).cache_prefix());
            let (blocks, marks) = blocks_and_marks(&body);
            let places = |mark: usize| (mark.saturating_sub(19)..=mark).rev();
            let is_cached = |it: &usize| cached.contains(&blocks[..=*it].to_vec());
            let found = marks.iter().filter_map(|mark| places(*mark).find(is_cached)).max();
            let shared = |old: &Vec<serde_json::Value>| {
                old.iter().zip(&blocks).take_while(|(a, b)| a == b).count()
            };
            let shared = sent.iter().map(shared).max().unwrap_or(0);
            // The first mark of a turn is before its temporary, and its question may be behind it.
            let lost = shared - found.map_or(0, |it| it + 1);
            assert!(lost <= 2, "{placement:?}, {what}: {lost} of {shared}");
            cached.extend(marks.iter().map(|mark| blocks[..=*mark].to_vec()));
            sent.push(blocks);
        };
        for n in 0..4 {
            prompt.add_temporary(Message::user(format!("It is {n} o'clock.")));
            let mut turn = prompt.turn(format!("question {n}")).tools(tools());
            for round in 0..rounds {
                check(&ask(&mut turn, &prompt), &format!("turn {n}, round {round}"));
                let made =
                    (0..at_once).map(|i| ToolCall::new(format!("{round}_{i}"), "look", "{}"));
                turn.answer(Message::ai_calls(made)).unwrap();
                for call in call(&mut turn, &prompt) {
                    turn.result(call.id(), ok("x")).unwrap();
                }
            }
            check(&ask(&mut turn, &prompt), &format!("the end of turn {n}"));
            turn.answer(Message::ai("a")).unwrap();
            done(&mut turn, &prompt);
        }
    }
}

/// Returns the blocks of a request, and the places of those with a cache mark.
fn blocks_and_marks(body: &serde_json::Value) -> (Vec<serde_json::Value>, Vec<usize>) {
    let (mut blocks, mut marks) = (Vec::new(), Vec::new());
    for message in body.as_array().unwrap() {
        let content = match &message["content"] {
            serde_json::Value::String(text) => vec![json!({"type": "text", "text": text})],
            list => list.as_array().unwrap().clone(),
        };
        for mut block in content {
            if block.as_object_mut().unwrap().remove("cache_control").is_some() {
                marks.push(blocks.len());
            }
            blocks.push(json!([message["role"], block]));
        }
    }
    (blocks, marks)
}

/// A tool showed a picture that it had read without its bytes. The turn took it and could be stored
/// by nobody: it never ended, and each retry of its request was told that it runs.
#[test]
fn a_result_or_an_answer_with_a_reference_is_not_taken() {
    let referring = |role: &str| {
        let hash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let part = json!({"type": "image", "reference": {"sha256": hash, "size": 9}});
        let message = json!({"role": role, "content": [part]});
        serde_json::from_value::<Message>(message).unwrap()
    };
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let mut turn = begun(&mut prompt);
    let Message::User(shown) = referring("user") else { panic!() };
    turn.result("c1", Ok(shown.content().clone())).unwrap();
    let sent = ask(&mut turn, &prompt);
    let told = "The result can't be stored: it has a reference in the place of media.";
    assert_eq!(sent.prompt()[2].text(), told);
    let error = turn.answer(referring("assistant")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    turn.answer(Message::ai("Oh.")).unwrap();
    assert_eq!(done(&mut turn, &prompt).positions, 0..4);
}

#[test]
fn a_result_that_is_too_large_is_an_error_for_the_model() {
    let limits = DefaultChatMemory::new().limits().with_message(400).with_batch(900);
    let (_, mut prompt) = limited(limits);
    let mut turn = begun(&mut prompt);
    turn.result("c1", Ok("x".repeat(500))).unwrap();
    let sent = ask(&mut turn, &prompt);
    assert!(sent.prompt()[2].text().starts_with("The result can't be stored: a message has "));
    assert!(sent.prompt()[2].as_tool().unwrap().is_error());
    turn.answer(Message::ai("Oh.")).unwrap();
    assert_eq!(done(&mut turn, &prompt).positions, 0..4);

    let mut turn = prompt.turn(Message::user("q".repeat(500)));
    assert_eq!(turn.next(&prompt).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn a_memory_without_slots_says_so_before_anything_runs() {
    let (_, mut prompt) = limited(Limits::default());
    let mut turn = booking(&mut prompt);
    assert!(!call(&mut turn, &prompt)[0].is_checkpointed());
    turn = turn.on_no_checkpoint(OnNoCheckpoint::Fail);
    assert_eq!(turn.next(&prompt).unwrap_err().kind(), ErrorKind::Unsupported);
    turn = turn.on_no_checkpoint(OnNoCheckpoint::GoOn);
    turn.result("c1", ok("x")).unwrap();
    assert_eq!(answered(&mut turn, &prompt, "done").positions, 0..4);
}

#[test]
fn a_turn_that_was_written_goes_on_where_it_was() {
    let (_, mut prompt) = shared();
    prompt.add_temporary(Message::user("Today is Friday."));
    let mut turn = booking(&mut prompt);
    runs(&mut turn, &prompt, "c1", "x");
    let written = serde_json::to_string(&turn).unwrap();
    let sent = ask(&mut turn, &prompt).prompt().to_messages();
    let mut again: Turn = serde_json::from_str(&written).unwrap();
    assert_eq!(ask(&mut again, &prompt).prompt().to_messages(), sent);
    let newer = written.replacen("\"turn\":1", "\"turn\":2", 1);
    let error = serde_json::from_str::<Turn>(&newer).unwrap_err().to_string();
    assert!(error.starts_with("a turn of version 2, and this is version 1"), "{error}");
    assert!(!format!("{turn:?}").contains("Book it"));
}

/// What happens in a turn of the property below.
#[derive(Clone, Debug)]
enum Event {
    /// The model calls so many tools: `true` for one that is not repeatable.
    Calls(Vec<bool>),
    /// It fails, and is asked again.
    Fails,
    /// The user says something into the turn.
    Steers,
    /// Another tab appends.
    Other,
    /// The turn is kept outside and goes on in another process.
    Moves,
    /// The owner dies, and somebody adopts the turn if it was written down.
    Dies,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => proptest::collection::vec(any::<bool>(), 1..4).prop_map(Event::Calls),
        1 => Just(Event::Fails),
        1 => Just(Event::Steers),
        1 => Just(Event::Other),
        1 => Just(Event::Moves),
        1 => Just(Event::Dies),
    ];
    proptest::collection::vec(event, 0..8)
}

fn providers() -> impl Strategy<Value = Option<Provider>> {
    prop_oneof![
        Just(None),
        Just(Some(Provider::OpenAi)),
        Just(Some(Provider::Anthropic)),
        Just(Some(Provider::Gemini)),
        Just(Some(Provider::Mistral)),
    ]
}

/// How often each call that must not run twice has run, by its id.
type Ran = std::collections::BTreeMap<String, u32>;

/// Runs the calls that wait. One that may have run is run only if it did not.
fn run(turn: &mut Turn, handed_out: &[Call], ran: &mut Ran, backwards: bool) {
    let mut order: Vec<_> = handed_out.iter().collect();
    if backwards {
        order.reverse();
    }
    for call in order {
        if call.name() == "book" {
            let times = ran.entry(call.id().to_owned()).or_default();
            if *times == 0 || !call.may_have_run() {
                *times += 1;
            }
        }
        turn.result(call.id(), Ok(format!("result of {}", call.id()))).unwrap();
    }
}

counted! {
    #![cases(400)]

    #[test]
    fn whatever_happens_in_turns_all_is_kept_and_nothing_runs_twice(
        turns in proptest::collection::vec(events(), 1..4), provider in providers(),
        temporaries in 0usize..3, last in proptest::option::of(1usize..30), backwards in any::<bool>(),
    ) {
        let (memory, mut prompt) = shared();
        if let Some(provider) = provider {
            prompt.configure(|composer| composer.for_provider(provider));
        }
        if let Some(n) = last {
            prompt.configure(|composer| composer.window(Window::last(n)));
        }
        let (mut ids, mut ran) = (0, Ran::new());
        for (number, events) in turns.iter().enumerate() {
            let question = format!("question {number}");
            for i in 0..temporaries {
                prompt.add_temporary(Message::user(format!("temporary {i}")));
            }
            let mut turn = prompt.turn(Message::user(question.as_str())).tools(tools());
            let mut before: Option<(Vec<Message>, usize)> = None;
            let mut died = false;
            for event in events {
                let Next::Ask(sent) = turn.next(&prompt).unwrap() else { panic!("it asks") };
                let sent = sent.prompt();
                // Without a window that moves, each prompt extends the one before.
                if let Some((before, cacheable)) = before.filter(|_| last.is_none()) {
                    let held = if provider.is_none() { before.len() } else { cacheable };
                    prop_assert!(sent.to_messages().starts_with(&before[..held]));
                }
                before = Some((sent.to_messages(), sent.cacheable()));
                match event {
                    Event::Fails => {}
                    Event::Steers => turn.steer(format!("steered {number}")).unwrap(),
                    Event::Other => {
                        memory.add_all([Message::user("tab"), Message::ai("other")]).unwrap();
                    }
                    Event::Moves => {
                        let written = serde_json::to_vec(&turn).unwrap();
                        turn = serde_json::from_slice::<Turn>(&written).unwrap().tools(tools());
                    }
                    Event::Dies => {
                        let own = turn.id().to_owned();
                        drop(turn);
                        let kept = prompt.unfinished().unwrap().into_iter().find(|it| it.id() == own);
                        if let Some(unfinished) = kept {
                            turn = prompt.adopt(&unfinished).unwrap().tools(tools());
                            before = None;
                        } else {
                            died = true;
                            turn = prompt.turn(Message::user("never said"));
                            break;
                        }
                    }
                    Event::Calls(tools) => {
                        let named = tools.iter().map(|once| {
                            ids += 1;
                            ToolCall::new(format!("c{ids}"), if *once { "book" } else { "look" }, "{}")
                        });
                        turn.answer(Message::ai_calls(named)).unwrap();
                        let Next::Call(handed_out) = turn.next(&prompt).unwrap() else { panic!("it calls") };
                        prop_assert_eq!(handed_out.len(), tools.len());
                        run(&mut turn, &handed_out, &mut ran, backwards);
                    }
                }
            }
            if died {
                continue;
            }
            let Next::Ask(sent) = turn.next(&prompt).unwrap() else { panic!("it asks") };
            let sent = sent.prompt().clone();
            turn.answer(Message::ai(format!("answer {number}"))).unwrap();
            let conflict = events.iter().any(|it| matches!(it, Event::Other));
            let Next::Done(done) = turn.next(&prompt).unwrap() else { panic!("it is done") };
            prop_assert_eq!(done.text(), format!("answer {number}"));
            let all = memory.all().unwrap();
            let stored: Vec<_> = all.messages().cloned().collect();
            prop_assert!(stored.ends_with(&done.messages));
            let asked = stored.iter().filter(|it| it.text() == question).count();
            prop_assert_eq!(asked, 1);
            let is_alone = !conflict && sent.report().temporaries == 0;
            if last.is_none() && is_alone && prompt.unfinished().unwrap().is_empty() {
                let next = prompt.build().unwrap();
                prop_assert!(next.to_messages().starts_with(&sent.to_messages()[..sent.cacheable()]));
            }
        }
        if memory.next_position().unwrap() == 0 {
            return Ok(()); // all of them died before anything happened
        }
        // No call is without its result.
        let built = prompt.window(Window::all()).preview().unwrap();
        prop_assert!(built.report().repaired.is_empty());
        prop_assert!(built.report().left_out.is_empty());
        prop_assert!(ran.values().all(|times| *times == 1), "{ran:?}");
    }
}

/// The tokens ran out right behind the name of a call, and it ran without its filter, as if it took
/// nothing.
#[test]
fn a_call_at_which_the_answer_was_cut_is_not_run() {
    for stop in [Stop::Length, Stop::Filtered] {
        let (_, mut prompt) = shared();
        let mut turn = prompt.turn(Message::user("Purge the drafts.")).tools(tools());
        ask(&mut turn, &prompt);
        let asked = [ToolCall::new("c1", "look", "{}"), ToolCall::new("c2", "book", "")];
        turn.answer(stopped(Message::ai_calls(asked), stop)).unwrap();
        let handed_out = call(&mut turn, &prompt);
        assert_eq!(handed_out.iter().map(Call::id).collect::<Vec<_>>(), ["c1"]);
        assert_eq!(turn.messages()[2].text(), "Not run: the answer was cut.");
        turn.result("c1", ok("x")).unwrap();
        ask(&mut turn, &prompt);
    }
}

/// The last call had the id of the first one. The first was closed in its place, and the cut one
/// ran.
#[test]
fn a_cut_call_is_not_run_under_the_id_of_another() {
    let (_, mut prompt) = shared();
    let mut turn = prompt.turn(Message::user("Purge the drafts.")).tools(tools());
    ask(&mut turn, &prompt);
    let asked = [ToolCall::new("c", "book", "{}"), ToolCall::new("c", "book", "")];
    turn.answer(stopped(Message::ai_calls(asked), Stop::Length)).unwrap();
    ask(&mut turn, &prompt);
}

/// A model gave one id to several calls, and a result was taken for that of another one: each call
/// has an id of its own, and is named by no other.
#[test]
fn each_call_is_named_by_its_own_id() {
    let (_, mut prompt) = shared();
    let named = [("c1", "look"), ("c1", "look"), ("c1_2", "look"), ("", "look"), ("", "look")];
    let mut turn = calling(&mut prompt, "Look here and there.", named);
    let handed_out = call(&mut turn, &prompt);
    let ids: Vec<_> = handed_out.iter().map(Call::id).collect();
    assert_eq!(ids, ["c1", "c1_3", "c1_2", "", "call_2"]);
    for (place, call) in handed_out.iter().enumerate() {
        turn.result(call.id(), Ok(place.to_string())).unwrap();
    }
    assert!(turn.result("c1", ok("again")).is_err());
    let told: Vec<_> = turn.messages()[2..].iter().filter_map(Message::as_tool).collect();
    let told: Vec<_> = told.iter().map(|it| (it.call_id(), it.content().text())).collect();
    let expected = ["c1", "c1_3", "c1_2", "", "call_2"].into_iter().zip("01234".split("").skip(1));
    assert!(told.iter().map(|(id, text)| (*id, &**text)).eq(expected), "{told:?}");
    ask(&mut turn, &prompt);
}

/// A tool that takes nothing was handed `{}`, as models write it, and never ran.
#[test]
fn a_tool_that_takes_nothing_is_handed_nothing() {
    #[derive(serde::Deserialize)]
    struct Nothing;
    #[derive(Debug, serde::Deserialize)]
    struct Something {
        #[serde(rename = "n")]
        _n: u32,
    }
    for arguments in ["{}", "", " { } ", "null"] {
        let (_, mut prompt) = shared();
        let mut turn = prompt.turn(Message::user("What is it o'clock?"));
        ask(&mut turn, &prompt);
        turn.answer(Message::ai_calls([ToolCall::new("c1", "now", arguments)])).unwrap();
        let now = call(&mut turn, &prompt).remove(0);
        now.parse::<()>().unwrap();
        now.parse::<Nothing>().unwrap();
        let error = now.parse::<Something>().unwrap_err().to_string();
        let wanted = if arguments == "null" { "invalid type: null" } else { "missing field `n`" };
        assert!(error.contains(wanted), "{error}");
    }
    let (_, mut prompt) = shared();
    let mut turn = booking(&mut prompt);
    let book = call(&mut turn, &prompt).remove(0);
    assert!(book.parse::<()>().is_err(), "it was handed something");
}

/// A turn of which a payment waits for approval, and somebody says that it may be made.
fn approved(prompt: &mut MemoryPrompt) -> Turn {
    let pay = Tool::new("pay", "Pays.").needing_approval();
    let mut turn = wants(prompt.turn("Pay.").tools([pay]), prompt, [("c1", "pay")]);
    assert!(call(&mut turn, prompt)[0].needs_approval());
    drop(turn);
    let mut turn = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
    turn.approve("c1").unwrap();
    turn
}

/// Somebody approved of a payment, and the turn was handed to a worker, who took it for one that
/// may have been made: it never was.
#[test]
fn a_call_that_was_approved_and_not_handed_out_has_not_run() {
    let (_, mut prompt) = shared();
    let bytes = serde_json::to_string(&approved(&mut prompt)).unwrap();
    let mut turn: Turn = serde_json::from_str(&bytes).unwrap();
    let pay = call(&mut turn, &prompt).remove(0);
    assert!(!pay.may_have_run() && !pay.needs_approval() && pay.is_checkpointed());
    // Now it may have run: for who is handed this turn, and for who was handed the same one before.
    let moved = serde_json::to_string(&turn).unwrap();
    for bytes in [&moved, &bytes] {
        let mut turn: Turn = serde_json::from_str(bytes).unwrap();
        assert!(call(&mut turn, &prompt)[0].may_have_run());
    }

    let (_, mut prompt) = shared();
    let mut turn = approved(&mut prompt);
    turn.interrupt(OnInterrupt::Keep);
    assert_eq!(turn.messages()[2].text(), "Not run: the turn was interrupted.");
}

/// A turn failed as it was written down, and came to nothing. Its slot stayed for ever, and each
/// later model was told of a booking that was never handed out.
#[test]
fn a_turn_that_is_forgotten_leaves_no_slot() {
    for (is_written, is_lost_again) in [(false, false), (true, false), (true, true)] {
        let (memory, mut prompt) = odd();
        let mut turn = booking(&mut prompt);
        let wrong = if is_written { &memory.loses } else { &memory.fails };
        wrong.store(true, Ordering::Relaxed);
        assert!(turn.next(&prompt).is_err());
        turn.interrupt(OnInterrupt::Forget);
        if is_lost_again {
            unheard(&memory, &mut turn, &prompt);
        }
        let done = done(&mut turn, &prompt);
        assert_eq!((done.ended, done.positions), (Ended::Interrupted, 0..0));
        assert!(memory.slots().unwrap().is_empty(), "{is_written}, {is_lost_again}");
        assert_eq!(memory.next_position().unwrap(), 0);
    }
}

/// A model that repeated the name under which its provider had been sent a tool was told that there
/// is no such tool.
#[test]
fn a_tool_is_found_by_the_name_under_which_it_was_sent() {
    let (memory, prompt) = shared();
    let mut prompt = prompt.for_provider(Provider::OpenAi);
    let sent = Provider::OpenAi.row().tool_names.sent("book.now");
    assert!(sent.starts_with("book_now_"));
    let turn = prompt.turn("q").tools([Tool::new("book.now", "Books.")]);
    let mut turn = wants(turn, &prompt, [("c1", &*sent)]);
    let called = call(&mut turn, &prompt);
    assert_eq!(called[0].name(), "book.now");
    turn.result("c1", ok("booked")).unwrap();
    answered(&mut turn, &prompt, "Booked.");
    assert_eq!(memory.messages().unwrap()[1].tool_calls().next().unwrap().name, "book.now");
}

/// Found by a new user: the model was offered the tools of the prompt, and a call that somebody had
/// to approve of was handed out as if nobody had, since the turn itself was given no tools.
#[test]
fn a_turn_holds_calls_of_the_prompts_tools_for_approval() {
    let tools = || [Tool::new("crm.refund", "Pays.").needing_approval()];
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).tools(tools());
    let mut turn = prompt.turn(Message::user("My money back!"));
    let asked = ask(&mut turn, &prompt);
    assert_eq!(asked.tools().len(), 1);
    turn.answer(calls([("c1", "crm.refund"), ("c2", "nothing")])).unwrap();
    let handed = call(&mut turn, &prompt);
    assert_eq!(handed.len(), 1, "the other tool is not there");
    assert!(handed[0].needs_approval());
    // Read back, it waits for the same.
    assert!(call(&mut copy(&turn), &prompt)[0].needs_approval());
    // One that had other tools does not take these for them.
    let mail = Tool::new("mail", "Sends a mail.").needing_approval();
    let other = wants(prompt.turn("A mail!").tools([mail]), &prompt, [("c1", "mail")]);
    assert!(call(&mut copy(&other), &prompt)[0].needs_approval());
}

/// A process died in `book`, and the next one offered `refund` too, which needs approval. The turn
/// that it adopted paid without: it held what the first process had to hold.
#[test]
fn an_adopted_turn_holds_what_the_tools_of_its_prompt_need_now() {
    let pay = || Tool::new("pay", "Pays.").needing_approval();
    let book = || Tool::new("book", "Books.");
    let look = || Tool::new("look", "Looks.");
    let refund = Tool::new("refund", "Pays back.").needing_approval();
    let tools = [pay(), book(), look().repeatable()];
    let mut first = MemoryPrompt::new(DefaultChatMemory::new()).tools(tools);
    let mut turn = first.turn(Message::user("Book it!"));
    ask(&mut turn, &first);
    turn.answer(calls([("c1", "book"), ("c3", "look")])).unwrap();
    call(&mut turn, &first);
    let second = first.tools([pay(), book(), look(), refund]);
    let mut turn = second.adopt(&second.unfinished().unwrap().remove(0)).unwrap();
    // What may run once now is not run again.
    assert!(call(&mut turn, &second).iter().all(Call::may_have_run));
    turn.result("c1", Ok("Booked.")).unwrap();
    turn.result("c3", Ok("Looked.")).unwrap();
    assert_eq!(ask(&mut turn, &second).prompt().tools().len(), 4);
    turn.answer(calls([("c2", "refund")])).unwrap();
    assert!(call(&mut turn, &second)[0].needs_approval());
}

/// A turn was kept behind an answer that pays, and the next version of the program wanted approval
/// for that. It paid without.
#[test]
fn a_call_that_has_not_begun_waits_if_its_tool_needs_approval_now() {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let pay = Tool::new("pay", "Pays.");
    let mut turn = wants(prompt.turn("Pay!").tools([pay.clone()]), &prompt, [("c1", "pay")]);
    let mut kept = copy(&turn).tools([pay.clone().needing_approval()]);
    assert!(call(&mut kept, &prompt)[0].needs_approval());
    // So does one that would be run again.
    let look = || Tool::new("look", "Looks.").repeatable();
    let mut looks = wants(prompt.turn("Look!").tools([look()]), &prompt, [("c1", "look")]);
    assert!(!call(&mut looks, &prompt)[0].needs_approval());
    let mut kept = copy(&looks).tools([look().needing_approval()]);
    assert!(call(&mut kept, &prompt)[0].needs_approval());
    // Also if its copy finds the slot of the owner that died meanwhile.
    let mut looks = wants(
        prompt.turn("Both!").tools([pay.clone(), look()]),
        &prompt,
        [("c1", "pay"), ("c2", "look")],
    );
    let copied = copy(&looks);
    assert_eq!(call(&mut looks, &prompt).len(), 2);
    drop(looks);
    let mut kept = copied.tools([pay.clone(), look().needing_approval()]);
    let handed = call(&mut kept, &prompt);
    let is_held = |id: &str| handed.iter().any(|it| it.id() == id && it.needs_approval());
    assert!(is_held("c2") && !is_held("c1"), "{handed:?}");
    // What runs already can't wait any more.
    assert!(!call(&mut turn, &prompt)[0].needs_approval());
    let mut turn = turn.tools([Tool::new("pay", "Pays.").needing_approval()]);
    assert!(!call(&mut turn, &prompt)[0].needs_approval());
}

/// Whichever read of the first prompt fails, the next attempt is sent what is pinned.
#[test]
fn a_read_that_fails_loses_no_pin() {
    let mut failed = 0;
    for fails_at in 0..20 {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let said = (0..9).map(|n| Message::user(format!("message {n}")));
        memory.append_with(&mut Append::new(said)).unwrap();
        let prompt = MemoryPrompt::new(Arc::clone(&memory)).window(Window::last(2)).with_pins();
        prompt.pin(1).unwrap();
        memory.plan.lock().unwrap().push((fails_at, false));
        let mut turn = Turn::from("Well?");
        failed += usize::from(turn.next(&prompt).is_err());
        let sent = ask(&mut turn, &prompt).prompt().to_messages();
        assert!(sent.iter().any(|it| it.text() == "message 1"), "{fails_at}: {sent:#?}");
    }
    assert!(failed > 1, "one prompt reads the window, then the pin");
}

/// The bytes that this allocates.
fn cost<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let mut done = None;
    let cost = allocation_counter::measure(|| done = Some(work()));
    (cost.bytes_total, done.unwrap())
}

/// Each result and each answer encoded all of the turn once more, to see whether it can be stored.
/// Before each call the turn was written once more, though it had long outgrown its slot.
#[test]
fn a_round_of_a_long_turn_costs_what_the_first_did() {
    let limits = DefaultChatMemory::new().limits().with_batch(100_000_000).with_slot(50_000);
    let (_, mut prompt) = limited(limits);
    let mut turn = prompt.turn("Book all.").tools(tools()).max_rounds(500);
    let mut costs = Vec::new();
    for _ in 0..400 {
        ask(&mut turn, &prompt);
        turn.answer(calls([("c", "book")])).unwrap();
        let (handed_out, calls) = cost(|| call(&mut turn, &prompt));
        let (taken, ()) = cost(|| turn.result(calls[0].id(), Ok("x".repeat(300))).unwrap());
        costs.push(handed_out + taken);
    }
    let sum = |costs: &[u64]| costs.iter().sum::<u64>();
    assert!(sum(&costs[350..]) < 3 * sum(&costs[..50]), "{costs:?}");
}

/// The memory of a prompt was replaced by another user's between two steps of a turn. Where no
/// conversation had been seen yet, all of the turn was stored in the other one.
#[test]
fn a_turn_stays_in_its_conversation() {
    let store = InMemoryStore::new();
    let [ann, bob] = ["ann", "bob"].map(|id| Arc::new(store.memory(id).unwrap()));
    let mut prompt = MemoryPrompt::new(Arc::clone(&ann));
    let mut turn = prompt.turn("My name is Ann.");
    turn.next(&prompt).unwrap();
    prompt.set_memory(Arc::clone(&bob));
    turn.answer("Hello, Ann.").unwrap();
    assert_eq!(turn.next(&prompt).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(bob.len().unwrap(), 0);
    prompt.set_memory(Arc::clone(&ann));
    let Next::Done(_) = turn.next(&prompt).unwrap() else { panic!() };
    assert_eq!(ann.len().unwrap(), 2);
}

/// A memory returned a reference in the place of a picture though none was asked for, and a turn
/// read it for ever.
#[test]
fn a_turn_reads_references_that_it_did_not_ask_for_once() {
    let memory = Arc::new(DefaultChatMemory::new());
    let changed = Changing(Arc::clone(&memory), |read| {
        let reference = json!({"sha256": "00ff".repeat(16), "size": 7});
        let part = json!({"type": "image", "reference": reference, "media_type": "image/png"});
        let message = json!({"role": "user", "content": [part]});
        *read = Snapshot::from_messages([serde_json::from_value(message).unwrap()]);
    });
    memory.add(Message::user("hi")).unwrap();
    let error = Turn::from("What is on it?").next(&MemoryPrompt::new(changed)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("at position 0"), "{error}");
}
