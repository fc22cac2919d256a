//! Cuts are shown where they are: what a page shows before and behind the mark is what was said.
#![cfg(feature = "inspect")]
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use crate::counted::counted;
use memory_prompt::message::{Content, Part, UserMessage};
use memory_prompt::record::Snapshot;
use memory_prompt::report::Truncated;
use memory_prompt::text::{Keep, Unit};
use memory_prompt::{Composer, Message, Prompt, Provider, Truncate};
use proptest::prelude::*;

fn prompt(message: Message, truncate: Truncate) -> Prompt {
    let snapshot = Snapshot::from_messages([message]);
    Composer::new().truncate(truncate).compose_all(&snapshot, &[]).unwrap()
}

/// Returns what stands on the page between `<pre>` and its end, for the only text there.
fn shown(prompt: &Prompt) -> String {
    let page = prompt.html();
    let text = page.split("<pre dir=\"auto\">\n").nth(1).unwrap();
    text.split("</pre>").next().unwrap().to_owned()
}

#[test]
fn both_ends_of_a_cut_are_shown_with_what_is_missing() {
    let text = format!("begin {}end", "x".repeat(2_000));
    let truncate = Truncate::chars(20).unwrap();
    for (truncate, expected) in [
        (truncate.clone(), "begin xxxxxxxxxxxxxx<mark><b>1,989 bytes not sent</b></mark>"),
        (
            truncate.clone().keep(Keep::Tail),
            "<mark><b>1,989 bytes not sent</b></mark>xxxxxxxxxxxxxxxxxend",
        ),
        (
            truncate.keep(Keep::Ends).marker(" <…> "),
            "begin xx<mark> &lt;…&gt; <b>1,994 bytes not sent</b></mark>xxxxend",
        ),
    ] {
        assert_eq!(shown(&prompt(Message::user(text.clone()), truncate)), expected);
    }
}

/// A folded text showed its beginning alone, as if that were all that a cut had kept.
#[test]
fn a_folded_text_shows_the_cut_too() {
    let text = format!("begin {}end", "x ".repeat(2_000));
    let truncate = Truncate::chars(1_000).unwrap().keep(Keep::Ends).marker(" … ");
    let page = prompt(Message::user(text), truncate).html();
    let folded = page.split("<summary dir=\"auto\">").nth(1).unwrap();
    let folded = folded.split("</summary>").next().unwrap();
    assert!(folded.starts_with("begin x x"), "{folded}");
    assert!(folded.contains("… <mark><b>3,012 bytes not sent</b></mark> … "), "{folded}");
    assert!(folded.ends_with("x x end (1,002 bytes)"), "{folded}");
}

#[test]
fn the_text_of_several_that_is_cut_has_the_mark() {
    let parts = ["before", "between", "after"].map(Part::text);
    let message = Message::from(UserMessage::new(Content::from(parts.to_vec())));
    let truncate = Truncate::chars(10).unwrap().keep(Keep::Ends).marker("…");
    let page = prompt(message, truncate).html();
    let expected = "before</pre>\n<pre dir=\"auto\">\n";
    assert!(!page.contains(expected), "{page}");
    assert!(page.contains("befor<mark>…<b>9 bytes not sent</b></mark></pre>"), "{page}");
    assert!(page.contains("<pre dir=\"auto\">\nfter</pre>"), "{page}");
}

/// What a processor makes of a message is no cut, and no place can be named.
#[test]
fn what_a_processor_replaced_has_no_mark() {
    let shout = |message: &Message| Some(Message::user(message.text().to_uppercase()));
    let prompt = prompt(Message::user("hi"), Truncate::default().processor(shout));
    assert_eq!(shown(&prompt), "HI");
    assert_eq!(prompt.report().truncated[0].gap, None);
}

/// If a provider had two messages joined, the page showed no mark at all: of the second it did
/// not know the place, and the first was no cut one any more.
#[test]
fn messages_that_were_joined_show_all_their_cuts() {
    let said = [Message::user("Hello, world"), Message::user("Good-bye, world")];
    let truncate = Truncate::chars(9).unwrap().keep(Keep::Ends).marker(" … ");
    let composer = Composer::new().truncate(truncate).for_provider(Provider::Mistral);
    let prompt = composer.compose_all(&Snapshot::from_messages(said), &[]).unwrap();
    assert_eq!(
        shown(&prompt),
        "Hel<mark> … <b>6 bytes not sent</b></mark>rld\n\n\
         Goo<mark> … <b>9 bytes not sent</b></mark>rld"
    );
}

counted! {
    #![cases(256)]

    /// Head, gap and tail are the message: nothing is shown twice, and nothing is missing unsaid.
    #[test]
    fn a_gap_accounts_for_all_that_was_said(
        texts in prop::collection::vec("(🇳🇴|é|[a-c]| |👩‍👩‍👧‍👦){0,12}", 1..4),
        limit in 1_usize..20,
        unit in prop::sample::select(vec![Unit::Graphemes, Unit::Scalars, Unit::Bytes]),
        keep in prop::sample::select(vec![Keep::Head, Keep::Tail, Keep::Ends]),
        marker in prop::sample::select(vec!["", "…", "[{left_out}]", "🇳"]),
    ) {
        let parts: Vec<Part> = texts.iter().map(|text| Part::text(text.clone())).collect();
        let message = Message::from(UserMessage::new(Content::from(parts)));
        let truncate = Truncate::new(limit, unit).unwrap().keep(keep).marker(marker);
        let prompt = prompt(message.clone(), truncate);
        let Some(Truncated { gap: Some(gap), .. }) = prompt.report().truncated.first() else {
            prop_assert_eq!(&prompt[0], &message);
            return Ok(());
        };
        let sent: Vec<&str> = prompt[0].texts().collect();
        let cut = sent[gap.text];
        let head = [&sent[..gap.text], &[&cut[..gap.at]]].concat().concat();
        let tail = [&[&cut[gap.at + gap.marker..]], &sent[gap.text + 1..]].concat().concat();
        let said = texts.concat();
        prop_assert!(said.starts_with(&head), "{head:?} of {said:?}");
        prop_assert!(said.ends_with(&tail), "{tail:?} of {said:?}");
        prop_assert_eq!(head.len() + tail.len() + gap.left_out, said.len());
        let shown = format!("<b>{} bytes not sent</b>", gap.left_out);
        prop_assert!(prompt.html().contains(&shown));
    }
}
