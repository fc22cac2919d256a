//! Requests of Google's `generateContent`. The model and streaming are in the URL.

use super::ToolChoice;
use super::body::{Body, Written};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::gemini;

pub(super) fn write<'a>(body: &mut Body<'a>, contents: Vec<BorrowedValue<'a>>) -> Written {
    let request = body.request;
    let system = gemini::system_instruction(request.prompt);
    body.field("systemInstruction", system.map(|system| system.value()))?;
    body.field("contents", contents)?;
    if !request.tools.is_empty() {
        let declarations = request.definitions();
        let declarations = Object::of([("functionDeclarations", declarations.into())]);
        body.list("tools", vec![declarations.into()])?;
    }
    body.inner("toolConfig", "functionCallingConfig", request.chosen()?.map(chosen))?;
    body.inner("generationConfig", "maxOutputTokens", request.max_tokens.map(BorrowedValue::Number))
}

fn chosen(choice: &ToolChoice) -> Object<'_> {
    let (mode, name) = match choice {
        ToolChoice::Auto => ("AUTO", None),
        ToolChoice::None => ("NONE", None),
        ToolChoice::Required => ("ANY", None),
        ToolChoice::Tool(name) => ("ANY", Some(vec![name])),
    };
    Object::of([("mode", mode.into()), ("allowedFunctionNames", name.into())])
}
