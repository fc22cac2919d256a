//! Faults in times and in what is activity.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::conformance::{Fixture, StoreFixture};
use memory_prompt::memory::{Append, Limits};
use memory_prompt::record::Records;
use memory_prompt::{ChatMemory, ChatMemoryStore};

use super::shelf::{Book, Shelf, Strange, now, rows};
use super::{any_law, laws, otherwise};

/// A memory that reads other times.
fn read_at(
    fault: &'static str,
    other: impl Fn(&Book, SystemTime) -> SystemTime + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault).read(move |book, read| {
        let mut snapshot = book.look(read)?;
        let other = |records: &Records| {
            Records::from_rows(rows(records).map(|row| (row.0, other(book, row.1), row.2)))
        };
        snapshot.records = other(&snapshot.records);
        let picked = other(snapshot.picked());
        Ok(snapshot.with_picked(picked, Vec::new()))
    })
}

/// A memory that keeps other times than it is given.
fn kept_at(
    fault: &'static str,
    other: impl Fn(&Append, SystemTime) -> SystemTime + Send + Sync + 'static,
) -> Strange {
    otherwise(fault, move |_, append| {
        append.times = append.times.iter().map(|at| other(append, *at)).collect();
    })
}

/// A memory whose conversation begins with such an append too.
fn beginning(fault: &'static str, begins: fn(&Append) -> bool) -> Strange {
    Strange::of(fault).append(move |book, append| {
        let is_new = book.found(|_| ()).is_none();
        if is_new && begins(append) && append.check_on_nothing().is_ok() {
            append.check(&Limits::default().with_slot(usize::MAX))?;
            book.shelf.begin(&book.key, 0, None)?;
        }
        book.write(append)
    })
}

fn whole_seconds(at: SystemTime) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

#[test]
fn laws_find_strange_times() {
    laws(["memory::times_of_append_are_kept"]).find([
        read_at("a time is that of the read", |_, _| now()),
        // `updated_at` of the conversation.
        read_at("a time is that of the last write", |book, _| {
            book.found(|it| it.active).unwrap_or(UNIX_EPOCH)
        }),
    ]);

    laws(["times::each_message_keeps_the_time_that_it_brings"]).find([
        otherwise("times are passed over", |_, append| append.times.clear()),
        kept_at("a time has whole seconds", |_, at| whole_seconds(at)),
        // That of its first message.
        kept_at("a batch has one time", |append, _| append.times[0]),
        // `max(previous, at)`: two clocks differ, and that looks wrong.
        otherwise("times never go back", |book, append| {
            let last = book.found(|it| it.rows.back().map(|row| row.1)).flatten();
            append.times.iter_mut().fold(last.unwrap_or(UNIX_EPOCH), |last, at| {
                *at = last.max(*at);
                *at
            });
        }),
    ]);

    laws(["times::the_time_of_a_system_message_is_passed_over"]).find([
        // The times are counted with the records, and the next one gets that of the system message.
        otherwise("a system message has no time of its own", |_, append| {
            let times = append.times.clone();
            if times.len() == append.messages.len() && !times.is_empty() {
                let records = append.messages.iter().scan(0, |next, message| {
                    let at = *next;
                    *next += usize::from(!message.is_system());
                    Some(at)
                });
                append.times = records.map(|i| times[i.min(times.len() - 1)]).collect();
            }
        }),
    ]);

    laws(["moving::an_import_is_active_until_it_is_closed"]).find([
        otherwise("an import is as old as its messages", |_, append| {
            append.active = append.active.or_else(|| append.times.iter().max().copied());
        }),
        otherwise("a conversation is never closed", |_, append| append.active = None),
        Strange::of("closing is the last word").append(|book, append| {
            let before = book.found(|it| it.active);
            let appended = book.write(append)?;
            if append.active.is_some() {
                book.data().notes.insert(book.key.clone(), 1);
            } else if book.data().notes.contains_key(&book.key) {
                book.found(|it| it.active = before.unwrap_or(it.active));
            }
            Ok(appended)
        }),
    ]);

    laws(["moving::an_import_is_active_until_it_is_closed", "times::a_closing_appends_nothing"])
        .find([
            // `UPDATE conversations SET active = $1`, by whoever else it was active.
            otherwise("closing expects nothing", |_, append| {
                if append.active.is_some() && append.messages.is_empty() {
                    append.expected = None;
                }
            }),
        ]);

    laws([
        "store::a_purge_deletes_what_is_inactive_and_no_other",
        "moving::appends_are_activity_and_nothing_else_is",
    ])
    .find([Strange::of("clearing is activity").cleared(|it, _| it.active = now())]);

    laws([
        "moving::a_slot_creates_its_conversation",
        "store::a_memory_is_created_by_its_first_append",
    ])
    .find([
        beginning("an empty append begins a conversation", |append| append.is_empty()),
        Strange::of("a failed append begins a conversation").append(|book, append| {
            book.write(append).inspect_err(|_| drop(book.shelf.begin(&book.key, 0, None)))
        }),
    ]);
}

#[test]
fn a_law_finds_each_other_strange_time() {
    any_law(["times", "moving", "store"]).find([
        // `zip`, which ends with the shorter one; too many are left over.
        otherwise("missing times are now", |_, append| {
            if !append.times.is_empty() {
                append.times.resize(append.messages.len(), now());
            }
        }),
        // With messages or slots beside it, it is an append as always.
        otherwise("closing is with nothing else", |_, append| {
            append.active =
                append.active.filter(|_| append.messages.is_empty() && append.slots.is_empty());
        }),
        // An upsert.
        beginning("closing begins a conversation", |append| append.active.is_some()),
        otherwise("closing has whole seconds", |_, append| {
            append.active = append.active.map(whole_seconds);
        }),
    ]);
}

/// A store whose clock is ahead by 20 ms, as its fixture says.
struct Ahead(Shelf);

impl Fixture for Ahead {
    const BACKEND: &'static str = "ahead";
    const CLOCK_SKEW: Duration = Duration::from_millis(30);
    fn new() -> Self {
        Self(Shelf::new(Arc::new(otherwise("its clock is ahead", |_, append| {
            let now = Some(now() + Duration::from_millis(20)).filter(|_| !append.is_empty());
            append.active = append.active.or(now);
        }))))
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        self.0.memory(id.into()).unwrap()
    }
}

impl StoreFixture for Ahead {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

// A purge was said to leave what a server in another room had dated a little later.
memory_prompt::conformance!(clock_ahead: Ahead, [store]);
