//! Makes unreadable arguments of calls readable, for providers that parse them again.

use crate::message::{AiMessage, ToolCall, is_object};
use crate::provider::{Row, is_free_text};

/// Returns the answer with arguments that are JSON objects, or `None` if they already are.
///
/// A model that is cut off within a call leaves half of a JSON object. It is kept as a text, so
/// that the model sees what it wrote: `{"arguments": ".."}`.
pub(super) fn readable(ai: &AiMessage, rules: &Row) -> Option<AiMessage> {
    ai.with_calls(|call| {
        let is_readable = call.arguments.is_empty()
            || is_object(&call.arguments)
            || is_free_text(call, ai, rules);
        let arguments = (!is_readable).then(|| stopgap(&call.arguments))?;
        Some(ToolCall { arguments, ..call.clone() })
    })
}

fn stopgap(arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    let text = serde_json::Value::from(arguments);
    format!("{{\"arguments\":{text}}}")
}
