//! The words of a text as numbers: case-folded, without endings.

use std::borrow::Cow;
use std::ops::Range;

use unicode_segmentation::UnicodeSegmentation;

use super::endings::Endings;
use crate::message::fnv1a;
use crate::text::floor_char_boundary;

/// A word as a number. Two words share a number with a chance of one in two billion; at worst that
/// changes a hit's rank.
pub(super) type Word = u32;

const MOST_BYTES: usize = 512 << 10;

/// Calls `found` for each word of a text with its place; of a very long text, for those of its
/// beginning.
///
/// - An identifier is found whole and by its parts: `getUserById`, `ERR_SSL`, `main.rs`.
/// - In scripts without spaces words can't be found without a dictionary. There, and in Korean,
///   each pair of neighbouring characters is a word, and so is a single character.
/// - In a language whose endings are unknown, each four letters of a longer word are words too.
pub(super) fn each_word(text: &str, endings: &Endings, mut found: impl FnMut(Word, Range<usize>)) {
    let text = text.split_at(floor_char_boundary(text, MOST_BYTES)).0;
    let mut run: Option<Run> = None;
    let by_fours = matches!(endings, Endings::Light) && is_foreign(text);
    for (start, word) in text.unicode_word_indices() {
        let end = start + word.len();
        if !word.chars().next().is_some_and(is_unspaced) {
            finish(run.take(), &mut found);
            let folded = fold(word);
            found(hash(&endings.strip(&folded)), start..end);
            for part in parts(word) {
                let place = start + part.start..start + part.end;
                found(hash(&endings.strip(&fold(&word[part]))), place);
            }
            if by_fours {
                fours(&folded, |four| found(hash(four), start..end));
            }
            continue;
        }
        if run.as_ref().is_some_and(|run| run.end != start) {
            finish(run.take(), &mut found);
        }
        for (at, character) in word.char_indices().filter(|(_, it)| it.is_alphanumeric()) {
            if PARTICLES.contains(character) {
                finish(run.take(), &mut found);
                continue;
            }
            let next = Run { start: start + at, end, last: character, is_alone: run.is_none() };
            if let Some(before) = &run {
                let pair = String::from_iter([before.last, character]);
                found(hash(&pair), before.start..start + at + character.len_utf8());
            }
            run = Some(next);
        }
    }
    finish(run, &mut found);
}

/// Returns the parts of an identifier, split at marks, humps and digits.
fn parts(word: &str) -> Vec<Range<usize>> {
    let mut parts = Vec::new();
    let (mut from, mut before) = (0, ' ');
    let mut characters = word.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        let next = characters.peek().map_or(' ', |(_, next)| *next);
        let is_mark = !c.is_alphanumeric() && !matches!(c, '\'' | '’');
        let is_hump = c.is_uppercase()
            && (before.is_lowercase() || (before.is_uppercase() && next.is_lowercase()));
        let is_seam = before.is_alphanumeric()
            && c.is_alphanumeric()
            && before.is_numeric() != c.is_numeric();
        if is_mark || is_hump || is_seam {
            parts.push(from..at);
            from = if is_mark { at + c.len_utf8() } else { at };
        }
        before = c;
    }
    if !parts.is_empty() {
        parts.push(from..word.len());
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Calls `found` for each four letters of a longer word.
fn fours(word: &str, mut found: impl FnMut(&str)) {
    let ends = word.char_indices().map(|(at, _)| at).chain([word.len()]).skip(4);
    if ends.clone().nth(1).is_some() {
        word.char_indices().zip(ends).for_each(|((from, _), to)| found(&word[from..to]));
    }
}

/// Returns whether the endings of a text's language are unknown: its script has no rule, or its
/// Latin letters have marks and it has none of the most common English words.
fn is_foreign(text: &str) -> bool {
    let is_marked = |c| matches!(c, '\u{c0}'..='\u{24f}' | '\u{1e00}'..='\u{1eff}');
    let is_other = |c| {
        matches!(c, '\u{370}'..='\u{3ff}' | '\u{530}'..='\u{5ff}' | '\u{900}'..='\u{dff}'
            | '\u{10a0}'..='\u{10ff}' | '\u{1200}'..='\u{137f}')
    };
    let is_english = || {
        let mut words = text.split(|c: char| !c.is_alphanumeric());
        words.any(|word| matches!(word, "the" | "and" | "of" | "you" | "that" | "with" | "this"))
    };
    !text.is_ascii() && text.contains(is_other) || text.contains(is_marked) && !is_english()
}

/// Chinese and Japanese characters that occur between words more often than in them: pairs with one
/// of these are frequent and say nothing.
const PARTICLES: &str = "的了着过過吗嗎呢吧啊呀嘛はがをにでとのもへ";

/// The last of several characters in a row in a script without spaces.
#[derive(Clone, Copy)]
struct Run {
    start: usize,
    end: usize,
    last: char,
    is_alone: bool,
}

fn finish(run: Option<Run>, found: &mut impl FnMut(Word, Range<usize>)) {
    if let Some(Run { start, end, last, is_alone: true }) = run {
        found(hash(last.encode_utf8(&mut [0; 4])), start..end);
    }
}

fn is_unspaced(character: char) -> bool {
    matches!(u32::from(character),
        0x0e00..=0x0eff // Thai, Lao
        | 0x1000..=0x109f | 0x1780..=0x17ff // Myanmar, Khmer
        | 0x3040..=0x30ff | 0x31f0..=0x31ff | 0xff66..=0xff9f // kana
        | 0x1100..=0x11ff | 0x3130..=0x318f | 0xac00..=0xd7a3 // Hangul
        | 0x3005..=0x3007 | 0x3400..=0x4dbf | 0x4e00..=0x9fff | 0xf900..=0xfaff | 0x20000..=0x3ffff)
}

/// Returns the word in lower case, without the diacritics that people leave out.
fn fold(word: &str) -> Cow<'_, str> {
    if word.bytes().all(|byte| byte.is_ascii() && !byte.is_ascii_uppercase()) {
        return Cow::Borrowed(word);
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

/// Returns the number of a word: its hash in 31 bits, and one bit for hiragana.
fn hash(word: &str) -> Word {
    let wide = fnv1a(word.bytes());
    #[expect(clippy::cast_possible_truncation, reason = "the upper half is in it")]
    let folded = (wide ^ wide >> 32) as Word;
    folded << 1 | Word::from(word.chars().all(|c| matches!(c, 'ぁ'..='ゟ')))
}

/// Returns whether a word is more often grammar than not: words in hiragana.
pub(super) fn is_grammar(word: Word) -> bool {
    word & 1 == 1
}
