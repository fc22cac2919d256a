//! Random numbers that identify one thing and are never used again.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::str::FromStr;

use crate::error::{Error, ErrorKind};

macro_rules! stamp {
    ($(#[$documentation:meta])* $name:ident, $what:literal) => {
        $(#[$documentation])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(u64);

        impl $name {
            /// Returns a unique value of 64 random bits: it is not secret.
            pub fn random() -> Self {
                Self(RandomState::new().hash_one(std::process::id()))
            }

            /// Returns the value with these bits, as a backend keeps them.
            pub fn from_bits(bits: u64) -> Self {
                Self(bits)
            }

            /// Returns its bits, for a backend to keep.
            pub fn to_bits(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({self})", stringify!($name))
            }
        }

        impl From<$name> for String {
            fn from(stamp: $name) -> Self {
                stamp.to_string()
            }
        }

        impl FromStr for $name {
            type Err = Error;

            /// Parses the output of [`Display`](fmt::Display).
            fn from_str(text: &str) -> Result<Self, Error> {
                let digits = text.len() == 16 && text.bytes().all(|it| it.is_ascii_hexdigit());
                let bits = u64::from_str_radix(text, 16).ok().filter(|_| digits);
                let text = concat!($what, " has 16 hexadecimal digits");
                bits.map(Self).ok_or_else(|| Error::new(ErrorKind::Codec, "parse", text))
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;

            fn try_from(text: String) -> Result<Self, Error> {
                text.parse()
            }
        }
    };
}

stamp! {
    /// The version of a [`Slot`](super::Slot): new with each change, and never used again, even
    /// after the slot was removed, or the conversation was cleared, or deleted and begun again.
    ///
    /// It is written as 16 hexadecimal digits, in serialised form too.
    ///
    /// ```
    /// use memory_prompt::record::SlotVersion;
    ///
    /// let version = SlotVersion::random();
    /// assert_ne!(version, SlotVersion::random());
    /// assert_eq!(version.to_string().parse::<SlotVersion>()?, version);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    SlotVersion, "the version of a slot"
}

stamp! {
    /// One life of a conversation: a new one begins after a clear, and after a delete and a new
    /// beginning.
    ///
    /// Use it for data outside of a memory that refers to positions in it: an index, a turn that
    /// waits. An eviction does not change it. It is written as 16 hexadecimal digits, in serialised
    /// form too.
    Incarnation, "an incarnation"
}
