//! Writes the page.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::rows::{Line, OriginKind, Piece, Row, pieces, rows, told};
use crate::message::Message;
use crate::prompt::{Break, Gap, Prompt, Tokens};
use crate::text::Grouped;
use crate::token::{Estimate, TokenCounter};
use crate::wire::Usage;

const STYLE: &str = include_str!("page.css");
/// Longer texts (in bytes) are folded.
const LONG: usize = 600;

pub(super) struct Page {
    html: String,
    prompts: usize,
}

/// A prompt, compared with the one before it.
struct Compared {
    /// The common first messages and their tokens; then the messages and tokens of this prompt.
    same: usize,
    cached: usize,
    all: usize,
    broken_by: Option<Break>,
}

impl Compared {
    fn new(prompt: &Prompt, before: Option<&Prompt>) -> Self {
        let all = prompt.iter().map(|message| Estimate.count(message).unwrap_or(0)).sum();
        let Some(before) = before else {
            return Self { same: 0, cached: 0, all, broken_by: None };
        };
        let shared = prompt.shared_prefix(before);
        Self { same: shared.messages, cached: shared.tokens, all, broken_by: shared.broken_by }
    }
}

impl Page {
    pub(super) fn html(prompts: &[(&Prompt, Option<&Usage>, Option<u64>)]) -> String {
        let html = format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
             style-src 'unsafe-inline'\">\
             <title>What the model is sent</title>\n<style>{STYLE}</style></head>\n<body><main>\n\
             <h1>What the model is sent</h1>\n"
        );
        let mut page = Self { html, prompts: prompts.len() };
        let before = [None].into_iter().chain(prompts.iter().map(|it| Some(it.0)));
        let compared = prompts.iter().zip(before).map(|(it, before)| Compared::new(it.0, before));
        let compared: Vec<_> = compared.collect();
        if page.prompts > 1 {
            page.strip(&compared);
        }
        for (i, (shown, compared)) in prompts.iter().zip(&compared).enumerate() {
            page.prompt(i + 1, *shown, compared);
        }
        page.html.push_str("</main></body></html>\n");
        page.html
    }

    /// Adds HTML that contains no text from outside.
    fn add(&mut self, html: std::fmt::Arguments<'_>) {
        let _ = self.html.write_fmt(html); // writing to a string does not fail
    }

    /// Adds a text from outside, inside an element or a quoted attribute. It is escaped, so that it
    /// can't end the element that contains it.
    fn text(&mut self, text: &str) {
        let page = &mut self.html;
        for c in text.chars() {
            match c {
                '&' => page.push_str("&amp;"),
                '<' => page.push_str("&lt;"),
                '>' => page.push_str("&gt;"),
                '"' => page.push_str("&quot;"),
                '\'' => page.push_str("&#39;"),
                '\n' | '\t' => page.push(c),
                // HTML forbids control characters or reads them as something else: their symbols
                // are shown.
                '\0'..='\x1f' => page.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or(' ')),
                '\x7f'..='\u{9f}' => page.push('\u{fffd}'),
                c => page.push(c),
            }
        }
    }

    /// Adds a text from outside between two pieces of HTML.
    fn between(&mut self, before: &str, text: &str, behind: &str) {
        self.html.push_str(before);
        self.text(text);
        self.html.push_str(behind);
    }

    /// Shows each prompt as a bar: the cached part and the new part.
    fn strip(&mut self, compared: &[Compared]) {
        self.html.push_str("<nav aria-label=\"prompts\"><ol class=\"strip\">\n");
        let most = compared.iter().map(|it| it.all).max().unwrap_or(0).max(1);
        for (i, it) in compared.iter().enumerate() {
            let new = it.all - it.cached;
            let n = i + 1;
            let broken = it.broken_by.map(|by| format!("; broken: {by}")).unwrap_or_default();
            let class = if it.broken_by.is_some() { " class=\"broken\"" } else { "" };
            self.add(format_args!(
                "<li{class}><a href=\"#p{n}\"><span class=\"bar\" aria-hidden=\"true\">\
                 <span class=\"cached\" style=\"flex:{}\"></span>\
                 <span class=\"new\" style=\"flex:{new}\"></span>\
                 <span style=\"flex:{}\"></span></span>\
                 prompt {n}: {} tokens cached, {} new",
                it.cached,
                most - it.all,
                Grouped(it.cached),
                Grouped(new),
            ));
            self.between("", &broken, "</a></li>\n");
        }
        self.html.push_str("</ol></nav>\n");
    }

    fn prompt(
        &mut self,
        n: usize,
        (prompt, usage, left): (&Prompt, Option<&Usage>, Option<u64>),
        compared: &Compared,
    ) {
        let report = prompt.report();
        let mut rows = rows(prompt);
        for row in &mut rows {
            if let Row::Message(line) = row
                && line.origin.position().zip(left).is_some_and(|(position, left)| position >= left)
            {
                line.notes.push("not on the current branch".to_owned());
            }
        }
        let open = if n < self.prompts { "" } else { " open" }; // only the last one
        let first = report.to_string();
        let first = first.lines().next().unwrap_or_default();
        self.add(format_args!("<section><details{open}><summary><h2>"));
        if self.prompts > 1 {
            self.add(format_args!("Prompt {n}: "));
        }
        self.text(first);
        self.html.push_str("</h2></summary>\n");
        self.bar(n, &rows, report.tokens.as_ref());
        if let Some(usage) = usage.filter(|usage| **usage != Usage::default()) {
            let counts = [
                ("input", usage.input),
                ("cached", usage.cached),
                ("written", usage.written),
                ("output", usage.output),
                ("reasoning", usage.reasoning),
            ];
            let told =
                |(name, count): (_, Option<u64>)| Some(format!("{name} {}", Grouped(count?)));
            let told: Vec<_> = counts.into_iter().filter_map(told).collect();
            self.between("<p>The provider counted: ", &told.join(", "), ".</p>\n");
        }
        if let Some(by) = compared.broken_by {
            self.add(format_args!(
                "<p class=\"broken\">The prefix of the prompt before broke behind message {}: ",
                compared.same
            ));
            self.between("", &by.to_string(), ".</p>\n");
        }
        self.html.push_str("<ol class=\"rows\">\n");
        let results = results(&rows);
        for row in &rows {
            match row {
                Row::Gap(text) => self.between("<li class=\"gap\">left out: ", text, "</li>\n"),
                Row::Message(line) => {
                    self.line(n, line, line.index < compared.same, &results);
                    if line.index + 1 == prompt.cacheable() {
                        self.html.push_str(
                            "<li class=\"mark\">cache mark: what stands above is sent again as it \
                             is</li>\n",
                        );
                    }
                }
            }
        }
        self.html.push_str("</ol>\n<details><summary>its report</summary><pre>\n");
        self.text(&report.to_string());
        self.html.push_str("</pre></details>\n</details></section>\n");
    }

    /// Shows the tokens by origin. Links to a prompt lead here, because a link to something in a
    /// closed element opens it.
    fn bar(&mut self, n: usize, rows: &[Row<'_>], tokens: Option<&Tokens>) {
        let mut by_kind: BTreeMap<OriginKind, usize> = BTreeMap::new();
        for row in rows {
            if let Row::Message(line) = row {
                *by_kind.entry(line.kind).or_default() += line.tokens;
            }
        }
        let mut parts: Vec<_> = by_kind.into_iter().map(|(kind, it)| (kind.name(), it)).collect();
        if let Some(tokens) = tokens {
            parts.push(("tools", tokens.tools));
            parts.push(("reply", tokens.reply));
            parts.push(("free", tokens.budget.saturating_sub(tokens.total)));
            parts.push(("reserve", tokens.reserve));
        }
        parts.retain(|(_, tokens)| *tokens > 0);
        self.html.push_str("<div class=\"bar\" aria-hidden=\"true\">");
        for (name, tokens) in &parts {
            self.add(format_args!("<span class=\"{name}\" style=\"flex:{tokens}\"></span>"));
        }
        self.add(format_args!(
            "</div>\n<ul class=\"legend\" id=\"p{n}\" aria-label=\"tokens by origin\">"
        ));
        for (name, tokens) in &parts {
            self.add(format_args!("<li class=\"{name}\">{name} {}</li>", Grouped(tokens)));
        }
        self.html.push_str("</ul>\n");
    }

    fn line(&mut self, n: usize, line: &Line<'_>, cached: bool, results: &[(&str, usize)]) {
        let Line { index, kind, origin, message, tokens, notes, gaps } = line;
        let mut texts = 0..;
        let held = if cached { " held" } else { "" };
        self.add(format_args!(
            "<li id=\"p{n}m{index}\" class=\"{}{held}\"><p class=\"head\"><b>{}</b> \
             <span>{}</span> <span>{} tokens</span></p>\n",
            kind.name(),
            message.role(),
            told(*origin),
            Grouped(tokens),
        ));
        for note in notes {
            self.between("<p class=\"note\">", note, "</p>\n");
        }
        if let Message::Tool(tool) = message {
            let end = if tool.is_error() { "</code>, an error</p>\n" } else { "</code></p>\n" };
            self.between("<p class=\"kind\">result of <code>", tool.tool_name(), end);
        }
        for piece in pieces(message) {
            match piece {
                Piece::Text(text) => {
                    let number = texts.next();
                    self.body(text, gaps.iter().filter(|gap| Some(gap.text) == number));
                }
                Piece::Described(what) => self.between("<p class=\"kind\">", &what, "</p>\n"),
                Piece::Thought(text) => {
                    self.html.push_str("<p class=\"kind\">reasoning</p>\n");
                    self.body(text, [].iter());
                }
                Piece::Call(call) => {
                    self.between("<p class=\"kind\">calls <code>", &call.name, "</code>");
                    let behind = |(id, at): &&(&str, usize)| *id == call.id && at > index;
                    if let Some((_, at)) = results.iter().find(behind) {
                        self.add(format_args!(" <a href=\"#p{n}m{at}\">its result</a>"));
                    }
                    self.html.push_str("</p>\n");
                    self.body(&call.arguments, [].iter());
                }
            }
        }
        self.html.push_str("</li>\n");
    }

    /// Adds a text from outside, with a mark at each place where text was left out.
    fn body<'g>(&mut self, text: &str, gaps: impl Iterator<Item = &'g Gap>) {
        let cut = Cut::new(text, gaps);
        let is_long = text.len() > LONG;
        if is_long {
            self.folded(text.len(), &cut);
        }
        // A line break right after `<pre>` is not shown, and the text may begin with one.
        self.html.push_str("<pre dir=\"auto\">\n");
        for (before, marker, left_out) in &cut.gaps {
            self.text(before);
            self.mark(marker, *left_out);
        }
        self.text(cut.tail);
        self.html.push_str(if is_long { "</pre></details>\n" } else { "</pre>\n" });
    }

    /// Adds the visible part of a folded text: its beginning, and the text around a cut.
    fn folded(&mut self, bytes: usize, cut: &Cut<'_>) {
        self.html.push_str("<details><summary dir=\"auto\">");
        let shown = cut.gaps.first().map_or(cut.tail, |(head, ..)| head);
        let start = shown.trim_start().lines().next().unwrap_or_default();
        self.text(&start.chars().take(100).collect::<String>());
        self.html.push_str(" … ");
        if !cut.gaps.is_empty() {
            self.mark("", cut.gaps.iter().map(|(_, _, left_out)| left_out).sum());
            let last = cut.tail.trim_end().lines().next_back().unwrap_or_default();
            let skip = last.chars().count().saturating_sub(100);
            self.html.push_str(if last.is_empty() { " " } else { " … " });
            self.text(&last.chars().skip(skip).collect::<String>());
        }
        self.add(format_args!(" ({} bytes)</summary>", Grouped(bytes)));
    }

    /// Marks the place where text was left out: the sent marker, and a note.
    fn mark(&mut self, marker: &str, left_out: usize) {
        self.html.push_str("<mark>");
        self.text(marker);
        let left_out = Grouped(left_out);
        self.add(format_args!("<b>{left_out} bytes not sent</b></mark>"));
    }
}

struct Cut<'a> {
    /// For each gap, the text before it, its marker, and the bytes left out.
    gaps: Vec<(&'a str, &'a str, usize)>,
    tail: &'a str,
}

impl<'a> Cut<'a> {
    fn new<'g>(text: &'a str, gaps: impl Iterator<Item = &'g Gap>) -> Self {
        let mut cut = Self { gaps: Vec::new(), tail: text };
        let mut passed = 0;
        for gap in gaps {
            let head = gap.at.checked_sub(passed).and_then(|at| cut.tail.split_at_checked(at));
            let parted =
                head.and_then(|(head, rest)| Some((head, rest.split_at_checked(gap.marker)?)));
            if let Some((head, (marker, tail))) = parted {
                cut.gaps.push((head, marker, gap.left_out));
                cut.tail = tail;
                passed = gap.at + gap.marker;
            }
        }
        cut
    }
}

/// Returns the ids of calls with results, and the places of the results.
fn results<'a>(rows: &[Row<'a>]) -> Vec<(&'a str, usize)> {
    let tools = rows.iter().filter_map(|row| match row {
        Row::Message(line) => Some((line.message.as_tool()?.call_id(), line.index)),
        Row::Gap(_) => None,
    });
    tools.collect()
}
