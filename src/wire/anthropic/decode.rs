//! Reads answers and histories.

use std::collections::HashMap;

use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, REDACTED, TOOL_CHANGES};
use crate::error::Result;
use crate::message::base64;
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Media, Message, Part, Reasoning, SystemMessage,
    ToolCall, ToolMessage, UserMessage,
};
use crate::provider::Provider;
use crate::wire::answer::{Answer, stop_word};
use crate::wire::common::{
    At, Fields, TextOrList, content_of, keep, keep_signed, objects, other_part, text_or_list,
    with_one_system, with_rest,
};
use crate::wire::json::Json;
use crate::wire::metadata::Beside;
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// Reads a response: its whole body, or only its `role` and `content`.
///
/// Blocks that this version does not know are kept, as parts that only this format understands, and
/// written again; so are unknown fields of blocks. A tool call's arguments are its `input` without
/// white space.
///
/// ```
/// use memory_prompt::wire::{Stop, anthropic};
///
/// let answer = anthropic::answer(
///     r#"{"role":"assistant","stop_reason":"tool_use","content":[
///         {"type":"thinking","thinking":"Look it up.","signature":"c2ln"},
///         {"type":"tool_use","id":"toolu_1","name":"weather","input":{"city": "Oslo"}}]}"#,
/// )?;
/// let call = answer.message.tool_calls().next().unwrap();
/// assert_eq!(call.arguments, r#"{"city":"Oslo"}"#);
/// assert_eq!(answer.stop, Stop::Calls);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the provider answered with an error, or
/// stopped before anything was said; the error does not repeat its text, which may quote the
/// request. [`ErrorKind::Codec`](crate::ErrorKind::Codec) with the path to what can't be read.
pub fn answer<'a>(json: impl Into<Json<'a>>) -> Result<Answer> {
    let top = At::top("read anthropic answer");
    let mut fields = Fields::of(top.parse(json)?, top)?;
    refused(&fields, &["content"])?;
    if fields.text("role")?.is_some_and(|role| role != "assistant") {
        return Err(top.key("role").error("expected `assistant`"));
    }
    let usage = fields.get("usage").map_or_else(Usage::default, Usage::anthropic).with_caches();
    let word = stop_word(fields.take("stop_reason"));
    let answer = Answer::new(Provider::Anthropic, assistant(&mut fields)?, usage, word);
    Ok(answer.checked(top)?.beside(Beside::of([fields])))
}

/// Reads the messages of a request: its whole body, or only the array of its `messages`.
///
/// A `system` text, or a list of its blocks, becomes a system message before the others, and each
/// message of the role `system` becomes one in its place. Tool results become messages of their
/// own, with the tool's name from the call before them. Of a whole body, only `system` and
/// `messages` are read. `cache_control` is dropped; other unknown fields of a message become its
/// attribute [`ATTRIBUTE`], and those of an entry of results alone are dropped.
///
/// ```
/// use memory_prompt::{Message, wire::anthropic};
///
/// let history = anthropic::history(
///     r#"{"system":"Be brief.","messages":[{"role":"user","content":"hi"}]}"#,
/// )?;
/// assert_eq!(history, [Message::system("Be brief."), Message::user("hi")]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec) with the path to what can't be read, for example
/// `messages[3].content[1].type: missing`.
pub fn history<'a>(json: impl Into<Json<'a>>) -> Result<Vec<Message>> {
    let top = At::top("read anthropic history");
    let mut reader = Reader::default();
    let mut system = |body: &mut Fields| match body.take("system") {
        Some(system) => reader.system(system, top.key("system"), Attributes::new()),
        None => Ok(()),
    };
    for message in objects(top.parse(json)?, top, "messages", &mut system)? {
        reader.message(message?)?;
    }
    Ok(with_one_system(reader.read))
}

#[derive(Default)]
struct Reader {
    read: Vec<Message>,
    /// The names of tools by the ids of their calls.
    tools: HashMap<String, String>,
}

impl Reader {
    fn message(&mut self, mut fields: Fields) -> Result<()> {
        match fields.required_text("role")?.as_str() {
            "user" => self.user(fields),
            "assistant" => {
                let ai = assistant(&mut fields)?;
                let calls = ai.tool_calls();
                self.tools.extend(calls.map(|call| (call.id.clone(), call.name.clone())));
                self.read.push(with_rest(ai, ATTRIBUTE, fields.rest()));
                Ok(())
            }
            "system" => {
                let content = fields.required("content")?;
                let at = fields.at.key("content");
                self.system(content, at, fields.rest())
            }
            _ => Err(fields.at.key("role").error("unknown role")),
        }
    }

    /// Reads a system message, with the fields other than its content.
    fn system(&mut self, content: Value, at: At, mut kept: Attributes) -> Result<()> {
        let mut changes = Vec::new();
        let text = |block: Value, at: At| {
            let mut fields = Fields::of(block, at)?;
            match &*fields.required_text("type")? {
                "text" => {}
                kind @ ("tool_addition" | "tool_removal") => {
                    fields.put("type", kind);
                    changes.push(Value::Object(fields.whole()));
                    return Ok(String::new());
                }
                _ => return Err(fields.at.key("type").error("expected `text`")),
            }
            fields.take(CACHE_CONTROL);
            let text = fields.required_text("text")?;
            fields.end().map(|()| text)
        };
        let mut texts = match text_or_list(content, at, text)? {
            TextOrList::Text(text) => vec![text],
            TextOrList::List(texts) => texts,
        };
        let is_told = !texts.is_empty();
        texts.retain(|text| changes.is_empty() || !text.is_empty());
        if is_told {
            if !changes.is_empty() {
                kept.insert(TOOL_CHANGES.to_owned(), changes.into());
            }
            self.read.push(with_rest(SystemMessage::new(texts.join("\n\n")), ATTRIBUTE, kept));
        }
        Ok(())
    }

    /// Reads a user's entry: results become messages of their own, and so does the content between
    /// them.
    fn user(&mut self, mut fields: Fields) -> Result<()> {
        let (mut parts, mut has_results) = (Vec::new(), false);
        let content = fields.required("content")?;
        let read = text_or_list(content, fields.at.key("content"), |block, at| {
            let block = Fields::of(block, at)?;
            if block.peek("type") != Some("tool_result") {
                parts.push(part(block)?);
                return Ok(());
            }
            if !parts.is_empty() {
                self.read.push(Message::user(std::mem::take(&mut parts)));
            }
            let result = self.result(block)?;
            self.read.push(result);
            has_results = true;
            Ok(())
        })?;
        if let TextOrList::Text(text) = read {
            self.read.push(with_rest(UserMessage::new(text), ATTRIBUTE, fields.rest()));
            return Ok(());
        }
        if has_results && parts.is_empty() {
            return Ok(());
        }
        let content = if has_results { content_of(parts) } else { Content::from(parts) };
        self.read.push(with_rest(UserMessage::new(content), ATTRIBUTE, fields.rest()));
        Ok(())
    }

    fn result(&self, mut fields: Fields) -> Result<Message> {
        fields.take("type");
        fields.take(CACHE_CONTROL);
        let id = fields.required_text("tool_use_id")?;
        let content = if fields.has("content") {
            fields.content("content", |block, at| part(Fields::of(block, at)?))?
        } else {
            Content::from("")
        };
        let is_error = fields.flag("is_error")?;
        let name = self.tools.get(&id).cloned().unwrap_or_default();
        let tool = ToolMessage::new(id, name, content).with_error(is_error);
        Ok(with_rest(tool, ATTRIBUTE, fields.rest()))
    }
}

const CACHE_CONTROL: &str = "cache_control";

/// Reads the model's message, without the fields outside its content.
fn assistant(fields: &mut Fields) -> Result<AiMessage> {
    let read = |block, at: At| ai_part(Fields::of(block, at)?);
    Ok(match text_or_list(fields.required("content")?, fields.at.key("content"), read)? {
        TextOrList::Text(text) => AiMessage::new(text),
        TextOrList::List(parts) => AiMessage::from_parts(parts),
    })
}

pub(super) fn ai_part(mut fields: Fields) -> Result<AiPart> {
    fields.take(CACHE_CONTROL);
    match fields.peek("type") {
        Some("thinking") => {
            fields.take("type");
            let text = fields.required_text("thinking")?;
            // Servers that don't sign write an empty signature.
            let signature = fields.text("signature")?.filter(|it| !it.is_empty());
            Ok(Reasoning { text, signature, extra: keep_signed(FORMAT, fields.rest()) }.into())
        }
        Some(REDACTED) => {
            let data = fields.required_text("data")?;
            // The kind stays, to tell this from thinking.
            let extra = keep_signed(FORMAT, fields.rest());
            Ok(Reasoning { text: String::new(), signature: Some(data), extra }.into())
        }
        Some("tool_use") => {
            fields.take("type");
            let id = fields.required_text("id")?;
            let name = fields.required_text("name")?;
            let arguments = fields.object_text("input")?.unwrap_or_else(|| "{}".to_owned());
            let extra = keep(FORMAT, fields.rest());
            Ok(ToolCall { id, name, arguments, signature: None, extra }.into())
        }
        _ => Ok(part(fields)?.into()),
    }
}

/// Reads one block of a user's entry, or of a result.
fn part(mut fields: Fields) -> Result<Part> {
    fields.take(CACHE_CONTROL);
    match fields.peek("type") {
        Some("text") => fields.text_part(FORMAT),
        Some("image" | "document") => media(fields),
        Some(_) => Ok(other_part(FORMAT, fields.whole())),
        // No text: missing, or of another type.
        None => Err(match fields.required_text("type") {
            Ok(_) => fields.at.key("type").error("missing"),
            Err(error) => error,
        }),
    }
}

/// Reads a picture or a document. If [`Media`] has no place for its source (a list of blocks), the
/// block is kept whole.
fn media(mut fields: Fields) -> Result<Part> {
    let value = fields.required("source")?;
    let kind = value.get("type").and_then(Value::as_str);
    let is_document = fields.peek("type") == Some("document");
    let is_text = is_document && value["media_type"] == "text/plain" && value["data"].is_string();
    let known: &[&str] = match kind {
        Some("text") if is_text => &["type", "media_type", "data"],
        Some("base64") => &["type", "media_type", "data"],
        Some("url") => &["type", "url"],
        Some("file") => &["type", "file_id"],
        _ => &[],
    };
    let mut keys = value.as_object().into_iter().flat_map(Attributes::keys);
    if kind.is_some() && !keys.all(|key| known.contains(&key.as_str())) {
        let mut whole = fields.whole();
        whole.insert("source".to_owned(), value);
        return Ok(other_part(FORMAT, whole));
    }
    fields.take("type");
    let mut source = Fields::of(value, fields.at.key("source"))?;
    let mut media = match source.required_text("type")?.as_str() {
        "base64" => {
            Media::base64(source.required_text("media_type")?, source.required_text("data")?)
        }
        "text" => Media::base64(
            source.required_text("media_type")?,
            base64::encode(source.required_text("data")?.as_bytes()),
        ),
        "url" => Media::url(source.required_text("url")?),
        _ => Media::file_id(source.required_text("file_id")?),
    };
    if is_document {
        media.name = fields.text("title")?;
    }
    media.extra = keep(FORMAT, fields.rest());
    Ok(if is_document { Part::File(media) } else { Part::Image(media) })
}
