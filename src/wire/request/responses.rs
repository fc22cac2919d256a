//! Requests of OpenAI Responses.

use serde_json::Value;

use super::Request;
use super::body::{Body, Written};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::responses;

pub(super) fn write<'a>(body: &mut Body<'a>, input: Vec<BorrowedValue<'a>>) -> Written {
    let request = body.request;
    body.field("model", request.model.as_deref())?;
    if !request.row().developer {
        body.field("instructions", responses::instructions(request.prompt))?;
    }
    body.field("input", input)?;
    body.field("max_output_tokens", request.max_tokens.map(BorrowedValue::Number))?;
    body.list("tools", request.definitions())?;
    let tool = |name| Object::block("function", "name", name);
    body.field("tool_choice", request.chosen()?.map(|choice| choice.written(tool)))?;
    body.field("stream", request.stream.then_some(true))?;
    // The memory keeps the conversation, so the provider does not need to.
    if !body.has_extra("store") {
        body.field("store", false)?;
    }
    if request.wants_encrypted() {
        body.list("include", vec![ENCRYPTED.into()])?;
    }
    Ok(())
}

/// Reasoning in a form that can be sent back to a provider that stores nothing.
const ENCRYPTED: &str = "reasoning.encrypted_content";

impl<'a> Request<'a> {
    /// Returns the messages as Responses items, for a provider that stores them or not.
    pub(super) fn input(&self) -> responses::Input<'a> {
        let input = responses::input(self.prompt);
        if self.is_stored() { input } else { input.unstored() }
    }

    fn is_stored(&self) -> bool {
        self.extra.get("store").is_some_and(|store| *store == true)
    }

    /// Returns whether encrypted reasoning must be requested, and was not. Models that don't reason
    /// refuse the option: "Encrypted content is not supported with this model."
    fn wants_encrypted(&self) -> bool {
        let asked = self.extra.get("include").and_then(Value::as_array);
        let is_asked = asked.is_some_and(|all| all.iter().any(|it| it == ENCRYPTED));
        let reasons = self.extra.get("reasoning").is_some_and(Value::is_object)
            || self.model.as_deref().is_some_and(reasons);
        reasons && !self.is_stored() && !is_asked
    }
}

/// Returns whether a model of this name is known to reason: OpenAI's since o1 and GPT-5, except
/// chat models.
fn reasons(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or_default();
    let begins = |rest: &str, least: u32| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        // Azure writes 3.5 as 35.
        rest[..digits].parse().is_ok_and(|number: u32| (least..35).contains(&number))
    };
    let is_newer = name.strip_prefix("gpt-").is_some_and(|rest| begins(rest, 5));
    let is_o = name.strip_prefix('o').is_some_and(|rest| begins(rest, 1));
    (is_newer || is_o) && !name.contains("chat")
}
