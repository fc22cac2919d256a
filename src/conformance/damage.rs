//! The laws of rows that can't be read.

use super::DamageFixture;
use super::support::{ID, append, holds, rows};
use crate::error::ErrorKind;
use crate::memory::{ChatMemory, ChatMemoryExt};
use crate::message::Message;

/// Payloads that are no message: nothing, noise, text that is not UTF-8, a lone surrogate, what was
/// cut off, what comes from the future, and other people's JSON.
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

/// A row that can't be read is reported with its position, and hides no other.
pub fn an_unreadable_row_is_reported_and_hides_no_other<F: DamageFixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..10);
    for payload in unreadable() {
        fixture.damage(ID, Some(4), payload);
        let what = String::from_utf8_lossy(payload);
        let snapshot = memory.read(None, 8).unwrap();
        let seqs: Vec<_> = snapshot.records.iter().map(|record| record.seq()).collect();
        assert_eq!(seqs, [2, 3, 5, 6, 7, 8, 9], "{what:?}");
        assert_eq!(snapshot.unreadable.len(), 1, "{what:?}");
        assert_eq!(snapshot.unreadable[0].seq, 4);
        assert_eq!(snapshot.unreadable[0].error.kind(), ErrorKind::Codec);
        assert_eq!((snapshot.start, snapshot.end), (0, 10));
        // What was not asked for is not reported.
        assert!(memory.read(None, 5).unwrap().unreadable.is_empty());
    }
    append(&*memory, 10..12);
    assert_eq!(memory.all().unwrap().len(), 11);
    assert_eq!(memory.evict(5).unwrap(), 5);
    holds(&*memory, 5..12);
}

/// Pages go past rows that can't be read, even past a page full of them.
pub fn pages_go_past_unreadable_rows<F: DamageFixture>(fixture: &F) {
    let memory = fixture.memory(ID);
    append(&*memory, 0..30);
    for seq in 8..22 {
        fixture.damage(ID, Some(seq), b"noise");
    }
    let mut seen = Vec::new();
    for page in memory.pages(5) {
        seen.splice(0..0, rows(&page.unwrap()).into_iter().map(|row| row.0));
    }
    assert_eq!(seen, (0..8).chain(22..30).collect::<Vec<_>>());
}

/// A system message that can't be read is an error, since nothing else would say that it is
/// missing; another one takes its place.
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
