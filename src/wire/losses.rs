//! [`Loss`]: what a format has no place for.

use std::fmt;

use serde::Serialize;

use super::common::{Arguments, Sequence, as_content, kind};
use super::media::{is_refused, loses_detail};
use super::terms::Terms;
use super::view::{MessageFormat, Speaker, View};
use crate::message::{AiPart, Message, Part, Reasoning};
use crate::provider::Format;

/// Something of a message that is left out, or that a placeholder stands for, because the format
/// has no place for it.
///
/// The [report](crate::Report) tells of composing, and this of writing: see
/// [`Request::losses`](super::Request::losses).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Loss {
    /// The place of the message in the prompt: a system message that is written elsewhere, or a
    /// custom one that is not written, counts.
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

/// Tells what of a message would be left out or replaced, and where, that is no private matter of
/// another provider's.
pub(super) fn refused<F: MessageFormat>(
    options: &F,
    message: &Message,
    calls: &[&str],
    terms: &Terms,
    mut tell: impl FnMut(Option<usize>, &'static str),
) {
    if let Some(what) = options.refuses(message, calls) {
        tell(None, what);
    }
    let takes = |part: &Part, by| {
        let is_placed = part.as_text().is_some() || options.takes(part, by, &terms.row);
        let any = F::STORED || terms.verbatim || by == Speaker::Ai;
        is_placed && (any || !is_refused(part, message, &terms.row))
    };
    let (content, by) = match message {
        Message::System(_) | Message::Custom(_) => return,
        Message::User(user) => (user.content().parts(), Speaker::User),
        Message::Tool(tool) => (tool.content().parts(), Speaker::Tool),
        Message::Ai(_) => (&[] as &[Part], Speaker::Ai),
    };
    for (i, part) in content.iter().enumerate().filter(|(_, part)| !takes(part, by)) {
        tell(Some(i), kind(part));
    }
    let Some(ai) = message.as_ai() else { return };
    for (i, part) in ai.parts().iter().enumerate() {
        let what = match part {
            AiPart::Content(content) => {
                let is_taken = content.as_text().is_some()
                    || terms.sent_part(ai, part).is_some_and(|sent| match sent {
                        AiPart::Content(sent) => takes(&sent, by),
                        _ => true,
                    });
                (!is_taken).then(|| kind(content))
            }
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

/// Tells what of a message is lost without an error of a strict view: the name of the user, the
/// detail of a picture, text beside calls, and reasoning. Whether that is written is asked of the
/// encoder itself.
pub(super) fn silent<F: MessageFormat>(
    view: &View<'_, F>,
    message: &Message,
    mut tell: impl FnMut(Option<usize>, &'static str),
) where
    for<'v> View<'v, F>: Serialize,
{
    let Terms { row, names_in_text, .. } = &view.terms;
    if let Message::User(user) = message
        && user.name().is_some_and(|name| !name.is_empty())
        && !(view.options.names(row) || *names_in_text)
    {
        tell(None, "the name of the user");
    }
    let content: &[Part] = match message {
        Message::User(user) if !F::STORED => user.content().parts(),
        Message::Tool(tool) if !F::STORED => tool.content().parts(),
        _ => &[],
    };
    let lost = content.iter().enumerate();
    let lost = lost.filter(|(_, part)| loses_detail(part, message.is_tool(), row));
    lost.for_each(|(i, _)| tell(Some(i), "the detail of an image"));
    let Some(ai) = message.as_ai() else { return };
    if row.calls_alone && row.format == Format::OpenAi && ai.has_tool_calls() {
        let said = |part: &AiPart| {
            as_content(part).and_then(Part::as_text).is_some_and(|it| !it.is_empty())
        };
        let said = ai.parts().iter().enumerate().filter(|(_, part)| said(part));
        said.for_each(|(i, _)| tell(Some(i), "text beside calls"));
    }
    if ai.reasoning().next().is_none() {
        return;
    }
    // Beside a text, for an answer of which nothing is left is not sent.
    let written = |part: Option<&AiPart>| {
        let parts = part.cloned().into_iter().chain([Part::text("a").into()]);
        let messages = [ai.with_other_parts(parts.collect()).into()];
        let messages = Sequence::of(&messages);
        let view = View { messages, terms: view.terms, cache: None, options: view.options };
        // A view is always written.
        serde_json::to_vec(&view).unwrap_or_default()
    };
    let nothing = written(None);
    for (i, part) in ai.parts().iter().enumerate() {
        if says_reasoning(part) && written(Some(part)) == nothing {
            tell(Some(i), "reasoning");
        }
    }
}

fn says_reasoning(part: &AiPart) -> bool {
    let AiPart::Reasoning(Reasoning { text, signature, extra }) = part else { return false };
    !text.is_empty() || signature.is_some() || !extra.is_empty()
}
