//! The reply to a read, and the snapshot made from it.

use std::cell::LazyCell;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use redis::Value;

use crate::codec;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::Read;
use crate::message::Message;
use crate::record::{Incarnation, Slot, SlotVersion, Snapshot};
use crate::store::common::{self, Rows};
use crate::store::read_rows::ReadRows;

/// The reply to a read, before messages are decoded.
#[derive(Default)]
pub(super) struct Reply {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `None` if there is no conversation.
    pub(super) incarnation: Option<Incarnation>,
    system: Option<Vec<u8>>,
    /// Newest first.
    pub(super) rows: Vec<Row>,
    slots: Vec<Slot>,
    /// The rows of single positions, oldest first.
    single: Vec<Row>,
}

pub(super) struct Row {
    pub(super) position: u64,
    at: u64,
    payload: Option<Vec<u8>>,
}

impl Reply {
    /// Parses the server's reply; `None` if it is not in this crate's format.
    pub(super) fn parse(reply: Value, names: &[&str]) -> Option<Self> {
        let mut parts = array(reply)?.into_iter();
        let [start, end, system, incarnation] =
            <[Value; 4]>::try_from(array(parts.next()?)?).ok()?;
        if end == Value::Nil {
            return Some(Self::default()); // there is no such conversation
        }
        let mut found = Self {
            start: number(&start)?,
            end: number(&end)?,
            incarnation: Some(stamp(incarnation)?),
            system: bytes(system),
            rows: rows(parts.next()?)?,
            ..Self::default()
        };
        if !names.is_empty() {
            let (contents, versions) = (array(parts.next()?)?, array(parts.next()?)?);
            let both = contents.into_iter().zip(versions).zip(names);
            // One of the two may have been evicted alone.
            let slots = both.filter(|(both, _)| both.0 != Value::Nil && both.1 != Value::Nil);
            let slot = |((content, version), name): ((Value, Value), &&str)| {
                Some(Slot::new(*name, stamp::<SlotVersion>(version)?, bytes(content)?))
            };
            found.slots = slots.map(slot).collect::<Option<_>>()?;
        }
        for stretch in parts {
            found.single.extend(rows(stretch)?);
        }
        Some(found)
    }

    pub(super) fn decode(self, read: &Read) -> Result<ReadRows> {
        let Self { start, end, incarnation, system, rows, slots, single } = self;
        let system = common::system("redis", system.map(|payload| codec::decode(&payload)))?;
        let last = read.before.unwrap_or(end).min(end).max(start);
        let first = last.saturating_sub(read.n as u64).max(start);
        let mut newest = Rows::default();
        add_rows(&mut newest, rows.into_iter().rev().collect(), first..last)?;
        let (mut single, mut picked) = (single.into_iter().peekable(), Rows::default());
        for stretch in read.stretches(start..end) {
            let of_it = std::iter::from_fn(|| single.next_if(|row| row.position < stretch.end));
            add_rows(&mut picked, of_it.collect(), stretch.clone())?;
        }
        let snapshot = Snapshot { system, start, end, incarnation, ..Snapshot::default() };
        Ok(ReadRows { snapshot, newest, picked, slots })
    }
}

/// Adds the rows of these positions, in ascending order. A position without a row is reported as
/// unreadable.
fn add_rows(all: &mut Rows, rows: Vec<Row>, positions: Range<u64>) -> Result<()> {
    let gone = (positions.end - positions.start).saturating_sub(rows.len() as u64);
    if gone > MOST_GONE {
        let text =
            format!("redis: {gone} entries are gone, or the state of the conversation is damaged");
        return Err(Error::new(ErrorKind::Storage, "read", text));
    }
    let missing = LazyCell::new(|| {
        let text = "redis: the entry is gone; does the server evict keys?";
        Arc::new(Error::new(ErrorKind::Storage, "read", text))
    });
    let mut rows = rows.into_iter().filter(|row| positions.contains(&row.position)).peekable();
    for position in positions.clone() {
        match rows.next_if(|row| row.position == position) {
            Some(row) => all.push(position, row.at, row.decode().map_err(Arc::new)),
            None => all.push(position, 0, Err(Arc::clone(&missing))),
        }
    }
    Ok(())
}

impl Row {
    fn parse(entry: Value) -> Option<Self> {
        let [id, fields] = <[Value; 2]>::try_from(array(entry)?).ok()?;
        let id = bytes(id)?;
        let position = str::from_utf8(&id).ok()?.split('-').next()?.parse().ok()?;
        let mut row = Self { position, at: 0, payload: None };
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

    fn decode(self) -> Result<Message> {
        let payload = self.payload.ok_or_else(|| {
            Error::new(ErrorKind::Codec, "read", "redis: the entry has no payload")
        })?;
        codec::decode(&payload)
    }
}

/// The most missing entries that are reported one by one, since a state written by another program
/// may be wrong.
const MOST_GONE: u64 = 1 << 20;

fn rows(value: Value) -> Option<Vec<Row>> {
    array(value)?.into_iter().map(Row::parse).collect()
}

fn stamp<T: FromStr>(value: Value) -> Option<T> {
    str::from_utf8(&bytes(value)?).ok()?.parse().ok()
}

fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(values) => Some(values),
        Value::Nil => Some(Vec::new()), // nil is an empty array: nothing was asked for
        _ => None,
    }
}

fn bytes(value: Value) -> Option<Vec<u8>> {
    if let Value::BulkString(bytes) = value { Some(bytes) } else { None }
}

fn number(value: &Value) -> Option<u64> {
    redis::from_redis_value_ref(value).ok()
}
