//! Writes messages as the items of Responses.

use super::{ATTRIBUTE, FORMAT, Input, Options, kinds};
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Detail, Media, Message, Part, Reasoning, ToolCall,
    ToolMessage,
};
use crate::provider::Provider;
use crate::wire::blocks::{self, Block, Joins};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{self, as_other_part, inline, input, kept, kept_type};
use crate::wire::losses::{REASONING, Weight};
use crate::wire::media::detail;
use crate::wire::terms::{Sent, says_something};
use crate::wire::view::{ForProvider, Marks, MessageFormat};

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::OpenAiResponses;
    const OPERATION: &'static str = "write responses input";

    fn messages<'s>(view: &Input<'_>, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>> {
        let developer = view.terms.row.developer;
        let mut options = view.options;
        options.unstored &= !view.terms.verbatim;
        // The beginning of an unfinished tool loop.
        let running = sent.iter().rposition(|sent| sent.message.is_user()).unwrap_or_default();
        let mut asked: Option<&AiMessage> = None;
        let mut items: Vec<(usize, Object<'s>)> = Vec::new();
        for (i, one) in sent.iter().enumerate() {
            let item = match &*one.message {
                // It goes into `instructions`.
                Message::System(_) if one.index == 0 && !developer => continue,
                Message::System(m) => {
                    let role = if developer { "developer" } else { "system" };
                    message(role, m.text().into(), m.attributes())
                }
                Message::User(m) => message("user", content(m.content(), one), m.attributes()),
                Message::Tool(m) => {
                    let mut calls = asked.into_iter().flat_map(AiMessage::tool_calls);
                    let call = calls.find(|call| call.id == m.call_id());
                    output(m, call, one)
                }
                Message::Ai(m) => {
                    if m.has_tool_calls() {
                        asked = Some(m);
                    }
                    let functions = as_functions(m, sent.get(i + 1..).unwrap_or_default());
                    let mut answer = Answer {
                        options,
                        runs: i > running,
                        functions,
                        sends_ids: true,
                        items: Vec::new(),
                    };
                    answer.write(m, one);
                    items.extend(answer.items.into_iter().map(|item| (one.index, item)));
                    continue;
                }
                Message::Custom(_) => continue,
            };
            items.push((one.index, item));
        }
        view.mark(&mut items, |item, cache| {
            let key = match item.text("type") {
                // The model's own messages can't have a mark.
                "message" if item.text("role") != "assistant" => "content",
                "function_call_output" | "custom_tool_call_output" => "output",
                _ => return false,
            };
            let on = (&view.terms.row, cache);
            item.get_mut(key).is_some_and(|content| blocks::mark(content, "input_text", on))
        });
        items.into_iter().map(|(_, item)| item.into()).collect()
    }
}

impl ForProvider for Options {}
impl Marks for Options {}

fn is_custom(call: &ToolCall) -> bool {
    kept_type(FORMAT, &call.extra) == Some("custom_tool_call")
}

fn message<'s>(
    role: &'static str,
    content: BorrowedValue<'s>,
    beside: &'s Attributes,
) -> Object<'s> {
    let own = [("type", "message".into()), ("role", role.into()), ("content", content)];
    Object::of(own).kept(kept(ATTRIBUTE, beside), &[])
}

/// Returns the ids of calls of other kinds that are written as function calls, since their kind has
/// no place for their result among these messages.
fn as_functions<'s>(asking: &'s AiMessage, behind: &'s [Sent<'_>]) -> Vec<&'s str> {
    let results = || {
        let of_it = behind.iter().take_while(|sent| !sent.message.has_tool_calls());
        of_it.filter_map(|sent| sent.message.as_tool())
    };
    let has_no_place = |call: &&ToolCall| {
        let Some((kind, _)) = kinds::of(call) else { return false };
        let result = results().find(|result| result.call_id() == call.id);
        result.is_some_and(|result| kinds::output(kind, result).is_none())
    };
    asking.tool_calls().filter(has_no_place).map(|call| call.id.as_str()).collect()
}

/// Returns a tool's result, with the call that it answers, if that is known.
fn output<'s>(result: &'s ToolMessage, call: Option<&'s ToolCall>, sent: &Sent<'_>) -> Object<'s> {
    let kind = call.and_then(kinds::of);
    if let Some((kind, _)) = kind
        && let Some(output) = kinds::output(kind, result)
    {
        let parts = result.content().parts();
        kinds::unwritten(kind, parts).for_each(|(i, part)| {
            sent.lose(i, common::kind(part), Weight::Noted);
        });
        return output;
    }
    let kept_beside = kept(ATTRIBUTE, result.attributes()).filter(|_| kind.is_none());
    let custom =
        call.is_some_and(is_custom) || kept_beside.is_some_and(|kept| kept.contains_key("custom"));
    let name = if custom { "custom_tool_call_output" } else { "function_call_output" };
    let own = [
        ("type", name.into()),
        ("call_id", result.call_id().into()),
        ("output", content(result.content(), sent)),
    ];
    let object = Object::of(own).kept(kept_beside, &["custom"]);
    let caller = call.and_then(|call| kept(FORMAT, &call.extra)?.get("caller"));
    let caller = caller.filter(|_| object.get("caller").is_none());
    object.with("caller", caller)
}

fn content<'s>(content: &'s Content, sent: &Sent<'_>) -> BorrowedValue<'s> {
    blocks::written(content, block, ("input_text", Joins::Nothing), sent)
}

/// Returns an input block; `None` if there is no place for the part.
fn block(part: &Part) -> Option<Block<'_>> {
    const OWN: [&str; 9] = [
        "type",
        "text",
        "image_url",
        "file_id",
        "detail",
        "filename",
        "file_data",
        "file_url",
        "message",
    ];
    let block = match part {
        Part::Text(part) => {
            let block = Object::block("input_text", "text", &part.text);
            return Some(Block::Text(&part.text, block.kept(kept(FORMAT, &part.extra), &OWN)));
        }
        Part::Image(media) => image(media).kept(kept(FORMAT, &media.extra), &OWN),
        Part::File(media) => file(media).kept(kept(FORMAT, &media.extra), &OWN),
        Part::Audio(_) | Part::Video(_) | Part::Other(_) => {
            Object::of_kept(Some(object(as_other_part(FORMAT, part)?, "block")?))
        }
    };
    Some(Block::Other(block))
}

/// Returns the object kept under this key, unless it is empty: an empty object is never sent.
fn object<'a>(kept: &'a Attributes, key: &str) -> Option<&'a Attributes> {
    kept.get(key)?.as_object().filter(|object| !object.is_empty())
}

fn image(media: &Media) -> Object<'_> {
    // The reference requires it.
    let detail = media.detail.as_ref().and_then(detail).unwrap_or("auto");
    Object::of([
        ("type", "input_image".into()),
        ("image_url", BorrowedValue::address(media)),
        ("file_id", BorrowedValue::file_id(media)),
        ("detail", detail.into()),
    ])
}

fn file(media: &Media) -> Object<'_> {
    let data = inline(media);
    // Data without a name are refused.
    let stand_in = data.map(|url| match url.media_type {
        "application/pdf" => "file.pdf",
        _ => "file",
    });
    let detail = media.detail.as_ref().and_then(|detail| match detail {
        Detail::Auto | Detail::Low | Detail::High => Some(detail.as_str()),
        // The other levels are for images.
        _ => None,
    });
    let (data, url) = match data {
        Some(data) => (BorrowedValue::Url(data), BorrowedValue::Nothing),
        None => (BorrowedValue::Nothing, BorrowedValue::address(media)),
    };
    Object::of([
        ("type", "input_file".into()),
        ("file_data", data),
        ("file_id", BorrowedValue::file_id(media)),
        ("file_url", url),
        ("filename", media.name.as_deref().or(stand_in).into()),
        ("detail", detail.into()),
    ])
}

struct Answer<'s> {
    options: Options,
    /// True if it belongs to an unfinished tool loop.
    runs: bool,
    /// The ids of calls of other kinds that are written as function calls. Reasoning, which is
    /// bound to the item that it came with, is left out then.
    functions: Vec<&'s str>,
    /// False after reasoning that the provider knows and is not sent. "Item .. was provided without
    /// its required 'reasoning' item": without an id, there is no such check. What the provider ran
    /// by itself needs its id, and is left out.
    sends_ids: bool,
    items: Vec<Object<'s>>,
}

impl<'s> Answer<'s> {
    fn write(&mut self, m: &'s AiMessage, sent: &Sent<'_>) {
        self.items.extend(m.as_text().map(plain));
        let (mut i, parts) = (0, m.parts());
        while let Some(part) = parts.get(i) {
            let mut next = i + 1;
            match part {
                AiPart::ToolCall(call) => {
                    if self.functions.contains(&call.id.as_str()) {
                        sent.lose(i, "a call of another kind", Weight::Noted);
                    }
                    self.items.push(self.call(call));
                }
                AiPart::Reasoning(reasoning) => match self.reasoning(reasoning) {
                    Some(item) => self.items.push(item),
                    None if says_something(reasoning) => sent.lose(i, REASONING, Weight::Noted),
                    None => {}
                },
                AiPart::Content(part) => match (fields(part), part) {
                    (Some(kept), _) => {
                        if let Some(item) = item(part, kept) {
                            // A compaction replaces what is not sent.
                            let is_bound = item.get("type").is_none_or(|it| it != "compaction");
                            if is_bound && !self.sends_ids {
                                match part {
                                    Part::Other(_) => {
                                        let what = "an item without its reasoning";
                                        sent.lose(i, what, Weight::Noted);
                                    }
                                    _ => sent.refuse(i, part),
                                }
                                i = next;
                                continue;
                            }
                            let made = part.as_media().and_then(inline).map(|made| made.data);
                            self.items.push(Object::of_kept(Some(item)).with("result", made));
                        } else {
                            next += parts[next..].iter().take_while(|it| continues(it)).count();
                            self.items.push(self.message(&parts[i..next]));
                        }
                    }
                    (None, Part::Text(text)) => self.items.push(plain(&text.text)),
                    // A placeholder would look like the model's own words.
                    (None, part) => sent.refuse(i, part),
                },
            }
            i = next;
        }
    }

    fn reasoning(&mut self, reasoning: &'s Reasoning) -> Option<Object<'s>> {
        let kept = kept(FORMAT, &reasoning.extra);
        // Other servers show all reasoning, and want it back until the loop is finished.
        let is_read = self.runs && kept.is_some_and(|kept| kept.contains_key("content"));
        let is_sealed = reasoning.signature.as_deref().is_some_and(|it| !it.is_empty());
        // "Items are not persisted when `store` is set to false."
        let is_lost = self.options.unstored && !is_sealed && !is_read;
        if self.options.unthinking || !self.functions.is_empty() || is_lost {
            self.sends_ids = false;
            return None;
        }
        self.sends_ids = true;
        // Without its id it would be refused.
        let kept = kept?;
        kept.get("id").filter(|id| id.is_string())?;
        let text = Some(&reasoning.text).filter(|text| !text.is_empty());
        let summary = text.map(|text| Object::block("summary_text", "text", text));
        let mut object = Object::of([("type", "reasoning".into())]);
        if !kept.contains_key("summary") {
            object.put("summary", Vec::from_iter(summary));
        }
        let object = object.with("encrypted_content", reasoning.signature.as_ref());
        Some(object.kept(Some(kept), &[]))
    }

    fn call(&self, call: &'s ToolCall) -> Object<'s> {
        let as_function = self.functions.contains(&call.id.as_str());
        if let Some((kind, item)) = kinds::of(call).filter(|_| !as_function) {
            return kinds::written(kind, item, &call.id);
        }
        let custom = is_custom(call);
        let (kind, key) =
            if custom { ("custom_tool_call", "input") } else { ("function_call", "arguments") };
        let own = [
            ("type", kind.into()),
            ("call_id", (&call.id).into()),
            ("name", (&call.name).into()),
            (key, input(call, custom).into()),
        ];
        let but: &[&str] = if self.sends_ids { &["item"] } else { &["id", "item"] };
        Object::of(own).kept(kept(FORMAT, &call.extra), but)
    }

    /// Returns a message as it came: its texts and its other fields.
    fn message(&self, parts: &'s [AiPart]) -> Object<'s> {
        let first = parts.first().and_then(AiPart::as_content).and_then(fields);
        let beside = first.and_then(|kept| object(kept, "message"));
        let is_named = self.sends_ids && beside.is_some_and(|beside| beside.contains_key("id"));
        let content = match parts {
            // The reference has lists only for messages with an id.
            [part] if !is_named && is_bare(part) => part.as_text().unwrap_or_default().into(),
            parts => {
                let blocks = parts.iter().filter_map(AiPart::as_content).map(answer_block);
                BorrowedValue::List(blocks.map(BorrowedValue::Object).collect())
            }
        };
        let own = [("type", "message".into()), ("role", "assistant".into()), ("content", content)];
        // A message without an id is an input message, which has no status.
        Object::of(own).kept(beside, if self.sends_ids { &[] } else { &["id", "status"] })
    }
}

/// Returns a text that did not come from this format.
fn plain(text: &str) -> Object<'_> {
    let own = [("type", "message".into()), ("role", "assistant".into()), ("content", text.into())];
    Object::of(own)
}

/// Returns the fields kept for a part that came from this format.
fn fields(part: &Part) -> Option<&Attributes> {
    match part {
        Part::Text(text) => kept(FORMAT, &text.extra),
        Part::Image(made) => kept(FORMAT, &made.extra),
        _ => as_other_part(FORMAT, part)
            .filter(|fields| object(fields, "item").or_else(|| object(fields, "block")).is_some()),
    }
}

/// Returns the item that a part is, among the fields kept for it. A text is never one, whatever
/// fields its block has.
fn item<'a>(part: &Part, kept: &'a Attributes) -> Option<&'a Attributes> {
    object(kept, "item").filter(|_| part.as_text().is_none())
}

/// Returns whether a part belongs to the same message as the one before it.
fn continues(part: &AiPart) -> bool {
    let AiPart::Content(part) = part else { return false };
    fields(part).is_some_and(|kept| !kept.contains_key("message") && item(part, kept).is_none())
}

/// Returns whether a text from this format has no other fields.
fn is_bare(part: &AiPart) -> bool {
    let Some(Part::Text(text)) = part.as_content() else { return false };
    kept(FORMAT, &text.extra).is_none_or(|kept| kept.keys().all(|key| key == "message"))
}

/// Returns a block of a message that the model produced.
fn answer_block(part: &Part) -> Object<'_> {
    let kept = fields(part);
    let (Part::Text(part), Some(kept)) = (part, kept) else {
        return Object::of_kept(kept.and_then(|kept| object(kept, "block")));
    };
    if kept_type(FORMAT, &part.extra) == Some("refusal") {
        return Object::block("refusal", "refusal", &part.text).kept(Some(kept), &["message"]);
    }
    let mut block = Object::block("output_text", "text", &part.text);
    // The reference requires it.
    if !kept.contains_key("annotations") {
        block.put("annotations", BorrowedValue::List(Vec::new()));
    }
    block.kept(Some(kept), &["message"])
}
