//! A tool that finds messages by words.

use serde_json::json;

use super::read_arguments;
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{ChatMemory, MemoryId};
use crate::recall::{Asked, Found, Recall, Search, Wants};
use crate::record::Snapshot;
use crate::tool::Tool;

/// A tool, `search_history`, that finds messages of the conversation by words, wherever they are,
/// and quotes them with their positions.
///
/// It searches as [recall](crate::recall) does, and tool results too: what it finds is a tool's
/// result and speaks with nobody's voice. See [`history`](super) for how it is used.
#[derive(Clone, Debug)]
pub struct SearchHistory {
    recall: Recall,
}

impl SearchHistory {
    /// Returns the tool, which quotes up to 1,000 tokens, of up to 300 characters a message, and
    /// whatever has one of the words, if nothing fits better.
    pub fn new() -> Self {
        let recall = Recall::words().tool_results().least_score(0.0);
        Self::with(recall.tokens(1_000).passage(300))
    }

    /// Returns the tool, which searches by these settings, and shares the indexes of these.
    pub const fn with(recall: Recall) -> Self {
        Self { recall }
    }

    /// Returns its definition.
    pub fn tool(&self) -> Tool {
        let what = "Searches all of this conversation for words, also what is not shown here. Quotes \
                    what was found, each under the number of its message.";
        let query = "Words that the message says: names and rare words find most.";
        Tool::new("search_history", what).repeatable().parameters(json!({
            "type": "object",
            "properties": {"query": {"type": "string", "description": query}},
            "required": ["query"],
        }))
    }

    /// Returns what a call with these arguments is answered: quotes, or that there is nothing.
    ///
    /// # Errors
    ///
    /// As [`ChatMemory::read_with`].
    pub fn run(&self, memory: &(impl ChatMemory + ?Sized), arguments: &str) -> Result<String> {
        let query = match query(arguments) {
            Ok(query) => query,
            Err(text) => return Ok(text),
        };
        let mut search = self.search(memory.id(), query, &memory.read(None, 1)?);
        loop {
            match search.next()? {
                Wants::Read(read) => search.read(&memory.read_with(&read)?)?,
                Wants::Done(found) => return Ok(text(found)),
            }
        }
    }

    /// Does the same over an async memory.
    ///
    /// # Errors
    ///
    /// As [`AsyncChatMemory::read_with`].
    #[cfg(feature = "async")]
    pub async fn run_async(
        &self,
        memory: &(impl AsyncChatMemory + ?Sized),
        arguments: &str,
    ) -> Result<String> {
        let query = match query(arguments) {
            Ok(query) => query,
            Err(text) => return Ok(text),
        };
        let mut search = self.search(memory.id(), query, &memory.read(None, 1).await?);
        loop {
            match search.next()? {
                Wants::Read(read) => search.read(&memory.read_with(&read).await?)?,
                Wants::Done(found) => return Ok(text(found)),
            }
        }
    }

    fn search(&self, id: &MemoryId, question: String, snapshot: &Snapshot) -> Search<'_> {
        let asked = Asked {
            id: id.clone(),
            held: snapshot.start..snapshot.end,
            incarnation: snapshot.incarnation,
            // By it an index is told from one of a conversation that was begun anew.
            newest: snapshot.records.clone(),
            question,
            before: String::new(),
            asks: None,
            not_these: [].into(),
            left: None,
            counter: None,
        };
        Search::new(&self.recall, asked)
    }
}

impl Default for SearchHistory {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns what is searched; else the text that says what is wrong with it.
fn query(arguments: &str) -> Result<String, String> {
    match read_arguments(arguments)["query"].as_str() {
        Some(query) if !query.trim().is_empty() => Ok(query.to_owned()),
        _ => Err("arguments: `query` is a text with the words to search.".to_owned()),
    }
}

fn text(found: Option<Found>) -> String {
    match found {
        Some(found) => found.message.text().into_owned(),
        None => "Nothing in this conversation fits these words.".to_owned(),
    }
}
