//! Faults in appending messages.

use std::mem;

use memory_prompt::Message;
use memory_prompt::memory::Append;

use super::shelf::{Strange, conflict};
use super::{caught, pause, rewritten};

#[test]
fn the_next_position_is_that_of_the_newest_row_and_one() {
    // `SELECT max(position) + 1`: where all rows are evicted, it counts from 0 again.
    caught(Strange::default().evict(|book, before| {
        let gone = book.cut(before)?;
        book.found(|it| it.end = it.rows.back().map_or(0, |row| row.0 + 1));
        Ok(gone)
    }));
}

#[test]
fn clear_sets_the_positions_back() {
    // "Everything is forgotten", so why not the counter.
    caught(Strange::default().clear(|book| {
        book.wipe()?;
        book.found(|it| it.end = 0);
        Ok(())
    }));
}

#[test]
fn a_request_takes_25_rows() {
    // DynamoDB's `BatchWriteItem`: a larger batch goes in several requests, and others come in
    // between.
    caught(Strange::default().append(|book, append| {
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
    }));
}

#[test]
fn a_batch_is_one_insert_for_each_message() {
    // Without a transaction: each message stands, but not side by side.
    caught(Strange::default().append(|book, append| {
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
    }));
}

#[test]
fn only_the_first_message_of_a_batch_can_be_the_system_message() {
    // As in the lists that are sent to a model; elsewhere it is a record like the others.
    caught(Strange::default().append(|book, append| {
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
    }));
}

#[test]
fn a_conflict_does_not_say_where_the_conversation_ends() {
    // A violated constraint tells that, and no more.
    caught(Strange::default().append(|book, append| {
        let end = book.end();
        match append.expected {
            Some(expected) if expected != end && append.id.is_none() => {
                Err(conflict(expected, expected))
            }
            _ => book.write(append),
        }
    }));
}

#[test]
fn the_expected_end_is_checked_and_then_written() {
    // Two statements without a lock around them.
    caught(Strange::default().append(|book, append| {
        if let Some(expected) = append.expected.filter(|_| append.id.is_none()) {
            let end = book.end();
            if expected != end {
                return Err(conflict(expected, end));
            }
            pause();
        }
        let expected = append.expected.take();
        let appended = book.write(append);
        append.expected = expected;
        appended
    }));
}

#[test]
fn a_system_message_alone_is_said_to_have_a_position() {
    // `first..first + batch.len()`.
    caught(Strange::default().append(|book, append| {
        let n = append.messages.len() as u64;
        let mut appended = book.write(append)?;
        if n > 0 && !appended.repeated {
            appended.positions.end = appended.positions.start + n;
        }
        Ok(appended)
    }));
}

#[test]
fn a_failed_append_took_the_batch() {
    // `mem::take` before the statement is sent.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append);
        append.messages.clear();
        appended
    }));
}

#[test]
fn a_successful_append_leaves_the_batch() {
    // Rows are made of references, and nobody takes the messages out.
    caught(Strange::default().append(|book, append| {
        let batch = append.messages.clone();
        let appended = book.write(append);
        append.messages = batch;
        appended
    }));
}

#[test]
fn a_failed_append_took_the_slots() {
    // Their content is moved into the parameters of a statement that then fails.
    caught(Strange::default().append(|book, append| {
        let appended = book.write(append);
        append.slots.iter_mut().for_each(|change| change.content = None);
        appended
    }));
}

#[test]
fn a_conflict_leaves_the_system_message() {
    // It has a table of its own, written first.
    caught(Strange::default().append(|book, append| {
        let system = append.messages.iter().rev().find(|it| it.is_system()).cloned();
        let appended = book.write(append);
        if appended.is_err() {
            book.found(|it| it.system = system.map(Into::into).or(it.system.take()));
        }
        appended
    }));
}

#[test]
fn an_append_that_equals_the_last_one_is_a_retry() {
    // "The user pressed twice."
    caught(Strange::default().append(|book, append| {
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
    }));
}

#[test]
fn an_empty_message_is_left_out() {
    // "Nothing was said."
    caught(Strange::default().append(|book, append| {
        let is_plain = append.times.is_empty() && append.id.is_none();
        let said = |it: &Message| {
            !it.text().is_empty() || !matches!(it, Message::User(_) | Message::Ai(_))
        };
        if is_plain && append.messages.len() > 1 && book.found(|_| ()).is_some() {
            append.messages.retain(|it| said(it) || it.has_tool_calls());
        }
        book.write(append)
    }));
}

#[test]
fn an_emoji_is_a_question_mark() {
    // MySQL's `utf8` has three bytes.
    caught(said(|text| text.chars().map(|it| if it > '\u{ffff}' { '?' } else { it }).collect()));
}

#[test]
fn a_text_has_64_kib() {
    // MySQL's `TEXT`, not in strict mode.
    caught(said(|text| text.chars().take(65_535).collect()));
}

/// A memory that keeps each text as this makes it.
fn said(kept: impl Fn(&str) -> String + Send + Sync + 'static) -> Strange {
    Strange::default().append(move |book, append| {
        let batch = append.messages.clone();
        append.messages = batch.iter().map(|it| rewritten(it, &kept)).collect();
        let appended = book.write(append);
        if appended.is_err() {
            append.messages = batch;
        }
        appended
    })
}

#[test]
fn what_it_can_not_hold_is_dropped() {
    // The failure is logged, and the answer is yes.
    caught(Strange::default().append(|book, append| {
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
    }));
}

#[test]
fn two_equal_batches_share_a_row() {
    // A hash of the message is the key, and a row of that key is there.
    caught(Strange::default().append(|book, append| {
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
    }));
}
