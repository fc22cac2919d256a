//! What a turn adds to the model's own time.

use memory_prompt::conversation::{Asking, Conversation, ModelError, Scripted};
use memory_prompt::memory::Expected;
use memory_prompt::turn::Inbox;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, DefaultChatMemory, InMemoryStore, MemoryPrompt,
    Message, Tool,
};

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

/// The few calls that wait in many conversations are found without reading these.
pub(crate) fn an_inbox_is_found_quickly(claims: &mut Claims) {
    inbox(claims, "in memory", &InMemoryStore::new());
    #[cfg(feature = "sqlite")]
    {
        let folder = crate::folder::Folder::new();
        let options = memory_prompt::SqliteStore::options();
        let options = options.durability(memory_prompt::store::Durability::Process);
        inbox(claims, "SQLite", &options.open(folder.file("chat.db")).unwrap());
    }
}

fn inbox(claims: &mut Claims, name: &str, store: &dyn ChatMemoryStore) {
    let many = if claims.quick { 300 } else { 10_000 };
    for n in 0..many {
        let memory = store.memory(format!("ann:{n}").into()).unwrap();
        append(&*memory);
        memory.set_slot("summary", "They talked. ".repeat(100), Expected::Absent).unwrap();
        if n % (many / 3) == 7 {
            let model = Scripted::new().calls("pay", "{}");
            let pay = Tool::new("pay", "Pays.").needing_approval();
            let talk = Conversation::new(MemoryPrompt::new(memory), model);
            talk.tool(pay, |()| Ok("paid")).say("Pay.").unwrap();
        }
    }
    let wait = || {
        let waiting = store.waiting("ann:", None, 50).unwrap();
        assert_eq!(waiting.len(), 3);
    };
    let list = || store.ids_with_prefix("ann:", None, usize::MAX).unwrap();
    let found = claims.compare(Pace::SHORT, ["3 calls that wait", "all ids"], wait, list);
    let claim = format!("{name}: milliseconds to find 3 calls that wait in {many} conversations");
    claims.at_most(&claim, found.nanos[0] / 1e6, 5.0);
}
