//! What others do between two steps of a turn: another tab, a second copy, a repeated request, a
//! dropped future.

use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_prompt::conversation::{Approval, Asking, Conversation, Live, ModelError, Scripted};
use memory_prompt::error::Remains;
use memory_prompt::memory::{Append, Appended, BoxFuture, Expected, Limits, MemoryId, Read};
use memory_prompt::record::Snapshot;
use memory_prompt::turn::{Ended, Next, OnInterrupt, Turn};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, Error, ErrorKind, MemoryPrompt, Message, Tool,
    ToolCall,
};
use serde_json::{Value, json};

use super::faults::{Slow, polled};
use super::{LONG, held, nothing, shared, texts};
use crate::inside::inside;
use crate::odd::Odd;
use crate::turn::copy;

fn request() -> Turn {
    Turn::from("Pay.").with_id("request 1")
}

/// A conversation in which the request paid and its model failed: it is stored without an answer.
fn unanswered(prompt: MemoryPrompt) -> Conversation {
    let model = Scripted::new().calls("pay", json!({})).fails("overloaded");
    let first = Conversation::new(prompt, model).tool(Tool::new("pay", "Pays."), nothing);
    first.say(request()).unwrap_err();
    first
}

/// One question with its answer, and a prompt of a tab that shows them.
fn tab() -> (Arc<DefaultChatMemory>, MemoryPrompt) {
    let memory = Arc::new(DefaultChatMemory::new());
    let over = || MemoryPrompt::new(Arc::clone(&memory));
    over().add_all([Message::user("Hi."), Message::ai("Hello.")]).unwrap();
    let shown = over().with_branches().page(None, 1).unwrap().branch;
    let tab = over().with_branches_by(|view| view.expecting(shown));
    (memory, tab)
}

/// Another tab asks something else, and so moves to another branch.
fn goes_elsewhere(memory: &Arc<DefaultChatMemory>) -> impl Fn() + Send + Sync + 'static {
    let memory = Arc::clone(memory);
    move || drop(MemoryPrompt::new(Arc::clone(&memory)).with_branches().edit(0, Message::user("?")))
}

/// A person said no, another tab moved the conversation to another branch meanwhile, and the model
/// failed: the turn that was to be forgotten read its slot again and again, forever.
#[test]
fn a_turn_that_is_given_up_on_a_branch_that_was_left_ends() {
    let (memory, prompt) = tab();
    let meanwhile = goes_elsewhere(&memory);
    let conversation =
        Conversation::new(prompt, Scripted::new().calls("pay", json!({})).fails("overloaded"))
            .tool(Tool::new("pay", "Pays.").needing_approval(), nothing)
            .approve_by(move |_| {
                meanwhile();
                Approval::No("No.".into())
            });
    let error = conversation.say("Pay.").unwrap_err();
    assert_eq!(error.remains(), Some(Remains::Nothing));
    assert!(MemoryPrompt::new(memory).unfinished().unwrap().is_empty());
}

/// The answer of a repeated request could not be stored, since another tab had moved on, and the
/// next time it was paid again.
#[test]
fn a_request_that_comes_again_is_answered_on_the_branch_that_was_left() {
    let (memory, prompt) = tab();
    let first = unanswered(prompt);

    let shown = first.prompt().page(None, 1).unwrap().branch;
    let over = || MemoryPrompt::new(Arc::clone(&memory));
    let model = Scripted::new().calls("pay", json!({"again": true})).says("Done.");
    let meanwhile = goes_elsewhere(&memory);
    let again = Conversation::new(over().with_branches_by(|view| view.expecting(shown)), model)
        .tool(Tool::new("pay", "Pays."), move |_: Value| {
            meanwhile();
            Ok("paid")
        });
    assert_eq!(again.say(request()).unwrap().text(), "Done.");
    let stored = over().with_branches().stored_turn("request 1").unwrap().unwrap();
    assert_eq!(stored.text(), "Done.");
}

/// A payment took too long and its turn was stored without an answer. Its request came again and
/// was pending approval: the outcome of the payment was put off until the decision, and lost if the
/// conversation was dropped.
#[test]
fn a_late_result_waits_for_no_later_request_of_its_id() {
    let (memory, prompt) = shared();
    let (pay, go) = held();
    let model = Scripted::new().calls("pay", json!({})).fails("overloaded");
    let first = Conversation::new(prompt, model)
        .tool(Tool::new("pay", "Pays."), pay)
        .call_timeout(Duration::from_millis(5));
    first.say(request()).unwrap_err();
    let model = Scripted::new().calls("book", json!({}));
    let again = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .tool(Tool::new("book", "Books.").needing_approval(), nothing);
    assert_eq!(again.say(request()).unwrap().ended, Ended::Parked);

    go.send(()).unwrap();
    assert_eq!(first.finish(LONG), 0);
    assert_eq!(memory.messages().unwrap().last().unwrap().text(), "paid");
}

/// Somebody else decided on the call of a turn that its owner kept, or had as JSON: it was parked
/// forever, with a call that nobody could decide on.
#[test]
fn a_kept_turn_that_others_have_decided_is_over() {
    let (memory, prompt) = shared();
    let tool = || Tool::new("pay", "Pays.").needing_approval();
    let owner = Conversation::new(prompt, Scripted::new().calls("pay", json!({})).says("Fine."))
        .tool(tool(), nothing);
    let mut turn = Turn::from("Pay.");
    assert_eq!(owner.run(&mut turn, |_| {}).unwrap().ended, Ended::Parked);
    let mut stored = copy(&turn).tools([tool()]);
    let still = owner.run(&mut turn, |_| {}).unwrap();
    assert_eq!((still.ended, still.waiting().len()), (Ended::Parked, 1));

    let other = Conversation::new(MemoryPrompt::new(memory), Scripted::new().says("Paid."))
        .tool(tool(), nothing);
    assert_eq!(other.approve(&still.waiting()[0]).unwrap().text(), "Paid.");
    assert_eq!(owner.run(&mut turn, |_| {}).unwrap().ended, Ended::Adopted);
    let Next::Done(done) = stored.next(owner.prompt()).unwrap() else { panic!("it waits") };
    assert_eq!(done.ended, Ended::Adopted);
}

/// A turn was kept as JSON while it was pending approval. After the approval, its payment was
/// reported as of unknown outcome, and was not made; or the turn could not be abandoned.
#[test]
fn a_kept_turn_that_nobody_else_has_touched_is_decided_by_its_owner() {
    for is_approved in [true, false] {
        let (memory, prompt) = shared();
        let tool = || Tool::new("pay", "Pays.").needing_approval();
        let owner =
            Conversation::new(prompt, Scripted::new().calls("pay", json!({})).says("Paid."))
                .tool(tool(), |_: Value| Ok("ref 7XK"));
        let mut turn = Turn::from("Pay.");
        let parked = owner.run(&mut turn, |_| {}).unwrap();
        let mut stored = copy(&turn).tools([tool()]);
        if is_approved {
            stored.approve(&parked.waiting()[0].call).unwrap();
            assert_eq!(owner.run(&mut stored, |_| {}).unwrap().text(), "Paid.");
            assert_eq!(memory.messages().unwrap()[2].text(), "ref 7XK");
        } else {
            stored.interrupt(OnInterrupt::Forget);
            owner.run(&mut stored, |_| {}).unwrap();
            assert_eq!(memory.next_position().unwrap(), 0);
        }
        assert!(owner.prompt().unfinished().unwrap().is_empty(), "{is_approved}");
    }
}

/// A message was pinned while a turn was pending approval. After the approval, the turn got a
/// position after its own end, and ended without an answer.
#[test]
fn a_turn_that_waits_is_told_of_no_later_pin() {
    let (memory, _) = shared();
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).max_messages(4).with_pins();
    let model = Scripted::new().calls("pay", json!({})).says("Fine.").says("Paid.");
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), nothing);
    let parked = conversation.say("Pay.").unwrap();
    memory.add_all((0..20).map(|i| Message::user(format!("text {i}")))).unwrap();
    conversation.prompt().pin(3).unwrap();
    assert_eq!(conversation.say("Hi.").unwrap().text(), "Fine.");
    assert_eq!(conversation.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
}

/// Of two copies of one turn whose models make the same calls, one took over the slot of the other,
/// and the button that it showed was that of a turn that no longer existed.
#[test]
fn a_copy_that_takes_over_the_slot_of_the_other_shows_its_button() {
    let (memory, _) = shared();
    let tool = || Tool::new("pay", "Pays.").needing_approval();
    let [first, second] = [(); 2].map(|()| {
        let model = Scripted::new().calls("pay", json!({})).says("Paid.");
        Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model).tool(tool(), nothing)
    });
    let turn = Turn::from("Pay.");
    let mut copies = [copy(&turn), copy(&turn)];
    assert_eq!(first.run(&mut copies[0], |_| {}).unwrap().ended, Ended::Parked);
    let parked = second.run(&mut copies[1], |_| {}).unwrap();
    assert_eq!(parked.ended, Ended::Parked);
    assert_eq!(second.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
}

/// A queue delivered a turn twice. The model failed for the second copy, which was abandoned, and
/// with it the result that the first copy still waited for.
#[test]
fn a_copy_that_is_given_up_drops_no_result_of_the_other() {
    let (memory, prompt) = shared();
    let (pay, go) = held();
    let model = Scripted::new().calls("pay", json!({})).says("It takes a while.");
    let conversation = Conversation::new(prompt, model.fails("overloaded"))
        .tool(Tool::new("pay", "Pays."), pay)
        .call_timeout(Duration::from_millis(5));
    let turn = Turn::from("Pay.");
    conversation.say(copy(&turn)).unwrap();
    conversation.say(copy(&turn)).unwrap_err();
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(memory.messages().unwrap().last().unwrap().text(), "paid");
}

/// What a user added to a turn that its owner kept was dropped with the future that ran it.
#[test]
fn what_was_added_is_in_a_kept_turn_whose_future_was_dropped() {
    let asked = Arc::new(Mutex::new(0));
    let model = move |ask: Asking<'static>| -> BoxFuture<'static, Result<Message, ModelError>> {
        let mut asked = asked.lock().unwrap();
        *asked += 1;
        let is_first = *asked == 1;
        Box::pin(async move {
            if is_first {
                pending::<()>().await;
            }
            let said: Vec<_> = ask.prompt().iter().map(|it| it.text().into_owned()).collect();
            Ok(Message::ai(said.join(" ")))
        })
    };
    let prompt = MemoryPrompt::new_async(Slow(Arc::new(DefaultChatMemory::new())));
    let conversation = Conversation::new_async(prompt, model);
    let mut turn = Turn::from("A hotel.");
    let mut run = Box::pin(conversation.run(&mut turn, |_| {}));
    assert!(polled(&mut run, 20).is_none());
    conversation.steer("And cheap.").unwrap();
    drop(run);
    let done = polled(conversation.run(&mut turn, |_| {}), 200).unwrap().unwrap();
    assert!(done.text().contains("And cheap."), "{}", done.text());
}

/// Of two concurrent payments, one had returned when the request was dropped. Others ended the
/// turn, and its outcome was never stored, though the process that knew it was still alive.
#[test]
fn what_had_returned_before_a_drop_is_stored_once_others_have_ended_the_turn() {
    let memory = Arc::new(DefaultChatMemory::new());
    let calls = ["pay", "wait"].map(|tool| ToolCall::new(tool, tool, "{}"));
    let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
    let wait = |_: Value| -> BoxFuture<'static, _> { Box::pin(pending::<Result<&str, _>>()) };
    let conversation =
        Conversation::new_async(prompt, Scripted::new().says(Message::ai_calls(calls)))
            .parallel()
            .tool(Tool::new("pay", "Pays."), |_: Value| Ok("paid"))
            .tool_async(Tool::new("wait", "Waits."), wait);
    assert!(polled(conversation.say("Pay."), 100).is_none());
    let other = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), Scripted::new());
    assert_eq!(other.recover(Duration::ZERO).unwrap(), 1);
    assert_eq!(polled(conversation.finish(LONG), 100), Some(0));
    let said = texts(&memory);
    assert!(said.contains(&"paid".to_owned()), "{said:?}");
}

/// A follower of a turn that failed got the end of its retry with a torn letter, or nothing at all.
#[test]
fn who_follows_a_request_behind_its_error_is_told_its_retry_whole() {
    let (_, prompt) = shared();
    let (live, ada) = (Live::new(), MemoryId::from("ada"));
    let model = Scripted::new().fails("overloaded").says("In Norway.");
    let conversation = Conversation::new(prompt, model);
    let first = live.begin(ada.clone(), request());
    let tab = first.follow();
    conversation.tell(first).unwrap_err();
    let error = tab.last().unwrap();
    assert_eq!(error.name, "error");

    let again = live.begin(ada.clone(), request());
    let running = conversation.follow(&live, &ada, Some(&error.id)).unwrap().unwrap();
    conversation.tell(again).unwrap();
    let stored = conversation.follow(&live, &ada, Some(&error.id)).unwrap().unwrap();
    for told in [running, stored] {
        let text: String = told
            .filter(|it| it.name == "text")
            .map(|it| it.data.as_str().unwrap().to_owned())
            .collect();
        assert_eq!(text, "In Norway.");
    }
}

/// A memory that refuses appends while it is full.
#[derive(Debug, Default)]
struct Full(DefaultChatMemory, AtomicBool);

impl ChatMemory for Full {
    inside!(0: id append read evict clear slots limits);
    fn append_with(&self, append: &mut Append) -> memory_prompt::Result<Appended> {
        if self.1.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Storage, "append", "the disk is full"));
        }
        self.0.append_with(append)
    }
    fn read_with(&self, read: &Read) -> memory_prompt::Result<Snapshot> {
        self.0.read_with(read)
    }
}

/// A process that was about to end asked repeatedly whether all was stored while its disk was full:
/// the result was thrown away, and then the answer was that nothing was left.
#[test]
fn a_late_result_is_kept_however_long_the_memory_fails() {
    let memory = Arc::new(Full::default());
    let (pay, go) = held();
    let model = Scripted::new().calls("pay", json!({})).says("It takes a while.");
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model)
        .tool(Tool::new("pay", "Pays."), pay)
        .call_timeout(Duration::from_millis(5));
    conversation.say("Pay.").unwrap();
    memory.1.store(true, Ordering::Relaxed);
    go.send(()).unwrap();
    for _ in 0..20 {
        assert_eq!(conversation.finish(LONG), 1);
    }
    memory.1.store(false, Ordering::Relaxed);
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(memory.messages().unwrap().last().unwrap().text(), "paid");
}

/// If it is unknown whether a turn is stored, its copy stored it a second time.
#[test]
fn a_copy_of_a_turn_that_may_be_stored_is_not_stored_again() {
    let memory = Odd::new(Limits::default());
    let prompt = MemoryPrompt::new(Arc::clone(&memory));
    let mut turn = Turn::from("Hi.");
    let Next::Ask(_) = turn.next(&prompt).unwrap() else { panic!("nobody is asked") };
    turn.answer(Message::ai("Hello.")).unwrap();
    memory.loses.store(true, Ordering::Relaxed);
    assert_eq!(turn.next(&prompt).unwrap_err().kind(), ErrorKind::Unacknowledged);
    assert_eq!(copy(&turn).next(&prompt).unwrap_err().kind(), ErrorKind::Unacknowledged);
    assert_eq!(memory.next_position().unwrap(), 2);
}

/// A repeated request was steered before it was pending approval. When it came again, it was
/// refused as another question with its id.
#[test]
fn a_request_that_was_steered_and_waits_is_the_same_question() {
    let (memory, prompt) = shared();
    unanswered(prompt);
    let again = || {
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        Conversation::new(prompt, Scripted::new().calls("book", json!({})))
            .tool(Tool::new("book", "Books.").needing_approval(), nothing)
    };
    let mut steered = request();
    steered.steer("And cheap.").unwrap();
    assert_eq!(again().say(steered).unwrap().ended, Ended::Parked);
    let third = again().say(request()).unwrap();
    assert_eq!((third.ended, third.waiting().len()), (Ended::Parked, 1));
}

/// Two versions of a program ran side by side. The older one could not read a turn of the newer
/// one, and then ended none of its own.
#[test]
fn one_turn_that_cannot_be_read_keeps_no_other_from_its_end() {
    let (memory, prompt) = shared();
    let mut turn = Turn::from("Pay.");
    turn.next(&prompt).unwrap();
    turn.answer(Message::ai_calls([ToolCall::new("c1", "pay", "{}")])).unwrap();
    turn.next(&prompt).unwrap();
    let later = Append::default().set_slot("turn:a", r#"{"turn":9}"#, Expected::Absent);
    memory.append_with(&mut later.clone()).unwrap();
    let conversation = Conversation::new(prompt, Scripted::new());
    let error = conversation.recover(Duration::ZERO).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(memory.slots().unwrap().len(), 1);
    assert_eq!(memory.next_position().unwrap(), 3);
}
