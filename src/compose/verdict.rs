//! The form in which a record is sent: as it is, cleared, cut, or not at all.

use std::sync::Arc;

use super::Composer;
use super::clear::{Clearing, What};
use super::counts::Form;
use crate::error::Result;
use crate::message::Message;
use crate::record::Record;
use crate::truncate::{Cutting, Truncate, Verdict};

/// What is sent for a record.
pub(super) enum Sent {
    AsItIs,
    /// A copy that is shortened, with the place of the cut, or that the processor made.
    Cut(Arc<Message>, Option<Cutting>),
    /// A copy in which something is cleared, and the rest may be cut.
    Cleared(Arc<Message>),
    /// The processor dropped it.
    Nothing,
}

impl Composer {
    /// Decides what is sent for a record of this form.
    pub(super) fn verdict(
        &self,
        clearing: &Clearing<'_>,
        record: &Record<'_>,
        form: Form,
    ) -> Result<Sent> {
        let truncate = self.truncate.as_ref().filter(|_| !form.whole);
        let judge = |message: &Message| {
            truncate
                .map_or(Ok((Verdict::Keep, None)), |truncate| truncate.judge(message, record.seq()))
        };
        let Some(what) = form.cleared else {
            return Ok(match judge(record.message())? {
                (Verdict::Keep, _) => Sent::AsItIs,
                (Verdict::Replace(copy), cutting) => Sent::Cut(Arc::new(copy), cutting),
                (Verdict::Drop, _) => Sent::Nothing,
            });
        };
        let copy = clearing.copy(record, what);
        if what == What::Result {
            // Nothing of it is left to be cut; but what is dropped comes back in no other form.
            let drops = truncate.is_some_and(Truncate::has_processor)
                && judge(record.message())?.0 == Verdict::Drop;
            return Ok(if drops { Sent::Nothing } else { Sent::Cleared(copy) });
        }
        Ok(match judge(&copy)?.0 {
            Verdict::Keep => Sent::Cleared(copy),
            Verdict::Replace(copy) => Sent::Cleared(Arc::new(copy)),
            Verdict::Drop => Sent::Nothing,
        })
    }
}
