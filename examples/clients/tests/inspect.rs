//! Hostile text never leaves its element: a page is read by the parser of a browser engine, and has
//! the same elements whatever was said.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs)] // a test that panics has failed

#[path = "../../../tests/common/counted.rs"]
mod counted;

use counted::cases;
use memory_prompt::inspect::Inspector;
use memory_prompt::message::ToolMessage;
use memory_prompt::report::Origin;
use memory_prompt::text::Keep;
use memory_prompt::{DefaultChatMemory, MemoryPrompt, Message, Prompt, ToolCall, Truncate};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use scraper::{Html, Node};

/// Pieces of what could end an element, begin one, or change how the rest is read.
const NASTY: &[&str] = &[
    "</pre>",
    "</summary>",
    "</details>",
    "</p>",
    "</li>",
    "</style>",
    "</main>",
    "</html>",
    "<pre>",
    "<script>document.title=1</script>",
    "<img src=x onerror=alert(1)>",
    "<!--",
    "-->",
    "<![CDATA[",
    "]]>",
    "&lt;",
    "&amp;",
    "&#60;",
    "&#x3c;script&#x3e;",
    "&",
    "<",
    ">",
    "\"",
    "'",
    "`",
    "=",
    "/",
    "\" onmouseover=\"alert(1)",
    "javascript:alert(1)",
    "<svg/onload=alert(1)>",
    "<plaintext>",
    "<textarea>",
    "<title>",
    "<template>",
    "<noscript>",
    "<iframe srcdoc=x>",
    "<base href=//x>",
    "\0",
    "\r",
    "\n",
    "\t",
    "\u{8}",
    "\u{b}",
    "\u{c}",
    "\u{1b}[31m",
    "\u{7f}",
    "\u{85}",
    "\u{9f}",
    "\u{202e}",
    "\u{2066}",
    "\u{200b}",
    "\u{feff}",
    "\u{fffe}",
    "\u{ffff}",
    "\u{10ffff}",
    "a",
    " ",
    "é",
    "漢",
    "👩‍👩‍👧‍👦",
    "<a href='",
    "</",
    "<!",
    "<?",
    "{",
    "}",
    "*/",
    "/*",
    "url(//x)",
];

fn text() -> impl Strategy<Value = String> {
    proptest::collection::vec(proptest::sample::select(NASTY), 0..12).prop_map(|all| all.concat())
}

/// A prompt in which each place of a text says one of these.
fn prompt(said: &[String]) -> Prompt {
    let said = |i: usize| said[i % said.len()].as_str();
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new())
        .system(format!("s{}", said(0)))
        .max_messages(20)
        .truncate(Truncate::chars(2_000).unwrap().keep(Keep::Ends).marker(format!("m{}", said(9))));
    let call = ToolCall::new(format!("c{}", said(1)), format!("n{}", said(2)), said(3));
    let result = ToolMessage::new(format!("c{}", said(1)), format!("n{}", said(2)), said(4));
    let unanswered = ToolCall::new(format!("d{}", said(6)), format!("n{}", said(7)), "{}");
    prompt.add(Message::user(format!("u{}", said(5)))).unwrap();
    prompt.add(Message::ai_calls([call])).unwrap();
    prompt.add(result).unwrap();
    prompt.add(Message::ai(format!("a{}{}", said(6), "long ".repeat(200)))).unwrap();
    prompt.add(Message::ai_calls([unanswered])).unwrap();
    prompt.add(Message::user(format!("u{}", said(7)))).unwrap();
    prompt.add(Message::ai(format!("l{}{}{}", said(2), "long ".repeat(1_000), said(3)))).unwrap();
    prompt.add_temporary(Message::user(format!("t{}", said(8))));
    prompt.build().unwrap()
}

/// Returns a number below a million as people write it.
fn grouped(number: usize) -> String {
    if number < 1_000 {
        number.to_string()
    } else {
        format!("{},{:03}", number / 1_000, number % 1_000)
    }
}

fn page(prompt: &Prompt) -> String {
    let mut inspector = Inspector::new();
    inspector.push(prompt, None).push(prompt, None);
    inspector.html()
}

/// Returns the elements of a page, each with the names of its attributes, and its parents by depth.
fn elements(page: &str) -> Vec<String> {
    let html = Html::parse_document(page);
    let mut found = Vec::new();
    for node in html.tree.root().descendants() {
        let depth = node.ancestors().count();
        match node.value() {
            Node::Element(element) => {
                let mut names: Vec<&str> = element.attrs().map(|(name, _)| name).collect();
                names.sort_unstable();
                found.push(format!("{depth} {} {names:?}", element.name()));
            }
            Node::Comment(_) | Node::ProcessingInstruction(_) => found.push("no element".into()),
            _ => {}
        }
    }
    found
}

#[test]
fn hostile_text_never_leaves_its_element() {
    let plain = elements(&page(&prompt(&["plain".to_owned()])));
    assert!(plain.len() > 60, "{plain:#?}");
    let config = Config { cases: cases(8_000), failure_persistence: None, ..Config::default() };
    let said = proptest::collection::vec(text(), 1..9);
    TestRunner::new(config)
        .run(&said, |said| {
            let prompt = prompt(&said);
            let page = page(&prompt);
            prop_assert_eq!(&elements(&page), &plain);
            // What was said can be read there, but for what HTML can't hold.
            let html = Html::parse_document(&page);
            let shown: String = html.root_element().text().collect();
            let without = |text: &str| -> String {
                let is_shown = |c: &char| !c.is_control() && !('\u{2400}'..='\u{2421}').contains(c);
                text.chars().filter(is_shown).collect()
            };
            let shown = without(&shown).replace('\u{fffd}', "");
            let gap = prompt.report().truncated[0].gap.unwrap();
            for (origin, message) in prompt.with_origins() {
                let text = message.text();
                // Our own words stand in the place of a cut.
                let is_cut = matches!(origin, Origin::Truncated(_));
                let (head, tail) = text.split_at(if is_cut { gap.at + gap.marker } else { 0 });
                for text in [head, tail] {
                    prop_assert!(shown.contains(&without(text)), "{:?}", text);
                }
            }
            prop_assert_eq!(prompt.report().truncated.len(), 1);
            let left_out = format!("{} bytes not sent", grouped(gap.left_out));
            prop_assert!(shown.contains(&left_out), "{}", left_out);
            Ok(())
        })
        .unwrap();
}

#[test]
fn a_page_is_small_and_quick() {
    let mut prompt = MemoryPrompt::new(DefaultChatMemory::new()).max_messages(1_000);
    prompt.add_all((0..1_000).map(|i| Message::user(format!("{i}")))).unwrap();
    let built = prompt.build().unwrap();
    let started = std::time::Instant::now();
    let page = built.html();
    println!("1,000 messages: {:?}, {} bytes", started.elapsed(), page.len());
    prompt.configure(|composer| composer.max_messages(100));
    let hundred = prompt.build().unwrap().html();
    assert!(hundred.len() < 40_000, "{} bytes around a hundred short messages", hundred.len());
    assert!(!page.contains("http:") && !page.contains("https:") && !page.contains("<script"));
}
