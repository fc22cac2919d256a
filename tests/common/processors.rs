//! Processors of an application's own.

use std::error::Error;

use memory_prompt::Message;
use memory_prompt::truncate::{TruncateContext, TruncateProcessor, Verdict};

type Processed = Result<Verdict, Box<dyn Error + Send + Sync>>;

/// Drops the messages of which this is true.
pub(crate) struct Drops<F>(pub(crate) F);

impl<F: Fn(&Message, &TruncateContext) -> bool + Send + Sync> TruncateProcessor for Drops<F> {
    fn process(&self, message: &Message, context: &TruncateContext) -> Processed {
        Ok(if (self.0)(message, context) { Verdict::Drop } else { Verdict::Keep })
    }
}

/// Fails, for this reason.
pub(crate) struct Fails(pub(crate) &'static str);

impl TruncateProcessor for Fails {
    fn process(&self, _: &Message, _: &TruncateContext) -> Processed {
        Err(self.0.into())
    }
}
