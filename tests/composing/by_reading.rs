//! What a stranger found who read the rooms of the composer line by line, and ran nothing: each
//! test begins with the input that was named.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use memory_prompt::memory::Read;
use memory_prompt::record::{Records, Snapshot, Unreadable};
use memory_prompt::report::{Fate, Reason, Setting};
use memory_prompt::token::Estimate;
use memory_prompt::truncate::TruncateContext;
use memory_prompt::wire::anthropic;
use memory_prompt::{
    Budget, ChatMemory, Clear, Composer, DefaultChatMemory, Error, ErrorKind, MemoryPrompt,
    Message, Prompt, Provider, Recall, ToolCall, Truncate, Window,
};
use serde_json::json;

use crate::computed::computed;
use crate::conversations::broken_groups;
use crate::notation::conversation;
use crate::processors::Drops;
use crate::reading::Reading;
use crate::said::{self, call, notes, policy, result, talk};
use crate::sent::{accounted, left_out, sent, texts};
use crate::setups::{Drawn, holding, remembering};

fn compose(composer: &Composer, said: impl IntoIterator<Item = Message>) -> Prompt {
    composer.compose_all(&Snapshot::from_messages(said), &[]).unwrap()
}

/// One question, and so many rounds of a tool whose results have so many characters.
fn rounds(n: usize, characters: usize) -> impl Iterator<Item = Message> {
    let question = [Message::user("Which is the oldest?")];
    let text = "x".repeat(characters);
    question.into_iter().chain(said::rounds(n, &text).collect::<Vec<_>>())
}

fn dropping(which: fn(&Message) -> bool) -> Truncate {
    let which = move |message: &Message, _: &TruncateContext| which(message);
    Truncate::default().processor(Drops(which))
}

/// A window of four messages ended the history beside a budget of a million tokens, and the report
/// said that the budget had: with `cut_before_drop` each result was sent in fifty characters.
#[test]
fn a_window_that_ends_the_history_is_not_the_budget() {
    let window = Composer::new().max_messages(4);
    let without = compose(&window, rounds(20, 1_000));
    let with = window.clone().max_tokens(1_000_000, Estimate);
    let prompt = compose(&with, rounds(20, 1_000));
    let report = prompt.report();
    assert_eq!((report.older, report.over_budget), (without.report().older, 0), "{report}");
    assert_eq!(prompt.fate(5), Fate::BeforeWindow(Setting::Window));
    assert_eq!(sent(&prompt), sent(&without));

    let budget = Budget::new(1_000_000).cut_before_drop();
    let cut = window.max_tokens(budget, Estimate).truncate(Truncate::chars(800).unwrap());
    let prompt = compose(&cut, rounds(20, 1_000));
    assert_eq!(prompt.report().tokens.unwrap().cut_to, None);
    assert_eq!(prompt.report().truncated[0].to, 800);
}

/// The same end had a budget in steps begin where the budget's own steps are, though its range was
/// not left.
#[test]
fn a_window_that_ends_the_history_has_no_steps() {
    let window = Composer::new().max_messages(10);
    let budget = Budget::new(100_000).stepped(1, 50_000).unwrap();
    for n in 5..30 {
        let without = compose(&window, rounds(n, 10));
        let with = compose(&window.clone().max_tokens(budget, Estimate), rounds(n, 10));
        assert_eq!(sent(&with), sent(&without), "{n}: {}", with.report());
    }
}

/// An answer of Claude's that holds a compaction and calls a tool.
fn compaction_that_calls(id: &str) -> Message {
    let body = json!({"type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [
        {"type": "compaction", "content": "They talked."},
        {"type": "tool_use", "id": id, "name": "look", "input": {}}]});
    anthropic::answer(body).unwrap().given_by(Provider::Anthropic).message.into()
}

/// A call stood before a compaction that calls a tool too, and its result came late: neither was
/// sent, and the report named neither.
#[test]
fn a_group_before_a_compaction_that_calls_is_sent() {
    let [ask, more, thanks] = ["Look.", "And?", "Thanks."].map(Message::user);
    let composer = Composer::new().for_provider(Provider::Anthropic).window(Window::all());
    let [late, now] = [result("t0", "late"), result("t1", "now")];
    let compacted = compaction_that_calls("t1");
    let said = [ask.clone(), call("t0"), more, compacted.clone(), now, late, thanks];
    let prompt = compose(&composer, said);
    assert_eq!(sent(&prompt), [3, 4, 1, 5, 6], "{}", prompt.report());
    assert_eq!(accounted(&prompt), None);
    assert_eq!(prompt.fate(5), Fate::Moved(1));

    // A call directly before it is one answer with it elsewhere: here it is not sent twice.
    let said =
        [ask, call("t0"), compacted, result("t1", "now"), Message::ai("So."), result("t0", "late")];
    let prompt = compose(&composer, said);
    assert_eq!(sent(&prompt), [2, 3, 0, 1, 5, 4], "{}", prompt.report());
    assert_eq!(accounted(&prompt), None);
    assert_eq!(broken_groups(prompt.iter()), [""; 0]);
}

/// The newest question was not shown to the processor where it is spared: a card number left for
/// the provider, and was gone one turn later.
#[test]
fn a_question_that_is_spared_is_redacted() {
    let redact = |message: &Message| {
        let redacted: String =
            message.text().chars().map(|it| if it.is_ascii_digit() { '#' } else { it }).collect();
        message.is_user().then(|| Message::user(redacted))
    };
    let truncate = Truncate::chars(10).unwrap().processor(redact).bounded().sparing_question();
    for budget in [None, Some(1_000)] {
        let mut prompt = holding([Message::user("My card is 4111.")])
            .truncate(truncate.clone())
            .with_some(budget, |it, budget| it.max_tokens(budget, Estimate));
        assert_eq!(texts(&prompt.build().unwrap()), ["My card is ####."]);
        prompt.add_all([Message::ai("No."), Message::user("Why?")]).unwrap();
        let built = prompt.build().unwrap();
        assert_eq!(texts(&built), ["My card is", "No.", "Why?"]);
        // What was counted of the whole question is not what is sent of it now.
        let counts = built.report().tokens.map(|tokens| tokens.total);
        let anew = prompt.preview().unwrap().report().tokens.map(|tokens| tokens.total);
        let composer = Composer::new().truncate(truncate.clone());
        let said = ["My card is 4111.", "No.", "Why?"];
        let said = [Message::user(said[0]), Message::ai(said[1]), Message::user(said[2])];
        let fresh = compose(&composer.max_tokens(1_000, Estimate), said);
        assert_eq!(
            (counts, anew),
            (anew, budget.and_then(|_| fresh.report().tokens.map(|it| it.total)))
        );
    }
}

/// A processor dropped a late result, and with it its group: the prompt ended in the word that it
/// had arrived, see above.
#[test]
fn a_note_tells_of_no_result_that_is_not_sent() {
    let said = conversation("u:Look. call:c u:And? a:Wait. t:c=secret");
    let composer = Composer::new().truncate(dropping(Message::is_tool));
    let prompt = compose(&composer, said);
    assert_eq!(left_out(&prompt), [(1, Reason::GroupDropped), (4, Reason::Dropped)]);
    assert_eq!((prompt.report().note.len(), texts(&prompt).len()), (0, 3), "{}", prompt.report());
}

fn summarised(window: Window, said: impl Iterator<Item = Message>, keep: usize) -> MemoryPrompt {
    let prompt = holding(said).window(window).with_summary();
    assert!(prompt.compact(&policy(keep, 2), &notes).unwrap());
    prompt
}

/// A window that reaches back to no summary left something out, and the reach was named, which
/// changes nothing there.
#[test]
fn a_window_by_itself_has_no_reach() {
    for window in [Window::last(2).exactly(), Window::last(0), Window::turns(0)] {
        let built = summarised(window, talk(5), 8).preview().unwrap();
        assert_eq!(built.report().summary, Some(2));
        assert_eq!(built.fate(4), Fate::BeforeWindow(Setting::Window), "{window}");
    }
    let mut prompt = summarised(Window::last(2), talk(5), 8);
    prompt.configure(|composer| composer.summary_reach(4));
    assert_eq!(prompt.preview().unwrap().fate(4), Fate::BeforeWindow(Setting::Reach));
    // A window of more messages than the reach decides by itself.
    prompt.configure(|composer| composer.window(Window::last(6)));
    assert_eq!(prompt.preview().unwrap().fate(3), Fate::BeforeWindow(Setting::Window));
}

/// The system record that begins a history was sent, counted, and told as covered.
#[test]
fn a_system_record_before_a_summary_is_sent() {
    let memory = remembering(talk(10));
    let prompt = MemoryPrompt::new(Arc::clone(&memory)).with_summary();
    assert!(prompt.compact(&policy(15, 2), &notes).unwrap());
    let composer = Composer::new().with_summary();
    let read = memory.read_with(&Read::newest(20).slots(composer.slots())).unwrap();
    let said = [Message::system("Be brief.")].into_iter().chain(talk(10)).take(20);
    let rows = (0..20).zip(said).map(|(position, message)| (position, UNIX_EPOCH, message));
    let snapshot =
        Snapshot::new(0..20, Records::from_rows(rows)).with_slots(read.slots().iter().cloned());
    let built = composer.compose_all(&snapshot, &[]).unwrap();
    assert_eq!((built.report().covered, built.report().summary), (3, Some(4)));
    assert_eq!((built.fate(0), built.fate(1)), (Fate::Sent, Fate::Covered(4)));
    assert!(built.outline().to_string().contains("1 to 3: covered"), "{}", built.outline());
}

/// Of a question in seventy thousand pieces each was compared with all others, in each build.
#[test]
fn a_question_in_many_pieces_takes_no_square_of_time() {
    let snapshot = Snapshot::from_messages((0..200_000).map(|_| Message::user("x")));
    let budget = Budget::new(1_000_000).stepped(100_000, 900_000).unwrap();
    let composer = Composer::new().max_tokens(budget, |text: &str| text.len());
    let (prompt, took) = computed(|| composer.compose_all(&snapshot, &[]).unwrap());
    let report = prompt.report();
    assert!(report.sent > 50_000 && !report.question.is_empty(), "{}", report.sent);
    assert!(took < Duration::from_secs(10), "{took:?}");
}

fn with_unreadable(said: impl Iterator<Item = Message>) -> Snapshot {
    let rows = (1..).zip(said).map(|(position, message)| (position, UNIX_EPOCH, message));
    let records = Records::from_rows(rows);
    let end = records.len() as u64 + 1;
    let mut snapshot = Snapshot::new(0..end, records);
    let error = Arc::new(Error::new(ErrorKind::Codec, "read", "torn"));
    snapshot.unreadable.push(Unreadable { position: 0, error });
    snapshot
}

/// What became of an unreadable row before all others hung on how many rows a window of turns
/// guesses that it reads.
#[test]
fn the_fate_of_an_unreadable_oldest_row_hangs_on_no_guess() {
    let turn = |_| {
        let question = [Message::user("Look.")];
        question.into_iter().chain((0..9).map(|i| Message::ai(format!("answer {i}"))))
    };
    let snapshot = with_unreadable((0..2).flat_map(turn));
    for n in [2, 4, 6] {
        let prompt = Composer::new().window(Window::turns(n)).compose_all(&snapshot, &[]).unwrap();
        let report = prompt.report();
        assert_eq!((report.sent, report.older, &*report.unreadable), (20, 0, &[0][..]), "{n}");
    }
    for (n, unreadable) in [(4, false), (5, true), (6, true)] {
        let snapshot = with_unreadable(talk(2));
        let prompt = Composer::new().max_messages(n).compose_all(&snapshot, &[]).unwrap();
        assert_eq!(prompt.fate(0) == Fate::Unreadable, unreadable, "{n}: {}", prompt.report());
    }
}

/// A system message among the records that the processor dropped was told as sent in its place.
#[test]
fn a_system_message_that_is_dropped_is_not_in_its_place() {
    let said = [Message::user("Hi."), Message::system("Now."), Message::user("So?")];
    let composer = Composer::new().for_provider(Provider::OpenAi);
    let prompt = compose(&composer.truncate(dropping(Message::is_system)), said);
    assert_eq!(left_out(&prompt), [(1, Reason::Dropped)]);
    assert_eq!(prompt.report().kept_systems, [0; 0]);
}

/// Groups of which a processor drops the result are not sent, and their calls filled the budget.
#[test]
fn what_a_processor_leaves_out_takes_no_room() {
    let arguments = json!({"text": "word ".repeat(200)}).to_string();
    let round = |i: usize| {
        let calls = Message::ai_calls([ToolCall::new(format!("c{i}"), "look", &arguments)]);
        [Message::user(format!("question {i}")), calls, result(format!("c{i}"), "seen")]
    };
    let composer = Composer::new().truncate(dropping(Message::is_tool));
    let budget = composer.max_tokens(2_000, Estimate);
    let said: Vec<_> = (0..20).flat_map(round).chain([Message::user("So?")]).collect();
    let prompt = compose(&budget, said.clone());
    assert_eq!((prompt.report().sent, prompt.report().over_budget), (21, 0), "{}", prompt.report());

    // A pinned group that is left out takes none either.
    let mut prompt = holding(said)
        .with_pins()
        .max_messages(1)
        .truncate(dropping(Message::is_tool))
        .max_tokens(100, Estimate);
    prompt.pin(1).unwrap();
    assert_eq!(texts(&prompt.build().unwrap()), ["So?"]);
}

/// Whether the window had grown over a number of tokens was counted anew in each build, though that
/// is looked at only where the boundary moves.
#[test]
fn what_decides_that_results_are_cleared_is_counted_once() {
    let calls = Arc::new(AtomicUsize::new(0));
    let called = Arc::clone(&calls);
    let counter = move |text: &str| {
        called.fetch_add(1, Ordering::Relaxed);
        text.len()
    };
    let clear = Clear::tool_results().keep(1).step(1).over(1_000);
    let mut prompt =
        holding(rounds(10, 500)).window(Window::all()).max_tokens(1_000_000, counter).clear(clear);
    assert_eq!(prompt.build().unwrap().report().cleared.len(), 9);
    let first = calls.load(Ordering::Relaxed);
    assert_eq!(prompt.build().unwrap().report().cleared.len(), 9);
    assert_eq!(calls.load(Ordering::Relaxed), first);
}

/// A result that names no tool was quoted as one of the tool `""`, and a tag above U+FFFF as a
/// character of four digits and one digit.
#[test]
fn what_is_quoted_reads_in_one_way() {
    let call = Message::ai_calls([ToolCall::new("c", "", "{}")]);
    let nameless = Message::tool("c", "", "The harbour\u{e0041} is open.");
    let said = [call, nameless, Message::ai("So."), Message::user("Is the harbour open?")];
    let recall = Recall::words().tool_results();
    let mut prompt = holding(said).max_messages(1).recall(recall);
    let built = prompt.build().unwrap();
    let quoted = texts(&built).concat();
    assert!(quoted.contains("harbour\\u{e0041} is open"), "{quoted}");
    assert!(quoted.contains("1 tool \"The"), "{quoted}");
}

/// A temporary system message, which is joined to the others, was counted among the temporary
/// messages of the prompt.
#[test]
fn a_temporary_system_message_is_no_message_of_its_own() {
    let mut prompt = holding([Message::user("Hi.")]);
    prompt.add_temporary(Message::system("It is noon."));
    prompt.add_temporary(Message::user("Be quick."));
    let built = prompt.build().unwrap();
    assert_eq!((built.len(), built.report().temporaries), (3, 1));
}

/// A memory returned a reference in the place of a picture though none was asked for, and each
/// build read it for ever.
#[test]
fn a_memory_that_returns_references_unasked_fails_the_build() {
    let reference = json!({"sha256": "00ff".repeat(16), "size": 7});
    let part = json!({"type": "image", "reference": reference, "media_type": "image/png"});
    let message = json!({"role": "user", "content": [part]});
    let message: Message = serde_json::from_value(message).unwrap();
    let reads = AtomicUsize::new(0);
    let read = move |_: &DefaultChatMemory, _: &Read| {
        assert!(reads.fetch_add(1, Ordering::Relaxed) < 9, "it reads for ever");
        Ok(Snapshot::from_messages([Message::user("hi"), message.clone()]))
    };
    let prompt = MemoryPrompt::new(Reading::new(&remembering([]), read));
    let error = prompt.preview().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Storage);
    let told = "read: unasked reference to media at position 1";
    assert_eq!(error.to_string(), told);
}
