//! The laws of pictures and documents, wherever a memory keeps their bytes.

use super::prelude::*;
use crate::message::{AiMessage, AiPart, Media, Part, Source};
use crate::message::{ToolMessage, base64};

/// Returns a PNG as far as its header goes, another one for each number.
fn png(number: u8, bytes: usize) -> Vec<u8> {
    let mut png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\x01\x40\0\0\0\xf0\x08\x06\0\0\0".to_vec();
    png.resize(bytes.max(40), number);
    png
}

fn media(bytes: &[u8]) -> Media {
    Media::base64("image/png", base64::encode(bytes))
}

pub(super) fn picture(number: u8) -> Message {
    Message::user([Part::text("Look:"), Part::Image(media(&png(number, 30_000)))])
}

/// Returns messages with media of each kind and size: whole, odd and damaged.
fn with_media() -> Vec<Message> {
    let large = media(&png(1, 40_001));
    let text = "A text is a document too. ".repeat(2_000);
    let mut odd = vec![
        Media::base64("image/png", ""),
        Media::base64("image/png", "no base64!".repeat(4_000)),
        // Extra bits at the end, missing padding, and a line break: not the canonical base64.
        Media::base64("image/png", format!("{}/x==", "iVBO".repeat(9_000))),
        Media::base64("image/png", format!("{}/w", "iVBO".repeat(9_000))),
        Media::base64("image/png", format!("{}\n/w==", "iVBO".repeat(9_000))),
        Media::base64("text/plain", base64::encode(text.as_bytes())),
        Media::url(format!("data:image/png;base64,{}", base64::encode(&png(2, 50_000)))),
        Media::base64("application/octet-stream", base64::encode(&[0xff; 20_000])),
        large.clone().with_name("a.png"),
    ];
    odd.extend([1, 16_383, 16_384, 16_385].map(|n| media(&png(3, n))));
    let unknown = Media::base64("", base64::encode(&vec![0xfe; 30_000]));
    odd.extend([large.clone(), unknown].map(|it| Media { media_type: None, ..it }));
    let twice = |it: Media| Message::user([Part::File(it.clone()), Part::Image(it)]);
    let mut messages: Vec<_> = odd.into_iter().map(twice).collect();
    let parts = [Part::Audio(large.clone()), Part::text("and"), Part::Video(large.clone())];
    messages.push(Message::Tool(ToolMessage::new("c1", "draw", parts)));
    let said = [AiPart::from("Here:"), AiPart::Content(Part::Image(large))];
    messages.push(AiMessage::from_parts(said).into());
    messages
}

/// Media come back byte for byte as they were appended, whatever they are.
pub fn media_come_back_as_they_were<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let given = with_media();
    memory.add_all(given.clone()).unwrap();
    memory.add_all(given.iter().rev().cloned()).unwrap();
    let all: Vec<_> = given.iter().chain(given.iter().rev()).collect();
    let read = memory.read(None, usize::MAX).unwrap();
    assert!(read.unreadable.is_empty());
    assert!(read.records.messages().eq(all.iter().copied()), "the messages differ");
    let read = memory.read_with(&Read::newest(3).positions([0, 8])).unwrap();
    assert!(read.records.messages().eq(all[all.len() - 3..].iter().copied()));
    assert!(read.picked().messages().eq([all[0], all[8]]));
}

/// A read that allows it may have references: each describes the media in its place correctly, and
/// a read of its record has these media.
pub fn a_reference_is_true_of_its_media<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let given = with_media();
    memory.add_all(given.clone()).unwrap();
    let read = memory.read_with(&Read::newest(usize::MAX).references()).unwrap();
    assert_eq!(read.records.len(), given.len());
    for (record, given) in read.records.iter().zip(&given) {
        for (seen, given) in record.message().media().zip(given.media()) {
            let Source::Reference(reference) = &seen.source else {
                assert!(seen == given, "media at {}", record.position());
                continue;
            };
            let Source::Base64(data) = &given.source else { panic!("it is not here") };
            let bytes = base64::decode(data).unwrap();
            assert_eq!(reference.size, bytes.len() as u64);
            assert_eq!(reference.picture, given.picture());
            assert_eq!((&seen.media_type, &seen.name), (&given.media_type, &given.name));
        }
        let whole = Read::newest(0).positions([record.position()]);
        assert!(memory.read_with(&whole).unwrap().picked().messages().eq([given]));
    }
}

/// Media stay as long as one record has them, and no longer count after it.
pub fn media_stay_with_their_last_record<F: Fixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    let pictures = [1, 2, 1, 2, 1].map(picture);
    memory.add_all(pictures.clone()).unwrap();
    for before in 1..5_u8 {
        assert_eq!(memory.evict(before.into()).unwrap(), 1);
        assert!(memory.all().unwrap().messages().eq(&pictures[before.into()..]), "{before}");
    }
    memory.evict(5).unwrap();
    memory.add_all([picture(2), picture(1)]).unwrap();
    memory.clears();
    memory.add(picture(1)).unwrap();
    assert!(memory.all().unwrap().messages().eq([&picture(1)]));
    assert!(memory.read(None, 9).unwrap().unreadable.is_empty());
}
