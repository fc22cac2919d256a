//! Counting tokens: the laws of a counter, what a message counts, and how good the estimate is.

#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::counted::{counted, regressions};
use memory_prompt::message::{
    AiMessage, AiPart, Detail, Media, Part, Reasoning, SystemMessage, UserMessage,
};
use memory_prompt::token::{Estimate, Overhead, TokenCounter, media_tokens};
use memory_prompt::{Error, ErrorKind, Message, Result, Tool, ToolCall};
use proptest::prelude::*;

/// Text as users and tools write it: words of many scripts, numbers, blanks, code and noise.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-zA-Z]{1,12}",
        "[0-9]{1,8}",
        "[ \\t\\n]{1,6}",
        "[!-/:-@\\[-`{-~]{1,4}",
        "[а-яё]{1,9}",
        "[\u{4e00}-\u{9fff}]{1,6}",
        "[ぁ-んァ-ヶ。、]{1,6}",
        "[가-힣]{1,4}",
        "[😀-🙏🏻-🏿❤\u{fe0f}\u{200d}🇦-🇿]{1,4}",
        "[e\u{301}\u{308}äłşß]{1,5}",
        "\\PC{1,3}",
        Just(" don't".to_owned()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn scalars(text: &str) -> usize {
    text.chars().count()
}

fn fits_agrees(counter: &dyn TokenCounter, text: &str) {
    let tokens = counter.count_text(text).unwrap();
    for limit in (0..=tokens + 2).chain([usize::MAX - 1, usize::MAX]) {
        let expected = (tokens <= limit).then_some(tokens);
        assert_eq!(counter.fits(text, limit).unwrap(), expected, "limit {limit}, {text:?}");
    }
}

counted! {
    #![cases(256, regressions())]

    #[test]
    fn what_fits_is_what_counts_no_more(text in text()) {
        fits_agrees(&Estimate, &text);
        fits_agrees(&scalars, &text);
    }

    /// Long enough for [`TokenCounter::fits`] to count beginnings first.
    #[test]
    fn what_fits_is_what_counts_no_more_in_long_texts(text in text(), limit in 0_usize..3_000) {
        let text = text.repeat(40);
        let counters: [&dyn TokenCounter; 3] =
            [&Estimate, &scalars, &|text: &str| text.split_whitespace().count()];
        for counter in counters {
            let tokens = counter.count_text(&text).unwrap();
            prop_assert_eq!(counter.fits(&text, limit).unwrap(), (tokens <= limit).then_some(tokens));
        }
    }

    #[test]
    fn the_estimate_never_falls_as_a_text_grows(text in text()) {
        let counts = text.char_indices().map(|(at, _)| Estimate.count_text(&text[..at]).unwrap());
        prop_assert!(counts.is_sorted());
    }

    #[test]
    fn a_text_that_is_not_empty_counts(text in "\\PC|.|[\u{0}-\u{10ffff}]") {
        prop_assert!(Estimate.count_text(&text).unwrap() >= 1);
    }

    #[test]
    fn texts_count_what_they_count_together_where_words_end(a in text(), b in text()) {
        let (a, b) = (format!("{a}x\n"), format!("Y {b}"));
        let apart = Estimate.count_text(&a).unwrap() + Estimate.count_text(&b).unwrap();
        let together = Estimate.count_text(&format!("{a}{b}")).unwrap();
        prop_assert!(apart.abs_diff(together) <= 1, "{} {}", apart, together);
    }
}

/// Counts scalars, and how many bytes it was given.
#[derive(Default)]
struct Watched {
    bytes: AtomicUsize,
    longest: AtomicUsize,
}

impl TokenCounter for Watched {
    fn count_text(&self, text: &str) -> Result<usize> {
        self.bytes.fetch_add(text.len(), Ordering::Relaxed);
        self.longest.fetch_max(text.len(), Ordering::Relaxed);
        Ok(scalars(text))
    }
}

#[test]
fn ten_megabytes_are_not_read_to_say_no() {
    for text in ["a", "漢", "word and ", "👩‍👩‍👧 "] {
        let counter = Watched::default();
        assert_eq!(counter.fits(&text.repeat(10_000_000 / text.len()), 1_000).unwrap(), None);
        assert!(counter.bytes.into_inner() <= 8 * 1_000 + 256, "{text:?}");
    }
}

#[test]
fn a_sparse_text_is_read_but_never_much_more_than_once() {
    let words = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&words);
    let counter = move |text: &str| {
        seen.fetch_add(text.len(), Ordering::Relaxed);
        text.split_whitespace().count()
    };
    let text = "abc".repeat(1_000_000);
    assert_eq!(counter.fits(&text, 10).unwrap(), Some(1));
    assert!(words.load(Ordering::Relaxed) <= text.len() * 7 / 3);
}

#[test]
fn each_kind_of_message_counts_what_is_in_it() {
    let count = |message: Message| scalars.count(&message).unwrap();
    let Overhead { message, name, call, .. } = Overhead::default();

    assert_eq!(count(Message::system("abc")), message + 3);
    assert_eq!(count(SystemMessage::new("abc").with_name("xy").into()), message + 3 + name + 2);
    assert_eq!(count(Message::user("")), message);
    assert_eq!(count(Message::user("多言語")), message + 3);
    assert_eq!(count(UserMessage::new("hi").with_name("Ann").into()), message + 2 + name + 3);
    assert_eq!(count(Message::user([Part::text("ab"), Part::text("cde")])), message + 5);
    assert_eq!(count(Message::ai("abcd")), message + 4);
    assert_eq!(count(Message::tool("call_1", "look", "seen")), message + 4 + 4);
    assert_eq!(count(Message::tool("call_1", "", [Part::text("seen")])), message + 4);

    let answer = AiMessage::from_parts([
        AiPart::from(Reasoning::new("hm").with_signature("sig".repeat(1_000))),
        AiPart::from("abc"),
        AiPart::from(ToolCall::new("call_1", "look", "{}")),
        AiPart::from(ToolCall::new("call_2", "peek", r#"{"at":1}"#)),
    ]);
    let calls = 2 * call + 4 + 2 + 4 + 8;
    assert_eq!(count(answer.clone().into()), message + 2 + 3 + calls);
    assert_eq!(count(answer.with_name("Bo").into()), message + 2 + 3 + calls + name + 2);
}

#[test]
fn hidden_reasoning_counts_by_the_size_of_what_stands_for_it() {
    let hidden = Reasoning::new("").with_signature("x".repeat(500));
    let answer = AiMessage::new("ok").with_reasoning(hidden);
    assert_eq!(scalars.count(&answer.into()).unwrap(), 4 + 100 + 2);
}

#[test]
fn attributes_are_not_sent_and_not_counted() {
    let plain = scalars.count(&Message::user("hi")).unwrap();
    let marked = UserMessage::new("hi").with_attribute("trace", "a long value");
    assert_eq!(scalars.count(&marked.into()).unwrap(), plain);
    let custom = Message::custom([("kind".to_owned(), "note".into())]);
    assert_eq!(scalars.count(&custom).unwrap(), 0);
}

#[test]
fn media_never_count_as_text() {
    let no_text = |text: &str| -> usize { unreachable!("counted as text: {} bytes", text.len()) };
    let data = "iVBORw0KGgo=".repeat(100_000);
    let media = || Media::base64("image/png", data.as_str()).with_name("cat.png");
    let inline = Media::url(format!("data:image/png;base64,{data}"));
    let parts = [
        Part::Image(media()),
        Part::Image(media().with_detail(Detail::Low)),
        Part::Image(media().with_detail(Detail::High)),
        Part::Image(media().with_detail(Detail::Other("ultra".to_owned()))),
        Part::Image(inline),
        Part::Audio(Media::base64("audio/wav", data.as_str())),
        Part::Audio(Media::base64("audio/mpeg", data.as_str())),
        Part::Video(Media::base64("video/mp4", data.as_str())),
        Part::File(Media::base64("text/plain", data.as_str())),
        Part::File(Media::base64("application/pdf", data.as_str())),
        Part::File(Media::file_id("file-1")),
        serde_json::from_value(serde_json::json!({"type": "x", "data": data})).unwrap(),
    ];
    let tokens: Vec<usize> = parts.iter().map(media_tokens).collect();
    let expected =
        [1_600, 85, 1_600, 1_600, 1_600, 600, 3_600, 1_125, 225_000, 22_500, 2_000, 2_000];
    assert_eq!(tokens, expected);
    let all: usize = tokens.iter().sum();
    let answer = AiMessage::from_parts([Part::Image(media())]);
    assert_eq!(no_text.count(&answer.into()).unwrap(), 4 + 1_600);
    assert_eq!(no_text.count(&Message::user(parts.to_vec())).unwrap(), 4 + all);
    assert_eq!(no_text.count(&Message::tool("c", "", parts.to_vec())).unwrap(), 4 + all);
    assert_eq!(media_tokens(&Part::text(data)), 0);
}

#[test]
fn a_zipped_document_is_not_text_because_its_type_says_xml() {
    let word = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";
    assert_eq!(media_tokens(&Part::File(Media::base64(word, "A".repeat(4_000)))), 75);
}

#[test]
fn the_largest_counts_stay_the_largest() {
    let most = |_: &str| usize::MAX;
    let answer = AiMessage::new("a")
        .with_reasoning(Reasoning::new("b"))
        .with_tool_call(ToolCall::new("1", "c", "{}"))
        .with_name("d");
    assert_eq!(most.count(&answer.into()).unwrap(), usize::MAX);
    assert_eq!(most.fits("a", usize::MAX).unwrap(), Some(usize::MAX));
    assert_eq!(most.fits(&"a".repeat(100_000), 3).unwrap(), None);
    assert_eq!(most.fits("a", usize::MAX - 1).unwrap(), None);
}

/// Counts with a server that is down.
struct Failing;

impl TokenCounter for Failing {
    fn count_text(&self, _: &str) -> Result<usize> {
        Err(Error::new(ErrorKind::Count, "count", "the tokenizer is down"))
    }
}

#[test]
fn a_failing_counter_fails_everything_that_asks_it() {
    let shared: Arc<dyn TokenCounter> = Arc::new(Failing);
    let call = Message::ai_calls([ToolCall::new("1", "look", "{}")]);
    for error in [
        shared.count(&Message::user("hi")).unwrap_err(),
        shared.count(&call).unwrap_err(),
        shared.fits("hi", 3).unwrap_err(),
        shared.fits(&"hi".repeat(1_000), 3).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Count);
        assert_eq!(error.to_string(), "count: the tokenizer is down");
    }
    assert_eq!(shared.count(&Message::user("")).unwrap(), 4); // nothing to ask it
}

/// Says something else than the defaults everywhere.
struct Odd;

impl TokenCounter for Odd {
    fn count_text(&self, _: &str) -> Result<usize> {
        Ok(1)
    }
    fn fits(&self, _: &str, _: usize) -> Result<Option<usize>> {
        Ok(Some(2))
    }
    fn count(&self, _: &Message) -> Result<usize> {
        Ok(3)
    }
    fn count_media(&self, _: &Part) -> Result<usize> {
        Ok(4)
    }
    fn overhead(&self) -> Overhead {
        let mut overhead = Overhead::default();
        overhead.message = 5;
        overhead
    }
}

#[test]
fn a_shared_counter_is_the_counter() {
    let shared: Arc<dyn TokenCounter> = Arc::new(Arc::new(Odd));
    assert_eq!(shared.count_text("abc").unwrap(), 1);
    assert_eq!(shared.fits("abc", 0).unwrap(), Some(2));
    assert_eq!(shared.count(&Message::user("abc")).unwrap(), 3);
    assert_eq!(shared.count_media(&Part::text("abc")).unwrap(), 4);
    assert_eq!(shared.overhead().message, 5);
}

/// A name, its text, and the exact counts of all of it and of its two halves.
fn corpora() -> Vec<(String, [String; 3], [usize; 3])> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/corpus");
    let counts = std::fs::read_to_string(format!("{folder}/o200k.tsv")).unwrap();
    let line = |line: &str| {
        let (name, counts) = line.split_once('\t').unwrap();
        let text = std::fs::read_to_string(format!("{folder}/{name}.txt")).unwrap();
        let paragraphs: Vec<&str> = text.split("\n\n").collect();
        let (first, second) = paragraphs.split_at(paragraphs.len().div_ceil(2));
        let texts = [first.join("\n\n"), second.join("\n\n")];
        let [first, second] = texts;
        let counts: Vec<usize> = counts.split('\t').map(|n| n.parse().unwrap()).collect();
        (name.to_owned(), [text, first, second], counts.try_into().unwrap())
    };
    counts.lines().map(line).collect()
}

/// Definitions as applications and servers of tools write them.
fn tools() -> Vec<Tool> {
    let file = include_str!("../data/corpus/tools.json");
    let all: Vec<serde_json::Value> = serde_json::from_str(file).unwrap();
    let tool = |it: serde_json::Value| {
        let text = |key: &str| it[key].as_str().unwrap().to_owned();
        Tool::new(text("name"), text("description")).parameters(it["parameters"].clone())
    };
    all.into_iter().map(tool).collect()
}

#[test]
fn tools_count_what_a_budget_counts() {
    let scalars: fn(&str) -> usize = scalars;
    let tools = tools();
    let each = tools.iter().map(|tool| scalars.count_tools(std::slice::from_ref(tool)).unwrap());
    assert_eq!(each.sum::<usize>(), scalars.count_tools(&tools).unwrap());
    assert_eq!(scalars.count_tools(&[]).unwrap(), 0);
    assert!(scalars.count_tools(&tools).unwrap() > 3_000);
}

/// Within 15 percent.
fn is_close(counted: usize, exact: usize) -> bool {
    counted.abs_diff(exact) * 100 <= exact * 15
}

#[test]
fn the_estimate_is_within_15_percent_on_each_corpus_and_on_each_half_of_it() {
    let corpora = corpora();
    for required in ["english", "chinese", "japanese", "korean", "emoji", "code"] {
        assert!(corpora.iter().any(|(name, ..)| name == required));
    }
    for (name, texts, exact) in corpora {
        for (text, exact) in texts.iter().zip(exact) {
            let estimate = Estimate.count_text(text).unwrap();
            assert!(is_close(estimate, exact), "{name}: {estimate}, not {exact}");
        }
    }
}

#[cfg(feature = "bpe")]
mod bpe {
    use memory_prompt::Composer;
    use memory_prompt::provider::Format;
    use memory_prompt::record::Snapshot;
    use memory_prompt::token::{Bpe, SEAM};
    use memory_prompt::wire::Request;

    use super::*;
    use crate::setups::Drawn;

    #[test]
    fn the_counts_beside_the_corpora_are_true() {
        for (name, texts, exact) in corpora() {
            let counts = texts.map(|text| Bpe::o200k().count_text(&text).unwrap());
            assert_eq!(counts, exact, "{name}");
        }
    }

    /// What is counted is what is sent: the JSON in a request's body, one definition and all.
    #[test]
    fn the_estimate_of_tools_is_within_15_percent_of_their_json() {
        let tools = tools();
        let prompt = Composer::new().compose_all(&Snapshot::default(), &[]).unwrap();
        let sent = |tools: &[Tool]| {
            // As it is written, and not with the keys sorted.
            let body = serde_json::to_string(&Request::new(&prompt).tools(tools)).unwrap();
            let (_, json) = body.split_once("\"tools\":").unwrap();
            Bpe::o200k().count_text(json.strip_suffix('}').unwrap()).unwrap()
        };
        for some in tools.chunks(1).chain([&tools[..]]) {
            let (estimate, exact) = (Estimate.count_tools(some).unwrap(), sent(some));
            let told = format!("{} tools from {}: {estimate}", some.len(), some[0].name());
            assert!(is_close(estimate, exact), "{told}, not {exact}");
            println!("{told}, exactly {exact}");
        }
    }

    /// Tools counted as they were given and not as they are sent: a strict schema says more (each
    /// property required, `null` beside what was optional), Gemini is sent a part of it, a name
    /// that a provider refuses becomes a longer one, and each format wraps it in words of its own.
    /// A budget was short by up to a third.
    #[test]
    fn a_budget_counts_tools_as_they_are_sent() {
        let tools = tools();
        let own = [
            Tool::new("a", "Short."),
            Tool::new("my.tool/é", "A name that few providers take."),
            Tool::new("9".repeat(120), "A long one.").parameters(serde_json::json!({
                "type": "object",
                "properties": {
                    "a": {"type": "string", "minLength": 1, "examples": ["x"]},
                    "b": {"type": "integer", "exclusiveMinimum": 3, "$comment": "never below"},
                    "c": {"oneOf": [{"type": "string"}, {"type": "number"}]},
                },
            })),
        ];
        let history = Snapshot::from_messages([Message::user("q")]);
        let (mut counted, mut strict_ones, mut worst) = (0, 0, 0);
        for provider in crate::setups::all() {
            for strict in [false, true] {
                let all = tools.iter().chain(&own).cloned();
                let all = all.map(|tool| tool.with_if(strict, Tool::strict));
                let prompt = Composer::new().for_provider(provider);
                let prompt = prompt.compose_all(&history, &[]).unwrap();
                let is_taken = |tool: &Tool| {
                    let tools = std::slice::from_ref(tool);
                    Request::new(&prompt).max_tokens(9).tools(tools).check().is_ok()
                };
                let sendable: Vec<_> = all.filter(is_taken).collect();
                for some in sendable.chunks(1).chain([&sendable[..]]) {
                    let composer = Composer::new().for_provider(provider).tools(some.to_vec());
                    let count = |composer: Composer| {
                        let prompt = composer.compose_all(&history, &[]).unwrap();
                        let mut request = Request::new(&prompt);
                        if provider.format() == Format::Anthropic {
                            request = request.max_tokens(9);
                        }
                        let body = serde_json::to_string(&request).unwrap();
                        let (_, json) = body.split_once("\"tools\":").unwrap();
                        let behind = [",\"store\":false}", ",\"stream\":false}", "}"];
                        let json = behind.iter().find_map(|it| json.strip_suffix(it)).unwrap();
                        let exact = Bpe::o200k().count_text(json).unwrap();
                        (prompt.report().tokens.unwrap().tools, exact)
                    };
                    let by = [
                        count(composer.clone().max_tokens(1_000_000, Bpe::o200k())),
                        count(composer.max_tokens(1_000_000, Estimate)),
                    ];
                    for (counted, exact) in by {
                        let some = format!("{} from {}", some.len(), some[0].name());
                        let told = format!("{provider}, strict {strict}, {some}: {counted}");
                        assert!(is_close(counted, exact), "{told}, not {exact}");
                    }
                    worst = worst.max(by[0].0.abs_diff(by[0].1) * 1000 / by[0].1);
                    counted += 1;
                    strict_ones += usize::from(strict);
                }
            }
        }
        println!("{counted} lists of tools, {strict_ones} strict; at most {worst} permille off");
        assert!(strict_ones > 200, "{strict_ones}");
    }

    /// The numbers that OpenAI's own `tiktoken` gives.
    #[test]
    fn the_vocabularies_are_openais() {
        for (text, o200k, cl100k) in [
            ("", 0, 0),
            ("tiktoken is great!", 6, 6),
            ("antidisestablishmentarianism", 6, 6),
            ("2 + 2 = 4", 7, 7),
            ("お誕生日おめでとう", 8, 9),
            ("<|endoftext|>", 7, 7),
        ] {
            assert_eq!(Bpe::o200k().count_text(text).unwrap(), o200k, "{text}");
            assert_eq!(Bpe::cl100k().count_text(text).unwrap(), cl100k, "{text}");
        }
        assert_eq!(format!("{:?}", Bpe::o200k()), r#"Bpe("o200k")"#);
    }

    #[test]
    fn a_word_of_ten_megabytes_is_refused_at_once() {
        for text in ["a", " ", "-", "漢"] {
            let long = text.repeat(10_000_000 / text.len());
            assert_eq!(Bpe::o200k().fits(&long, 1_000).unwrap(), None);
        }
    }

    counted! {
        #![cases(256, regressions())]

        #[test]
        fn what_fits_is_what_counts_no_more(text in text()) {
            fits_agrees(&Bpe::o200k(), &text);
            fits_agrees(&Bpe::cl100k(), &text);
        }

        /// The contract that the default of `fits` stands on.
        #[test]
        fn a_beginning_counts_no_more_than_the_seam_above_the_whole(text in text()) {
            let all = Bpe::o200k().count_text(&text).unwrap();
            for (at, _) in text.char_indices() {
                prop_assert!(Bpe::o200k().count_text(&text[..at]).unwrap() <= all + SEAM);
            }
        }
    }
}

#[cfg(feature = "tokenizers")]
mod hugging_face {
    use std::error::Error as _;

    use memory_prompt::token::HuggingFace;

    use super::*;

    /// Words, at most 2 of them, always 8: as files from training runs ask for.
    const JSON: &str = r#"{
        "truncation": {"max_length": 2, "strategy": "LongestFirst", "stride": 0, "direction": "Right"},
        "padding": {"strategy": {"Fixed": 8}, "direction": "Right", "pad_to_multiple_of": null,
            "pad_id": 0, "pad_type_id": 0, "pad_token": "[PAD]"},
        "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"[PAD]": 0, "[UNK]": 1, "a": 2}, "unk_token": "[UNK]"}
    }"#;

    #[test]
    fn truncation_and_padding_of_the_file_do_not_change_a_count() {
        let counter = HuggingFace::from_bytes(JSON.as_bytes()).unwrap();
        for words in [0, 1, 5, 20] {
            assert_eq!(counter.count_text(&"a ".repeat(words)).unwrap(), words);
        }
        fits_agrees(&counter, "a b, c! d");
        assert_eq!(format!("{counter:?}"), "HuggingFace { vocabulary: 3 }");
    }

    #[test]
    fn what_is_not_a_tokenizer_is_refused_with_the_cause() {
        for json in [&b""[..], b"{}", b"[]", b"\xff", &JSON.as_bytes()[..300]] {
            let error = HuggingFace::from_bytes(json).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Invalid);
            assert!(error.source().is_some());
        }
        let error = HuggingFace::from_file(env!("CARGO_MANIFEST_DIR")).unwrap_err();
        assert!(error.to_string().starts_with("tokenizer: can't read a tokenizer from "));
    }

    #[test]
    fn a_file_is_read() {
        let path = std::env::temp_dir().join(format!("memory-prompt-{}.json", std::process::id()));
        std::fs::write(&path, JSON).unwrap();
        let counter = HuggingFace::from_file(&path);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(counter.unwrap().count_text("a a a").unwrap(), 3);
    }

    /// A token that the model does not know, and has no word for.
    #[test]
    fn a_text_that_the_model_refuses_is_an_error() {
        let json = JSON.replace(r#""unk_token": "[UNK]""#, r#""unk_token": "<none>""#);
        let counter = HuggingFace::from_bytes(json.as_bytes()).unwrap();
        assert_eq!(counter.count_text("z").unwrap_err().kind(), ErrorKind::Count);
    }
}
