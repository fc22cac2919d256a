//! Keeps conversations in a memory of your own: a file of JSON lines that any editor can read. Run
//! it twice: it remembers.
//!
//! Run it with `cargo run --example custom_memory`.
//!
//! The file is a log: what was appended, evicted and cleared, in order. Opening it replays the log
//! into a [`DefaultChatMemory`], which then answers every read. One process at a time may have it
//! open.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use memory_prompt::memory::MemoryId;
use memory_prompt::record::Snapshot;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, Error, ErrorKind, MemoryPrompt, Message, Result,
};
use serde::{Deserialize, Serialize};

/// One line of the file. A batch is one line, so that it is there whole or not at all.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Append(Vec<Message>),
    Evict(u64),
    Clear,
}

/// A conversation in a file of JSON lines.
#[derive(Debug)]
struct JsonLinesMemory {
    path: PathBuf,
    file: Mutex<File>,
    held: DefaultChatMemory,
}

impl JsonLinesMemory {
    fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let held = DefaultChatMemory::with_id(path.display().to_string());
        let failed = |error| storage("open", &path, error);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        let mut whole = 0;
        let mut lines = BufReader::new(&file);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line).map_err(failed)? > 0 {
            if line.last() != Some(&b'\n') {
                break; // The process died while it wrote this line: nobody was told that it is there.
            }
            match serde_json::from_slice(&line)
                .map_err(|error| storage("open", &path, error.into()))?
            {
                Line::Append(messages) => _ = held.add_all(messages)?,
                Line::Evict(before) => _ = held.evict(before)?,
                Line::Clear => held.clear()?,
            }
            whole += line.len() as u64;
            line.clear();
        }
        file.set_len(whole).and_then(|()| file.seek(SeekFrom::End(0))).map_err(failed)?;
        Ok(Self { path, file: Mutex::new(file), held })
    }

    /// Whoever holds this is the only one to change the conversation.
    fn lock(&self) -> MutexGuard<'_, File> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line through to the disk, or leaves the file as it was.
    fn log(&self, file: &mut File, operation: &'static str, line: &Line) -> Result<()> {
        let failed = |error| storage(operation, &self.path, error);
        let mut bytes = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        bytes.push(b'\n');
        let end = file.stream_position().map_err(failed)?;
        file.write_all(&bytes).and_then(|()| file.sync_data()).or_else(|error| {
            file.set_len(end).and_then(|()| file.seek(SeekFrom::Start(end))).map_err(failed)?;
            Err(failed(error))
        })
    }
}

impl ChatMemory for JsonLinesMemory {
    fn id(&self) -> &MemoryId {
        self.held.id()
    }

    fn append(&self, batch: &mut Vec<Message>, expected: Option<u64>) -> Result<Range<u64>> {
        let mut file = self.lock();
        // An append of nothing at the expected place finds a conflict before anything is written.
        self.held.append(&mut Vec::new(), expected)?;
        let line = Line::Append(std::mem::take(batch));
        let logged = self.log(&mut file, "append", &line);
        if let Line::Append(messages) = line {
            *batch = messages;
        }
        logged.and_then(|()| self.held.append(batch, expected))
    }

    fn read(&self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        self.held.read(before, n)
    }

    fn evict(&self, before: u64) -> Result<u64> {
        let mut file = self.lock();
        self.log(&mut file, "evict", &Line::Evict(before))?;
        self.held.evict(before)
    }

    fn clear(&self) -> Result<()> {
        let mut file = self.lock();
        self.log(&mut file, "clear", &Line::Clear)?;
        self.held.clear()
    }
}

fn storage(operation: &'static str, path: &Path, error: std::io::Error) -> Error {
    let text = format!("{} can't be used", path.display());
    Error::new(ErrorKind::Storage, operation, text).with_source(error)
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("memory-prompt-example.jsonl");
    let mut prompt = MemoryPrompt::new(JsonLinesMemory::open(&path)?).max_messages(4);
    let visits = prompt.memory().len()? / 2 + 1;
    prompt.add(Message::user(format!("This is visit {visits}.")))?;
    prompt.add(Message::ai(format!("Welcome for the {visits}. time!")))?;
    for message in &prompt.build()? {
        println!("{:<10} {}", message.role(), message.text());
    }
    println!("\n{} holds {} messages", path.display(), prompt.memory().len()?);
    Ok(())
}
