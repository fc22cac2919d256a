//! The bytes of media that a prompt is sent and whose records were read without them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Item, Pieces, Prompt};
use crate::message::{Message, Sha256, Source};
use crate::record::Snapshot;

/// The data of media in base64, by the hash of their bytes.
#[derive(Default)]
pub(crate) struct MediaData(BTreeMap<Sha256, String>);

impl MediaData {
    /// Returns the positions of the records that have what a prompt lacks: of each the newest, for
    /// what is evicted meanwhile is the oldest.
    pub(crate) fn lacking(&self, prompt: &Prompt, seen: &Snapshot) -> Vec<u64> {
        if !seen.has_references() {
            return Vec::new();
        }
        let sent = prompt.iter().flat_map(Message::references).map(|it| it.sha256);
        let mut lacking: BTreeSet<Sha256> = sent.filter(|it| !self.0.contains_key(it)).collect();
        let newest_first = seen.records.iter().rev().chain(seen.picked().iter().rev());
        let has_some = newest_first.filter(|record| {
            let references = record.message().references();
            references.filter(|it| lacking.remove(&it.sha256)).count() > 0
        });
        has_some.map(|record| record.position()).collect()
    }

    /// Takes what was read, if the conversation is still the same and on the same branch.
    pub(crate) fn add(&mut self, read: &Snapshot, seen: &Snapshot) {
        if read.incarnation != seen.incarnation {
            return;
        }
        for whole in read.picked().iter() {
            let position = whole.position();
            let found = seen.records.find(position).or_else(|| seen.picked().find(position));
            let referring = found.iter().flat_map(|record| record.message().media());
            for (media, whole) in referring.zip(whole.message().media()) {
                if let (Source::Reference(it), Source::Base64(data)) =
                    (&media.source, &whole.source)
                {
                    self.0.insert(it.sha256, data.clone());
                }
            }
        }
    }

    /// Returns the prompt with all data; `None` if some are lacking.
    pub(crate) fn fill(&self, mut prompt: Prompt, seen: &Snapshot) -> Option<Prompt> {
        if !seen.has_references() {
            return Some(prompt);
        }
        let mut pieces = Pieces::default();
        for item in prompt.draft.pieces.items(&prompt.draft.records) {
            pieces.add(match item.message().with_data(|it| self.0.get(&it.sha256).cloned()) {
                Some(filled) => Item::Own(filled.into(), item.origin()),
                None => item.shared(),
            });
        }
        prompt.draft.pieces = pieces;
        let lacks_some = prompt.iter().any(Message::has_references);
        (!lacks_some).then_some(prompt)
    }
}
