//! The form in which a record is sent: unchanged, cleared, cut, or not at all.

use std::sync::Arc;

use super::Case;
use super::copies::Change;
use super::form::{ClearedPart, Form};
use crate::error::Result;
use crate::message::Message;
use crate::prompt::{Cleared, Gap, Truncated};
use crate::record::Record;
use crate::truncate::{Cutting, Truncate, Verdict};

pub(super) enum SentAs {
    AsItIs,
    /// A copy that is shortened, made by the processor, or cleared.
    Copy(Arc<Message>, Change),
    /// The processor dropped it.
    Nothing,
}

impl Case<'_> {
    pub(super) fn sent_as(&self, record: &Record<'_>, form: Form) -> Result<SentAs> {
        let truncate = &self.composer.truncate;
        let judge = |message: &Message| match truncate {
            Some(truncate) => truncate.judge(message, record.position(), form.whole),
            None => Ok((Verdict::Keep, None)),
        };
        let Some(what) = form.cleared else {
            return Ok(match judge(record.message())? {
                (Verdict::Keep, _) => SentAs::AsItIs,
                (Verdict::Replace(copy), cutting) => cut(record, copy, cutting),
                (Verdict::Drop, _) => SentAs::Nothing,
            });
        };
        let copy = self.clearing.copy(record, what);
        if what == ClearedPart::Result {
            // Nothing is left to be cut. But if the processor drops the message, it is not sent in
            // another form.
            let drops = truncate.as_ref().is_some_and(Truncate::has_processor)
                && judge(record.message())?.0 == Verdict::Drop;
            return Ok(if drops { SentAs::Nothing } else { cleared(record, copy) });
        }
        Ok(match judge(&copy)?.0 {
            Verdict::Keep => cleared(record, copy),
            Verdict::Replace(copy) => cleared(record, Arc::new(copy)),
            Verdict::Drop => SentAs::Nothing,
        })
    }
}

fn cut(record: &Record<'_>, copy: Message, cutting: Option<Cutting>) -> SentAs {
    let (position, role) = (record.position(), record.message().role());
    let (from, to) = (record.message().text_bytes(), copy.text_bytes());
    let gap = cutting.map(|Cutting { head, marker }| {
        let (text, at) = (head.piece, head.byte);
        Gap { text, at, marker, left_out: (from + marker).saturating_sub(to) }
    });
    SentAs::Copy(Arc::new(copy), Change::Cut(Truncated { position, role, from, to, gap }))
}

/// Sends a copy in which something is cleared; the rest may be cut.
fn cleared(record: &Record<'_>, copy: Arc<Message>) -> SentAs {
    let (position, role) = (record.position(), record.message().role());
    let (from, to) = (record.message().text_bytes(), copy.text_bytes());
    SentAs::Copy(copy, Change::Cleared(Cleared { position, role, from, to }))
}
