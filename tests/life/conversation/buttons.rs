//! Buttons that are older than what they decide on, or from another place: each decides on its own
//! call, or reports the outcome of that call.

use std::sync::Barrier;
use std::sync::atomic::AtomicU32;
use std::time::SystemTime;

use memory_prompt::error::Decided;
use memory_prompt::memory::{Append, Expected};
use memory_prompt::turn::{Inbox, Waiting};
use memory_prompt::{ChatMemoryStore, InMemoryStore};

use super::approval::{decided, pays};
use super::either::{BOTH, Either, counting, paying};
use super::*;

fn changed(waiting: &Waiting, field: &str, value: serde_json::Value) -> Waiting {
    let mut json = serde_json::to_value(waiting).unwrap();
    json[field] = value;
    serde_json::from_value(json).unwrap()
}

/// While two versions of a service were deployed, a person approved a payment at the older one,
/// which has no such tool: the model read that, and the approved call was never made.
#[test]
fn a_call_is_not_approved_where_it_could_not_be_run() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let (memory, paid, conversation) = paying(is_async, model);
        let parked = conversation.say("Pay.").unwrap();
        let older = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), Scripted::new())
            .tool(Tool::new("look", "Looks."), |()| Ok("seen"));
        let error = older.approve(&parked.waiting()[0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert_eq!(error.to_string(), "approve: There is no tool \"pay\".");
        assert_eq!(conversation.waiting(), parked.waiting(), "it waits as before");
        assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
        assert_eq!(paid.load(Ordering::Relaxed), 1);

        // It can be refused there: nothing is to be run for that.
        let model = Scripted::new().says(pays(1));
        let conversation = Either::new(is_async, &memory, model, &paid);
        let parked = conversation.say("Pay again.").unwrap();
        let older =
            Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), Scripted::new().says("No."));
        assert_eq!(older.refuse(&parked.waiting()[0], "Too dear.").unwrap().text(), "No.");
    }
}

/// Models and clients count from one. In two conversations, calls of the same id were pending, in
/// turns of the same id, and the button of one decided on the other.
#[test]
fn a_button_of_another_conversation_decides_nothing() {
    for is_async in BOTH {
        let talk = |reply: &str| {
            let model = Scripted::new().says(pays(1)).says(reply);
            let (_, paid, conversation) = paying(is_async, model);
            let parked = conversation.say(Turn::from("Pay.").with_id("request 1")).unwrap();
            (conversation, parked.waiting()[0].clone(), paid)
        };
        let ((one, first, _), (two, second, paid)) = (talk("One."), talk("Two."));
        assert_eq!((&first.turn, &first.call), (&second.turn, &second.call));
        assert_eq!(decided(two.approve(&first)), Some(Decided::Gone));
        assert_eq!(decided(two.refuse(&first, "No.")), Some(Decided::Gone));
        assert_eq!(paid.load(Ordering::Relaxed), 0);
        assert_eq!(two.approve(&second).unwrap().text(), "Two.");
        assert_eq!(one.approve(&first).unwrap().text(), "One.");
    }
}

/// A conversation was cleared, or deleted, and its client sent the same request again. The old
/// button decided on the new call, which nobody had looked at.
#[test]
fn a_button_of_before_decides_nothing_on_what_was_begun_anew() {
    for is_cleared in BOTH {
        let store = InMemoryStore::new();
        let paid = Arc::new(AtomicU32::new(0));
        let model = Scripted::new().says(pays(1)).says(pays(1)).says("Paid.");
        let prompt = MemoryPrompt::new(store.memory("support:1").unwrap());
        let conversation = Conversation::new(prompt, model)
            .tool(Tool::new("pay", "Pays.").needing_approval(), counting(&paid));
        let request = || Turn::from("Pay.").with_id("request 1");
        let before = conversation.say(request()).unwrap().waiting()[0].clone();
        if is_cleared {
            conversation.prompt().memory().clear().unwrap();
        } else {
            store.delete(&"support:1".into()).unwrap();
        }
        assert_eq!(decided(conversation.approve(&before)), Some(Decided::Gone));
        let now = conversation.say(request()).unwrap().waiting()[0].clone();
        assert_eq!((&now.turn, &now.call), (&before.turn, &before.call));
        assert_eq!(decided(conversation.approve(&before)), Some(Decided::Gone));
        assert_eq!(paid.load(Ordering::Relaxed), 0);
        assert_eq!(conversation.approve(&now).unwrap().text(), "Paid.");
        assert_eq!(decided(conversation.refuse(&now, "No.")), Some(Decided::Ran));
    }
}

/// A payment was approved and made, and then the model failed. The client asked again, and the
/// model wanted another payment, which is pending: the first button said that its turn is gone, as
/// if nothing had been paid.
#[test]
fn a_button_says_that_its_call_has_run_though_a_retry_waits() {
    for is_async in BOTH {
        let model = Scripted::new().says(pays(1)).fails("overloaded").says(pays(1)).says("Paid.");
        let (_, paid, conversation) = paying(is_async, model);
        let request = || Turn::from("Pay.").with_id("request 1");
        let before = conversation.say(request()).unwrap().waiting()[0].clone();
        assert_eq!(conversation.approve(&before).unwrap_err().kind(), ErrorKind::Model);
        let now = conversation.say(request()).unwrap().waiting()[0].clone();
        assert_eq!(now.turn, before.turn);
        assert_ne!(now, before);
        assert_eq!(decided(conversation.approve(&before)), Some(Decided::Ran));
        assert_eq!(decided(conversation.refuse(&before, "No.")), Some(Decided::Ran));
        assert_eq!(paid.load(Ordering::Relaxed), 1);
        assert_eq!(conversation.approve(&now).unwrap().text(), "Paid.");
        assert_eq!(paid.load(Ordering::Relaxed), 2);
    }
}

/// The same button is clicked in many places at once.
#[test]
fn of_many_clicks_at_once_one_decides() {
    for round in 0..20 {
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let (memory, paid, conversation) = paying(round % 2 == 0, model);
        let parked = conversation.say("Pay.").unwrap();
        let (start, won) = (Barrier::new(8), AtomicU32::new(0));
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    match conversation.approve(&parked.waiting()[0]) {
                        Ok(done) => {
                            assert_eq!(done.text(), "Paid.");
                            won.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => {
                            assert!(matches!(error.kind(), ErrorKind::Decided(_)), "{error:?}");
                        }
                    }
                });
            }
        });
        assert_eq!((won.into_inner(), paid.load(Ordering::Relaxed)), (1, 1));
        assert_eq!(texts(&memory), ["Pay.", "", "paid", "Paid."]);
    }
}

/// A button comes from a page, which may send anything back.
#[test]
fn a_button_with_strange_ids_decides_nothing() {
    let model = Scripted::new().says(pays(1)).says("Paid.");
    let (_, paid, conversation) = paying(false, model);
    let parked = conversation.say("Pay.").unwrap();
    let waiting = &parked.waiting()[0];
    for strange in ["", "\0", "\n", &"x".repeat(10_000), "../x", "'; DROP TABLE slot; --"] {
        for field in ["turn", "call", "tool", "arguments", "life"] {
            let other = changed(waiting, field, json!(strange));
            let error = conversation.approve(&other).unwrap_err();
            let is_named = matches!(error.kind(), ErrorKind::Decided(_) | ErrorKind::Invalid);
            assert!(is_named, "{field} {strange:?}: {error:?}");
        }
    }
    assert_eq!((paid.load(Ordering::Relaxed), conversation.waiting().len()), (0, 1));
    assert_eq!(conversation.approve(waiting).unwrap().text(), "Paid.");
}

/// The clock of one dead process was a year ahead, and that of another one was at 1970.
#[test]
fn clocks_that_go_wrong_end_no_turn_too_early() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let model = Scripted::new().calls("book", json!({})).fails("overloaded").fails("overloaded");
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("book", "Books."), |_: serde_json::Value| Ok("booked"));
    let mut turn = Turn::from("Book.");
    conversation.run(&mut turn, |_| {}).unwrap_err();
    let memory = conversation.prompt().memory();
    let (name, mut version) = memory.slots().unwrap().remove(0);
    let slot = memory.slot(&name).unwrap().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let now = u64::try_from(now.as_millis()).unwrap();
    for (since, is_dead) in [(now + 31_536_000_000, false), (u64::MAX, false), (0, true)] {
        let mut content: serde_json::Value = serde_json::from_slice(slot.content()).unwrap();
        content["since"] = json!(since);
        let write = Append::default().set_slot(&name, content.to_string(), Expected::Is(version));
        version = memory.append_with(&mut { write }).unwrap().version.unwrap();
        let ended = conversation.recover(Duration::from_secs(60)).unwrap();
        assert_eq!(ended, usize::from(is_dead), "since {since}");
    }
    assert!(memory.slots().unwrap().is_empty());
    // What was written in the future is ended once nobody else runs.
    let mut turn = Turn::from("Book.");
    conversation.run(&mut turn, |_| {}).unwrap_err();
}

/// The person who decides saw the calls of one conversation at a time, and had to ask each of
/// 10,000.
#[test]
fn an_inbox_has_the_calls_of_all_conversations_in_pages() {
    let store = InMemoryStore::new();
    let paid = Arc::new(AtomicU32::new(0));
    let chat = |id: &str, model: Scripted| {
        Conversation::new(MemoryPrompt::new(store.memory(id).unwrap()), model)
            .tool(Tool::new("pay", "Pays.").needing_approval(), counting(&paid))
            .tool(Tool::new("book", "Books."), |()| Ok("booked"))
    };
    for n in 0..150 {
        let id = format!("ann:{n:03}");
        match n % 3 {
            0 => _ = chat(&id, Scripted::new().says("Hello.")).say("Hi.").unwrap(),
            // It was begun, and its process is busy, or died.
            1 => {
                let model = Scripted::new().calls("book", json!({})).fails("overloaded");
                let mut turn = Turn::from("Book.");
                chat(&id, model).run(&mut turn, |_| {}).unwrap_err();
            }
            _ => {
                let parked = chat(&id, Scripted::new().says(pays(2))).say("Pay both.").unwrap();
                assert_eq!(parked.ended, Ended::Parked);
            }
        }
    }
    let bens = chat("ben:1", Scripted::new().says(pays(1))).say("Pay.").unwrap();
    // What a later version has written is left out.
    let later = Append::default().set_slot("turn:x", r#"{"turn": 2}"#, Expected::Absent);
    store.memory("ann:000").unwrap().append_with(&mut { later }).unwrap();

    let (mut all, mut pages) = (Vec::new(), 0);
    loop {
        let page = store.waiting("ann:", all.last(), 7).unwrap();
        if page.is_empty() {
            break;
        }
        assert!(page.len() <= 14, "the calls of seven turns");
        all.extend(page);
        pages += 1;
    }
    assert_eq!((all.len(), pages), (100, 8));
    let ids: Vec<_> = all.iter().map(|(id, call)| (id.as_str(), call.call.as_str())).collect();
    assert!(ids.is_sorted() && ids[..2] == [("ann:002", "c1"), ("ann:002", "c2")]);
    assert!(store.waiting("ann:", None, 0).unwrap().is_empty());
    assert_eq!(store.waiting("ben:", None, 9).unwrap()[0].1, bens.waiting()[0]);
    assert_eq!(store.waiting("", None, 1_000).unwrap().len(), 101);
    assert!(store.waiting("nobody", None, 9).unwrap().is_empty());

    // Each is what its conversation decides on.
    let (id, call) = &all[0];
    let parked = chat(id.as_str(), Scripted::new()).approve(call).unwrap();
    assert_eq!((parked.ended, paid.load(Ordering::Relaxed)), (Ended::Parked, 1));
    let done = chat(id.as_str(), Scripted::new().says("Paid.")).refuse(&all[1].1, "No.").unwrap();
    assert_eq!(done.text(), "Paid.");
    assert_eq!(store.waiting("ann:", None, 1).unwrap()[0].0.as_str(), "ann:005");

    #[cfg(feature = "tokio")]
    {
        use memory_prompt::adapt::ToAsync;
        use memory_prompt::turn::AsyncInbox;

        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let expected = store.waiting("ann:", all.get(5), 9).unwrap();
        let shared = ToAsync::new(store.clone());
        let page = runtime.block_on(AsyncInbox::waiting(&shared, "ann:", all.get(5), 9)).unwrap();
        assert_eq!(page, expected);
    }
}
