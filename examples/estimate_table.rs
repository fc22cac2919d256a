//! Compares `Estimate` with `o200k` on the corpora under `tests/data`.
//!
//! `cargo run --example estimate_table --features bpe`

use std::error::Error;
use std::fs;
use std::path::Path;

use memory_prompt::token::{Bpe, Estimate, TokenCounter};

fn main() -> Result<(), Box<dyn Error>> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/corpus");
    let mut texts = Vec::new();
    for entry in fs::read_dir(corpora)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "txt") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            texts.push((name, fs::read_to_string(path)?));
        }
    }
    texts.sort();

    // The last two columns: messages of 50 to 400 characters, each counted alone.
    println!(
        "| corpus | characters | o200k | estimate | error | first half | second half | median message | 9 in 10 |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut exact_counts = Vec::new();
    for (name, text) in &texts {
        let paragraphs: Vec<&str> = text.split("\n\n").collect();
        let (first, second) = paragraphs.split_at(paragraphs.len().div_ceil(2));
        let all = Counts::of(text)?;
        let first = Counts::of(&first.join("\n\n"))?;
        let second = Counts::of(&second.join("\n\n"))?;

        let mut errors = Vec::new();
        for message in paragraphs.iter().filter(|p| (50..=400).contains(&p.chars().count())) {
            errors.push(Counts::of(message)?.error().abs());
        }
        errors.sort_by(f64::total_cmp);

        println!(
            "| {name} | {} | {} | {} | {:+.1} % | {:+.1} % | {:+.1} % | ±{:.0} % | ±{:.0} % |",
            text.chars().count(),
            all.exact,
            all.estimate,
            all.error(),
            first.error(),
            second.error(),
            errors[errors.len() / 2],
            errors[errors.len() * 9 / 10],
        );
        exact_counts.push(format!("{name}\t{}\t{}\t{}", all.exact, first.exact, second.exact));
    }
    println!("\nThe exact counts (all, first half, second half):\n\n{}", exact_counts.join("\n"));
    Ok(())
}

struct Counts {
    exact: usize,
    estimate: usize,
}

impl Counts {
    fn of(text: &str) -> memory_prompt::Result<Self> {
        Ok(Self { exact: Bpe::o200k().count_text(text)?, estimate: Estimate.count_text(text)? })
    }

    /// In percent of the exact count.
    #[allow(clippy::cast_precision_loss)] // a few thousand tokens
    fn error(&self) -> f64 {
        (self.estimate as f64 / self.exact as f64 - 1.0) * 100.0
    }
}
