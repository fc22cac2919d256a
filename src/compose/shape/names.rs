//! Names of tools as a provider takes them.

use crate::message::{Message, ToolCall};
use crate::provider::ToolNames;

/// Returns the message with names that the rule allows, or `None` if its own are allowed.
pub(super) fn renamed(message: &Message, rule: ToolNames) -> Option<Message> {
    let is_allowed = |name: &str| rule.allow(name);
    match message {
        // A result may have no name of its own; its call has it.
        Message::Tool(tool) if !tool.tool_name().is_empty() && !is_allowed(tool.tool_name()) => {
            let mut copy = tool.clone();
            copy.answer.tool_name = rule.sent(tool.tool_name()).into_owned();
            Some(Message::Tool(copy))
        }
        Message::Ai(ai) => {
            let other = |call: &ToolCall| {
                let name = (!is_allowed(&call.name)).then(|| rule.sent(&call.name).into_owned())?;
                Some(ToolCall { name, ..call.clone() })
            };
            ai.with_calls(other).map(Message::Ai)
        }
        _ => None,
    }
}
