//! Cutting 20,000 characters to 1000, against walking the clusters with unicode-segmentation to the same place.
//!
//! `cargo bench --bench text` prints one table. The ratio is what counts: both are measured in turns, in one run.

#![allow(missing_docs)] // a program, not a library

use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use memory_prompt::text::{Cut, Keep, Unit};
use unicode_segmentation::UnicodeSegmentation;

const LENGTH: usize = 20_000;
const LIMIT: NonZeroUsize = NonZeroUsize::new(1000).unwrap();
const ROUNDS: usize = 21;

/// Prose or code of each kind; repeated up to the length.
#[rustfmt::skip]
const SAMPLES: [(&str, &str); 17] = [
    ("ascii", "The quick brown fox jumps over the lazy dog, then does it again because nobody was looking. "),
    ("ascii crlf", "HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 4096\r\n\r\n"),
    ("code", "fn main() {\n    let x: Vec<_> = (0..10).map(|i| i * 2).collect();\n    println!(\"→ {x:?} – ok\");\n}\n"),
    ("french", "Dès Noël, où un zéphyr haï me vêt de glaçons würmiens, je dîne d’exquis rôtis de bœuf. "),
    ("russian", "Съешь же ещё этих мягких французских булок, да выпей чаю. "),
    ("chinese", "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。"),
    ("japanese", "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。カタカナとABCも混ざる。"),
    ("korean", "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았다. "),
    ("arabic", "يولد جميع الناس أحرارًا متساوين في الكرامة والحقوق. وقد وهبوا عقلاً وضميرًا وعليهم أن يعامل بعضهم بعضًا. "),
    ("hindi", "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है। "),
    ("tamil", "மனிதப் பிறவியினர் சகலரும் சுதந்திரமாகவே பிறக்கின்றனர்; அவர்கள் மதிப்பிலும், உரிமைகளிலும் சமமானவர்கள். "),
    ("thai", "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม "),
    ("burmese", "လူတိုင်းသည် တူညီ လွတ်လပ်သော ဂုဏ်သိက္ခာဖြင့် လည်းကောင်း၊ တူညီလွတ်လပ်သော အခွင့်အရေးများဖြင့် လည်းကောင်း မွေးဖွားလာသူများ ဖြစ်သည်။ "),
    ("tibetan", "འགྲོ་བ་མིའི་རིགས་རྒྱུད་ཡོངས་ལ་སྐྱེས་ཙམ་ཉིད་ནས་ཆེ་མཐོངས་དང༌། ཐོབ་ཐངགི་རང་དབང་འདྲ་མཉམ་དུ་ཡོད་ལ། "), // in no fast path
    ("emoji", "👩‍👩‍👧‍👦👍🏽😀❤️🧑🏿‍🚀🏳️‍🌈😂🤷🏻‍♀️"),
    ("flags", "🇳🇴🇸🇪🇩🇰🇫🇮🇮🇸🇪🇪🇱🇻🇱🇹"),
    ("mixed", "Order #42 für Зоя: 東京 → Oslo 🇳🇴, café crème ×2 👍🏽; नमस्ते, 안녕하세요! Total: 1 234,50 €. "),
];

fn main() {
    println!(
        "cutting {LENGTH} characters to {LIMIT}, ns, and how many times faster than the walk: medians of {ROUNDS}"
    );
    println!(
        "{:<11} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7}",
        "", "head walk", "head cut", "ratio", "tail walk", "tail cut", "ratio"
    );
    let head = Cut::new(LIMIT, Unit::Graphemes);
    let tail = head.clone().keep(Keep::Tail);
    for (name, sample) in SAMPLES {
        let text: String = sample.graphemes(true).cycle().take(LENGTH).collect();
        let [walked, cut, ratio] = duel(&text, walk, |text| head.apply(text).len());
        let [walked_back, cut_tail, ratio_tail] =
            duel(&text, walk_back, |text| tail.apply(text).len());
        println!(
            "{name:<11} {walked:>9.0} {cut:>9.0} {ratio:>7.1} {walked_back:>9.0} {cut_tail:>9.0} {ratio_tail:>7.1}"
        );
    }
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

/// The median times of both, in turns, and the median of their ratio. Both must come to the same place.
fn duel(text: &str, walk: impl Fn(&str) -> usize, cut: impl Fn(&str) -> usize) -> [f64; 3] {
    assert_eq!(walk(text), cut(text), "the cut is not where the walk ends");
    let mut rounds = [(); 3].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        let (walked, cut) = (time(|| walk(black_box(text))), time(|| cut(black_box(text))));
        for (times, time) in rounds.iter_mut().zip([walked, cut, walked / cut]) {
            times.push(time);
        }
    }
    rounds.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[ROUNDS / 2]
    })
}

/// The nanoseconds of one call, from as many as make the clock's own steps vanish.
fn time(call: impl Fn() -> usize) -> f64 {
    let start = Instant::now();
    let mut calls = 0.0;
    while start.elapsed() < Duration::from_millis(1) {
        for _ in 0..8 {
            black_box(call());
        }
        calls += 8.0;
    }
    start.elapsed().as_secs_f64() * 1e9 / calls
}
