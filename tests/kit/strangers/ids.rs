//! Faults in recognising appends by their ids.

use memory_prompt::memory::{Append, Appended, Expected, Limits};

use super::shelf::{Book, Conversation, Strange, conflict, failed, now};
use super::{any_law, burying, laws, otherwise, pause};

/// A memory that answers a repeated append otherwise.
fn repeated(
    fault: &'static str,
    done: impl Fn(&Book, &Append, &mut Appended) + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault).then(move |book, append, appended| {
        if appended.repeated {
            done(book, append, appended);
        }
    })
}

/// A memory that forgets some of the ids that it knows after each append.
fn knowing(
    fault: &'static str,
    forget: impl Fn(&mut Conversation) + Send + Sync + 'static,
) -> Strange {
    Strange::of(fault).then(move |book, _, _| {
        book.found(&forget);
    })
}

/// A memory that keeps another id than it is given.
fn kept(fault: &'static str, kept: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    Strange::of(fault).append(move |book, append| {
        append.check(&Limits::default().with_slot(usize::MAX))?;
        book.write_as(append, |copy| copy.id = copy.id.as_deref().map(&kept))
    })
}

#[test]
fn laws_find_strange_ids() {
    laws([
        "ids::the_same_id_again_changes_nothing",
        "ids::of_many_appends_under_one_id_one_is_done",
        "slots::any_list_of_changes_gives_what_a_map_gives",
    ])
    .find([otherwise("ids are passed over", |_, append| append.id = None)]);

    laws([
        "ids::the_same_id_again_changes_nothing",
        "memory::the_larger_forms_do_what_the_plain_ones_do",
    ])
    .find([Strange::of("ids are said not to be recognised")
        .then(|_, _, appended| appended.recognised = false)]);

    laws(["ids::the_same_id_again_changes_nothing"]).find([
        // The positions of the first are not kept.
        repeated("a repeated append is at the current end", |book, _, appended| {
            let end = book.end();
            appended.positions = end..end;
        }),
        // A retry is then always a conflict with itself.
        Strange::of("the expected end comes before the id").append(|book, append| {
            let (end, expected) = (book.end(), append.expected);
            if let Some(expected) = expected.filter(|expected| *expected != end) {
                return Err(conflict(expected, end));
            }
            book.write(append)
        }),
        Strange::of("a repeated append leaves the batch").append(|book, append| {
            let batch = append.messages.clone();
            let appended = book.write(append)?;
            append.messages = if appended.repeated { batch } else { Vec::new() };
            Ok(appended)
        }),
    ]);

    laws(["ids::equal_messages_are_no_repetition"]).find([
        // "The user pressed twice."
        Strange::of("an append that equals the last one is a retry").append(|book, append| {
            let last = book.found(|it| it.rows.back().cloned()).flatten();
            match (last, append.messages.as_slice()) {
                (Some((position, _, last)), [message])
                    if last == *message && append.slots.is_empty() =>
                {
                    append.messages.clear();
                    let mut appended = book.write(&mut Append::default())?;
                    appended.positions = position..position + 1;
                    Ok(appended)
                }
                _ => book.write(append),
            }
        }),
    ]);

    laws(["ids::the_newest_64_ids_are_recognised"]).find([knowing("63 ids are known", |it| {
        drop(it.known.drain(..it.known.len().saturating_sub(63)));
    })]);

    laws(["ids::an_id_is_recognised_after_evict_and_clear"]).find([
        // A column of the table of messages.
        Strange::of("an id is known while its messages are").evicted(|it, _| {
            let start = it.start();
            it.known.retain(|(_, appended)| appended.positions.end > start);
        }),
        Strange::of("clear takes the ids").cleared(|it, _| it.known.clear()),
    ]);

    laws(["ids::the_id_of_a_failed_append_is_new"]).find([
        // The key is set first, outside of the transaction.
        Strange::of("an id is remembered before its append has failed").append(|book, append| {
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
        }),
    ]);

    laws(["ids::an_append_of_nothing_is_not_remembered"]).find([
        // A later one under the same id is then lost.
        Strange::of("an empty append is remembered").append(|book, append| {
            let id = append.id.clone().filter(|_| append.is_empty());
            let appended = book.write(append)?;
            if let Some(id) = id.filter(|_| !appended.repeated) {
                book.found(|it| it.known.push_back((id, appended.clone())));
            }
            Ok(appended)
        }),
    ]);

    laws(["ids::an_id_belongs_to_one_conversation"]).find([
        // `UNIQUE (id)` in place of `UNIQUE (conversation, id)`.
        Strange::of("ids are shared between conversations").append(|book, append| {
            let id = append.id.clone();
            let elsewhere =
                |known: &str| book.data().all.values().find_map(|it| it.knows(known).cloned());
            if let Some(mut known) = id.as_deref().and_then(elsewhere) {
                append.messages.clear();
                known.repeated = true;
                return Ok(known);
            }
            book.write(append)
        }),
    ]);

    laws(["ids::hostile_ids_are_appends_of_their_own"])
        .find([kept("ids are folded", str::to_lowercase)]);

    laws(["ids::a_repetition_undoes_nothing"]).find([
        // Only the messages are under the id.
        Strange::of("a repeated append writes its slots again").append(|book, append| {
            let appended = book.write(append)?;
            if appended.repeated && !append.slots.is_empty() {
                let mut slots = append.clone();
                (slots.id, slots.expected, slots.since) = (None, None, None);
                slots.messages.clear();
                slots.slots.iter_mut().for_each(|it| it.expected = Expected::Any);
                book.write(&mut slots)?;
            }
            Ok(appended)
        }),
        repeated("a repeated append tells no version", |_, _, appended| appended.version = None),
    ]);

    laws(["ids::of_many_appends_under_one_id_one_is_done"]).find([
        // Two statements without a lock: two that come at once are both the first.
        Strange::of("an id is looked for and then written").append(|book, append| {
            if append.id.is_none() || book.knows(append.id.as_deref()) {
                return book.write(append);
            }
            pause();
            book.found(|it| {
                let id = append.id.as_deref().unwrap_or_default();
                it.known.retain(|known| known.0 != id);
            });
            book.write(append)
        }),
    ]);

    laws(["ids::what_is_no_id_is_refused"]).find([otherwise("long ids are cut", |_, append| {
        append.id = append.id.take().map(|id| id.chars().take(100).collect());
    })]);

    laws(["moving::a_new_beginning_knows_nothing_of_before"]).find([
        // The table of ids has no foreign key: after a delete the first append is a repetition.
        burying("an id survives the conversation").append(|book, append| {
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
    ]);

    laws(["moving::appends_are_activity_and_nothing_else_is"]).find([
        // `UPDATE conversations SET active = now()` comes first in the transaction.
        repeated("a repeated append is activity", |book, _, _| {
            book.found(|it| it.active = it.active.max(now()));
        }),
    ]);
}

#[test]
fn a_law_finds_each_other_strange_id() {
    any_law(["ids", "moving"]).find([
        // Only the first position is kept, and the rest is counted from the rows that are left.
        repeated("a repeated append begins where the first did", |book, _, appended| {
            let held = book.found(|it| it.positions()).unwrap_or_default();
            let end = appended.positions.end.min(held.end);
            appended.positions = appended.positions.start.max(held.start).min(end)..end;
        }),
        // A list that is cut to 64 places, in which an id that comes again stands twice.
        repeated("a repetition takes a place", |book, append, appended| {
            let mut first = appended.clone();
            first.repeated = false;
            book.found(|it| {
                it.known.push_back((append.id.clone().unwrap_or_default(), first));
                drop(it.known.drain(..it.known.len().saturating_sub(64)));
            });
        }),
        // `WHERE position >= end - 64`: enough for 64 appends of one message.
        knowing("ids are known by the newest 64 positions", |it| {
            let end = it.end;
            it.known.retain(|(_, known)| known.positions.end + 64 >= end);
        }),
        // `PAD SPACE`: "a" and "a " are equal.
        kept("ids are padded", |id| match id.trim_end() {
            "" => id.to_owned(),
            trimmed => trimmed.to_owned(),
        }),
        // `varchar(255)`.
        Strange::of("ids of 256 bytes are refused").append(|book, append| {
            if append.id.as_ref().is_some_and(|id| id.len() > 255) {
                return Err(failed("append", "value too long for type varchar(255)"));
            }
            book.write(append)
        }),
        // `if id.is_valid()`, without an else.
        otherwise("an id that is none is left out", |_, append| {
            let is_one =
                |id: &String| !id.is_empty() && id.len() <= 256 && !id.contains(char::is_control);
            append.id = append.id.take().filter(is_one);
        }),
        // A cache of the handle: another handle on the same conversation does not know it.
        Strange::of("ids are known in the process that wrote them").append(|book, append| {
            let here = format!("{:p}/{}", &raw const *book, append.id.clone().unwrap_or_default());
            let is_mine = book.data().notes.contains_key(&here);
            if !is_mine && book.knows(append.id.as_deref()) {
                let id = append.id.clone().unwrap_or_default();
                book.found(|it| it.known.retain(|known| known.0 != id));
            }
            let appended = book.write(append)?;
            book.data().notes.insert(here, 1);
            Ok(appended)
        }),
    ]);
}
