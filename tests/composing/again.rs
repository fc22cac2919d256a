//! What a prompt remembers of its earlier builds changes nothing: neither the cut copies, nor the
//! counts.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use crate::counted::counted;
use crate::setups::Drawn;
use memory_prompt::message::AiMessage;
use memory_prompt::text::Keep;
use memory_prompt::token::Estimate;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, Composer, InMemoryStore, MemoryPrompt, Message,
    ToolCall, Truncate, Window,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Append(Vec<Message>),
    Build,
    Configure(usize, Option<Truncate>),
    Evict(u64),
    Clear,
    /// Positions begin again at 0, later than they did before.
    Delete,
    /// Another memory, in which the same positions hold other messages.
    Swap,
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let text = || prop_oneof!["[a-c]{0,12}", "[é👩‍👩‍👧\r\n]{0,12}"];
    let group = (text(), text()).prop_map(|(said, answer)| {
        let call = AiMessage::new(said).with_tool_call(ToolCall::new("1", "f", "{}"));
        vec![call.into(), Message::tool("1", "f", answer)]
    });
    prop_oneof![
        4 => text().prop_map(|text| vec![Message::user(text)]),
        3 => text().prop_map(|text| vec![Message::ai(text)]),
        1 => group,
        1 => text().prop_map(|text| vec![Message::system(text)]),
    ]
}

fn truncations() -> impl Strategy<Value = Option<Truncate>> {
    let keep = proptest::sample::select(vec![Keep::Head, Keep::Tail, Keep::Ends]);
    let truncate = (1usize..8, keep);
    let truncate = truncate.prop_map(|(limit, keep)| Truncate::chars(limit).unwrap().keep(keep));
    proptest::option::weighted(0.9, truncate)
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => messages().prop_map(Op::Append),
        6 => Just(Op::Build),
        1 => (0usize..8, truncations()).prop_map(|(n, truncate)| Op::Configure(n, truncate)),
        1 => (0u64..30).prop_map(Op::Evict),
        1 => Just(Op::Clear),
        1 => Just(Op::Delete),
        1 => Just(Op::Swap),
    ]
}

/// Does all of it, and compares each prompt with that of a prompt which has never built another.
fn check(ops: Vec<Op>, budget: Option<usize>) -> Result<(), TestCaseError> {
    let store = InMemoryStore::new();
    let mut ids = ["a", "b"];
    let mut prompt = MemoryPrompt::new(store.memory(ids[0]).unwrap())
        .truncate(Truncate::chars(3).unwrap())
        .with_some(budget, |it, budget| it.max_tokens(budget, Estimate));
    for op in ops {
        let memory = store.memory(ids[0]).unwrap();
        match op {
            Op::Append(messages) => drop(memory.add_all(messages).unwrap()),
            Op::Evict(before) => drop(memory.evict(before).unwrap()),
            Op::Clear => memory.clear().unwrap(),
            Op::Delete => {
                store.delete(&ids[0].into()).unwrap();
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            Op::Swap => {
                ids.swap(0, 1);
                prompt.set_memory(store.memory(ids[0]).unwrap());
            }
            Op::Configure(n, truncate) => {
                // By either way to do it.
                prompt.configure(Composer::no_truncate);
                if n % 2 == 0 {
                    prompt.configure(|composer| composer.window(Window::last(n)));
                    prompt.configure(|composer| composer.with_some(truncate, Composer::truncate));
                } else {
                    prompt = prompt.max_messages(n);
                    prompt = prompt.with_some(truncate, MemoryPrompt::truncate);
                }
            }
            Op::Build => {
                let mut anew = MemoryPrompt::new(store.memory(ids[0]).unwrap());
                anew.configure(|_| prompt.composer().clone());
                let expected = anew.build().map_err(|error| error.to_string());
                let preview = prompt.preview().map_err(|error| error.to_string());
                prop_assert_eq!(&preview, &expected);
                prop_assert_eq!(prompt.build().map_err(|error| error.to_string()), expected);
            }
        }
    }
    Ok(())
}

counted! {
    #![cases(256)]

    #[test]
    fn what_was_cut_before_changes_nothing(ops in proptest::collection::vec(op(), 0..60)) {
        check(ops, None)?;
    }

    #[test]
    fn what_was_counted_before_changes_nothing(
        ops in proptest::collection::vec(op(), 0..60),
        budget in 1usize..120,
    ) {
        check(ops, Some(budget))?;
    }
}

fn same(one: &Message, other: &Message) -> bool {
    std::ptr::eq(one, other)
}

#[test]
fn a_message_is_cut_once() {
    let store = InMemoryStore::new();
    let mut prompt = MemoryPrompt::new(store.memory("a").unwrap()).max_messages(2);
    prompt.configure(|composer| composer.truncate(Truncate::chars(3).unwrap()));
    prompt.add_all(["first", "second"].map(Message::user)).unwrap();
    let first = prompt.build().unwrap();
    prompt.add(Message::user("third")).unwrap();
    let second = prompt.build().unwrap();
    assert_eq!(second[0].text(), "sec");
    assert!(same(&first[1], &second[0]), "the copy is the same one");

    // Not where it may be cut otherwise.
    prompt.configure(|composer| composer.truncate(Truncate::chars(2).unwrap()));
    assert_eq!(prompt.build().unwrap()[0].text(), "se");
    // Nor where another message has its position.
    assert!(store.delete(&"a".into()).unwrap());
    prompt.add_all(["one", "two", "three"].map(Message::user)).unwrap();
    assert_eq!(prompt.build().unwrap()[0].text(), "tw");
}

#[test]
fn a_composer_alone_remembers_nothing() {
    let composer = Composer::new().truncate(Truncate::chars(3).unwrap());
    let history = memory_prompt::record::Snapshot::from_messages([Message::user("first")]);
    let prompts = [(); 2].map(|()| composer.compose_all(&history, &[]).unwrap());
    assert_eq!(prompts[0], prompts[1]);
    assert!(!same(&prompts[0][0], &prompts[1][0]));
}
