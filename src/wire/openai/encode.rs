//! Messages as Chat Completions writes them.

use std::fmt;

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, Messages, Options};
use crate::message::{
    AiMessage, AiPart, Attributes, Body, Content, Detail, Media, Message, Part, Reasoning, Source,
    TextPart, ToolCall, ToolMessage, UserMessage,
};
use crate::provider::{Files, Provider, ReasoningField, Row};
use crate::wire::blocks::{Blocks, ContentBlock, blocks};
use crate::wire::common::{
    NO_SIGNATURE, as_other_part, entry, inline, input, kept, kept_object, kept_type, placeholder,
    write_kept,
};
use crate::wire::shape::{Entry, Object, Seq, block, write};
use crate::wire::terms::Terms;
use crate::wire::view::{ForProvider, Marks, MessageFormat, Speaker};

impl Serialize for Messages<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let row = &self.terms.row;
        let mark = self.marked(|_, message| takes_mark(message, row));
        let mut seq = serializer.serialize_seq(None)?;
        let mut i = 0;
        self.messages.try_for_each(|message| {
            let mark = mark == Some(i);
            i += 1;
            let copy = self.terms.copy(message);
            let is_emptied = copy.as_deref().is_some_and(|copy| Terms::is_emptied(message, copy));
            if is_emptied || matches!(message, Message::Custom(_)) {
                return Ok(());
            }
            // Once, so that it stands in the loop.
            let message = copy.as_deref().unwrap_or(message);
            seq.serialize_element(&SentMessage { message, row, mark })
        })?;
        seq.end()
    }
}

/// Whether a block of this message can carry the cache mark.
fn takes_mark(message: &Message, row: &Row) -> bool {
    match message {
        Message::System(m) => Block::Bare(m.text()).takes_mark(),
        Message::User(m) => blocks(m.content(), Block::of).any(Block::takes_mark),
        Message::Tool(m) => blocks(m.content(), Block::text).any(Block::takes_mark),
        Message::Ai(m) if row.calls_alone && m.has_tool_calls() => false,
        Message::Ai(m) => ai_blocks(m, row).any(Block::takes_mark),
        Message::Custom(_) => false,
    }
}

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::OpenAi;
    const OPERATION: &'static str = "write openai messages";
    const OBJECTS: bool = false;

    fn takes(&self, part: &Part, by: Speaker, row: &Row) -> bool {
        let block = match by {
            Speaker::User => Block::of_user(row)(part),
            Speaker::Tool => Block::text(part),
            Speaker::Ai if spoken_audio(part).is_some() => return true,
            Speaker::Ai => return Block::of_answer(part, row).is_some(),
        };
        !matches!(block, Block::Placeholder(_))
    }

    fn names(&self, row: &Row) -> bool {
        row.names
    }
}

impl ForProvider for Options {}
impl Marks for Options {}

/// One message.
struct SentMessage<'a> {
    message: &'a Message,
    row: &'a Row,
    /// Whether its last block carries the cache mark.
    mark: bool,
}

impl Serialize for SentMessage<'_> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match self.plain() {
            Some((role, text)) => {
                entry(&mut map, "role", role)?;
                entry(&mut map, "content", text)?;
            }
            None => self.any(&mut map)?,
        }
        map.end()
    }
}

impl SentMessage<'_> {
    /// The role and the text of a message that has nothing else, as nearly all are.
    #[inline]
    fn plain(&self) -> Option<(&'static str, &str)> {
        match self.message {
            _ if self.mark => None,
            Message::User(UserMessage { content: Content::Text(text), details: None, .. }) => {
                Some(("user", text))
            }
            Message::Ai(AiMessage { body: Body::Text(text), details: None, .. }) => {
                Some(("assistant", text))
            }
            _ => None,
        }
    }

    fn any<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self.message {
            Message::System(m) => {
                let role = if self.row.developer { "developer" } else { "system" };
                map.serialize_entry("role", role)?;
                let text = std::iter::once(Block::Bare(&m.text));
                map.serialize_entry("content", &self.blocks(text))?;
                write_rare(map, self.name(m.name()), m.attributes(), &["role", "content", "name"])
            }
            Message::User(m) => self.user(map, m),
            Message::Ai(m) => self.ai(map, m),
            Message::Tool(m) => self.tool(map, m),
            // `Messages` leaves these out.
            Message::Custom(_) => Ok(()),
        }
    }

    /// The name, where the provider takes one.
    fn name<'n>(&self, name: Option<&'n str>) -> Option<&'n str> {
        name.filter(|_| self.row.names)
    }

    fn blocks<'b, I: Iterator<Item = Block<'b>> + Clone>(&self, blocks: I) -> Blocks<I> {
        Blocks { of: blocks, flat: self.row.flat_text, mark: self.mark }
    }

    /// Nearly all content is one text, and goes straight through.
    #[inline]
    fn content<'b, M: SerializeMap>(
        &self,
        map: &mut M,
        content: &'b Content,
        block: fn(&'b Part) -> Block<'b>,
    ) -> Result<(), M::Error> {
        match content {
            Content::Text(text) if !self.mark => entry(map, "content", text),
            _ => entry(map, "content", &self.blocks(blocks(content, block))),
        }
    }

    fn user<M: SerializeMap>(&self, map: &mut M, m: &UserMessage) -> Result<(), M::Error> {
        entry(map, "role", "user")?;
        self.content(map, m.content(), Block::of_user(self.row))?;
        if m.details.is_none() {
            return Ok(());
        }
        write_rare(map, self.name(m.name()), m.attributes(), &["role", "content", "name"])
    }

    #[inline]
    fn tool<M: SerializeMap>(&self, map: &mut M, m: &ToolMessage) -> Result<(), M::Error> {
        entry(map, "role", "tool")?;
        entry(map, "tool_call_id", m.call_id())?;
        self.content(map, m.content(), Block::text)?;
        if m.answer.details.is_none() {
            return Ok(());
        }
        write_rare(map, None, m.attributes(), &["role", "content", "tool_call_id"])
    }

    fn ai<M: SerializeMap>(&self, map: &mut M, m: &AiMessage) -> Result<(), M::Error> {
        const OWN: [&str; 9] = [
            "role",
            "content",
            "name",
            "tool_calls",
            "audio",
            "annotations",
            "reasoning",
            "reasoning_content",
            "reasoning_details",
        ];
        entry(map, "role", "assistant")?;
        let (mut said, mut calls, mut audio) = (false, false, None);
        for part in m.parts() {
            match part {
                AiPart::ToolCall(_) => calls = true,
                AiPart::Content(part) => match spoken_audio(part) {
                    Some(id) => audio = Some(id),
                    None => said |= Block::of_answer(part, self.row).is_some(),
                },
                AiPart::Reasoning(thought) => said |= is_block(thought),
            }
        }
        let silent = !said || (calls && self.row.calls_alone);
        if silent && (calls || audio.is_some()) {
            entry(map, "content", &())?;
        } else {
            entry(map, "content", &self.blocks(ai_blocks(m, self.row)))?;
        }
        self.reasoning(map, m, calls)?;
        if calls {
            let signs = |i| self.row.signed_calls && i == 0;
            let calls = m.tool_calls().enumerate();
            entry(map, "tool_calls", &Seq(calls.map(|(i, call)| Call { call, signed: signs(i) })))?;
        }
        if let Some(id) = audio {
            entry(map, "audio", &Object { own: [("id", id.into())], kept: None })?;
        }
        if m.details.is_none() {
            return Ok(());
        }
        write_rare(map, self.name(m.name()), m.attributes(), &OWN)
    }

    fn reasoning<M: SerializeMap>(
        &self,
        map: &mut M,
        m: &AiMessage,
        calls: bool,
    ) -> Result<(), M::Error> {
        let Some(field) = self.row.reasoning else { return Ok(()) };
        let texts = m.parts().iter().filter_map(|part| match part {
            AiPart::Reasoning(reasoning) if !reasoning.text.is_empty() && !is_block(reasoning) => {
                Some(Block::Bare(&reasoning.text))
            }
            _ => None,
        });
        let silent = texts.clone().next().is_none();
        let blocks = Blocks { of: texts, flat: true, mark: false };
        match field {
            ReasoningField::ReasoningContent if !silent || calls => {
                map.serialize_entry("reasoning_content", &blocks)
            }
            ReasoningField::ReasoningContent => Ok(()),
            ReasoningField::Reasoning => {
                if !silent {
                    map.serialize_entry("reasoning", &blocks)?;
                }
                let extras = m.reasoning().filter_map(|r| kept(FORMAT, &r.extra));
                let mut lists = extras.filter_map(|extra| extra.get("reasoning_details"));
                match (lists.next(), lists.next()) {
                    (Some(details), None) => map.serialize_entry("reasoning_details", details),
                    (Some(first), Some(second)) => {
                        // Those of answers that were joined.
                        let all = [first, second].into_iter().chain(lists);
                        let all = all.filter_map(Value::as_array).flatten();
                        map.serialize_entry("reasoning_details", &all.collect::<Vec<_>>())
                    }
                    (None, _) => Ok(()),
                }
            }
        }
    }
}

/// The id of audio that the model spoke, which is all that goes back.
fn spoken_audio(part: &Part) -> Option<&str> {
    match part {
        Part::Audio(Media { source: Source::FileId(id), .. }) => Some(id),
        _ => None,
    }
}

/// What few messages have.
#[cold]
fn write_rare<M: SerializeMap>(
    map: &mut M,
    name: Option<&str>,
    attributes: &Attributes,
    own: &[&str],
) -> Result<(), M::Error> {
    write_name(map, name)?;
    write_kept(map, kept(ATTRIBUTE, attributes), own)
}

fn write_name<M: SerializeMap>(map: &mut M, name: Option<&str>) -> Result<(), M::Error> {
    struct Name<'a>(&'a str);
    impl fmt::Display for Name<'_> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let refused = |c: char| c.is_whitespace() || matches!(c, '<' | '|' | '\\' | '/' | '>');
            let mut pieces = self.0.split(refused);
            f.write_str(pieces.next().unwrap_or_default())?;
            pieces.try_for_each(|piece| write!(f, "_{piece}"))
        }
    }
    impl Serialize for Name<'_> {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(self)
        }
    }
    match name {
        Some(name) if !name.is_empty() => map.serialize_entry("name", &Name(name)),
        _ => Ok(()),
    }
}

/// A block of content.
#[derive(Clone, Copy)]
enum Block<'a> {
    /// A text that nothing stands beside: alone it is a string.
    Bare(&'a str),
    Text(&'a TextPart),
    Refusal(&'a str),
    Image(&'a Media),
    Audio(&'a Media, &'a str),
    File(&'a Media),
    /// A file of Mistral's.
    Document(&'a Media),
    /// Audio as Mistral has it: data or an address, and nothing of the encoding.
    Recording(&'a Media),
    /// Mistral's reasoning, which stands among what is said.
    Thinking(&'a Reasoning),
    /// A block that only this format knows.
    Other(&'a Attributes),
    Placeholder(&'static str),
}

fn ai_blocks<'a>(m: &'a AiMessage, row: &'a Row) -> impl Iterator<Item = Block<'a>> + Clone {
    let parts = m.parts();
    let said = parts.iter().filter_map(|part| match part {
        AiPart::Content(part) => Block::of_answer(part, row),
        AiPart::Reasoning(thought) => is_block(thought).then_some(Block::Thinking(thought)),
        AiPart::ToolCall(_) => None,
    });
    // One text beside tool calls is a string, as the provider wrote it; several are a list.
    let alone = said.clone().nth(1).is_none();
    let said = said.map(move |block| match block {
        Block::Text(part) if alone && kept(FORMAT, &part.extra).is_none() => {
            Block::Bare(&part.text)
        }
        block => block,
    });
    let plain = if parts.is_empty() { m.texts().next().map(Block::Bare) } else { None };
    plain.into_iter().chain(said)
}

impl<'a> Block<'a> {
    /// What a user may send to this provider.
    fn of_user(row: &Row) -> fn(&'a Part) -> Self {
        match row.files {
            Files::Data | Files::Pdf | Files::Never => Block::of,
            Files::Address => Block::of_any_file,
            Files::Document => Block::of_document,
        }
    }

    /// What a user may send.
    fn of(part: &'a Part) -> Self {
        match part {
            Part::Image(m) if !matches!(m.source, Source::FileId(_)) => Block::Image(m),
            Part::File(m) if inline(m).is_some() || matches!(m.source, Source::FileId(_)) => {
                Block::File(m)
            }
            Part::Audio(m) => match audio_format(m) {
                Some(format) => Block::Audio(m, format),
                None => Block::Placeholder(placeholder(part)),
            },
            _ => Self::text(part),
        }
    }

    /// The same where a file may be at an address.
    fn of_any_file(part: &'a Part) -> Self {
        match part {
            Part::File(m) => Block::File(m),
            part => Self::of(part),
        }
    }

    /// The same where a file is a document, and audio a text, as Mistral has them.
    fn of_document(part: &'a Part) -> Self {
        match part {
            Part::File(m) => Block::Document(m),
            Part::Audio(m) if !matches!(m.source, Source::FileId(_)) => Block::Recording(m),
            part => Self::of(part),
        }
    }

    /// What the model may have said; `None` for what is left out: a placeholder would be its words.
    fn of_answer(part: &'a Part, row: &Row) -> Option<Self> {
        match part {
            Part::Text(text) if is_refusal(text) && row.refusals => {
                Some(Block::Refusal(&text.text))
            }
            Part::Text(text) if is_refusal(text) => Some(Block::Bare(&text.text)),
            part => Some(Self::text(part)).filter(|block| !matches!(block, Block::Placeholder(_))),
        }
    }

    /// What everyone may send: text.
    fn text(part: &'a Part) -> Self {
        match (part, as_other_part(FORMAT, part)) {
            (Part::Text(text), _) => Block::Text(text),
            (_, Some(fields)) => Block::Other(fields),
            (_, None) => Block::Placeholder(placeholder(part)),
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
            _ => None,
        }
    }

    fn is_media(self) -> bool {
        matches!(
            self,
            Self::Image(_)
                | Self::Audio(..)
                | Self::File(_)
                | Self::Document(_)
                | Self::Recording(_)
        )
    }

    fn kept(self) -> Option<&'a Attributes> {
        match self {
            Self::Text(part) => kept(FORMAT, &part.extra),
            Self::Image(media) | Self::Audio(media, _) | Self::File(media) => {
                kept(FORMAT, &media.extra)
            }
            _ => None,
        }
    }

    fn write<M: SerializeMap>(self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Bare(text) | Self::Placeholder(text) => {
                write(map, &block("text", "text", text), None)
            }
            Self::Text(part) => write(map, &block("text", "text", &part.text), self.kept()),
            Self::Refusal(text) => write(map, &block("refusal", "refusal", text), None),
            Self::Thinking(thought) => {
                let kept = kept(FORMAT, &thought.extra);
                if kept.is_none_or(|kept| !kept.contains_key("thinking")) {
                    let own = block("text", "text", &thought.text);
                    map.serialize_entry("thinking", &[Object { own, kept: None }])?;
                }
                write_kept(map, kept, &[])
            }
            Self::Image(media) => write_media(map, "image_url", media, image_url(media)),
            Self::Audio(media, format) => {
                write_media(map, "input_audio", media, input_audio(media, format))
            }
            Self::File(media) => write_media(map, "file", media, file(media)),
            Self::Document(media) => write_document(map, media),
            Self::Recording(media) => {
                let data = match &media.source {
                    Source::Url(url) if inline(media).is_none() => url,
                    _ => inline(media).map_or("", |url| url.data),
                };
                write(map, &block("input_audio", "input_audio", data), None)
            }
            Self::Other(fields) => write_kept(map, Some(fields), &[]),
        }
    }
}

fn is_refusal(part: &TextPart) -> bool {
    kept_type(FORMAT, &part.extra) == Some("refusal")
}

/// Whether this was read from a block of the content.
fn is_block(thought: &Reasoning) -> bool {
    kept(FORMAT, &thought.extra).is_some_and(|kept| kept.contains_key("type"))
}

/// What the provider calls the encoding of this audio; or what a compatible server called it.
fn audio_format(media: &Media) -> Option<&str> {
    match inline(media)?.media_type {
        "audio/wav" | "audio/x-wav" | "audio/wave" => Some("wav"),
        "audio/mpeg" | "audio/mp3" => Some("mp3"),
        _ => kept_object(kept(FORMAT, &media.extra), "input_audio")?.get("format")?.as_str(),
    }
}

/// Writes a block whose media are an object under the name of its kind.
fn write_media<M: SerializeMap, const N: usize>(
    map: &mut M,
    kind: &'static str,
    media: &Media,
    own: [(&'static str, Entry<'_>); N],
) -> Result<(), M::Error> {
    let kept = kept(FORMAT, &media.extra);
    map.serialize_entry("type", kind)?;
    map.serialize_entry(kind, &Object { own, kept: kept_object(kept, kind) })?;
    write_kept(map, kept, &["type", kind])
}

fn write_document<M: SerializeMap>(map: &mut M, media: &Media) -> Result<(), M::Error> {
    if let (None, Source::FileId(id)) = (inline(media), &media.source) {
        return write(map, &block("file", "file_id", id), None);
    }
    let own = [
        ("type", "document_url".into()),
        ("document_url", Entry::address(media)),
        ("document_name", media.name.as_ref().into()),
    ];
    write(map, &own, None)
}

fn image_url(media: &Media) -> [(&'static str, Entry<'_>); 2] {
    let detail = media.detail.as_ref().map(Detail::as_str);
    [("url", Entry::address(media)), ("detail", detail.into())]
}

fn input_audio<'a>(media: &'a Media, format: &'a str) -> [(&'static str, Entry<'a>); 2] {
    let data = inline(media).map(|url| url.data);
    [("data", data.into()), ("format", format.into())]
}

fn file(media: &Media) -> [(&'static str, Entry<'_>); 3] {
    // Data without a name is refused.
    let stand_in = inline(media).map(|_| "file.pdf");
    [
        ("filename", media.name.as_deref().or(stand_in).into()),
        // Another address than that of data only where the provider takes one here.
        ("file_data", Entry::address(media)),
        ("file_id", Entry::file_id(media)),
    ]
}

struct Call<'a> {
    call: &'a ToolCall,
    /// Whether it is refused without the signature of a thought.
    signed: bool,
}

impl Serialize for Call<'_> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kept = kept(FORMAT, &self.call.extra);
        let kind = kept.and_then(|kept| kept.get("type")?.as_str()).unwrap_or("function");
        let custom = kind == "custom";
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "id", &self.call.id)?;
        entry(&mut map, "type", kind)?;
        let key = if custom { "custom" } else { "function" };
        entry(&mut map, key, &Function { call: self.call, custom, kept })?;
        if self.signed && kept.is_none_or(|kept| !kept.contains_key("extra_content")) {
            let google = [("thought_signature", NO_SIGNATURE.into())];
            let own = [("google", Entry::Fields(&google))];
            map.serialize_entry("extra_content", &Entry::Fields(&own))?;
        }
        write_kept(&mut map, kept, &["id", "type", "function", "custom"])?;
        map.end()
    }
}

struct Function<'a> {
    call: &'a ToolCall,
    custom: bool,
    kept: Option<&'a Attributes>,
}

impl Serialize for Function<'_> {
    #[inline]
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (kind, key) = if self.custom { ("custom", "input") } else { ("function", "arguments") };
        let mut map = serializer.serialize_map(None)?;
        entry(&mut map, "name", &self.call.name)?;
        entry(&mut map, key, input(self.call, self.custom))?;
        write_kept(&mut map, kept_object(self.kept, kind), &["name", key])?;
        map.end()
    }
}
