//! Faults in recognising appends by their ids.

use memory_prompt::memory::Appended;

use super::shelf::{Book, Strange};
use super::{caught, pause};

/// Whether this append comes again.
fn again(book: &Book, id: Option<&str>) -> bool {
    book.knows(id)
}

#[test]
fn an_id_is_known_while_its_messages_are() {
    // A column of the table of messages.
    caught(Strange::default().evict(|book, before| {
        let gone = book.cut(before)?;
        book.found(|it| {
            let start = it.start();
            it.known.retain(|(_, appended)| appended.positions.end > start);
        });
        Ok(gone)
    }));
}

#[test]
fn ids_are_shared_between_conversations() {
    // `UNIQUE (id)` in place of `UNIQUE (conversation, id)`.
    caught(Strange::default().append(|book, append| {
        let id = append.id.clone();
        let elsewhere =
            |known: &str| book.data().all.values().find_map(|it| it.knows(known).cloned());
        if let Some(mut known) = id.as_deref().and_then(elsewhere) {
            append.messages.clear();
            known.repeated = true;
            return Ok(known);
        }
        book.write(append)
    }));
}

#[test]
fn an_id_survives_the_conversation() {
    // The table of ids has no foreign key: after a delete the first append is a repetition.
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
                let id = append.id.clone();
                let grave = book.data().graves.get(&book.key).cloned();
                let known = grave.and_then(|it| it.knows(id.as_deref()?).cloned());
                if let Some(mut known) = known {
                    append.messages.clear();
                    known.repeated = true;
                    return Ok(known);
                }
                book.write(append)
            }),
    );
}

/// A memory that answers a repeated append otherwise.
fn repeated(done: impl Fn(&Book, &mut Appended) + Send + Sync + 'static) -> Strange {
    Strange::default().append(move |book, append| {
        let mut appended = book.write(append)?;
        if appended.repeated {
            done(book, &mut appended);
        }
        Ok(appended)
    })
}

#[test]
fn a_repeated_append_is_at_the_current_end() {
    // The positions of the first are not kept.
    caught(repeated(|book, appended| {
        let end = book.end();
        appended.positions = end..end;
    }));
}

#[test]
fn a_repeated_append_begins_where_the_first_did() {
    // Only the first position is kept, and the rest is counted from the rows that are left.
    caught(repeated(|book, appended| {
        let held = |it: &mut super::shelf::Conversation| it.positions();
        let held = book.found(held).unwrap_or_default();
        appended.positions.end = appended.positions.end.min(held.end);
        appended.positions.start =
            appended.positions.start.max(held.start).min(appended.positions.end);
    }));
}

#[test]
fn a_repeated_append_is_activity() {
    // `UPDATE conversations SET active = now()` comes first in the transaction.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append)?;
        if appended.repeated {
            book.found(|it| it.active = it.active.max(super::shelf::now()));
        }
        Ok(appended)
    }));
}

#[test]
fn a_repeated_append_writes_its_slots_again() {
    // Only the messages are under the id.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append)?;
        if appended.repeated && !append.slots.is_empty() {
            let mut slots = append.clone();
            (slots.id, slots.expected, slots.since) = (None, None, None);
            slots.messages.clear();
            slots
                .slots
                .iter_mut()
                .for_each(|it| it.expected = memory_prompt::memory::Expected::Any);
            book.write(&mut slots)?;
        }
        Ok(appended)
    }));
}

#[test]
fn the_expected_end_comes_before_the_id() {
    // A retry is then always a conflict with itself.
    caught(Strange::default().append(|book, append| {
        let (end, expected) = (book.end(), append.expected);
        if let Some(expected) = expected.filter(|expected| *expected != end) {
            return Err(super::shelf::conflict(expected, end));
        }
        book.write(append)
    }));
}

#[test]
fn an_id_is_remembered_before_its_append_has_failed() {
    // The key is set first, outside of the transaction.
    caught(Strange::default().append(|book, append| {
        let id = append.id.clone().filter(|_| !book.knows(append.id.as_deref()));
        let appended = book.write(append);
        if let (Err(_), Some(id)) = (&appended, id) {
            book.found(|it| {
                let mut known = Appended::new(it.end..it.end);
                known.recognised = true;
                it.known.push_back((id, known));
            });
        }
        appended
    }));
}

#[test]
fn an_empty_append_is_remembered() {
    // A later one under the same id is then lost.
    caught(Strange::default().append(|book, append| {
        let id = append.id.clone().filter(|_| append.is_empty());
        let appended = book.write(append)?;
        if let Some(id) = id.filter(|_| !appended.repeated) {
            book.found(|it| it.known.push_back((id, appended.clone())));
        }
        Ok(appended)
    }));
}

#[test]
fn a_repetition_takes_a_place() {
    // A list that is cut to 64 places, in which an id that comes again stands twice.
    caught(Strange::default().append(|book, append| {
        let id = append.id.clone();
        let appended = book.write(append)?;
        if let Some(id) = id.filter(|_| appended.repeated) {
            let mut first = appended.clone();
            first.repeated = false;
            book.found(|it| {
                it.known.push_back((id, first));
                it.known.truncate(64 + it.known.len().saturating_sub(64));
                while it.known.len() > 64 {
                    it.known.pop_front();
                }
            });
        }
        Ok(appended)
    }));
}

#[test]
fn ids_are_known_by_the_newest_64_positions() {
    // `WHERE position >= end - 64`: enough for 64 appends of one message.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append)?;
        book.found(|it| {
            let end = it.end;
            it.known.retain(|(_, known)| known.positions.end + 64 >= end);
        });
        Ok(appended)
    }));
}

/// A memory that keeps another id than it is given.
fn kept(kept: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    Strange::default().append(move |book, append| {
        append.check(&memory_prompt::memory::Limits::default().with_slot(usize::MAX))?;
        let id = append.id.clone();
        append.id = id.as_deref().map(&kept);
        let appended = book.write(append);
        append.id = id;
        appended
    })
}

#[test]
fn ids_are_padded() {
    // `PAD SPACE`: "a" and "a " are equal.
    caught(kept(|id| match id.trim_end() {
        "" => id.to_owned(),
        trimmed => trimmed.to_owned(),
    }));
}

#[test]
fn ids_of_256_bytes_are_refused() {
    // `varchar(255)`.
    caught(Strange::default().append(|book, append| {
        if append.id.as_ref().is_some_and(|id| id.len() > 255) {
            return Err(super::shelf::failed("append", "value too long for type varchar(255)"));
        }
        book.write(append)
    }));
}

#[test]
fn an_id_that_is_none_is_left_out() {
    // `if id.is_valid()`, without an else.
    caught(Strange::default().append(|book, append| {
        let id = append.id.clone();
        append.id = append
            .id
            .take()
            .filter(|id| !id.is_empty() && id.len() <= 256 && !id.contains(char::is_control));
        let appended = book.write(append);
        append.id = id;
        appended
    }));
}

#[test]
fn an_id_is_looked_for_and_then_written() {
    // Two statements without a lock: two that come at once are both the first.
    caught(Strange::default().append(|book, append| {
        if append.id.is_none() || book.knows(append.id.as_deref()) {
            return book.write(append);
        }
        pause();
        book.found(|it| {
            let id = append.id.as_deref().unwrap_or_default();
            it.known.retain(|known| known.0 != id);
        });
        book.write(append)
    }));
}

#[test]
fn ids_are_known_in_the_process_that_wrote_them() {
    // A cache of the handle: another handle on the same conversation does not know it.
    caught(Strange::default().append(|book, append| {
        let here = format!("{:p}/{}", &raw const *book, append.id.clone().unwrap_or_default());
        let is_mine = book.data().notes.contains_key(&here);
        if !is_mine && again(book, append.id.as_deref()) {
            let id = append.id.clone().unwrap_or_default();
            book.found(|it| it.known.retain(|known| known.0 != id));
        }
        let appended = book.write(append)?;
        book.data().notes.insert(here, 1);
        Ok(appended)
    }));
}
