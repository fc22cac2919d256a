//! Requests that are repeated with their id, at each stage of the first one: one retry, one answer.

use std::sync::atomic::AtomicU32;

use memory_prompt::memory::Append;

use super::approval::pays;
use super::either::{BOTH, Either, paying};
use super::*;

fn request(text: &str) -> Turn {
    Turn::from(text).with_id("request 4711")
}

/// A turn of this request that has asked, and whose model wants to book.
fn begun(prompt: &MemoryPrompt) -> Turn {
    let mut turn = request("Book.").tools([Tool::new("book", "Books.")]);
    let Next::Ask(_) = turn.next(prompt).unwrap() else { panic!() };
    turn.answer(called([("c1", "book")])).unwrap();
    let Next::Call(_) = turn.next(prompt).unwrap() else { panic!() };
    turn
}

/// The first request ran a tool, and then the model failed. The retry asked the whole question
/// again, and its client got `Ok` with an empty text.
#[test]
fn where_the_first_one_was_not_answered_the_retry_goes_on_behind_it() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).fails("overloaded").says("Paid.");
        let (memory, paid, conversation) = paying(is_async, model.clone());
        let parked = conversation.say(request("Pay.")).unwrap();
        let error = conversation.approve(&parked.waiting()[0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Model);
        assert_eq!(memory.next_position().unwrap(), 3);

        let again = conversation.say(request("Pay.")).unwrap();
        assert_eq!((again.text().as_str(), again.positions.clone()), ("Paid.", 3..4));
        assert_eq!(model.asked()[2].len(), 3, "the question, the call and its result");
        let once_more = conversation.say(request("Pay.")).unwrap();
        assert_eq!((once_more.text().as_str(), &once_more.positions), ("Paid.", &again.positions));
        assert_eq!(once_more.ended, Ended::Adopted);
        assert_eq!(texts(&memory), ["Pay.", "", "paid", "Paid."]);
        assert_eq!((model.asked().len(), paid.load(Ordering::Relaxed)), (3, 1));
    }
}

/// The first request ran a tool, and then the model failed. Another request made the same payment.
/// The retry's model, which continued after the stored part of its own, did not read that: it could
/// pay again.
#[test]
fn a_retry_is_told_what_others_have_done_since() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).fails("overloaded");
        let model = model.says(pays(1)).says("Bob has it.").says("Both are paid.");
        let (_, _, conversation) = paying(is_async, model.clone());
        let parked = conversation.say(request("Pay Ann.")).unwrap();
        conversation.approve(&parked.waiting()[0]).unwrap_err();
        let other = conversation.say("Pay Bob.").unwrap();
        conversation.approve(&other.waiting()[0]).unwrap();

        assert_eq!(conversation.say(request("Pay Ann.")).unwrap().text(), "Both are paid.");
        let sent = model.asked().pop().unwrap().to_messages();
        assert_eq!(sent.len(), 4, "the question, the call, its result and a note: {sent:#?}");
        let note = sent.iter().find(|it| it.text().starts_with("(Begun earlier"));
        let note = note.unwrap().text().into_owned();
        assert_eq!(note.lines().nth(1), Some(r#"- pay {"n":1}: its result is "paid""#), "{note}");
        assert_eq!(note.lines().count(), 2, "{note}");
    }
}

/// The first request's process died, and the owner that adopted its turn answered it. The id was
/// lost by that, and the retry booked again.
#[test]
fn what_an_adopter_has_answered_is_the_answer_of_the_request() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        drop(begun(&prompt));
        let unfinished = prompt.unfinished().unwrap().remove(0);
        assert_eq!(unfinished.id(), "request 4711");
        let mut adopted = prompt.adopt(&unfinished).unwrap();
        assert_eq!(adopted.id(), "request 4711", "it is the same in all hands");
        adopted.outcome_unknown("c1", "The process died.").unwrap();
        let Next::Ask(_) = adopted.next(&prompt).unwrap() else { panic!() };
        adopted.answer("I don't know.").unwrap();
        let Next::Done(done) = adopted.next(&prompt).unwrap() else { panic!() };

        let model = Scripted::new();
        let conversation = Either::new(is_async, &memory, model.clone(), &Arc::default());
        let again = conversation.say(request("Book.")).unwrap();
        assert_eq!((again.text(), again.positions), (done.text(), done.positions));
        assert_eq!(model.asked().len(), 0);
    }
}

/// The first request was pending approval, and the retry got `Adopted` and nothing else. When the
/// first was approved and answered, the retry still had no answer.
#[test]
fn a_retry_of_a_request_that_waits_has_the_calls_that_wait() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let (memory, paid, conversation) = paying(is_async, model.clone());
        let parked = conversation.say(request("Pay.")).unwrap();
        // Others say so much that the memory knows the id no more: the slot tells.
        for n in 0..100 {
            if n % 50 == 0 {
                let again = conversation.say(request("Pay.")).unwrap();
                assert_eq!((again.ended, again.waiting()), (Ended::Parked, parked.waiting()));
            }
            let tab = Append::new([Message::user("tab"), Message::ai("x")]);
            memory.append_with(&mut tab.with_id(format!("tab {n}"))).unwrap();
        }
        let again = conversation.say(request("Pay.")).unwrap();
        assert_eq!((again.ended, again.waiting()), (Ended::Parked, parked.waiting()));
        let done = conversation.approve(&again.waiting()[0]).unwrap();
        let again = conversation.say(request("Pay.")).unwrap();
        assert_eq!((again.text(), again.positions), (done.text(), done.positions));
        assert_eq!((model.asked().len(), paid.load(Ordering::Relaxed)), (2, 1));
    }
}

/// While the first request ran, 298 of 300 retries were answered `Ok` with an empty text.
#[test]
fn a_retry_while_the_first_one_runs_is_told_since_when() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let mut first = begun(&prompt);
        let conversation =
            Either::new(is_async, &memory, Scripted::new().says("x"), &Arc::default());
        let busy = conversation.say(request("Book.")).unwrap_err();
        assert!(matches!(busy.kind(), ErrorKind::Busy { since: Some(_) }), "{busy:?}");
        assert!(busy.to_string().contains("a request of this id"), "{busy}");
        first.result("c1", Ok("booked")).unwrap();
        let Next::Ask(_) = first.next(&prompt).unwrap() else { panic!() };
        first.answer("Booked.").unwrap();
        first.next(&prompt).unwrap();
        assert_eq!(conversation.say(request("Book.")).unwrap().text(), "Booked.");
    }
}

/// Two requests with one id ran at once, without a tool that leaves a checkpoint. One was stored,
/// and the client of the other was shown an answer that is stored nowhere.
#[test]
fn of_two_requests_at_once_both_have_the_stored_answer() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let mut first = request("Hi.");
        let Next::Ask(_) = first.next(&prompt).unwrap() else { panic!() };
        let second = Either::new(is_async, &memory, Scripted::new().says("two"), &Arc::default());
        assert_eq!(second.say(request("Hi.")).unwrap().text(), "two");
        first.answer("one").unwrap();
        let Next::Done(done) = first.next(&prompt).unwrap() else { panic!() };
        assert_eq!((done.text().as_str(), done.positions), ("two", 0..2));
        assert_eq!(texts(&memory), ["Hi.", "two"]);
    }
}

/// A client used the id of an earlier request for another question, and got the answer to the
/// earlier one.
#[test]
fn another_question_under_an_id_is_an_error() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::new(AtomicU32::new(0)));
        let model = Scripted::new().says("Hello.").says(pays(1));
        let conversation = Either::new(is_async, &memory, model, &paid);
        conversation.say(request("Hi.")).unwrap();
        let error = conversation.say(request("Pay.")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains("another question"), "{error}");
        // Also while it waits.
        conversation.say(Turn::from("Pay.").with_id("request 2")).unwrap();
        let error = conversation.say(Turn::from("Hi.").with_id("request 2")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
}

/// The turn of another question failed under the id, and was asked for its next step again, as a
/// conversation does: it got the answer of the first question, or continued after it.
#[test]
fn another_question_under_an_id_stays_an_error() {
    for is_async in BOTH {
        for is_answered in BOTH {
            let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
            let prompt = MemoryPrompt::new(Arc::clone(&memory));
            let mut first = begun(&prompt);
            first.result("c1", Ok("booked")).unwrap();
            if is_answered {
                let Next::Ask(_) = first.next(&prompt).unwrap() else { panic!() };
                first.answer("Booked.").unwrap();
            } else {
                first.interrupt(OnInterrupt::Keep);
            }
            let Next::Done(_) = first.next(&prompt).unwrap() else { panic!() };
            let stored = texts(&memory);

            let mut other = request("Pay.");
            for _ in 0..3 {
                assert_eq!(other.next(&prompt).unwrap_err().kind(), ErrorKind::Invalid);
            }
            let conversation = Either::new(is_async, &memory, Scripted::new(), &paid);
            let error = conversation.say(request("Pay.")).unwrap_err();
            let told = (error.kind(), error.remains());
            assert_eq!(told, (ErrorKind::Invalid, Some(Remains::Nothing)));
            assert_eq!(texts(&memory), stored);
        }
    }
}

/// A request continued after its stored part, and was pending. Its slot then has no question, and
/// another question with the id was shown its calls.
#[test]
fn another_question_under_an_id_is_an_error_where_the_first_one_goes_on() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let mut first = begun(&prompt);
        first.interrupt(OnInterrupt::Keep);
        let Next::Done(_) = first.next(&prompt).unwrap() else { panic!() };
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let conversation = Either::new(is_async, &memory, model, &paid);
        let parked = conversation.say(request("Book.")).unwrap();
        for _ in 0..2 {
            assert_eq!(conversation.say(request("Hi.")).unwrap_err().kind(), ErrorKind::Invalid);
        }
        let again = conversation.say(request("Book.")).unwrap();
        assert_eq!((again.ended, again.waiting()), (Ended::Parked, parked.waiting()));
        assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
    }
}

/// A payment took too long, the model failed, and the payment ended. The client asked again, and
/// only its model read that the outcome is unknown: it paid again, or said so.
#[test]
fn a_retry_knows_the_late_result_of_its_own_call() {
    for is_async in BOTH {
        for (has_come, tabs) in [(true, 0), (true, 1), (true, 300), (false, 1)] {
            let memory = Arc::new(DefaultChatMemory::new());
            let prompt = MemoryPrompt::new(Arc::clone(&memory));
            let mut first = begun(&prompt);
            let mut adopted = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
            adopted.interrupt(OnInterrupt::Keep);
            let Next::Done(_) = adopted.next(&prompt).unwrap() else { panic!() };
            for _ in 0..tabs {
                memory.add_all([Message::user("tab"), Message::ai("other")]).unwrap();
            }
            if has_come {
                first.result("c1", Ok("booked")).unwrap();
                let Next::Done(_) = first.next(&prompt).unwrap() else { panic!() };
            }
            let model = Scripted::new().says("Well.");
            let conversation = Either::new(is_async, &memory, model.clone(), &Arc::default());
            let done = conversation.say(request("Book.")).unwrap();
            assert_eq!((done.ended, done.text().as_str()), (Ended::Answered, "Well."));
            let sent = model.asked()[0].to_messages();
            let told = |text: &str| sent.iter().any(|it| it.text().contains(text));
            assert_eq!((told("booked"), told("not known")), (has_come, !has_come), "{sent:#?}");
            // Without one it does not read what was said since.
            assert!(has_come || !told("tab"));
        }
    }
}

/// A request was dropped before anything had run, and could never be repeated with its id.
#[test]
fn a_request_that_was_forgotten_can_be_asked_again() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let tool = Tool::new("pay", "Pays.").needing_approval();
        let mut first = request("Pay.").tools([tool]);
        first.next(&prompt).unwrap();
        first.answer(pays(1)).unwrap();
        first.next(&prompt).unwrap();
        first.interrupt(OnInterrupt::Forget);
        first.next(&prompt).unwrap();
        let paid = Arc::default();
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let conversation = Either::new(is_async, &memory, model, &paid);
        let parked = conversation.say(request("Pay.")).unwrap();
        let done = conversation.approve(&parked.waiting()[0]).unwrap();
        assert_eq!((done.text().as_str(), done.positions), ("Paid.", 0..4));
        assert_eq!(conversation.say(request("Pay.")).unwrap().text(), "Paid.");
    }
}
