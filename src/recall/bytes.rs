//! An index as bytes, for applications that keep one.

use std::sync::Arc;

use super::index::RecallIndex;
use super::segment::{Segment, read, write};
use crate::error::{Error, ErrorKind, Result};
use crate::record::Incarnation;

/// The first bytes of this version.
const MARK: &[u8] = b"recall\x01";

impl RecallIndex {
    /// Returns the index as bytes, to be kept and [read](Self::from_bytes) again.
    ///
    /// They hold no text, but numbers of words without a salt: who has them can tell whether a word
    /// that he guesses was said, and where. Keep them as you keep the conversation.
    ///
    /// ```
    /// use memory_prompt::recall::RecallIndex;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Recall};
    ///
    /// let recall = Recall::words();
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::with_id("u1")).recall(recall.clone());
    /// prompt.add(Message::user("My sister Ada moved to Oslo."))?;
    /// prompt.preview()?;
    ///
    /// let bytes = recall.index(&"u1".into()).map(|index| index.to_bytes()).unwrap_or_default();
    /// // In another process:
    /// let recall = Recall::words();
    /// recall.set_index(&"u1".into(), RecallIndex::from_bytes(&bytes)?);
    /// assert_eq!(recall.index(&"u1".into()).map(|index| index.end()), Some(1));
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut whole = self.clone();
        whole.seal();
        let mut to = MARK.to_vec();
        let incarnation = whole.incarnation.map(Incarnation::to_bits);
        to.push(u8::from(incarnation.is_some()));
        let incarnation = incarnation.unwrap_or_default();
        let Self { rules, last, start, end, base, .. } = whole;
        for number in [rules, last, incarnation, start, end, base, whole.gone.into()] {
            to.extend(number.to_le_bytes());
        }
        write(whole.docs.len() as u64, &mut to);
        let mut before = 0;
        for (position, length) in &whole.docs {
            write(u64::from(position - before), &mut to);
            write(u64::from(*length), &mut to);
            before = *position;
        }
        write(whole.segments.len() as u64, &mut to);
        for segment in &whole.segments {
            write_segment(segment, &mut to);
        }
        to
    }

    /// Reads what [`to_bytes`](Self::to_bytes) has written. It allocates no more than a few times
    /// what it is given.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Codec`] where these are not the bytes of an index, or of one that another
    /// version has written: then let it be made anew.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        read_index(bytes).ok_or_else(|| {
            Error::new(ErrorKind::Codec, "recall", "these are not the bytes of an index")
        })
    }
}

fn read_index(bytes: &[u8]) -> Option<RecallIndex> {
    let from = &mut bytes.strip_prefix(MARK)?;
    let has_incarnation = byte(from)? == 1;
    let [rules, last, incarnation] = [word(from)?, word(from)?, word(from)?];
    let incarnation = has_incarnation.then(|| Incarnation::from_bits(incarnation));
    let [start, end, base] = [word(from)?, word(from)?, word(from)?];
    let gone = u32::try_from(word(from)?).ok()?;
    let count = usize::try_from(read(from)?).ok().filter(|count| *count <= from.len())?;
    let mut docs = Vec::with_capacity(count);
    let mut position = 0_u32;
    for i in 0..count {
        let gap = u32::try_from(read(from)?).ok()?;
        position = position.checked_add(gap).filter(|_| i == 0 || gap > 0)?;
        docs.push((position, u16::try_from(read(from)?).ok()?));
    }
    let past = gone.checked_add(u32::try_from(count).ok()?)?;
    let known = docs.last().map_or(Some(base), |(it, _)| base.checked_add((*it).into()));
    // The newest message that has words stands before the first position that is not indexed.
    let is_in_order = start <= end && base <= start && (count == 0 || known? < end);
    let mut index = RecallIndex {
        rules,
        incarnation,
        start,
        end,
        last,
        docs,
        gone,
        base,
        ..RecallIndex::default()
    };
    let mut at = gone;
    for _ in 0..read(from)? {
        let segment = read_segment(from).filter(|it| it.first == at && it.end > at)?;
        at = segment.end;
        index.segments.push(Arc::new(segment));
    }
    index.unsealed_from = at;
    (is_in_order && at == past && from.is_empty()).then_some(index)
}

fn write_segment(segment: &Segment, to: &mut Vec<u8>) {
    for number in [segment.first, segment.end] {
        write(number.into(), to);
    }
    write(segment.words.len() as u64, to);
    let (mut word, mut end) = (0, 0);
    for (next, next_end) in segment.words.iter().zip(&segment.ends) {
        write(u64::from(next - word), to);
        write(u64::from(next_end - end), to);
        (word, end) = (*next, *next_end);
    }
    to.extend_from_slice(&segment.lists);
}

fn read_segment(from: &mut &[u8]) -> Option<Segment> {
    let first = u32::try_from(read(from)?).ok()?;
    let end = u32::try_from(read(from)?).ok()?;
    let count = usize::try_from(read(from)?).ok().filter(|count| *count <= from.len())?;
    let (mut words, mut ends) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut word, mut place) = (0_u32, 0_u32);
    for i in 0..count {
        let gap = u32::try_from(read(from)?).ok()?;
        word = word.checked_add(gap).filter(|_| i == 0 || gap > 0)?;
        place = place.checked_add(u32::try_from(read(from)?).ok()?)?;
        words.push(word);
        ends.push(place);
    }
    let (lists, rest) = from.split_at_checked(place as usize)?;
    *from = rest;
    Some(Segment { first, end, words, ends, lists: lists.to_vec() })
}

fn word(from: &mut &[u8]) -> Option<u64> {
    let (word, rest) = from.split_first_chunk()?;
    *from = rest;
    Some(u64::from_le_bytes(*word))
}

fn byte(from: &mut &[u8]) -> Option<u8> {
    let (byte, rest) = from.split_first()?;
    *from = rest;
    Some(*byte)
}
