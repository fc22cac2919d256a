//! Reads the items of Responses.

use serde_json::{Value, json};

use super::{ATTRIBUTE, FORMAT, kinds};
use crate::error::Result;
use crate::message::{
    AiMessage, AiPart, Attributes, Detail, Media, Message, Part, Reasoning, Source, SystemMessage,
    TextPart, ToolCall, ToolMessage, UserMessage,
};
use crate::provider::Provider;
use crate::wire::answer::{Answer, stop_word, stopped};
use crate::wire::common::{
    At, Fields, from_url, keep, keep_signed, list, other_part, texts, with_one_system, with_rest,
};
use crate::wire::json::Json;
use crate::wire::metadata::Beside;
use crate::wire::refused::refused;
use crate::wire::usage::Usage;

/// Reads a response: its whole body, or the list of items in its `output`.
///
/// Items that this version does not know are kept, and sent back unchanged. So are complete tool
/// results among them; an incomplete one is an error, since it could not be read again.
///
/// ```
/// use memory_prompt::wire::responses;
///
/// let answer = responses::answer(
///     r#"{"output": [
///         {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"},
///         {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look",
///          "arguments": "{\"x\": 1}", "status": "completed"}]}"#,
/// )?;
/// let call = answer.message.tool_calls().next();
/// assert_eq!(call.map(|call| call.id.as_str()), Some("call_1"));
///
/// let error = responses::answer(r#"{"output": [{"type": "reasoning", "summary": 7}]}"#).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "read responses answer: output[0].summary: expected an array, found a number",
/// );
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the provider answered with an error,
/// failed, was cancelled, or stopped before anything was said;
/// [`ErrorKind::Unfinished`](crate::ErrorKind::Unfinished) if the response is queued or in
/// progress; [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, if it is not a response.
pub fn answer<'a>(json: impl Into<Json<'a>>) -> Result<Answer> {
    let top = At::top("read responses answer");
    let mut body = match top.parse(json)? {
        Value::Array(list) => {
            let message = output_items(list, top)?;
            return Ok(Answer::new(Provider::OpenAiResponses, message, Usage::default(), None));
        }
        body => Fields::of(body, top)?,
    };
    let (usage, word) = end(&mut body)?;
    let message = output_items(body.required_list("output")?, top)?;
    let answer = Answer::new(Provider::OpenAiResponses, message, usage, word).checked(top)?;
    Ok(answer.beside(Beside::of([body])))
}

/// Returns the usage of a response and the reason why it ended; an error if it is not a finished
/// response.
pub(super) fn end(body: &mut Fields) -> Result<(Usage, Option<String>)> {
    refused(body, &["output"])?;
    let usage = body.get("usage").map_or_else(Usage::default, Usage::responses);
    let status = stop_word(body.take("status"));
    let at = body.at.key("status");
    let word = match status.as_deref() {
        Some("queued" | "in_progress") => {
            return Err(at.unfinished("the response is not there yet: ask for it again later"));
        }
        Some("failed") => return Err(stopped(at, "failed", true)),
        Some("cancelled") => return Err(stopped(at, "cancelled", false)),
        Some("incomplete") => {
            let details = body.take("incomplete_details");
            stop_word(details.and_then(|mut details| Some(details.get_mut("reason")?.take())))
        }
        _ => None,
    };
    Ok((usage, word.or(status)))
}

/// Joins the items of an answer into one message.
pub(super) fn output_items(output: Vec<Value>, top: At) -> Result<AiMessage> {
    let at = top.key("output");
    let mut parts = Vec::new();
    let answered = kinds::answered(&output);
    for (i, value) in output.into_iter().enumerate() {
        if let Some(call) = kinds::call(&value).filter(|call| !answered.contains(&call.id)) {
            parts.push(call.into());
            continue;
        }
        answer_item(Fields::of(value, at.index(i))?, &mut parts)?;
    }
    Ok(AiMessage::from_parts(parts))
}

/// Reads the items of a request: a list of them, or a body with `input`, whose `instructions`
/// become the system message.
///
/// Consecutive items that the model produced become one message. Tool results get the name of the
/// tool that they answer.
///
/// ```
/// use memory_prompt::{Message, wire::responses};
///
/// let messages = responses::history(r#"{"instructions": "Be brief.", "input": "hi"}"#)?;
/// assert_eq!(messages, [Message::system("Be brief."), Message::user("hi")]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec), with the path, if something can't be read.
pub fn history<'a>(json: impl Into<Json<'a>>) -> Result<Vec<Message>> {
    let top = At::top("read responses history");
    let at = top.key("input");
    let mut history = History::default();
    let items = match top.parse(json)? {
        Value::Array(list) => list,
        body => {
            let mut body = Fields::of(body, top)?;
            if let Some(text) = body.text("instructions")? {
                history.push(Message::system(text));
            }
            match body.required("input")? {
                Value::String(text) => {
                    history.push(Message::user(text));
                    Vec::new()
                }
                other => list(other, at)?,
            }
        }
    };
    for (i, value) in items.into_iter().enumerate() {
        history.item(value, at.index(i))?;
    }
    Ok(with_one_system(history.finish()))
}

#[derive(Default)]
struct History {
    messages: Vec<Message>,
    /// The answer that is being read.
    open: Vec<AiPart>,
    opened: bool,
    /// The place of the last answer with calls.
    asked: Option<usize>,
}

impl History {
    fn item(&mut self, value: Value, at: At) -> Result<()> {
        if let Some(call) = kinds::call(&value) {
            self.opened = true;
            self.open.push(call.into());
            return Ok(());
        }
        let mut fields = Fields::of(value, at)?;
        if let Some((kind, call)) = kinds::asked(&fields, self.calls()) {
            let result = kinds::result(kind, call, fields)?;
            self.push(result.into());
            return Ok(());
        }
        let role = fields.peek("role").unwrap_or_default();
        let message = match fields.peek("type") {
            None | Some("message") if role != "assistant" => {
                match fields.required_text("role")?.as_str() {
                    "system" | "developer" => system(fields)?,
                    "user" => user(fields)?,
                    _ => return Err(fields.at.key("role").error("not a role of this format")),
                }
            }
            Some(kind @ ("function_call_output" | "custom_tool_call_output")) => {
                let is_custom = kind == "custom_tool_call_output";
                self.close();
                result(fields, is_custom, self.asked())?
            }
            _ => {
                self.opened = true;
                return answer_item(fields, &mut self.open);
            }
        };
        self.push(message);
        Ok(())
    }

    fn push(&mut self, message: Message) {
        self.close();
        self.messages.push(message);
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.opened) {
            let message = AiMessage::from_parts(std::mem::take(&mut self.open));
            if message.has_tool_calls() {
                self.asked = Some(self.messages.len());
            }
            self.messages.push(message.into());
        }
    }

    /// Returns the calls of the answer that is being read, and those of the last one before it.
    fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        let open = self.open.iter().filter_map(AiPart::as_call);
        open.chain(self.asked().into_iter().flat_map(AiMessage::tool_calls))
    }

    fn asked(&self) -> Option<&AiMessage> {
        self.messages.get(self.asked?)?.as_ai()
    }

    fn finish(mut self) -> Vec<Message> {
        self.close();
        self.messages
    }
}

fn system(mut fields: Fields) -> Result<Message> {
    fields.take("type");
    let message = SystemMessage::new(fields.joined("content", "input_text")?);
    Ok(with_rest(message, ATTRIBUTE, fields.rest()))
}

fn user(mut fields: Fields) -> Result<Message> {
    fields.take("type");
    let message = UserMessage::new(fields.content("content", part)?);
    Ok(with_rest(message, ATTRIBUTE, fields.rest()))
}

fn result(mut fields: Fields, custom: bool, asked: Option<&AiMessage>) -> Result<Message> {
    fields.take("type");
    let id = fields.required_text("call_id")?;
    let content = fields.content("output", part)?;
    let call = asked.and_then(|asked| asked.tool_calls().find(|call| call.id == id));
    let named = fields.peek("name").map(str::to_owned);
    let name = call.map(|call| call.name.clone()).or(named).unwrap_or_default();
    let mut rest = fields.rest();
    rest.remove("custom");
    if custom && call.is_none() {
        // No other field says so.
        rest.insert("custom".to_owned(), Value::Bool(true));
    }
    Ok(with_rest(ToolMessage::new(id, name, content), ATTRIBUTE, rest))
}

fn part(value: Value, at: At) -> Result<Part> {
    let fields = Fields::of(value, at)?;
    match fields.peek("type") {
        Some("input_text") => fields.text_part(FORMAT),
        Some("input_image") => image(fields),
        Some("input_file") => file(fields),
        Some(_) => Ok(block(fields)),
        None => Err(at.key("type").error("missing")),
    }
}

fn block(fields: Fields) -> Part {
    let block = Value::Object(fields.whole());
    other_part(FORMAT, Attributes::from_iter([("block".to_owned(), block)]))
}

fn image(mut fields: Fields) -> Result<Part> {
    fields.take("type");
    let (source, media_type) = match (fields.text("image_url")?, fields.text("file_id")?) {
        (Some(url), None) => from_url(url),
        (None, Some(id)) => (Source::FileId(id), None),
        _ => return Err(fields.at.error("expected either `image_url` or `file_id`")),
    };
    let detail = fields.text("detail")?.map(Detail::from);
    let extra = keep(FORMAT, fields.rest());
    Ok(Part::Image(Media { source, media_type, name: None, detail, extra }))
}

fn file(mut fields: Fields) -> Result<Part> {
    fields.take("type");
    let name = fields.text("filename")?;
    let from = (fields.text("file_url")?, fields.text("file_id")?, fields.text("file_data")?);
    let (source, media_type) = match from {
        (Some(url), None, None) => (Source::Url(url), None),
        (None, Some(id), None) => (Source::FileId(id), None),
        (None, None, Some(data)) => match from_url(data) {
            // Base64 without a `data:` prefix.
            (Source::Url(data), _) => (Source::Base64(data), None),
            from_url => from_url,
        },
        _ => return Err(fields.at.error("expected one of `file_url`, `file_id` and `file_data`")),
    };
    let detail = fields.text("detail")?.map(Detail::from);
    let extra = keep(FORMAT, fields.rest());
    Ok(Part::File(Media { source, media_type, name, detail, extra }))
}

/// Reads an item that the model produced.
fn answer_item(mut fields: Fields, parts: &mut Vec<AiPart>) -> Result<()> {
    let part = match fields.peek("type") {
        None | Some("message") if fields.peek("role") == Some("assistant") => {
            return message(fields, parts);
        }
        // If it were kept unchanged, no reader would understand it later.
        Some("message") => {
            return Err(fields.at.key("role").error("expected `assistant` in an answer"));
        }
        Some("reasoning") => reasoning(fields)?.into(),
        Some("function_call") => {
            fields.take("type");
            call(fields, "arguments")?.into()
        }
        Some("custom_tool_call") if !fields.peek("call_id").is_some_and(kinds::is_hosted) => {
            call(fields, "input")?.into()
        }
        Some("image_generation_call") if fields.peek("result").is_some() => picture(fields)?.into(),
        Some(kind) => {
            let is_result = matches!(kind, "function_call_output" | "custom_tool_call_output");
            let at = fields.at;
            let item = Value::Object(fields.whole());
            if is_result {
                // When sent back, it is read as a result: an incomplete one would make the whole
                // history unreadable.
                result(Fields::of(item.clone(), at)?, false, None)?;
            }
            let fields = Attributes::from_iter([("item".to_owned(), item)]);
            other_part(FORMAT, fields).into()
        }
        None => return Err(fields.at.key("type").error("missing")),
    };
    parts.push(part);
    Ok(())
}

/// Reads a picture that the model made, with the item's other fields.
fn picture(mut fields: Fields) -> Result<Part> {
    let data = fields.required_text("result")?;
    let format = fields.peek("output_format").unwrap_or("png");
    let media = Media::base64(format!("image/{format}"), data);
    let item = Attributes::from_iter([("item".to_owned(), Value::Object(fields.whole()))]);
    Ok(Part::Image(Media { extra: keep(FORMAT, item), ..media }))
}

fn message(mut fields: Fields, parts: &mut Vec<AiPart>) -> Result<()> {
    let at = fields.at.key("content");
    let content = match fields.required("content")? {
        // Only a text: an answer of another format, or a client's shorthand.
        Value::String(text) if !["id", "phase", "status"].iter().any(|key| fields.has(key)) => {
            parts.push(AiPart::Content(Part::text(text)));
            return Ok(());
        }
        Value::String(text) => vec![json!({"type": "output_text", "text": text})],
        Value::Array(list) if list.is_empty() => vec![json!({"type": "output_text", "text": ""})],
        other => list(other, at)?,
    };
    fields.take("type");
    fields.take("role");
    let mut beside = Some(Value::Object(fields.rest()));
    for (i, value) in content.into_iter().enumerate() {
        parts.push(AiPart::Content(answer_block(value, at.index(i), beside.take())?));
    }
    Ok(())
}

/// Reads a block that the model produced; the first block keeps the item's other fields.
fn answer_block(value: Value, at: At, beside: Option<Value>) -> Result<Part> {
    let mut fields = Fields::of(value, at)?;
    let key = match fields.peek("type") {
        Some("output_text") => "text",
        Some("refusal") => "refusal",
        Some(_) => {
            let block = Value::Object(fields.whole());
            let mut fields = Attributes::from_iter([("block".to_owned(), block)]);
            fields.extend(beside.map(|beside| ("message".to_owned(), beside)));
            return Ok(other_part(FORMAT, fields));
        }
        None => return Err(at.key("type").error("missing")),
    };
    let text = fields.required_text(key)?;
    if key == "text" {
        fields.take("type");
    }
    // The message is kept under this name.
    fields.take("message");
    // The writer adds empty lists again.
    let mut kept = fields.rest_without_empty(&["annotations", "logprobs"]);
    kept.extend(beside.map(|beside| ("message".to_owned(), beside)));
    Ok(Part::Text(TextPart { text, extra: keep_signed(FORMAT, kept) }))
}

fn reasoning(mut fields: Fields) -> Result<Reasoning> {
    fields.take("type");
    let signature = fields.text("encrypted_content")?;
    let summary = fields.list("summary")?;
    let text = match summary.as_slice() {
        [one] => plain(one, "summary_text").map(str::to_owned),
        [] if !fields.has("content") => Some(String::new()),
        _ => None,
    };
    let mut kept = Attributes::new();
    let text = match text {
        Some(text) if !text.is_empty() || summary.is_empty() => text,
        // The block is written again unchanged; the text is only for reading.
        _ => {
            let content = fields.list("content")?;
            let all = if summary.is_empty() { &content } else { &summary };
            let text = texts(all).collect::<Vec<_>>().join("\n\n");
            if !content.is_empty() {
                kept.insert("content".to_owned(), Value::Array(content));
            }
            kept.insert("summary".to_owned(), Value::Array(summary));
            text
        }
    };
    kept.extend(fields.rest());
    Ok(Reasoning { text, signature, extra: keep_signed(FORMAT, kept) })
}

/// Returns the text of a block without other fields.
fn plain<'a>(block: &'a Value, kind: &str) -> Option<&'a str> {
    let block = block.as_object().filter(|block| block.len() == 2)?;
    let text = block.get("text")?.as_str()?;
    (block.get("type")?.as_str()? == kind).then_some(text)
}

fn call(mut fields: Fields, input: &'static str) -> Result<ToolCall> {
    let id = fields.required_text("call_id")?;
    let name = fields.required_text("name")?;
    let arguments = fields.text(input)?.unwrap_or_default();
    Ok(ToolCall { extra: keep(FORMAT, fields.rest()), ..ToolCall::new(id, name, arguments) })
}
