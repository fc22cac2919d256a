//! What would each window have cost on your own conversations?
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
//! are sent with each call and count in budgets.
//! Without a log it reads a small one that was made for this.
//! `--chain 256` puts conversations together until they have so many messages. `--html out.html`
//! writes the table as a page too: one file that fetches nothing.

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
    Budget, Clear, Composer, DefaultChatMemory, MemoryPrompt, Message, Prompt, Tool, Window, wire,
};
use serde::de::IgnoredAny;
use serde_json::Value;

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
    let mut logs = Logs::default();
    for path in &options.paths {
        logs.read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    let conversations = chain(logs.conversations, options.chain);
    let calls: usize = conversations.iter().map(|it| answers(&it.messages).count()).sum();
    let read = format!("{} conversations, {calls} model calls", conversations.len());
    println!("{read}");
    for (reason, (times, first)) in &logs.failed {
        println!("{times} not read: {reason}, first in {first}");
    }
    if calls == 0 {
        return Err("no log has an answer of a model to a message of a user".into());
    }

    let with_tools = conversations.iter().filter(|it| !it.tools.is_empty()).count();
    if with_tools > 0 {
        println!("{with_tools} of them with definitions of tools, which are counted in each call");
    }

    let mut clock = Progress::new(settings.len() * conversations.len());
    let mut runs = Vec::new();
    for setting in &settings {
        let mut run = Run::default();
        for conversation in &conversations {
            run.replay(setting, conversation, options.prices)?;
            clock.step();
        }
        runs.push(run);
    }
    clock.end();
    print(&settings, &runs, options.prices);
    if let Some(path) = options.html {
        fs::write(&path, page::page(&read, &settings, &runs, options.prices))
            .map_err(|error| format!("{}: {error}", path.display()))?;
        println!("\nThe same as a page: {}", path.display());
    }
    Ok(())
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

// ----
// logs ----------------------------------------------------------------------------------------

/// What was said, and the tools that the requests of it define.
struct Conversation {
    messages: Vec<Message>,
    tools: Vec<Tool>,
}

#[derive(Default)]
struct Logs {
    conversations: Vec<Conversation>,
    /// How often a conversation could not be read, by the reason, and where it was so first.
    failed: BTreeMap<String, (usize, String)>,
    /// What was read, for a link leads to it once more, or around in a circle.
    seen: HashSet<PathBuf>,
}

impl Logs {
    /// Reads a file or a folder. What can't be read in a folder is noted, and the rest is read.
    fn read(&mut self, path: &Path) -> io::Result<()> {
        if !self.seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.into())) {
            return Ok(());
        }
        if !path.is_dir() {
            let bytes = fs::read(path)?;
            let text = str::from_utf8(&bytes).map_err(|_| io::Error::other("no text in UTF-8"))?;
            self.text(text.trim_start_matches('\u{feff}'), &path.display().to_string());
            return Ok(());
        }
        let inside = fs::read_dir(path)?.map(|entry| entry.map(|it| it.path()));
        let mut inside: Vec<_> = inside.collect::<io::Result<_>>()?;
        inside.sort();
        for path in inside {
            let is_other = fs::metadata(&path).is_ok_and(|it| !it.is_file() && !it.is_dir());
            let read = if is_other {
                Err(io::Error::other("neither a file nor a folder")) // a pipe makes wait for ever
            } else {
                self.read(&path)
            };
            if let Err(error) = read {
                self.fail(&error.to_string(), &path.display().to_string());
            }
        }
        Ok(())
    }

    fn text(&mut self, text: &str, file: &str) {
        let whole = match serde_json::from_str(text) {
            Ok(value) => return self.value(&value, file),
            Err(error) => error,
        };
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let is_log = |line: &str| {
            line.trim_start().starts_with(['{', '['])
                && serde_json::from_str::<IgnoredAny>(line).is_ok()
        };
        if !lines.clone().any(|(_, line)| is_log(line)) {
            return self.broken(file, whole.line(), &whole); // one value over many lines
        }
        for (i, line) in lines {
            match serde_json::from_str(line) {
                Ok(value) => self.value(&value, &format!("{file}, line {}", i + 1)),
                Err(error) => self.broken(file, i + 1, &error),
            }
        }
    }

    /// Notes a line that is no JSON.
    fn broken(&mut self, file: &str, line: usize, error: &serde_json::Error) {
        let reason = error.to_string();
        let reason = reason.split(" at line ").next().unwrap_or_default();
        self.fail(reason, &format!("{file}, line {line}, column {}", error.column()));
    }

    /// Reads a conversation, or a list of them.
    fn value(&mut self, value: &Value, place: &str) {
        const LISTS: [&str; 6] =
            ["messages", "contents", "input", "traj", "history", "conversation"];
        let inner = LISTS.iter().find_map(|key| value.get(key).filter(|it| it.is_array()));
        let list = inner.or(Some(value)).and_then(Value::as_array);
        let Some(list) = list else {
            return self.fail("neither a list nor an object that holds one", place);
        };
        let is_message = |it: &Value| ["role", "type"].iter().any(|key| it[key].is_string());
        if inner.is_none() && !list.iter().any(is_message) {
            let numbered = list.iter().enumerate();
            return numbered
                .for_each(|(i, it)| self.value(it, &format!("{place}, item {}", i + 1)));
        }
        match decode(value, list) {
            Ok(messages) => {
                let tools = value.get("tools").and_then(Value::as_array);
                let tools = tools.into_iter().flatten().flat_map(defined).collect();
                self.conversations.push(Conversation { messages, tools });
            }
            Err(error) => self.fail(&error.to_string(), place),
        }
    }

    fn fail(&mut self, reason: &str, place: &str) {
        self.failed.entry(reason.to_owned()).or_insert_with(|| (0, place.to_owned())).0 += 1;
    }
}

/// Reads messages in the format that they look like, and the system text that stands beside them in
/// a request.
fn decode(request: &Value, list: &[Value]) -> memory_prompt::Result<Vec<Message>> {
    let has = |key: &str| list.iter().any(|it| it.get(key).is_some());
    let kinds = || list.iter().filter_map(|it| it["type"].as_str());
    let blocks = || list.iter().filter_map(|it| it["content"].as_array()).flatten();
    let of_anthropic = |kind: &str| ["tool_use", "tool_result", "thinking"].contains(&kind);
    let read = if has("parts") {
        wire::gemini::history
    } else if request.get("system").is_some() {
        wire::anthropic::history
    } else if kinds().any(|kind| kind.chars().all(char::is_uppercase)) {
        wire::langchain4j::history
    } else if blocks().filter_map(|block| block["type"].as_str()).any(of_anthropic) {
        wire::anthropic::history
    } else if kinds().next().is_some() || request["input"].is_array() {
        wire::responses::history
    } else {
        wire::openai::history
    };
    let is_request = ["messages", "contents", "input"].iter().any(|key| request[*key].is_array());
    let read_from = if is_request { request.clone() } else { Value::from(list.to_vec()) };
    read(&read_from.to_string())
}

/// Reads the tools of an entry: one of OpenAI's or Anthropic's, or a list of Gemini's.
fn defined(entry: &Value) -> Vec<Tool> {
    let mut declared = ["functionDeclarations", "function_declarations"].iter();
    let declared = declared.find_map(|key| entry.get(key)?.as_array());
    let alone = std::slice::from_ref(entry.get("function").unwrap_or(entry));
    declared.map_or(alone, Vec::as_slice).iter().filter_map(tool).collect()
}

/// Reads a definition; one of another type is of a tool that the provider runs.
fn tool(definition: &Value) -> Option<Tool> {
    let kind = definition.get("type").and_then(Value::as_str);
    if kind.is_some_and(|kind| !["function", "custom"].contains(&kind)) {
        return None;
    }
    let description = definition["description"].as_str().unwrap_or_default();
    let tool = Tool::new(definition["name"].as_str()?, description);
    let schemas = ["parameters", "input_schema", "parametersJsonSchema"];
    let schema = schemas.iter().find_map(|key| definition.get(key).filter(|it| it.is_object()));
    Some(match schema {
        Some(schema) => tool.parameters(schema.clone()),
        None => tool,
    })
}

/// Puts conversations together until each has so many messages; the tools are those of the first.
fn chain(conversations: Vec<Conversation>, messages: usize) -> Vec<Conversation> {
    let mut chained: Vec<Conversation> = Vec::new();
    for conversation in conversations {
        match chained.last_mut() {
            Some(last) if last.messages.len() < messages => {
                let said = conversation.messages.into_iter().filter(|it| !it.is_system());
                last.messages.extend(said);
            }
            _ => chained.push(conversation),
        }
    }
    chained
}

/// Returns the places of what the model said: before each it was called.
fn answers(conversation: &[Message]) -> impl Iterator<Item = usize> {
    let all = conversation.iter().enumerate();
    all.filter(|(i, it)| it.as_ai().is_some() && conversation[..*i].iter().any(Message::is_user))
        .map(|it| it.0)
}

// ----
// settings ------------------------------------------------------------------------------------

struct Setting {
    name: String,
    /// The line of code that sets it.
    code: String,
    how: How,
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
    };
    let budget = |name: &str, code: String, budget| Setting {
        name: name.to_owned(),
        code,
        how: How::Composed(Box::new(Composer::new().max_tokens(budget, Estimate))),
    };
    let mut all = vec![window("everything", ".window(Window::all())".into(), Window::all())];
    let (name, code) = ("newest 20 of the list".into(), String::new());
    all.push(Setting { name, code, how: How::ByHand(20) });
    for n in [10, 20, 40] {
        let code = format!(".window(Window::last({n}))");
        all.push(window(&format!("last {n}"), code, Window::last(n)));
    }
    all.push(window("3 turns", ".window(Window::turns(3))".into(), Window::turns(3)));
    for low in [10, 20, 40] {
        let stepped = Window::stepped_for(low, prices)?;
        let Prices { write, read } = prices;
        let code = format!(
            ".window(Window::stepped_for({low}, Prices {{ write: {write:?}, read: {read:?} }})?)"
        );
        all.push(window(&format!("stepped from {low}"), code, stepped));
    }
    let code = ".max_tokens(4_000, Estimate)".into();
    all.push(budget("4,000 tokens", code, Budget::new(4_000)));
    let code = ".max_tokens(Budget::new(8_000).stepped(3_000, 6_000)?, Estimate)".into();
    let stepped = Budget::new(8_000).stepped(3_000, 6_000)?;
    all.push(budget("3,000 to 6,000 tokens", code, stepped));
    for (keep, step) in [(10, 1), (3, 16), (3, 32), (3, 64)] {
        let clear = Clear::tool_results().keep(keep).step(step);
        let code = format!(
            ".window(Window::all()).clear(Clear::tool_results().keep({keep}).step({step}))"
        );
        let composer = Composer::new().window(Window::all()).clear(clear);
        let how = if step == 1 { "rolling".into() } else { format!("in steps of {step}") };
        let name = format!("all results but {keep} cleared, {how}");
        all.push(Setting { name, code, how: How::Composed(Box::new(composer)) });
    }
    Ok(all)
}

// ----
// replay --------------------------------------------------------------------------------------

/// One setting over all conversations.
#[derive(Default)]
struct Run {
    calls: usize,
    tokens: usize,
    cached: usize,
    cost: f64,
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
        let mut known = Known::default();
        let (mut before, mut stored): (Vec<Sent>, _) = (vec![], 0);
        for answer in answers(messages) {
            let sent: Vec<Sent> = match setting.how {
                How::ByHand(n) => self.by_hand(&messages[..answer], n)?,
                How::Composed(_) => {
                    prompt.add_all(messages[stored..answer].to_vec())?;
                    stored = answer;
                    match prompt.build() {
                        Ok(built) => {
                            self.no_question += usize::from(built.report().no_user_message);
                            self.orphans += usize::from(has_orphan(&built));
                            known.prompt(&built)?
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
            self.cost += float(cached) * prices.read + float(tokens - cached) * prices.write;
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

/// What was hashed and counted before, by position.
#[derive(Default)]
struct Known(HashMap<u64, Sent>);

impl Known {
    fn prompt(&mut self, built: &Prompt) -> Result<Vec<Sent>> {
        let all = built.with_origins().map(|(origin, message)| {
            let Origin::History(seq) = origin else { return own(message) };
            if let Some(sent) = self.0.get(&seq) {
                return Ok(*sent);
            }
            let sent = own(message)?;
            self.0.insert(seq, sent);
            Ok(sent)
        });
        all.collect()
    }
}

fn own(message: &Message) -> Result<Sent> {
    let mut hasher = DefaultHasher::new();
    (message.role(), message.text()).hash(&mut hasher);
    message.tool_calls().for_each(|call| (&call.id, &call.arguments).hash(&mut hasher));
    Ok((hasher.finish(), Estimate.count(message)?))
}

// ----
// output --------------------------------------------------------------------------------------

fn print(settings: &[Setting], runs: &[Run], prices: Prices) {
    let Prices { write, read } = prices;
    println!("cost in tokens at the full price: cached ones at {read}, others at {write}\n");
    println!(
        "| setting | tokens a call | cached | cost a call | of everything | orphans | no question |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (setting, run) in settings.iter().zip(runs) {
        let calls = float(run.calls.max(1));
        println!(
            "| {} | {:.0} | {:.0} % | {:.0} | {:.2} | {} | {} |",
            setting.name,
            float(run.tokens) / calls,
            float(run.cached) / float(run.tokens.max(1)) * 100.0,
            run.cost / calls,
            run.cost / runs[0].cost,
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
    all: usize,
    done: usize,
    told: Instant,
    shown: bool,
}

impl Progress {
    fn new(all: usize) -> Self {
        Self { all, done: 0, told: Instant::now(), shown: false }
    }

    fn step(&mut self) {
        self.done += 1;
        if self.told.elapsed() > Duration::from_secs(1) && io::stderr().is_terminal() {
            (self.told, self.shown) = (Instant::now(), true);
            eprint!("\r{} %", self.done * 100 / self.all);
            let _ = io::stderr().flush();
        }
    }

    fn end(&self) {
        if self.shown {
            eprintln!("\r     ");
        }
    }
}
