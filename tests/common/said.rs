//! What tests have people, models and tools say.

use memory_prompt::summary::{Compaction, CompactionPolicy};
use memory_prompt::{Message, ToolCall};

/// So many questions with their answers.
pub(crate) fn talk(n: usize) -> impl Iterator<Item = Message> {
    (0..n)
        .flat_map(|i| [Message::user(format!("question {i}")), Message::ai(format!("answer {i}"))])
}

/// So many messages of the user.
pub(crate) fn chatter(n: usize) -> impl Iterator<Item = Message> {
    (0..n).map(|i| Message::user(format!("chatter {i}")))
}

/// A call of the tool `look` under this id.
pub(crate) fn call(id: impl Into<String>) -> Message {
    Message::ai_calls([ToolCall::new(id, "look", "{}")])
}

/// What that tool gives.
pub(crate) fn result(id: impl Into<String>, text: impl Into<String>) -> Message {
    Message::tool(id, "look", text.into())
}

/// A call and its result.
pub(crate) fn group(id: &str) -> [Message; 2] {
    [call(id), result(id, "seen")]
}

/// So many calls one after the other, `c0`, `c1` and so on, each with this result.
pub(crate) fn rounds(n: usize, text: &str) -> impl Iterator<Item = Message> {
    (0..n).flat_map(move |i| [call(format!("c{i}")), result(format!("c{i}"), text)])
}

/// When a conversation is summarised.
pub(crate) fn policy(keep: usize, step: usize) -> CompactionPolicy {
    CompactionPolicy::messages(keep, step).unwrap()
}

pub(crate) type Wrote = Result<String, std::io::Error>;

/// A summariser that says how far it has come.
#[allow(clippy::unnecessary_wraps)] // a summariser may fail
pub(crate) fn notes(due: &Compaction) -> Wrote {
    Ok(format!("Notes up to {}.", due.covers))
}

/// A token a word.
pub(crate) fn words(text: &str) -> usize {
    text.split_whitespace().count()
}
