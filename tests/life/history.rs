//! Branches: edits, new answers, undo, and what a page shows of them.

mod export;
mod first;
#[cfg(feature = "inspect")]
mod inspect;
#[cfg(feature = "sqlite")]
mod kills;
#[cfg(all(feature = "async", feature = "sqlite"))]
mod model;
mod others;
mod paid;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use memory_prompt::conversation::{Action, Asking, ModelError, Scripted, WhenBusy};
use memory_prompt::history::{BranchView, Page, WithinGroup};
use memory_prompt::memory::{Append, Expected, Read};
use memory_prompt::message::{AiMessage, Media, Part};
use memory_prompt::recall::tools::{ReadBack, SearchHistory};
use memory_prompt::record::{Incarnation, Records, Snapshot};
use memory_prompt::summary::{Compaction, CompactionPolicy};
use memory_prompt::turn::{Ended, Next, Turn};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, Conversation, DefaultChatMemory, ErrorKind,
    InMemoryStore, MemoryPrompt, Message, MessageWindowChatMemory, Prompt, Result, Tool, ToolCall,
    Window,
};
use serde_json::{Value, json};

use crate::conversation::too_slow;
use crate::inside::inside;

fn branched(memory: &Arc<DefaultChatMemory>) -> MemoryPrompt {
    MemoryPrompt::new(Arc::clone(memory)).window(Window::all()).with_branches()
}

fn shared() -> (Arc<DefaultChatMemory>, MemoryPrompt) {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = branched(&memory);
    (memory, prompt)
}

/// What a page shows, oldest first.
fn shown(page: &Page) -> Vec<String> {
    page.entries.iter().rev().map(|it| it.message.text().into_owned()).collect()
}

fn said(prompt: &MemoryPrompt) -> Vec<String> {
    let page = shown(&prompt.page(None, usize::MAX).unwrap());
    let sent: Prompt = prompt.preview().unwrap();
    let sent: Vec<_> = sent.iter().map(|it| it.text().into_owned()).collect();
    assert_eq!(page, sent, "a page shows what the model is sent");
    page
}

fn talk(prompt: &MemoryPrompt) {
    for (question, answer) in [("q0", "a1"), ("q2", "a3")] {
        prompt.add_all([Message::user(question), Message::ai(answer)]).unwrap();
    }
}

#[test]
fn an_edit_keeps_what_was_said() {
    let (memory, prompt) = shared();
    talk(&prompt);
    assert_eq!(prompt.edit(2, Message::user("q2 anew")).unwrap(), 2);
    prompt.add(Message::ai("a3 anew")).unwrap();
    assert_eq!(said(&prompt), ["q0", "a1", "q2 anew", "a3 anew"]);
    assert_eq!(memory.len().unwrap(), 6);

    let variants = prompt.variants(2).unwrap();
    assert_eq!(variants.iter().map(|it| it.is_current).collect::<Vec<_>>(), [false, true]);
    assert_eq!(prompt.switch(variants[0]).unwrap(), Some(2));
    assert_eq!(said(&prompt), ["q0", "a1", "q2", "a3"]);
    assert_eq!(prompt.switch(variants[0]).unwrap(), None);
    prompt.add(Message::user("q4")).unwrap();
    assert_eq!(said(&prompt), ["q0", "a1", "q2", "a3", "q4"]);
    prompt.switch(variants[1]).unwrap();
    assert_eq!(said(&prompt), ["q0", "a1", "q2 anew", "a3 anew"]);
    assert_eq!(prompt.branches().unwrap().len(), 2);

    let error = prompt.edit(4, Message::user("?")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "edit: there is no message at position 4");
}

#[test]
fn undo_takes_back_turns_and_changes_in_the_order_in_which_they_were_made() {
    let (_, prompt) = shared();
    talk(&prompt);
    prompt.edit(0, Message::user("x0")).unwrap();
    prompt.add(Message::ai("x1")).unwrap();
    prompt.add_all([Message::user("x2"), Message::ai("x3")]).unwrap();
    assert_eq!(said(&prompt), ["x0", "x1", "x2", "x3"]);
    assert_eq!(prompt.undo().unwrap(), Some(2)); // the turn
    assert_eq!(said(&prompt), ["x0", "x1"]);
    assert_eq!(prompt.undo().unwrap(), Some(0)); // the edit
    assert_eq!(said(&prompt), ["q0", "a1", "q2", "a3"]);
    assert_eq!(prompt.undo().unwrap(), Some(2));
    assert_eq!(prompt.undo().unwrap(), Some(0));
    assert_eq!(prompt.undo().unwrap(), None);
    assert_eq!(said(&prompt), Vec::<String>::new());
    for back in [&["q0", "a1"][..], &["q0", "a1", "q2", "a3"], &["x0", "x1"]] {
        prompt.redo().unwrap().unwrap();
        assert_eq!(said(&prompt), back);
    }
    prompt.add_all([Message::user("y2"), Message::ai("y3")]).unwrap();
    assert_eq!(prompt.redo().unwrap(), None, "something else was said since");
    assert_eq!(said(&prompt), ["x0", "x1", "y2", "y3"]);
    assert_eq!(prompt.page(None, 9).unwrap().entries[1].variants, 2, "x2 and y2");
}

/// A service lost the answer that was there when the model failed to give another one.
#[test]
fn a_new_answer_that_fails_leaves_the_former_one() {
    let (memory, prompt) = shared();
    let model = Scripted::new().says("one").fails("overloaded").says("two");
    let conversation = Conversation::new(prompt, model);
    conversation.say("count").unwrap();
    assert_eq!(conversation.regenerate().unwrap_err().kind(), ErrorKind::Model);
    assert_eq!(said(conversation.prompt()), ["count", "one"]);
    assert_eq!(memory.len().unwrap(), 2);

    let done = conversation.regenerate().unwrap();
    assert_eq!((done.text(), done.positions), ("two".into(), 0..2));
    assert_eq!(said(conversation.prompt()), ["count", "two"]);
    assert_eq!(memory.len().unwrap(), 3, "the question is not stored again");
    let page = conversation.page(None, 9).unwrap();
    let variants = page.entries.iter().map(|it| (it.variant, it.variants));
    assert_eq!(variants.collect::<Vec<_>>(), [(2, 2), (1, 1)]);
    assert_eq!(conversation.undo().unwrap(), Some(1));
    assert_eq!(said(conversation.prompt()), ["count", "one"]);
}

/// A tool that is not repeatable had run when the model failed: what has happened is kept, on the
/// branch of the answer that came to nothing, and a person still sees the former one.
#[test]
fn what_a_failed_answer_has_done_is_kept_aside() {
    let (memory, prompt) = shared();
    let model = Scripted::new().says("one").calls("pay", json!({})).fails("overloaded");
    let conversation =
        Conversation::new(prompt, model).tool(Tool::new("pay", "Pays."), |()| Ok("paid"));
    conversation.say("pay").unwrap();
    conversation.regenerate().unwrap_err();
    assert_eq!(said(conversation.prompt()), ["pay", "one"]);
    let branches = conversation.branches().unwrap();
    assert_eq!(branches.iter().map(|it| it.is_current).collect::<Vec<_>>(), [true, false]);
    assert_eq!(conversation.switch(&branches[1]).unwrap(), Some(1));
    let said = shown(&conversation.page(None, 9).unwrap());
    assert_eq!(said, ["pay", "", "paid"]);
    assert_eq!(memory.len().unwrap(), 4);
}

/// The question of the newest turn was evicted. An undo went back to the answer that was made anew
/// before that turn, and the page was empty.
#[test]
fn an_undo_passes_over_no_turn_whose_question_is_evicted() {
    let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 2).unwrap();
    let model = Scripted::new().says("1").says("1b").calls("look", json!({})).says("2");
    let chat = Conversation::new(MemoryPrompt::new(memory).with_branches(), model)
        .tool(Tool::new("look", "Looks."), |()| Ok("sunny"));
    chat.say("one").unwrap();
    chat.regenerate().unwrap();
    chat.say("two").unwrap();
    assert_eq!(shown(&chat.page(None, 9).unwrap()), ["2"]);
    assert_eq!(chat.undo().unwrap(), None);
    assert_eq!(shown(&chat.page(None, 9).unwrap()), ["2"]);
}

/// Somebody wanted the answer in other words, and had a second table: the model was not told that
/// the answer before it had booked one.
#[test]
fn what_the_former_answer_has_done_is_told() {
    let model = Scripted::new().calls("book", json!({"seats": 2})).calls("look", json!({}));
    let conversation = Conversation::new(shared().1, model.says("Booked.").says("It is booked."))
        .tool(Tool::new("book", "Books."), |_: Value| Ok("table 7"))
        .tool(Tool::new("look", "Looks.").repeatable(), |()| Ok("sunny"));
    conversation.say("Hello.").unwrap();
    let told = |turn: Turn| {
        let mut turn = turn.tools([Tool::new("look", "Looks.").repeatable()]);
        let Next::Ask(ask) = turn.next(conversation.prompt()).unwrap() else { panic!("it asks") };
        let said: Vec<_> = ask.prompt().iter().map(|it| it.text().into_owned()).collect();
        (turn, said)
    };
    let note = "(Begun earlier in this conversation, by other turns. Don't do it again.)\n\
                - book {\"seats\":2}: its result is \"table 7\"";
    let (_, said) = told(conversation.prompt().regenerate().unwrap());
    assert_eq!(said, [note, "Hello."]);
    let (_, said) = told(conversation.prompt().edit_turn(0, "Hi.").unwrap());
    assert_eq!(said, [note, "Hi."]);
    // Nor does the one behind that book.
    let done = conversation.regenerate().unwrap();
    assert_eq!(done.text(), "It is booked.");
    let (_, said) = told(conversation.prompt().regenerate().unwrap());
    assert_eq!(said, [note, "Hello."]);
    // It is not said by what comes behind it.
    let (mut turn, _) = told(conversation.prompt().regenerate().unwrap());
    turn.answer("It is booked.").unwrap();
    assert!(matches!(turn.next(conversation.prompt()), Ok(Next::Done(_))));
    let (_, said) = told(Turn::from("Thanks."));
    assert_eq!(said, ["Hello.", "It is booked.", "Thanks."]);
}

/// A new answer was told that the tool by which the answer before had drawn a picture gave `""`,
/// and a person who looked at the calls read the same.
#[test]
fn a_picture_is_no_empty_result() {
    let model = Scripted::new().calls("draw", json!({})).says("A cat.");
    let picture = || Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
    let conversation = Conversation::new(shared().1, model)
        .tool(Tool::new("draw", "Draws."), move |_: Value| Ok([picture(), picture()]));
    conversation.say("Draw two cats.").unwrap();
    let mut turn = conversation.prompt().regenerate().unwrap();
    let Next::Ask(ask) = turn.next(conversation.prompt()).unwrap() else { panic!("it asks") };
    let note = ask.prompt()[0].text();
    assert!(note.ends_with("\n- draw {}: its result is \"2 images\""), "{note}");
}

/// Who corrected a word of a question about a picture asked about nothing: a page sends the text
/// alone.
#[test]
fn an_edit_of_a_page_keeps_the_picture() {
    let conversation = Conversation::new(shared().1, Scripted::new().says("A cat.").says("A cat!"));
    let picture = || Part::Image(Media::base64("image/png", "iVBORw0KGgo="));
    conversation.say(Message::user([picture(), Part::text("Whot is this?")])).unwrap();
    let turn = conversation.act(Action::Edit(0, "What is this?".into())).unwrap();
    let done = conversation.say(turn.unwrap()).unwrap();
    assert_eq!(done.messages[0], Message::user([picture(), Part::text("What is this?")]));
    // What has none stays a text: not every server takes a list.
    let conversation = Conversation::new(shared().1, Scripted::new().says("Norway."));
    conversation.say("Where is Osol?").unwrap();
    let turn = conversation.act(Action::Edit(0, "Where is Oslo?".into())).unwrap().unwrap();
    assert_eq!(turn.messages(), [Message::user("Where is Oslo?")]);
}

#[test]
fn a_new_answer_that_waits_for_a_person_becomes_current_once_it_is_there() {
    let (memory, prompt) = shared();
    let model = Scripted::new().says("one").calls("pay", json!({})).says("paid it");
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |()| Ok("paid"));
    conversation.say("pay").unwrap();
    let parked = conversation.regenerate().unwrap();
    assert_eq!(parked.ended, Ended::Parked);
    assert_eq!(shown(&conversation.page(None, 9).unwrap()), ["pay", "one"]);

    // Another process, which knows nothing but the memory.
    let model = Scripted::new().says("paid it");
    let later = Conversation::new(branched(&memory), model)
        .tool(Tool::new("pay", "Pays.").needing_approval(), |()| Ok("paid"));
    let waiting = later.waiting().unwrap();
    assert_eq!(later.approve(&waiting[0]).unwrap().text(), "paid it");
    assert_eq!(shown(&later.page(None, 9).unwrap()), ["pay", "", "paid", "paid it"]);
    assert_eq!(later.undo().unwrap(), Some(1));
    assert_eq!(shown(&later.page(None, 9).unwrap()), ["pay", "one"]);
}

/// While a turn ran in one tab another one edited: the answer was stored behind the edit, on a
/// branch whose question it did not answer.
#[test]
fn a_turn_belongs_to_the_branch_on_which_it_was_begun() {
    let (memory, prompt) = shared();
    talk(&prompt);
    let other = branched(&memory);
    let model = move |ask: &Asking<'_>| -> Result<String, ModelError> {
        if ask.prompt().len() == 5 {
            other.edit(0, Message::user("x0"))?;
            other.add(Message::ai("x1"))?;
        }
        Ok("a5".to_owned())
    };
    let conversation = Conversation::new(prompt, model);
    assert_eq!(conversation.say("q4").unwrap().positions, 4..6);
    assert_eq!(said(conversation.prompt()), ["x0", "x1"]);
    conversation.switch(conversation.variants(0).unwrap()[0]).unwrap();
    assert_eq!(said(conversation.prompt()), ["q0", "a1", "q2", "a3", "q4", "a5"]);
}

#[test]
fn a_tab_that_shows_another_branch_is_told() {
    let (memory, prompt) = shared();
    talk(&prompt);
    let branch = prompt.page(None, 9).unwrap().branch.unwrap();
    let tab = || {
        let prompt = MemoryPrompt::new(Arc::clone(&memory)).window(Window::all());
        prompt.with_branches_by(|view| view.expecting(branch))
    };
    let first = tab();
    first.edit(2, Message::user("x2")).unwrap();
    first.add(Message::ai("x3")).unwrap(); // its own change is followed
    let second = tab();
    assert_eq!(second.edit(2, Message::user("?")).unwrap_err().kind(), ErrorKind::SlotConflict);
    let error = second.add(Message::user("?")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SlotConflict);
    assert_eq!(said(&first), ["q0", "a1", "x2", "x3"]);
}

#[test]
fn an_edit_while_a_turn_runs_is_busy() {
    let (memory, prompt) = shared();
    let conversation = Arc::new(std::sync::OnceLock::<Conversation>::new());
    let own = Arc::clone(&conversation);
    let model = move |_: &Asking<'_>| -> Result<String, ModelError> {
        let conversation = own.get().unwrap();
        let asked = [Action::Regenerate, Action::Edit(0, "q".into()), Action::Undo];
        let asked = asked.map(|action| conversation.act(action).unwrap_err());
        let own = [conversation.undo().unwrap_err(), conversation.regenerate().unwrap_err()];
        for error in asked.into_iter().chain(own) {
            assert!(matches!(error.kind(), ErrorKind::Busy { .. }), "{error}");
        }
        Ok("a1".to_owned())
    };
    let built = Conversation::new(prompt, model).when_busy(WhenBusy::Proceed);
    let conversation = conversation.get_or_init(|| built);
    conversation.say("q0").unwrap();
    assert_eq!(memory.len().unwrap(), 2);
    assert_eq!(conversation.undo().unwrap(), Some(0));
}

/// Rows were deleted by hand, which a memory does not list. A new answer to the newest question
/// read for ever, and an undo four thousand times.
#[test]
fn a_question_that_is_nowhere_is_not_looked_for_again() {
    let memory = Arc::new(DefaultChatMemory::new());
    let loses = Changing(Arc::clone(&memory), |read| read.records = Records::default());
    let prompt = MemoryPrompt::new(loses).with_branches();
    prompt.add_all((0..20).map(|n| Message::user(format!("q{n}")))).unwrap();
    let chat = Conversation::new(prompt, Scripted::new());
    assert_eq!(chat.regenerate().unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(chat.undo().unwrap(), None);
}

/// It changes what it reads.
#[derive(Debug)]
pub(crate) struct Changing(pub(crate) Arc<DefaultChatMemory>, pub(crate) fn(&mut Snapshot));

impl ChatMemory for Changing {
    inside!(0: id append append_with read evict clear slots limits);

    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        let mut snapshot = self.0.read_with(read)?;
        (self.1)(&mut snapshot);
        Ok(snapshot)
    }
}

/// The laptop deleted the conversation, and the phone repeated what it had said: it was asked, and
/// stored in a new conversation.
#[test]
fn what_is_said_on_a_branch_of_a_deleted_conversation_is_refused() {
    let store = InMemoryStore::new();
    let chat = |branch: Option<Incarnation>| {
        let prompt = MemoryPrompt::new(store.memory("a").unwrap());
        let prompt = prompt.with_branches_by(|view| view.expecting(branch));
        Conversation::new(prompt, Scripted::new().says("a1"))
    };
    chat(None).say("q0").unwrap();
    let seen = chat(None).page(None, 1).unwrap().branch;
    store.delete(&"a".into()).unwrap();
    assert_eq!(chat(seen).say("q0").unwrap_err().kind(), ErrorKind::SlotConflict);
    assert_eq!(store.info(&"a".into()).unwrap(), None);
    chat(None).say("q0").unwrap();
}

/// A person asked for another answer while the newest question was answered. The page's action did
/// not wait for that: it answered the question before anew, and what had been asked last was gone.
#[test]
fn a_new_answer_that_waits_is_to_the_question_that_was_answered_meanwhile() {
    let (asked, is_asked) = std::sync::mpsc::channel();
    let (go, goes) = std::sync::mpsc::channel::<()>();
    let (goes, answers) = (std::sync::Mutex::new(goes), AtomicUsize::new(0));
    let model = move |_: &Asking<'_>| -> Result<String, ModelError> {
        let answer = answers.fetch_add(1, Ordering::Relaxed);
        if answer == 1 {
            asked.send(())?;
            goes.lock().unwrap().recv()?;
        }
        Ok(format!("a{answer}"))
    };
    let chat = Conversation::new(shared().1, model).when_busy(WhenBusy::Wait);
    chat.say("q0").unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| chat.say("q2").unwrap());
        is_asked.recv().unwrap();
        let anew = scope.spawn(|| chat.act(Action::Regenerate).unwrap().unwrap());
        std::thread::sleep(Duration::from_millis(50)); // it waits, or not
        go.send(()).unwrap();
        chat.say(anew.join().unwrap()).unwrap();
    });
    assert_eq!(said(chat.prompt()), ["q0", "a0", "q2", "a2"]);
    assert_eq!(chat.page(None, 1).unwrap().entries[0].variants, 2);
}

#[test]
fn an_edit_in_a_tool_group_goes_to_its_edge() {
    let call = Message::from(AiMessage::from_parts([ToolCall::new("c1", "now", "{}")]));
    let result = Message::tool("c1", "now", "noon");
    let group = [Message::user("q0"), call, result, Message::ai("a3")];
    let (memory, prompt) = shared();
    prompt.add_all(group).unwrap();
    assert_eq!(prompt.edit(2, Message::ai("no idea")).unwrap(), 1);
    assert_eq!(said(&prompt), ["q0", "no idea"]);
    prompt.undo().unwrap();

    let strict = BranchView::new(memory).within_groups(WithinGroup::Fail);
    let error = strict.edit(2, Message::ai("?")).unwrap_err();
    assert_eq!(error.to_string(), "edit: the message at position 2 is a result of the call at 1");
    assert_eq!(strict.edit(1, Message::ai("?")).unwrap(), 1);
}

#[test]
fn pins_summaries_and_system_messages_are_of_their_branch() {
    let (_, prompt) = shared();
    let prompt = prompt.with_pins().with_summary();
    talk(&prompt);
    prompt.add(Message::system("Be brief.")).unwrap();
    prompt.pin(0).unwrap();
    prompt.pin(3).unwrap();
    let due = |text: &'static str| move |_: &Compaction| Ok::<_, std::io::Error>(text.to_owned());
    let policy = CompactionPolicy::messages(1, 1).unwrap();
    assert!(prompt.compact(&policy, &due("two were said")).unwrap());
    assert_eq!(prompt.summary().unwrap().unwrap().covers, 2);

    prompt.edit(3, Message::ai("x3")).unwrap();
    assert_eq!(prompt.pins().unwrap(), [0], "3 is another message here");
    assert_eq!(prompt.summary().unwrap().unwrap().covers, 2);
    prompt.pin(2).unwrap();
    prompt.add(Message::system("Be long.")).unwrap();
    let branches = prompt.branches().unwrap();
    prompt.edit(1, Message::ai("y1")).unwrap();
    assert_eq!(prompt.summary().unwrap(), None, "it covers what is left");
    assert_eq!(prompt.memory().system().unwrap().unwrap().text(), "Be long.", "set before");

    prompt.switch(&branches[0]).unwrap();
    assert_eq!(prompt.pins().unwrap(), [0, 3]);
    assert_eq!(prompt.memory().system().unwrap().unwrap().text(), "Be brief.");
    prompt.switch(&branches[1]).unwrap();
    assert_eq!(prompt.pins().unwrap(), [0, 2]);
    assert_eq!(prompt.memory().system().unwrap().unwrap().text(), "Be long.");
    let names = prompt.memory().slots().unwrap();
    assert!(names.iter().all(|it| it.0.starts_with("prompt:") && it.0 != "prompt:branches"));
}

#[test]
fn an_append_that_comes_again_is_where_it_was() {
    use memory_prompt::memory::Append;
    let (memory, prompt) = shared();
    talk(&prompt);
    prompt.edit(2, Message::user("x2")).unwrap();
    let update = || Append::new([Message::ai("x3")]).with_id("4711").expecting(3);
    let first = prompt.memory().append_with(&mut update()).unwrap();
    assert_eq!(first.positions, 3..4);
    prompt.add(Message::user("x4")).unwrap();
    let again = prompt.memory().append_with(&mut update()).unwrap();
    assert!(again.repeated);
    assert_eq!(again.positions, 3..4);
    let mut other = Append::new([Message::ai("?")]).expecting(3);
    let error = prompt.memory().append_with(&mut other).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Conflict { expected: 3, actual: 5 });
    assert_eq!(other.messages.len(), 1);
    assert_eq!(memory.len().unwrap(), 7);
}

/// A request came again when its turn had been left: it was asked a second time.
#[test]
fn a_request_that_comes_again_is_answered_where_it_was() {
    let (memory, prompt) = shared();
    let conversation = Conversation::new(prompt, Scripted::new().says("one").says("two"));
    let first = || Turn::from("count").with_id("r1");
    let second = || Turn::from("count again").with_id("r2");
    assert_eq!(conversation.say(first()).unwrap().text(), "one");
    assert_eq!(conversation.edit(0, second()).unwrap().text(), "two");
    let stored = memory.len().unwrap();
    assert_eq!(conversation.say(first()).unwrap().text(), "one");
    assert_eq!(conversation.edit(0, second()).unwrap().text(), "two");
    assert_eq!(memory.len().unwrap(), stored);
    assert_eq!(said(conversation.prompt()), ["count again", "two"]);
    assert_eq!(conversation.branches().unwrap().len(), 2);
}

/// An answer was made anew, its user talked on and edited what came behind it. The request came
/// again, and its client was handed the answer without its question, at another position.
#[test]
fn a_new_answer_that_is_asked_for_again_is_the_same_behind_an_edit() {
    let (_, prompt) = shared();
    let model = Scripted::new().says("a1").says("b1").says("a3").says("b3");
    let chat = Conversation::new(prompt, model);
    chat.say("q0").unwrap();
    let anew = || chat.say(chat.prompt().regenerate().unwrap().with_id("r1"));
    let first = anew().unwrap();
    chat.say("q2").unwrap();
    chat.edit(2, "x2").unwrap();
    let again = anew().unwrap();
    assert_eq!((again.positions, again.ended), (first.positions, Ended::Adopted));
    assert_eq!(again.messages, first.messages);
}

/// Both branches have the question of an answer that was made anew, and the current one was taken
/// for the request's: its client was handed another answer, or paid a second time.
#[test]
fn a_request_that_comes_again_behind_a_new_answer_has_its_own() {
    let (memory, prompt) = shared();
    let model = Scripted::new().calls("pay", json!({})).says("Paid.");
    let model = model.says("I can't pay.").says("In Italy.");
    let paid = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&paid);
    let chat = Conversation::new(prompt, model).tool(Tool::new("pay", "Pays."), move |_: Value| {
        counted.fetch_add(1, Ordering::Relaxed);
        Ok("receipt 1")
    });
    let request = || Turn::from("Pay the rent.").with_id("request 1");
    let first = chat.say(request()).unwrap();
    for change in 0..3 {
        match change {
            1 => drop(chat.regenerate().unwrap()),
            2 => drop(chat.say("Where is Rome?").unwrap()),
            _ => {}
        }
        let stored = memory.len().unwrap();
        let again = chat.say(request()).unwrap();
        assert_eq!((again.ended, again.text()), (Ended::Adopted, first.text()), "{change}");
        assert_eq!(again.positions, first.positions, "{change}");
        assert_eq!(memory.len().unwrap(), stored, "nothing is stored twice");
    }
    assert_eq!(paid.load(Ordering::Relaxed), 1);
}

#[test]
fn a_memory_without_slots_says_so() {
    #[derive(Debug)]
    struct Plain(DefaultChatMemory);
    impl ChatMemory for Plain {
        inside!(0: id append read evict clear);
    }
    let prompt = MemoryPrompt::new(Plain(DefaultChatMemory::new())).with_branches();
    talk(&prompt);
    assert_eq!(shown(&prompt.page(None, 2).unwrap()), ["q2", "a3"]);
    let error = prompt.edit(0, Message::user("?")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let without = MemoryPrompt::new(DefaultChatMemory::new());
    assert_eq!(without.undo().unwrap_err().kind(), ErrorKind::Invalid);
}

/// A fork of one's own copied everything: 0.7 s and 3.7 MiB for each new answer on 10,000 messages.
#[test]
#[cfg(feature = "sqlite")]
fn a_new_answer_on_a_long_history_copies_none_of_it() {
    use memory_prompt::SqliteStore;
    use memory_prompt::store::Durability;
    let folder = crate::folder::Folder::new();
    let store = SqliteStore::options().durability(Durability::Process);
    let memory = store.open(folder.file("chat.db")).unwrap().memory("ada").unwrap();
    let memory: Arc<dyn ChatMemory> = Arc::new(memory);
    let said = |i: u64| {
        let text = format!("message {i} of a long conversation");
        if i.is_multiple_of(2) { Message::user(text) } else { Message::ai(text) }
    };
    memory.add_all((0..10_000).map(said)).unwrap();
    let another = |_: &Asking<'_>| Ok::<_, ModelError>("another one".to_owned());
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).with_branches();
    let conversation = Conversation::new(prompt, another);
    let median = |work: &dyn Fn()| {
        let mut times: Vec<_> = (0..50)
            .map(|_| {
                let began = std::time::Instant::now();
                work();
                began.elapsed()
            })
            .collect();
        times.sort_unstable();
        times[25]
    };
    let anew = median(&|| drop(conversation.regenerate().unwrap()));
    assert_eq!(memory.len().unwrap(), 10_050, "an answer each, and nothing else");
    let slot = memory.slot("prompt:branches").unwrap().unwrap().content().len();
    assert!(slot < 50 * 200, "{slot} bytes");
    assert_eq!(conversation.page(None, 1).unwrap().entries[0].variants, 51);
    let said = median(&|| drop(conversation.say("And then?").unwrap()));
    println!("a new answer {anew:?}, a turn {said:?}, {slot} bytes of branches after 50");
}

/// A turn reads its own branch, whichever is current by then: in the middle of its run somebody
/// edits in another tab.
#[test]
fn a_tool_reads_the_branch_of_its_turn() {
    let (memory, prompt) = shared();
    let (read_back, view) = (ReadBack::new(), Arc::clone(prompt.memory()));
    let (search, searched) = (SearchHistory::new(), Arc::clone(prompt.memory()));
    let model = Scripted::new()
        .says("Hello Ada.")
        .calls("edit", json!({}))
        .calls("read_back", json!({"message": 0}))
        .calls("search_history", json!({"query": "Where does the unicorn live?"}))
        .says("You are Ada.");
    let conversation = Conversation::new(prompt, model)
        .tool(Tool::new("edit", "Edits."), move |_: Value| {
            let other = branched(&memory);
            other.edit(0, Message::user("I am Bob, my unicorn lives in Rome.")).unwrap();
            Ok("edited")
        })
        .tool_call(read_back.tool(), move |call| read_back.run_call(&view, call))
        .tool_call(search.tool(), move |call| search.run_call(&searched, call));
    conversation.say("I am Ada, my unicorn lives in Oslo.").unwrap();
    let done = conversation.say("Who am I?").unwrap();
    let texts: Vec<_> = done.messages.iter().map(|it| it.text().into_owned()).collect();
    assert!(texts[4].contains("I am Ada"), "{texts:?}");
    assert!(texts[6].contains("Oslo") && !texts[6].contains("Rome"), "{texts:?}");
}

/// A new answer fails behind a tool, and its request comes again: it is the current one then.
#[test]
fn a_new_answer_that_its_retry_completes_is_current() {
    for edits in [false, true] {
        let (_, prompt) = shared();
        let model = Scripted::new().says("In Sweden.").calls("look_up", json!({})).fails("down");
        let conversation = Conversation::new(prompt, model.says("In Norway."))
            .tool(Tool::new("look_up", "Looks up."), |_: Value| Ok("Norway"));
        conversation.say("Where is Oslo?").unwrap();
        let again = || {
            let prompt = conversation.prompt();
            let turn = if edits {
                prompt.edit_turn(0, "Where is the capital?")
            } else {
                prompt.regenerate()
            };
            conversation.say(turn.unwrap().with_id("request 7"))
        };
        assert_eq!(again().unwrap_err().kind(), ErrorKind::Model);
        assert_eq!(said(conversation.prompt()), ["Where is Oslo?", "In Sweden."]);
        assert_eq!(again().unwrap().text(), "In Norway.");
        let page = shown(&conversation.page(None, 9).unwrap());
        assert_eq!(page.last().map(String::as_str), Some("In Norway."), "edits: {edits}");
        assert_eq!(again().unwrap().text(), "In Norway.");
        assert_eq!(shown(&conversation.page(None, 9).unwrap()), page);
        conversation.undo().unwrap();
        assert_eq!(said(conversation.prompt()), ["Where is Oslo?", "In Sweden."]);
    }
}

/// A payment takes long, and the user talks on. Whatever is edited, answered anew or taken back
/// behind the call, its result stands where the call does: before and after it has come.
#[test]
fn a_late_result_is_on_each_branch_that_has_its_call() {
    for (comes_first, comes_meanwhile) in [(true, false), (false, true), (false, false)] {
        let (memory, prompt) = shared();
        let model = Scripted::new().calls("pay", json!({})).says("I don't know yet.");
        let model = model.says("Sunny.").says("Cloudy.").says("Foggy.").says("Hello.");
        let (conversation, go) = too_slow(prompt, model);
        conversation.say("Pay Ann.").unwrap();
        conversation.say("And the weather?").unwrap();
        let comes = || {
            go.send(()).unwrap();
            assert_eq!(conversation.finish(Duration::from_secs(9)), 0);
        };
        let told = || {
            let prompt = conversation.prompt().preview().unwrap();
            let told = prompt.iter().filter_map(Message::as_tool).map(|it| it.content().text());
            told.map(std::borrow::Cow::into_owned).collect::<Vec<_>>()
        };
        if comes_first {
            comes();
            assert_eq!(told(), ["paid"]);
        }
        // The model of the new answer is told too, before anything of its branch is stored.
        let mut turn = conversation.prompt().regenerate().unwrap();
        let Next::Ask(ask) = turn.next(conversation.prompt()).unwrap() else { panic!("no ask") };
        assert_eq!(ask.prompt()[2].text() == "paid", comes_first);
        if comes_meanwhile {
            comes();
        }
        turn.answer("Rainy.").unwrap();
        assert!(matches!(turn.next(conversation.prompt()), Ok(Next::Done(_))));
        if !comes_first && !comes_meanwhile {
            comes();
        }
        assert_eq!(told(), ["paid"], "comes first: {comes_first}, meanwhile: {comes_meanwhile}");
        conversation.edit(4, "And in Rome?").unwrap();
        assert_eq!(told(), ["paid"]);
        conversation.undo().unwrap();
        conversation.undo().unwrap();
        conversation.undo().unwrap();
        assert_eq!(conversation.page(None, 9).unwrap().entries.len(), 4);
        assert_eq!(told(), ["paid"]);
        // As any other process sees it.
        assert_eq!(branched(&memory).preview().unwrap()[2].text(), "paid");
        conversation.say("And now?").unwrap();
        assert_eq!(told(), ["paid"]);
        // What stands before the call is another branch without it.
        conversation.edit(0, "Hello.").unwrap();
        assert!(told().is_empty());
    }
}

/// Each undo made a branch, with its slots, and each redo left it for good: who went to and fro in
/// a chat had it grow for ever.
#[test]
fn who_goes_to_and_fro_leaves_nothing_behind() {
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).with_branches().with_pins();
    for text in ["a", "c"] {
        prompt.add_all([Message::user(text), Message::ai(text)]).unwrap();
    }
    prompt.pin(0).unwrap();
    for n in 0..50 {
        assert_eq!(prompt.undo().unwrap(), Some(2));
        assert_eq!(prompt.pins().unwrap(), if n < 49 { vec![0] } else { vec![] }, "{n}");
        assert_eq!(prompt.redo().unwrap(), Some(2));
        if n == 48 {
            assert!(memory.slots().unwrap().len() < 5, "{:?}", memory.slots());
            prompt.unpin(0).unwrap();
        }
    }
}

/// A slot of branches from a damaged export named a branch that is not there: what was said from
/// then on was stored, and nobody ever saw it.
#[test]
fn a_slot_that_names_branches_that_are_not_there_is_refused() {
    let line = r#""id":null,"parent":0,"at":0,"ranges":[[0,9]]"#;
    for (slot, is_sound) in [
        (format!(r#"{{"version":1,"current":0,"lines":[{{{line}}}],"undo":[],"redo":[]}}"#), true),
        (format!(r#"{{"version":1,"current":9,"lines":[{{{line}}}],"undo":[],"redo":[]}}"#), false),
        (r#"{"version":1,"current":0,"lines":[],"undo":[],"redo":[]}"#.to_owned(), false),
        (
            format!(
                r#"{{"version":1,"current":0,"lines":[{{{line}}}],"undo":[{{"line":1}}],"redo":[]}}"#
            ),
            false,
        ),
        (
            format!(
                r#"{{"version":1,"current":0,"lines":[{{"keep":{},{line}}}],"undo":[],"redo":[]}}"#,
                u64::MAX
            ),
            false,
        ),
    ] {
        let (memory, prompt) = shared();
        let append = Append::default().set_slot("prompt:branches", slot.clone(), Expected::Absent);
        memory.append_with(&mut append.clone()).unwrap();
        let added = prompt.add(Message::user("q"));
        assert_eq!(
            added.map_err(|error| error.kind()).err(),
            (!is_sound).then_some(ErrorKind::Codec),
            "{slot}"
        );
        assert_eq!(memory.next_position().unwrap(), u64::from(is_sound), "{slot}");
    }
}

/// Two summaries, of what stands before 10 and before 22.
fn summarised() -> MemoryPrompt {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    let prompt = prompt.max_messages(4).with_branches().with_summary();
    let policy = CompactionPolicy::messages(2, 4).unwrap();
    for (text, covers) in [("one", 10), ("two", 22)] {
        for n in 0..6 {
            prompt.add_all([Message::user(format!("q{n}")), Message::ai(format!("a{n}"))]).unwrap();
        }
        let due = prompt.compaction(&policy).unwrap().unwrap();
        assert_eq!(due.covers, covers);
        prompt.commit(&due, text).unwrap();
    }
    prompt
}

/// An old message was edited. The first answer was made without any summary, since the newest one
/// covers more, and no earlier one was read.
#[test]
fn a_question_in_the_place_of_an_old_one_has_the_summary_before_it() {
    let prompt = summarised();
    let mut turn = prompt.edit_turn(14, "Something else?").unwrap();
    let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!("it asks") };
    assert!(ask.prompt().iter().any(|it| it.text().contains("one")));
}

/// A branch that was made on a branch took no earlier summary along, so one further back had none.
#[test]
fn a_branch_of_a_branch_has_the_summary_of_what_all_share() {
    for is_edited_before in [false, true] {
        let prompt = summarised();
        if is_edited_before {
            prompt.edit(23, Message::ai("b5")).unwrap();
            assert_eq!(prompt.summary().unwrap().unwrap().text, "two");
        }
        prompt.edit(14, Message::user("Something else?")).unwrap();
        assert_eq!(prompt.summary().unwrap().map(|it| it.text).as_deref(), Some("one"));
    }
}

/// A page was logged, and the log held what the application had told the model.
#[test]
fn debug_of_a_page_holds_no_text() {
    let (_, prompt) = shared();
    prompt.add_all([Message::system("a secret"), Message::user("a secret")]).unwrap();
    let page = prompt.page(None, 10).unwrap();
    assert!(page.system.is_some() && page.entries.len() == 1);
    let shown = format!("{page:?}");
    assert!(shown.contains("positions: 0..1") && !shown.contains("a secret"), "{shown}");
}
