//! Late results of async conversations, and stops of models that say nothing.

use std::future::{pending, poll_fn};
use std::sync::atomic::AtomicBool;
use std::task::{Context, Poll, Wake, Waker};

use memory_prompt::AsyncChatMemory;
use memory_prompt::memory::BoxFuture;
use memory_prompt::turn::Done;
use serde_json::Value;

use super::faults::{ALL, Slow, polled, polls};
use super::*;
use crate::turn::end_all;

type Talk = Conversation<dyn AsyncChatMemory>;
type Tasks = Arc<Mutex<Vec<BoxFuture<'static, ()>>>>;

/// A conversation whose payments run until they are released, and the tasks in which they run.
fn talk(model: Scripted) -> (Arc<DefaultChatMemory>, Talk, Arc<AtomicBool>, Tasks) {
    let memory = Arc::new(DefaultChatMemory::new());
    let (talk, may_end, tasks) = talk_over(&memory, model);
    (memory, talk, may_end, tasks)
}

fn talk_over(
    memory: &Arc<impl ChatMemory + 'static>,
    model: Scripted,
) -> (Talk, Arc<AtomicBool>, Tasks) {
    let prompt = MemoryPrompt::new_async(Slow(Arc::clone(memory))).max_messages(100);
    let (may_end, tasks) = (Arc::new(AtomicBool::new(false)), Tasks::default());
    let (ends, to) = (Arc::clone(&may_end), Arc::clone(&tasks));
    let talk = Conversation::new_async(prompt, model)
        .call_timeout_by(Duration::from_secs(1), |_| polls(3))
        .go_on_by(move |task| to.lock().unwrap().push(task))
        .tool_async(Tool::new("pay", "Pays."), move |_: Value| {
            let ends = Arc::clone(&ends);
            poll_fn(move |_| {
                if ends.load(Ordering::Relaxed) { Poll::Ready(Ok("paid")) } else { Poll::Pending }
            })
        })
        .tool(Tool::new("book", "Books.").needing_approval(), |_: Value| Ok("booked"));
    (talk, may_end, tasks)
}

fn say(talk: &Talk, question: &str) -> Done {
    polled(talk.say(question), ALL).unwrap().unwrap()
}

fn finish(talk: &Talk) -> usize {
    polled(talk.finish(Duration::from_secs(1)), ALL).unwrap()
}

fn run(tasks: &Tasks) {
    let tasks = std::mem::take(&mut *tasks.lock().unwrap());
    for task in tasks {
        polled(task, ALL).unwrap();
    }
}

/// The result of an async payment that took too long was thrown away.
#[test]
fn what_comes_late_of_an_async_tool_is_stored() {
    for is_dropped in [false, true] {
        let model = Scripted::new().calls("pay", json!({})).says("I don't know yet.");
        let (memory, talk, may_end, tasks) = talk(model);
        assert_eq!(say(&talk, "Pay.").text(), "I don't know yet.");
        assert_eq!(finish(&talk), 1, "it goes on");
        may_end.store(true, Ordering::Relaxed);
        if is_dropped {
            drop(talk);
        }
        run(&tasks);
        assert_eq!(texts(&memory).last().unwrap(), "paid");
        let prompt = MemoryPrompt::new(Arc::clone(&memory));
        assert_eq!(prompt.preview().unwrap()[2].text(), "paid", "behind its call");
    }
}

/// A payment took too long, and the conversation was cleared. The same question paid again, also
/// too slowly, and then the first payment ended: its result was stored as that of the second one.
#[test]
fn a_late_result_does_not_go_into_what_was_begun_anew() {
    let call = || called([("call_0", "pay")]);
    let model = Scripted::new().says(call()).says("Well.").says(call()).says("Well.");
    let (memory, talk, may_end, tasks) = talk(model);
    say(&talk, "Pay.");
    let first = Tasks::new(Mutex::new(std::mem::take(&mut *tasks.lock().unwrap())));
    memory.clear().unwrap();
    say(&talk, "Pay.");
    may_end.store(true, Ordering::Relaxed);
    run(&first);
    assert!(!texts(&memory).iter().any(|it| it == "paid"), "{:?}", texts(&memory));
    run(&tasks);
    assert_eq!(finish(&talk), 0);
    assert_eq!(texts(&memory).last().unwrap(), "paid");
}

/// Giving up a wait, at whichever await, lost the results.
#[test]
fn a_finish_that_is_dropped_loses_nothing() {
    for drop_after in 0..60 {
        let model = Scripted::new().says(called([("c1", "pay"), ("c2", "book")]));
        let (memory, talk, may_end, tasks) = talk(model);
        assert_eq!(say(&talk, "Pay and book.").ended, Ended::Parked);
        may_end.store(true, Ordering::Relaxed);
        run(&tasks);
        assert_eq!(finish(&talk), 1, "it waits for its turn");
        end_all(&MemoryPrompt::new(Arc::clone(&memory)));
        polled(talk.finish(Duration::from_secs(1)), drop_after);
        assert_eq!(finish(&talk), 0);
        let paid = texts(&memory).iter().filter(|it| *it == "paid").count();
        assert_eq!(paid, 1, "{drop_after}");
    }
}

/// A request was dropped, at whichever await, while its payment continued.
#[test]
fn a_late_result_outlives_the_future_of_its_turn() {
    for drop_after in 0..60 {
        let model = Scripted::new().calls("pay", json!({})).says("I don't know yet.");
        let (memory, talk, may_end, tasks) = talk(model);
        let done = polled(talk.say("Pay."), drop_after);
        let is_late = !tasks.lock().unwrap().is_empty();
        may_end.store(true, Ordering::Relaxed);
        run(&tasks);
        end_all(&MemoryPrompt::new(Arc::clone(&memory)));
        assert_eq!(finish(&talk), 0, "{drop_after}");
        let paid = texts(&memory).iter().filter(|it| *it == "paid").count();
        assert_eq!(paid, usize::from(is_late), "{drop_after}: {done:?} {:?}", texts(&memory));
    }
}

/// If a turn is kept and run again, what came meanwhile is stored once.
#[test]
fn a_kept_turn_has_its_late_result_once() {
    for drop_after in 0..60 {
        let model = Scripted::new().calls("pay", json!({})).says("Well.").says("Well.");
        let (memory, talk, may_end, tasks) = talk(model);
        let mut turn = Turn::from("Pay.");
        let _ = polled(talk.run(&mut turn, |_| {}), drop_after);
        may_end.store(true, Ordering::Relaxed);
        run(&tasks);
        let done = polled(talk.run(&mut turn, |_| {}), ALL).unwrap().unwrap();
        run(&tasks);
        assert_eq!((finish(&talk), done.ended), (0, Ended::Answered), "{drop_after}");
        let paid = texts(&memory).iter().filter(|it| *it == "paid").count();
        let asked = texts(&memory).iter().filter(|it| *it == "Pay.").count();
        // If it was dropped while the payment ran in time, nobody knows.
        assert!(paid <= 1 && asked == 1, "{drop_after}: {:?}", texts(&memory));
    }
}

#[test]
fn no_more_than_32_tasks_go_on() {
    let calls: Vec<_> = (0..33).map(|n| ToolCall::new(format!("c{n}"), "pay", "{}")).collect();
    let model = Scripted::new().says(Message::ai_calls(calls)).says("Well.");
    let (memory, talk, may_end, tasks) = talk(model);
    say(&talk, "Pay.");
    assert_eq!(tasks.lock().unwrap().len(), 32);
    let last = texts(&memory)[34].clone();
    assert!(last.starts_with("Not run: too many"), "{last}");
    may_end.store(true, Ordering::Relaxed);
    run(&tasks);
    assert_eq!(finish(&talk), 0);
    assert_eq!(texts(&memory).iter().filter(|it| *it == "paid").count(), 32);
}

/// A store did not answer, and each waiting late result asked it again, one after the other: a
/// question waited at its end for as many time limits as there were results.
#[test]
fn a_memory_that_does_not_answer_is_not_asked_for_each_late_result() {
    let calls: Vec<_> = (0..8).map(|n| ToolCall::new(format!("c{n}"), "pay", "{}")).collect();
    let model = Scripted::new().says(Message::ai_calls(calls)).says("Well.");
    let model = model.calls("pay", json!({})).says("Well.");
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let (mut talk, may_end, tasks) = talk_over(&memory, model);
    say(&talk, "Pay.");
    may_end.store(true, Ordering::Relaxed);
    *memory.plan.lock().unwrap() = (memory.operations()..1_000).map(|it| (it, false)).collect();
    run(&tasks);
    let before = memory.operations();
    assert_eq!(finish(&talk), 8);
    assert_eq!(memory.operations(), before + 2);

    // Another memory is asked all the same.
    let other = Arc::new(DefaultChatMemory::new());
    talk.prompt_mut().set_memory(Slow(Arc::clone(&other)));
    may_end.store(false, Ordering::Relaxed);
    say(&talk, "Pay.");
    may_end.store(true, Ordering::Relaxed);
    run(&tasks);
    assert_eq!((finish(&talk), texts(&other).last().unwrap().as_str()), (8, "paid"));

    // A failure of one result is not one of the others.
    *memory.plan.lock().unwrap() = vec![(memory.operations(), false)];
    assert_eq!(finish(&talk), 1);
    assert_eq!(finish(&talk), 0);
    let stored = memory.messages().unwrap();
    assert_eq!(stored.iter().filter(|it| it.text() == "paid").count(), 8);
}

/// A service limited the time of the tasks in which payments ran, and its executor dropped them.
/// They counted as running forever: after 32 of them no call was run any more, each `finish` waited
/// all of its time, and results that could still come were pushed out by those that could not.
#[test]
fn a_task_that_is_dropped_runs_no_longer() {
    for is_begun in [false, true] {
        let calls: Vec<_> = (0..32).map(|n| ToolCall::new(format!("c{n}"), "pay", "{}")).collect();
        let model = Scripted::new().says(Message::ai_calls(calls)).says("Well.");
        let model = model.calls("pay", json!({})).says("Well, again.");
        let (memory, talk, may_end, tasks) = talk(model);
        say(&talk, "Pay.");
        let mut dropped = std::mem::take(&mut *tasks.lock().unwrap());
        assert_eq!(dropped.len(), 32);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(Arc::clone(&woken));
        if is_begun {
            let mut context = Context::from_waker(Waker::noop());
            for task in &mut dropped {
                assert!(task.as_mut().poll(&mut context).is_pending());
            }
        }
        {
            let mut finish = Box::pin(talk.finish(Duration::from_secs(1)));
            let mut context = Context::from_waker(&waker);
            assert!(finish.as_mut().poll(&mut context).is_pending());
            drop(dropped);
            assert!(woken.times() > 0, "whoever waits is woken");
            assert_eq!(polled(finish, ALL), Some(32), "each is lost");
        }
        assert_eq!(polled(talk.finish(Duration::from_secs(1)), 1), Some(0), "and counted once");

        say(&talk, "Pay again.");
        may_end.store(true, Ordering::Relaxed);
        run(&tasks);
        assert_eq!(finish(&talk), 0);
        assert_eq!(texts(&memory).last().unwrap(), "paid");
    }
}

/// Counts how often a waker was woken.
#[derive(Default)]
pub(crate) struct Woken(AtomicUsize);

impl Woken {
    pub(crate) fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A stop was checked only when the next piece came: with a stalled body, it never was.
#[test]
fn a_stop_ends_an_async_answer_that_stands_still() {
    let memory = Arc::new(DefaultChatMemory::new());
    let model = |ask: Asking<'static>| async move {
        ask.tell(Event::Text("Half".to_owned()))?;
        pending::<Result<String, ModelError>>().await
    };
    let talk = Conversation::new_async(MemoryPrompt::new_async(Slow(Arc::clone(&memory))), model);
    let (stopper, woken) = (talk.stopper(), Arc::new(Woken::default()));
    let mut said = Box::pin(talk.say("Sing."));
    let waker = Waker::from(Arc::clone(&woken));
    for _ in 0..50 {
        assert!(said.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    }
    assert_eq!(woken.times(), 0);
    stopper.stop();
    assert_eq!(woken.times(), 1, "whoever waits is woken");
    assert_eq!(polled(said, ALL).unwrap().unwrap().ended, Ended::Interrupted);
    assert_eq!(texts(&memory), ["Sing.", "Half"]);
}
