//! Reads what LangChain4j stored.

use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, MEDIA, REDACTED, SIGNATURE};
use crate::error::Result;
use crate::message::{
    AiMessage, AiPart, Attributes, Content, CustomMessage, Detail, Media, Message, Part, Reasoning,
    SystemMessage, ToolCall, ToolMessage, UserMessage,
};
use crate::wire::common::{
    At, Fields, content_of, each, keep, keep_signed, other_part, put_back, with_attribute,
    with_one_system,
};
use crate::wire::json::Json;

/// Reads the messages of a stored conversation: an array, or a single message. `null` is an empty
/// conversation.
///
/// ```
/// use memory_prompt::wire::langchain4j;
///
/// let history = langchain4j::history(
///     r#"[{"toolExecutionRequests":[{"id":"1","name":"weather","arguments":"{\"city\": \"Munich\"}"}],
///         "attributes":{},"type":"AI"},
///        {"id":"1","toolName":"weather","text":"sunny","type":"TOOL_EXECUTION_RESULT"}]"#,
/// )?;
/// assert_eq!(history[0].tool_calls().next().unwrap().arguments, r#"{"city": "Munich"}"#);
/// assert_eq!(history[1].text(), "sunny");
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec) with the path to what can't be read, for example
/// `messages[3].contents[1].image.url: expected a string, found a number`, or a `type` of message
/// that LangChain4j does not know.
pub fn history<'a>(json: impl Into<Json<'a>>) -> Result<Vec<Message>> {
    let top = At::top("read langchain4j history");
    match top.parse(json)? {
        Value::Null => Ok(Vec::new()),
        Value::Array(list) => {
            let read = |message, at: At| read(Fields::of(message, at)?);
            each(list, top.key("messages"), read).map(with_one_system)
        }
        one => Ok(vec![read(Fields::of(one, top)?)?]),
    }
}

fn read(mut fields: Fields) -> Result<Message> {
    match fields.required_text("type")?.as_str() {
        "SYSTEM" => {
            let system = SystemMessage::new(fields.required_text("text")?);
            Ok(with_all(system, Attributes::new(), fields))
        }
        "USER" => user(fields),
        "AI" => ai(fields),
        "TOOL_EXECUTION_RESULT" => tool(fields),
        "CUSTOM" => {
            let attributes = attributes(&mut fields)?;
            Ok(CustomMessage::new(attributes.into_iter().chain(beside(fields.rest()))).into())
        }
        _ => Err(fields.at.key("type").error("not a type of LangChain4j's")),
    }
}

/// Returns the message with its attributes and its other fields.
fn with_all(message: impl Into<Message>, own: Attributes, fields: Fields) -> Message {
    let all = own.into_iter().chain(beside(fields.rest()));
    all.fold(message.into(), |message, (key, value)| with_attribute(message, &key, value))
}

fn user(mut fields: Fields) -> Result<Message> {
    let name = fields.text("name")?;
    let attributes = attributes(&mut fields)?;
    let user = UserMessage::new(content(&mut fields)?);
    let user = name.into_iter().fold(user, UserMessage::with_name);
    Ok(with_all(user, attributes, fields))
}

fn tool(mut fields: Fields) -> Result<Message> {
    let id = fields.text("id")?.unwrap_or_default();
    let name = fields.text("toolName")?.unwrap_or_default();
    let attributes = attributes(&mut fields)?;
    let is_error = fields.flag("isError")?;
    let tool = ToolMessage::new(id, name, content(&mut fields)?).with_error(is_error);
    Ok(with_all(tool, attributes, fields))
}

fn ai(mut fields: Fields) -> Result<Message> {
    let mut attributes = attributes(&mut fields)?;
    let mut parts: Vec<AiPart> = Vec::new();
    if let Some(text) = fields.text("thinking")? {
        let signature = signature(&mut attributes);
        let extra = match signature {
            Some(_) => keep_signed("anthropic", Attributes::new()),
            None => Attributes::new(),
        };
        parts.push(Reasoning { text, signature, extra }.into());
    }
    parts.extend(redacted(&mut attributes).into_iter().map(AiPart::from));
    if let Some(text) = fields.text("text")? {
        parts.push(Part::text(text).into());
    }
    let call = |request, at: At| Ok(call(Fields::of(request, at)?)?.into());
    parts.extend(fields.each("toolExecutionRequests", call)?);
    Ok(with_all(AiMessage::from_parts(parts), attributes, fields))
}

/// Returns the signature of the thinking, unless it is several joined ones, which can't be
/// separated again.
fn signature(attributes: &mut Attributes) -> Option<String> {
    let signature = attributes.get(SIGNATURE)?.as_str().filter(|text| !text.contains('\n'))?;
    let signature = signature.to_owned();
    attributes.remove(SIGNATURE);
    Some(signature)
}

fn redacted(attributes: &mut Attributes) -> Vec<Reasoning> {
    let Some(Value::Array(list)) = attributes.get(REDACTED) else { return Vec::new() };
    let reasoning = |data: &Value| {
        let kind = Attributes::from_iter([("type".to_owned(), REDACTED.into())]);
        Some(Reasoning {
            extra: keep_signed("anthropic", kind),
            ..Reasoning::new("").with_signature(data.as_str()?)
        })
    };
    let read: Option<Vec<_>> = list.iter().map(reasoning).collect();
    if read.is_some() {
        attributes.remove(REDACTED);
    }
    read.unwrap_or_default()
}

fn call(mut fields: Fields) -> Result<ToolCall> {
    let id = fields.text("id")?.unwrap_or_default();
    let name = fields.required_text("name")?;
    let arguments = fields.text("arguments")?.unwrap_or_default();
    let extra = keep(FORMAT, fields.rest());
    Ok(ToolCall { id, name, arguments, signature: None, extra })
}

fn attributes(fields: &mut Fields) -> Result<Attributes> {
    Ok(fields.object("attributes")?.map(Fields::whole).unwrap_or_default())
}

/// Returns the unknown fields of a message as its attribute.
fn beside(rest: Attributes) -> Attributes {
    keep(ATTRIBUTE, rest)
}

/// Reads `contents`, or the `text` of older releases.
fn content(fields: &mut Fields) -> Result<Content> {
    let read = |content, at: At| part(Fields::of(content, at)?);
    match (fields.has("contents"), fields.has("text")) {
        (true, false) => fields.each("contents", read).map(content_of),
        (false, true) => fields.required_text("text").map(Content::Text),
        (true, true) => Err(fields.at.key("text").error("beside `contents`")),
        (false, false) => Err(fields.at.key("contents").error("missing")),
    }
}

fn part(mut fields: Fields) -> Result<Part> {
    let name = fields.required_text("type")?;
    if name == "TEXT" {
        return fields.text_part(FORMAT);
    }
    let Some((kind, _, key)) = MEDIA.into_iter().find(|(_, known, _)| *known == name) else {
        let mut whole = fields.whole();
        whole.insert("type".to_owned(), name.into());
        return Ok(other_part(FORMAT, whole));
    };
    let media = media(fields, key)?;
    Ok(Part::of_kind(kind, media))
}

fn media(mut fields: Fields, key: &'static str) -> Result<Media> {
    let mut data = fields.required_object(key)?;
    let mut media = if let Some(base64) = data.text("base64Data")? {
        Media::base64("", base64)
    } else if let Some(bytes) = data.text("binaryData")? {
        Media::base64("", bytes) // Jackson writes them as base64 too
    } else if let Some(url) = data.text("url")? {
        Media::url(url)
    } else {
        return Err(data.at.error("neither `url` nor `base64Data`"));
    };
    media.media_type = data.text("mimeType")?;
    if key == "image" {
        media.detail = fields.text("detailLevel")?.map(|level| match level.as_str() {
            "LOW" => Detail::Low,
            "HIGH" => Detail::High,
            "AUTO" => Detail::Auto,
            _ => Detail::Other(level.to_ascii_lowercase()),
        });
    }
    let mut beside = fields.rest();
    put_back(&mut beside, key, data.rest());
    media.extra = keep(FORMAT, beside);
    Ok(media)
}
