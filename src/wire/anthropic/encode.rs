//! Writes messages for the Messages API.

use serde_json::Value;

use super::{ATTRIBUTE, FORMAT, Messages, Options, REDACTED, TOOL_CHANGES};
use crate::message::base64;
use crate::message::{
    AiPart, Content, EMPTY_MESSAGE, Media, Message, Part, Reasoning, Source, TextPart, ToolMessage,
    plain_id,
};
use crate::provider::{Blank, Provider, is_common_image};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{
    DataUrl, as_other_part, inline, is_foreign, kept, kept_type, placeholder,
};
use crate::wire::losses::Weight;
use crate::wire::terms::Sent;
use crate::wire::view::{Cache, ForProvider, Marks, MessageFormat};

const MARK: &str = "cache_control";
const UNSIGNED: &str = "reasoning without this provider's signature";
const NO_ID: &str = "a call without an id";

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::Anthropic;
    const OPERATION: &'static str = "write anthropic messages";

    fn messages<'s>(view: &Messages<'_>, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>> {
        // System messages at the beginning of the list are its `system`.
        let opening = view.messages.iter().take_while(|message| message.is_system()).count();
        let is_written = |sent: &&Sent<'_>| match &*sent.message {
            Message::System(_) => view.terms.row.late_system && sent.index >= opening,
            _ => true,
        };
        let written = sent.iter().filter(is_written);
        let mut written: Vec<(usize, Said<'s>)> =
            written.map(|sent| (sent.index, Said::of(sent))).collect();
        written.retain(|(_, said)| !said.blocks.is_empty());
        let is_answer = |said: &Said<'_>| said.role == "assistant";
        let blocks = |said: &Said<'_>| said.blocks.len();
        view.mark_twice(&mut written, is_answer, Said::has_marks, blocks, Said::mark);
        let entries = written.chunk_by_mut(|(_, a), (_, b)| a.role == b.role);
        entries.map(|said| entry(said).into()).collect()
    }

    fn refuses(reasoning: &Reasoning) -> Option<&'static str> {
        thinking(reasoning).is_none().then_some(UNSIGNED)
    }
}

impl ForProvider for Options {}
impl Marks for Options {}

struct Said<'s> {
    role: &'static str,
    is_result: bool,
    /// The text of a message without anything else: if it is alone in its entry, it is a string.
    plain: Option<&'s str>,
    /// The blocks, each with `true` if it can have a cache mark.
    blocks: Vec<(Object<'s>, bool)>,
}

impl<'s> Said<'s> {
    fn of(sent: &'s Sent<'_>) -> Self {
        let message = &*sent.message;
        let mut blocks = Vec::new();
        let mut plain = plain_text(message).filter(|text| !is_blank(text));
        blocks.extend(plain.map(|text| (Object::block("text", "text", text), true)));
        let role = match message {
            Message::Ai(m) => {
                for (i, part) in m.parts().iter().enumerate() {
                    blocks.extend(answer_block(i, part, sent));
                }
                if blocks.is_empty() {
                    sent.refuse_empty(m);
                }
                "assistant"
            }
            Message::User(m) => {
                blocks.extend(content_blocks(m.content().parts(), sent));
                if blocks.is_empty() {
                    sent.refuse_all("an empty message");
                    plain = m.content().as_text().map(|_| EMPTY_MESSAGE);
                    blocks.push((Object::block("text", "text", EMPTY_MESSAGE), true));
                }
                "user"
            }
            Message::Tool(m) => {
                blocks.push((result(m, sent), true));
                "user"
            }
            Message::System(m) => {
                let kept = kept(ATTRIBUTE, m.attributes());
                let changes = kept.and_then(|kept| kept.get(TOOL_CHANGES)?.as_array());
                let changes = changes.into_iter().flatten().filter_map(Value::as_object);
                blocks.extend(changes.map(|it| (Object::of_kept(Some(it)), false)));
                plain = plain.filter(|_| blocks.len() == 1);
                "system"
            }
            Message::Custom(_) => "system",
        };
        Self { role, is_result: message.is_tool(), plain, blocks }
    }

    /// Returns whether the application has marked a block.
    fn has_marks(&self) -> bool {
        let inner = |block: &Object<'_>| {
            let inner = block.get("content").and_then(BorrowedValue::as_list);
            inner.is_some_and(|inner| inner.iter().any(|it| it.get(MARK).is_some()))
        };
        self.blocks.iter().any(|(block, _)| block.get(MARK).is_some() || inner(block))
    }

    /// Puts a cache mark on its last block that can have one; returns false if there is none.
    fn mark(&mut self, cache: Cache) -> bool {
        let mut blocks = self.blocks.iter_mut().rev();
        let Some(block) = blocks.find(|(_, is_markable)| *is_markable) else { return false };
        block.0.replace(MARK, cache.control());
        self.plain = None;
        true
    }
}

/// Returns the text of a message that is nothing else; that of a result is a block in any case.
fn plain_text(message: &Message) -> Option<&str> {
    match message {
        Message::System(m) => Some(m.text()),
        Message::User(m) => m.content().as_text(),
        Message::Ai(m) => m.as_text(),
        Message::Tool(_) | Message::Custom(_) => None,
    }
}

/// Returns one entry of neighbours on one side, results first.
fn entry<'s>(said: &mut [(usize, Said<'s>)]) -> Object<'s> {
    let role = said.first().map_or("user", |(_, said)| said.role);
    let content: BorrowedValue<'s> = if let [(_, Said { plain: Some(text), .. })] = said {
        (*text).into()
    } else {
        said.sort_by_key(|(_, said)| !said.is_result);
        let blocks = said.iter_mut().flat_map(|(_, said)| std::mem::take(&mut said.blocks));
        BorrowedValue::List(blocks.map(|(block, _)| block.into()).collect())
    };
    Object::of([("role", role.into()), ("content", content)])
}

/// Returns the blocks of a user's or a tool's parts, except blank texts.
fn content_blocks<'s>(parts: &'s [Part], sent: &Sent<'_>) -> Vec<(Object<'s>, bool)> {
    let block = |(i, part): (usize, &'s Part)| {
        let found = match part {
            Part::Text(text) => return text_block(text),
            Part::Image(media) => image(media).map(|block| (block, true)),
            Part::File(media) => document(media).map(|block| (block, true)),
            other => as_other_part(FORMAT, other).map(|it| (Object::of_kept(Some(it)), false)),
        };
        Some(found.unwrap_or_else(|| {
            sent.refuse(i, part);
            (Object::block("text", "text", placeholder(part)), true)
        }))
    };
    parts.iter().enumerate().filter_map(block).collect()
}

/// Returns the block of a part of an answer; `None` if it is left out.
fn answer_block<'s>(i: usize, part: &'s AiPart, sent: &Sent<'_>) -> Option<(Object<'s>, bool)> {
    match part {
        AiPart::Content(Part::Text(text)) => text_block(text),
        AiPart::Content(part) => {
            let Some(fields) = as_other_part(FORMAT, part) else {
                // A placeholder would look like the model's own words.
                sent.refuse(i, part);
                return None;
            };
            Some((Object::of_kept(Some(fields)), false))
        }
        AiPart::Reasoning(reasoning) => {
            let Some(block) = thinking(reasoning) else {
                sent.lose(i, UNSIGNED, Weight::Reasoning);
                return None;
            };
            Some((block, false))
        }
        AiPart::ToolCall(call) => {
            if call.id.is_empty() {
                sent.lose(i, NO_ID, Weight::Refused);
            }
            let own = [
                ("type", "tool_use".into()),
                ("id", plain_id(&call.id).into()),
                ("name", (&call.name).into()),
                ("input", sent.arguments(i, call)),
            ];
            Some((Object::of(own).kept(kept(FORMAT, &call.extra), &[]), true))
        }
    }
}

fn result<'s>(tool: &'s ToolMessage, sent: &Sent<'_>) -> Object<'s> {
    if tool.call_id().is_empty() {
        sent.refuse_all(NO_ID);
    }
    let content = match tool.content() {
        Content::Text(text) if is_blank(text) => BorrowedValue::Nothing,
        Content::Text(text) => text.into(),
        Content::Parts(parts) => {
            let blocks = content_blocks(parts, sent).into_iter();
            BorrowedValue::List(blocks.map(|(block, _)| block.into()).collect())
        }
    };
    // "all content must be type 'text' if 'is_error' is true"
    let mut blocks = content.as_list().unwrap_or_default().iter();
    let may_be_error = blocks.all(|block| block.text("type") == "text");
    if tool.is_error() && !may_be_error {
        sent.note(None, "that a result is an error", Weight::Noted);
    }
    let own = [
        ("type", "tool_result".into()),
        ("tool_use_id", plain_id(tool.call_id()).into()),
        ("content", content),
        ("is_error", (tool.is_error() && may_be_error).then_some(true).into()),
    ];
    Object::of(own).kept(kept(ATTRIBUTE, tool.attributes()), &[])
}

fn text_block(part: &TextPart) -> Option<(Object<'_>, bool)> {
    let block = || Object::block("text", "text", &part.text).kept(kept(FORMAT, &part.extra), &[]);
    (!is_blank(&part.text)).then(|| (block(), true))
}

fn thinking(reasoning: &Reasoning) -> Option<Object<'_>> {
    let kept = kept(FORMAT, &reasoning.extra);
    let is_ours = kept.is_some() || reasoning.signature.is_some();
    if is_foreign(FORMAT, &reasoning.extra) || !is_ours {
        return None;
    }
    let signature = reasoning.signature.as_deref();
    let block = if kept_type(FORMAT, &reasoning.extra) == Some(REDACTED) {
        Object::block(REDACTED, "data", signature.unwrap_or_default())
    } else {
        Object::block("thinking", "thinking", &reasoning.text).with("signature", signature)
    };
    Some(block.kept(kept, &[]))
}

fn image(media: &Media) -> Option<Object<'_>> {
    let source = match inline(media) {
        Some(DataUrl { media_type, data }) => {
            let written = if media_type == "image/jpg" { "image/jpeg" } else { media_type };
            is_common_image(media_type).then(|| base64_source(written, data))?
        }
        None => elsewhere(media),
    };
    let own = [("type", "image".into()), ("source", source.into())];
    Some(Object::of(own).kept(kept(FORMAT, &media.extra), &[]))
}

fn document(media: &Media) -> Option<Object<'_>> {
    let source = match inline(media) {
        Some(DataUrl { media_type, data }) if media_type.starts_with("text/") => Object::of([
            ("type", "text".into()),
            ("media_type", "text/plain".into()),
            ("data", BorrowedValue::Text(base64::text(data)?.into())),
        ]),
        Some(DataUrl { media_type: media_type @ "application/pdf", data }) => {
            base64_source(media_type, data)
        }
        Some(_) => return None,
        None => elsewhere(media),
    };
    let own = [
        ("type", "document".into()),
        ("source", source.into()),
        ("title", media.name.as_ref().into()),
    ];
    Some(Object::of(own).kept(kept(FORMAT, &media.extra), &[]))
}

fn base64_source<'a>(media_type: &'a str, data: &'a str) -> Object<'a> {
    Object::of([
        ("type", "base64".into()),
        ("media_type", media_type.into()),
        ("data", data.into()),
    ])
}

/// Returns the source of media whose data are not here.
fn elsewhere(media: &Media) -> Object<'_> {
    match &media.source {
        Source::FileId(id) => Object::block("file", "file_id", id),
        Source::Url(url) => Object::block("url", "url", url),
        // Data and references are never elsewhere.
        _ => Object::block("url", "url", ""),
    }
}

/// Returns whether the API considers this text empty.
pub(super) fn is_blank(text: &str) -> bool {
    Blank::White.is(text)
}
