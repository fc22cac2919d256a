//! Pins of a prompt: records that are always sent, kept in a slot of the memory.

use super::{MemoryPrompt, must_keep_slots, not_built, settings};
use crate::error::{ErrorKind, Result};
use crate::memory::{Append, ChatMemory, Expected, Limits, Read};
use crate::pins::{Pins, SLOT, around};
use crate::record::{Slot, Snapshot};

settings! {
    /// Also sends the pinned messages of the conversation, independent of the window and the
    /// budget.
    ///
    /// [`pin`](MemoryPrompt::pin) keeps them in the memory, so that every process sees them. A
    /// prompt without this setting sends none, and reads no more than before. So build all prompts
    /// of a conversation the same way.
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
    /// - **Its place.** While the window sends a pinned message, it stays where it is, and counts
    ///   for the window. Once the window has passed it, it comes after the system message, in the
    ///   order of positions, and counts for no window. The cached prefix changes then, once.
    /// - **A tool group** is pinned whole, by any of its messages. A late result is pinned too, up
    ///   to 256 messages after its call. A later one is not looked for: the call is sent with [a
    ///   result that says that none was recorded](crate::Report::repaired).
    /// - **A budget** counts pins before anything else. If they leave no room for the newest
    ///   messages, the build returns an error that names them.
    /// - **Truncation** shortens a long pinned message like any other, with
    ///   [`Budget::cut_before_drop`](crate::Budget::cut_before_drop) before anything else is left
    ///   out; a message that its processor drops is not sent.
    /// - **Forgotten messages are not sent**: evicted and cleared ones, and those of a conversation
    ///   that was deleted. The [report](crate::Report::lost_pins) names evicted ones.
    fn with_pins();
}

#[derive(Clone, Copy)]
enum PinChange {
    Pin(u64),
    Unpin(u64),
}

/// The most attempts at a change of pins while others append.
const TRIES: u32 = 64;

impl PinChange {
    /// Returns the read that the change is based on.
    fn read(self) -> Read {
        let (Self::Pin(position) | Self::Unpin(position)) = self;
        // The newest record shows whether the conversation is still the same.
        Read::newest(1).slots([SLOT]).positions(around(position)).references()
    }

    /// Returns the positions that the change pins, and the append; `None` if there is nothing to
    /// do.
    fn made(self, seen: &Snapshot, limits: &Limits) -> Result<(Vec<u64>, Option<Append>)> {
        let before = Pins::of(seen)?;
        let mut pins = before.clone();
        let members = match self {
            Self::Pin(position) => pins.add(position, seen)?,
            Self::Unpin(position) if pins.remove(position, seen) => Vec::new(),
            Self::Unpin(_) => return Ok((Vec::new(), None)),
        };
        if pins == before {
            return Ok((members, None));
        }
        let version = seen.slot(SLOT).map(Slot::version);
        let expected = version.map_or(Expected::Absent, Expected::Is);
        let append = match pins.content()? {
            Some(content) => Append::default().set_slot(SLOT, content, expected),
            None => Append::default().remove_slot(SLOT, expected),
        };
        // Such a memory knows its incarnation, and what was forgotten.
        let append = if limits.recognises_ids() { append.since(seen) } else { append };
        Ok((members, Some(append)))
    }
}

macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*]) => {
        impl MemoryPrompt<$over> {
            /// Pins the message at this position, with its whole tool group; returns the positions
            /// that this pins. A message that is pinned already stays pinned.
            ///
            /// The prompt must [send pins](Self::with_pins). Pinning is idempotent: after an error,
            /// call this again.
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`] if the prompt sends no pins, if the memory holds no message
            /// at this position, and for messages that are never sent: system messages, those of
            /// the application, results that answer no call among the 256 messages before them.
            /// [`ErrorKind::Unsupported`] if the memory has no slots, and every other error of
            /// [`ChatMemory::append_with`].
            pub $($async)* fn pin(&self, position: u64) -> Result<Vec<u64>> {
                Ok(self.changed(PinChange::Pin(position))$($now)*?.0)
            }

            /// Unpins the message at this position, with its whole tool group; returns false if it
            /// was not pinned.
            ///
            /// A [summary](Self::with_summary) that was written while the message was pinned covers
            /// it, but never mentions it: only [recall](crate::recall) finds it.
            ///
            /// # Errors
            ///
            /// As [`pin`](Self::pin), except for positions without a message: an evicted message
            /// can be unpinned.
            pub $($async)* fn unpin(&self, position: u64) -> Result<bool> {
                Ok(self.changed(PinChange::Unpin(position))$($now)*?.1)
            }

            /// Makes a change of pins, and retries if others were faster; returns the positions
            /// that it pins, and whether there was anything to change.
            $($async)* fn changed(&self, change: PinChange) -> Result<(Vec<u64>, bool)> {
                let limits = self.memory.limits();
                if !self.composer.sends_pins() {
                    return Err(not_built("pin", "sends no pins", "with_pins"));
                }
                must_keep_slots("pin", &limits)?;
                let read = change.read();
                let mut tries = 0;
                loop {
                    let seen = self.memory.read_with(&read)$($now)*?;
                    let (members, append) = change.made(&seen, &limits)?;
                    let Some(mut append) = append else { return Ok((members, false)) };
                    let Err(error) = self.memory.append_with(&mut append)$($now)* else {
                        return Ok((members, true));
                    };
                    tries += 1;
                    match error.kind() {
                        ErrorKind::SlotConflict | ErrorKind::Forgotten if tries < TRIES => {}
                        _ => return Err(error),
                    }
                }
            }

            /// Returns the positions of all pinned messages that the memory still holds, ascending,
            /// tool groups whole. A prompt that sends no pins can call this too.
            ///
            /// # Errors
            ///
            /// As [`ChatMemory::read_with`], and [`ErrorKind::Codec`] if other code has written the
            /// slot `prompt:pins`.
            pub $($async)* fn pins(&self) -> Result<Vec<u64>> {
                let slot = self.memory.limits().has_slots().then_some(SLOT);
                let mut read = Read::newest(0).slots(slot).references();
                loop {
                    let snapshot = self.memory.read_with(&read)$($now)*?;
                    let pins = Pins::of(&snapshot)?;
                    let wanted = pins.unread(&snapshot);
                    if wanted.iter().all(|position| read.positions.contains(position)) {
                        return Ok(pins.shown_by(&snapshot).members().to_vec());
                    }
                    read.positions = wanted;
                }
            }
        }
    };
}

over!(dyn ChatMemory, [], []);
#[cfg(feature = "async")]
over!(dyn crate::memory::AsyncChatMemory, [async], [.await]);
