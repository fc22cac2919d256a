//! The law of errors at any moment.

use std::sync::atomic::{AtomicU64, Ordering};

use proptest::prelude::*;

use super::FaultFixture;
use super::model::{self, Compare, Model, Op};

/// An error leaves the memory and the caller's batch unchanged, wherever it happens in a list of
/// operations. After the fault, the memory works again.
pub fn an_error_leaves_the_memory_and_the_batch_as_they_were<F: FaultFixture>(fixture: &F) {
    let law = "an_error_leaves_the_memory_and_the_batch_as_they_were";
    fail_anywhere(law, fixture, model::op(), Model::compare_records);
}

/// An error leaves slots, ids and single records unchanged too.
pub fn an_error_leaves_slots_and_ids_as_they_were<F: FaultFixture>(fixture: &F) {
    let law = "an_error_leaves_slots_and_ids_as_they_were";
    fail_anywhere(law, fixture, model::change(), Model::compare_all);
}

fn fail_anywhere<F: FaultFixture>(
    law: &str,
    fixture: &F,
    op: impl Strategy<Value = Op>,
    compare: Compare,
) {
    let (soon, late) = ((0u64..60).prop_map(Some), (0u64..3000).prop_map(Some));
    let steps = prop_oneof![2 => soon, 2 => late, 1 => Just(None)];
    let failures = AtomicU64::new(0);
    model::try_lists(law, fixture, (steps, op), 30, |memory, steps| {
        let mut list = Model::default();
        for (fail_after, op) in steps {
            fixture.fail_after(fail_after);
            let failed = list.step(memory, op, fail_after.is_some());
            fixture.fail_after(None);
            if failed? {
                failures.fetch_add(1, Ordering::Relaxed);
                compare(&list, memory)?;
            }
        }
        compare(&list, memory)
    });
    assert!(failures.into_inner() > 0, "nothing ever failed: the fixture does not do its work");
}
