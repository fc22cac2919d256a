//! The memories that evict: what they keep, what they hand over, and that nothing gets lost between
//! the two. A plain list is the model, and each fault of the Java originals is a story.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, mpsc};
use std::thread;
use std::time::SystemTime;

use crate::conversations::*;
use crate::counted::{counted, regressions};
use crate::inside::inside;
use memory_prompt::memory::{Append, Expected, MemoryId, Read};
use memory_prompt::record::{Records, Snapshot, Unreadable};
use memory_prompt::token::TokenCounter;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, DefaultChatMemory, Error, ErrorKind, InMemoryStore,
    MemoryPrompt, Message, MessageWindowChatMemory, Result, TokenWindowChatMemory, ToolCall,
};
use proptest::prelude::*;

type Rows = Vec<(u64, Message)>;

fn rows(records: &Records) -> Rows {
    records.iter().map(|r| (r.position(), r.message().clone())).collect()
}

fn texts(memory: &impl ChatMemory) -> Vec<String> {
    memory.all().unwrap().messages().map(|m| m.text().into_owned()).collect()
}

fn users<const N: usize>(texts: [&str; N]) -> [Message; N] {
    texts.map(Message::user)
}

/// A token a character, and none for being a message.
struct Letters;

impl TokenCounter for Letters {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(text.chars().count())
    }
    fn count(&self, message: &Message) -> Result<usize> {
        self.count_text(&message.text())
    }
}

/// Counts how often it is asked, and fails or counts `usize::MAX` where the text says so.
#[derive(Clone, Default)]
struct Asked(Arc<AtomicUsize>);

impl Asked {
    fn times(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl TokenCounter for Asked {
    fn count_text(&self, text: &str) -> Result<usize> {
        match text {
            "uncountable" => Err(Error::new(ErrorKind::Count, "count", "no such word")),
            "endless" => Ok(usize::MAX),
            _ => Ok(text.chars().count()),
        }
    }
    fn count(&self, message: &Message) -> Result<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        self.count_text(&message.text())
    }
}

type Taken = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// What a callback was given.
#[derive(Clone, Default)]
struct Archive(Arc<Mutex<Rows>>);

impl Archive {
    fn take(&self) -> impl Fn(&MemoryId, &Records) -> Taken + Send + Sync + 'static {
        let archive = Arc::clone(&self.0);
        move |_, records| {
            archive.lock().unwrap().extend(rows(records));
            Ok(())
        }
    }
    fn rows(&self) -> Rows {
        self.0.lock().unwrap().clone()
    }
    fn texts(&self) -> Vec<String> {
        self.rows().iter().map(|(_, m)| m.text().into_owned()).collect()
    }
}

/// A memory that says what it was asked to do, and fails when a countdown reaches zero.
#[derive(Clone, Debug)]
struct Probe {
    memory: Arc<DefaultChatMemory>,
    /// Negative: never.
    countdown: Arc<AtomicI64>,
    reads: Arc<AtomicUsize>,
    read: Arc<AtomicUsize>,
    evictions: Arc<AtomicUsize>,
}

impl Probe {
    fn over(memory: Arc<DefaultChatMemory>) -> Self {
        let countdown = Arc::new(AtomicI64::new(-1));
        let (reads, read, evictions) = Default::default();
        Self { memory, countdown, reads, read, evictions }
    }
    fn fail_after(&self, operations: i64) {
        self.countdown.store(operations, Ordering::Relaxed);
    }
    fn step(&self, operation: &'static str) -> Result<()> {
        match self.countdown.fetch_sub(1, Ordering::Relaxed) {
            0 => Err(Error::new(ErrorKind::Storage, operation, "the disk is full")),
            _ => Ok(()),
        }
    }
}

impl ChatMemory for Probe {
    inside!(memory: id);
    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        self.step("append")?;
        self.memory.append(batch, expected)
    }
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.step("read")?;
        let snapshot = self.memory.read(before, n)?;
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(snapshot.records.len(), Ordering::Relaxed);
        Ok(snapshot)
    }
    fn evict(&self, before: u64) -> Result<u64> {
        self.step("evict")?;
        self.evictions.fetch_add(1, Ordering::Relaxed);
        self.memory.evict(before)
    }
    fn clear(&self) -> Result<()> {
        self.step("clear")?;
        self.memory.clear()
    }
}

/// The rule in words: a list from whose front whole groups leave until the rest is within the
/// limit, or only the newest group is left.
#[derive(Default)]
struct Model {
    system: Option<Message>,
    kept: Rows,
    evicted: Rows,
    end: u64,
}

impl Model {
    fn append(&mut self, batch: &[Message]) {
        for message in batch {
            if message.is_system() {
                self.system = Some(message.clone());
            } else {
                self.kept.push((self.end, message.clone()));
                self.end += 1;
            }
        }
    }

    fn trim(&mut self, limit: usize, weigh: fn(&Message) -> usize) {
        loop {
            let total: usize = self.kept.iter().map(|(_, m)| weigh(m)).sum();
            let goes_along = |first: &Message, it: &Message| {
                it.is_private() || (first.has_tool_calls() && it.is_tool())
            };
            let group = self.kept.first().map_or(0, |(_, first)| {
                1 + self.kept[1..].iter().take_while(|(_, it)| goes_along(first, it)).count()
            });
            if total <= limit || group >= self.kept.len() {
                return;
            }
            self.evicted.extend(self.kept.drain(..group));
        }
    }

    fn start(&self) -> u64 {
        self.kept.first().map_or(self.end, |(position, _)| *position)
    }

    fn read(&self, before: Option<u64>, n: usize) -> Rows {
        let before = before.unwrap_or(u64::MAX);
        let older: Rows =
            self.kept.iter().filter(|(position, _)| *position < before).cloned().collect();
        older[older.len().saturating_sub(n)..].to_vec()
    }
}

fn one(message: &Message) -> usize {
    usize::from(!message.is_private())
}

fn letters(message: &Message) -> usize {
    if message.is_private() { 0 } else { Letters.count(message).unwrap() }
}

/// Either kind, with a limit that a test can change.
fn window<M: ChatMemory + 'static>(
    memory: M,
    limit: &Arc<AtomicUsize>,
    tokens: bool,
    archive: &Archive,
) -> Box<dyn ChatMemory> {
    let limit = Arc::clone(limit);
    let limit = move |_: &MemoryId| limit.load(Ordering::Relaxed);
    if tokens {
        let window = TokenWindowChatMemory::dynamic(memory, limit, Letters);
        Box::new(window.on_evict(archive.take()))
    } else {
        Box::new(MessageWindowChatMemory::dynamic(memory, limit).on_evict(archive.take()))
    }
}

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<Message>),
    /// Past the window, on the memory inside.
    AppendInside(Vec<Message>),
    Read {
        before: Option<u64>,
        n: usize,
    },
    Evict(u64),
    Clear,
    Limit(usize),
    /// The window is forgotten, as when a process begins.
    Restart,
}

fn limits() -> impl Strategy<Value = usize> {
    prop_oneof![1 => 0usize..3, 4 => 1usize..12, 3 => 12usize..150, 1 => Just(usize::MAX)]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let n = prop_oneof![2 => 0usize..20, 3 => Just(usize::MAX)];
    let position = prop_oneof![9 => 0u64..60, 1 => Just(u64::MAX)];
    let op = prop_oneof![
        8 => conversation(3).prop_map(Op::Append),
        2 => conversation(6).prop_map(Op::AppendInside),
        4 => (proptest::option::of(0u64..60), n).prop_map(|(before, n)| Op::Read { before, n }),
        1 => position.prop_map(Op::Evict),
        1 => Just(Op::Clear),
        2 => limits().prop_map(Op::Limit),
        1 => Just(Op::Restart),
    ];
    proptest::collection::vec(op, 0..30)
}

counted! {
    #![cases(256, regressions())]

    #[test]
    fn a_window_is_a_list_that_loses_whole_groups_at_its_front(
        conversation in conversation(40), sizes in proptest::collection::vec(1usize..5, 1..20),
        limit in limits(), tokens in any::<bool>(),
    ) {
        let inside = Arc::new(DefaultChatMemory::new());
        let archive = Archive::default();
        let memory = window(Arc::clone(&inside), &Arc::new(limit.into()), tokens, &archive);
        let mut model = Model::default();
        let mut rest = conversation.as_slice();
        for size in sizes.iter().cycle() {
            let (batch, later) = rest.split_at((*size).min(rest.len()));
            if batch.is_empty() {
                break;
            }
            rest = later;
            let range = memory.add_all(batch.to_vec()).unwrap();
            model.append(batch);
            model.trim(limit, if tokens { letters } else { one });
            prop_assert_eq!(range.end, model.end);
            prop_assert_eq!(rows(&memory.all().unwrap()), model.kept.clone());
            // It is gone from the memory inside, and was handed over.
            prop_assert_eq!(rows(&inside.all().unwrap()), model.kept.clone());
            prop_assert_eq!(archive.rows(), model.evicted.clone());
        }
    }

    #[test]
    fn a_window_is_a_memory(ops in ops(), tokens in any::<bool>()) {
        let weigh = if tokens { letters } else { one };
        let inside = Arc::new(DefaultChatMemory::new());
        let archive = Archive::default();
        let limit = Arc::new(AtomicUsize::new(10));
        let mut memory = window(Arc::clone(&inside), &limit, tokens, &archive);
        let mut model = Model::default();
        for op in ops {
            let most = limit.load(Ordering::Relaxed);
            match op {
                Op::Append(batch) => {
                    let wrong = memory.append(&mut batch.clone(), Some(model.end + 1)).unwrap_err();
                    let conflict = ErrorKind::Conflict { expected: model.end + 1, actual: model.end };
                    prop_assert_eq!(wrong.kind(), conflict);
                    let first = model.end;
                    let range = memory.append(&mut batch.clone(), Some(model.end)).unwrap();
                    model.append(&batch);
                    model.trim(most, weigh);
                    prop_assert_eq!(range, first..model.end);
                    prop_assert_eq!(rows(&inside.all().unwrap()), model.kept.clone());
                    prop_assert_eq!(archive.rows(), model.evicted.clone());
                }
                Op::AppendInside(batch) => {
                    inside.add_all(batch.clone()).unwrap();
                    model.append(&batch);
                }
                Op::Read { before, n } => {
                    model.trim(most, weigh);
                    let snapshot = memory.read(before, n).unwrap();
                    prop_assert_eq!(rows(&snapshot.records), model.read(before, n));
                    prop_assert_eq!(snapshot.system.as_deref(), model.system.as_ref());
                    prop_assert_eq!((snapshot.start, snapshot.end), (model.start(), model.end));
                }
                Op::Evict(before) => {
                    model.trim(most, weigh);
                    let gone = model.kept.iter().filter(|(position, _)| *position < before).count();
                    model.kept.drain(..gone);
                    prop_assert_eq!(memory.evict(before).unwrap(), gone as u64);
                    prop_assert_eq!(archive.rows(), model.evicted.clone());
                    prop_assert_eq!(rows(&inside.all().unwrap()), model.kept.clone());
                }
                Op::Clear => {
                    memory.clear().unwrap();
                    // What a read left out and no append has evicted yet is cleared as well.
                    model = Model { end: model.end, evicted: archive.rows(), ..Model::default() };
                }
                Op::Limit(most) => limit.store(most, Ordering::Relaxed),
                Op::Restart => {
                    // What was left out by reads alone is in the memory still.
                    memory.add(Message::system("s")).unwrap();
                    model.append(&[Message::system("s")]);
                    model.trim(most, weigh);
                    memory = window(Arc::clone(&inside), &limit, tokens, &archive);
                }
            }
        }
    }

    #[test]
    fn whatever_fails_inside_nothing_is_lost(
        steps in proptest::collection::vec((conversation(3), 0i64..6, any::<bool>()), 0..20),
        old in conversation(10), limit in limits(), tokens in any::<bool>(),
    ) {
        let weigh = if tokens { letters } else { one };
        let inside = Arc::new(DefaultChatMemory::new());
        inside.add_all(old.clone()).unwrap();
        let probe = Probe::over(Arc::clone(&inside));
        let archive = Archive::default();
        let memory = window(probe.clone(), &Arc::new(limit.into()), tokens, &archive);
        let mut model = Model::default();
        model.append(&old);
        for (batch, countdown, read) in steps {
            probe.fail_after(countdown);
            if read {
                model.trim(limit, weigh);
                if let Ok(all) = memory.all() {
                    prop_assert_eq!(rows(&all), model.kept.clone());
                }
            }
            let mut left = batch.clone();
            match memory.append(&mut left, None) {
                Ok(range) => {
                    model.append(&batch);
                    model.trim(limit, weigh);
                    prop_assert!(left.is_empty());
                    prop_assert_eq!(range.end, model.end);
                }
                Err(error) => {
                    prop_assert_eq!(error.operation(), "append");
                    prop_assert_eq!(&left, &batch, "the batch stays with the caller");
                }
            }
            prop_assert_eq!(inside.next_position().unwrap(), model.end);
        }
        probe.fail_after(-1);
        model.trim(limit, weigh);
        prop_assert_eq!(rows(&memory.all().unwrap()), model.kept.clone());
        memory.evict(0).unwrap(); // evicts what is left to evict
        prop_assert_eq!(rows(&inside.all().unwrap()), model.kept);
        prop_assert_eq!(archive.rows(), model.evicted, "each record once, in order");
    }
}

/// In LangChain4j the results of parallel tool calls that overflow the window push their own call
/// out, and since results without a call must go too, the eviction eats everything there is.
/// Three audit records pushed the only question out of a window of three, and one between a call
/// and its result left results of nothing.
#[test]
fn records_of_the_application_push_nothing_out_and_part_nothing() {
    let audit = || Message::custom([("audit".to_owned(), "seen".into())]);
    let window = |limit| MessageWindowChatMemory::new(DefaultChatMemory::new(), limit).unwrap();
    let memory = window(3);
    memory.add(Message::user("q")).unwrap();
    memory.add_all((0..50).map(|_| audit())).unwrap();
    assert_eq!(memory.all().unwrap().len(), 51);
    let prompt = MemoryPrompt::new(memory).build().unwrap();
    assert_eq!(prompt.iter().map(|m| m.text()).collect::<Vec<_>>(), ["q"]);

    let memory = window(3);
    let call =
        Message::ai_calls([ToolCall::new("1", "look", "{}"), ToolCall::new("2", "look", "{}")]);
    let (one, two) = (Message::tool("1", "look", "a"), Message::tool("2", "look", "b"));
    memory.add_all([Message::user("q"), call, audit(), one, audit(), two]).unwrap();
    assert_eq!(rows(&memory.all().unwrap())[0].0, 1);
    assert_eq!(memory.all().unwrap().len(), 5);
    // They leave with the group.
    memory.add(Message::ai("done")).unwrap();
    assert_eq!(rows(&memory.all().unwrap())[0].0, 6);

    let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), 20, Letters).unwrap();
    memory.add(Message::user("a question that is longer than the limit")).unwrap();
    memory.add(audit()).unwrap();
    assert_eq!(memory.all().unwrap().len(), 2);
}

#[test]
fn parallel_results_that_overflow_never_wipe_the_conversation() {
    let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 5).unwrap();
    memory.add(Message::user("Look!")).unwrap();
    let calls = (0..20).map(|i| ToolCall::new(format!("call_{i}"), "look", "{}"));
    memory.add(Message::ai_calls(calls)).unwrap();
    for i in 0..20 {
        memory.add(Message::tool(format!("call_{i}"), "look", "a cat")).unwrap();
        assert!(memory.all().unwrap().first().unwrap().position() <= 1, "the call is there");
    }
    assert_eq!(memory.all().unwrap().len(), 21);
    // The group leaves as it came: whole, when something newer needs its place.
    memory.add(Message::ai("Twenty cats.")).unwrap();
    assert_eq!(texts(&memory), ["Twenty cats."]);
}

/// LangChain4j evicts until the window fits, and a message larger than the whole budget never does:
/// it leaves an empty memory, and the request that follows has no message at all.
#[test]
fn a_message_larger_than_the_budget_stays_alone() {
    let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), 10, Letters).unwrap();
    memory.add_all(users(["one", "two"])).unwrap();
    memory.add(Message::user("far too long for ten")).unwrap();
    assert_eq!(texts(&memory), ["far too long for ten"]);
    memory.add(Message::user("short")).unwrap();
    assert_eq!(texts(&memory), ["short"]);
}

/// LangChain4j's token window counts the system message: a long one leaves no room for the
/// conversation, and what is left of it is counted again each time.
#[test]
fn the_system_message_neither_counts_nor_leaves() {
    let asked = Asked::default();
    let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), 6, asked.clone()).unwrap();
    memory.add(Message::system("A very long list of rules.")).unwrap();
    memory.add_all(users(["one", "two", "three"])).unwrap();
    memory.add(Message::system("Rules that are longer than they were.")).unwrap();
    assert_eq!(texts(&memory), ["three"]);
    assert_eq!(memory.system().unwrap().unwrap().text(), "Rules that are longer than they were.");
    // Three were appended; two of them were read back, up to the one that no longer fits.
    assert_eq!(asked.times(), 3 + 2, "the system message is not even counted");
}

/// LangChain4j's token window counts the whole window again for each message that is added: with a
/// real tokenizer a long conversation gets slower with every word.
#[test]
fn an_append_counts_its_message_once_and_reads_nothing_but_the_first() {
    let asked = Asked::default();
    let probe = Probe::over(Arc::default());
    let memory = TokenWindowChatMemory::new(probe.clone(), 5000, asked.clone()).unwrap();
    for i in 0..3000_usize {
        memory.add(Message::user(format!("{i:05}"))).unwrap();
        assert_eq!(asked.times(), i + 2);
    }
    // With the first message the conversation is known.
    assert_eq!(probe.reads.load(Ordering::Relaxed), 1);
    assert_eq!(probe.evictions.load(Ordering::Relaxed), 2000);
    assert_eq!(memory.latest(10).unwrap().len(), 10);
    assert_eq!(memory.all().unwrap().len(), 1000);
    assert_eq!(probe.memory.all().unwrap().len(), 1000);
    assert_eq!(asked.times(), 3001, "reads count nothing");
}

/// A conversation of a year is opened with a window of ten: reading and counting all of it would
/// cost the year.
#[test]
fn a_cold_start_looks_at_the_window_and_no_further() {
    let inside: Arc<DefaultChatMemory> = Arc::default();
    inside.add_all((0..100_000).map(|i| Message::user(format!("{i:05}")))).unwrap();
    let (asked, probe) = (Asked::default(), Probe::over(Arc::clone(&inside)));
    let memory = TokenWindowChatMemory::new(probe.clone(), 500, asked.clone()).unwrap();
    assert_eq!(memory.latest(3).unwrap().len(), 3);
    assert_eq!(asked.times(), 101, "what fits, and one to see that no more does");
    assert_eq!(inside.all().unwrap().len(), 100_000, "a read evicts nothing");
    memory.add(Message::user("hello")).unwrap();
    assert_eq!(asked.times(), 102);
    assert_eq!(inside.all().unwrap().len(), 100);
    assert!(probe.read.load(Ordering::Relaxed) < 300);

    // The same where the first use is an append.
    inside.add_all((0..100_000).map(|i| Message::user(format!("{i:05}")))).unwrap();
    let (asked, probe) = (Asked::default(), Probe::over(Arc::clone(&inside)));
    let memory = TokenWindowChatMemory::new(probe.clone(), 500, asked.clone()).unwrap();
    memory.add(Message::user("hello")).unwrap();
    assert_eq!(asked.times(), 102, "the first message of a handle is read back");
    assert!(probe.read.load(Ordering::Relaxed) < 300);
    assert_eq!(memory.all().unwrap().len(), 100);

    // A window of messages reads its messages.
    let probe = Probe::over(Arc::clone(&inside));
    let memory = MessageWindowChatMemory::new(probe.clone(), 10).unwrap();
    memory.add(Message::user("hello")).unwrap();
    assert_eq!(probe.read.load(Ordering::Relaxed), 11);
    assert_eq!(inside.all().unwrap().len(), 10);
}

/// A callback on a long history that comes under a window for the first time: it is given all of
/// it, not at once, and no tool group in two.
#[test]
fn a_long_history_is_handed_over_in_pieces_of_whole_groups() {
    let inside: Arc<DefaultChatMemory> = Arc::default();
    for i in 0..400 {
        inside.add(Message::user(format!("{i}"))).unwrap();
        inside.add(Message::ai_calls([ToolCall::new("c", "look", "{}")])).unwrap();
        inside.add(Message::tool("c", "look", "a cat")).unwrap();
    }
    inside.add(Message::ai_calls([ToolCall::new("c", "look", "{}")])).unwrap();
    inside.add_all((0..600).map(|_| Message::tool("c", "look", "a cat"))).unwrap();
    let all = rows(&inside.all().unwrap());
    let pieces: Arc<Mutex<Vec<Rows>>> = Arc::default();
    let given = Arc::clone(&pieces);
    let memory = MessageWindowChatMemory::new(Arc::clone(&inside), 1).unwrap();
    let memory = memory.on_evict(move |_, records| {
        given.lock().unwrap().push(rows(records));
        Ok(())
    });
    memory.add(Message::user("enough")).unwrap();
    let pieces = pieces.lock().unwrap();
    assert!(pieces.len() > 3);
    assert!(pieces.iter().all(|piece| piece.len() < 1200 && !piece[0].1.is_tool()));
    assert_eq!(pieces.concat(), all);
    assert_eq!(texts(&inside), ["enough"]);
}

/// A window came over a long conversation with photos, and its callback was given 256 of them at
/// once: 680 MB.
#[test]
fn a_long_history_of_photos_is_handed_over_in_small_pieces() {
    let inside: Arc<DefaultChatMemory> = Arc::default();
    inside.add_all((0..300).map(|i| Message::user(format!("{i}")))).unwrap();
    let largest = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&largest);
    let memory = MessageWindowChatMemory::new(Arc::clone(&inside), 1).unwrap();
    let memory = memory.on_evict(move |_, records| {
        seen.fetch_max(records.len(), Ordering::Relaxed);
        Ok(())
    });
    assert_eq!(memory.trim().unwrap(), 299);
    let largest = largest.load(Ordering::Relaxed);
    assert!((8..=32).contains(&largest), "{largest} records");
}

/// LangChain4j's window with a computed limit trims what it hands out and not what it stores: a
/// limit that shrinks for a moment and grows again brings back what the model was told to forget.
#[test]
fn a_limit_that_shrinks_and_grows_brings_nothing_back() {
    let limit = Arc::new(AtomicUsize::new(10));
    let inside = Arc::new(DefaultChatMemory::new());
    let memory = window(Arc::clone(&inside), &limit, false, &Archive::default());
    memory.add_all(users(["a", "b", "c", "d", "e"])).unwrap();
    limit.store(2, Ordering::Relaxed);
    assert_eq!(texts(&memory), ["d", "e"]);
    limit.store(10, Ordering::Relaxed);
    assert_eq!(texts(&memory), ["d", "e"], "a read has left it out");
    memory.add(Message::user("f")).unwrap();
    assert_eq!(texts(&memory), ["d", "e", "f"]);
    assert_eq!(texts(&inside), ["d", "e", "f"], "and the append has evicted it");
}

/// Who trims at once after the limit shrank need not wait for the next append.
#[test]
fn trim_evicts_at_once() {
    let limit = Arc::new(AtomicUsize::new(10));
    let now = Arc::clone(&limit);
    let memory = MessageWindowChatMemory::dynamic(DefaultChatMemory::new(), move |id| {
        assert_eq!(id.as_str().len(), 36, "the limit is asked for with the id");
        now.load(Ordering::Relaxed)
    });
    memory.add_all(users(["a", "b", "c", "d", "e"])).unwrap();
    assert_eq!(memory.trim().unwrap(), 0);
    limit.store(2, Ordering::Relaxed);
    assert_eq!(memory.trim().unwrap(), 3);
    assert_eq!(texts(memory.memory()), ["d", "e"]);
}

#[test]
fn a_limit_of_0_is_refused_and_a_computed_one_keeps_the_newest() {
    let error = MessageWindowChatMemory::new(DefaultChatMemory::new(), 0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "message window: a limit of 0 would keep nothing");
    let error = TokenWindowChatMemory::new(DefaultChatMemory::new(), 0, Letters).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "token window: a limit of 0 would keep nothing");
    for tokens in [false, true] {
        let memory = window(DefaultChatMemory::new(), &Arc::default(), tokens, &Archive::default());
        memory.add_all(users(["a", "b"])).unwrap();
        assert_eq!(texts(&memory), ["b"]);
    }
}

/// A counter behind a network fails now and then. A message that was appended and not counted, or
/// counted and not appended, would be wrong for ever.
#[test]
fn a_counter_that_fails_appends_nothing() {
    let (inside, asked) = (Arc::new(DefaultChatMemory::new()), Asked::default());
    let memory = TokenWindowChatMemory::new(Arc::clone(&inside), 6, asked.clone()).unwrap();
    memory.add(Message::user("one")).unwrap();
    let mut batch = users(["two", "uncountable"]).to_vec();
    assert_eq!(memory.append(&mut batch, None).unwrap_err().kind(), ErrorKind::Count);
    assert_eq!(batch.len(), 2, "the batch stays with the caller");
    assert_eq!(texts(&memory), ["one"]);
    assert_eq!(texts(&inside), ["one"]);

    // Others can append it, past the window. Then reads fail, and nothing is lost.
    inside.add(Message::user("uncountable")).unwrap();
    assert_eq!(memory.all().unwrap_err().kind(), ErrorKind::Count);
    assert_eq!(memory.trim().unwrap_err().kind(), ErrorKind::Count);
    memory.add(Message::user("three")).unwrap();
    assert_eq!(texts(&inside), ["one", "uncountable", "three"]);
    memory.add(Message::user("at last")).unwrap(); // and now it is behind a full window
    assert_eq!(texts(&memory), ["at last"]);
    assert_eq!(texts(&inside), ["at last"]);
}

/// Two counts of `usize::MAX` are more than any number, and nothing must come of taking one away.
#[test]
fn counts_of_usize_max_are_more_than_any_budget() {
    let limit = Arc::new(AtomicUsize::new(usize::MAX));
    let now = Arc::clone(&limit);
    let memory = TokenWindowChatMemory::dynamic(
        DefaultChatMemory::new(),
        move |_| now.load(Ordering::Relaxed),
        Asked::default(),
    );
    memory.add_all(users(["a", "endless"])).unwrap();
    assert_eq!(texts(&memory), ["endless"]);
    memory.add(Message::user("endless")).unwrap();
    memory.add(Message::user("")).unwrap();
    assert_eq!(texts(&memory), ["endless", ""]);
    memory.add_all(users(["b", "c"])).unwrap();
    assert_eq!(texts(&memory), ["", "b", "c"]);
    limit.store(1, Ordering::Relaxed);
    memory.add(Message::user("")).unwrap();
    assert_eq!(texts(&memory), ["c", ""]);
}

/// An answer that asks for a tool is the newest message until the result comes. Evicting it, or all
/// before it, would leave the result without its call.
#[test]
fn a_call_that_waits_for_its_result_is_kept() {
    let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), 3, Letters).unwrap();
    memory.add(Message::user("Look!")).unwrap();
    memory.add(Message::ai_calls([ToolCall::new("c", "look", "{}")])).unwrap();
    memory.add(Message::tool("c", "look", "a very fat cat")).unwrap();
    let kept = memory.all().unwrap();
    assert!(kept.first().unwrap().message().has_tool_calls());
    assert_eq!(kept.len(), 2);
}

/// LangChain4j's memories read the list, add to it and write it back: of two messages that come at
/// the same time one is lost.
#[test]
fn appends_from_eight_threads_are_kept_or_handed_over_once_in_order() {
    const THREADS: usize = 8;
    const APPENDS: u64 = 1000;
    const TOTAL: u64 = THREADS as u64 * APPENDS;
    let (archive, asked) = (Archive::default(), Asked::default());
    let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), 200, asked.clone()).unwrap();
    let memory = memory.on_evict(archive.take());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let memory = &memory;
            scope.spawn(move || {
                for i in 0..APPENDS {
                    let text = format!("{thread} {i:03}");
                    let position = memory.add(Message::user(text.as_str())).unwrap();
                    if i % 100 == 0 {
                        let newest = memory.read(Some(position + 1), 1).unwrap();
                        let seen = newest.records.last().map(|r| r.message().text().into_owned());
                        // It is there, unless the others have already pushed it out.
                        assert!(seen == Some(text) || newest.start > position);
                    }
                }
            });
        }
    });
    let kept = memory.all().unwrap();
    assert_eq!(kept.len(), 40, "5 letters each");
    assert_eq!(rows(&kept), rows(&memory.memory().all().unwrap()), "nothing waits to be evicted");
    let all = [archive.rows(), rows(&kept)].concat();
    assert!(all.iter().map(|(position, _)| *position).eq(0..TOTAL));
    let mut next = [0; THREADS];
    for (_, message) in all {
        let text = message.text();
        let (thread, i) = text.split_once(' ').unwrap();
        let thread: usize = thread.parse().unwrap();
        assert_eq!(i.parse::<u64>().unwrap(), next[thread]);
        next[thread] += 1;
    }
    assert_eq!(asked.times() as u64, TOTAL + 1, "each is counted once, and the first read back");
}

/// Two processes talk in one conversation, each through a window of its own. What one has appended
/// counts for the other as well, and what one evicts the other must not miss.
#[test]
fn two_handles_over_one_memory_agree() {
    let inside = Arc::new(DefaultChatMemory::new());
    let (left, right) = (Asked::default(), Asked::default());
    let a = TokenWindowChatMemory::new(Arc::clone(&inside), 6, left.clone()).unwrap();
    let b = TokenWindowChatMemory::new(Arc::clone(&inside), 6, right.clone()).unwrap();
    a.add(Message::user("one")).unwrap();
    b.add(Message::user("two")).unwrap();
    assert_eq!(texts(&a), ["one", "two"]);
    b.add(Message::user("six")).unwrap();
    assert_eq!(texts(&a), ["two", "six"]);
    a.add(Message::user("ten")).unwrap();
    assert_eq!(texts(&b), ["six", "ten"]);
    assert_eq!(texts(&inside), ["six", "ten"]);
    // Each has counted each message once, and its own first one again.
    assert_eq!((left.times(), right.times()), (5, 5));
    b.clear().unwrap();
    assert_eq!(texts(&a), [""; 0]);
    assert_eq!(a.add(Message::user("new")).unwrap(), 4);
    assert_eq!(texts(&b), ["new"]);
}

#[test]
fn two_handles_with_four_threads_each_lose_nothing() {
    const APPENDS: u64 = 500;
    let inside = Arc::new(DefaultChatMemory::new());
    let archive = Archive::default();
    let handle = || {
        let memory = MessageWindowChatMemory::new(Arc::clone(&inside), 7).unwrap();
        memory.on_evict(archive.take())
    };
    let handles = [handle(), handle()];
    thread::scope(|scope| {
        for i in 0..8 {
            let memory = &handles[i % 2];
            scope.spawn(move || {
                for _ in 0..APPENDS {
                    memory.add(Message::user("hello")).unwrap();
                    assert!((1..=7).contains(&memory.all().unwrap().len()));
                }
            });
        }
    });
    for memory in &handles {
        memory.trim().unwrap();
    }
    assert_eq!(inside.all().unwrap().len(), 7);
    let mut given: Vec<u64> = archive.rows().iter().map(|(position, _)| *position).collect();
    given.sort_unstable();
    given.dedup(); // both may have been given a record
    assert!(given.into_iter().eq(0..8 * APPENDS - 7));
}

/// The archive is slow. An append that comes meanwhile need not wait for it, and what it pushes out
/// is evicted by whoever is at it.
#[test]
fn what_comes_during_an_eviction_is_evicted_after_it() {
    let ((arrived, has_arrived), (go, go_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let archive = Archive::default();
    let (take, go_on) = (archive.take(), Mutex::new(go_on));
    let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 2).unwrap();
    let memory = memory.on_evict(move |id, records| {
        if records.messages().any(|m| m.text() == "a") {
            arrived.send(()).unwrap();
            let _ = go_on.lock().unwrap().recv(); // or until the test has failed
        }
        take(id, records)
    });
    memory.add_all(users(["a", "b"])).unwrap();
    thread::scope(|scope| {
        let go = go;
        scope.spawn(|| memory.add(Message::user("c")).unwrap());
        has_arrived.recv().unwrap();
        memory.add(Message::user("d")).unwrap();
        assert_eq!(memory.trim().unwrap(), 0);
        assert_eq!(texts(&memory), ["c", "d"]);
        assert_eq!(texts(memory.memory()), ["a", "b", "c", "d"]);
        go.send(()).unwrap();
    });
    assert_eq!(archive.texts(), ["a", "b"]);
    assert_eq!(texts(memory.memory()), ["c", "d"]);
}

/// The archive is given the beginning of a long history when a user forgets all of it. What was
/// still to be given was forgotten, and archived by no thread.
#[test]
fn evict_takes_nothing_from_a_callback_that_another_thread_runs() {
    let ((arrived, has_arrived), (go, go_on)) = (mpsc::channel(), mpsc::channel::<()>());
    let archive = Archive::default();
    let (take, go_on) = (archive.take(), Mutex::new(go_on));
    let inside = Arc::new(DefaultChatMemory::new());
    inside.add_all((0..1_000).map(|i| Message::user(i.to_string()))).unwrap();
    let memory = MessageWindowChatMemory::new(inside, 100).unwrap();
    let memory = memory.on_evict(move |id, records| {
        arrived.send(()).unwrap();
        let _ = go_on.lock().unwrap().recv(); // or until the test has failed
        take(id, records)
    });
    thread::scope(|scope| {
        let go = go;
        scope.spawn(|| memory.trim().unwrap());
        has_arrived.recv().unwrap();
        assert_eq!(memory.evict(900).unwrap_err().kind(), ErrorKind::Storage);
        assert_eq!(memory.evict(0).unwrap(), 0);
        drop(go);
    });
    assert_eq!(archive.texts().len(), 900);
    assert_eq!(memory.evict(950).unwrap(), 50);
}

/// A user evicts a call and leaves its results. They belong to nothing now, and leave one by one.
#[test]
fn results_whose_call_was_evicted_are_no_group() {
    let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 4).unwrap();
    memory.add(Message::ai_calls([ToolCall::new("c", "look", "{}")])).unwrap();
    memory.add_all(["1", "2", "3"].map(|text| Message::tool("c", "look", text))).unwrap();
    assert_eq!(memory.evict(1).unwrap(), 1);
    memory.add(Message::tool("c", "look", "4")).unwrap();
    assert_eq!(texts(&memory), ["1", "2", "3", "4"]);
    memory.add(Message::user("5")).unwrap();
    assert_eq!(texts(&memory), ["2", "3", "4", "5"]);
}

/// A summary is what most callbacks are for, and it is natural to append it where the messages
/// were. One that evicts another message by that, and so is called again, would never return.
#[test]
fn a_callback_may_append_to_the_memory_it_is_called_by() {
    let memory: Arc<OnceLock<MessageWindowChatMemory>> = Arc::default();
    let (handle, calls) = (Arc::clone(&memory), Arc::new(AtomicUsize::new(0)));
    let called = Arc::clone(&calls);
    let window = MessageWindowChatMemory::new(DefaultChatMemory::new(), 3).unwrap();
    let window = window.on_evict(move |_, records| {
        called.fetch_add(1, Ordering::Relaxed);
        let forgotten: Vec<_> = records.messages().map(Message::text).collect();
        let memory = handle.get().unwrap();
        memory.add(Message::ai(format!("({})", forgotten.join(" "))))?;
        assert!(memory.all()?.len() <= 3);
        assert_eq!(memory.trim()?, 0);
        Ok(())
    });
    let memory = memory.get_or_init(|| window);
    memory.add_all(users(["a", "b", "c"])).unwrap();
    memory.add(Message::user("d")).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(texts(memory), ["c", "d", "(a)"]);
    assert_eq!(texts(memory.memory()), ["b", "c", "d", "(a)"], "b waits for the next append");
    memory.add(Message::user("e")).unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!(texts(memory), ["(a)", "e", "(b c)"]);
}

/// A limit in messages over a limit in tokens, with a callback inside that appends to the outside:
/// it is called while the outside appends, and must neither wait for that for ever nor fail.
#[test]
fn windows_may_wrap_each_other() {
    type Both = MessageWindowChatMemory<TokenWindowChatMemory>;
    let both: Arc<OnceLock<Both>> = Arc::default();
    let (handle, asked) = (Arc::clone(&both), Asked::default());
    let tokens = TokenWindowChatMemory::new(DefaultChatMemory::new(), 10, asked.clone()).unwrap();
    let tokens = tokens.on_evict(move |_, records| {
        if records.messages().any(|m| m.text() == "long one") {
            let outside = handle.get().unwrap();
            outside.add(Message::ai("(cut)"))?;
            assert_eq!(outside.all()?.len(), 3);
        }
        Ok(())
    });
    let memory = both.get_or_init(|| MessageWindowChatMemory::new(tokens, 3).unwrap());
    memory.add_all(users(["a", "b", "c", "d"])).unwrap();
    assert_eq!(texts(memory), ["b", "c", "d"]);
    memory.add(Message::user("long one")).unwrap();
    assert_eq!(texts(memory), ["c", "d", "long one"]);
    memory.add(Message::user("e")).unwrap();
    memory.add(Message::user("f")).unwrap();
    memory.add(Message::user("g")).unwrap();
    // Inside, `g` has pushed out the long one, and that has appended while `g` was under way.
    assert_eq!(texts(memory), ["f", "g", "(cut)"]);
    assert_eq!(asked.times(), 13, "the first four are read back");
    // And over a memory whose kind is not known.
    let any: Arc<dyn ChatMemory> = Arc::new(DefaultChatMemory::with_id("a:b:c"));
    let memory = MessageWindowChatMemory::new(any, 1).unwrap();
    assert_eq!(memory.id().as_str(), "a:b:c");
    let prompt = MemoryPrompt::new(memory);
    prompt.add_all(users(["a", "b"])).unwrap();
    assert_eq!(prompt.preview().unwrap().len(), 1);
}

/// The archive is down. What is evicted without it is lost, and an append that fails for it loses
/// what the user said.
#[test]
fn a_callback_that_fails_keeps_what_it_did_not_take() {
    let down = Arc::new(AtomicUsize::new(0));
    let (archive, fails) = (Archive::default(), Arc::clone(&down));
    let take = archive.take();
    let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 2).unwrap();
    let memory = memory.on_evict(move |id, records| match fails.load(Ordering::Relaxed) {
        0 => take(id, records),
        1 => Err("the archive is down".into()),
        _ => panic!("the archive is on fire"),
    });
    memory.add_all(users(["a", "b", "c"])).unwrap();
    assert_eq!(archive.texts(), ["a"]);
    down.store(1, Ordering::Relaxed);
    memory.add(Message::user("d")).unwrap();
    assert_eq!(texts(&memory), ["c", "d"], "reads are within the limit");
    assert_eq!(texts(memory.memory()), ["b", "c", "d"], "what was not taken is there");
    for error in [memory.trim().unwrap_err(), memory.evict(3).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Storage);
        assert_eq!(error.to_string(), "evict: the callback failed, so nothing more was evicted");
        let cause = std::error::Error::source(&error).unwrap();
        assert_eq!(cause.to_string(), "the archive is down");
    }
    // A panic goes to whoever appends. The message is appended all the same.
    down.store(2, Ordering::Relaxed);
    let panicked = catch_unwind(AssertUnwindSafe(|| memory.add(Message::user("e"))));
    assert!(panicked.is_err());
    assert_eq!(texts(&memory), ["d", "e"]);
    down.store(0, Ordering::Relaxed);
    memory.add(Message::user("f")).unwrap();
    assert_eq!(archive.texts(), ["a", "b", "c", "d"]);
    assert_eq!(texts(memory.memory()), ["e", "f"]);
    // What a user asks to be forgotten is not evicted by the window.
    assert_eq!(memory.evict(5).unwrap(), 1);
    memory.clear().unwrap();
    assert_eq!(archive.texts(), ["a", "b", "c", "d"]);
    assert_eq!(texts(&memory), [""; 0]);
}

/// The archive has taken it, and then the store failed to evict. The next try must not archive it
/// twice.
#[test]
fn what_was_handed_over_and_not_evicted_is_not_handed_over_again() {
    let (probe, archive) = (Probe::over(Arc::default()), Archive::default());
    let memory = MessageWindowChatMemory::new(probe.clone(), 2).unwrap();
    let memory = memory.on_evict(archive.take());
    memory.add_all(users(["a", "b"])).unwrap();
    probe.fail_after(2); // append and read are well, evict fails
    memory.add(Message::user("c")).unwrap();
    assert_eq!(archive.texts(), ["a"]);
    assert_eq!(texts(&probe.memory), ["a", "b", "c"]);
    memory.add(Message::user("d")).unwrap();
    assert_eq!(archive.texts(), ["a", "b"]);
    assert_eq!(texts(&probe.memory), ["c", "d"]);
    probe.fail_after(0);
    let error = memory.append(&mut vec![Message::user("e")], None).unwrap_err();
    assert_eq!(error.to_string(), "append: the disk is full");
    assert_eq!(texts(&memory), ["c", "d"]);
}

/// A store deletes a conversation, and another begins under the same id at position 0. A window
/// that still knows the old positions would take all of it for evicted.
#[test]
fn a_conversation_that_begins_anew_is_another_one() {
    let store = InMemoryStore::new();
    let inside = || store.memory("a").unwrap();
    let memory = MessageWindowChatMemory::new(inside(), 2).unwrap();
    for read_first in [true, false] {
        memory.add_all(users(["a", "b", "c"])).unwrap();
        assert!(store.delete(inside().id()).unwrap());
        if read_first {
            assert_eq!(texts(&memory), [""; 0]);
        }
        memory.add_all(users(["d", "e"])).unwrap();
        assert_eq!(texts(&memory), ["d", "e"]);
        memory.add(Message::user("f")).unwrap();
        assert_eq!(texts(&inside()), ["e", "f"]);
    }
}

/// A newer version has written rows that this one can't read. They are no reason to see no window.
#[test]
fn rows_that_cannot_be_read_weigh_nothing_and_are_passed_over() {
    #[derive(Debug)]
    struct Torn(Arc<DefaultChatMemory>);
    impl Torn {
        fn is_torn(row: u64) -> bool {
            matches!(row, 3 | 8 | 40..90)
        }
    }
    impl ChatMemory for Torn {
        inside!(0: id append evict clear);
        fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
            let mut snapshot = self.0.read(before, n)?;
            let rows = rows(&snapshot.records);
            let (torn, whole): (Vec<_>, Vec<_>) =
                rows.into_iter().partition(|(position, _)| Self::is_torn(*position));
            let error = Arc::new(Error::new(ErrorKind::Codec, "read", "of version 2"));
            snapshot.unreadable = torn
                .iter()
                .map(|(position, _)| Unreadable { position: *position, error: Arc::clone(&error) })
                .collect();
            let now = SystemTime::now();
            snapshot.records =
                Records::from_rows(whole.into_iter().map(|(position, m)| (position, now, m)));
            Ok(snapshot)
        }
    }
    for (rows, limit, start) in [(12, 5, 6), (12, 10, 0), (100, 11, 39), (100, 40, 10), (90, 5, 35)]
    {
        for read_first in [true, false] {
            for tokens in [true, false] {
                let inside = Arc::new(DefaultChatMemory::new());
                inside.add_all((0..rows).map(|_| Message::user("a"))).unwrap();
                let (archive, limit) = (Archive::default(), Arc::new(AtomicUsize::new(limit)));
                let memory = window(Torn(Arc::clone(&inside)), &limit, tokens, &archive);
                if read_first {
                    let snapshot = memory.read(None, usize::MAX).unwrap();
                    let readable = (start..rows).filter(|row| !Torn::is_torn(*row));
                    assert!(snapshot.records.iter().map(|r| r.position()).eq(readable));
                    let torn = (start..rows).filter(|row| Torn::is_torn(*row));
                    assert!(snapshot.unreadable.iter().map(|row| row.position).eq(torn));
                    assert_eq!(snapshot.start, start);
                }
                memory.add(Message::user("a")).unwrap();
                let kept = memory.all().unwrap();
                assert!(kept.len() <= limit.load(Ordering::Relaxed));
                let given = archive.rows();
                let held = inside.all().unwrap().first().unwrap().position();
                let readable = (0..held).filter(|row| !Torn::is_torn(*row));
                assert!(given.iter().map(|(position, _)| *position).eq(readable));
            }
        }
    }
}

#[test]
fn debug_output_holds_no_text() {
    let inside = DefaultChatMemory::with_id("a:b:c");
    let memory = MessageWindowChatMemory::new(inside, 5).unwrap();
    memory.add(Message::user("my secret")).unwrap();
    assert_eq!(
        format!("{memory:?}"),
        r#"MessageWindowChatMemory { memory: DefaultChatMemory { id: "a:b:c", positions: 0..1, system: false }, limit: 5 }"#
    );
    let memory = TokenWindowChatMemory::dynamic(DefaultChatMemory::new(), |_| 5, Letters);
    assert!(format!("{memory:?}").ends_with("limit: computed }"));
}

/// A window that is large enough is a memory like any other.
mod contract {
    use std::collections::HashMap;

    use memory_prompt::conformance::{Countdown, FaultFixture, Fixture};

    use super::*;

    type Kept = Arc<Countdown<DefaultChatMemory>>;

    /// Each handle is a window of its own, so that each has to find out what the others did.
    struct Windows<const TOKENS: bool>(Mutex<HashMap<String, Kept>>);

    impl<const TOKENS: bool> Fixture for Windows<TOKENS> {
        const BACKEND: &'static str = if TOKENS { "token window" } else { "message window" };
        fn new() -> Self {
            Self(Mutex::default())
        }
        fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
            let mut kept = self.0.lock().unwrap();
            let new = || Arc::new(Countdown::new(DefaultChatMemory::with_id(id)));
            let inside = Arc::clone(kept.entry(id.to_owned()).or_insert_with(new));
            Arc::from(window(inside, &Arc::new(usize::MAX.into()), TOKENS, &Archive::default()))
        }
    }

    impl<const TOKENS: bool> FaultFixture for Windows<TOKENS> {
        fn fail_after(&self, steps: Option<u64>) {
            for kept in self.0.lock().unwrap().values() {
                kept.fail_after(steps.map(|steps| steps % 4));
            }
        }
    }

    memory_prompt::conformance!(message_window: Windows<false>, [memory, ids, slots, times, media, faults, slot_faults]);
    memory_prompt::conformance!(token_window: Windows<true>, [memory, ids, slots, times, media, faults, slot_faults]);
}

#[test]
fn ids_slots_and_times_are_those_of_the_memory_inside() {
    let inside = Arc::new(DefaultChatMemory::new());
    let memory = MessageWindowChatMemory::new(Arc::clone(&inside), 3).unwrap();
    let turn = |i: u64| {
        let change = Append::new([Message::user(i.to_string())]).with_id(format!("turn {i}"));
        change.set_slot("last", i.to_string(), Expected::Any).with_times([SystemTime::UNIX_EPOCH])
    };
    for i in 0..10 {
        let appended = memory.append_with(&mut turn(i)).unwrap();
        assert_eq!((appended.positions, appended.repeated), (i..i + 1, false));
    }
    // The window moves with these appends, too, and a repetition does not move it.
    assert_eq!((inside.all().unwrap().len(), inside.next_position().unwrap()), (3, 10));
    assert_eq!(memory.append_with(&mut turn(2)).unwrap().positions, 2..3);
    assert_eq!(memory.slot("last").unwrap().unwrap().text(), Some("9"));
    assert_eq!(memory.slots().unwrap(), inside.slots().unwrap());
    assert_eq!(memory.limits(), inside.limits());
    let at = memory.all().unwrap().first().map(|record| record.appended_at());
    assert_eq!(at, Some(SystemTime::UNIX_EPOCH));
}

#[test]
fn single_records_are_read_within_the_window() {
    let inside = Arc::new(DefaultChatMemory::new());
    inside.add_all((0..10).map(|i| Message::user(i.to_string()))).unwrap();
    let memory = MessageWindowChatMemory::new(Arc::clone(&inside), 3).unwrap();
    // Nothing is evicted yet: the memory inside would give more.
    let snapshot = memory.read_with(&Read::newest(1).positions([0, 6, 7, 9, 10])).unwrap();
    let picked: Vec<_> = snapshot.picked().iter().map(|record| record.position()).collect();
    assert_eq!((picked, snapshot.start), (vec![7, 9], 7));
    assert_eq!(inside.all().unwrap().len(), 10);
}

/// What a repetition brings is not what is stored: a window that weighs it would be too short.
#[test]
fn a_repetition_weighs_nothing() {
    let inside = Arc::new(DefaultChatMemory::new());
    inside.add_all((0..5).map(|i| Message::user(i.to_string()))).unwrap();
    let turn = |text: &str| Append::new([Message::user(text)]).with_id("turn");
    assert_eq!(inside.append_with(&mut turn("5")).unwrap().positions, 5..6);
    let memory = TokenWindowChatMemory::new(Arc::clone(&inside), 4, Letters).unwrap();
    assert!(memory.append_with(&mut turn("much longer than what is stored")).unwrap().repeated);
    assert_eq!(memory.all().unwrap().len(), 4);
}
