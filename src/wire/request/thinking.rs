//! Claude's manual thinking, which can't begin in the middle of a tool loop.
//!
//! "When `thinking` is enabled, a final `assistant` message must start with a thinking block
//! (preceding the lastmost set of `tool_use` and `tool_result` blocks). .. To avoid this
//! requirement, disable `thinking`." A loop that another provider began, or Claude without
//! thinking, has no such block, and nobody can write one: it is signed. Adaptive thinking is free
//! of this rule.

use std::borrow::Cow;

use serde_json::Value;

use super::{Request, sampling};
use crate::composed::Prompt;
use crate::message::{Attributes, Message};
use crate::provider::Format;
use crate::wire::anthropic;
use crate::wire::common::Sequence;

/// The name of what is lost.
pub(super) const LOST: &str = "the option `thinking`";

impl Request<'_> {
    /// Returns the place of the answer that keeps thinking from being on: the first of a tool loop
    /// that is not over, where it is not sent with thinking at its beginning.
    pub(super) fn unthinking(&self) -> Option<usize> {
        let is_manual = self.extra.get("thinking").is_some_and(|it| it["type"] == "enabled");
        // A server that does not sign has rules of its own.
        let signs = self.provider().is_some_and(|provider| provider.row().signed_reasoning);
        if !is_manual || !signs || self.format() != Format::Anthropic {
            return None;
        }
        let (first, of_loop) = open_loop(self.prompt)?;
        let mut view = self.on_terms(anthropic::messages(self.prompt));
        view.messages = Sequence::of(of_loop);
        let sent = serde_json::to_value(view).unwrap_or_default();
        let answer = sent.as_array()?.iter().find(|it| it["role"] == "assistant")?;
        let begins = &answer["content"][0]["type"];
        (begins != "thinking" && begins != "redacted_thinking").then_some(first)
    }

    /// Returns what the application adds, without what asks for thinking where that can't be on.
    pub(super) fn sent_extra(&self) -> Cow<'_, Attributes> {
        if self.unthinking().is_none() {
            return sampling::placed(&self.extra, self.format());
        }
        let mut extra = self.extra.clone();
        extra.remove("thinking");
        // What clears thinking is refused where it is off.
        let manages = extra.get_mut("context_management");
        if let Some(Value::Array(edits)) = manages.and_then(|it| it.get_mut("edits")) {
            let clears = |edit: &Value| {
                edit["type"].as_str().is_some_and(|it| it.starts_with("clear_thinking"))
            };
            edits.retain(|edit| !clears(edit));
            if edits.is_empty() {
                extra.remove("context_management");
            }
        }
        Cow::Owned(extra)
    }
}

/// Returns the answers and results behind the user's last message, and the place of the first of
/// them, if they are a tool loop that waits for its next answer. What a user says beside results is
/// part of it.
fn open_loop(prompt: &Prompt) -> Option<(usize, Vec<&Message>)> {
    let messages: Vec<_> = prompt.iter().collect();
    let is_beside = |i: usize| {
        let before = messages[..i].iter().rev().find(|message| !message.is_user());
        before.is_some_and(|before| before.is_tool())
    };
    let begins = messages.iter().enumerate();
    let begins = begins.rev().find(|(i, message)| message.is_user() && !is_beside(*i));
    let first = begins.map_or(0, |(i, _)| i + 1);
    let of_loop = messages.get(first..)?.to_vec();
    of_loop.iter().any(|message| message.has_tool_calls()).then_some((first, of_loop))
}
