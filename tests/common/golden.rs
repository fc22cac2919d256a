//! The goldens of a provider, read from tests/wire/golden.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

use std::fs;
use std::path::Path;

use memory_prompt::Message;
use serde_json::Value;

/// Every golden of a provider: its name and its content.
pub fn goldens(provider: &str) -> Vec<(String, Value)> {
    // From a package further down too.
    let up = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let golden = up.map(|dir| dir.join("tests/wire/golden")).find(|dir| dir.is_dir()).unwrap();
    let dir = golden.join(provider);
    let mut all: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let golden: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            for header in ["source", "date"] {
                assert!(golden[header].is_string(), "{name} does not say its {header}");
            }
            (name, golden)
        })
        .collect();
    assert!(!all.is_empty());
    all.sort_by(|a, b| a.0.cmp(&b.0));
    all
}

/// The golden of this name.
pub fn golden(provider: &str, name: &str) -> Value {
    goldens(provider).into_iter().find(|(file, _)| file == name).unwrap().1
}

/// Whether a golden asks for an option of the view.
pub fn asks(golden: &Value, option: &str) -> bool {
    golden["options"].as_array().is_some_and(|all| all.iter().any(|one| one == option))
}

/// The events of a golden's stream, as text.
pub fn events(golden: &Value) -> Vec<String> {
    let events = golden["events"].as_array().unwrap();
    events.iter().map(|e| e.as_str().map_or_else(|| e.to_string(), str::to_owned)).collect()
}

/// The events of every stream in the goldens, for mutation.
pub fn streams(provider: &str) -> Vec<Vec<String>> {
    let goldens = goldens(provider).into_iter().map(|(_, golden)| golden);
    goldens.filter(|golden| golden["events"].is_array()).map(|golden| events(&golden)).collect()
}

/// Every document in the goldens, for mutation.
pub fn documents(provider: &str) -> Vec<String> {
    let mut all = Vec::new();
    for (_, golden) in goldens(provider) {
        for key in ["request", "response"] {
            if !golden[key].is_null() {
                all.push(golden[key].to_string());
            }
        }
        if golden["events"].is_array() {
            all.extend(events(&golden));
        }
        let stored = golden["messages"].as_array().into_iter().flatten();
        all.extend(stored.map(|message| format!("[{}]", message.as_str().unwrap())));
    }
    all
}

/// What was read from a provider survives being stored.
pub fn assert_storable(messages: &[Message], name: &str) {
    for message in messages {
        let stored = serde_json::to_string(message).unwrap();
        assert_eq!(serde_json::from_str::<Message>(&stored).unwrap(), *message, "{name}");
    }
}
