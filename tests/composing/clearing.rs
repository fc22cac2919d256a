//! Clearing: what gives way to a placeholder, what never does, and when a prompt changes by it.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::collections::{BTreeMap, BTreeSet};

use crate::conversations::{
    Happens, broken_groups, conversation, happenings, late_results, life, stored, temporaries,
};
use crate::counted::counted;
use crate::processors::Drops;
use crate::said::{call, result, rounds};
use crate::sent::{self, sent};
use crate::setups::{Drawn, budget, holding};

use memory_prompt::message::{Media, Part};
use memory_prompt::record::Snapshot;
use memory_prompt::report::{Break, Origin};
use memory_prompt::token::Estimate;
use memory_prompt::truncate::TruncateContext;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, Clear, Composer, DefaultChatMemory, InMemoryStore,
    MemoryPrompt, Message, Prompt, Provider, ToolCall, Truncate, Window,
};
use proptest::prelude::*;
use proptest::sample::select;

/// A rule, with what of it a test has to know.
#[derive(Clone, Debug)]
struct Rule {
    clear: Clear,
    keep: usize,
    step: u64,
    longer_than: usize,
    results: bool,
    media: bool,
}

fn rules() -> impl Strategy<Value = Rule> {
    let what = select(vec![(true, false), (false, true), (true, true)]);
    (what, 1usize..5, 1u64..12, 0usize..12).prop_map(
        |((results, media), keep, step, longer_than)| {
            let clear = match (results, media) {
                (true, true) => Clear::tool_results().and_media(),
                (true, _) => Clear::tool_results(),
                _ => Clear::media(),
            };
            let clear = clear.keep(keep).step(step).longer_than(longer_than);
            Rule { clear, keep, step, longer_than, results, media }
        },
    )
}

impl Rule {
    fn over(&self, tokens: Option<usize>) -> Clear {
        self.clear.clone().with_some(tokens, Clear::over)
    }

    fn clears_result(&self, message: &Message) -> bool {
        let others = |part: &Part| part.as_text().is_none();
        self.results
            && message.as_tool().is_some_and(|tool| {
                let content = tool.content();
                content.text().chars().count() > self.longer_than
                    || content.parts().iter().any(others)
            })
    }

    fn clears_media(&self, message: &Message) -> bool {
        let parts = match message {
            Message::User(user) => user.content().parts(),
            Message::Tool(tool) => tool.content().parts(),
            _ => &[],
        };
        self.media && parts.iter().any(|part| part.as_media().is_some())
    }
}

/// Histories of all kinds, with pictures in results too.
fn histories() -> impl Strategy<Value = Vec<Message>> {
    let shown = (0usize..30, proptest::collection::vec(select(vec!["c0", "c1"]), 1..4));
    let shown = shown.prop_map(|(n, ids)| {
        let picture = || Part::Image(Media::url("https://e.x/a.png"));
        let calls = ids.iter().map(|id| ToolCall::new(*id, "look", "{}"));
        let mut group = vec![Message::ai_calls(calls.collect::<Vec<_>>())];
        group.extend(
            ids.iter()
                .map(|id| Message::tool(*id, "look", vec![Part::text("x".repeat(n)), picture()])),
        );
        group
    });
    let any = prop_oneof![
        3 => conversation(12),
        3 => late_results(24),
        3 => life(12),
        2 => shown,
    ];
    proptest::collection::vec(any, 1..4).prop_map(|parts| stored(&parts.concat()))
}

fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        2 => Just(Window::all()),
        2 => (1usize..20, 1usize..20).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
        2 => (0usize..20).prop_map(Window::last),
        1 => (0usize..5).prop_map(Window::turns),
    ]
}

fn cleared(prompt: &Prompt) -> BTreeSet<u64> {
    sent::cleared(prompt).into_iter().collect()
}

/// The copy of this record in which something is cleared.
fn copy_of(prompt: &Prompt, position: u64) -> Option<&Message> {
    let mut sent = prompt.with_origins();
    sent.find(|it| it.0 == Origin::Cleared(position)).map(|(_, message)| message)
}

counted! {
    #![cases(256)]

    /// What is cleared of a history, told by a rule that knows nothing of how it is found: all that
    /// is before some multiple of the step, none of the newest, and nothing that no answer has
    /// seen.
    #[test]
    fn all_before_a_step_is_cleared_but_the_newest(
        history in histories(), rule in rules(), window in windows(), temporaries in temporaries(),
    ) {
        let mut with = holding(history.clone()).window(window).clear(rule.clear.clone());
        let mut without = holding(history.clone()).window(window);
        for temporary in temporaries {
            with.add_temporary(temporary.clone());
            without.add_temporary(temporary);
        }
        let (with, without) = (with.build().unwrap(), without.build().unwrap());
        // The same messages in the same places, and nothing but content differs.
        prop_assert_eq!(with.len(), without.len());
        prop_assert_eq!(broken_groups(&with), broken_groups(&without));
        prop_assert_eq!(with.cacheable(), without.cacheable());
        let cleared = cleared(&with);
        for ((origin, new), (_, old)) in with.with_origins().zip(without.with_origins()) {
            let Origin::Cleared(position) = origin else {
                prop_assert_eq!(new, old);
                continue;
            };
            prop_assert!(cleared.contains(&position));
            prop_assert_ne!(new, old);
            let line = format!("in message {position}.]");
            prop_assert!(new.text().contains(&line), "{}", new.text());
            match (new, old) {
                (Message::Tool(new), Message::Tool(old)) => {
                    prop_assert_eq!(new.call_id(), old.call_id());
                    prop_assert_eq!(new.tool_name(), old.tool_name());
                    prop_assert_eq!(new.is_error(), old.is_error());
                    prop_assert_eq!(new.attributes(), old.attributes());
                }
                (Message::User(new), Message::User(old)) => {
                    // The texts are as they were, around one that is new.
                    let new: Vec<_> = new.content().texts().filter(|it| !it.ends_with(&line)).collect();
                    prop_assert_eq!(new, old.content().texts().collect::<Vec<_>>());
                }
                _ => prop_assert!(false, "{origin:?}"),
            }
        }
        prop_assert_eq!(cleared.len(), with.report().cleared.len());
        // A window decides what is sent, and not what of that is cleared.
        let mut all = holding(history.clone()).clear(rule.clear.clone());
        all.configure(|composer| composer.window(Window::all()));
        let all = all.build().unwrap();
        for (origin, _) in with.with_origins() {
            if let Origin::Cleared(position) | Origin::History(position) = origin {
                prop_assert_eq!(copy_of(&all, position), copy_of(&with, position), "{}", position);
            }
        }

        let at = |position: u64| &history[usize::try_from(position).unwrap()];
        let of_kind = |it: &Message, results: bool| {
            if results { rule.clears_result(it) } else { rule.clears_media(it) }
        };
        let seen = history.iter().rposition(|it| it.as_ai().is_some()).unwrap_or(0) as u64;
        let all_cleared = cleared;
        for results in [true, false] {
            let is_one = |it: &Message| of_kind(it, results);
            // A result that has lost nothing but its picture is no cleared result.
            let as_result: BTreeSet<u64> = with.with_origins().filter_map(|(origin, message)| match origin {
                Origin::Cleared(position) => message.as_tool()?.content().parts().is_empty().then_some(position),
                _ => None,
            }).collect();
            let cleared = if results { as_result } else { all_cleared.clone() };
            let mut of_kind: Vec<u64> = sent(&with).into_iter().filter(|position| is_one(at(*position))).collect();
            if !results {
                // Those that are cleared as results say nothing about media.
                of_kind.retain(|position| !rule.clears_result(at(*position)));
            }
            of_kind.sort_unstable();
            let last = of_kind.iter().filter(|position| cleared.contains(position)).max();
            let Some(last) = last else { continue };
            prop_assert!(*last < seen, "what no answer has seen");
            let boundary = (last / rule.step + 1) * rule.step;
            for position in &of_kind {
                prop_assert_eq!(cleared.contains(position), *position < boundary, "{} of {}", position, boundary);
            }
            // A window may leave out some of those that are kept.
            if window == Window::all() && (results || !rule.results) {
                let newest = of_kind.iter().rev().take(rule.keep);
                prop_assert!(newest.clone().count() == rule.keep);
                for position in newest {
                    prop_assert!(!cleared.contains(position), "{position} is one of the newest");
                }
            }
        }
    }

    /// However much of a history was read, the same is cleared in what is sent of it.
    #[test]
    fn how_much_is_read_changes_nothing(
        history in histories(), rule in rules(), window in windows(), over in proptest::option::of(0usize..300),
    ) {
        let clear = rule.over(over);
        let composer = Composer::new().window(window).clear(clear);
        let whole = composer.compose_all(&Snapshot::from_messages(history.clone()), &[]).unwrap();
        let mut prompt = holding(history.clone());
        prompt.configure(|_| composer);
        let built = prompt.build().unwrap();
        prop_assert_eq!(cleared(&built), cleared(&whole));
        prop_assert!(built.iter().eq(whole.iter()));
    }

    /// A prompt that grows is sent again as it was, but where the boundary moves; and that goes
    /// from step to step, and never back.
    #[test]
    fn prompts_change_only_at_steps(
        history in histories(), rule in rules(), over in proptest::option::of(0usize..300),
        stepped in proptest::option::of((1usize..20, 1usize..20)),
    ) {
        let window = stepped.map_or(Window::all(), |(low, step)| Window::stepped(low, step).unwrap());
        let clear = rule.over(over);
        let memory = std::sync::Arc::new(DefaultChatMemory::new());
        let mut prompt = MemoryPrompt::new(std::sync::Arc::clone(&memory)).window(window).clear(clear);
        let mut plain = MemoryPrompt::new(memory).window(window);
        let (mut before, mut texts) = (None::<(Prompt, Prompt)>, BTreeMap::new());
        let mut moves = 0;
        for message in history.iter().cloned() {
            prompt.add(message).unwrap();
            let (now, plain) = (prompt.build().unwrap(), plain.build().unwrap());
            for (origin, message) in now.with_origins() {
                if let Origin::Cleared(position) = origin {
                    let text = texts.entry((position, message.is_tool())).or_insert_with(|| message.clone());
                    // Once as media and once as a result: each is the same forever.
                    if rule.results && rule.media { continue; }
                    prop_assert_eq!(&*text, message);
                }
            }
            if let Some((then, plain_then)) = before {
                let is_sent: BTreeSet<u64> = sent(&now).into_iter().collect();
                let still: BTreeSet<u64> = cleared(&then).intersection(&is_sent).copied().collect();
                let new: BTreeSet<u64> = cleared(&now).difference(&cleared(&then)).copied().collect();
                let kept = still.is_subset(&cleared(&now));
                // A result may lose its picture first, and give way as a whole later, with the same
                // words in one text in place of two.
                let goes = |position: &u64| copy_of(&then, *position) != copy_of(&now, *position);
                let new: BTreeSet<u64> = still.iter().copied().filter(goes).chain(new).collect();
                if window == Window::all() {
                    prop_assert!(kept, "{still:?} {:?}", cleared(&now));
                    moves += usize::from(!new.is_empty());
                }
                let shared = now.shared_prefix(&then);
                // If the window has moved, what was cleared and what comes in its place may be
                // alike.
                let stays = sent(&then).first() == sent(&now).first();
                if new.is_empty() && kept && stays {
                    // What breaks it breaks it without clearing too.
                    prop_assert_eq!(shared.messages, plain.shared_prefix(&plain_then).messages);
                    prop_assert_eq!(shared.broken_by, plain.shared_prefix(&plain_then).broken_by);
                }
            }
            before = Some((now, plain));
        }
        let kinds = usize::from(rule.results) + usize::from(rule.media);
        prop_assert!(moves <= kinds * (history.len() / usize::try_from(rule.step).unwrap()));
    }

    #[test]
    fn budgets_hold_and_know_what_they_count(
        history in histories(), rule in rules(), most in 60usize..400, limit in proptest::option::of(1usize..20),
        stepped in any::<bool>(), window in proptest::option::of(windows()), over in proptest::option::of(0usize..300),
    ) {
        let clear = rule.over(over);
        let mut prompt = holding(history.clone())
            .max_tokens(budget(most, stepped), Estimate)
            .clear(clear)
            .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()))
            .with_some(window, MemoryPrompt::window);
        let Ok(built) = prompt.build() else { return Ok(()) };
        let report = built.report();
        let tokens = report.tokens.unwrap();
        prop_assert!(tokens.total <= most);
        let count = |message: &Message| memory_prompt::token::TokenCounter::count(&Estimate, message).unwrap();
        let messages: Vec<usize> = built.iter().map(count).collect();
        prop_assert_eq!(&report.message_tokens, &messages);
        prop_assert_eq!(broken_groups(&built), [""; 0]);
        // Once more, with what the first build has counted.
        let again = prompt.build().unwrap();
        prop_assert_eq!(&again.report().message_tokens, &messages);
        prop_assert!(again == built);
    }

    /// What a prompt remembers of its last one changes nothing, whatever becomes of the memory.
    #[test]
    fn lives_change_nothing(
        happens in happenings(40), rule in rules(), budget in proptest::option::of(60usize..400),
        limit in proptest::option::of(1usize..20),
    ) {
        let store = InMemoryStore::new();
        let mut ids = ["a", "b"];
        let mut prompt = MemoryPrompt::new(store.memory(ids[0]).unwrap())
            .window(Window::all()).clear(rule.clear.clone())
            .with_some(budget, |it, budget| it.max_tokens(budget, Estimate))
            .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()));
        for happens in happens {
            let memory = store.memory(ids[0]).unwrap();
            match happens {
                Happens::Said(messages) => drop(memory.add_all(stored(&messages)).unwrap()),
                Happens::Evicted(before) => drop(memory.evict(before).unwrap()),
                Happens::Cleared => memory.clear().unwrap(),
                Happens::BeganAnew => drop(store.delete(&ids[0].into()).unwrap()),
                Happens::Swapped => {
                    ids.swap(0, 1);
                    prompt.set_memory(store.memory(ids[0]).unwrap());
                }
                Happens::Temporary(_) | Happens::Built => {
                    let mut anew = MemoryPrompt::new(store.memory(ids[0]).unwrap());
                    anew.configure(|_| prompt.composer().clone());
                    let expected = anew.build().map_err(|error| error.to_string());
                    prop_assert_eq!(prompt.build().map_err(|error| error.to_string()), expected);
                }
            }
        }
    }

    /// No provider is sent anything else than without clearing, but for what is cleared.
    #[test]
    fn providers_take_it(history in histories(), rule in rules(), window in windows()) {
        for provider in [Provider::Anthropic, Provider::Gemini, Provider::Mistral, Provider::OpenAi, Provider::StrictTemplate] {
            let build = |prompt: MemoryPrompt| {
                prompt.window(window).for_provider(provider).build().map_err(|it| it.to_string())
            };
            let without = build(holding(history.clone()));
            let with = build(holding(history.clone()).clear(rule.clear.clone()));
            prop_assert_eq!(with.as_ref().map(Prompt::len), without.as_ref().map(Prompt::len));
            let (Ok(with), Ok(without)) = (with, without) else { continue };
            for (new, old) in with.iter().zip(&without) {
                prop_assert_eq!(new.role(), old.role());
                let ids = |it: &Message| it.tool_calls().map(|call| call.id.clone()).collect::<Vec<_>>();
                prop_assert_eq!(ids(new), ids(old));
            }
        }
    }
}

/// A question, and so many rounds of a tool that says 200 characters.
fn looping(n: usize) -> Vec<Message> {
    let question = Message::user("Which of these files is the oldest?");
    [question].into_iter().chain(rounds(n, &"x".repeat(200))).collect()
}

/// Calls and results of a tool that says 200 characters: all the calls first.
fn calling(tool: &str, ids: &[&str]) -> Vec<Message> {
    let calls = ids.iter().map(|id| Message::ai_calls([ToolCall::new(*id, tool, "{}")]));
    let results = ids.iter().map(|id| Message::tool(*id, tool, "y".repeat(200)));
    calls.chain(results).collect()
}

fn cleared_of(history: &[Message], clear: Clear) -> Vec<u64> {
    let composer = Composer::new().window(Window::all()).clear(clear);
    let snapshot = Snapshot::from_messages(history.to_vec());
    cleared(&composer.compose_all(&snapshot, &[]).unwrap()).into_iter().collect()
}

#[test]
fn the_boundary_counts_positions_and_not_results() {
    let clear = || Clear::tool_results().keep(2).step(6);
    // The call of the second newest result stands in 5, 7, 9, 11 and 13.
    let moves: Vec<_> = (4..9).map(|rounds| cleared_of(&looping(rounds), clear())).collect();
    let [first, second] = [vec![2, 4], vec![2, 4, 6, 8, 10]];
    assert_eq!(moves, [vec![], first.clone(), first.clone(), first, second]);
}

/// A model that had loaded tools by a search of its client's lost them with its result.
#[test]
fn what_loads_tools_is_not_cleared() {
    let search = |i: usize| {
        let call = ToolCall::new(format!("c{i}"), "tool_search", "{}");
        let found = Message::tool(format!("c{i}"), "tool_search", "x".repeat(500));
        [Message::user("Go on."), Message::ai_calls([call]), found, Message::ai("Done.")]
    };
    let history: Vec<_> = (0..80).flat_map(search).collect();
    assert!(cleared_of(&history, Clear::tool_results()).is_empty());
}

#[test]
fn what_is_excepted_stays_and_is_not_counted() {
    let plans = (0..5).flat_map(|i| calling("plan", &[&format!("plan{i}")]));
    let mut history: Vec<_> = looping(3).into_iter().chain(plans).collect();
    let clear = || Clear::tool_results().keep(1).step(1);
    assert_eq!(cleared_of(&history, clear()), [2, 4, 6, 8, 10, 12, 14]);
    assert_eq!(cleared_of(&history, clear().except(["plan"])), [2, 4]);
    assert_eq!(cleared_of(&history, clear().except(["look"])), [8, 10, 12, 14]);
    assert_eq!(cleared_of(&history, clear().longer_than(200)), [0; 0]);
    // Nobody knows of which tool this one is.
    history.insert(1, Message::ai_calls([ToolCall::new("n", "plan", "{}")]));
    history.insert(2, Message::tool("n", "", "z".repeat(200)));
    assert_eq!(cleared_of(&history, clear().except(["plan"])), [4, 6]);
    assert_eq!(cleared_of(&history, clear())[..3], [2, 4, 6]);
}

#[test]
fn parallel_calls_are_kept_together() {
    let ids = ["a", "b", "c"];
    let one = Message::ai_calls(ids.map(|id| ToolCall::new(id, "look", "{}")));
    let apart = calling("look", &ids);
    let together = [one].into_iter().chain(apart[3..].iter().cloned()).collect();
    // Calls that a shim wrote as messages of their own belong together too.
    for calls in [together, apart] {
        let history = [looping(2), calls].concat();
        assert_eq!(cleared_of(&history, Clear::tool_results().keep(1).step(1)), [2, 4]);
    }
}

#[test]
fn a_late_result_moves_nothing_back() {
    let clear = || Clear::tool_results().keep(2).step(1);
    let mut history = looping(4);
    history.insert(1, call("late"));
    let before = cleared_of(&history, clear());
    assert_eq!(before, [3, 5]);
    history.push(Message::user("And?"));
    history.push(result("late", "z".repeat(200)));
    assert_eq!(cleared_of(&history, clear()), before);
    // Results of nobody's are counted by nobody.
    history.extend(["x", "y", "z"].map(|id| result(id, "z".repeat(200))));
    assert_eq!(cleared_of(&history, clear()), before);
}

#[test]
fn pictures_that_no_answer_has_seen_stay() {
    let picture = || Message::user([Part::Image(Media::url("https://e.x/a.png"))]);
    let clear = || Clear::media().keep(1).step(1);
    let mut history = vec![picture(), picture(), picture(), Message::user("Which is best?")];
    assert_eq!(cleared_of(&history, clear()), [0; 0]);
    history.push(Message::ai("The first one."));
    assert_eq!(cleared_of(&history, clear()), [0, 1]);
    assert_eq!(cleared_of(&history, Clear::tool_results()), [0; 0]);
}

#[test]
fn nothing_is_cleared_before_there_are_so_many_tokens() {
    let clear = |over| Clear::tool_results().keep(1).step(4).over(over);
    let tokens = |rounds| {
        let composer = Composer::new().max_tokens(usize::MAX, Estimate);
        let snapshot = Snapshot::from_messages(looping(rounds));
        composer.compose_all(&snapshot, &[]).unwrap().report().message_tokens.iter().sum::<usize>()
    };
    // The boundary comes to 8 with the result of the fifth call, in 9, and to 12 with the seventh.
    assert_eq!(cleared_of(&looping(5), clear(tokens(5) - 1)), [2, 4, 6]);
    for rounds in 1..7 {
        assert_eq!(cleared_of(&looping(rounds), clear(tokens(5))), [0; 0], "{rounds}");
    }
    assert_eq!(cleared_of(&looping(7), clear(tokens(5))), [2, 4, 6, 8, 10]);
}

#[test]
fn results_are_cleared_where_nobody_looks_at_groups() {
    use memory_prompt::window::ToolGroups;
    let mut prompt = holding(looping(4))
        .window(Window::all())
        .tool_groups(ToolGroups::Off)
        .clear(Clear::tool_results().keep(1).step(1));
    assert_eq!(cleared(&prompt.build().unwrap()), [2, 4, 6].into());
}

#[test]
fn a_processor_drops_what_it_drops() {
    let drops = Drops(|message: &Message, _: &TruncateContext| message.is_tool());
    let composer = Composer::new()
        .window(Window::all())
        .clear(Clear::tool_results().keep(1).step(1))
        .truncate(Truncate::default().processor(drops));
    for composer in [composer.clone(), composer.max_tokens(1_000, Estimate)] {
        let prompt = composer.compose_all(&Snapshot::from_messages(looping(4)), &[]).unwrap();
        assert_eq!((prompt.len(), prompt.report().cleared.len()), (1, 0));
    }
}

#[test]
fn the_report_says_what_moved_the_prefix() {
    let mut prompt = holding(looping(3))
        .window(Window::all())
        .clear(Clear::tool_results().keep(1).step(6).placeholder("gone: {length} of {position}"));
    let first = prompt.build().unwrap();
    assert!(first.report().cleared.is_empty());
    prompt.add_all(looping(1).into_iter().skip(1)).unwrap();
    let second = prompt.build().unwrap().compared_to(&first);
    let report = second.report();
    assert_eq!(report.shared_prefix.unwrap().broken_by, Some(Break::Clearing(2)));
    assert_eq!(second[2].text(), "gone: 200 characters of 2");
    assert!(report.to_string().contains("  cleared    2: tool, 200 to 25 bytes\n"));
    assert!(report.to_string().contains("message 2 is cleared, or not any more"));
    assert!(!report.is_untouched());
}

#[cfg(feature = "tokio")]
#[test]
fn async_prompts_are_the_same() {
    use crate::setups::remembering;
    use memory_prompt::adapt::ToAsync;
    // Without the macros of tokio, which only some features bring.
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let clear = || Clear::tool_results().keep(2).step(4).over(100);
    for window in [Window::all(), Window::last(6), Window::stepped(4, 4).unwrap()] {
        let mut blocking = holding(looping(20)).window(window).clear(clear());
        let memory = ToAsync::new(remembering(looping(20)));
        let mut prompt = MemoryPrompt::new_async(memory).window(window).clear(clear());
        assert_eq!(runtime.block_on(prompt.build()).unwrap(), blocking.build().unwrap());
    }
}
