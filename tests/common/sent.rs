//! What a prompt sends of a memory, and whether its report accounts for all of it.

use memory_prompt::report::{Adaptation, Origin, Reason};
use memory_prompt::{Prompt, Window};
use proptest::prelude::*;

pub(crate) fn texts(prompt: &Prompt) -> Vec<String> {
    prompt.iter().map(|message| message.text().into_owned()).collect()
}

/// The position of the record that a message is, or came from; of several in one, of the first.
pub(crate) fn position(origin: Origin) -> Option<u64> {
    match origin {
        Origin::History(position)
        | Origin::Truncated(position)
        | Origin::Cleared(position)
        | Origin::Adapted(position)
        | Origin::Joined(Some(position)) => Some(position),
        _ => None,
    }
}

/// The positions of what is sent, in the order in which it is sent.
pub(crate) fn sent(prompt: &Prompt) -> Vec<u64> {
    prompt.with_origins().filter_map(|(origin, _)| position(origin)).collect()
}

/// The same with all neighbours that became one message, in the order of the memory.
pub(crate) fn positions(prompt: &Prompt) -> Vec<u64> {
    let joined = prompt.report().adapted.iter().filter(|it| it.how == Adaptation::Joined);
    let mut all = sent(prompt);
    all.extend(joined.filter_map(|it| it.position));
    all.sort_unstable();
    all.dedup();
    all
}

pub(crate) fn left_out(prompt: &Prompt) -> Vec<(u64, Reason)> {
    prompt.report().left_out.iter().map(|it| (it.position, it.why)).collect()
}

pub(crate) fn recalled(prompt: &Prompt) -> Vec<u64> {
    prompt.report().recalled.iter().map(|it| it.position).collect()
}

pub(crate) fn cleared(prompt: &Prompt) -> Vec<u64> {
    prompt.report().cleared.iter().map(|it| it.position).collect()
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
