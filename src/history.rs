//! History: edit, regenerate, undo and branch, in one conversation in which nothing is rewritten.
//!
//! All branches of a conversation are in one memory, in the order in which they were said. A branch
//! is a list of ranges of positions, kept in a slot beside the records. A [`BranchView`] shows the
//! current one as a memory of its own. [The guide](crate::guide::history) has a chat page.
//!
//! ```
//! use memory_prompt::conversation::Scripted;
//! use memory_prompt::{Conversation, DefaultChatMemory, MemoryPrompt};
//!
//! let prompt = MemoryPrompt::new(DefaultChatMemory::new()).with_branches();
//! let model = Scripted::new().says("In Sweden.").says("In Norway.").says("In Italy.");
//! let conversation = Conversation::new(prompt, model);
//! conversation.say("Where is Oslo?")?;
//! conversation.regenerate()?; // another answer
//! conversation.edit(0, "Where is Rome?")?; // another question
//!
//! let page = conversation.page(None, 10)?;
//! let shown: Vec<_> = page.entries.iter().map(|it| (it.message.text(), it.variants)).collect();
//! assert_eq!(shown, [("In Italy.".into(), 1), ("Where is Rome?".into(), 2)]);
//!
//! assert_eq!(conversation.undo()?, Some(0)); // redraw the page from position 0 on
//! let page = conversation.page(None, 10)?;
//! let shown: Vec<_> = page.entries.iter().map(|it| (it.message.text(), it.variants)).collect();
//! assert_eq!(shown, [("In Norway.".into(), 2), ("Where is Oslo?".into(), 2)]);
//!
//! let variants = conversation.variants(1)?;
//! assert_eq!(conversation.switch(variants[0])?, Some(1));
//! assert_eq!(conversation.page(None, 1)?.entries[0].message.text(), "In Sweden.");
//! # Ok::<(), memory_prompt::Error>(())
//! ```

mod document;
mod page;
mod reading;
mod spans;
mod view;
mod writing;

use std::ops::Range;

use crate::record::Incarnation;
pub use page::{Entry, Page};
pub(crate) use reading::OWN;
pub use view::BranchView;

/// A variant: one of the messages that were said at the same point of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variant {
    /// The position, which all variants share.
    pub position: u64,
    /// The branch to switch to: of those that have this message, the one on which something was
    /// said last.
    pub branch: Incarnation,
    /// Its position in the memory that holds all branches; no other variant has the same.
    pub record: u64,
    /// True for the variant that the current branch has.
    pub is_current: bool,
}

/// A branch of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Branch {
    /// Its name, which is the incarnation of its snapshots.
    pub id: Incarnation,
    /// The branch that it was made on; `None` for the first one.
    pub parent: Option<Incarnation>,
    /// The positions of the messages that were said on it and on no earlier branch.
    pub own: Range<u64>,
    /// The positions of these messages in the memory that holds all branches.
    pub records: Vec<Range<u64>>,
    /// True for the current branch.
    pub is_current: bool,
}

/// The rule for an edit of a message in a tool group, after its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithinGroup {
    /// The message replaces the whole group, from its call on.
    #[default]
    Edge,
    /// It is an [`ErrorKind::Invalid`](crate::ErrorKind::Invalid).
    Fail,
}

impl From<Variant> for Incarnation {
    fn from(variant: Variant) -> Self {
        variant.branch
    }
}

impl From<&Branch> for Incarnation {
    fn from(branch: &Branch) -> Self {
        branch.id
    }
}
