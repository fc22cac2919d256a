//! The media of a message, whoever said it.

use super::content::changed;
use super::reference::MediaReference;
use super::{AiPart, Content, Media, Message, Part, Source};

impl Message {
    /// Returns the media of the message, in order.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.content_parts().filter_map(|(_, part)| part.as_media())
    }

    /// Returns its parts, whoever said them, without calls and the like: each with its place among
    /// all parts.
    pub(crate) fn content_parts(&self) -> impl Iterator<Item = (usize, &Part)> {
        let sent = self.content().map_or(&[][..], Content::parts).iter().enumerate();
        let said = self.as_ai().map_or(&[][..], |ai| ai.parts()).iter().enumerate();
        sent.chain(said.filter_map(|(place, part)| Some((place, part.as_content()?))))
    }

    /// Returns the references of the message, in order.
    pub(crate) fn references(&self) -> impl Iterator<Item = &MediaReference> {
        self.media().filter_map(|media| match &media.source {
            Source::Reference(reference) => Some(reference),
            _ => None,
        })
    }

    /// Returns whether the message has a [reference](MediaReference) in the place of media. Each
    /// memory refuses such a message: a reference says which bytes they are, and not that they are
    /// there.
    pub fn has_references(&self) -> bool {
        self.references().next().is_some()
    }

    /// Returns the message with base64 in the places of those of its references for which this
    /// function has some; `None` if it has none.
    pub(crate) fn with_data(
        &self,
        data: impl Fn(&MediaReference) -> Option<String>,
    ) -> Option<Self> {
        self.with_sources(|media| match &media.source {
            Source::Reference(reference) => data(reference).map(Source::Base64),
            _ => None,
        })
    }

    /// Returns the message with those of its media changed that this function changes; `None` if
    /// it changes none.
    pub(crate) fn with_sources(
        &self,
        mut change: impl FnMut(&Media) -> Option<Source>,
    ) -> Option<Self> {
        let mut part = |part: &Part| {
            let source = change(part.as_media()?)?;
            let mut copy = part.clone();
            copy.as_media_mut()?.source = source;
            Some(copy)
        };
        if let Some(ai) = self.as_ai() {
            let parts = changed(ai.parts(), |it| part(it.as_content()?).map(AiPart::Content))?;
            return Some(ai.with_other_parts(parts).into());
        }
        let content = self.content()?.with_parts(part)?;
        Some(self.with_content(content))
    }
}
