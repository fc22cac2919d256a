//! The words of the formats: the only ones of a document that errors repeat.
//!
//! Whatever else stands in a document is somebody's text. Errors are logged and sent to places
//! where no conversation belongs.

/// " (`overloaded_error`, 529)", as far as the words are known; nothing where none is.
pub(super) fn quoted<'a>(words: impl IntoIterator<Item = &'a str>, status: Option<u16>) -> String {
    let mut all: Vec<String> =
        words.into_iter().filter_map(known).map(|word| format!("`{word}`")).collect();
    all.dedup();
    all.extend(status.map(|status| status.to_string()));
    if all.is_empty() { String::new() } else { format!(" ({})", all.join(", ")) }
}

/// The word as an error may repeat it.
pub(super) fn word(word: &str) -> &'static str {
    known(word).unwrap_or("(another word)")
}

pub(super) fn known(word: &str) -> Option<&'static str> {
    PASSING.iter().chain(&FINAL).chain(&OTHERS).copied().find(|known| *known == word)
}

/// Returns whether an error of this kind passes, so that the same request may be answered later.
pub(super) fn is_passing(word: &str) -> bool {
    PASSING.contains(&word)
}

/// Returns whether an error of this kind stays, whatever else is said of it: OpenAI answers 429
/// where nothing is left to pay with.
pub(super) fn is_final(word: &str) -> bool {
    FINAL.contains(&word)
}

/// Kinds of errors that pass.
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

/// Kinds of errors that stay.
const FINAL: [&str; 6] = [
    "billing_error",
    "content_filter",
    "context_length_exceeded",
    "exceeded_current_quota_error",
    "insufficient_quota",
    "request_too_large",
];

/// The rest of the words that errors repeat.
const OTHERS: [&str; 72] = [
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
    "ALREADY_EXISTS",
    "CANCELLED",
    "FAILED_PRECONDITION",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "OUT_OF_RANGE",
    "PERMISSION_DENIED",
    "UNAUTHENTICATED",
    "authentication_error",
    "invalid_api_key",
    "invalid_prompt",
    "invalid_request_error",
    "model_not_found",
    "not_found_error",
    "permission_error",
    "unsupported_value",
    "BadRequestError",
    "error",
    "network_error",
    "insufficient_system_resource",
    "abort",
    "aborted",
    "cancelled",
    "refusal",
    "sensitive",
    "guardrail_intervened",
    "tool_calls",
    "function_call",
    "failed",
    "queued",
    "in_progress",
    "safety",
    "prohibited_content",
    "recitation",
    "MODEL_ARMOR",
    "JAILBREAK",
    "tool_use_failed",
];
