//! How much a memory takes at once, and how much of that is kept free.

use crate::codec::Codec;
use crate::memory::Limits;
use crate::message::Message;

/// Returns why a memory with these limits can't take these messages at once and keep this much
/// room; `None` if it can.
pub(crate) fn excess<'a>(
    limits: &Limits,
    messages: impl IntoIterator<Item = &'a Message> + Clone,
    room: usize,
) -> Option<String> {
    let refers = messages.clone().into_iter().find_map(refers);
    if refers.is_some() || is_unbounded(limits) {
        return refers;
    }
    excess_in(limits, messages.into_iter().map(size), room)
}

/// Returns why no memory takes a message that has a reference.
pub(super) fn refers(message: &Message) -> Option<String> {
    let text = || "it has a reference in the place of media".to_owned();
    message.has_references().then(text)
}

/// Returns the same as [`excess`], for messages of these sizes.
pub(super) fn excess_in(
    limits: &Limits,
    sizes: impl IntoIterator<Item = usize>,
    room: usize,
) -> Option<String> {
    let Limits { message: most, batch, .. } = *limits;
    let (mut largest, mut all) = (0, 0_usize);
    for bytes in sizes {
        largest = bytes.max(largest);
        all = all.saturating_add(bytes);
    }
    if largest > most {
        return Some(format!("a message has {largest} bytes, and the memory takes {most}"));
    }
    let kept_free =
        if room == 0 { String::new() } else { format!(", {room} of them for an answer") };
    (all.saturating_add(room) > batch)
        .then(|| format!("the turn has {all} bytes, and the memory takes {batch}{kept_free}"))
}

/// Returns the bytes of a message in JSON.
pub(super) fn size(message: &Message) -> usize {
    Codec::Json.encode(message).map_or(0, |bytes| bytes.len())
}

/// Returns true if a memory with these limits takes messages of any size.
pub(super) fn is_unbounded(limits: &Limits) -> bool {
    limits.message == usize::MAX && limits.batch == usize::MAX
}

/// Returns the text for the model instead of a result that can't be stored, for this reason.
pub(crate) fn not_stored(why: &str) -> String {
    format!("The result can't be stored: {why}.")
}

/// Returns the bytes of a batch that are kept free for the answer.
pub(super) fn room_for_answer(limits: &Limits) -> usize {
    if limits.batch == usize::MAX { 0 } else { (limits.batch / 8).min(MOST_ROOM) }
}

/// The most bytes by which a [`size`] exceeds that of the same message in a list of messages.
pub(super) const ENVELOPE: usize = 20;

const MOST_ROOM: usize = 64 * 1024;
