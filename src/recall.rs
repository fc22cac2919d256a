//! Recall: older messages that fit the question, sent beside the window.
//!
//! A window keeps what is new. [`MemoryPrompt::recall`](crate::MemoryPrompt::recall) searches all
//! that the window does not send for the words of the newest question, and adds what fits as
//! excerpts, for this prompt alone:
//!
//! ```
//! use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Recall};
//!
//! let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
//!     .max_messages(2)
//!     .recall(Recall::words());
//! prompt.add_all([
//!     Message::user("My sister Ada moved to Oslo in May."),
//!     Message::ai("How does she like it there?"),
//! ])?;
//! prompt.add_all((0..20).map(|i| Message::user(format!("Unrelated chatter, part {i}."))))?;
//! prompt.add(Message::user("Which city did my sister move to?"))?;
//!
//! let built = prompt.build()?;
//! let recalled: Vec<_> = built.report().recalled.iter().map(|it| it.position).collect();
//! assert!(recalled.starts_with(&[0, 1])); // what was said, and the answer beside it
//! assert!(built[2].text().contains("0 user \"My sister Ada moved to Oslo in May.\""));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # How it searches
//!
//! By words (BM25), the same for every memory. Case and [endings](Endings) do not matter. Scripts
//! without spaces, and Korean, are searched by pairs of characters; identifiers by their parts too;
//! a language whose endings are not known by groups of four letters too. A day that the question
//! names (`2023-11-01`, "1 November", "last Tuesday") is searched among the days on which messages
//! were written, beside its words; it is counted from the day on which the question was asked.
//!
//! The words of a message's neighbours count for it as far as messages side by side speak of the
//! same in this conversation: that is measured by the words that they share, down to nothing if
//! notes stand in no order. A long message leans less on its neighbours than a short one.
//!
//! Words find no meaning: what was said in other words is found only by its neighbours, and a
//! question that chains facts finds the first of them. Embeddings, or a search of your own, add
//! what they find as [`Candidates`].
//!
//! Of each message so much is quoted that there is room for several: all of a short one, of a long
//! one the passages that were asked for.
//!
//! [Truncation](crate::Truncate) and its processors do not see what is quoted: whoever must keep
//! something from the model for good evicts it.
//!
//! A [`Turn`](crate::Turn) that reads through [`next`](crate::Turn::next), and so a conversation,
//! recalls once: for its question, before the model is asked first. The excerpts stay in all of its
//! prompts, unless it grows so much that the budget has no room for both.
//!
//! System messages, those of the application's own kind, and tool results unless
//! [asked for](Recall::tool_results) are never searched. Days are those of UTC. Of a question with
//! very many words those at its beginning and at its end are searched for, 128 in all.
//!
//! If nothing is recalled, the [report](crate::Report::nothing_recalled) says why.
//!
//! # The index
//!
//! The words of each message as numbers, without text, grown by what is new with each prompt. A
//! [`Recall`] and its clones share the indexes of all conversations that they searched, up to a
//! [bound](Recall::keep_at_most). What is sent is read from the memory each time, so what was
//! evicted, cleared or deleted is never recalled.
//!
//! So a prompt with recall does not cost only what it sends: it looks at each word that was ever
//! said, and the first one of a process reads the whole conversation once.

mod dates;
mod endings;
mod excerpt;
mod found;
mod index;
mod indexes;
mod question;
mod quotes;
mod rank;
mod score;
mod search;
pub mod tools;
mod words;

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

pub use endings::Endings;
pub(crate) use found::{Asked, Found, Outcome};
use indexes::Indexes;
pub(crate) use search::{GROUP, Search};

use crate::error::Result;
use crate::memory::MemoryId;

/// The settings of [recall](self), and the indexes that were made by them.
///
/// A clone shares the indexes: give clones to the prompts of a store.
#[derive(Clone)]
pub struct Recall {
    tokens: usize,
    characters: usize,
    query: Option<String>,
    endings: Endings,
    pub(crate) tool_results: bool,
    neighbours: u32,
    passage: usize,
    least: f32,
    least_fit: f32,
    keep_free: bool,
    candidates: Option<Arc<dyn Candidates>>,
    indexes: Arc<Mutex<Indexes>>,
}

/// A search of the application's own, whose results are recalled too: embeddings, or the full-text
/// search of a store. `examples/recall_embeddings.rs` shows one.
pub trait Candidates: Send + Sync {
    /// Returns up to `n` messages of this conversation that fit the query.
    ///
    /// It is called while a prompt is built, so it should not take long; in async code it must not
    /// block: search before, and give [`Recall::candidates`] the list. Positions that the memory
    /// does not hold, or that are sent anyway, are passed over, and so is what
    /// [fits too little](Recall::least_fit).
    ///
    /// # Errors
    ///
    /// Whatever keeps it from searching. The prompt is built without it, and its
    /// [report](crate::Report::candidates_failed) says so.
    fn candidates(&self, id: &MemoryId, query: &str, n: usize) -> Result<Vec<Candidate>>;
}

#[deny(clippy::missing_trait_methods)]
impl<C: Candidates + ?Sized> Candidates for Arc<C> {
    fn candidates(&self, id: &MemoryId, query: &str, n: usize) -> Result<Vec<Candidate>> {
        C::candidates(self, id, query, n)
    }
}

/// Candidates that were found already, for this question alone: by an async search, before the
/// prompt is built.
#[deny(clippy::missing_trait_methods)]
impl Candidates for Vec<Candidate> {
    fn candidates(&self, _: &MemoryId, _: &str, _: usize) -> Result<Vec<Candidate>> {
        Ok(self.clone())
    }
}

/// A message that a search of the application's own has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its position.
    pub position: u64,
    /// Its fit, from 0 to 1, as a cosine is. One that is offered twice counts as it fits best.
    pub fit: f32,
}

impl Recall {
    /// Returns a search by words: up to 500 tokens of excerpts.
    pub fn words() -> Self {
        Self {
            tokens: 500,
            characters: usize::MAX,
            query: None,
            endings: Endings::Light,
            tool_results: false,
            neighbours: 1,
            passage: 1_200,
            least: 0.03,
            least_fit: 0.1,
            keep_free: true,
            candidates: None,
            indexes: Indexes::at_most(256 << 20),
        }
    }

    /// Recalls at most so many tokens, by the prompt's counter, or by
    /// [`Estimate`](crate::token::Estimate) if it has none.
    ///
    /// If the prompt has a [budget](crate::Budget), so many are [kept free](Self::keep_free) in
    /// it, at most half of it.
    #[must_use]
    pub fn tokens(mut self, tokens: usize) -> Self {
        (self.tokens, self.characters) = (tokens, usize::MAX);
        self
    }

    /// Recalls at most so many characters.
    #[must_use]
    pub fn characters(mut self, characters: usize) -> Self {
        (self.tokens, self.characters) = (usize::MAX, characters);
        self
    }

    /// Keeps the [tokens](Self::tokens) of recall free in the prompt's budget, at most half of it,
    /// as it does unless told [otherwise](Self::no_keep_free): the window gets the rest, whatever
    /// is found. What must be sent goes before it: no build fails for what is kept free, and
    /// nothing is cut for it.
    ///
    /// It says nothing if the prompt has no budget, or where recall is bounded by
    /// [characters](Self::characters).
    #[must_use]
    #[doc(alias = "share")]
    pub fn keep_free(mut self) -> Self {
        self.keep_free = true;
        self
    }

    /// Recalls only what finds room in what the window leaves of the budget: nothing, once the
    /// window fills it.
    #[must_use]
    pub fn no_keep_free(mut self) -> Self {
        self.keep_free = false;
        self
    }

    /// Searches for this, and not for the newest message of the user.
    #[must_use]
    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// Sets the rule by which words lose their endings, and begins with indexes of its own.
    #[must_use]
    pub fn endings(mut self, endings: Endings) -> Self {
        self.endings = endings;
        self.forget_indexes();
        self
    }

    /// Recalls tool results too, with their calls, and begins with indexes of its own. Unless set
    /// they are not: what a tool said would speak with the user's voice. Of a call with no result
    /// behind it, or with more than 16, what the model said with it is recalled alone.
    #[must_use]
    pub fn tool_results(mut self) -> Self {
        self.tool_results = true;
        self.forget_indexes();
        self
    }

    /// Sets how many messages before and behind a hit may come with it, the nearest first, where
    /// nothing that fits better needs the room; 1 unless set, at most 16.
    #[must_use]
    pub fn neighbours(mut self, n: u32) -> Self {
        self.neighbours = n.min(16);
        self
    }

    /// Sets the most characters of a message that are quoted, at least 4; 1,200 unless set. Of a
    /// message that is longer, or that would leave no room for others, it is the passages with most
    /// of what was asked for.
    #[must_use]
    pub fn passage(mut self, characters: usize) -> Self {
        self.passage = characters.max(4);
        self
    }

    /// Recalls nothing whose score is below this; 0.03 unless set, and no number (NaN) counts as 0.
    ///
    /// A score is the part of the question's weight that a message has, its neighbours' words
    /// counted in part: about 0 where it has its commonest words alone, 1 where it has all that is
    /// known, and more where it has words side by side as the question has them. Words that stand
    /// nowhere do not count, so a high score alone does not say that a message answers. The
    /// [report](crate::Report::recalled) shows it. With 0.15 less is quoted behind a hit that fits
    /// much better than all others.
    ///
    /// Unless it is 0 or less, nothing is recalled either where what is found may as well be
    /// chance: the words of the question that the best messages have must be so rare that together
    /// they tell one message from most others, and in a conversation of 40 messages and more the
    /// best must stand out from what all of them score. "Yes, please." recalls nothing. What was
    /// written on a day that the question names is recalled in any case.
    #[must_use]
    pub fn least_score(mut self, score: f32) -> Self {
        self.least = if score.is_nan() { 0.0 } else { score };
        self
    }

    /// Recalls no [candidate](Self::candidates) that fits less than this; 0.1 unless set, and no
    /// number (NaN) counts as that. One that fits 0 or less is never recalled.
    #[must_use]
    pub fn least_fit(mut self, fit: f32) -> Self {
        self.least_fit = if fit.is_nan() { 0.1 } else { fit };
        self
    }

    /// Recalls what this search finds too. A message's rank is the sum of two parts: its score by
    /// words in parts of the best score, and its fit in parts of the best fit. So it does not
    /// matter whether fits are large or small, only how they differ. A list of [`Candidate`]s is
    /// one, that finds the same whatever is asked:
    ///
    /// ```
    /// use memory_prompt::recall::Candidate;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Recall};
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(1);
    /// prompt.add(Message::user("Ada adopted three kittens."))?;
    /// prompt.add(Message::user("Were there any felines?"))?;
    /// let found = vec![Candidate { position: 0, fit: 0.8 }]; // by a search of yours, async perhaps
    /// let prompt = prompt.recall(Recall::words().candidates(found));
    /// assert_eq!(prompt.preview()?.report().recalled[0].position, 0);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn candidates(mut self, candidates: impl Candidates + 'static) -> Self {
        self.candidates = Some(Arc::new(candidates));
        self
    }

    /// Bounds the memory that indexes take: the ones that were not used for longest go first. 256
    /// MiB unless set. The one in use stays, however large it is.
    ///
    /// It is a bound of the indexes, so it holds for all clones that share them, those made before
    /// too.
    #[must_use]
    pub fn keep_at_most(self, bytes: usize) -> Self {
        self.indexes.lock().keep_at_most(bytes);
        self
    }

    /// Returns the bytes that all indexes take.
    pub fn index_bytes(&self) -> usize {
        self.indexes.lock().bytes
    }

    /// Forgets the index of a conversation: for one that was deleted, and is not asked again.
    pub fn forget(&self, id: &MemoryId) {
        self.indexes.lock().remove(id);
    }

    /// Returns how many tokens are kept free for it.
    pub(crate) fn kept_free(&self) -> usize {
        if self.keep_free && self.tokens < usize::MAX { self.tokens } else { 0 }
    }

    /// Begins with indexes of its own: those of other rules are of no use.
    fn forget_indexes(&mut self) {
        let most = self.indexes.lock().most;
        self.indexes = Indexes::at_most(most);
    }
}

impl fmt::Debug for Recall {
    /// Says how it is configured; of a query only how long it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recall")
            .field("tokens", &self.tokens)
            .field("characters", &self.characters)
            .field("query_bytes", &self.query.as_ref().map(String::len))
            .field("endings", &self.endings)
            .field("tool_results", &self.tool_results)
            .field("neighbours", &self.neighbours)
            .field("passage", &self.passage)
            .field("least_score", &self.least)
            .field("least_fit", &self.least_fit)
            .field("keep_free", &self.keep_free)
            .field("index_bytes", &self.index_bytes())
            .finish_non_exhaustive()
    }
}
