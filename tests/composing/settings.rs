//! Settings in configuration files: written and read again they are equal, and what makes no sense
//! is refused as it is in code.

#![allow(clippy::needless_pass_by_value, clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

use std::fmt::Debug;

use crate::counted::counted;
use crate::setups::{Drawn, PROVIDERS};
use memory_prompt::compose::{Notice, Placement};
use memory_prompt::text::{Keep, Unit};
use memory_prompt::window::{Prices, ToolGroups};
use memory_prompt::{Budget, Clear, Message, Truncate, Window};
use proptest::prelude::*;
use proptest::sample::select;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const KEEPS: [Keep; 3] = [Keep::Head, Keep::Tail, Keep::Ends];
const UNITS: [Unit; 4] = [Unit::Graphemes, Unit::Scalars, Unit::Utf16, Unit::Bytes];
const PLACES: [Placement; 3] = [Placement::End, Placement::BeforeLastUser, Placement::AfterSystem];
const GROUPS: [ToolGroups; 3] = [ToolGroups::Repair, ToolGroups::FailOnRepair, ToolGroups::Off];
fn numbers() -> impl Strategy<Value = usize> {
    // TOML has no number beyond this one.
    let most = usize::try_from(i64::MAX).unwrap_or(usize::MAX);
    prop_oneof![4 => 0usize..100, 1 => 0..most, 1 => Just(most)]
}

fn windows() -> impl Strategy<Value = Window> {
    let kind = prop_oneof![
        numbers().prop_map(Window::last),
        numbers().prop_map(Window::turns),
        Just(Window::all()),
        (numbers(), numbers())
            .prop_map(|(low, step)| { Window::stepped(low.max(1), step.max(1)).unwrap() }),
        (1usize..100, 0.01..10.0, 0.01..10.0).prop_map(|(low, write, read)| {
            Window::stepped_for(low, Prices { write, read }).unwrap()
        }),
    ];
    (kind, any::<[bool; 2]>()).prop_map(|(window, [user, exactly])| {
        let window = window.with_if(user, Window::starting_with_user);
        window.with_if(exactly, Window::exactly)
    })
}

/// Budgets that leave something for a prompt.
fn budgets() -> impl Strategy<Value = Budget> {
    (1usize..100_000, 0usize..100_000, any::<[u16; 2]>(), any::<[bool; 2]>()).prop_map(
        |(tokens, reserve, marks, [marked, cut_first])| {
            let [low, high] = marks.map(usize::from);
            Budget::new(tokens)
                .reserve(reserve % tokens)
                .with_if(marked, |it| it.stepped(low, high).unwrap_or(it))
                .with_if(cut_first, Budget::cut_before_drop)
        },
    )
}

fn truncations() -> impl Strategy<Value = Truncate> {
    let marker = prop_oneof![Just(None), any::<String>().prop_map(Some)];
    (numbers(), select(&UNITS[..]), select(&KEEPS[..]), marker, any::<[bool; 2]>()).prop_map(
        |(limit, unit, keep, marker, [bounded, spares])| {
            let truncate = Truncate::new(limit.max(1), unit).unwrap().keep(keep);
            truncate
                .with_some(marker, Truncate::marker)
                .with_if(bounded, Truncate::bounded)
                .with_if(spares, Truncate::sparing_question)
        },
    )
}

fn clearings() -> impl Strategy<Value = Clear> {
    let names = proptest::collection::vec(any::<String>(), 0..3);
    let text = proptest::option::of(any::<String>());
    (0usize..3, [numbers(), numbers(), numbers()], proptest::option::of(numbers()), names, text)
        .prop_map(|(what, [keep, step, longer_than], over, names, text)| {
            let clear = match what {
                0 => Clear::tool_results(),
                1 => Clear::media(),
                _ => Clear::tool_results().and_media(),
            };
            let clear = clear.keep(keep).step(step as u64).longer_than(longer_than).except(names);
            clear.with_some(over, Clear::over).with_some(text, Clear::placeholder)
        })
}

/// The same setting, read from a text, from a tree, and from inside other data.
fn again<T: Serialize + DeserializeOwned>(setting: &T) -> [T; 3] {
    #[derive(serde::Deserialize)]
    struct Flat<T> {
        #[serde(flatten)]
        inside: Inside<T>,
    }
    #[derive(serde::Deserialize)]
    struct Inside<T> {
        setting: T,
    }
    let text = serde_json::to_string(setting).unwrap();
    let tree = json!(setting);
    assert!(!text.contains("null"), "TOML has no null: {text}");
    let flat: Flat<T> = serde_json::from_value(json!({"setting": tree.clone()})).unwrap();
    [
        serde_json::from_str(&text).unwrap(),
        serde_json::from_value(tree).unwrap(),
        flat.inside.setting,
    ]
}

fn is_again<T: Serialize + DeserializeOwned + PartialEq + Debug>(setting: T) {
    for read in again(&setting) {
        assert_eq!(read, setting);
    }
}

fn refusal<T: DeserializeOwned>(value: Value) -> String {
    match serde_json::from_value::<T>(value.clone()) {
        Ok(_) => panic!("{value} was read"),
        Err(error) => error.to_string(),
    }
}

/// The reason of an error, without the operation in front.
fn reason(error: &memory_prompt::Error) -> String {
    let text = error.to_string();
    text.split_once(": ").map(|(_, reason)| reason.to_owned()).unwrap()
}

counted! {
    #![cases(512)]

    /// Settings could be written and not read, so that none could stand in a file.
    #[test]
    fn written_and_read_again_is_equal(
        window in windows(), budget in budgets(), truncate in truncations(),
        prices in (0.001..1e6, f64::MIN_POSITIVE..1.0).prop_map(|(write, read)| Prices { write, read }),
    ) {
        is_again(window);
        is_again(budget);
        is_again(prices);
        for read in again(&truncate) {
            prop_assert_eq!(format!("{read:?}"), format!("{truncate:?}"));
        }
    }

    #[test]
    fn what_the_methods_refuse_is_refused_with_the_same_reason(
        [low, high, tokens, reserve] in proptest::array::uniform4(0usize..6),
        write in select(&[-1.0, 0.0, 0.5, 1e300][..]), read in select(&[-0.0, 0.1, 1e-300][..]),
    ) {
        let json = json!({"stepped": {"low": low, "step": high}});
        match Window::stepped(low, high) {
            Ok(window) => prop_assert_eq!(serde_json::from_value::<Window>(json).unwrap(), window),
            Err(e) => prop_assert_eq!(
                refusal::<Window>(json), format!("window: `stepped`: {}", reason(&e))
            ),
        }
        let prices = Prices { write, read };
        let json = json!({"stepped": {"low": low, "prices": {"write": write, "read": read}}});
        match Window::stepped_for(low, prices) {
            Ok(window) => prop_assert_eq!(serde_json::from_value::<Window>(json).unwrap(), window),
            Err(e) => prop_assert!(refusal::<Window>(json).ends_with(&reason(&e))),
        }
        match Truncate::chars(low) {
            Ok(_) => drop(serde_json::from_value::<Truncate>(json!({"limit": low})).unwrap()),
            Err(e) => prop_assert_eq!(
                refusal::<Truncate>(json!({"limit": low})), format!("truncate: `limit`: {}", reason(&e))
            ),
        }
        let json = json!({"tokens": tokens, "reserve": reserve, "stepped": {"low": low, "high": high}});
        match Budget::new(tokens).reserve(reserve).stepped(low, high) {
            Ok(budget) => prop_assert_eq!(serde_json::from_value::<Budget>(json).unwrap(), budget),
            Err(e) if reserve < tokens => prop_assert_eq!(
                refusal::<Budget>(json), format!("budget: `stepped`: {}", reason(&e))
            ),
            Err(_) => prop_assert!(refusal::<Budget>(json).starts_with("budget: `")),
        }
    }
}

#[test]
fn names_are_what_a_person_would_write() {
    fn named<T: Serialize + DeserializeOwned + PartialEq + Debug + Copy>(all: &[T], names: &str) {
        let names: Vec<_> = names.split_whitespace().collect();
        for (setting, name) in all.iter().zip(&names) {
            assert_eq!(json!(setting), json!(name));
            is_again(*setting);
        }
        assert_eq!(all.len(), names.len());
        let error = refusal::<T>(json!("Edn"));
        assert!(error.starts_with("unknown variant `Edn`, expected"), "{error}");
    }
    named(&KEEPS, "head tail ends");
    named(&UNITS, "graphemes scalars utf16 bytes");
    named(&PLACES, "end before_last_user after_system");
    named(&GROUPS, "repair fail_on_repair off");
    let servers = "openai openai_responses azure anthropic claude_on_bedrock claude_on_vertex
        gemini vertex google_openai mistral deepseek groq openrouter xai litellm ollama vllm
        llama_cpp openai_compatible strict_template";
    named(&PROVIDERS, servers);
    for (window, json) in [
        (Window::last(20), json!({"last": 20})),
        (Window::turns(5).starting_with_user(), json!({"turns": 5, "starting_with_user": true})),
        (Window::all(), json!("all")),
        (Window::all().exactly(), json!({"all": true, "exactly": true})),
        (Window::stepped(40, 38).unwrap(), json!({"stepped": {"low": 40, "step": 38}})),
    ] {
        assert_eq!(json!(window), json);
        is_again(window);
    }
    let budget = Budget::new(8000).reserve(1500).stepped(3000, 6000).unwrap().cut_before_drop();
    let expected = json!({"tokens": 8000, "reserve": 1500, "stepped": {"low": 3000, "high": 6000}, "cut_before_drop": true});
    assert_eq!(json!(budget), expected);
    assert_eq!(serde_json::from_value::<Budget>(json!(8000)).unwrap(), Budget::new(8000));
    let truncate = Truncate::new(800, Unit::Bytes).unwrap().keep(Keep::Ends).marker("…").bounded();
    let expected =
        json!({"limit": 800, "unit": "bytes", "keep": "ends", "marker": "…", "bounded": true});
    assert_eq!(json!(&truncate), expected);
    assert_eq!(json!(Truncate::default()), json!({"limit": 1000}));
}

#[test]
fn errors_name_the_field() {
    let table = r#"
        window {} => window: one of `last`, `turns`, `all`, `stepped` is needed
        window {"last": 2, "turns": 1} => window: only one of `last`, `turns`, `all`, `stepped`
        window {"last": 2, "anchord": true} => unknown field `anchord`, expected one of `last`, `turns`, `all`, `stepped`, `starting_with_user`, `exactly`
        window {"stepped": {"low": 0, "step": 1}} => window: `stepped`: a low mark of 0 would leave no messages
        window {"stepped": {"low": 1}} => window: `stepped`: either `step` or `prices` is needed
        window "everything" => unknown variant `everything`, expected `all`
        window 20 => invalid type: integer `20`, expected a window: `all`, or an object with `last`, `turns`, `all` or `stepped`
        budget {"tokens": 100, "stepped": {"low": 50, "high": 40}} => budget: `stepped`: low and high must be 0 < low < high <= 100, and are 50 and 40
        budget 0 => budget: `tokens`: a budget of 0 has no room for a prompt
        budget {"tokens": 10, "reserve": 10} => budget: `reserve`: a reserve of 10 leaves nothing of 10 tokens
        budget {"reserve": 10} => missing field `tokens`
        budget {"tokens": 10, "max": 3} => unknown field `max`, expected one of `tokens`, `reserve`, `stepped`, `cut_before_drop`
        truncate {"limit": 0} => truncate: `limit`: a limit of 0 would leave no text
        truncate {"keep": "head"} => missing field `limit`
        truncate {"limit": 5, "processor": "x"} => unknown field `processor`, expected one of `limit`, `unit`, `keep`, `marker`, `bounded`, `sparing_question`
        prices {"write": 0.0, "read": 0.1} => window: `prices`: the write price is 0, which is not a positive number
        prices {"write": 1, "read": 0.1, "unit": "eur"} => unknown field `unit`, expected `write` or `read`
    "#;
    for row in table.lines().filter(|row| row.contains(" => ")) {
        let (setting, expected) = row.split_once(" => ").unwrap();
        let (kind, json) = setting.trim().split_once(' ').unwrap();
        let refusal = match kind {
            "window" => refusal::<Window>,
            "budget" => refusal::<Budget>,
            "truncate" => refusal::<Truncate>,
            _ => refusal::<Prices>,
        };
        assert_eq!(refusal(serde_json::from_str(json).unwrap()), expected, "{row}");
    }
}

#[test]
fn a_processor_can_not_be_written() {
    let truncate = Truncate::default().processor(|_: &Message| None);
    let error = serde_json::to_string(&truncate).unwrap_err();
    assert_eq!(error.to_string(), "truncate: a processor is code, and can't be written");
}

counted! {
    #![cases(256)]

    #[test]
    fn clearings_and_notices_are_read_as_they_were_written(
        clear in clearings(), text in any::<String>(), step in numbers(),
    ) {
        is_again(clear);
        is_again(Notice::new().text(text).step(step as u64));
    }
}

#[test]
fn clearings_say_what_is_wrong_with_them() {
    let read = |value| serde_json::from_value::<Clear>(value).unwrap();
    assert_eq!(read(json!({"results": true})), Clear::tool_results());
    assert_eq!(read(json!({"media": true, "keep": 1})), Clear::media().keep(1));
    assert_eq!(serde_json::from_value::<Notice>(json!({})).unwrap(), Notice::new());
    let refused = [
        (json!({}), "clear: one of `results` and `media` is needed"),
        (json!({"results": true, "keep": 0}), "clear: `keep`: a model is shown what it asked for"),
        (json!({"results": true, "step": 0}), "clear: `step`: a step of 0 would never move"),
        (json!({"results": true, "kept": 1}), "unknown field `kept`"),
        (json!(true), "expected a clearing: an object with `results` or `media`"),
    ];
    for (value, text) in refused {
        let refusal = refusal::<Clear>(value);
        assert!(refusal.contains(text), "{refusal}");
    }
    let text = "notice: `step`: a step of 0 would round to nothing";
    assert_eq!(refusal::<Notice>(json!({"step": 0})), text);
}
