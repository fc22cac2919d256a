//! Bincode is smaller and faster than JSON.

use std::hint::black_box;

use memory_prompt::Message;
use memory_prompt::codec::{self, Codec};

use crate::harness::{Claims, Pace};
use crate::messages::message;

pub(crate) fn bincode_is_smaller_and_faster(claims: &mut Claims) {
    let messages: Vec<Message> = (0..100).map(message).collect();
    let round = |codec: Codec| {
        let bytes = codec.encode_all(black_box(&messages)).unwrap();
        assert_eq!(codec::decode_all(&bytes).unwrap().len(), messages.len());
        bytes.len()
    };
    let smaller = round(Codec::Bincode) as f64 / round(Codec::Json) as f64;
    let found = claims.compare(
        Pace::FINE,
        ["100 messages to bincode and back", "to JSON and back"],
        || round(Codec::Bincode),
        || round(Codec::Json),
    );
    claims.at_most("100 messages to bincode and back / to JSON and back", found.ratio, 1.0);
    claims.at_most("bytes of 100 messages in bincode / in JSON", smaller, 1.0);
}
