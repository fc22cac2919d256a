//! Measuring and cutting text without breaking a character.
