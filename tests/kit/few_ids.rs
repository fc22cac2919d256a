//! A store that makes a name of each id, and can't hold any text as one.

use std::process::Command;
use std::sync::Arc;
use std::time::SystemTime;

use memory_prompt::conformance::{Fixture, StoreFixture, store};
use memory_prompt::memory::MemoryId;
use memory_prompt::record::Incarnation;
use memory_prompt::store::Info;
use memory_prompt::{ChatMemory, ChatMemoryStore, Error, ErrorKind, InMemoryStore, Result};

/// Whether an id can be a name.
fn is_name(id: &str) -> bool {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == ':' || it == ' ';
    !id.is_empty() && id.len() <= 64 && id.trim() == id && id.chars().all(is_plain)
}

#[derive(Clone, Debug)]
struct Names {
    held: InMemoryStore,
    refuses: bool,
}

impl ChatMemoryStore for Names {
    fn memory(&self, id: MemoryId) -> Result<Arc<dyn ChatMemory>> {
        if self.refuses && !is_name(id.as_str()) {
            return Err(Error::new(ErrorKind::Invalid, "memory", "names: the id is no name"));
        }
        Ok(Arc::new(self.held.memory(id)?))
    }

    fn ids(&self, after: Option<&MemoryId>, n: usize) -> Result<Vec<MemoryId>> {
        self.held.ids(after, n)
    }

    fn delete(&self, id: &MemoryId) -> Result<bool> {
        self.held.delete(id)
    }

    fn purge_inactive(&self, older_than: SystemTime) -> Result<u64> {
        self.held.purge_inactive(older_than)
    }

    fn info(&self, id: &MemoryId) -> Result<Option<Info>> {
        self.held.info(id)
    }

    fn delete_prefix(&self, prefix: &str) -> Result<u64> {
        self.held.delete_prefix(prefix)
    }

    fn restore(&self, id: &MemoryId, start: u64, incarnation: Option<Incarnation>) -> Result<()> {
        self.held.restore(id, start, incarnation)
    }
}

/// Its `REFUSES` says whether the store does what its fixture says.
struct Place<const REFUSES: bool>(Names);

impl<const REFUSES: bool> Fixture for Place<REFUSES> {
    const BACKEND: &'static str = "names";
    fn new() -> Self {
        Self(Names { held: InMemoryStore::new(), refuses: REFUSES })
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        self.store().memory(id.into()).unwrap()
    }
    fn takes(&self, id: &str) -> bool {
        is_name(id)
    }
}

impl<const REFUSES: bool> StoreFixture for Place<REFUSES> {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

// The contract lets a store refuse an id that it can't hold. The kit asked each for all of them, so
// such a store kept the contract and could not pass.
memory_prompt::conformance!(of_few_ids: Place<true>, [memory, store, moving]);

/// An id that the fixture calls none must be refused, or the fixture hides what is wrong.
#[test]
#[should_panic(expected = "should be refused")]
fn an_id_that_is_not_taken_must_be_refused() {
    store::hostile_ids_are_listed_as_they_are(&Place::<false>::new());
}

/// `1_000` was no number, and counted as the default without a word.
#[test]
fn a_number_of_cases_that_is_none_is_an_error() {
    let law = "few_ids::of_few_ids::any_list_of_operations_gives_what_a_list_gives";
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([law, "--exact"]).env("MEMORY_PROMPT_CASES", "1_000");
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        !output.status.success() && said.contains("MEMORY_PROMPT_CASES is \"1_000\""),
        "{said}"
    );
}
