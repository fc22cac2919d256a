//! What a stream showed, held against what is stored of it.

#![allow(dead_code, unreachable_pub)] // each test file uses its own part of it

use std::collections::BTreeMap;

use memory_prompt::wire::{Answer, Event, Stop, Stream};
use memory_prompt::{Provider, Result};
use serde_json::Value;

/// Reads a stream to its end: what it showed, and what is stored of it.
pub fn read(provider: Provider, pieces: &[Value]) -> (Vec<Event>, Result<Answer>) {
    let mut stream = Stream::of(provider);
    let mut told = Vec::new();
    for piece in pieces {
        told.extend(stream.push(&piece.to_string()).unwrap());
    }
    (told, stream.finish())
}

/// What a user was shown, refusals included.
pub fn text(events: &[Event]) -> String {
    let piece = |event: &Event| match event {
        Event::Text(piece) | Event::Refusal(piece) => Some(piece.clone()),
        _ => None,
    };
    events.iter().filter_map(piece).collect()
}

pub fn reasoning(events: &[Event]) -> String {
    let piece = |event: &Event| match event {
        Event::Reasoning(piece) => Some(piece.clone()),
        _ => None,
    };
    events.iter().filter_map(piece).collect()
}

/// The calls that were shown: id, name and arguments.
pub fn calls(events: &[Event]) -> Vec<(String, String, String)> {
    let mut calls = Vec::new();
    for event in events {
        match event {
            Event::Call { index, id, name } => {
                assert_eq!(*index, calls.len(), "{events:?}");
                calls.push((id.clone(), name.clone(), String::new()));
            }
            Event::Arguments { index, piece } => calls[*index].2.push_str(piece),
            _ => {}
        }
    }
    calls
}

/// What is left of what a document says, whatever blanks stand in it; nothing is the empty object.
fn plain(arguments: &str) -> Value {
    let text = if arguments.trim().is_empty() { "{}" } else { arguments };
    serde_json::from_str(text).unwrap_or_else(|_| text.into())
}

/// What was shown is what is stored, of a stream whose events are spoilt: texts and calls may be
/// shown in another order than they stand, and a call under another id or name.
pub fn assert_all_shown(events: &[Event], answer: &Answer, name: &str) {
    let sorted = |text: &str| {
        let mut all: Vec<char> = text.chars().collect();
        all.sort_unstable();
        String::from_iter(all)
    };
    assert_eq!(sorted(&text(events)), sorted(&answer.message.text()), "{name}");
    let mut shown = BTreeMap::<usize, String>::new();
    for event in events {
        match event {
            Event::Call { index, .. } => {
                assert!(shown.insert(*index, String::new()).is_none(), "{name}: shown twice");
            }
            Event::Arguments { index, piece } => shown.get_mut(index).unwrap().push_str(piece),
            _ => {}
        }
    }
    let all = |arguments: &mut dyn Iterator<Item = &String>| {
        let mut all: Vec<_> = arguments.map(|it| plain(it).to_string()).collect();
        all.sort_unstable();
        all
    };
    let stored = all(&mut answer.message.tool_calls().map(|call| &call.arguments));
    assert_eq!(all(&mut shown.values()), stored, "{name}");
}

/// What was shown is what is stored.
pub fn assert_shown(events: &[Event], answer: &Answer, name: &str) {
    assert_eq!(text(events), answer.message.text(), "{name}");
    let shown = calls(events);
    let stored: Vec<_> = answer.message.tool_calls().collect();
    assert_eq!(shown.len(), stored.len(), "{name}");
    for ((id, tool, arguments), call) in shown.iter().zip(stored) {
        assert_eq!((id, tool), (&call.id, &call.name), "{name}");
        assert_eq!(plain(arguments), plain(&call.arguments), "{name}");
    }
    let done = events.iter().filter_map(|event| match event {
        Event::Done(stop) => Some(*stop),
        _ => None,
    });
    let mut told: Vec<Stop> = done.collect();
    assert_eq!(told.last(), Some(&answer.stop), "{name}");
    let times = told.len();
    told.dedup();
    assert_eq!(told.len(), times, "{name}: a reason was told twice");
}
