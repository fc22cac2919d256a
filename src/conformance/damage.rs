//! The laws of rows that can't be read.

use super::DamageFixture;
use super::media::picture;
use super::prelude::*;
use crate::codec::Codec;

/// Payloads that are not messages: nothing, noise, text that is not UTF-8, a lone
/// surrogate, truncated data, a later version, and other programs' JSON.
const UNREADABLE: [&[u8]; 13] = [
    b"",
    b"\0",
    b"\xb1",
    b"\xb1\x01",
    b"\xb1\x01\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xb1\x63\x00",
    b"\xff\xfe\xfd",
    b"{\"v\":1,\"message\":{\"role\":\"user\",\"content\":\"\xff\"}}",
    b"{\"v\":1,\"message\":{\"role\":\"user\",\"content\":\"\\ud800\"}}",
    b"{\"v\":1,\"message\":{\"role\":\"user\",\"cont",
    b"{\"v\":2,\"message\":{\"role\":\"user\",\"content\":\"hi\"}}",
    b"{\"role\":\"user\",\"content\":\"hi\"}",
    b"null",
];

/// Asserts that the row at a position, and no other, was found and can't be read.
#[track_caller]
fn is_unreadable(snapshot: &Snapshot, at: u64) {
    let found = snapshot.unreadable.iter().map(|row| (row.position, row.error.kind()));
    let found: Vec<_> = found.collect();
    assert_eq!(found, [(at, ErrorKind::Codec)], "the row at {at} alone should be unreadable");
}

/// An unreadable row is reported with its position, and hides no other.
pub fn an_unreadable_row_is_reported_and_hides_no_other<F: DamageFixture>(fixture: &F) {
    let memory = holding(fixture, 0..10);
    for payload in UNREADABLE {
        fixture.damage(ID, Some(4), payload);
        let snapshot = memory.read(None, 8).unwrap();
        let what = String::from_utf8_lossy(payload);
        assert_eq!(positions(&snapshot.records), [2, 3, 5, 6, 7, 8, 9], "{what:?}");
        is_unreadable(&snapshot, 4);
        assert_eq!((snapshot.start, snapshot.end), (0, 10));
        // Rows that were not asked for are not reported.
        assert!(memory.read(None, 5).unwrap().unreadable.is_empty());
    }
    memory.says(10..12);
    assert_eq!(memory.all().unwrap().len(), 11);
    memory.evicts(5, 5).holds(5..12);
}

/// Paging passes unreadable rows, even a page full of them.
pub fn pages_go_past_unreadable_rows<F: DamageFixture>(fixture: &F) {
    let memory = holding(fixture, 0..30);
    (8..22).for_each(|position| fixture.damage(ID, Some(position), b"noise"));
    let mut seen = Vec::new();
    for page in memory.pages(5) {
        seen.splice(0..0, positions(&page.unwrap()));
    }
    assert!(seen.iter().copied().eq((0..8).chain(22..30)), "{seen:?}");
}

/// An unreadable system message is an error, since nothing else would show that it is missing; a
/// new one replaces it.
pub fn an_unreadable_system_message_is_an_error_until_it_is_replaced<F: DamageFixture>(
    fixture: &F,
) {
    let memory = instructed(fixture, 0..2);
    fixture.damage(ID, None, b"noise");
    assert_eq!(memory.read(None, 2).unwrap_err().kind(), ErrorKind::Codec);
    memory.instructs("Be kind.").holds_under(Some("Be kind."), 0..2);
}

/// A record that refers to media that are missing, or that have another size, can't be read, and
/// hides no other.
pub fn a_reference_to_nothing_is_unreadable<F: DamageFixture>(fixture: &F) {
    let memory = holding(fixture, 0..1);
    memory.add(picture(1)).unwrap();
    memory.says(2..3);
    let seen = memory.read_with(&Read::newest(3).references()).unwrap();
    let written = Codec::Json.encode(seen.records.messages().nth(1).unwrap());
    let written = String::from_utf8(written.unwrap()).unwrap();
    let of = |sha256: &str, size: u64| {
        let reference = format!(r#""reference":{{"sha256":"{sha256}","size":{size}}}"#);
        let part = format!(r#"{{"type":"image","media_type":"image/png",{reference}}}"#);
        format!(r#"{{"v":1,"message":{{"role":"user","content":[{part}]}}}}"#)
    };
    let mut hostile = vec![of(&"0".repeat(64), 30_000), of(&"f".repeat(64), u64::MAX)];
    let size = r#""size":30000"#;
    if written.contains(size) {
        let other = |bytes: u64| written.replace(size, &format!(r#""size":{bytes}"#));
        hostile.extend([1, 30_001, u64::MAX].map(other));
    }
    for payload in hostile {
        fixture.damage(ID, Some(1), payload.as_bytes());
        let read = memory.read(None, 3).unwrap();
        assert_eq!(positions(&read.records), [0, 2], "{payload}");
        is_unreadable(&read, 1);
    }
    if written.contains("reference") {
        fixture.damage(ID, Some(1), written.as_bytes());
        assert!(memory.read(None, 2).unwrap().records.messages().any(|it| *it == picture(1)));
    }
}
