//! A branch in the format of a provider.

use std::time::UNIX_EPOCH;

use crate::compose::Composer;
use crate::error::Result;
use crate::provider::Provider;
use crate::record::{Records, Snapshot};
use crate::turn::turns_in;
use crate::window::Window;
use crate::wire::Request;

/// Returns the line of a branch: the conversation in a request that sends all of it; an empty text
/// if there is nothing to send.
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
    // Anthropic demands a limit of the answer, and items that only OpenAI's store has are sent if
    // the request is to be stored. Both fields are left out, as all that is not conversation.
    let request = Request::new(&prompt).max_tokens(1).extra("store", true);
    Ok(request.conversation()? + "\n")
}
