//! Names of tools as a provider takes them, and the way back.

use std::borrow::Cow;

use super::ToolNames;

/// The most characters of a name that is given.
const MOST: usize = 64;

impl ToolNames {
    /// Returns the name under which a tool is sent: its own where it may have that, or else what of
    /// it is allowed, and nine letters for the whole of it. So two names never become one, and each
    /// is the same in every prompt.
    ///
    /// ```
    /// use memory_prompt::provider::ToolNames;
    ///
    /// assert_eq!(ToolNames::Dotted.sent("mail.send"), "mail.send");
    /// assert!(ToolNames::AtMost64.sent("mail.send").starts_with("mail_send_"));
    /// ```
    pub fn sent(self, name: &str) -> Cow<'_, str> {
        if self.allow(name) {
            return Cow::Borrowed(name);
        }
        let head: String = name.chars().take(MOST - 11).collect();
        let plain = head.chars().map(|c| match u8::try_from(c) {
            Ok(b) if self.takes(b) => c,
            _ => '_',
        });
        let begins = |c: char| c.is_ascii_alphabetic() || c == '_';
        let front = if head.is_empty() {
            "tool"
        } else if head.starts_with(begins) {
            ""
        } else {
            "_"
        };
        let mut new = String::from(front);
        new.extend(plain);
        new.push('_');
        new.push_str(&nine(name, 0));
        Cow::Owned(new)
    }

    /// Returns whether a model that says the first name means the tool of the second: its own name,
    /// or one under which some provider is [sent](Self::sent) it.
    pub(crate) fn mean(said: &str, name: &str) -> bool {
        const RULES: [ToolNames; 4] =
            [ToolNames::AtMost64, ToolNames::AtMost128, ToolNames::Dotted, ToolNames::Letter];
        said == name || RULES.iter().any(|rule| rule.sent(name) == said)
    }
}

/// Returns nine letters or digits that stand for an id, the same in every prompt and every process.
pub(crate) fn nine(id: &str, tries: u64) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    // FNV-1a.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in id.bytes().chain(tries.to_le_bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut name = String::with_capacity(9);
    for _ in 0..9 {
        name.push(char::from(LETTERS[(hash % 62) as usize]));
        hash /= 62;
    }
    name
}
