//! People at the buttons, clients that repeat requests, processes that die: one decision is one
//! call, and one request has one answer.

use std::collections::BTreeMap;

use memory_prompt::Window;
use memory_prompt::memory::Append;
use memory_prompt::turn::{Ask, Done, Waiting};
use proptest::prelude::*;

use super::either::Either;
use super::*;
use crate::counted::counted;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A client sends this request, for the first time or again.
    Asks(usize),
    /// One of two people looks at what is pending.
    Looks(usize),
    /// The person decides on the call of this number on their page: yes or no.
    Decides(usize, usize, bool),
    /// The next answers of the model fail.
    ModelFails,
    /// The same as `Decides`, but the reply of the memory is lost, and then it can't be read.
    DecidesUnheard(usize, usize, bool),
    /// The process of the next call dies while it runs.
    Dies,
    /// A process gets the second request, and dies in the call next to those that are pending.
    DiesLooking,
    /// Others end what has not ended.
    Recovers,
    /// Somebody adopts what there is and ends it by hand.
    AdoptsAndEnds,
    Loses,
    Fails,
    Unreadable,
    /// Another tab appends this many messages under ids of its own.
    Tab(usize),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        6 => (0usize..3).prop_map(Event::Asks),
        4 => (0usize..2).prop_map(Event::Looks),
        6 => (0usize..2, 0usize..3, any::<bool>()).prop_map(|(a, b, yes)| Event::Decides(a, b, yes)),
        2 => (0usize..2, 0usize..3, any::<bool>())
            .prop_map(|(a, b, yes)| Event::DecidesUnheard(a, b, yes)),
        1 => Just(Event::ModelFails),
        2 => Just(Event::Dies),
        1 => Just(Event::DiesLooking),
        2 => Just(Event::Recovers),
        1 => Just(Event::AdoptsAndEnds),
        2 => Just(Event::Loses),
        1 => Just(Event::Fails),
        1 => Just(Event::Unreadable),
        1 => (1usize..4).prop_map(Event::Tab),
    ];
    proptest::collection::vec(event, 1..30)
}

/// What the tools and the model do, and have done.
#[derive(Default)]
struct Facts {
    calls: usize,
    /// How often each payment has run, by its number.
    ran: BTreeMap<u64, u32>,
    /// Those whose process died before it could report the outcome.
    died: Vec<u64>,
    fails: u32,
}

type Answer = Arc<dyn Fn(&Ask) -> Result<Message, ModelError> + Send + Sync>;

struct World {
    memory: Arc<Odd>,
    facts: Arc<Mutex<Facts>>,
    answer: Answer,
    conversation: Either,
    pages: [Vec<Waiting>; 2],
    /// The requests that were sent.
    asked: Vec<usize>,
    has_lost_a_writer: bool,
}

const QUESTIONS: [&str; 3] = ["Pay one.", "Look and pay three.", "Hi."];

fn tools() -> [Tool; 2] {
    [Tool::new("look", "Looks.").repeatable(), Tool::new("pay", "Pays.").needing_approval()]
}

impl World {
    fn new(is_async: bool) -> Self {
        let memory = Odd::new(DefaultChatMemory::new().limits());
        let facts: Arc<Mutex<Facts>> = Arc::default();
        let answer: Answer = {
            let facts = Arc::clone(&facts);
            Arc::new(move |ask: &Ask| {
                let mut facts = facts.lock().unwrap();
                if facts.fails > 0 {
                    facts.fails -= 1;
                    return Err("overloaded".into());
                }
                let question =
                    ask.prompt().iter().filter(|it| QUESTIONS.contains(&&*it.text())).last();
                let question = question.map(|it| it.text().into_owned());
                let times = match question.as_deref() {
                    Some("Pay one.") if ask.round() == 0 && !has_result(ask) => 1,
                    Some("Look and pay three.") if ask.round() == 0 && !has_result(ask) => 3,
                    _ => return Ok(Message::ai("Done.")),
                };
                let look = (times > 1).then(|| ToolCall::new("look", "look", "{}"));
                Ok(Message::ai_calls(look.into_iter().chain((0..times).map(|_| {
                    facts.calls += 1;
                    let n = facts.calls;
                    ToolCall::new(format!("c{n}"), "pay", json!({"n": n}).to_string())
                }))))
            })
        };
        let asked = Arc::clone(&answer);
        let pay = {
            let facts = Arc::clone(&facts);
            move |arguments: serde_json::Value| {
                let n = arguments["n"].as_u64().unwrap();
                let mut facts = facts.lock().unwrap();
                *facts.ran.entry(n).or_default() += 1;
                Ok(format!("paid {n}"))
            }
        };
        let [look, tool] = tools();
        let conversation = Either::by(is_async, &memory, move |ask| Ok(answer(ask)?.into()))
            .tool(look, |_| Ok("seen".to_owned()))
            .tool(tool, pay);
        let (pages, answer) = ([Vec::new(), Vec::new()], asked);
        let asked = Vec::new();
        Self { memory, facts, answer, conversation, pages, asked, has_lost_a_writer: false }
    }

    fn prompt(&self) -> MemoryPrompt {
        MemoryPrompt::new(Arc::clone(&self.memory)).window(Window::all())
    }

    fn ask(&self, request: usize) -> Result<Done> {
        let turn = Turn::from(QUESTIONS[request]).with_id(format!("request {request}"));
        self.conversation.say(turn)
    }

    fn happen(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Asks(request) => {
                self.asked.push(request);
                self.answered(request)?;
            }
            Event::Looks(person) => {
                if let Ok(waiting) = self.prompt().waiting() {
                    self.pages[person] = waiting;
                }
            }
            Event::Decides(person, call, yes) => self.decide(person, call, yes)?,
            Event::DecidesUnheard(person, call, yes) if call < self.pages[person].len() => {
                self.memory.loses.store(true, Ordering::Relaxed);
                let memory = Arc::clone(&self.memory);
                self.memory
                    .meanwhile(true, move || memory.is_unreadable.store(true, Ordering::Relaxed));
                self.decide(person, call, yes)?;
                self.memory.meanwhile(true, || ());
            }
            Event::DecidesUnheard(..) => {}
            Event::ModelFails => self.facts.lock().unwrap().fails += 1,
            Event::Dies => self.die(),
            Event::DiesLooking => self.die_looking(),
            Event::Recovers => _ = self.conversation.recover(Duration::ZERO),
            Event::AdoptsAndEnds => {
                let prompt = self.prompt();
                for unfinished in prompt.unfinished().unwrap_or_default() {
                    let Ok(mut turn) = prompt.adopt(&unfinished) else { continue };
                    turn.interrupt(OnInterrupt::Keep);
                    let _ = turn.next(&prompt);
                }
            }
            Event::Loses => self.memory.loses.store(true, Ordering::Relaxed),
            Event::Fails => self.memory.fails.store(true, Ordering::Relaxed),
            Event::Unreadable => self.memory.is_unreadable.store(true, Ordering::Relaxed),
            Event::Tab(n) => {
                for i in 0..n {
                    let append = Append::new([Message::ai("tab")]);
                    let _ = self.memory.append_with(&mut append.with_id(format!("tab {i} of {n}")));
                }
            }
        }
        Ok(())
    }

    /// Returns whether this call is pending, according to the memory.
    fn waits(&self, call: &Waiting) -> bool {
        let is_unreadable = self.memory.is_unreadable.swap(false, Ordering::Relaxed);
        let waiting = self.prompt().waiting().unwrap();
        self.memory.is_unreadable.store(is_unreadable, Ordering::Relaxed);
        waiting.iter().any(|it| (&it.turn, &it.call) == (&call.turn, &call.call))
    }

    /// A person decides. If the error says that nothing has changed, nothing has.
    fn decide(&mut self, person: usize, call: usize, yes: bool) -> Result<(), TestCaseError> {
        let Some(waiting) = self.pages[person].get(call).cloned() else { return Ok(()) };
        let waited = self.waits(&waiting);
        if let Err(error) = self.conversation.decide(&waiting, yes)
            && error.kind() == ErrorKind::Storage
            && error.remains().is_none()
        {
            prop_assert_eq!(self.waits(&waiting), waited, "{:?}", error);
        }
        Ok(())
    }

    /// A process gets the second request, and dies in its look-up.
    fn die_looking(&mut self) {
        let prompt = self.prompt();
        let mut turn = Turn::from(QUESTIONS[1]).with_id("request 1").tools(tools());
        self.asked.push(1);
        let Ok(Next::Ask(ask)) = turn.next(&prompt) else { return };
        let Ok(answer) = (self.answer)(&ask) else { return };
        turn.answer(answer).unwrap();
        let _ = turn.next(&prompt);
    }

    /// Somebody approves the first pending call, and their process dies after it has paid.
    fn die(&mut self) {
        let prompt = self.prompt();
        let waiting = prompt.unfinished().unwrap_or_default().into_iter();
        let Some(unfinished) = waiting.into_iter().find(|it| !it.waiting().is_empty()) else {
            return;
        };
        let Ok(mut turn) = prompt.adopt(&unfinished) else { return };
        let call = unfinished.waiting().remove(0);
        turn.approve(&call.call).unwrap();
        let Ok(Next::Call(calls)) = turn.next(&prompt) else { return };
        let Some(call) = calls.iter().find(|it| it.id() == call.call) else { return };
        if call.may_have_run() || call.needs_approval() {
            return;
        }
        let n = call.parse::<serde_json::Value>().unwrap()["n"].as_u64().unwrap();
        let mut facts = self.facts.lock().unwrap();
        *facts.ran.entry(n).or_default() += 1;
        facts.died.push(n);
    }

    /// A client gets the stored answer or a named state, never an empty answer.
    fn answered(&self, request: usize) -> Result<(), TestCaseError> {
        match self.ask(request) {
            Ok(done) if done.ended == Ended::Parked => prop_assert!(!done.waiting().is_empty()),
            Ok(done) => prop_assert!(!done.text().is_empty(), "{done:?} of {request}"),
            Err(error) => {
                let is_named = matches!(
                    error.kind(),
                    ErrorKind::Busy { .. }
                        | ErrorKind::Model
                        | ErrorKind::Storage
                        | ErrorKind::Unacknowledged
                        | ErrorKind::Adopted
                );
                prop_assert!(is_named, "{error:?}");
            }
        }
        Ok(())
    }

    fn settle(&mut self) -> Result<(), TestCaseError> {
        for wrong in [&self.memory.loses, &self.memory.fails, &self.memory.is_unreadable] {
            wrong.store(false, Ordering::Relaxed);
        }
        self.facts.lock().unwrap().fails = 0;
        for _ in 0..10 {
            self.conversation.recover(Duration::ZERO).unwrap();
            for waiting in self.prompt().waiting().unwrap() {
                let _ = self.conversation.decide(&waiting, true);
            }
        }
        prop_assert!(self.prompt().unfinished().unwrap().is_empty());
        for request in self.asked.clone() {
            let mut done = self.ask(request).unwrap();
            for _ in 0..4 {
                let Some(waiting) = done.waiting().first().cloned() else { break };
                done = self.conversation.decide(&waiting, true).unwrap();
            }
            prop_assert!(!done.text().is_empty(), "{done:?} of {request}");
            let again = self.ask(request).unwrap();
            prop_assert_eq!(again.ended, Ended::Adopted);
            prop_assert_eq!((again.text(), again.positions), (done.text(), done.positions));
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let stored = self.memory.messages().unwrap();
        let shown: Vec<_> =
            stored.iter().map(|it| format!("{} {}", it.role(), it.text())).collect();
        for question in QUESTIONS {
            let times = stored.iter().filter(|it| it.text() == question).count();
            prop_assert!(times <= 1, "{question} {times} times: {shown:#?}");
        }
        let facts = self.facts.lock().unwrap();
        let sent = self.prompt().preview().unwrap().to_messages();
        for (n, times) in &facts.ran {
            prop_assert_eq!(*times, 1, "{} ran twice", n);
            let arguments = format!("{{\"n\":{n}}}");
            let call =
                sent.iter().flat_map(Message::tool_calls).find(|it| it.arguments == arguments);
            prop_assert!(call.is_some(), "{n} is nowhere: {shown:#?}");
            let call = call.unwrap();
            let mut results = sent.iter().filter_map(Message::as_tool);
            let result = results.find(|it| it.call_id() == call.id).unwrap();
            let text = result.content().text();
            let is_true = text == format!("paid {n}");
            let is_unknown = text.contains("not known") && facts.died.contains(n);
            prop_assert!(
                is_true || is_unknown || self.has_lost_a_writer,
                "{n}: {text}: {shown:#?}"
            );
        }
        Ok(())
    }
}

fn has_result(ask: &Ask) -> bool {
    ask.prompt().iter().last().is_some_and(|it| it.as_tool().is_some())
}

counted! {
    #![cases(1_000)]

    #[test]
    fn whoever_decides_and_asks_again_one_call_runs_once_and_one_request_has_one_answer(
        events in events(), is_async in any::<bool>(),
    ) {
        let mut world = World::new(is_async);
        for event in events {
            world.happen(event)?;
        }
        world.settle()?;
        world.check()?;
    }
}
