//! What a read finds, and the sense that is made of it.

use std::sync::Arc;
use std::time::SystemTime;

use redis::Value;

use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::message::Message;
use crate::record::{Records, Snapshot, Unreadable};
use crate::store::common::{at, no_system};

/// What a read finds, before sense is made of it.
#[derive(Default)]
pub(super) struct Found {
    pub(super) start: u64,
    pub(super) end: u64,
    /// When the conversation began, by which it is told from a later one under the same id.
    pub(super) born: u64,
    system: Option<Vec<u8>>,
    /// Newest first.
    pub(super) rows: Vec<Row>,
}

pub(super) struct Row {
    pub(super) seq: u64,
    at: u64,
    payload: Option<Vec<u8>>,
}

impl Found {
    /// None where it is nothing that this crate writes.
    pub(super) fn parse(reply: Value) -> Option<Self> {
        let [state, rows] = <[Value; 2]>::try_from(array(reply)?).ok()?;
        let [start, end, system, born] = <[Value; 4]>::try_from(array(state)?).ok()?;
        if end == Value::Nil {
            return Some(Self::default()); // there is no such conversation
        }
        let rows = array(rows)?.into_iter().map(Row::parse).collect::<Option<_>>()?;
        let (start, end, born) = (number(&start)?, number(&end)?, number(&born)?);
        Some(Self { start, end, born, system: bytes(system), rows })
    }

    pub(super) fn snapshot(self, before: Option<u64>, n: usize) -> Result<Snapshot> {
        let Self { start, end, system, rows, .. } = self;
        let system = system.map(|payload| codec::decode(&payload).map(Arc::new)).transpose();
        let system = system.map_err(|error| no_system("redis", error))?;
        let mut snapshot = Snapshot { system, start, end, ..Snapshot::default() };
        let end = before.unwrap_or(end).min(end).max(start);
        let start = end.saturating_sub(n as u64).max(start);
        let gone = (end - start).saturating_sub(rows.len() as u64);
        if gone > MOST_GONE {
            let text = format!(
                "redis: {gone} entries are gone, or the state of the conversation is damaged"
            );
            return Err(Error::new(ErrorKind::Storage, "read", text));
        }
        let mut rows =
            rows.into_iter().rev().filter(|row| (start..end).contains(&row.seq)).peekable();
        let mut readable = Vec::with_capacity(rows.size_hint().0);
        let mut missing = None;
        for seq in start..end {
            let Some(row) = rows.next_if(|row| row.seq == seq) else {
                let missing = missing.get_or_insert_with(|| {
                    let text = "redis: the entry is gone; does the server evict keys?";
                    Arc::new(Error::new(ErrorKind::Storage, "read", text))
                });
                snapshot.unreadable.push(Unreadable { seq, error: Arc::clone(missing) });
                continue;
            };
            match row.decode() {
                Ok((at, message)) => readable.push((seq, at, message)),
                Err(error) => snapshot.unreadable.push(Unreadable { seq, error: Arc::new(error) }),
            }
        }
        snapshot.records = Records::from_rows(readable);
        Ok(snapshot)
    }
}

impl Row {
    fn parse(entry: Value) -> Option<Self> {
        let [id, fields] = <[Value; 2]>::try_from(array(entry)?).ok()?;
        let id = bytes(id)?;
        let seq = str::from_utf8(&id).ok()?.split('-').next()?.parse().ok()?;
        let mut row = Self { seq, at: 0, payload: None };
        let mut fields = array(fields)?.into_iter();
        while let (Some(name), Some(value)) = (fields.next(), fields.next()) {
            match bytes(name)?.as_slice() {
                b"at" => row.at = number(&value).unwrap_or(0),
                b"payload" => row.payload = bytes(value),
                _ => {}
            }
        }
        Some(row)
    }

    fn decode(self) -> Result<(SystemTime, Message)> {
        let payload = self.payload.ok_or_else(|| {
            Error::new(ErrorKind::Codec, "read", "redis: the entry has no payload")
        })?;
        Ok((at(self.at), codec::decode(&payload)?))
    }
}

/// So many missing entries are told one by one in an answer; a state that somebody else wrote may lie.
const MOST_GONE: u64 = 1 << 20;

fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        Value::Nil => Some(Vec::new()), // what Redis calls an empty array when nothing was asked for
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    if let Value::BulkString(bytes) = value { Some(bytes) } else { None }
}

fn number(value: &Value) -> Option<u64> {
    redis::from_redis_value_ref(value).ok()
}
