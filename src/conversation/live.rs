//! The turns that run, and their followers.

use std::fmt;
use std::sync::Arc;
use std::task::Waker;
#[cfg(feature = "async")]
use std::{future::poll_fn, task::Poll};

use parking_lot::{Condvar, Mutex};
use serde_json::{Value, json};

use crate::error::Result;
use crate::memory::MemoryId;
use crate::message::Message;
use crate::turn::{Done, Ended, Turn};
use crate::wire::Event;

/// The turns that run in this process. Any number of pages [follow](super::Conversation::follow)
/// them: a page that was reloaded in the middle of an answer goes on after the last event that it
/// has seen, and a second tab sees the same events.
///
/// The events of a turn are kept until the turn is stored; from then on they are made from the
/// stored messages. Clones share the turns.
///
/// ```
/// use memory_prompt::conversation::{Conversation, Live, Scripted};
/// use memory_prompt::memory::MemoryId;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt};
///
/// let (live, ada) = (Live::new(), MemoryId::from("ada"));
/// let prompt = MemoryPrompt::new(DefaultChatMemory::new());
/// let chat = Conversation::new(prompt, Scripted::new().says("In Norway."));
///
/// let turn = live.begin(ada.clone(), "Where is Oslo?");
/// let mut tab = turn.follow();
/// chat.tell(turn)?; // on its own thread: a tab that is closed loses no answer
/// let question = tab.next().unwrap();
/// assert_eq!((question.name, question.data), ("question", "Where is Oslo?".into()));
/// let seen = tab.next().unwrap();
/// assert_eq!((seen.name, seen.data), ("text", "In ".into()));
///
/// // It is reloaded, and sends the id of the last event that it saw as `Last-Event-ID`.
/// let rest: Vec<_> = chat.follow(&live, &ada, Some(&seen.id))?.unwrap().collect();
/// assert_eq!((rest[0].name, &rest[0].data), ("text", &"Norway.".into()));
/// assert_eq!((rest[1].name, &rest[1].data["ended"]), ("done", &"answered".into()));
/// assert!(chat.follow(&live, &ada, Some(&rest[1].id))?.is_none()); // all was seen
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Live(Arc<Mutex<Vec<Arc<Log>>>>);

/// A turn whose events go to its followers. Dropping it ends the turn for them.
#[derive(Debug)]
pub struct Telling {
    pub(super) runs: Runs,
    pub(super) turn: Turn,
}

/// A follower of a turn: it receives event by event until the turn ends.
#[derive(Clone, Debug)]
pub struct Follower {
    log: Arc<Log>,
    next: usize,
}

/// An event of a turn for a page: the parts of a server-sent event.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// The id, after which a follower [goes on](super::Conversation::follow): that of the turn, and
    /// the number of bytes of text up to the end of this event. After an `error` that is 0: the
    /// next answer of the turn is told from its beginning.
    pub id: String,
    /// The name: `question` and `text`, each with a text; and at the end either `done`, with how
    /// the turn [ended](Ended) and its usage (a stored turn shows only whether it was interrupted),
    /// or `error`, with the text of the error.
    pub name: &'static str,
    /// The content, as JSON.
    pub data: Value,
}

impl fmt::Debug for Told {
    /// Shows its place, not what was said.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Told")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Log {
    of: MemoryId,
    turn: String,
    state: Mutex<State>,
    came: Condvar,
}

#[derive(Debug, Default)]
struct State {
    told: Vec<Told>,
    /// The bytes of text in all events.
    bytes: usize,
    is_over: bool,
    wakers: Vec<Waker>,
}

impl Log {
    fn new(of: MemoryId, turn: &str) -> Self {
        Self { of, turn: turn.to_owned(), state: Mutex::default(), came: Condvar::new() }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let wakers = std::mem::take(&mut state.wakers);
        drop(state);
        self.came.notify_all();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Adds an event, with so many more bytes of text than the one before.
    fn tell(&self, bytes: usize, name: &'static str, data: Value) {
        self.change(|state| {
            state.bytes += bytes;
            let id = format!("{}.{}", self.turn, state.bytes);
            state.told.push(Told { id, name, data });
        });
    }

    fn tell_text(&self, text: String) {
        if !text.is_empty() {
            self.tell(text.len(), "text", text.into());
        }
    }

    fn behind(self: &Arc<Self>, last: Option<&str>) -> Option<Follower> {
        let state = self.state.lock();
        let place = |last| state.told.iter().position(|it| it.id == last);
        let next = last.map_or(Some(0), |last| Some(place(last)? + 1))?;
        Some(Follower { log: Arc::clone(self), next })
    }
}

impl Live {
    /// Returns a value without turns.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a turn of this conversation that can be followed; [`tell`](super::Conversation::tell)
    /// runs it.
    pub fn begin(&self, of: impl Into<MemoryId>, turn: impl Into<Turn>) -> Telling {
        let turn = turn.into();
        let log = Arc::new(Log::new(of.into(), turn.id()));
        let asked = turn.messages().iter().take_while(|it| it.is_user());
        let question: Vec<_> = asked.map(Message::text).collect();
        log.tell(0, "question", question.join("\n").into());
        let said = turn.messages().iter().filter(|it| it.as_ai().is_some());
        said.for_each(|it| log.tell_text(it.text().into_owned()));
        self.0.lock().push(Arc::clone(&log));
        Telling { runs: Runs { live: self.clone(), log }, turn }
    }

    /// Follows all turns that run, of all conversations: wait for these before the process ends.
    pub fn turns(&self) -> Vec<Follower> {
        self.0.lock().iter().filter_map(|log| log.behind(None)).collect()
    }

    pub(super) fn running(&self, of: &MemoryId, last: Option<&str>) -> Option<Follower> {
        let logs = self.0.lock();
        let turns = || logs.iter().filter(|it| it.of == *of);
        let turn = match last {
            Some(last) => place(last)?.0,
            None => &turns().next_back()?.turn,
        };
        // If a request comes twice, the first one is answered, and the second one is told `Busy`.
        turns().filter(|it| it.turn == turn).find_map(|it| it.behind(last))
    }
}

/// Splits the id of an event into the turn and the number of bytes of text that were seen.
pub(super) fn place(id: &str) -> Option<(&str, usize)> {
    let (turn, bytes) = id.rsplit_once('.')?;
    Some((turn, bytes.parse().ok()?))
}

impl Telling {
    /// Follows the turn from its beginning.
    pub fn follow(&self) -> Follower {
        Follower { log: Arc::clone(&self.runs.log), next: 0 }
    }
}

/// Marks a turn as running, until it is dropped.
#[derive(Debug)]
pub(super) struct Runs {
    live: Live,
    log: Arc<Log>,
}

impl Runs {
    pub(super) fn hear(&self) -> impl FnMut(Event) + Send + 'static {
        let log = Arc::clone(&self.log);
        move |event| {
            if let Event::Text(piece) | Event::Refusal(piece) = event {
                log.tell_text(piece);
            }
        }
    }

    pub(super) fn end(&self, done: &Result<Done>) {
        match done {
            Ok(done) => {
                // A turn that waits for a person goes on after its text, under the same id.
                let mut end = usize::from(done.ended != Ended::Parked);
                if done.ended == Ended::Adopted {
                    // What is stored in the place of this turn, unless its own text was told.
                    let (said, told) = (said(done), self.log.state.lock().bytes);
                    if told == 0 {
                        self.log.tell_text(said);
                    } else {
                        end += said.len().saturating_sub(told);
                    }
                }
                self.log.tell(end, "done", json!({"ended": done.ended, "usage": done.usage}));
            }
            Err(error) => {
                // Behind it begins whatever is said next under this id: by the same request, if
                // that came before, or by its retry.
                self.log.change(|state| state.bytes = 0);
                self.log.tell(0, "error", error.to_string().into());
            }
        }
    }
}

/// Returns the text of the answers of a turn.
fn said(done: &Done) -> String {
    done.messages.iter().filter(|it| it.as_ai().is_some()).map(Message::text).collect()
}

impl Drop for Runs {
    fn drop(&mut self) {
        self.live.0.lock().retain(|it| !Arc::ptr_eq(it, &self.log));
        self.log.change(|state| state.is_over = true);
    }
}

impl Follower {
    /// Follows a stored turn after so many bytes of its text.
    pub(super) fn of_stored(of: &MemoryId, turn: &str, seen: usize, stored: &Done) -> Option<Self> {
        let said = said(stored);
        let log = Log::new(of.clone(), turn);
        log.change(|state| (state.bytes, state.is_over) = (seen, true));
        log.tell_text(said.get(seen..)?.to_owned());
        let ended = if stored.is_broken() { Ended::Interrupted } else { Ended::Answered };
        log.tell(1, "done", json!({ "ended": ended }));
        Some(Self { log: Arc::new(log), next: 0 })
    }

    /// Waits until the model of a running turn has begun to answer; returns false if the turn
    /// failed before.
    pub fn begins(&self) -> bool {
        self.wait(1).is_some_and(|it| it.name != "error")
    }

    /// Does what [`begins`](Self::begins) does, in async code.
    #[cfg(feature = "async")]
    pub async fn begins_async(&self) -> bool {
        self.wait_async(1).await.is_some_and(|it| it.name != "error")
    }

    /// Does what [`next`](Iterator::next) does, in async code.
    #[cfg(feature = "async")]
    pub async fn next_async(&mut self) -> Option<Told> {
        let told = self.wait_async(self.next).await?;
        self.next += 1;
        Some(told)
    }

    fn wait(&self, place: usize) -> Option<Told> {
        let mut state = self.log.state.lock();
        let waits = |state: &mut State| state.told.len() <= place && !state.is_over;
        self.log.came.wait_while(&mut state, waits);
        state.told.get(place).cloned()
    }

    #[cfg(feature = "async")]
    async fn wait_async(&self, place: usize) -> Option<Told> {
        poll_fn(|context| {
            let mut state = self.log.state.lock();
            if state.told.len() > place || state.is_over {
                return Poll::Ready(state.told.get(place).cloned());
            }
            state.wakers.retain(|it| !it.will_wake(context.waker()));
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl Iterator for Follower {
    type Item = Told;

    /// Waits for the next event; `None` when the turn has ended.
    fn next(&mut self) -> Option<Told> {
        let told = self.wait(self.next)?;
        self.next += 1;
        Some(told)
    }
}
