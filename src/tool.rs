//! [`Tool`]: something that a model can call.

mod nulls;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::Serialize;
use serde_json::{Value, json};

/// Something that a model can call: its name, what it is for, and what it takes.
///
/// Nothing here runs it. A [`Request`](crate::wire::Request) writes its definition as the provider
/// takes it, a [budget](crate::Budget) counts that, and a [`Turn`](crate::Turn) says when it is to
/// be called and is told what came of it.
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
///     .repeatable(); // to ask twice does no harm
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
    /// Returns a tool that takes nothing, and that must not be run twice for one call.
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

    /// Returns the tool with what it takes, as a JSON schema of an object.
    ///
    /// It is written as each provider reads it, and means the same: `properties` and `items` where
    /// they are missing, `{}` for `true`, one schema of the items for a tuple. What a provider has
    /// no keyword for is told to the model in the description.
    ///
    /// [`schema`](Self::schema) returns it.
    #[doc(alias = "schema")]
    #[doc(alias = "input_schema")]
    #[must_use]
    pub fn parameters(mut self, schema: impl Into<Value>) -> Self {
        self.parameters = schema.into();
        self
    }

    /// Returns the tool with what it takes, as a type says it. A description of a field is its
    /// documentation.
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
        // The name of a Rust type says nothing to a model.
        if let Value::Object(schema) = &mut self.parameters {
            schema.remove("title");
        }
        self
    }

    /// Returns the tool, for which the provider is asked to hold the model to the schema, as OpenAI
    /// and Anthropic can.
    ///
    /// Their strict modes take objects without further properties only, and OpenAI's wants every
    /// property: where the schema leaves one out of `required`, the model says `null` for it, and
    /// [`arguments`](Self::arguments) takes that away again, as turns and conversations do. A
    /// request fails, and names the place, where a schema allows what the mode can't hold: an
    /// object of any properties, a tuple of several kinds.
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Returns what a call hands to the tool, without each `null` that the model said only because
    /// a [strict](Self::strict) mode wants every property: of one that is not required, and that
    /// may not be `null` by the schema.
    ///
    /// A loop of your own reads these; [`Call::parse`](crate::turn::Call::parse) does so by itself.
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

    /// Returns the tool, which may be run again for the same call: nothing is written down before
    /// it runs, unless it [needs approval](Self::needing_approval).
    #[must_use]
    pub fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    /// Returns the tool, which somebody must approve of before it runs.
    #[must_use]
    pub fn needing_approval(mut self) -> Self {
        self.needs_approval = true;
        self
    }

    /// Returns the same tool under another name.
    pub(crate) fn renamed(&self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self.clone() }
    }

    /// Returns the same tool with the text that a provider is sent of it.
    pub(crate) fn written(mut self, text: String) -> Self {
        self.written = Some(text);
        self
    }

    /// Returns the name by which the model calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns what the model is told that it is for.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// Returns its [parameters](Self::parameters), as a JSON schema.
    #[doc(alias = "input_schema")]
    pub fn schema(&self) -> &Value {
        &self.parameters
    }

    /// Returns true if the provider is asked to hold the model to the schema.
    pub fn is_strict(&self) -> bool {
        self.strict
    }

    /// Returns true if it may be run again for the same call.
    pub fn is_repeatable(&self) -> bool {
        self.repeatable
    }

    /// Returns true if somebody must approve of it before it runs.
    pub fn needs_approval(&self) -> bool {
        self.needs_approval
    }

    /// Returns the JSON of its definition, as most providers take it, or as the one does for which
    /// this is a copy: what its tokens are counted of.
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

/// Returns a number that tells these definitions, in this order, from others; 0 where there are
/// none. What only the application looks at is no part of it.
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
