//! Cutting and counting text, beside a walk of its characters with unicode-segmentation.
//!
//! `cargo bench -p memory-prompt-benches --bench text`. A cut costs its limit, a count the whole
//! text, so the counts also say bytes a second.

#![allow(clippy::unwrap_used, missing_docs)] // a bench that panics has failed

#[path = "common/measure.rs"]
mod measure;
#[path = "common/samples.rs"]
mod samples;

use std::hint::black_box;
use std::num::NonZeroUsize;

use divan::Bencher;
use divan::counter::BytesCount;
use memory_prompt::text::{self, Cut, Keep, Unit};
use unicode_segmentation::UnicodeSegmentation;

use samples::sample;

const KINDS: [&str; 6] = ["ascii", "chinese", "japanese", "hindi", "emoji", "code"];
const LIMIT: usize = 1000;

fn main() {
    measure::run();
}

/// A text of this kind of about so many bytes.
fn of_bytes(kind: &str, bytes: usize) -> String {
    let piece = sample(kind, 100);
    piece.repeat(bytes.div_ceil(piece.len()))
}

#[divan::bench_group]
mod cut_to_1000_characters {
    use super::{Bencher, Cut, KINDS, Keep, LIMIT, NonZeroUsize, UnicodeSegmentation, Unit};
    use super::{black_box, of_bytes};

    fn cut(bencher: Bencher<'_, '_>, kind: &str, bytes: usize, keep: Keep) {
        let text = of_bytes(kind, bytes);
        let cut = Cut::new(NonZeroUsize::new(LIMIT).unwrap(), Unit::Graphemes).keep(keep);
        bencher.bench_local(|| cut.apply(black_box(&text)).len());
    }

    #[divan::bench(consts = [100, 20_000, 10_000_000], args = KINDS)]
    fn head<const BYTES: usize>(bencher: Bencher<'_, '_>, kind: &str) {
        cut(bencher, kind, BYTES, Keep::Head);
    }

    #[divan::bench(consts = [100, 20_000, 10_000_000], args = KINDS)]
    fn head_by_graphemes<const BYTES: usize>(bencher: Bencher<'_, '_>, kind: &str) {
        let text = of_bytes(kind, BYTES);
        bencher.bench_local(|| black_box(&text).grapheme_indices(true).nth(LIMIT));
    }

    #[divan::bench(consts = [20_000], args = KINDS)]
    fn tail<const BYTES: usize>(bencher: Bencher<'_, '_>, kind: &str) {
        cut(bencher, kind, BYTES, Keep::Tail);
    }

    #[divan::bench(consts = [20_000], args = KINDS)]
    fn tail_by_graphemes<const BYTES: usize>(bencher: Bencher<'_, '_>, kind: &str) {
        let text = of_bytes(kind, BYTES);
        bencher.bench_local(|| black_box(&text).grapheme_indices(true).rev().nth(LIMIT - 1));
    }
}

#[divan::bench_group]
mod count_characters {
    use super::{Bencher, BytesCount, KINDS, UnicodeSegmentation, Unit, black_box, of_bytes, text};

    #[divan::bench(consts = [100, 20_000, 10_000_000], args = KINDS)]
    fn count<const BYTES: usize>(bencher: Bencher<'_, '_>, kind: &str) {
        let text = of_bytes(kind, BYTES);
        bencher
            .counter(BytesCount::of_str(&text))
            .bench_local(|| text::count(black_box(&text), Unit::Graphemes));
    }

    #[divan::bench(consts = [100, 20_000, 10_000_000], args = KINDS)]
    fn by_graphemes<const BYTES: usize>(bencher: Bencher<'_, '_>, kind: &str) {
        let text = of_bytes(kind, BYTES);
        bencher
            .counter(BytesCount::of_str(&text))
            .bench_local(|| black_box(&text).graphemes(true).count());
    }
}
