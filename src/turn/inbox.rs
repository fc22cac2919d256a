//! The calls that are pending approval, in all conversations of a store.

use super::state::{PREFIX, slot_of};
use super::unfinished::{Unfinished, Waiting};
use crate::error::Result;
use crate::memory::MemoryId;
use crate::record::Slot;
#[cfg(feature = "async")]
use crate::store::AsyncChatMemoryStore;
use crate::store::ChatMemoryStore;

/// The calls that are pending approval in the conversations of a [`ChatMemoryStore`]: the inbox of
/// the person who decides. Implemented for every store; do not implement it yourself.
pub trait Inbox: ChatMemoryStore {
    /// Returns the pending calls of the conversations whose ids begin with this prefix: those of
    /// the first `n` turns, or of the next `n` turns after that of the call `after`. An empty page
    /// is the end.
    ///
    /// This reads no history. It skips turns that a later version of this crate has written.
    ///
    /// ```
    /// use memory_prompt::conversation::{Conversation, Scripted};
    /// use memory_prompt::turn::Inbox;
    /// use memory_prompt::{InMemoryStore, MemoryPrompt, Tool};
    /// use serde_json::json;
    ///
    /// let store = InMemoryStore::new();
    /// let chat = |id: &str, model: Scripted| -> memory_prompt::Result<Conversation> {
    ///     let prompt = MemoryPrompt::new(store.memory(id)?);
    ///     let pay = Tool::new("pay", "Pays.").needing_approval();
    ///     Ok(Conversation::new(prompt, model).tool(pay, |_: serde_json::Value| Ok("paid")))
    /// };
    /// for id in ["support:1", "support:2"] {
    ///     chat(id, Scripted::new().calls("pay", json!({"to": id})))?.say("Pay.")?;
    /// }
    ///
    /// let page = store.waiting("support:", None, 50)?; // the next one: after page.last()
    /// let (id, call) = &page[1];
    /// assert_eq!((id.as_str(), call.arguments.as_str()), ("support:2", r#"{"to":"support:2"}"#));
    /// let done = chat(id.as_str(), Scripted::new().says("It is paid."))?.approve(call)?;
    /// assert_eq!(done.text(), "It is paid.");
    /// assert!(store.waiting("support:", page.last(), 50)?.is_empty());
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`ChatMemoryStore::slots_with_prefix`].
    fn waiting(
        &self,
        prefix: &str,
        after: Option<&(MemoryId, Waiting)>,
        n: usize,
    ) -> Result<Vec<(MemoryId, Waiting)>> {
        let mut found = Found::after(after, n);
        while found.left > 0 {
            found.add_slots(self.slots_with_prefix(prefix, PREFIX, found.last(), AT_ONCE)?);
        }
        Ok(found.calls)
    }
}

impl<S: ChatMemoryStore + ?Sized> Inbox for S {}

/// The async twin of [`Inbox`].
#[cfg(feature = "async")]
pub trait AsyncInbox: AsyncChatMemoryStore {
    /// Returns the pending calls of the conversations whose ids begin with this prefix: those of
    /// the first `n` turns, or of the next `n` turns after that of the call `after`. An empty page
    /// is the end.
    ///
    /// # Errors
    ///
    /// As [`Inbox::waiting`].
    fn waiting(
        &self,
        prefix: &str,
        after: Option<&(MemoryId, Waiting)>,
        n: usize,
    ) -> impl Future<Output = Result<Vec<(MemoryId, Waiting)>>> + Send {
        async move {
            let mut found = Found::after(after, n);
            while found.left > 0 {
                found.add_slots(
                    self.slots_with_prefix(prefix, PREFIX, found.last(), AT_ONCE).await?,
                );
            }
            Ok(found.calls)
        }
    }
}

#[cfg(feature = "async")]
impl<S: AsyncChatMemoryStore + ?Sized> AsyncInbox for S {}

const AT_ONCE: usize = 64;

struct Found {
    calls: Vec<(MemoryId, Waiting)>,
    /// The conversation and the slot after which the search continues.
    last: Option<(MemoryId, String)>,
    /// The number of turns that are still wanted.
    left: usize,
}

impl Found {
    fn after(after: Option<&(MemoryId, Waiting)>, n: usize) -> Self {
        let last = after.map(|(id, call)| (id.clone(), slot_of(&call.turn)));
        Self { calls: Vec::new(), last, left: n }
    }

    fn last(&self) -> Option<(&MemoryId, &str)> {
        self.last.as_ref().map(|(id, name)| (id, name.as_str()))
    }

    /// Adds the calls of these slots. A turn without a pending call is skipped.
    fn add_slots(&mut self, slots: Vec<(MemoryId, Slot)>) {
        let is_last = slots.len() < AT_ONCE;
        for (id, slot) in slots {
            if self.left == 0 {
                return;
            }
            let waiting = Unfinished::of(&slot).map_or(Vec::new(), |turn| turn.waiting());
            self.left -= usize::from(!waiting.is_empty());
            self.calls.extend(waiting.into_iter().map(|call| (id.clone(), call)));
            self.last = Some((id, slot.name().to_owned()));
        }
        if is_last {
            self.left = 0;
        }
    }
}
