//! Reads Chat Completions messages.

use serde_json::Value;

use super::{ATTRIBUTE, FORMAT};
use crate::error::Result;
use crate::message::{
    AiMessage, AiPart, Attributes, CustomMessage, Detail, Media, Message, Part, Reasoning, Source,
    SystemMessage, TextPart, ToolCall, ToolMessage, UserMessage,
};
use crate::provider::Provider;
use crate::wire::answer::{Answer, Stop, stop_word};
use crate::wire::common::{
    At, Fields, Ids, TextOrList, answered, expected, from_url, keep, objects, other_part, put_back,
    text_or_list, texts, with_one_system, with_rest,
};
use crate::wire::json::Json;
use crate::wire::metadata::Beside;
use crate::wire::refused::{refused, unlisted};
use crate::wire::usage::Usage;

/// Reads a response: its whole body, or the message in it.
///
/// ```
/// use memory_prompt::wire::{Stop, openai};
///
/// let answer = openai::answer(
///     r#"{"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
///         "role": "assistant", "content": null, "refusal": null,
///         "tool_calls": [{"id": "call_1", "type": "function",
///                         "function": {"name": "look", "arguments": "{\"x\": 1}"}}]}}]}"#,
/// )?;
/// let call = answer.message.tool_calls().next();
/// assert_eq!(call.map(|call| call.arguments.as_str()), Some(r#"{"x": 1}"#));
/// assert_eq!((answer.stop, answer.stop_word.as_deref()), (Stop::Calls, Some("tool_calls")));
///
/// let error = openai::answer(r#"{"choices": [{"message": {"content": 7}}]}"#).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "read openai answer: choices[0].message.content: expected a string or an array, found a number",
/// );
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the provider answered with an error, or
/// stopped before anything was said. [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path,
/// if it is not such a response, or has more than one choice (read the message of the one that you
/// want).
pub fn answer<'a>(json: impl Into<Json<'a>>) -> Result<Answer> {
    let top = At::top("read openai answer");
    let mut body = Fields::of(unlisted(top.parse(json)?), top)?;
    refused(&body, &["choices", "role"])?;
    let mut ids = Ids::default();
    name_after(&mut ids, &body);
    if !body.has("choices") && ["role", "content", "tool_calls"].iter().any(|key| body.has(key)) {
        let message = ai(body, &mut ids)?;
        return Ok(Answer::new(Provider::OpenAi, message, Usage::default(), None));
    }
    let usage = usage(&body);
    let choices = top.key("choices");
    let mut list = body.required_list("choices")?;
    let (Some(choice), true) = (list.pop(), list.is_empty()) else {
        return Err(choices.error("expected exactly one choice"));
    };
    let mut choice = Fields::of(choice, choices.index(0))?;
    refused(&choice, &["message"])?;
    let word = stop_word(choice.take("finish_reason"));
    let message = match choice.object("message")? {
        Some(message) => ai(message, &mut ids)?,
        // Azure and Google leave the message out if they have filtered all of it.
        None => match Stop::of(word.as_deref(), false, false) {
            Stop::Filtered | Stop::Malformed => AiMessage::new(""),
            _ => return Err(choice.at.key("message").error("missing")),
        },
    };
    let answer = Answer::new(Provider::OpenAi, message, usage, word).checked(choice.at)?;
    Ok(answer.beside(Beside::of([choice, body])))
}

/// Returns the usage in a body or a chunk; Groq has it in a field of its own.
pub(super) fn usage(body: &Fields) -> Usage {
    let beside = || body.get("x_groq")?.get("usage");
    body.get("usage")
        .filter(|usage| usage.is_object())
        .or_else(beside)
        .map_or_else(Usage::default, Usage::chat)
}

/// Bases the ids of calls without one on the answer's id.
pub(super) fn name_after(ids: &mut Ids, body: &Fields) {
    let plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if let (true, Some(id)) = (ids.are_nameless(), body.peek("id").filter(|id| !id.is_empty())) {
        ids.rename(id.chars().filter(plain).take(48));
    }
}

/// Reads the messages of a request: a list of them, or a body with `messages`.
///
/// Tool results get the name of the tool that they answer.
///
/// ```
/// use memory_prompt::{Message, wire::openai};
///
/// let messages = openai::history(
///     r#"[{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]"#,
/// )?;
/// assert_eq!(messages, [Message::system("Be brief."), Message::user("hi")]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, if something can't be read.
pub fn history<'a>(json: impl Into<Json<'a>>) -> Result<Vec<Message>> {
    let top = At::top("read openai history");
    let list = objects(top.parse(json)?, top, "messages", &mut |_| Ok(()))?;
    let mut messages = Vec::new();
    // The answer whose calls the next tool messages answer.
    let mut calling: Option<usize> = None;
    for (i, fields) in list.enumerate() {
        let asked = calling.and_then(|i| messages.get(i)).and_then(Message::as_ai);
        let message = message(fields?, i, asked)?;
        if message.has_tool_calls() {
            calling = Some(i);
        }
        messages.push(message);
    }
    Ok(with_one_system(messages))
}

fn message(mut fields: Fields, i: usize, asked: Option<&AiMessage>) -> Result<Message> {
    let role = fields.required_text("role")?;
    match role.as_str() {
        "system" | "developer" => system(fields),
        "user" => user(fields),
        "assistant" => {
            let function = fields
                .take("function_call")
                .filter(|call| call.get("name") != Some(&Value::from("")));
            let at = fields.at;
            let message = assistant(fields, None)?;
            Ok(Message::Ai(match function {
                Some(value) => message.with_tool_call(function_call(value, at, i)?),
                None => message,
            }))
        }
        "tool" => tool(fields, asked),
        "function" => function(fields, asked),
        _ => Ok(Message::Custom(CustomMessage::of_role(role, fields.whole()))),
    }
}

fn system(mut fields: Fields) -> Result<Message> {
    let message = SystemMessage::new(fields.joined("content", "text")?);
    let message = fields.text("name")?.into_iter().fold(message, SystemMessage::with_name);
    Ok(with_rest(message, ATTRIBUTE, fields.rest()))
}

fn user(mut fields: Fields) -> Result<Message> {
    let message = UserMessage::new(fields.content("content", part)?);
    let message = fields.text("name")?.into_iter().fold(message, UserMessage::with_name);
    Ok(with_rest(message, ATTRIBUTE, fields.rest()))
}

fn tool(mut fields: Fields, asked: Option<&AiMessage>) -> Result<Message> {
    let id = fields.required_text("tool_call_id")?;
    let content = fields.content("content", part)?;
    let named = fields.text("name")?;
    let call = asked.and_then(|asked| asked.tool_calls().find(|call| call.id == id));
    let name = call.map(|call| call.name.clone()).or(named).unwrap_or_default();
    Ok(with_rest(ToolMessage::new(id, name, content), ATTRIBUTE, fields.rest()))
}

/// Reads the deprecated result of a `function_call`.
fn function(mut fields: Fields, asked: Option<&AiMessage>) -> Result<Message> {
    let name = fields.required_text("name")?;
    let call = asked.and_then(|asked| asked.tool_calls().find(|call| call.name == name));
    let id = call.map(|call| call.id.clone()).unwrap_or_default();
    let content = fields.text("content")?.unwrap_or_default();
    Ok(with_rest(ToolMessage::new(id, name, content), ATTRIBUTE, fields.rest()))
}

fn part(value: Value, at: At) -> Result<Part> {
    // Some servers take plain strings in a list.
    if let Value::String(text) = value {
        return Ok(Part::text(text));
    }
    let mut fields = Fields::of(value, at)?;
    match fields.peek("type") {
        Some("text") => fields.text_part(FORMAT),
        Some("image_url") => image(fields),
        Some("input_audio") => audio(fields),
        // Mistral's file and document.
        Some("file") if fields.peek("file_id").is_some() => {
            let id = fields.required_text("file_id")?;
            Ok(Part::File(bare(Source::FileId(id), None, fields)))
        }
        Some("document_url") => {
            let (source, media_type) = from_url(fields.required_text("document_url")?);
            let name = fields.text("document_name")?;
            Ok(Part::File(Media { name, ..bare(source, media_type, fields) }))
        }
        Some("file") => file(fields),
        Some(_) => Ok(other_part(FORMAT, fields.whole())),
        None => Err(at.key("type").error("missing")),
    }
}

/// Returns media that keep the rest of a block and of the object in it.
fn media(source: Source, key: &str, mut outer: Fields, inner: Fields) -> Media {
    outer.take("type");
    let mut rest = outer.rest();
    put_back(&mut rest, key, inner.rest());
    Media { source, media_type: None, name: None, detail: None, extra: keep(FORMAT, rest) }
}

/// Reads media whose source is in the block itself.
fn bare(source: Source, media_type: Option<String>, mut fields: Fields) -> Media {
    fields.take("type");
    Media { source, media_type, name: None, detail: None, extra: keep(FORMAT, fields.rest()) }
}

fn image(mut fields: Fields) -> Result<Part> {
    let mut inner = match fields.required("image_url")? {
        // Mistral takes just the address.
        Value::String(url) => Fields::of(serde_json::json!({ "url": url }), fields.at)?,
        object => Fields::of(object, fields.at.key("image_url"))?,
    };
    let url = inner.required_text("url")?;
    let detail = inner.text("detail")?.map(Detail::from);
    let (source, media_type) = from_url(url);
    Ok(Part::Image(Media { media_type, detail, ..media(source, "image_url", fields, inner) }))
}

fn is_address(data: &str) -> bool {
    data.starts_with("https://") || data.starts_with("http://")
}

fn audio(mut fields: Fields) -> Result<Part> {
    let mut inner = match fields.required("input_audio")? {
        // Mistral takes just the data, or an address.
        Value::String(data) => {
            let (source, media_type) = if is_address(&data) || data.starts_with("data:") {
                from_url(data)
            } else {
                (Source::Base64(data), None)
            };
            return Ok(Part::Audio(bare(source, media_type, fields)));
        }
        object => Fields::of(object, fields.at.key("input_audio"))?,
    };
    let source = Source::Base64(inner.required_text("data")?);
    let media_type = match inner.peek("format") {
        Some("wav") => Some("audio/wav".to_owned()),
        Some("mp3") => Some("audio/mpeg".to_owned()),
        // The field stays in place and is written again.
        Some(format) => Some(format!("audio/{format}")),
        None => return Err(inner.at.key("format").error("missing")),
    };
    if matches!(inner.peek("format"), Some("wav" | "mp3")) {
        inner.take("format");
    }
    Ok(Part::Audio(Media { media_type, ..media(source, "input_audio", fields, inner) }))
}

fn file(mut fields: Fields) -> Result<Part> {
    let mut inner = fields.required_object("file")?;
    let name = inner.text("filename")?;
    let (source, media_type) = match (inner.text("file_id")?, inner.text("file_data")?) {
        (Some(id), None) => (Source::FileId(id), None),
        (None, Some(data)) => match from_url(data) {
            // Base64 without a prefix; OpenRouter takes an address here.
            (Source::Url(data), _) if !is_address(&data) => (Source::Base64(data), None),
            from_url => from_url,
        },
        _ => return Err(inner.at.error("expected either `file_id` or `file_data`")),
    };
    Ok(Part::File(Media { media_type, name, ..media(source, "file", fields, inner) }))
}

/// Reads an assistant's message in a response, whose calls need ids.
pub(super) fn ai(fields: Fields, ids: &mut Ids) -> Result<AiMessage> {
    assistant(fields, Some(ids))
}

/// Reads an assistant's message, in a response or in a request.
fn assistant(mut fields: Fields, mut ids: Option<&mut Ids>) -> Result<AiMessage> {
    let at = fields.at;
    // MiniMax has streamed an empty one.
    if !matches!(fields.text("role")?.as_deref(), None | Some("" | "assistant")) {
        return Err(at.key("role").error("expected `assistant`"));
    }
    let mut parts: Vec<AiPart> = Vec::new();
    parts.extend(reasoning(&mut fields)?.map(AiPart::Reasoning));
    match fields.take("content") {
        None => {}
        // Cloudflare sends an object if JSON was requested.
        Some(object @ Value::Object(_)) => parts.push(Part::text(object.to_string()).into()),
        Some(content) => match text_or_list(content, at.key("content"), answer_block)? {
            TextOrList::Text(text) => parts.push(AiPart::Content(Part::text(text))),
            TextOrList::List(said) => parts.extend(said),
        },
    }
    // Snowflake writes an empty value if there is no refusal.
    if let Some(text) = fields.text("refusal")?.filter(|text| !text.is_empty()) {
        parts.push(AiPart::Content(refusal(text, Attributes::new())));
    }
    let is_there = |value: &Value, key: &str| value.get(key) != Some(&Value::from(""));
    if let Some(audio) = fields.take("audio").filter(|audio| is_there(audio, "id")) {
        let mut audio = Fields::of(audio, at.key("audio"))?;
        let media = Media::file_id(audio.required_text("id")?);
        let extra = keep(FORMAT, audio.rest());
        parts.push(AiPart::Content(Part::Audio(Media { extra, ..media })));
    }
    // Pictures that the model made; OpenRouter has a separate field for them.
    let is_picture = |one: &Value| one["image_url"]["url"].is_string();
    let made = fields.get("images").and_then(Value::as_array);
    if made.is_some_and(|list| list.iter().all(is_picture)) {
        let pictures = fields.each("images", |value, at| image(Fields::of(value, at)?))?;
        parts.extend(pictures.into_iter().map(AiPart::Content));
    }
    for mut call in fields.each("tool_calls", call)? {
        if let (true, Some(ids)) = (call.id.is_empty(), &mut ids) {
            call.id = ids.next();
        }
        parts.push(AiPart::ToolCall(call));
    }
    if let Some(value) = fields.take("function_call").filter(|call| is_there(call, "name")) {
        parts.push(AiPart::ToolCall(function_call(value, at, 0)?));
    }
    let name = fields.text("name")?;
    // OpenAI writes an empty list into every answer, which is not kept.
    let message = answered(parts, ATTRIBUTE, fields.rest_without_empty(&["annotations"]));
    Ok(name.into_iter().fold(message, AiMessage::with_name))
}

/// Returns the reasoning under any of its names.
fn reasoning(fields: &mut Fields) -> Result<Option<Reasoning>> {
    let mut text = fields.text("reasoning_content")?.filter(|text| !text.is_empty());
    if fields.peek("reasoning").is_some() {
        let same = text.is_none() || text.as_deref() == fields.peek("reasoning");
        if same {
            // Servers that write both write the same.
            text = fields.text("reasoning")?;
        }
    }
    let mut kept = Attributes::new();
    if let Some(details) = fields.take("reasoning_details") {
        kept.insert("reasoning_details".to_owned(), details);
    }
    // An empty text only says that there was nothing to say.
    let text = text.unwrap_or_default();
    if text.is_empty() && kept.is_empty() {
        return Ok(None);
    }
    Ok(Some(Reasoning { extra: keep(FORMAT, kept), ..Reasoning::new(text) }))
}

fn answer_block(value: Value, at: At) -> Result<AiPart> {
    let part = match value.get("type").and_then(Value::as_str) {
        Some("thinking") => return thought(Fields::of(value, at)?),
        Some("refusal") => {
            let mut fields = Fields::of(value, at)?;
            fields.take("type");
            let text = fields.required_text("refusal")?;
            refusal(text, fields.rest())
        }
        // Block types of user messages are not expected in an answer, and are kept unchanged.
        Some("image_url" | "input_audio" | "file") => {
            other_part(FORMAT, Fields::of(value, at)?.whole())
        }
        _ => part(value, at)?,
    };
    Ok(AiPart::Content(part))
}

/// Reads a block of Mistral's reasoning. Its texts are joined; if it contains anything other than
/// plain text, it is kept unchanged.
fn thought(mut fields: Fields) -> Result<AiPart> {
    let thinking = fields.required("thinking")?;
    let text = match &thinking {
        Value::String(text) => text.clone(),
        Value::Array(list) => texts(list).collect(),
        other => return Err(fields.at.key("thinking").error(expected("an array", other))),
    };
    // The type stays, to mark this as a block of the content.
    let mut rest = fields.rest();
    if thinking != serde_json::json!([{"type": "text", "text": text}]) {
        rest.insert("thinking".to_owned(), thinking);
    }
    Ok(Reasoning { extra: keep(FORMAT, rest), ..Reasoning::new(text) }.into())
}

fn refusal(text: String, mut rest: Attributes) -> Part {
    rest.insert("type".to_owned(), Value::from("refusal"));
    Part::Text(TextPart { text, extra: keep(FORMAT, rest) })
}

fn call(value: Value, at: At) -> Result<ToolCall> {
    let mut fields = Fields::of(value, at)?;
    let id = fields.text("id")?.unwrap_or_default();
    let kind = fields.text("type")?;
    let custom = kind.as_deref() == Some("custom");
    let (key, input) = if custom { ("custom", "input") } else { ("function", "arguments") };
    // The position in the list, which some servers write and OpenAI refuses.
    fields.take("index");
    let mut inner = fields.required_object(key)?;
    let name = inner.required_text("name")?;
    let arguments = arguments(&mut inner, input)?;
    let mut rest = fields.rest();
    put_back(&mut rest, key, inner.rest());
    if let Some(kind) = kind.filter(|kind| !matches!(kind.as_str(), "" | "function")) {
        rest.insert("type".to_owned(), kind.into());
    }
    Ok(ToolCall { extra: keep(FORMAT, rest), ..ToolCall::new(id, name, arguments) })
}

/// Returns the arguments as the model wrote them; some servers send an object instead of a text.
fn arguments(fields: &mut Fields, key: &'static str) -> Result<String> {
    match fields.take(key) {
        None => Ok(String::new()),
        Some(Value::String(text)) => Ok(text),
        Some(object @ Value::Object(_)) => Ok(object.to_string()),
        Some(other) => Err(fields.at.key(key).error(expected("a string", &other))),
    }
}

/// The id for a deprecated `function_call` in an answer.
pub(super) const FUNCTION_ID: &str = "function_0";

/// Reads a deprecated call, which had no id. Its id is made from its place in the conversation.
fn function_call(value: Value, at: At, i: usize) -> Result<ToolCall> {
    let mut fields = Fields::of(value, at.key("function_call"))?;
    let name = fields.required_text("name")?;
    let arguments = arguments(&mut fields, "arguments")?;
    Ok(ToolCall::new(format!("function_{i}"), name, arguments))
}
