//! The text that replaces what is cleared. It depends only on the message and its position.

use crate::compose::form::ClearedPart;
use crate::message::{Content, Message, Part, in_words};

/// Returns a copy of a message with its result, or its media, cleared.
pub(super) fn copy(
    message: &Message,
    position: u64,
    what: ClearedPart,
    template: Option<&str>,
) -> Message {
    let Some(content) = message.content() else { return message.clone() };
    message.with_content(match what {
        ClearedPart::Result => {
            let characters = content.texts().map(|text| text.chars().count()).sum();
            Content::Text(text(characters, content.parts(), position, template))
        }
        ClearedPart::Media => {
            without_parts(content, |_, part| part.as_media().is_some(), position, template)
        }
    })
}

/// Returns the content with one placeholder instead of all parts that satisfy the predicate.
pub(in crate::compose) fn without_parts(
    content: &Content,
    is_gone: impl Fn(usize, &Part) -> bool,
    position: u64,
    template: Option<&str>,
) -> Content {
    let parts = || content.parts().iter().enumerate();
    let gone = parts().filter(|(i, part)| is_gone(*i, part)).map(|(_, part)| part);
    let mut placeholder = Some(Part::text(text(0, gone, position, template)));
    let kept = |i, part: &Part| (!is_gone(i, part)).then(|| part.clone());
    let left = parts().filter_map(|(i, part)| kept(i, part).or_else(|| placeholder.take()));
    Content::from(left.collect::<Vec<_>>())
}

fn text<'a>(
    characters: usize,
    parts: impl IntoIterator<Item = &'a Part>,
    position: u64,
    template: Option<&str>,
) -> String {
    let length = in_words(characters, parts);
    let template = template.unwrap_or("[Not shown here: {length} in message {position}.]");
    template.replace("{length}", &length).replace("{position}", &position.to_string())
}
