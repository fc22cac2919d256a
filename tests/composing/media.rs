//! Pictures and documents of which a provider takes only so many: which give way, when that
//! changes, and what is an error.
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;

use crate::conversations::conversation;
use crate::counted::counted;
use crate::setups::{Drawn, compose, holding, remembering};
use memory_prompt::message::{AiMessage, Media, Part, UserMessage};
use memory_prompt::provider::{MediaLimits, Row};
use memory_prompt::recall::tools::ReadBack;
use memory_prompt::report::{Break, Fate, Reason};
use memory_prompt::text::Keep;
use memory_prompt::token::{Estimate, TokenCounter};
use memory_prompt::{
    ChatMemory, ChatMemoryExt, Clear, Composer, ErrorKind, MemoryPrompt, Message, Prompt, Provider,
    Result, ToolCall, Truncate, Window,
};
use proptest::prelude::*;
use serde_json::Value;

fn picture(name: usize) -> Part {
    Part::Image(Media::url(format!("https://e.x/{name}.png")))
}

/// Letters for bytes that begin and end within them.
fn base64(bytes: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        text.extend((0..4).map(|i| char::from(letters[(bits >> (18 - 6 * i) & 63) as usize])));
    }
    text
}

/// A picture of so many bytes in base64, with these sides.
fn data(width: u16, height: u16, bytes: usize) -> Part {
    // Two bytes a side.
    let header = [&b"GIF89a"[..], &width.to_le_bytes(), &height.to_le_bytes(), b"\0\0"].concat();
    let text = base64(&header);
    assert!(bytes >= text.len() && bytes.is_multiple_of(4));
    let rest = bytes - text.len();
    Part::Image(Media::base64("image/gif", text + &"A".repeat(rest)))
}

/// A picture with these sides of a type that every provider takes: Gemini takes no GIF.
fn png(width: u32, height: u32) -> Part {
    let sides = [width.to_be_bytes(), height.to_be_bytes()].concat();
    let header = [&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], &sides, b"\x08\x02\0\0\0\0\0\0\0"];
    Part::Image(Media::base64("image/png", base64(&header.concat())))
}

fn taking(like: Provider, change: impl Fn(&mut MediaLimits)) -> Provider {
    let mut row = Row::like(like, "narrow").unwrap();
    row.media = MediaLimits::NONE;
    change(&mut row.media);
    Provider::custom(row)
}

fn pictures(n: u32) -> Provider {
    taking(Provider::OpenAi, |media| media.pictures = Some(n))
}

fn composed(provider: Provider, history: &[Message]) -> Result<Prompt> {
    compose(&Composer::new().window(Window::all()).for_provider(provider), history, &[])
}

/// A prompt of all that a memory of these holds.
fn over(history: Vec<Message>, provider: Provider) -> MemoryPrompt {
    holding(history).window(Window::all()).for_provider(provider)
}

/// How many pictures and documents are sent.
fn count(provider: Provider, history: &[Message]) -> usize {
    composed(provider, history).unwrap().iter().map(media).sum()
}

fn parts(message: &Message) -> &[Part] {
    let content = match message {
        Message::User(user) => user.content(),
        Message::Tool(tool) => tool.content(),
        _ => return &[],
    };
    content.parts()
}

fn media(message: &Message) -> usize {
    parts(message).iter().filter(|part| part.as_media().is_some()).count()
}

/// The pictures that are sent, by their names.
fn shown(prompt: &Prompt) -> Vec<usize> {
    let parts = prompt.iter().flat_map(parts);
    let urls = parts.filter_map(|part| match &part.as_media()?.source {
        memory_prompt::message::Source::Url(url) => Some(url.clone()),
        _ => None,
    });
    urls.filter_map(|url| url["https://e.x/".len()..url.len() - 4].parse().ok()).collect()
}

/// Turns with a picture each.
fn talk(n: usize) -> Vec<Message> {
    let turn = |i| [Message::user([Part::text("And this?"), picture(i)]), Message::ai("A cat.")];
    (0..n).flat_map(turn).collect()
}

/// A conversation of more pictures than the provider takes was refused from then on, with each
/// question, for ever.
#[test]
fn older_pictures_give_way_and_are_told() {
    let mut history = talk(9);
    history.push(Message::user("Which of them was black?"));
    let prompt = composed(Provider::Groq, &history).unwrap();
    // Between two and five: those from position 8 on, of the positions that leave so many the one
    // that is a multiple of eight.
    assert_eq!(shown(&prompt), [4, 5, 6, 7, 8]);
    let report = prompt.report();
    assert_eq!(report.media_from, Some(8));
    assert_eq!(prompt[0].text(), "And this?[Not shown here: 1 image in message 0.]");
    assert_eq!(prompt.fate(2), Fate::Cleared(9, 48));
    assert_eq!(prompt.fate(8), Fate::Sent);
    assert!(report.to_string().contains("  media      before 8 gave way"), "{report}");
    assert!(!report.is_untouched());
    // All five are sent where there are no more.
    assert_eq!(shown(&composed(Provider::Groq, &talk(5)).unwrap()), [0, 1, 2, 3, 4]);
}

#[test]
fn a_placeholder_can_be_read_back() {
    let mut prompt = over(talk(9), Provider::Groq);
    let built = prompt.build().unwrap();
    assert!(built[4].text().contains("1 image in message 4."));
    let read = ReadBack::new().run(prompt.memory(), r#"{"message": 4}"#).unwrap();
    assert!(read.contains("And this?\n1 image"), "{read}");
}

/// A placeholder that the application set stands for these too, and what `Clear` has cleared counts
/// no more.
#[test]
fn it_goes_with_clearing() {
    let composer = Composer::new()
        .window(Window::all())
        .clear(Clear::media().keep(4).step(1).placeholder("({length}: {position})"));
    let [of_5, of_2] = [5, 2]
        .map(|n| compose(&composer.clone().for_provider(pictures(n)), &talk(6), &[]).unwrap());
    assert_eq!((shown(&of_5), of_5.report().media_from), (vec![2, 3, 4, 5], None));
    assert_eq!(of_2[6].text(), "And this?(1 image: 6)");
}

/// One message may have more by itself than the provider takes: its last ones are sent.
#[test]
fn a_message_of_too_many_keeps_its_last() {
    let question = Message::user((0..8).map(picture).collect::<Vec<_>>());
    let prompt = composed(Provider::Groq, &[question]).unwrap();
    assert_eq!(shown(&prompt), [3, 4, 5, 6, 7]);
    assert_eq!(prompt[0].text(), "[Not shown here: 3 images in message 0.]");
    assert_eq!(prompt.report().cleared[0].position, 0);
}

/// What no answer has seen stays, though half of what is taken would be less.
#[test]
fn what_is_new_stays_while_it_fits() {
    let mut history = talk(5);
    history.extend((5..9).map(|i| Message::user([picture(i)])));
    assert_eq!(shown(&composed(pictures(4), &history).unwrap()), [5, 6, 7, 8]);
    history.push(Message::ai("Four cats."));
    history.push(Message::user([picture(9)]));
    let prompt = composed(pictures(4), &history).unwrap();
    assert!(shown(&prompt).ends_with(&[8, 9]), "{:?}", shown(&prompt));
}

/// A server that takes pictures in results.
fn pictures_of_results(n: u32) -> Provider {
    taking(Provider::Anthropic, |media| media.pictures = Some(n))
}

/// Of an album all pictures went at once, although most of them fit: half of what is taken ended
/// within it.
#[test]
fn an_album_gives_way_by_parts() {
    let album =
        |range: std::ops::Range<usize>| Message::user(range.map(picture).collect::<Vec<_>>());
    for (taken, before, after) in [(10, 8, 3), (5, 4, 2), (8, 6, 3), (10, 12, 1), (10, 40, 1)] {
        let history = [album(0..before), Message::ai("Cats."), album(before..before + after)];
        let prompt = composed(pictures(taken), &history).unwrap();
        let shown = shown(&prompt);
        let (count, most) = (shown.len(), taken as usize);
        assert!((most / 2..=most).contains(&count), "{before}, {after}: {shown:?}");
        assert!(shown.into_iter().eq(before + after - count..before + after));
        assert_eq!(prompt.report().media_from, Some(0));
    }
}

/// An agent was to make a page look like a picture. Its screenshots displaced the picture of the
/// question first, and it went on without.
#[test]
fn the_picture_of_the_running_question_stays() {
    let mut history = talk(2);
    history.push(Message::user([Part::text("Make the page look like this."), picture(2)]));
    for i in 3..40 {
        let id = format!("c{i}");
        history.push(Message::ai_calls([ToolCall::new(&id, "screenshot", "{}")]));
        history.push(Message::tool(&id, "screenshot", vec![picture(i)]));
        let prompt = composed(pictures_of_results(10), &history).unwrap();
        let (shown, whole) = (shown(&prompt), i + 1);
        assert!(shown.contains(&2) && shown.contains(&i), "{shown:?}");
        assert!((5.min(whole)..=10).contains(&shown.len()), "{shown:?}");
    }
    // Not if it alone has more than half of what is taken, nor once something else was asked.
    let all: Vec<_> = [2, 100, 101].map(picture).to_vec();
    history[4] = Message::user(all);
    assert!(!shown(&composed(pictures_of_results(5), &history).unwrap()).contains(&2));
    history[4] = Message::user([picture(2)]);
    history.extend([Message::ai("Done."), Message::user("Thanks.")]);
    assert!(!shown(&composed(pictures_of_results(10), &history).unwrap()).contains(&2));
}

/// Vertex fetches ten pictures for a request, and refused each question after the eleventh.
#[test]
fn fetched_pictures_have_a_limit_of_their_own() {
    let mut history = talk(30);
    assert_eq!(count(Provider::Gemini, &history), 30);
    assert!((5..=10).contains(&count(Provider::Vertex, &history)));
    history.splice(0..2, [Message::user([png(9, 9)]), Message::ai("A cat.")]);
    history.truncate(20);
    assert_eq!(count(Provider::Vertex, &history), 10, "one is here");
}

/// Google knows a picture by its type: as a file it was neither limited nor counted as one.
#[test]
fn a_file_that_is_a_picture_for_google_is_one() {
    let image = png(1_000, 1_000);
    let file = Part::File(image.as_media().unwrap().clone());
    let asked = [Message::user([file.clone()])];
    let none = |like| taking(like, |media| media.pictures = Some(0));
    assert_eq!(count(none(Provider::Gemini), &asked), 0);
    assert_eq!(count(none(Provider::OpenAi), &asked), count(Provider::OpenAi, &asked));
    let counted = |part| counted_by(Some(Provider::Gemini), Estimate, part);
    assert_eq!(counted(file), counted(image));
}

#[test]
fn a_result_of_a_tool_gives_way_too() {
    let mut history = vec![Message::user("Click through.")];
    for i in 0..6 {
        let id = format!("c{i}");
        history.push(Message::ai_calls([ToolCall::new(&id, "screenshot", "{}")]));
        history.push(Message::tool(&id, "screenshot", vec![picture(i)]));
    }
    let prompt = composed(pictures_of_results(3), &history).unwrap();
    assert_eq!(shown(&prompt), [3, 4, 5]);
    assert_eq!(prompt[2].text(), "[Not shown here: 1 image in message 2.]");
}

/// A screenshot that a tool took was too large, and its place was an error in each later build: the
/// user could not take it back, and the conversation was over.
#[test]
fn a_result_that_is_too_large_gives_way() {
    let mut history = vec![
        Message::user("Look."),
        Message::ai_calls([ToolCall::new("c", "screenshot", "{}")]),
        Message::tool("c", "screenshot", [Part::text("Done."), data(100, 100, 5_242_884)]),
    ];
    for _ in 0..2 {
        let prompt = composed(Provider::Anthropic, &history).unwrap();
        assert_eq!(prompt[2].text(), "Done.[Not shown here: 1 image in message 2.]");
        assert_eq!(prompt.report().cleared[0].position, 2);
        history.extend([Message::ai("A page."), Message::user("And now?")]);
    }
}

/// The user sent a large picture into a running turn. Each later prompt of the turn was an error,
/// and the turn was thrown away.
#[test]
fn a_picture_in_a_running_turn_that_is_too_large_gives_way() {
    let steered = UserMessage::new([Part::text("Like this."), data(100, 100, 5_242_884)]).steered();
    let history = [
        Message::user("Look."),
        Message::ai_calls([ToolCall::new("c", "look", "{}")]),
        Message::tool("c", "look", "A page."),
        steered.into(),
    ];
    let prompt = composed(Provider::Anthropic, &history).unwrap();
    assert_eq!(prompt.report().cleared[0].position, 3);
}

/// A picture that was too large was asked about, and its question was stored without an answer.
/// Each later build was an error, so that nothing could be asked any more.
#[test]
fn an_old_question_that_is_too_large_gives_way() {
    let question = Message::user([Part::text("This?"), data(100, 100, 5_242_884)]);
    let mut history = vec![question];
    composed(Provider::Anthropic, &history).unwrap_err();
    history.push(Message::user("Never mind. Hi?"));
    for _ in 0..2 {
        let prompt = composed(Provider::Anthropic, &history).unwrap();
        assert_eq!(prompt.report().cleared[0].position, 0);
        history.extend([Message::ai("Hello."), Message::user("And now?")]);
    }
}

/// A recording that Groq takes from nobody was too large for it, and so was a screenshot in a
/// result, which its format has no place for: no build came through. Such pictures also took the
/// places of those of the user.
#[test]
fn what_is_not_sent_is_not_counted() {
    let call = |i: usize| Message::ai_calls([ToolCall::new(format!("c{i}"), "screenshot", "{}")]);
    let result = |i: usize, part| Message::tool(format!("c{i}"), "screenshot", [part]);
    let large = Media::base64("audio/mpeg", "A".repeat(4_000_000));
    for history in [
        vec![Message::user("Look."), call(0), result(0, data(9, 9, 4_000_000))],
        vec![Message::user([Part::text("Hear:"), Part::Audio(large.clone())])],
        vec![Message::user([Part::text("See:"), Part::Video(large)])],
    ] {
        composed(Provider::Groq, &history).unwrap();
    }
    let mut history = vec![Message::user([Part::text("This?"), picture(0)])];
    history.extend((1..7).flat_map(|i| [call(i), result(i, picture(i))]));
    let prompt = composed(Provider::Groq, &history).unwrap();
    assert_eq!((shown(&prompt).first(), prompt.report().media_from), (Some(&0), None));
}

/// A picture beyond what is taken was sent, and the provider's own words about it named no place.
#[test]
fn a_new_one_that_is_too_large_is_an_error_that_names_it() {
    let large = || data(100, 100, 5_242_884);
    let refused = |history: &[Message], temporaries: &[Message]| {
        let composer = Composer::new().for_provider(Provider::Anthropic);
        let error = compose(&composer, history, temporaries).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Provider);
        error.to_string()
    };
    let told = |what: &str| format!("compose: message {what}: anthropic refuses it");
    let what = "1 (user) has a picture of 5242884 bytes in base64, of at most 5242880";
    assert_eq!(refused(&[Message::user("hi"), Message::user([large()])], &[]), told(what));
    let what = "0 (user) has a picture of 8001 pixels a side, of at most 8000";
    assert_eq!(refused(&[Message::user([data(8_001, 5, 100)])], &[]), told(what));
    let asked = [Message::user("hi"), Message::ai("Hello."), Message::user("And this?")];
    let error = refused(&asked, &[Message::user([large()])]);
    assert!(error.contains("temporary 0 (user) has a picture of 5242884 bytes"), "{error}");
}

/// An application that changed its provider could never ask again: a picture of years ago was too
/// large for the new one.
#[test]
fn an_old_one_that_is_too_large_gives_way() {
    let large = Message::user([Part::text("See:"), data(9_000, 5, 100)]);
    let history = [large, Message::ai("A line."), Message::user([data(7_000, 5, 100)])];
    let prompt = composed(Provider::Anthropic, &history).unwrap();
    assert_eq!(prompt[0].text(), "See:[Not shown here: 1 image in message 0.]");
    assert_eq!(prompt[2], history[2]);
    assert_eq!((prompt.report().cleared[0].position, prompt.report().media_from), (0, None));
}

/// "image dimensions exceed max allowed size for many-image requests: 2000 pixels"
#[test]
fn many_have_to_be_small() {
    let turns = |n: usize, side: u16| {
        let turn = |_| [Message::user([data(side, 10, 100)]), Message::ai("I see.")];
        (0..n).flat_map(turn).collect::<Vec<_>>()
    };
    let sent = |history: &[Message]| count(Provider::Anthropic, history);
    assert_eq!(sent(&turns(90, 2_000)), 90);
    assert_eq!(sent(&turns(20, 2_001)), 20);
    let wide = sent(&turns(21, 2_001));
    assert!((10..=20).contains(&wide), "{wide}");
    // A wide one that has given way bounds the others no more.
    let mixed = [turns(3, 2_001), turns(60, 2_000)].concat();
    let narrow = sent(&mixed);
    assert!((20..=60).contains(&narrow), "{narrow}");
}

#[test]
fn bytes_and_documents_are_counted() {
    let file = Part::File(Media::base64("application/pdf", "JVBE".repeat(25)).with_name("a"));
    let history = |part: &Part| {
        let turn = |_| [Message::user([part.clone()]), Message::ai("I see.")];
        (0..6).flat_map(turn).collect::<Vec<_>>()
    };
    let [files, pictures] = [history(&file), history(&picture(1))];
    let rules: [(fn(&mut MediaLimits), _, _); 6] = [
        (|it| it.documents = Some(4), &files, 2),
        (|it| it.documents = Some(6), &files, 6),
        (|it| it.bytes = Some(399), &files, 2),
        (|it| it.together = Some(4), &pictures, 2),
        (|it| it.documents = Some(0), &pictures, 6),
        (|it| it.pictures = Some(0), &pictures, 0),
    ];
    for (i, (limits, history, left)) in rules.into_iter().enumerate() {
        assert_eq!(count(taking(Provider::OpenAi, limits), history), left, "rule {i}");
    }
}

/// What a pin or a temporary holds is never given up: others give way for it, and where it is too
/// much by itself that is an error.
#[test]
fn pins_and_temporaries_stay() {
    let mut prompt = over(talk(9), pictures(3)).with_pins();
    prompt.pin(0).unwrap();
    let built = prompt.build().unwrap();
    assert_eq!((shown(&built)[0], shown(&built).len()), (0, 2));
    prompt.add_temporary(Message::user([picture(90), picture(91)]));
    assert_eq!(shown(&prompt.build().unwrap()), [0, 90, 91]);
    prompt.add_temporary(Message::user([picture(90), picture(91), picture(92)]));
    let error = prompt.build().unwrap_err().to_string();
    let why = "temporary 0 (user) has more media, with what else stays";
    assert!(error.contains(why), "{error}");
}

/// A temporary picture for which there is room moves nothing that is cached.
#[test]
fn a_temporary_that_fits_moves_nothing() {
    let composer = Composer::new().window(Window::all()).for_provider(pictures(8));
    let plain = compose(&composer, &talk(30), &[]).unwrap();
    let with = compose(&composer, &talk(30), &[Message::user([picture(90)])]).unwrap();
    assert!(shown(&plain).len() < 8);
    assert_eq!(with.shared_prefix(&plain).broken_by, None);
}

/// A picture that a model made goes out of its answer, and no words are put into its mouth.
#[test]
fn pictures_of_an_answer_are_left_out() {
    let narrow = taking(Provider::Gemini, |media| media.pictures = Some(1));
    let made = |parts: Vec<Part>| Message::from(AiMessage::from_parts(parts));
    let [cat, black, larger, thanks] =
        ["A cat.", "Black.", "Larger.", "Thanks."].map(Message::user);
    let here = made(vec![Part::text("Here:"), picture(0)]);
    let [one, two] = [1, 2].map(|i| made(vec![picture(i)]));
    let history = [cat, here, black, one, larger, two, thanks];
    let prompt = composed(narrow, &history).unwrap();
    assert_eq!(prompt[1], Message::ai("Here:"));
    assert_eq!(prompt.fate(3), Fate::LeftOut(Reason::Media));
    assert_eq!(prompt.fate(5), Fate::Sent);
    assert_eq!(prompt.report().left_out.len(), 1);
    // Of OpenAI's format an answer has no place for any, and they count nothing.
    let mut row = Row::like(Provider::OpenAi, "narrow").unwrap();
    row.media.pictures = Some(0);
    assert_eq!(composed(Provider::custom(row), &history).unwrap().report().media_from, None);
}

/// The place of a cut was lost where a placeholder came to stand before it.
#[test]
fn the_place_of_a_cut_is_told_behind_a_placeholder() {
    let cut = Truncate::chars(9).unwrap().keep(Keep::Ends).marker(" … ");
    let long = Part::text("Hello, world");
    let asked = Message::user([Part::text("a"), picture(0), long]);
    let history = [asked, Message::ai("A cat."), Message::user([picture(1)])];
    let composer = Composer::new().truncate(cut).for_provider(pictures(1));
    let prompt = compose(&composer, &history, &[]).unwrap();
    let gap = prompt.report().truncated[0].gap.unwrap();
    let text = prompt[0].texts().nth(gap.text).unwrap();
    assert_eq!(&text[gap.at..gap.at + gap.marker], " … ");
}

/// The breaks that a growing conversation with a picture a turn has by that.
fn breaks(taken: u32, turns: usize) -> usize {
    let mut prompt = over(Vec::new(), pictures(taken));
    let (mut before, mut breaks) = (None::<Prompt>, 0);
    for messages in talk(turns).chunks(2) {
        prompt.memory().add_all(messages.to_vec()).unwrap();
        let now = prompt.build().unwrap();
        let broken = before.as_ref().and_then(|before| now.shared_prefix(before).broken_by);
        match broken {
            None => {}
            Some(Break::Clearing(_)) => breaks += 1,
            other => panic!("{other:?}"),
        }
        assert!(shown(&now).len() <= taken as usize);
        assert!(shown(&now).len() >= turns.min(now.len() / 2).min(taken as usize / 2));
        before = Some(now);
    }
    breaks
}

/// A boundary that rolls along would break the cached prefix with each picture; this one moves once
/// for about half as many pictures as are taken.
#[test]
fn prefixes_break_in_steps() {
    let turns = 200;
    let counted: Vec<usize> = [1, 5, 10, 100].map(|taken| breaks(taken, turns)).to_vec();
    println!("breaks in {turns} turns with a picture each, by what is taken: {counted:?}");
    assert_eq!(counted[0], turns - 1); // one is taken
    for (taken, breaks) in [5, 10, 100].into_iter().zip(&counted[1..]) {
        assert!(*breaks <= 3 * turns / taken, "{taken}: {breaks}");
    }
}

fn counted_by(
    provider: Option<Provider>,
    counter: impl TokenCounter + 'static,
    part: Part,
) -> usize {
    let composer = Composer::new().max_tokens(100_000, counter);
    let composer = composer.with_some(provider, Composer::for_provider);
    compose(&composer, &[Message::user([part])], &[]).unwrap().report().message_tokens[0]
}

/// A large photograph counted 1,600 tokens for every model, of which some take 258 and some 4,784.
#[test]
fn a_budget_counts_pictures_as_the_provider_does() {
    let counted = |provider: Provider, width, height| {
        counted_by(Some(provider), Estimate, png(width, height)) - 4
    };
    for (provider, width, height, tokens) in [
        (Provider::Anthropic.model("claude-sonnet-4-5"), 200, 200, 54),
        (Provider::Anthropic.model("claude-sonnet-4-5"), 4_000, 3_000, 1_600),
        (Provider::Anthropic.model("claude-opus-4-7"), 2_000, 1_500, 4_000),
        (Provider::Anthropic, 8_000, 8_000, 4_784),
        (Provider::OpenRouter.model("anthropic/claude-sonnet-4.5"), 200, 200, 54),
        // The examples of OpenAI's guide.
        (Provider::OpenAi.model("gpt-4o"), 1_024, 1_024, 765),
        (Provider::OpenAi.model("gpt-4o-2024-11-20"), 2_048, 4_096, 1_105),
        (Provider::OpenAiResponses.model("gpt-4.1-mini"), 1_024, 1_024, 1_659),
        (Provider::OpenAi.model("o4-mini"), 4_000, 4_000, 2_642),
        (Provider::OpenAi.model("gpt-5.4"), 1_024, 1_024, 1_600),
        (Provider::OpenAi, 1_024, 1_024, 1_600),
        (Provider::Gemini.model("gemini-2.5-pro"), 384, 384, 258),
        // That of Google's.
        (Provider::Gemini.model("gemini-2.5-pro"), 960, 540, 6 * 258),
        (Provider::Vertex.model("gemini-3.1-pro"), 4_000, 4_000, 1_120),
        (Provider::Gemini, 2_000, 2_000, 9 * 258),
        (Provider::Mistral, 1_024, 1_024, 1_600),
    ] {
        assert_eq!(counted(provider, width, height), tokens, "{provider:?}, {width} x {height}");
    }
    // Of one that is not here the dimensions are not known.
    assert_eq!(counted_by(Some(Provider::Anthropic), Estimate, picture(1)), 1_604);
    assert_eq!(counted_by(None, Estimate, data(200, 200, 100)), 1_604);
}

/// A counter that has a count of its own for pictures, or for messages.
struct Own {
    media: Option<usize>,
    message: Option<usize>,
}

impl TokenCounter for Own {
    fn count_text(&self, text: &str) -> Result<usize> {
        Estimate.count_text(text)
    }

    fn count_media(&self, part: &Part) -> Result<usize> {
        self.media.map_or_else(|| Estimate.count_media(part), Ok)
    }

    fn count(&self, message: &Message) -> Result<usize> {
        match (self.message, self.media) {
            (Some(message), _) => Ok(message),
            (None, Some(media)) => Ok(4 + media),
            (None, None) => Estimate.count(message),
        }
    }
}

#[test]
fn a_counter_of_ones_own_counts_pictures_itself() {
    let counted = |media, message| {
        let own = Own { media, message };
        counted_by(Some(Provider::Anthropic), own, data(200, 200, 100))
    };
    assert_eq!(counted(None, None), 58);
    assert_eq!(counted(Some(7), None), 11);
    assert_eq!(counted(None, Some(9)), 9);
}

counted! {
    #![cases(256)]

    /// Which give way is a function of what is sent: it does not matter how much of the history was
    /// read, nor what was built before.
    #[test]
    fn it_depends_on_what_is_sent_alone(
        history in conversation(20), more in proptest::collection::vec(0usize..9, 0..20),
        taken in 0u32..6, n in 1usize..20,
    ) {
        let mut history = history;
        for (i, at) in more.iter().enumerate() {
            history.insert((at * 3).min(history.len()), Message::user([picture(i)]));
        }
        let memory = remembering(history.iter().filter(|it| !it.is_system()).cloned());
        for window in [Window::all(), Window::last(n), Window::stepped(n, n).unwrap()] {
            let composer = Composer::new().window(window).for_provider(pictures(taken));
            let mut shell = MemoryPrompt::new(Arc::clone(&memory));
            shell.configure(|_| composer.clone());
            let all = memory.read(None, usize::MAX).unwrap();
            let Ok(whole) = composer.compose_all(&all, &[]) else { continue };
            prop_assert_eq!(&shell.build().unwrap(), &whole);
            prop_assert!(whole.iter().map(media).sum::<usize>() <= taken as usize);
            prop_assert_eq!(&shell.build().unwrap(), &whole);
        }
    }
}

// ---- what is written stays within the row -------------------------------------------------------

/// The pictures, the documents and the bytes in base64 of a request, as they stand in its JSON.
#[derive(Debug, Default)]
struct Written {
    pictures: u32,
    documents: u32,
    bytes: u64,
}

impl Written {
    fn of(request: &Value) -> Self {
        let mut written = Self::default();
        written.add(request);
        written
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Array(list) => list.iter().for_each(|it| self.add(it)),
            Value::Object(fields) => {
                let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
                let inline = fields.get("inlineData").or_else(|| fields.get("fileData"));
                let mime = inline.and_then(|it| it["mimeType"].as_str()).unwrap_or_default();
                let images = fields.get("images").and_then(Value::as_array);
                self.pictures += u32::from(fields.contains_key("image_url") || kind == "image");
                self.pictures += u32::from(mime.starts_with("image/"));
                self.pictures += images.map_or(0, |it| u32::try_from(it.len()).unwrap());
                let documents = ["file", "input_file", "document", "document_url"];
                self.documents += u32::from(documents.contains(&kind) && fields.len() > 1);
                self.documents += u32::from(mime == "application/pdf");
                fields.values().for_each(|it| self.add(it));
            }
            Value::String(text) => {
                let data = text.split_once(";base64,").map_or(text.as_str(), |it| it.1);
                // The texts of the law are shorter than any data, and have blanks.
                let is_data = data.len() >= 60 && !data.contains(' ');
                self.bytes += if is_data { data.len() as u64 } else { 0 };
            }
            _ => {}
        }
    }
}

fn some_media() -> impl Strategy<Value = Part> {
    let document = || Media::base64("application/pdf", "JVBERi0xLjcK".repeat(6)).with_name("a.pdf");
    prop_oneof![
        4 => (1..60_u16, 16..60_usize).prop_map(|(side, four)| data(side, side, four * 4)),
        2 => (0..9_usize).prop_map(picture),
        1 => Just(Part::File(document())),
        1 => Just(Part::File(Media::url("https://e.x/a.pdf").with_media_type("application/pdf"))),
    ]
}

fn turn_with_media() -> impl Strategy<Value = Vec<Message>> {
    let parts = || proptest::collection::vec(some_media(), 1..5);
    prop_oneof![
        4 => parts().prop_map(|parts| vec![Message::user(parts), Message::ai("Seen.")]),
        1 => parts().prop_map(|parts| {
            let result = Message::tool("c1", "draw", parts);
            let call = Message::ai_calls([ToolCall::new("c1", "draw", "{}")]);
            vec![Message::user("Draw it."), call, result, Message::ai("Drawn.")]
        }),
        1 => parts().prop_map(|parts| {
            vec![Message::user("Draw it."), AiMessage::from_parts(parts).into()]
        }),
    ]
}

counted! {
    #![cases(10_000)]

    /// No request has more than the row of its provider says, however many pictures and documents
    /// there are; what is written is counted in its JSON.
    #[test]
    fn no_request_is_beyond_its_row(
        history in proptest::collection::vec(turn_with_media(), 1..20),
        provider in proptest::sample::select(crate::setups::PROVIDERS.to_vec()),
        limits in proptest::option::of((0..8_u32, 0..4_u32, 0..9_u32, 100..1_500_u32)),
        (n, pin) in (1..60_usize, proptest::option::of(0..30_u64)),
    ) {
        let mut row = Row::like(provider, "narrow").unwrap();
        if let Some((pictures, documents, together, bytes)) = limits {
            row.media.pictures = Some(pictures);
            row.media.documents = Some(documents);
            row.media.together = Some(together);
            row.media.bytes = Some(bytes);
        }
        let media = row.media;
        let mut prompt = holding(history.into_iter().flatten())
            .window(Window::last(n))
            .with_pins()
            .for_provider(Provider::custom(row));
        prompt.add(Message::user("And now?")).unwrap();
        if let Some(position) = pin {
            let _ = prompt.pin(position); // where it is one that can be pinned
        }
        // A pin of more than is taken is an error that says so.
        let Ok(built) = prompt.build() else {
            prop_assert!(pin.is_some());
            return Ok(());
        };
        let request = memory_prompt::wire::Request::new(&built).model("m").max_tokens(9);
        let written = Written::of(&serde_json::to_value(request).unwrap());
        let within = |most: Option<u32>, n: u64| most.is_none_or(|most| n <= most.into());
        let (pictures, documents) = (u64::from(written.pictures), u64::from(written.documents));
        prop_assert!(within(media.pictures, pictures), "{written:?} {media:?}");
        prop_assert!(within(media.documents, documents), "{written:?} {media:?}");
        prop_assert!(within(media.together, pictures + documents), "{written:?} {media:?}");
        prop_assert!(within(media.bytes, written.bytes), "{written:?} {media:?}");
    }
}
