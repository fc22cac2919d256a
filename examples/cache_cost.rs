//! Measures the cost of a window on the history with a provider that caches prompts. A
//! conversation of 400 turns, and an agent's loop of 60 calls, are sent through several windows,
//! and each prompt is compared with what the provider has stored, by the rules of five providers.
//! All is measured on the prompts; the one formula is that of `Window::stepped_for` for its step.
//! Nothing is sent anywhere.
//!
//! `cargo run --release --example cache_cost [plot.svg]` prints tables and writes the plot, to
//! `target/cache_cost.svg` unless told otherwise.

use std::collections::HashSet;
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::iter::once;
use std::path::Path;

use memory_prompt::token::TokenCounter;
use memory_prompt::window::Prices;
use memory_prompt::{
    Budget, Clear, Composer, DefaultChatMemory, MemoryPrompt, Message, ToolCall, Window,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const TURNS: usize = 400;
const SYSTEM: usize = 1_500; // tokens
const QUESTION: usize = 60;
const ANSWER: usize = 240;
const LOW: usize = 40; // messages
const CALLS: usize = 60;
const RESULT: usize = 5_000; // tokens: 20 KB

fn main() -> Result<()> {
    let providers = providers();
    let mut tables = Vec::new();
    for provider in &providers {
        let runs = ways(provider.prices)?.map(|way| converse(&way, provider, TURNS, turn));
        let runs = runs.into_iter().collect::<Result<Vec<Run>>>()?;
        print_table(provider, &runs);
        tables.push(runs);
    }
    print_summary(&providers, &tables);

    let claims = |runs: &[Run]| [1, 2].map(|i| runs[i].cost() / runs[0].cost());
    let [stepped, derived] = claims(&tables[TENTH]);
    println!("\nstepped / sliding at a cached price of 0.1: {stepped:.3} (goal at most 0.32)");
    println!("price-derived / sliding: {derived:.3} (goal at most 0.28)");
    let [stepped, derived] = claims(&tables[TENTH_AND_FEE]);
    println!("where writing costs 1.25, and sliding does not write: {stepped:.3} and {derived:.3}");

    print_agent(&providers)?;

    let path = std::env::args().nth(1).unwrap_or_else(|| "target/cache_cost.svg".to_owned());
    if let Some(directory) = Path::new(&path).parent() {
        fs::create_dir_all(directory)?;
    }
    fs::write(&path, plot(&tables[TENTH])?)?;
    println!("\nThe plot is {path}.");
    Ok(())
}

/// A way to send the history; those that slide lose the cached history on each turn.
struct Way {
    name: &'static str,
    composer: Composer,
    slides: bool,
}

fn ways(prices: Prices) -> memory_prompt::Result<[Way; 6]> {
    let window = |name, window| Way {
        name,
        composer: Composer::new().window(window).clone(),
        slides: false,
    };
    let sliding = |name, n| Way { slides: true, ..window(name, Window::last(n)) };
    let budget = Budget::new(14_000).stepped(6_000, 12_000)?; // 6,000 tokens are 40 messages
    let budget = Composer::new().max_tokens(budget, words).clone();
    Ok([
        sliding("sliding over 40", LOW),
        window("stepped by 16", Window::stepped(LOW, 16)?),
        window("price-derived step", Window::stepped_for(LOW, prices)?),
        Way { name: "6,000 to 12,000 tokens", composer: budget, slides: false },
        sliding("sliding over 20", 20),
        window("40 falling to 20", Window::stepped(20, 20)?),
    ])
}

/// The ways to send an agent's loop, the cheapest first.
fn agents_ways(prices: Prices) -> memory_prompt::Result<[Way; 8]> {
    let way = |name, window, clear: Option<Clear>| {
        let composer = Composer::new().window(window);
        let composer = clear.into_iter().fold(composer, Composer::clear);
        Way { name, composer, slides: false }
    };
    let cleared = |step| Some(Clear::tool_results().step(step));
    let sliding = |name, n| Way { slides: true, ..way(name, Window::last(n), None) };
    Ok([
        way("everything, cleared in steps of 32", Window::all(), cleared(32)),
        way("everything, cleared in steps of 16", Window::all(), cleared(16)),
        way("everything, cleared in steps of 1", Window::all(), cleared(1)),
        way("`stepped_for(20, prices)`", Window::stepped_for(20, prices)?, None),
        way("everything", Window::all(), None),
        way("`turns(3)`", Window::turns(3), None),
        sliding("`last(10)`", 10),
        sliding("`last(20)`", 20),
    ])
}

/// Prints what an agent's loop costs, in parts of what all of it costs at the full price.
fn print_agent(providers: &[Provider]) -> Result<()> {
    println!("\nOne question, {CALLS} calls with a result of {RESULT} tokens each: cost a call,");
    println!("in parts of sending everything at the full price\n");
    let names: Vec<&str> = providers.iter().map(|provider| provider.name).collect();
    println!("| sent | {} |", names.join(" | "));
    println!("|---|{}", "--:|".repeat(names.len()));
    let mut rows: Vec<String> = Vec::new();
    for provider in providers {
        let ways = agents_ways(provider.prices)?;
        rows.resize_with(ways.len(), String::new);
        let runs = ways.map(|way| converse(&way, provider, CALLS + 1, call));
        let runs = runs.into_iter().collect::<Result<Vec<Run>>>()?;
        let whole = |run: &Run| run.calls.iter().map(|call| call.tokens).sum::<usize>();
        let most = runs.iter().map(whole).max().unwrap_or(1); // where everything is sent as it is
        for (row, run) in rows.iter_mut().zip(&runs) {
            if row.is_empty() {
                write!(row, "| {} |", run.name)?;
            }
            let cost: f64 = run.calls.iter().map(|call| call.cost).sum();
            write!(row, " {:.3} |", cost / float(most))?;
        }
    }
    println!("{}", rows.join("\n"));
    Ok(())
}

/// The rules by which a provider caches. Prices are relative to a token that has nothing to do with the cache.
struct Provider {
    name: &'static str,
    prices: Prices,
    /// The smallest prefix that is stored, in tokens, and the unit in which a longer one is read.
    smallest: usize,
    unit: usize,
    stores: Stores,
}

enum Stores {
    /// Every prefix of what was sent.
    All,
    /// The prefixes that end at a mark, the caller's or its `own` on the newest message. One is
    /// found by a mark that stands on its end or less than `back` messages later.
    Marked { own: bool, back: usize },
    /// The whole prompt, the prompt with its answer, and what two prompts were seen to share.
    Ends,
}

/// Which of them read at 0.1: OpenAI to 5.5, and Anthropic, with its fee for writing.
const TENTH: usize = 1;
const TENTH_AND_FEE: usize = 3;

fn providers() -> [Provider; 6] {
    let provider = |name, (write, read), (smallest, unit), stores| {
        let prices = Prices { write, read };
        Provider { name, prices, smallest, unit, stores }
    };
    let openai = Stores::Marked { own: true, back: usize::MAX };
    let anthropic = Stores::Marked { own: false, back: 20 };
    [
        provider("OpenAI to 5.5, at 0.5", (1.0, 0.5), (1_024, 128), Stores::All),
        provider("OpenAI to 5.5, at 0.1", (1.0, 0.1), (1_024, 128), Stores::All),
        provider("OpenAI 5.6", (1.25, 0.1), (1_024, 1), openai),
        provider("Anthropic, 5 minutes", (1.25, 0.1), (1_024, 1), anthropic),
        provider("DeepSeek V4", (1.0, 0.033), (64, 64), Stores::Ends),
        provider("Gemini 2.5", (1.0, 0.1), (2_048, 1), Stores::All),
    ]
}

/// The first messages of a prompt, up to one of them: a hash of all that they say, and their
/// tokens.
struct Prefix {
    content: u64,
    tokens: usize,
}

fn prefixes<'a>(messages: impl Iterator<Item = &'a Message>) -> Result<Vec<Prefix>> {
    let mut hasher = DefaultHasher::new();
    let mut tokens = 0;
    let prefixes = messages.map(|message| {
        (message.role(), message.text()).hash(&mut hasher);
        tokens += words.count(message)?;
        Ok(Prefix { content: hasher.finish(), tokens })
    });
    prefixes.collect()
}

/// An exact counter for messages made of words: 4 tokens a message, as everywhere, and 1 a word.
fn words(text: &str) -> usize {
    text.split(' ').count()
}

/// A text that makes a message of so many tokens, different from all others by its first word.
fn text(first: &str, tokens: usize) -> String {
    first.to_owned() + &" a".repeat(tokens - 4 - 1)
}

/// The prefixes that a provider has stored of a conversation. Its user answers before it is forgotten.
struct Cache<'a> {
    provider: &'a Provider,
    stored: HashSet<u64>,
    seen: HashSet<u64>,
}

struct Call {
    tokens: usize,
    cached: usize,
    cost: f64,
}

impl Cache<'_> {
    /// Charges for a prompt by what is stored, then stores what the provider stores of it.
    fn call(&mut self, prompt: &[Prefix], answered: &Prefix, marks: [usize; 2]) -> Call {
        let Provider { prices, smallest, unit, ref stores, .. } = *self.provider;
        let (marks, back) = match *stores {
            Stores::Marked { own: false, back } => (marks, back),
            Stores::Marked { own: true, back } => ([marks[0], prompt.len()], back),
            Stores::All | Stores::Ends => ([prompt.len(); 2], usize::MAX),
        };
        let tokens = |len: usize| prompt[..len].last().map_or(0, |prefix| prefix.tokens);
        let found = (1..=prompt.len()).rev().find(|&len| {
            self.stored.contains(&prompt[len - 1].content)
                && marks.iter().any(|&mark| mark >= len && mark - len < back)
        });
        let cached = found.map_or(0, |len| smallest + (tokens(len) - smallest) / unit * unit);
        let written = tokens(marks[1]).saturating_sub(cached);
        let tokens = tokens(prompt.len());
        let fresh = tokens - cached - written;
        let cost = float(cached) * prices.read + float(written) * prices.write + float(fresh);

        let shared = prompt.iter().rev().find(|prefix| self.seen.contains(&prefix.content));
        let stored: Vec<&Prefix> = match stores {
            Stores::All => prompt.iter().collect(),
            Stores::Marked { .. } => marks.map(|len| &prompt[len - 1]).into(),
            Stores::Ends => prompt.last().into_iter().chain([answered]).chain(shared).collect(),
        };
        let large = stored.into_iter().filter(|prefix| prefix.tokens >= smallest);
        self.stored.extend(large.map(|prefix| prefix.content));
        self.seen.extend(prompt.iter().map(|prefix| prefix.content));
        Call { tokens, cached, cost }
    }
}

/// A conversation, as it was sent in one way to one provider.
struct Run {
    name: &'static str,
    calls: Vec<Call>,
    /// The number of messages that each call left out.
    left_out: Vec<usize>,
}

/// A turn of a conversation: what the user asks, and what the model answers.
fn turn(n: usize) -> [Message; 2] {
    let answer = Message::ai(text(&format!("answer-{n}"), ANSWER));
    [Message::user(text(&format!("question-{n}"), QUESTION)), answer]
}

/// A round of an agent's loop: what its last call returned, and the next call. The first round is
/// the question.
fn call(n: usize) -> [Message; 2] {
    let id = |n: usize| format!("call-{n}");
    let next = Message::ai_calls([ToolCall::new(id(n), "read", "{}")]);
    let said = match n {
        1 => Message::user(text("question", QUESTION)),
        n => Message::tool(id(n - 1), "read", text(&format!("result-{n}"), RESULT)),
    };
    [said, next]
}

/// Sends so many rounds, each of a message, and of an answer to all that is sent then.
fn converse(
    way: &Way,
    provider: &Provider,
    rounds: usize,
    round: impl Fn(usize) -> [Message; 2],
) -> Result<Run> {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
    prompt.configure(|_| way.composer.clone());
    prompt.configure(|composer| composer.system(text("system", SYSTEM)));
    let mut cache = Cache { provider, stored: HashSet::new(), seen: HashSet::new() };
    let mut run = Run { name: way.name, calls: vec![], left_out: vec![] };
    for n in 1..=rounds {
        let [said, answer] = round(n);
        prompt.add(said)?;
        let built = prompt.build()?;
        let left_out = 2 * n - built.len(); // of a system message and 2 * n - 1 others
        // Marks stand behind the system message and at the cacheable boundary. Where a window
        // slides, the second would be written on each turn and never read: a careful caller drops
        // it.
        let has_slid = way.slides && left_out > 0;
        let marks = [1, if has_slid { 1 } else { built.cacheable() }];
        let prefixes = prefixes(built.iter().chain(once(&answer)))?;
        if let Some((answered, sent)) = prefixes.split_last() {
            run.calls.push(cache.call(sent, answered, marks));
            run.left_out.push(left_out);
        }
        prompt.add(answer)?;
    }
    Ok(run)
}

impl Run {
    /// The mean cost of a call, in tokens at the full price.
    fn cost(&self) -> f64 {
        self.calls.iter().map(|call| call.cost).sum::<f64>() / float(self.calls.len())
    }

    fn cached(&self) -> f64 {
        let cached: usize = self.calls.iter().map(|call| call.cached).sum();
        float(cached) / float(self.calls.iter().map(|call| call.tokens).sum())
    }

    /// The fewest and the most messages of a call, from the first call on that left some out.
    fn sent(&self) -> (usize, usize) {
        let turns = self.left_out.iter().enumerate().filter(|(_, left_out)| **left_out > 0);
        let sent = turns.map(|(i, left_out)| 2 * i + 1 - left_out);
        sent.fold((usize::MAX, 0), |(least, most), sent| (least.min(sent), most.max(sent)))
    }

    /// By how many messages the window moved when it moved, on average.
    fn step(&self) -> f64 {
        let mut stops = self.left_out.clone();
        stops.dedup();
        stops.last().map_or(0.0, |last| float(*last) / float(stops.len() - 1))
    }
}

fn print_table(provider: &Provider, runs: &[Run]) {
    let Provider { name, prices, smallest, .. } = provider;
    println!("{name}: read {}, write {}, from {smallest} tokens\n", prices.read, prices.write);
    println!("| window | messages sent | step | cached | cost a call | of sliding |");
    println!("|---|--:|--:|--:|--:|--:|");
    for run in runs {
        let (least, most) = run.sent();
        println!(
            "| {} | {least} to {most} | {:.0} | {:.0} % | {} | {:.2} |",
            run.name,
            run.step(),
            run.cached() * 100.0,
            thousands(run.cost()),
            run.cost() / runs[0].cost(),
        );
    }
    println!();
}

fn print_summary(providers: &[Provider], tables: &[Vec<Run>]) {
    let names: Vec<&str> = providers.iter().map(|provider| provider.name).collect();
    println!("Cost a call, in tokens at the full price, and the share of what sliding costs\n");
    println!("| window | {} |", names.join(" | "));
    println!("|---|{}", "--:|".repeat(names.len()));
    for (i, run) in tables[0].iter().enumerate() {
        let cells = tables.iter().map(|runs| {
            let cost = runs[i].cost();
            format!("{} ({:.2})", thousands(cost), cost / runs[0].cost())
        });
        println!("| {} | {} |", run.name, cells.collect::<Vec<_>>().join(" | "));
    }
}

fn thousands(number: f64) -> String {
    let digits = format!("{number:.0}");
    let (thousands, rest) = digits.split_at(digits.len().saturating_sub(3));
    if thousands.is_empty() { digits } else { format!("{thousands},{rest}") }
}

#[expect(clippy::cast_precision_loss, reason = "thousands")]
fn float(number: usize) -> f64 {
    number as f64
}

/// One line a window, each in a panel of its own and all to the same scale: the area under it is
/// the bill. The dashed line is what sliding comes to pay on every turn.
fn plot(runs: &[Run]) -> Result<String> {
    const COLOURS: [&str; 6] = ["#d64550", "#c77f11", "#1d9a83", "#8b72d9", "#a0785a", "#3a8ad8"];
    const TITLE: &str = "What each call of a conversation costs, where cached tokens cost a tenth";
    const UNIT: &str =
        "Cost of the prompt in tokens at the full price; dashed: what sliding over 40 comes to pay";
    const GREY: &str = r##"stroke="#808890""##;
    let line = |path: &str, style: &str| format!("<path d=\"{path}\" {style}/>\n");
    let text = |x: usize, y: f64, style: &str, text: &str| {
        format!("<text x=\"{x}\" y=\"{y}\" {style}>{text}</text>\n")
    };
    let x = |turn: usize| 64 + 2 * turn;
    let most = runs[0].calls.last().map_or(0.0, |call| call.cost);
    let mut svg = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1080 644" fill="#808890"
font-family="system-ui, 'Segoe UI', Helvetica, 'DejaVu Sans', sans-serif" font-size="14">
"##
    .to_owned();
    svg += &text(16, 28.0, r#"font-size="19" font-weight="600""#, TITLE);
    svg += &text(16, 50.0, "", UNIT);
    let mut bottom = 50.0;
    for (run, colour) in runs.iter().zip(COLOURS) {
        bottom += 90.0;
        let y = |cost: f64| bottom - cost / 100.0;
        for cost in [0.0, 3_000.0, 6_000.0] {
            let y = y(cost);
            svg += &line(&format!("M64 {y}H864"), &format!(r#"{GREY} stroke-opacity=".3""#));
            let style = r#"text-anchor="end" font-size="12""#;
            svg += &text(56, y + 4.0, style, &thousands(cost));
        }
        let mut path = format!("M64 {bottom}");
        for (turn, call) in run.calls.iter().enumerate() {
            write!(path, "V{:.0}H{}", y(call.cost), x(turn + 1))?;
        }
        write!(path, "V{bottom}")?;
        svg += &line(&path, &format!(r#"fill="{colour}" fill-opacity=".3" stroke="{colour}""#));
        let sliding = format!("M64 {:.0}H864", y(most));
        svg += &line(&sliding, &format!(r#"{GREY} stroke-dasharray="4 4""#));
        let share = run.cost() / runs[0].cost() * 100.0;
        let cost = format!("{} a call, {share:.0} %", thousands(run.cost()));
        let style = format!(r#"fill="{colour}" font-weight="600""#);
        svg += &text(876, bottom - 30.0, &style, run.name);
        svg += &text(876, bottom - 11.0, "", &cost);
    }
    for turn in (0..=TURNS).step_by(50) {
        svg += &line(&format!("M{} {bottom}v6", x(turn)), GREY);
        let style = r#"text-anchor="middle" font-size="12""#;
        svg += &text(x(turn), bottom + 21.0, style, &turn.to_string());
    }
    svg += &text(464, bottom + 42.0, r#"text-anchor="middle""#, "turn");
    Ok(svg + "</svg>\n")
}
