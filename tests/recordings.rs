//! Recorded traffic as an oracle: `MEMORY_PROMPT_RECORDINGS=folder cargo test --test
//! recordings -- --ignored`.
//!
//! The folder holds one folder a format (`openai`, `responses`, `anthropic`, `gemini`, `ollama`)
//! with bodies of responses, `*.json`, and of streamed ones, `*.stream`, as they came over the
//! network (or one `data:` line an event). None is part of this repository. A file `name` beside
//! one may say where it is from; nothing reads it. Recordings of several responses in one file are
//! rightly refused.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, missing_docs, unreachable_pub)] // a test that fails should say so

#[path = "common/shown.rs"]
mod shown;

use std::collections::BTreeMap;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use memory_prompt::Message;
use memory_prompt::wire::{Event, Frames, Stop, anthropic, gemini, ollama, openai, responses};

fn recordings(format: &str, kind: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = std::env::var("MEMORY_PROMPT_RECORDINGS").unwrap();
    let Ok(entries) = fs::read_dir(Path::new(&folder).join(format)) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == kind));
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn framed(body: &[u8]) -> Vec<String> {
    let mut frames = Frames::sse();
    let mut texts: Vec<_> = frames.push(body).map(Result::unwrap).collect();
    texts.extend(frames.finish().unwrap());
    texts
}

fn storable(message: &Message) {
    let stored = serde_json::to_string(message).unwrap();
    assert_eq!(serde_json::from_str::<Message>(&stored).unwrap(), *message);
}

#[test]
#[ignore = "needs recordings: MEMORY_PROMPT_RECORDINGS names their folder"]
fn recordings_are_read_or_rightly_refused() {
    let mut seen = BTreeMap::<String, usize>::new();
    let mut wrong = Vec::new();
    macro_rules! read {
        ($($format:ident)*) => {$(
            let format = stringify!($format);
            for (path, body) in recordings(format, "json") {
                let outcome = match $format::answer(&String::from_utf8(body).unwrap()) {
                    Ok(answer) => {
                        let stop = answer.stop;
                        assert!(answer.usage.output.is_some() || answer.usage.input.is_none(), "{path:?}");
                        storable(&answer.into());
                        format!("{stop:?}")
                    }
                    Err(error) => {
                        wrong.push(format!("{path:?}: {error}"));
                        format!("{:?}", error.kind())
                    }
                };
                *seen.entry(format!("{format} body: {outcome}")).or_default() += 1;
            }
            for (path, body) in recordings(format, "stream") {
                let outcome = catch_unwind(|| {
                    let texts = framed(&body);
                    let mut told = Vec::new();
                    let mut stream = $format::Stream::new();
                    let mut ends = 0;
                    for (cut, text) in texts.iter().enumerate() {
                        let mut broken = $format::Stream::new();
                        let step = texts.len() / 40 + 1;
                        if cut % step == 0 {
                            texts[..cut].iter().for_each(|text| drop(broken.push(text)));
                            let has_ended = broken.has_ended();
                            let answer = broken.broken();
                            assert_eq!(answer.message.text(), shown::text(&told));
                            assert_eq!(answer.stop, Stop::Broken);
                            assert_eq!(has_ended, ends > 0);
                            storable(&answer.into());
                        }
                        match stream.push(text) {
                            Ok(events) => {
                                ends += events.iter().filter(|e| matches!(e, Event::Done(_))).count();
                                told.extend(events);
                            }
                            Err(error) => return format!("{:?} {error}", error.kind()),
                        }
                    }
                    match stream.finish() {
                        Ok(answer) => {
                            shown::assert_shown(&told, &answer, format);
                            let stop = answer.stop;
                            storable(&answer.into());
                            format!("{stop:?}")
                        }
                        Err(error) => format!("{:?} {error}", error.kind()),
                    }
                });
                let outcome = outcome.unwrap_or_else(|panic| {
                    let said = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                    wrong.push(format!("{path:?}: {said:.400}"));
                    "panicked".to_owned()
                });
                if outcome.contains(':') {
                    wrong.push(format!("{path:?}: {outcome}"));
                }
                *seen.entry(format!("{format} stream: {outcome}")).or_default() += 1;
            }
        )*};
    }
    read!(openai responses anthropic gemini ollama);
    for (what, count) in &seen {
        println!("{count:5} {what}");
    }
    println!("{}", wrong.join("\n"));
    let total: usize = seen.values().sum();
    assert!(total > 0, "no recordings");
    println!(
        "{total} recordings; those that are refused are listed above, to be judged by a reader"
    );
    assert!(!seen.keys().any(|what| what.contains("panicked")));
}
