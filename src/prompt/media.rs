//! The bytes of media that a prompt is sent and whose records were read without them.

use std::collections::BTreeMap;

use super::{Item, Pieces, Prompt};
use crate::message::{Message, Sha256, Source};
use crate::record::{Referred, Snapshot};

/// The data of media in base64, by the hash of their bytes.
#[derive(Default)]
pub(crate) struct MediaData {
    /// `None` for those that were read and are not there.
    known: BTreeMap<Sha256, Option<String>>,
    asked: Vec<Referred>,
}

impl MediaData {
    /// Asks for what a prompt of these records lacks and was not read yet; returns the positions to
    /// read.
    pub(crate) fn lacking(&mut self, prompt: &Prompt, seen: &Snapshot) -> Vec<u64> {
        self.asked.clear();
        if seen.references().is_empty() {
            return Vec::new();
        }
        for sha256 in prompt.iter().flat_map(Message::references).map(|it| it.sha256) {
            let stands = seen.references().iter().filter(|it| it.sha256 == sha256);
            // What is evicted meanwhile is the oldest.
            if let Some(newest) = stands.max_by_key(|it| it.position)
                && !self.known.contains_key(&sha256)
            {
                self.asked.push(*newest);
            }
        }
        self.asked.iter().map(|it| it.position).collect()
    }

    /// Takes what was read, if the conversation is still the same and on the same branch.
    pub(crate) fn add(&mut self, read: &Snapshot, seen: &Snapshot) {
        for asked in self.asked.drain(..) {
            let record = read.picked().find(asked.position);
            let record = record.filter(|_| read.incarnation == seen.incarnation);
            let media = record.and_then(|it| it.message().media().nth(asked.media));
            let data = media.and_then(|media| match &media.source {
                Source::Base64(data) => Some(data.clone()),
                _ => None,
            });
            self.known.insert(asked.sha256, data);
        }
    }

    /// Returns the prompt with all data; `None` if some are lacking.
    pub(crate) fn fill(&self, mut prompt: Prompt, seen: &Snapshot) -> Option<Prompt> {
        if seen.references().is_empty() {
            return Some(prompt);
        }
        let mut pieces = Pieces::default();
        for item in prompt.draft.pieces.items(&prompt.draft.records) {
            let mut has_all = true;
            let filled = item.message().with_sources(|media| {
                let Source::Reference(reference) = &media.source else { return None };
                let data = self.known.get(&reference.sha256).cloned().flatten();
                has_all &= data.is_some();
                data.map(Source::Base64)
            });
            if !has_all {
                return None;
            }
            pieces.add(match filled {
                Some(filled) => Item::Own(filled.into(), item.origin()),
                None => item.shared(),
            });
        }
        prompt.draft.pieces = pieces;
        Some(prompt)
    }
}
