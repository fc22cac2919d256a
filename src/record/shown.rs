//! Records as JSON for people: a page, an export.

use std::time::SystemTime;

use serde::{Serialize, Serializer};

use super::day::date;
use super::{Record, time_of};
use crate::message::Message;

impl Serialize for Record<'_> {
    /// Writes its position, its time of append in RFC 3339 form (`null` if that is not known), and
    /// the message.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// use memory_prompt::Message;
    /// use memory_prompt::record::Records;
    ///
    /// let at = UNIX_EPOCH + Duration::from_millis(1_714_557_600_250);
    /// let records = Records::from_rows([(7, at, Message::user("Hi."))]);
    /// let shown = serde_json::to_value(records.iter().collect::<Vec<_>>())?;
    /// assert_eq!(shown[0]["position"], 7);
    /// assert_eq!(shown[0]["at"], "2024-05-01T10:00:00.250Z");
    /// assert_eq!(shown[0]["message"]["content"], "Hi.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Shown<'a> {
            position: u64,
            at: Option<String>,
            message: &'a Message,
        }
        let at = Some(self.millis()).filter(|millis| *millis > 0).map(rfc3339);
        Shown { position: self.position(), at, message: self.message() }.serialize(serializer)
    }
}

/// Returns a time in milliseconds since 1970 in RFC 3339 form.
pub(crate) fn rfc3339(millis: u64) -> String {
    let (date, of_day) = (date(millis / 86_400_000), millis % 86_400_000);
    let (second, millis) = (of_day / 1_000, of_day % 1_000);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Parses the output of [`rfc3339`].
pub(crate) fn moment(text: &str) -> Option<SystemTime> {
    // If seconds were written as milliseconds, the year has five digits.
    let (year, rest) = text.split_once('-')?;
    let number = |from: usize, to: usize| rest.get(from..to)?.parse::<u64>().ok();
    let year = year.parse::<u64>().ok().filter(|year| *year < 1_000_000_000)?;
    let (month, day) = (number(0, 2)?, number(3, 5)?);
    let (hour, minute, second, millis) =
        (number(6, 8)?, number(9, 11)?, number(12, 14)?, number(15, 18)?);
    // From the first of March of the year 0, as in the other direction.
    let years = if month < 3 { year.checked_sub(1)? } else { year };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = years * 365 + years / 4 - years / 100 + years / 400 + of_year;
    let seconds = (days.checked_sub(719_468)? * 24 + hour) * 3_600 + minute * 60 + second;
    let read = seconds.checked_mul(1_000)?.checked_add(millis)?;
    (rfc3339(read) == text).then(|| time_of(read))
}
