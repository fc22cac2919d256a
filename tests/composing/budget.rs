//! The token budget: it bounds what is sent, the oldest leaves first, and nothing is counted twice.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::conversations::*;
use crate::counted::{counted, regressions};
use crate::notation;
use crate::sent::{left_out, sent};
use crate::setups::{Drawn, budget, compose, counted as total, holding, letters};
use memory_prompt::compose::Notice;
use memory_prompt::message::{Media, Part};
use memory_prompt::record::Snapshot;
use memory_prompt::report::{Moved, Reason};
use memory_prompt::summary::CompactionPolicy;
use memory_prompt::token::{Estimate, Overhead, TokenCounter};
use memory_prompt::{
    Budget, ChatMemory, ChatMemoryExt, Composer, DefaultChatMemory, Error, ErrorKind, MemoryPrompt,
    Message, Provider, Recall, Result, Tool, Truncate, Window,
};
use proptest::prelude::*;

fn windows() -> impl Strategy<Value = Option<Window>> {
    proptest::option::of(prop_oneof![
        (0usize..12).prop_map(Window::last),
        (1usize..5).prop_map(Window::turns),
        (1usize..8, 1usize..8).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
        // More than a budget reads at first.
        (30usize..90, 30usize..90).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
    ])
}

counted! {
    #![cases(256, regressions())]

    /// Tools take their tokens from the room, and nothing else: a budget that is larger by what
    /// they count sends what it sent without them.
    #[test]
    fn tools_take_their_tokens_and_no_more(
        conversation in conversation(16), temporaries in temporaries(), window in windows(),
        tokens in 0usize..600, description in "[a-z]{0,40}",
    ) {
        let tools = [Tool::new("look", description), Tool::new("book", "Books.")];
        let counted = letters.count_tools(&tools).unwrap();
        let composer = Composer::new().with_some(window, Composer::window);
        let mut composer = composer.max_tokens(tokens, letters);
        let without = compose(&composer, &conversation, &temporaries);
        composer = composer.max_tokens(tokens + counted, letters).tools(tools);
        let with = compose(&composer, &conversation, &temporaries);
        match (with, without) {
            (Ok(with), Ok(without)) => {
                prop_assert_eq!(with.to_messages(), without.to_messages());
                let [now, then] = [&with, &without].map(|it| it.report().tokens.unwrap());
                prop_assert_eq!((now.tools, now.total), (counted, then.total + counted));
                let parts = now.tools + with.report().message_tokens.iter().sum::<usize>() + now.reply;
                prop_assert_eq!(parts, now.total);
                let each: Vec<_> = with.iter().map(|it| letters.count(it).unwrap()).collect();
                prop_assert_eq!(&with.report().message_tokens, &each);
            }
            (Err(with), Err(without)) => {
                let (ErrorKind::Budget { needed: now, .. }, ErrorKind::Budget { needed: then, .. }) =
                    (with.kind(), without.kind()) else { panic!("{with}; {without}") };
                prop_assert_eq!(now, then + counted);
            }
            (with, without) => prop_assert!(false, "{:?}; {:?}", with, without),
        }
    }

    #[test]
    fn a_prompt_is_within_its_budget_or_fails_with_both_numbers(
        conversation in conversation(16), temporaries in temporaries(), window in windows(),
        tokens in 0usize..600, reserve in 0usize..50, limit in proptest::option::of(1usize..40),
        marked in any::<bool>(), cut_first in any::<bool>(),
    ) {
        let mut budget = Budget::new(tokens).reserve(reserve);
        let available = tokens.saturating_sub(reserve);
        if marked && available > 3 {
            budget = budget.stepped(available / 4 + 1, available / 2 + 1).unwrap_or(budget);
        }
        let budget = budget.with_if(cut_first, Budget::cut_before_drop);
        let mut composer = Composer::new().system("s").max_tokens(budget, letters)
            .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()))
            .with_some(window, Composer::window);
        match compose(&composer, &conversation, &temporaries) {
            Ok(prompt) => {
                prop_assert!(total(&prompt) <= available);
                let report = prompt.report();
                prop_assert_eq!(report.tokens.unwrap().total, total(&prompt));
                prop_assert_eq!(report.tokens.unwrap().budget, available);
                prop_assert_eq!(
                    report.stored,
                    report.sent as u64 + report.older + report.over_budget + report.private
                        + report.left_out.len() as u64,
                    "{}", report
                );
                // Temporaries are never dropped.
                prop_assert_eq!(report.temporaries, temporaries.len());
                // Neither is the question, or the end of the history, where a window sends any.
                let stored = stored(&conversation);
                let sent = sent(&prompt);
                let nothing = window == Some(Window::last(0));
                if let Some(question) = stored.iter().rposition(Message::is_user).filter(|_| !nothing) {
                    prop_assert!(sent.contains(&(question as u64)), "{sent:?}");
                }
                let end = stored.iter().rposition(|m| !m.is_private());
                if let Some(end) = end.filter(|end| !stored[*end].is_tool() && !nothing) {
                    prop_assert_eq!(sent.last(), Some(&(end as u64)));
                }
                if report.orphan_temporaries.is_empty() {
                    let wrong = broken_groups(&prompt);
                    prop_assert!(wrong.is_empty(), "{wrong:?}");
                }
            }
            Err(error) => {
                let ErrorKind::Budget { needed, budget } = error.kind() else { panic!("{error}") };
                prop_assert!(needed > budget, "{error}");
                prop_assert_eq!(budget, available);
                // What must stay really is too much: the same without a budget is larger.
                composer = composer.no_max_tokens().window(Window::all()).no_truncate();
                prop_assert!(total(&compose(&composer, &conversation, &temporaries).unwrap()) > budget);
            }
        }
    }

    #[test]
    fn the_oldest_leave_first_and_no_more_than_must(
        conversation in conversation(16), tokens in 20usize..600,
    ) {
        let plain: Vec<_> = stored(&conversation).into_iter()
            .filter(|m| !m.is_tool() && !m.has_tool_calls() && !m.is_private()).collect();
        let Ok(prompt) = compose(&Composer::new().max_tokens(tokens, letters), &plain, &[]) else { return Ok(()) };
        let sent = sent(&prompt);
        let report = prompt.report();
        let alone: Vec<u64> = left_out(&prompt).into_iter().map(|it| it.0).collect();
        // What was left out alone has more than half of all the room.
        for position in &alone {
            let tokens_of_it = letters.count(&plain[usize::try_from(*position).unwrap()]).unwrap();
            prop_assert!(tokens_of_it > (tokens - 3) / 2, "{position}: {tokens_of_it}");
        }
        let tail = &sent[report.question.len()..];
        let gap = |pair: &[u64]| (pair[0] + 1..pair[1]).all(|position| alone.contains(&position));
        prop_assert!(tail.windows(2).all(gap), "{}", report);
        let next = (0..*tail.first().unwrap_or(&0)).rev().find(|position| !alone.contains(position));
        if let Some(next) = next.filter(|next| !report.question.contains(next)) {
            let more = letters.count(&plain[usize::try_from(next).unwrap()]).unwrap();
            prop_assert!(total(&prompt) + more > tokens, "{}", report);
        }
    }

    #[test]
    fn what_is_remembered_changes_nothing(
        conversation in conversation(24), tokens in 40usize..400, limit in proptest::option::of(1usize..40),
        evicted in 0u64..10,
    ) {
        let memory = Arc::new(DefaultChatMemory::new());
        let mut prompt = MemoryPrompt::new(Arc::clone(&memory)).max_tokens(tokens, letters)
            .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()));
        for (i, message) in stored(&conversation).into_iter().enumerate() {
            memory.add(message).unwrap();
            if i == 5 {
                memory.evict(evicted).unwrap();
            }
            let snapshot = memory.read(None, usize::MAX).unwrap();
            let fresh = prompt.composer().compose_all(&snapshot, &[]);
            let remembered = prompt.build();
            match (remembered, fresh) {
                (Ok(a), Ok(b)) => prop_assert_eq!(a, b),
                (a, b) => prop_assert_eq!(a.unwrap_err().kind(), b.unwrap_err().kind()),
            }
        }
    }

    /// Found by a law about something else: what was read in steps began before the first user
    /// message where `Window::turns` had fewer turns than it may send, and the rest was not read
    /// yet.
    #[test]
    fn what_is_read_in_steps_is_composed_as_from_everything(
        opening in 0usize..300, conversation in conversation(60), window in windows(), user in any::<bool>(),
        tokens in 40usize..4000, marked in any::<bool>(), notice in any::<bool>(),
    ) {
        let opening = (0..opening).map(|i| Message::ai(i.to_string()));
        let window = window.map(|it| it.with_if(user, Window::starting_with_user));
        let prompt = holding(opening.chain(stored(&conversation)))
            .max_tokens(budget(tokens, marked), letters)
            .with_if(notice, |it| it.notice(Notice::new().step(8)))
            .with_some(window, MemoryPrompt::window);
        let whole = prompt.memory().read(None, usize::MAX).unwrap();
        match (prompt.preview(), prompt.composer().compose_all(&whole, &[])) {
            (Ok(steps), Ok(whole)) => prop_assert!(
                steps == whole, "{}\n{}\n{}\n{}\n{}", brief(prompt.memory().all().unwrap().messages()),
                brief(&steps), brief(&whole), steps.report(), whole.report()
            ),
            (steps, whole) => prop_assert_eq!(steps.unwrap_err().kind(), whole.unwrap_err().kind()),
        }
    }

    #[test]
    fn between_its_marks_a_budget_keeps_the_prefix(
        conversation in conversation(60), low in 20usize..100, room in 60usize..300,
        limit in proptest::option::of(1usize..20),
    ) {
        let high = low + room;
        let budget = Budget::new(high + 100).stepped(low, high).unwrap();
        let composer = Composer::new().system("s").max_tokens(budget, letters)
            .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()));
        let stored = stored(&conversation);
        let mut before: Option<(Vec<Message>, u64, Others)> = None;
        for end in 0..=stored.len() {
            let Ok(prompt) = compose(&composer, &stored[..end], &[]) else { before = None; continue };
            let now = prompt.to_messages();
            if prompt.report().tokens.unwrap().cut_to.is_some() {
                before = None; // what had to stay was cut to fit this once
                continue;
            }
            let report = prompt.report();
            let put_before = !report.question.is_empty();
            let first = report.older + report.over_budget;
            // What is left out alone leaves once; a late result comes once.
            let others = (left_out(&prompt), report.moved.clone());
            if let Some((prefix, start, before)) = before.take()
                && start == first && !put_before && others == before
            {
                prop_assert!(now.starts_with(&prefix), "at {end} of {}:\n{}\n{}\n{}", brief(&stored), brief(&prefix), brief(&now), prompt.report());
            }
            before = (!put_before).then(|| (now[..prompt.cacheable()].to_vec(), first, others));
        }
    }
}

/// What moves once: what is left out alone, and late results.
type Others = (Vec<(u64, Reason)>, Vec<Moved>);

/// Counts how often it is asked.
struct Asked(Arc<AtomicUsize>);

impl TokenCounter for Asked {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(letters(text))
    }
    fn count(&self, message: &Message) -> Result<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        letters.count(message)
    }
}

/// The report lost all older records, and the notice went, where a stepped window began at the very
/// first record of a read that was shorter than what such a window may take.
#[test]
fn a_stepped_window_beyond_the_first_read_accounts_for_what_is_older() {
    for (low, step) in [(60, 40), (40, 38), (100, 150)] {
        for stored in (60..400).chain([5_000]) {
            let mut prompt = holding((0..stored).map(|i| Message::user(i.to_string())))
                .window(Window::stepped(low, step).unwrap())
                .notice(Notice::new());
            let without = prompt.preview().unwrap();
            prompt.configure(|composer| composer.max_tokens(60_000, letters));
            let built = prompt.build().unwrap();
            let (with, without) = (built.report(), without.report());
            assert_eq!(with.stored, with.sent as u64 + with.older, "{with}");
            let [with, without] = [with, without].map(|it| (it.sent, it.older, it.notice));
            assert_eq!(with, without, "stepped({low}, {step}) of {stored}");
        }
    }
}

/// Peers recount the whole history on every call.
#[test]
fn a_thousand_builds_count_each_message_once() {
    for budget in [Budget::new(2_000), Budget::new(2_000).stepped(500, 1_500).unwrap()] {
        let asked = Arc::new(AtomicUsize::new(0));
        let mut prompt = holding([])
            .system("You are a terse assistant.")
            .max_tokens(budget, Asked(Arc::clone(&asked)));
        for i in 0..1_000 {
            prompt.add(Message::user(format!("question {i}, {}", "x".repeat(i % 40)))).unwrap();
            prompt.add_temporary(Message::user("Today is Friday."));
            prompt.preview().unwrap();
            prompt.build().unwrap();
        }
        // Each message once, the temporary that comes each time once, the system message once.
        assert_eq!(asked.load(Ordering::Relaxed), 1_000 + 1 + 1);
    }
}

/// What is counted depends on what fits, not on what was ever said.
#[test]
fn a_cold_start_counts_what_fits_and_one_message_more() {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut prompt = holding((0..100_000).map(|i| Message::user(format!("{i:0>96}"))))
        .max_tokens(1_000, Asked(Arc::clone(&asked)));
    let sent = prompt.build().unwrap().len();
    assert_eq!(sent, 9);
    assert_eq!(asked.load(Ordering::Relaxed), sent + 1);
}

/// Short questions with answers of more than half of the room: every answer but the newest was left
/// out alone, and the model got 67 questions in a row. The walk went on until those filled the
/// budget, through all of the history.
#[test]
fn where_most_answers_are_long_the_newest_turns_are_sent_and_no_others() {
    let turn = |i| [Message::user(format!("question {i}")), Message::ai("x".repeat(600))];
    for budget in [Budget::new(1_000), Budget::new(1_000).stepped(400, 900).unwrap()] {
        let asked = Arc::new(AtomicUsize::new(0));
        let prompt = holding((0..10_000).flat_map(turn).chain([Message::user("and now?")]))
            .max_tokens(budget, Asked(Arc::clone(&asked)));
        let built = prompt.preview().unwrap();
        // The question of the answer that is left out alone stays.
        assert_eq!(sent(&built), [19_996, 19_998, 19_999, 20_000], "{}", built.report());
        assert_eq!(left_out(&built), [(19_997, Reason::OverBudget)]);
        assert!(asked.load(Ordering::Relaxed) < 10);
    }
}

/// A question of several messages fell to its last one at once where a notice took the room of the
/// first.
#[test]
fn of_a_question_in_several_messages_no_more_leave_than_have_to() {
    let question = [400, 400, 150].map(|n| Message::user("x".repeat(n)));
    let prompt = holding([Message::ai("x".repeat(400))].into_iter().chain(question))
        .max_tokens(Budget::new(960), letters)
        .notice(Notice::new());
    let built = prompt.preview().unwrap();
    assert_eq!(sent(&built), [2, 3], "{}", built.report());
}

/// Says how often it is asked what a message has besides its text, as a draft does to begin and to
/// end.
struct Drafts(Arc<AtomicUsize>);

impl TokenCounter for Drafts {
    fn count_text(&self, text: &str) -> Result<usize> {
        Ok(letters(text))
    }
    fn count(&self, message: &Message) -> Result<usize> {
        letters.count(message)
    }
    fn overhead(&self) -> Overhead {
        self.0.fetch_add(1, Ordering::Relaxed);
        Overhead::default()
    }
}

/// Where a provider demands messages, the prompt was drafted again for each unit that left for
/// them: in a history of 5,000 messages for minutes.
#[test]
fn many_messages_that_the_provider_demands_take_few_drafts() {
    let turn = |i| notation::conversation(&format!("u:question_{i} call:c{i} t:c{i}=ok"));
    let history: Vec<_> = (0..1_000).flat_map(turn).chain([Message::user("and now?")]).collect();
    for system in [None, Some("s".repeat(3_000))] {
        let drafts = Arc::new(AtomicUsize::new(0));
        let composer = Composer::new()
            .with_some(system, Composer::system)
            .for_provider(Provider::Mistral)
            .max_tokens(20_000, Drafts(Arc::clone(&drafts)));
        let prompt = compose(&composer, &history, &[]).unwrap();
        let drafts = drafts.load(Ordering::Relaxed) / 2;
        assert!(drafts <= 6, "{drafts} drafts");
        // And no more left than had to: there is no room for another turn with its added answer.
        let first = usize::try_from(sent(&prompt)[0]).unwrap();
        let added = [Message::ai("(no answer)")];
        let turn = history[first - 3..first].iter().chain(&added);
        let turn: usize = turn.map(|it| letters.count(it).unwrap()).sum();
        assert!(total(&prompt) + turn > 20_000, "{}", total(&prompt));
    }
}

#[test]
fn marks_let_the_start_move_seldom() {
    let budget = Budget::new(20_000).stepped(4_000, 8_000).unwrap();
    let composer = Composer::new().max_tokens(budget, letters);
    let history: Vec<_> = (0..2_000).map(|i| Message::user(format!("{i:0>96}"))).collect();
    let mut steps = 0;
    let mut start = 0;
    for end in 1..history.len() {
        let prompt = compose(&composer, &history[..end], &[]).unwrap();
        let first = sent(&prompt)[0];
        assert!(first >= start, "the start never moves back");
        steps += usize::from(first != start);
        start = first;
        assert!(first == 0 || total(&prompt) >= 4_000);
    }
    // The room between the marks is 40 messages; a start that always used all of it would move 49
    // times.
    assert!((49..=98).contains(&steps), "{steps}");
}

/// What is needed is what is left when texts are cut as far as it goes, and not the first try.
#[test]
fn an_error_names_the_least_that_must_be_sent() {
    let mut prompt = holding([Message::user("word ".repeat(2_000))])
        .system("s".repeat(60))
        .truncate(Truncate::chars(800).unwrap())
        .max_tokens(50, letters);
    let error = prompt.build().unwrap_err();
    let ErrorKind::Budget { needed, .. } = error.kind() else { panic!("{error}") };
    assert!((61..200).contains(&needed), "{error}");
}

#[test]
fn what_must_stay_and_does_not_fit_is_an_error_and_loses_nothing() {
    let mut prompt = holding([])
        .system("You are a very terse assistant.")
        .max_tokens(Budget::new(40).reserve(10), letters);
    prompt.add_temporary(Message::user("Today is Friday."));
    let error = prompt.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Budget { needed: 58, budget: 30 });
    let expected =
        "compose: what must be sent has 58 tokens, and the budget without its reserve is 30";
    assert_eq!(error.to_string(), expected);
    prompt.configure(|composer| composer.max_tokens(58, letters));
    assert_eq!(prompt.build().unwrap().len(), 2);
}

/// A summary that was short enough for its limit in characters stopped every later build, and the
/// error did not say that it was the summary.
#[test]
fn an_error_names_the_tokens_of_the_summary() {
    let talk = (0..40).flat_map(|i| [Message::user(format!("q{i}")), Message::ai("a")]);
    let mut prompt = holding(talk).with_summary().max_tokens(100, letters);
    let due = prompt.compaction(&CompactionPolicy::messages(10, 10).unwrap()).unwrap().unwrap();
    prompt.commit(&due, "多言語".repeat(100)).unwrap();
    let error = prompt.build().unwrap_err();
    let ErrorKind::Budget { needed, .. } = error.kind() else { panic!("{error}") };
    let told = error.to_string();
    let (before, _) = told.split_once(" of the summary)").unwrap();
    let tokens: usize = before.rsplit_once('(').unwrap().1.parse().unwrap();
    assert!((300..needed).contains(&tokens), "{error}");
    assert!(prompt.undo_summary().unwrap());
    prompt.build().unwrap();
}

#[test]
fn what_must_stay_is_cut_where_truncation_is_on() {
    let mut prompt = holding([Message::user("x".repeat(500))]).max_tokens(100, letters);
    assert!(matches!(prompt.build().unwrap_err().kind(), ErrorKind::Budget { .. }));
    prompt.configure(|composer| composer.truncate(Truncate::default()));
    let built = prompt.build().unwrap();
    assert_eq!(built[0].text().len(), 62, "1000 halved until it fits");
    assert_eq!(built.report().tokens.unwrap().cut_to, Some(62));
}

#[test]
fn long_messages_are_cut_before_any_is_dropped_where_that_was_chosen() {
    let history: Vec<_> = (0..8).map(|i| Message::user(format!("{i}").repeat(200))).collect();
    let mut composer =
        Composer::new().truncate(Truncate::chars(200).unwrap()).max_tokens(1_000, letters);
    let dropped = compose(&composer, &history, &[]).unwrap();
    assert_eq!((dropped.len(), dropped.report().over_budget), (4, 4));
    composer = composer.max_tokens(Budget::new(1_000).cut_before_drop(), letters);
    let cut = compose(&composer, &history, &[]).unwrap();
    assert_eq!((cut.len(), cut.report().over_budget), (8, 0));
    assert!(cut.iter().all(|message| message.text().len() == 100));
}

/// Texts were cut so that the room for recall stayed free, although all would have fitted whole.
#[test]
fn nothing_is_cut_for_the_room_that_recall_keeps() {
    let talk: Vec<_> = (0..10).map(|i| Message::user(format!("{i:0>94}"))).collect();
    let prompt = |recall: Option<Recall>| {
        let mut prompt = holding(talk.clone())
            .truncate(Truncate::chars(90).unwrap())
            .max_tokens(Budget::new(1_000).cut_before_drop(), letters)
            .with_some(recall, MemoryPrompt::recall);
        prompt.build().unwrap()
    };
    let (without, with) = (prompt(None), prompt(Some(Recall::words().tokens(300))));
    assert_eq!((without.len(), without.report().tokens.unwrap().cut_to), (10, None));
    assert_eq!(without.to_messages(), with.to_messages());
}

#[test]
fn a_counter_that_fails_fails_the_build_and_keeps_the_temporaries() {
    struct Broken;
    impl TokenCounter for Broken {
        fn count_text(&self, _: &str) -> Result<usize> {
            Err(Error::new(ErrorKind::Count, "count", "no vocabulary"))
        }
    }
    let mut prompt = holding([]).max_tokens(100, Broken);
    prompt.add_temporary(Message::user("Today is Friday."));
    assert_eq!(prompt.build().unwrap_err().to_string(), "count: no vocabulary");
    assert_eq!(prompt.temporaries().len(), 1);
}

#[test]
fn a_counter_that_says_usize_max_overflows_nothing() {
    let mut prompt =
        holding(["one", "two"].map(Message::user)).max_tokens(usize::MAX - 1, |_: &str| usize::MAX);
    let error = prompt.build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Budget { needed: usize::MAX, budget: usize::MAX - 1 });
}

#[test]
fn marks_that_make_no_sense_are_refused_when_they_are_set() {
    for (low, high) in [(0, 10), (10, 10), (20, 10), (10, 91)] {
        let error = Budget::new(100).reserve(10).stepped(low, high).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        let text =
            format!("budget: low and high must be 0 < low < high <= 90, and are {low} and {high}");
        assert_eq!(error.to_string(), text);
    }
}

/// A file of code came as `application/octet-stream`, as browsers say, and was counted at a tenth
/// of the text that it was sent as.
#[test]
fn a_file_that_is_sent_as_a_text_is_counted_as_one() {
    let code = "Zm4g".repeat(25_000); // "fn "
    let file = Part::File(Media::base64("application/octet-stream", code).with_name("a.rs"));
    let history = Snapshot::from_messages([Message::user([Part::text("Explain:"), file])]);
    let built = |provider| {
        let composer = Composer::new().max_tokens(8_000, Estimate).for_provider(provider);
        composer.compose_all(&history, &[])
    };
    for provider in [Provider::OpenAi, Provider::Vllm] {
        let error = built(provider).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Budget { needed: 18_000.., .. }), "{error}");
    }
    // Sent as a file.
    built(Provider::Mistral).unwrap();
}
