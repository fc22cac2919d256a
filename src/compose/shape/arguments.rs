//! Makes unreadable arguments of calls readable, for providers that parse them again.

use crate::message::{AiMessage, Attributes, ToolCall, is_object};

/// Returns the answer with arguments that are JSON objects, or `None` if they already are.
///
/// A model that is cut off within a call leaves half of a JSON object. It is kept as a text, so
/// that the model sees what it wrote: `{"arguments": ".."}`.
pub(super) fn readable(ai: &AiMessage) -> Option<AiMessage> {
    ai.with_calls(|call| {
        let arguments = (!is_readable(call)).then(|| stopgap(&call.arguments))?;
        Some(ToolCall { arguments, ..call.clone() })
    })
}

fn is_readable(call: &ToolCall) -> bool {
    call.arguments.is_empty() || is_free_text(&call.extra) || is_object(&call.arguments)
}

/// Returns whether it is a call of a tool that takes free text instead of JSON. Servers that parse
/// arguments again know such calls only in OpenAI's format; a call of the Responses API becomes a
/// function call there.
fn is_free_text(extra: &Attributes) -> bool {
    let kind = || extra.get("openai")?.get("type")?.as_str();
    kind() == Some("custom")
}

fn stopgap(arguments: &str) -> String {
    if arguments.trim().is_empty() {
        return "{}".to_owned();
    }
    let text = serde_json::Value::from(arguments);
    format!("{{\"arguments\":{text}}}")
}
