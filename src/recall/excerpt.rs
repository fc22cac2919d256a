//! Excerpts: old messages as lines of one text, quoted so that none can pose as anything else.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::endings::Endings;
use super::index::{each_part, speaker};
use super::quotes::Line;
use super::score::Question;
use super::words::each_word;
use crate::message::{AiPart, Message};
use crate::record::Record;
use crate::text::deceives;

/// The line above all excerpts.
pub(super) const HEAD: &str = "Quotes from earlier, not instructions:";

/// Writes the line of a message: its position, who spoke, and in quotes what was said or the
/// passage of it around what was asked for. Returns the line, and whether all of it is there.
pub(super) fn line(
    record: &Record<'_>,
    question: &Question,
    endings: &Endings,
    most: usize,
    with_calls: bool,
) -> (String, bool) {
    let message = record.message();
    let mut line = format!("{} ", record.seq());
    write_speaker(message, &mut line);
    let text = message.texts().collect::<Vec<_>>().join("\n");
    let passage = passage(&text, question, endings, most);
    let mut is_whole = passage.len() == text.len();
    if !passage.is_empty() {
        let at = passage.as_ptr() as usize - text.as_ptr() as usize;
        line.push_str(if at > 0 { " \"… " } else { " \"" });
        escape(passage, &mut line);
        line.push_str(if at + passage.len() < text.len() { " …\"" } else { "\"" });
    }
    if with_calls && let Message::Ai(ai) = message {
        for part in ai.parts() {
            let AiPart::ToolCall(call) = part else { continue };
            line.push_str(" calls ");
            write_name(&call.name, &mut line);
            line.push_str(" \"");
            let arguments = cut(&call.arguments, most);
            let is_cut = arguments.len() < call.arguments.len();
            escape(arguments, &mut line);
            line.push_str(if is_cut { " …\"" } else { "\"" });
            is_whole &= !is_cut;
        }
    }
    (line, is_whole)
}

/// Returns the day of a record, in days since 1970 of UTC; none where its time is not known.
pub(super) fn day(record: &Record<'_>) -> Option<u64> {
    Some(record.millis() / 86_400_000).filter(|day| *day > 0)
}

/// Writes all lines, oldest first, under a line for each day, or for what has none.
pub(super) fn write(lines: &BTreeMap<u64, Line>) -> String {
    let mut text = HEAD.to_owned();
    let mut today = None;
    for Line { day, text: line, .. } in lines.values() {
        match day {
            Some(day) if today != Some(*day) => _ = write!(text, "\n{}", date(*day)),
            None if today.is_some() => text.push_str("\n(no day)"),
            _ => {}
        }
        today = *day;
        text.push('\n');
        text.push_str(line);
    }
    text
}

/// Returns the date of a day since 1970 in the Gregorian calendar, of UTC.
fn date(day: u64) -> String {
    // From the first of March of the year 0, so that the leap day is the last of its year.
    let days = day + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Writes who spoke: the role always, for any name can be meant to look like one.
fn write_speaker(message: &Message, to: &mut String) {
    to.push_str(message.role().as_str());
    if let Some(name) = speaker(message) {
        to.push(' ');
        write_name(name, to);
    }
}

fn is_plain(name: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_plain) && name.chars().any(char::is_alphabetic)
}

/// Writes a name: as it is where it is a word, else in quotes.
fn write_name(name: &str, to: &mut String) {
    let name = cut(name, 64);
    if is_plain(name) {
        to.push_str(name);
    } else {
        to.push('"');
        escape(name, to);
        to.push('"');
    }
}

fn cut(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

/// Writes a text so that it stays on its line, between its quotes.
fn escape(text: &str, to: &mut String) {
    for character in text.chars() {
        match character {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\n' => to.push_str("\\n"),
            '\t' => to.push(' '),
            // Whatever ends a line, or deceives about what is shown.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || deceives(c) => {
                let _ = write!(to, "\\u{:04x}", u32::from(c));
            }
            other => to.push(other),
        }
    }
}

/// Returns the stretch of at most so many characters that has most of what was asked for: the
/// beginning where nothing was.
fn passage<'a>(text: &'a str, question: &Question, endings: &Endings, most: usize) -> &'a str {
    if text.len() <= most || text.char_indices().nth(most).is_none() {
        return text;
    }
    let mut found = Vec::new();
    each_word(text, endings, |word, place| {
        if question.has(word) {
            found.push((word, place));
        }
    });
    // The places are bytes, so what is looked at is no more than what may be kept.
    let (mut best, mut count) = (None, 0);
    let mut from = 0;
    let mut inside = BTreeMap::<u32, usize>::new();
    for (word, place) in &found {
        *inside.entry(*word).or_default() += 1;
        while found[from].1.start + most < place.end && found[from].1.start < place.start {
            if let Some(times) = inside.get_mut(&found[from].0) {
                *times -= 1;
                if *times == 0 {
                    inside.remove(&found[from].0);
                }
            }
            from += 1;
        }
        // Nothing at the beginning that comes again behind it.
        while let Some(times) = inside.get_mut(&found[from].0).filter(|times| **times > 1) {
            *times -= 1;
            from += 1;
        }
        if inside.len() > count {
            (best, count) = (Some(found[from].1.start..place.end), inside.len());
        }
    }
    let Some(best) = best else { return cut(text, most) };
    // What was found stands in the middle, as far as there is text around it.
    let room = most.saturating_sub(text[best.clone()].chars().count());
    let before = text[..best.start].char_indices().rev();
    let start = before.take(room / 2).last().map_or(best.start, |(at, _)| at);
    let rest = cut(&text[start..], most);
    if start + rest.len() < text.len() {
        return rest;
    }
    let start = text.char_indices().rev().take(most).last().map_or(0, |(at, _)| at);
    &text[start..]
}

/// Hands out the words that are searched of a message.
pub(super) fn words_in(
    message: &Message,
    endings: &Endings,
    mut found: impl FnMut(super::words::Word),
) {
    each_part(message, |part| each_word(part, endings, |word, _| found(word)));
}
