//! The type and the dimensions of pictures, as their headers tell them; hostile headers do no harm.

use std::fs;
use std::path::Path;

use crate::counted::counted;
use crate::picture_header::{any, base64};
use crate::setups::{PROVIDERS, prompt_for};
use memory_prompt::Message;
use memory_prompt::message::{Media, Part, Picture, PictureType, Source};
use memory_prompt::wire::Request;
use proptest::bool::ANY as ANY_BOOL;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};

/// Each seed of the fuzzer with what it tells; those that are not named here tell nothing.
const TOLD: &[(&str, PictureType, u32, u32)] = &[
    ("png", PictureType::Png, 640, 480),
    ("png_of_all_bits", PictureType::Png, u32::MAX, u32::MAX),
    ("jpeg", PictureType::Jpeg, 1024, 768),
    ("jpeg_progressive", PictureType::Jpeg, 1024, 768),
    ("jpeg_long_profile", PictureType::Jpeg, 31, 17),
    ("gif", PictureType::Gif, 320, 240),
    ("webp_lossy", PictureType::WebP, 550, 368),
    ("webp_lossless", PictureType::WebP, 386, 395),
    ("webp_extended", PictureType::WebP, 400, 301),
    ("webp_of_all_bits", PictureType::WebP, 1 << 24, 1 << 24),
];

fn seeds() -> Vec<(String, Vec<u8>)> {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/picture_header");
    // The published package has no fuzz folder.
    let Ok(folder) = fs::read_dir(seeds) else { return Vec::new() };
    let seed = |path: std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, fs::read(path).unwrap())
    };
    folder.map(|entry| seed(entry.unwrap().path())).collect()
}

#[test]
fn headers_tell_type_and_dimensions() {
    let mut found = 0;
    for (name, bytes) in seeds() {
        any(&bytes);
        let told = TOLD.iter().find(|it| it.0 == name);
        let told =
            told.map(|&(_, media_type, width, height)| Picture { media_type, width, height });
        assert_eq!(Picture::of(&bytes), told, "{name}");
        found += usize::from(told.is_some());
    }
    assert!(found == TOLD.len() || seeds().is_empty());
}

/// A header that is cut anywhere tells the same or nothing, and never something else.
#[test]
fn headers_cut_short_tell_nothing_else() {
    for (name, bytes) in seeds() {
        let whole = Picture::of(&bytes);
        for end in 0..bytes.len().min(700) {
            let cut = Picture::of(&bytes[..end]);
            assert!(cut.is_none() || cut == whole, "{name} cut at {end}: {cut:?}");
        }
    }
}

/// A picture of many megabytes costs what a small one does: its base64 is looked at in places.
#[test]
fn a_large_picture_is_not_decoded() {
    let mut bytes = b"GIF89a\x40\x01\xf0\0".to_vec();
    bytes.resize(6_000_000, 7);
    let media = Media::base64("image/gif", base64(&bytes));
    let cost = allocation_counter::measure(|| {
        assert_eq!(media.picture().map(|it| (it.width, it.height)), Some((320, 240)));
    });
    assert_eq!(cost.bytes_total, 0);
}

/// A picture that is said to be of another type is refused by providers, so the header's is sent;
/// one without data is sent as its placeholder.
#[test]
fn what_is_sent_of_a_picture_is_what_its_header_says() {
    let jpeg = b"\xff\xd8\xff\xc0\0\x11\x08\x03\0\x04\0\x03";
    assert_eq!(Picture::of(jpeg).map(|picture| (picture.width, picture.height)), Some((1024, 768)));
    let (mut typed, mut bare) = (0, 0);
    for provider in PROVIDERS {
        let prompt = |data: String| {
            let picture = Part::Image(Media::base64("image/png", data));
            let prompt = prompt_for(provider, &[Message::user([Part::text("This?"), picture])]);
            serde_json::to_string(&Request::new(&prompt).model("m").max_tokens(9)).unwrap()
        };
        let placeholder = "[image: not supported by this format]";
        let (sent, empty) = (prompt(base64(jpeg)), prompt(String::new()));
        for request in [&sent, &empty] {
            assert!(!request.contains("image/png"), "{provider:?}: {request}");
        }
        assert!(empty.contains(placeholder), "{provider:?}: {empty}");
        let (is_typed, is_sent) = (sent.contains("image/jpeg"), sent.contains(&base64(jpeg)));
        assert_eq!(is_sent, !sent.contains(placeholder), "{provider:?}: {sent}");
        (typed, bare) = (typed + usize::from(is_typed), bare + usize::from(is_sent && !is_typed));
    }
    assert!(typed > PROVIDERS.len() / 2, "{typed}");
    assert_eq!(bare, 1, "Ollama alone is told no type");
}

/// A browser hands over `data:` URLs, and the type in them was sent although the header says
/// another, or with a parameter of which no provider knows.
#[test]
fn a_data_url_says_what_its_header_says() {
    let jpeg = base64(b"\xff\xd8\xff\xc0\0\x11\x08\x03\0\x04\0\x03");
    let source = |url: String| {
        let history = [Message::user([Part::Image(Media::url(url))])];
        let prompt = prompt_for(memory_prompt::Provider::Anthropic, &history);
        let body = serde_json::json!(Request::new(&prompt).model("m").max_tokens(9));
        body["messages"][0]["content"][0]["source"].clone()
    };
    let expected = serde_json::json!({"type": "base64", "media_type": "image/jpeg", "data": jpeg});
    assert_eq!(source(format!("data:image/png;base64,{jpeg}")), expected);
    assert_eq!(source(format!("data:image/jpeg;charset=utf-8;base64,{jpeg}")), expected);
    assert_eq!(source(format!("data:;base64,{jpeg}")), expected);
    let (head, rest) = jpeg.split_at(5);
    assert_eq!(source(format!("data:image/png;base64,{head}\r\n{rest}")), expected);
}

/// Seeds with some of their bytes changed, and some behind them.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let seeds: Vec<_> = seeds().into_iter().map(|(_, bytes)| bytes).chain([Vec::new()]).collect();
    let changes = vec((proptest::arbitrary::any::<Index>(), proptest::num::u8::ANY), 0..6);
    (select(seeds), changes, vec(proptest::num::u8::ANY, 0..9)).prop_map(
        |(mut bytes, changes, more)| {
            for (place, byte) in changes {
                if !bytes.is_empty() {
                    let place = place.index(bytes.len().min(64));
                    bytes[place] = byte;
                }
            }
            bytes.extend(more);
            bytes
        },
    )
}

counted! {
    #![cases(4_096)]

    #[test]
    fn no_header_does_harm(bytes in mutated()) {
        any(&bytes);
    }

    /// Data in lines, as command lines write it, or in the alphabet of URLs, without padding.
    #[test]
    fn any_base64_is_put_into_the_form_that_providers_take(
        bytes in vec(proptest::num::u8::ANY, 0..200),
        (width, is_of_urls) in (1_usize..90, ANY_BOOL),
    ) {
        let standard = base64(&bytes);
        let mut letters = standard.clone();
        if is_of_urls {
            letters = letters.replace('+', "-").replace('/', "_");
            letters.truncate(letters.trim_end_matches('=').len());
        }
        let lines: Vec<_> = letters.as_bytes().chunks(width).map(String::from_utf8_lossy).collect();
        let media = Media::base64("image/png", lines.join("\r\n") + "\n");
        prop_assert_eq!(media.source, Source::Base64(standard));
    }
}
