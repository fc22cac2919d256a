//! Swapping memories: whoever swaps for ever pays for one swap.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::thread;

use crate::counted::counted;
use memory_prompt::history::BranchView;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, DefaultChatMemory, ErrorKind, MemoryPrompt, Message,
    MessageWindowChatMemory,
};
use proptest::prelude::*;

/// Small enough that a few hundred nested calls would overflow it.
const STACK: usize = 256 * 1024;

fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    thread::Builder::new().stack_size(STACK).spawn(work).unwrap().join().unwrap();
}

/// One prompt for all users: each request puts its memory in, and the old one back behind it. Each
/// swap put one more `Arc` around what was handed back, so a build grew from 69 ns to 345 µs, and
/// the process died of a stack overflow after some ten thousand requests.
#[test]
fn a_million_swaps_leave_a_memory_one_pointer_away() {
    on_a_small_stack(|| {
        let ada: Arc<dyn ChatMemory> = Arc::new(DefaultChatMemory::with_id("ada"));
        let mut prompt = MemoryPrompt::new(Arc::clone(&ada));
        for _ in 0..1_000_000 {
            let old = prompt.set_memory(DefaultChatMemory::with_id("alan"));
            prompt.set_memory(old);
        }
        assert!(Arc::ptr_eq(prompt.memory(), &ada));
        prompt.add(Message::user("hi")).unwrap();
        assert_eq!(prompt.build().unwrap().len(), 1);
        assert_eq!(ada.id().as_str(), "ada");
    });
}

/// Somebody hides the prompt behind boxes, which nested as `Arc`s did, two at a time.
#[test]
fn boxes_that_go_in_and_out_do_not_nest() {
    on_a_small_stack(|| {
        let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
        let mut held: Box<dyn ChatMemory> = Box::new(DefaultChatMemory::with_id("ada"));
        for _ in 0..100_001 {
            held = Box::new(prompt.set_memory(held));
        }
        assert_eq!(prompt.memory().id().as_str(), "ada");
        assert_eq!(prompt.build().unwrap().len(), 0);
    });
}

/// How somebody may wrap what points to a memory.
#[derive(Clone, Copy, Debug)]
enum Wrap {
    Box,
    Arc,
    SharedAnew,
    Leaked,
}

impl Wrap {
    fn around(self, memory: Box<dyn ChatMemory>) -> Box<dyn ChatMemory> {
        match self {
            Self::Box => Box::new(memory),
            Self::Arc => Box::new(Arc::new(memory)),
            Self::SharedAnew => Box::new(Arc::<dyn ChatMemory>::from(memory)),
            Self::Leaked => Box::new(&*Box::leak(memory)),
        }
    }
}

fn wraps() -> impl Strategy<Value = Vec<Wrap>> {
    let all = vec![Wrap::Box, Wrap::Arc, Wrap::SharedAnew, Wrap::Leaked];
    proptest::collection::vec(proptest::sample::select(all), 0..6)
}

counted! {
    #![cases(256)]

    #[test]
    fn whatever_points_to_a_shared_memory_gives_that_memory(
        wraps in wraps(), rounds in proptest::collection::vec(any::<bool>(), 1..5),
    ) {
        let shared: Arc<dyn ChatMemory> = Arc::new(DefaultChatMemory::with_id("ada"));
        let mut prompt = MemoryPrompt::new(DefaultChatMemory::new());
        for again in rounds {
            let start: Box<dyn ChatMemory> = Box::new(Arc::clone(&shared));
            let wrapped = wraps.iter().fold(start, |it, wrap| wrap.around(it));
            if again {
                prompt.set_memory(wrapped);
            } else {
                prompt = MemoryPrompt::new(wrapped);
            }
            prop_assert!(Arc::ptr_eq(prompt.memory(), &shared));
        }
    }

    #[test]
    fn a_pointer_to_any_other_memory_is_taken_as_it_is(wraps in wraps()) {
        // One that limits what is inside would be lost if it were taken for a pointer.
        let inside: Arc<dyn ChatMemory> = Arc::new(DefaultChatMemory::new());
        let window = MessageWindowChatMemory::new(Arc::clone(&inside), 1).unwrap();
        let wrapped = wraps.iter().fold(Box::new(window) as Box<dyn ChatMemory>, |it, w| w.around(it));
        let mut prompt = MemoryPrompt::new(wrapped);
        for _ in 0..3 {
            prompt.add_all([Message::user("a"), Message::user("b")]).unwrap();
            prop_assert_eq!(prompt.build().unwrap().len(), 1);
            let old = prompt.set_memory(DefaultChatMemory::new());
            let back = Arc::clone(&old);
            prompt.set_memory(back);
            prop_assert!(Arc::ptr_eq(prompt.memory(), &old));
        }
        prop_assert_eq!(inside.all().unwrap().len(), 1);
    }
}

/// What a prompt with branches hands out is a view of one of them. A view around that view sent
/// nothing, and wrote branches that no other prompt could read.
#[test]
fn a_prompt_with_branches_takes_its_own_memory_back() {
    let beneath = Arc::new(DefaultChatMemory::new());
    let mut prompt = MemoryPrompt::new(Arc::clone(&beneath)).with_branches();
    prompt.add(Message::user("helo")).unwrap();
    prompt.edit(0, Message::user("hello")).unwrap();
    let ada = Arc::clone(prompt.memory());
    prompt.set_memory(DefaultChatMemory::new());
    prompt.set_memory(Arc::clone(&ada));
    assert_eq!(prompt.build().unwrap().len(), 1);
    prompt.edit(0, Message::user("hi")).unwrap();
    BranchView::new(Box::new(ada)).edit(0, Message::user("hey")).unwrap();
    for memory in [Arc::clone(prompt.memory()), beneath] {
        let other = MemoryPrompt::new(memory).with_branches();
        assert_eq!(other.preview().unwrap()[0].text(), "hey");
        assert_eq!(other.variants(0).unwrap().len(), 4);
    }
}

/// Behind a memory that wraps a view no view sees that it is one.
#[test]
fn branches_around_a_wrapped_branch_show_it_and_refuse_to_change_it() {
    let prompt = MemoryPrompt::new(DefaultChatMemory::new()).with_branches();
    prompt.add(Message::user("helo")).unwrap();
    prompt.edit(0, Message::user("hello")).unwrap();
    let window = MessageWindowChatMemory::new(Arc::clone(prompt.memory()), 9).unwrap();
    let around = MemoryPrompt::new(window).with_branches();
    assert_eq!(around.preview().unwrap()[0].text(), "hello");
    assert_eq!(around.edit(0, Message::user("hi")).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(prompt.variants(0).unwrap().len(), 2);
}

#[test]
fn every_kind_of_pointer_goes_in_and_shares() {
    let ada = Arc::new(DefaultChatMemory::with_id("ada"));
    let mut prompt = MemoryPrompt::new(Arc::clone(&ada));
    prompt.add(Message::user("1")).unwrap();
    prompt.set_memory(Arc::clone(&ada) as Arc<dyn ChatMemory>);
    prompt.add(Message::user("2")).unwrap();
    prompt.set_memory(Box::new(Arc::clone(&ada)) as Box<dyn ChatMemory>);
    prompt.add(Message::user("3")).unwrap();
    prompt.set_memory(Box::new(Arc::clone(&ada)));
    prompt.add(Message::user("4")).unwrap();
    assert_eq!(ada.all().unwrap().len(), 4);
    // Memories that borrow are memories still, though no prompt keeps them.
    let borrows: Box<dyn ChatMemory + '_> = Box::new(&*ada);
    assert_eq!(borrows.all().unwrap().len(), 4);
}

#[cfg(feature = "async")]
mod asynchronous {
    use std::ops::Range;

    use memory_prompt::memory::{BoxFuture, MemoryId};
    use memory_prompt::record::Snapshot;
    use memory_prompt::{AsyncChatMemory, Result};

    use super::*;

    #[derive(Debug)]
    struct Ready(DefaultChatMemory);

    impl AsyncChatMemory for Ready {
        fn id(&self) -> &MemoryId {
            self.0.id()
        }
        fn append<'a>(
            &'a self,
            batch: &'a mut Vec<Message>,
            expected: Option<u64>,
        ) -> BoxFuture<'a, Result<Range<u64>>> {
            Box::pin(async move { self.0.append(batch, expected) })
        }
        fn read(&self, before: Option<u64>, n: usize) -> BoxFuture<'_, Result<Snapshot>> {
            Box::pin(async move { self.0.read(before, n) })
        }
        fn evict(&self, before: u64) -> BoxFuture<'_, Result<u64>> {
            Box::pin(async move { self.0.evict(before) })
        }
        fn clear(&self) -> BoxFuture<'_, Result<()>> {
            Box::pin(async move { self.0.clear() })
        }
    }

    fn ready(id: &str) -> Ready {
        Ready(DefaultChatMemory::with_id(id))
    }

    /// The async prompt nested in the same way.
    #[test]
    fn a_million_swaps_leave_an_async_memory_one_pointer_away() {
        on_a_small_stack(|| {
            let ada: Arc<dyn AsyncChatMemory> = Arc::new(ready("ada"));
            let mut prompt = MemoryPrompt::new_async(Arc::clone(&ada));
            for _ in 0..1_000_000 {
                let old = prompt.set_memory(ready("alan"));
                prompt.set_memory(old);
            }
            assert!(Arc::ptr_eq(prompt.memory(), &ada));
            assert_eq!(prompt.memory().id().as_str(), "ada");
        });
    }

    counted! {
        #![cases(256)]

        #[test]
        fn whatever_points_to_a_shared_async_memory_gives_that_memory(wraps in wraps()) {
            let shared: Arc<dyn AsyncChatMemory> = Arc::new(ready("ada"));
            let start: Box<dyn AsyncChatMemory> = Box::new(Arc::clone(&shared));
            let wrapped = wraps.iter().fold(start, |memory, wrap| match wrap {
                Wrap::Box => Box::new(memory),
                Wrap::Arc => Box::new(Arc::new(memory)),
                Wrap::SharedAnew => Box::new(Arc::<dyn AsyncChatMemory>::from(memory)),
                Wrap::Leaked => Box::new(&*Box::leak(memory)),
            });
            let mut prompt = MemoryPrompt::new_async(wrapped);
            prop_assert!(Arc::ptr_eq(prompt.memory(), &shared));
            let old = prompt.set_memory(ready("alan"));
            prompt.set_memory(old);
            prop_assert!(Arc::ptr_eq(prompt.memory(), &shared));
        }
    }
}
