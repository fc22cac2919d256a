//! Keeps conversations in a memory of your own: a file of JSON lines that any editor can read. Run
//! it twice: it remembers.
//!
//! Run it with `cargo run --example custom_memory`.
//!
//! The file is a log: what was appended, evicted and cleared, in order. Opening it replays the log
//! into a [`DefaultChatMemory`], which then answers every read. One process at a time may have it
//! open. What was cleared or evicted stays in the file: a memory that must erase it writes the file
//! anew.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use memory_prompt::memory::{Append, MemoryId};
use memory_prompt::record::Snapshot;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, Error, ErrorKind, MemoryPrompt, Message, Result,
};
use serde::{Deserialize, Serialize};

/// One line of the file. A batch is one line with its time, so that it is there whole or not at all.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Append(SystemTime, Vec<Message>),
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
    fn open(path: impl AsRef<Path>, id: &str) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let held = DefaultChatMemory::with_id(id);
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
                Line::Append(at, messages) => _ = held.append_with(&mut said(at, messages))?,
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
        // What would be refused is refused before anything is written: an append of nothing at the
        // expected place finds a conflict.
        self.held.append(&mut Vec::new(), expected)?;
        if batch.iter().any(Message::has_references) {
            let text = "a message has a reference in the place of media";
            return Err(Error::new(ErrorKind::Invalid, "append", text));
        }
        let at = SystemTime::now();
        self.log(&mut file, "append", &Line::Append(at, batch.clone()))?;
        Ok(self.held.append_with(&mut said(at, std::mem::take(batch)))?.positions)
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

/// Returns the append of messages that were all said at this time.
fn said(at: SystemTime, messages: Vec<Message>) -> Append {
    let times = vec![at; messages.len()];
    Append::new(messages).with_times(times)
}

fn storage(operation: &'static str, path: &Path, error: std::io::Error) -> Error {
    let text = format!("{} can't be used", path.display());
    Error::new(ErrorKind::Storage, operation, text).with_source(error)
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join("memory-prompt-visits.jsonl");
    let mut prompt = MemoryPrompt::new(JsonLinesMemory::open(&path, "visits")?).max_messages(4);
    let visits = prompt.memory().len()? / 2 + 1;
    prompt.add(Message::user("Good evening."))?;
    prompt.add(Message::ai(format!("Welcome: this is visit {visits}.")))?;
    for message in &prompt.build()? {
        println!("{:<10} {}", message.role(), message.text());
    }
    println!("\n{} holds {} messages", path.display(), prompt.memory().len()?);
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // a test that panics has failed

    use std::collections::HashMap;
    use std::sync::Arc;

    use memory_prompt::conformance::Fixture;

    use super::*;

    /// A folder of its own, and what is open in it.
    struct Folder(PathBuf, Mutex<HashMap<String, Arc<JsonLinesMemory>>>);

    impl Fixture for Folder {
        const BACKEND: &'static str = "JSON lines";

        fn new() -> Self {
            let folder = std::env::temp_dir().join(MemoryId::random().as_str());
            std::fs::create_dir(&folder).unwrap();
            Self(folder, Mutex::default())
        }

        fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
            let mut open = self.1.lock().unwrap();
            let path = self.0.join(open.len().to_string());
            let opened = || Arc::new(JsonLinesMemory::open(path, id).unwrap());
            Arc::clone(open.entry(id.to_owned()).or_insert_with(opened)) as _
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).unwrap();
        }
    }

    memory_prompt::conformance!(json_lines: Folder, [memory]);

    /// What was read again had the time at which the file was opened.
    #[test]
    fn what_is_read_again_keeps_its_times() {
        let folder = Folder::new();
        let open = || JsonLinesMemory::open(folder.0.join("0"), "a").unwrap();
        let times = |memory: &JsonLinesMemory| -> Vec<_> {
            memory.all().unwrap().iter().map(|it| it.appended_at()).collect()
        };
        let memory = open();
        memory.add(Message::user("hi")).unwrap();
        let before = times(&memory);
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!(times(&open()), before);
    }
}
