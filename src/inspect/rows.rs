//! The lines of a prompt, in order: messages, and the gaps between them.

use std::collections::BTreeMap;

use crate::message::{AiPart, Content, Message, Part, Source, ToolCall, in_words};
use crate::prompt::{Gap, LeftOut, Origin, Prompt, Report};
use crate::text::Grouped;
use crate::token::{Estimate, TokenCounter};

pub(super) enum Row<'a> {
    Message(Box<Line<'a>>),
    /// Messages that were left out here, and the reason.
    Gap(String),
}

/// A message with its details.
pub(super) struct Line<'a> {
    pub(super) index: usize,
    pub(super) kind: OriginKind,
    pub(super) origin: Origin,
    pub(super) message: &'a Message,
    pub(super) tokens: usize,
    pub(super) notes: Vec<String>,
    pub(super) gaps: Vec<Gap>,
}

/// The origins that the token bar distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum OriginKind {
    System,
    Pin,
    Summary,
    Question,
    Window,
    Repair,
    Added,
    Temporary,
    Recall,
}

impl OriginKind {
    #[cfg(feature = "inspect")]
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Pin => "pin",
            Self::Summary => "summary",
            Self::Question => "question",
            Self::Window => "window",
            Self::Repair => "repair",
            Self::Added => "added",
            Self::Temporary => "temporary",
            Self::Recall => "recall",
        }
    }

    fn of(origin: Origin, report: &Report) -> Self {
        match origin {
            Origin::System => Self::System,
            Origin::Summary => Self::Summary,
            Origin::Temporary | Origin::Joined(None) => Self::Temporary,
            Origin::Note | Origin::Notice | Origin::Added => Self::Added,
            _ => match origin.position() {
                Some(position) if report.pinned_before.contains(&position) => Self::Pin,
                Some(position) if report.question.contains(&position) => Self::Question,
                Some(_) => Self::Window,
                None => Self::Repair,
            },
        }
    }
}

pub(super) fn rows(prompt: &Prompt) -> Vec<Row<'_>> {
    let report = prompt.report();
    let mut notes = notes(report);
    let mut gaps = gaps(prompt);
    let mut rows: Vec<Row<'_>> = Vec::with_capacity(prompt.len() + gaps.len());
    for (index, (origin, message)) in prompt.with_origins().enumerate() {
        let position = origin.position();
        let is_before = |position: &u64| {
            report.question.contains(position) || report.pinned_before.contains(position)
        };
        if let Some(position) = position.filter(|position| !is_before(position)) {
            let behind = gaps.split_off(&(position + 1));
            rows.extend(gaps.into_values().flatten().map(Row::Gap));
            gaps = behind;
        }
        rows.push(Row::Message(Box::new(Line {
            index,
            kind: OriginKind::of(origin, report),
            origin,
            message,
            // By the prompt's own counter, if it has one; the estimate does not fail.
            tokens: (report.message_tokens.get(index).copied())
                .unwrap_or_else(|| Estimate.count(message).unwrap_or(0)),
            notes: match (origin, report.summary) {
                (Origin::Summary, Some(before)) => {
                    vec![format!("in place of {} before {before}", Grouped(report.covered))]
                }
                _ => position.and_then(|position| notes.remove(&position)).unwrap_or_default(),
            },
            gaps: Vec::new(),
        })));
    }
    rows.extend(gaps.into_values().flatten().map(Row::Gap));
    tell_recall(&mut rows, report);
    mark(&mut rows, report, notes);
    rows
}

/// Notes what was recalled at the message that quotes it: the last temporary one, which a
/// provider's rules may have joined to the message before it.
fn tell_recall(rows: &mut [Row<'_>], report: &Report) {
    let last = rows.iter_mut().rev().find_map(|row| match row {
        Row::Message(line) if matches!(line.origin, Origin::Temporary | Origin::Joined(_)) => {
            Some(line)
        }
        _ => None,
    });
    if let Some(line) = last.filter(|_| !report.recalled.is_empty()) {
        if line.origin == Origin::Temporary {
            line.kind = OriginKind::Recall;
        }
        let positions = report.recalled.iter().map(|it| it.position.to_string());
        let positions: Vec<String> = positions.collect();
        line.notes.push(format!("recalled: quotes {}", positions.join(", ")));
    }
}

/// Adds the gaps. Also adds notes about joined records to the joined message.
fn mark(rows: &mut [Row<'_>], report: &Report, notes: BTreeMap<u64, Vec<String>>) {
    let mut lines = Lines::default();
    for row in rows {
        if let Row::Message(line) = row
            && let Some(position) = line.origin.position()
        {
            let is_joined = matches!(line.origin, Origin::Joined(_));
            let lines = if is_joined { &mut lines.joined } else { &mut lines.alone };
            // If an answer was split, the first piece has its texts.
            lines.entry(position).or_insert(line);
        }
    }
    for cut in &report.truncated {
        if let (Some(gap), Some(line)) = (cut.gap, lines.with(cut.position)) {
            line.gaps.push(gap);
            line.gaps.sort_by_key(|gap| (gap.text, gap.at));
        }
    }
    for (position, notes) in notes {
        if let Some(line) = lines.with(position) {
            line.notes.extend(notes.into_iter().map(|note| format!("{position}: {note}")));
        }
    }
}

/// The messages by the position of their record, or of the first of several joined ones.
#[derive(Default)]
struct Lines<'a, 'b> {
    alone: BTreeMap<u64, &'b mut Line<'a>>,
    joined: BTreeMap<u64, &'b mut Line<'a>>,
}

impl<'a> Lines<'a, '_> {
    /// Returns the message that contains the record at this position.
    fn with(&mut self, position: u64) -> Option<&mut Line<'a>> {
        match self.alone.get_mut(&position) {
            Some(line) => Some(line),
            None => self.joined.range_mut(..=position).next_back().map(|(_, line)| &mut **line),
        }
    }
}

/// Returns the notes about each sent record, by position.
fn notes(report: &Report) -> BTreeMap<u64, Vec<String>> {
    let mut notes: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut note = |position: u64, text: String| notes.entry(position).or_default().push(text);
    for position in &report.question {
        note(*position, "the question of its turn, sent before the window".to_owned());
    }
    for position in &report.pinned_before {
        note(*position, "pinned, sent before the window".to_owned());
    }
    for moved in &report.moved {
        note(moved.position, format!("came late, and is sent behind its call in {}", moved.call));
    }
    for cut in &report.truncated {
        note(cut.position, format!("cut from {} to {} bytes", Grouped(cut.from), Grouped(cut.to)));
    }
    for cleared in &report.cleared {
        let (from, to) = (Grouped(cleared.from), Grouped(cleared.to));
        note(cleared.position, format!("cleared from {from} to {to} bytes"));
    }
    for repaired in &report.repaired {
        if let Some(position) = repaired.position {
            note(position, format!("call {:?} had no result", repaired.call_id));
        }
    }
    for adapted in &report.adapted {
        if let Some(position) = adapted.position {
            note(position, adapted.how.to_string());
        }
    }
    for position in &report.kept_systems {
        note(*position, "a system message, in its place".to_owned());
    }
    notes
}

/// Returns the notes about left-out messages, by the position of the next message.
fn gaps(prompt: &Prompt) -> BTreeMap<u64, Vec<String>> {
    let report = prompt.report();
    let mut gaps: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    let mut gap = |position: u64, text: String| gaps.entry(position).or_default().push(text);
    for (stretch, fate) in prompt.before_window() {
        let (first, last) = (stretch.start, stretch.end - 1);
        let which = if first == last { first.to_string() } else { format!("{first} to {last}") };
        gap(first, format!("{which}: {fate}"));
    }
    if report.private > 0 {
        gap(0, format!("{} of the application, which nobody is sent", report.private));
    }
    for LeftOut { position, role, why } in &report.left_out {
        gap(*position, format!("{position}: {role}, {why}"));
    }
    for position in &report.unreadable {
        gap(*position, format!("{position}: the memory can't read it"));
    }
    gaps
}

/// Describes the origin of a message.
pub(super) fn told(origin: Origin) -> String {
    match origin {
        Origin::System => "the system message".to_owned(),
        Origin::Summary => "the summary".to_owned(),
        Origin::History(position) => format!("position {position}"),
        Origin::Truncated(position) => format!("position {position}, cut"),
        Origin::Cleared(position) => format!("position {position}, cleared"),
        Origin::Adapted(position) => format!("position {position}, adapted"),
        Origin::Joined(Some(position)) => format!("from position {position} on, joined"),
        Origin::Joined(None) => "joined".to_owned(),
        Origin::Repair => "in place of a missing result".to_owned(),
        Origin::Note => "a note of this prompt".to_owned(),
        Origin::Notice => "a notice of what is not shown".to_owned(),
        Origin::Temporary => "temporary".to_owned(),
        Origin::Added => "added for the provider".to_owned(),
    }
}

pub(super) enum Piece<'a> {
    Text(&'a str),
    /// A description of a part that is not text.
    Described(String),
    Thought(&'a str),
    Call(&'a ToolCall),
}

pub(super) fn pieces(message: &Message) -> Vec<Piece<'_>> {
    match message {
        Message::Ai(ai) if !ai.parts().is_empty() => {
            let pieces = ai.parts().iter().map(|part| match part {
                AiPart::Content(part) => of_part(part),
                AiPart::Reasoning(reasoning) => Piece::Thought(&reasoning.text),
                AiPart::ToolCall(call) => Piece::Call(call),
            });
            pieces.collect()
        }
        message => match message.content().map_or(&[][..], Content::parts) {
            [] => vec![Piece::Text(message.texts().next().unwrap_or_default())],
            parts => parts.iter().map(of_part).collect(),
        },
    }
}

fn of_part(part: &Part) -> Piece<'_> {
    part.as_text().map_or_else(|| Piece::Described(described(part)), Piece::Text)
}

/// Describes a part that is not text.
fn described(part: &Part) -> String {
    let what = in_words(0, [part]);
    let Some(media) = part.as_media() else { return what };
    let of = media.media_type.as_ref().map(|it| format!(" of type {it}")).unwrap_or_default();
    match &media.source {
        Source::Base64(data) => format!("{what}{of}, {} bytes", Grouped(data.len() / 4 * 3)),
        Source::Reference(it) => format!("{what}{of}, {} bytes", Grouped(it.size)),
        Source::Url(_) => format!("{what}{of}, by its address"),
        Source::FileId(_) => format!("{what}{of}, by its id"),
    }
}
