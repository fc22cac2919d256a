//! Adapters between blocking and async memories: [`ToBlocking`] and [`ToAsync`].
//!
//! | you have | you are in | use |
//! |---|---|---|
//! | an async memory or store | blocking code | [`ToBlocking`], which has a runtime of its own |
//! | a blocking memory or store | async code | [`ToAsync`], which keeps its work off the executor |

mod to_async;
mod to_blocking;

pub use to_async::ToAsync;
pub use to_blocking::ToBlocking;
