//! The text that stands for what is cleared. It depends on the message and its position alone.

use super::ClearedPart;
use crate::message::{Content, Message, Part, in_words};

/// Returns a copy of a message in which a result, or its media, are cleared.
pub(super) fn copy(
    message: &Message,
    seq: u64,
    what: ClearedPart,
    template: Option<&str>,
) -> Message {
    let Some(content) = message.content() else { return message.clone() };
    message.with_content(match what {
        ClearedPart::Result => Content::Text(text(content.texts(), content.parts(), seq, template)),
        ClearedPart::Media => without_media(content, seq, template),
    })
}

/// Returns the content with one placeholder in the place of its first media, and none of the
/// others.
fn without_media(content: &Content, seq: u64, template: Option<&str>) -> Content {
    let is_media = |part: &&Part| part.as_media().is_some();
    let media: Vec<Part> = content.parts().iter().filter(is_media).cloned().collect();
    let mut placeholder = Some(Part::text(text([].into_iter(), &media, seq, template)));
    let parts = content.parts().iter().filter_map(|part| match part.as_media() {
        Some(_) => placeholder.take(),
        None => Some(part.clone()),
    });
    Content::from(parts.collect::<Vec<_>>())
}

fn text<'a>(
    texts: impl Iterator<Item = &'a str>,
    parts: &[Part],
    seq: u64,
    template: Option<&str>,
) -> String {
    let characters = texts.map(|text| text.chars().count()).sum();
    let length = in_words(characters, parts);
    match template {
        None => format!("[Not shown here: {length} in message {seq}.]"),
        Some(text) => text.replace("{length}", &length).replace("{position}", &seq.to_string()),
    }
}
