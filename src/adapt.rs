//! Between blocking and async memories: [`Blocking`] and [`Unblock`].
//!
//! | you have | you are in | take |
//! |---|---|---|
//! | an async memory or store | blocking code | [`Blocking`], which has a runtime of its own |
//! | a blocking memory or store | async code | [`Unblock`], which keeps its work off the executor |

mod blocking;
mod unblock;

pub use blocking::Blocking;
pub use unblock::Unblock;
