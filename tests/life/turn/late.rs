//! Late results: another owner has ended the turn, and nothing that happened is lost.

use super::*;

/// The same turn in another process that was given a copy.
fn copy(turn: &Turn) -> Turn {
    super::copy(turn).tools(tools())
}

/// Others append this many times, each time with an id.
fn append_as_others(memory: &impl ChatMemory, times: usize) {
    for i in 0..times {
        let append = Append::new([Message::user(format!("tab {i}"))]);
        memory.append_with(&mut append.with_id(format!("tab {i}"))).unwrap();
    }
}

/// The stand-in for a payment that took too long was shown as its result: the owner that adopted
/// the turn took the payment for failed.
#[test]
fn a_stand_in_is_not_shown_as_a_result() {
    let (_, mut prompt) = shared();
    let pay = || [Tool::new("pay", "Pays."), Tool::new("mail", "Mails.").needing_approval()];
    let turn = prompt.turn("Pay and mail.").tools(pay());
    let mut turn = wants(turn, &prompt, [("c1", "pay"), ("c2", "mail")]);
    call(&mut turn, &prompt);
    turn.outcome_unknown("c1", "It took longer than a minute.").unwrap();
    turn.approve("c2").unwrap();
    call(&mut turn, &prompt); // is written down
    let begun = prompt.unfinished().unwrap()[0].clone().calls();
    assert_eq!(begun[0].result, None);
    let mut next = Turn::new("And?");
    let sent = ask(&mut next, &prompt);
    let note = sent.prompt().iter().find(|it| it.text().contains("Begun earlier")).unwrap();
    assert!(note.text().contains("pay {\"n\":1}: its outcome is not known yet"), "{}", note.text());
}

/// The last append of a turn did not reach the memory. Another process with the same turn stored
/// it, and did not know the outcome of the booking. The first one tried again, read that the turn
/// is stored, and the booking's reference was lost.
#[test]
fn what_was_only_tried_is_not_taken_for_stored() {
    // The second memory keeps no slots.
    for limits in [DefaultChatMemory::new().limits(), Limits::default().with_ids(64)] {
        for was_tried in [true, false] {
            let (memory, mut prompt) = limited(limits);
            let mut first = begun(&mut prompt);
            let mut second = copy(&first);
            first.result("c1", ok("ref 7XK")).unwrap();
            first.interrupt(OnInterrupt::Keep);
            if was_tried {
                memory.fails.store(true, Ordering::Relaxed);
                assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Storage);
            }
            second.interrupt(OnInterrupt::Keep);
            assert_eq!(done(&mut second, &prompt).positions, 0..3);
            assert!(texts(&*memory)[2].contains("not known"));

            let late = done(&mut first, &prompt);
            assert_eq!((late.ended, late.positions), (Ended::Adopted, 3..4));
            assert_eq!(texts(&*memory)[3], "ref 7XK");
        }
    }
}

/// The same, if the first one had only missed the reply that it is stored.
#[test]
fn what_was_stored_unheard_is_not_stored_once_more() {
    for limits in [DefaultChatMemory::new().limits(), Limits::default().with_ids(64)] {
        let (memory, mut prompt) = limited(limits);
        let mut first = booking(&mut prompt);
        runs(&mut first, &prompt, "c1", "ref 7XK");
        ask(&mut first, &prompt);
        first.answer("Booked.").unwrap();
        let mut second = copy(&first);
        unheard(&memory, &mut first, &prompt);
        for turn in [&mut first, &mut second] {
            let stored = done(turn, &prompt);
            assert_eq!((stored.ended, stored.positions), (Ended::Answered, 0..4));
        }
        assert_eq!(memory.next_position().unwrap(), 4);
    }
}

/// Two processes had the same turn, another one ended it, and each of the two knew the result of
/// another call. The result that the second one knew was taken for a repetition of the first.
#[test]
fn each_of_two_owners_appends_what_it_knows() {
    let (memory, mut prompt) = shared();
    let mut first = calling(&mut prompt, "Book both.", [("c1", "book"), ("c2", "book")]);
    call(&mut first, &prompt);
    let mut second = copy(&first);
    call(&mut second, &prompt);
    let mut third = copy(&first);
    end_all(&prompt);
    first.result("c1", ok("one")).unwrap();
    second.result("c2", ok("two")).unwrap();
    third.result("c1", ok("one")).unwrap();
    assert_eq!(done(&mut first, &prompt).positions, 4..5);
    assert_eq!(done(&mut second, &prompt).positions, 5..6);
    assert_eq!(done(&mut third, &prompt).positions, 0..0, "it is there");
    assert_eq!(texts(&*memory)[4..], ["one", "two"]);
}

/// An owner knew the results of both calls of a turn that somebody else had ended. They are
/// appended one by one, and a page must be redrawn from the first one on.
#[test]
fn the_positions_of_an_owner_who_is_late_are_those_of_all_that_it_appends() {
    let (memory, mut prompt) = shared();
    let mut turn = calling(&mut prompt, "Book both.", [("c1", "book"), ("c2", "book")]);
    call(&mut turn, &prompt);
    end_all(&prompt);
    turn.result("c1", ok("one")).unwrap();
    turn.result("c2", ok("two")).unwrap();
    assert_eq!(done(&mut turn, &prompt).positions, 4..6);
    assert_eq!(texts(&*memory)[4..], ["one", "two"]);
}

/// Another owner of the turn had booked, and a third one had adopted and ended it. The first one,
/// which had never written to it, abandoned the turn: from then on it always got the error that the
/// conversation is gone.
#[test]
fn who_gives_up_a_turn_that_others_have_ended_learns_so() {
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt);
    let mut second = copy(&first);
    runs(&mut second, &prompt, "c1", "ref 7XK");
    let unfinished = prompt.unfinished().unwrap().remove(0);
    let mut third = prompt.adopt(&unfinished).unwrap();
    assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Adopted);
    first.interrupt(OnInterrupt::Forget);
    assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Adopted);
    third.interrupt(OnInterrupt::Keep);
    done(&mut third, &prompt);
    assert_eq!(done(&mut first, &prompt).ended, Ended::Adopted);
    assert_eq!(done(&mut second, &prompt).ended, Ended::Adopted);
    assert_eq!(texts(&*memory).last().unwrap(), "ref 7XK");
}

/// Two owners had run the same call of a repeatable tool, and each checked what was missing before
/// the other one had appended: the result was stored twice.
#[test]
fn two_owners_store_a_result_that_each_may_have_once() {
    for before in 2..5 {
        let (memory, mut prompt) = odd();
        let look = || [Tool::new("look", "Looks.").repeatable(), Tool::new("book", "Books.")];
        let first = prompt.turn("Look and book.").tools(look());
        let mut first = wants(first, &prompt, [("c1", "look"), ("c2", "book"), ("c3", "look")]);
        call(&mut first, &prompt);
        let mut second = copy(&first);
        end_all(&prompt);
        for turn in [&mut first, &mut second] {
            turn.result("c1", ok("one")).unwrap();
            turn.result("c3", ok("three")).unwrap();
            turn.result("c2", ok("two")).unwrap();
            turn.interrupt(OnInterrupt::Keep);
        }
        // By two appends the first one learns that the turn was ended, and looks. It has made so
        // many when the second one looks and appends.
        let others = MemoryPrompt::new(Arc::clone(&memory));
        behind_appends(&memory, before, move || {
            assert_eq!(done(&mut second, &others).ended, Ended::Adopted);
        });
        assert_eq!(done(&mut first, &prompt).ended, Ended::Adopted);
        let mut late = texts(&*memory).split_off(5);
        late.sort_unstable();
        assert_eq!(late, ["one", "three", "two", "two"], "each knows only of its own booking");
    }
}

/// Lets somebody else act before the append after this many.
fn behind_appends(memory: &Arc<Odd>, appends: usize, act: impl FnOnce() + Send + 'static) {
    let act: Box<dyn FnOnce() + Send> = Box::new(act);
    let again = Arc::clone(memory);
    match appends {
        0 => memory.meanwhile(false, act),
        _ => memory.meanwhile(false, move || behind_appends(&again, appends - 1, act)),
    }
}

/// A late result was on its way when its reply was lost, and then there was another one: it was
/// sent with the same id, and was taken for the first.
#[test]
fn a_second_late_result_is_no_repetition_of_the_first() {
    let (memory, mut prompt) = odd();
    let mut first = calling(&mut prompt, "Book both.", [("c1", "book"), ("c2", "book")]);
    call(&mut first, &prompt);
    end_all(&prompt);
    first.result("c1", ok("one")).unwrap();
    unheard(&memory, &mut first, &prompt);
    first.result("c2", ok("two")).unwrap();
    assert_eq!(done(&mut first, &prompt).ended, Ended::Adopted);
    assert_eq!(texts(&*memory)[4..], ["one", "two"]);
}

/// The id of a request had 250 bytes, which is allowed, but the ids of its late results were too
/// long.
#[test]
fn a_late_result_of_a_long_id_is_stored() {
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt).with_id("x".repeat(245));
    call(&mut first, &prompt);
    end_all(&prompt);
    first.result("c1", ok("ref 7XK")).unwrap();
    assert_eq!(done(&mut first, &prompt).positions, 3..4);
    assert_eq!(texts(&*memory)[3], "ref 7XK");

    // Those of repeatable calls go one by one, each under an id of its own.
    let (memory, mut prompt) = shared();
    let first = prompt.turn("Look.").tools(tools()).with_id("x".repeat(245));
    let mut first = wants(first, &prompt, [("c1", "look"), ("c2", "book"), ("c3", "look")]);
    call(&mut first, &prompt);
    end_all(&prompt);
    for (id, text) in [("c1", "one"), ("c2", "two"), ("c3", "three")] {
        first.result(id, ok(text)).unwrap();
    }
    done(&mut first, &prompt);
    let mut late = texts(&*memory).split_off(5);
    late.sort_unstable();
    assert_eq!(late, ["one", "three", "two"]);
}

/// Another tab had a long conversation while a tool of an ended turn ran. The search for the call
/// did not go back that far, and its result was refused as that of a forgotten conversation.
#[test]
fn a_late_result_finds_its_call_however_much_was_appended_since() {
    for n in [0, 1, 255, 256, 257, 300, 2_000] {
        let (memory, mut prompt) = shared();
        memory.add_all((0..300).map(|i| Message::user(format!("before {i}")))).unwrap();
        let mut first = begun(&mut prompt);
        memory.add_all((0..n).map(|i| Message::user(format!("tab {i}")))).unwrap();
        end_all(&prompt);
        memory.add_all((0..n).map(|i| Message::user(format!("tab {i}")))).unwrap();
        first.result("c1", ok("ref 7XK")).unwrap();
        let late = done(&mut first, &prompt);
        assert_eq!(late.ended, Ended::Adopted, "{n}");
        assert_eq!(memory.all().unwrap().messages().last().unwrap().text(), "ref 7XK");
    }
}

/// If the call is no longer there, its result is not stored without it.
#[test]
fn a_late_result_of_a_call_that_was_evicted_is_not_stored() {
    let (memory, mut prompt) = shared();
    let mut first = begun(&mut prompt);
    end_all(&prompt);
    memory.add(Message::user("tab")).unwrap();
    memory.evict(3).unwrap();
    first.result("c1", ok("ref 7XK")).unwrap();
    for _ in 0..2 {
        assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Forgotten);
    }
    assert_eq!(texts(&*memory), ["tab"]);
}

/// Between the look of a former owner and its late result, the conversation was cleared and begun
/// again: the result went into a conversation that does not contain the call.
#[test]
fn a_late_result_does_not_go_into_another_conversation() {
    let (memory, mut prompt) = odd();
    let mut first = begun(&mut prompt);
    end_all(&prompt);
    first.result("c1", ok("ref 7XK")).unwrap();
    let other = Arc::clone(&memory);
    // The first append is a note, by which it finds that the turn was ended.
    memory.meanwhile(false, move || {
        let again = Arc::clone(&other);
        other.meanwhile(false, move || {
            again.clear().unwrap();
            again.add(Message::user("Anew.")).unwrap();
        });
    });
    for _ in 0..3 {
        assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Forgotten);
    }
    assert_eq!(texts(&*memory), ["Anew."]);
}

/// The reply to the first checkpoint of a booking was lost, and somebody adopted the turn, booked
/// and ended it. Meanwhile the user had steered the turn with so much text that no slot could hold
/// it any more: no checkpoint was there, none could be written, and the booking was handed out
/// again.
#[test]
fn a_call_whose_note_may_have_been_there_is_not_handed_out_anew() {
    for is_adopted in [true, false] {
        let (memory, mut prompt) = limited(DefaultChatMemory::new().limits().with_slot(1_300));
        let mut first = booking(&mut prompt);
        let wrong = if is_adopted { &memory.loses } else { &memory.fails };
        wrong.store(true, Ordering::Relaxed);
        assert!(first.next(&prompt).is_err());
        end_all(&prompt);
        memory.add(Message::user("tab")).unwrap();
        first.steer("x".repeat(1_500)).unwrap();

        let handed_out = call(&mut first, &prompt).remove(0);
        assert_eq!(handed_out.may_have_run(), is_adopted);
        first.outcome_unknown("c1", "").unwrap();
        let ended = answered(&mut first, &prompt, "Well.");
        assert_eq!(ended.ended, if is_adopted { Ended::Adopted } else { Ended::Answered });
        let questions = texts(&*memory).iter().filter(|it| *it == "Book it.").count();
        assert_eq!(questions, 1);
    }
}

/// The turn has been ended, or its call may have run.
fn is_not_anew(turn: &mut Turn, prompt: &MemoryPrompt, tab: usize) {
    match turn.next(prompt).unwrap() {
        Next::Done(done) => assert_eq!(done.ended, Ended::Adopted),
        Next::Call(calls) => assert!(calls[0].may_have_run(), "{tab}"),
        Next::Ask(_) => panic!("nothing was answered"),
    }
}

/// The reply to the first checkpoint was lost. While its owner waited, somebody booked and ended
/// the turn, and others appended so often with ids of their own that the memory forgot its id.
#[test]
fn a_call_whose_note_was_forgotten_is_not_handed_out_anew() {
    for tab in [1, 70, 700] {
        let (memory, mut prompt) = odd();
        let mut first = booking(&mut prompt);
        unheard(&memory, &mut first, &prompt);
        end_all(&prompt);
        append_as_others(&*memory, tab);
        is_not_anew(&mut first, &prompt, tab);
    }
}

/// A worker got to a copy of a turn, from before its booking was handed out, after the booking had
/// been made and stored, and after so many appends that the memory had forgotten the turn's id. It
/// booked again.
#[test]
fn an_old_copy_is_not_handed_out_what_was_stored() {
    for tab in [0, 1, 70] {
        let (memory, mut prompt) = shared();
        let mut first = booking(&mut prompt);
        let mut second = copy(&first);
        runs(&mut first, &prompt, "c1", "ref 7XK");
        first.interrupt(OnInterrupt::Keep);
        done(&mut first, &prompt);
        append_as_others(&*memory, tab);
        is_not_anew(&mut second, &prompt, tab);
    }
}

/// One of two terminals approved a payment, made it and died. The other one, which still showed the
/// question, saw that, and handed out the payment as if it had not been made.
#[test]
fn what_another_owner_has_approved_and_run_may_have_run() {
    let tools = || [Tool::new("pay", "Pays.").needing_approval(), Tool::new("book", "Books.")];
    let (_, mut prompt) = shared();
    let first = prompt.turn("Book and pay.").tools(tools());
    let mut first = wants(first, &prompt, [("c1", "book"), ("c2", "pay")]);
    call(&mut first, &prompt);
    let mut second = copy(&first).tools(tools());
    second.approve("c2").unwrap();
    let paid = call(&mut second, &prompt).into_iter().find(|it| it.id() == "c2").unwrap();
    assert!(!paid.needs_approval() && !paid.may_have_run());
    drop(second);

    first.result("c1", ok("booked")).unwrap();
    let again = call(&mut first, &prompt).remove(0);
    assert!(again.may_have_run() && !again.needs_approval(), "{again:?}");
    first.interrupt(OnInterrupt::Keep);
    assert!(done(&mut first, &prompt).messages[3].text().contains("not known"));
}

/// A checkpoint that filled its slot could not be adopted: what an adopter writes is a few bytes
/// longer.
#[test]
fn whatever_was_written_to_a_slot_can_be_adopted() {
    let tools = || {
        let pay = Tool::new("pay", "Pays.").needing_approval();
        [Tool::new("book", "Books."), pay, Tool::new("look", "Looks.").repeatable()]
    };
    let mut written = [0, 0];
    for size in 0..700 {
        let (_, mut prompt) = limited(DefaultChatMemory::new().limits().with_slot(7_700));
        let turn = prompt.turn("q".repeat(size)).tools(tools()).with_id(size.to_string());
        let mut called = [("c", "book"); 12];
        called[0] = ("pay", "pay");
        let mut turn = wants(turn, &prompt, called);
        let is_kept = call(&mut turn, &prompt)[0].is_checkpointed();
        written[usize::from(is_kept)] += 1;
        for unfinished in prompt.unfinished().unwrap() {
            drop(prompt.adopt(&unfinished).unwrap());
            let again = prompt.unfinished().unwrap().remove(0);
            let mut turn = prompt.adopt(&again).unwrap().tools(tools());
            turn.approve("pay").unwrap();
            let handed_out = call(&mut turn, &prompt);
            assert!(handed_out.iter().all(Call::is_checkpointed), "{size}");
        }
    }
    assert!(written.iter().all(|it| *it > 50), "{written:?}");
}

/// A turn of the law below. It pays for its number under an id that all share: it has begun, others
/// have ended it, and its results are stored.
enum Paying {
    NotYet,
    Runs(Turn, String),
    Ended(Turn, String),
    Over,
}

impl Paying {
    fn goes_on(self, number: usize, memory: &Arc<DefaultChatMemory>, window: usize) -> Self {
        let prompt = MemoryPrompt::new(Arc::clone(memory)).max_messages(window);
        match self {
            Self::NotYet => {
                let mut turn = Turn::from(format!("Pay {number}.")).tools(tools());
                ask(&mut turn, &prompt);
                let pays = ToolCall::new("call_0", "book", number.to_string());
                turn.answer(Message::ai_calls([pays])).unwrap();
                let id = call(&mut turn, &prompt)[0].id().to_owned();
                Self::Runs(turn, id)
            }
            Self::Runs(turn, id) => {
                let slot = format!("Pay {number}.");
                let mut unfinished = prompt.unfinished().unwrap();
                unfinished.retain(|it| it.messages()[0].text() == slot);
                let mut other = prompt.adopt(&unfinished[0]).unwrap();
                other.interrupt(OnInterrupt::Keep);
                done(&mut other, &prompt);
                Self::Ended(turn, id)
            }
            Self::Ended(mut turn, id) => {
                turn.result(&id, Ok(format!("paid {number}"))).unwrap();
                let late = done(&mut turn, &prompt);
                assert_eq!(late.positions.end - late.positions.start, 1);
                Self::Over
            }
            Self::Over => Self::Over,
        }
    }
}

counted! {
    #![cases(300)]

    /// Servers count the ids of calls from 0 in each answer. The stand-in for one call was out of
    /// the window, or in a turn that ran at the same time: its result replaced another's.
    #[test]
    fn late_results_of_one_id_are_never_swapped(
        events in proptest::collection::vec((0usize..4, 0usize..90), 1..24), window in 2usize..9,
    ) {
        let memory = Arc::new(DefaultChatMemory::new());
        let mut turns: [Paying; 4] = std::array::from_fn(|_| Paying::NotYet);
        for (number, others) in events {
            let turn = std::mem::replace(&mut turns[number], Paying::Over);
            turns[number] = turn.goes_on(number, &memory, window);
            memory.add_all((0..others).map(|i| Message::user(format!("tab {i}")))).unwrap();
            let over = turns.iter().filter(|it| matches!(it, Paying::Over)).count();
            for window in [window, usize::MAX] {
                let prompt = MemoryPrompt::new(Arc::clone(&memory)).max_messages(window);
                let (mut called, mut paid) = (String::new(), 0);
                for message in &prompt.preview().unwrap() {
                    for call in message.tool_calls() {
                        called.clone_from(&call.arguments);
                    }
                    let text = message.text();
                    let Some(number) = text.strip_prefix("paid ") else { continue };
                    prop_assert_eq!(number, &called);
                    paid += 1;
                }
                // Where all is sent, so is what is known.
                prop_assert!(window < usize::MAX || paid == over, "{} of {}", paid, over);
            }
        }
    }
}
