//! The data of media, with their type.

use std::fmt;

use serde::ser::{Serialize, Serializer};

use super::{Media, Source};

/// `data:image/png;base64,AA==`, written without a copy of the data.
#[derive(Clone, Copy, Debug)]
pub struct DataUrl<'a> {
    pub(crate) media_type: &'a str,
    pub(crate) data: &'a str,
}

impl<'a> DataUrl<'a> {
    pub(crate) fn parse(url: &'a str) -> Option<Self> {
        let (media_type, data) = url.strip_prefix("data:")?.split_once(";base64,")?;
        Some(Self { media_type, data })
    }
}

impl fmt::Display for DataUrl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data:{};base64,{}", self.media_type, self.data)
    }
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns media whose data are here: as base64, or in a `data:` URL.
pub(crate) fn inline(media: &Media) -> Option<DataUrl<'_>> {
    // If a reference replaces the bytes, they are not needed yet.
    let data = media.data().or_else(|| media.reference().map(|_| ""))?;
    let media_type = known_type(media).unwrap_or("application/octet-stream");
    Some(DataUrl { media_type, data })
}

/// Returns the media type from the header of a picture, since a provider refuses a wrong type; else
/// the one that a `data:` URL says, the given one, both without their parameters, or the one that
/// the data show.
pub(crate) fn known_type(media: &Media) -> Option<&str> {
    let header = media.picture().map(|picture| picture.media_type.as_str());
    let in_url = || {
        let Source::Url(url) = &media.source else { return None };
        bare_type(DataUrl::parse(url)?.media_type)
    };
    let given = || bare_type(media.media_type.as_deref()?);
    let shown = || sniff(media.data()?);
    header.or_else(in_url).or_else(given).or_else(shown)
}

/// Returns a media type without its parameters, except for raw sound, which can't be read without
/// its rate (`audio/L16;rate=24000`); `None` if it is empty.
fn bare_type(told: &str) -> Option<&str> {
    let bare = if told.contains("rate=") { told } else { told.split(';').next()?.trim() };
    Some(bare).filter(|it| !it.is_empty())
}

/// Returns the media type that the first bytes of base64 data show.
pub(crate) fn sniff(data: &str) -> Option<&'static str> {
    /// The first letters, and those after the twelfth, which are the kind of a RIFF file.
    const SIGNS: [(&str, &str, &str); 7] = [
        ("iVBORw0KGgo", "", "image/png"),
        ("/9j/", "", "image/jpeg"),
        ("R0lGOD", "", "image/gif"),
        ("JVBERi0", "", "application/pdf"),
        ("SUQz", "", "audio/mpeg"),
        ("UklGR", "RUJQ", "image/webp"),
        ("UklGR", "QVZF", "audio/wav"),
    ];
    let behind = data.get(12..).unwrap_or_default();
    let mut signs = SIGNS.into_iter();
    let sign = signs.find(|(start, kind, _)| data.starts_with(start) && behind.starts_with(kind));
    sign.map(|(.., media_type)| media_type)
}
