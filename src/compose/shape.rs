//! Adapts the whole list to the provider's rules, in one pass over the draft.
//!
//! What happens to a message depends on it and on the messages before it, never on later ones, so a
//! prompt only grows at its end. There are two exceptions: the last of several joined neighbours
//! may still grow, and is not cacheable until a message of the other side follows; and so may an
//! answer with an open call of the provider's own tools.

mod arguments;
mod blank;
pub(super) mod ends;
mod gaps;
mod hosted;
mod ids;
mod join;
mod media;
mod names;
mod split;

use std::mem;
use std::ops::Range;
use std::sync::Arc;

use super::Case;
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Role};
use crate::prompt::{Adaptation, Adapted, Draft, Item, LeftOut, Origin, Reason};
use crate::provider::{
    Opens, Provider, Row, is_emptied, outgoing, without_compaction, without_foreign_parts,
};
use crate::record::Records;
use crate::window::{Matches, ToolGroups};
use blank::Checked;
pub(super) use blank::says_nothing;
use gaps::Gaps;
use hosted::Hosted;
use ids::CallIds;

const NO_ANSWER: &str = "(no answer)";

/// One pass over the messages of a draft; each is put back in turn.
struct Shaping<'a> {
    provider: Provider,
    rules: Row,
    strict: bool,
    temporaries: &'a [Arc<Message>],
    ids: CallIds,
    records: &'a Records,
    matches: &'a Matches<'a>,
    gaps: Gaps,
    draft: &'a mut Draft,
    /// The newest messages of one side, which are joined with those that follow.
    side: Vec<Item<'a>>,
    /// Custom messages among or after them, which are never sent to a provider.
    aside: Vec<Item<'a>>,
    /// The system message, if the provider has no system role: it goes into the first user message.
    head: Option<Item<'a>>,
    last: Last,
    answer: Option<Item<'a>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Nothing,
    User,
    Answer,
    Calls,
    Result,
}

pub(super) fn shape(
    case: Case<'_>,
    provider: Provider,
    matches: &Matches<'_>,
    draft: &mut Draft,
) -> Result<()> {
    let Case { composer, snapshot, extras, .. } = case;
    let (rules, records) = (provider.row(), &snapshot.records);
    let pieces = mem::take(&mut draft.pieces);
    let cacheable = draft.cacheable;
    draft.report.provider = Some(provider);
    let mut shaping = Shaping {
        provider,
        rules,
        strict: composer.tool_groups == ToolGroups::FailOnRepair,
        temporaries: case.temporaries.messages,
        ids: CallIds::new(rules.ids, rules.joins_calls),
        records,
        matches,
        gaps: Gaps::default(),
        draft,
        side: Vec::new(),
        aside: Vec::new(),
        head: None,
        last: Last::Nothing,
        answer: None,
    };
    let gone = shaping.media_giving_way(&pieces, extras.pinned.members())?;
    let hosted = Hosted::of(&rules, &pieces, records, false);
    let trimmed = ends::trimmed(&rules, &pieces, records, false);
    // Once a message follows, the answer is sent unchanged; until then it is not cacheable.
    let unsettled = ends::trimmed(&rules, &pieces, records, true);
    let open = Hosted::of(&rules, &pieces, records, true).waiting();
    let unsettled = unsettled.into_iter().chain(open).min();
    let mut has_system = false;
    for (i, item) in pieces.items(records).enumerate() {
        if i <= cacheable && unsettled.is_none_or(|at| i <= at) {
            shaping.draft.cacheable = shaping.draft.pieces.len();
        }
        has_system |= item.borrowed().is_system();
        let item = item.shared();
        let item = if trimmed == Some(i) { shaping.trim(item)? } else { item };
        let Some(item) = shaping.without_media(composer, i, item, &gone) else { continue };
        if let Some(item) = shaping.without_gone(item, &hosted)? {
            shaping.add(item)?;
        }
    }
    if cacheable >= pieces.len() && unsettled.is_none() {
        shaping.draft.cacheable = shaping.draft.pieces.len();
    }
    shaping.finish(has_system)?;
    shaping.put_closing(&hosted)?;
    mem::take(&mut shaping.gaps).tell(&mut shaping.draft.report.truncated);
    if rules.parallel_calls { Ok(()) } else { shaping.split(records) }
}

impl<'a> Shaping<'a> {
    fn add(&mut self, item: Item<'a>) -> Result<()> {
        match item.message() {
            Message::Custom(_) if !self.side.is_empty() => {
                self.aside.push(item);
                return Ok(());
            }
            Message::System(_) if !self.rules.system => {
                self.head = Some(item);
                return Ok(());
            }
            Message::System(_) | Message::Custom(_) => {
                let is_late = item.message().is_system() && item.origin().position().is_some();
                let item = if is_late { self.without_blanks(item)? } else { Some(item) };
                if let Some(item) = item {
                    // Held calls stay held: nothing may come between them and their results.
                    if self.last != Last::Calls {
                        self.end_side();
                    }
                    self.draft.pieces.add(item);
                }
                return Ok(());
            }
            Message::User(_) | Message::Ai(_) | Message::Tool(_) => {}
        }
        let Some(item) = self.with_one_compaction(item) else { return Ok(()) };
        let Some(item) = self.without_foreign(item)? else { return Ok(()) };
        let Some(item) = self.without_blanks(item)? else { return Ok(()) };
        let item = self.with_ids(item)?;
        let other = names::renamed(item.message(), self.rules.tool_names);
        let item = self.replaced(item, other, Adaptation::ToolNames)?;
        let other = item.message().as_ai().filter(|_| self.rules.parses_arguments);
        let other = other.and_then(|ai| arguments::readable(ai, &self.rules)).map(Message::Ai);
        let item = self.replaced(item, other, Adaptation::Arguments)?;
        let now = match item.message() {
            Message::Tool(_) => Last::Result,
            Message::Ai(ai) if ai.has_tool_calls() => Last::Calls,
            Message::Ai(_) => Last::Answer,
            _ => Last::User,
        };
        // A system message without a role of its own goes into a user message.
        let wants_user = self.rules.opens == Opens::WithUser || self.head.is_some();
        if self.last == Last::Nothing && now != Last::User && wants_user {
            self.adapt(&item, Adaptation::Opened)?;
            self.put_opening();
        }
        let item = if now == Last::User { self.with_head(item) } else { item };
        self.answer = (now == Last::Answer).then(|| item.clone());
        if self.rules.alternates {
            self.alternate(item, now)?;
        } else if self.rules.joins_calls && now == Last::Calls {
            if self.last == Last::Calls {
                self.report(&item, Adaptation::Joined);
            } else {
                self.end_side();
            }
            self.side.push(item);
        } else {
            self.end_side();
            self.draft.pieces.add(item);
        }
        self.last = now;
        Ok(())
    }

    /// Adds a message for a provider that wants user and model to alternate.
    fn alternate(&mut self, item: Item<'a>, now: Last) -> Result<()> {
        match (self.last, now) {
            (Last::User, Last::User) if self.side.iter().all(blank::is_placeholder) => {
                // The real message replaces the placeholder.
                for blank in mem::take(&mut self.side) {
                    let (of, next) = (blank.origin().position(), item.origin().position());
                    let adapted = self.draft.report.adapted.iter_mut();
                    // The added answer now belongs to the message that stays.
                    adapted
                        .filter(|it| it.position == of && it.how == Adaptation::Answered)
                        .for_each(|it| it.position = next);
                    self.leave_out(&blank, Reason::Blank);
                }
            }
            (Last::User, Last::User) | (Last::Answer, Last::Answer | Last::Calls)
                if !self.side.is_empty() =>
            {
                // A temporary is the caller's own, and joining is the way to send it. Summary and
                // pins were put next to others by the composer.
                if !self.side.last().into_iter().chain([&item]).any(|item| self.is_put(item)) {
                    self.refuse(&item, Adaptation::Joined)?;
                }
                self.report(&item, Adaptation::Joined);
                self.side.push(item);
                return Ok(());
            }
            (Last::Result | Last::Calls, Last::User) => {
                self.adapt(&item, Adaptation::Answered)?;
                self.end_side();
                self.draft.pieces.push(Arc::new(Message::ai(NO_ANSWER)), Origin::Added);
            }
            _ => self.end_side(),
        }
        if now == Last::Result {
            self.draft.pieces.add(item);
        } else {
            self.side.push(item);
        }
        Ok(())
    }

    /// Sends the messages kept for joining, since the next one is of another side.
    fn end_side(&mut self) {
        let pieces = &mut self.draft.pieces;
        let joined = join::joined(&self.side, &self.rules);
        let position = self.side.iter().find_map(|item| item.origin().position());
        if joined.is_none() {
            self.side.drain(..).for_each(|item| pieces.add(item));
        }
        // Before a joined message, so that nothing comes between its calls and their results.
        self.aside.drain(..).for_each(|item| pieces.add(item));
        if let Some(joined) = joined {
            self.gaps.join(&self.draft.report.truncated, &self.side, &joined);
            pieces.push(Arc::new(joined), Origin::Joined(position));
            self.side.clear();
        }
    }

    /// Ends the pass, and adds a message if the provider needs one.
    fn finish(&mut self, has_system: bool) -> Result<()> {
        let is_enough = match self.rules.opens {
            _ if self.head.is_some() => false, // the system message is not sent yet
            Opens::Freely => true,
            Opens::WithAny => has_system,
            Opens::WithMessage | Opens::WithUser => false,
        };
        if self.last == Last::Nothing && !is_enough {
            // A prompt that contains only a placeholder message is no prompt.
            if self.strict || !has_system {
                return Err(self.error("there is no message"));
            }
            let (position, role, how) = (None, Role::User, Adaptation::Opened);
            self.draft.report.adapted.push(Adapted { position, role, how });
            self.put_opening();
        }
        self.end_side();
        Ok(())
    }

    /// Returns the message without blank text, or `None` if nothing is left.
    fn without_blanks(&mut self, item: Item<'a>) -> Result<Option<Item<'a>>> {
        let refused = || Err(self.error(format!("{} is blank", self.describe(&item))));
        let (copy, how) = match blank::checked(item.message(), &self.rules) {
            Checked::Fine => return Ok(Some(item)),
            Checked::Nothing if self.strict || is_temporary(&item) => return refused(),
            Checked::Nothing => {
                self.leave_out(&item, Reason::Blank);
                return Ok(None);
            }
            Checked::Placeholder(_) if is_temporary(&item) && item.message().is_user() => {
                return refused();
            }
            // It would be joined to the user message before it.
            Checked::Placeholder(_)
                if item.message().is_user()
                    && self.last == Last::User
                    && self.rules.alternates
                    && !self.side.is_empty() =>
            {
                self.refuse(&item, Adaptation::Blank)?;
                self.leave_out(&item, Reason::Blank);
                return Ok(None);
            }
            Checked::Placeholder(copy) => (copy, Adaptation::Blank),
            Checked::Without(copy, how) => (copy, how),
        };
        self.adapt(&item, how)?;
        Ok(Some(self.shortened(&item, copy)))
    }

    /// Returns the message without parts that are private to another provider, or `None` if nothing
    /// is left.
    fn without_foreign(&mut self, item: Item<'a>) -> Result<Option<Item<'a>>> {
        let Some(ai) = item.message().as_ai() else { return Ok(Some(item)) };
        let Some(left) = without_foreign_parts(ai, &self.rules) else {
            let sent = outgoing(item.message(), &self.rules);
            let is_emptied = sent.is_some_and(|(left, _)| is_emptied(item.message(), &left));
            if !is_emptied || is_temporary(&item) {
                return Ok(Some(item));
            }
            self.leave_out(&item, Reason::Foreign); // it is reasoning alone
            return Ok(None);
        };
        if blank::is_empty(&left) && !is_temporary(&item) {
            self.refuse(&item, Adaptation::Foreign)?;
            self.leave_out(&item, Reason::Foreign);
            return Ok(None);
        }
        self.adapt(&item, Adaptation::Foreign)?;
        Ok(Some(self.shortened(&item, left.into())))
    }

    /// Returns the message without the provider's own compaction, unless it opens the history: a
    /// pinned one would otherwise stand for everything before it. `None` if nothing is left.
    fn with_one_compaction(&mut self, item: Item<'a>) -> Option<Item<'a>> {
        if is_temporary(&item) || item.origin().position() == self.draft.report.compaction {
            return Some(item);
        }
        let Some(left) = without_compaction(item.message(), &self.rules) else { return Some(item) };
        if blank::is_empty(&left) {
            self.leave_out(&item, Reason::Compaction);
            return None;
        }
        self.report(&item, Adaptation::Compaction);
        Some(self.shortened(&item, left.into()))
    }

    /// Leaves a message out, and removes earlier reports about it.
    fn leave_out(&mut self, item: &Item<'_>, why: Reason) {
        let Some(position) = item.origin().position() else { return };
        let (report, role) = (&mut self.draft.report, item.message().role());
        let is_of_it = |it: &Adapted| it.position == Some(position);
        let was_foreign =
            report.adapted.iter().any(|it| is_of_it(it) && it.how == Adaptation::Foreign);
        let why = if was_foreign { Reason::Foreign } else { why };
        report.left_out.push(LeftOut { position, role, why });
        report.adapted.retain(|it| !is_of_it(it));
        report.truncated.retain(|cut| cut.position != position);
        report.cleared.retain(|it| it.position != position);
        report.question.retain(|it| *it != position);
        report.pinned_before.retain(|it| *it != position);
        report.kept_systems.retain(|it| *it != position);
        report.sent -= 1;
    }

    /// Returns a copy of a message that lacks some of its texts, or the end of one.
    fn shortened(&mut self, item: &Item<'_>, copy: Message) -> Item<'a> {
        self.gaps.change(&self.draft.report.truncated, item, &copy);
        changed(item, copy)
    }

    /// Returns the copy that the provider needs, and reports it; otherwise the message as it is.
    fn replaced(
        &mut self,
        item: Item<'a>,
        copy: Option<Message>,
        how: Adaptation,
    ) -> Result<Item<'a>> {
        let Some(copy) = copy else { return Ok(item) };
        self.adapt(&item, how)?;
        Ok(changed(&item, copy))
    }

    fn with_ids(&mut self, item: Item<'a>) -> Result<Item<'a>> {
        if self.ids.takes_any() {
            return Ok(item);
        }
        let known = self.known_calls(&item);
        let other = self.ids.renamed(item.message(), known);
        self.replaced(item, other, Adaptation::CallIds)
    }

    /// Returns the numbers of the calls of a record, or of the call that it answers.
    fn known_calls(&self, item: &Item<'_>) -> Option<Range<usize>> {
        let (place, _) = self.records.place(item.origin().position()?)?;
        let (calls, message) = (self.matches.calls_of(place)?, item.message());
        (message.is_tool() || calls.len() == message.tool_calls().count()).then_some(calls)
    }

    /// Reports a repair, or returns an error if repairs are not allowed.
    fn adapt(&mut self, item: &Item<'_>, how: Adaptation) -> Result<()> {
        self.refuse(item, how)?;
        self.report(item, how);
        Ok(())
    }

    fn report(&mut self, item: &Item<'_>, how: Adaptation) {
        let (position, role) = (item.origin().position(), item.message().role());
        self.draft.report.adapted.push(Adapted { position, role, how });
    }

    fn refuse(&self, item: &Item<'_>, how: Adaptation) -> Result<()> {
        if !self.strict {
            return Ok(());
        }
        let what = match how {
            Adaptation::Opened => "comes first, where the user's message belongs",
            Adaptation::Answered => "follows a tool result without an answer between",
            Adaptation::Joined => "follows another of its side",
            Adaptation::Blank => "has blank text",
            Adaptation::Reasoning => "ends in reasoning",
            Adaptation::CallIds => "has a call id that is taken or malformed",
            Adaptation::ToolNames => "has a tool's name that is malformed",
            Adaptation::Foreign => "holds what only another provider understands",
            Adaptation::Compaction => "holds a compaction that does not come first",
            Adaptation::Arguments => "calls with arguments that are no JSON object",
            Adaptation::Trimmed => "ends the prompt in white space",
            Adaptation::Closed => "is an answer at the end",
            Adaptation::Unanswered => "has a call of the provider's own tool without its result",
            Adaptation::Uncalled => {
                "has what belongs to a call of the provider's own tool that is not sent"
            }
            Adaptation::Split => "has several calls",
        };
        Err(self.error(format!("{} {what}", self.describe(item))))
    }

    /// Returns whether the composer chose the place of a message.
    fn is_put(&self, item: &Item<'_>) -> bool {
        let is_pin = |position| self.draft.report.pinned_before.contains(&position);
        is_temporary(item)
            || item.origin() == Origin::Summary
            || item.origin().position().is_some_and(is_pin)
    }

    fn error(&self, why: impl std::fmt::Display) -> Error {
        let text = format!("{why}: {} refuses it", self.provider);
        Error::new(ErrorKind::Provider, "compose", text)
    }

    fn describe(&self, item: &Item<'_>) -> String {
        let role = item.message().role();
        if let Some(position) = item.origin().position() {
            return format!("message {position} ({role})");
        }
        let Item::Own(message, Origin::Temporary) = item else {
            return format!("a result that was added ({role})");
        };
        // A changed copy is not the same allocation any more.
        match self.temporaries.iter().position(|it| Arc::ptr_eq(it, message)) {
            Some(index) => format!("temporary {index} ({role})"),
            None => format!("a temporary ({role})"),
        }
    }
}

fn is_temporary(item: &Item<'_>) -> bool {
    item.origin() == Origin::Temporary
}

fn changed<'a>(item: &Item<'_>, copy: Message) -> Item<'a> {
    let origin = item.origin();
    Item::Own(Arc::new(copy), origin.position().map_or(origin, Origin::Adapted))
}
