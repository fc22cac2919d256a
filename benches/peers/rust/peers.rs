//! The contestants in Rust: rig, `llm` and langchain-rust.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)] // a bench that panics has failed

#[path = "../contestant.rs"]
mod contestant;

use std::hint::black_box;
use std::pin::pin;
use std::sync::OnceLock;
use std::task::{Context, Poll, Waker};
use std::vec::IntoIter;

use contestant::{Chat, Contestant, Made, Work, is_user, measured};
use langchain_rust::memory::{
    SimpleMemory, SqliteMessageHistory, TokenBufferMemory, WindowBufferMemory,
};
use langchain_rust::schemas::memory::BaseMemory;
use langchain_rust::schemas::messages::Message as LangChainMessage;
use llm::chat::ChatMessage;
use llm::memory::{MemoryProvider, SlidingWindowMemory};
use rig_core::completion::Message as RigMessage;
use rig_core::id::ConversationId;
use rig_core::message::{AssistantContent, AssistantMessage, ToolName, UserContent};
use rig_memory::{ConversationMemory, InMemoryConversationMemory, IntoFilter};
use serde_json::json;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use tokio::runtime::Runtime;

fn main() {
    contestant::main(&[
        Contestant {
            id: "rig",
            name: "rig",
            version: version("rig-memory"),
            make: rig,
            faults: rig_faults,
        },
        Contestant {
            id: "llm",
            name: "llm",
            version: version("llm"),
            make: llm,
            faults: llm_faults,
        },
        Contestant {
            id: "langchain-rust",
            name: "langchain-rust",
            version: version("langchain-rust"),
            make: langchain,
            faults: || {
                vec!["plain store|hands out the whole history, of which the last 10 are taken"]
            },
        },
        Contestant {
            id: "langchain-rust-10",
            name: "langchain-rust, window of 10",
            version: version("langchain-rust"),
            make: langchain_10,
            faults: langchain_10_faults,
        },
    ]);
}

/// The version of a crate, as the lock file has it.
fn version(name: &str) -> &'static str {
    let lock = include_str!("Cargo.lock");
    let at = lock.split_once(&format!("name = \"{name}\"\nversion = \"")).unwrap().1;
    at.split_once('"').unwrap().0
}

/// The peers' traits are async, but nothing in memory waits: no runtime is in the measurement.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("a memory in this process waits for nothing"),
    }
}

// rig

fn rig(work: &Work) -> Made {
    let appends = work.appends;
    match &*work.kind {
        "plain" | "memory" => measured(work, move || {
            let window = rig_memory::SlidingWindowMemory::last_messages(10);
            Rig::new(appends, InMemoryConversationMemory::new().with_filter(window.into_filter()))
        }),
        "tokens" => measured(work, move || {
            let quarter = |message: &RigMessage| rig_text(message).len() / 4;
            let window = rig_memory::TokenWindowMemory::new(1000 * 300 / 4, quarter);
            Rig::new(appends, InMemoryConversationMemory::new().with_filter(window.into_filter()))
        }),
        "window" => Err("counts when it is read"),
        "store" => Err("no embedded store"),
        _ => Err("no truncation"),
    }
}

struct Rig {
    memory: InMemoryConversationMemory,
    id: ConversationId,
    appends: u64,
}

impl Rig {
    fn new(appends: u64, memory: InMemoryConversationMemory) -> Self {
        Self { memory, id: "support:u1001:c2002".into(), appends }
    }
}

fn rig_message(i: u64, text: String) -> RigMessage {
    if is_user(i) { RigMessage::user(text) } else { RigMessage::assistant(text) }
}

fn rig_text(message: &RigMessage) -> &str {
    match message {
        RigMessage::User { content } => match content.first() {
            Some(UserContent::Text(text)) => &text.text,
            _ => "",
        },
        RigMessage::Assistant(message) => match message.content.first() {
            Some(AssistantContent::Text(text)) => &text.text,
            _ => "",
        },
        RigMessage::System { content } => content,
    }
}

impl Chat for Rig {
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>) {
        let messages = (0..).zip(texts).map(|(i, text)| rig_message(i, text)).collect();
        now(self.memory.append(&self.id, messages)).unwrap();
    }

    fn step(&mut self, at: u64, texts: &mut IntoIter<String>) -> usize {
        for (i, text) in (at..at + self.appends).zip(texts) {
            now(self.memory.append(&self.id, vec![rig_message(i, text)])).unwrap();
        }
        let messages = black_box(now(self.memory.load(&self.id)).unwrap());
        messages.iter().map(|message| rig_text(message).len()).sum()
    }

    fn texts(&mut self) -> Vec<String> {
        now(self.memory.load(&self.id))
            .unwrap()
            .iter()
            .map(|message| rig_text(message).into())
            .collect()
    }
}

fn rig_faults() -> Vec<&'static str> {
    let window = rig_memory::SlidingWindowMemory::last_messages(10);
    let rig = Rig::new(1, InMemoryConversationMemory::new().with_filter(window.into_filter()));
    let name = ToolName::try_from("weather").unwrap();
    let call = AssistantContent::tool_call("call_1", name.clone(), json!({}));
    let AssistantContent::ToolCall(ref tool_call) = call else { unreachable!() };
    let result = RigMessage::tool_result(tool_call.id.clone(), name, "sunny");
    let call = RigMessage::Assistant(AssistantMessage::new(vec![call]));
    now(rig.memory.append(&rig.id, vec![call, result])).unwrap();
    now(rig.memory.append(&rig.id, vec![RigMessage::user("later"); 9])).unwrap();
    let orphan = matches!(&now(rig.memory.load(&rig.id)).unwrap()[0],
        RigMessage::User { content } if matches!(content[0], UserContent::ToolResult(_)));
    orphan.then_some("plain|opens on a tool result without its call").into_iter().collect()
}

// llm

fn llm(work: &Work) -> Made {
    match &*work.kind {
        "plain" | "memory" => {
            let appends = work.appends;
            // As large as what is stored ever gets, so that nothing is lost.
            let window = usize::try_from(work.stored * 2).unwrap();
            measured(work, move || Llm { memory: SlidingWindowMemory::new(window), appends })
        }
        "window" | "tokens" => Err("no token window"),
        "store" => Err("no embedded store"),
        _ => Err("no truncation"),
    }
}

struct Llm {
    memory: SlidingWindowMemory,
    appends: u64,
}

impl Llm {
    fn remember(&mut self, i: u64, text: String) {
        let message = if is_user(i) { ChatMessage::user() } else { ChatMessage::assistant() };
        now(self.memory.remember(&message.content(text).build())).unwrap();
    }
}

impl Chat for Llm {
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>) {
        (0..).zip(texts).for_each(|(i, text)| self.remember(i, text));
    }

    fn step(&mut self, at: u64, texts: &mut IntoIter<String>) -> usize {
        (at..at + self.appends).zip(texts).for_each(|(i, text)| self.remember(i, text));
        let messages = black_box(now(self.memory.recall("", Some(10))).unwrap());
        messages.iter().map(|message| message.content.len()).sum()
    }

    fn texts(&mut self) -> Vec<String> {
        now(self.memory.recall("", Some(10)))
            .unwrap()
            .into_iter()
            .map(|message| message.content)
            .collect()
    }
}

fn llm_faults() -> Vec<&'static str> {
    let mut llm = Llm { memory: SlidingWindowMemory::new(100), appends: 1 };
    let call = llm::ToolCall {
        id: "call_1".into(),
        call_type: "function".into(),
        function: llm::FunctionCall { name: "weather".into(), arguments: "{}".into() },
    };
    now(llm.memory.remember(&ChatMessage::assistant().tool_use(vec![call.clone()]).build()))
        .unwrap();
    now(llm.memory.remember(&ChatMessage::user().tool_result(vec![call]).build())).unwrap();
    (0..9).for_each(|i| llm.remember(i, "later".into()));
    let first = &now(llm.memory.recall("", Some(10))).unwrap()[0];
    let orphan = matches!(first.message_type, llm::chat::MessageType::ToolResult(_));
    orphan.then_some("plain|opens on a tool result without its call").into_iter().collect()
}

// langchain-rust

fn langchain(work: &Work) -> Made {
    let appends = work.appends;
    match &*work.kind {
        "plain" | "memory" => {
            let memory = SimpleMemory::new;
            measured(work, move || LangChain { memory: memory(), last: 10, appends, reads: true })
        }
        "window" | "tokens" => {
            let reads = work.kind == "tokens";
            measured(work, move || {
                let memory = TokenBufferMemory::new(1000 * 300 / 4)
                    .with_token_counter(|text| text.len() / 4);
                LangChain { memory, last: usize::MAX, appends, reads }
            })
        }
        "store" => measured(work, move || {
            let options = SqliteConnectOptions::new()
                .filename("langchain-rust.db")
                .create_if_missing(true)
                .journal_mode(SqliteJournalMode::Wal)
                .synchronous(SqliteSynchronous::Full);
            let pool = SqlitePoolOptions::new().max_connections(1).connect_with(options);
            let pool = runtime().block_on(pool).unwrap();
            Sqlite { memory: SqliteMessageHistory::new(pool.clone(), SESSION), pool, appends }
        }),
        _ => Err("no truncation"),
    }
}

fn langchain_10(work: &Work) -> Made {
    let appends = work.appends;
    match &*work.kind {
        "plain" if work.stored <= 100 => measured(work, move || LangChain {
            memory: WindowBufferMemory::new(10),
            last: usize::MAX,
            appends,
            reads: true,
        }),
        _ => Err(""),
    }
}

fn langchain_message(i: u64, text: String) -> LangChainMessage {
    if is_user(i) {
        LangChainMessage::new_human_message(text)
    } else {
        LangChainMessage::new_ai_message(text)
    }
}

struct LangChain<M> {
    memory: M,
    last: usize,
    appends: u64,
    reads: bool,
}

fn last(messages: &[LangChainMessage], n: usize) -> &[LangChainMessage] {
    &messages[messages.len().saturating_sub(n)..]
}

impl<M: BaseMemory> Chat for LangChain<M> {
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>) {
        for (i, text) in (0..).zip(texts) {
            now(self.memory.add_message(langchain_message(i, text))).unwrap();
        }
    }

    fn step(&mut self, at: u64, texts: &mut IntoIter<String>) -> usize {
        for (i, text) in (at..at + self.appends).zip(texts) {
            now(self.memory.add_message(langchain_message(i, text))).unwrap();
        }
        if !self.reads {
            return 0;
        }
        let messages = black_box(now(self.memory.messages()).unwrap());
        last(&messages, self.last).iter().map(|message| message.content.len()).sum()
    }

    fn texts(&mut self) -> Vec<String> {
        let messages = now(self.memory.messages()).unwrap();
        last(&messages, self.last).iter().map(|message| message.content.clone()).collect()
    }
}

fn langchain_10_faults() -> Vec<&'static str> {
    let memory = WindowBufferMemory::new(10);
    let mut chat = LangChain { memory, last: usize::MAX, appends: 1, reads: true };
    let mut faults = vec![
        "plain|keeps 10 messages: what was before them is gone, so there are never more stored",
    ];
    let call = LangChainMessage::new_ai_message("").with_tool_calls(json!([{ "id": "call_1" }]));
    now(chat.memory.add_message(call)).unwrap();
    now(chat.memory.add_message(LangChainMessage::new_tool_message("sunny", "call_1"))).unwrap();
    chat.fill(&mut std::iter::repeat_n("later".to_owned(), 9));
    if chat.texts()[0] == "sunny" {
        faults.push("plain|opens on a tool result without its call");
    }
    faults
}

/// langchain-rust's history in SQLite; it has no way to read less than all of it.
struct Sqlite {
    memory: SqliteMessageHistory,
    pool: SqlitePool,
    appends: u64,
}

const SESSION: &str = "support:u1001:c2002";

/// A runtime, for the one that waits.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

impl Chat for Sqlite {
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>) {
        // In one transaction: its own appends are one each, and there is nothing else in it.
        runtime().block_on(async {
            self.memory.clear().await.unwrap();
            let mut transaction = self.pool.begin().await.unwrap();
            for (i, text) in (0..).zip(texts) {
                let row =
                    "INSERT INTO langchain_message_history (session_id, message) VALUES (?, ?)";
                let message = serde_json::to_string(&langchain_message(i, text)).unwrap();
                sqlx::query(row)
                    .bind(SESSION)
                    .bind(message)
                    .execute(&mut *transaction)
                    .await
                    .unwrap();
            }
            transaction.commit().await.unwrap();
        });
    }

    fn step(&mut self, at: u64, texts: &mut IntoIter<String>) -> usize {
        runtime().block_on(async {
            for (i, text) in (at..at + self.appends).zip(texts) {
                self.memory.add_message(langchain_message(i, text)).await.unwrap();
            }
            let messages = self.memory.messages().await.unwrap();
            last(&messages, 10).iter().map(|message| message.content.len()).sum()
        })
    }

    fn texts(&mut self) -> Vec<String> {
        let messages = runtime().block_on(self.memory.messages()).unwrap();
        last(&messages, 10).iter().map(|message| message.content.clone()).collect()
    }
}
