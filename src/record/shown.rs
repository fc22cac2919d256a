//! Records as JSON for people: a page, an export.

use serde::{Serialize, Serializer};

use super::Record;
use super::day::date;
use crate::message::Message;

impl Serialize for Record<'_> {
    /// Writes its position, the time of append as RFC 3339 has it, or `null` where that is not
    /// known, and the message.
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
        Shown { position: self.seq(), at, message: self.message() }.serialize(serializer)
    }
}

fn rfc3339(millis: u64) -> String {
    let (date, of_day) = (date(millis / 86_400_000), millis % 86_400_000);
    let (second, millis) = (of_day / 1_000, of_day % 1_000);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}
