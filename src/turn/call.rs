//! A call that is handed out, and the error of its tool.

use std::fmt;

use crate::memory::On;
use crate::message::{Content, ToolCall, ToolMessage};
use crate::record::Records;

/// A call that waits for its result.
#[derive(Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Call {
    pub(super) made: ToolCall,
    /// The arguments that the tool is handed, where the model wrote others.
    pub(super) read: Option<String>,
    /// The tag of what stands in for its result, and of that where it comes late.
    pub(super) tag: String,
    pub(super) needs_approval: bool,
    pub(super) is_checkpointed: bool,
    pub(super) may_have_run: bool,
    pub(super) is_repeatable: bool,
    /// The messages of the turn that are not stored yet.
    pub(super) staged: Records,
    /// The branch of the turn.
    pub(super) on: Option<On>,
}

impl fmt::Debug for Call {
    /// Names the call, not what is handed to the tool.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("needs_approval", &self.needs_approval)
            .field("is_checkpointed", &self.is_checkpointed)
            .field("may_have_run", &self.may_have_run)
            .finish_non_exhaustive()
    }
}

impl Call {
    /// The id by which its result is recognised.
    pub fn id(&self) -> &str {
        &self.made.id
    }

    pub(crate) fn is_repeatable(&self) -> bool {
        self.is_repeatable
    }

    /// Returns what its turn has beside the memory, and the branch that it is on.
    pub(super) fn beside(&self) -> (&Records, Option<On>) {
        (&self.staged, self.on)
    }

    /// The name of the tool.
    pub fn name(&self) -> &str {
        &self.made.name
    }

    /// Returns what the model hands to the tool, as it wrote it: a JSON object, if all is well.
    pub fn arguments(&self) -> &str {
        &self.made.arguments
    }

    /// Reads what the model hands to the tool. A type that takes nothing, as `()` does, is read
    /// from an empty object too, and a `null` that only a [strict](crate::Tool::strict) mode asked
    /// for is not there.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] for the model, where it wrote something else. It goes into
    /// [`Turn::result`](super::Turn::result) as it is.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, ToolError> {
        let said = self.read.as_ref().unwrap_or(&self.made.arguments);
        let text = match said.trim() {
            "" => "{}",
            text => text,
        };
        let read = serde_json::from_str(text).or_else(|error| {
            // `()` and unit structs are written `null`, and models write `{}`.
            let is_empty = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
            let is_empty = is_empty.is_some_and(|inside| inside.trim().is_empty());
            let nothing = is_empty.then(|| serde_json::from_str("null").ok()).flatten();
            nothing.ok_or(error)
        });
        read.map_err(|error| ToolError::new(format!("arguments: {error}")))
    }

    /// Returns true if somebody must approve of it before it runs. Where it is
    /// [checkpointed](Self::is_checkpointed), the turn can be dropped until then: whoever has the answer
    /// [adopts](crate::MemoryPrompt::adopt) it. Else the turn itself must be kept, as JSON for one.
    pub fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    /// Returns true if a crash from here on leaves a checkpoint with it in the memory.
    ///
    /// The calls of one answer are kept together: those of repeatable tools are where one of them
    /// is not repeatable or needs approval, and else are not. It is false over a memory without
    /// slots, and where the turn has outgrown a slot: one that was written before does not know of
    /// this call.
    pub fn is_checkpointed(&self) -> bool {
        self.is_checkpointed
    }

    /// Returns true if the turn was handed to this owner after the call was handed out to an
    /// earlier one, who may have run it, and where a [conversation](crate::Conversation) has begun
    /// it and was dropped. A tool that is not repeatable is not to be run again then, unless
    /// somebody has made sure that it did not run.
    ///
    /// Of a loop of your own the turn knows no more than what you say: where you hand a call to a
    /// task and lose that, the turn hands the call out again as if nothing had happened. Say
    /// [`outcome_unknown`](super::Turn::outcome_unknown) then.
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }
}

/// The error of a tool: text for the model.
///
/// A text becomes one with `?` or `into`, and so does every error, an `anyhow::Error` for one, by
/// its own text: mind what errors say.
///
/// ```
/// use memory_prompt::turn::ToolError;
///
/// fn pay(amount: &str) -> Result<String, ToolError> {
///     let amount: u32 = amount.parse()?;
///     if amount > 100 {
///         return Err("more than the card has".into());
///     }
///     (amount > 0).then(|| "paid".to_owned()).ok_or(format!("{amount} is nothing").into())
/// }
/// assert_eq!(pay("101").unwrap_err().to_string(), "more than the card has");
/// assert_eq!(pay("0").unwrap_err().to_string(), "0 is nothing");
/// assert_eq!(pay("-1").unwrap_err().to_string(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// A failure that the model is told in these words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Returns what came of a call as a message.
pub(super) fn result_of(
    call: &ToolCall,
    outcome: Result<impl Into<Content>, ToolError>,
) -> ToolMessage {
    match outcome {
        Ok(content) => ToolMessage::new(&call.id, &call.name, content),
        Err(error) => ToolMessage::new(&call.id, &call.name, error.0).with_error(true),
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: Into<Box<dyn std::error::Error>>> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.into().to_string())
    }
}
