//! Measuring and cutting text without breaking a character.
//!
//! One character of a reader may be many scalar values: `é` written with a combining accent, a
//! Hangul syllable, a family emoji. A cut between them shows as a broken character, or as another
//! one. So with every [`Unit`] a [`Cut`] falls on a boundary between *extended grapheme clusters*
//! ([UAX #29](https://www.unicode.org/reports/tr29/)).
//!
//! ```
//! use std::num::NonZeroUsize;
//! use memory_prompt::text::{Cut, Keep, Unit};
//!
//! let limit = NonZeroUsize::new(32).ok_or("a limit is at least 1")?;
//! let cut = Cut::new(limit, Unit::Graphemes)
//!     .keep(Keep::Ends)
//!     .marker(" … [{left_out} left out] … ");
//!
//! let log = "error: no such file\n".repeat(500);
//! assert_eq!(cut.apply(&log), "error … [9,990 left out] … file\n");
//! assert_eq!(cut.apply("short enough"), "short enough");
//! # Ok::<(), &str>(())
//! ```
//!
//! # Guarantees of every cut
//!
//! - The result, marker included, measures at most the limit. It is never empty, unless the text
//!   was empty, and never white space alone, unless the text was.
//! - A text that fits is returned borrowed and unchanged; so cutting twice equals cutting once.
//! - The kept text is whole clusters of the original text: a prefix of it, a suffix of it, or both.
//!
//! # Cost
//!
//! A cut reads the text that it keeps and the cluster next to that, from the end that is kept.
//! Three things read further:
//! - a marker that says how much was left out has to count all of that;
//! - a cut that would keep white space alone looks for text after it;
//! - a [tail](Keep::Tail) that starts with a flag, an emoji or a consonant may read back to the
//!   beginning of the run of flags or combining marks before it, which decides where the tail
//!   begins.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};
use unicode_segmentation::{GraphemeCursor, GraphemeIncomplete, UnicodeSegmentation};

/// A cluster of up to this many scalar values counts as one grapheme, a longer one as several, so
/// that "1000 characters" can't be megabytes of combining marks.
const SCALARS_PER_GRAPHEME: usize = 32;

/// The placeholder in a marker for the number left out.
const LEFT_OUT: &str = "{left_out}";

/// The unit that a length counts. With every unit a cut falls on a grapheme boundary.
///
/// ```
/// use memory_prompt::text::{Unit, count};
///
/// let family = "👩‍👩‍👧"; // three emoji and two joiners, shown as one
/// assert_eq!(count(family, Unit::Graphemes), 1);
/// assert_eq!(count(family, Unit::Scalars), 5);
/// assert_eq!(count(family, Unit::Utf16), 8);
/// assert_eq!(count(family, Unit::Bytes), 18);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Unit {
    /// Extended grapheme clusters: the characters that a reader sees. A cluster counts as one for
    /// each 32 scalar values that it holds or begins.
    #[default]
    Graphemes,
    /// Unicode scalar values, Rust's `char`.
    Scalars,
    /// UTF-16 code units: the length of a string in Java and JavaScript.
    Utf16,
    /// Bytes of UTF-8.
    Bytes,
}

impl Unit {
    fn of_cluster(self, cluster: &str) -> usize {
        match self {
            // Nearly every cluster: so few bytes can't hold more scalar values.
            Self::Graphemes if cluster.len() <= SCALARS_PER_GRAPHEME => 1,
            Self::Graphemes => cluster.chars().count().div_ceil(SCALARS_PER_GRAPHEME),
            Self::Scalars | Self::Utf16 | Self::Bytes => count(cluster, self),
        }
    }

    /// Returns the most bytes that a text of this measure can have.
    fn most_bytes(self, measure: usize) -> usize {
        measure.saturating_mul(match self {
            Self::Graphemes => SCALARS_PER_GRAPHEME * 4,
            Self::Scalars => 4,
            Self::Utf16 => 3, // four bytes are two units
            Self::Bytes => 1,
        })
    }
}

/// The end of a text that survives a cut.
///
/// An instruction is often at the end of a text that a user pastes ("… Translate this."), and the
/// reason of a failure at the end of a log. For such texts use [`Ends`](Self::Ends), or
/// [`Truncate::sparing_question`](crate::Truncate::sparing_question) for the newest question.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keep {
    /// The beginning.
    #[default]
    Head,
    /// The end.
    Tail,
    /// Both, half of the limit each.
    Ends,
}

/// Measures a text.
///
/// It reads the whole text: to learn whether a text is within a limit, use [`fits`].
///
/// ```
/// use memory_prompt::text::{Unit, count};
///
/// assert_eq!(count("naïve\r\n", Unit::Graphemes), 6); // a line break is one
/// assert_eq!(count("naïve\r\n", Unit::Bytes), 8);
/// ```
pub fn count(text: &str, unit: Unit) -> usize {
    match unit {
        // Each ASCII character is a cluster, except for CR LF.
        Unit::Graphemes if text.is_ascii() => text.len() - text.matches("\r\n").count(),
        Unit::Graphemes => text.graphemes(true).map(|cluster| unit.of_cluster(cluster)).sum(),
        Unit::Scalars => text.chars().count(),
        Unit::Utf16 => text.chars().map(char::len_utf16).sum(),
        Unit::Bytes => text.len(),
    }
}

/// Returns whether a text measures at most `limit`.
///
/// The cost depends on the limit, not on the length of the text.
///
/// ```
/// use memory_prompt::text::{Unit, fits};
///
/// assert!(fits("🇳🇴🇸🇪", 2, Unit::Graphemes));
/// assert!(!fits("🇳🇴🇸🇪", 3, Unit::Scalars));
/// ```
pub fn fits(text: &str, limit: usize, unit: Unit) -> bool {
    // A byte is the smallest unit: so few bytes need no scan.
    text.len() <= limit
        || text.len() <= unit.most_bytes(limit)
            && longest(text.graphemes(true), limit, unit).bytes == text.len()
}

/// A rule for cutting a text that is too long: the limit, the end that is kept, and the marker of
/// the gap.
///
/// ```
/// use std::borrow::Cow;
/// use std::num::NonZeroUsize;
/// use memory_prompt::text::{Cut, Keep, Unit};
///
/// let three = NonZeroUsize::new(3).ok_or("a limit is at least 1")?;
/// let cut = Cut::new(three, Unit::Graphemes);
/// assert_eq!(cut.apply("ab😀cd"), "ab😀");
/// assert_eq!(cut.clone().keep(Keep::Tail).apply("ab😀cd"), "😀cd");
/// assert_eq!(cut.clone().marker("…").apply("ab😀cd"), "ab…");
/// assert_eq!(Cut::new(three, Unit::Bytes).apply("ab😀cd"), "ab");
/// assert!(matches!(cut.apply("abc"), Cow::Borrowed("abc")));
/// # Ok::<(), &str>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Cut {
    limit: NonZeroUsize,
    unit: Unit,
    keep: Keep,
    marker: String, // empty: none
    counts: bool,   // whether the marker has the placeholder
}

impl Cut {
    /// Keeps the head of a text, at most `limit` long, with no marker.
    #[must_use]
    pub const fn new(limit: NonZeroUsize, unit: Unit) -> Self {
        Self { limit, unit, keep: Keep::Head, marker: String::new(), counts: false }
    }

    /// Returns the same cut with another limit.
    #[must_use]
    pub const fn limited(mut self, limit: NonZeroUsize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets the end that is kept.
    #[must_use]
    pub const fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Sets the marker of the gap. The marker counts within the limit.
    ///
    /// In it, `{left_out}` is replaced by how much of the text is gone, in the unit of the limit
    /// and with thousands separated by commas. For that, a cut must measure the whole text.
    ///
    /// A marker that would leave room for no character of the text, or for white space alone, is
    /// left out itself. If nothing else fits even then, the result is the marker alone if it fits
    /// and is not white space itself, or else `…`, or `.` if that is too long. An empty marker is
    /// none.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use memory_prompt::text::{Cut, Unit};
    ///
    /// let limit = NonZeroUsize::new(35).ok_or("a limit is at least 1")?;
    /// let cut = Cut::new(limit, Unit::Graphemes).marker("… [{left_out} characters left out]");
    /// assert_eq!(cut.apply(&"la".repeat(1160)), "lalala… [2,314 characters left out]");
    /// # Ok::<(), &str>(())
    /// ```
    #[must_use]
    pub fn marker(mut self, marker: impl Into<String>) -> Self {
        self.marker = marker.into();
        self.counts = self.marker.contains(LEFT_OUT);
        self
    }

    /// Returns the most that a result may measure.
    pub const fn limit(&self) -> NonZeroUsize {
        self.limit
    }

    /// Returns the unit that the limit counts.
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// Returns the end that is kept.
    pub const fn keeps(&self) -> Keep {
        self.keep
    }

    /// Returns the marker as it was set, with the placeholder.
    pub fn marker_template(&self) -> Option<&str> {
        (!self.marker.is_empty()).then_some(self.marker.as_str())
    }

    /// Cuts a text; borrows it if it fits, or if one end of it is kept without a marker.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.plan(&[text]) {
            None => Cow::Borrowed(text),
            Some(plan) => plan.piece(0, text).unwrap_or_default(),
        }
    }

    /// Decides where a text in several pieces is cut, or `None` if all of it fits.
    ///
    /// The pieces, such as the text parts of a message with pictures between them, share the limit.
    /// They are measured one by one: no character spans two pieces.
    ///
    /// ```
    /// use std::num::NonZeroUsize;
    /// use memory_prompt::text::{Cut, Keep, Unit};
    ///
    /// let six = NonZeroUsize::new(6).ok_or("a limit is at least 1")?;
    /// let cut = Cut::new(six, Unit::Graphemes).keep(Keep::Ends).marker("…");
    /// let pieces = ["before", "between", "after"];
    ///
    /// let plan = cut.plan(&pieces).ok_or("too long")?;
    /// assert_eq!(plan.piece(0, pieces[0]).as_deref(), Some("bef…"));
    /// assert_eq!(plan.piece(1, pieces[1]), None);
    /// assert_eq!(plan.piece(2, pieces[2]).as_deref(), Some("er"));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn plan(&self, pieces: &[&str]) -> Option<Plan> {
        let limit = self.limit.get();
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() <= limit {
            return None;
        }
        // Only a marker that says how much is left out needs the total. Without one, the cut itself
        // shows whether everything fits.
        let total = self.counts.then(|| self.measure(pieces));
        if total.is_some_and(|total| total <= limit) {
            return None;
        }
        let all_fits = |kept: &Kept| total.is_none() && self.gap_fits(pieces, kept);
        // White space alone would pass for a text that says nothing.
        let is_nothing = |kept: &Kept| {
            kept.measure == 0 || kept.is_blank(pieces) && !pieces.iter().all(|it| is_blank(it))
        };

        // The more is left out, the wider the number in the marker may be, and the less room is
        // left for text. Start with the smallest number that is possible, and make room for a wider
        // one until the resulting number fits. The number may then be narrower than its room: two
        // ends may keep more in less room.
        let mut left_out = total.map_or(0, |total| total - limit);
        let mut width =
            if self.marker.is_empty() { limit } else { count(&self.rendered(left_out), self.unit) };
        while width < limit {
            let kept = self.select(pieces, limit - width, &self.rendered(left_out));
            if all_fits(&kept) {
                return None;
            }
            left_out = total.map_or(0, |total| total - kept.measure);
            let marker = self.rendered(left_out);
            let needed = count(&marker, self.unit);
            if needed <= width {
                if is_nothing(&kept) {
                    break;
                }
                return Some(kept.plan(marker));
            }
            width = needed;
        }

        let kept = self.select(pieces, limit, "");
        if all_fits(&kept) {
            return None;
        }
        if is_nothing(&kept) {
            return Some(self.select(pieces, 0, "").plan(self.alone(total.unwrap_or(0))));
        }
        Some(kept.plan(String::new()))
    }

    /// Returns the replacement for a text that does not fit at all.
    fn alone(&self, total: usize) -> String {
        let mut markers = [self.rendered(total), "…".to_owned()].into_iter();
        let fitting = markers.find(|it| !is_blank(it) && fits(it, self.limit.get(), self.unit));
        fitting.unwrap_or_else(|| ".".to_owned())
    }

    fn rendered(&self, left_out: usize) -> String {
        self.marker.replace(LEFT_OUT, &Grouped(left_out).to_string())
    }

    fn measure(&self, pieces: &[&str]) -> usize {
        pieces.iter().map(|piece| count(piece, self.unit)).sum()
    }

    /// Returns the ends that are kept within `budget`, with `marker` in the gap.
    fn select(&self, pieces: &[&str], budget: usize, marker: &str) -> Kept {
        let (head, tail) = match self.keep {
            Keep::Head => (self.front(pieces, budget), self.back(pieces, 0)),
            Keep::Tail => (self.front(pieces, 0), self.back(pieces, budget)),
            Keep::Ends => {
                let tail = self.back(pieces, budget / 2);
                let head = self.front(pieces, budget - tail.1);
                // One wide character may be over half of the budget, and still fit.
                let tail = if head.1 == 0 { self.back(pieces, budget) } else { tail };
                (head, tail)
            }
        };
        let mut kept = Kept { head: head.0, tail: tail.0, measure: head.1 + tail.1 };
        self.part_flags(pieces, &mut kept, marker);
        kept
    }

    /// Returns the longest beginning of the pieces within `budget`: where it ends, and its measure.
    fn front(&self, pieces: &[&str], budget: usize) -> (Place, usize) {
        let mut end = Place { piece: 0, byte: 0 };
        let mut measure = 0;
        for (piece, text) in pieces.iter().enumerate() {
            let span = longest(text.graphemes(true), budget - measure, self.unit);
            measure += span.measure;
            if span.bytes > 0 {
                end = Place { piece, byte: span.bytes };
            }
            if span.bytes < text.len() {
                break;
            }
        }
        (end, measure)
    }

    /// Returns the longest end of the pieces within `budget`: where it starts, and its measure.
    fn back(&self, pieces: &[&str], budget: usize) -> (Place, usize) {
        let mut start = Place {
            piece: pieces.len().saturating_sub(1),
            byte: pieces.last().map_or(0, |text| text.len()),
        };
        let mut measure = 0;
        for (piece, text) in pieces.iter().enumerate().rev() {
            let span = longest(text.graphemes(true).rev(), budget - measure, self.unit);
            measure += span.measure;
            if span.bytes > 0 {
                start = Place { piece, byte: text.len() - span.bytes };
            }
            if span.bytes < text.len() {
                break;
            }
        }
        (start, measure)
    }

    /// Returns whether everything fits after all: the text between the two ends measures no more
    /// than they leave of the limit.
    fn gap_fits(&self, pieces: &[&str], kept: &Kept) -> bool {
        let Kept { head, tail, measure } = kept;
        let mut room = self.limit.get() - measure;
        // The head may have reached the tail, or passed it: then there is nothing between them.
        for (piece, text) in pieces.iter().enumerate().take(tail.piece + 1).skip(head.piece) {
            let start = if piece == head.piece { head.byte } else { 0 };
            let end = if piece == tail.piece { tail.byte } else { text.len() };
            let gap = text.get(start..end).unwrap_or_default();
            let span = longest(gap.graphemes(true), room, self.unit);
            if span.bytes < gap.len() {
                return false;
            }
            room -= span.measure;
        }
        true
    }

    /// Gives up a regional indicator that would pair with another one across the gap.
    ///
    /// Half a flag at the gap would make a flag that was not in the text, and change the pairs of
    /// all flags after it. Only flags can make a text measure more than the sum of its parts: any
    /// other join at the gap makes one cluster of two. So no result needs to be measured.
    fn part_flags(&self, pieces: &[&str], kept: &mut Kept, marker: &str) {
        let mut front = &pieces[kept.head.piece][..kept.head.byte];
        let mut back = &pieces[kept.tail.piece][kept.tail.byte..];
        let after = match marker {
            "" if kept.head.piece == kept.tail.piece => back,
            marker => marker,
        };
        while half_flag_at(front, after)
            && let Some(cluster) = front.graphemes(true).next_back()
        {
            front = &front[..front.len() - cluster.len()];
            kept.head.byte = front.len();
            kept.measure -= self.unit.of_cluster(cluster);
        }
        while half_flag_at(marker, back)
            && let Some(cluster) = back.graphemes(true).next()
        {
            back = &back[cluster.len()..];
            kept.tail.byte += cluster.len();
            kept.measure -= self.unit.of_cluster(cluster);
        }
    }
}

/// A place in a text of several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The index of the piece.
    pub piece: usize,
    /// The offset in it.
    pub byte: usize,
}

/// The places where a text in pieces is cut. See [`Cut::plan`].
///
/// Pieces before the head's and after the tail's are whole; pieces between the two are gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Plan {
    /// The place where the kept beginning ends.
    pub head: Place,
    /// The place where the kept end starts.
    pub tail: Place,
    /// The text in the gap; may be empty. It ends the head's piece, if anything is kept there, and
    /// otherwise starts the tail's.
    pub marker: String,
}

impl Plan {
    /// Returns what is left of a piece: its text, marker included, or `None` if it is gone.
    ///
    /// `text` is the piece with that index among those that the plan was made for.
    pub fn piece<'a>(&self, index: usize, text: &'a str) -> Option<Cow<'a, str>> {
        let Self { head, tail, marker } = self;
        if index < head.piece || index > tail.piece {
            return Some(Cow::Borrowed(text));
        }
        // `get` and not an index: a text that the plan was not made for must not panic.
        let front = text.get(..head.byte).filter(|_| index == head.piece).unwrap_or_default();
        let back = text.get(tail.byte..).filter(|_| index == tail.piece).unwrap_or_default();
        let gap = if head.byte > 0 { head.piece } else { tail.piece };
        let marker = if index == gap { marker.as_str() } else { "" };
        match (front, marker, back) {
            ("", "", "") => None,
            (kept, "", "") | ("", "", kept) => Some(Cow::Borrowed(kept)),
            _ => Some(Cow::Owned([front, marker, back].concat())),
        }
    }
}

struct Kept {
    head: Place,
    tail: Place,
    measure: usize,
}

impl Kept {
    fn is_blank(&self, pieces: &[&str]) -> bool {
        let Self { head, tail, .. } = self;
        pieces[..head.piece].iter().chain(&pieces[tail.piece + 1..]).all(|it| is_blank(it))
            && is_blank(&pieces[head.piece][..head.byte])
            && is_blank(&pieces[tail.piece][tail.byte..])
    }

    fn plan(self, marker: String) -> Plan {
        Plan { head: self.head, tail: self.tail, marker }
    }
}

fn is_blank(text: &str) -> bool {
    text.chars().all(char::is_whitespace)
}

#[derive(Clone, Copy, Default)]
struct Span {
    bytes: usize,
    measure: usize,
}

/// Returns the longest run of these clusters, from the first on, that measures at most `limit`.
fn longest<'a>(mut clusters: impl Iterator<Item = &'a str>, limit: usize, unit: Unit) -> Span {
    let mut span = Span::default();
    // A cluster that can't fit is not even read: it may be long.
    while span.measure < limit
        && let Some(cluster) = clusters.next()
    {
        let measure = unit.of_cluster(cluster);
        if measure > limit - span.measure {
            break;
        }
        span.bytes += cluster.len();
        span.measure += measure;
    }
    span
}

/// Returns whether `before` ends in a regional indicator without a partner, and `after` starts with
/// one.
fn half_flag_at(before: &str, after: &str) -> bool {
    let is_half = |c: &char| ('\u{1f1e6}'..='\u{1f1ff}').contains(c);
    after.chars().next().is_some_and(|c| is_half(&c))
        && before.chars().rev().take_while(is_half).count() % 2 == 1
}

/// Returns the last boundary between scalar values at or before `at`, like the standard library's
/// method of this name, which needs Rust 1.91.
pub(crate) fn floor_char_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// Returns the beginning of a text in whole characters, at most this many scalar values. One
/// character that is longer is cut all the same.
pub(crate) fn first(text: &str, most: usize) -> &str {
    let Some((end, _)) = text.char_indices().nth(most) else { return text };
    text.split_at(boundary(text, end, GraphemeCursor::prev_boundary)).0
}

/// Returns the end of a text, as [`first`] returns its beginning.
pub(crate) fn last(text: &str, most: usize) -> &str {
    let Some((before, c)) = text.char_indices().nth_back(most) else { return text };
    text.split_at(boundary(text, before + c.len_utf8(), GraphemeCursor::next_boundary)).1
}

type Step = fn(&mut GraphemeCursor, &str, usize) -> Result<Option<usize>, GraphemeIncomplete>;

/// Returns this place between two scalar values if it is a boundary between clusters, or else the
/// boundary that `step` finds. An end of the text is none.
fn boundary(text: &str, at: usize, step: Step) -> usize {
    let mut cursor = GraphemeCursor::new(at, text.len(), true);
    match cursor.is_boundary(text, 0) {
        Ok(false) => step(&mut cursor, text, 0).ok().flatten(),
        _ => None,
    }
    .filter(|found| (1..text.len()).contains(found))
    .unwrap_or(at)
}

/// Returns whether a character changes the direction of writing, or is a tag: a model reads it, but
/// a person does not see it.
pub(crate) fn deceives(c: char) -> bool {
    matches!(c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
        | '\u{e0000}'..='\u{e007f}')
}

/// A number with its thousands separated, for people.
pub(crate) struct Grouped<N>(pub(crate) N);

impl<N: fmt::Display> fmt::Display for Grouped<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.0.to_string();
        for (i, digit) in digits.char_indices() {
            if i > 0 && (digits.len() - i).is_multiple_of(3) {
                f.write_str(",")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_the_longest_that_part_no_character() {
        let freak = format!("e{}", "\u{301}".repeat(6));
        let texts = ["a\r\nb", "क्षि कि", "🇳🇴🇸🇪🇩", "👩‍👩‍👧 👍🏽é", "e\u{301}e\u{301}", "", &freak];
        for text in texts {
            let cuts = text.char_indices().map(|(at, _)| at).chain([text.len()]);
            let cuts: Vec<usize> = cuts.collect();
            let wholes: Vec<usize> =
                text.grapheme_indices(true).map(|(at, _)| at).chain([text.len()]).collect();
            for most in 0..cuts.len() + 2 {
                let (head, tail) = (first(text, most), last(text, most));
                let end = cuts[most.min(cuts.len() - 1)];
                let start = cuts[cuts.len().saturating_sub(most + 1)];
                let head_at = wholes.iter().rfind(|at| (1..=end).contains(*at)).copied();
                let tail_at = wholes.iter().find(|at| (start..text.len()).contains(*at)).copied();
                assert_eq!(head.len(), head_at.unwrap_or(end), "{text:?} {most}");
                assert_eq!(text.len() - tail.len(), tail_at.unwrap_or(start), "{text:?} {most}");
            }
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let cases =
            [(0, "0"), (999, "999"), (1000, "1,000"), (2310, "2,310"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(Grouped(number).to_string(), text);
        }
    }
}
