use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::wire::{self, Answer, Request};
use memory_prompt::{MemoryPrompt, SqliteStore};

type Lines<'a> = &'a mut dyn Iterator<Item = String>;

/// Talks to a server that speaks OpenAI's language, and remembers in a file.
pub fn chat(url: &str, key: &str, file: &str, lines: Lines<'_>) -> Result<(), ModelError> {
    let (url, key) = (format!("{url}/v1/chat/completions"), format!("Bearer {key}"));
    let model = move |ask: &Asking<'_>| -> Result<Answer, ModelError> {
        let body = serde_json::to_string(&Request::new(ask.prompt()).model("gpt-5-mini"))?;
        let request =
            ureq::post(&url).header("authorization", &key).content_type("application/json");
        Ok(wire::openai::answer(&request.send(&body)?.body_mut().read_to_string()?)?)
    };
    let memory = SqliteStore::open(file)?.memory("ada")?;
    let prompt = MemoryPrompt::new(memory).system("Be brief.").max_messages(40);
    let conversation = Conversation::new(prompt, model);
    for line in lines {
        println!("{}", conversation.say(line.as_str())?.text());
    }
    Ok(())
}
