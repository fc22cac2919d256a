//! Messages as the items of Responses.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, Input, Options, kinds};
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Detail, Media, Message, Part, Reasoning, TextPart,
    ToolCall, ToolMessage,
};
use crate::provider::{Provider, Row};
use crate::wire::blocks::{Blocks, ContentBlock, blocks};
use crate::wire::common::{
    as_content, as_other_part, inline, input, kept, kept_type, placeholder, write_kept,
};
use crate::wire::shape::{Entry, Object, Seq, block, write};
use crate::wire::terms::Terms;
use crate::wire::view::{ForProvider, Marks, MessageFormat, Speaker};

impl Serialize for Input<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mark = self.marked(|i, message| match message {
            Message::System(m) => !self.leaves_out(i) && !m.text().is_empty(),
            Message::User(m) => blocks(m.content(), Block::of).any(Block::takes_mark),
            Message::Tool(m) => blocks(m.content(), Block::of).any(Block::takes_mark),
            Message::Ai(_) | Message::Custom(_) => false,
        });
        let sent = self.terms.sent(&self.messages);
        let mut asked: Option<&AiMessage> = None;
        let mut seq = serializer.serialize_seq(None)?;
        for (i, (message, whole)) in sent.iter().zip(self.messages.iter()).enumerate() {
            let mark = mark == Some(i);
            if Terms::is_emptied(whole, message) {
                continue;
            }
            match &**message {
                Message::System(_) if self.leaves_out(i) => {}
                Message::System(m) => {
                    let role = if self.terms.row.developer { "developer" } else { "system" };
                    let of = std::iter::once(Block::Bare(m.text()));
                    let content = Blocks { of, flat: false, mark };
                    seq.serialize_element(&InputMessage { role, content, beside: m.attributes() })?;
                }
                Message::User(m) => {
                    let (content, beside) = (content(m.content(), mark), m.attributes());
                    seq.serialize_element(&InputMessage { role: "user", content, beside })?;
                }
                Message::Tool(m) => {
                    let calls = asked.into_iter().flat_map(AiMessage::tool_calls);
                    let call = calls.into_iter().find(|call| call.id == m.call_id());
                    seq.serialize_element(&ToolOutput { of: m, call, mark })?;
                }
                Message::Ai(m) => {
                    if m.has_tool_calls() {
                        asked = Some(m);
                    }
                    let plain = m.parts().is_empty().then(|| m.texts().next()).flatten();
                    for item in plain
                        .map(Item::Plain)
                        .into_iter()
                        .chain(Items::of(m.parts(), self.options.unstored && !self.terms.verbatim))
                    {
                        seq.serialize_element(&item)?;
                    }
                }
                Message::Custom(_) => {}
            }
        }
        seq.end()
    }
}

impl Input<'_> {
    /// Whether the `i`th message, which is a system message, is left to `instructions`.
    fn leaves_out(&self, i: usize) -> bool {
        i == 0 && !self.terms.row.developer
    }
}

fn is_custom(call: &ToolCall) -> bool {
    kept_type(FORMAT, &call.extra) == Some("custom_tool_call")
}

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::OpenAiResponses;
    const OPERATION: &'static str = "write responses input";
    const OBJECTS: bool = false;

    fn takes(&self, part: &Part, by: Speaker, _: &Row) -> bool {
        match by {
            Speaker::Ai => fields(part).is_some(),
            _ => !matches!(Block::of(part), Block::Placeholder(_)),
        }
    }
}

impl ForProvider for Options {}
impl Marks for Options {}

/// A message that goes in.
struct InputMessage<'a, I> {
    role: &'static str,
    content: Blocks<I>,
    beside: &'a Attributes,
}

impl<'a, I: Iterator<Item = Block<'a>> + Clone> Serialize for InputMessage<'_, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "message")?;
        map.serialize_entry("role", self.role)?;
        map.serialize_entry("content", &self.content)?;
        write_kept(&mut map, kept(ATTRIBUTE, self.beside), &["type", "role", "content"])?;
        map.end()
    }
}

/// A tool's result.
struct ToolOutput<'a> {
    of: &'a ToolMessage,
    /// The call that it answers, where that is known.
    call: Option<&'a ToolCall>,
    mark: bool,
}

impl Serialize for ToolOutput<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if let Some((kind, _)) = self.call.and_then(kinds::of) {
            kinds::write_result(&mut map, kind, self.of)?;
            return map.end();
        }
        let caller = self.call.and_then(|call| kept(FORMAT, &call.extra)?.get("caller"));
        let kept = kept(ATTRIBUTE, self.of.attributes());
        let custom = self.call.is_some_and(is_custom)
            || kept.is_some_and(|kept| kept.contains_key("custom"));
        let kind = if custom { "custom_tool_call_output" } else { "function_call_output" };
        map.serialize_entry("type", kind)?;
        map.serialize_entry("call_id", self.of.call_id())?;
        map.serialize_entry("output", &content(self.of.content(), self.mark))?;
        write_kept(&mut map, kept, &["type", "call_id", "output", "custom"])?;
        if let Some(caller) =
            caller.filter(|_| kept.is_none_or(|kept| !kept.contains_key("caller")))
        {
            map.serialize_entry("caller", caller)?;
        }
        map.end()
    }
}

/// Content that goes in.
fn content(content: &Content, mark: bool) -> Blocks<impl Iterator<Item = Block<'_>> + Clone> {
    Blocks { of: blocks(content, Block::of), flat: false, mark }
}

/// A block that goes in.
#[derive(Clone, Copy)]
enum Block<'a> {
    Bare(&'a str),
    Text(&'a TextPart),
    Image(&'a Media),
    File(&'a Media),
    Other(&'a Attributes),
    Placeholder(&'static str),
}

impl<'a> Block<'a> {
    fn of(part: &'a Part) -> Self {
        match part {
            Part::Text(text) => Self::Text(text),
            Part::Image(media) => Self::Image(media),
            Part::File(media) => Self::File(media),
            Part::Audio(_) | Part::Video(_) | Part::Other(_) => {
                match as_other_part(FORMAT, part).and_then(|fields| object(fields, "block")) {
                    Some(block) => Self::Other(block),
                    None => Self::Placeholder(placeholder(part)),
                }
            }
        }
    }
}

impl<'a> ContentBlock<'a> for Block<'a> {
    fn bare(text: &'a str) -> Self {
        Self::Bare(text)
    }

    fn as_bare(self) -> Option<&'a str> {
        if let Self::Bare(text) = self { Some(text) } else { None }
    }

    fn as_text(self) -> Option<&'a str> {
        match self {
            Self::Bare(text) | Self::Placeholder(text) => Some(text),
            Self::Text(part) => Some(&part.text),
            Self::Image(_) | Self::File(_) | Self::Other(_) => None,
        }
    }

    fn is_media(self) -> bool {
        matches!(self, Self::Image(_) | Self::File(_))
    }

    fn kept(self) -> Option<&'a Attributes> {
        match self {
            Self::Text(part) => kept(FORMAT, &part.extra),
            Self::Image(media) | Self::File(media) => kept(FORMAT, &media.extra),
            Self::Bare(_) | Self::Other(_) | Self::Placeholder(_) => None,
        }
    }

    fn write<M: SerializeMap>(self, map: &mut M) -> Result<(), M::Error> {
        const OWN: [&str; 9] = [
            "type",
            "text",
            "image_url",
            "file_id",
            "detail",
            "filename",
            "file_data",
            "file_url",
            "message",
        ];
        match self {
            Self::Bare(text) | Self::Placeholder(text) => {
                write(map, &block("input_text", "text", text), None)?;
            }
            Self::Text(part) => write(map, &block("input_text", "text", &part.text), None)?,
            Self::Image(media) => write_image(map, media)?,
            Self::File(media) => write_file(map, media)?,
            Self::Other(fields) => write_kept(map, Some(fields), &[])?,
        }
        write_kept(map, self.kept(), &OWN)
    }
}

/// An object that was kept under this key, unless it is empty: an empty object is never sent.
fn object<'a>(kept: &'a Attributes, key: &str) -> Option<&'a Attributes> {
    kept.get(key)?.as_object().filter(|object| !object.is_empty())
}

fn write_image<M: SerializeMap>(map: &mut M, media: &Media) -> Result<(), M::Error> {
    // The reference requires it.
    let detail = media.detail.as_ref().map_or("auto", |detail| detail.as_str());
    let own = [
        ("type", "input_image".into()),
        ("image_url", Entry::address(media)),
        ("file_id", Entry::file_id(media)),
        ("detail", detail.into()),
    ];
    write(map, &own, None)
}

fn write_file<M: SerializeMap>(map: &mut M, media: &Media) -> Result<(), M::Error> {
    let data = inline(media);
    // Data without a name is refused.
    let stand_in = data.map(|url| match url.media_type {
        "application/pdf" => "file.pdf",
        _ => "file",
    });
    let detail = media.detail.as_ref().and_then(|detail| match detail {
        Detail::Auto | Detail::Low | Detail::High => Some(detail.as_str()),
        // The other levels are for images.
        _ => None,
    });
    let url = if data.is_some() { Entry::Nothing } else { Entry::address(media) };
    let own = [
        ("type", "input_file".into()),
        ("file_data", data.map_or(Entry::Nothing, Entry::Url)),
        ("file_id", Entry::file_id(media)),
        ("file_url", url),
        ("filename", media.name.as_deref().or(stand_in).into()),
        ("detail", detail.into()),
    ];
    write(map, &own, None)
}

/// An item that the model produced.
enum Item<'a> {
    /// A text that did not come from this format.
    Plain(&'a str),
    /// A message as it came: its texts and what stood beside them.
    Message(&'a [AiPart], Id),
    Reasoning(&'a Reasoning, &'a Attributes),
    Call(&'a ToolCall, Id),
    Other(&'a Attributes),
}

/// The fate of an item's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Id {
    Sent,
    /// "Item .. was provided without its required 'reasoning' item": without an id nobody looks for
    /// that.
    LeftOut,
}

/// The items in the parts of an answer.
struct Items<'a> {
    parts: &'a [AiPart],
    /// True where the provider keeps nothing: it finds no reasoning by its id.
    unstored: bool,
    /// The fate of the ids behind the newest reasoning.
    id: Id,
}

impl<'a> Items<'a> {
    fn of(parts: &'a [AiPart], unstored: bool) -> Self {
        Self { parts, unstored, id: Id::Sent }
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            let (part, rest) = self.parts.split_first()?;
            let parts = std::mem::replace(&mut self.parts, rest);
            match part {
                AiPart::ToolCall(call) => return Some(Item::Call(call, self.id)),
                AiPart::Reasoning(reasoning) => {
                    // "Items are not persisted when `store` is set to false."
                    if self.unstored && reasoning.signature.as_deref().is_none_or(str::is_empty) {
                        self.id = Id::LeftOut;
                        continue;
                    }
                    self.id = Id::Sent;
                    // Without its id it would be refused.
                    if let Some(kept) = kept(FORMAT, &reasoning.extra)
                        && kept.get("id").is_some_and(Value::is_string)
                    {
                        return Some(Item::Reasoning(reasoning, kept));
                    }
                }
                AiPart::Content(part) => {
                    let Some(fields) = fields(part) else {
                        match part {
                            Part::Text(text) => return Some(Item::Plain(&text.text)),
                            // A placeholder would be what the model has said.
                            _ => continue,
                        }
                    };
                    if let Some(item) = object(fields, "item") {
                        return Some(Item::Other(item));
                    }
                    let more = rest.iter().take_while(|part| continues(part)).count();
                    self.parts = &rest[more..];
                    return Some(Item::Message(&parts[..=more], self.id));
                }
            }
        }
    }
}

/// What was kept of a part that came from this format.
fn fields(part: &Part) -> Option<&Attributes> {
    match part {
        Part::Text(text) => kept(FORMAT, &text.extra),
        _ => as_other_part(FORMAT, part)
            .filter(|fields| object(fields, "item").or_else(|| object(fields, "block")).is_some()),
    }
}

/// Whether a part belongs to the same message as the one before it.
fn continues(part: &AiPart) -> bool {
    let AiPart::Content(part) = part else { return false };
    fields(part).is_some_and(|kept| !kept.contains_key("message") && !kept.contains_key("item"))
}

impl Serialize for Item<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Plain(text) => {
                let own = [
                    ("type", "message".into()),
                    ("role", "assistant".into()),
                    ("content", (*text).into()),
                ];
                write(&mut map, &own, None)?;
            }
            Self::Message(parts, id) => {
                map.serialize_entry("type", "message")?;
                map.serialize_entry("role", "assistant")?;
                let first = parts.first().and_then(as_content).and_then(fields);
                let beside = first.and_then(|kept| object(kept, "message"));
                let named =
                    *id == Id::Sent && beside.is_some_and(|beside| beside.contains_key("id"));
                match parts {
                    // The reference has lists only for messages with an id.
                    [part] if !named && is_bare(part) => {
                        map.serialize_entry("content", part.as_text().unwrap_or_default())?;
                    }
                    parts => {
                        let blocks = parts.iter().filter_map(as_content).map(AnswerBlock);
                        map.serialize_entry("content", &Seq(blocks))?;
                    }
                }
                // A message without an id is one that goes in, which has no status.
                let own: &[&str] = match id {
                    Id::Sent => &["type", "role", "content"],
                    Id::LeftOut => &["type", "role", "content", "id", "status"],
                };
                write_kept(&mut map, beside, own)?;
            }
            Self::Reasoning(reasoning, kept) => write_reasoning(&mut map, reasoning, kept)?,
            Self::Call(call, id) => write_call(&mut map, call, *id)?,
            Self::Other(fields) => write_kept(&mut map, Some(fields), &[])?,
        }
        map.end()
    }
}

/// Whether a text that this format wrote has nothing beside it.
fn is_bare(part: &AiPart) -> bool {
    let Some(Part::Text(text)) = as_content(part) else { return false };
    kept(FORMAT, &text.extra).is_none_or(|kept| kept.keys().all(|key| key == "message"))
}

fn write_reasoning<M: SerializeMap>(
    map: &mut M,
    reasoning: &Reasoning,
    kept: &Attributes,
) -> Result<(), M::Error> {
    map.serialize_entry("type", "reasoning")?;
    if !kept.contains_key("summary") {
        let text = Some(&reasoning.text).filter(|text| !text.is_empty());
        let own = text.map(|text| block("summary_text", "text", text));
        let summary = own.map(|own| Object { own, kept: None });
        map.serialize_entry("summary", &summary.as_slice())?;
    }
    if let Some(signature) = &reasoning.signature {
        map.serialize_entry("encrypted_content", signature)?;
    }
    write_kept(map, Some(kept), &["type", "encrypted_content"])
}

fn write_call<M: SerializeMap>(map: &mut M, call: &ToolCall, id: Id) -> Result<(), M::Error> {
    if let Some((kind, item)) = kinds::of(call) {
        return kinds::write_call(map, kind, item, &call.id);
    }
    let custom = is_custom(call);
    let (kind, key) =
        if custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
    let own = [
        ("type", kind.into()),
        ("call_id", (&call.id).into()),
        ("name", (&call.name).into()),
        (key, input(call, custom).into()),
    ];
    let kept = kept(FORMAT, &call.extra);
    match id {
        Id::Sent => write(map, &own, kept),
        Id::LeftOut => {
            let [a, b, c, d] = own;
            write(map, &[a, b, c, d, ("id", Entry::Nothing)], kept)
        }
    }
}

/// A block of a message that the model produced.
struct AnswerBlock<'a>(&'a Part);

impl Serialize for AnswerBlock<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let kept = fields(self.0);
        match (self.0, kept) {
            (Part::Text(part), Some(kept)) => {
                let refusal = kept_type(FORMAT, &part.extra) == Some("refusal");
                let (kind, key) =
                    if refusal { ("refusal", "refusal") } else { ("output_text", "text") };
                map.serialize_entry("type", kind)?;
                map.serialize_entry(key, &part.text)?;
                if !refusal && !kept.contains_key("annotations") {
                    // The reference requires it.
                    map.serialize_entry("annotations", &[(); 0])?;
                }
                write_kept(&mut map, Some(kept), &["type", key, "message"])?;
            }
            (_, kept) => {
                write_kept(&mut map, kept.and_then(|kept| object(kept, "block")), &[])?;
            }
        }
        map.end()
    }
}
