//! Measuring and cutting text without breaking a character.
#![allow(missing_docs)]
use std::{borrow::Cow, num::NonZeroUsize};
use unicode_segmentation::UnicodeSegmentation as U;
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Unit {
    #[default]
    Graphemes,
    Scalars,
    Utf16,
    Bytes,
}
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    #[default]
    Head,
    Tail,
    Ends,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    limit: NonZeroUsize,
    unit: Unit,
    keep: Keep,
    marker: String,
}
#[derive(Debug)]
pub struct Plan {
    piece: usize,
    byte: usize,
}
impl Cut {
    pub const fn new(limit: NonZeroUsize, unit: Unit) -> Self {
        Self { limit, unit, keep: Keep::Head, marker: String::new() }
    }
    pub fn keep(mut self, keep: Keep) -> Self {
        self.keep = keep;
        self
    }
    pub fn marker(mut self, marker: impl Into<String>) -> Self {
        self.marker = marker.into();
        self
    }
    pub fn limit(&self) -> NonZeroUsize {
        self.limit
    }
    pub fn unit(&self) -> Unit {
        self.unit
    }
    pub fn plan(&self, pieces: &[&str]) -> Option<Plan> {
        let mut left = self.limit.get();
        for (i, p) in pieces.iter().enumerate() {
            for (b, _) in U::grapheme_indices(*p, true) {
                if left == 0 {
                    return Some(Plan { piece: i, byte: b });
                }
                left -= 1;
            }
        }
        None
    }
}
impl Plan {
    pub fn piece<'a>(&self, i: usize, text: &'a str) -> Option<Cow<'a, str>> {
        if i < self.piece {
            Some(text.into())
        } else if i == self.piece && self.byte > 0 {
            Some(text[..self.byte].into())
        } else {
            None
        }
    }
}
impl Cut {
    pub fn limited(mut self, limit: NonZeroUsize) -> Self {
        self.limit = limit;
        self
    }
}
