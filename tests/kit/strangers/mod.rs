//! The kit bites: stores with one fault each, and the laws that find it.
//!
//! Each is what a real implementation does wrong in one sentence: a statement, a type of column, a
//! cache, a driver. Of some it is known which laws are to find it. The others are by somebody who
//! had read the contracts and not the laws: none knows which law it is.

#![allow(clippy::unnecessary_wraps, clippy::cast_possible_truncation, clippy::or_fun_call)]
#![allow(clippy::redundant_closure_for_method_calls, clippy::duration_suboptimal_units)]
#![allow(clippy::too_many_lines)] // a table has as many rows as there are faults
// What is done honestly has the form of what is done otherwise, and some faults are just that: a
// cast.

mod appends;
mod ids;
mod reads;
mod shelf;
mod slots;
mod stores;
mod times;

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use memory_prompt::conformance::{Fixture, StoreFixture};
use memory_prompt::memory::Append;
use memory_prompt::{ChatMemory, ChatMemoryStore, Message};

use shelf::{Book, Shelf, Strange};

thread_local! {
    /// What the places of this thread do otherwise: a fixture is made without arguments.
    static PLANTED: RefCell<Arc<Strange>> = RefCell::new(Arc::new(Strange::of("none")));
}

struct Place(Shelf);

impl Fixture for Place {
    const BACKEND: &'static str = "strange";
    fn new() -> Self {
        Self(Shelf::new(PLANTED.with_borrow(Arc::clone)))
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        self.0.memory(id.into()).unwrap()
    }
}

impl StoreFixture for Place {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

// Nothing is found in a shelf that does all as it should.
memory_prompt::conformance!(honest: Place, [memory, store, ids, slots, times, moving]);

type Law = (&'static str, &'static str, fn(&Place));

/// Returns all laws of a store. Those that take long stand last.
fn all() -> Vec<Law> {
    macro_rules! all {
        ($($group:ident)+) => {
            [$(memory_prompt::__conformance!(@list $group).to_vec()),+].concat()
        };
    }
    let mut laws: Vec<Law> = all!(memory store times ids slots moving);
    laws.sort_by_key(|law| law.1.ends_with("thousand_messages") || law.1.ends_with("megabytes"));
    laws
}

/// Laws that are to find faults.
enum Finders {
    /// Each of these.
    Each(Vec<Law>),
    /// One of these, those first that are likely to: a law that holds takes longest.
    Any(Vec<Law>),
}

/// Each of these laws, by its group and its name.
fn laws<const N: usize>(names: [&str; N]) -> Finders {
    let all = all();
    let law = |name: &str| *all.iter().find(|it| format!("{}::{}", it.0, it.1) == name).unwrap();
    Finders::Each(names.map(law).to_vec())
}

fn any_law<const N: usize>(likely: [&'static str; N]) -> Finders {
    let mut laws = all();
    laws.sort_by_key(|law| likely.iter().position(|group| *group == law.0).unwrap_or(N));
    Finders::Any(laws)
}

impl Finders {
    /// Runs each of these laws on a store, of which they are to hold.
    fn hold(&self, honest: Strange) {
        PLANTED.set(Arc::new(honest));
        let (Self::Each(laws) | Self::Any(laws)) = self;
        for law in laws {
            law.2(&Place::new());
        }
    }

    /// Asserts that the laws do not hold of stores that do this otherwise.
    #[track_caller]
    fn find<const N: usize>(&self, faults: [Strange; N]) {
        let breaks = |law: &Law| catch_unwind(AssertUnwindSafe(|| law.2(&Place::new()))).is_err();
        let mut missed = Vec::new();
        for strange in faults {
            let fault = strange.fault;
            PLANTED.set(Arc::new(strange));
            // A fault that needs two at once is met by chance, so one try may miss it.
            match self {
                Self::Each(laws) => {
                    let holds = |law: &&Law| !(0..5).any(|_| breaks(law));
                    missed.extend(laws.iter().filter(holds).map(|law| (fault, law.1)));
                }
                Self::Any(laws) => {
                    let found = (0..3).find_map(|_| laws.iter().find(|law| breaks(law)));
                    println!("{fault}: {:?}", found.map(|law| law.1));
                    missed.extend(found.is_none().then_some((fault, "no law at all")));
                }
            }
        }
        assert!(missed.is_empty(), "faults, and the laws that do not find them: {missed:#?}");
    }
}

/// A memory that does something else than the append says, which nobody else is to see.
fn otherwise(
    fault: &'static str,
    other: impl Fn(&Book, &mut Append) + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault).append(move |book, append| book.write_as(append, |copy| other(book, copy)))
}

/// A store that keeps what it deletes where something may dig it out again.
fn burying(fault: &'static str) -> Strange {
    Strange::of(fault).delete(|shelf, key| {
        let mut data = shelf.data.lock();
        let gone = data.all.remove(key);
        let is_gone = gone.is_some();
        data.graves.extend(gone.map(|gone| (key.to_owned(), gone)));
        Ok(is_gone)
    })
}

/// Gives others the time to come in between.
fn pause() {
    std::thread::sleep(Duration::from_micros(100));
}

/// The message with each of its texts as this makes it.
fn rewritten(message: &Message, other: &impl Fn(&str) -> String) -> Message {
    let mut json = serde_json::to_value(message).unwrap();
    rewrite(&mut json, other);
    serde_json::from_value(json).unwrap_or_else(|_| message.clone())
}

fn rewrite(json: &mut serde_json::Value, other: &impl Fn(&str) -> String) {
    match json {
        serde_json::Value::String(text) => *text = other(text),
        serde_json::Value::Array(all) => all.iter_mut().for_each(|it| rewrite(it, other)),
        serde_json::Value::Object(all) => all.values_mut().for_each(|it| rewrite(it, other)),
        _ => {}
    }
}
