//! [`Metadata`]: the fields of an answer other than its message.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use super::common::{Fields, kept};
use crate::message::{AiMessage, AiPart, Attributes, Part};
use crate::provider::Format;

/// What a provider reports about an answer, in addition to its message.
///
/// ```
/// use memory_prompt::wire::openai;
///
/// let body = r#"{"id": "gen-1", "model": "sonar", "citations": ["https://e.x/oslo"],
///     "choices": [{"message": {"role": "assistant", "content": "Sunny [1]."}}],
///     "usage": {"prompt_tokens": 5, "completion_tokens": 3, "cost": {"total_cost": 0.006}}}"#;
/// let told = openai::answer(body)?.metadata;
/// assert_eq!((told.id.as_deref(), told.model.as_deref()), (Some("gen-1"), Some("sonar")));
/// assert_eq!(told.cost.and_then(|cost| cost.as_f64()), Some(0.006));
/// assert_eq!(told.sources[0].url.as_deref(), Some("https://e.x/oslo"));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metadata {
    /// The provider's id of the answer.
    pub id: Option<String>,
    /// The model that answered, by the provider's name for it.
    pub model: Option<String>,
    /// The price of the answer, in the currency that the provider bills (nearly always dollars).
    pub cost: Option<Number>,
    /// The id of the container in which Claude's code ran. Within a running turn it is sent back
    /// automatically.
    pub container: Option<String>,
    /// The sources that the answer cites, and those found by the provider's own searches, each
    /// once.
    pub sources: Vec<Citation>,
    /// All other fields, by the provider's own names: its `usage` unchanged, `logprobs`,
    /// `groundingMetadata`, `context_management`.
    pub attributes: Attributes,
}

impl fmt::Debug for Metadata {
    /// Shows which answer it is about and what else was reported, not the words that it cites or
    /// that the model considered.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metadata")
            .field("id", &self.id)
            .field("model", &self.model)
            .field("cost", &self.cost)
            .field("container", &self.container)
            .field("sources", &self.sources.len())
            .field("attributes", &self.attributes.keys().collect::<Vec<_>>())
            .finish()
    }
}

/// A source of an answer, in one form for all providers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Citation {
    /// Its address, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The title of the page or document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The cited words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The attribute in which an answer keeps sources from outside its message, so that they can be
/// shown with it. It is never sent to a provider.
const SOURCES: &str = "wire:sources";

/// The fields outside the message, which arrive all at once or with each piece of a stream.
#[derive(Debug, Default)]
pub(super) struct Beside(Attributes);

impl Beside {
    pub(super) fn of(all: impl IntoIterator<Item = Fields>) -> Self {
        let mut beside = Self::default();
        all.into_iter().for_each(|fields| beside.take(fields));
        beside
    }

    /// Adds the unread fields of a body, a choice or a piece. A later field replaces an earlier
    /// one, unless it is empty; lists of log probabilities are continued.
    pub(super) fn take(&mut self, fields: Fields) {
        for (key, value) in fields.rest() {
            match (self.0.get_mut(&key), value) {
                (Some(known), more) if LOGPROBS.contains(&&*key) => extend(known, more),
                // Claude sends half of the usage first.
                (Some(Value::Object(known)), Value::Object(more)) if key == "usage" => {
                    known.extend(more);
                }
                // Azure's filter of content reports in chunks with an empty id and model.
                (Some(_), more) if more.is_null() || more == "" => {}
                (_, value) => drop(self.0.insert(key, value)),
            }
        }
    }

    /// Returns the known fields, and the message with the sources from outside it. A message that
    /// says nothing stays empty.
    pub(super) fn told(
        self,
        mut message: AiMessage,
        format: Format,
        is_said: bool,
    ) -> (AiMessage, Metadata) {
        // Fields that say nothing about the answer, or that repeat the request.
        const PASSING: [&str; 10] = [
            "object",
            "type",
            "role",
            "done",
            "index",
            "instructions",
            "tools",
            "input",
            "prompt",
            "output_text",
        ];
        let mut rest = self.0;
        rest.retain(|key, _| !PASSING.contains(&key.as_str()));
        let mut text = |keys: &[&str]| {
            keys.iter().find_map(|key| match rest.remove(*key) {
                Some(Value::String(text)) if !text.is_empty() => Some(text),
                _ => None,
            })
        };
        let (id, model) = (text(&["id", "responseId"]), text(&["model", "modelVersion"]));
        let container = rest.get("container").and_then(|it| it.get("id")?.as_str());
        let container = container.map(str::to_owned);
        let cost = rest.get("usage").and_then(|usage| usage.get("cost"));
        let cost = cost.map(|cost| cost.get("total_cost").unwrap_or(cost));
        let cost = cost.and_then(|cost| cost.as_number().cloned());
        let mut sources = Vec::new();
        collect(&rest, &LISTED_AT, &mut sources);
        if is_said
            && !sources.is_empty()
            && let Ok(list) = serde_json::to_value(&sources)
        {
            message = message.with_attribute(SOURCES, list);
        }
        if let (Some(value), Format::Anthropic, true) = (rest.get("container"), format, is_said) {
            let kept = Attributes::from_iter([("container".to_owned(), value.clone())]);
            message = message.with_attribute(super::anthropic::ATTRIBUTE, kept);
        }
        add_named_within(&message, &mut sources);
        (message, Metadata { id, model, cost, container, sources, attributes: rest })
    }
}

/// The fields with log probabilities, which arrive token by token.
const LOGPROBS: [&str; 2] = ["logprobs", "logprobsResult"];

/// Continues a list, or the lists in an object.
fn extend(known: &mut Value, more: Value) {
    match (known, more) {
        (Value::Array(list), Value::Array(more)) => list.extend(more),
        (Value::Object(known), Value::Object(more)) => {
            for (key, more) in more {
                extend(known.entry(key).or_insert(Value::Null), more);
            }
        }
        (_, Value::Null) => {}
        (known, more) => *known = more,
    }
}

/// The paths to the sources that a provider lists outside the message, through each element of
/// lists: the addresses of Perplexity and xAI, and Google's grounding.
const LISTED_AT: [&[&str]; 8] = [
    &["search_results"],
    &["citations"],
    &["groundingMetadata", "groundingChunks", "web"],
    &["groundingMetadata", "groundingChunks", "retrievedContext"],
    &["groundingMetadata", "groundingChunks", "maps"],
    &["citationMetadata", "citationSources"],
    &["citationMetadata", "citations"],
    &["urlContextMetadata", "urlMetadata"],
];

/// The paths to sources within the message: in the fields kept for the message itself (Groq's) and
/// for its parts: citations of texts, and results of Claude's and OpenAI's searches.
const WITHIN: [&[&str]; 6] = [
    &["annotations"],
    &["citations"],
    &["executed_tools", "search_results", "results"],
    &["content"],
    &["item", "action", "sources"],
    &["item", "results"],
];

fn add_named_within(message: &AiMessage, sources: &mut Vec<Citation>) {
    let of_message = kept(super::openai::ATTRIBUTE, message.attributes());
    let of_parts = message.parts().iter().filter_map(|part| match part {
        AiPart::Content(Part::Text(text)) => text.extra.values().find_map(Value::as_object),
        AiPart::Content(Part::Other(other)) => other.fields().values().find_map(Value::as_object),
        _ => None,
    });
    for kept in of_message.into_iter().chain(of_parts) {
        collect(kept, &WITHIN, sources);
    }
}

fn collect(fields: &Attributes, ways: &[&[&str]], sources: &mut Vec<Citation>) {
    for way in ways {
        if let [first, rest @ ..] = way
            && let Some(value) = fields.get(*first)
        {
            // Of a tool's results, only those with an address count.
            let is_result = *first == "content";
            follow(value, rest, &mut |found| {
                if !is_result || found.get("url").is_some() {
                    add(sources, found.get("url_citation").unwrap_or(found));
                }
            });
        }
    }
}

/// Follows a path from a value, through each element of lists.
fn follow(value: &Value, way: &[&str], found: &mut dyn FnMut(&Value)) {
    match (value, way) {
        (Value::Array(list), _) => list.iter().for_each(|it| follow(it, way, found)),
        (value, []) => found(value),
        (value, [key, rest @ ..]) => {
            value.get(key).into_iter().for_each(|it| follow(it, rest, found));
        }
    }
}

/// Adds a source, unless it is there. A source without a text gets the text of a later citation of
/// the same address.
fn add(sources: &mut Vec<Citation>, value: &Value) {
    let text = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| value.get(key)?.as_str());
        found.filter(|text| !text.is_empty()).map(str::to_owned)
    };
    let url = text(&["url", "uri", "retrievedUrl", "source"]);
    let source = Citation {
        url: value.as_str().map(str::to_owned).or(url),
        title: text(&["title", "document_title", "filename"]),
        text: text(&["cited_text", "text", "content"]),
    };
    let is_of = |it: &Citation| it.url.is_some() && it.url == source.url;
    let is_alone = |it: &Citation| it.text.is_none() || source.text.is_none();
    if let Some(known) = sources.iter_mut().find(|it| is_of(it) && is_alone(it)) {
        known.title = known.title.take().or(source.title);
        known.text = known.text.take().or(source.text);
    } else if source != Citation::default() && !sources.contains(&source) {
        sources.push(source);
    }
}
