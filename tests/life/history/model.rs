//! Random histories against plain copies: each branch of the model is a list of its own, copied
//! whole where the memory shares it.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use memory_prompt::history::Variant;
use memory_prompt::record::Incarnation;
use memory_prompt::store::Durability;
use memory_prompt::{AsyncChatMemory, InMemoryStore, SqliteStore};
use proptest::prelude::*;

use super::*;
use crate::conversation::faults::{Slow, polled};
use crate::counted::counted;
use crate::folder::Folder;

pub(super) fn block_on<T>(future: impl Future<Output = T>) -> T {
    polled(future, usize::MAX).unwrap()
}

/// What a tab has: a prompt of its own, which knows nothing of the other one.
enum Tab {
    Now(MemoryPrompt),
    Later(MemoryPrompt<dyn AsyncChatMemory>),
}

macro_rules! ask {
    ($tab:expr, $method:ident($($argument:expr),*)) => {
        match $tab {
            Tab::Now(prompt) => prompt.$method($($argument),*),
            Tab::Later(prompt) => block_on(prompt.$method($($argument),*)),
        }
    };
}

impl Tab {
    fn of(memory: &Arc<dyn ChatMemory>, is_async: bool, is_plain: bool) -> Self {
        if is_async {
            let prompt = MemoryPrompt::new_async(Slow(Arc::clone(memory)));
            let prompt = prompt.window(Window::all()).with_branches();
            Self::Later(if is_plain { prompt } else { prompt.with_pins().with_summary() })
        } else {
            let prompt = MemoryPrompt::new(Arc::clone(memory));
            let prompt = prompt.window(Window::all()).with_branches();
            Self::Now(if is_plain { prompt } else { prompt.with_pins().with_summary() })
        }
    }

    /// Asks the model that a turn wants to be asked; the turn then waits for the answer.
    fn begin(&self, turn: &mut Turn) {
        let next = match self {
            Self::Now(prompt) => turn.next(prompt),
            Self::Later(prompt) => block_on(turn.next_async(prompt)),
        };
        assert!(matches!(next, Ok(Next::Ask(_))), "{next:?}");
    }

    fn answer(&self, turn: &mut Turn, text: &str) -> Range<u64> {
        turn.answer(text).unwrap();
        let next = match self {
            Self::Now(prompt) => turn.next(prompt),
            Self::Later(prompt) => block_on(turn.next_async(prompt)),
        };
        match next.unwrap() {
            Next::Done(done) => done.positions,
            other => panic!("{other:?}"),
        }
    }

    fn summarize(&self) -> bool {
        let policy = CompactionPolicy::messages(2, 2).unwrap();
        let text = |due: &Compaction| Ok::<_, std::io::Error>(format!("up to {}", due.covers));
        match self {
            Self::Now(prompt) => prompt.compact(&policy, &text).unwrap(),
            Self::Later(prompt) => {
                block_on(prompt.compact(&policy, |due| async move { text(&due) })).unwrap()
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    /// True is a message of the user.
    Append(Vec<bool>),
    Say,
    Edit(usize, bool),
    EditTurn(usize),
    Regenerate,
    /// A new answer of which nothing comes.
    Fail,
    Undo,
    Redo,
    Switch(usize, usize),
    Pin(usize),
    Summarize,
    System,
    Evict(usize),
    Clear,
    /// A turn, or a new answer, that is begun before these are done in the other tab, and stored
    /// behind them.
    Around(bool, Vec<Self>),
}

fn simple() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => proptest::collection::vec(any::<bool>(), 1..4).prop_map(Op::Append),
        4 => Just(Op::Say),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(at, user)| Op::Edit(at, user)),
        2 => any::<usize>().prop_map(Op::EditTurn),
        3 => Just(Op::Regenerate),
        1 => Just(Op::Fail),
        4 => Just(Op::Undo),
        3 => Just(Op::Redo),
        3 => (any::<usize>(), any::<usize>()).prop_map(|(at, to)| Op::Switch(at, to)),
        2 => any::<usize>().prop_map(Op::Pin),
        1 => Just(Op::Summarize),
        1 => Just(Op::System),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        20 => simple(),
        1 => any::<usize>().prop_map(Op::Evict),
        1 => Just(Op::Clear),
        3 => around(),
    ]
}

fn around() -> impl Strategy<Value = Op> {
    let ops = proptest::collection::vec(simple(), 1..4);
    (any::<bool>(), ops).prop_map(|(is_new, ops)| Op::Around(is_new, ops))
}

/// What both tabs do, often with a turn that begins before anything else.
fn ops() -> impl Strategy<Value = Vec<(bool, Op)>> {
    let first = proptest::option::weighted(0.3, (any::<bool>(), around()));
    let ops = proptest::collection::vec((any::<bool>(), op()), 1..24);
    (first, ops).prop_map(|(first, ops)| first.into_iter().chain(ops).collect())
}

/// One branch, whole.
#[derive(Clone, Default)]
struct Copy {
    /// The number of each message, and whether the user said it.
    messages: Vec<(u64, bool)>,
    pins: BTreeSet<u64>,
    summaries: Vec<u64>,
    system: Option<String>,
}

#[derive(Default)]
struct Model {
    copies: Vec<Copy>,
    current: usize,
    /// The position of the first message of each copy: 0 until the conversation was cleared.
    base: u64,
    /// The number of the next message; those before `gone` are evicted.
    next: u64,
    gone: u64,
    /// The copies that were left for another one, and the place behind which turns are new there.
    left: Vec<(usize, usize)>,
    /// The copies to go back to, with such a place where they were left by a change.
    redo: Vec<(usize, Option<usize>)>,
    ids: HashMap<Incarnation, usize>,
}

impl Copy {
    /// The same up to there.
    fn before(&self, place: usize, base: u64) -> Self {
        let end = base + place as u64;
        let summaries = self.summaries.iter().copied().filter(|covers| *covers <= end);
        Self {
            messages: self.messages[..place].to_vec(),
            pins: self.pins.iter().copied().filter(|it| *it < end).collect(),
            summaries: summaries.collect(),
            system: self.system.clone(),
        }
    }
}

impl Model {
    fn new() -> Self {
        Self { copies: vec![Copy::default()], ..Self::default() }
    }

    fn current(&mut self) -> &mut Copy {
        &mut self.copies[self.current]
    }

    fn len(&self) -> usize {
        self.copies[self.current].messages.len()
    }

    /// The place of the oldest message that is there.
    fn start_of(&self, copy: &Copy) -> usize {
        copy.messages.partition_point(|it| it.0 < self.gone)
    }

    fn start(&self) -> usize {
        self.start_of(&self.copies[self.current])
    }

    fn append_to(&mut self, copy: usize, users: &[bool]) {
        for user in users {
            self.copies[copy].messages.push((self.next, *user));
            self.next += 1;
        }
        if copy == self.current {
            self.redo.clear();
        }
    }

    fn go_to(&mut self, copy: usize, floor: usize) {
        self.left.push((self.current, floor));
        self.redo.clear();
        self.current = copy;
    }

    fn change(&mut self, copy: Copy, users: &[bool]) {
        let floor = copy.messages.len() + 1;
        self.copies.push(copy);
        let new = self.copies.len() - 1;
        self.append_to(new, users);
        self.go_to(new, floor);
    }

    /// The place where the newest turn begins: messages of the user in a row are one question.
    fn turn(&self) -> Option<usize> {
        let mut place = self.question()?;
        let messages = &self.copies[self.current].messages;
        while place > self.start() && messages[place - 1].1 {
            place -= 1;
        }
        Some(place)
    }

    /// The place of the newest message of the user that is there.
    fn question(&self) -> Option<usize> {
        let messages = &self.copies[self.current].messages;
        let place = messages.iter().rposition(|it| it.1)?;
        (messages[place].0 >= self.gone).then_some(place)
    }

    fn regenerate(&mut self, from: usize, question: usize) {
        let copy = self.copies[from].before(question + 1, self.base);
        self.change(copy, &[false]);
    }

    /// Takes the newest turn back, or the change behind which none has begun.
    fn undo(&mut self) -> bool {
        let floor = self.left.last().map_or(0, |it| it.1);
        // A turn may have begun since whose question is gone.
        if self.turn().is_none() && self.start() > floor {
            return false;
        }
        if let Some(place) = self.turn().filter(|place| *place >= floor) {
            self.redo.push((self.current, None));
            let cut = self.copies[self.current].before(place, self.base);
            self.copies.push(cut);
            self.current = self.copies.len() - 1;
            return true;
        }
        let Some((copy, floor)) = self.left.pop() else { return false };
        self.redo.push((self.current, Some(floor)));
        self.current = copy;
        true
    }

    fn redo(&mut self) -> bool {
        let Some((copy, floor)) = self.redo.pop() else { return false };
        self.left.extend(floor.map(|floor| (self.current, floor)));
        self.current = copy;
        true
    }

    /// How many messages that are there were said in this place, and which one of them is here.
    fn variants(&self, place: usize) -> (usize, usize) {
        let own = &self.copies[self.current].messages;
        let before = |messages: &[(u64, bool)]| place.checked_sub(1).map(|it| messages[it].0);
        let others = self.copies.iter().map(|it| &it.messages).filter(|it| it.len() > place);
        let others = others.filter(|it| before(it) == before(own)).map(|it| it[place].0);
        let others: BTreeSet<u64> = others.filter(|it| *it >= self.gone).collect();
        let rank = others.iter().position(|it| *it == own[place].0).unwrap();
        (rank + 1, others.len())
    }
}

fn message(number: u64, user: bool) -> Message {
    if user { Message::user(format!("m{number}")) } else { Message::ai(format!("m{number}")) }
}

fn text(number: u64) -> String {
    format!("m{number}")
}

#[allow(clippy::too_many_lines)] // an arm for each operation
fn apply(op: &Op, tab: &Tab, other: &Tab, model: &mut Model) {
    let (start, len, base) = (model.start(), model.len(), model.base);
    let there = |at: usize| (start < len).then(|| start + at % (len - start));
    match op {
        Op::Append(users) => {
            let numbered = (model.next..).zip(users);
            let messages: Vec<_> = numbered.map(|(n, user)| message(n, *user)).collect();
            let end = base + len as u64;
            let positions = ask!(tab, add_all(messages.clone())).unwrap();
            assert_eq!(positions, end..end + users.len() as u64);
            model.append_to(model.current, users);
        }
        Op::Say => {
            let mut turn = Turn::from(text(model.next));
            tab.begin(&mut turn);
            let positions = tab.answer(&mut turn, &text(model.next + 1));
            assert_eq!(positions, base + len as u64..base + len as u64 + 2);
            model.append_to(model.current, &[true, false]);
        }
        Op::Edit(at, user) => {
            let Some(place) = there(*at) else {
                let error = ask!(tab, edit(base + len as u64, message(0, *user))).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid);
                return;
            };
            let position = base + place as u64;
            let drawn = ask!(tab, edit(position, message(model.next, *user))).unwrap();
            assert_eq!(drawn, position);
            let copy = model.copies[model.current].before(place, base);
            model.change(copy, &[*user]);
        }
        Op::EditTurn(at) => {
            let Some(place) = there(*at) else { return };
            let position = base + place as u64;
            let mut turn = ask!(tab, edit_turn(position, text(model.next))).unwrap();
            tab.begin(&mut turn);
            assert_eq!(tab.answer(&mut turn, &text(model.next + 1)), position..position + 2);
            let copy = model.copies[model.current].before(place, base);
            model.change(copy, &[true, false]);
        }
        Op::Regenerate | Op::Fail => {
            let Some(question) = model.question() else {
                let error = ask!(tab, regenerate()).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Invalid);
                return;
            };
            let mut turn = ask!(tab, regenerate()).unwrap();
            tab.begin(&mut turn);
            if matches!(op, Op::Fail) {
                return;
            }
            let position = base + question as u64;
            assert_eq!(tab.answer(&mut turn, &text(model.next)), position..position + 2);
            model.regenerate(model.current, question);
        }
        Op::Undo => {
            let drawn = ask!(tab, undo()).unwrap();
            let before = model.copies[model.current].messages.clone();
            assert_eq!(drawn.is_some(), model.undo());
            if let Some(drawn) = drawn {
                assert_eq!(drawn - base, common(&before, &model.current().messages));
            }
            // It comes to the branch of an earlier one, on which nothing was said; a turn may have
            // been begun there.
            let branch = ask!(tab, page(None, 0)).unwrap().branch;
            if let Some(known) = branch.and_then(|it| model.ids.get(&it).copied()) {
                let made = model.current().clone();
                assert_eq!(model.copies[known].messages, made.messages);
                model.copies[known] = made;
                model.current = known;
            }
        }
        Op::Redo => {
            let drawn = ask!(tab, redo()).unwrap();
            assert_eq!(drawn.is_some(), model.redo());
        }
        Op::Switch(at, to) => {
            let Some(place) = there(*at) else { return };
            let variants = ask!(tab, variants(base + place as u64)).unwrap();
            let Variant { branch, record, is_current, .. } = variants[to % variants.len()];
            let copy = model.ids[&branch];
            assert_eq!(model.copies[copy].messages[place].0, record);
            let drawn = ask!(tab, switch(branch)).unwrap();
            assert_eq!((drawn.is_none(), copy == model.current), (is_current, is_current));
            if !is_current {
                model.go_to(copy, model.copies[copy].messages.len());
            }
        }
        Op::Pin(at) => {
            let Some(place) = there(*at) else { return };
            ask!(tab, pin(base + place as u64)).unwrap();
            model.current().pins.insert(base + place as u64);
        }
        Op::Summarize => {
            if tab.summarize() {
                let covers = ask!(tab, summary()).unwrap().unwrap().covers;
                model.current().summaries.push(covers);
            }
        }
        Op::System => {
            let system = format!("s{}", model.next);
            ask!(tab, add(Message::system(system.clone()))).unwrap();
            model.current().system = Some(system);
        }
        Op::Evict(at) => {
            let Some(place) = there(*at) else { return };
            let gone = model.copies[model.current].messages[place].0 + 1;
            let position = base + place as u64 + 1;
            match tab {
                Tab::Now(prompt) => prompt.memory().evict(position),
                Tab::Later(prompt) => block_on(prompt.memory().evict(position)),
            }
            .unwrap();
            model.gone = model.gone.max(gone);
        }
        Op::Clear => {
            match tab {
                Tab::Now(prompt) => prompt.memory().clear(),
                Tab::Later(prompt) => block_on(prompt.memory().clear()),
            }
            .unwrap();
            let next = model.next;
            *model = Model { base: next, gone: next, next, ..Model::new() };
        }
        Op::Around(is_new, ops) => {
            let (begun, question) = (model.current, model.question());
            let mut turn = if *is_new {
                if question.is_none() {
                    return;
                }
                ask!(tab, regenerate()).unwrap()
            } else {
                Turn::from("late")
            };
            tab.begin(&mut turn);
            for op in ops {
                apply(op, other, tab, model);
                if let Some(branch) = ask!(other, page(None, 0)).unwrap().branch {
                    model.ids.insert(branch, model.current);
                }
            }
            let number = model.next;
            let positions = tab.answer(&mut turn, &text(number + u64::from(!is_new)));
            if let Some(question) = question.filter(|_| *is_new) {
                assert_eq!(positions.start, base + question as u64);
                model.regenerate(begun, question);
            } else {
                assert_eq!(positions.start, base + model.copies[begun].messages.len() as u64);
                model.append_to(begun, &[true, false]);
            }
        }
    }
}

/// The place up to which both have the same messages.
fn common(one: &[(u64, bool)], two: &[(u64, bool)]) -> u64 {
    one.iter().zip(two).take_while(|(one, two)| one == two).count() as u64
}

/// What a page shows is what the model has, and both are what the copy says.
fn check(tab: &Tab, plain: &Tab, model: &mut Model) {
    let page = ask!(tab, page(None, usize::MAX)).unwrap();
    let (base, start) = (model.base, model.start());
    let copy = model.copies[model.current].clone();
    let end = base + copy.messages.len() as u64;
    // What a conversation has lost before it was cleared is no part of it.
    assert_eq!(page.positions, base + start as u64..end);
    let own: Vec<_> = page.entries.iter().rev().collect();
    assert_eq!(own.len(), copy.messages.len() - start);
    for (entry, place) in own.iter().zip(start..) {
        assert_eq!(entry.position, base + place as u64);
        let said = entry.message.text();
        let number = copy.messages[place].0;
        // A question that was begun before others spoke does not know its number.
        assert!(said == text(number) || said == "late", "{said} is not {number}");
        assert_eq!((entry.variant, entry.variants), model.variants(place), "at {place}");
        assert_eq!(entry.is_covered, copy.summaries.last().is_some_and(|it| entry.position < *it));
    }
    let mut pages = Vec::new();
    let mut before = None;
    loop {
        let page = ask!(plain, page(before, 3)).unwrap();
        let Some(oldest) = page.entries.last() else { break };
        before = Some(oldest.position);
        pages.extend(page.entries.iter().map(|it| it.message.clone()));
    }
    pages.reverse();
    let prompt = ask!(plain, preview()).unwrap();
    let sent: Vec<_> = prompt.iter().filter(|it| !it.is_system()).cloned().collect();
    assert_eq!(pages, sent, "what the pages show is what the model is sent");
    let system = prompt.iter().find(|it| it.is_system()).map(|it| it.text().into_owned());
    assert_eq!(system, copy.system);
    assert!(own.iter().map(|it| &it.message).eq(&sent));

    let pins = copy.pins.iter().copied().filter(|it| *it >= base + start as u64);
    assert_eq!(ask!(tab, pins()).unwrap(), pins.collect::<Vec<_>>());
    let covers = ask!(tab, summary()).unwrap().map(|it| it.covers);
    assert_eq!(covers, copy.summaries.last().copied());
    if let Some(branch) = page.branch {
        let known = model.ids.insert(branch, model.current).unwrap_or(model.current);
        assert_eq!(known, model.current);
    }
}

fn live(memory: &Arc<dyn ChatMemory>, is_async: bool, ops: &[(bool, Op)]) {
    let tabs = [false, false].map(|plain| Tab::of(memory, is_async, plain));
    let plain = Tab::of(memory, is_async, true);
    let mut model = Model::new();
    for (is_first, op) in ops {
        let (tab, other) = if *is_first { (&tabs[0], &tabs[1]) } else { (&tabs[1], &tabs[0]) };
        apply(op, tab, other, &mut model);
        check(other, &plain, &mut model);
    }
}

counted! {
    #![cases(10_000)]

    #[test]
    fn histories_are_those_of_plain_copies(
        is_async in any::<bool>(),
        is_there in any::<bool>(),
        ops in ops(),
    ) {
        // A turn that is begun before the conversation of a store is there knows no name for it.
        let memory: Arc<dyn ChatMemory> = if is_there {
            Arc::new(DefaultChatMemory::new())
        } else {
            Arc::new(InMemoryStore::new().memory("ada").unwrap())
        };
        live(&memory, is_async, &ops);
    }
}

counted! {
    #![cases(500)]

    #[test]
    fn histories_in_a_file_are_those_of_plain_copies(
        is_async in any::<bool>(),
        ops in ops(),
    ) {
        FILE.with(|(store, _)| {
            let memory = store.memory(Incarnation::random().to_string()).unwrap();
            let memory: Arc<dyn ChatMemory> = Arc::new(memory);
            live(&memory, is_async, &ops);
        });
    }
}

thread_local! {
    /// One file for all histories: to open it costs more than to live through one of them.
    static FILE: (SqliteStore, Folder) = {
        let folder = Folder::new();
        let options = SqliteStore::options().durability(Durability::Process);
        (options.open(folder.file("chat.db")).unwrap(), folder)
    };
}

/// The same page over an async memory.
#[test]
fn a_conversation_over_an_async_memory_has_branches_too() {
    let model = Scripted::new().says("one").says("two").fails("overloaded").says("three");
    let memory: Arc<dyn ChatMemory> = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(Slow(memory)).with_branches();
    let conversation = Conversation::new_async(prompt, model);
    let shown = async || {
        let page = conversation.page(None, 9).await.unwrap();
        let said = page.entries.iter().rev().map(|it| it.message.text().into_owned());
        said.collect::<Vec<_>>().join(", ")
    };
    block_on(async {
        conversation.say("count").await.unwrap();
        assert_eq!(conversation.regenerate().await.unwrap().positions, 0..2);
        assert_eq!(shown().await, "count, two");
        conversation.regenerate().await.unwrap_err();
        assert_eq!(shown().await, "count, two");
        assert_eq!(conversation.edit(0, "again").await.unwrap().text(), "three");
        assert_eq!(shown().await, "again, three");
        assert_eq!(conversation.undo().await.unwrap(), Some(0));
        assert_eq!(shown().await, "count, two");
        let variants = conversation.variants(1).await.unwrap();
        assert_eq!(conversation.switch(variants[0]).await.unwrap(), Some(1));
        assert_eq!(shown().await, "count, one");
        assert_eq!(conversation.undo().await.unwrap(), Some(1));
        assert_eq!(conversation.redo().await.unwrap(), Some(1));
        assert_eq!(shown().await, "count, one");
        assert_eq!(conversation.branches().await.unwrap().len(), 3);
    });
}
