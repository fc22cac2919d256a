//! The count of a message: its content, and the overhead of being a message.

use super::TokenCounter;
use crate::error::Result;
use crate::message::{AiPart, Content, CustomMessage, Detail, Media, Message, Part};

/// The tokens that messages cost in addition to their content.
///
/// The defaults are those that OpenAI publishes for its chat models, with an allowance for the
/// values that it does not publish. Other providers' templates differ by a few tokens a message.
///
/// ```
/// use memory_prompt::token::Overhead;
///
/// let mut overhead = Overhead::default();
/// assert_eq!((overhead.message, overhead.name, overhead.call, overhead.reply), (4, 1, 8, 3));
/// overhead.message = 10; // a verbose chat template
/// # assert_eq!(overhead.message, 10);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Overhead {
    /// For each message: 4, that is 3 to enclose it and 1 to name its role.
    pub message: usize,
    /// For each name of a participant, in addition to its text: 1.
    pub name: usize,
    /// For each tool call, in addition to its name and arguments: 8. Not published: an allowance
    /// for the tokens that mark it as a call.
    pub call: usize,
    /// Once for each prompt, for the beginning of the model's answer: 3. It belongs to no message,
    /// so [`TokenCounter::count`] never adds it; a budget does.
    pub reply: usize,
}

impl Default for Overhead {
    fn default() -> Self {
        Self { message: 4, name: 1, call: 8, reply: 3 }
    }
}

/// Returns the tokens of a part that is not text: the default of [`TokenCounter::count_media`].
///
/// What media cost depends on the model and on what is in them, and nothing is decoded here. These
/// are round figures from the providers' published ones, high for a picture of a thousand pixels a
/// side. A large photograph costs some models ten times as much: name its [detail](Detail), make it
/// smaller, or count with a counter of your own. A token budget of a prompt that is for a provider
/// counts pictures whose dimensions are known
/// [by the provider's own rule](crate::provider::Row::picture_tokens).
///
/// | part | if its data is here, in base64 | elsewhere |
/// |---|---|---|
/// | image, [low](Detail::Low) detail | 85 | 85 |
/// | image, of another or no detail | 1,600 | 1,600 |
/// | audio, uncompressed (`wav`, `pcm`, `l16`) | 1 for each 1,500 bytes | 1,000 |
/// | audio, other | 1 for each 250 bytes | 1,000 |
/// | video | 1 for each 800 bytes | 3,000 |
/// | file of text (`text/*`, JSON, XML) | 1 for each 4 bytes | 2,000 |
/// | file, other | 1 for each 40 bytes | 2,000 |
/// | a kind that this version does not know | | 2,000 |
///
/// A text part counts nothing here, because its text is counted.
///
/// ```
/// use memory_prompt::message::{Detail, Media, Part};
/// use memory_prompt::token::media_tokens;
///
/// let data = "A".repeat(4_000_000); // 3 MB, in base64
/// let picture = Media::base64("image/png", data.as_str()).with_detail(Detail::Low);
/// assert_eq!(media_tokens(&Part::Image(picture)), 85);
/// assert_eq!(media_tokens(&Part::File(Media::base64("application/pdf", data))), 75_000);
/// assert_eq!(media_tokens(&Part::File(Media::file_id("file-1"))), 2_000);
/// ```
pub fn media_tokens(part: &Part) -> usize {
    match part {
        Part::Text(_) => 0,
        Part::Image(image) => match image.detail {
            Some(Detail::Low) => 85,
            Some(Detail::Auto | Detail::High | Detail::Other(_)) | None => PICTURE,
        },
        Part::Audio(audio) => {
            let plain = media_type_has(audio, &["wav", "pcm", "l16"]);
            by_size(audio, if plain { 1_500 } else { 250 }).unwrap_or(1_000)
        }
        Part::Video(video) => by_size(video, 800).unwrap_or(3_000),
        Part::File(file) => {
            let text = media_type_has(file, &["text/", "json", "xml"])
                && !media_type_has(file, &["officedocument", "opendocument"]); // zipped XML
            by_size(file, if text { 4 } else { 40 }).unwrap_or(2_000)
        }
        Part::Other(_) => 2_000,
    }
}

/// The tokens of a picture if no low detail is asked for.
pub(crate) const PICTURE: usize = 1_600;

fn media_type_has(media: &Media, any: &[&str]) -> bool {
    let media_type = media.media_type.as_deref().unwrap_or_default().to_ascii_lowercase();
    any.iter().any(|name| media_type.contains(name))
}

/// Returns a token for every `bytes_a_token` bytes, at least one, if the data is here.
fn by_size(media: &Media, bytes_a_token: usize) -> Option<usize> {
    let length = usize::try_from(media.data_len()?).unwrap_or(usize::MAX);
    Some((length / 4 * 3 / bytes_a_token).max(1))
}

/// Returns the sum of what a message holds, each counted by the counter: the default of
/// [`TokenCounter::count`].
pub(crate) fn count_by_parts(
    counter: &(impl TokenCounter + ?Sized),
    message: &Message,
) -> Result<usize> {
    let overhead = counter.overhead();
    let mut sum = Sum { counter, tokens: overhead.message };
    match message {
        Message::System(m) => sum.text(m.text())?,
        Message::User(m) => sum.content(m.content())?,
        Message::Ai(m) => {
            if m.parts().is_empty() {
                sum.text(&m.text())?;
            }
            for part in m.parts() {
                match part {
                    AiPart::Content(part) => sum.part(part)?,
                    AiPart::Reasoning(r) => match (&*r.text, &r.signature) {
                        ("", Some(signature)) => sum.add(signature.len() / 5),
                        (text, _) => sum.text(text)?,
                    },
                    AiPart::ToolCall(call) => {
                        sum.add(overhead.call);
                        sum.text(&call.name)?;
                        sum.text(&call.arguments)?;
                    }
                }
            }
        }
        Message::Tool(m) => {
            sum.content(m.content())?;
            sum.text(m.tool_name())?;
        }
        Message::Custom(m) => match fields(m) {
            Some(json) => sum.text(&json)?,
            None => return Ok(0),
        },
    }
    if let Some(name) = message.name() {
        sum.add(overhead.name);
        sum.text(name)?;
    }
    Ok(sum.tokens)
}

/// Returns the JSON of a custom message's fields, if it has some.
fn fields(message: &CustomMessage) -> Option<String> {
    let fields = message.fields();
    // JSON values can always be written.
    (!fields.is_empty()).then(|| serde_json::to_string(fields).unwrap_or_default())
}

struct Sum<'a, C: ?Sized> {
    counter: &'a C,
    tokens: usize,
}

impl<C: TokenCounter + ?Sized> Sum<'_, C> {
    fn add(&mut self, tokens: usize) {
        self.tokens = self.tokens.saturating_add(tokens);
    }

    fn text(&mut self, text: &str) -> Result<()> {
        // Not only for speed: the counter must not decide whether there is text.
        if !text.is_empty() {
            self.add(self.counter.count_text(text)?);
        }
        Ok(())
    }

    fn content(&mut self, content: &Content) -> Result<()> {
        match content {
            Content::Text(text) => self.text(text),
            Content::Parts(parts) => parts.iter().try_for_each(|part| self.part(part)),
        }
    }

    fn part(&mut self, part: &Part) -> Result<()> {
        match part {
            Part::Text(part) => self.text(&part.text),
            media => {
                self.add(self.counter.count_media(media)?);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only reading makes such a message, so no test outside can.
    #[test]
    fn a_message_of_an_unknown_role_counts_its_fields() {
        let mut message = CustomMessage::new([("trace".to_owned(), "not sent".into())]);
        message.body.unknown.insert("content".to_owned(), "hi".into());
        let scalars = |text: &str| text.chars().count();
        let expected = 4 + r#"{"content":"hi"}"#.len();
        assert_eq!(scalars.count(&message.into()).unwrap(), expected);
    }
}
