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
        let input = if self.reasons() == Some(false) { input.unthinking() } else { input };
        if self.is_stored() { input } else { input.unstored() }
    }

    /// Returns whether the model reasons, if its name or the options tell.
    fn reasons(&self) -> Option<bool> {
        let is_asked = self.extra.get("reasoning").is_some_and(Value::is_object);
        if is_asked { Some(true) } else { self.model.as_deref().and_then(reasons) }
    }

    fn is_stored(&self) -> bool {
        self.extra.get("store").is_some_and(|store| *store == true)
    }

    /// Returns whether encrypted reasoning must be requested, and was not. Models that don't reason
    /// refuse the option: "Encrypted content is not supported with this model."
    fn wants_encrypted(&self) -> bool {
        let asked = self.extra.get("include").and_then(Value::as_array);
        let is_asked = asked.is_some_and(|all| all.iter().any(|it| it == ENCRYPTED));
        self.reasons() == Some(true) && !self.is_stored() && !is_asked
    }
}

/// Returns whether a model of this name reasons, if it is known: OpenAI's do since o1 and GPT-5,
/// except chat models.
fn reasons(model: &str) -> Option<bool> {
    let name = model.rsplit('/').next().unwrap_or_default();
    let number = |rest: &str| {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        rest[..digits].parse::<u32>().ok()
    };
    let gpt = name.strip_prefix("gpt-").and_then(number);
    // Azure writes 3.5 as 35.
    let gpt = gpt.map(|number| (5..35).contains(&number));
    let o = || name.strip_prefix('o').and_then(number).map(|_| true);
    gpt.or_else(o).map(|reasons| reasons && !name.contains("chat"))
}
