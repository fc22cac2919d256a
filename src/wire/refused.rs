//! The errors that providers answer in place of messages, as far as a body or an event tells them.

use serde_json::Value;

use super::common::{At, Fields};
use super::words::{is_final, is_passing, known, quoted};
use crate::error::{Error, ErrorKind, Result};

/// Returns the error that a provider answered in place of a message, where it did.
///
/// Errors come in an `error`, or flat: `{"object": "error", ..}` of vLLM and `FastChat`,
/// `base_resp` of `MiniMax`, a bare `message` or `detail` of gateways. `own` are fields of an
/// answer beside which `message` and `detail` say something else.
pub(super) fn refused(body: &Fields, own: &[&str]) -> Result<()> {
    let is_told = |key: &str| body.get(key).is_some_and(|value| !is_nothing(value));
    for key in ["error", "base_resp"] {
        let Some(error) = body.get(key).filter(|error| !is_nothing(error)) else { continue };
        if key == "error" || error.get("status_code").is_some_and(|code| !is_nothing(code)) {
            return Err(refusal(body.at.key(key), |key| error.get(key)));
        }
    }
    let says = |key| body.get(key).is_some_and(|said| said.is_string() || said.is_array());
    let is_flat = body.peek("type") == Some("error")
        || body.peek("object") == Some("error")
        || is_told("error_code")
        || (!own.iter().any(|key| body.has(key))
            && ["message", "detail", "msg", "errors"].into_iter().any(says));
    if is_flat { Err(refusal(body.at, |key| body.get(key))) } else { Ok(()) }
}

/// "the provider answered an error (`overloaded_error`, 529)", as far as it is of a known kind.
///
/// Its own words are not repeated: providers quote what they were sent.
pub(super) fn refusal<'a>(at: At, told: impl Fn(&str) -> Option<&'a Value>) -> Error {
    refusal_with(at, None, told)
}

/// The same, where the response itself had a status.
fn refusal_with<'a>(at: At, given: Option<u16>, told: impl Fn(&str) -> Option<&'a Value>) -> Error {
    let fields = ["type", "code", "status", "status_code", "statusCode"];
    let told: Vec<&Value> = fields.into_iter().filter_map(told).collect();
    let words = told.iter().filter_map(|value| value.as_str());
    // Which says that this is one, and not which.
    let words: Vec<&str> = words.filter(|word| *word != "error").collect();
    let status = given.or_else(|| told.iter().find_map(|value| status(value)));
    let is_passing = words.iter().any(|word| is_passing(word))
        || status.is_some_and(|status| matches!(status, 408 | 409 | 425 | 429 | 500..));
    let kind = ErrorKind::Refused {
        // A code says more than the type before it.
        code: words.iter().rev().find_map(|word| known(word)),
        status,
        retryable: is_passing && !words.iter().any(|word| is_final(word)),
    };
    at.of_kind(kind, format_args!("the provider answered an error{}", quoted(words, status)))
}

/// The error of a response that had this status, whatever its body is: the JSON of an error, or the
/// page of a proxy.
#[cfg(feature = "ureq")]
pub(crate) fn refused_with(operation: &'static str, status: u16, body: &str) -> Error {
    let body = serde_json::from_str(body.trim_start_matches('\u{feff}')).map(unlisted).ok();
    let inner = body.as_ref().and_then(|body| body.get("error")).filter(|error| error.is_object());
    let error = inner.or(body.as_ref());
    refusal_with(At::top(operation), Some(status), |key| error?.get(key))
}

/// Returns the error in a list of one, as Google answers where a stream was asked for; whatever
/// else as it is.
pub(super) fn unlisted(body: Value) -> Value {
    match body {
        Value::Array(mut list) if list.len() == 1 && list[0].get("error").is_some() => {
            list.pop().unwrap_or_default()
        }
        body => body,
    }
}

/// Returns whether this is an error that a provider answered, and one that passes: nothing was
/// answered, so to ask again is no second answer.
#[cfg(feature = "ureq")]
pub(crate) fn is_refusal(error: &Error) -> bool {
    let ErrorKind::Refused { code, status, retryable } = error.kind() else { return false };
    retryable && (status.is_some() || code.is_some_and(is_passing))
}

/// The error of an answer that was stopped, or never begun, for the reason of this word.
pub(super) fn stopped(at: At, word: &str, retryable: bool) -> Error {
    let kind = ErrorKind::Refused { code: known(word), status: None, retryable };
    at.of_kind(kind, format_args!("nothing was answered{}", quoted([word], None)))
}

/// An HTTP status, as a number or as its digits.
fn status(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// Returns whether a field in which errors stand says that there is none.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}
