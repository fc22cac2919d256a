//! What is kept of a turn: by a later version, without tools, and near the limits of a memory.

use std::error::Error as _;

use memory_prompt::memory::Expected;

use super::*;

/// An approval of a repeatable tool was not written down: while the tool ran, its call was still
/// listed, and somebody else could refuse it.
#[test]
fn an_approval_of_a_tool_that_may_run_twice_is_written_down() {
    let (_, mut prompt) = shared();
    prompt.configure(|it| it.tools([Tool::new("deploy", "D.").needing_approval().repeatable()]));
    let mut turn = wants(prompt.turn("Deploy it."), &prompt, [("a", "deploy")]);
    assert!(call(&mut turn, &prompt)[0].needs_approval());
    let waiting = prompt.waiting().unwrap();
    assert_eq!(waiting.len(), 1);
    turn.approve("a").unwrap();
    assert!(!call(&mut turn, &prompt)[0].needs_approval());
    assert_eq!(prompt.waiting().unwrap(), []);
}

/// Two versions ran side by side. The older one could not read the slot of a booking that the newer
/// one had begun, did not inform its model, and booked again.
#[test]
fn a_turn_of_a_later_version_is_not_passed_over() {
    for (content, why) in [
        (r#"{"turn":9,"id":"x","of":"later"}"#, "version 9, and this is 1"),
        (r#"{"turn":1,"id":"x"}"#, "wrong at line 1 column 19"),
        ("{", "wrong at line 1 column 1"),
    ] {
        let (memory, mut prompt) = shared();
        let later = Append::default().set_slot("turn:later", content, Expected::Absent);
        memory.append_with(&mut { later }).unwrap();
        let _own = begun(&mut prompt);

        let mut turn = prompt.turn(Message::user("Book it."));
        let note = ask(&mut turn, &prompt).prompt()[0].text().into_owned();
        assert!(note.contains("a turn that can't be read has begun something whose"), "{note}");
        assert!(note.contains(r#"book {"n":1}: its outcome is not known yet"#), "{note}");
        let error = prompt.unfinished().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let text = "unfinished: the slot \"turn:later\" holds a turn that can't be read: ";
        assert_eq!(error.to_string(), text.to_owned() + why);
    }
}

/// serde quotes what it did not expect, and its error was the source of ours: a log that showed the
/// sources of an error said what the user had said.
#[test]
fn an_error_about_a_slot_quotes_nothing_of_it() {
    let (memory, _) = shared();
    for name in ["turn:damaged", "prompt:pins"] {
        memory.set_slot(name, r#""Ada has diabetes""#, Expected::Absent).unwrap();
    }
    let prompt = MemoryPrompt::new(memory).with_pins();
    for error in [prompt.unfinished().unwrap_err(), prompt.pins().unwrap_err()] {
        assert!(error.source().is_none(), "{:?}", error.source());
        assert!(error.to_string().ends_with(": wrong at line 1 column 18"), "{error}");
    }
}

/// A turn that was adopted or deserialised without its tools handed out the next payment as if it
/// needed no approval.
#[test]
fn a_turn_without_its_tools_still_asks_for_approval() {
    let pay = || [Tool::new("pay", "Pays.").needing_approval(), Tool::new("book", "Books.")];
    let (_, mut prompt) = shared();
    let turn = prompt.turn("Book and pay.").tools(pay());
    let mut turn = wants(turn, &prompt, [("c1", "book")]);
    call(&mut turn, &prompt);
    let adopted = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
    for mut turn in [copy(&turn), adopted] {
        turn.result("c1", ok("booked")).unwrap();
        let Ok(Next::Ask(_)) = turn.next(&prompt) else {
            continue; // the other one has adopted it
        };
        turn.answer(calls([("c2", "pay"), ("c3", "book")])).unwrap();
        let waits: Vec<_> = call(&mut turn, &prompt).iter().map(Call::needs_approval).collect();
        assert_eq!(waits, [true, false]);
    }
}

/// A turn outgrew its slot. The next booking was handed out, although the slot did not contain it.
#[test]
fn a_call_of_which_the_slot_does_not_know_is_not_said_to_be_kept() {
    for checkpoint in [OnNoCheckpoint::GoOn, OnNoCheckpoint::Fail] {
        let (_, mut prompt) = limited(DefaultChatMemory::new().limits().with_slot(1_200));
        let mut turn = booking(&mut prompt).on_no_checkpoint(checkpoint);
        assert!(call(&mut turn, &prompt)[0].is_checkpointed());
        turn.result("c1", Ok("x".repeat(1_000))).unwrap();
        ask(&mut turn, &prompt);
        turn.answer(calls([("c2", "book")])).unwrap();
        match checkpoint {
            OnNoCheckpoint::Fail => {
                let error = turn.next(&prompt).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Unsupported);
                assert!(error.to_string().contains("outgrown"), "{error}");
                // It has not run.
                turn.interrupt(OnInterrupt::Keep);
                assert!(done(&mut turn, &prompt).messages[4].text().starts_with("Not run"));
            }
            _ => assert!(!call(&mut turn, &prompt)[0].is_checkpointed()),
        }
    }
}

/// Two bookings were handed out and written down. The result of one outgrew the slot, and the other
/// one was an error, though the slot contained it.
#[test]
fn a_call_of_which_the_slot_knows_stays_kept() {
    let (_, mut prompt) = limited(DefaultChatMemory::new().limits().with_slot(2_200));
    let turn = prompt.turn("Book.").tools(tools()).on_no_checkpoint(OnNoCheckpoint::Fail);
    let mut turn = wants(turn, &prompt, [("c1", "book"), ("c2", "book")]);
    assert_eq!(call(&mut turn, &prompt).len(), 2);
    turn.result("c1", Ok("x".repeat(2_000))).unwrap();
    assert!(call(&mut turn, &prompt)[0].is_checkpointed());
}

/// A turn that had filled the memory's largest batch with a result could no longer be stored: there
/// was no room for the answer, nor for the closings of its calls.
#[test]
fn whatever_a_turn_has_taken_can_be_stored() {
    for size in (0..2_000).step_by(7) {
        for is_interrupted in [false, true] {
            let limits = DefaultChatMemory::new().limits().with_batch(2_000);
            let (memory, mut prompt) = limited(limits);
            let named = [("c1", "look"), ("c2", "book"), ("c3", "book")];
            let mut turn = calling(&mut prompt, "Book.", named);
            assert_eq!(call(&mut turn, &prompt).len(), 3);
            turn.result("c1", Ok("x".repeat(size))).unwrap();
            if is_interrupted {
                turn.interrupt(OnInterrupt::Keep);
            } else {
                turn.outcome_unknown("c2", &"y".repeat(size / 2)).unwrap();
                turn.error("c3", "z".repeat(size)).unwrap();
                assert!(!turn.messages()[3].text().is_empty());
                ask(&mut turn, &prompt);
                let before = turn.messages().len();
                assert_eq!(turn.answer("a".repeat(2_000)).unwrap_err().kind(), ErrorKind::Invalid);
                assert_eq!(turn.messages().len(), before, "nothing of it is taken");
                assert!(turn.steer("s".repeat(2_000)).is_err());
                turn.answer("Booked.").unwrap();
            }
            let done = done(&mut turn, &prompt);
            let ended = if is_interrupted { Ended::Interrupted } else { Ended::Answered };
            assert_eq!((done.ended, memory.next_position().unwrap()), (ended, done.positions.end));
            let bytes: usize =
                done.messages.iter().map(|it| serde_json::to_vec(it).unwrap().len()).sum();
            assert!(bytes <= 2_000, "{size}: {bytes}");
        }
    }
}

/// A question that left no room for an answer was sent, answered and paid for, and could not be
/// stored.
#[test]
fn who_leaves_no_room_for_an_answer_is_told_before_it_is_paid() {
    let (_, mut prompt) = limited(DefaultChatMemory::new().limits().with_batch(1_000));
    let mut turn = prompt.turn(Message::user("q".repeat(900)));
    let error = turn.next(&prompt).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("an answer"), "{error}");
    // An answer whose calls could not even be closed is no answer.
    let mut turn = prompt.turn(Message::user("q"));
    ask(&mut turn, &prompt);
    let many = (0..9).map(|i| ToolCall::new(format!("c{i}"), "look", "{}"));
    assert!(turn.answer(Message::ai_calls(many)).is_err());
    turn.answer("a").unwrap();
    assert_eq!(done(&mut turn, &prompt).positions, 0..2);
}

/// A memory with only five methods has no limits.
#[test]
fn without_limits_all_is_taken() {
    let (memory, mut prompt) = limited(Limits::default());
    let mut turn = prompt.turn(Message::user("q".repeat(100_000)));
    ask(&mut turn, &prompt);
    turn.answer("a".repeat(100_000)).unwrap();
    done(&mut turn, &prompt);
    assert_eq!(texts(&*memory)[1].len(), 100_000);
}

/// Somebody adopted a turn and ended it. Its first owner had called another tool since, which the
/// slot did not contain, and appended that result without its call.
#[test]
fn a_late_result_is_stored_behind_its_call_or_not_at_all() {
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt);
    runs(&mut first, &prompt, "c1", "ref 7XK");
    ask(&mut first, &prompt);
    end_all(&prompt);
    first.answer(calls([("c2", "look")])).unwrap();
    runs(&mut first, &prompt, "c2", "nothing");
    assert_eq!(answered(&mut first, &prompt, "Booked.").ended, Ended::Adopted);
    assert_eq!(texts(&*memory), ["Book it.", "", "ref 7XK"]);
}

/// A webhook gave its result to a turn that was kept as JSON, before anything else: it was accepted
/// at any size, and the turn could not be stored.
#[test]
fn a_result_that_is_too_large_for_a_kept_turn_is_replaced_too() {
    let limits = DefaultChatMemory::new().limits().with_message(2_000).with_batch(4_000);
    let (_, mut prompt) = limited(limits);
    let mut kept = copy(&begun(&mut prompt)).tools(tools());
    kept.result("c1", Ok("x".repeat(9_000))).unwrap();
    assert!(kept.messages()[2].text().starts_with("The result can't be stored"));
    answered(&mut kept, &prompt, "Booked.");
}
