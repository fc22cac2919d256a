//! The server's side of a chat page: load, edit, answer anew, page through the variants, undo. All
//! branches lie in one conversation, and nothing that was said is rewritten.
//!
//! Run it with `cargo run --example chat_page`.

use std::sync::Arc;

use memory_prompt::conversation::Scripted;
use memory_prompt::record::Incarnation;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, Conversation, DefaultChatMemory, ErrorKind, MemoryPrompt, Result,
};

/// What a browser asks for. It sends along the branch that its page shows, so that a tab whose page
/// is out of date changes nothing.
#[derive(Clone, Copy)]
enum Asks {
    Say(&'static str),
    Edit(u64, &'static str),
    Regenerate,
    /// The number of the variant, and of the message under which it is chosen.
    Switch(u64, usize),
    Undo,
    Redo,
}

fn main() -> Result<()> {
    let memory: Arc<dyn ChatMemory> = Arc::new(DefaultChatMemory::with_id("ada"));
    let mut branch = None;
    for asks in [
        Asks::Say("Where is Oslo?"),
        Asks::Regenerate,
        Asks::Say("And Rome?"),
        Asks::Edit(2, "And Lima?"),
        Asks::Undo,
        Asks::Redo,
        Asks::Switch(1, 0),
    ] {
        branch = request(&memory, branch, asks)?;
    }

    // A tab that was left open shows a branch that is not the current one any more.
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).with_branches();
    let branches = prompt.branches()?;
    let left = branches.iter().find(|it| !it.is_current).map(|it| it.id);
    let refused = request(&memory, left, Asks::Undo).err();
    assert_eq!(refused.map(|error| error.kind()), Some(ErrorKind::SlotConflict));
    println!("{} messages are stored, and none was rewritten", memory.len()?);
    Ok(())
}

/// A request makes its own conversation: all that there is to know is in the memory.
fn request(
    memory: &Arc<dyn ChatMemory>,
    branch: Option<Incarnation>,
    asks: Asks,
) -> Result<Option<Incarnation>> {
    let prompt = MemoryPrompt::new(Arc::clone(memory)).with_branches_by(|view| match branch {
        Some(branch) => view.expecting(branch),
        None => view,
    });
    let conversation = Conversation::new(prompt, Scripted::new().says("It is far away."));
    let drawn = match asks {
        Asks::Say(question) => Some(conversation.say(question)?.positions.start),
        Asks::Edit(position, question) => {
            Some(conversation.edit(position, question)?.positions.start)
        }
        Asks::Regenerate => Some(conversation.regenerate()?.positions.start),
        Asks::Switch(position, number) => {
            conversation.switch(conversation.variants(position)?[number])?
        }
        Asks::Undo => conversation.undo()?,
        Asks::Redo => conversation.redo()?,
    };
    let page = conversation.page(None, 20)?;
    println!("drawn anew from {drawn:?} on:");
    for entry in page.entries.iter().rev() {
        let variants = match entry.variants {
            1 => String::new(),
            all => format!("  < {}/{all} >", entry.variant),
        };
        println!("  {} {}{variants}", entry.position, entry.message.text());
    }
    Ok(page.branch)
}
