//! Messages to measure with.
#![allow(dead_code)] // each bench uses its own part

use memory_prompt::{ChatMemory, ChatMemoryExt, DefaultChatMemory, Message};

/// The `i`th message of a conversation: 300 ASCII characters, of the user and the model in turn.
pub(crate) fn message(i: u64) -> Message {
    let text = format!("message {i:0>292}");
    if i.is_multiple_of(2) { Message::user(text) } else { Message::ai(text) }
}

/// A memory that holds `n` of them.
pub(crate) fn remember(n: u64) -> DefaultChatMemory {
    let memory = DefaultChatMemory::new();
    for i in 0..n {
        memory.add(message(i)).unwrap();
    }
    memory
}

/// Appends `n` of them, in batches that every backend takes.
pub(crate) fn fill(memory: &dyn ChatMemory, n: u64) {
    for first in (0..n).step_by(1000) {
        memory.add_all((first..n.min(first + 1000)).map(message)).unwrap();
    }
}
