//! Messages as the Messages API takes them.

use std::borrow::Cow;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};

use super::{ATTRIBUTE, FORMAT, Messages, Options, REDACTED, System};
use crate::message::{
    AiPart, Attributes, Content, EMPTY_MESSAGE, Media, Message, Part, Reasoning, Source, TextPart,
    ToolCall, ToolMessage,
};
use crate::provider::{Provider, Row};
use crate::wire::base64;
use crate::wire::common::{
    DataUrl, as_other_part, empty_answer, flattened, inline, is_foreign, kept, kept_type,
    placeholder, said,
};
use crate::wire::shape::{Entry, Seq, block, write};
use crate::wire::view::{Cache, ForProvider, Marks, MessageFormat, Speaker};

impl Serialize for System<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let last = self.texts().count().saturating_sub(1);
        if let (0, None, Some(text)) = (last, self.cache, self.texts().next()) {
            return serializer.serialize_str(text);
        }
        serializer.collect_seq(self.texts().enumerate().map(|(i, text)| {
            let cache = self.cache.filter(|_| i == last);
            Marked { block: Block::bare(text), cache }
        }))
    }
}

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let cacheable = if self.cache.is_some() { self.messages.cacheable() } else { 0 };
        let sent = self.terms.sent(&self.messages);
        let mut said = Vec::new();
        let mut is_open = false;
        let mut mark = None;
        for (i, message) in sent.iter().enumerate() {
            // Those that open the list are its `system`.
            is_open |= !message.is_system();
            if !is_said(message, is_open && self.terms.row.late_system) {
                continue;
            }
            if i < cacheable && blocks(message).any(|block| block.is_cacheable()) {
                mark = Some(said.len());
            }
            said.push(&**message);
        }
        let mut list = serializer.serialize_seq(None)?;
        let mut start = 0;
        for messages in said.chunk_by(|a, b| side(a) == side(b)) {
            let mark = mark.and_then(|mark: usize| mark.checked_sub(start));
            list.serialize_element(&Turn { messages, mark: mark.zip(self.cache) })?;
            start += messages.len();
        }
        list.end()
    }
}

/// The role of a message's turn.
fn side(message: &Message) -> &'static str {
    match message {
        Message::Ai(_) => "assistant",
        Message::System(_) => "system",
        _ => "user",
    }
}

/// Whether anything of a message stands among `messages`; of a system message, where it is a late
/// one.
fn is_said(message: &Message, late: bool) -> bool {
    match message {
        Message::System(system) => late && !is_blank(system.text()),
        Message::User(_) | Message::Tool(_) => true,
        Message::Ai(_) => blocks(message).next().is_some(),
        _ => false,
    }
}

/// Neighbours on one side.
struct Turn<'t, 'a> {
    messages: &'t [&'a Message],
    /// Which of them is marked. Beyond the end: none.
    mark: Option<(usize, Cache)>,
}

impl<'a> Turn<'_, 'a> {
    /// The text of a turn that is one plain text.
    fn plain(&self) -> Option<&'a str> {
        let ([message], false) = (self.messages, self.is_marked(0)) else { return None };
        let text = said(message).0?;
        Some(if is_blank(text) { EMPTY_MESSAGE } else { text })
    }

    fn is_marked(&self, i: usize) -> bool {
        self.mark.is_some_and(|(mark, _)| mark == i)
    }
}

impl Serialize for Turn<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("role", self.messages.first().map_or("user", |m| side(m)))?;
        match self.plain() {
            Some(text) => map.serialize_entry("content", text)?,
            None => map.serialize_entry("content", &Blocks(self))?,
        }
        map.end()
    }
}

/// The blocks of a turn, results first.
struct Blocks<'b, 't, 'a>(&'b Turn<'t, 'a>);

impl Serialize for Blocks<'_, '_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        for results in [true, false] {
            for (i, message) in self.0.messages.iter().enumerate() {
                if message.is_tool() != results {
                    continue;
                }
                let cache = self.0.mark.filter(|_| self.0.is_marked(i)).map(|(_, cache)| cache);
                let marked = cache.and_then(|_| {
                    let cacheable = blocks(message).enumerate().filter(|(_, b)| b.is_cacheable());
                    cacheable.map(|(at, _)| at).last()
                });
                for (at, block) in blocks(message).enumerate() {
                    let cache = cache.filter(|_| marked == Some(at));
                    list.serialize_element(&Marked { block, cache })?;
                }
            }
        }
        list.end()
    }
}

/// One block of a turn.
#[derive(Clone, Copy)]
enum Block<'a> {
    Text {
        text: &'a str,
        kept: Option<&'a Attributes>,
    },
    Image(&'a Media, Location<'a>),
    Document(&'a Media, Location<'a>),
    Thinking(&'a Reasoning),
    Redacted(&'a Reasoning),
    ToolUse(&'a ToolCall),
    ToolResult(&'a ToolMessage),
    /// A kind that only this format knows, with all of its fields.
    Other(&'a Attributes),
}

/// Where media come from.
#[derive(Clone, Copy)]
enum Location<'a> {
    Base64 {
        media_type: &'a str,
        data: &'a str,
    },
    Url(&'a str),
    File(&'a str),
    /// A text, as base64.
    Text(&'a str),
}

impl<'a> Block<'a> {
    fn bare(text: &'a str) -> Self {
        Self::Text { text, kept: None }
    }

    /// Whether the API takes a cache mark here.
    fn is_cacheable(&self) -> bool {
        !matches!(self, Self::Thinking(_) | Self::Redacted(_) | Self::Other(_))
    }
}

/// The blocks of one message.
fn blocks(message: &Message) -> impl Iterator<Item = Block<'_>> + Clone {
    let empty = says_nothing(message).then_some(Block::bare(EMPTY_MESSAGE));
    let result = message.as_tool().map(Block::ToolResult);
    own_blocks(message).chain(empty).chain(result)
}

/// The blocks of what a message itself says.
fn own_blocks(message: &Message) -> impl Iterator<Item = Block<'_>> + Clone {
    let bare = |text| (!is_blank(text)).then_some(Block::bare(text));
    flattened(message, bare, part, ai_part)
}

/// Whether this is a user's message of which no block is left.
fn says_nothing(message: &Message) -> bool {
    message.is_user() && own_blocks(message).next().is_none()
}

/// A part of a user or tool message; `None` for a blank text.
fn part(part: &Part) -> Option<Block<'_>> {
    Some(match part {
        Part::Text(text) => return text_block(text),
        Part::Image(media) => match image(media) {
            Some(source) => Block::Image(media, source),
            None => stands_for(part),
        },
        Part::File(media) => match document(media) {
            Some(source) => Block::Document(media, source),
            None => stands_for(part),
        },
        other => as_other_part(FORMAT, other).map_or_else(|| stands_for(other), Block::Other),
    })
}

/// A part of an answer; `None` for what is left out.
fn ai_part(part: &AiPart) -> Option<Block<'_>> {
    match part {
        AiPart::Content(Part::Text(text)) => text_block(text),
        // A placeholder would be what the model has said.
        AiPart::Content(other) => as_other_part(FORMAT, other).map(Block::Other),
        AiPart::Reasoning(reasoning) => thinking(reasoning),
        AiPart::ToolCall(call) => Some(Block::ToolUse(call)),
    }
}

fn text_block(part: &TextPart) -> Option<Block<'_>> {
    let kept = kept(FORMAT, &part.extra);
    (!is_blank(&part.text)).then_some(Block::Text { text: &part.text, kept })
}

fn stands_for(part: &Part) -> Block<'_> {
    Block::bare(placeholder(part))
}

fn thinking(reasoning: &Reasoning) -> Option<Block<'_>> {
    let kept = kept(FORMAT, &reasoning.extra);
    let is_ours = kept.is_some() || reasoning.signature.is_some();
    if is_foreign(FORMAT, &reasoning.extra) || !is_ours {
        return None;
    }
    let is_redacted = kept_type(FORMAT, &reasoning.extra) == Some(REDACTED);
    Some(if is_redacted { Block::Redacted(reasoning) } else { Block::Thinking(reasoning) })
}

/// The source of a picture that the API takes.
fn image(media: &Media) -> Option<Location<'_>> {
    let source = source(media);
    match source {
        Location::Base64 { media_type: "image/jpg", data } => {
            Some(Location::Base64 { media_type: "image/jpeg", data })
        }
        Location::Base64 {
            media_type: "image/jpeg" | "image/png" | "image/gif" | "image/webp",
            ..
        }
        | Location::Url(_)
        | Location::File(_) => Some(source),
        Location::Base64 { .. } | Location::Text(_) => None,
    }
}

/// The source of a document that the API takes.
fn document(media: &Media) -> Option<Location<'_>> {
    match source(media) {
        Location::Base64 { media_type, data } if media_type.starts_with("text/") => {
            base64::text(data).map(|_| Location::Text(data))
        }
        Location::Base64 { media_type, .. } if media_type != "application/pdf" => None,
        source => Some(source),
    }
}

fn source(media: &Media) -> Location<'_> {
    match (inline(media), &media.source) {
        (Some(DataUrl { media_type, data }), _) => Location::Base64 { media_type, data },
        (None, Source::FileId(id)) => Location::File(id),
        (None, Source::Url(url) | Source::Base64(url)) => Location::Url(url),
    }
}

/// What the API takes for empty.
pub(super) fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// A block, with a cache mark or without.
struct Marked<'a> {
    block: Block<'a>,
    cache: Option<Cache>,
}

impl Serialize for Marked<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.write(&mut map)?;
        if let Some(cache) = &self.cache {
            map.serialize_entry("cache_control", cache)?;
        }
        map.end()
    }
}

impl Marked<'_> {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self.block {
            Block::Text { text, kept } => {
                self.write_fields(map, &block("text", "text", text), kept)
            }
            Block::Image(media, location) => {
                let source = location.source();
                let own = [("type", "image".into()), ("source", Entry::Fields(&source))];
                self.write_fields(map, &own, kept(FORMAT, &media.extra))
            }
            Block::Document(media, location) => {
                let text = location.text();
                let source = match &text {
                    Some(text) => plain_text(text),
                    None => location.source(),
                };
                let own = [
                    ("type", "document".into()),
                    ("source", Entry::Fields(&source)),
                    ("title", media.name.as_ref().into()),
                ];
                self.write_fields(map, &own, kept(FORMAT, &media.extra))
            }
            Block::Thinking(reasoning) => {
                let own = [
                    ("type", "thinking".into()),
                    ("thinking", (&reasoning.text).into()),
                    ("signature", reasoning.signature.as_ref().into()),
                ];
                self.write_fields(map, &own, kept(FORMAT, &reasoning.extra))
            }
            Block::Redacted(reasoning) => {
                let data = reasoning.signature.as_deref().unwrap_or_default();
                let own = [("type", REDACTED.into()), ("data", data.into())];
                self.write_fields(map, &own, kept(FORMAT, &reasoning.extra))
            }
            Block::ToolUse(call) => {
                let id = accepted(&call.id);
                let own = [
                    ("type", "tool_use".into()),
                    ("id", (&*id).into()),
                    ("name", (&call.name).into()),
                    ("input", Entry::Arguments(&call.arguments)),
                ];
                self.write_fields(map, &own, kept(FORMAT, &call.extra))
            }
            Block::ToolResult(tool) => {
                map.serialize_entry("type", "tool_result")?;
                map.serialize_entry("tool_use_id", &accepted(tool.call_id()))?;
                match tool.content() {
                    Content::Text(text) if is_blank(text) => {}
                    Content::Text(text) => map.serialize_entry("content", text)?,
                    Content::Parts(parts) => {
                        let blocks = parts.iter().filter_map(part);
                        let blocks = blocks.map(|block| Marked { block, cache: None });
                        map.serialize_entry("content", &Seq(blocks))?;
                    }
                }
                let written = ["type", "tool_use_id", "content"].map(|name| (name, Entry::Nothing));
                let [kind, id, content] = written;
                let is_error = tool.is_error().then_some(Entry::True);
                let own = [kind, id, content, ("is_error", is_error.unwrap_or(Entry::Nothing))];
                self.write_fields(map, &own, kept(ATTRIBUTE, tool.attributes()))
            }
            Block::Other(fields) => self.write_fields(map, &[], Some(fields)),
        }
    }

    /// Writes fields and those that were kept, but for a cache mark where there is another.
    fn write_fields<M: SerializeMap>(
        &self,
        map: &mut M,
        own: &[(&'static str, Entry<'_>)],
        kept: Option<&Attributes>,
    ) -> Result<(), M::Error> {
        write(map, own, None)?;
        for (key, value) in kept.into_iter().flatten() {
            let is_written = own.iter().any(|(own, _)| own == key);
            if !is_written && (self.cache.is_none() || key != "cache_control") {
                map.serialize_entry(key, value)?;
            }
        }
        Ok(())
    }
}

impl<'a> Location<'a> {
    fn source(self) -> [(&'static str, Entry<'a>); 3] {
        let nothing = ("", Entry::Nothing);
        match self {
            Self::Base64 { media_type, data } => [
                ("type", "base64".into()),
                ("media_type", media_type.into()),
                ("data", data.into()),
            ],
            Self::Url(url) => [("type", "url".into()), ("url", url.into()), nothing],
            Self::File(id) => [("type", "file".into()), ("file_id", id.into()), nothing],
            // `text` has it.
            Self::Text(_) => [nothing; 3],
        }
    }

    /// The text of a document that is one.
    fn text(self) -> Option<String> {
        if let Self::Text(data) = self { base64::text(data) } else { None }
    }
}

fn plain_text(text: &str) -> [(&'static str, Entry<'_>); 3] {
    [("type", "text".into()), ("media_type", "text/plain".into()), ("data", text.into())]
}

/// A call id in the letters that the API accepts. Other providers use dots and colons in theirs.
fn accepted(id: &str) -> Cow<'_, str> {
    let is_accepted = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if id.chars().all(is_accepted) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(id.chars().map(|c| if is_accepted(c) { c } else { '_' }).collect())
}

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::Anthropic;
    const OPERATION: &'static str = "write anthropic messages";
    const OBJECTS: bool = true;

    fn takes(&self, part: &Part, by: Speaker, _: &Row) -> bool {
        match by {
            Speaker::Ai => as_other_part(FORMAT, part).is_some(),
            _ => !matches!(self::part(part), Some(Block::Text { .. })),
        }
    }

    fn refuses_part(&self, part: &AiPart) -> Option<&'static str> {
        match part {
            AiPart::Reasoning(reasoning) if thinking(reasoning).is_none() => {
                Some("reasoning without this provider's signature")
            }
            AiPart::ToolCall(call) if call.id.is_empty() => Some(NO_ID),
            _ => None,
        }
    }

    fn refuses(&self, message: &Message, _: &[&str]) -> Option<&'static str> {
        match message {
            Message::Custom(_) => Some("a custom message"),
            Message::User(_) if says_nothing(message) => Some("an empty message"),
            Message::Tool(tool) if tool.call_id().is_empty() => Some(NO_ID),
            // Of media it is told one by one.
            Message::Ai(ai) if !is_said(message, false) => empty_answer(ai),
            _ => None,
        }
    }
}

impl ForProvider for Options {}
impl Marks for Options {}

const NO_ID: &str = "a call without an id";
