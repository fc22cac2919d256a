//! Turns that take the place of what was said: another answer, or another question.

use super::Turn;
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{ChatMemory, On};
use crate::memory_prompt::MemoryPrompt;

macro_rules! over {
    ($over:ty, [$($async:tt)*], [$($now:tt)*]) => {
        impl MemoryPrompt<$over> {
            /// Begins a turn that answers the newest question anew. Nothing is stored until it
            /// ends, and if it ends without an answer the former one stays current. Its answer is
            /// stored beside that one, and is the current one from then on. What followed the
            /// question, tool groups included, is on the branch that is left.
            ///
            /// [`Turn::next`] runs it, or [`Conversation::stream`](crate::Conversation::stream).
            ///
            /// # Errors
            ///
            /// [`ErrorKind::Invalid`](crate::ErrorKind::Invalid) where nothing was asked, and as
            /// `edit`.
            pub $($async)* fn regenerate(&self) -> Result<Turn> {
                let (on, question) = self.view()?.regenerating()$($now)*?;
                Ok(on_branch(question.into(), on))
            }

            /// Begins a turn that asks something else in the place of the message at this position.
            /// Nothing is stored until it ends, and if it ends without an answer what was said
            /// before stays current.
            ///
            /// # Errors
            ///
            /// As `edit`.
            pub $($async)* fn edit_turn(
                &self,
                position: u64,
                question: impl Into<Turn>,
            ) -> Result<Turn> {
                let question = question.into();
                Ok(on_branch(question, self.view()?.editing(position)$($now)*?))
            }
        }
    };
}

over!(dyn ChatMemory, [], []);
#[cfg(feature = "async")]
over!(dyn AsyncChatMemory, [async], [.await]);

/// Returns the turn, begun on a branch in the making.
fn on_branch(mut turn: Turn, on: On) -> Turn {
    turn.state.on = Some(on);
    turn
}
