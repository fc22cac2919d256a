//! A list that is mostly empty.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::{Serialize, Serializer};

/// A list that is mostly empty, and is one empty pointer then. It is read as a slice.
///
/// A [`Report`](crate::Report) has sixteen of them: with sixteen `Vec`s, to make a prompt of ten
/// messages and to drop it took 3 % longer.
#[expect(clippy::box_collection, reason = "a Box alone is one word where the list is empty")]
pub struct List<T>(Option<Box<Vec<T>>>);

impl<T> List<T> {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Returns the elements, in order.
    #[inline]
    pub fn as_slice(&self) -> &[T] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns the list to be filled; from here on it is no empty pointer any more.
    pub(crate) fn vec_mut(&mut self) -> &mut Vec<T> {
        self.0.get_or_insert_default()
    }

    pub(crate) fn push(&mut self, element: T) {
        self.vec_mut().push(element);
    }

    pub(crate) fn retain(&mut self, wanted: impl FnMut(&T) -> bool) {
        if let Some(list) = &mut self.0 {
            list.retain(wanted);
        }
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.as_slice()
    }
}

impl<T> DerefMut for List<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.0.as_deref_mut().map_or(&mut [], Vec::as_mut_slice)
    }
}

impl<T> AsRef<[T]> for List<T> {
    fn as_ref(&self) -> &[T] {
        self
    }
}

impl<T> Default for List<T> {
    #[inline]
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Clone> Clone for List<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Extend<T> for List<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, elements: I) {
        let mut elements = elements.into_iter().peekable();
        if elements.peek().is_some() {
            self.vec_mut().extend(elements);
        }
    }
}

impl<T> From<Vec<T>> for List<T> {
    fn from(list: Vec<T>) -> Self {
        Self((!list.is_empty()).then(|| Box::new(list)))
    }
}

impl<T> From<List<T>> for Vec<T> {
    fn from(list: List<T>) -> Self {
        list.0.map_or_else(Self::new, |list| *list)
    }
}

impl<T> FromIterator<T> for List<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Vec::from_iter(elements).into()
    }
}

impl<T> IntoIterator for List<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        Vec::from(self).into_iter()
    }
}

impl<'a, T> IntoIterator for &'a List<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: PartialEq, O: AsRef<[T]> + ?Sized> PartialEq<O> for List<T> {
    fn eq(&self, other: &O) -> bool {
        **self == *other.as_ref()
    }
}

impl<T: Eq> Eq for List<T> {}

impl<T: fmt::Debug> fmt::Debug for List<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: Serialize> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}
