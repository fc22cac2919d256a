//! A report agrees with itself and with what is sent, for every provider.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use crate::conversations::*;
use crate::counted::counted;
use crate::notation;
use crate::processors::Drops;
use crate::sent::left_out;
use crate::setups::{Drawn, providers, setups};
use memory_prompt::message::AiMessage;
use memory_prompt::record::{Records, Snapshot, Unreadable};
use memory_prompt::report::{Adaptation, LeftOut, Origin, Reason};
use memory_prompt::text::Keep;
use memory_prompt::token::Estimate;
use memory_prompt::truncate::TruncateContext;
use memory_prompt::{
    Composer, Error, ErrorKind, Message, Prompt, Provider, Truncate, Window, wire,
};
use proptest::prelude::*;
use serde_json::json;

fn compose(composer: &Composer, said: &[Message]) -> Prompt {
    composer.compose_all(&Snapshot::from_messages(said.to_vec()), &[]).unwrap()
}

/// Returns what was done to each record that the report calls left out, in words; nothing if it
/// agrees with itself.
fn contradictions(prompt: &Prompt) -> Vec<String> {
    let report = prompt.report();
    let mut found = Vec::new();
    for LeftOut { position, why, .. } in &report.left_out {
        let mut is_there = |there: bool, what: &str| {
            if there {
                found.push(format!("{position} is left out ({why}) and {what}"));
            }
        };
        is_there(report.adapted.iter().any(|it| it.position == Some(*position)), "adapted");
        is_there(report.truncated.iter().any(|it| it.position == *position), "truncated");
        is_there(report.cleared.iter().any(|it| it.position == *position), "cleared");
        is_there(report.moved.iter().any(|it| it.position == *position), "moved");
        is_there(report.question.contains(position), "the question");
        is_there(report.pinned_before.contains(position), "pinned before the window");
        is_there(report.kept_systems.contains(position), "in its place");
        is_there(report.note.contains(position), "told to have arrived");
    }
    found
}

/// An answer that had thought and searched, and no more, was told twice: as adapted, without what
/// only another provider understands, and as left out, for it says nothing. Nothing of it is sent,
/// and the reason is that the rest was another provider's.
#[test]
fn an_answer_of_which_nothing_is_sent_is_left_out_and_not_adapted() {
    let searches = json!({"role": "assistant", "content": [
        {"type": "thinking", "thinking": "I look.", "signature": "sig"},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}]});
    let searches = wire::answer(Provider::Anthropic, searches.to_string()).unwrap();
    let said = [Message::user("Who won?"), searches.message.into(), Message::user("Well?")];
    let prompt = compose(&Composer::new().for_provider(Provider::OpenAiResponses), &said);
    assert_eq!(left_out(&prompt), [(1, Reason::Foreign)]);
    assert_eq!(contradictions(&prompt), Vec::<String>::new());
}

/// A blank system message among the records was left out, and told to stand in its place.
#[test]
fn a_blank_system_message_that_is_left_out_is_not_in_its_place() {
    let said = [Message::user("Hi."), Message::user("Well?"), Message::system("")];
    let prompt = compose(&Composer::new().for_provider(Provider::Xai), &said);
    assert_eq!(left_out(&prompt), [(2, Reason::Blank)]);
    assert_eq!(contradictions(&prompt), Vec::<String>::new());
}

/// A blank message behind a result had an answer put before it, and then went, since the user said
/// more: the report told of the answer at the record that was left out.
#[test]
fn the_answer_before_a_blank_message_is_told_of_the_one_that_stays() {
    let said =
        notation::conversation("u:Look. call:call00001 t:call00001=Rain. u: u:And_tomorrow?");
    let prompt = compose(&Composer::new().for_provider(Provider::Mistral), &said);
    let answered =
        prompt.report().adapted.iter().find(|it| it.how == Adaptation::Answered).unwrap();
    assert_eq!(answered.position, Some(4));
    assert_eq!(contradictions(&prompt), Vec::<String>::new());
}

/// A gap pointed into the text before the provider's repairs: of two messages that were joined, the
/// place of the second's cut lay in the text of the first.
#[test]
fn a_gap_points_into_the_text_that_is_sent() {
    let said = [Message::user("Hello, world"), Message::user("Good-bye, world")];
    let cut = Truncate::chars(9).unwrap().keep(Keep::Ends).marker(" … ");
    let prompt = compose(&Composer::new().truncate(cut).for_provider(Provider::Mistral), &said);
    let text = prompt[0].text();
    assert_eq!(text, "Hel … rld\n\nGoo … rld");
    let gaps: Vec<_> = prompt.report().truncated.iter().map(|cut| cut.gap.unwrap()).collect();
    assert_eq!(gaps.iter().map(|gap| gap.at).collect::<Vec<_>>(), [3, 16]);
    for gap in gaps {
        assert_eq!(&text[gap.at..gap.at + gap.marker], " … ");
    }
}

/// Returns the message with the record at this position.
fn with(prompt: &Prompt, position: u64) -> Option<&Message> {
    let of = |origin| match origin {
        Origin::History(position) | Origin::Truncated(position) | Origin::Adapted(position) => {
            Some(position)
        }
        Origin::Joined(position) => position,
        _ => None,
    };
    let sent = prompt.with_origins().filter(|(origin, message)| {
        of(*origin).is_some_and(|it| it == position)
            || matches!(origin, Origin::Joined(Some(first)) if *first < position && !message.is_tool())
    });
    sent.max_by_key(|(origin, _)| of(*origin)).map(|(_, message)| message)
}

fn truncate() -> impl Strategy<Value = Truncate> {
    let keep = prop::sample::select(vec![Keep::Head, Keep::Tail, Keep::Ends]);
    let marker = prop::sample::select(vec!["", " ", "…", "[{left_out}]"]);
    (1usize..12, keep, marker)
        .prop_map(|(limit, keep, marker)| Truncate::chars(limit).unwrap().keep(keep).marker(marker))
}

counted! {
    #![cases(256)]

    #[test]
    fn no_record_is_left_out_and_sent(
        said in prop_oneof![conversation(12), late_results(24), with_systems(4)],
        added in temporaries(),
        provider in providers(),
        setup in setups(),
        drops in proptest::option::of(2u64..5),
    ) {
        let added: Vec<_> = added.into_iter().map(Arc::new).collect();
        let mut composer = setup.composer().for_provider(provider);
        if let Some(each) = drops {
            let truncate = setup.truncate.clone().unwrap_or_default();
            let drops = move |_: &Message, it: &TruncateContext| it.position % each == 1;
            composer = composer.truncate(truncate.processor(Drops(drops)));
        }
        // What is refused tells nothing.
        if let Ok(prompt) = composer.compose_all(&Snapshot::from_messages(said), &added) {
            prop_assert_eq!(contradictions(&prompt), Vec::<String>::new());
        }
    }

    /// A row before all others that can't be read is in a window of turns or before it, and which
    /// of the two hangs on what there is, not on how many turns the window would take.
    #[test]
    fn an_unreadable_oldest_row_is_told_alike_by_windows_that_take_all(
        said in prop_oneof![conversation(8), late_results(16)],
        budget in proptest::option::of(1_000_000usize..2_000_000),
    ) {
        let rows = (1..).zip(stored(&said)).map(|(position, message)| (position, UNIX_EPOCH, message));
        let records = Records::from_rows(rows);
        let mut snapshot = Snapshot::new(0..records.len() as u64 + 1, records);
        let error = Arc::new(Error::new(ErrorKind::Codec, "read", "torn"));
        snapshot.unreadable.push(Unreadable { position: 0, error });
        let all = snapshot.records.len();
        let mut told = Vec::new();
        for n in 1..8 {
            let mut composer = Composer::new().window(Window::turns(n));
            composer = composer.with_some(budget, |it, budget| it.max_tokens(budget, Estimate));
            let prompt = composer.compose_all(&snapshot, &[]).unwrap();
            if prompt.report().sent == all && all > 0 {
                told.push(prompt.report().unreadable.clone());
            }
        }
        told.dedup();
        // In a history that nobody asks anything a turn is less, and the window may be full.
        let asks = |it: &Message| matches!(it, Message::User(user) if !user.is_steered());
        let is_asked = snapshot.records.messages().any(asks);
        prop_assert!(told.len() < 2 || !is_asked, "{:?}", told);
    }

    /// Around a gap stands what stood there before the provider's repairs.
    #[test]
    fn what_stands_at_a_gap_is_what_stood_there_before_the_repairs(
        said in prop::collection::vec(prop_oneof![
            3 => text().prop_map(Message::user),
            1 => prop::collection::vec(text().prop_map(memory_prompt::message::Part::text), 1..4)
                .prop_map(Message::user),
            2 => text().prop_map(Message::ai),
            1 => text().prop_map(|text| AiMessage::new(text).with_part(memory_prompt::message::Part::text(" and more")).into()),
        ], 1..8),
        truncate in truncate(),
        provider in providers(),
        system in any::<bool>(),
    ) {
        let composer = Composer::new().window(Window::all()).truncate(truncate);
        let composer = if system { composer.system("Be brief.") } else { composer };
        let before = composer.compose_all(&Snapshot::from_messages(said.clone()), &[]).unwrap();
        let Ok(after) = composer
            .for_provider(provider)
            .compose_all(&Snapshot::from_messages(said), &[]) else { return Ok(()) };
        for cut in &after.report().truncated {
            let first = before.report().truncated.iter().find(|it| it.position == cut.position).unwrap();
            let (Some(first), Some(gap)) = (first.gap, cut.gap) else {
                prop_assert!(cut.gap.is_none());
                // A cut is lost only where a placeholder stands in place of the text.
                if let Some(gap) = first.gap {
                    let text = with(&before, cut.position).unwrap().texts().nth(gap.text).unwrap();
                    prop_assert!(text.trim().is_empty(), "{text:?} lost its gap");
                }
                continue;
            };
            let text = with(&before, cut.position).unwrap().texts().nth(first.text).unwrap();
            let sent = with(&after, cut.position).unwrap().texts().nth(gap.text).unwrap();
            let from = gap.at.saturating_sub(first.at);
            let rest = &sent[from..];
            prop_assert!(rest.starts_with(text) || text.starts_with(rest), "{text:?} in {sent:?}");
            prop_assert!(text[first.at..].starts_with(&sent[gap.at..gap.at + gap.marker]));
            prop_assert_eq!(gap.left_out, first.left_out);
        }
    }
}
