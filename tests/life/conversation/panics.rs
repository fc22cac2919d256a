//! Panics of anything that a conversation is given: what has happened is kept, and the next turn
//! works.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::AtomicBool;

use super::*;

/// Something that panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    /// The model, before it has said anything.
    Model,
    /// The model, after a booking.
    LaterModel,
    /// The approver.
    Approver,
    /// The receiver of a piece of a streamed answer.
    Piece,
    /// The receiver of the end of one.
    End,
}

const PLACES: [Place; 5] =
    [Place::Model, Place::LaterModel, Place::Approver, Place::Piece, Place::End];

const AT_ONCE: [WhenBusy; 3] = [WhenBusy::Wait, WhenBusy::Fail, WhenBusy::Proceed];

/// Panics once, without output on the terminal.
struct Once(Place, AtomicBool);

impl Once {
    fn at(&self, place: Place) {
        if place == self.0 && !self.1.swap(true, Ordering::Relaxed) {
            resume_unwind(Box::new("its own"));
        }
    }

    /// Books, pays if that is approved, and answers. It streams a piece of the answer only if that
    /// is to panic.
    fn reply(&self, ask: &Asking<'_>) -> Result<Reply, ModelError> {
        let call = |tool: &str| Message::ai_calls([ToolCall::new(tool, tool, "{}")]);
        self.at(Place::Model);
        if ask.prompt().iter().any(|it| it.text() == "Hi.") {
            return Ok("Hello.".into());
        }
        Ok(match ask.round() {
            0 => call("book").into(),
            1 => {
                self.at(Place::LaterModel);
                call("pay").into()
            }
            _ => {
                if self.0 == Place::Piece {
                    ask.tell(Event::Text("Do".into()))?;
                }
                "Done.".into()
            }
        })
    }

    fn hears(&self, event: &Event) {
        match event {
            Event::Text(text) if text == "Do" => self.at(Place::Piece),
            Event::Done(Stop::End) => self.at(Place::End),
            _ => {}
        }
    }

    fn approves(&self) -> Approval {
        self.at(Place::Approver);
        Approval::Yes
    }

    /// What is stored of the turn that panicked.
    fn stored(&self) -> &'static [&'static str] {
        match self.0 {
            Place::Model => &[],
            Place::LaterModel => &["Book and pay.", "", "nothing"],
            Place::Approver => {
                &["Book and pay.", "", "nothing", "", "Not run: the turn was interrupted."]
            }
            Place::Piece => &["Book and pay.", "", "nothing", "", "nothing"],
            Place::End => &["Book and pay.", "", "nothing", "", "nothing", "Done."],
        }
    }
}

fn tools() -> [Tool; 2] {
    [Tool::new("book", "Books."), Tool::new("pay", "Pays.").needing_approval()]
}

fn once(place: Place) -> Arc<Once> {
    Arc::new(Once(place, AtomicBool::new(false)))
}

/// A model panicked after a booking, and the turn was left in its slot as if its process had died.
/// An answer that was paid for was lost if the code that showed it panicked.
#[test]
fn what_happened_before_a_panic_is_stored() {
    for (place, at_once) in PLACES.into_iter().zip(AT_ONCE.into_iter().cycle()) {
        let (memory, prompt) = shared();
        let once = once(place);
        let (model, approver) = (Arc::clone(&once), Arc::clone(&once));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let lengths = Arc::clone(&asked);
        let model = move |ask: &Asking<'_>| {
            lengths.lock().unwrap().push(ask.prompt().len());
            model.reply(ask)
        };
        let [book, pay] = tools();
        let conversation = Conversation::new(prompt, model)
            .when_busy(at_once)
            .approve_by(move |_| approver.approves())
            .tool(book, nothing)
            .tool(pay, nothing);
        conversation.add_temporary(Message::user("Today is Friday."));
        let talk = || conversation.stream("Book and pay.", |event| once.hears(&event));
        assert!(catch_unwind(AssertUnwindSafe(talk)).is_err(), "{place:?} is told to the caller");
        assert_eq!(texts(&memory), once.stored(), "{place:?}");
        assert!(conversation.prompt().unfinished().unwrap().is_empty(), "{place:?}");
        assert_eq!(conversation.say("Hi.").unwrap().text(), "Hello.", "{place:?}");
        let sent = asked.lock().unwrap().pop().unwrap();
        assert_eq!(sent, once.stored().len() + 1 + usize::from(place == Place::Model), "{place:?}");
    }
}

/// The same over an async memory.
#[cfg(feature = "async")]
#[test]
fn what_happened_before_a_panic_is_stored_in_async_code() {
    use crate::conversation::faults::{Slow, polled};

    for (place, at_once) in PLACES.into_iter().zip(AT_ONCE.into_iter().cycle()) {
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory))).max_messages(100);
        let once = once(place);
        let (model, approver, listener) = (Arc::clone(&once), Arc::clone(&once), Arc::clone(&once));
        let model = move |ask: Asking<'static>| {
            let model = Arc::clone(&model);
            async move { model.reply(&ask) }
        };
        let [book, pay] = tools();
        let conversation = Conversation::new_async(prompt, model)
            .when_busy(at_once)
            .approve_by(move |_| approver.approves())
            .tool(book, nothing)
            .tool(pay, nothing);
        let talk =
            || polled(conversation.stream("Book and pay.", move |it| listener.hears(&it)), 500);
        assert!(catch_unwind(AssertUnwindSafe(talk)).is_err(), "{place:?} is told to the caller");
        assert_eq!(texts(&memory), once.stored(), "{place:?}");
        assert!(memory.slots().unwrap().is_empty(), "{place:?}");
        assert_eq!(polled(conversation.say("Hi."), 500).unwrap().unwrap().text(), "Hello.");
    }
}

/// A payment took too long, and then the model panicked. The result of the payment was thrown away.
#[test]
fn a_late_result_outlives_a_panic() {
    let (memory, prompt) = shared();
    let (pay, go) = held();
    let once = once(Place::LaterModel);
    let model = move |ask: &Asking<'_>| once.reply(ask);
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("book", "Books."), pay)
        .call_timeout(Duration::from_millis(5));
    assert!(catch_unwind(AssertUnwindSafe(|| conversation.say("Book and pay."))).is_err());
    go.send(()).unwrap();
    assert_eq!(conversation.finish(LONG), 0);
    assert_eq!(texts(&memory).last().unwrap(), "paid");
}

fn panics(_: serde_json::Value) -> Result<&'static str, ToolError> {
    resume_unwind(Box::new("the tool's own"))
}

fn script() -> Scripted {
    let calls = called([("c1", "panic"), ("c2", "book")]);
    Scripted::new().says(calls).calls("panic", json!({})).says("Oh.")
}

const PANICKED: &str = "the tool panicked; nobody knows how far it came";
const TOLD: [&str; 7] = ["Go.", "", PANICKED, "nothing", "", PANICKED, "Oh."];

/// A tool that panics has failed, on whatever thread it runs.
#[test]
fn a_tool_that_panics_is_told_to_the_model() {
    for (is_timed, is_parallel) in [(false, false), (true, false), (false, true), (true, true)] {
        let (memory, prompt) = shared();
        let mut conversation = Conversation::new(prompt, script())
            .when_busy(WhenBusy::Fail)
            .tool(Tool::new("panic", "Panics."), panics)
            .tool(Tool::new("book", "Books."), nothing);
        if is_timed {
            conversation = conversation.call_timeout(LONG);
        }
        if is_parallel {
            conversation = conversation.parallel();
        }
        assert_eq!(conversation.say("Go.").unwrap().text(), "Oh.");
        assert_eq!(texts(&memory), TOLD);
        assert_eq!(conversation.finish(Duration::ZERO), 0);
    }
}

/// The same over an async memory: when it is called, and when it is awaited.
#[cfg(feature = "async")]
#[test]
fn an_async_tool_that_panics_is_told_to_the_model() {
    use crate::conversation::faults::{Slow, polled};

    for (is_late, is_parallel) in [(false, false), (true, false), (false, true), (true, true)] {
        let memory = Arc::new(DefaultChatMemory::new());
        let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
        let tool = Tool::new("panic", "Panics.");
        let mut conversation = Conversation::new_async(prompt, script()).when_busy(WhenBusy::Fail);
        conversation = if is_late {
            conversation.tool_async(tool, |it| async move { panics(it) })
        } else {
            conversation.tool(tool, panics)
        };
        conversation = conversation.tool(Tool::new("book", "Books."), nothing);
        if is_parallel {
            conversation = conversation.parallel();
        }
        assert_eq!(polled(conversation.say("Go."), 500).unwrap().unwrap().text(), "Oh.");
        assert_eq!(texts(&memory), TOLD);
    }
}
