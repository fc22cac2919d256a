//! The server's side of a chat page: load, edit, answer anew, page through the variants, undo. All
//! branches lie in one conversation, and nothing that was said is rewritten.
//!
//! Run it with `cargo run --example chat_page`.

use std::sync::Arc;

use memory_prompt::conversation::{Action, Scripted};
use memory_prompt::history::Page;
use memory_prompt::record::Incarnation;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, Conversation, DefaultChatMemory, ErrorKind, MemoryPrompt, Result,
};

fn main() -> Result<()> {
    let memory: Arc<dyn ChatMemory> = Arc::new(DefaultChatMemory::with_id("ada"));
    let first = request(&memory, None, Action::Say("Where is Oslo?".into()))?;
    let mut page = request(&memory, first.branch, Action::Regenerate)?;
    for action in [
        Action::Say("And Rome?".into()),
        Action::Edit(2, "And Lima?".into()),
        Action::Undo,
        Action::Redo,
        Action::Switch(page.entries[0].branches[0]), // the first answer
    ] {
        page = request(&memory, page.branch, action)?;
    }

    // A tab that was left open shows a branch that is not the current one any more.
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).with_branches();
    let branches = prompt.branches()?;
    let left = branches.iter().find(|it| !it.is_current).map(|it| it.id);
    let refused = request(&memory, left, Action::Undo).err();
    assert_eq!(refused.as_ref().map(memory_prompt::Error::kind), Some(ErrorKind::SlotConflict));
    assert_eq!(refused.map(|error| error.http_status()), Some(409));
    println!("{} messages are stored, and none was rewritten", memory.len()?);
    Ok(())
}

/// A request makes its own conversation: all that there is to know is in the memory. The browser
/// sends along the branch that its page shows, so that a tab whose page is out of date changes
/// nothing.
fn request(
    memory: &Arc<dyn ChatMemory>,
    branch: Option<Incarnation>,
    action: Action,
) -> Result<Page> {
    println!("{action:?}");
    let prompt = MemoryPrompt::new(Arc::clone(memory));
    let prompt = prompt.with_branches_by(|view| view.expecting(branch));
    let conversation = Conversation::new(prompt, Scripted::new().says("It is far away."));
    if let Some(turn) = conversation.act(action)? {
        conversation.stream(turn, |_| {})?; // or shown as it comes
    }
    let page = conversation.page(None, 20)?;
    for entry in page.entries.iter().rev() {
        let variants = match entry.variants {
            1 => String::new(),
            all => format!("  < {}/{all} >", entry.variant),
        };
        println!("  {} {}{variants}", entry.position, entry.message.text());
    }
    Ok(page)
}
