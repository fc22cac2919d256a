//! Laws that count how often they are tried, and print it.
//!
//! Each law says a number of cases. `cargo test` tries an eighth of it, and `.ci/run` all of it:
//! `MEMORY_PROMPT_CASES` is `all`, or a number for every law.
//!
//! `PROPTEST_CASES` overrides the number of cases that a test asks of proptest, silently and in
//! both directions. So cases are counted here: where proptest tries fewer, there is another round,
//! and a law that ends with fewer cases than it is to have fails.

#![allow(clippy::panic, dead_code, unused_macros, unused_imports, unreachable_pub)] // each test file uses its own part of it

use std::cell::Cell;

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed};

/// Rounds in a row that may add nothing: one of a single case may be refused.
const IDLE: u32 = 100;

/// How often a law was tried, of how often it says.
pub struct Count {
    name: &'static str,
    wanted: u32,
    held: Cell<u32>,
    /// What had held before the last round, and how many rounds in a row have added nothing.
    before: Cell<(u32, u32)>,
    /// How many cases this round passes over, and how many it has drawn.
    drawn: Cell<(u32, u32)>,
}

impl Count {
    pub fn of(name: &'static str, wanted: u32) -> Self {
        assert!(wanted > 0, "{name} would hold for nothing at all");
        let (held, before, drawn) = (Cell::new(0), Cell::new((0, 0)), Cell::new((0, 0)));
        Self { name, wanted, held, before, drawn }
    }

    /// A case held.
    pub fn one(&self) {
        self.held.set(self.held.get() + 1);
    }

    pub fn left(&self) -> u32 {
        self.wanted.saturating_sub(self.held.get())
    }

    /// Returns the configuration of a round of so many new cases. A fixed seed gives each round the
    /// same ones: those that were tried are passed over, and twice as many follow, since some may
    /// be refused.
    pub fn round(&self, cases: u32, config: Config) -> Config {
        let (passed, drawn) = self.drawn.get();
        assert!(
            drawn > 0 || self.held.get() == 0,
            "{} asks of no case whether it is new",
            self.name
        );
        let is_fixed = matches!(config.rng_seed, RngSeed::Fixed(_));
        let tried = if is_fixed { passed.max(drawn) } else { 0 };
        self.drawn.set((tried, 0));
        let cases = if tried == 0 { cases } else { tried + 2 * cases };
        Config { cases, ..config }
    }

    /// Draws a case: whether no round has tried it.
    pub fn is_new(&self) -> bool {
        let (passed, drawn) = self.drawn.get();
        self.drawn.set((passed, drawn + 1));
        drawn >= passed
    }

    /// Whether another round is needed, and of any use.
    pub fn goes_on(&self) -> bool {
        let (held, (before, idle)) = (self.held.get(), self.before.get());
        let idle = if held > before { 0 } else { idle + 1 };
        self.before.set((held, idle));
        held < self.wanted && idle <= IDLE
    }

    /// Prints how often the law held, and fails where that is less than it says.
    pub fn close(&self) {
        let (Self { name, wanted, .. }, held) = (self, self.held.get());
        assert!(held >= *wanted, "{name} says {wanted} cases, and held for {held}");
        println!("counted: {name} held for {held} cases, of {wanted}");
    }
}

/// Returns how often a law is tried that says `full`.
pub fn cases(full: u32) -> u32 {
    let Ok(asked) = std::env::var("MEMORY_PROMPT_CASES") else { return full.div_ceil(8) };
    if asked == "all" {
        return full;
    }
    let number = asked.parse().ok().filter(|number| *number > 0);
    number.unwrap_or_else(|| {
        panic!("MEMORY_PROMPT_CASES is {asked:?}, which is neither `all` nor a number of cases")
    })
}

/// A configuration that tries again what has failed before: the file next to the test names it.
pub fn regressions() -> Config {
    let file = FileFailurePersistence::WithSource("regressions");
    Config { failure_persistence: Some(Box::new(file)), ..Config::default() }
}

/// `proptest!` for laws that say how often they are tried in full: a number, and the rest of the
/// configuration where it is another one.
macro_rules! counted {
    (#![cases($cases:expr)] $($laws:tt)*) => {
        $crate::counted::counted! {
            #![cases($cases, proptest::test_runner::Config {
                failure_persistence: None,
                ..proptest::test_runner::Config::default()
            })]
            $($laws)*
        }
    };
    (
        #![cases($cases:expr, $config:expr)]
        $($(#[$meta:meta])* fn $name:ident($($arguments:tt)+) $body:block)*
    ) => {$(
        $(#[$meta])*
        fn $name() {
            let count = $crate::counted::Count::of(stringify!($name), $crate::counted::cases($cases));
            while count.goes_on() {
                let config = count.round(count.left(), $config);
                proptest::proptest!(config, |($($arguments)+)| {
                    let law = || -> Result<(), proptest::test_runner::TestCaseError> {
                        $body
                        #[allow(unreachable_code)]
                        Ok(())
                    };
                    if count.is_new() {
                        law()?;
                        count.one();
                    }
                });
            }
            count.close();
        }
    )*};
}
pub(crate) use counted;
