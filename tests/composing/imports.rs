//! Histories of others that begin with several system messages.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use crate::counted::counted;
use crate::setups::remembering;
use memory_prompt::{ChatMemoryExt, Message, Result, wire};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A format: its name, how a history of it is read, how it writes a system message, and a user
/// message.
type Format = (&'static str, fn(&str) -> Result<Vec<Message>>, fn(&str) -> Value, Value);

/// Each format that can hold several system messages in a list.
fn formats() -> Vec<Format> {
    let plain = |text: &str| json!({"role": "system", "content": text});
    let user = json!({"role": "user", "content": "hi"});
    let java = |text: &str| json!({"type": "SYSTEM", "text": text});
    let java_user = json!({"type": "USER", "contents": [{"type": "TEXT", "text": "hi"}]});
    vec![
        ("openai", |json| wire::openai::history(json), plain, user.clone()),
        ("ollama", |json| wire::ollama::history(json), plain, user.clone()),
        ("responses", |json| wire::responses::history(json), plain, user),
        ("langchain4j", |json| wire::langchain4j::history(json), java, java_user),
    ]
}

/// An import of a history with two system messages kept the last and lost the first without a word:
/// a memory has one slot for it, and each message of a batch replaces what is there.
#[test]
fn system_messages_that_open_a_history_are_one() {
    for (name, history, system, user) in formats() {
        let list = json!([system("You are terse."), system("You speak French."), user]);
        let read = history(&list.to_string()).unwrap();
        let memory = remembering(read);
        let text = memory.system().unwrap().unwrap().text().into_owned();
        assert_eq!(text, "You are terse.\n\nYou speak French.", "{name}");
        assert_eq!(memory.all().unwrap().len(), 1, "{name}");
    }
}

counted! {
    #![cases(256)]

    #[test]
    fn no_opening_system_message_is_lost(
        texts in proptest::collection::vec("[a-z]{1,8}", 0..5), late in proptest::option::of("[A-Z]{1,8}"),
    ) {
        for (name, history, system, user) in formats() {
            let opening = texts.iter().map(|text| system(text));
            let late = late.iter().map(|text| system(text));
            let list: Vec<Value> = opening.chain([user.clone()]).chain(late.clone()).collect();
            let read = history(&Value::from(list).to_string()).unwrap();
            let systems: Vec<_> = read.iter().filter(|m| m.is_system()).map(|m| m.text().into_owned()).collect();
            let joined = texts.join("\n\n");
            let expected: Vec<_> = [joined].into_iter().filter(|text| !text.is_empty()).collect();
            // A later one stands where it stood.
            prop_assert_eq!(&systems[..expected.len()], &expected[..], "{}", name);
            prop_assert_eq!(systems.len(), expected.len() + late.len(), "{}", name);
            prop_assert!(late.len() == 0 || read.last().is_some_and(Message::is_system), "{}", name);
        }
    }
}

/// A body that came as bytes, or was parsed already, had to be made a text again to be read.
#[test]
fn a_text_its_bytes_and_its_value_are_read_alike() {
    let value = json!({"messages": [{"role": "user", "content": "21 °C"}]});
    let text = value.to_string();
    let expected = wire::openai::history(&text).unwrap();
    assert_eq!(expected, [Message::user("21 °C")]);
    assert_eq!(wire::openai::history(text.as_bytes()).unwrap(), expected);
    assert_eq!(wire::openai::history(text.clone().into_bytes()).unwrap(), expected);
    assert_eq!(wire::openai::history(text.clone()).unwrap(), expected);
    assert_eq!(wire::openai::history(&value).unwrap(), expected);
    assert_eq!(wire::openai::history(value.clone()).unwrap(), expected);
    assert_eq!(wire::history(memory_prompt::Provider::Groq, value).unwrap(), expected);

    // The errors are the same too, and no form is read deeper than a text.
    let wrong = |error: memory_prompt::Error| error.to_string();
    let missing = json!([{"role": "user"}]);
    let of_text = wrong(wire::openai::history(missing.to_string()).unwrap_err());
    assert_eq!(of_text, "read openai history: messages[0].content: missing");
    assert_eq!(wrong(wire::openai::history(missing.to_string().as_bytes()).unwrap_err()), of_text);
    assert_eq!(wrong(wire::openai::history(&missing).unwrap_err()), of_text);
    let cut = wrong(wire::openai::history("[").unwrap_err());
    assert_eq!(wrong(wire::openai::history(b"[").unwrap_err()), cut);
    assert!(wire::openai::history(b"[\xff]").is_err());
    let deep = (0..1_000).fold(json!(1), |inner, _| json!([inner]));
    let of_value = wrong(wire::openai::history(&deep).unwrap_err());
    assert_eq!(of_value, "read openai history: nested too deep to be kept");
}
