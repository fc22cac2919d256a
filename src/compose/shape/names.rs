//! Names of tools as a provider takes them.

use super::ids::nine;
use crate::message::{Message, ToolCall};
use crate::provider::ToolNames;

/// The most characters of a name that is given.
const MOST: usize = 64;

/// Returns the message with names that the rule allows, or `None` where its own will do.
pub(super) fn renamed(message: &Message, rule: ToolNames) -> Option<Message> {
    let is_allowed = |name: &str| rule.allow(name);
    match message {
        // A result may leave it to its call to name the tool.
        Message::Tool(tool) if !tool.tool_name().is_empty() && !is_allowed(tool.tool_name()) => {
            let mut copy = tool.clone();
            copy.answer.tool_name = allowed(tool.tool_name(), rule);
            Some(Message::Tool(copy))
        }
        Message::Ai(ai) => {
            let other = |call: &ToolCall| {
                let name = || allowed(&call.name, rule);
                (!is_allowed(&call.name)).then(|| ToolCall { name: name(), ..call.clone() })
            };
            ai.with_calls(other).map(Message::Ai)
        }
        _ => None,
    }
}

/// Returns an allowed name that stands for this one: what of it is allowed, and nine letters for
/// the whole of it. So two names never become one, and each is the same in every prompt.
fn allowed(name: &str, rule: ToolNames) -> String {
    let head: String = name.chars().take(MOST - 11).collect();
    let plain = head.chars().map(|c| match u8::try_from(c) {
        Ok(b) if rule.takes(b) => c,
        _ => '_',
    });
    let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
    let front = if head.is_empty() {
        "tool"
    } else if head.starts_with(begins) {
        ""
    } else {
        "_"
    };
    let mut new = String::from(front);
    new.extend(plain);
    new.push('_');
    new.push_str(&nine(name, 0));
    new
}
