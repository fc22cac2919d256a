//! People and the calls that wait for them: one decision, one call.

use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_prompt::conversation::{Approval, Asking, Conversation, ModelError, Scripted, Stopper};
use memory_prompt::error::Decided;
use memory_prompt::turn::{
    Call, Ended, Next, OnConflict, OnInterrupt, Reply, ToolError, Turn, Waiting,
};
use memory_prompt::wire::Stop;
use memory_prompt::{
    AsyncChatMemory, ChatMemory, ChatMemoryExt, DefaultChatMemory, Error, ErrorKind, MemoryPrompt,
    Message, Result, Tool, ToolCall,
};
use serde_json::json;

use crate::conversation::faults::{Slow, polled};
use crate::conversation::texts;
use crate::odd::Odd;

/// A conversation of either kind over this memory, with a payment that needs approval.
pub(crate) enum Either {
    Blocking(Conversation),
    Async(Conversation<dyn AsyncChatMemory>),
}

const BOTH: [bool; 2] = [false, true];

impl Either {
    pub(crate) fn new(
        is_async: bool,
        memory: &Arc<impl ChatMemory + 'static>,
        model: Scripted,
        paid: &Arc<AtomicU32>,
    ) -> Self {
        let paid = Arc::clone(paid);
        let pay = move |_: serde_json::Value| {
            paid.fetch_add(1, Ordering::Relaxed);
            Ok("paid")
        };
        let tool = Tool::new("pay", "Pays.").needing_approval();
        if is_async {
            let prompt = MemoryPrompt::new_async(Slow(Arc::clone(memory)));
            Self::Async(Conversation::new_async(prompt, model).tool(tool, pay))
        } else {
            let prompt = MemoryPrompt::new(Arc::clone(memory));
            Self::Blocking(Conversation::new(prompt, model).tool(tool, pay))
        }
    }

    pub(crate) fn tool(
        self,
        tool: Tool,
        run: impl Fn(serde_json::Value) -> std::result::Result<String, ToolError>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        match self {
            Self::Blocking(it) => Self::Blocking(it.tool(tool, run)),
            Self::Async(it) => Self::Async(it.tool(tool, run)),
        }
    }

    pub(crate) fn approve_by(
        self,
        approver: impl Fn(&Call) -> Approval + Send + Sync + 'static,
    ) -> Self {
        match self {
            Self::Blocking(it) => Self::Blocking(it.approve_by(approver)),
            Self::Async(it) => Self::Async(it.approve_by(approver)),
        }
    }

    pub(crate) fn say(&self, turn: impl Into<Turn>) -> Result<memory_prompt::turn::Done> {
        match self {
            Self::Blocking(it) => it.say(turn),
            Self::Async(it) => polled(it.say(turn), 2_000).unwrap(),
        }
    }

    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        match self {
            Self::Blocking(it) => it.waiting().unwrap(),
            Self::Async(it) => polled(it.waiting(), 2_000).unwrap().unwrap(),
        }
    }

    pub(crate) fn approve(&self, waiting: &Waiting) -> Result<memory_prompt::turn::Done> {
        match self {
            Self::Blocking(it) => it.approve(waiting),
            Self::Async(it) => polled(it.approve(waiting), 2_000).unwrap(),
        }
    }

    pub(crate) fn refuse(&self, waiting: &Waiting, why: &str) -> Result<memory_prompt::turn::Done> {
        match self {
            Self::Blocking(it) => it.refuse(waiting, why),
            Self::Async(it) => polled(it.refuse(waiting, why), 2_000).unwrap(),
        }
    }

    pub(crate) fn recover(&self, silent_for: Duration) -> usize {
        self.try_recover(silent_for).unwrap()
    }

    pub(crate) fn try_recover(&self, silent_for: Duration) -> Result<usize> {
        match self {
            Self::Blocking(it) => it.recover(silent_for),
            Self::Async(it) => polled(it.recover(silent_for), 2_000).unwrap(),
        }
    }
}

/// An answer that pays so often.
pub(crate) fn pays(times: usize) -> Message {
    Message::ai_calls(
        (1..=times).map(|n| ToolCall::new(format!("c{n}"), "pay", json!({"n": n}).to_string())),
    )
}

fn decided(outcome: Result<memory_prompt::turn::Done>) -> Option<Decided> {
    match outcome.unwrap_err().kind() {
        ErrorKind::Decided(how) => Some(how),
        _ => None,
    }
}

/// A approved, and the tool paid. B, whose page was from before, said no, and that was stored over
/// the payment: the next prompt said that nothing was paid.
#[test]
fn who_decides_second_is_told_what_came_of_it() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let model = Scripted::new().says(pays(1)).says("Done.");
        let conversation = Either::new(is_async, &memory, model, &paid);
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

/// A refusal was said by `error` over a call that another owner had been handed and had paid: that
/// was its result for ever, and the true one was left out.
#[test]
fn a_true_result_takes_the_place_of_an_answer_by_who_did_not_run_it() {
    let memory = Arc::new(DefaultChatMemory::new());
    let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
    let tool = || [Tool::new("pay", "Pays.").needing_approval()];
    let mut turn = prompt.turn(Message::user("Pay.")).tools(tool());
    let Next::Ask(_) = turn.next(&prompt).unwrap() else { panic!() };
    turn.answer(pays(1)).unwrap();
    turn.next(&prompt).unwrap();
    turn.approve("c1").unwrap();
    turn.next(&prompt).unwrap(); // it is handed out, and runs

    let mut other = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap().tools(tool());
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

/// Two calls of one answer waited, each with a button of its own. After the first click the turn
/// had another id, and the second button found nothing.
#[test]
fn each_of_two_buttons_works() {
    for is_async in BOTH {
        for first_is_yes in BOTH {
            let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
            let model = Scripted::new().says(pays(2)).says("Done.");
            let conversation = Either::new(is_async, &memory, model, &paid);
            let parked = conversation.say("Pay both.").unwrap();
            let [first, second] = parked.waiting() else { panic!("{:?}", parked.waiting()) };
            let parked = if first_is_yes {
                conversation.approve(first).unwrap()
            } else {
                conversation.refuse(first, "No.").unwrap()
            };
            assert_eq!(parked.ended, Ended::Parked);
            assert_eq!(parked.waiting().len(), 1);
            // As the page has it, and from another process.
            let json = serde_json::to_string(second).unwrap();
            let second: Waiting = serde_json::from_str(&json).unwrap();
            let other = Either::new(is_async, &memory, Scripted::new().says("Done."), &paid);
            assert_eq!(other.approve(&second).unwrap().text(), "Done.");
            let said = if first_is_yes { "paid" } else { "No." };
            assert_eq!(texts(&memory)[2..4], [said, "paid"]);
            assert_eq!(paid.load(Ordering::Relaxed), 1 + u32::from(first_is_yes));
        }
    }
}

/// Two turns waited. The first was approved, paid and stored; then the model of the second one was
/// told that it had not run.
#[test]
fn a_turn_that_is_approved_later_denies_nothing() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let model = Scripted::new().says(pays(1)).says(pays(1)).says("One.").says("Two.");
        let conversation = Either::new(is_async, &memory, model.clone(), &paid);
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

/// The same with a turn that its owner has kept, as a value or as JSON: nobody adopts it.
#[test]
fn a_turn_that_is_kept_until_it_is_approved_is_told_what_others_have_done() {
    let tools =
        || [Tool::new("pay", "Pays.").needing_approval(), Tool::new("look", "").repeatable()];
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
                turn = serde_json::from_str(&serde_json::to_string(&turn).unwrap()).unwrap();
            }
            let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
            let sent = ask.prompt().to_messages();
            assert_eq!(sent.len(), 5, "{sent:#?}");
            turn.answer(Message::ai("Good.")).unwrap();
            let Next::Done(_) = turn.next(&prompt).unwrap() else { panic!() };
            sent[0].text().into_owned()
        };
        let [kept, other] = ["Pay Ann.", "Pay Bob."].map(|question| {
            let mut turn = Turn::from(question).tools(tools());
            let Next::Ask(_) = turn.next(&prompt).unwrap() else { panic!() };
            let calls = [("c1", "pay"), ("c2", "look")].map(|it| ToolCall::new(it.0, it.1, "{}"));
            turn.answer(Message::ai_calls(calls)).unwrap();
            let Next::Call(_) = turn.next(&prompt).unwrap() else { panic!() };
            turn.result("c2", Ok("seen")).unwrap();
            turn
        });
        assert!(note_after(other, false).contains("pay {}: has not run"));
        let note = note_after(kept, is_refused);
        assert!(note.ends_with("\n- pay {}: its result is \"paid\""), "{note}");
        assert_eq!(note.lines().count(), 2, "{note}");
    }
}

/// A turn waited while others have made ten payments and have begun another one: of that one the
/// model can learn nothing elsewhere.
#[test]
fn a_call_that_runs_is_told_before_those_that_are_stored() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let begun = |tool: &str, n: usize| {
        let mut turn = Turn::from(format!("Pay {n}."))
            .tools([Tool::new("pay", "Pays."), Tool::new("ask", "Asks.").needing_approval()]);
        let Next::Ask(_) = turn.next(&prompt).unwrap() else { panic!() };
        let call = ToolCall::new("c1", tool, json!({"n": n}).to_string());
        turn.answer(Message::ai_calls([call])).unwrap();
        let Next::Call(_) = turn.next(&prompt).unwrap() else { panic!() };
        turn
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

/// 200 parked calls were told in 111 KB before each question, behind which small models did not
/// find it; and in a budget of 4,000 tokens no question fitted any more.
#[test]
fn a_note_about_many_calls_is_short_and_stands_before_the_question() {
    let memory = Arc::new(DefaultChatMemory::new());
    let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
    let tool = || [Tool::new("pay", "Pays.").needing_approval()];
    for n in 0..200 {
        let mut turn = prompt.turn(Message::user(format!("Pay {n}."))).tools(tool());
        turn.next(&prompt).unwrap();
        let why = json!({"n": n, "why": "because ".repeat(60)}).to_string();
        turn.answer(Message::ai_calls([ToolCall::new("c1", "pay", why)])).unwrap();
        turn.next(&prompt).unwrap();
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

/// A process died while it paid, another one while a person was to decide. Each service wrote the
/// same fifteen lines to end the first and spare the second.
#[test]
fn the_turns_of_dead_processes_are_ended() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
        let mut turn = prompt.turn(Message::user("Book.")).tools([Tool::new("book", "Books.")]);
        turn.next(&prompt).unwrap();
        turn.answer(Message::ai_calls([ToolCall::new("c1", "book", "{}")])).unwrap();
        turn.next(&prompt).unwrap();
        drop(turn);
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let conversation = Either::new(is_async, &memory, model, &paid);
        let parked = conversation.say("Pay.").unwrap();

        assert_eq!(conversation.recover(Duration::from_secs(60)), 0, "it may still run");
        assert_eq!(conversation.recover(Duration::ZERO), 1);
        assert!(texts(&memory)[2].contains("not known"));
        assert_eq!(conversation.waiting(), parked.waiting(), "a person decides");
        assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
        assert_eq!(conversation.recover(Duration::ZERO), 0);
    }
}

/// A process died while it ran the first of two calls, and a person was still to decide on the
/// second.
#[test]
fn a_turn_that_runs_one_call_is_busy_for_the_other_button() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let model = Scripted::new().says(pays(2)).says("Done.");
        let conversation = Either::new(is_async, &memory, model, &paid);
        let parked = conversation.say("Pay both.").unwrap();
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let mut dying = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
        dying.approve("c1").unwrap();
        dying.next(&prompt).unwrap(); // it runs, and its process dies

        let busy = conversation.approve(&parked.waiting()[1]).unwrap_err();
        assert!(matches!(busy.kind(), ErrorKind::Busy { since: Some(_) }), "{busy:?}");
        assert_eq!(decided(conversation.approve(&parked.waiting()[0])), Some(Decided::Approved));
        assert_eq!(conversation.recover(Duration::ZERO), 1);
        assert_eq!(conversation.approve(&conversation.waiting()[0]).unwrap().text(), "Done.");
        let stored = texts(&memory);
        assert!(stored[2].contains("not known") && stored[3] == "paid", "{stored:?}");
        let again = decided(conversation.refuse(&parked.waiting()[0], "No."));
        assert_eq!(again, Some(Decided::OutcomeUnknown));
    }
}

fn called<const N: usize>(calls: [(&str, &str); N]) -> Message {
    Message::ai_calls(calls.map(|(id, tool)| ToolCall::new(id, tool, "{}")))
}

/// An answer looked something up and wanted to pay, and the process died before the look-up was
/// written down. `recover` said each time anew that it had ended the turn; the button and a retry
/// of the request were busy for ever.
#[test]
fn a_call_beside_a_repeatable_one_of_a_dead_process_can_be_decided_on() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
        let request = || Turn::from("Look and pay.").with_id("request 1");
        let look = || Tool::new("look", "Looks.").repeatable();
        let mut dying = prompt.turn(request());
        dying = dying.tools([look(), Tool::new("pay", "Pays.").needing_approval()]);
        dying.next(&prompt).unwrap();
        dying.answer(called([("c1", "look"), ("c2", "pay")])).unwrap();
        dying.next(&prompt).unwrap(); // it looks, and its process dies

        let conversation = Either::new(is_async, &memory, Scripted::new().says("Paid."), &paid)
            .tool(look(), |_| Ok("30 EUR".to_owned()));
        let busy = conversation.approve(&conversation.waiting()[0]).unwrap_err();
        assert!(matches!(busy.kind(), ErrorKind::Busy { .. }), "{busy:?}");
        assert_eq!(conversation.recover(Duration::ZERO), 1);
        assert_eq!(conversation.recover(Duration::ZERO), 0, "it waits for a person");
        let again = conversation.say(request()).unwrap();
        assert_eq!((again.ended, again.waiting()), (Ended::Parked, &*conversation.waiting()));
        assert_eq!(conversation.approve(&again.waiting()[0]).unwrap().text(), "Paid.");
        let stored = texts(&memory);
        assert!(stored[2].starts_with("The process died. ") && stored[3] == "paid", "{stored:?}");
        assert_eq!(paid.load(Ordering::Relaxed), 1);
    }
}

/// Three payments waited. The process died in the first, and then in the second: from then on each
/// `recover` was an error, since nobody knew what had come of the first, and a service that begins
/// with it did not start any more.
#[test]
fn a_process_may_die_in_one_call_after_the_other() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let model = Scripted::new().says(pays(3)).says("Paid.");
        let conversation = Either::new(is_async, &memory, model, &paid);
        conversation.say("Pay all.").unwrap();
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        for id in ["c1", "c2"] {
            let mut dying = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
            dying.approve(id).unwrap();
            dying.next(&prompt).unwrap(); // it runs, and its process dies
            assert_eq!(conversation.recover(Duration::ZERO), 1);
        }
        let waiting = conversation.waiting();
        assert_eq!((waiting.len(), waiting[0].call.as_str()), (1, "c3"));
        assert_eq!(conversation.approve(&waiting[0]).unwrap().text(), "Paid.");
        let stored = texts(&memory);
        assert!(stored[2..4].iter().all(|it| it.starts_with("The process died. ")), "{stored:?}");
        assert_eq!(stored[4], "paid");
    }
}

/// A process died in a turn that was not to be stored behind others, and another tab had said
/// something since: each `recover` was a conflict, and the turns behind it in the list were left.
#[test]
fn a_dead_turn_that_was_to_fail_where_others_append_is_ended() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
        for on_conflict in [OnConflict::Fail, OnConflict::Behind, OnConflict::Fail] {
            let mut dying = prompt.turn(Message::user("Book.")).on_conflict(on_conflict);
            dying = dying.tools([Tool::new("book", "Books.")]);
            dying.next(&prompt).unwrap();
            dying.answer(called([("c1", "book")])).unwrap();
            dying.next(&prompt).unwrap();
        }
        memory.add(Message::user("the other tab")).unwrap();
        let conversation = Either::new(is_async, &memory, Scripted::new(), &paid);
        assert_eq!(conversation.recover(Duration::ZERO), 3);
        assert!(prompt.unfinished().unwrap().is_empty());
        assert_eq!(memory.next_position().unwrap(), 10);
    }
}

/// One of three dead turns could not be taken over, for the disk was full for a moment: the others
/// were left too.
#[test]
fn a_dead_turn_that_can_not_be_ended_leaves_the_others_no_worse() {
    for is_async in BOTH {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
        for _ in 0..3 {
            let mut dying = prompt.turn(Message::user("Book."));
            dying = dying.tools([Tool::new("book", "Books.")]);
            dying.next(&prompt).unwrap();
            dying.answer(called([("c1", "book")])).unwrap();
            dying.next(&prompt).unwrap();
        }
        let conversation = Either::new(is_async, &memory, Scripted::new(), &Arc::default());
        memory.fails.store(true, Ordering::Relaxed);
        let error = conversation.try_recover(Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert_eq!(memory.next_position().unwrap(), 6, "two of them have ended");
        assert_eq!(conversation.recover(Duration::ZERO), 1);
    }
}

/// The result of a report outgrew the slot, which still said that a payment waits. Somebody
/// approved of it and it was paid; the process died, the payment was in the inbox, and was paid
/// again. And where nobody had answered the turn was parked, and what came of the report was in no
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

/// A turn filled its slot but for some bytes: its call could be approved of and never refused, and
/// where its process died nobody could write that down.
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
            let prompt = MemoryPrompt::new(Arc::clone(&memory));
            let mut dying = prompt.adopt(&prompt.unfinished().unwrap().remove(0)).unwrap();
            dying.approve("c1").unwrap();
            dying.next(&prompt).unwrap(); // it runs, and its process dies
            assert_eq!(conversation.recover(Duration::ZERO), 1);
            let waiting = conversation.waiting().remove(0);
            let why = "The user said that one payment of these is enough for today, thank you.";
            assert_eq!(conversation.refuse(&waiting, why).unwrap().text(), "A pity.");
        }
        assert!(parked > 10, "{parked} fit");
    }
}

/// A user said no to one of two payments. While the other one waited, the models of later turns
/// were told that the first was done, with the refusal as its result.
#[test]
fn a_refused_call_is_not_told_as_done() {
    for is_async in BOTH {
        let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
        let model = Scripted::new().says(pays(2)).says("Hello.");
        let conversation = Either::new(is_async, &memory, model.clone(), &paid);
        conversation.say("Pay both.").unwrap();
        conversation.refuse(&conversation.waiting()[0], "Too dear.").unwrap();
        conversation.say("Hi.").unwrap();
        let told = model.asked()[1][0].text().into_owned();
        assert!(told.contains(r#"pay {"n":2}: has not run"#), "{told}");
        assert!(!told.contains(r#"{"n":1}"#) && !told.contains("dear"), "{told}");
    }
}

/// A call waited for a person, and the answer of the memory to their approval got lost: nobody ran
/// the call, and the button was dead.
#[test]
fn a_decision_whose_answer_gets_lost_stands() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let model = Scripted::new().says(pays(1)).says("Done.");
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |_: serde_json::Value| Ok("paid"));
    let parked = conversation.say("Pay.").unwrap();
    memory.loses.store(true, Ordering::Relaxed);
    assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Done.");
    assert_eq!(memory.messages().unwrap()[2].text(), "paid");
}

/// Two payments waited. The memory failed once while the first was approved of, and the second was
/// closed as not run, though nobody had decided on it.
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
        assert_eq!(
            stored.iter().filter(|it| it.text() == "paid").count(),
            before as usize + 1,
            "{stored:?}"
        );
    }
}

/// The answer of the memory to an approval got lost, and then it could not be read: the error said
/// that nothing was changed, and the call was approved of.
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
        assert_eq!(conversation.recover(Duration::ZERO), 1);
    }
}

/// A payment ended after its turn had. Whoever decided second was told that nobody knows what came
/// of it, while each prompt said so.
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

/// The conversation was cleared while a call waited.
#[test]
fn a_call_of_a_conversation_that_was_cleared_waits_no_more() {
    let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
    let model = Scripted::new().says(pays(1));
    let conversation = Either::new(false, &memory, model, &paid);
    let parked = conversation.say("Pay.").unwrap();
    memory.clear().unwrap();
    assert_eq!(decided(conversation.approve(&parked.waiting()[0])), Some(Decided::Gone));
    assert!(texts(&memory).is_empty());
}

/// An async service asked a person over the network, and its approver could only block.
#[test]
fn an_approver_may_be_async() {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
    let model = Scripted::new().says(pays(2)).says("Done.");
    let conversation = Conversation::new_async(prompt, model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |_: serde_json::Value| Ok("paid"))
        .approve_by_async(|call| {
            let is_first = call.id() == "c1";
            ready(if is_first { Approval::Yes } else { Approval::No("Once is enough.".into()) })
        });
    let done = polled(conversation.say("Pay both."), 2_000).unwrap().unwrap();
    assert_eq!(done.text(), "Done.");
    assert_eq!(texts(&memory)[2..4], ["Once is enough.", "paid"]);
}

/// What a user typed while a turn ran could reach only turns of loops of one's own.
#[test]
fn what_the_user_adds_reaches_the_turn_that_runs() {
    let memory = Arc::new(DefaultChatMemory::new());
    let steered = Arc::new(Mutex::new(None::<Arc<Conversation>>));
    let model = {
        let steered = Arc::clone(&steered);
        move |ask: &Asking<'_>| -> std::result::Result<Message, ModelError> {
            let asked = ask.prompt().iter().filter(|it| it.is_user()).count();
            if asked == 1 {
                // The user types while it answers.
                steered.lock().unwrap().as_ref().unwrap().steer("And cheap.")?;
                return Ok(Message::ai("Here is one."));
            }
            Ok(Message::ai("A cheap one."))
        }
    };
    let conversation = Arc::new(Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model));
    *steered.lock().unwrap() = Some(Arc::clone(&conversation));
    let none: Error = conversation.steer("Nobody hears.").unwrap_err();
    assert_eq!(none.kind(), ErrorKind::Invalid);
    assert_eq!(conversation.say("A room.").unwrap().text(), "A cheap one.");
    assert_eq!(texts(&memory), ["A room.", "Here is one.", "And cheap.", "A cheap one."]);
    assert!(conversation.steer("Nobody hears.").is_err());
    steered.lock().unwrap().take();
}

/// What a model does when it is asked for the n-th time: it may steer its own turn, and stop it.
type Act = fn(usize, &dyn Fn(&str), &Stopper) -> std::result::Result<Reply, ModelError>;

/// Returns what is stored of a question to such a model, of at most one round of calls.
fn steered(is_async: bool, act: Act) -> Vec<String> {
    let memory = Arc::new(DefaultChatMemory::new());
    let turn = Turn::from("A room.").max_rounds(1);
    let book = Tool::new("book", "Books.");
    let asked = AtomicU32::new(0);
    if is_async {
        let own = Arc::new(Mutex::new(None::<Arc<Conversation<dyn AsyncChatMemory>>>));
        let model = {
            let own = Arc::clone(&own);
            move |_: Asking<'static>| {
                let own = Arc::clone(own.lock().unwrap().as_ref().unwrap());
                let n = asked.fetch_add(1, Ordering::Relaxed) as usize;
                let answer = act(n, &|text| own.steer(text).unwrap(), &own.stopper());
                ready(answer)
            }
        };
        let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
        let conversation = Conversation::new_async(prompt, model);
        let conversation = Arc::new(conversation.tool(book, |_: serde_json::Value| Ok("booked")));
        *own.lock().unwrap() = Some(Arc::clone(&conversation));
        let _ = polled(conversation.say(turn), 2_000).unwrap();
        own.lock().unwrap().take();
    } else {
        let own = Arc::new(Mutex::new(None::<Arc<Conversation>>));
        let model = {
            let own = Arc::clone(&own);
            move |_: &Asking<'_>| {
                let own = Arc::clone(own.lock().unwrap().as_ref().unwrap());
                let n = asked.fetch_add(1, Ordering::Relaxed) as usize;
                act(n, &|text| own.steer(text).unwrap(), &own.stopper())
            }
        };
        let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model);
        let conversation = Arc::new(conversation.tool(book, |_: serde_json::Value| Ok("booked")));
        *own.lock().unwrap() = Some(Arc::clone(&conversation));
        let _ = conversation.say(turn);
        own.lock().unwrap().take();
    }
    texts(&memory)
}

/// A user added something, and then the answer broke off, the rounds were used up, the user stopped
/// it or the model failed: what they had added was taken, and stored nowhere.
#[test]
fn what_the_user_adds_at_the_end_is_stored() {
    let acts: [(Act, &[&str]); 4] = [
        (
            |_, steer, _| {
                steer("And cheap.");
                let mut reply = Reply::from("Half an");
                reply.stop = Some(Stop::Broken);
                Ok(reply)
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
            &[
                "A room.",
                "",
                "booked",
                "",
                "Not run: a turn has at most 1 rounds of calls.",
                "And cheap.",
            ],
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

/// Somebody was asked whether a payment may be made, and the user added something meanwhile. The
/// turn was parked, and what they had added was dropped.
#[test]
fn what_the_user_adds_to_a_turn_that_is_parked_is_kept() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().says(pays(1)).says("Paid.");
        let pay = || Tool::new("pay", "Pays.").needing_approval();
        let told = Arc::new(AtomicU32::new(0));
        let (parked, waiting) = if is_async {
            let own = Arc::new(Mutex::new(None::<Arc<Conversation<dyn AsyncChatMemory>>>));
            let (steers, times) = (Arc::clone(&own), Arc::clone(&told));
            let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
            let conversation = Conversation::new_async(prompt, model.clone())
                .tool(pay(), |_: serde_json::Value| Ok("paid"))
                .approve_by(move |_| {
                    if times.fetch_add(1, Ordering::Relaxed) == 0 {
                        steers.lock().unwrap().as_ref().unwrap().steer("And cheap.").unwrap();
                    }
                    Approval::Later
                });
            let conversation = Arc::new(conversation);
            *own.lock().unwrap() = Some(Arc::clone(&conversation));
            let parked = polled(conversation.say("Pay."), 2_000).unwrap().unwrap();
            own.lock().unwrap().take();
            (parked.ended, polled(conversation.waiting(), 2_000).unwrap().unwrap())
        } else {
            let own = Arc::new(Mutex::new(None::<Arc<Conversation>>));
            let (steers, times) = (Arc::clone(&own), Arc::clone(&told));
            let conversation =
                Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model.clone())
                    .tool(pay(), |_: serde_json::Value| Ok("paid"))
                    .approve_by(move |_| {
                        if times.fetch_add(1, Ordering::Relaxed) == 0 {
                            steers.lock().unwrap().as_ref().unwrap().steer("And cheap.").unwrap();
                        }
                        Approval::Later
                    });
            let conversation = Arc::new(conversation);
            *own.lock().unwrap() = Some(Arc::clone(&conversation));
            let parked = conversation.say("Pay.").unwrap();
            own.lock().unwrap().take();
            (parked.ended, conversation.waiting().unwrap())
        };
        assert_eq!(parked, Ended::Parked);
        let conversation = Either::new(is_async, &memory, model, &Arc::default());
        assert_eq!(conversation.approve(&waiting[0]).unwrap().text(), "Paid.");
        assert_eq!(texts(&memory), ["Pay.", "", "paid", "And cheap.", "Paid."]);
    }
}

/// What a user added was too large for the memory: it was taken, and the turn that ran failed,
/// whose answer was paid for.
#[test]
fn what_is_too_large_to_be_added_does_not_end_the_turn() {
    for (limits, is_taken) in [
        (DefaultChatMemory::new().limits().with_message(1_000), false),
        // One is as large as the memory takes, and two are too much for one turn.
        (DefaultChatMemory::new().limits().with_batch(4_000), true),
    ] {
        let memory = Odd::new(limits);
        let own = Arc::new(Mutex::new(None::<Arc<Conversation>>));
        let steers = Arc::clone(&own);
        let model = move |_: &Asking<'_>| -> std::result::Result<&str, ModelError> {
            let own = steers.lock().unwrap();
            for _ in 0..2 {
                let outcome = own.as_ref().unwrap().steer("x".repeat(2_000));
                assert_eq!(outcome.is_ok(), is_taken);
            }
            Ok("A room.")
        };
        let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model);
        let conversation = Arc::new(conversation);
        *own.lock().unwrap() = Some(Arc::clone(&conversation));
        let done = conversation.say(Turn::from("A room.").max_rounds(2));
        own.lock().unwrap().take();
        if is_taken {
            // What fits is there, and the rest is left out.
            let texts: Vec<_> =
                memory.messages().unwrap().iter().map(|it| it.text().len()).collect();
            assert!(done.is_ok(), "{done:?}");
            assert!(texts.contains(&2_000), "{texts:?}");
        } else {
            assert_eq!(done.unwrap().text(), "A room.");
        }
    }
}

/// A user gave a question up of which a call waited. It was stored all the same, as a turn that was
/// interrupted.
#[test]
fn a_parked_turn_of_which_nothing_has_run_is_forgotten() {
    let memory = Arc::new(DefaultChatMemory::new());
    let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
    for has_id in BOTH {
        let mut turn = prompt.turn(Message::user("Pay."));
        if has_id {
            turn = turn.with_id("request 1");
        }
        let mut turn = turn.tools([Tool::new("pay", "Pays.").needing_approval()]);
        turn.next(&prompt).unwrap();
        turn.answer(pays(1)).unwrap();
        turn.next(&prompt).unwrap();
        turn.interrupt(OnInterrupt::Forget);
        let Next::Done(done) = turn.next(&prompt).unwrap() else { panic!() };
        assert_eq!((done.ended, done.positions), (Ended::Interrupted, 0..0));
        assert!(texts(&memory).is_empty() && memory.slots().unwrap().is_empty());
    }
}
