//! The names of the known fields in JSON, by the object that has them.

pub(super) const TEXT: [&str; 1] = ["text"];
pub(super) const MEDIA: [&str; 7] =
    ["url", "data", "file_id", "media_type", "name", "detail", "reference"];
pub(super) const REASONING: [&str; 2] = ["text", "signature"];
pub(super) const CALL: [&str; 4] = ["id", "name", "arguments", "signature"];

/// Returns the known fields of a message of this role, without the role.
pub(super) fn fields_of(role: &str) -> &'static [&'static str] {
    match role {
        "system" | "user" => &["name", "content", "attributes"],
        "assistant" | "ai" => &["name", "reasoning", "content", "tool_calls", "attributes"],
        "tool" => &["tool_call_id", "name", "content", "is_error", "attributes"],
        _ => &["attributes"],
    }
}

/// Returns whether a role has a message variant of its own.
pub(super) fn is_known(role: &str) -> bool {
    fields_of(role).len() > 1
}
