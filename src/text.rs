//! Measuring and cutting text without breaking a character.
//!
//! What a reader takes for one character may be many scalar values: `é` written with a combining accent, a
//! Hangul syllable, a family emoji. A cut between them shows as a broken character, or as another one. So
//! whatever a limit counts ([`Unit`]), a [`Cut`] falls on a boundary between *extended grapheme clusters*
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
//! # What holds for every cut
//!
//! - The result, marker included, measures at most the limit. It is never empty, unless the text was.
//! - A text that fits comes back borrowed and unchanged; so cutting twice equals cutting once.
//! - What is kept are whole clusters of the original text: a prefix of it, a suffix of it, or both.
//!
//! # What it costs
//!
//! A cut reads what its limit can hold, not the text behind it: the limit times 128 bytes at the very most, and
//! usually little more than what it keeps. Three things read further:
//! - a marker that says how much was left out has to count it, all of it;
//! - a [tail](Keep::Tail) that starts in a run of flags walks back to where the run starts, because flags are
//!   pairs and only the start of the run tells which;
//! - a tail looks back 4 KiB further for what could join with its first character. A consonant or an emoji behind
//!   more combining marks than that is taken for a part of what stands before the marks, so it is not kept.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::ops::AddAssign;

use unicode_segmentation::UnicodeSegmentation;

/// A cluster counts as one grapheme for each so many scalar values that it holds or begins, so that "1000
/// characters" can't be megabytes of combining marks.
const SCALARS_PER_GRAPHEME: usize = 32;

/// How far a tail looks back for context, beyond what it could keep.
const CONTEXT: usize = 4096;

/// The UTF-8 length of a regional indicator, half a flag.
const REGIONAL_INDICATOR_BYTES: usize = 4;

/// What stands for the number left out in a marker.
const LEFT_OUT: &str = "{left_out}";

/// What a length counts. Whatever the unit, a cut falls on a grapheme boundary.
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Unit {
    /// Extended grapheme clusters: what a reader takes for one character. A cluster counts as one for each 32
    /// scalar values that it holds or begins.
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
    /// What one cluster counts.
    fn of_cluster(self, cluster: &str) -> usize {
        match self {
            // Cheap for all but freaks: so few bytes can't hold more scalar values.
            Self::Graphemes if cluster.len() <= SCALARS_PER_GRAPHEME => 1,
            Self::Graphemes => cluster.chars().count().div_ceil(SCALARS_PER_GRAPHEME),
            Self::Scalars | Self::Utf16 | Self::Bytes => count(cluster, self),
        }
    }

    /// The most bytes that a text of this measure can have.
    fn most_bytes(self, measure: usize) -> usize {
        measure.saturating_mul(match self {
            Self::Graphemes => SCALARS_PER_GRAPHEME * 4,
            Self::Scalars => 4,
            Self::Utf16 => 3, // four bytes are two units
            Self::Bytes => 1,
        })
    }
}

/// Which end of a text survives a cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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
/// Reads all of it: to learn whether a text is within a limit, ask [`fits`].
///
/// ```
/// use memory_prompt::text::{Unit, count};
///
/// assert_eq!(count("naïve\r\n", Unit::Graphemes), 6); // a line break is one
/// assert_eq!(count("naïve\r\n", Unit::Bytes), 8);
/// ```
pub fn count(text: &str, unit: Unit) -> usize {
    match unit {
        Unit::Graphemes => walk(text, usize::MAX, unit).measure,
        Unit::Scalars => text.chars().count(),
        Unit::Utf16 => text.chars().map(char::len_utf16).sum(),
        Unit::Bytes => text.len(),
    }
}

/// Whether a text measures at most `limit`.
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
    // A byte is the smallest unit: as few bytes as this need no scan.
    text.len() <= limit
        || text.len() <= unit.most_bytes(limit) && walk(text, limit, unit).bytes == text.len()
}

/// How a text that is too long is cut: the limit, the end that is kept, and what marks the gap.
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
        Self {
            limit,
            unit,
            keep: Keep::Head,
            marker: String::new(),
            counts: false,
        }
    }

    /// Chooses the end that is kept.
    #[must_use]
    pub const fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }

    /// Marks the gap. The marker counts within the limit.
    ///
    /// In it, `{left_out}` stands for how much of the text is gone, in the unit of the limit and with thousands
    /// separated by commas. To know that, a cut must measure the whole text.
    ///
    /// A marker that would leave room for no character of the text is left out itself. Where no character fits
    /// even so, the marker alone is the result if it fits, else `…`, or `.` where that is too long. An empty
    /// marker is none.
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

    /// The most that a result may measure.
    pub const fn limit(&self) -> NonZeroUsize {
        self.limit
    }

    /// What the limit counts.
    pub const fn unit(&self) -> Unit {
        self.unit
    }

    /// The end that is kept.
    pub const fn keeps(&self) -> Keep {
        self.keep
    }

    /// The marker as it was set, placeholder and all.
    pub fn marker_template(&self) -> Option<&str> {
        (!self.marker.is_empty()).then_some(self.marker.as_str())
    }

    /// Cuts a text; borrows it where it fits, and where one end of it is all that is kept.
    pub fn apply<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.plan(&[text]) {
            None => Cow::Borrowed(text),
            Some(plan) => plan.piece(0, text).unwrap_or_default(),
        }
    }

    /// Decides where a text that comes in several pieces is cut, or `None` when all of it fits.
    ///
    /// The pieces, such as the text parts of a message with pictures between them, share the limit. They are
    /// measured one by one: no character reaches from one into the next.
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
        // Only a marker that tells it needs the total. Without, whether all fits shows as the cut is made.
        let total = self.counts.then(|| self.measure(pieces));
        if total.is_some_and(|total| total <= limit) {
            return None;
        }
        let all_fits = |kept: &Kept| total.is_none() && self.gap_fits(pieces, kept);

        // The more is left out, the wider may be the number that says so, and the less room is left. Start with the
        // least number that it can be, and make room for a wider one until what is then left out fits in it. Not
        // until it is just as wide: two ends may keep more of less room.
        let mut left_out = total.map_or(0, |total| total - limit);
        let mut width = if self.marker.is_empty() {
            limit
        } else {
            count(&self.rendered(left_out), self.unit)
        };
        while width < limit {
            let kept = self.select(pieces, limit - width, &self.rendered(left_out));
            if all_fits(&kept) {
                return None;
            }
            left_out = total.map_or(0, |total| total - kept.measure);
            let marker = self.rendered(left_out);
            let needed = count(&marker, self.unit);
            if needed <= width {
                if kept.measure == 0 {
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
        let marker = if kept.measure > 0 {
            String::new()
        } else {
            self.alone(total.unwrap_or(0))
        };
        Some(kept.plan(marker))
    }

    /// What stands for a text of which nothing fits.
    fn alone(&self, total: usize) -> String {
        let limit = self.limit.get();
        [self.rendered(total), "…".to_owned()]
            .into_iter()
            .find(|marker| !marker.is_empty() && fits(marker, limit, self.unit))
            .unwrap_or_else(|| ".".to_owned())
    }

    fn rendered(&self, left_out: usize) -> String {
        self.marker.replace(LEFT_OUT, &grouped(left_out))
    }

    fn measure(&self, pieces: &[&str]) -> usize {
        pieces.iter().map(|piece| count(piece, self.unit)).sum()
    }

    /// What is kept within `budget`, where `marker` will stand in the gap.
    fn select(&self, pieces: &[&str], budget: usize, marker: &str) -> Kept {
        let (head, tail) = match self.keep {
            Keep::Head => (self.front(pieces, budget), self.back(pieces, 0)),
            Keep::Tail => (self.front(pieces, 0), self.back(pieces, budget)),
            Keep::Ends => {
                let tail = self.back(pieces, budget / 2);
                let head = self.front(pieces, budget - tail.1);
                // One wide character may be over half of the budget, and yet fit.
                let tail = if head.1 == 0 {
                    self.back(pieces, budget)
                } else {
                    tail
                };
                (head, tail)
            }
        };
        let mut kept = Kept {
            head: head.0,
            tail: tail.0,
            measure: head.1 + tail.1,
        };
        self.part_flags(pieces, &mut kept, marker);
        kept
    }

    /// The longest beginning of the pieces within `budget`: where it ends, and its measure.
    fn front(&self, pieces: &[&str], budget: usize) -> (At, usize) {
        let mut end = At { piece: 0, byte: 0 };
        let mut measure = 0;
        for (piece, text) in pieces.iter().enumerate() {
            let span = walk(text, budget - measure, self.unit);
            measure += span.measure;
            if span.bytes > 0 {
                end = At {
                    piece,
                    byte: span.bytes,
                };
            }
            if span.bytes < text.len() {
                break;
            }
        }
        (end, measure)
    }

    /// The longest end of the pieces within `budget`: where it starts, and its measure.
    fn back(&self, pieces: &[&str], budget: usize) -> (At, usize) {
        let mut start = At {
            piece: pieces.len().saturating_sub(1),
            byte: pieces.last().map_or(0, |text| text.len()),
        };
        let mut measure = 0;
        for (piece, text) in pieces.iter().enumerate().rev() {
            let span = walk_back(text, budget - measure, self.unit);
            measure += span.measure;
            if span.bytes > 0 {
                start = At {
                    piece,
                    byte: text.len() - span.bytes,
                };
            }
            if span.bytes < text.len() {
                break;
            }
        }
        (start, measure)
    }

    /// Whether all fits after all: what is between the two ends measures no more than they leave of the limit.
    fn gap_fits(&self, pieces: &[&str], kept: &Kept) -> bool {
        let Kept {
            head,
            tail,
            measure,
        } = kept;
        let mut room = self.limit.get() - measure;
        // The head may have reached the tail, or gone past it: then there is nothing between.
        for (piece, text) in pieces
            .iter()
            .enumerate()
            .take(tail.piece + 1)
            .skip(head.piece)
        {
            let start = if piece == head.piece { head.byte } else { 0 };
            let end = if piece == tail.piece {
                tail.byte
            } else {
                text.len()
            };
            let gap = text.get(start..end).unwrap_or_default();
            let span = walk(gap, room, self.unit);
            if span.bytes < gap.len() {
                return false;
            }
            room -= span.measure;
        }
        true
    }

    /// Gives up a regional indicator that would pair with another one across the gap.
    ///
    /// Half a flag at the gap would make a flag that never was, and pair all flags behind it anew. That is also the
    /// one way in which a text can measure more than the sum of its parts: any other join at the gap makes one
    /// cluster of two, which is why no result needs to be measured.
    fn part_flags(&self, pieces: &[&str], kept: &mut Kept, marker: &str) {
        let mut front = &pieces[kept.head.piece][..kept.head.byte];
        let mut back = &pieces[kept.tail.piece][kept.tail.byte..];
        let after = match marker {
            "" if kept.head.piece == kept.tail.piece => back,
            marker => marker,
        };
        while half_flag_at(front, after) {
            let Some(cluster) = front.graphemes(true).next_back() else {
                break;
            };
            front = &front[..front.len() - cluster.len()];
            kept.head.byte = front.len();
            kept.measure -= self.unit.of_cluster(cluster);
        }
        while half_flag_at(marker, back) {
            let Some(cluster) = back.graphemes(true).next() else {
                break;
            };
            back = &back[cluster.len()..];
            kept.tail.byte += cluster.len();
            kept.measure -= self.unit.of_cluster(cluster);
        }
    }
}

/// A place in a text of several pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct At {
    /// The index of the piece.
    pub piece: usize,
    /// The offset in it.
    pub byte: usize,
}

/// Where a text that came in pieces is cut. See [`Cut::plan`].
///
/// Pieces before the head's and behind the tail's are whole; pieces between the two are gone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Plan {
    /// Where the kept beginning ends.
    pub head: At,
    /// Where the kept end starts.
    pub tail: At,
    /// What stands in the gap; may be empty. It ends the head's piece, if anything is kept there, and else starts
    /// the tail's.
    pub marker: String,
}

impl Plan {
    /// What becomes of a piece: its text, marker included, or `None` where it is gone.
    ///
    /// `text` is the piece with that index among those that the plan was made for.
    pub fn piece<'a>(&self, index: usize, text: &'a str) -> Option<Cow<'a, str>> {
        let Self { head, tail, marker } = self;
        if index < head.piece || index > tail.piece {
            return Some(Cow::Borrowed(text));
        }
        // `get` and not an index: a text that the plan was not made for shall not panic.
        let front = text
            .get(..head.byte)
            .filter(|_| index == head.piece)
            .unwrap_or_default();
        let back = text
            .get(tail.byte..)
            .filter(|_| index == tail.piece)
            .unwrap_or_default();
        let gap = if head.byte > 0 {
            head.piece
        } else {
            tail.piece
        };
        let marker = if index == gap { marker.as_str() } else { "" };
        match (front, marker, back) {
            ("", "", "") => None,
            (kept, "", "") | ("", "", kept) => Some(Cow::Borrowed(kept)),
            _ => Some(Cow::Owned([front, marker, back].concat())),
        }
    }
}

/// The two ends that are kept of a text in pieces.
struct Kept {
    head: At,
    tail: At,
    measure: usize,
}

impl Kept {
    fn plan(self, marker: String) -> Plan {
        let Self { head, tail, .. } = self;
        Plan { head, tail, marker }
    }
}

/// A length of text in bytes, and what it measures.
#[derive(Clone, Copy, Default)]
struct Span {
    bytes: usize,
    measure: usize,
}

impl Span {
    fn of(cluster: &str, unit: Unit) -> Self {
        Self {
            bytes: cluster.len(),
            measure: unit.of_cluster(cluster),
        }
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.measure += other.measure;
    }
}

/// The longest beginning of `text` that ends on a boundary and measures at most `limit`.
///
/// At each boundary it may start over and take another path: no rule of UAX #29 looks back across a boundary, but for
/// the one that pairs regional indicators; and at a boundary between two of them, all before it are paired.
fn walk(text: &str, limit: usize, unit: Unit) -> Span {
    let mut done = Span::default();
    while done.bytes < text.len() && done.measure < limit {
        let rest = &text[done.bytes..];
        let room = limit - done.measure;
        let mut step = ascii_run(rest, room, unit);
        if step.bytes == 0 {
            step = plain_run(rest, room, unit);
        }
        if step.bytes == 0 {
            step = cluster_run(rest, room, unit);
        }
        if step.bytes == 0 {
            break;
        }
        done += step;
    }
    done
}

/// The longest end of `text` that starts on a boundary and measures at most `limit`.
///
/// Clusters can't be found backwards: whether there is a boundary may depend on all that stands before. So this
/// goes back to a place that is a boundary for sure, and walks forward from there; in few, large steps.
fn walk_back(text: &str, limit: usize, unit: Unit) -> Span {
    let mut done = Span::default();
    let mut stride = limit; // never too far: each byte counts at most one
    while done.bytes < text.len() && done.measure < limit {
        let rest = &text[..text.len() - done.bytes];
        let room = limit - done.measure;
        let reach = unit.most_bytes(room);
        let goal = rest.len().saturating_sub(stride.min(reach));
        let floor = rest.len().saturating_sub(reach.saturating_add(CONTEXT));
        let Some(start) = boundary_near(rest, goal, floor) else {
            break;
        };

        let mut span = walk(&rest[start..], usize::MAX, unit);
        if span.measure > room {
            let over = at_least(&rest[start..], span.measure - room, unit);
            span.bytes -= over.bytes;
            span.measure -= over.measure;
            done += span;
            break;
        }
        done += span;
        // What stands before is likely as dense as this was.
        stride = span.bytes.saturating_mul(room - span.measure) / span.measure.max(1) + 1;
    }
    done
}

/// A boundary of `text` shortly before `goal`, or else the first one behind it, judged without a look behind
/// `floor`. None, if there is none before the end.
fn boundary_near(text: &str, goal: usize, floor: usize) -> Option<usize> {
    let goal = text.floor_char_boundary(goal);
    let alone = |c| Class::of(c as usize) == Class::Alone;
    if text[..goal].ends_with(alone) && text[goal..].starts_with(alone) {
        return Some(goal);
    }
    let mut width = 32;
    loop {
        let last_try = goal.saturating_sub(width) <= floor;
        let mut from = text.floor_char_boundary(goal.saturating_sub(width).max(floor));
        if from == 0 {
            return Some(0);
        }
        // The one thing that no near place tells: which regional indicators are pairs.
        if half_flag_at(&text[..from], &text[from..]) {
            from += REGIONAL_INDICATOR_BYTES;
        }
        // What stands before `from` may go on behind it, to where the first cluster from there ends; and on into the
        // next, through marks and joiners. But not into the one after that, for a cluster that has begun is no mark.
        let mut boundaries = text[from..]
            .grapheme_indices(true)
            .map(|(at, _)| from + at)
            .skip(1);
        let (first, second) = (boundaries.next(), boundaries.next());
        if last_try {
            return first.filter(|&at| !may_be_joined(&text[at..])).or(second);
        }
        if let Some(second) = second.filter(|&at| at <= goal) {
            return Some(second);
        }
        width *= 4;
    }
}

/// Whether what is first here may go on a cluster that does not end right before it: an emoji or a consonant, that a
/// joiner or a virama far before can join.
fn may_be_joined(text: &str) -> bool {
    text.chars().next().is_some_and(|c| {
        ["👩\u{200d}", "क\u{94d}"]
            .iter()
            .any(|before| format!("{before}{c}").graphemes(true).count() == 1)
    })
}

/// The shortest beginning of `text` that ends on a boundary and measures at least `least`.
fn at_least(text: &str, least: usize, unit: Unit) -> Span {
    let mut span = walk(text, least, unit);
    if span.measure < least
        && let Some(cluster) = text[span.bytes..].graphemes(true).next()
    {
        span += Span::of(cluster, unit);
    }
    span
}

/// ASCII at the beginning of `text`, within `room`: each a cluster, but for CR LF.
fn ascii_run(text: &str, room: usize, unit: Unit) -> Span {
    let bytes = text.as_bytes();
    if bytes.starts_with(b"\r\n") {
        let line_break = Span::of("\r\n", unit);
        return if line_break.measure <= room {
            line_break
        } else {
            Span::default()
        };
    }
    let run = leading_ascii(&bytes[..bytes.len().min(room.saturating_add(1))]);
    // What follows may extend the last one, unless it is the end, or a CR.
    let whole = match bytes.get(run) {
        None | Some(b'\r') => run,
        Some(_) => run.saturating_sub(1),
    };
    let length = whole.min(room);
    Span {
        bytes: length,
        measure: length,
    }
}

/// How many bytes at the beginning are ASCII other than CR.
fn leading_ascii(bytes: &[u8]) -> usize {
    let plain = |byte: u8| byte.is_ascii() && byte != b'\r';
    // A block is looked at as a whole, without a branch for each byte: this is what becomes vector instructions.
    let (blocks, _) = bytes.as_chunks::<32>();
    let clean = blocks
        .iter()
        .take_while(|block| block.iter().fold(true, |clean, &byte| clean & plain(byte)))
        .count()
        * 32;
    clean
        + bytes[clean..]
            .iter()
            .take_while(|&&byte| plain(byte))
            .count()
}

/// Clusters at the beginning of `text` that [`Class`] knows enough of, within `room`.
///
/// A cluster is whole once a character that stands alone is seen behind it. The last one before anything else may go
/// on with that, and is left to [`cluster_run`]. Stops where ASCII begins, for [`ascii_run`].
fn plain_run(text: &str, room: usize, unit: Unit) -> Span {
    let window = window(text, room, unit);
    let bytes = window.as_bytes();
    let mut done = Span::default();
    let mut end = 0; // of the cluster that begins where `done` ends, and may go on
    while let Some((class, width)) = Class::first(&bytes[end..]) {
        match class {
            Class::Alone => {
                if end > 0 {
                    let cluster = Span::of(&window[done.bytes..end], unit);
                    if cluster.measure > room - done.measure {
                        return done;
                    }
                    done += cluster;
                    if width == 1 {
                        return done;
                    }
                }
                if is_han(&bytes[end..]) {
                    let row = han_row(&bytes[end..], room - done.measure, unit);
                    done += row;
                    end += row.bytes;
                }
                end += width;
            }
            Class::Mark if end > 0 && bytes[done.bytes] >= b' ' => end += width,
            Class::Joiner => match joined_emoji(&window[done.bytes..end], &window[end + width..]) {
                Some(emoji) => end += width + emoji,
                None => return done,
            },
            Class::Mark | Class::Other => return done,
        }
    }
    let last = Span::of(&window[done.bytes..], unit);
    if last.measure <= room - done.measure {
        done += last;
    }
    done
}

/// Han at the beginning of `text` that is followed by more Han, within `room`.
///
/// Han comes in rows, and to look at nothing but its first byte is several times faster.
fn han_row(text: &[u8], room: usize, unit: Unit) -> Span {
    let one = Span::of("漢", unit);
    let most = if one.measure == 1 {
        room
    } else {
        room / one.measure
    };
    let (triples, _) = text.as_chunks::<3>();
    let followed = triples
        .iter()
        .skip(1)
        .take(most)
        .take_while(|next| is_han(*next))
        .count();
    Span {
        bytes: followed * one.bytes,
        measure: followed * one.measure,
    }
}

/// Whether the first character is one of U+4000..=U+9FFF.
fn is_han(text: &[u8]) -> bool {
    matches!(text, [0xe4..=0xe9, ..])
}

/// Clusters at the beginning of `text`, within `room`, up to where a faster path can go on.
fn cluster_run(text: &str, room: usize, unit: Unit) -> Span {
    let window = window(text, room, unit);
    let mut done = Span::default();
    for cluster in window.graphemes(true) {
        let next = Span::of(cluster, unit);
        if next.measure > room - done.measure {
            break;
        }
        done += next;
        if plain_ahead(&text.as_bytes()[done.bytes..]) {
            break;
        }
    }
    done
}

/// Whether [`plain_run`] is likely to get anywhere.
fn plain_ahead(text: &[u8]) -> bool {
    Class::first(text).is_some_and(|(class, width)| {
        class == Class::Alone && !matches!(Class::first(&text[width..]), Some((Class::Other, _)))
    })
}

/// As much of `text` as is worth a look: all of it, or more than `room` can hold. So a cluster that is cut at the end of
/// this is over the room already, however much longer it is.
fn window(text: &str, room: usize, unit: Unit) -> &str {
    &text[..text.floor_char_boundary(unit.most_bytes(room).saturating_add(4))]
}

/// Whether `before` ends in a regional indicator without a partner, and `after` starts with one.
fn half_flag_at(before: &str, after: &str) -> bool {
    let (_, quads) = before.as_bytes().as_rchunks::<REGIONAL_INDICATOR_BYTES>();
    let indicators = quads
        .iter()
        .rev()
        .take_while(|quad| is_regional_indicator(*quad));
    is_regional_indicator(after.as_bytes()) && indicators.count() % 2 == 1
}

/// Whether the first character is a regional indicator, half a flag: one of U+1F1E6..=U+1F1FF.
fn is_regional_indicator(text: &[u8]) -> bool {
    matches!(text, [0xf0, 0x9f, 0x87, 0xa6..=0xbf, ..])
}

/// The width of the emoji at the beginning of `after`, if a zero width joiner joins it to the one that ends `before`.
fn joined_emoji(before: &str, after: &str) -> Option<usize> {
    let modifier = |c: char| matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    let next = after.chars().next().filter(|&c| is_emoji(c))?;
    before
        .trim_end_matches(modifier)
        .ends_with(is_emoji)
        .then_some(next.len_utf8())
}

/// Whether this is one of the emoji that are joined to others: all of these are `Extended_Pictographic`.
#[rustfmt::skip]
fn is_emoji(c: char) -> bool {
    matches!(c,
        '♀' | '♂' | '⚕' | '❤' | '🏳' | '🏴'
        | '\u{1f300}'..='\u{1f321}' | '\u{1f324}'..='\u{1f393}' | '\u{1f39e}'..='\u{1f3f0}'
        | '\u{1f400}'..='\u{1f4fd}' | '\u{1f5fa}'..='\u{1f64f}' | '\u{1f680}'..='\u{1f6c5}'
        | '\u{1f90c}'..='\u{1f93a}' | '\u{1f947}'..='\u{1f9ff}'
    )
}

/// What is known of a character without a search through the Unicode tables.
///
/// This is for speed: what is said to be [`Other`](Class::Other) takes a slower path to the same result. So the
/// ranges are few, and cover what much text is made of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    /// There is always a boundary between two of these, whatever stands around them.
    ///
    /// So this is no CR, nothing that may join with its own kind (Hangul jamo, one regional indicator), and nothing
    /// that joins whatever stands before or behind (marks, joiners, prefixes). An emoji or an Indic consonant
    /// is one: it joins another only through a joiner or a mark.
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
    /// The class and the width of what is first in a text; a flag is looked at as a whole.
    ///
    /// Decodes on its own, because the first byte often says enough.
    fn first(text: &[u8]) -> Option<(Self, usize)> {
        let low = |byte: u8, shift: usize| usize::from(byte & 0x3f) << shift;
        Some(match *text {
            [] => return None,
            [a @ 0..0x80, ..] => (CLASSES[usize::from(a)], 1),
            [a @ 0x80..0xe0, b, ..] => (CLASSES[usize::from(a & 0x1f) << 6 | low(b, 0)], 2),
            [0xe4..=0xe9 | 0xeb..=0xec, ..] => (Self::Alone, 3), // Han, and most Hangul
            [a @ 0xe0..0xf0, b, c, ..] => (
                Self::of(usize::from(a & 0xf) << 12 | low(b, 6) | low(c, 0)),
                3,
            ),
            [_, _, _, _, ref next @ ..]
                if is_regional_indicator(text) && is_regional_indicator(next) =>
            {
                (Self::Alone, 8)
            }
            [a, b, c, d, ..] => (
                Self::of(usize::from(a & 7) << 18 | low(b, 12) | low(c, 6) | low(d, 0)),
                4,
            ),
            [..] => (Self::Other, text.len()), // not UTF-8, and not from a `str`
        })
    }

    fn of(code: usize) -> Self {
        match code {
            0..0x3000 => CLASSES[code],
            0x3000..=0x3029 | 0x3030..=0x3098 | 0x309b..=0xa66e // kana and Han
            | 0xac00..=0xd7a3 // Hangul syllables
            | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff01..=0xff9d // compatibility, full width
            | 0x1f000..=0x1f1e5 | 0x1f200..=0x1f3fa | 0x1f400..=0x1faff // emoji
            | 0x20000..=0x323af => Self::Alone, // rare Han
            0x302a..=0x302f | 0x3099..=0x309a // of Han and kana
            | 0xfe00..=0xfe0f | 0x1f3fb..=0x1f3ff => Self::Mark, // variation selectors, skin tones
            _ => Self::Other,
        }
    }
}

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
    (0x1780, 0x17b3), (0x17d4, 0x17dc), (0x17e0, 0x17e9), // Khmer
    (0x1e00, 0x1fff), // more Latin, Greek
    (0x2000, 0x200a), (0x2010, 0x2027), (0x202f, 0x205f), (0x2070, 0x20c0), // spaces, punctuation, currencies
    (0x2100, 0x2bff), (0x2c60, 0x2c7f), (0x2e00, 0x2fff), // symbols, more Latin, punctuation and radicals
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
    (0x102d, 0x1037), (0x103a, 0x103e), (0x17b6, 0x17d1), // Myanmar, Khmer
];

/// A number with its thousands separated.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_of(parts: &[char]) -> usize {
        parts.iter().collect::<String>().graphemes(true).count()
    }

    fn class(c: char) -> Class {
        Class::of(c as usize)
    }

    /// Characters of each kind that stand alone: controls, letters, symbols, syllables, consonants, emoji.
    const ALONE_KINDS: [char; 13] = [
        '\n', '\0', 'a', 'é', '©', '漢', 'か', '가', '각', 'क', 'त', '👩', '♀',
    ];

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
            assert_eq!(
                count_of(&[c, '🏽', '\u{fe0f}', '\u{200d}', '👩']),
                1,
                "{c:?}"
            );
        }
    }

    #[test]
    fn the_class_of_the_first_is_the_class_of_the_char() {
        for c in char::MIN..=char::MAX {
            let text = String::from(c);
            assert!(
                Class::first(text.as_bytes()) == Some((class(c), c.len_utf8())),
                "{c:?}"
            );
        }
    }

    #[test]
    fn numbers_are_grouped_by_thousands() {
        let cases = [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (2310, "2,310"),
            (1_234_567, "1,234,567"),
        ];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }
}
