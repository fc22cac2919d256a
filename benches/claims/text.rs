//! Cutting a text against walking its characters with unicode-segmentation to the same place.

use std::hint::black_box;
use std::num::NonZeroUsize;

use memory_prompt::text::{Cut, Keep, Unit};
use memory_prompt::{Message, Truncate};
use unicode_segmentation::UnicodeSegmentation;

use crate::harness::{Claims, Found, Pace};
use crate::samples::{SAMPLES, sample};

const LENGTH: usize = 20_000;
const LIMIT: NonZeroUsize = NonZeroUsize::new(1000).unwrap();

/// The whole of it, with the copy of the message.
pub(crate) fn cutting_is_fast(claims: &mut Claims) {
    for (name, goal) in [("ascii", 100.0), ("chinese", 8.0)] {
        let text = sample(name, LENGTH);
        let message = Message::user(text.as_str());
        let truncate = Truncate::chars(LIMIT.get()).unwrap();
        let shortened = truncate.shorten(&message).unwrap();
        assert_eq!(shortened.text(), text[..walk(&text)]);
        let found = claims.compare(
            Pace::FINE,
            [&format!("{name}: walk"), "shortened copy"],
            || walk(black_box(&text)),
            || truncate.shorten(black_box(&message)),
        );
        let claim = format!("{name} of 20,000 characters cut to 1000: walk of graphemes / ours");
        claims.at_least(&claim, found.ratio, goal);
    }
}

pub(crate) fn nothing_is_slower(claims: &mut Claims) {
    let mut worst = f64::INFINITY;
    for (name, _) in SAMPLES {
        worst = worst.min(head(claims, name).ratio).min(tail(claims, name).ratio);
    }
    let claim =
        format!("the slowest of {} kinds of text, head and tail: walk / ours", SAMPLES.len());
    claims.at_least(&claim, worst, 1.0);
}

fn head(claims: &Claims, name: &str) -> Found {
    against(claims, name, walk, &Cut::new(LIMIT, Unit::Graphemes))
}

fn tail(claims: &Claims, name: &str) -> Found {
    against(claims, name, walk_back, &Cut::new(LIMIT, Unit::Graphemes).keep(Keep::Tail))
}

/// What one writes without this crate.
fn walk(text: &str) -> usize {
    text.grapheme_indices(true).nth(LIMIT.get()).map_or(text.len(), |(at, _)| at)
}

/// The same from the end.
fn walk_back(text: &str) -> usize {
    let start = text.grapheme_indices(true).rev().nth(LIMIT.get() - 1).map_or(0, |(at, _)| at);
    text.len() - start
}

/// Both must come to the same place.
fn against(claims: &Claims, name: &str, walk: fn(&str) -> usize, cut: &Cut) -> Found {
    let text = sample(name, LENGTH);
    assert_eq!(walk(&text), cut.apply(&text).len(), "the cut is not where the walk ends");
    let name = format!("{name}, {:?}: walk", cut.keeps());
    let (walk, cut) = (|| walk(black_box(&text)), || cut.apply(black_box(&text)).len());
    claims.compare(Pace::SHORT, [&name, "ours"], walk, cut)
}
