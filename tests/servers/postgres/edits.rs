//! Processes that are killed in the middle of edits of what lies on a server.

use memory_prompt::adapt::ToBlocking;
use memory_prompt::conversation::Conversation;

use crate::edits;

fn open(address: &str) -> Conversation {
    let store = ToBlocking::connect(super::options("edits").open(address)).unwrap();
    edits::conversation(store.memory("killed").unwrap())
}

/// Not a test of its own: what the process does that the next test kills.
#[test]
fn editor() {
    edits::edit(open);
}

#[test]
#[ignore = "needs PostgreSQL, and kills a hundred processes"]
fn a_kill_in_the_middle_of_an_edit_leaves_one_branch_or_the_other_whole() {
    let address = super::SHARED.address();
    edits::kill("postgres::edits::editor", &address, 100, open);
}
