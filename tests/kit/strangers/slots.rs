//! Faults in slots.

use memory_prompt::memory::{Append, Expected, Limits};
use memory_prompt::record::{Slot, SlotVersion};
use memory_prompt::{Error, ErrorKind};

use super::shelf::{Book, Conversation, Strange, failed};
use super::{caught, pause};

/// A memory whose versions are made by this, of the slot and how often it was written.
fn versions(
    made: impl Fn(&mut Conversation, &str, &[u8]) -> u64 + Send + Sync + 'static,
) -> Strange {
    Strange::default().append(move |book, append| {
        let mut appended = book.write(append)?;
        if appended.repeated || appended.version.is_none() {
            return Ok(appended);
        }
        book.found(|it| {
            // One version for all slots of an append, made from the first.
            let mut bits = None;
            for change in append.slots.iter().filter(|change| change.content.is_some()) {
                let content = change.content.clone().unwrap_or_default();
                let bits = *bits.get_or_insert_with(|| made(it, &change.name, &content));
                let version = SlotVersion::from_bits(bits);
                let slot = Slot::new(change.name.as_str(), version, content);
                it.slots.insert(change.name.clone(), slot);
                appended.version = Some(version);
            }
            if let Some(known) =
                it.known.back_mut().filter(|known| append.id.as_ref() == Some(&known.0))
            {
                known.1.version = appended.version;
            }
        });
        Ok(appended)
    })
}

fn hash(content: &[u8]) -> u64 {
    content.iter().fold(14_695_981_039_346_656_037, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(1_099_511_628_211)
    })
}

#[test]
fn a_version_is_a_hash_of_the_content() {
    // An `ETag`: the same content comes again, and so does its version.
    caught(versions(|_, _, content| hash(content)));
}

/// A memory that counts versions in a place that something takes away: a row of each slot, of each
/// conversation.
fn counted(key: impl Fn(&Book, &str) -> String + Send + Sync + 'static) -> Strange {
    Strange::default().append(move |book, append| {
        let mut appended = book.write(append)?;
        for change in append.slots.iter().filter(|it| it.content.is_none()) {
            let row = format!("{}/{}", book.key, change.name);
            book.data().notes.remove(&row);
        }
        let name = append.slots.iter().find(|it| it.content.is_some()).map(|it| it.name.clone());
        let Some(name) = name.filter(|_| !appended.repeated) else { return Ok(appended) };
        let key = key(book, &name);
        let count = {
            let mut data = book.data();
            let count = data.notes.entry(key).or_insert(0);
            *count += 1;
            *count
        };
        let version = SlotVersion::from_bits(count);
        book.found(|it| {
            for change in append.slots.iter().filter(|it| it.content.is_some()) {
                let content = change.content.as_deref().unwrap_or_default();
                let slot = Slot::new(change.name.as_str(), version, content);
                it.slots.insert(change.name.clone(), slot);
            }
            if let Some(known) = it.known.back_mut().filter(|it| append.id.as_ref() == Some(&it.0))
            {
                known.1.version = Some(version);
            }
        });
        appended.version = Some(version);
        Ok(appended)
    })
}

fn forget(data: &mut super::shelf::Data, prefix: &str) {
    data.notes.retain(|key, _| !key.starts_with(prefix));
}

#[test]
fn clear_takes_the_counter_of_the_conversation_along() {
    caught(counted(|book, _| format!("{}/", book.key)).clear(|book| {
        book.wipe()?;
        forget(&mut book.data(), &format!("{}/", book.key));
        Ok(())
    }));
}

#[test]
fn the_same_content_is_no_write() {
    // "Nothing changed", so the version stays.
    caught(Strange::default().append(|book, append| {
        let old = book.found(|it| it.slots.clone()).unwrap_or_default();
        let mut appended = book.write(append)?;
        if appended.repeated {
            return Ok(appended);
        }
        book.found(|it| {
            for (name, slot) in &mut it.slots {
                if let Some(old) = old.get(name).filter(|old| old.content() == slot.content()) {
                    if append.slots.iter().any(|change| change.name == *name) {
                        appended.version = Some(old.version());
                    }
                    *slot = old.clone();
                }
            }
        });
        Ok(appended)
    }));
}

#[test]
fn clear_keeps_the_slots() {
    // A table of its own, of which `clear` does not know.
    caught(Strange::default().clear(|book| {
        let slots = book.found(|it| it.slots.clone());
        book.wipe()?;
        book.found(|it| it.slots = slots.unwrap_or_default());
        Ok(())
    }));
}

#[test]
fn clear_keeps_the_system_message() {
    caught(Strange::default().clear(|book| {
        let system = book.found(|it| it.system.clone()).flatten();
        book.wipe()?;
        book.found(|it| it.system = system);
        Ok(())
    }));
}

#[test]
fn evicting_all_takes_the_slots() {
    // A conversation without messages is cleaned up.
    caught(Strange::default().evict(|book, before| {
        let gone = book.cut(before)?;
        book.found(|it| it.rows.is_empty().then(|| it.slots.clear()));
        Ok(gone)
    }));
}

#[test]
fn evicting_all_takes_the_system_message() {
    caught(Strange::default().evict(|book, before| {
        let gone = book.cut(before)?;
        book.found(|it| it.system = it.system.take().filter(|_| !it.rows.is_empty()));
        Ok(gone)
    }));
}

#[test]
fn delete_leaves_the_slots() {
    // A table without a foreign key: the next conversation under this id finds them.
    caught(
        Strange::default()
            .delete(|shelf, key| {
                let mut data = shelf.data.lock();
                let gone = data.all.remove(key);
                let is_gone = gone.is_some();
                data.graves.extend(gone.map(|gone| (key.to_owned(), gone)));
                Ok(is_gone)
            })
            .append(|book, append| {
                let appended = book.write(append)?;
                let grave = book.data().graves.remove(&book.key);
                book.found(|it| {
                    for (name, slot) in grave.map(|it| it.slots).unwrap_or_default() {
                        it.slots.entry(name).or_insert(slot);
                    }
                });
                Ok(appended)
            }),
    );
}

/// A memory that expects something else.
fn expecting(other: impl Fn(Expected, bool, bool) -> Expected + Send + Sync + 'static) -> Strange {
    Strange::default().append(move |book, append| {
        let slots = append.slots.clone();
        for change in &mut append.slots {
            let is_there = book.found(|it| it.slots.contains_key(&change.name)).unwrap_or(false);
            change.expected = other(change.expected, is_there, change.content.is_some());
        }
        let appended = book.write(append);
        append.slots = slots;
        appended
    })
}

#[test]
fn an_absent_slot_is_overwritten() {
    // `Absent` is taken for "new or not, I don't care".
    caught(expecting(|expected, _, _| match expected {
        Expected::Absent => Expected::Any,
        expected => expected,
    }));
}

#[test]
fn a_removed_slot_is_there() {
    // A tombstone: who expects nothing there is told that there is something.
    caught(Strange::default().append(|book, append| {
        for change in &append.slots {
            let tomb = format!("{}/{}", book.key, change.name);
            if change.expected == Expected::Absent && book.data().notes.contains_key(&tomb) {
                return Err(change.conflict());
            }
        }
        let appended = book.write(append)?;
        for change in &append.slots {
            let tomb = format!("{}/{}", book.key, change.name);
            let mut data = book.data();
            if change.content.is_none() {
                data.notes.insert(tomb, 1);
            } else {
                data.notes.remove(&tomb);
            }
        }
        Ok(appended)
    }));
}

#[test]
fn slots_are_written_before_the_messages() {
    // The other way round.
    caught(Strange::default().append(|book, append| {
        let slots = append.slots.clone();
        match book.write(append) {
            Err(error)
                if matches!(error.kind(), ErrorKind::Conflict { .. }) && !slots.is_empty() =>
            {
                let mut only = Append::default();
                only.slots = slots;
                let _ = book.write(&mut only);
                Err(error)
            }
            appended => appended,
        }
    }));
}

#[test]
fn only_the_first_slot_is_compared() {
    caught(Strange::default().append(|book, append| {
        let slots = append.slots.clone();
        append.slots.iter_mut().skip(1).for_each(|change| change.expected = Expected::Any);
        let appended = book.write(append);
        append.slots = slots;
        appended
    }));
}

#[test]
fn a_slot_is_compared_and_then_written() {
    // Two statements without a lock around them.
    caught(Strange::default().append(|book, append| {
        if append.slots.is_empty() || append.id.is_some() {
            return book.write(append);
        }
        let checked = book.found(|it| it.check(append));
        checked.unwrap_or_else(|| append.check_on_nothing())?;
        pause();
        let slots = append.slots.clone();
        append.slots.iter_mut().for_each(|change| change.expected = Expected::Any);
        let appended = book.write(append);
        append.slots = slots;
        appended
    }));
}

#[test]
fn a_slot_alone_is_no_activity() {
    caught(Strange::default().append(|book, append| {
        let active = book.found(|it| it.active);
        let appended = book.write(append)?;
        if appended.positions.is_empty() && !append.slots.is_empty() && append.active.is_none() {
            book.found(|it| it.active = active.unwrap_or(it.active));
        }
        Ok(appended)
    }));
}

#[test]
fn an_id_begins_no_conversation_by_a_removal() {
    caught(Strange::default().append(|book, append| {
        let writes = append.slots.iter().any(|change| change.content.is_some());
        let is_there = book.found(|_| ()).is_some();
        if !is_there && !writes && append.messages.is_empty() {
            let id = append.id.take();
            let appended = book.write(append);
            append.id = id;
            return appended;
        }
        book.write(append)
    }));
}

/// A memory that keeps slots under other names.
fn named(kept: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    let kept = std::sync::Arc::new(kept);
    let asked = std::sync::Arc::clone(&kept);
    Strange::default()
        .append(move |book, append| {
            append.check(&Limits::default().with_slot(usize::MAX))?;
            let slots = append.slots.clone();
            append.slots.iter_mut().for_each(|change| change.name = kept(&change.name));
            let appended = book.write(append);
            append.slots = slots;
            appended
        })
        .read(move |book, read| {
            read.check()?;
            let mut other = read.clone();
            other.slots = read.slots.iter().map(|name| asked(name)).collect();
            let snapshot = book.look(&other)?;
            // They are handed out under the names by which they were asked for.
            let once =
                read.slots.iter().enumerate().filter(|(i, name)| !read.slots[..*i].contains(name));
            let slots: Vec<_> = once
                .filter_map(|(_, name)| {
                    let found = snapshot.slot(&asked(name))?;
                    Some(Slot::new(name.as_str(), found.version(), found.content()))
                })
                .collect();
            let mut plain = read.clone();
            plain.slots.clear();
            Ok(book.look(&plain)?.with_slots(slots))
        })
}

#[test]
fn names_are_padded() {
    // `PAD SPACE`: "a" and "a " are one.
    caught(named(|name| {
        if name.trim_end().is_empty() { name.to_owned() } else { name.trim_end().to_owned() }
    }));
}

#[test]
fn names_are_paths() {
    // A file for each slot: `/` goes to `_`.
    caught(named(|name| name.replace(['/', '\\', ':'], "_")));
}

#[test]
fn names_of_256_bytes_are_refused() {
    // `varchar(255)`.
    caught(Strange::default().append(|book, append| {
        if append.slots.iter().any(|change| change.name.len() > 255) {
            return Err(failed("append", "value too long for type varchar(255)"));
        }
        book.write(append)
    }));
}

trait Sorted {
    fn sort(&mut self);
}

impl Sorted for Vec<(String, SlotVersion)> {
    fn sort(&mut self) {
        self.sort_by(|a, b| a.0.cmp(&b.0));
    }
}

#[test]
fn names_are_listed_as_in_a_dictionary() {
    // `ORDER BY` in the collation of a language: "B" stands behind "a".
    caught(Strange::default().slots(|book| {
        let mut names = book.names()?;
        names.sort_by_key(|it| it.0.to_lowercase());
        Ok(names)
    }));
}

#[test]
fn names_are_listed_by_utf_16() {
    // As Java and JavaScript compare: an emoji stands before U+FFFD.
    caught(Strange::default().slots(|book| {
        let mut names = book.names()?;
        names.sort_by_key(|it| it.0.encode_utf16().collect::<Vec<_>>());
        Ok(names)
    }));
}

#[test]
fn removed_slots_are_listed() {
    // Tombstones without a filter.
    caught(
        Strange::default()
            .append(|book, append| {
                let old = book.found(|it| it.slots.clone()).unwrap_or_default();
                let appended = book.write(append)?;
                let mut data = book.data();
                for change in append.slots.iter().filter(|change| change.content.is_none()) {
                    if let Some(old) = old.get(&change.name) {
                        let key = format!("{}\n{}", book.key, change.name);
                        data.notes.insert(key, old.version().to_bits());
                    }
                }
                Ok(appended)
            })
            .slots(|book| {
                let mut names = book.names()?;
                let prefix = format!("{}\n", book.key);
                for (key, bits) in &book.data().notes {
                    if let Some(name) = key.strip_prefix(&prefix)
                        && names.iter().all(|it| it.0 != name)
                    {
                        names.push((name.to_owned(), SlotVersion::from_bits(*bits)));
                    }
                }
                names.sort();
                Ok(names)
            }),
    );
}

/// A memory that keeps other content.
fn content(kept: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static) -> Strange {
    Strange::default().append(move |book, append| {
        let slots = append.slots.clone();
        for change in &mut append.slots {
            change.content = change.content.as_deref().and_then(&kept);
        }
        let appended = book.write(append);
        append.slots = slots;
        appended
    })
}

#[test]
fn an_empty_slot_is_none() {
    // Oracle: the empty text is null.
    caught(content(|bytes| Some(bytes.to_vec()).filter(|it| !it.is_empty())));
}

#[test]
fn a_slot_of_the_largest_size_is_refused() {
    // `>=` in place of `>`.
    let limits = Limits::default().with_slot(4096).with_ids(64);
    caught(Strange::default().limits(limits).append(|book, append| {
        if append.slots.iter().any(|it| it.content.as_ref().is_some_and(|it| it.len() >= 4096)) {
            return Err(Error::new(ErrorKind::Invalid, "append", "the slot is too large"));
        }
        book.write(append)
    }));
}

#[test]
fn a_slot_beyond_the_largest_size_is_cut() {
    // The limits are told, and not held.
    let limits = Limits::default().with_slot(4096).with_ids(64);
    caught(Strange::default().limits(limits).append(|book, append| {
        let slots = append.slots.clone();
        for content in append.slots.iter_mut().filter_map(|change| change.content.as_mut()) {
            content.truncate(4096);
        }
        let appended = book.write(append);
        append.slots = slots;
        appended
    }));
}

#[test]
fn the_slot_of_the_system_message_can_be_written() {
    // `check` is forgotten: the slot goes where the system message is.
    caught(Strange::default().append(|book, append| {
        let (system, slots): (Vec<_>, Vec<_>) =
            append.slots.iter().cloned().partition(|change| change.name == "system");
        let all = std::mem::replace(&mut append.slots, slots);
        let appended = book.write(append);
        append.slots = all;
        for change in system {
            let text = String::from_utf8_lossy(&change.content.unwrap_or_default()).into_owned();
            let system = memory_prompt::Message::system(text);
            book.found(|it| it.system = Some(system.into()));
        }
        appended
    }));
}

#[test]
fn any_text_is_a_name() {
    // `check` is forgotten: what is not valid is removed from the name.
    caught(Strange::default().append(|book, append| {
        let slots = append.slots.clone();
        for change in &mut append.slots {
            if change.name.is_empty() || change.name.contains(char::is_control) {
                change.name = change.name.replace(char::is_control, "") + "_";
            }
        }
        let appended = book.write(append);
        append.slots = slots;
        appended
    }));
}
