//! Putting the pieces together: system message, history, temporaries.

use std::sync::Arc;

use super::{Composer, Cuts, Placement, provider};
use crate::composed::{Content, LeftOut, Origin, Pieces, Repaired, SystemSource, Truncated, Why};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{AiMessage, Message, ToolCall, ToolMessage};
use crate::record::{Cursor, Record, Snapshot};
use crate::truncate::Verdict;
use crate::window::{OpenCalls, Opening, ToolGroups};

/// The one system message.
#[derive(Clone)]
pub(super) struct System {
    pub(super) message: Option<Arc<Message>>,
    pub(super) source: SystemSource,
    /// Whether the memory has one that is not sent.
    pub(super) overridden: bool,
}

impl System {
    /// The composer's own before the memory's. A temporary one adds its text.
    pub(super) fn choose(
        own: Option<&Arc<Message>>,
        stored: Option<&Arc<Message>>,
        temporaries: &[Arc<Message>],
    ) -> Self {
        let overridden = own.is_some() && stored.is_some();
        let base = own.or(stored);
        if temporaries.iter().any(|m| m.is_system()) {
            let added = temporaries.iter().filter(|m| m.is_system());
            let texts: Vec<_> = base.into_iter().chain(added).map(|m| m.text()).collect();
            let message = Some(Arc::new(Message::system(texts.join("\n\n"))));
            return Self { message, source: SystemSource::Temporary, overridden };
        }
        let source = match (own, stored) {
            (Some(_), _) => SystemSource::Prompt,
            (None, Some(_)) => SystemSource::Memory,
            (None, None) => SystemSource::None,
        };
        Self { message: base.cloned(), source, overridden }
    }
}

/// A prompt in the making.
pub(super) struct Assembly<'a> {
    composer: &'a Composer,
    snapshot: &'a Snapshot,
    cuts: Option<&'a mut Cuts>,
    pub(super) content: Box<Content>,
    /// Where the history begins in the prompt, and where its last user message stands.
    history_at: usize,
    last_user: Option<usize>,
    /// The group in which the history ends, while it waits for results: temporaries may bring them.
    open: Option<OpenGroup<'a>>,
}

/// The tool group in which a history ends.
struct OpenGroup<'a> {
    /// The position of the message with the calls, and where its results begin in the prompt.
    seq: u64,
    results_at: usize,
    calls: OpenCalls<'a>,
}

impl<'a> Assembly<'a> {
    /// A prompt that so far consists of its system message.
    pub(super) fn new(
        composer: &'a Composer,
        snapshot: &'a Snapshot,
        system: System,
        mut cuts: Option<&'a mut Cuts>,
    ) -> Self {
        if let Some(cuts) = &mut cuts {
            cuts.begin();
        }
        let mut content = Box::<Content>::default();
        content.report.stored = snapshot.end.saturating_sub(snapshot.start);
        content.report.system = system.source;
        content.report.system_overridden = system.overridden;
        if let Some(message) = system.message {
            content.pieces.push(message, Origin::System);
        }
        let history_at = content.pieces.len();
        Self { composer, snapshot, cuts, content, history_at, last_user: None, open: None }
    }

    /// The records of the window, and the anchored user message before them.
    pub(super) fn history(&mut self, opening: Opening) -> Result<()> {
        let Opening { start, parted, anchor } = opening;
        let snapshot = self.snapshot;
        let records = &snapshot.records;
        if let Some(place) = anchor
            && let Some(record) = records.cursor(place).next()
            && self.message(place, record)?
        {
            self.content.report.details_mut().anchored = Some(record.seq());
        }
        let mut rest = records.cursor(start - parted);
        let first = rest.peek().map_or(snapshot.end, |record| record.seq());
        let before = first.saturating_sub(snapshot.start);
        self.content.report.older = before.saturating_sub(u64::from(anchor.is_some()));
        for lost in snapshot.unreadable.iter().filter(|row| row.seq >= first) {
            self.content.report.details_mut().unreadable.push(lost.seq);
        }
        for result in rest.by_ref().take(parted) {
            self.leave_out(result, Why::Opening);
        }
        loop {
            self.share_plain(&mut rest);
            let place = rest.at();
            let Some(record) = rest.next() else { break };
            match record.message() {
                Message::System(_) => self.leave_out(record, Why::SecondSystem),
                Message::Tool(tool) if self.checks_groups() => {
                    self.orphan(record, tool.call_id())?;
                }
                Message::Ai(ai) if self.checks_groups() && ai.has_tool_calls() => {
                    self.group(place, record, ai, &mut rest)?;
                }
                _ => {
                    self.message(place, record)?;
                }
            }
        }
        Ok(())
    }

    /// The temporary messages, and what the end of the history still waits for.
    pub(super) fn temporaries(&mut self, temporaries: &[Arc<Message>]) -> Result<()> {
        self.content.report.temporaries = temporaries.len();
        self.content.report.no_user_message = self.content.report.sent > 0
            && self.last_user.is_none()
            && !temporaries.iter().any(|message| message.is_user());
        // Results that are still to come may be written among those that are there: in the order of
        // the calls, on some wires.
        let waiting = self.open.as_ref().filter(|open| !open.calls.unanswered().is_empty());
        self.content.durable = waiting.map_or(self.content.pieces.len(), |open| open.results_at);
        if temporaries.is_empty() && self.open.is_none() {
            return Ok(());
        }
        let mut block = Pieces::default();
        let mut asked: Option<OpenCalls<'_>> = None;
        for (index, temporary) in temporaries.iter().enumerate() {
            match temporary.as_ref() {
                Message::System(_) => continue,
                Message::Tool(tool) if self.checks_groups() => {
                    let id = tool.call_id();
                    if asked.as_mut().is_some_and(|calls| calls.answer(id)) {
                        // It stays where it is, behind its call.
                    } else if self.open.as_mut().is_some_and(|open| open.calls.answer(id)) {
                        self.content.pieces.push(Arc::clone(temporary), Origin::Temporary);
                        continue;
                    } else if self.composer.tool_groups == ToolGroups::Strict {
                        let text =
                            format!("temporary {index} answers call {id:?}, which nothing made");
                        return Err(Error::new(ErrorKind::ToolGroup, "compose", text));
                    } else if let Some(provider) = self.composer.provider {
                        let text = format!(
                            "temporary {index} answers call {id:?}, which nothing made: \
                             {provider} refuses it"
                        );
                        return Err(Error::new(ErrorKind::Provider, "compose", text));
                    } else {
                        self.content.report.details_mut().orphan_temporaries.push(index);
                    }
                }
                message => {
                    self.close(asked.take().as_ref(), None, &mut block)?;
                    asked = message.as_ai().filter(|_| self.checks_groups()).map(OpenCalls::of);
                }
            }
            block.push(Arc::clone(temporary), Origin::Temporary);
        }
        self.close(asked.as_ref(), None, &mut block)?;
        if let Some(OpenGroup { seq, calls, .. }) = self.open.take() {
            let mut placeholders = Pieces::default();
            self.close(Some(&calls), Some(seq), &mut placeholders)?;
            self.content.pieces.insert(self.content.pieces.len(), placeholders);
        }
        if block.len() > 0 {
            let at = match self.composer.placement {
                Placement::AfterSystem => self.history_at,
                Placement::BeforeLastUser => self.last_user.unwrap_or(self.content.pieces.len()),
                Placement::End => self.content.pieces.len(),
            };
            self.content.durable = self.content.durable.min(at);
            self.content.pieces.insert(at, block);
        }
        Ok(())
    }

    /// The whole, as the provider takes it.
    pub(super) fn finish(&mut self, temporaries: &[Arc<Message>]) -> Result<()> {
        if let Some(provider) = self.composer.provider {
            let strict = self.composer.tool_groups == ToolGroups::Strict;
            self.content.report.provider = Some(provider);
            (self.content.pieces, self.content.durable) =
                provider::Pass::new(provider, strict, temporaries).run(
                    &self.content.pieces,
                    &self.snapshot.records,
                    self.content.durable,
                    &mut self.content.report,
                )?;
        }
        if self.content.report.system == SystemSource::Temporary {
            self.content.durable = 0;
        }
        if let Some(cuts) = &mut self.cuts {
            cuts.end();
        }
        self.content.report.messages = self.content.pieces.len();
        Ok(())
    }

    fn checks_groups(&self) -> bool {
        self.composer.tool_groups != ToolGroups::Off
    }

    /// The next records, as far as they are sent as they are and whatever stands around them.
    fn share_plain(&mut self, rest: &mut Cursor<'_>) {
        let start = rest.at();
        let (mut passed, mut last_user) = (0, None);
        rest.pass(|message| {
            let pass = self.composer.sends_as_is(message);
            if pass && message.is_user() {
                last_user = Some(passed);
            }
            passed += 1;
            pass
        });
        if let Some(user) = last_user {
            self.last_user = Some(self.content.pieces.len() + user);
        }
        self.content.report.sent += rest.at() - start;
        self.content.pieces.share(start..rest.at());
    }

    /// One record: shared where it fits, else a copy. False where the processor dropped it.
    fn message(&mut self, place: usize, record: Record<'_>) -> Result<bool> {
        let message = record.message();
        if let Some(known) = self.cuts.as_mut().and_then(|cuts| cuts.of(&record)) {
            self.content.replace(&known.copy, &known.report);
        } else {
            let verdict = match &self.composer.truncate {
                Some(truncate) => truncate.judge(message, record.seq())?,
                None => Verdict::Keep,
            };
            match verdict {
                Verdict::Keep => self.content.pieces.share(place..place + 1),
                Verdict::Replace(copy) => {
                    let report = Truncated {
                        seq: record.seq(),
                        role: message.role(),
                        from: message.texts().map(str::len).sum(),
                        to: copy.texts().map(str::len).sum(),
                    };
                    let copy = Arc::new(copy);
                    if let Some(cuts) = &mut self.cuts {
                        cuts.keep(&record, &copy, report);
                    }
                    self.content.replace(&copy, &report);
                }
                Verdict::Drop => {
                    self.leave_out(record, Why::Dropped);
                    return Ok(false);
                }
            }
        }
        if message.is_user() {
            self.last_user = Some(self.content.pieces.len() - 1);
        }
        self.content.report.sent += 1;
        Ok(true)
    }

    /// A message with tool calls and the results that follow it: all of it, or nothing.
    fn group(
        &mut self,
        place: usize,
        record: Record<'a>,
        ai: &'a AiMessage,
        rest: &mut Cursor<'a>,
    ) -> Result<()> {
        let mark = self.content.pieces.mark();
        let (sent, truncated) = (self.content.report.sent, self.content.report.truncated.len());
        let mut members = vec![(record, self.message(place, record)?)];
        let results_at = self.content.pieces.len();
        let mut calls = OpenCalls::of(ai);
        while let Some(result) = rest.next_if(Message::is_tool) {
            let place = rest.at() - 1;
            let id = result.message().as_tool().map_or("", |tool| tool.call_id());
            if calls.answer(id) {
                members.push((result, self.message(place, result)?));
            } else {
                self.orphan(result, id)?;
            }
        }
        if members.iter().any(|(_, kept)| !kept) {
            self.content.pieces.back_to(mark);
            self.content.report.sent = sent;
            self.content.report.details_mut().truncated.truncate(truncated);
            for (member, _) in members.into_iter().filter(|(_, kept)| *kept) {
                self.leave_out(member, Why::GroupDropped);
            }
        } else if rest.peek().is_none() {
            self.open = Some(OpenGroup { seq: record.seq(), results_at, calls });
        } else {
            let mut placeholders = Pieces::default();
            self.close(Some(&calls), Some(record.seq()), &mut placeholders)?;
            self.content.pieces.insert(self.content.pieces.len(), placeholders);
        }
        Ok(())
    }

    /// Answers in `pieces` what nothing has answered.
    fn close(
        &mut self,
        calls: Option<&OpenCalls<'_>>,
        seq: Option<u64>,
        pieces: &mut Pieces,
    ) -> Result<()> {
        for call in calls.into_iter().flat_map(OpenCalls::unanswered) {
            if self.composer.tool_groups == ToolGroups::Strict {
                let who =
                    seq.map_or_else(|| "a temporary".to_owned(), |seq| format!("message {seq}"));
                let text =
                    format!("{who} calls {:?} ({:?}) and nothing answers it", call.name, call.id);
                return Err(Error::new(ErrorKind::ToolGroup, "compose", text));
            }
            self.content
                .report
                .details_mut()
                .repaired
                .push(Repaired { seq, call_id: call.id.clone() });
            pieces.push(Arc::new(no_result(call)), Origin::Repair);
        }
        Ok(())
    }

    /// A result without its call.
    fn orphan(&mut self, record: Record<'_>, id: &str) -> Result<()> {
        if self.composer.tool_groups == ToolGroups::Strict {
            let seq = record.seq();
            let text = format!("message {seq} answers call {id:?}, which nothing before it made");
            return Err(Error::new(ErrorKind::ToolGroup, "compose", text));
        }
        self.leave_out(record, Why::NoCall);
        Ok(())
    }

    fn leave_out(&mut self, record: Record<'_>, why: Why) {
        let (seq, role) = (record.seq(), record.message().role());
        self.content.report.details_mut().left_out.push(LeftOut { seq, role, why });
    }
}

impl Content {
    /// Sends a copy in the place of a record.
    fn replace(&mut self, copy: &Arc<Message>, report: &Truncated) {
        let truncated = &mut self.report.details_mut().truncated;
        if truncated.is_empty() {
            // Where one message is long, others are too.
            truncated.reserve(MORE);
            self.pieces.reserve(MORE);
        }
        truncated.push(*report);
        self.pieces.push(Arc::clone(copy), Origin::Truncated(report.seq));
    }
}

/// What stands for a result that nobody recorded.
fn no_result(call: &ToolCall) -> Message {
    let result = ToolMessage::new(&call.id, &call.name, NO_RESULT);
    Message::Tool(result.with_error(true))
}

/// For how many cut messages room is made with the first.
const MORE: usize = 16;

const NO_RESULT: &str = "No result was recorded for this call.";
