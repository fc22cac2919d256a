//! Shows a prompt in a terminal.

use std::fmt;
use std::io::{IsTerminal, stdout};

use super::rows::{Line, OriginKind, Piece, Row, pieces, rows, told};
use crate::prompt::{Prompt, Report};
use crate::text::deceives;

/// The most characters of a text that a line shows.
const MOST: usize = 100;

/// The width of the first column of a report, which holds the subject of a line.
const ABOUT: usize = 12;

const BOLD: &str = "1";
const DIM: &str = "2";
const RED: &str = "31";
const GREEN: &str = "32";

/// A prompt, or a report, as lines for a terminal.
///
/// For a prompt it shows the same as the [page](Prompt::html), but only the beginning of each text;
/// for a report, the report's own lines, without texts of messages.
///
/// Texts are written behind a bar, so that none can pose as a line of the outline. They can't move
/// the cursor, change colours or the direction of writing: symbols replace the characters that
/// could.
#[derive(Clone, Copy)]
#[must_use]
pub struct Outline<'a> {
    of: Of<'a>,
    colors: bool,
}

#[derive(Clone, Copy)]
enum Of<'a> {
    Prompt(&'a Prompt),
    Report(&'a Report),
}

impl Prompt {
    /// Returns the prompt as lines for a terminal, without colours unless
    /// [they are wanted](Outline::for_stdout).
    ///
    /// ```
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).system("Be brief.");
    /// prompt.add(Message::user("Where is Oslo?"))?;
    /// let shown = "\
    /// 2 messages: system, 1 of 1 from memory
    ///      7  system, the system message
    ///         | Be brief.
    ///      8  user, position 0
    ///         | Where is Oslo?
    ///         --- cache mark: what stands above is sent again as it is
    /// ";
    /// assert_eq!(prompt.build()?.outline().to_string(), shown);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn outline(&self) -> Outline<'_> {
        Outline { of: Of::Prompt(self), colors: false }
    }
}

impl Report {
    /// Returns the report as lines for a terminal, without colours unless
    /// [they are wanted](Outline::for_stdout).
    ///
    /// ```
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(1);
    /// prompt.add_all(["Where is Oslo?", "And Bergen?"].map(Message::user))?;
    /// let built = prompt.build()?;
    /// print!("{}", built.report().outline().for_stdout());
    /// assert_eq!(built.report().outline().to_string(), built.report().to_string());
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn outline(&self) -> Outline<'_> {
        Outline { of: Of::Report(self), colors: false }
    }
}

impl Outline<'_> {
    /// Sets whether origins, notes, the cache mark, and the subjects of a report's lines are
    /// coloured.
    pub fn colors(mut self, colors: bool) -> Self {
        self.colors = colors;
        self
    }

    /// Uses colours if standard output is a terminal and `NO_COLOR` is not set.
    pub fn for_stdout(self) -> Self {
        let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        self.colors(stdout().is_terminal() && !refused)
    }

    fn paint<T: fmt::Display>(self, style: &'static str, text: T) -> Painted<T> {
        Painted { style: self.colors.then_some(style), text }
    }

    /// Writes a line of a report, which begins with its subject.
    fn told(self, f: &mut fmt::Formatter<'_>, line: &str) -> fmt::Result {
        let line: String = line.chars().map(harmless).collect();
        let (about, rest) = line.split_at_checked(ABOUT).unwrap_or((&line, ""));
        let style = match about.trim() {
            "left out" => DIM,
            "cache" => GREEN,
            _ => RED,
        };
        writeln!(f, "{}{rest}", self.paint(style, about))
    }

    fn line(self, f: &mut fmt::Formatter<'_>, line: &Line<'_>, cacheable: usize) -> fmt::Result {
        let Line { index, kind, origin, message, tokens, notes, .. } = line;
        let head = format!("{}, {}", message.role(), told(*origin));
        writeln!(f, "{tokens:>6}  {}", self.paint(style(*kind), head))?;
        let mut pieces = pieces(message).into_iter();
        pieces.try_for_each(|piece| writeln!(f, "        | {}", on_a_line(&piece)))?;
        for note in notes {
            writeln!(f, "        {}", self.paint(RED, Shown(note)))?;
        }
        if index + 1 == cacheable {
            let mark = "--- cache mark: what stands above is sent again as it is";
            writeln!(f, "        {}", self.paint(GREEN, mark))?;
        }
        Ok(())
    }
}

impl fmt::Display for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let report = match self.of {
            Of::Prompt(prompt) => prompt.report(),
            Of::Report(report) => report,
        };
        let report = report.to_string();
        let mut lines = report.lines();
        writeln!(f, "{}", self.paint(BOLD, lines.next().unwrap_or_default()))?;
        match self.of {
            Of::Report(_) => lines.try_for_each(|line| self.told(f, line)),
            Of::Prompt(prompt) => rows(prompt).iter().try_for_each(|row| match row {
                Row::Message(line) => self.line(f, line, prompt.cacheable()),
                Row::Gap(text) => {
                    let text = format_args!("left out: {}", Shown(text));
                    writeln!(f, "        {}", self.paint(DIM, text))
                }
            }),
        }
    }
}

impl fmt::Debug for Outline<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outline").field("colors", &self.colors).finish_non_exhaustive()
    }
}

struct Painted<T> {
    style: Option<&'static str>,
    text: T,
}

impl<T: fmt::Display> fmt::Display for Painted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.style {
            Some(style) => write!(f, "\x1b[{style}m{}\x1b[0m", self.text),
            None => self.text.fmt(f),
        }
    }
}

fn style(kind: OriginKind) -> &'static str {
    match kind {
        OriginKind::System | OriginKind::Pin | OriginKind::Summary => "35",
        OriginKind::Question | OriginKind::Window => "34",
        OriginKind::Repair | OriginKind::Added => "33",
        OriginKind::Temporary | OriginKind::Recall => "36",
    }
}

fn on_a_line(piece: &Piece<'_>) -> String {
    match piece {
        Piece::Text(text) => Shown(text).to_string(),
        Piece::Described(what) => Shown(&format!("({what})")).to_string(),
        Piece::Thought(text) => format!("(thinks) {}", Shown(text)),
        Piece::Call(call) => format!("calls {} {}", Shown(&call.name), Shown(&call.arguments)),
    }
}

/// The beginning of a text, on one line and harmless.
struct Shown<'a>(&'a str);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use fmt::Write as _;
        let words = self.0.split_whitespace().enumerate();
        let mut characters = words.flat_map(|(i, word)| {
            let blank = if i == 0 { "" } else { " " };
            blank.chars().chain(word.chars())
        });
        characters.by_ref().take(MOST).try_for_each(|c| f.write_char(harmless(c)))?;
        match characters.next() {
            Some(_) => write!(f, " … ({} bytes)", self.0.len()),
            None => Ok(()),
        }
    }
}

/// Returns a symbol for a character that would affect the terminal; other characters unchanged.
fn harmless(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        c if c.is_control() || deceives(c) => '\u{fffd}',
        c => c,
    }
}
