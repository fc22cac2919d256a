//! A block of a streamed answer.

use serde_json::Value;

use super::decode::ai_part;
use crate::error::Result;
use crate::message::{AiPart, Attributes, is_object};
use crate::provider::{hosted_call, hosted_result};
use crate::wire::common::{At, Fields};
use crate::wire::event::Events;

/// A block so far.
#[derive(Debug)]
pub(super) struct StreamedBlock {
    fields: Attributes,
    /// The pieces of `input`, which may be broken JSON if the model was cut off.
    input: String,
    /// The index among the calls of the answer, if it is a call.
    call: Option<usize>,
    is_closed: bool,
}

impl StreamedBlock {
    pub(super) fn begin(fields: Fields, events: &mut Events) -> Self {
        let text = |key| fields.peek(key).unwrap_or_default();
        let mut call = None;
        match text("type") {
            "text" => events.text(text("text")),
            "thinking" => events.reasoning(text("thinking")),
            "tool_use" => call = Some(events.call(text("id"), text("name"))),
            _ => {}
        }
        Self { fields: fields.whole(), input: String::new(), call, is_closed: false }
    }

    pub(super) fn add(&mut self, mut delta: Fields, events: &mut Events) -> Result<()> {
        match &*delta.required_text("type")? {
            "text_delta" => {
                let text = delta.required_text("text")?;
                self.append("text", &text);
                if self.is_text() {
                    events.text(&text);
                }
            }
            "input_json_delta" => {
                let piece = delta.required_text("partial_json")?;
                if let Some(call) = self.call {
                    events.arguments(call, &piece);
                }
                self.input.push_str(&piece);
            }
            "signature_delta" => {
                let signature = delta.required_text("signature")?;
                self.fields.insert("signature".to_owned(), signature.into());
            }
            "citations_delta" => {
                let citation = delta.required("citation")?;
                if let Some(Value::Array(citations)) = self.fields.get_mut("citations") {
                    citations.push(citation);
                } else {
                    self.fields.insert("citations".to_owned(), Value::Array(vec![citation]));
                }
            }
            // The text of `thinking_delta`, `compaction_delta` and future deltas continues where it
            // stopped.
            kind => {
                let own = kind.strip_suffix("_delta").map(|own| match own {
                    "compaction" => "content",
                    own => own,
                });
                for (key, value) in delta.rest() {
                    match value {
                        Value::String(text) if own == Some(&*key) => {
                            self.append(&key, &text);
                            if own == Some("thinking") {
                                events.reasoning(&text);
                            }
                        }
                        // Only the deltas above may change it.
                        _ if ["id", "input", "name", "text", "type"].contains(&&*key) => {}
                        value => drop(self.fields.insert(key, value)),
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn close(&mut self, events: &mut Events) {
        // Some gateways send the whole input at the beginning.
        if let (Some(call), false, true) = (self.call, self.is_closed, self.input.trim().is_empty())
            && let Some(input @ Value::Object(fields)) = self.fields.get("input")
            && !fields.is_empty()
        {
            events.arguments(call, &input.to_string());
        }
        self.is_closed = true;
    }

    pub(super) fn is_text(&self) -> bool {
        self.kind() == "text"
    }

    fn kind(&self) -> &str {
        self.fields.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the id of the provider's own call that this block answers.
    pub(super) fn answers(&self) -> Option<String> {
        hosted_result(&self.fields).filter(|_| self.is_closed).map(str::to_owned)
    }

    /// Returns whether this is a call of one of the provider's own tools without a result.
    fn is_unanswered(&self, answered: &[String]) -> bool {
        hosted_call(&self.fields).is_some_and(|call| !answered.iter().any(|id| id == call))
    }

    /// Returns whether such a call was cut off: it has no place for broken arguments, and will get
    /// no result.
    pub(super) fn is_cut_off(&self, answered: &[String]) -> bool {
        let input = self.input.trim();
        !input.is_empty() && !is_object(input) && self.is_unanswered(answered)
    }

    /// Returns whether the block can be kept if the stream broke off: a call of the provider's own
    /// tools is worth nothing without its result.
    pub(super) fn is_whole(&self, answered: &[String]) -> bool {
        match self.kind() {
            "text" => true,
            "tool_use" => self.is_closed && self.input.trim().is_empty() || is_object(&self.input),
            _ => self.is_closed && !self.is_unanswered(answered),
        }
    }

    fn append(&mut self, key: &str, text: &str) {
        match self.fields.get_mut(key) {
            Some(Value::String(all)) => all.push_str(text),
            _ => drop(self.fields.insert(key.to_owned(), text.into())),
        }
    }

    pub(super) fn into_part(mut self, at: At) -> Result<AiPart> {
        let mut cut_off = None;
        if !self.input.trim().is_empty() {
            let input = serde_json::from_str::<Attributes>(&self.input).unwrap_or_else(|_| {
                cut_off = Some(self.input);
                Attributes::new()
            });
            self.fields.insert("input".to_owned(), Value::Object(input));
        }
        let mut part = ai_part(Fields::of(Value::Object(self.fields), at)?)?;
        match (&mut part, cut_off) {
            (AiPart::ToolCall(call), Some(text)) => call.arguments = text,
            // A call of a provider's own tool has no place for broken arguments.
            (_, Some(_)) => return Err(at.key("input").error("not valid JSON")),
            (_, None) => {}
        }
        Ok(part)
    }
}
