//! Pictures and documents: a provider takes only a certain number, and older ones give way.
//!
//! Those before a certain place give way: a position, and a part of its message. If all that is
//! sent no longer fits, that place moves forward until half to all of what the provider takes is
//! left. Of the places that achieve that, it moves to the multiple of the largest power of two,
//! since that stays the best one while the conversation moves past it. So prompts grow only at
//! their end in between, and the place depends only on what is sent.

use std::collections::BTreeSet;

use super::Shaping;
use crate::compose::Composer;
use crate::compose::clear::without_parts;
use crate::error::Result;
use crate::prompt::{Cleared, Item, Origin, Pieces, Reason};
use crate::provider::{Load, MediaLimits};

/// The media that give way: each by the place of its message in the draft, and by its own among the
/// parts.
pub(super) type Gone = BTreeSet<(usize, usize)>;

/// One picture, document, recording or film of a record that is to be sent.
struct Sent {
    /// Its position, and below it its place among the parts.
    key: u128,
    /// The place of its message in the draft, and its own among the parts.
    at: (usize, usize),
    /// Its load, including that of all after it.
    load: Load,
}

/// Returns the number of the first from which on all fit into this share of what is taken, in
/// addition to what always stays.
fn first_fitting(all: &[Sent], limits: &MediaLimits, beside: Load, share: u32) -> usize {
    all.partition_point(|it| !it.load.with(beside).fits(limits, share))
}

/// Returns how many give way to what always stays, and the position before which they are. Those
/// from the place `answered` on, which no answer has seen, give way last; if they alone are more
/// than are taken, the last ones stay.
fn opens(
    all: &[Sent],
    limits: &MediaLimits,
    beside: Load,
    answered: usize,
) -> (usize, Option<u64>) {
    let first = first_fitting(all, limits, beside, 1);
    let Some(too_old) = all[..first].last() else { return (0, None) };
    let new = all[first..].iter().find(|it| it.at.0 >= answered);
    let half = all.get(first_fitting(all, limits, beside, 2)).or_else(|| all.last());
    let at_most = new.into_iter().chain(half).map(|it| it.key).min().unwrap_or(too_old.key);
    // Of the keys above that of `too_old`, and up to this one.
    let bit = (too_old.key ^ at_most).checked_ilog2().unwrap_or_default();
    let from = at_most >> bit << bit;
    let n = all.partition_point(|it| it.key < from).max(first);
    (n, u64::try_from(from >> 64).ok())
}

impl<'a> Shaping<'a> {
    /// Looks through all that is sent for media that give way. What is pinned stays, and so do
    /// temporaries, and what the newest question shows, if half of what is taken has room for it.
    pub(super) fn media_giving_way(&mut self, pieces: &Pieces, pins: &[u64]) -> Result<Gone> {
        let (limits, mut gone) = (self.rules.media, Gone::new());
        // The place after the newest answer, and that of the newest question.
        let (mut answered, mut question) = (0, None);
        for (place, item) in pieces.items(self.records).enumerate() {
            if item.message().as_ai().is_some() {
                answered = place + 1;
            } else if item.message().begins_turn() && item.origin() != Origin::Temporary {
                question = Some(place);
            }
        }
        let (mut all, mut pinned, mut fixed) = (Vec::new(), Load::default(), Load::default());
        for (place, item) in pieces.items(self.records).enumerate() {
            let position = item.origin().position().filter(|it| pins.binary_search(it).is_err());
            let refused = |why: &str| {
                let what = self.describe(&item.shared());
                Err(self.error(format_args!("{what} has {why}")))
            };
            for (part, media) in item.message().content_parts() {
                let Some(load) = Load::of(media, item.message(), &self.rules) else { continue };
                match (load.excess(&limits), position) {
                    (None, Some(position)) => {
                        let key = u128::from(position) << 64 | part as u128;
                        all.push(Sent { key, at: (place, part), load });
                    }
                    // To refuse it for good would end the conversation, or the running turn; but
                    // whoever asks can ask something else.
                    (Some(_), Some(_)) if question != Some(place) || place < answered => {
                        gone.insert((place, part));
                    }
                    (Some(why), _) => return refused(&why),
                    (None, None) => {
                        fixed = fixed.with(load);
                        if !fixed.fits(&limits, 1) {
                            return refused("more media, with what else stays, than are taken");
                        }
                        if item.origin() != Origin::Temporary {
                            pinned = pinned.with(load);
                        }
                    }
                }
            }
        }
        let asked = all.iter().filter(|it| question == Some(it.at.0)).map(|it| it.load);
        let asked = asked.fold(Load::default(), Load::with);
        if asked.with(pinned).fits(&limits, 2) && asked.with(fixed).fits(&limits, 1) {
            all.retain(|it| question != Some(it.at.0));
            (pinned, fixed) = (asked.with(pinned), asked.with(fixed));
        }
        // Results may have been moved to their calls.
        all.sort_by_key(|it| it.key);
        all.iter_mut().rev().fold(Load::default(), |sum, it| {
            it.load = it.load.with(sum);
            it.load
        });
        // Temporaries move nothing, unless there is no room for them.
        let (mut n, mut from) = opens(&all, &limits, pinned, answered);
        if first_fitting(&all, &limits, fixed, 1) > n {
            (n, from) = opens(&all, &limits, fixed, answered);
        }
        gone.extend(all.iter().take(n).map(|it| it.at));
        self.draft.report.media_from = from;
        Ok(gone)
    }

    /// Returns the message in this place without the media that give way, or `None` if it is an
    /// answer that has nothing else.
    pub(super) fn without_media(
        &mut self,
        composer: &Composer,
        place: usize,
        item: Item<'a>,
        gone: &Gone,
    ) -> Option<Item<'a>> {
        let mut of_it = gone.range((place, 0)..(place + 1, 0)).peekable();
        let (Some((_, first)), Some(position)) = (of_it.peek(), item.origin().position()) else {
            return Some(item);
        };
        let is_gone = |part: usize| gone.contains(&(place, part));
        let message = item.message();
        let copy = if let Some(ai) = message.as_ai() {
            // A placeholder would look as if the model had said it.
            let left = ai.parts().iter().enumerate().filter(|(i, _)| !is_gone(*i));
            let left = ai.with_other_parts(left.map(|(_, part)| part.clone()).collect());
            if super::blank::is_empty(&left) {
                self.leave_out(&item, Reason::Media);
                return None;
            }
            left.into()
        } else {
            let template = composer.clear.as_ref().and_then(|clear| clear.template());
            let content = message.content()?;
            message.with_content(without_parts(content, |i, _| is_gone(i), position, template))
        };
        let before = message.content_parts().take_while(|(i, _)| i < first);
        let before = before.filter(|(_, part)| part.as_text().is_some()).count();
        self.gaps.shift(&self.draft.report.truncated, &item, before);
        let (role, from, to) = (message.role(), message.text_bytes(), copy.text_bytes());
        self.draft.report.cleared.push(Cleared { position, role, from, to });
        Some(super::changed(&item, copy))
    }
}
