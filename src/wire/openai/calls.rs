//! The calls of a streamed answer.

use serde_json::Value;

use super::merge::merge;
use crate::error::Result;
use crate::message::Attributes;
use crate::wire::common::{Fields, Ids, expected, is_object};
use crate::wire::event::Events;

/// The calls so far, in the order in which they began.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<Call>);

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    fields: Attributes,
    /// True where it came without an id, and got one.
    is_named: bool,
    /// The length of its arguments that was shown; `None` as long as nothing was.
    shown: Option<usize>,
}

impl Calls {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a piece to the call that it belongs to.
    pub(super) fn add(
        &mut self,
        mut piece: Fields<'_>,
        ids: &mut Ids,
        events: &mut Events,
    ) -> Result<()> {
        let at = piece.at;
        let index = match piece.take("index") {
            None => None,
            Some(index) => Some(
                index
                    .as_u64()
                    .ok_or_else(|| at.key("index").error(expected("an index", &index)))?,
            ),
        };
        let i = self.place(index, &piece);
        if i == self.0.len() {
            self.0.push(Call { index, ..Call::default() });
        }
        let call = &mut self.0[i];
        if call.is_named {
            // What was shown under another id stays under it.
            piece.take("id");
        }
        for (key, mut value) in piece.rest() {
            // Some servers send an object where there should be text.
            if let Some(object @ Value::Object(_)) = value.get_mut("arguments") {
                *object = object.to_string().into();
            }
            merge(&mut call.fields, &key, value, &at)?;
        }
        call.show(i, ids, events);
        Ok(())
    }

    /// The place of the call that a piece belongs to: that of the last one of its index, or of all
    /// where it has none, unless another call begins.
    fn place(&self, index: Option<u64>, piece: &Fields<'_>) -> usize {
        let same = |call: &Call| index.is_none() || call.index == index;
        let found = self.0.iter().rposition(same).filter(|&i| !self.0[i].is_over(piece));
        found.unwrap_or(self.0.len())
    }

    /// Leaves out the calls of which the end may not have come.
    pub(super) fn keep_whole(&mut self) {
        let last = self.0.len().saturating_sub(1);
        let mut i = 0;
        self.0.retain(|call| {
            i += 1;
            call.is_whole(i - 1 == last)
        });
    }

    /// Writes them as a whole answer has them. What has neither name nor arguments is none.
    pub(super) fn put_into(&mut self, message: &mut Attributes) {
        self.0.retain(|call| call.shown.is_some() || !call.input().is_empty());
        if !self.0.is_empty() {
            let calls = self.0.drain(..).map(|call| Value::Object(call.fields));
            message.insert("tool_calls".to_owned(), calls.collect());
        }
    }
}

impl Call {
    /// Returns true where this piece begins another call: one of another id; or, where an id is
    /// missing, one of another name, or of the same name when the arguments are complete. (Some
    /// servers repeat the name in each piece.)
    fn is_over(&self, piece: &Fields<'_>) -> bool {
        let known = if self.is_named { "" } else { text(&self.fields, "id") };
        let id = piece.peek("id").unwrap_or_default();
        if !id.is_empty() && !known.is_empty() {
            return id != known;
        }
        let function =
            ["function", "custom"].into_iter().find_map(|key| piece.get(key)?.get("name"));
        let name = function.and_then(Value::as_str).unwrap_or_default();
        let known = self.inner("name");
        !name.is_empty() && !known.is_empty() && (name != known || is_object(self.input()))
    }

    fn is_whole(&self, is_last: bool) -> bool {
        let is_custom = self.fields.contains_key("custom");
        !self.inner("name").is_empty()
            && (is_object(self.input()) || (!is_last && (is_custom || self.input().is_empty())))
    }

    /// Tells what has come since the last time, as soon as there is a name.
    fn show(&mut self, i: usize, ids: &mut Ids, events: &mut Events) {
        if self.inner("name").is_empty() {
            return;
        }
        if self.shown.is_none() {
            if text(&self.fields, "id").is_empty() {
                self.fields.insert("id".to_owned(), ids.next().into());
                self.is_named = true;
            }
            events.call(i, text(&self.fields, "id"), self.inner("name"));
        }
        let input = self.input();
        events.arguments(i, input.get(self.shown.unwrap_or(0)..).unwrap_or_default());
        self.shown = Some(input.len());
    }

    fn input(&self) -> &str {
        let arguments = self.inner("arguments");
        if arguments.is_empty() { self.inner("input") } else { arguments }
    }

    /// A text of the function, or of the custom tool.
    fn inner(&self, key: &str) -> &str {
        let object = |kind: &str| self.fields.get(kind)?.get(key)?.as_str();
        object("function").or_else(|| object("custom")).unwrap_or_default()
    }
}

fn text<'a>(fields: &'a Attributes, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}
