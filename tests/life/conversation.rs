//! Conversations: tools, threads and stops, and whatever goes wrong in them.

#![allow(clippy::too_many_lines)] // a story is told whole
#![cfg_attr(not(feature = "sqlite"), allow(dead_code))]

#[cfg(feature = "async")]
mod approval;
#[cfg(feature = "async")]
mod between;
#[cfg(feature = "async")]
mod buttons;
#[cfg(feature = "async")]
mod dropped;
#[cfg(feature = "async")]
mod either;
#[cfg(feature = "async")]
pub(crate) mod faults;
#[cfg(feature = "sqlite")]
mod kills;
mod late;
#[cfg(feature = "async")]
mod late_async;
#[cfg(feature = "async")]
mod live;
mod many;
mod named_alike;
mod panics;
#[cfg(feature = "async")]
mod people;
#[cfg(feature = "async")]
mod requests;
mod seams;
#[cfg(feature = "async")]
mod service;
mod shown;
#[cfg(feature = "async")]
mod waiting;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::odd::Odd;
use crate::turn::{stopped, texts};
use memory_prompt::conversation::{
    Approval, Asking, Conversation, Model, ModelError, Scripted, Stopper, WhenBusy,
};
use memory_prompt::error::Remains;
use memory_prompt::memory::Limits;
use memory_prompt::turn::{Ended, Next, OnInterrupt, Reply, ToolError, Turn};
use memory_prompt::wire::{Event, Stop};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, ErrorKind, MemoryPrompt, Message, Result, Tool,
    ToolCall,
};
use serde_json::json;

fn shared() -> (Arc<DefaultChatMemory>, MemoryPrompt) {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).max_messages(100);
    (memory, prompt)
}

/// An answer that calls these, without arguments.
pub(crate) fn called<const N: usize>(calls: [(&str, &str); N]) -> Message {
    Message::ai_calls(calls.map(|(id, tool)| ToolCall::new(id, tool, "{}")))
}

#[allow(clippy::needless_pass_by_value, clippy::unnecessary_wraps)] // as a tool is
fn nothing(_: serde_json::Value) -> Result<&'static str, ToolError> {
    Ok("nothing")
}

/// A model that waits for the word on this channel, if it is asked `slow`; then it says so on the
/// other one.
fn slow() -> (impl Fn(&Asking<'_>) -> Result<String, ModelError>, Sender<()>, Receiver<()>) {
    let (go, wait) = channel();
    let (begins, begun) = channel();
    let wait = Mutex::new(wait);
    let model = move |ask: &Asking<'_>| {
        let last = ask.prompt().iter().last().unwrap().text().into_owned();
        if last == "slow" {
            begins.send(()).unwrap();
            wait.lock().unwrap().recv().unwrap();
        }
        Ok(format!("{last}, of {}", ask.prompt().len()))
    };
    (model, go, begun)
}

/// Longer than anything here takes.
const LONG: Duration = Duration::from_secs(60);

/// Waits for what another thread does.
fn until(holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < Duration::from_secs(30), "it takes too long");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A model failed after a booking, and the next question's model knew nothing of it.
#[test]
fn a_model_that_fails_leaves_only_what_has_happened() {
    let (memory, prompt) = shared();
    let model = Scripted::new().fails("overloaded").calls("book", json!({})).fails("overloaded");
    let conversation =
        Conversation::new(prompt, model.clone()).tool(Tool::new("book", "Books."), nothing);
    conversation.add_temporary(Message::user("Today is Friday."));
    let error = conversation.say("Book.").unwrap_err();
    let said = error.to_string();
    assert_eq!((error.kind(), said.as_str()), (ErrorKind::Model, "say: the model failed"));
    assert_eq!(memory.next_position().unwrap(), 0);
    assert!(conversation.say("Book.").is_err());
    assert_eq!(model.asked()[1].len(), 2, "the temporary message came back");
    assert_eq!(texts(&memory), ["Book.", "", "nothing"]);
    assert!(conversation.prompt().unfinished().unwrap().is_empty());
}

/// What a provider says about a refusal was wrapped, so that nobody could tell when to try again.
#[test]
fn an_error_of_a_provider_stays_what_it_is() {
    let (_, prompt) = shared();
    let model = |_: &Asking<'_>| {
        let body = r#"{"error": {"type": "rate_limit_error", "message": "slow down"}}"#;
        Ok(memory_prompt::wire::anthropic::answer(body)?)
    };
    let error = Conversation::new(prompt, model).say("q").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Refused { retryable: true, .. }), "{error}");
}

#[test]
fn whatever_a_tool_does_the_model_is_told() {
    let (memory, prompt) = shared();
    let model = Scripted::new()
        .calls("fail", json!({}))
        .calls("panic", json!({}))
        .calls("typed", json!({"n": "x"}))
        .calls("fly", json!({}))
        .says("Oh.");
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("fail", ""), |_: serde_json::Value| Err::<&str, _>(ToolError::new("dark")))
        .tool(Tool::new("panic", ""), |_: serde_json::Value| -> Result<&str, ToolError> {
            panic!("a secret")
        })
        .tool(Tool::new("typed", ""), |_: std::collections::BTreeMap<String, u32>| Ok("never"));
    assert_eq!(conversation.say("q").unwrap().text(), "Oh.");
    let texts = texts(&memory);
    assert_eq!(texts[2], "dark");
    assert_eq!(texts[4], "the tool panicked; nobody knows how far it came");
    assert!(texts[6].starts_with("arguments: invalid type"), "{}", texts[6]);
    assert_eq!(texts[8], "There is no tool \"fly\".");
}

/// A payment took too long. Its result was thrown away, and the model went on to pay again.
#[test]
fn the_result_of_a_slow_tool_comes_late() {
    let (memory, prompt) = shared();
    let model = Scripted::new().calls("pay", json!({})).says("I don't know.");
    let (conversation, go) = too_slow(prompt, model);
    assert_eq!(conversation.say("Pay.").unwrap().text(), "I don't know.");
    let unknown = texts(&memory).swap_remove(2);
    assert!(unknown.starts_with("It took longer than 20ms. The outcome of this call"), "{unknown}");
    go.send(()).unwrap();
    until(|| memory.next_position().unwrap() == 5);
    assert_eq!(conversation.prompt().preview().unwrap()[2].text(), "paid");
}

/// The conversation was cleared while a tool ran on, and its result stood in the next one.
#[test]
fn a_late_result_of_a_conversation_that_is_gone_is_not_stored() {
    let (memory, prompt) = shared();
    let model = Scripted::new().calls("pay", json!({})).says("I don't know.").says("Hello.");
    let (conversation, go) = too_slow(prompt, model);
    conversation.say("Pay.").unwrap();
    memory.clear().unwrap();
    conversation.say("hi").unwrap();
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0, "it has come");
    assert_eq!(texts(&memory), ["hi", "Hello."]);
}

#[test]
fn calls_of_one_answer_run_at_once_where_they_may() {
    let (memory, prompt) = shared();
    let meet = Arc::new(std::sync::Barrier::new(2));
    let model = Scripted::new().says(called([("c1", "meet"), ("c2", "meet")])).says("Met.");
    let conversation = Conversation::new(prompt, model).parallel().tool_call(
        Tool::new("meet", "Waits for the other one."),
        move |call| {
            meet.wait();
            Ok(call.id().to_owned())
        },
    );
    assert_eq!(conversation.say("Meet.").unwrap().text(), "Met.");
    assert_eq!(texts(&memory)[2..4], ["c1", "c2"]);
}

/// Three questions at once gave 200, 409, 409, and lost two answers that were paid for.
#[test]
fn two_questions_at_once_are_answered_as_is_set() {
    for at_once in [WhenBusy::Proceed, WhenBusy::Wait, WhenBusy::Fail] {
        let (memory, prompt) = shared();
        let (model, go, begun) = slow();
        let conversation = Conversation::new(prompt, model).when_busy(at_once);
        thread::scope(|scope| {
            let first = scope.spawn(|| conversation.say("slow").unwrap());
            begun.recv().unwrap();
            let second = scope.spawn(|| conversation.say("fast"));
            if at_once != WhenBusy::Wait {
                until(|| second.is_finished());
            }
            go.send(()).unwrap();
            first.join().unwrap();
            let second = second.join().unwrap();
            match at_once {
                WhenBusy::Proceed => assert_eq!(texts(&memory)[..2], ["fast", "fast, of 1"]),
                WhenBusy::Wait => assert_eq!(texts(&memory)[2..], ["fast", "fast, of 3"]),
                _ => assert_eq!(second.unwrap_err().kind(), ErrorKind::Busy { since: None }),
            }
        });
        assert_eq!(memory.next_position().unwrap(), if at_once == WhenBusy::Fail { 2 } else { 4 });
    }
}

#[test]
fn what_was_said_before_a_stop_is_kept_and_marked() {
    for (on_interrupt, stored) in [(OnInterrupt::Keep, 2), (OnInterrupt::Forget, 0)] {
        let (memory, prompt) = shared();
        let model = Scripted::new().says("one two three");
        let conversation = Conversation::new(prompt, model).on_interrupt(on_interrupt);
        let stopper = conversation.stopper();
        let mut shown = String::new();
        let done = conversation.stream("Count.", |event| {
            if let Event::Text(piece) = event {
                shown += &piece;
                if piece == "two " {
                    stopper.stop();
                }
            }
        });
        assert_eq!(done.unwrap().ended, Ended::Interrupted);
        assert_eq!(shown, "one two ");
        assert_eq!(memory.next_position().unwrap(), stored);
        if let Some(answer) = memory.all().unwrap().messages().last() {
            assert_eq!(answer.text(), "one two ");
            assert_eq!(answer.as_ai().unwrap().attributes().get("turn:broken"), Some(&true.into()));
        }
    }
}

/// Of an answer that was not streamed only the text was shown: a page read that the model waits for
/// calls, and had seen none.
#[test]
fn an_answer_that_was_not_streamed_is_shown_whole() {
    let model = |ask: &Asking<'_>| -> Result<Reply, ModelError> {
        let call = json!({"id": "c", "function": {"name": "look", "arguments": "{\"x\": 1}"}});
        let message = match ask.round() {
            0 => json!({"content": "Hi.", "reasoning_content": "Hm.", "tool_calls": [call]}),
            _ => json!({"content": null, "refusal": "No."}),
        };
        let choice = json!({"message": message, "finish_reason": "stop"});
        Ok(memory_prompt::wire::openai::answer(json!({"choices": [choice]}))?.into())
    };
    let (_, prompt) = shared();
    let conversation = Conversation::new(prompt, model).tool(Tool::new("look", "Looks."), nothing);
    let mut told = Vec::new();
    conversation.stream("What is there?", |event| told.push(event)).unwrap();
    let expected = [
        Event::Reasoning("Hm.".to_owned()),
        Event::Text("Hi.".to_owned()),
        Event::Call { index: 0, id: "c".to_owned(), name: "look".to_owned() },
        Event::Arguments { index: 0, piece: "{\"x\": 1}".to_owned() },
        Event::Done(Stop::Calls),
        Event::Refusal("No.".to_owned()),
        Event::Done(Stop::Refused),
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_call_that_needs_approval_asks_or_parks_its_turn() {
    let tool = || Tool::new("pay", "Pays.").needing_approval();
    for approval in [Approval::Yes, Approval::No("too dear".into()), Approval::Later] {
        let (memory, prompt) = shared();
        let model = Scripted::new().calls("pay", json!({})).says("Done.");
        let said = approval.clone();
        let conversation = Conversation::new(prompt, model)
            .tool(tool(), nothing)
            .approve_by(move |_| said.clone());
        let done = conversation.say("Pay.").unwrap();
        if approval == Approval::Later {
            assert_eq!((done.ended, memory.next_position().unwrap()), (Ended::Parked, 0));
            // Days later.
            let waits = conversation.prompt().unfinished().unwrap().remove(0);
            let mut turn: Turn = conversation.prompt().adopt(&waits).unwrap();
            turn.approve(&waits.calls()[0].call_id).unwrap();
            conversation.run(&mut turn, |_| {}).unwrap();
        }
        let result = if let Approval::No(why) = &approval { why } else { "nothing" };
        assert_eq!(texts(&memory), ["Pay.", "", result, "Done."]);
    }
}

/// A turn that its caller keeps goes on where the model has failed.
#[test]
fn a_turn_can_be_run_again() {
    let (memory, prompt) = shared();
    let model = Scripted::new().calls("book", json!({})).fails("overloaded").says("Booked.");
    let conversation = Conversation::new(prompt, model).tool(Tool::new("book", "Books."), nothing);
    let mut turn = Turn::from("Book.");
    assert!(conversation.run(&mut turn, |_| {}).is_err());
    assert_eq!(memory.next_position().unwrap(), 0);
    assert_eq!(conversation.run(&mut turn, |_| {}).unwrap().positions, 0..4);
}

/// One payment was approved and another was to wait, over a memory that keeps no such turn. The
/// first one had not been made, and was stored as one that may have been.
#[test]
fn what_was_only_approved_has_not_happened() {
    let memory = Odd::new(Limits::default());
    let model = Scripted::new().says(called([("yes", "pay"), ("later", "pay")]));
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), nothing)
        .approve_by(|call| if call.id() == "yes" { Approval::Yes } else { Approval::Later });
    assert_eq!(conversation.say("Pay.").unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(memory.next_position().unwrap(), 0);
}

/// What stops a conversation that is made later.
type Later = Arc<OnceLock<Stopper>>;

fn stop(later: &Later) {
    later.get().unwrap().stop();
}

/// The user stopped a model that tells nothing on the way. It answered with a payment, which was
/// made.
#[test]
fn what_a_stopped_model_calls_is_not_run() {
    for (on_interrupt, stored) in [(OnInterrupt::Keep, 3), (OnInterrupt::Forget, 0)] {
        let (memory, prompt) = shared();
        let stopper = Later::default();
        let stops = Arc::clone(&stopper);
        let model = move |_: &Asking<'_>| {
            stop(&stops);
            Ok(called([("c1", "pay")]))
        };
        let conversation = Conversation::new(prompt, model)
            .on_interrupt(on_interrupt)
            .tool(Tool::new("pay", "Pays."), |_: serde_json::Value| -> Result<&str, ToolError> {
                panic!("it is run")
            });
        stopper.set(conversation.stopper()).unwrap();
        assert_eq!(conversation.say("Pay.").unwrap().ended, Ended::Interrupted);
        assert_eq!(memory.next_position().unwrap(), stored);
        if let Some(result) = memory.all().unwrap().messages().nth(2) {
            assert_eq!(result.text(), "Not run: the turn was interrupted.");
        }
        assert!(memory.slots().unwrap().is_empty());
    }
}

/// The user stopped a model that tells nothing on the way, to forget what was asked. Its answer was
/// stored.
#[test]
fn what_a_stopped_model_answers_is_forgotten() {
    let (memory, prompt) = shared();
    let stopper = Later::default();
    let stops = Arc::clone(&stopper);
    let model = move |_: &Asking<'_>| {
        stop(&stops);
        Ok("Hello.")
    };
    let conversation = Conversation::new(prompt, model).on_interrupt(OnInterrupt::Forget);
    stopper.set(conversation.stopper()).unwrap();
    assert_eq!(conversation.say("Hi.").unwrap().ended, Ended::Interrupted);
    assert_eq!(memory.next_position().unwrap(), 0);
}

/// What was said behind a payment is kept, as the turn is.
#[test]
fn what_a_stopped_model_answers_behind_a_payment_is_kept() {
    let (memory, prompt) = shared();
    let stopper = Later::default();
    let stops = Arc::clone(&stopper);
    let model = move |ask: &Asking<'_>| {
        if ask.prompt().iter().any(Message::is_tool) {
            stop(&stops);
            return Ok(Message::ai("It is paid."));
        }
        Ok(Message::ai_calls([ToolCall::new("c", "pay", "{}")]))
    };
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("pay", "Pays."), nothing)
        .on_interrupt(OnInterrupt::Forget);
    stopper.set(conversation.stopper()).unwrap();
    conversation.say("Pay.").unwrap();
    let stored = memory.messages().unwrap();
    assert_eq!((stored.len(), &*stored[3].text()), (4, "It is paid."));
}

/// The user stopped the first of three calls. The second one ran, and somebody was asked about the
/// third.
#[test]
fn a_stop_while_one_call_runs_stops_the_next_ones() {
    let (memory, prompt) = shared();
    let stopper = Later::default();
    let stops = Arc::clone(&stopper);
    let model = Scripted::new().says(called([("c1", "book"), ("c2", "book"), ("c3", "pay")]));
    let conversation = Conversation::new(prompt, model)
        .tool_call(Tool::new("book", "Books."), move |call| {
            stop(&stops);
            Ok(format!("{} is booked", call.id()))
        })
        .tool(Tool::new("pay", "Pays.").needing_approval(), nothing)
        .approve_by(|_| panic!("somebody is asked"));
    stopper.set(conversation.stopper()).unwrap();
    assert_eq!(conversation.say("Book, book and pay.").unwrap().ended, Ended::Interrupted);
    let not_run = "Not run: the turn was interrupted.";
    assert_eq!(texts(&memory)[2..], ["c1 is booked", not_run, not_run]);
}

/// The user stopped while somebody thought about the first of two payments, and was asked about the
/// second too.
#[test]
fn a_stop_while_somebody_is_asked_stops_the_next_question() {
    let (memory, prompt) = shared();
    let stopper = Later::default();
    let stops = Arc::clone(&stopper);
    let model = Scripted::new().says(called([("c1", "pay"), ("c2", "pay")]));
    let conversation = Conversation::new(prompt, model)
        .tool(
            Tool::new("pay", "Pays.").needing_approval(),
            |_: serde_json::Value| -> Result<&str, ToolError> { panic!("it is run") },
        )
        .approve_by(move |call| {
            assert_eq!(call.id(), "c1");
            stop(&stops);
            Approval::Yes
        });
    stopper.set(conversation.stopper()).unwrap();
    assert_eq!(conversation.say("Pay twice.").unwrap().ended, Ended::Interrupted);
    let not_run = "Not run: the turn was interrupted.";
    assert_eq!(texts(&memory)[2..], [not_run, not_run]);
}

/// The same over an async memory.
#[cfg(feature = "async")]
#[test]
fn a_stop_while_one_async_call_runs_stops_the_next_ones() {
    let memory = Arc::new(DefaultChatMemory::new());
    let stopper = Later::default();
    let stops = Arc::clone(&stopper);
    let model = Scripted::new().says(called([("c1", "book"), ("c2", "book")]));
    let prompt = MemoryPrompt::new_async(faults::Slow(Arc::clone(&memory)));
    let conversation = Conversation::new_async(prompt, model).tool(
        Tool::new("book", "Books."),
        move |_: serde_json::Value| {
            stop(&stops);
            Ok("booked")
        },
    );
    stopper.set(conversation.stopper()).unwrap();
    let done = faults::polled(conversation.say("Book twice."), 200).unwrap().unwrap();
    assert_eq!(done.ended, Ended::Interrupted);
    assert_eq!(texts(&memory)[2..], ["booked", "Not run: the turn was interrupted."]);
}

/// A request was given up while its tool ran, and its turn, which was kept, was run again: the tool
/// paid once more with each run, and nothing had gone wrong.
#[cfg(feature = "async")]
#[test]
fn a_call_that_was_running_when_its_turn_was_dropped_is_not_run_again() {
    for is_parallel in [false, true] {
        let paid = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&paid);
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = MemoryPrompt::new_async(faults::Slow(Arc::clone(&memory)));
        let calls = called([("c1", "pay"), ("c2", "pay"), ("c3", "pay")]);
        let model = Scripted::new().says(calls).says("I don't know.");
        let mut conversation = Conversation::new_async(prompt, model).tool_call(
            Tool::new("pay", "Pays."),
            move |call| {
                seen.lock().unwrap().push(call.id().to_owned());
                let is_slow = call.id() == "c2";
                async move {
                    if is_slow {
                        std::future::pending::<()>().await;
                    }
                    Ok("paid")
                }
            },
        );
        if is_parallel {
            conversation = conversation.parallel();
        }
        let mut turn = Turn::from("Pay three times.");
        let dropped = faults::polled(conversation.run(&mut turn, |_| {}), 200);
        assert!(dropped.is_none());
        let done = faults::polled(conversation.run(&mut turn, |_| {}), 200).unwrap().unwrap();
        assert_eq!(done.ended, Ended::Answered);
        let mut paid = std::mem::take(&mut *paid.lock().unwrap());
        paid.sort();
        assert_eq!(paid, ["c1", "c2", "c3"], "each was begun once");
        let unknown = |id: &str| {
            let of_id = done.messages.iter().filter_map(Message::as_tool);
            let mut of_id = of_id.filter(|it| it.call_id() == id);
            of_id.all(|it| it.content().text().contains("not known"))
        };
        assert_eq!(["c1", "c2", "c3"].map(unknown), [false, true, false]);
    }
}

/// What was said of an answer that broke off could not be stored at first, and then was. `say`
/// failed all the same, and the question was asked and stored twice.
#[test]
fn a_broken_answer_that_is_stored_at_the_second_try_is_no_failure() {
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let broken = stopped("one two", Stop::Broken);
    let prompt = MemoryPrompt::new(Arc::clone(&memory));
    let conversation = Conversation::new(prompt, Scripted::new().says(broken));
    memory.fails.store(true, Ordering::Relaxed);
    let done = conversation.say("Count.").unwrap();
    assert_eq!((done.ended, done.positions), (Ended::Interrupted, 0..2));
    assert_eq!(memory.next_position().unwrap(), 2);
}

/// A tool that ends when this channel says so.
fn held()
-> (impl Fn(serde_json::Value) -> Result<&'static str, ToolError> + Send + Sync, Sender<()>) {
    let (go, wait) = channel::<()>();
    let wait = Mutex::new(wait);
    let run = move |_| {
        wait.lock().unwrap().recv()?;
        Ok("paid")
    };
    (run, go)
}

/// A conversation whose payments take too long, and end when this channel says so.
pub(crate) fn too_slow(
    prompt: MemoryPrompt,
    model: impl Model + 'static,
) -> (Conversation, Sender<()>) {
    let (pay, go) = held();
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("pay", "Pays."), pay)
        .call_timeout(Duration::from_millis(20));
    (conversation, go)
}

/// The same in the middle of a turn, which waits for somebody's word to book.
fn parked(prompt: MemoryPrompt) -> (Conversation, Sender<()>) {
    let model = Scripted::new().says(called([("c1", "pay"), ("c2", "book")])).says("Hello.");
    let (conversation, go) = too_slow(prompt, model);
    let conversation = conversation
        .tool(Tool::new("book", "Books.").needing_approval(), nothing)
        .call_timeout(Duration::from_millis(200));
    assert_eq!(conversation.say("Pay and book.").unwrap().ended, Ended::Parked);
    (conversation, go)
}

/// A payment took too long, and then the model failed. What came of the payment was thrown away.
#[test]
fn a_late_result_outlives_the_failure_of_the_model() {
    let (memory, prompt) = shared();
    let model = Scripted::new().calls("pay", json!({})).fails("overloaded");
    let (conversation, go) = too_slow(prompt, model);
    assert!(conversation.say("Pay.").is_err());
    assert_eq!(memory.next_position().unwrap(), 3);
    go.send(()).unwrap();
    until(|| memory.next_position().unwrap() == 4);
    assert_eq!(texts(&memory)[3], "paid");
}

/// One call took too long, and another one waited for approval. What came of the first was stored
/// at once, before the question.
#[test]
fn a_late_result_of_a_parked_turn_waits_for_it() {
    let (memory, prompt) = shared();
    let (conversation, go) = parked(prompt);
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 1, "it has come, and waits");
    assert_eq!(memory.next_position().unwrap(), 0);
    let waits = conversation.prompt().unfinished().unwrap().remove(0);
    let mut turn = conversation.prompt().adopt(&waits).unwrap();
    turn.approve("c2").unwrap();
    assert_eq!(conversation.run(&mut turn, |_| {}).unwrap().positions, 0..5);
    until(|| memory.next_position().unwrap() == 6);
    assert_eq!(texts(&memory)[5], "paid");
}

/// A search took too long, and the user stopped and forgot the turn. Its result was stored without
/// its call.
#[test]
fn a_late_result_of_a_forgotten_turn_is_not_stored() {
    let (memory, prompt) = shared();
    let stopper = Later::default();
    let stops = Arc::clone(&stopper);
    let (look, go) = held();
    let model = Scripted::new().calls("look", json!({}));
    let conversation = Conversation::new(prompt, model)
        .on_interrupt(OnInterrupt::Forget)
        .tool(Tool::new("look", "Looks.").repeatable(), move |it| {
            stop(&stops);
            look(it)
        })
        .call_timeout(Duration::from_millis(20));
    stopper.set(conversation.stopper()).unwrap();
    assert!(conversation.say("Look.").unwrap().messages.is_empty());
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0, "it has come");
    assert_eq!(memory.next_position().unwrap(), 0);
}

/// A process ended while a payment took too long, and its result was lost.
#[test]
fn late_results_are_waited_for() {
    let (memory, prompt) = shared();
    let model = Scripted::new().calls("pay", json!({})).says("I don't know.");
    let (conversation, go) = too_slow(prompt, model);
    conversation.say("Pay.").unwrap();
    assert_eq!(conversation.finish(Duration::from_millis(5)), 1, "it still runs");
    thread::scope(|scope| {
        let waits = scope.spawn(|| conversation.finish(LONG));
        go.send(()).unwrap();
        assert_eq!(waits.join().unwrap(), 0);
    });
    assert_eq!(texts(&memory)[4], "paid");
}

/// The disk was full for a moment when the result of a slow payment came, and it was thrown away.
#[test]
fn a_late_result_that_is_refused_is_checkpointed() {
    for is_lost in [false, true] {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let model = Scripted::new().calls("pay", json!({})).says("I don't know.").says("Hello.");
        let (conversation, go) = too_slow(MemoryPrompt::new(Arc::clone(&memory)), model);
        conversation.say("Pay.").unwrap();
        let wrong = if is_lost { &memory.loses } else { &memory.fails };
        wrong.store(true, Ordering::Relaxed);
        go.send(()).unwrap();
        // `finish` tries once more, unless the next turn was faster.
        until(|| !wrong.load(Ordering::Relaxed));
        assert_eq!(conversation.finish(LONG), 0);
        assert_eq!(texts(&memory)[4..], ["paid"], "once");
    }
}

/// A tool hung for ever, and each call of it held two threads more.
#[test]
fn while_many_tools_run_on_no_other_is_begun() {
    let (memory, prompt) = shared();
    let model = (0..33).fold(Scripted::new(), |model, _| model.calls("pay", json!({})));
    let model = model.says("I give up.").calls("pay", json!({})).says("Paid.");
    let (conversation, go) = too_slow(prompt, model);
    let conversation = conversation.call_timeout(Duration::from_millis(1));
    let done = conversation.say(Turn::from("Pay.").max_rounds(40)).unwrap();
    let results: Vec<_> = done.messages.iter().filter_map(Message::as_tool).collect();
    assert!(results[..32].iter().all(|it| it.is_stand_in()));
    assert_eq!(
        results[32].content().text(),
        "Not run: too many earlier calls took too long and still run."
    );
    assert_eq!(conversation.finish(Duration::ZERO), 32);
    drop(go);
    assert_eq!(conversation.finish(LONG), 0);
    conversation.say("Pay.").unwrap();
    let run = memory.all().unwrap();
    let last = run.messages().rev().find_map(Message::as_tool).unwrap();
    assert!(!last.content().text().starts_with("Not run"), "there is room again");
}

/// Two writes in a row failed, as when a server restarts. `remains` said that nothing was stored
/// where the answer of the first one had been lost, and that a turn was left over where none was.
#[test]
fn what_remains_is_told_where_writes_and_reads_fail_in_a_row() {
    let scripts: [fn() -> Scripted; 3] = [
        || Scripted::new().says("A."),
        || Scripted::new().calls("pay", json!({})).says("A."),
        || Scripted::new().calls("pay", json!({})).fails("overloaded"),
    ];
    let one = |at: usize| [(at, false), (at, true)];
    let all: Vec<(usize, bool)> = (0..14).flat_map(one).collect();
    let behind = |at: usize| all.iter().copied().filter(move |it| it.0 > at);
    let mut plans: Vec<Vec<(usize, bool)>> = vec![Vec::new()];
    for a in all.iter().copied() {
        plans.push(vec![a]);
        for b in behind(a.0) {
            plans.push(vec![a, b]);
            plans.extend(behind(b.0).map(|c| vec![a, b, c]));
        }
    }
    for (script, plan) in scripts.iter().flat_map(|it| plans.iter().map(move |plan| (it, plan))) {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        *memory.plan.lock().unwrap() = plan.clone();
        let paid = Arc::new(AtomicUsize::new(0));
        let pays = Arc::clone(&paid);
        let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), script())
            .tool(Tool::new("pay", "Pays."), move |()| {
                pays.fetch_add(1, Ordering::Relaxed);
                Ok("paid")
            });
        let said = conversation.say("Pay.");
        memory.plan.lock().unwrap().clear();
        let stored = memory.messages().unwrap().iter().filter(|it| it.text() == "Pay.").count();
        let left = conversation.prompt().unfinished().unwrap().len();
        let paid = paid.load(Ordering::Relaxed);
        let is_true = match &said {
            Ok(_) => stored == 1 && left == 0,
            Err(error) => match error.remains().unwrap() {
                Remains::Nothing => (stored, left, paid) == (0, 0, 0),
                Remains::Stored => stored == 1,
                Remains::Unfinished => stored + left == 1,
                Remains::Unknown => true,
                other => panic!("{other:?}"),
            },
        };
        assert!(is_true, "{plan:?}: {said:?}, yet stored {stored}, left {left}, paid {paid}");
        assert!(paid <= 1 && (paid == 0 || stored + left == 1), "{plan:?}");
    }
}

/// A model failed behind a booking, and nobody could tell whether to ask again or to go on.
#[test]
fn an_error_says_what_remains() {
    // A repeatable tool has run, or none.
    let (memory, prompt) = shared();
    let model = Scripted::new().calls("look", json!({})).fails("overloaded");
    let conversation =
        Conversation::new(prompt, model).tool(Tool::new("look", "Looks.").repeatable(), nothing);
    assert_eq!(conversation.say("Look.").unwrap_err().remains(), Some(Remains::Nothing));
    assert_eq!(memory.next_position().unwrap(), 0);

    for (wrong, remains, stored) in [
        (None, Remains::Stored, 3),
        (Some(DefaultChatMemory::new().limits()), Remains::Unfinished, 0),
        (Some(Limits::default()), Remains::Unknown, 0),
    ] {
        let memory = Odd::new(wrong.unwrap_or_else(|| DefaultChatMemory::new().limits()));
        let model = {
            let memory = Arc::clone(&memory);
            move |ask: &Asking<'_>| -> Result<Message, ModelError> {
                if ask.round() == 0 {
                    return Ok(called([("c1", "book")]));
                }
                memory.fails.store(wrong.is_some(), Ordering::Relaxed);
                Err("overloaded".into())
            }
        };
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        let conversation =
            Conversation::new(prompt, model).tool(Tool::new("book", "Books."), nothing);
        let error = conversation.say("Book.").unwrap_err();
        assert_eq!((error.kind(), error.remains()), (ErrorKind::Model, Some(remains)));
        assert_eq!(memory.next_position().unwrap(), stored);
        let left = conversation.prompt().unfinished().unwrap();
        assert_eq!(left.len(), usize::from(remains == Remains::Unfinished));
        // A turn that is the caller's is kept by the caller.
        memory.fails.store(false, Ordering::Relaxed);
        let mut turn = Turn::from("Book.");
        assert_eq!(conversation.run(&mut turn, |_| {}).unwrap_err().remains(), None);
    }
}

/// The model called a tool that there is not, or one that nobody approved of, then a repeatable
/// one, and then it failed. Nothing had happened, and yet the question was stored.
#[test]
fn what_was_not_run_is_no_reason_to_store_a_failed_turn() {
    for refused in ["fly", "pay"] {
        let (memory, prompt) = shared();
        let model = Scripted::new().calls(refused, json!({})).calls("look", json!({})).fails("no");
        let conversation = Conversation::new(prompt, model.says("Hello."))
            .tool(Tool::new("look", "Looks.").repeatable(), nothing)
            .tool(Tool::new("pay", "Pays.").needing_approval(), nothing)
            .approve_by(|_| Approval::No("too dear".to_owned()));
        let error = conversation.say("Hi.").unwrap_err();
        assert_eq!(error.remains(), Some(Remains::Nothing), "{refused}");
        assert!(texts(&memory).is_empty() && memory.slots().unwrap().is_empty());
        assert_eq!(conversation.say("Hi.").unwrap().positions, 0..2);
    }
}

/// Claude rested in the middle of a search (`pause_turn`), and the turn took that for its answer:
/// nobody ever saw what was found.
#[test]
fn a_model_that_rests_is_asked_to_go_on() {
    let rests = |text: &str| stopped(text, Stop::Paused);
    let (memory, prompt) = shared();
    let model = Scripted::new().says(rests("One. ")).says(rests("Two. ")).says("Three.");
    let conversation = Conversation::new(prompt, model.clone());
    let done = conversation.say("Count.").unwrap();
    assert_eq!((done.ended, done.text().as_str()), (Ended::Answered, "One. Two. Three."));
    let sent: Vec<_> =
        model.asked().iter().map(|it| it[it.len() - 1].text().into_owned()).collect();
    assert_eq!(sent, ["Count.", "One. ", "One. Two. "]);
    assert_eq!(texts(&memory), ["Count.", "One. Two. Three."]);

    // It may call a tool where it goes on.
    let model = model.says(rests("Four. ")).calls("look", json!({})).says("Five.");
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model.clone())
        .tool(Tool::new("look", "Looks."), nothing);
    let done = conversation.say("Go on.").unwrap();
    let roles: Vec<_> = done.messages.iter().map(|it| it.role().to_string()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
    assert!(done.messages[1].text() == "Four. " && done.messages[1].has_tool_calls());

    // The limit of rounds ends it, and a word of the user waits until it has come to rest.
    let model = Scripted::new().says(rests("A")).says(rests("B")).says(rests("C"));
    let conversation =
        Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model.clone());
    let done = conversation.say(Turn::from("Q").max_rounds(2)).unwrap();
    assert_eq!((done.ended, done.text().as_str()), (Ended::Rounds, "ABC"));
    let mut turn = Turn::from("Q");
    let prompt = conversation.prompt();
    for (reply, last) in [(rests("A"), "Q"), (Reply::from("B"), "A"), (Reply::from("C"), "S")] {
        let Next::Ask(ask) = turn.next(prompt).unwrap() else { panic!("{last}") };
        assert_eq!(ask.prompt().iter().last().unwrap().text(), last);
        turn.answer(reply).unwrap();
        if last == "Q" {
            turn.steer("S").unwrap();
            turn = serde_json::from_str(&serde_json::to_string(&turn).unwrap()).unwrap();
        }
    }
    let Next::Done(done) = turn.next(prompt).unwrap() else { panic!("it is over") };
    let said: Vec<_> = done.messages.iter().map(Message::text).collect();
    assert_eq!(said, ["Q", "AB", "S", "C"]);
}

/// A question failed, and the conversation was given the memory of another user: that user's model
/// read what was meant for the first one.
#[test]
fn a_temporary_of_a_failed_turn_stays_with_its_memory() {
    let model = Scripted::new().fails("busy").fails("busy").says("Hi.").says("Hi.");
    let mut conversation = Conversation::new(shared().1, model.clone());
    conversation.add_temporary(Message::user("Ann's balance is 300."));
    conversation.say("Hello?").unwrap_err();
    conversation.say("Hello?").unwrap_err();
    let told = |at: usize| model.asked()[at].iter().any(|it| it.text().contains("300"));
    assert!(told(0) && told(1), "it waits for the next turn");
    let ann = conversation.prompt_mut().set_memory(shared().0);
    conversation.add_temporary(Message::user("Today is Friday."));
    conversation.say("What is my balance?").unwrap();
    assert!(!told(2));
    assert!(model.asked()[2].iter().any(|it| it.text().contains("Friday")));
    conversation.prompt_mut().set_memory(ann);
    conversation.say("Hello?").unwrap();
    assert!(!told(3), "it is gone");
}
