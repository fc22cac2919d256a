//! The bytes of a streamed body as the texts that stand in it, without I/O.

use std::fmt;

use serde::de::IgnoredAny;

use crate::error::{Error, ErrorKind, Result};
use crate::provider::{Format, Provider};

/// Cuts the bytes of a streamed body into the texts that a `Stream` takes, wherever the network has
/// cut them.
///
/// [`sse`](Self::sse) reads server-sent events (all formats but Ollama's), [`lines`](Self::lines)
/// one JSON value a line. It does no I/O: bytes are handed in as they come.
///
/// ```
/// use memory_prompt::wire::Frames;
///
/// let mut frames = Frames::sse();
/// let mut data = Vec::new();
/// for bytes in [&b": keep-alive\r\n\r\nevent: ping\nda"[..], b"ta: {\"a\":1}\r", b"\n\r\ndata:[DONE]"] {
///     for text in frames.push(bytes) {
///         data.push(text?);
///     }
/// }
/// data.extend(frames.finish()?);
/// assert_eq!(data, [r#"{"a":1}"#, "[DONE]"]);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
///
/// # What is understood
///
/// Of server-sent events the data alone: comments, which some servers send to keep a connection
/// alive, `event`, `id` and `retry` are passed over (what an event is, its data says in every
/// format). Lines end in LF, CR or both; the blank behind `data:` may be missing; several `data`
/// lines are one text of several lines; a byte order mark at the beginning is passed over. JSON
/// that stands there without `data:` is handed over too: it is an error that came in place of
/// events, or an answer in one piece.
pub struct Frames {
    is_sse: bool,
    limit: usize,
    /// The bytes that have come and were not cut yet.
    bytes: Vec<u8>,
    /// So many of them are known to hold no line end.
    searched: usize,
    line: Line,
    /// The lines of the text that is coming.
    data: Option<String>,
    /// True if the body is one JSON document of several lines.
    is_document: bool,
}

/// The bytes before the next line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Nothing at all.
    First,
    Next,
    /// The end of a line in CR, so that LF is not a line of its own.
    AfterCr,
    /// The beginning of a line that is too long.
    Skipped,
}

/// The longest text where no other limit is set: 64 MiB, more than a picture.
const LIMIT: usize = 64 << 20;

/// The length of all that may stand in front of a line's data: a byte order mark, `data:` and a
/// blank.
const FIELD: usize = 9;

const READ: &str = "read a streamed body";

impl Frames {
    /// Reads server-sent events.
    pub fn sse() -> Self {
        Self {
            is_sse: true,
            limit: LIMIT,
            bytes: Vec::new(),
            searched: 0,
            line: Line::First,
            data: None,
            is_document: false,
        }
    }

    /// Reads lines, each of them a JSON value; empty ones are passed over.
    pub fn lines() -> Self {
        Self { is_sse: false, ..Self::sse() }
    }

    /// Reads what this provider streams: lines for Ollama's format, events for all others.
    pub fn of(provider: Provider) -> Self {
        if provider.format() == Format::Ollama { Self::lines() } else { Self::sse() }
    }

    /// The same, where no text may be longer than so many bytes; without this, 64 MiB.
    #[must_use]
    pub fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Takes the next bytes of the body, and returns the texts that are whole by now. What is not
    /// taken from it is there the next time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`], for one that
    /// is longer than the limit. The text is gone then, and the next ones can be read.
    pub fn push(&mut self, bytes: &[u8]) -> Texts<'_> {
        self.bytes.extend_from_slice(bytes);
        Texts { frames: self, at: 0 }
    }

    /// The text behind the last line end, when no more bytes come; `None` if there is none, or
    /// only half of one: where the body broke off, it is no JSON.
    ///
    /// # Errors
    ///
    /// As for [`push`](Self::push).
    pub fn finish(mut self) -> Result<Option<String>> {
        let rest = std::mem::take(&mut self.bytes);
        let last = if self.line == Line::Skipped { None } else { self.line(&rest)? };
        Ok(last.or(self.data).filter(|text| text.trim() == "[DONE]" || is_json(text)))
    }

    /// Takes a line without its end; returns the text that it completes.
    fn line(&mut self, line: &[u8]) -> Result<Option<String>> {
        let mark: &[u8] = if self.line == Line::First { b"\xEF\xBB\xBF" } else { b"" };
        let line = line.strip_prefix(mark).unwrap_or(line);
        if self.is_document {
            return self.add(line);
        }
        if !self.is_sse {
            return Ok(Some(text(line)).filter(|line| !line.trim().is_empty()));
        }
        match line {
            [] => Ok(self.data.take()),
            _ if self.data.is_none() && matches!(line.trim_ascii_start(), [b'{' | b'[', ..]) => {
                let json = text(line);
                if is_json(&json) {
                    return Ok(Some(json));
                }
                self.is_document = true;
                self.add(line)
            }
            b"data" => self.add(b""),
            _ => match line.strip_prefix(b"data:") {
                Some(data) => self.add(data.strip_prefix(b" ").unwrap_or(data)),
                None => Ok(None),
            },
        }
    }

    /// Adds a line to the text that is coming.
    fn add(&mut self, line: &[u8]) -> Result<Option<String>> {
        let before = self.data.take();
        let line = text(line);
        if before.as_ref().map_or(0, String::len) + line.len() > self.limit {
            return Err(too_long(self.limit));
        }
        self.data = Some(match before {
            Some(before) => before + "\n" + &line,
            None => line,
        });
        Ok(None)
    }
}

impl fmt::Debug for Frames {
    /// Says how much waits: what it says is for its reader alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames")
            .field("is_sse", &self.is_sse)
            .field("waiting", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// The texts that became whole with the last bytes. Made by [`Frames::push`].
#[derive(Debug)]
#[must_use = "what is not taken waits for the next `push`"]
pub struct Texts<'a> {
    frames: &'a mut Frames,
    /// So many bytes were taken.
    at: usize,
}

impl Iterator for Texts<'_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        loop {
            let frames = &mut *self.frames;
            if frames.line == Line::AfterCr && self.at < frames.bytes.len() {
                self.at += usize::from(frames.bytes[self.at] == b'\n');
                frames.line = Line::Next;
            }
            let rest = frames.bytes.get(self.at..)?;
            let known = frames.searched.min(rest.len());
            let longest = frames.limit.saturating_add(FIELD);
            let end = rest[known..].iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let Some(end) = end.map(|end| known + end) else {
                frames.searched = rest.len();
                if rest.len() <= longest {
                    return None;
                }
                self.at = frames.bytes.len();
                frames.searched = 0;
                let is_told = std::mem::replace(&mut frames.line, Line::Skipped) == Line::Skipped;
                return (!is_told).then(|| Err(too_long(frames.limit)));
            };
            let next = if rest[end] == b'\r' { Line::AfterCr } else { Line::Next };
            let line = self.at..self.at + end;
            self.at = line.end + 1;
            frames.searched = 0;
            let taken = if frames.line == Line::Skipped {
                Ok(None)
            } else if end > longest {
                Err(too_long(frames.limit))
            } else {
                let bytes = std::mem::take(&mut frames.bytes);
                let taken = frames.line(&bytes[line]);
                frames.bytes = bytes;
                taken
            };
            frames.line = next;
            if let Some(taken) = taken.transpose() {
                return Some(taken);
            }
        }
    }
}

impl Drop for Texts<'_> {
    fn drop(&mut self) {
        self.frames.bytes.drain(..self.at);
    }
}

/// Returns the text: a byte that is no UTF-8 costs one character, not the answer.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<IgnoredAny>(text).is_ok()
}

fn too_long(limit: usize) -> Error {
    Error::new(ErrorKind::Codec, READ, format!("a text of more than {limit} bytes"))
}
