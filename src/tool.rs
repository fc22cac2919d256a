//! [`Tool`]: something that a model can call.

mod nulls;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;
use serde_json::{Value, json};

/// Something that a model can call: its name, its purpose, and its parameters.
///
/// A tool here is not run. A [`Request`](crate::wire::Request) writes its definition in the
/// provider's format, a [budget](crate::Budget) counts that, and a [`Turn`](crate::Turn) hands out
/// its calls and takes their results.
///
/// ```
/// use memory_prompt::Tool;
/// use serde_json::json;
///
/// let weather = Tool::new("weather", "The weather of a city.")
///     .parameters(json!({
///         "type": "object",
///         "properties": {"city": {"type": "string"}},
///         "required": ["city"],
///     }))
///     .repeatable(); // a second call does no harm
/// assert!(weather.is_repeatable());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tool {
    name: String,
    description: String,
    parameters: Value,
    strict: bool,
    repeatable: bool,
    needs_approval: bool,
    /// The text of its definition, in a copy that is counted for one provider.
    written: Option<String>,
}

impl Tool {
    /// Returns a tool without parameters that must not be run twice for one call.
    pub fn new(name: impl Into<String>, description: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            description: description.into(),
            parameters: json!({"type": "object", "properties": {}}),
            strict: false,
            repeatable: false,
            needs_approval: false,
            written: None,
        }
    }

    /// Returns the tool with these parameters, as a JSON schema of an object.
    ///
    /// The schema is written in each provider's form, with the same meaning: `properties` and
    /// `items` are added if they are missing, `true` becomes `{}`, and a tuple gets one schema for
    /// its items. What a provider has no keyword for goes into the description, for the model.
    ///
    /// [`schema`](Self::schema) returns it.
    #[doc(alias = "schema")]
    #[doc(alias = "input_schema")]
    #[must_use]
    pub fn parameters(mut self, schema: impl Into<Value>) -> Self {
        self.parameters = schema.into();
        self
    }

    /// Returns the tool with the parameters that a type declares. The documentation of a field
    /// becomes its description.
    ///
    /// ```
    /// use memory_prompt::Tool;
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
        // The name of a Rust type means nothing to a model.
        if let Value::Object(schema) = &mut self.parameters {
            schema.remove("title");
        }
        self
    }

    /// Returns the tool in strict mode: the provider must hold the model to the schema, as OpenAI
    /// and Anthropic can.
    ///
    /// Their strict modes accept only objects without further properties, and OpenAI's wants every
    /// property: if the schema leaves one out of `required`, the model writes `null` for it, and
    /// [`arguments`](Self::arguments) removes that again, as turns and conversations do. A request
    /// fails, and names the place, if a schema allows something that the mode can't express: an
    /// object of any properties, a tuple of several kinds.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Returns the arguments of a call without each `null` that the model wrote only because a
    /// [strict](Self::strict) mode wants every property: for a property that is not required, and
    /// that may not be `null` by the schema.
    ///
    /// Read these in a loop of your own; [`Call::parse`](crate::turn::Call::parse) does so itself.
    ///
    /// ```
    /// use memory_prompt::Tool;
    /// use serde_json::json;
    ///
    /// let tool = Tool::new("ticket", "Opens a ticket.").strict().parameters(json!({
    ///     "type": "object",
    ///     "properties": {"title": {"type": "string"}, "days": {"type": "integer"}},
    ///     "required": ["title"],
    /// }));
    /// assert_eq!(tool.arguments(r#"{"title": "Cold", "days": null}"#), r#"{"title":"Cold"}"#);
    /// assert_eq!(tool.arguments(r#"{"title": "Cold"}"#), r#"{"title": "Cold"}"#);
    /// ```
    pub fn arguments<'a>(&self, said: &'a str) -> Cow<'a, str> {
        // Nearly always there is none.
        if !self.strict || !said.contains("null") {
            return Cow::Borrowed(said);
        }
        let Ok(mut value) = serde_json::from_str::<Value>(said) else {
            return Cow::Borrowed(said);
        };
        let has_changed = nulls::remove_nulls(&mut value, &self.parameters, &self.parameters);
        if has_changed { Cow::Owned(value.to_string()) } else { Cow::Borrowed(said) }
    }

    /// Returns the tool as one that may be run again for the same call: nothing is written down
    /// before it runs, unless it [needs approval](Self::needing_approval).
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Returns the tool as one that a person must approve before it runs.
    #[must_use]
    pub fn needing_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }

    pub(crate) fn renamed(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// Returns the same tool with its definition as a provider gets it.
    pub(crate) fn written(mut self, text: String) -> Self {
        self.written = Some(text);
        self
    }

    /// Returns the name by which the model calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the description for the model.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns its [parameters](Self::parameters), as a JSON schema.
    #[doc(alias = "input_schema")]
    pub fn schema(&self) -> &Value {
        &self.parameters
    }

    /// Returns true if the provider must hold the model to the schema.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Returns true if it may be run again for the same call.
    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Returns true if a person must approve it before it runs.
    pub fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    /// Returns the JSON of its definition, for the count of its tokens: as most providers get it,
    /// or, in a copy for one provider, as that one gets it.
    pub(crate) fn to_json(&self) -> Cow<'_, str> {
        #[derive(Serialize)]
        struct Definition<'a> {
            r#type: &'static str,
            function: Function<'a>,
        }
        #[derive(Serialize)]
        struct Function<'a> {
            name: &'a str,
            description: &'a str,
            parameters: &'a Value,
        }
        if let Some(text) = &self.written {
            return Cow::Borrowed(text);
        }
        let Self { name, description, parameters, .. } = self;
        let function = Function { name, description, parameters };
        // JSON values can always be written.
        let json = serde_json::to_string(&Definition { r#type: "function", function });
        Cow::Owned(json.unwrap_or_default())
    }
}

/// Returns a number that identifies these definitions in this order; 0 if there are none. The flags
/// that only the application reads are not part of it.
pub(crate) fn fingerprint(tools: &[Tool]) -> u64 {
    if tools.is_empty() {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    for Tool { name, description, parameters, strict, .. } in tools {
        (name, description, parameters, strict).hash(&mut hasher);
    }
    hasher.finish().max(1)
}
