//! Faults in times and in what is activity.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use memory_prompt::memory::Append;
use memory_prompt::record::Records;

use super::caught;
use super::shelf::{Book, Strange, now};

/// A memory that reads other times.
fn read_at(
    other: impl Fn(&Book, u64, SystemTime) -> SystemTime + Send + Sync + 'static,
) -> Strange {
    Strange::default().read(move |book, read| {
        let mut snapshot = book.look(read)?;
        let other = |records: &Records| {
            let rows = records.iter();
            let rows = rows.map(|it| {
                (it.position(), other(book, it.position(), it.appended_at()), it.message().clone())
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
fn a_time_is_that_of_the_last_write() {
    // `updated_at` of the conversation.
    caught(read_at(|book, _, _| book.found(|it| it.active).unwrap_or(UNIX_EPOCH)));
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
