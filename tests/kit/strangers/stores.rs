//! Faults in stores.

use std::time::{Duration, UNIX_EPOCH};

use memory_prompt::memory::{MemoryId, Read};
use memory_prompt::store::Info;
use memory_prompt::{Error, ErrorKind};

use super::caught;
use super::shelf::{Shelf, Strange, failed, now};

#[test]
fn asking_for_a_memory_begins_a_conversation() {
    // `INSERT … ON CONFLICT DO NOTHING` when the handle is made.
    caught(Strange::default().memory(|shelf, id| {
        let _ = shelf.begin(id.as_str(), 0, None);
        Ok(id)
    }));
}

#[test]
fn a_read_begins_a_conversation() {
    // `get_or_create`.
    caught(Strange::default().read(|book, read| {
        let _ = book.shelf.begin(&book.key, 0, None);
        book.look(read)
    }));
}

#[test]
fn clear_begins_a_conversation() {
    caught(Strange::default().clear(|book| {
        let _ = book.shelf.begin(&book.key, 0, None);
        book.wipe()
    }));
}

#[test]
fn evict_begins_a_conversation() {
    caught(Strange::default().evict(|book, before| {
        let _ = book.shelf.begin(&book.key, 0, None);
        book.cut(before)
    }));
}

#[test]
fn a_cleared_conversation_is_gone() {
    // Without a row there is nothing to list.
    caught(Strange::default().ids(|shelf, after, n| {
        let ids = shelf.list("", after, usize::MAX)?;
        let data = shelf.data.lock();
        let is_there = |id: &MemoryId| {
            data.all.get(id.as_str()).is_some_and(|it| !it.rows.is_empty() || it.system.is_some())
        };
        Ok(ids.into_iter().filter(is_there).take(n).collect())
    }));
}

#[test]
fn a_conversation_of_a_system_message_is_not_listed() {
    // `SELECT DISTINCT conversation FROM messages`, and positions that have begun.
    caught(Strange::default().ids(|shelf, after, n| {
        let ids = shelf.list("", after, usize::MAX)?;
        let data = shelf.data.lock();
        let has_begun = |id: &MemoryId| data.all.get(id.as_str()).is_some_and(|it| it.end > 0);
        Ok(ids.into_iter().filter(has_begun).take(n).collect())
    }));
}

/// A store that keeps conversations under other keys.
fn kept(key: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    Strange::default().key(move |id| key(id.as_str()))
}

#[test]
fn ids_are_folded() {
    // MySQL's default collation.
    caught(kept(str::to_lowercase));
}

#[test]
fn ids_are_padded() {
    // `PAD SPACE`: trailing spaces do not count.
    caught(kept(|id| id.trim_end_matches(' ').to_owned()));
}

#[test]
fn ids_are_composed() {
    // Unicode's NFC, as file systems do.
    caught(kept(|id| id.replace("e\u{301}", "\u{e9}").replace("a\u{308}", "\u{e4}")));
}

#[test]
fn ids_end_at_nul() {
    caught(kept(|id| id.split('\0').next().unwrap_or_default().to_owned()));
}

#[test]
fn ids_have_255_bytes() {
    // The name of a file; the rest is cut off.
    caught(kept(|id| id.chars().take(255).collect()));
}

#[test]
fn ids_are_names_of_files() {
    caught(kept(|id| id.replace(['/', '\\'], "_")));
}

#[test]
fn ids_are_escaped_by_half() {
    // `:` parts keys, and is replaced by what may stand in an id too.
    caught(kept(|id| id.replace(':', "_")));
}

#[test]
fn the_empty_id_is_a_default() {
    // `id || "default"`.
    caught(kept(|id| if id.is_empty() { "default".to_owned() } else { id.to_owned() }));
}

#[test]
fn ids_are_trimmed() {
    caught(kept(|id| id.trim().to_owned()));
}

#[test]
fn ids_are_listed_by_activity() {
    // `ORDER BY active DESC`, as a list on a screen; pages go by what was last.
    caught(
        Strange::default()
            .append(|book, append| {
                let appended = book.write(append)?;
                let mut data = book.data();
                let next = data.notes.values().max().map_or(1, |it| it + 1);
                data.notes.insert(book.key.clone(), next);
                Ok(appended)
            })
            .ids(|shelf, after, n| by_activity(shelf, "", after, n))
            .prefixed(by_activity),
    );
}

fn by_activity(
    shelf: &Shelf,
    prefix: &str,
    after: Option<&MemoryId>,
    n: usize,
) -> memory_prompt::Result<Vec<MemoryId>> {
    let data = shelf.data.lock();
    let age = |id: &str| data.notes.get(id).copied().unwrap_or(0);
    let mut ids: Vec<&String> = data.all.keys().filter(|id| id.starts_with(prefix)).collect();
    ids.sort_by_key(|id| std::cmp::Reverse(age(id)));
    let skip =
        after.map_or(0, |it| ids.iter().take_while(|id| age(id) >= age(it.as_str())).count());
    Ok(ids.into_iter().skip(skip).take(n).map(|id| MemoryId::from(id.as_str())).collect())
}

#[test]
fn ids_are_listed_by_offset() {
    // The place of an id is counted, and what is deleted before it moves all others.
    caught(Strange::default().ids(|shelf, after, n| {
        let all = shelf.list("", None, usize::MAX)?;
        let skip = match after {
            None => 0,
            Some(after) => match all.iter().position(|id| id == after) {
                Some(place) => place + 1,
                None => return Ok(Vec::new()),
            },
        };
        Ok(all.into_iter().skip(skip).take(n).collect())
    }));
}

#[test]
fn a_list_goes_on_from_the_beginning() {
    // The id after which it goes on was deleted: it is looked for in vain.
    caught(Strange::default().ids(|shelf, after, n| {
        let is_there = |it: &&MemoryId| shelf.data.lock().all.contains_key(it.as_str());
        shelf.list("", after.filter(is_there), n)
    }));
}

#[test]
fn a_list_begins_with_the_id_after_which_it_goes_on() {
    // `>=`.
    caught(Strange::default().ids(|shelf, after, n| {
        let mut ids = shelf.list("", after, n)?;
        if let Some(after) = after.filter(|it| shelf.data.lock().all.contains_key(it.as_str())) {
            ids.insert(0, after.clone());
            ids.truncate(n);
        }
        Ok(ids)
    }));
}

#[test]
fn a_list_of_none_is_a_list_of_all() {
    // `LIMIT 0` is no limit.
    caught(
        Strange::default()
            .ids(|shelf, after, n| shelf.list("", after, if n == 0 { usize::MAX } else { n })),
    );
}

#[test]
fn a_list_has_100_ids() {
    // The server's own limit of a page.
    caught(Strange::default().ids(|shelf, after, n| shelf.list("", after, n.min(100))));
}

#[test]
fn a_page_of_ids_is_filtered_after_it_was_cut() {
    // `LIMIT n` comes first, and then those are left out that are empty by now.
    caught(
        Strange::default()
            .delete(|shelf, key| {
                let mut data = shelf.data.lock();
                let gone = data.all.remove(key).is_some();
                if gone {
                    data.notes.insert(key.to_owned(), 1);
                }
                Ok(gone)
            })
            .append(|book, append| {
                book.data().notes.remove(&book.key);
                book.write(append)
            })
            .ids(|shelf, after, n| {
                let data = shelf.data.lock();
                let mut ids: Vec<&String> = data.all.keys().chain(data.notes.keys()).collect();
                ids.sort();
                let ids = ids
                    .into_iter()
                    .filter(|id| after.is_none_or(|after| id.as_str() > after.as_str()));
                let page: Vec<_> = ids.take(n).filter(|id| data.all.contains_key(*id)).collect();
                Ok(page.into_iter().map(|id| MemoryId::from(id.as_str())).collect())
            }),
    );
}

#[test]
fn a_deleted_conversation_was_always_there() {
    caught(Strange::default().delete(|shelf, key| shelf.remove(key).map(|_| true)));
}

#[test]
fn a_deleted_conversation_keeps_its_positions() {
    // A counter that nobody deletes.
    caught(
        Strange::default()
            .delete(|shelf, key| {
                let mut data = shelf.data.lock();
                let gone = data.all.remove(key);
                let is_gone = gone.is_some();
                if let Some(gone) = gone {
                    data.notes.insert(key.to_owned(), gone.end);
                }
                Ok(is_gone)
            })
            .append(|book, append| {
                let end = book.data().notes.remove(&book.key);
                if let Some(end) =
                    end.filter(|_| append.check_on_nothing().is_ok() && append.creates())
                {
                    let _ = book.shelf.begin(&book.key, end, None);
                }
                book.write(append)
            }),
    );
}

#[test]
fn a_deleted_conversation_keeps_its_system_message() {
    // In a table of its own.
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
                book.found(|it| it.system = it.system.take().or(grave.and_then(|it| it.system)));
                Ok(appended)
            }),
    );
}

#[test]
fn a_deleted_conversation_keeps_its_incarnation() {
    // It is made where it is missing, and the old one is not.
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
                book.found(|it| it.incarnation = grave.map_or(it.incarnation, |it| it.incarnation));
                Ok(appended)
            }),
    );
}

#[test]
fn a_handle_on_what_was_deleted_is_useless() {
    // It holds the number of a row that is no more.
    caught(Strange::default().append(|book, append| {
        let is_there = book.found(|_| ()).is_some();
        let had = book.cache.lock().is_some();
        if had && !is_there {
            return Err(failed("append", "violates foreign key constraint"));
        }
        let appended = book.write(append)?;
        if book.found(|_| ()).is_some() {
            *book.cache.lock() = Some(book.look(&Read::newest(0))?);
        }
        Ok(appended)
    }));
}

#[test]
fn a_purged_conversation_is_cleared() {
    // `purge` deletes the messages.
    caught(Strange::default().purge(|shelf, older_than| {
        let mut data = shelf.data.lock();
        let mut purged = 0;
        for found in data.all.values_mut().filter(|it| it.active < older_than) {
            found.rows.clear();
            found.system = None;
            found.slots.clear();
            purged += 1;
        }
        Ok(purged)
    }));
}

#[test]
fn purge_takes_what_is_as_old() {
    // `<=`.
    caught(Strange::default().purge(|shelf, older_than| {
        Ok(shelf.keep(|_, it| it.active > super::shelf::millis(older_than)))
    }));
}

#[test]
fn purge_goes_by_the_second() {
    caught(Strange::default().purge(|shelf, older_than| {
        let seconds =
            |at: std::time::SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Ok(shelf.keep(|_, it| seconds(it.active) >= seconds(older_than)))
    }));
}

#[test]
fn purge_goes_by_the_newest_record() {
    // `max(appended_at)`: system messages, slots and imports have other times.
    caught(Strange::default().purge(|shelf, older_than| {
        Ok(shelf.keep(|_, it| {
            it.rows.back().map_or(it.active, |row| row.1) >= super::shelf::millis(older_than)
        }))
    }));
}

#[test]
fn purge_leaves_what_has_no_records() {
    // `JOIN messages`.
    caught(Strange::default().purge(|shelf, older_than| {
        Ok(shelf.keep(|_, it| it.rows.is_empty() || it.active >= super::shelf::millis(older_than)))
    }));
}

#[test]
fn purge_takes_what_has_no_records() {
    // An empty conversation is no conversation.
    caught(Strange::default().purge(|shelf, older_than| {
        Ok(shelf.keep(|_, it| !it.rows.is_empty() && it.active >= super::shelf::millis(older_than)))
    }));
}

#[test]
fn purge_goes_by_the_beginning() {
    // `created_at`.
    caught(
        Strange::default()
            .append(|book, append| {
                let is_there = book.found(|_| ()).is_some();
                let appended = book.write(append)?;
                if let (false, Some(active)) = (is_there, book.found(|it| it.active)) {
                    let at = active.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                    book.data().notes.insert(book.key.clone(), u64::try_from(at).unwrap());
                }
                Ok(appended)
            })
            .purge(|shelf, older_than| {
                let notes = shelf.data.lock().notes.clone();
                Ok(shelf.keep(|key, it| {
                    let begun = notes
                        .get(key)
                        .map_or(it.active, |at| UNIX_EPOCH + Duration::from_millis(*at));
                    begun >= super::shelf::millis(older_than)
                }))
            }),
    );
}

#[test]
fn purge_says_nothing() {
    caught(Strange::default().purge(|shelf, older_than| shelf.sweep(older_than).map(|_| 0)));
}

#[test]
fn purge_takes_one() {
    // `DELETE … LIMIT 1` in a loop that is not there.
    caught(Strange::default().purge(|shelf, older_than| {
        let mut taken = false;
        Ok(shelf.keep(|_, it| {
            let stays = taken || it.active >= super::shelf::millis(older_than);
            taken |= !stays;
            stays
        }))
    }));
}

#[test]
fn purge_looks_and_then_deletes() {
    // What is appended to in between is deleted all the same.
    caught(Strange::default().purge(|shelf, older_than| {
        let old = {
            let data = shelf.data.lock();
            let old =
                data.all.iter().filter(|(_, it)| it.active < super::shelf::millis(older_than));
            old.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        std::thread::sleep(Duration::from_millis(1));
        let mut purged = 0;
        for key in old {
            purged += u64::from(shelf.remove(&key)?);
        }
        Ok(purged)
    }));
}

// Prefixes.

/// A store that finds ids otherwise: these are the ids that a prefix matches.
fn matching(matches: fn(&str, &str) -> bool) -> Strange {
    Strange::default().prefixed(move |shelf, prefix, after, n| {
        let ids = shelf.list("", after, usize::MAX)?;
        Ok(ids.into_iter().filter(|id| matches(id.as_str(), prefix)).take(n).collect())
    })
}

/// A store that deletes by another match.
fn deleting(matches: fn(&str, &str) -> bool) -> Strange {
    Strange::default().delete_prefix(move |shelf, prefix| {
        if prefix.is_empty() {
            return shelf.remove_prefix(prefix);
        }
        Ok(shelf.keep(|key, _| !matches(key, prefix)))
    })
}

/// `LIKE`, with these wildcards for any text and for any character.
fn like(id: &str, pattern: &str, many: char, one: char) -> bool {
    let Some(first) = pattern.chars().next() else { return true };
    let rest = &pattern[first.len_utf8()..];
    if first == many {
        return id
            .char_indices()
            .map(|(i, _)| i)
            .chain([id.len()])
            .any(|i| like(&id[i..], rest, many, one));
    }
    id.chars().next().is_some_and(|it| {
        (it == first || first == one) && like(&id[it.len_utf8()..], rest, many, one)
    })
}

#[test]
fn a_prefix_is_a_pattern_of_sql() {
    caught(matching(|id, prefix| like(id, prefix, '%', '_')));
}

#[test]
fn a_prefix_has_an_underscore() {
    // `%` is escaped, `_` is not.
    caught(matching(|id, prefix| like(id, prefix, '\u{f0000}', '_')));
}

#[test]
fn a_prefix_is_a_pattern_of_redis() {
    // `SCAN MATCH prefix*`.
    caught(matching(|id, prefix| like(id, prefix, '*', '?')));
}

#[test]
fn a_prefix_has_classes() {
    // `GLOB`: `[` begins a class, and matches nothing where nothing ends it.
    caught(matching(|id, prefix| !prefix.contains('[') && id.starts_with(prefix)));
}

#[test]
fn a_prefix_has_backslashes() {
    // `LIKE … ESCAPE '\'`, and the backslash itself is not escaped.
    caught(matching(|id, prefix| id.starts_with(&prefix.replace('\\', ""))));
}

#[test]
fn a_prefix_is_folded() {
    // `LIKE` of SQLite.
    caught(matching(|id, prefix| {
        id.get(..prefix.len()).is_some_and(|it| it.eq_ignore_ascii_case(prefix))
    }));
}

#[test]
fn a_prefix_is_anywhere() {
    caught(matching(|id, prefix| id.contains(prefix)));
}

#[test]
fn a_prefix_is_not_the_whole_id() {
    // `>` in place of `>=`.
    caught(matching(|id, prefix| id.starts_with(prefix) && id != prefix));
}

#[test]
fn a_prefix_ends_before_private_characters() {
    // `prefix..prefix + "\u{f8ff}"`, as Firestore and CouchDB teach.
    caught(matching(|id, prefix| id >= prefix && *id < *format!("{prefix}\u{f8ff}")));
}

#[test]
fn a_prefix_ends_before_z() {
    // `prefix..prefix + "zzz"`.
    caught(matching(|id, prefix| id >= prefix && *id < *format!("{prefix}zzz")));
}

#[test]
fn a_prefix_ends_before_its_last_byte_and_one() {
    // There is no text behind U+10FFFF, so there are no ids.
    caught(matching(|id, prefix| !prefix.ends_with('\u{10ffff}') && id.starts_with(prefix)));
}

#[test]
fn a_prefix_ends_before_the_next_character() {
    // U+D7FF and one is no character: the search ends at the prefix.
    caught(matching(|id, prefix| {
        let last = prefix.chars().last().unwrap_or('a');
        char::from_u32(last as u32 + 1).is_some() && id.starts_with(prefix)
    }));
}

#[test]
fn the_empty_prefix_is_of_no_ids() {
    caught(matching(|id, prefix| !prefix.is_empty() && id.starts_with(prefix)));
}

#[test]
fn a_list_by_prefix_is_filtered_after_it_was_cut() {
    // `LIMIT n` comes first.
    caught(Strange::default().prefixed(|shelf, prefix, after, n| {
        let ids = shelf.list("", after, n)?;
        Ok(ids.into_iter().filter(|id| id.as_str().starts_with(prefix)).collect())
    }));
}

#[test]
fn a_list_by_prefix_goes_on_only_within_it() {
    // `after` stands before the prefix: the search begins there, and ends at the first that does
    // not match.
    caught(Strange::default().prefixed(|shelf, prefix, after, n| {
        let ids = match after {
            Some(after) => shelf.list("", Some(after), usize::MAX)?,
            None => return shelf.list(prefix, None, n),
        };
        Ok(ids.into_iter().take_while(|id| id.as_str().starts_with(prefix)).take(n).collect())
    }));
}

#[test]
fn a_list_by_prefix_begins_anew_from_elsewhere() {
    // `after` does not begin with the prefix, so it is not looked at.
    caught(Strange::default().prefixed(|shelf, prefix, after, n| {
        shelf.list(prefix, after.filter(|it| it.as_str().starts_with(prefix)), n)
    }));
}

#[test]
fn a_list_by_prefix_goes_the_other_way() {
    // An index of its own, in an order of its own.
    caught(Strange::default().prefixed(|shelf, prefix, after, n| {
        let mut ids = shelf.list(prefix, None, usize::MAX)?;
        ids.reverse();
        Ok(ids.into_iter().filter(|id| after.is_none_or(|after| id < after)).take(n).collect())
    }));
}

#[test]
fn a_list_by_prefix_has_256_ids() {
    caught(
        Strange::default()
            .prefixed(|shelf, prefix, after, n| shelf.list(prefix, after, n.min(256))),
    );
}

#[test]
fn a_prefix_to_delete_is_a_pattern_of_sql() {
    caught(deleting(|id, prefix| like(id, prefix, '%', '_')));
}

#[test]
fn a_prefix_to_delete_has_an_underscore() {
    caught(deleting(|id, prefix| like(id, prefix, '\u{f0000}', '_')));
}

#[test]
fn a_prefix_to_delete_is_a_pattern_of_redis() {
    caught(deleting(|id, prefix| like(id, prefix, '*', '?')));
}

#[test]
fn a_prefix_to_delete_is_folded() {
    caught(deleting(|id, prefix| id.to_lowercase().starts_with(&prefix.to_lowercase())));
}

#[test]
fn a_prefix_to_delete_is_not_the_whole_id() {
    caught(deleting(|id, prefix| id.starts_with(prefix) && id != prefix));
}

#[test]
fn an_empty_prefix_deletes_everything() {
    caught(
        Strange::default()
            .delete_prefix(|shelf, prefix| Ok(shelf.keep(|key, _| !key.starts_with(prefix)))),
    );
}

#[test]
fn an_empty_prefix_deletes_nothing() {
    // And says so, as if there had been nothing.
    caught(Strange::default().delete_prefix(|shelf, prefix| match prefix {
        "" => Ok(0),
        prefix => shelf.remove_prefix(prefix),
    }));
}

#[test]
fn a_prefix_deletes_and_does_not_count() {
    caught(
        Strange::default().delete_prefix(|shelf, prefix| shelf.remove_prefix(prefix).map(|_| 0)),
    );
}

#[test]
fn a_prefix_deletes_256() {
    // One page.
    caught(Strange::default().delete_prefix(|shelf, prefix| {
        if prefix.is_empty() {
            return shelf.remove_prefix(prefix);
        }
        let mut left = 256;
        Ok(shelf.keep(|key, _| {
            let stays = left == 0 || !key.starts_with(prefix);
            left -= u64::from(!stays);
            stays
        }))
    }));
}

#[test]
fn what_a_prefix_deletes_keeps_its_positions() {
    // It clears where it should delete.
    caught(Strange::default().delete_prefix(|shelf, prefix| {
        let n = shelf.list(prefix, None, usize::MAX)?.len() as u64;
        if prefix.is_empty() {
            return shelf.remove_prefix(prefix);
        }
        let mut data = shelf.data.lock();
        for (_, it) in data.all.iter_mut().filter(|(key, _)| key.starts_with(prefix)) {
            it.rows.clear();
            it.system = None;
            it.slots.clear();
        }
        Ok(n)
    }));
}

// What a store tells.

/// A store that tells otherwise.
fn told(other: impl Fn(&Shelf, &str, Info) -> Option<Info> + Send + Sync + 'static) -> Strange {
    Strange::default()
        .info(move |shelf, key| Ok(shelf.tell(key)?.and_then(|it| other(shelf, key, it))))
}

#[test]
fn nothing_is_told_of_what_is_empty() {
    caught(told(|_, _, info| (info.start < info.end).then_some(info)));
}

#[test]
fn what_does_not_exist_is_told() {
    caught(
        Strange::default()
            .info(|shelf, key| Ok(shelf.tell(key)?.or_else(|| Some(Info::new(0..0, UNIX_EPOCH))))),
    );
}

#[test]
fn the_start_is_told_as_0() {
    caught(told(|_, _, mut info| {
        info.start = 0;
        Some(info)
    }));
}

#[test]
fn the_end_is_told_as_a_number_of_records() {
    caught(told(|_, _, mut info| {
        info.end -= info.start;
        Some(info)
    }));
}

#[test]
fn activity_is_told_in_seconds() {
    caught(told(|_, _, mut info| {
        let seconds = info.active.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        info.active = UNIX_EPOCH + Duration::from_secs(seconds);
        Some(info)
    }));
}

#[test]
fn activity_is_told_as_the_time_of_the_newest_record() {
    caught(told(|shelf, key, mut info| {
        let data = shelf.data.lock();
        let newest = data.all.get(key).and_then(|it| it.rows.back()).map(|row| row.1);
        info.active = newest.unwrap_or(info.active);
        Some(info)
    }));
}

#[test]
fn activity_is_told_as_now() {
    caught(told(|_, _, mut info| {
        info.active = now();
        Some(info)
    }));
}

#[test]
fn no_incarnation_is_told() {
    // The snapshot has one.
    caught(told(|_, _, mut info| {
        info.incarnation = None;
        Some(info)
    }));
}

#[test]
fn another_incarnation_is_told() {
    caught(told(|_, _, mut info| {
        info.incarnation = Some(memory_prompt::record::Incarnation::random());
        Some(info)
    }));
}

#[test]
fn what_is_told_is_activity() {
    caught(Strange::default().info(|shelf, key| {
        let info = shelf.tell(key);
        if let Some(it) = shelf.data.lock().all.get_mut(key) {
            it.active = now();
        }
        info
    }));
}

// Restoring.

#[test]
fn what_exists_is_restored_over() {
    // `REPLACE INTO`.
    caught(Strange::default().restore(|shelf, key, start, incarnation| {
        shelf.remove(key)?;
        shelf.begin(key, start, incarnation)
    }));
}

#[test]
fn what_exists_is_left_and_no_error() {
    // `ON CONFLICT DO NOTHING`.
    caught(Strange::default().restore(|shelf, key, start, incarnation| {
        match shelf.begin(key, start, incarnation) {
            Err(error) if error.kind() == ErrorKind::Exists => Ok(()),
            restored => restored,
        }
    }));
}

#[test]
fn what_is_empty_is_restored_over() {
    // It exists where it has messages.
    caught(Strange::default().restore(|shelf, key, start, incarnation| {
        shelf.keep(|it, found| it != key || !found.rows.is_empty());
        shelf.begin(key, start, incarnation)
    }));
}

#[test]
fn what_exists_is_a_failure_of_the_storage() {
    // The constraint's own error.
    caught(Strange::default().restore(|shelf, key, start, incarnation| {
        shelf.begin(key, start, incarnation).map_err(|error| match error.kind() {
            ErrorKind::Exists => failed("restore", "duplicate key"),
            _ => error,
        })
    }));
}

#[test]
fn what_is_restored_begins_at_0() {
    caught(
        Strange::default().restore(|shelf, key, _, incarnation| shelf.begin(key, 0, incarnation)),
    );
}

#[test]
fn what_is_restored_starts_at_0() {
    // The end is set, and the start is not.
    caught(
        Strange::default()
            .restore(|shelf, key, start, incarnation| {
                shelf.begin(key, start, incarnation)?;
                shelf.data.lock().notes.insert(key.to_owned(), start);
                Ok(())
            })
            .read(|book, read| {
                let mut snapshot = book.look(read)?;
                if book.data().notes.get(&book.key) == Some(&snapshot.end) {
                    snapshot.start = 0;
                }
                Ok(snapshot)
            }),
    );
}

#[test]
fn what_is_restored_has_an_incarnation_of_its_own() {
    caught(Strange::default().restore(|shelf, key, start, _| shelf.begin(key, start, None)));
}

#[test]
fn what_is_restored_was_never_active() {
    // The next purge takes it before its first batch.
    caught(Strange::default().restore(|shelf, key, start, incarnation| {
        shelf.begin(key, start, incarnation)?;
        shelf.data.lock().all.get_mut(key).unwrap().active = UNIX_EPOCH;
        Ok(())
    }));
}

#[test]
fn what_is_restored_is_listed_with_its_first_record() {
    caught(
        Strange::default()
            .restore(|shelf, key, start, incarnation| {
                shelf.begin(key, start, incarnation)?;
                shelf.data.lock().notes.insert(key.to_owned(), start);
                Ok(())
            })
            .ids(|shelf, after, n| {
                let ids = shelf.list("", after, usize::MAX)?;
                let data = shelf.data.lock();
                let has_records = |id: &MemoryId| {
                    data.notes
                        .get(id.as_str())
                        .is_none_or(|start| data.all[id.as_str()].end > *start)
                };
                Ok(ids.into_iter().filter(has_records).take(n).collect())
            }),
    );
}

#[test]
fn what_was_deleted_can_not_be_restored() {
    // A tombstone is there.
    caught(
        Strange::default()
            .delete(|shelf, key| {
                let gone = shelf.remove(key)?;
                shelf.data.lock().notes.insert(key.to_owned(), 1);
                Ok(gone)
            })
            .restore(|shelf, key, start, incarnation| {
                if shelf.data.lock().notes.contains_key(key) {
                    return Err(Error::new(ErrorKind::Exists, "restore", "it was there"));
                }
                shelf.begin(key, start, incarnation)
            }),
    );
}
