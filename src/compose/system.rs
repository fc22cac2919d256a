//! The choice of the one system message.

use std::sync::Arc;

use crate::message::Message;
use crate::prompt::SystemSource;
use crate::record::Snapshot;

/// The system message of a prompt, with its source.
#[derive(Clone)]
pub(super) struct System {
    pub(super) message: Option<Arc<Message>>,
    pub(super) source: SystemSource,
    /// True if the memory's system message is not sent.
    pub(super) overridden: bool,
}

impl System {
    /// Prefers the composer's own to the memory's. Temporary system messages are appended.
    #[inline]
    pub(super) fn choose(
        own: Option<&Arc<Message>>,
        stored: Option<&Arc<Message>>,
        temporaries: &[Arc<Message>],
    ) -> Self {
        let overridden = own.is_some() && stored.is_some();
        let base = own.or(stored).filter(|message| !is_empty(message));
        if temporaries.iter().any(|it| it.is_system()) {
            let message = joined(base, temporaries).filter(|message| !is_empty(message));
            return Self { message, source: SystemSource::Temporary, overridden };
        }
        let source = match (base, own) {
            (Some(_), Some(_)) => SystemSource::Prompt,
            (Some(_), None) => SystemSource::Memory,
            (None, _) => SystemSource::None,
        };
        Self { message: base.cloned(), source, overridden }
    }
}

/// Returns whether a system message says nothing: it is none then.
fn is_empty(message: &Message) -> bool {
    let Message::System(system) = message else { return false };
    system.text().is_empty() && system.attributes().is_empty()
}

/// Joins the texts of all system messages, keeping the name and attributes of the first.
fn joined(base: Option<&Arc<Message>>, temporaries: &[Arc<Message>]) -> Option<Arc<Message>> {
    let all = base.into_iter().chain(temporaries).filter_map(|message| match &**message {
        Message::System(system) => Some(system),
        _ => None,
    });
    let all = all.cloned().reduce(|all, next| all.joined(next.text()));
    all.map(|all| Arc::new(Message::System(all)))
}

/// Returns the history with its first record, a system record, as its system message; `None` if
/// there is no such record, or if the memory has a system message in its slot.
pub(super) fn first_as_system(snapshot: &Snapshot) -> Option<Snapshot> {
    let first = snapshot.records.first().filter(|record| record.message().is_system())?;
    if snapshot.system.is_some() || first.position() != snapshot.start {
        return None;
    }
    let start = first.position() + 1;
    let system = Some(Arc::new(first.message().clone()));
    let records = snapshot.records.clone().split(start).1;
    Some(Snapshot { system, records, start, ..snapshot.clone() })
}
