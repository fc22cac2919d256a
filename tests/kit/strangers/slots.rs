//! Faults in slots.

use std::sync::Arc;

use memory_prompt::memory::{Append, Expected, Limits, Read};
use memory_prompt::record::{Slot, SlotVersion};
use memory_prompt::{Error, ErrorKind, Message};

use super::shelf::{Book, Strange, failed, hash};
use super::{any_law, burying, laws, otherwise, pause};

/// A memory whose versions are made by this, of a slot and its content. All slots of an append have
/// one, made from the first.
fn versions(
    fault: &'static str,
    made: impl Fn(&Book, &str, &[u8]) -> u64 + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault).then(move |book, append, appended| {
        for removed in append.slots.iter().filter(|it| it.content.is_none()) {
            book.data().notes.remove(&format!("{}/{}", book.key, removed.name));
        }
        let written =
            || append.slots.iter().filter_map(|it| Some((&it.name, it.content.as_ref()?)));
        let Some((name, content)) = written().next().filter(|_| !appended.repeated) else { return };
        let version = SlotVersion::from_bits(made(book, name, content));
        appended.version = Some(version);
        book.found(|it| {
            for (name, content) in written() {
                it.slots.insert(name.clone(), Slot::new(name.as_str(), version, content));
            }
            let known = it.known.back_mut().filter(|known| append.id.as_ref() == Some(&known.0));
            if let Some(known) = known {
                known.1.version = Some(version);
            }
        });
    })
}

/// A memory that counts versions in a row that something takes away: of each slot, or of each
/// conversation.
fn counted(fault: &'static str, row: fn(&Book, &str) -> String) -> Strange {
    versions(fault, move |book, slot, _| {
        let mut data = book.data();
        let count = data.notes.entry(row(book, slot)).or_insert(0);
        *count += 1;
        *count
    })
}

/// A memory that expects something else.
fn expecting(
    fault: &'static str,
    other: impl Fn(Expected) -> Expected + Send + Sync + 'static,
) -> Strange {
    otherwise(fault, move |_, append| {
        append.slots.iter_mut().for_each(|change| change.expected = other(change.expected));
    })
}

/// A memory that keeps slots under other names.
fn named(fault: &'static str, kept: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    let kept = Arc::new(kept);
    let asked = Arc::clone(&kept);
    Strange::of(fault)
        .append(move |book, append| {
            append.check(&Limits::default().with_slot(usize::MAX))?;
            book.write_as(append, |copy| {
                copy.slots.iter_mut().for_each(|change| change.name = kept(&change.name));
            })
        })
        .read(move |book, read| {
            read.check()?;
            let snapshot = book.look_as(read, |it| {
                it.slots.iter_mut().for_each(|name| *name = asked(name));
            })?;
            // They are handed out under the names by which they were asked for.
            let once =
                read.slots.iter().enumerate().filter(|(i, name)| !read.slots[..*i].contains(name));
            let slots: Vec<_> = once
                .filter_map(|(_, name)| {
                    let found = snapshot.slot(&asked(name))?;
                    Some(Slot::new(name.as_str(), found.version(), found.content()))
                })
                .collect();
            Ok(book.look_as(read, |it| it.slots.clear())?.with_slots(slots))
        })
}

/// A memory that keeps other content.
fn content(
    fault: &'static str,
    kept: impl Fn(&[u8]) -> Option<Vec<u8>> + Send + Sync + 'static,
) -> Strange {
    otherwise(fault, move |_, append| {
        for change in &mut append.slots {
            change.content = change.content.as_deref().and_then(&kept);
        }
    })
}

/// A memory that lists other slots.
fn listed(
    fault: &'static str,
    other: impl Fn(&Book, &mut Vec<(String, SlotVersion)>) + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault).slots(move |book| {
        let mut names = book.names()?;
        other(book, &mut names);
        Ok(names)
    })
}

#[test]
fn laws_find_strange_slots() {
    let is_conflict = |error: &Error| matches!(error.kind(), ErrorKind::Conflict { .. });
    laws(["slots::an_append_is_done_with_its_slots_or_not_at_all"]).find([
        // The other way round.
        Strange::of("slots are written before the messages").append(move |book, append| {
            let slots = append.slots.clone();
            match book.write(append) {
                Err(error) if is_conflict(&error) && !slots.is_empty() => {
                    let mut only = Append::default();
                    only.slots = slots;
                    let _ = book.write(&mut only);
                    Err(error)
                }
                appended => appended,
            }
        }),
        Strange::of("slots are written after the messages").append(|book, append| {
            let mut rest = Append::default();
            rest.slots.clone_from(&append.slots);
            let mut appended = book.write_as(append, |copy| copy.slots.clear())?;
            appended.version = book.write(&mut rest)?.version;
            Ok(appended)
        }),
        Strange::of("slots are written one after the other").append(|book, append| {
            let slots = append.slots.clone();
            let [first @ .., last] = slots.as_slice() else { return book.write(append) };
            for change in first {
                let mut one = Append::default();
                one.slots.push(change.clone());
                book.write(&mut one)?;
            }
            book.write_as(append, |copy| copy.slots = vec![last.clone()])
        }),
    ]);

    laws([
        "slots::a_slot_is_compared_before_it_is_changed",
        "slots::of_many_writers_of_one_version_one_succeeds",
    ])
    .find([expecting("versions are passed over", |_| Expected::Any)]);

    laws(["slots::a_slot_is_compared_before_it_is_changed"]).find([
        // `Absent` is taken for "new or not, I don't care".
        expecting("an absent slot is overwritten", |expected| match expected {
            Expected::Absent => Expected::Any,
            expected => expected,
        }),
    ]);

    laws(["slots::of_many_writers_of_one_version_one_succeeds"]).find([
        // Two statements without a lock around them.
        Strange::of("a slot is compared and then written").append(|book, append| {
            if append.slots.is_empty() || append.id.is_some() {
                return book.write(append);
            }
            let checked = book.found(|it| it.check(append));
            checked.unwrap_or_else(|| append.check_on_nothing())?;
            pause();
            book.write_as(append, |copy| {
                copy.slots.iter_mut().for_each(|change| change.expected = Expected::Any);
            })
        }),
    ]);

    laws(["slots::a_version_is_never_used_again"]).find([
        // An `ETag`: the same content comes again, and so does its version.
        versions("a version is a hash of the content", |_, _, content| hash(content)),
        counted("clear takes the counter of the conversation along", |book, _| book.key.clone())
            .clear(|book| {
                book.data().notes.remove(&book.key);
                book.wipe()
            }),
        counted("removing takes the counter of the slot along", |book, slot| {
            format!("{}/{slot}", book.key)
        }),
    ]);

    laws(["moving::a_new_beginning_knows_nothing_of_before"]).find([counted(
        "delete takes the counter of the conversation along",
        |book, _| book.key.clone(),
    )
    .delete(|shelf, key| {
        shelf.data.lock().notes.remove(key);
        shelf.remove(key)
    })]);

    laws(["slots::slots_are_listed_with_their_versions"]).find([
        listed("the system message is listed", |book, names| {
            if book.found(|it| it.system.is_some()) == Some(true) {
                names.push(("system".to_owned(), SlotVersion::random()));
            }
        }),
        // `ORDER BY` in the collation of a language: "B" stands behind "a".
        listed("names are listed as in a dictionary", |_, names| {
            names.sort_by_key(|it| it.0.to_lowercase());
        }),
        listed("names are listed by their length", |_, names| names.sort_by_key(|it| it.0.len())),
    ]);

    laws(["slots::evicting_leaves_slots_and_clearing_removes_them"]).find([
        // A table of its own, of which `clear` does not know.
        Strange::of("clear keeps the slots").cleared(|it, was| it.slots = was.slots),
        Strange::of("evicting takes the slots").evicted(|it, _| it.slots.clear()),
    ]);

    laws(["slots::hostile_names_are_slots_of_their_own"])
        .find([named("names are folded", str::to_lowercase)]);

    laws(["slots::a_slot_holds_any_bytes"]).find([
        content("a slot ends at NUL", |bytes| {
            bytes.split(|byte| *byte == 0).next().map(<[u8]>::to_vec)
        }),
        content("a slot is text", |bytes| {
            Some(String::from_utf8_lossy(bytes).into_owned().into_bytes())
        }),
    ]);

    laws(["slots::what_is_no_slot_is_refused"]).find([
        // `check` is forgotten: the slot goes where the system message is.
        Strange::of("the slot of the system message can be written").append(|book, append| {
            let (system, slots): (Vec<_>, Vec<_>) =
                append.slots.iter().cloned().partition(|change| change.name == "system");
            let appended = book.write_as(append, |copy| copy.slots = slots);
            for change in system {
                let text =
                    String::from_utf8_lossy(&change.content.unwrap_or_default()).into_owned();
                let system = Message::system(text);
                book.found(|it| it.system = Some(system.into()));
            }
            appended
        }),
    ]);

    laws(["slots::debug_output_holds_no_slot"]).find([
        Strange::of("an error tells slots").append(|book, append| {
            let contents = append.slots.iter().filter_map(|it| it.content.as_deref());
            let contents: String = contents.map(String::from_utf8_lossy).collect();
            book.write(append).map_err(|error| match error.kind() {
                ErrorKind::SlotConflict => Error::new(error.kind(), "append", contents),
                _ => error,
            })
        }),
        Strange::of("debug output tells slots").debug(|book| {
            let slots = book.look(&Read::newest(0).slots(["a"])).unwrap_or_default();
            slots.slot("a").and_then(Slot::text).unwrap_or_default().to_owned()
        }),
    ]);

    laws(["memory::debug_output_holds_no_text"]).find([Strange::of("debug output tells messages")
        .debug(|book| {
            let all = book.look(&Read::newest(usize::MAX)).unwrap_or_default();
            all.records.messages().map(Message::text).collect()
        })]);

    laws(["slots::a_slot_is_written_replaced_and_removed"]).find([Strange::of(
        "removing tells a version",
    )
    .then(|_, append, appended| {
        let removes = append.slots.iter().any(|change| change.content.is_none());
        appended.version = appended.version.or_else(|| removes.then(SlotVersion::random));
    })]);

    laws([
        "moving::appends_are_activity_and_nothing_else_is",
        "moving::a_slot_creates_its_conversation",
    ])
    .find([Strange::of("removing is no activity").append(|book, append| {
        let active = book.found(|it| it.active);
        let appended = book.write(append)?;
        let removes = append.slots.iter().all(|change| change.content.is_none());
        if appended.positions.is_empty() && !append.slots.is_empty() && removes {
            book.found(|it| it.active = active.unwrap_or(it.active));
        }
        Ok(appended)
    })]);

    laws(["moving::appends_are_activity_and_nothing_else_is"]).find([Strange::of(
        "a slot alone is no activity",
    )
    .append(|book, append| {
        let active = book.found(|it| it.active);
        let appended = book.write(append)?;
        if appended.positions.is_empty() && !append.slots.is_empty() && append.active.is_none() {
            book.found(|it| it.active = active.unwrap_or(it.active));
        }
        Ok(appended)
    })]);

    laws(["moving::a_slot_creates_its_conversation"]).find([otherwise(
        "removing begins a conversation",
        |book, append| {
            if append.slots.iter().any(|change| change.content.is_none()) {
                let _ = book.shelf.begin(&book.key, 0, None);
            }
        },
    )]);
}

#[test]
fn a_law_finds_each_other_strange_slot() {
    let of_4096 = || Limits::default().with_slot(4096).with_ids(64);

    any_law(["slots", "moving", "ids"]).find([
        // "Nothing changed", so the version stays.
        Strange::of("the same content is no write").append(|book, append| {
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
        }),
        Strange::of("clear keeps the system message").cleared(|it, was| it.system = was.system),
        // A conversation without messages is cleaned up.
        Strange::of("evicting all takes the slots").evicted(|it, _| {
            it.slots.retain(|_, _| !it.rows.is_empty());
        }),
        Strange::of("evicting all takes the system message").evicted(|it, _| {
            it.system = it.system.take().filter(|_| !it.rows.is_empty());
        }),
        // A table without a foreign key: the next conversation under this id finds them.
        burying("delete leaves the slots").then(|book, _, _| {
            let grave = book.data().graves.remove(&book.key);
            book.found(|it| {
                for (name, slot) in grave.map(|it| it.slots).unwrap_or_default() {
                    it.slots.entry(name).or_insert(slot);
                }
            });
        }),
        // A tombstone: who expects nothing there is told that there is something.
        Strange::of("a removed slot is there").append(|book, append| {
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
        }),
        otherwise("only the first slot is compared", |_, append| {
            append.slots.iter_mut().skip(1).for_each(|change| change.expected = Expected::Any);
        }),
        Strange::of("an id begins no conversation by a removal").append(|book, append| {
            let writes = append.slots.iter().any(|change| change.content.is_some());
            let is_there = book.found(|_| ()).is_some();
            if !is_there && !writes && append.messages.is_empty() {
                return book.write_as(append, |copy| copy.id = None);
            }
            book.write(append)
        }),
        // `PAD SPACE`: "a" and "a " are one.
        named("names are padded", |name| {
            if name.trim_end().is_empty() { name.to_owned() } else { name.trim_end().to_owned() }
        }),
        // A file for each slot: `/` goes to `_`.
        named("names are paths", |name| name.replace(['/', '\\', ':'], "_")),
        // `varchar(255)`.
        Strange::of("names of 256 bytes are refused").append(|book, append| {
            if append.slots.iter().any(|change| change.name.len() > 255) {
                return Err(failed("append", "value too long for type varchar(255)"));
            }
            book.write(append)
        }),
        // As Java and JavaScript compare: an emoji stands before U+FFFD.
        listed("names are listed by UTF-16", |_, names| {
            names.sort_by_key(|it| it.0.encode_utf16().collect::<Vec<_>>());
        }),
        // Tombstones without a filter.
        Strange::of("removed slots are listed")
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
                names.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(names)
            }),
        // Oracle: the empty text is null.
        content("an empty slot is none", |bytes| Some(bytes.to_vec()).filter(|it| !it.is_empty())),
        // `>=` in place of `>`.
        Strange::of("a slot of the largest size is refused").limits(of_4096()).append(
            |book, append| {
                let mut contents = append.slots.iter().filter_map(|it| it.content.as_ref());
                if contents.any(|it| it.len() >= 4096) {
                    return Err(Error::new(ErrorKind::Invalid, "append", "the slot is too large"));
                }
                book.write(append)
            },
        ),
        // The limits are told, and not held.
        content("a slot beyond the largest size is cut", |bytes| {
            Some(bytes[..bytes.len().min(4096)].to_vec())
        })
        .limits(of_4096()),
        // `check` is forgotten: what is not valid is removed from the name.
        otherwise("any text is a name", |_, append| {
            for change in &mut append.slots {
                if change.name.is_empty() || change.name.contains(char::is_control) {
                    change.name = change.name.replace(char::is_control, "") + "_";
                }
            }
        }),
    ]);
}
