//! The first turn of a conversation in a store, which is not there when the turn begins.

use std::sync::atomic::AtomicBool;

use memory_prompt::export::ExportAs;
use memory_prompt::memory::{Appended, Read};
use memory_prompt::record::Snapshot;
use memory_prompt::{Error, InMemoryStore, Provider, Result};

use super::*;

/// A memory of a store that holds nothing yet.
fn none_yet() -> Arc<dyn ChatMemory> {
    Arc::new(InMemoryStore::new().memory("ada").unwrap())
}

fn tab(memory: &Arc<dyn ChatMemory>) -> MemoryPrompt {
    MemoryPrompt::new(Arc::clone(memory)).window(Window::all()).with_branches()
}

/// The first question of a chat was to pay, and the payment took long. The user asked for another
/// answer, for something else or took it back, and then it was paid: the result was looked for on
/// the branch that was current by then, dropped, and counted nowhere.
#[test]
fn a_late_result_of_the_first_turn_is_on_its_branch() {
    for change in ["regenerate", "edit", "undo"] {
        let model = Scripted::new().calls("pay", json!({})).says("I don't know yet.");
        let (chat, go) = too_slow(tab(&none_yet()), model.says("Sunny."));
        chat.say("Pay Ann.").unwrap();
        match change {
            "regenerate" => drop(chat.regenerate().unwrap()),
            "edit" => drop(chat.edit(0, "And the weather?").unwrap()),
            _ => drop(chat.undo().unwrap()),
        }
        go.send(()).unwrap();
        assert_eq!(chat.finish(Duration::from_secs(9)), 0);
        let back = if change == "undo" { chat.redo() } else { chat.undo() };
        assert!(back.unwrap().is_some());
        let sent = chat.prompt().preview().unwrap();
        assert_eq!((&*sent[0].text(), &*sent[2].text()), ("Pay Ann.", "paid"), "{change}");
    }
}

/// The first turn of a chat waited for a person, and something else was asked and edited meanwhile.
/// An export had its call on all branches, and once it was approved it went behind the edit. The
/// models of all branches are told of it, as it will be paid once.
#[test]
fn the_first_turn_that_waits_is_of_the_first_branch() {
    let memory = none_yet();
    let model = Scripted::new().calls("pay", json!({})).says("Hello.").says("Paid.");
    let chat = Conversation::new(tab(&memory), model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |()| Ok("paid"));
    let parked = chat.say("Pay Ann.").unwrap();
    chat.say("Hello?").unwrap();
    let mut turn = chat.prompt().edit_turn(0, "Hi?").unwrap();
    let Next::Ask(ask) = turn.next(chat.prompt()).unwrap() else { panic!("it asks") };
    let told: Vec<_> = ask.prompt().iter().map(|it| it.text().into_owned()).collect();
    assert_eq!(told[1..], ["Hi?"]);
    assert!(told[0].contains("- pay {}: has not run"), "{told:?}");
    turn.answer("Hi.").unwrap();
    assert!(matches!(turn.next(chat.prompt()), Ok(Next::Done(_))));

    let mut lines = Vec::new();
    let export = chat.prompt().export(ExportAs::Request(Provider::OpenAi)).all_branches();
    export.write_to(&mut lines).unwrap();
    let lines = String::from_utf8(lines).unwrap();
    let with_it: Vec<_> = lines.lines().map(|line| line.contains("Pay Ann.")).collect();
    assert_eq!(with_it, [true, false], "{lines}");

    assert_eq!(chat.approve(&parked.waiting()[0]).unwrap().positions, 2..6);
    assert_eq!(said(chat.prompt()), ["Hi?", "Hi."]);
    chat.switch(chat.variants(0).unwrap()[0]).unwrap();
    assert_eq!(said(chat.prompt()), ["Hello?", "Hello.", "Pay Ann.", "", "paid", "Paid."]);
}

/// A person approved of the first turn, on a page that named the branch, and while the tool paid
/// somebody edited in another tab. The turn failed with a conflict, and nobody was told of the
/// payment.
#[test]
fn the_first_turn_goes_on_where_its_tab_expects_what_others_leave() {
    let memory = none_yet();
    let pay = || Tool::new("pay", "Pays.").needing_approval();
    let model = Scripted::new().calls("pay", json!({})).says("Hello.");
    let chat = Conversation::new(tab(&memory), model).tool(pay(), |()| Ok("paid"));
    let parked = chat.say("Pay Ann.").unwrap();
    chat.say("Hello?").unwrap();
    let branch = chat.page(None, 0).unwrap().branch.unwrap();
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).window(Window::all());
    let prompt = prompt.with_branches_by(|view| view.expecting(branch));
    let other = tab(&memory);
    let later = Conversation::new(prompt, Scripted::new().says("Paid.")).tool(pay(), move |()| {
        other.edit(0, Message::user("Hi?")).unwrap();
        Ok("paid")
    });
    assert_eq!(later.approve(&parked.waiting()[0]).unwrap().text(), "Paid.");
    chat.undo().unwrap();
    assert_eq!(said(chat.prompt()), ["Hello?", "Hello.", "Pay Ann.", "", "paid", "Paid."]);
}

/// A memory in which the answer to the next append gets lost.
#[derive(Debug)]
struct Loses(Arc<dyn ChatMemory>, AtomicBool);

impl ChatMemory for Loses {
    inside!(0: id append read evict clear slots limits);
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.0.read_with(read)
    }
    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        let appended = self.0.append_with(append)?;
        if self.1.swap(false, Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unacknowledged, "append", "the answer got lost"));
        }
        Ok(appended)
    }
}

/// The answer to the append of the first turn got lost. When it was looked up the turn took what it
/// had stored itself for that of a stranger, and behind a checkpoint it did not say where it is.
#[test]
fn the_first_turn_finds_what_it_has_stored() {
    for calls in [false, true] {
        let memory = Arc::new(Loses(none_yet(), AtomicBool::new(false)));
        let prompt = MemoryPrompt::new(Arc::clone(&memory)).with_branches();
        let mut turn = Turn::from("Pay Ann.");
        assert!(matches!(turn.next(&prompt), Ok(Next::Ask(_))));
        if calls {
            turn.answer(Message::ai_calls([ToolCall::new("c1", "pay", "{}")])).unwrap();
            assert!(matches!(turn.next(&prompt), Ok(Next::Call(_))));
            turn.result("c1", Ok("paid")).unwrap();
            assert!(matches!(turn.next(&prompt), Ok(Next::Ask(_))));
        }
        turn.answer("Paid.").unwrap();
        memory.1.store(true, Ordering::Relaxed);
        let lost = turn.next(&prompt).unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::Unacknowledged);
        let Next::Done(done) = turn.next(&prompt).unwrap() else { panic!("it is done") };
        let end = if calls { 4 } else { 2 };
        assert_eq!((done.ended, done.positions), (Ended::Answered, 0..end), "calls: {calls}");
    }
}
