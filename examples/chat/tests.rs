//! The terminal chat as its users have it, without network and key: by lines, and in a real
//! terminal.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

#[path = "../../tests/common/folder.rs"]
mod folder;
#[path = "../../tests/common/stub.rs"]
mod stub;
#[path = "../../tests/common/stub_protocols.rs"]
mod stub_protocols;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use folder::Folder;
use rexpect::session::{PtySession, spawn_command};
use serde_json::json;
use stub::{Fault, Step, Stub};
use stub_protocols::KEY;

/// It knows what it is sent, and nothing else.
#[test]
fn it_recalls_only_what_it_is_sent() {
    let folder = Folder::new();
    let (one, other) = (folder.file("one.db"), folder.file("other.db"));
    let talk = |lines: &[&str]| {
        let mut chat =
            chat_alone().arg(&one).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        chat.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
        let output = chat.wait_with_output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    };
    let said = talk(&["I am Ada", "What is 6 * 7 ?", "What is the time?", "What is 1 / 0 ?"]);
    assert!(said.contains("The calculator says 42."), "{said}");
    // It says where it keeps what is said.
    let place = std::fs::canonicalize(&one).unwrap();
    assert!(said.contains(&format!("kept in {}", place.display())), "{said}");
    assert!(said.contains("The clock says") && said.contains("can't be calculated"), "{said}");
    let said = talk(&["What is 3*4+1?", "10-2-3", "2 * -3"]);
    for result in ["13", "5", "-6"] {
        assert!(said.contains(&format!("The calculator says {result}.")), "{said}");
    }
    // Another process, another day.
    assert!(talk(&["/window 40", "What is my name?"]).contains("You are Ada"));
    let said = talk(&["/window 1", "What is my name?", "/report", "/prompt"]);
    assert!(said.contains("I was not told.") && !said.contains("Ada"), "{said}");
    assert!(
        said.contains("before the window") && said.contains("System: You are a terse"),
        "{said}"
    );
    assert!(talk(&["/memory"]).contains("0 User: I am Ada"));
    let switch = format!("/switch {}", other.display());
    assert!(talk(&["/window 99", &switch, "What is my name?"]).contains("I was not told."));
    assert!(!talk(&["/forget", "/memory"]).contains("Ada"));
}

/// What was forgotten stood in the file of lines that were typed for ever.
#[test]
fn it_forgets_what_was_typed_too() {
    let folder = Folder::new();
    let file = folder.file("chat.db");
    let typed = |arguments: &[&str], lines: &str| {
        let mut chat = chat_alone();
        chat.arg(&file).args(arguments).stdin(Stdio::piped()).stdout(Stdio::null());
        let mut chat = chat.spawn().unwrap();
        chat.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        assert!(chat.wait().unwrap().success());
        std::fs::read_to_string(folder.file("chat.db.history")).unwrap()
    };
    assert!(typed(&[], "I am Ada\n").contains("I am Ada"));
    assert_eq!(typed(&[], "/forget\n"), "");
    let kept = typed(&[], "I am Ada\n/forget all\nI am Bob\n");
    assert!(kept.contains("I am Bob") && !kept.contains("Ada"), "{kept}");
    let kept = typed(&["forget"], "I am Eve\n");
    assert!(kept.contains("I am Bob") && !kept.contains("Eve"), "{kept}");
}

/// What was said is said otherwise, and nothing of it is lost.
#[test]
fn it_edits_answers_anew_and_goes_back() {
    let folder = Folder::new();
    let file = folder.file("chat.db");
    let mut chat = terminal(&file, "keep");
    ask(&mut chat, "I am Ada", "I was sent 2 messages");
    ask(&mut chat, "What is my name?", "You are Ada");
    ask(&mut chat, "/edit 0 I am Bob", "I was sent 2 messages");
    ask(&mut chat, "What is my name?", "You are Bob");
    ask(&mut chat, "/regenerate", "You are Bob");
    ask(&mut chat, "/undo", "taken back from 3 on");
    ask(&mut chat, "/undo", "taken back from 2 on");
    ask(&mut chat, "/undo", "taken back from 0 on");
    ask(&mut chat, "What is my name?", "You are Ada");
    ask(&mut chat, "/branches 1", "1: 0..4, current");
    ask(&mut chat, "What is my name?", "You are Bob");
}

/// A line of bytes that are no text ended the chat, and the lines behind it were lost.
#[test]
fn it_goes_on_behind_what_is_no_text() {
    let folder = Folder::new();
    let mut chat = chat_alone()
        .arg(folder.file("chat.db"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    chat.stdin.take().unwrap().write_all(b"a\xffb\n\n/window x\nWhat is 6 * 7 ?\n").unwrap();
    let output = chat.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("UTF-8") && said.contains("The calculator says 42."), "{said}");
}

/// With an address or a key that can't be used the toy answered, and nobody knew why.
#[test]
fn it_says_why_no_server_answers() {
    let folder = Folder::new();
    let said = |variables: &[(&str, &str)]| {
        let mut chat = chat_alone();
        chat.arg(folder.file("chat.db")).envs(variables.iter().copied()).stdin(Stdio::null());
        let output = chat.output().unwrap();
        assert!(output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    assert_eq!(said(&[]), "");
    let address = said(&[("OPENAI_API_KEY", "sk-1"), ("OPENAI_BASE_URL", "localhost:8080")]);
    assert!(address.contains("base URL") && !address.contains("8080"), "{address}");
    let key = said(&[("ANTHROPIC_API_KEY", "sk-\n1")]);
    assert!(key.contains("the key can't stand in a header"), "{key}");
}

/// The chat in a pseudo-terminal.
fn terminal(file: &Path, keep: &str) -> PtySession {
    let mut command = chat_alone();
    command.arg(file).arg(keep).env("TERM", "xterm");
    let mut chat = spawn_command(command, Some(60_000)).unwrap();
    chat.exp_string("/forget").unwrap();
    chat.exp_string("> ").unwrap();
    chat
}

const SLOW: &str = "Tell me a story!";

fn ask(chat: &mut PtySession, line: &str, answer: &str) -> String {
    chat.send_line(line).unwrap();
    chat.exp_string(answer).unwrap();
    chat.exp_string("> ").unwrap()
}

/// A line can be corrected before it is sent, an earlier one comes back, also another day, and
/// Ctrl-C leaves the line that is being written.
#[test]
fn lines_are_edited_and_come_back() {
    let folder = Folder::new();
    let file = folder.file("chat.db");
    let mut chat = terminal(&file, "keep");
    // Two letters too many, and one that is missed at the beginning.
    ask(&mut chat, "hat is 6 * 7 ?xx\u{7f}\u{7f}\u{1}w", "The calculator says 42.");
    ask(&mut chat, "\u{1b}[A", "The calculator says 42.");
    chat.send("never said").unwrap();
    chat.flush().unwrap();
    chat.exp_string("never said").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("> ").unwrap();
    chat.send_control('d').unwrap();
    chat.exp_eof().unwrap();
    let mut chat = terminal(&file, "keep");
    ask(&mut chat, "\u{1b}[A", "The calculator says 42.");
    chat.send_line("/memory").unwrap();
    let memory = chat.exp_string("11 Ai: ").unwrap();
    assert_eq!(memory.matches("what is 6 * 7 ?").count(), 3, "{memory}");
    assert!(!memory.contains("never"), "{memory}");
}

/// Ctrl-C stops an answer. What was said is kept, and the next question is answered.
#[test]
fn an_answer_that_is_stopped_is_kept() {
    let folder = Folder::new();
    let mut chat = terminal(&folder.file("chat.db"), "keep");
    chat.send_line(SLOW).unwrap();
    chat.exp_string("Once upon ").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("(stopped)").unwrap();
    chat.exp_string("> ").unwrap();
    ask(&mut chat, "one two", "I was sent 4 messages, the last one of 2 words.");
    chat.send_line("/memory").unwrap();
    let memory = chat.exp_string("3 Ai: ").unwrap();
    assert!(
        memory.contains("0 User: Tell me a story!") && memory.contains("1 Ai: Once upon "),
        "{memory}"
    );
    assert!(memory.matches("Once").count() < 50, "{memory}");
}

/// The same if nothing is to be kept of it.
#[test]
fn an_answer_that_is_stopped_is_forgotten_where_that_is_wanted() {
    let folder = Folder::new();
    let mut chat = terminal(&folder.file("chat.db"), "forget");
    chat.send_line(SLOW).unwrap();
    chat.exp_string("Once upon ").unwrap();
    chat.send_control('c').unwrap();
    chat.exp_string("(stopped, and forgotten)").unwrap();
    chat.exp_string("> ").unwrap();
    ask(&mut chat, "one two", "I was sent 2 messages, the last one of 2 words.");
    chat.send_line("/memory").unwrap();
    let memory = chat.exp_string("1 Ai: ").unwrap();
    assert!(memory.contains("0 User: one two\r\n"), "{memory}");
}

/// The chat in a pseudo-terminal, with a server that speaks OpenAI's protocol.
fn served(folder: &Folder, stub: &Stub, key: &str) -> PtySession {
    let mut command = chat_alone();
    command.arg(folder.file("chat.db")).env("TERM", "xterm");
    command.env("OPENAI_API_KEY", key).env("OPENAI_BASE_URL", format!("{}/v1", stub.url));
    let mut chat = spawn_command(command, Some(60_000)).unwrap();
    chat.exp_string("/forget").unwrap();
    chat.exp_string("> ").unwrap();
    chat
}

/// It was driven against its toy alone, and nobody knew what a server's answers look like in it.
#[test]
fn it_shows_what_a_server_says() {
    let (folder, stub) = (Folder::new(), Stub::start());
    let mut chat = served(&folder, &stub, KEY);
    let sum = json!({"expression": "6 * 7"});
    stub.then([Step::calls(&[("calculator", sum)]), Step::says("It makes 42.")]);
    ask(&mut chat, "What is 6 * 7?", "It makes 42.");
    let asked = stub.asked();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[1].body["messages"].as_array().unwrap().last().unwrap()["content"], "42");
    // What would move the cursor or colour the terminal is not shown.
    stub.then([Step::says("It is \u{1b}[31mred\u{9b}2J.")]);
    assert!(!ask(&mut chat, "Paint.", "It is [31mred2J.").contains('\u{9b}'));
    // As it comes: half of it is shown while the server is silent.
    stub.then([Step::says("Once upon a time there was a small memory.").but(Fault::Stall(0.6))]);
    chat.send_line("Tell me a story.").unwrap();
    chat.exp_string("Once upon ").unwrap();
    // Ctrl-C ends the wait, and what was shown is kept.
    chat.send_control('c').unwrap();
    chat.exp_string("(stopped)").unwrap();
    chat.exp_string("> ").unwrap();
    stub.then([Step::says("Where were we?")]);
    ask(&mut chat, "Go on.", "Where were we?");
    let asked = stub.asked().pop().unwrap().body["messages"].to_string();
    assert!(asked.contains("Once upon ") && asked.contains("Tell me a story."), "{asked}");
}

/// An answer that breaks off is an error with its reason, nothing of it is stored, and the next
/// question is answered.
#[test]
fn it_goes_on_behind_what_goes_wrong_at_a_server() {
    let (folder, stub) = (Folder::new(), Stub::start());
    let mut chat = served(&folder, &stub, KEY);
    stub.then([Step::says("Once upon a time there was a small memory.").but(Fault::Cut(0.6))]);
    chat.send_line("Tell me a story.").unwrap();
    chat.exp_string("Once upon ").unwrap();
    chat.exp_string("ask: ").unwrap();
    chat.exp_string("> ").unwrap();
    stub.then([Step::says("Yes.")]);
    ask(&mut chat, "Are you there?", "Yes.");
    let asked = stub.asked().pop().unwrap().body["messages"].to_string();
    assert!(!asked.contains("story"), "{asked}");
}

/// A key that the server does not take is an error that says so, and never shows the key.
#[test]
fn a_wrong_key_is_told_and_not_shown() {
    let (folder, stub) = (Folder::new(), Stub::start());
    let key = "sk-secret-of-mine";
    let mut chat = served(&folder, &stub, key);
    chat.send_line("hi").unwrap();
    let before = chat.exp_string("401").unwrap();
    let behind = chat.exp_string("> ").unwrap();
    assert!(!before.contains("secret") && !behind.contains("secret"), "{before}401{behind}");
    chat.send_line("/memory").unwrap();
    let memory = chat.exp_string("> ").unwrap();
    assert!(!memory.contains("User"), "nothing is stored: {memory}");
    assert_eq!(stub.asked().len(), 1, "it is not asked again");
}

/// A chat that needs more lines than that shows what the library lacks.
#[test]
fn the_chat_is_at_most_120_lines() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("chat.rs"));
    let lines = text.unwrap().lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 120, "{lines}");
}

/// The chat, to which nobody lends a key: it talks to its toy.
fn chat_alone() -> Command {
    let mut chat = Command::new(env!("CARGO_BIN_EXE_chat"));
    for provider in ["OPENAI", "ANTHROPIC", "GOOGLE", "GEMINI", "MISTRAL"] {
        chat.env_remove(format!("{provider}_API_KEY")).env_remove(format!("{provider}_BASE_URL"));
    }
    chat.env_remove("GOOGLE_GEMINI_BASE_URL").env_remove("OPENAI_API_BASE");
    chat
}
