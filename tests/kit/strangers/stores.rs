//! Faults in stores.

use std::time::Duration;

use memory_prompt::memory::MemoryId;
use memory_prompt::store::Info;

use super::caught;
use super::shelf::{Shelf, Strange};

#[test]
fn a_read_begins_a_conversation() {
    // `get_or_create`.
    caught(Strange::default().read(|book, read| {
        let _ = book.shelf.begin(&book.key, 0, None);
        book.look(read)
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
fn ids_have_255_bytes() {
    // The name of a file; the rest is cut off.
    caught(kept(|id| id.chars().take(255).collect()));
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
fn purge_goes_by_the_newest_record() {
    // `max(appended_at)`: system messages, slots and imports have other times.
    caught(Strange::default().purge(|shelf, older_than| {
        Ok(shelf.keep(|_, it| {
            it.rows.back().map_or(it.active, |row| row.1) >= super::shelf::millis(older_than)
        }))
    }));
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
    // The time in between is long, so that others come there on a machine that is busy, too.
    caught(Strange::default().purge(|shelf, older_than| {
        let old = {
            let data = shelf.data.lock();
            let old =
                data.all.iter().filter(|(_, it)| it.active < super::shelf::millis(older_than));
            old.map(|(key, _)| key.clone()).collect::<Vec<_>>()
        };
        std::thread::sleep(Duration::from_millis(5));
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
fn a_prefix_ends_before_the_next_character() {
    // U+D7FF and one is no character: the search ends at the prefix.
    caught(matching(|id, prefix| {
        let last = prefix.chars().last().unwrap_or('a');
        char::from_u32(last as u32 + 1).is_some() && id.starts_with(prefix)
    }));
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
fn a_prefix_to_delete_is_a_pattern_of_sql() {
    caught(deleting(|id, prefix| like(id, prefix, '%', '_')));
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
fn activity_is_told_as_the_time_of_the_newest_record() {
    caught(told(|shelf, key, mut info| {
        let data = shelf.data.lock();
        let newest = data.all.get(key).and_then(|it| it.rows.back()).map(|row| row.1);
        info.active = newest.unwrap_or(info.active);
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
fn what_is_restored_begins_at_0() {
    caught(
        Strange::default().restore(|shelf, key, _, incarnation| shelf.begin(key, 0, incarnation)),
    );
}
