//! A tool that finds messages by words.

use serde_json::json;

use super::read_arguments;
use crate::error::Result;
#[cfg(feature = "async")]
use crate::memory::AsyncChatMemory;
use crate::memory::{ChatMemory, MemoryId, On, Read};
use crate::recall::{Asked, Found, Recall, Search};
use crate::record::{Records, Snapshot};
use crate::tool::Tool;

/// A tool, `search_history`, that finds messages anywhere in the conversation by words, and quotes
/// them with their positions.
///
/// It searches like [recall](crate::recall). With [`new`](Self::new) it searches tool results too,
/// since its own output is a tool result and does not speak with the user's voice. See
/// [`tools`](super) for how to use it.
#[derive(Clone, Debug)]
pub struct SearchHistory {
    recall: Recall,
}

impl SearchHistory {
    /// Returns the tool with its defaults: up to 1,000 tokens of stored messages and as many of
    /// messages of the turn that are not stored yet, up to 300 characters of each message, and any
    /// message that has one of the words, if nothing fits better.
    pub fn new() -> Self {
        let recall = Recall::words().tool_results().least_score(0.0);
        Self::with(recall.tokens(1_000).passage(300))
    }

    /// Returns the tool with exactly these settings, sharing their indexes. To search tool results,
    /// and to find any message that has one of the words, set
    /// [`tool_results`](Recall::tool_results) and [`least_score(0.0)`](Recall::least_score).
    ///
    /// Their [query](Recall::query) is ignored: the model gives the words.
    pub fn with(mut recall: Recall) -> Self {
        recall.query = None;
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

    /// Runs a call, also over records that are not stored yet.
    pub(crate) fn run_with_staged(
        &self,
        memory: &(impl ChatMemory + ?Sized),
        (staged, on): (&Records, Option<On>),
        arguments: &str,
    ) -> Result<String> {
        let Some(query) = query(arguments) else { return Ok(NO_WORDS.to_owned()) };
        let newest = memory.read_with(&Read::newest(1).on(on))?;
        let mut search = self.search(memory.id(), &query, &newest, staged).on(on);
        let found = search.run(|read| memory.read_with(read))?;
        Ok(text([found, self.found_in(memory.id(), staged, &query)?]))
    }

    #[cfg(feature = "async")]
    pub(crate) async fn run_with_staged_async(
        &self,
        memory: &(impl AsyncChatMemory + ?Sized),
        (staged, on): (&Records, Option<On>),
        arguments: &str,
    ) -> Result<String> {
        let Some(query) = query(arguments) else { return Ok(NO_WORDS.to_owned()) };
        let newest = memory.read_with(&Read::newest(1).on(on)).await?;
        let mut search = self.search(memory.id(), &query, &newest, staged).on(on);
        let found = search.run_async(memory).await?;
        Ok(text([found, self.found_in(memory.id(), staged, &query)?]))
    }

    /// Searches what is not stored yet by the same rules, as a separate conversation.
    fn found_in(&self, id: &MemoryId, staged: &Records, query: &str) -> Result<Option<Found>> {
        let (Some(first), Some(last)) = (staged.first(), staged.last()) else { return Ok(None) };
        // Read all of it, not only what the search asks for.
        let all = Snapshot::new(first.position()..last.position() + 1, staged.clone());
        let all = all.with_picked(staged.clone(), Vec::new());
        // The arguments of the call that runs this search contain its words; it would find itself.
        let own_call = staged.iter().rev().find(|record| record.message().has_tool_calls());
        let own_call = own_call.map(|record| record.position()).into_iter().collect();
        let asked = Asked::new(id, query.to_owned(), &all, own_call);
        let mut recall = self.recall.clone();
        recall.candidates = None;
        recall.forget_indexes();
        Search::new(&recall, asked).run(|_| Ok(all.clone()))
    }

    fn search(&self, id: &MemoryId, query: &str, seen: &Snapshot, staged: &Records) -> Search<'_> {
        // Other writers may have appended at the staged positions; one position must not mean two
        // messages.
        let others = staged.first().map_or(seen.end, |record| record.position())..seen.end;
        Search::new(&self.recall, Asked::new(id, query.to_owned(), seen, others.collect()))
    }
}

const NO_WORDS: &str = "arguments: `query` is a text with the words to search.";

fn query(arguments: &str) -> Option<String> {
    let arguments = read_arguments(arguments);
    arguments["query"].as_str().filter(|query| !query.trim().is_empty()).map(str::to_owned)
}

fn text(found: [Option<Found>; 2]) -> String {
    let found = found.into_iter().flatten();
    let texts: Vec<_> = found.map(|found| found.message.text().into_owned()).collect();
    if texts.is_empty() {
        return "Nothing in this conversation fits these words.".to_owned();
    }
    texts.join("\n")
}
