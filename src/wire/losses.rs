//! [`Loss`]: what a format has no place for.

use std::fmt;

use super::common::{Arguments, kind};
use super::terms::Terms;
use super::view::{Shape, Speaker};
use crate::message::{AiMessage, AiPart, Message, Part};
use crate::provider::Row;

/// Something of a message that is left out, or that a placeholder stands for, because the format
/// has no place for it.
///
/// The [report](crate::Report) tells of composing, and this of writing: see
/// [`Request::losses`](super::Request::losses).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Loss {
    /// The place of the message among those that are written.
    pub message: usize,
    /// The place of the part in it; `None` where it is something of the message as a whole.
    pub part: Option<usize>,
    /// The name of what is lost, as in an error: `video`, `reasoning`, `the name of the user`.
    pub what: &'static str,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message {}", self.message)?;
        if let Some(part) = self.part {
            write!(f, ", part {part}")?;
        }
        write!(f, ": {}", self.what)
    }
}

/// The name of arguments that a format can't hold as the object that they are not.
pub(super) const ARGUMENTS: &str = "arguments that are no JSON object";

const REASONING: &str = "reasoning";

/// Tells what of a message would be left out or replaced, and where.
pub(super) fn refused<F: Shape>(
    options: &F,
    message: &Message,
    calls: &[&str],
    row: &Row,
    mut tell: impl FnMut(Option<usize>, &'static str),
) {
    if let Some(what) = options.refuses(message, calls) {
        tell(None, what);
    }
    let refused = |part: &Part, by| {
        let is_taken = part.as_text().is_some() || options.takes(part, by, row);
        (!is_taken).then(|| kind(part))
    };
    let (content, by) = match message {
        Message::System(_) | Message::Custom(_) => return,
        Message::User(user) => (user.content().parts(), Speaker::User),
        Message::Tool(tool) => (tool.content().parts(), Speaker::Tool),
        Message::Ai(_) => (&[] as &[Part], Speaker::Ai),
    };
    for (i, part) in content.iter().enumerate() {
        if let Some(what) = refused(part, by) {
            tell(Some(i), what);
        }
    }
    for (i, part) in message.as_ai().into_iter().flat_map(AiMessage::parts).enumerate() {
        let what = match part {
            AiPart::Content(content) => refused(content, by),
            AiPart::ToolCall(call) if F::OBJECTS && !Arguments(&call.arguments).is_object() => {
                Some(ARGUMENTS)
            }
            part => options.refuses_part(part),
        };
        if let Some(what) = what {
            tell(Some(i), what);
        }
    }
}

/// Tells what of a message is lost without an error of a strict view: what only another provider
/// understands, reasoning that the provider takes from nobody, and the name of the user.
pub(super) fn silent<F: Shape>(
    options: &F,
    message: &Message,
    terms: &Terms,
    mut tell: impl FnMut(Option<usize>, &'static str),
) {
    if let Message::User(user) = message
        && user.name().is_some_and(|name| !name.is_empty())
        && !(options.names(&terms.row) || terms.names_in_text)
    {
        tell(None, "the name of the user");
    }
    let Some(ai) = message.as_ai() else { return };
    let copy = terms.copy(message);
    let mut left = copy.as_deref().unwrap_or(message).as_ai().map_or(&[][..], AiMessage::parts);
    for (i, part) in ai.parts().iter().enumerate() {
        let is_left = match left.split_first() {
            Some((first, rest)) if is_same(first, part) => {
                left = rest;
                true
            }
            _ => false,
        };
        match part {
            AiPart::Reasoning(thought)
                if !(thought.text.is_empty()
                    || is_left && options.takes_thought(thought, &terms.row)) =>
            {
                tell(Some(i), REASONING);
            }
            AiPart::Content(part @ Part::Other(_)) if !is_left => tell(Some(i), kind(part)),
            _ => {}
        }
    }
}

/// Returns whether a part is what was left of another.
fn is_same(left: &AiPart, part: &AiPart) -> bool {
    match (left, part) {
        (AiPart::Reasoning(a), AiPart::Reasoning(b)) => a.text == b.text,
        (AiPart::ToolCall(a), AiPart::ToolCall(b)) => a.id == b.id,
        (AiPart::Content(a), AiPart::Content(b)) => kind(a) == kind(b),
        _ => false,
    }
}
