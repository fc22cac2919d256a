//! Pictures and documents: a provider takes only so many, and older ones give way.
//!
//! Those that stand before a position do. Where all that is sent no longer fits, that position
//! moves so far that half to all of what is taken is left: to the one, of those that do, that is a
//! multiple of the largest power of two, for it stays the best one while the conversation moves
//! past it. So prompts grow at their end in between, and it depends on nothing but what is sent.

use super::Shaping;
use crate::compose::Composer;
use crate::compose::clear::without_parts;
use crate::error::Result;
use crate::message::{AiMessage, AiPart, Content, Message, Part};
use crate::prompt::{Cleared, Item, Origin, Pieces, Reason};
use crate::provider::{Load, MediaLimits, Row, without_foreign_parts};
use crate::record::Records;

/// The media of a draft that give way.
#[derive(Default)]
pub(super) struct Media {
    /// The position before which all do, where some do for the number of them.
    pub(super) from: Option<u64>,
    /// The places of messages in the draft, with those of their parts.
    gone: Vec<(usize, Vec<usize>)>,
}

/// A message with media.
struct Loaded {
    place: usize,
    /// The position of the record, where it may give way.
    position: Option<u64>,
    /// True if it is for this prompt alone.
    is_passing: bool,
    /// True if no answer stands behind it.
    is_new: bool,
    /// The places of its media among its parts, and what they take up.
    parts: Vec<(usize, Load)>,
    /// Those that are too large by themselves.
    large: Vec<usize>,
}

/// A message that can't be sent, by its place, and why.
pub(super) struct TooMuch(pub(super) usize, pub(super) String);

impl Media {
    /// Looks through all that is sent. What is pinned stays, and so do temporaries.
    pub(super) fn of(
        rules: &Row,
        pieces: &Pieces,
        records: &Records,
        pinned: &[u64],
    ) -> Result<Self, TooMuch> {
        let limits = &rules.media;
        if *limits == MediaLimits::NONE {
            return Ok(Self::default());
        }
        let (mut all, mut answered) = (Vec::new(), 0);
        for (place, item) in pieces.items(records).enumerate() {
            let (message, origin) = (item.borrowed(), item.origin());
            if message.as_ai().is_some() {
                answered = place + 1;
            }
            let parts = media_of(message, rules);
            if !parts.is_empty() {
                let position =
                    origin.position().filter(|position| pinned.binary_search(position).is_err());
                let is_passing = origin == Origin::Temporary;
                let large = Vec::new();
                all.push(Loaded { place, position, is_passing, is_new: true, parts, large });
            }
        }
        if all.is_empty() {
            return Ok(Self::default());
        }
        for loaded in &mut all {
            loaded.is_new = loaded.place >= answered;
            loaded.leave_large(limits)?;
        }
        Self::giving_way(&mut all, limits)
    }

    fn giving_way(all: &mut [Loaded], limits: &MediaLimits) -> Result<Self, TooMuch> {
        let (mut pinned, mut fixed) = (Load::default(), Load::default());
        for loaded in all.iter().filter(|it| it.position.is_none()) {
            fixed = fixed.with(loaded.load());
            if !loaded.is_passing {
                pinned = pinned.with(loaded.load());
            }
            if !fixed.fits(limits) {
                let why = "has more pictures and documents, with what else always stays, than are \
                           taken";
                return Err(TooMuch(loaded.place, why.to_owned()));
            }
        }
        // Newest first. Results may have been moved to their calls.
        all.sort_by_key(|loaded| std::cmp::Reverse(loaded.position));
        // Temporaries move nothing, unless there is no room for them.
        let mut boundary = Boundary::of(all, limits, pinned);
        if !boundary.left(all).with(fixed).fits(limits) {
            boundary = Boundary::of(all, limits, fixed);
        }
        let gone = all.iter().filter_map(|loaded| {
            let gone = boundary.gone(loaded).chain(loaded.large.iter().copied());
            let mut gone: Vec<usize> = gone.collect();
            gone.sort_unstable();
            (!gone.is_empty()).then_some((loaded.place, gone))
        });
        let mut gone: Vec<_> = gone.collect();
        gone.sort_unstable();
        Ok(Self { gone, from: boundary.from })
    }
}

impl Loaded {
    /// Lets parts give way that are too large by themselves and that an answer has seen: refusing
    /// them for good would end the conversation.
    fn leave_large(&mut self, limits: &MediaLimits) -> Result<(), TooMuch> {
        let is_kept = self.is_new || self.position.is_none();
        for (part, load) in &self.parts {
            match load.excess(limits) {
                Some(why) if is_kept => return Err(TooMuch(self.place, format!("has {why}"))),
                Some(_) => self.large.push(*part),
                None => {}
            }
        }
        self.parts.retain(|(part, _)| !self.large.contains(part));
        Ok(())
    }

    fn load(&self) -> Load {
        load(&self.parts)
    }
}

fn load(parts: &[(usize, Load)]) -> Load {
    parts.iter().fold(Load::default(), |sum, (_, load)| sum.with(*load))
}

/// The position from which on media are sent.
#[derive(Clone, Copy, Default)]
struct Boundary {
    from: Option<u64>,
    /// The number of the first media of the message at this position that give way too: it has
    /// more by itself than are taken.
    cut: usize,
}

impl Boundary {
    /// Returns it for messages, newest first, beside what always stays.
    fn of(all: &[Loaded], limits: &MediaLimits, fixed: Load) -> Self {
        let half = limits.halved();
        let (mut sum, mut fits_half) = (fixed, true);
        let (mut oldest, mut of_half, mut newest, mut new) = (None, None, None, u64::MAX);
        for loaded in all {
            let Some(position) = loaded.position else { continue };
            sum = sum.with(loaded.load());
            if !sum.fits(limits) {
                return match oldest.zip(of_half.or(newest)) {
                    None => Self::within(loaded, position, limits, fixed),
                    Some((oldest, at_most)) => Self {
                        from: Some(roundest(position, new.min(at_most).max(oldest))),
                        cut: 0,
                    },
                };
            }
            newest = newest.or(Some(position));
            oldest = Some(position);
            fits_half &= sum.fits(&half);
            of_half = if fits_half { oldest } else { of_half };
            new = if loaded.is_new { position } else { new };
        }
        Self::default()
    }

    /// Returns it where the newest message alone has more than is taken: its last media stay.
    fn within(loaded: &Loaded, position: u64, limits: &MediaLimits, fixed: Load) -> Self {
        let parts = &loaded.parts;
        let fits = |cut: &usize| load(parts.get(*cut..).unwrap_or(&[])).with(fixed).fits(limits);
        Self { from: Some(position), cut: (0..parts.len()).find(fits).unwrap_or(parts.len()) }
    }

    /// Returns the places of the parts of this message that give way.
    fn gone(self, loaded: &Loaded) -> impl Iterator<Item = usize> {
        let n = match loaded.position.zip(self.from) {
            Some((position, from)) if position < from => loaded.parts.len(),
            Some((position, from)) if position == from => self.cut,
            _ => 0,
        };
        loaded.parts.iter().take(n).map(|(part, _)| *part)
    }

    /// Returns what is left of those that may give way.
    fn left(self, all: &[Loaded]) -> Load {
        all.iter().filter(|loaded| loaded.position.is_some()).fold(
            Load::default(),
            |sum, loaded| {
                sum.with(load(loaded.parts.get(self.gone(loaded).count()..).unwrap_or(&[])))
            },
        )
    }
}

/// Returns the number above `low` and up to `high` that is a multiple of the largest power of two.
fn roundest(low: u64, high: u64) -> u64 {
    let bit = (low ^ high).checked_ilog2().unwrap_or_default();
    high >> bit << bit
}

/// Returns the places of the media of a message that this provider is sent, and what they take up.
fn media_of(message: &Message, rules: &Row) -> Vec<(usize, Load)> {
    let load = |(place, part): (usize, &Part)| Some((place, Load::of(part, rules)));
    let found = match message {
        Message::Ai(ai) => return media_of_answer(ai, rules),
        message => message.content().map_or(&[][..], Content::parts),
    };
    found.iter().enumerate().filter_map(load).filter(|(_, load)| !load.is_none()).collect()
}

fn media_of_answer(ai: &AiMessage, rules: &Row) -> Vec<(usize, Load)> {
    let load = |part: &AiPart| match part {
        AiPart::Content(part) => Load::of(part, rules),
        _ => Load::default(),
    };
    let parts = || ai.parts().iter().map(|part| (part, load(part))).enumerate();
    if parts().all(|(_, (_, load))| load.is_none()) {
        return Vec::new();
    }
    let left = without_foreign_parts(ai, rules);
    let is_sent = |part| left.as_ref().is_none_or(|left| left.parts().contains(part));
    let sent = parts().filter(|(_, (part, load))| !load.is_none() && is_sent(part));
    sent.map(|(place, (_, load))| (place, load)).collect()
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
        let gone = media.gone.binary_search_by_key(&place, |(at, _)| *at).ok();
        let gone = gone.and_then(|i| media.gone.get(i)).map(|(_, parts)| parts);
        let (Some(gone), Some(position)) = (gone, item.origin().position()) else {
            return Some(item);
        };
        let message = item.message();
        let copy = if let Some(ai) = message.as_ai() {
            // The model would have said a placeholder.
            let is_gone = |part: &AiPart| {
                let mut parts = gone.iter().filter_map(|place| ai.parts().get(*place));
                parts.any(|it| std::ptr::eq(it, part))
            };
            match ai.without(is_gone) {
                Some(left) if !super::blank::is_empty(&left) => Message::from(left),
                _ => {
                    self.leave_out(&item, Reason::Media);
                    return None;
                }
            }
        } else {
            let template = composer.clear.as_ref().and_then(|clear| clear.template());
            let content = message.content()?;
            message.with_content(without_parts(
                content,
                |i, _| gone.contains(&i),
                position,
                template,
            ))
        };
        let first = gone.first().map_or(0, |first| *first);
        let before = message.content().map_or(&[][..], Content::parts).iter().take(first);
        let before = before.filter(|part| part.as_text().is_some()).count();
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
