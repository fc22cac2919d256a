//! The tables, their version, and what is done about files that are something else.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::Trouble;

/// "mprm": says that a file is a store of this crate.
const APPLICATION: i32 = 0x6d70_726d;

/// The steps from each version of the tables to the next. A released step is never changed: a new
/// version is a new step.
const STEPS: [&str; 2] = [
    r#"
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
"#,
    // The table is extended and not written anew: to drop it would take along what tables of
    // somebody's own refer to.
    r"
ALTER TABLE conversation ADD COLUMN incarnation INTEGER; -- null: whoever wrote the row did not say
UPDATE conversation SET incarnation = random();
CREATE TABLE slot (
    conversation INTEGER NOT NULL, -- conversation.key
    name         TEXT NOT NULL COLLATE BINARY,
    version      INTEGER NOT NULL,
    content      BLOB NOT NULL, -- last, so that it is not read where slots are listed
    PRIMARY KEY (conversation, name)
) WITHOUT ROWID;
CREATE TABLE appended (
    key     INTEGER PRIMARY KEY, -- conversation.key * 2^32 + its number among these
    id      TEXT NOT NULL COLLATE BINARY,
    first   INTEGER NOT NULL,
    past    INTEGER NOT NULL,
    version INTEGER -- of the slots that it wrote, where it wrote any
);
-- Whoever deletes a conversation, and be it by hand: the next one may have its key.
CREATE TRIGGER conversation_forgotten AFTER DELETE ON conversation BEGIN
    DELETE FROM message WHERE key BETWEEN old.key << 32 AND old.key << 32 | 0xffffffff;
    DELETE FROM appended WHERE key BETWEEN old.key << 32 AND old.key << 32 | 0xffffffff;
    DELETE FROM slot WHERE conversation = old.key;
END;
",
];

/// The version of the tables in a file, 0 where it is empty.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(i64);

/// The version of the tables that is written.
const CURRENT: Version = Version(2);
const _: () = assert!(STEPS.len() == 2, "each step leads to a version");
const EMPTY: Version = Version(0);

impl Version {
    /// Refuses what would have to be written to before it is read.
    pub(super) fn must_be_current(self) -> Result<(), Trouble> {
        let text = match self {
            CURRENT => return Ok(()),
            EMPTY => "the file is empty, and read-only".to_owned(),
            Self(version) => format!(
                "the file is of version {version}, and read-only: whoever may write to it brings it \
                 up to version {} by opening it",
                CURRENT.0
            ),
        };
        Err(Trouble::Refused(text))
    }
}

/// Finds out what a database is, and refuses what is not ours or not yet ours. Reads only.
pub(super) fn look(connection: &Connection) -> Result<Version, Trouble> {
    // All of one moment: somebody else may be creating the tables.
    let outermost = connection.is_autocommit();
    let _transaction = outermost.then(|| connection.unchecked_transaction()).transpose()?;
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    if application == i64::from(APPLICATION) {
        if version > CURRENT.0 {
            let text = format!(
                "the file is of version {version}, and this program knows versions up to {}",
                CURRENT.0
            );
            return Err(Trouble::Refused(text));
        }
        if version > 0 {
            return Ok(Version(version));
        }
    }
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if (application, version, tables) == (0, 0, 0) {
        return Ok(EMPTY);
    }
    let text = "the file is a database of something else; it was left as it is";
    Err(Trouble::Refused(text.to_owned()))
}

/// Creates the tables, or brings them up to date with all that is in them; one process does, the
/// others wait for it. Where that fails the file is as it was.
pub(super) fn prepare(connection: &Connection) -> Result<(), Trouble> {
    let found = look(connection)?;
    if found == CURRENT {
        return Ok(());
    }
    if connection.is_readonly("main")? {
        return found.must_be_current();
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let Version(version) = look(connection)?;
    for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", CURRENT.0)?;
    Ok(transaction.commit()?)
}
