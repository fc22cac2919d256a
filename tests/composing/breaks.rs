//! The cause that is told of a break in the shared prefix, where a reader found one told that had
//! not happened.
#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::conversations::{late_results, life};
use crate::counted::{counted, regressions};
use crate::notation::conversation;
use crate::said::{notes, policy, talk};
use crate::sent::{cleared, position, positions};
use crate::setups::{Drawn, holding};
use memory_prompt::compose::{Notice, Placement};
use memory_prompt::provider::Row;
use memory_prompt::report::{Break, Fate, Origin, Reason, Setting};
use memory_prompt::summary::Compaction;
use memory_prompt::token::Estimate;
use memory_prompt::{
    Budget, ChatMemory, Clear, Composer, DefaultChatMemory, MemoryPrompt, Message, Prompt,
    Provider, Recall, Truncate, Window,
};
use proptest::prelude::*;

/// The prompts before and after this is said.
fn around(prompt: &mut MemoryPrompt, said: impl IntoIterator<Item = Message>) -> [Prompt; 2] {
    let before = prompt.build().unwrap();
    prompt.add_all(said).unwrap();
    [before, prompt.build().unwrap()]
}

/// The causes of a break after a step and after the step back.
fn there_and_back(
    prompt: &mut MemoryPrompt,
    step: impl Fn(&mut MemoryPrompt),
    back: impl Fn(&mut MemoryPrompt),
) -> [Option<Break>; 2] {
    let before = prompt.build().unwrap();
    step(prompt);
    let between = prompt.build().unwrap();
    back(prompt);
    let after = prompt.build().unwrap();
    [between.shared_prefix(&before).broken_by, after.shared_prefix(&between).broken_by]
}

fn pinned_and_back(prompt: &mut MemoryPrompt, position: u64) -> [Option<Break>; 2] {
    let pin = |prompt: &mut MemoryPrompt| drop(prompt.pin(position).unwrap());
    there_and_back(prompt, pin, |prompt| assert!(prompt.unpin(position).unwrap()))
}

fn broken_by(now: &Prompt, then: &Prompt) -> Option<Break> {
    now.shared_prefix(then).broken_by
}

/// A message that was too large beside a newer one was left out alone, and the window was said to
/// have moved, though the history began where it had begun.
#[test]
fn a_message_that_is_left_out_alone_moves_no_window() {
    let mut prompt = holding([]).window(Window::all()).max_tokens(300, Estimate);
    let long = "long ".repeat(170);
    prompt.add_all(["one", &long, "two"].map(Message::user)).unwrap();
    let [before, after] = around(&mut prompt, [Message::user("three ".repeat(110))]);
    assert_eq!((after.report().left_out[0].position, after[0].text()), (1, "one".into()));
    assert_eq!(broken_by(&after, &before), Some(Break::LeftOut(1)));
    assert_eq!(broken_by(&before, &after), Some(Break::LeftOut(1)));
}

/// A message that a summary covers was pinned, and the summary was said to be another one.
#[test]
fn a_pin_before_a_summary_leaves_the_summary_as_it_is() {
    let mut prompt = holding(talk(20)).max_messages(4).with_pins().with_summary();
    assert!(prompt.compact(&policy(4, 4), &notes).unwrap());
    assert_eq!(pinned_and_back(&mut prompt, 2), [Some(Break::Pin(2)); 2]);
    // A summary that is another one still is, with the same pin before it.
    prompt.pin(2).unwrap();
    let before = prompt.build().unwrap();
    prompt.undo_summary().unwrap();
    assert_eq!(broken_by(&prompt.build().unwrap(), &before), Some(Break::Summary));
}

/// A pin behind the summary went when another one came before it: the one that went was named,
/// though the prompts differ from the one that came on.
#[test]
fn of_two_pins_around_a_summary_the_one_before_it_is_named() {
    let mut prompt = holding(talk(20)).max_tokens(150, Estimate).with_pins().with_summary();
    assert!(prompt.compact(&policy(4, 4), &notes).unwrap());
    prompt.add_all(talk(20)).unwrap();
    let swap = |prompt: &mut MemoryPrompt, goes, comes| {
        prompt.unpin(goes).unwrap();
        prompt.pin(comes).unwrap();
    };
    prompt.pin(38).unwrap();
    let told = there_and_back(&mut prompt, |it| swap(it, 38, 2), |it| swap(it, 2, 38));
    assert_eq!(told, [Some(Break::Pin(2)); 2], "{}", prompt.preview().unwrap().report());
}

/// An older message was pinned beside a notice, which was said to tell another number.
#[test]
fn a_pin_beside_a_notice_leaves_its_number_as_it_is() {
    let mut prompt = holding(talk(20)).max_messages(4).with_pins().notice(Notice::new().step(10));
    let notice = prompt.preview().unwrap().report().notice;
    assert_eq!(pinned_and_back(&mut prompt, 20), [Some(Break::Pin(20)); 2]);
    assert_eq!(prompt.preview().unwrap().report().notice, notice);
}

/// The first of two pins was unpinned, and the second was named, which was pinned before and after.
#[test]
fn the_pin_that_went_is_named() {
    for provider in [None, Some(Provider::Mistral), Some(Provider::Anthropic)] {
        let prompt = holding([]).max_messages(4).with_pins();
        let mut prompt = prompt.with_some(provider, MemoryPrompt::for_provider);
        prompt.add_all(talk(20)).unwrap();
        prompt.add(Message::user("So?")).unwrap();
        for (stays, goes) in [(8, 2), (2, 8)] {
            prompt.pin(stays).unwrap();
            let told = pinned_and_back(&mut prompt, goes);
            assert_eq!(told, [Some(Break::Pin(goes)); 2], "{provider:?}");
            prompt.unpin(stays).unwrap();
        }
    }
}

/// A budget cut what was pinned, and the pin was said to have changed its place.
#[test]
fn a_pin_that_a_budget_cuts_is_cut() {
    let cut = Truncate::chars(200).unwrap();
    let mut prompt = holding([Message::user("contract ".repeat(20))])
        .max_tokens(120, Estimate)
        .truncate(cut)
        .with_pins();
    prompt.pin(0).unwrap();
    let words = "w ".repeat(5);
    prompt.add_all((0..8).map(|i| Message::user(format!("question {i} {words}")))).unwrap();
    let grown = [Message::ai("Yes."), Message::user("z ".repeat(100))];
    let [before, after] = around(&mut prompt, grown);
    let (was, is) = (&before.report().truncated, &after.report().truncated);
    assert_eq!((was.len(), is[0].position), (0, 0), "{}", after.report());
    assert_eq!(broken_by(&after, &before), Some(Break::Truncation(0)));
}

/// Mistral has a pin and the question that opens the window as one message: where the window moved
/// behind the pin, the pin was said to have changed its place.
#[test]
fn a_window_that_moves_behind_a_pin_joined_to_it_has_moved() {
    let mut prompt = holding(conversation("u:I_am_allergic_to_nuts. a:Noted."))
        .max_messages(4)
        .with_pins()
        .for_provider(Provider::Mistral);
    prompt.pin(0).unwrap();
    prompt.add_all(talk(4).chain([Message::user("So?")])).unwrap();
    let [before, after] = around(&mut prompt, conversation("a:Well. u:And?"));
    let cause = broken_by(&after, &before);
    assert_eq!(cause, Some(Break::Window { from: 8, to: 10 }), "{}", after.report());
}

/// A pin came between two answers that had been sent as one: the conversation was said to be
/// another one.
#[test]
fn a_pin_between_answers_that_were_joined_is_the_cause() {
    let window = Window::last(3).exactly();
    let mut prompt = holding([]).window(window).with_pins().for_provider(Provider::Mistral);
    prompt
        .add_all(conversation("a:Hello. u:No_nuts. a:Noted.").into_iter().chain(talk(1)))
        .unwrap();
    prompt.pin(0).unwrap();
    let before = prompt.build().unwrap();
    prompt.pin(1).unwrap();
    let after = prompt.build().unwrap();
    assert_eq!((before.report().sent, after.report().sent), (4, 5), "{}", before.report());
    assert_eq!(broken_by(&after, &before), Some(Break::Pin(1)), "{}", after.report());
    assert_eq!(broken_by(&before, &after), Some(Break::Pin(1)), "{}", before.report());
}

/// Mistral was sent a result under another id: when it was cleared, the conversation was said to be
/// another one.
#[test]
fn a_result_with_another_id_is_cleared() {
    let round = |i: usize| {
        let found = "nothing_to_be_found_of_it,_".repeat(9);
        conversation(&format!("u:Look. call:call-{i} t:call-{i}={found} a:Nothing."))
    };
    let clear = Clear::tool_results().keep(1).step(1);
    let mut prompt = holding([round(0), conversation("u:So? a:Hm. u:And?")].concat())
        .window(Window::all())
        .clear(clear)
        .for_provider(Provider::Mistral);
    let more = [conversation("a:Wait."), round(1), round(2), conversation("u:Well?")].concat();
    let [before, after] = around(&mut prompt, more);
    assert_eq!(cleared(&after)[0], 2, "{}", after.report());
    assert_eq!(broken_by(&after, &before), Some(Break::Clearing(2)));
}

/// A result came for a call before the window, and took its call along; where the user has to be
/// first, the question of that call too. That the window had moved back to this question was told,
/// though nothing had moved but the result.
#[test]
fn a_late_result_that_takes_its_question_along_came_late() {
    for provider in [Provider::Vllm, Provider::Anthropic, Provider::Mistral] {
        let mut prompt = holding(conversation("u:zero call:c u:two a:three u:four a:five"))
            .window(Window::stepped(2, 4).unwrap())
            .for_provider(provider);
        let [before, after] = around(&mut prompt, conversation("t:c=late"));
        assert_eq!(after.report().question, [0], "{}", after.report());
        assert_eq!(broken_by(&after, &before), Some(Break::LateResult(6)), "{provider}");
    }
}

/// Of calls that are sent one by one, the late result of the second put its call before the first,
/// and the cause was "something else".
#[test]
fn a_late_result_that_puts_its_call_first_came_late() {
    let mut row = Row::like(Provider::LlamaCpp, "llama-3.1").unwrap();
    row.parallel_calls = false;
    let mut prompt = holding(conversation("u:Look. call:a,b call:c t:c=seen"))
        .window(Window::all())
        .for_provider(Provider::custom(row));
    let [before, after] = around(&mut prompt, conversation("t:b=late"));
    assert_eq!(broken_by(&after, &before), Some(Break::LateResult(4)), "{}", after.report());
}

/// A pinned answer had Claude's prompt begin with a message that nobody said: where that came or
/// went, the conversation was said to be another one.
#[test]
fn an_opening_that_a_provider_demands_comes_with_its_message() {
    let mut prompt = holding([Message::ai("Hello, I am here.")])
        .max_messages(4)
        .with_pins()
        .for_provider(Provider::Anthropic);
    prompt.add_all(talk(20)).unwrap();
    prompt.add(Message::user("So?")).unwrap();
    assert_eq!(pinned_and_back(&mut prompt, 0), [Some(Break::Pin(0)); 2]);
}

fn start(prompt: &Prompt) -> Option<u64> {
    positions(prompt).into_iter().filter(|position| *position >= prompt.report().window).min()
}

fn text_of(prompt: &Prompt, wanted: Origin) -> Option<String> {
    let mut sent = prompt.with_origins().filter(|(origin, _)| *origin == wanted);
    sent.next().map(|(_, message)| message.text().into_owned())
}

/// Judges a cause by the two lists of what was sent, and by nothing else.
#[allow(clippy::too_many_lines)] // one rule after the other
fn judged(now: &Prompt, then: &Prompt, cause: Break) -> Result<(), String> {
    let (new, old) = (now.report(), then.report());
    let at = now.iter().zip(then).take_while(|(a, b)| a == b).count();
    let here = |prompt: &Prompt| {
        let origins = prompt.with_origins().map(|(origin, _)| origin).skip(at);
        origins.into_iter().find(|it| *it != Origin::Added)
    };
    let (here, there) = (here(now), here(then));
    let is_joined = [here, there].iter().any(|it| matches!(it, Some(Origin::Joined(_))));
    let pairs = now.with_origins().zip(then.with_origins()).take(at);
    let first = pairs.take_while(|((a, _), (b, _))| position(*a) == position(*b)).count();
    // Messages that are alike may have taken the places of others before the break.
    let stands_at = |prompt: &Prompt, wanted: u64| {
        prompt.with_origins().nth(first).is_some_and(|(origin, _)| position(origin) == Some(wanted))
    };
    let stands_here = |wanted: u64| {
        is_joined
            || [here, there].into_iter().flatten().any(|it| position(it) == Some(wanted))
            || stands_at(now, wanted)
            || stands_at(then, wanted)
    };
    let is_here = |origin| here == Some(origin) || there == Some(origin);
    let (sent, was) = (positions(now), positions(then));
    let leaves_out = |prompt: &Prompt, position: u64| {
        let left_out = &prompt.report().left_out;
        left_out.iter().any(|it| {
            it.position == position && !matches!(it.why, Reason::Opening | Reason::RestOfTurn)
        }) || prompt.report().unreadable.contains(&position)
    };
    let left_with_all_before = |prompt: &Prompt| {
        let mut left_out = prompt.report().left_out.iter();
        left_out.any(|it| matches!(it.why, Reason::Opening | Reason::RestOfTurn))
    };
    let cut = |prompt: &Prompt, position| {
        let cuts = &prompt.report().truncated;
        cuts.iter().find(|it| it.position == position).map(|it| (it.from, it.to))
    };
    let cleared = |prompt: &Prompt, position| {
        let cleared = &prompt.report().cleared;
        cleared.iter().find(|it| it.position == position).map(|it| (it.from, it.to))
    };
    // A record that stood here has left the window.
    let has_left = there.and_then(position).is_some_and(|position| {
        !sent.contains(&position)
            && !leaves_out(now, position)
            && !old.pinned_before.contains(&position)
    });
    let is_true = match cause {
        Break::Provider => old.provider != new.provider,
        Break::System => is_here(Origin::System) || new.system_joined || old.system_joined,
        Break::Window { from, to } => {
            from != to
                && (was.contains(&from) || (start(then).is_none() && from == old.held.end))
                && (sent.contains(&to) || (start(now).is_none() && to == new.held.end))
                && (start(now) != start(then)
                    || !sent.contains(&from)
                    || (!was.contains(&to) && to < old.held.end))
                && (start(now) != start(then)
                    || new.window != old.window
                    || new.held.start > from
                    || left_with_all_before(now)
                    || left_with_all_before(then))
        }
        Break::Question(position) => {
            (old.question.contains(&position) && !sent.contains(&position))
                || (new.question.contains(&position)
                    && !was.contains(&position)
                    && start(now) == start(then))
        }
        Break::Summary => {
            (is_joined || is_here(Origin::Summary))
                && (old.summary != new.summary
                    || text_of(now, Origin::Summary) != text_of(then, Origin::Summary))
        }
        Break::Pin(position) => {
            stands_here(position)
                && old.pinned_before.contains(&position) != new.pinned_before.contains(&position)
        }
        Break::LateResult(position) => {
            let moved = new.moved.iter().find(|it| it.position == position);
            moved.is_some_and(|moved| !old.moved.contains(moved))
        }
        Break::Truncation(position) => {
            stands_here(position) && cut(now, position) != cut(then, position) && !has_left
        }
        Break::Clearing(position) => {
            stands_here(position) && cleared(now, position) != cleared(then, position) && !has_left
        }
        Break::LeftOut(position) => {
            // A call goes with the late result that took it along, also from behind a notice.
            let is_put = is_here(Origin::Notice) || is_here(Origin::Summary);
            let mut moved = new.moved.iter().chain(&old.moved);
            let took = moved.any(|it| it.position == position && (is_put || stands_here(it.call)));
            (stands_here(position) || took)
                && ((sent.contains(&position) && leaves_out(then, position))
                    || (was.contains(&position) && leaves_out(now, position)))
        }
        Break::Notice => (is_joined || is_here(Origin::Notice)) && old.notice != new.notice,
        Break::Temporary => {
            (is_joined || is_here(Origin::Temporary))
                && old.temporaries + new.temporaries > 0
                && !has_left
        }
        Break::Other => {
            let before = |prompt: &Prompt| -> Vec<_> {
                let sent = prompt.with_origins().take(at + 1).map(|(origin, _)| origin);
                sent.filter(|it| *it != Origin::Added).map(position).collect()
            };
            // What is joined to the message at the break.
            let joined = |prompt: &Prompt| -> Vec<u64> {
                let mut behind = prompt.with_origins().skip(at).filter_map(|(it, _)| position(it));
                let (first, next) = (behind.next().unwrap_or(0), behind.next().unwrap_or(u64::MAX));
                positions(prompt).into_iter().filter(|it| (first..next).contains(it)).collect()
            };
            before(now) == before(then)
                && !has_left
                && (!is_joined || joined(now) == joined(then))
                && old.provider.is_some() == new.provider.is_some()
        }
        _ => false,
    };
    if is_true { Ok(()) } else { Err(format!("{cause:?} at {at}\nbefore: {old}\nnow: {new}")) }
}

/// How many of the records that are covered a temporary message quotes.
fn count_quoted(prompt: &Prompt) -> u64 {
    let report = prompt.report();
    let covers = report.summary.max(report.compaction).unwrap_or(0);
    report.recalled.iter().filter(|it| it.position < covers).count() as u64
}

/// Every record has one fate, and there are as many of each as the report counts.
pub(crate) fn accounted(prompt: &Prompt) -> Result<(), TestCaseError> {
    let report = prompt.report();
    let mut fates: BTreeMap<&str, u64> = BTreeMap::new();
    let (mut by_budget, mut by_window) = (0, 0);
    for position in report.held.clone() {
        let fate = prompt.fate(position);
        let word = match fate {
            Fate::BeforeWindow(Setting::Budget) => {
                by_budget += 1;
                continue;
            }
            Fate::BeforeWindow(Setting::Window | Setting::Reach) => {
                by_window += 1;
                continue;
            }
            Fate::Moved(_) | Fate::Cut(..) | Fate::Cleared(..) | Fate::Pinned | Fate::Question => {
                "sent"
            }
            _ => fate.word(),
        };
        prop_assert!(fate.to_string().starts_with(fate.word()));
        *fates.entry(word).or_default() += 1;
    }
    let count = |word| fates.get(word).copied().unwrap_or_default();
    prop_assert_eq!(count("sent"), report.sent as u64, "{}", report);
    prop_assert_eq!(count("private"), report.private, "{}", report);
    prop_assert_eq!(count("unreadable"), report.unreadable.len() as u64, "{}", report);
    prop_assert_eq!(count("not held"), 0);
    let unsent = count("left out") + count("quoted") + count("covered") + by_budget + by_window;
    let told = report.left_out.len() as u64 + report.covered + report.older + report.over_budget;
    prop_assert_eq!(unsent, told, "{}", report);
    prop_assert!(by_budget <= report.over_budget && by_window <= report.older, "{}", report);
    prop_assert_eq!(count("covered"), report.covered - count_quoted(prompt), "{}", report);
    prop_assert_eq!(prompt.fate(report.held.end), Fate::NotHeld);
    // The outline names each of those that it does not show.
    let shown = prompt.outline().to_string();
    for position in report.held.clone() {
        let fate = prompt.fate(position);
        if matches!(fate, Fate::BeforeWindow(_) | Fate::Covered(_)) {
            let is_in = |text: &str| {
                let (first, last) = text.split_once(" to ").unwrap_or((text, text));
                let number = |text: &str| text.parse::<u64>().ok();
                number(first).zip(number(last)).is_some_and(|(a, b)| (a..=b).contains(&position))
            };
            let lines = shown.lines().filter_map(|line| line.trim().strip_prefix("left out: "));
            let mut lines = lines.filter_map(|line| line.split_once(": "));
            let named = lines.any(|(which, why)| is_in(which) && why == fate.to_string());
            prop_assert!(named, "{}: {}\n{}", position, fate, shown);
        }
    }
    Ok(())
}

/// What a prompt is composed with.
#[derive(Clone, Debug)]
struct Setup {
    composer: Composer,
    /// The same without a budget.
    free: Composer,
    temporaries: bool,
    user_first: bool,
    recall: bool,
}

fn setup() -> impl Strategy<Value = Setup> {
    use proptest::option::of;
    let window = prop_oneof![
        3 => (1usize..10).prop_map(Window::last),
        2 => (1usize..8, 1usize..10).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
        1 => (1usize..4).prop_map(Window::turns),
        1 => Just(Window::all()),
    ];
    let provider = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Provider::Mistral)),
        1 => Just(Some(Provider::Anthropic)),
        1 => Just(Some(Provider::Gemini)),
        1 => Just(Some(Provider::OpenAi)),
    ];
    let temporaries = prop_oneof![
        2 => Just(None),
        1 => Just(Some(Placement::End)),
        1 => Just(Some(Placement::BeforeLastUser)),
        1 => Just(Some(Placement::AfterSystem)),
    ];
    let budget = of((60usize..400, any::<bool>()));
    let less = (of((1usize..4, 1u64..12)), of(8usize..60));
    let beside = (any::<bool>(), any::<bool>(), proptest::bool::weighted(0.2), any::<bool>());
    (window, budget, less, temporaries, provider, beside).prop_map(
        |(window, budget, (clear, cut), temporaries, provider, beside)| {
            let (notice, user_first, exactly, recall) = beside;
            let window = window.with_if(user_first, Window::starting_with_user);
            let free = Composer::new()
                .window(window.with_if(exactly, Window::exactly))
                .with_pins()
                .with_summary()
                .with_some(clear, |it, (keep, step)| {
                    it.clear(Clear::tool_results().keep(keep).step(step))
                })
                .with_some(cut, |it, cut| it.truncate(Truncate::chars(cut).unwrap()))
                .with_if(notice, |it| it.notice(Notice::new().step(3)))
                .with_some(temporaries, Composer::temporaries_at)
                .with_some(provider, Composer::for_provider);
            let composer = free.clone().with_some(budget, |it, (tokens, stepped)| {
                let marks = (tokens / 3, tokens * 3 / 4);
                let budget = Budget::new(tokens);
                let stepped = budget.with_if(stepped, |it| it.stepped(marks.0, marks.1).unwrap());
                it.max_tokens(stepped, Estimate)
            });
            let user_first = user_first || !matches!(provider, None | Some(Provider::OpenAi));
            Setup { composer, free, temporaries: temporaries.is_some(), user_first, recall }
        },
    )
}

impl Setup {
    fn prompt(&self, memory: Arc<DefaultChatMemory>, composer: &Composer) -> MemoryPrompt {
        let mut prompt = MemoryPrompt::new(memory);
        prompt.configure(|_| composer.clone());
        prompt.with_if(self.recall, |it| it.recall(Recall::words().characters(200)))
    }

    /// Where a setting is named that decides where the history begins, more is sent without. With
    /// questions put in front for the user's sake a window may end where a budget does.
    fn names_what_decides(
        &self,
        built: &Prompt,
        memory: &Arc<DefaultChatMemory>,
    ) -> Result<(), TestCaseError> {
        let is = |setting| {
            let mut held = built.report().held.clone();
            held.any(|position| built.fate(position) == Fate::BeforeWindow(setting))
        };
        let (by_budget, by_reach) = (is(Setting::Budget), is(Setting::Reach));
        if self.user_first || (!by_budget && !by_reach) {
            return Ok(());
        }
        let free = self.free.clone().with_if(by_reach, |it| it.summary_reach(usize::MAX));
        let free = self.prompt(Arc::clone(memory), &free);
        if let Ok(free) = free.preview() {
            let [with, without] = [built.report(), free.report()];
            // What the budget leaves out alone makes room for others in a window that counts.
            let others_came = with.left_out.iter().any(|it| it.why == Reason::OverBudget);
            // Without a budget an older question may be sent in more of its messages, for which
            // others give way.
            let is_more = without.window < with.window
                || without.sent > with.sent
                || without.question.len() > with.question.len()
                || others_came;
            prop_assert!(is_more, "{}\n{}", with, without);
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
enum Deed {
    Add(usize),
    Pin(u64),
    Unpin,
    Summarise,
    Undo,
    Evict,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        20 => (1usize..4).prop_map(Deed::Add),
        2 => (0u64..30).prop_map(Deed::Pin),
        1 => Just(Deed::Unpin),
        1 => Just(Deed::Summarise),
        1 => Just(Deed::Undo),
        1 => Just(Deed::Evict),
    ]
}

/// Two questions are one message where the call between them is left out, and were two with it: the
/// cause was "something else".
#[test]
fn a_call_that_is_left_out_between_two_questions_is_named() {
    let mut prompt = holding([]).for_provider(Provider::Mistral).max_tokens(200, Estimate);
    let result = "word_".repeat(100);
    prompt.add_all(conversation(&format!("u:Look. call:c0 t:c0={result} u:And?"))).unwrap();
    let said = [Message::ai("sum ".repeat(80)), Message::user("Thanks.")];
    let [before, after] = around(&mut prompt, said);
    assert_eq!(after.fate(2), Fate::LeftOut(Reason::OverBudget), "{}", after.report());
    assert_eq!(after.with_origins().next().unwrap().0, Origin::Joined(Some(0)));
    assert_eq!(broken_by(&after, &before), Some(Break::LeftOut(1)));
}

/// A prompt was for no provider, and then for one that has two questions as one message.
#[test]
fn a_provider_where_there_was_none_is_named() {
    let mut prompt = holding(conversation("u:Hello. u:Are_you_there? a:Yes. u:Good."));
    let before = prompt.build().unwrap();
    let after = prompt.for_provider(Provider::Mistral).build().unwrap();
    assert_eq!(broken_by(&after, &before), Some(Break::Provider));
    assert_eq!(broken_by(&before, &after), Some(Break::Provider));
}

counted! {
    #![cases(1000, regressions())]

    /// Found by a stranger's model: where a message was added whose late result moved another, the
    /// cause was "something else", and in thousands of builds a window that had moved was told as
    /// another cause. The cause is what changed in the list, and every record has a fate.
    #[test]
    fn a_cause_is_true_of_the_two_lists(
        history in prop_oneof![life(40), late_results(60)],
        deeds in proptest::collection::vec(deed(), 1..30),
        setup in setup(),
    ) {
        let memory = Arc::new(DefaultChatMemory::new());
        let mut prompt = setup.prompt(Arc::clone(&memory), &setup.composer);
        let mut history = history.into_iter();
        let mut previous: Option<Prompt> = None;
        for (i, deed) in deeds.into_iter().enumerate() {
            match deed {
                Deed::Add(n) => drop(prompt.add_all(history.by_ref().take(n)).unwrap()),
                Deed::Pin(at) => drop(prompt.pin(at)),
                Deed::Unpin => {
                    for pin in prompt.pins().unwrap().into_iter().take(1) {
                        prompt.unpin(pin).unwrap();
                    }
                }
                Deed::Summarise => {
                    let told = |_: &Compaction| Ok::<_, std::io::Error>(format!("They talked ({i})."));
                    drop(prompt.compact(&policy(4, 2), &told));
                }
                Deed::Undo => drop(prompt.undo_summary()),
                Deed::Evict => {
                    let end = ChatMemory::read(&*memory, None, 0).unwrap().end;
                    drop(ChatMemory::evict(&*memory, end / 4));
                }
            }
            if setup.temporaries {
                prompt.add_temporary(Message::user(format!("It is {} o'clock.", i / 4)));
            }
            let Ok(built) = prompt.build() else {
                prompt.clear_temporaries();
                continue;
            };
            accounted(&built)?;
            setup.names_what_decides(&built, &memory)?;
            if let Some(previous) = &previous
                && let Some(cause) = broken_by(&built, previous)
            {
                let judged = judged(&built, previous, cause);
                prop_assert!(judged.is_ok(), "{}", judged.unwrap_err());
            }
            previous = Some(built);
        }
    }
}

/// Two messages of the user were one until a late result put its call between them: the cause was
/// "something else", or a temporary.
#[test]
fn a_late_result_between_messages_that_were_joined_came_late() {
    let window = Window::stepped(1, 4).unwrap();
    let steered = conversation("u:zero a:one call:c a:three steer:four a:five");
    let mut steered = holding(steered).window(window).for_provider(Provider::Mistral);
    let pinned = conversation("u:zero a:one a:two call:c u:four a:five");
    let mut pinned = holding(pinned).window(window.exactly()).for_provider(Provider::Mistral);
    pinned = pinned.with_pins();
    pinned.pin(0).unwrap();
    for prompt in [&mut steered, &mut pinned] {
        let [before, after] = around(prompt, conversation("t:c=late"));
        assert_eq!(broken_by(&after, &before), Some(Break::LateResult(6)), "{}", after.report());
    }
}

/// The application's own records are nobody's, and the system record that begins a history is sent.
#[test]
fn a_private_record_and_a_system_record_have_a_fate() {
    let mut prompt = holding(conversation("log:x u:Hello."));
    let built = prompt.build().unwrap();
    assert_eq!(built.fate(0), Fate::Private);
    assert_eq!(built.fate(1).to_string(), "sent: in its place");
    assert_eq!(built.fate(2).to_string(), "not held: the memory has no such position");
}
