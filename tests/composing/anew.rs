//! Windows over conversations that others delete and begin again, at any moment: between two calls,
//! while one is under way, and from inside the callback.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::conversations::conversation;
use crate::counted::counted;
use memory_prompt::memory::MemoryId;
use memory_prompt::message::AiMessage;
use memory_prompt::record::{Records, Snapshot};
use memory_prompt::store::InMemory;
use memory_prompt::token::TokenCounter;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, DefaultChatMemory, Error, ErrorKind, InMemoryStore,
    Message, MessageWindowChatMemory, Result, TokenWindowChatMemory, ToolCall,
};
use proptest::prelude::*;

type Rows = Vec<(u64, Message)>;

fn rows(records: &Records) -> Rows {
    records.iter().map(|r| (r.position(), r.message().clone())).collect()
}

fn texts(memory: &impl ChatMemory) -> Vec<String> {
    memory.all().unwrap().messages().map(|m| m.text().into_owned()).collect()
}

fn told(shared: &Shared) -> Vec<String> {
    shared.told.lock().unwrap().iter().map(|m| m.text().into_owned()).collect()
}

fn users<const N: usize>(texts: [&str; N]) -> [Message; N] {
    texts.map(Message::user)
}

/// What others do to the conversation.
#[derive(Clone, Debug)]
enum Other {
    Append(Vec<Message>),
    /// Deletes it and begins again with these.
    Replace(Vec<Message>),
    Evict(u64),
    Clear,
}

/// A conversation in a store, and what others do to it each time that a window has used it.
#[derive(Clone, Debug)]
struct Shared {
    memory: Arc<InMemory>,
    store: InMemoryStore,
    others: Arc<Mutex<VecDeque<Vec<Other>>>>,
    /// What the callback was given.
    told: Arc<Mutex<Vec<Message>>>,
    /// What was evicted and not told before.
    missed: Arc<Mutex<Rows>>,
    /// Whether evictions fail.
    fails: Arc<AtomicBool>,
}

impl Shared {
    fn new() -> Self {
        let store = InMemoryStore::new();
        let memory = Arc::new(store.memory("a").unwrap());
        let (others, told, missed, fails) = Default::default();
        Self { memory, store, others, told, missed, fails }
    }

    /// Each message once, so that one is not taken for another.
    fn others(&self, others: Vec<Other>) {
        for other in others {
            match other {
                Other::Append(batch) => drop(self.memory.add_all(batch).unwrap()),
                Other::Replace(batch) => {
                    self.store.delete(&"a".into()).unwrap();
                    self.memory.add_all(batch).unwrap();
                }
                Other::Evict(before) => drop(self.memory.evict(before).unwrap()),
                Other::Clear => self.memory.clear().unwrap(),
            }
        }
    }

    fn shake(&self) {
        let next = self.others.lock().unwrap().pop_front();
        self.others(next.unwrap_or_default());
    }

    fn rows(&self) -> Rows {
        rows(&self.memory.all().unwrap())
    }

    fn callback(
        &self,
    ) -> impl Fn(
        &MemoryId,
        &Records,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>
    + Send
    + Sync
    + 'static {
        let shared = self.clone();
        move |_, records| {
            let given = rows(records);
            // Whole groups, unless this is a conversation that is gone already.
            let now = shared.rows();
            let (last, message) = given.last().unwrap().clone();
            let next = now.iter().find(|(position, _)| *position == last + 1);
            let there = now.contains(&(last, message));
            let opening = given.iter().rev().find(|(_, m)| !m.is_tool());
            let grouped = opening.is_some_and(|(_, m)| m.has_tool_calls());
            assert!(!(there && grouped && next.is_some_and(|(_, m)| m.is_tool())), "half a group");
            shared.told.lock().unwrap().extend(given.into_iter().map(|(_, message)| message));
            shared.shake();
            Ok(())
        }
    }

    fn window(&self, limit: usize, tokens: bool, callback: bool) -> Box<dyn ChatMemory> {
        match (tokens, callback) {
            (false, false) => Box::new(self.messages(limit)),
            (false, true) => Box::new(self.messages(limit).on_evict(self.callback())),
            (true, false) => Box::new(self.tokens(limit)),
            (true, true) => Box::new(self.tokens(limit).on_evict(self.callback())),
        }
    }

    fn messages(&self, limit: usize) -> MessageWindowChatMemory<Self> {
        MessageWindowChatMemory::new(self.clone(), limit).unwrap()
    }

    fn tokens(&self, limit: usize) -> TokenWindowChatMemory<Self> {
        TokenWindowChatMemory::new(self.clone(), limit, Letters).unwrap()
    }
}

/// Others come before each operation but an eviction: what comes between the last look and the
/// eviction can't be seen by anybody.
impl ChatMemory for Shared {
    fn id(&self) -> &MemoryId {
        self.memory.id()
    }
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        self.shake();
        let range = self.memory.append(batch, expected);
        self.shake();
        range
    }
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.shake();
        self.memory.read(before, n)
    }
    fn evict(&self, before: u64) -> Result<u64> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Storage, "evict", "the disk is full"));
        }
        let told = self.told.lock().unwrap();
        let gone = self.rows().into_iter().filter(|(position, _)| *position < before);
        self.missed.lock().unwrap().extend(gone.filter(|(_, message)| !told.contains(message)));
        drop(told);
        let gone = self.memory.evict(before);
        self.shake();
        gone
    }
    fn clear(&self) -> Result<()> {
        self.shake();
        self.memory.clear()
    }
}

/// A token a character.
struct Letters;

impl TokenCounter for Letters {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(text.chars().count())
    }
    fn count(&self, message: &Message) -> Result<usize> {
        self.count_text(&message.text())
    }
}

fn weigh(tokens: bool, message: &Message) -> usize {
    if tokens { Letters.count(message).unwrap() } else { 1 }
}

/// How many of the first rows are a group.
fn group(rows: &[(u64, Message)]) -> usize {
    match rows.first() {
        Some((_, m)) if m.has_tool_calls() => {
            1 + rows[1..].iter().take_while(|(_, m)| m.is_tool()).count()
        }
        first => usize::from(first.is_some()),
    }
}

/// What a window leaves of these.
fn trimmed(mut rows: &[(u64, Message)], limit: usize, tokens: bool) -> &[(u64, Message)] {
    loop {
        let total: usize = rows.iter().map(|(_, m)| weigh(tokens, m)).sum();
        if total <= limit || group(rows) == rows.len() {
            return rows;
        }
        rows = &rows[group(rows)..];
    }
}

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<Message>),
    Read(Option<u64>, usize),
    Trim,
    Others(Vec<Other>),
}

fn others(most: usize) -> impl Strategy<Value = Vec<Other>> {
    let other = prop_oneof![
        3 => conversation(4).prop_map(Other::Append),
        3 => conversation(6).prop_map(Other::Replace),
        1 => (0u64..20).prop_map(Other::Evict),
        1 => Just(Other::Clear),
    ];
    proptest::collection::vec(other, 0..most)
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let n = prop_oneof![1 => 0usize..6, 3 => Just(usize::MAX)];
    let op = prop_oneof![
        5 => conversation(3).prop_map(Op::Append),
        3 => (proptest::option::of(0u64..20), n).prop_map(|(before, n)| Op::Read(before, n)),
        1 => Just(Op::Trim),
        2 => others(3).prop_map(Op::Others),
    ];
    proptest::collection::vec(op, 1..12)
}

/// Each message as one that is like no other, and its texts as long or longer.
fn unique(messages: &mut [Message], next: &mut u32) {
    for message in messages {
        *next += 1;
        let text = format!("{next} {}", message.text());
        *message = match message {
            Message::Ai(ai) if ai.has_tool_calls() => {
                let calls = ai.tool_calls().cloned();
                calls.fold(AiMessage::new(text), AiMessage::with_tool_call).into()
            }
            Message::Ai(_) => Message::ai(text),
            Message::Tool(tool) => Message::tool(tool.call_id(), "look", text),
            Message::System(_) => Message::system(text),
            _ => Message::user(text),
        };
    }
}

fn make_unique(others: &mut [Other], next: &mut u32) {
    for other in others {
        if let Other::Append(batch) | Other::Replace(batch) = other {
            unique(batch, next);
        }
    }
}

counted! {
    #![cases(512)]

    #[test]
    fn nothing_is_missed_and_no_read_exceeds_the_limit(
        mut ops in ops(), mut between in proptest::collection::vec(others(2), 0..20),
        limit in 1usize..40, tokens in any::<bool>(), callback in any::<bool>(),
    ) {
        let mut next = 0;
        for op in &mut ops {
            match op {
                Op::Append(batch) => unique(batch, &mut next),
                Op::Others(others) => make_unique(others, &mut next),
                _ => {}
            }
        }
        for others in &mut between {
            make_unique(others, &mut next);
        }
        let shared = Shared::new();
        *shared.others.lock().unwrap() = between.into();
        let memory = shared.window(limit, tokens, callback);
        for op in ops {
            match op {
                Op::Append(mut batch) => drop(memory.append(&mut batch, None).unwrap()),
                Op::Read(before, n) => {
                    let read = rows(&memory.read(before, n).unwrap().records);
                    let total: usize = read.iter().map(|(_, m)| weigh(tokens, m)).sum();
                    let results = read.iter().skip(1).all(|(_, m)| m.is_tool());
                    prop_assert!(total <= limit || results, "{total} in {read:?}");
                }
                Op::Trim => drop(memory.evict(0).unwrap()), // evicts what is out of the window
                Op::Others(others) => shared.others(others),
            }
            if callback {
                let missed = mem::take(&mut *shared.missed.lock().unwrap());
                prop_assert!(missed.is_empty(), "evicted and not told: {missed:?}");
            }
        }
        // And when nobody interferes any more, the window is what it would be over a new memory.
        shared.others.lock().unwrap().clear();
        memory.all().unwrap();
        let before = shared.rows();
        memory.evict(0).unwrap();
        let expected = trimmed(&before, limit, tokens);
        prop_assert_eq!(rows(&memory.all().unwrap()), expected);
        if callback {
            prop_assert_eq!(shared.rows(), expected);
        }
    }
}

/// Support deletes a conversation and another process answers in it, while this one's handle lives
/// on. It took the new records for those that it had evicted: the archive never saw them.
#[test]
fn what_another_handle_began_anew_is_handed_over_from_its_beginning() {
    let shared = Shared::new();
    let memory = shared.messages(2).on_evict(shared.callback());
    memory.add_all(users(["a", "b", "c", "d"])).unwrap();
    assert_eq!(told(&shared), ["a", "b"]);
    shared.others(vec![Other::Replace(users(["e", "f", "g", "h"]).to_vec())]);
    memory.add(Message::user("i")).unwrap();
    assert_eq!(told(&shared), ["a", "b", "e", "f", "g"]);
    assert_eq!(texts(&memory), ["h", "i"]);
    assert_eq!(texts(&shared.memory), ["h", "i"]);
    // The same where it grew further than it had been.
    shared.others(vec![Other::Replace(users(["j", "k", "l", "m", "n", "o", "p"]).to_vec())]);
    assert_eq!(texts(&memory), ["o", "p"]);
    memory.trim().unwrap();
    assert_eq!(told(&shared)[5..], ["j", "k", "l", "m", "n"]);
}

/// A handle began a conversation, and nobody had read it when another process deleted it and began
/// again with as many messages. The handle took those for its own tool group, and kept both in a
/// window of one.
#[test]
fn what_a_handle_appended_unread_is_not_taken_for_another_conversation() {
    for callback in [false, true] {
        let shared = Shared::new();
        let memory = shared.window(1, false, callback);
        memory.append(&mut Vec::new(), None).unwrap();
        let calls = AiMessage::new("").with_tool_call(ToolCall::new("c0", "look", "{}"));
        memory.add_all([calls.into(), Message::tool("c0", "look", "1")]).unwrap();
        shared.others(vec![Other::Replace(users(["b", "c"]).to_vec())]);
        assert_eq!(memory.read(None, 9).unwrap().records.len(), 1);
        memory.evict(0).unwrap();
        assert_eq!(texts(&shared.memory), ["c"]);
    }
}

/// The archive takes its time, and the conversation is deleted and begun again before it is done.
/// What it was given is no reason to evict what it never saw.
#[test]
fn what_begins_anew_while_the_callback_runs_is_not_evicted_for_what_it_was_given() {
    let shared = Shared::new();
    let memory = shared.messages(1).on_evict(shared.callback());
    memory.add(Message::user("a")).unwrap();
    let replace = vec![Other::Replace(users(["c", "d", "e"]).to_vec())];
    // Before and behind the append, before the record is read; then the callback.
    *shared.others.lock().unwrap() = VecDeque::from([vec![], vec![], vec![], replace]);
    memory.add(Message::user("b")).unwrap();
    assert_eq!(told(&shared), ["a", "c", "d"]);
    assert!(shared.missed.lock().unwrap().is_empty());
    assert_eq!(texts(&memory), ["e"]);
}

/// The memory failed to evict what the archive had taken, so it was not to be given again. What was
/// begun again in its place was then evicted as if it had been.
#[test]
fn what_was_told_and_not_evicted_is_told_again_where_it_is_another_message() {
    let shared = Shared::new();
    let memory = shared.messages(1).on_evict(shared.callback());
    memory.add(Message::user("a")).unwrap();
    shared.fails.store(true, Ordering::Relaxed);
    memory.add(Message::user("b")).unwrap();
    assert_eq!(told(&shared), ["a"]);
    shared.fails.store(false, Ordering::Relaxed);
    shared.others(vec![Other::Replace(users(["c", "d"]).to_vec())]);
    memory.add(Message::user("e")).unwrap();
    assert_eq!(told(&shared), ["a", "c", "d"]);
    assert_eq!(texts(&shared.memory), ["e"]);
}

/// A call with ten results is kept whole, whatever the limit. In its place came eleven messages,
/// and the window went on to show them all.
#[test]
fn a_window_on_what_began_anew_is_within_its_limit() {
    for tokens in [false, true] {
        let shared = Shared::new();
        let memory = shared.window(3, tokens, false);
        memory.add(Message::ai_calls([ToolCall::new("c", "look", "{}")])).unwrap();
        memory.add_all((0..10).map(|_| Message::tool("c", "look", "a cat"))).unwrap();
        assert_eq!(memory.all().unwrap().len(), 11);
        let letters = (b'a'..=b'k').map(|letter| Message::user(char::from(letter).to_string()));
        shared.others(vec![Other::Replace(letters.collect())]);
        assert_eq!(texts(&memory), ["i", "j", "k"]);
        memory.add(Message::user("l")).unwrap();
        assert_eq!(texts(&memory), ["j", "k", "l"]);
        assert_eq!(texts(&shared.memory), ["j", "k", "l"]);
    }
}

/// A late result outlives its call: only what stands directly behind an answer belongs to its
/// group.
#[test]
fn a_late_result_outlives_its_evicted_call() {
    let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 3).unwrap();
    memory.add(Message::ai_calls([ToolCall::new("c", "look", "{}")])).unwrap();
    memory.add_all(users(["Still there?", "Hello?"])).unwrap();
    memory.add(Message::tool("c", "look", "a cat")).unwrap();
    assert_eq!(texts(&memory), ["Still there?", "Hello?", "a cat"]);
}
