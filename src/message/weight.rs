//! The heap that a message takes, estimated.

use serde_json::Value;

use super::ai::Body;
use super::attributes::Attributes;
use super::details::DetailFields;
use super::{AiPart, Content, Detail, Media, Message, Part, Source};

impl Message {
    /// Returns the approximate number of bytes that this message takes on the heap: O(1) for plain
    /// text, else O(number of its elements). The allocator's overhead is not counted.
    pub(crate) fn heap_bytes(&self) -> usize {
        let said = match self {
            Self::System(m) => m.text.capacity(),
            Self::User(m) => content(&m.content),
            Self::Ai(m) => match &m.body {
                Body::Text(text) => text.capacity(),
                Body::Parts(parts) => sum(parts, ai_part),
            },
            Self::Tool(m) => {
                let answer = &*m.answer;
                let names = answer.call_id.capacity() + answer.tool_name.capacity();
                content(&m.content) + names + size_of_val(answer)
            }
            Self::Custom(m) => {
                let body = &*m.body;
                let fields = attributes(&body.attributes) + attributes(&body.unknown);
                size_of_val(body) + body.role.capacity() + fields
            }
        };
        said + self.details().map_or(0, details)
    }
}

/// Returns the bytes of a list and of what its elements hold.
fn sum<T>(list: &[T], besides: impl Fn(&T) -> usize) -> usize {
    size_of_val(list) + list.iter().map(besides).sum::<usize>()
}

fn text(text: Option<&String>) -> usize {
    text.map_or(0, String::capacity)
}

fn details(it: &DetailFields) -> usize {
    size_of_val(it) + text(it.name.as_ref()) + attributes(&it.attributes) + attributes(&it.unknown)
}

fn content(content: &Content) -> usize {
    match content {
        Content::Text(text) => text.capacity(),
        Content::Parts(parts) => sum(parts, part),
    }
}

fn part(part: &Part) -> usize {
    match part {
        Part::Text(it) => it.text.capacity() + attributes(&it.extra),
        Part::Image(it) | Part::Audio(it) | Part::Video(it) | Part::File(it) => media(it),
        Part::Other(part) => attributes(part.fields()),
    }
}

fn media(media: &Media) -> usize {
    let source = match &media.source {
        Source::Url(it) | Source::Base64(it) | Source::FileId(it) => it.capacity(),
        Source::Reference(_) => 0,
    };
    let detail = if let Some(Detail::Other(level)) = &media.detail { level.capacity() } else { 0 };
    let names = text(media.media_type.as_ref()) + text(media.name.as_ref());
    source + names + detail + attributes(&media.extra)
}

fn ai_part(it: &AiPart) -> usize {
    match it {
        AiPart::Content(it) => part(it),
        AiPart::Reasoning(it) => {
            it.text.capacity() + text(it.signature.as_ref()) + attributes(&it.extra)
        }
        AiPart::ToolCall(it) => {
            let texts = it.id.capacity() + it.name.capacity() + it.arguments.capacity();
            texts + text(it.signature.as_ref()) + attributes(&it.extra)
        }
    }
}

/// Returns the bytes of a map; one without fields takes nothing.
fn attributes(fields: &Attributes) -> usize {
    if fields.is_empty() {
        return 0;
    }
    // A list of what is still to be weighed, since the nesting of the values is not limited.
    let mut bytes = nodes(fields);
    let mut rest: Vec<&Value> = fields.values().collect();
    while let Some(value) = rest.pop() {
        match value {
            Value::String(text) => bytes += text.capacity(),
            Value::Array(list) => {
                bytes += list.capacity() * size_of::<Value>();
                rest.extend(list);
            }
            Value::Object(map) => {
                bytes += nodes(map);
                rest.extend(map.values());
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    bytes
}

/// Returns the bytes of a map's keys and nodes: each node has room for eleven fields, and all but
/// the first hold at least six.
fn nodes(map: &Attributes) -> usize {
    let node = 11 * size_of::<(String, Value)>();
    map.len().div_ceil(6) * node + map.keys().map(String::capacity).sum::<usize>()
}
