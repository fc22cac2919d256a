//! Stores: a turn appended, and the last ten of many.
//!
//! ```text
//! cargo bench -p memory-prompt-benches --bench stores --features sqlite                        of up to 100,000 messages
//! cargo bench -p memory-prompt-benches --bench stores --features sqlite -- --include-ignored   and of 1,000,000
//! ```
//!
//! With the features `postgres` and `tokio`, `MEMORY_PROMPT_POSTGRES` is the address of a server to
//! measure. What is kept in files or on a server includes the JSON, written or read.

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed

#[path = "common/backends.rs"]
mod backends;
#[path = "../tests/common/folder.rs"]
#[allow(dead_code)] // files are for SQLite
mod folder;
#[path = "common/measure.rs"]
mod measure;
#[path = "common/messages.rs"]
mod messages;

use divan::Bencher;
use memory_prompt::{ChatMemory, ChatMemoryExt, ChatMemoryStore};

use backends::{BACKENDS, Backend};
use folder::Folder;
use messages::{fill, message};

fn main() {
    measure::run();
}

/// Those that can be opened here.
fn measured() -> impl Iterator<Item = &'static Backend> {
    BACKENDS.iter().filter(|backend| match (backend.open)(&Folder::new()) {
        Ok(_) => true,
        Err(why) => {
            eprintln!("{backend}: left out, {why}");
            false
        }
    })
}

/// A memory with so many messages. A server outlives this program, so what it holds is removed.
fn with_memory(store: &dyn ChatMemoryStore, stored: u64, work: impl FnOnce(&dyn ChatMemory)) {
    let memory = store.memory(format!("bench:{}", std::process::id()).into()).unwrap();
    fill(&memory, stored);
    work(&memory);
    store.delete(memory.id()).unwrap();
}

fn append(bencher: Bencher<'_, '_>, store: &dyn ChatMemoryStore) {
    with_memory(store, 100, |memory| {
        bencher
            .with_inputs(|| vec![message(0), message(1)])
            .bench_local_values(|mut turn| memory.append(&mut turn, None).unwrap());
    });
}

#[divan::bench(args = measured())]
fn append_a_turn(bencher: Bencher<'_, '_>, backend: &Backend) {
    let folder = Folder::new();
    append(bencher, &(backend.open)(&folder).unwrap());
}

/// What the disk costs is the difference to the one above.
#[cfg(feature = "sqlite")]
#[divan::bench]
fn append_a_turn_that_survives_the_process_alone(bencher: Bencher<'_, '_>) {
    let folder = Folder::new();
    let options = memory_prompt::SqliteStore::options();
    let options = options.durability(memory_prompt::store::Durability::Process);
    append(bencher, &options.open(folder.file("chat.db")).unwrap());
}

fn last_10(bencher: Bencher<'_, '_>, backend: &Backend, stored: u64) {
    let folder = Folder::new();
    with_memory(&(backend.open)(&folder).unwrap(), stored, |memory| {
        assert_eq!(memory.latest(10).unwrap().len(), 10);
        bencher.bench_local(|| memory.latest(10).unwrap());
    });
}

#[divan::bench(consts = [100, 10_000, 100_000], args = measured())]
fn last_10_of<const STORED: u64>(bencher: Bencher<'_, '_>, backend: &Backend) {
    last_10(bencher, backend, STORED);
}

#[divan::bench(args = measured(), ignore)]
fn last_10_of_1_000_000(bencher: Bencher<'_, '_>, backend: &Backend) {
    last_10(bencher, backend, 1_000_000);
}
