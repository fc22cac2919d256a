//! What is owed a place in a prompt, whatever gives way: the newest group and the question of its
//! turn. Each test here that is no law began as somebody's conversation.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::conversations::{brief, conversation, late_results, stored};
use crate::counted::counted;
use crate::notation;
use crate::said::words;
use crate::sent::{left_out, position, positions};
use crate::setups::{Drawn, all, budget, compose, holding, letters, providers};
use memory_prompt::compose::Notice;
use memory_prompt::conversation::{Asking, ModelError};
use memory_prompt::message::UserMessage;
use memory_prompt::recall::Recall;
use memory_prompt::report::{Origin, Reason};
use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::turn::{Next, OnInterrupt, Reply, ToolError, Turn};
use memory_prompt::{
    Budget, Composer, Conversation, Error, ErrorKind, MemoryPrompt, Message, Prompt, Provider,
    Result, Tool, ToolCall, Truncate, Window,
};
use proptest::prelude::*;

/// A text that counts as many tokens as it says: texts of ordinary sizes, without writing them.
fn said(text: &str) -> usize {
    text.split_whitespace().map(|word| word.parse().unwrap_or(1)).sum()
}

fn x(n: usize) -> String {
    "x".repeat(n)
}

/// An answer with calls of these ids, and what answers them.
fn group(ids: impl IntoIterator<Item = String>, result: &str) -> Vec<Message> {
    let ids: Vec<String> = ids.into_iter().collect();
    let calls = ids.iter().map(|id| ToolCall::new(id.clone(), "look", "{}"));
    let mut group = vec![Message::ai_calls(calls)];
    group.extend(ids.iter().map(|id| Message::tool(id.clone(), "look", result)));
    group
}

fn is_made_up(prompt: &Prompt) -> bool {
    let mut added = prompt.with_origins().filter(|(origin, _)| *origin == Origin::Added);
    added.any(|(_, message)| message.text() == "(start of the conversation)")
}

/// What an agent is asked in these stories.
const TASK: &str = "Tidy up these folders.";

/// The model is told what it is to do.
#[track_caller]
fn assert_asked(prompt: &Prompt, told: &str) {
    let is_asked = prompt.iter().any(|it| it.text().contains(TASK));
    assert!(is_asked, "{told}: {}\n{}", brief(prompt), prompt.report());
}

fn calls(round: usize, calls: usize) -> Message {
    Message::ai_calls((0..calls).map(|i| ToolCall::new(format!("c{round}_{i}"), "look", "{}")))
}

// A running turn

/// An agent made five calls in each answer, with all defaults. From the twentieth prompt on its
/// model saw calls and results and no task.
#[test]
fn a_running_turn_keeps_its_question_however_long_it_runs() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let model = move |ask: &Asking<'_>| -> Result<Reply, ModelError> {
        let mut seen = seen.lock().unwrap();
        seen.push(ask.prompt().clone());
        let is_over = seen.len() == 25;
        Ok(Reply::from(if is_over { Message::ai("Done.") } else { calls(seen.len(), 5) }))
    };
    let looks = |_: serde_json::Value| Ok::<_, ToolError>("a folder");
    let tool = Tool::new("look", "Looks.").repeatable();
    Conversation::new(holding([]), model).tool(tool, looks).say(TASK).unwrap();
    for (i, prompt) in asked.lock().unwrap().iter().enumerate() {
        assert_asked(prompt, &format!("at {i}"));
    }
}

/// A turn for this, of as many rounds as it takes.
fn looking(mut turn: Turn) -> Turn {
    turn = turn.tools([Tool::new("look", "Looks.").repeatable()]);
    turn.max_rounds(u32::MAX)
}

/// Runs these rounds of a turn, to which the user adds something after each `steered` rounds, and
/// returns its prompts.
fn run(
    turn: &mut Turn,
    prompt: &MemoryPrompt,
    rounds: &[usize],
    steered: usize,
) -> Result<Vec<Prompt>> {
    let (mut prompts, mut rounds) = (Vec::new(), rounds.iter().enumerate());
    loop {
        match turn.next(prompt)? {
            Next::Ask(ask) => {
                prompts.push(ask.prompt().clone());
                let Some((round, calls)) = rounds.next() else { return Ok(prompts) };
                turn.answer(self::calls(round, *calls))?;
            }
            Next::Call(calls) => {
                for call in calls {
                    turn.result(call.id(), Ok::<_, ToolError>("a result"))?;
                }
                if steered > 0 && prompts.len().is_multiple_of(steered) {
                    turn.steer("Quick!")?;
                }
            }
            Next::Done(done) => panic!("{done:?}"),
        }
    }
}

/// A turn was interrupted after sixty rounds, and stored. Its request came again under its id and
/// went on behind what was stored, and its model saw calls and results and no task.
#[test]
fn a_request_that_goes_on_behind_a_long_turn_keeps_its_question() {
    for tokens in [None, Some(600)] {
        let prompt = holding([]).with_some(tokens, |it, tokens| it.max_tokens(tokens, letters));
        let request = || looking(Turn::new(TASK).with_id("request 1"));
        let mut first = request();
        run(&mut first, &prompt, &[3; 60], 0).unwrap();
        first.interrupt(OnInterrupt::Keep);
        assert!(matches!(first.next(&prompt).unwrap(), Next::Done(_)));
        for prompt in run(&mut request(), &prompt, &[3; 20], 0).unwrap() {
            assert_asked(&prompt, &format!("{tokens:?}"));
        }
    }
}

/// The user added a word to a turn whose window has one message: the model was sent that word
/// alone.
#[test]
fn a_running_turn_keeps_its_question_where_the_user_adds_to_it() {
    for n in 1..4 {
        let mut prompt = holding([]).max_messages(n);
        let mut turn = looking(prompt.turn(Message::user(TASK)));
        for prompt in run(&mut turn, &prompt, &[2; 12], 3).unwrap() {
            assert_asked(&prompt, &format!("last({n})"));
        }
    }
}

// Loops

/// What an agent was asked, and what it did: the conversation before its turn, the messages of the
/// question, and how many calls each answer made.
#[derive(Clone, Debug)]
struct Agent {
    before: usize,
    asked: usize,
    rounds: Vec<usize>,
}

fn agents(rounds: usize) -> impl Strategy<Value = Agent> {
    let calls = prop_oneof![
        1 => (1usize..6).prop_map(move |n| vec![n; rounds]),
        1 => proptest::collection::vec(1usize..6, rounds),
    ];
    let agent = |(before, asked, rounds)| Agent { before, asked, rounds };
    (0usize..6, 1usize..4, calls).prop_map(agent)
}

impl Agent {
    fn opening(&self) -> Vec<Message> {
        let before = (0..self.before).map(|i| match (self.before + i) % 2 {
            0 => Message::ai(format!("answer {i}")),
            _ => Message::user(format!("earlier {i}")),
        });
        before.chain((0..self.asked).map(|i| Message::user(format!("question {i}")))).collect()
    }

    fn round(round: usize, calls: usize, result: &str) -> Vec<Message> {
        group((0..calls).map(|i| format!("c{round}_{i}")), result)
    }
}

/// How often a prompt does not begin with what the one before held for good.
fn breaks(prompts: &[Prompt]) -> usize {
    let pairs = prompts.windows(2);
    let broken = pairs.filter(|pair| {
        let held = pair[0].cacheable();
        !pair[0].iter().take(held).eq(pair[1].iter().take(held))
    });
    broken.count()
}

fn windows() -> impl Strategy<Value = (Window, Option<usize>)> {
    prop_oneof![
        3 => (1usize..40, 2usize..40).prop_map(|(low, step)| {
            (Window::stepped(low, step).unwrap(), Some(step))
        }),
        1 => Just((Window::all(), None)),
        1 => (1usize..4).prop_map(|n| (Window::turns(n), None)),
    ]
}

/// One question and two hundred calls, and the start of the history slid: all calls stood at odd
/// positions, none of which can be halved.
#[test]
fn a_stepped_budget_does_not_slide_in_a_tool_loop() {
    for odd in [false, true] {
        let budget = Budget::new(20_000).stepped(4_000, 8_000).unwrap();
        let mut prompt = holding([]).max_tokens(budget, letters);
        let mut appended = 0;
        let mut prompts = Vec::new();
        if odd {
            prompt.add(Message::ai("Hello.")).unwrap();
        }
        prompt.add(Message::user("Which of these files is the oldest?")).unwrap();
        for round in 0..200 {
            let group = Agent::round(round, 1, &x(90));
            appended += group.iter().map(|it| letters.count(it).unwrap()).sum::<usize>();
            prompt.add_all(group).unwrap();
            prompts.push(prompt.build().unwrap());
        }
        let broken = breaks(&prompts);
        assert!(broken <= 2 * appended / 4_000 + 1, "{broken} of 199, {odd}");
    }
}

counted! {
    #![cases(12)]

    /// "It hands its question's position in": no window and no bound loses it.
    #[test]
    fn a_running_turn_is_sent_its_question(
        Agent { before, rounds, .. } in agents(200), window in windows(), last in proptest::option::of(1usize..30),
        marked in any::<bool>(), tokens in proptest::option::weighted(0.4, 400usize..4_000),
        provider in proptest::option::of(providers()), steered in 0usize..5,
    ) {
        let window = last.map_or(window.0, Window::last);
        let mut prompt = holding(Agent { before, asked: 0, rounds: Vec::new() }.opening())
            .window(window)
            .with_some(provider, MemoryPrompt::for_provider)
            .with_some(tokens, |it, tokens| it.max_tokens(budget(tokens, marked), letters));
        let mut turn = looking(prompt.turn(Message::user(TASK)));
        let prompts = run(&mut turn, &prompt, &rounds, steered).unwrap();
        prop_assert_eq!(prompts.len(), 201);
        for (i, prompt) in prompts.iter().enumerate() {
            assert_asked(prompt, &format!("at {i}"));
        }
    }

    /// In a loop a window moves at most once a step, whatever the positions of the calls.
    #[test]
    fn a_window_moves_at_most_once_a_step_in_a_loop(
        agent in agents(200), (window, step) in windows(), provider in proptest::option::of(providers()),
        user in any::<bool>(),
    ) {
        let window = window.with_if(user, Window::starting_with_user);
        let prompt = holding(agent.opening()).window(window);
        let mut prompt = prompt.with_some(provider, MemoryPrompt::for_provider);
        let mut prompts = vec![prompt.build().unwrap()];
        let mut appended = 0;
        for (round, calls) in agent.rounds.iter().enumerate() {
            appended += calls + 1;
            prompt.add_all(Agent::round(round, *calls, "a result")).unwrap();
            prompts.push(prompt.build().unwrap());
        }
        let most = step.map_or(0, |step| (agent.before + agent.asked + appended) / step + 1);
        let broken = breaks(&prompts);
        prop_assert!(broken <= most, "{broken} of {most}");
    }

    /// A budget's start moves on average no more often than twice in what lies between its marks.
    #[test]
    fn a_stepped_budget_moves_seldom_in_a_loop(
        agent in agents(200), low in 1usize..4_000, room in 1_000usize..6_000,
        provider in proptest::option::of(providers()), sizes in proptest::collection::vec(0usize..100, 200),
        phase in proptest::option::of(prop_oneof![1usize..8, 25usize..100]),
    ) {
        // What a provider is sent in the place of empty results has room above the marks.
        let budget = Budget::new(3 * (low + room)).stepped(low, low + room).unwrap();
        let opening = agent.opening();
        let mut appended = opening.iter().map(|it| letters.count(it).unwrap()).sum::<usize>();
        let prompt = holding(opening).max_tokens(budget, letters);
        let mut prompt = prompt.with_some(provider, MemoryPrompt::for_provider);
        let mut prompts = vec![prompt.build().unwrap()];
        for (round, (calls, size)) in agent.rounds.iter().zip(&sizes).enumerate() {
            // Results of any size, or of small ones and large ones in turns.
            let size = phase.map_or(*size, |phase| if round / phase % 2 == 0 { 2 } else { 99 });
            // A group has at most a tenth of what lies between the marks.
            let size = (room / 10 / (calls + 1) * size / 100).saturating_sub(20);
            let group = Agent::round(round, *calls, &x(size));
            appended += group.iter().map(|it| letters.count(it).unwrap()).sum::<usize>();
            prompt.add_all(group).unwrap();
            prompts.push(prompt.build().unwrap());
        }
        // Where all sizes change for good, it moves a few times more on the way.
        let changes = phase.filter(|phase| *phase > 8).map_or(0, |phase| 199 / phase);
        let (broken, most) = (breaks(&prompts), 2 * appended / room + 1);
        prop_assert!(broken <= most + 4 * changes, "{broken} of {most} and {changes}");
    }
}

// Budgets

/// A page of text with a question, and two pages that a tool read. Anthropic was sent "(start of
/// the conversation)" and the two pages, and OpenAI the question.
#[test]
fn the_question_is_sent_before_anything_of_its_turn() {
    let budget = Budget::new(8_000).stepped(3_000, 6_000).unwrap();
    let history = "u:800 a:1200 u:3100_Translate_this. call:c1 t:c1=1500 call:c2 t:c2=1500";
    let history = notation::conversation(history);
    for provider in all() {
        let composer = Composer::new().max_tokens(budget, said).for_provider(provider);
        let prompt = compose(&composer, &history, &[]).unwrap();
        assert!(positions(&prompt).contains(&2), "{provider}: {}", prompt.report());
        assert!(!is_made_up(&prompt), "{provider}: {}", prompt.report());
    }
}

/// The question had four parts in a hundred of the room, and was left out as too much.
#[test]
fn a_question_that_fits_is_never_over_the_budget() {
    let call = |id: &str| Message::ai_calls([ToolCall::new(id, "", x(10))]);
    let [u5, u44] = [5, 44].map(|n| Message::user(x(n)));
    let mut history = vec![u5.clone(), Message::ai(x(5))];
    history.extend([call("c"), Message::tool("c", "", x(10)), u44.clone()]);
    history.extend([call("d"), Message::tool("d", "", x(6)), Message::ai(x(24)), u5]);
    history.extend([u44, Message::ai(x(64)), Message::ai(x(9))]);
    for tokens in 90..200 {
        for provider in [Provider::Vllm, Provider::OpenAi, Provider::Anthropic] {
            let composer = Composer::new().max_tokens(tokens, letters).for_provider(provider);
            let Ok(prompt) = compose(&composer, &history, &[]) else { continue };
            assert!(positions(&prompt).contains(&9), "{tokens}: {}", prompt.report());
        }
    }
}

/// Returns how many messages the largest of these budgets sends, of which none sends fewer than a
/// smaller one; unless something is left out alone, where that is free.
#[track_caller]
fn never_fewer(
    composer: &Composer,
    (tokens, counter): (Range<usize>, fn(&str) -> usize),
    history: &[Message],
    free: bool,
) -> usize {
    let mut most = 0;
    for tokens in tokens {
        let composer = composer.clone().max_tokens(tokens, counter);
        let Ok(prompt) = compose(&composer, history, &[]) else { continue };
        let sent = positions(&prompt).len();
        let is_free = free && is_over_budget(&prompt);
        assert!(sent >= most || is_free, "{tokens}: {sent} of {most}\n{}", prompt.report());
        most = if is_free { most } else { sent };
    }
    most
}

/// With 202 tokens three messages were sent, and with 220 to 247 one: questions that were put in
/// front did not count when fewer messages were tried.
#[test]
fn a_larger_budget_sends_no_fewer_of_four_messages() {
    let history =
        [Message::ai(x(40)), Message::user(x(60)), Message::ai(x(40)), Message::user(x(60))];
    let composer = Composer::new().for_provider(Provider::DeepSeek);
    assert_eq!(never_fewer(&composer, (60..300, letters), &history, false), 4);
}

/// The question of two messages counted as one unit where it was owed its place, and as two where
/// it was met on the way. So two units fewer were tried than were sent, and with a larger budget
/// two messages were left of six.
#[test]
fn a_larger_budget_sends_no_fewer_where_a_question_has_two_messages() {
    let mut history = vec![Message::ai(x(5)), Message::user(x(60))];
    history.extend(group(["c0".to_owned(), "c0".to_owned()], &x(40)));
    history.extend(group(["c1".to_owned(), "c2".to_owned()], &x(60)));
    history.extend([Message::user(x(46)), Message::user(x(43))]);
    let composer = Composer::new().for_provider(Provider::ClaudeOnBedrock).notice(Notice::new());
    assert_eq!(never_fewer(&composer, (300..900, letters), &history, true), 10);
}

/// A late result takes the first call of the history along, and nothing stands before that. But the
/// question between the two was taken for something older that is left out, a question for the call
/// was looked for and not found, and the whole turn went.
#[test]
fn a_larger_budget_sends_no_fewer_where_a_late_result_takes_the_first_call_along() {
    let call = notation::message("call:c0,c1,c2");
    let mut history = vec![call, Message::user(x(60)), Message::ai(x(60))];
    history.push(Message::tool("c2", "look", ""));
    history.extend(group(["d0".to_owned(), "d1".to_owned()], &x(60)));
    history.extend([Message::user(x(60)), Message::ai(x(20))]);
    history.extend(group(["e0".to_owned(), "e1".to_owned()], &x(60)));
    let composer = Composer::new().for_provider(Provider::Gemini).notice(Notice::new());
    assert_eq!(never_fewer(&composer, (300..1_000, letters), &history, true), history.len());
}

/// The result of an old booking came late, and the window had no room for the question of that
/// turn. So six messages were left out up to the newest question, with the exchange in the middle.
#[test]
fn a_window_opens_with_the_next_question_where_there_is_no_room_for_the_one_of_a_late_result() {
    let history = notation::conversation(
        "u:book call:c1 u:and_the_weather? t:c1=late call:c2 t:c2=sunny a:Sunny. u:thanks u:bye",
    );
    let sent = |n| {
        let composer = Composer::new().for_provider(Provider::Anthropic).max_messages(n);
        positions(&compose(&composer, &history, &[]).unwrap())
    };
    assert_eq!(sent(6), [2, 4, 5, 6, 7, 8]);
    assert_eq!(sent(7), [2, 4, 5, 6, 7, 8]);
    assert_eq!(sent(8), [0, 1, 3, 4, 5, 6, 7, 8]);
}

/// With 51 to 70 words five messages were sent, and with 71 to 199 one: a message that was added
/// while the turn ran was not taken for the user's.
#[test]
fn a_larger_budget_sends_no_less_behind_a_steered_message() {
    let mut history = vec![Message::user("w ".repeat(300)), Message::ai("I am at it, wait.")];
    history.extend(group(["a".to_owned()], "w w w"));
    history.push(UserMessage::new("only in town, please").steered().into());
    history.extend(group(["b".to_owned()], "w w w"));
    history.extend([Message::ai("done both"), Message::user("and now?")]);
    for provider in [Provider::Anthropic, Provider::Mistral] {
        let composer = Composer::new().for_provider(provider);
        let sent = never_fewer(&composer, (40..300, words), &history, true);
        assert_eq!(sent, 5, "the question of 300 words has no room");
    }
}

/// With 9 to 18 tokens the question was sent, and from 19 to 24 nothing: there was room for
/// something older, but not with the notice that this asked for.
#[test]
fn a_notice_gives_way_before_a_build_fails() {
    let old = format!("old_answer_{}", "word_".repeat(6));
    let history = format!("u:old_question_0 a:{old} u:old_question_1 a:{old} u:new_question");
    let history = notation::conversation(&history);
    let composer = |tokens| Composer::new().notice(Notice::new()).max_tokens(tokens, Estimate);
    let kind = compose(&composer(1), &history, &[]).unwrap_err().kind();
    let ErrorKind::Budget { needed, .. } = kind else { panic!("{kind:?}") };
    for tokens in needed..60 {
        let prompt = compose(&composer(tokens), &history, &[]).unwrap();
        assert!(positions(&prompt).contains(&4), "{}", prompt.report());
    }
}

/// A window that stands alone owes the question nothing, but counted it so: with 33 to 42 tokens it
/// was sent, with 43 to 50 a made-up opening in its place.
#[test]
fn a_larger_budget_keeps_the_question_of_a_window_that_stands_alone() {
    let mut history = vec![Message::ai("Hello, how can I help you?")];
    history.push(Message::user("What is in these eight files?"));
    history.extend(group(["a".to_owned()], &"w ".repeat(20)));
    let composer = Composer::new().window(Window::all().exactly());
    let composer = composer.for_provider(Provider::Anthropic);
    assert_eq!(never_fewer(&composer, (20..80, words), &history, false), history.len());
}

/// A call of a loop of one's own had no result, and the note of a turn of a dead process stood
/// between it and the result that is made up for it: every provider refuses that.
#[test]
fn the_note_of_a_turn_parts_no_call_from_what_answers_it() {
    let providers = [Provider::OpenAi, Provider::Anthropic, Provider::Mistral, Provider::Gemini];
    for provider in providers.map(Some).into_iter().chain([None]) {
        for answered in ["", " t:c/taxi=comes"] {
            let mut prompt = holding([]).with_some(provider, MemoryPrompt::for_provider);
            let mut dead = prompt.turn("Book a room.");
            let Next::Ask(_) = dead.next(&prompt).unwrap() else { panic!() };
            dead.answer(notation::message("call:a/book")).unwrap();
            let Next::Call(_) = dead.next(&prompt).unwrap() else { panic!() };
            drop(dead);
            let history = format!("u:And_a_taxi. call:b/taxi,c/taxi{answered}");
            prompt.add_all(notation::conversation(&history)).unwrap();
            let mut turn = prompt.turn("Well?");
            let Next::Ask(ask) = turn.next(&prompt).unwrap() else { panic!() };
            let kinds: Vec<_> = ask.prompt().iter().map(Message::is_tool).collect();
            let calls = ask.prompt().iter().position(Message::has_tool_calls).unwrap();
            assert_eq!(kinds[calls + 1..calls + 3], [true, true], "{provider:?}: {kinds:?}");
            let note = ask.prompt().iter().position(|it| it.text().contains("Begun earlier"));
            assert!(note > Some(calls + 2), "{provider:?}: {note:?}");
        }
    }
}

/// The newest message alone was too long, so one cut was made, and then the first message was left
/// out, though all three fit when cut to a quarter.
#[test]
fn long_messages_are_cut_before_any_is_dropped_where_one_alone_is_too_long() {
    let history = [Message::ai(x(23)), Message::user("x"), Message::ai(x(60))];
    let composer = Composer::new()
        .truncate(Truncate::chars(64).unwrap())
        .max_tokens(Budget::new(60).cut_before_drop(), letters);
    let prompt = compose(&composer, &history, &[]).unwrap();
    assert_eq!(positions(&prompt), [0, 1, 2], "{}", prompt.report());
    assert_eq!(prompt.report().tokens.unwrap().cut_to, Some(16));
}

counted! {
    #![cases(108)]

    /// A budget that had no room for its notice gave up the first message of the question, and sent
    /// older steps in its place; a larger one sent that message, and fewer in all.
    #[test]
    fn steps_leave_before_the_first_message_of_the_question(
        size in 30usize..150, step in 10usize..60,
    ) {
        let mut history = vec![Message::user(x(size)), Message::user("b"), Message::ai(x(step))];
        history.extend(group(["c0".to_owned()], &x(step)));
        history.extend(group(["c1", "c2", "c3"].map(str::to_owned), "a"));
        let mut before = 0;
        for tokens in 3..600 {
            let composer = budgeted(tokens, None, None).notice(Notice::new());
            let Ok(prompt) = compose(&composer, &history, &[]) else { continue };
            if is_over_budget(&prompt) || has_larger_than((tokens - 3) / 2, &history) {
                continue;
            }
            let sent = positions(&prompt).len();
            assert!(sent >= before, "{size}, {tokens}: {sent} of {before}\n{}", prompt.report());
            before = sent;
        }
        assert_eq!(before, history.len());
    }
}

/// A notice that nobody needed was paid for, and the build failed for it.
#[test]
fn a_notice_that_is_not_sent_takes_no_room() {
    let history = [Message::user(x(20)), Message::ai(x(20)), Message::user(x(5))];
    for tokens in 0..140 {
        let composer = Composer::new().max_tokens(tokens, letters);
        let without = compose(&composer, &history, &[]);
        let with = compose(&composer.notice(Notice::new()), &history, &[]);
        if let Some(without) = without.ok().filter(|it| it.report().sent == 3) {
            assert_eq!(with.unwrap().to_messages(), without.to_messages(), "{tokens}");
        }
    }
}

/// The call of a late result opened a prompt whose window wants the user first.
#[test]
fn a_window_opens_with_the_user_where_a_late_result_brings_an_older_call() {
    let history = notation::conversation("u:zero call:c u:two t:c=late u:four a:five");
    let composer = Composer::new().window(Window::last(4).starting_with_user());
    let prompt = compose(&composer, &history, &[]).unwrap();
    assert!(prompt[0].is_user(), "{}", brief(&prompt));
    assert!(left_out(&prompt).contains(&(3, Reason::RestOfTurn)), "{}", prompt.report());
}

/// The next question was too large for the budget and left out alone, and the prompt began on the
/// answer to it.
#[test]
fn a_window_opens_with_the_user_where_the_next_question_is_left_out_alone() {
    let history = notation::conversation(&format!("u:one a:1 u:{} a:2 u:three a:3", x(90)));
    let window = Window::all().starting_with_user();
    let mut opened = 0;
    for tokens in 20..160 {
        let composer = Composer::new().window(window).max_tokens(tokens, letters);
        let Ok(prompt) = compose(&composer, &history, &[]) else { continue };
        assert!(prompt[0].is_user(), "{tokens}: {}\n{}", brief(&prompt), prompt.report());
        opened += 1;
    }
    assert!(opened > 100);
}

// Laws of budgets

/// A conversation of some turns at ordinary sizes, in parts of the budget: the last of them runs.
fn ordinary() -> impl Strategy<Value = (usize, Vec<Message>)> {
    let size = prop_oneof![4 => 1usize..400, 3 => 400usize..4_000, 1 => 4_000usize..7_000];
    let turn = (size.clone(), proptest::collection::vec((size, 1usize..4), 0..5), any::<bool>());
    let turns = proptest::collection::vec(turn, 1..5);
    (8_000usize..200_000, turns).prop_map(|(tokens, turns)| {
        let part = |of: usize| (of * tokens / 10_000).max(1).to_string();
        let mut messages = Vec::new();
        let last = turns.len() - 1;
        for (i, (question, steps, answered)) in turns.into_iter().enumerate() {
            messages.push(Message::user(part(question)));
            for (j, (size, calls)) in steps.into_iter().enumerate() {
                let ids = (0..calls).map(|k| format!("c{i}_{j}_{k}"));
                messages.extend(group(ids, &part(size / calls)));
            }
            if answered || i < last {
                messages.push(Message::ai(part(question / 3)));
            }
        }
        (tokens, messages)
    })
}

/// The tokens of what is owed a place: the newest group, and the question of the newest turn.
fn owed(counter: fn(&str) -> usize, messages: &[Message]) -> usize {
    let question = messages.iter().rposition(Message::is_user).unwrap();
    let head = messages.iter().rposition(|it| !it.is_tool()).unwrap();
    let newest = head..messages.len();
    let question = Some(question).filter(|it| !newest.contains(it));
    let places = newest.chain(question);
    places.map(|place| counter.count(&messages[place]).unwrap()).sum()
}

counted! {
    #![cases(1_000)]

    /// Whatever the sizes: the question is sent, or it and the newest group are too much.
    #[test]
    fn the_question_is_sent_at_ordinary_sizes(
        (tokens, messages) in ordinary(), provider in proptest::option::of(providers()),
        marked in any::<bool>(), user in any::<bool>(),
    ) {
        let (low, high) = (tokens * 3 / 8, tokens * 3 / 4);
        let budget = Budget::new(tokens).with_if(marked, |it| it.stepped(low, high).unwrap());
        let composer = Composer::new()
            .window(Window::all().with_if(user, Window::starting_with_user))
            .max_tokens(budget, said)
            .with_some(provider, Composer::for_provider);
        let question = messages.iter().rposition(Message::is_user).unwrap();
        match compose(&composer, &messages, &[]) {
            Ok(prompt) => {
                let report = prompt.report();
                prop_assert!(positions(&prompt).contains(&(question as u64)), "{report}");
                prop_assert!(!is_made_up(&prompt), "{report}");
            }
            Err(error) => {
                let ErrorKind::Budget { .. } = error.kind() else { panic!("{error}") };
                let owed = owed(said, &messages) + 3;
                // What a provider is sent besides has some tens of tokens.
                prop_assert!(owed + 60 > tokens, "{owed} of {tokens}: {error}");
            }
        }
    }
}

fn budgeted(tokens: usize, window: Option<Window>, provider: Option<Provider>) -> Composer {
    Composer::new()
        .max_tokens(tokens, letters)
        .with_some(window, Composer::window)
        .with_some(provider, Composer::for_provider)
}

fn any_window() -> impl Strategy<Value = Option<Window>> {
    let kind = prop_oneof![
        (1usize..12).prop_map(Window::last),
        (1usize..5).prop_map(Window::turns),
        Just(Window::all()),
        (1usize..8, 1usize..8).prop_map(|(low, step)| Window::stepped(low, step).unwrap()),
    ];
    let window = (kind, any::<bool>())
        .prop_map(|(window, user)| window.with_if(user, Window::starting_with_user));
    proptest::option::of(window)
}

/// Returns whether something has more than so many tokens: a message, calls with what stands
/// directly behind them, or a question in several messages.
fn has_larger_than(most: usize, messages: &[Message]) -> bool {
    let (mut group, mut question) = (0, 0);
    messages.iter().filter(|it| !it.is_private()).any(|message| {
        let tokens = letters.count(message).unwrap();
        group = if message.is_tool() { group } else { 0 } + tokens;
        question = if message.as_ai().is_some() { 0 } else { question };
        question += if message.is_user() { tokens } else { 0 };
        group.max(question) > most
    })
}

/// Returns whether a question in several messages is sent before the window, other than the newest.
fn has_older_questions(prompt: &Prompt, messages: &[Message]) -> bool {
    let question = &prompt.report().question;
    let parts = |pair: &[u64]| {
        let [a, b] = [pair[0], pair[1]].map(|it| usize::try_from(it).unwrap());
        let newest = messages.iter().rposition(Message::is_user);
        messages[a..b].iter().all(|it| it.as_ai().is_none())
            && newest.is_some_and(|it| messages[b..it].iter().any(|it| it.as_ai().is_some()))
    };
    question.windows(2).any(parts)
}

fn is_over_budget(prompt: &Prompt) -> bool {
    prompt.report().left_out.iter().any(|it| it.why == Reason::OverBudget)
}

counted! {
    #![cases(1_000)]

    /// Where no group and no question has more than half of the smaller room, a larger budget sends
    /// no fewer, for any provider, with a notice or without.
    ///
    /// A group of more than that is left out alone by the smaller budget, and what is older is
    /// sent. A larger one may send it, which takes the room of others, or have twice its size, and
    /// then a group that does not fit ends the history. So there is no law about pairs with such a
    /// group, nor about those of which the smaller one sends all of an older turn's question, that
    /// has several messages, before the window: the larger one may begin in the middle of it.
    #[test]
    fn a_larger_budget_sends_no_less(
        conversation in conversation(12), provider in proptest::option::weighted(0.95, providers()),
        tokens in 20usize..900, more in 1usize..200, window in any_window(), noticed in any::<bool>(),
    ) {
        let stored = stored(&conversation);
        let composed = |tokens| {
            let composer = budgeted(tokens, window, provider);
            let composer = composer.with_if(noticed, |it| it.notice(Notice::new()));
            compose(&composer, &stored, &[])
        };
        let Ok(smaller) = composed(tokens) else { return Ok(()) };
        if is_over_budget(&smaller) || has_larger_than((tokens - 3) / 2, &stored) {
            return Ok(());
        }
        match composed(tokens + more) {
            Ok(larger) => {
                let [a, b] = [&smaller, &larger].map(positions);
                // A notice speaks for the user, who is then sent no blank message.
                let is_blank = |it: &&u64| {
                    let mut left = larger.report().left_out.iter();
                    left.any(|left| left.position == **it && left.why == Reason::Blank)
                };
                let least = a.iter().filter(|it| !is_blank(it)).count();
                // With the closings of its calls a group may be larger than it was said.
                let sent = |prompt: &Prompt| has_larger_than((tokens - 3) / 2, &prompt.to_messages());
                let is_told = has_older_questions(&smaller, &stored) || sent(&smaller) || sent(&larger);
                prop_assert!(b.len() >= least || is_told, "{tokens}: {a:?}, {}: {b:?}\n{}\n{}\n{}", tokens + more, brief(&stored), smaller.report(), larger.report());
            }
            Err(error) => prop_assert!(false, "{error}\n{}\n{}", brief(&stored), smaller.report()),
        }
    }

    /// The number that an error names is the least budget with which the prompt can be built.
    #[test]
    fn an_error_names_the_least_budget(
        conversation in conversation(8), provider in proptest::option::of(providers()),
        tokens in 0usize..120, window in any_window(), noticed in any::<bool>(),
        limit in proptest::option::weighted(0.2, 1usize..40),
    ) {
        let stored = stored(&conversation);
        let composed = |tokens| {
            let composer = budgeted(tokens, window, provider)
                .with_if(noticed, |it| it.notice(Notice::new()))
                .with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()));
            compose(&composer, &stored, &[])
        };
        let needed = |result: Result<Prompt>| match result.as_ref().map_err(Error::kind) {
            Err(ErrorKind::Budget { needed, .. }) => Some(needed),
            _ => None,
        };
        let Some(least) = needed(composed(tokens)) else { return Ok(()) };
        let built = composed(least);
        prop_assert!(built.is_ok(), "{least}: {built:?}\n{}", brief(&stored));
        prop_assert_eq!(needed(composed(least - 1)), Some(least), "{}", brief(&stored));
    }

    /// A build that recalls something fails only where it fails without.
    #[test]
    fn recall_fails_no_build(
        conversation in conversation(12), provider in proptest::option::of(providers()),
        tokens in 20usize..300, window in any_window(), asked in 1usize..200, kept in any::<bool>(),
    ) {
        let mut prompt = holding(stored(&conversation));
        prompt.configure(|_| budgeted(tokens, window, provider));
        let without = prompt.preview();
        let recall = Recall::words().tokens(asked);
        prompt.set_recall(recall.with_if(kept, Recall::keep_free));
        let with = prompt.preview();
        prop_assert_eq!(with.is_ok(), without.is_ok(), "{:?}, {:?}", with, without);
    }

    /// A window that wants the user first opens with the user, unless nobody asked anything that
    /// is sent, or a result that came late is news of the first turn and brings its call along.
    #[test]
    fn a_window_that_wants_the_user_first_opens_with_the_user(
        conversation in conversation(14), late in late_results(24), tokens in proptest::option::of(20usize..400),
        window in any_window(), is_late in any::<bool>(),
    ) {
        let stored = if is_late { late } else { stored(&conversation) };
        let window = window.unwrap_or(Window::last(10)).starting_with_user();
        let composer = Composer::new().window(window);
        let composer = composer.with_some(tokens, |it, tokens| it.max_tokens(tokens, letters));
        let Ok(prompt) = compose(&composer, &stored, &[]) else { return Ok(()) };
        let report = prompt.report();
        let first = prompt.with_origins().find_map(|(origin, message)| Some((position(origin)?, message)));
        let Some((at, _)) = first.filter(|(_, first)| !first.is_user()) else { return Ok(()) };
        let begins = |it: &(Origin, &Message)| {
            let is_steered = matches!(it.1, Message::User(user) if user.is_steered());
            it.1.is_user() && !is_steered && position(it.0).is_some()
        };
        let older = usize::try_from(report.older + report.over_budget).unwrap();
        let cut = stored[..older.min(stored.len())].iter().any(|it| !it.is_private())
            || report.left_out.iter().any(|it| it.why == Reason::OverBudget && it.position < at);
        // Its result came behind the first question: it is news of that turn.
        let question = prompt.with_origins().filter(begins).filter_map(|it| position(it.0)).min();
        let news = report.moved.iter().any(|it| it.call == at && Some(it.position) > question);
        prop_assert!(question.is_none() || !cut || news, "{}\n{}\n{report}", brief(&stored), brief(&prompt));
    }
}
