//! Adds the messages of a prompt that are in no memory: temporaries, and the note of late results.

use std::mem;
use std::sync::Arc;

use super::Assembler;
use super::groups::Waiting;
use crate::compose::Placement;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, ToolMessage};
use crate::prompt::{Origin, Pieces, SystemSource};
use crate::window::Fate;

impl<'a> Assembler<'a> {
    /// Adds the temporary messages, and the missing results of calls at the end of the history.
    pub(super) fn temporaries(&mut self, temporaries: &'a [Arc<Message>]) -> Result<()> {
        let report = &mut self.draft.report;
        let own = temporaries.iter().filter(|message| !message.is_system());
        report.temporaries = own.count() + self.case.temporaries.notes.len();
        report.no_user_message = report.sent > 0
            && self.last_user.is_none()
            && !self.has_pinned_user
            && self.noted_at.is_none()
            && !temporaries.iter().any(|message| message.is_user());
        // Some formats write results in the order of the calls, so a result that is still to come
        // may be before those that are here: none of them is cacheable yet.
        let waiting = self.last_group.as_ref().filter(|group| !group.waiting.is_empty());
        self.draft.cacheable = waiting.map_or(self.draft.pieces.len(), |group| group.results_at);
        // After its first prompt a turn sends its note and its temporaries again in their places.
        let goes_on = self.temporaries_at.is_some_and(|(end, _)| end < self.draft.pieces.len());
        if !goes_on {
            let is_system = self.draft.report.system == SystemSource::Temporary;
            let first = if is_system { Some(0) } else { self.noted_at };
            self.draft.cacheable = self.draft.cacheable.min(first.unwrap_or(usize::MAX));
        }
        self.note();
        if temporaries.is_empty() {
            return self.close_calls();
        }
        let mut together = Pieces::default();
        let mut asked = Waiting::default();
        for (index, temporary) in temporaries.iter().enumerate() {
            match temporary.as_ref() {
                Message::System(_) => continue,
                Message::Tool(tool) if self.checks_groups() => {
                    let last = self.last_group.as_mut().map(|group| &mut group.waiting);
                    if asked.answer(tool).is_some() {
                        // It stays in its place after its call.
                    } else if last.is_some_and(|waiting| waiting.answer(tool).is_some()) {
                        self.draft.pieces.push(Arc::clone(temporary), Origin::Temporary);
                        continue;
                    } else {
                        self.orphan_temporary(index, tool.call_id())?;
                    }
                }
                message if message.is_private() => {} // never sent, and separates nothing
                message => {
                    self.close(mem::take(&mut asked), &mut together)?;
                    if self.checks_groups() {
                        for call in message.tool_calls() {
                            asked.open(&call.id, &call.name, (None, call));
                        }
                    }
                }
            }
            together.push(Arc::clone(temporary), Origin::Temporary);
        }
        self.close(asked, &mut together)?;
        self.close_calls()?;
        if together.len() > 0 {
            let now = (self.draft.pieces.len(), self.last_user);
            let (end, last_user) = self.temporaries_at.unwrap_or(now);
            let at = match self.case.composer.placement {
                Placement::AfterSystem => self.history_at,
                Placement::BeforeLastUser => last_user.unwrap_or(end),
                Placement::End => end,
            };
            let cacheable = &mut self.draft.cacheable;
            *cacheable = if goes_on && at <= *cacheable {
                *cacheable + together.len()
            } else {
                at.min(*cacheable)
            };
            self.draft.pieces.insert(at, together);
        }
        Ok(())
    }

    /// Adds a note that names late results, if they were sent further up and an answer of the model
    /// would be last: the model has not seen these results, and many providers refuse to continue
    /// from the model's own words.
    fn note(&mut self) {
        if !self.checks_groups() {
            return;
        }
        let records = &self.case.snapshot.records;
        let matches = &self.choice.matches;
        let newest = (0..records.len()).rev().zip(records.iter().rev());
        // Messages that are never sent separate nothing.
        let newest = newest.filter(|(place, record)| match record.message() {
            Message::Tool(_) => matches!(matches.fate(*place), Fate::Sent { .. }),
            message => !self.case.composer.never_sends(message),
        });
        let mut moved: Vec<u64> = self.draft.report.moved.iter().map(|it| it.position).collect();
        moved.sort_unstable();
        let late = newest.map_while(|(_, record)| {
            let tool = record.message().as_tool()?;
            let is_moved = moved.binary_search(&record.position()).is_ok();
            is_moved.then_some((record.position(), tool))
        });
        let mut late: Vec<_> = late.collect();
        if late.is_empty() {
            return;
        }
        let sent = self.draft.pieces.iter(records);
        let last = sent.filter(|message| !self.case.composer.never_sends(message)).last();
        if !last.is_some_and(|last| last.as_ai().is_some() && !last.has_tool_calls()) {
            return;
        }
        late.reverse();
        let names: Vec<String> = late.iter().map(|(_, tool)| called(tool)).collect();
        let text = match names.as_slice() {
            [] => return,
            [one] => format!("The result of {one} has arrived, see above."),
            several => format!("The results of {} have arrived, see above.", several.join(", ")),
        };
        self.draft.report.note = late.iter().map(|(position, _)| *position).collect();
        self.draft.pieces.push(Arc::new(Message::user(text)), Origin::Note);
    }

    /// Reports a temporary result without its call; an error if tool groups are strict or a
    /// provider is named.
    fn orphan_temporary(&mut self, index: usize, id: &str) -> Result<()> {
        let text = format!("temporary {index} answers call {id:?}, which nothing made");
        self.may_repair(|| text.clone())?;
        if let Some(provider) = self.case.composer.provider {
            let text = format!("{text}: {provider} refuses it");
            return Err(Error::new(ErrorKind::Provider, "compose", text));
        }
        self.draft.report.orphan_temporaries.push(index);
        Ok(())
    }
}

/// Returns what a note calls a result: the name of its tool, else the id of its call.
fn called(tool: &ToolMessage) -> String {
    match tool.tool_name() {
        "" => format!("{:?}", tool.call_id()),
        name => name.to_owned(),
    }
}
