//! Pins, a summary, clearing, a notice, cut texts and a budget in one prompt: none undoes another.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;

use crate::conversations::{broken_groups, late_results, life};
use crate::counted::counted;
use crate::said::{call, notes, policy, result};
use crate::sent::{accounted, cleared, position, sent};
use crate::setups::{Drawn, remembering};
use memory_prompt::compose::Notice;
use memory_prompt::report::Break;
use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::{
    ChatMemory, Clear, Composer, DefaultChatMemory, ErrorKind, MemoryPrompt, Message, Prompt,
    Provider, Recall, Truncate, Window, wire,
};
use proptest::prelude::*;

/// What a prompt is asked for.
fn asked() -> impl Strategy<Value = Composer> {
    use proptest::option::of;
    let numbers = (of(1usize..20), 1usize..4, 1u64..12, of(8usize..60), of(100usize..1500));
    (numbers, any::<bool>()).prop_map(|((last, keep, step, cut, budget), notice)| {
        let clear = Clear::tool_results().and_media().keep(keep).step(step);
        Composer::new()
            .system("Be brief.")
            .window(last.map_or(Window::all(), Window::last))
            .clear(clear.longer_than(4))
            .with_pins()
            .with_summary()
            .with_if(notice, |it| it.notice(Notice::new().step(4)))
            .with_some(cut, |it, cut| it.truncate(Truncate::chars(cut).unwrap()))
            .with_some(budget, |it, budget| it.max_tokens(budget, Estimate))
    })
}

fn over(memory: &Arc<DefaultChatMemory>, composer: &Composer) -> MemoryPrompt {
    let mut prompt = MemoryPrompt::new(Arc::clone(memory));
    prompt.configure(|_| composer.clone());
    prompt
}

/// What must hold of a prompt with these pins.
fn check(prompt: &Prompt, pins: &[u64]) -> Result<(), TestCaseError> {
    let (sent, cleared, report) = (sent(prompt), cleared(prompt), prompt.report());
    for pin in pins {
        let times = sent.iter().filter(|position| *position == pin).count();
        prop_assert_eq!(times, 1, "{}: {}", pin, report);
        prop_assert!(!cleared.contains(pin), "{}", report);
    }
    let groups = broken_groups(prompt.iter());
    prop_assert!(groups.is_empty(), "{:?}", groups);
    prop_assert_eq!(accounted(prompt), None);
    if let Some(tokens) = report.tokens {
        let messages = prompt.iter().map(|message| Estimate.count(message).unwrap());
        let all = messages.sum::<usize>() + Estimate.overhead().reply;
        prop_assert_eq!((tokens.total, tokens.total <= tokens.budget), (all, true), "{}", report);
    }
    Ok(())
}

counted! {
    #![cases(256)]

    #[test]
    fn none_undoes_another(
        history in prop_oneof![life(24), late_results(24)],
        later in life(12),
        picks in proptest::collection::vec(0u64..50, 0..4),
        asked in asked(),
        summed in any::<bool>(),
    ) {
        let memory = Arc::new(DefaultChatMemory::new());
        let mut prompt = over(&memory, &asked);
        prompt.add_all(history).unwrap();
        for pick in &picks {
            let _ = prompt.pin(*pick); // some are not there, or can't be pinned
        }
        if summed {
            prompt.compact(&policy(4, 2), &notes).unwrap();
        }
        for more in std::iter::once(None).chain(later.into_iter().map(Some)) {
            if let Some(message) = more {
                prompt.add(message).unwrap();
            }
            let pins = prompt.pins().unwrap();
            match prompt.build() {
                Ok(built) => {
                    check(&built, &pins)?;
                    // What was remembered from earlier prompts changes nothing.
                    let anew = over(&memory, &asked).build().unwrap();
                    prop_assert!(built.iter().eq(anew.iter()), "{}", built.report());
                }
                Err(error) => {
                    prop_assert!(matches!(error.kind(), ErrorKind::Budget { .. }), "{}", error);
                }
            }
        }
    }
}

/// The first position of the history that is sent, but for a question put before the window.
fn window_start(prompt: &Prompt) -> Option<u64> {
    let mut sent = prompt.with_origins().filter_map(|(origin, _)| position(origin));
    sent.find(|position| !prompt.report().question.contains(position))
}

counted! {
    #![cases(256)]

    /// Found by a user: a prompt for Mistral without any truncation named `Truncation` as the cause
    /// where the window had moved and a notice was joined to the question, and others named
    /// `Temporary` or `Other` where the window had moved.
    #[test]
    fn a_break_has_a_cause_that_is_there(
        history in life(24),
        (low, step, last) in (1usize..8, 1usize..8, any::<bool>()),
        notice in any::<bool>(),
        cut in proptest::option::of(8usize..60),
        provider in prop_oneof![
            Just(None), Just(Some(Provider::Mistral)), Just(Some(Provider::Anthropic)),
            Just(Some(Provider::Gemini)), Just(Some(Provider::OpenAi)),
        ],
        temporary in any::<bool>(),
    ) {
        let window = if last { Window::last(low) } else { Window::stepped(low, step).unwrap() };
        let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).window(window)
            .with_if(notice, |it| it.notice(Notice::new().step(4)))
            .with_some(cut, |it, cut| it.truncate(Truncate::chars(cut).unwrap()))
            .with_some(provider, MemoryPrompt::for_provider);
        let mut previous: Option<Prompt> = None;
        for message in history {
            prompt.add(message).unwrap();
            if temporary {
                prompt.add_temporary(Message::user("Today is Friday."));
            }
            let built = match prompt.build() {
                Ok(built) => built,
                // Nothing of it may be sent yet.
                Err(error) => {
                    prop_assert_eq!(error.kind(), ErrorKind::Provider, "{}", error);
                    prompt.clear_temporaries();
                    continue;
                }
            };
            if let Some(previous) = &previous {
                let cause = built.shared_prefix(previous).broken_by;
                // If a prompt sends a question alone, there is no position to name.
                let starts = window_start(previous).zip(window_start(&built));
                let has_moved = starts.is_some_and(|(from, to)| from != to);
                match cause {
                    Some(Break::Truncation(_)) => prop_assert!(cut.is_some() && !has_moved),
                    Some(Break::Temporary) => prop_assert!(temporary),
                    Some(Break::Notice) => prop_assert!(notice),
                    Some(Break::Other) => prop_assert!(!has_moved, "{}", built.report()),
                    Some(Break::Pin(_) | Break::Summary | Break::Clearing(_) | Break::System) => {
                        prop_assert!(false, "{:?}", cause);
                    }
                    _ => {}
                }
            }
            previous = Some(built);
        }
    }
}

/// A file that was read first is pinned; sixty reads later it still stands there whole, while those
/// around it are cleared or before the window, and the notice does not count it.
#[test]
fn a_pinned_result_is_not_cleared() {
    let round = |i: usize| {
        let id = format!("c{i}");
        [call(&id), result(&id, format!("{i}: {}", "x".repeat(200)))]
    };
    let history = [Message::user("Which of these files is the oldest?")];
    let memory = remembering(history.into_iter().chain((0..60).flat_map(round)));
    let mut prompt = MemoryPrompt::new(memory)
        .max_messages(20)
        .clear(Clear::tool_results().step(8))
        .notice(Notice::new().step(1))
        .with_pins();
    assert_eq!(prompt.pin(2).unwrap(), [1, 2]);
    assert_eq!(prompt.pin(112).unwrap(), [111, 112]);
    let built = prompt.build().unwrap();
    let report = built.report();
    let whole =
        |start: &str| built.iter().any(|m| m.text().starts_with(start) && m.text().len() > 200);
    assert!(whole("0: ") && whole("55: ") && whole("59: "), "{report}");
    assert_eq!(cleared(&built), [104, 106, 108, 110], "{report}");
    // The question and the pinned group are sent; what else there is before 103 is not.
    assert_eq!(report.notice, Some(100), "{report}");
}

/// What somebody does to a conversation that two tabs have open.
#[derive(Clone, Debug)]
enum Deed {
    Say(Vec<Message>),
    /// An answer that its provider has compacted: Claude, or OpenAI.
    Compacted(bool),
    Pin(u64),
    Unpin(u64),
    /// The summariser writes, fails, says nothing, or is so slow that the other tab was faster.
    Summarise(u8),
    Undo,
    Evict(u64),
    Clear,
    Provider(usize),
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        12 => life(4).prop_map(Deed::Say),
        2 => any::<bool>().prop_map(Deed::Compacted),
        2 => (0u64..40).prop_map(Deed::Pin),
        1 => (0u64..40).prop_map(Deed::Unpin),
        3 => (0u8..4).prop_map(Deed::Summarise),
        1 => Just(Deed::Undo),
        1 => (0u64..20).prop_map(Deed::Evict),
        1 => Just(Deed::Clear),
        2 => (0usize..4).prop_map(Deed::Provider),
    ]
}

fn compacted(by_claude: bool) -> Message {
    let (claude, openai) = (
        r#"{"role": "assistant", "stop_reason": "end_turn", "content": [
            {"type": "compaction", "content": "They talked."}, {"type": "text", "text": "Yes."}]}"#,
        r#"{"status": "completed", "output": [
            {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAA"},
            {"type": "message", "role": "assistant", "content": [
                {"type": "output_text", "text": "Yes."}]}]}"#,
    );
    let (by, body) =
        if by_claude { (Provider::Anthropic, claude) } else { (Provider::OpenAiResponses, openai) };
    wire::answer(by, body).unwrap().message.into()
}

/// What must hold of a prompt for any provider: every record is sent, pinned, covered or reported.
fn check_told(prompt: &Prompt, pins: &[u64]) -> Result<(), TestCaseError> {
    let report = prompt.report();
    prop_assert_eq!(accounted(prompt), None);
    prop_assert!(broken_groups(prompt.iter()).is_empty(), "{}", report);
    for pin in pins {
        let is_sent = sent(prompt).contains(pin);
        let is_told = report.left_out.iter().any(|it| it.position == *pin)
            || report.adapted.iter().any(|it| it.position == Some(*pin))
            || report.lost_pins.contains(pin);
        prop_assert!(is_sent || is_told, "{}: {}", pin, report);
    }
    Ok(())
}

counted! {
    #![cases(256)]

    #[test]
    fn whatever_two_tabs_do_every_record_is_accounted_for(
        deeds in proptest::collection::vec(deed(), 1..50),
        last in proptest::option::of(1usize..12),
    ) {
        let memory = Arc::new(DefaultChatMemory::new());
        let window = last.map_or(Window::all(), Window::last);
        let tab = || {
            MemoryPrompt::new(Arc::clone(&memory))
                .window(window)
                .with_pins()
                .with_summary()
                .clear(Clear::tool_results().keep(1).step(4))
                .recall(Recall::words().characters(400))
        };
        let policy = policy(4, 2);
        let [mut one, mut two] = [tab(), tab()];
        let mut provider = None;
        for (i, deed) in deeds.into_iter().enumerate() {
            let (here, there) = if i % 2 == 0 { (&one, &two) } else { (&two, &one) };
            match deed {
                Deed::Say(messages) => drop(here.add_all(messages).unwrap()),
                Deed::Compacted(by_claude) => drop(here.add(compacted(by_claude)).unwrap()),
                // Some positions hold nothing that could be pinned.
                Deed::Pin(at) => drop(here.pin(at)),
                Deed::Unpin(at) => drop(here.unpin(at)),
                Deed::Summarise(how) => {
                    let before = there.summary().unwrap();
                    let due = here.compaction(&policy).unwrap();
                    let done = here.compact(&policy, &|_: &_| match how {
                        0 => Ok("They talked.".to_owned()),
                        1 => Err("the model is away"),
                        2 => Ok("  ".to_owned()),
                        _ => {
                            let faster = |_: &_| Ok::<_, &str>("The other was faster.".to_owned());
                            assert!(there.compact(&policy, &faster).unwrap());
                            Ok("Too late.".to_owned())
                        }
                    });
                    let after = there.summary().unwrap();
                    match (due, how) {
                        (Some(due), 0) => prop_assert_eq!(after.unwrap().covers, due.covers),
                        (Some(_), 3) => {
                            prop_assert!(!done.unwrap());
                            prop_assert_eq!(after.unwrap().text, "The other was faster.");
                        }
                        _ => prop_assert_eq!(after, before),
                    }
                }
                Deed::Undo => drop(here.undo_summary().unwrap()),
                Deed::Evict(before) => drop(memory.evict(before).unwrap()),
                Deed::Clear => memory.clear().unwrap(),
                Deed::Provider(which) => {
                    let all = [Provider::Anthropic, Provider::OpenAiResponses, Provider::Mistral];
                    provider = all.get(which).copied();
                    for tab in [&mut one, &mut two] {
                        tab.configure(|composer| {
                            composer.no_provider().with_some(provider, Composer::for_provider)
                        });
                    }
                }
            }
            let pins = one.pins().unwrap();
            let mut new = tab().with_some(provider, MemoryPrompt::for_provider);
            let built = [&mut one, &mut two, &mut new].map(|tab| {
                tab.add_temporary(Message::user("And now?"));
                tab.build().unwrap()
            });
            for prompt in &built {
                check_told(prompt, &pins)?;
                prop_assert!(prompt.iter().eq(built[2].iter()), "{}", prompt.report());
            }
        }
    }
}

/// The window had passed a blank message of the user, which was never sent: it began with the same
/// record as before, and yet the question was put before it. The cause was `Other`.
#[test]
fn a_question_that_is_put_before_the_window_is_a_cause() {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .window(Window::stepped(4, 1).unwrap())
        .for_provider(Provider::Mistral);
    let steered = memory_prompt::message::UserMessage::new(" ").steered();
    let history = [Message::user("a"), Message::user(""), steered.into(), Message::ai("b")];
    prompt.add_all(history).unwrap();
    let mut previous = prompt.build().unwrap();
    for _ in 0..2 {
        prompt.add(Message::tool("c0", "look", "")).unwrap();
        let built = prompt.build().unwrap();
        let cause = built.shared_prefix(&previous).broken_by;
        match cause {
            None | Some(Break::Window { .. } | Break::LeftOut(_) | Break::Question(0)) => {}
            other => panic!("{other:?}"),
        }
        previous = built;
    }
    assert_eq!(*previous.report().question, [0]);
}
