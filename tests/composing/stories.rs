//! What is sent of real conversations: each test one story, in the notation of
//! `common/notation.rs`.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::lives::{Flaky, Kept};
use crate::notation::{conversation, message, sent};
use crate::said::words;
use crate::sent::left_out;
use crate::setups::{Drawn, holding};
use memory_prompt::message::{
    AiMessage, Media, Part, Reasoning, Role, SystemMessage, ToolMessage, UserMessage,
};
use memory_prompt::provider::Row;
use memory_prompt::record::{Records, Snapshot, Unreadable};
use memory_prompt::report::{Reason, SystemSource};
use memory_prompt::text::Keep;
use memory_prompt::wire::Request;
use memory_prompt::{
    ChatMemoryExt, ChatMemoryStore, Composer, DefaultChatMemory, Error, ErrorKind, InMemoryStore,
    MemoryPrompt, Message, Prompt, Provider, ToolCall, Truncate, Window,
};

/// A prompt over a memory that holds this conversation.
fn prompt(history: &str) -> MemoryPrompt {
    holding(conversation(history))
}

/// What is sent of all of it.
fn all(history: &str) -> Prompt {
    prompt(history).window(Window::all()).build().unwrap()
}

fn last(n: usize, history: &str) -> Prompt {
    prompt(history).max_messages(n).build().unwrap()
}

fn provided(provider: Provider, history: &str) -> Prompt {
    prompt(history).window(Window::all()).for_provider(provider).build().unwrap()
}

/// Each result with the position of its call.
fn moved(prompt: &Prompt) -> Vec<(u64, u64)> {
    prompt.report().moved.iter().map(|it| (it.position, it.call)).collect()
}

/// So many words.
fn long(n: usize) -> String {
    "word ".repeat(n)
}

// Results and their calls

/// Stories of results: what happened, what is sent of all of it, the results that are moved, each
/// with its call, and what is left out.
#[test]
fn results_stand_behind_their_calls() {
    use Reason::{Answered, NoCall, Replaced};
    type Told<'a> = (&'a str, &'a str, &'a [(u64, u64)], &'a [(u64, Reason)]);
    let stories: [Told<'_>; 11] = [
        // The user grew impatient while a tool ran, and its result came behind what the user said.
        // It was left out, and the model was told that no result had been recorded: it ran the
        // tool again.
        (
            "u:book_it call:1/book u:hello? t:1/book=booked",
            "u:book_it call:1/book t:1/book=booked u:hello?",
            &[(3, 1)],
            &[],
        ),
        // The model called twice before anything came back. The first result stood behind the
        // second call and was nobody's.
        (
            "u:q call:c1 call:c2 t:c1=one t:c2=two a:done",
            "u:q call:c1 t:c1=one call:c2 t:c2=two a:done",
            &[(3, 1)],
            &[],
        ),
        // A shim for a server that gives no ids numbers the calls of each answer from 0. The second
        // "0" was taken for an answer to the first.
        (
            "u:q call:0 t:0=first call:0 t:0=second u:so? call:0 u:well? t:0=third",
            "u:q call:0 t:0=first call:0 t:0=second u:so? call:0 t:0=third u:well?",
            &[(8, 6)],
            &[],
        ),
        // A call of the same id closes the earlier one: what comes later is the later one's result.
        (
            "u:q call:0 u:no call:0 u:well? t:0=ok",
            "u:q call:0 t:0=? u:no call:0 t:0=ok u:well?",
            &[(5, 3)],
            &[],
        ),
        // Two tools under one id: the result of the other tool is not the answer. If one of both
        // names no tool, the id alone decides.
        (
            "u:q call:1/book u:and? t:1/look=seen",
            "u:q call:1/book t:1/book=? u:and?",
            &[],
            &[(3, NoCall)],
        ),
        ("u:q call:1/book u:and? t:1/=seen", "u:q call:1/book t:1/=seen u:and?", &[(3, 1)], &[]),
        // A tool timed out; "still running" stood for its result until the true one came an hour
        // later.
        (
            "u:q call:1,2 wait:1=running t:2=fine a:it_runs u:thanks t:1=finished",
            "u:q call:1,2 t:1=finished t:2=fine a:it_runs u:thanks",
            &[(6, 1)],
            &[(2, Replaced)],
        ),
        // A stand-in is a result like any other until the true one comes.
        ("u:q call:1 wait:1=running a:it_runs", "u:q call:1 t:1=running a:it_runs", &[], &[]),
        // Two calls under one id timed out. What came for one tool replaced what stood in for the
        // other.
        (
            "call:0/,0/ wait:0/a=later wait:0/b=later u:so t:0/a=x",
            "call:0/,0/ t:0/a=x t:0/b=later u:so",
            &[(4, 0)],
            &[(1, Replaced)],
        ),
        // A retried job reported twice. Two results of one call are a 400.
        (
            "u:q call:1 t:1=one a:done u:and? t:1=two",
            "u:q call:1 t:1=one a:done u:and?",
            &[],
            &[(5, Answered)],
        ),
        // An audit record between a call and its result, as every careful application writes it.
        (
            "u:q call:1,2 log:x t:1=one log:x t:2=two a:done",
            "u:q call:1,2 t:1=one t:2=two a:done",
            &[],
            &[],
        ),
    ];
    for (history, expected, are_moved, are_left_out) in stories {
        let built = all(history);
        assert_eq!(sent(&built), expected, "{history}");
        assert_eq!(moved(&built), are_moved, "{history}");
        assert_eq!(left_out(&built), are_left_out, "{history}");
        assert_eq!(built.report().private, history.matches("log:").count() as u64, "{history}");
        assert_eq!(built.report().repaired.len(), expected.matches("=?").count(), "{history}");
    }
}

/// The model called twice before anything came back, and the provider joins neighbouring answers
/// before it looks for results.
#[test]
fn two_answers_with_calls_in_a_row_are_one_where_the_provider_joins_them() {
    let history = "u:q call:c1 call:c2 t:c1=one t:c2=two a:done u:ok";
    for provider in [Provider::Anthropic, Provider::Gemini] {
        let built = provided(provider, history);
        assert_eq!(sent(&built), "u:q call:c1,c2 t:c1=one t:c2=two a:done u:ok", "{provider}");
    }
}

/// A shim numbered two calls of one answer alike, and the tool of the second was done first. If a
/// provider wants ids apart, each result was renamed for the other's call.
#[test]
fn ids_that_are_told_apart_stay_with_their_tools() {
    for provider in [Provider::Anthropic, Provider::OpenAiResponses, Provider::Mistral] {
        let built = provided(provider, "u:q call:0/book,0/look t:0/look=seen t:0/book=booked");
        let called: Vec<_> = built.iter().flat_map(Message::tool_calls).collect();
        for result in built.iter().filter_map(Message::as_tool) {
            let of = called.iter().find(|call| call.id == result.call_id()).unwrap();
            assert_eq!(of.name, result.tool_name(), "{provider}");
        }
    }
}

#[test]
fn marks_are_kept_as_attributes() {
    let result = ToolMessage::new("1", "look", "running");
    assert!(!result.is_stand_in());
    assert!(result.clone().stand_in().is_stand_in());
    assert_eq!(Message::from(result.stand_in()), message("wait:1=running"));
    let said = UserMessage::new("no");
    assert!(!said.is_steered());
    assert!(said.clone().steered().is_steered());
    assert_eq!(Message::from(said.steered()), message("steer:no"));
    let Message::Custom(log) = message("log:x") else { unreachable!() };
    assert!(log.is_private());
}

/// A result that has just arrived stood in the window, its call 6 messages before; the model was
/// not told.
#[test]
fn a_result_in_the_window_takes_its_call_along() {
    let built =
        last(4, "u:book call:1/book a:on_it u:and_tea a:ok u:more a:yes t:1/book=booked u:so?");
    assert_eq!(sent(&built), "call:1/book t:1/book=booked a:yes u:so?");
    assert_eq!(moved(&built), [(7, 1)]);
    assert_eq!(built.report().older, 5);
}

/// The result came last, but its call is far up, so the prompt ended in an answer of the model: as
/// if there were nothing to do.
#[test]
fn a_note_at_the_end_announces_what_has_arrived() {
    let built = all("u:book call:1/book u:and_tea a:here_it_is t:1/book=booked");
    assert_eq!(
        sent(&built),
        "u:book call:1/book t:1/book=booked u:and_tea a:here_it_is \
         note:The_result_of_book_has_arrived,_see_above."
    );
    assert_eq!(built.report().note, [4]);
    assert!(built.cacheable() < built.len(), "the next prompt does not repeat it");

    let two = "u:book call:1/book,2/ u:and_tea a:here_it_is t:1/book=booked t:2/=seen";
    assert!(sent(&all(two)).ends_with("note:The_results_of_book,_\"2\"_have_arrived,_see_above."));
    // Not where the user said something since.
    assert!(all(&format!("{two} u:so?")).report().note.is_empty());
}

/// The note stands before temporaries, which stand at the end.
#[test]
fn a_note_stands_before_temporaries() {
    let mut prompt = prompt("u:book call:1/book u:and_tea a:ok t:1/book=booked");
    prompt.add_temporary(Message::user("now"));
    assert!(sent(&prompt.build().unwrap()).ends_with("see_above. (u:now)"));
}

// Records of the application's own

/// Ten entries of an audit log behind the question, and the model was sent nothing else.
#[test]
fn ten_audit_records_take_no_place() {
    let log = "log:x ".repeat(10);
    let built = last(10, &format!("u:what_is_up? a:nothing u:really? {log}"));
    assert_eq!(sent(&built), "u:what_is_up? a:nothing u:really?");
    assert_eq!(built.report().private, 10);
}

// Windows in tool loops

/// Six rounds of calls in one turn are twelve messages; the default window of ten had lost the
/// question.
#[test]
fn six_calls_in_one_turn_do_not_push_out_the_question() {
    let rounds: Vec<_> = (1..=6).map(|i| format!("call:{i} t:{i}=ok")).collect();
    let built = last(10, &format!("u:hi a:hello u:plan_my_trip {}", rounds.join(" ")));
    // The oldest round gives way to the question: ten messages at most.
    assert_eq!(sent(&built), format!("u:plan_my_trip {}", rounds[2..].join(" ")));
    assert_eq!(built.len(), 9);
    assert_eq!(built.report().question, [2]);
}

/// The window opened on a result whose call was older: the result was left out, and with it went
/// the reason to look for the question, so that the answer was sent alone.
#[test]
fn an_answer_behind_results_that_are_left_out_is_not_sent_without_its_question() {
    let history = "u:q call:1 t:1=x a:done";
    assert_eq!(sent(&last(2, history)), "u:q a:done");
    assert_eq!(sent(&last(3, history)), "u:q a:done");
    assert_eq!(sent(&last(1, history)), "a:done");
}

/// Ten empty answers of a model that failed were stored, and no prompt could be built any more.
#[test]
fn empty_answers_do_not_push_out_the_question() {
    let mut prompt = prompt("u:hello").for_provider(Provider::Anthropic);
    prompt.add_all((0..10).map(|_| Message::ai(""))).unwrap();
    assert_eq!(sent(&prompt.build().unwrap()), "u:hello");
    prompt.set_memory(own("u:q call:1 t:1=x a:"));
    prompt.configure(|composer| composer.max_messages(2));
    assert_eq!(sent(&prompt.build().unwrap()), "u:q");
}

/// A thousand audit records behind the last answer: nothing was sent.
#[test]
fn a_thousand_audit_records_take_no_place() {
    let logs = vec!["log:x"; 1000].join(" ");
    assert_eq!(sent(&last(2, &format!("u:q a:x {logs}"))), "u:q a:x");
}

/// A row that can't be read was reported as one that the window does not reach.
#[test]
fn a_row_before_all_records_is_unreadable_and_not_older() {
    let torn = Arc::new(Error::new(ErrorKind::Storage, "read", "torn"));
    let records = Records::from_rows([(1, UNIX_EPOCH, message("a:hello"))]);
    for (window, older) in [(Window::all(), 0), (Window::last(10), 0), (Window::last(1), 1)] {
        let mut snapshot = Snapshot::new(0..2, records.clone());
        snapshot.unreadable.push(Unreadable { position: 0, error: Arc::clone(&torn) });
        let prompt = Composer::new().window(window).compose_all(&snapshot, &[]).unwrap();
        assert_eq!(prompt.report().older, older, "{window}");
        assert_eq!(prompt.report().unreadable.len() as u64, 1 - older, "{window}");
    }
}

/// After a long tool loop the user asks something else. For Anthropic the window moved forward to
/// that question: nothing of what the tools had found was sent.
#[test]
fn a_follow_up_question_after_a_long_tool_loop_knows_what_was_found() {
    let rounds: Vec<_> = (1..=8).map(|i| format!("call:{i} t:{i}=ok")).collect();
    let history = format!("u:plan_my_trip {} a:done u:and_tea?", rounds.join(" "));
    let mut prompt = prompt(&history).max_messages(10).for_provider(Provider::Anthropic);
    let built = prompt.build().unwrap();
    let expected = format!("u:plan_my_trip {} a:done u:and_tea?", rounds[5..].join(" "));
    assert_eq!(sent(&built), expected);
    assert_eq!(built.report().question, [0]);
    // Without a provider who wants the user first it is the last ten, as ever.
    prompt.configure(Composer::no_provider);
    let built = prompt.build().unwrap();
    assert_eq!(sent(&built), format!("{} a:done u:and_tea?", rounds[4..].join(" ")));
}

/// A stepped window in a tool loop, for a provider who wants the user first: the window opens
/// within the loop, and what was found since is sent behind the question.
#[test]
fn a_stepped_window_keeps_the_loop_that_it_is_in() {
    let rounds: Vec<_> = (0..40).map(|i| format!("call:{i} t:{i}=ok")).collect();
    let history = format!("u:hi a:hello u:go {}", rounds.join(" "));
    let window = Window::stepped(6, 50).unwrap();
    let mut prompt = prompt(&history).window(window).for_provider(Provider::Anthropic);
    let built = prompt.build().unwrap();
    // 83 records: the window opens at 50, in the middle of a round, so at 49, and the question is
    // at 2.
    assert_eq!(sent(&built), format!("u:go {}", rounds[23..].join(" ")));
    assert_eq!(built.report().question, [2]);
    assert_eq!(built.report().older, 48);
}

/// `stepped(6, 100)` for Anthropic: past position 100 a loop that began at 2 was reduced to
/// nothing.
#[test]
fn stepped_by_a_hundred_in_a_tool_loop() {
    let rounds: Vec<_> = (0..60).map(|i| format!("call:{i} t:{i}=ok")).collect();
    let history = format!("u:hi a:hello u:go {}", rounds.join(" "));
    let window = Window::stepped(6, 100).unwrap();
    let built = prompt(&history).window(window).for_provider(Provider::Anthropic).build().unwrap();
    // 123 records: the window opens at 99; the search for the question covers at least 64 before.
    let searched = Composer::new().window(window).first_read() * 4 + 64;
    let expected = rounds[48..].join(" ");
    if searched >= 97 {
        assert_eq!(sent(&built), format!("u:go {expected}"));
        assert_eq!(built.report().question, [2]);
    } else {
        assert_eq!(sent(&built), format!("[u] {expected}"));
        assert_eq!(built.report().search_ended, Some(99 - searched as u64));
    }
}

/// A loop so long that its question is not found: that is said, and the loop is sent nevertheless.
#[test]
fn a_question_that_is_too_far_away_is_not_found_and_that_is_said() {
    let rounds: Vec<_> = (0..400).map(|i| format!("call:{i} t:{i}=ok")).collect();
    let built = last(4, &format!("u:go {}", rounds.join(" ")));
    assert_eq!(sent(&built), rounds[398..].join(" "));
    let searched = (64 + 4 * Composer::new().max_messages(4).first_read()) as u64;
    assert_eq!(built.report().search_ended, Some(797 - searched));
}

/// The bot greets first. With `turns(1)` the greeting was cut off, and for Anthropic something made
/// up stood in its place.
#[test]
fn a_greeting_belongs_to_the_only_turn() {
    let mut prompt = prompt("a:hello,_how_can_I_help? u:tea a:here").window(Window::turns(1));
    assert_eq!(sent(&prompt.build().unwrap()), "a:hello,_how_can_I_help? u:tea a:here");
    prompt.add(message("u:thanks")).unwrap();
    assert_eq!(sent(&prompt.build().unwrap()), "u:thanks");
}

/// A pipeline of agents without any user: each answer with its results is a turn.
#[test]
fn a_history_without_users_has_turns_too() {
    let built = prompt("a:one call:1 t:1=x a:two call:2,3 t:2=y t:3=z")
        .window(Window::turns(2))
        .build()
        .unwrap();
    assert_eq!(sent(&built), "a:two call:2,3 t:2=y t:3=z");
    assert_eq!(built.report().older, 3);
}

/// Three messages sent in a hurry are one question. `turns(1)` sent the third alone: "and cheap".
#[test]
fn three_pieces_of_one_question_are_one_turn() {
    let history = "u:hi a:hello u:find_a_hotel u:in_Oslo log:x u:and_cheap";
    let one = prompt(history).window(Window::turns(1)).build().unwrap();
    assert_eq!(sent(&one), "u:find_a_hotel u:in_Oslo u:and_cheap");
    // In a tool loop the newest of them stay, up to half of the window.
    let rounds = " call:1 t:1=x call:2 t:2=y call:3 t:3=z";
    assert_eq!(sent(&last(4, &format!("{history}{rounds}"))), "u:in_Oslo u:and_cheap call:3 t:3=z");
}

/// What the user throws in while the tools run is no turn of its own.
#[test]
fn a_steered_message_begins_no_turn() {
    let history = "u:hi a:hello u:go call:1 t:1=x steer:not_that_one call:2 t:2=y";
    let one = prompt(history).window(Window::turns(1)).build().unwrap();
    assert_eq!(sent(&one), "u:go call:1 t:1=x steer:not_that_one call:2 t:2=y");
}

/// Whoever wants the last n, and nothing else, says so.
#[test]
fn exactly_is_exactly() {
    let history = "u:go call:1 t:1=x call:2 t:2=y call:3 t:3=z";
    let exactly = prompt(history).window(Window::last(4).exactly()).build().unwrap();
    assert_eq!(sent(&exactly), "call:2 t:2=y call:3 t:3=z");
    assert_eq!(sent(&last(4, history)), "u:go call:3 t:3=z");
}

// Budgets

/// An agent that records only its calls, so that each is sent with a placeholder. Those were not
/// counted before they were there: too much was chosen, and all of it given up but one message,
/// though 191 would have fitted into the budget of 8,000.
#[test]
fn placeholders_are_part_of_what_is_counted() {
    let calls: Vec<_> = (0..340).map(|i| format!("call:{i}")).collect();
    let mut prompt = prompt(&format!("u:go {}", calls.join(" "))).max_tokens(8_000, words);
    let built = prompt.build().unwrap();
    let tokens = built.report().tokens.unwrap();
    assert!(tokens.total <= 8_000);
    // One more group would have been too much.
    let one = tokens.total / built.len() * 2;
    assert!(tokens.total + 2 * one > 8_000, "{} of 8,000 in {}", tokens.total, built.len());
    assert_eq!(built.report().question, [0]);
    assert_eq!(built.report().over_budget + built.report().sent as u64, 341);
    assert_eq!(built.report().repaired.len() + 1, built.report().sent);
}

/// Someone pastes 5,000 words into a conversation with a budget of 1,000. It can never fit, and
/// with the walk ending there, neither was anything before it sent.
#[test]
fn a_paste_that_can_never_fit_is_left_out_alone() {
    let mut prompt = prompt("u:one a:two").max_tokens(1_000, words);
    prompt.add(Message::user(long(5_000))).unwrap();
    prompt.add_all((0..10).map(|i| message(&format!("a:small_{i}")))).unwrap();
    prompt.add(message("u:go_on")).unwrap();
    let built = prompt.build().unwrap();
    assert_eq!(left_out(&built), [(2, Reason::OverBudget)]);
    assert_eq!(built.report().sent, 13);
    assert_eq!(built.report().over_budget, 0);
    assert!(sent(&built).starts_with("u:one a:two a:small_0"));
}

/// A message that would fit into half of the room ends the walk: what is sent has no holes.
#[test]
fn what_could_fit_ends_the_walk() {
    let mut prompt = prompt("u:one a:two").max_tokens(100, words);
    prompt.add(message("u:three")).unwrap();
    for _ in 0..3 {
        prompt.add(Message::ai(long(36))).unwrap();
    }
    // 97 are left without the reply; a long answer is 40, the question 5: two fit.
    let built = prompt.build().unwrap();
    assert_eq!(built.report().question, [2]);
    assert_eq!(built.report().over_budget, 3);
    assert!(left_out(&built).is_empty());
}

/// The conversation was deleted and began again under the same id. What had been counted for the
/// old positions was believed of the new messages, and the budget did not hold.
#[test]
fn a_conversation_that_began_anew_is_counted_anew() {
    let store = InMemoryStore::new();
    let mut prompt = MemoryPrompt::new(store.memory("u1").unwrap()).max_tokens(50, words);
    prompt.add_all(conversation("u:one a:two u:three a:four")).unwrap();
    assert_eq!(prompt.build().unwrap().len(), 4);
    store.delete(&"u1".into()).unwrap();
    for i in 0..4 {
        prompt.add(Message::user(format!("{i} {}", long(10)))).unwrap();
    }
    let built = prompt.build().unwrap();
    let total = 3 + built.iter().map(|it| 4 + words(&it.text())).sum::<usize>();
    assert_eq!(built.report().tokens.unwrap().total, total);
    assert!(total <= 50);
    // 15 tokens each, and 3 for the reply.
    assert_eq!(built.len(), 3);
}

// System messages

/// A temporary system message beside one with a name and attributes: those were lost.
#[test]
fn a_temporary_system_message_leaves_the_other_as_it_is() {
    let mut prompt = prompt("u:q");
    let house = SystemMessage::new("Be brief.").with_name("house").with_attribute("version", 2);
    prompt.add(house).unwrap();
    prompt.add_temporary(Message::system("Today is Friday."));
    let built = prompt.preview().unwrap();
    let Some(Message::System(system)) = built.system() else { unreachable!() };
    assert_eq!(system.text(), "Be brief.\n\nToday is Friday.");
    assert_eq!((system.name(), system.attributes().len()), (Some("house"), 1));

    prompt.clear_temporaries();
    prompt.add_temporary(Message::system(""));
    assert_eq!(prompt.build().unwrap().system().unwrap().text(), "Be brief.");
}

/// Two system messages in front of an imported list: the second replaced the first.
#[test]
fn system_messages_that_open_a_list_are_joined() {
    let list = conversation("s:be_brief s:be_kind u:q a:x s:speak_up u:r");
    let snapshot = Snapshot::from_messages(list);
    assert_eq!(snapshot.system.as_ref().unwrap().text(), "be brief\n\nbe kind");
    assert_eq!((snapshot.records.len(), snapshot.end), (4, 4));
    let openai = Composer::new().for_provider(Provider::OpenAi).compose_all(&snapshot, &[]);
    assert_eq!(sent(&openai.unwrap()), "s:be_brief\n\nbe_kind u:q a:x s:speak_up u:r");
    let none = Composer::new().compose_all(&snapshot, &[]).unwrap();
    assert_eq!(sent(&none), "s:be_brief\n\nbe_kind u:q a:x u:r");
    assert_eq!(left_out(&none), [(2, Reason::SecondSystem)]);
}

/// A memory of one's own that holds whatever it is given, system messages among the records.
fn own(history: &str) -> Arc<Flaky> {
    let kept = Kept::new("own");
    kept.add_all(conversation(history)).unwrap();
    Flaky::over(Arc::new(kept))
}

/// A memory of one's own opens with a system record, and somebody wrote another in the middle. Both
/// were left out: the model was told nothing of what it is.
#[test]
fn a_system_record_at_the_front_is_the_system_message() {
    let mut prompt =
        MemoryPrompt::new(own("s:be_brief u:q a:x s:speak_up u:r")).window(Window::all());
    let none = prompt.build().unwrap();
    assert_eq!(sent(&none), "s:be_brief u:q a:x u:r");
    assert_eq!(none.system().map(|it| it.text().into_owned()).as_deref(), Some("be brief"));
    assert_eq!(none.report().system, SystemSource::Memory);
    assert_eq!(left_out(&none), [(3, Reason::SecondSystem)]);

    prompt.configure(|composer| composer.for_provider(Provider::OpenAi));
    let openai = prompt.build().unwrap();
    assert_eq!(sent(&openai), "s:be_brief u:q a:x s:speak_up u:r");
    assert_eq!(openai.report().kept_systems, [3]);
    assert!(left_out(&openai).is_empty());

    // If the window does not reach back to it, it is no more than an older record.
    prompt.configure(|composer| composer.max_messages(2));
    let short = prompt.build().unwrap();
    assert_eq!(sent(&short), "s:speak_up u:r");
    assert_eq!(short.report().older, 3);
}

// Providers

/// Nothing was ever said, and Anthropic was sent "(start of the conversation)": it answered that.
#[test]
fn a_message_that_nobody_said_is_not_sent_alone() {
    for provider in [Provider::Anthropic, Provider::Gemini, Provider::Mistral] {
        let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).for_provider(provider);
        assert_eq!(prompt.build().unwrap_err().kind(), ErrorKind::Provider, "{provider}");
        // A record of the application's own is no message either.
        prompt.add(message("log:x")).unwrap();
        assert_eq!(prompt.build().unwrap_err().kind(), ErrorKind::Provider, "{provider}");
        prompt.add_temporary(Message::user("now"));
        assert_eq!(sent(&prompt.build().unwrap()), "(u:now)", "{provider}");
        let mut prompt = prompt.system("Greet the user.");
        assert_eq!(sent(&prompt.build().unwrap()), "s:Greet_the_user. [u]", "{provider}");
    }
}

// Truncation

/// A pasted page with "Translate this." behind it: truncation cut off what was asked.
#[test]
fn the_question_can_be_spared() {
    let page = format!("{}\n\nTranslate this.", long(300));
    let history = [Message::user(long(300)), Message::ai(long(300)), Message::user(page.clone())];
    let truncate = Truncate::chars(100).unwrap();
    let mut prompt = holding(history).truncate(truncate.clone());
    let is_cut = |message: &Message| message.text().chars().count() <= 100;
    assert!(prompt.build().unwrap().iter().all(is_cut));

    prompt.configure(|composer| composer.truncate(truncate.sparing_question()));
    let spared = prompt.build().unwrap();
    assert_eq!(spared[2].text(), page);
    assert!(is_cut(&spared[0]), "an older question is not");
    assert_eq!(spared.report().truncated.len(), 2);

    // If it is the question of the last turn no more, it is cut.
    prompt.add_all(conversation("a:done u:thanks")).unwrap();
    assert!(is_cut(&prompt.build().unwrap()[2]));
}

/// Unless the budget can't be held otherwise.
#[test]
fn a_spared_question_is_cut_before_a_budget_breaks() {
    let spared = Truncate::chars(1_000).unwrap().sparing_question();
    let prompt = holding([Message::user(long(300))]).truncate(spared);
    let built = prompt.max_tokens(100, words).build().unwrap();
    assert!(built.report().tokens.unwrap().total <= 100);
    assert!(!built[0].text().is_empty());
}

/// The budget was a little too small for the page, and 62 tokens of 3,200 were sent of it: less
/// than without sparing the question.
#[test]
fn a_spared_question_that_does_not_fit_is_cut_to_the_limit_first() {
    let mut prompt = holding([Message::user(long(300) + "Translate this.")]);
    let truncate = Truncate::chars(1_000).unwrap().keep(Keep::Ends);
    prompt.configure(|composer| composer.truncate(truncate.clone()).max_tokens(250, words));
    let cut = prompt.build().unwrap();
    prompt.configure(|composer| composer.truncate(truncate.sparing_question()));
    let spared = prompt.build().unwrap();
    assert_eq!(spared[0], cut[0]);
    assert!(spared[0].text().ends_with("Translate this."));
    assert_eq!(spared.report().tokens.unwrap().cut_to, Some(1_000));
}

// Swaps

/// The build for one user failed, and a worker went on with the next user: the note about the first
/// one went to the second.
#[test]
fn what_a_failed_build_has_seen_is_dropped_at_a_swap() {
    let first = own("u:mine");
    let mut prompt = MemoryPrompt::new(Arc::clone(&first));
    prompt.add_temporary(Message::user("about the first"));
    prompt.add_temporary(Message::system("secret"));
    first.fail(true);
    assert!(prompt.build().is_err());
    prompt.add_temporary(Message::user("for whoever comes"));
    prompt.set_memory(own("u:yours"));
    let built = prompt.build().unwrap();
    assert_eq!(sent(&built), "u:yours (u:for_whoever_comes)");
    assert_eq!(built.report().dropped_temporaries, [Role::User, Role::System]);
    assert!(prompt.build().unwrap().report().dropped_temporaries.is_empty());
}

/// Without a swap a build that failed is tried again with all that was to go with it.
#[test]
fn what_a_failed_build_has_seen_waits_for_the_next() {
    let memory = own("u:mine");
    let mut prompt = MemoryPrompt::new(Arc::clone(&memory));
    prompt.add_temporary(Message::user("now"));
    memory.fail(true);
    assert!(prompt.build().is_err());
    memory.fail(false);
    assert_eq!(sent(&prompt.build().unwrap()), "u:mine (u:now)");
}

/// What no build has seen is meant for the memory that comes.
#[test]
fn what_no_build_has_seen_goes_along_at_a_swap() {
    let mut prompt = prompt("u:mine");
    prompt.add_temporary(Message::user("now"));
    prompt.set_memory(own("u:yours"));
    let built = prompt.build().unwrap();
    assert_eq!(sent(&built), "u:yours (u:now)");
    assert!(built.report().dropped_temporaries.is_empty());
    assert!(prompt.memory().next_position().is_ok());
}

// What takes a place, and what gives way

/// A system message that is not sent counted as one of the four, and the user's words gave way for
/// it.
#[test]
fn what_is_never_sent_takes_no_place() {
    let last = |n, history| MemoryPrompt::new(own(history)).max_messages(n).build().unwrap();
    let built = last(4, "u:q call:1 u:so s:now t:1=x a:done");
    assert_eq!(sent(&built), "call:1 t:1=x u:so a:done");
    assert!(built.report().question.is_empty());
    assert_eq!(sent(&last(3, "s:be_brief u:q a:x u:r")), "s:be_brief u:q a:x u:r");
}

/// A window that was to be exact gave up an answer for the call that a late result took along.
#[test]
fn in_an_exact_window_nothing_gives_way() {
    let history = "u:q call:1 u:so a:wait t:1=x a:done";
    assert_eq!(sent(&last(3, history)), "u:so a:done");
    let exact = prompt(history).window(Window::last(3).exactly()).build().unwrap();
    assert_eq!(sent(&exact), "call:1 t:1=x a:wait a:done");
}

/// The tools gave way, and the question in the middle of them: the model was sent its own words
/// alone.
#[test]
fn a_question_does_not_give_way_with_the_tools() {
    let built = last(4, "call:1,2 t:1=x u:q t:2=y a:1 a:2");
    assert_eq!(sent(&built), "u:q a:1 a:2");
    assert_eq!(built.report().question, [2]);
}

/// The provider wants the user first, and the question of an old turn drove out what was asked
/// last.
#[test]
fn the_newest_question_stays_where_the_user_comes_first() {
    let history = "u:q call:1 u:so a:wait t:1=x a:done";
    let mut prompt = prompt(history).max_messages(4).for_provider(Provider::Anthropic);
    assert!(sent(&prompt.build().unwrap()).contains("u:so"));
}

/// One audit record before the window, and a greeting was left out as the rest of a turn.
#[test]
fn an_audit_record_before_the_window_cuts_nothing_off() {
    let greeted = |history| {
        let mut prompt = prompt(history).max_messages(2).for_provider(Provider::Anthropic);
        prompt.build().unwrap()
    };
    assert!(left_out(&greeted("log:x a:hi u:q")).is_empty());
    assert_eq!(left_out(&greeted("u:old a:hi u:q")), [(1, Reason::RestOfTurn)]);
}

/// An answer was left out since the window had no room for it and its question, which stands right
/// before it, and the report said that the question was too far away.
#[test]
fn a_question_right_before_its_answer_is_not_too_far_away() {
    let mut prompt = prompt("u:old a:x u:q a:y u:r a:z u:so").max_messages(4);
    prompt.configure(|composer| composer.for_provider(Provider::Mistral));
    let built = prompt.build().unwrap();
    assert_eq!(left_out(&built), [(3, Reason::RestOfTurn)]);
    let said = "3: assistant, the rest of a turn whose question is not sent\n";
    assert!(built.report().to_string().contains(said), "{}", built.report());
}

/// A message of the application's own, which no provider is sent, parted a temporary call from its
/// result: a made up answer was sent, and the true one was an orphan.
#[test]
fn a_private_temporary_parts_nothing() {
    let mut row = Row::like(Provider::OpenAiCompatible, "one-call").unwrap();
    row.parallel_calls = false;
    let providers = [None, Some(Provider::Anthropic), Some(Provider::custom(row))];
    for (provider, calls) in providers.iter().flat_map(|it| [(it, 1), (it, 2)]) {
        let mut prompt = prompt("u:hi").with_some(*provider, MemoryPrompt::for_provider);
        let temporaries = ["call:c1 log:x t:c1=rain", "call:c1,c2 log:x t:c1=rain t:c2=rain"];
        for temporary in conversation(temporaries[calls - 1]) {
            prompt.add_temporary(temporary);
        }
        let built = prompt.build().unwrap();
        let report = built.report();
        assert!(report.repaired.is_empty(), "{report}");
        assert!(report.orphan_temporaries.is_empty(), "{report}");
        let results = built.iter().filter(|message| message.text() == "rain").count();
        assert_eq!(results, calls, "{report}");
    }
}

/// Two answers in a row called with one id, and only the second one was answered. Joined for a
/// provider, the result went to the first, and of the second the model read that nothing came.
/// Where the result named no tool, one call had two results and another none.
#[test]
fn a_result_keeps_its_call_when_answers_are_joined() {
    for (history, results) in [
        ("u:hi call:0 call:0 t:0=rain u:so", &[("0_2", "rain")][..]),
        (
            "u:hi call:0 call:0/,0/book t:0/=rain t:0/book=snow u:so",
            &[("0_2", "rain"), ("0_3", "snow")],
        ),
    ] {
        let built = provided(Provider::Anthropic, history);
        let sent: Vec<_> = built.iter().filter_map(Message::as_tool).collect();
        for (id, text) in results {
            let result = sent.iter().find(|it| it.call_id() == *id).unwrap();
            assert_eq!(result.content().text(), *text, "{}", built.report());
        }
        let first: Vec<_> = sent.iter().filter(|it| it.call_id() == "0").collect();
        assert!(first.len() == 1 && first[0].is_error(), "{}", built.report());
    }
}

fn says(name: &str, text: &str) -> UserMessage {
    UserMessage::new(text).with_name(name)
}

/// Klaus and Ann voted, and Mistral was sent both votes as of one user without a name, which no
/// loss told.
#[test]
fn who_spoke_is_said_where_messages_are_joined() {
    let votes = || [says("Klaus", "I vote yes"), says("Ann", "I vote no")].map(Message::from);
    for provider in [Provider::Mistral, Provider::StrictTemplate] {
        let mut prompt = holding(votes()).for_provider(provider);
        let built = prompt.build().unwrap();
        assert_eq!(built[0].text(), "Klaus: I vote yes\n\nAnn: I vote no");
        assert_eq!(Request::new(&built).model("m").losses(), []);

        // The temporary is nobody's.
        prompt = holding([says("Klaus", "I vote yes").into()]).for_provider(provider);
        prompt.add_temporary(Message::user("Today is Friday."));
        assert_eq!(prompt.build().unwrap()[0].text(), "Klaus: I vote yes\n\nToday is Friday.");
    }
}

/// The name was lost where two messages of one speaker differed in anything else.
#[test]
fn one_speaker_keeps_the_name_where_messages_are_joined() {
    let said = [says("Klaus", "one").with_attribute("at", 9), says("Klaus", "two")];
    let built = holding(said.map(Message::from)).for_provider(Provider::Mistral).build().unwrap();
    let Message::User(joined) = &built[0] else { panic!("{built:?}") };
    assert_eq!((joined.name(), joined.content().text()), (Some("Klaus"), "one\n\ntwo".into()));
    let request = Request::new(&built).model("m");
    assert_eq!(request.losses()[0].to_string(), "message 0: the name of the user");
    assert!(serde_json::to_string(&request.names_in_text()).unwrap().contains("Klaus: one"));
}

#[test]
fn a_cut_is_where_it_is_behind_the_name_that_is_put_before_it() {
    let said = [says("Klaus", "Hello, world"), says("Ann", "Good-bye, world")];
    let truncate = Truncate::chars(9).unwrap().keep(Keep::Ends).marker(" … ");
    let composer = Composer::new().truncate(truncate).for_provider(Provider::Mistral);
    let history = Snapshot::from_messages(said.map(Message::from));
    let prompt = composer.compose_all(&history, &[]).unwrap();
    assert_eq!(prompt[0].text(), "Klaus: Hel … rld\n\nAnn: Goo … rld");
    let gaps = prompt.report().truncated.iter().map(|cut| cut.gap.unwrap());
    let behind = gaps.map(|gap| prompt[0].text()[..gap.at].len());
    assert_eq!(
        behind.collect::<Vec<_>>(),
        ["Klaus: Hel".len(), "Klaus: Hel … rld\n\nAnn: Goo".len()]
    );
}

/// The processors that the documentation showed were copied: a question lost its picture, and a
/// tool that had failed had not.
#[test]
fn a_processor_of_texts_changes_nothing_else() {
    let picture = Part::Image(Media::url("https://example.org/a.png"));
    let parts = |text: &str| [Part::text(text), picture.clone(), Part::text(text)];
    let said = |text: &str| {
        let call = ToolCall::new("c", "save", "{}");
        let answer = AiMessage::new(text).with_reasoning(Reasoning::new("hm"));
        [
            UserMessage::new(parts(text)).with_name("Klaus").with_attribute("at", 9).into(),
            answer.with_tool_call(call).into(),
            Message::tool_error("c", "save", text),
            Message::ai(text),
        ]
    };
    let loud = |message: &Message| Some(message.map_texts(str::to_uppercase));
    let truncate = Truncate::default().processor(loud);
    let built = holding(said("disk full")).truncate(truncate).build().unwrap();
    assert_eq!(built.to_messages(), said("DISK FULL"));
    assert_eq!(Message::system("so").map_texts(str::to_uppercase), Message::system("SO"));
}
