//! Requests of Google's `generateContent`. Model and stream stand in the URL.

use serde::Serialize;
use serde::ser::SerializeMap;

use super::body::Body;
use super::{Request, ToolChoice};
use crate::provider::Definition;
use crate::wire::gemini;

pub(super) fn write<M: SerializeMap>(
    request: &Request<'_>,
    mut body: Body<'_, M>,
) -> Result<M::Ok, M::Error> {
    body.optional("systemInstruction", gemini::system_instruction(request.prompt))?;
    body.field("contents", &request.on_terms(gemini::contents(request.prompt)))?;
    if !request.tools.is_empty() {
        let function_declarations: Vec<_> = request.definitions().collect();
        let declarations = Declarations { function_declarations };
        body.list("tools", std::iter::once(&declarations))?;
    }
    body.inner("toolConfig", "functionCallingConfig", request.chosen()?.map(Chosen::of))?;
    body.inner("generationConfig", "maxOutputTokens", request.max_tokens)?;
    body.end()
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declarations<'a> {
    function_declarations: Vec<Definition<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Chosen<'a> {
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_function_names: Option<[&'a str; 1]>,
}

impl<'a> Chosen<'a> {
    fn of(choice: &'a ToolChoice) -> Self {
        let (mode, name) = match choice {
            ToolChoice::Auto => ("AUTO", None),
            ToolChoice::None => ("NONE", None),
            ToolChoice::Required => ("ANY", None),
            ToolChoice::Tool(name) => ("ANY", Some(name.as_str())),
        };
        Self { mode, allowed_function_names: name.map(|name| [name]) }
    }
}
