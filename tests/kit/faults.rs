//! The kit bites: stores and memories with one fault each, and the laws that find it.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::faulty::{Fault, FaultyStore};
use memory_prompt::conformance::{Fixture, StoreFixture, ids, memory, moving, slots, store, times};
use memory_prompt::{ChatMemory, ChatMemoryStore};

thread_local! {
    /// The fault of the places that this test makes: a fixture is made without arguments.
    static PLANTED: Cell<Fault> = const { Cell::new(Fault::None) };
}

struct Place(FaultyStore);

impl Fixture for Place {
    const BACKEND: &'static str = "faulty";
    fn new() -> Self {
        Self(FaultyStore::new(PLANTED.get()))
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(self.0.memory(id.into()))
    }
}

impl StoreFixture for Place {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

fn holds(fault: Fault, law: fn(&Place)) -> bool {
    PLANTED.set(fault);
    catch_unwind(AssertUnwindSafe(|| law(&Place::new()))).is_ok()
}

/// One test a fault: each of these laws holds without it, and none with it.
macro_rules! faults {
    ($($name:ident: $fault:ident => $($group:ident::$law:ident),+;)*) => {$(
        #[test]
        fn $name() {
            for (name, law) in [$((stringify!($law), $group::$law as fn(&Place))),+] {
                assert!(holds(Fault::None, law), "{name} does not hold of a store without faults");
                // A fault that needs two at once is met by chance, so one try may miss it.
                let found = (0..5).any(|_| !holds(Fault::$fault, law));
                assert!(found, "{name} does not find {:?}", Fault::$fault);
            }
        }
    )*};
}

faults! {
    takes_the_batch_of_a_conflict: TakesTheBatchOfAConflict
        => memory::an_append_at_another_position_changes_nothing,
        memory::any_list_of_operations_gives_what_a_list_gives;
    forgets_positions_when_cleared: ForgetsPositionsWhenCleared
        => memory::positions_are_never_used_again_after_clear,
        memory::any_list_of_operations_gives_what_a_list_gives;
    reads_one_more: ReadsOneMore
        => memory::n_of_0_returns_no_records,
        memory::batches_of_8_writers_stay_contiguous_and_none_is_lost,
        memory::any_list_of_operations_gives_what_a_list_gives;
    evicts_the_system_message: EvictsTheSystemMessage
        => memory::a_system_message_is_never_evicted, memory::n_of_0_returns_no_records,
        memory::any_list_of_operations_gives_what_a_list_gives;
    stores_one_by_one: StoresOneByOne
        => memory::batches_of_8_writers_stay_contiguous_and_none_is_lost;
    ignores_expected: IgnoresExpected
        => memory::an_append_at_another_position_changes_nothing,
        memory::debug_output_holds_no_text,
        memory::any_list_of_operations_gives_what_a_list_gives;
    folds_ids: FoldsIds => memory::hostile_ids_are_conversations_of_their_own;
    tells_secrets: TellsSecrets => memory::debug_output_holds_no_text;
    cuts_at_nul: CutsAtNul => memory::hostile_text_comes_back_as_it_was;

    clearing_is_activity: ClearIsActivity
        => store::a_purge_deletes_what_is_inactive_and_no_other,
        moving::appends_are_activity_and_nothing_else_is;
    times_are_made_up_by_reads: TimesAreMadeUpByReads => memory::times_of_append_are_kept;
    times_are_those_of_the_last_append: TimesAreThoseOfTheLastAppend
        => memory::times_of_append_are_kept;
    a_system_message_of_another_moment: SystemOfAnotherMoment
        => memory::reads_are_snapshots_while_others_append;
    an_end_of_another_moment: EndOfAnotherMoment => memory::reads_are_snapshots_while_others_append;

    ignores_ids: IgnoresIds
        => ids::the_same_id_again_changes_nothing,
        ids::of_many_appends_under_one_id_one_is_done,
        slots::any_list_of_changes_gives_what_a_map_gives;
    says_that_ids_are_not_recognised: SaysThatIdsAreNotRecognised
        => ids::the_same_id_again_changes_nothing,
        memory::the_larger_forms_do_what_the_plain_ones_do;
    recognises_by_text: RecognisesByText => ids::equal_messages_are_no_repetition;
    knows_63_ids: Knows63Ids => ids::the_newest_64_ids_are_recognised;
    forgets_ids_when_cleared: ForgetsIdsWhenCleared
        => ids::an_id_is_recognised_after_evict_and_clear;
    forgets_ids_when_evicted: ForgetsIdsWhenEvicted
        => ids::an_id_is_recognised_after_evict_and_clear;
    remembers_failed_appends: RemembersFailedAppends
        => ids::the_id_of_a_failed_append_is_new;
    remembers_nothing: RemembersNothing => ids::an_append_of_nothing_is_not_remembered;
    shares_ids: SharesIds => ids::an_id_belongs_to_one_conversation;
    folds_append_ids: FoldsAppendIds => ids::hostile_ids_are_appends_of_their_own;
    leaves_the_messages_of_a_repetition: LeavesTheMessagesOfARepetition
        => ids::the_same_id_again_changes_nothing;
    compares_before_it_recognises: ComparesBeforeItRecognises
        => ids::the_same_id_again_changes_nothing;
    a_repetition_writes_slots: RepetitionWritesSlots => ids::a_repetition_undoes_nothing;
    a_repetition_tells_the_end: RepetitionTellsTheEnd => ids::the_same_id_again_changes_nothing;
    a_repetition_tells_no_version: RepetitionTellsNoVersion => ids::a_repetition_undoes_nothing;
    looks_ids_up_first: LooksIdsUpFirst => ids::of_many_appends_under_one_id_one_is_done;
    cuts_long_ids: CutsLongIds => ids::what_is_no_id_is_refused;

    slots_after_messages: SlotsAfterMessages
        => slots::an_append_is_done_with_its_slots_or_not_at_all;
    slots_before_messages: SlotsBeforeMessages
        => slots::an_append_is_done_with_its_slots_or_not_at_all;
    one_slot_after_the_other: OneSlotAfterTheOther
        => slots::an_append_is_done_with_its_slots_or_not_at_all;
    ignores_versions: IgnoresVersions
        => slots::a_slot_is_compared_before_it_is_changed,
        slots::of_many_writers_of_one_version_one_succeeds;
    absent_is_any: AbsentIsAny => slots::a_slot_is_compared_before_it_is_changed;
    versions_are_contents: VersionsAreContents => slots::a_version_is_never_used_again;
    versions_begin_anew_when_removed: VersionsBeginAnewWhenRemoved
        => slots::a_version_is_never_used_again;
    versions_begin_anew_when_cleared: VersionsBeginAnewWhenCleared
        => slots::a_version_is_never_used_again;
    versions_begin_anew_when_deleted: VersionsBeginAnewWhenDeleted
        => moving::a_new_beginning_knows_nothing_of_before;
    looks_versions_up_first: LooksVersionsUpFirst
        => slots::of_many_writers_of_one_version_one_succeeds;
    reads_all_slots: ReadsAllSlots => slots::a_read_brings_the_slots_that_it_names;
    plain_reads_bring_slots: PlainReadsBringSlots => slots::a_read_brings_the_slots_that_it_names;
    brings_a_slot_twice: BringsASlotTwice => slots::a_read_brings_the_slots_that_it_names;
    slots_of_another_moment: SlotsOfAnotherMoment
        => slots::slots_and_single_records_are_of_the_moment_of_the_read;
    lists_the_system_message: ListsTheSystemMessage => slots::slots_are_listed_with_their_versions;
    lists_in_any_order: ListsInAnyOrder => slots::slots_are_listed_with_their_versions;
    evicts_slots: EvictsSlots => slots::evicting_leaves_slots_and_clearing_removes_them;
    keeps_slots_when_cleared: KeepsSlotsWhenCleared
        => slots::evicting_leaves_slots_and_clearing_removes_them;
    folds_names: FoldsNames => slots::hostile_names_are_slots_of_their_own;
    cuts_slots_at_nul: CutsSlotsAtNul => slots::a_slot_holds_any_bytes;
    slots_are_text: SlotsAreText => slots::a_slot_holds_any_bytes;
    takes_the_name_of_the_system_message: TakesTheNameOfTheSystemMessage
        => slots::what_is_no_slot_is_refused;
    errors_tell_slots: ErrorsTellSlots => slots::debug_output_holds_no_slot;
    debug_tells_slots: DebugTellsSlots => slots::debug_output_holds_no_slot;
    removing_tells_a_version: RemovingTellsAVersion
        => slots::a_slot_is_written_replaced_and_removed;

    ignores_what_was_seen: IgnoresWhatWasSeen => slots::an_append_may_expect_what_was_seen;
    sees_no_clear: SeesNoClear => slots::an_append_may_expect_what_was_seen;
    sees_no_eviction: SeesNoEviction => slots::an_append_may_expect_what_was_seen;
    picks_among_the_newest: PicksAmongTheNewest
        => slots::single_records_come_with_the_newest,
        memory::the_larger_forms_do_what_the_plain_ones_do;
    picks_in_the_order_asked: PicksInTheOrderAsked => slots::single_records_come_with_the_newest;
    picks_of_another_moment: PicksOfAnotherMoment
        => slots::slots_and_single_records_are_of_the_moment_of_the_read;
    picks_hide_the_newest: PicksHideTheNewest
        => slots::single_records_come_with_the_newest,
        memory::the_larger_forms_do_what_the_plain_ones_do;
    incarnation_of_the_read: IncarnationOfTheRead
        => slots::an_incarnation_lasts_until_a_clear;
    incarnation_outlives_clears: IncarnationOutlivesClears
        => slots::an_incarnation_lasts_until_a_clear;
    incarnation_of_the_id: IncarnationOfTheId => moving::a_new_beginning_knows_nothing_of_before;
    no_incarnation: NoIncarnation
        => slots::an_incarnation_lasts_until_a_clear,
        moving::info_tells_where_a_conversation_stands;

    ignores_times: IgnoresTimes => times::each_message_keeps_the_time_that_it_brings;
    times_in_seconds: TimesInSeconds => times::each_message_keeps_the_time_that_it_brings;
    one_time_a_batch: OneTimeABatch => times::each_message_keeps_the_time_that_it_brings;
    times_ascend: TimesAscend => times::each_message_keeps_the_time_that_it_brings;
    system_messages_have_no_time: SystemMessagesHaveNoTime
        => times::the_time_of_a_system_message_is_passed_over;
    imports_are_as_old_as_their_messages: ImportsAreAsOldAsTheirMessages
        => moving::an_import_is_active_until_it_is_closed;
    ignores_closing: IgnoresClosing => moving::an_import_is_active_until_it_is_closed;
    closes_whatever_was_appended: ClosesWhateverWasAppended
        => moving::an_import_is_active_until_it_is_closed, times::a_closing_appends_nothing;
    closing_is_the_last_word: ClosingIsTheLastWord
        => moving::an_import_is_active_until_it_is_closed;

    slots_are_no_activity: SlotsAreNoActivity => moving::appends_are_activity_and_nothing_else_is;
    removing_is_no_activity: RemovingIsNoActivity
        => moving::appends_are_activity_and_nothing_else_is, moving::a_slot_creates_its_conversation;
    a_repetition_is_activity: RepetitionIsActivity
        => moving::appends_are_activity_and_nothing_else_is;
    removing_creates: RemovingCreates => moving::a_slot_creates_its_conversation;
    nothing_creates: NothingCreates
        => moving::a_slot_creates_its_conversation, store::a_memory_is_created_by_its_first_append;
    failures_create: FailuresCreate
        => moving::a_slot_creates_its_conversation, store::a_memory_is_created_by_its_first_append;
    a_prefix_is_a_pattern: PrefixIsAPattern => moving::ids_with_a_prefix_are_paged;
    a_prefix_folds_case: PrefixFoldsCase => moving::ids_with_a_prefix_are_paged;
    a_prefix_forgets_where_it_was: PrefixForgetsWhereItWas => moving::ids_with_a_prefix_are_paged;
    a_prefix_is_anywhere: PrefixIsAnywhere
        => moving::ids_with_a_prefix_are_paged,
        moving::deleting_by_prefix_forgets_those_and_no_other;
    slots_forget_where_they_were: SlotsForgetWhereTheyWere
        => moving::slots_of_many_conversations_are_paged;
    slots_of_any_name: SlotsOfAnyName => moving::slots_of_many_conversations_are_paged;
    one_slot_of_each: OneSlotOfEach => moving::slots_of_many_conversations_are_paged;
    deletes_everything: DeletesEverything => moving::deleting_by_prefix_forgets_those_and_no_other;
    counts_prefixes_once: CountsPrefixesOnce
        => moving::deleting_by_prefix_forgets_those_and_no_other;
    info_of_nothing: InfoOfNothing => moving::info_tells_where_a_conversation_stands;
    info_begins_at_0: InfoBeginsAt0 => moving::info_tells_where_a_conversation_stands;
    info_is_active_now: InfoIsActiveNow
        => moving::appends_are_activity_and_nothing_else_is,
        moving::an_import_is_active_until_it_is_closed, moving::a_copy_keeps_everything;
    restores_over_others: RestoresOverOthers
        => moving::a_restored_conversation_goes_on, moving::a_copy_keeps_everything;
    restores_at_0: RestoresAt0
        => moving::a_restored_conversation_goes_on, moving::a_copy_keeps_everything;
    restores_as_another: RestoresAsAnother
        => moving::a_restored_conversation_goes_on, moving::a_copy_keeps_everything;
    restores_as_inactive: RestoresAsInactive => moving::a_restored_conversation_goes_on;
    ids_survive_a_delete: IdsSurviveADelete => moving::a_new_beginning_knows_nothing_of_before;
    reads_an_incarnation_of_nothing: ReadsAnIncarnationOfNothing
        => moving::a_new_beginning_knows_nothing_of_before;
}
