//! Assembles a streamed answer.

use std::collections::BTreeMap;

use serde_json::Value;

use super::decode::{self, output_items};
use super::item::Item;
use super::kinds;
use crate::error::Result;
use crate::message::AiMessage;
use crate::provider::Provider;
use crate::wire::common::{At, Fields};
use crate::wire::event::Events;
use crate::wire::stream::{End, FormatStream, Pieces};

/// Assembles the events of a streamed response into one answer.
///
/// The deltas are for showing. The message is made of the whole items that the provider sends when
/// each is done, since only these contain the complete encrypted reasoning. The deltas of an item
/// must match the whole item; otherwise it is an error.
///
/// ```
/// use memory_prompt::wire::{Event, Stop, responses::Stream};
///
/// let mut stream = Stream::new();
/// let mut shown = String::new();
/// for data in [
///     r#"{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "Hel"}"#,
///     r#"{"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": "lo."}"#,
///     r#"{"type": "response.output_item.done", "output_index": 0, "item": {"type": "message", "id": "msg_1",
///         "role": "assistant", "content": [{"type": "output_text", "text": "Hello."}]}}"#,
///     r#"{"type": "response.completed", "response": {"status": "completed", "usage": {"output_tokens": 2}}}"#,
/// ] {
///     for event in stream.push(data)? {
///         if let Event::Text(piece) = event {
///             shown += &piece;
///         }
///     }
/// }
/// let answer = stream.finish()?;
/// assert_eq!((shown.as_str(), &*answer.message.text()), ("Hello.", "Hello."));
/// assert_eq!((answer.stop, answer.usage.output), (Stop::End, Some(2)));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
pub type Stream = FormatStream<Items>;

/// The part of an answer that has arrived.
#[derive(Debug, Default)]
pub struct Items {
    items: BTreeMap<Place, Item>,
}

/// The place of an item: wider than the index of an event, so there is always one behind it.
type Place = u128;

impl Pieces for Items {
    const NAMESAKE: Provider = Provider::OpenAiResponses;
    const READ: &'static str = "read responses stream";
    const OWN: &'static [&'static str] = &["type"];

    fn take(&mut self, mut event: Fields, end: &mut End, events: &mut Events) -> Result<()> {
        let Some(kind) = event.text("type")? else { return Ok(()) };
        let kind = kind.strip_prefix("response.").unwrap_or(&kind);
        match kind {
            "output_item.added" => {
                let item = item(&mut self.items, &mut event)?;
                item.announce(event.take("item").unwrap_or_default(), events);
            }
            "output_text.delta" | "refusal.delta" => {
                let block = number(&mut event, "content_index")?;
                let piece = event.required_text("delta")?;
                let item = open(&mut self.items, &mut event)?;
                item.says(block, kind == "refusal.delta", &piece, events);
            }
            "reasoning_summary_text.delta" | "reasoning_text.delta" => {
                let is_summary = kind == "reasoning_summary_text.delta";
                let key = if is_summary { "summary_index" } else { "content_index" };
                let block = number(&mut event, key)?;
                let piece = event.required_text("delta")?;
                open(&mut self.items, &mut event)?.thinks(block, &piece, events);
            }
            "function_call_arguments.delta" | "custom_tool_call_input.delta" => {
                let piece = event.required_text("delta")?;
                open(&mut self.items, &mut event)?.adds_arguments(&piece, events);
            }
            "output_item.done" => {
                let item = item(&mut self.items, &mut event)?;
                item.finish(event.required("item")?, event.at.key("item"), events)?;
            }
            "completed" | "incomplete" | "failed" | "cancelled" => {
                self.end(event.required_object("response")?, kind, end, events)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn message(self, top: At) -> Result<AiMessage> {
        let items = self.items.into_values().filter_map(|item| item.into_value(false));
        output_items(items.collect(), top)
    }

    fn kept(self, top: At) -> AiMessage {
        let items = self.items.into_values().filter_map(|item| item.into_value(true));
        // One by one, since items that can't be read are not kept.
        let read = items.filter_map(|item| output_items(vec![item], top).ok());
        let parts: Vec<_> = read.flat_map(AiMessage::into_parts).collect();
        AiMessage::from_parts(parts)
    }
}

impl Items {
    fn end(
        &mut self,
        mut response: Fields,
        kind: &str,
        end: &mut End,
        events: &mut Events,
    ) -> Result<()> {
        if !response.has("status") {
            response.put("status", kind);
        }
        let (usage, word) = decode::end(&mut response)?;
        end.usage.is_now(usage);
        let at = response.at.key("output");
        // Finished items were read already; the others are read from here, once.
        let output = response.list("output")?;
        let mut streamed = std::mem::take(&mut self.items);
        let mut places = found(&streamed, &output).into_iter();
        for (i, value) in output.into_iter().enumerate() {
            let place = places.next().flatten();
            let mut item = place.and_then(|it| streamed.remove(&it)).unwrap_or_default();
            if !item.is_done() {
                item.finish(value, at.index(i), events)?;
            }
            self.items.insert(i as Place, item);
        }
        // What the whole does not repeat was said all the same.
        let last = self.items.len() as Place;
        self.items.extend((last..).zip(streamed.into_values()));
        let answered = kinds::answered(self.items.values().map(Item::value));
        // Items that were never done are not stored.
        for item in self.items.values_mut().filter(|item| item.is_done()) {
            item.shows_own_call(|call| !answered.contains(&call.id), events);
        }
        end.says(word);
        end.says_over();
        end.beside.take(response);
        Ok(())
    }
}

/// Returns the item that a piece belongs to, which must not be done yet.
fn open<'a>(items: &'a mut BTreeMap<Place, Item>, event: &mut Fields) -> Result<&'a mut Item> {
    let item = item(items, event)?;
    if item.is_done() { Err(event.at.error("a piece of an item that is done")) } else { Ok(item) }
}

/// Returns the place among the streamed items of each that an answer ends with: by its number and
/// name, else by its name or its number alone, since some servers count otherwise at the end, and
/// others name otherwise.
fn found(streamed: &BTreeMap<Place, Item>, output: &[Value]) -> Vec<Option<Place>> {
    let mut found = vec![None; output.len()];
    for (by_number, by_name) in [(true, true), (false, true), (true, false)] {
        for (i, value) in output.iter().enumerate() {
            if found[i].is_some() {
                continue;
            }
            let mut left = streamed.iter().filter(|(at, _)| !found.contains(&Some(**at)));
            let place = left.find(|(at, item)| {
                (!by_number || **at == i as Place)
                    && if by_name { item.is_named_like(value) } else { item.may_be(value) }
            });
            found[i] = place.map(|(at, _)| *at);
        }
    }
    found
}

/// Returns the item of an event: by number or name, else the last one. If an item ends at the place
/// of another one, it is put at the end.
fn item<'a>(items: &'a mut BTreeMap<Place, Item>, event: &mut Fields) -> Result<&'a mut Item> {
    let index = match items.last_key_value() {
        Some((last, newest)) if !event.has("output_index") => place(items, *last, newest, event),
        Some((last, _)) => {
            let index = number(event, "output_index")?.into();
            let is_taken = |value| items.get(&index).is_some_and(|it| it.is_unlike(value));
            if event.get("item").is_some_and(is_taken) { last + 1 } else { index }
        }
        None => number(event, "output_index")?.into(),
    };
    Ok(items.entry(index).or_default())
}

/// Returns the place of an item without a number, as llama.cpp sends them.
fn place(items: &BTreeMap<Place, Item>, last: Place, newest: &Item, event: &Fields) -> Place {
    let item = event.get("item");
    let field = |key: &str| item?.get(key)?.as_str();
    let name = event.peek("item_id").or_else(|| field("id")).or_else(|| field("call_id"));
    let Some(name) = name.filter(|name| !name.is_empty()) else { return last };
    let known = items.iter().rev().find(|(_, it)| it.names().any(|it| it == name));
    let begins = item.is_some() && (newest.is_done() || newest.names().next().is_some());
    known.map_or_else(|| last + Place::from(begins), |(place, _)| *place)
}

fn number(event: &mut Fields, key: &'static str) -> Result<u64> {
    Ok(event.index(key)?.unwrap_or_default())
}
