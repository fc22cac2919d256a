//! A list that needs no allocation for its first two elements.

use std::iter::Chain;
use std::{option, vec};

use crate::list::List;

/// A list that nearly always has one element or two: the newest records lie in one run or in two
/// neighbours, and a prompt is a system message and one stretch of records.
///
/// The first two elements have fields of their own instead of an array, since an array is built on
/// the stack and then copied: measured, that took longer than everything else in so short a list.
#[derive(Clone)]
pub(crate) struct Few<T> {
    first: Option<T>,
    second: Option<T>,
    rest: List<T>,
}

impl<T> Few<T> {
    pub(crate) const fn none() -> Self {
        Self { first: None, second: None, rest: List::new() }
    }

    #[inline]
    pub(crate) fn get(&self, i: usize) -> Option<&T> {
        match i {
            0 => self.first.as_ref(),
            1 => self.second.as_ref(),
            _ => self.rest.get(i - 2),
        }
    }

    #[inline]
    pub(crate) fn last_mut(&mut self) -> Option<&mut T> {
        match (&mut self.second, self.rest.is_empty()) {
            (None, _) => self.first.as_mut(),
            (second, true) => second.as_mut(),
            _ => self.rest.last_mut(),
        }
    }

    #[inline]
    pub(crate) fn push(&mut self, element: T) {
        if self.first.is_none() {
            self.first = Some(element);
        } else if self.second.is_none() {
            self.second = Some(element);
        } else {
            self.rest.push(element);
        }
    }

    pub(crate) fn reserve(&mut self, n: usize) {
        self.rest.vec_mut().reserve(n);
    }

    #[inline]
    fn len(&self) -> usize {
        usize::from(self.first.is_some()) + usize::from(self.second.is_some()) + self.rest.len()
    }

    #[inline]
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + Clone {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.first.iter_mut().chain(&mut self.second).chain(self.rest.iter_mut())
    }
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self::none()
    }
}

impl<T> From<T> for Few<T> {
    fn from(element: T) -> Self {
        Self { first: Some(element), ..Self::default() }
    }
}

impl<T> IntoIterator for Few<T> {
    type Item = T;
    type IntoIter = Chain<Chain<option::IntoIter<T>, option::IntoIter<T>>, vec::IntoIter<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.first.into_iter().chain(self.second).chain(self.rest)
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        let mut elements = elements.into_iter();
        Self { first: elements.next(), second: elements.next(), rest: elements.collect() }
    }
}
