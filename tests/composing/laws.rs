//! The rules of composing, each a property over conversations that are as nasty as we could make
//! them: parallel calls, results out of order, twice, missing or of nobody's, ids that repeat or
//! are empty, several system messages, empty texts, parts, and text that is hard to cut.

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::conversations::*;
use crate::counted::{counted, regressions};
use crate::processors::Fails;
use crate::reading::Reading;
use crate::setups::{self, Drawn, holding, placements, remembering, truncations};
use memory_prompt::compose::{Composition, Placement};
use memory_prompt::record::{Records, Unreadable};
use memory_prompt::report::{Break, Origin, Reason};
use memory_prompt::text::Keep;
use memory_prompt::window::ToolGroups;
use memory_prompt::wire::openai;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, Composer, Error, ErrorKind, MemoryPrompt, Message, Prompt, Provider,
    Truncate, Window,
};
use proptest::prelude::*;

fn windows() -> impl Strategy<Value = Window> {
    let kind = prop_oneof![
        4 => (0usize..12).prop_map(Window::last),
        2 => (0usize..5).prop_map(Window::turns),
        1 => Just(Window::all()),
        2 => (1usize..8, 1usize..8).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
    ];
    (kind, any::<bool>(), any::<bool>()).prop_map(|(window, user, exactly)| {
        window.with_if(user, Window::starting_with_user).with_if(exactly, Window::exactly)
    })
}

/// Any configuration that sends prompts which providers take.
fn composers() -> impl Strategy<Value = Composer> {
    let system = proptest::option::of("[a-z]{0,5}");
    (windows(), placements(), truncations(), system).prop_map(|(window, at, truncate, system)| {
        Composer::new()
            .window(window)
            .temporaries_at(at)
            .with_some(truncate, Composer::truncate)
            .with_some(system, Composer::system)
    })
}

fn compose(composer: &Composer, conversation: &[Message], temporaries: &[Message]) -> Prompt {
    setups::compose(composer, conversation, temporaries).unwrap()
}

/// What a provider may be sent of it.
fn sendable(conversation: &[Message]) -> Vec<Message> {
    stored(conversation).into_iter().filter(|m| !m.is_private()).collect()
}

fn is_work(message: &Message) -> bool {
    message.is_tool() || message.has_tool_calls()
}

/// The messages of a prompt that came from the history, as they stand in it.
fn history(prompt: &Prompt) -> Vec<Message> {
    let sent = prompt.with_origins();
    sent.filter(|(origin, _)| matches!(origin, Origin::History(_) | Origin::Truncated(_)))
        .map(|(_, message)| message.clone())
        .collect()
}

counted! {
    #![cases(256, regressions())]

    /// Prompts without temporaries may be composed a shorter way, which those with some never take.
    #[test]
    fn a_temporary_behind_all_changes_nothing_before_it(
        mut composer in composers(), conversation in conversation(16), plain in any::<bool>(),
        groups in proptest::sample::select(vec![ToolGroups::Repair, ToolGroups::FailOnRepair, ToolGroups::Off]),
        processed in proptest::bool::weighted(0.2), evicted in 0u64..4, read in 0usize..20,
        last in proptest::option::of(0usize..12), lost in proptest::option::weighted(0.3, 0usize..20),
    ) {
        let shout = |m: &Message| m.is_user().then(|| Message::user(m.text().to_uppercase()));
        composer = composer.temporaries_at(Placement::End).tool_groups(groups)
            .with_some(last, Composer::max_messages)
            .with_if(processed, |it| it.truncate(Truncate::default().processor(shout)));
        let is_plain = |m: &Message| !plain || !(m.is_tool() || m.has_tool_calls());
        let conversation: Vec<_> = conversation.into_iter().filter(is_plain).collect();
        let memory = remembering(conversation);
        memory.evict(evicted).unwrap();
        let mut snapshot = memory.read(None, read).unwrap();
        if let Some(position) = lost.and_then(|lost| snapshot.records.iter().rev().nth(lost)).map(|r| r.position()) {
            let readable = snapshot.records.iter().filter(|record| record.position() != position);
            let rows = readable.map(|r| (r.position(), r.appended_at(), r.message().clone()));
            snapshot.records = Records::from_rows(rows.collect::<Vec<_>>());
            let error = Arc::new(Error::new(ErrorKind::Codec, "read", "damaged"));
            snapshot.unreadable.push(Unreadable { position, error });
        }
        let composed = |temporaries: &[Message]| {
            let shared: Vec<_> = temporaries.iter().cloned().map(Arc::new).collect();
            composer.compose(snapshot.clone(), &shared).map_err(|error| error.to_string())
        };
        match (composed(&[]), composed(&[Message::custom([])])) {
            (Ok(Composition::Ready(without)), Ok(Composition::Ready(with))) => {
                let mut sent: Vec<_> = without.with_origins().collect();
                let temporary = Message::custom([]);
                sent.push((Origin::Temporary, &temporary));
                prop_assert_eq!(with.with_origins().collect::<Vec<_>>(), sent);
                prop_assert_eq!(with.cacheable(), without.cacheable());
                let mut report = with.report().clone();
                (report.messages, report.temporaries) = (report.messages - 1, 0);
                prop_assert_eq!(&report, without.report());
            }
            (without, with) => prop_assert_eq!(without, with),
        }
    }

    // Rule 1

    #[test]
    fn without_tools_a_window_is_exactly_the_last_n(conversation in conversation(16), n in 0usize..20) {
        let plain: Vec<_> = sendable(&conversation).into_iter().filter(|m| !is_work(m)).collect();
        let prompt = compose(&Composer::new().max_messages(n), &plain, &[]);
        prop_assert_eq!(history(&prompt), &plain[plain.len().saturating_sub(n)..]);
    }

    #[test]
    fn n_counts_neither_system_nor_temporaries(
        conversation in conversation(16), temporaries in temporaries(), n in 0usize..20,
    ) {
        let composer = Composer::new().max_messages(n);
        let bare = compose(&composer, &stored(&conversation), &[]);
        let full = compose(&composer.system("Be brief."), &conversation, &temporaries);
        prop_assert_eq!(history(&bare), history(&full));
    }

    #[test]
    fn off_sends_the_last_n_as_they_are(conversation in conversation(16), n in 0usize..20) {
        let prompt = compose(&Composer::new().max_messages(n).tool_groups(ToolGroups::Off), &conversation, &[]);
        let stored = sendable(&conversation);
        prop_assert_eq!(history(&prompt), &stored[stored.len().saturating_sub(n)..]);
    }

    #[test]
    fn turns_are_whole(conversation in conversation(16), n in 1usize..6) {
        let prompt = compose(&Composer::new().window(Window::turns(n)), &conversation, &[]);
        let stored = sendable(&conversation);
        // A turn begins with the first of a row of user messages, with no answer between them.
        let is_beginning = |i: &usize| {
            let before = stored[..*i].iter().rev().find(|m| m.is_user() || m.as_ai().is_some());
            stored[*i].is_user() && !before.is_some_and(Message::is_user)
        };
        let turns: Vec<_> = (0..stored.len()).filter(is_beginning).collect();
        if turns.is_empty() {
            return Ok(()); // then answers are turns: see against_model.rs
        }
        let start = turns.iter().rev().nth(n - 1).filter(|start| **start != turns[0]).copied().unwrap_or(0);
        let expected = compose(&Composer::new().window(Window::all()), &stored[start..], &[]);
        // A late result takes the group of its call along.
        let mut sent = history(&prompt);
        prop_assert!(sent.len() >= history(&expected).len());
        if start == 0 || prompt.report().moved.is_empty() {
            prop_assert_eq!(&sent, &history(&expected));
        }
        sent.retain(|m| !is_work(m));
        let mut expected = history(&expected);
        expected.retain(|m| !is_work(m));
        prop_assert_eq!(sent, expected);
    }

    #[test]
    fn a_window_starts_with_the_user_where_that_is_possible(
        conversation in conversation(16), n in 1usize..12, stepped in any::<bool>(),
    ) {
        let window = if stepped { Window::stepped(n, 5).unwrap() } else { Window::last(n) };
        let prompt = compose(&Composer::new().window(window.starting_with_user()), &conversation, &[]);
        let sent = history(&prompt);
        let stored = sendable(&conversation);
        let older = usize::try_from(prompt.report().older).unwrap();
        let whole = older == 0 || self::stored(&conversation)[..older].iter().all(Message::is_private);
        if let Some(first) = sent.first().filter(|first| !whole && !first.is_user()) {
            // Nobody asked before it, and what follows would be nothing.
            let at = stored.iter().position(|m| m == first).unwrap();
            let later = sent.iter().any(Message::is_user);
            let nobody = !stored[..at].iter().any(Message::is_user) && (!later || is_work(first));
            // Nor is there room for what was asked before a call whose result came late.
            let late = prompt.report().moved.iter().any(|moved| {
                prompt.with_origins().any(|(origin, message)| {
                    origin == Origin::History(moved.call) && message == first
                })
            });
            prop_assert!(nobody || late);
        }
    }

    #[test]
    fn a_window_holds_the_question_of_the_turn(
        conversation in conversation(16), n in 1usize..12, stepped in any::<bool>(),
    ) {
        let window = if stepped { Window::stepped(n, 5).unwrap() } else { Window::last(n) };
        let exact = compose(&Composer::new().window(window.exactly()), &conversation, &[]);
        let prompt = compose(&Composer::new().window(window), &conversation, &[]);
        let stored = stored(&conversation);
        let sent = history(&prompt);
        if history(&exact).iter().any(is_work) {
            let question = stored.iter().rposition(Message::is_user).map(|i| i as u64);
            let positions = prompt.with_origins().filter_map(|(origin, _)| match origin {
                Origin::History(position) => Some(position),
                _ => None,
            });
            let positions: Vec<u64> = positions.collect();
            prop_assert!(question.is_none_or(|q| positions.contains(&q)), "{}", prompt.report());
        }
        let gives_way = !stepped && history(&exact).len() > n;
        if prompt.report().question.is_empty() && !gives_way {
            prop_assert_eq!(sent, history(&exact));
        } else if !stepped {
            // The oldest give way, down to the newest group and the question.
            let others = sent.iter().filter(|m| !m.is_tool() && !m.is_user()).count();
            prop_assert!(sent.len() <= n || others == 1);
        }
    }

    // Rule 2

    #[test]
    fn a_window_consists_of_whole_units(conversation in conversation(16), n in 0usize..20) {
        // Each result directly behind its call: where else it may stand, against_model.rs knows.
        let prompt = compose(&Composer::new().window(Window::all()), &conversation, &[]);
        let stored: Vec<_> = history(&prompt);
        let prompt = compose(&Composer::new().window(Window::last(n).exactly()), &stored, &[]);
        let expected = compose(&Composer::new().window(Window::all()), last_whole_units(&stored, n), &[]);
        prop_assert_eq!(
            prompt.iter().filter(|m| !m.is_system()).collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>()
        );
    }

    #[test]
    fn repair_leaves_only_whole_groups(
        composer in composers(), conversation in conversation(16), temporaries in temporaries(),
    ) {
        let prompt = compose(&composer, &conversation, &temporaries);
        let orphans = &prompt.report().orphan_temporaries;
        // A temporary result that answers nothing is the caller's own word and stays.
        let mut sent: Vec<_> = prompt.with_origins().collect();
        for orphan in orphans {
            // Others may say the same before it.
            let is_it = |it: &(Origin, &Message)| *it == (Origin::Temporary, &temporaries[*orphan]);
            sent.remove(sent.iter().rposition(is_it).unwrap());
        }
        let wrong = broken_groups(sent.into_iter().map(|(_, message)| message));
        if orphans.is_empty() {
            prop_assert!(wrong.is_empty(), "{wrong:?}\n{}\n{}", brief(&prompt), prompt.report());
        } else {
            prop_assert!(wrong.len() <= 2 * orphans.len(), "{wrong:?}\n{}\n{}", brief(&prompt), prompt.report());
        }
    }

    #[test]
    fn repair_drops_no_result_that_answers_a_call(conversation in conversation(16)) {
        let prompt = compose(&Composer::new().window(Window::all()), &conversation, &[]);
        // As many results as there are calls of their id before them, whatever stands between.
        let stored = stored(&conversation);
        let mut open: Vec<&str> = Vec::new();
        let mut run: Vec<&str> = Vec::new();
        let mut answered = 0;
        for message in &stored {
            if let Some(tool) = message.as_tool() {
                let waiting = if run.contains(&tool.call_id()) { &mut run } else { &mut open };
                if let Some(i) = waiting.iter().position(|id| *id == tool.call_id()) {
                    waiting.remove(i);
                    answered += 1;
                }
            } else if !message.is_private() {
                open.append(&mut run);
                run = message.tool_calls().map(|call| call.id.as_str()).collect();
                open.retain(|id| !run.contains(id)); // a later call of an id closes the earlier one
            }
        }
        prop_assert_eq!(history(&prompt).iter().filter(|m| m.is_tool()).count(), answered);
    }

    #[test]
    fn strict_fails_exactly_where_repair_had_something_to_do(
        conversation in conversation(16), temporaries in temporaries(), n in 0usize..20,
    ) {
        let repaired = compose(&Composer::new().max_messages(n), &conversation, &temporaries);
        let strict = Composer::new().max_messages(n).tool_groups(ToolGroups::FailOnRepair);
        let strict = setups::compose(&strict, &conversation, &temporaries);
        let report = repaired.report();
        let whole = report.repaired.is_empty() && report.orphan_temporaries.is_empty()
            && !report.left_out.iter().any(|left| matches!(left.why, Reason::NoCall | Reason::Answered));
        match strict {
            Ok(prompt) => {
                prop_assert!(whole);
                prop_assert_eq!(prompt, repaired);
            }
            Err(error) => {
                prop_assert!(!whole);
                prop_assert_eq!(error.kind(), ErrorKind::ToolGroup);
                let text = error.to_string();
                prop_assert!(text.starts_with("compose: message ") || text.contains("temporary"), "{text}");
            }
        }
    }

    // Rule 3

    #[test]
    fn truncation_cuts_text_and_nothing_else(
        conversation in conversation(12), limit in 1usize..30,
        keep in proptest::sample::select(vec![Keep::Head, Keep::Tail, Keep::Ends]), marked in any::<bool>(),
    ) {
        let truncate = Truncate::chars(limit).unwrap().keep(keep)
            .with_if(marked, |it| it.marker(" … "));
        let composer = Composer::new().window(Window::all());
        let whole = compose(&composer, &conversation, &[]);
        let cut = compose(&composer.truncate(truncate), &conversation, &[]);
        prop_assert_eq!(whole.len(), cut.len());
        for ((was, old), (is, new)) in whole.with_origins().zip(cut.with_origins()) {
            let texts = |m: &Message| m.texts().map(characters).sum::<usize>();
            if !matches!(was, Origin::History(_)) || texts(old) <= limit {
                prop_assert_eq!((was, old), (is, new));
                continue;
            }
            prop_assert!(matches!(is, Origin::Truncated(_)));
            prop_assert!(texts(new) <= limit, "{} > {limit}: {new:?}", texts(new));
            prop_assert!(!new.text().is_empty());
            prop_assert_eq!(old.role(), new.role());
            prop_assert!(old.tool_calls().eq(new.tool_calls()));
            let reasoning = |m: &Message| m.as_ai().map(|ai| ai.reasoning().cloned().collect::<Vec<_>>());
            prop_assert_eq!(reasoning(old), reasoning(new));
            let media = |m: &Message| match m {
                Message::User(m) => m.content().parts().iter().filter(|p| p.as_media().is_some()).count(),
                _ => 0,
            };
            prop_assert_eq!(media(old), media(new));
            if keep == Keep::Head && !marked && !matches!(&*new.text(), "…" | ".") {
                prop_assert!(old.text().starts_with(&*new.text()));
            }
        }
    }

    #[test]
    fn what_fits_is_shared_and_not_copied(conversation in conversation(12), limit in 1usize..30) {
        let mut prompt = holding(conversation).window(Window::all()).truncate(Truncate::chars(limit).unwrap());
        let built = prompt.build().unwrap();
        let held = prompt.memory().all().unwrap();
        for (origin, message) in built.with_origins() {
            if let Origin::History(position) = origin {
                let record = held.iter().find(|r| r.position() == position).unwrap();
                prop_assert!(std::ptr::eq(record.message(), message));
            }
        }
    }

    // Rule 4

    #[test]
    fn one_system_message_and_it_is_first(
        composer in composers(), conversation in conversation(12),
        temporaries in temporaries(), extra in proptest::option::of(text()),
    ) {
        let mut temporaries = temporaries;
        temporaries.extend(extra.map(Message::system));
        let prompt = compose(&composer, &conversation, &temporaries);
        let systems: Vec<_> = prompt.iter().enumerate().filter(|(_, m)| m.is_system()).map(|(i, _)| i).collect();
        prop_assert!(systems.is_empty() || systems == [0]);
        let stored = conversation.iter().rfind(|m| m.is_system());
        let debug = format!("{composer:?}");
        let own = debug.contains("system_bytes: Some");
        // An empty one is none.
        let says = |it: &Message| it.is_system() && !it.text().is_empty();
        let base = if own { !debug.contains("system_bytes: Some(0)") } else { stored.is_some_and(says) };
        let any = base || temporaries.iter().any(says);
        prop_assert_eq!(any, !systems.is_empty());
        prop_assert_eq!(prompt.report().system_overridden, own && stored.is_some());
    }

    /// A prompt is written by a shorter way than its iterator's: over slices of its records.
    #[test]
    fn what_is_written_is_what_the_prompt_shows(
        composer in composers(), conversation in conversation(40), long in 1usize..8, temporaries in temporaries(),
        provider in proptest::option::of(Just(Provider::OpenAi)),
    ) {
        // Long enough for several blocks of records.
        let conversation = [&conversation[..]].repeat(long).concat();
        let composer = composer.with_some(provider, Composer::for_provider);
        // A provider may refuse what there is to say: nothing.
        let outcome = setups::compose(&composer, &conversation, &temporaries);
        let Ok(prompt) = outcome else { return Ok(()) };
        let shown = openai::Messages::of(&prompt).with_some(provider, openai::Messages::for_provider);
        let written = serde_json::to_value(openai::messages(&prompt)).unwrap();
        prop_assert_eq!(written, serde_json::to_value(shown).unwrap());
    }

    // Rule 5

    #[test]
    fn temporaries_are_sent_in_order_and_as_they_are(
        composer in composers(), conversation in conversation(12), temporaries in temporaries(),
    ) {
        let prompt = compose(&composer, &conversation, &temporaries);
        let sent: Vec<_> = prompt.with_origins().filter(|(o, _)| *o == Origin::Temporary).map(|(_, m)| m.clone()).collect();
        // Results for the call at the end of the history go to it; the others keep their order.
        let mut sorted = (sent.clone(), temporaries.clone());
        let key = |m: &Message| format!("{m:?}");
        sorted.0.sort_by_key(key);
        sorted.1.sort_by_key(key);
        prop_assert_eq!(sorted.0, sorted.1);
        let others = |list: &[Message]| list.iter().filter(|m| !m.is_tool()).cloned().collect::<Vec<_>>();
        prop_assert_eq!(others(&sent), others(&temporaries));
    }

    #[test]
    fn temporaries_stand_where_they_were_placed(conversation in conversation(12), place in placements()) {
        let composer = Composer::new().window(Window::all()).temporaries_at(place).system("s");
        let prompt = compose(&composer, &conversation, &[Message::user("Today is Friday.")]);
        let origins: Vec<_> = prompt.with_origins().collect();
        let at = origins.iter().position(|(o, _)| *o == Origin::Temporary).unwrap();
        let last_user =
            origins.iter().rposition(|(o, m)| !matches!(o, Origin::Temporary | Origin::Note) && m.is_user());
        match place {
            Placement::AfterSystem => prop_assert_eq!(at, 1),
            Placement::BeforeLastUser if last_user.is_some() => prop_assert_eq!(at + 1, last_user.unwrap()),
            _ => prop_assert_eq!(at, prompt.len() - 1),
        }
    }

    #[test]
    fn temporaries_are_spent_by_a_build_that_succeeds_and_by_nothing_else(
        conversation in conversation(12), temporaries in temporaries(),
    ) {
        let failing = Truncate::default().processor(Fails("no summary today"));
        let mut prompt = holding(conversation.clone()).window(Window::all()).truncate(failing);
        for temporary in &temporaries { prompt.add_temporary(temporary.clone()); }
        // A processor sees neither orphans nor what nobody is sent.
        let fails = stored(&conversation).iter().any(|m| !m.is_tool() && !m.is_private());
        if fails {
            prop_assert_eq!(prompt.build().unwrap_err().kind(), ErrorKind::Truncate);
        }
        prompt.configure(Composer::no_truncate);
        let seen = prompt.preview().unwrap();
        prop_assert_eq!(prompt.temporaries().len(), temporaries.len());
        prop_assert_eq!(prompt.build().unwrap(), seen);
        prop_assert_eq!(prompt.temporaries().len(), 0);
        prop_assert_eq!(prompt.build().unwrap().report().temporaries, 0);
    }

    // Rules 8 and 9, and the promise

    #[test]
    fn the_report_adds_up(
        composer in composers(), conversation in conversation(16), temporaries in temporaries(),
    ) {
        let prompt = compose(&composer, &conversation, &temporaries);
        let report = prompt.report();
        let system = usize::from(prompt.system().is_some());
        prop_assert_eq!(report.messages, prompt.len());
        let note = usize::from(!report.note.is_empty());
        prop_assert_eq!(prompt.len(), system + report.sent + report.temporaries + report.repaired.len() + note);
        prop_assert_eq!(report.stored, stored(&conversation).len() as u64);
        prop_assert_eq!(report.stored, report.older + report.private + (report.sent + report.left_out.len()) as u64);
        prop_assert_eq!(history(&prompt).len(), report.sent);
        let mut users = prompt.with_origins().filter(|(origin, m)| *origin != Origin::Note && m.is_user());
        prop_assert_eq!(report.no_user_message, report.sent > 0 && users.next().is_none());
        prop_assert!(prompt.cacheable() <= prompt.len());
        prop_assert!(report.to_string().lines().count() >= 1 + report.left_out.len() + report.truncated.len());
    }

    #[test]
    fn building_is_a_pure_function_that_leaves_the_memory_alone(
        composer in composers(), conversation in conversation(16), temporaries in temporaries(),
    ) {
        let memory = remembering(conversation.clone());
        let before = memory.read(None, usize::MAX).unwrap();
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
        prompt.configure(|_| composer.clone());
        for temporary in &temporaries { prompt.add_temporary(temporary.clone()); }
        let first = prompt.preview().unwrap();
        let second = prompt.build().unwrap();
        prop_assert_eq!(&first, &second);
        // What the shell reads in steps, the composer composes from everything at once.
        prop_assert_eq!(&first, &compose(&composer, &conversation, &temporaries));
        let after = memory.read(None, usize::MAX).unwrap();
        prop_assert_eq!(after.system, before.system);
        prop_assert_eq!(after.records, before.records);
        prop_assert_eq!(stored(&conversation), memory.all().unwrap().messages().cloned().collect::<Vec<_>>());
    }

    #[test]
    fn a_prompt_begins_with_the_durable_part_of_the_one_before(
        conversation in conversation(16), temporaries in temporaries(),
        truncate in truncations(), place in placements(),
    ) {
        let composer = Composer::new().window(Window::all()).temporaries_at(place).system("s")
            .with_some(truncate, Composer::truncate);
        let mut before: Option<Prompt> = None;
        let stored = stored(&conversation);
        for end in 0..=stored.len() {
            // Temporaries of this prompt may stand before what the last one held, unless they stand
            // at the end; those of the last one never matter.
            let bare = compose(&composer, &stored[..end], &[]);
            let prompt = compose(&composer, &stored[..end], &temporaries);
            if let Some(before) = &before {
                let held = &before.to_messages()[..before.cacheable()];
                let late = matches!(bare.shared_prefix(before).broken_by, Some(Break::LateResult(_)));
                prop_assert!(late || bare.to_messages().starts_with(held), "at {end} of {}:\n{}\n{}\n{}", brief(&stored), brief(held), brief(&bare), bare.report());
                if place == Placement::End && !late {
                    prop_assert!(prompt.to_messages().starts_with(held), "at {end} of {}:\n{}\n{}\n{}", brief(&stored), brief(held), brief(&prompt), prompt.report());
                }
            }
            before = Some(prompt);
        }
    }

    #[test]
    fn between_two_steps_a_prompt_only_grows_at_its_end(
        conversation in conversation(60), low in 1usize..12, step in 1usize..12,
        truncate in truncations(), user in any::<bool>(), exactly in any::<bool>(),
    ) {
        let window = Window::stepped(low, step).unwrap()
            .with_if(user, Window::starting_with_user).with_if(exactly, Window::exactly);
        let composer = Composer::new().window(window).system("s")
            .with_some(truncate, Composer::truncate);
        let stored = sendable(&conversation);
        let start = |end: usize| end.saturating_sub(low) / step * step;
        let mut before: Option<Prompt> = None;
        for end in 0..=stored.len() {
            let prompt = compose(&composer, &stored[..end], &[]);
            let released = !exactly && end > 0 && stored[end - 1].is_user();
            let stepped = end > 0 && start(end) != start(end - 1);
            if let Some(before) = before.filter(|_| !released && !stepped) {
                // A late result changes the prefix once, and that is said.
                let held = &before.to_messages()[..before.cacheable()];
                let late = matches!(prompt.shared_prefix(&before).broken_by, Some(Break::LateResult(_)));
                prop_assert!(late || prompt.to_messages().starts_with(held), "at {end} of {}:\n{}\n{}\n{}", brief(&stored), brief(held), brief(&prompt), prompt.report());
            }
            if exactly {
                // Never less than the low mark, and never more than a step above it, except for the
                // tool group on which the window opens.
                let group = stored[..start(end)].iter().rev().take_while(|m| m.is_tool()).count() + 1;
                let report = prompt.report();
                let covered = report.sent + report.left_out.len();
                prop_assert!(covered >= low.min(end), "{covered} < {low}");
                let most = low + step + group;
                prop_assert!(covered < most || !report.moved.is_empty(), "{covered} >= {most}");
            }
            before = Some(prompt);
        }
    }

    #[test]
    fn a_build_reads_what_it_sends_and_no_more(conversation in conversation(40), n in 0usize..12) {
        let records = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&records);
        let memory = Reading::new(&remembering(conversation.clone()), move |memory, read| {
            let snapshot = memory.read_with(read)?;
            counted.fetch_add(snapshot.records.len(), Ordering::Relaxed);
            Ok(snapshot)
        });
        let sent = MemoryPrompt::new(memory).max_messages(n).build().unwrap();
        let read = records.load(Ordering::Relaxed);
        // More than the window is read only to find the call of a group that is larger than it, the
        // question, or the call of a late result; or if nobody is sent some of the records.
        let needed = n.max(sent.report().sent + sent.report().left_out.len() + 1);
        let search = if stored(&conversation).iter().any(|m| is_work(m) || m.is_private()) { 64 + 6 * n } else { 0 };
        prop_assert!(read <= (4 * needed).max(32) + search, "read {read} to send {}", sent.len());
    }
}

#[test]
fn a_kept_prompt_holds_no_more_blocks_than_it_shows() {
    let mut kept = None;
    let cost = allocation_counter::measure(|| {
        let memory = remembering((0..1000).map(|_| Message::user("x".repeat(10_000))));
        let all = memory.read(None, usize::MAX).unwrap();
        kept = Some(Composer::new().max_messages(3).compose_all(&all, &[]).unwrap());
    });
    assert_eq!(kept.unwrap().len(), 3);
    assert!(cost.bytes_current < 1_000_000, "{} bytes", cost.bytes_current);
}
