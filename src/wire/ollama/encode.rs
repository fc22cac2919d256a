//! Messages as Ollama writes them.

use super::{ATTRIBUTE, FORMAT, Messages, Options};
use crate::message::{AiMessage, AiPart, Content, Message, Part, ToolCall};
use crate::provider::{Provider, attributes};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{inline, kept, kept_object, placeholder};
use crate::wire::losses::{REASONING, Weight};
use crate::wire::terms::{Sent, says_something};
use crate::wire::view::{ForProvider, MessageFormat};

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::Ollama;
    const OPERATION: &'static str = "write ollama messages";

    fn messages<'s>(_: &Messages<'_>, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>> {
        sent.iter().map(|sent| message(sent).into()).collect()
    }
}

impl ForProvider for Options {}

fn message<'s>(sent: &'s Sent<'_>) -> Object<'s> {
    const OWN: [&str; 7] =
        ["role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"];
    let message = &*sent.message;
    let object = Object::of([("role", message.role().as_str().into())]);
    let object = match message {
        Message::System(m) => object.with("content", m.text()),
        Message::User(m) => with_content(object, m.content(), sent),
        Message::Tool(m) => with_content(object, m.content(), sent)
            .with("tool_name", BorrowedValue::unless_empty(m.tool_name()))
            .with("tool_call_id", BorrowedValue::unless_empty(m.call_id())),
        Message::Ai(m) => with_answer(object, m, sent),
        // Custom messages are not sent.
        Message::Custom(_) => object,
    };
    object.kept(kept(ATTRIBUTE, attributes(message)), &OWN)
}

/// The base64 of an image, without a prefix.
fn image(part: &Part) -> Option<&str> {
    if let Part::Image(media) = part { inline(media).map(|url| url.data) } else { None }
}

fn with_content<'s>(object: Object<'s>, content: &'s Content, sent: &Sent<'_>) -> Object<'s> {
    if let Content::Text(text) = content {
        return object.with("content", text);
    }
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    for (i, part) in content.parts().iter().enumerate() {
        match (part.as_text(), image(part)) {
            (Some(text), _) => texts.push(text),
            (None, Some(data)) => images.push(data),
            (None, None) => {
                sent.refuse(i, part);
                texts.push(placeholder(part));
            }
        }
    }
    with_images(object, texts, images)
}

fn with_images<'s>(object: Object<'s>, texts: Vec<&'s str>, images: Vec<&'s str>) -> Object<'s> {
    let images = (!images.is_empty()).then_some(images);
    object.with("content", BorrowedValue::joined(texts)).with("images", images)
}

fn with_answer<'s>(object: Object<'s>, m: &'s AiMessage, sent: &Sent<'_>) -> Object<'s> {
    if let Some(text) = m.as_text() {
        return object.with("content", text);
    }
    let (mut texts, mut images) = (Vec::new(), Vec::new());
    let (mut thoughts, mut calls) = (Vec::new(), Vec::new());
    for (i, part) in m.parts().iter().enumerate() {
        match part {
            AiPart::Content(part) => match (part.as_text(), image(part)) {
                (Some(text), _) => texts.push(text),
                (None, Some(data)) => images.push(data),
                // A placeholder would look like the model's own words.
                (None, None) => sent.refuse(i, part),
            },
            AiPart::Reasoning(thought) if !thought.text.is_empty() => {
                thoughts.push(thought.text.as_str());
            }
            AiPart::Reasoning(thought) => {
                if says_something(thought) {
                    sent.lose(i, REASONING, Weight::Noted);
                }
            }
            AiPart::ToolCall(call) => {
                let arguments = sent.arguments(i, call);
                calls.push(self::call(call, calls.len() as u64, arguments));
            }
        }
    }
    let thoughts = (!thoughts.is_empty()).then(|| BorrowedValue::joined(thoughts));
    let calls = (!calls.is_empty()).then_some(calls);
    with_images(object, texts, images).with("thinking", thoughts).with("tool_calls", calls)
}

fn call<'s>(call: &'s ToolCall, index: u64, arguments: BorrowedValue<'s>) -> Object<'s> {
    let kept = kept(FORMAT, &call.extra);
    let function = Object::of([
        ("index", BorrowedValue::Number(index)),
        ("name", (&call.name).into()),
        ("arguments", arguments),
    ]);
    Object::of([("id", BorrowedValue::unless_empty(&call.id))])
        .with("function", function.kept(kept_object(kept, "function"), &[]))
        .kept(kept, &[])
}
