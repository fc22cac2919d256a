//! The form of a record in a prompt, before it is cut.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum ClearedPart {
    Result,
    Media,
}

/// How a record is sent, as far as that is decided before truncation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Form {
    /// True if it is not cut, even if it is too long.
    pub(super) whole: bool,
    pub(super) cleared: Option<ClearedPart>,
}
