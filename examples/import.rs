//! Takes over a conversation that another program has stored, and goes on with it at another
//! provider; and what people export from their accounts at `ChatGPT` and Claude, where each answer
//! that was given anew and each edit becomes a branch.
//!
//! Run it with `cargo run --example import`, or `cargo run --example import -- conversations.json`.
//!
//! `wire` reads the formats of OpenAI (both), Anthropic, Gemini, Ollama and LangChain4j.

#[path = "import/accounts.rs"]
mod accounts;
#[cfg(test)]
#[path = "import/tests.rs"]
mod tests;

use std::time::UNIX_EPOCH;

use accounts::Account;
use memory_prompt::history::BranchView;
use memory_prompt::memory::Append;
use memory_prompt::record::Incarnation;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, InMemoryStore, MemoryPrompt, Message, Provider,
    Result, wire,
};

/// The `messages` of a program that spoke Chat Completions.
const LOG: &str = r#"[
    {"role": "developer", "content": "You book rooms."},
    {"role": "user", "content": "A room in Oslo, please."},
    {"role": "assistant", "content": null, "tool_calls": [
        {"id": "c1", "type": "function", "function": {"name": "book", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "c1", "content": "Booked, reference 7XK."},
    {"role": "system", "content": "It is Friday."},
    {"role": "assistant", "content": "It is booked."}
]"#;

/// An account of Claude: the second answer was given in the place of the first one. Another
/// conversation is damaged.
const ACCOUNT: &str = r#"[
    {"name": "Capitals", "chat_messages": [
        {"uuid": "1", "sender": "human", "created_at": "2024-05-01T10:00:00Z", "text": "Where is Oslo?",
            "parent_message_uuid": "00000000-0000-4000-8000-000000000000"},
        {"uuid": "2", "sender": "assistant", "text": "In Sweden.", "parent_message_uuid": "1"},
        {"uuid": "3", "sender": "assistant", "text": "In Norway.", "parent_message_uuid": "1"}]},
    {"name": "Rivers", "chat_messages": [
        {"uuid": "1", "sender": "human", "text": "And the Nile?", "parent_message_uuid": "0"}]}
]"#;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let memory = DefaultChatMemory::new();
    // A memory has one system message: `import` joins those of the log, in their order.
    memory.import(wire::openai::history(LOG)?)?;
    println!("{} messages were imported\n", memory.len()?);

    let mut prompt = MemoryPrompt::new(memory).for_provider(Provider::Anthropic);
    prompt.add(Message::user("What is my reference?"))?;
    let built = prompt.build()?;
    for message in &built {
        let calls: Vec<&str> = message.tool_calls().map(|call| &*call.name).collect();
        println!("{:<10} {:?} {}", message.role(), message.text(), calls.join(", "));
    }
    println!("\n{}\n", built.report());

    let account = std::env::args().nth(1).map(std::fs::read_to_string).transpose()?;
    let store = InMemoryStore::new();
    let read = conversations(account.as_deref().unwrap_or(ACCOUNT));
    for (number, read) in read.enumerate() {
        let (name, account) = match read {
            Ok(read) => read,
            Err(refused) => {
                println!("refused: {refused}");
                continue;
            }
        };
        let view = BranchView::new(store.memory(format!("account:{number}"))?);
        put(&account, &view)?;
        println!("{name}: {} messages, {} branches", view.memory().len()?, view.branches()?.len());
        for entry in view.page(None, 20)?.entries.iter().rev() {
            println!("  {} < {}/{} >", entry.message.text(), entry.variant, entry.variants);
        }
    }
    Ok(())
}

/// Reads the conversations of an account; an error names the one that is damaged.
fn conversations(file: &str) -> impl Iterator<Item = Result<(String, Account), String>> {
    elements(file).enumerate().map(|(i, text)| {
        let number = i + 1;
        let of: serde_json::Value = serde_json::from_str(text)
            .map_err(|error| format!("conversation {number} is no JSON: {error}"))?;
        let name = format!("{number} {}", accounts::name(&of));
        match accounts::read(&of) {
            Some(Ok(account)) => Ok((name, account)),
            Some(Err(damage)) => Err(format!("conversation {name}: {damage}")),
            None => Err(format!("conversation {name}: it is of neither ChatGPT nor Claude")),
        }
    })
}

/// Returns the elements of a list, each as it is written: one that is damaged hides no other.
fn elements(file: &str) -> impl Iterator<Item = &str> {
    let file = file.trim_start_matches('\u{feff}').trim();
    let mut rest = file.strip_prefix('[').unwrap_or(file);
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c == ',' || c.is_whitespace());
        let (mut depth, mut in_text, mut is_escaped) = (0_u32, false, false);
        let end = rest.bytes().position(|byte| {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = in_text,
                b'"' => in_text = !in_text,
                b'{' | b'[' if !in_text => depth += 1,
                b'}' | b']' if !in_text && depth > 0 => depth -= 1,
                b',' | b']' if !in_text && depth == 0 => return true,
                _ => {}
            }
            false
        });
        let (element, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = if behind.starts_with(']') { "" } else { behind };
        (!element.is_empty()).then(|| element.trim_end())
    })
}

/// Puts a conversation into a memory: what was said in the place of something else is a branch.
fn put(account: &Account, view: &BranchView) -> Result<()> {
    let told: Vec<_> = account.shown().into_iter().filter(Message::is_system).collect();
    view.import(told)?; // before there are branches, so that it holds on all of them
    let mut ends: Vec<(Option<Incarnation>, u64)> = Vec::new();
    for said in &account.said {
        if said.messages.iter().all(Message::is_system) {
            ends.push(said.behind.and_then(|place| ends.get(place)).copied().unwrap_or((None, 0)));
            continue;
        }
        // What stands behind nothing is on the branch of what does so too.
        let on = ends.get(said.behind.unwrap_or(0)).and_then(|it| it.0);
        let on = on.or_else(|| ends.iter().find_map(|it| it.0));
        if let Some(on) = on {
            view.switch(on)?;
        }
        put_one(account, said, &ends, view)?;
        let page = view.page(None, 0)?;
        ends.push((page.branch, page.positions.end));
    }
    if let Some((Some(branch), _)) = account.shown.and_then(|place| ends.get(place)) {
        view.switch(*branch)?;
    }
    Ok(())
}

/// Puts something behind what stands before it. Where something else stands there it is a variant,
/// and one of a tool's result has the call once more, for a call and its results stay together.
fn put_one(
    account: &Account,
    said: &accounts::Said,
    ends: &[(Option<Incarnation>, u64)],
    view: &BranchView,
) -> Result<()> {
    let (mut first, mut all) = (said, vec![said]);
    let end =
        |of: &accounts::Said| of.behind.and_then(|place| ends.get(place)).map_or(0, |it| it.1);
    let is_variant = loop {
        let at = end(first);
        let there = view.page(Some(at + 1), 1)?.entries.into_iter().find(|it| it.position == at);
        match (there, first.behind.and_then(|place| account.said.get(place))) {
            (None, _) => break false,
            (Some(there), Some(call)) if there.message.is_tool() => {
                first = call;
                all.insert(0, call);
            }
            (Some(_), _) => break true,
        }
    };
    let messages = all.iter().flat_map(|said| said.messages.iter().map(|it| (it, said.at)));
    let messages = messages.filter(|(message, _)| !message.is_system());
    let (messages, times): (Vec<_>, Vec<_>) =
        messages.map(|(it, at)| (it.clone(), at.unwrap_or(UNIX_EPOCH))).unzip();
    let mut append = Append::new(messages).with_times(times);
    if is_variant {
        view.edit_with(end(first), append)?;
    } else {
        view.append_with(&mut append)?;
    }
    Ok(())
}
