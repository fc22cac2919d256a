//! The tools that a model can call, and their results.

use std::fmt;

use serde_json::{Value, json};

use crate::message::{Content, ToolCall};

/// Something that a model can call: its name, what it is for, and what it takes.
///
/// Nothing here runs it: the turn says [what to call](super::Next::Call), and is told what came of
/// it.
///
/// ```
/// use memory_prompt::turn::Tool;
/// use serde_json::json;
///
/// let weather = Tool::new("weather", "The weather of a city.")
///     .parameters(json!({
///         "type": "object",
///         "properties": {"city": {"type": "string"}},
///         "required": ["city"],
///     }))
///     .repeatable(); // to ask twice does no harm
/// assert!(weather.is_repeatable());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Tool {
    name: String,
    description: String,
    parameters: Value,
    repeatable: bool,
    needs_approval: bool,
}

impl Tool {
    /// A tool that takes nothing, and that must not be run twice for one call.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: json!({"type": "object", "properties": {}}),
            repeatable: false,
            needs_approval: false,
        }
    }

    /// The tool with what it takes, as a JSON schema of an object.
    #[must_use]
    pub fn parameters(mut self, schema: impl Into<Value>) -> Self {
        self.parameters = schema.into();
        self
    }

    /// The tool with what it takes, as a type says it. A description of a field is its
    /// documentation.
    ///
    /// ```
    /// use memory_prompt::turn::Tool;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Weather {
    ///     /// The city's name, in English.
    ///     city: String,
    /// }
    ///
    /// let weather = Tool::new("weather", "The weather of a city.").takes::<Weather>();
    /// assert_eq!(weather.schema()["properties"]["city"]["type"], "string");
    /// assert_eq!(weather.schema()["required"][0], "city");
    /// ```
    #[cfg(feature = "schemars")]
    #[must_use]
    pub fn takes<T: schemars::JsonSchema>(mut self) -> Self {
        self.parameters = schemars::generate::SchemaSettings::draft07()
            .with(|settings| {
                settings.inline_subschemas = true; // few providers follow a reference
                settings.meta_schema = None;
            })
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value();
        // The name of a Rust type says nothing to a model.
        if let Value::Object(schema) = &mut self.parameters {
            schema.remove("title");
        }
        self
    }

    /// The tool, which may be run again for the same call: nothing is written down before it runs.
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// The tool, which somebody must approve of before it runs.
    #[must_use]
    pub fn needing_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }

    /// The name by which the model calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the model is told that it is for.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns what it takes, as a JSON schema.
    pub fn schema(&self) -> &Value {
        &self.parameters
    }

    /// Returns true where it may be run again for the same call.
    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Returns true where somebody must approve of it before it runs.
    pub fn needs_approval(&self) -> bool {
        self.needs_approval
    }
}

/// A call that waits for its result.
#[derive(Clone, PartialEq)]
pub struct Call {
    pub(super) made: ToolCall,
    pub(super) needs_approval: bool,
    pub(super) is_kept: bool,
    pub(super) may_have_run: bool,
}

impl fmt::Debug for Call {
    /// Names the call, not what is handed to the tool.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("id", &self.id())
            .field("name", &self.name())
            .field("needs_approval", &self.needs_approval)
            .field("is_kept", &self.is_kept)
            .field("may_have_run", &self.may_have_run)
            .finish_non_exhaustive()
    }
}

impl Call {
    /// The id by which its result is recognised.
    pub fn id(&self) -> &str {
        &self.made.id
    }

    /// The name of the tool.
    pub fn name(&self) -> &str {
        &self.made.name
    }

    /// Returns what the model hands to the tool, as it wrote it: a JSON object, if all is well.
    pub fn arguments(&self) -> &str {
        &self.made.arguments
    }

    /// Reads what the model hands to the tool.
    ///
    /// # Errors
    ///
    /// A [`ToolError`] for the model, where it wrote something else. It goes into
    /// [`Turn::result`](super::Turn::result) as it is.
    pub fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, ToolError> {
        let text = match self.made.arguments.trim() {
            "" => "{}",
            text => text,
        };
        serde_json::from_str(text).map_err(|error| ToolError::new(format!("arguments: {error}")))
    }

    /// Returns true where somebody must approve of it before it runs. Until then the turn can be
    /// dropped: whoever has the answer [adopts](crate::MemoryPrompt::adopt) it.
    pub fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    /// Returns true where a crash from here on leaves a note of it in the memory.
    ///
    /// It is false for a tool that is repeatable, and over a memory without slots.
    pub fn is_kept(&self) -> bool {
        self.is_kept
    }

    /// Returns true where the turn was handed to this owner after the call was handed out to an
    /// earlier one, who may have run it. A tool that is not repeatable is not to be run again then,
    /// unless somebody has made sure that it did not run.
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }
}

/// The error of a tool: text for the model.
///
/// Every `std::error::Error` becomes one with `?`, by its own text, so mind what errors say. What is
/// none, an `anyhow::Error` for one, goes through `map_err(|it| ToolError::new(it.to_string()))`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolError(String);

impl ToolError {
    /// A failure that the model is told in these words.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(super) fn into_content(self) -> Content {
        Content::from(self.0)
    }
}

impl fmt::Display for ToolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for ToolError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}
