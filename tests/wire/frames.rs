//! The framing of streamed bodies: what is understood, and that it does not matter where it is cut.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that fails should say so

use crate::counted::counted;
use memory_prompt::wire::Frames;
use memory_prompt::{ErrorKind, Result};
use proptest::prelude::*;

fn read(mut frames: Frames, pieces: &[&[u8]]) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for piece in pieces {
        for text in frames.push(piece) {
            texts.push(text?);
        }
    }
    texts.extend(frames.finish()?);
    Ok(texts)
}

fn sse(body: &str) -> Vec<String> {
    read(Frames::sse(), &[body.as_bytes()]).unwrap()
}

#[test]
fn events_are_what_the_standard_says() {
    assert_eq!(sse("data: a\n\ndata: b\n\n"), ["a", "b"]);
    assert_eq!(sse("data:a\r\n\r\ndata:  b\r\rdata: c\n\n"), ["a", " b", "c"]);
    assert_eq!(sse("\u{feff}data: a\n\n"), ["a"]);
    assert_eq!(sse(": PROCESSING\n\n:\n\nevent: x\nid: 1\nretry: 5\ndata: a\n\n"), ["a"]);
    assert_eq!(sse("data: a\ndata\ndata: b\n\n"), ["a\n\nb"]);
    assert_eq!(sse("data\n\n"), [""]);
    assert_eq!(sse("event: ping\n\ndatabase: x\n\n data: y\n\n"), [""; 0]);
}

/// A body that broke off has half a text at its end. A server that leaves out the last line end has
/// not.
#[test]
fn what_is_cut_off_is_no_text() {
    assert_eq!(sse("data: {\"a\":1}\n\ndata: [DONE]"), [r#"{"a":1}"#, "[DONE]"]);
    assert_eq!(sse("data: {\"a\":1}\n"), [r#"{"a":1}"#]);
    assert_eq!(sse("data: {\"a\":1}\n\ndata: {\"b\":"), [r#"{"a":1}"#]);
    assert_eq!(sse("data: [DO"), [""; 0]);
    let lines = |body: &str| read(Frames::lines(), &[body.as_bytes()]).unwrap();
    assert_eq!(lines("{\"a\":1}\r\n\r\n{\"b\":2}"), [r#"{"a":1}"#, r#"{"b":2}"#]);
    assert_eq!(lines("{\"a\":1}\n{\"b\":"), [r#"{"a":1}"#]);
}

/// A request for a stream was answered by `{"error": ..}` and status 200: no line of it is an
/// event, so that the stream seemed to have broken off.
#[test]
fn an_error_in_place_of_events_is_read() {
    assert_eq!(sse("{\"error\": 1}"), ["{\"error\": 1}"]);
    assert_eq!(sse("data: {}\n\n{\"error\": 1}\ndata: {}\n\n"), ["{}", "{\"error\": 1}", "{}"]);
    assert_eq!(sse("{\n \"error\": {\n  \"code\": 1\n }\n}\n").len(), 1);
    assert_eq!(sse("{\n \"error\": {\n"), [""; 0]);
}

#[test]
fn a_text_that_is_too_long_is_an_error_and_the_next_one_is_read() {
    let (x, y, z) = ("x".repeat(90), "y".repeat(9), "z".repeat(9));
    let body = format!("data: {x}\n\ndata: {y}\ndata: {z}\n\ndata: ok\n\n");
    for size in [1, 7, 1000] {
        let mut frames = Frames::sse().with_limit(16);
        let mut texts = Vec::new();
        for piece in body.as_bytes().chunks(size) {
            texts.extend(frames.push(piece));
        }
        let errors: Vec<_> = texts.iter().filter_map(|text| text.as_ref().err()).collect();
        assert_eq!(errors.len(), 2, "{texts:?}");
        assert!(errors.iter().all(|error| error.kind() == ErrorKind::Codec));
        assert_eq!(errors[0].to_string(), "read a streamed body: a text of more than 16 bytes");
        assert_eq!(texts.last().unwrap().as_ref().unwrap(), "ok");
    }
}

/// One byte of an answer was no UTF-8, behind a proxy that cut a character in two. The whole of it
/// was lost.
#[test]
fn a_byte_that_is_no_utf_8_costs_one_character() {
    let texts = read(Frames::sse(), &[b"data: caf\xc3\n\ndata: ok\n\n"]).unwrap();
    assert_eq!(texts, ["caf\u{fffd}", "ok"]);
}

/// What is not taken is not lost.
#[test]
fn texts_may_be_taken_later() {
    let mut frames = Frames::lines();
    assert_eq!(frames.push(b"1\n2\n3\n4").next().unwrap().unwrap(), "1");
    let rest: Vec<_> = frames.push(b"5\n").map(|text| text.unwrap()).collect();
    assert_eq!(rest, ["2", "3", "45"]);
}

counted! {
    #![cases(256)]

    #[test]
    fn it_does_not_matter_where_a_body_is_cut(
        lines in prop::collection::vec(
            prop::sample::select(vec![
                "", "data: {\"a\":\"ä\u{1F600}\"}", "data:x", "data", ": c", "event: e", "{\"e\":1}", "{", "}",
                "\u{feff}data: b", "data: \u{2028}", "id",
            ]),
            0..12,
        ),
        ends in prop::collection::vec(prop::sample::select(vec!["\n", "\r", "\r\n"]), 12),
        is_sse in any::<bool>(),
    ) {
        let body: String =
            lines.iter().zip(&ends).flat_map(|(line, end)| [*line, *end]).collect();
        let body = body.as_bytes();
        let frames = || if is_sse { Frames::sse() } else { Frames::lines() };
        let whole = read(frames(), &[body]).unwrap();
        for cut in 0..=body.len() {
            prop_assert_eq!(&read(frames(), &[&body[..cut], &body[cut..]]).unwrap(), &whole);
        }
        let bytes: Vec<_> = body.chunks(1).collect();
        prop_assert_eq!(&read(frames(), &bytes).unwrap(), &whole);
    }
}

/// A proxy wrote a line of its own into a stream, and all events behind it were taken for the rest
/// of that line.
#[test]
fn a_line_that_looks_like_json_is_passed_over() {
    let body = "data: {\"a\":1}\n\n[debug] upstream slow\ndata: {\"a\":2}\n\n";
    assert_eq!(sse(body), ["{\"a\":1}", "{\"a\":2}"]);
}
