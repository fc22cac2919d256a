//! The places of cuts, which move if a message is changed or joined with others.

use std::collections::BTreeMap;

use super::join::{self, BETWEEN};
use crate::message::Message;
use crate::prompt::{Gap, Item, Truncated};

/// The current gaps of cut messages by position; empty until one may have moved.
#[derive(Default)]
pub(super) struct Gaps(BTreeMap<u64, Option<Gap>>);

impl Gaps {
    /// Updates the gap of a message that was replaced by this copy.
    pub(super) fn change(&mut self, cuts: &[Truncated], item: &Item<'_>, copy: &Message) {
        self.update(cuts, item, |gap| kept(gap, item.message(), copy));
    }

    /// Updates the gap of a message in which a text was inserted after its first `before` ones. Not
    /// for answers.
    pub(super) fn shift(&mut self, cuts: &[Truncated], item: &Item<'_>, before: usize) {
        if item.message().as_ai().is_some() {
            return;
        }
        self.update(cuts, item, |gap| {
            Some(Gap { text: gap.text + usize::from(gap.text >= before), ..gap })
        });
    }

    /// Updates the gaps of messages that were joined into one.
    pub(super) fn join(&mut self, cuts: &[Truncated], items: &[Item<'_>], joined: &Message) {
        if cuts.is_empty() {
            return;
        }
        let mut walk = Walk { texts: joined.texts().collect(), passed: None };
        for (item, spoken) in items.iter().zip(join::spoken(items)) {
            let places: Vec<_> = spoken.texts().map(|text| walk.pass(text)).collect();
            self.update(cuts, item, |gap| {
                let (text, at) = (*places.get(gap.text)?)?;
                // The name stands in front.
                let [said, with_name] =
                    [item.message(), &*spoken].map(|it| it.texts().nth(gap.text));
                let name = with_name?.len() - said?.len();
                Some(Gap { text, at: at + name + gap.at, ..gap })
            });
        }
    }

    /// Writes the gaps into the report.
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

/// Returns the gap in the copy of a message, which may lack some texts, end earlier, or have one
/// placeholder for all texts.
fn kept(gap: Gap, message: &Message, copy: &Message) -> Option<Gap> {
    let mut copies = copy.texts().enumerate().peekable();
    for (i, text) in message.texts().enumerate() {
        // Equal texts are all kept or all left out.
        let copy = copies.next_if(|(_, copy)| text.starts_with(copy));
        if i == gap.text {
            let (text, copy) = copy?;
            let at = gap.at.min(copy.len());
            return Some(Gap { text, at, marker: gap.marker.min(copy.len() - at), ..gap });
        }
    }
    None
}

/// Maps the texts of the original messages to their places in the joined message.
struct Walk<'a> {
    texts: Vec<&'a str>,
    /// The current text, and the bytes of it that were passed.
    passed: Option<(usize, usize)>,
}

impl Walk<'_> {
    /// Returns the place of the next text; `None` if it is empty, and so left out.
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
