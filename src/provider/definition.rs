//! The definition of a tool, in the form that is sent to a provider.

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::schema::{Schema, Taken};
use super::{Format, Provider, ToolNames};
use crate::tool::Tool;

/// A view of a tool that serialises as its definition in a format's request, with a cache mark if
/// one is given.
#[derive(Debug)]
pub struct Definition<'a, M> {
    tool: &'a Tool,
    format: Format,
    mark: Option<M>,
}

impl<'a, M> Definition<'a, M> {
    /// Returns a definition with a cache mark, which is only written in Anthropic's format.
    pub(crate) fn of(tool: &'a Tool, format: Format, mark: Option<M>) -> Self {
        Self { tool, format, mark }
    }
}

impl<M: Serialize> Serialize for Definition<'_, M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if !matches!(self.format, Format::OpenAi | Format::Ollama) {
            return Function(self).serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", "function")?;
        map.serialize_entry("function", &Function(self))?;
        map.end()
    }
}

/// The function itself, around which Chat Completions and Ollama put an object.
struct Function<'a, M>(&'a Definition<'a, M>);

impl<M: Serialize> Serialize for Function<'_, M> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Definition { tool, format, mark } = self.0;
        let is_strict = tool.is_strict();
        let said = is_strict.then_some(true);
        // The form for a format's strict mode, if the tool is strict.
        let strictly = |taken| if is_strict { taken } else { Taken::Whole };
        let (key, taken, strict) = match format {
            Format::OpenAi => ("parameters", strictly(Taken::AllRequired), said),
            // Always written: if it is missing, Responses assumes true.
            Format::Responses => ("parameters", strictly(Taken::AllRequired), Some(is_strict)),
            Format::Anthropic => ("input_schema", strictly(Taken::Closed), said),
            Format::Gemini => ("parametersJsonSchema", Taken::Listed, None),
            Format::Ollama => ("parameters", Taken::Whole, None),
        };
        let mut map = serializer.serialize_map(None)?;
        if *format == Format::Responses {
            map.serialize_entry("type", "function")?;
        }
        map.serialize_entry("name", tool.name())?;
        map.serialize_entry("description", tool.description())?;
        map.serialize_entry(key, &Schema { tool, taken })?;
        if let Some(strict) = strict {
            map.serialize_entry("strict", &strict)?;
        }
        if let (Some(mark), Format::Anthropic) = (mark, format) {
            map.serialize_entry("cache_control", mark)?;
        }
        map.end()
    }
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
        let definition = Definition::<()>::of(&named, row.format, None);
        let Ok(json) = serde_json::to_string(&definition) else { return named };
        // Gemini wraps all of them in one object.
        let wraps = row.format == Format::Gemini;
        let before = if wraps && i == 0 { "[{\"functionDeclarations\":[" } else { "" };
        let behind = if wraps && i == last { "]}]" } else { "" };
        named.written(format!("{before}{json}{behind}"))
    };
    tools.iter().enumerate().map(sent).collect()
}
