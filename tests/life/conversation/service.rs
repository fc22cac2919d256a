//! What a web service needs in addition to questions: what its page asks for, a turn that is found
//! again, and a status for errors.

use memory_prompt::Error;
use memory_prompt::conversation::Action;
use memory_prompt::error::Decided;
use memory_prompt::history::{Entry, Page};
use memory_prompt::memory::Append;
use memory_prompt::record::Incarnation;
use memory_prompt::turn::Done;

use super::either::{BOTH, Either, does};
use super::faults::Slow;
use super::*;

/// A conversation whose model may book, on the branch that a page shows.
fn chat(
    is_async: bool,
    memory: &Arc<DefaultChatMemory>,
    model: &Scripted,
    shown: Option<Incarnation>,
) -> Either {
    let (model, book) = (model.clone(), |_: serde_json::Value| Ok("booked".to_owned()));
    let chat = if is_async {
        let prompt = MemoryPrompt::new_async(Slow(Arc::clone(memory)));
        let prompt = prompt.with_branches_by(|view| view.expecting(shown));
        Either::Async(Conversation::new_async(prompt, model))
    } else {
        let prompt = MemoryPrompt::new(Arc::clone(memory));
        let prompt = prompt.with_branches_by(|view| view.expecting(shown));
        Either::Blocking(Conversation::new(prompt, model))
    };
    chat.tool(Tool::new("book", "Books."), book)
}

impl Either {
    fn stored_turn(&self, id: &str) -> Option<Done> {
        does!(self, it => it.prompt().stored_turn(id)).unwrap()
    }

    fn act(&self, action: Action) -> Result<Option<Turn>> {
        does!(self, it => it.act(action))
    }

    fn page(&self) -> Page {
        does!(self, it => it.page(None, 100)).unwrap()
    }

    /// Does what a page asks for, and answers if an answer is needed; returns its id.
    fn do_it(&self, action: Action) -> Result<String> {
        let Some(turn) = self.act(action)? else { return Ok(String::new()) };
        let id = turn.id().to_owned();
        self.say(turn).map(|_| id)
    }

    /// What the page shows: each text, with `< 2/3 >`.
    fn shown(&self) -> Vec<String> {
        let row = |it: &Entry| match it.branches.len() {
            0 | 1 => it.message.text().into_owned(),
            all => format!("{} < {}/{all} >", it.message.text(), it.variant),
        };
        let page = self.page();
        let is_known = |it: &Entry| it.variants == it.branches.len().max(1);
        assert!(page.entries.iter().all(is_known), "{page:?}");
        page.entries.iter().rev().map(row).collect()
    }
}

fn texts(done: &Done) -> Vec<String> {
    done.messages.iter().map(|it| it.text().into_owned()).collect()
}

/// A client that lost the connection in the middle of an answer had to mark the question with a
/// number of its own, and to search the newest messages for it. A regenerated answer, whose
/// question is not stored again, could not be found at all.
#[test]
fn what_is_stored_of_a_turn_is_found_by_its_id() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().says("In Norway.").fails("overloaded");
        let chat = chat(is_async, &memory, &model.calls("book", "{}").says("It is booked."), None);
        let ask = |question: &str| {
            let turn = Turn::from(question);
            let id = turn.id().to_owned();
            assert!(chat.stored_turn(&id).is_none());
            (id, chat.say(turn))
        };
        let (id, done) = ask("Where is Oslo?");
        let (stored, done) = (chat.stored_turn(&id).unwrap(), done.unwrap());
        assert_eq!((&stored.messages, &stored.positions), (&done.messages, &done.positions));
        assert_eq!((stored.text(), stored.ended), ("In Norway.".to_owned(), Ended::Adopted));
        assert!(stored.waiting().is_empty() && stored.prompt().is_none());

        let (id, error) = ask("And Rome?");
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Model);
        assert!(chat.stored_turn(&id).is_none());
        // Its checkpoint has the id, and the whole stands behind that.
        let (id, done) = ask("Book it.");
        let stored = chat.stored_turn(&id).unwrap();
        assert_eq!(texts(&stored), ["Book it.", "", "booked", "It is booked."]);
        assert_eq!((stored.positions, stored.messages), (2..6, done.unwrap().messages));

        for unknown in ["", "0123456789abcdef", "checkpoint:0123456789abcdef"] {
            assert!(chat.stored_turn(unknown).is_none());
        }
        memory.evict(5).unwrap();
        assert_eq!(texts(&chat.stored_turn(&id).unwrap()), ["It is booked."]);
        (0..70).for_each(|n| {
            let mut other = Append::new([Message::user("Hi.")]);
            other.id = Some(n.to_string());
            memory.append_with(&mut other).unwrap();
        });
        assert!(chat.stored_turn(&id).is_none(), "its id is forgotten");
    }
}

/// If a request was stored without an answer, and then answered, its newest part is what the client
/// was receiving.
#[test]
fn of_a_request_that_went_on_the_newest_part_is_found() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().calls("book", "{}").fails("overloaded").says("It is booked.");
        let chat = chat(is_async, &memory, &model, None);
        let request = || Turn::from("Book it.").with_id("request 4711");
        chat.say(request()).unwrap_err();
        let stored = chat.stored_turn("request 4711").unwrap();
        assert_eq!((texts(&stored).len(), stored.text()), (3, String::new()));
        let done = chat.say(request()).unwrap();
        let stored = chat.stored_turn("request 4711").unwrap();
        assert_eq!((stored.text(), &stored.positions), (done.text(), &done.positions));
        assert_eq!(texts(&stored), ["It is booked."]);
    }
}

#[test]
fn a_turn_is_found_on_whichever_branch_it_is_stored() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().says("In Sweden.").says("In Norway.").says("In Italy.");
        let open = |shown| chat(is_async, &memory, &model, shown);
        let chat = open(None);
        let ids = [
            Action::Say("Where is Oslo?".into()),
            Action::Regenerate,
            Action::Edit(0, "Where is Rome?".into()),
        ];
        let ids = ids.map(|action| chat.do_it(action).unwrap());
        assert_eq!(chat.shown(), ["Where is Rome? < 2/2 >", "In Italy."]);
        for chat in [&chat, &open(None)] {
            let found = ids.each_ref().map(|id| chat.stored_turn(id).unwrap());
            assert_eq!(found.each_ref().map(Done::text), ["In Sweden.", "In Norway.", "In Italy."]);
        }
    }
}

#[test]
fn a_page_asks_for_what_the_conversation_does() {
    for is_async in BOTH {
        let memory = Arc::new(DefaultChatMemory::new());
        let model = Scripted::new().says("a1").says("a1 anew").says("b1").says("c1");
        let open = |shown| chat(is_async, &memory, &model, shown);
        // A page of nothing names no branch.
        let chat = open(open(None).page().branch);
        assert_eq!(chat.act(Action::Regenerate).unwrap_err().kind(), ErrorKind::Invalid);
        assert!(chat.act(Action::Undo).unwrap().is_none());
        chat.do_it(Action::Say("a".into())).unwrap();
        assert_eq!(chat.shown(), ["a", "a1"]);
        let left = chat.page().branch;
        chat.do_it(Action::Regenerate).unwrap();
        assert_eq!(chat.shown(), ["a", "a1 anew < 2/2 >"]);
        let to = chat.page().entries[0].branches[0];
        assert_eq!(Some(to), left);
        chat.do_it(Action::Switch(to)).unwrap();
        assert_eq!(chat.shown(), ["a", "a1 < 1/2 >"]);
        chat.do_it(Action::Edit(0, "b".into())).unwrap();
        assert_eq!(chat.shown(), ["b < 2/2 >", "b1"]);
        chat.do_it(Action::Undo).unwrap();
        assert_eq!(chat.shown(), ["a < 1/2 >", "a1 < 1/2 >"]);
        chat.do_it(Action::Redo).unwrap();
        assert_eq!(chat.shown(), ["b < 2/2 >", "b1"]);

        // Another tab shows what was left since.
        let other = open(left);
        for action in [
            Action::Say("c".into()),
            Action::Edit(0, "c".into()),
            Action::Regenerate,
            Action::Switch(to),
            Action::Undo,
            Action::Redo,
        ] {
            let refused = other.do_it(action.clone()).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::SlotConflict, "{action:?}");
            assert_eq!(refused.http_status(), 409);
        }
        open(open(None).page().branch).do_it(Action::Say("c".into())).unwrap();
        assert_eq!(chat.shown(), ["b < 2/2 >", "b1", "c", "c1"]);
        assert_eq!(memory.len().unwrap(), 7, "nothing is stored twice, and nothing rewritten");
        let nowhere = chat.act(Action::Switch(Incarnation::random())).unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::Invalid);
    }
}

fn status(kind: ErrorKind) -> u16 {
    use ErrorKind as Kind;
    match kind {
        Kind::Invalid | Kind::Provider => 400,
        Kind::Budget { .. } => 413,
        Kind::Conflict { .. }
        | Kind::SlotConflict
        | Kind::Forgotten
        | Kind::Exists
        | Kind::Busy { .. }
        | Kind::Adopted
        | Kind::Decided(_) => 409,
        Kind::Model | Kind::Codec => 502,
        Kind::Refused { retryable, .. } => 502 + u16::from(retryable),
        Kind::Storage | Kind::Unacknowledged => 503,
        Kind::Unanswered { .. } | Kind::Unfinished => 504,
        Kind::ToolGroup | Kind::Truncate | Kind::Count | Kind::Unsupported => 500,
        other => panic!("{other:?} has no status here"),
    }
}

#[test]
fn each_kind_of_error_has_a_status() {
    let refused = |retryable| ErrorKind::Refused { code: None, status: Some(418), retryable };
    for kind in [
        ErrorKind::Invalid,
        ErrorKind::ToolGroup,
        ErrorKind::Provider,
        ErrorKind::Truncate,
        ErrorKind::Count,
        ErrorKind::Budget { needed: 2, budget: 1 },
        ErrorKind::Conflict { expected: 1, actual: 2 },
        ErrorKind::Codec,
        refused(false),
        refused(true),
        ErrorKind::Unfinished,
        ErrorKind::Unanswered { sent: true },
        ErrorKind::SlotConflict,
        ErrorKind::Forgotten,
        ErrorKind::Model,
        ErrorKind::Busy { since: None },
        ErrorKind::Adopted,
        ErrorKind::Decided(Decided::Gone),
        ErrorKind::Exists,
        ErrorKind::Unsupported,
        ErrorKind::Storage,
        ErrorKind::Unacknowledged,
    ] {
        assert_eq!(Error::new(kind, "say", "no").http_status(), status(kind), "{kind:?}");
    }
}
