//! Splits the bytes of a streamed body into texts, without I/O.

use std::fmt;

use super::json::{is_json, without_mark};
use crate::error::{Error, ErrorKind, Result};
use crate::provider::{Format, Provider};

/// Splits the bytes of a streamed body into the texts that a `Stream` takes, however the network
/// has split them.
///
/// [`sse`](Self::sse) reads server-sent events (all formats except Ollama's),
/// [`lines`](Self::lines) one JSON value per line. It does no I/O: pass it the bytes as they
/// arrive.
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
/// # What is parsed
///
/// Of server-sent events, only the data. Comments, which some servers send to keep a connection
/// alive, `event`, `id` and `retry` are ignored (in every format, the data say what an event is).
/// Lines end in LF, CR or both; the space after `data:` may be missing; several `data` lines are
/// one text of several lines; a byte order mark at the beginning is ignored. JSON without `data:`
/// is returned too: it is an error instead of events, or an answer that is not streamed.
pub struct Frames {
    is_sse: bool,
    limit: usize,
    /// The bytes that have arrived and are not split yet.
    bytes: Vec<u8>,
    /// How many of them are known to contain no line end.
    searched: usize,
    line: Line,
    /// The data lines of the current event.
    data: Option<String>,
    /// True if the body is one JSON document of several lines.
    is_document: bool,
    /// True once a line of an event has come: no document begins after it.
    has_begun: bool,
}

/// What came before the next line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Nothing at all.
    First,
    Next,
    /// A CR that ended a line, so that a following LF is not a line of its own.
    AfterCr,
    /// The beginning of a line that is too long.
    Skipped,
}

/// The default limit of a text: 64 MiB, more than a picture.
const LIMIT: usize = 64 << 20;

/// The longest prefix of a line's data: a byte order mark, `data:` and a space.
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
            has_begun: false,
        }
    }

    /// Reads one JSON value per line; empty lines are ignored.
    pub fn lines() -> Self {
        Self { is_sse: false, ..Self::sse() }
    }

    /// Reads the stream of this provider: lines for Ollama's format, events for all others.
    pub fn of(provider: Provider) -> Self {
        if provider.format() == Format::Ollama { Self::lines() } else { Self::sse() }
    }

    /// Sets the most bytes of one text. The default is 64 MiB.
    #[must_use]
    pub fn with_limit(mut self, bytes: usize) -> Self {
        self.limit = bytes;
        self
    }

    /// Takes the next bytes of the body, and returns an iterator over the texts that are complete
    /// now. Texts that are not taken from it are returned the next time.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`], for a text that is longer than the limit. That text is lost, and the
    /// next ones can be read.
    pub fn push(&mut self, bytes: &[u8]) -> Texts<'_> {
        self.bytes.extend_from_slice(bytes);
        Texts { frames: self, at: 0 }
    }

    /// Returns the text after the last line end, when no more bytes come; `None` if there is none,
    /// or only a part of one: if the body broke off, it is not JSON.
    ///
    /// # Errors
    ///
    /// Same as [`push`](Self::push).
    pub fn finish(mut self) -> Result<Option<String>> {
        let rest = std::mem::take(&mut self.bytes);
        let last = if self.line == Line::Skipped { None } else { self.line(&rest)? };
        Ok(last.or(self.data).filter(|text| text.trim() == "[DONE]" || is_json(text.as_bytes())))
    }

    /// Takes a line without its end; returns the text that it completes.
    fn line(&mut self, line: &[u8]) -> Result<Option<String>> {
        let line = if self.line == Line::First { without_mark(line) } else { line };
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
                if is_json(json.as_bytes()) {
                    return Ok(Some(json));
                }
                self.is_document = !self.has_begun;
                if self.is_document { self.add(line) } else { Ok(None) }
            }
            b"data" => self.add(b""),
            _ => match line.strip_prefix(b"data:") {
                Some(data) => self.add(data.strip_prefix(b" ").unwrap_or(data)),
                None => Ok(None),
            },
        }
    }

    fn add(&mut self, line: &[u8]) -> Result<Option<String>> {
        self.has_begun = true;
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
    /// Shows how much is waiting, not its content, which is for the reader alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frames")
            .field("is_sse", &self.is_sse)
            .field("waiting", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

/// The texts that became complete with the last bytes, from [`Frames::push`].
#[derive(Debug)]
#[must_use = "what is not taken waits for the next `push`"]
pub struct Texts<'a> {
    frames: &'a mut Frames,
    /// The number of bytes taken.
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

/// Returns the text. A byte that is not UTF-8 costs one character, not the answer.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn too_long(limit: usize) -> Error {
    Error::new(ErrorKind::Codec, READ, format!("a text of more than {limit} bytes"))
}
