//! The tables and their version. A file of another kind is refused.

use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::failure::TxError;

/// "mprm": marks a file as a store of this crate.
const APPLICATION: i32 = 0x6d70_726d;

const TABLES: &str = r#"
CREATE TABLE conversation (
    key         INTEGER PRIMARY KEY,
    id          TEXT NOT NULL UNIQUE COLLATE BINARY,
    start       INTEGER NOT NULL,
    "end"       INTEGER NOT NULL,
    active      INTEGER NOT NULL,
    incarnation INTEGER NOT NULL,
    system      BLOB -- last, so that it is not read on the way to the others
);
CREATE TABLE message (
    key     INTEGER PRIMARY KEY, -- conversation.key * 2^32 + position
    at      INTEGER NOT NULL,
    payload BLOB NOT NULL
);
CREATE VIEW history AS
SELECT c.id AS id,
       m.key & 0xffffffff AS position,
       strftime('%Y-%m-%d %H:%M:%f', m.at / 1000.0, 'unixepoch') AS at,
       m.payload AS payload,
       m.key AS key -- to sort by: the rows lie in its order
FROM conversation AS c
JOIN message AS m ON m.key >= c.key << 32 AND m.key < (c.key + 1) << 32;
CREATE TABLE slot (
    conversation INTEGER NOT NULL, -- conversation.key
    name         TEXT NOT NULL COLLATE BINARY,
    version      INTEGER NOT NULL,
    content      BLOB NOT NULL, -- last, so that it is not read where slots are listed
    PRIMARY KEY (conversation, name)
) WITHOUT ROWID;
CREATE INDEX slot_name ON slot (name); -- what waits in all conversations is found by it
CREATE TABLE appended (
    key     INTEGER PRIMARY KEY, -- conversation.key * 2^32 + its number among these
    id      TEXT NOT NULL COLLATE BINARY,
    first   INTEGER NOT NULL,
    past    INTEGER NOT NULL,
    version INTEGER -- of the slots that it wrote, if it wrote any
);
CREATE TABLE media (
    conversation INTEGER NOT NULL, -- conversation.key
    hash         BLOB NOT NULL, -- SHA-256
    last         INTEGER NOT NULL, -- the newest position that refers to it
    bytes        BLOB NOT NULL,
    PRIMARY KEY (conversation, hash)
);
-- If a conversation is deleted, be it by hand: the next one may have its key.
CREATE TRIGGER conversation_forgotten AFTER DELETE ON conversation BEGIN
    DELETE FROM message WHERE key BETWEEN old.key << 32 AND old.key << 32 | 0xffffffff;
    DELETE FROM appended WHERE key BETWEEN old.key << 32 AND old.key << 32 | 0xffffffff;
    DELETE FROM slot WHERE conversation = old.key;
    DELETE FROM media WHERE conversation = old.key;
END;
"#;

/// A message's key is its conversation's key times this, plus its position.
pub(super) const MOST_MESSAGES: i64 = 1 << 32;
pub(super) const MOST_CONVERSATIONS: i64 = (1 << 31) - 1;

/// Returns the key of a conversation's first possible message. Neither this nor adding a place
/// overflows: there are at most [`MOST_CONVERSATIONS`], with [`MOST_MESSAGES`] each.
pub(super) fn first_key(conversation: i64) -> i64 {
    conversation.wrapping_mul(MOST_MESSAGES)
}

const VERSION: i64 = 1;

/// Returns whether a database has the tables, and refuses one of another kind or a later version.
/// Only reads.
pub(super) fn look(connection: &Connection) -> Result<bool, TxError> {
    // All in one transaction: another process may be creating the tables.
    let outermost = connection.is_autocommit();
    let _transaction = outermost.then(|| connection.unchecked_transaction()).transpose()?;
    let number = |sql| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
    let application = number("PRAGMA application_id")?;
    let version = number("PRAGMA user_version")?;
    if application == i64::from(APPLICATION) && version > 0 {
        if version == VERSION {
            return Ok(true);
        }
        let text = format!(
            "the file is of version {version}, and this program knows versions up to {VERSION}"
        );
        return Err(TxError::Refused(text));
    }
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    if (application, version, tables) == (0, 0, 0) {
        return Ok(false);
    }
    let text = "the file is a database of something else; it was left as it is";
    Err(TxError::Refused(text.to_owned()))
}

/// Refuses a file without the tables.
pub(super) fn must_be_there(connection: &Connection) -> Result<(), TxError> {
    if look(connection)? {
        return Ok(());
    }
    Err(TxError::Refused("the file is empty, and read-only".to_owned()))
}

/// Creates the tables if there are none. One process does it, and others wait. If it fails, the
/// file is unchanged.
pub(super) fn prepare(connection: &Connection) -> Result<(), TxError> {
    if look(connection)? {
        return Ok(());
    }
    if connection.is_readonly("main")? {
        return must_be_there(connection);
    }
    let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if !look(connection)? {
        transaction.execute_batch(TABLES)?;
        transaction.pragma_update(None, "application_id", APPLICATION)?;
        transaction.pragma_update(None, "user_version", VERSION)?;
    }
    Ok(transaction.commit()?)
}
