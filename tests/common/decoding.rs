//! What must hold for any bytes at all: what the fuzz targets run, and `tests/stores/codec.rs` over
//! their seeds.

use memory_prompt::Message;
use memory_prompt::codec::{self, Codec};
use memory_prompt::message::AiPart;

/// Bytes as JSON: no panic, and what can be read can be written and read again.
pub fn json(bytes: &[u8]) {
    if let Ok(message) = serde_json::from_slice::<Message>(bytes) {
        rewrite(&[message]);
    }
    if let Ok(part) = serde_json::from_slice::<AiPart>(bytes) {
        let written = serde_json::to_string(&part).expect("what was read can be written");
        assert_eq!(serde_json::from_str::<AiPart>(&written).expect("and read again"), part);
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

/// Writes what was read in every codec, and reads it again.
pub fn rewrite(messages: &[Message]) {
    for codec in [Codec::Json, Codec::Bincode] {
        let bytes = codec.encode_all(messages).expect("what was read can be written");
        let again = codec::decode_all(&bytes).expect("what was written can be read");
        assert_eq!(again, messages);
    }
}
