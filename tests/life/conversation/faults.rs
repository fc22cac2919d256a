//! Whatever goes wrong in turns, what is stored is complete, and the next turn works.

use std::collections::{BTreeMap, VecDeque};
use std::future::{pending, poll_fn};
use std::ops::Range;
use std::panic::resume_unwind;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use memory_prompt::memory::{Append, Appended, BoxFuture, MemoryId, Read};
use memory_prompt::message::ToolMessage;
use memory_prompt::record::{SlotVersion, Snapshot};
use memory_prompt::turn::{Done, OnConflict, OnNoCheckpoint, Unfinished};
use memory_prompt::wire;
use memory_prompt::{AsyncChatMemory, Error, Prompt, Window};
use proptest::prelude::*;

use super::either::Either;
use super::*;
use crate::counted::counted;
use crate::inside::inside;
use crate::setups::{PROVIDERS, request};
use crate::wrong::wrong;

/// What a model does when it is asked.
#[derive(Clone, Debug)]
enum Step {
    Calls(Vec<Called>),
    Fails,
    /// A rate limit, as a provider reports it.
    Limited,
    /// What it sends is not JSON.
    Garbage,
    /// Its stream breaks off.
    Cut,
    /// Its stream stalls forever.
    Stalls,
    /// Before it answers, another tab appends this often.
    Other(usize),
    /// Before it answers, the conversation is cleared and begun again.
    Clears,
    /// Before it answers, somebody adopts the turn and ends it.
    Adopted,
    /// The user stops it.
    Stops,
    /// Before it answers, the user adds something.
    Steers,
}

#[derive(Clone, Copy, Debug)]
enum Called {
    Look,
    Book,
    Fail,
    Panic,
    Silent,
    Unknown,
    BadArguments,
    Large,
    /// Needs approval.
    Pay,
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools)] // settings, each by itself
struct Plan {
    steps: Vec<Step>,
    /// The future is dropped after this many polls: at any await.
    drop_after: Option<usize>,
    /// The most rounds, the rule if others append, and the decision on calls that need approval.
    settings: (u32, OnConflict, Approval),
    fails: Fails,
    /// What is left over is adopted after a restart.
    goes_on: bool,
    /// First the turns of dead processes are ended, and pending calls are decided on.
    recovers: bool,
    /// It is adopted by two owners who share one copy of it.
    is_copied: bool,
    /// The turn is kept, and run again if its run is dropped or fails.
    is_kept: bool,
}

fn plans() -> impl Strategy<Value = Plan> {
    use Called::{BadArguments, Book, Fail, Large, Look, Panic, Pay, Silent, Unknown};
    let called = vec![Look, Book, Book, Fail, Panic, Silent, Unknown, Large, Pay];
    let called = prop_oneof![9 => proptest::sample::select(called), 1 => Just(BadArguments)];
    let step = prop_oneof![
        8 => proptest::collection::vec(called, 1..4).prop_map(Step::Calls),
        1 => Just(Step::Fails),
        1 => Just(Step::Limited),
        1 => Just(Step::Garbage),
        1 => Just(Step::Cut),
        1 => Just(Step::Stalls),
        1 => prop_oneof![4 => Just(1usize), 1 => Just(300)].prop_map(Step::Other),
        1 => Just(Step::Clears),
        1 => Just(Step::Adopted),
        1 => Just(Step::Stops),
        1 => Just(Step::Steers),
    ];
    let approval = prop_oneof![
        Just(Approval::Yes),
        Just(Approval::Later),
        Just(Approval::No("too dear".to_owned())),
    ];
    let on_conflict = prop_oneof![3 => Just(OnConflict::Behind), 1 => Just(OnConflict::Fail)];
    let steps = proptest::collection::vec(step, 0..5);
    let drop_after = proptest::option::weighted(0.4, 0usize..60);
    let adopted = proptest::option::weighted(0.5, any::<bool>());
    let behind = prop_oneof![1 => Just(0usize), 2 => 0usize..8];
    let fails = (behind, 1usize..4, any::<bool>(), any::<bool>(), adopted);
    let fails = fails.prop_map(|(behind, times, is_lost, with_reads, adopted)| Fails {
        behind,
        times,
        is_lost,
        with_reads,
        adopted,
    });
    let fails = prop_oneof![1 => Just(Fails::default()), 1 => fails];
    let later = (any::<bool>(), any::<bool>(), any::<bool>(), proptest::bool::weighted(0.3));
    (steps, drop_after, (1u32..4, on_conflict, approval), fails, later).prop_map(
        |(steps, drop_after, settings, fails, later)| {
            let (goes_on, recovers, is_copied, is_kept) = later;
            Plan { steps, drop_after, settings, fails, goes_on, recovers, is_copied, is_kept }
        },
    )
}

/// A memory that is slow before and after each change.
#[derive(Debug)]
pub(crate) struct Slow<M: ?Sized = DefaultChatMemory>(pub(crate) Arc<M>);

/// A memory for messages of at most 2,000 bytes, and slots of this many, which fails as configured.
#[derive(Debug)]
struct Small(Arc<DefaultChatMemory>, Arc<Mutex<Fails>>, usize);

/// After this many writes, or writes and reads, this many fail. If only the reply is lost, the
/// write is still made.
#[derive(Clone, Copy, Debug, Default)]
struct Fails {
    behind: usize,
    times: usize,
    is_lost: bool,
    with_reads: bool,
    /// After a write whose reply is lost, somebody adopts what there is and, if true, ends it.
    adopted: Option<bool>,
}

impl Small {
    /// Returns whether this one fails, and then whether only its reply is lost.
    fn fails(&self) -> Option<bool> {
        let mut fails = self.1.lock().unwrap();
        let now = *fails;
        fails.behind = now.behind.saturating_sub(1);
        if now.behind == 0 {
            fails.times = now.times.saturating_sub(1);
        }
        (now.behind == 0 && now.times > 0).then_some(now.is_lost)
    }

    fn write<T>(&self, write: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.fails() {
            None => write(),
            Some(false) => Err(Error::new(ErrorKind::Storage, "append", "the disk is full")),
            Some(true) => {
                write()?;
                if let Some(and_ended) = self.1.lock().unwrap().adopted {
                    adopt(&MemoryPrompt::new(Arc::clone(&self.0)), and_ended);
                }
                Err(Error::new(ErrorKind::Unacknowledged, "append", "the answer got lost"))
            }
        }
    }

    fn look<T>(&self, read: impl FnOnce() -> Result<T>) -> Result<T> {
        let with_reads = self.1.lock().unwrap().with_reads;
        if with_reads && self.fails().is_some() {
            return Err(Error::new(ErrorKind::Storage, "read", "the disk is gone"));
        }
        read()
    }
}

/// Adopts everything that has not ended, and ends it or leaves it where it is.
fn adopt(prompt: &MemoryPrompt, and_ends: bool) {
    for unfinished in prompt.unfinished().unwrap() {
        let mut turn = prompt.adopt(&unfinished).unwrap().on_conflict(OnConflict::Behind);
        if and_ends {
            turn.interrupt(OnInterrupt::Keep);
            let Next::Done(_) = turn.next(prompt).unwrap() else { panic!("it ends") };
        }
    }
}

/// Is pending this many times.
pub(crate) async fn polls(mut left: usize) {
    poll_fn(|_| match left.checked_sub(1) {
        None => Poll::Ready(()),
        Some(less) => {
            left = less;
            Poll::Pending
        }
    })
    .await;
}

fn slowly<'a, T: Send>(run: impl FnOnce() -> T + Send + 'a) -> BoxFuture<'a, T> {
    Box::pin(async move {
        polls(1).await;
        let done = run();
        polls(1).await;
        done
    })
}

impl<M: ChatMemory + ?Sized> AsyncChatMemory for Slow<M> {
    fn id(&self) -> &MemoryId {
        self.0.id()
    }
    fn append<'a>(
        &'a self,
        batch: &'a mut Vec<Message>,
        expected: Option<u64>,
    ) -> BoxFuture<'a, Result<Range<u64>>> {
        slowly(move || self.0.append(batch, expected))
    }
    fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
        slowly(move || self.0.read(before, n))
    }
    fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
        slowly(move || self.0.evict(before))
    }
    fn clear(&self) -> BoxFuture<'_, Result<()>> {
        slowly(move || self.0.clear())
    }
    fn append_with<'a>(&'a self, append: &'a mut Append) -> BoxFuture<'a, Result<Appended>> {
        slowly(move || self.0.append_with(append))
    }
    fn read_with<'a>(&'a self, read: &'a Read) -> BoxFuture<'a, Result<Snapshot>> {
        slowly(move || self.0.read_with(read))
    }
    fn slots(&self) -> BoxFuture<'_, Result<Vec<(String, SlotVersion)>>> {
        slowly(move || self.0.slots())
    }
    fn limits(&self) -> Limits {
        self.0.limits()
    }
}

impl ChatMemory for Small {
    inside!(0: id append evict clear);
    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.look(|| self.0.read(before, n))
    }
    fn append_with(&self, append: &mut Append) -> Result<Appended> {
        self.write(|| self.0.append_with(append))
    }
    fn read_with(&self, read: &Read) -> Result<Snapshot> {
        self.look(|| self.0.read_with(read))
    }
    fn slots(&self) -> Result<Vec<(String, SlotVersion)>> {
        self.look(|| self.0.slots())
    }
    fn limits(&self) -> Limits {
        DefaultChatMemory::new().limits().with_message(2_000).with_slot(self.2)
    }
}

/// Adds a text to the running turn.
type Steer = dyn Fn(&str) -> bool + Send + Sync;

/// The model, the tools and all others.
#[derive(Clone)]
struct World(Arc<Mutex<State>>, Arc<DefaultChatMemory>, Arc<Mutex<Fails>>, usize);

#[derive(Default)]
struct State {
    steps: VecDeque<Step>,
    /// `None`: it is decided on later.
    approval: Option<Approval>,
    calls: u64,
    /// The number of ids that the model has for all of its calls; 0 for one each.
    ids: u64,
    /// How often each booking and payment has run, by the arguments of its call, since the
    /// conversation began.
    ran: BTreeMap<String, u32>,
    was_cleared: bool,
    /// The number of calls when the conversation began.
    forgotten: u64,
    asked: Option<Prompt>,
    stopper: Option<Stopper>,
    /// Adds something to the running turn; returns whether it was accepted.
    steer: Option<Arc<Steer>>,
    /// What the user has added, and how often.
    added: Vec<String>,
    times_added: u32,
    /// True if a turn continues without a checkpoint: what it does then is not kept.
    is_unkept: bool,
    /// Closed when the silent tool may end.
    silent: Option<Sender<()>>,
    /// The same for the async one.
    may_end: bool,
    /// The calls of an async conversation that took too long.
    tasks: Vec<BoxFuture<'static, ()>>,
    /// The numbers of those that have ended.
    came_late: Vec<u64>,
}

impl World {
    fn new(slot: usize) -> Self {
        let memory = Arc::new(DefaultChatMemory::new());
        Self(Arc::default(), memory, Arc::default(), slot)
    }

    /// The memory of the conversation, which fails as configured.
    fn small(&self) -> Small {
        Small(Arc::clone(&self.1), Arc::clone(&self.2), self.3)
    }

    fn prompt(&self) -> MemoryPrompt {
        MemoryPrompt::new(Arc::clone(&self.1)).window(Window::all())
    }

    /// What the model answers; `None` if nothing ever comes.
    fn reply(&self, prompt: &Prompt) -> Option<Result<Reply, ModelError>> {
        self.0.lock().unwrap().asked = Some(prompt.clone());
        loop {
            let step = self.0.lock().unwrap().steps.pop_front();
            let Some(step) = step else { return Some(Ok("fine".into())) };
            return match step {
                Step::Calls(called) => {
                    let calls: Vec<_> = called.iter().map(|it| self.call(*it)).collect();
                    Some(Ok(Message::ai_calls(calls).into()))
                }
                Step::Fails => Some(Err("it failed".into())),
                Step::Limited => {
                    let body = r#"{"error": {"type": "rate_limit_error", "message": ""}}"#;
                    Some(Err(wire::anthropic::answer(body).unwrap_err().into()))
                }
                Step::Garbage => Some(Err(wire::openai::answer("<html>").unwrap_err().into())),
                Step::Cut => {
                    let mut stream = wire::ollama::Stream::new();
                    stream.push(r#"{"message": {"content": "Hel"}, "done": false}"#).unwrap();
                    Some(Ok(stream.broken().into()))
                }
                Step::Stalls => None,
                Step::Other(times) => {
                    for i in 0..times {
                        let tab = [Message::user("tab"), Message::ai("other")];
                        let append = Append::new(tab).with_id(format!("tab {i}"));
                        self.1.append_with(&mut { append }).unwrap();
                    }
                    continue;
                }
                Step::Clears => {
                    self.1.clear().unwrap();
                    self.1.add_all([Message::user("anew"), Message::ai("yes")]).unwrap();
                    let mut state = self.0.lock().unwrap();
                    state.ran.clear();
                    state.forgotten = state.calls;
                    state.was_cleared = true;
                    continue;
                }
                Step::Adopted => {
                    self.adopt_and_end();
                    continue;
                }
                Step::Steers => {
                    let (steer, text) = {
                        let mut state = self.0.lock().unwrap();
                        state.times_added += 1;
                        (state.steer.clone().unwrap(), format!("added {}", state.times_added))
                    };
                    if steer(&text) {
                        self.0.lock().unwrap().added.push(text);
                    }
                    continue;
                }
                Step::Stops => {
                    self.0.lock().unwrap().stopper.as_ref().unwrap().stop();
                    continue;
                }
            };
        }
    }

    /// Lets the async tools that took too long end, and waits for them.
    fn end_tasks(&self) {
        let mut state = self.0.lock().unwrap();
        state.may_end = true;
        let tasks = std::mem::take(&mut state.tasks);
        drop(state);
        for task in tasks {
            polled(task, ALL).unwrap();
        }
    }

    /// The tool that is silent until it may end.
    async fn silent(self, n: u64) -> Result<String, ToolError> {
        poll_fn(|_| if self.0.lock().unwrap().may_end { Poll::Ready(()) } else { Poll::Pending })
            .await;
        self.0.lock().unwrap().came_late.push(n);
        Ok(format!("at last {n}"))
    }

    fn adopt_and_end(&self) {
        adopt(&self.prompt(), true);
    }

    fn call(&self, called: Called) -> ToolCall {
        let mut state = self.0.lock().unwrap();
        state.calls += 1;
        let n = state.calls;
        let name = match called {
            Called::Look | Called::BadArguments => "look",
            Called::Book => "book",
            Called::Fail => "fail",
            Called::Panic => "panic",
            Called::Silent => "silent",
            Called::Unknown => "fly",
            Called::Large => "large",
            Called::Pay => "pay",
        };
        let arguments = match called {
            Called::BadArguments => r#"{"n": "#.to_owned(),
            _ => json!({"n": n}).to_string(),
        };
        let id = if state.ids == 0 { n } else { n % state.ids };
        ToolCall::new(format!("c{id}"), name, arguments)
    }

    fn ran(&self, n: u64) -> String {
        let arguments = json!({"n": n}).to_string();
        let mut state = self.0.lock().unwrap();
        if n > state.forgotten {
            *state.ran.entry(arguments).or_default() += 1;
        }
        format!("done {n}")
    }

    fn approve(&self) -> Approval {
        self.0.lock().unwrap().approval.clone().unwrap_or(Approval::Later)
    }
}

#[derive(serde::Deserialize)]
struct Arguments {
    n: u64,
}

fn tools() -> [Tool; 6] {
    let tool = |name| Tool::new(name, "");
    [
        tool("look").repeatable(),
        tool("book"),
        tool("fail"),
        tool("panic").repeatable(),
        tool("large").repeatable(),
        tool("pay").needing_approval(),
    ]
}

/// Runs a tool by its name; `n` tells the calls apart.
fn run(world: &World, tool: &str, n: u64) -> Result<String, ToolError> {
    match tool {
        "book" | "pay" => Ok(world.ran(n)),
        "fail" => Err(ToolError::new("it is dark")),
        "panic" => resume_unwind(Box::new("the tool's own")), // without a word on the terminal
        "large" => Ok("x".repeat(3_000)),
        _ => Ok("seen".to_owned()),
    }
}

fn asynchronous(world: &World, is_parallel: bool) -> Conversation<dyn AsyncChatMemory> {
    let prompt = MemoryPrompt::new_async(Slow(Arc::new(world.small()))).window(Window::all());
    let model = {
        let world = world.clone();
        move |ask: Asking<'static>| {
            let world = world.clone();
            async move {
                polls(1).await;
                let _ = ask.tell(Event::Text("Hel".to_owned()));
                match world.reply(ask.prompt()) {
                    Some(reply) => reply,
                    None => pending().await,
                }
            }
        }
    };
    let (approver, tasks, silent) = (world.clone(), world.clone(), world.clone());
    let sleep = |_| polls(10);
    let mut conversation = Conversation::new_async(prompt, model)
        .call_timeout_by(Duration::from_secs(1), sleep)
        .go_on_by(move |task| tasks.0.lock().unwrap().tasks.push(task))
        .approve_by(move |_| approver.approve())
        .tool_async(Tool::new("silent", ""), move |Arguments { n }| silent.clone().silent(n));
    for tool in tools() {
        let (world, name) = (world.clone(), tool.name().to_owned());
        conversation = conversation.tool_async(tool, move |Arguments { n }| {
            let (world, name) = (world.clone(), name.clone());
            async move {
                polls(1).await;
                let outcome = run(&world, &name, n);
                polls(1).await;
                outcome
            }
        });
    }
    if is_parallel { conversation.parallel() } else { conversation }
}

/// Each call may take this long.
fn blocking(world: &World, is_parallel: bool, time: Duration) -> Conversation {
    let prompt = MemoryPrompt::new(world.small()).window(Window::all());
    let (model, approver) = (world.clone(), world.clone());
    let model = move |ask: &Asking<'_>| model.reply(ask.prompt()).ok_or("it stands still")?;
    let (go, silent) = channel();
    world.0.lock().unwrap().silent = Some(go);
    let silent = Mutex::new(silent);
    let mut conversation = Conversation::new(prompt, model)
        .call_timeout(time)
        .approve_by(move |_| approver.approve())
        .tool(Tool::new("silent", ""), move |Arguments { n }| {
            let _ = silent.lock().unwrap().recv();
            Ok(format!("at last {n}"))
        });
    for tool in tools() {
        let (world, name) = (world.clone(), tool.name().to_owned());
        conversation = conversation.tool(tool, move |Arguments { n }| run(&world, &name, n));
    }
    if is_parallel { conversation.parallel() } else { conversation }
}

/// Polls a future to its end; `None` if it is dropped before that.
pub(crate) fn polled<T>(future: impl Future<Output = T>, drop_after: usize) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..drop_after {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
    }
    None
}

/// More polls than a turn that makes progress needs.
pub(crate) const ALL: usize = 2_000;

/// Says it once; `None` if that is dropped before it is done, which only an async one can be.
fn say(conversation: &Either, turn: Turn, drop_after: Option<usize>) -> Option<Result<Done>> {
    match conversation {
        Either::Blocking(it) => Some(it.say(turn)),
        Either::Async(it) => polled(it.say(turn), drop_after.unwrap_or(ALL)),
    }
}

/// Runs a kept turn, dropped at first and then as often as it takes; a blocking one is never
/// dropped. If it continues without a checkpoint, others may not know of it, so its owner ends it.
fn run_kept(conversation: &Either, turn: &mut Turn, drop_after: Option<usize>, is_unkept: bool) {
    let Either::Async(it) = conversation else { return };
    let ends = |turn: &mut Turn, drop_after| {
        matches!(polled(it.run(turn, |_| {}), drop_after), Some(Ok(_)))
    };
    let mut runs = [drop_after.unwrap_or(ALL), ALL, ALL, ALL].into_iter();
    if runs.any(|drop_after| ends(turn, drop_after)) || !is_unkept {
        return;
    }
    let kept = std::mem::replace(turn, Turn::from(""));
    *turn = kept.on_conflict(OnConflict::Behind);
    turn.interrupt(OnInterrupt::Keep);
    // The memory fails three times at most.
    (0..4).any(|_| ends(turn, ALL));
}

/// Runs an adopted turn. If it outgrows its slot before a call, it is ended there.
fn run_to_the_end(conversation: &Either, turn: &mut Turn) -> Result<(), TestCaseError> {
    let ended = match conversation.run(turn) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            turn.interrupt(OnInterrupt::Keep);
            conversation.run(turn).unwrap().ended
        }
        other => other.unwrap().ended,
    };
    prop_assert!(matches!(ended, Ended::Answered | Ended::Rounds | Ended::Interrupted));
    Ok(())
}

fn answers(result: &ToolMessage, call: &ToolCall) -> bool {
    (result.call_id(), result.tool_name()) == (call.id.as_str(), call.name.as_str())
}

/// What is stored is complete: each call is directly followed by its result, each provider accepts
/// it all, and nothing that has happened is denied or was done twice.
fn check(world: &World) -> Result<(), TestCaseError> {
    let all: Vec<Message> = world.1.all().unwrap().messages().cloned().collect();
    let mut at_place = vec![false; all.len()];
    // The calls of which nobody knew what came of them, until a late result did.
    let mut unknown: Vec<&ToolCall> = Vec::new();
    for (i, message) in all.iter().enumerate() {
        let mut calls: Vec<_> = message.tool_calls().collect();
        for (at, result) in
            all.iter().enumerate().skip(i + 1).map_while(|(at, it)| Some((at, it.as_tool()?)))
        {
            let Some(place) = calls.iter().position(|call| answers(result, call)) else {
                break;
            };
            at_place[at] = true;
            let call = calls.remove(place);
            if result.is_stand_in() {
                unknown.push(call);
            }
        }
        prop_assert!(calls.is_empty(), "{calls:?} have no result: {all:#?}");
        if let Some(result) = message.as_tool().filter(|_| !at_place[i]) {
            let place = unknown.iter().position(|call| answers(result, call));
            prop_assert!(place.is_some(), "a result of nothing at {i}: {all:#?}");
            unknown.remove(place.unwrap());
        }
    }
    if !all.is_empty() {
        // The model is sent no result as that of another call.
        let sent = world.prompt().preview().unwrap().to_messages();
        let mut calls: Vec<&ToolCall> = Vec::new();
        for message in &sent {
            calls.extend(message.tool_calls());
            let Some(result) = message.as_tool() else { continue };
            let text = result.content().text();
            let of = text.strip_prefix("done ").or_else(|| text.strip_prefix("at last "));
            let Some(n) = of else { continue };
            let call = calls.iter().rfind(|call| answers(result, call)).unwrap();
            prop_assert_eq!(&call.arguments, &format!("{{\"n\":{n}}}"), "{:#?}", all);
        }
    }
    for provider in PROVIDERS.into_iter().filter(|_| !all.is_empty()) {
        let prompt = world.prompt().for_provider(provider).preview().unwrap();
        let wrong = wrong(provider, &request(provider, &prompt));
        prop_assert!(wrong.is_empty(), "{wrong:#?}\n{}", prompt.report());
    }
    let state = world.0.lock().unwrap();
    let left = world.prompt().unfinished().unwrap();
    for (arguments, times) in &state.ran {
        prop_assert_eq!(*times, 1, "{} ran twice", arguments);
        let mut stored = all.iter().flat_map(Message::tool_calls);
        let mut begun = left.iter().flat_map(Unfinished::calls);
        let is_known = stored.any(|call| call.arguments == *arguments)
            || begun.any(|call| call.arguments == *arguments && !call.needs_approval);
        prop_assert!(is_known || state.is_unkept, "{} is denied", arguments);
        let mut begun = left.iter().flat_map(Unfinished::calls);
        let waits = begun.any(|call| call.arguments == *arguments && call.needs_approval);
        prop_assert!(!waits, "{} is said to wait", arguments);
    }
    Ok(())
}

counted! {
    #![cases(1_000)]

    #[test]
    fn whatever_goes_wrong_what_is_stored_is_whole_and_the_next_turn_works(
        plans in proptest::collection::vec(plans(), 1..4),
        is_blocking in proptest::bool::weighted(0.3), is_parallel in proptest::bool::weighted(0.2),
        slot in prop_oneof![2 => Just(usize::MAX), 1 => 700usize..5_000], ids in 0u64..3,
        (has_id, is_unkept) in (any::<bool>(), proptest::bool::weighted(0.2)),
    ) {
        let world = World::new(slot);
        (world.0.lock().unwrap().ids, world.0.lock().unwrap().is_unkept) = (ids, is_unkept);
        // If nothing was seen, a clear takes nothing away.
        world.1.add_all([Message::user("before"), Message::ai("yes")]).unwrap();
        // Who waits for a silent tool waits for each time that it has.
        let is_silent = |it: &Step| {
            matches!(it, Step::Calls(calls) if calls.iter().any(|it| matches!(it, Called::Silent)))
        };
        let is_hasty = plans.iter().flat_map(|it| &it.steps).any(is_silent);
        let conversation = if is_blocking {
            let time = if is_hasty { Duration::from_millis(5) } else { Duration::from_secs(60) };
            Either::Blocking(blocking(&world, is_parallel, time))
        } else {
            Either::Async(asynchronous(&world, is_parallel))
        };
        let conversation = Arc::new(conversation);
        world.0.lock().unwrap().stopper = Some(conversation.stopper());
        let own = Arc::downgrade(&conversation);
        let steer = move |text: &str| own.upgrade().is_some_and(|it| it.steer(text).is_ok());
        world.0.lock().unwrap().steer = Some(Arc::new(steer));
        for (number, plan) in plans.iter().enumerate() {
            let (rounds, on_conflict, approval) = &plan.settings;
            {
                let mut state = world.0.lock().unwrap();
                state.steps = plan.steps.iter().cloned().collect();
                (state.approval, state.was_cleared) = (Some(approval.clone()), false);
                state.added.clear();
            }
            let question = format!("question {number}");
            let turn = Turn::from(question.as_str()).max_rounds(*rounds).on_conflict(*on_conflict);
            // What is not kept may be denied, so it is not begun.
            let turn = if is_unkept { turn } else { turn.on_no_checkpoint(OnNoCheckpoint::Fail) };
            let turn = if has_id { turn.with_id(question.as_str()) } else { turn };
            *world.2.lock().unwrap() = plan.fails;
            let is_kept = plan.is_kept && matches!(*conversation, Either::Async(_));
            let said = if is_kept {
                run_kept(&conversation, &mut { turn }, plan.drop_after, is_unkept);
                None
            } else {
                say(&conversation, turn, plan.drop_after)
            };
            let has_failed = world.2.lock().unwrap().times < plan.fails.times;
            *world.2.lock().unwrap() = Fails::default();
            check(&world)?;

            let times = world.1.all().unwrap().messages().filter(|it| it.text() == question).count();
            let is_unfinished =
                world.prompt().unfinished().unwrap().iter().any(|it| it.messages()[0].text() == question);
            let (was_cleared, steps_left) = {
                let mut state = world.0.lock().unwrap();
                (state.was_cleared, std::mem::take(&mut state.steps).len())
            };
            match &said {
                Some(Ok(done)) if matches!(done.ended, Ended::Answered | Ended::Rounds) => {
                    prop_assert!(times == 1 && !was_cleared);
                }
                Some(Ok(done)) if done.ended == Ended::Parked => prop_assert_eq!(times, 0),
                Some(Ok(done)) if done.ended == Ended::Interrupted => {
                    prop_assert!(times <= 1 && (times == 1) != done.positions.is_empty());
                }
                Some(Err(error)) if error.remains() == Some(Remains::Stored) => prop_assert_eq!(times, 1),
                Some(Err(error)) if error.kind() == ErrorKind::Forgotten => {
                    prop_assert!(was_cleared && times == 0);
                }
                Some(Err(error)) if error.remains() == Some(Remains::Nothing) => {
                    prop_assert!(times == 0 && !is_unfinished, "{error:?}");
                }
                Some(Err(error)) => {
                    prop_assert!(error.remains().is_some() && times <= 1, "{error:?}");
                }
                _ => prop_assert!(times <= 1),
            }
            // What the user added is stored with the turn.
            if let Some(Ok(done)) = &said
                && matches!(done.ended, Ended::Answered | Ended::Rounds | Ended::Interrupted)
                && !done.positions.is_empty()
            {
                let all = world.1.all().unwrap();
                for text in &world.0.lock().unwrap().added {
                    let times = all.messages().filter(|it| it.text() == *text).count();
                    prop_assert_eq!(times, 1, "{} in {:#?}", text, done.messages);
                }
            }
            // Only what can fail does. On a busy machine any thread takes longer than 5 ms, and its
            // late result is one more append.
            let can_fail = is_kept || plan.drop_after.is_some() || has_failed || slot < usize::MAX;
            if plan.steps.iter().all(|it| matches!(it, Step::Calls(_))) && !can_fail {
                let is_conflict = |it: &Error| matches!(it.kind(), ErrorKind::Conflict { .. });
                let holds = match &said {
                    Some(Err(error))
                        if is_blocking && is_hasty && *on_conflict == OnConflict::Fail =>
                    {
                        is_conflict(error)
                    }
                    said => matches!(said, Some(Ok(_))),
                };
                prop_assert!(holds, "{:?}, {} left", said, steps_left);
            }

            // The same request once more has the same answer, and no model is asked.
            let others = |it: &Step| matches!(it, Step::Other(times) if *times > 60);
            let is_known = has_id && !plan.steps.iter().any(others);
            if let Some(Ok(done)) = said.filter(|_| is_known)
                && done.answer().is_some()
                && !done.positions.is_empty()
                && done.ended != Ended::Adopted
            {
                world.0.lock().unwrap().asked = None;
                let again = Turn::from(question.as_str()).with_id(question.as_str());
                let again = conversation.say(again).unwrap();
                prop_assert!(world.0.lock().unwrap().asked.is_none());
                prop_assert_eq!(again.ended, Ended::Adopted);
                prop_assert_eq!((&again.positions, again.text()), (&done.positions, done.text()));
                prop_assert_eq!(&again.messages, &done.messages);
            }

            // What others know of calls that were begun, the next model is told.
            world.0.lock().unwrap().approval = None;
            let begun: Vec<_> = world.prompt().unfinished().unwrap().iter().flat_map(Unfinished::calls).collect();
            let next = conversation.say(format!("next {number}"));
            prop_assert_eq!(next.unwrap().text(), "fine");
            let asked = world.0.lock().unwrap().asked.take().unwrap();
            let told: Vec<_> = asked.iter().map(|it| it.text().into_owned()).collect();
            for call in begun {
                let line = format!("{} {}:", call.tool, call.arguments);
                prop_assert!(told.iter().any(|it| it.contains(&line)), "{line} is not in {told:#?}");
            }

            if plan.goes_on && plan.recovers {
                conversation.recover(Duration::ZERO).unwrap();
                for waiting in world.prompt().waiting().unwrap() {
                    let decided = conversation.decide(&waiting, *approval == Approval::Yes);
                    let kind = decided.as_ref().map_err(Error::kind).err();
                    prop_assert!(!matches!(kind, Some(ErrorKind::Busy { .. })), "{decided:?}");
                }
                check(&world)?;
            }
            if plan.goes_on {
                for unfinished in world.prompt().unfinished().unwrap() {
                    let mut turn = world.prompt().adopt(&unfinished).unwrap().on_conflict(OnConflict::Behind);
                    for call in unfinished.calls().into_iter().filter(|it| it.needs_approval) {
                        if *approval == Approval::Yes {
                            turn.approve(&call.call_id).unwrap();
                        } else {
                            turn.error(&call.call_id, "nobody approved").unwrap();
                        }
                    }
                    let written = serde_json::to_string(&turn).unwrap();
                    let mut copy = serde_json::from_str::<Turn>(&written).unwrap();
                    run_to_the_end(&conversation, &mut turn)?;
                    if plan.is_copied {
                        let ended = conversation.run(&mut copy);
                        let is_adopted = ended.as_ref().is_ok_and(|it| it.ended == Ended::Adopted);
                        prop_assert!(is_adopted, "{ended:?}");
                    }
                }
                prop_assert!(world.prompt().unfinished().unwrap().is_empty());
                check(&world)?;
            }
        }
        // The tools that took too long end, and what came of them is stored behind their calls.
        world.0.lock().unwrap().silent = None;
        world.end_tasks();
        if let Either::Async(conversation) = &*conversation {
            let finish = || polled(conversation.finish(Duration::from_secs(60)), ALL).unwrap();
            let kept = finish();
            check(&world)?;
            let waits = world.prompt().unfinished().unwrap().len();
            prop_assert!(kept == 0 || waits > 0, "{}", kept);
            world.adopt_and_end();
            prop_assert_eq!(finish(), 0);
            check(&world)?;
            let all = world.1.all().unwrap();
            let state = world.0.lock().unwrap();
            for n in state.came_late.iter().filter(|n| **n > state.forgotten) {
                let arguments = json!({"n": n}).to_string();
                let calls = all.messages().flat_map(Message::tool_calls);
                let is_stored = calls.into_iter().any(|call| call.arguments == arguments);
                let told = all.messages().filter(|it| it.text() == format!("at last {n}")).count();
                prop_assert_eq!(told, usize::from(is_stored), "{}", n);
            }
        }
        if let Either::Blocking(conversation) = &*conversation {
            let kept = conversation.finish(Duration::from_secs(60));
            check(&world)?;
            let all = world.1.all().unwrap();
            let last = format!("{:?}", all.messages().map(Message::text).collect::<Vec<_>>());
            let waits = world.prompt().unfinished().unwrap().len();
            // Of a turn that is left over.
            prop_assert!(kept == 0 || waits > 0, "{kept}: {last}");

            // Nobody was dropped, so once all have ended no result is unknown that was told.
            world.adopt_and_end();
            prop_assert_eq!(conversation.finish(Duration::from_secs(60)), 0);
            check(&world)?;
            let all = world.1.all().unwrap();
            for arguments in world.0.lock().unwrap().ran.keys().filter(|_| !is_unkept) {
                let n = arguments.trim_matches(|it: char| !it.is_ascii_digit());
                let told = all.messages().filter(|it| it.text() == format!("done {n}")).count();
                prop_assert_eq!(told, 1, "{}: {:#?}", n, all.messages().collect::<Vec<_>>());
            }
        }
    }
}
