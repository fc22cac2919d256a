//! A branch in the format of a provider.

use std::time::UNIX_EPOCH;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use super::written;
use crate::compose::Composer;
use crate::error::Result;
use crate::prompt::Prompt;
use crate::provider::{Format, Provider};
use crate::record::{Records, Snapshot};
use crate::turn::turns_in;
use crate::window::Window;
use crate::wire::{anthropic, gemini, ollama, openai, responses};

/// What a request says of a conversation.
struct Said<'a>(&'a Prompt, Format);

impl Serialize for Said<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self(prompt, format) = self;
        let mut body = serializer.serialize_map(None)?;
        match format {
            Format::OpenAi => body.serialize_entry("messages", &openai::messages(prompt))?,
            Format::Ollama => body.serialize_entry("messages", &ollama::messages(prompt))?,
            Format::Anthropic => {
                if let Some(system) = anthropic::system(prompt) {
                    body.serialize_entry("system", &system)?;
                }
                body.serialize_entry("messages", &anthropic::messages(prompt))?;
            }
            Format::Gemini => {
                if let Some(system) = gemini::system_instruction(prompt) {
                    body.serialize_entry("systemInstruction", &system)?;
                }
                body.serialize_entry("contents", &gemini::contents(prompt))?;
            }
            Format::Responses => {
                if let Some(system) = responses::instructions(prompt) {
                    body.serialize_entry("instructions", system)?;
                }
                body.serialize_entry("input", &responses::input(prompt))?;
            }
        }
        body.end()
    }
}

/// Returns the line of a branch: what a request that sends all of it says of the conversation; an
/// empty text where nothing was said that a provider is sent.
pub(super) fn line(branch: Snapshot, provider: Provider) -> Result<String> {
    let waiting = turns_in(&branch).filter_map(Result::ok);
    let waiting = waiting.filter(|turn| turn.is_of(&branch));
    let waiting = waiting.flat_map(|turn| turn.messages().to_vec());
    let said = (0..).zip(branch.records.messages().cloned().chain(waiting));
    let said: Vec<_> = said.map(|(at, message)| (at, UNIX_EPOCH, message)).collect();
    if said.iter().all(|(.., message)| message.is_private()) {
        return Ok(String::new()); // all of it was taken back, or is private
    }
    let whole = Snapshot::new(0..said.len() as u64, Records::from_rows(said));
    let composer = Composer::new().window(Window::all()).for_provider(provider);
    let prompt = composer.compose_all(&whole.with_system(branch.system), &[])?;
    Ok(written(&Said(&prompt, provider.format()))? + "\n")
}
