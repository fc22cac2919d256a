//! The form of a record in a prompt, before it is cut.

/// The part of a message that is cleared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClearedPart {
    Result,
    Media,
}

/// The part of a record's form that is decided before truncation: whether it is spared, and what of
/// it is cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Form {
    /// True if it is not cut, though others of its length are.
    pub(super) whole: bool,
    /// The part of it that is cleared.
    pub(super) cleared: Option<ClearedPart>,
}
