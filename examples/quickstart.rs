//! Composes one conversation of a real kind twice, as people do it by hand and with this crate,
//! and asks a strict server about both.
//!
//! The server is the rules that the tests hold every prompt to (`tests/provider`), with a status.
//!
//! Run it with `cargo run --example quickstart`.

#[path = "../tests/provider/validators.rs"]
mod validators;

use memory_prompt::text::Keep;
use memory_prompt::{
    DefaultChatMemory, MemoryPrompt, Message, Prompt, Provider, ToolCall, Truncate, wire,
};
use serde_json::{Value, json};

const NEWEST: usize = 8;
const CUT: usize = 60;

/// Returns the conversation, in the order in which its messages came.
fn conversation() -> Vec<Message> {
    let page =
        format!("Terms and conditions.\r\n{}The end.", "Rooms are paid in advance. ".repeat(400));
    vec![
        Message::system("You book rooms."),
        Message::user("Find me a room in Oslo, please."),
        Message::ai_calls([ToolCall::new("c1", "search", r#"{"city":"Oslo"}"#)]),
        Message::tool("c1", "search", "Three rooms: Fjord, Harbour, Station."),
        Message::ai("There are three: Fjord, Harbour and Station."),
        // A page that was pasted whole.
        Message::user(format!("Is this normal? {page}")),
        Message::ai("Yes, most of them want that."),
        // This process was killed while the tool ran: nobody will ever answer the call.
        Message::ai_calls([ToolCall::new("c2", "check", r#"{"room":"Harbour"}"#)]),
        // A cut after sixty characters falls into this family.
        Message::user("Then book the Harbour for us four, it is for our holidays 👩‍👩‍👧‍👦 in May."),
        Message::ai_calls([ToolCall::new("c3", "book", r#"{"room":"Harbour"}"#)]),
        Message::system("You book rooms. It is Friday."), // nobody looks at what is there already
        // The user was faster than the tool.
        Message::user("Are you still there?"),
        Message::tool("c3", "book", "Booked, reference 7XK."),
        Message::user("What is my reference?"),
    ]
}

/// Takes the newest messages, cuts each, and puts the system message first.
fn by_hand(history: &[Message]) -> Value {
    let cut = |message: &Message| -> String { message.text().chars().take(CUT).collect() };
    let newest = &history[history.len() - NEWEST..];
    let system = json!({ "role": "system", "content": history[0].text() });
    let messages = newest.iter().map(|message| match message {
        Message::Ai(ai) if ai.has_tool_calls() => {
            let calls = ai.tool_calls().map(|call| {
                json!({ "id": call.id, "type": "function", "function":
                    { "name": call.name, "arguments": call.arguments } })
            });
            json!({ "role": "assistant", "tool_calls": calls.collect::<Vec<_>>() })
        }
        Message::Tool(tool) => {
            json!({ "role": "tool", "tool_call_id": tool.call_id(), "content": cut(message) })
        }
        Message::Ai(_) => json!({ "role": "assistant", "content": cut(message) }),
        message => json!({ "role": message.role(), "content": cut(message) }),
    });
    std::iter::once(system).chain(messages).collect()
}

/// The same by this crate: the newest eight, each of at most sixty characters.
fn composed(history: &[Message], provider: Provider) -> memory_prompt::Result<Prompt> {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .max_messages(NEWEST)
        .truncate(Truncate::chars(CUT)?.keep(Keep::Ends).marker(" … "))
        .for_provider(provider);
    prompt.add_all(history.to_vec())?;
    prompt.build()
}

fn print(messages: &Value) {
    for message in messages.as_array().into_iter().flatten() {
        let calls = message["tool_calls"].as_array().into_iter().flatten();
        let calls = calls.map(|it| format!("calls {} as {}", it["function"]["name"], it["id"]));
        let id = message["tool_call_id"].as_str().map(|id| format!("to {id:?}: "));
        let said = message["content"].as_str().map(|text| text.replace("\r\n", " "));
        let line: String = id.into_iter().chain(said).chain(calls).collect();
        println!("  {:<10} {line}", message["role"].as_str().unwrap_or_default());
    }
}

/// Prints what a strict server says to these messages.
fn judge(provider: Provider, wrong: &[String]) {
    match wrong.split_at_checked(3) {
        _ if wrong.is_empty() => println!("  => {provider}: 200"),
        Some((first, [_, ..])) => {
            println!("  => {provider}: 400 ({}; {} more)", first.join("; "), wrong.len() - 3);
        }
        _ => println!("  => {provider}: 400 ({})", wrong.join("; ")),
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let history = conversation();

    println!("The newest {NEWEST} of {} messages, by hand:\n", history.len());
    let messages = by_hand(&history);
    print(&messages);
    judge(Provider::OpenAi, &validators::openai(&messages));
    judge(Provider::Mistral, &validators::mistral(&messages));

    println!("\nThe same by memory-prompt:\n");
    let built = composed(&history, Provider::OpenAi)?;
    let messages = serde_json::to_value(wire::openai::messages(&built))?;
    print(&messages);
    judge(Provider::OpenAi, &validators::openai(&messages));
    let prompt = composed(&history, Provider::Mistral)?;
    let messages = serde_json::to_value(wire::openai::messages(&prompt))?;
    judge(Provider::Mistral, &validators::mistral(&messages));
    let prompt = composed(&history, Provider::Anthropic)?;
    let messages = serde_json::to_value(wire::anthropic::messages(&prompt))?;
    judge(Provider::Anthropic, &validators::anthropic(&messages));
    let prompt = composed(&history, Provider::Gemini)?;
    let contents = serde_json::to_value(wire::gemini::contents(&prompt))?;
    judge(Provider::Gemini, &validators::gemini(&contents));

    println!("\nIts report:\n\n{}", built.report());
    Ok(())
}
