//! One opaque error type with a kind, an operation, and a cause.

use std::error::Error as StdError;
use std::fmt;
use std::time::SystemTime;

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
///
/// An error names its [kind](Self::kind), the [operation](Self::operation) that failed, and what
/// was wrong; the cause, if there is one, is its [`source`](StdError::source).
///
/// ```
/// use memory_prompt::{ErrorKind, Truncate};
///
/// let error = Truncate::chars(0).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.to_string(), "truncate: a limit of 0 would leave no text");
/// ```
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    operation: &'static str,
    message: String,
    source: Option<Box<dyn StdError + Send + Sync>>,
    remains: Option<Remains>,
    provider_message: Option<String>,
}

/// What a failed turn has left behind: see [`Error::remains`].
///
/// ```
/// use memory_prompt::conversation::{Conversation, Scripted};
/// use memory_prompt::error::Remains;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Tool};
///
/// let model = Scripted::new().fails("overloaded").calls("book", "{}").fails("overloaded").says("Yes.");
/// let conversation = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
///     .tool(Tool::new("book", "Books."), |()| Ok("ref 7XK"));
///
/// let error = conversation.say("Book it.").unwrap_err();
/// assert_eq!(error.remains(), Some(Remains::Nothing)); // ask again
/// let error = conversation.say("Book it.").unwrap_err();
/// assert_eq!(error.remains(), Some(Remains::Stored)); // it is booked: ask about it
/// assert_eq!(conversation.say("Did it work?")?.text(), "Yes.");
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Remains {
    /// Nothing is stored, and no tool ran that must not be repeated: ask the same question again.
    Nothing,
    /// A tool ran that must not be repeated, so the question, the calls and their results are
    /// stored. Asking again would store the question twice; ask another question, which continues
    /// from there.
    Stored,
    /// A tool may have run, and the turn is not stored, but its checkpoint was written. If other
    /// calls of it [wait](crate::MemoryPrompt::waiting) for a person, the turn continues once they
    /// are decided. Otherwise, if it is among the [unfinished](crate::MemoryPrompt::unfinished)
    /// turns, it can be [adopted](crate::MemoryPrompt::adopt) and continued; if not, it was stored
    /// after all.
    Unfinished,
    /// The outcome is unknown: whether the turn or its checkpoint was stored after all, or whether
    /// a tool ran over a memory without slots. The [unfinished](crate::MemoryPrompt::unfinished)
    /// turns and the end of the conversation show it, once the memory can be read.
    Unknown,
}

/// A provider's code for an error: one to 40 ASCII letters, digits, `_`, `.` and `-`. Anything
/// longer or with a space is a sentence, which may quote the request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code {
    letters: [u8; Self::LONGEST],
    length: usize,
}

impl Code {
    const LONGEST: usize = 40;

    /// Returns the code; `None` if the text is not one.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let is_letter = |c: u8| c.is_ascii_alphanumeric() || b"_.-".contains(&c);
        if word.is_empty() || !word.bytes().all(is_letter) {
            return None;
        }
        let mut letters = [0; Self::LONGEST];
        letters.get_mut(..word.len())?.copy_from_slice(word.as_bytes());
        Some(Self { letters, length: word.len() })
    }

    /// Returns the code as text.
    pub fn as_str(&self) -> &str {
        let letters = self.letters.get(..self.length).unwrap_or_default();
        std::str::from_utf8(letters).unwrap_or_default()
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl PartialEq<str> for Code {
    fn eq(&self, word: &str) -> bool {
        self.as_str() == word
    }
}

impl PartialEq<&str> for Code {
    fn eq(&self, word: &&str) -> bool {
        self.as_str() == *word
    }
}

/// The outcome of a call that another process or person has already decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decided {
    /// It was approved. It is running, or its outcome is not recorded yet.
    Approved,
    /// It was approved and has run: its result is known.
    Ran,
    /// It was refused, or closed without being run.
    Refused,
    /// It was approved, and its outcome is unknown.
    OutcomeUnknown,
    /// Its turn no longer exists: it was forgotten, or the conversation was cleared or evicted.
    Gone,
}

/// The kind of an [`Error`], for programs to act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An invalid value was given, for example a limit of 0. Nothing was changed.
    Invalid,
    /// With [`ToolGroups::FailOnRepair`](crate::window::ToolGroups::FailOnRepair): a tool call
    /// without its result, or a result without its call.
    ToolGroup,
    /// With a [`Provider`](crate::Provider) named: a message that the provider refuses and that
    /// can't be repaired, or must not be because of
    /// [`ToolGroups::FailOnRepair`](crate::window::ToolGroups::FailOnRepair).
    Provider,
    /// The truncation processor failed.
    Truncate,
    /// A token counter failed.
    Count,
    /// The least that must be sent is larger than the token budget.
    Budget {
        /// The tokens that must be sent.
        needed: usize,
        /// The tokens that are available.
        budget: usize,
    },
    /// The conversation ends elsewhere than the caller expected: others have appended, or it was
    /// deleted.
    Conflict {
        /// The position at which the caller expected to append.
        expected: u64,
        /// The position at which the conversation ends.
        actual: u64,
    },
    /// Bytes that can't be read, or a message that can't be written, in the format in question.
    Codec,
    /// A provider answered with an error instead of a message, or stopped an answer before anything
    /// was said. The details are in the body, which the caller has: they may quote the request.
    Refused {
        /// The provider's code: `overloaded_error`, `SAFETY`.
        code: Option<Code>,
        /// The HTTP status in the body, not that of the response, which only a transport knows; a
        /// transport puts that here.
        status: Option<u16>,
        /// True if the same request may succeed later: the provider is overloaded or failed, a rate
        /// limit is reached, or the model wrote a call that could not be parsed.
        retryable: bool,
    },
    /// An incomplete answer: it is still queued or being written, or its stream ended before the
    /// provider said why it stops. A stream's `broken` returns what can be kept.
    Unfinished,
    /// A model's server could not be reached, or nothing of an answer arrived: the connection
    /// broke, or the time was up.
    Unanswered {
        /// True if the server may have received the request: then it may have answered it, and
        /// charged for it.
        sent: bool,
    },
    /// A slot is not as the caller expected: it has another version, it exists already, or it does
    /// not exist. Nothing was changed.
    SlotConflict,
    /// The conversation that the caller has seen no longer exists: it was deleted, or what was seen
    /// of it was cleared or evicted. Nothing was changed.
    Forgotten,
    /// A model failed; the cause is its error.
    Model,
    /// This [`Conversation`](crate::conversation::Conversation) is already answering another
    /// question or another request with the same [id](crate::Turn::with_id), or it is running
    /// another call of the turn whose call was decided. Nothing was changed.
    Busy {
        /// The time when the other turn was written to its slot, if it was.
        since: Option<SystemTime>,
    },
    /// Another owner has [adopted](crate::MemoryPrompt::adopt) the turn, and has not ended it yet.
    /// Nothing was changed.
    Adopted,
    /// The call no longer waits for approval: this was already decided elsewhere. Nothing was
    /// changed.
    Decided(Decided),
    /// A conversation under this id exists already. Nothing was changed.
    Exists,
    /// The wire format can't express it, or the memory or store does not support it; the error then
    /// names the method to implement. Nothing was changed.
    Unsupported,
    /// The memory's storage failed, or could not be reached. The operation changed nothing, unless
    /// its own documentation says otherwise.
    Storage,
    /// The connection broke, or the time was up, after a change had been sent and before its answer
    /// came. The change is made whole or not at all; its outcome is unknown.
    ///
    /// To append exactly once, give the append an [id](crate::memory::Append::with_id) and repeat
    /// it: if it was made, it is not made again. An expected position is a weaker guard: a
    /// [`Conflict`](Self::Conflict) may come from another writer's append.
    Unacknowledged,
}

impl Error {
    /// Creates an error of this kind in this operation. The message is lower-case and has no full
    /// stop.
    ///
    /// For implementers of [`ChatMemory`](crate::ChatMemory) and
    /// [`TruncateProcessor`](crate::truncate::TruncateProcessor).
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            kind,
            operation,
            message: message.into(),
            source: None,
            remains: None,
            provider_message: None,
        }))
    }

    /// Adds the cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Returns the same error, with its cause, in other words.
    pub(crate) fn reworded(mut self, operation: &'static str, message: String) -> Self {
        (self.0.operation, self.0.message) = (operation, message);
        self
    }

    pub(crate) fn invalid(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, operation, message)
    }

    /// Returns the text of this error for a field of something larger that was read.
    pub(crate) fn in_field(&self, field: &str) -> String {
        format!("{}: `{field}`: {}", self.0.operation, self.0.message)
    }

    /// Returns the same error with what is left of the turn that failed with it.
    pub(crate) fn with_remains(mut self, remains: Option<Remains>) -> Self {
        self.0.remains = remains;
        self
    }

    /// Returns what a failed turn has left behind, if a [`Conversation`](crate::Conversation) was
    /// asked a question and failed with this error; `None` for all other errors. A turn that was
    /// [run](crate::Conversation::run) is still the caller's, who can run it again.
    pub fn remains(&self) -> Option<Remains> {
        self.0.remains
    }

    pub(crate) fn with_provider_message(mut self, message: Option<&str>) -> Self {
        self.0.provider_message = message.map(str::to_owned);
        self
    }

    /// Returns the provider's own text of an error that it [returned](ErrorKind::Refused), if there
    /// is one.
    ///
    /// It may quote the request: messages, names, keys. So it is in no `Display`, no `Debug` and no
    /// span; decide yourself whether to log it.
    pub fn provider_message(&self) -> Option<&str> {
        self.0.provider_message.as_deref()
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the HTTP status with which a service should answer if its request failed with this
    /// error.
    ///
    /// | status | kinds |
    /// |---|---|
    /// | 400 | `Invalid`: the request is invalid; `Provider`: its provider refuses what it says |
    /// | 409 | `Conflict`, `SlotConflict`, `Forgotten`, `Exists`: reload the page |
    /// | 409 | `Busy`, `Adopted`, `Decided`: it is being done, or was done, elsewhere |
    /// | 413 | `Budget`: the question is too large, or what the tools of its turn returned |
    /// | 502 | `Model`, `Codec`, `Refused` unless retryable |
    /// | 503 | `Refused` if retryable, `Storage`, `Unacknowledged` |
    /// | 504 | `Unanswered`, `Unfinished`: the model took too long, or its answer broke off |
    /// | 500 | all others: the service is configured wrongly |
    ///
    /// With [`Display`](fmt::Display), which quotes no message, it is a complete response; the
    /// text may name the id of the conversation. The provider's own status is in
    /// [`Refused`](ErrorKind::Refused).
    ///
    /// ```
    /// use memory_prompt::conversation::{Conversation, Scripted};
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt};
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
    /// let conversation = Conversation::new(prompt, Scripted::new().fails("overloaded"));
    /// let error = conversation.say("Hi.").unwrap_err();
    /// assert_eq!((error.http_status(), error.to_string()), (502, "say: the model failed".into()));
    /// ```
    pub fn http_status(&self) -> u16 {
        use ErrorKind as Kind;
        match self.0.kind {
            Kind::Invalid | Kind::Provider => 400,
            // Another request was faster.
            Kind::Conflict { .. }
            | Kind::SlotConflict
            | Kind::Forgotten
            | Kind::Busy { .. }
            | Kind::Adopted
            | Kind::Decided(_)
            | Kind::Exists => 409,
            Kind::Budget { .. } => 413,
            Kind::ToolGroup | Kind::Truncate | Kind::Count | Kind::Unsupported => 500,
            Kind::Model | Kind::Codec | Kind::Refused { retryable: false, .. } => 502,
            Kind::Refused { .. } | Kind::Storage | Kind::Unacknowledged => 503,
            Kind::Unanswered { .. } | Kind::Unfinished => 504,
        }
    }

    /// Returns the operation that failed, for example `append`.
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.0.operation, self.0.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Error");
        out.field("kind", &self.0.kind)
            .field("operation", &self.0.operation)
            .field("message", &self.0.message);
        if let Some(remains) = &self.0.remains {
            out.field("remains", remains);
        }
        if let Some(source) = &self.0.source {
            out.field("source", source);
        }
        out.finish()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0.source.as_deref().map(|source| source as &(dyn StdError + 'static))
    }
}
