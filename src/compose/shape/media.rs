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

/// The media that may give way, oldest first.
struct Window {
    all: Vec<Sent>,
    limits: MediaLimits,
    /// The place in the draft after the newest answer.
    answered: usize,
}

/// One picture, document, recording or film of a record that is to be sent.
struct Sent {
    position: u64,
    /// The place of its message in the draft, and its own among the parts.
    place: usize,
    part: usize,
    /// Its load; in a window, including that of all after it.
    load: Load,
}

impl Sent {
    fn key(&self) -> u128 {
        u128::from(self.position) << 64 | self.part as u128
    }
}

impl Window {
    fn of(mut all: Vec<Sent>, limits: MediaLimits, answered: usize) -> Self {
        // Results may have been moved to their calls.
        all.sort_by_key(Sent::key);
        let mut sum = Load::default();
        for it in all.iter_mut().rev() {
            sum = sum.with(it.load);
            it.load = sum;
        }
        Self { all, limits, answered }
    }

    /// Returns the number of the first from which on all fit into this share of what is taken, in
    /// addition to what always stays.
    fn first_fitting(&self, beside: Load, share: u32) -> usize {
        self.all.partition_point(|it| !it.load.with(beside).fits(&self.limits, share))
    }

    /// Returns how many give way to what always stays, and the position before which they are. If
    /// the newest message alone has more than are taken, its last media stay.
    fn opens(&self, beside: Load) -> (usize, Option<u64>) {
        let first = self.first_fitting(beside, 1);
        let (Some(too_old), Some(newest)) = (self.all[..first].last(), self.all.last()) else {
            return (0, None);
        };
        let new = self.all[first..].iter().find(|it| it.place >= self.answered);
        let half = self.all.get(self.first_fitting(beside, 2));
        let at_most = new.into_iter().chain(half).map(Sent::key).min();
        let from = roundest(too_old.key(), at_most.unwrap_or(newest.key()));
        let n = self.all.partition_point(|it| it.key() < from).max(first);
        (n, u64::try_from(from >> 64).ok())
    }
}

/// Returns the number above `low` and up to `high` that is a multiple of the largest power of two;
/// `low` if there is none.
fn roundest(low: u128, high: u128) -> u128 {
    let bit = (low ^ high).checked_ilog2().unwrap_or_default();
    high >> bit << bit
}

impl<'a> Shaping<'a> {
    /// Looks through all that is sent for media that give way. What is pinned stays, and so do
    /// temporaries, and what the newest question shows, if half of what is taken has room for it.
    pub(super) fn media_giving_way(&mut self, pieces: &Pieces, pins: &[u64]) -> Result<Gone> {
        let (limits, mut gone) = (self.rules.media, Gone::new());
        if limits == MediaLimits::NONE {
            return Ok(gone);
        }
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
                    (None, Some(position)) => all.push(Sent { position, place, part, load }),
                    // To refuse it for good would end the conversation, or the running turn; but
                    // whoever asks can ask something else.
                    (Some(_), Some(_)) if question != Some(place) || place < answered => {
                        gone.insert((place, part));
                    }
                    (Some(why), _) => return refused(&why),
                    (None, None) => {
                        fixed = fixed.with(load);
                        if !fixed.fits(&limits, 1) {
                            return refused(TOO_MANY);
                        }
                        if item.origin() != Origin::Temporary {
                            pinned = pinned.with(load);
                        }
                    }
                }
            }
        }
        let is_asked = |it: &Sent| question == Some(it.place);
        let asked = all.iter().filter(|it| is_asked(it)).map(|it| it.load);
        let asked = asked.fold(Load::default(), Load::with);
        if asked.with(pinned).fits(&limits, 2) && asked.with(fixed).fits(&limits, 1) {
            all.retain(|it| !is_asked(it));
            (pinned, fixed) = (asked.with(pinned), asked.with(fixed));
        }
        let window = Window::of(all, limits, answered);
        // Temporaries move nothing, unless there is no room for them.
        let (mut n, mut from) = window.opens(pinned);
        if window.first_fitting(fixed, 1) > n {
            (n, from) = window.opens(fixed);
        }
        gone.extend(window.all.iter().take(n).map(|it| (it.place, it.part)));
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

const TOO_MANY: &str = "more pictures and documents, with what else always stays, than are taken";
