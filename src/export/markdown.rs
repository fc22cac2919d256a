//! A conversation as Markdown: whatever was said is in fences and code, so that nothing in it can
//! pose as the text around it.

use std::fmt::Write as _;

use super::rows;
use crate::error::Result;
use crate::history::Branch;
use crate::memory::MemoryId;
use crate::message::{AiPart, Message, Part, in_words};
use crate::pins::Pins;
use crate::record::{Snapshot, escape, rfc3339, write_speaker};
use crate::summary::Summaries;
use crate::turn::{Unfinished, turns_in};

pub(super) fn begin(
    id: &MemoryId,
    head: &Snapshot,
    (branches, number): (&[Branch], usize),
) -> Result<String> {
    let mut text = String::new();
    if number == 1 {
        let _ = writeln!(text, "# Conversation {}", code(id.as_str()));
    }
    if let Some(branch) = branches.get(number - 1) {
        let current = if branch.is_current { ", the current one" } else { "" };
        let _ = writeln!(text, "\n## Branch {number} of {}{current}", branches.len());
        let parent = branches.iter().position(|it| Some(it.id) == branch.parent);
        if let (Some(parent), Some(last)) = (parent, branch.own.start.checked_sub(1)) {
            let _ = writeln!(text, "\nIt continues after message {last} of branch {}.", parent + 1);
            let pinned: Vec<_> =
                Pins::of(head)?.before(branch.own.start).iter().map(u64::to_string).collect();
            if !pinned.is_empty() {
                let _ = writeln!(text, "\nOf the messages there it pins {}.", pinned.join(", "));
            }
        }
    }
    if head.start > 0 {
        let _ = writeln!(text, "\nThe messages before {} are no longer kept.", head.start);
    }
    if let Some(system) = &head.system {
        fenced("The system message", &system.text(), &mut text);
    }
    if let Some(summaries) = Summaries::of(head)? {
        let covers = summaries.current.covers;
        let label = format!("The summary of the messages before {covers}");
        fenced(&label, &summaries.current.text, &mut text);
    }
    Ok(text)
}

pub(super) fn page(page: &Snapshot, head: &Snapshot) -> Result<String> {
    let pins = Pins::of(head)?;
    let covers = Summaries::of(head)?.map_or(0, |it| it.current.covers);
    let mut text = String::new();
    for (position, row) in rows(page) {
        let Ok(record) = row else {
            let _ = writeln!(text, "\n### {position}\n\nIt can't be read.");
            continue;
        };
        let _ = write!(text, "\n### {position}, ");
        speaker(record.message(), &mut text);
        if record.millis() > 0 {
            let _ = write!(text, ", {}", rfc3339(record.millis()));
        }
        let marks = [(pins.names(position), ", pinned"), (position < covers, ", summarised")];
        marks.into_iter().filter(|it| it.0).for_each(|(_, mark)| text += mark);
        text.push('\n');
        message(record.message(), &mut text);
    }
    Ok(text)
}

/// What waits, on any branch.
pub(super) fn end(head: &Snapshot) -> String {
    let mut text = String::new();
    for turn in turns_in(head) {
        match turn {
            Ok(turn) => waiting(&turn, &mut text),
            Err(_) => text += "\n## A turn that waits, and can't be read\n",
        }
    }
    text
}

fn waiting(turn: &Unfinished, text: &mut String) {
    let _ = writeln!(text, "\n## The turn {} that has not ended", code(turn.id()));
    for it in turn.messages().iter().chain(turn.steers()) {
        *text += "\n### ";
        speaker(it, text);
        text.push('\n');
        message(it, text);
    }
    for call in turn.waiting() {
        let (call, tool) = (code(&call.call), code(&call.tool));
        let _ = writeln!(text, "\nThe call {call} of {tool} waits for approval.");
    }
}

/// Writes who spoke. A name can look like anything.
fn speaker(message: &Message, text: &mut String) {
    let mut speaker = String::new();
    write_speaker(message, &mut speaker);
    match speaker.split_once(' ') {
        Some((role, name)) => {
            let _ = write!(text, "{role} {}", ticked(name));
        }
        None => *text += &speaker,
    }
}

fn message(message: &Message, text: &mut String) {
    match message {
        Message::Ai(ai) => {
            for part in ai.parts() {
                match part {
                    AiPart::Content(part) => content([part], text),
                    AiPart::Reasoning(thought) => fenced("Reasoning", &thought.text, text),
                    AiPart::ToolCall(call) => {
                        let label = format!("Call {} of {}", code(&call.id), code(&call.name));
                        fenced(&label, &call.arguments, text);
                    }
                }
            }
            if ai.parts().is_empty() {
                fenced("", &ai.text(), text);
            }
        }
        Message::Custom(custom) => {
            let fields = custom.attributes().iter().chain(custom.fields());
            fields.for_each(|(name, value)| fenced(&code(name), &value.to_string(), text));
        }
        other => {
            if let Some(result) = other.as_tool() {
                let failed = if result.is_error() { ", which failed" } else { "" };
                let _ = writeln!(text, "\nResult of {}{failed}:", code(result.call_id()));
            }
            match other.content().map_or(&[][..], |it| it.parts()) {
                [] => fenced("", &other.text(), text),
                parts => content(parts, text),
            }
        }
    }
}

/// Writes each text of a content, and says what else there is.
fn content<'a>(parts: impl IntoIterator<Item = &'a Part> + Clone, text: &mut String) {
    for part in parts.clone() {
        if let Part::Text(it) = part {
            fenced("", &it.text, text);
        }
    }
    let words = in_words(0, parts);
    if !words.is_empty() {
        let _ = writeln!(text, "\nWith {words}.");
    }
}

/// Writes a text between fences that are longer than any row of ticks in it.
fn fenced(label: &str, said: &str, text: &mut String) {
    if !label.is_empty() {
        let _ = writeln!(text, "\n{label}:");
    }
    let fence = "`".repeat(ticks(said).max(2) + 1);
    let end = if said.is_empty() || said.ends_with('\n') { "" } else { "\n" };
    let _ = writeln!(text, "\n{fence}text\n{said}{end}{fence}");
}

/// Returns a name or an id as code within a line.
fn code(name: &str) -> String {
    let mut line = String::new();
    escape(name, &mut line);
    ticked(&line)
}

fn ticked(line: &str) -> String {
    let ticks = ticks(line);
    let pad = if ticks > 0 || line.is_empty() { " " } else { "" };
    let ticks = "`".repeat(ticks + 1);
    format!("{ticks}{pad}{line}{pad}{ticks}")
}

/// Returns the length of the longest row of ticks.
fn ticks(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}
