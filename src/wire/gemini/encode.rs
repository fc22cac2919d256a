//! Writes messages for `generateContent`.

use std::collections::{HashMap, VecDeque};

use serde_json::Value;

use super::{ATTRIBUTE, Contents, FORMAT, Options, SHAPE, SIGNATURE, WHOLE};
use crate::message::{
    AiPart, Content, EMPTY_MESSAGE, Media, Message, Part, Reasoning, Source, ToolCall, ToolMessage,
};
use crate::provider::{Ids, Provider, Row, google_type, has_place, is_within_result};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{
    DataUrl, NO_SIGNATURE, as_other_part, inline, is_foreign, kept, kept_object, placeholder,
};
use crate::wire::losses::Weight;
use crate::wire::media::resolution;
use crate::wire::terms::Sent;
use crate::wire::view::{ForProvider, MessageFormat};

impl MessageFormat for Options {
    const NAMESAKE: Provider = Provider::Gemini;
    const OPERATION: &'static str = "write gemini contents";

    fn messages<'s>(view: &Contents<'_>, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>> {
        Writer { options: view.options, row: &view.terms.row }.contents(sent)
    }

    fn refuses(reasoning: &Reasoning) -> Option<&'static str> {
        is_foreign(FORMAT, &reasoning.extra).then_some(FOREIGN)
    }
}

impl ForProvider for Options {}

const FOREIGN: &str = "another provider's reasoning";

struct Writer<'w> {
    options: Options,
    row: &'w Row,
}

impl Writer<'_> {
    /// Returns one element per user message, per run of answers, and per run of results.
    fn contents<'s>(&self, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>> {
        let mut said: Vec<(&'s Sent<'_>, Vec<Object<'s>>)> = Vec::new();
        let mut is_first = true;
        for sent in sent.iter().filter(|sent| !sent.message.is_system()) {
            is_first |= sent.message.as_ai().is_none();
            let parts = self.said(&mut is_first, sent);
            if sent.message.is_tool() || !parts.is_empty() {
                said.push((sent, parts));
            }
        }
        let mut contents = Vec::new();
        // The calls of the previous element.
        let mut asked: Vec<&ToolCall> = Vec::new();
        let kind = |sent: &Sent<'_>| (sent.message.is_tool(), sent.message.is_user());
        for run in said.chunk_by_mut(|(a, _), (b, _)| kind(a) == kind(b) && !a.message.is_user()) {
            let is_answer = run.iter().any(|(sent, _)| sent.message.as_ai().is_some());
            let mut parts: Vec<Object<'s>> = Vec::new();
            let results = run.iter().filter_map(|(sent, _)| Some((*sent, sent.message.as_tool()?)));
            for (call, (sent, tool)) in in_order_of_calls(&asked, results.collect()) {
                self.result(&mut parts, call, tool, sent);
            }
            parts.extend(run.iter_mut().flat_map(|(_, said)| std::mem::take(said)));
            asked = run.iter().flat_map(|(sent, _)| sent.message.tool_calls()).collect();
            let role = if is_answer { "model" } else { "user" };
            contents.push(Object::of([("role", role.into()), ("parts", parts.into())]).into());
        }
        contents
    }

    /// Returns the parts of a user message or an answer.
    fn said<'s>(&self, is_first: &mut bool, sent: &'s Sent<'_>) -> Vec<Object<'s>> {
        let mut parts = Vec::new();
        match &*sent.message {
            Message::User(m) => {
                parts.extend(m.content().as_text().and_then(text_part));
                for (i, part) in m.content().parts().iter().enumerate() {
                    match self.part(part) {
                        Some(object) => parts.push(object),
                        None if part.as_text().is_some() => {}
                        None => {
                            sent.refuse(i, part);
                            parts.extend(text_part(placeholder(part)));
                        }
                    }
                }
                if parts.is_empty() {
                    sent.refuse_all("an empty message");
                    parts.extend(text_part(EMPTY_MESSAGE));
                }
            }
            Message::Ai(m) => {
                parts.extend(m.as_text().and_then(text_part).map(|it| self.signed(it)));
                for (i, part) in m.parts().iter().enumerate() {
                    match part {
                        AiPart::Content(part) => match self.part(part) {
                            Some(object) => {
                                let is_thought = |it: &Object<'_>| it.get("thought").is_some();
                                let is_first = parts.iter().all(is_thought);
                                let is_signed = is_first || part.as_media().is_some();
                                parts.push(if is_signed { self.signed(object) } else { object });
                            }
                            None if part.as_text().is_some() => {}
                            // A placeholder would look like the model's own words.
                            None => sent.refuse(i, part),
                        },
                        AiPart::Reasoning(reasoning) if is_foreign(FORMAT, &reasoning.extra) => {
                            sent.lose(i, FOREIGN, Weight::Reasoning);
                        }
                        AiPart::Reasoning(reasoning) => parts.push(thought(reasoning)),
                        AiPart::ToolCall(call) => {
                            let args = sent.arguments(i, call);
                            parts.push(self.call(call, args, std::mem::take(is_first)));
                        }
                    }
                }
                if parts.is_empty() {
                    sent.refuse_empty(m);
                }
            }
            Message::System(_) | Message::Tool(_) | Message::Custom(_) => {}
        }
        parts
    }

    /// Writes a part; `None` for an empty text, and for a part without a place in the format.
    fn part<'s>(&self, part: &'s Part) -> Option<Object<'s>> {
        match part {
            // The API streams signatures on empty texts, which are sent back unchanged.
            Part::Text(part) => match kept(FORMAT, &part.extra) {
                None if part.text.is_empty() => None,
                kept => Some(Object::of([("text", (&part.text).into())]).kept(kept, &[])),
            },
            Part::Image(media) | Part::Audio(media) | Part::Video(media) | Part::File(media) => {
                let level = media.detail.as_ref().filter(|_| self.row.detail);
                has_place(part, false, self.row)
                    .then(|| media_part(media, level.and_then(resolution)))
            }
            Part::Other(_) => as_other_part(FORMAT, part).map(|it| Object::of_kept(Some(it))),
        }
    }

    /// Returns a part of an answer with a signature: if the model wants one and none came with it,
    /// the placeholder. "Image part is missing a `thought_signature`"
    fn signed<'s>(&self, mut part: Object<'s>) -> Object<'s> {
        if self.row.signed_parts && part.get(SIGNATURE).is_none() {
            part.put(SIGNATURE, NO_SIGNATURE);
        }
        part
    }

    fn writes_ids(&self) -> bool {
        !self.options.no_ids && self.row.ids != Ids::Unwritten
    }

    fn call<'s>(&self, call: &'s ToolCall, args: BorrowedValue<'s>, is_first: bool) -> Object<'s> {
        let kept = kept(FORMAT, &call.extra);
        let id = (self.writes_ids() && has_id(call)).then_some(&call.id);
        let own = [("id", id.into()), ("name", (&call.name).into()), ("args", args)];
        let function = Object::of(own).kept(kept_object(kept, "functionCall"), &[]);
        let signature = call.signature.as_deref();
        let signature = signature.filter(|_| !is_foreign(FORMAT, &call.extra));
        let skips = self.options.skip_signatures || self.row.signed_calls;
        let stand_in = (is_first && skips).then_some(NO_SIGNATURE);
        Object::of([("functionCall", function.into()), (SIGNATURE, signature.or(stand_in).into())])
            .kept(kept, &[])
    }

    fn result<'s>(
        &self,
        parts: &mut Vec<Object<'s>>,
        call: Option<&'s ToolCall>,
        tool: &'s ToolMessage,
        sent: &Sent<'_>,
    ) {
        let beside = kept(ATTRIBUTE, tool.attributes());
        let kept = kept_object(beside, "functionResponse");
        let has_id = call.map_or_else(|| !tool.call_id().is_empty(), has_id);
        let id = (self.writes_ids() && has_id).then(|| tool.call_id());
        let name = call.map_or_else(|| tool.tool_name(), |call| &call.name);
        if call.is_none() && name.is_empty() {
            sent.refuse_all("a result without a tool's name");
        }
        // The API needs a name. If it is unknown, the id is better than nothing.
        let name = if name.is_empty() { tool.call_id() } else { name };
        let (mut texts, mut within, mut behind) = (Vec::new(), Vec::new(), Vec::new());
        for (i, part) in tool.content().parts().iter().enumerate() {
            match (part.as_text(), part.as_media()) {
                (Some(text), _) => texts.push(text),
                (None, Some(media)) if has_place(part, true, self.row) => {
                    let is_within = is_within_result(media, self.row);
                    let list = if is_within { &mut within } else { &mut behind };
                    list.push(media_part(media, None));
                }
                (None, _) => {
                    sent.refuse(i, part);
                    texts.push(placeholder(part));
                }
            }
        }
        let shape = kept.and_then(|kept| kept.get(SHAPE)?.as_str());
        let response = Object::of([
            ("id", id.into()),
            ("name", name.into()),
            ("response", response(tool, shape, texts)),
            ("parts", (!within.is_empty()).then_some(within).into()),
            (SHAPE, BorrowedValue::Nothing),
        ]);
        let response = response.kept(kept, &[]);
        parts.push(Object::of([("functionResponse", response.into())]).kept(beside, &[]));
        parts.extend(behind);
    }
}

/// Returns results, each with the call that it answers, in the order of the calls; then those
/// without a call.
///
/// If several calls have the same id, their results are matched in order.
fn in_order_of_calls<'a, T>(
    asked: &[&'a ToolCall],
    results: Vec<(T, &'a ToolMessage)>,
) -> Vec<(Option<&'a ToolCall>, (T, &'a ToolMessage))> {
    let mut by_id: HashMap<&str, VecDeque<usize>> = HashMap::new();
    for (i, (_, tool)) in results.iter().enumerate() {
        by_id.entry(tool.call_id()).or_default().push_back(i);
    }
    let mut ordered = Vec::with_capacity(results.len());
    let mut left: Vec<_> = results.into_iter().map(Some).collect();
    for call in asked {
        let answer = by_id.get_mut(call.id.as_str()).and_then(VecDeque::pop_front);
        ordered.extend(answer.and_then(|i| left[i].take()).map(|result| (Some(*call), result)));
    }
    ordered.extend(left.into_iter().flatten().map(|result| (None, result)));
    ordered
}

fn text_part(text: &str) -> Option<Object<'_>> {
    (!text.is_empty()).then(|| Object::of([("text", text.into())]))
}

fn thought(reasoning: &Reasoning) -> Object<'_> {
    let own = [
        ("text", (&reasoning.text).into()),
        ("thought", true.into()),
        (SIGNATURE, reasoning.signature.as_ref().into()),
    ];
    Object::of(own).kept(kept(FORMAT, &reasoning.extra), &[])
}

/// Media, with the resolution at which the model should see them.
fn media_part(media: &Media, resolution: Option<String>) -> Object<'_> {
    let (key, own) = location(media);
    let kept = kept(FORMAT, &media.extra);
    let mut object = Object::of([(key, Object::of(own).kept(kept_object(kept, key), &[]).into())]);
    if let Some(level) = resolution {
        object.put("mediaResolution", Object::of([("level", level.into())]));
    }
    object.kept(kept, &["inlineData", "fileData"])
}

/// The key under which the API finds media, and the fields there.
type Location<'a> = (&'static str, [(&'static str, BorrowedValue<'a>); 2]);

/// Returns where the API finds these media.
fn location(media: &Media) -> Location<'_> {
    let (key, place, found) = match (inline(media), &media.source) {
        (Some(DataUrl { data, .. }), _) => ("inlineData", "data", data),
        (None, Source::Url(at) | Source::FileId(at)) => ("fileData", "fileUri", at.as_str()),
        // Data and references are never elsewhere.
        (None, _) => ("fileData", "fileUri", ""),
    };
    (key, [("mimeType", google_type(media).into()), (place, found.into())])
}

/// Returns whether the API knows this call by its id. An id that this crate made up is marked by a
/// `null` in `extra`.
fn has_id(call: &ToolCall) -> bool {
    let kept = kept(FORMAT, &call.extra).and_then(|kept| kept.get("functionCall")?.get("id"));
    !call.id.is_empty() && kept.is_none()
}

/// The response of a tool: `{"output": ..}` or `{"error": ..}`, the keys that the API knows.
fn response<'s>(
    tool: &'s ToolMessage,
    shape: Option<&str>,
    texts: Vec<&'s str>,
) -> BorrowedValue<'s> {
    let said = match (shape, tool.content()) {
        (_, Content::Parts(_)) => texts.into(),
        (None, Content::Text(text)) => text.into(),
        // A response that came as an object is sent back as one, if it still is one.
        (Some(shape), Content::Text(text)) => match serde_json::from_str(text) {
            Ok(whole @ Value::Object(_)) if shape == WHOLE => return BorrowedValue::Value(whole),
            Ok(value) => BorrowedValue::Value(value),
            Err(_) => text.into(),
        },
    };
    let key = if tool.is_error() { "error" } else { "output" };
    Object::of([(key, said)]).into()
}
