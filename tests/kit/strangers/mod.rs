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

use memory_prompt::conformance::{self, Fixture, StoreFixture};
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

macro_rules! laws {
    ($($group:ident: $($law:ident)+;)+) => {
        [$($((stringify!($group), stringify!($law), conformance::$group::$law as fn(&Place))),+),+]
    };
}

type Law = (&'static str, &'static str, fn(&Place));

/// Those that take long stand last.
const LAWS: &[Law] = &laws! {
    memory: order_is_the_order_of_append
        positions_count_from_0_and_ascend_by_one
        positions_are_never_used_again_after_evict
        positions_are_never_used_again_after_clear
        a_batch_returns_its_positions_and_is_taken
        an_empty_batch_returns_an_empty_range_at_the_end
        batches_of_8_writers_stay_contiguous_and_none_is_lost
        large_batches_of_4_writers_stay_contiguous
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
        every_kind_of_message_comes_back_as_it_was
        hostile_text_comes_back_as_it_was
        hostile_ids_are_conversations_of_their_own
        debug_output_holds_no_text
        any_list_of_operations_gives_what_a_list_gives;
    store: a_memory_is_created_by_its_first_append
        two_memories_for_one_id_are_one_conversation
        a_memory_knows_its_id
        ids_are_paged_and_each_is_listed_once
        ids_that_stay_are_listed_once_while_others_come_and_go
        hostile_ids_are_listed_as_they_are
        a_cleared_conversation_still_exists
        deleting_forgets_the_conversation_and_no_other
        a_deleted_conversation_begins_anew_at_0
        a_purge_deletes_what_is_inactive_and_no_other
        a_purge_takes_nothing_that_is_appended_meanwhile;
    times: each_message_keeps_the_time_that_it_brings
        the_time_of_a_system_message_is_passed_over
        there_is_one_time_for_each_message
        a_closing_appends_nothing;
    ids: the_same_id_again_changes_nothing
        equal_messages_are_no_repetition
        the_newest_64_ids_are_recognised
        an_id_is_recognised_after_evict_and_clear
        the_id_of_a_failed_append_is_new
        an_append_of_nothing_is_not_remembered
        a_repetition_undoes_nothing
        an_id_belongs_to_one_conversation
        hostile_ids_are_appends_of_their_own
        what_is_no_id_is_refused
        of_many_appends_under_one_id_one_is_done;
    slots: a_slot_is_written_replaced_and_removed
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
        any_list_of_changes_gives_what_a_map_gives;
    moving: ids_with_a_prefix_are_paged
        slots_of_many_conversations_are_paged
        deleting_by_prefix_forgets_those_and_no_other
        info_tells_where_a_conversation_stands
        appends_are_activity_and_nothing_else_is
        a_slot_creates_its_conversation
        a_new_beginning_knows_nothing_of_before
        a_restored_conversation_goes_on
        an_import_is_active_until_it_is_closed
        a_copy_keeps_everything;
    memory: one_hundred_thousand_messages a_message_of_10_megabytes;
};

/// Laws that are to find faults.
enum Finders {
    /// Each of these.
    Each(Vec<Law>),
    /// One of these, those first that are likely to: a law that holds takes longest.
    Any(Vec<Law>),
}

/// Each of these laws, by its group and its name.
fn laws<const N: usize>(names: [&str; N]) -> Finders {
    let law =
        |name: &str| *LAWS.iter().find(|law| format!("{}::{}", law.0, law.1) == name).unwrap();
    Finders::Each(names.map(law).to_vec())
}

fn any_law<const N: usize>(likely: [&'static str; N]) -> Finders {
    let mut laws = LAWS.to_vec();
    laws.sort_by_key(|law| likely.iter().position(|group| *group == law.0).unwrap_or(N));
    Finders::Any(laws)
}

impl Finders {
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
