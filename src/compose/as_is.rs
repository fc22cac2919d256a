//! The short way to most prompts: the newest records as they are, behind a system message.

use super::Composer;
use crate::composed::Draft;
use crate::message::Message;
use crate::record::Snapshot;

impl Composer {
    /// Drafts most prompts: no temporaries, no provider, and nothing in the window needs repair or
    /// truncation. `None` for all others.
    ///
    /// The long way drafts the same prompt, and begins and finishes it with the same two functions;
    /// but for the last ten messages it takes more than twice as long.
    pub(super) fn newest_as_is(&self, snapshot: &Snapshot) -> Option<Box<Draft>> {
        let newest = self.effective_window().newest()?;
        let Snapshot { records, unreadable, .. } = snapshot;
        let have = records.len();
        if self.provider.is_some()
            || self.notice.is_some()
            || !unreadable.is_empty()
            || (have < newest && !snapshot.is_complete())
        {
            return None;
        }
        let start = have.saturating_sub(newest);
        let mut users = false;
        let as_they_are = records.all_from(start, |message| {
            users |= message.is_user();
            self.sends_as_is(message)
        });
        if !as_they_are {
            return None;
        }
        let first = snapshot.position(start);
        let mut draft = Draft::begin(snapshot, self.system_message(snapshot, &[]));
        draft.pieces.share(start..have);
        draft.cacheable = draft.pieces.len();
        draft.report.sent = have - start;
        draft.report.older = first.saturating_sub(snapshot.start);
        draft.report.no_user_message = have > start && !users;
        Some(draft.finished())
    }

    /// Returns whether a record is sent as it is, whatever stands around it.
    #[inline]
    pub(super) fn sends_as_is(&self, message: &Message) -> bool {
        let checks_groups = self.checks_groups();
        let alone = match message {
            Message::User(_) => true,
            Message::Ai(ai) => !checks_groups || !ai.has_tool_calls(),
            other => stands_alone(other, checks_groups),
        };
        alone
            && self.clear.as_ref().is_none_or(|clear| !clear.may_clear(message))
            && self.truncate.as_ref().is_none_or(|truncate| truncate.surely_keeps(message))
    }
}

/// Returns whether a message that is neither of the user nor of the model is sent, whatever stands
/// around it.
///
/// Apart, so that the loop over most prompts compares twice and needs no jump table.
#[inline(never)]
fn stands_alone(message: &Message, checks_groups: bool) -> bool {
    match message {
        Message::Tool(_) => !checks_groups,
        other => !other.is_system() && !other.is_private(),
    }
}
