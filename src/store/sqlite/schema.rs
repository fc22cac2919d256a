//! The tables, their version, and what is done about files that are something else.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::Trouble;

/// "mprm": says that a file is a store of this crate.
const APPLICATION: i32 = 0x6d70_726d;

/// What leads from each version of the tables to the next. A released step is never changed: a new
/// version is a new step.
const STEPS: [&str; 1] = [r#"
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
"#];

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Found(i64);

/// What this version writes.
const CURRENT: Found = Found(1);
const _: () = assert!(STEPS.len() == 1, "each step leads to a version");
const EMPTY: Found = Found(0);

impl Found {
    pub(super) fn must_be_current(self) -> Result<(), Trouble> {
        if self == CURRENT {
            return Ok(());
        }
        Err(Trouble::Refused(
            "the file is empty or of an earlier version, and read-only".to_owned(),
        ))
    }
}

/// Finds out what a database is, and refuses what is not ours or not yet ours. Reads only.
pub(super) fn look(connection: &Connection) -> Result<Found, Trouble> {
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
            return Ok(Found(version));
        }
    }
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if (application, version, tables) == (0, 0, 0) {
        return Ok(EMPTY);
    }
    let text = "the file is a database of something else; it was left as it is";
    Err(Trouble::Refused(text.to_owned()))
}

/// Creates the tables, or brings them up to date; one process does, the others wait for it.
pub(super) fn prepare(connection: &Connection) -> Result<(), Trouble> {
    if look(connection)? == CURRENT {
        return Ok(());
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    let Found(version) = look(connection)?;
    for step in STEPS.iter().skip(usize::try_from(version).unwrap_or(0)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    transaction.pragma_update(None, "user_version", CURRENT.0)?;
    Ok(transaction.commit()?)
}
