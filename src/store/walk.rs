//! The walks over many conversations of a store, page by page.

use crate::memory::MemoryId;
use crate::record::{Slot, Snapshot};

/// How many ids are read at once.
const PAGE: usize = 256;

/// The walks over a store of one kind. Their code is written once: it completes at once over a
/// blocking store, and is awaited over an async one.
macro_rules! over {
    ($kind:ident, $store:ident, $read:ident, [$($async:tt)*], [$($now:tt)*]) => {
        pub(super) mod $kind {
            use std::mem::replace;

            use super::{PAGE, slots_of, wanted};
            use crate::error::Result;
            use crate::memory::{MemoryId, Read, $read};
            use crate::record::Slot;
            use crate::store::copy::{Copied, Transfer, stopped_at};
            use crate::store::{$store, check_prefix};

            pub(crate) $($async)* fn ids_with_prefix(
                store: &(impl $store + ?Sized),
                prefix: &str,
                after: Option<&MemoryId>,
                n: usize,
            ) -> Result<Vec<MemoryId>> {
                let (mut found, mut after) = (Vec::new(), after.cloned());
                while found.len() < n {
                    let page = store.ids(after.as_ref(), PAGE)$($now)*?;
                    let wanted = page.iter().filter(|id| id.as_str().starts_with(prefix));
                    found.extend(wanted.take(n - found.len()).cloned());
                    if page.len() < PAGE {
                        break;
                    }
                    after = page.into_iter().last();
                }
                Ok(found)
            }

            pub(crate) $($async)* fn slots_with_prefix(
                store: &(impl $store + ?Sized),
                prefix: &str,
                names: &str,
                after: Option<(&MemoryId, &str)>,
                n: usize,
            ) -> Result<Vec<(MemoryId, Slot)>> {
                // The list continues after the conversation `last`; or first in it, after the slot
                // `behind`, if it has the prefix.
                let within = after.filter(|(id, _)| id.as_str().starts_with(prefix));
                let (mut last, mut behind) = (after.map(|it| it.0.clone()), within.map(|it| it.1));
                let mut found = Vec::new();
                loop {
                    let ids = match (&last, behind) {
                        (Some(id), Some(_)) => vec![id.clone()],
                        _ => store.ids_with_prefix(prefix, last.as_ref(), PAGE)$($now)*?,
                    };
                    for id in &ids {
                        let memory = store.memory(id.clone())?;
                        if found.len() < n && memory.limits().has_slots() {
                            let slots = memory.slots()$($now)*?;
                            let mut names = wanted(slots, names, behind);
                            // Others may have removed some of them meanwhile: the next ones are
                            // read then.
                            while found.len() < n && !names.is_empty() {
                                let rest = names.split_off(names.len().min(n - found.len()));
                                let read = Read::newest(0).slots(replace(&mut names, rest));
                                let snapshot = memory.read_with(&read)$($now)*?;
                                found.extend(slots_of(id, &snapshot));
                            }
                        }
                    }
                    last = ids.into_iter().last();
                    if last.is_none() || found.len() >= n {
                        return Ok(found);
                    }
                    behind = None;
                }
            }

            pub(crate) $($async)* fn delete_prefix(
                store: &(impl $store + ?Sized),
                prefix: &str,
            ) -> Result<u64> {
                check_prefix(prefix)?;
                let (mut deleted, mut after) = (0, None);
                loop {
                    let page = store.ids_with_prefix(prefix, after.as_ref(), PAGE)$($now)*?;
                    for id in &page {
                        deleted += u64::from(store.delete(id)$($now)*?);
                    }
                    if page.len() < PAGE {
                        return Ok(deleted);
                    }
                    after = page.into_iter().last();
                }
            }

            pub(crate) $($async)* fn copy_to(
                from: &(impl $store + ?Sized),
                to: &(impl $store + ?Sized),
                mut filter: impl FnMut(&MemoryId) -> bool,
                mut progress: impl FnMut(&Copied),
            ) -> Result<Copied> {
                let (mut copied, mut after) = (Copied::default(), None);
                loop {
                    let ids = from.ids(after.as_ref(), PAGE)$($now)*?;
                    for id in &ids {
                        if filter(id) {
                            let done = copy(from, to, id, &mut copied, &mut progress)$($now)*;
                            done.map_err(|error| stopped_at(id, error))?;
                        }
                    }
                    if ids.len() < PAGE {
                        return Ok(copied);
                    }
                    after = ids.into_iter().last();
                }
            }

            $($async)* fn copy(
                from: &(impl $store + ?Sized),
                to: &(impl $store + ?Sized),
                id: &MemoryId,
                copied: &mut Copied,
                progress: &mut impl FnMut(&Copied),
            ) -> Result<()> {
                let (source, target) = (from.memory(id.clone())?, to.memory(id.clone())?);
                let head = $read(&*source, Read::newest(0))$($now)*?;
                // `None` if it was deleted after it was listed.
                let Some(info) = from.info(id)$($now)*? else { return Ok(()) };
                copied.id = Some(id.clone());
                let mut transfer = Transfer::new(id.clone(), head, info, target.limits());
                transfer.check()?;
                progress(copied);
                to.restore(id, transfer.head.start, transfer.head.incarnation)$($now)*?;
                while let Some((wanted, n)) = transfer.next() {
                    let page = source.read(Some(wanted.end), n)$($now)*?;
                    for mut append in transfer.page(&wanted, &page)? {
                        let positions = target.append_with(&mut append)$($now)*?.positions;
                        copied.records += positions.end - positions.start;
                        progress(copied);
                    }
                }
                for mut append in transfer.closing()? {
                    target.append_with(&mut append)$($now)*?;
                }
                copied.conversations += 1;
                progress(copied);
                Ok(())
            }
        }
    };
}

over!(at_once, ChatMemoryStore, read_all_slots, [], []);
#[cfg(feature = "async")]
over!(awaited, AsyncChatMemoryStore, read_all_slots_async, [async], [.await]);

/// Returns the slots whose names begin with `names` and come after `after`.
fn wanted<T>(slots: Vec<(String, T)>, names: &str, after: Option<&str>) -> Vec<String> {
    let wanted = |name: &String| name.starts_with(names) && after.is_none_or(|it| **name > *it);
    slots.into_iter().map(|(name, _)| name).filter(wanted).collect()
}

/// Returns the slots that were read, in the order of their names.
fn slots_of(id: &MemoryId, snapshot: &Snapshot) -> impl Iterator<Item = (MemoryId, Slot)> {
    let mut slots = snapshot.slots().to_vec();
    slots.sort_unstable_by(|one, other| one.name().cmp(other.name()));
    slots.into_iter().map(|slot| (id.clone(), slot))
}
