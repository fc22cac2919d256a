//! The places of cuts, which move where a message is changed or joined with others.

use std::collections::BTreeMap;

use super::join::BETWEEN;
use crate::message::Message;
use crate::prompt::{Gap, Item, Truncated};

/// The gaps of cut messages by position, as they are by now; empty until one may have moved.
#[derive(Default)]
pub(super) struct Gaps(BTreeMap<u64, Option<Gap>>);

impl Gaps {
    /// Follows a message that has become this copy.
    pub(super) fn change(&mut self, cuts: &[Truncated], item: &Item<'_>, copy: &Message) {
        self.update(cuts, item, |gap| kept(gap, item.message(), copy));
    }

    /// Follows a message that got a text more, in front of which so many stand; not an answer.
    pub(super) fn shift(&mut self, cuts: &[Truncated], item: &Item<'_>, before: usize) {
        if item.message().as_ai().is_some() {
            return;
        }
        self.update(cuts, item, |gap| {
            Some(Gap { text: gap.text + usize::from(gap.text >= before), ..gap })
        });
    }

    /// Follows messages that have become one.
    pub(super) fn join(&mut self, cuts: &[Truncated], items: &[Item<'_>], joined: &Message) {
        if cuts.is_empty() {
            return;
        }
        let mut walk = Walk { texts: joined.texts().collect(), passed: None };
        for item in items {
            let places: Vec<_> = item.message().texts().map(|text| walk.pass(text)).collect();
            self.update(cuts, item, |gap| {
                let (text, at) = (*places.get(gap.text)?)?;
                Some(Gap { text, at: at + gap.at, ..gap })
            });
        }
    }

    /// Tells the report where the gaps are.
    pub(super) fn tell(self, cuts: &mut [Truncated]) {
        for cut in cuts {
            cut.gap = self.0.get(&cut.position).map_or(cut.gap, |gap| *gap);
        }
    }

    fn update(
        &mut self,
        cuts: &[Truncated],
        item: &Item<'_>,
        moved: impl FnOnce(Gap) -> Option<Gap>,
    ) {
        let Some(position) = item.origin().position().filter(|_| !cuts.is_empty()) else { return };
        if self.0.is_empty() {
            self.0.extend(cuts.iter().map(|cut| (cut.position, cut.gap)));
        }
        if let Some(gap) = self.0.get_mut(&position) {
            *gap = gap.and_then(moved);
        }
    }
}

/// Returns the gap of a message in the copy that it became: some texts left out, the last one
/// without its end, or a placeholder for all of them.
fn kept(gap: Gap, message: &Message, copy: &Message) -> Option<Gap> {
    let mut copies = copy.texts().enumerate().peekable();
    for (i, text) in message.texts().enumerate() {
        // Texts that are equal stay or go alike.
        let copy = copies.next_if(|(_, copy)| text.starts_with(copy));
        if i == gap.text {
            let (text, copy) = copy?;
            let at = gap.at.min(copy.len());
            return Some(Gap { text, at, marker: gap.marker.min(copy.len() - at), ..gap });
        }
    }
    None
}

/// A walk over the texts of a joined message, by the texts of which it was made.
struct Walk<'a> {
    texts: Vec<&'a str>,
    /// The text in which the walk stands, and the bytes of it that were passed.
    passed: Option<(usize, usize)>,
}

impl Walk<'_> {
    /// Returns the place of the next text; `None` if it is not there, for it is empty.
    fn pass(&mut self, text: &str) -> Option<(usize, usize)> {
        let (index, at) = match self.passed {
            None => (0, 0),
            Some((index, at)) if at < self.texts.get(index)?.len() => (index, at + BETWEEN.len()),
            Some((index, _)) => (index + 1, 0),
        };
        let rest = self.texts.get(index)?.get(at..)?;
        if !rest.starts_with(text) || (text.is_empty() && !rest.is_empty()) {
            return None;
        }
        self.passed = Some((index, at + text.len()));
        Some((index, at))
    }
}
