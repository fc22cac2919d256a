//! The words of a text: case folded, without endings, as numbers.

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::endings::Endings;

/// A word as the index knows it. Two words share a number by a chance of one in four billion:
/// that costs a hit its rank at worst.
pub(super) type Word = u32;

/// The most words of a text that are looked at.
pub(super) const MOST_WORDS: usize = u16::MAX as usize;

/// Hands out the words of a text with their places, up to [`MOST_WORDS`].
///
/// Scripts without spaces have no words that could be found without a dictionary: there it is each
/// pair of neighbouring characters, or a character that stands alone.
pub(super) fn each_word(text: &str, endings: &Endings, mut found: impl FnMut(Word, Range<usize>)) {
    let mut run: Option<Run> = None;
    let mut left = MOST_WORDS;
    let mut found = |word, place| {
        left = left.saturating_sub(1);
        found(word, place);
        left > 0
    };
    for (start, word) in text.unicode_word_indices() {
        let end = start + word.len();
        if !word.chars().next().is_some_and(is_unspaced) {
            let goes_on = finish(run.take(), &mut found)
                && found(hash(&endings.strip(&fold(word))), start..end);
            if !goes_on {
                return;
            }
            continue;
        }
        if run.as_ref().is_some_and(|run| run.end != start) && !finish(run.take(), &mut found) {
            return;
        }
        for (at, character) in word.char_indices().filter(|(_, it)| it.is_alphanumeric()) {
            if PARTICLES.contains(character) {
                if !finish(run.take(), &mut found) {
                    return;
                }
                continue;
            }
            let next = Run { start: start + at, end, last: character, is_alone: run.is_none() };
            if let Some(before) = &run {
                let pair = String::from_iter([before.last, character]);
                let place = before.start..start + at + character.len_utf8();
                if !found(hash(&pair), place) {
                    return;
                }
            }
            run = Some(next);
        }
    }
    finish(run, &mut found);
}

/// Characters that stand between words of Chinese and Japanese more often than in them: a pair
/// with one of these says nothing, and there are many.
const PARTICLES: &str = "的了着过過吗嗎呢吧啊呀嘛はがをにでとのもへ";

/// Characters side by side in a script without spaces: the last of them.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    last: char,
    is_alone: bool,
}

fn finish(run: Option<Run>, found: &mut impl FnMut(Word, Range<usize>) -> bool) -> bool {
    match run {
        Some(Run { start, end, last, is_alone: true }) => {
            found(hash(last.encode_utf8(&mut [0; 4])), start..end)
        }
        _ => true,
    }
}

/// Returns whether words of this script stand side by side without a space.
fn is_unspaced(character: char) -> bool {
    matches!(u32::from(character),
        0x0e00..=0x0eff // Thai, Lao
        | 0x1000..=0x109f | 0x1780..=0x17ff // Myanmar, Khmer
        | 0x3040..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f // kana
        | 0x3005..=0x3007 | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// Returns the word in lower case, without the marks that people leave out.
fn fold(word: &str) -> Cow<'_, str> {
    if word.is_ascii() {
        return if word.bytes().any(|byte| byte.is_ascii_uppercase()) {
            Cow::Owned(word.to_ascii_lowercase())
        } else {
            Cow::Borrowed(word)
        };
    }
    let mut folded = String::with_capacity(word.len());
    for character in word.chars().flat_map(char::to_lowercase) {
        match character {
            'à'..='å' => folded.push('a'),
            'ç' => folded.push('c'),
            'è'..='ë' => folded.push('e'),
            'ì'..='ï' => folded.push('i'),
            'ñ' => folded.push('n'),
            'ò'..='ö' | 'ø' => folded.push('o'),
            'ù'..='ü' => folded.push('u'),
            'ý' | 'ÿ' => folded.push('y'),
            'ß' => folded.push_str("ss"),
            '’' => folded.push('\''),
            'ё' => folded.push('е'),
            'أ' | 'إ' | 'آ' => folded.push('ا'),
            'ى' => folded.push('ي'),
            'ة' => folded.push('ه'),
            'ـ' | '\u{64b}'..='\u{652}' | '\u{300}'..='\u{36f}' => {}
            other => folded.push(other),
        }
    }
    Cow::Owned(folded)
}

/// Returns a hash (FNV-1a) that is the same in every process.
pub(super) fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Returns the number of a word: its hash, folded to 32 bits.
fn hash(word: &str) -> Word {
    let wide = fnv(word.bytes());
    #[expect(clippy::cast_possible_truncation, reason = "the upper half is in it")]
    let word = (wide ^ wide >> 32) as Word;
    word
}
