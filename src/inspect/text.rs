//! Escapes text, so that it can't end the element that contains it.

/// Adds a text to a page, inside an element or a quoted attribute.
pub(super) fn push(page: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '&' => page.push_str("&amp;"),
            '<' => page.push_str("&lt;"),
            '>' => page.push_str("&gt;"),
            '"' => page.push_str("&quot;"),
            '\'' => page.push_str("&#39;"),
            '\n' | '\t' => page.push(c),
            // HTML forbids control characters or reads them as something else: their symbols are
            // shown.
            '\0'..='\x1f' => page.push(char::from_u32(0x2400 + u32::from(c)).unwrap_or(' ')),
            '\x7f'..='\u{9f}' => page.push('\u{fffd}'),
            c => page.push(c),
        }
    }
}
