//! Reads answers and histories.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, SHAPE, SIGNATURE, VALUE, WHOLE};
use crate::error::{Error, Result};
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Media, Message, Part, Reasoning, TextPart, ToolCall,
    ToolMessage, UserMessage, fnv1a,
};
use crate::provider::Provider;
use crate::wire::answer::{Answer, stop_word, stopped};
use crate::wire::common::{
    At, Fields, Ids, answered, content_of, each, keep, keep_signed, objects, other_part, put_back,
    with_one_system, with_rest,
};
use crate::wire::json::Json;
use crate::wire::metadata::Beside;
use crate::wire::refused::{refused, unlisted};
use crate::wire::usage::Usage;

/// Reads a response: its whole body, or the `content` of one candidate.
///
/// Parts that this version does not know are kept, as parts that only this format understands, and
/// written again; so are unknown fields of parts.
///
/// ```
/// use memory_prompt::wire::gemini;
///
/// let answer = gemini::answer(
///     r#"{"candidates":[{"content":{"role":"model","parts":[
///         {"functionCall":{"name":"weather","args":{"city":"Oslo"}},"thoughtSignature":"c2ln"}]},
///         "finishReason":"STOP"}],"responseId":"r1"}"#,
/// )?;
/// let call = answer.message.tool_calls().next().unwrap();
/// assert_eq!((call.id.as_str(), call.arguments.as_str()), ("call_r1_0", r#"{"city":"Oslo"}"#));
/// assert_eq!(call.signature.as_deref(), Some("c2ln"));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Refused`](crate::ErrorKind::Refused) if the provider answered with an error,
/// blocked the prompt, or stopped before anything was said.
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec) with the path to what can't be read. This includes
/// several candidates: choose one, and pass its `content`.
pub fn answer<'a>(json: impl Into<Json<'a>>) -> Result<Answer> {
    let top = At::top("read gemini answer");
    let mut body = Fields::of(named(unlisted(top.parse(json)?), top)?, top)?;
    refused(&body, &["candidates"])?;
    let mut calls = Calls::default();
    if body.has("parts") || body.has("role") {
        let message = content(body, &mut calls)?;
        return Ok(Answer::new(Provider::Gemini, message, Usage::default(), None));
    }
    let is_counted = body.has("responseId") || body.has("usageMetadata");
    calls.name_after(body.peek("responseId").map(str::to_owned));
    let usage = usage(&body);
    let at = top.key("candidates");
    let Some(candidate) = candidate(&mut body)? else {
        return Err(without_candidates(&body, is_counted, at));
    };
    let mut candidate = camel_fields(candidate, at.index(0))?;
    let word = stop_word(candidate.take("finishReason"));
    let at = candidate.at;
    let message = match candidate.take("content") {
        Some(value) => content(camel_fields(value, at.key("content"))?, &mut calls)?,
        None if word.is_some() => AiMessage::new(""),
        None => return Err(at.key("content").error("missing, and no reason given")),
    };
    let answer = Answer::new(Provider::Gemini, message, usage, word).checked(at)?;
    Ok(answer.beside(Beside::of([body, candidate])))
}

/// Returns a body or a chunk with names in camel case; a stream that is not SSE is an error.
pub(super) fn named(body: Value, at: At) -> Result<Value> {
    match body {
        Value::Array(_) => Err(at.error("a list of answers: ask for `alt=sse`")),
        body => Ok(camel(body)),
    }
}

/// Returns the error of a body without a candidate. It is still a response if it has prompt
/// feedback or usage.
fn without_candidates(body: &Fields, is_counted: bool, at: At) -> Error {
    let is_of_prompt = body.has("promptFeedback");
    if is_of_prompt || is_counted { stopped(at, "", !is_of_prompt) } else { at.error("missing") }
}

pub(super) fn usage(body: &Fields) -> Usage {
    let usage = body.get("usageMetadata").cloned();
    usage.map_or_else(Usage::default, |usage| Usage::gemini(&camel(usage)))
}

/// Reads the messages of a request: its whole body, or only the array of its `contents`.
///
/// A `systemInstruction` becomes a system message before the others. Function responses become
/// messages of their own; one without an id answers the first earlier call with its name that has
/// no answer yet. Of a whole body, only `systemInstruction` and `contents` are read.
///
/// ```
/// use memory_prompt::{Message, wire::gemini};
///
/// let history = gemini::history(
///     r#"{"system_instruction":{"parts":[{"text":"Be brief."}]},
///         "contents":[{"role":"user","parts":[{"text":"hi"}]}]}"#,
/// )?;
/// assert_eq!(history, [Message::system("Be brief."), Message::user("hi")]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # Errors
///
/// [`ErrorKind::Codec`](crate::ErrorKind::Codec) with the path to what can't be read, for example
/// `contents[3].parts[1].functionCall.name: missing`.
pub fn history<'a>(json: impl Into<Json<'a>>) -> Result<Vec<Message>> {
    let top = At::top("read gemini history");
    let mut reader = Reader::default();
    let mut system = |body: &mut Fields| match body.take("systemInstruction") {
        Some(system) => reader.system(system, top.key("systemInstruction")),
        None => Ok(()),
    };
    let list = objects(camel(top.parse(json)?), top, "contents", &mut system)?;
    for (i, entry) in list.enumerate() {
        let entry = entry?;
        let at = entry.at;
        reader.entry(i, camel_fields(Value::Object(entry.whole()), at)?)?;
    }
    Ok(with_one_system(reader.read))
}

/// Takes the first candidate from a body; `None` if there is none yet.
pub(super) fn candidate(body: &mut Fields) -> Result<Option<Value>> {
    let mut candidates = body.list("candidates")?.into_iter();
    let first = candidates.next();
    if candidates.next().is_some() {
        return Err(body.at.key("candidates").index(1).error("a second candidate: choose one"));
    }
    if first.is_none()
        && let Some(feedback) = body.get("promptFeedback")
        && let Some(reason) = feedback.get("blockReason").and_then(Value::as_str)
    {
        return Err(stopped(body.at.key("promptFeedback"), reason, false));
    }
    Ok(first)
}

/// Wraps a single object in `parts` into a list: the API takes both.
fn one_is_a_list(fields: &mut Fields) {
    if let Some(part @ Value::Object(_)) = fields.get("parts").cloned() {
        fields.put("parts", Value::Array(vec![part]));
    }
}

fn content(mut fields: Fields, calls: &mut Calls) -> Result<AiMessage> {
    check_role(&mut fields)?;
    ai(fields, calls)
}

/// Refuses content of any role except the model's.
pub(super) fn check_role(fields: &mut Fields) -> Result<()> {
    match fields.text("role")?.filter(|role| role != "model") {
        None => Ok(()),
        Some(_) => Err(fields.at.key("role").error("expected `model`")),
    }
}

fn ai(mut fields: Fields, calls: &mut Calls) -> Result<AiMessage> {
    let part = |part, at: At| ai_part(camel_fields(part, at)?, calls);
    let parts: Vec<_> = fields.each("parts", part)?.into_iter().flatten().collect();
    Ok(answered(parts, ATTRIBUTE, fields.rest()))
}

/// Makes up ids for calls without one.
///
/// They must be unique in a conversation, since other providers demand it, and the same whenever
/// the same answer is read.
#[derive(Debug, Default)]
pub(super) struct Calls(Ids);

impl Calls {
    /// Bases the ids on the answer's own id.
    pub(super) fn name_after(&mut self, response_id: Option<String>) {
        if let Some(name) = response_id {
            self.0.rename(name.chars());
        }
    }

    fn id(&mut self, name: &str, arguments: &str, signature: Option<&str>) -> String {
        if !self.0.are_nameless() {
            return self.0.next();
        }
        let texts = [name, arguments, signature.unwrap_or_default()];
        let hash = fnv1a(texts.iter().flat_map(|text| text.bytes()));
        self.0.rename(format!("{hash:016x}").chars());
        let id = self.0.next();
        self.0.rename([]);
        id
    }
}

#[derive(Default)]
struct Reader {
    read: Vec<Message>,
    /// The ids of the last answer's calls without a result, by tool.
    open: HashMap<String, VecDeque<String>>,
}

impl Reader {
    fn system(&mut self, value: Value, at: At) -> Result<()> {
        let text = match value {
            Value::String(text) => text,
            value => {
                let mut fields = camel_fields(value, at)?;
                let text = |part, at: At| {
                    let mut part = Fields::of(part, at)?;
                    let text = part.required_text("text")?;
                    // The Python client writes `thought: false` on other parts.
                    part.retain(|key| key != "thought");
                    part.end().map(|()| text)
                };
                one_is_a_list(&mut fields);
                fields.each("parts", text)?.join("\n\n")
            }
        };
        if !text.is_empty() {
            self.read.push(Message::system(text));
        }
        Ok(())
    }

    fn entry(&mut self, index: usize, mut fields: Fields) -> Result<()> {
        one_is_a_list(&mut fields);
        match fields.text("role")?.as_deref() {
            Some("model") => self.model(index, fields),
            // Results once had a role of their own.
            None | Some("user" | "function" | "tool") => self.user(index, fields),
            Some(_) => Err(fields.at.key("role").error("unknown role")),
        }
    }

    fn model(&mut self, index: usize, fields: Fields) -> Result<()> {
        let ai = ai(fields, &mut Calls(Ids::after(index.to_string().chars())))?;
        if self.read.last().is_none_or(|before| before.as_ai().is_none()) {
            self.open.clear();
        }
        for call in ai.tool_calls() {
            self.open.entry(call.name.clone()).or_default().push_back(call.id.clone());
        }
        self.read.push(ai.into());
        Ok(())
    }

    fn user(&mut self, index: usize, mut fields: Fields) -> Result<()> {
        let at = fields.at.key("parts");
        let (mut parts, mut has_results) = (Vec::new(), false);
        for (i, value) in fields.list("parts")?.into_iter().enumerate() {
            let part = camel_fields(value, at.index(i))?;
            if !part.has("functionResponse") {
                parts.extend(self::part(part)?);
                continue;
            }
            if !parts.is_empty() {
                self.read.push(user(std::mem::take(&mut parts), Attributes::new()));
            }
            let made_up = || format!("result_{index}_{i}");
            let result = self.result(part, made_up)?;
            self.read.push(result);
            has_results = true;
        }
        if has_results && parts.is_empty() {
            return fields.end();
        }
        self.read.push(user(parts, fields.rest()));
        Ok(())
    }

    fn result(&mut self, mut part: Fields, made_up: impl Fn() -> String) -> Result<Message> {
        let at = part.at.key("functionResponse");
        let mut response = camel_fields(part.required("functionResponse")?, at)?;
        let name = response.required_text("name")?;
        let mut none = VecDeque::new();
        let open = self.open.get_mut(&name).unwrap_or(&mut none);
        let id = match response.text("id")?.filter(|id| !id.is_empty()) {
            Some(id) => {
                open.retain(|other| *other != id);
                id
            }
            None => open.pop_front().unwrap_or_else(made_up),
        };
        let said = response.object("response")?.map(|response| result_content(response.whole()));
        let (content, is_error, shape) = said.unwrap_or_else(|| (Content::from(""), false, None));
        let media = response.list("parts")?;
        let content = if media.is_empty() { content } else { with_media(content, media, at)? };
        let tool = ToolMessage::new(id, name, content).with_error(is_error);
        let mut rest = part.rest();
        let mut inner = response.rest();
        inner.extend(shape.map(|shape| (SHAPE.to_owned(), shape.into())));
        put_back(&mut rest, "functionResponse", inner);
        Ok(with_rest(tool, ATTRIBUTE, rest))
    }
}

/// Reads a `response`: the text or texts of its `output` or `error`, else its JSON.
fn result_content(mut response: Attributes) -> (Content, bool, Option<&'static str>) {
    let is_error = response.contains_key("error");
    let key = if is_error { "error" } else { "output" };
    let only = if response.len() == 1 { response.remove(key) } else { None };
    let (content, shape) = match only {
        Some(Value::String(text)) => (Content::Text(text), None),
        Some(Value::Array(list)) if list.iter().all(Value::is_string) => {
            let texts = list.iter().filter_map(Value::as_str);
            (Content::from(texts.map(Part::from).collect::<Vec<_>>()), None)
        }
        Some(other) => (Content::Text(other.to_string()), Some(VALUE)),
        None if response.is_empty() => (Content::from(""), None),
        None => (Content::Text(Value::Object(response).to_string()), Some(WHOLE)),
    };
    (content, is_error, shape)
}

fn with_media(content: Content, media: Vec<Value>, at: At) -> Result<Content> {
    let mut parts = match content {
        Content::Text(text) => vec![Part::text(text)],
        Content::Parts(parts) => parts.into_vec(),
    };
    let read = |value, at: At| part(camel_fields(value, at)?);
    parts.extend(each(media, at.key("parts"), read)?.into_iter().flatten());
    Ok(Content::from(parts))
}

fn user(parts: Vec<Part>, rest: Attributes) -> Message {
    with_rest(UserMessage::new(content_of(parts)), ATTRIBUTE, rest)
}

/// Reads one part of an answer; `None` if it is empty.
pub(super) fn ai_part(mut fields: Fields, calls: &mut Calls) -> Result<Option<AiPart>> {
    if let Some(value) = fields.take("functionCall") {
        let value = camel_fields(value, fields.at.key("functionCall"))?;
        if value.has("partialArgs") || value.has("willContinue") {
            let what = "arguments come in pieces in a stream alone";
            return Err(value.at.key("partialArgs").error(what));
        }
        return call(value, fields, calls).map(|call| Some(call.into()));
    }
    if !fields.has("text") || !fields.flag("thought")? {
        return Ok(part(fields)?.map(AiPart::from));
    }
    let text = fields.required_text("text")?;
    let signature = fields.text(SIGNATURE)?;
    let rest = fields.rest();
    let extra = if signature.is_some() { keep_signed(FORMAT, rest) } else { keep(FORMAT, rest) };
    Ok(Some(Reasoning { text, signature, extra }.into()))
}

/// Reads a call, with the other fields of its part.
pub(super) fn call(mut fields: Fields, mut beside: Fields, calls: &mut Calls) -> Result<ToolCall> {
    let name = fields.required_text("name")?;
    let arguments = fields.object_text("args")?.unwrap_or_else(|| "{}".to_owned());
    let signature = beside.text(SIGNATURE)?;
    let id = fields.text("id")?.filter(|id| !id.is_empty());
    let mut rest = fields.rest();
    let id = id.unwrap_or_else(|| {
        rest.insert("id".to_owned(), Value::Null);
        calls.id(&name, &arguments, signature.as_deref())
    });
    let mut beside = beside.rest();
    put_back(&mut beside, "functionCall", rest);
    Ok(ToolCall { id, name, arguments, signature, extra: keep(FORMAT, beside) })
}

/// Reads a part that is not a call, a result or a thought; `None` if it is empty.
fn part(mut fields: Fields) -> Result<Option<Part>> {
    if let Some(key) = ["inlineData", "fileData"].into_iter().find(|key| fields.has(key)) {
        return media(fields, key).map(Some);
    }
    if !fields.has("text") {
        let rest = fields.rest();
        return Ok(if rest.is_empty() { None } else { Some(other_part(FORMAT, rest)) });
    }
    let text = fields.required_text("text")?;
    Ok(Some(Part::Text(TextPart { text, extra: keep(FORMAT, fields.rest()) })))
}

fn media(mut fields: Fields, key: &'static str) -> Result<Part> {
    let mut source = camel_fields(fields.required(key)?, fields.at.key(key))?;
    let media_type = source.text("mimeType")?;
    let mut media = if key == "inlineData" {
        Media::base64("", source.required_text("data")?)
    } else {
        let uri = source.required_text("fileUri")?;
        if uri.contains(':') { Media::url(uri) } else { Media::file_id(uri) }
    };
    media.media_type = media_type;
    let mut beside = fields.rest();
    put_back(&mut beside, key, source.rest());
    media.extra = keep(FORMAT, beside);
    let kind = media.media_type.as_deref().and_then(|it| it.split_once('/'));
    let kind = kind.map(|(kind, _)| kind.to_owned()).unwrap_or_default();
    Ok(Part::of_kind(&kind, media))
}

/// Returns the fields of an object, with names in camel case.
pub(super) fn camel_fields(value: Value, at: At) -> Result<Fields> {
    Fields::of(camel(value), at)
}

/// Converts the names of an object's fields to camel case, as the API writes them. Google's Python
/// client prints them in snake case, and the API takes both.
pub(super) fn camel(value: Value) -> Value {
    match value {
        Value::Object(fields) if fields.keys().any(|key| key.contains('_')) => {
            Value::Object(fields.into_iter().map(|(key, value)| (camel_key(&key), value)).collect())
        }
        other => other,
    }
}

fn camel_key(key: &str) -> String {
    let mut words = key.split('_');
    let mut camel = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        camel.extend(letters.next().map(|c| c.to_ascii_uppercase()));
        camel.push_str(letters.as_str());
    }
    camel
}
