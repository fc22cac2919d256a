//! The page tells apart where messages come from, and can be read.
#![cfg(feature = "inspect")]
#![allow(clippy::unwrap_used, missing_docs)] // a test that panics has failed

use std::collections::BTreeMap;

use memory_prompt::compose::Notice;
use memory_prompt::conversation::{ModelSummarizer, Scripted};
use memory_prompt::inspect::Inspector;
use memory_prompt::summary::CompactionPolicy;
use memory_prompt::token::Estimate;
use memory_prompt::{
    Budget, Clear, DefaultChatMemory, MemoryPrompt, Message, Prompt, Provider, Recall, Tool,
    ToolCall,
};

/// Returns a prompt to which everything has come from which a message can come.
fn of_every_origin() -> (MemoryPrompt, Prompt) {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .system("You book rooms.")
        .max_messages(6)
        .summary_reach(12)
        .with_pins()
        .with_summary()
        .notice(Notice::new())
        .tools([Tool::new("search", "Looks for rooms.")])
        .recall(Recall::words().tokens(100).least_score(0.0)) // all of it says much the same
        .clear(Clear::tool_results().keep(1).step(1))
        .max_tokens(Budget::new(2_000).reserve(700), Estimate);
    let pinned = prompt.add(Message::user("My sister Ada lives near the harbour.")).unwrap();
    let turn = |text: String| [Message::user(text), Message::ai("yes")];
    prompt.add_all((0..10).flat_map(|i| turn(format!("question {i}")))).unwrap();
    prompt.pin(pinned).unwrap();
    let model = Scripted::new().says("Twenty questions about the harbour.");
    let policy = CompactionPolicy::messages(4, 4).unwrap();
    assert!(prompt.compact(&policy, &ModelSummarizer::new(model)).unwrap());
    prompt.add_all((0..10).flat_map(|i| turn(format!("the harbour of Ada, {i}")))).unwrap();
    for id in ["a", "b", "lost"] {
        prompt.add(Message::ai_calls([ToolCall::new(id, "search", "{}")])).unwrap();
        if id != "lost" {
            prompt.add(Message::tool(id, "search", "Harbour. ".repeat(40))).unwrap();
        }
    }
    prompt.add(Message::user("Where is the harbour of Ada?")).unwrap();
    prompt.add_temporary(Message::user("(Today is Friday.)"));
    let built = prompt.build().unwrap();
    (prompt, built)
}

/// Recall was shown as one more temporary message, a notice as a repair, and nothing of the tokens
/// that are reserved.
#[test]
fn every_origin_has_its_share_of_the_bar() {
    let (_, built) = of_every_origin();
    let page = built.html();
    let legend = page.split("aria-label=\"tokens by origin\">").nth(1).unwrap();
    let legend = legend.split("</ul>").next().unwrap();
    let shares = legend.split("<li class=\"").skip(1).map(|it| {
        let (name, rest) = it.split_once("\">").unwrap();
        let (told, count) = rest.split_once("</li>").unwrap().0.split_once(' ').unwrap();
        assert_eq!(name, told);
        (name, count.replace(',', "").parse().unwrap())
    });
    let shares: BTreeMap<&str, usize> = shares.collect();
    let names: Vec<&str> = shares.keys().copied().collect();
    let expected =
        "added free pin recall repair reply reserve summary system temporary tools window";
    assert_eq!(names.join(" "), expected, "{}", built.report());
    assert_eq!(shares.values().sum::<usize>(), 2_000, "the whole budget");
    assert_eq!(shares["reserve"], 700);
    let report = built.report();
    let last = *report.message_tokens.last().unwrap();
    assert_eq!(shares["recall"], last);
    let positions: Vec<String> = report.recalled.iter().map(|it| it.position.to_string()).collect();
    assert!(page.contains(&format!("recalled: quotes {}</p>", positions.join(", "))));
    assert!(page.contains(&format!("in place of {} before ", report.covered)));
    assert!(page.contains("cleared from 360 to "));
}

/// Of what a window had passed the page told a number, and nobody could see which messages it was.
#[test]
fn what_is_before_the_window_is_named_by_positions() {
    let (_, built) = of_every_origin();
    let (page, outline) = (built.html(), built.outline().to_string());
    let unsent: Vec<u64> = (0..built.report().window)
        .filter(|position| matches!(built.fate(*position).word(), "before the window" | "covered"))
        .collect();
    assert!(unsent.len() > 10, "{outline}");
    let is_named = |shown: &str, position: u64, fate: &str| {
        shown.split(['\n', '>', '<']).any(|line| {
            let line = line.trim().trim_start_matches("left out: ");
            let Some((which, why)) = line.split_once(": ") else { return false };
            let (first, last) = which.split_once(" to ").unwrap_or((which, which));
            let ends = first.parse::<u64>().ok().zip(last.parse::<u64>().ok());
            ends.is_some_and(|(first, last)| (first..=last).contains(&position)) && why == fate
        })
    };
    for position in unsent {
        let fate = built.fate(position).to_string();
        assert!(is_named(&outline, position, &fate), "{position}: {fate}\n{outline}");
        assert!(is_named(&page, position, &fate), "{position}: {fate}\n{page}");
    }
}

/// If a provider wants one message of the user, what is recalled is joined to the question.
#[test]
fn a_message_that_quotes_says_so_where_it_is_joined() {
    let (mut prompt, _) = of_every_origin();
    prompt = prompt.for_provider(Provider::Anthropic);
    prompt.add(Message::user("Where is the harbour of Ada?")).unwrap();
    let built = prompt.build().unwrap();
    assert!(!built.report().recalled.is_empty());
    assert_eq!(built.html().matches("recalled: quotes ").count(), 1, "{}", built.html());
}

/// A link of the strip led to a prompt that stayed closed: a browser opens what is linked to where
/// it stands in the closed element, and the link went to the element around it.
#[test]
fn a_link_leads_into_what_it_opens() {
    let (_, built) = of_every_origin();
    let page = Inspector::new().push(&built, None).push(&built, None).html();
    for section in page.split("<section>").skip(1) {
        let (_, inside) = section.split_once("</summary>").unwrap();
        let (_, id) = inside.split_once(" id=\"").unwrap();
        let (id, _) = id.split_once('"').unwrap();
        assert!(page.contains(&format!("<a href=\"#{id}\">")), "{id}");
    }
}

/// The word "cached" had 3.86 against its ground in the light, and people need 4.5.
#[test]
fn words_and_colours_stand_out_from_their_ground() {
    let css = include_str!("../../src/inspect/page.css");
    let schemes = css.split(":root{").skip(1).map(|root| {
        let colours = root.split_once('}').unwrap().0.split([';', '\n']);
        let colours = colours.filter_map(|it| it.strip_prefix("--")?.split_once(':'));
        colours.map(|(name, colour)| (name, luminance(colour))).collect()
    });
    let schemes: Vec<BTreeMap<&str, f64>> =
        schemes.filter(|it: &BTreeMap<_, _>| !it.is_empty()).collect();
    assert_eq!(schemes.len(), 2, "light and dark");
    let contrast = |a: f64, b: f64| (a.max(b) + 0.05) / (a.min(b) + 0.05);
    for scheme in schemes {
        for (name, colour) in &scheme {
            let least = match *name {
                "text" | "grey" | "note" | "bad" | "cached" => 4.5,
                "back" | "soft" | "line" | "free" => continue, // grounds, and what is empty
                _ => 3.0,
            };
            for ground in ["back", "soft"] {
                let contrast = contrast(*colour, scheme[ground]);
                assert!(contrast >= least, "{name} has {contrast:.2} on {ground}");
            }
        }
    }
}

/// Returns the relative luminance of a colour, as WCAG 2 defines it.
fn luminance(colour: &str) -> f64 {
    let digits = colour.strip_prefix('#').unwrap();
    let double = if digits.len() == 3 { 2 } else { 1 };
    let digits: String =
        digits.chars().flat_map(|digit| std::iter::repeat_n(digit, double)).collect();
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&digits[at..at + 2], 16).unwrap()) / 255.0;
        if value <= 0.03928 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
}
