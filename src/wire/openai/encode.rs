//! Writes messages for Chat Completions.

use std::borrow::Cow;

use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, Messages, Options};
use crate::message::{
    AiMessage, AiPart, Media, Message, Part, Reasoning, Source, TextPart, ToolCall,
};
use crate::provider::{
    Files, Provider, ReasoningField, Row, attributes, audio_format, goes_back, has_place,
};
use crate::wire::blocks::{self, Block, Joins};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{
    NO_SIGNATURE, as_other_part, inline, input, kept, kept_object, kept_type,
};
use crate::wire::losses::{REASONING, Weight};
use crate::wire::media::detail;
use crate::wire::terms::{Sent, says_something};
use crate::wire::view::{ForProvider, Marks, MessageFormat};

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::OpenAi;
    const OPERATION: &'static str = "write openai messages";

    fn messages<'s>(view: &Messages<'_>, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>> {
        let writer = Writer { row: &view.terms.row };
        let message = |sent: &'s Sent<'_>| (sent.index, writer.message(sent));
        let mut written: Vec<(usize, Object<'s>)> = sent.iter().map(message).collect();
        let mark = |message: &mut Object<'s>, cache| {
            let content = message.get_mut("content");
            content.is_some_and(|content| blocks::mark(content, "text", (writer.row, cache)))
        };
        if blocks::has_control(writer.row) {
            let is_answer = |message: &Object<'s>| message.text("role") == "assistant";
            let has_marks =
                |message: &Object<'s>| message.get("content").is_some_and(blocks::is_marked);
            let blocks = |message: &Object<'s>| {
                let held = ["content", "tool_calls", "reasoning_details"].map(|it| message.get(it));
                let many = |it: &BorrowedValue<'_>| match it {
                    BorrowedValue::Kept(Value::Array(all)) => all.len(),
                    it => it.as_list().map_or(1, <[_]>::len),
                };
                held.into_iter().flatten().map(many).sum()
            };
            view.mark_twice(&mut written, is_answer, has_marks, blocks, mark);
        } else {
            view.mark(&mut written, mark);
        }
        written.into_iter().map(|(_, message)| message.into()).collect()
    }
}

impl ForProvider for Options {}
impl Marks for Options {}

struct Writer<'w> {
    row: &'w Row,
}

impl Writer<'_> {
    fn message<'s>(&self, sent: &'s Sent<'_>) -> Object<'s> {
        let own = match &*sent.message {
            Message::System(m) => {
                let role = if self.row.developer { "developer" } else { "system" };
                let name = self.name(m.name());
                Object::of([("role", role.into()), ("content", m.text().into()), ("name", name)])
            }
            Message::User(m) => {
                let flat = if self.row.flat_text { Joins::All } else { Joins::Nothing };
                let block = |part| self.block(part);
                let content = blocks::written(m.content(), block, ("text", flat), sent);
                let name = self.name(m.name());
                Object::of([("role", "user".into()), ("content", content), ("name", name)])
            }
            Message::Tool(m) => {
                let kind = ("text", self.joins());
                let content = blocks::written(m.content(), text_block, kind, sent);
                let id = m.call_id().into();
                Object::of([("role", "tool".into()), ("tool_call_id", id), ("content", content)])
            }
            Message::Ai(m) => return self.answer(m, sent),
            // Already left out by `Terms::sent`.
            Message::Custom(_) => return Object::default(),
        };
        own.kept(kept(ATTRIBUTE, attributes(&sent.message)), &[])
    }

    /// Returns the name, if the provider takes one, in the letters that OpenAI takes.
    fn name<'n>(&self, name: Option<&'n str>) -> BorrowedValue<'n> {
        let is_refused = |c: char| c.is_whitespace() || matches!(c, '<' | '|' | '\\' | '/' | '>');
        match name.filter(|name| self.row.names && !name.is_empty()) {
            None => BorrowedValue::Nothing,
            Some(name) if name.contains(is_refused) => {
                Cow::from(name.replace(is_refused, "_")).into()
            }
            Some(name) => name.into(),
        }
    }

    /// Returns which texts of an answer or a result are joined into one string.
    fn joins(&self) -> Joins {
        match (self.row.flat_text, self.row.cache_marks) {
            (true, _) => Joins::All,
            // "invalid type: sequence, expected a string"
            (false, false) => Joins::Plain,
            (false, true) => Joins::Nothing,
        }
    }

    fn answer<'s>(&self, m: &'s AiMessage, sent: &Sent<'_>) -> Object<'s> {
        let role = ("role", "assistant".into());
        let name = self.name(m.name());
        let kept = kept(ATTRIBUTE, m.attributes());
        let unwritten = ["annotations", "reasoning", "reasoning_content", "reasoning_details"];
        if let Some(text) = m.as_text() {
            let [said, details] = self.reasoning(&[], false);
            let own = [role, ("content", text.into()), ("name", name), said, details];
            return Object::of(own).kept(kept, &unwritten);
        }
        let (mut said, mut calls, mut thoughts) = (Vec::new(), Vec::new(), Vec::new());
        let mut audio = None;
        let alone = self.row.calls_alone && m.has_tool_calls();
        for (i, part) in m.parts().iter().enumerate() {
            match part {
                AiPart::ToolCall(call) => {
                    let is_signed = !self.row.signed_calls || !calls.is_empty();
                    calls.push(self::call(call, is_signed).into());
                }
                AiPart::Content(part) => match (spoken_audio(part), self.said(part)) {
                    (Some(id), _) => audio = Some(Object::of([("id", id.into())])),
                    (None, Some(_)) if alone => {
                        if part.as_text().is_some_and(|text| !text.is_empty()) {
                            sent.lose(i, "text beside calls", Weight::Noted);
                        }
                    }
                    (None, Some(block)) => said.push(block),
                    // A placeholder would look like the model's own words.
                    (None, None) => sent.refuse(i, part),
                },
                AiPart::Reasoning(thought) if is_block(thought) && !alone => {
                    said.push(Block::Other(thinking(thought)));
                }
                AiPart::Reasoning(thought)
                    if !is_block(thought) && goes_back(thought, self.row) =>
                {
                    thoughts.push(thought);
                }
                AiPart::Reasoning(thought) => {
                    if says_something(thought) {
                        sent.lose(i, REASONING, Weight::Noted);
                    }
                }
            }
        }
        // One plain text is a string, even with other fields; several are a list.
        if let [Block::Text(text, object)] = said.as_slice()
            && object.has_only(&["type", "text"])
        {
            said = vec![Block::Bare(text)];
        }
        let calls = (!calls.is_empty()).then_some(BorrowedValue::List(calls));
        let is_silent = said.is_empty() && (calls.is_some() || audio.is_some());
        let content = if is_silent {
            BorrowedValue::Null
        } else {
            blocks::content(said, ("text", self.joins()))
        };
        let [thought, details] = self.reasoning(&thoughts, calls.is_some());
        let (calls, audio) = (("tool_calls", calls.into()), ("audio", audio.into()));
        let own = [role, ("content", content), thought, details, calls, audio, ("name", name)];
        Object::of(own).kept(kept, &unwritten)
    }

    /// Returns the fields of the reasoning of an answer.
    fn reasoning<'s>(
        &self,
        thoughts: &[&'s Reasoning],
        calls: bool,
    ) -> [(&'static str, BorrowedValue<'s>); 2] {
        let texts = thoughts.iter().map(|it| it.text.as_str()).filter(|text| !text.is_empty());
        let texts: Vec<&str> = texts.collect();
        let is_told = match self.row.reasoning {
            None => false,
            Some(ReasoningField::ReasoningContent) => calls || !texts.is_empty(),
            Some(ReasoningField::ReasoningContentAlways) => true,
            Some(ReasoningField::Reasoning) => !texts.is_empty(),
        };
        let told = is_told.then(|| BorrowedValue::joined(texts)).into();
        if self.row.reasoning != Some(ReasoningField::Reasoning) {
            return [("reasoning_content", told), ("reasoning_details", BorrowedValue::Nothing)];
        }
        let lists: Vec<&Value> = thoughts.iter().filter_map(|it| details(it)).collect();
        let details = match lists.as_slice() {
            [] => BorrowedValue::Nothing,
            [one] => (*one).into(),
            // From several joined answers.
            all => {
                let all = all.iter().filter_map(|it| it.as_array()).flatten();
                BorrowedValue::List(all.map(BorrowedValue::Kept).collect())
            }
        };
        [("reasoning", told), ("reasoning_details", details)]
    }

    /// Returns the block of a part of a user message; `None` if there is no place for it.
    fn block<'s>(&self, part: &'s Part) -> Option<Block<'s>> {
        if !has_place(part, false, self.row) {
            return None;
        }
        let files = self.row.files;
        Some(Block::Other(match part {
            Part::Image(m) => {
                let detail = m.detail.as_ref().and_then(detail);
                let own = [("url", BorrowedValue::address(m)), ("detail", detail.into())];
                media("image_url", m, Object::of(own))
            }
            Part::File(m) if files == Files::Document => document(m),
            Part::File(m) => media("file", m, file(m)),
            Part::Audio(m) if files == Files::Document => recording(m),
            Part::Audio(m) => {
                let data = inline(m).map(|url| url.data);
                let own = [("data", data.into()), ("format", audio_format(m).into())];
                media("input_audio", m, Object::of(own))
            }
            _ => return text_block(part),
        }))
    }

    /// Returns the block of a part of an answer; `None` if it is left out.
    fn said<'s>(&self, part: &'s Part) -> Option<Block<'s>> {
        match part {
            Part::Text(text) if is_refusal(text) && self.row.refusals => {
                Some(Block::Other(Object::block("refusal", "refusal", &text.text)))
            }
            Part::Text(text) if is_refusal(text) => Some(Block::Bare(&text.text)),
            part => text_block(part),
        }
    }
}

/// Returns the id of audio that the model spoke; only the id is sent back.
fn spoken_audio(part: &Part) -> Option<&str> {
    match part {
        Part::Audio(Media { source: Source::FileId(id), .. }) => Some(id),
        _ => None,
    }
}

fn details(thought: &Reasoning) -> Option<&Value> {
    kept(FORMAT, &thought.extra)?.get("reasoning_details")
}

/// Returns the block of a text part; `None` for other parts.
fn text_block(part: &Part) -> Option<Block<'_>> {
    match part {
        Part::Text(TextPart { text, extra }) => {
            let block = Object::block("text", "text", text);
            Some(Block::Text(text, block.kept(kept(FORMAT, extra), &[])))
        }
        part => as_other_part(FORMAT, part).map(|it| Block::Other(Object::of_kept(Some(it)))),
    }
}

/// Mistral's reasoning, which is a block of the content.
fn thinking(thought: &Reasoning) -> Object<'_> {
    let kept = kept(FORMAT, &thought.extra);
    let object = Object::default();
    if kept.is_some_and(|kept| kept.contains_key("thinking")) {
        return object.kept(kept, &[]);
    }
    let text = vec![Object::block("text", "text", &thought.text)];
    object.with("thinking", text).kept(kept, &[])
}

fn is_refusal(part: &TextPart) -> bool {
    kept_type(FORMAT, &part.extra) == Some("refusal")
}

/// Returns whether this was read from a block of the content.
fn is_block(thought: &Reasoning) -> bool {
    kept(FORMAT, &thought.extra).is_some_and(|kept| kept.contains_key("type"))
}

/// Returns a block with media as an object under the name of its kind.
fn media<'s>(kind: &'static str, media: &'s Media, own: Object<'s>) -> Object<'s> {
    let kept = kept(FORMAT, &media.extra);
    let own = own.kept(kept_object(kept, kind), &[]);
    Object::of([("type", kind.into()), (kind, own.into())]).kept(kept, &[])
}

fn file(media: &Media) -> Object<'_> {
    // Data without a name are refused.
    let stand_in = inline(media).map(|_| "file.pdf");
    Object::of([
        ("filename", media.name.as_deref().or(stand_in).into()),
        // Other addresses than data only if the provider takes them here.
        ("file_data", BorrowedValue::address(media)),
        ("file_id", BorrowedValue::file_id(media)),
    ])
}

fn document(media: &Media) -> Object<'_> {
    if let (None, Source::FileId(id)) = (inline(media), &media.source) {
        return Object::block("file", "file_id", id);
    }
    Object::of([
        ("type", "document_url".into()),
        ("document_url", BorrowedValue::address(media)),
        ("document_name", media.name.as_ref().into()),
    ])
}

/// Audio in Mistral's form: data or an address, without the encoding.
fn recording(media: &Media) -> Object<'_> {
    let data = match (inline(media), &media.source) {
        (Some(url), _) => url.data,
        (None, Source::Url(url)) => url,
        (None, _) => "",
    };
    Object::block("input_audio", "input_audio", data)
}

/// Returns a call. Unless `is_signed`, a call without a signature gets a placeholder for it.
fn call(call: &ToolCall, is_signed: bool) -> Object<'_> {
    let beside = kept(FORMAT, &call.extra);
    // Azure has streamed an empty one.
    let kind = kept_type(FORMAT, &call.extra).filter(|kind| !kind.is_empty());
    let kind = kind.unwrap_or("function");
    let (key, input_key) =
        if kind == "custom" { ("custom", "input") } else { ("function", "arguments") };
    let own = [("name", (&call.name).into()), (input_key, input(call, kind == "custom").into())];
    let function = Object::of(own).kept(kept_object(beside, key), &[]);
    let own = [("id", (&call.id).into()), ("type", kind.into()), (key, function.into())];
    let mut object = Object::of(own);
    if !is_signed && beside.is_none_or(|kept| !kept.contains_key("extra_content")) {
        let google = Object::of([("thought_signature", NO_SIGNATURE.into())]);
        object.put("extra_content", Object::of([("google", google.into())]));
    }
    object.kept(beside, &["function", "custom"])
}
