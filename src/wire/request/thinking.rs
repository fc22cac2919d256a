//! Claude's manual thinking, which can't begin in the middle of a tool loop.
//!
//! "When `thinking` is enabled, a final `assistant` message must start with a thinking block
//! (preceding the lastmost set of `tool_use` and `tool_result` blocks). .. To avoid this
//! requirement, disable `thinking`." A loop that another provider began, or Claude without
//! thinking, has no such block, and it can't be made up, since it is signed. Adaptive thinking has
//! no such rule.

use std::borrow::Cow;

use serde_json::Value;

use super::{Request, sampling};
use crate::message::{Attributes, Message};
use crate::prompt::Prompt;
use crate::provider::Format;
use crate::wire::anthropic;
use crate::wire::losses::Losses;
use crate::wire::view::MessageFormat;

pub(super) const LOST: &str = "the option `thinking`";

impl Request<'_> {
    /// Returns the place of the answer that prevents thinking: the first of an unfinished tool
    /// loop, if it is not sent with thinking at its beginning.
    pub(super) fn unthinking(&self) -> Option<usize> {
        let is_manual = self.extra.get("thinking").is_some_and(|it| it["type"] == "enabled");
        // A server that does not sign has its own rules.
        let signs = self.provider().is_some_and(|provider| provider.row().signed_reasoning);
        if !is_manual || !signs || self.format() != Format::Anthropic {
            return None;
        }
        let (first, of_loop) = open_loop(self.prompt)?;
        let view = self.on_terms(anthropic::Messages::of(of_loop));
        let losses = Losses::default();
        let sent = view.sent(&losses);
        let written = anthropic::Options::messages(&view, &sent);
        let answer = written.iter().find(|it| it.text("role") == "assistant")?;
        let begins = answer.get("content").and_then(|it| Some(it.as_list()?.first()?.text("type")));
        let is_thought = matches!(begins, Some("thinking" | "redacted_thinking"));
        (!is_thought).then_some(first)
    }

    /// Returns the application's fields, without `thinking` if it is not possible.
    pub(super) fn sent_extra(&self) -> Cow<'_, Attributes> {
        if self.unthinking().is_none() {
            return sampling::placed(&self.extra, self.format());
        }
        let mut extra = self.extra.clone();
        extra.remove("thinking");
        // Clearing of thinking is refused if thinking is off.
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

/// Returns the answers and results after the user's last message, if they are an unfinished tool
/// loop, and the place of the first. What a user says together with results counts as one of them,
/// as for the API: they are one entry.
fn open_loop(prompt: &Prompt) -> Option<(usize, Vec<&Message>)> {
    let messages: Vec<_> = prompt.iter().collect();
    let is_beside = |i: usize| {
        let before = messages.iter().take(i).rev().find(|message| !message.is_user());
        before.is_some_and(|before| before.is_tool())
    };
    let begins = messages.iter().enumerate();
    let begins = begins.rev().find(|(i, message)| message.is_user() && !is_beside(*i));
    let first = begins.map_or(0, |(i, _)| i + 1);
    let of_loop = messages.get(first..).unwrap_or_default();
    let has_calls = of_loop.iter().any(|message| message.has_tool_calls());
    has_calls.then(|| (first, of_loop.to_vec()))
}
