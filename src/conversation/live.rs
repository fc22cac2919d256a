//! The turns that run, and their followers.

use std::fmt;
use std::sync::Arc;
#[cfg(feature = "async")]
use std::task::Poll;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::watched::Watched;
use crate::error::Result;
use crate::memory::MemoryId;
use crate::message::{Message, fnv1a_on};
use crate::turn::{Done, Ended, Turn};
use crate::wire::Event;

/// The turns that run in this process. Any number of pages can
/// [follow](super::Conversation::follow) them: a page that was reloaded in the middle of an answer
/// goes on after the last event that it has seen, and a second tab sees the same events.
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
    pub(super) broadcast: Broadcast,
    pub(super) turn: Turn,
}

/// A follower of a turn: it receives event by event until the turn ends.
#[derive(Clone, Debug)]
pub struct Follower {
    log: Arc<Log>,
    next: usize,
    /// The bytes that it has already seen of the next event.
    seen: usize,
}

/// An event of a turn for a page: the parts of a server-sent event.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Told {
    /// The id, after which a follower [goes on](super::Conversation::follow): that of the turn, the
    /// number of bytes of text up to the end of this event, and a hash of that text. After an
    /// `error` there is no text: the next answer of the turn is told from its beginning.
    pub id: String,
    /// The name. `question` and `text` have a text each; a `question` after other events means that
    /// the turn is told again from its beginning, and it is empty if only the rest of a turn is
    /// stored. At the end comes either `done`, with how the turn [ended](Ended) and its usage (a
    /// stored turn shows only whether it was interrupted), or `error`, with the text of the error.
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
    state: Watched<State>,
}

#[derive(Debug, Default)]
struct State {
    told: Vec<Told>,
    /// The bytes of text in all events, and the hash of that text.
    bytes: usize,
    hash: u64,
    is_over: bool,
}

impl Log {
    fn new(of: MemoryId, turn: &str) -> Self {
        Self { of, turn: turn.to_owned(), state: Watched::default() }
    }

    /// Adds an event that says this text.
    fn tell(&self, says: &str, name: &'static str, data: Value) {
        self.state.change(|state| {
            state.bytes += says.len();
            state.hash = fnv1a_on(state.hash, says.bytes());
            let id = self.id(state.bytes, state.hash);
            state.told.push(Told { id, name, data });
        });
    }

    fn tell_text(&self, text: &str) {
        if !text.is_empty() {
            self.tell(text, "text", text.into());
        }
    }

    /// Tells what was asked and answered in these messages of the turn.
    fn tell_all(&self, messages: &[Message]) {
        let asked = messages.iter().take_while(|it| it.is_user());
        let question: Vec<_> = asked.map(Message::text).collect();
        self.tell("", "question", question.join("\n").into());
        let said = messages.iter().filter(|it| it.as_ai().is_some());
        said.for_each(|it| self.tell_text(&it.text()));
    }

    /// Tells the end of the turn. Its id is that of the stored text, even if another text was told,
    /// and counts one byte more: a follower with this id has seen everything. A turn that waits for
    /// a person goes on after its text, under the same id.
    fn tell_done(&self, done: &Done, data: Value) {
        let (said, more) = (said(done), usize::from(done.ended != Ended::Parked));
        let id = self.id(said.len() + more, fnv1a_on(0, said.bytes()));
        self.state.change(|state| state.told.push(Told { id, name: "done", data }));
    }

    /// Returns the id of an event that ends after this many bytes of text, with this hash.
    fn id(&self, bytes: usize, hash: u64) -> String {
        format!("{}.{bytes}.{hash:x}", self.turn)
    }

    fn follow(self: &Arc<Self>, next: usize, seen: usize) -> Follower {
        Follower { log: Arc::clone(self), next, seen }
    }

    /// Follows after the event of this id. `None` if the text up to there is not what is told here:
    /// an earlier process told it, and none of it was stored.
    fn behind(self: &Arc<Self>, last: &str) -> Option<Follower> {
        let state = self.state.lock();
        if let Some(place) = state.told.iter().position(|it| it.id == last) {
            return Some(self.follow(place + 1, 0));
        }
        // Within a text that is one event here.
        let (_, bytes) = place(last)?;
        let (mut seen, mut hash) = (bytes, 0);
        for (next, told) in state.told.iter().enumerate() {
            let text = told.data.as_str().filter(|_| told.name == "text").unwrap_or_default();
            if seen < text.len() {
                hash = fnv1a_on(hash, text.get(..seen)?.bytes());
                return (last == self.id(bytes, hash)).then(|| self.follow(next, seen));
            }
            hash = fnv1a_on(hash, text.bytes());
            seen -= text.len();
        }
        None
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
        log.tell_all(turn.messages());
        self.0.lock().push(Arc::clone(&log));
        Telling { broadcast: Broadcast { live: self.clone(), log }, turn }
    }

    /// Follows all turns that run, of all conversations: wait for these before the process ends.
    pub fn turns(&self) -> Vec<Follower> {
        self.0.lock().iter().map(|log| log.follow(0, 0)).collect()
    }

    pub(super) fn running(&self, of: &MemoryId, last: Option<&str>) -> Option<Follower> {
        let logs = self.0.lock();
        let turns = || logs.iter().filter(|it| it.of == *of);
        let turn = match last {
            Some(last) => place(last)?.0,
            None => &turns().next_back()?.turn,
        };
        // If a request comes twice, the first one is answered, and the second one is `Busy`.
        let mut runs = turns().filter(|it| it.turn == turn);
        let behind = last.and_then(|last| runs.clone().find_map(|it| it.behind(last)));
        behind.or_else(|| runs.next().map(|it| it.follow(0, 0)))
    }
}

/// Splits the id of an event into the turn and the number of bytes of text that were seen.
pub(super) fn place(id: &str) -> Option<(&str, usize)> {
    let (turn, bytes) = id.rsplit_once('.')?.0.rsplit_once('.')?;
    Some((turn, bytes.parse().ok()?))
}

impl Telling {
    /// Follows the turn from its beginning.
    pub fn follow(&self) -> Follower {
        self.broadcast.log.follow(0, 0)
    }
}

/// Marks a turn as running, until it is dropped.
#[derive(Debug)]
pub(super) struct Broadcast {
    live: Live,
    log: Arc<Log>,
}

impl Broadcast {
    pub(super) fn listener(&self) -> impl FnMut(Event) + Send + 'static {
        let log = Arc::clone(&self.log);
        move |event| {
            if let Event::Text(piece) | Event::Refusal(piece) = event {
                log.tell_text(&piece);
            }
        }
    }

    pub(super) fn end(&self, done: &Result<Done>) {
        match done {
            Ok(done) => {
                let is_of_another = matches!(done.ended, Ended::Adopted | Ended::Parked);
                if is_of_another && self.log.state.lock().bytes == 0 {
                    self.log.tell_text(&said(done)); // what is kept in the place of this turn
                }
                self.log.tell_done(done, json!({"ended": done.ended, "usage": done.usage}));
            }
            Err(error) => {
                // Afterwards this id belongs to whatever is said next under it: by the same
                // request, if that came before, or by its retry.
                self.log.state.change(|state| (state.bytes, state.hash) = (0, 0));
                self.log.tell("", "error", error.to_string().into());
            }
        }
    }
}

/// Returns the text of the answers of a turn.
fn said(done: &Done) -> String {
    done.messages.iter().filter(|it| it.as_ai().is_some()).map(Message::text).collect()
}

impl Drop for Broadcast {
    fn drop(&mut self) {
        self.live.0.lock().retain(|it| !Arc::ptr_eq(it, &self.log));
        self.log.state.change(|state| state.is_over = true);
    }
}

impl Follower {
    /// Follows a stored turn after the event of this id; `None` if that was its last one.
    pub(super) fn of_stored(of: &MemoryId, turn: &str, last: &str, stored: &Done) -> Option<Self> {
        let log = Arc::new(Log::new(of.clone(), turn));
        log.tell_all(&stored.messages);
        let ended = if stored.is_broken() { Ended::Interrupted } else { Ended::Answered };
        log.tell_done(stored, json!({ "ended": ended }));
        log.state.change(|state| state.is_over = true);
        let follower = log.behind(last).unwrap_or_else(|| log.follow(0, 0));
        follower.wait(follower.next).map(|_| follower)
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
        Some(self.rest_of(told))
    }

    /// Returns the unseen part of its next event.
    fn rest_of(&mut self, mut told: Told) -> Told {
        if let Value::String(text) = &mut told.data {
            *text = text.get(std::mem::take(&mut self.seen)..).unwrap_or_default().to_owned();
        }
        self.next += 1;
        told
    }

    fn wait(&self, place: usize) -> Option<Told> {
        let waits = |state: &mut State| state.told.len() <= place && !state.is_over;
        self.log.state.wait(Duration::MAX, waits).told.get(place).cloned()
    }

    #[cfg(feature = "async")]
    async fn wait_async(&self, place: usize) -> Option<Told> {
        let watched = self.log.state.watch(|_| {
            let state = self.log.state.lock();
            match state.told.get(place) {
                None if !state.is_over => Poll::Pending,
                told => Poll::Ready(told.cloned()),
            }
        });
        watched.await
    }
}

impl Iterator for Follower {
    type Item = Told;

    /// Waits for the next event; `None` when the turn has ended.
    fn next(&mut self) -> Option<Told> {
        let told = self.wait(self.next)?;
        Some(self.rest_of(told))
    }
}
