//! The days that a question names.

use std::ops::Range;

use crate::record::civil;

fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let (from_march, past) = if month > 2 { (month - 3, year) } else { (month + 9, year - 1) };
    let days = past * 365 + past / 4 - past / 100 + past / 400 + (153 * from_march + 2) / 5 + day;
    let found = days.checked_sub(719_469)?;
    (civil(found) == (year, month, day)).then_some(found)
}

/// The most days of a question: a pasted log names more.
const MOST: usize = 32;

/// Returns the days that both ends of a question name, relative to `today`: `2023-11-01`,
/// `1.11.2023`, `1 November`, `November 1st, 2023`, `November 2023`, `yesterday`, `last Tuesday`.
///
/// A date without a year means the newest one that is not in the future. Each counts once, and of
/// too many those in the middle do not.
pub(super) fn asked(ends: [&str; 2], today: u64) -> Vec<Range<u64>> {
    let mut found = Vec::new();
    for range in ends.into_iter().flat_map(|end| named(end, today)) {
        if !found.contains(&range) {
            found.push(range);
        }
    }
    if let Some(too_many) = found.len().checked_sub(MOST) {
        found.drain(MOST / 2..MOST / 2 + too_many);
    }
    found
}

/// Returns the days that a text names.
fn named(text: &str, today: u64) -> Vec<Range<u64>> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|part| !part.is_empty());
    let parts: Vec<Part> = parts.map(part).collect();
    let whole = |day: Option<u64>| day.map(|day| day..day + 1);
    let newest = |month, day| {
        let year = civil(today).0;
        (year - 4..=year).rev().filter_map(|year| day_of(year, month, day)).find(|it| *it <= today)
    };
    let mut found = Vec::new();
    let mut rest = parts.as_slice();
    while !rest.is_empty() {
        let (range, taken) = match *rest {
            [Part::Year(y), Part::Day(m), Part::Day(d), ..]
            | [Part::Day(d), Part::Month(m) | Part::Day(m), Part::Year(y), ..]
            | [Part::Month(m), Part::Day(d), Part::Year(y), ..] => (whole(day_of(y, m, d)), 3),
            [Part::Day(d), Part::Month(m), ..] | [Part::Month(m), Part::Day(d), ..] => {
                (whole(newest(m, d)), 2)
            }
            [Part::Month(m), Part::Year(y), ..] => {
                let next = if m == 12 { day_of(y + 1, 1, 1) } else { day_of(y, m + 1, 1) };
                (day_of(y, m, 1).zip(next).map(|(from, to)| from..to), 2)
            }
            [Part::Yesterday, ..] => (whole(today.checked_sub(1)), 1),
            // The first of January 1970 was a Thursday.
            [Part::Weekday(n), ..] => (whole(today.checked_sub((today + 9 - n) % 7 + 1)), 1),
            _ => (None, 1),
        };
        found.extend(range);
        rest = &rest[taken..];
    }
    found
}

#[derive(Clone, Copy)]
enum Part {
    Year(u64),
    Month(u64),
    Day(u64),
    /// From Monday, 0.
    Weekday(u64),
    Yesterday,
    Other,
}

const MONTHS: &str = "january february march april may june july august september october november \
                      december";
const WEEKDAYS: &str = "monday tuesday wednesday thursday friday saturday sunday";

fn part(word: &str) -> Part {
    let word = word.to_lowercase();
    let digits = word.trim_end_matches(|c: char| c.is_ascii_lowercase());
    if let Ok(number) = digits.parse::<u64>() {
        return match (&word[digits.len()..], number) {
            ("", 1970..=9999) => Part::Year(number),
            ("" | "st" | "nd" | "rd" | "th", 1..=31) => Part::Day(number),
            _ => Part::Other,
        };
    }
    // The index of the name that starts with the word, which has at least this many letters.
    let among = |names: &str, least: usize| {
        let mut names = names.split(' ').zip(0..).filter(|_| word.len() >= least);
        names.find(|(name, _)| name.starts_with(&word)).map(|(_, place)| place)
    };
    match (among(MONTHS, 3), among(WEEKDAYS, 6)) {
        (Some(month), _) => Part::Month(month + 1),
        (_, Some(day)) => Part::Weekday(day),
        _ if word == "yesterday" => Part::Yesterday,
        _ => Part::Other,
    }
}
