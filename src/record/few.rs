//! A list that needs no allocation for its first element.

use std::iter::Chain;
use std::{option, slice, vec};

/// Nearly always one element or two: the newest records lie in one block, a prompt is a system message
/// and a stretch of them.
#[derive(Clone)]
pub(crate) struct Few<T> {
    /// `None` where the list is empty.
    first: Option<T>,
    rest: Vec<T>,
}

impl<T> Few<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn push(&mut self, element: T) {
        match self.first {
            None => self.first = Some(element),
            Some(_) => self.rest.push(element),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<T> {
        self.rest.pop().or_else(|| self.first.take())
    }

    pub(crate) fn first(&self) -> Option<&T> {
        self.first.as_ref()
    }

    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        self.rest.last_mut().or(self.first.as_mut())
    }

    /// All but the first.
    pub(crate) fn rest(&self) -> slice::Iter<'_, T> {
        self.rest.iter()
    }

    pub(crate) fn iter(&self) -> Chain<option::Iter<'_, T>, slice::Iter<'_, T>> {
        self.first.iter().chain(&self.rest)
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, rest: Vec::new() }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = Chain<option::IntoIter<T>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.rest)
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements = elements.into_iter();
        Self { first: elements.next(), rest: elements.collect() }
    }
}
