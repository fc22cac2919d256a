//! Pins: what is always sent, where it stands, and what is obeyed all the same.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;

use memory_prompt::compose::Placement;
use memory_prompt::conversation::{Conversation, Scripted};
use memory_prompt::memory::{Append, Expected, MemoryId, Read};
use memory_prompt::report::{Adaptation, Break, Reason};
use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::truncate::{Truncate, TruncateContext};
use memory_prompt::window::ToolGroups;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, ChatMemoryStore, DefaultChatMemory, ErrorKind, InMemoryStore,
    MemoryPrompt, Message, MessageWindowChatMemory, Prompt, Provider, Recall, Window,
};
use parking_lot::Mutex;
use proptest::prelude::*;

use crate::conversations::{self, broken_groups, late_results, life};
use crate::counted::counted;
use crate::inside::inside;
use crate::notation::{conversation, message};
use crate::processors::Drops;
use crate::reading::Reading;
use crate::said::{chatter, group, policy, talk};
use crate::sent::{accounted, recalled, sent, texts, window};
use crate::setups::{Drawn, TYPED, budget, remembering};

fn over(memory: impl ChatMemory + 'static) -> MemoryPrompt {
    MemoryPrompt::new(memory).with_pins()
}

/// A prompt that sends so many messages of these, and pins.
fn last(n: usize, said: impl IntoIterator<Item = Message>) -> MemoryPrompt {
    over(remembering(said)).max_messages(n)
}

#[test]
fn a_pin_stays_in_its_place_until_the_window_has_passed_it() {
    let said = ["zero", "one", "two", "three"].map(Message::user);
    let mut prompt = last(3, said).system("Be brief.");
    assert_eq!(prompt.pin(2).unwrap(), [2]);
    let before = prompt.build().unwrap();
    assert_eq!(texts(&before), ["Be brief.", "one", "two", "three"]);
    assert!(before.report().pinned_before.is_empty());

    prompt.add_all(["four", "five"].map(Message::user)).unwrap();
    let passed = prompt.build().unwrap();
    assert_eq!(texts(&passed), ["Be brief.", "two", "three", "four", "five"]);
    assert_eq!(passed.report().pinned_before, [2]);
    assert_eq!((passed.report().sent, passed.report().older), (4, 2));
    assert!(passed.report().to_string().contains("pinned     2: sent before the window"));

    // The report had a line for each of them.
    let mut many = last(1, chatter(26));
    for position in (0..24).step_by(2) {
        many.pin(position).unwrap();
    }
    let shown = many.build().unwrap().report().to_string();
    let lines: Vec<_> = shown.lines().filter(|line| line.contains("pinned")).collect();
    let line = "  pinned     12 messages at 0, 2, 4, 6, 8, 10, 12, 14 …: sent before the window";
    assert_eq!(lines, [line]);

    // In a window that moves in steps the prefix holds from then on.
    prompt.configure(|composer| composer.window(Window::stepped(2, 8).unwrap()));
    prompt.add_all(chatter(12)).unwrap();
    let first = prompt.build().unwrap();
    prompt.add_all(chatter(2)).unwrap();
    let shared = prompt.build().unwrap().shared_prefix(&first);
    assert_eq!((shared.messages, shared.broken_by), (first.len(), None));

    prompt.unpin(2).unwrap();
    let without = prompt.build().unwrap();
    assert_eq!(without.shared_prefix(&first).broken_by, Some(Break::Pin(2)));
    assert!(!prompt.unpin(2).unwrap());
}

#[test]
fn whichever_message_of_a_tool_group_is_pinned_all_of_it_is() {
    let history = conversation("u:look_at_both call:a,b t:b=result_of_b t:a=result_of_a");
    for position in 1..4 {
        let mut prompt = last(1, history.iter().cloned().chain(chatter(30)));
        assert_eq!(prompt.pin(position).unwrap(), [1, 2, 3]);
        assert_eq!(prompt.pin(1).unwrap(), [1, 2, 3]); // what is pinned stays pinned
        assert_eq!(prompt.pins().unwrap(), [1, 2, 3]);
        assert_eq!(sent(&prompt.build().unwrap()), [1, 2, 3, 33]);
        assert!(prompt.unpin(4 - position).unwrap());
        assert!(prompt.pins().unwrap().is_empty());
    }
}

#[test]
fn a_result_that_comes_late_belongs_to_the_pin() {
    let mut prompt = last(2, conversation("call:slow"));
    prompt.pin(0).unwrap();
    for (comes, told) in [
        (None, "No result was recorded for this call."),
        (Some("wait:slow=still_running"), "still running"),
        (Some("t:slow=seen_at_last"), "seen at last"),
    ] {
        prompt.add_all(comes.map(message).into_iter().chain(chatter(40))).unwrap();
        let built = prompt.build().unwrap();
        assert_eq!(built[1].text(), told, "{}", built.report());
    }
    assert_eq!(prompt.pins().unwrap(), [0, 82]);
    assert!(prompt.unpin(82).unwrap());
    assert_eq!(prompt.build().unwrap().len(), 2);
}

/// A server that numbers its calls anew in each turn gave a pinned call the id of an older one that
/// still ran: the late result was sent with both.
#[test]
fn a_late_result_of_an_older_call_of_the_same_id_is_sent_once() {
    let said =
        "u:Look. call:c wait:c=running a:Started. u:Again. call:c u:So? a:Wait. t:c=late a:Done.";
    let mut prompt = over(remembering(conversation(said))).window(Window::last(3).exactly());
    prompt.pin(5).unwrap();
    let built = prompt.build().unwrap();
    assert_eq!(
        (sent(&built), accounted(&built)),
        (vec![1, 8, 5, 7, 9], None),
        "{}",
        built.report()
    );
}

#[test]
fn a_pinned_result_that_came_late_is_not_summarised() {
    // Two calls were pinned while one of them ran. Its result came later, and was sent with the
    // pin; but what was due held it too, a result without its call.
    let prompt = over(remembering(conversation("u:Book_it. call:a/book,b/book t:a/book=booked")))
        .with_summary();
    assert_eq!(prompt.pin(1).unwrap(), [1, 2]);
    prompt
        .add_all(conversation("u:Still_there? t:b/book=booked_late").into_iter().chain(talk(20)))
        .unwrap();
    assert_eq!(prompt.pins().unwrap(), [1, 2, 4]);
    let due = prompt.compaction(&policy(4, 4)).unwrap().unwrap();
    assert!(due.covers > 5);
    assert!(due.records.messages().all(|it| !it.is_tool()), "{}", due.transcript());
    let two = due.records.messages().take(2).cloned().collect::<Vec<_>>();
    assert_eq!(two, conversation("u:Book_it. u:Still_there?"));
}

#[test]
fn what_can_never_be_sent_is_not_pinned() {
    let prompt = last(10, conversation("log:1 t:of_nobody=?"));
    for position in [0, 1, 2, u64::MAX] {
        let error = prompt.pin(position).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        assert!(error.to_string().starts_with("pin: "), "{error}");
    }
    // A memory without a slot for it keeps the system message as a record.
    let five = Five(DefaultChatMemory::new());
    five.add_all(conversation("s:Be_brief. u:hi")).unwrap();
    let prompt = over(five);
    assert_eq!(prompt.pin(0).unwrap_err().kind(), ErrorKind::Unsupported);
    assert_eq!(prompt.preview().unwrap().len(), 2, "it has no pins, and composes all the same");
    assert!(prompt.pins().unwrap().is_empty());
}

/// A memory of five methods.
#[derive(Debug)]
struct Five(DefaultChatMemory);

impl ChatMemory for Five {
    inside!(0: id append read evict clear);
}

#[test]
fn who_sends_no_pins_is_told_so_and_reads_none() {
    let memory = Arc::new(DefaultChatMemory::new());
    let plain = MemoryPrompt::new(Arc::clone(&memory)).max_messages(2);
    plain.add_all(chatter(20)).unwrap();
    let error = plain.pin(0).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("`with_pins`"), "{error}");
    let pinning = over(Arc::clone(&memory)).max_messages(2);
    pinning.pin(0).unwrap();
    assert_eq!(sent(&plain.preview().unwrap()), [18, 19]);
    assert_eq!(sent(&pinning.preview().unwrap()), [0, 18, 19]);
    assert_eq!(plain.pins().unwrap(), [0]);
}

#[test]
fn pins_cost_one_read_a_build_once_they_are_known() {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let reads = Arc::clone(&noted);
    let noting = Reading::new(&Arc::new(DefaultChatMemory::new()), move |memory, read| {
        reads.lock().push(read.clone());
        memory.read_with(read)
    });
    let noting = Arc::new(noting);
    let prompt = over(Arc::clone(&noting)).max_messages(2);
    prompt.add_all(chatter(20)).unwrap();
    prompt.pin(3).unwrap();
    noted.lock().clear();
    prompt.preview().unwrap();
    assert_eq!(noted.lock().len(), 2, "the slot, and then what it names");
    noted.lock().clear();
    prompt.preview().unwrap();
    let reads = std::mem::take(&mut *noted.lock());
    assert_eq!(reads, [Read::newest(2).slots(["prompt:pins"]).positions([3]).references()]);
    // Without pins the reads are those of ever.
    let plain = MemoryPrompt::new(Arc::clone(&noting)).max_messages(2);
    plain.preview().unwrap();
    assert_eq!(*noted.lock(), [Read::newest(2).references()]);
}

#[test]
fn a_budget_counts_pins_first_and_names_them_where_they_are_too_much() {
    let mut prompt =
        over(remembering([Message::user("pinned words ".repeat(30))])).max_tokens(200, Estimate);
    prompt.add_all(chatter(200)).unwrap();
    let without = prompt.preview().unwrap();
    prompt.pin(0).unwrap();
    let with = prompt.preview().unwrap();
    let (a, b) = (without.report(), with.report());
    assert_eq!((b.pinned_before.as_slice(), sent(&with)[0]), ([0].as_slice(), 0));
    assert!(b.sent < a.sent && b.tokens.unwrap().total <= 200, "{b}");
    assert!(b.tokens.unwrap().total > 190, "the room that is left is used: {b}");
    assert_eq!(b.message_tokens.len(), with.len());

    prompt.add(Message::user("pinned words ".repeat(80))).unwrap();
    prompt.pin(201).unwrap();
    prompt.add_all(chatter(20)).unwrap();
    let error = prompt.build().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Budget { budget: 200, .. }), "{error:?}");
    assert!(error.to_string().contains("pinned messages (0, 201) included"), "{error}");
    // Truncation cuts what is pinned, as it cuts the newest message.
    prompt.configure(|composer| composer.truncate(Truncate::chars(100).unwrap()));
    let cut = prompt.build().unwrap();
    assert_eq!(cut.report().pinned_before, [0]);
    assert!(sent(&cut).contains(&201), "the second is in its place");
    assert_eq!(cut.report().truncated.len(), 2);
}

#[test]
fn pins_of_a_hundred_thousand_messages_ago_are_counted_once() {
    let seen = Arc::new(Mutex::new(0_usize));
    let times = Arc::clone(&seen);
    let counts = move |text: &str| {
        *times.lock() += 1;
        Estimate.count_text(text).unwrap()
    };
    let prompt = over(remembering(chatter(100_000))).max_tokens(100, counts);
    (0..5).for_each(|i| drop(prompt.pin(i).unwrap()));
    let first = prompt.preview().unwrap();
    let once = std::mem::take(&mut *seen.lock());
    assert!(once >= first.len());
    assert_eq!(prompt.preview().unwrap(), first);
    assert_eq!(*seen.lock(), 0);
}

#[test]
fn what_was_forgotten_is_sent_by_no_pin() {
    forgotten(&InMemoryStore::new());
    #[cfg(feature = "sqlite")]
    {
        let folder = crate::folder::Folder::new();
        forgotten(&memory_prompt::SqliteStore::open(folder.file("pins.db")).unwrap());
    }
}

fn forgotten(store: &dyn ChatMemoryStore) {
    let ids = ["evicted", "cleared", "deleted"].map(MemoryId::from);
    for id in &ids {
        let prompt = over(store.memory(id.clone()).unwrap()).max_messages(2);
        prompt.add_all(group("a").into_iter().chain(chatter(40))).unwrap();
        prompt.pin(1).unwrap();
        prompt.pin(5).unwrap();
        assert_eq!(sent(&prompt.preview().unwrap()), [0, 1, 5, 40, 41]);
        match id.as_str() {
            // The call is gone, and with it the group.
            "evicted" => {
                prompt.memory().evict(1).unwrap();
                let built = prompt.preview().unwrap();
                assert_eq!(sent(&built), [5, 40, 41]);
                assert_eq!(built.report().lost_pins, [0]);
                assert!(prompt.unpin(0).unwrap() && prompt.unpin(5).unwrap());
                assert!(prompt.preview().unwrap().report().lost_pins.is_empty());
                continue;
            }
            "cleared" => prompt.memory().clear().unwrap(),
            _ => drop(store.delete(id).unwrap()),
        }
        let prompt = over(store.memory(id.clone()).unwrap()).max_messages(2);
        prompt.add_all(chatter(60)).unwrap();
        let built = prompt.preview().unwrap();
        assert_eq!(built.report().sent, 2);
        assert!(built.report().lost_pins.is_empty() && prompt.pins().unwrap().is_empty());
    }
}

#[test]
fn a_memory_that_evicts_evicts_what_is_pinned() {
    let memory = MessageWindowChatMemory::new(DefaultChatMemory::new(), 10).unwrap();
    let mut prompt = over(memory).max_messages(2);
    prompt.add_all(chatter(5)).unwrap();
    prompt.pin(0).unwrap();
    assert_eq!(prompt.build().unwrap().report().pinned_before, [0]);
    prompt.add_all(chatter(10)).unwrap();
    let built = prompt.build().unwrap();
    assert_eq!(built.len(), 2);
    assert_eq!(built.report().lost_pins, [0]);
}

#[test]
fn another_memory_has_other_pins() {
    let mut prompt = last(2, chatter(20));
    prompt.pin(3).unwrap();
    assert_eq!(sent(&prompt.build().unwrap()), [3, 18, 19]);
    let other = DefaultChatMemory::new();
    other.add_all(chatter(20)).unwrap();
    let first = prompt.set_memory(other);
    assert_eq!(sent(&prompt.build().unwrap()), [18, 19]);
    prompt.set_memory(first);
    assert_eq!(sent(&prompt.build().unwrap()), [3, 18, 19]);
}

#[test]
fn two_tabs_lose_no_pin() {
    two_tabs(&InMemoryStore::new());
    #[cfg(feature = "sqlite")]
    {
        let folder = crate::folder::Folder::new();
        two_tabs(&memory_prompt::SqliteStore::open(folder.file("tabs.db")).unwrap());
    }
}

fn two_tabs(store: &dyn ChatMemoryStore) {
    let tab = || over(store.memory(MemoryId::from("tabs")).unwrap()).max_messages(1);
    tab().add_all(chatter(80)).unwrap();
    std::thread::scope(|scope| {
        for first in 0..4 {
            let tab = tab();
            scope.spawn(move || {
                for i in 0..10 {
                    tab.pin(first + 4 * i).unwrap();
                    if i % 2 == 0 {
                        assert!(tab.unpin(first + 4 * i).unwrap());
                    }
                }
            });
        }
    });
    let expected: Vec<u64> = (0..40).filter(|i| i / 4 % 2 == 1).collect();
    assert_eq!(tab().pins().unwrap(), expected);
    assert_eq!(sent(&tab().preview().unwrap())[..20], expected);
}

/// A prompt that has read pins of another process names them in the read of the next one.
#[test]
fn what_another_tab_pins_is_sent_at_once() {
    let store = InMemoryStore::new();
    let tab = || over(store.memory(MemoryId::from("tabs")).unwrap()).max_messages(1);
    let (here, there) = (tab(), tab());
    here.add_all(chatter(30)).unwrap();
    for position in [7, 3, 9] {
        assert!(!sent(&here.preview().unwrap()).contains(&position));
        there.pin(position).unwrap();
        assert!(sent(&here.preview().unwrap()).contains(&position));
    }
    there.unpin(7).unwrap();
    assert_eq!(sent(&here.preview().unwrap()), [3, 9, 29]);
}

#[test]
fn conversations_and_turns_send_pins() {
    let model = Scripted::new().calls("look", serde_json::json!({})).says("done");
    let memory = Arc::new(DefaultChatMemory::new());
    let prompt = over(Arc::clone(&memory)).max_messages(4);
    prompt.add(Message::user("I am allergic to nuts.")).unwrap();
    prompt.add_all(chatter(40)).unwrap();
    prompt.pin(0).unwrap();
    let conversation = Conversation::new(prompt, model.clone())
        .tool(memory_prompt::Tool::new("look", "Looks."), |_: serde_json::Value| Ok("seen"));
    assert_eq!(conversation.say("What may I eat?").unwrap().text(), "done");
    for asked in model.asked() {
        assert_eq!(asked[0].text(), "I am allergic to nuts.");
        assert_eq!(asked.report().pinned_before, [0]);
    }
    let [first, second] = &model.asked()[..] else { unreachable!("it was asked twice") };
    assert_eq!(second.shared_prefix(first).messages, 1, "the window moved, the pin did not");
}

#[test]
fn what_is_pinned_is_not_recalled_besides() {
    let facts = ["Ada has three kittens.", "The kittens are grey."].map(Message::user).into_iter();
    let mut prompt = last(2, facts.chain(chatter(40)));
    prompt.add(Message::user("Which colour are the kittens?")).unwrap();
    prompt.pin(1).unwrap();
    prompt.set_recall(Recall::words());
    let built = prompt.build().unwrap();
    assert_eq!(built.report().pinned_before, [1]);
    let recalled = recalled(&built);
    assert!(recalled.contains(&0) && !recalled.contains(&1), "{recalled:?}");
}

#[test]
fn a_slot_that_somebody_else_has_written_is_an_error_that_names_it() {
    let prompt = over(DefaultChatMemory::new());
    let write = |content: &str| {
        let mut write = Append::default().set_slot("prompt:pins", content, Expected::Any);
        prompt.memory().append_with(&mut write).unwrap();
    };
    for content in ["[3]", "", r#"{"version":2,"pins":[]}"#, r#"{"version":1}"#] {
        write(content);
        for error in [prompt.preview().unwrap_err(), prompt.pin(0).unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Codec);
            assert!(error.to_string().contains("the slot \"prompt:pins\""), "{error}");
        }
    }
    write(r#"{"version":1,"pins":[{"at":18446744073709551615,"with":[0],"open":true},{"at":0}]}"#);
    prompt.add(Message::user("hi")).unwrap();
    assert_eq!(prompt.preview().unwrap().len(), 1);
}

/// What is wrong with the pins of a prompt without a provider.
fn wrong(prompt: &Prompt, pins: &[u64]) -> Option<String> {
    let sent = sent(prompt);
    for pin in pins {
        let times = sent.iter().filter(|position| *position == pin).count();
        if times != 1 {
            return Some(format!("{pin} is sent {times} times"));
        }
    }
    let mut distinct = sent.clone();
    distinct.sort_unstable();
    distinct.dedup();
    if distinct.len() != sent.len() {
        return Some(format!("something is sent twice: {sent:?}"));
    }
    let groups = broken_groups(prompt);
    if !groups.is_empty() {
        return Some(format!("{groups:?}"));
    }
    accounted(prompt)
}

counted! {
    #![cases(192)]

    /// Whatever the window, the budget and the conversation are: pins are sent, each once, in whole
    /// groups, and nothing is sent that would not be sent without them or is not pinned.
    #[test]
    fn pins_survive_windows_and_budgets(
        history in life(16),
        later in life(24),
        picks in proptest::collection::vec(0u64..60, 1..6),
        window in window(),
        tokens in proptest::option::of((60usize..900, any::<bool>())),
        cuts in any::<bool>(),
    ) {
        let memory = Arc::new(DefaultChatMemory::new());
        let mut prompt = over(Arc::clone(&memory)).window(window)
            .with_if(cuts, |it| it.truncate(Truncate::chars(12).unwrap()));
        prompt.add_all(history).unwrap();
        for pick in picks {
            if let Err(error) = prompt.pin(pick) {
                prop_assert_eq!(error.kind(), ErrorKind::Invalid);
            }
        }
        prompt = prompt.with_some(tokens, |it, (tokens, steps)| it.max_tokens(budget(tokens, steps), Estimate));
        let mut later = later;
        for _ in 0..3 {
            let rest = later.split_off(later.len().min(8));
            prompt.add_all(later).unwrap();
            later = rest;
            let built = match prompt.build() {
                Ok(built) => built,
                Err(error) => {
                    prop_assert!(matches!(error.kind(), ErrorKind::Budget { .. }), "{}", error);
                    continue;
                }
            };
            let pins = prompt.pins().unwrap();
            prop_assert_eq!(wrong(&built, &pins), None, "{}\n{}", built.report(), conversations::brief(&built));
            if let Some((tokens, _)) = tokens {
                prop_assert!(built.report().tokens.unwrap().total <= tokens);
            }
            // A prompt of another process is the same, and so is one over another backend.
            let mut fresh = MemoryPrompt::new(Arc::clone(&memory));
            let composer = prompt.composer().clone();
            fresh.configure(|_| composer);
            prop_assert_eq!(fresh.build().unwrap(), built.clone());
            // What is not pinned is what is sent without pins, where no budget is shared.
            if tokens.is_none() {
                fresh.configure(memory_prompt::Composer::no_pins);
                let without = sent(&fresh.build().unwrap());
                let [rest, plain] = [sent(&built), without].map(|mut it| {
                    it.retain(|position| !pins.contains(position));
                    it
                });
                // If a pinned message was the rest of a turn without its question, it stays.
                prop_assert_eq!(rest, plain, "{}", built.report());
            }
        }
    }

    /// For each provider the prompt is one that it takes, and a pin that is not sent is reported.
    #[test]
    fn pins_are_shaped_for_each_provider(
        history in life(20),
        picks in proptest::collection::vec(0u64..40, 1..6),
        last in 0usize..6,
        provider in proptest::sample::select([&TYPED[..], &[Provider::DeepSeek]].concat()),
    ) {
        let prompt = over(remembering(history)).max_messages(last).for_provider(provider);
        prompt.add(Message::user("and now?")).unwrap();
        for pick in picks {
            let _ = prompt.pin(pick);
        }
        let built = match prompt.preview() {
            Ok(built) => built,
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Provider);
                return Ok(());
            }
        };
        let groups = broken_groups(&built);
        prop_assert!(groups.is_empty(), "{:?}", groups);
        let report = built.report();
        let sent = sent(&built);
        let joined = |position: &u64| {
            report.adapted.iter().any(|it| it.position == Some(*position) && it.how == Adaptation::Joined)
        };
        for pin in prompt.pins().unwrap() {
            let left = report.left_out.iter().any(|it| {
                it.position == pin && matches!(it.why, Reason::Blank | Reason::Foreign)
            });
            prop_assert!(left || joined(&pin) || sent.contains(&pin), "{} {}", pin, report);
        }
        prop_assert_eq!(accounted(&built), None);
    }

    /// A pinned call is never sent without the result that the memory has for it.
    #[test]
    fn a_pinned_call_has_its_result(
        history in late_results(40),
        picks in proptest::collection::vec((0u64..40, 0usize..40), 1..4),
        last in 0usize..6,
    ) {
        let prompt = over(DefaultChatMemory::new()).max_messages(last);
        let whole = MemoryPrompt::new(Arc::clone(prompt.memory())).window(Window::all());
        for (i, message) in history.into_iter().enumerate() {
            prompt.add(message).unwrap();
            for (position, when) in &picks {
                if *when == i {
                    let _ = prompt.pin(*position);
                }
            }
        }
        let (built, whole) = (prompt.preview().unwrap(), whole.preview().unwrap());
        prop_assert_eq!(wrong(&built, &prompt.pins().unwrap()), None);
        for message in built.iter().filter(|message| message.is_tool()) {
            prop_assert!(whole.iter().any(|it| it == message), "{:?}", message.text());
        }
    }
}

counted! {
    #![cases(256)]

    /// Calls and results that are not looked at are pinned and sent one by one.
    #[test]
    fn pins_hold_however_tool_groups_are_treated(
        history in life(16), picks in proptest::collection::vec(0u64..40, 1..4), last in 0usize..6,
    ) {
        for groups in [ToolGroups::Off, ToolGroups::FailOnRepair] {
            let prompt = over(remembering(history.iter().cloned())).max_messages(last).tool_groups(groups);
            for pick in &picks {
                let _ = prompt.pin(*pick);
            }
            let pins = prompt.pins().unwrap();
            let Ok(built) = prompt.preview() else { continue };
            let sent = sent(&built);
            for pin in pins {
                prop_assert_eq!(sent.iter().filter(|position| **position == pin).count(), 1);
            }
            prop_assert_eq!(accounted(&built), None, "{}", built.report());
        }
    }
}

#[cfg(feature = "tokio")]
#[test]
fn pins_are_the_same_over_an_async_memory() {
    let runtime = tokio::runtime::Builder::new_multi_thread().build().unwrap();
    runtime.block_on(async {
        let memory = Arc::new(DefaultChatMemory::new());
        let blocking = over(Arc::clone(&memory)).max_messages(2);
        let asynchronous = memory_prompt::adapt::ToAsync::new(memory);
        let prompt = MemoryPrompt::new_async(asynchronous).max_messages(2).with_pins();
        prompt.add_all(group("a").into_iter().chain(chatter(40))).await.unwrap();
        assert_eq!(prompt.pin(1).await.unwrap(), [0, 1]);
        assert_eq!(prompt.pins().await.unwrap(), [0, 1]);
        assert_eq!(sent(&prompt.preview().await.unwrap()), [0, 1, 40, 41]);
        assert_eq!(prompt.preview().await.unwrap(), blocking.preview().unwrap());
        assert!(prompt.unpin(0).await.unwrap());
        assert_eq!(prompt.pins().await.unwrap(), [0; 0]);
        assert_eq!(prompt.pin(77).await.unwrap_err().kind(), ErrorKind::Invalid);
    });
}

/// An old pinned question was taken for the last message of the user: temporaries that belong
/// before the newest question stood at the top, and nothing behind them was found in a cache.
#[test]
fn temporaries_do_not_stand_before_an_old_pin() {
    let mut prompt = over(DefaultChatMemory::new()).max_messages(1);
    prompt.configure(|composer| composer.temporaries_at(Placement::BeforeLastUser));
    let pinned = prompt.add(Message::user("I am allergic to nuts.")).unwrap();
    prompt.pin(pinned).unwrap();
    prompt.add_all(chatter(5)).unwrap();
    prompt.add(Message::ai("I see.")).unwrap();
    prompt.configure(|composer| composer.window(Window::last(1).exactly()));
    prompt.add_temporary(Message::user("It is Monday."));
    let built = prompt.build().unwrap();
    assert_eq!(texts(&built), ["I am allergic to nuts.", "I see.", "It is Monday."]);
    assert!(!built.report().no_user_message);
}

/// What the processor dropped of the question or of the calls before the window was left out, and
/// counted once more among the older messages.
#[test]
fn what_is_dropped_before_the_window_is_counted_once() {
    let told = |prompt: &Prompt| {
        let report = prompt.report();
        assert_eq!(report.older + (report.sent + report.left_out.len()) as u64, report.stored);
        assert!(!report.left_out.is_empty(), "{report}");
    };
    let secret = |message: &Message, _: &TruncateContext| message.text() == "secret";
    let mut prompt = last(2, chatter(4)).truncate(Truncate::default().processor(Drops(secret)));
    prompt.add_all(conversation("a:Well. u:secret")).unwrap();
    prompt.add_all(["a", "b", "c"].iter().flat_map(|id| group(id))).unwrap();
    let built = prompt.build().unwrap();
    told(&built);
    assert!(built.report().question.is_empty(), "{}", built.report());

    prompt.add(message("call:late")).unwrap();
    prompt.add_all(chatter(4)).unwrap();
    prompt.add_all(conversation("t:late=secret u:And?")).unwrap();
    told(&prompt.build().unwrap());
}
