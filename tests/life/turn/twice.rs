//! One turn with two owners: its checkpoint was written, and another owner has ended it since.

use std::collections::BTreeSet;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32};

use memory_prompt::Error;
use memory_prompt::conversation::{Conversation, Scripted};
use memory_prompt::error::Remains;
use memory_prompt::message::ToolMessage;

use super::*;
use crate::inside::inside;

fn answer(turn: &mut Turn, prompt: &MemoryPrompt) {
    ask(turn, prompt);
    turn.answer("Booked.").unwrap();
}

/// The reply to the checkpoint before a payment was lost. Somebody else adopted the turn and ended
/// it, and then the first owner paid again and stored the question a second time.
#[test]
fn a_turn_whose_note_was_written_unseen_is_not_begun_once_more() {
    for (goes_on, adopter_runs) in [(true, true), (true, false), (false, true), (false, false)] {
        let (memory, mut prompt) = odd();
        let mut first = booking(&mut prompt);
        unheard(&memory, &mut first, &prompt);

        let mut second = adopted(&prompt);
        assert_eq!(first.next(&prompt).unwrap_err().kind(), ErrorKind::Adopted);
        if adopter_runs {
            assert!(call(&mut second, &prompt)[0].may_have_run());
            second.result("c1", ok("ref 7XK")).unwrap();
            answer(&mut second, &prompt);
        } else {
            second.interrupt(OnInterrupt::Keep);
        }
        let stored = done(&mut second, &prompt).positions.end;
        if !goes_on {
            first.interrupt(OnInterrupt::Keep);
        }
        let ended = done(&mut first, &prompt);
        assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..stored));
        assert_eq!(memory.next_position().unwrap(), stored);
        assert!(prompt.unfinished().unwrap().is_empty());
    }
}

/// The reply to the checkpoint before a payment was lost, somebody else adopted the turn, and the
/// first owner gave up. It read that nothing is stored, so it asked the same question again.
#[test]
fn a_turn_that_somebody_else_has_is_not_said_to_be_forgotten() {
    for (has_ended, sees_it) in [(true, true), (true, false), (false, true), (false, false)] {
        let (memory, mut prompt) = odd();
        let mut first = booking(&mut prompt);
        unheard(&memory, &mut first, &prompt);
        first.interrupt(OnInterrupt::Forget);

        let adopt = move |memory: &Arc<Odd>| {
            let prompt = MemoryPrompt::new(Arc::clone(memory));
            let mut second = adopted(&prompt);
            if has_ended {
                second.interrupt(OnInterrupt::Keep);
                assert_eq!(done(&mut second, &prompt).positions, 0..3);
            }
        };
        if sees_it {
            adopt(&memory);
        } else {
            // It is adopted only after the first owner has seen its own note.
            let others = Arc::clone(&memory);
            memory.meanwhile(false, move || adopt(&others));
        }
        match first.next(&prompt) {
            Ok(Next::Done(ended)) if has_ended => assert_eq!(ended.ended, Ended::Adopted),
            Err(error) if !has_ended => assert_eq!(error.kind(), ErrorKind::Adopted),
            other => panic!("{other:?}"),
        }
    }
}

/// A turn was abandoned while its first checkpoint was still on its way. The checkpoint arrived
/// after that, and a booking of a turn without an owner was under way forever.
#[test]
fn a_note_that_comes_behind_the_end_of_a_forgotten_turn_is_not_written() {
    let (memory, mut prompt) = odd();
    let mut turn = booking(&mut prompt);
    memory.delays.store(true, Ordering::Relaxed);
    assert_eq!(turn.next(&prompt).unwrap_err().kind(), ErrorKind::Unacknowledged);
    turn.interrupt(OnInterrupt::Forget);
    assert_eq!(done(&mut turn, &prompt).ended, Ended::Interrupted);
    let mut note = memory.on_its_way.lock().unwrap().take().unwrap();
    assert!(memory.append_with(&mut note).unwrap().repeated);
    assert!(prompt.unfinished().unwrap().is_empty());
    assert_eq!(memory.next_position().unwrap(), 0);
}

/// The result of a call was delivered twice, as queues do. The second time it was taken for the
/// result of another call, to which the model had given the same id.
#[test]
fn a_result_that_comes_twice_is_that_of_one_call() {
    let (_, mut prompt) = shared();
    let mut turn = calling(&mut prompt, "Book both.", [("1", "book"), ("1", "book")]);
    runs(&mut turn, &prompt, "1", "Booked.");
    assert_eq!(turn.result("1", ok("Booked.")).unwrap_err().kind(), ErrorKind::Invalid);
    turn.result("1_2", ok("Booked too.")).unwrap();
    // Nor is it that of a call in a later answer.
    ask(&mut turn, &prompt);
    turn.answer(calls([("1", "book")])).unwrap();
    let newest = call(&mut turn, &prompt)[0].id().to_owned();
    assert_eq!(turn.result("1", ok("Booked.")).unwrap_err().kind(), ErrorKind::Invalid);
    turn.result(&newest, ok("Booked three.")).unwrap();
}

/// A worker got a copy of a turn that was serialised before its payment was handed out. It started
/// after the first owner had paid and stored, and paid again.
#[test]
fn a_copy_from_before_the_first_call_runs_nothing_once_the_turn_has_ended() {
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt);
    let queue = serde_json::to_string(&first).unwrap();
    runs(&mut first, &prompt, "c1", "ref 7XK");
    assert_eq!(answered(&mut first, &prompt, "Booked.").positions, 0..4);

    let mut second = serde_json::from_str::<Turn>(&queue).unwrap().tools(tools());
    let ended = done(&mut second, &prompt);
    assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..4));
    assert_eq!(memory.next_position().unwrap(), 4);
}

/// A request came a second time while a tool of the first ran. Its answer could not be stored, and
/// at the second try the turn took the checkpoint of the first for its own append: it reported that
/// it had answered, but nothing was stored.
#[test]
fn a_note_of_the_first_request_is_not_the_second_one() {
    let (memory, prompt) = odd();
    let request = || Turn::from("Book.").with_id("request 9").tools(tools());
    let mut first = wants(request(), &prompt, [("c1", "book")]);
    let mut second = request();
    ask(&mut second, &prompt);
    call(&mut first, &prompt);
    second.answer("I can't book.").unwrap();
    memory.fails.store(true, Ordering::Relaxed);
    assert_eq!(second.next(&prompt).unwrap_err().kind(), ErrorKind::Storage);
    let error = second.next(&prompt).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Busy { since: Some(_) }), "{error:?}");
    assert_eq!(memory.next_position().unwrap(), 0);
}

/// A client sent its request a second time, with the same id, and each time the booking was made.
#[test]
fn a_request_that_comes_twice_books_once() {
    for fails_behind_the_tool in [true, false] {
        let (memory, mut prompt) = shared();
        let mut first = booking(&mut prompt).with_id("request 9");
        runs(&mut first, &prompt, "c1", "ref 7XK");
        if fails_behind_the_tool {
            first.interrupt(OnInterrupt::Keep);
        } else {
            answer(&mut first, &prompt);
        }
        assert_eq!(done(&mut first, &prompt).positions.start, 0);
        let mut again = booking(&mut prompt).with_id("request 9");
        if fails_behind_the_tool {
            // It goes on behind the booking that is stored.
            assert_eq!(ask(&mut again, &prompt).prompt().iter().last().unwrap().text(), "ref 7XK");
            again.answer("Booked.").unwrap();
            let ended = done(&mut again, &prompt);
            assert_eq!((ended.ended, ended.positions), (Ended::Answered, 3..4));
        }
        let mut again = booking(&mut prompt).with_id("request 9");
        let ended = done(&mut again, &prompt);
        let stored = if fails_behind_the_tool { 3..4 } else { 0..4 };
        assert_eq!((ended.ended, ended.text().as_str()), (Ended::Adopted, "Booked."));
        assert_eq!(ended.positions, stored);
        assert_eq!(memory.next_position().unwrap(), 4);
        assert!(prompt.unfinished().unwrap().is_empty());
    }
    // While the first one waits, the second says so and touches nothing of it.
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt).with_id("request 9");
    call(&mut first, &prompt);
    let mut again = booking(&mut prompt).with_id("request 9");
    let error = again.next(&prompt).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Busy { since: Some(_) }), "{error:?}");
    first.result("c1", ok("ref 7XK")).unwrap();
    assert_eq!(answered(&mut first, &prompt, "Booked.").positions, 0..4);
    assert_eq!(memory.next_position().unwrap(), 4);
}

/// The id of a request was a few bytes longer than the memory takes. A booking was made, and could
/// not be stored. If requests had no id, each one was taken for the first.
#[test]
fn an_id_that_is_none_is_refused_before_anything_happens() {
    for (size, is_good) in [(0, false), (1, true), (246, true), (247, false), (300, false)] {
        let (_, prompt) = shared();
        let mut turn = Turn::from("Book.").with_id("x".repeat(size)).tools(tools());
        if is_good {
            turn = wants(turn, &prompt, [("c1", "book")]);
            call(&mut turn, &prompt);
            turn.interrupt(OnInterrupt::Keep);
            assert_eq!(done(&mut turn, &prompt).positions, 0..3);
        } else {
            let error = turn.next(&prompt).unwrap_err();
            let text = "turn: the id of a turn has 1 to 246 bytes and no control characters";
            assert_eq!((error.kind(), error.to_string()), (ErrorKind::Invalid, text.into()));
        }
    }
}

/// A client that had lost its answer sent its request again. The model was asked and paid for
/// again, the client was shown another answer than the stored one, and if a tool had run it got no
/// positions.
#[test]
fn a_request_that_comes_again_has_its_first_answer() {
    let (memory, mut prompt) = shared();
    let mut first = booking(&mut prompt).with_id("request 9");
    runs(&mut first, &prompt, "c1", "ref 7XK");
    let first = answered(&mut first, &prompt, "Booked.");
    assert_eq!(first.positions, 0..4);
    let mut plain = Turn::from("Hi.").with_id("request 10");
    let plain = answered(&mut plain, &prompt, "Booked.");
    for (id, first) in [("request 9", &first), ("request 10", &plain)] {
        let question = first.messages[0].text().into_owned();
        let again = done(&mut Turn::from(question).with_id(id), &prompt);
        assert_eq!((again.ended, &again.positions), (Ended::Adopted, &first.positions));
        assert_eq!(again.messages, first.messages);
        // One that was ended before it began stores nothing, and says so.
        let mut ended = Turn::from("Again.").with_id(id);
        ended.interrupt(OnInterrupt::Forget);
        assert_eq!(done(&mut ended, &prompt).ended, Ended::Interrupted);
    }
    // If the answer is no more there, and of another id, the model is asked.
    memory.evict(2).unwrap();
    for id in ["request 9", "request 11"] {
        ask(&mut Turn::from("Again.").with_id(id), &prompt);
    }
    assert_eq!(memory.next_position().unwrap(), 6);
}

/// A mail was approved and sent by one terminal, which died. The other one, which still showed the
/// question, refused: that was stored as the late result, and the model read that no mail was sent.
#[test]
fn a_refusal_of_a_former_owner_is_no_result() {
    let approved = || [Tool::new("mail", "Sends.").needing_approval()];
    for says_no in [true, false] {
        let (memory, mut prompt) = shared();
        let first = prompt.turn("Mail it.").tools(approved());
        let mut first = wants(first, &prompt, [("c1", "mail")]);
        assert!(call(&mut first, &prompt)[0].needs_approval());

        let mut second = adopted(&prompt).tools(approved());
        second.approve("c1").unwrap();
        call(&mut second, &prompt);
        second.interrupt(OnInterrupt::Keep); // it has sent, and nobody knows
        done(&mut second, &prompt);

        if says_no {
            first.error("c1", "The user said no.").unwrap();
        } else {
            first.interrupt(OnInterrupt::Keep);
        }
        let ended = done(&mut first, &prompt);
        assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..0));
        assert_eq!(memory.next_position().unwrap(), 3);
        assert!(texts(&*memory)[2].contains("not known"));
    }
}

/// Two threads shared a list and adopted the same turn: both got it as their own, and the payment
/// of one of them was stored nowhere.
#[test]
fn a_turn_is_adopted_once() {
    let (_, mut prompt) = shared();
    let _first = begun(&mut prompt);
    let unfinished = prompt.unfinished().unwrap().remove(0);
    prompt.adopt(&unfinished).unwrap();
    assert_eq!(prompt.adopt(&unfinished).unwrap_err().kind(), ErrorKind::SlotConflict);
    let again = prompt.unfinished().unwrap().remove(0);
    prompt.adopt(&again).unwrap();
}

/// Two copies of a turn went different ways. Each took the other's checkpoint for its own and
/// overwrote it, and a call that one of them had run was in no memory and no slot.
#[test]
fn a_copy_that_went_another_way_does_not_take_the_note_over() {
    let (memory, mut prompt) = shared();
    let mut turn = booking(&mut prompt);
    runs(&mut turn, &prompt, "c1", "one");
    ask(&mut turn, &prompt);
    let mut other = copy(&turn).tools(tools());

    turn.answer(calls([("c2", "book")])).unwrap();
    call(&mut turn, &prompt);
    other.answer(calls([("c3", "book")])).unwrap();
    assert_eq!(other.next(&prompt).unwrap_err().kind(), ErrorKind::Adopted);
    turn.result("c2", ok("two")).unwrap();
    assert_eq!(answered(&mut turn, &prompt, "Booked.").positions, 0..6);
    let Next::Done(ended) = other.next(&prompt).unwrap() else { panic!("it is over") };
    assert_eq!((ended.ended, ended.positions), (Ended::Adopted, 0..0));
    assert_eq!(memory.next_position().unwrap(), 6);
}

/// The reply to the first checkpoint was lost, its owner looked, and continued. Later somebody
/// adopted the turn and ended it: the results of the first owner are still stored as late results.
#[test]
fn a_note_that_was_settled_is_as_good_as_any() {
    let (memory, mut prompt) = odd();
    let mut first = booking(&mut prompt);
    unheard(&memory, &mut first, &prompt);
    assert!(!call(&mut first, &prompt)[0].may_have_run());

    let mut second = adopted(&prompt);
    call(&mut second, &prompt);
    second.interrupt(OnInterrupt::Keep);
    assert_eq!(done(&mut second, &prompt).positions, 0..3);
    first.result("c1", ok("ref 7XK")).unwrap();
    let late = done(&mut first, &prompt);
    assert_eq!((late.ended, late.positions), (Ended::Adopted, 3..4));
    assert_eq!(texts(&*memory)[3], "ref 7XK");
}

/// What happens to a turn and its owners, in the law below. A number is one of the owners.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// It takes the next step.
    Steps(usize),
    /// The same, but only one of the tools that it is to run ends.
    StepsHalf(usize),
    /// It asks for the next step, and does not take it.
    Looks(usize),
    /// Its user approves all pending calls, or refuses them.
    Approves(usize, bool),
    /// Its user steers the turn, with this many bytes.
    Steers(usize, usize),
    /// It is serialised, and another owner gets a copy.
    Copied(usize),
    /// Somebody adopts what there is.
    Adopted,
    Interrupted(usize, OnInterrupt),
    /// Its process dies.
    Dies(usize),
    /// The reply of the memory to its next append is lost.
    Loses,
    /// The next append is not made.
    Fails,
    /// The next read fails.
    Unreadable,
    /// Another tab appends this many messages, each by itself; with ids of its own or without.
    Tab(usize, bool),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let owner = || 0usize..4;
    let keep = prop_oneof![Just(OnInterrupt::Keep), Just(OnInterrupt::Forget)];
    let bytes = prop_oneof![Just(10usize), Just(300), Just(3_000)];
    let tab = prop_oneof![4 => Just(1usize), 2 => Just(70), 1 => Just(600)];
    let event = prop_oneof![
        10 => owner().prop_map(Event::Steps),
        4 => owner().prop_map(Event::StepsHalf),
        2 => owner().prop_map(Event::Looks),
        3 => (owner(), proptest::bool::weighted(0.7)).prop_map(|(it, yes)| Event::Approves(it, yes)),
        2 => (owner(), bytes).prop_map(|(it, bytes)| Event::Steers(it, bytes)),
        2 => owner().prop_map(Event::Copied),
        3 => Just(Event::Adopted),
        2 => (owner(), keep).prop_map(|(it, keep)| Event::Interrupted(it, keep)),
        1 => owner().prop_map(Event::Dies),
        2 => Just(Event::Loses),
        1 => Just(Event::Fails),
        1 => Just(Event::Unreadable),
        1 => (tab, any::<bool>()).prop_map(|(n, with_ids)| Event::Tab(n, with_ids)),
    ];
    proptest::collection::vec(event, 1..40)
}

/// A conversation in which one turn has several owners.
struct World {
    memory: Arc<Odd>,
    prompt: MemoryPrompt,
    owners: Vec<Turn>,
    /// The calls that were made, and those of them that have run.
    called: usize,
    ran: BTreeSet<String>,
    /// The tools of each answer.
    rounds: Vec<Vec<usize>>,
    /// True once the memory may have forgotten the ids of the turn.
    has_forgotten_ids: bool,
}

fn all_tools() -> [Tool; 3] {
    let [book, look] = tools();
    [book, look, Tool::new("pay", "Pays.").needing_approval()]
}

impl World {
    fn new(rounds: Vec<Vec<usize>>, slot: usize) -> Self {
        let memory = Odd::new(DefaultChatMemory::new().limits().with_slot(slot));
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
        // A call of which no note is kept may run twice, so none is begun.
        let turn = prompt.turn(Message::user("Book.")).on_no_checkpoint(OnNoCheckpoint::Fail);
        let owners = vec![turn.tools(all_tools())];
        let (called, ran) = (0, BTreeSet::new());
        Self { memory, prompt, owners, called, ran, rounds, has_forgotten_ids: false }
    }

    fn happen(&mut self, event: Event) -> Result<(), TestCaseError> {
        match event {
            Event::Steps(i) if i < self.owners.len() => {
                self.step(i, usize::MAX)?;
            }
            Event::StepsHalf(i) if i < self.owners.len() => {
                self.step(i, 1)?;
            }
            Event::Looks(i) if i < self.owners.len() => {
                let _ = self.owners[i].next(&self.prompt);
            }
            Event::Approves(i, yes) if i < self.owners.len() => self.approve(i, yes),
            Event::Steers(i, bytes) if i < self.owners.len() => {
                let _ = self.owners[i].steer("s".repeat(bytes));
            }
            Event::Copied(i) if i < self.owners.len() => {
                let written = serde_json::to_vec(&self.owners[i]).unwrap();
                let copy = serde_json::from_slice::<Turn>(&written).unwrap();
                self.owners.push(copy.tools(all_tools()));
            }
            Event::Adopted => {
                let Ok(unfinished) = self.prompt.unfinished() else { return Ok(()) };
                for unfinished in unfinished {
                    match self.prompt.adopt(&unfinished) {
                        Ok(turn) => self.owners.push(turn.tools(all_tools())),
                        // Whatever was written can be taken over.
                        Err(error) => prop_assert!(error.kind() != ErrorKind::Invalid, "{error}"),
                    }
                }
            }
            Event::Interrupted(i, keep) if i < self.owners.len() => self.owners[i].interrupt(keep),
            Event::Dies(i) if i < self.owners.len() => drop(self.owners.remove(i)),
            Event::Loses => self.memory.loses.store(true, Ordering::Relaxed),
            Event::Fails => self.memory.fails.store(true, Ordering::Relaxed),
            Event::Unreadable => self.memory.is_unreadable.store(true, Ordering::Relaxed),
            Event::Tab(n, with_ids) => {
                self.has_forgotten_ids |= with_ids && n > 1;
                for i in 0..n {
                    let mut append = Append::new([Message::ai(format!("tab {i}"))]);
                    append.id = with_ids.then(|| format!("tab {i} of {n}"));
                    let _ = self.memory.append_with(&mut append);
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The user of this owner approves or refuses what is pending according to the memory.
    fn approve(&mut self, i: usize, yes: bool) {
        let turn = &mut self.owners[i];
        let Ok(Next::Call(calls)) = turn.next(&self.prompt) else { return };
        for call in calls.iter().filter(|it| it.needs_approval()) {
            if yes {
                turn.approve(call.id()).unwrap();
            } else {
                turn.error(call.id(), "The user said no.").unwrap();
            }
        }
    }

    /// Takes the next step of this owner; returns whether there may be more. Only this many of the
    /// tools that it is to run end.
    fn step(&mut self, i: usize, most: usize) -> Result<bool, TestCaseError> {
        let turn = &mut self.owners[i];
        match turn.next(&self.prompt) {
            Ok(Next::Done(_)) | Err(_) => return Ok(false),
            Ok(Next::Ask(ask)) => match self.rounds.get(ask.round() as usize) {
                None => turn.answer("Done.").unwrap(),
                Some(tools) => {
                    let calls = tools.iter().map(|tool| {
                        self.called += 1;
                        let name = ["book", "look", "pay"][*tool];
                        ToolCall::new(format!("c{}", self.called), name, "{}")
                    });
                    turn.answer(Message::ai_calls(calls)).unwrap();
                }
            },
            Ok(Next::Call(calls)) => {
                let mut ready = calls.into_iter().filter(|it| !it.needs_approval()).peekable();
                if ready.peek().is_none() {
                    return Ok(false);
                }
                for call in ready.take(most) {
                    if call.may_have_run() {
                        turn.outcome_unknown(call.id(), "").unwrap();
                        continue;
                    }
                    if call.name() != "look" {
                        prop_assert!(call.is_checkpointed());
                        let is_new = self.ran.insert(call.id().to_owned());
                        prop_assert!(is_new, "{} has run twice", call.id());
                    }
                    turn.result(call.id(), Ok(format!("result of {}", call.id()))).unwrap();
                }
            }
        }
        Ok(true)
    }

    /// The remaining owners continue until they can't, and what has no owner is ended.
    fn settle(&mut self) -> Result<(), TestCaseError> {
        for is_last in [false, true] {
            for i in 0..self.owners.len() {
                for _ in 0..20 {
                    if !self.step(i, usize::MAX)? {
                        break;
                    }
                }
                if is_last {
                    // It waits for somebody, or has outgrown the slot.
                    self.owners[i].interrupt(OnInterrupt::Keep);
                    let _ = self.owners[i].next(&self.prompt);
                }
            }
            for unfinished in self.prompt.unfinished().unwrap() {
                let Ok(mut turn) = self.prompt.adopt(&unfinished) else { continue };
                turn.interrupt(OnInterrupt::Keep);
                let _ = turn.next(&self.prompt).or_else(|_| turn.next(&self.prompt)).unwrap();
            }
        }
        // Now that all is ended nobody is refused any more, but for a turn that another owner has
        // forgotten, in which nothing has happened.
        for turn in &mut self.owners {
            turn.interrupt(OnInterrupt::Keep);
            let last = turn.next(&self.prompt);
            let mut calls = turn.messages().iter().flat_map(Message::tool_calls);
            let has_happened = calls.any(|it| self.ran.contains(&it.id));
            let is_forgotten = |it: &Error| it.kind() == ErrorKind::Forgotten && !has_happened;
            let is_over = last.as_ref().map_or_else(is_forgotten, |it| matches!(it, Next::Done(_)));
            prop_assert!(is_over, "{last:?} of {turn:?}");
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let stored = self.memory.messages().unwrap();
        let shown: Vec<_> = stored
            .iter()
            .map(|it| format!("{} {}", it.role(), it.text().chars().take(40).collect::<String>()))
            .filter(|it| !it.contains("tab"))
            .collect();
        let questions = stored.iter().filter(|it| it.text() == "Book.").count();
        prop_assert!(questions <= 1 || self.has_forgotten_ids, "{shown:#?}");
        for (at, message) in stored.iter().enumerate() {
            for call in message.tool_calls() {
                let mut behind = stored[at..].iter().filter_map(Message::as_tool);
                prop_assert!(behind.any(|it| it.call_id() == call.id), "no result: {shown:#?}");
            }
            if let Some(result) = message.as_tool() {
                let mut before = stored[..at].iter().flat_map(Message::tool_calls);
                prop_assert!(before.any(|it| it.id == result.call_id()), "no call: {shown:#?}");
            }
        }
        // What happened is not denied: it is stored, and no result says that it was not run.
        for id in &self.ran {
            let mut calls = stored.iter().flat_map(Message::tool_calls);
            prop_assert!(calls.any(|it| it.id == *id), "{id} is nowhere: {shown:#?}");
            let results =
                stored.iter().filter_map(Message::as_tool).filter(|it| it.call_id() == id);
            let is_true =
                |it: &ToolMessage| it.is_stand_in() || it.content().text().starts_with("result of");
            let all: Vec<_> = results.map(is_true).collect();
            // A turn that was stored twice, since the memory knew its id no more, may say both.
            let is_denied =
                all.contains(&false) && !(self.has_forgotten_ids && all.contains(&true));
            prop_assert!(!is_denied, "{id} is denied: {shown:#?}");
        }
        // What an owner knows that is left is stored: once, where the memory knows its turn.
        for id in self.owners.iter().flat_map(|turn| known(turn, &self.ran)) {
            let result = format!("result of {id}");
            let times = stored.iter().filter(|it| it.text() == result).count();
            let is_once = times == 1 || times > 1 && self.has_forgotten_ids;
            prop_assert!(is_once, "{result}: {times} times in {shown:#?}");
        }
        prop_assert!(self.prompt.unfinished().unwrap().is_empty());
        Ok(())
    }
}

/// The calls that have run and whose results this owner knows.
fn known(turn: &Turn, ran: &BTreeSet<String>) -> Vec<String> {
    let results = turn.messages().iter().filter_map(Message::as_tool);
    let results = results.filter(|it| !it.is_stand_in() && ran.contains(it.call_id()));
    results
        .filter(|it| it.content().text().starts_with("result of"))
        .map(|it| it.call_id().to_owned())
        .collect()
}

fn rounds() -> impl Strategy<Value = Vec<Vec<usize>>> {
    proptest::collection::vec(proptest::collection::vec(0usize..3, 1..4), 0..3)
}

/// The largest slot: none, or one that a turn nearly fills, or outgrows.
fn slots() -> impl Strategy<Value = usize> {
    prop_oneof![2 => Just(usize::MAX), 3 => 700usize..4_500]
}

counted! {
    #![cases(1000)]

    #[test]
    fn in_how_many_hands_a_turn_may_be_it_happens_once(
        events in events(), rounds in rounds(), slot in slots(),
    ) {
        let mut world = World::new(rounds, slot);
        for event in events {
            world.happen(event)?;
        }
        for wrong in [&world.memory.loses, &world.memory.fails, &world.memory.is_unreadable] {
            wrong.store(false, Ordering::Relaxed);
        }
        world.settle()?;
        world.check()?;
    }
}

/// Two copies of a turn had its answer, and one of them stored it. The other saw that, and the
/// reply to its search for more was lost: a copy of that one stored the turn again.
#[test]
fn a_copy_of_a_turn_that_searches_stores_nothing() {
    use self::Event::{Copied, Loses, Steps, Unreadable};
    let mut world = World::new(Vec::new(), usize::MAX);
    let sees_it = [Steps(0), Copied(0), Steps(1), Unreadable, Steps(0)];
    for event in sees_it.into_iter().chain([Loses, Steps(0), Copied(0)]) {
        world.happen(event).unwrap();
    }
    world.settle().unwrap();
    world.check().unwrap();
}

/// A copy of a turn met the checkpoint of the first one. When it continued, the first one had
/// ended, and the memory had forgotten its id: the copy booked again.
#[test]
fn a_copy_books_nothing_once_the_memory_has_forgotten_its_turn() {
    use self::Event::{Copied, Steps, StepsHalf, Tab};
    let mut world = World::new(vec![vec![0]], usize::MAX);
    for event in [Steps(0), Copied(0), Steps(0), Steps(0), Steps(1), StepsHalf(0), Tab(70, true)] {
        world.happen(event).unwrap();
    }
    world.settle().unwrap();
    world.check().unwrap();
}

/// An answer called two tools, one after the other. While the first ran, somebody adopted the turn
/// and ended it, and the second still ran: twice, if the adopter had run it too.
#[test]
fn a_call_of_a_turn_that_was_ended_meanwhile_is_not_run() {
    let memory: Arc<DefaultChatMemory> = Arc::new(DefaultChatMemory::new());
    let prompt = || MemoryPrompt::new(Arc::clone(&memory));
    let model = Scripted::new().says(calls([("c1", "slow"), ("c2", "pay")]));
    let other = prompt();
    let paid = Arc::new(AtomicU32::new(0));
    let pays = Arc::clone(&paid);
    let conversation = Conversation::new(prompt(), model)
        .tool(Tool::new("slow", "Is adopted meanwhile."), move |_: serde_json::Value| {
            end_all(&other);
            Ok("late")
        })
        .tool(Tool::new("pay", "Pays."), move |_: serde_json::Value| {
            pays.fetch_add(1, Ordering::Relaxed);
            Ok("paid")
        });
    let done = conversation.say("Pay.").unwrap();
    assert_eq!((done.ended, paid.load(Ordering::Relaxed)), (Ended::Adopted, 0));
    assert_eq!(memory.messages().unwrap().last().unwrap().text(), "late");
}

/// The reply to the first checkpoint was lost and the conversation gave up: nothing was stored, and
/// the request could never be repeated with its id.
#[test]
fn a_request_that_was_forgotten_is_asked_again() {
    let (memory, mut prompt) = odd();
    let mut turn = booking(&mut prompt).with_id("request 9");
    unheard(&memory, &mut turn, &prompt);
    turn.interrupt(OnInterrupt::Forget);
    assert_eq!(done(&mut turn, &prompt).positions, 0..0);
    let again = Turn::from("Book it.").with_id("request 9").tools(tools());
    let mut again = wants(again, &prompt, [("c1", "book")]);
    assert!(!call(&mut again, &prompt)[0].may_have_run());
    again.result("c1", ok("ref 7XK")).unwrap();
    assert_eq!(answered(&mut again, &prompt, "Booked.").positions, 0..4);
}

/// Ids of calls repeat from answer to answer. The refusal of the first call was put in doubt
/// instead of that of the newest, which another owner had run.
#[test]
fn only_the_newest_refusal_is_put_in_doubt() {
    let approved = || [Tool::new("book", "Books.").needing_approval()];
    let (memory, mut prompt) = shared();
    let first = prompt.turn("Book.").tools(approved());
    let mut first = wants(first, &prompt, [("call_0", "book")]);
    call(&mut first, &prompt);
    first.error("call_0", "Not that one.").unwrap();
    let mut first = wants(first, &prompt, [("call_0", "book")]);
    let newest = call(&mut first, &prompt)[0].id().to_owned();
    let mut second = copy(&first).tools(approved());
    second.approve(&newest).unwrap();
    call(&mut second, &prompt); // it runs, and its process dies
    first.error(&newest, "Nor that one.").unwrap();
    first.interrupt(OnInterrupt::Keep);
    done(&mut first, &prompt);
    let stored = texts(&*memory);
    assert_eq!(stored[2], "Not that one.");
    assert!(stored[4].contains("not known"), "{stored:#?}");
}

/// The browser sent an approval twice. The second one approved another call, to which the model had
/// given the same id.
#[test]
fn an_approval_that_comes_twice_approves_of_one_call() {
    let (_, mut prompt) = shared();
    let tools = [Tool::new("book", "Books.").needing_approval()];
    let turn = prompt.turn("Book.").tools(tools);
    let mut turn = wants(turn, &prompt, [("1", "book"), ("1", "book")]);
    call(&mut turn, &prompt);
    turn.approve("1").unwrap();
    runs(&mut turn, &prompt, "1", "Booked.");
    call(&mut turn, &prompt);
    assert_eq!(turn.approve("1").unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(turn.error("1", "No.").unwrap_err().kind(), ErrorKind::Invalid);
    turn.approve("1_2").unwrap();
}

/// A memory with only the five methods. If the first is set, the reply to its next append is lost;
/// if the second is set, it panics after the append.
#[derive(Debug, Default)]
struct Five(DefaultChatMemory, AtomicBool, AtomicBool);

impl ChatMemory for Five {
    inside!(0: id read evict clear);
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let appended = self.0.append(batch, expected)?;
        if self.2.swap(false, Ordering::Relaxed) {
            resume_unwind(Box::new("the memory's own")); // without a word on the terminal
        }
        if self.1.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unacknowledged, "append", "the answer got lost"));
        }
        Ok(appended)
    }
}

/// A turn that was kept as JSON over a memory with five methods asked for a slot, which no such
/// memory has, so it could never continue.
#[test]
fn a_kept_turn_goes_on_over_a_memory_without_slots() {
    let mut prompt = MemoryPrompt::new(Five::default());
    let mut turn = copy(&begun(&mut prompt));
    turn.result("c1", ok("Booked.")).unwrap();
    turn.interrupt(OnInterrupt::Keep);
    assert_eq!(done(&mut turn, &prompt).positions, 0..3);
}

/// A memory that recognises no ids panicked after the append of a turn, which was then stored
/// again.
#[test]
fn what_may_be_stored_before_a_panic_is_not_stored_again() {
    let memory = Arc::new(Five::default());
    let conversation =
        Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), Scripted::new().says("Hello."));
    memory.2.store(true, Ordering::Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| conversation.say("Hi."))).is_err());
    assert_eq!(texts(&*memory), ["Hi.", "Hello."]);
}

/// A run was dropped in its last append, over a memory that recognises no ids, and its turn was run
/// again: the question and the answer were stored twice.
#[cfg(feature = "async")]
#[test]
fn what_may_be_stored_before_a_drop_is_not_stored_again() {
    use crate::conversation::faults::{ALL, Slow, polled};

    for drop_after in 0..40 {
        let memory = Arc::new(Five::default());
        let prompt = MemoryPrompt::new_async(Slow(Arc::clone(&memory)));
        let model = Scripted::new().says("Hello.").says("Hello.");
        let conversation = Conversation::new_async(prompt, model);
        let mut turn = Turn::from("Hi.");
        let first = polled(conversation.run(&mut turn, |_| {}), drop_after);
        let again = polled(conversation.run(&mut turn, |_| {}), ALL).unwrap();
        let is_told = again.as_ref().map_or_else(
            |error| error.kind() == ErrorKind::Unacknowledged,
            |done| done.text() == "Hello.",
        );
        assert!(is_told && (first.is_none() || again.is_ok()), "{drop_after}: {again:?}");
        let stored = texts(&*memory);
        assert!(stored == ["Hi.", "Hello."] || stored.is_empty() && again.is_err(), "{stored:?}");
    }
}

/// The reply to the append of a whole turn was lost, over a memory that recognises no ids, and a
/// conversation retried by itself: the question and the answer were stored twice.
#[test]
fn what_may_be_stored_is_not_stored_again_where_nobody_can_tell() {
    let memory = Arc::new(Five::default());
    let conversation =
        Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), Scripted::new().says("Hello."));
    memory.1.store(true, Ordering::Relaxed);
    let error = conversation.say("Hi.").unwrap_err();
    let told = (error.kind(), error.remains());
    assert_eq!(told, (ErrorKind::Unacknowledged, Some(Remains::Unknown)));
    assert_eq!(texts(&*memory), ["Hi.", "Hello."]);

    // By hand it is told as often as it is tried; what was said is still there.
    let prompt = conversation.prompt();
    let mut turn = Turn::from("And?");
    ask(&mut turn, prompt);
    turn.answer("Well.").unwrap();
    memory.1.store(true, Ordering::Relaxed);
    for _ in 0..2 {
        assert_eq!(turn.next(prompt).unwrap_err().kind(), ErrorKind::Unacknowledged);
    }
    assert_eq!(turn.messages().len(), 2);
    assert_eq!(texts(&*memory), ["Hi.", "Hello.", "And?", "Well."]);

    // Over one that recognises them it is stored, once.
    let memory = Odd::new(DefaultChatMemory::new().limits());
    let model = Scripted::new().says("Hello.");
    let conversation = Conversation::new(MemoryPrompt::new(Arc::clone(&memory)), model);
    memory.loses.store(true, Ordering::Relaxed);
    assert_eq!(conversation.say("Hi.").unwrap().positions, 0..2);
    assert_eq!(texts(&*memory), ["Hi.", "Hello."]);
}

/// A conversation with branches, in which this was asked and answered.
fn branched(question: &str, answer: &str) -> MemoryPrompt {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).with_branches();
    prompt.add_all([Message::user(question), Message::ai(answer)]).unwrap();
    prompt
}

/// A client repeated its request to regenerate while that ran. It was shown its own answer, which
/// is stored nowhere, as the stored one.
#[test]
fn of_two_requests_for_a_new_answer_both_have_the_stored_one() {
    for edits in [false, true] {
        let prompt = branched("Where is Oslo?", "In Sweden.");
        let request = || {
            let turn = if edits { prompt.edit_turn(0, "Oslo?") } else { prompt.regenerate() };
            turn.unwrap().with_id("request 1")
        };
        let (mut one, mut two) = (request(), request());
        ask(&mut one, &prompt);
        ask(&mut two, &prompt);
        one.answer("In Norway.").unwrap();
        two.answer("In Denmark.").unwrap();
        let first = done(&mut one, &prompt);
        assert_eq!((first.ended, first.text().as_str()), (Ended::Answered, "In Norway."));
        let second = done(&mut two, &prompt);
        assert_eq!((second.ended, second.text().as_str()), (Ended::Adopted, "In Norway."));
        assert_eq!(second.positions, first.positions);
    }
}

/// The first of them booked. The second always got the error that the conversation is gone.
#[test]
fn of_two_requests_for_a_new_answer_one_books() {
    let prompt = branched("Book it.", "Which one?");
    let request = || prompt.regenerate().unwrap().with_id("request 1").tools(tools());
    let (mut one, mut two) = (request(), request());
    ask(&mut one, &prompt);
    ask(&mut two, &prompt);
    one.answer(calls([("c1", "book")])).unwrap();
    runs(&mut one, &prompt, "c1", "ref 7XK");
    answered(&mut one, &prompt, "Booked.");
    two.answer("I can't.").unwrap();
    let second = done(&mut two, &prompt);
    assert_eq!((second.ended, second.text().as_str()), (Ended::Adopted, "Booked."));
}

/// Another tab edited between a request and its retry. The retry got its own answer as the stored
/// one.
#[test]
fn a_request_that_comes_again_on_another_branch_has_its_first_answer() {
    let prompt = branched("Where is Oslo?", "In Sweden.");
    let request = || Turn::from("And Rome?").with_id("request 1");
    let mut one = request();
    ask(&mut one, &prompt);
    prompt.edit(1, Message::ai("In Norway.")).unwrap();
    let mut two = request();
    ask(&mut two, &prompt);
    one.answer("In Italy.").unwrap();
    done(&mut one, &prompt);
    two.answer("In Spain.").unwrap();
    assert_eq!(done(&mut two, &prompt).text(), "In Italy.");
}

/// A request was dropped while it was pending, and was asked and answered again. The client that
/// lost the connection read that nothing of it is stored.
#[test]
fn what_was_asked_again_is_found_by_its_id() {
    for is_cleared in [false, true] {
        let (memory, prompt) = shared();
        let request = || Turn::from("Pay.").with_id("request 1");
        let first = request().tools([Tool::new("pay", "Pays.").needing_approval()]);
        let mut first = wants(first, &prompt, [("c1", "pay")]);
        call(&mut first, &prompt);
        if is_cleared {
            memory.clear().unwrap();
        } else {
            first.interrupt(OnInterrupt::Forget);
            done(&mut first, &prompt);
        }
        assert!(prompt.stored_turn("request 1").unwrap().is_none());
        let mut again = request();
        assert_eq!(answered(&mut again, &prompt, "Paid.").ended, Ended::Answered);
        assert_eq!(prompt.stored_turn("request 1").unwrap().unwrap().text(), "Paid.");
    }
}

/// A request went through a queue, which delivered it twice. The second time the model was asked
/// from the beginning, and in the end there was no answer.
#[test]
fn a_request_from_a_queue_goes_on_behind_what_is_stored() {
    let (_, prompt) = shared();
    let queue = serde_json::to_string(&Turn::from("Book it.").with_id("request 9")).unwrap();
    let deliver = || serde_json::from_str::<Turn>(&queue).unwrap().tools(tools());
    let mut first = wants(deliver(), &prompt, [("c1", "book")]);
    runs(&mut first, &prompt, "c1", "ref 7XK");
    first.interrupt(OnInterrupt::Keep); // the model failed
    assert_eq!(done(&mut first, &prompt).positions, 0..3);
    let mut again = deliver();
    assert_eq!(ask(&mut again, &prompt).prompt().iter().last().unwrap().text(), "ref 7XK");
    assert_eq!(answered(&mut again, &prompt, "Booked.").positions, 3..4);
    assert_eq!(done(&mut deliver(), &prompt).text(), "Booked.");
}
