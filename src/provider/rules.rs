//! The rules of each provider, as plain data.

/// The rules of a provider, beside the one that all have: calls and results belong together.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule by itself")]
pub(crate) struct Rules {
    /// The beginning that a prompt needs.
    pub(crate) opens: Opens,
    /// The texts that count as blank and are refused; `None` where any text is taken.
    pub(crate) blank: Option<Blank>,
    /// True where user and model take turns: no two neighbours of one side, no user behind a tool
    /// result.
    pub(crate) takes_turns: bool,
    /// True where an answer may end in reasoning, with nothing said or called behind it.
    pub(crate) ends_in_reasoning: bool,
    /// The form of call ids.
    pub(crate) ids: Ids,
    /// True where neighbouring answers with calls are one answer with all their calls.
    pub(crate) joins_calls: bool,
    /// True where a system message may stand among the others.
    pub(crate) late_system: bool,
}

/// The beginning that a prompt needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opens {
    /// Anything, even nothing.
    Freely,
    /// Anything, a system message for one.
    WithAny,
    /// Any message beside the system message.
    WithMessage,
    /// The user's message, behind the system message.
    WithUser,
}

/// The texts that count as blank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blank {
    /// The empty text.
    Empty,
    /// White space too.
    White,
}

/// The form of call ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    /// Whatever they are.
    Any,
    /// Not empty, and distinct within one message.
    DistinctInMessage,
    /// Not empty, and distinct in the whole prompt.
    Distinct,
    /// Nine letters or digits, and distinct within one message.
    Nine,
}

pub(super) const OPENAI: Rules = Rules {
    opens: Opens::WithAny,
    blank: None,
    takes_turns: false,
    ends_in_reasoning: true,
    ids: Ids::DistinctInMessage,
    joins_calls: false,
    late_system: true,
};

pub(super) const RESPONSES: Rules = Rules {
    opens: Opens::WithMessage,
    blank: None,
    takes_turns: false,
    ends_in_reasoning: false,
    ids: Ids::Distinct,
    joins_calls: false,
    late_system: true,
};

pub(super) const ANTHROPIC: Rules = Rules {
    opens: Opens::WithUser,
    blank: Some(Blank::White),
    takes_turns: false, // neighbours of one side are joined by the provider
    ends_in_reasoning: false,
    ids: Ids::Distinct,
    joins_calls: true,
    late_system: false,
};

/// A call must follow a user's entry. Since answers in a row are one entry, and a call may still
/// come to the one at the front, that one always gets a user message.
pub(super) const GEMINI: Rules = Rules {
    opens: Opens::WithUser,
    blank: Some(Blank::Empty),
    takes_turns: false,
    ends_in_reasoning: true,
    ids: Ids::Any,
    joins_calls: true,
    late_system: false,
};

pub(super) const MISTRAL: Rules = Rules {
    opens: Opens::WithUser,
    blank: Some(Blank::Empty),
    takes_turns: true,
    ends_in_reasoning: true,
    ids: Ids::Nine,
    joins_calls: false,
    late_system: false,
};

pub(super) const OLLAMA: Rules = Rules {
    opens: Opens::Freely,
    blank: None,
    takes_turns: false,
    ends_in_reasoning: true,
    ids: Ids::Any,
    joins_calls: false,
    late_system: true,
};
