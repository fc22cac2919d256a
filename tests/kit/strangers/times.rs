//! Faults in times and in what is activity.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::memory::Append;
use memory_prompt::record::Records;

use super::caught;
use super::shelf::{Book, Strange, millis, now};

/// A memory that reads other times.
fn read_at(
    other: impl Fn(&Book, u64, SystemTime) -> SystemTime + Send + Sync + 'static,
) -> Strange {
    Strange::default().read(move |book, read| {
        let mut snapshot = book.look(read)?;
        let other = |records: &Records| {
            let rows = records.iter();
            let rows = rows.map(|it| {
                (it.seq(), other(book, it.seq(), it.appended_at()), it.message().clone())
            });
            Records::from_rows(rows.collect::<Vec<_>>())
        };
        snapshot.records = other(&snapshot.records);
        let picked = other(snapshot.picked());
        Ok(snapshot.with_picked(picked, Vec::new()))
    })
}

/// A memory that keeps other times than it is given.
fn kept_at(
    other: impl Fn(&Append, usize, SystemTime) -> SystemTime + Send + Sync + 'static,
) -> Strange {
    Strange::default().append(move |book, append| {
        let times = append.times.clone();
        append.times = times.iter().enumerate().map(|(i, at)| other(append, i, *at)).collect();
        let appended = book.write(append);
        append.times = times;
        appended
    })
}

#[test]
fn a_time_is_that_of_the_read() {
    // `DEFAULT now()` in the wrong place.
    caught(read_at(|_, _, _| now()));
}

#[test]
fn a_time_is_that_of_the_last_write() {
    // `updated_at` of the conversation.
    caught(read_at(|book, _, _| book.found(|it| it.active).unwrap_or(UNIX_EPOCH)));
}

#[test]
fn a_time_has_whole_seconds() {
    // `timestamp(0)`.
    caught(read_at(|_, _, at| {
        UNIX_EPOCH + Duration::from_secs(at.duration_since(UNIX_EPOCH).unwrap().as_secs())
    }));
}

#[test]
fn a_time_that_is_given_has_whole_seconds() {
    caught(kept_at(|_, _, at| {
        UNIX_EPOCH
            + Duration::from_secs(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
    }));
}

#[test]
fn a_time_is_in_summer() {
    // `timestamp without time zone`, read in Berlin.
    caught(read_at(|_, _, at| at + Duration::from_secs(7200)));
}

#[test]
fn a_time_that_is_given_is_in_summer() {
    // The clock of the server is right; only what the caller brings goes through the zone.
    caught(kept_at(|_, _, at| at + Duration::from_secs(7200)));
}

#[test]
fn a_batch_has_one_time() {
    // That of its first message.
    caught(kept_at(|append, _, _| append.times[0]));
}

#[test]
fn a_system_message_has_no_time_of_its_own() {
    // The times are counted with the records, and the next one gets that of the system message.
    caught(Strange::default().append(|book, append| {
        let times = append.times.clone();
        if times.len() == append.messages.len() && !times.is_empty() {
            let records = append.messages.iter().scan(0, |next, message| {
                let at = *next;
                *next += usize::from(!message.is_system());
                Some(at)
            });
            append.times = records.map(|i| times[i.min(times.len() - 1)]).collect();
        }
        let appended = book.write(append);
        append.times = times;
        appended
    }));
}

#[test]
fn times_never_go_back() {
    // `max(previous, at)`: two clocks differ, and that looks wrong.
    caught(Strange::default().append(|book, append| {
        let times = append.times.clone();
        let mut last =
            book.found(|it| it.rows.back().map(|row| row.1)).flatten().unwrap_or(UNIX_EPOCH);
        for at in &mut append.times {
            *at = last.max(*at);
            last = *at;
        }
        let appended = book.write(append);
        append.times = times;
        appended
    }));
}

#[test]
fn times_are_not_in_the_future() {
    // `min(now, at)`.
    caught(kept_at(|_, _, at| at.min(now())));
}

#[test]
fn times_are_not_long_ago() {
    // 32 bits of milliseconds, or a check of what "can't be".
    caught(kept_at(|_, _, at| at.max(now() - Duration::from_secs(86_400))));
}

#[test]
fn times_are_left_alone() {
    // Nobody reads the field.
    caught(Strange::default().append(|book, append| {
        let times = append.times.clone();
        if append.check(&memory_prompt::memory::Limits::default().with_slot(usize::MAX)).is_ok() {
            append.times.clear();
        }
        let appended = book.write(append);
        append.times = times;
        appended
    }));
}

#[test]
fn missing_times_are_now() {
    // `zip`, which ends with the shorter one; too many are left over.
    caught(Strange::default().append(|book, append| {
        let times = append.times.clone();
        if !append.times.is_empty() {
            append.times.resize(append.messages.len(), now());
        }
        let appended = book.write(append);
        append.times = times;
        appended
    }));
}

#[test]
fn an_import_is_active_when_it_was_said() {
    // The next purge takes it, between its batches.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append)?;
        let newest = append.times.iter().max().filter(|_| append.active.is_none());
        if let Some(newest) = newest.filter(|_| !appended.repeated) {
            book.found(|it| it.active = millis(*newest));
        }
        Ok(appended)
    }));
}

#[test]
fn an_import_is_no_activity() {
    // Its messages are old, so the time of activity stays.
    caught(Strange::default().append(|book, append| {
        let active = book.found(|it| it.active);
        let appended = book.write(append)?;
        if !append.times.is_empty() && append.active.is_none() {
            book.found(|it| it.active = active.unwrap_or(it.active));
        }
        Ok(appended)
    }));
}

#[test]
fn activity_never_goes_back() {
    // `greatest(active, $1)`: a closed import stays active by the clock.
    caught(Strange::default().append(|book, append| {
        let active = book.found(|it| it.active);
        let appended = book.write(append)?;
        book.found(|it| it.active = it.active.max(active.unwrap_or(it.active)));
        Ok(appended)
    }));
}

#[test]
fn closing_is_by_the_clock() {
    // The time is taken, and `now()` is written.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append)?;
        if append.active.is_some() && !appended.repeated {
            book.found(|it| it.active = now());
        }
        Ok(appended)
    }));
}

#[test]
fn closing_is_with_nothing_else() {
    // With messages or slots beside it, it is an append as always.
    caught(Strange::default().append(|book, append| {
        let active = append.active;
        if !append.messages.is_empty() || !append.slots.is_empty() {
            append.active = None;
        }
        let appended = book.write(append);
        append.active = active;
        appended
    }));
}

#[test]
fn closing_expects_nothing() {
    // `UPDATE conversations SET active = $1`, by whoever else it was active.
    caught(Strange::default().append(|book, append| {
        let expected = append.expected;
        if append.active.is_some() && append.messages.is_empty() {
            append.expected = None;
        }
        let appended = book.write(append);
        append.expected = expected;
        appended
    }));
}

#[test]
fn closing_begins_a_conversation() {
    // An upsert.
    caught(Strange::default().append(|book, append| {
        if append.active.is_some()
            && append.check_on_nothing().is_ok()
            && book.found(|_| ()).is_none()
        {
            append.check(&memory_prompt::memory::Limits::default().with_slot(usize::MAX))?;
            book.shelf.begin(&book.key, 0, None)?;
        }
        book.write(append)
    }));
}

#[test]
fn closing_has_whole_seconds() {
    caught(Strange::default().append(|book, append| {
        let active = append.active;
        append.active = active.map(|at| {
            UNIX_EPOCH
                + Duration::from_secs(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
        });
        let appended = book.write(append);
        append.active = active;
        appended
    }));
}

/// A memory in which this is activity, too.
fn touch(book: &Book) {
    book.found(|it| it.active = it.active.max(now()));
}

#[test]
fn clear_is_activity() {
    caught(Strange::default().clear(|book| {
        touch(book);
        book.wipe()
    }));
}

#[test]
fn evict_is_activity() {
    caught(Strange::default().evict(|book, before| {
        touch(book);
        book.cut(before)
    }));
}

#[test]
fn a_read_is_activity() {
    // A cache with a time to live that is renewed by each access.
    caught(Strange::default().read(|book, read| {
        touch(book);
        book.look(read)
    }));
}

#[test]
fn a_look_at_the_slots_is_activity() {
    caught(Strange::default().slots(|book| {
        touch(book);
        book.names()
    }));
}

#[test]
fn an_empty_append_is_activity() {
    caught(Strange::default().append(|book, append| {
        let is_empty = append.is_empty();
        let appended = book.write(append)?;
        if is_empty {
            touch(book);
        }
        Ok(appended)
    }));
}

#[test]
fn a_failed_append_is_activity() {
    // `active = now()` comes before the conflict.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append);
        if appended.is_err() {
            touch(book);
        }
        appended
    }));
}

#[test]
fn an_empty_append_begins_a_conversation() {
    caught(Strange::default().append(|book, append| {
        if append.is_empty() && append.check_on_nothing().is_ok() && book.found(|_| ()).is_none() {
            append.check(&memory_prompt::memory::Limits::default().with_slot(usize::MAX))?;
            book.shelf.begin(&book.key, 0, None)?;
        }
        book.write(append)
    }));
}

#[test]
fn a_failed_append_begins_a_conversation() {
    // The row of the conversation is locked by inserting it, in a transaction of its own.
    caught(Strange::default().append(|book, append| {
        let is_there = book.found(|_| ()).is_some();
        let appended = book.write(append);
        if appended.is_err() && !is_there {
            let _ = book.shelf.begin(&book.key, 0, None);
        }
        appended
    }));
}

#[test]
fn a_system_message_is_no_activity() {
    // Only rows of messages have a time.
    caught(Strange::default().append(|book, append| {
        let active = book.found(|it| it.active);
        let is_system =
            !append.messages.is_empty() && append.messages.iter().all(|it| it.is_system());
        let appended = book.write(append)?;
        if is_system && append.active.is_none() {
            book.found(|it| it.active = active.unwrap_or(it.active));
        }
        Ok(appended)
    }));
}

#[test]
fn the_same_system_message_is_no_activity() {
    // It "changes nothing", not even the time; but it was appended.
    caught(Strange::default().append(|book, append| {
        let (active, system) =
            book.found(|it| (Some(it.active), it.system.clone())).unwrap_or_default();
        let is_same = append.messages.len() == 1 && append.messages.first() == system.as_deref();
        let appended = book.write(append)?;
        if is_same && append.active.is_none() && append.slots.is_empty() {
            book.found(|it| it.active = active.unwrap_or(it.active));
        }
        Ok(appended)
    }));
}

#[test]
fn plain_appends_are_no_activity() {
    // The column came later, and the old statement does not know it.
    caught(Strange::default().append(|book, append| {
        let active = book.found(|it| it.active);
        let is_plain = append.id.is_none() && append.slots.is_empty() && append.times.is_empty();
        let appended = book.write(append)?;
        if is_plain && append.active.is_none() && append.expected.is_none() {
            book.found(|it| it.active = active.unwrap_or(it.active));
        }
        Ok(appended)
    }));
}
