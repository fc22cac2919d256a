//! Faults in reading and evicting.

use std::mem::take;

use memory_prompt::memory::Read;
use memory_prompt::record::{Incarnation, Records, Slot, Snapshot};
use memory_prompt::{Error, ErrorKind};

use super::shelf::{Book, Strange, failed, hash, rows};
use super::{any_law, laws, otherwise, pause};

/// A memory that is asked for something else.
fn asked(fault: &'static str, other: impl Fn(&Book, &mut Read) + Send + Sync + 'static) -> Strange {
    Strange::of(fault).read(move |book, read| book.look_as(read, |it| other(book, it)))
}

/// A memory that answers something else.
fn answered(
    fault: &'static str,
    other: impl Fn(&Book, &Read, &mut Snapshot) + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault).read(move |book, read| {
        let mut snapshot = book.look(read)?;
        other(book, read, &mut snapshot);
        Ok(snapshot)
    })
}

/// A memory that does this before each append, each eviction and each clearing.
fn emptying(fault: &'static str, done: fn(&Book)) -> Strange {
    Strange::of(fault)
        .append(move |book, append| {
            done(book);
            book.write(append)
        })
        .evict(move |book, before| {
            done(book);
            book.cut(before)
        })
        .clear(move |book| {
            done(book);
            book.wipe()
        })
}

/// The snapshot with other single records.
fn picking(snapshot: &mut Snapshot, picked: Records) {
    *snapshot = take(snapshot).with_picked(picked, Vec::new());
}

/// The names of all slots.
fn names(book: &Book) -> Vec<String> {
    book.found(|it| it.slots.keys().cloned().collect()).unwrap_or_default()
}

#[test]
fn laws_find_strange_reads() {
    laws([
        "memory::n_of_0_returns_no_records",
        "memory::batches_of_8_writers_stay_contiguous_and_none_is_lost",
        "memory::any_list_of_operations_gives_what_a_list_gives",
    ])
    .find([asked("one more is read", |_, read| read.n = read.n.saturating_add(1))]);

    laws([
        "memory::a_system_message_is_never_evicted",
        "memory::n_of_0_returns_no_records",
        "memory::any_list_of_operations_gives_what_a_list_gives",
    ])
    .find([Strange::of("evicting clears").evict(|book, before| {
        let gone = book.cut(before)?;
        book.wipe()?;
        Ok(gone)
    })]);

    laws(["memory::reads_are_snapshots_while_others_append"]).find([
        // A second query.
        Strange::of("the end is read after the records").read(|book, read| {
            let mut snapshot = book.look(read)?;
            pause();
            let now = book.look(&Read::newest(0))?;
            (snapshot.start, snapshot.end) = (now.start, now.end);
            Ok(snapshot)
        }),
        // A second query: it is newer than what stands behind it.
        Strange::of("the system message is read after the records").read(|book, read| {
            let mut snapshot = book.look(read)?;
            pause();
            snapshot.system = book.look(&Read::newest(0))?.system;
            Ok(snapshot)
        }),
    ]);

    laws(["slots::slots_and_single_records_are_of_the_moment_of_the_read"]).find([
        // A second query: what was appended in between is in one of both.
        Strange::of("slots are read after the records").read(|book, read| {
            read.check()?;
            let snapshot = book.look_as(read, |it| it.slots.clear())?;
            pause();
            let slots = book.look(&Read::newest(0).slots(read.slots.clone()))?;
            Ok(snapshot.with_slots(slots.slots().to_vec()))
        }),
        // A second query, between which and the first something was evicted.
        Strange::of("single records are read after the newest").read(|book, read| {
            let snapshot = book.look_as(read, |it| it.positions.clear())?;
            pause();
            let picked = book.look(&Read::newest(0).positions(read.positions.clone()))?;
            Ok(snapshot.with_picked(picked.picked().clone(), Vec::new()))
        }),
    ]);

    laws(["slots::a_read_brings_the_slots_that_it_names"]).find([
        asked("a read brings all slots", |book, read| {
            if !read.slots.is_empty() {
                read.slots = names(book);
            }
        }),
        asked("a plain read brings slots", |book, read| {
            if read.slots.is_empty() {
                read.slots = names(book);
            }
        }),
        answered("a slot that is named twice comes twice", |_, read, snapshot| {
            let times = |it: &Slot| read.slots.iter().filter(|name| *name == it.name()).count();
            let slots = snapshot.slots().iter().flat_map(|it| vec![it.clone(); times(it)]);
            let slots: Vec<_> = slots.collect();
            *snapshot = take(snapshot).with_slots(slots);
        }),
    ]);

    laws([
        "slots::single_records_come_with_the_newest",
        "memory::the_larger_forms_do_what_the_plain_ones_do",
    ])
    .find([
        answered("single records are among the newest", |_, read, snapshot| {
            let newest = rows(&snapshot.records).filter(|row| read.positions.contains(&row.0));
            let newest = Records::from_rows(newest);
            picking(snapshot, newest);
        }),
        answered("single records are not among the newest", |_, read, snapshot| {
            let newest = rows(&snapshot.records).filter(|row| !read.positions.contains(&row.0));
            snapshot.records = Records::from_rows(newest);
        }),
    ]);

    laws(["slots::single_records_come_with_the_newest"]).find([answered(
        "single records come in the order asked",
        |_, read, snapshot| {
            let asked = read.positions.iter();
            let asked = asked.filter_map(|it| rows(snapshot.picked()).find(|row| row.0 == *it));
            let asked = Records::from_rows(asked.collect::<Vec<_>>());
            picking(snapshot, asked);
        },
    )]);

    laws(["slots::an_incarnation_lasts_until_a_clear"]).find([
        Strange::of("an incarnation outlives a clear")
            .cleared(|it, was| it.incarnation = was.incarnation),
        answered("an incarnation is that of the read", |_, _, snapshot| {
            snapshot.incarnation = snapshot.incarnation.map(|_| Incarnation::random());
        }),
    ]);

    laws([
        "slots::an_incarnation_lasts_until_a_clear",
        "moving::info_tells_where_a_conversation_stands",
    ])
    .find([answered("there is no incarnation", |_, _, snapshot| snapshot.incarnation = None)]);

    laws(["moving::a_new_beginning_knows_nothing_of_before"]).find([
        answered("an incarnation is that of the id", |book, _, snapshot| {
            let of_id = Incarnation::from_bits(hash(book.key.as_bytes()));
            snapshot.incarnation = snapshot.incarnation.map(|_| of_id);
        }),
        answered("nothing has an incarnation", |_, _, snapshot| {
            snapshot.incarnation = snapshot.incarnation.or(Some(Incarnation::random()));
        }),
    ]);

    laws(["slots::an_append_may_expect_what_was_seen"]).find([
        otherwise("what was seen is passed over", |_, append| append.since = None),
        otherwise("a clear is not seen", |_, append| {
            append.since.iter_mut().for_each(|since| since.incarnation = None);
        }),
        otherwise("an eviction is not seen", |_, append| {
            append.since.iter_mut().for_each(|since| since.newest = None);
        }),
    ]);
}

#[test]
fn a_law_finds_each_other_strange_read() {
    any_law(["memory", "slots"]).find([
        // MongoDB's `limit(0)` is no limit.
        asked("no records are all records", |_, read| {
            if read.n == 0 {
                read.n = usize::MAX;
            }
        }),
        // `n as u32`: four thousand million and more are none.
        asked("a number has 32 bits", |_, read| read.n = read.n as u32 as usize),
        Strange::of("a position has 32 bits").restore(|shelf, key, start, incarnation| {
            shelf.begin(key, u64::from(start as u32), incarnation)
        }),
        // `max(before, start + n)`: an empty page looks like a mistake.
        asked("before the start is the oldest page", |book, read| {
            let start = book.found(|it| it.start()).unwrap_or(0);
            read.before = read.before.map(|it| it.max(start + 1));
        }),
        // `OFFSET`, right until something is evicted.
        asked("before goes by rows", |book, read| {
            let start = book.found(|it| it.start()).unwrap_or(0);
            read.before = read.before.map(|it| it.saturating_add(start));
        }),
        // `LIMIT n` without `DESC`.
        Strange::of("the oldest records are read").read(|book, read| {
            let all = book.look_as(read, |it| it.n = usize::MAX)?;
            let mut oldest = book.look_as(read, |it| it.n = 0)?;
            oldest.records =
                Records::from_rows(rows(&all.records).take(read.n).collect::<Vec<_>>());
            Ok(oldest)
        }),
        // Where the page was read before a position.
        answered("the end is that of the page", |_, read, snapshot| {
            snapshot.end =
                read.before.map_or(snapshot.end, |it| it.clamp(snapshot.start, snapshot.end));
        }),
        // `min(position)` of no row is null.
        answered("an emptied memory starts at 0", |_, _, snapshot| {
            if snapshot.records.is_empty() && snapshot.start == snapshot.end {
                snapshot.start = 0;
            }
        }),
        // `if rows.is_empty() { return Ok(Snapshot::default()) }`.
        answered("a page without records is of nothing", |_, _, snapshot| {
            if snapshot.records.is_empty() {
                *snapshot = Snapshot::default();
            }
        }),
        // Eviction moves a mark, and rows are cleaned up later: only the newest are read behind the
        // mark.
        Strange::of("an evicted record is read by its position")
            .evict(|book, before| {
                let mut data = book.data();
                if let Some(found) = data.all.get(&book.key).cloned() {
                    let grave =
                        data.graves.entry(book.key.clone()).or_insert_with(|| found.clone());
                    grave.rows.extend(found.rows);
                }
                drop(data);
                book.cut(before)
            })
            .read(|book, read| {
                let snapshot = book.look(read)?;
                let graves = book.data().graves.get(&book.key).cloned();
                let Some(grave) = graves.filter(|_| !read.positions.is_empty()) else {
                    return Ok(snapshot);
                };
                let evicted = grave.rows.into_iter();
                let evicted =
                    evicted.filter(|row| read.positions.contains(&row.0) && row.0 < snapshot.start);
                let mut all: Vec<_> = evicted.chain(rows(snapshot.picked())).collect();
                all.sort_by_key(|row| row.0);
                all.dedup_by_key(|row| row.0);
                Ok(snapshot.with_picked(Records::from_rows(all), Vec::new()))
            }),
        // One query for each position.
        answered("what is asked for twice is picked twice", |_, read, snapshot| {
            let times = |at: u64| read.positions.iter().filter(|it| **it == at).count();
            let twice = rows(snapshot.picked()).flat_map(|row| vec![row.clone(); times(row.0)]);
            let twice = Records::from_rows(twice.collect::<Vec<_>>());
            picking(snapshot, twice);
        }),
        // `BETWEEN min AND max`.
        answered("a row of positions is picked whole", |book, read, snapshot| {
            let (first, last) = (read.positions.iter().min(), read.positions.iter().max());
            let Some((first, last)) = first.zip(last) else { return };
            let between = |row: &u64| (*first..=*last).contains(row);
            let held = book.found(|it| it.rows.clone()).unwrap_or_default();
            picking(snapshot, Records::from_rows(held.into_iter().filter(|row| between(&row.0))));
        }),
        // The most parameters of a statement.
        asked("ten records are picked", |_, read| read.positions.truncate(10)),
        Strange::of("a slot that is not there is an error").read(|book, read| {
            let snapshot = book.look(read)?;
            if read.slots.iter().any(|name| snapshot.slot(name).is_none()) {
                return Err(failed("read", "no such slot"));
            }
            Ok(snapshot)
        }),
        // One name is what everybody asks for.
        Strange::of("the first slot is read").read(|book, read| {
            read.check()?;
            book.look_as(read, |it| it.slots.truncate(1))
        }),
        // It is emptied by appends through the same handle.
        emptying("a handle reads from its cache", |book| *book.cache.lock() = None).read(
            |book, read| {
                let is_other =
                    |seen: &Snapshot| seen.incarnation != book.found(|it| it.incarnation);
                if !read.is_plain() || read.before.is_some() {
                    return book.look(read);
                }
                let mut cache = book.cache.lock();
                *cache = cache.take().filter(|seen| !is_other(seen));
                let all = cache.get_or_insert(book.look(&Read::newest(usize::MAX))?);
                let mut snapshot = all.clone();
                let skip = all.records.len().saturating_sub(read.n);
                snapshot.records =
                    Records::from_rows(rows(&all.records).skip(skip).collect::<Vec<_>>());
                Ok(snapshot)
            },
        ),
        // Reads go to another machine, which gets the newest append with the next one.
        Strange::of("a replica is one append behind")
            .append(|book, append| {
                let before = book.look(&Read::newest(usize::MAX))?;
                let appended = book.write(append)?;
                *book.cache.lock() = Some(before);
                Ok(appended)
            })
            .read(|book, read| {
                match book.cache.lock().take().filter(|_| read.is_plain() && read.before.is_none())
                {
                    Some(behind) if behind.end > 0 && read.n >= behind.records.len() => Ok(behind),
                    _ => book.look(read),
                }
            }),
        // It "never changes".
        Strange::of("the system message is cached by the handle").read(|book, read| {
            let mut snapshot = book.look(read)?;
            let mut cache = book.cache.lock();
            let first = cache.get_or_insert_with(Snapshot::default);
            first.system = first.system.take().or(snapshot.system.take());
            snapshot.system.clone_from(&first.system);
            Ok(snapshot)
        }),
        // Each handle writes through its cache, and does not see what the others write.
        emptying("the slots are cached by the handle", |book| *book.cache.lock() = None).read(
            |book, read| {
                let snapshot = book.look_as(read, |it| it.slots.clear())?;
                read.check()?;
                let mut cache = book.cache.lock();
                let names = book.names()?.into_iter().map(|it| it.0);
                let all = cache.get_or_insert(book.look(&Read::newest(0).slots(names))?);
                let wanted =
                    all.slots().iter().filter(|it| read.slots.iter().any(|name| name == it.name()));
                let wanted: Vec<_> =
                    wanted.filter(|_| snapshot.incarnation == all.incarnation).cloned().collect();
                Ok(snapshot.with_slots(wanted))
            },
        ),
        // Rows come as the partitions answer: the messages stand at other positions.
        answered("a page is out of order", |_, _, snapshot| {
            let held: Vec<_> = rows(&snapshot.records).collect();
            if held.len() > 2 {
                let other = held.iter().zip(held.iter().rev());
                let other = other.map(|(row, other)| (row.0, row.1, other.2.clone()));
                snapshot.records = Records::from_rows(other.collect::<Vec<_>>());
            }
        }),
    ]);
}

#[test]
fn a_law_finds_each_strange_eviction() {
    any_law(["memory", "slots"]).find([
        // Those of earlier evictions included: `before - 0`.
        Strange::of("evict says how many are gone by now").evict(|book, before| {
            book.cut(before)?;
            Ok(book.found(|it| it.start()).unwrap_or(0))
        }),
        // `<=`.
        Strange::of("evict takes the position itself")
            .evict(|book, before| book.cut(before.saturating_add(1))),
        // `start = before`, and the end is not before the start.
        Strange::of("evict beyond the end moves the end")
            .evicted(|it, before| it.end = it.end.max(before.min(1 << 40))),
        // `DELETE … LIMIT 1000`.
        Strange::of("evict takes 1000 rows").evict(|book, before| {
            let start = book.found(|it| it.start()).unwrap_or(0);
            book.cut(before.min(start + 1000))
        }),
        // `start = before`, though it was further already.
        Strange::of("evict brings a start back")
            .evict(|book, before| {
                let gone = book.cut(before)?;
                let key = format!("{}/start", book.key);
                book.data().notes.insert(key, before);
                Ok(gone)
            })
            .read(|book, read| {
                let mut snapshot = book.look(read)?;
                let start = book.data().notes.get(&format!("{}/start", book.key)).copied();
                snapshot.start = start.map_or(snapshot.start, |it| it.min(snapshot.start));
                Ok(snapshot)
            }),
        // It is deleted, and begins again at the old position.
        Strange::of("clear leaves the conversation nowhere")
            .clear(|book| {
                let key = format!("{}/end", book.key);
                let end = book.end();
                let mut data = book.data();
                data.notes.insert(key, end);
                data.all.remove(&book.key);
                Ok(())
            })
            .append(|book, append| {
                let end = book.data().notes.remove(&format!("{}/end", book.key));
                if let Some(end) = end.filter(|_| book.found(|_| ()).is_none()) {
                    book.shelf.begin(&book.key, end, None)?;
                }
                book.write(append)
            }),
        Strange::of("an incarnation is new after everything is evicted").evicted(|it, _| {
            if it.rows.is_empty() {
                it.incarnation = Incarnation::random();
            }
        }),
        // `newest + 1 == end`: somebody else's append makes it forgotten.
        Strange::of("what was seen must be the newest").append(|book, append| {
            let end = book.end();
            if append.since.is_some_and(|it| it.newest.is_some_and(|it| it + 1 != end))
                && !book.knows(append.id.as_deref())
            {
                return Err(Error::new(ErrorKind::Forgotten, "append", "it went on"));
            }
            book.write(append)
        }),
        // An empty snapshot has no incarnation, and none is not that of the conversation.
        Strange::of("what was seen of nothing holds nowhere").append(|book, append| {
            let incarnation = book.found(|it| it.incarnation);
            if append.since.is_some_and(|it| it.incarnation != incarnation) {
                return Err(Error::new(ErrorKind::Forgotten, "append", "it is another"));
            }
            book.write(append)
        }),
    ]);
}
