//! What the README and the documentation claim about speed, measured: ratios inside one run, and
//! one line a claim at the end.
//!
//! ```text
//! cargo bench -p memory-prompt-benches --bench claims --features reqwest,sqlite,ureq                    two minutes
//! cargo bench -p memory-prompt-benches --bench claims --features reqwest,sqlite,ureq -- --quick         only shows that it runs
//! cargo bench -p memory-prompt-benches --bench claims --features reqwest,sqlite,ureq -- --strict wire   these alone; fails where one is short
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a bench that panics has failed
#![allow(clippy::cast_precision_loss)] // nanoseconds and bytes are far below 2^53

#[path = "../common/backends.rs"]
mod backends;
#[cfg(all(feature = "tokio", any(feature = "postgres", feature = "redis")))]
mod callers;
mod codec;
mod compose;
#[path = "../../tests/common/folder.rs"]
#[allow(dead_code)] // files are for SQLite
mod folder;
mod harness;
mod history;
#[path = "../common/messages.rs"]
mod messages;
#[cfg(all(feature = "postgres", feature = "tokio"))]
mod postgres;
mod recall;
#[cfg(all(feature = "redis", feature = "tokio"))]
mod redis;
#[path = "../common/samples.rs"]
mod samples;
#[cfg(feature = "sqlite")]
mod sqlite;
mod stores;
mod text;
mod tokens;
#[cfg(any(feature = "reqwest", feature = "ureq"))]
mod transport;
mod turn;
mod wire;

use std::process::ExitCode;

use harness::Claims;

type Measure = fn(&mut Claims);

/// One function a claim, or a few that share what they measure.
const CLAIMS: &[(&str, Measure)] = &[
    ("compose: flat", compose::build_is_flat),
    ("compose: loop", compose::tool_loops_are_flat),
    ("compose: unasked", compose::no_question_is_flat),
    ("compose: allocations", compose::build_allocates_little),
    ("compose: nothing to cut", compose::looking_for_long_messages_is_cheap),
    ("compose: cut", compose::cutting_costs_the_limit),
    ("compose: clearing", compose::clearing_costs_little),
    ("compose: pins", compose::pins_and_summaries_cost_little),
    ("compose: budget", compose::budget_is_flat),
    ("compose: calls", compose::calls_are_linear),
    ("memory: bytes", compose::messages_are_small),
    ("text: first cut", text::a_first_cut_is_quick),
    ("text: known cut", text::a_known_cut_costs_nothing),
    ("tokens: window", tokens::appends_recount_nothing),
    ("turn: memory", turn::a_turn_costs_little),
    #[cfg(feature = "sqlite")]
    ("turn: sqlite", turn::a_turn_in_sqlite_costs_one_append),
    ("turn: inbox", turn::an_inbox_is_found_quickly),
    #[cfg(feature = "ureq")]
    ("transport: ureq", transport::a_first_byte_by_ureq_is_not_late),
    #[cfg(feature = "reqwest")]
    ("transport: reqwest", transport::a_first_byte_by_reqwest_is_not_late),
    ("wire: value", wire::writing_costs_at_most_three_values),
    ("wire: request", wire::a_request_costs_at_most_three_values),
    ("wire: thousand", wire::a_thousand_messages_take_a_millisecond),
    ("wire: ascii", wire::writing_ascii_is_fast),
    ("codec: bincode", codec::bincode_is_smaller_and_faster),
    ("recall: quick", recall::prompts_with_recall_are_quick),
    ("recall: long questions", recall::long_questions_are_quick),
    ("recall: rotation", recall::conversations_in_rotation_are_quick),
    ("recall: off", recall::prompts_without_recall_cost_nothing),
    ("history: branches", history::branches_cost_little),
    #[cfg(feature = "sqlite")]
    ("history: sqlite", history::branches_in_a_file_cost_little),
    ("stores: flat", stores::reads_are_flat),
    #[cfg(all(feature = "postgres", feature = "tokio"))]
    ("stores: postgres callers", postgres::many_callers_cost_little),
    #[cfg(all(feature = "redis", feature = "tokio"))]
    ("stores: redis callers", redis::many_callers_cost_little),
    ("stores: find", stores::one_of_many_is_found),
    ("stores: linear", stores::listing_and_purging_are_linear),
    #[cfg(feature = "sqlite")]
    ("stores: sqlite read", sqlite::reading_costs_little),
    #[cfg(feature = "sqlite")]
    ("stores: sqlite pictures", sqlite::pictures_stay_where_they_are),
    #[cfg(feature = "sqlite")]
    ("stores: sqlite append", sqlite::appending_costs_little),
    #[cfg(feature = "sqlite")]
    ("stores: sqlite writers", sqlite::many_writers_share_their_commits),
];

fn main() -> ExitCode {
    let (flags, wanted): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|arg| arg.starts_with("--"));
    let has = |flag: &str| flags.iter().any(|given| given == flag);
    let mut claims = Claims::new(has("--quick") || has("--test"));
    for (name, measure) in CLAIMS {
        if wanted.is_empty() || wanted.iter().any(|wanted| name.contains(wanted.as_str())) {
            println!("{name}");
            measure(&mut claims);
        }
    }
    let short = claims.finish();
    if has("--strict") && short > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
