//! The actions of a chat page.

use serde::{Deserialize, Serialize};

use crate::record::Incarnation;

/// An action of a chat page, as the browser sends it:
/// [`Conversation::act`](super::Conversation::act) does it.
///
/// ```
/// use memory_prompt::conversation::Action;
///
/// let edit = Action::Edit(2, "And Lima?".into());
/// assert_eq!(serde_json::to_string(&edit)?, r#"{"edit":[2,"And Lima?"]}"#);
/// assert_eq!(serde_json::from_str::<Action>(r#""undo""#)?, Action::Undo);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Action {
    /// To ask this.
    Say(String),
    /// To ask this in the place of the message at this position, with the pictures and files of
    /// that one.
    Edit(u64, String),
    /// To answer the newest question anew.
    Regenerate,
    /// To show another variant: one of those that a page [names](crate::history::Entry::branches).
    Switch(Incarnation),
    /// To take the newest turn or change back.
    Undo,
    /// To do again what was taken back last.
    Redo,
}
