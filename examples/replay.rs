//! Says for each window how much it would have cost on your own conversations.
//!
//! Reads logs of conversations, builds the prompt of every model call under each setting, and
//! prints what was sent, what a provider's prompt cache would have held of it, and what that costs.
//! Nothing is sent anywhere.
//!
//! `cargo run --release --example replay -- LOGS... [--prices write,read] [--chain MESSAGES]
//! [--html PAGE]`
//!
//! A log is a JSON file, a file of JSON lines, or a folder of both: a list of messages as OpenAI,
//! Anthropic, Gemini or LangChain4j write them, an object that holds one (`messages`, `contents`,
//! `input`, `traj`), or a list of such. The system text of a request is read, and its tools, which
//! are sent with each call and count in budgets. Read are also sessions of Claude Code, rollouts of
//! Codex, `ShareGPT`, exports of `ChatGPT` and of Claude, dumps of `LangChain`, and files with one
//! message a line. A log with a whole request a line has each conversation many times: what goes on
//! with another is taken for the same.
//!
//! Without a log it reads a small one that was made for this.
//! `--chain 256` puts conversations together until they have so many messages. `--html out.html`
//! writes the table as a page too: one file that fetches nothing.
//!
//! Logs may be of any size, for one conversation is kept at a time. A file of more than 64 MiB must
//! be JSON lines, and no line may be longer than that: it is told, and the rest is read.
//!
//! If a setting recalls, older messages that fit are searched once a question, as a conversation
//! does, and stay behind it in all calls of its tools. With "in each call" they are searched again for
//! each and stand at the end, as [`MemoryPrompt::build`] does it.
//!
//! "Pays from" says from how many tokens of history on a setting should take the place of sending
//! everything, so that the calls of these conversations together cost least.

#[path = "import/accounts.rs"]
#[allow(dead_code)] // the branches and times are for who imports
mod accounts;
#[path = "replay/forms.rs"]
mod forms;
#[path = "replay/logs.rs"]
mod logs;
#[path = "replay/page.rs"]
mod page;
#[cfg(test)]
#[path = "replay/tests.rs"]
#[allow(clippy::unwrap_used)] // a test that panics has failed
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::error::Error;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, IsTerminal, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use std::{env, fs};

use memory_prompt::record::Snapshot;
use memory_prompt::report::Origin;
use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::window::Prices;
use memory_prompt::{
    Budget, Clear, Composer, DefaultChatMemory, MemoryPrompt, Message, Prompt, Recall, Tool, Window,
};

use logs::{Conversation, Files, error_in};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const DEFAULT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/data/replay.jsonl");

const USAGE: &str = "replay [LOGS...] [--prices WRITE,READ] [--chain MESSAGES] [--html PAGE]";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    if env::args().skip(1).any(|argument| ["-h", "--help"].contains(&&*argument)) {
        println!("{USAGE}\n\nA log is a file of JSON or JSON lines, or a folder of such.");
        return Ok(());
    }
    let options = Options::read(env::args().skip(1))?;
    let settings = settings(options.prices)?;
    if let Some(path) = &options.html {
        writable(path).map_err(|error| error_in(&path.display().to_string(), &error))?;
    }
    let mut files = Files::default();
    for path in &options.paths {
        files.find(path).map_err(|error| error_in(&path.display().to_string(), &error))?;
    }
    let clock = Progress::new(files.bytes);
    let mut replay = Replay::new(&settings, &options, clock);
    let told = files.read(|conversation, read| replay.take(conversation, read))?;
    let Replay { runs, conversations, calls, with_tools, .. } = replay.end()?;

    let read = format!("{conversations} conversations, {calls} model calls");
    println!("{read}");
    if told.continued > 0 {
        println!("{} logs go on with a conversation before them: the same one", told.continued);
    }
    for (reason, (times, first)) in &told.failed {
        println!("{times} not read: {reason}, first in {first}");
    }
    if calls == 0 {
        return Err("no log has an answer of a model to a message of a user".into());
    }
    if with_tools > 0 {
        println!("{with_tools} of them with definitions of tools, which are counted in each call");
    }
    print(&settings, &runs, options.prices);
    if let Some(path) = options.html {
        fs::write(&path, page::page(&read, &settings, &runs, options.prices))
            .map_err(|error| error_in(&path.display().to_string(), &error))?;
        println!("\nThe same as a page: {}", path.display());
    }
    Ok(())
}

/// Finds out whether the page can be written, before the work; what is there stays as it is.
fn writable(path: &Path) -> io::Result<()> {
    let is_new = !path.exists();
    fs::File::options().append(true).create(true).open(path)?;
    if is_new { fs::remove_file(path) } else { Ok(()) }
}

struct Options {
    paths: Vec<PathBuf>,
    prices: Prices,
    /// The number of messages up to which conversations are put together.
    chain: usize,
    /// The file of the page.
    html: Option<PathBuf>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Self> {
        let prices = Prices { write: 1.0, read: 0.1 };
        let mut options = Self { paths: vec![], prices, chain: 0, html: None };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
            match argument.as_str() {
                "--prices" => {
                    let value = value()?;
                    let prices = value.split_once(',').and_then(|(write, read)| {
                        let (write, read) = (write.trim().parse(), read.trim().parse());
                        Some(Prices { write: write.ok()?, read: read.ok()? })
                    });
                    let no_prices = || format!("--prices {value}: no two numbers, as 1.25,0.1");
                    options.prices = prices.ok_or_else(no_prices)?;
                }
                "--chain" => {
                    let value = value()?;
                    let number = value.parse().map_err(|error| format!("--chain {value}: {error}"));
                    options.chain = number?;
                }
                "--html" => options.html = Some(value()?.into()),
                unknown if unknown.starts_with("--") => {
                    return Err(format!("{unknown} is no option: {USAGE}").into());
                }
                path => options.paths.push(path.into()),
            }
        }
        if options.paths.is_empty() {
            options.paths.push(DEFAULT.into());
        }
        Ok(options)
    }
}

/// Returns the places of what the model said: before each it was called.
fn answers(conversation: &[Message]) -> impl Iterator<Item = usize> {
    let all = conversation.iter().enumerate();
    all.filter(|(i, it)| it.as_ai().is_some() && conversation[..*i].iter().any(Message::is_user))
        .map(|it| it.0)
}

// ---- settings -----------------------------------------------------------------------------------

struct Setting {
    name: String,
    /// The line of code that sets it.
    code: String,
    how: How,
    /// Each conversation has one of its own, with the index in it.
    recall: Option<fn() -> Recall>,
    /// True if it is searched for each call, and not once a question.
    in_each: bool,
}

enum How {
    Composed(Box<Composer>),
    /// The newest of the list, as one cuts it by hand.
    ByHand(usize),
}

fn settings(prices: Prices) -> memory_prompt::Result<Vec<Setting>> {
    let window = |name: &str, code: String, window| Setting {
        name: name.to_owned(),
        code,
        how: How::Composed(Box::new(Composer::new().window(window))),
        recall: None,
        in_each: false,
    };
    let budget = |name: &str, code: String, budget| Setting {
        name: name.to_owned(),
        code,
        how: How::Composed(Box::new(Composer::new().max_tokens(budget, Estimate))),
        recall: None,
        in_each: false,
    };
    let Prices { write, read } = prices;
    let stepped = |low: usize| -> memory_prompt::Result<_> {
        let of = format!("Prices {{ write: {write:?}, read: {read:?} }}");
        let code = format!(".window(Window::stepped_for({low}, {of})?)");
        Ok((code, Window::stepped_for(low, Prices { write, read })?))
    };
    let mut all = vec![window("everything", ".window(Window::all())".into(), Window::all())];
    let (name, code) = ("newest 20 of the list".into(), String::new());
    all.push(Setting { name, code, how: How::ByHand(20), recall: None, in_each: false });
    for n in [10, 20, 40] {
        let code = format!(".window(Window::last({n}))");
        all.push(window(&format!("last {n}"), code, Window::last(n)));
    }
    all.push(window("3 turns", ".window(Window::turns(3))".into(), Window::turns(3)));
    for low in [10, 20, 40] {
        let (code, of) = stepped(low)?;
        all.push(window(&format!("stepped from {low}"), code, of));
    }
    let code = ".max_tokens(4_000, Estimate)".into();
    all.push(budget("4,000 tokens", code, Budget::new(4_000)));
    let code = ".max_tokens(Budget::new(8_000).stepped(3_000, 6_000)?, Estimate)".into();
    let between = Budget::new(8_000).stepped(3_000, 6_000)?;
    all.push(budget("3,000 to 6,000 tokens", code, between));
    let clearing = |window: &str, code: String, of: Window, keep: usize, step: u64| {
        let composer = Composer::new().window(of);
        let composer = composer.clear(Clear::tool_results().keep(keep).step(step));
        let how = if step == 1 { "rolling".into() } else { format!("in steps of {step}") };
        Setting {
            name: format!("{window}all results but {keep} cleared, {how}"),
            code: format!("{code}.clear(Clear::tool_results().keep({keep}).step({step}))"),
            how: How::Composed(Box::new(composer)),
            recall: None,
            in_each: false,
        }
    };
    for (keep, step) in [(10, 1), (3, 16), (3, 32), (3, 64)] {
        all.push(clearing("", ".window(Window::all())".into(), Window::all(), keep, step));
    }
    let (code, window_of_20) = stepped(20)?;
    all.push(clearing("stepped from 20, ", code, window_of_20, 3, 32));
    let recalls: [(_, _, fn() -> Recall, _); 4] = [
        (10, "500 tokens recalled", Recall::words, ".recall(Recall::words())"),
        (20, "500 tokens recalled", Recall::words, ".recall(Recall::words())"),
        (20, "500 tokens recalled in each call", Recall::words, ".recall(Recall::words())"),
        (
            20,
            "2,000 tokens recalled",
            || Recall::words().tokens(2_000),
            ".recall(Recall::words().tokens(2_000))",
        ),
    ];
    for (low, name, recall, line) in recalls {
        let (code, of) = stepped(low)?;
        all.push(Setting {
            recall: Some(recall),
            in_each: name.ends_with("in each call"),
            ..window(&format!("stepped from {low}, {name}"), format!("{code}{line}"), of)
        });
    }
    let code = ".max_tokens(4_000, Estimate)";
    let recall = ".recall(Recall::words().tokens(2_000))";
    all.push(Setting {
        recall: Some(|| Recall::words().tokens(2_000)),
        ..budget("4,000 tokens, half for recall", format!("{code}{recall}"), Budget::new(4_000))
    });
    Ok(all)
}

// ---- replay -------------------------------------------------------------------------------------

/// All settings, over one conversation after the other.
struct Replay<'a> {
    settings: &'a [Setting],
    prices: Prices,
    /// The number of messages up to which conversations are put together.
    chain: usize,
    begun: Option<Conversation>,
    runs: Vec<Run>,
    conversations: usize,
    calls: usize,
    with_tools: usize,
    clock: Progress,
    failed: Result<()>,
}

impl<'a> Replay<'a> {
    fn new(settings: &'a [Setting], options: &Options, clock: Progress) -> Self {
        Self {
            settings,
            prices: options.prices,
            chain: options.chain,
            begun: None,
            runs: settings.iter().map(|_| Run::default()).collect(),
            conversations: 0,
            calls: 0,
            with_tools: 0,
            clock,
            failed: Ok(()),
        }
    }

    /// Replays a conversation, or adds it to the one before: the tools are those of the first.
    fn take(&mut self, conversation: Conversation, read: u64) {
        self.clock.read = read;
        match &mut self.begun {
            Some(begun) if begun.messages.len() < self.chain => {
                let said = conversation.messages.into_iter().filter(|it| !it.is_system());
                begun.messages.extend(said);
            }
            _ => {
                let whole = self.begun.replace(conversation);
                self.replay(whole);
            }
        }
    }

    fn replay(&mut self, conversation: Option<Conversation>) {
        let Some(conversation) = conversation else { return };
        self.conversations += 1;
        self.calls += answers(&conversation.messages).count();
        self.with_tools += usize::from(!conversation.tools.is_empty());
        for (setting, run) in self.settings.iter().zip(&mut self.runs) {
            if self.failed.is_ok() {
                self.failed = run.replay(setting, &conversation, self.prices);
            }
            self.clock.tell(self.conversations);
        }
    }

    /// Replays the last conversation.
    fn end(mut self) -> Result<Self> {
        let last = self.begun.take();
        self.replay(last);
        self.clock.end();
        std::mem::replace(&mut self.failed, Ok(()))?;
        Ok(self)
    }
}

/// One setting over all conversations.
#[derive(Default)]
struct Run {
    calls: usize,
    tokens: usize,
    cached: usize,
    cost: f64,
    /// The cost of the calls with so many thousand tokens of history.
    by_length: BTreeMap<usize, f64>,
    /// The prompts with a result without its call, and those without a message of the user.
    orphans: usize,
    no_question: usize,
    /// The prompts that could not be built, and why the first one could not.
    failed: Option<(usize, String)>,
}

/// A message as a provider's cache tells it from others, and its tokens.
type Sent = (u64, usize);

impl Run {
    fn replay(
        &mut self,
        setting: &Setting,
        conversation: &Conversation,
        prices: Prices,
    ) -> Result<()> {
        let Conversation { messages, tools } = conversation;
        let tools_sent = sent_tools(tools)?;
        let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
        if let How::Composed(composer) = &setting.how {
            prompt.configure(|_| (**composer).clone().tools(tools.iter().cloned()));
        }
        if let Some(recall) = setting.recall {
            prompt.set_recall(recall());
        }
        let mut known = Known::default();
        let (mut before, mut stored): (Vec<Sent>, _) = (vec![], 0);
        let (mut history, mut asked, mut excerpt) = (0, None, Vec::new());
        for answer in answers(messages) {
            for message in &messages[stored..answer] {
                history += Estimate.count(message)?;
            }
            let sent: Vec<Sent> = match setting.how {
                How::ByHand(n) => {
                    stored = answer;
                    self.by_hand(&messages[..answer], n)?
                }
                How::Composed(_) => {
                    prompt.add_all(messages[stored..answer].to_vec())?;
                    stored = answer;
                    match prompt.build() {
                        Ok(built) => {
                            self.no_question += usize::from(built.report().no_user_message);
                            self.orphans += usize::from(has_orphan(&built));
                            let question = messages[..answer].iter().rposition(Message::is_user);
                            if setting.in_each || asked != question {
                                (asked, excerpt) = (question, excerpt_of(&built)?);
                            }
                            let behind = setting.recall.filter(|_| !setting.in_each);
                            known.prompt(&built, behind.map(|_| excerpt.as_slice()))?
                        }
                        Err(error) => {
                            self.failed.get_or_insert_with(|| (0, error.to_string())).0 += 1;
                            continue;
                        }
                    }
                }
            };
            // Providers put the tools first.
            let sent: Vec<Sent> = tools_sent.into_iter().chain(sent).collect();
            let same = before.iter().zip(&sent).take_while(|(one, other)| one == other);
            let cached: usize = same.map(|(_, it)| it.1).sum();
            let tokens: usize = sent.iter().map(|it| it.1).sum();
            self.calls += 1;
            self.tokens += tokens;
            self.cached += cached;
            let cost = float(cached) * prices.read + float(tokens - cached) * prices.write;
            self.cost += cost;
            *self.by_length.entry(history / 1_000).or_default() += cost;
            before = sent;
        }
        Ok(())
    }

    /// The system message and the newest `n` of the rest.
    fn by_hand(&mut self, so_far: &[Message], n: usize) -> Result<Vec<Sent>> {
        let (system, rest): (Vec<_>, Vec<_>) = so_far.iter().partition(|it| it.is_system());
        let newest = &rest[rest.len().saturating_sub(n)..];
        self.orphans += usize::from(has_orphan(newest.iter().copied()));
        self.no_question += usize::from(!newest.iter().any(|it| it.is_user()));
        system.iter().chain(newest).map(|it| own(it)).collect()
    }
}

/// Returns whether a result stands behind no call of its id, which providers refuse.
fn has_orphan<'a>(messages: impl IntoIterator<Item = &'a Message>) -> bool {
    let mut called = HashSet::new();
    messages.into_iter().any(|message| {
        called.extend(message.tool_calls().map(|call| call.id.as_str()));
        message.as_tool().is_some_and(|tool| !called.contains(tool.call_id()))
    })
}

/// Returns the tools as what stands in front of each prompt, where there are any.
fn sent_tools(tools: &[Tool]) -> Result<Option<Sent>> {
    if tools.is_empty() {
        return Ok(None);
    }
    let composer = Composer::new().max_tokens(usize::MAX, Estimate).tools(tools.iter().cloned());
    let question = Snapshot::from_messages([Message::user("?")]);
    let tokens = composer.compose_all(&question, &[])?.report().tokens;
    Ok(Some((0, tokens.map_or(0, |tokens| tokens.tools))))
}

/// The hashes and counts of before, by position.
#[derive(Default)]
struct Known(HashMap<u64, Sent>);

impl Known {
    /// Returns the messages of a prompt; where excerpts are given, with these behind the question in
    /// the place of what was recalled.
    fn prompt(&mut self, built: &Prompt, excerpt: Option<&[Sent]>) -> Result<Vec<Sent>> {
        let (mut all, mut behind) = (Vec::with_capacity(built.len()), 0);
        for (origin, message) in built.with_origins() {
            if excerpt.is_some() && is_excerpt(origin, built) {
                continue;
            }
            let Origin::History(position) = origin else {
                all.push(own(message)?);
                continue;
            };
            let sent = match self.0.get(&position) {
                Some(sent) => *sent,
                None => own(message)?,
            };
            self.0.insert(position, sent);
            all.push(sent);
            behind = if message.is_user() { all.len() } else { behind };
        }
        all.splice(behind..behind, excerpt.into_iter().flatten().copied());
        Ok(all)
    }
}

fn is_excerpt(origin: Origin, built: &Prompt) -> bool {
    origin == Origin::Temporary && !built.report().recalled.is_empty()
}

/// Returns the excerpts of a prompt: one message, where something was recalled.
fn excerpt_of(built: &Prompt) -> Result<Vec<Sent>> {
    let excerpts = built.with_origins().filter(|(origin, _)| is_excerpt(*origin, built));
    excerpts.map(|(_, message)| own(message)).collect()
}

fn own(message: &Message) -> Result<Sent> {
    let mut hasher = DefaultHasher::new();
    (message.role(), message.text()).hash(&mut hasher);
    message.tool_calls().for_each(|call| (&call.id, &call.arguments).hash(&mut hasher));
    Ok((hasher.finish(), Estimate.count(message)?))
}

// ---- output -------------------------------------------------------------------------------------

fn print(settings: &[Setting], runs: &[Run], prices: Prices) {
    let Prices { write, read } = prices;
    println!("cost in tokens at the full price: cached ones at {read}, others at {write}\n");
    println!(
        "| setting | tokens a call | cached | cost a call | of everything | pays from | orphans \
         | no question |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|--:|");
    for (setting, run) in settings.iter().zip(runs) {
        let calls = float(run.calls.max(1));
        println!(
            "| {} | {:.0} | {:.0} % | {:.0} | {:.2} | {} | {} | {} |",
            setting.name,
            float(run.tokens) / calls,
            float(run.cached) / float(run.tokens.max(1)) * 100.0,
            run.cost / calls,
            run.cost / runs[0].cost,
            pays_from(run, &runs[0]),
            run.orphans,
            run.no_question,
        );
    }
    for (setting, run) in settings.iter().zip(runs) {
        if let Some((times, error)) = &run.failed {
            println!("\n{}: {times} prompts could not be built: {error}", setting.name);
        }
    }
    if let Some(best) = best(settings, runs) {
        println!("\nCheapest for these conversations: {}\n\n    {}", best.name, best.code);
    }
}

/// Returns the tokens of history from which on this setting should be taken and not everything be
/// sent, so that all calls together cost least.
fn pays_from(run: &Run, everything: &Run) -> String {
    let (mut saved, mut most, mut from) = (0.0, 0.0, None);
    for (thousands, cost) in everything.by_length.iter().rev() {
        saved += cost - run.by_length.get(thousands).unwrap_or(cost);
        if saved > most {
            (most, from) = (saved, Some(thousands));
        }
    }
    match from {
        None => "never".into(),
        Some(0) => "0".into(),
        Some(thousands) => format!("{thousands},000"),
    }
}

/// Returns the cheapest setting by which each prompt is built, with a question in it.
fn best<'a>(settings: &'a [Setting], runs: &[Run]) -> Option<&'a Setting> {
    let sound = settings.iter().zip(runs).filter(|(setting, run)| {
        !setting.code.is_empty() && (run.no_question, run.orphans) == (0, 0) && run.failed.is_none()
    });
    sound.min_by(|(_, one), (_, other)| one.cost.total_cmp(&other.cost)).map(|it| it.0)
}

#[expect(clippy::cast_precision_loss, reason = "numbers of tokens")]
fn float(number: usize) -> f64 {
    number as f64
}

/// Tells on a terminal how far it is, where it takes long.
struct Progress {
    all: u64,
    read: u64,
    told: Instant,
    shown: bool,
}

impl Progress {
    fn new(all: u64) -> Self {
        Self { all: all.max(1), read: 0, told: Instant::now(), shown: false }
    }

    fn tell(&mut self, conversations: usize) {
        if self.told.elapsed() > Duration::from_secs(1) && io::stderr().is_terminal() {
            (self.told, self.shown) = (Instant::now(), true);
            eprint!("\r{} %, {conversations} conversations", self.read * 100 / self.all);
            let _ = io::stderr().flush();
        }
    }

    fn end(&self) {
        if self.shown {
            eprintln!("\r{:40}", "");
        }
    }
}
