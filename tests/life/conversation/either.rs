//! A conversation of either kind, so that what both do is written once.

use std::future::ready;
use std::sync::Weak;
use std::sync::atomic::AtomicU32;

use memory_prompt::message::Content;
use memory_prompt::turn::{Call, Done, Waiting};
use memory_prompt::{AsyncChatMemory, Window};
use serde_json::Value;

use super::faults::Slow;
use super::*;

pub(crate) enum Either {
    Blocking(Conversation),
    Async(Conversation<dyn AsyncChatMemory>),
}

/// A tool that counts how often it has paid.
pub(crate) fn counting(
    paid: &Arc<AtomicU32>,
) -> impl Fn(Value) -> Result<String, ToolError> + Send + Sync + use<> {
    let paid = Arc::clone(paid);
    move |_| {
        paid.fetch_add(1, Ordering::Relaxed);
        Ok("paid".to_owned())
    }
}

pub(crate) const BOTH: [bool; 2] = [false, true];

/// The result of an operation of either kind; an async one is polled to its end.
macro_rules! does {
    ($either:expr, $it:ident => $done:expr) => {
        match $either {
            crate::conversation::either::Either::Blocking($it) => $done,
            crate::conversation::either::Either::Async($it) => {
                crate::conversation::faults::polled($done, 5_000).unwrap()
            }
        }
    };
}
pub(crate) use does;

impl Either {
    /// A conversation over this memory, with a payment that needs approval.
    pub(crate) fn new(
        is_async: bool,
        memory: &Arc<impl ChatMemory + 'static>,
        model: Scripted,
        paid: &Arc<AtomicU32>,
    ) -> Self {
        let conversation = if is_async {
            let prompt = MemoryPrompt::new_async(Slow(Arc::clone(memory)));
            Self::Async(Conversation::new_async(prompt, model))
        } else {
            Self::Blocking(Conversation::new(MemoryPrompt::new(Arc::clone(memory)), model))
        };
        conversation.tool(Tool::new("pay", "Pays.").needing_approval(), counting(paid))
    }

    /// A conversation over this memory with a model that gives these answers.
    pub(crate) fn by(
        is_async: bool,
        memory: &Arc<impl ChatMemory + 'static>,
        model: impl Fn(&Asking<'_>) -> Result<Reply, ModelError> + Send + Sync + 'static,
    ) -> Self {
        if is_async {
            let prompt = MemoryPrompt::new_async(Slow(Arc::clone(memory))).window(Window::all());
            let model = move |ask: Asking<'static>| ready(model(&ask));
            Self::Async(Conversation::new_async(prompt, model))
        } else {
            let prompt = MemoryPrompt::new(Arc::clone(memory)).window(Window::all());
            Self::Blocking(Conversation::new(prompt, move |ask: &Asking<'_>| model(ask)))
        }
    }

    pub(crate) fn tool(
        self,
        tool: Tool,
        run: impl Fn(Value) -> Result<String, ToolError> + Send + Sync + 'static,
    ) -> Self {
        match self {
            Self::Blocking(it) => Self::Blocking(it.tool(tool, run)),
            Self::Async(it) => Self::Async(it.tool(tool, run)),
        }
    }

    pub(crate) fn approve_by(
        self,
        approver: impl Fn(&Call) -> Approval + Send + Sync + 'static,
    ) -> Self {
        match self {
            Self::Blocking(it) => Self::Blocking(it.approve_by(approver)),
            Self::Async(it) => Self::Async(it.approve_by(approver)),
        }
    }

    pub(crate) fn say(&self, turn: impl Into<Turn>) -> Result<Done> {
        does!(self, it => it.say(turn))
    }

    pub(crate) fn run(&self, turn: &mut Turn) -> Result<Done> {
        does!(self, it => it.run(turn, |_| {}))
    }

    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        does!(self, it => it.waiting()).unwrap()
    }

    pub(crate) fn approve(&self, waiting: &Waiting) -> Result<Done> {
        does!(self, it => it.approve(waiting))
    }

    pub(crate) fn refuse(&self, waiting: &Waiting, why: &str) -> Result<Done> {
        does!(self, it => it.refuse(waiting, why))
    }

    pub(crate) fn decide(&self, waiting: &Waiting, yes: bool) -> Result<Done> {
        if yes { self.approve(waiting) } else { self.refuse(waiting, "The user said no.") }
    }

    pub(crate) fn recover(&self, silent_for: Duration) -> Result<usize> {
        does!(self, it => it.recover(silent_for))
    }

    pub(crate) fn steer(&self, text: impl Into<Content>) -> Result<()> {
        match self {
            Self::Blocking(it) => it.steer(text),
            Self::Async(it) => it.steer(text),
        }
    }

    pub(crate) fn stopper(&self) -> Stopper {
        match self {
            Self::Blocking(it) => it.stopper(),
            Self::Async(it) => it.stopper(),
        }
    }
}

/// A conversation of either kind over its own memory, and how often it has paid.
pub(crate) fn paying(
    is_async: bool,
    model: Scripted,
) -> (Arc<DefaultChatMemory>, Arc<AtomicU32>, Either) {
    let (memory, paid) = (Arc::new(DefaultChatMemory::new()), Arc::default());
    let conversation = Either::new(is_async, &memory, model, &paid);
    (memory, paid, conversation)
}

/// Where a model or an approver finds the conversation in which it is asked.
#[derive(Clone, Default)]
pub(crate) struct Own(Arc<OnceLock<Weak<Either>>>);

impl Own {
    pub(crate) fn set(&self, conversation: Either) -> Arc<Either> {
        let conversation = Arc::new(conversation);
        self.0.set(Arc::downgrade(&conversation)).unwrap();
        conversation
    }

    pub(crate) fn get(&self) -> Arc<Either> {
        self.0.get().unwrap().upgrade().unwrap()
    }
}
