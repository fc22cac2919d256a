//! Cuts against the Unicode consortium's own test of grapheme breaks.

#![allow(clippy::unwrap_used)] // what can't be read fails the test

use std::num::NonZeroUsize;

use memory_prompt::text::{Cut, Keep, Unit, count, fits};

const FILE: &str = include_str!("../data/GraphemeBreakTest-17.0.0.txt");

/// The clusters of a line such as `÷ 0061 × 0308 ÷ 0062 ÷`.
fn clusters(line: &str) -> Vec<String> {
    let scalar =
        |code: &str| char::from_u32(u32::from_str_radix(code.trim(), 16).unwrap()).unwrap();
    let clusters = line.trim().trim_matches('÷').split('÷');
    clusters.map(|cluster| cluster.split('×').map(scalar).collect()).collect()
}

fn cut(limit: usize, unit: Unit) -> Cut {
    Cut::new(NonZeroUsize::new(limit).unwrap(), unit)
}

/// Every cut of these clusters, at every limit that cuts, comes to where they say.
fn check(clusters: &[String]) {
    let text = clusters.concat();
    let total = clusters.len();
    assert_eq!(count(&text, Unit::Graphemes), total, "{text:?}");
    let fits = |limit| fits(&text, limit, Unit::Graphemes);
    assert!(fits(total) && !fits(total - 1), "{text:?}");
    // White space alone is not kept.
    let is_blank = |text: &str| text.trim().is_empty();
    let or_marker = |kept: &[String]| {
        let is_nothing = is_blank(&kept.concat()) && !is_blank(&text);
        if is_nothing { "…".to_owned() } else { kept.concat() }
    };
    for limit in 1..total {
        let cut = cut(limit, Unit::Graphemes);
        assert_eq!(cut.apply(&text), or_marker(&clusters[..limit]), "head of {text:?}");
        let tail = cut.clone().keep(Keep::Tail);
        assert_eq!(tail.apply(&text), or_marker(&clusters[total - limit..]), "tail of {text:?}");
    }

    let boundaries: Vec<usize> = (0..=total).map(|n| clusters[..n].concat().len()).collect();
    for unit in [Unit::Graphemes, Unit::Scalars, Unit::Utf16, Unit::Bytes] {
        for limit in 1..count(&text, unit) {
            for keep in [Keep::Head, Keep::Tail, Keep::Ends] {
                let plan = cut(limit, unit).keep(keep).plan(&[&text]).unwrap();
                for cut in [plan.head, plan.tail] {
                    let is_boundary = boundaries.contains(&cut.byte);
                    assert!(is_boundary, "{unit:?} {limit} {keep:?} of {text:?}");
                }
            }
        }
    }
}

#[test]
fn every_line_of_the_grapheme_break_test() {
    assert!(FILE.starts_with("# GraphemeBreakTest-17.0.0.txt\n"));
    let lines = FILE.lines().map(|line| line.split('#').next().unwrap());
    let lines: Vec<_> = lines.filter(|line| !line.trim().is_empty()).map(clusters).collect();
    assert_eq!(lines.len(), 766);
    for line in &lines {
        check(line);
    }
    // The same, where each has to be told from what stands around it. ASCII and Han take the fast
    // paths.
    for line in &lines {
        for around in ["a", "字"] {
            let is_joined = line.first().is_some_and(|first| joins(around, first))
                || line.last().is_some_and(|last| joins(last, around));
            if !is_joined {
                let around = [around.to_owned()];
                check(&[&around, &line[..], &around].concat());
            }
        }
    }
}

/// Whether two clusters are one when they stand together, as the file would say: a mark joins what
/// stands before it, and a prefix what stands behind.
fn joins(before: &str, after: &str) -> bool {
    count(&format!("{before}{after}"), Unit::Graphemes) == 1
}

/// Unicode 18.0 joins a consonant to any virama before it (rule `GB9c`), where 17.0 asks for a
/// consonant before that too. Its test file differs from 17.0 in these ten lines alone, of those
/// that 17.0 can say anything of; here with the breaks of 17.0.
#[test]
fn the_breaks_are_those_of_17_and_not_of_18() {
    assert_eq!(
        unicode_segmentation::UNICODE_VERSION,
        (17, 0, 0),
        "unicode-segmentation has moved: put the GraphemeBreakTest.txt of its version in tests/data, drop this test, \
         and let the tests in src/text.rs tell whether a character has left its class"
    );
    for line in [
        "094D ÷ 0915",
        "094D × 0308 ÷ 0915",
        "0061 × 094D ÷ 0924",
        "003F × 094D ÷ 0924",
        "1CF5 ÷ 0915",
        "1CF5 × 0308 ÷ 0915",
        "1CF5 ÷ 0995",
        "1CF6 ÷ 09AA",
        "1B05 × 1B44 ÷ 1B33 × 1B03",
        "11A3A ÷ 11A0B",
    ] {
        check(&clusters(line));
    }
}
