//! The words of the formats: the only ones of a document that errors repeat.
//!
//! Whatever else stands in a document is somebody's text. Errors are logged and sent to places where no
//! conversation belongs.

use serde_json::Value;

/// "the provider answered an error (`overloaded_error`)", as far as it is of a known kind.
///
/// Its own words are not repeated: providers quote what they were sent.
pub(super) fn answered_error(error: &Value) -> String {
    let fields = || ["type", "code", "status"].into_iter().filter_map(|key| error.get(key));
    let names = fields().filter_map(Value::as_str).filter_map(known);
    let mut kinds: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    kinds.dedup();
    let status = fields().filter_map(Value::as_u64).find(|number| (400..600).contains(number));
    kinds.extend(status.map(|status| status.to_string()));
    if kinds.is_empty() {
        return "the provider answered an error".to_owned();
    }
    format!("the provider answered an error ({})", kinds.join(", "))
}

/// The word as an error may repeat it.
pub(super) fn word(word: &str) -> &'static str {
    known(word).unwrap_or("(another word)")
}

fn known(word: &str) -> Option<&'static str> {
    WORDS.into_iter().find(|known| *known == word)
}

const WORDS: [&str; 69] = [
    // Roles.
    "assistant",
    "developer",
    "function",
    "model",
    "system",
    "tool",
    "user",
    // Kinds of blocks.
    "document",
    "image",
    "redacted_thinking",
    "text",
    "thinking",
    "tool_result",
    "tool_use",
    // Why an answer ended, or none was given.
    "BLOCKLIST",
    "BLOCK_REASON_UNSPECIFIED",
    "FINISH_REASON_UNSPECIFIED",
    "IMAGE_OTHER",
    "IMAGE_PROHIBITED_CONTENT",
    "IMAGE_RECITATION",
    "IMAGE_SAFETY",
    "LANGUAGE",
    "MALFORMED_FUNCTION_CALL",
    "MALFORMED_RESPONSE",
    "MAX_TOKENS",
    "MISSING_THOUGHT_SIGNATURE",
    "NO_IMAGE",
    "OTHER",
    "PROHIBITED_CONTENT",
    "RECITATION",
    "SAFETY",
    "SPII",
    "STOP",
    "TOO_MANY_TOOL_CALLS",
    "UNEXPECTED_TOOL_CALL",
    // Kinds of errors.
    "ABORTED",
    "ALREADY_EXISTS",
    "CANCELLED",
    "DEADLINE_EXCEEDED",
    "FAILED_PRECONDITION",
    "INTERNAL",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "UNAUTHENTICATED",
    "UNAVAILABLE",
    "api_error",
    "authentication_error",
    "billing_error",
    "content_filter",
    "context_length_exceeded",
    "insufficient_quota",
    "invalid_api_key",
    "invalid_prompt",
    "invalid_request_error",
    "model_not_found",
    "not_found_error",
    "overloaded_error",
    "permission_error",
    "rate_limit_error",
    "rate_limit_exceeded",
    "request_too_large",
    "requests",
    "server_error",
    "timeout_error",
    "tokens",
    "unsupported_value",
];
