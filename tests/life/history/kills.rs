//! Processes that are killed in the middle of edits.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use memory_prompt::conversation::{Asking, Conversation, ModelError};
use memory_prompt::store::Durability;
use memory_prompt::{MemoryPrompt, Result, SqliteStore, Window};

use crate::counted::cases;
use crate::folder::Folder;

const EDITS: &str = "MEMORY_PROMPT_EDITS";

/// Answers to what was asked last.
fn model(ask: &Asking<'_>) -> Result<String, ModelError> {
    let question = ask.prompt().iter().filter(|it| it.is_user()).last();
    Ok(format!("to {}", question.ok_or("there is no question")?.text()))
}

fn conversation(path: &str) -> Conversation {
    let store = SqliteStore::options().durability(Durability::Process).open(path).unwrap();
    let prompt = MemoryPrompt::new(store.memory("killed").unwrap()).window(Window::all());
    Conversation::new(prompt.with_branches(), model)
}

/// What the current branch says, which is whole: each question is answered.
fn whole(conversation: &Conversation) -> Vec<String> {
    let page = conversation.page(None, 100).unwrap();
    let said: Vec<_> = page.entries.iter().rev().map(|it| it.message.text().into_owned()).collect();
    assert!(said.len().is_multiple_of(2), "{said:?}");
    for pair in said.chunks(2) {
        assert_eq!(pair[1], format!("to {}", pair[0]));
    }
    said
}

/// Not a test of its own: what the process does that the next test kills.
#[test]
fn editor() {
    let Ok(edits) = std::env::var(EDITS) else { return };
    let (path, first) = edits.rsplit_once(' ').unwrap();
    let conversation = conversation(path);
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

#[test]
fn a_kill_in_the_middle_of_an_edit_leaves_one_branch_or_the_other_whole() {
    let folder = Folder::new();
    let path = folder.file("chat.db").to_str().unwrap().to_owned();
    let kills = u64::from(cases(100));
    for i in 0..kills {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["history::kills::editor", "--exact", "--nocapture"])
            .env(EDITS, format!("{path} {i}"))
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
        whole(&conversation(&path));
    }
    let conversation = conversation(&path);
    let branches = conversation.branches().unwrap();
    for branch in &branches {
        conversation.switch(branch).unwrap();
        whole(&conversation);
    }
    println!("{kills} kills, {} branches", branches.len());
    assert!(branches.len() as u64 > kills / 8, "{} branches", branches.len());
}
