//! Pictures and documents: a provider takes only so many, and older ones give way.
//!
//! Those that stand before a position do. Where all that is sent no longer fits, that position
//! moves so far that half to all of what is taken is left: to the one, of those that do, that is a
//! multiple of the largest power of two, for it stays the best one while the conversation moves
//! past it. So prompts grow at their end in between, and it depends on nothing but what is sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Shaping;
use crate::compose::Composer;
use crate::compose::clear::without_parts;
use crate::error::Result;
use crate::message::Message;
use crate::prompt::{Cleared, Item, Origin, Pieces, Reason};
use crate::provider::{Load, MediaLimits, Row, without_foreign_parts};

/// The media of a draft that give way.
#[derive(Default)]
pub(super) struct Media {
    /// The position before which all do, where some do for the number of them.
    pub(super) from: Option<u64>,
    /// Each by the place of its message in the draft, and by its own among the parts.
    gone: BTreeSet<(usize, usize)>,
}

/// One picture, document, recording or film that is to be sent.
struct Sent<'a> {
    item: Item<'a, &'a Arc<Message>>,
    /// The position of the record, where it may give way.
    position: Option<u64>,
    /// The place of its message in the draft, and its own among the parts.
    place: usize,
    part: usize,
    /// What it takes up, and in a window what all behind it do too.
    load: Load,
}

impl Media {
    /// Looks through all that is sent. What is pinned stays, and so do temporaries.
    pub(super) fn of(shaping: &Shaping<'_>, pieces: &Pieces, pins: &[u64]) -> Result<Self> {
        let rules = &shaping.rules;
        if rules.media == MediaLimits::NONE {
            return Ok(Self::default());
        }
        let (mut all, mut answered, mut asked) = (Vec::new(), 0, 0);
        for (place, item) in pieces.items(shaping.records).enumerate() {
            let message = item.borrowed();
            if message.as_ai().is_some() {
                answered = place + 1;
            } else if message.begins_turn() && item.origin() != Origin::Temporary {
                asked = place;
            }
            let position = item.origin().position().filter(|it| pins.binary_search(it).is_err());
            let sent = |(part, load)| Sent { item, position, place, part, load };
            all.extend(loads(message, rules).into_iter().map(sent));
        }
        Self::giving_way(shaping, all, (answered, asked))
    }

    /// Decides which do. What stands from the place `answered` on no answer has seen, and the
    /// newest message of the question stands at `asked`: one in it is an error if it is too large,
    /// since its user can ask something else.
    fn giving_way(
        shaping: &Shaping<'_>,
        all: Vec<Sent<'_>>,
        (answered, asked): (usize, usize),
    ) -> Result<Self> {
        let newest = answered.max(asked);
        let limits = &shaping.rules.media;
        let refused = |it: &Sent<'_>, why: &str| {
            shaping.error(format_args!("{} has {why}", shaping.describe(&it.item.shared())))
        };
        let (mut gone, mut movable) = (BTreeSet::new(), Vec::new());
        let (mut pinned, mut fixed) = (Load::default(), Load::default());
        for it in all {
            let stays = it.position.is_none();
            match it.load.excess(limits) {
                Some(why) if stays || (it.place >= newest && it.item.message().begins_turn()) => {
                    return Err(refused(&it, &why));
                }
                // To refuse it for good would end the conversation, or the running turn.
                Some(_) => drop(gone.insert((it.place, it.part))),
                None if !stays => movable.push(it),
                None => {
                    fixed = fixed.with(it.load);
                    if it.item.origin() != Origin::Temporary {
                        pinned = pinned.with(it.load);
                    }
                    if !fixed.fits(limits, 1) {
                        let why = "more pictures and documents, with what else always stays, than \
                                   are taken";
                        return Err(refused(&it, why));
                    }
                }
            }
        }
        // Results may have been moved to their calls.
        movable.sort_by_key(|it| (it.position, it.part));
        let mut sum = Load::default();
        for it in movable.iter_mut().rev() {
            sum = sum.with(it.load);
            it.load = sum;
        }
        let window = Window { all: &movable, limits, answered };
        // Temporaries move nothing, unless there is no room for them.
        let (mut n, mut from) = window.opens(pinned);
        if window.first_fitting(fixed, 1) > n {
            (n, from) = window.opens(fixed);
        }
        gone.extend(movable.iter().take(n).map(|it| (it.place, it.part)));
        Ok(Self { from, gone })
    }
}

/// The media that may give way, oldest first.
struct Window<'a> {
    all: &'a [Sent<'a>],
    limits: &'a MediaLimits,
    /// The place in the draft behind the newest answer.
    answered: usize,
}

impl Window<'_> {
    /// Returns the number of the first from which on all fit into this share of what is taken,
    /// beside what always stays.
    fn first_fitting(&self, beside: Load, share: u32) -> usize {
        self.all.partition_point(|it| !it.load.with(beside).fits(self.limits, share))
    }

    /// Returns how many give way to what always stays, and the position before which they stand.
    fn opens(&self, beside: Load) -> (usize, Option<u64>) {
        let all = self.all;
        let position = |i: usize| all.get(i)?.position;
        let next_message = |i: usize| {
            let before = i.checked_sub(1).and_then(position);
            all.partition_point(|it| it.position <= before)
        };
        let first = self.first_fitting(beside, 1);
        let Some(too_old) = first.checked_sub(1).and_then(position) else { return (0, None) };
        let whole = all.get(next_message(first)..).unwrap_or_default();
        let Some(newest) = whole.last() else {
            // The newest message has more by itself than are taken: its last media stay.
            return (first, Some(too_old));
        };
        let new = whole.iter().find(|it| it.place >= self.answered).and_then(|it| it.position);
        let half = position(next_message(self.first_fitting(beside, 2))).or(newest.position);
        let at_most = new.into_iter().chain(half).min().unwrap_or(u64::MAX);
        let from = Some(roundest(too_old, at_most));
        (all.partition_point(|it| it.position < from), from)
    }
}

/// Returns the number above `low` and up to `high` that is a multiple of the largest power of two.
fn roundest(low: u64, high: u64) -> u64 {
    let bit = (low ^ high).checked_ilog2().unwrap_or_default();
    high >> bit << bit
}

/// Returns the places of the media of a message that this provider is sent, and what they take up.
fn loads(message: &Message, rules: &Row) -> Vec<(usize, Load)> {
    let load = |(place, part)| Some((place, Load::of(part, message, rules)?));
    let mut loads: Vec<_> = message.content_parts().filter_map(load).collect();
    if let Some(ai) = message.as_ai().filter(|_| !loads.is_empty())
        && let Some(left) = without_foreign_parts(ai, rules)
    {
        let is_sent =
            |place: usize| ai.parts().get(place).is_some_and(|it| left.parts().contains(it));
        loads.retain(|(place, _)| is_sent(*place));
    }
    loads
}

impl<'a> Shaping<'a> {
    /// Returns the message in this place without the media that give way, or `None` if it is an
    /// answer of nothing else.
    pub(super) fn without_media(
        &mut self,
        composer: &Composer,
        place: usize,
        item: Item<'a>,
        media: &Media,
    ) -> Option<Item<'a>> {
        let mut gone = media.gone.range((place, 0)..(place + 1, 0));
        let (Some((_, first)), Some(position)) = (gone.next(), item.origin().position()) else {
            return Some(item);
        };
        let is_gone = |part: usize| media.gone.contains(&(place, part));
        let message = item.message();
        let copy = if let Some(ai) = message.as_ai() {
            // The model would have said a placeholder.
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

#[cfg(test)]
mod tests {
    use super::roundest;

    #[test]
    fn the_roundest_number_is_found() {
        for low in 0..70_u64 {
            for high in low + 1..80 {
                let all = low + 1..=high;
                let expected = all.max_by_key(|n| n.trailing_zeros()).unwrap();
                let found = roundest(low, high);
                assert!((low + 1..=high).contains(&found), "{low} {high} {found}");
                assert_eq!(found.trailing_zeros(), expected.trailing_zeros(), "{low} {high}");
            }
        }
    }
}
