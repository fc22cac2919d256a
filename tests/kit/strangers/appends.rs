//! Faults in appending messages.

use std::mem;

use memory_prompt::memory::{Append, Limits};
use memory_prompt::message::{AiMessage, AiPart};
use memory_prompt::{Error, ErrorKind, Message, ToolCall};

use super::shelf::{Strange, conflict};
use super::{any_law, laws, otherwise, pause, rewritten};

/// A memory that keeps each text as this makes it.
fn said(fault: &'static str, kept: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    otherwise(fault, move |_, append| {
        append.messages.iter_mut().for_each(|it| *it = rewritten(it, &kept));
    })
}

/// The limits of a backend whose items have 400 KB, and whose slots a length of 32 bits.
fn limits() -> Limits {
    Limits::default().with_message(400_000).with_slot(u32::MAX as usize).with_ids(64)
}

/// The laws asked each memory for a message of a megabyte, and for a slot as large as it allows.
#[test]
fn a_memory_may_have_small_and_large_limits() {
    let honest = Strange::of("none").limits(limits()).append(|book, append| {
        if append.messages.iter().any(|it| it.text().len() > 399_000) {
            return Err(Error::new(ErrorKind::Invalid, "append", "a message is too large"));
        }
        book.write(append)
    });
    laws(["memory::a_message_of_10_megabytes", "slots::a_slot_holds_any_bytes"]).hold(honest);
}

#[test]
fn laws_find_strange_appends() {
    laws([
        "memory::an_append_at_another_position_changes_nothing",
        "memory::any_list_of_operations_gives_what_a_list_gives",
    ])
    .find([
        // `mem::take` before the statement is sent.
        Strange::of("a failed append took the batch").append(|book, append| {
            let appended = book.write(append);
            append.messages.clear();
            appended
        }),
    ]);

    laws([
        "memory::an_append_at_another_position_changes_nothing",
        "memory::debug_output_holds_no_text",
        "memory::any_list_of_operations_gives_what_a_list_gives",
    ])
    .find([otherwise("the expected end is passed over", |_, append| append.expected = None)]);

    laws([
        "memory::clearing_forgets_everything",
        "memory::any_list_of_operations_gives_what_a_list_gives",
    ])
    .find([
        // "Everything is forgotten", so why not the counter.
        Strange::of("clear sets the positions back").cleared(|it, _| it.end = 0),
    ]);

    laws(["memory::an_append_at_another_position_changes_nothing"]).find([
        // It is no record, so it goes another way, and that one does not ask for the end.
        otherwise("a system message alone is set in spite of a conflict", |_, append| {
            let is_alone =
                !append.messages.is_empty() && append.messages.iter().all(Message::is_system);
            append.expected = append.expected.filter(|_| !is_alone);
        }),
    ]);

    laws([
        "memory::the_same_system_message_changes_nothing_and_another_replaces_it",
        "memory::every_kind_of_message_comes_back_as_it_was",
    ])
    .find([otherwise("the system message is its text", |_, append| {
        for message in append.messages.iter_mut().filter(|it| it.is_system()) {
            *message = Message::system(message.text());
        }
    })]);

    laws(["memory::every_kind_of_message_comes_back_as_it_was"]).find([
        // `id`, `name`, `arguments`.
        otherwise("a call has three columns", |_, append| {
            for message in append.messages.iter_mut().filter(|it| it.has_tool_calls()) {
                let plain = |part: &AiPart| match part {
                    AiPart::ToolCall(it) => {
                        ToolCall::new(it.id.as_str(), it.name.as_str(), it.arguments.as_str())
                            .into()
                    }
                    part => part.clone(),
                };
                let asks = message.as_ai().unwrap();
                let mut copy = AiMessage::from_parts(asks.parts().iter().map(plain));
                for (key, value) in asks.attributes() {
                    copy = copy.with_attribute(key, value.clone());
                }
                *message = copy.into();
            }
        }),
    ]);

    laws(["memory::a_reference_is_refused"]).find([otherwise(
        "a reference is left out",
        |_, append| {
            append.messages.retain(|it| !it.has_references());
        },
    )]);

    laws([
        "ids::the_same_id_again_changes_nothing",
        "slots::a_slot_is_written_replaced_and_removed",
    ])
    .find([
        // It goes into another thread.
        Strange::of("an append is taken whole").append(|book, append| {
            let mut taken = mem::take(append);
            book.write(&mut taken).inspect_err(|_| *append = taken)
        }),
    ]);

    laws(["memory::a_message_of_10_megabytes"]).find([said("a message has 400 KB", |text| {
        text.char_indices().take_while(|(at, _)| *at < 399_900).map(|it| it.1).collect()
    })
    .limits(limits())]);

    laws(["memory::batches_of_8_writers_stay_contiguous_and_none_is_lost"]).find([
        // Without a transaction: each message stands, but not side by side.
        Strange::of("a batch is one insert for each message").append(|book, append| {
            if append.messages.len() < 2 || append.id.is_some() || append.times.len() > 1 {
                return book.write(append);
            }
            let rest = append.messages.split_off(1);
            let mut appended = book.write(append)?;
            append.expected = None;
            for message in rest {
                pause();
                appended.positions.end = book.write(&mut Append::new([message]))?.positions.end;
            }
            Ok(appended)
        }),
    ]);

    laws(["memory::hostile_text_comes_back_as_it_was"])
        .find([said("a text ends at NUL", |text| {
            text.split('\0').next().unwrap_or_default().to_owned()
        })]);
}

#[test]
fn a_law_finds_each_other_strange_append() {
    any_law(["memory", "slots"]).find([
        // `SELECT max(position) + 1`: where all rows are evicted, it counts from 0 again.
        Strange::of("the next position is that of the newest row and one").evicted(|it, _| {
            it.end = it.rows.back().map_or(0, |row| row.0 + 1);
        }),
        // DynamoDB's `BatchWriteItem`: a larger batch goes in several requests, and others come in
        // between.
        Strange::of("a request takes 25 rows").append(|book, append| {
            if append.messages.len() <= 25 || append.id.is_some() || !append.times.is_empty() {
                return book.write(append);
            }
            let mut appended = None;
            while !append.messages.is_empty() {
                let rest = append.messages.split_off(append.messages.len().min(25));
                let written = book.write(append)?;
                append.expected = None;
                append.messages = rest;
                pause();
                match &mut appended {
                    None => appended = Some(written),
                    Some(appended) => appended.positions.end = written.positions.end,
                }
            }
            Ok(appended.unwrap())
        }),
        // As in the lists that are sent to a model; elsewhere it is a record like the others.
        Strange::of("only the first message of a batch can be the system message").append(
            |book, append| {
                let systems = |it: &Message| it.is_system();
                let late = append.messages.iter().skip(1).any(systems);
                let batch = append.messages.clone();
                let system = book.found(|it| it.system.clone()).flatten();
                let appended = book.write(append)?;
                if late {
                    let first = batch.first().filter(|it| it.is_system()).cloned();
                    book.found(|it| it.system = first.map(Into::into).or(system));
                }
                Ok(appended)
            },
        ),
        // A violated constraint tells that, and no more.
        Strange::of("a conflict does not say where the conversation ends").append(
            |book, append| {
                let end = book.end();
                match append.expected {
                    Some(expected) if expected != end && append.id.is_none() => {
                        Err(conflict(expected, expected))
                    }
                    _ => book.write(append),
                }
            },
        ),
        // Two statements without a lock around them.
        Strange::of("the expected end is checked and then written").append(|book, append| {
            if let Some(expected) = append.expected.filter(|_| append.id.is_none()) {
                let end = book.end();
                if expected != end {
                    return Err(conflict(expected, end));
                }
                pause();
            }
            book.write_as(append, |copy| copy.expected = None)
        }),
        // `first..first + batch.len()`.
        Strange::of("a system message alone is said to have a position").append(|book, append| {
            let n = append.messages.len() as u64;
            let mut appended = book.write(append)?;
            if n > 0 && !appended.repeated {
                appended.positions.end = appended.positions.start + n;
            }
            Ok(appended)
        }),
        // Rows are made of references, and nobody takes the messages out.
        Strange::of("a successful append leaves the batch").append(|book, append| {
            let batch = append.messages.clone();
            let appended = book.write(append);
            append.messages = batch;
            appended
        }),
        // Their content is moved into the parameters of a statement that then fails.
        Strange::of("a failed append took the slots").append(|book, append| {
            let appended = book.write(append);
            append.slots.iter_mut().for_each(|change| change.content = None);
            appended
        }),
        // It has a table of its own, written first.
        Strange::of("a conflict leaves the system message").append(|book, append| {
            let system = append.messages.iter().rev().find(|it| it.is_system()).cloned();
            let appended = book.write(append);
            if appended.is_err() {
                book.found(|it| it.system = system.map(Into::into).or(it.system.take()));
            }
            appended
        }),
        // "Nothing was said."
        Strange::of("an empty message is left out").append(|book, append| {
            let is_plain = append.times.is_empty() && append.id.is_none();
            let said = |it: &Message| {
                !it.text().is_empty() || !matches!(it, Message::User(_) | Message::Ai(_))
            };
            if is_plain && append.messages.len() > 1 && book.found(|_| ()).is_some() {
                append.messages.retain(|it| said(it) || it.has_tool_calls());
            }
            book.write(append)
        }),
        // MySQL's `utf8` has three bytes.
        said("an emoji is a question mark", |text| {
            text.chars().map(|it| if it > '\u{ffff}' { '?' } else { it }).collect()
        }),
        // MySQL's `TEXT`, not in strict mode.
        said("a text has 64 kib", |text| text.chars().take(65_535).collect()),
        // The failure is logged, and the answer is yes.
        Strange::of("what it can not hold is dropped").append(|book, append| {
            let mut kept = append.clone();
            match book.write(append) {
                Ok(appended) => Ok(appended),
                Err(error) if append.id.is_some() || !append.slots.is_empty() => Err(error),
                Err(_) => {
                    kept.messages.clear();
                    kept.expected = None;
                    append.messages.clear();
                    book.write(&mut kept)
                }
            }
        }),
        // A hash of the message is the key, and a row of that key is there.
        Strange::of("two equal batches share a row").append(|book, append| {
            let twice = |i: usize, batch: &[Message]| batch[..i].contains(&batch[i]);
            let batch = mem::take(&mut append.messages);
            let once = (0..batch.len()).filter(|i| !twice(*i, &batch)).map(|i| batch[i].clone());
            let is_plain = append.times.is_empty() && append.id.is_none();
            append.messages = if is_plain { once.collect() } else { batch.clone() };
            let appended = book.write(append);
            if appended.is_err() {
                append.messages = batch;
            }
            appended
        }),
    ]);
}
