//! What must hold for the header of a picture, whatever its bytes: what the fuzz target runs, and
//! `tests/wire/picture_headers.rs` over its seeds.

use memory_prompt::message::{Media, Picture};

/// Bytes as a picture: no panic, and base64 tells what the bytes tell, by itself and as an address.
pub fn any(bytes: &[u8]) {
    let told = Picture::of(bytes);
    let data = base64(bytes);
    assert_eq!(Media::url(format!("data:image/png;base64,{data}")).picture(), told);
    assert_eq!(Media::base64("image/png", data).picture(), told);
    if let Some(picture) = told {
        assert!(picture.width > 0 && picture.height > 0);
        // What stands behind the header says nothing.
        assert_eq!(Picture::of(&[bytes, b"\xff\xc0"].concat()), told);
    }
    // What is no base64 is no picture, or another one; it is no panic.
    let text: String = bytes.iter().map(|byte| char::from(*byte)).collect();
    let _ = Media::base64("image/png", text).picture();
}

/// Writes bytes as base64, by the RFC and nothing of the crate.
pub fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}
