//! The layout of a SQLite file: those of earlier versions with data in them, brought up to date by
//! one process or by several at once, and never written to where that is not allowed.

#![cfg(feature = "sqlite")]
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

#[path = "common/folder.rs"]
mod folder;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use folder::Folder;
use memory_prompt::codec::Codec;
use memory_prompt::memory::{Append, Expected, Read};
use memory_prompt::{ChatMemory, ChatMemoryExt, ChatMemoryStore, ErrorKind, Message, SqliteStore};
use rusqlite::{Connection, OpenFlags, params};

/// The tables of version 1, as its programs created them.
const V1: &str = r#"
CREATE TABLE conversation (
    key     INTEGER PRIMARY KEY,
    id      TEXT NOT NULL UNIQUE COLLATE BINARY,
    start   INTEGER NOT NULL,
    "end"   INTEGER NOT NULL,
    active  INTEGER NOT NULL,
    system  BLOB -- last, so that it is not read on the way to the others
);
CREATE TABLE message (
    key     INTEGER PRIMARY KEY, -- conversation.key * 2^32 + position
    at      INTEGER NOT NULL,
    payload BLOB NOT NULL
);
CREATE VIEW history AS
SELECT c.id AS id,
       m.key & 0xffffffff AS seq,
       strftime('%Y-%m-%d %H:%M:%f', m.at / 1000.0, 'unixepoch') AS at,
       m.payload AS payload,
       m.key AS key -- to sort by: the rows lie in its order
FROM conversation AS c
JOIN message AS m ON m.key >= c.key << 32 AND m.key < (c.key + 1) << 32;
PRAGMA application_id = 0x6d70726d;
PRAGMA user_version = 1;
"#;

const AT: u64 = 1_714_557_600_123; // May 2024

/// A file of version 1 with `n` conversations: of ten messages, of which three are evicted, in
/// either codec, and every other one with a system message.
fn v1(path: &Path, n: usize) {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    connection.execute_batch(V1).unwrap();
    let transaction = connection.unchecked_transaction().unwrap();
    let text = |message| String::from_utf8(Codec::Json.encode(&message).unwrap()).unwrap();
    let mut conversation =
        transaction.prepare("INSERT INTO conversation VALUES (?1, ?2, 3, 10, ?3, ?4)").unwrap();
    let mut row = transaction.prepare("INSERT INTO message VALUES (?1, ?2, ?3)").unwrap();
    let at = i64::try_from(AT).unwrap();
    for c in 0..i64::try_from(n).unwrap() {
        let system = (c % 2 == 0).then(|| text(Message::system("Be brief.")));
        let key = c + 1;
        conversation.execute(params![key, format!("c{c}"), at + 9, system]).unwrap();
        for seq in 3..10_i64 {
            let message = Message::user(format!("{seq} of {c}"));
            let key = (key << 32) + seq;
            if seq % 3 == 0 {
                row.execute(params![key, at + seq, Codec::Bincode.encode(&message).unwrap()])
            } else {
                row.execute(params![key, at + seq, text(message)])
            }
            .unwrap();
        }
    }
    drop((conversation, row));
    transaction.commit().unwrap();
}

fn version(path: &Path) -> i64 {
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
}

/// What a file of version 1 held is there, and all that is new works on it.
fn holds_what_was_there(store: &SqliteStore, n: usize) {
    let at = |millis| UNIX_EPOCH + Duration::from_millis(millis);
    let mut incarnations = std::collections::HashSet::new();
    let mut ids = store.ids(None, usize::MAX).unwrap();
    assert_eq!(ids.len(), n);
    ids.sort();
    for c in 0..n {
        let id = format!("c{c}").into();
        assert!(ids.binary_search(&id).is_ok());
        let info = store.info(&id).unwrap().unwrap();
        assert_eq!((info.start, info.end, info.active), (3, 10, at(AT + 9)));
        let memory = store.memory(id).unwrap();
        let snapshot = memory.read_with(&Read::newest(3).slots(["a"]).positions([2, 3])).unwrap();
        assert_eq!((snapshot.start, snapshot.end), (3, 10));
        assert_eq!(snapshot.system.is_some(), c % 2 == 0);
        assert!(incarnations.insert(snapshot.incarnation.unwrap()), "each has one of its own");
        assert_eq!(snapshot.incarnation, info.incarnation);
        assert_eq!((snapshot.picked().len(), snapshot.slots().len()), (1, 0));
        let all = memory.all().unwrap();
        let texts: Vec<_> = all.messages().map(|message| message.text().into_owned()).collect();
        assert_eq!(texts, (3..10).map(|seq| format!("{seq} of {c}")).collect::<Vec<_>>());
        assert!(all.iter().map(|it| it.appended_at()).eq((3..10).map(|seq| at(AT + seq))));
    }
}

/// And goes on as one that was always of this version.
fn goes_on(store: &SqliteStore, id: &str) {
    let memory = store.memory(id).unwrap();
    let before = memory.read(None, 0).unwrap();
    let turn = || {
        let turn = Append::new([Message::user("10")]).with_id("turn").since(&before).expecting(10);
        turn.set_slot("summary", "They said little.", Expected::Absent)
    };
    let first = memory.append_with(&mut turn()).unwrap();
    assert_eq!((first.positions.clone(), first.repeated), (10..11, false));
    let again = memory.append_with(&mut turn()).unwrap();
    assert_eq!((again.positions, again.version, again.repeated), (10..11, first.version, true));
    assert_eq!(memory.slot("summary").unwrap().unwrap().text(), Some("They said little."));
    assert_eq!(memory.read(None, 1).unwrap().incarnation, before.incarnation);
    assert_eq!(memory.evict(5).unwrap(), 2);
    memory.clear().unwrap();
    assert!(memory.slots().unwrap().is_empty());
    assert_eq!(memory.add(Message::user("11")).unwrap(), 11);
}

#[test]
fn a_file_of_version_1_is_brought_up_to_date_with_all_that_is_in_it() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    v1(&path, 100);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(version(&path), 2);
    holds_what_was_there(&store, 100);
    let before = store.info(&"c7".into()).unwrap();
    drop(store);
    let store = SqliteStore::open(&path).unwrap();
    assert_eq!(store.info(&"c7".into()).unwrap(), before, "it is done once");
    holds_what_was_there(&store, 100);
    goes_on(&store, "c7");
    assert_eq!(store.delete_prefix("c1").unwrap(), 11);
    assert_eq!(store.purge_inactive(UNIX_EPOCH + Duration::from_millis(AT + 10)).unwrap(), 88);
    assert_eq!(store.ids(None, 100).unwrap(), ["c7".into()]);
}

/// What is new in a version comes last in its tables: a file that was brought up to date is one
/// like any other.
#[test]
fn a_file_that_was_brought_up_to_date_has_the_tables_of_a_new_one() {
    let folder = Folder::new();
    let (old, new) = (folder.file("old.db"), folder.file("new.db"));
    v1(&old, 3);
    let tables = |path: &PathBuf| {
        drop(SqliteStore::open(path).unwrap());
        let connection = Connection::open(path).unwrap();
        let sql = "SELECT name, sql FROM sqlite_schema ORDER BY name";
        let mut tables = connection.prepare(sql).unwrap();
        let tables = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        tables.map(Result::unwrap).collect::<Vec<(String, Option<String>)>>()
    };
    assert_eq!(tables(&old), tables(&new));
}

/// A connection of somebody's own brings it up to date as well, and keeps what else is in the file.
#[test]
fn tables_of_ones_own_outlive_a_new_version() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    v1(&path, 3);
    let connection = Connection::open(&path).unwrap();
    let own = "PRAGMA foreign_keys = ON;
        CREATE TABLE booking (id TEXT REFERENCES conversation (id) ON DELETE CASCADE, seat);
        INSERT INTO booking VALUES ('c1', '12A');
        CREATE VIEW talk AS SELECT id, \"end\" - start AS length FROM conversation;
        CREATE TABLE log (id);
        CREATE TRIGGER logs AFTER DELETE ON conversation BEGIN INSERT INTO log VALUES (old.id); END;";
    connection.execute_batch(own).unwrap();
    let store = SqliteStore::options().over(connection).unwrap();
    holds_what_was_there(&store, 3);
    let connection = Connection::open(&path).unwrap();
    let one = |sql| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(one("SELECT seat FROM booking"), "12A");
    assert_eq!(one("SELECT length || '' FROM talk WHERE id = 'c1'"), "7");
    assert!(store.delete(&"c1".into()).unwrap());
    assert_eq!(one("SELECT id FROM log"), "c1");
    assert_eq!(one("SELECT count(*) || '' FROM booking"), "0");
}

/// A table of somebody's own that has a name of ours is not ours to use, nor to drop.
#[test]
fn a_table_of_the_same_name_is_an_error_and_changes_nothing() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    v1(&path, 3);
    Connection::open(&path).unwrap().execute_batch("CREATE TABLE slot (machine)").unwrap();
    let before = fs::read(&path).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    assert!(error.to_string().contains("table slot already exists"), "{error}");
    assert!(fs::read(&path).unwrap() == before, "the file was written to");
    Connection::open(&path).unwrap().execute_batch("ALTER TABLE slot RENAME TO mine").unwrap();
    holds_what_was_there(&SqliteStore::open(&path).unwrap(), 3);
}

const CLEAR_WORD: &str = "open: sqlite: the file is of version 1, and read-only: whoever may write to it \
                          brings it up to version 2 by opening it";

#[test]
fn an_old_file_that_is_opened_read_only_is_refused_in_clear_words() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    v1(&path, 3);
    let before = fs::read(&path).unwrap();
    let read_only = || SqliteStore::options().read_only(true).open(&path);
    // As one that is not written to, and through a connection that can't.
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let over =
        |flags| SqliteStore::options().over(Connection::open_with_flags(&path, flags).unwrap());
    for error in [read_only().unwrap_err(), over(flags).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Storage);
        let text = error.to_string();
        assert!(text.starts_with(CLEAR_WORD), "{text}");
    }
    assert!(fs::read(&path).unwrap() == before, "the file was written to");
    assert_eq!(version(&path), 1);
    drop(SqliteStore::open(&path).unwrap());
    holds_what_was_there(&read_only().unwrap(), 3);
    holds_what_was_there(&over(flags).unwrap(), 3);
}

/// On media that can't be written to nothing can be put beside the file either.
#[cfg(unix)]
#[test]
fn an_old_file_on_media_that_can_not_be_written_to_is_refused_in_clear_words() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    v1(&path, 3);
    std::os::unix::fs::symlink("nowhere", folder.file("chat.db-shm")).unwrap();
    let error = SqliteStore::options().read_only(true).open(&path).unwrap_err();
    assert!(error.to_string().starts_with(CLEAR_WORD), "{error}");
}

const OPEN: &str = "MEMORY_PROMPT_TEST_OPEN";

/// Not a test of its own: what each process of the next tests does, once it is told to.
#[test]
fn opener() {
    let Ok(path) = std::env::var(OPEN) else { return };
    println!("ready");
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let store = SqliteStore::open(path).unwrap();
    let me = std::process::id().to_string();
    let memory = store.memory("c0").unwrap();
    memory.append_with(&mut Append::new([Message::user("hi")]).with_id(me)).unwrap();
}

/// Another process that opens this file, as soon as its standard input is closed.
fn opens(path: &Path) -> std::process::Child {
    use std::io::{BufRead, BufReader};
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["opener", "--exact", "--nocapture"])
        .env(OPEN, path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(process.stdout.as_mut().unwrap()).lines();
    assert!(output.any(|line| line.unwrap().contains("ready")));
    process
}

#[test]
fn an_old_file_may_be_opened_by_two_processes_at_once() {
    for round in 0..10 {
        let folder = Folder::new();
        let path = folder.file("chat.db");
        v1(&path, 2000);
        let mut processes = [opens(&path), opens(&path)];
        for process in &mut processes {
            drop(process.stdin.take()); // begin
            thread::sleep(Duration::from_micros(round * 700));
        }
        for mut process in processes {
            assert!(process.wait().unwrap().success(), "it could not open the file");
        }
        let store = SqliteStore::open(&path).unwrap();
        assert_eq!(store.memory("c0").unwrap().next_position().unwrap(), 12);
        store.delete(&"c0".into()).unwrap();
        let left = store.ids(None, usize::MAX).unwrap();
        assert_eq!(left.len(), 1999);
        let incarnation = |id| store.info(id).unwrap().unwrap().incarnation.unwrap();
        let incarnations: std::collections::HashSet<_> = left.iter().map(incarnation).collect();
        assert_eq!(incarnations.len(), 1999);
    }
}

#[test]
fn an_old_file_may_be_opened_by_many_threads_at_once() {
    for _ in 0..5 {
        let folder = Folder::new();
        let path = folder.file("chat.db");
        v1(&path, 500);
        let start = Barrier::new(6);
        let opened: Vec<_> = thread::scope(|scope| {
            let open = || {
                start.wait();
                let store = SqliteStore::open(&path).unwrap();
                store.info(&"c3".into()).unwrap()
            };
            let threads: Vec<_> = (0..6).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(opened.iter().all(|info| *info == opened[0] && info.is_some()), "{opened:?}");
    }
}

/// A process that is killed while it brings the file up to date leaves it as it was, or done.
#[test]
fn who_is_killed_while_it_brings_a_file_up_to_date_harms_nothing() {
    let (mut old, mut new) = (0, 0);
    for round in 0..20 {
        let folder = Folder::new();
        let path = folder.file("chat.db");
        v1(&path, 3000);
        let mut process = opens(&path);
        drop(process.stdin.take());
        thread::sleep(Duration::from_micros(round * round * 100));
        process.kill().unwrap();
        process.wait().unwrap();
        if version(&path) == 1 {
            old += 1;
        } else {
            new += 1;
        }
        let store = SqliteStore::open(&path).unwrap();
        let memory = store.memory("c1").unwrap();
        assert_eq!((memory.all().unwrap().len(), store.ids(None, 9999).unwrap().len()), (7, 3000));
        goes_on(&store, "c1");
    }
    println!("{old} were killed before it was done, {new} after it");
    assert!(old > 0, "none was killed in time");
}

/// Programs of version 1 that had the file open go on: whatever they do, nothing of one
/// conversation comes up in another.
#[test]
fn a_program_of_version_1_that_has_the_file_open_harms_nobody() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    v1(&path, 3);
    let old = Connection::open(&path).unwrap();
    let ends = || {
        let sql = r#"SELECT "end" FROM conversation WHERE id = 'c2'"#;
        old.query_row(sql, [], |row| row.get::<_, i64>(0))
    };
    assert_eq!(ends(), Ok(10));
    let store = SqliteStore::open(&path).unwrap();
    let memory = store.memory("c2").unwrap();
    let mut turn = Append::new([Message::user("hi")]).with_id("turn");
    turn = turn.set_slot("secret", "of c2", Expected::Any);
    memory.append_with(&mut turn).unwrap();
    assert_eq!(ends(), Ok(11));
    // It deletes the conversation as version 1 does, and begins another one, which gets the same
    // key.
    old.execute_batch(
        r#"DELETE FROM message WHERE key >= 3 << 32 AND key < 4 << 32;
        DELETE FROM conversation WHERE key = 3;
        INSERT INTO conversation (id, start, "end", active, system) VALUES ('new', 0, 0, 7, NULL);"#,
    )
    .unwrap();
    assert_eq!(memory.read(None, 1).unwrap().end, 0);
    let new = store.memory("new").unwrap();
    assert!(new.slots().unwrap().is_empty());
    let appended = new.append_with(&mut Append::new([Message::user("hi")]).with_id("turn"));
    assert!(!appended.unwrap().repeated);
    // Nobody said which life of it this is.
    let snapshot = new.read(None, 1).unwrap();
    assert_eq!((snapshot.incarnation, snapshot.end), (None, 1));
    new.append_with(&mut Append::new([Message::user("ho")]).since(&snapshot)).unwrap();
    assert!(store.info(&"new".into()).unwrap().unwrap().incarnation.is_none());
}

/// A later version that comes while the file is open is seen by the next connection that is opened.
#[test]
fn the_version_is_looked_at_again_when_a_connection_is_opened() {
    let folder = Folder::new();
    let path = folder.file("chat.db");
    for read_only in [false, true] {
        drop(SqliteStore::open(&path).unwrap());
        let store = SqliteStore::options().read_only(read_only).open(&path).unwrap();
        let later = Connection::open(&path).unwrap();
        later.pragma_update(None, "user_version", 3).unwrap();
        let error = store.memory("a").unwrap().all().unwrap_err();
        let expected =
            "read: sqlite: the file is of version 3, and this program knows versions up to 2";
        assert!(error.to_string().starts_with(expected), "{error}");
        later.pragma_update(None, "user_version", 2).unwrap();
        assert!(store.memory("a").unwrap().all().unwrap().is_empty());
    }
}

/// Large files are brought up to date too: run by hand, with the number of conversations.
#[test]
#[ignore = "takes a while: MEMORY_PROMPT_CONVERSATIONS=1000000 cargo test … -- --ignored"]
fn a_large_file_is_brought_up_to_date() {
    let n = std::env::var("MEMORY_PROMPT_CONVERSATIONS").map_or(100_000, |n| n.parse().unwrap());
    let folder = Folder::new();
    let path = folder.file("chat.db");
    v1(&path, n);
    let started = SystemTime::now();
    let store = SqliteStore::open(&path).unwrap();
    println!("{n} conversations: {:?}", started.elapsed().unwrap());
    assert_eq!(store.memory("c1").unwrap().all().unwrap().len(), 7);
}
