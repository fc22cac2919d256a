//! What a prompt sends of a memory, and whether its report accounts for all of it.

use memory_prompt::report::Origin;
use memory_prompt::{Prompt, Window};
use proptest::prelude::*;

pub(crate) fn texts(prompt: &Prompt) -> Vec<String> {
    prompt.iter().map(|message| message.text().into_owned()).collect()
}

/// The positions of what is sent, in the order in which it is sent.
pub(crate) fn sent(prompt: &Prompt) -> Vec<u64> {
    let position = |origin| match origin {
        Origin::History(position) | Origin::Truncated(position) | Origin::Adapted(position) => {
            Some(position)
        }
        _ => None,
    };
    prompt.with_origins().filter_map(|(origin, _)| position(origin)).collect()
}

/// What is wrong with a report that does not account for every position.
pub(crate) fn accounted(prompt: &Prompt) -> Option<String> {
    let report = prompt.report();
    let sum = report.covered
        + report.older
        + report.over_budget
        + report.private
        + (report.sent + report.left_out.len() + report.unreadable.len()) as u64;
    (sum != report.stored)
        .then(|| format!("{sum} of {} are accounted for: {report}", report.stored))
}

/// Windows of all kinds, small ones.
#[allow(dead_code)] // a law asks for them, and not each test has one
pub(crate) fn window() -> impl Strategy<Value = Window> {
    prop_oneof![
        (0usize..8).prop_map(Window::last),
        (1usize..8).prop_map(|n| Window::last(n).starting_with_user()),
        (1usize..4).prop_map(|n| Window::last(n).exactly()),
        (1usize..4).prop_map(Window::turns),
        (1usize..6, 1usize..8).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
        Just(Window::all()),
    ]
}
