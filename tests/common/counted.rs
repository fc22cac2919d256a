//! Laws that are tried as often as they say, and say how often that was.
//!
//! `PROPTEST_CASES` overrides the number of cases that a test asks of proptest, silently and in
//! both directions. So a law whose number is a claim is counted here: where the environment asks
//! for fewer, there is another round, and a law that comes to its end with fewer cases than it says
//! has failed.

#![allow(clippy::panic, dead_code, unused_macros, unused_imports, unreachable_pub)] // each test file uses its own part of it

use std::cell::Cell;

/// Rounds in a row that may add nothing: one of a single case may be refused.
const IDLE: u32 = 100;

/// How often a law was tried, of how often it says.
pub struct Count {
    name: &'static str,
    wanted: u32,
    held: Cell<u32>,
    /// What had held before the last round, and how many rounds in a row have added nothing.
    before: Cell<(u32, u32)>,
}

impl Count {
    pub fn of(name: &'static str, wanted: u32) -> Self {
        assert!(wanted > 0, "{name} would hold for nothing at all");
        Self { name, wanted, held: Cell::new(0), before: Cell::new((0, 0)) }
    }

    /// A case held.
    pub fn one(&self) {
        self.held.set(self.held.get() + 1);
    }

    pub fn left(&self) -> u32 {
        self.wanted.saturating_sub(self.held.get())
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

/// How often a law is tried: what `MEMORY_PROMPT_CASES` asks for, or `default`.
pub fn cases(default: u32) -> u32 {
    let Ok(asked) = std::env::var("MEMORY_PROMPT_CASES") else { return default };
    let number = asked.parse().ok().filter(|number| *number > 0);
    number
        .unwrap_or_else(|| panic!("MEMORY_PROMPT_CASES is {asked:?}, which is no number of cases"))
}

/// `proptest!` for laws that say how often they are tried: their number, then the rest of the
/// configuration.
macro_rules! counted {
    (
        #![cases($cases:expr, $config:expr)]
        $($(#[$meta:meta])* fn $name:ident($($arguments:tt)+) $body:block)*
    ) => {$(
        $(#[$meta])*
        fn $name() {
            let count = $crate::counted::Count::of(stringify!($name), $cases);
            while count.goes_on() {
                let config = proptest::test_runner::Config { cases: count.left(), ..$config };
                proptest::proptest!(config, |($($arguments)+)| {
                    let law = || -> Result<(), proptest::test_runner::TestCaseError> {
                        $body
                        #[allow(unreachable_code)]
                        Ok(())
                    };
                    law()?;
                    count.one();
                });
            }
            count.close();
        }
    )*};
}
pub(crate) use counted;
