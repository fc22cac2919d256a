//! Turns that were begun and have not ended, as their slots show them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Turn;
use super::late::Stored;
use super::over::AnyMemory;
use super::state::{
    CallState, MadeCall, PREFIX, State, VERSION, calls_among, is_from_tool, was_not_run,
};
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Limits, Read};
use crate::message::{Content, Message, ToolCall, ToolMessage, UserMessage, in_words};
use crate::record::{Records, Slot, SlotVersion, Snapshot};
use crate::text::first;
use crate::window::Matches;

/// A turn that was written down before a tool ran and has not ended. It may still run.
#[derive(Clone)]
pub struct Unfinished {
    pub(super) state: State,
    pub(super) version: SlotVersion,
}

/// A call of an unfinished turn, of a tool that is not repeatable or that needs approval.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnfinishedCall {
    /// The id of the call. Models reuse ids: a call of another turn may have the same one.
    pub call_id: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// True if it waits for approval and has not run.
    pub needs_approval: bool,
    /// The result, if the turn has written it down; of one without text, what it has (`1 image`). A
    /// [stand-in](crate::message::ToolMessage::stand_in) is no result: if a call took too long, its
    /// outcome is not known yet.
    pub result: Option<String>,
}

impl fmt::Debug for Unfinished {
    /// Shows which turn it is and what it has begun, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unfinished")
            .field("id", &self.id())
            .field("version", &self.version)
            .field("calls", &self.calls())
            .finish_non_exhaustive()
    }
}

impl Unfinished {
    /// Returns the turn in this slot, or the reason why this version can't read it.
    pub(super) fn of(slot: &Slot) -> Result<Self> {
        let state = slot.parse().map_err(|wrong| {
            let version = slot.parse::<Value>().ok().and_then(|it| it["turn"].as_u64());
            let later = version.filter(|it| *it > VERSION.into());
            let why = later.map_or(wrong, |it| format!("version {it}, and this is {VERSION}"));
            let text = format!("the slot {:?} holds a turn that can't be read: {why}", slot.name());
            Error::new(ErrorKind::Unsupported, "unfinished", text)
        })?;
        Ok(Self { state, version: slot.version() })
    }

    /// Returns the id of the turn.
    pub fn id(&self) -> &str {
        &self.state.id
    }

    /// Returns what was said in it so far, the question first.
    pub fn messages(&self) -> &[Message] {
        &self.state.messages
    }

    /// Returns what the user has added and the model has not read yet.
    pub(crate) fn steers(&self) -> &[Message] {
        &self.state.steers
    }

    /// Returns the calls that were begun of tools that are not repeatable, and those that wait for
    /// approval.
    pub fn calls(&self) -> Vec<UnfinishedCall> {
        let newest = self.state.newest_calls();
        let calls = calls_among(&self.state.messages).into_iter().filter_map(|made| {
            let MadeCall { at, place, call, result } = made;
            let needs_approval =
                Some(at) == newest && self.state.call_state(place) == CallState::Unapproved;
            let result = result.map(|(_, it)| it);
            let is_begun = !self.state.is_repeatable(call) && !result.is_some_and(was_not_run);
            if !is_begun && !needs_approval {
                return None;
            }
            Some(UnfinishedCall::of(call, result.filter(|it| is_from_tool(it)), needs_approval))
        });
        calls.collect()
    }

    /// Returns the calls that wait for approval.
    pub fn waiting(&self) -> Vec<Waiting> {
        waiting_in(&self.state)
    }

    /// Returns the text that all owners of the turn share, and no other turn has.
    pub(crate) fn life(&self) -> &str {
        &self.state.life
    }

    /// Returns true if this is the turn of that call, and not another one of the same id.
    pub(super) fn has(&self, waiting: &Waiting) -> bool {
        (&self.state.life, self.state.part) == (&waiting.life, waiting.part)
    }

    /// Returns the time when it was written to its slot, if its owner noted that.
    pub fn since(&self) -> Option<SystemTime> {
        since(&self.state)
    }

    /// Returns false if it was begun in another life of its conversation: on another branch than
    /// this one.
    pub(crate) fn is_of(&self, branch: &Snapshot) -> bool {
        self.state.on().is_none_or(|on| match on.id.zip(branch.incarnation) {
            Some((begun, now)) => begun == now,
            None => on.id.is_none() && !branch.is_forked(),
        })
    }

    /// Returns true if a call was handed out and has no result, as far as the slot shows.
    pub(crate) fn runs(&self) -> bool {
        !self.state.open_in(CallState::is_handed_out).is_empty()
    }

    /// Returns the turn for a new owner, who looks what other turns have done in the meantime.
    pub(super) fn adopted(&self, limits: Limits) -> Turn {
        let mut turn = Turn::of(self.state.clone());
        turn.limits = limits;
        turn.state.hand_over();
        turn.state.adoptions += 1;
        turn.wrote(self.version);
        turn
    }
}

pub(super) fn waiting_in(state: &State) -> Vec<Waiting> {
    let waiting = state.open_in(CallState::is_unapproved).into_iter();
    let waiting = waiting.map(|(_, call)| Waiting {
        turn: state.id.clone(),
        call: call.id.clone(),
        tool: call.name.clone(),
        arguments: call.arguments.clone(),
        since: since(state),
        life: state.life.clone(),
        part: state.part,
    });
    waiting.collect()
}

fn since(state: &State) -> Option<SystemTime> {
    let since = Duration::from_millis(state.since?);
    UNIX_EPOCH.checked_add(since)
}

/// A call that waits for approval: what the person is shown, and what the button sends back.
///
/// ```
/// use memory_prompt::conversation::{Conversation, Scripted};
/// use memory_prompt::{DefaultChatMemory, ErrorKind, MemoryPrompt, Tool};
///
/// let model = Scripted::new().calls("pay", serde_json::json!({})).says("It is paid.");
/// let conversation = Conversation::new(MemoryPrompt::new(DefaultChatMemory::new()), model)
///     .tool(Tool::new("pay", "Pays.").needing_approval(), |()| Ok("paid"));
/// let parked = conversation.say("Pay.")?;
/// let waiting = &parked.waiting()[0]; // or conversation.waiting()?, after a restart
/// assert_eq!(conversation.approve(waiting)?.text(), "It is paid.");
///
/// let late = conversation.refuse(waiting, "The user said no.").unwrap_err();
/// assert!(matches!(late.kind(), ErrorKind::Decided(_)));
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Waiting {
    /// The id of the turn.
    pub turn: String,
    /// The id of the call, which is unique within the turn.
    pub call: String,
    /// The name of the tool.
    pub tool: String,
    /// The arguments as the model wrote them.
    pub arguments: String,
    /// The time when the turn was written to its slot, if its owner noted that.
    pub since: Option<SystemTime>,
    /// The life of the turn. In another conversation, or after this one was begun again, the same
    /// ids name another call.
    pub(super) life: String,
    /// The number of the turn among those of its id.
    pub(super) part: u32,
}

impl fmt::Debug for Waiting {
    /// Names the call, not its arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting")
            .field("turn", &self.turn)
            .field("call", &self.call)
            .field("tool", &self.tool)
            .field("since", &self.since)
            .finish_non_exhaustive()
    }
}

pub(super) async fn turns(memory: &impl AnyMemory) -> Result<Snapshot> {
    let slots = memory.list().await?.into_iter().map(|(name, _)| name);
    let names = slots.filter(|name| name.starts_with(PREFIX));
    memory.look_up(&Read::newest(0).slots(names)).await
}

/// Returns the turns in the slots of this snapshot; for each that can't be read, the reason.
pub(crate) fn turns_in(snapshot: &Snapshot) -> impl Iterator<Item = Result<Unfinished>> {
    let turns = snapshot.slots().iter().filter(|it| it.name().starts_with(PREFIX));
    turns.map(Unfinished::of)
}

/// Returns a line for each call that the turns in the slots of this snapshot have begun, oldest
/// turn first, on whichever branch: a payment is made once. A turn does not read its own slot with
/// those of others.
pub(super) fn begun_by_others(snapshot: &Snapshot) -> Vec<String> {
    let mut lines: Vec<(Option<SystemTime>, String)> = Vec::new();
    for turn in turns_in(snapshot) {
        if let Ok(turn) = turn {
            lines.extend(turn.calls().iter().map(|it| (turn.since(), it.line())));
        } else {
            let text = "- a turn that can't be read has begun something whose outcome is not known";
            lines.push((None, text.to_owned()));
        }
    }
    lines.sort_by_key(|(since, _)| *since); // calls of one turn stay in their order
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Returns a line for each call that other turns have stored, unless it is repeatable or was not
/// run.
pub(super) fn stored_by_others(
    stored: &Stored,
    is_repeatable: impl Fn(&ToolCall) -> bool,
) -> Vec<String> {
    let rows = (0..).zip(&stored.messages).map(|(place, it)| (place, UNIX_EPOCH, it.clone()));
    let records = Records::from_rows(rows);
    let matches = Matches::among(&records, 0);
    let told = matches.results().filter(|(call, _)| !is_repeatable(call));
    let lines = told.filter_map(|(call, result)| {
        let result = result.and_then(|place| stored.messages[place].as_tool());
        let call = UnfinishedCall::of(call, result.filter(|it| is_from_tool(it)), false);
        (!result.is_some_and(was_not_run)).then(|| call.line())
    });
    let lost = stored.has_gaps.then(|| "- perhaps others, not shown here".to_owned());
    lost.into_iter().chain(lines).collect()
}

/// The note to the model about other turns, which this turn does not see: the newest of these
/// lines, and how many more there are. `None` if there are no lines.
pub(super) fn note_of(lines: &[String]) -> Option<Message> {
    let earlier = lines.len().saturating_sub(MOST_LISTED);
    let not_shown = format!("- and {earlier} earlier calls, not shown here");
    let not_shown = Some(&*not_shown).filter(|_| earlier > 0);
    let shown = lines.iter().skip(earlier).map(String::as_str);
    let text: Vec<_> = [NOTE].into_iter().chain(not_shown).chain(shown).collect();
    (!lines.is_empty()).then(|| note(text.join("\n")))
}

/// Shortens the note to one line, for a prompt without room for more; returns false if it was not
/// longer.
pub(super) fn shorten(note: &mut Message) -> bool {
    const SHORT: &str = "(Other turns of this conversation have begun calls. Don't repeat them.)";
    let is_longer = note.text() != SHORT;
    if is_longer {
        *note = self::note(SHORT);
    }
    is_longer
}

/// A note begins no turn.
fn note(text: impl Into<Content>) -> Message {
    Message::User(UserMessage::new(text).steered())
}

const NOTE: &str = "(Begun earlier in this conversation, by other turns. Don't do it again.)";

/// The most calls that the note lists.
const MOST_LISTED: usize = 10;

impl fmt::Debug for UnfinishedCall {
    /// Names the call, not its arguments.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnfinishedCall")
            .field("call_id", &self.call_id)
            .field("tool", &self.tool)
            .field("needs_approval", &self.needs_approval)
            .field("has_result", &self.result.is_some())
            .finish_non_exhaustive()
    }
}

impl UnfinishedCall {
    fn of(call: &ToolCall, result: Option<&ToolMessage>, needs_approval: bool) -> Self {
        Self {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            arguments: call.arguments.clone(),
            needs_approval,
            result: result.map(|it| match it.content().text() {
                text if text.is_empty() => in_words(0, it.content().parts()),
                text => text.into_owned(),
            }),
        }
    }

    fn line(&self) -> String {
        let Self { tool, arguments, needs_approval, result, .. } = self;
        let (tool, arguments) = (one_line(tool), one_line(arguments));
        let what = match result {
            None if *needs_approval => "has not run, it waits for somebody's approval".to_owned(),
            None => "its outcome is not known yet".to_owned(),
            Some(result) => format!("its result is {:?}", short(result)),
        };
        format!("- {tool} {arguments}: {what}")
    }
}

/// Returns the text on one line, cut to [`MOST`] characters.
fn one_line(text: &str) -> String {
    short(text).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

fn short(text: &str) -> String {
    let kept = first(text, MOST);
    format!("{kept}{}", if kept.len() < text.len() { "…" } else { "" })
}

/// The most characters of arguments or a result that are shown.
const MOST: usize = 200;
