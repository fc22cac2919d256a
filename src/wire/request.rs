//! [`Request`]: the whole body of a request, for the provider that its prompt is for.

mod anthropic;
mod body;
mod chat;
mod choice;
mod gemini;
mod ollama;
mod responses;
mod sampling;
mod thinking;

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use serde::ser::{Error as _, Serialize, Serializer};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};
use crate::message::{Attributes, is_same_tool};
use crate::prompt::{Fingerprint, Prompt};
use crate::provider::{CHOICES, Definition, Format, Provider, Row, over_limits};
use crate::tool::{self, Tool};
use crate::wire::borrowed::{BorrowedValue, Object};
use crate::wire::losses::{Losses, Weight};
use crate::wire::view::{Cache, ForProvider, MessageFormat, View};
use crate::wire::{self, Loss};
use body::{Body, Written};
pub use choice::ToolChoice;

/// The body of a request: a prompt with its tools and options, in the format of the provider that
/// the prompt [is for](crate::MemoryPrompt::for_provider).
///
/// If no provider was named, the format is OpenAI Chat Completions. A request borrows, and is
/// written without a copy of the messages.
///
/// ```
/// use memory_prompt::wire::{Request, ToolChoice};
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Provider, Tool};
/// use serde_json::json;
///
/// let tools = [Tool::new("weather", "The weather of a city.").parameters(json!({
///     "type": "object",
///     "properties": {"city": {"type": "string"}},
///     "required": ["city"],
/// }))];
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
///     .system("Be brief.")
///     .for_provider(Provider::Anthropic);
/// prompt.add(Message::user("What is the weather in Oslo?"))?;
/// let built = prompt.build()?;
///
/// let request = Request::new(&built)
///     .model("claude-sonnet-5")
///     .tools(&tools)
///     .tool_choice(ToolChoice::Required)
///     .max_tokens(500)
///     .stream(true)
///     .extra("temperature", 0.5);
/// assert_eq!(serde_json::to_value(&request)?, json!({
///     "model": "claude-sonnet-5",
///     "max_tokens": 500,
///     "system": "Be brief.",
///     "messages": [{"role": "user", "content": "What is the weather in Oslo?"}],
///     "tools": [{
///         "name": "weather",
///         "description": "The weather of a city.",
///         "input_schema": {
///             "type": "object",
///             "properties": {"city": {"type": "string"}},
///             "required": ["city"],
///         },
///     }],
///     "tool_choice": {"type": "any"},
///     "stream": true,
///     "temperature": 0.5,
/// }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # What is sent to each provider
///
/// | | OpenAI chat, Mistral, templates | OpenAI Responses | Anthropic | Gemini | Ollama |
/// |---|---|---|---|---|---|
/// | messages | `messages` | `input` | `messages` | `contents` | `messages` |
/// | system | among them | `instructions` | `system` | `systemInstruction` | among them |
/// | [`model`](Self::model) | `model` | `model` | `model` | in the URL | `model` |
/// | [`max_tokens`](Self::max_tokens) | as its [row](crate::provider::Row::max_tokens) says | `max_output_tokens` | `max_tokens`, required | `generationConfig. maxOutputTokens` | `options.num_predict` |
/// | [`stream`](Self::stream) | `stream`, `stream_options` with the usage; Mistral: `stream` | `stream` | `stream` | in the URL | `stream`, `false` too |
/// | [`tools`](Self::tools) | `tools` | `tools` | `tools` | `tools`, in one `functionDeclarations` | `tools` |
/// | [`tool_choice`](Self::tool_choice) | `tool_choice` | `tool_choice` | `tool_choice` | `toolConfig. functionCallingConfig` | only auto and none |
/// | also | | `store: false`; for a reasoning model `include` | | | |
///
/// # Errors
///
/// Writing fails if a request would be wrong or say less than was asked for: Anthropic without
/// `max_tokens`; a choice that the provider doesn't support, or of a tool that is not there; two
/// tools with one name, or one without a name; a schema that is not an object, that is
/// [a choice](crate::provider::Row::any_root) if the provider takes none, that has a property with
/// a name that Anthropic refuses, or that a strict mode can't express; an [`extra`](Self::extra)
/// field that is written already. `serde_json::to_string` returns the error, `json!` panics;
/// [`check`](Self::check) finds it in advance. Each error names the provider, by the name of its
/// row.
#[derive(Clone)]
pub struct Request<'a> {
    prompt: &'a Prompt,
    tools: Cow<'a, [Tool]>,
    tool_choice: Option<ToolChoice>,
    model: Option<Cow<'a, str>>,
    max_tokens: Option<u64>,
    stream: bool,
    cache: Option<Cache>,
    names_in_text: bool,
    extra: Attributes,
}

/// The fields of a body that hold the conversation, in every format.
const CONVERSATION: [&str; 6] =
    ["system", "systemInstruction", "instructions", "messages", "contents", "input"];

/// Does the same with the messages of each format, as the request sends them.
macro_rules! viewed {
    ($request:expr, $view:ident => $do:expr) => {{
        let prompt = $request.prompt;
        match $request.format() {
            Format::OpenAi => {
                let $view = $request.on_terms(wire::openai::messages(prompt));
                $do
            }
            Format::Responses => {
                let $view = $request.on_terms($request.input());
                $do
            }
            Format::Anthropic => {
                let $view = $request.on_terms(wire::anthropic::messages(prompt));
                $do
            }
            Format::Gemini => {
                let $view = $request.on_terms(wire::gemini::contents(prompt));
                $do
            }
            Format::Ollama => {
                let $view = $request.on_terms(wire::ollama::messages(prompt));
                $do
            }
        }
    }};
}

impl<'a> Request<'a> {
    /// Returns a request of this prompt, with the [tools](crate::MemoryPrompt::tools) that it was
    /// composed for.
    pub fn new(prompt: &'a Prompt) -> Self {
        Self {
            prompt,
            tools: Cow::Borrowed(prompt.tools()),
            tool_choice: None,
            model: prompt.report().provider.as_ref().and_then(Provider::named_model).map(Cow::from),
            max_tokens: None,
            stream: false,
            cache: None,
            names_in_text: false,
            extra: Attributes::new(),
        }
    }

    /// Names the model, instead of the one [named](Provider::model) with the provider. Gemini's
    /// model is in the URL, and so is Claude's on Bedrock and Vertex AI
    /// ([`Row::in_url`](crate::provider::Row::in_url)): there it is not written.
    #[must_use]
    pub fn model(mut self, name: impl Into<Cow<'a, str>>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the tools that the model can call, instead of those of the prompt.
    ///
    /// If the prompt has a token budget, set the tools [there](crate::MemoryPrompt::tools), so that
    /// they are counted.
    #[must_use]
    pub fn tools(mut self, tools: &'a [Tool]) -> Self {
        self.tools = Cow::Borrowed(tools);
        self
    }

    /// Sets whether the model may or must call its tools.
    #[must_use]
    pub fn tool_choice(mut self, choice: ToolChoice) -> Self {
        self.tool_choice = Some(choice);
        self
    }

    /// Sets the most tokens of the answer.
    #[must_use]
    pub fn max_tokens(mut self, tokens: u64) -> Self {
        self.max_tokens = Some(tokens);
        self
    }

    /// Asks for a streamed answer, with its usage at the end. Gemini has another URL for this, so
    /// nothing is written.
    #[must_use]
    pub fn stream(mut self, stream: bool) -> Self {
        self.stream = stream;
        self
    }

    /// Puts a cache mark on the [cacheable boundary](Prompt::cacheable); for Anthropic, OpenRouter
    /// and `LiteLLM` one before the newest answer too, unless the application sets marks of its
    /// own. For Anthropic there is one more, on the system text, or without one on the last tool:
    /// of the four that a request may have, two are left for the application.
    ///
    /// Providers without marks, or that cache without them, get none. OpenAI gets one whatever the
    /// model: ask for it only of a model with explicit caching. A row of your own says by
    /// [`cache_marks`](crate::provider::Row::cache_marks) whether its server gets one.
    #[must_use]
    pub fn cache_prefix(mut self) -> Self {
        self.cache = Some(Cache::Short);
        self
    }

    /// Same as [`cache_prefix`](Self::cache_prefix), for an hour if the provider offers a choice:
    /// Anthropic, and OpenRouter and `LiteLLM` for its models.
    #[must_use]
    pub fn cache_prefix_1h(mut self) -> Self {
        self.cache = Some(Cache::Hour);
        self
    }

    /// Writes the name of each user in front of the text if the provider has no field for it, as
    /// with Anthropic, Gemini, Mistral and Ollama. By default, the name is left out there, and is
    /// one of the [`losses`](Self::losses).
    ///
    /// ```
    /// use memory_prompt::message::UserMessage;
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{Composer, Provider};
    ///
    /// let asks = UserMessage::new("Who is here?").with_name("Klaus");
    /// let composer = Composer::new().for_provider(Provider::Gemini);
    /// let prompt = composer.compose_all(&Snapshot::from_messages([asks.into()]), &[])?;
    ///
    /// let request = Request::new(&prompt);
    /// assert_eq!(request.losses()[0].to_string(), "message 0: the name of the user");
    /// let request = request.names_in_text();
    /// assert_eq!(request.losses(), []);
    /// let body = serde_json::to_value(&request)?;
    /// assert_eq!(body["contents"][0]["parts"][0]["text"], "Klaus: Who is here?");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn names_in_text(mut self) -> Self {
        self.names_in_text = true;
        self
    }

    /// Adds a field of the provider's own, unchanged.
    ///
    /// If an object or a list of that name is already written, the fields or elements are added to
    /// it, so `options` of Ollama, `generationConfig` of Gemini, and tools that the provider runs
    /// itself, are merged with this crate's. Otherwise, a name that is already written is an error.
    ///
    /// `temperature`, `top_p`, `top_k` and `seed` are put where Gemini and Ollama expect them, with
    /// Gemini's names. All other fields depend on the provider: an option that one provider takes
    /// at the root is an unknown field for many others, and a 400.
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{Composer, Message, Provider};
    /// use serde_json::json;
    ///
    /// let history = Snapshot::from_messages([Message::user("hi")]);
    /// let built = Composer::new().for_provider(Provider::Ollama).compose_all(&history, &[])?;
    /// let request = Request::new(&built).model("m").max_tokens(9);
    /// let body = serde_json::to_value(request.clone().extra("options", json!({"seed": 1})))?;
    /// assert_eq!(body["options"], json!({"num_predict": 9, "seed": 1}));
    /// let body = serde_json::to_value(request.clone().extra("temperature", 0.5))?;
    /// assert_eq!(body["options"], json!({"num_predict": 9, "temperature": 0.5}));
    ///
    /// let error = request.extra("messages", json!([])).check().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "write request: for ollama: extra: `messages` is written by the request itself"
    /// );
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Reasoning of OpenAI
    ///
    /// If nothing is stored, OpenAI's reasoning is sent back encrypted. A Responses request asks
    /// for that (`include`) if the model is known by name to reason, or if `reasoning` is added: a
    /// model that does not reason answers 400 to it. For a deployment with another name, add one of
    /// the two. Reasoning without encrypted content is left out, and is one of the
    /// [`losses`](Self::losses); with `.extra("store", true)`, all of it is sent, by its id. A
    /// model that is known by name not to reason is sent none.
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{Composer, Message, Provider};
    /// use serde_json::json;
    ///
    /// let history = Snapshot::from_messages([Message::user("hi")]);
    /// let composer = Composer::new().for_provider(Provider::OpenAiResponses);
    /// let built = composer.compose_all(&history, &[])?;
    /// let body = json!(Request::new(&built).model("gpt-5-mini"));
    /// assert_eq!(body["include"], json!(["reasoning.encrypted_content"]));
    /// assert_eq!(json!(Request::new(&built).model("gpt-4.1")).get("include"), None);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Thinking
    ///
    /// Claude's manual thinking (`{"type": "enabled", ..}`) can't begin in the middle of a tool
    /// loop: if another provider, or Claude without thinking, made the first call of an unfinished
    /// loop, the API answers 400. Then `thinking` is left out of this request, and is one of the
    /// [`losses`](Self::losses). Adaptive thinking is always sent.
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{Composer, Message, Provider, ToolCall};
    /// use serde_json::json;
    ///
    /// let call = ToolCall::new("call_1", "weather", "{}"); // GPT made it, and is out of service
    /// let history = [Message::user("And?"), Message::ai_calls([call.clone()]), call.result("Sun")];
    /// let prompt = Composer::new()
    ///     .for_provider(Provider::Anthropic)
    ///     .compose_all(&Snapshot::from_messages(history), &[])?;
    /// let request = Request::new(&prompt)
    ///     .model("claude-sonnet-4-5")
    ///     .max_tokens(9_000)
    ///     .extra("thinking", json!({"type": "enabled", "budget_tokens": 4_000}));
    /// assert_eq!(request.losses()[0].to_string(), "message 1: the option `thinking`");
    /// assert_eq!(json!(request).get("thinking"), None);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn extra(mut self, name: impl Into<String>, value: impl Into<Value>) -> Self {
        self.extra.insert(name.into(), value.into());
        self
    }

    /// Checks whether the request can be written.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] for the cases listed [above](Self#errors).
    pub fn check(&self) -> Result<()> {
        let checked = self.with_body(|_| ()).and_then(|()| self.check_definitions());
        checked.map_err(|reason| Error::invalid("write request", self.refused(&reason)))
    }

    /// Checks whether all of its tools can be [strict](Tool::strict). If the provider has no strict
    /// mode they can, since nothing is enforced.
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{Composer, Message, Provider, Tool};
    /// use serde_json::json;
    ///
    /// let history = Snapshot::from_messages([Message::user("hi")]);
    /// let prompt = Composer::new().for_provider(Provider::Anthropic).compose_all(&history, &[])?;
    /// let tree = json!({"type": "object", "properties": {
    ///     "of": {"type": "array", "items": {"$ref": "#"}}}});
    /// let tools = [Tool::new("draw", "Draws a tree.").parameters(tree)];
    /// let error = Request::new(&prompt).tools(&tools).strict_possible().unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "write request: for anthropic: tools: a strict schema can't refer to itself"
    /// );
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] names the schema, or the provider's limit, that prevents it.
    pub fn strict_possible(&self) -> Result<()> {
        let strict = self.tools.iter().cloned().map(Tool::strict).collect();
        let strict = Self { tools: Cow::Owned(strict), ..self.clone() };
        let checked = strict.check_tools().and_then(|()| strict.check_definitions());
        checked.map_err(|reason| Error::invalid("write request", self.refused(&reason)))
    }

    /// Returns everything that would be left out or replaced because the format has no place for
    /// it.
    ///
    /// The [report](Prompt::report) is about composing, this is about writing.
    ///
    /// ```
    /// use memory_prompt::message::{Media, Part};
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{Composer, Message, Provider};
    ///
    /// let film = Part::Video(Media::url("https://e.x/a.mp4"));
    /// let history = Snapshot::from_messages([Message::user([Part::text("Look:"), film])]);
    /// let prompt = Composer::new().for_provider(Provider::Anthropic).compose_all(&history, &[])?;
    /// let losses = Request::new(&prompt).losses();
    /// assert_eq!((losses[0].message, losses[0].part, losses[0].what), (0, Some(1), "video"));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn losses(&self) -> Vec<Loss> {
        let mut losses = viewed!(self, view => view.losses());
        let lost = |message| Loss { message, part: None, what: thinking::LOST };
        losses.extend(self.unthinking().map(lost));
        losses
    }

    /// Returns the request if its format can express all of the messages. Reasoning that is not
    /// sent to the provider is not an error: it is another provider's, and only listed by
    /// [`losses`](Self::losses).
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] names the first message and part that a placeholder would
    /// replace, the message that would be left out, or the answer that prevents
    /// [thinking](Self::extra).
    pub fn strict(self) -> Result<Self> {
        viewed!(&self, view => view.check(Weight::Refused))?;
        match self.unthinking() {
            None => Ok(self),
            Some(first) => {
                let text = format!("messages[{first}]: a tool loop began without thinking");
                Err(Error::new(ErrorKind::Unsupported, "write request", text))
            }
        }
    }

    /// Returns hashes of this request's tools and options, as far as they matter to a provider's
    /// cache. Pass them to [`Prompt::sent_as`], and the report of the next prompt can say that
    /// *they* broke the cached prefix.
    ///
    /// Options are the model, [names in the text](Self::names_in_text), the fields in
    /// [`extra`](Self::extra) except sampling, and for Anthropic the choice of tools.
    ///
    /// ```
    /// use memory_prompt::report::Break;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    /// prompt.add(Message::user("hi"))?;
    /// let first = prompt.build()?;
    /// let sent_as = Request::new(&first).model("small").fingerprint();
    /// let first = first.sent_as(sent_as);
    ///
    /// prompt.add(Message::ai("Hello."))?;
    /// let second = prompt.build()?;
    /// let sent_as = Request::new(&second).model("large").fingerprint();
    /// let second = second.sent_as(sent_as).compared_to(&first);
    /// let shared = second.report().shared_prefix.as_ref();
    /// assert_eq!(shared.and_then(|it| it.broken_by), Some(Break::Options));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn fingerprint(&self) -> Fingerprint {
        let extra = self.sent_extra();
        let extra = extra.iter().filter(|(name, _)| !SAMPLING.contains(&name.as_str()));
        let choice = self.tool_choice.as_ref();
        let is_cached = matches!(self.format(), Format::Anthropic);
        let options = (&self.model, choice.filter(|_| is_cached), extra.collect::<Vec<_>>());
        let mut hasher = DefaultHasher::new();
        options.hash(&mut hasher);
        if self.names_in_text {
            self.names_in_text.hash(&mut hasher);
        }
        Fingerprint { tools: tool::fingerprint(&self.tools), options: hasher.finish().max(1) }
    }

    /// Returns a format's view of the messages with the terms of this request: its model, its
    /// options and its cache marks.
    fn on_terms<'v, F: ForProvider>(&self, mut view: View<'v, F>) -> View<'v, F> {
        if self.provider().is_some() {
            view.terms.row = self.row();
        }
        let row = &view.terms.row;
        let takes_marks = row.cache_marks || row.format == Format::Anthropic;
        view.cache = self.cache.filter(|_| takes_marks);
        view.has_marks = self.has_marks();
        view.terms.names_in_text = self.names_in_text && !row.names;
        view
    }

    fn provider(&self) -> Option<Provider> {
        self.prompt.report().provider
    }

    /// Returns the rules of the provider for the named model.
    fn row(&self) -> Row {
        let provider = self.provider().unwrap_or(Provider::OpenAi);
        self.model.as_deref().map_or(provider, |model| provider.model(model)).row()
    }

    /// Returns whether the application's own fields have cache marks of Anthropic's.
    fn has_marks(&self) -> bool {
        let lists = ["system", "tools"].iter().filter_map(|name| self.extra.get(*name)?.as_array());
        let is_marked = |it: &Value| it.get("cache_control").is_some();
        self.extra.contains_key("cache_control") || lists.flatten().any(is_marked)
    }

    fn format(&self) -> Format {
        self.provider().unwrap_or(Provider::OpenAi).format()
    }

    /// Returns the tool that a model means by this name in an answer to this request: its own name,
    /// or the name under which it is [sent](crate::provider::ToolNames::sent) to this or another
    /// provider, which a model may repeat from the history. A result with either name answers the
    /// call.
    ///
    /// ```
    /// use memory_prompt::record::Snapshot;
    /// use memory_prompt::wire::Request;
    /// use memory_prompt::{Composer, Message, Provider, Tool};
    ///
    /// let history = Snapshot::from_messages([Message::user("The weather?")]);
    /// let prompt = Composer::new().for_provider(Provider::OpenAi).compose_all(&history, &[])?;
    /// let tools = [Tool::new("weather.v2", "The weather of a city.")]; // Gemini takes the dot
    /// let request = Request::new(&prompt).model("m").tools(&tools);
    ///
    /// let body = serde_json::to_value(&request)?;
    /// let sent = body["tools"][0]["function"]["name"].as_str().unwrap_or_default();
    /// assert!(sent.starts_with("weather_v2_"));
    /// assert_eq!(request.tool(sent).map(Tool::name), Some("weather.v2"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tool(&self, name: &str) -> Option<&Tool> {
        let own = self.tools.iter().find(|tool| tool.name() == name);
        own.or_else(|| self.tools.iter().find(|tool| is_same_tool(name, tool.name())))
    }

    /// Returns the request with tool names that the provider takes; `None` if it takes the original
    /// ones.
    fn renamed(&self) -> Option<Self> {
        let rule = self.provider()?.row().tool_names;
        let is_taken = |tool: &Tool| tool.name().is_empty() || rule.allow(tool.name());
        if self.tools.iter().all(is_taken) {
            return None;
        }
        let mut copy = self.clone();
        for tool in copy.tools.to_mut().iter_mut().filter(|tool| !is_taken(tool)) {
            *tool = tool.renamed(&rule.sent(tool.name()));
        }
        if let Some(ToolChoice::Tool(name)) = &mut copy.tool_choice {
            *name = rule.sent(name).into_owned();
        }
        Some(copy)
    }

    /// Refuses tools that the provider would refuse: two with one name, one without a name, or
    /// parameters that are a choice or have a name in other characters.
    fn check_tools(&self) -> Written {
        let any_root = self.provider().is_none() || self.row().any_root;
        let refused: &[&str] = if any_root { &[] } else { &CHOICES };
        let is_anthropic = self.format() == Format::Anthropic;
        for (i, tool) in self.tools.iter().enumerate() {
            let choice = refused.iter().find(|it| tool.schema().get(**it).is_some());
            let named = tool.schema().get("properties").and_then(Value::as_object);
            let mut named = named.filter(|_| is_anthropic).into_iter().flatten();
            let property = named.find(|(name, _)| !is_property(name));
            let first = self.tools[..i].iter().position(|it| it.name() == tool.name());
            let what = if tool.name().is_empty() {
                "has no name".to_owned()
            } else if let Some(choice) = choice {
                format!("the provider refuses parameters that are `{choice}`")
            } else if let Some((name, _)) = property {
                format!("the provider refuses a parameter with the name `{name}`")
            } else if let Some(first) = first {
                format!("has the name of tools[{first}]")
            } else {
                continue;
            };
            return Err(format!("tools[{i}]: {what}"));
        }
        let over = over_limits(&*self.tools).filter(|_| is_anthropic);
        over.map_or(Ok(()), Err)
    }

    fn definitions(&self) -> Vec<BorrowedValue<'_>> {
        let format = self.format();
        let definition = |tool| BorrowedValue::Tool(Definition::of(tool, format, None));
        self.tools.iter().map(definition).collect()
    }

    /// Refuses schemas that the provider would refuse. Errors in them are found by writing them.
    fn check_definitions(&self) -> Written {
        let check = |tool: &BorrowedValue<'_>| serde_json::to_writer(std::io::sink(), tool);
        self.definitions().iter().try_for_each(check).map_err(|error| error.to_string())
    }

    /// Returns why it is refused, with the name of the provider.
    fn refused(&self, reason: &str) -> String {
        format!("for {}: {reason}", self.provider().unwrap_or(Provider::OpenAi).row().name())
    }

    /// Returns the fields of the body that hold the conversation, as JSON.
    pub(crate) fn conversation(&self) -> Result<String> {
        let conversation = |body: Object<'_>| serde_json::to_string(&body.only(&CONVERSATION));
        let written = self.with_body(conversation);
        let written = written.map_err(|reason| Error::invalid("request", self.refused(&reason)))?;
        written.map_err(|error| {
            Error::new(ErrorKind::Codec, "request", "it can't be written").with_source(error)
        })
    }

    /// Builds the body, and calls `then` with it.
    fn with_body<T>(&self, then: impl FnOnce(Object<'_>) -> T) -> Written<T> {
        self.check_tools()?;
        if let Some(renamed) = self.renamed() {
            return renamed.with_body(then);
        }
        let extra = self.sent_extra();
        let mut body = Body::new(self, &extra);
        let losses = Losses::default();
        viewed!(self, view => {
            view.messages.must_hold_media()?;
            let sent = view.sent(&losses);
            let messages = MessageFormat::messages(&view, &sent);
            match self.format() {
                Format::OpenAi => chat::write(&mut body, messages),
                Format::Responses => responses::write(&mut body, messages),
                Format::Anthropic => anthropic::write(&mut body, messages),
                Format::Gemini => gemini::write(&mut body, messages),
                Format::Ollama => ollama::write(&mut body, messages),
            }?;
            Ok(then(body.end()))
        })
    }
}

impl Serialize for Request<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let refused =
            |reason: &str| S::Error::custom(format_args!("request {}", self.refused(reason)));
        let written = self.with_body(|body| body.serialize(serializer));
        // An error of the serializer itself is left unchanged.
        written.map_err(|reason| refused(&reason))?.map_err(|error| {
            self.check_definitions().map_or_else(|reason| refused(&reason), |()| error)
        })
    }
}

/// A prompt is the `messages` of Chat Completions, which most servers take.
///
/// If the prompt is for a provider of another format, serialising it is an error: send a
/// [`Request`] instead. To store messages, write [them](Prompt::to_messages), not the prompt.
impl Serialize for Prompt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let provider = self.report().provider;
        match provider.filter(|provider| provider.format() != Format::OpenAi) {
            None => wire::openai::messages(self).serialize(serializer),
            Some(provider) => Err(S::Error::custom(format_args!(
                "a prompt for {provider} is no `messages` of chat completions: write a wire::Request"
            ))),
        }
    }
}

impl fmt::Debug for Request<'_> {
    /// Shows the settings, not the content, since conversations don't belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tools: Vec<_> = self.tools.iter().map(Tool::name).collect();
        let extra: Vec<_> = self.extra.keys().collect();
        f.debug_struct("Request")
            .field("messages", &self.prompt.len())
            .field("provider", &self.provider())
            .field("tools", &tools)
            .field("tool_choice", &self.tool_choice)
            .field("model", &self.model)
            .field("max_tokens", &self.max_tokens)
            .field("stream", &self.stream)
            .field("cache", &self.cache.is_some())
            .field("extra", &extra)
            .finish()
    }
}

/// Returns whether Anthropic takes a parameter of this name: "Property keys should match pattern
/// '^[a-zA-Z0-9_.-]{1,64}$'".
fn is_property(name: &str) -> bool {
    let is_plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    (1..=64).contains(&name.len()) && name.bytes().all(is_plain)
}

/// Fields that change how an answer is sampled, not what the model has read.
const SAMPLING: [&str; 15] = [
    "frequency_penalty",
    "generationConfig",
    "logit_bias",
    "metadata",
    "n",
    "options",
    "presence_penalty",
    "random_seed",
    "seed",
    "stop",
    "stop_sequences",
    "temperature",
    "top_k",
    "top_p",
    "user",
];
