//! The treatment of tool groups: ai messages with calls, and the results that answer them.

use super::{NotReady, WindowStart, more};
use crate::error::Result;
use crate::message::Message;
use crate::record::Snapshot;

/// Says what to do about tool calls without results, and results without calls.
///
/// A result answers its call wherever it stands behind it:
///
/// - Results directly behind an ai message answer its calls, in the order of the calls. Any other
///   result is a late one and answers the nearest earlier call of its id that nothing has answered;
///   a message that calls with the same id again closes the earlier call. Where call and result
///   both name a tool, the names agree.
/// - A late result first takes the place of a [stand-in](crate::message::ToolMessage::stand_in) for
///   it.
/// - Each result is sent directly behind its call, whatever was said in between: the
///   [report](crate::Report::moved) tells. Where that leaves an answer of the model last, a short
///   note of the user says which result has arrived.
/// - A second result for an answered call is left out.
///
/// ```
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, ToolCall};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
/// prompt.add(Message::user("Book the flight."))?;
/// prompt.add(Message::ai_calls([ToolCall::new("c1", "book", "{}")]))?;
/// prompt.add(Message::user("Are you still there?"))?;
/// prompt.add(Message::tool("c1", "book", "booked, ref 7XK"))?; // it took its time
/// let sent = prompt.build()?;
/// assert_eq!(sent[2].text(), "booked, ref 7XK");
/// assert_eq!(sent[3].text(), "Are you still there?");
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolGroups {
    /// Results that answer no call are left out, and calls that nothing answers are answered with
    /// an error result that says that none was recorded. The report tells.
    #[default]
    Repair,
    /// A build that would repair something fails: an error of kind
    /// [`ToolGroup`](crate::ErrorKind::ToolGroup) that names the message. Where a
    /// [`Provider`](crate::Provider) is named, what it refuses is an error too.
    #[doc(alias = "Strict")]
    FailOnRepair,
    /// Calls and results are not looked at: each stays in its place, and no question is put before
    /// the window. What a named [`Provider`](crate::Provider) demands of other messages is still
    /// done.
    Off,
}

/// Moves the start of a window out of the tool group in which it stands.
///
/// A sliding window leaves the group out: the start moves forward past its results. Where the
/// history ends in them, it moves back to their call instead, so that the newest group is sent
/// whole even where it alone exceeds the window. A `stable` window always moves back.
pub(crate) fn whole_groups(
    snapshot: &Snapshot,
    window: WindowStart,
    stable: bool,
) -> Result<WindowStart, NotReady> {
    let records = &snapshot.records;
    let mut from = records.cursor(window.start);
    from.pass(Message::is_private);
    if !from.peek().is_some_and(|record| record.message().is_tool()) {
        return Ok(window);
    }
    if window.start == 0 && snapshot.is_complete() {
        return Ok(window); // nothing was cut, so nothing was parted
    }
    from.pass(|message| message.is_tool() || message.is_private());
    if from.at() < records.len() && !stable {
        return Ok(WindowStart { start: from.at(), ..window });
    }
    // Back over the results to what stands before them.
    let mut before = records.messages().rev().skip(records.len() - window.start);
    let passed = before.position(|message| !message.is_tool() && !message.is_private());
    match passed {
        None if !snapshot.is_complete() => Err(NotReady::ReadMore(more(records.len()))),
        Some(passed) => {
            let head = window.start - 1 - passed;
            let calls = records.get(head).is_some_and(|head| head.message().has_tool_calls());
            // Results that came late belong to a call elsewhere, and bring it along.
            let start = if calls { head } else { window.start };
            Ok(WindowStart { window_from: start, start, ..window })
        }
        None => Ok(window),
    }
}
