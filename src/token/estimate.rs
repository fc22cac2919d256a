//! The built-in estimate: a walk over the text that adds, for each scalar value, the chance that a
//! token starts there.

#![allow(clippy::enum_glob_use)] // the tables here name nearly every kind

use super::TokenCounter;
use crate::error::Result;
use crate::text::floor_char_boundary;

/// An estimate of OpenAI's `o200k` token counts that needs no vocabulary.
///
/// It reads a text once, from left to right. For each character it adds the chance that a token
/// starts there, given the kind of the character and of the text before it: nearly none inside an
/// English word, about a half inside a run of hiragana, certainty at a turn in `camelCase`. The
/// chances were measured on public text in 17 languages and in code, and those of emoji on the
/// first half of a corpus; the corpora under `tests/data/corpus`, written for this crate, check
/// them.
///
/// # What to expect
///
/// - Within 15 % of `o200k` on each corpus: English, Chinese, Japanese, Korean, emoji, code, JSON,
///   German, Russian, Arabic and Hindi. `cargo run --example estimate_table --features bpe` prints
///   the table. A single short message is off by more: one in ten by 10 to 25 %.
/// - Traditional Chinese and base64 come out about 10 % low, Polish and Indonesian 20 %. Other
///   models' tokenizers differ from `o200k` by a similar amount in addition. Leave headroom, or
///   count with an exact counter: `Bpe` or `HuggingFace`, each behind its feature.
/// - A longer text never counts less than its beginning. Two texts count the same apart and
///   together, except for the word at the seam and rounding. A text that is not empty counts at
///   least 1.
/// - No allocation. [`fits`](TokenCounter::fits) stops as soon as the limit is passed.
///
/// ```
/// use memory_prompt::token::{Estimate, TokenCounter};
///
/// let text = "The quick brown fox jumps over the lazy dog.";
/// assert_eq!(Estimate.count_text(text)?, 11); // 10 exactly
/// assert_eq!(Estimate.count_text("")?, 0);
///
/// let long = "word ".repeat(2_000_000);
/// assert_eq!(Estimate.fits(&long, 100)?, None); // read a few hundred bytes
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Estimate;

impl TokenCounter for Estimate {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(walk(text, usize::MAX).0)
    }

    fn fits(&self, text: &str, limit: usize) -> Result<Option<usize>> {
        let (tokens, _) = walk(text, limit);
        Ok((tokens <= limit).then_some(tokens))
    }
}

/// Reads the text until its tokens are more than the limit; returns the tokens, and the unread
/// rest.
fn walk(text: &str, limit: usize) -> (usize, &str) {
    let mut rest = text;
    let mut before = CharKind::Other; // there is nothing before the text to join
    let (mut hundredths, mut tokens) = (0_u64, 0);
    while tokens <= limit && !rest.is_empty() {
        let piece;
        (piece, rest) = rest.split_at(floor_char_boundary(rest, PIECE));
        let mut sum = 0_u32; // of at most 256 times 255
        let mut read = |kind: CharKind| {
            let step = STEPS[before as usize][kind as usize];
            sum += u32::from(step.hundredths);
            before = step.next;
        };
        if piece.is_ascii() {
            piece.bytes().for_each(|byte| read(ASCII[usize::from(byte & 0x7f)]));
        } else {
            piece.chars().for_each(|c| read(kind(c)));
        }
        hundredths = hundredths.saturating_add(sum.into());
        tokens = usize::try_from(hundredths.saturating_add(50) / 100).unwrap_or(usize::MAX);
    }
    (tokens, rest)
}

/// The number of bytes between two checks of the limit: enough that the check costs nothing.
const PIECE: usize = 256;

/// The kind of a character, or (from `Spaces` on) of the text before the next one.
#[derive(Clone, Copy)]
#[repr(u8)]
enum CharKind {
    Newline,
    Space,
    /// ASCII punctuation.
    Mark,
    Apostrophe,
    Digit,
    Lower,
    Upper,
    /// A Latin letter with an accent.
    Accented,
    /// A Latin letter in words that come in more pieces than English ones: `ä`, `ł`.
    Foreign,
    Cyrillic,
    /// Arabic and Devanagari.
    Arabic,
    /// Greek and Hebrew.
    Greek,
    /// Thai, and the other scripts of South and South-East Asia and of the Caucasus.
    Thai,
    Hangul,
    Han,
    Hiragana,
    Katakana,
    /// Punctuation of East Asia and other characters that no word takes in.
    Wide,
    /// Dashes, quotes, arrows, currencies.
    Symbol,
    Dingbat,
    Emoji,
    /// Half a flag.
    Flag,
    /// A skin tone.
    Tone,
    /// A mark on the character before: variation selectors, joiners, combining accents.
    Joiner,
    Other,
    /// Several blanks.
    Spaces,
    /// Several marks, or one that took in a blank.
    Marks,
    /// Two digits, three.
    Digit2,
    Digit3,
    /// Two letters of a word, and more.
    Lower2,
    Late,
    /// Letters after a digit, as in hashes.
    Mixed,
}

const COUNT: usize = CharKind::Mixed as usize + 1;

#[inline]
fn kind(c: char) -> CharKind {
    if c.is_ascii() { ASCII[c as usize] } else { wide_kind(c) }
}

const fn ascii_kind(c: u8) -> CharKind {
    match c {
        b'\n' | b'\r' => CharKind::Newline,
        b' ' | b'\t' => CharKind::Space,
        b'0'..=b'9' => CharKind::Digit,
        b'a'..=b'z' => CharKind::Lower,
        b'A'..=b'Z' => CharKind::Upper,
        b'\'' => CharKind::Apostrophe,
        b'!'..=b'~' => CharKind::Mark,
        _ => CharKind::Symbol, // control characters: a token each
    }
}

/// Returns the kind of a character that is not ASCII. Kinds that fill whole texts come first, for
/// speed.
fn wide_kind(c: char) -> CharKind {
    match c {
        '一'..='鿿' => CharKind::Han,
        '가'..='힣' | '\u{3130}'..='\u{318f}' => CharKind::Hangul,
        '぀'..='ゟ' => CharKind::Hiragana,
        '゠'..='ヿ' | 'ｦ'..='ﾟ' => CharKind::Katakana,
        'Ѐ'..='ԯ' => CharKind::Cyrillic,
        '،' | '؛' | '؟' | '।' | '॥' | '、'..='〿' | '！'..='･' | '￠'..='￮' => {
            CharKind::Wide
        }
        '\u{600}'..='\u{6ff}' | '\u{900}'..='\u{97f}' => CharKind::Arabic,
        'Ͱ'..='Ͽ' | '\u{590}'..='\u{5ff}' => CharKind::Greek,
        'Ա'..='֏' | '\u{980}'..='ჿ' | 'ក'..='\u{17ff}' => CharKind::Thai,
        'ä' | 'ö' | 'ü' | 'Ä' | 'Ö' | 'Ü' | 'ß' | 'å' | 'Å' | 'æ' | 'ø' | 'Ą'..='ď' | 'Ē'..='ž' => {
            CharKind::Foreign
        }
        '×' | '÷' => CharKind::Symbol,
        'ª' | 'µ' | 'º' | 'À'..='ɏ' | 'Ḁ'..='ỿ' => CharKind::Accented,
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{3000}' => CharKind::Space,
        '’' => CharKind::Apostrophe,
        '\u{300}'..='\u{36f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{20d0}'..='\u{20ff}'
        | '\u{fe00}'..='\u{fe0f}' => CharKind::Joiner,
        '☀'..='➿' | '⬀'..='⯿' => CharKind::Dingbat,
        '\u{80}'..='¿' | '‐'..='◿' | '⟀'..='⫿' => CharKind::Symbol,
        '🇦'..='🇿' => CharKind::Flag,
        '🏻'..='🏿' => CharKind::Tone,
        '\u{1f000}'..='\u{1faff}' => CharKind::Emoji,
        _ => CharKind::Other,
    }
}

/// Returns the chance, in hundredths, that a token starts at a character of this kind after this
/// kind of text. More than 100: several tokens for one character.
#[rustfmt::skip] // a table: a line for each measured chance, also where two are equal
#[allow(clippy::match_same_arms)]
const fn chance(before: CharKind, kind: CharKind) -> u8 {
    use CharKind::*;
    match (kind, before) {
        // A line break joins other white space and the punctuation before it.
        (Newline, Newline | Space | Spaces) => 1,
        (Newline, Mark | Marks | Apostrophe | Symbol | Wide) => 3,

        // A blank begins the word or the mark after it. Of several blanks the last one does, and
        // the others are one token more, which is added to the character after them.
        (Space, Space | Spaces) => 1,
        (Digit, Spaces) => 200,

        (Mark, Space) => 0,
        (Mark, Mark | Apostrophe | Symbol) => 4,
        (Mark, Marks) => 12,
        (Apostrophe, Space) => 0,
        (Apostrophe, Mark | Marks) => 25,
        (Apostrophe, Lower | Lower2 | Late) => 60,

        // Numbers are cut after every third digit.
        (Digit, Digit | Digit2) => 0,

        // A word takes in the blank or the one mark before it, ` word`, `(word`.
        (Lower, Space) => 0,
        (Lower, Mark) => 9,
        (Lower, Apostrophe) => 15,
        (Lower, Lower) => 1,
        (Lower, Lower2) => 2,
        (Lower, Late | Upper) => 4,
        (Lower, Accented) => 7,
        (Lower, Foreign) => 20,
        (Lower, Mixed) => 33,
        (Upper, Space) => 0,
        (Upper, Mark) => 18,
        (Upper, Upper) => 15,
        (Upper, Mixed) => 65,
        (Accented, Space | Apostrophe | Symbol) => 2,
        (Accented, Lower | Lower2 | Late | Upper | Accented | Foreign) => 24,
        (Foreign, Space) => 20,
        (Foreign, _) => 140,

        (Cyrillic | Arabic | Greek | Thai, Space) => 0,
        (Cyrillic | Arabic | Greek | Thai, Mark) => 50,
        (Cyrillic, Cyrillic) => 15,
        (Arabic, Arabic) => 19,
        (Greek, Greek) => 30,
        (Thai, Thai) => 42,

        (Hangul, Space) => 5,
        (Hangul, Hangul) => 67,
        (Han, Space) => 45,
        (Han, Wide) => 75,
        (Han, Han) => 82,
        (Hiragana, Space | Wide) => 55,
        (Hiragana, Hiragana) => 51,
        (Katakana, Space) => 2,
        (Katakana, Katakana) => 61,
        (Wide, Wide) => 40,

        (Symbol, Space) => 2,
        (Dingbat, Space) => 85,
        (Dingbat, _) => 110,
        (Emoji, Space) => 125,
        (Emoji, _) => 190,
        (Flag, _) => 200,
        (Tone, _) => 150,
        (Other, _) => 250,
        _ => 100,
    }
}

/// Returns the kind of the text before the next character, after this one was read.
const fn next(before: CharKind, kind: CharKind) -> CharKind {
    use CharKind::*;
    match (kind, before) {
        (Space, Space | Spaces) => Spaces,
        (Mark | Apostrophe, Space | Spaces | Mark | Marks | Apostrophe | Symbol) => Marks,
        (Digit, Digit) => Digit2,
        (Digit, Digit2) => Digit3,
        (Lower | Upper | Accented | Foreign, Digit | Digit2 | Digit3 | Mixed) => Mixed,
        (Lower, Lower | Upper) => Lower2,
        (Lower, Lower2 | Late | Accented | Foreign) => Late,
        _ => kind,
    }
}

/// The kinds of ASCII characters, for the look-ups of nearly all of most texts.
static ASCII: [CharKind; 128] = {
    let mut kinds = [CharKind::Other; 128];
    let mut byte = 0_u8;
    while byte < 128 {
        kinds[byte as usize] = ascii_kind(byte);
        byte += 1;
    }
    kinds
};

#[derive(Clone, Copy)]
struct Step {
    hundredths: u8,
    next: CharKind,
}

/// [`chance`] and [`next`] as one look-up, 2 KiB.
static STEPS: [[Step; COUNT]; COUNT] = {
    use CharKind::*;
    let all = [
        Newline, Space, Mark, Apostrophe, Digit, Lower, Upper, Accented, Foreign, Cyrillic, Arabic,
        Greek, Thai, Hangul, Han, Hiragana, Katakana, Wide, Symbol, Dingbat, Emoji, Flag, Tone,
        Joiner, Other, Spaces, Marks, Digit2, Digit3, Lower2, Late, Mixed,
    ];
    let mut steps = [[Step { hundredths: 0, next: Newline }; COUNT]; COUNT];
    let mut i = 0;
    while i < COUNT {
        assert!(all[i] as usize == i, "`all` is in the order of `CharKind`");
        let mut k = 0;
        while k < COUNT {
            steps[i][k] = Step { hundredths: chance(all[i], all[k]), next: next(all[i], all[k]) };
            k += 1;
        }
        i += 1;
    }
    steps
};

#[cfg(test)]
mod tests {
    use super::*;

    /// The cheapest character that can be repeated forever counts a hundredth.
    #[test]
    fn a_text_that_does_not_fit_is_not_read_to_its_end() {
        for text in ["word ", "a", " ", "\n", "=", "7", "漢", "한", "🎉", "\u{301}", "a\n \t"] {
            let long = text.repeat(10_000_000 / text.len());
            let (tokens, rest) = walk(&long, 100);
            assert!(tokens > 100);
            assert!(long.len() - rest.len() <= 101 * 100 + PIECE, "{text:?}");
        }
    }
}
