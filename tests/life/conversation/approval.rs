//! People and the calls that are pending approval: one decision, one call.

use std::future::{pending, ready};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::task::{Context, Waker};

use memory_prompt::error::Decided;
use memory_prompt::memory::BoxFuture;
use memory_prompt::message::{AiMessage, AiPart, Reasoning};
use memory_prompt::turn::{Done, OnConflict, Reply, Waiting};
use memory_prompt::wire::Stop;

use super::either::{BOTH, Either, Own, counting, paying};
use super::faults::{Slow, polled};
use super::late_async::Woken;
use super::*;
use crate::turn::copy;

/// An answer that pays this many times.
pub(crate) fn pays(times: usize) -> Message {
    Message::ai_calls(
        (1..=times).map(|n| ToolCall::new(format!("c{n}"), "pay", json!({"n": n}).to_string())),
    )
}

/// A turn that has asked, whose model has given this answer, and that was handed what it may run.
fn begun(mut turn: Turn, prompt: &MemoryPrompt, answer: Message) -> Turn {
    let Next::Ask(_) = turn.next(prompt).unwrap() else { panic!("it asks") };
    turn.answer(answer).unwrap();
    let Next::Call(_) = turn.next(prompt).unwrap() else { panic!("it calls") };
    turn
}

fn pay() -> Tool {
    Tool::new("pay", "Pays.").needing_approval()
}

/// Gives this turn the result of its mail, and ends it.
fn end(mut mail: Turn, prompt: &MemoryPrompt) {
    mail.result("m", Ok("mailed")).unwrap();
    mail.next(prompt).unwrap();
    mail.answer("Sent.").unwrap();
    let Next::Done(_) = mail.next(prompt).unwrap() else { panic!("it ends") };
}

/// A process takes over what was left, and dies in this call, which somebody has approved.
fn dies_in(memory: &Arc<impl ChatMemory + 'static>, call: &str) {
    let prompt = MemoryPrompt::new(Arc::clone(memory));
    let mut dying = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
    dying.approve(call).unwrap();
    dying.next(&prompt).unwrap();
}

pub(crate) fn decided(outcome: Result<Done>) -> Option<Decided> {
    match outcome.unwrap_err().kind() {
        ErrorKind::Decided(how) => Some(how),
        _ => None,
    }
}

/// A approved, and the tool paid. B, whose page was older, said no, and that was stored over the
/// payment: the next prompt said that nothing was paid.
#[test]
fn who_decides_second_is_told_what_came_of_it() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).says("Done.");
        let (memory, paid, conversation) = paying(is_async, model);
        assert_eq!(conversation.say("Pay.").unwrap().ended, Ended::Parked);
        let (a, b) = (conversation.waiting().remove(0), conversation.waiting().remove(0));
        assert_eq!((a.tool.as_str(), a.arguments.as_str()), ("pay", r#"{"n":1}"#));
        assert!(a.since.is_some());
        assert_eq!(conversation.approve(&a).unwrap().text(), "Done.");
        assert_eq!(decided(conversation.refuse(&b, "The user said no.")), Some(Decided::Ran));
        assert_eq!(decided(conversation.approve(&b)), Some(Decided::Ran));
        assert_eq!(texts(&memory), ["Pay.", "", "paid", "Done."]);
        assert_eq!(paid.load(Ordering::Relaxed), 1);

        // The other way round.
        let model = Scripted::new().says(pays(1)).says("A pity.");
        let conversation = Either::new(is_async, &memory, model, &paid);
        conversation.say("Pay again.").unwrap();
        let a = conversation.waiting().remove(0);
        assert_eq!(conversation.refuse(&a, "Too dear.").unwrap().text(), "A pity.");
        assert_eq!(decided(conversation.approve(&a)), Some(Decided::Refused));
        assert_eq!(paid.load(Ordering::Relaxed), 1);
    }
}

/// `error` reported a refusal for a call that another owner had been handed and had paid: that
/// stayed its result forever, and the true one was left out.
#[test]
fn a_true_result_takes_the_place_of_an_answer_by_who_did_not_run_it() {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new(Arc::clone(&memory));
    let mut turn = begun(Turn::from("Pay.").tools([pay()]), &prompt, pays(1));
    turn.approve("c1").unwrap();
    turn.next(&prompt).unwrap(); // it is handed out, and runs

    let mut other = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap().tools([pay()]);
    assert_eq!(other.refuse("c1", "No.").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(other.approve("c1").unwrap_err().kind(), ErrorKind::Invalid);
    other.error("c1", "The user said no.").unwrap();
    other.interrupt(OnInterrupt::Keep);
    let Next::Done(_) = other.next(&prompt).unwrap() else { panic!() };
    assert_eq!(prompt.preview().unwrap()[2].text(), "The user said no.");

    turn.result("c1", Ok("paid")).unwrap();
    let Next::Done(done) = turn.next(&prompt).unwrap() else { panic!() };
    assert_eq!(done.ended, Ended::Adopted);
    assert_eq!(prompt.preview().unwrap()[2].text(), "paid");
}

/// Two calls of one answer were pending, each with its own button. After the first click the turn
/// had another id, and the second button found nothing.
#[test]
fn each_of_two_buttons_works() {
    for is_async in BOTH {
        for first_is_yes in BOTH {
            let model = Scripted::new().says(pays(2)).says("Done.");
            let (memory, paid, conversation) = paying(is_async, model);
            let parked = conversation.say("Pay both.").unwrap();
            let [first, second] = parked.waiting() else { panic!("{:?}", parked.waiting()) };
            let parked = conversation.decide(first, first_is_yes).unwrap();
            assert_eq!(parked.ended, Ended::Parked);
            assert_eq!(parked.waiting().len(), 1);
            // As the page has it, and from another process.
            let json = serde_json::to_string(second).unwrap();
            let second: Waiting = serde_json::from_str(&json).unwrap();
            let other = Either::new(is_async, &memory, Scripted::new().says("Done."), &paid);
            assert_eq!(other.approve(&second).unwrap().text(), "Done.");
            let said = if first_is_yes { "paid" } else { "The user said no." };
            assert_eq!(texts(&memory)[2..4], [said, "paid"]);
            assert_eq!(paid.load(Ordering::Relaxed), 1 + u32::from(first_is_yes));
        }
    }
}

/// Two turns were pending. The first was approved, paid and stored; then the model of the second
/// one read that the first had not run.
#[test]
fn a_turn_that_is_approved_later_denies_nothing() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).says(pays(1)).says("One.").says("Two.");
        let (_, _, conversation) = paying(is_async, model.clone());
        let one = conversation.say("Pay Ann.").unwrap();
        let two = conversation.say("Pay Bob.").unwrap();
        conversation.approve(&one.waiting()[0]).unwrap();
        conversation.approve(&two.waiting()[0]).unwrap();
        let asked = model.asked();
        let denies =
            |at: usize| asked[at].iter().any(|it: &Message| it.text().contains("has not run"));
        assert!(denies(1), "while the first waits, the second is told so");
        assert!(denies(2), "while the second waits, the first is told so");
        assert!(!denies(3), "{:#?}", asked[3].to_messages());
        let told = |it: &Message| it.text().contains(r#"- pay {"n":1}: its result is "paid""#);
        assert!(asked[3].iter().any(told), "nor does it forget: {:#?}", asked[3].to_messages());
    }
}

/// The same with a turn that its owner has kept, as a value or as JSON, and that is not adopted.
#[test]
fn a_turn_that_is_kept_until_it_is_approved_is_told_what_others_have_done() {
    let tools = || [pay(), Tool::new("look", "").repeatable()];
    for (is_refused, is_json) in BOTH.into_iter().flat_map(|it| BOTH.map(|json| (it, json))) {
        let prompt = MemoryPrompt::new(DefaultChatMemory::new());
        let note_after = |mut turn: Turn, is_refused: bool| {
            if is_refused {
                turn.error("c1", "not now").unwrap();
            } else {
                turn.approve("c1").unwrap();
                let Next::Call(_) = turn.next(&prompt).unwrap() else { panic!() };
                turn.result("c1", Ok("paid")).unwrap();
            }
            if is_json {
                turn = copy(&turn);
            }
            let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
            let sent = ask.prompt().to_messages();
            assert_eq!(sent.len(), 5, "{sent:#?}");
            turn.answer(Message::ai("Good.")).unwrap();
            let Next::Done(_) = turn.next(&prompt).unwrap() else { panic!() };
            sent[0].text().into_owned()
        };
        let [kept, other] = ["Pay Ann.", "Pay Bob."].map(|question| {
            let turn = Turn::from(question).tools(tools());
            let mut turn = begun(turn, &prompt, called([("c1", "pay"), ("c2", "look")]));
            turn.result("c2", Ok("seen")).unwrap();
            turn
        });
        assert!(note_after(other, false).contains("pay {}: has not run"));
        let note = note_after(kept, is_refused);
        assert!(note.ends_with("\n- pay {}: its result is \"paid\""), "{note}");
        assert_eq!(note.lines().count(), 2, "{note}");
    }
}

/// A model had signed its thoughts before its call, and while that waited another turn sent a mail.
/// The note about the mail was put before the question: the provider refused the thoughts, whatever
/// was tried, and the approved turn never had its answer.
#[test]
fn nothing_changes_before_signed_thoughts() {
    for is_signed in BOTH {
        let prompt = MemoryPrompt::new(DefaultChatMemory::new());
        let tools = || [pay(), Tool::new("mail", "Mails.")];
        let mail = begun(Turn::from("Mail.").tools(tools()), &prompt, called([("m", "mail")]));
        let signature = is_signed.then(|| "signed".to_owned());
        let thought = Reasoning { signature, ..Reasoning::new("Hm.") };
        let call = ToolCall::new("c1", "pay", "{}");
        let answer = AiMessage::from_parts([AiPart::Reasoning(thought), AiPart::ToolCall(call)]);
        let mut turn = Turn::from("Pay.").tools(tools());
        let Next::Ask(first) = turn.next(&prompt).unwrap() else { panic!() };
        turn.answer(answer).unwrap();
        turn.next(&prompt).unwrap();
        end(mail, &prompt);
        let mut turn = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
        turn.approve("c1").unwrap();
        turn.next(&prompt).unwrap();
        turn.result("c1", Ok("paid")).unwrap();
        let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
        let sent = ask.prompt().to_messages();
        let noted: Vec<_> = sent.iter().map(|it| it.text().contains("\"mailed\"")).collect();
        let is_kept = sent.starts_with(&first.prompt().to_messages());
        assert_eq!(is_kept, is_signed, "{sent:#?}");
        let wanted: &[bool] = if is_signed {
            &[false, false, false, false, true]
        } else {
            &[true, false, false, false]
        };
        assert_eq!(noted, wanted, "{sent:#?}");
        // And it stays where it is.
        turn.answer(called([("c2", "pay")])).unwrap();
        turn.approve("c2").unwrap();
        turn.next(&prompt).unwrap();
        turn.result("c2", Ok("paid")).unwrap();
        let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
        assert!(ask.prompt().to_messages().starts_with(&sent), "{:#?}", ask.prompt());
    }
}

/// The same where an answer paused: the note was put behind its first half, which the next one was
/// to continue. And where a request came again, behind what was stored of it.
#[test]
fn what_is_new_stands_behind_a_whole_answer_with_signed_thoughts() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let tools = || [Tool::new("book", "Books."), Tool::new("mail", "Mails.")];
    let signed = |more: AiPart| {
        let thought = Reasoning { signature: Some("signed".to_owned()), ..Reasoning::new("Hm.") };
        Reply::from(AiMessage::from_parts([AiPart::Reasoning(thought), more]))
    };
    let mail = || begun(Turn::from("Mail.").tools(tools()), &prompt, called([("m", "mail")]));
    let first = mail();
    let mut turn = Turn::from("Look and book.").tools(tools()).with_id("r");
    turn.next(&prompt).unwrap();
    let mut half = signed(AiPart::from("So far:"));
    half.stop = Some(Stop::Paused);
    turn.answer(half).unwrap();
    end(first, &prompt);
    let mut turn = copy(&turn).tools(tools());
    let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
    assert!(ask.prompt().iter().last().unwrap().as_ai().is_some(), "{:#?}", ask.prompt());
    turn.answer(signed(AiPart::ToolCall(ToolCall::new("c1", "book", "{}")))).unwrap();
    turn.next(&prompt).unwrap();
    turn.result("c1", Ok("booked")).unwrap();
    let is_note = |it: &Message| it.text().starts_with("(Begun earlier");
    let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
    assert!(is_note(ask.prompt().iter().last().unwrap()), "{:#?}", ask.prompt());
    turn.interrupt(OnInterrupt::Keep);
    turn.next(&prompt).unwrap();

    end(mail(), &prompt);
    let mut again = Turn::from("Look and book.").tools(tools()).with_id("r");
    let Next::Ask(ask) = again.next(&prompt).unwrap() else { panic!() };
    let sent: Vec<_> = ask.prompt().iter().map(is_note).collect();
    assert_eq!(sent.iter().filter(|it| **it).count(), 1);
    assert!(sent.last().unwrap(), "{:#?}", ask.prompt());
}

/// While a turn was pending, others made ten payments and began another one. Only the note can tell
/// the model about that one.
#[test]
fn a_call_that_runs_is_told_before_those_that_are_stored() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let begun = |tool: &str, n: usize| {
        let turn = Turn::from(format!("Pay {n}."))
            .tools([Tool::new("pay", "Pays."), Tool::new("ask", "Asks.").needing_approval()]);
        let call = ToolCall::new("c1", tool, json!({"n": n}).to_string());
        begun(turn, &prompt, Message::ai_calls([call]))
    };
    let mut waits = begun("ask", 0);
    for n in 1..=12 {
        let mut turn = begun("pay", n);
        turn.result("c1", Ok("paid")).unwrap();
        turn.next(&prompt).unwrap();
        turn.answer(Message::ai("Paid.")).unwrap();
        turn.next(&prompt).unwrap();
    }
    let _runs = begun("pay", 13);
    waits.refuse("c1", "No.").unwrap();
    let Next::Ask(ask) = waits.next(&prompt).unwrap() else { panic!() };
    let note = ask.prompt()[0].text().into_owned();
    assert!(note.ends_with("pay {\"n\":13}: its outcome is not known yet"), "{note}");
    assert!(note.contains("and 3 earlier calls") && note.contains("\"n\":12"), "{note}");
}

/// 200 parked calls were listed in 111 KB before each question, after which small models did not
/// find it; and in a budget of 4,000 tokens no question fitted any more.
#[test]
fn a_note_about_many_calls_is_short_and_stands_before_the_question() {
    let memory = Arc::new(DefaultChatMemory::new());
    let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
    for n in 0..200 {
        let turn = Turn::from(format!("Pay {n}.")).tools([pay()]);
        let why = json!({"n": n, "why": "because ".repeat(60)}).to_string();
        begun(turn, &prompt, Message::ai_calls([ToolCall::new("c1", "pay", why)]));
    }
    let mut turn = prompt.turn(Message::user("Hi?"));
    let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
    let sent: Vec<_> = ask.prompt().iter().map(|it| it.text().into_owned()).collect();
    assert_eq!(sent.len(), 2);
    assert_eq!(sent[1], "Hi?");
    assert!(sent[0].len() < 4_000, "{} bytes", sent[0].len());
    assert!(sent[0].contains("and 190 earlier calls"), "{}", sent[0]);
    assert!(sent[0].contains(r#""n":199"#), "the newest are told");

    let words = |text: &str| text.split_whitespace().count();
    let mut small = MemoryPrompt::new(memory).max_tokens(40, words);
    let mut turn = small.turn(Message::user("Hi?"));
    let Next::Ask(ask) = turn.next(&small).unwrap() else { panic!() };
    let sent: Vec<_> = ask.prompt().iter().map(|it| it.text().into_owned()).collect();
    assert!(sent[0].contains("have begun calls") && sent[1] == "Hi?", "{sent:?}");
}

/// One process died while it paid, another one while a person was to decide. Each service needed
/// the same fifteen lines to end the first and spare the second.
#[test]
fn the_turns_of_dead_processes_are_ended() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let (memory, _, conversation) = paying(is_async, model);
        let dead = Turn::from("Book.").tools([Tool::new("book", "Books.")]);
        begun(dead, &MemoryPrompt::new(Arc::clone(&memory)), called([("c1", "book")]));
        let parked = conversation.say("Pay.").unwrap();

        assert_eq!(conversation.recover(Duration::from_secs(60)).unwrap(), 0, "it may still run");
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 1);
        assert!(texts(&memory)[2].contains("not known"));
        assert_eq!(conversation.waiting(), parked.waiting(), "a person decides");
        assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 0);
    }
}

/// A process died while it ran the first of two calls, and a person still had to decide on the
/// second.
#[test]
fn a_turn_that_runs_one_call_is_busy_for_the_other_button() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(2)).says("Done.");
        let (memory, _, conversation) = paying(is_async, model);
        let parked = conversation.say("Pay both.").unwrap();
        dies_in(&memory, "c1");

        let busy = conversation.approve(&parked.waiting()[1]).unwrap_err();
        assert!(matches!(busy.kind(), ErrorKind::Busy { since: Some(_) }), "{busy:?}");
        assert_eq!(decided(conversation.approve(&parked.waiting()[0])), Some(Decided::Approved));
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 1);
        assert_eq!(conversation.approve(&conversation.waiting()[0]).unwrap().text(), "Done.");
        let stored = texts(&memory);
        assert!(stored[2].contains("not known") && stored[3] == "paid", "{stored:?}");
        let again = decided(conversation.refuse(&parked.waiting()[0], "No."));
        assert_eq!(again, Some(Decided::OutcomeUnknown));
    }
}

/// An answer looked something up and wanted to pay, and the process died before the look-up was
/// written down. Each call of `recover` said again that it had ended the turn; the button and a
/// retry of the request were busy forever.
#[test]
fn a_call_beside_a_repeatable_one_of_a_dead_process_can_be_decided_on() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let request = || Turn::from("Look and pay.").with_id("request 1");
        let look = || Tool::new("look", "Looks.").repeatable();
        // It looks, and its process dies.
        let dying = request().tools([look(), pay()]);
        begun(dying, &prompt, called([("c1", "look"), ("c2", "pay")]));

        let conversation = Either::new(is_async, &memory, Scripted::new().says("Paid."), &paid)
            .tool(look(), |_| Ok("30 EUR".to_owned()));
        let busy = conversation.approve(&conversation.waiting()[0]).unwrap_err();
        assert!(matches!(busy.kind(), ErrorKind::Busy { .. }), "{busy:?}");
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 1);
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 0, "it waits for a person");
        let again = conversation.say(request()).unwrap();
        assert_eq!((again.ended, again.waiting()), (Ended::Parked, &*conversation.waiting()));
        assert_eq!(conversation.approve(&again.waiting()[0]).unwrap().text(), "Paid.");
        let stored = texts(&memory);
        assert!(stored[2].starts_with("The process died. ") && stored[3] == "paid", "{stored:?}");
        assert_eq!(paid.load(Ordering::Relaxed), 1);
    }
}

/// Three payments were pending. The process died in the first, and then in the second. From then on
/// each `recover` was an error, since the outcome of the first was unknown, and a service that
/// begins with `recover` no longer started.
#[test]
fn a_process_may_die_in_one_call_after_the_other() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(3)).says("Paid.");
        let (memory, _, conversation) = paying(is_async, model);
        conversation.say("Pay all.").unwrap();
        for id in ["c1", "c2"] {
            dies_in(&memory, id);
            assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 1);
        }
        let waiting = conversation.waiting();
        assert_eq!((waiting.len(), waiting[0].call.as_str()), (1, "c3"));
        assert_eq!(conversation.approve(&waiting[0]).unwrap().text(), "Paid.");
        let stored = texts(&memory);
        assert!(stored[2..4].iter().all(|it| it.starts_with("The process died. ")), "{stored:?}");
        assert_eq!(stored[4], "paid");
    }
}

/// A process died in a turn that must not be stored after others, and another tab had said
/// something since. Each `recover` was a conflict, and the later turns in the list were left.
#[test]
fn a_dead_turn_that_was_to_fail_where_others_append_is_ended() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        for on_conflict in [OnConflict::Fail, OnConflict::Behind, OnConflict::Fail] {
            let dying = Turn::from("Book.").on_conflict(on_conflict);
            begun(dying.tools([Tool::new("book", "Books.")]), &prompt, called([("c1", "book")]));
        }
        memory.add(Message::user("the other tab")).unwrap();
        let conversation = Either::new(is_async, &memory, Scripted::new(), &paid);
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 3);
        assert!(prompt.unfinished().unwrap().is_empty());
        assert_eq!(memory.next_position().unwrap(), 10);
    }
}

/// One of three dead turns could not be taken over, because the disk was full for a moment: the
/// others were left too.
#[test]
fn a_dead_turn_that_can_not_be_ended_leaves_the_others_no_worse() {
    for is_async in BOTH {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        for _ in 0..3 {
            let dying = Turn::from("Book.").tools([Tool::new("book", "Books.")]);
            begun(dying, &prompt, called([("c1", "book")]));
        }
        let conversation = Either::new(is_async, &memory, Scripted::new(), &Arc::default());
        memory.fails.store(true, Ordering::Relaxed);
        assert_eq!(conversation.recover(Duration::ZERO).unwrap_err().kind(), ErrorKind::Storage);
        assert_eq!(memory.next_position().unwrap(), 6, "two of them have ended");
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 1);
    }
}

/// The result of a report outgrew the slot, which still said that a payment was pending. Somebody
/// approved it and it was paid; the process died, the payment was still in the inbox, and was paid
/// again. And if nobody had decided, the turn was parked, and the result of the report was in no
/// memory.
#[test]
fn a_call_is_not_approved_of_that_its_slot_would_let_run_again() {
    for is_async in BOTH {
        for approval in [Approval::Yes, Approval::Later] {
            let memory = Odd::new(DefaultChatMemory::new().limits().with_slot(3_000));
            let paid = Arc::default();
            let model = Scripted::new().says(called([("c1", "report"), ("c2", "pay")]));
            let conversation = Either::new(is_async, &memory, model, &paid)
                .tool(Tool::new("report", "Reports."), |_| Ok("x".repeat(4_000)))
                .approve_by(move |_| approval.clone());
            let error = conversation.say("Report and pay.").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            assert_eq!(paid.load(Ordering::Relaxed), 0);
            assert!(memory.slots().unwrap().is_empty());
            let stored = memory.messages().unwrap();
            assert_eq!((stored.len(), stored[2].text().len()), (4, 4_000));
            assert!(stored[3].text().starts_with("Not run: "), "{}", stored[3].text());
        }
    }
}

/// A turn filled its slot except for some bytes. Its call could be approved but never refused, and
/// if its process died, that could not be written down.
#[test]
fn a_call_of_a_turn_that_fills_its_slot_can_be_refused() {
    for is_async in BOTH {
        let mut parked = 0;
        for slot in (600..2_400).step_by(20) {
            let memory = Odd::new(DefaultChatMemory::new().limits().with_slot(slot));
            let model = Scripted::new().says(pays(2)).says("A pity.");
            let conversation = Either::new(is_async, &memory, model, &Arc::default());
            if conversation.say("Pay.").is_err() {
                continue; // it has no room for a checkpoint
            }
            parked += 1;
            dies_in(&memory, "c1");
            assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 1);
            let waiting = conversation.waiting().remove(0);
            let why = "The user said that one payment of these is enough for today, thank you.";
            assert_eq!(conversation.refuse(&waiting, why).unwrap().text(), "A pity.");
        }
        assert!(parked > 10, "{parked} fit");
    }
}

/// A user refused one of two payments. While the other one was pending, the models of later turns
/// read that the first was done, with the refusal as its result.
#[test]
fn a_refused_call_is_not_told_as_done() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(2)).says("Hello.");
        let (_, _, conversation) = paying(is_async, model.clone());
        conversation.say("Pay both.").unwrap();
        conversation.refuse(&conversation.waiting()[0], "Too dear.").unwrap();
        conversation.say("Hi.").unwrap();
        let told = model.asked()[1][0].text().into_owned();
        assert!(told.contains(r#"pay {"n":2}: has not run"#), "{told}");
        assert!(!told.contains(r#"{"n":1}"#) && !told.contains("dear"), "{told}");
    }
}

/// A call was pending, and the reply of the memory to its approval was lost: the call was never
/// run, and the button was dead.
#[test]
fn a_decision_whose_answer_gets_lost_stands() {
    for is_async in BOTH {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let model = Scripted::new().says(pays(1)).says("Done.");
        let conversation = Either::new(is_async, &memory, model, &Arc::default());
        let parked = conversation.say("Pay.").unwrap();
        memory.loses.store(true, Ordering::Relaxed);
        assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Done.");
        assert_eq!(memory.messages().unwrap()[2].text(), "paid");
    }
}

/// Two payments were pending. The memory failed once while the first was approved, and the second
/// was closed as not run, though nobody had decided on it.
#[test]
fn a_fault_while_one_call_is_decided_on_leaves_the_other_one_waiting() {
    for (is_async, is_done, at) in BOTH.into_iter().flat_map(|is_async| {
        BOTH.into_iter().flat_map(move |is_done| (0..24).map(move |at| (is_async, is_done, at)))
    }) {
        let (memory, paid) = (Odd::new(DefaultChatMemory::new().limits()), Arc::default());
        let model = Scripted::new().says(pays(2)).says("Done.").says("Done.");
        let conversation = Either::new(is_async, &memory, model, &paid);
        *memory.plan.lock().unwrap() = vec![(at, is_done)];
        let Ok(parked) = conversation.say("Pay both.") else { continue };
        let failed = conversation.approve(&parked.waiting()[0]).is_err();
        memory.plan.lock().unwrap().clear();
        let waiting = conversation.waiting();
        let ids: Vec<_> = waiting.iter().map(|it| it.call.as_str()).collect();
        if failed && ids.len() == 2 {
            assert_eq!(paid.load(Ordering::Relaxed), 0);
            continue; // nothing was decided
        }
        assert_eq!(ids, ["c2"], "{failed} {is_done} {at}");
        let before = paid.load(Ordering::Relaxed);
        assert_eq!(conversation.approve(&waiting[0]).unwrap().text(), "Done.");
        assert_eq!(paid.load(Ordering::Relaxed), before + 1);
        let stored = memory.messages().unwrap();
        let times = stored.iter().filter(|it| it.text() == "paid").count();
        assert_eq!(times, before as usize + 1, "{stored:?}");
    }
}

/// The reply of the memory to an approval was lost, and then the memory could not be read. The
/// error said that nothing was changed, but the call was approved.
#[test]
fn a_decision_of_which_nobody_knows_is_not_said_to_have_changed_nothing() {
    for is_async in BOTH {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let model = Scripted::new().says(pays(1));
        let conversation = Either::new(is_async, &memory, model, &Arc::default());
        let parked = conversation.say("Pay.").unwrap();
        let waiting = &parked.waiting()[0];
        // One that was not written has changed nothing.
        memory.is_unreadable.store(true, Ordering::Relaxed);
        assert_eq!(conversation.approve(waiting).unwrap_err().kind(), ErrorKind::Storage);
        memory.loses.store(true, Ordering::Relaxed);
        let others = Arc::clone(&memory);
        memory.meanwhile(true, move || others.is_unreadable.store(true, Ordering::Relaxed));
        let error = conversation.approve(waiting).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unacknowledged);
        assert!(std::error::Error::source(&error).is_some());
        assert_eq!(decided(conversation.approve(waiting)), Some(Decided::Approved));
        assert_eq!(conversation.recover(Duration::ZERO).unwrap(), 1);
    }
}

/// A payment ended after its turn had. The person who decided second read that its outcome was
/// unknown, while each prompt had it.
#[test]
fn who_decides_second_is_told_of_a_late_result() {
    for is_async in BOTH {
        for tabs in [0, 300] {
            let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
            let prompt = MemoryPrompt::new(Arc::clone(&memory));
            let conversation = Either::new(is_async, &memory, Scripted::new().says(pays(1)), &paid);
            let parked = conversation.say("Pay.").unwrap();
            let adopt = || prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
            let mut first = adopt();
            first.approve("c1").unwrap();
            first.next(&prompt).unwrap(); // it runs
            let mut second = adopt();
            second.interrupt(OnInterrupt::Keep);
            second.next(&prompt).unwrap();
            for _ in 0..tabs {
                memory.add_all([Message::user("tab"), Message::ai("other")]).unwrap();
            }
            let late = || decided(conversation.approve(&parked.waiting()[0]));
            assert_eq!(late(), Some(Decided::OutcomeUnknown));
            first.result("c1", Ok("paid")).unwrap();
            first.next(&prompt).unwrap();
            assert_eq!(late(), Some(Decided::Ran));
        }
    }
}

/// The conversation was cleared while a call was pending.
#[test]
fn a_call_of_a_conversation_that_was_cleared_waits_no_more() {
    let model = Scripted::new().says(pays(1));
    let (memory, _, conversation) = paying(false, model);
    let parked = conversation.say("Pay.").unwrap();
    memory.clear().unwrap();
    assert_eq!(decided(conversation.approve(&parked.waiting()[0])), Some(Decided::Gone));
    assert!(texts(&memory).is_empty());
}

/// An async service asked a person over the network, but its approver could only block.
#[test]
fn an_approver_may_be_async() {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
    let model = Scripted::new().says(pays(2)).says("Done.");
    let conversation = Conversation::new_async(prompt, model)
        .tool(pay(), |_: serde_json::Value| Ok("paid"))
        .approve_by_async(|call| {
            let is_first = call.id() == "c1";
            ready(if is_first { Approval::Yes } else { Approval::No("Once is enough.".into()) })
        });
    assert_eq!(polled(conversation.say("Pay both."), 2_000).unwrap().unwrap().text(), "Done.");
    assert_eq!(texts(&memory)[2..4], ["Once is enough.", "paid"]);
}

/// What a user typed while a turn ran could reach only turns of hand-written loops.
#[test]
fn what_the_user_adds_reaches_the_turn_that_runs() {
    for is_async in BOTH {
        let (memory, own) = (Arc::new(DefaultChatMemory::new()), Own::default());
        let steers = own.clone();
        let conversation = own.set(Either::by(is_async, &memory, move |ask| {
            if ask.prompt().iter().filter(|it| it.is_user()).count() > 1 {
                return Ok("A cheap one.".into());
            }
            // The user types while it answers.
            steers.get().steer("And cheap.")?;
            Ok("Here is one.".into())
        }));
        let none = conversation.steer("Nobody hears.").unwrap_err();
        assert_eq!(none.kind(), ErrorKind::Invalid);
        assert_eq!(conversation.say("A room.").unwrap().text(), "A cheap one.");
        assert_eq!(texts(&memory), ["A room.", "Here is one.", "And cheap.", "A cheap one."]);
        assert!(conversation.steer("Nobody hears.").is_err());
    }
}

/// What a model does when it is asked for the n-th time: it may steer or stop its own turn.
type Act = fn(usize, &dyn Fn(&str), &Stopper) -> Result<Reply, ModelError>;

/// Returns what is stored of a question to such a model, with at most one round of calls.
fn steered(is_async: bool, act: Act) -> Vec<String> {
    let (memory, own) = (Arc::new(DefaultChatMemory::new()), Own::default());
    let (asks, asked) = (own.clone(), AtomicUsize::new(0));
    let model = move |_: &Asking<'_>| {
        let own = asks.get();
        let n = asked.fetch_add(1, Ordering::Relaxed);
        act(n, &|text| own.steer(text).unwrap(), &own.stopper())
    };
    let conversation = Either::by(is_async, &memory, model);
    let book = Tool::new("book", "Books.");
    let conversation = own.set(conversation.tool(book, |_| Ok("booked".to_owned())));
    let _ = conversation.say(Turn::from("A room.").max_rounds(1));
    texts(&memory)
}

const NO_MORE: &str = "Not run: the limit of rounds of calls in a turn is 1.";

/// A user added something, and then the answer broke off, the rounds were used up, the user stopped
/// it or the model failed: the addition was accepted, but stored nowhere.
#[test]
fn what_the_user_adds_at_the_end_is_stored() {
    let acts: [(Act, &[&str]); 4] = [
        (
            |_, steer, _| {
                steer("And cheap.");
                Ok(stopped("Half an", Stop::Broken))
            },
            &["A room.", "Half an", "And cheap."],
        ),
        (
            |n, steer, _| {
                if n == 1 {
                    steer("And cheap.");
                }
                Ok(called([("c1", "book")]).into())
            },
            &["A room.", "", "booked", "", NO_MORE, "And cheap."],
        ),
        (
            |_, steer, stopper| {
                steer("And cheap.");
                stopper.stop();
                Err("it was stopped".into())
            },
            &["A room.", "And cheap."],
        ),
        (
            |n, steer, _| {
                if n == 0 {
                    return Ok(called([("c1", "book")]).into());
                }
                steer("And cheap.");
                Err("overloaded".into())
            },
            &["A room.", "", "booked", "And cheap."],
        ),
    ];
    for is_async in BOTH {
        for (act, stored) in acts {
            assert_eq!(steered(is_async, act), stored);
        }
    }
}

/// Somebody was asked to approve a payment, and the user added something meanwhile. The turn was
/// parked, and the addition was dropped.
#[test]
fn what_the_user_adds_to_a_turn_that_is_parked_is_kept() {
    for is_async in BOTH {
        let (memory, own) = (Arc::new(DefaultChatMemory::new()), Own::default());
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let (steers, is_told) = (own.clone(), AtomicBool::new(false));
        let conversation = Either::new(is_async, &memory, model.clone(), &Arc::default());
        let parked = own.set(conversation.approve_by(move |_| {
            if !is_told.swap(true, Ordering::Relaxed) {
                steers.get().steer("And cheap.").unwrap();
            }
            Approval::Later
        }));
        assert_eq!(parked.say("Pay.").unwrap().ended, Ended::Parked);
        let conversation = Either::new(is_async, &memory, model, &Arc::default());
        assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
        assert_eq!(texts(&memory), ["Pay.", "", "paid", "And cheap.", "Paid."]);
    }
}

/// What a user added was too large for the memory: it was accepted, and the running turn failed,
/// although its answer was paid for.
#[test]
fn what_is_too_large_to_be_added_does_not_end_the_turn() {
    for (limits, is_taken) in [
        (DefaultChatMemory::new().limits().with_message(1_000), false),
        // One is as large as the memory takes, and two are too much for one turn.
        (DefaultChatMemory::new().limits().with_batch(4_000), true),
    ] {
        let (memory, own) = (Odd::new(limits), Own::default());
        let steers = own.clone();
        let conversation = own.set(Either::by(false, &memory, move |_| {
            for _ in 0..2 {
                assert_eq!(steers.get().steer("x".repeat(2_000)).is_ok(), is_taken);
            }
            Ok("A room.".into())
        }));
        let done = conversation.say(Turn::from("A room.").max_rounds(2));
        if is_taken {
            // What fits is there, and the rest is left out.
            let stored = texts(&memory);
            assert!(done.is_ok(), "{done:?}");
            assert!(stored.iter().any(|it| it.len() == 2_000), "{stored:?}");
        } else {
            assert_eq!(done.unwrap().text(), "A room.");
        }
    }
}

/// A user abandoned a question with a pending call. It was stored all the same, as an interrupted
/// turn.
#[test]
fn a_parked_turn_of_which_nothing_has_run_is_forgotten() {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new(Arc::clone(&memory));
    for has_id in BOTH {
        let turn = Turn::from("Pay.").tools([pay()]);
        let turn = if has_id { turn.with_id("request 1") } else { turn };
        let mut turn = begun(turn, &prompt, pays(1));
        turn.interrupt(OnInterrupt::Forget);
        let Next::Done(done) = turn.next(&prompt).unwrap() else { panic!() };
        assert_eq!((done.ended, done.positions), (Ended::Interrupted, 0..0));
        assert!(texts(&memory).is_empty() && memory.slots().unwrap().is_empty());
    }
}

/// A user stopped the answer while another person was asked about a payment and wanted to decide
/// later. The turn still waited for that person, and the stop was forgotten.
#[test]
fn a_stop_while_somebody_is_asked_is_not_forgotten() {
    for (is_async, calls) in BOTH.into_iter().flat_map(|it| [(it, 1), (it, 2)]) {
        let (memory, paid, conversation) = paying(is_async, Scripted::new().says(pays(calls)));
        let own = Own::default();
        let stops = own.clone();
        let own = own.set(conversation.approve_by(move |_| {
            stops.get().stopper().stop();
            Approval::Later
        }));
        assert_eq!(own.say("Pay.").unwrap().ended, Ended::Interrupted);
        assert!(own.waiting().is_empty());
        assert_eq!(paid.load(Ordering::Relaxed), 0);
        assert_eq!(texts(&memory)[2], "Not run: the turn was interrupted.");
    }
}

/// An async approver asked a person who did not come. A stop had no effect until that person came.
#[test]
fn a_stop_ends_the_wait_for_an_async_approver() {
    let memory = Arc::new(DefaultChatMemory::new());
    let model = Scripted::new().says(pays(1));
    let talk = Conversation::new_async(MemoryPrompt::new_async(Slow(Arc::clone(&memory))), model)
        .approve_by_async(|_| pending())
        .tool(pay(), nothing);
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let mut said = Box::pin(talk.say("Pay."));
    for _ in 0..50 {
        assert!(said.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(woken.times(), 0);
    talk.stopper().stop();
    assert_eq!(woken.times(), 1, "whoever waits is woken");
    assert_eq!(polled(said, 5_000).unwrap().unwrap().ended, Ended::Interrupted);
    assert_eq!(texts(&memory), ["Pay.", "", "Not run: the turn was interrupted."]);
}

/// Approves a payment, or regenerates its answer, and stops that after this many polls. Returns
/// true if nothing had begun by then.
fn is_stopped_after(polls: usize, is_approved: bool) -> bool {
    let (paid, asked) = (Arc::default(), Arc::new(AtomicU32::new(0)));
    let counts = Arc::clone(&asked);
    let prompt = MemoryPrompt::new_async(Slow(Arc::new(DefaultChatMemory::new()))).with_branches();
    let model = Scripted::new().says(pays(1)).says("Paid.").says("Paid, I said.");
    let talk = Conversation::new_async(prompt, model)
        .on_prompt(move |_| {
            counts.fetch_add(1, Ordering::Relaxed);
        })
        .tool(pay(), counting(&paid));
    polled(talk.say("Pay."), 5_000).unwrap().unwrap();
    let waiting = polled(talk.waiting(), 5_000).unwrap().unwrap().remove(0);
    let mut answer: BoxFuture<'_, _> = Box::pin(talk.approve(&waiting));
    if !is_approved {
        polled(answer, 5_000).unwrap().unwrap();
        answer = Box::pin(talk.regenerate());
    }
    let so_far = || (paid.load(Ordering::Relaxed), asked.load(Ordering::Relaxed));
    let before = so_far();
    for _ in 0..polls {
        let _ = answer.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        if so_far() != before {
            return false;
        }
    }
    talk.stopper().stop();
    let done = polled(answer, 5_000).unwrap().unwrap();
    assert_eq!((so_far(), done.ended), (before, Ended::Interrupted), "{polls} {is_approved}");
    true
}

/// A user approved, and stopped the answer while the decision was written: the stop was forgotten,
/// and the payment was made. A stop of a regeneration was forgotten too.
#[test]
fn a_stop_that_comes_while_an_answer_begins_is_not_forgotten() {
    for is_approved in [true, false] {
        let stopped = (1..99).take_while(|polls| is_stopped_after(*polls, is_approved)).count();
        assert!(stopped > 1);
    }
}
