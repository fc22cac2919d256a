//! [`Json`]: the input of a decoder.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde_json::Value;

/// The input of a decoder: a text, bytes from the network, or an already parsed value. Decoders
/// accept anything that converts to this.
///
/// ```
/// use memory_prompt::{Message, wire::openai};
/// use serde_json::json;
///
/// let text = r#"[{"role": "user", "content": "hi"}]"#;
/// let expected = [Message::user("hi")];
/// assert_eq!(openai::history(text)?, expected);
/// assert_eq!(openai::history(text.as_bytes())?, expected);
/// assert_eq!(openai::history(json!([{"role": "user", "content": "hi"}]))?, expected);
/// # Ok::<(), memory_prompt::Error>(())
/// ```
#[derive(Clone)]
pub struct Json<'a>(pub(super) Form<'a>);

/// Returns the bytes without the byte order mark with which files and some gateways begin.
pub(crate) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes)
}

/// Returns whether this is one whole JSON value.
pub(crate) fn is_json(bytes: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(without_mark(bytes)).is_ok()
}

#[derive(Clone)]
pub(super) enum Form<'a> {
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Value(Cow<'a, Value>),
}

impl std::fmt::Debug for Json<'_> {
    /// Shows nothing of the input, since conversations don't belong in logs.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Json").finish_non_exhaustive()
    }
}

macro_rules! from_forms {
    ($($form:ident($from:ty)),*) => {$(
        impl<'a> From<$from> for Json<'a> {
            fn from(json: $from) -> Self {
                Self(Form::$form(json.into()))
            }
        }
    )*};
}
from_forms!(Text(&'a str), Text(&'a String), Text(String));
from_forms!(Bytes(&'a [u8]), Bytes(&'a Vec<u8>), Bytes(Vec<u8>));

impl<'a, const N: usize> From<&'a [u8; N]> for Json<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        bytes[..].into()
    }
}

impl From<Value> for Json<'_> {
    fn from(value: Value) -> Self {
        Self(Form::Value(Cow::Owned(value)))
    }
}

impl<'a> From<&'a Value> for Json<'a> {
    fn from(value: &'a Value) -> Self {
        Self(Form::Value(Cow::Borrowed(value)))
    }
}
