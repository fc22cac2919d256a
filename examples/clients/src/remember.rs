use memory_prompt::{Conversation, MemoryPrompt, Provider, Result, SqliteStore, Transport};

/// Talks to a server that speaks OpenAI's language, and remembers in a file what was said.
pub fn chat(url: &str, key: &str, lines: &mut dyn Iterator<Item = String>) -> Result<()> {
    let model = Transport::new(Provider::OpenAiCompatible, "gpt-5-mini").base_url(url)?.key(key)?;
    let memory = SqliteStore::open("chat.db")?.memory("ada")?;
    let prompt = MemoryPrompt::new(memory).system("Be brief.").max_messages(40);
    let conversation = Conversation::new(prompt, model);
    for line in lines {
        println!("{}", conversation.say(line.as_str())?.text());
    }
    Ok(())
}
