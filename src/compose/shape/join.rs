//! Joins neighbouring messages of one side into one.

use std::borrow::Cow;

use super::blank;
use crate::message::{
    AiMessage, AiPart, Body, Content, DetailFields, Details, Message, Part, TextPart, UserMessage,
};
use crate::prompt::Item;
use crate::provider::{Row, given_by, is_private, origin, outgoing};

/// The separator between joined texts.
pub(super) const BETWEEN: &str = "\n\n";

/// Returns all of them as one message; `None` if there is nothing to join.
///
/// The items are all the user's or all the model's. Texts become paragraphs of one text. If several
/// users speak, their names are in the text. If several providers gave the answers, only the
/// private fields that this one takes back are kept.
pub(super) fn joined(items: &[Item<'_>], row: &Row) -> Option<Message> {
    let [first, _, ..] = items else { return None };
    match first.message() {
        Message::User(_) => {
            let all = spoken(items);
            let users = || all.iter().filter_map(|message| message.as_user());
            let mut parts = Vec::new();
            for user in users() {
                match &user.content {
                    Content::Text(text) => append(&mut parts, [Part::text(text)], bare),
                    Content::Parts(more) => append(&mut parts, more.iter().cloned(), bare),
                }
            }
            let one = if let [one] = parts.as_mut_slice() { bare(one) } else { None };
            let content = match one.map(std::mem::take) {
                Some(text) => Content::Text(text),
                None => Content::Parts(parts.into_boxed_slice()),
            };
            let details = common(users().map(|user| &user.details));
            Some(Message::User(UserMessage { content, details }))
        }
        Message::Ai(_) => {
            let answers = || items.iter().filter_map(|item| item.message().as_ai());
            let mut origins = answers().filter(|ai| is_private(ai)).map(origin);
            let of = origins.next().flatten();
            let of_several = origins.any(|next| next != of);
            let mut parts = Vec::new();
            for message in items.iter().map(Item::message) {
                let left =
                    if of_several { outgoing(message, row).map(|(left, _)| left) } else { None };
                let answer = left.as_ref().unwrap_or(message).as_ai();
                match answer.filter(|ai| left.is_none() || !blank::is_empty(ai)).map(|ai| &ai.body)
                {
                    Some(Body::Text(text)) => {
                        append(&mut parts, [text.as_str().into()], bare_of_answer);
                    }
                    Some(Body::Parts(more)) => {
                        append(&mut parts, more.iter().cloned(), bare_of_answer);
                    }
                    None => {}
                }
            }
            let details = common(answers().map(|ai| &ai.details));
            let joined = AiMessage { body: Body::normal(parts), details };
            let of = if of_several { Some(row.name()) } else { of };
            Some(if let Some(of) = of { given_by(joined, of) } else { joined }.into())
        }
        _ => None,
    }
}

/// Returns the messages, with the name of each user in front of the text if not all have the same.
pub(super) fn spoken<'a>(items: &'a [Item<'_>]) -> Vec<Cow<'a, Message>> {
    let messages = || items.iter().map(Item::message);
    let name = |message: &'a Message| message.as_user().and_then(UserMessage::speaker);
    let first = items.first().and_then(|item| name(item.message()));
    let is_one = messages().all(|message| name(message) == first);
    let in_text = |message: &Message| message.as_user().filter(|_| !is_one)?.with_name_in_text();
    let with_name = |message| match in_text(message) {
        Some((named, _)) => Cow::Owned(named.into()),
        None => Cow::Borrowed(message),
    };
    messages().map(with_name).collect()
}

/// Returns the fields that the joined message keeps: all if the messages have the same, or else the
/// name if they have the same.
fn common<'a>(mut all: impl Iterator<Item = &'a Details>) -> Details {
    let first = all.next()?.as_deref()?;
    let (mut is_same, mut is_named) = (true, true);
    for other in all.map(Option::as_deref) {
        is_same &= other == Some(first);
        is_named &= other.and_then(|it| it.name.as_ref()) == first.name.as_ref();
    }
    if is_same {
        return Some(Box::new(first.clone()));
    }
    let name = first.name.clone().filter(|_| is_named);
    DetailFields { name, ..DetailFields::default() }.boxed()
}

fn append<P>(
    parts: &mut Vec<P>,
    more: impl IntoIterator<Item = P>,
    bare: fn(&mut P) -> Option<&mut String>,
) {
    let mut more = more.into_iter();
    let Some(mut next) = more.next() else { return };
    match (parts.last_mut().and_then(bare), bare(&mut next)) {
        (Some(before), Some(text)) => {
            before.push_str(BETWEEN);
            before.push_str(text);
        }
        _ => parts.push(next),
    }
    parts.extend(more);
}

/// Returns the text of a part that has no other fields.
fn bare(part: &mut Part) -> Option<&mut String> {
    match part {
        Part::Text(TextPart { text, extra }) if extra.is_empty() => Some(text),
        _ => None,
    }
}

fn bare_of_answer(part: &mut AiPart) -> Option<&mut String> {
    if let AiPart::Content(part) = part { bare(part) } else { None }
}
