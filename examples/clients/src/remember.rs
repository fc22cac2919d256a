use memory_prompt::{Conversation, MemoryPrompt, Provider, SqliteStore, Transport};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let model = Transport::from_env(Provider::OpenAi, "gpt-5-mini")?; // OPENAI_API_KEY
    let memory = SqliteStore::open("chat.db")?.memory("ada")?;
    let prompt = MemoryPrompt::new(memory).system("Be brief.").max_messages(40);
    let chat = Conversation::new(prompt, model);
    for line in std::io::stdin().lines() {
        println!("{}", chat.say(line?)?.text());
    }
    Ok(())
}
