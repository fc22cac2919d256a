//! The part of a history that is due to be summarised.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::ops::Range;

use super::{CompactionPolicy, Summaries, Summary};
use crate::error::{Error, Result};
use crate::message::ToolMessage;
use crate::pins::Pins;
use crate::record::{
    Record, Records, Slot, SlotVersion, Snapshot, heading, write_media, write_name, write_quoted,
    write_speaker,
};
use crate::text::{first, last};
use crate::window::{Matches, last_question};

/// The messages that are due to be summarised.
///
/// It holds the input of a summary, and the state that `commit` must still find. It is plain data:
/// a model may take as long as it likes.
#[derive(Clone)]
#[non_exhaustive]
pub struct Compaction {
    /// The position before which the new summary replaces all records.
    pub covers: u64,
    /// The summary so far, which the new one replaces.
    pub previous: Option<Summary>,
    /// The further records that the new summary replaces, oldest first, with speakers and times.
    /// Pinned records are sent anyway, and are not among them. Media that the memory keeps beside
    /// its records come as [references](crate::message::MediaReference): to get the bytes, read
    /// the records again by [position](crate::memory::Read::positions).
    pub records: Records,
    /// The positions of further records that the new summary replaces, but that this process can't
    /// read: they are damaged, or a newer version has written them.
    pub unreadable: Vec<u64>,
    /// The most characters of the text.
    pub most: usize,
    /// The text that was written for it and is too long: it is to be shortened.
    pub too_long: Option<String>,
    pub(crate) version: Option<SlotVersion>,
    pub(crate) seen: Snapshot,
    pub(crate) id: SlotVersion,
}

impl Compaction {
    /// Returns the records as text, for a model: a line for each, with its position and speaker,
    /// under the day (of UTC) on which it was written. The message itself is in quotes, so that no
    /// part of it can pose as something else.
    ///
    /// Pictures and the like are named, and so are a tool that failed and a record that can't be
    /// read. Of a text of more than 8,000 characters the middle is left out.
    ///
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    ///
    /// use memory_prompt::memory::Append;
    /// use memory_prompt::message::UserMessage;
    /// use memory_prompt::summary::CompactionPolicy;
    /// use memory_prompt::{ChatMemory, DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let hi = Message::from(UserMessage::new("Hi.").with_name("Ada"));
    /// let said = [hi, Message::ai("Hello.\nTea?"), Message::user("Yes.")];
    /// let at = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    /// let memory = DefaultChatMemory::new();
    /// memory.append_with(&mut Append::new(said).with_times([at; 3]))?;
    ///
    /// let prompt = MemoryPrompt::new(memory).with_summary();
    /// let due = prompt.compaction(&CompactionPolicy::messages(1, 1)?)?.unwrap();
    /// let lines = "2023-11-14\n0 user Ada \"Hi.\"\n1 assistant \"Hello.\\nTea?\"\n";
    /// assert_eq!(due.transcript(), lines);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn transcript(&self) -> String {
        let (mut text, mut today) = (String::new(), None);
        let records = self.records.iter().map(|record| (record.position(), Some(record)));
        let unreadable = self.unreadable.iter().map(|position| (*position, None));
        let mut rows: Vec<_> = records.chain(unreadable).collect();
        rows.sort_unstable_by_key(|(position, _)| *position);
        for (position, record) in rows {
            let Some(record) = record else {
                let _ = writeln!(text, "{position} (can't be read)");
                continue;
            };
            if let Some(heading) = heading(record.day(), today) {
                text.push_str(&heading);
                text.push('\n');
            }
            today = record.day();
            let message = record.message();
            let _ = write!(text, "{position} ");
            write_speaker(message, &mut text);
            let is_error = message.as_tool().is_some_and(ToolMessage::is_error);
            text.push_str(if is_error { " failed" } else { "" });
            let said = message.text();
            if !said.is_empty() {
                text.push(' ');
                write_quoted(&shortened(&said), &mut text);
            }
            write_media(message, &mut text);
            for call in message.tool_calls() {
                text.push_str(" calls ");
                write_name(&call.name, &mut text);
                text.push(' ');
                write_quoted(&shortened(&call.arguments), &mut text);
            }
            text.push('\n');
        }
        text
    }

    /// Returns the request to shorten this text: the same value, with the text as
    /// [`too_long`](Self::too_long). `None` if the text fits, or if this is such a request already:
    /// then [`commit`](crate::MemoryPrompt::commit) cuts the text.
    pub fn again(&self, text: &str) -> Option<Self> {
        let is_longer = text.chars().count() > self.most && self.too_long.is_none();
        is_longer.then(|| Self { too_long: Some(text.to_owned()), ..self.clone() })
    }

    /// Returns the summary with this text; of one that is too long the lines that fit, if they are
    /// half of what fits, or else the characters.
    pub(crate) fn written(&self, text: String) -> Result<Summary> {
        let covers = self.covers;
        let fits = first(&text, self.most);
        if fits.trim().is_empty() {
            return Err(Error::invalid("summary", "a summary needs a text"));
        }
        if fits.len() == text.len() {
            return Ok(Summary { covers, text, cut: 0 });
        }
        let many = |text: &str| text.chars().count();
        let line = fits.rfind('\n').and_then(|end| fits.get(..end));
        let kept = line.filter(|kept| many(kept.trim()) * 2 >= many(fits)).unwrap_or(fits);
        let cut = many(&text) - many(kept);
        Ok(Summary { covers, text: kept.to_owned(), cut })
    }
}

impl fmt::Debug for Compaction {
    /// Shows how much is covered, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compaction")
            .field("covers", &self.covers)
            .field("previous", &self.previous)
            .field("records", &self.records.len())
            .field("unreadable", &self.unreadable)
            .finish_non_exhaustive()
    }
}

/// Returns the text without its middle, if it is too long for a summariser.
fn shortened(text: &str) -> Cow<'_, str> {
    let all = text.chars().count();
    if all <= MOST {
        return text.into();
    }
    let (head, tail) = (first(text, MOST / 2), last(text, MOST / 2));
    let left_out = all - head.chars().count() - tail.chars().count();
    format!("{head} [{left_out} characters are left out] {tail}").into()
}

/// The most characters of one text in a transcript.
const MOST: usize = 8_000;

/// The outcome of a look at a conversation.
pub(crate) enum Looked {
    Nothing,
    /// This many records after the summary must be seen.
    Further(usize),
    Due(Box<Compaction>),
}

/// The number of records after a call within which its result is waited for.
pub(crate) const OPEN: usize = 256;

/// A look reads at most this many times the likely number of records. More are only needed for a
/// very long turn that has not ended.
const LOOKS: usize = 16;

const STEPS: usize = 4;

/// Returns the positions of the first `n` records that no summary covers; without `n`, as many as
/// are likely to show what is due.
pub(crate) fn stretch(
    policy: &CompactionPolicy,
    snapshot: &Snapshot,
    n: Option<usize>,
) -> Result<Range<u64>> {
    let covered = Summaries::of(snapshot)?.map_or(0, |it| it.current.covers);
    let from = covered.max(snapshot.start).min(snapshot.end);
    let n = n.unwrap_or_else(|| likely(policy));
    Ok(from..snapshot.end.min(from.saturating_add(n as u64)))
}

/// Returns the number of records that are likely to show what is due.
fn likely(policy: &CompactionPolicy) -> usize {
    let unit = if policy.counter.is_none() { 1 } else { 32 };
    let steps = policy.keep.saturating_add(policy.step.saturating_mul(STEPS)) / unit;
    steps.saturating_add(OPEN)
}

/// The end of the due records, among those of a look.
enum Boundary {
    At(usize),
    TooLittle,
    /// There are enough, but they end in a turn that seems to be the newest, or in one that waits.
    Turn,
}

/// Looks at the first records that no summary covers: those of `read`, in the conversation of
/// `seen`.
pub(crate) fn look(
    policy: &CompactionPolicy,
    seen: Snapshot,
    read: &Snapshot,
    stretch: &Range<u64>,
) -> Result<Looked> {
    let records = read.records.clone().split(stretch.start).1.split(stretch.end).0;
    let is_all = stretch.end >= seen.end;
    let n = usize::try_from(stretch.end - stretch.start).unwrap_or(usize::MAX);
    // A question after these records shows that the question among them is not the newest.
    let asks_later = |it: Record<'_>| it.position() >= stretch.end && it.message().begins_turn();
    let asked_later = seen.records.iter().any(asks_later);
    let pins = Pins::of(&seen)?;
    let pinned = pins.shown_by(read);
    let is_summarised = |record: &Record<'_>| {
        let (position, message) = (record.position(), record.message());
        let is_pinned = pins.names(position) || pinned.holds(position);
        !message.is_private() && !message.is_system() && !is_pinned
    };
    // In u128 no sum overflows, whatever a counter says.
    let weigh = |it: Record<'_>| {
        Ok(if is_summarised(&it) { policy.weigh(it.message())? } else { 0 } as u128)
    };
    let weights = records.iter().map(weigh).collect::<Result<Vec<_>>>()?;
    let place = match boundary(policy, (&records, &weights), is_all, asked_later) {
        Boundary::At(place) => place,
        _ if is_all => return Ok(Looked::Nothing),
        // The end of the turn is unknown, and a turn is not summarised in its middle.
        Boundary::Turn if n / LOOKS >= likely(policy) => return Ok(Looked::Nothing),
        Boundary::Turn | Boundary::TooLittle => return Ok(Looked::Further(n.saturating_mul(2))),
    };
    let covers = records.get(place).map_or(stretch.end, |record| record.position());
    let summarised = records.iter().take(place).filter(is_summarised);
    let replaced = stretch.start..covers;
    let unreadable = read.unreadable.iter().map(|row| row.position);
    let previous = Summaries::of(&seen)?.map(|it| it.current);
    Ok(Looked::Due(Box::new(Compaction {
        covers,
        previous,
        records: Records::from_rows(
            summarised
                .map(|record| (record.position(), record.appended_at(), record.message().clone())),
        ),
        unreadable: unreadable.filter(|position| replaced.contains(position)).collect(),
        most: policy.most,
        too_long: None,
        version: seen.slot(super::SLOT).map(Slot::version),
        seen,
        id: SlotVersion::random(),
    })))
}

/// Returns the place before which all records are due: where a turn begins, if one does.
fn boundary(
    policy: &CompactionPolicy,
    (records, weights): (&Records, &[u128]),
    is_all: bool,
    asked_later: bool,
) -> Boundary {
    let (keep, step) = (policy.keep as u128, policy.step as u128);
    let all: u128 = weights.iter().sum();
    if all < keep + step {
        return Boundary::TooLittle;
    }
    // The newest question stays, and so does everything that may still be answered.
    let (question, _) = last_question(records, 0, records.len());
    let question = question.first().copied().filter(|_| !asked_later).unwrap_or(records.len());
    let matches = Matches::among(records, 0);
    let mut groups = matches.groups().iter().enumerate();
    let open = groups.find(|(group, it)| matches.waits(*group) && records.len() - it.head <= OPEN);
    let last = question.min(open.map_or(records.len(), |(_, it)| it.head));
    // No boundary separates a call from its result.
    let mut parted = vec![false; records.len() + 1];
    for (group, it) in matches.groups().iter().enumerate() {
        let end = matches.results_of(group).into_iter().max().unwrap_or(it.head);
        parted[it.head + 1..=end].fill(true);
    }
    for (place, message) in records.messages().enumerate() {
        // Results without a call go with the record before them.
        parted[place] |= message.is_tool();
    }
    let (mut best, mut turn, mut before) = (None, None, 0_u128);
    let mut is_answered = false;
    let begins_turn =
        |place| records.get(place).is_some_and(|record| record.message().begins_turn());
    for (place, is_parted) in parted.iter().enumerate().take(last + 1) {
        let kept = all - before;
        // A record that is longer than all steps by itself is due as a whole.
        let is_much = before > step * STEPS as u128 && best.is_some();
        if kept < keep || is_much {
            break;
        }
        let at_end = place == records.len() && !is_all;
        if place > 0 && !is_parted && !at_end && before >= step {
            best = Some(place);
            // Messages of the user in a row begin one turn.
            if is_answered && begins_turn(place) {
                turn = Some(place);
            }
        }
        let message = records.get(place).map(|record| record.message());
        is_answered |= message.is_some_and(|message| message.as_ai().is_some());
        is_answered &= !begins_turn(place);
        before += weights.get(place).copied().unwrap_or(0);
    }
    turn.or(best).map_or(Boundary::Turn, Boundary::At)
}
