//! One turn in two hands: the note of it was written, and somebody else has ended it since.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use memory_prompt::turn::{Ended, Next, OnInterrupt, Tool, Turn};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, ErrorKind, MemoryPrompt, Message,
};

use crate::odd::Odd;
use crate::{ask, booking, call, calls, done, ok, shared, texts, tools};

fn answer(turn: &mut Turn, prompt: &MemoryPrompt) {
    ask(turn, prompt);
    turn.answer("Booked.").unwrap();
}

/// The answer to the note before a payment got lost. Somebody else adopted the turn and ended it,
/// and then the first owner paid once more and stored the question a second time.
#[test]
fn a_turn_whose_note_was_written_unseen_is_not_begun_once_more() {
    for (goes_on, adopter_runs) in [(true, true), (true, false), (false, true), (false, false)] {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
        let mut first = booking(&mut prompt);
        memory.loses.store(true, Ordering::Relaxed);
        assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Unacknowledged);

        let unfinished = prompt.unfinished().unwrap().remove(0);
        let mut second = prompt.adopt(&unfinished).unwrap().tools(tools());
        assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Adopted);
        if adopter_runs {
            assert!(call(&mut second, &prompt)[0].may_have_run());
            second.result("c1", ok("ref 7XK")).unwrap();
            answer(&mut second, &prompt);
        } else {
            second.interrupt(OnInterrupt::Keep);
        }
        let stored = done(&mut second, &prompt).positions.end;
        if !goes_on {
            first.interrupt(OnInterrupt::Keep);
        }
        let ended = done(&mut first, &prompt);
        assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..0));
        assert_eq!(memory.next_position().unwrap(), stored);
        assert!(prompt.unfinished().unwrap().is_empty());
    }
}

/// A worker was given a copy of a turn that was serialised before its payment was handed out. It
/// came to it after the first had paid and stored, and paid again.
#[test]
fn a_copy_from_before_the_first_call_runs_nothing_once_the_turn_has_ended() {
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt);
    let queue = serde_json::to_string(&first).unwrap();
    call(&mut first, &prompt);
    first.result("c1", ok("ref 7XK")).unwrap();
    answer(&mut first, &prompt);
    assert_eq!(done(&mut first, &prompt).positions, 0..4);

    let mut second = serde_json::from_str::<Turn>(&queue).unwrap().tools(tools());
    let ended = done(&mut second, &prompt);
    assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..0));
    assert_eq!(memory.next_position().unwrap(), 4);
}

/// A client sent its request a second time, under the same id, and each time the booking was made.
#[test]
fn a_request_that_comes_twice_books_once() {
    for fails_behind_the_tool in [true, false] {
        let (memory, mut prompt) = shared();
        let mut first = booking(&mut prompt).with_id("request 9");
        call(&mut first, &prompt);
        first.result("c1", ok("ref 7XK")).unwrap();
        if fails_behind_the_tool {
            first.interrupt(OnInterrupt::Keep);
        } else {
            answer(&mut first, &prompt);
        }
        let stored = done(&mut first, &prompt).positions.end;
        for _ in 0..2 {
            let mut again = booking(&mut prompt).with_id("request 9");
            let ended = done(&mut again, &prompt);
            assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..0));
        }
        assert_eq!(memory.next_position().unwrap(), stored);
        assert!(prompt.unfinished().unwrap().is_empty());
    }
    // While the first one waits, the second says so and touches nothing of it.
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt).with_id("request 9");
    call(&mut first, &prompt);
    let mut again = booking(&mut prompt).with_id("request 9");
    assert_eq!(done(&mut again, &prompt).ended, Ended::Adopted);
    first.result("c1", ok("ref 7XK")).unwrap();
    answer(&mut first, &prompt);
    assert_eq!(done(&mut first, &prompt).positions, 0..4);
    assert_eq!(memory.next_position().unwrap(), 4);
}

/// A mail was approved and sent by one terminal, which died. The other one, where the question
/// still stood, said no: that was stored as the late result, and the model was told that no mail
/// was sent.
#[test]
fn a_refusal_of_a_former_owner_is_no_result() {
    let approved = || [Tool::new("mail", "Sends.").needing_approval()];
    for says_no in [true, false] {
        let (memory, mut prompt) = shared();
        let mut first = prompt.turn(Message::user("Mail it.")).tools(approved());
        ask(&mut first, &prompt);
        first.answer(calls([("c1", "mail")])).unwrap();
        assert!(call(&mut first, &prompt)[0].needs_approval());

        let unfinished = prompt.unfinished().unwrap().remove(0);
        let mut second = prompt.adopt(&unfinished).unwrap().tools(approved());
        second.approve("c1").unwrap();
        call(&mut second, &prompt);
        second.interrupt(OnInterrupt::Keep); // it has sent, and nobody knows
        done(&mut second, &prompt);

        if says_no {
            first.error("c1", "The user said no.").unwrap();
        } else {
            first.interrupt(OnInterrupt::Keep);
        }
        let ended = done(&mut first, &prompt);
        assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..0));
        assert_eq!(memory.next_position().unwrap(), 3);
        assert!(texts(&*memory)[2].contains("not known"));
    }
}

/// Two threads shared a list and adopted the same turn: both were told that it is theirs, and what
/// one of them paid was nowhere.
#[test]
fn a_turn_is_adopted_once() {
    let (_, mut prompt) = shared();
    let mut first = booking(&mut prompt);
    call(&mut first, &prompt);
    let unfinished = prompt.unfinished().unwrap().remove(0);
    prompt.adopt(&unfinished).unwrap();
    assert_eq!(prompt.adopt(&unfinished).unwrap_err().kind(), ErrorKind::SlotConflict);
    let again = prompt.unfinished().unwrap().remove(0);
    prompt.adopt(&again).unwrap();
}

/// Two copies of a turn went different ways. Each took the other's note for its own and wrote over
/// it, and a call that one of them had run was in no memory and no slot.
#[test]
fn a_copy_that_went_another_way_does_not_take_the_note_over() {
    let (memory, mut prompt) = shared();
    let mut turn = booking(&mut prompt);
    call(&mut turn, &prompt);
    turn.result("c1", ok("one")).unwrap();
    ask(&mut turn, &prompt);
    let copy = serde_json::to_string(&turn).unwrap();
    let mut other = serde_json::from_str::<Turn>(&copy).unwrap().tools(tools());

    turn.answer(calls([("c2", "book")])).unwrap();
    call(&mut turn, &prompt);
    other.answer(calls([("c3", "book")])).unwrap();
    assert_eq!(other.next(&prompt).unwrap_err().kind(), ErrorKind::Adopted);
    turn.result("c2", ok("two")).unwrap();
    answer(&mut turn, &prompt);
    assert_eq!(done(&mut turn, &prompt).positions, 0..6);
    let Next::Done(ended) = other.next(&prompt).unwrap() else { panic!("it is over") };
    assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..0));
    assert_eq!(memory.next_position().unwrap(), 6);
}

/// The answer to the first note got lost, its owner looked, and went on. Later somebody adopted the
/// turn and ended it: what the first owner found out is a late result all the same.
#[test]
fn a_note_that_was_settled_is_as_good_as_any() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
    let mut first = booking(&mut prompt);
    memory.loses.store(true, Ordering::Relaxed);
    assert!(first.next(&prompt).is_err());
    assert!(!call(&mut first, &prompt)[0].may_have_run());

    let unfinished = prompt.unfinished().unwrap().remove(0);
    let mut second = prompt.adopt(&unfinished).unwrap().tools(tools());
    call(&mut second, &prompt);
    second.interrupt(OnInterrupt::Keep);
    assert_eq!(done(&mut second, &prompt).positions, 0..3);
    first.result("c1", ok("ref 7XK")).unwrap();
    let late = done(&mut first, &prompt);
    assert_eq!((late.ended, late.positions), (Ended::Adopted, 3..4));
    assert_eq!(texts(&*memory)[3], "ref 7XK");
}
