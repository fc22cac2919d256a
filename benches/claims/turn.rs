//! What a turn adds to the model's own time.

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::{ChatMemory, DefaultChatMemory, MemoryPrompt, Message};

use crate::harness::{Claims, Pace};

/// A conversation with a model that takes no time.
fn conversation(memory: impl ChatMemory + 'static) -> Conversation {
    let model = |_: &Asking<'_>| Ok::<_, ModelError>("Certainly.");
    Conversation::new(MemoryPrompt::new(memory).system("You are terse."), model)
}

/// Both messages of the turn, appended by hand.
fn append(memory: &dyn ChatMemory) {
    let mut turn = vec![Message::user("And now?"), Message::ai("Certainly.")];
    memory.append(&mut turn, None).unwrap();
}

pub(crate) fn a_turn_costs_little(claims: &mut Claims) {
    let (talk, bare) = (conversation(DefaultChatMemory::new()), DefaultChatMemory::new());
    let say = || talk.say("And now?").unwrap();
    let found =
        claims.compare(Pace::SHORT, ["a turn in memory", "its append"], say, || append(&bare));
    claims.at_most("a turn in memory: microseconds", found.nanos[0] / 1e3, 20.0);
}

#[cfg(feature = "sqlite")]
pub(crate) fn a_turn_in_sqlite_costs_one_append(claims: &mut Claims) {
    use memory_prompt::SqliteStore;
    use memory_prompt::store::Durability;

    let folder = crate::folder::Folder::new();
    let options = SqliteStore::options().durability(Durability::Process);
    let store = options.open(folder.file("chat.db")).unwrap();
    let talk = conversation(store.memory("talk").unwrap());
    let bare = store.memory("bare").unwrap();
    let pace = Pace { runs: 51, nanos: 5_000_000 };
    let say = || talk.say("And now?").unwrap();
    let found = claims.compare(pace, ["a turn in SQLite", "its append"], say, || append(&bare));
    let more = (found.nanos[0] - found.nanos[1]) / 1e3;
    claims.at_most("a turn in SQLite: microseconds over one append", more, 100.0);
}
