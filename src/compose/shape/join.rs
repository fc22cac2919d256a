//! Joins neighbouring messages of one side into one.

use super::blank;
use crate::message::{AiMessage, AiPart, Body, Content, Message, Part, TextPart, UserMessage};
use crate::prompt::Item;
use crate::provider::{Row, given_by, is_private, origin, outgoing};

/// The separator between joined texts.
pub(super) const BETWEEN: &str = "\n\n";

/// Returns all of them as one message; `None` if there is nothing to join.
///
/// The items are all the user's or all the model's. Texts become paragraphs of one text. If several
/// providers gave the answers, only the private fields that this one takes back are kept.
pub(super) fn joined(items: &[Item<'_>], row: &Row) -> Option<Message> {
    let [first, _, ..] = items else { return None };
    match first.message() {
        Message::User(first) => {
            let users = || items.iter().filter_map(|item| as_user(item.message()));
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
            // The name and other fields are kept if all messages have the same.
            let details =
                users().all(|user| user.details == first.details).then(|| first.details.clone());
            Some(Message::User(UserMessage { content, details: details.flatten() }))
        }
        Message::Ai(first) => {
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
            let details =
                answers().all(|ai| ai.details == first.details).then(|| first.details.clone());
            let joined = AiMessage { body: Body::normal(parts), details: details.flatten() };
            let of = if of_several { Some(row.name()) } else { of };
            Some(if let Some(of) = of { given_by(joined, of) } else { joined }.into())
        }
        _ => None,
    }
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

fn as_user(message: &Message) -> Option<&UserMessage> {
    if let Message::User(user) = message { Some(user) } else { None }
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
