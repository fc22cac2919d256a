//! Cutting a text: the first time, and when the cut is known.

use std::hint::black_box;

use memory_prompt::text::Keep;
use memory_prompt::{ChatMemoryExt, DefaultChatMemory, MemoryPrompt, Message, Truncate};
use unicode_segmentation::UnicodeSegmentation;

use crate::harness::{Claims, Pace};
use crate::samples::{SAMPLES, sample};

const LENGTH: usize = 20_000;
const LIMIT: usize = 1000;

/// What has more scalar values a character, or more rules for them, than other writing.
const DENSE: [&str; 3] = ["burmese", "emoji", "flags"];

/// With the copy of the message, whatever it is written in and whichever end is kept.
pub(crate) fn a_first_cut_is_quick(claims: &mut Claims) {
    let (mut most, mut dense) = (0.0_f64, 0.0_f64);
    for (name, _) in SAMPLES {
        let text = sample(name, LENGTH);
        let message = Message::user(text.as_str());
        for keep in [Keep::Head, Keep::Tail, Keep::Ends] {
            let truncate = Truncate::chars(LIMIT).unwrap().keep(keep);
            let shortened = truncate.shorten(&message).unwrap();
            assert_eq!(shortened.text().graphemes(true).count(), LIMIT);
            let names = [&*format!("{name}, {keep:?}: first cut"), "whole copy"];
            let cut = || truncate.shorten(black_box(&message));
            let found = claims.compare(Pace::SHORT, names, cut, || black_box(&message).clone());
            let worst = if DENSE.contains(&name) { &mut dense } else { &mut most };
            *worst = worst.max(found.nanos[0] / 1e3);
        }
    }
    let claim = "first cut of 20,000 characters to 1000, whichever end is kept: microseconds,";
    let kinds = SAMPLES.len() - DENSE.len();
    claims.at_most(&format!("{claim} the slowest of {kinds} kinds of text"), most, 50.0);
    claims.at_most(&format!("{claim} of {}", DENSE.join(" or ")), dense, 100.0);
}

/// A prompt remembers what it has cut.
pub(crate) fn a_known_cut_costs_nothing(claims: &mut Claims) {
    let prompt = |characters: usize| {
        let memory = DefaultChatMemory::new();
        memory.add_all((0..10).map(|_| Message::user(sample("mixed", characters)))).unwrap();
        let prompt = MemoryPrompt::new(memory).truncate(Truncate::chars(LIMIT).unwrap());
        assert_eq!(prompt.preview().unwrap().len(), 10);
        prompt
    };
    let (known, short) = (prompt(LENGTH), prompt(LIMIT));
    let names = ["10 messages whose cuts are known", "10 that fit"];
    let found =
        claims.compare(Pace::FINE, names, || known.preview().unwrap(), || short.preview().unwrap());
    let more = (found.nanos[0] - found.nanos[1]) / 10.0 / 1e3;
    claims.at_most("a cut that is known: microseconds over a message that fits", more, 1.0);
}
