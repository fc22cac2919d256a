//! What leaves for a provider is what it takes: for every conversation, window, truncation, budget
//! and temporaries, checked by validators that know the providers' references and nothing of this
//! crate.
//!
//! `MEMORY_PROMPT_CASES=10000` tries each law that often, and checks that many prompts of each
//! provider; 256 by default.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use crate::computed::computed;
use crate::conversations::*;
use crate::counted::{Count, cases, counted, regressions};
use crate::private::with_private;
use crate::setups::*;
use crate::validators::{self, Wrong};
use crate::wrong::wrong;
use memory_prompt::message::{AiMessage, AiPart, Reasoning, ToolMessage};
use memory_prompt::provider::Format;
use memory_prompt::record::Snapshot;
use memory_prompt::report::{Adaptation, Break, Origin, Reason};
use memory_prompt::window::ToolGroups;
use memory_prompt::wire::Request;
use memory_prompt::{
    ChatMemory, ChatMemoryExt, Composer, DefaultChatMemory, ErrorKind, MemoryPrompt, Message,
    Prompt, Provider, Result, ToolCall, Truncate, Window,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a prompt is on the wire, in pieces that a longer prompt must repeat: blocks of Anthropic's
/// turns and parts of Gemini's entries each with the side that they belong to, messages elsewhere.
fn on_the_wire(provider: Provider, prompt: &Prompt, n: usize) -> Vec<Value> {
    let body = first_messages(provider, prompt, n);
    let pieces = |turns: &Value, content: &str| -> Vec<Value> {
        let turns = turns.as_array().unwrap().iter().flat_map(|turn| {
            let blocks = match &turn[content] {
                Value::String(text) => vec![json!({"type": "text", "text": text})],
                blocks => blocks.as_array().unwrap().clone(),
            };
            let role = turn["role"].clone();
            blocks.into_iter().map(move |block| json!([role, block]))
        });
        turns.collect()
    };
    match provider.format() {
        Format::Responses => body["input"].as_array().unwrap().clone(),
        Format::Anthropic => pieces(&body["messages"], "content"),
        Format::Gemini => pieces(&body["contents"], "parts"),
        _ => body["messages"].as_array().unwrap().clone(),
    }
}

/// The prompt, or none if there was nothing to send.
fn sent(composed: Result<Prompt>) -> Option<Prompt> {
    if let Err(error) = &composed {
        assert!(error.to_string().contains("there is no message"), "{error}");
    }
    composed.ok()
}

/// Three prompts in ten are refused, for a budget or a temporary, so those that a validator has
/// seen are counted, of each provider by itself.
#[test]
fn what_leaves_for_a_provider_is_what_it_takes() {
    let counts: Vec<_> = all().into_iter().map(counting).collect();
    while counts.iter().any(|(_, count)| count.goes_on()) {
        let cases = counts.iter().map(|(_, count)| count.left()).max().unwrap_or_default();
        proptest!(counts[0].1.round(cases, regressions()), |(
            setup in setups(), conversation in with_private(conversation(16)),
            temporaries in temporaries(),
        )| {
            if !counts[0].1.is_new() {
                return Ok(());
            }
            for (provider, count) in &counts {
                if leaves(*provider, &setup, &conversation, &temporaries)? {
                    count.one();
                }
            }
        });
    }
    for (_, count) in &counts {
        count.close();
    }
}

/// How many prompts a provider takes.
fn counting(provider: Provider) -> (Provider, Count) {
    let row = provider.row();
    let model = row.model().unwrap_or("of any model");
    let name = format!("prompts that {} {model} takes", row.name());
    (provider, Count::of(name.leak(), cases(256)))
}

/// The answers of a body, in which no placeholder may stand: the model would have said it.
fn said_by_the_model(body: &Value) -> Value {
    let lists = ["messages", "input", "contents"].iter().filter_map(|key| body[*key].as_array());
    let answers = lists.flatten().filter(|it| it["role"] == "assistant" || it["role"] == "model");
    answers.cloned().collect()
}

/// Whether a message has media, which count by the provider's rule, or as the text that is sent in
/// their place.
fn has_media(message: &Message) -> bool {
    message.media().next().is_some()
}

/// Whether a message has reasoning, which counts nothing if the provider is not sent it.
fn thinks(message: &Message) -> bool {
    message.as_ai().is_some_and(|ai| ai.parts().iter().any(|it| matches!(it, AiPart::Reasoning(_))))
}

/// Whether there is a prompt; if so, the provider takes it.
fn leaves(
    provider: Provider,
    setup: &Setup,
    conversation: &[Message],
    temporaries: &[Message],
) -> Result<bool, TestCaseError> {
    let composer = setup.composer().for_provider(provider);
    match compose(&composer, conversation, temporaries) {
        Ok(prompt) => {
            let body = request(provider, &prompt);
            let wrong = wrong(provider, &body);
            let said = said_by_the_model(&body).to_string();
            prop_assert!(!said.contains("not supported by this format"), "{body:#}");
            prop_assert!(wrong.is_empty(), "{wrong:#?}\n{body:#}\n{}", prompt.report());
            if let Some((tokens, total)) = setup.tokens.zip(prompt.report().tokens) {
                let whole = counted(&prompt);
                let is_less = total.total < whole && prompt.iter().any(thinks);
                let has_media = prompt.iter().any(has_media);
                prop_assert!(has_media || is_less || total.total == whole);
                prop_assert!(total.total <= tokens);
            }
            return Ok(true);
        }
        // What the caller says for the next build only is not repaired.
        Err(error) if error.kind() == ErrorKind::Provider => {
            let text = error.to_string();
            let empty = text.contains("there is no message") && temporaries.is_empty();
            prop_assert!(text.contains("temporary") || empty, "{text}");
        }
        Err(error) => {
            let needed =
                matches!(error.kind(), ErrorKind::Budget { needed, budget } if needed > budget);
            prop_assert!(needed, "{error}");
        }
    }
    Ok(false)
}

counted! {
    #![cases(256, regressions())]

    #[test]
    fn temporaries_that_say_something_are_never_refused_nor_lost(
        provider in providers(), setup in setups(), conversation in conversation(12),
        temporaries in proptest::collection::vec("[a-z]{1,8}", 0..4),
    ) {
        let said: Vec<_> = temporaries.iter().map(|text| Message::user(text.as_str())).collect();
        let composer = Setup { tokens: None, ..setup }.composer().for_provider(provider);
        let prompt = match compose(&composer, &conversation, &said) {
            Ok(prompt) => prompt,
            Err(error) => {
                prop_assert!(said.is_empty() && error.to_string().contains("there is no message"), "{error}");
                return Ok(());
            }
        };
        let users = prompt.iter().filter(|m| m.is_user());
        let all = users.map(|m| m.text().into_owned()).collect::<Vec<_>>().join("\n\n");
        prop_assert!(all.contains(&temporaries.join("\n\n")), "{all:?}");
        prop_assert_eq!(prompt.report().temporaries, said.len());
    }

    #[test]
    fn a_prompt_begins_with_the_durable_part_of_the_one_before(
        provider in providers(), conversation in conversation(14), setup in setups(),
        temporaries in temporaries(),
    ) {
        let setup = Setup { window: Some(Window::all()), tokens: None, ..setup };
        let composer = setup.composer().for_provider(provider).system("s");
        let stored = stored(&conversation);
        let mut before: Option<Prompt> = None;
        for end in 0..=stored.len() {
            let bare = compose(&composer, &stored[..end], &[]).unwrap();
            let with = compose(&composer, &stored[..end], &temporaries).unwrap_or_else(|_| bare.clone());
            let late = before.as_ref().is_some_and(|before| {
                // A late result changes the prefix once, and that is said.
                matches!(bare.shared_prefix(before).broken_by, Some(Break::LateResult(_)))
            });
            if let Some(before) = before.as_ref().filter(|_| !late) {
                let n = before.cacheable();
                let held = before.to_messages()[..n].to_vec();
                prop_assert!(bare.to_messages().starts_with(&held), "at {end} of {}:\n{}\n{}", brief(&stored), brief(before), brief(&bare));
                let sent = on_the_wire(provider, before, n);
                let now = on_the_wire(provider, &bare, bare.len());
                prop_assert!(now.starts_with(&sent), "at {end}: {sent:#?}\n{now:#?}");
                if setup.placement == memory_prompt::compose::Placement::End {
                    prop_assert!(with.to_messages().starts_with(&held), "at {end} of {}:\n{}\n{}", brief(&stored), brief(before), brief(&with));
                    let now = on_the_wire(provider, &with, with.len());
                    prop_assert!(now.starts_with(&sent), "at {end}: {sent:#?}\n{now:#?}");
                }
            }
            before = Some(if end % 2 == 0 { bare } else { with });
        }
    }

    #[test]
    fn between_two_steps_a_prompt_only_grows_at_its_end(
        provider in providers(), conversation in conversation(40), low in 1usize..10,
        step in 1usize..10, exactly in any::<bool>(),
    ) {
        let window = Window::stepped(low, step).unwrap();
        let composer = Composer::new().window(window.with_if(exactly, Window::exactly)).for_provider(provider).system("s");
        let mut stored = stored(&conversation);
        stored.retain(|message| !message.is_private());
        let start = |end: usize| end.saturating_sub(low) / step * step;
        let mut before: Option<Prompt> = None;
        for end in 0..=stored.len() {
            let prompt = compose(&composer, &stored[..end], &[]).unwrap();
            let released = end > 0 && stored[end - 1].is_user();
            let stepped = end > 0 && start(end) != start(end - 1);
            let late = before.as_ref().is_some_and(|before| {
                matches!(prompt.shared_prefix(before).broken_by, Some(Break::LateResult(_)))
            });
            if let Some(before) = before.filter(|_| !released && !stepped && !late) {
                let before = &before.to_messages()[..before.cacheable()];
                prop_assert!(prompt.to_messages().starts_with(before), "at {end} of {}:\n{}\n{}", brief(&stored), brief(before), brief(&prompt));
            }
            before = Some(prompt);
        }
    }

    #[test]
    fn most_of_a_prompt_is_cacheable(provider in providers(), conversation in conversation(20)) {
        // Nothing but the end is left out: the last side's messages, and a group that is open. A
        // note about a late result is for one prompt, like a temporary.
        let composer = Composer::new().window(Window::all()).for_provider(provider);
        let Some(prompt) = sent(compose(&composer, &conversation, &[])) else { return Ok(()) };
        let closes = |origin, message: &Message| {
            origin == Origin::Added && message.text() == "(continue)"
        };
        let lasts = |origin, message: &Message| {
            said(message) && origin != Origin::Note && !closes(origin, message)
        };
        let all: Vec<_> = prompt.with_origins().collect();
        let list: Vec<_> = all.iter().filter(|(origin, message)| lasts(*origin, message)).collect();
        let cacheable = all[..prompt.cacheable()].iter().filter(|(origin, m)| lasts(*origin, m)).count();
        // If an answer holds one call, a group of several is several answers with their results.
        let apart = !provider.row().parallel_calls;
        let of_group = |m: &Message| m.is_tool() || (apart && m.has_tool_calls());
        // An answer that is trimmed is not, nor what was put before it.
        let trimmed = prompt.report().adapted.iter().filter(|it| it.how == Adaptation::Trimmed).count();
        let group = list.iter().rev().take_while(|(_, m)| of_group(m)).count() + 1 + trimmed;
        prop_assert!(cacheable + group >= list.len(), "{}\n{}", brief(&prompt), prompt.report());
    }

    #[test]
    fn a_conversation_that_is_valid_is_left_alone(
        provider in providers(), (turns, end) in valid(), system in any::<bool>(),
        limit in proptest::option::of(8usize..40),
    ) {
        let row = provider.row();
        let parallel = turns.iter().flatten().any(|it| it.tool_calls().nth(1).is_some());
        if (parallel && !row.parallel_calls) || (system && !row.system) {
            return Ok(()); // it is valid for the others
        }
        let conversation: Vec<_> = turns.concat().into_iter().chain([end]).collect();
        let mut composer = Composer::new().window(Window::all());
        composer = composer.with_some(limit, |it, limit| it.truncate(Truncate::chars(limit).unwrap()));
        if system {
            composer = composer.system("Be brief.");
        }
        let plain = compose(&composer, &conversation, &[]).unwrap();
        let body = first_messages(provider, &plain, plain.len());
        prop_assert!(wrong(provider, &body).is_empty(), "{body:#}");
        let composer = composer.for_provider(provider);
        let strict = composer.clone().tool_groups(ToolGroups::FailOnRepair);
        for composer in [composer, strict] {
            let prompt = compose(&composer, &conversation, &[]).unwrap();
            prop_assert!(plain.with_origins().eq(prompt.with_origins()), "{}", prompt.report());
            prop_assert!(prompt.report().adapted.is_empty());
        }
    }

    #[test]
    fn what_needs_no_repair_is_shared_and_not_copied(
        provider in providers(), conversation in conversation(16),
    ) {
        let snapshot = Snapshot::from_messages(conversation);
        let composer = Composer::new().window(Window::all());
        let plain = composer.compose_all(&snapshot, &[]).unwrap();
        let prompt = sent(composer.for_provider(provider).compose_all(&snapshot, &[]));
        let Some(prompt) = prompt else { return Ok(()) };
        let report = prompt.report();
        for (origin, message) in prompt.with_origins() {
            if let Origin::History(position) = origin {
                let record = snapshot.records.iter().find(|r| r.position() == position).unwrap();
                prop_assert!(std::ptr::eq(record.message(), message));
            }
        }
        // Every message that is not as it was said is in the report.
        for (origin, _) in plain.with_origins() {
            let Origin::History(position) = origin else { continue };
            let shared = prompt.with_origins().any(|(now, _)| now == origin);
            let next = plain.with_origins().map(|(origin, _)| origin).skip_while(|now| *now != origin);
            let told = report.adapted.iter().any(|a| a.position == Some(position))
                || report.left_out.iter().any(|l| l.position == position && l.why == Reason::Blank)
                || next.skip(1).take_while(|o| matches!(o, Origin::History(_) | Origin::Repair)).any(|o| {
                    let joined = |a: &memory_prompt::report::Adapted| {
                        a.how == Adaptation::Joined && Some(o) == a.position.map(Origin::History)
                    };
                    report.adapted.iter().any(joined)
                });
            // The system message goes in front of the first user message where it has no place.
            let joined = report.system_joined && !provider.row().system;
            prop_assert!(shared || told || joined, "{position}: {report}");
        }
        let nothing_done = report.adapted.is_empty() && !report.system_joined
            && report.left_out == plain.report().left_out;
        prop_assert_eq!(nothing_done, plain.with_origins().eq(prompt.with_origins()), "{}", report);
    }

    #[test]
    fn strict_fails_exactly_where_repair_had_something_to_do(
        provider in providers(), setup in setups(), conversation in conversation(12),
    ) {
        let composer = Setup { tokens: None, ..setup }.composer().for_provider(provider);
        let repaired = sent(compose(&composer, &conversation, &[]));
        let Some(repaired) = repaired else { return Ok(()) };
        let report = repaired.report();
        let strict = compose(&composer.tool_groups(ToolGroups::FailOnRepair), &conversation, &[]);
        let groups = !report.repaired.is_empty()
            || report.left_out.iter().any(|left| matches!(left.why, Reason::NoCall | Reason::Answered));
        let rules = !report.adapted.is_empty()
            || report.left_out.iter().any(|left| left.why == Reason::Blank);
        match strict {
            Ok(prompt) => {
                prop_assert!(!groups && !rules, "{}", report);
                prop_assert_eq!(prompt, repaired);
            }
            Err(error) if error.kind() == ErrorKind::ToolGroup => prop_assert!(groups, "{error}"),
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Provider);
                prop_assert!(rules, "{error}");
                prop_assert!(error.to_string().contains(&format!("{provider} refuses it")), "{error}");
            }
        }
    }

    #[test]
    fn what_the_shell_reads_in_steps_is_composed_as_from_everything_at_once(
        provider in providers(), setup in setups(), conversation in conversation(24),
        temporaries in temporaries(), evicted in 0u64..8,
    ) {
        let memory = DefaultChatMemory::with_id("rules");
        memory.add_all(conversation).unwrap();
        memory.evict(evicted).unwrap();
        let all = memory.read(None, usize::MAX).unwrap();
        let mut prompt = MemoryPrompt::new(memory);
        prompt.configure(|_| Setup { tokens: None, ..setup }.composer());
        prompt.configure(|composer| composer.for_provider(provider));
        for temporary in &temporaries {
            prompt.add_temporary(temporary.clone());
        }
        let temporaries: Vec<_> = temporaries.into_iter().map(Arc::new).collect();
        let whole = prompt.composer().compose_all(&all, &temporaries);
        match (prompt.build(), whole) {
            (Ok(built), Ok(whole)) => prop_assert_eq!(built, whole),
            (Err(built), Err(whole)) => prop_assert_eq!(built.to_string(), whole.to_string()),
            (built, whole) => prop_assert!(false, "{built:?}\n{whole:?}"),
        }
    }

    #[test]
    fn the_report_adds_up(
        provider in providers(), setup in setups(), conversation in conversation(16),
        temporaries in temporaries(),
    ) {
        let composer = setup.composer().for_provider(provider);
        let Ok(prompt) = compose(&composer, &conversation, &temporaries) else {
            return Ok(());
        };
        let several = temporaries.iter().any(|it| it.tool_calls().nth(1).is_some());
        if several && !provider.row().parallel_calls {
            return Ok(()); // how many messages it becomes is told of records alone
        }
        let report = prompt.report();
        let how = |how| report.adapted.iter().filter(|adapted| adapted.how == how).count();
        let system = usize::from(prompt.system().is_some());
        prop_assert_eq!(report.provider, Some(provider));
        prop_assert_eq!(report.messages, prompt.len());
        prop_assert_eq!(
            prompt.len() + how(Adaptation::Joined),
            system + report.sent + report.temporaries + report.repaired.len()
                + how(Adaptation::Opened) + how(Adaptation::Answered) + how(Adaptation::Closed)
                + usize::from(!report.note.is_empty()) + split(&prompt),
            "{}", report
        );
        prop_assert_eq!(report.stored, report.older + report.over_budget + report.private
            + (report.sent + report.left_out.len()) as u64, "{}", report);
        prop_assert_eq!(
            prompt.with_origins().filter(|(origin, _)| *origin == Origin::Added).count(),
            how(Adaptation::Opened) + how(Adaptation::Answered) + how(Adaptation::Closed)
        );
        prop_assert!(prompt.cacheable() <= prompt.len());
        prop_assert_eq!(&prompt, &compose(&composer, &conversation, &temporaries).unwrap());
    }
}

/// How many answers of a prompt are of a record that another one is of.
fn split(prompt: &Prompt) -> usize {
    let origins: Vec<_> = prompt.with_origins().filter(|(_, m)| m.has_tool_calls()).collect();
    let of_a_record = |origin| matches!(origin, Origin::Adapted(_) | Origin::Truncated(_));
    origins.windows(2).filter(|pair| pair[0].0 == pair[1].0 && of_a_record(pair[0].0)).count()
}

/// Whether a provider is sent anything of a message.
fn said(message: &Message) -> bool {
    !matches!(message, Message::Custom(_))
}

/// A conversation that every provider takes: the user asks, the model calls, hears and answers.
fn valid() -> impl Strategy<Value = (Vec<Vec<Message>>, Message)> {
    let turn = ("[a-z]{1,30}", 0usize..3, "[a-z]{1,30}", any::<bool>());
    (proptest::collection::vec(turn, 0..6), "[a-z]{1,30}").prop_map(|(turns, last)| {
        let mut n = 0;
        let turns = turns.into_iter().map(|(asked, calls, said, thinks)| {
            let mut turn = vec![Message::user(asked)];
            for _ in 0..calls {
                let ids = [format!("call{n:05}"), format!("call{:05}", n + 1)];
                n += 2;
                let calls = ids.iter().map(|id| ToolCall::new(id, "look", r#"{"x":1}"#));
                turn.push(Message::ai_calls(calls));
                turn.extend(ids.iter().map(|id| Message::tool(id, "look", "a cat")));
            }
            let thought = Reasoning::new("hm").with_signature("sig");
            let said = AiMessage::new(said).with_if(thinks, |it| it.with_reasoning(thought));
            turn.push(said.into());
            turn
        });
        (turns.collect(), Message::user(last))
    })
}

// What is done, in words.

fn texts(provider: Provider, history: &[Message], temporaries: &[Message]) -> Vec<String> {
    let composer = Composer::new().for_provider(provider);
    let prompt = compose(&composer, history, temporaries).unwrap();
    prompt.iter().map(|message| format!("{}: {}", message.role(), message.text())).collect()
}

fn refusal(provider: Provider, groups: ToolGroups, history: &[Message], own: &[Message]) -> String {
    let composer = Composer::new().tool_groups(groups).for_provider(provider);
    let error = compose(&composer, history, own).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Provider);
    error.to_string()
}

/// A question, a look, and what was seen.
fn looked(id: &str, seen: &str) -> Vec<Message> {
    let calls = [ToolCall::new(id, "look", "{}")];
    vec![Message::user("what?"), Message::ai_calls(calls), Message::tool(id, "look", seen)]
}

#[test]
fn mistral_gets_turns() {
    let mut history = looked("call00001", "a cat");
    history.extend([Message::user("and?"), Message::user("well?"), Message::ai("A cat.")]);
    history.extend([Message::ai("Black."), Message::user("thanks")]);
    let expected = [
        "user: what?",
        "assistant: ",
        "tool: a cat",
        "assistant: (no answer)",
        "user: and?\n\nwell?",
        "assistant: A cat.\n\nBlack.",
        "user: thanks\n\nToday is Friday.",
    ];
    let today = [Message::user("Today is Friday.")];
    assert_eq!(texts(Provider::Mistral, &history, &today), expected);
}

#[test]
fn nothing_blank_is_sent_where_that_is_refused() {
    let mut history = vec![Message::user(" "), Message::ai("\n"), Message::ai("Hm?")];
    history.extend(looked("c", ""));
    history.push(Message::ai(""));
    let asked = ["user: (empty message)", "assistant: Hm?", "user: what?"];
    let expected = [&asked[..], &["assistant: ", "tool: (no output)"]].concat();
    assert_eq!(texts(Provider::Anthropic, &history, &[]), expected);
    let silent = [Message::user("hi"), Message::ai(""), Message::user("hello?")];
    assert_eq!(texts(Provider::Ollama, &silent, &[]), ["user: hi", "assistant: ", "user: hello?"]);
}

#[test]
fn a_window_opens_on_the_user_and_a_greeting_stays() {
    let talk = [["Hello!", "hi"], ["Tea?", "yes"], ["Sugar?", "no"]];
    let talk = talk.map(|[ai, user]| [Message::ai(ai), Message::user(user)]).concat();
    let composer = Composer::new().for_provider(Provider::Anthropic);
    let firsts = |composer: &Composer| {
        let prompt = compose(composer, &talk, &[]).unwrap();
        (prompt[0].text().into_owned(), prompt.report().older)
    };
    assert_eq!(firsts(&composer), ("(start of the conversation)".to_owned(), 0));
    // Of the turn in which the window opens nothing would be left behind its question: so it is
    // out.
    assert_eq!(firsts(&composer.max_messages(4)), ("yes".to_owned(), 2));
}

#[test]
fn call_ids_are_what_the_provider_takes_at_both_ends() {
    let twice = [looked("call_0", "a cat"), looked("call_0", "a dog")].concat();
    let ids = |provider: Provider| {
        let composer = Composer::new().for_provider(provider);
        let prompt = compose(&composer, &twice, &[]).unwrap();
        let made = prompt.iter().flat_map(Message::tool_calls).map(|call| call.id.clone());
        let made: Vec<_> = made.collect();
        let answered = prompt.iter().filter_map(Message::as_tool).map(ToolMessage::call_id);
        assert!(made.iter().eq(answered));
        made
    };
    assert_eq!(ids(Provider::OpenAi), ["call_0", "call_0"]);
    assert_eq!(ids(Provider::Anthropic), ["call_0", "call_0_2"]);
    let nine = ids(Provider::Mistral);
    assert_eq!(nine[0].len(), 9);
    assert_eq!(nine[0], nine[1]); // the same wherever it stands
}

#[test]
fn strict_names_the_message_and_the_rule() {
    let two = ["a", "b"].map(Message::user);
    let (said, looked) = ([Message::ai("hi")], looked("call00001", "x"));
    let comes_first = "message 0 (assistant) comes first, where the user's message belongs";
    let no_answer = "temporary 0 (user) follows a tool result without an answer between";
    for (history, own, error) in [
        (&two[..], &[][..], "message 1 (user) follows another of its side"),
        (&said, &[], comes_first),
        (&looked, &two[..1], no_answer),
        (&[], &[], "there is no message"),
    ] {
        let refused = refusal(Provider::Mistral, ToolGroups::FailOnRepair, history, own);
        assert_eq!(refused, format!("compose: {error}: mistral refuses it"));
    }
}

#[test]
fn temporaries_are_refused_rather_than_reworded() {
    for (own, error) in [
        (Message::user(" "), " (user) is blank"),
        (Message::ai(""), " (assistant) is blank"),
        (Message::tool("c", "look", "a cat"), " answers call \"c\", which nothing made"),
    ] {
        let refused =
            refusal(Provider::Anthropic, ToolGroups::Repair, &[Message::user("hi")], &[own]);
        assert_eq!(refused, format!("compose: temporary 0{error}: anthropic refuses it"));
    }
}

#[test]
fn off_leaves_groups_alone_and_keeps_the_other_rules() {
    let orphan = [Message::tool("c", "look", ""), Message::user("")];
    let mut composer = Composer::new().tool_groups(ToolGroups::Off).for_provider(Provider::Gemini);
    let prompt = compose(&composer, &orphan, &[]).unwrap();
    let texts: Vec<_> = prompt.iter().map(|m| m.text().into_owned()).collect();
    assert_eq!(texts, ["(start of the conversation)", "(no output)", "(empty message)"]);
    let told = prompt.report().to_string();
    assert!(told.starts_with("3 messages: 2 of 2 from memory, for gemini\n"), "{told}");
    assert!(told.contains("  adapted    1: user, blank\n"), "{told}");
    assert!(!prompt.report().is_untouched());
    composer = composer.no_provider();
    assert_eq!(compose(&composer, &orphan, &[]).unwrap().to_messages(), orphan);
}

// Each rule of each validator, broken by hand.

/// The validator refuses this document for this reason, and no other.
#[track_caller]
fn refuses(wrong: &Wrong, why: &str) {
    assert!(wrong.iter().any(|wrong| wrong.contains(why)), "{wrong:?}");
}

fn call(id: &str) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "look", "arguments": "{}"}})
}

fn openai_call(id: &str) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": [call(id)]})
}

fn openai_result(id: &str) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": "a cat"})
}

fn said_by(role: &str) -> Value {
    json!({"role": role, "content": "hi"})
}

#[test]
fn the_validators_take_what_the_references_show() {
    let (system, user, answer) = (said_by("system"), said_by("user"), said_by("assistant"));
    let (asked, told) = (openai_call("call00001"), openai_result("call00001"));
    let messages = json!([system, user, asked, told, answer, user]);
    assert_eq!(validators::openai(&messages), Wrong::new());
    assert_eq!(validators::mistral(&messages), Wrong::new());
    let input = json!([
        {"type": "message", "role": "user", "content": "hi"},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "look", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "a cat"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "A cat."}]},
    ]);
    assert_eq!(validators::responses(&input), Wrong::new());
    let messages = json!([
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "hm", "signature": "sig"},
            {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a cat"},
            {"type": "text", "text": "and?"},
        ]},
    ]);
    assert_eq!(validators::anthropic(&messages), Wrong::new());
    let contents = json!([
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {"output": "a cat"}}}]},
        {"role": "model", "parts": [{"text": "A cat."}]},
    ]);
    assert_eq!(validators::gemini(&contents), Wrong::new());
    let messages = json!([
        system,
        {"role": "user", "content": "hi", "images": ["AA=="]},
        {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {}}}]},
        {"role": "tool", "tool_name": "look", "content": "a cat"},
    ]);
    assert_eq!(validators::ollama(&messages), Wrong::new());
}

#[test]
fn the_openai_validator_can_fail() {
    let check = |messages: Value, why| refuses(&validators::openai(&messages), why);
    check(json!([]), "an empty list");
    check(json!([said_by("user"), openai_result("c")]), "answers no call");
    check(json!([openai_call("c"), openai_result("c"), openai_result("c")]), "answers no call");
    check(json!([openai_call("c"), said_by("user"), openai_result("c")]), "answers no call");
    check(json!([openai_call("c"), said_by("user")]), "was not answered");
    check(json!([openai_call("c")]), "end: call");
    check(json!([openai_call("")]), "without id");
    let untyped = json!({"id": "c", "type": "", "function": {"arguments": "{}"}});
    check(json!([{"role": "assistant", "tool_calls": [untyped]}]), "a call of kind");
    check(json!([{"role": "assistant", "tool_calls": [call("c"), call("c")]}]), "twice");
    check(json!([{"role": "assistant", "content": null}]), "neither content nor calls");
    check(json!([{"role": "assistant", "content": "", "tool_calls": []}]), "empty list of calls");
    check(json!([{"role": "user", "content": []}]), "neither a string nor a list");
    check(json!([{"role": "user", "content": [{"type": "video"}]}]), "of kind");
    check(json!([{"role": "system", "content": [{"type": "image_url"}]}]), "of kind");
    check(json!([{"role": "custom", "content": "x"}]), "role");
    let odd = json!({"id": "c", "function": {"arguments": {}}});
    check(json!([{"role": "assistant", "tool_calls": [odd]}]), "no string");
}

#[test]
fn the_validator_of_functions_can_fail() {
    let free = json!({"id": "c", "type": "custom", "custom": {"name": "sql", "input": "x"}});
    let messages = json!([{"role": "assistant", "tool_calls": [free]}]);
    refuses(&validators::functions_alone(&messages), "a call of type");
}

#[test]
fn the_validator_of_blocks_can_fail() {
    let check = |body, kinds: &[&str], why| {
        refuses(&validators::known_blocks(&body, kinds, &["text"]), why);
    };
    let refused = json!({"type": "refusal", "refusal": "No."});
    check(json!([{"role": "assistant", "content": [refused]}]), &["text"], "of kind");
    let image = |url: &str| json!([{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]);
    check(image("https://e.x/a.png"), &["text"], "of kind");
    check(image("data:image/svg+xml;base64,PHN2Zy8+"), &["image_url"], "unknown kind");
    check(image("gs://bucket/a.png"), &["image_url"], "unknown kind");
}

#[test]
fn the_responses_validator_can_fail() {
    let check = |input: Value, why| refuses(&validators::responses(&input), why);
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "arguments": "{}"});
    let output = |id: &str| json!({"type": "function_call_output", "call_id": id, "output": ""});
    let user = json!({"type": "message", "role": "user", "content": "hi"});
    check(json!([]), "an empty input");
    check(json!([output("c")]), "answers no call");
    check(json!([call("c"), output("c"), output("c")]), "answers no call");
    check(json!([call("c")]), "has no output");
    let computer = |kind: &str| json!({"type": format!("computer_call{kind}"), "call_id": "c"});
    check(json!([computer(""), computer("_output")]), "without a picture");
    check(json!([call(""), output("")]), "without id");
    check(json!([call("c"), output("c"), call("c")]), "twice");
    check(json!([{"type": "reasoning"}]), "reasoning without");
    check(json!([{"type": "reasoning"}, user]), "reasoning without");
    check(json!([{"type": "message", "role": "tool", "content": "x"}]), "role");
    check(json!([{"type": "message", "role": "user", "content": []}]), "no content");
    let block = |role: &str, kind: &str| json!([{"type": "message", "role": role, "content": [{"type": kind, "text": "x"}]}]);
    check(block("assistant", "input_text"), "in the place of");
    check(block("user", "output_text"), "in the place of");
    check(json!([{"type": "custom"}]), "an item of kind");
}

#[test]
fn the_anthropic_validator_can_fail() {
    let check = |messages: Value, why| refuses(&validators::anthropic(&messages), why);
    let turn = |role: &str, blocks: &[Value]| json!({"role": role, "content": blocks});
    let call = |id: &str| json!({"type": "tool_use", "id": id, "name": "look", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let text = |text: &str| json!({"type": "text", "text": text});
    let hi = said_by("user");
    check(json!([]), "at least one message");
    check(json!([said_by("assistant")]), "not the user's");
    check(json!([{"role": "system", "content": "x"}]), "role");
    check(json!([{"role": "user", "content": " \n"}]), "blank");
    check(json!([turn("user", &[text("\t")])]), "blank");
    check(json!([turn("user", &[])]), "no content");
    check(json!([turn("user", &[result("c")])]), "answers no call");
    check(json!([hi, turn("assistant", &[call("c")]), hi]), "was not answered");
    check(json!([hi, turn("assistant", &[call("c")])]), "end: call");
    let late = turn("user", &[text("x"), result("c")]);
    check(json!([hi, turn("assistant", &[call("c")]), late]), "a result behind");
    let asked = turn("assistant", &[call("c")]);
    let told = turn("user", &[result("c")]);
    check(json!([hi, asked, told, asked, told]), "not unique");
    check(json!([hi, turn("assistant", &[call("a.b")])]), "id \"a.b\"");
    check(json!([hi, turn("assistant", &[call("")])]), "id \"\"");
    let thinking = json!({"type": "thinking", "thinking": "hm", "signature": "s"});
    check(json!([hi, turn("assistant", std::slice::from_ref(&thinking))]), "thinking at the end");
    check(json!([turn("user", &[thinking])]), "of user");
    check(json!([turn("user", &[call("c")])]), "of user");
    check(json!([turn("user", &[json!({"type": "video"})])]), "of user");
    let odd = json!({"type": "tool_use", "id": "c", "name": "look", "input": "{}"});
    check(json!([hi, turn("assistant", &[odd])]), "no object");
    let searches = json!({"type": "server_tool_use", "id": "s", "name": "web_search"});
    let found = json!({"type": "web_search_tool_result", "tool_use_id": "s", "content": []});
    check(json!([hi, turn("assistant", std::slice::from_ref(&found))]), "of no hosted call");
    check(json!([hi, turn("assistant", &[searches]), hi]), "\"s\" has no result");
    let mut made = call("c");
    made["caller"] = json!({"type": "code_execution_20250825", "tool_id": "p"});
    check(json!([hi, turn("assistant", &[made]), turn("user", &[result("c")])]), "called by \"p\"");
    let silent = json!({"type": "tool_result", "tool_use_id": "c", "content": [text("")]});
    check(json!([hi, asked, turn("user", &[silent])]), "blank text in a result");
    let mut fails = result("c");
    fails["is_error"] = true.into();
    fails["content"] = json!([{"type": "image"}]);
    check(json!([hi, asked, turn("user", &[fails])]), "an error that is no text");
}

#[test]
fn the_validators_of_media_can_fail() {
    let file = |file: Value| json!([{"role": "user", "content": [{"type": "file", "file": file}]}]);
    let csv = file(json!({"file_data": "data:text/csv;base64,YQ=="}));
    refuses(&validators::only_pdfs(&csv), "no PDF");
    let foreign = |body, why| refuses(&validators::foreign_media(&body, &["file-"]), why);
    let google = "https://generativelanguage.googleapis.com/v1beta/files/a";
    for url in ["gs://b/a.png", "s3://b/a", google] {
        let image = json!({"type": "image_url", "image_url": {"url": url}});
        foreign(json!([{"role": "user", "content": [image]}]), "another provider's");
    }
    foreign(file(json!({"file_id": "file_01a"})), "file_01a");
    let webp = json!({"messages": [{"images": ["UklGRhoAAABXRUJQVlA4"]}]});
    refuses(&validators::images(&webp, &["image/png"]), "invalid image type");
    let gif = json!({"url": "data:image/gif;base64,R0lGOD"});
    refuses(&validators::images(&gif, &["image/png"]), "invalid image type");
    refuses(&validators::details(&json!([{"detail": "ultra_high"}])), "invalid value of detail");
}

#[test]
fn the_validators_of_data_and_addresses_can_fail() {
    let image = |url: &str| json!([{"image_url": {"url": url}}]);
    refuses(&validators::only_tls(&image("http://e.x/a.png")), "without TLS");
    let source = json!({"type": "image", "source": {"type": "url", "url": "https://e.x/a.png"}});
    refuses(&validators::no_addresses(&json!([{"content": [source]}])), "not supported");
    let data = |body| refuses(&validators::data_of_its_type(&body), "said to be");
    data(image("data:image/png;base64,/9j/AA=="));
    data(json!([{"inlineData": {"mimeType": "image/png", "data": "/9j/AA=="}}]));
    data(json!([{"source": {"media_type": "image/png", "data": "/9j/AA=="}}]));
    refuses(&validators::data_of_its_type(&image("data:image/svg+xml,%3C")), "no base64");
}

#[test]
fn the_gemini_validator_can_fail() {
    let check = |contents: Value, why| refuses(&validators::gemini(&contents), why);
    let turn = |role: &str, parts: &[Value]| json!({"role": role, "parts": parts});
    let call = json!({"functionCall": {"name": "look", "args": {}}});
    let result = |name: &str| json!({"functionResponse": {"name": name, "response": {}}});
    let hi = turn("user", &[json!({"text": "hi"})]);
    check(json!([]), "not specified");
    check(json!([turn("user", &[])]), "no parts");
    check(json!([turn("system", &[json!({"text": "x"})])]), "role");
    check(json!([turn("user", &[json!({"text": ""})])]), "an empty text");
    check(json!([turn("user", &[json!({})])]), "0 kinds of data");
    check(json!([turn("user", &[json!({"text": "x", "inlineData": {}})])]), "2 kinds of data");
    let asked = turn("model", std::slice::from_ref(&call));
    check(json!([asked, turn("user", &[result("look")])]), "follows no user");
    check(json!([turn("user", std::slice::from_ref(&call))]), "a call of the user");
    check(json!([hi, asked]), "1 calls and 0 results");
    let two = turn("model", &[call.clone(), call]);
    check(json!([hi, two, turn("user", &[result("look")])]), "2 calls and 1 results");
    check(json!([hi, turn("user", &[result("look")])]), "results of other calls");
    check(json!([hi, asked, turn("user", &[result("see")])]), "results of other calls");
    let mixed = turn("user", &[result("look"), json!({"text": "x"})]);
    check(json!([hi, asked, mixed]), "beside something else");
    let odd = json!({"functionResponse": {"name": "look", "response": "x"}});
    check(json!([hi, asked, turn("user", &[odd])]), "no object");
    let told = turn("user", &[result("look")]);
    check(json!([hi, asked, told, told]), "results in two turns");
    let named = turn("model", &[json!({"functionCall": {"name": "look", "id": "c"}})]);
    refuses(&validators::no_ids(&json!([named])), "unknown name");
    let holding =
        |part: Value| json!([turn("user", &[json!({"functionResponse": {"parts": [part]}})])]);
    let audio = holding(json!({"inlineData": {"mimeType": "audio/wav", "data": ""}}));
    let stored = json!({"fileData": {"mimeType": "image/png", "fileUri": "gs://b/a"}});
    refuses(&validators::media_in_results(&audio, true), "within a result");
    refuses(&validators::media_in_results(&holding(stored.clone()), false), "within a result");
    assert_eq!(validators::media_in_results(&holding(stored), true), Wrong::new());
}

#[test]
fn the_validator_of_googles_twin_can_fail() {
    let check = |messages: Value, why| refuses(&validators::google(&messages), why);
    let asks = json!({"role": "assistant", "tool_calls": [openai_call("c1")]});
    check(json!([said_by("system")]), "contents is not specified");
    check(json!([said_by("user"), asks]), "a call without signature");
    check(json!([said_by("system"), asks]), "follows no user turn");
}

#[test]
fn the_mistral_validator_can_fail() {
    let check = |messages: Value, why| refuses(&validators::mistral(&messages), why);
    let (user, answer) = (said_by("user"), said_by("assistant"));
    let (asked, told) = (openai_call("call00001"), openai_result("call00001"));
    check(json!([said_by("system")]), "no message");
    check(json!([answer]), "not the user's");
    check(json!([user, user]), "do not alternate");
    check(json!([user, answer, answer]), "do not alternate");
    check(json!([user, answer, asked, told, answer]), "do not alternate");
    check(json!([user, asked, told, user]), "unexpected role \"user\" after role \"tool\"");
    check(json!([user, said_by("system")]), "unexpected role \"system\"");
    check(json!([user, {"role": "assistant", "content": ""}]), "neither content nor calls");
    check(json!([user, openai_call("call_1"), openai_result("call_1")]), "id \"call_1\"");
    check(json!([user, asked]), "was not answered");
}

#[test]
fn the_validators_of_order_can_fail() {
    let (system, user, answer) = (said_by("system"), said_by("user"), said_by("assistant"));
    refuses(&validators::late_system(&json!([user, system])), "not at the beginning");
    refuses(&validators::late_system(&json!([system, system])), "not at the beginning");
    refuses(&validators::question(&json!([system, answer])), "no user query");
    let deepseek = |messages: Value, why| refuses(&validators::deepseek_order(&messages), why);
    deepseek(json!([system, answer, user]), "not the user's");
    deepseek(json!([system]), "not the user's");
    deepseek(json!([user, answer]), "is an answer");
    refuses(&validators::deepseek(&json!([user, answer])), "without reasoning_content");
    refuses(&validators::xai(&json!([{"role": "system", "content": ""}])), "an empty message");
}

#[test]
fn the_ollama_validator_can_fail() {
    let check = |messages: Value, why| refuses(&validators::ollama(&messages), why);
    let asked = json!({"role": "assistant", "content": "",
        "tool_calls": [{"function": {"name": "look", "arguments": {}}}]});
    let told = json!({"role": "tool", "content": "x"});
    check(json!([told]), "without a call");
    check(json!([asked, said_by("user")]), "without results");
    check(json!([asked]), "end: 1 calls");
    check(json!([asked, told, told]), "without a call");
    check(json!([{"role": "custom", "content": ""}]), "role");
    check(json!([{"role": "user", "content": []}]), "no string");
    check(json!([{"role": "user", "content": "", "images": ["https://e.x/a.png"]}]), "bare base64");
    let odd = json!({"role": "assistant", "content": "",
        "tool_calls": [{"function": {"name": "look", "arguments": "{}"}}]});
    check(json!([odd, told]), "no object");
}

/// A history of Anthropic's in the middle of a tool loop was sent to Gemini 3 with a call that no
/// signature marked as its own, which is a 400; and the report was clean.
#[test]
fn calls_of_others_are_marked_for_gemini_3() {
    let calls = ["x", "y"].map(|id| ToolCall::new(id, "look", "{}"));
    let [one, two] = calls.each_ref().map(|call| call.result("1"));
    let history = [Message::user("q"), Message::ai_calls(calls), one, two];
    let sent = |provider: Provider, model: Option<&'static str>| {
        let prompt = prompt_for(provider, &history);
        json!(Request::new(&prompt).with_some(model, Request::model))
    };
    let parts = |provider: Provider, model| sent(provider, model)["contents"][1]["parts"].clone();
    let skipped = json!("skip_thought_signature_validator");
    for provider in [Provider::Gemini, Provider::Vertex] {
        for strict in [provider, provider.model("gemini-3-pro-preview"), provider.model("tuned")] {
            let parts = parts(strict, None);
            assert_eq!(parts[0]["thoughtSignature"], skipped, "{strict:?}");
            assert_eq!(parts[1].get("thoughtSignature"), None);
        }
        assert_eq!(parts(provider, Some("gemini-3.1-flash"))[0]["thoughtSignature"], skipped);
        // Those before know no such thing, wherever they are named.
        let older = parts(provider.model("models/gemini-2.5-flash-preview-09-2025"), None);
        assert_eq!(older[0].get("thoughtSignature"), None);
        assert_eq!(parts(provider, Some("gemini-2.5-pro"))[0].get("thoughtSignature"), None);
    }
    // In Google's server for OpenAI's format another place is for it, and none was written there.
    let calls = |provider: Provider, model: &'static str| {
        sent(provider, Some(model))["messages"][1]["tool_calls"].clone()
    };
    let google = Provider::GoogleOpenAi;
    let signed = calls(google, "gemini-3.1-flash");
    assert_eq!(signed[0]["extra_content"], json!({"google": {"thought_signature": skipped}}));
    assert_eq!(signed[1].get("extra_content"), None);
    assert_eq!(calls(google, "gemini-2.5-pro")[0].get("extra_content"), None);
    let older = calls(google.model("models/gemini-2.5-pro"), "m");
    assert_eq!(older[0].get("extra_content"), None);
    assert_eq!(calls(Provider::OpenAi, "gemini-3.1-flash")[0].get("extra_content"), None);
}

/// A call of `my tool/é` went as it was to providers that answer 400 to such a name: Gemini allows
/// dots and colons, which OpenAI and Anthropic refuse.
#[test]
fn names_of_tools_are_as_the_provider_takes_them() {
    let long = "l".repeat(200);
    let names =
        ["my tool/é", "my tool/è", "my_tool__", "mail.send", "mail:send", "9lives", "", &long];
    let calls =
        || names.iter().enumerate().map(|(i, name)| ToolCall::new(format!("c{i}"), *name, "{}"));
    let mut history = vec![Message::user("q"), Message::ai_calls(calls())];
    history.extend(calls().map(|call| Message::tool(call.id, call.name, "1")));
    for provider in all() {
        let prompt = prompt_for(provider, &history);
        let told = prompt.report().adapted.iter().any(|it| it.how == Adaptation::ToolNames);
        let (dots, most, any, begins) = match provider {
            Provider::Ollama | Provider::Vllm | Provider::LlamaCpp => (true, 200, true, false),
            own if own == llama() => (true, 200, true, false),
            Provider::Gemini | Provider::Vertex => (true, 64, false, true),
            Provider::GoogleOpenAi => (false, 64, false, true),
            Provider::Anthropic | Provider::ClaudeOnVertex => (false, 128, false, false),
            own if own == older_claude() => (false, 128, false, false),
            _ => (false, 64, false, false),
        };
        assert_eq!(told, !any, "{provider}");
        let is_taken = |name: &String| {
            let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            any || (1..=most).contains(&name.len())
                && name.chars().all(|c| plain(c) || (dots && (c == '.' || c == ':')))
                && (!begins || !name.starts_with(|c: char| c.is_ascii_digit() || c == '-'))
        };
        let body = first_messages(provider, &prompt, prompt.len());
        let sent = validators::tool_names(&body);
        assert!(sent.len() >= names.len() - 1, "{provider}: {body}");
        assert!(sent.iter().all(is_taken), "{provider}: {sent:?}");
        let called = prompt.iter().flat_map(Message::tool_calls).map(|it| it.name.as_str());
        let called: HashSet<_> = called.collect();
        assert_eq!(called.len(), names.len(), "{provider}: {called:?}");
        assert!(called.contains("my_tool__"), "a good name is kept");
        for result in prompt.iter().filter_map(Message::as_tool) {
            let mut calls = prompt.iter().flat_map(Message::tool_calls);
            let call = calls.find(|call| call.id == result.call_id()).unwrap();
            assert!(result.tool_name().is_empty() || result.tool_name() == call.name, "{provider}");
        }
        let strict = Composer::new().for_provider(provider).tool_groups(ToolGroups::FailOnRepair);
        let call = ToolCall::new("abcdefghi", "a b", "{}");
        let asked = [Message::user("q"), Message::ai_calls([call.clone()]), call.result("1")];
        if let Err(error) = compose(&strict, &asked, &[]) {
            let said = "message 1 (assistant) has a tool's name that is malformed";
            assert!(error.to_string().contains(said), "{error}");
        } else {
            assert!(any, "{provider}");
        }
    }
}

/// Returns the ids of the calls of a prompt, and those of its results.
fn ids(prompt: &Prompt) -> [Vec<String>; 2] {
    let calls = prompt.iter().flat_map(Message::tool_calls).map(|call| call.id.clone());
    let results = prompt.iter().filter_map(Message::as_tool).map(|tool| tool.call_id().to_owned());
    [calls.collect(), results.collect()]
}

/// A model that numbers its calls from 0 in each answer had ten thousand of them under the id
/// `call_0`: for each the search for a free name began at `call_0_2` again, and a build took
/// minutes.
#[test]
fn ids_that_repeat_take_time_in_proportion_to_the_calls() {
    const CALLS: usize = 10_000;
    let call = |id: &str| ToolCall::new(id, "t", "{}");
    let rounds = (0..CALLS)
        .flat_map(|_| [Message::ai_calls([call("call_0")]), Message::tool("call_0", "t", "1")]);
    let rounds: Vec<_> = std::iter::once(Message::user("q")).chain(rounds).collect();
    let results = (0..CALLS).map(|i| Message::tool("call_0", "t", i.to_string()));
    let at_once = [Message::user("q"), Message::ai_calls(vec![call("call_0"); CALLS])];
    let at_once: Vec<_> = at_once.into_iter().chain(results).collect();
    // Results that come late, the last one first.
    let id = |i: usize| format!("c{i}");
    let calls = (0..CALLS).map(|i| Message::ai_calls([call(&id(i))]));
    let results = (0..CALLS).rev().map(|i| Message::tool(id(i), "t", i.to_string()));
    let late: Vec<_> = std::iter::once(Message::user("q")).chain(calls).chain(results).collect();
    for (provider, history) in [
        (Provider::Anthropic, &rounds),
        (Provider::OpenAiResponses, &rounds),
        (Provider::OpenAi, &at_once),
        (Provider::Mistral, &at_once),
        (Provider::Anthropic, &at_once),
        (Provider::Anthropic, &late),
    ] {
        let (prompt, took) = computed(|| prompt_for(provider, history));
        let [calls, results] = ids(&prompt);
        assert_eq!((calls.len(), &calls), (CALLS, &results), "{provider}");
        assert_eq!(calls.iter().collect::<HashSet<_>>().len(), CALLS, "{provider}");
        assert!(took < Duration::from_secs(5), "{provider}: {took:?}");
    }
}

counted! {
    #![cases(256)]

    /// A copy of an id has the first number that is free, as if all were tried in order.
    #[test]
    fn ids_that_repeat_have_the_first_name_that_is_free(
        called in proptest::collection::vec(
            proptest::collection::vec("[aé]{0,2}|a_2|a_2_2|call|call_2|_", 1..6), 1..8),
    ) {
        let groups = called.iter().flat_map(|ids| {
            let calls = ids.iter().map(|id| ToolCall::new(id, "t", "{}"));
            let results = ids.iter().map(|id| Message::tool(id, "t", "1"));
            std::iter::once(Message::ai_calls(calls)).chain(results).collect::<Vec<_>>()
        });
        let history: Vec<_> = std::iter::once(Message::user("q")).chain(groups).collect();
        for provider in [Provider::Anthropic, Provider::OpenAi] {
            let mut taken = HashSet::new();
            let mut expected = Vec::new();
            for ids in &called {
                if provider == Provider::OpenAi {
                    taken.clear();
                }
                for id in ids {
                    let first = if id.is_empty() { "call" } else { id };
                    let names = (2..).map(|n| format!("{first}_{n}"));
                    let names = std::iter::once(first.to_owned()).chain(names);
                    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
                    let is_free = |name: &String| taken.insert(name.chars().map(plain).collect::<String>());
                    expected.extend(names.into_iter().find(is_free));
                }
            }
            let [calls, results] = ids(&prompt_for(provider, &history));
            prop_assert_eq!(&calls, &expected, "{}", provider);
            prop_assert_eq!(&results, &expected, "{}", provider);
        }
    }
}
