//! Wire formats: a [`Prompt`](crate::Prompt) as the JSON that a provider takes, and a provider's
//! answer as a [`Message`](crate::Message).
