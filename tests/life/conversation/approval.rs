//! People and the calls that wait for them: one decision, one call.

use std::future::ready;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_prompt::conversation::{Approval, Asking, Conversation, ModelError, Scripted};
use memory_prompt::error::Decided;
use memory_prompt::turn::{Ended, Next, OnInterrupt, Turn, Waiting};
use memory_prompt::{
    AsyncChatMemory, ChatMemory, ChatMemoryExt, DefaultChatMemory, Error, ErrorKind, MemoryPrompt,
    Message, Result, Tool, ToolCall,
};
use serde_json::json;

use crate::conversation::faults::{Slow, polled};
use crate::conversation::texts;

/// A conversation of either kind over this memory, with a payment that needs approval.
pub(crate) enum Either {
    Blocking(Conversation),
    Async(Conversation<dyn AsyncChatMemory>),
}

const BOTH: [bool; 2] = [false, true];

impl Either {
    pub(crate) fn new(
        is_async: bool,
        memory: &Arc<DefaultChatMemory>,
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
        match self {
            Self::Blocking(it) => it.recover(silent_for).unwrap(),
            Self::Async(it) => polled(it.recover(silent_for), 2_000).unwrap().unwrap(),
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
    }
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
    assert!(sent[0].contains("have not ended") && sent[1] == "Hi?", "{sent:?}");
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

/// A call waited for a person, and the answer of the memory to their approval got lost: nobody ran
/// the call, and the button was dead.
#[test]
fn a_decision_whose_answer_gets_lost_stands() {
    use crate::odd::Odd;

    let memory = Odd::new(DefaultChatMemory::new().limits());
    let model = Scripted::new().says(pays(1)).says("Done.");
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |_: serde_json::Value| Ok("paid"));
    let parked = conversation.say("Pay.").unwrap();
    memory.loses.store(true, Ordering::Relaxed);
    assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Done.");
    assert_eq!(memory.messages().unwrap()[2].text(), "paid");
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
