//! Base64, for files that a format needs as text, and for the headers of pictures.

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the bytes as base64, with `=` at its end.
pub(crate) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i: usize| u32::from(three.get(i).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for i in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * i) & 63) as usize];
            text.push(if i <= three.len() { char::from(letter) } else { '=' });
        }
    }
    text
}

/// Returns the data in the alphabet and form that providers take: without blanks, padded.
pub(crate) fn standard(data: String) -> String {
    if !data.bytes().any(|it| matches!(it, b'-' | b'_') || it.is_ascii_whitespace()) {
        return data;
    }
    let letters = data.chars().filter(|it| !it.is_ascii_whitespace() && *it != '=');
    let mut text: String = letters
        .map(|it| match it {
            '-' => '+',
            '_' => '/',
            other => other,
        })
        .collect();
    let padding = (4 - text.len() % 4) % 4;
    text.extend(std::iter::repeat_n('=', padding));
    text
}

/// Decodes a text from base64; `None` if it is not base64, or not UTF-8.
pub(crate) fn text(base64: &str) -> Option<String> {
    String::from_utf8(decode(base64)?).ok()
}

/// Decodes bytes from base64; `None` if it is not base64.
pub(crate) fn decode(base64: &str) -> Option<Vec<u8>> {
    let letters = base64.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(letters.len() * 3 / 4);
    for four in letters.chunks(4) {
        let mut bits = 0;
        for letter in four {
            bits = bits << 6 | value(*letter)?;
        }
        // A letter alone is not a byte.
        let known = four.len().checked_sub(1).filter(|known| *known > 0)?;
        bits <<= 6 * (4 - four.len());
        bytes.extend_from_slice(&bits.to_be_bytes()[1..=known]);
    }
    Some(bytes)
}

/// Returns one byte of base64 data, without decoding the rest.
pub(super) fn byte_at(base64: &str, at: usize) -> Option<u8> {
    let letters = base64.as_bytes().get(at / 3 * 4..)?;
    let letter = |i: usize| letters.get(i).and_then(|letter| value(*letter));
    let i = at % 3;
    let bits = letter(i)? << 6 | letter(i + 1)?;
    (bits >> (4 - 2 * i)).to_be_bytes().last().copied()
}

fn value(letter: u8) -> Option<u32> {
    let value = match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(value.into())
}
