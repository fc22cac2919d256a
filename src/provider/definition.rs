//! The definition of a tool, in the form that is sent to a provider.

use serde::{Serialize, Serializer};

use super::schema::{Schema, Taken};
use super::{Format, Provider, ToolNames};
use crate::tool::Tool;

/// A view of a tool that serialises as its definition in a format's request, with a cache mark if
/// one is given.
#[derive(Debug)]
pub struct Definition<'a, M = ()> {
    tool: &'a Tool,
    format: Format,
    mark: Option<M>,
}

impl<'a> Definition<'a> {
    pub(crate) fn of(tool: &'a Tool, format: Format) -> Self {
        Self { tool, format, mark: None }
    }
}

impl<'a, M> Definition<'a, M> {
    /// Returns a definition with a cache mark, which is only written in Anthropic's format.
    pub(crate) fn with(tool: &'a Tool, format: Format, mark: Option<M>) -> Self {
        Self { tool, format, mark }
    }

    fn schema(&self, taken: Taken) -> Schema<'a> {
        Schema { tool: self.tool, taken }
    }

    /// Returns the schema in the form for a format's strict mode, if the tool is strict.
    fn strict(&self, taken: Taken) -> Schema<'a> {
        self.schema(if self.tool.is_strict() { taken } else { Taken::Whole })
    }
}

impl<M: Serialize> Serialize for Definition<'_, M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (name, description) = (self.tool.name(), self.tool.description());
        let strict = self.tool.is_strict();
        let said = strict.then_some(true);
        let r#type = "function";
        match self.format {
            Format::OpenAi => {
                let parameters = self.strict(Taken::AllRequired);
                let function = Function { name, description, parameters, strict: said };
                Chat { r#type, function }.serialize(serializer)
            }
            Format::Ollama => {
                let parameters = self.schema(Taken::Whole);
                let function = Function { name, description, parameters, strict: None };
                Chat { r#type, function }.serialize(serializer)
            }
            Format::Responses => {
                let parameters = self.strict(Taken::AllRequired);
                Flat { r#type, name, description, parameters, strict }.serialize(serializer)
            }
            Format::Anthropic => {
                let (schema, mark) = (self.strict(Taken::Closed), self.mark.as_ref());
                Input { name, description, schema, strict: said, mark }.serialize(serializer)
            }
            Format::Gemini => {
                let parameters_json_schema = self.schema(Taken::Listed);
                Declaration { name, description, parameters_json_schema }.serialize(serializer)
            }
        }
    }
}

/// The definition in Chat Completions, which Ollama uses too.
#[derive(Serialize)]
struct Chat<'a> {
    r#type: &'static str,
    function: Function<'a>,
}

#[derive(Serialize)]
struct Function<'a> {
    name: &'a str,
    description: &'a str,
    parameters: Schema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
}

#[derive(Serialize)]
struct Flat<'a> {
    r#type: &'static str,
    name: &'a str,
    description: &'a str,
    parameters: Schema<'a>,
    /// Always written: if it is missing, Responses assumes true.
    strict: bool,
}

#[derive(Serialize)]
struct Input<'a, M: Serialize> {
    name: &'a str,
    description: &'a str,
    #[serde(rename = "input_schema")]
    schema: Schema<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<bool>,
    #[serde(rename = "cache_control", skip_serializing_if = "Option::is_none")]
    mark: Option<&'a M>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: Schema<'a>,
}

/// Returns copies of these tools in the form that is sent to the provider, so that they can be
/// counted: with their sent names, and the text of their definitions.
///
/// A tool that can't be sent is left unchanged: its request fails.
pub(crate) fn as_sent(tools: &[Tool], provider: Option<Provider>) -> Vec<Tool> {
    let row = provider.unwrap_or(Provider::OpenAi).row();
    let rule = provider.map_or(ToolNames::Any, |_| row.tool_names);
    let last = tools.len().saturating_sub(1);
    let sent = |(i, tool): (usize, &Tool)| {
        // A tool without a name is refused elsewhere.
        let rule = if tool.name().is_empty() { ToolNames::Any } else { rule };
        let named = tool.renamed(&rule.sent(tool.name()));
        let Ok(json) = serde_json::to_string(&Definition::of(&named, row.format)) else {
            return named;
        };
        // Gemini wraps all of them in one object.
        let wraps = row.format == Format::Gemini;
        let before = if wraps && i == 0 { "[{\"functionDeclarations\":[" } else { "" };
        let behind = if wraps && i == last { "]}]" } else { "" };
        named.written(format!("{before}{json}{behind}"))
    };
    tools.iter().enumerate().map(sent).collect()
}
