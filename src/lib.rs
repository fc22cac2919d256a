//! Compose what a language model is sent.

pub mod text;
