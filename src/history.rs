//! History: edit, answer anew, undo and branch, in one conversation of which nothing is rewritten.
//!
//! All branches of a conversation lie in one memory, in the order in which they were said. A branch
//! is a list of ranges of positions, kept in a slot beside the records, and a [`BranchView`] shows
//! the current one as a memory of its own. [The guide](crate::guide::history) has a chat page.
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
//! assert_eq!(conversation.undo()?, Some(0)); // drawn anew from the first message on
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

/// A message that was said in the place of another one, or that one itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Variant {
    /// The position of all of them.
    pub position: u64,
    /// The branch to switch to: the one that has it and on which something was said last.
    pub branch: Incarnation,
    /// Its position in the memory that holds all branches, which is never another's.
    pub record: u64,
    /// True of the one that the current branch has.
    pub is_current: bool,
}

/// A branch of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Branch {
    /// Its name, which is the incarnation of its snapshots.
    pub id: Incarnation,
    /// The branch that it was made on; none for the first one.
    pub parent: Option<Incarnation>,
    /// The positions of what was said on it and on no branch before it.
    pub own: Range<u64>,
    /// Where that lies in the memory that holds all branches.
    pub records: Vec<Range<u64>>,
    /// True of the current one.
    pub is_current: bool,
}

/// The rule for an edit of a message that stands in a tool group, behind its call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WithinGroup {
    /// The message takes the place of the call: a group is left whole, or not at all.
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
