//! Removes endings of words, so that one form of a word finds the others.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

/// The rule that removes the endings of words.
///
/// ```
/// use memory_prompt::recall::Endings;
///
/// let light = Endings::Light;
/// assert_eq!(light.strip("stories"), light.strip("story"));
/// assert_eq!(light.strip("painting"), light.strip("painted"));
/// assert_eq!(Endings::Kept.strip("painting"), "painting");
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Endings {
    /// Removes a few English endings, and the most common ones in Cyrillic and Arabic letters;
    /// common irregular English forms become the regular one.
    #[default]
    Light,
    /// Words stay as they are.
    Kept,
    /// The application's own rule, made by [`Endings::own`].
    #[non_exhaustive]
    Own(&'static str, Arc<dyn Fn(&str) -> String + Send + Sync>),
}

impl Endings {
    /// Returns a rule of your own, for example a stemmer: a function of a word in lower case.
    /// [`Debug`](fmt::Debug) shows the name.
    ///
    /// The rule runs while the index of the conversation is locked, so it must not use the
    /// [`Recall`] that it is set in.
    ///
    /// [`Recall`]: super::Recall
    pub fn own(name: &'static str, rule: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::Own(name, Arc::new(rule))
    }

    /// Returns a word, which must be in lower case, without its ending.
    pub fn strip<'a>(&self, word: &'a str) -> Cow<'a, str> {
        match self {
            Self::Light => light(word),
            Self::Kept => Cow::Borrowed(word),
            Self::Own(_, rule) => Cow::Owned(rule(word)),
        }
    }
}

impl fmt::Debug for Endings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Light => f.write_str("Light"),
            Self::Kept => f.write_str("Kept"),
            Self::Own(name, _) => write!(f, "Own({name:?})"),
        }
    }
}

fn light(word: &str) -> Cow<'_, str> {
    match word.chars().next() {
        Some('a'..='z') if word.is_ascii() => english(word),
        Some('\u{400}'..='\u{52f}') => Cow::Borrowed(without(word, CYRILLIC, 3)),
        Some('\u{600}'..='\u{6ff}') => Cow::Borrowed(arabic(word)),
        _ => Cow::Borrowed(word),
    }
}

/// Removes the first of these endings that leaves at least this many characters.
fn without<'a>(word: &'a str, endings: &[&str], least: usize) -> &'a str {
    let mut stems = endings.iter().filter_map(|ending| word.strip_suffix(ending));
    stems.find(|stem| stem.chars().nth(least - 1).is_some()).unwrap_or(word)
}

fn english(word: &str) -> Cow<'_, str> {
    let word = word.strip_suffix("'s").unwrap_or(word);
    let irregular = IRREGULAR.binary_search_by_key(&word, |(form, _)| *form);
    let word = irregular.map_or(word, |place| IRREGULAR[place].1);
    if word.len() < 4 {
        return Cow::Borrowed(word);
    }
    let is_vowel = |byte: u8| b"aeiouy".contains(&byte);
    if let Some(stem) = word.strip_suffix("ies").or_else(|| word.strip_suffix("ied")) {
        if stem.len() > 1 {
            return Cow::Owned(format!("{stem}i"));
        }
        return Cow::Borrowed(word);
    }
    let mut stem = match word.strip_suffix('s') {
        Some(stem) if !stem.ends_with(['s', 'u', 'i']) => stem,
        _ => word,
    };
    for ending in ["ing", "ed", "ly"] {
        let Some(rest) = stem.strip_suffix(ending) else { continue };
        if rest.len() >= 3 && rest.bytes().any(is_vowel) {
            stem = rest;
            let bytes = stem.as_bytes();
            let is_double = |&[a, b]: &[u8; 2]| a == b && !is_vowel(a) && !b"lsz".contains(&a);
            if ending != "ly" && bytes.last_chunk().is_some_and(is_double) {
                stem = &stem[..stem.len() - 1];
            }
        }
        break;
    }
    if stem.len() > 3 {
        stem = stem.strip_suffix('e').unwrap_or(stem);
    }
    match stem.strip_suffix('y') {
        Some(rest) if rest.len() > 2 && !rest.bytes().next_back().is_some_and(is_vowel) => {
            Cow::Owned(format!("{rest}i"))
        }
        _ => Cow::Borrowed(stem),
    }
}

/// English irregular forms, sorted for the binary search.
#[rustfmt::skip]
const IRREGULAR: &[(&str, &str)] = &[
    ("ate", "eat"), ("became", "become"), ("began", "begin"), ("begun", "begin"), ("bought", "buy"),
    ("broke", "break"), ("broken", "break"), ("brought", "bring"), ("built", "build"),
    ("came", "come"), ("caught", "catch"), ("children", "child"), ("chose", "choose"),
    ("chosen", "choose"), ("drank", "drink"), ("driven", "drive"), ("drove", "drive"),
    ("eaten", "eat"), ("fallen", "fall"), ("feet", "foot"), ("fell", "fall"), ("felt", "feel"),
    ("flew", "fly"), ("flown", "fly"), ("forgot", "forget"), ("forgotten", "forget"),
    ("found", "find"), ("gave", "give"), ("given", "give"), ("gone", "go"), ("got", "get"),
    ("gotten", "get"), ("grew", "grow"), ("grown", "grow"), ("heard", "hear"), ("held", "hold"),
    ("kept", "keep"), ("knew", "know"), ("known", "know"), ("led", "lead"), ("left", "leave"),
    ("lost", "lose"), ("made", "make"), ("men", "man"), ("met", "meet"), ("mice", "mouse"),
    ("paid", "pay"), ("ran", "run"), ("said", "say"), ("sang", "sing"), ("saw", "see"),
    ("seen", "see"), ("sent", "send"), ("slept", "sleep"), ("sold", "sell"), ("spent", "spend"),
    ("spoke", "speak"), ("spoken", "speak"), ("stood", "stand"), ("swam", "swim"),
    ("taken", "take"), ("taught", "teach"), ("teeth", "tooth"), ("thought", "think"),
    ("threw", "throw"), ("told", "tell"), ("took", "take"), ("understood", "understand"),
    ("went", "go"), ("wives", "wife"), ("women", "woman"), ("won", "win"), ("wore", "wear"),
    ("worn", "wear"), ("written", "write"), ("wrote", "write"),
];

/// Sorted by length, the longest first.
const CYRILLIC: &[&str] = &[
    "иями", "ыми", "ими", "ого", "его", "ому", "ему", "ами", "ями", "иях", "ием", "ией", "ешь",
    "ишь", "ете", "ите", "ают", "яют", "ала", "ила", "ела", "али", "или", "ели", "ать", "ить",
    "еть", "ует", "уют", "ает", "яет", "ся", "сь", "ый", "ий", "ой", "ей", "ая", "яя", "ое", "ее",
    "ые", "ие", "ых", "их", "ую", "юю", "ом", "ем", "ам", "ям", "ах", "ях", "ов", "ев", "ия", "ии",
    "ию", "ью", "ал", "ил", "ел", "ет", "ит", "ут", "ют", "ят", "ат", "ть", "ла", "ло", "ли", "а",
    "я", "о", "е", "и", "ы", "у", "ю", "ь", "й",
];

fn arabic(word: &str) -> &str {
    let long = |word: &str| word.chars().nth(2).is_some();
    let articles = ["وال", "بال", "كال", "فال", "لل", "ال", "و"];
    let stem = articles.iter().filter_map(|article| word.strip_prefix(article)).find(|it| long(it));
    without(stem.unwrap_or(word), &["ها", "ان", "ات", "ون", "ين", "يه", "ه", "ي"], 3)
}
