//! The contract as a test kit for every backend: this crate's and your own.
//!
//! Each sentence of the contracts of [`ChatMemory`] and [`ChatMemoryStore`], except the one on lost
//! replies, is a law. Each law is one named test, and one macro generates them all for a backend. A
//! backend needs a [`Fixture`]. For further abilities, implement more traits and name their groups:
//!
//! | group | the fixture | its laws |
//! |---|---|---|
//! | `memory` | [`Fixture`] | one conversation: order, batches, snapshots, eviction, any text … |
//! | `store` | [`StoreFixture`] | many conversations: ids, deleting, purging |
//! | `ids` | [`Fixture`] | appends with an id, and with slots |
//! | `slots` | [`Fixture`] | slots, single records, incarnations |
//! | `times` | [`Fixture`] | messages with their own times, and with slots |
//! | `media` | [`Fixture`] | pictures and documents, wherever their bytes are kept |
//! | `moving` | [`StoreFixture`] | prefixes, `info`, restoring, importing, copying |
//! | `shared` | [`SharedFixture`] | reopening, and writers in several processes |
//! | `damage` | [`DamageFixture`] | rows that can't be read |
//! | `faults` | [`FaultFixture`] | errors before any step |
//! | `asynchronous` | [`AsyncFixture`] | futures that are dropped, many tasks |
//! | `shared_slots` | as `shared` | the same, for slots and ids |
//! | `slot_faults` | as `faults` | the same, for slots and ids |
//! | `asynchronous_ids` | as `asynchronous` | the same, for slots and ids |
//!
//! A minimal memory, with only the five required methods, names `memory`; `ids`, `slots`, `times`,
//! `media` and the last three rows are for memories with these abilities. A memory with ids or
//! times but without slots can't name these groups. Memories that can only be read have no laws,
//! since the laws begin with appends. An async backend names its groups in
//! [`conformance_async!`](crate::conformance_async!).
//!
//! ```
//! use std::sync::Arc;
//! use memory_prompt::conformance::{Fixture, StoreFixture};
//! use memory_prompt::{ChatMemory, ChatMemoryStore, InMemoryStore};
//!
//! struct InProcess(InMemoryStore);
//!
//! impl Fixture for InProcess {
//!     const BACKEND: &'static str = "in-memory";
//!     fn new() -> Self {
//!         Self(InMemoryStore::new())
//!     }
//!     fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
//!         Arc::new(self.0.memory(id).unwrap())
//!     }
//! }
//!
//! impl StoreFixture for InProcess {
//!     fn store(&self) -> Arc<dyn ChatMemoryStore> {
//!         Arc::new(self.0.clone())
//!     }
//! }
//!
//! memory_prompt::conformance!(in_process: InProcess, [memory, store]);
//! ```
//!
//! If a backend can't hold every text as an id, for example because it makes file names of ids,
//! implement [`Fixture::takes`].
//!
//! If a backend needs a server, pass the attribute that its tests should have. A plain `cargo test`
//! then shows what did not run, and `cargo test -- --include-ignored` runs it:
//!
//! ```text
//! memory_prompt::conformance!(
//!     #[ignore = "needs a server"] remote: RemoteFixture, [memory, store, shared]
//! );
//! ```
//!
//! # Environment
//!
//! | variable | meaning | default |
//! |---|---|---|
//! | `MEMORY_PROMPT_LAWS` | a file to which each law that held adds a line `backend<TAB>law` | none |
//! | `MEMORY_PROMPT_SECONDS` | how long the writers in several processes write | 1 |
//! | `MEMORY_PROMPT_CASES` | how many lists of operations are tried: a number, or `all` of [`Fixture::CASES`] | `all` |

// The kit is test code in a library: a law that does not hold panics, which is its result.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

// The laws are for the macros, and can be called one by one. They restate the contracts, so the
// documentation does not list them.
#[cfg(feature = "tokio")]
#[doc(hidden)]
pub mod asynchronous;
mod countdown;
#[doc(hidden)]
pub mod damage;
#[doc(hidden)]
pub mod faults;
#[doc(hidden)]
pub mod ids;
#[doc(hidden)]
pub mod media;
#[doc(hidden)]
pub mod memory;
mod model;
#[doc(hidden)]
pub mod moving;
mod prelude;
#[doc(hidden)]
pub mod shared;
#[doc(hidden)]
pub mod slots;
#[doc(hidden)]
pub mod store;
#[doc(hidden)]
pub mod times;

use std::fs::OpenOptions;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "tokio")]
pub use asynchronous::{
    Adapted, AsyncDamageFixture, AsyncFixture, AsyncSharedFixture, AsyncStoreFixture,
};
pub use countdown::Countdown;

use crate::memory::ChatMemory;
use crate::store::ChatMemoryStore;

/// A backend under test, with its own place for data, which other fixtures do not see.
pub trait Fixture: Sized + Send + Sync + 'static {
    /// The backend's name, for messages and for counting.
    const BACKEND: &'static str;

    /// How many lists of operations are tried, unless the environment sets another number.
    const CASES: u32 = 32;

    /// The most by which the clock that gives appends their times may differ from that of the
    /// tests, rounding included. A law that looks for activity before a moment waits this long.
    const CLOCK_SKEW: Duration = Duration::from_millis(5);

    /// Returns a new, empty place.
    fn new() -> Self;

    /// Returns the conversation under this id: the same one for the same id.
    ///
    /// # Panics
    ///
    /// If it can't be opened: a fixture fails like a test, so `unwrap` is right here.
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory>;

    /// Returns whether the backend can hold this text as an id; the default is `true`. The laws ask
    /// [`memory`](Self::memory) for no other ids, and the store of a [`StoreFixture`] must refuse
    /// the others with [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    ///
    /// It must accept up to 64 ASCII letters, digits, inner spaces and `:`, since the laws use such
    /// ids.
    fn takes(&self, id: &str) -> bool {
        let _ = id;
        true
    }
}

/// A backend that keeps many conversations.
pub trait StoreFixture: Fixture {
    /// Returns the store in which [`Fixture::memory`] keeps its conversations.
    fn store(&self) -> Arc<dyn ChatMemoryStore>;
}

/// A backend whose data outlive the process and can be used by several.
pub trait SharedFixture: Fixture {
    /// Returns what another process needs to know to find this place.
    fn address(&self) -> String;

    /// Returns the place at this address, through connections of its own. The data stay when it is
    /// dropped.
    fn attach(address: &str) -> Self;
}

/// A backend whose rows the tests can change directly.
pub trait DamageFixture: Fixture {
    /// Replaces the payload of the record at `position`, or of the system message, with these
    /// bytes.
    fn damage(&self, id: &str, position: Option<u64>, payload: &[u8]);
}

/// A backend that can be made to fail.
pub trait FaultFixture: Fixture {
    /// Lets the next `steps` steps succeed and makes each later one fail before it is done, with
    /// [`ErrorKind::Storage`](crate::ErrorKind::Storage). The backend decides what a step is.
    /// `None` lets everything succeed. Replies that are lost after a step are not tested.
    fn fail_after(&self, steps: Option<u64>);
}

/// Runs one law in a new fixture, and counts it. The macros call this.
#[doc(hidden)]
pub fn law<F: Fixture>(path: &str, law: fn(&F)) {
    law(&F::new());
    count(F::BACKEND, path);
}

/// Runs one law about several processes. The test runs itself again as the other process.
#[doc(hidden)]
pub fn shared_law<F: SharedFixture>(path: &str, law: fn(&F, &str)) {
    if let Ok(address) = std::env::var(shared::WRITE_TO) {
        shared::write(&F::attach(&address));
    } else {
        // The path of a test begins with the crate; its name for the harness does not.
        law(&F::new(), path.split_once("::").map_or(path, |(_, path)| path));
        count(F::BACKEND, path);
    }
}

fn count(backend: &str, path: &str) {
    if let Some(file) = std::env::var_os("MEMORY_PROMPT_LAWS") {
        // One write, so that lines of concurrent tests are not mixed.
        let line = format!("{backend}\t{}\n", path.rsplit("::").next().unwrap_or(path));
        let file = OpenOptions::new().append(true).create(true).open(file);
        file.and_then(|mut file| file.write_all(line.as_bytes())).expect("a law should count");
    }
}

/// Returns how many lists of operations are tried; `all` is the backend's own number.
fn cases(all: u32) -> u32 {
    match std::env::var("MEMORY_PROMPT_CASES") {
        Ok(cases) if cases != "all" => {
            let number = cases.parse().ok().filter(|number| *number > 0);
            number.unwrap_or_else(|| {
                panic!("MEMORY_PROMPT_CASES is {cases:?}, neither `all` nor a number above 0")
            })
        }
        _ => all,
    }
}

/// Generates every law of the named groups as a test, in a module of this name.
///
/// `conformance!(name: Fixture, [groups])`, with attributes for the tests in front of the name. The
/// [module](mod@crate::conformance) describes the groups.
#[macro_export]
macro_rules! conformance {
    ($(#[$attribute:meta])* $name:ident: $fixture:ty, [$($group:ident),+ $(,)?]) => {
        mod $name {
            #[allow(unused_imports, reason = "the fixture may be named by a path")]
            use super::*;
            $crate::__conformance!(@groups {$(#[$attribute])*} ($fixture) $($group)+);
        }
    };
}

/// Makes the macro that generates the laws of a group as tests, from the function that runs each
/// law, the module that it is in, and its name. `$d` is the dollar sign of the macro that is made.
macro_rules! groups {
    ($d:tt $($group:ident: $run:ident $module:ident [$($law:ident)+])+) => {
        #[doc(hidden)]
        #[macro_export]
        macro_rules! __conformance {
            $((@$group $d attributes:tt $d fixture:tt) => {
                $($d crate::__law!($run $module $law $d attributes $d fixture);)+
            };
            (@list $group) => {
                [$((stringify!($group), stringify!($law), $d crate::conformance::$module::$law as _)),+]
            };)+
            (@groups $d attributes:tt $d fixture:tt $d($d group:ident)+) => {
                $d($d crate::__conformance!(@$d group $d attributes $d fixture);)+
            };
        }
    };
}

groups! { $
    memory: law memory [
        order_is_the_order_of_append
        positions_count_from_0_and_ascend_by_one
        a_batch_returns_its_positions_and_is_taken
        an_empty_batch_returns_an_empty_range_at_the_end
        batches_of_8_writers_stay_contiguous_and_none_is_lost
        an_append_at_another_position_changes_nothing
        of_many_appends_at_one_position_one_succeeds
        a_system_message_gets_no_position
        the_same_system_message_changes_nothing_and_another_replaces_it
        a_system_message_is_never_evicted
        an_empty_memory_is_legal_everywhere
        n_of_0_returns_no_records
        n_beyond_the_history_returns_what_there_is
        reading_before_a_position_ends_there
        reads_are_snapshots_while_others_append
        pages_repeat_and_skip_nothing_while_others_append
        what_was_read_stays_what_it_was
        evicting_forgets_what_is_before
        clearing_forgets_everything
        times_of_append_are_kept
        the_larger_forms_do_what_the_plain_ones_do
        what_a_memory_does_not_keep_is_an_error
        one_hundred_thousand_messages
        a_message_of_10_megabytes
        every_kind_of_message_comes_back_as_it_was
        hostile_text_comes_back_as_it_was
        hostile_ids_are_conversations_of_their_own
        a_reference_is_refused
        debug_output_holds_no_text
        any_list_of_operations_gives_what_a_list_gives
    ]
    store: law store [
        a_memory_is_created_by_its_first_append
        two_memories_for_one_id_are_one_conversation
        ids_are_paged_and_each_is_listed_once
        ids_that_stay_are_listed_once_while_others_come_and_go
        hostile_ids_are_listed_as_they_are
        a_cleared_conversation_still_exists
        deleting_forgets_the_conversation_and_no_other
        a_deleted_conversation_begins_anew_at_0
        a_purge_deletes_what_is_inactive_and_no_other
        a_purge_takes_nothing_that_is_appended_meanwhile
    ]
    shared: shared_law shared [
        what_was_appended_is_there_after_reopening
        positions_go_on_after_reopening
        what_one_appends_the_other_reads
        eight_writers_in_2_processes_lose_nothing
    ]
    damage: law damage [
        an_unreadable_row_is_reported_and_hides_no_other
        pages_go_past_unreadable_rows
        an_unreadable_system_message_is_an_error_until_it_is_replaced
        a_reference_to_nothing_is_unreadable
    ]
    faults: law faults [an_error_leaves_the_memory_and_the_batch_as_they_were]
    asynchronous: law asynchronous [
        appends_of_many_tasks_stay_contiguous
        an_append_that_is_dropped_is_done_or_not_done
    ]
    ids: law ids [
        the_same_id_again_changes_nothing
        equal_messages_are_no_repetition
        the_newest_64_ids_are_recognised
        an_id_is_recognised_after_evict_and_clear
        the_id_of_a_failed_append_is_new
        an_append_of_nothing_is_not_remembered
        a_repetition_undoes_nothing
        an_id_belongs_to_one_conversation
        hostile_ids_are_appends_of_their_own
        what_is_no_id_is_refused
        of_many_appends_under_one_id_one_is_done
    ]
    slots: law slots [
        a_slot_is_written_replaced_and_removed
        a_slot_is_compared_before_it_is_changed
        an_append_is_done_with_its_slots_or_not_at_all
        a_version_is_never_used_again
        of_many_writers_of_one_version_one_succeeds
        a_read_brings_the_slots_that_it_names
        slots_are_listed_with_their_versions
        evicting_leaves_slots_and_clearing_removes_them
        slots_and_single_records_are_of_the_moment_of_the_read
        hostile_names_are_slots_of_their_own
        a_slot_holds_any_bytes
        what_is_no_slot_is_refused
        debug_output_holds_no_slot
        an_append_may_expect_what_was_seen
        single_records_come_with_the_newest
        an_incarnation_lasts_until_a_clear
        any_list_of_changes_gives_what_a_map_gives
    ]
    times: law times [
        each_message_keeps_the_time_that_it_brings
        the_time_of_a_system_message_is_passed_over
        there_is_one_time_for_each_message
        a_closing_appends_nothing
    ]
    media: law media [
        media_come_back_as_they_were
        a_reference_is_true_of_its_media
        media_stay_with_their_last_record
    ]
    moving: law moving [
        ids_with_a_prefix_are_paged
        slots_of_many_conversations_are_paged
        deleting_by_prefix_forgets_those_and_no_other
        info_tells_where_a_conversation_stands
        appends_are_activity_and_nothing_else_is
        a_slot_creates_its_conversation
        a_new_beginning_knows_nothing_of_before
        a_restored_conversation_goes_on
        an_import_is_active_until_it_is_closed
        a_copy_keeps_everything
    ]
    shared_slots: shared_law shared [slots_and_ids_are_there_after_reopening]
    slot_faults: law faults [an_error_leaves_slots_and_ids_as_they_were]
    asynchronous_ids: law asynchronous [an_append_that_is_dropped_can_be_done_again]
}

#[doc(hidden)]
#[macro_export]
macro_rules! __law {
    ($run:ident $module:ident $law:ident {$($attribute:tt)*} ($fixture:ty)) => {
        #[test]
        $($attribute)*
        fn $law() {
            $crate::conformance::$run::<$fixture>(
                concat!(module_path!(), "::", stringify!($law)),
                $crate::conformance::$module::$law,
            );
        }
    };
}

#[cfg(test)]
mod tests {
    /// A law that no macro names would never run.
    #[test]
    fn every_law_is_in_the_list() {
        let list: Vec<_> = include_str!("conformance.rs").split([' ', '\n', '[', ']']).collect();
        let mut laws = 0;
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/conformance");
        for file in std::fs::read_dir(folder).unwrap() {
            let code = std::fs::read_to_string(file.unwrap().path()).unwrap();
            for name in code.lines().filter_map(|line| line.strip_prefix("pub fn ")) {
                let name = name.split(['<', '(']).next().unwrap();
                assert!(list.contains(&name), "no macro runs {name}");
                laws += 1;
            }
        }
        assert!(laws > 90, "{laws}");
    }
}
