//! The inspector: prompts on one page, each compared with the one before.

use super::page::Page;
use crate::history::Branch;
use crate::prompt::Prompt;
use crate::record::Incarnation;
use crate::wire::Usage;

/// Collects the prompts of a conversation and shows them on one page, each compared with the one
/// before: what a cache had of it, what was new, and what broke the prefix.
///
/// ```
/// use memory_prompt::inspect::Inspector;
/// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
///
/// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
/// let mut inspector = Inspector::new();
/// for question in ["Where is Oslo?", "And Bergen?"] {
///     prompt.add(Message::user(question))?;
///     inspector.push(&prompt.build()?, None);
///     prompt.add(Message::ai("In Norway."))?;
/// }
/// std::fs::write(std::env::temp_dir().join("prompts.html"), inspector.html())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Inspector {
    prompts: Vec<Shown>,
    branches: Vec<Branch>,
}

/// A prompt that was sent.
#[derive(Clone, Debug)]
struct Shown {
    prompt: Prompt,
    usage: Option<Usage>,
    branch: Option<Incarnation>,
}

impl Inspector {
    /// Returns an inspector without prompts.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a prompt that was sent, and the provider's token counts for it if they are known.
    ///
    /// The prompt is shared, not copied.
    pub fn push(&mut self, prompt: &Prompt, usage: Option<&Usage>) -> &mut Self {
        self.prompts.push(Shown { prompt: prompt.clone(), usage: usage.copied(), branch: None });
        self
    }

    /// Sets the [branch](crate::history) on which the last added prompt was made.
    ///
    /// ```
    /// use memory_prompt::inspect::Inspector;
    /// use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message};
    ///
    /// let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).with_branches();
    /// prompt.add_all([Message::user("Where is Oslo?"), Message::ai("In Sweden.")])?;
    /// let mut inspector = Inspector::new();
    /// inspector.push(&prompt.build()?, None).made_on(prompt.page(None, 0)?.branch);
    ///
    /// prompt.edit(1, Message::ai("In Norway."))?;
    /// let page = inspector.marking(prompt.branches()?).html();
    /// assert_eq!(page.matches("not on the current branch").count(), 1);
    /// # Ok::<(), memory_prompt::Error>(())
    /// ```
    pub fn made_on(&mut self, branch: Option<Incarnation>) -> &mut Self {
        if let Some(last) = self.prompts.last_mut() {
            last.branch = branch;
        }
        self
    }

    /// Marks the records that are not on the current one of these branches, in each prompt whose
    /// branch is [set](Self::made_on).
    pub fn marking(&mut self, branches: Vec<Branch>) -> &mut Self {
        self.branches = branches;
        self
    }

    /// Writes the page.
    ///
    /// Tokens of single messages are [estimated](crate::token::Estimate); the total comes from the
    /// prompt's own budget, if it has one.
    pub fn html(&self) -> String {
        let prompts = self.prompts.iter().map(|it| {
            let left = it.branch.and_then(|branch| left_at(&self.branches, branch));
            (&it.prompt, it.usage.as_ref(), left)
        });
        Page::html(&prompts.collect::<Vec<_>>())
    }
}

impl Prompt {
    /// Writes a page that shows this prompt. [`Inspector`] shows several.
    pub fn html(&self) -> String {
        Page::html(&[(self, None, None)])
    }
}

/// Returns the position from which the current branch differs from this one; `None` if it is not
/// among these branches.
fn left_at(branches: &[Branch], branch: Incarnation) -> Option<u64> {
    let current = path(branches, branches.iter().find(|it| it.is_current));
    let own = path(branches, branches.iter().find(|it| it.id == branch));
    own.iter().find_map(|(id, upto)| {
        let shared = current.iter().find(|it| it.0 == *id)?;
        Some(shared.1.min(*upto))
    })
}

/// Returns this branch and its ancestors, each with the position up to which it has the same
/// messages.
fn path<'a>(branches: &'a [Branch], mut next: Option<&'a Branch>) -> Vec<(Incarnation, u64)> {
    let (mut path, mut upto) = (Vec::new(), u64::MAX);
    while let Some(branch) = next.filter(|_| path.len() < branches.len()) {
        path.push((branch.id, upto));
        upto = upto.min(branch.own.start);
        next = branches.iter().find(|it| Some(it.id) == branch.parent);
    }
    path
}
