//! The laws of rows that can't be read.

use super::DamageFixture;
use super::media::picture;
use super::support::{ID, append, holds, rows};
use crate::codec::Codec;
use crate::error::ErrorKind;
use crate::memory::{ChatMemory, ChatMemoryExt, Read};
use crate::message::Message;

/// Returns payloads that are not messages: nothing, noise, text that is not UTF-8, a lone
/// surrogate, truncated data, a later version, and other programs' JSON.
fn unreadable() -> Vec<&'static [u8]> {
    vec![
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
    ]
}

/// An unreadable row is reported with its position, and hides no other.
pub fn an_unreadable_row_is_reported_and_hides_no_other<F: DamageFixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..10);
    for payload in unreadable() {
        fixture.damage(ID, Some(4), payload);
        let what = String::from_utf8_lossy(payload);
        let snapshot = memory.read(None, 8).unwrap();
        let positions: Vec<_> = snapshot.records.iter().map(|record| record.position()).collect();
        assert_eq!(positions, [2, 3, 5, 6, 7, 8, 9], "{what:?}");
        assert_eq!(snapshot.unreadable.len(), 1, "{what:?}");
        assert_eq!(snapshot.unreadable[0].position, 4);
        assert_eq!(snapshot.unreadable[0].error.kind(), ErrorKind::Codec);
        assert_eq!((snapshot.start, snapshot.end), (0, 10));
        // Rows that were not asked for are not reported.
        assert!(memory.read(None, 5).unwrap().unreadable.is_empty());
    }
    append(&*memory, 10..12);
    assert_eq!(memory.all().unwrap().len(), 11);
    assert_eq!(memory.evict(5).unwrap(), 5);
    holds(&*memory, 5..12);
}

/// Paging passes unreadable rows, even a page full of them.
pub fn pages_go_past_unreadable_rows<F: DamageFixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..30);
    for position in 8..22 {
        fixture.damage(ID, Some(position), b"noise");
    }
    let mut seen = Vec::new();
    for page in memory.pages(5) {
        seen.splice(0..0, rows(&page.unwrap()).into_iter().map(|row| row.0));
    }
    assert_eq!(seen, (0..8).chain(22..30).collect::<Vec<_>>());
}

/// An unreadable system message is an error, since nothing else would show that it is missing; a
/// new one replaces it.
pub fn an_unreadable_system_message_is_an_error_until_it_is_replaced<F: DamageFixture>(
    fixture: &F,
) {
    let memory = fixture.memory(ID);
    memory.add(Message::system("Be brief.")).unwrap();
    append(&*memory, 0..2);
    fixture.damage(ID, None, b"noise");
    let error = memory.read(None, 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Codec);
    assert!(error.to_string().contains("system message"), "{error}");
    memory.add(Message::system("Be kind.")).unwrap();
    assert_eq!(memory.system().unwrap().as_deref(), Some(&Message::system("Be kind.")));
    holds(&*memory, 0..2);
}

/// A record that refers to media which are not there, or of another size than they have, can't be
/// read, and hides no other.
pub fn a_reference_to_nothing_is_unreadable<F: DamageFixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..1);
    memory.add(picture(1)).unwrap();
    append(&*memory, 2..3);
    let seen = memory.read_with(&Read::newest(3).references()).unwrap();
    let written = seen.records.iter().nth(1).map(|record| Codec::Json.encode(record.message()));
    let written = String::from_utf8(written.unwrap().unwrap()).unwrap();
    let of = |sha256: &str, size: u64| {
        let reference = format!(r#""reference":{{"sha256":"{sha256}","size":{size}}}"#);
        let part = format!(r#"{{"type":"image","media_type":"image/png",{reference}}}"#);
        format!(r#"{{"v":1,"message":{{"role":"user","content":[{part}]}}}}"#)
    };
    let mut hostile = vec![of(&"0".repeat(64), 30_000), of(&"f".repeat(64), u64::MAX)];
    if written.contains(r#""size":30000"#) {
        hostile.extend(
            ["1", "30001", "18446744073709551615"]
                .map(|size| written.replace(r#""size":30000"#, &format!(r#""size":{size}"#))),
        );
    }
    for payload in hostile {
        fixture.damage(ID, Some(1), payload.as_bytes());
        let read = memory.read(None, 3).unwrap();
        assert!(read.records.iter().map(|it| it.position()).eq([0, 2]), "{payload}");
        assert_eq!(read.unreadable[0].position, 1);
        assert_eq!(read.unreadable[0].error.kind(), ErrorKind::Codec);
        assert!(read.unreadable[0].error.to_string().contains("the media"));
    }
    if written.contains("reference") {
        fixture.damage(ID, Some(1), written.as_bytes());
        assert!(memory.read(None, 2).unwrap().records.messages().any(|it| *it == picture(1)));
    }
}
