//! What must hold for any bytes at all: what the fuzz targets run, and `tests/codec.rs` over their seeds.

use memory_prompt::{Codec, Message, codec};

/// Bytes as JSON: no panic, and what can be read can be written and read again.
pub fn json(bytes: &[u8]) {
    if let Ok(message) = serde_json::from_slice::<Message>(bytes) {
        rewrite(&[message]);
    }
    any(bytes);
}

/// Bytes as the body of a bincode envelope.
pub fn bincode(body: &[u8]) {
    any(&[&[0xB1, 1], body].concat());
}

/// Bytes as an envelope of either kind.
pub fn any(bytes: &[u8]) {
    if let Ok(messages) = codec::decode_all(bytes) {
        rewrite(&messages);
    }
    let _ = codec::decode(bytes);
}

fn rewrite(messages: &[Message]) {
    for codec in [Codec::Json, Codec::Bincode] {
        // A damaged length can give bincode an extra field that JSON has another use for.
        match codec.encode_all(messages) {
            Ok(bytes) => {
                let again = codec::decode_all(&bytes).expect("what was written can be read");
                assert_eq!(again, messages);
            }
            Err(error) => assert!(codec == Codec::Json, "{error}"),
        }
    }
}
