//! How a claim is measured: two pieces of work in turns, in one run, and the median of their
//! ratios.

use std::fmt;
use std::hint::black_box;
use std::time::Instant;

/// How often and how long each of two works is run.
#[derive(Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) runs: usize,
    pub(crate) nanos: u128,
}

impl Pace {
    /// For work of nanoseconds and microseconds: many runs that are much shorter than the system's
    /// time slices, so that what else the machine does falls on few of them.
    pub(crate) const FINE: Self = Self { runs: 1001, nanos: 200_000 };
    /// For many such works one after another.
    pub(crate) const SHORT: Self = Self { runs: 101, ..Self::FINE };
    /// For work of microseconds whose two kinds differ by a few per cent.
    pub(crate) const FINEST: Self = Self { runs: 4501, nanos: 50_000 };
}

/// What was found of two works.
pub(crate) struct Found {
    /// Medians, in nanoseconds a call.
    pub(crate) nanos: [f64; 2],
    /// The first to the second: the median of the runs, and what the middle half of them lies
    /// between.
    pub(crate) ratio: f64,
    between: [f64; 2],
}

/// What was claimed, and whether it holds.
#[derive(Default)]
pub(crate) struct Claims {
    /// Only show that it runs.
    pub(crate) quick: bool,
    lines: Vec<String>,
    short: usize,
}

impl Claims {
    pub(crate) fn new(quick: bool) -> Self {
        Self { quick, ..Self::default() }
    }

    /// How many messages are many.
    ///
    /// As far into a block of a memory, which are of 64, as a hundred are: ten messages that lie on
    /// two blocks instead of one cost a little more, however many there are.
    pub(crate) fn large(&self) -> u64 {
        100 + 64 * if self.quick { 150 } else { 15_624 }
    }

    /// Takes two works in turns, and prints what was found.
    pub(crate) fn compare<A, B>(
        &self,
        pace: Pace,
        names: [&str; 2],
        mut first: impl FnMut() -> A,
        mut second: impl FnMut() -> B,
    ) -> Found {
        let pace = if self.quick { Pace { runs: 3, nanos: pace.nanos / 10 } } else { pace };
        let calls = [calls(pace, &mut first), calls(pace, &mut second)];
        let mut runs = [(); 3].map(|()| Vec::with_capacity(pace.runs));
        for _ in 0..pace.runs {
            let [first, second] = [time(calls[0], &mut first), time(calls[1], &mut second)];
            for (runs, run) in runs.iter_mut().zip([first, second, first / second]) {
                runs.push(run);
            }
        }
        for runs in &mut runs {
            runs.sort_by(f64::total_cmp);
        }
        let at = |runs: &[f64], quarter: usize| runs[(runs.len() - 1) * quarter / 4];
        let [first, second, ratios] = &runs;
        let found = Found {
            nanos: [at(first, 2), at(second, 2)],
            ratio: at(ratios, 2),
            between: [at(ratios, 1), at(ratios, 3)],
        };
        let [first, second] = found.nanos.map(Nanos);
        let [low, high] = found.between;
        println!(
            "      {}: {first}; {}: {second}; {:.2} (the middle half of {} runs: {low:.2} to {high:.2})",
            names[0], names[1], found.ratio, pace.runs
        );
        found
    }

    /// Claims that what was measured is no more than the goal.
    pub(crate) fn at_most(&mut self, name: &str, measured: f64, goal: f64) {
        self.claim(name, measured, "at most", goal, measured <= goal);
    }

    /// Claims that what was measured is no less than the goal.
    pub(crate) fn at_least(&mut self, name: &str, measured: f64, goal: f64) {
        self.claim(name, measured, "at least", goal, measured >= goal);
    }

    fn claim(&mut self, name: &str, measured: f64, sense: &str, goal: f64, reached: bool) {
        let verdict = if reached { "ok" } else { "SHORT" };
        self.short += usize::from(!reached);
        self.lines
            .push(format!("claim {name}: measured {measured:.2} goal {sense} {goal} {verdict}"));
    }

    /// Says which claims are not measured in this run, and why.
    pub(crate) fn leave_out(&mut self, name: &str, why: &str) {
        self.lines.push(format!("claim {name}: left out, {why}"));
    }

    /// Prints a line a claim; returns how many fell short.
    pub(crate) fn finish(self) -> usize {
        println!();
        for line in &self.lines {
            println!("{line}");
        }
        self.short
    }
}

/// How many calls fill a run.
fn calls<R>(pace: Pace, work: &mut impl FnMut() -> R) -> u32 {
    let mut calls = 1;
    while time(calls, work) * f64::from(calls) < pace.nanos as f64 {
        calls *= 2;
    }
    calls
}

/// Nanoseconds a call; what a call returns is dropped within.
fn time<R>(calls: u32, work: &mut impl FnMut() -> R) -> f64 {
    let start = Instant::now();
    for _ in 0..calls {
        drop(black_box(work()));
    }
    start.elapsed().as_nanos() as f64 / f64::from(calls)
}

struct Nanos(f64);

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            nanos if nanos < 1e3 => write!(f, "{nanos:.1} ns"),
            nanos if nanos < 1e6 => write!(f, "{:.2} µs", nanos / 1e3),
            nanos => write!(f, "{:.2} ms", nanos / 1e6),
        }
    }
}

/// A number as people write it.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}
