//! Errors that providers return instead of messages, as far as a body or an event shows them.

use std::borrow::Cow;

use serde_json::Value;

use super::common::{At, Fields};
use crate::error::{Code, Error, ErrorKind, Result};

/// Returns an error if the body is a provider's error and not an answer.
///
/// Errors are in an `error` field, or flat: `{"object": "error", ..}` of vLLM and `FastChat`,
/// `base_resp` of `MiniMax`, a bare `message` or `detail` of gateways. `own` are fields of an
/// answer; if one is there, `message` and `detail` are not errors.
pub(super) fn refused(body: &Fields, own: &[&str]) -> Result<()> {
    let is_told = |key: &str| body.get(key).is_some_and(|value| !is_nothing(value));
    for key in ["error", "base_resp"] {
        let Some(error) = body.get(key).filter(|error| !is_nothing(error)) else { continue };
        if key == "error" || error.get("status_code").is_some_and(|code| !is_nothing(code)) {
            let told = |key: &str| if error.is_string() { body.get(key) } else { error.get(key) };
            return Err(refusal(body.at.key(key), None, told));
        }
    }
    let says = |key| body.get(key).is_some_and(|said| said.is_string() || said.is_array());
    let is_flat = body.peek("type") == Some("error")
        || body.peek("object") == Some("error")
        || is_told("error_code")
        || (!own.iter().any(|key| body.has(key))
            && ["message", "detail", "msg", "errors"].into_iter().any(says));
    if is_flat { Err(refusal(body.at, None, |key| body.get(key))) } else { Ok(()) }
}

/// Returns an error such as "the provider answered an error (`overloaded_error`, 529)", with the
/// kind if it is known, and the HTTP status if one is given.
///
/// Only single words from these fields are repeated, since providers quote the request.
fn refusal<'a>(at: At, given: Option<u16>, told: impl Fn(&str) -> Option<&'a Value>) -> Error {
    let said = ["message", "detail", "msg", "status_msg", "error", "errors"];
    let message = said.into_iter().filter_map(&told).find_map(|said| match said {
        Value::String(text) => Some(Cow::from(text)),
        Value::Array(_) | Value::Object(_) => Some(said.to_string().into()), // a list of problems
        _ => None,
    });
    let parameter = told("param").and_then(Value::as_str);
    let parameter = parameter.or_else(|| told("details").and_then(violated));
    let parameter = parameter.and_then(as_parameter);
    let fields = ["type", "code", "status", "status_code", "statusCode"];
    let told: Vec<&Value> = fields.into_iter().filter_map(told).collect();
    let words = told.iter().filter_map(|value| value.as_str());
    // "error" alone says nothing about the kind.
    let words: Vec<&str> = words.filter(|word| *word != "error").collect();
    let status = given.or_else(|| told.iter().find_map(|value| status(value)));
    let is_passing = words.iter().any(|word| is_passing(word))
        || status.is_some_and(|status| matches!(status, 408 | 409 | 425 | 429 | 500..));
    let kind = ErrorKind::Refused {
        // A code is more specific than the type before it.
        code: words.iter().rev().find_map(|word| Code::of(word)),
        status,
        // A request that is too large stays so, even if Groq's type says otherwise.
        retryable: is_passing
            && status != Some(413)
            && !words.iter().any(|word| FINAL.contains(word)),
    };
    let parameter = parameter.map_or_else(String::new, |name| format!(" about `{name}`"));
    let quoted = quoted(words, status);
    let error = at.of_kind(kind, format_args!("the provider answered an error{quoted}{parameter}"));
    error.with_provider_message(message.as_deref())
}

/// Returns the name of a parameter if an error may repeat it: a path of identifiers.
fn as_parameter(name: &str) -> Option<&str> {
    let is_of_path = |c: char| c.is_ascii_alphanumeric() || "_-.[]".contains(c);
    let is_path = (1..=80).contains(&name.len()) && name.chars().all(is_of_path);
    Some(name).filter(|_| is_path)
}

/// Returns the field that Google's error details name.
fn violated(details: &Value) -> Option<&str> {
    let mut details = details.as_array()?.iter().filter_map(|it| it.get("fieldViolations"));
    details.find_map(|it| it.get(0)?.get("field")?.as_str())
}

/// Returns the error of a response with this status, with any body: the JSON of an error, or a
/// proxy's page.
#[cfg(any(feature = "reqwest", feature = "ureq"))]
pub(crate) fn refused_with(operation: &'static str, status: u16, body: &str) -> Error {
    let text = body.trim_start_matches('\u{feff}').trim();
    let body = serde_json::from_str(text).map(unlisted).ok();
    let inner = body.as_ref().and_then(|body| body.get("error")).filter(|error| error.is_object());
    let error = inner.or(body.as_ref());
    let error = refusal(At::top(operation), Some(status), |key| error?.get(key));
    // Some say it in plain text.
    if body.is_none() && !text.is_empty() && !text.starts_with('<') {
        return error.with_provider_message(Some(text));
    }
    error
}

/// Returns the error from a list of one, which Google sends if a stream was requested; any other
/// value unchanged.
pub(super) fn unlisted(body: Value) -> Value {
    match body {
        Value::Array(mut list) if list.len() == 1 && list[0].get("error").is_some() => {
            list.pop().unwrap_or_default()
        }
        body => body,
    }
}

/// Returns whether this is a transient error from the provider: nothing was answered, so a retry
/// does not cause a second answer.
#[cfg(any(feature = "reqwest", feature = "ureq"))]
pub(crate) fn is_refusal(error: &Error) -> bool {
    let ErrorKind::Refused { code, status, retryable } = error.kind() else { return false };
    retryable && (status.is_some() || code.is_some_and(|code| is_passing(code.as_str())))
}

/// Returns an HTTP status from a number or its digits.
fn status(value: &Value) -> Option<u16> {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok())?;
    u16::try_from(number).ok().filter(|status| (400..600).contains(status))
}

/// Returns whether an error field says that there is no error.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_u64() == Some(0),
        Value::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Returns " (`overloaded_error`, 529)" from these words and the status; an empty text if there are
/// none.
pub(super) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>, status: Option<u16>) -> String {
    let mut all: Vec<String> =
        words.into_iter().filter_map(Code::of).map(|word| format!("`{word}`")).collect();
    all.dedup();
    all.extend(status.map(|status| status.to_string()));
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// Returns whether an error of this kind is transient.
pub(super) fn is_passing(word: &str) -> bool {
    PASSING.contains(&word)
}

/// Transient kinds of errors.
const PASSING: [&str; 23] = [
    "ABORTED",
    "DEADLINE_EXCEEDED",
    "INTERNAL",
    "InternalServerError",
    "RESOURCE_EXHAUSTED",
    "UNAVAILABLE",
    "api_error",
    "engine_overloaded",
    "engine_overloaded_error",
    "internal_error",
    "internal_server_error",
    "overloaded",
    "overloaded_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "rate_limit_reached_error",
    "requests",
    "server_error",
    "server_is_overloaded",
    "service_unavailable",
    "slow_down",
    "timeout_error",
    "tokens",
];

/// Permanent kinds of errors, even if the status is that of a transient one: OpenAI answers 429 if
/// the credit is used up.
const FINAL: [&str; 6] = [
    "billing_error",
    "content_filter",
    "context_length_exceeded",
    "exceeded_current_quota_error",
    "insufficient_quota",
    "request_too_large",
];
