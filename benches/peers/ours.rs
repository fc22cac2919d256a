//! `memory-prompt` itself: what the peers are measured against.

#![allow(clippy::unwrap_used, clippy::cast_precision_loss)] // a bench that panics has failed

mod contestant;

use std::hint::black_box;

use contestant::{Chat, Contestant, Made, Work, is_user, measured};
use memory_prompt::token::{Overhead, TokenCounter};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message, Result, SqliteStore,
    TokenWindowChatMemory, ToolCall, Truncate,
};

fn main() {
    contestant::main(&[Contestant {
        id: "memory-prompt",
        name: "memory-prompt",
        version: "this commit",
        make,
        faults,
    }]);
}

fn make(work: &Work) -> Made {
    let appends = work.appends;
    match &*work.kind {
        "plain" | "memory" => measured(work, move || Prompt::new(appends)),
        "truncated" => measured(work, move || Prompt::truncated(appends)),
        "window" | "tokens" => {
            let reads = work.kind == "tokens";
            measured(work, move || {
                let limit = 1000 * 300 / 4;
                let memory = TokenWindowChatMemory::new(DefaultChatMemory::new(), limit, Quarter);
                Memory { memory: memory.unwrap(), reads }
            })
        }
        "store" => measured(work, move || {
            let store = SqliteStore::open("ours.db").unwrap();
            let memory = store.memory("support:u1001:c2002").unwrap();
            memory.clear().unwrap();
            Store { memory: Box::new(memory), appends }
        }),
        _ => Err("unknown work"),
    }
}

fn message(i: u64, text: String) -> Message {
    if is_user(i) { Message::user(text) } else { Message::ai(text) }
}

fn fill(
    memory: &dyn ChatMemory,
    texts: &mut dyn Iterator<Item = String>,
    message: fn(u64, String) -> Message,
) {
    let mut messages = (0..).zip(texts).map(|(i, text)| message(i, text)).peekable();
    while messages.peek().is_some() {
        memory.append(&mut messages.by_ref().take(1000).collect(), None).unwrap();
    }
}

struct Prompt {
    prompt: MemoryPrompt,
    appends: u64,
    message: fn(u64, String) -> Message,
}

impl Prompt {
    fn new(appends: u64) -> Self {
        Self { prompt: MemoryPrompt::new(DefaultChatMemory::new()), appends, message }
    }

    /// All messages are the user's: Agents-Flex never cuts an assistant's.
    fn truncated(appends: u64) -> Self {
        let prompt = MemoryPrompt::new(DefaultChatMemory::new()).truncate(Truncate::default());
        Self { prompt, appends, message: |_, text| Message::user(text) }
    }
}

impl Chat for Prompt {
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>) {
        fill(&**self.prompt.memory(), texts, self.message);
    }

    fn step(&mut self, at: u64, texts: &mut std::vec::IntoIter<String>) -> usize {
        for (i, text) in (at..at + self.appends).zip(texts) {
            self.prompt.add((self.message)(i, text)).unwrap();
        }
        let prompt = black_box(self.prompt.build().unwrap());
        prompt.iter().map(|message| message.text().len()).sum()
    }

    fn texts(&mut self) -> Vec<String> {
        self.prompt.build().unwrap().iter().map(|message| message.text().into_owned()).collect()
    }
}

/// What all contestants count with: a token for each four bytes, and nothing for a message.
struct Quarter;

impl TokenCounter for Quarter {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(text.len() / 4)
    }

    fn overhead(&self) -> Overhead {
        let mut overhead = Overhead::default();
        overhead.message = 0;
        overhead
    }
}

/// A memory, read as a whole or not at all.
struct Memory<M> {
    memory: M,
    reads: bool,
}

impl<M: ChatMemory> Chat for Memory<M> {
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>) {
        fill(&self.memory, texts, message);
    }

    fn step(&mut self, at: u64, texts: &mut std::vec::IntoIter<String>) -> usize {
        if let Some(text) = texts.next() {
            self.memory.add(message(at, text)).unwrap();
        }
        if !self.reads {
            return 0;
        }
        let records = black_box(self.memory.all().unwrap());
        records.messages().map(|message| message.text().len()).sum()
    }

    fn texts(&mut self) -> Vec<String> {
        self.memory.all().unwrap().messages().map(|message| message.text().into_owned()).collect()
    }
}

struct Store {
    memory: Box<dyn ChatMemory>,
    appends: u64,
}

impl Chat for Store {
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>) {
        fill(&*self.memory, texts, message);
    }

    fn step(&mut self, at: u64, texts: &mut std::vec::IntoIter<String>) -> usize {
        if self.appends > 0 {
            self.memory
                .add_all((at..at + self.appends).zip(texts).map(|(i, text)| message(i, text)))
                .unwrap();
        }
        let records = black_box(self.memory.latest(10).unwrap());
        records.messages().map(|message| message.text().len()).sum()
    }

    fn texts(&mut self) -> Vec<String> {
        self.memory
            .latest(10)
            .unwrap()
            .messages()
            .map(|message| message.text().into_owned())
            .collect()
    }
}

/// The same checks as every contestant's.
fn faults() -> Vec<&'static str> {
    let mut faults = Vec::new();
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    prompt.add(Message::ai_calls([ToolCall::new("call_1", "weather", "{}")])).unwrap();
    prompt.add(Message::tool("call_1", "weather", "sunny")).unwrap();
    prompt.add_all((0..9).map(|i| message(i, "later".into()))).unwrap();
    if prompt.build().unwrap()[0].is_tool() {
        faults.push("plain|opens on a tool result without its call");
    }
    let mut prompt = Prompt::truncated(1);
    prompt.fill(&mut std::iter::once("x".to_owned() + &"👩‍👩‍👧".repeat(1001)));
    if !prompt.texts()[0].ends_with("👩‍👩‍👧") {
        faults.push("truncated|cuts a character in two");
    }
    if prompt.prompt.memory().latest(1).unwrap().messages().any(|m| m.text().len() < 10_000) {
        faults.push("truncated|writes the cut text over what is stored");
    }
    prompt.prompt.add_temporary(Message::user("once"));
    prompt.prompt.configure(|composer| composer.system("Be brief."));
    prompt.prompt.build().unwrap();
    if prompt.prompt.memory().all().unwrap().len() != 1 {
        faults.push("plain|writes the system message and temporary messages into the history");
    }
    faults
}
