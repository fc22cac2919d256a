//! One opaque error: what kind, which operation, and the cause.

use std::error::Error as StdError;
use std::fmt;
use std::time::SystemTime;

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An error of this crate.
///
/// An error names its [kind](Self::kind), the [operation](Self::operation) that failed and what
/// about it was wrong; the cause, where there is one, is its [`source`](StdError::source).
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

/// The rest of a turn that failed: [`Error::remains`].
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
    /// Nothing is stored, and no tool has run that is not repeatable: the same question can be
    /// asked again.
    Nothing,
    /// A tool has run that is not repeatable, so the question, the calls and their results are
    /// stored. To ask again stores the question twice; another question goes on from there.
    Stored,
    /// A tool may have run, and the turn is not stored, but its slot was written. Where other calls
    /// of it [wait](crate::MemoryPrompt::waiting) for a person, it goes on once they are decided.
    /// Else, where it is among the [unfinished](crate::MemoryPrompt::unfinished) ones, it can be
    /// [adopted](crate::MemoryPrompt::adopt) and run on; where it is not, it was stored after all.
    Unfinished,
    /// Nobody knows: whether the turn or its slot was stored after all, or what became of a tool
    /// over a memory that keeps no slot of it. The
    /// [unfinished](crate::MemoryPrompt::unfinished) turns and the end of the conversation tell,
    /// once the memory can be read.
    Unknown,
}

/// A provider's word for an error: one to 40 ASCII letters, digits, `_`, `.` and `-`. What is
/// longer or holds a blank is a sentence, which may quote what the provider was sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code {
    letters: [u8; Self::LONGEST],
    length: usize,
}

impl Code {
    const LONGEST: usize = 40;

    /// Returns the word; `None` if it is none.
    pub(crate) fn of(word: &str) -> Option<Self> {
        let is_letter = |c: u8| c.is_ascii_alphanumeric() || b"_.-".contains(&c);
        if word.is_empty() || !word.bytes().all(is_letter) {
            return None;
        }
        let mut letters = [0; Self::LONGEST];
        letters.get_mut(..word.len())?.copy_from_slice(word.as_bytes());
        Some(Self { letters, length: word.len() })
    }

    /// Returns the word.
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

/// What came of a call on which somebody else has decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decided {
    /// It was approved. It runs, or nobody has said yet what came of it.
    Approved,
    /// It was approved and has run: its result is known.
    Ran,
    /// It was refused, or closed without being run.
    Refused,
    /// It was approved, and its outcome is not known.
    OutcomeUnknown,
    /// Its turn is no more there: it was forgotten, or the conversation was cleared or evicted.
    Gone,
}

/// The kind of an [`Error`]: what a program can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A value that makes no sense was given, for example a limit of 0. Nothing was changed.
    Invalid,
    /// With [`ToolGroups::FailOnRepair`](crate::window::ToolGroups::FailOnRepair): a tool call
    /// without its result, or a result without its call.
    ToolGroup,
    /// With a [`Provider`](crate::Provider) named: a message that it refuses and that can't be
    /// repaired, or with [`ToolGroups::FailOnRepair`](crate::window::ToolGroups::FailOnRepair) may
    /// not be.
    Provider,
    /// The truncation processor failed.
    Truncate,
    /// A token counter failed.
    Count,
    /// The least that must be sent is larger than the token budget.
    Budget {
        /// The tokens that must be sent.
        needed: usize,
        /// The tokens that there are.
        budget: usize,
    },
    /// The conversation ends elsewhere than the caller expected: others have appended, or it was
    /// deleted.
    Conflict {
        /// The position at which the caller expected to append.
        expected: u64,
        /// The position at which the conversation stands.
        actual: u64,
    },
    /// Bytes that can't be read, or a message that can't be written, in the format in question.
    Codec,
    /// A provider answered an error in place of a message, or stopped an answer before anything was
    /// said. What it says about it is in the body that the caller has: it may quote the request.
    Refused {
        /// The provider's word for it: `overloaded_error`, `SAFETY`.
        code: Option<Code>,
        /// The HTTP status that the body names, whatever the response itself had: only a transport
        /// knows that, and says it here.
        status: Option<u16>,
        /// True if the same request may be answered later: the provider is overloaded or failed,
        /// a limit of the rate is reached, the model wrote a call that could not be read.
        retryable: bool,
    },
    /// An answer that is not whole: one that is still queued or being written, or a stream that
    /// ended before the provider said why it stops. What can be kept of a stream is what its
    /// `broken` gives.
    Unfinished,
    /// A model's server could not be reached, or nothing of an answer came: the connection broke,
    /// or the time was up.
    Unanswered {
        /// True if the server may have had the request: then it may have answered it, and
        /// charged for it.
        sent: bool,
    },
    /// A slot is not what the caller expected: of another version, there or not there. Nothing was
    /// changed.
    SlotConflict,
    /// The conversation that the caller has seen is no more: it was deleted, or what was seen of it
    /// was cleared or evicted. Nothing was changed.
    Forgotten,
    /// A model failed: the cause is what it said.
    Model,
    /// Another question of this [`Conversation`](crate::conversation::Conversation) is being
    /// answered, or another request of the same [id](crate::Turn::with_id), or another call of the
    /// turn is being run whose call is decided on. Nothing was changed.
    Busy {
        /// The time when the other turn was written to its slot, where it was.
        since: Option<SystemTime>,
    },
    /// Somebody else has [adopted](crate::MemoryPrompt::adopt) the turn, and has not ended it yet.
    /// Nothing was changed.
    Adopted,
    /// The call waits for approval no more: somebody else has decided, so. Nothing was changed.
    Decided(Decided),
    /// There is such a conversation already. Nothing was changed.
    Exists,
    /// The wire format in question can't express it, or the memory or store does not do it; the
    /// error then names the method that is to be written for it. Nothing was changed.
    Unsupported,
    /// The place where the memory is kept failed, or could not be reached. The operation changed
    /// nothing, unless its own documentation says otherwise.
    Storage,
    /// The connection broke, or the time was up, after a change had been sent and before the answer
    /// came: the change is done whole or not at all, and nobody here knows which.
    ///
    /// To append once and once only, give the append an
    /// [id](crate::memory::Append::with_id) and repeat it: what was done is not done again. A
    /// position that is expected is less: a [`Conflict`](Self::Conflict) may come from an append of
    /// somebody else.
    Unacknowledged,
}

impl Error {
    /// Returns an error of this kind in this operation. The message is lower-case and has no full
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

    /// Returns the same error with its cause.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    pub(crate) fn invalid(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, operation, message)
    }

    /// Returns the words of the same error if it is about a field of something that was read.
    pub(crate) fn in_field(&self, field: &str) -> String {
        format!("{}: `{field}`: {}", self.0.operation, self.0.message)
    }

    /// Returns the same error with what is left of the turn that failed with it.
    pub(crate) fn with_remains(mut self, remains: Option<Remains>) -> Self {
        self.0.remains = remains;
        self
    }

    /// Returns what is left of the turn, where a [`Conversation`](crate::Conversation) was asked a
    /// question and failed with this error; `None` for all other errors. A turn that was
    /// [run](crate::Conversation::run) is with its caller, who can run it again.
    pub fn remains(&self) -> Option<Remains> {
        self.0.remains
    }

    /// Returns the same error with the words of the provider.
    pub(crate) fn with_provider_message(mut self, message: Option<&str>) -> Self {
        self.0.provider_message = message.map(str::to_owned);
        self
    }

    /// Returns what the provider says about an error that it [answered](ErrorKind::Refused), in its
    /// own words, where it says something.
    ///
    /// It may quote what it was sent: messages, names, keys. So it stands in no `Display`, no
    /// `Debug` and no span, and whoever writes it to a log decides that.
    pub fn provider_message(&self) -> Option<&str> {
        self.0.provider_message.as_deref()
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the HTTP status with which a service answers whose request failed so.
    ///
    /// | status | kinds |
    /// |---|---|
    /// | 400 | `Invalid`: what was asked makes no sense |
    /// | 409 | `Conflict`, `SlotConflict`, `Forgotten`, `Exists`: load the page anew |
    /// | 409 | `Busy`, `Adopted`, `Decided`: somebody else does it, or has done it |
    /// | 413 | `Budget`: the question is too large |
    /// | 502 | `Model`, `Codec`, `Refused` unless it may be answered later |
    /// | 503 | `Refused` that may be answered later, `Storage`, `Unacknowledged` |
    /// | 504 | `Unanswered`, `Unfinished`: the model took too long, or its answer broke off |
    /// | 500 | all others: the service is set up wrongly |
    ///
    /// With [`Display`](fmt::Display), which quotes no message and names no conversation, it is a
    /// whole answer. The status that the provider itself gave is in
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
        use ErrorKind as Why;
        match self.0.kind {
            Why::Invalid => 400,
            Why::Budget { .. } => 413,
            Why::Model | Why::Codec | Why::Refused { retryable: false, .. } => 502,
            Why::Refused { .. } | Why::Storage | Why::Unacknowledged => 503,
            Why::Unanswered { .. } | Why::Unfinished => 504,
            Why::ToolGroup | Why::Provider | Why::Truncate | Why::Count | Why::Unsupported => 500,
            _ => 409, // somebody else was faster
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
