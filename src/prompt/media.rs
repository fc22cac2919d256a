//! The bytes of media that a prompt is sent and whose records were read without them.

use std::collections::{BTreeMap, BTreeSet};

use super::{Item, Pieces, Prompt};
use crate::message::{Media, Message, Sha256, Source};
use crate::record::Snapshot;

/// The media that replace the references once they are read, by the hash of the bytes.
#[derive(Default)]
pub(crate) struct MediaData(BTreeMap<Sha256, Source>);

impl MediaData {
    /// Replaces references by what was read, and returns the positions of the records that have
    /// what the prompt still lacks: for each the newest, since the oldest are evicted first.
    pub(crate) fn fill(&self, prompt: &mut Prompt, seen: &Snapshot) -> Vec<u64> {
        if !prompt.iter().any(Message::has_references) {
            return Vec::new();
        }
        let mut pieces = Pieces::default();
        for item in prompt.draft.pieces.items(&prompt.draft.records) {
            let data = |media: &Media| self.0.get(&media.reference()?.sha256).cloned();
            pieces.add(match item.message().with_sources(data) {
                Some(filled) => Item::Own(filled.into(), item.origin()),
                None => item.shared(),
            });
        }
        prompt.draft.pieces = pieces;
        let references = prompt.iter().flat_map(Message::references);
        let mut lacking: BTreeSet<Sha256> = references.map(|it| it.sha256).collect();
        let newest_first = seen.records.iter().rev().chain(seen.picked().iter().rev());
        let has_some = newest_first.filter(|record| {
            let references = record.message().references();
            references.filter(|it| lacking.remove(&it.sha256)).count() > 0
        });
        has_some.map(|record| record.position()).collect()
    }

    /// Takes what was read, if the conversation and the branch are still the same.
    pub(crate) fn add(&mut self, read: &Snapshot, seen: &Snapshot) {
        if read.incarnation != seen.incarnation {
            return;
        }
        for whole in read.picked().iter() {
            let position = whole.position();
            let found = seen.records.find(position).or_else(|| seen.picked().find(position));
            let referring = found.iter().flat_map(|record| record.message().media());
            for (media, whole) in referring.zip(whole.message().media()) {
                if let (Some(it), None) = (media.reference(), whole.reference()) {
                    self.0.insert(it.sha256, whole.source.clone());
                }
            }
        }
    }
}
