//! Lives of a prompt: operations on memories, temporaries and settings in any order, done to a
//! blocking prompt and (with the feature `async`) to its twin, over the same memories.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::UNIX_EPOCH;

use memory_prompt::compose::Placement;
use memory_prompt::memory::MemoryId;
use memory_prompt::message::{AiMessage, Role, SystemMessage, ToolMessage, UserMessage};
use memory_prompt::record::{Records, Snapshot};
use memory_prompt::token::{Overhead, TokenCounter};
use memory_prompt::window::ToolGroups;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, Composer, Error, ErrorKind, InMemoryStore,
    MemoryPrompt, Message, Prompt, Provider, Result, ToolCall,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::TestCaseResult;

use crate::inside::inside;
use crate::model::{Kind, Processor, Settings, Tokens};
use crate::notation;

/// Words, and 3 tokens a message.
pub struct Words;

impl TokenCounter for Words {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(text.split_whitespace().count())
    }
    fn overhead(&self) -> Overhead {
        let mut overhead = Overhead::default();
        overhead.message = 3;
        overhead
    }
}

/// A memory of one's own, in which system messages are records like all others.
#[derive(Debug)]
pub struct Kept {
    id: MemoryId,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    records: Vec<(u64, Message)>,
    end: u64,
}

impl Kept {
    pub fn new(id: &str) -> Self {
        Self { id: id.into(), held: Mutex::default() }
    }

    fn begin_anew(&self) {
        *self.held.lock().unwrap() = Held::default();
    }
}

impl ChatMemory for Kept {
    fn id(&self) -> &MemoryId {
        &self.id
    }
    fn append(&self, batch: &mut Vec<Message>, _: Option<u64>) -> Result<Range<u64>> {
        let mut held = self.held.lock().unwrap();
        let first = held.end;
        for message in batch.drain(..) {
            let position = held.end;
            held.records.push((position, message));
            held.end += 1;
        }
        Ok(first..held.end)
    }
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let held = self.held.lock().unwrap();
        let before = before.unwrap_or(held.end);
        let rows = held.records.iter().rev().filter(|row| row.0 < before).take(n);
        let records =
            Records::from_rows(rows.map(|(position, it)| (*position, UNIX_EPOCH, it.clone())));
        let start = held.records.first().map_or(held.end, |row| row.0);
        Ok(Snapshot::new(start..held.end, records))
    }
    fn evict(&self, before: u64) -> Result<u64> {
        let mut held = self.held.lock().unwrap();
        let had = held.records.len();
        held.records.retain(|row| row.0 >= before);
        Ok((had - held.records.len()) as u64)
    }
    fn clear(&self) -> Result<()> {
        self.held.lock().unwrap().records.clear();
        Ok(())
    }
}

/// A memory that fails to read while it is told to.
#[derive(Debug)]
pub struct Flaky {
    inner: Arc<dyn ChatMemory>,
    fails: AtomicBool,
}

impl Flaky {
    pub fn over(inner: Arc<dyn ChatMemory>) -> Arc<Self> {
        Arc::new(Self { inner, fails: AtomicBool::new(false) })
    }

    pub fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }
}

impl ChatMemory for Flaky {
    inside!(inner: id append evict clear);
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Storage, "read", "told to fail"));
        }
        self.inner.read(before, n)
    }
}

/// What happens in a life.
#[derive(Clone, Debug)]
pub enum Op {
    Append(Vec<Message>),
    /// So many rounds of a tool loop, with a record of the application's own in each or not.
    Loop(usize, bool),
    /// So many records of the application's own.
    Flood(usize),
    /// Forgets all but so many of the newest.
    Evict(u64),
    Clear,
    /// Begins again under the same id, at position 0.
    Delete,
    Swap,
    /// A build that fails to read.
    Fail,
    /// An async build that is dropped half way.
    Drop,
    Temporaries(Vec<Message>),
    Forget,
    Configure(Box<Settings>),
    Build {
        preview: bool,
    },
}

impl std::fmt::Display for Op {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let list = |messages: &[Message]| {
            messages.iter().map(notation::written).collect::<Vec<_>>().join(" ")
        };
        match self {
            Self::Append(messages) => write!(f, "append {}", list(messages)),
            Self::Temporaries(messages) => write!(f, "temporaries {}", list(messages)),
            Self::Configure(settings) => write!(f, "configure {settings:?}"),
            other => write!(f, "{other:?}"),
        }
    }
}

/// A prompt with its twin, and what they are to have in mind.
pub struct Life {
    store: InMemoryStore,
    own: Option<[Arc<Kept>; 2]>,
    ids: [&'static str; 2],
    memory: Arc<Flaky>,
    blocking: MemoryPrompt,
    #[cfg(feature = "async")]
    twin: twin::Twin,
    /// Temporaries, and whether a build that failed has seen them.
    waiting: Vec<(Message, bool)>,
    dropped: Vec<Role>,
}

impl Life {
    pub fn new(own: bool, composer: &Composer) -> Self {
        let store = InMemoryStore::new();
        let own = own.then(|| ["a", "b"].map(|id| Arc::new(Kept::new(id))));
        let ids = ["a", "b"];
        let memory = open(&store, own.as_ref(), ids[0]);
        let mut blocking = MemoryPrompt::new(Arc::clone(&memory));
        blocking.configure(|_| composer.clone());
        Self {
            store,
            own,
            ids,
            #[cfg(feature = "async")]
            twin: twin::Twin::new(Arc::clone(&memory), composer),
            memory,
            blocking,
            waiting: Vec::new(),
            dropped: Vec::new(),
        }
    }

    pub fn memory(&self) -> Arc<Flaky> {
        Arc::clone(&self.memory)
    }

    pub fn waiting(&self) -> impl Iterator<Item = &Message> {
        self.waiting.iter().map(|(message, _)| message)
    }

    /// Those that a swap dropped since the last build.
    pub fn dropped(&self) -> &[Role] {
        &self.dropped
    }

    pub fn configure(&mut self, composer: &Composer) {
        self.blocking.configure(|_| composer.clone());
        #[cfg(feature = "async")]
        self.twin.prompt.configure(|_| composer.clone());
    }

    pub fn preview(&self) -> Result<Prompt> {
        self.blocking.preview()
    }

    /// Builds with both.
    pub fn build(&mut self) -> std::result::Result<Result<Prompt>, TestCaseError> {
        let built = self.blocking.build();
        #[cfg(feature = "async")]
        {
            let twin = twin::block_on(self.twin.prompt.build());
            match (&built, &twin) {
                (Ok(built), Ok(twin)) => prop_assert_eq!(built, twin),
                (Err(built), Err(twin)) => prop_assert_eq!(built.to_string(), twin.to_string()),
                _ => prop_assert!(false, "{built:?}, and its twin {twin:?}"),
            }
        }
        match &built {
            Ok(_) => {
                self.waiting.clear();
                self.dropped.clear();
            }
            Err(_) => self.waiting.iter_mut().for_each(|it| it.1 = true),
        }
        let left: Vec<&Message> = self.blocking.temporaries().collect();
        let waiting: Vec<&Message> = self.waiting.iter().map(|it| &it.0).collect();
        prop_assert_eq!(left, waiting);
        Ok(built)
    }

    pub fn go_through(&mut self, op: Op) -> TestCaseResult {
        match op {
            Op::Append(messages) => drop(self.memory.add_all(messages).unwrap()),
            Op::Loop(rounds, audited) => {
                let round = |i: usize| {
                    let id = format!("c{}", i % 3);
                    let mut round = vec![
                        Message::ai_calls([ToolCall::new(id.clone(), "look", "{}")]),
                        Message::tool(id, "look", "seen"),
                    ];
                    if audited {
                        round.insert(1, audit());
                    }
                    round
                };
                self.memory.add_all((0..rounds).flat_map(round)).unwrap();
            }
            Op::Flood(n) => drop(self.memory.add_all((0..n).map(|_| audit())).unwrap()),
            Op::Evict(keep) => {
                let end = self.memory.next_position().unwrap();
                self.memory.evict(end.saturating_sub(keep)).unwrap();
            }
            Op::Clear => self.memory.clear().unwrap(),
            Op::Delete => match &self.own {
                Some([one, other]) => {
                    let own = if self.ids[0] == "a" { one } else { other };
                    own.begin_anew();
                }
                None => drop(self.store.delete(&self.ids[0].into()).unwrap()),
            },
            Op::Swap => {
                self.ids.swap(0, 1);
                self.memory = open(&self.store, self.own.as_ref(), self.ids[0]);
                self.blocking.set_memory(Arc::clone(&self.memory));
                #[cfg(feature = "async")]
                self.twin.prompt.set_memory(twin::Later(Arc::clone(&self.memory)));
                let seen = self.waiting.iter().filter(|it| it.1);
                self.dropped.extend(seen.map(|it| it.0.role()));
                self.waiting.retain(|it| !it.1);
            }
            Op::Fail | Op::Drop => {
                self.memory.fail(true);
                let failed = self.blocking.build();
                prop_assert!(failed.is_err());
                #[cfg(feature = "async")]
                match op {
                    Op::Drop => self.twin.drop_half_way(),
                    _ => prop_assert!(twin::block_on(self.twin.prompt.build()).is_err()),
                }
                self.memory.fail(false);
                self.waiting.iter_mut().for_each(|it| it.1 = true);
            }
            Op::Temporaries(messages) => {
                for message in messages {
                    self.blocking.add_temporary(message.clone());
                    #[cfg(feature = "async")]
                    self.twin.prompt.add_temporary(message.clone());
                    self.waiting.push((message, false));
                }
            }
            Op::Forget => {
                self.blocking.clear_temporaries();
                #[cfg(feature = "async")]
                self.twin.prompt.clear_temporaries();
                self.waiting.clear();
            }
            Op::Configure(_) | Op::Build { .. } => unreachable!("the test does these itself"),
        }
        Ok(())
    }
}

fn open(store: &InMemoryStore, own: Option<&[Arc<Kept>; 2]>, id: &str) -> Arc<Flaky> {
    let inner: Arc<dyn ChatMemory> = match own {
        Some([one, other]) => Arc::clone(if id == "a" { one } else { other }) as _,
        None => Arc::new(store.memory(id).unwrap()),
    };
    Flaky::over(inner)
}

#[cfg(feature = "async")]
mod twin {
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};

    use memory_prompt::AsyncChatMemory;
    use memory_prompt::memory::BoxFuture;

    use super::*;

    /// The same memory for async code: pending once before each answer.
    #[derive(Debug)]
    pub struct Later(pub Arc<Flaky>);

    #[derive(Default)]
    struct Once(bool);

    impl Future for Once {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
            if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
        }
    }

    impl AsyncChatMemory for Later {
        fn id(&self) -> &MemoryId {
            self.0.id()
        }
        fn append<'a>(
            &'a self,
            batch: &'a mut Vec<Message>,
            expected: Option<u64>,
        ) -> BoxFuture<'a, Result<Range<u64>>> {
            Box::pin(async move { self.0.append(batch, expected) })
        }
        fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
            Box::pin(async move {
                Once::default().await;
                self.0.read(before, n)
            })
        }
        fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
            Box::pin(async move { self.0.evict(before) })
        }
        fn clear(&self) -> BoxFuture<'_, Result<()>> {
            Box::pin(async move { self.0.clear() })
        }
    }

    pub struct Twin {
        pub prompt: MemoryPrompt<dyn AsyncChatMemory>,
    }

    impl Twin {
        pub fn new(memory: Arc<Flaky>, composer: &Composer) -> Self {
            let mut prompt = MemoryPrompt::new_async(Later(memory));
            prompt.configure(|_| composer.clone());
            Self { prompt }
        }

        pub fn drop_half_way(&mut self) {
            let mut build = pin!(self.prompt.build());
            assert!(build.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
    }

    pub fn block_on<T>(future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        loop {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
                return value;
            }
        }
    }
}

// What is said

fn audit() -> Message {
    Message::custom([("audit".to_owned(), true.into())])
}

/// Few words, none, or many.
fn text() -> BoxedStrategy<String> {
    prop_oneof![
        12 => "[a-c]{1,3}( [a-c]{1,3}){0,4}",
        1 => Just(String::new()),
        1 => Just("  ".to_owned()),
        1 => (20usize..60).prop_map(|n| "word ".repeat(n)),
    ]
    .boxed()
}

fn id() -> BoxedStrategy<&'static str> {
    select(&["0", "0", "1", "2", ""][..]).boxed()
}

fn tool() -> BoxedStrategy<&'static str> {
    select(&["look", "look", "look", "book", ""][..]).boxed()
}

/// A result, or what stands in for one.
fn marked(result: ToolMessage, stands_in: bool) -> Message {
    if stands_in { result.with_attribute("turn:stand_in", true).into() } else { result.into() }
}

fn result() -> BoxedStrategy<Message> {
    (id(), tool(), text(), prop::bool::weighted(0.2))
        .prop_map(|(id, name, text, stand_in)| marked(ToolMessage::new(id, name, text), stand_in))
        .boxed()
}

/// Calls, and results: all, some, in any order, or none yet.
fn group() -> BoxedStrategy<Vec<Message>> {
    let calls = vec((id(), tool()), 1..4);
    (calls, text(), prop::bool::weighted(0.3))
        .prop_flat_map(|(calls, said, waits)| {
            let mut ai = AiMessage::new(if waits { said } else { String::new() });
            for (id, name) in &calls {
                ai = ai.with_tool_call(ToolCall::new(*id, *name, "{}"));
            }
            let result = |(id, name): &(&str, &str)| ToolMessage::new(*id, *name, "a result");
            let results: Vec<_> = calls.iter().map(|it| marked(result(it), waits)).collect();
            let most = results.len();
            let all = Just(results.clone()).prop_shuffle();
            let some = proptest::sample::subsequence(results, 0..=most);
            let ai = Message::from(ai);
            prop_oneof![2 => all, 2 => some]
                .prop_map(move |results| [vec![ai.clone()], results].concat())
        })
        .boxed()
}

fn system() -> BoxedStrategy<Message> {
    ("[s-z]{1,4}", any::<bool>())
        .prop_map(|(text, named)| {
            let message = SystemMessage::new(text);
            if named {
                message.with_name("house").with_attribute("version", 2).into()
            } else {
                message.into()
            }
        })
        .boxed()
}

fn unknown_role() -> Message {
    serde_json::from_value(serde_json::json!({"role": "x-note", "content": "some words"})).unwrap()
}

fn said() -> BoxedStrategy<Vec<Message>> {
    prop_oneof![
        8 => text().prop_map(|text| vec![Message::user(text)]),
        8 => text().prop_map(|text| vec![Message::ai(text)]),
        2 => text().prop_map(|text| {
            vec![UserMessage::new(text).with_attribute("turn:steered", true).into()]
        }),
        8 => group(),
        6 => result().prop_map(|it| vec![it]),
        3 => (1usize..4).prop_map(|n| vec![audit(); n]),
        1 => Just(vec![unknown_role()]),
        2 => system().prop_map(|it| vec![it]),
    ]
    .boxed()
}

fn temporary() -> BoxedStrategy<Message> {
    prop_oneof![
        4 => "[a-c]{1,3}".prop_map(Message::user),
        1 => "[a-c]{1,3}".prop_map(Message::ai),
        1 => system(),
    ]
    .boxed()
}

fn kind() -> BoxedStrategy<Kind> {
    prop_oneof![
        6 => (0usize..12).prop_map(Kind::Last),
        2 => (0usize..4).prop_map(Kind::Turns),
        1 => Just(Kind::All),
        2 => (1usize..8, 1usize..8).prop_map(|(low, step)| Kind::Stepped(low, step)),
    ]
    .boxed()
}

fn tokens() -> BoxedStrategy<Tokens> {
    let marks = proptest::option::weighted(0.2, (1usize..60, 1usize..60));
    (8usize..160, 0usize..12, marks, any::<bool>())
        .prop_map(|(most, reserve, marks, cut_first)| {
            let marks = marks.map(|(low, more)| (low, low + more));
            let marks = marks.filter(|(_, high)| *high <= most.saturating_sub(reserve));
            Tokens { most, reserve, marks, cut_first }
        })
        .boxed()
}

fn providers() -> BoxedStrategy<Provider> {
    use Provider::*;
    select(vec![
        OpenAi,
        OpenAiResponses,
        Anthropic,
        Anthropic,
        Gemini,
        Mistral,
        StrictTemplate,
        Ollama,
    ])
    .boxed()
}

/// Any settings of which the rules speak.
pub fn settings() -> BoxedStrategy<Settings> {
    use proptest::bool::weighted as chance;
    use proptest::option::weighted as some;
    let window = (some(0.9, kind()), chance(0.1), chance(0.15));
    let groups = prop_oneof![
        10 => Just(ToolGroups::Repair),
        1 => Just(ToolGroups::FailOnRepair),
        1 => Just(ToolGroups::Off),
    ];
    let processor = some(0.15, select(vec![Processor::Drops, Processor::Redacts]));
    let cut = (some(0.2, 1usize..20), any::<bool>(), processor, any::<bool>());
    let placement = prop_oneof![
        3 => Just(Placement::End),
        1 => Just(Placement::BeforeLastUser),
        1 => Just(Placement::AfterSystem),
    ];
    let rest = (some(0.45, providers()), some(0.25, tokens()), some(0.2, "[a-z]{1,4}"));
    (window, groups, cut, placement, rest)
        .prop_map(|((window, exactly, user_first), groups, cut, placement, rest)| {
            let (provider, tokens, system) = rest;
            let (cut, sparing, processor, bounded) = cut;
            let set = window.is_some();
            let (exactly, user_first) = (exactly && set, user_first && set);
            Settings {
                window,
                exactly,
                user_first,
                groups,
                cut,
                sparing,
                processor,
                bounded,
                placement,
                provider,
                tokens,
                system,
            }
        })
        .boxed()
}

/// What happens in one life.
pub fn ops() -> BoxedStrategy<Vec<Op>> {
    let batch = vec(said(), 1..8).prop_map(|said| Op::Append(said.concat()));
    let op = prop_oneof![
        20 => said().prop_map(Op::Append),
        4 => batch,
        1 => (2usize..50, any::<bool>()).prop_map(|(rounds, audited)| Op::Loop(rounds, audited)),
        1 => (5usize..90).prop_map(Op::Flood),
        2 => (0u64..20).prop_map(Op::Evict),
        1 => Just(Op::Clear),
        1 => Just(Op::Delete),
        2 => Just(Op::Swap),
        1 => Just(Op::Fail),
        1 => Just(Op::Drop),
        3 => vec(temporary(), 1..3).prop_map(Op::Temporaries),
        1 => Just(Op::Forget),
        4 => settings().prop_map(Box::new).prop_map(Op::Configure),
        14 => any::<bool>().prop_map(|preview| Op::Build { preview }),
    ];
    let first = settings().prop_map(Box::new).prop_map(Op::Configure);
    (first, vec(op, 1..50))
        .prop_map(|(first, mut ops)| {
            ops.insert(0, first);
            ops.push(Op::Build { preview: false });
            ops
        })
        .boxed()
}
