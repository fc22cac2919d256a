//! The demands of a provider on the list as a whole, met in one pass over what was assembled.
//!
//! What becomes of a message depends on it and on what stands before it, never on what follows, so
//! that a prompt grows at its end alone. Neighbours that are joined are the exception: the last one
//! may still grow, and is not durable until something of the other side follows.

mod ids;
mod join;
mod words;

use std::sync::Arc;

use crate::composed::{Adapted, How, Item, LeftOut, Origin, Pieces, Report, Why};
use crate::error::{Error, ErrorKind, Result};
use crate::message::{Message, Role};
use crate::provider::{Opens, Provider, Rules};
use crate::record::Records;
use ids::Names;
use words::Worded;
pub(super) use words::says_nothing;

/// The user message before a conversation that its user did not begin.
const OPENING: &str = "(start of the conversation)";
/// The answer between a tool result and the user's next message.
const NO_ANSWER: &str = "(no answer)";

/// A pass over the pieces of a prompt.
pub(super) struct Pass<'a> {
    provider: Provider,
    rules: Rules,
    strict: bool,
    temporaries: &'a [Arc<Message>],
    names: Names,
    out: Pieces,
    /// The end of `out` that the next message may still be joined to: neighbours of one side.
    open: Vec<Item<'a>>,
    /// Custom messages that came behind or among them, and that no provider is sent.
    aside: Vec<Item<'a>>,
    last: Last,
}

/// The kind of message that was sent last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Nothing,
    User,
    Answer,
    Calls,
    Result,
}

impl<'a> Pass<'a> {
    pub(super) fn new(provider: Provider, strict: bool, temporaries: &'a [Arc<Message>]) -> Self {
        let rules = provider.rules();
        Self {
            provider,
            rules,
            strict,
            temporaries,
            names: Names::new(rules.ids),
            out: Pieces::default(),
            open: Vec::new(),
            aside: Vec::new(),
            last: Last::Nothing,
        }
    }

    /// Returns the pieces as the provider takes them, and how many of the first messages are
    /// durable where `durable` of `pieces` are.
    pub(super) fn run(
        mut self,
        pieces: &'a Pieces,
        records: &'a Records,
        durable: usize,
        report: &mut Report,
    ) -> Result<(Pieces, usize)> {
        let mut settled = None;
        for (i, held) in pieces.walk(records).enumerate() {
            if i == durable {
                settled = Some(self.out.len());
            }
            self.take(held.into(), report)?;
        }
        let settled = settled.unwrap_or(self.out.len());
        let says_nothing = self.last == Last::Nothing;
        let enough = match self.rules.opens {
            Opens::Freely => true,
            Opens::WithAny => pieces.walk(records).any(|held| held.message().is_system()),
            Opens::WithMessage | Opens::WithUser => false,
        };
        if says_nothing && !enough {
            if !pieces.walk(records).any(|held| held.message().is_system()) {
                // A message that nobody said, and nothing else, is no prompt.
                return Err(self.error("there is no message"));
            }
            self.refuse(|| "there is no message".to_owned())?;
            report.adapted.push(Adapted { seq: None, role: Role::User, how: How::Opened });
            self.out.push(Arc::new(Message::user(OPENING)), Origin::Added);
        }
        self.settle();
        Ok((self.out, settled))
    }

    fn take(&mut self, item: Item<'a>, report: &mut Report) -> Result<()> {
        match item.message() {
            Message::System(_) => {
                self.out.add(item);
                return Ok(());
            }
            Message::Custom(_) => {
                if self.open.is_empty() {
                    self.out.add(item);
                } else {
                    self.aside.push(item);
                }
                return Ok(());
            }
            Message::User(_) | Message::Ai(_) | Message::Tool(_) => {}
        }
        let Some(item) = self.worded(item, report)? else { return Ok(()) };
        let item = self.named(item, report)?;
        let now = match item.message() {
            Message::Tool(_) => Last::Result,
            Message::Ai(ai) if ai.has_tool_calls() => Last::Calls,
            Message::Ai(_) => Last::Answer,
            _ => Last::User,
        };
        if self.last == Last::Nothing && now != Last::User && self.rules.opens == Opens::WithUser {
            self.adapt(&item, How::Opened, report)?;
            self.out.push(Arc::new(Message::user(OPENING)), Origin::Added);
        }
        if self.rules.takes_turns {
            self.turn(item, now, report)?;
        } else if self.rules.joins_calls && now == Last::Calls {
            if self.last == Last::Calls {
                report_join(&item, report);
            } else {
                self.settle();
            }
            self.open.push(item);
        } else {
            self.settle();
            self.out.add(item);
        }
        self.last = now;
        Ok(())
    }

    /// Takes a message where user and model take turns.
    fn turn(&mut self, item: Item<'a>, now: Last, report: &mut Report) -> Result<()> {
        match (self.last, now) {
            (Last::User, Last::User) | (Last::Answer, Last::Answer | Last::Calls) => {
                // A temporary is the caller's own word, and joining it is how it is sent.
                let temporary = |item: &Item<'_>| self.temporary(item).is_some();
                if !temporary(&item) && !self.open.last().is_some_and(temporary) {
                    self.refuse(|| {
                        format!("{} follows another of its side", self.describe(&item))
                    })?;
                }
                report_join(&item, report);
                self.open.push(item);
                return Ok(());
            }
            (Last::Result | Last::Calls, Last::User) => {
                self.adapt(&item, How::Answered, report)?;
                self.settle();
                self.out.push(Arc::new(Message::ai(NO_ANSWER)), Origin::Added);
            }
            _ => self.settle(),
        }
        if now == Last::Result {
            self.out.add(item);
        } else {
            self.open.push(item);
        }
        Ok(())
    }

    /// Closes the open end: what comes now is another message.
    fn settle(&mut self) {
        let joined = join::joined(&self.open);
        let seq = self.open.iter().find_map(Item::seq);
        if joined.is_none() {
            self.open.drain(..).for_each(|item| self.out.add(item));
        }
        // In front of a joined message, so that nothing parts its calls from their results.
        self.aside.drain(..).for_each(|item| self.out.add(item));
        if let Some(joined) = joined {
            self.out.push(Arc::new(joined), Origin::Joined(seq));
            self.open.clear();
        }
    }

    /// Returns the message without blank text, or `None` where nothing is left of it.
    fn worded(&self, item: Item<'a>, report: &mut Report) -> Result<Option<Item<'a>>> {
        let temporary = self.temporary(&item);
        let worded = words::worded(item.message(), self.rules);
        let (copy, how) = match worded {
            Worded::Fine => return Ok(Some(item)),
            Worded::Nothing => {
                if self.strict || temporary.is_some() {
                    return Err(self.error(format!("{} is blank", self.describe(&item))));
                }
                if let Some(seq) = item.seq() {
                    let role = item.message().role();
                    report.left_out.push(LeftOut { seq, role, why: Why::Blank });
                    report.truncated.retain(|cut| cut.seq != seq);
                    report.sent -= 1;
                }
                return Ok(None);
            }
            Worded::Silent(_) if temporary.is_some() && item.message().is_user() => {
                return Err(self.error(format!("{} is blank", self.describe(&item))));
            }
            Worded::Silent(copy) | Worded::WithoutBlanks(copy) => (copy, How::Blank),
            Worded::WithoutReasoning(copy) => (copy, How::Reasoning),
        };
        self.adapt(&item, how, report)?;
        Ok(Some(changed(&item, copy)))
    }

    /// Returns the message with call ids that the provider takes.
    fn named(&mut self, item: Item<'a>, report: &mut Report) -> Result<Item<'a>> {
        let Some(copy) = self.names.renamed(item.message()) else { return Ok(item) };
        self.adapt(&item, How::CallIds, report)?;
        Ok(changed(&item, copy))
    }

    /// Reports a repair, or refuses it where only an error is allowed.
    fn adapt(&self, item: &Item<'_>, how: How, report: &mut Report) -> Result<()> {
        self.refuse(|| {
            let who = self.describe(item);
            match how {
                How::Opened => format!("{who} comes first, where the user's message belongs"),
                How::Answered => format!("{who} follows a tool result without an answer between"),
                How::Joined => format!("{who} follows another of its side"),
                How::Blank => format!("{who} has blank text"),
                How::Reasoning => format!("{who} ends in reasoning"),
                How::CallIds => format!("{who} has a call id that is taken or malformed"),
            }
        })?;
        let (seq, role) = (item.seq(), item.message().role());
        report.adapted.push(Adapted { seq, role, how });
        Ok(())
    }

    fn refuse(&self, why: impl FnOnce() -> String) -> Result<()> {
        if self.strict { Err(self.error(why())) } else { Ok(()) }
    }

    fn error(&self, why: impl std::fmt::Display) -> Error {
        let text = format!("{why}: {} refuses it", self.provider);
        Error::new(ErrorKind::Provider, "compose", text)
    }

    /// Returns the index of a temporary, `usize::MAX` for a changed copy of one, and `None` for
    /// anything else.
    fn temporary(&self, item: &Item<'_>) -> Option<usize> {
        match item {
            Item::Own(message, Origin::Temporary) => {
                // A changed copy is not found again, but is a temporary all the same.
                let index = self.temporaries.iter().position(|held| Arc::ptr_eq(held, message));
                Some(index.unwrap_or(usize::MAX))
            }
            _ => None,
        }
    }

    fn describe(&self, item: &Item<'_>) -> String {
        let role = item.message().role();
        match (item.seq(), self.temporary(item)) {
            (Some(seq), _) => format!("message {seq} ({role})"),
            (None, Some(usize::MAX)) => format!("a temporary ({role})"),
            (None, Some(index)) => format!("temporary {index} ({role})"),
            (None, None) => format!("a result that was added ({role})"),
        }
    }
}

/// Returns a changed copy in the place of a message.
fn changed<'a>(item: &Item<'_>, copy: Message) -> Item<'a> {
    let origin = match item {
        Item::Record(_, record) => Origin::Adapted(record.seq()),
        Item::Own(_, Origin::Truncated(seq)) => Origin::Adapted(*seq),
        Item::Own(_, origin) => *origin,
    };
    Item::Own(Arc::new(copy), origin)
}

/// Reports that a message is joined to the one before it.
fn report_join(item: &Item<'_>, report: &mut Report) {
    let (seq, role) = (item.seq(), item.message().role());
    report.adapted.push(Adapted { seq, role, how: How::Joined });
}
