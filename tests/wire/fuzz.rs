//! What no wire decoder may do with any input: the seeds of the fuzz targets, JSON that no provider
//! would send, published examples with something wrong, and what decoders may allocate for them.

#![allow(
    clippy::incompatible_msrv,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    unreachable_pub
)] // a test that fails should say so

use std::error::Error as StdError;
use std::fs;
use std::panic::{catch_unwind, resume_unwind};
use std::path::Path;

use crate::counted::counted;
use crate::golden::{documents, streams};
use crate::shown::assert_all_shown;
use crate::wire_decoding::{FORMATS, TARGETS, Target};
use crate::wire_json::{mutated, mutated_stream, odd_json, shuffled_stream};
use memory_prompt::wire::{Stream, anthropic, gemini, langchain4j, ollama, openai, responses};
use memory_prompt::{Error, Message, Provider};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::Union;
use serde_json::Value;

/// Reads, writes what was read and reads that again, all of which is held at once: together they
/// cost no more than a multiple of the input. `{}` is two bytes here and a message in Gemini.
fn cheaply((name, check): &Target, bytes: &[u8]) {
    let mut outcome = Ok(());
    // The counter can't be left by a panic: it would not stop counting.
    let cost = allocation_counter::measure(|| outcome = catch_unwind(|| check(bytes)));
    outcome.unwrap_or_else(|panic| resume_unwind(panic));
    let bound = 1024 * bytes.len() as u64 + (1 << 16);
    let shown = bytes.get(..200).unwrap_or(bytes).escape_ascii();
    assert!(cost.bytes_max <= bound, "{name}: {} for {}: {shown}", cost.bytes_max, bytes.len());
}

/// The seeds of a target; none in the published package, which has no fuzz folder.
fn seeds(target: &Target) -> Vec<Vec<u8>> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    if !seeds.exists() {
        return Vec::new();
    }
    let folder = fs::read_dir(seeds.join(target.0)).unwrap();
    let seeds: Vec<_> = folder.map(|seed| fs::read(seed.unwrap().path()).unwrap()).collect();
    assert!(seeds.len() > 5, "{}", target.0);
    seeds
}

#[test]
fn seeds_of_the_fuzzers_do_no_harm() {
    for seed in TARGETS.iter().flat_map(seeds) {
        // What one format sends is read by the others too: as an error, or as what it says.
        for target in &TARGETS {
            cheaply(target, &seed);
        }
    }
}

#[test]
fn seeds_cut_short_do_no_harm() {
    for target in &TARGETS {
        for seed in seeds(target) {
            let step = seed.len() / 50 + 1;
            for end in (0..seed.len()).step_by(step) {
                cheaply(target, &seed[..end]);
            }
        }
    }
}

/// The emptiest things that can be said are the dearest.
#[test]
fn what_costs_most_stays_within_the_bound() {
    for item in [
        "{}",
        "[]",
        "0",
        r#"{"role":"x"}"#,
        r#"{"role":"user","content":""}"#,
        r#"{"role":"user","parts":[{}]}"#,
        r#"{"role":"assistant","content":[{"type":""}]}"#,
        r#"{"role":"assistant","tool_calls":[{"id":"","function":{"name":""}}]}"#,
        r#"{"type":"reasoning","id":"","summary":[]}"#,
        r#"{"type":"x"}"#,
        r#"{"type":"CUSTOM"}"#,
    ] {
        let list = format!("[{}]", vec![item; 1_000].join(","));
        for target in &TARGETS {
            cheaply(target, list.as_bytes());
            cheaply(target, format!("a{{\"content\":{list}}}").as_bytes());
            cheaply(target, format!("s{}", vec![item; 1_000].join("\n")).as_bytes());
        }
    }
    for open in ["[", r#"{"content":"#, r#"{"content":["#, r#"{"parts":[{"x":"#] {
        let deep = open.repeat(100_000);
        for target in &TARGETS {
            cheaply(target, deep.as_bytes());
        }
    }
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in [
        ("[", ""),
        (r#"{"content":"#, ""),
        (r#"{"contents":"#, ""),
        (r#"{"candidates":"#, ""),
        (r#"{"a":"#, "}"),
        (r#"[{"a":"#, "}]"),
    ] {
        let deep = format!("{}{}", open.repeat(100_000), close.repeat(100_000));
        macro_rules! refused {
            ($($format:ident)*) => {$(
                assert!($format::answer(&deep).is_err());
                assert!($format::history(&deep).is_err());
                assert!($format::Stream::new().push(&deep).is_err());
            )*};
        }
        refused!(openai responses anthropic gemini ollama);
        assert!(langchain4j::history(&deep).is_err());
    }
}

/// Documents as the decoders of one format see them: each as an answer and as a history, and all of
/// them as one stream that comes to its end.
fn decoded(target: &Target, documents: &[String]) {
    for document in documents {
        cheaply(target, format!("a{document}").as_bytes());
        cheaply(target, format!("h{document}").as_bytes());
    }
    let ends = "[DONE]\n{\"done\": true}\n{\"type\": \"message_stop\"}";
    cheaply(target, format!("s{}\n{ends}", documents.join("\n")).as_bytes());
}

const SECRET: &str = "hunter2";

/// `Debug` of a view printed all of its messages, so that a log line about a request held the whole
/// conversation.
#[test]
fn views_show_numbers() {
    let messages = [Message::system(SECRET), Message::user(SECRET), Message::ai(SECRET)];
    for shown in [
        format!("{:?}", openai::Messages::of(&messages)),
        format!("{:?}", responses::Input::of(&messages)),
        format!("{:?}", anthropic::Messages::of(&messages)),
        format!("{:?}", anthropic::System::of(&messages).unwrap()),
        format!("{:?}", gemini::Contents::of(&messages)),
        format!("{:?}", gemini::SystemInstruction::of(&messages).unwrap()),
        format!("{:?}", ollama::Messages::of(&messages)),
        format!("{:?}", langchain4j::Messages::of(&messages)),
    ] {
        assert!(shown.contains("3 messages") && !shown.contains(SECRET), "{shown}");
    }
}

/// The same with the secret in texts and names, in one of so many.
fn spill(value: &mut Value, n: &mut usize, one_in: usize) {
    let mut hit = || {
        *n += 1;
        n.is_multiple_of(one_in)
    };
    match value {
        Value::String(text) if hit() => {
            text.insert_str(text.floor_char_boundary(text.len() / 2), SECRET);
        }
        Value::Number(number) if hit() => *number = 4_929_111_222_u64.into(),
        Value::Array(list) => list.iter_mut().for_each(|value| spill(value, n, one_in)),
        Value::Object(map) => {
            for (mut key, mut value) in std::mem::take(map) {
                *n += 1;
                if n.is_multiple_of(one_in * 3) {
                    key.push_str(SECRET);
                }
                spill(&mut value, n, one_in);
                // A word there is a provider's code, and a text is none.
                if let ("type" | "code" | "status" | "status_code", Value::String(text)) =
                    (key.as_str(), &mut value)
                    && text.contains(SECRET)
                {
                    text.push(' ');
                }
                map.insert(key, value);
            }
        }
        _ => {}
    }
}

/// All that any decoder says of a text, each error with its causes.
fn complaints(text: &str) -> Vec<String> {
    fn chain(error: Error) -> Vec<String> {
        let error: Box<dyn StdError> = Box::new(error);
        let causes = std::iter::successors(Some(&*error), |error| (*error).source());
        causes.flat_map(|error| [error.to_string(), format!("{error:?}")]).collect()
    }
    let mut errors = Vec::new();
    macro_rules! ask {
        ($($format:ident)*) => {$(
            errors.extend($format::answer(text).err());
            errors.extend($format::history(text).err());
            let mut stream = $format::Stream::new();
            for line in text.lines() {
                errors.extend(stream.push(line).err());
            }
            assert!(!format!("{stream:?}").contains(SECRET), "{stream:?}");
            errors.extend(stream.finish().err());
        )*};
    }
    ask!(openai responses anthropic gemini ollama);
    errors.extend(langchain4j::history(text).err());
    errors.into_iter().flat_map(chain).collect()
}

fn assert_silent(text: &str) {
    for told in complaints(text) {
        assert!(!told.contains(SECRET), "{told}");
        assert!(!told.contains("4929111222"), "{told}");
        assert!(told.len() <= 1024, "{} bytes: {told:.200}", told.len());
    }
}

/// What a provider says of an error quotes what it was sent, and a document's own names went into
/// the path of an error: all of it, however long it was.
#[test]
fn no_error_repeats_a_document() {
    let long = SECRET.repeat(50_000);
    for text in [
        format!(r#"{{"error":{{"type":"{long}","message":"{long}"}}}}"#),
        format!(r#"{{"error":"{long}"}}"#),
        format!(r#"{{"type":"error","message":"{long}","code":"{long}"}}"#),
        format!(r#"{{"role":"{long}"}}"#),
        format!(r#"[{{"role":"{long}","content":1}}]"#),
        format!(r#"[{{"type":"{long}"}}]"#),
        format!(r#"{{"messages":[{{"role":"system","content":[{{"type":"{long}"}}]}}]}}"#),
        format!(r#"{{"messages":[{{"role":"system","content":"","{long}":1}}]}}"#),
        format!(r#"{{"contents":[],"systemInstruction":{{"parts":[{{"text":"","{long}":1}}]}}}}"#),
        format!(r#"{{"promptFeedback":{{"blockReason":"{long}"}}}}"#),
        format!(r#"{{"candidates":[{{"finishReason":"{long}"}}]}}"#),
        format!(r#"{{"candidates":[{{"content":{{"role":"{long}"}}}}]}}"#),
        format!(
            "{{\"choices\":[{{\"delta\":{{\"{long}\":{{\"{long}\":\"\"}}}}}}]}}\n\
             {{\"choices\":[{{\"delta\":{{\"{long}\":{{\"{long}\":1}}}}}}]}}"
        ),
        format!("{{\"{long}"),
        long,
    ] {
        assert!(!complaints(&text).is_empty());
        assert_silent(&text);
    }
    let told = complaints(r#"{"error":{"type":"overloaded_error","code":529,"message":"no"}}"#);
    let ends = "an error (`overloaded_error`, 529)";
    assert!(told.iter().any(|told| told.ends_with(ends)), "{told:?}");
}

/// What is nested so deep that no codec could write it was read, and could not be stored.
#[test]
fn what_is_too_deep_to_be_stored_is_not_read() {
    for (levels, is_read) in [(80, true), (120, false)] {
        let deep = format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        let text = format!(r#"{{"role":"assistant","content":"hi","odd":{deep}}}"#);
        for target in &TARGETS {
            decoded(target, &[text.clone(), format!("[{text}]")]);
        }
        assert_eq!(openai::answer(&text).is_ok(), is_read);
        assert_eq!(ollama::history(format!("[{text}]")).is_ok(), is_read);
    }
}

counted! {
    #![cases(512)]

    #[test]
    fn odd_json_does_no_harm(all in vec(odd_json(), 1..6)) {
        let all: Vec<_> = all.iter().map(ToString::to_string).collect();
        for target in &TARGETS {
            decoded(target, &all);
        }
    }

    #[test]
    fn no_error_says_what_a_document_said(
        spoilt in Union::new(FORMATS.iter().map(|target| {
            mutated(documents(target.0.trim_start_matches("wire_")))
        })),
        one_in in 1usize..6,
    ) {
        if let Ok(mut value) = serde_json::from_str(&spoilt) {
            spill(&mut value, &mut 0, one_in);
            assert_silent(&value.to_string());
        }
    }

    #[test]
    fn spoilt_goldens_do_no_harm(
        (target, all) in Union::new(FORMATS.iter().map(|target| {
            let format = target.0.trim_start_matches("wire_");
            (Just(target), vec(mutated(documents(format)), 1..6))
        })),
    ) {
        decoded(target, &all);
    }
}

counted! {
    #![cases(2_048)]

    #[test]
    fn spoilt_streams_do_no_harm((target, events) in streams_of_all(mutated_stream)) {
        cheaply(target, format!("s{}", events.join("\n")).as_bytes());
    }

    #[test]
    fn of_a_shuffled_stream_what_is_shown_is_stored(
        (target, events) in streams_of_all(shuffled_stream),
    ) {
        shown_is_stored(target.0, &events);
    }
}

/// Streams of each format, changed in this way.
fn streams_of_all(
    change: fn(Vec<Vec<String>>) -> BoxedStrategy<Vec<String>>,
) -> impl Strategy<Value = (&'static Target, Vec<String>)> {
    Union::new(FORMATS.iter().filter_map(move |target| {
        let streams = streams(target.0.trim_start_matches("wire_"));
        (!streams.is_empty()).then(|| (Just(target), change(streams)))
    }))
}

/// What is shown of a stream that comes to its end is what is stored of it.
fn shown_is_stored(target: &str, events: &[String]) {
    let provider = match target {
        "wire_openai" => Provider::OpenAi,
        "wire_responses" => Provider::OpenAiResponses,
        "wire_anthropic" => Provider::Anthropic,
        "wire_gemini" => Provider::Gemini,
        _ => Provider::Ollama,
    };
    let (mut stream, mut told) = (Stream::of(provider), Vec::new());
    for event in events {
        let Ok(more) = stream.push(event) else { return };
        told.extend(more);
    }
    if let Ok(answer) = stream.finish() {
        assert_all_shown(&told, &answer, target);
    }
}

/// A message of the role `ai`, which OpenAI does not know and this crate does, was read and could
/// not be written as JSON.
#[test]
fn roles_that_only_this_crate_knows_are_kept_as_they_are() {
    for role in ["ai", "custom", "system", "user", "assistant", "tool", "function", "model", ""] {
        for beside in [
            r#""content":"x""#,
            r#""text":"x","attributes":5"#,
            r#""attributes":{},"role2":1"#,
            r#""attributes":{"a":1},"content":null"#,
            r#""attributes":{"a":1},"tool_call_id":"","name":"n","content":[],"parts":[],"type":"x""#,
        ] {
            let text = format!(r#"{{"role":"{role}",{beside}}}"#);
            for target in &TARGETS {
                decoded(target, &[text.clone(), format!("[{text}]")]);
            }
        }
    }
}
