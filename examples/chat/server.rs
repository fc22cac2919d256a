//! The model of the chat: a server's, where the environment holds its key or its address.

use memory_prompt::conversation::Model;
use memory_prompt::{Conversation, MemoryPrompt, Provider, Transport};

/// A conversation with a server, or with the toy where the environment names none.
pub(crate) fn conversation(prompt: MemoryPrompt, toy: impl Model + 'static) -> Conversation {
    if let Some(server) = found() {
        return Conversation::new(prompt, server);
    }
    Conversation::new(prompt, toy)
}

fn found() -> Option<Transport> {
    let usual = [
        (Provider::OpenAi, "gpt-5-mini"),
        (Provider::Anthropic, "claude-haiku-4-5"),
        (Provider::Gemini, "gemini-2.5-flash"),
        (Provider::Mistral, "mistral-small-latest"),
    ];
    let named = std::env::var("MODEL").ok().filter(|it| !it.trim().is_empty());
    usual.into_iter().find_map(|(provider, usual)| {
        match Transport::from_env(provider, named.as_deref().unwrap_or(usual)) {
            Ok(server) => Some(server),
            Err(error) => {
                let error = error.to_string();
                // Most have a key for one of them; one that can't be used is worth a word.
                if !error.starts_with("transport: no key ") {
                    eprintln!("{provider} is not asked: {error}");
                }
                None
            }
        }
    })
}
