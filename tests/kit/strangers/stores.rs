//! Faults in stores.

use std::cmp::Reverse;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::Result;
use memory_prompt::memory::MemoryId;
use memory_prompt::store::Info;

use super::shelf::{Shelf, Strange, millis};
use super::{any_law, burying, laws};

/// A store that keeps conversations under other keys.
fn kept(fault: &'static str, key: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    Strange::of(fault).key(move |id| key(id.as_str()))
}

fn by_activity(
    shelf: &Shelf,
    prefix: &str,
    after: Option<&MemoryId>,
    n: usize,
) -> Result<Vec<MemoryId>> {
    let data = shelf.data.lock();
    let age = |id: &str| data.notes.get(id).copied().unwrap_or(0);
    let mut ids: Vec<&String> = data.all.keys().filter(|id| id.starts_with(prefix)).collect();
    ids.sort_by_key(|id| Reverse(age(id)));
    let skip =
        after.map_or(0, |it| ids.iter().take_while(|id| age(id) >= age(it.as_str())).count());
    Ok(ids.into_iter().skip(skip).take(n).map(|id| MemoryId::from(id.as_str())).collect())
}

/// A store that finds ids otherwise: these are the ids that a prefix matches.
fn matching(fault: &'static str, matches: fn(&str, &str) -> bool) -> Strange {
    Strange::of(fault).prefixed(move |shelf, prefix, after, n| {
        let ids = shelf.list("", after, usize::MAX)?;
        Ok(ids.into_iter().filter(|id| matches(id.as_str(), prefix)).take(n).collect())
    })
}

/// A store that deletes by another match.
fn deleting(fault: &'static str, matches: fn(&str, &str) -> bool) -> Strange {
    Strange::of(fault).delete_prefix(move |shelf, prefix| {
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

/// A store that tells otherwise.
fn told(
    fault: &'static str,
    other: impl Fn(&Shelf, &str, Info) -> Option<Info> + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault)
        .info(move |shelf, key| Ok(shelf.tell(key)?.and_then(|it| other(shelf, key, it))))
}

#[test]
fn laws_find_strange_stores() {
    laws(["memory::hostile_ids_are_conversations_of_their_own"]).find([
        // MySQL's default collation.
        kept("ids are folded", str::to_lowercase),
    ]);

    laws(["moving::ids_with_a_prefix_are_paged"]).find([
        matching("a prefix is a pattern of sql", |id, prefix| like(id, prefix, '%', '_')),
        matching("a prefix folds case", |id, prefix| {
            id.to_lowercase().starts_with(&prefix.to_lowercase())
        }),
        matching("a prefix is anywhere", |id, prefix| id.contains(prefix)),
        Strange::of("a prefix forgets where it was").prefixed(|shelf, prefix, after, n| {
            shelf.list(prefix, after.filter(|after| after.as_str().starts_with(prefix)), n)
        }),
    ]);

    laws(["moving::deleting_by_prefix_forgets_those_and_no_other"]).find([
        deleting("a prefix to delete is anywhere", |id, prefix| id.contains(prefix)),
        Strange::of("no prefix deletes everything")
            .delete_prefix(|shelf, prefix| Ok(shelf.keep(|key, _| !key.starts_with(prefix)))),
        Strange::of("a prefix counts once")
            .delete_prefix(|shelf, prefix| Ok(shelf.remove_prefix(prefix)?.min(1))),
    ]);

    laws(["moving::slots_of_many_conversations_are_paged"]).find([
        Strange::of("slots forget where they were").slots_prefixed(
            |shelf, prefix, names, after, n| {
                shelf.slots_of(prefix, names, after.map(|(id, _)| (id, "\u{10ffff}")), n)
            },
        ),
        Strange::of("slots have any name")
            .slots_prefixed(|shelf, prefix, _, after, n| shelf.slots_of(prefix, "", after, n)),
        Strange::of("each has one slot").slots_prefixed(|shelf, prefix, names, after, n| {
            let mut found = shelf.slots_of(prefix, names, after, n)?;
            found.dedup_by(|one, other| one.0 == other.0);
            Ok(found)
        }),
    ]);

    laws(["moving::info_tells_where_a_conversation_stands"]).find([
        Strange::of("there is information of nothing")
            .info(|shelf, key| Ok(shelf.tell(key)?.or(Some(Info::new(0..0, UNIX_EPOCH))))),
        told("a conversation begins at 0", |_, _, mut info| {
            info.start = 0;
            Some(info)
        }),
    ]);

    laws([
        "moving::appends_are_activity_and_nothing_else_is",
        "moving::an_import_is_active_until_it_is_closed",
        "moving::a_copy_keeps_everything",
    ])
    .find([told("a conversation is active now", |_, _, mut info| {
        info.active = SystemTime::now();
        Some(info)
    })]);

    laws(["moving::a_restored_conversation_goes_on", "moving::a_copy_keeps_everything"]).find([
        // `REPLACE INTO`.
        Strange::of("what exists is restored over").restore(|shelf, key, start, incarnation| {
            shelf.remove(key)?;
            shelf.begin(key, start, incarnation)
        }),
        Strange::of("what is restored begins at 0")
            .restore(|shelf, key, _, incarnation| shelf.begin(key, 0, incarnation)),
        Strange::of("what is restored is another")
            .restore(|shelf, key, start, _| shelf.begin(key, start, None)),
    ]);

    laws(["moving::a_restored_conversation_goes_on"]).find([Strange::of(
        "what is restored is inactive",
    )
    .restore(|shelf, key, start, incarnation| {
        shelf.begin(key, start, incarnation)?;
        shelf.data.lock().all.values_mut().for_each(|it| it.active = UNIX_EPOCH);
        Ok(())
    })]);
}

#[test]
fn a_law_finds_each_other_strange_store() {
    any_law(["store", "moving"]).find([
        // `get_or_create`.
        Strange::of("a read begins a conversation").read(|book, read| {
            let _ = book.shelf.begin(&book.key, 0, None);
            book.look(read)
        }),
        // Without a row there is nothing to list.
        Strange::of("a cleared conversation is gone").ids(|shelf, after, n| {
            let ids = shelf.list("", after, usize::MAX)?;
            let data = shelf.data.lock();
            let is_there = |id: &MemoryId| {
                data.all
                    .get(id.as_str())
                    .is_some_and(|it| !it.rows.is_empty() || it.system.is_some())
            };
            Ok(ids.into_iter().filter(is_there).take(n).collect())
        }),
        // `SELECT DISTINCT conversation FROM messages`, and positions that have begun.
        Strange::of("a conversation of a system message is not listed").ids(|shelf, after, n| {
            let ids = shelf.list("", after, usize::MAX)?;
            let data = shelf.data.lock();
            let has_begun = |id: &MemoryId| data.all.get(id.as_str()).is_some_and(|it| it.end > 0);
            Ok(ids.into_iter().filter(has_begun).take(n).collect())
        }),
        // `PAD SPACE`: trailing spaces do not count.
        kept("ids are padded", |id| id.trim_end_matches(' ').to_owned()),
        // The name of a file; the rest is cut off.
        kept("ids have 255 bytes", |id| id.chars().take(255).collect()),
        // `ORDER BY active DESC`, as a list on a screen; pages go by what was last.
        Strange::of("ids are listed by activity")
            .then(|book, _, _| {
                let mut data = book.data();
                let next = data.notes.values().max().map_or(1, |it| it + 1);
                data.notes.insert(book.key.clone(), next);
            })
            .ids(|shelf, after, n| by_activity(shelf, "", after, n))
            .prefixed(by_activity),
        // `>=`.
        Strange::of("a list begins with the id after which it goes on").ids(|shelf, after, n| {
            let mut ids = shelf.list("", after, n)?;
            if let Some(after) = after.filter(|it| shelf.data.lock().all.contains_key(it.as_str()))
            {
                ids.insert(0, after.clone());
                ids.truncate(n);
            }
            Ok(ids)
        }),
        // `LIMIT 0` is no limit.
        Strange::of("a list of none is a list of all")
            .ids(|shelf, after, n| shelf.list("", after, if n == 0 { usize::MAX } else { n })),
        // `LIMIT n` comes first, and then those are left out that are empty by now.
        Strange::of("a page of ids is filtered after it was cut")
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
        // A counter that nobody deletes.
        Strange::of("a deleted conversation keeps its positions")
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
        // In a table of its own.
        burying("a deleted conversation keeps its system message").then(|book, _, _| {
            let grave = book.data().graves.remove(&book.key);
            book.found(|it| it.system = it.system.take().or(grave.and_then(|it| it.system)));
        }),
        // `purge` deletes the messages.
        Strange::of("a purged conversation is cleared").purge(|shelf, older_than| {
            let mut data = shelf.data.lock();
            let mut purged = 0;
            for found in data.all.values_mut().filter(|it| it.active < older_than) {
                found.rows.clear();
                found.system = None;
                found.slots.clear();
                purged += 1;
            }
            Ok(purged)
        }),
        // `max(appended_at)`: system messages, slots and imports have other times.
        Strange::of("purge goes by the newest record").purge(|shelf, older_than| {
            Ok(shelf
                .keep(|_, it| it.rows.back().map_or(it.active, |row| row.1) >= millis(older_than)))
        }),
        // `DELETE … LIMIT 1` in a loop that is not there.
        Strange::of("purge takes one").purge(|shelf, older_than| {
            let mut taken = false;
            Ok(shelf.keep(|_, it| {
                let stays = taken || it.active >= millis(older_than);
                taken |= !stays;
                stays
            }))
        }),
        // What is appended to in between is deleted all the same.
        // The time in between is long, so that others come there on a machine that is busy, too.
        Strange::of("purge looks and then deletes").purge(|shelf, older_than| {
            let old = {
                let data = shelf.data.lock();
                let old = data.all.iter().filter(|(_, it)| it.active < millis(older_than));
                old.map(|(key, _)| key.clone()).collect::<Vec<_>>()
            };
            std::thread::sleep(Duration::from_millis(5));
            let mut purged = 0;
            for key in old {
                purged += u64::from(shelf.remove(&key)?);
            }
            Ok(purged)
        }),
    ]);
}

#[test]
fn a_law_finds_each_other_strange_prefix() {
    any_law(["moving"]).find([
        // U+D7FF and one is no character: the search ends at the prefix.
        matching("a prefix ends before the next character", |id, prefix| {
            let last = prefix.chars().last().unwrap_or('a');
            char::from_u32(last as u32 + 1).is_some() && id.starts_with(prefix)
        }),
        // `LIMIT n` comes first.
        Strange::of("a list by prefix is filtered after it was cut").prefixed(
            |shelf, prefix, after, n| {
                let ids = shelf.list("", after, n)?;
                Ok(ids.into_iter().filter(|id| id.as_str().starts_with(prefix)).collect())
            },
        ),
        deleting("a prefix to delete is a pattern of sql", |id, prefix| like(id, prefix, '%', '_')),
        // One page.
        Strange::of("a prefix deletes 256").delete_prefix(|shelf, prefix| {
            if prefix.is_empty() {
                return shelf.remove_prefix(prefix);
            }
            let mut left = 256;
            Ok(shelf.keep(|key, _| {
                let stays = left == 0 || !key.starts_with(prefix);
                left -= u64::from(!stays);
                stays
            }))
        }),
        // It clears where it should delete.
        Strange::of("what a prefix deletes keeps its positions").delete_prefix(|shelf, prefix| {
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
        }),
        told("activity is told as the time of the newest record", |shelf, key, mut info| {
            let data = shelf.data.lock();
            let newest = data.all.get(key).and_then(|it| it.rows.back()).map(|row| row.1);
            info.active = newest.unwrap_or(info.active);
            Some(info)
        }),
        // The snapshot has one.
        told("no incarnation is told", |_, _, mut info| {
            info.incarnation = None;
            Some(info)
        }),
    ]);
}
