//! Calls that wait for their results.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use super::ToolMessage;
use super::names::agree;

/// Calls that wait for results, each with a value of the reader.
///
/// A result answers the first open call of its id; if both name a tool, the names agree.
pub(crate) struct OpenCalls<K, T> {
    by_id: HashMap<K, VecDeque<Open<K, T>>>,
    made: usize,
}

struct Open<K, T> {
    number: usize,
    tool: K,
    with: T,
}

impl<K, T> Default for OpenCalls<K, T> {
    fn default() -> Self {
        Self { by_id: HashMap::new(), made: 0 }
    }
}

impl<K: Borrow<str> + Eq + Hash, T> OpenCalls<K, T> {
    pub(crate) fn open(&mut self, id: K, tool: K, with: T) {
        let open = Open { number: self.made, tool, with };
        self.by_id.entry(id).or_default().push_back(open);
        self.made += 1;
    }

    /// Closes the call that this result answers, and returns its value.
    pub(crate) fn answer(&mut self, result: &ToolMessage) -> Option<T> {
        self.answer_known(result, |_| false)
    }

    /// Closes the call of its id that this result is known to answer; else the one that it answers
    /// by its name.
    pub(crate) fn answer_known(
        &mut self,
        result: &ToolMessage,
        is_known: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let of_id = self.by_id.get_mut(result.call_id())?;
        let known = of_id.iter().position(|it| is_known(&it.with));
        let agrees = |it: &Open<K, T>| agree(it.tool.borrow(), result.tool_name());
        let found = known.or_else(|| of_id.iter().position(agrees))?;
        of_id.remove(found).map(|open| open.with)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.values().all(VecDeque::is_empty)
    }

    /// Returns the values of the calls that are still open, in the order in which they were made.
    pub(crate) fn left(self) -> impl Iterator<Item = T> {
        let mut left: Vec<_> = self.by_id.into_values().flatten().collect();
        left.sort_unstable_by_key(|open| open.number);
        left.into_iter().map(|open| open.with)
    }
}
