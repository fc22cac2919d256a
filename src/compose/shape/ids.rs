//! Call ids as a provider takes them.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use crate::message::{Message, OpenCalls, ToolCall, nine, plain_id};
use crate::provider::Ids;

pub(super) struct CallIds {
    rule: Ids,
    /// In the form of the wire format.
    taken: HashSet<String>,
    /// By written id: the next number for a copy that may be free.
    copies: HashMap<String, u64>,
    /// The earlier calls without a result, with their new ids and their numbers.
    open: OpenCalls<String, (String, Option<usize>)>,
    /// True if the last message was an answer with calls, to which the next one may be joined.
    calls: bool,
    joins_calls: bool,
}

impl CallIds {
    pub(super) fn new(rule: Ids, joins_calls: bool) -> Self {
        let (taken, copies, open) = Default::default();
        Self { rule, taken, copies, open, calls: false, joins_calls }
    }

    pub(super) fn takes_any(&self) -> bool {
        matches!(self.rule, Ids::Any | Ids::Unwritten)
    }

    /// Returns the message with other ids, or `None` if its own are allowed. `known` is the numbers
    /// of its calls, or of the call that it answers: if an id repeats, the order of the results
    /// does not say which call each of them answers.
    pub(super) fn renamed(
        &mut self,
        message: &Message,
        known: Option<Range<usize>>,
    ) -> Option<Message> {
        let calls = std::mem::replace(&mut self.calls, message.has_tool_calls());
        if let Message::Tool(tool) = message {
            let call = known.map(|known| known.start);
            let is_known = |open: &(String, Option<usize>)| call.is_some() && open.1 == call;
            let (new, _) = self.open.answer_known(tool, is_known)?;
            let mut copy = (new != tool.call_id()).then(|| tool.clone())?;
            copy.answer.call_id = new;
            return Some(Message::Tool(copy));
        }
        if !calls {
            self.open = OpenCalls::default();
        }
        let ai = message.as_ai().filter(|ai| ai.has_tool_calls())?;
        let is_joined = calls && self.joins_calls;
        if !is_joined && !matches!(self.rule, Ids::Distinct | Ids::DistinctAtMost64) {
            self.taken.clear();
            self.copies.clear();
        }
        let mut numbers = known.into_iter().flatten();
        let other = |call: &ToolCall| {
            let new = self.name(&call.id);
            let other = (new != call.id).then(|| ToolCall { id: new.clone(), ..call.clone() });
            self.open.open(call.id.clone(), call.name.clone(), (new, numbers.next()));
            other
        };
        ai.with_calls(other).map(Message::Ai)
    }

    /// Returns an id that is not taken: the old one if possible.
    fn name(&mut self, old: &str) -> String {
        let key = plain_id(old).into_owned();
        let mut tries = self.copies.get(&key).copied().unwrap_or(0);
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
            if !new.is_empty() && self.taken.insert(plain_id(&new).into_owned()) {
                self.copies.insert(key, tries);
                return new;
            }
        }
    }
}

fn is_nine(id: &str) -> bool {
    id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Returns a short id that replaces a longer one.
fn short(id: &str, most: usize, tries: u64) -> String {
    let head: String = id.chars().take(most.saturating_sub(10)).collect();
    format!("{head}_{}", nine(id, tries))
}
