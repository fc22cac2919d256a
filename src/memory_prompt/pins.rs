//! Pins of a prompt: what is always sent, kept in a slot of the memory.

use super::MemoryPrompt;
use crate::compose::Composer;
use crate::error::{Error, ErrorKind, Result};
use crate::memory::{Append, Appended, ChatMemory, Expected, Limits, Read, unsupported};
use crate::pins::{Pins, SLOT, around};
use crate::record::{Slot, Snapshot};

impl<M: ?Sized> MemoryPrompt<M> {
    /// Sends the pinned messages of the conversation too, whatever the window and the budget hold.
    ///
    /// [`pin`](MemoryPrompt::pin) keeps them in the memory, so that every process sees them. A
    /// prompt that is built without this sends none: it reads no more than it ever did. So build
    /// all prompts of a conversation the same way.
    ///
    /// ```
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(2).with_pins();
    /// let position = prompt.add(Message::user("I am allergic to nuts."))?;
    /// prompt.pin(position)?;
    /// prompt.add_all((0..20).map(|i| Message::user(format!("part {i}"))))?;
    ///
    /// let built = prompt.build()?;
    /// let texts: Vec<_> = built.iter().map(|message| message.text()).collect();
    /// assert_eq!(texts, ["I am allergic to nuts.", "part 18", "part 19"]);
    /// assert_eq!(built.report().pinned_before, [position]);
    ///
    /// assert!(prompt.unpin(position)?);
    /// assert_eq!(prompt.build()?.len(), 2);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    ///
    /// - **Its place.** While the window sends a pinned message it stays where it is, and counts
    ///   for the window. Once the window has passed it, it stands behind the system message, in the
    ///   order of positions, and counts for no window. The cached prefix moves then, once.
    /// - **A tool group** is pinned whole, by whichever of its messages. A result that comes late
    ///   is pinned too, up to 256 messages behind its call: one that comes later is not looked for,
    ///   and the call is sent with [a result that says that none was
    ///   recorded](crate::Report::repaired).
    /// - **A budget** counts pins before it counts anything else. Where they leave no room for the
    ///   newest messages the build is an error that names them.
    /// - **Truncation** shortens a long pinned message as any other, with
    ///   [`Budget::cut_before_drop`](crate::Budget::cut_before_drop) before anything else is left
    ///   out, and what its processor drops is not sent.
    /// - **What is forgotten is not sent**: evicted and cleared messages, and those of a
    ///   conversation that was deleted. The [report](crate::Report::lost_pins) names evicted ones.
    #[must_use]
    pub fn with_pins(self) -> Self {
        self.with(Composer::with_pins)
    }

    /// Begins a change of pins.
    pub(super) fn pinning(&self, limits: &Limits, change: PinChange) -> Result<Pinning> {
        if !self.composer.sends_pins() {
            let text = "this prompt sends no pins: build it, and all others of the conversation, \
                        `with_pins`";
            return Err(Error::invalid("pin", text));
        }
        if !limits.has_slots() {
            return Err(unsupported("pin", "slots", "append_with"));
        }
        let recognises = limits.recognises_ids();
        Ok(Pinning { change, recognises, tries: 0, is_written: false, members: Vec::new() })
    }
}

/// A change to the pins of a conversation.
#[derive(Clone, Copy)]
pub(super) enum PinChange {
    Pin(u64),
    Unpin(u64),
}

/// A change of pins, which is made on what others have pinned meanwhile.
pub(super) struct Pinning {
    change: PinChange,
    /// True if the memory knows its incarnation and what was forgotten.
    recognises: bool,
    tries: u32,
    pub(super) is_written: bool,
    /// The positions of what is pinned by the change.
    pub(super) members: Vec<u64>,
}

/// The most appends of others that a change of pins is made again for.
const TRIES: u32 = 64;

impl Pinning {
    /// Returns the read that the change is made on.
    pub(super) fn read(&self) -> Read {
        let (PinChange::Pin(position) | PinChange::Unpin(position)) = self.change;
        // The newest record tells whether the conversation is still the same.
        Read::newest(1).slots([SLOT]).positions(around(position))
    }

    /// Returns what is to be appended; `None` if there is nothing to do.
    pub(super) fn append(&mut self, snapshot: &Snapshot) -> Result<Option<Append>> {
        let before = Pins::of(snapshot)?;
        let mut pins = before.clone();
        match self.change {
            PinChange::Pin(position) => self.members = pins.add(position, snapshot)?,
            PinChange::Unpin(position) => {
                if !pins.remove(position, snapshot) {
                    return Ok(None);
                }
            }
        }
        if pins == before {
            return Ok(None);
        }
        let version = snapshot.slot(SLOT).map(Slot::version);
        let expected = version.map_or(Expected::Absent, Expected::Is);
        let append = match pins.content()? {
            Some(content) => Append::default().set_slot(SLOT, content, expected),
            None => Append::default().remove_slot(SLOT, expected),
        };
        Ok(Some(if self.recognises { append.since(snapshot) } else { append }))
    }

    /// Takes the outcome of the append. Where others were faster it is to be tried again, on a new
    /// read.
    pub(super) fn wrote(&mut self, outcome: Result<Appended>) -> Result<()> {
        let Err(error) = outcome else {
            self.is_written = true;
            return Ok(());
        };
        self.tries += 1;
        let is_raced = matches!(error.kind(), ErrorKind::SlotConflict | ErrorKind::Forgotten);
        if is_raced && self.tries < TRIES { Ok(()) } else { Err(error) }
    }
}

/// Returns the read that shows the pins, if the memory has slots.
pub(super) fn read_pins(limits: &Limits) -> Read {
    Read::newest(0).slots(limits.has_slots().then_some(SLOT))
}

/// Returns the positions of what is pinned; `None` if the read, which is changed, is to be made
/// once more.
pub(super) fn pinned(read: &mut Read, snapshot: &Snapshot) -> Result<Option<Vec<u64>>> {
    let pins = Pins::of(snapshot)?;
    let wanted = pins.unread(snapshot);
    if wanted.iter().any(|position| !read.positions.contains(position)) {
        read.positions = wanted;
        return Ok(None);
    }
    Ok(Some(pins.shown_by(snapshot).members().to_vec()))
}

impl MemoryPrompt<dyn ChatMemory> {
    /// Pins the message at this position, and with it the whole of its tool group; returns the
    /// positions of what is pinned by it. What is pinned already stays pinned.
    ///
    /// The prompt must [send pins](Self::with_pins). It is safe to call again after an error.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Invalid`] where the prompt sends no pins, where the memory holds no message at
    /// this position, and for messages that are never sent: system messages, those of the
    /// application, results that answer no call. [`ErrorKind::Unsupported`] where the memory has no
    /// slots, and whatever else [`ChatMemory::append_with`] returns.
    pub fn pin(&self, position: u64) -> Result<Vec<u64>> {
        Ok(self.changed(PinChange::Pin(position))?.members)
    }

    /// Unpins the message at this position, and with it the whole of its tool group; returns false
    /// where it was not pinned.
    ///
    /// A [summary](Self::with_summary) that was written while it was pinned does not tell of it: it
    /// is covered then all the same, and [recall](crate::recall) finds it.
    ///
    /// # Errors
    ///
    /// As [`pin`](Self::pin), but for positions that hold no message: what was evicted can be
    /// unpinned.
    pub fn unpin(&self, position: u64) -> Result<bool> {
        Ok(self.changed(PinChange::Unpin(position))?.is_written)
    }

    /// Makes a change of pins, again where others were faster.
    fn changed(&self, change: PinChange) -> Result<Pinning> {
        let mut pinning = self.pinning(&self.memory.limits(), change)?;
        while !pinning.is_written {
            let snapshot = self.memory.read_with(&pinning.read())?;
            let Some(mut append) = pinning.append(&snapshot)? else { break };
            pinning.wrote(self.memory.append_with(&mut append))?;
        }
        Ok(pinning)
    }

    /// Returns the positions of all pinned messages that the memory still holds, ascending, tool
    /// groups whole. A prompt that sends no pins may ask too.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read_with`], and [`ErrorKind::Codec`] if somebody else has written the
    /// slot `prompt:pins`.
    pub fn pins(&self) -> Result<Vec<u64>> {
        let mut read = read_pins(&self.memory.limits());
        loop {
            let snapshot = self.memory.read_with(&read)?;
            if let Some(pinned) = pinned(&mut read, &snapshot)? {
                return Ok(pinned);
            }
        }
    }
}
