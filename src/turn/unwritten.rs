//! The results that a turn has and that are written nowhere.

use super::{Call, ToolError, Turn, WantedCall};
use crate::message::{Content, ToolCall, ToolMessage};
use crate::record::Records;

/// A result that is lost with its turn, unless somebody appends it late.
pub(crate) struct Unwritten {
    pub(crate) call: Call,
    pub(crate) outcome: Result<Content, ToolError>,
    /// It may have been written all the same, where only the answer to that was lost.
    pub(crate) wanted: WantedCall,
}

impl Turn {
    /// Returns what tools gave that the slot of the turn does not have, as far as its owner knows.
    pub(crate) fn unwritten(&self) -> Vec<Unwritten> {
        if self.document.forgets {
            return Vec::new(); // nothing has happened
        }
        let results = self.document.unwritten_results().into_iter();
        results.map(|(tag, call, result)| self.as_unwritten(tag, call, result)).collect()
    }

    fn as_unwritten(&self, tag: String, call: &ToolCall, result: &ToolMessage) -> Unwritten {
        let is_repeatable = self.document.is_repeatable(call);
        let wanted = WantedCall::result(call, tag.clone(), result, is_repeatable);
        let call = Call {
            made: call.clone(),
            read: self.handed(call),
            tag,
            needs_approval: false,
            is_kept: self.has_slot(),
            may_have_run: true,
            is_repeatable,
            staged: Records::default(),
        };
        Unwritten { call, outcome: outcome(result), wanted: wanted.among(self.messages()) }
    }
}

fn outcome(result: &ToolMessage) -> Result<Content, ToolError> {
    if result.is_error() {
        Err(ToolError::new(result.content().text().into_owned()))
    } else {
        Ok(result.content().clone())
    }
}
