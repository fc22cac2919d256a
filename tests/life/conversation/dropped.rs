//! Turns that are kept while the futures that run them are dropped.

use std::collections::{BTreeMap, BTreeSet};

use memory_prompt::memory::BoxFuture;
use memory_prompt::{AsyncChatMemory, Window};
use proptest::prelude::*;

use super::faults::{Slow, polled, polls};
use super::*;
use crate::counted::counted;

/// A call: how many polls its tool takes, and whether it is repeatable and fails.
#[derive(Clone, Copy, Debug)]
struct Made {
    polls: usize,
    is_repeatable: bool,
    fails: bool,
}

/// What tools did, by the numbers of their calls.
#[derive(Debug, Default)]
struct Seen {
    begun: Vec<usize>,
    returned: BTreeSet<usize>,
}

fn conversation(
    rounds: &[Vec<Made>],
    seen: &Arc<Mutex<Seen>>,
    timeout: usize,
) -> Conversation<dyn AsyncChatMemory> {
    let mut model = Scripted::new();
    let mut n = 0..;
    for calls in rounds {
        let call = |made: &Made| {
            let n = n.next().unwrap();
            let tool = if made.is_repeatable { "look" } else { "pay" };
            let arguments = json!([n, made.polls, made.fails]).to_string();
            ToolCall::new(format!("c{n}"), tool, arguments)
        };
        model = model.says(Message::ai_calls(calls.iter().map(call).collect::<Vec<_>>()));
    }
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = MemoryPrompt::new_async(Slow(memory)).window(Window::all());
    let run = |seen: &Arc<Mutex<Seen>>| {
        let seen = Arc::clone(seen);
        move |(n, takes, fails): (usize, usize, bool)| -> BoxFuture<'static, _> {
            let seen = Arc::clone(&seen);
            seen.lock().unwrap().begun.push(n);
            Box::pin(async move {
                polls(takes).await;
                seen.lock().unwrap().returned.insert(n);
                if fails { Err(ToolError::new(format!("no {n}"))) } else { Ok(format!("yes {n}")) }
            })
        }
    };
    Conversation::new_async(prompt, model.says("Done."))
        .parallel()
        .call_timeout_by(Duration::from_secs(1), move |_| polls(timeout))
        .tool_async(Tool::new("look", "Looks.").repeatable(), run(seen))
        .tool_async(Tool::new("pay", "Pays."), run(seen))
}

/// The results that tools gave, by the numbers of their calls.
fn known(messages: &[Message]) -> BTreeMap<usize, String> {
    let results = messages.iter().filter_map(Message::as_tool).filter(|it| !it.is_stand_in());
    results
        .map(|it| (it.call_id()[1..].parse().unwrap(), it.content().text().into_owned()))
        .collect()
}

counted! {
    #![cases(2_000)]
    /// Two payments ran at once, and the request was dropped while the second one still ran. The
    /// result of the first one was dropped with it: when the kept turn ran again, its model read
    /// that the outcome of both was unknown.
    #[test]
    fn what_returned_before_a_drop_is_in_the_turn(
        rounds in proptest::collection::vec(
            proptest::collection::vec(
                (0usize..12, any::<bool>(), any::<bool>())
                    .prop_map(|(polls, is_repeatable, fails)| Made { polls, is_repeatable, fails }),
                1..5,
            ),
            1..3,
        ),
        timeout in 4usize..16,
        drops in proptest::collection::vec(0usize..40, 1..6),
    ) {
        let seen = Arc::new(Mutex::new(Seen::default()));
        let conversation = conversation(&rounds, &seen, timeout);
        let calls = rounds.concat();
        let mut turn = Turn::from("Go.");
        let mut done = None;
        for drop_after in drops.into_iter().chain([2_000]) {
            done = polled(conversation.run(&mut turn, |_| {}), drop_after);
            let seen = seen.lock().unwrap();
            let known = known(turn.messages());
            for n in &seen.returned {
                let word = if calls[*n].fails { "no" } else { "yes" };
                prop_assert_eq!(known.get(n), Some(&format!("{word} {n}")));
            }
            if done.is_some() {
                break;
            }
        }
        let done = done.unwrap().unwrap();
        prop_assert_eq!(done.ended, Ended::Answered);
        let seen = seen.lock().unwrap();
        for (n, made) in calls.iter().enumerate() {
            let times = seen.begun.iter().filter(|it| **it == n).count();
            prop_assert!(times > 0, "{} never ran", n);
            prop_assert!(times == 1 || made.is_repeatable, "{} ran {} times", n, times);
            let results = done.messages.iter().filter_map(Message::as_tool);
            let results = results.filter(|it| it.call_id() == format!("c{n}")).count();
            prop_assert_eq!(results, 1);
        }
    }
}
