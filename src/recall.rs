//! Recall: older messages that fit the question, sent as excerpts next to the window.
//!
//! A window sends the newest messages. [`MemoryPrompt::recall`](crate::MemoryPrompt::recall)
//! searches all messages that the window does not send for the words of the newest question, and
//! adds the best matches as excerpts to this prompt only:
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
//! assert!(recalled.starts_with(&[0, 1])); // what was said, and the answer to it
//! assert!(built[2].text().contains("0 user \"My sister Ada moved to Oslo in May.\""));
//! # Ok::<(), memory_prompt::Error>(())
//! ```
//!
//! # How it searches
//!
//! The search is by words (BM25), and works the same for every memory. It ignores case and
//! [endings](Endings). Scripts without spaces, and Korean, are searched by pairs of characters;
//! identifiers also by their parts; languages whose endings are unknown also by groups of four
//! letters. If the question names a day (`2023-11-01`, "1 November", "last Tuesday"), messages
//! written on that day are found too. Relative days count from the day on which the question was
//! asked.
//!
//! The words of neighbouring messages count for a message too, if neighbours share a topic in this
//! conversation. How much they count is measured by the words that neighbours share: nothing, if
//! the messages are notes in no order. They count less for a long message than for a short one.
//!
//! Words have no meaning here: a message that uses other words is found only through its
//! neighbours, and a question that chains facts finds only the first of them. Embeddings, or a
//! search of your own, can add what they find as [`Candidates`].
//!
//! Each message is quoted only so far that several have room: a short one whole, a long one by the
//! passages that match the question.
//!
//! [Truncation](crate::Truncate) and its processors do not see the excerpts. To keep something from
//! the model for good, evict it from the memory.
//!
//! A [`Turn`](crate::Turn) that reads through [`next`](crate::Turn::next), and so a conversation,
//! recalls once: for its question, before the model is first asked. The excerpts stay in all
//! prompts of the turn, unless the turn grows so much that the budget has no room for both, or only
//! with texts that are cut shorter.
//!
//! Recall never searches system messages, the application's own messages, or tool results (unless
//! [asked for](Recall::tool_results)). Days are in UTC. Of a very long question, 128 words are
//! searched for, taken from its beginning and its end.
//!
//! If nothing is recalled, the [report](crate::Report::nothing_recalled) says why.
//!
//! # The index
//!
//! The index holds the words of each message as numbers, without text. Each prompt adds the new
//! messages to it. A [`Recall`] and its clones share the indexes of all conversations that they
//! searched, up to a [bound](Recall::keep_at_most). The text that is sent is read from the memory
//! each time, so messages that were evicted, cleared or deleted are never recalled. A turn that had
//! recalled them before goes on with their excerpts, which its checkpoint holds.
//!
//! A prompt with recall therefore costs more than what it sends: each search looks at every word of
//! the conversation, and the first search in a process reads the whole conversation once.

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

/// The settings of [recall](self), and the indexes that were built with them.
///
/// Clones share the indexes. So make it once, and give a clone to each prompt of a store: a prompt
/// with a new one reads its whole conversation again.
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

/// A search of the application whose hits are recalled too: embeddings, or the full-text search of
/// a store. `examples/recall_embeddings.rs` shows one.
pub trait Candidates: Send + Sync {
    /// Returns up to `n` messages of this conversation that fit the query.
    ///
    /// This is called while a prompt is built, so it should be fast. In async code it must not
    /// block: run the search earlier, and give [`Recall::candidates`] the list. Positions that the
    /// memory does not hold, or that are sent anyway, are ignored, and so are hits that
    /// [fit too little](Recall::least_fit).
    ///
    /// Positions are those of the branch that the prompt is made of, and the id does not tell which
    /// it is. On another [branch](crate::history) the same position is another message, so an index
    /// that is shared by branches must keep [`Variant::record`](crate::history::Variant::record)
    /// with each message.
    ///
    /// # Errors
    ///
    /// Any error that stops the search. The prompt is then built without candidates, and its
    /// [report](crate::Report::candidates_failed) contains the error.
    fn candidates(&self, id: &MemoryId, query: &str, n: usize) -> Result<Vec<Candidate>>;
}

#[deny(clippy::missing_trait_methods)]
impl<C: Candidates + ?Sized> Candidates for Arc<C> {
    fn candidates(&self, id: &MemoryId, query: &str, n: usize) -> Result<Vec<Candidate>> {
        C::candidates(self, id, query, n)
    }
}

/// Candidates that were found before the prompt is built, for this question only: for example by an
/// async search.
#[deny(clippy::missing_trait_methods)]
impl Candidates for Vec<Candidate> {
    fn candidates(&self, _: &MemoryId, _: &str, _: usize) -> Result<Vec<Candidate>> {
        Ok(self.clone())
    }
}

/// A message that a search of the application found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Its position.
    pub position: u64,
    /// Its fit, from 0 to 1, like a cosine. If a message is offered twice, the better fit counts.
    pub fit: f32,
}

impl Recall {
    /// Returns a search by words, with up to 500 tokens of excerpts.
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

    /// Recalls at most this many tokens, counted by the prompt's counter, or by
    /// [`Estimate`](crate::token::Estimate) if it has none.
    ///
    /// If the prompt has a [budget](crate::Budget), this many tokens are
    /// [kept free](Self::keep_free) in it, but at most half of it.
    #[must_use]
    pub fn tokens(mut self, tokens: usize) -> Self {
        (self.tokens, self.characters) = (tokens, usize::MAX);
        self
    }

    /// Recalls at most this many characters.
    #[must_use]
    pub fn characters(mut self, characters: usize) -> Self {
        (self.tokens, self.characters) = (usize::MAX, characters);
        self
    }

    /// Keeps the [tokens](Self::tokens) of recall free in the prompt's budget, at most half of it.
    /// This is the default; [`no_keep_free`](Self::no_keep_free) turns it off. The window gets the
    /// rest of the budget, whether or not anything is found. Messages that must be sent come first:
    /// no build fails and nothing is cut because of this reserve.
    ///
    /// This has no effect if the prompt has no budget, or if recall is bounded by
    /// [characters](Self::characters).
    #[must_use]
    #[doc(alias = "share")]
    pub fn keep_free(mut self) -> Self {
        self.keep_free = true;
        self
    }

    /// Recalls only what fits into the room that the window leaves in the budget: nothing, once the
    /// window fills it.
    #[must_use]
    pub fn no_keep_free(mut self) -> Self {
        self.keep_free = false;
        self
    }

    /// Searches for this text instead of the newest message of the user with words.
    #[must_use]
    pub fn query(mut self, query: impl Into<String>) -> Self {
        self.query = Some(query.into());
        self
    }

    /// Sets the rule that removes the endings of words, and starts new indexes.
    #[must_use]
    pub fn endings(mut self, endings: Endings) -> Self {
        self.endings = endings;
        self.forget_indexes();
        self
    }

    /// Recalls tool results too, with their calls, and starts new indexes. This is off by default,
    /// because a tool's text would then be quoted in the user's voice. If a call has no result, or
    /// more than 16, only what the model said with it is recalled. Results of tools named
    /// `search_history` or `read_back` are not searched: [those](tools) repeat what is stored.
    #[must_use]
    pub fn tool_results(mut self) -> Self {
        self.tool_results = true;
        self.forget_indexes();
        self
    }

    /// Sets how many messages before and after a hit may come with it, the nearest first, if no
    /// better hit needs the room. The default is 1, the maximum 16.
    #[must_use]
    pub fn neighbours(mut self, n: u32) -> Self {
        self.neighbours = n.min(16);
        self
    }

    /// Sets the most characters that are quoted of one message, at least 4. The default is 1,200.
    /// If a message is longer, or would leave no room for others, its passages with the best
    /// matches are quoted.
    #[must_use]
    pub fn passage(mut self, characters: usize) -> Self {
        self.passage = characters.max(4);
        self
    }

    /// Recalls only messages with at least this score. The default is 0.03; NaN counts as 0.
    ///
    /// A score is the part of the question's weight that a message has, plus a part of its
    /// neighbours' words: about 0 if it has only the most common words of the question, 1 if it has
    /// all that are known, and more if words follow each other as in the question. Words that no
    /// message has do not count, so a high score alone does not mean that a message answers the
    /// question. The [report](crate::Report::recalled) shows the scores. With 0.15, fewer messages
    /// are quoted after a hit that fits much better than all others.
    ///
    /// Unless this is 0 or less, nothing is recalled if the hits may be chance: the question's
    /// words in the best messages must be rare enough to tell one message from most others, and in
    /// a conversation of 40 or more messages the best score must stand out from all scores. "Yes,
    /// please." recalls nothing. Messages written on a day that the question names are recalled in
    /// any case.
    #[must_use]
    pub fn least_score(mut self, score: f32) -> Self {
        self.least = if score.is_nan() { 0.0 } else { score };
        self
    }

    /// Recalls only [candidates](Self::candidates) with at least this fit. The default is 0.1; NaN
    /// counts as the default. A candidate with a fit of 0 or less is never recalled.
    #[must_use]
    pub fn least_fit(mut self, fit: f32) -> Self {
        self.least_fit = if fit.is_nan() { 0.1 } else { fit };
        self
    }

    /// Recalls the hits of this search too. The rank of a message is the sum of two parts: its
    /// score by words divided by the best score, and its fit divided by the best fit. So only the
    /// differences between fits matter, not their size. A list of [`Candidate`]s is also such a
    /// search, with the same hits for every question:
    ///
    /// ```
    /// use memory_prompt::recall::Candidate;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Recall};
    ///
    /// let prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(1);
    /// prompt.add(Message::user("Ada adopted three kittens."))?;
    /// prompt.add(Message::user("Were there any felines?"))?;
    /// let found = vec![Candidate { position: 0, fit: 0.8 }]; // from your own search
    /// let prompt = prompt.recall(Recall::words().candidates(found));
    /// assert_eq!(prompt.preview()?.report().recalled[0].position, 0);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    #[must_use]
    pub fn candidates(mut self, candidates: impl Candidates + 'static) -> Self {
        self.candidates = Some(Arc::new(candidates));
        self
    }

    /// Bounds the memory of the indexes: those unused for longest are dropped first. The default is
    /// 256 MiB. The index in use stays, however large it is.
    ///
    /// The bound belongs to the indexes, so it holds for all clones that share them, including
    /// earlier ones.
    #[must_use]
    pub fn keep_at_most(self, bytes: usize) -> Self {
        self.indexes.lock().keep_at_most(bytes);
        self
    }

    /// Returns the bytes that all indexes take.
    pub fn index_bytes(&self) -> usize {
        self.indexes.lock().bytes
    }

    /// Forgets the index of a conversation, for example after the conversation was deleted.
    pub fn forget(&self, id: &MemoryId) {
        self.indexes.lock().remove(id);
    }

    pub(crate) fn kept_free(&self) -> usize {
        if self.keep_free && self.tokens < usize::MAX { self.tokens } else { 0 }
    }

    /// Starts new indexes, since those of other rules are of no use.
    fn forget_indexes(&mut self) {
        let most = self.indexes.lock().most;
        self.indexes = Indexes::at_most(most);
    }
}

impl fmt::Debug for Recall {
    /// Shows the settings, but of a query only its length.
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
