//! No request has more pictures, documents or bytes of them than the row of its provider says,
//! counted in the body from outside.

use std::cell::Cell;

use crate::conversations::{conversation, temporaries};
use crate::counted::{Count, cases, regressions};
use crate::setups::*;
use memory_prompt::message::{Media, Part};
use memory_prompt::provider::{MediaLimits, Row};
use memory_prompt::{Message, Provider, ToolCall, Window};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::Value;

/// How the header of a wide picture begins.
const WIDE: &str = "R0lGODlhuAsB";

/// What a body holds of media.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Held {
    pictures: u32,
    /// Of those, at addresses.
    fetched: u32,
    documents: u32,
    bytes: usize,
    /// True if a picture is here whose header says that it is wide.
    wide: bool,
}

/// Counts the blocks of a body that are pictures and documents, in whatever format.
fn count(body: &Value, held: &mut Held) {
    let bytes = |value: &Value| {
        let text = value.as_str().unwrap_or_default();
        text.split_once(";base64,").map_or(0, |(_, data)| data.len())
    };
    match body {
        Value::Array(list) => list.iter().for_each(|value| count(value, held)),
        Value::Object(map) => {
            held.wide |= map.values().any(|it| it.as_str().is_some_and(|it| it.contains(WIDE)));
            if let Some(pictures) = map.get("images").and_then(Value::as_array) {
                held.pictures += u32::try_from(pictures.len()).unwrap();
                held.wide |= pictures.iter().any(|it| it.to_string().contains(WIDE));
                held.bytes +=
                    pictures.iter().filter_map(Value::as_str).map(str::len).sum::<usize>();
            }
            match map.get("type").and_then(Value::as_str) {
                Some("image_url" | "input_image") => {
                    held.pictures += 1;
                    held.bytes += bytes(&map["image_url"]) + bytes(&map["image_url"]["url"]);
                    held.wide |= map["image_url"].to_string().contains(WIDE);
                    return;
                }
                Some("image") => held.pictures += 1,
                Some("file" | "input_file" | "document_url") => {
                    held.documents += 1;
                    held.bytes += bytes(&map.get("file_data").cloned().unwrap_or_default());
                    held.bytes += map.get("document_url").map_or(0, bytes);
                    held.bytes += map.get("file").map_or(0, |file| bytes(&file["file_data"]));
                    return;
                }
                Some("document") => held.documents += 1,
                _ => {}
            }
            for data in ["inlineData", "fileData"].iter().filter_map(|key| map.get(*key)) {
                let media_type = data["mimeType"].as_str().unwrap_or_default();
                let is_fetched = data["fileUri"].as_str().is_some_and(|at| at.starts_with("http"));
                held.fetched += u32::from(is_fetched && media_type.starts_with("image/"));
                held.pictures += u32::from(media_type.starts_with("image/"));
                held.documents += u32::from(media_type == "application/pdf");
                held.bytes += data["data"].as_str().map_or(0, str::len);
            }
            if map.get("type").and_then(Value::as_str) == Some("base64") {
                held.bytes += map["data"].as_str().map_or(0, str::len);
            }
            map.values().for_each(|value| count(value, held));
        }
        _ => {}
    }
}

fn within(limits: &MediaLimits, held: Held) -> Result<(), String> {
    let bounds = [
        ("pictures", limits.pictures, held.pictures),
        ("fetched", limits.fetched_pictures, held.fetched),
        ("documents", limits.documents, held.documents),
        ("together", limits.together, held.pictures + held.documents),
        ("bytes", limits.bytes, u32::try_from(held.bytes).unwrap()),
        ("with a wide one", limits.many.filter(|_| held.wide).map(|(n, _)| n), held.pictures),
    ];
    match bounds.iter().find(|(_, most, n)| most.is_some_and(|most| *n > most)) {
        None => Ok(()),
        Some((what, most, n)) => Err(format!("{n} {what} of at most {}", most.unwrap_or(0))),
    }
}

/// A picture 3,000 pixels wide, of so many more bytes, or one at an address.
fn media() -> impl Strategy<Value = Part> {
    prop_oneof![
        3 => (0usize..20).prop_map(|n| {
            let gif = format!("R0lGODlhuAsBAIAA{}", "AAAA".repeat(n));
            Part::Image(Media::base64("image/gif", gif))
        }),
        1 => Just(Part::Image(Media::url("https://e.x/a.png"))),
        1 => Just(Part::File(Media::base64("image/gif", "R0lGODlhCAAIAIAA"))),
        1 => (1usize..20).prop_map(|n| {
            Part::File(Media::base64("application/pdf", "JVBE".repeat(n)).with_name("a.pdf"))
        }),
        1 => Just(Part::text("look")),
    ]
}

/// Conversations of which every other message has media.
fn shown() -> impl Strategy<Value = Vec<Message>> {
    let seen = prop_oneof![
        4 => vec(media(), 1..5).prop_map(|parts| vec![Message::user(parts)]),
        2 => vec(media(), 1..4).prop_map(|parts| vec![
            Message::ai_calls([ToolCall::new("c0", "look", "{}")]),
            Message::tool("c0", "look", parts),
        ]),
        3 => Just(vec![Message::ai("I see.")]),
        2 => conversation(3),
    ];
    vec(seen, 0..14).prop_map(|steps| steps.concat())
}

/// Rows of all providers: as they are, and with limits that a short conversation passes.
fn narrow() -> impl Strategy<Value = Provider> {
    let most = |most| proptest::option::of(0..most);
    let bytes = proptest::option::of(100..400_u32);
    let limits = (most(8_u32), most(4), most(8), bytes, most(4), most(4));
    (select(all()), limits).prop_map(|(provider, limits)| {
        let (pictures, documents, together, bytes, many, fetched) = limits;
        if [pictures, documents, together, bytes, many, fetched].iter().all(Option::is_none) {
            return provider;
        }
        let mut row = Row::like(provider, "narrow").unwrap();
        (row.media.pictures, row.media.documents, row.media.together) =
            (pictures, documents, together);
        (row.media.bytes, row.media.many) = (bytes, many.map(|above| (above, 2_000)));
        row.media.fetched_pictures = fetched;
        Provider::custom(row)
    })
}

#[test]
fn no_request_is_beyond_the_limits_of_its_row() {
    let counted = Count::of("prompts with many pictures", cases(10_000));
    let gave_way = Cell::new(0_u32);
    while counted.goes_on() {
        let config = counted.round(counted.left(), regressions());
        proptest!(config, |(
            setup in setups(), history in shown(), provider in narrow(), shows in any::<bool>(),
            temporaries in prop_oneof![4 => Just(Vec::new()), 1 => temporaries(), 1 => vec(
                vec(media(), 1..3).prop_map(Message::user), 1..3)],
        )| {
            if !counted.is_new() {
                return Ok(());
            }
            let window = if shows { Some(Window::all()) } else { setup.window };
            let setup = Setup { window, ..setup };
            let composer = setup.composer().for_provider(provider);
            let Ok(prompt) = compose(&composer, &history, &temporaries) else { return Ok(()) };
            let mut held = Held::default();
            count(&request(provider, &prompt), &mut held);
            let within = within(&provider.row().media, held);
            prop_assert!(within.is_ok(), "{within:?}\n{}", prompt.report());
            gave_way.set(gave_way.get() + u32::from(prompt.report().media_from.is_some()));
            counted.one();
        });
    }
    counted.close();
    assert!(gave_way.get() > cases(10_000) / 10, "{} gave way", gave_way.get());
}

#[test]
fn what_counts_a_body_can_count() {
    let picture = || Part::Image(Media::base64("image/gif", "R0lGODlhuAsBAIAA"));
    let file = Part::File(Media::base64("application/pdf", "JVBERi0=").with_name("a.pdf"));
    let history = [Message::user([picture(), file, picture()])];
    let mut seen = 0;
    for provider in all() {
        let composer = memory_prompt::Composer::new().for_provider(provider);
        let body = request(provider, &compose(&composer, &history, &[]).unwrap());
        let mut held = Held::default();
        count(&body, &mut held);
        let (has_pictures, has_files) = (held.pictures > 0, held.documents > 0);
        assert_eq!(held.pictures, if has_pictures { 2 } else { 0 }, "{provider}: {body}");
        assert_eq!(held.documents, u32::from(has_files), "{provider}: {body}");
        assert_eq!(held.wide, has_pictures, "{provider}: {body}");
        let bytes = 32 * usize::from(has_pictures) + 8 * usize::from(has_files);
        assert_eq!(held.bytes, bytes, "{provider}: {body}");
        seen += usize::from(has_pictures) + usize::from(has_files);
    }
    assert!(seen > 30, "{seen}");
}

/// Recordings, films, kinds of pictures and files that a provider is not sent, and all media in a
/// result of `OpenAI`'s format, were held against its limits.
#[test]
fn what_counts_is_what_is_sent() {
    type Kind = fn(Media) -> Part;
    const KINDS: [(Kind, &str); 9] = [
        (Part::Image, "image/png"),
        (Part::Image, "image/svg+xml"),
        (Part::Audio, "audio/mpeg"),
        (Part::Audio, "audio/flac"),
        (Part::Video, "video/mp4"),
        (Part::File, "application/pdf"),
        (Part::File, "application/msword"),
        (Part::File, "text/csv"),
        (Part::File, "application/octet-stream"),
    ];
    let mut seen = [0, 0];
    let kinds = all().into_iter().flat_map(|it| KINDS.map(|kind| (it, kind)));
    let cases = kinds.flat_map(|(it, kind)| [(it, kind, false), (it, kind, true)]);
    for (provider, (kind, media_type), in_result) in cases {
        let part = kind(Media::base64(media_type, "QUJDREVG").with_name("a"));
        let mut history = vec![Message::user([Part::text("See:"), part.clone()])];
        if in_result {
            let call = Message::ai_calls([ToolCall::new("c", "look", "{}")]);
            history = vec![Message::user("Look."), call, Message::tool("c", "look", [part])];
        }
        let composed = |row| {
            let composer = memory_prompt::Composer::new().for_provider(Provider::custom(row));
            compose(&composer, &history, &[])
        };
        let mut row = Row::like(provider, "own").unwrap();
        row.media = MediaLimits::NONE;
        let body = request(Provider::custom(row), &composed(row).unwrap()).to_string();
        let is_sent = body.contains("QUJDREVG") || body.contains("\"data\":\"ABCDEF\"");
        row.media.bytes = Some(1);
        let counts = composed(row).map_or(true, |prompt| !prompt.report().cleared.is_empty());
        assert_eq!(counts, is_sent, "{provider}, {media_type}, {in_result}: {body}");
        seen[usize::from(is_sent)] += 1;
    }
    assert!(seen[0] > 100 && seen[1] > 100, "{seen:?}");
}
