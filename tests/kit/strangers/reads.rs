//! Faults in reading and evicting.

use memory_prompt::memory::Read;
use memory_prompt::record::{Incarnation, Records, Snapshot};

use super::shelf::{Book, Strange, failed};
use super::{caught, pause};

/// A memory that is asked for something else.
fn asked(other: impl Fn(&Book, &mut Read) + Send + Sync + 'static) -> Strange {
    Strange::default().read(move |book, read| {
        let mut read = read.clone();
        other(book, &mut read);
        book.look(&read)
    })
}

/// A memory that answers something else.
fn answered(other: impl Fn(&Book, &Read, &mut Snapshot) + Send + Sync + 'static) -> Strange {
    Strange::default().read(move |book, read| {
        let mut snapshot = book.look(read)?;
        other(book, read, &mut snapshot);
        Ok(snapshot)
    })
}

#[test]
fn no_records_are_all_records() {
    // MongoDB's `limit(0)` is no limit.
    caught(asked(|_, read| {
        if read.n == 0 {
            read.n = usize::MAX;
        }
    }));
}

#[test]
fn a_number_has_32_bits() {
    // `n as u32`: four thousand million and more are none.
    caught(asked(|_, read| read.n = read.n as u32 as usize));
}

#[test]
fn a_position_has_32_bits() {
    caught(Strange::default().restore(|shelf, key, start, incarnation| {
        shelf.begin(key, u64::from(start as u32), incarnation)
    }));
}

#[test]
fn before_the_start_is_the_oldest_page() {
    // `max(before, start + n)`: an empty page looks like a mistake.
    caught(asked(|book, read| {
        let start = book.found(|it| it.start()).unwrap_or(0);
        read.before = read.before.map(|it| it.max(start + 1));
    }));
}

#[test]
fn before_goes_by_rows() {
    // `OFFSET`, right until something is evicted.
    caught(asked(|book, read| {
        let start = book.found(|it| it.start()).unwrap_or(0);
        read.before = read.before.map(|it| it.saturating_add(start));
    }));
}

#[test]
fn the_oldest_records_are_read() {
    // `LIMIT n` without `DESC`.
    caught(Strange::default().read(|book, read| {
        let snapshot = book.look(&with_n(read, usize::MAX))?;
        let rows = snapshot.records.iter().take(read.n);
        let rows = rows.map(|it| (it.position(), it.appended_at(), it.message().clone()));
        let mut oldest = book.look(&with_n(read, 0))?;
        oldest.records = Records::from_rows(rows.collect::<Vec<_>>());
        Ok(oldest)
    }));
}

#[test]
fn the_end_is_that_of_the_page() {
    // Where the page was read before a position.
    caught(answered(|_, read, snapshot| {
        snapshot.end =
            read.before.map_or(snapshot.end, |it| it.clamp(snapshot.start, snapshot.end));
    }));
}

#[test]
fn an_emptied_memory_starts_at_0() {
    // `min(position)` of no row is null.
    caught(answered(|_, _, snapshot| {
        if snapshot.records.is_empty() && snapshot.start == snapshot.end {
            snapshot.start = 0;
        }
    }));
}

#[test]
fn a_page_without_records_is_of_nothing() {
    // `if rows.is_empty() { return Ok(Snapshot::default()) }`.
    caught(answered(|_, _, snapshot| {
        if snapshot.records.is_empty() {
            *snapshot = Snapshot::default();
        }
    }));
}

#[test]
fn an_evicted_record_is_read_by_its_position() {
    // Eviction moves a mark, and rows are cleaned up later: only the newest are read behind the
    // mark.
    caught(
        Strange::default()
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
                let mut rows: Vec<_> = grave
                    .rows
                    .into_iter()
                    .filter(|row| read.positions.contains(&row.0) && row.0 < snapshot.start)
                    .collect();
                rows.extend(
                    snapshot
                        .picked()
                        .iter()
                        .map(|it| (it.position(), it.appended_at(), it.message().clone())),
                );
                rows.sort_by_key(|row| row.0);
                rows.dedup_by_key(|row| row.0);
                Ok(snapshot.with_picked(Records::from_rows(rows), Vec::new()))
            }),
    );
}

#[test]
fn what_is_asked_for_twice_is_picked_twice() {
    // One query for each position.
    caught(answered(|_, read, snapshot| {
        let picked: Vec<_> = snapshot
            .picked()
            .iter()
            .flat_map(|it| {
                let times =
                    read.positions.iter().filter(|position| **position == it.position()).count();
                (0..times).map(move |_| (it.position(), it.appended_at(), it.message().clone()))
            })
            .collect();
        *snapshot = std::mem::take(snapshot).with_picked(Records::from_rows(picked), Vec::new());
    }));
}

#[test]
fn a_row_of_positions_is_picked_whole() {
    // `BETWEEN min AND max`.
    caught(answered(|book, read, snapshot| {
        let (Some(first), Some(last)) = (read.positions.iter().min(), read.positions.iter().max())
        else {
            return;
        };
        let rows = book.found(|it| {
            it.rows
                .iter()
                .filter(|row| (*first..=*last).contains(&row.0))
                .cloned()
                .collect::<Vec<_>>()
        });
        *snapshot = std::mem::take(snapshot)
            .with_picked(Records::from_rows(rows.unwrap_or_default()), Vec::new());
    }));
}

#[test]
fn ten_records_are_picked() {
    // The most parameters of a statement.
    caught(answered(|_, read, snapshot| {
        let mut wanted: Vec<u64> = read.positions.clone();
        wanted.truncate(10);
        keep_picked(snapshot, |position| wanted.contains(&position));
    }));
}

/// Keeps the picked records at these positions.
fn keep_picked(snapshot: &mut Snapshot, wanted: impl Fn(u64) -> bool) {
    let rows = snapshot.picked().iter().filter(|it| wanted(it.position()));
    let rows: Vec<_> =
        rows.map(|it| (it.position(), it.appended_at(), it.message().clone())).collect();
    *snapshot = std::mem::take(snapshot).with_picked(Records::from_rows(rows), Vec::new());
}

/// The same read of another number of records.
fn with_n(read: &Read, n: usize) -> Read {
    let mut read = read.clone();
    read.n = n;
    read
}

#[test]
fn a_slot_that_is_not_there_is_an_error() {
    caught(Strange::default().read(|book, read| {
        let snapshot = book.look(read)?;
        if read.slots.iter().any(|name| snapshot.slot(name).is_none()) {
            return Err(failed("read", "no such slot"));
        }
        Ok(snapshot)
    }));
}

#[test]
fn the_first_slot_is_read() {
    // One name is what everybody asks for.
    caught(Strange::default().read(|book, read| {
        read.check()?;
        let mut read = read.clone();
        read.slots.truncate(1);
        book.look(&read)
    }));
}

#[test]
fn slots_are_read_after_the_records() {
    // A second query: what was appended in between is in one of both.
    caught(Strange::default().read(|book, read| {
        let mut records = read.clone();
        read.check()?;
        records.slots.clear();
        let snapshot = book.look(&records)?;
        pause();
        let slots = book.look(&Read::newest(0).slots(read.slots.clone()))?;
        Ok(snapshot.with_slots(slots.slots().to_vec()))
    }));
}

#[test]
fn single_records_are_read_after_the_newest() {
    // A second query, between which and the first something was evicted.
    caught(Strange::default().read(|book, read| {
        let mut newest = read.clone();
        newest.positions.clear();
        let snapshot = book.look(&newest)?;
        pause();
        let picked = book.look(&Read::newest(0).positions(read.positions.clone()))?;
        Ok(snapshot.with_picked(picked.picked().clone(), Vec::new()))
    }));
}

#[test]
fn the_end_is_read_after_the_records() {
    // A second query.
    caught(Strange::default().read(|book, read| {
        let mut snapshot = book.look(read)?;
        pause();
        let now = book.look(&Read::newest(0))?;
        (snapshot.start, snapshot.end) = (now.start, now.end);
        Ok(snapshot)
    }));
}

#[test]
fn the_system_message_is_read_after_the_records() {
    // A second query: it is newer than what stands behind it.
    caught(Strange::default().read(|book, read| {
        let mut snapshot = book.look(read)?;
        pause();
        snapshot.system = book.look(&Read::newest(0))?.system;
        Ok(snapshot)
    }));
}

#[test]
fn a_handle_reads_from_its_cache() {
    // It is emptied by appends through the same handle.
    caught(
        Strange::default()
            .append(|book, append| {
                *book.cache.lock() = None;
                book.write(append)
            })
            .read(|book, read| {
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
                let rows = all.records.iter().skip(skip);
                let rows: Vec<_> = rows
                    .map(|it| (it.position(), it.appended_at(), it.message().clone()))
                    .collect();
                snapshot.records = Records::from_rows(rows);
                Ok(snapshot)
            })
            .evict(|book, before| {
                *book.cache.lock() = None;
                book.cut(before)
            })
            .clear(|book| {
                *book.cache.lock() = None;
                book.wipe()
            }),
    );
}

#[test]
fn a_replica_is_one_append_behind() {
    // Reads go to another machine, which gets the newest append with the next one.
    caught(
        Strange::default()
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
    );
}

#[test]
fn the_system_message_is_cached_by_the_handle() {
    // It "never changes".
    caught(Strange::default().read(|book, read| {
        let mut snapshot = book.look(read)?;
        let mut cache = book.cache.lock();
        let first = cache.get_or_insert_with(Snapshot::default);
        first.system = first.system.take().or(snapshot.system.take());
        snapshot.system.clone_from(&first.system);
        Ok(snapshot)
    }));
}

#[test]
fn the_slots_are_cached_by_the_handle() {
    // Each handle writes through its cache, and does not see what the others write.
    caught(
        Strange::default()
            .append(|book, append| {
                *book.cache.lock() = None;
                book.write(append)
            })
            .clear(|book| {
                *book.cache.lock() = None;
                book.wipe()
            })
            .read(|book, read| {
                let mut plain = read.clone();
                plain.slots.clear();
                let snapshot = book.look(&plain)?;
                read.check()?;
                let mut cache = book.cache.lock();
                let names = book.names()?.into_iter().map(|it| it.0);
                let all = cache.get_or_insert(book.look(&Read::newest(0).slots(names))?);
                let wanted =
                    all.slots().iter().filter(|it| read.slots.iter().any(|name| name == it.name()));
                let wanted: Vec<_> =
                    wanted.filter(|_| snapshot.incarnation == all.incarnation).cloned().collect();
                Ok(snapshot.with_slots(wanted))
            }),
    );
}

#[test]
fn a_page_is_out_of_order() {
    // Rows come as the partitions answer: the messages stand at other positions.
    caught(answered(|_, _, snapshot| {
        let rows: Vec<_> = snapshot
            .records
            .iter()
            .map(|it| (it.position(), it.appended_at(), it.message().clone()))
            .collect();
        if rows.len() > 2 {
            let messages: Vec<_> = rows.iter().rev().map(|row| row.2.clone()).collect();
            let rows = rows.iter().zip(messages).map(|(row, message)| (row.0, row.1, message));
            snapshot.records = Records::from_rows(rows.collect::<Vec<_>>());
        }
    }));
}

// Evicting.

#[test]
fn evict_says_how_many_are_gone_by_now() {
    // Those of earlier evictions included: `before - 0`.
    caught(Strange::default().evict(|book, before| {
        book.cut(before)?;
        Ok(book.found(|it| it.start()).unwrap_or(0))
    }));
}

#[test]
fn evict_takes_the_position_itself() {
    // `<=`.
    caught(Strange::default().evict(|book, before| book.cut(before.saturating_add(1))));
}

#[test]
fn evict_beyond_the_end_moves_the_end() {
    // `start = before`, and the end is not before the start.
    caught(Strange::default().evict(|book, before| {
        let gone = book.cut(before)?;
        book.found(|it| it.end = it.end.max(before.min(1 << 40)));
        Ok(gone)
    }));
}

#[test]
fn evict_takes_1000_rows() {
    // `DELETE … LIMIT 1000`.
    caught(Strange::default().evict(|book, before| {
        let start = book.found(|it| it.start()).unwrap_or(0);
        book.cut(before.min(start + 1000))
    }));
}

#[test]
fn evict_brings_a_start_back() {
    // `start = before`, though it was further already.
    caught(
        Strange::default()
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
    );
}

#[test]
fn clear_leaves_the_conversation_nowhere() {
    // It is deleted, and begins again at the old position.
    caught(
        Strange::default()
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
    );
}

// Incarnations.

#[test]
fn an_incarnation_outlives_a_clear() {
    caught(Strange::default().clear(|book| {
        let before = book.found(|it| it.incarnation);
        book.wipe()?;
        book.found(|it| it.incarnation = before.unwrap_or(it.incarnation));
        Ok(())
    }));
}

#[test]
fn an_incarnation_is_new_after_everything_is_evicted() {
    caught(Strange::default().evict(|book, before| {
        let gone = book.cut(before)?;
        book.found(|it| it.rows.is_empty().then(|| it.incarnation = Incarnation::random()));
        Ok(gone)
    }));
}

// What was seen.

#[test]
fn what_was_seen_must_be_the_newest() {
    // `newest + 1 == end`: somebody else's append makes it forgotten.
    caught(Strange::default().append(|book, append| {
        let end = book.end();
        if append.since.is_some_and(|it| it.newest.is_some_and(|it| it + 1 != end))
            && !book.knows(append.id.as_deref())
        {
            return Err(memory_prompt::Error::new(
                memory_prompt::ErrorKind::Forgotten,
                "append",
                "it went on",
            ));
        }
        book.write(append)
    }));
}

#[test]
fn what_was_seen_of_nothing_holds_nowhere() {
    // An empty snapshot has no incarnation, and none is not that of the conversation.
    caught(Strange::default().append(|book, append| {
        let incarnation = book.found(|it| it.incarnation);
        if append.since.is_some_and(|it| it.incarnation != incarnation) {
            return Err(memory_prompt::Error::new(
                memory_prompt::ErrorKind::Forgotten,
                "append",
                "it is another",
            ));
        }
        book.write(append)
    }));
}
