//! What the contestants in Rust share: the texts, the clock, and the answers to the report.
//!
//! One contestant is one process. It is asked on standard input, a line a request, and answers each
//! with a line of JSON. README.md beside this file lists the requests.

use std::io::{self, BufRead, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// One conversation of a contestant, set up for one work.
pub trait Chat {
    /// Appends these messages. Nothing of it is timed.
    fn fill(&mut self, texts: &mut dyn Iterator<Item = String>);

    /// One step, which is timed: appends as many messages as the work says, taking their texts, and
    /// composes. Returns the length of all texts composed, so that each of them is looked at.
    fn step(&mut self, at: u64, texts: &mut std::vec::IntoIter<String>) -> usize;

    /// The texts that are composed now.
    fn texts(&mut self) -> Vec<String>;
}

/// What is to be done, as the report asks for it.
#[derive(Clone)]
pub struct Work {
    pub kind: String,
    pub stored: u64,
    pub appends: u64,
    padding: String,
}

impl Work {
    /// From the words of a request, as README.md has them.
    fn new(words: &[&str]) -> Self {
        let sample = if words[3] == "ascii" { ASCII } else { CHINESE };
        let length: usize = words[4].parse().unwrap();
        Self {
            kind: words[1].into(),
            stored: words[2].parse().unwrap(),
            appends: words[5].parse().unwrap(),
            padding: sample.chars().cycle().take(length - 8).collect(),
        }
    }

    /// The text of message `i`: its number in eight digits, and padding up to the length.
    pub fn text(&self, i: u64) -> String {
        format!("{i:0>8}{}", self.padding)
    }
}

const ASCII: &str = "The quick brown fox jumps over the lazy dog. ";
const CHINESE: &str = "人人生而自由，在尊严和权利上一律平等。";

/// Even messages are the user's, odd ones the model's.
pub fn is_user(i: u64) -> bool {
    i.is_multiple_of(2)
}

/// What a contestant makes of a work: something to measure, or the reason why it can't.
pub type Made = Result<Box<dyn Measured>, &'static str>;

/// A [`Chat`] under the clock. A trait, so that the loop around a step is compiled for its type.
pub trait Measured {
    fn prepare(&mut self, warm: Duration) -> Value;
    fn measure(&mut self, time: Duration) -> Value;
    fn memory(&mut self) -> Value;
}

/// A work, and how to begin its conversation.
pub fn measured<C: Chat + 'static>(work: &Work, make: impl Fn() -> C + 'static) -> Made {
    Ok(Box::new(Run { work: work.clone(), make, chat: None, at: 0, block: 1 }))
}

struct Run<C, F> {
    work: Work,
    make: F,
    chat: Option<C>,
    at: u64,
    block: u64,
}

impl<C: Chat, F: Fn() -> C> Run<C, F> {
    fn chat(&mut self) -> &mut C {
        let Self { work, make, chat, at, .. } = self;
        chat.get_or_insert_with(|| {
            let mut chat = make();
            chat.fill(&mut (0..work.stored).map(|i| work.text(i)));
            *at = work.stored;
            chat
        })
    }

    /// The time that so many steps take. Their texts are made before the clock starts, and a
    /// conversation that has doubled is first replaced by one of the size asked for.
    fn steps(&mut self, steps: u64) -> Duration {
        let appends = self.work.appends;
        if self.at + steps * appends > self.work.stored * 2 {
            self.chat = None;
        }
        self.chat();
        let at = self.at;
        self.at += steps * appends;
        let texts: Vec<_> = (at..self.at).map(|i| self.work.text(i)).collect();
        let mut texts = texts.into_iter();
        let chat = self.chat();
        let start = Instant::now();
        for i in 0..steps {
            std::hint::black_box(chat.step(at + i * appends, &mut texts));
        }
        start.elapsed()
    }
}

impl<C: Chat, F: Fn() -> C> Measured for Run<C, F> {
    fn prepare(&mut self, warm: Duration) -> Value {
        let before = hash(&self.chat().texts());
        let first = self.steps(1);
        let after = hash(&self.chat().texts());
        if first < warm {
            self.measure(warm);
        }
        json!({ "check": format!("{before:016x} {after:016x}") })
    }

    fn measure(&mut self, time: Duration) -> Value {
        let (mut spent, mut calls) = (Duration::ZERO, 0);
        while calls == 0 || spent < time {
            let took = self.steps(self.block);
            spent += took;
            calls += self.block;
            if took < Duration::from_micros(100) {
                self.block = (self.block * 2).min(self.work.stored).min(4096);
            }
        }
        json!({ "value": spent.as_nanos() as f64 / calls as f64 })
    }

    fn memory(&mut self) -> Value {
        let before = resident();
        self.chat();
        json!({ "value": (resident() - before) as f64 / self.work.stored as f64 })
    }
}

/// FNV-1a: short enough to be written in every language here.
fn hash(texts: &[String]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() * 1024
}

/// A contestant: its name, its version, and what it makes of a work.
pub struct Contestant {
    pub id: &'static str,
    pub name: &'static str,
    pub version: &'static str,
    pub make: fn(&Work) -> Made,
    pub faults: fn() -> Vec<&'static str>,
}

/// Lists the contestants, or answers as the one that is named.
pub fn main(contestants: &[Contestant]) {
    let id = std::env::args().nth(1).unwrap();
    if id == "list" {
        for Contestant { id, name, version, .. } in contestants {
            println!("{}", json!({ "id": id, "name": name, "version": version }));
        }
        return;
    }
    let contestant = contestants.iter().find(|contestant| contestant.id == id).unwrap();
    let mut measured = None;
    for line in io::stdin().lock().lines() {
        let line = line.unwrap();
        let words: Vec<_> = line.split(' ').collect();
        let millis = |i: usize| Duration::from_millis(words[i].parse().unwrap());
        let answer = match words[0] {
            "faults" => json!({ "faults": (contestant.faults)() }),
            "prepare" | "memory" => {
                let work = Work::new(&words);
                match (contestant.make)(&work) {
                    Err(reason) => json!({ "cannot": reason }),
                    Ok(mut made) if words[0] == "memory" => made.memory(),
                    Ok(made) => measured.insert(made).prepare(millis(6)),
                }
            }
            "measure" => measured.as_mut().unwrap().measure(millis(1)),
            _ => {
                measured = None;
                json!({})
            }
        };
        println!("{answer}");
        io::stdout().flush().unwrap();
    }
}
