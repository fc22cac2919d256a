//! The names of tools as a provider takes them.

use std::borrow::Cow;

use super::ToolNames;
use crate::message::nine;

/// The maximum length of a replacement name.
const MOST: usize = 64;

impl ToolNames {
    /// Returns the name under which a tool is sent: its own if allowed, else the allowed part of
    /// it, and nine letters that identify the whole. So two names never become one, and each is the
    /// same in every prompt.
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
        let front = match head.chars().next() {
            None => "tool",
            Some('a'..='z' | 'A'..='Z' | '_') => "",
            Some(_) => "_",
        };
        Cow::Owned(format!("{front}{}_{}", plain.collect::<String>(), nine(name, 0)))
    }
}
