//! Calls that a turn hands out, and the errors of their tools.

use std::fmt;

use crate::memory::On;
use crate::message::{Content, ToolCall, ToolMessage};
use crate::record::Records;

/// A call that waits for its result.
#[derive(Clone, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each is asked for by itself")]
pub struct Call {
    pub(super) made: ToolCall,
    /// The arguments that the tool gets, if they differ from those that the model wrote.
    pub(super) read: Option<String>,
    /// The tag of the stand-in for its result, and of its late result.
    pub(super) tag: String,
    pub(super) needs_approval: bool,
    pub(super) is_checkpointed: bool,
    pub(super) may_have_run: bool,
    pub(super) is_repeatable: bool,
    pub(super) staged: Records,
    /// The branch of the turn.
    pub(super) on: Option<On>,
}

impl fmt::Debug for Call {
    /// Names the call, not its arguments.
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
    /// Returns the id that identifies the call in [`Turn::result`](super::Turn::result).
    pub fn id(&self) -> &str {
        &self.made.id
    }

    /// Returns the text that identifies the call in its conversation, in all processes: together
    /// with the conversation's id it is an idempotency key for a request that must not be made
    /// twice. If nothing of a request was stored, its [retry](super::Turn::with_id) may make
    /// another call in the same place, under the same key. The [id](Self::id) is unique within the
    /// turn only.
    pub fn key(&self) -> &str {
        &self.tag
    }

    /// Returns the name of the tool.
    pub fn name(&self) -> &str {
        &self.made.name
    }

    /// Returns the arguments as the model wrote them: normally a JSON object.
    pub fn arguments(&self) -> &str {
        &self.made.arguments
    }

    /// Parses the arguments. A type without fields, such as `()`, is also read from an empty
    /// object, and a `null` that only a [strict](crate::Tool::strict) mode asked for counts as
    /// absent.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] for the model if the arguments do not fit. Pass it to
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

    /// Returns true if a person must approve the call before it runs. If it is
    /// [checkpointed](Self::is_checkpointed), the turn can be dropped until then: the process that
    /// receives the decision [adopts](crate::MemoryPrompt::adopt) it. Otherwise keep the turn
    /// yourself, for example as JSON.
    pub fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    /// Returns true if a crash from now on leaves a checkpoint that contains this call.
    ///
    /// The calls of one answer are written together: a call of a repeatable tool is checkpointed
    /// only if another call of the answer is not repeatable or needs approval. This is false if the
    /// memory has no slots, and if the turn is larger than a slot: an earlier checkpoint does not
    /// contain this call.
    pub fn is_checkpointed(&self) -> bool {
        self.is_checkpointed
    }

    /// Returns true if a tool that is not repeatable may already have run for this call: the call
    /// was handed to an earlier owner of the turn, or a [conversation](crate::Conversation) began
    /// it and was dropped. Do not run the tool again then, unless you have made sure that it did
    /// not run.
    ///
    /// In a loop of your own, the turn knows only what you report. If you hand a call to a task and
    /// lose that task, the turn hands the call out again as if nothing had happened. Report
    /// [`outcome_unknown`](super::Turn::outcome_unknown) then.
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }
}

/// The error of a tool: text for the model.
///
/// A text becomes one with `?` or `into`, and so does every error (for example an `anyhow::Error`),
/// with its own text: the model reads what your errors say.
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
    /// Creates an error with this text for the model.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

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
