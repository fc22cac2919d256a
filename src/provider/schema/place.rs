//! The place of a schema in the parameters of a tool, for errors.

use std::fmt::{self, Display};

/// The path to a schema: the properties and keywords that lead to it, the last one first.
#[derive(Clone, Copy)]
pub(super) enum SchemaPath<'a> {
    Root,
    In(&'a Self, &'a str),
}

impl SchemaPath<'_> {
    /// Returns the text of an error, with this place in front.
    pub(super) fn refused(&self, why: impl Display) -> String {
        match self {
            Self::Root => format!("tools: {why}"),
            Self::In(..) => format!("tools: at `{self}`: {why}"),
        }
    }
}

impl Display for SchemaPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => Ok(()),
            Self::In(Self::Root, name) => f.write_str(name),
            Self::In(outer, name) => write!(f, "{outer}.{name}"),
        }
    }
}
