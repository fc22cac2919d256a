//! The model's message: text, reasoning and tool calls, in the order in which they came.

use std::borrow::Cow;

use super::attributes::Attributes;
use super::content::{Part, TextPart, changed, join, tight};
use super::details::{Details, detailed};
use super::names::agree;
use super::tool::ToolMessage;

/// An answer of the model.
///
/// Providers that sign their reasoning refuse a request in which its place has changed, so the
/// parts of an answer keep their order. [`text`](Self::text), [`reasoning`](Self::reasoning) and
/// [`tool_calls`](Self::tool_calls) are views of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[doc(alias = "AssistantMessage")]
pub struct AiMessage {
    pub(crate) body: Body,
    pub(crate) details: Details,
}

/// The content of an answer. Plain text is by far the most common and needs no list.
///
/// Kept normal, so that equal answers are equal: a list is never empty, never one bare text, and
/// holds no bare text that is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) enum Body {
    Text(String),
    Parts(Box<[AiPart]>),
}

/// One part of an answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AiPart {
    /// Text or media.
    Content(Part),
    /// A thought of the model before it continued.
    Reasoning(Reasoning),
    /// A call that the model makes.
    ToolCall(ToolCall),
}

/// The thoughts of a model, as far as its provider shows them.
///
/// The signature is the provider's proof that it was not changed. Reasoning is never edited: it is
/// sent back byte for byte, or left out with the message that holds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reasoning {
    /// The text; empty if the provider shows none.
    pub text: String,
    /// The provider's opaque signature or encrypted content.
    pub signature: Option<String>,
    /// The other fields that the provider sent with it, kept and written again.
    pub extra: Attributes,
}

/// A call that the model makes.
///
/// It is answered by a message with its id and its tool's name:
///
/// ```
/// use memory_prompt::{Message, ToolCall};
///
/// let call = ToolCall::new("call_1", "weather", r#"{"city":"Oslo"}"#);
/// assert_eq!(call.result("sunny, 21 °C"), Message::tool("call_1", "weather", "sunny, 21 °C"));
/// assert!(call.error("no such city").as_tool().unwrap().is_error());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ToolCall {
    /// The id by which a [`ToolMessage`] answers it.
    pub id: String,
    /// The tool's name.
    pub name: String,
    /// The arguments: JSON as the model wrote it, kept byte for byte, valid or not.
    pub arguments: String,
    /// The provider's opaque signature of the thought behind this call.
    pub signature: Option<String>,
    /// The other fields that the provider sent with it, kept and written again.
    pub extra: Attributes,
}

impl AiMessage {
    /// Returns an answer in plain text.
    pub fn new(text: impl Into<String>) -> Self {
        Self { body: Body::Text(tight(text.into())), details: None }
    }

    /// Returns an answer of these parts, in this order.
    ///
    /// Bare empty texts are left out: no provider sends them and some refuse them.
    pub fn from_parts(parts: impl IntoIterator<Item = impl Into<AiPart>>) -> Self {
        let parts = parts.into_iter().map(Into::into).collect();
        Self { body: Body::normal(parts), details: None }
    }

    /// Returns the same answer with one more part at its end.
    #[must_use]
    pub fn with_part(self, part: impl Into<AiPart>) -> Self {
        let mut parts = self.body.into_parts();
        parts.push(part.into());
        Self { body: Body::normal(parts), ..self }
    }

    /// Returns the same answer with one more tool call.
    #[must_use]
    pub fn with_tool_call(self, call: ToolCall) -> Self {
        self.with_part(call)
    }

    /// Returns the same answer with reasoning before everything else.
    #[must_use]
    pub fn with_reasoning(self, reasoning: Reasoning) -> Self {
        let mut parts = self.body.into_parts();
        parts.insert(0, AiPart::Reasoning(reasoning));
        Self { body: Body::normal(parts), ..self }
    }

    /// Returns the answer with its model's continuation.
    pub(crate) fn followed_by(self, more: Self) -> Self {
        let mut parts = self.body.into_parts();
        parts.extend(more.body.into_parts());
        let mut details = self.details.map_or_else(Default::default, |it| *it);
        if let Some(more) = more.details {
            details.name = more.name.or(details.name);
            details.attributes.extend(more.attributes);
            details.unknown.extend(more.unknown);
        }
        Self { body: Body::normal(parts), details: details.boxed() }
    }

    /// Returns an answer of other parts that keeps everything else of this one.
    pub(crate) fn with_other_parts(&self, parts: Vec<AiPart>) -> Self {
        Self { body: Body::normal(parts), details: self.details.clone() }
    }

    /// Returns the answer without the parts for which this is true; `None` if there are none.
    pub(crate) fn without(&self, is_left_out: impl Fn(&AiPart) -> bool) -> Option<Self> {
        if !self.parts().iter().any(&is_left_out) {
            return None;
        }
        let left = self.parts().iter().filter(|part| !is_left_out(part)).cloned();
        Some(self.with_other_parts(left.collect()))
    }

    /// Returns the answer with the calls that this function changes; `None` if it changes none.
    pub(crate) fn with_calls(
        &self,
        mut change: impl FnMut(&ToolCall) -> Option<ToolCall>,
    ) -> Option<Self> {
        let parts = changed(self.parts(), |part| match part {
            AiPart::ToolCall(call) => change(call).map(AiPart::ToolCall),
            _ => None,
        })?;
        Some(self.with_other_parts(parts))
    }

    /// Returns each text, in order; reasoning is not text.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.as_text().into_iter().chain(self.parts().iter().filter_map(AiPart::as_text))
    }

    /// Returns all text in one piece: borrowed if there is only one, else joined without a
    /// separator.
    #[inline]
    pub fn text(&self) -> Cow<'_, str> {
        self.as_text().map_or_else(|| join(self.texts()), Cow::Borrowed)
    }

    /// Returns the bytes of all text.
    pub(crate) fn bytes(&self) -> usize {
        self.as_text().map_or_else(|| self.texts().map(str::len).sum(), str::len)
    }

    /// Returns the text of an answer that has nothing else.
    #[inline]
    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Body::Text(text) = &self.body { Some(text) } else { None }
    }

    /// Returns the parts in order; none if the answer is plain text.
    pub fn parts(&self) -> &[AiPart] {
        match &self.body {
            Body::Text(_) => &[],
            Body::Parts(parts) => parts,
        }
    }

    /// Marks it as broken: it broke off, or was not continued.
    pub(crate) fn broken(self) -> Self {
        self.with_attribute(BROKEN, true)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.attributes().get(BROKEN).is_some()
    }

    /// Returns the parts in order; one text if the answer is plain text.
    pub(crate) fn into_parts(self) -> Vec<AiPart> {
        self.body.into_parts()
    }

    /// Returns the tool calls, in order.
    pub fn tool_calls(&self) -> impl Iterator<Item = &ToolCall> + Clone {
        self.parts().iter().filter_map(AiPart::as_call)
    }

    /// Returns whether the model calls a tool.
    pub fn has_tool_calls(&self) -> bool {
        // Each build asks this of each answer, so plain text is one comparison.
        match &self.body {
            Body::Text(_) => false,
            Body::Parts(parts) => parts.iter().any(|part| matches!(part, AiPart::ToolCall(_))),
        }
    }

    /// Returns the reasoning, in order.
    pub fn reasoning(&self) -> impl Iterator<Item = &Reasoning> {
        self.parts().iter().filter_map(|part| match part {
            AiPart::Reasoning(reasoning) => Some(reasoning),
            _ => None,
        })
    }
}

detailed!(named AiMessage, details);

impl Body {
    /// Brings parts into the normal form that [`Body`] promises.
    pub(crate) fn normal(mut parts: Vec<AiPart>) -> Self {
        parts.retain(|part| part.as_bare_text().is_none_or(|text| !text.is_empty()));
        match parts.as_mut_slice() {
            [] => Self::Text(String::new()),
            [AiPart::Content(Part::Text(TextPart { text, extra }))] if extra.is_empty() => {
                Self::Text(std::mem::take(text))
            }
            _ => Self::Parts(parts.into_boxed_slice()),
        }
    }

    fn into_parts(self) -> Vec<AiPart> {
        match self {
            Self::Text(text) => vec![AiPart::Content(Part::text(text))],
            Self::Parts(parts) => parts.into_vec(),
        }
    }
}

impl AiPart {
    /// Returns the part, if it is neither reasoning nor a call.
    pub(crate) fn as_content(&self) -> Option<&Part> {
        if let Self::Content(part) = self { Some(part) } else { None }
    }

    /// Returns the call, if this part is one.
    pub(crate) fn as_call(&self) -> Option<&ToolCall> {
        if let Self::ToolCall(call) = self { Some(call) } else { None }
    }

    /// Returns the text, if this part is one.
    pub fn as_text(&self) -> Option<&str> {
        self.as_content().and_then(Part::as_text)
    }

    pub(crate) fn as_bare_text(&self) -> Option<&str> {
        match self {
            Self::Content(Part::Text(TextPart { text, extra })) if extra.is_empty() => Some(text),
            _ => None,
        }
    }
}

impl Reasoning {
    /// Returns reasoning without a signature.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), signature: None, extra: Attributes::new() }
    }

    /// Returns the same reasoning with the provider's signature.
    #[must_use]
    pub fn with_signature(mut self, signature: impl Into<String>) -> Self {
        self.signature = Some(signature.into());
        self
    }
}

impl ToolCall {
    /// Returns whether a result is meant for this call: its id is the same, and so is the tool, if
    /// both name one. A tool may also be named as it was sent to a provider.
    pub(crate) fn is_answered_by(&self, result: &ToolMessage) -> bool {
        self.id == result.call_id() && agree(&self.name, result.tool_name())
    }

    /// Returns a call of the tool `name`. `arguments` is JSON text, kept as it is.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            arguments: arguments.into(),
            signature: None,
            extra: Attributes::new(),
        }
    }

    /// Returns the id, as the [`Call`](crate::turn::Call) of a turn does.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the tool's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the arguments, as the model wrote them.
    pub fn arguments(&self) -> &str {
        &self.arguments
    }

    /// Returns the same call with the provider's signature.
    #[must_use]
    pub fn with_signature(mut self, signature: impl Into<String>) -> Self {
        self.signature = Some(signature.into());
        self
    }
}

impl From<&str> for AiPart {
    fn from(text: &str) -> Self {
        Self::Content(Part::text(text))
    }
}

const BROKEN: &str = "turn:broken";
