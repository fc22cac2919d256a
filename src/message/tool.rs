//! The result of a tool call.

use serde_json::Value;

use super::attributes::Attributes;
use super::content::Content;
use super::details::{Details, detailed, nameless_details};

/// The attribute that marks a stand-in.
const STAND_IN: &str = "turn:stand_in";

/// The attribute by which a late result finds its stand-in.
const CALL: &str = "turn:call";

/// The result of a tool for one call.
///
/// It names the call that it answers by id, and the tool by name: some providers key results by one
/// and some by the other.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolMessage {
    pub(crate) content: Content,
    pub(crate) answer: Box<Answer>,
}

/// The call that is answered, and the other fields of a result.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct Answer {
    pub(crate) call_id: String,
    /// The name of the tool; empty if the history does not know it.
    pub(crate) tool_name: String,
    pub(crate) is_error: bool,
    /// The fields that few results have. Their `name` is not used: the tool's is `tool_name`.
    #[serde(deserialize_with = "nameless_details")]
    pub(crate) details: Details,
}

impl ToolMessage {
    /// Returns the result of the tool `name` for the call `call_id`.
    pub fn new(
        call_id: impl Into<String>,
        name: impl Into<String>,
        content: impl Into<Content>,
    ) -> Self {
        let (call_id, tool_name) = (call_id.into(), name.into());
        let answer = Answer { call_id, tool_name, is_error: false, details: None };
        Self { content: content.into(), answer: Box::new(answer) }
    }

    /// Returns the same result, marked as an error (or not).
    #[must_use]
    pub fn with_error(mut self, is_error: bool) -> Self {
        self.answer.is_error = is_error;
        self
    }

    /// Returns the same result, marked as a stand-in for the true one: the tool took too long, or
    /// the outcome of the call is unknown.
    ///
    /// When the true result arrives later, it is sent instead of this one. The mark is the
    /// attribute `turn:stand_in`, so it is stored like any other. Ids of calls repeat from turn to
    /// turn, so a [turn](crate::Turn) also writes on both results which call of which turn they
    /// answer, in the attribute `turn:call`. A result with that attribute replaces no other.
    ///
    /// ```
    /// use memory_prompt::message::ToolMessage;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, ToolCall};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    /// prompt.add(Message::user("Book it."))?;
    /// prompt.add(Message::ai_calls([ToolCall::new("c1", "book", "{}")]))?;
    /// prompt.add(ToolMessage::new("c1", "book", "still running after 30 s").stand_in())?;
    /// prompt.add(Message::ai("It takes a while."))?;
    /// prompt.add(Message::tool("c1", "book", "booked, ref 7XK"))?;
    /// assert_eq!(prompt.build()?[2].text(), "booked, ref 7XK");
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn stand_in(self) -> Self {
        self.with_attribute(STAND_IN, true)
    }

    /// Returns whether this result is marked as a [stand-in](Self::stand_in).
    pub fn is_stand_in(&self) -> bool {
        self.answer.details.is_some() && self.attributes().get(STAND_IN) == Some(&Value::Bool(true))
    }

    /// Returns the same result with the tag of its call: if ids of calls repeat, the tag tells
    /// which call it answers.
    pub(crate) fn with_call_tag(self, tag: &str) -> Self {
        self.with_attribute(CALL, tag)
    }

    /// Returns the tag of its call, if it has one; no other call has the same tag.
    pub(crate) fn call_tag(&self) -> Option<&str> {
        self.answer.details.as_ref()?.attributes.get(CALL)?.as_str()
    }

    /// Returns the content.
    pub fn content(&self) -> &Content {
        &self.content
    }

    /// Returns the id of the call that this message answers.
    pub fn call_id(&self) -> &str {
        &self.answer.call_id
    }

    /// Returns the name of the tool; empty if the history did not keep it.
    pub fn tool_name(&self) -> &str {
        &self.answer.tool_name
    }

    /// Returns whether the tool failed.
    pub fn is_error(&self) -> bool {
        self.answer.is_error
    }
}

detailed!(ToolMessage, answer.details);
