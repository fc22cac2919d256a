//! Classes of characters, known without a search through the Unicode tables.

/// The class of a character, known without a search through the Unicode tables.
///
/// This is for speed: what is said to be [`Other`](Class::Other) takes a slower path to the same
/// result. So the ranges are few, and cover what much text is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// There is always a boundary between two of these, whatever stands around them.
    ///
    /// So this is no CR, nothing that may join with its own kind (Hangul jamo, one regional
    /// indicator), and nothing that joins whatever stands before or behind (marks, joiners,
    /// prefixes). An emoji or an Indic consonant is one: it joins another only through a joiner or
    /// a mark.
    Alone,
    /// Joins what stands before it, if that is no control, and makes nothing behind it join.
    ///
    /// So this is none of the viramas that make conjuncts.
    Mark,
    /// The zero width joiner, which makes one emoji of two.
    Joiner,
    /// Anything else.
    Other,
}

impl Class {
    /// Returns the class and the width of what is first in a text; a flag is looked at as a whole.
    ///
    /// Decodes on its own, because the first byte often says enough.
    pub(super) fn first(text: &[u8]) -> Option<(Self, usize)> {
        let low = |byte: u8, shift: usize| usize::from(byte & 0x3f) << shift;
        Some(match *text {
            [] => return None,
            [a @ 0..0x80, ..] => (CLASSES[usize::from(a)], 1),
            [a @ 0x80..0xe0, b, ..] => (CLASSES[usize::from(a & 0x1f) << 6 | low(b, 0)], 2),
            [a @ 0xe0..0xf0, b, c, ..] if stands_alone([a, b, c]) => (Self::Alone, 3),
            [a @ 0xe0..0xf0, b, c, ..] => {
                (Self::of(usize::from(a & 0xf) << 12 | low(b, 6) | low(c, 0)), 3)
            }
            [_, _, _, _, ref next @ ..]
                if is_regional_indicator(text) && is_regional_indicator(next) =>
            {
                (Self::Alone, 8)
            }
            [a, b, c, d, ..] => {
                (Self::of(usize::from(a & 7) << 18 | low(b, 12) | low(c, 6) | low(d, 0)), 4)
            }
            [..] => (Self::Other, text.len()), // not UTF-8, and not from a `str`
        })
    }

    pub(super) fn of(code: usize) -> Self {
        match code {
            0..0x3000 => CLASSES[code],
            0x3000..0x10000 if ROWS[code >> 6] >> (code & 0x3f) & 1 == 1 => Self::Alone,
            0x1f000..=0x1f1e5 | 0x1f200..=0x1f3fa | 0x1f400..=0x1faff // emoji
            | 0x20000..=0x323af => Self::Alone, // rare Han
            0x302a..=0x302f | 0x3099..=0x309a // of Han and kana
            | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff => Self::Mark, // variation selectors, skin tones
            _ => Self::Other,
        }
    }
}

/// Returns whether the character of these three bytes stands [alone](Class::Alone).
pub(super) fn stands_alone([a, b, c]: [u8; 3]) -> bool {
    let row = ROWS[usize::from(a & 0xf) << 6 | usize::from(b & 0x3f)];
    a & 0xf0 == 0xe0 && row >> (c & 0x3f) & 1 == 1
}

/// The characters below U+10000 that stand alone: a bit each, in rows of those that differ in their
/// last byte.
static ROWS: [u64; 0x400] = {
    let mut rows = [0; 0x400];
    let mut list = 0;
    while list < 2 {
        let ranges = [ALONE, WIDE][list];
        let mut index = 0;
        while index < ranges.len() {
            let (mut code, last) = ranges[index];
            while code <= last {
                rows[code >> 6] |= 1 << (code & 0x3f);
                code += 1;
            }
            index += 1;
        }
        list += 1;
    }
    rows
};

/// The classes of the characters below U+3000, where ranges are too many to compare with.
static CLASSES: [Class; 0x3000] = {
    let mut classes = [Class::Other; 0x3000];
    set(&mut classes, Class::Alone, ALONE);
    set(&mut classes, Class::Mark, MARKS);
    classes[0x200d] = Class::Joiner;
    classes
};

const fn set(classes: &mut [Class], class: Class, ranges: &[(usize, usize)]) {
    let mut index = 0;
    while index < ranges.len() {
        let (mut code, last) = ranges[index];
        while code <= last {
            classes[code] = class;
            code += 1;
        }
        index += 1;
    }
}

#[rustfmt::skip]
const ALONE: &[(usize, usize)] = &[
    (0x0000, 0x000c), (0x000e, 0x007e), (0x00a0, 0x00ac), (0x00ae, 0x02ff), // ASCII, Latin
    (0x0370, 0x0482), (0x048a, 0x052f), (0x0531, 0x058f), // Greek, Cyrillic, Armenian
    (0x05d0, 0x05ea), (0x061d, 0x064a), (0x0660, 0x066f), (0x0671, 0x06d5), // Hebrew, Arabic
    (0x0904, 0x0939), (0x093d, 0x093d), (0x0950, 0x0950), (0x0958, 0x0961), (0x0964, 0x0980), // Devanagari
    (0x0985, 0x09b9), (0x09bd, 0x09bd), (0x09ce, 0x09ce), (0x09dc, 0x09e1), (0x09e6, 0x09fd), // Bengali
    (0x0a05, 0x0a39), (0x0a59, 0x0a5e), (0x0a66, 0x0a6f), (0x0a72, 0x0a74), // Gurmukhi
    (0x0a85, 0x0ab9), (0x0abd, 0x0abd), (0x0ae0, 0x0ae1), (0x0ae6, 0x0af1), // Gujarati
    (0x0b83, 0x0bb9), (0x0bd0, 0x0bd0), (0x0be6, 0x0bfa), // Tamil
    (0x0c05, 0x0c39), (0x0c3d, 0x0c3d), (0x0c58, 0x0c61), (0x0c66, 0x0c6f), // Telugu
    (0x0c85, 0x0cb9), (0x0cbd, 0x0cbd), (0x0cdd, 0x0ce1), (0x0ce6, 0x0cef), // Kannada
    (0x0d05, 0x0d3a), (0x0d3d, 0x0d3d), (0x0d54, 0x0d56), (0x0d58, 0x0d61), (0x0d66, 0x0d7f), // Malayalam
    (0x0e01, 0x0e30), (0x0e32, 0x0e32), (0x0e3f, 0x0e46), (0x0e4f, 0x0e5b), // Thai
    (0x1000, 0x102c), (0x1038, 0x1038), (0x103f, 0x1055), (0x10a0, 0x10ff), // Myanmar, Georgian
    (0x0d85, 0x0dc6), (0x0de6, 0x0def), (0x0e81, 0x0eb0), (0x0eb2, 0x0eb2), (0x0ebd, 0x0ec6), (0x0ed0, 0x0edf), // Sinhala, Lao
    (0x0f00, 0x0f17), (0x0f1a, 0x0f34), (0x0f3a, 0x0f3d), (0x0f40, 0x0f6c), (0x0fd0, 0x0fda), // Tibetan
    (0x1200, 0x135c), (0x1360, 0x16f8), // Ethiopic, Cherokee, Canadian syllables, runes
    (0x1780, 0x17b3), (0x17d4, 0x17dc), (0x17e0, 0x17e9), // Khmer
    (0x1e00, 0x1fff), // more Latin, Greek
    (0x2000, 0x200a), (0x2010, 0x2027), (0x202f, 0x205f), (0x2070, 0x20c0), // spaces, punctuation, currencies
    (0x2100, 0x2bff), (0x2c60, 0x2c7f), (0x2e00, 0x2fff), // symbols, more Latin, punctuation and radicals
];

/// The ranges from U+3000 on that are [`Alone`](Class::Alone).
const WIDE: &[(usize, usize)] = &[
    (0x3000, 0x3029),
    (0x3030, 0x3098),
    (0x309b, 0xa66e), // kana and Han
    (0xac00, 0xd7a3), // Hangul syllables
    (0xf900, 0xfaff),
    (0xfe30, 0xfe6f),
    (0xff01, 0xff9d), // compatibility, full width
];

#[rustfmt::skip]
const MARKS: &[(usize, usize)] = &[
    (0x0300, 0x036f), (0x0483, 0x0489), (0x0591, 0x05bd), (0x20d0, 0x20f0), // of Latin, Cyrillic, Hebrew, symbols
    (0x064b, 0x065f), (0x0670, 0x0670), (0x06d6, 0x06dc), // Arabic
    (0x0900, 0x0903), (0x093a, 0x093c), (0x093e, 0x094c), (0x094e, 0x094f), (0x0951, 0x0957), (0x0962, 0x0963), // Devanagari
    (0x0981, 0x0983), (0x09bc, 0x09bc), (0x09be, 0x09c4), (0x09c7, 0x09c8), (0x09cb, 0x09cc), (0x09e2, 0x09e3), // Bengali
    (0x0a01, 0x0a03), (0x0a3c, 0x0a3c), (0x0a3e, 0x0a42), (0x0a47, 0x0a48), (0x0a4b, 0x0a4d), (0x0a70, 0x0a71), // Gurmukhi
    (0x0a81, 0x0a83), (0x0abc, 0x0abc), (0x0abe, 0x0ac5), (0x0ac7, 0x0ac9), (0x0acb, 0x0acc), // Gujarati
    (0x0b82, 0x0b82), (0x0bbe, 0x0bc2), (0x0bc6, 0x0bc8), (0x0bca, 0x0bcd), (0x0bd7, 0x0bd7), // Tamil
    (0x0c00, 0x0c04), (0x0c3c, 0x0c3c), (0x0c3e, 0x0c44), (0x0c46, 0x0c48), (0x0c4a, 0x0c4c), // Telugu
    (0x0c81, 0x0c83), (0x0cbc, 0x0cbc), (0x0cbe, 0x0cc4), (0x0cc6, 0x0cc8), (0x0cca, 0x0ccd), // Kannada
    (0x0d00, 0x0d03), (0x0d3e, 0x0d44), (0x0d46, 0x0d48), (0x0d4a, 0x0d4c), // Malayalam
    (0x0e31, 0x0e31), (0x0e33, 0x0e3a), (0x0e47, 0x0e4e), // Thai
    (0x0d81, 0x0d83), (0x0dca, 0x0dca), (0x0dcf, 0x0dd4), (0x0dd8, 0x0ddf), (0x0eb1, 0x0eb1), (0x0eb3, 0x0ebc), (0x0ec8, 0x0ece), // Sinhala, Lao
    (0x0f18, 0x0f19), (0x0f3e, 0x0f3f), (0x0f71, 0x0f84), (0x0f86, 0x0f87), (0x0f8d, 0x0f97), (0x0f99, 0x0fbc), // Tibetan
    (0x102d, 0x1037), (0x103a, 0x103e), (0x17b6, 0x17d1), // Myanmar, Khmer
];

/// Returns whether the first character is a regional indicator, half a flag: one of
/// U+1F1E6..=U+1F1FF.
pub(super) fn is_regional_indicator(text: &[u8]) -> bool {
    matches!(text, [0xf0, 0x9f, 0x87, 0xa6..=0xbf, ..])
}

/// Returns whether this is one of the emoji that are joined to others: all of these are
/// `Extended_Pictographic`.
#[rustfmt::skip]
pub(super) fn is_emoji(c: char) -> bool {
    matches!(c,
        '♀' | '♂' | '⚕' | '❤' | '🏳' | '🏴'
        | '\u{1f300}'..='\u{1f321}' | '\u{1f324}'..='\u{1f393}' | '\u{1f39e}'..='\u{1f3f0}'
        | '\u{1f400}'..='\u{1f4fd}' | '\u{1f5fa}'..='\u{1f64f}' | '\u{1f680}'..='\u{1f6c5}'
        | '\u{1f90c}'..='\u{1f93a}' | '\u{1f947}'..='\u{1f9ff}'
    )
}

#[cfg(test)]
mod tests {
    use unicode_segmentation::UnicodeSegmentation;

    use super::*;

    fn count_of(parts: &[char]) -> usize {
        parts.iter().collect::<String>().graphemes(true).count()
    }

    fn class(c: char) -> Class {
        Class::of(c as usize)
    }

    /// Characters of each kind that stand alone: controls, letters, symbols, syllables, consonants,
    /// emoji.
    const ALONE_KINDS: [char; 13] =
        ['\n', '\0', 'a', 'é', '©', '漢', 'か', '가', '각', 'क', 'त', '👩', '♀'];

    #[test]
    fn what_stands_alone_always_breaks() {
        assert!(ALONE_KINDS.into_iter().all(|c| class(c) == Class::Alone));
        for c in (char::MIN..=char::MAX).filter(|&c| class(c) == Class::Alone) {
            assert_eq!(count_of(&[c, c]), 2, "{c:?}");
            for other in ALONE_KINDS {
                assert_eq!(count_of(&[c, other]), 2, "{c:?} {other:?}");
                assert_eq!(count_of(&[other, c]), 2, "{other:?} {c:?}");
            }
            // Whole flags too.
            assert_eq!(count_of(&[c, '🇳', '🇴', c]), 3, "{c:?}");
        }
    }

    #[test]
    fn the_rows_say_of_three_bytes_what_the_classes_say() {
        for c in '\u{800}'..='\u{ffff}' {
            let mut bytes = [0; 3];
            c.encode_utf8(&mut bytes);
            assert_eq!(stands_alone(bytes), class(c) == Class::Alone, "{c:?}");
        }
        assert!(!stands_alone(*b"abc"));
    }

    #[test]
    fn a_mark_joins_what_stands_before_it_and_nothing_else() {
        for mark in (char::MIN..=char::MAX).filter(|&c| class(c) == Class::Mark) {
            for before in ALONE_KINDS {
                // What `plain_run` takes for a control.
                let clusters = if before < ' ' { 2 } else { 1 };
                assert_eq!(count_of(&[before, mark]), clusters, "{before:?} {mark:?}");
                assert_eq!(
                    count_of(&[before, mark, '\u{301}', mark]),
                    clusters,
                    "{before:?} {mark:?}"
                );
                for after in ALONE_KINDS {
                    assert_eq!(
                        count_of(&[before, mark, after]),
                        clusters + 1,
                        "{before:?} {mark:?} {after:?}"
                    );
                }
            }
            assert_eq!(count_of(&['🇳', '🇴', mark, '🇳', '🇴']), 2, "{mark:?}");
        }
        let alone = (char::MIN..=char::MAX).filter(|&c| class(c) == Class::Alone);
        for c in alone.filter(|&c| c >= ' ') {
            assert_eq!(count_of(&[c, '\u{301}']), 1, "{c:?} takes no mark");
        }
    }

    #[test]
    fn an_emoji_joins_an_emoji() {
        for c in (char::MIN..=char::MAX).filter(|&c| is_emoji(c)) {
            assert_eq!(count_of(&['👩', '\u{200d}', c]), 1, "{c:?}");
            assert_eq!(count_of(&[c, '\u{200d}', '👩']), 1, "{c:?}");
            assert_eq!(count_of(&[c, '🏽', '\u{fe0f}', '\u{200d}', '👩']), 1, "{c:?}");
        }
    }

    #[test]
    fn the_class_of_the_first_is_the_class_of_the_char() {
        for c in char::MIN..=char::MAX {
            let text = String::from(c);
            assert!(Class::first(text.as_bytes()) == Some((class(c), c.len_utf8())), "{c:?}");
        }
    }
}
