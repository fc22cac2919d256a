//! Sent names of tools, the nine letters that identify the original name, and ids of calls.

use std::borrow::Cow;

/// Returns whether two names mean the same tool: they are equal, or one is the name under which the
/// other is sent to some provider, which ends in its [nine letters](nine).
///
/// What a model calls is stored as the model wrote it, and an application uses its own name of the
/// tool.
pub(crate) fn is_same_tool(one: &str, other: &str) -> bool {
    one == other || stands_for(one, other) || stands_for(other, one)
}

/// Returns whether a call and a result, or two results, are of one tool, as far as they name one.
pub(crate) fn agree(one: &str, other: &str) -> bool {
    one.is_empty() || other.is_empty() || is_same_tool(one, other)
}

fn stands_for(said: &str, name: &str) -> bool {
    let end = said.rsplit_once('_').map(|(_, end)| end);
    end.is_some_and(|end| end.len() == 9 && end == nine(name, 0))
}

/// Returns a call id with `_` instead of all characters but letters, digits, `_` and `-`, as
/// Anthropic takes it. Other providers use dots and colons.
pub(crate) fn plain_id(id: &str) -> Cow<'_, str> {
    let is_other = |c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-';
    if id.contains(is_other) { id.replace(is_other, "_").into() } else { id.into() }
}

/// Returns nine letters or digits that identify an id, the same in every prompt and every process.
pub(crate) fn nine(id: &str, tries: u64) -> String {
    const LETTERS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut hash = fnv1a(id.bytes().chain(tries.to_le_bytes()));
    let mut name = String::with_capacity(9);
    for _ in 0..9 {
        name.push(char::from(LETTERS[(hash % 62) as usize]));
        hash /= 62;
    }
    name
}

/// Fowler–Noll–Vo hash: the same on every machine, forever.
pub(crate) fn fnv1a(bytes: impl Iterator<Item = u8>) -> u64 {
    fnv1a_on(0xcbf2_9ce4_8422_2325, bytes)
}

/// Continues the hash of the preceding bytes.
pub(crate) fn fnv1a_on(before: u64, bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(before, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
