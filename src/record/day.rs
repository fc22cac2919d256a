//! The days of records, by the calendar of UTC.

use super::Record;

impl Record<'_> {
    /// Returns the day of a record, in days since 1970; `None` if its time is not known.
    pub(crate) fn day(&self) -> Option<u64> {
        Some(self.millis() / 86_400_000).filter(|day| *day > 0)
    }
}

/// Returns the line with the day above a record, if the record before was written on another day.
pub(crate) fn heading(day: Option<u64>, before: Option<u64>) -> Option<String> {
    (day != before).then(|| day.map_or_else(|| "(no day)".to_owned(), date))
}

/// Returns the date of a day since 1970.
pub(super) fn date(day: u64) -> String {
    let (year, month, day) = civil(day);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Returns the year, month and day of the month of a day since 1970.
pub(crate) fn civil(day: u64) -> (u64, u64, u64) {
    // From the first of March of the year 0, so that the leap day is the last of its year.
    let days = day + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
}
