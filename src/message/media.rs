//! The media of a message of any role.

use super::content::changed;
use super::reference::MediaReference;
use super::{AiPart, Content, Media, Message, Part, Source};

impl Media {
    /// Returns the reference that replaces its bytes, if they are in the memory.
    pub(crate) fn reference(&self) -> Option<&MediaReference> {
        if let Source::Reference(reference) = &self.source { Some(reference) } else { None }
    }
}

impl Message {
    /// Returns the media of the message, in order.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.content_parts().filter_map(|(_, part)| part.as_media())
    }

    /// Returns its parts, whatever its role, without calls and the like: each with its place among
    /// all parts.
    pub(crate) fn content_parts(&self) -> impl Iterator<Item = (usize, &Part)> {
        let sent = self.content().map_or(&[][..], Content::parts).iter().enumerate();
        let said = self.as_ai().map_or(&[][..], |ai| ai.parts()).iter().enumerate();
        sent.chain(said.filter_map(|(place, part)| Some((place, part.as_content()?))))
    }

    /// Returns the references of the message, in order.
    pub(crate) fn references(&self) -> impl Iterator<Item = &MediaReference> {
        self.media().filter_map(Media::reference)
    }

    /// Returns whether the message has a [reference](MediaReference) instead of media. Every memory
    /// refuses such a message, since a reference names the bytes but does not prove that they are
    /// there.
    pub fn has_references(&self) -> bool {
        self.references().next().is_some()
    }

    /// Returns the message with the media that this function changes; `None` if it changes none.
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
