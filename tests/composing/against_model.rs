//! The composer against a naive model of its rules, over long lives of a prompt: whatever was
//! appended, evicted, cleared, deleted, swapped, configured and failed before, each build gives
//! what the rules say.
//!
//! `MODEL_SEQUENCES` says how many lives are lived, `MODEL_SEED` or else `PROPTEST_RNG_SEED` where
//! they begin; the test prints both.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::conversations::broken_groups;
use crate::counted::cases;
use crate::lives::{self, Flaky, Life, Op, Words};
use crate::model::{
    self, Expected, Failure, History, Kind, Outcome, Processed, Processor, Reason, Sent, Settings,
};
use crate::notation;
use crate::sent;
use crate::setups::Drawn;
use memory_prompt::record::Snapshot;
use memory_prompt::report::{self, Origin};
use memory_prompt::token::TokenCounter;
use memory_prompt::truncate::{TruncateContext, TruncateProcessor, Verdict};
use memory_prompt::window::ToolGroups;
use memory_prompt::{
    Budget, ChatMemory, Composer, Error, ErrorKind, Message, Prompt, Provider, ToolCall, Truncate,
    Window,
};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{
    Config, RngAlgorithm, TestCaseError, TestCaseResult, TestError, TestRng, TestRunner,
};

/// The processor of the model, as one of the application's.
struct Application(Processor);

impl TruncateProcessor for Application {
    fn process(
        &self,
        message: &Message,
        _: &TruncateContext,
    ) -> Result<Verdict, Box<dyn std::error::Error + Send + Sync>> {
        Ok(match self.0.process(message) {
            Processed::Kept => Verdict::Keep,
            Processed::Dropped => Verdict::Drop,
            Processed::Replaced(copy) => Verdict::Replace(copy),
        })
    }
}

/// The same settings, for the composer.
fn composer(settings: &Settings) -> Composer {
    let window = settings.window.map(|kind| {
        let window = match kind {
            Kind::Last(n) => Window::last(n),
            Kind::Turns(n) => Window::turns(n),
            Kind::All => Window::all(),
            Kind::Stepped(low, step) => Window::stepped(low, step).unwrap(),
        };
        let window = window.with_if(settings.user_first, Window::starting_with_user);
        window.with_if(settings.exactly, Window::exactly)
    });
    let truncates = settings.cut.is_some() || settings.processor.is_some();
    let truncate = truncates.then(|| {
        Truncate::chars(settings.cut.unwrap_or(10_000))
            .unwrap()
            .with_if(settings.sparing, Truncate::sparing_question)
            .with_some(settings.processor, |it, processor| {
                it.processor(Application(processor)).with_if(settings.bounded, Truncate::bounded)
            })
    });
    let budget = settings.tokens.map(|it| {
        Budget::new(it.most)
            .reserve(it.reserve)
            .with_some(it.marks, |it, (low, high)| it.stepped(low, high).unwrap())
            .with_if(it.cut_first, Budget::cut_before_drop)
    });
    Composer::new()
        .tool_groups(settings.groups)
        .temporaries_at(settings.placement)
        .with_some(window, Composer::window)
        .with_some(truncate, Composer::truncate)
        .with_some(settings.provider, Composer::for_provider)
        .with_some(settings.system.clone(), Composer::system)
        .with_some(budget, |it, budget| it.max_tokens(budget, Words))
}

/// What the composer sends for a call that nothing answers: its text is nobody's rule, so it is
/// asked.
fn placeholder(call: &ToolCall) -> Message {
    let history = Snapshot::from_messages([Message::ai_calls([call.clone()])]);
    let prompt = Composer::new().compose_all(&history, &[]).unwrap();
    assert_eq!(prompt.len(), 2);
    prompt[1].clone()
}

fn reason(why: report::Reason) -> Option<Reason> {
    Some(match why {
        report::Reason::Opening => Reason::Opening,
        report::Reason::NoCall => Reason::NoCall,
        report::Reason::Answered => Reason::Answered,
        report::Reason::Replaced => Reason::Replaced,
        report::Reason::OverBudget => Reason::OverBudget,
        report::Reason::SecondSystem => Reason::SecondSystem,
        report::Reason::Blank => Reason::Blank,
        report::Reason::RestOfTurn => Reason::RestOfTurn,
        report::Reason::Dropped => Reason::Dropped,
        report::Reason::GroupDropped => Reason::GroupDropped,
        _ => return None,
    })
}

/// Whether the provider is sent messages as they are, but for call ids.
fn sends_as_it_is(provider: Option<Provider>) -> bool {
    use Provider::{Ollama, OpenAi, OpenAiResponses};
    matches!(provider, None | Some(OpenAi | OpenAiResponses | Ollama))
}

fn same(expected: &Sent, origin: Origin, message: &Message, provider: Option<Provider>) -> bool {
    match (expected, origin) {
        (Sent::System(it), Origin::System | Origin::History(_))
        | (Sent::Temporary(it), Origin::Temporary) => it == message,
        (Sent::Record(position, it, cut), Origin::History(at)) => {
            at == *position && !cut && it == message
        }
        (Sent::Record(position, it, cut), Origin::Truncated(at)) => {
            at == *position && *cut && it == message
        }
        (Sent::Record(position, it, _), Origin::Adapted(at)) => {
            provider.is_some() && at == *position && it.role() == message.role()
        }
        (Sent::Placeholder(_, call), Origin::Repair) => message.as_tool().is_some_and(|it| {
            let id = provider.is_some() || it.call_id() == call.id;
            id && it.tool_name() == call.name && it.is_error()
        }),
        (Sent::Note(texts), Origin::Note) => {
            message.is_user() && texts.contains(&message.text().into_owned())
        }
        (Sent::Added, Origin::Added) => message.is_user(),
        _ => false,
    }
}

/// What a prompt and its report have otherwise than the rules say.
fn differences(prompt: &Prompt, expected: &Expected, settings: &Settings) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |name: &str, ok: bool, is: &dyn std::fmt::Debug, was: &dyn std::fmt::Debug| {
        if !ok {
            wrong.push(format!("{name}: {is:?}, by the rules {was:?}"));
        }
    };
    let provider = settings.provider;
    if sends_as_it_is(provider) {
        let pairs = prompt.with_origins().zip(&expected.sent);
        let all = prompt.len() == expected.sent.len()
            && pairs.into_iter().all(|((origin, message), it)| same(it, origin, message, provider));
        let sent: Vec<_> = prompt.with_origins().collect();
        check("messages", all, &sent, &expected.sent);
    }
    let (firsts, all) = (sent::sent(prompt), sent::positions(prompt));
    let all: BTreeSet<u64> = all.into_iter().collect();
    let expected_all = expected.positions();
    let set: BTreeSet<u64> = expected_all.iter().copied().collect();
    let own = expected.opening_system;
    check("positions", all.iter().filter(|it| Some(**it) != own).eq(&set), &all, &expected_all);
    // What is never sent may stand on either side of neighbours that became one message.
    let turns = matches!(provider, Some(Provider::Mistral | Provider::StrictTemplate))
        || (settings.groups == ToolGroups::Off && !sends_as_it_is(provider));
    let custom = |it: &u64| {
        turns
            && expected
                .sent
                .iter()
                .any(|sent| matches!(sent, Sent::Record(position, Message::Custom(_), _) if position == it))
    };
    let order = expected_all.iter().copied().filter(|it| firsts.contains(it) && !custom(it));
    let order: Vec<u64> = order.collect();
    let firsts: Vec<u64> =
        firsts.into_iter().filter(|it| Some(*it) != own && !custom(it)).collect();
    check("order", order == firsts, &firsts, &order);

    let report = prompt.report();
    let records = expected_all.len() + usize::from(own.is_some());
    check("sent", report.sent == records, &report.sent, &records);
    let left_out: BTreeMap<u64, Option<Reason>> =
        report.left_out.iter().map(|it| (it.position, reason(it.why))).collect();
    let must =
        expected.left_out.iter().all(|(position, why)| left_out.get(position) == Some(&Some(*why)));
    let all = left_out.len() == expected.left_out.len() && left_out.len() == report.left_out.len();
    check("left out", must && all, &report.left_out, &expected.left_out);
    let moved: BTreeMap<u64, u64> = report.moved.iter().map(|it| (it.position, it.call)).collect();
    let must = expected.moved.iter().all(|(position, call)| moved.get(position) == Some(call));
    let may = moved.keys().all(|position| {
        expected.moved.contains_key(position) || expected.may_be_moved.contains(position)
    });
    check("moved", must && may, &moved, &expected.moved);
    check("question", report.question == expected.question, &report.question, &expected.question);
    check("note", report.note == expected.note, &report.note, &expected.note);
    let ended = expected.search_ended.contains(&report.search_ended);
    check("search ended", ended, &report.search_ended, &expected.search_ended);
    let ids = matches!(provider, None | Some(Provider::Ollama));
    let id = |id: &String| if ids { id.clone() } else { String::new() };
    let repaired: Vec<_> =
        report.repaired.iter().map(|it| (it.position, id(&it.call_id))).collect();
    let by_rule: Vec<_> =
        expected.repaired.iter().map(|(position, it)| (Some(*position), id(it))).collect();
    check("repaired", repaired == by_rule, &repaired, &by_rule);
    let kept = report.kept_systems == expected.kept_systems;
    check("kept systems", kept, &report.kept_systems, &expected.kept_systems);
    check("private", report.private == expected.private, &report.private, &expected.private);
    let before = (report.older, report.over_budget);
    let by_rule = if expected.over_budget { (0, expected.older) } else { (expected.older, 0) };
    check("older and over the budget", before == by_rule, &before, &by_rule);
    if sends_as_it_is(provider) && expected.tokens.is_some() {
        let tokens = report.tokens.map(|it| it.total);
        check("tokens", tokens == expected.tokens, &tokens, &expected.tokens);
    }
    wrong
}

/// What holds for each prompt, also where the model does not know which one it is.
fn broken_laws(
    prompt: &Prompt,
    history: &History,
    temporaries: &[Message],
    settings: &Settings,
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut law = |name: &str, holds: bool| {
        if !holds {
            wrong.push(format!("{name}: {prompt:?}\n{}", prompt.report()));
        }
    };
    let report = prompt.report();
    law("messages", report.messages == prompt.len());
    law("stored", report.stored == history.end - history.start);
    law("the report adds up", sent::accounted(prompt).is_none());
    let said = temporaries.iter().filter(|message| !message.is_system());
    law("temporaries", report.temporaries == said.count());
    let systems: Vec<_> = prompt.iter().enumerate().filter(|(_, it)| it.is_system()).collect();
    let kept = report.kept_systems.len();
    law("one system message", systems.len() - usize::from(prompt.system().is_some()) <= kept);
    let own = prompt.with_origins().filter(|it| it.0 != Origin::Temporary);
    law("no private record", !own.into_iter().any(|(_, message)| model::is_private(message)));
    if settings.groups != ToolGroups::Off {
        let wrong = broken_groups(prompt.iter());
        law(&format!("whole groups {wrong:?}"), wrong.is_empty());
        let unanswered = model::unanswered(history);
        for repaired in &report.repaired {
            let call = (repaired.position.unwrap_or(u64::MAX), repaired.call_id.clone());
            let known = !sends_as_it_is(settings.provider) || settings.provider.is_some();
            let denied = if known {
                !unanswered.iter().any(|it| it.0 == call.0)
            } else {
                !unanswered.contains(&call)
            };
            law(&format!("what is stored is not denied: {call:?}"), !denied);
        }
    }
    if let Some(budget) = settings.tokens {
        let total = Words.overhead().reply
            + prompt.iter().map(|it| Words.count(it).unwrap()).sum::<usize>();
        law("the budget holds", total <= budget.most.saturating_sub(budget.reserve));
        law("the total", report.tokens.is_some_and(|it| it.total == total));
    }
    let positions = sent::positions(prompt);
    let nothing = matches!(settings.window, Some(Kind::Last(0) | Kind::Turns(0)))
        || report.search_ended.is_some();
    let owes = settings.tokens.is_some() && !settings.exactly && settings.groups != ToolGroups::Off;
    let asked = history.records.iter().rev().find(|(_, it)| model::is_beginning(it));
    let asked = asked.filter(|(_, it)| {
        owes && !nothing && !it.text().trim().is_empty() && !model::is_dropped(settings, it)
    });
    if let Some((asked, _)) = asked {
        law(&format!("the newest question, {asked}, is sent"), positions.contains(asked));
    }
    if let Some(newest) = model::newest_that_must_stay(history, settings).filter(|_| !nothing) {
        law(&format!("the newest, {newest}, is sent"), positions.contains(&newest));
    }
    wrong
}

/// How often the model knew, how often only laws were held against a prompt, how often it failed.
#[derive(Default)]
struct Seen {
    exactly: AtomicU64,
    by_laws: AtomicU64,
    failed: AtomicU64,
}

fn failure(error: &Error) -> Option<Failure> {
    match error.kind() {
        ErrorKind::ToolGroup => Some(Failure::ToolGroup),
        ErrorKind::Provider => Some(Failure::Provider),
        ErrorKind::Budget { .. } => Some(Failure::Budget),
        _ => None,
    }
}

/// One build, held against the model.
fn judge(
    memory: &dyn ChatMemory,
    temporaries: &[Message],
    settings: &Settings,
    built: &Result<Prompt, Error>,
    seen: &Seen,
) -> TestCaseResult {
    let all = memory.read(None, usize::MAX).unwrap();
    let composer = composer(settings);
    let history = History::from(&all);
    let shared: Vec<_> = temporaries.iter().cloned().map(Arc::new).collect();
    let text = |result: &Result<Prompt, Error>| match result {
        Ok(prompt) => format!("{}\n{}", notation::sent(prompt), prompt.report()),
        Err(error) => error.to_string(),
    };
    let fail = |reason: String| {
        let written =
            |(position, it): &(u64, Message)| format!("{position} {}", notation::written(it));
        let history: Vec<_> = history.records.iter().map(written).collect();
        Err(TestCaseError::fail(format!(
            "{reason}\n{settings:?}\nslot {:?}, temporaries {temporaries:?}\nhistory from {}: {}\n{}",
            all.system,
            history.join(" | "),
            all.start,
            text(built)
        )))
    };

    // What the shell reads in pieces, the composer composes from everything at once.
    let whole = composer.compose_all(&all, &shared);
    let equal = match (built, &whole) {
        (Ok(built), Ok(whole)) => {
            // Only the shell knows of temporaries that were dropped at a swap.
            let named = &built.report().dropped_temporaries;
            named.is_empty() && built == whole || built.with_origins().eq(whole.with_origins())
        }
        (Err(built), Err(whole)) => built.to_string() == whole.to_string(),
        _ => false,
    };
    if !equal {
        return fail(format!("from everything at once: {}", text(&whole)));
    }

    let first_read = composer.first_read();
    let outcome = model::outcome(&history, temporaries, settings, first_read, &placeholder, &Words);
    match (&outcome, built) {
        (Outcome::Prompt(expected), Ok(prompt)) => {
            let wrong = differences(prompt, expected, settings);
            if !wrong.is_empty() {
                return fail(wrong.join("\n"));
            }
            seen.exactly.fetch_add(1, Ordering::Relaxed);
        }
        (Outcome::Fails(kinds), Err(error)) => {
            if !failure(error).is_some_and(|it| kinds.contains(&it)) {
                return fail(format!("by the rules {kinds:?}"));
            }
            seen.failed.fetch_add(1, Ordering::Relaxed);
        }
        (Outcome::Prompt(expected), Err(error)) if expected.may_fail => {
            let strict = [Some(Failure::ToolGroup), Some(Failure::Provider)];
            if !strict.contains(&failure(error)) {
                return fail("a strict build fails otherwise".to_owned());
            }
            seen.failed.fetch_add(1, Ordering::Relaxed);
        }
        (Outcome::Undetermined(_), Ok(_)) => {
            seen.by_laws.fetch_add(1, Ordering::Relaxed);
        }
        (Outcome::Undetermined(_), Err(error)) if failure(error).is_some() => {
            seen.failed.fetch_add(1, Ordering::Relaxed);
        }
        (outcome, _) => return fail(format!("by the rules {outcome:?}")),
    }
    if let Ok(prompt) = built {
        let wrong = broken_laws(prompt, &history, temporaries, settings);
        if !wrong.is_empty() {
            return fail(wrong.join("\n"));
        }
    }
    Ok(())
}

/// Lives one life.
fn live(own: bool, ops: Vec<Op>, seen: &Seen) -> TestCaseResult {
    let mut life = Life::new(own, &composer(&Settings::default()));
    let mut settings = Settings::default();
    for op in ops {
        match op {
            Op::Configure(changed) => {
                settings = *changed;
                life.configure(&composer(&settings));
            }
            Op::Build { preview } => {
                let temporaries: Vec<Message> = life.waiting().cloned().collect();
                let dropped = life.dropped().to_vec();
                let memory: Arc<Flaky> = life.memory();
                let looked = preview.then(|| life.preview());
                let built = life.build()?;
                judge(&*memory, &temporaries, &settings, &built, seen)?;
                if let Ok(prompt) = &built {
                    let named = prompt.report().dropped_temporaries.clone();
                    if named != dropped {
                        let text =
                            format!("dropped temporaries {named:?}, and it were {dropped:?}");
                        return Err(TestCaseError::fail(text));
                    }
                }
                if let (Some(Ok(looked)), Ok(built)) = (&looked, &built)
                    && looked.to_messages() != built.to_messages()
                {
                    return Err(TestCaseError::fail("a preview shows something else"));
                }
            }
            op => life.go_through(op)?,
        }
    }
    Ok(())
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

/// A life of its own for each number, the same one each time.
fn runner(seed: u64, i: u64) -> TestRunner {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    bytes[8..16].copy_from_slice(&i.to_le_bytes());
    let config =
        Config { failure_persistence: None, max_shrink_iters: 20_000, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes))
}

#[test]
fn a_prompt_gives_what_the_rules_say_all_its_life() {
    let wanted = number("MODEL_SEQUENCES", cases(400).into());
    let seed = number("PROPTEST_RNG_SEED", std::process::id().into());
    let seed = number("MODEL_SEED", seed);
    let first = number("MODEL_FIRST", 0);
    println!("{wanted} lives, MODEL_SEED={seed}");
    let (tally, done) = (Seen::default(), AtomicU64::new(0));
    let next = AtomicU64::new(first);
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(4);
    std::thread::scope(|scope| {
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= first + wanted {
                    return;
                }
                let mut runner = runner(seed, i);
                let life = (proptest::bool::weighted(0.25), lives::ops());
                let case = life.new_tree(&mut runner).unwrap();
                let (own, ops) = case.current();
                if live(own, ops, &tally).is_err() {
                    // Once more, to find the shortest life that ends like this.
                    let quiet = Seen::default();
                    let found = runner.run_one(case, |(own, ops)| live(own, ops, &quiet));
                    let Err(TestError::Fail(reason, (own, ops))) = found else {
                        panic!("MODEL_SEED={seed} MODEL_FIRST={i}: {found:?}");
                    };
                    let ops: Vec<String> = ops.iter().map(Op::to_string).collect();
                    let ops = ops.join("\n  ");
                    panic!(
                        "MODEL_SEED={seed} MODEL_FIRST={i}: {reason}\nrecords hold systems: {own}\n  {ops}"
                    );
                }
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for one in all {
            if let Err(panic) = one.join() {
                std::panic::resume_unwind(panic);
            }
        }
    });
    let lived = done.into_inner();
    let (exactly, by_laws) = (tally.exactly.into_inner(), tally.by_laws.into_inner());
    let failed = tally.failed.into_inner();
    println!("{lived} lives: {exactly} prompts by the rules, {by_laws} by laws, {failed} errors");
    assert!(lived >= wanted, "{lived} of {wanted} lives were lived");
    assert!(
        exactly > 2 * by_laws,
        "the model knows too little: {exactly} of {}",
        exactly + by_laws
    );
    assert!(failed > 0 || wanted < 100, "no build was refused");
}
