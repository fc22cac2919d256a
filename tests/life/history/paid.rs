//! A seat is booked once for each question, whatever people do with its answers: by a model that
//! books unless its prompt says that it was done.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use memory_prompt::conversation::{Action, Asking, ModelError};
use memory_prompt::history::Entry;
use memory_prompt::message::AiMessage;
use memory_prompt::turn::Reply;
use memory_prompt::{
    Conversation, DefaultChatMemory, MemoryPrompt, Message, Tool, ToolCall, Window,
};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::counted::counted;

#[derive(Clone, Debug)]
enum Op {
    Say,
    /// The newest request comes once more under its id.
    Again,
    /// The newest seat is asked for by a new request.
    Same,
    Regenerate,
    /// Other words for one of the questions.
    Edit(usize),
    Undo,
    Redo,
    /// Another variant of one of the messages.
    Switch(usize, usize),
    /// Decides on one of the calls that wait.
    Decide(usize, bool),
    Restart,
}

/// What somebody does, whether the model fails when it is asked the next time but one, and what is
/// done in another tab while the tool runs.
type Step = (Op, bool, Vec<Op>);

fn step() -> impl Strategy<Value = Step> {
    let during = prop_oneof![3 => Just(Vec::new()), 1 => vec(op(), 1..4)];
    (op(), proptest::bool::weighted(0.2), during)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => Just(Op::Say),
        2 => Just(Op::Again),
        4 => Just(Op::Regenerate),
        3 => any::<usize>().prop_map(Op::Edit),
        2 => Just(Op::Undo),
        2 => Just(Op::Redo),
        2 => (any::<usize>(), any::<usize>()).prop_map(|(at, to)| Op::Switch(at, to)),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(at, yes)| Op::Decide(at, yes)),
        1 => Just(Op::Restart),
    ]
}

/// How often each seat was booked.
type Booked = Arc<Mutex<BTreeMap<u64, usize>>>;

/// The number of the seat, if it is a question.
fn question(message: &Message) -> Option<u64> {
    let text = message.is_user().then(|| message.text())?;
    text.strip_prefix("Book seat ")?.split(['.', ',']).next()?.parse().ok()
}

#[derive(Clone, Default)]
struct Life {
    memory: Arc<DefaultChatMemory>,
    booked: Booked,
    /// How many more answers there are before one fails; none fails at 0.
    fails: Arc<AtomicUsize>,
    during: Arc<Mutex<Vec<Op>>>,
    asks_people: bool,
    /// The number of the newest question, and of the newest request.
    asked: u64,
    newest: Option<Action>,
    requests: usize,
}

impl Life {
    fn conversation(&self) -> Conversation {
        let fails = Arc::clone(&self.fails);
        let model = move |ask: &Asking<'_>| -> Result<Reply, ModelError> {
            if fails.load(Ordering::Relaxed) > 0 && fails.fetch_sub(1, Ordering::Relaxed) == 1 {
                return Err("overloaded".into());
            }
            let seat = ask.prompt().iter().filter_map(question).last().expect("a question");
            let arguments = json!({"seat": seat}).to_string();
            let said = format!("seat {seat} is");
            let is_told = |message: &Message| {
                let called = |call: &ToolCall| call.arguments == arguments;
                message.as_ai().is_some_and(|it| it.tool_calls().any(called))
                    || message.text().contains(&arguments)
                    || message.text().contains(&said)
            };
            if ask.prompt().iter().any(is_told) {
                return Ok(AiMessage::new(format!("{said} booked")).into());
            }
            let call = ToolCall::new(format!("c{seat}"), "book", arguments);
            Ok(AiMessage::from_parts([call]).into())
        };
        let prompt = MemoryPrompt::new(Arc::clone(&self.memory)).window(Window::all());
        let tool = Tool::new("book", "Books a seat.");
        let tool = if self.asks_people { tool.needing_approval() } else { tool };
        let (asked, requests) = (self.asked + 1_000, self.requests + 1_000);
        let tab = Self { asked, requests, newest: None, ..self.clone() };
        Conversation::new(prompt.with_branches(), model).tool(tool, move |input: Value| {
            let seat = input["seat"].as_u64().expect("a number");
            *tab.booked.lock().unwrap().entry(seat).or_default() += 1;
            let during = std::mem::take(&mut *tab.during.lock().unwrap());
            if !during.is_empty() {
                let (mut tab, conversation) = (tab.clone(), tab.conversation());
                for op in &during {
                    tab.apply(op, &conversation);
                }
            }
            Ok(format!("seat {seat} is booked"))
        })
    }

    /// Does what a page asks for, under the number of the newest request.
    fn send(&self, conversation: &Conversation) {
        let Some(action) = self.newest.clone() else { return };
        if let Ok(Some(turn)) = conversation.act(action) {
            let _ = conversation.say(turn.with_id(format!("request {}", self.requests)));
        }
    }

    fn ask(&mut self, action: Action, conversation: &Conversation) {
        (self.newest, self.requests) = (Some(action), self.requests + 1);
        self.send(conversation);
    }

    /// Errors are what they are: a model that failed, nothing to undo, a place that is not there.
    fn apply(&mut self, op: &Op, conversation: &Conversation) {
        let page = || conversation.page(None, usize::MAX).unwrap();
        match op {
            Op::Say => {
                self.asked += 1;
                self.ask(Action::Say(format!("Book seat {}.", self.asked)), conversation);
            }
            Op::Again => self.send(conversation),
            Op::Same => {
                self.ask(Action::Say(format!("Book seat {}.", self.asked)), conversation);
            }
            Op::Regenerate => self.ask(Action::Regenerate, conversation),
            Op::Edit(at) => {
                let page = page();
                let asked = |it: &Entry| Some((it.position, question(&it.message)?));
                let questions: Vec<_> = page.entries.iter().filter_map(asked).collect();
                if let Some((position, seat)) = questions.get(at % questions.len().max(1)) {
                    let text = format!("Book seat {seat}, please.");
                    self.ask(Action::Edit(*position, text), conversation);
                }
            }
            Op::Undo => drop(conversation.undo()),
            Op::Redo => drop(conversation.redo()),
            Op::Switch(at, to) => {
                let page = page();
                let varied: Vec<_> =
                    page.entries.iter().filter(|it| !it.branches.is_empty()).collect();
                if let Some(entry) = varied.get(at % varied.len().max(1)) {
                    let _ = conversation.switch(entry.branches[to % entry.branches.len()]);
                }
            }
            Op::Decide(at, yes) => {
                let waiting = conversation.waiting().unwrap();
                match waiting.get(at % waiting.len().max(1)) {
                    None => {}
                    Some(call) if *yes => drop(conversation.approve(call)),
                    Some(call) => drop(conversation.refuse(call, "Not now.")),
                }
            }
            Op::Restart => {}
        }
    }
}

fn live(asks_people: bool, steps: &[Step]) -> Booked {
    let mut life = Life { asks_people, ..Life::default() };
    let mut conversation = life.conversation();
    for (op, fails, during) in steps {
        if matches!(op, Op::Restart) {
            conversation = life.conversation();
        }
        life.fails.store(if *fails { 2 } else { 0 }, Ordering::Relaxed);
        life.during.lock().unwrap().clone_from(during);
        life.apply(op, &conversation);
        let booked = life.booked.lock().unwrap();
        assert!(booked.values().all(|times| *times == 1), "{op:?}: {booked:?}");
    }
    life.booked
}

fn booked(asks_people: bool, ops: &[(Op, bool)]) -> Vec<u64> {
    let steps: Vec<Step> = ops.iter().map(|(op, fails)| (op.clone(), *fails, Vec::new())).collect();
    live(asks_people, &steps).lock().unwrap().keys().copied().collect()
}

#[test]
fn a_seat_is_booked_and_its_answer_made_anew() {
    let (edit, yes) = (Op::Edit(0), Op::Decide(0, true));
    let mut ops = vec![(Op::Say, true), (Op::Regenerate, false), (edit, false), (Op::Undo, false)];
    ops.extend([(Op::Undo, false), (Op::Again, false), (Op::Say, false)]);
    assert_eq!(booked(false, &ops), [1, 2]);
    let ops = [(Op::Say, true), (yes.clone(), false), (Op::Regenerate, false), (yes, false)];
    assert_eq!(booked(true, &ops), [1]);
}

/// A call waited for a person in an answer that was made anew, in an edit, or on the branch that an
/// edit left. The model of the next question was not told of it, so there were two buttons, and
/// each of them booked. So it was if a booking was undone, and asked for again.
#[test]
fn calls_of_other_branches_are_told() {
    let (yes, no, edit) = (Op::Decide(0, true), Op::Decide(0, false), Op::Edit(0));
    for (seats, ops) in [
        (&[1][..], vec![Op::Say, no.clone(), Op::Regenerate, Op::Regenerate]),
        (&[1], vec![Op::Say, no.clone(), edit.clone(), Op::Same]),
        (&[2], vec![Op::Say, no.clone(), Op::Say, Op::Same, Op::Regenerate]),
        (&[1, 2], vec![Op::Say, no, Op::Say, edit, Op::Same]),
        (&[1], vec![Op::Say, yes.clone(), Op::Undo, Op::Same]),
        (&[1], vec![Op::Say, yes.clone(), Op::Regenerate, Op::Undo, Op::Undo, Op::Same]),
    ] {
        let decided = ops.iter().cloned().chain([yes.clone(), yes.clone()]);
        let ops: Vec<_> = decided.map(|op| (op, false)).collect();
        assert_eq!(booked(true, &ops), seats, "{ops:?}");
    }
}

counted! {
    #![cases(2_000)]

    #[test]
    fn whatever_becomes_of_its_answers_a_seat_is_booked_once(
        asks_people in any::<bool>(),
        steps in vec(step(), 1..16),
    ) {
        live(asks_people, &steps);
    }
}
