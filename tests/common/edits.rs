//! Processes that are killed in the middle of edits: what they do, and what is left of it.

#![allow(clippy::unwrap_used, clippy::panic, unreachable_pub)] // a test that panics has failed

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::{ChatMemory, MemoryPrompt, Result, Window};

const EDITS: &str = "MEMORY_PROMPT_EDITS";

/// Answers to what was asked last.
fn model(ask: &Asking<'_>) -> Result<String, ModelError> {
    let question = ask.prompt().iter().filter(|it| it.is_user()).last();
    Ok(format!("to {}", question.ok_or("there is no question")?.text()))
}

pub fn conversation(memory: impl ChatMemory + 'static) -> Conversation {
    let prompt = MemoryPrompt::new(memory).window(Window::all());
    Conversation::new(prompt.with_branches(), model)
}

/// What the current branch says, which is whole: each question is answered.
fn whole(conversation: &Conversation) -> Vec<String> {
    let page = conversation.page(None, 1_000).unwrap();
    let said: Vec<_> = page.entries.iter().rev().map(|it| it.message.text().into_owned()).collect();
    assert!(said.len().is_multiple_of(2), "{said:?}");
    for pair in said.chunks(2) {
        assert_eq!(pair[1], format!("to {}", pair[0]));
    }
    said
}

/// Edits until it is killed, where this process was started for that.
pub fn edit(open: impl Fn(&str) -> Conversation) {
    let Ok(edits) = std::env::var(EDITS) else { return };
    let (at, first) = edits.rsplit_once(' ').unwrap();
    let conversation = open(at);
    println!("begun");
    for i in first.parse::<u64>().unwrap().. {
        let question = format!("question {} of {}", i, std::process::id());
        let is_empty = whole(&conversation).is_empty();
        match i % 4 {
            1 if !is_empty => drop(conversation.regenerate().unwrap()),
            2 if !is_empty => drop(conversation.edit(0, question).unwrap()),
            3 => drop(conversation.undo().unwrap()),
            _ => drop(conversation.say(question).unwrap()),
        }
        println!("done");
    }
}

/// Kills so many processes in which this test edits what lies there; after each one branch or the
/// other is current, whole.
pub fn kill(test: &str, at: &str, kills: u64, open: impl Fn(&str) -> Conversation) {
    for i in 0..kills {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture"])
            .env(EDITS, format!("{at} {i}"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut output = BufReader::new(process.stdout.take().unwrap()).lines();
        // At any moment: in one round while it begins, in the next behind an edit.
        let until = if i % 2 == 0 { "begun" } else { "done" };
        assert!(output.any(|line| line.unwrap().contains(until)), "it failed by itself");
        thread::sleep(Duration::from_micros(500 + i * 7919 % 20_000));
        process.kill().unwrap();
        assert!(process.wait().unwrap().code().is_none(), "it failed by itself");
        whole(&open(at));
    }
    let conversation = open(at);
    let branches = conversation.branches().unwrap();
    for branch in &branches {
        conversation.switch(branch).unwrap();
        whole(&conversation);
    }
    println!("{kills} kills, {} branches", branches.len());
    assert!(branches.len() as u64 > kills / 8, "{} branches", branches.len());
}
