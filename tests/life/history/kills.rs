//! Processes that are killed in the middle of edits of a file.

use memory_prompt::SqliteStore;
use memory_prompt::conversation::Conversation;
use memory_prompt::store::Durability;

use crate::counted::cases;
use crate::edits;
use crate::folder::Folder;

fn open(path: &str) -> Conversation {
    let store = SqliteStore::options().durability(Durability::Process).open(path).unwrap();
    edits::conversation(store.memory("killed").unwrap())
}

/// Not a test of its own: what the process does that the next test kills.
#[test]
fn editor() {
    edits::edit(open);
}

#[test]
fn a_kill_in_the_middle_of_an_edit_leaves_one_branch_or_the_other_whole() {
    let folder = Folder::new();
    let path = folder.file("chat.db").to_str().unwrap().to_owned();
    edits::kill("history::kills::editor", &path, u64::from(cases(100)), open);
}
