//! Messages as `generateContent` takes them.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;
use serde::ser::{SerializeMap, SerializeSeq, Serializer};

use serde_json::Value;

use super::{ATTRIBUTE, Contents, FORMAT, Options, SHAPE, SIGNATURE, SystemInstruction, WHOLE};
use crate::message::{
    AiPart, Attributes, Content, EMPTY_MESSAGE, Media, Message, Part, Reasoning, Source, TextPart,
    ToolCall, ToolMessage,
};
use crate::provider::{Provider, Row};
use crate::wire::common::{
    DataUrl, NO_SIGNATURE, as_other_part, empty_answer, flattened, is_foreign, kept, kept_object,
    known_type, placeholder, write_kept,
};
use crate::wire::media::{is_googles, resolution, type_at};
use crate::wire::shape::{Entry, Object, write};
use crate::wire::view::{ForProvider, MessageFormat, Speaker};

impl Serialize for SystemInstruction<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let parts: Vec<_> = self.texts().map(Piece::text).collect();
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry("parts", &parts)?;
        map.end()
    }
}

impl Serialize for Contents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let sent = self.terms.sent(&self.messages);
        let said: Vec<&Message> = sent.iter().map(|m| &**m).filter(|m| is_said(m)).collect();
        let are_one = |a: &&Message, b: &&Message| {
            matches!(
                (a, b),
                (Message::Tool(_), Message::Tool(_)) | (Message::Ai(_), Message::Ai(_))
            )
        };
        let mut list = serializer.serialize_seq(None)?;
        let mut options = self.options;
        options.skip_signatures |= self.terms.row.signed_calls;
        options.media_beside_results = !self.terms.row.media_in_results;
        options.detail = self.terms.row.detail;
        let mut before: &[&Message] = &[];
        for messages in said.chunk_by(are_one) {
            let is_ai = messages.iter().any(|message| message.as_ai().is_some());
            let role = if is_ai { "model" } else { "user" };
            let parts = Parts { messages, before, options };
            list.serialize_element(&Turn { role, parts })?;
            before = messages;
        }
        list.end()
    }
}

/// Whether anything of a message stands among `contents`.
fn is_said(message: &Message) -> bool {
    match message {
        Message::User(_) | Message::Tool(_) => true,
        Message::Ai(_) => pieces(message).next().is_some(),
        _ => false,
    }
}

/// One element of `contents`: a user message, or neighbouring answers, or the results of their
/// calls.
#[derive(Serialize)]
struct Turn<'e, 'a> {
    role: &'static str,
    parts: Parts<'e, 'a>,
}

struct Parts<'e, 'a> {
    messages: &'e [&'a Message],
    /// The entry before this one.
    before: &'e [&'a Message],
    options: Options,
}

impl Serialize for Parts<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self { messages, before, options } = *self;
        let mut list = serializer.serialize_seq(None)?;
        for (call, tool) in in_order_of_calls(before, messages) {
            list.serialize_element(&Piece::Result { tool, call, options })?;
            if options.media_beside_results {
                let media = tool.content().parts().iter().filter_map(result_media);
                media.into_iter().try_for_each(|piece| list.serialize_element(&piece))?;
            }
        }
        let mut is_first_call = true;
        for mut piece in messages.iter().flat_map(|message| pieces(message)) {
            match &mut piece {
                Piece::Call { options: o, is_first, .. } => {
                    *o = options;
                    *is_first = std::mem::take(&mut is_first_call);
                }
                Piece::Media { resolution: level, media, .. } if options.detail => {
                    *level = media.detail.as_ref().and_then(resolution);
                }
                _ => {}
            }
            list.serialize_element(&piece)?;
        }
        list.end()
    }
}

/// Results, each with the call that it answers, in the order of the calls; then those that answer
/// none.
///
/// Where several calls have one id, the results count one by one.
fn in_order_of_calls<'a>(
    before: &[&'a Message],
    results: &[&'a Message],
) -> Vec<(Option<&'a ToolCall>, &'a ToolMessage)> {
    let mut by_id: HashMap<&str, VecDeque<usize>> = HashMap::new();
    let mut left: Vec<_> = results.iter().map(|message| message.as_tool()).collect();
    for (i, tool) in left.iter().enumerate() {
        if let Some(tool) = tool {
            by_id.entry(tool.call_id()).or_default().push_back(i);
        }
    }
    let mut ordered = Vec::with_capacity(left.len());
    if !by_id.is_empty() {
        for call in before.iter().flat_map(|message| message.tool_calls()) {
            let answer = by_id.get_mut(call.id.as_str()).and_then(VecDeque::pop_front);
            ordered.extend(answer.and_then(|i| left[i].take()).map(|tool| (Some(call), tool)));
        }
    }
    ordered.extend(left.into_iter().flatten().map(|tool| (None, tool)));
    ordered
}

/// One element of `parts`.
#[derive(Clone, Copy)]
enum Piece<'a> {
    Text {
        text: &'a str,
        kept: Option<&'a Attributes>,
    },
    Thought(&'a Reasoning),
    Media {
        media: &'a Media,
        location: Location<'a>,
        /// How closely it is to be looked at.
        resolution: Option<&'static str>,
    },
    Call {
        call: &'a ToolCall,
        is_first: bool,
        options: Options,
    },
    Result {
        tool: &'a ToolMessage,
        call: Option<&'a ToolCall>,
        options: Options,
    },
    /// A kind that only this format knows, with all of its fields.
    Other(&'a Attributes),
}

/// Where media come from.
#[derive(Clone, Copy)]
enum Location<'a> {
    Inline { media_type: &'a str, data: &'a str },
    File { media_type: Option<&'a str>, uri: &'a str },
}

impl<'a> Piece<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text { text, kept: None }
    }
}

/// The parts of one message; results are not among them.
fn pieces(message: &Message) -> impl Iterator<Item = Piece<'_>> + Clone {
    own_pieces(message).chain(says_nothing(message).then_some(Piece::text(EMPTY_MESSAGE)))
}

/// The parts of what a message itself says.
fn own_pieces<'m>(message: &'m Message) -> impl Iterator<Item = Piece<'m>> + Clone {
    let text = |text: &'m str| (!text.is_empty()).then_some(Piece::text(text));
    flattened(message, text, part, ai_part)
}

/// Whether this is a user's message of which no part is left.
fn says_nothing(message: &Message) -> bool {
    message.is_user() && own_pieces(message).next().is_none()
}

/// A part of a user's message; `None` for an empty text.
fn part(part: &Part) -> Option<Piece<'_>> {
    let stands_for = || part.as_text().is_none().then(|| Piece::text(placeholder(part)));
    own_part(part).or_else(stands_for)
}

/// A part as it is; `None` for an empty text, and for what has no place.
fn own_part(part: &Part) -> Option<Piece<'_>> {
    match part {
        // An empty text with a signature is how the API streams one, and goes back as it came.
        Part::Text(TextPart { text, extra }) => match kept(FORMAT, extra) {
            None if text.is_empty() => None,
            kept => Some(Piece::Text { text, kept }),
        },
        Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::File(media) => {
            location(media).map(|location| Piece::Media { media, location, resolution: None })
        }
        Part::Other(_) => as_other_part(FORMAT, part).map(Piece::Other),
    }
}

/// A part of an answer; `None` for what is left out.
fn ai_part(ai_part: &AiPart) -> Option<Piece<'_>> {
    match ai_part {
        // A placeholder would be what the model has said.
        AiPart::Content(content) => own_part(content),
        AiPart::Reasoning(reasoning) => {
            (!is_foreign(FORMAT, &reasoning.extra)).then_some(Piece::Thought(reasoning))
        }
        AiPart::ToolCall(call) => {
            Some(Piece::Call { call, is_first: false, options: Options::default() })
        }
    }
}

/// Data as it is sent; `None` where the API answers "Unsupported MIME type": documents of office
/// programs, and images that it does not read.
fn inlined<'a>(media_type: &'a str, data: &'a str) -> Option<Location<'a>> {
    let media_type = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
    (!is_unread(media_type)).then_some(Location::Inline { media_type, data })
}

fn is_unread(media_type: &str) -> bool {
    const REFUSED: [&str; 5] =
        ["application/msword", "image/bmp", "image/gif", "image/svg+xml", "image/tiff"];
    REFUSED.contains(&media_type) || media_type.starts_with("application/vnd.")
}

/// A file at an address, with its type, which the API requires.
fn file<'a>(media_type: Option<&'a str>, uri: &'a str) -> Option<Location<'a>> {
    let media_type = match media_type {
        Some(known) => Some(known),
        None if is_googles(uri) => None,
        None => Some(type_at(uri)?),
    };
    let is_refused = media_type.is_some_and(is_unread);
    (!is_refused).then_some(Location::File { media_type, uri })
}

/// Where the API finds these media; `None` for data of which nobody knows what it is.
fn location(media: &Media) -> Option<Location<'_>> {
    let media_type = media.media_type.as_deref();
    Some(match &media.source {
        Source::Base64(data) => inlined(known_type(media)?, data)?,
        Source::Url(url) => match DataUrl::parse(url) {
            Some(DataUrl { media_type, data }) => inlined(media_type, data)?,
            None => file(media_type, url)?,
        },
        Source::FileId(uri) => Location::File { media_type, uri },
    })
}

impl Serialize for Piece<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        match *self {
            Self::Text { text, kept } => {
                write(&mut map, &[("text", text.into())], kept)?;
            }
            Self::Thought(reasoning) => {
                let own = [
                    ("text", (&reasoning.text).into()),
                    ("thought", Entry::True),
                    (SIGNATURE, reasoning.signature.as_ref().into()),
                ];
                write(&mut map, &own, kept(FORMAT, &reasoning.extra))?;
            }
            Self::Media { media, location, resolution } => {
                let kept = kept(FORMAT, &media.extra);
                let (key, own) = match location {
                    Location::Inline { media_type, data } => {
                        ("inlineData", [("mimeType", media_type.into()), ("data", data.into())])
                    }
                    Location::File { media_type, uri } => {
                        ("fileData", [("mimeType", media_type.into()), ("fileUri", uri.into())])
                    }
                };
                map.serialize_entry(key, &Object { own, kept: kept_object(kept, key) })?;
                if let Some(level) = resolution {
                    let own = Object { own: [("level", level.into())], kept: None };
                    map.serialize_entry("mediaResolution", &own)?;
                }
                let replaced = if resolution.is_some() { "mediaResolution" } else { "" };
                write_kept(&mut map, kept, &["inlineData", "fileData", replaced])?;
            }
            Self::Call { call, is_first, options } => {
                let kept = kept(FORMAT, &call.extra);
                map.serialize_entry("functionCall", &function_call(call, kept, options))?;
                let signature = call.signature.as_deref();
                let signature = signature.filter(|_| !is_foreign(FORMAT, &call.extra));
                let stand_in = (is_first && options.skip_signatures).then_some(NO_SIGNATURE);
                if let Some(signature) = signature.or(stand_in) {
                    map.serialize_entry(SIGNATURE, signature)?;
                }
                write_kept(&mut map, kept, &["functionCall", SIGNATURE])?;
            }
            Self::Result { tool, call, options } => {
                let kept = kept(ATTRIBUTE, tool.attributes());
                let response = FunctionResponse { tool, call, kept, options };
                map.serialize_entry("functionResponse", &response)?;
                write_kept(&mut map, kept, &["functionResponse"])?;
            }
            Self::Other(fields) => write_kept(&mut map, Some(fields), &[])?,
        }
        map.end()
    }
}

fn function_call<'a>(
    call: &'a ToolCall,
    kept: Option<&'a Attributes>,
    options: Options,
) -> Object<'a, 3> {
    let id = (!options.no_ids && has_id(call)).then_some(&call.id);
    let args = Entry::Arguments(&call.arguments);
    Object {
        own: [("id", id.into()), ("name", (&call.name).into()), ("args", args)],
        kept: kept_object(kept, "functionCall"),
    }
}

/// Whether the API knows this call by its id: not where we made it up, of which the `null` beside
/// it reminds us.
fn has_id(call: &ToolCall) -> bool {
    let kept = kept(FORMAT, &call.extra).and_then(|kept| kept.get("functionCall")?.get("id"));
    !call.id.is_empty() && kept.is_none()
}

struct FunctionResponse<'a> {
    tool: &'a ToolMessage,
    call: Option<&'a ToolCall>,
    kept: Option<&'a Attributes>,
    options: Options,
}

impl Serialize for FunctionResponse<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let tool = self.tool;
        let id = self.call.map_or_else(|| !tool.call_id().is_empty(), has_id);
        let name = self.call.map_or_else(|| tool.tool_name(), |call| &call.name);
        // The API needs a name: of a stranger, the id says more than nothing.
        let name = if name.is_empty() { tool.call_id() } else { name };
        let kept = kept_object(self.kept, "functionResponse");
        let shape = kept.and_then(|kept| kept.get(SHAPE)?.as_str());
        let mut map = serializer.serialize_map(None)?;
        if !self.options.no_ids && id {
            map.serialize_entry("id", tool.call_id())?;
        }
        map.serialize_entry("name", name)?;
        map.serialize_entry("response", &Response(tool, shape))?;
        let media = tool.content().parts().iter().filter_map(result_media);
        if media.clone().next().is_some() && !self.options.media_beside_results {
            map.serialize_entry("parts", &media.collect::<Vec<_>>())?;
        }
        write_kept(&mut map, kept, &["id", "name", "response", "parts", SHAPE])?;
        map.end()
    }
}

/// What a tool said: `{"output": ..}` or `{"error": ..}`, the keys that the API knows.
struct Response<'a>(&'a ToolMessage, Option<&'a str>);

impl Serialize for Response<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // What came as an object goes back as one, if it still is one.
        let Self(tool, shape) = *self;
        let value = match tool.content() {
            Content::Text(text) if shape.is_some() => serde_json::from_str::<Value>(text).ok(),
            _ => None,
        };
        if let (Some(WHOLE), Some(Value::Object(fields))) = (shape, &value) {
            return fields.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(1))?;
        let key = if tool.is_error() { "error" } else { "output" };
        match (value, tool.content()) {
            (Some(value), _) => map.serialize_entry(key, &value)?,
            (None, Content::Text(text)) => map.serialize_entry(key, text)?,
            (None, Content::Parts(parts)) => {
                let texts = parts.iter().filter(|part| result_media(part).is_none());
                let texts = texts.map(|part| part.as_text().unwrap_or_else(|| placeholder(part)));
                map.serialize_entry(key, &texts.collect::<Vec<_>>())?;
            }
        }
        map.end()
    }
}

/// Media that a result may hold: data, and what lies in Google's storage; other addresses are
/// refused.
fn result_media(part: &Part) -> Option<Piece<'_>> {
    let media = part.as_media()?;
    let location = location(media)?;
    let is_taken = match location {
        Location::Inline { .. } => true,
        Location::File { uri, .. } => uri.starts_with("gs://"),
    };
    is_taken.then_some(Piece::Media { media, location, resolution: None })
}

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::Gemini;
    const OPERATION: &'static str = "write gemini contents";
    const OBJECTS: bool = true;

    fn takes(&self, part: &Part, by: Speaker, _: &Row) -> bool {
        match by {
            Speaker::Tool => result_media(part).is_some(),
            _ => own_part(part).is_some(),
        }
    }

    fn refuses_part(&self, part: &AiPart) -> Option<&'static str> {
        ai_part(part).is_none().then_some("another provider's reasoning")
    }

    fn refuses(&self, message: &Message, calls: &[&str]) -> Option<&'static str> {
        match message {
            Message::Custom(_) => Some("a custom message"),
            Message::User(_) if says_nothing(message) => Some("an empty message"),
            Message::Tool(tool)
                if tool.tool_name().is_empty() && !calls.contains(&tool.call_id()) =>
            {
                Some("a result without a tool's name")
            }
            // Of media it is told one by one.
            Message::Ai(ai) if !is_said(message) => empty_answer(ai),
            _ => None,
        }
    }
}

impl ForProvider for Options {}
