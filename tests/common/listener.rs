//! One who listens to all that is told with `tracing`, and writes it down.

use std::fmt::{Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::NoSubscriber;
use tracing::{Dispatch, Event, Metadata, Subscriber};

/// A clone listens for the same notes.
#[derive(Clone)]
pub(crate) struct Listener {
    notes: Arc<Mutex<Vec<String>>>,
    spans: Arc<AtomicU64>,
}

/// Nobody, twice. Where there is but one listener, `tracing` asks the thread that comes to a place
/// first whether anybody listens, and that may be the thread of another test, to which nobody does:
/// nothing is told of that place then. Of several listeners each is asked.
static NOBODY: LazyLock<[Dispatch; 2]> =
    LazyLock::new(|| [(); 2].map(|()| Dispatch::new(NoSubscriber::new())));

impl Default for Listener {
    fn default() -> Self {
        LazyLock::force(&NOBODY);
        Self { notes: Arc::default(), spans: Arc::default() }
    }
}

impl Listener {
    /// What was told, a line each: `span` or `event`, the level, the target, and the fields.
    pub(crate) fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap().clone()
    }

    /// How many of this crate's notes hold all of these words.
    pub(crate) fn count(&self, words: &[&str]) -> usize {
        let notes = self.notes();
        let own = notes.iter().filter(|note| note.contains("memory_prompt::store"));
        own.filter(|note| words.iter().all(|word| note.contains(word))).count()
    }

    fn note(&self, what: &str, metadata: &Metadata<'_>, write: impl FnOnce(&mut Fields)) {
        let name = metadata.name();
        let mut fields =
            Fields(format!("{what} {} {} {name}", metadata.level(), metadata.target()));
        write(&mut fields);
        self.notes.lock().unwrap().push(fields.0);
    }
}

struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}

impl Subscriber for Listener {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        self.note("span", span.metadata(), |fields| span.record(fields));
        Id::from_u64(self.spans.fetch_add(1, Ordering::Relaxed) + 1)
    }
    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut fields = Fields("record".to_owned());
        values.record(&mut fields);
        self.notes.lock().unwrap().push(fields.0);
    }
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        self.note("event", event.metadata(), |fields| event.record(fields));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
