//! The actions of a chat page.

use serde::{Deserialize, Serialize};

use crate::record::Incarnation;

/// An action of a chat page, as the browser sends it:
/// [`Conversation::act`](super::Conversation::act) carries it out.
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
    /// Asks this.
    Say(String),
    /// Asks this instead of the message at this position, with its pictures and files.
    Edit(u64, String),
    /// Regenerates the answer to the newest question.
    Regenerate,
    /// Shows another variant: one of those that a page [names](crate::history::Entry::branches).
    Switch(Incarnation),
    /// Undoes the newest turn or change.
    Undo,
    /// Redoes what was undone last.
    Redo,
}
