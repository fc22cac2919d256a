//! Who keeps branches pays little for it, and copies no history.

use memory_prompt::{MemoryPrompt, Message};

use crate::harness::{Claims, Pace};
use crate::messages::remember;

/// A prompt over 1,000 messages, of which the window lies in the newest range: alone, or behind a
/// branch that was left.
fn branched(is_branched: bool) -> MemoryPrompt {
    let prompt = MemoryPrompt::new(remember(1000)).with_branches();
    if is_branched {
        prompt.edit(900, Message::user("Something else.")).unwrap();
    }
    prompt.add_all((0..100).map(|i| Message::user(format!("part {i}")))).unwrap();
    prompt
}

pub(crate) fn branches_cost_little(claims: &mut Claims) {
    let without = MemoryPrompt::new(remember(1000));
    let (plain, branch) = (branched(false), branched(true));
    let names = ["last 10, branches kept, and one there", "last 10"];
    let found = claims.compare(
        Pace::FINE,
        names,
        || plain.preview().unwrap(),
        || without.preview().unwrap(),
    );
    // The slot of branches is asked for by its name.
    claims.at_most("build that may be of a branch / plain", found.ratio, 4.0);

    let names = ["last 10 on a branch, in one range", "with one branch"];
    let found = claims.compare(
        Pace::FINE,
        names,
        || branch.preview().unwrap(),
        || plain.preview().unwrap(),
    );
    claims.at_most("build of a branch / of the only one", found.ratio, 2.5);
}

#[cfg(feature = "sqlite")]
pub(crate) fn branches_in_a_file_cost_little(claims: &mut Claims) {
    use memory_prompt::conversation::{Asking, ModelError};
    use memory_prompt::store::Durability;
    use memory_prompt::{Conversation, SqliteStore};

    use crate::folder::Folder;
    use crate::messages::message;

    let folder = Folder::new();
    let store = SqliteStore::options().durability(Durability::Process);
    let store = store.open(folder.file("branches.db")).unwrap();
    let prompt = |id: &str| {
        let prompt = MemoryPrompt::new(store.memory(id).unwrap());
        prompt.add_all((0..10_000).map(message)).unwrap();
        prompt
    };
    let (without, plain) = (prompt("without"), prompt("plain").with_branches());
    let branch = prompt("branch").with_branches();
    branch.edit(9_000, Message::user("Something else.")).unwrap();
    branch.add_all((0..100).map(message)).unwrap();
    let names = ["SQLite: last 10, branches kept, and one there", "last 10"];
    let found = claims.compare(
        Pace::FINE,
        names,
        || plain.preview().unwrap(),
        || without.preview().unwrap(),
    );
    claims.at_most("SQLite: build that may be of a branch / plain", found.ratio, 1.5);
    let names = ["SQLite: last 10 on a branch, in one range", "with one branch"];
    let found = claims.compare(
        Pace::FINE,
        names,
        || branch.preview().unwrap(),
        || plain.preview().unwrap(),
    );
    claims.at_most("SQLite: build of a branch / of the only one", found.ratio, 1.2);

    let model = || |_: &Asking<'_>| Ok::<_, ModelError>("It is far away.".to_owned());
    let (plain, branch) = (Conversation::new(without, model()), Conversation::new(branch, model()));
    branch.say("Where is Oslo?").unwrap();
    let names = ["SQLite: a new answer on 10,000 messages", "a turn"];
    let once = Pace { runs: 15, nanos: 1 };
    let found = claims.compare(
        once,
        names,
        || branch.regenerate().unwrap(),
        || plain.say("Where is Oslo?").unwrap(),
    );
    claims.at_most("SQLite: a new answer on 10,000 messages / a turn", found.ratio, 3.0);
    let slowest = found.nanos[0] / 1e6;
    claims.at_most("SQLite: milliseconds for a new answer on 10,000 messages", slowest, 2.0);
}
