//! Walking over clusters, fast where the text allows it.

use std::ops::AddAssign;

use unicode_segmentation::UnicodeSegmentation;

use super::Unit;
use super::class::{Class, is_emoji, is_regional_indicator, stands_alone};

/// A length of text in bytes, and what it measures.
#[derive(Clone, Copy, Default)]
pub(super) struct Span {
    pub(super) bytes: usize,
    pub(super) measure: usize,
}

impl Span {
    pub(super) fn of(cluster: &str, unit: Unit) -> Self {
        Self { bytes: cluster.len(), measure: unit.of_cluster(cluster) }
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.measure += other.measure;
    }
}

/// Returns the longest beginning of `text` that ends on a boundary and measures at most `limit`.
///
/// Three paths take turns, from the fastest to the one that knows all rules. They may change at any
/// boundary, since no rule of UAX #29 looks back across one. (The rule that pairs regional
/// indicators does, but at a boundary between two of them all before it are paired.)
pub(super) fn walk(text: &str, limit: usize, unit: Unit) -> Span {
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

/// Returns the longest end of `text` that starts on a boundary and measures at most `limit`.
///
/// Clusters can't be found backwards: whether there is a boundary may depend on all that stands
/// before. So this goes back to a place that is a boundary for sure, and walks forward from there;
/// in few, large steps.
pub(super) fn walk_back(text: &str, limit: usize, unit: Unit) -> Span {
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
        // The text before this is likely as dense.
        stride = span.bytes.saturating_mul(room - span.measure) / span.measure.max(1) + 1;
    }
    done
}

/// Returns the last boundary between scalar values at or before `at`: as the standard library's
/// method of this name, which asks for Rust 1.91.
pub(crate) fn floor_char_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}

/// Returns a boundary of `text` shortly before `goal`, or else the first one behind it, without a
/// look at what stands before `floor`. `None` where there is none before the end.
fn boundary_near(text: &str, goal: usize, floor: usize) -> Option<usize> {
    let goal = floor_char_boundary(text, goal);
    let alone = |c| Class::of(c as usize) == Class::Alone;
    if text[..goal].ends_with(alone) && text[goal..].starts_with(alone) {
        return Some(goal);
    }
    let mut width = 32;
    loop {
        let last_try = goal.saturating_sub(width) <= floor;
        let mut from = floor_char_boundary(text, goal.saturating_sub(width).max(floor));
        if from == 0 {
            return Some(0);
        }
        // Regional indicators pair from the beginning of their row, however far that is: do not
        // part a flag.
        if half_flag_at(&text[..from], &text[from..]) {
            from += REGIONAL_INDICATOR_BYTES;
        }
        // `from` may lie inside a cluster. Seen from there, the rest of that cluster looks like a
        // cluster of its own; and where it ends in marks or a joiner, the next one may in truth
        // belong to it too. No cluster reaches further, so the second boundary is a true one.
        let mut boundaries = text[from..].grapheme_indices(true).map(|(at, _)| from + at).skip(1);
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

/// Returns whether the first character may go on a cluster that does not end right before it: an
/// emoji or a consonant, which a joiner or a virama far before can join.
fn may_be_joined(text: &str) -> bool {
    text.chars().next().is_some_and(|c| {
        ["👩\u{200d}", "क\u{94d}"]
            .iter()
            .any(|before| format!("{before}{c}").graphemes(true).count() == 1)
    })
}

/// Returns the shortest beginning of `text` that ends on a boundary and measures at least `least`.
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
        return if line_break.measure <= room { line_break } else { Span::default() };
    }
    let run = leading_ascii(&bytes[..bytes.len().min(room.saturating_add(1))]);
    // What follows may extend the last one, unless it is the end, or a CR.
    let whole = match bytes.get(run) {
        None | Some(b'\r') => run,
        Some(_) => run.saturating_sub(1),
    };
    let length = whole.min(room);
    Span { bytes: length, measure: length }
}

/// Returns the number of bytes at the beginning that are ASCII other than CR.
fn leading_ascii(bytes: &[u8]) -> usize {
    let plain = |byte: u8| byte.is_ascii() && byte != b'\r';
    // A block is looked at as a whole, without a branch for each byte: this is what becomes vector
    // instructions.
    let (blocks, _) = bytes.as_chunks::<32>();
    let clean = blocks
        .iter()
        .take_while(|block| block.iter().fold(true, |clean, &byte| clean & plain(byte)))
        .count()
        * 32;
    clean + bytes[clean..].iter().take_while(|&&byte| plain(byte)).count()
}

/// Clusters at the beginning of `text` that [`Class`] knows enough of, within `room`.
///
/// A cluster is whole once a character that stands alone is seen behind it. The last one before
/// anything else may go on with that, and is left to [`cluster_run`]. Stops where ASCII begins, for
/// [`ascii_run`].
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
                if width == 3 {
                    let row = row(&bytes[end..], room - done.measure, unit);
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

/// Characters of three bytes that stand alone and are followed by another such one, at the
/// beginning of `text` and within `room`.
///
/// Han comes in rows, and to look at nothing else is several times faster.
fn row(text: &[u8], room: usize, unit: Unit) -> Span {
    let one = Span::of("漢", unit); // all of these are alike
    let most = if one.measure == 1 { room } else { room / one.measure };
    let (triples, _) = text.as_chunks::<3>();
    let followed = triples.iter().skip(1).take(most).take_while(|&&it| stands_alone(it)).count();
    Span { bytes: followed * one.bytes, measure: followed * one.measure }
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

/// Returns whether [`plain_run`] is likely to get anywhere.
fn plain_ahead(text: &[u8]) -> bool {
    Class::first(text).is_some_and(|(class, width)| {
        class == Class::Alone && !matches!(Class::first(&text[width..]), Some((Class::Other, _)))
    })
}

/// Returns as much of `text` as is worth a look: all of it, or more than `room` can hold. So a
/// cluster that is cut at the end of this is over the room already, however much longer it is.
fn window(text: &str, room: usize, unit: Unit) -> &str {
    &text[..floor_char_boundary(text, unit.most_bytes(room).saturating_add(4))]
}

/// Returns whether `before` ends in a regional indicator without a partner, and `after` starts with
/// one.
pub(super) fn half_flag_at(before: &str, after: &str) -> bool {
    is_regional_indicator(after.as_bytes()) && trailing_regional_indicators(before) % 2 == 1
}

/// Returns the number of regional indicators that `text` ends in.
fn trailing_regional_indicators(text: &str) -> usize {
    let is_one = |quad: &[u8; 4]| (0xf09f_87a6..=0xf09f_87bf).contains(&u32::from_be_bytes(*quad));
    let (_, quads) = text.as_bytes().as_rchunks::<REGIONAL_INDICATOR_BYTES>();
    // By blocks, as in `leading_ascii`: a row of flags may be as long as the text.
    let (_, blocks) = quads.as_rchunks::<16>();
    let full = blocks
        .iter()
        .rev()
        .take_while(|block| block.iter().fold(true, |all, quad| all & is_one(quad)))
        .count()
        * 16;
    full + quads[..quads.len() - full].iter().rev().take_while(|quad| is_one(quad)).count()
}

/// Returns the width of the emoji at the beginning of `after`, if a zero width joiner joins it to
/// the one that ends `before`.
fn joined_emoji(before: &str, after: &str) -> Option<usize> {
    let modifier = |c: char| matches!(c, '\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}');
    let next = after.chars().next().filter(|&c| is_emoji(c))?;
    before.trim_end_matches(modifier).ends_with(is_emoji).then_some(next.len_utf8())
}

/// The number of bytes that a tail looks back for context, beyond what it could keep.
const CONTEXT: usize = 4096;

/// The UTF-8 length of a regional indicator, half a flag.
const REGIONAL_INDICATOR_BYTES: usize = 4;
