//! Messages as Ollama writes them.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{ATTRIBUTE, FORMAT, Messages, Options};
use crate::message::{AiMessage, AiPart, Content, Message, Part, ToolCall};
use crate::provider::{Provider, Row, attributes};
use crate::wire::common::{as_content, inline, kept, kept_object, placeholder, write_kept};
use crate::wire::shape::{Entry, Joined, Object, Seq, write};
use crate::wire::terms::Terms;
use crate::wire::view::{ForProvider, MessageFormat, Speaker};

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut seq = serializer.serialize_seq(None)?;
        for message in self.messages.iter() {
            let copy = self.terms.copy(message);
            let is_emptied = copy.as_ref().is_some_and(|copy| Terms::is_emptied(message, copy));
            if !(is_emptied || matches!(message, Message::Custom(_))) {
                seq.serialize_element(&SentMessage(copy.as_deref().unwrap_or(message)))?;
            }
        }
        seq.end()
    }
}

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::Ollama;
    const OPERATION: &'static str = "write ollama messages";
    const OBJECTS: bool = true;

    fn takes(&self, part: &Part, _: Speaker, _: &Row) -> bool {
        image(part).is_some()
    }
}

impl ForProvider for Options {}

/// The bare base64 of an image.
fn image(part: &Part) -> Option<&str> {
    if let Part::Image(media) = part { inline(media).map(|url| url.data) } else { None }
}

/// What a part adds to the text.
fn text(part: &Part) -> Option<&str> {
    match part.as_text() {
        None if image(part).is_none() => Some(placeholder(part)),
        text => text,
    }
}

/// One message.
struct SentMessage<'a>(&'a Message);

impl Serialize for SentMessage<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const OWN: [&str; 7] =
            ["role", "content", "thinking", "images", "tool_calls", "tool_name", "tool_call_id"];
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", self.0.role().as_str())?;
        match self.0 {
            Message::System(m) => map.serialize_entry("content", m.text())?,
            Message::User(m) => write_content(&mut map, m.content())?,
            Message::Tool(m) => {
                write_content(&mut map, m.content())?;
                let own = [
                    ("tool_name", Entry::unless_empty(m.tool_name())),
                    ("tool_call_id", Entry::unless_empty(m.call_id())),
                ];
                write(&mut map, &own, None)?;
            }
            Message::Ai(m) => write_ai(&mut map, m)?,
            // `Messages` leaves these out.
            Message::Custom(_) => {}
        }
        write_kept(&mut map, kept(ATTRIBUTE, attributes(self.0)), &OWN)?;
        map.end()
    }
}

fn write_content<M: SerializeMap>(map: &mut M, content: &Content) -> Result<(), M::Error> {
    match content {
        Content::Text(text) => map.serialize_entry("content", text),
        Content::Parts(parts) => write_parts(map, parts.iter()),
    }
}

fn write_parts<'a, M: SerializeMap>(
    map: &mut M,
    parts: impl Iterator<Item = &'a Part> + Clone,
) -> Result<(), M::Error> {
    map.serialize_entry("content", &Joined(parts.clone().filter_map(text)))?;
    let images = parts.filter_map(image);
    if images.clone().next().is_some() {
        map.serialize_entry("images", &Seq(images))
    } else {
        Ok(())
    }
}

fn write_ai<M: SerializeMap>(map: &mut M, m: &AiMessage) -> Result<(), M::Error> {
    let parts = m.parts();
    if parts.is_empty() {
        return map.serialize_entry("content", &m.text());
    }
    // A placeholder would be what the model has said.
    let is_said = |part: &&Part| part.as_text().is_some() || image(part).is_some();
    write_parts(map, parts.iter().filter_map(as_content).filter(is_said))?;
    let thoughts = parts.iter().filter_map(|part| match part {
        AiPart::Reasoning(thought) => Some(thought.text.as_str()).filter(|text| !text.is_empty()),
        _ => None,
    });
    if thoughts.clone().next().is_some() {
        map.serialize_entry("thinking", &Joined(thoughts))?;
    }
    if !m.has_tool_calls() {
        return Ok(());
    }
    let calls = m.tool_calls().enumerate().map(|(index, call)| Call { call, index });
    map.serialize_entry("tool_calls", &Seq(calls))
}

struct Call<'a> {
    call: &'a ToolCall,
    index: usize,
}

impl Serialize for Call<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if !self.call.id.is_empty() {
            map.serialize_entry("id", &self.call.id)?;
        }
        let kept = kept(FORMAT, &self.call.extra);
        let function = Object {
            own: [
                ("index", Entry::Index(self.index)),
                ("name", (&self.call.name).into()),
                ("arguments", Entry::Arguments(&self.call.arguments)),
            ],
            kept: kept_object(kept, "function"),
        };
        map.serialize_entry("function", &function)?;
        write_kept(&mut map, kept, &["id", "function"])?;
        map.end()
    }
}
