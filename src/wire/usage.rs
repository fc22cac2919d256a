//! The tokens that an answer cost, under any of their names.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::Fields;

/// The tokens of an answer, as far as the provider reports them. An unreported number is `None`,
/// not 0.
///
/// Providers count differently; here each number means the same for all of them.
///
/// ```
/// use memory_prompt::wire::{Usage, anthropic};
///
/// let body = r#"{"content": [{"type": "text", "text": "hi"}], "usage": {
///     "input_tokens": 5, "cache_read_input_tokens": 90, "cache_creation_input_tokens": 10,
///     "output_tokens": 3}}"#;
/// let usage = anthropic::answer(body)?.usage;
/// assert_eq!((usage.input, usage.cached, usage.written), (Some(105), Some(90), Some(10)));
///
/// let mut sum = Usage::default();
/// sum += usage;
/// sum += usage;
/// assert_eq!((sum.output, sum.reasoning), (Some(6), None));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Usage {
    /// All tokens that the model read, cached or not.
    pub input: Option<u64>,
    /// The part of the input that was read from a cache.
    pub cached: Option<u64>,
    /// The part of the input that was written into a cache.
    pub written: Option<u64>,
    /// All tokens that the model wrote, including reasoning and calls.
    pub output: Option<u64>,
    /// The part of the output that was reasoning.
    pub reasoning: Option<u64>,
}

impl AddAssign for Usage {
    /// Adds the reported numbers. If only one side has a number, the other counts as 0.
    fn add_assign(&mut self, other: Self) {
        self.join(other, u64::saturating_add);
    }
}

impl Usage {
    /// Replaces each count that a later event of the same answer reports: it is for the whole
    /// answer by then, whether larger or smaller. Some gateways write 0 for unknown numbers.
    pub(super) fn tells(&mut self, later: Self) {
        self.join(later, |known, later| if later == 0 { known } else { later });
    }

    /// Replaces all counts by those of a later event, if it has any.
    pub(super) fn is_now(&mut self, later: Self) {
        let Self { input, cached, written, output, reasoning } = later;
        let counts = [input, cached, written, output, reasoning].into_iter().flatten();
        if *self == Self::default() || counts.max() > Some(0) {
            *self = later;
        }
    }

    fn join(&mut self, other: Self, join: fn(u64, u64) -> u64) {
        let Self { input, cached, written, output, reasoning } = other;
        for (mine, other) in [
            (&mut self.input, input),
            (&mut self.cached, cached),
            (&mut self.written, written),
            (&mut self.output, output),
            (&mut self.reasoning, reasoning),
        ] {
            *mine = match (*mine, other) {
                (Some(mine), Some(other)) => Some(join(mine, other)),
                (mine, other) => mine.or(other),
            };
        }
    }

    /// Reads a Chat Completions `usage`.
    pub(super) fn chat(usage: &Value) -> Self {
        let read = &usage["prompt_tokens_details"];
        let wrote = &usage["completion_tokens_details"];
        let input = number(usage, &["prompt_tokens"]);
        let reasoning =
            number(wrote, &["reasoning_tokens"]).or_else(|| number(usage, &["reasoning_tokens"]));
        let cached = ["prompt_cache_hit_tokens", "cached_tokens", "num_cached_tokens", READ];
        let cached = number(read, &["cached_tokens"]).or_else(|| number(usage, &cached));
        let written = ["cache_write_tokens", "cache_creation_tokens"];
        let written = number(read, &written).or_else(|| number(usage, &[WRITTEN]));
        let said = number(usage, &["completion_tokens"]);
        let told = number(usage, &["total_tokens"]).zip(sum([input, said]));
        let untold = told.map(|(total, told)| total.saturating_sub(told));
        let (output, reasoning) = match (untold, reasoning) {
            // Google counts reasoning only in the total; others do the same with cached tokens.
            (Some(1..), None) if cached.or(written).is_none() => (sum([said, untold]), untold),
            // xAI and Perplexity don't include reasoning in the completion tokens.
            (Some(_), Some(_)) if untold == reasoning || reasoning > said => {
                (sum([said, reasoning]), reasoning)
            }
            _ => (said, reasoning),
        };
        Self { input, cached, written, output, reasoning }
    }

    /// Reads a Responses `usage`.
    pub(super) fn responses(usage: &Value) -> Self {
        let read = &usage["input_tokens_details"];
        Self {
            input: number(usage, &["input_tokens"]),
            cached: number(read, &["cached_tokens"]),
            written: number(read, &["cache_write_tokens", "cache_creation_tokens"]),
            output: number(usage, &["output_tokens"]),
            reasoning: number(&usage["output_tokens_details"], &["reasoning_tokens"]),
        }
    }

    /// Reads an Anthropic `usage`, whose input excludes cached tokens;
    /// [`with_caches`](Self::with_caches) adds them when everything has arrived.
    pub(super) fn anthropic(usage: &Value) -> Self {
        let mut sum = Self {
            input: number(usage, &["input_tokens"]),
            cached: number(usage, &[READ]),
            written: number(usage, &[WRITTEN]),
            output: number(usage, &["output_tokens"]),
            reasoning: number(&usage["output_tokens_details"], &["thinking_tokens"]),
        };
        // The tokens of compaction are billed, but not included in the other counts.
        let iterations = usage["iterations"].as_array().into_iter().flatten();
        for iteration in iterations.filter(|it| it["type"] == "compaction") {
            sum += Self::anthropic(iteration);
        }
        sum
    }

    pub(super) fn with_caches(self) -> Self {
        let beside = [self.input, Some(self.cached.unwrap_or(0)), Some(self.written.unwrap_or(0))];
        Self { input: sum(beside), ..self }
    }

    /// Reads Gemini's `usageMetadata`, in camel case.
    pub(super) fn gemini(usage: &Value) -> Self {
        let prompt = number(usage, &["promptTokenCount"]);
        let tools = number(usage, &["toolUsePromptTokenCount"]);
        let said = number(usage, &["candidatesTokenCount", "responseTokenCount"]);
        let reasoning = number(usage, &["thoughtsTokenCount"]);
        Self {
            input: sum([prompt, Some(tools.unwrap_or(0))]),
            cached: number(usage, &["cachedContentTokenCount"]),
            written: None,
            output: match said {
                None => reasoning,
                said => sum([said, Some(reasoning.unwrap_or(0))]),
            },
            reasoning,
        }
    }

    /// Reads the counts in an Ollama body.
    pub(super) fn ollama(body: &Fields) -> Self {
        let number = |name| body.get(name)?.as_u64();
        Self { input: number("prompt_eval_count"), output: number("eval_count"), ..Self::default() }
    }
}

const READ: &str = "cache_read_input_tokens";
const WRITTEN: &str = "cache_creation_input_tokens";

/// Returns the first number under these names. A value of another type is ignored: a paid answer
/// must not be lost because of it.
fn number(of: &Value, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| of.get(name)?.as_u64())
}

/// Returns the sum, if all numbers are reported.
fn sum<const N: usize>(numbers: [Option<u64>; N]) -> Option<u64> {
    numbers.into_iter().try_fold(0_u64, |sum, number| Some(sum.saturating_add(number?)))
}
