//! The origin of an answer, and which parts of a message are sent to a provider.

use serde_json::Value;

use super::row::{Format, ReasoningField, Row};
use crate::message::{
    AiMessage, AiPart, Attributes, Media, Message, Part, Reasoning, Source, TextPart, ToolCall,
    inline,
};

/// The attribute in which an answer remembers the name of its provider.
const ORIGIN: &str = "wire:provider";

/// The names under which each format keeps its private fields: in a part, and among the attributes
/// of a message.
const KEPT_UNDER: [(Format, &str, &str); 5] = [
    (Format::OpenAi, "openai", "wire:openai"),
    (Format::Responses, "responses", "wire:responses"),
    (Format::Anthropic, "anthropic", "wire:anthropic"),
    (Format::Gemini, "gemini", "wire:gemini"),
    (Format::Ollama, "ollama", "wire:ollama"),
];

/// Fields with which an encoder marks the kind of something. They are not sent unchanged.
const STRUCTURE: [&str; 2] = ["type", "format"];

/// Objects within a part or a call whose fields are checked one by one.
const WITHIN: [&str; 9] = [
    "custom",
    "file",
    "fileData",
    "function",
    "functionCall",
    "functionResponse",
    "image_url",
    "inlineData",
    "input_audio",
];

/// Returns the answer with the name of its provider, if it contains anything private.
pub(crate) fn remember_origin(message: AiMessage, row: &Row) -> AiMessage {
    if is_private(&message) { message.with_attribute(ORIGIN, row.name()) } else { message }
}

/// Returns whether an answer may contain these media.
pub(super) fn may_say(ai: &AiMessage, part: &Part, media: &Media, row: &Row) -> bool {
    PrivateFilter::of(origin(ai), row).is_said(part, media)
}

/// Returns whether an answer contains anything that not every provider understands.
pub(crate) fn is_private(message: &AiMessage) -> bool {
    has_private_keys(message.attributes()) || message.parts().iter().any(holds_private)
}

fn has_private_keys(attributes: &Attributes) -> bool {
    attributes.keys().any(|key| key.starts_with("wire:"))
}

/// Marks the messages of a history, so that each remembers its origin like an answer.
pub(crate) fn remember_origins(messages: &mut [Message], row: &Row) {
    for message in messages {
        let is_marked = match &*message {
            Message::Ai(ai) => is_private(ai),
            other => has_private_keys(attributes(other)) || holds_file_id(other),
        };
        if let Some(details) = message.details_mut().filter(|_| is_marked) {
            let attributes = &mut details.get_or_insert_default().attributes;
            attributes.insert(ORIGIN.to_owned(), row.name().into());
        }
    }
}

/// Returns whether a user message or a tool result has a file with a provider's id.
fn holds_file_id(message: &Message) -> bool {
    message.content().is_some() && message.media().any(|it| matches!(it.source, Source::FileId(_)))
}

pub(crate) fn given_by(message: AiMessage, origin: &str) -> AiMessage {
    message.with_attribute(ORIGIN, origin)
}

pub(crate) fn origin(message: &AiMessage) -> Option<&str> {
    message.attributes().get(ORIGIN)?.as_str()
}

/// Returns the name of the provider that a message was read from, if it is known.
pub(crate) fn origin_of(message: &Message) -> Option<&str> {
    attributes(message).get(ORIGIN)?.as_str()
}

/// Returns the fields of a message outside its content.
pub(crate) fn attributes(message: &Message) -> &Attributes {
    match message {
        Message::System(m) => m.attributes(),
        Message::User(m) => m.attributes(),
        Message::Ai(m) => m.attributes(),
        Message::Tool(m) => m.attributes(),
        Message::Custom(m) => m.attributes(),
    }
}

fn holds_private(part: &AiPart) -> bool {
    match part {
        AiPart::Content(Part::Text(TextPart { extra, .. })) => !extra.is_empty(),
        AiPart::Content(Part::Other(_)) | AiPart::Reasoning(_) => true,
        AiPart::Content(part) => part.as_media().is_some_and(|media| {
            !media.extra.is_empty() || matches!(media.source, Source::FileId(_))
        }),
        AiPart::ToolCall(ToolCall { signature, extra, .. }) => {
            signature.is_some() || !extra.is_empty()
        }
    }
}

struct PrivateFilter<'a> {
    row: &'a Row,
    /// True if the message is from this provider or its family.
    own: bool,
    /// True if all reasoning is left out, whatever its origin.
    forgets: bool,
    mark: &'static str,
    /// The attribute with the fields outside the content.
    beside: &'static str,
}

impl<'a> PrivateFilter<'a> {
    fn of(origin: Option<&str>, row: &'a Row) -> Self {
        let own = row.takes_from(origin);
        let marks = KEPT_UNDER.iter().find(|(format, ..)| *format == row.format);
        let (mark, beside) = marks.map_or(("", ""), |(_, mark, beside)| (*mark, *beside));
        Self { row, own, forgets: false, mark, beside }
    }

    fn all(&self) -> bool {
        self.own && self.row.private.takes_all()
    }

    fn field(&self, name: &str) -> bool {
        self.own && self.row.private.takes(name)
    }

    /// Returns the fields that remain; `None` if all do.
    fn fields(&self, fields: &Attributes) -> Option<Attributes> {
        if self.all() {
            return None;
        }
        let mut left = Attributes::new();
        let mut changed = false;
        for (key, value) in fields {
            let is_structure =
                STRUCTURE.contains(&key.as_str()) && (*value != "custom" || self.field("custom"));
            let is_kept = is_structure
                || (self.field(key) && !(key == "custom" && value.is_object()))
                || value.is_null() // Gemini's mark of a made-up id
                || (key == "custom" && value.is_boolean());
            if is_kept {
                left.insert(key.clone(), value.clone());
                continue;
            }
            let inner = value.as_object().filter(|_| WITHIN.contains(&key.as_str()));
            match inner.map(|inner| self.fields(inner)) {
                Some(None) => drop(left.insert(key.clone(), value.clone())), // all of it remains
                some => {
                    changed = true;
                    let some = some.flatten().filter(|some| !some.is_empty());
                    left.extend(some.map(|some| (key.clone(), Value::Object(some))));
                }
            }
        }
        changed.then_some(left)
    }

    /// Returns all these fields with only the remaining ones under this key; `None` if nothing
    /// changes.
    fn under(&self, key: &str, all: &Attributes) -> Option<Attributes> {
        if all.is_empty() {
            return None;
        }
        let left = self.fields(all.get(key)?.as_object()?)?;
        let mut all = all.clone();
        if left.is_empty() {
            all.remove(key);
        } else {
            all.insert(key.to_owned(), Value::Object(left));
        }
        Some(all)
    }

    /// Returns what remains of a part of a user message or a result; `None` if nothing changes.
    /// Apart from its fields, such a part is the application's own.
    fn part(&self, part: &Part) -> Option<Part> {
        if let Part::Text(text) = part {
            let extra = self.under(self.mark, &text.extra)?;
            return Some(Part::Text(TextPart { text: text.text.clone(), extra }));
        }
        let extra = self.under(self.mark, &part.as_media()?.extra)?;
        let mut copy = part.clone();
        copy.as_media_mut()?.extra = extra;
        Some(copy)
    }

    /// Returns what remains of a message, without the fields outside its content, and the indexes
    /// of the remaining parts of an answer; `None` if nothing changes.
    fn message(&self, message: &Message) -> Option<(Message, Option<Vec<usize>>)> {
        match message {
            Message::Ai(ai) => {
                let (left, places) = self.answer(ai)?;
                Some((left.into(), Some(places)))
            }
            other => {
                let content = other.content()?.with_parts(|part| self.part(part))?;
                Some((other.with_content(content), None))
            }
        }
    }

    fn answer(&self, ai: &AiMessage) -> Option<(AiMessage, Vec<usize>)> {
        let said: Vec<_> = ai.parts().iter().map(|part| self.said(part)).collect();
        if said.iter().all(|said| matches!(said, Said::AsItIs)) {
            return None;
        }
        let parts = ai.parts().iter().zip(said).enumerate().filter_map(|(i, (part, said))| {
            let left = match said {
                Said::AsItIs => part.clone(),
                Said::Changed(part) => part,
                Said::LeftOut => return None,
            };
            // An answer does not contain an empty plain text.
            let is_empty = left.as_bare_text().is_some_and(str::is_empty);
            (!is_empty).then_some((left, i))
        });
        let (parts, places) = parts.unzip();
        Some((ai.with_other_parts(parts), places))
    }

    fn said(&self, part: &AiPart) -> Said {
        match part {
            AiPart::Content(part) if self.leaves_out(part) => Said::LeftOut,
            // Another provider's text that only carried a signature.
            AiPart::Content(Part::Text(TextPart { text, extra }))
                if text.is_empty() && !extra.contains_key(self.mark) =>
            {
                Said::LeftOut
            }
            AiPart::Content(part @ Part::Audio(media))
                if matches!(media.source, Source::FileId(_)) =>
            {
                let is_here = self.row.format == Format::OpenAi;
                if is_here && self.field("audio") {
                    return Said::AsItIs;
                }
                let kept = media.extra.get("openai").and_then(|kept| kept.get("transcript"));
                match kept.and_then(Value::as_str) {
                    Some(text) => Said::Changed(text.into()),
                    // Without an id that only another provider knows, nothing is left.
                    None if self.own && self.is_said(part, media) => Said::AsItIs,
                    None => Said::LeftOut,
                }
            }
            AiPart::Content(part) if part.as_media().is_some_and(|it| !self.is_said(part, it)) => {
                Said::LeftOut
            }
            AiPart::Content(part) => {
                self.part(part).map_or(Said::AsItIs, |part| Said::Changed(part.into()))
            }
            AiPart::Reasoning(thought) => self.thought(thought),
            AiPart::ToolCall(call) => {
                let signed = call.signature.is_some() && !self.own;
                let extra = self.under(self.mark, &call.extra);
                if extra.is_none() && !signed {
                    return Said::AsItIs;
                }
                let mut copy = call.clone();
                copy.extra = extra.unwrap_or(copy.extra);
                if signed {
                    copy.signature = None;
                }
                Said::Changed(copy.into())
            }
        }
    }

    fn thought(&self, thought: &Reasoning) -> Said {
        if !self.own || self.forgets {
            return Said::LeftOut;
        }
        let Some(kept) = thought.extra.get(self.mark).and_then(Value::as_object) else {
            let of_another =
                KEPT_UNDER.iter().any(|(_, mark, _)| thought.extra.contains_key(*mark));
            return if of_another { Said::LeftOut } else { Said::AsItIs };
        };
        if self.row.signed_reasoning && thought.signature.is_none() {
            return Said::LeftOut;
        }
        if self.row.format != Format::OpenAi {
            return Said::AsItIs;
        }
        // Mistral's reasoning within the content.
        if kept.contains_key("type") {
            if self.field("thinking") {
                return Said::AsItIs;
            }
            let is_empty = thought.text.is_empty();
            let text = Reasoning::new(thought.text.as_str());
            return if is_empty { Said::LeftOut } else { Said::Changed(text.into()) };
        }
        match self.under(self.mark, &thought.extra) {
            Some(extra)
                if extra.is_empty() && thought.text.is_empty() && thought.signature.is_none() =>
            {
                Said::LeftOut
            }
            Some(extra) => Said::Changed(Reasoning { extra, ..thought.clone() }.into()),
            None => Said::AsItIs,
        }
    }

    /// Returns whether a part is the provider's compaction, and not empty.
    fn is_compaction(&self, part: &AiPart) -> bool {
        let AiPart::Content(Part::Other(other)) = part else { return false };
        let Some(kept) = other.fields().get(self.mark) else { return false };
        let item = kept.get("item").unwrap_or(kept); // Responses keeps the whole item
        let text = |key: &str| item.get(key)?.as_str();
        let holds = |key: &str| text(key).is_some_and(|text| !text.is_empty());
        text("type") == Some("compaction") && (holds("encrypted_content") || holds("content"))
    }

    /// Returns whether an answer may contain these media. If not, they are left out of it: a
    /// placeholder would look like the model's own words.
    fn is_said(&self, part: &Part, media: &Media) -> bool {
        match (self.row.format, &media.source) {
            (Format::Gemini, Source::FileId(_)) => self.own,
            (Format::Gemini, _) => true,
            // A picture that the provider's model made.
            (Format::Responses, Source::Base64(_) | Source::Reference(_)) => {
                self.own
                    && media.extra.get(self.mark).is_some_and(|kept| kept.get("item").is_some())
            }
            (Format::Ollama, _) => {
                let images = self.row.images.filter(|_| matches!(part, Part::Image(_)));
                images.zip(inline(media)).is_some_and(|(it, data)| it.takes(data.media_type))
            }
            _ => false,
        }
    }

    /// Returns whether a part of an answer is private to another provider: a search, a hosted call.
    fn leaves_out(&self, part: &Part) -> bool {
        let Part::Other(other) = part else { return false };
        if other.kind() != self.mark {
            return KEPT_UNDER.iter().any(|(_, mark, _)| *mark == other.kind());
        }
        let kind = || other.fields().get(self.mark)?.get("type")?.as_str();
        !self.all() && !kind().is_some_and(|kind| self.field(kind))
    }
}

/// What happens to a part of an answer.
enum Said {
    AsItIs,
    Changed(AiPart),
    LeftOut,
}

/// Returns the message as it is sent to a provider, without what the provider does not take back,
/// and the indexes of the remaining parts of an answer, if some are missing; `None` if nothing is
/// left out.
pub(crate) fn outgoing(message: &Message, row: &Row) -> Option<(Message, Option<Vec<usize>>)> {
    without_private(message, &PrivateFilter::of(origin_of(message), row))
}

/// Does the same of a message before the running turn: no reasoning remains if the provider binds
/// it to what is before it.
pub(crate) fn outgoing_past(message: &Message, row: &Row) -> Option<(Message, Option<Vec<usize>>)> {
    let taken = PrivateFilter::of(origin_of(message), row);
    without_private(message, &PrivateFilter { forgets: row.binds_thoughts, ..taken })
}

fn without_private(
    message: &Message,
    taken: &PrivateFilter<'_>,
) -> Option<(Message, Option<Vec<usize>>)> {
    if !may_be_private(message) {
        return None;
    }
    let beside = taken.under(taken.beside, attributes(message));
    let copy = taken.message(message);
    if beside.is_none() && copy.is_none() {
        return None;
    }
    let (mut copy, places) = copy.unwrap_or_else(|| (message.clone(), None));
    if let (Some(Some(details)), Some(beside)) = (copy.details_mut(), beside) {
        details.attributes = beside;
    }
    Some((copy, places))
}

/// Returns whether this call of an answer is sent as one of a tool that takes free text instead of
/// JSON. To others it is sent as a call of a function.
pub(crate) fn is_free_text(call: &ToolCall, ai: &AiMessage, row: &Row) -> bool {
    let kind = || call.extra.get("openai")?.get("type")?.as_str();
    kind() == Some("custom") && PrivateFilter::of(origin(ai), row).field("custom")
}

/// Returns whether a message has fields of the provider's format outside its content.
pub(crate) fn has_fields(message: &Message, row: &Row) -> bool {
    attributes(message).contains_key(PrivateFilter::of(None, row).beside)
}

/// Returns whether nothing of an answer is left in the copy that is sent.
pub(crate) fn is_emptied(message: &Message, copy: &Message) -> bool {
    let (Some(ai), Some(left)) = (message.as_ai(), copy.as_ai()) else { return false };
    !ai.parts().is_empty() && left.parts().is_empty() && left.texts().all(str::is_empty)
}

/// Returns whether this reasoning is sent to a server of OpenAI's format: in the content, if it is
/// a block of Mistral's, or in the field that its row names.
pub(crate) fn goes_back(thought: &Reasoning, row: &Row) -> bool {
    let holds = |key| thought.extra.get("openai").is_some_and(|kept| kept.get(key).is_some());
    match row.reasoning {
        _ if holds("type") => true,
        None => false,
        Some(ReasoningField::Reasoning) if holds("reasoning_details") => true,
        Some(_) => !thought.text.is_empty(),
    }
}

/// Returns whether an answer contains the provider's own compaction of everything before it. A
/// failed compaction is empty, and replaces nothing.
pub(crate) fn holds_compaction(message: &Message, row: &Row) -> bool {
    let Message::Ai(ai) = message else { return false };
    if !row.compacts || ai.parts().is_empty() {
        return false;
    }
    let taken = PrivateFilter::of(origin_of(message), row);
    // If it is not sent back, it replaces nothing.
    taken.all() && ai.parts().iter().any(|part| taken.is_compaction(part))
}

pub(crate) fn without_compaction(message: &Message, row: &Row) -> Option<AiMessage> {
    let ai = message.as_ai().filter(|_| holds_compaction(message, row))?;
    let taken = PrivateFilter::of(origin(ai), row);
    ai.without(|part| taken.is_compaction(part))
}

/// Returns whether the message contains anything that only one provider could understand. This is a
/// fast check, since nearly no message does, and it runs for each message that is sent.
#[inline]
pub(crate) fn may_be_private(message: &Message) -> bool {
    message.details().is_some()
        || message.content().is_some_and(|content| !content.parts().is_empty())
        || message.as_ai().is_some_and(|ai| !ai.parts().iter().all(is_common))
}

/// Returns whether every provider takes a part of an answer: it has nothing private, and is not
/// media, which some formats have no place for there.
fn is_common(part: &AiPart) -> bool {
    let media = part.as_content().and_then(Part::as_media);
    media.is_none() && !holds_private(part)
}

/// Returns the answer without the parts that are private to another provider; `None` if it has
/// none.
pub(crate) fn without_foreign_parts(ai: &AiMessage, row: &Row) -> Option<AiMessage> {
    if ai.parts().is_empty() {
        return None;
    }
    let taken = PrivateFilter::of(origin(ai), row);
    ai.without(|part| {
        matches!(part, AiPart::Content(_)) && matches!(taken.said(part), Said::LeftOut)
    })
}
