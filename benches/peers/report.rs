//! Measures all contestants in turns and writes what came of it: a table, and a chart of it.
//!
//! `report [--quick] FOLDER COMMAND...`, as `run` beside this file calls it. With the argument
//! `list` a command lists its contestants, with the id of one of them it is that one. `!PEERS:
//! REASON` stands for those that can't be run.

#![allow(clippy::unwrap_used)] // a bench that panics has failed
#![allow(clippy::cast_precision_loss)] // no number here comes near 2^53

mod chart;

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::Value;

/// A piece of work: what it is called, and how contestants are asked for it.
pub struct Row {
    pub title: &'static str,
    pub kind: &'static str,
    pub stored: u64,
    pub script: &'static str,
    pub length: u64,
    pub appends: u64,
    /// Whether it is in the chart.
    pub drawn: bool,
}

#[rustfmt::skip]
const ROWS: [Row; 16] = [
    row("append one, compose the last 10", "plain", 100, "ascii", 300, 1, false),
    row("append one, compose the last 10", "plain", 10_000, "ascii", 300, 1, true),
    row("append one, compose the last 10", "plain", 1_000_000, "ascii", 300, 1, true),
    row("compose the last 10", "plain", 100, "ascii", 300, 0, false),
    row("compose the last 10", "plain", 10_000, "ascii", 300, 0, false),
    row("compose the last 10", "plain", 100_000, "ascii", 300, 0, false),
    row("compose the last 10", "plain", 1_000_000, "ascii", 300, 0, true),
    row("append one, compose the last 10, truncation on, nothing to cut", "truncated", 10_000, "ascii", 300, 1, false),
    row("compose the last 10, truncation on, nothing to cut", "truncated", 10_000, "ascii", 300, 0, true),
    row("append one, compose the last 10, each cut from 20,000 characters to 1000 (ASCII)", "truncated", 1000, "ascii", 20_000, 1, true),
    row("append one, compose the last 10, each cut from 20,000 characters to 1000 (Chinese)", "truncated", 1000, "chinese", 20_000, 1, true),
    row("append one to a token window of 1,000 messages", "window", 1000, "ascii", 300, 1, true),
    row("append one to a token window of 1,000 messages, read it", "tokens", 1000, "ascii", 300, 1, true),
    row("persist a turn (2 messages) in SQLite, read the last 10", "store", 100_000, "ascii", 300, 2, true),
    row("read the last 10 from SQLite", "store", 100_000, "ascii", 300, 0, false),
    row("memory a message of 300 ASCII characters", "memory", 1_000_000, "ascii", 300, 0, true),
];

const fn row(
    title: &'static str,
    kind: &'static str,
    stored: u64,
    script: &'static str,
    length: u64,
    appends: u64,
    drawn: bool,
) -> Row {
    Row { title, kind, stored, script, length, appends, drawn }
}

impl Row {
    pub fn is_memory(&self) -> bool {
        self.kind == "memory"
    }

    /// The title with the number of stored messages.
    pub fn heading(&self) -> String {
        format!("{}; {} stored", self.title, thousands(self.stored as f64))
    }
}

struct Effort {
    rounds: usize,
    /// Of each contestant, where memory is measured.
    processes: usize,
    millis: u64,
    warm: u64,
    /// Stored messages are divided by this; a token window has the size it has.
    smaller: u64,
}

/// What one contestant did in one row.
pub struct Outcome {
    pub name: String,
    /// In ascending order; empty where it can't.
    pub values: Vec<f64>,
    /// Why it can't, or what is to be known about the values.
    pub note: String,
    /// The letters of its faults in this work.
    marks: String,
}

impl Outcome {
    fn new(contestant: &Contestant, row: &Row) -> Self {
        let marks = contestant.faults.iter().filter(|(kinds, _)| kinds.contains(row.kind));
        let marks = marks.map(|(_, letter)| *letter).collect();
        Self { name: contestant.name.clone(), values: Vec::new(), note: String::new(), marks }
    }

    fn add(&mut self, note: &str) {
        if !self.note.contains(note) {
            let comma = if self.note.is_empty() { "" } else { ", " };
            self.note = format!("{}{comma}{note}", self.note);
        }
    }

    /// Whether more runs of long steps would only take more time.
    fn is_enough(&self) -> bool {
        let spent: f64 = self.values.iter().sum();
        spent > 3e9 && (self.values.len() >= FEW || spent > 6e9 && self.values.len() >= 3)
    }

    pub fn median(&self) -> Option<f64> {
        middle(&self.values)
    }
}

/// So many runs at least, where a step takes less than two seconds.
const FEW: usize = 7;

fn middle(values: &[f64]) -> Option<f64> {
    values.get(values.len() / 2).copied()
}

/// A process that answers requests.
struct Contestant {
    name: String,
    command: String,
    id: String,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// In which kinds of work, and the letter.
    faults: Vec<(String, char)>,
}

impl Contestant {
    fn start(name: &str, command: &str, id: &str) -> Self {
        let mut child = process(command, id).stdin(Stdio::piped()).spawn().unwrap();
        let requests = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        let [name, command, id] = [name, command, id].map(str::to_owned);
        Self { name, command, id, child, requests, answers, faults: Vec::new() }
    }

    /// The answer; a process that ended instead says so.
    fn ask(&mut self, request: &str) -> Value {
        let mut answer = String::new();
        let asked = writeln!(self.requests, "{request}");
        let read = asked.and_then(|()| self.answers.read_line(&mut answer));
        match read {
            Ok(1..) => serde_json::from_str(&answer).unwrap(),
            _ => serde_json::json!({ "cannot": "its process ended" }),
        }
    }

    /// The same contestant, untouched.
    fn fresh(&self) -> Self {
        Self::start(&self.name, &self.command, &self.id)
    }
}

impl Drop for Contestant {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn process(command: &str, last: &str) -> Command {
    let mut process = Command::new("bash");
    process.args(["-c", &format!("exec {command} {last}")]).stdout(Stdio::piped());
    process
}

fn main() {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let quick = arguments.iter().position(|argument| argument == "--quick");
    let effort = if let Some(at) = quick {
        arguments.remove(at);
        Effort { rounds: 7, processes: 1, millis: 1, warm: 30, smaller: 50 }
    } else {
        Effort { rounds: 31, processes: 3, millis: 3, warm: 1000, smaller: 1 }
    };
    let folder = arguments.remove(0);
    let (mut contestants, mut versions, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for argument in &arguments {
        let command = argument.as_str();
        if let Some(reason) = command.strip_prefix('!') {
            missing.push(reason.split_once(": ").unwrap());
            continue;
        }
        let listed = process(command, "list").output().unwrap();
        for line in String::from_utf8(listed.stdout).unwrap().lines() {
            let line: Value = serde_json::from_str(line).unwrap();
            let [id, name, version] =
                ["id", "name", "version"].map(|key| line[key].as_str().unwrap());
            let library = name.split(',').next().unwrap_or(name);
            let library = format!("{library} {version}");
            if !versions.contains(&library) {
                versions.push(library);
            }
            contestants.push(Contestant::start(name, command, id));
        }
    }
    let faults = faults(&mut contestants);

    let began = Instant::now();
    let mut measured = Vec::new();
    for mut row in ROWS {
        if !["window", "tokens"].contains(&row.kind) {
            row.stored = (row.stored / effort.smaller).max(50);
        }
        eprintln!("{:>4} s: {}", began.elapsed().as_secs(), row.heading());
        let mut outcomes = if row.is_memory() {
            memory(&row, &contestants, &effort)
        } else {
            time(&row, &mut contestants, &effort)
        };
        outcomes.extend(missing.iter().map(|(name, reason)| Outcome {
            name: (*name).to_owned(),
            values: Vec::new(),
            note: format!("not run: {reason}"),
            marks: String::new(),
        }));
        measured.push((row, outcomes));
    }

    let table = table(&measured);
    let text = format!("{}\n{table}\n{faults}\n{}", head(&versions, &effort), ahead(&measured));
    print!("{text}");
    std::fs::write(format!("{folder}/peers.md"), text).unwrap();
    std::fs::write(format!("{folder}/peers.svg"), chart::draw(&measured)).unwrap();
}

/// What each contestant does wrong, as `KINDS|FAULT`; each fault gets a letter.
fn faults(contestants: &mut [Contestant]) -> String {
    let mut letters = Vec::new();
    for contestant in contestants {
        for fault in contestant.ask("faults")["faults"].as_array().into_iter().flatten() {
            let (kinds, fault) = fault.as_str().unwrap().split_once('|').unwrap();
            let known = letters.iter().position(|known| *known == fault);
            let i = known.unwrap_or_else(|| {
                letters.push(fault.to_owned());
                letters.len() - 1
            });
            let letter = ('a'..='z').nth(i).unwrap();
            contestant.faults.push((kinds.to_owned(), letter));
        }
    }
    ('a'..).zip(letters).map(|(letter, fault)| format!("- ({letter}) {fault}\n")).collect()
}

/// All who can, in turns, so that whatever else the machine does hits them all.
fn time(row: &Row, contestants: &mut [Contestant], effort: &Effort) -> Vec<Outcome> {
    let Row { kind, stored, script, length, appends, .. } = row;
    let prepare = format!("prepare {kind} {stored} {script} {length} {appends} {}", effort.warm);
    let mut outcomes = Vec::new();
    let mut able = Vec::new();
    let mut ours = Value::Null;
    for contestant in contestants {
        let answer = contestant.ask(&prepare);
        let check = &answer["check"];
        if ours.is_null() {
            ours = check.clone();
        }
        let reason = answer["cannot"].as_str();
        let note = if reason.is_none() && *check != ours { "composes other messages" } else { "" };
        let mut outcome = Outcome::new(contestant, row);
        outcome.add(reason.unwrap_or(note));
        match reason {
            None => able.push((contestant, outcome)),
            Some("") => {} // another line of the same library has the row
            Some(_) => outcomes.push(outcome),
        }
    }
    for _ in 0..effort.rounds {
        for (contestant, outcome) in &mut able {
            if outcome.is_enough() {
                continue;
            }
            match contestant.ask(&format!("measure {}", effort.millis))["value"].as_f64() {
                Some(value) => outcome.values.push(value),
                None => outcome.add("its process ended"),
            }
        }
    }
    let mut done = Vec::new();
    for (contestant, mut outcome) in able {
        contestant.ask("drop");
        outcome.values.sort_by(f64::total_cmp);
        if outcome.values.len() < FEW {
            outcome.add(&format!("{} runs only", outcome.values.len()));
        }
        done.push(outcome);
    }
    done.extend(outcomes);
    done
}

/// Each in a process that has done nothing else.
fn memory(row: &Row, contestants: &[Contestant], effort: &Effort) -> Vec<Outcome> {
    let Row { kind, stored, script, length, appends, .. } = row;
    let request = format!("memory {kind} {stored} {script} {length} {appends}");
    let mut outcomes = Vec::new();
    for contestant in contestants {
        let mut outcome = Outcome::new(contestant, row);
        for _ in 0..effort.processes {
            let answer = contestant.fresh().ask(&request);
            outcome.values.extend(answer["value"].as_f64());
            outcome.add(answer["note"].as_str().or(answer["cannot"].as_str()).unwrap_or_default());
            if answer["cannot"].is_string() {
                break;
            }
        }
        outcome.values.sort_by(f64::total_cmp);
        if !outcome.values.is_empty() || !outcome.note.is_empty() {
            outcomes.push(outcome);
        }
    }
    outcomes
}

fn head(versions: &[String], effort: &Effort) -> String {
    let cores = std::thread::available_parallelism().unwrap();
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model =
        info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or(": unknown");
    let model = model.trim_start_matches(['\t', ' ', ':']);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default();
    let mut text = "# Beside the peers\n\n".to_owned();
    text += "Written by `bash benches/peers/run`; [README.md](README.md) says what is measured and how.\n";
    writeln!(
        text,
        "Medians of {} runs taken in turns, of fewer where a step is long (of memory: of {} processes). {cores} cores, {model}, with a load average\n\
         of {load} at the end; {}.{}",
        effort.rounds,
        effort.processes,
        std::env::var("PEERS_TOOLS").unwrap_or_default(),
        if effort.smaller > 1 { " Shortened: shows that it runs, and no more." } else { "" },
    )
    .unwrap();
    writeln!(text, "\n{}.", versions.join("; ")).unwrap();
    text + "\n![each peer's time and memory as a multiple of this crate's, on a logarithmic scale](peers.svg)\n"
}

fn table(measured: &[(Row, Vec<Outcome>)]) -> String {
    let mut text = String::from(
        "| work | | median | lowest to highest | to ours | |\n|---|---|--:|--:|--:|---|\n",
    );
    for (row, outcomes) in measured {
        let shown = if row.is_memory() { bytes } else { duration };
        let ours = outcomes[0].median().unwrap();
        let mut work = row.heading();
        let mut cannot: Vec<(&str, String)> = Vec::new();
        for Outcome { name, values, note, marks } in outcomes {
            let Some(median) = middle(values) else {
                match cannot.iter_mut().find(|(reason, _)| reason == note) {
                    Some((_, names)) => *names += &format!(", {name}"),
                    None => cannot.push((note, name.clone())),
                }
                continue;
            };
            let marks = if marks.is_empty() { String::new() } else { format!(" ({marks})") };
            let spread = format!("{} to {}", shown(values[0]), shown(values[values.len() - 1]));
            let to_ours = ratio(median / ours);
            writeln!(
                text,
                "| {work} | {name}{marks} | {} | {spread} | {to_ours} | {note} |",
                shown(median)
            )
            .unwrap();
            work.clear();
        }
        for (reason, names) in cannot {
            writeln!(text, "| | {names} | — | | | {reason} |").unwrap();
        }
    }
    text
}

/// Where a peer is faster or smaller.
fn ahead(measured: &[(Row, Vec<Outcome>)]) -> String {
    let mut text = String::new();
    for (row, outcomes) in measured {
        let ours = outcomes[0].median().unwrap();
        for outcome in &outcomes[1..] {
            if let Some(median) = outcome.median().filter(|median| *median < ours) {
                let by = ratio(ours / median);
                writeln!(text, "- {}: {} is ahead, {by} times", row.heading(), outcome.name)
                    .unwrap();
            }
        }
    }
    if text.is_empty() {
        "No peer is ahead in any row.\n".to_owned()
    } else {
        format!("Where a peer is ahead:\n\n{text}")
    }
}

/// Three digits, with the unit that fits.
pub fn duration(nanos: f64) -> String {
    match nanos {
        ..1e3 => format!("{} ns", digits(nanos)),
        ..1e6 => format!("{} µs", digits(nanos / 1e3)),
        ..1e9 => format!("{} ms", digits(nanos / 1e6)),
        _ => format!("{} s", digits(nanos / 1e9)),
    }
}

pub fn bytes(bytes: f64) -> String {
    format!("{} bytes", thousands(bytes))
}

/// Two digits.
pub fn ratio(ratio: f64) -> String {
    match ratio {
        ..0.995 => format!("{ratio:.2}"),
        ..9.95 => format!("{ratio:.1}"),
        _ => {
            let unit = 10_f64.powf(ratio.log10().floor() - 1.0);
            thousands((ratio / unit).round() * unit)
        }
    }
}

fn digits(value: f64) -> String {
    match value {
        ..9.995 => format!("{value:.2}"),
        ..99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
