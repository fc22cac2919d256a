//! The rules of composing over conversations as life makes them: results that come late, records of
//! the application's own among everything, stand-ins, steered messages, placeholders, restarts and
//! swaps.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::conversations::*;
use crate::counted::{counted, regressions};
use crate::sent::{accounted, left_out, sent as positions};
use crate::setups::{Drawn, budget, counted as total, letters, remembering};
use memory_prompt::compose::Placement;
use memory_prompt::message::{AiMessage, AiPart};
use memory_prompt::record::{Records, Snapshot};
use memory_prompt::report::{Break, Origin, Reason, SystemSource};
use memory_prompt::token::TokenCounter;
use memory_prompt::{
    Budget, ChatMemory, ChatMemoryExt, ChatMemoryStore, Composer, ErrorKind, InMemoryStore,
    MemoryPrompt, Message, Prompt, Provider, Result, Truncate, Window,
};
use proptest::prelude::*;

/// A step is a function of positions, which count everything.
fn windows_but_steps() -> impl Strategy<Value = Window> {
    prop_oneof![
        4 => (1usize..12).prop_map(Window::last),
        2 => (1usize..5).prop_map(Window::turns),
        1 => Just(Window::all()),
    ]
}

fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        7 => windows_but_steps(),
        2 => (1usize..8, 1usize..8).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
    ]
}

fn providers() -> impl Strategy<Value = Option<Provider>> {
    use Provider::{Anthropic, Gemini, Mistral, Ollama, OpenAi, OpenAiResponses};
    let all = vec![OpenAi, OpenAiResponses, Anthropic, Gemini, Mistral, Ollama];
    proptest::option::of(proptest::sample::select(all))
}

fn compose(composer: &Composer, history: &[Message]) -> Result<Prompt> {
    composer.compose_all(&records(history), &[])
}

/// A conversation of these records, system messages in their place.
fn records(history: &[Message]) -> Snapshot {
    let rows =
        (0..).zip(history).map(|(position, message)| (position, UNIX_EPOCH, message.clone()));
    Snapshot::new(0..history.len() as u64, Records::from_rows(rows))
}

fn windowed(window: Window) -> Composer {
    Composer::new().window(window)
}

/// The newest message of the user that is not steered.
fn question(history: &[Message]) -> Option<u64> {
    let begins =
        |m: &Message| matches!(m, Message::User(m) if !m.attributes().contains_key("turn:steered"));
    history.iter().rposition(begins).map(|i| i as u64)
}

/// The texts of the results behind each call that is sent, by the call's id: of what is sent alone.
fn answers(prompt: &Prompt) -> BTreeMap<String, Vec<(Origin, String)>> {
    let mut answers: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for (origin, message) in prompt.with_origins() {
        if let Some(tool) = message.as_tool() {
            let text = message.text().into_owned();
            answers.entry(tool.call_id().to_owned()).or_default().push((origin, text));
        } else {
            for call in message.tool_calls() {
                answers.entry(call.id.clone()).or_default();
            }
        }
    }
    answers
}

/// What each group that is sent counts, without the system message.
fn groups(prompt: &Prompt) -> Vec<usize> {
    let mut groups: Vec<usize> = Vec::new();
    for message in prompt.iter().filter(|message| !message.is_system()) {
        let tokens = letters.count(message).unwrap();
        match groups.last_mut() {
            Some(group) if message.is_tool() => *group += tokens,
            _ => groups.push(tokens),
        }
    }
    groups
}

/// The positions of what is left out for this reason.
fn named(prompt: &Prompt, reason: Reason) -> Vec<u64> {
    left_out(prompt).into_iter().filter(|it| it.1 == reason).map(|it| it.0).collect()
}

fn adds_up(prompt: &Prompt, history: &[Message]) -> std::result::Result<(), TestCaseError> {
    let report = prompt.report();
    prop_assert_eq!(report.stored, history.len() as u64);
    prop_assert_eq!(accounted(prompt), None, "{:?}", prompt);
    prop_assert_eq!(report.messages, prompt.len());
    let named: BTreeSet<u64> = report.left_out.iter().map(|it| it.position).collect();
    prop_assert_eq!(named.len(), report.left_out.len());
    prop_assert!(positions(prompt).iter().all(|position| !named.contains(position)));
    Ok(())
}

counted! {
    #![cases(256, regressions())]

    // Results and their calls

    /// A result that came behind something else was left out, and a placeholder denied it.
    #[test]
    fn a_result_is_sent_where_its_call_is_sent(
        history in late_results(40), window in windows(), exactly in any::<bool>(), user in any::<bool>(),
        provider in providers(), tokens in proptest::option::of(100usize..600),
    ) {
        let window = window.with_if(exactly, Window::exactly);
        let composer = windowed(window.with_if(user, Window::starting_with_user))
            .with_some(provider.filter(|it| *it != Provider::Mistral), Composer::for_provider)
            .with_some(tokens, |it, tokens| it.max_tokens(tokens, letters));
        let prompt = match compose(&composer, &history) {
            Ok(prompt) => prompt,
            Err(error) => {
                let refused = matches!(error.kind(), ErrorKind::Budget { .. } | ErrorKind::Provider);
                prop_assert!(refused, "{error}");
                return Ok(());
            }
        };
        let stored = |text: &str| history.iter().any(|m| m.is_tool() && m.text() == text);
        for (id, sent) in answers(&prompt) {
            let texts: Vec<&str> = sent.iter().map(|it| &*it.1).collect();
            let (result, running) = (format!("result of {id}"), format!("{id} is running"));
            if stored(&result) {
                prop_assert_eq!(texts, [&result]);
            } else if stored(&running) {
                prop_assert_eq!(texts, [&running]);
            } else {
                prop_assert_eq!(sent.len(), 1);
                prop_assert_eq!(sent[0].0, Origin::Repair);
            }
        }
        let wrong = broken_groups(&prompt);
        prop_assert!(wrong.is_empty(), "{wrong:?}");
    }

    /// Whatever was moved is named, with the position of its call, and nothing else is.
    #[test]
    fn what_is_moved_is_named(history in late_results(40)) {
        let prompt = compose(&windowed(Window::all()), &history).unwrap();
        let sent = positions(&prompt);
        let moved: BTreeMap<u64, u64> = prompt.report().moved.iter().map(|it| (it.position, it.call)).collect();
        // Without what was moved, what is sent is in the order in which it was said.
        let rest: Vec<u64> = sent.iter().copied().filter(|position| !moved.contains_key(position)).collect();
        prop_assert!(rest.is_sorted(), "{sent:?}, moved {moved:?}");
        for (position, call) in moved {
            prop_assert!(call < position && sent.contains(&position) && sent.contains(&call));
            let at = |position: u64| usize::try_from(position).ok().and_then(|i| history.get(i)).unwrap();
            let (result, asked) = (at(position), at(call));
            let id = result.as_tool().unwrap().call_id();
            prop_assert!(asked.tool_calls().any(|it| it.id == id));
        }
    }

    /// Ids that repeat, names that disagree, results of nobody: no call goes without a result, no
    /// result without a call, and no record is sent twice.
    #[test]
    fn groups_are_whole_whatever_happened(
        history in life(30), window in windows(), exactly in any::<bool>(), user in any::<bool>(),
        provider in providers(),
    ) {
        let window = window.with_if(exactly, Window::exactly);
        let composer = windowed(window.with_if(user, Window::starting_with_user))
            .with_some(provider, Composer::for_provider);
        let Ok(prompt) = compose(&composer, &history) else { return Ok(()) };
        let wrong = broken_groups(&prompt);
        prop_assert!(wrong.is_empty(), "{wrong:?}");
        let sent = positions(&prompt);
        let once: BTreeSet<u64> = sent.iter().copied().collect();
        prop_assert_eq!(once.len(), sent.len());
    }

    // Windows

    /// Six rounds of calls pushed the question out of the default window.
    #[test]
    fn the_question_is_sent_with_the_tools_that_work_on_it(
        history in prop_oneof![life(30), late_results(50)], window in windows(),
    ) {
        let prompt = compose(&windowed(window), &history).unwrap();
        let works = prompt.iter().any(|message| message.is_tool() || message.has_tool_calls());
        if let Some(question) = question(&history).filter(|_| works) {
            prop_assert!(positions(&prompt).contains(&question), "{question}: {prompt:?}");
        }
    }

    /// What is put in front of a window makes something else give way.
    #[test]
    fn n_holds_but_for_the_question_and_the_newest_group(
        history in prop_oneof![life(30), late_results(50)], n in 1usize..12,
        user in any::<bool>(),
    ) {
        let window = if user { Window::last(n).starting_with_user() } else { Window::last(n) };
        let prompt = compose(&windowed(window), &history).unwrap();
        let report = prompt.report();
        if report.sent > n {
            // All of its row: nothing was answered between its pieces.
            let question = question(&history);
            let is_piece = |position: u64| {
                let row = history.iter().enumerate().map(|(i, it)| (i as u64, it));
                let mut row = row.filter(|(i, _)| question.is_some_and(|q| (position..=q).contains(i)));
                question.is_some_and(|q| position <= q) && row.all(|(_, it)| it.as_ai().is_none())
            };
            let units = prompt.with_origins().filter(|(origin, message)| match origin {
                Origin::History(position) => {
                    !message.is_tool() && !is_piece(*position) && !report.question.contains(position)
                }
                _ => false,
            });
            prop_assert!(units.count() <= 1, "{} of {n}:\n{}\n{}\n{report}", report.sent, brief(&history), brief(&prompt));
        }
        prop_assert!(report.question.len() <= 2 * (n / 2).max(1));
        let newest = history.iter().rposition(|m| !is_audit(m));
        if let Some(newest) = newest.filter(|i| !history[*i].is_tool()) {
            prop_assert!(positions(&prompt).contains(&(newest as u64)));
        }
    }

    /// An audit log behind the question pushed it out of the window, and one between a call and its
    /// result parted them.
    #[test]
    fn records_of_the_application_change_nothing(
        history in life(24), window in windows_but_steps(), exactly in any::<bool>(), user in any::<bool>(),
        tokens in proptest::option::of(50usize..900), provider in providers(),
        place in proptest::sample::select(vec![Placement::End, Placement::BeforeLastUser]),
    ) {
        let window = window.with_if(exactly, Window::exactly);
        let composer = windowed(window.with_if(user, Window::starting_with_user))
            .temporaries_at(place)
            .with_some(tokens, |it, tokens| it.max_tokens(tokens, letters))
            .with_some(provider, Composer::for_provider);
        let without: Vec<Message> = history.iter().filter(|m| !is_audit(m)).cloned().collect();
        let temporary = [Arc::new(Message::user("now"))];
        let with = composer.compose_all(&records(&history), &temporary);
        let without = composer.compose_all(&records(&without), &temporary);
        match (with, without) {
            (Ok(with), Ok(without)) => {
                prop_assert_eq!(with.to_messages(), without.to_messages());
                prop_assert_eq!(with.cacheable(), without.cacheable());
                prop_assert_eq!(with.report().sent, without.report().sent);
                prop_assert_eq!(without.report().private, 0);
            }
            (with, without) => {
                let kinds = (with.unwrap_err().kind(), without.unwrap_err().kind());
                prop_assert_eq!(kinds.0, kinds.1);
            }
        }
    }

    /// The law of stepped windows, where life goes on behind their start.
    #[test]
    fn between_two_steps_a_prompt_only_grows_but_for_late_results(
        history in prop_oneof![life(30), late_results(60)], low in 1usize..12, step in 4usize..40,
        limit in proptest::option::of(1usize..20), user in any::<bool>(),
    ) {
        let window = Window::stepped(low, step).unwrap();
        let composer = windowed(window.with_if(user, Window::starting_with_user)).system("s")
            .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()));
        let start = |end: usize| {
            let mut open = (0..end).rev().filter(|i| !is_audit(&history[*i]));
            open.nth(low - 1).unwrap_or(0) / step
        };
        let rest = |prompt: &Prompt| named(prompt, Reason::RestOfTurn);
        let mut before: Option<Prompt> = None;
        for end in 0..=history.len() {
            let prompt = compose(&composer, &history[..end]).unwrap();
            if let Some(before) = before.take()
                && start(end) == start(end - 1)
                && before.report().question == prompt.report().question
                && rest(&before) == rest(&prompt)
            {
                let shared = prompt.shared_prefix(&before);
                if shared.messages < before.cacheable() {
                    let late = end as u64 - 1;
                    prop_assert!(history[end - 1].is_tool(), "at {end}: {before:?}\n{prompt:?}");
                    prop_assert_eq!(shared.broken_by, Some(Break::LateResult(late)));
                }
            }
            before = Some(prompt);
        }
    }

    // Budgets

    #[test]
    fn a_budget_is_never_exceeded(
        history in prop_oneof![life(24), unanswered(40), late_results(40)], temporaries in temporaries(),
        window in proptest::option::of(windows()), tokens in 0usize..700, reserve in 0usize..40,
        marks in any::<bool>(), cut_first in any::<bool>(), limit in proptest::option::of(1usize..30),
        sparing in any::<bool>(), provider in providers(),
    ) {
        let room = tokens.saturating_sub(reserve);
        let mut budget = Budget::new(tokens).reserve(reserve);
        if marks && room > 3 {
            budget = budget.stepped(room / 4 + 1, room / 2 + 1).unwrap_or(budget);
        }
        let budget = budget.with_if(cut_first, Budget::cut_before_drop);
        let cut = |limit| Truncate::chars(limit).unwrap().with_if(sparing, Truncate::sparing_question);
        let composer = Composer::new().system("s").max_tokens(budget, letters)
            .with_some(limit, |it, limit| it.truncate(cut(limit)))
            .with_some(window, Composer::window)
            .with_some(provider, Composer::for_provider);
        let shared: Vec<_> = temporaries.into_iter().map(Arc::new).collect();
        match composer.compose_all(&records(&history), &shared) {
            Ok(prompt) => {
                let counted = prompt.report().tokens.unwrap().total;
                prop_assert!(counted <= room, "{} of {room}: {prompt:?}", counted);
                // A provider is sent a text for some media, and not all reasoning.
                let is_part = |it: &Message| {
                    let parts = it.as_ai().map_or(&[][..], AiMessage::parts);
                    let thinks = parts.iter().any(|part| matches!(part, AiPart::Reasoning(_)));
                    thinks || it.media().next().is_some()
                };
                let is_part = provider.is_some() && prompt.iter().any(is_part);
                prop_assert!(is_part || counted == total(&prompt), "{counted}: {prompt:?}");
                if provider.is_none() {
                    adds_up(&prompt, &history)?;
                }
            }
            Err(error) => {
                let refused = matches!(error.kind(), ErrorKind::Budget { needed, budget } if needed > budget)
                    || error.kind() == ErrorKind::Provider;
                prop_assert!(refused, "{error}");
            }
        }
    }

    /// Two placeholders more than were counted, and all but one message was given up.
    #[test]
    fn a_larger_budget_never_sends_fewer(
        history in prop_oneof![life(20), unanswered(40), late_results(40)],
        window in proptest::option::of(windows()), more in 0usize..60, much_more in 1usize..200,
    ) {
        let whole = compose(&windowed(Window::all()), &history).unwrap();
        // Nothing that may be sent, not even the question, is more than half of the smaller room.
        let largest = groups(&whole).into_iter().max().unwrap_or(0);
        let composer = windowed(window.unwrap_or(Window::all()));
        let small = 3 + 2 * largest + more;
        let built = [small, small + much_more].map(|tokens| {
            compose(&composer.clone().max_tokens(tokens, letters), &history).ok()
        });
        let [Some(less), Some(more)] = built else { panic!("two groups fit: {built:?}") };
        let (mut fewer, all) = (positions(&less), positions(&more));
        // With more pieces of the question in front there is less room for others.
        if more.report().question.len() > less.report().question.len() {
            return Ok(());
        }
        // Pieces of the question stand in front only where the window has lost all of them.
        fewer.retain(|position| !less.report().question.contains(position));
        prop_assert!(fewer.len() <= all.len(), "{fewer:?}, with more {all:?}");
        prop_assert!(fewer.iter().all(|position| all.contains(position)), "{fewer:?}, with more {all:?}");
        prop_assert!(less.report().left_out.iter().all(|it| it.why != Reason::OverBudget));
    }

    /// What cannot fit at all, ever, is not why nothing else is sent.
    #[test]
    fn what_can_never_fit_is_left_out_alone(
        before in proptest::collection::vec("[a-z]{1,8}", 0..8), after in 1usize..8, size in 200usize..2_000,
    ) {
        let mut history: Vec<Message> = before.into_iter().map(Message::ai).collect();
        let paste = history.len() as u64;
        history.push(Message::user("x".repeat(size)));
        history.extend((0..after).map(|i| Message::user(i.to_string())));
        let prompt = compose(&Composer::new().max_tokens(200, letters), &history).unwrap();
        prop_assert_eq!(prompt.report().sent, history.len() - 1);
        prop_assert_eq!(left_out(&prompt), [(paste, Reason::OverBudget)]);
    }

    // System messages

    #[test]
    fn system_records_are_kept_or_named(
        history in with_systems(12), window in windows(), provider in providers(),
    ) {
        use Provider::{Ollama, OpenAi, OpenAiResponses};
        let composer = windowed(window).with_some(provider, Composer::for_provider);
        let Ok(prompt) = compose(&composer, &history) else { return Ok(()) };
        let report = prompt.report();
        let first = history.first().is_some_and(Message::is_system);
        let opens = report.system == SystemSource::Memory;
        prop_assert!(!opens || first);
        let second: Vec<u64> = named(&prompt, Reason::SecondSystem);
        let keeps = matches!(provider, Some(OpenAi | OpenAiResponses | Ollama));
        let other: &[u64] = if keeps { &second } else { &report.kept_systems };
        prop_assert!(other.is_empty(), "{other:?}");
        let sent = prompt.iter().filter(|message| message.is_system()).count();
        prop_assert_eq!(sent, report.kept_systems.len() + usize::from(opens));
        for position in report.kept_systems.iter().chain(&second) {
            prop_assert!(history[usize::try_from(*position).unwrap()].is_system());
            prop_assert!(!(opens && *position == 0));
        }
    }

    // The whole

    #[test]
    fn the_report_adds_up_whatever_happened(
        history in prop_oneof![life(30), late_results(50), with_systems(12)], window in windows(),
        exactly in any::<bool>(), user in any::<bool>(), tokens in proptest::option::of(50usize..900),
    ) {
        let window = window.with_if(exactly, Window::exactly);
        let composer = windowed(window.with_if(user, Window::starting_with_user))
            .with_some(tokens, |it, tokens| it.max_tokens(tokens, letters));
        let Ok(prompt) = compose(&composer, &history) else { return Ok(()) };
        adds_up(&prompt, &history)?;
        let report = prompt.report();
        // The system message may be a record too.
        let own = usize::from(history.first().is_some_and(Message::is_system) && prompt.system().is_some());
        let sent = positions(&prompt).len();
        prop_assert!(report.sent == sent || report.sent == sent + own, "{prompt:?}");
        prop_assert!(report.question.iter().all(|position| positions(&prompt).contains(position)));
        let notes = prompt.with_origins().filter(|it| it.0 == Origin::Note).count();
        prop_assert_eq!(notes, usize::from(!report.note.is_empty()));
        let repaired = prompt.with_origins().filter(|it| it.0 == Origin::Repair).count();
        prop_assert_eq!(repaired, report.repaired.len());
    }

    /// What is read in pieces is composed as from everything at once, however far the calls and the
    /// question are.
    #[test]
    fn what_is_read_in_pieces_is_composed_as_from_everything(
        before in 0usize..150, history in prop_oneof![life(24), late_results(40)], rounds in 0usize..90,
        after in life(6), window in proptest::option::of(windows()), user in any::<bool>(),
        tokens in proptest::option::of(40usize..1_500), marks in any::<bool>(), evicted in 0u64..40,
        provider in providers(),
    ) {
        let memory = remembering((0..before).map(|i| Message::user(i.to_string())));
        memory.add_all(history).unwrap();
        let round = |_| {
            let call = memory_prompt::ToolCall::new("c0", "look", "{}");
            [Message::ai_calls([call]), audit(), Message::tool("c0", "look", "seen")]
        };
        memory.add_all((0..rounds).flat_map(round)).unwrap();
        memory.add_all(after).unwrap();
        memory.evict(evicted).unwrap();
        let window = window.map(|it| it.with_if(user, Window::starting_with_user));
        let prompt = MemoryPrompt::new(memory)
            .with_some(window, MemoryPrompt::window)
            .with_some(tokens, |it, tokens| it.max_tokens(budget(tokens, marks), letters))
            .with_some(provider, MemoryPrompt::for_provider);
        let whole = prompt.memory().read(None, usize::MAX).unwrap();
        match (prompt.preview(), prompt.composer().compose_all(&whole, &[])) {
            (Ok(pieces), Ok(whole)) => prop_assert!(pieces == whole, "{}\n{}", pieces.report(), whole.report()),
            (pieces, whole) => {
                prop_assert_eq!(pieces.unwrap_err().to_string(), whole.unwrap_err().to_string());
            }
        }
    }

    /// Positions that begin again, and other memories under the same positions: nothing of what a
    /// prompt remembers is believed of them.
    #[test]
    fn a_prompt_that_lived_builds_what_a_new_one_builds(
        life in happenings(40), tokens in proptest::option::of(20usize..400),
        limit in proptest::option::of(1usize..20), window in proptest::option::of(windows()),
    ) {
        let store = InMemoryStore::new();
        let mut ids = ["a", "b"];
        let mut prompt = MemoryPrompt::new(store.memory(ids[0]).unwrap())
            .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()))
            .with_some(window, MemoryPrompt::window)
            .with_some(tokens, |it, tokens| it.max_tokens(tokens, letters));
        let mut failed = false;
        for happens in life {
            let memory = store.memory(ids[0]).unwrap();
            match happens {
                Happens::Said(messages) => drop(memory.add_all(messages).unwrap()),
                Happens::Evicted(before) => drop(memory.evict(before).unwrap()),
                Happens::Cleared => memory.clear().unwrap(),
                Happens::BeganAnew => drop(store.delete(&ids[0].into()).unwrap()),
                Happens::Swapped => {
                    ids.swap(0, 1);
                    let waiting = prompt.temporaries().len();
                    prompt.set_memory(store.memory(ids[0]).unwrap());
                    prop_assert!(failed || prompt.temporaries().len() == waiting);
                }
                Happens::Temporary(message) => drop(prompt.add_temporary(message)),
                Happens::Built => {
                    let mut anew = MemoryPrompt::new(store.memory(ids[0]).unwrap());
                    anew.configure(|_| prompt.composer().clone());
                    for temporary in prompt.temporaries() {
                        anew.add_temporary(temporary.clone());
                    }
                    match (prompt.build(), anew.build()) {
                        (Ok(lived), Ok(anew)) => {
                            failed = false;
                            prop_assert!(lived.with_origins().eq(anew.with_origins()));
                            prop_assert_eq!(lived.report().tokens, anew.report().tokens);
                            prop_assert_eq!(lived.cacheable(), anew.cacheable());
                        }
                        (lived, anew) => {
                            failed = true;
                            let (lived, anew) = (lived.unwrap_err(), anew.unwrap_err());
                            prop_assert_eq!(lived.to_string(), anew.to_string());
                        }
                    }
                }
            }
        }
    }
}
