//! The contract on SQLite, and what can happen to a file: crashes, damage, strangers, full disks.

#![cfg(feature = "sqlite")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::again::again;
use crate::counted::cases;
use crate::folder::Folder;
use memory_prompt::codec::Codec;
use memory_prompt::conformance::{
    DamageFixture, FaultFixture, Fixture, SharedFixture, StoreFixture,
};
use memory_prompt::memory::{Append, Expected, Read};
use memory_prompt::store::{Durability, SqliteOptions};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, ChatMemoryStoreExt, ErrorKind, InMemoryStore,
    Message, SqliteStore,
};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};

// ---- the kit ------------------------------------------------------------------------------------

/// A store in a file, with everything as it comes.
struct File {
    store: SqliteStore,
    path: PathBuf,
    /// None if another fixture owns it.
    _folder: Option<Folder>,
}

/// A folder, and where a store is to be in it.
fn place() -> (Folder, PathBuf) {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    (folder, path)
}

impl Fixture for File {
    const BACKEND: &'static str = "sqlite";
    fn new() -> Self {
        let (folder, path) = place();
        Self { store: SqliteStore::open(&path).unwrap(), path, _folder: Some(folder) }
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(self.store.memory(id).unwrap())
    }
}

impl StoreFixture for File {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.store.clone())
    }
}

impl SharedFixture for File {
    fn address(&self) -> String {
        self.path.to_str().unwrap().to_owned()
    }
    fn attach(address: &str) -> Self {
        let path = PathBuf::from(address);
        Self { store: SqliteStore::open(&path).unwrap(), path, _folder: None }
    }
}

impl DamageFixture for File {
    fn damage(&self, id: &str, position: Option<u64>, payload: &[u8]) {
        // As text, though it need not be any: so would an editor leave it.
        let payload = ToSqlOutput::Borrowed(ValueRef::Text(payload));
        let connection = Connection::open(&self.path).unwrap();
        let changed = match position {
            Some(position) => connection.execute(
                "UPDATE message SET payload = ?1 WHERE key = ?3 +
                 (SELECT key << 32 FROM conversation WHERE id = ?2)",
                (payload, id, i64::try_from(position).unwrap()),
            ),
            None => connection
                .execute("UPDATE conversation SET system = ?1 WHERE id = ?2", (payload, id)),
        };
        assert_eq!(changed.unwrap(), 1);
    }
}

memory_prompt::conformance!(file: File, [memory, store, ids, slots, times, media, moving, shared, shared_slots, damage]);

/// Bincode, and one connection for reads and writes.
struct InMemory(SqliteStore);

impl Fixture for InMemory {
    const BACKEND: &'static str = "sqlite, in memory, bincode";
    fn new() -> Self {
        Self(SqliteStore::options().codec(Codec::Bincode).in_memory().unwrap())
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(self.0.memory(id).unwrap())
    }
}

impl StoreFixture for InMemory {
    fn store(&self) -> Arc<dyn ChatMemoryStore> {
        Arc::new(self.0.clone())
    }
}

memory_prompt::conformance!(in_memory: InMemory, [memory, store, ids, slots, times, media, moving]);

/// A file whose connections fail after so many steps of SQLite's virtual machine, or in the commit.
struct Failing {
    store: SqliteStore,
    left: Arc<AtomicU64>,
    _folder: Folder,
}

/// Counts one step; true if it is to fail.
pub(crate) fn step(left: &AtomicU64) -> bool {
    let count = |left| match left {
        u64::MAX => Some(u64::MAX),
        left => u64::checked_sub(left, 1),
    };
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count).is_err()
}

impl Fixture for Failing {
    const BACKEND: &'static str = "sqlite, failing";
    fn new() -> Self {
        let folder = Folder::new();
        let left = Arc::new(AtomicU64::new(u64::MAX));
        let countdown = Arc::clone(&left);
        let store = SqliteStore::options()
            .durability(Durability::Process)
            .on_connect(move |connection| {
                let left = Arc::clone(&countdown);
                connection.progress_handler(1, Some(move || step(&left)))?;
                let left = Arc::clone(&countdown);
                connection.commit_hook(Some(move || {
                    // Once it may commit it must: SQLite asks the progress handler once more
                    // afterwards, and would report an error for what is done.
                    let fails = step(&left);
                    if !fails {
                        left.store(u64::MAX, Ordering::Relaxed);
                    }
                    fails
                }))
            })
            .open(folder.file("chat.db"))
            .unwrap();
        Self { store, left, _folder: folder }
    }
    fn memory(&self, id: &str) -> Arc<dyn ChatMemory> {
        Arc::new(self.store.memory(id).unwrap())
    }
}

impl FaultFixture for Failing {
    fn fail_after(&self, steps: Option<u64>) {
        self.left.store(steps.unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

memory_prompt::conformance!(failing: Failing, [faults, slot_faults]);

#[cfg(feature = "tokio")]
mod asynchronous {
    use std::sync::Arc;

    use memory_prompt::adapt::ToAsync;
    use memory_prompt::conformance::{AsyncFixture, AsyncStoreFixture};
    use memory_prompt::{AsyncChatMemory, AsyncChatMemoryStore, SqliteStore};

    use super::Folder;

    struct Unblocked(ToAsync<SqliteStore>, #[expect(dead_code)] Folder);

    impl AsyncFixture for Unblocked {
        const BACKEND: &'static str = "sqlite, async";
        async fn new() -> Self {
            let folder = Folder::new();
            Self(ToAsync::new(SqliteStore::open(folder.file("chat.db")).unwrap()), folder)
        }
        fn memory(&self, id: &str) -> Arc<dyn AsyncChatMemory> {
            Arc::new(self.0.memory(id).unwrap())
        }
    }

    impl AsyncStoreFixture for Unblocked {
        fn store(&self) -> Arc<dyn AsyncChatMemoryStore> {
            Arc::new(self.0.clone())
        }
    }

    memory_prompt::conformance_async!(unblocked: Unblocked, [memory, store, ids, slots, times, media, moving, asynchronous, asynchronous_ids]);
}

// ---- crashes ------------------------------------------------------------------------------------

const WRITE_TO: &str = "MEMORY_PROMPT_TEST_CRASH";

/// The batch that begins at `first`: its length and its texts follow from that.
fn batch(first: u64) -> Vec<Message> {
    let len = first % 5 + 1;
    let padding = "x".repeat(usize::try_from(first % 7).unwrap() * 400);
    (first..first + len)
        .map(|position| Message::user(format!("{position} of {first}+{len} {padding}")))
        .collect()
}

/// Not a test of its own: what the process does that the next test kills.
#[test]
fn crash_writer() {
    let Ok(path) = std::env::var(WRITE_TO) else { return };
    let memory = SqliteStore::open(path).unwrap().memory("crash").unwrap();
    let mut end = memory.next_position().unwrap();
    loop {
        end = memory.append(&mut batch(end), Some(end)).unwrap().end;
        println!("acknowledged {end}");
    }
}

#[test]
fn a_writer_that_is_killed_loses_nothing_and_leaves_nothing_by_half() {
    let rounds = u64::from(cases(200));
    let (_folder, path) = place();
    let mut checked = 0;
    let mut wrote = 0;
    for round in 0..rounds {
        let mut writer = again("sqlite::crash_writer")
            .env(WRITE_TO, &path)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let output = writer.stdout.take().unwrap();
        let (first, began) = mpsc::channel();
        let reader = thread::spawn(move || {
            let mut acknowledged = 0;
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if let Some((_, end)) = line.split_once("acknowledged ") {
                    acknowledged = end.parse().unwrap();
                    let _ = first.send(());
                }
            }
            acknowledged
        });
        // At any moment: in one round while it starts, opens and recovers, in the next while it
        // writes.
        if round % 2 == 0 {
            began.recv().unwrap();
        }
        thread::sleep(Duration::from_micros(round * 7919 % 20_000));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let acknowledged: u64 = reader.join().unwrap();

        let memory = SqliteStore::open(&path).unwrap().memory("crash").unwrap();
        let end = memory.next_position().unwrap();
        assert!(
            end >= acknowledged.max(checked),
            "{acknowledged} were acknowledged, {end} are there"
        );
        wrote += u64::from(end > checked);
        let new = memory.read(None, usize::try_from(end - checked).unwrap()).unwrap();
        let mut expected = Vec::new();
        while checked < end {
            expected.extend(batch(checked));
            checked = expected.len() as u64 + new.records.first().unwrap().position();
        }
        assert_eq!(checked, end, "the last batch is there whole or not at all");
        assert!(new.records.messages().eq(&expected));
    }
    println!(
        "{wrote} of {rounds} writers wrote before they were killed, {checked} messages in all"
    );
    assert!(wrote * 2 >= rounds, "half of them had begun: {wrote} of {rounds}");
    let connection = Connection::open(&path).unwrap();
    let check: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(check, "ok");
}

// ---- files that are something else --------------------------------------------------------------

/// What an error says, once it has named the file, and SQLite's own words where there are any.
#[track_caller]
fn said(error: &memory_prompt::Error, path: &Path, words: &str) -> String {
    let text = error.to_string();
    let (said, place) = text.split_once(" (").unwrap_or_else(|| panic!("{text}"));
    assert!(place.contains(path.to_str().unwrap()) && place.contains(words), "{text}");
    assert_eq!(place.matches(path.to_str().unwrap()).count(), 1, "{text}");
    said.to_owned()
}

/// Opens what can't be opened, and says why; the file stays as it is.
#[track_caller]
fn refused(path: &Path) -> String {
    let before = fs::read(path).unwrap();
    let error = SqliteStore::open(path).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Storage), "{error:?}");
    assert!(fs::read(path).unwrap() == before, "the file was written to");
    for beside in ["-journal", "-wal", "-shm"] {
        let mut name = path.as_os_str().to_owned();
        name.push(beside);
        assert!(!Path::new(&name).exists(), "{beside} was left beside the file");
    }
    said(&error, path, "")
}

#[test]
fn a_file_of_something_else_is_refused_and_left_alone() {
    let folder = Folder::new();
    let foreign = "open: sqlite: the file is a database of something else; it was left as it is";

    for (name, sql) in [
        ("users.db", "CREATE TABLE users (name)"),
        ("wal.db", "PRAGMA journal_mode = WAL; CREATE TABLE users (name)"),
        ("other.db", "PRAGMA application_id = 7"),
        ("versioned.db", "PRAGMA user_version = 1"),
    ] {
        let path = folder.file(name);
        Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        assert_eq!(refused(&path), foreign, "{name}");
    }

    let path = folder.file("letter.txt");
    for text in ["Dear SQLite,\n".repeat(1000).as_str(), "x"] {
        fs::write(&path, text).unwrap();
        assert_eq!(refused(&path), "open: sqlite: the file is no database");
    }

    let path = folder.file(".");
    let error = SqliteStore::open(&path).unwrap_err();
    assert_eq!(said(&error, &path, ""), "open: sqlite: the path is that of a folder");
    let path = folder.file("no such folder/chat.db");
    let error = SqliteStore::open(&path).unwrap_err();
    let words = "unable to open database file";
    assert_eq!(said(&error, &path, words), "open: sqlite: the file can't be opened");
}

#[test]
fn a_file_of_a_later_version_is_refused_and_left_alone() {
    let (_folder, path) = place();
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add(Message::user("hi")).unwrap();
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let expected =
        "open: sqlite: the file is of version 99, and this program knows versions up to 1";
    assert_eq!(refused(&path), expected);
}

/// A later version that comes while the file is open is seen by the next connection that is opened.
#[test]
fn the_version_is_looked_at_again_when_a_connection_is_opened() {
    let (_folder, path) = place();
    for read_only in [false, true] {
        drop(SqliteStore::open(&path).unwrap());
        let store = SqliteStore::options().read_only(read_only).open(&path).unwrap();
        let later = Connection::open(&path).unwrap();
        later.pragma_update(None, "user_version", 2).unwrap();
        let error = store.memory("a").unwrap().all().unwrap_err();
        let expected =
            "read: sqlite: the file is of version 2, and this program knows versions up to 1";
        assert!(error.to_string().starts_with(expected), "{error}");
        later.pragma_update(None, "user_version", 1).unwrap();
        assert!(store.memory("a").unwrap().all().unwrap().is_empty());
    }
}

/// A conversation that was deleted by hand left its messages and slots, and the next one that got
/// its key had them.
#[test]
fn a_conversation_that_is_deleted_by_hand_leaves_nothing_to_the_next_one() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let turn = || {
        let turn = Append::new([Message::user("hi")]).with_id("turn");
        turn.set_slot("secret", "of the first", Expected::Any)
    };
    store.memory("first").unwrap().append_with(&mut turn()).unwrap();
    Connection::open(&path).unwrap().execute_batch("DELETE FROM conversation").unwrap();
    let next = store.memory("next").unwrap();
    assert_eq!(next.add(Message::user("hello")).unwrap(), 0);
    assert!(next.slots().unwrap().is_empty());
    assert_eq!(next.all().unwrap().len(), 1);
    assert!(!next.append_with(&mut turn()).unwrap().repeated);
}

#[test]
fn an_empty_file_becomes_a_store() {
    let (_folder, path) = place();
    fs::write(&path, "").unwrap();
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add(Message::user("hi")).unwrap();
    assert_eq!(SqliteStore::open(&path).unwrap().memory("a").unwrap().next_position().unwrap(), 1);
}

/// A reader that closed last left the log beside the file, and whoever copied the file alone lost
/// what was in the log.
#[test]
fn a_store_that_is_closed_is_one_file() {
    let (folder, path) = place();
    let memory = SqliteStore::open(&path).unwrap().memory("a").unwrap();
    memory.add(Message::user("hi")).unwrap();
    assert_eq!(memory.all().unwrap().len(), 1);
    assert!(folder.file("chat.db-wal").exists());
    drop(memory);
    let left = fs::read_dir(path.parent().unwrap()).unwrap();
    let left: Vec<_> = left.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["chat.db"]);
    fs::rename(&path, folder.file("copy.db")).unwrap();
    let copy = SqliteStore::open(folder.file("copy.db")).unwrap().memory("a").unwrap();
    assert_eq!(copy.all().unwrap().len(), 1);
}

#[test]
fn tables_of_ones_own_may_be_added() {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE users (name)").unwrap();
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add(Message::user("hi")).unwrap();
    Connection::open(&path).unwrap().execute_batch("INSERT INTO users VALUES ('u')").unwrap();
}

#[test]
fn a_name_is_a_name() {
    let folder = Folder::new();
    for name in ["a?b=c#d%20e", "file:x?mode=memory", "ünï cödé.db", "a'b\"c"] {
        let path = folder.file(name);
        SqliteStore::open(&path).unwrap().memory("a").unwrap().add(Message::user("hi")).unwrap();
        assert!(fs::metadata(&path).unwrap().len() > 0, "{name}");
        let memory = SqliteStore::open(&path).unwrap().memory("a").unwrap();
        assert_eq!(memory.next_position().unwrap(), 1);
    }
    for name in ["", ":memory:"] {
        let error = SqliteStore::open(name).unwrap_err();
        let expected = "open: sqlite: a file has a name; for none, take `in_memory`";
        assert_eq!((error.kind(), error.to_string().as_str()), (ErrorKind::Invalid, expected));
    }
}

// ---- damage, limits -----------------------------------------------------------------------------

#[test]
fn a_damaged_file_is_an_error_and_never_a_panic() {
    let (folder, path) = place();
    {
        let store = SqliteStore::options().durability(Durability::Process).open(&path).unwrap();
        for id in 0..20 {
            let memory = store.memory(format!("c{id}")).unwrap();
            memory.add(Message::system("Be brief.")).unwrap();
            memory
                .add_all((0..40).map(|i| Message::user(format!("{i} {}", "x".repeat(i * 20)))))
                .unwrap();
            let change = Append::new([Message::user("hi")]).with_id("one");
            memory.append_with(&mut change.set_slot("a", "x", Expected::Any)).unwrap();
        }
    }
    let whole = fs::read(&path).unwrap();
    assert!(whole.len() > 100_000);
    let (mut refusals, mut errors, mut unreadable) = (0, 0, 0);
    let mut random = 1u64;
    for _ in 0..150 {
        let mut bytes = whole.clone();
        for _ in 0..40 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let at = usize::try_from(random >> 33).unwrap() % bytes.len();
            bytes[at] = random.to_be_bytes()[3];
        }
        if random.is_multiple_of(4) {
            bytes.truncate(usize::try_from(random >> 30).unwrap() % whole.len());
        }
        fs::write(&path, &bytes).unwrap();
        let options = SqliteStore::options().durability(Durability::Process);
        let Ok(store) = options.open(&path) else {
            refusals += 1;
            continue;
        };
        let ids = store.ids(None, 100).unwrap_or_default();
        errors += usize::from(ids.len() != 20);
        for id in ids.into_iter().chain(["c7".into()]) {
            let memory = store.memory(id).unwrap();
            let all = Read::newest(30).slots(["a"]).positions([0, 5]);
            match memory.read_with(&all) {
                Ok(snapshot) => unreadable += snapshot.unreadable.len(),
                Err(error) => {
                    assert!(error.to_string().starts_with("read: sqlite: "), "{error}");
                    errors += 1;
                }
            }
            let _ = memory.add(Message::user("hi"));
            let change = Append::new([Message::user("hi")]).with_id("two");
            let _ = memory.append_with(&mut change.set_slot("a", "y", Expected::Any));
            let _ = (memory.slots(), memory.evict(10));
        }
        let _ = store.purge_inactive(std::time::SystemTime::now());
        drop(store);
        for beside in ["chat.db-wal", "chat.db-shm"] {
            let _ = fs::remove_file(folder.file(beside));
        }
    }
    println!("{refusals} files refused, {errors} errors, {unreadable} unreadable rows");
    assert!(errors > 0 && unreadable > 0, "{refusals} {errors} {unreadable}");
}

#[test]
fn numbers_that_make_no_sense_are_no_panic() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let memory = store.memory("a").unwrap();
    memory.add_all((0..5).map(|i| Message::user(i.to_string()))).unwrap();
    let connection = Connection::open(&path).unwrap();
    for change in [
        r#"start = 9, "end" = 3"#,
        r#"start = -5, "end" = -9"#,
        r#"start = 0, "end" = 9223372036854775807"#,
        r#"start = -9223372036854775808, "end" = 9223372036854775807"#,
        r#"start = 0, "end" = 4294967295"#,
        r#"start = 'x', "end" = 'y'"#,
        r#"start = 0, "end" = 5, key = 9223372036854775807"#,
    ] {
        connection.execute_batch(&format!("UPDATE conversation SET {change}")).unwrap();
        for before in [None, Some(0), Some(3), Some(u64::MAX)] {
            let _ = memory.read(before, 10);
        }
        let _ = memory.evict(2);
        let _ = memory.append(&mut vec![Message::user("hi"), Message::user("hi")], None);
        let _ = memory.read_with(&Read::newest(1).slots(["a"]).positions([0, 4, u64::MAX]));
        let turn = Append::new([Message::user("hi")]).with_id("turn");
        let _ = memory.append_with(&mut turn.set_slot("a", "x", Expected::Any));
        let _ = (memory.slots(), store.info(memory.id()));
        let _ = memory.clear();
    }
    let mut batch = vec![Message::user("one"), Message::user("too many")];
    connection
        .execute_batch(r#"DELETE FROM message; UPDATE conversation SET key = 5, start = 0, "end" = 4294967295"#)
        .unwrap();
    let error = memory.append(&mut batch, None).unwrap_err();
    let expected =
        "append: sqlite: a conversation holds 2^32 messages at most, and a file 2^31 conversations";
    assert_eq!(error.to_string(), expected);
    assert_eq!(batch.len(), 2);
    assert!(store.delete(&"a".into()).unwrap());
    assert_eq!(memory.add(Message::user("anew")).unwrap(), 0);
}

#[test]
fn a_full_disk_is_an_error_and_nothing_is_lost() {
    let (_folder, path) = place();
    let store = SqliteStore::options()
        .on_connect(|connection| connection.execute_batch("PRAGMA max_page_count = 40"))
        .open(&path)
        .unwrap();
    let memory = store.memory("a").unwrap();
    let mut end = 0;
    let error = loop {
        let mut batch = batch(end);
        let len = batch.len();
        match memory.append(&mut batch, Some(end)) {
            Ok(positions) => end = positions.end,
            Err(error) => {
                assert_eq!(batch.len(), len, "the batch stays with the caller");
                break error;
            }
        }
    };
    assert_eq!(error.kind(), ErrorKind::Storage);
    let words = "database or disk is full";
    assert_eq!(said(&error, &path, words), "append: sqlite: the disk is full");
    assert!(end > 20, "{end}");
    let all = memory.all().unwrap();
    assert_eq!(all.len() as u64, end);
    // Room again, in the same process or the next.
    memory.evict(end / 2).unwrap();
    assert_eq!(memory.append(&mut vec![Message::user("hi")], Some(end)).unwrap().start, end);
    let memory = SqliteStore::open(&path).unwrap().memory("a").unwrap();
    memory.add_all(batch(6)).unwrap();
    assert_eq!(memory.all().unwrap().len() as u64, end - end / 2 + 1 + 2);
}

#[test]
fn a_file_that_is_opened_read_only_is_not_written_to() {
    let (_folder, path) = place();
    let read_only = || SqliteStore::options().read_only(true).open(&path);
    let error = read_only().unwrap_err();
    assert_eq!(said(&error, &path, "unable"), "open: sqlite: the file can't be opened");
    assert!(!path.exists());
    fs::write(&path, "").unwrap();
    let error = read_only().unwrap_err();
    assert_eq!(said(&error, &path, ""), "open: sqlite: the file is empty, and read-only");

    let writer = SqliteStore::open(&path).unwrap();
    writer.memory("a").unwrap().add_all(batch(3)).unwrap();
    let store = read_only().unwrap();
    let memory = store.memory("a").unwrap();
    let mut more = batch(4);
    for error in [
        memory.append(&mut more, None).unwrap_err(),
        memory.evict(1).unwrap_err(),
        memory.clear().unwrap_err(),
        store.delete(&"a".into()).unwrap_err(),
        store.purge_inactive(std::time::SystemTime::now()).unwrap_err(),
        store.restore(&"b".into(), 0, None).unwrap_err(),
        memory.set_slot("a", "x", Expected::Any).unwrap_err(),
    ] {
        let expected = format!("{}: sqlite: the file is read-only", error.operation());
        assert_eq!(said(&error, &path, "attempt to write a readonly database"), expected);
    }
    assert_eq!(more, batch(4));
    assert_eq!(memory.all().unwrap().len(), 4);
    assert_eq!(memory.append(&mut Vec::new(), None).unwrap(), 4..4);
    // What others write meanwhile is seen.
    writer.memory("a").unwrap().add(Message::user("hi")).unwrap();
    assert_eq!(memory.next_position().unwrap(), 5);
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_written_to_is_an_error_and_nothing_is_lost() {
    use std::os::unix::fs::PermissionsExt;
    let (_folder, path) = place();
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add(Message::user("hi")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    if fs::OpenOptions::new().append(true).open(&path).is_ok() {
        return println!("nothing is forbidden to this user");
    }
    let mut batch = batch(3);
    let store = SqliteStore::open(&path);
    let memory = store.unwrap().memory("a").unwrap();
    let error = memory.append(&mut batch, None).unwrap_err();
    assert_eq!(said(&error, &path, ""), "append: sqlite: the file is read-only");
    assert_eq!(batch.len(), 4);
    assert_eq!(memory.next_position().unwrap(), 1);
}

/// A store that was closed is one file, and if nothing may be put beside it SQLite does not open
/// it, unless the connection says that nothing changes it.
#[cfg(unix)]
#[test]
fn a_file_on_media_that_can_not_be_written_to_is_read_over_a_connection_that_says_so() {
    let (folder, path) = place();
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add_all(batch(3)).unwrap();
    // Nothing can be put here under this name (SQLite follows no link), as on such media under any.
    std::os::unix::fs::symlink("nowhere", folder.file("chat.db-shm")).unwrap();
    let error = SqliteStore::options().read_only(true).open(&path).unwrap_err();
    assert_eq!(said(&error, &path, ""), "open: sqlite: the file can't be opened");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{}?immutable=1", path.display());
    let connection = Connection::open_with_flags(uri, flags).unwrap();
    let memory = SqliteStore::options().over(connection).unwrap().memory("a").unwrap();
    assert_eq!(memory.all().unwrap().len(), 4);
    let error = memory.append(&mut batch(1), None).unwrap_err();
    assert!(error.to_string().starts_with("append: sqlite: the file is read-only"), "{error}");
}

/// A writer died in the middle of a change, before the file had a log: what lies in the file then
/// may be half of it, and was read from media that can't be written to as if it were whole. A store
/// that may write undoes it.
#[cfg(unix)]
#[test]
fn a_change_that_was_broken_off_is_not_read_by_half() {
    let (folder, path) = place();
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add_all(batch(3)).unwrap();
    let (there, beside) = (fs::read(&path).unwrap(), folder.file("chat.db-journal"));
    let writer = Connection::open(&path).unwrap();
    writer.pragma_update(None, "journal_mode", "delete").unwrap();
    writer.pragma_update(None, "cache_size", 1).unwrap();
    writer.execute_batch("BEGIN").unwrap();
    let fill = "UPDATE message SET payload = zeroblob(20000)";
    writer.execute(fill, []).unwrap();
    writer.execute("UPDATE conversation SET \"end\" = 2", []).unwrap();
    writer.cache_flush().unwrap();
    let half = (fs::read(&path).unwrap(), fs::read(&beside).unwrap());
    drop(writer);
    assert!(half.0 != there && half.1.len() > 512, "it is half way");
    fs::write(&path, &half.0).unwrap();
    fs::write(&beside, &half.1).unwrap();

    let error = SqliteStore::options().read_only(true).open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage, "{error}");
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.memory("a").unwrap().all().unwrap().len(), 4);
    assert!(!beside.exists());
}

#[test]
fn a_copy_that_sqlite_makes_while_the_file_is_open_is_a_store() {
    let folder = Folder::new();
    let (path, copy) = (folder.file("chat.db"), folder.file("copy.db"));
    let memory = SqliteStore::open(&path).unwrap().memory("a").unwrap();
    memory.add_all(batch(3)).unwrap();
    memory.evict(1).unwrap();
    memory.set_slot("a", "x", Expected::Any).unwrap();
    let copies = Connection::open(&path).unwrap();
    copies.execute("VACUUM INTO ?1", [copy.to_str().unwrap()]).unwrap();
    let before = memory.read(None, 10).unwrap();
    memory.add(Message::user("later")).unwrap();
    let memory = SqliteStore::open(&copy).unwrap().memory("a").unwrap();
    let after = memory.read(None, 10).unwrap();
    assert_eq!((after.start, after.end), (before.start, before.end));
    assert_eq!(after.incarnation, before.incarnation);
    assert!(after.records.messages().eq(before.records.messages()));
    assert_eq!(memory.slot("a").unwrap().unwrap().text(), Some("x"));
    assert_eq!(memory.add(Message::user("hi")).unwrap(), 4);
}

/// A store that had made its file itself did not know its log, and went on when that was removed.
#[cfg(unix)]
#[test]
fn a_new_file_whose_log_is_removed_is_not_written_to() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("chat.db")).unwrap();
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("1")).unwrap();
    fs::remove_file(folder.file("chat.db-wal")).unwrap();
    let error = memory.add(Message::user("2")).unwrap_err();
    assert!(error.to_string().contains("was moved, removed or replaced"), "{error}");
}

/// `read_only` was obeyed by `open` alone.
#[test]
fn a_connection_of_the_callers_can_be_read_only() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add(Message::user("0")).unwrap();
    let over =
        |path: &Path| SqliteStore::options().read_only(true).over(Connection::open(path).unwrap());
    let memory = over(&path).unwrap().memory("a").unwrap();
    let error = memory.add(Message::user("1")).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
    assert_eq!(memory.len().unwrap(), 1);
    let error = over(&folder.file("empty.db")).unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}

/// The disk was full in the middle of a copy, and the error did not say of which conversation half
/// is there.
#[test]
fn a_copy_that_fails_names_the_conversation() {
    let (from, folder) = (InMemoryStore::new(), Folder::new());
    for id in ["a", "b:1"] {
        let long = if id == "a" { 1 } else { 1 << 20 };
        from.memory(id).unwrap().add(Message::user("x".repeat(long))).unwrap();
    }
    let small = |connection: &mut Connection| connection.pragma_update(None, "max_page_count", 60);
    let to = SqliteStore::options().on_connect(small).open(folder.file("chat.db")).unwrap();
    let error = from.copy_to(&to, |_| true, |_| ()).unwrap_err();
    let text = error.to_string();
    assert!(text.starts_with("copy_to: the conversation \"b:1\" can't be copied: "), "{text}");
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(std::error::Error::source(&error).is_some());
}

/// Somebody tidied up in the night, or put a backup in the place of the file, while programs had it
/// open: SQLite goes on with the file that has no name any more, each append was acknowledged, and
/// all of them were gone with the process.
#[cfg(unix)]
#[test]
fn a_file_that_is_removed_or_replaced_while_it_is_open_is_not_written_to() {
    let folder = Folder::new();
    let (path, backup) = (folder.file("chat.db"), folder.file("backup.db"));
    SqliteStore::open(&path).unwrap().memory("a").unwrap().add(Message::user("0")).unwrap();
    let beside = || ["-wal", "-shm"].map(|ending| folder.file(format!("chat.db{ending}")));
    for removed in ["all", "the file", "the log"] {
        fs::copy(&path, &backup).unwrap();
        let store = SqliteStore::open(&path).unwrap();
        let reader = SqliteStore::options().read_only(true).open(&path).unwrap();
        let memory = store.memory("a").unwrap();
        memory.add(Message::user("1")).unwrap();
        assert_eq!(reader.memory("a").unwrap().next_position().unwrap(), 2);
        if removed != "the log" {
            fs::remove_file(&path).unwrap();
        }
        for file in beside() {
            fs::remove_file(file).unwrap();
        }
        if removed == "the file" {
            fs::copy(&backup, &path).unwrap();
        }
        let mut batch = vec![Message::user("2")];
        for error in [
            memory.append(&mut batch, Some(2)).unwrap_err(),
            memory.clear().unwrap_err(),
            memory.read(None, 1).unwrap_err(),
            store.delete(&"a".into()).unwrap_err(),
            store.vacuum().unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Storage);
            let expected = format!(
                "{}: sqlite: the file or its log was moved, removed or replaced while it was open: \
                 open it again ({})",
                error.operation(),
                path.display()
            );
            assert_eq!(error.to_string(), expected);
        }
        assert_eq!(batch.len(), 1, "the batch stays with the caller");
        let read = reader.memory("a").unwrap().next_position();
        match removed {
            "all" => assert!(read.is_err() && !path.exists()),
            "the file" => assert_eq!(read.unwrap(), 1, "what is there now"),
            // It goes by the log that it has opened.
            _ => drop(read),
        }
        drop((reader, memory, store));
        if removed == "all" {
            fs::copy(&backup, &path).unwrap();
        }
        // What was acknowledged is worked in when the store is closed, where there is the file.
        let store = SqliteStore::open(&path).unwrap();
        let there = if removed == "the log" { 2 } else { 1 };
        assert_eq!(store.memory("a").unwrap().all().unwrap().len(), there);
    }
}

/// Where these bytes are, of the file and what lies beside it.
fn holds(folder: &Path, secret: &str) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let holds = |path: &PathBuf| {
        let bytes = fs::read(path).unwrap();
        bytes.windows(secret.len()).any(|window| window == secret.as_bytes())
    };
    files.filter(holds).map(|path| path.extension().unwrap().to_str().unwrap().to_owned()).collect()
}

#[test]
fn what_is_left_of_what_was_deleted_is_as_documented() {
    let secret = "the number of her account";
    for secure in [false, true] {
        let folder = Folder::new();
        let path = folder.file("chat.db");
        let folder = path.parent().unwrap();
        let store = SqliteStore::options().secure_delete(secure).open(&path).unwrap();
        for id in 0..20 {
            let memory = store.memory(id.to_string()).unwrap();
            // Short ones share a page, the long one has some of its own.
            memory.add_all((0..40).map(|_| Message::user(format!("{id} {secret}")))).unwrap();
            memory.add(Message::user(format!("{}{secret}", "x".repeat(20_000)))).unwrap();
            memory.add(Message::system(format!("{id} {secret}"))).unwrap();
            memory.set_slot("short", secret, Expected::Any).unwrap();
            let long = format!("{}{secret}", "x".repeat(20_000));
            memory.set_slot("long", long, Expected::Any).unwrap();
        }
        let empty_the_log = || {
            let connection = Connection::open(&path).unwrap();
            let busy = connection
                .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
            assert!(!busy.unwrap());
        };
        empty_the_log();
        assert_eq!(holds(folder, secret), ["db"]);
        for id in 0..20 {
            match id % 4 {
                0 => drop(store.delete(&id.to_string().into()).unwrap()),
                1 => store.memory(id.to_string()).unwrap().clear().unwrap(),
                2 => {
                    let memory = store.memory(id.to_string()).unwrap();
                    memory.evict(u64::MAX).unwrap();
                    memory.add(Message::system("Be brief.")).unwrap();
                    memory.remove_slot("short", Expected::Any).unwrap();
                    memory.set_slot("long", "nothing", Expected::Any).unwrap();
                }
                _ => {
                    let memory = store.memory(id.to_string()).unwrap();
                    memory.clear().unwrap();
                    store.delete(memory.id()).unwrap();
                }
            }
        }
        empty_the_log();
        let left: &[&str] = if secure { &[] } else { &["db"] };
        assert_eq!(holds(folder, secret), left, "secure_delete is {secure}");
        let before = fs::metadata(&path).unwrap().len();
        store.vacuum().unwrap();
        assert!(holds(folder, secret).is_empty(), "vacuum leaves nothing");
        assert!(fs::metadata(&path).unwrap().len() < before / 10, "and gives back the room");
        let memory = store.memory("1").unwrap();
        assert_eq!(memory.add(Message::user("hi")).unwrap(), 41, "positions go on");
    }
}

/// Who reads on keeps the log from being emptied, and what was deleted in it: that is no success.
#[test]
fn a_vacuum_that_can_not_empty_the_log_is_an_error() {
    let (_folder, path) = place();
    let store =
        SqliteStore::options().busy_timeout(Duration::from_millis(100)).open(&path).unwrap();
    store.memory("a").unwrap().add_all(batch(3)).unwrap();
    let reader = Connection::open(&path).unwrap();
    let transaction = reader.unchecked_transaction().unwrap();
    let count = |c: &Connection| {
        c.query_row("SELECT count(*) FROM message", [], |row| row.get::<_, i64>(0)).unwrap()
    };
    assert_eq!(count(&transaction), 4);
    store.delete(&"a".into()).unwrap();
    let error = store.vacuum().unwrap_err();
    let expected = "vacuum: sqlite: another connection read for longer than the busy timeout, so the log is not empty";
    assert_eq!(said(&error, &path, ""), expected);
    assert_eq!(count(&transaction), 4);
    drop(transaction);
    store.vacuum().unwrap();
    SqliteStore::options().in_memory().unwrap().vacuum().unwrap();
}

// ---- many at once -------------------------------------------------------------------------------

/// For those of whom many write at once, maybe to a slow disk.
fn patient() -> SqliteOptions {
    SqliteStore::options().busy_timeout(Duration::from_secs(30))
}

#[test]
fn a_new_file_may_be_opened_by_many_at_once() {
    for _ in 0..20 {
        let folder = Folder::new();
        let path = folder.file("chat.db");
        thread::scope(|scope| {
            for i in 0..6 {
                let path = &path;
                scope.spawn(move || {
                    let store = patient().open(path).unwrap();
                    store.memory("a").unwrap().add(Message::user(i.to_string())).unwrap();
                });
            }
        });
        let memory = SqliteStore::open(&path).unwrap().memory("a").unwrap();
        assert_eq!(memory.next_position().unwrap(), 6);
    }
}

#[test]
fn readers_do_not_wait_for_a_writer_and_a_writer_waits_for_another() {
    let (_folder, path) = place();
    let open = |timeout| SqliteStore::options().busy_timeout(timeout).open(&path).unwrap();
    let timeout = Duration::from_millis(200);
    let memory = open(timeout).memory("a").unwrap();
    memory.add(Message::user("hi")).unwrap();
    let mut other = Connection::open(&path).unwrap();
    let transaction =
        other.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate).unwrap();
    transaction.execute_batch("UPDATE conversation SET active = 1").unwrap();

    // A busy machine may stop a reader once; one that waits does so each time.
    let fewest = |reader: &dyn ChatMemory| {
        let read = || {
            let started = Instant::now();
            assert_eq!(reader.next_position().unwrap(), 1);
            started.elapsed()
        };
        (0..5).map(|_| read()).min().unwrap()
    };
    let took = fewest(&memory);
    assert!(took < timeout / 2, "a reader waited: {took:?}");

    let started = Instant::now();
    let mut batch = batch(3);
    let error = memory.append(&mut batch, None).unwrap_err();
    let expected = "append: sqlite: another connection wrote for longer than the busy timeout";
    assert_eq!(said(&error, &path, "database is locked"), expected);
    assert_eq!(batch.len(), 4);
    assert!(started.elapsed() >= timeout);

    // A reader on another thread does not wait either while this one waits for its turn.
    thread::scope(|scope| {
        let patient = open(Duration::from_secs(10)).memory("a").unwrap();
        let reader = patient.clone();
        let writer = scope.spawn(move || patient.add(Message::user("at last")).unwrap());
        thread::sleep(Duration::from_millis(50));
        let took = fewest(&reader);
        assert!(took < timeout / 2, "a reader waited: {took:?}");
        assert!(!writer.is_finished());
        transaction.commit().unwrap();
        assert_eq!(writer.join().unwrap(), 1);
    });
}

const TAKE_TURNS: &str = "MEMORY_PROMPT_TEST_TURNS";

/// Not a test of its own: what each process of the next test does, once it is told to begin.
#[test]
fn turn_taker() {
    let Ok(path) = std::env::var(TAKE_TURNS) else { return };
    let store = patient().open(path).unwrap();
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let end = Instant::now() + TURNS_FOR;
    let write = |thread: u64| {
        let memory = store.memory(format!("{}/{thread}", std::process::id())).unwrap();
        let mut waits = Vec::new();
        while Instant::now() < end {
            let started = Instant::now();
            memory.add_all(batch(7)).unwrap();
            waits.push(started.elapsed());
        }
        waits
    };
    let mut waits = thread::scope(|scope| {
        let writers: Vec<_> = (0..4).map(|thread| scope.spawn(move || write(thread))).collect();
        writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
    });
    waits.sort();
    let [median, longest] = [waits[waits.len() / 2], waits[waits.len() - 1]].map(|w| w.as_micros());
    println!("waited {} {median} {longest}", waits.len());
}

const TURNS_FOR: Duration = Duration::from_secs(5);

/// So many processes of four writers each: how many appends each made, and what the median and the
/// longest of them took, in microseconds.
fn turns_of(processes: usize) -> Vec<[u64; 3]> {
    let (_folder, path) = place();
    drop(SqliteStore::open(&path).unwrap());
    let mut processes: Vec<_> = (0..processes)
        .map(|_| {
            let mut process = again("sqlite::turn_taker")
                .env(TAKE_TURNS, &path)
                .stdin(Stdio::piped())
                .spawn()
                .unwrap();
            let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
            assert!(output.any(|line| line.unwrap().contains("ready")));
            (process, output)
        })
        .collect();
    for (process, _) in &mut processes {
        drop(process.stdin.take()); // begin
    }
    let found = processes.into_iter().map(|(mut process, output)| {
        let output: Vec<String> = output.map(Result::unwrap).collect();
        assert!(process.wait().unwrap().success(), "a writer failed");
        let found = output.iter().find_map(|line| line.split_once("waited ")).unwrap().1;
        let found: Vec<u64> = found.split(' ').map(|n| n.parse().unwrap()).collect();
        found.try_into().unwrap()
    });
    let found = found.collect();
    println!("[appends, median µs, longest µs] {found:?}");
    found
}

/// Threads of one process handed the lock to each other while SQLite slept for up to 100 ms between
/// its tries in the other: that one starved for as long as the busy timeout says, and an append
/// failed.
#[test]
fn processes_that_write_at_once_take_turns() {
    let too_long = || {
        let [[_, _, alone]] = turns_of(1)[..] else { panic!("one process") };
        let found = turns_of(2);
        // A slow machine is slow for all: the bound goes with what most appends take (the lesser
        // median, since of a process that starves all are slow), and with how long the disk stalls
        // by itself.
        let median = found.iter().map(|[_, median, _]| *median).min().unwrap();
        let longest = found.iter().map(|[.., longest]| *longest).max().unwrap();
        let bound = 500_000.max(100 * median).max(3 * alone);
        (longest > bound).then(|| format!("{longest} µs, where most took {median} µs"))
    };
    // A machine that stands still for a moment does so now and then; who starves does so each time.
    each_of_four(too_long);
}

/// Four tries, of which one must find nothing wrong.
#[track_caller]
fn each_of_four<T: std::fmt::Debug>(wrong: impl Fn() -> Option<T>) {
    let found: Vec<T> = (0..4).map_while(|_| wrong()).collect();
    assert!(found.len() < 4, "{found:?}");
}

/// A file of so many conversations of two messages; but for the last fifth, all are active.
fn conversations(path: &Path, n: u64) -> SqliteStore {
    let store = SqliteStore::options().durability(Durability::Process).open(path).unwrap();
    Connection::open(path)
        .unwrap()
        .execute_batch(&format!(
            r#"PRAGMA synchronous = OFF;
            WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {n} - 1)
            INSERT INTO conversation (key, id, start, "end", active, incarnation)
            SELECT i + 1, 'support:' || i, 0, 2, iif(i * 5 < {n} * 4, 4102444800000, 1000), i FROM n;
            INSERT INTO message (key, at, payload)
            SELECT (conversation.key << 32) + position.value, 1000,
                   '{{"version":1,"message":{{"role":"user","content":"{}"}}}}'
            FROM conversation, json_each('[0, 1]') AS position"#,
            "x".repeat(100)
        ))
        .unwrap();
    store
}

/// Each few that were deleted were looked for from the beginning again, past all that stay, and in
/// the transaction that deletes: twice as many took four times as long, and others got no turn.
#[test]
fn a_purge_takes_as_long_as_there_is_to_purge() {
    let largest =
        std::env::var("MEMORY_PROMPT_CONVERSATIONS").map_or(40_000, |n| n.parse().unwrap());
    // In steps of SQLite's virtual machine, since time depends on what else the machine does.
    let steps = |n| {
        let (_folder, path) = place();
        drop(conversations(&path, n));
        let steps = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&steps);
        let store = SqliteStore::options().durability(Durability::Process);
        let count_steps = move |connection: &mut Connection| {
            let count = Arc::clone(&count);
            let count = move || {
                count.fetch_add(1, Ordering::Relaxed);
                false
            };
            connection.progress_handler(10, Some(count))
        };
        let store = store.on_connect(count_steps).open(&path).unwrap();
        let started = Instant::now();
        assert_eq!(store.purge_inactive(std::time::SystemTime::now()).unwrap(), n / 5);
        let (took, steps) = (started.elapsed(), 10 * steps.load(Ordering::Relaxed));
        println!("{} of {n} conversations: {took:?}, {steps} steps", n / 5);
        assert_eq!(store.ids(None, usize::MAX).unwrap().len() as u64, n - n / 5);
        steps
    };
    let (half, all) = (steps(largest / 2), steps(largest));
    assert!(all * 10 < half * 23, "twice as many took {all} steps instead of {half}");
}

/// Whoever waits as SQLite does, ten times a second, was kept from the file by a purge for as long
/// as it took, and failed.
#[test]
fn a_purge_leaves_the_file_to_others() {
    let too_long = || {
        let (_folder, path) = place();
        let store = conversations(&path, 100_000);
        // Nobody waits for the disk: how long that takes says nothing about whose turn it is.
        let another = SqliteStore::options().durability(Durability::Process).open(&path).unwrap();
        let memory = another.memory("another store").unwrap();
        let stranger = Connection::open(&path).unwrap();
        stranger.execute_batch("PRAGMA synchronous = OFF").unwrap();
        stranger.busy_timeout(Duration::from_secs(5)).unwrap();
        let purge = || store.purge_inactive(std::time::SystemTime::now()).unwrap();
        thread::scope(|scope| {
            let began = Instant::now();
            let purge = scope.spawn(purge);
            let (mut appends, mut longest) = (0, [Duration::ZERO; 2]);
            while !purge.is_finished() {
                let started = Instant::now();
                memory.add(Message::user("hi")).unwrap();
                longest[0] = longest[0].max(started.elapsed());
                let started = Instant::now();
                stranger.execute("UPDATE conversation SET start = 0 WHERE key = 1", []).unwrap();
                longest[1] = longest[1].max(started.elapsed());
                appends += 1;
            }
            // A slow machine is slow for the purge too.
            let took = began.elapsed();
            println!("{appends} appends in {took:?}; the longest {longest:?}, a stranger's last");
            assert_eq!(purge.join().unwrap(), 20_000);
            let longest = longest[0].max(longest[1]);
            (appends <= 3 || longest > took / 2).then_some((appends, longest, took))
        })
    };
    // A machine that stands still for a moment does so now and then; who is kept from the file is
    // so each time: how many appends there were, the longest, and the purge.
    each_of_four(too_long);
}

// ---- for people ---------------------------------------------------------------------------------

#[test]
fn any_codec_is_read_whatever_is_configured() {
    let (_folder, path) = place();
    let open =
        |codec| SqliteStore::options().codec(codec).open(&path).unwrap().memory("a").unwrap();
    for codec in [Codec::Json, Codec::Bincode, Codec::Json] {
        open(codec).add_all([Message::system("Be brief."), Message::user("hi")]).unwrap();
    }
    assert_eq!(open(Codec::Bincode).all().unwrap().len(), 3);
    let connection = Connection::open(&path).unwrap();
    let mut types =
        connection.prepare("SELECT typeof(payload) FROM history ORDER BY position").unwrap();
    let types: Vec<String> =
        types.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(types, ["text", "blob", "text"]);
}

#[test]
fn any_sqlite_tool_reads_a_conversation() {
    let (_folder, path) = place();
    let store = SqliteStore::open(&path).unwrap();
    let memory = store.memory("support:u1001:c2002").unwrap();
    memory.add_all([Message::user("What is \"up\"?\n"), Message::ai("Not much.")]).unwrap();
    store.memory("other").unwrap().add(Message::user("no")).unwrap();
    let connection = Connection::open(&path).unwrap();
    let query = "SELECT position, at, payload ->> '$.message.role', payload ->> '$.message.content'
                 FROM history WHERE id = 'support:u1001:c2002' ORDER BY key DESC LIMIT 10";
    let documented = include_str!("../../src/store/sqlite.rs").lines();
    let documented = documented.filter_map(|line| line.strip_prefix("//! ")).collect::<Vec<_>>();
    assert!(documented.join(" ").contains(&query.split_whitespace().collect::<Vec<_>>().join(" ")));
    let mut rows = connection.prepare(query).unwrap();
    let rows: Vec<(i64, String, String, String)> = rows
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!((rows[0].0, rows[0].2.as_str(), rows[0].3.as_str()), (1, "assistant", "Not much."));
    assert_eq!(
        (rows[1].0, rows[1].2.as_str(), rows[1].3.as_str()),
        (0, "user", "What is \"up\"?\n")
    );
    assert!(rows[0].1.starts_with("20") && rows[0].1.len() == "2026-01-01 00:00:00.000".len());
    // And finds it by its keys, not by a walk through all there is; the newest are the first that
    // it finds, not the first of all when they are sorted.
    let plan: Vec<String> = connection
        .prepare(&format!("EXPLAIN QUERY PLAN {query}"))
        .unwrap()
        .query_map([], |row| row.get(3))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let plan_is_short = |word| plan.iter().all(|step| !step.contains(word));
    assert!(plan_is_short("SCAN") && plan_is_short("TEMP B-TREE"), "{plan:?}");
}

#[test]
fn a_connection_of_ones_own_keeps_its_settings() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    let store = SqliteStore::options().over(connection).unwrap();
    let memory = store.memory("a").unwrap();
    memory.add(Message::user("my secret")).unwrap();
    assert_eq!(memory.all().unwrap().len(), 1);
    let text = format!("{store:?} {memory:?} {:?}", SqliteStore::options());
    assert_eq!(
        text,
        "SqliteStore { place: a connection of the caller's, codec: Json } \
         SqliteMemory { id: \"a\", place: a connection of the caller's, .. } \
         SqliteOptions { codec: Json, media_beside: 16384, durability: Full, busy_timeout: 5s, \
         read_only: false, secure_delete: false, on_connect: false }"
    );

    // It was rolled back with the first read.
    let busy = Connection::open_in_memory().unwrap();
    busy.execute_batch("BEGIN").unwrap();
    let error = SqliteStore::options().over(busy).unwrap_err();
    assert!(error.to_string().contains("in a transaction"), "{error}");

    let foreign = Connection::open_in_memory().unwrap();
    foreign.execute_batch("CREATE TABLE users (name)").unwrap();
    let error = SqliteStore::options().over(foreign).unwrap_err();
    let expected = "open: sqlite: the file is a database of something else; it was left as it is \
                    (a connection of the caller's)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn what_is_done_with_each_connection_may_fail() {
    let (_folder, path) = place();
    let error = SqliteStore::options()
        .on_connect(|connection| connection.execute_batch("PRAGMA nonsense('); DROP"))
        .open(&path)
        .unwrap_err();
    assert!(error.to_string().starts_with("open: sqlite: "), "{error}");
}
