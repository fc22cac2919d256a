//! Writes messages like LangChain4j's codec.

use super::{ATTRIBUTE, FORMAT, MEDIA, Messages, Options, REDACTED, SIGNATURE};
use crate::message::{
    AiMessage, AiPart, Attributes, Content, Detail, Media, Message, Part, Reasoning, Source,
    ToolCall,
};
use crate::provider::{Provider, attributes};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::common::{as_other_part, kept, kept_object, kept_type, known_type, placeholder};
use crate::wire::losses::Weight;
use crate::wire::terms::Sent;
use crate::wire::view::MessageFormat;

impl MessageFormat for Options {
    /// Unused: no provider reads this format.
    const NAMESAKE: Provider = Provider::OpenAiCompatible;
    const OPERATION: &'static str = "write langchain4j messages";
    const STORED: bool = true;

    fn messages<'s>(_: &Messages<'_>, sent: &'s [Sent<'_>]) -> Vec<BorrowedValue<'s>> {
        sent.iter().filter_map(|sent| Some(message(sent)?.into())).collect()
    }
}

fn message<'s>(sent: &'s Sent<'_>) -> Option<Object<'s>> {
    let message = &*sent.message;
    let mut object = Object::default();
    let mut of_reasoning = Object::default();
    let kind = match message {
        // LangChain4j refuses to read one.
        Message::System(m) if m.text().trim().is_empty() => {
            sent.refuse_all("a blank system message");
            return None;
        }
        Message::System(m) => {
            object.put("text", m.text());
            "SYSTEM"
        }
        Message::User(m) => {
            object.put("name", m.name().map(BorrowedValue::unless_empty));
            object.put("contents", contents(m.content(), sent));
            "USER"
        }
        Message::Ai(m) => {
            of_reasoning = answer(&mut object, m, sent);
            "AI"
        }
        Message::Tool(m) => {
            object.put("id", BorrowedValue::unless_empty(m.call_id()));
            object.put("toolName", BorrowedValue::unless_empty(m.tool_name()));
            object.put("contents", contents(m.content(), sent));
            object.put("text", BorrowedValue::Nothing);
            object.put("isError", m.is_error().then_some(true));
            "TOOL_EXECUTION_RESULT"
        }
        Message::Custom(m) => {
            if m.role() != "custom" || !m.fields().is_empty() {
                sent.refuse_all("a role of its own");
            }
            "CUSTOM"
        }
    };
    let all = attributes(message);
    if !message.is_system() {
        let shared = of_reasoning.kept(Some(all), &[ATTRIBUTE]);
        // For user messages, LangChain4j leaves the field out if it is empty.
        let is_left_out = message.is_user() && shared.is_empty();
        object.put("attributes", (!is_left_out).then_some(shared));
    }
    Some(object.kept(kept(ATTRIBUTE, all), &["type"]).with("type", kind))
}

/// Writes an answer, and returns the attributes with the signatures of its reasoning: there is room
/// for one text with one signature, and for redacted data.
fn answer<'s>(object: &mut Object<'s>, m: &'s AiMessage, sent: &Sent<'_>) -> Object<'s> {
    let (mut texts, mut calls, mut redacted) = (Vec::new(), Vec::new(), Vec::new());
    let mut shown: Vec<&Reasoning> = Vec::new();
    for (i, part) in m.parts().iter().enumerate() {
        match part {
            AiPart::Content(part) => match part.as_text() {
                Some(text) => texts.push(text),
                // A placeholder would look like the model's own words.
                None => sent.refuse(i, part),
            },
            AiPart::Reasoning(reasoning) => {
                if reasoning.signature.is_some() && !is_signed(reasoning) {
                    sent.lose(i, "another provider's signature", Weight::Refused);
                }
                if is_redacted(reasoning) {
                    redacted.extend(reasoning.signature.as_deref());
                } else {
                    shown.push(reasoning);
                }
            }
            AiPart::ToolCall(call) => {
                if call.signature.is_some() {
                    sent.lose(i, "a call's signature", Weight::Refused);
                }
                calls.push(request(call));
            }
        }
    }
    let text = m.as_text().map(BorrowedValue::from);
    let joined = (!texts.is_empty()).then(|| BorrowedValue::Text(texts.concat().into()));
    object.put("text", text.or(joined));
    // If there are several signed parts, none of them could be sent again.
    if shown.len() > 1 && shown.iter().any(|it| is_signed(it)) {
        sent.refuse_all("reasoning in several signed parts");
        shown.clear();
    }
    let thoughts: Vec<&str> = shown.iter().map(|it| it.text.as_str()).collect();
    let thinking = (!shown.is_empty()).then(|| BorrowedValue::Text(thoughts.concat().into()));
    object.put("thinking", thinking);
    object.put("toolExecutionRequests", calls);
    let signature = shown.first().filter(|it| is_signed(it)).and_then(|it| it.signature.as_ref());
    let mut own = Object::default();
    if let Some(signature) = signature {
        own.put(SIGNATURE, signature);
    }
    if !redacted.is_empty() {
        own.put(REDACTED, redacted);
    }
    own
}

/// Returns whether this reasoning has a signature that the Java application's client sends again.
fn is_signed(reasoning: &Reasoning) -> bool {
    let is_anthropics = reasoning.extra.is_empty() || reasoning.extra.contains_key("anthropic");
    reasoning.signature.is_some() && is_anthropics
}

fn is_redacted(reasoning: &Reasoning) -> bool {
    kept_type("anthropic", &reasoning.extra) == Some(REDACTED)
}

fn request(call: &ToolCall) -> Object<'_> {
    let own = [
        ("id", BorrowedValue::unless_empty(&call.id)),
        ("name", (&call.name).into()),
        ("arguments", (&call.arguments).into()),
    ];
    Object::of(own).kept(kept(FORMAT, &call.extra), &[])
}

/// Writes `contents`, which are never empty.
fn contents<'s>(content: &'s Content, sent: &Sent<'_>) -> Vec<Object<'s>> {
    let bare = |text| element_of(text, None);
    let parts = match content {
        Content::Text(text) => return vec![bare(text)],
        Content::Parts(parts) if parts.is_empty() => return vec![bare("")],
        Content::Parts(parts) => parts,
    };
    let one = |(i, part)| {
        element(part).unwrap_or_else(|| {
            sent.refuse(i, part);
            bare(placeholder(part))
        })
    };
    parts.iter().enumerate().map(one).collect()
}

fn element_of<'s>(text: &'s str, kept: Option<&'s Attributes>) -> Object<'s> {
    Object::of([("text", text.into())]).kept(kept, &["type"]).with("type", "TEXT")
}

/// Writes one element of `contents`; `None` if there is no place for the part.
fn element(part: &Part) -> Option<Object<'_>> {
    let media = match part {
        Part::Text(part) => return Some(element_of(&part.text, kept(FORMAT, &part.extra))),
        Part::Other(_) => return as_other_part(FORMAT, part).map(|it| Object::of_kept(Some(it))),
        media => media.as_media()?,
    };
    let (_, name, field) = MEDIA.into_iter().find(|(kind, ..)| *kind == part.kind())?;
    let is_pdf = || known_type(media).is_none_or(|media_type| media_type == "application/pdf");
    if matches!(part, Part::File(_)) && !is_pdf() {
        return None;
    }
    let (key, value) = match &media.source {
        Source::Base64(data) => ("base64Data", data.as_str()),
        Source::Reference(_) => ("base64Data", ""),
        Source::Url(url) => ("url", url.as_str()),
        Source::FileId(_) => return None,
    };
    let kept = kept(FORMAT, &media.extra);
    let data = Object::of([(key, value.into()), ("mimeType", known_type(media).into())]);
    let level = matches!(part, Part::Image(_)).then(|| level(media));
    let own = Object::of([(field, data.kept(kept_object(kept, field), &[]).into())]);
    Some(own.with("detailLevel", level).kept(kept, &["type"]).with("type", name))
}

/// Returns LangChain4j's level. It reads no other levels, and requires one.
fn level(media: &Media) -> &'static str {
    const LEVELS: [&str; 5] = ["LOW", "MEDIUM", "HIGH", "ULTRA_HIGH", "AUTO"];
    let detail = media.detail.as_ref().map_or("auto", Detail::as_str);
    LEVELS.into_iter().find(|level| level.eq_ignore_ascii_case(detail)).unwrap_or("AUTO")
}
