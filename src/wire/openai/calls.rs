//! The calls of a streamed answer.

use serde_json::Value;

use super::merge::merge;
use crate::error::Result;
use crate::message::{Attributes, is_object};
use crate::wire::common::{Fields, Ids};
use crate::wire::event::Events;

/// The fields with the name and the arguments of a call.
const KINDS: [&str; 2] = ["function", "custom"];

#[derive(Debug, Default)]
pub(super) struct Calls {
    list: Vec<Call>,
    /// The highest index so far. A higher one begins a call without a search.
    highest: Option<u64>,
}

#[derive(Debug, Default)]
struct Call {
    index: Option<u64>,
    fields: Attributes,
    /// True if it came without an id, and got one.
    is_named: bool,
    /// How much of its arguments was shown; `None` if the call was not shown yet.
    shown: Option<usize>,
    braces: Braces,
}

/// Counts the braces of growing arguments, so that each byte is read once.
#[derive(Debug, Default)]
struct Braces {
    seen: usize,
    depth: usize,
    in_text: bool,
    is_escaped: bool,
    /// True if the arguments are an object; `None` while braces are open.
    closed: Option<bool>,
}

impl Calls {
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn add(
        &mut self,
        mut piece: Fields,
        ids: &mut Ids,
        events: &mut Events,
    ) -> Result<()> {
        let at = piece.at;
        let index = piece.index("index")?;
        let mut piece = piece.rest();
        let i = self.place(index, &piece);
        if i == self.list.len() {
            // Calls before the last one were shown when the next one began.
            if let Some(last) = self.list.last_mut() {
                last.show(i - 1, false, ids, events);
            }
            self.list.push(Call::default());
        }
        self.highest = self.highest.max(index);
        let call = &mut self.list[i];
        call.index = index.or(call.index);
        if call.is_named {
            // A call that was shown under an id keeps it.
            piece.remove("id");
        }
        call.name_on(&piece);
        for (key, mut value) in piece {
            // Some servers send an object instead of a text.
            if let Some(object @ Value::Object(_)) = value.get_mut("arguments") {
                *object = object.to_string().into();
            }
            if let Some(Value::String(more)) = value.get_mut("arguments") {
                call.begin_again(more);
            }
            merge(&mut call.fields, &key, value, at)?;
        }
        call.braces.read(input(&call.fields));
        if !call.input().is_empty() {
            call.show(i, false, ids, events);
        }
        Ok(())
    }

    /// Shows everything that has arrived. A name may arrive in pieces: it is complete when
    /// arguments, another call or the end arrive.
    pub(super) fn show(&mut self, ids: &mut Ids, events: &mut Events) {
        for (i, call) in self.list.iter_mut().enumerate() {
            call.show(i, true, ids, events);
        }
    }

    /// Returns the place of the call that a piece belongs to: the last one with its index, or the
    /// last one of all if it has no index, unless another call begins.
    fn place(&self, index: Option<u64>, piece: &Attributes) -> usize {
        let next = self.list.len();
        let same = |call: &Call| index.is_none() || call.index == index;
        let is_known = index <= self.highest;
        let mut found = if is_known { self.list.iter().rposition(same) } else { None };
        if is_tail(piece) {
            // Some servers send the arguments under another index than the name.
            let is_open = |i: &usize| self.list[*i].is_open();
            // Arguments that come again repeat a call only if those of the last one have begun.
            let again = input(piece);
            let is_begun = self.list.last().is_some_and(|call| !call.input().is_empty());
            let goes_on = |i: &usize| is_open(i) || is_begun && self.list[*i].input() == again;
            let last = next.checked_sub(1).filter(is_open);
            found = found.filter(goes_on).or(last).or(found);
        }
        found.filter(|&i| !self.list[i].is_over(piece, index.is_some())).unwrap_or(next)
    }

    /// Removes calls that may be incomplete.
    pub(super) fn keep_whole(&mut self) {
        let last = self.list.pop().filter(|call| call.is_whole(true));
        self.list.retain(|call| call.is_whole(false));
        self.list.extend(last);
    }

    /// Writes the calls in the form of a whole answer. A call with neither name nor arguments is
    /// left out.
    pub(super) fn put_into(&mut self, message: &mut Attributes) {
        self.list.retain(|call| !call.inner("name").is_empty() || !call.input().is_empty());
        if !self.list.is_empty() {
            let calls = self.list.drain(..).map(|call| Value::Object(call.fields));
            message.insert("tool_calls".to_owned(), calls.collect());
        }
    }
}

impl Call {
    /// Returns whether this piece begins another call: one with another id or, if an id is missing,
    /// one with another name, or with the same name when the arguments are complete. (Some servers
    /// repeat the name in each piece.)
    fn is_over(&self, piece: &Attributes, is_indexed: bool) -> bool {
        let known = self.inner("name");
        let is_same = name(piece).is_empty() || name(piece) == known;
        let is_open = !self.is_object();
        match (self.id(), text(piece, "id")) {
            // Until the middle of 2025, vLLM made a new id for each piece of a forced call; each
            // piece had some of the arguments.
            (known, id) if !known.is_empty() && !id.is_empty() => {
                let brings = !inner(piece, "arguments").is_empty();
                let goes_on = is_indexed && is_same && is_open && brings && !self.is_custom();
                id != known && !goes_on
            }
            // The name may continue: only the first piece of a call has its id.
            (id, _) if is_indexed && !id.is_empty() && self.input().is_empty() => false,
            _ => !(known.is_empty() || name(piece).is_empty() || is_same && is_open),
        }
    }

    /// Appends a piece of the name, unless it repeats the whole name.
    fn name_on(&mut self, piece: &Attributes) {
        if self.shown.is_some() || !self.input().is_empty() {
            return;
        }
        let more = name(piece);
        for kind in KINDS {
            let field = self.fields.get_mut(kind).and_then(|it| it.get_mut("name"));
            if let Some(Value::String(known)) = field.filter(|known| *known != more) {
                known.push_str(more);
            }
        }
    }

    /// Prepares for more arguments after a whole object, which nothing can follow: they replace the
    /// `{}` that some servers send first, and are dropped if they repeat the object.
    fn begin_again(&mut self, more: &mut String) {
        if self.is_object() && *more == self.input() {
            more.clear();
        } else if self.is_placeholder() && more.starts_with('{') {
            let function = self.fields.get_mut("function");
            if let Some(arguments) = function.and_then(|it| it.get_mut("arguments")) {
                *arguments = Value::Null;
            }
            self.braces = Braces::default();
        }
    }

    /// Returns whether the arguments are a `{}` that was not shown: they may come later.
    fn is_placeholder(&self) -> bool {
        let arguments = self.fields.get("function").and_then(|it| it.get("arguments"));
        self.shown.unwrap_or(0) == 0 && arguments.is_some_and(|it| it == "{}")
    }

    /// Returns whether more arguments may follow.
    fn is_open(&self) -> bool {
        !self.is_object() || self.is_placeholder()
    }

    /// Returns the id that it came with.
    fn id(&self) -> &str {
        if self.is_named { "" } else { text(&self.fields, "id") }
    }

    fn is_custom(&self) -> bool {
        self.fields.contains_key("custom")
    }

    fn is_whole(&self, is_last: bool) -> bool {
        let is_over = self.is_custom() || self.input().is_empty();
        !self.inner("name").is_empty() && (self.is_object() || (!is_last && is_over))
    }

    /// Shows what has arrived since the last time, as soon as there is a name. A `{}` is shown at
    /// the end of the answer.
    fn show(&mut self, i: usize, is_end: bool, ids: &mut Ids, events: &mut Events) {
        if self.inner("name").is_empty() {
            return;
        }
        if self.shown.is_none() {
            if text(&self.fields, "id").is_empty() {
                self.fields.insert("id".to_owned(), ids.next().into());
                self.is_named = true;
            }
            events.call_at(i, text(&self.fields, "id"), self.inner("name"));
        }
        let input = if is_end || !self.is_placeholder() { self.input() } else { "" };
        events.arguments(i, input.get(self.shown.unwrap_or(0)..).unwrap_or_default());
        self.shown = Some(input.len());
    }

    fn is_object(&self) -> bool {
        self.braces.closed == Some(true)
    }

    /// Returns the arguments so far, where the kind of the call has them.
    fn input(&self) -> &str {
        if text(&self.fields, "type") == "custom" {
            of_kind(&self.fields, "custom", "input").unwrap_or_default()
        } else {
            of_kind(&self.fields, "function", "arguments").unwrap_or_default()
        }
    }

    fn inner(&self, key: &str) -> &str {
        inner(&self.fields, key)
    }
}

impl Braces {
    /// Reads the new part of the arguments, which only grow.
    fn read(&mut self, json: &str) {
        for byte in json.as_bytes().get(self.seen..).unwrap_or_default() {
            self.seen += 1;
            match byte {
                _ if self.is_escaped => self.is_escaped = false,
                b'\\' if self.in_text => self.is_escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text || byte.is_ascii_whitespace() => continue,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            if self.closed.is_some() {
                self.closed = Some(false); // something follows the object
            } else if self.depth == 0 && matches!(byte, b'}' | b']') {
                self.closed = Some(json.get(..self.seen).is_some_and(is_object));
            }
        }
    }
}

/// Returns whether a piece has only arguments.
fn is_tail(piece: &Attributes) -> bool {
    let is_head = !name(piece).is_empty() || !text(piece, "id").is_empty();
    !is_head && !input(piece).is_empty()
}

fn name(piece: &Attributes) -> &str {
    inner(piece, "name")
}

fn input(call: &Attributes) -> &str {
    let arguments = inner(call, "arguments");
    if arguments.is_empty() { inner(call, "input") } else { arguments }
}

/// Returns a text of the function, or of the custom tool, in a call or a piece of one.
fn inner<'a>(call: &'a Attributes, key: &str) -> &'a str {
    KINDS.into_iter().find_map(|kind| of_kind(call, kind, key)).unwrap_or_default()
}

fn of_kind<'a>(call: &'a Attributes, kind: &str, key: &str) -> Option<&'a str> {
    call.get(kind)?.get(key)?.as_str()
}

fn text<'a>(fields: &'a Attributes, key: &str) -> &'a str {
    fields.get(key).and_then(Value::as_str).unwrap_or_default()
}
