//! The media of a message, whoever said it.

use super::content::changed;
use super::reference::MediaReference;
use super::{AiPart, Content, Media, Message, Part, Source};

impl Message {
    /// Returns the media of the message, in order.
    pub fn media(&self) -> impl Iterator<Item = &Media> {
        self.content_parts().filter_map(Part::as_media)
    }

    /// Returns its parts, whoever said them, without calls and the like.
    pub(crate) fn content_parts(&self) -> impl Iterator<Item = &Part> {
        let sent = self.content().map_or(&[][..], Content::parts).iter();
        let said = self.as_ai().map_or(&[][..], |ai| ai.parts()).iter();
        let said = said.filter_map(|part| match part {
            AiPart::Content(part) => Some(part),
            _ => None,
        });
        sent.chain(said)
    }

    /// Returns the references of the message, in order.
    pub(crate) fn references(&self) -> impl Iterator<Item = &MediaReference> {
        self.media().filter_map(|media| match &media.source {
            Source::Reference(reference) => Some(reference),
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
            let mut copy = part.bare_copy();
            copy.as_media_mut()?.source = source;
            Some(copy)
        };
        if let Some(ai) = self.as_ai() {
            let parts = changed(ai.parts(), |it| match it {
                AiPart::Content(it) => part(it).map(AiPart::Content),
                _ => None,
            })?;
            return Some(ai.with_other_parts(parts).into());
        }
        let content = self.content()?.with_parts(part)?;
        Some(self.with_content(content))
    }
}

impl Part {
    /// Returns a copy of a part that is media, without its data.
    fn bare_copy(&self) -> Self {
        let bare = |media: &Media| Media {
            source: Source::FileId(String::new()),
            media_type: media.media_type.clone(),
            name: media.name.clone(),
            detail: media.detail.clone(),
            extra: media.extra.clone(),
        };
        match self {
            Self::Image(it) => Self::Image(bare(it)),
            Self::Audio(it) => Self::Audio(bare(it)),
            Self::Video(it) => Self::Video(bare(it)),
            Self::File(it) => Self::File(bare(it)),
            Self::Text(_) | Self::Other(_) => self.clone(),
        }
    }
}
