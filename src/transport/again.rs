//! How requests fail, whether they are retried, and how long to wait before.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use serde_json::Value;

use super::OPERATION;
use crate::conversation::ModelError;
use crate::error::{Error, ErrorKind};
use crate::record::moment;
use crate::wire::is_refusal;

/// Why one request failed.
pub(super) struct Failed {
    pub(super) error: Error,
    pub(super) again: Again,
}

/// Whether the same request may be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    No,
    /// It was not answered, and will not be.
    Yes,
    /// It may have been answered.
    IfAllowed,
}

impl Failed {
    pub(super) fn new(error: Error, again: Again) -> Self {
        Self { error, again }
    }

    /// A request without an answer; `sent` if the server may have received it.
    pub(super) fn unanswered(what: &'static str, sent: bool) -> Self {
        let again = if sent { Again::IfAllowed } else { Again::Yes };
        Self::new(Error::new(ErrorKind::Unanswered { sent }, OPERATION, what), again)
    }

    pub(super) fn because(self, source: impl Into<ModelError>) -> Self {
        Self { error: self.error.with_source(source), ..self }
    }

    /// The same, but without a retry.
    pub(super) fn for_good(self) -> Self {
        Self { again: Again::No, ..self }
    }
}

impl From<Error> for Failed {
    /// Decides by an error from within an answer: only an error that replaces the answer can be
    /// retried.
    fn from(error: Error) -> Self {
        let again = match error.kind() {
            ErrorKind::Unfinished => Again::IfAllowed,
            _ => after_refusal(&error),
        };
        Self::new(error, again)
    }
}

pub(super) fn stopped() -> Failed {
    Failed::new(unfinished("it was stopped"), Again::No)
}

pub(super) fn unfinished(text: &'static str) -> Error {
    Error::new(ErrorKind::Unfinished, OPERATION, text)
}

/// Returns whether a request with this error may be retried, wherever the error was.
fn after_refusal(error: &Error) -> Again {
    let ErrorKind::Refused { code, status, .. } = error.kind() else { return Again::No };
    if !is_refusal(error) {
        return Again::No;
    }
    // Some server timed out, or a gateway did not get an answer: the server behind it may have
    // answered, or be answering.
    let is_late = matches!(status, Some(504 | 520 | 524))
        || code.is_some_and(|code| code == "DEADLINE_EXCEEDED" || code == "timeout_error");
    if is_late { Again::IfAllowed } else { Again::Yes }
}

/// Returns the pause before the next attempt: half a second, one, two, .. up to eight, plus or
/// minus a quarter, so that clients that failed at once do not retry at once.
pub(super) fn pause(tries: u32) -> Duration {
    let longest = Duration::from_millis(500 << tries.min(4));
    let dice = RandomState::new().build_hasher().finish() % 1000;
    longest.mul_f64(0.75 + 0.0005 * f64::from(u32::try_from(dice).unwrap_or_default()))
}

/// Returns the time that a response asks to wait: from `retry-after-ms`, or from `retry-after` as
/// seconds or a date.
pub(super) fn asked_to_wait(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |text: &str, unit: f64| {
        let seconds = text.parse::<f64>().ok()? * unit;
        Duration::try_from_secs_f64(seconds).ok()
    };
    let millis = text("retry-after-ms").and_then(|text| number(text, 0.001));
    millis.or_else(|| {
        let text = text("retry-after")?;
        number(text, 1.0).or_else(|| Some(date(text)?.duration_since(now).unwrap_or_default()))
    })
}

/// Returns the time that Google's error asks to wait: `"retryDelay": "34.07s"`.
pub(super) fn asked_in(body: &[u8]) -> Option<Duration> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let error = body.get(0).unwrap_or(&body).get("error")?;
    let mut details = error.get("details")?.as_array()?.iter();
    let delay = details.find_map(|it| it.get("retryDelay")?.as_str())?;
    Duration::try_from_secs_f64(delay.strip_suffix('s')?.parse().ok()?).ok()
}

/// Parses an HTTP date: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date(text: &str) -> Option<SystemTime> {
    const MONTHS: &str = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec";
    let mut words = text.split_once(", ")?.1.strip_suffix(" GMT")?.splitn(4, ' ');
    let (day, month, year) = (words.next()?, words.next()?, words.next()?);
    let month = MONTHS.split(' ').position(|it| it == month)? + 1;
    moment(&format!("{year}-{month:02}-{day}T{}.000Z", words.next()?))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use http::{HeaderMap, HeaderValue};

    use super::{asked_in, asked_to_wait, date, pause};

    fn wait(name: &'static str, value: &str) -> Option<Duration> {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        asked_to_wait(&headers, UNIX_EPOCH + Duration::from_secs(784_111_770))
    }

    #[test]
    fn servers_say_in_five_ways_how_long_to_wait() {
        let seconds = Duration::from_secs_f64;
        assert_eq!(wait("retry-after", "7"), Some(seconds(7.0)));
        assert_eq!(wait("retry-after", "0.25"), Some(seconds(0.25)));
        assert_eq!(wait("retry-after-ms", "1500"), Some(seconds(1.5)));
        assert_eq!(wait("retry-after", "Sun, 06 Nov 1994 08:49:37 GMT"), Some(seconds(7.0)));
        // In the past: no wait.
        assert_eq!(wait("retry-after", "Sun, 06 Nov 1994 08:00:00 GMT"), Some(seconds(0.0)));
        for nothing in [
            "",
            "soon",
            "-1",
            "NaN",
            "inf",
            "Sun, 06 Nov 1994",
            "Sun, 99 Foo 1994 1:1:1 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov 1994 08:49:10000000000000000000 GMT",
        ] {
            assert_eq!(wait("retry-after", nothing), None, "{nothing}");
        }
    }

    #[test]
    fn an_error_may_say_nothing_of_when() {
        for delay in [r#""7""#, r#""-1s""#, r#""NaNs""#, r#""1e400s""#, "7", "null"] {
            let body = format!(r#"{{"error": {{"details": [{{"retryDelay": {delay}}}]}}}}"#);
            assert_eq!(asked_in(body.as_bytes()), None, "{delay}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("Thu, 01 Jan 1970 00:00:00 GMT", 0),
            ("Tue, 29 Feb 2000 12:00:00 GMT", 951_825_600),
            ("Mon, 01 Mar 2100 00:00:00 GMT", 4_107_542_400),
            ("Fri, 31 Dec 2027 23:59:59 GMT", 1_830_297_599),
        ] {
            assert_eq!(date(text), Some(UNIX_EPOCH + Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn pauses_grow_to_ten_seconds_at_most() {
        for tries in 0..40 {
            let longest = Duration::from_millis(500 << tries.min(4));
            let pause = pause(tries);
            assert!(pause >= longest * 3 / 4 && pause <= longest * 5 / 4, "{tries}: {pause:?}");
        }
    }
}
