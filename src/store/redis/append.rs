//! Appends: the call of the script, and its result.

use std::borrow::Cow;
use std::time::SystemTime;

use redis::Value;

use super::link::APPEND;
use super::{Shared, parse, unexpected};
use crate::error::{Error, Result};
use crate::memory::{Append, Appended, Expected, Limits, MemoryId, conflict};
use crate::record::{Incarnation, SlotVersion, millis};
use crate::store::common::{appended, times_of_records};
use crate::store::exists;
use crate::store::payloads::Payloads;

/// The most bytes that a server takes in one piece, unless its `proto-max-bulk-len` says otherwise.
const MOST: usize = 512 << 20;

/// How many append ids a conversation keeps. The script keeps twice that: an id and its outcome.
const IDS: usize = 64;

pub(super) const LIMITS: Limits = Limits { message: MOST, batch: MOST, slot: MOST, ids: IDS };

/// A call of the script that appends to or restores a conversation.
pub(super) struct ScriptCall<'a> {
    pub(super) append: &'a Append,
    /// For a restore: the first position, and the incarnation.
    pub(super) restored: Option<(u64, Incarnation)>,
}

impl ScriptCall<'_> {
    pub(super) async fn make(
        &self,
        operation: &'static str,
        shared: &Shared,
        id: &MemoryId,
    ) -> Result<Appended> {
        let version = SlotVersion::random();
        let args = self.args(shared, id, version)?;
        let keys = shared.keys.change(id);
        match shared.link.change(operation, &APPEND, &keys, &args.0).await? {
            Value::Int(why) => Err(self.refused(id, why)),
            done => {
                let done: String = parse(operation, done)?;
                self.appended(&done, version).ok_or_else(|| unexpected(operation))
            }
        }
    }

    /// Returns the arguments in the script's order.
    fn args(&self, shared: &Shared, id: &MemoryId, version: SlotVersion) -> Result<Args<'_>> {
        let payloads = Payloads::of("redis", shared.encoding, &self.append.messages)?;
        self.check_size(&payloads)?;
        let Payloads { system, messages, beside } = payloads;
        let begins = self.restored.map_or_else(Incarnation::random, |(_, incarnation)| incarnation);
        let mut args = Args(Vec::with_capacity(messages.len() + 16));
        args.text(id.as_str().to_owned());
        args.bytes(self.effect().as_bytes());
        args.optional(self.append.expected);
        args.optional(Some(millis(SystemTime::now())));
        args.optional(shared.ttl);
        args.0.push(system.unwrap_or_default().into()); // no payload is empty
        args.optional(Some(begins));
        args.optional(Some(messages.len()));
        args.0.extend(messages.into_iter().map(Cow::Owned));
        args.optional(Some(beside.len()));
        for (sha256, (place, bytes)) in beside {
            args.0.push(Cow::Owned(sha256.0.to_vec()));
            args.optional(Some(place));
            args.0.push(Cow::Owned(bytes));
        }
        let append = self.append;
        args.bytes(append.id.as_deref().unwrap_or_default().as_bytes());
        args.optional(self.restored.map(|(start, _)| start));
        args.optional(append.active.map(millis));
        args.optional(append.since.and_then(|seen| seen.incarnation));
        args.optional(append.since.and_then(|seen| seen.newest));
        args.optional(append.writes_slots().then_some(version));
        let times = times_of_records(append);
        args.optional(Some(times.clone().count()));
        times.for_each(|at| args.optional(Some(at)));
        for change in &append.slots {
            args.bytes(change.name.as_bytes());
            args.bytes(if change.content.is_some() { b"set" } else { b"remove" });
            args.text(match change.expected {
                Expected::Any => String::new(),
                Expected::Absent => "-".to_owned(),
                Expected::Is(version) => version.to_string(),
            });
            args.bytes(change.content.as_deref().unwrap_or_default());
        }
        Ok(args)
    }

    fn effect(&self) -> &'static str {
        if self.restored.is_some() || self.append.creates() {
            "begins"
        } else if self.append.is_empty() {
            "nothing"
        } else {
            "changes"
        }
    }

    /// Refuses a batch that is too large: the server would close the connection.
    fn check_size(&self, payloads: &Payloads) -> Result<()> {
        let bytes: usize = payloads.sizes(&self.append.slots).sum();
        if bytes > MOST {
            let text = format!("redis: the batch has {bytes} bytes, and may have {MOST}");
            return Err(Error::invalid("append", text));
        }
        Ok(())
    }

    fn appended(&self, done: &str, version: SlotVersion) -> Option<Appended> {
        let before = done.strip_prefix('\t');
        let mut words = before.unwrap_or(done).split(' ');
        let mut position = || words.next()?.parse::<u64>().ok();
        let positions = position()?..position()?;
        let version = match (before, words.next()) {
            (Some(_), None | Some("")) => None,
            (Some(_), Some(version)) => Some(version.parse().ok()?),
            (None, _) => self.append.writes_slots().then_some(version),
        };
        Some(Appended { repeated: before.is_some(), ..appended(positions, version) })
    }

    /// Returns the error for the number with which the script refused the change.
    fn refused(&self, id: &MemoryId, why: i64) -> Error {
        if self.restored.is_some() {
            return exists("redis", id);
        }
        let slot = why
            .checked_neg()
            .and_then(|i| self.append.slots.get(usize::try_from(i).ok()?.checked_sub(2)?));
        match (slot, u64::try_from(why)) {
            (Some(slot), _) => slot.conflict(),
            (None, Ok(end)) => conflict("redis: ", self.append.expected.unwrap_or_default(), end),
            (None, Err(_)) => {
                // The only other reason is that the conversation that was seen no longer exists.
                // Return the error of an append to an empty one.
                let seen = Append { since: self.append.since, ..Append::default() };
                seen.check_on_nothing().err().unwrap_or_else(|| unexpected("append"))
            }
        }
    }
}

/// The arguments of a script. Numbers are sent as texts, and missing values as empty texts.
pub(super) struct Args<'a>(Vec<Cow<'a, [u8]>>);

impl<'a> Args<'a> {
    fn bytes(&mut self, bytes: &'a [u8]) {
        self.0.push(Cow::Borrowed(bytes));
    }

    fn text(&mut self, text: String) {
        self.0.push(Cow::Owned(text.into_bytes()));
    }

    fn optional(&mut self, value: Option<impl ToString>) {
        self.text(value.map_or_else(String::new, |value| value.to_string()));
    }
}
