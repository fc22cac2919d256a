//! A branch in the format of a provider.

use std::time::UNIX_EPOCH;

use serde::Serialize;

use super::written;
use crate::compose::Composer;
use crate::error::Result;
use crate::provider::{Format, Provider};
use crate::record::{Records, Snapshot};
use crate::turn::turns_in;
use crate::window::Window;
use crate::wire::{anthropic, gemini, ollama, openai, responses};

#[derive(Serialize)]
struct Chat<T> {
    messages: T,
}

#[derive(Serialize)]
struct Anthropic<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<anthropic::System<'a>>,
    messages: anthropic::Messages<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Gemini<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<gemini::SystemInstruction<'a>>,
    contents: gemini::Contents<'a>,
}

#[derive(Serialize)]
struct Responses<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    instructions: Option<&'a str>,
    input: responses::Input<'a>,
}

/// Returns the line of a branch: what a request that sends all of it says of the conversation; an
/// empty text where nothing was said.
pub(super) fn line(head: Snapshot, records: &Records, provider: Provider) -> Result<String> {
    let waiting = turns_in(&head).filter_map(Result::ok);
    let waiting = waiting.filter(|turn| turn.is_of(head.incarnation));
    let waiting = waiting.flat_map(|turn| turn.messages().to_vec());
    let said = (0..).zip(records.messages().cloned().chain(waiting));
    let said: Vec<_> = said.map(|(at, message)| (at, UNIX_EPOCH, message)).collect();
    if said.is_empty() {
        return Ok(String::new()); // all of it was taken back
    }
    let whole = Snapshot::new(0..said.len() as u64, Records::from_rows(said));
    let composer = Composer::new().window(Window::all()).for_provider(provider);
    let prompt = composer.compose_all(&whole.with_system(head.system), &[])?;
    let mut line = match provider.format() {
        Format::OpenAi => written(&Chat { messages: openai::messages(&prompt) }),
        Format::Ollama => written(&Chat { messages: ollama::messages(&prompt) }),
        Format::Anthropic => written(&Anthropic {
            system: anthropic::system(&prompt),
            messages: anthropic::messages(&prompt),
        }),
        Format::Gemini => written(&Gemini {
            system_instruction: gemini::system_instruction(&prompt),
            contents: gemini::contents(&prompt),
        }),
        Format::Responses => written(&Responses {
            instructions: responses::instructions(&prompt),
            input: responses::input(&prompt),
        }),
    }?;
    line.push('\n');
    Ok(line)
}
