//! SQLite beside the same rows written and read by hand.

use std::cell::Cell;
use std::iter::once;
use std::path::Path;
use std::sync::mpsc;
use std::thread;

use memory_prompt::codec::{self, Codec};
use memory_prompt::memory::Read;
use memory_prompt::message::{Media, Part};
use memory_prompt::store::{Durability, SqliteMemory};
use memory_prompt::{ChatMemory, ChatMemoryExt, Message, SqliteStore};
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use crate::folder::Folder;
use crate::harness::{Claims, Pace};
use crate::messages::message;

/// Many appends a run: what one takes varies, and some pay for others.
const DISK: Pace = Pace { runs: 15, nanos: 150_000_000 };
const ID: &str = "support:u1001:c2002";
const INSERT: &str = "INSERT INTO message VALUES (?1, ?2, ?3, ?4)";
const SELECT: &str =
    "SELECT payload FROM message WHERE conversation = ?1 ORDER BY position DESC LIMIT 10";

pub(crate) fn reading_costs_little(claims: &mut Claims) {
    let folder = Folder::new();
    let store = SqliteStore::options().durability(Durability::Process);
    let ours = store.open(folder.file("ours.db")).unwrap().memory(ID).unwrap();
    ours.add_all((0..1000).map(message)).unwrap();
    let hand = by_hand(&folder.file("hand.db"), Durability::Process);
    insert(&hand, 0, (0..1000).map(message));
    let select = || {
        let mut query = hand.prepare_cached(SELECT).unwrap();
        let mut rows = query.query([ID]).unwrap();
        let mut messages = Vec::new();
        while let Some(row) = rows.next().unwrap() {
            messages.push(codec::decode(row.get_ref(0).unwrap().as_bytes().unwrap()).unwrap());
        }
        messages.reverse();
        messages
    };
    let read = || ours.latest(10).unwrap();
    assert!(read().messages().eq(&select()));
    let found = claims.compare(Pace::FINE, ["SQLite: last 10", "by hand"], read, select);
    claims.at_most("SQLite: last 10 / bare SELECT and JSON decode", found.ratio, 2.0);
}

/// A hundred pictures of a megabyte in one conversation, and the same texts without them.
pub(crate) fn pictures_stay_where_they_are(claims: &mut Claims) {
    let folder = Folder::new();
    let store = SqliteStore::options().durability(Durability::Process);
    let store = store.open(folder.file("ours.db")).unwrap();
    let [with, without] = ["with", "without"].map(|id| store.memory(id).unwrap());
    for n in 0..100_u8 {
        let text = Part::text(message(n.into()).text());
        let data = "iVBORw0KGgoAAAANSUhEUgAAAUAAAADwCAYAAAD/".repeat(35_000);
        let picture = Media::base64("image/png", format!("{data}{n:0>4}"));
        with.add(Message::user([text.clone(), Part::Image(picture)])).unwrap();
        without.add(Message::user([text])).unwrap();
    }
    let read = |of: &SqliteMemory| of.read_with(&Read::newest(20).references()).unwrap();
    let found = claims.compare(
        Pace::FINE,
        ["SQLite: last 20 of 100 pictures of 1 MB", "without them"],
        || assert_eq!(read(&with).records.len(), 20),
        || assert_eq!(read(&without).records.len(), 20),
    );
    claims.at_most("SQLite: last 20 of 100 pictures / without pictures", found.ratio, 2.0);
}

pub(crate) fn appending_costs_little(claims: &mut Claims) {
    let [full, process] =
        [("durable", Durability::Full), ("safe from crashes of the process", Durability::Process)]
            .map(|(name, durability)| {
                let folder = Folder::new();
                let ours = SqliteStore::options().durability(durability);
                let ours = ours.open(folder.file("ours.db")).unwrap().memory(ID).unwrap();
                let hand = by_hand(&folder.file("hand.db"), durability);
                let position = Cell::new(0);
                let turn = || {
                    let first = position.replace(position.get() + 2);
                    (first, [message(first), message(first + 1)])
                };
                let found = claims.compare(
                    DISK,
                    [&format!("SQLite, {name}: append of a turn"), "by hand"],
                    || assert_eq!(ours.append(&mut turn().1.to_vec(), None).unwrap().count(), 2),
                    || {
                        let (first, turn) = turn();
                        insert(&hand, first, turn);
                    },
                );
                let claim = format!("SQLite, {name}: append of a turn / the same two rows by hand");
                claims.at_most(&claim, found.ratio, 2.0);
                found.nanos[0]
            });
    println!("      durable / safe from crashes of the process: {:.0}", full / process);
}

/// How many threads write at once, and how many turns each appends in a run.
const WRITERS: usize = 64;
const TURNS: u64 = 8;

/// Whoever writes for many at once by hand gives the rows to a thread that commits what has come.
pub(crate) fn many_writers_share_their_commits(claims: &mut Claims) {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("ours.db")).unwrap();
    let memories: Vec<_> = (0..WRITERS).map(|i| store.memory(i.to_string()).unwrap()).collect();
    let hand = by_hand(&folder.file("hand.db"), Durability::Full);
    let (to_writer, rows) = mpsc::channel();
    let writer = thread::spawn(move || write_together(&hand, &rows));
    let first = Cell::new(0);
    let pace = Pace { nanos: 0, ..DISK }; // a run is long enough
    let found = claims.compare(
        pace,
        ["SQLite, durable: 64 writers append 8 turns each", "grouped by hand"],
        || {
            on_all(|i| {
                for turn in 0..TURNS {
                    let turn = [message(turn), message(turn + 1)];
                    memories[i].append(&mut turn.to_vec(), None).unwrap();
                }
            });
        },
        || {
            let first = first.replace(first.get() + 2 * TURNS);
            on_all(|i| {
                for position in (0..TURNS).map(|turn| first + 2 * turn) {
                    let turn = [message(position), message(position + 1)].map(|message| {
                        String::from_utf8(Codec::Json.encode(&message).unwrap()).unwrap()
                    });
                    let (done, is_done) = mpsc::sync_channel(1);
                    to_writer.send((i.to_string(), position, turn, done)).unwrap();
                    is_done.recv().unwrap();
                }
            });
        },
    );
    drop(to_writer);
    writer.join().unwrap();
    let claim = "SQLite, durable: 64 writers / the same rows grouped by hand, appends a second";
    claims.at_least(claim, 1.0 / found.ratio, 0.7);
}

fn on_all(work: impl Fn(usize) + Sync) {
    thread::scope(|scope| {
        for i in 0..WRITERS {
            let work = &work;
            scope.spawn(move || work(i));
        }
    });
}

type Rows = (String, u64, [String; 2], mpsc::SyncSender<()>);

fn write_together(connection: &Connection, rows: &mpsc::Receiver<Rows>) {
    while let Ok(row) = rows.recv() {
        let transaction =
            Transaction::new_unchecked(connection, TransactionBehavior::Immediate).unwrap();
        let mut done = Vec::new();
        for (id, first, payloads, sender) in once(row).chain(rows.try_iter()) {
            let mut insert = transaction.prepare_cached(INSERT).unwrap();
            for (position, payload) in (first..).zip(payloads) {
                let position = i64::try_from(position).unwrap();
                insert.execute(params![id, position, 1_700_000_000_000_i64, payload]).unwrap();
            }
            done.push(sender);
        }
        transaction.commit().unwrap();
        for sender in done {
            sender.send(()).unwrap();
        }
    }
}

/// A table as somebody would write it who needs no more than this.
fn by_hand(path: &Path, durability: Durability) -> Connection {
    let synchronous = if durability == Durability::Full { "FULL" } else { "NORMAL" };
    let connection = Connection::open(path).unwrap();
    connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(())).unwrap();
    connection.pragma_update(None, "synchronous", synchronous).unwrap();
    let table =
        "CREATE TABLE message (conversation TEXT, position INTEGER, at INTEGER, payload TEXT,
                 PRIMARY KEY (conversation, position)) WITHOUT ROWID";
    connection.execute_batch(table).unwrap();
    connection
}

fn insert(connection: &Connection, first: u64, messages: impl IntoIterator<Item = Message>) {
    let transaction =
        Transaction::new_unchecked(connection, TransactionBehavior::Immediate).unwrap();
    for (position, message) in (first..).zip(messages) {
        let payload = String::from_utf8(Codec::Json.encode(&message).unwrap()).unwrap();
        let row = params![ID, i64::try_from(position).unwrap(), 1_700_000_000_000_i64, payload];
        transaction.prepare_cached(INSERT).unwrap().execute(row).unwrap();
    }
    transaction.commit().unwrap();
}
