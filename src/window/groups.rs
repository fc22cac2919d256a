//! Tool groups: ai messages with calls, and the results that answer them.

use super::{NotReady, WindowStart, more};
use crate::error::Result;
use crate::message::Message;
use crate::record::Snapshot;

/// The rule for tool calls without results, and for results without calls.
///
/// A result answers its call if it is anywhere after it:
///
/// - Results directly after an ai message answer its calls, in the order of the calls. Any other
///   result is a late one. It answers the nearest earlier unanswered call of its id; a message that
///   calls with the same id again closes the earlier call. If call and result both name a tool, the
///   names must agree.
/// - A late result first replaces its [stand-in](crate::message::ToolMessage::stand_in).
/// - Each result is sent directly after its call, as far back as is
///   [searched](crate::Window) for it; the
///   [report](crate::Report::moved) lists these results. If an answer of the model would then be
///   the last message, a short note of the user names the result that has arrived.
/// - A second result for an answered call is left out.
///
/// ```
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, ToolCall};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
/// prompt.add(Message::user("Book the flight."))?;
/// prompt.add(Message::ai_calls([ToolCall::new("c1", "book", "{}")]))?;
/// prompt.add(Message::user("Are you still there?"))?;
/// prompt.add(Message::tool("c1", "book", "booked, ref 7XK"))?; // after a long time
/// let sent = prompt.build()?;
/// assert_eq!(sent[2].text(), "booked, ref 7XK");
/// assert_eq!(sent[3].text(), "Are you still there?");
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolGroups {
    /// Results that answer no call are left out, and unanswered calls get an error result that says
    /// that none was recorded. The report lists both.
    #[default]
    Repair,
    /// A build that would repair something fails: an error of kind
    /// [`ToolGroup`](crate::ErrorKind::ToolGroup) that names the message. If a
    /// [`Provider`](crate::Provider) is named, what it refuses is an error too.
    #[doc(alias = "Strict")]
    FailOnRepair,
    /// Calls and results are ignored: each stays in its place, and no question is put before the
    /// window. The demands of a named [`Provider`](crate::Provider) on other messages are still
    /// met.
    Off,
}

/// Moves the start of a window out of the tool group that it would cut.
///
/// A sliding window leaves the group out: the start moves forward past its results. If the history
/// ends in them, the start moves back to their call instead, so that the newest group is sent whole
/// even if it alone exceeds the window. A `stable` window always moves back.
pub(crate) fn whole_groups(
    snapshot: &Snapshot,
    window: WindowStart,
    stable: bool,
) -> Result<WindowStart, NotReady> {
    let records = &snapshot.records;
    let mut from = records.cursor(window.start);
    from.pass(Message::is_private);
    let may_cut = from.peek().is_some_and(|record| record.message().is_tool());
    // If nothing was cut, no group was split.
    if !may_cut || (window.start == 0 && snapshot.is_complete()) {
        return Ok(window);
    }
    from.pass(|message| message.is_tool() || message.is_private());
    if from.at() < records.len() && !stable {
        return Ok(WindowStart { start: from.at(), ..window });
    }
    // Back over the results to the record before them.
    let mut before = records.messages().rev().skip(records.len() - window.start);
    let passed = before.position(|message| !message.is_tool() && !message.is_private());
    match passed {
        None if !snapshot.is_complete() => Err(NotReady::ReadMore(more(records.len()))),
        Some(passed) => {
            let head = window.start - 1 - passed;
            let calls = records.get(head).is_some_and(|head| head.message().has_tool_calls());
            // Late results belong to a call elsewhere, and bring it along.
            let start = if calls { head } else { window.start };
            Ok(WindowStart { window_from: start, start, ..window })
        }
        None => Ok(window),
    }
}
