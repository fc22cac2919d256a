//! Branches of a prompt: messages that were edited or regenerated, and what they replaced.

use std::sync::Arc;

use super::{MemoryPrompt, not_built};
use crate::error::Result;
use crate::history::{Branch, BranchView, Page, Variant};
use crate::memory::ChatMemory;
use crate::message::Message;
use crate::record::Incarnation;

impl<M: ?Sized> MemoryPrompt<M> {
    /// Returns the view of the branches of the conversation.
    pub(crate) fn view(&self) -> Result<&Arc<BranchView<M>>> {
        let branches = self.branches.as_ref();
        branches.ok_or_else(|| not_built("branches", "has no branches", "with_branches"))
    }
}

macro_rules! over {
    ($over:ty, $new:ident, [$($async:tt)*], [$($now:tt)*]) => {
        impl MemoryPrompt<$over> {
            /// Keeps branches of the conversation: what is [edited](Self::edit),
            /// [regenerated](Self::regenerate) or [undone](Self::undo) stays in the memory, and the
            /// prompt is made of the current branch alone, with its own pins and summary. See
            /// [`history`](crate::history).
            ///
            /// The [memory](Self::memory) of the prompt is then a [`BranchView`]. A prompt that is
            /// built without this sends all branches in a row, so build all prompts of a
            /// conversation the same way. While there is only one branch, reads ask for one more
            /// slot, and appends look at it first.
            #[must_use]
            pub fn with_branches(self) -> Self {
                self.with_branches_by(|view| view)
            }

            /// Keeps branches as [`with_branches`](Self::with_branches) does, through a view with
            /// [settings](BranchView), for example the branch that the user
            /// [saw](BranchView::expecting).
            #[must_use]
            pub fn with_branches_by(
                mut self,
                set: impl FnOnce(BranchView<$over>) -> BranchView<$over>,
            ) -> Self {
                self.show(set(BranchView::$new(Arc::clone(&self.memory))));
                self
            }

            pub(super) fn show(&mut self, view: BranchView<$over>) {
                let view = Arc::new(view);
                self.replace_memory(Arc::<BranchView<$over>>::clone(&view));
                self.branches = Some(view);
            }

            /// Replaces the message at this position, on a new branch that becomes the current one.
            /// Returns the position from which to redraw a page. To ask the model as well, see
            /// [`edit_turn`](Self::edit_turn).
            ///
            /// # Errors
            ///
            /// As [`BranchView::edit`], and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a
            /// prompt that is not built [`with_branches`](Self::with_branches).
            pub $($async)* fn edit(&self, position: u64, message: impl Into<Message>) -> Result<u64> {
                self.view()?.edit(position, message)$($now)*
            }

            /// Undoes the newest turn or change: see [`BranchView::undo`].
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn undo(&self) -> Result<Option<u64>> {
                self.view()?.undo()$($now)*
            }

            /// Redoes what was undone last: see [`BranchView::redo`].
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit).
            pub $($async)* fn redo(&self) -> Result<Option<u64>> {
                self.view()?.redo()$($now)*
            }

            /// Makes the branch of a variant the current one: see [`BranchView::switch`].
            ///
            /// # Errors
            ///
            /// As [`edit`](Self::edit), and `Invalid` if there is no such branch.
            pub $($async)* fn switch(&self, to: impl Into<Incarnation> + Send) -> Result<Option<u64>> {
                self.view()?.switch(to)$($now)*
            }

            /// Returns the variants of the message at this position.
            ///
            /// # Errors
            ///
            /// Those of the memory, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a
            /// prompt that is not built `with_branches`.
            pub $($async)* fn variants(&self, position: u64) -> Result<Vec<Variant>> {
                self.view()?.variants(position)$($now)*
            }

            /// Returns the branches on which something was said, oldest first.
            ///
            /// # Errors
            ///
            /// Those of the memory, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a
            /// prompt that is not built `with_branches`.
            pub $($async)* fn branches(&self) -> Result<Vec<Branch>> {
                self.view()?.branches()$($now)*
            }

            /// Returns the newest `n` messages of the current branch before this position, or at
            /// its end, newest first: see [`BranchView::page`].
            ///
            /// # Errors
            ///
            /// Those of the memory, and [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) for a
            /// prompt that is not built `with_branches`.
            pub $($async)* fn page(&self, before: Option<u64>, n: usize) -> Result<Page> {
                self.view()?.page(before, n)$($now)*
            }
        }
    };
}

over!(dyn ChatMemory, new, [], []);
#[cfg(feature = "async")]
over!(dyn crate::memory::AsyncChatMemory, new_async, [async], [.await]);
