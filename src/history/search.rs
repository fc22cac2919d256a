//! A tool that finds messages by words.

use std::collections::HashSet;
use std::ops::Range;

use serde_json::json;

use super::read_arguments;
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{ChatMemory, MemoryId, Read};
use crate::recall::{Asked, Found, Recall, Search};
use crate::record::{Records, Snapshot};
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
    ///
    /// A [query](Recall::query) that they set is left aside: the model says what it looks for.
    pub fn with(recall: Recall) -> Self {
        Self { recall: recall.without_query() }
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
        self.run_beside(memory, &Records::default(), arguments)
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
        self.run_beside_async(memory, &Records::default(), arguments).await
    }

    /// Does the same, with records that are not stored yet.
    pub(crate) fn run_beside(
        &self,
        memory: &(impl ChatMemory + ?Sized),
        staged: &Records,
        arguments: &str,
    ) -> Result<String> {
        let query = match query(arguments) {
            Ok(query) => query,
            Err(text) => return Ok(text),
        };
        let mut search = self.search(memory.id(), &query, &memory.read(None, 1)?, staged);
        let found = search.run(|read| memory.read_with(read))?;
        Ok(text([found, self.found_in(memory.id(), staged, &query)?]))
    }

    #[cfg(feature = "async")]
    pub(crate) async fn run_beside_async(
        &self,
        memory: &(impl AsyncChatMemory + ?Sized),
        staged: &Records,
        arguments: &str,
    ) -> Result<String> {
        let query = match query(arguments) {
            Ok(query) => query,
            Err(text) => return Ok(text),
        };
        let mut search = self.search(memory.id(), &query, &memory.read(None, 1).await?, staged);
        let found = search.run_async(memory).await?;
        Ok(text([found, self.found_in(memory.id(), staged, &query)?]))
    }

    /// Searches what is not stored yet by the same rules, as a conversation of its own.
    fn found_in(&self, id: &MemoryId, staged: &Records, query: &str) -> Result<Option<Found>> {
        let (Some(first), Some(last)) = (staged.first(), staged.last()) else { return Ok(None) };
        let held = first.seq()..last.seq() + 1;
        let recall = self.recall.clone().by_itself();
        // The call that asks says the words itself.
        let asks = staged.iter().rev().find(|record| record.message().has_tool_calls());
        let asked = Asked {
            newest: staged.clone(),
            not_these: asks.map(|record| record.seq()).into_iter().collect(),
            ..asked(id, query, held.clone())
        };
        Search::new(&recall, asked).run(|read| Ok(read_of(staged, &held, read)))
    }

    fn search(
        &self,
        id: &MemoryId,
        query: &str,
        snapshot: &Snapshot,
        staged: &Records,
    ) -> Search<'_> {
        // At the positions of what is staged others may have appended meanwhile.
        let others = staged.first().map_or(snapshot.end, |record| record.seq())..snapshot.end;
        let asked = Asked {
            incarnation: snapshot.incarnation,
            // By it an index is told from one of a conversation that was begun anew.
            newest: snapshot.records.clone(),
            not_these: others.collect(),
            ..asked(id, query, snapshot.start..snapshot.end)
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

fn asked(id: &MemoryId, query: &str, held: Range<u64>) -> Asked {
    Asked {
        id: id.clone(),
        held,
        incarnation: None,
        newest: Records::default(),
        question: query.to_owned(),
        before: String::new(),
        asks: None,
        not_these: HashSet::new(),
        left: None,
        counter: None,
    }
}

/// Returns what a memory that holds these records would answer.
fn read_of(records: &Records, held: &Range<u64>, read: &Read) -> Snapshot {
    let before = records.clone().split(read.before.unwrap_or(held.end)).0;
    let skipped = before.len().saturating_sub(read.n);
    let first = before.get(skipped).map_or(held.end, |record| record.seq());
    let newest = before.split(first).1;
    let mut picked = Records::default();
    for position in &read.positions {
        picked.extend(records.clone().split(*position).1.split(position + 1).0);
    }
    Snapshot::new(held.clone(), newest).with_picked(picked, Vec::new())
}

fn text(found: [Option<Found>; 2]) -> String {
    let found = found.into_iter().flatten();
    let texts: Vec<_> = found.map(|found| found.message.text().into_owned()).collect();
    if texts.is_empty() {
        return "Nothing in this conversation fits these words.".to_owned();
    }
    texts.join("\n")
}
