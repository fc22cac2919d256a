//! A read with all slots, whatever their names are.

#[cfg(feature = "async")]
use super::AsyncChatMemory;
use super::{ChatMemory, Read};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Snapshot;

/// How often a conversation is read again because others have written slots of new names.
const TRIES: u32 = 64;

macro_rules! over {
    ($name:ident, $memory:ident, [$($async:tt)*], [$($now:tt)*]) => {
        /// Reads this, and all slots of the same moment; none if the memory has no slots.
        ///
        /// The names are listed before and after the read: a slot that was written in between
        /// belongs to records that were read.
        pub(crate) $($async)* fn $name(
            memory: &(impl $memory + ?Sized),
            mut read: Read,
        ) -> Result<Snapshot> {
            if !memory.limits().has_slots() {
                read.slots.clear();
                return memory.read_with(&read)$($now)*;
            }
            let mut seen = None;
            for _ in 0..TRIES {
                let names = memory.slots()$($now)*?.into_iter().map(|(name, _)| name);
                let new: Vec<_> = names.filter(|name| !read.slots.contains(name)).collect();
                if new.is_empty() && let Some(seen) = seen {
                    return Ok(seen);
                }
                read.slots.extend(new);
                seen = Some(memory.read_with(&read)$($now)*?);
            }
            let text = "others write slots of new names all the time";
            Err(Error::new(ErrorKind::Storage, "read", text))
        }
    };
}

over!(read_all_slots, ChatMemory, [], []);
#[cfg(feature = "async")]
over!(read_all_slots_async, AsyncChatMemory, [async], [.await]);
