//! Clients that ask again until they have an answer, over workers that are killed: each ends with
//! the stored answer, and what was paid is in the ledger once.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write, stdin};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::turn::{Ask, Call, Done, Ended, ToolError, Turn};
use memory_prompt::{
    AsyncChatMemory, ChatMemory, ChatMemoryExt, Error, ErrorKind, MemoryPrompt, Message, Result,
    SqliteStore, Tool, ToolCall,
};

use crate::again::again;
use crate::counted::cases;
use crate::process::folder;

const WORKER: &str = "MEMORY_PROMPT_WORKER";

/// The number of conversations that the requests are spread over.
const CONVERSATIONS: u32 = 100;

/// The number of requests that are under way at a time.
const AT_ONCE: usize = 16;

/// The number of times that the model of this process was asked.
static ASKED: AtomicU32 = AtomicU32::new(0);

fn conversation_of(request: u32) -> String {
    format!("chat {}", request % CONVERSATIONS)
}

fn question(request: u32) -> String {
    format!("request {request}")
}

/// Answers some requests at once, and pays for others: after a look, or where a person says so.
fn answer(ask: &Ask) -> Result<Message, ModelError> {
    let said: Vec<&Message> = ask.prompt().iter().collect();
    let number = |it: &&Message| it.text().strip_prefix("request ").and_then(|it| it.parse().ok());
    let (at, n): (usize, u32) = said
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, it)| it.is_user())
        .find_map(|(at, it)| Some((at, number(it)?)))
        .ok_or("there is no question")?;
    let has = |tool: &str| {
        said[at..].iter().any(|it| it.as_tool().is_some_and(|it| it.tool_name() == tool))
    };
    let call = |tool: &str| {
        Message::ai_calls([ToolCall::new(format!("{tool} {n}"), tool, format!("{{\"n\":{n}}}"))])
    };
    if ASKED.fetch_add(1, Ordering::Relaxed) % 23 == 22 {
        return Err("overloaded".into());
    }
    Ok(match n % 4 {
        2 if !has("look") => call("look"),
        1 | 2 if !has("pay") => call("pay"),
        3 if !has("order") => call("order"),
        _ => Message::ai(format!("done: request {n}")),
    })
}

/// Notes a payment in the ledger, which has it on the disk when this returns.
fn pay(ledger: &Path, call: &Call) -> Result<String, ToolError> {
    let n = call.parse::<serde_json::Value>()?["n"].as_u64().unwrap_or_default();
    let mut ledger = OpenOptions::new().create(true).append(true).open(ledger)?;
    ledger.write_all(format!("{n}\n").as_bytes())?;
    ledger.sync_all()?;
    Ok(format!("paid {n}"))
}

fn tools() -> [Tool; 3] {
    let tool = |name| Tool::new(name, "");
    [tool("look").repeatable(), tool("pay"), tool("order").needing_approval()]
}

/// A conversation of a worker, over either kind of store.
enum Chat {
    Blocking(Conversation),
    Async(Conversation<dyn AsyncChatMemory>, tokio::runtime::Handle),
}

impl Chat {
    fn blocking(memory: Arc<dyn ChatMemory>, ledger: &Path) -> Self {
        let prompt = MemoryPrompt::new(memory).max_messages(30);
        let mut chat = Conversation::new(prompt, |ask: &Asking<'_>| answer(ask));
        for tool in tools() {
            let (ledger, name) = (ledger.to_owned(), tool.name().to_owned());
            chat = chat.tool_call(tool, move |call| match name.as_str() {
                "look" => Ok("seen".to_owned()),
                _ => pay(&ledger, call),
            });
        }
        Self::Blocking(chat)
    }

    fn over_async(
        memory: Arc<dyn AsyncChatMemory>,
        ledger: &Path,
        runtime: tokio::runtime::Handle,
    ) -> Self {
        let model = |ask: Asking<'static>| async move { answer(&ask) };
        let prompt = MemoryPrompt::new_async(memory).max_messages(30);
        let mut chat = Conversation::new_async(prompt, model);
        for tool in tools() {
            let (ledger, name) = (ledger.to_owned(), tool.name().to_owned());
            chat = chat.tool_call(tool, move |call| {
                let done = match name.as_str() {
                    "look" => Ok("seen".to_owned()),
                    _ => pay(&ledger, call),
                };
                async { done }
            });
        }
        Self::Async(chat, runtime)
    }

    fn say(&self, request: u32) -> Result<Done> {
        let turn = Turn::from(question(request)).with_id(question(request));
        match self {
            Self::Blocking(it) => it.say(turn),
            Self::Async(it, runtime) => runtime.block_on(it.say(turn)),
        }
    }

    /// What a person does who finds the call of this request among those that wait.
    fn decide(&self, request: u32, yes: bool) -> Result<Option<Done>> {
        let waiting = match self {
            Self::Blocking(it) => it.waiting()?,
            Self::Async(it, runtime) => runtime.block_on(it.waiting())?,
        };
        let Some(call) = waiting.iter().find(|it| it.turn == question(request)) else {
            return Ok(None);
        };
        let no = "The user said no.";
        let done = match (self, yes) {
            (Self::Blocking(it), true) => it.approve(call),
            (Self::Blocking(it), false) => it.refuse(call, no),
            (Self::Async(it, runtime), true) => runtime.block_on(it.approve(call)),
            (Self::Async(it, runtime), false) => runtime.block_on(it.refuse(call, no)),
        };
        done.map(Some)
    }

    fn recover(&self) {
        match self {
            Self::Blocking(it) => it.recover(Duration::ZERO).unwrap(),
            Self::Async(it, runtime) => runtime.block_on(it.recover(Duration::ZERO)).unwrap(),
        };
    }
}

/// The chats of a worker that was told where they live.
fn chats(at: &str) -> Vec<Chat> {
    let (store, ledger) = at.split_once('|').unwrap();
    let ledger = Path::new(ledger);
    let ids = (0..CONVERSATIONS).map(conversation_of);
    let Some(address) = store.strip_prefix("postgres:") else {
        let store = SqliteStore::open(store).unwrap();
        let memory = |id: String| Arc::new(store.memory(id).unwrap());
        return ids.map(|id| Chat::blocking(memory(id), ledger)).collect();
    };
    let runtime = Box::leak(Box::new(tokio::runtime::Runtime::new().unwrap()));
    let store = runtime.block_on(crate::postgres::store_of_clients(address));
    let memory = |id: String| Arc::new(store.memory(id).unwrap());
    let chat = |id| Chat::over_async(memory(id), ledger, runtime.handle().clone());
    ids.map(chat).collect()
}

/// Not a test of its own: the worker that the tests below kill. It first ends the turns of those
/// that were killed before it, and then serves what stands on its lines.
#[test]
fn worker() {
    let Ok(at) = std::env::var(WORKER) else { return };
    let chats = Arc::new(chats(&at));
    chats.iter().for_each(Chat::recover);
    println!("ready");
    let lines = Arc::new(Mutex::new(BufReader::new(stdin()).lines()));
    let serve = || {
        let (chats, lines) = (Arc::clone(&chats), Arc::clone(&lines));
        thread::spawn(move || {
            loop {
                let Some(Ok(line)) = lines.lock().unwrap().next() else { return };
                let (what, request) = line.split_once(' ').unwrap();
                let request: u32 = request.parse().unwrap();
                let chat = &chats[usize::try_from(request % CONVERSATIONS).unwrap()];
                let outcome = match what {
                    "ask" => chat.say(request).map(Some),
                    yes => chat.decide(request, yes == "approve"),
                };
                println!("{request}\t{}", told(outcome));
            }
        })
    };
    let serving: Vec<_> = (0..8).map(|_| serve()).collect();
    for it in serving {
        it.join().unwrap();
    }
}

fn told(outcome: Result<Option<Done>>) -> String {
    match outcome {
        Ok(None) => "nothing waits".to_owned(),
        Ok(Some(done)) if done.ended == Ended::Parked => "waits".to_owned(),
        Ok(Some(done)) => format!("answered\t{}\t{:?}", done.text(), done.positions),
        Err(error) => format!("failed\t{}\t{error}", name_of(&error)),
    }
}

/// A state that a client can be told, by its name.
fn name_of(error: &Error) -> &'static str {
    match error.kind() {
        ErrorKind::Busy { .. } => "busy",
        ErrorKind::Decided(_) => "decided",
        ErrorKind::Model => "model",
        ErrorKind::Adopted => "adopted",
        ErrorKind::Storage | ErrorKind::Unacknowledged => "storage",
        _ => "?",
    }
}

/// A worker that runs, and what it says.
struct Worker {
    process: Child,
    input: ChildStdin,
    says: Receiver<String>,
}

impl Worker {
    fn start(at: &str) -> Self {
        let mut process =
            again("clients::worker").env(WORKER, at).stdin(Stdio::piped()).spawn().unwrap();
        let (to, says): (Sender<String>, _) = channel();
        let output = process.stdout.take().unwrap();
        thread::spawn(move || {
            let lines = BufReader::new(output).lines().map_while(std::result::Result::ok);
            lines.for_each(|line| _ = to.send(line));
        });
        let ready = says.iter().any(|line: String| line.ends_with("ready"));
        assert!(ready, "the worker failed by itself");
        Self { input: process.stdin.take().unwrap(), process, says }
    }

    fn kill(mut self) {
        self.process.kill().unwrap();
        assert!(self.process.wait().unwrap().code().is_none(), "the worker failed by itself");
    }
}

/// A client, as far as it knows.
#[derive(Clone, Default)]
struct Client {
    tries: u32,
    answer: Option<(String, String)>,
    /// True once it has asked again for an answer that it has.
    has_asked_again: bool,
}

/// Serves so many requests over so many kills; then each client has its answer.
fn serve(at: &str, requests: u32, kills: u32) -> Vec<Client> {
    let mut clients = vec![Client::default(); usize::try_from(requests).unwrap()];
    let mut todo: VecDeque<String> = (0..requests).map(|n| format!("ask {n}")).collect();
    let (mut open, mut states) = (HashMap::<u32, String>::new(), BTreeMap::<String, u32>::new());
    let (mut killed, mut answered, mut random) = (0, 0, 7_u64);
    let mut worker = Worker::start(at);
    let mut dies_at = None;
    while answered < requests || !open.is_empty() || !todo.is_empty() {
        while open.len() < AT_ONCE
            && let Some(line) = todo.pop_front()
        {
            let n: u32 = line.split_once(' ').unwrap().1.parse().unwrap();
            if open.contains_key(&n) {
                todo.push_back(line);
                break;
            }
            let _ = writeln!(worker.input, "{line}");
            open.insert(n, line);
        }
        // At any moment, spread over the whole.
        if dies_at.is_none()
            && killed < kills
            && u64::from(answered) * u64::from(kills) >= u64::from(killed) * u64::from(requests)
        {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            dies_at = Some(Instant::now() + Duration::from_micros((random >> 33) % 60_000));
        }
        let patience = dies_at
            .map_or(Duration::from_secs(120), |it| it.saturating_duration_since(Instant::now()));
        let line = match worker.says.recv_timeout(patience) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) if dies_at.is_some() => {
                worker.kill();
                killed += 1;
                dies_at = None;
                // Their clients hear nothing, and ask again while the memory knows their ids.
                for (n, _) in open.drain() {
                    todo.push_front(format!("ask {n}"));
                }
                worker = Worker::start(at);
                continue;
            }
            Err(error) => panic!("{error}: {open:?}"),
        };
        let mut told = line.split('\t');
        let Some(n) = told.next().and_then(|n| n.parse::<u32>().ok()) else { continue };
        open.remove(&n);
        let client = &mut clients[usize::try_from(n).unwrap()];
        client.tries += 1;
        assert!(client.tries < 200, "{n} is never answered: {line}");
        let state = told.next().unwrap();
        *states.entry(state.to_owned()).or_default() += 1;
        match state {
            "answered" => {
                let answer = (told.next().unwrap().to_owned(), told.next().unwrap().to_owned());
                assert_eq!(answer.0, format!("done: request {n}"), "the answer of {n}");
                assert_ne!(answer.1, "0..0", "{n} is not stored");
                if client.answer.is_none() {
                    answered += 1;
                } else {
                    client.has_asked_again = true;
                }
                let known = client.answer.get_or_insert_with(|| answer.clone());
                assert_eq!(*known, answer, "one request, one answer: {n}");
                if n % 10 == 0 && !client.has_asked_again {
                    todo.push_front(format!("ask {n}"));
                }
            }
            "waits" => {
                let word = if n % 8 == 3 { "approve" } else { "refuse" };
                todo.push_front(format!("{word} {n}"));
            }
            "failed" => {
                let name = told.next().unwrap();
                assert_ne!(name, "?", "{line}");
                *states.entry(name.to_owned()).or_default() += 1;
                todo.push_front(format!("ask {n}"));
            }
            _ => todo.push_front(format!("ask {n}")),
        }
    }
    worker.kill();
    println!("{requests} requests, {killed} kills, told: {states:?}");
    clients
}

/// What is stored is what the clients have and what the ledger says.
fn check(stored: &[(String, Vec<Message>)], ledger: &Path, clients: &[Client]) {
    let mut paid = BTreeMap::<u32, u32>::new();
    for line in fs::read_to_string(ledger).unwrap().lines() {
        *paid.entry(line.parse().unwrap()).or_default() += 1;
    }
    assert!(paid.values().all(|times| *times == 1), "paid twice: {paid:?}");
    let (mut unknown, mut results, mut asked) = (0, BTreeMap::new(), BTreeMap::new());
    for message in stored.iter().flat_map(|(_, messages)| messages) {
        if let Some(n) = message.text().strip_prefix("request ").filter(|_| message.is_user()) {
            *asked.entry(n.parse::<u32>().unwrap()).or_insert(0_u32) += 1;
        }
        let Some(result) = message.as_tool().filter(|it| it.tool_name() != "look") else {
            continue;
        };
        let n: u32 = result.call_id().split_once(' ').unwrap().1.parse().unwrap();
        results.insert(n, result.content().text().into_owned());
    }
    for n in paid.keys() {
        let result = results.get(n).unwrap_or_else(|| panic!("the payment {n} is denied"));
        let is_unknown = result.contains("not known");
        unknown += u32::from(is_unknown);
        assert!(is_unknown || *result == format!("paid {n}"), "{n}: {result}");
    }
    for (n, result) in &results {
        assert!(paid.contains_key(n) || !result.starts_with("paid"), "{n} was not paid");
        assert!(n % 8 != 7 || !paid.contains_key(n), "{n} was refused, and paid");
    }
    assert_eq!(asked.len(), clients.len());
    assert!(asked.values().all(|times| *times == 1), "a question is there twice");
    for (n, client) in clients.iter().enumerate() {
        let (text, positions) = client.answer.as_ref().unwrap();
        let id = conversation_of(u32::try_from(n).unwrap());
        let (_, messages) = stored.iter().find(|it| it.0 == id).unwrap();
        let end: usize = positions.split_once("..").unwrap().1.parse().unwrap();
        assert_eq!(messages[end - 1].text(), text.as_str(), "what is stored of {n}");
    }
    println!("{} payments, {unknown} of unknown outcome", paid.len());
}

/// 298 of 300 clients that asked again while their request ran, or after its worker had died, had
/// `Ok` with an empty text.
#[test]
#[ignore = "kills processes for minutes"]
fn clients_over_sqlite_have_the_stored_answer_whatever_is_killed() {
    let folder = folder("clients-sqlite");
    let (file, ledger) = (folder.join("chat.db"), folder.join("ledger"));
    let requests = cases(10_000);
    let at = format!("{}|{}", file.display(), ledger.display());
    let clients = serve(&at, requests, (requests / 100).max(1));
    let store = SqliteStore::open(&file).unwrap();
    let ids = (0..CONVERSATIONS).map(conversation_of);
    let stored: Vec<_> = ids
        .map(|id| {
            let memory = store.memory(id.as_str()).unwrap();
            assert!(memory.slots().unwrap().is_empty(), "a turn is left over");
            (id, memory.all().unwrap().messages().cloned().collect())
        })
        .collect();
    check(&stored, &ledger, &clients);
    fs::remove_dir_all(folder).unwrap();
}

/// The same in the asynchronous form.
#[test]
#[ignore = "needs PostgreSQL, and kills processes for minutes"]
fn clients_over_postgres_have_the_stored_answer_whatever_is_killed() {
    let folder = folder("clients-postgres");
    let ledger = folder.join("ledger");
    let requests = cases(10_000);
    let address = crate::postgres::shared_address();
    let at = format!("postgres:{address}|{}", ledger.display());
    let clients = serve(&at, requests, (requests / 100).max(1));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let stored = runtime.block_on(async {
        use memory_prompt::AsyncChatMemoryExt;
        let store = crate::postgres::store_of_clients(&address).await;
        let mut stored = Vec::new();
        for id in (0..CONVERSATIONS).map(conversation_of) {
            let memory = store.memory(id.as_str()).unwrap();
            assert!(memory.slots().await.unwrap().is_empty(), "a turn is left over");
            stored.push((id, memory.all().await.unwrap().messages().cloned().collect()));
        }
        stored
    });
    check(&stored, &ledger, &clients);
    fs::remove_dir_all(folder).unwrap();
}
