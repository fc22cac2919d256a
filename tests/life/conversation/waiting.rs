//! Async conversations: which callers wait for which, and what is left of a dropped future.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use memory_prompt::conversation::Live;
use memory_prompt::memory::BoxFuture;
use memory_prompt::turn::Done;
use memory_prompt::{AsyncChatMemory, Window};

use super::faults::{Slow, polled, polls};
use super::late_async::Woken;
use super::*;

type Talk = Conversation<dyn AsyncChatMemory>;

/// Answers with the number of messages that it was sent; is silent when asked to be.
async fn model(ask: Asking<'static>) -> Result<String, ModelError> {
    let _ = ask.tell(Event::Text("I was ".to_owned()));
    if ask.prompt().iter().any(|it| it.text() == "silence") {
        return pending().await;
    }
    Ok(format!("I was sent {}", ask.prompt().len()))
}

fn talk() -> (Arc<DefaultChatMemory>, Talk) {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory))).window(Window::all());
    (memory, Conversation::new_async(prompt, model))
}

/// Polls all of them in turn until none waits any more.
fn together<T>(mut futures: Vec<BoxFuture<'_, T>>) -> Vec<T> {
    let mut ready: Vec<Option<T>> = futures.iter().map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..2_000 {
        for (future, place) in futures.iter_mut().zip(&mut ready).filter(|(_, it)| it.is_none()) {
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                *place = Some(value);
            }
        }
    }
    ready.into_iter().map(|it| it.unwrap()).collect()
}

#[test]
fn many_at_once_are_kept_whole() {
    for at_once in [WhenBusy::Proceed, WhenBusy::Wait] {
        let (memory, talk) = talk();
        let talk = talk.when_busy(at_once);
        let say = |i: u32| -> BoxFuture<'_, Result<Done>> { Box::pin(talk.say(i.to_string())) };
        let all = (0..8).map(say);
        let mut said: Vec<_> =
            together(all.collect()).into_iter().map(|it| it.unwrap().text()).collect();
        said.sort();
        said.dedup();
        // Who waits knows those before.
        assert_eq!(said.len(), if at_once == WhenBusy::Wait { 8 } else { 1 });
        let texts = texts(&memory);
        let mut asked: Vec<_> = texts.iter().step_by(2).cloned().collect();
        assert!(texts.iter().skip(1).step_by(2).all(|it| it.starts_with("I was sent")));
        asked.sort();
        assert_eq!(asked, (0..8).map(|i| i.to_string()).collect::<Vec<_>>());
    }
}

/// A browser tab was closed while it waited, and none of those after it was let in.
#[test]
fn who_is_dropped_leaves_the_line() {
    let (_, talk) = talk();
    let talk = talk.when_busy(WhenBusy::Wait);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(talk.say("silence"));
    let mut second = Box::pin(talk.say("never"));
    let mut third = Box::pin(talk.say("hi"));
    for _ in 0..100 {
        assert!(first.as_mut().poll(&mut context).is_pending());
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(third.as_mut().poll(&mut context).is_pending());
    }
    drop(second);
    drop(first);
    assert_eq!(polled(third, 100).unwrap().unwrap().text(), "I was sent 1");
}

/// Each tab that was closed while it waited for more text of the model left its waker there until
/// more came. Nothing is kept of a request that is dropped while it waits for the one before it or
/// for the model, either.
#[test]
fn nothing_is_kept_of_those_who_are_dropped_while_they_wait() {
    let (_, talk) = talk();
    let talk = talk.when_busy(WhenBusy::Wait);
    let (_, silent) = self::talk();
    let live = Live::new();
    let turn = live.begin("ada", "Hi.");
    let mut tab = turn.follow();
    assert_eq!(tab.next().unwrap().name, "question");
    let mut first = Box::pin(talk.say("silence"));
    assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());

    let mut drops = |times: usize| {
        for _ in 0..times {
            let waker = Waker::from(Arc::new(Woken::default()));
            let mut context = Context::from_waker(&waker);
            assert!(pin!(tab.next_async()).poll(&mut context).is_pending());
            assert!(pin!(talk.say("never")).poll(&mut context).is_pending());
            let mut asked = pin!(silent.say("silence"));
            for _ in 0..20 {
                assert!(asked.as_mut().poll(&mut context).is_pending());
            }
        }
    };
    drops(100);
    let cost = allocation_counter::measure(|| drops(10_000));
    assert!(cost.bytes_current < 2_000, "{cost:?}");
    drop(first);
    assert!(polled(talk.say("hi"), 100).unwrap().is_ok());
}

#[test]
fn who_may_not_wait_is_told() {
    let (_, talk) = talk();
    let talk = talk.when_busy(WhenBusy::Fail);
    let mut context = Context::from_waker(Waker::noop());
    let mut first = Box::pin(talk.say("silence"));
    assert!(first.as_mut().poll(&mut context).is_pending());
    let error = polled(talk.say("hi"), 100).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy { since: None });
    drop(first);
    assert!(polled(talk.say("hi"), 100).unwrap().is_ok());
}

/// The temporary messages of a dropped request were lost with it.
#[test]
fn a_future_that_is_dropped_gives_its_temporaries_back() {
    let (memory, talk) = talk();
    talk.add_temporary(Message::user("Today is Friday."));
    assert!(polled(talk.say("silence"), 100).is_none());
    assert_eq!(memory.next_position().unwrap(), 0);
    assert_eq!(polled(talk.say("hi"), 100).unwrap().unwrap().text(), "I was sent 2");
    assert_eq!(polled(talk.say("hi"), 100).unwrap().unwrap().text(), "I was sent 3");
}

/// A service kept its turns to run them again. What it added for the next question was sent with
/// another one.
#[test]
fn a_turn_that_is_kept_is_sent_the_temporaries_that_wait() {
    let (_, talk) = talk();
    let run = |turn: &mut Turn| polled(talk.run(turn, |_| {}), 100);
    let mut kept = Turn::from("silence");
    talk.add_temporary(Message::user("Today is Friday."));
    assert!(run(&mut kept).is_none());
    assert_eq!(kept.into_temporaries(), [Message::user("Today is Friday.")]);

    talk.add_temporary(Message::user("Today is Friday."));
    assert_eq!(run(&mut Turn::from("hi")).unwrap().unwrap().text(), "I was sent 2");
    assert_eq!(polled(talk.say("hi"), 100).unwrap().unwrap().text(), "I was sent 3");

    // A turn that has begun is sent what it was sent before.
    let mut kept = Turn::from("silence");
    assert!(run(&mut kept).is_none());
    talk.add_temporary(Message::user("Today is Friday."));
    assert!(run(&mut kept).is_none());
    assert!(kept.into_temporaries().is_empty());
    assert_eq!(polled(talk.say("hi"), 100).unwrap().unwrap().text(), "I was sent 6");
}

#[test]
fn a_stop_keeps_what_was_said_of_an_async_answer() {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
    let model = |ask: Asking<'static>| async move {
        loop {
            ask.tell(Event::Text("la ".to_owned()))?;
            polls(1).await;
        }
        #[allow(unreachable_code)]
        Ok::<String, ModelError>(String::new())
    };
    let talk = Conversation::new_async(prompt, model);
    let stopper = talk.stopper();
    let mut context = Context::from_waker(Waker::noop());
    let mut said = Box::pin(talk.say("Sing."));
    for _ in 0..50 {
        assert!(said.as_mut().poll(&mut context).is_pending());
    }
    stopper.stop();
    assert_eq!(polled(said, 100).unwrap().unwrap().ended, Ended::Interrupted);
    assert!(texts(&memory).last().unwrap().starts_with("la la "));
}

/// Two calls that wait for each other.
#[test]
fn async_calls_run_at_once_where_they_may() {
    let count = Arc::new(AtomicUsize::new(0));
    let meet = move |(): ()| {
        let met = Arc::clone(&count);
        met.fetch_add(1, Ordering::Relaxed);
        poll_fn(move |_| match met.load(Ordering::Relaxed) {
            2 => Poll::Ready(Ok::<_, ToolError>("met")),
            _ => Poll::Pending,
        })
    };
    let memory = Arc::new(DefaultChatMemory::new());
    let model = Scripted::new().says(called([("c1", "meet"), ("c2", "meet")])).says("Met.");
    let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
    let talk = Conversation::new_async(prompt, model)
        .parallel()
        .tool_async(Tool::new("meet", "Waits for the other one."), meet);
    assert_eq!(polled(talk.say("Meet."), 200).unwrap().unwrap().text(), "Met.");
    assert_eq!(texts(&memory)[3], "met");
}
