//! Reads Ollama's messages.

use serde_json::Value;

use super::{ATTRIBUTE, FORMAT};
use crate::error::Result;
use crate::message::{
    AiMessage, AiPart, Content, CustomMessage, Media, Message, Part, Reasoning, SystemMessage,
    ToolCall, ToolMessage, UserMessage,
};
use crate::provider::Provider;
use crate::wire::answer::{Answer, stop_word};
use crate::wire::common::{
    At, Fields, Ids, answered, expected, keep, objects, put_back, sniff, with_one_system, with_rest,
};
use crate::wire::json::Json;
use crate::wire::metadata::Beside;
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// Reads a response: its whole body, or the message in it.
///
/// Calls without ids get some, made of the body's `created_at`, so that they are unique in the
/// conversation; in a message alone they are numbered.
///
/// ```
/// use memory_prompt::wire::ollama;
///
/// let answer = ollama::answer(
///     r#"{"created_at": "2025-07-07T20:22:19.1Z", "done": true, "message": {
///         "role": "assistant", "content": "",
///         "tool_calls": [{"function": {"name": "look", "arguments": {"x": 1}}}]}}"#,
/// )?;
/// let call = answer.message.tool_calls().next().unwrap();
/// assert_eq!((call.id.as_str(), call.arguments.as_str()), ("call_202507072022191_0", r#"{"x":1}"#));
///
/// let error = ollama::answer(r#"{"message": {"content": 7}}"#).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "read ollama answer: message.content: expected a string, found a number",
/// );
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the server answered with an error;
/// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) if it says that it is not done;
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, if it is not such a response.
pub fn answer<'a>(json: impl Into<Json<'a>>) -> Result<Answer> {
    let top = At::top("read ollama answer");
    let mut body = Fields::of(top.parse(json)?, top)?;
    let usage = Usage::ollama(&body);
    refused(&body, &["done", "role"])?;
    if !body.has("message") && ["role", "content", "tool_calls"].iter().any(|key| body.has(key)) {
        let message = ai(body, &mut Ids::default())?;
        return Ok(Answer::new(Provider::Ollama, message, usage, None));
    }
    let word = stop_word(body.take("done_reason"));
    if body.get("done") == Some(&Value::Bool(false)) {
        return Err(top.key("done").unfinished("this is a piece of an answer"));
    }
    let message = body.required_object("message")?;
    let message = ai(message, &mut ids(body.peek("created_at")))?;
    let answer = Answer::new(Provider::Ollama, message, usage, word).checked(top)?;
    Ok(answer.beside(Beside::of([body])))
}

/// Reads the messages of a request: a list of them, or a body with `messages`.
///
/// A tool result is matched to its call by id, else by the tool's name, else by order.
///
/// ```
/// use memory_prompt::{Message, wire::ollama};
///
/// let messages = ollama::history(
///     r#"[{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]"#,
/// )?;
/// assert_eq!(messages, [Message::system("Be brief."), Message::user("hi")]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, if something can't be read.
pub fn history<'a>(json: impl Into<Json<'a>>) -> Result<Vec<Message>> {
    let top = At::top("read ollama history");
    let mut messages = Vec::new();
    let mut ids = Ids::default();
    // The calls without a result so far: id and name.
    let mut waiting: Vec<(String, String)> = Vec::new();
    for fields in objects(top.parse(json)?, top, "messages", &mut |_| Ok(()))? {
        let mut fields = fields?;
        let role = fields.required_text("role")?;
        messages.push(match role.to_ascii_lowercase().as_str() {
            "system" => system(fields)?,
            "user" => user(fields)?,
            "assistant" => {
                let message = ai(fields, &mut ids)?;
                waiting.clear();
                waiting
                    .extend(message.tool_calls().map(|call| (call.id.clone(), call.name.clone())));
                message.into()
            }
            "tool" => tool(fields, &mut waiting)?,
            _ => CustomMessage::of_role(role, fields.whole()).into(),
        });
    }
    Ok(with_one_system(messages))
}

/// Ids that are unique to an answer from this time.
pub(super) fn ids(created_at: Option<&str>) -> Ids {
    // Enough digits for nanoseconds, and short enough for every provider.
    Ids::after(created_at.unwrap_or_default().chars().filter(char::is_ascii_digit).take(23))
}

fn system(mut fields: Fields) -> Result<Message> {
    let message = SystemMessage::new(fields.text("content")?.unwrap_or_default());
    Ok(with_rest(message, ATTRIBUTE, fields.rest_without_empty(&CALLS)))
}

fn user(mut fields: Fields) -> Result<Message> {
    let message = UserMessage::new(content(&mut fields)?);
    Ok(with_rest(message, ATTRIBUTE, fields.rest_without_empty(&CALLS)))
}

fn tool(mut fields: Fields, waiting: &mut Vec<(String, String)>) -> Result<Message> {
    let content = content(&mut fields)?;
    let name = fields.text("tool_name")?;
    let id = fields.text("tool_call_id")?;
    let found = match (&id, &name) {
        (Some(id), _) => waiting.iter().position(|call| call.0 == *id),
        (None, Some(name)) => waiting.iter().position(|call| call.1 == *name),
        (None, None) => (!waiting.is_empty()).then_some(0),
    };
    let (call, called) = found.map(|i| waiting.remove(i)).unwrap_or_default();
    let message = ToolMessage::new(id.unwrap_or(call), name.unwrap_or(called), content);
    Ok(with_rest(message, ATTRIBUTE, fields.rest_without_empty(&CALLS)))
}

/// Clients with one type for all messages write an empty list of calls into each.
const CALLS: [&str; 1] = ["tool_calls"];

/// A text, or a text followed by images.
fn content(fields: &mut Fields) -> Result<Content> {
    let text = fields.text("content")?.unwrap_or_default();
    let images = images(fields)?;
    if images.is_empty() {
        return Ok(Content::Text(text));
    }
    let text = (!text.is_empty()).then(|| Part::text(text));
    Ok(Content::Parts(text.into_iter().chain(images).collect()))
}

fn images(fields: &mut Fields) -> Result<Vec<Part>> {
    fields.each("images", |value, at| match value {
        Value::String(data) => {
            let media_type = sniff(&data).map(str::to_owned);
            Ok(Part::Image(Media { media_type, ..Media::base64("", data) }))
        }
        other => Err(at.error(expected("a string", &other))),
    })
}

/// An assistant's message, in a response or in a request.
pub(super) fn ai(mut fields: Fields, ids: &mut Ids) -> Result<AiMessage> {
    let role = fields.text("role")?;
    if role.is_some_and(|role| !role.eq_ignore_ascii_case("assistant")) {
        return Err(fields.at.key("role").error("expected `assistant`"));
    }
    let mut parts: Vec<AiPart> = Vec::new();
    let thinking = fields.text("thinking")?.filter(|text| !text.is_empty());
    parts.extend(thinking.map(|text| AiPart::from(Reasoning::new(text))));
    parts.extend(fields.text("content")?.map(|text| AiPart::Content(Part::text(text))));
    parts.extend(images(&mut fields)?.into_iter().map(AiPart::Content));
    let call = |value, at: At| Ok(call(value, at, ids)?.into());
    parts.extend(fields.each("tool_calls", call)?);
    Ok(answered(parts, ATTRIBUTE, fields.rest()))
}

pub(super) fn call(value: Value, at: At, ids: &mut Ids) -> Result<ToolCall> {
    let mut fields = Fields::of(value, at)?;
    let id = fields.text("id")?.filter(|id| !id.is_empty()).unwrap_or_else(|| ids.next());
    let mut function = fields.required_object("function")?;
    let name = function.required_text("name")?;
    let arguments = match function.take("arguments") {
        None => "{}".to_owned(),
        Some(object @ Value::Object(_)) => object.to_string(),
        // The form of the server's OpenAI-compatible API.
        Some(Value::String(text)) => text,
        Some(other) => {
            return Err(function.at.key("arguments").error(expected("an object", &other)));
        }
    };
    function.take("index");
    let mut rest = fields.rest();
    put_back(&mut rest, "function", function.rest());
    Ok(ToolCall { extra: keep(FORMAT, rest), ..ToolCall::new(id, name, arguments) })
}
