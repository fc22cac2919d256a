//! Call ids as a provider takes them.

use std::collections::HashSet;

use crate::message::{Message, ToolCall, nine};
use crate::provider::Ids;

/// The ids that were given so far.
pub(super) struct CallIds {
    rule: Ids,
    /// As a wire format may write them: other characters than letters, digits, `_` and `-` as `_`.
    taken: HashSet<String>,
    /// The calls of the answers before, each with its old and its new id, until it is answered.
    waiting: Vec<(String, String)>,
    /// True where the message before was an answer with calls, to which another one may be joined.
    calls: bool,
    /// True where it is joined.
    joins_calls: bool,
}

impl CallIds {
    pub(super) fn new(rule: Ids, joins_calls: bool) -> Self {
        Self { rule, taken: HashSet::new(), waiting: Vec::new(), calls: false, joins_calls }
    }

    /// Returns the message with other ids, or `None` where its own will do.
    pub(super) fn renamed(&mut self, message: &Message) -> Option<Message> {
        if self.rule == Ids::Any {
            return None;
        }
        let calls = std::mem::replace(&mut self.calls, message.has_tool_calls());
        if let Message::Tool(tool) = message {
            let at = self.waiting.iter().position(|(old, _)| old == tool.call_id())?;
            let (old, new) = self.waiting.remove(at);
            let mut copy = (new != old).then(|| tool.clone())?;
            copy.answer.call_id = new;
            return Some(Message::Tool(copy));
        }
        if !calls {
            self.waiting.clear();
        }
        let ai = message.as_ai().filter(|ai| ai.has_tool_calls())?;
        let is_joined = calls && self.joins_calls;
        if !is_joined && !matches!(self.rule, Ids::Distinct | Ids::DistinctAtMost64) {
            self.taken.clear();
        }
        let first = self.waiting.len();
        for call in ai.tool_calls() {
            let new = self.name(&call.id);
            self.waiting.push((call.id.clone(), new));
        }
        let mut names = self.waiting[first..].iter();
        let other = |call: &ToolCall| {
            let (_, new) = names.next().filter(|(old, new)| old != new)?;
            Some(ToolCall { id: new.clone(), ..call.clone() })
        };
        ai.with_calls(other).map(Message::Ai)
    }

    /// Returns an id that is not taken: the old one where that is possible.
    fn name(&mut self, old: &str) -> String {
        let mut tries = 0_u64;
        loop {
            let new = match (self.rule, tries) {
                (Ids::Nine, 0) if is_nine(old) => old.to_owned(),
                (Ids::Nine, _) => nine(old, tries),
                (_, 0) => old.to_owned(),
                (_, 1) if old.is_empty() => "call".to_owned(),
                (_, _) if old.is_empty() => format!("call_{tries}"),
                (_, _) => format!("{old}_{}", tries + 1),
            };
            let new = match self.rule {
                Ids::AtMost40 if new.chars().count() > 40 => short(old, 40, tries),
                Ids::DistinctAtMost64 if new.chars().count() > 64 => short(old, 64, tries),
                _ => new,
            };
            tries += 1;
            if !new.is_empty() && self.taken.insert(written(&new)) {
                return new;
            }
        }
    }
}

fn written(id: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    id.chars().map(|c| if is_plain(c) { c } else { '_' }).collect()
}

fn is_nine(id: &str) -> bool {
    id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns an id of at most so many characters that stands for a longer one.
fn short(id: &str, most: usize, tries: u64) -> String {
    let head: String = id.chars().take(most.saturating_sub(10)).collect();
    format!("{head}_{}", nine(id, tries))
}
