//! What a new user found where turns, requests, branches and pages meet.

use memory_prompt::conversation::Live;
use memory_prompt::error::Decided;
use memory_prompt::memory::{Append, MemoryId};
use memory_prompt::message::{Media, Part};

use super::*;

/// A conversation with branches, a booking and a payment that needs approval, which is counted.
fn paying(memory: &Arc<DefaultChatMemory>, model: Scripted) -> (Conversation, Arc<AtomicUsize>) {
    let paid = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&paid);
    let prompt = MemoryPrompt::new(Arc::clone(memory)).with_branches();
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("book", "Books."), nothing)
        .tool(Tool::new("pay", "Pays.").needing_approval(), move |_: serde_json::Value| {
            count.fetch_add(1, Ordering::SeqCst);
            Ok("paid")
        });
    (conversation, paid)
}

/// A request had booked before its model failed. Its retry was pending approval while others
/// appended so much that the id of the booking was forgotten. After the approval and the answer,
/// the next retry asked the model again, which paid again.
#[test]
fn a_retry_finds_the_answer_though_its_first_part_was_forgotten() {
    for others in [0, 60, 70, 500] {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().calls("book", json!({})).fails("overloaded");
        let model = model.calls("pay", json!({})).says("It is paid.").calls("pay", json!({}));
        let (chat, paid) = paying(&memory, model);
        let ask = || chat.say(Turn::from("Book and pay.").with_id("request 1"));
        assert!(ask().is_err());
        let waiting = ask().unwrap().waiting()[0].clone();
        for i in 0..others {
            let others = [Message::user("x"), Message::ai("y")];
            memory.append_with(&mut Append::new(others).with_id(format!("other {i}"))).unwrap();
        }
        let approved = chat.approve(&waiting).unwrap();
        assert_eq!(approved.text(), "It is paid.");
        let again = ask().unwrap();
        assert_eq!((again.ended, again.text()), (Ended::Adopted, "It is paid.".into()), "{others}");
        assert_eq!(again.positions, approved.positions);
        let stored = chat.prompt().stored_turn("request 1").unwrap().unwrap();
        assert_eq!(stored.positions, approved.positions);
        assert_eq!(paid.load(Ordering::SeqCst), 1);
        let late = chat.refuse(&waiting, "No.").unwrap_err();
        let ran = ErrorKind::Decided(Decided::Ran);
        assert_eq!(late.kind(), ran, "the second button is told what came of it");
    }
}

/// A provider had paused in the middle of an answer when its model failed, or the rounds were used
/// up. The half was stored as an answer, and every retry got that.
#[test]
fn an_answer_that_does_not_go_on_is_marked_as_broken() {
    let half = || stopped("I am still look", Stop::Paused);
    let fails = Scripted::new().calls("book", json!({})).says(half()).fails("overloaded");
    for (model, rounds) in [(fails, 25), (Scripted::new().says(half()), 0)] {
        let (chat, _) = paying(&Arc::new(DefaultChatMemory::new()), model);
        let ask = || chat.say(Turn::from("Book.").with_id("request 1").max_rounds(rounds));
        drop(ask());
        let again = ask().unwrap();
        assert_eq!((again.ended, again.text()), (Ended::Adopted, "I am still look".into()));
        assert!(again.answer().unwrap().attributes().get("turn:broken").is_some());
    }
}

/// The partial answer of a regeneration that broke off, was stopped or ran out of rounds replaced
/// the complete answer.
#[test]
fn a_new_answer_that_is_no_whole_one_does_not_become_current() {
    for why in [Some(Stop::Broken), Some(Stop::Paused), None] {
        let memory = Arc::new(DefaultChatMemory::new());
        let half = why.map_or_else(|| Reply::from("half"), |why| stopped("half", why));
        let (chat, _) = paying(&memory, Scripted::new().says("The whole.").says(half));
        chat.say("Tell me.").unwrap();
        let stopper = chat.stopper();
        let anew = chat.prompt().regenerate().unwrap().max_rounds(0);
        let done = chat
            .stream(anew, move |_| {
                if why.is_none() {
                    stopper.stop();
                }
            })
            .unwrap();
        assert_ne!(done.ended, Ended::Answered);
        let page = chat.page(None, 1).unwrap();
        assert_eq!(page.entries[0].message.text(), "The whole.", "{why:?}");
    }
}

/// A person refused with a reason larger than a message may be: the turn could neither be stored
/// nor decided on again.
#[test]
fn a_reason_of_any_length_refuses_a_call() {
    let why = "no ".repeat(1_500);
    for has_approver in [false, true] {
        let memory = Odd::new(DefaultChatMemory::new().limits().with_message(2_000));
        let model = Scripted::new().calls("pay", json!({})).says("I did not.");
        let mut chat = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
            .tool(Tool::new("pay", "Pays.").needing_approval(), nothing);
        if has_approver {
            let why = why.clone();
            chat = chat.approve_by(move |_| Approval::No(why.clone()));
        }
        let mut done = chat.say("Pay.").unwrap();
        if !has_approver {
            done = chat.refuse(&done.waiting()[0], &why).unwrap();
        }
        assert_eq!(done.text(), "I did not.");
        assert_eq!(memory.messages().unwrap()[2].text(), "It was refused.");
        assert!(chat.prompt().unfinished().unwrap().is_empty());
    }
}

/// What the library adds to a refusal was not measured: with some bytes less than a message may
/// have, the reason was taken, and then the turn could never be stored.
#[test]
fn a_reason_that_just_fits_is_stored() {
    for bytes in (1_700..2_000).step_by(7) {
        let memory = Odd::new(DefaultChatMemory::new().limits().with_message(2_000));
        let model = Scripted::new().calls("pay", json!({})).says("I did not.");
        let chat = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
            .tool(Tool::new("pay", "Pays.").needing_approval(), nothing);
        let waiting = chat.say("Pay.").unwrap();
        let done = chat.refuse(&waiting.waiting()[0], &"n".repeat(bytes)).unwrap();
        assert_eq!(done.text(), "I did not.", "{bytes}");
        for message in memory.messages().unwrap() {
            let stored = memory_prompt::codec::Codec::Json.encode(&message).unwrap().len();
            assert!(stored <= 2_000, "a reason of {bytes} bytes is stored with {stored}");
        }
    }
}

/// The same words with another picture got the answer about the first picture.
#[test]
fn another_picture_is_another_question() {
    let (chat, _) = paying(&Arc::default(), Scripted::new().says("A cat.").says("A dog."));
    let ask = |url: &str| {
        let question = Message::user([Part::text("What is it?"), Part::Image(Media::url(url))]);
        chat.say(Turn::from(question).with_id("request 1"))
    };
    assert_eq!(ask("https://a.example/cat.png").unwrap().text(), "A cat.");
    assert_eq!(ask("https://a.example/cat.png").unwrap().text(), "A cat.");
    assert_eq!(ask("https://a.example/dog.png").unwrap_err().kind(), ErrorKind::Invalid);
}

/// The model of one conversation asked another one, whose error reported what remained of its own
/// turn.
#[test]
fn what_remains_of_a_turn_within_a_model_is_not_said_of_the_turn_around_it() {
    let model = Scripted::new().calls("book", json!({})).fails("overloaded");
    let (inner, _) = paying(&Arc::default(), model);
    let model = move |_: &Asking<'_>| Ok(inner.say("Book.")?.text());
    let outer = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model);
    let error = outer.run(&mut Turn::from("Book."), |_| {}).unwrap_err();
    assert_eq!((error.kind(), error.remains()), (ErrorKind::Model, None));
}

/// A regeneration was pending approval, and something else was asked: the repeated request for the
/// regeneration was refused as another question.
#[test]
fn a_request_for_a_new_answer_finds_its_own() {
    let memory = Arc::new(DefaultChatMemory::new());
    let model = Scripted::new().says("Unpaid.").calls("pay", json!({})).says("Fine.");
    let (chat, paid) = paying(&memory, model.says("It is paid."));
    chat.say("Is it paid?").unwrap();
    let anew = || chat.say(chat.prompt().regenerate().unwrap().with_id("request 1"));
    let waiting = anew().unwrap().waiting()[0].clone();
    chat.say("And the weather?").unwrap();
    let again = anew().unwrap();
    assert_eq!((again.ended, again.waiting()), (Ended::Parked, &[waiting.clone()][..]));
    assert_eq!(chat.approve(&waiting).unwrap().text(), "It is paid.");
    assert_eq!(anew().unwrap().text(), "It is paid.");
    assert_eq!(paid.load(Ordering::SeqCst), 1);
}

/// A client repeated its request while it ran, and reloaded its page: it got the message that a
/// request with this id is being answered, instead of the answer.
#[test]
fn a_page_follows_the_request_that_is_answered() {
    let (go, held) = channel::<()>();
    let held = Mutex::new(held);
    let book = move |_: serde_json::Value| {
        held.lock().unwrap().recv().unwrap();
        Ok("booked")
    };
    let model = Scripted::new().calls("book", json!({})).says("It is booked.");
    let chat = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
        .tool(Tool::new("book", "Books."), book);
    let (live, of) = (Live::new(), MemoryId::from("ada"));
    let begin = || live.begin(of.clone(), Turn::from("Book.").with_id("request 1"));
    thread::scope(|scope| {
        let first = begin();
        let runs = scope.spawn(|| chat.tell(first));
        until(|| !chat.prompt().unfinished().unwrap().is_empty());
        let second = begin();
        let last = second.follow().next().unwrap().id;
        for last in [Some(&*last), None] {
            let page = chat.follow(&live, &of, last).unwrap();
            let told = page.unwrap();
            scope.spawn(move || {
                let told: Vec<_> = told.map(|it| it.name).collect();
                assert!(told.contains(&"done"), "{told:?}");
            });
        }
        let busy = chat.tell(second).unwrap_err().kind();
        assert!(matches!(busy, ErrorKind::Busy { .. }));
        go.send(()).unwrap();
        assert_eq!(runs.join().unwrap().unwrap().text(), "It is booked.");
    });
    assert_eq!(chat.finish(Duration::from_secs(9)), 0);
}

/// The model was asked and paid for before a turn that begins with an answer was refused.
#[test]
fn a_turn_begins_with_a_question() {
    for no_question in [Message::ai("Welcome!"), Message::tool("c1", "pay", "paid")] {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().says("Hello.");
        let chat = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model.clone());
        let error = chat.say(Turn::from(no_question)).unwrap_err();
        assert_eq!((error.kind(), model.asked().len()), (ErrorKind::Invalid, 0));
        assert!(texts(&memory).is_empty());
    }
}

/// A booking was made, and the model failed after it, twice. The second time the client read that
/// nothing is stored, and asked again.
#[test]
fn a_retry_that_fails_too_says_what_is_stored() {
    let model = Scripted::new().calls("book", json!({})).fails("overloaded").fails("overloaded");
    let (chat, _) = paying(&Arc::new(DefaultChatMemory::new()), model);
    for _ in 0..2 {
        let error = chat.say(Turn::from("Book it.").with_id("request 1")).unwrap_err();
        assert_eq!(error.remains(), Some(Remains::Stored));
    }
}

/// A page repeated its request, and got its question and the end. From there on it got the answer
/// without its first letter.
#[test]
fn who_follows_a_request_that_comes_again_is_told_its_answer() {
    let (live, ada) = (Live::new(), MemoryId::from("ada"));
    let (chat, _) = paying(&Arc::new(DefaultChatMemory::new()), Scripted::new().says("Á Norvegi."));
    let begin = || live.begin(ada.clone(), Turn::from("Where is Oslo?").with_id("request"));
    chat.tell(begin()).unwrap();
    let again = begin();
    let told = again.follow();
    assert_eq!(chat.tell(again).unwrap().text(), "Á Norvegi.");
    let told: Vec<_> = told.collect();
    let texts = told.iter().filter(|it| it.name == "text").filter_map(|it| it.data.as_str());
    assert_eq!(texts.collect::<String>(), "Á Norvegi.");
    let last = &told.last().unwrap().id;
    assert!(chat.follow(&live, &ada, Some(last)).unwrap().is_none());
}
